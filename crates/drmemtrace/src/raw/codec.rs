//! Words → batches.

use super::table::{FORMS, Row, SORTS, Words, own_cell, push};
use super::word::Word;
use super::{INFO, rules};
use crate::record::Marker;
use quipu_model::trace::Surveyed;
use quipu_model::{Batch, Columns, FormatInfo, Printer, RuleInfo, TableBuf, ToolInfo};
use quipu_records::check::{self, Check, Log, Rules};
use quipu_records::print::{RowPrinter, Sort};
use quipu_records::survey::{counted, survey};
use quipu_records::{Family, Fill, FlatTrace, Input, RecordCodec, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a word.
const WORD_BYTES: usize = 8;
/// The thread stands among the first words of every file.
pub(super) const START_BYTES: usize = 16 * WORD_BYTES;

/// The tool `check`.
pub(super) static CHECK: Check<Codec> = Check::new(&CHECK_INFO);
static CHECK_INFO: ToolInfo = check::info(INFO.name, Columns::MARKS);

/// How the words of a trace read.
#[derive(Clone, Debug)]
pub struct Codec {
    /// The paths of the module list.
    pub(super) modules: Arc<Vec<String>>,
}

/// What reading learns.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Whose words these are, once it is known.
    thread: Option<u64>,
    /// Its process, likewise.
    process: Option<u64>,
    /// The upper half of the value of the marker that follows.
    high: Option<u64>,
    last: Option<Word>,
}

impl RecordCodec for Codec {
    type State = State;
    const COUNTS_INSTRS: bool = false;

    fn name(&self) -> &'static str {
        INFO.name
    }

    fn begin(&self) -> State {
        State::default()
    }

    fn tables(&self, _: &State) -> Vec<Box<dyn TableBuf>> {
        vec![Box::new(Words::default())]
    }

    fn record(&self, state: &mut State, input: Input<'_>, out: &mut Fill) -> Step {
        let Some(bytes) = input.bytes.first_chunk::<WORD_BYTES>() else {
            if !input.is_last() {
                return Step::More(WORD_BYTES);
            }
            let n_left = input.bytes.len();
            let what = format!("`{n_left}` bytes are left over, a word has `{WORD_BYTES}`");
            return Step::Rest(&rules::CUT, what);
        };
        if state.thread.is_none() && input.bytes.len() < START_BYTES && !input.is_last() {
            return Step::More(START_BYTES);
        }
        let raw = u64::from_le_bytes(*bytes);
        let word = Word::decode(raw);
        // The words before the one that names the thread are its own, too.
        let thread = match (word, state.thread) {
            (Word::Thread(thread), _) | (_, Some(thread)) => thread,
            (_, None) => super::first_thread(input.bytes).unwrap_or_default(),
        };
        let process = match (word, state.process) {
            (Word::Process(process), _) | (_, Some(process)) => process,
            (_, None) => super::first_process(input.bytes).unwrap_or_default(),
        };
        // All records of a batch are of one thread and one process.
        if !out.enter(thread.into()) || process != out.process && !out.is_empty() {
            return Step::Cut;
        }
        out.process = process;
        if state.last.is_none() && out.offset() == 0 && !matches!(word, Word::Header { .. }) {
            out.tell(&rules::NO_HEADER, format!("the first word is no header but `{raw:#018x}`"));
        }
        let high = state.high.take();
        let word = match (word, high) {
            (Word::Marker { kind: Marker::SPLIT_VALUE, value }, _) => {
                state.high = Some(value);
                word
            }
            (Word::Marker { kind, value }, Some(high)) => {
                Word::Marker { kind, value: (high << 32) | (value & 0xffff_ffff) }
            }
            _ => word,
        };
        (state.thread, state.process) = (Some(thread), Some(process));
        state.last = Some(word);
        self.push(
            Row { record: out.n_records() + 1, offset: out.offset(), thread, raw, word, path: None },
            out,
        );
        out.add(1, 0);
        Step::Record(WORD_BYTES)
    }

    fn ended(&self, state: &mut State, out: &mut Fill) {
        if state.last != Some(Word::Footer) {
            out.tell(&rules::NO_FOOTER, "the file ends without a footer".to_owned());
        }
    }
}

impl Codec {
    fn push(&self, row: Row<'_>, out: &mut Fill) {
        if let Word::Marker { kind, value } = row.word
            && out.wants(Columns::MARKS)
        {
            let at = out.at();
            let marks = &mut out.rows().marks;
            marks.at.push(at);
            marks.kind.push(kind.0.into());
            marks.value.push(value);
        }
        if !matches!(row.word, Word::Marker { .. }) {
            out.add_beyond(|| 1);
        }
        if !out.wants_tables() {
            return;
        }
        let path = match row.word {
            Word::Block { module, .. } => usize::try_from(module).ok().and_then(|at| self.modules.get(at)),
            _ => None,
        };
        let row = Row { path: path.map(String::as_str), ..row };
        if let Some(words) = out.rows().tables.first_mut().and_then(|table| table.get_mut::<Words>()) {
            push(&row, words);
        }
    }
}

impl Family for Codec {
    type Rules = RawRules;

    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }

    fn columns(&self) -> Columns {
        Columns::THREADS | Columns::MARKS
    }

    fn printer(&self) -> Box<dyn Printer> {
        let sorts = SORTS.iter().map(|sort| match *sort {
            "block" => Sort::Code,
            "address" | "access" | "base" => Sort::Data,
            _ => Sort::Mark,
        });
        Box::new(RowPrinter::new(FORMS, sorts.collect()).with_own(own_cell))
    }

    fn survey(&self, trace: &FlatTrace<Codec>, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        use quipu_model::trace::Fact;
        let (mut sorts, mut n_instrs) = (BTreeMap::<&str, u64>::new(), 0_u64);
        let mut take = |batch: &Batch| {
            let Some(rows) = batch.tables.first().and_then(|table| table.get::<Words>()) else { return };
            for row in 0..rows.len() {
                let sort = SORTS.get(usize::from(rows.kind[row])).copied().unwrap_or("?");
                *sorts.entry(sort).or_insert(0) += 1;
                n_instrs += u64::from(rows.instrs.get(row).unwrap_or_default());
            }
        };
        let Surveyed { findings, error, .. } = survey(trace, is_cancelled, &mut take, |_| Vec::new());
        let facts = vec![
            Fact::new("words", "words", sorts.values().sum::<u64>()),
            Fact::new("instructions", "instructions that blocks stand for", n_instrs),
            Fact::new("by_sort", "words by sort", counted(sorts)),
        ];
        Surveyed { facts, findings, error }
    }

    fn mark_name(&self, kind: u32) -> Option<&'static str> {
        Marker(u16::try_from(kind).ok()?).name()
    }
}

/// Words follow no rule but those of how files begin and end.
#[derive(Debug)]
pub struct RawRules;

impl Rules<Codec> for RawRules {
    fn new(_: &Codec) -> RawRules {
        RawRules
    }

    fn batch(&mut self, _: &Batch, _: &mut Log) {}

    fn merge(&mut self, _: RawRules) {}
}
