//! Settings of the printer: selection and layout of calls.

use super::text::Escapes;
use crate::callset::CallSet;
use crate::record::VERBOSE;
use crate::table::FRAME_COLUMN;
use crate::{INFO, call_set, pattern, truth};
use quipu_model::fresh::Replace;
use quipu_model::options::Kind;
use quipu_model::trace::PrintOptions;
use quipu_model::values::{Call, FunctionType};
use quipu_model::{Batch, OptionSpec, Result};
use regex_lite::Regex;
use std::path::PathBuf;

/// Calls are examined up to this many numbers after the last of a set, because other threads may complete later.
const MAX_LATE: u64 = 100;

/// The layout of calls.
#[derive(Clone, Debug)]
pub struct PrintForm {
    /// Whether the thread is printed before the call.
    pub thread_ids: bool,
    /// Whether the number is printed before the call.
    pub call_nos: bool,
    /// Whether the names of arguments are printed.
    pub arg_names: bool,
    /// Whether a call may take several lines.
    pub multiline: bool,
    /// Folder for files of raw memory; `None` if they are not written.
    pub blobs: Option<PathBuf>,
    /// Whether such a file may replace an existing one.
    pub replace: Replace,
    /// The escapes for strings.
    pub escapes: Escapes,
}

/// The selection of calls to print.
#[derive(Debug)]
pub struct Choice {
    verbose: bool,
    pattern: Option<Regex>,
    calls: Option<CallSet>,
    frames: Option<CallSet>,
    /// For each function seen so far, whether the pattern matches its name, by type.
    matches: Vec<Option<bool>>,
    is_done: bool,
    /// Number of verbose calls that are left out, though all other conditions hold.
    n_left_out: u64,
}

const CALLS_ARE: &str = "Printing of calls";

/// A flag that may be given as `yes`, `no`, or without a value.
const fn form(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    truth(name, default, doc).group(CALLS_ARE)
}

const THREAD_IDS: OptionSpec = form("thread-ids", "no", "Print the thread before each call.");
const CALL_NOS: OptionSpec = form("call-nos", "yes", "Print the number before each call.");
const ARG_NAMES: OptionSpec = form("arg-names", "yes", "Print the names of arguments.");
const MULTILINE: OptionSpec = form("multiline", "yes", "Print calls on several lines, with their stacks.");
const GREP: OptionSpec =
    OptionSpec::new("grep", Kind::Text, "", "Only functions whose names match this regular expression.")
        .value("REGEX")
        .group(CALLS_ARE);
/// Selects calls by number.
pub const CALLS: OptionSpec = OptionSpec::new(
    "calls",
    Kind::Set,
    "*",
    "Only these calls: `7`, `7-9`, `7-`, `0-100/2`, `0-100/draw`, `frame`, `@FILE`.",
)
.repeated()
.group(CALLS_ARE);
/// Selects calls by frame.
pub const FRAMES: OptionSpec = OptionSpec::new(
    "frames",
    Kind::Set,
    "*",
    "Only calls of these frames, counted from 0: `7`, `7-9`, `7-`.",
)
.repeated()
.group(CALLS_ARE);
const BLOBS: OptionSpec =
    OptionSpec::new("blobs", Kind::Path, "", "Write raw memory to files in this folder.")
        .value("FOLDER")
        .bare(".")
        .group(CALLS_ARE);
const REPLACE: OptionSpec = form("replace", "no", "Allow such files to replace others.");
const STRINGS: OptionSpec = OptionSpec::new(
    "strings",
    Kind::Choice(&["dump", "whole"]),
    "dump",
    "Escapes as apitrace writes them, or lossless ones.",
)
.value("dump|whole")
.group(CALLS_ARE);

/// All options of printing.
pub const OPTIONS: &[OptionSpec] =
    &[THREAD_IDS, CALL_NOS, ARG_NAMES, MULTILINE, GREP, CALLS, FRAMES, BLOBS, REPLACE, STRINGS];

/// Parses the options.
///
/// # Errors
/// `Usage` if an option is unknown or malformed.
pub fn parse(printing: &PrintOptions) -> Result<(PrintForm, Choice)> {
    let options = INFO.printing(printing)?;
    let multiline = options.flag(&MULTILINE);
    let form = PrintForm {
        thread_ids: options.flag(&THREAD_IDS),
        call_nos: options.flag(&CALL_NOS),
        arg_names: options.flag(&ARG_NAMES),
        multiline,
        blobs: options.path(&BLOBS).map(PathBuf::from),
        replace: options.flag(&REPLACE).into(),
        escapes: match options.word(&STRINGS) {
            "whole" => Escapes::Whole,
            _ => Escapes::Dump { in_one_line: !multiline },
        },
    };
    let (calls, frames) = (call_set(&options, &CALLS)?, call_set(&options, &FRAMES)?);
    let pattern = pattern(&options, &GREP)?;
    let is_empty = |set: &Option<CallSet>| set.as_ref().is_some_and(|set| set.last().is_none());
    let is_done = is_empty(&calls) || is_empty(&frames);
    let choice = Choice {
        verbose: printing.verbose,
        pattern,
        calls,
        frames,
        matches: Vec::new(),
        is_done,
        n_left_out: 0,
    };
    Ok((form, choice))
}

impl Choice {
    /// True if calls are selected by a pattern for names of functions.
    pub fn has_pattern(&self) -> bool {
        self.pattern.is_some()
    }

    /// The selected calls in some rows of a batch.
    pub fn of<'a>(
        &'a mut self,
        batch: &'a Batch,
        rows: &'a [u32],
    ) -> impl Iterator<Item = (&'a Call, &'a FunctionType)> {
        rows.iter().filter_map(move |row| self.at(batch, *row))
    }

    /// The call in a row of a batch, if it is selected.
    #[inline]
    pub fn at<'a>(&mut self, batch: &'a Batch, row: u32) -> Option<(&'a Call, &'a FunctionType)> {
        let call = batch.values.calls.get(row as usize)?;
        let function = batch.types.function(call.function)?;
        let frame = || batch.tables.first().map_or(0, |rows| rows.column(FRAME_COLUMN).number(row as usize));
        self.has(call, function, frame).then_some((call, function))
    }

    /// Whether a call is selected; `frame` returns the number of its frame.
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
        if let Some(pattern) = &self.pattern {
            let position = call.function as usize;
            if self.matches.len() <= position {
                self.matches.resize(position + 1, None);
            }
            let is_match = *self.matches[position]
                .get_or_insert_with(|| pattern.is_match(&String::from_utf8_lossy(&function.name)));
            if !is_match {
                return false;
            }
        }
        let is_left_out = call.flags & VERBOSE != 0 && !self.verbose;
        self.n_left_out += u64::from(is_left_out);
        !is_left_out
    }

    /// Keeps the rows of the first `most` calls that are selected.
    pub fn keep(&mut self, batch: &Batch, rows: &mut Vec<u32>, most: usize) {
        let mut n = 0;
        rows.retain(|row| {
            // Rows after the last one are not looked at, so that they do not count as left out.
            let is_kept = n < most && self.at(batch, *row).is_some();
            n += usize::from(is_kept);
            is_kept
        });
    }

    /// Number of calls so far that were left out only because they are verbose.
    pub fn n_left_out(&self) -> u64 {
        self.n_left_out
    }

    /// True if no later call can be selected.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}
