//! Options of tools, formats and transforms, described once and checked once.
//!
//! An [`OptionSpec`] describes everything about an option. Help texts, command-line flags and pages are generated from it,
//! and [`Options::parse`] is the only place that reads values. Unknown names and values of the wrong kind are rejected there,
//! so code that asks for a value always finds one.
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

/// The description of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Name, in lower case with dashes.
    pub name: &'static str,
    /// One-letter name for the command line, if there is one.
    pub short: Option<char>,
    /// Kind of the values.
    pub kind: Kind,
    /// Placeholder for a value in help texts: `BYTES`, `N`, `NAME`; empty for a flag, which takes none.
    pub value: &'static str,
    /// The value if none is given, or a word for what happens then (`all`, `none`). Giving this text is the same as giving
    /// nothing.
    pub default: &'static str,
    /// One sentence that describes the option to people.
    pub doc: &'static str,
    /// Whether the option may be given several times.
    pub repeats: Repeats,
    /// The value if the option is given by its name alone; `None` if a value is required.
    pub bare: Option<&'static str>,
    /// Heading above the option in help texts; empty for none.
    pub group: &'static str,
    /// Options that cannot be combined with this one.
    pub excludes: &'static [&'static str],
    /// An option without which this one has no effect.
    pub needs: Option<&'static str>,
}

/// The kind of an option's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Yes or no.
    Flag,
    /// A number in the syntax of [`number::count`]: `1000`, `0x3e8`, `1k`, `1Ki`.
    Count,
    /// A size in the syntax of [`number::bytes`]: `32768`, `32K`.
    Bytes,
    /// A size that is a power of two.
    PowerOfTwo,
    /// A number from 0.0 to 1.0.
    Share,
    /// One of these words, in either case.
    Choice(&'static [&'static str]),
    /// A range in the syntax of [`number::range`]: `A..B` excludes B.
    Range,
    /// A set of ordinals in a syntax of the format.
    Set,
    /// The name of a file or folder.
    Path,
    /// Any text; the code that uses the option parses it.
    Text,
}

/// Whether an option may be given several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// No: the last value counts.
    No,
    /// Yes: all values count.
    Yes,
    /// Yes: all values count, and one text may hold several, separated by commas.
    Commas,
}

impl OptionSpec {
    /// An option that is given once and has no heading.
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

    /// A flag that is off by default.
    pub const fn flag(name: &'static str, doc: &'static str) -> OptionSpec {
        OptionSpec::new(name, Kind::Flag, "false", doc)
    }

    /// Adds a one-letter name.
    pub const fn short(self, letter: char) -> OptionSpec {
        OptionSpec { short: Some(letter), ..self }
    }

    /// Replaces the placeholder for values.
    pub const fn value(self, value: &'static str) -> OptionSpec {
        OptionSpec { value, ..self }
    }

    /// Replaces the default.
    pub const fn default(self, default: &'static str) -> OptionSpec {
        OptionSpec { default, ..self }
    }

    /// Replaces the description.
    pub const fn doc(self, doc: &'static str) -> OptionSpec {
        OptionSpec { doc, ..self }
    }

    /// Puts the option under a heading.
    pub const fn group(self, group: &'static str) -> OptionSpec {
        OptionSpec { group, ..self }
    }

    /// Lets the option be given any number of times.
    pub const fn repeated(self) -> OptionSpec {
        OptionSpec { repeats: Repeats::Yes, ..self }
    }

    /// Lets the option be given any number of times, or with several values separated by commas.
    pub const fn listed(self) -> OptionSpec {
        OptionSpec { repeats: Repeats::Commas, ..self }
    }

    /// Lets the option be given by its name alone, which then stands for `value`.
    pub const fn bare(self, value: &'static str) -> OptionSpec {
        OptionSpec { bare: Some(value), ..self }
    }

    /// Requires another option.
    pub const fn needs(self, name: &'static str) -> OptionSpec {
        OptionSpec { needs: Some(name), ..self }
    }

    /// Excludes other options.
    pub const fn excludes(self, excludes: &'static [&'static str]) -> OptionSpec {
        OptionSpec { excludes, ..self }
    }

    /// Checks that `text` is a valid value of the option.
    ///
    /// # Errors
    /// `Usage` that says what is allowed and what was found.
    pub fn check(&self, text: &str) -> Result<()> {
        self.read(text).map(drop)
    }

    /// Parses a text; `None` if it means the same as not giving the option.
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

    /// The one spelling for all texts that mean the same value.
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

    /// The error for a value of the wrong kind.
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

/// A parsed value, without the text that it was parsed from.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Flag(bool),
    Number(u64),
    Share(f64),
    Range(RangeInclusive<u64>),
    Text,
}

/// Options as given, not checked yet: names with values, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given(Vec<(String, String)>);

impl Given {
    /// Adds a value. If the option does not repeat, the last value counts.
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Adds a value unless it is `None`.
    pub fn add_some(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.add(name, value.to_string());
        }
    }

    /// The names with their values, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The last value given for a name.
    pub fn last(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// True if no option is given.
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

/// Checked values. An option that has no value here has its default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    set: Vec<Set>,
}

/// The value of one option.
#[derive(Clone, Debug, PartialEq)]
struct Set {
    name: &'static str,
    text: String,
    value: Value,
}

impl Options {
    /// Checks the options `given` to `owner`, whose options are `specs`. Error messages name the owner.
    ///
    /// # Errors
    /// `Usage` for an unknown name, a value of the wrong kind, two options that exclude each other, and an option whose
    /// required other option is not given.
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

    /// Sets an option. If it does not repeat, the new value replaces the old one.
    ///
    /// # Errors
    /// `Usage` for a value of the wrong kind.
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

    /// True if a value was given for the option.
    pub fn has(&self, spec: &OptionSpec) -> bool {
        self.last(spec).is_some()
    }

    /// Whether a flag is on.
    pub fn flag(&self, spec: &OptionSpec) -> bool {
        matches!(self.value(spec), Some(Value::Flag(true)))
    }

    /// The number that was given or is the default; 0 if neither is a number.
    pub fn count(&self, spec: &OptionSpec) -> u64 {
        self.number(spec).unwrap_or_default()
    }

    /// The number that was given or is the default; `None` if neither is a number.
    pub fn number(&self, spec: &OptionSpec) -> Option<u64> {
        match self.value(spec) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// The number as a `usize`, saturating; see [`count`](Options::count).
    pub fn length(&self, spec: &OptionSpec) -> usize {
        usize::try_from(self.count(spec)).unwrap_or(usize::MAX)
    }

    /// The share that was given or is the default; 0 if neither is a share.
    pub fn share(&self, spec: &OptionSpec) -> f64 {
        match self.value(spec) {
            Some(Value::Share(share)) => share,
            _ => 0.0,
        }
    }

    /// The word that was given, or the default.
    pub fn word<'o>(&'o self, spec: &OptionSpec) -> &'o str {
        self.text(spec).unwrap_or(spec.default)
    }

    /// The text, if one was given.
    pub fn text(&self, spec: &OptionSpec) -> Option<&str> {
        self.last(spec).map(|set| set.text.as_str())
    }

    /// The path, if one was given.
    pub fn path(&self, spec: &OptionSpec) -> Option<&Path> {
        self.text(spec).map(Path::new)
    }

    /// All texts of an option that repeats, in the order given.
    pub fn texts<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = &'o str> + use<'o> {
        let name = spec.name;
        self.set.iter().filter(move |set| set.name == name).map(|set| set.text.as_str())
    }

    /// All ranges of an option, in the order given.
    pub fn ranges<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = RangeInclusive<u64>> + use<'o> {
        self.values(spec).filter_map(|value| match value {
            Value::Range(range) => Some(range.clone()),
            _ => None,
        })
    }

    /// All numbers of an option that repeats, in the order given.
    pub fn numbers<'o>(&'o self, spec: &OptionSpec) -> impl Iterator<Item = u64> + use<'o> {
        self.values(spec).filter_map(|value| match value {
            Value::Number(number) => Some(*number),
            _ => None,
        })
    }

    /// All given options with their texts, in the order given.
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

/// Upper limit on the names that an error lists.
const MAX_NAMED: usize = 24;

/// The error for an option that `owner` does not have. It suggests the nearest known option, or lists all.
pub fn unknown<'n>(owner: &str, name: &str, known: impl IntoIterator<Item = &'n str>) -> Error {
    unknown_part(owner, "option", name, known)
}

/// The error for a part, such as an option or a column, that `owner` does not have. It suggests the nearest known one, or
/// lists all.
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
