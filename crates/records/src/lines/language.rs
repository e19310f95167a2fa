//! Descriptions of line formats, one value for each.

use crate::codec::Input;
use crate::fill::Fill;
use crate::lines::line::{Grammar, Line, Record};
use crate::lines::{LineCodec, LineState, Row, each, run};
use crate::print::Form;
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{Columns, Confidence, FormatInfo, RuleInfo, TableBuf};
use std::fmt;

/// The description of a line format.
pub struct Language {
    /// Static description of the format.
    pub info: &'static FormatInfo,
    /// Names of the kinds of records.
    pub kinds: &'static [&'static str],
    /// The meaning of each kind for analyses.
    pub means: &'static [Means],
    /// The columns that its records fill.
    pub columns: Columns,
    /// Makes empty rows of its table.
    pub table: fn() -> Box<dyn TableBuf>,
    /// Adds rows to the table; the first row is the record at this position, counted from 0. `pcs` has an instruction address
    /// for each row.
    pub push: fn(first_record: u64, rows: &[Row], pcs: &[u64], to: &mut dyn TableBuf),
    /// Columns of printed rows.
    pub forms: &'static [Form],
    /// The rules that reading itself checks.
    pub rules: LineRuleSet,
    /// Handles a message of the tracer about a process.
    pub message: fn(state: &mut LineState, process: u64, text: &[u8], out: &mut Fill),
    /// Checks the values of a record.
    pub judge: fn(codec: &LineCodec, seen: &mut Seen, record: &Record, tell: &mut Tell<'_>),
}

/// Receives a rule that a record breaks, and the message.
pub type Tell<'t> = dyn FnMut(&'static RuleInfo, fmt::Arguments<'_>) + 't;

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.info.name)
    }
}

impl Language {
    /// The kind of records that are instructions; `u8::MAX` if there is none.
    pub fn instr(&self) -> u8 {
        let instr = self.means.iter().position(|means| *means == Means::Instr);
        instr.map_or(u8::MAX, |kind| kind as u8) // A few.
    }
}

/// The rules of a format that the reader itself checks.
#[derive(Clone, Copy, Debug)]
pub struct LineRuleSet {
    /// All rules of the format.
    pub all: &'static [RuleInfo],
    /// A trace has a record.
    pub empty: &'static RuleInfo,
    /// The last line has an end.
    pub cut: &'static RuleInfo,
    /// A line is a record.
    pub bad_line: &'static RuleInfo,
    /// Numbers fit.
    pub number: &'static RuleInfo,
    /// For zero bytes in lines, if the format's malformed lines are not errors.
    pub zeros: Option<&'static RuleInfo>,
}

/// The meaning of a kind of record for analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// An instruction is executed.
    Instr,
    /// Memory is read.
    Read,
    /// Memory is written.
    Write,
    /// Memory is read and then written, by one instruction.
    Modify,
    /// Memory is accessed in an unknown way: a read, and a mark with the kind's number.
    Unknown,
    /// No access: a mark with the kind's number.
    Mark,
}

/// State of [`Language::judge`] about earlier records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Whether there was an instruction.
    pub has_instr: bool,
    /// Whether a violation that is reported only once was reported.
    pub is_told: bool,
}

/// A grammar's compiled functions. PERF: one call for a run of lines, none for each line.
#[derive(Clone, Copy)]
pub struct Reading {
    pub(crate) run: fn(&LineCodec, &mut LineState, &[u8], &mut Fill) -> usize,
    /// Parses a line, without its end.
    pub line: fn(&[u8]) -> Line<'_>,
    pub(crate) each: fn(&[u8], &mut EachRecord<'_>),
}

/// Receives the offset of a line, and its record.
pub(crate) type EachRecord<'e> = dyn FnMut(u64, &Record) + 'e;

impl Reading {
    /// The functions of a grammar.
    pub const fn of<G: Grammar>() -> Reading {
        Reading { run: run::<G>, line: G::line, each: each::<G> }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reading")
    }
}

/// Facts from the beginning of a file.
#[derive(Debug)]
pub struct Head {
    /// The confidence that it is a trace of the format.
    pub confidence: Confidence,
    /// The grammar of its lines.
    pub reading: &'static Reading,
    /// The process; 0 if unknown.
    pub process: u64,
    /// Facts, in the format's own terms.
    pub facts: Vec<Fact>,
    /// The data that the trace contains and lacks.
    pub carries: Vec<Carries>,
    /// How many of the instructions the trace contains, as far as its beginning shows.
    pub instrs: Recorded,
    /// The same for accesses to data.
    pub data: Recorded,
}

impl Head {
    /// The result for a file with these lines: likely a trace if there are enough records. All other fields have defaults.
    pub fn of(seen: &WhatLines, reading: &'static Reading) -> Head {
        let is_trace = seen.is_good() || seen.is_led();
        Head {
            confidence: if is_trace { Confidence::Likely } else { Confidence::No },
            reading,
            process: 0,
            facts: Vec::new(),
            carries: Vec::new(),
            instrs: Recorded::All,
            data: Recorded::All,
        }
    }
}

/// The lines at the beginning of a file, without their ends, and whether each is incomplete, as the last line of a file may
/// be.
pub fn lines(head: Input<'_>) -> impl Iterator<Item = (&[u8], bool)> {
    let n_ended = memchr::memrchr(b'\n', head.bytes).map_or(0, |last| last + 1);
    let (ended, cut) = head.bytes.split_at(n_ended);
    let cut = if head.is_last() { cut } else { &[] };
    let ended = ended.split(|byte| *byte == b'\n').map(|line| (line, false));
    let lines = ended.chain([(cut, true)]);
    let lines = lines.map(|(line, is_cut)| (line.strip_suffix(b"\r").unwrap_or(line), is_cut));
    lines.filter(|(line, _)| !line.is_empty())
}

/// Counts of the lines at the beginning of a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatLines {
    /// Number of records.
    pub n_records: u32,
    /// Number of malformed lines.
    pub n_bad: u32,
    /// Whether a record comes before any malformed line.
    pub is_first: bool,
    n_leading: u32,
}

/// A file that begins with this many records is a trace, even if the lines after them are damaged.
const LEADING_RECORDS: u32 = 64;

impl WhatLines {
    /// Counts a line.
    pub fn add(&mut self, line: &Line<'_>, is_cut: bool) {
        match line {
            // It is malformed because it is incomplete.
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

    /// Whether the beginning has records and few malformed lines.
    pub fn is_good(&self) -> bool {
        self.is_first && self.n_bad <= self.n_records / 10
    }

    /// Whether there are enough records at the front that the lines after them do not matter.
    pub fn is_led(&self) -> bool {
        self.n_leading >= LEADING_RECORDS
    }
}
