//! Which calls are printed, and how much of each.

use super::text::Escapes;
use crate::INFO;
use crate::callset::CallSet;
use crate::record::VERBOSE;
use crate::table::FRAME_COLUMN;
use quipu_model::fresh::Replace;
use quipu_model::trace::PrintOptions;
use quipu_model::values::{Call, FunctionType};
use quipu_model::{Batch, Error, Result};
use regex_lite::Regex;
use std::path::PathBuf;

/// How far behind the last number of a set calls are looked at: other threads may be late.
const MAX_LATE: u64 = 100;

/// How a call is printed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the thread stands before the call.
    pub thread_ids: bool,
    /// Whether the number stands before the call.
    pub call_nos: bool,
    /// Whether arguments have their names.
    pub arg_names: bool,
    /// Whether a call may take several lines.
    pub multiline: bool,
    /// Where raw memory is written, if it is.
    pub blobs: Option<PathBuf>,
    /// Whether such a file may replace another.
    pub replace: Replace,
    /// How strings are written.
    pub escapes: Escapes,
}

/// Which calls are printed.
#[derive(Debug)]
pub struct Choice {
    verbose: bool,
    pattern: Option<Regex>,
    calls: Option<CallSet>,
    frames: Option<CallSet>,
    /// Whether each function met so far has the pattern in its name, by type.
    matches: Vec<Option<bool>>,
    is_done: bool,
}

/// What the options say.
///
/// # Errors
/// `Usage` if a setting is unknown or wrong.
pub fn parse(options: &PrintOptions) -> Result<(Settings, Choice)> {
    options.check(&INFO)?;
    let multiline = truth(options, "multiline", true)?;
    let settings = Settings {
        thread_ids: truth(options, "thread-ids", false)?,
        call_nos: truth(options, "call-nos", true)?,
        arg_names: truth(options, "arg-names", true)?,
        multiline,
        blobs: options.last("blobs").map(PathBuf::from),
        replace: truth(options, "replace", false)?.into(),
        escapes: match options.last("strings") {
            None | Some("dump") => Escapes::Dump { in_one_line: !multiline },
            Some("whole") => Escapes::Whole,
            Some(other) => return Err(wrong("strings", other, "`dump` or `whole`")),
        },
    };
    let calls = set(options, "calls")?;
    let frames = set(options, "frames")?;
    let pattern = match options.last("grep") {
        Some(text) => Some(
            Regex::new(text)
                .map_err(|cause| Error::usage(format!("`{text}` is no regular expression")).because(cause))?,
        ),
        None => None,
    };
    let is_empty = |set: &Option<CallSet>| set.as_ref().is_some_and(|set| set.last().is_none());
    let is_done = is_empty(&calls) || is_empty(&frames);
    let choice = Choice { verbose: options.verbose, pattern, calls, frames, matches: Vec::new(), is_done };
    Ok((settings, choice))
}

/// The union of all sets of that name; `None` if none is given.
///
/// # Errors
/// `Usage` if one is not written as it should be.
pub fn set(options: &PrintOptions, name: &str) -> Result<Option<CallSet>> {
    let mut all: Option<CallSet> = None;
    for text in options.all(name) {
        all.get_or_insert_default().add(text)?;
    }
    Ok(all)
}

fn truth(options: &PrintOptions, name: &str, default: bool) -> Result<bool> {
    match options.last(name) {
        None => Ok(default),
        Some("" | "1" | "yes" | "true") => Ok(true),
        Some("0" | "no" | "false") => Ok(false),
        Some(other) => Err(wrong(name, other, "`yes` or `no`")),
    }
}

fn wrong(name: &str, found: &str, expected: &str) -> Error {
    Error::usage(format!("`{name}` is {expected}, found `{found}`"))
}

impl Choice {
    /// True if only functions with a pattern in their names are printed.
    pub fn has_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// The calls in some rows of a batch that are printed.
    pub fn of<'a>(
        &'a mut self,
        batch: &'a Batch,
        rows: &'a [u32],
    ) -> impl Iterator<Item = (&'a Call, &'a FunctionType)> {
        rows.iter().filter_map(move |row| self.at(batch, *row))
    }

    /// The call in a row of a batch, if it is printed.
    #[inline]
    pub fn at<'a>(&mut self, batch: &'a Batch, row: u32) -> Option<(&'a Call, &'a FunctionType)> {
        let call = batch.values.calls.get(row as usize)?;
        let function = batch.types.function(call.function)?;
        let frame = || batch.tables.first().map_or(0, |rows| rows.column(FRAME_COLUMN).number(row as usize));
        self.has(call, function, frame).then_some((call, function))
    }

    /// Whether a call is printed, which belongs to a frame.
    #[inline]
    pub fn has(&mut self, call: &Call, function: &FunctionType, frame: impl FnOnce() -> u64) -> bool {
        if let Some(frames) = &self.frames {
            let frame = frame();
            self.is_done |= frames.last().is_none_or(|last| frame > last);
            if !frames.has(frame, call.flags) {
                return false;
            }
        }
        if let Some(calls) = &self.calls {
            self.is_done |= calls.last().is_none_or(|last| call.number > last.saturating_add(MAX_LATE));
            if !calls.has(call.number, call.flags) {
                return false;
            }
        }
        if call.flags & VERBOSE != 0 && !self.verbose {
            return false;
        }
        let Some(pattern) = &self.pattern else { return true };
        let position = call.function as usize;
        if self.matches.len() <= position {
            self.matches.resize(position + 1, None);
        }
        *self.matches[position]
            .get_or_insert_with(|| pattern.is_match(&String::from_utf8_lossy(&function.name)))
    }

    /// True if no call to come is printed.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}
