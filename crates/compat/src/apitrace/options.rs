//! Parses the arguments after a verb like apitrace, which uses getopt for its own verbs and optparse for its scripts.
//!
//! Options and traces may be mixed; after `--`, all arguments are traces. `-o FILE` may be written `-oFILE`, single-letter
//! options may be joined, and a long name may be shortened to any unique prefix. The options of a verb are taken from the
//! text that [`help`] prints.

use super::help;
use quipu::model::Error;
use quipu_console::screen::{Result, Stop};

/// One option of a verb, parsed from `help`: `-t, --tool=TOOL`.
#[derive(Clone, Copy, Debug)]
struct Known {
    short: Option<char>,
    long: Option<&'static str>,
    value: Value,
}

/// Whether an option takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    None,
    /// Optional, and only after `=`, so only for long options.
    Optional,
    Needed,
}

impl Known {
    fn parse(text: &'static str) -> Known {
        let mut known = Known { short: None, long: None, value: Value::None };
        for spelling in text.split(", ") {
            let end = spelling.find(['=', '[', ' ']).unwrap_or(spelling.len());
            let (name, value) = spelling.split_at(end);
            match name.strip_prefix("--") {
                Some(long) => known.long = Some(long),
                None => known.short = name.chars().nth(1),
            }
            known.value = match value.chars().next() {
                None => known.value,
                Some('[') => Value::Optional,
                Some(_) => Value::Needed,
            };
        }
        known
    }

    /// Name used below: the long name, or the letter if there is none.
    fn name(&self) -> String {
        self.long
            .map_or_else(|| self.short.map_or_else(String::new, |letter| letter.to_string()), str::to_owned)
    }
}

/// Parsed arguments after a verb.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Options with their values in order, by long name, or by letter if there is none.
    pub(super) options: Vec<(String, Option<String>)>,
    /// All other arguments.
    pub(super) files: Vec<String>,
}

impl Words {
    /// Parses the arguments after `verb`.
    ///
    /// # Errors
    /// `Usage` if apitrace has no such option, or if it is malformed; `Unsupported`, with the reason, if apitrace has it but
    /// we do not.
    pub(super) fn parse(verb: &str, args: &[String]) -> Result<Words> {
        let known: Vec<Known> = help::options(verb).map(Known::parse).collect();
        let (mut words, mut args) = (Words::default(), args.iter());
        while let Some(arg) = args.next() {
            if arg == "--" {
                words.files.extend(args.by_ref().cloned());
            } else if let Some(option) = arg.strip_prefix("--") {
                let (name, value) = match option.split_once('=') {
                    Some((name, value)) => (name, Some(value.to_owned())),
                    None => (option, None),
                };
                let found = long(verb, &known, name)?;
                let value = match (found.value, value) {
                    (Value::None, Some(_)) => {
                        return Err(wrong(verb, &format!("`--{}` has no value", found.name())));
                    }
                    (Value::Needed, None) => Some(needed(verb, &format!("--{}", found.name()), args.next())?),
                    (_, value) => value,
                };
                words.add(verb, found, value)?;
            } else if arg.starts_with('-') && arg.len() > 1 {
                let mut letters = arg[1..].chars();
                while let Some(letter) = letters.next() {
                    let found = known.iter().find(|known| known.short == Some(letter));
                    let found = found.ok_or_else(|| unknown(verb, &format!("-{letter}")))?;
                    let value = match found.value {
                        Value::None | Value::Optional => None,
                        Value::Needed => {
                            let rest = Some(letters.as_str().to_owned()).filter(|rest| !rest.is_empty());
                            letters = "".chars();
                            Some(needed(verb, &format!("-{letter}"), rest.as_ref().or_else(|| args.next()))?)
                        }
                    };
                    words.add(verb, found, value)?;
                }
            } else {
                words.files.push(arg.clone());
            }
        }
        Ok(words)
    }

    /// Whether an option is present.
    pub(super) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option == name)
    }

    fn add(&mut self, verb: &str, known: &Known, value: Option<String>) -> Result<()> {
        if help::refusal(verb, &known.name()).is_some() {
            let name = known.name();
            let dashes = if name.len() > 1 { "--" } else { "-" };
            return Err(unknown(verb, &format!("{dashes}{name}")));
        }
        self.options.push((known.name(), value));
        Ok(())
    }
}

/// The option with this long name, or with a long name that it abbreviates.
fn long<'k>(verb: &str, known: &'k [Known], name: &str) -> Result<&'k Known> {
    let is_exact = |known: &&Known| known.long == Some(name);
    if let Some(found) = known.iter().find(is_exact) {
        return Ok(found);
    }
    let begins = |known: &&Known| known.long.is_some_and(|long| long.starts_with(name));
    let found: Vec<&Known> = known.iter().filter(begins).collect();
    match found[..] {
        [] => Err(unknown(verb, &format!("--{name}"))),
        [only] => Ok(only),
        // Two spellings of the same option.
        [first, ..] if found.iter().all(|known| known.long.is_some_and(help::is_color)) => Ok(first),
        _ => {
            let names: Vec<String> = found.iter().map(|known| format!("`--{}`", known.name())).collect();
            Err(wrong(verb, &format!("`--{name}` may be {}", names.join(" or "))))
        }
    }
}

fn needed(verb: &str, option: &str, value: Option<&String>) -> Result<String> {
    value.cloned().ok_or_else(|| wrong(verb, &format!("`{option}` needs a value")))
}

fn wrong(verb: &str, what: &str) -> Stop {
    Error::usage(format!("apitrace {verb}: {what}")).into()
}

/// The error for an option that is not accepted, with the reason if apitrace accepts it.
fn unknown(verb: &str, option: &str) -> Stop {
    match help::refusal(verb, option.trim_start_matches('-')) {
        Some(why) => {
            Error::unsupported(format!("apitrace {verb}: `{option}` is not available: {why}")).into()
        }
        None => Error::usage(format!("apitrace {verb} has no option `{option}`"))
            .hint(format!("`quipu as apitrace help {verb}` lists the options"))
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(verb: &str, line: &str) -> Option<String> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let Words { options, files } = Words::parse(verb, &args).ok()?;
        let options = options.into_iter().map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name,
        });
        Some(format!("{} | {}", options.collect::<Vec<_>>().join(" "), files.join(" ")))
    }

    #[test]
    fn options_are_spelled_as_getopt_and_optparse_take_them() {
        for (verb, line, expected) in [
            ("dump", "-- -v --calls", " | -v --calls"),
            ("dump", "A --verb -v --calls 1 --call-n=no B", "verbose verbose calls=1 call-nos=no | A B"),
            ("dump", "--colo --colour=never --th -", "color colour=never thread-ids | -"),
            ("dump", "-vh", "verbose help | "),
            ("trim", "-oo.trace --ca=1 A", "output=o.trace calls=1 | A"),
            ("trim", "--out o.trace A --thread -1", "output=o.trace thread=-1 | A"),
            ("sed", "-es/A/B/ -oo.trace -e -h A", "e=s/A/B/ output=o.trace e=-h | A"),
            ("diff", "-tpython -c0-50 A B", "tool=python calls=0-50 | A B"),
            ("diff", "--supp A --call-n -- B", "suppress-common-lines call-nos | A B"),
            ("repack", "-sb --brotli=5 A B", "snappy brotli brotli=5 | A B"),
            ("repack", "-b 5 A", "brotli | 5 A"),
            ("info", "--dump A", "dump-frames | A"),
        ] {
            assert_eq!(read(verb, line).as_deref(), Some(expected), "{verb} {line}");
        }
    }

    #[test]
    fn what_they_refuse_is_refused() {
        for (verb, line) in [
            ("dump", "--c=1"),
            ("dump", "--call 1"),
            ("dump", "--verbose=1"),
            ("dump", "--calls"),
            ("dump", "-x"),
            ("repack", "-b5"),
            ("trim", "-o"),
            ("diff", "-w80"),
            ("diff", "--wid=80"),
            ("leaks", "-a apitrace"),
        ] {
            assert_eq!(read(verb, line), None, "{verb} {line}");
        }
    }
}
