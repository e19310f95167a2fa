//! The consumer's options, as far as text depends on them.

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

    /// Sets the options of a comma list.
    pub fn add(&mut self, list: &str) {
        for option in list.split(',').map(str::trim).filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            self.set(name, value);
        }
    }

    /// Reads options as they stand on the command line of `dtrace`: `-q -F -x aggsortkey`.
    pub fn of_command(line: &str) -> Settings {
        let mut settings = Settings::default();
        let mut words = line.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "-q" => settings.quiet = true,
                "-F" => settings.flowindent = true,
                "-x" => settings.add(words.next().unwrap_or("")),
                word => settings.add(word.strip_prefix("-x").unwrap_or("")),
            }
        }
        settings
    }

    /// Sets one option; an empty value turns it on. False if text does not depend on it.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        let is_on = !matches!(value, "0" | "unset" | "disable" | "no" | "off" | "false");
        let number = || value.parse::<u64>().unwrap_or(0).min(MAX_INDENT) as u32; // It fits after that.
        match name {
            "quiet" => self.quiet = is_on,
            "flowindent" => self.flowindent = is_on,
            "temporal" => self.temporal = is_on,
            "rawbytes" => self.rawbytes = is_on,
            "agghist" => self.agghist = is_on,
            "aggpack" => self.aggpack = is_on,
            "aggzoom" => self.aggzoom = is_on,
            "aggsortkey" => self.aggsortkey = is_on,
            "aggsortrev" => self.aggsortrev = is_on,
            "aggsortpos" => self.aggsortpos = number(),
            "aggsortkeypos" => self.aggsortkeypos = number(),
            "stackindent" => self.stackindent = Some(number()),
            "utf8" => self.utf8 = is_on,
            "encoding" => self.utf8 = value.eq_ignore_ascii_case("utf8"),
            "droptags" => self.droptags = is_on,
            _ => return false,
        }
        true
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
}
