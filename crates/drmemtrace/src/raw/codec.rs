//! Decodes words to batches.

use super::table::{FORMS, Row, SORTS, Words, own_cell, push};
use super::word::{GENERATED, Word};
use super::{INFO, rules};
use crate::record::Marker;
use quipu_model::trace::{Fact, Surveyed};
use quipu_model::{Amount, Batch, Columns, FormatInfo, Printer, RuleInfo, TableBuf, ToolInfo};
use quipu_records::check::{self, Check, Log, Rules};
use quipu_records::print::{RowPrinter, Sort};
use quipu_records::survey::{counted, survey};
use quipu_records::{Family, Fill, FlatTrace, Input, RecordCodec, Resume, Step};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a word.
const WORD_BYTES: usize = 8;
/// The thread is among the words in this many first bytes of every file.
pub(super) const START_BYTES: usize = 16 * WORD_BYTES;

/// Number of words that are checked together.
const WINDOW: usize = 64;
/// With more odd words than this among them, they are not part of the trace.
const MAX_ODD: usize = 8;

/// The tool `check`.
pub(super) static CHECK: Check<Codec> = Check::new(&CHECK_INFO);
static CHECK_INFO: ToolInfo = check::info(INFO.name, Columns::MARKS);

/// The decoder of a trace's words.
#[derive(Clone, Debug)]
pub struct Codec {
    /// The paths of the module list.
    pub(super) modules: Arc<Vec<String>>,
}

/// State of reading a file.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// The thread of the words, once it is known.
    thread: Option<u64>,
    /// Its process, once it is known.
    process: Option<u64>,
    /// The upper half of the next marker's value.
    high: Option<u64>,
    last: Option<Word>,
    /// True if the input starts one byte inside a word, which is lost.
    is_in_word: bool,
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
        if self.is_odd(raw, word, state) {
            if input.bytes.len() < WINDOW * WORD_BYTES && !input.is_last() {
                return Step::More(WINDOW * WORD_BYTES);
            }
            let n_odd = self.n_odd(input.bytes.as_chunks().0, state);
            if n_odd > MAX_ODD {
                let what = format!("`{n_odd}` of the next `{WINDOW}` words make no sense");
                state.is_in_word = true;
                return Step::Lost { rule: &rules::NONSENSE, what, skip: None, records: Amount::Unknown };
            }
        }
        // A file holds the words of one thread, including those before the word that names it.
        let thread = state.thread.or_else(|| super::first_thread(input.bytes)).unwrap_or_default();
        let process = state.process.or_else(|| super::first_process(input.bytes)).unwrap_or_default();
        if !out.enter(thread.into()) {
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

    fn resume(&self, state: &mut State, input: Input<'_>) -> Resume {
        // The first byte of the lost word is skipped before anything else is checked.
        let start = if state.is_in_word { WORD_BYTES - 1 } else { 0 };
        let Some(rest) = input.bytes.get(start..) else {
            return match input.is_last() {
                true => Resume::Nowhere,
                false => Resume::More { skip: 0, wants: start + WINDOW * WORD_BYTES },
            };
        };
        state.is_in_word = false;
        let words = rest.as_chunks().0;
        for (at, word) in words.iter().enumerate() {
            if self.is_odd_at(word, state) {
                continue;
            }
            let rest = &words[at..];
            if rest.len() < WINDOW && !input.is_last() {
                return Resume::More { skip: start + at * WORD_BYTES, wants: WINDOW * WORD_BYTES };
            }
            if self.n_odd(rest, state) <= MAX_ODD {
                return Resume::Here(start + at * WORD_BYTES);
            }
        }
        match input.is_last() {
            true => Resume::Nowhere,
            false => Resume::More { skip: start + words.len() * WORD_BYTES, wants: WINDOW * WORD_BYTES },
        }
    }

    fn ended(&self, state: &mut State, out: &mut Fill) {
        if state.last != Some(Word::Footer) {
            out.tell(&rules::NO_FOOTER, "the file ends without a footer".to_owned());
        }
    }
}

impl Codec {
    /// True if a word after the first ones is unlikely to belong to this file.
    fn is_odd(&self, raw: u64, word: Word, state: &State) -> bool {
        if state.last.is_none() {
            return false;
        }
        let is_other = |id: u64, own: Option<u64>| own.is_some_and(|own| own != id);
        match word {
            Word::Thread(id) => is_other(id, state.thread),
            Word::Process(id) => is_other(id, state.process),
            Word::Block { module, instrs, .. } => {
                let is_listed = self.modules.is_empty() || module < self.modules.len() as u64;
                instrs == 0 || module != GENERATED && !is_listed
            }
            Word::Header { .. } | Word::Extended(_) => true,
            Word::Marker { kind, .. } => kind.name().is_none(),
            Word::Access { kind, .. } => kind.name().is_none(),
            Word::Address(_) => matches!(raw, 0 | u64::MAX),
            Word::Clock(_) | Word::TopPc(_) | Word::Base(_) | Word::Footer => false,
        }
    }

    /// The same for the bytes of a word.
    fn is_odd_at(&self, bytes: &[u8; WORD_BYTES], state: &State) -> bool {
        let raw = u64::from_le_bytes(*bytes);
        self.is_odd(raw, Word::decode(raw), state)
    }

    /// The number of odd words among the first ones, which are checked together.
    fn n_odd(&self, words: &[[u8; WORD_BYTES]], state: &State) -> usize {
        let words = words.iter().take(WINDOW);
        words.filter(|word| self.is_odd_at(word, state)).count()
    }

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

/// The rules of raw files; reading itself finds all violations.
#[derive(Debug)]
pub struct RawRules;

impl Rules<Codec> for RawRules {
    fn new(_: &Codec) -> RawRules {
        RawRules
    }

    fn batch(&mut self, _: &Batch, _: &mut Log) {}

    fn merge(&mut self, _: RawRules) {}
}
