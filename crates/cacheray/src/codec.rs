//! Decodes bytes into batches: distinguishes records from damage, finds where to continue after it, and fills columns.

use crate::INFO;
use crate::check::CacherayRules;
use crate::decode::{Layout, Stop, access_thread, address, record, size, with_layout};
use crate::plausible::{
    Familiar, LAST_RECORDS, MAX_ANNOTATION_BYTES, Run, Test, after_bad_tag, flags_of_annotation,
    has_possible_fields, is_followed, is_plausible, is_possible, run_of,
};
use crate::record::{Dialect, KIND_MASK, MAX_NAME_BYTES, Record, WRITE, mark_text};
use crate::rules;
use crate::survey;
use crate::table::{self, FORMS, Records, Row, own_cell};
use quipu_model::lens::{AccessKind, RegionEvent};
use quipu_model::trace::Surveyed;
use quipu_model::{Amount, Batch, Columns, FormatInfo, Printer, RuleInfo, TableBuf};
use quipu_records::print::{RowPrinter, Sort};
use quipu_records::{Family, Fill, FlatTrace, Input, RecordCodec, Resume, Step};

/// A run of records must be recognised within this many bytes.
const MAX_RUN_BYTES: usize = 2 * MAX_NAME_BYTES;
/// A batch ends when names of types take this many bytes, however few records they belong to.
const MAX_NAMES_BYTES: usize = 1 << 20;
/// Kind of all marks.
const MARK: u32 = 0;
/// Number of accesses checked together. PERF: decode_into_lenses.
const BLOCK: usize = 16;

/// The encoding of a trace's records.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// Byte order of integers, and width of addresses.
    pub dialect: Dialect,
}

/// State that reading accumulates.
#[derive(Clone, Debug, Default)]
pub struct State {
    familiar: Familiar,
    /// The thread of the last record that was examined.
    thread: u64,
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
        vec![Box::new(Records::default())]
    }

    fn record(&self, state: &mut State, input: Input<'_>, out: &mut Fill) -> Step {
        let step = with_layout!(self.dialect, L => take::<L>(state, input, out));
        step.unwrap_or_else(|step| step)
    }

    fn run(&self, state: &mut State, bytes: &[u8], out: &mut Fill) -> usize {
        match out.thread() {
            Some(_) => with_layout!(self.dialect, L => accesses::<L>(state.thread, bytes, out)),
            None => 0,
        }
    }

    fn resume(&self, state: &mut State, input: Input<'_>) -> Resume {
        with_layout!(self.dialect, L => resume::<L>(&state.familiar, input))
    }

    fn ended(&self, _: &mut State, out: &mut Fill) {
        if out.offset() == 0 {
            let what = "the trace is empty: the program left nothing, or died before its buffer was written";
            out.tell(&rules::EMPTY, what.to_owned());
        }
    }
}

impl Family for Codec {
    type Rules = CacherayRules;

    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }

    fn columns(&self) -> Columns {
        Columns::ACCESSES | Columns::THREADS | Columns::REGIONS | Columns::MARKS | Columns::MARK_TEXT
    }

    fn mark_name(&self, kind: u32) -> Option<&'static str> {
        (kind == MARK).then_some("mark")
    }

    fn printer(&self) -> Box<dyn Printer> {
        Box::new(
            RowPrinter::new(FORMS, vec![Sort::Data, Sort::Data, Sort::Mark, Sort::Mark]).with_own(own_cell),
        )
    }

    fn survey(&self, trace: &FlatTrace<Codec>, is_cancelled: &dyn Fn() -> bool) -> Surveyed {
        survey::survey(trace, is_cancelled)
    }
}

/// Decodes the record at the front, if it is plausible.
fn take<L: Layout>(state: &mut State, input: Input<'_>, out: &mut Fill) -> Result<Step, Step> {
    let bytes = input.bytes;
    let (record, length) = match record::<L>(bytes) {
        Ok(found) => found,
        Err(Stop::Bad(bad)) => return lost::<L>(state, input, &rules::BAD_TAG, bad.to_string()),
        Err(Stop::More(n_bytes)) if !input.is_last() => return Err(Step::More(n_bytes)),
        Err(Stop::More(n_bytes)) => {
            let n_left = bytes.len();
            if after_bad_tag::<L>(bytes, &state.familiar).is_none() && !holds_run::<L>(bytes, &state.familiar)
            {
                let what = format!("the last record is cut: it has `{n_left}` bytes of at least `{n_bytes}`");
                return Ok(Step::Rest(&rules::CUT, what));
            }
            let what =
                format!("a record would have `{n_bytes}` bytes, more than are left, and records follow");
            return lost::<L>(state, input, &rules::BAD_TAG, what);
        }
    };
    let familiar = &state.familiar;
    let (thread, is_flagged) = (record.thread(), flags_of_annotation(&record) != 0);
    let makes_sense = has_possible_fields(&record);
    // Damage swallows the records after it, or shifts them.
    let is_taken = match makes_sense {
        // A new thread may have any number.
        true if !is_flagged => {
            familiar.has(thread)
                || (is_plausible(&record) && follows::<L>(input, length, familiar)?)
                || is_run::<L>(input, is_possible, 0, familiar)?
        }
        false if is_flagged => false,
        _ => is_run::<L>(input, is_possible, length, familiar)?,
    };
    if !is_taken && makes_sense && !is_flagged {
        let what =
            format!("fields of several threads are mixed: `{thread:#x}` is no thread, and no records follow");
        return lost::<L>(state, input, &rules::MIXED_THREADS, what);
    }
    if !is_taken {
        let what = "a record makes no sense, and none follow".to_owned();
        return lost::<L>(state, input, &rules::BAD_TAG, what);
    }
    state.familiar.add(thread);
    if !out.enter(thread.into()) {
        return Ok(Step::Cut);
    }
    state.thread = thread;
    if is_flagged {
        out.tell(&rules::ANNOTATION_FLAGS, format!("an annotation has flags: tag `{:#04x}`", record.tag()));
    }
    match record {
        Record::Access(_) => push_accesses::<L>(&bytes[..length], thread, out),
        Record::Add(_) | Record::Remove(_) => annotation(&record, out),
    }
    Ok(Step::Record(length))
}

/// Reports bytes that are not a record. If only the tag is wrong, only that record is lost.
#[cold]
fn lost<L: Layout>(
    state: &State,
    input: Input<'_>,
    rule: &'static RuleInfo,
    what: String,
) -> Result<Step, Step> {
    if input.bytes.len() < MAX_ANNOTATION_BYTES && !input.is_last() {
        return Err(Step::More(MAX_ANNOTATION_BYTES));
    }
    let skip = after_bad_tag::<L>(input.bytes, &state.familiar);
    Ok(Step::Lost { rule, what, skip, records: Amount::Unknown })
}

/// Whether a run of records begins `at` bytes from here. If `at` is not 0, the end of the data counts as a run.
fn is_run<L: Layout>(input: Input<'_>, test: Test, at: usize, familiar: &Familiar) -> Result<bool, Step> {
    let n_last = if at > 0 { 0 } else { LAST_RECORDS };
    match run_of::<L>(&input.bytes[at..], test, input.is_last().then_some(n_last), familiar) {
        Run::Records => Ok(true),
        Run::More(n_bytes) if n_bytes <= MAX_RUN_BYTES => Err(Step::More(at + n_bytes)),
        Run::None | Run::More(_) => Ok(false),
    }
}

/// Whether records, or the end of the data, follow a record of this length.
fn follows<L: Layout>(input: Input<'_>, length: usize, familiar: &Familiar) -> Result<bool, Step> {
    let wanted = length + MAX_ANNOTATION_BYTES;
    if input.bytes.len() < wanted && !input.is_last() {
        return Err(Step::More(wanted));
    }
    Ok(is_followed::<L>(&input.bytes[length..], familiar))
}

/// Whether a run of records begins anywhere after the first of these bytes, which end the data.
fn holds_run<L: Layout>(bytes: &[u8], familiar: &Familiar) -> bool {
    let is_run =
        |at: usize| run_of::<L>(&bytes[at..], is_plausible, Some(LAST_RECORDS), familiar) == Run::Records;
    (1..bytes.len()).any(is_run)
}

/// Looks for the next run of records, or for a last record of a familiar thread.
fn resume<L: Layout>(familiar: &Familiar, input: Input<'_>) -> Resume {
    let n_last = input.is_last().then_some(LAST_RECORDS);
    for skip in 0..input.bytes.len() {
        let rest = &input.bytes[skip..];
        match run_of::<L>(rest, is_plausible, n_last, familiar) {
            Run::Records => return Resume::Here(skip),
            Run::More(wants) if wants <= MAX_RUN_BYTES => return Resume::More { skip, wants },
            Run::None | Run::More(_) => {}
        }
        let is_last_record = input.is_last()
            && record::<L>(rest).is_ok_and(|(record, length)| {
                length == rest.len() && is_plausible(&record) && familiar.has(record.thread())
            });
        if is_last_record {
            return Resume::Here(skip);
        }
    }
    if input.is_last() { Resume::Nowhere } else { Resume::More { skip: input.bytes.len(), wants: 1 } }
}

/// Adds the accesses of `thread` at the front of `bytes`, as long as they are complete, plausible and fit into the batch;
/// returns their number of bytes. PERF: a pass over the bytes for each column; the bytes are few enough to stay in the cache.
fn accesses<L: Layout>(thread: u64, bytes: &[u8], out: &mut Fill) -> usize {
    let n_bytes = L::DIALECT.access_bytes();
    let n_whole = (bytes.len() / n_bytes).min(out.room());
    let mut rest = bytes.get(..n_whole * n_bytes).unwrap_or(&[]);
    // Other records are decoded one by one.
    while let Some((block, after)) = rest.split_at_checked(BLOCK * n_bytes)
        && are_usual::<L>(block, thread)
    {
        rest = after;
    }
    let n_rest = rest.len() / n_bytes;
    let n_more =
        rest.chunks_exact(n_bytes).position(|bytes| !are_usual::<L>(bytes, thread)).unwrap_or(n_rest);
    let n_used = (n_whole - n_rest + n_more) * n_bytes;
    push_accesses::<L>(&bytes[..n_used], thread, out);
    n_used
}

/// Adds accesses of a thread to the batch.
#[inline]
fn push_accesses<L: Layout>(bytes: &[u8], thread: u64, out: &mut Fill) {
    let records = bytes.chunks_exact(L::DIALECT.access_bytes());
    let (n, at, first_record) = (records.len(), out.at(), out.n_records() + 1);
    if n == 0 {
        return;
    }
    let (with_accesses, with_tables) = (out.wants(Columns::ACCESSES), out.wants_tables());
    let tag_of = |bytes: &[u8]| bytes.first().copied().unwrap_or(0);
    let Batch { accesses, tables, .. } = out.rows();
    if with_accesses {
        accesses.at.extend(at..at + n as u32); // At most a batch.
        accesses.addr.extend(records.clone().map(address::<L>));
        accesses.size.extend(records.clone().map(|bytes| u32::from(size::<L>(bytes))));
        accesses.kind.extend(records.clone().map(|bytes| match tag_of(bytes) & WRITE {
            0 => AccessKind::Read,
            _ => AccessKind::Write,
        }));
    }
    if with_tables {
        for rows in tables.iter_mut().filter_map(|table| table.get_mut::<Records>()) {
            let fields = |bytes: &[u8]| (tag_of(bytes), address::<L>(bytes), size::<L>(bytes));
            table::push_accesses(first_record, thread, records.clone().map(fields), rows);
        }
    }
    out.add_beyond(|| records.filter(|bytes| tag_of(bytes) & !KIND_MASK != 0).count() as u64);
    out.add(n, 0);
}

/// Whether all of `bytes` are accesses of `thread` with plausible values. PERF: deviations are accumulated without branches
/// (decode_into_lenses).
#[inline(always)]
fn are_usual<L: Layout>(bytes: &[u8], thread: u64) -> bool {
    let (mut tags, mut threads, mut addrs, mut sizes) = (0, 0, 0, 0);
    for bytes in bytes.chunks_exact(L::DIALECT.access_bytes()) {
        tags |= bytes.first().copied().unwrap_or(KIND_MASK);
        threads |= access_thread::<L>(bytes) ^ thread;
        // The upper 16 bits are all 0 or all 1: one more is 0 or 1.
        addrs |= address::<L>(bytes).wrapping_add(1 << 48) >> 48;
        sizes |= u32::from(size::<L>(bytes)).wrapping_sub(1);
    }
    tags & KIND_MASK <= WRITE && threads == 0 && addrs <= 1 && sizes <= u32::from(u8::MAX)
}

/// Adds an annotation to the batch.
fn annotation(record: &Record<'_>, out: &mut Fill) {
    let (at, ordinal) = (out.at(), out.n_records() + 1);
    let (with_regions, with_tables) = (out.wants(Columns::REGIONS), out.wants_tables());
    let (what, element_bytes, n_elements, name) = match record {
        Record::Add(add) => (RegionEvent::Add, add.element_bytes, add.n_elements, Some(add.name)),
        Record::Remove(_) | Record::Access(_) => (RegionEvent::Remove, 0, 0, None),
    };
    let text = mark_text(element_bytes.into(), n_elements.into(), name.unwrap_or(&[]));
    if let Some(text) = text.filter(|_| out.wants(Columns::MARKS)) {
        let with_text = out.wants(Columns::MARK_TEXT);
        let marks = &mut out.rows().marks;
        marks.at.push(at);
        marks.kind.push(MARK);
        marks.value.push(record.addr());
        if with_text {
            marks.text.push_text(text);
        }
    }
    // A mark is a region as well, of no bytes: each annotation has a row.
    let Batch { regions, tables, .. } = out.rows();
    if with_regions {
        regions.at.push(at);
        regions.what.push(what);
        regions.addr.push(record.addr());
        regions.element_bytes.push(element_bytes.into());
        regions.n_elements.push(n_elements.into());
        regions.type_name.push(name.unwrap_or(&[]));
    }
    let mut n_name_bytes = regions.type_name.n_bytes();
    if with_tables {
        let (thread, tag, addr) = (record.thread(), record.tag(), record.addr());
        let row = Row { record: ordinal, thread, tag, addr, element_bytes, n_elements, type_name: name };
        for rows in tables.iter_mut().filter_map(|table| table.get_mut::<Records>()) {
            table::push(&row, rows);
            n_name_bytes = n_name_bytes.max(rows.type_name.values.n_bytes());
        }
    }
    out.add(1, 0);
    if n_name_bytes >= MAX_NAMES_BYTES {
        out.close();
    }
}
