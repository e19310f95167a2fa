//! Sets of calls in the notation of apitrace's command line: `0-20/draw 25 27-29/2`, `frame`, `@FILE`.
//!
//! ```text
//! set      = part { "," part }          part  = "@" file | { range }
//! range    = freq | interval [ "/" ( number | freq ) ]
//! interval = "*" | N | N "-" | N "-" M  freq  = frame | rendertarget | fbo | render | draw
//! ```
//!
//! QUIRK: two ranges need no separator, so `5-*` means `5-` and `*`: all calls, as apitrace 11.1 dumps them. A number that is
//! too large becomes the largest possible one; apitrace wraps around to 0.
//!
//! SPEC: apitrace.md#the-command-line-of-apitrace.

use crate::record::{END_FRAME, RENDER, SWAP_RENDERTARGET};
use quipu_model::{Error, Result};
use quipu_source::Reading;
use std::path::Path;

/// A set of calls; initially empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSet {
    ranges: Vec<Interval>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    first: u64,
    last: u64,
    step: u64,
    /// Calls with one of these flags; any if 0.
    flags: u32,
}

impl CallSet {
    /// Adds the calls that `text` describes, in the notation of this module.
    ///
    /// # Errors
    /// `Usage` if `text` is malformed; `Io` or `Missing` if a file cannot be read.
    pub fn add(&mut self, text: &str) -> Result<()> {
        for part in text.split(',') {
            match part.strip_prefix('@') {
                Some(path) => {
                    Reading::keep(Path::new(path));
                    let content = std::fs::read_to_string(path).map_err(|cause| {
                        let kind = match cause.kind() {
                            std::io::ErrorKind::NotFound => quipu_model::ErrorKind::Missing,
                            _ => quipu_model::ErrorKind::Io,
                        };
                        Error::new(kind, "cannot read the set of calls").in_file(path).because(cause)
                    })?;
                    self.add_ranges(&content.replace(',', " "))?;
                }
                None => self.add_ranges(part)?,
            }
        }
        Ok(())
    }

    fn add_ranges(&mut self, text: &str) -> Result<()> {
        for word in text.split([' ', '\t', '\r', '\n']) {
            let mut rest = word;
            while !rest.is_empty() {
                let range = range(&mut rest).ok_or_else(|| {
                    Error::usage(format!("`{word}` is no set of calls"))
                        .hint("write `7`, `7-9`, `7-`, `*`, `0-100/2`, `0-100/draw`, `frame`, `rendertarget`, or `@FILE`")
                })?;
                if range.first <= range.last {
                    self.ranges.push(range);
                }
            }
        }
        Ok(())
    }

    /// True if a call with this number and these flags is in the set.
    pub fn has(&self, number: u64, flags: u32) -> bool {
        self.ranges.iter().any(|range| {
            (range.first..=range.last).contains(&number)
                && (number - range.first).is_multiple_of(range.step)
                && (range.flags == 0 || range.flags & flags != 0)
        })
    }

    /// The smallest number that may be in the set; `None` if the set is empty.
    pub fn first(&self) -> Option<u64> {
        self.ranges.iter().map(|range| range.first).min()
    }

    /// The largest number that may be in the set; `None` if the set is empty.
    pub fn last(&self) -> Option<u64> {
        self.ranges.iter().map(|range| range.last).max()
    }
}

/// Parses a range at the front of `rest` and removes it; `None` if there is no valid range.
fn range(rest: &mut &str) -> Option<Interval> {
    let mut range = Interval { first: 0, last: u64::MAX, step: 1, flags: 0 };
    if let Some(flags) = frequency(rest) {
        return Some(Interval { flags, ..range });
    }
    if !take(rest, "*") {
        range.first = number(rest)?;
        range.last = if !take(rest, "-") { range.first } else { number(rest).unwrap_or(u64::MAX) };
    }
    if take(rest, "/") {
        match frequency(rest) {
            Some(flags) => range.flags = flags,
            None => range.step = number(rest).filter(|step| *step > 0)?,
        }
    }
    Some(range)
}

/// Removes `word` from the front of `rest`; returns whether it was there.
fn take(rest: &mut &str, word: &str) -> bool {
    let after = rest.strip_prefix(word);
    *rest = after.unwrap_or(rest);
    after.is_some()
}

/// Parses a number at the front of `rest` and removes it; `u64::MAX` if it is too large.
fn number(rest: &mut &str) -> Option<u64> {
    let (digits, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
    *rest = after;
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Parses a word that stands for flags at the front of `rest`, removes it, and returns the flags.
fn frequency(rest: &mut &str) -> Option<u32> {
    let (word, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len()));
    let flags = match word {
        "frame" => END_FRAME,
        "rendertarget" | "fbo" => END_FRAME | SWAP_RENDERTARGET,
        "render" | "draw" => RENDER,
        _ => return None,
    };
    *rest = after;
    Some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> Vec<u64> {
        let mut set = CallSet::default();
        set.add(text).unwrap();
        // Every third call draws, every tenth ends a frame.
        let flags =
            |n: u64| if n.is_multiple_of(3) { RENDER } else { 0 } | if n % 10 == 9 { END_FRAME } else { 0 };
        (0..30).filter(|n| set.has(*n, flags(*n))).collect()
    }

    #[test]
    fn sets_are_read_as_the_original_reads_them() {
        assert_eq!(chosen("3"), [3]);
        assert_eq!(chosen("3,5-7"), [3, 5, 6, 7]);
        assert_eq!(chosen("0-10/draw 25 27-29/2"), [0, 3, 6, 9, 25, 27, 29]);
        assert_eq!(chosen("frame"), [9, 19, 29]);
        assert_eq!(chosen("28-"), [28, 29]);
        assert_eq!(chosen("*/7"), [0, 7, 14, 21, 28]);
        assert_eq!(chosen("9-3"), Vec::<u64>::new());
        // Ranges without a separator.
        assert_eq!(chosen("5-*"), chosen("*"));
        assert_eq!(chosen("20-*/3"), [0, 3, 6, 9, 12, 15, 18, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29]);
        assert_eq!(chosen("28-*/draw"), [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29]);
        assert_eq!(chosen("3frame"), [3, 9, 19, 29]);
        assert_eq!(chosen("27-99999999999999999999"), [27, 28, 29]);
        assert_eq!(chosen("99999999999999999999"), Vec::<u64>::new());
        assert_eq!(chosen(""), Vec::<u64>::new());
    }

    #[test]
    fn mistakes_are_errors() {
        for text in ["x", "3-x", "3/0", "-", "3/", "Draw", "-5", "1-2-3", "5-*x", "*draws"] {
            assert!(CallSet::default().add(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_may_hold_a_set() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        std::fs::write(&path, "1, 2\n5-6\n").unwrap();
        assert_eq!(chosen(&format!("@{}", path.display())), [1, 2, 5, 6]);
        assert!(CallSet::default().add("@/no/such/file").is_err());
    }
}
