//! The consumer's options, as far as text depends on them.
//!
//! SPEC: dtrace.md#captures

use quipu_model::options::nearest;
use quipu_model::{Error, Result};

/// What the consumer was told about its output, by `-x`, `-q`, `-F` or `setopt()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// No heading and nothing around values.
    pub quiet: bool,
    /// Entries and returns are indented.
    pub flowindent: bool,
    /// Records of all CPUs in the order of their times.
    pub temporal: bool,
    /// Bytes are never shown as strings.
    pub rawbytes: bool,
    /// Counts and sums are drawn as bars.
    pub agghist: bool,
    /// Histograms on one line.
    pub aggpack: bool,
    /// The tallest bar fills the width.
    pub aggzoom: bool,
    /// Aggregations in the order of their keys.
    pub aggsortkey: bool,
    /// All orders reversed.
    pub aggsortrev: bool,
    /// Which of several aggregations `printa()` sorts by.
    pub aggsortpos: u32,
    /// Which member of the key comes first.
    pub aggsortkeypos: u32,
    /// Blanks before frames.
    pub stackindent: Option<u32>,
    /// Bars of Unicode.
    pub utf8: bool,
    /// Messages of drops begin with a tag.
    pub droptags: bool,
}

/// The options that text depends on.
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

/// The options of the kernel and of the consumer that text does not depend on.
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

/// Why an option is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Text does not depend on an option of this name.
    Unknown,
    /// It takes other values: these.
    Value(&'static str),
}

/// Whether a value turns an option on or off; none if it does neither.
fn is_on(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "set" | "enable" | "yes" | "on" | "true" => Some(true),
        "unset" | "disable" | "no" | "off" | "false" => Some(false),
        number => number.parse::<u64>().ok().map(|number| number > 0),
    }
}

/// A stack is never indented further.
const MAX_INDENT: u64 = 4096;

/// Blanks before frames where no option says how many.
const INDENT: u32 = 14;

impl Settings {
    /// Reads a comma list: `quiet`, `aggsortkey=1`, …. Options that text does not depend on are passed over.
    pub fn of(list: &str) -> Settings {
        let mut settings = Settings::default();
        settings.add(list);
        settings
    }

    /// The same, where nothing is passed over in silence.
    pub(crate) fn of_each(list: &str, refused: impl FnMut(&str)) -> Settings {
        let mut settings = Settings::default();
        settings.add_each(list, refused);
        settings
    }

    /// Sets the options of a comma list; what text does not depend on, and values that make no sense, are passed over.
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

    /// Reads options as they stand on the command line of `dtrace`: `-q -F -x aggsortkey`, `-qFx aggsortkey`. What text does not
    /// depend on is passed over.
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
                    // The value of another letter, as of `-n`, may stand after it.
                    _ => break,
                }
            }
        }
        settings
    }

    /// Sets one option as a user gives it, `name` or `name=value`.
    ///
    /// # Errors
    /// `Unsupported` for options that text does not depend on; `Usage` for values that the option does not take.
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
    /// Why it is not set.
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

    /// The option of this name that is on or off.
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

    /// The options that are set, by name; those that are turned on have no number.
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

    /// Which options two hosts have otherwise that cannot be those of each: the order of all records and the messages of drops;
    /// and how aggregations look that are printed at the end, if there are any.
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

    /// Blanks before frames.
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
