//! What tells the formats of this crate apart: one value for each.

use crate::line::Line;
use quipu_model::trace::{Carries, Fact, Family, Recorded};
use quipu_model::{Columns, Confidence, FormatInfo, RuleInfo, TableSchema, Tool};

/// A format of lines.
pub(crate) struct Language {
    pub(crate) info: &'static FormatInfo,
    /// Names of the kinds of records.
    pub(crate) kinds: &'static [&'static str],
    /// What each kind is for analyses.
    pub(crate) means: &'static [Means],
    pub(crate) families: &'static [Family],
    pub(crate) columns: Columns,
    pub(crate) tables: &'static [&'static TableSchema],
    pub(crate) rules: Rules,
    pub(crate) tools: &'static [&'static dyn Tool],
    /// Looks at the beginning of a file, which may be all of it, of that name.
    pub(crate) recognise: fn(head: &[u8], is_whole: bool, name: Option<&str>) -> Head,
}

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info.name)
    }
}

/// The rules of a format that reading itself tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) all: &'static [RuleInfo],
    pub(crate) empty: &'static RuleInfo,
    pub(crate) cut: &'static RuleInfo,
    pub(crate) bad_line: &'static RuleInfo,
    pub(crate) number: &'static RuleInfo,
}

/// What a kind of record is for analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// An instruction is executed.
    Instr,
    /// Memory is read.
    Read,
    /// Memory is written.
    Write,
    /// Memory is read and then written, by one instruction.
    Modify,
    /// Memory is accessed in an unknown way: a read, with a mark of the kind's number.
    Unknown,
    /// No access: a mark of the kind's number.
    Mark,
}

/// What the beginning of a file tells.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) confidence: Confidence,
    /// Lines have letters and sizes: Dinero's extended din.
    pub(crate) is_extended: bool,
    /// The process; 0 if nothing says.
    pub(crate) process: u64,
    pub(crate) facts: Vec<Fact>,
    pub(crate) carries: Vec<Carries>,
    /// How much of instructions and of data the trace has, as far as its beginning shows.
    pub(crate) instrs: Recorded,
    pub(crate) data: Recorded,
}

/// The lines of a beginning that are whole, without their ends.
pub(crate) fn lines(head: &[u8], is_whole: bool) -> impl Iterator<Item = &[u8]> {
    let n_whole = match head.iter().rposition(|byte| *byte == b'\n') {
        _ if is_whole => head.len(),
        Some(last) => last,
        None => 0,
    };
    let lines = head[..n_whole].split(|byte| *byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
}

/// How many lines of a beginning are what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WhatLines {
    pub(crate) n_records: u32,
    pub(crate) n_bad: u32,
    /// The first line that is a record or should be one is one.
    pub(crate) is_first: bool,
}

impl WhatLines {
    pub(crate) fn add(&mut self, line: &Line<'_>) {
        match line {
            Line::Record(_) => {
                self.is_first |= self.n_records + self.n_bad == 0;
                self.n_records += 1;
            }
            Line::Bad(_) => self.n_bad += 1,
            Line::Other | Line::Message(..) => {}
        }
    }
}
