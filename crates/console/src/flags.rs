//! Generates command-line flags from descriptions of options: the only place that converts an [`OptionSpec`] to a `clap`
//! parser and its `--help` text.

use crate::number;
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use quipu::model::options::{Given, Kind, OptionSpec, Repeats};
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

/// A set of options that a verb offers as flags.
pub trait Flagged {
    /// The options, in the order of the help text.
    fn specs() -> Vec<OptionSpec>;
}

/// The flags of the set `S` that were given.
pub struct Flags<S> {
    given: Given,
    set: PhantomData<fn() -> S>,
}

impl<S> Flags<S> {
    /// Names and values, in command-line order.
    pub fn given(&self) -> &Given {
        &self.given
    }
}

impl<S> Default for Flags<S> {
    fn default() -> Flags<S> {
        Flags { given: Given::default(), set: PhantomData }
    }
}

impl<S> Clone for Flags<S> {
    fn clone(&self) -> Flags<S> {
        Flags { given: self.given.clone(), set: PhantomData }
    }
}

impl<S> fmt::Debug for Flags<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given.fmt(f)
    }
}

impl<S: Flagged> clap::Args for Flags<S> {
    fn augment_args(command: Command) -> Command {
        command.args(S::specs().iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::<S>::augment_args(command)
    }
}

impl<S: Flagged> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Flags<S>, clap::Error> {
        let mut values: Vec<(usize, &str, String)> = Vec::new();
        for spec in S::specs() {
            if is_switch(&spec) {
                if matches.get_flag(spec.name) {
                    let place = matches.indices_of(spec.name).and_then(|mut places| places.next());
                    values.push((place.unwrap_or(0), spec.name, "true".to_owned()));
                }
                continue;
            }
            let texts = matches.get_raw(spec.name).into_iter().flatten();
            let places = matches.indices_of(spec.name).into_iter().flatten();
            let texts = texts.zip(places);
            values.extend(texts.map(|(text, place)| (place, spec.name, text.to_string_lossy().into_owned())));
        }
        values.sort_by_key(|(place, ..)| *place);
        let given = values.into_iter().map(|(_, name, value)| (name, value)).collect();
        Ok(Flags { given, set: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Flags::from_arg_matches(matches)?;
        Ok(())
    }
}

/// True for a flag without a value.
fn is_switch(spec: &OptionSpec) -> bool {
    spec.kind == Kind::Flag && spec.value.is_empty()
}

/// The `clap` argument for an option.
fn arg(spec: &OptionSpec) -> Arg {
    let mut arg = Arg::new(spec.name).long(spec.name).help(help(spec)).conflicts_with_all(spec.excludes);
    if let Some(letter) = spec.short {
        arg = arg.short(letter);
    }
    if !spec.group.is_empty() {
        arg = arg.help_heading(spec.group);
    }
    if let Some(needed) = spec.needs {
        arg = arg.requires(needed);
    }
    if is_switch(spec) {
        return arg.action(ArgAction::SetTrue);
    }
    arg = match spec.repeats {
        Repeats::No => arg.action(ArgAction::Set),
        Repeats::Yes => arg.action(ArgAction::Append),
        Repeats::Commas => arg.action(ArgAction::Append).value_delimiter(','),
    };
    if let Some(bare) = spec.bare {
        arg = arg.num_args(0..=1).require_equals(true).default_missing_value(bare);
    }
    if let Kind::Choice(words) = spec.kind {
        // The list of values is hidden if the help text or the placeholder names them all.
        let says = |word: &&&str| spec.doc.contains(**word) || spec.value.contains(**word);
        arg = arg.ignore_case(true).hide_possible_values(words.iter().filter(says).count() == words.len());
    }
    arg.value_name(spec.value).value_parser(parser(spec))
}

/// The parser for values. It checks here so that errors name the flag; the same rules are applied again where the value is
/// used.
fn parser(spec: &OptionSpec) -> ValueParser {
    match spec.kind {
        Kind::Path => clap::value_parser!(PathBuf),
        Kind::Choice(words) => PossibleValuesParser::new(words).into(),
        Kind::Count if number::number(spec.default).is_ok() || spec.default.is_empty() => {
            ValueParser::from(number::number)
        }
        Kind::Range => ValueParser::from(number::range),
        Kind::Set => ValueParser::from(number::set),
        _ => {
            let spec = *spec;
            ValueParser::from(move |text: &str| match spec.check(text) {
                Ok(()) => Ok(text.to_owned()),
                Err(error) => Err(error.message().to_owned()),
            })
        }
    }
}

/// The help text: the sentence, and the default value.
fn help(spec: &OptionSpec) -> String {
    let mut help: String = match spec.doc.chars().next() {
        Some(first) => first.to_uppercase().chain(spec.doc.chars().skip(1)).collect(),
        None => String::new(),
    };
    if help.ends_with('.') {
        help.pop();
    }
    let is_word = !matches!(spec.kind, Kind::Text | Kind::Path | Kind::Set)
        && spec.check(spec.default).is_ok()
        && !matches!(spec.default, "" | "none" | "0" | "false" | "no");
    if is_word || spec.value == "LIST" {
        help.push_str(&format!(" [default: {}]", spec.default));
    }
    help
}

/// The union of several sets of options; the first description of a name counts.
pub fn union(sets: impl IntoIterator<Item = &'static [OptionSpec]>) -> Vec<OptionSpec> {
    let mut all: Vec<OptionSpec> = Vec::new();
    for spec in sets.into_iter().flatten() {
        if all.iter().all(|known| known.name != spec.name) {
            all.push(*spec);
        }
    }
    all
}

/// The options of `specs` with these names, in the order of `names`.
pub fn named(specs: &[OptionSpec], names: &[&str]) -> Vec<OptionSpec> {
    names.iter().filter_map(|name| specs.iter().find(|spec| spec.name == *name)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args as _;

    struct Sample;

    impl Flagged for Sample {
        fn specs() -> Vec<OptionSpec> {
            vec![
                OptionSpec::new("top", Kind::Count, "10", "how many rows to list."),
                OptionSpec::flag("bound", "compare"),
                OptionSpec::new("calls", Kind::Set, "*", "only these").repeated(),
                OptionSpec::new("blobs", Kind::Path, "", "a folder").bare("."),
                OptionSpec::new("size", Kind::Bytes, "32K", "a size"),
                OptionSpec::new("addr", Kind::Range, "", "addresses").listed(),
                OptionSpec::new("policy", Kind::Choice(&["LRU", "FIFO"]), "LRU", "which"),
            ]
        }
    }

    fn parse(line: &str) -> Result<Given, String> {
        let command = Flags::<Sample>::augment_args(Command::new("t"));
        let matches = command.try_get_matches_from(std::iter::once("t").chain(line.split_whitespace()));
        let matches = matches.map_err(|error| error.to_string())?;
        Ok(Flags::<Sample>::from_arg_matches(&matches).unwrap().given)
    }

    #[test]
    fn what_is_given_comes_in_its_order() {
        let given = parse("--calls 7 --bound --top 1k --calls 9 --blobs --addr 1..2,3").unwrap();
        let pairs: Vec<_> = given.iter().collect();
        assert_eq!(
            pairs,
            [
                ("calls", "7"),
                ("bound", "true"),
                ("top", "1k"),
                ("calls", "9"),
                ("blobs", "."),
                ("addr", "1..2"),
                ("addr", "3")
            ]
        );
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn values_are_checked_with_the_name_of_the_flag() {
        for (line, told) in [
            ("--top x", "for '--top <N>': expected a number such as 4096"),
            ("--size big", "for '--size <BYTES>': option `size` wants a number of bytes"),
            ("--policy LIFO", "for '--policy <NAME>'"),
            ("--addr 5..1", "the range `5..1` is empty"),
            ("--tpo 1", "unexpected argument '--tpo'"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(told), "{line}: {error}");
        }
        assert!(parse("--policy fifo --size 0x10K").is_ok());
    }

    #[test]
    fn options_of_one_name_are_of_one_kind() {
        // A verb merges the options of all formats, so options with the same name must have the same kind.
        let transforms = quipu::FORMATS.iter().flat_map(|format| format.transforms());
        let infos: Vec<_> = transforms.map(|transform| transform.info()).collect();
        for info in &infos {
            for other in infos.iter().filter(|other| other.name == info.name) {
                for spec in info.options {
                    let same = other.options.iter().find(|same| same.name == spec.name);
                    assert!(
                        same.is_none_or(|same| same.kind == spec.kind && same.repeats == spec.repeats),
                        "{}: {}",
                        info.name,
                        spec.name
                    );
                }
            }
        }
    }

    #[test]
    fn help_texts_are_sentences_with_defaults() {
        let help: Vec<String> = Sample::specs().iter().map(help).collect();
        assert_eq!(help[0], "How many rows to list [default: 10]");
        assert_eq!(help[1], "Compare");
        assert_eq!(help[4], "A size [default: 32K]");
    }
}
