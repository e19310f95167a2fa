//! Sets of calls, as apitrace's command line writes them: `0-20/draw 25 27-29/2`, `frame`, `@FILE`.
//!
//! ```text
//! set      = part { "," part }          part  = "@" file | { range }
//! range    = freq | interval [ "/" ( number | freq ) ]
//! interval = "*" | N | N "-" | N "-" M  freq  = frame | rendertarget | fbo | render | draw
//! ```
//!
//! SPEC: apitrace.md#the-command-line-of-apitrace.

use crate::record::{END_FRAME, RENDER, SWAP_RENDERTARGET};
use quipu_model::{Error, Result};
use quipu_source::Reading;
use std::path::Path;

/// A set of calls; nothing at first.
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
    /// Adds what `text` says.
    ///
    /// # Errors
    /// `Usage` if it is not written as it should be; `Io` or `Missing` if a file cannot be read.
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
        for word in text.split([' ', '\t', '\r', '\n']).filter(|word| !word.is_empty()) {
            let range = parse(word).ok_or_else(|| {
                Error::usage(format!("`{word}` is no set of calls"))
                    .hint("write `7`, `7-9`, `7-`, `*`, `0-100/2`, `0-100/draw`, `frame`, `rendertarget`, or `@FILE`")
            })?;
            if range.first <= range.last {
                self.ranges.push(range);
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

    /// The smallest number that may be in the set; `None` if nothing is.
    pub fn first(&self) -> Option<u64> {
        self.ranges.iter().map(|range| range.first).min()
    }

    /// The largest number that may be in the set; `None` if nothing is.
    pub fn last(&self) -> Option<u64> {
        self.ranges.iter().map(|range| range.last).max()
    }
}

fn parse(word: &str) -> Option<Interval> {
    let all = Interval { first: 0, last: u64::MAX, step: 1, flags: 0 };
    if let Some(flags) = frequency(word) {
        return Some(Interval { flags, ..all });
    }
    let (interval, step) = match word.split_once('/') {
        Some((interval, step)) => (interval, Some(step)),
        None => (word, None),
    };
    let mut range = match interval.split_once('-') {
        _ if interval == "*" => all,
        Some((first, "")) => Interval { first: first.parse().ok()?, ..all },
        Some((first, last)) => Interval { first: first.parse().ok()?, last: last.parse().ok()?, ..all },
        None => {
            let number = interval.parse().ok()?;
            Interval { first: number, last: number, ..all }
        }
    };
    if let Some(step) = step {
        match frequency(step) {
            Some(flags) => range.flags = flags,
            None => range.step = step.parse().ok().filter(|step| *step > 0)?,
        }
    }
    Some(range)
}

/// The flags that a word stands for.
fn frequency(word: &str) -> Option<u32> {
    match word {
        "frame" => Some(END_FRAME),
        "rendertarget" | "fbo" => Some(END_FRAME | SWAP_RENDERTARGET),
        "render" | "draw" => Some(RENDER),
        _ => None,
    }
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
        assert_eq!(chosen(""), Vec::<u64>::new());
    }

    #[test]
    fn mistakes_are_errors() {
        for text in ["x", "3-x", "3/0", "-", "3/", "Draw"] {
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
