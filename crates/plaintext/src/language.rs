//! What tells the formats of this crate apart: one value for each.

use crate::line::Line;
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{Columns, Confidence, FormatInfo, RuleInfo, TableBuf, Tool};

/// A format of lines.
pub(crate) struct Language {
    pub(crate) info: &'static FormatInfo,
    /// Names of the kinds of records.
    pub(crate) kinds: &'static [&'static str],
    /// What each kind is for analyses.
    pub(crate) means: &'static [Means],
    /// Words that each stand for several kinds.
    pub(crate) families: &'static [(&'static str, &'static [&'static str])],
    pub(crate) columns: Columns,
    /// Makes empty rows of its table.
    pub(crate) table: fn() -> Box<dyn TableBuf>,
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
    /// For zero bytes in lines, where lines that are no records are no errors.
    pub(crate) zeros: Option<&'static RuleInfo>,
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

/// The lines of a beginning, without their ends, and whether each is cut, as the last line of a file without an end may be.
pub(crate) fn lines(head: &[u8], is_whole: bool) -> impl Iterator<Item = (&[u8], bool)> {
    let n_ended = memchr::memrchr(b'\n', head).map_or(0, |last| last + 1);
    let (ended, cut) = head.split_at(n_ended);
    let cut = if is_whole { cut } else { &[] };
    let ended = ended.split(|byte| *byte == b'\n').map(|line| (line, false));
    let lines = ended.chain([(cut, true)]);
    let lines = lines.map(|(line, is_cut)| (line.strip_suffix(b"\r").unwrap_or(line), is_cut));
    lines.filter(|(line, _)| !line.is_empty())
}

/// How many lines of a beginning are what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WhatLines {
    pub(crate) n_records: u32,
    pub(crate) n_bad: u32,
    /// The first line that is a record or should be one is one.
    pub(crate) is_first: bool,
    /// How many are records before the first that is bad.
    pub(crate) n_leading: u32,
}

/// A file that begins with this many records is a trace, whatever damage made of the lines after them.
pub(crate) const LEADING_RECORDS: u32 = 64;

impl WhatLines {
    pub(crate) fn add(&mut self, line: &Line<'_>, is_cut: bool) {
        match line {
            // It is none for that reason.
            Line::Bad(_) if is_cut => {}
            Line::Record(_) => {
                self.is_first |= self.n_records + self.n_bad == 0;
                self.n_records += 1;
                self.n_leading += u32::from(self.n_bad == 0);
            }
            Line::Bad(_) => self.n_bad += 1,
            Line::Other | Line::Message(..) => {}
        }
    }
}
