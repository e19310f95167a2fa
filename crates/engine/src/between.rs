//! A view of a trace that holds only its parts between marks.
//!
//! A mark is a moment with a name: one that the program set by its text, any other row of the marks lens by the name of its
//! kind, the call of a function that the trace names, or the first instruction of a function whose address the caller knows.
//! A part begins with the record of a first mark, and ends before that of the next second one, along the sequence of all
//! threads. So one read of the trace finds out which records of each shard belong to which part, and later reads leave out the
//! others. Regions of memory stay known across them.

use crate::merge::Merge;
use crate::watch::Watch;
use quipu_model::lens::{CallEdge, ThreadEvent};
use quipu_model::number::{count, counted};
use quipu_model::print::{Printer, RowForm};
use quipu_model::schema::Schema;
use quipu_model::trace::{CoreForm, Fact, PrintOptions, settled};
use quipu_model::values::Type;
use quipu_model::{
    Batch, Columns, Error, ErrorKind, Meta, Reader, Result, Scan, Shard, ShardId, ThreadId, Trace, Window,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

/// The parts of a trace from one mark to the next other one, each time.
///
/// As text: `FIRST,SECOND`. Without the first name, the only part begins with the trace; without the second, it ends with it.
///
/// ```
/// use quipu_engine::Between;
///
/// let round: Between = "round,round".parse()?;
/// assert_eq!(round.to_string(), "from `round` to `round`");
/// assert_eq!("func_id=12,".parse::<Between>()?.to_string(), "from `func_id=12` on");
/// assert!("round".parse::<Between>().is_err());
/// # Ok::<(), quipu_model::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Between {
    /// Begins parts; `None` for the beginning of the trace.
    pub from: Option<MarkName>,
    /// Ends them; `None` for the end of the trace.
    pub to: Option<MarkName>,
}

/// The name of a mark, and its value if that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkName {
    /// Text of the mark, name of its kind, or name of a function.
    pub name: String,
    /// The value that the mark must have; any if `None`.
    pub value: Option<u64>,
}

impl FromStr for Between {
    type Err = Error;

    fn from_str(text: &str) -> Result<Between> {
        let wants =
            || Error::usage(format!("two marks with a comma between them are wanted, found `{text}`"));
        let (from, to) = text.split_once(',').ok_or_else(wants)?;
        let (from, to) = (MarkName::of(from), MarkName::of(to));
        if from.is_none() && to.is_none() {
            return Err(wants());
        }
        Ok(Between { from, to })
    }
}

impl MarkName {
    /// The mark that `NAME` or `NAME=VALUE` means; `None` for an empty text.
    fn of(text: &str) -> Option<MarkName> {
        let text = text.trim();
        let valued = text.rsplit_once('=').and_then(|(name, value)| Some((name, count(value).ok()?)));
        match valued {
            _ if text.is_empty() => None,
            Some((name, value)) => Some(MarkName { name: name.to_owned(), value: Some(value) }),
            None => Some(MarkName { name: text.to_owned(), value: None }),
        }
    }
}

impl fmt::Display for MarkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.value.map_or(Ok(()), |value| write!(f, "={value}"))
    }
}

impl fmt::Display for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "from `{from}` to `{to}`"),
            (Some(from), None) => write!(f, "from `{from}` on"),
            (None, Some(to)) => write!(f, "up to `{to}`"),
            (None, None) => f.write_str("whole"),
        }
    }
}

/// Leaves out all records of a trace that are not between these marks. `addresses` gives the addresses of a function's first
/// instruction; it is asked only for names that neither marks nor calls have.
///
/// Records keep their positions in the trace, and windows count along the whole trace.
///
/// # Errors
/// `Missing` if the trace carries no marks, has none of this name (the advice lists those that it has), or none of the second
/// name after one of the first; `Io` if the watch was cancelled.
pub fn between(
    trace: Box<dyn Trace>,
    wanted: &Between,
    addresses: &dyn Fn(&str) -> Vec<u64>,
    watch: &Watch,
) -> Result<Box<dyn Trace>> {
    let found = settled(&*trace, || watch.is_cancelled(), || find(&*trace, wanted, addresses, watch))?;
    Ok(Box::new(PartTrace::new(trace, wanted, found)))
}

/// The records of the parts between these marks, counted from 0 along the sequence of all shards; `u64::MAX` ends a part that
/// has no end.
///
/// # Errors
/// As for [`between`].
pub fn ranges_between(
    trace: &dyn Trace,
    wanted: &Between,
    addresses: &dyn Fn(&str) -> Vec<u64>,
    watch: &Watch,
) -> Result<Vec<Range<u64>>> {
    let found = settled(trace, || watch.is_cancelled(), || find(trace, wanted, addresses, watch))?;
    Ok(found.of_sequence)
}

/// A trace's parts between marks: records of each shard, and of the sequence of all.
struct Found {
    of_shards: Vec<Vec<Range<u64>>>,
    of_sequence: Vec<Range<u64>>,
    /// For each shard, the records from the beginning of the first part to the end of the last one, its own or not.
    spans: Vec<Range<u64>>,
}

/// Columns that tell of marks, the cheapest first. Further ones are read only for names that were not met.
const SORTS: [Columns; 3] = [Columns::MARKS.or(Columns::MARK_TEXT), Columns::CALLS, Columns::INSTRS];

fn find(
    trace: &dyn Trace,
    wanted: &Between,
    addresses: &dyn Fn(&str) -> Vec<u64>,
    watch: &Watch,
) -> Result<Found> {
    let (mut columns, mut last) = (Columns::NONE, None);
    for sort in SORTS {
        let more = sort.and(trace.columns());
        let mut search = Search::new(trace, wanted);
        if more.has(Columns::INSTRS) {
            search.pcs = search.ends.map(|end| end.map_or_else(Vec::new, |end| addresses(&end.name)));
            if search.pcs.iter().all(Vec::is_empty) {
                continue;
            }
        }
        if more.is_empty() {
            continue;
        }
        columns |= more;
        search.read(columns, watch)?;
        let is_done = search.has_met_all();
        last = Some(search);
        if is_done {
            break;
        }
    }
    let none = || Error::missing("parts between marks need marks, which this trace does not carry");
    last.ok_or_else(none)?.finish()
}

/// A search for marks along the sequence of all shards.
struct Search<'t> {
    trace: &'t dyn Trace,
    /// The first and the second mark.
    ends: [Option<&'t MarkName>; 2],
    /// Addresses of the functions of these names.
    pcs: [Vec<u64>; 2],
    /// Kinds of marks so far.
    kinds: HashMap<u32, Kind>,
    /// Texts of marks so far, each with the number of such marks.
    texts: HashMap<Vec<u8>, u64>,
    /// Functions of these names, by workload and id.
    functions: HashMap<(u16, u64), [bool; 2]>,
    /// For each shard, the number of types that were looked at for functions.
    n_types: Vec<usize>,
    /// Whether the first and the second mark occurred.
    met: [bool; 2],
    /// For each shard, the number of records before the current position of the sequence.
    reached: Vec<u64>,
    /// The same at the beginning of the current part.
    open: Option<Vec<u64>>,
    found: Found,
}

/// A kind of marks: whether it has the name of the first or of the second one, and the number of such marks without a text.
#[derive(Clone, Copy, Default)]
struct Kind {
    is: [bool; 2],
    n: u64,
}

/// Maximum number of different texts of marks that are remembered.
const MAX_TEXTS: usize = 4096;
/// Maximum number of marks that an error lists.
const MAX_LISTED: usize = 20;

impl<'t> Search<'t> {
    fn new(trace: &'t dyn Trace, wanted: &'t Between) -> Search<'t> {
        let n_shards = trace.shards().len();
        let ends = [wanted.from.as_ref(), wanted.to.as_ref()];
        let reached = vec![0; n_shards];
        let mut functions = HashMap::new();
        for function in &trace.meta().functions {
            let is = ends.map(|end| end.is_some_and(|end| function.names.contains(&end.name)));
            if is != [false; 2] {
                functions.insert((function.workload, function.id), is);
            }
        }
        Search {
            trace,
            ends,
            pcs: [Vec::new(), Vec::new()],
            kinds: HashMap::new(),
            texts: HashMap::new(),
            functions,
            n_types: vec![0; n_shards],
            met: [false; 2],
            // The beginning of the trace begins the part if no mark does.
            open: wanted.from.is_none().then(|| reached.clone()),
            reached,
            found: Found {
                of_shards: vec![Vec::new(); n_shards],
                of_sequence: Vec::new(),
                spans: vec![u64::MAX..0; n_shards],
            },
        }
    }

    /// Reads the trace with these columns. Faults of the trace are left to later reads to report.
    fn read(&mut self, columns: Columns, watch: &Watch) -> Result<()> {
        let template = Scan { ahead: true, ..Scan::new(ShardId(0)).columns(columns) };
        let mut merge = Merge::new(self.trace, &template, watch)?;
        loop {
            if watch.is_cancelled() {
                return Err(Error::new(ErrorKind::Io, "interrupted while looking for marks"));
            }
            match merge.read() {
                Ok(Some(merged)) => self.take(merged.batch),
                Ok(None) => return Ok(()),
                Err(_) => {}
            }
        }
    }

    fn take(&mut self, batch: &Batch) {
        let (span, shard) = (batch.span, batch.span.shard as usize);
        for (at, is) in self.moments(batch) {
            let here = span.first_record.saturating_add(at.into());
            self.met = [self.met[0] || is[0], self.met[1] || is[1]];
            if is[1]
                && let Some(start) = self.open.take()
            {
                let end = self.position(shard, here);
                self.close(&start, &end);
            }
            if is[0] && self.open.is_none() {
                self.open = Some(self.position(shard, here));
            }
        }
        if let Some(reached) = self.reached.get_mut(shard) {
            *reached = (*reached).max(span.first_record.saturating_add(span.records.into()));
        }
    }

    /// The position of the sequence where `here` records of a shard have passed.
    fn position(&self, shard: usize, here: u64) -> Vec<u64> {
        let mut position = self.reached.clone();
        if let Some(records) = position.get_mut(shard) {
            *records = here;
        }
        position
    }

    /// Adds the part between two positions.
    fn close(&mut self, start: &[u64], end: &[u64]) {
        let of_all = |position: &[u64]| position.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
        self.found.of_sequence.push(of_all(start)..of_all(end));
        for (span, (start, end)) in self.found.spans.iter_mut().zip(start.iter().zip(end)) {
            *span = span.start.min(*start)..span.end.max(*end);
        }
        for (parts, (start, end)) in self.found.of_shards.iter_mut().zip(start.iter().zip(end)) {
            match parts.last_mut() {
                Some(last) if last.end >= *start => last.end = last.end.max(*end),
                _ if start < end => parts.push(*start..*end),
                _ => {}
            }
        }
    }

    /// The wanted marks of a batch, each with the index of its record, and whether it is the first or the second one.
    fn moments(&mut self, batch: &Batch) -> Vec<(u32, [bool; 2])> {
        let mut all = Vec::new();
        let marks = &batch.marks;
        for (row, (at, kind)) in marks.at.iter().zip(&marks.kind).enumerate() {
            let text = marks.text.get(row);
            let is = self.mark(*kind, marks.value.get(row).copied().unwrap_or(0), text);
            all.push((*at, is));
        }
        self.learn(batch);
        let workload = batch.span.thread.workload;
        let calls = batch.calls.at.iter().zip(batch.calls.function.iter().zip(&batch.calls.edge));
        for (at, (function, _)) in calls.filter(|(_, (_, edge))| **edge == CallEdge::Enter) {
            all.extend(self.functions.get(&(workload, *function)).map(|is| (*at, *is)));
        }
        if self.pcs.iter().any(|pcs| !pcs.is_empty()) {
            for (at, pc) in batch.instrs.at.iter().zip(&batch.instrs.pc) {
                all.push((*at, [self.pcs[0].contains(pc), self.pcs[1].contains(pc)]));
            }
        }
        all.retain(|(_, is)| *is != [false; 2]);
        all.sort_by_key(|(at, _)| *at);
        all
    }

    /// Counts a mark, and says whether it is a wanted one.
    fn mark(&mut self, kind: u32, value: u64, text: &[u8]) -> [bool; 2] {
        let (trace, ends) = (self.trace, self.ends);
        let of_kind = self.kinds.entry(kind).or_insert_with(|| {
            let name = trace.mark_name(kind);
            Kind { is: ends.map(|end| end.is_some_and(|end| end.name == name)), n: 0 }
        });
        let mut is = of_kind.is;
        if text.is_empty() {
            of_kind.n += 1;
        } else {
            let n_texts = self.texts.len();
            match self.texts.get_mut(text) {
                Some(n) => *n += 1,
                None if n_texts < MAX_TEXTS => {
                    self.texts.insert(text.to_vec(), 1);
                }
                None => {}
            }
            for (is, end) in is.iter_mut().zip(ends) {
                *is |= end.is_some_and(|end| end.name.as_bytes() == text);
            }
        }
        for (is, end) in is.iter_mut().zip(ends) {
            *is &= end.and_then(|end| end.value).is_none_or(|wanted| wanted == value);
        }
        is
    }

    /// Looks at functions that the read has named since.
    fn learn(&mut self, batch: &Batch) {
        let Some(n_types) = self.n_types.get_mut(batch.span.shard as usize) else { return };
        for ty in batch.types.as_slice().get(*n_types..).unwrap_or(&[]) {
            if let Type::Function(function) = &**ty {
                let name = &function.name[..];
                let is = self.ends.map(|end| end.is_some_and(|end| end.name.as_bytes() == name));
                if is != [false; 2] {
                    self.functions.insert((batch.span.thread.workload, function.id), is);
                }
            }
        }
        *n_types = batch.types.len();
    }

    fn has_met_all(&self) -> bool {
        self.ends.iter().zip(self.met).all(|(end, met)| end.is_none() || met)
    }

    fn finish(mut self) -> Result<Found> {
        if self.ends[1].is_none()
            && let Some(start) = self.open.take()
        {
            let end = vec![u64::MAX; start.len()];
            self.close(&start, &end);
        }
        let absent = self.ends.iter().zip(self.met).find_map(|(end, met)| end.filter(|_| !met));
        if let Some(name) = absent {
            return Err(self.absent(name));
        }
        match self.ends {
            [Some(from), Some(to)] if self.found.of_sequence.is_empty() => {
                Err(Error::missing(format!("no mark `{to}` comes after a mark `{from}`")))
            }
            _ => Ok(self.found),
        }
    }

    /// The error for a mark that does not occur.
    #[cold]
    fn absent(&self, name: &MarkName) -> Error {
        let texts = self.texts.iter().map(|(text, n)| (String::from_utf8_lossy(text).into_owned(), *n));
        let texts: BTreeMap<String, u64> = texts.collect();
        let kinds = self.kinds.iter().filter(|(_, kind)| kind.n > 0);
        let kinds: BTreeMap<String, u64> =
            kinds.map(|(number, kind)| (self.trace.mark_name(*number).into_owned(), kind.n)).collect();
        let all = texts.iter().chain(&kinds).map(|(name, n)| format!("{name} ({n})"));
        let mut listed: Vec<String> = all.clone().take(MAX_LISTED).collect();
        let n_more = all.count() - listed.len();
        if n_more > 0 {
            listed.push(format!("and {n_more} more"));
        }
        let advice = match listed.is_empty() {
            true => "it has no marks at all; `QUIPU_MARK(\"name\")` of quipu.h sets one".to_owned(),
            false => format!("its marks, and how many of each: {}", listed.join(", ")),
        };
        Error::missing(format!("the trace has no mark `{name}`, and no call of a function of that name"))
            .hint(advice)
    }
}

/// A trace without the records between its parts.
struct PartTrace {
    trace: Box<dyn Trace>,
    meta: Meta,
    shards: Vec<Shard>,
    /// The parts of each shard, in order and apart from each other.
    parts: Vec<Arc<[Range<u64>]>>,
    /// The records of each shard that are read.
    spans: Vec<Range<u64>>,
}

impl PartTrace {
    fn new(trace: Box<dyn Trace>, wanted: &Between, found: Found) -> PartTrace {
        let mut meta = trace.meta().clone();
        let n_parts = found.of_sequence.len() as u64;
        meta.title.push_str(&format!(", {wanted}, {}", counted(n_parts, "part")));
        meta.facts.push(Fact::new("parts_between_marks", "parts between marks", n_parts));
        // A piece does not know where in its shard it begins. Merges open all shards at once, so that all that comes before
        // the first part is counted before it.
        let late = |shard: &Shard| Shard { pieces: 1, begins: None, ..shard.clone() };
        let shards = trace.shards().iter().map(late).collect();
        let parts = found.of_shards.into_iter().map(Arc::from).collect();
        PartTrace { meta, shards, parts, spans: found.spans, trace }
    }
}

impl Trace for PartTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.trace.columns()
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        self.trace.tables()
    }

    fn learn(&self) -> Result<()> {
        self.trace.learn()
    }

    fn details(&self, table: usize) -> Range<usize> {
        self.trace.details(table)
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        let shard = scan.shard.0 as usize;
        let parts = self.parts.get(shard).cloned().unwrap_or_default();
        let all = self.spans.get(shard).filter(|all| !all.is_empty()).cloned().unwrap_or(0..0);
        let window = match &scan.window {
            // What is not in any part is left out below, but counts as passed.
            Window::All => Window::Records(all),
            Window::Records(range) => {
                let (start, end) = (range.start.max(all.start), range.end.min(all.end));
                Window::Records(if start < end { start..end } else { 0..0 })
            }
            other => other.clone(),
        };
        let next = match &window {
            Window::Records(range) => Some(range.start),
            _ => None,
        };
        let (left, batch_records) = (scan.most, scan.batch_records);
        let inner = self.trace.scan(&Scan { window, pieces: None, most: u64::MAX, ..scan.clone() })?;
        let begun = BTreeMap::new();
        let has_threads = scan.columns.has(Columns::THREADS);
        Ok(Box::new(PartReader { inner, parts, next, left, batch_records, has_threads, begun }))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.trace.printer(options)
    }

    fn narrow(&self, options: &PrintOptions) -> Result<Window> {
        self.trace.narrow(options)
    }

    fn json_printer(&self, options: &PrintOptions) -> Result<Option<Box<dyn Printer>>> {
        self.trace.json_printer(options)
    }

    fn row_form(&self, options: &PrintOptions) -> Result<Option<Box<dyn RowForm>>> {
        self.trace.row_form(options)
    }

    fn origin(&self) -> Option<&dyn Trace> {
        Some(&*self.trace)
    }

    fn core_form(&self) -> Option<&'static dyn CoreForm> {
        self.trace.core_form()
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.trace.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.trace.mark_name(kind)
    }
}

/// A read of the parts of one shard. Of what is between them, region changes and findings remain, in batches without records.
struct PartReader {
    inner: Box<dyn Reader>,
    parts: Arc<[Range<u64>]>,
    /// Number of records before the next batch; `None` as long as it is unknown.
    next: Option<u64>,
    /// Number of records that may still be delivered.
    left: u64,
    batch_records: u32,
    has_threads: bool,
    /// Threads whose start was left out, with their processes.
    begun: BTreeMap<ThreadId, u64>,
}

impl PartReader {
    /// The first part that ends after a record.
    fn part(&self, record: u64) -> Option<&Range<u64>> {
        self.parts.get(self.parts.partition_point(|part| part.end <= record))
    }

    fn is_inside(&self, record: u64) -> bool {
        self.part(record).is_some_and(|part| part.start <= record)
    }

    /// Maximum number of records of the next batch, so that it is either inside or outside of a part.
    fn room(&self) -> u32 {
        // A batch of one record has no parts.
        let Some(next) = self.next else { return 1 };
        let border =
            self.part(next).map_or(u64::MAX, |part| if next < part.start { part.start } else { part.end });
        let left = if self.is_inside(next) { self.left } else { u64::MAX };
        u32::try_from((border - next).min(left)).unwrap_or(u32::MAX).min(self.batch_records).max(1)
    }
}

impl Reader for PartReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.inner.limit_records(self.room());
        let Some(span) = self.inner.read()?.map(|batch| batch.span) else { return Ok(None) };
        let is_inside = self.is_inside(span.first_record);
        let batch = self.inner.batch();
        if span.records == 0 {
            // Bytes before the first record of a part are outside.
            if !is_inside {
                batch.raw = 0..0;
            }
            return Ok(Some(batch));
        }
        let behind = span.first_record.saturating_add(span.records.into());
        self.next = Some(behind);
        if is_inside {
            self.left = self.left.saturating_sub(span.records.into());
            if let Some(process) = self.begun.remove(&span.thread) {
                batch.threads.at.insert(0, 0);
                batch.threads.what.insert(0, ThreadEvent::Start);
                batch.threads.value.insert(0, process);
            }
            return Ok(Some(batch));
        }
        if self.has_threads && batch.threads.what.contains(&ThreadEvent::Start) {
            self.begun.insert(span.thread, span.process);
        }
        batch.leave_regions();
        (batch.span.first_record, batch.span.first_instr) =
            (behind, span.first_instr.saturating_add(span.instrs.into()));
        Ok(Some(batch))
    }

    fn batch(&mut self) -> &mut Batch {
        self.inner.batch()
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1);
    }

    fn packed_bytes(&self) -> Option<u64> {
        self.inner.packed_bytes()
    }
}
