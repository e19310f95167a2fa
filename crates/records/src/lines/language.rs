//! What tells formats of lines apart: one value for each.

use crate::codec::Input;
use crate::fill::Fill;
use crate::lines::line::{Grammar, Line, Record};
use crate::lines::{LineCodec, LineState, Row, run};
use crate::print::Form;
use quipu_model::trace::{Carries, Fact, Recorded};
use quipu_model::{Columns, Confidence, FormatInfo, RuleInfo, TableBuf};

/// A format of lines.
pub struct Language {
    /// What is known of it without a trace.
    pub info: &'static FormatInfo,
    /// Names of the kinds of records.
    pub kinds: &'static [&'static str],
    /// What each kind is for analyses.
    pub means: &'static [Means],
    /// The columns that its records fill.
    pub columns: Columns,
    /// Makes empty rows of its table.
    pub table: fn() -> Box<dyn TableBuf>,
    /// Adds rows to the table, the first of which is the record at this position, counted from 0. There is an instruction's
    /// address for each.
    pub push: fn(first_record: u64, rows: &[Row], pcs: &[u64], to: &mut dyn TableBuf),
    /// How rows are printed.
    pub forms: &'static [Form],
    /// The rules that reading itself checks.
    pub rules: LineRuleSet,
    /// Takes a message of the tracer in the trace, of a process.
    pub message: fn(state: &mut LineState, process: u64, text: &[u8], out: &mut Fill),
    /// Looks at what a record says.
    pub judge: fn(codec: &LineCodec, seen: &mut Seen, record: &Record, tell: &mut Tell<'_>),
}

/// Takes a rule that a record breaks, and what is wrong.
pub type Tell<'t> = dyn FnMut(&'static RuleInfo, String) + 't;

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info.name)
    }
}

impl Language {
    /// The kind of records that are instructions; one that there is not if none is.
    pub fn instr(&self) -> u8 {
        let instr = self.means.iter().position(|means| *means == Means::Instr);
        instr.map_or(u8::MAX, |kind| kind as u8) // A few.
    }
}

/// The rules of a format that reading itself checks.
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
    /// For zero bytes in lines, where lines that are no records are no errors.
    pub zeros: Option<&'static RuleInfo>,
}

/// What a kind of record is for analyses.
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
    /// Memory is accessed in an unknown way: a read, with a mark of the kind's number.
    Unknown,
    /// No access: a mark of the kind's number.
    Mark,
}

/// What [`Language::judge`] has seen of the records before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// An instruction.
    pub has_instr: bool,
    /// A violation that is reported once.
    pub is_told: bool,
}

/// A grammar's functions, compiled for it. PERF: one call for a run of lines, none for a line.
#[derive(Clone, Copy)]
pub struct Reading {
    pub(crate) run: fn(&LineCodec, &mut LineState, &[u8], &mut Fill) -> usize,
    /// Reads a line, without its end.
    pub line: fn(&[u8]) -> Line<'_>,
}

impl Reading {
    /// Those of a grammar.
    pub const fn of<G: Grammar>() -> Reading {
        Reading { run: run::<G>, line: G::line }
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reading")
    }
}

/// What the beginning of a file shows.
#[derive(Debug)]
pub struct Head {
    /// Whether it is a trace of the format.
    pub confidence: Confidence,
    /// How its lines read.
    pub reading: &'static Reading,
    /// The process; 0 if nothing says.
    pub process: u64,
    /// Facts, in the format's own words.
    pub facts: Vec<Fact>,
    /// What the trace carries and what it lacks.
    pub carries: Vec<Carries>,
    /// How much of the instructions the trace has, as far as its beginning shows.
    pub instrs: Recorded,
    /// The same of accesses to data.
    pub data: Recorded,
}

impl Head {
    /// Of a file in which these lines were seen: likely a trace if there are enough of them. Nothing else is said.
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

/// The lines of a beginning, without their ends, and whether each is cut, as the last line of a file without an end may be.
pub fn lines(head: Input<'_>) -> impl Iterator<Item = (&[u8], bool)> {
    let n_ended = memchr::memrchr(b'\n', head.bytes).map_or(0, |last| last + 1);
    let (ended, cut) = head.bytes.split_at(n_ended);
    let cut = if head.is_last() { cut } else { &[] };
    let ended = ended.split(|byte| *byte == b'\n').map(|line| (line, false));
    let lines = ended.chain([(cut, true)]);
    let lines = lines.map(|(line, is_cut)| (line.strip_suffix(b"\r").unwrap_or(line), is_cut));
    lines.filter(|(line, _)| !line.is_empty())
}

/// How many lines of a beginning are what.
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatLines {
    /// Records.
    pub n_records: u32,
    /// Lines that should be records.
    pub n_bad: u32,
    /// The first line that is a record or should be one is one.
    pub is_first: bool,
    n_leading: u32,
}

/// A file that begins with this many records is a trace, whatever damage made of the lines after them.
const LEADING_RECORDS: u32 = 64;

impl WhatLines {
    /// Counts a line.
    pub fn add(&mut self, line: &Line<'_>, is_cut: bool) {
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

    /// Whether the beginning has records and few other lines.
    pub fn is_good(&self) -> bool {
        self.is_first && self.n_bad <= self.n_records / 10
    }

    /// Whether enough records come first that what follows them does not matter.
    pub fn is_led(&self) -> bool {
        self.n_leading >= LEADING_RECORDS
    }
}
