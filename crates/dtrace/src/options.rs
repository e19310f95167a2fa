//! Options of the consumer that affect its text.
//!
//! SPEC: dtrace.md#captures

use quipu_model::options::nearest;
use quipu_model::{Error, Result};

/// Options of the consumer's output, set by `-x`, `-q`, `-F` or `setopt()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Prints no heading, and only values.
    pub quiet: bool,
    /// Indents entries and returns.
    pub flowindent: bool,
    /// Sorts records of all CPUs by time.
    pub temporal: bool,
    /// Never prints bytes as strings.
    pub rawbytes: bool,
    /// Draws counts and sums as bars.
    pub agghist: bool,
    /// Prints histograms on one line.
    pub aggpack: bool,
    /// Scales bars so that the tallest one fills the width.
    pub aggzoom: bool,
    /// Sorts aggregations by their keys.
    pub aggsortkey: bool,
    /// Reverses all orders.
    pub aggsortrev: bool,
    /// The aggregation by which `printa()` sorts several, by position.
    pub aggsortpos: u32,
    /// The member of the key by which to sort first, by position.
    pub aggsortkeypos: u32,
    /// Number of blanks before frames.
    pub stackindent: Option<u32>,
    /// Draws bars with Unicode characters.
    pub utf8: bool,
    /// Begins messages of drops with a tag.
    pub droptags: bool,
}

/// Names of the options that affect text.
pub const NAMES: [&str; 15] = [
    "quiet",
    "flowindent",
    "temporal",
    "rawbytes",
    "agghist",
    "aggpack",
    "aggzoom",
    "aggsortkey",
    "aggsortrev",
    "aggsortpos",
    "aggsortkeypos",
    "stackindent",
    "encoding",
    "utf8",
    "droptags",
];

/// Names of the options of the kernel and of the consumer that do not affect text.
///
/// SPEC: dtrace.md#captures
pub const OF_TRACING: [&str; 20] = [
    "aggrate",
    "aggsize",
    "bufpolicy",
    "bufresize",
    "bufsize",
    "cleanrate",
    "cpu",
    "destructive",
    "dynvarsize",
    "grabanon",
    "jstackframes",
    "jstackstrsize",
    "nspec",
    "specsize",
    "stackframes",
    "statusrate",
    "strsize",
    "switchrate",
    "ustackframes",
    "zone",
];

/// Reason why an option is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No option of this name affects text.
    Unknown,
    /// The option does not take this value; the text says which values it takes.
    Value(&'static str),
}

/// Whether a value turns an option on or off; `None` if it is neither.
fn is_on(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "set" | "enable" | "yes" | "on" | "true" => Some(true),
        "unset" | "disable" | "no" | "off" | "false" => Some(false),
        number => number.parse::<u64>().ok().map(|number| number > 0),
    }
}

/// Maximum indentation of a stack.
const MAX_INDENT: u64 = 4096;

/// Default number of blanks before frames.
const INDENT: u32 = 14;

impl Settings {
    /// Reads a comma-separated list: `quiet`, `aggsortkey=1`, …. Options that do not affect text, and invalid values, are
    /// ignored.
    pub fn of(list: &str) -> Settings {
        let mut settings = Settings::default();
        settings.add(list);
        settings
    }

    /// Like [`Settings::of`], but calls `refused` for each option that is ignored.
    pub(crate) fn of_each(list: &str, refused: impl FnMut(&str)) -> Settings {
        let mut settings = Settings::default();
        settings.add_each(list, refused);
        settings
    }

    /// Sets the options of a comma-separated list; options that do not affect text, and invalid values, are ignored.
    pub fn add(&mut self, list: &str) {
        self.add_each(list, |_| {});
    }

    fn add_each(&mut self, list: &str, mut refused: impl FnMut(&str)) {
        for option in list.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if self.set(name, value).is_err() {
                refused(option);
            }
        }
    }

    /// Reads options from a command line of `dtrace`: `-q -F -x aggsortkey`, `-qFx aggsortkey`. Options that do not affect
    /// text are ignored.
    pub fn of_command(line: &str) -> Settings {
        let mut settings = Settings::default();
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            let letters = word.strip_prefix('-').unwrap_or("");
            for (at, letter) in letters.char_indices() {
                match letter {
                    'q' => settings.quiet = true,
                    'F' => settings.flowindent = true,
                    'x' => {
                        let own = &letters[at + 1..];
                        settings.add(if own.is_empty() { words.next().unwrap_or("") } else { own });
                        break;
                    }
                    // The value of another letter, such as `-n`, may follow it.
                    _ => break,
                }
            }
        }
        settings
    }

    /// Sets one option given by a user, as `name` or `name=value`.
    ///
    /// # Errors
    /// `Unsupported` for options that do not affect text; `Usage` for invalid values.
    pub fn give(&mut self, option: &str) -> Result<()> {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match self.set(name, value) {
            Ok(()) => Ok(()),
            Err(Refused::Unknown) => {
                let hint = match nearest(name, NAMES.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("options about printing: {}", NAMES.join(", ")),
                };
                let message = format!("`-x {name}` is about tracing, or unknown: a capture is printed");
                Err(Error::unsupported(message).hint(hint))
            }
            Err(Refused::Value(wanted)) => {
                let message = match value {
                    "" => format!("the option `{name}` has no value"),
                    value => format!("the option `{name}` does not take `{value}`"),
                };
                Err(Error::usage(message).hint(format!("it takes {wanted}")))
            }
        }
    }

    /// Sets one option; an empty value turns it on.
    ///
    /// # Errors
    /// The reason why it is not set.
    pub fn set(&mut self, name: &str, value: &str) -> std::result::Result<(), Refused> {
        if let Some(flag) = self.flag(name) {
            *flag = is_on(value).ok_or(Refused::Value("1 or 0, or nothing"))?;
            return Ok(());
        }
        let number = || {
            let number = value.parse::<u64>().map_err(|_| Refused::Value("a number"))?;
            Ok(number.min(MAX_INDENT) as u32) // It fits after that.
        };
        match name {
            "aggsortpos" => self.aggsortpos = number()?,
            "aggsortkeypos" => self.aggsortkeypos = number()?,
            "stackindent" => self.stackindent = Some(number()?),
            "encoding" => {
                self.utf8 = match value.to_ascii_lowercase().as_str() {
                    "utf8" | "utf-8" => true,
                    "ascii" => false,
                    _ => return Err(Refused::Value("ascii or utf8")),
                }
            }
            _ => return Err(Refused::Unknown),
        }
        Ok(())
    }

    /// The on-off option with this name.
    fn flag(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "quiet" => &mut self.quiet,
            "flowindent" => &mut self.flowindent,
            "temporal" => &mut self.temporal,
            "rawbytes" => &mut self.rawbytes,
            "agghist" => &mut self.agghist,
            "aggpack" => &mut self.aggpack,
            "aggzoom" => &mut self.aggzoom,
            "aggsortkey" => &mut self.aggsortkey,
            "aggsortrev" => &mut self.aggsortrev,
            "utf8" => &mut self.utf8,
            "droptags" => &mut self.droptags,
            _ => return None,
        })
    }

    /// The options that are set, by name; `None` is an option that is turned on.
    pub fn list(&self) -> Vec<(&'static str, Option<u32>)> {
        let flags = [
            ("quiet", self.quiet),
            ("flowindent", self.flowindent),
            ("temporal", self.temporal),
            ("rawbytes", self.rawbytes),
            ("agghist", self.agghist),
            ("aggpack", self.aggpack),
            ("aggzoom", self.aggzoom),
            ("aggsortkey", self.aggsortkey),
            ("aggsortrev", self.aggsortrev),
            ("utf8", self.utf8),
            ("droptags", self.droptags),
        ];
        let numbers = [
            ("aggsortpos", Some(self.aggsortpos).filter(|n| *n > 0)),
            ("aggsortkeypos", Some(self.aggsortkeypos).filter(|n| *n > 0)),
            ("stackindent", self.stackindent),
        ];
        let flags = flags.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| (name, None));
        flags.chain(numbers.into_iter().filter(|(_, n)| n.is_some())).collect()
    }

    /// The options that differ between two hosts and have to be common to all: the order of records and the messages of
    /// drops; and, if there are aggregations, the options for those printed at the end.
    pub(crate) fn differences(&self, other: &Settings, has_aggregations: bool) -> Vec<&'static str> {
        let of_all = |name: &str| match name {
            "temporal" | "droptags" => true,
            "quiet" | "flowindent" => false,
            _ => has_aggregations,
        };
        let of = |list: Vec<(&'static str, Option<u32>)>, name: &str| {
            list.into_iter().find(|(known, _)| *known == name)
        };
        let is_other = |name: &str| of(self.list(), name) != of(other.list(), name);
        NAMES.into_iter().filter(|name| of_all(name) && is_other(name)).collect()
    }

    /// Number of blanks before frames.
    pub fn indent(&self) -> usize {
        self.stackindent.unwrap_or(INDENT) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_from_lists() {
        let settings = Settings::of("quiet=1, aggsortkeypos=9,bufpolicy=0,utf8,stackindent=99999999");
        assert!(settings.quiet && settings.utf8 && !settings.temporal);
        assert_eq!((settings.aggsortkeypos, settings.indent()), (9, 4096));
        assert_eq!(Settings::default().indent(), 14);
    }

    #[test]
    fn letters_of_a_command_line_may_stand_together() {
        let apart = Settings::of_command("-q -F -x aggsortpos=3 -n BEGIN");
        assert!(apart.quiet && apart.flowindent && apart.aggsortpos == 3);
        for together in
            ["-qF -xaggsortpos=3", "-Fqxaggsortpos=3", "-qFx aggsortpos=3 -s q.d", "-qF -xaggsortpos=3 -nF"]
        {
            assert_eq!(Settings::of_command(together), apart, "{together}");
        }
    }

    #[test]
    fn each_option_is_set_and_values_that_make_no_sense_are_refused() {
        for name in NAMES {
            let value = match name {
                "encoding" => "utf8",
                "aggsortpos" | "aggsortkeypos" | "stackindent" => "3",
                _ => "",
            };
            let mut settings = Settings::default();
            settings.give(&format!("{name}={value}")).unwrap();
            assert_ne!(settings, Settings::default(), "{name}");
            let before = settings;
            for value in ["abc", "-1", "1x", "maybe"] {
                let error = settings.give(&format!("{name}={value}")).unwrap_err();
                let message = format!("the option `{name}` does not take `{value}`");
                assert!(error.to_string().contains(&message), "{error}");
                assert_eq!(settings, before, "{name}={value}");
            }
        }
        let error = Settings::default().give("stackindent").unwrap_err();
        assert!(error.to_string().contains("the option `stackindent` has no value"), "{error}");
        let error = Settings::default().give("aggsortkex").unwrap_err();
        assert!(error.to_string().contains("`-x aggsortkex` is about tracing, or unknown"), "{error}");
    }
}
