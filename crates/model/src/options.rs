//! Options: what a tool, a format or a transform can be asked for, described once and checked once.
//!
//! An [`OptionSpec`] says all that is known of an option. Help texts, flags of the command line and pages are made from it, and
//! [`Options::parse`] is the only place that reads values: an unknown name and a value of another kind are errors there, so code
//! that asks for a value finds one.
//!
//! ```
//! use quipu_model::options::{Given, Kind, OptionSpec, Options};
//!
//! const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "10", "how many rows to list");
//! static SPECS: [OptionSpec; 1] = [TOP];
//!
//! let options = Options::parse("tool `hot`", &SPECS, &Given::from([("top", "1k")]))?;
//! assert_eq!(options.count(&TOP), 1000);
//! assert_eq!(Options::default().count(&TOP), 10);
//! let error = Options::parse("tool `hot`", &SPECS, &Given::from([("topp", "1")])).unwrap_err();
//! assert_eq!(error.message(), "tool `hot` has no option `topp`");
//! assert_eq!(error.advice(), Some("did you mean `top`?"));
//! # Ok::<(), quipu_model::Error>(())
//! ```

mod near;

use crate::error::{Error, Result};
use crate::number::{self, NotANumber};
pub use near::nearest;
use std::ops::RangeInclusive;
use std::path::Path;

/// What is known of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Name, in lower case with dashes.
    pub name: &'static str,
    /// A letter for the command line, besides.
    pub short: Option<char>,
    /// What its values are.
    pub kind: Kind,
    /// What a value looks like in help texts: `BYTES`, `N`, `NAME`; empty for a flag that takes none.
    pub value: &'static str,
    /// The value that counts if none is given, or a word for what happens then (`all`, `none`). Giving it is giving nothing.
    pub default: &'static str,
    /// One sentence for people.
    pub doc: &'static str,
    /// Whether it may be given several times.
    pub repeats: Repeats,
    /// The value that its name alone stands for, where a value may be left out.
    pub bare: Option<&'static str>,
    /// The heading in help texts; empty for none.
    pub group: &'static str,
    /// Options that cannot be given together with it.
    pub excludes: &'static [&'static str],
    /// An option without which it says nothing.
    pub needs: Option<&'static str>,
}

/// What the values of an option are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A number as [`number::count`] has it: `1000`, `0x3e8`, `1k`, `1Ki`.
    Count,
    /// A size as [`number::bytes`] has it: `32768`, `32K`.
    Bytes,
    /// A size that is a power of two.
    PowerOfTwo,
    /// A number from 0.0 to 1.0.
    Share,
    /// One of these words, in either case.
    Choice(&'static [&'static str]),
    /// Numbers as [`number::range`] has them: `A..B` without B.
    Range,
    /// A set of ordinals in the words of a format.
    Set,
    /// The name of a file or folder.
    Path,
    /// Anything; the code that asks for it reads it.
    Text,
}

/// Whether an option may be given several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// The last value counts.
    No,
    /// All values count.
    Yes,
    /// All values count, and commas part several in one text.
    Commas,
}

impl OptionSpec {
    /// An option that is given once, under no heading.
    pub const fn new(name: &'static str, kind: Kind, default: &'static str, doc: &'static str) -> OptionSpec {
        let value = match kind {
            Kind::Flag => "",
            Kind::Count => "N",
            Kind::Bytes | Kind::PowerOfTwo => "BYTES",
            Kind::Share => "SHARE",
            Kind::Choice(_) | Kind::Text => "NAME",
            Kind::Range => "A..B",
            Kind::Set => "SET",
            Kind::Path => "FILE",
        };
        OptionSpec {
            name,
            short: None,
            kind,
            value,
            default,
            doc,
            repeats: Repeats::No,
            bare: None,
            group: "",
            excludes: &[],
            needs: None,
        }
    }

    /// A flag that is off if it is not given.
    pub const fn flag(name: &'static str, doc: &'static str) -> OptionSpec {
        OptionSpec::new(name, Kind::Flag, "false", doc)
    }

    /// The same with a letter for the command line.
    pub const fn short(self, letter: char) -> OptionSpec {
        OptionSpec { short: Some(letter), ..self }
    }

    /// The same with another word for values.
    pub const fn value(self, value: &'static str) -> OptionSpec {
        OptionSpec { value, ..self }
    }

    /// The same with another default.
    pub const fn default(self, default: &'static str) -> OptionSpec {
        OptionSpec { default, ..self }
    }

    /// The same with another sentence.
    pub const fn doc(self, doc: &'static str) -> OptionSpec {
        OptionSpec { doc, ..self }
    }

    /// The same under a heading.
    pub const fn group(self, group: &'static str) -> OptionSpec {
        OptionSpec { group, ..self }
    }

    /// The same, given any number of times.
    pub const fn repeated(self) -> OptionSpec {
        OptionSpec { repeats: Repeats::Yes, ..self }
    }

    /// The same, given any number of times or with commas.
    pub const fn listed(self) -> OptionSpec {
        OptionSpec { repeats: Repeats::Commas, ..self }
    }

    /// The same, whose name alone stands for a value.
    pub const fn bare(self, value: &'static str) -> OptionSpec {
        OptionSpec { bare: Some(value), ..self }
    }

    /// The same, only together with another.
    pub const fn needs(self, name: &'static str) -> OptionSpec {
        OptionSpec { needs: Some(name), ..self }
    }

    /// The same, not together with these.
    pub const fn excludes(self, excludes: &'static [&'static str]) -> OptionSpec {
        OptionSpec { excludes, ..self }
    }

    /// Makes sure that `text` is one value of the option.
    ///
    /// # Errors
    /// `Usage` with what is wanted and what was found.
    pub fn check(&self, text: &str) -> Result<()> {
        self.read(text).map(drop)
    }

    /// What a text says; `None` if it says the same as giving nothing.
    fn read(&self, text: &str) -> Result<Option<Value>> {
        let text = match self.bare {
            Some(bare) if text.is_empty() => bare,
            _ => text,
        };
        match self.kind.read(text) {
            Some(Value::Text) if self.repeats == Repeats::No && text == self.default => Ok(None),
            Some(value) => Ok(Some(value)),
            None if text == self.default || (self.kind == Kind::Path && text.is_empty()) => Ok(None),
            None => Err(self.refuse(text)),
        }
    }

    /// The one text of all that say the same.
    fn canonical<'t>(&self, text: &'t str, value: &Value) -> &'t str {
        match (self.kind, value) {
            (_, Value::Flag(is_on)) => {
                if *is_on {
                    "true"
                } else {
                    "false"
                }
            }
            (Kind::Choice(words), _) => {
                words.iter().find(|word| word.eq_ignore_ascii_case(text)).copied().unwrap_or(text)
            }
            _ if text.is_empty() => self.bare.unwrap_or_default(),
            _ => text,
        }
    }

    /// The error for a value of another kind.
    fn refuse(&self, found: &str) -> Error {
        let name = self.name;
        let wanted = match self.kind {
            Kind::Choice(words) => {
                let error =
                    Error::usage(format!("option `{name}` is `{found}`, allowed: {}", words.join(", ")));
                return match nearest(found, words.iter().copied()) {
                    Some(near) => error.hint(format!("did you mean `{near}`?")),
                    None => error,
                };
            }
            Kind::Count | Kind::Bytes if number::count(found) == Err(NotANumber::TooLarge) => {
                "a number of 64 bits"
            }
            Kind::Flag => "yes or no",
            Kind::Count => "a number",
            Kind::Bytes => "a number of bytes such as 32768 or 32K",
            Kind::PowerOfTwo => "a power of two",
            Kind::Share => "a number from 0.0 to 1.0",
            Kind::Range => "a range of numbers such as 0x1000..0x2000",
            Kind::Path => "the name of a file or folder",
            Kind::Set | Kind::Text => "a text",
        };
        Error::usage(format!("option `{name}` wants {wanted}, found `{found}`"))
    }
}

impl Kind {
    fn read(self, text: &str) -> Option<Value> {
        match self {
            Kind::Flag => match text {
                "" | "true" | "yes" | "on" | "1" => Some(Value::Flag(true)),
                "false" | "no" | "off" | "0" => Some(Value::Flag(false)),
                _ => None,
            },
            Kind::Count => number::count(text).ok().map(Value::Number),
            Kind::Bytes => number::bytes(text).ok().map(Value::Number),
            Kind::PowerOfTwo => {
                number::bytes(text).ok().filter(|bytes| bytes.is_power_of_two()).map(Value::Number)
            }
            Kind::Share => text.parse().ok().filter(|share| (0.0..=1.0).contains(share)).map(Value::Share),
            Kind::Range => number::range(text).ok().map(Value::Range),
            Kind::Choice(words) => {
                words.iter().any(|word| word.eq_ignore_ascii_case(text)).then_some(Value::Text)
            }
            Kind::Path => (!text.is_empty()).then_some(Value::Text),
            Kind::Set | Kind::Text => Some(Value::Text),
        }
    }
}

/// A value that was read; texts stand beside it.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Flag(bool),
    Number(u64),
    Share(f64),
    Range(RangeInclusive<u64>),
    Text,
}

/// What was asked for, not checked yet: names with values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(Vec<(String, String)>);

impl Given {
    /// Adds a value; of an option that does not repeat, the last counts.
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Adds a value if there is one.
    pub fn add_some(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value.to_string());
        }
    }

    /// The names with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The last value of a name.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// True if nothing is given.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Given {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Given {
        let mut given = Given::default();
        given.extend(pairs);
        given
    }
}

impl<N: Into<String>, V: Into<String>> Extend<(N, V)> for Given {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, pairs: I) {
        pairs.into_iter().for_each(|(name, value)| self.add(name, value));
    }
}

impl<N: Into<String>, V: Into<String>, const K: usize> From<[(N, V); K]> for Given {
    fn from(pairs: [(N, V); K]) -> Given {
        pairs.into_iter().collect()
    }
}

impl IntoIterator for Given {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Values that were checked. Without a value of its own, an option has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    set: Vec<Set>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    name: &'static str,
    text: String,
    value: Value,
}

impl Options {
    /// Checks what is given to `owner`, which has the options of `specs`.
    ///
    /// # Errors
    /// `Usage` for an unknown name, a value of another kind, two options that exclude each other, and one without another that
    /// it needs.
    pub fn parse<'s>(
        owner: &str,
        specs: impl IntoIterator<Item = &'s OptionSpec> + Clone,
        given: &Given,
    ) -> Result<Options> {
        let mut options = Options::default();
        for (name, text) in given.iter() {
            let Some(spec) = specs.clone().into_iter().find(|spec| spec.name == name) else {
                return Err(unknown(owner, name, specs.into_iter().map(|spec| spec.name)));
            };
            if spec.repeats == Repeats::Commas {
                text.split(',')
                    .filter(|part| !part.is_empty())
                    .try_for_each(|part| options.put(spec, part))?;
            } else {
                options.put(spec, text)?;
            }
        }
        for spec in specs.into_iter().filter(|spec| options.has(spec)) {
            if let Some(other) = options.set.iter().find(|set| spec.excludes.contains(&set.name)) {
                let (one, other) = (spec.name, other.name);
                return Err(Error::usage(format!("`{one}` and `{other}` exclude each other")));
            }
            if let Some(needed) =
                spec.needs.filter(|needed| options.set.iter().all(|set| set.name != *needed))
            {
                return Err(Error::usage(format!("`{}` says nothing without `{needed}`", spec.name)));
            }
        }
        Ok(options)
    }

    /// Gives an option a value; of one that does not repeat, in place of another.
    ///
    /// # Errors
    /// `Usage` for a value of another kind.
    pub fn put(&mut self, spec: &OptionSpec, text: &str) -> Result<()> {
        let value = spec.read(text)?;
        if spec.repeats == Repeats::No {
            self.set.retain(|set| set.name != spec.name);
        }
        if let Some(value) = value {
            let text = spec.canonical(text, &value).to_owned();
            self.set.push(Set { name: spec.name, text, value });
        }
        Ok(())
    }

    /// True if the option has a value of its own.
    pub fn has(&self, spec: &OptionSpec) -> bool {
        self.last(spec).is_some()
    }

    /// Whether a flag is on.
    pub fn flag(&self, spec: &OptionSpec) -> bool {
        matches!(self.value(spec), Some(Value::Flag(true)))
    }

    /// The number; 0 where the default is none.
    pub fn count(&self, spec: &OptionSpec) -> u64 {
        self.number(spec).unwrap_or_default()
    }

    /// The number, if one is given or the default is one.
    pub fn number(&self, spec: &OptionSpec) -> Option<u64> {
        match self.value(spec) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The number as a length, as near as it comes.
    pub fn length(&self, spec: &OptionSpec) -> usize {
        usize::try_from(self.count(spec)).unwrap_or(usize::MAX)
    }

    /// The share; 0 where the default is none.
    pub fn share(&self, spec: &OptionSpec) -> f64 {
        match self.value(spec) {
            Some(Value::Share(share)) => share,
            _ => 0.0,
        }
    }

    /// The word: the one that is given, or the default.
    pub fn word<'o>(&'o self, spec: &OptionSpec) -> &'o str {
        self.text(spec).unwrap_or(spec.default)
    }

    /// The text, if one is given.
    pub fn text(&self, spec: &OptionSpec) -> Option<&str> {
        self.last(spec).map(|set| set.text.as_str())
    }

    /// The file or folder, if one is given.
    pub fn path(&self, spec: &OptionSpec) -> Option<&Path> {
        self.text(spec).map(Path::new)
    }

    /// All texts of an option that repeats, in their order.
    pub fn texts<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = &'o str> + use<'o> {
        let name = spec.name;
        self.set.iter().filter(move |set| set.name == name).map(|set| set.text.as_str())
    }

    /// All ranges of an option, in their order.
    pub fn ranges<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = RangeInclusive<u64>> + use<'o> {
        self.values(spec).filter_map(|value| match value {
            Value::Range(range) => Some(range.clone()),
            _ => None,
        })
    }

    /// All numbers of an option that repeats, in their order.
    pub fn numbers<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = u64> + use<'o> {
        self.values(spec).filter_map(|value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        })
    }

    /// All names with their texts, in the order in which they were given, where that matters.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.set.iter().map(|set| (set.name, set.text.as_str()))
    }

    fn values<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = &'o Value> + use<'o> {
        let name = spec.name;
        self.set.iter().filter(move |set| set.name == name).map(|set| &set.value)
    }

    fn last(&self, spec: &OptionSpec) -> Option<&Set> {
        self.set.iter().rev().find(|set| set.name == spec.name)
    }

    fn value(&self, spec: &OptionSpec) -> Option<Value> {
        match self.last(spec) {
            Some(set) => Some(set.value.clone()),
            None => spec.kind.read(spec.default).filter(|value| *value != Value::Text),
        }
    }
}

/// How many names an error lists.
const MAX_NAMED: usize = 24;

/// The error for an option that `owner` has not: the nearest of those that it has, or all.
pub fn unknown<'n>(owner: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> Error {
    unknown_part(owner, "option", name, known)
}

/// The error for a part, such as an option or a column, that `owner` has not: the nearest of those that it has, or all.
pub fn unknown_part<'n>(
    owner: &str,
    part: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let hint = match (nearest(name, known.iter().copied()), known.as_slice()) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => "it has none".to_owned(),
        (None, known) => {
            let more = if known.len() > MAX_NAMED { ", …" } else { "" };
            format!("its {part}s: {}{more}", known[..known.len().min(MAX_NAMED)].join(", "))
        }
    };
    Error::usage(format!("{owner} has no {part} `{name}`")).hint(hint)
}

#[cfg(test)]
mod tests;
