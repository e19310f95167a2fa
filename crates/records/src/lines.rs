//! A codec for records that are lines of text: one kind, one address and perhaps a size each.
//!
//! A format is a [`Language`], a constant; its lines are one or several [`Grammar`]s. What a line is made of has the quick and
//! the thorough way; lines that are neither records nor messages are reported and passed.

mod fill;
mod format;
pub mod language;
pub mod line;
pub mod number;
mod rules;

pub use format::LineFormat;
pub use language::{Head, Language, LineRuleSet, Means, Reading, Seen, Tell, WhatLines, lines};
pub use line::{Fault, Grammar, Line, Record, word};
pub use rules::LineRules;

use crate::codec::{Ending, Input, RecordCodec, Step};
use crate::fill::Fill;
use crate::print::{RowPrinter, Sort};
use crate::survey::{Accesses, counted, survey};
use crate::trace::{Family, FlatTrace};
use line::has_zeros;
use quipu_model::batch::oversized;
use quipu_model::column::CellsRef;
use quipu_model::lens::MAX_ACCESS_BYTES;
use quipu_model::trace::{Fact, Surveyed};
use quipu_model::{Columns, FormatInfo, Printer, RuleInfo, Severity, TableBuf};

/// A longer line is no record.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Bytes of a line that is longer, which are passed at a time.
const PASSED_BYTES: usize = 64 << 10;
/// This much of a line is shown.
const SHOWN_BYTES: usize = 40;

/// How the lines of a trace read.
#[derive(Clone, Copy, Debug)]
pub struct LineCodec {
    /// The format.
    pub language: &'static Language,
    /// Its grammar.
    pub reading: &'static Reading,
    /// Bytes of the aligned word that a line stands for; 0 for lines that say how many bytes they mean.
    pub word_bytes: u32,
    /// The process; 0 if nothing says.
    pub process: u64,
}

/// What reading learns.
#[derive(Clone, Debug, Default)]
pub struct LineState {
    /// Lines so far.
    pub n_lines: u64,
    /// Messages among them.
    pub n_messages: u64,
    /// Lines among them that are nothing known.
    pub n_bad: u64,
    /// The first process that a message names, and whether another one was reported.
    pub process: Option<u64>,
    /// More than one process has messages.
    pub has_processes: bool,
    /// The last instruction.
    pc: u64,
    /// The front is in the middle of a line that is too long and begins at this offset.
    passing: Option<u64>,
    /// Records that are being added.
    rows: Vec<Row>,
    pcs: Vec<u64>,
}

/// A record and the line that it is, counted from 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// The record.
    pub record: Record,
    /// The line.
    pub line: u64,
}

/// Takes records that are written as usual, as long as they follow each other. PERF: 69 M lines/s, with nothing filled
/// (`lackey_without_columns`).
pub(crate) fn run<G: Grammar>(
    codec: &LineCodec,
    state: &mut LineState,
    bytes: &[u8],
    out: &mut Fill,
) -> usize {
    if state.passing.is_some() {
        return 0;
    }
    out.process = codec.process;
    let (instr, stop, room) = (codec.language.instr(), out.stop_instr(), out.room());
    let (mut at, mut n_instrs, mut line) = (0, out.n_instrs(), state.n_lines);
    state.rows.clear();
    while state.rows.len() < room {
        let Some((record, n_bytes)) = bytes.get(at..).and_then(G::quick) else { break };
        if record.kind == instr {
            if n_instrs == stop {
                break;
            }
            n_instrs += 1;
        }
        line += 1;
        state.rows.push(Row { record, line });
        at += n_bytes;
    }
    state.n_lines = line;
    if at > 0 {
        codec.fill(state, out, n_instrs - out.n_instrs(), true);
    }
    at
}

impl RecordCodec for LineCodec {
    type State = LineState;
    const TOLD_PER_RULE: u64 = 100;
    const COUNTS_INSTRS: bool = true;

    fn name(&self) -> &'static str {
        self.language.info.name
    }

    fn begin(&self) -> LineState {
        LineState::default()
    }

    fn tables(&self, _: &LineState) -> Vec<Box<dyn TableBuf>> {
        vec![(self.language.table)()]
    }

    #[inline]
    fn run(&self, state: &mut LineState, bytes: &[u8], out: &mut Fill) -> usize {
        (self.reading.run)(self, state, bytes, out)
    }

    fn record(&self, state: &mut LineState, input: Input<'_>, out: &mut Fill) -> Step {
        out.process = self.process;
        let end = memchr::memchr(b'\n', input.bytes);
        let n_bytes = end.map_or(input.bytes.len(), |end| end + 1);
        if state.passing.is_none() && end.unwrap_or(n_bytes) >= MAX_LINE_BYTES {
            // Its bytes are not kept, so that a batch begins after it.
            if !out.is_empty() {
                return Step::Cut;
            }
            state.passing = Some(out.offset());
            self.zeros(state, &input.bytes[..MAX_LINE_BYTES], out);
        }
        if let Some(start) = state.passing {
            if end.is_none() && !input.is_last() {
                // One byte stays, so that the end of the line is seen even where it is that of the data.
                // PERF: a block more, not a byte: few bytes are moved to those that are left.
                return if n_bytes > 1 { Step::Bulk(n_bytes - 1) } else { Step::More(PASSED_BYTES) };
            }
            let length = out.offset() + n_bytes as u64 - start;
            self.bad_line(state, Fault::Long, (start, length), "", out);
            state.n_lines += 1;
            state.passing = None;
            return Step::Bulk(n_bytes);
        }
        if end.is_none() && !input.is_last() {
            return Step::More(n_bytes + 1);
        }
        let line = &input.bytes[..n_bytes];
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let mut step = Step::Other(n_bytes);
        if let Line::Record(record) = (self.reading.line)(text.strip_suffix(b"\r").unwrap_or(text)) {
            let is_instr = record.kind == self.language.instr();
            if is_instr && out.n_instrs() == out.stop_instr() {
                return Step::Cut;
            }
            // Nothing shows whether the rest of a line has all its digits.
            if end.is_some() {
                let is_mark = self.language.means.get(usize::from(record.kind)) == Some(&Means::Mark);
                let is_oversized = record.size > MAX_ACCESS_BYTES && !is_mark;
                if is_oversized {
                    out.find(|place| oversized(record.size, place));
                }
                state.rows.clear();
                state.rows.push(Row { record, line: state.n_lines + 1 });
                self.fill(state, out, is_instr.into(), !is_oversized);
                step = Step::Record(n_bytes);
            }
        } else {
            self.other_line(state, line, input.ending.filter(|_| end.is_none()), out);
        }
        if end.is_none() && input.ending != Some(Ending::Unread) {
            let what = format!("line {} has `{n_bytes}` bytes and no end", state.n_lines + 1);
            out.tell_bytes(self.language.rules.cut, out.offset(), n_bytes as u64, what);
        }
        state.n_lines += 1;
        step
    }

    fn ended(&self, state: &mut LineState, out: &mut Fill) {
        if out.n_records() == 0 {
            let what = format!("the trace has no record among `{}` lines", state.n_lines);
            out.tell(self.language.rules.empty, what);
        }
    }
}

impl LineCodec {
    /// Reports zero bytes in a line.
    #[cold]
    fn zeros(&self, state: &LineState, line: &[u8], out: &mut Fill) {
        if let Some(rule) = self.language.rules.zeros
            && has_zeros(line)
        {
            let what = format!("line {} has a run of zero bytes", state.n_lines + 1);
            out.tell_bytes(rule, out.offset(), line.len() as u64, what);
        }
    }

    /// Takes a line that is no record; `cut` if it has no end, because the data ends in this way.
    #[cold]
    fn other_line(&self, state: &mut LineState, line: &[u8], cut: Option<Ending>, out: &mut Fill) {
        self.zeros(state, line, out);
        let text = line.trim_ascii_end();
        match (self.reading.line)(text) {
            Line::Record(_) | Line::Other => {}
            // Of a file that is cut off by force, the rest of a line is not what it seems.
            Line::Message(..) if matches!(cut, Some(Ending::Cut | Ending::Unread)) => {}
            Line::Message(process, message) => {
                state.n_messages += 1;
                out.add_beyond(|| 1);
                (self.language.message)(state, process, message, out);
            }
            // It is none because it is cut, which is an error by itself.
            Line::Bad(_) if cut.is_some() && self.language.rules.cut.severity == Severity::Error => {}
            Line::Bad(_) if cut == Some(Ending::Unread) => {}
            Line::Bad(fault) => {
                let shown = text.get(..SHOWN_BYTES).unwrap_or(text);
                let shown = format!(": `{}`", shown.escape_ascii());
                self.bad_line(state, fault, (out.offset(), line.len() as u64), &shown, out);
            }
        }
    }

    /// Reports a line that is nothing known: where it begins, and how long it is.
    #[cold]
    fn bad_line(&self, state: &mut LineState, fault: Fault, at: (u64, u64), shown: &str, out: &mut Fill) {
        state.n_bad += 1;
        let rules = &self.language.rules;
        let rule = match fault {
            Fault::AddressTooLarge | Fault::SizeTooLarge => rules.number,
            _ => rules.bad_line,
        };
        let what = format!("line {} is no record, {}{shown}", state.n_lines + 1, fault.what());
        out.tell_bytes(rule, at.0, at.1, what);
    }
}

impl Family for LineCodec {
    type Rules = LineRules;

    fn info(&self) -> &'static FormatInfo {
        self.language.info
    }

    fn rules(&self) -> &'static [RuleInfo] {
        self.language.rules.all
    }

    fn columns(&self) -> Columns {
        self.language.columns
    }

    fn printer(&self) -> Box<dyn Printer> {
        let sort = |means: &Means| if *means == Means::Instr { Sort::Code } else { Sort::Data };
        Box::new(RowPrinter::new(self.language.forms, self.language.means.iter().map(sort).collect()))
    }

    fn survey(&self, trace: &FlatTrace<LineCodec>, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        let Language { kinds: names, means, .. } = self.language;
        let (mut n_records, mut counts, mut accesses) = (0u64, vec![0u64; names.len()], Accesses::default());
        let mut surveyed = survey(
            trace,
            is_cancelled,
            |batch| {
                let Some(rows) = batch.tables.first() else { return };
                let [kinds, addrs, sizes] = [2, 3, 4].map(|column| rows.column(column).cells);
                let (CellsRef::U8(kinds), CellsRef::U64(addrs), CellsRef::U32(sizes)) = (kinds, addrs, sizes)
                else {
                    return;
                };
                n_records += kinds.len() as u64;
                for ((kind, addr), size) in kinds.iter().zip(addrs).zip(sizes) {
                    let kind = usize::from(*kind) % counts.len();
                    counts[kind] += 1;
                    if !matches!(means[kind], Means::Instr | Means::Mark) {
                        accesses.add(*addr, *size);
                    }
                }
            },
            |state| {
                let count = |key, label, n: Option<u64>| Fact::new(key, label, n.unwrap_or_default());
                vec![
                    count("messages", "lines that are messages", state.map(|state| state.n_messages)),
                    count("bad_lines", "lines that are no records", state.map(|state| state.n_bad)),
                ]
            },
        );
        let by_kind = names.iter().zip(counts).filter(|(_, count)| *count > 0);
        let mut facts = vec![
            Fact::new("records", "records", n_records),
            Fact::new("by_kind", "records by kind", counted(by_kind)),
            Fact::new("access_sizes", "data accesses by size", counted(accesses.sizes.clone())),
        ];
        facts.extend(accesses.facts());
        facts.append(&mut surveyed.facts);
        Surveyed { facts, ..surveyed }
    }

    fn mark_name(&self, kind: u32) -> Option<&'static str> {
        self.language.kinds.get(kind as usize).copied() // Widening.
    }
}
