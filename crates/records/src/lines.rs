//! A codec for records that are lines of text: one kind, one address and perhaps a size each.
//!
//! A format is a [`Language`], a constant; its lines follow one or several [`Grammar`]s. Each grammar has a quick and a
//! thorough parser; lines that are neither records nor messages are reported and skipped.

mod fill;
mod format;
pub mod language;
pub mod line;
pub mod number;
mod rules;

pub use format::LineFormat;
use language::EachRecord;
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

/// Maximum length of a line that can be a record.
const MAX_LINE_BYTES: usize = 64 << 10;

/// Number of bytes of an overlong line that are skipped at a time.
const PASSED_BYTES: usize = 64 << 10;
/// Maximum number of bytes of a line shown in a message.
const SHOWN_BYTES: usize = 40;

/// The codec of a trace's lines.
#[derive(Clone, Copy, Debug)]
pub struct LineCodec {
    /// The line format.
    pub language: &'static Language,
    /// Its grammar in this trace.
    pub reading: &'static Reading,
    /// Size of the aligned word that a line accesses; 0 if lines contain sizes.
    pub word_bytes: u32,
    /// The process; 0 if unknown.
    pub process: u64,
}

/// State that reading accumulates.
#[derive(Clone, Debug, Default)]
pub struct LineState {
    /// Number of lines so far.
    pub n_lines: u64,
    /// Number of messages among them.
    pub n_messages: u64,
    /// Number of malformed lines among them.
    pub n_bad: u64,
    /// The first process that a message names.
    pub process: Option<u64>,
    /// Whether messages name more than one process.
    pub has_processes: bool,
    /// Address of the last instruction.
    pc: u64,
    /// The offset of an overlong line, if the front of the input is within one.
    passing: Option<u64>,
    /// Records that are being added, and the address of the instruction for each.
    rows: Vec<Row>,
    pcs: Vec<u64>,
}

/// A record, and the number of its line, from 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Row {
    /// The record.
    pub record: Record,
    /// The line.
    pub line: u64,
}

/// Adds consecutive records in the usual form. PERF: 69 M lines/s if nothing is filled (`lackey_without_columns`).
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

/// Gives each record of these lines, with the offset of its line.
pub(crate) fn each<G: Grammar>(bytes: &[u8], take: &mut EachRecord<'_>) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let at = (bytes.len() - rest.len()) as u64;
        if let Some((record, n_bytes)) = G::quick(rest) {
            take(at, &record);
            rest = rest.get(n_bytes..).unwrap_or_default();
            continue;
        }
        let n_bytes = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        let (text, after) = rest.split_at(n_bytes);
        let line = text.strip_suffix(b"\n").unwrap_or(text);
        if let Line::Record(record) = G::line(line.strip_suffix(b"\r").unwrap_or(line)) {
            take(at, &record);
        }
        rest = after;
    }
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
            // The bytes of the line are not kept, so that a batch begins after it.
            if !out.is_empty() {
                return Step::Cut;
            }
            state.passing = Some(out.offset());
            self.zeros(state, &input.bytes[..MAX_LINE_BYTES], out);
        }
        if let Some(start) = state.passing {
            if end.is_none() && !input.is_last() {
                // One byte stays, so that the end of the line is seen even if the data ends there.
                // PERF: asks for a block more instead of a byte, since fetching appends to the few bytes that are left.
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
            // Without an end of line, digits may be missing.
            if end.is_some() {
                let is_mark = self.language.means.get(usize::from(record.kind)) == Some(&Means::Mark);
                let is_oversized = record.size > MAX_ACCESS_BYTES && !is_mark;
                if is_oversized {
                    let (size, most) = (u64::from(record.size), u64::from(MAX_ACCESS_BYTES));
                    out.find(|place| oversized(size, most, place));
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

    /// Handles a line that is not a record. If it lacks an end, `cut` is the way in which the data ends.
    #[cold]
    fn other_line(&self, state: &mut LineState, line: &[u8], cut: Option<Ending>, out: &mut Fill) {
        self.zeros(state, line, out);
        let text = line.trim_ascii_end();
        match (self.reading.line)(text) {
            Line::Record(_) | Line::Other => {}
            // In a truncated or damaged file, an incomplete line may not be the message that it seems to be.
            Line::Message(..) if matches!(cut, Some(Ending::Cut | Ending::Unread)) => {}
            Line::Message(process, message) => {
                state.n_messages += 1;
                out.add_beyond(|| 1);
                (self.language.message)(state, process, message, out);
            }
            // It is malformed because it is incomplete, which is reported as an error separately.
            Line::Bad(_) if cut.is_some() && self.language.rules.cut.severity == Severity::Error => {}
            Line::Bad(_) if cut == Some(Ending::Unread) => {}
            Line::Bad(fault) => {
                let shown = text.get(..SHOWN_BYTES).unwrap_or(text);
                let shown = format!(": `{}`", shown.escape_ascii());
                self.bad_line(state, fault, (out.offset(), line.len() as u64), &shown, out);
            }
        }
    }

    /// Reports a malformed line, given its offset and length.
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
