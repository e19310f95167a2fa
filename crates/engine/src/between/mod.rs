//! A view of a trace that holds only its parts between marks.
//!
//! A mark is a moment with a name: one that the program set by its text, any other row of the marks lens by the name of its
//! kind, the call of a function that the trace names, or the first instruction of a function whose address the caller knows.
//! A part begins with the record of a first mark, and ends before that of the next second one, along the sequence of all
//! threads. So one read of the trace finds out which records of each shard belong to which part, and later reads leave out the
//! others. Regions of memory stay known across them.

mod search;

use crate::watch::Watch;
use quipu_model::lens::ThreadEvent;
use quipu_model::number::{count, counted};
use quipu_model::print::{Printer, RowForm};
use quipu_model::schema::Schema;
use quipu_model::trace::{CoreForm, Fact, PrintOptions, settled};
use quipu_model::{Batch, Columns, Error, Meta, Reader, Result, Scan, Shard, ThreadId, Trace, Window};
use search::{Found, find};
use std::collections::BTreeMap;
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

/// The name of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkName {
    /// Text of the mark, name of its kind (with `=VALUE` if the value matters), or name of a function.
    pub name: String,
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
    /// The mark of this name; `None` for an empty text.
    fn of(text: &str) -> Option<MarkName> {
        let text = text.trim();
        (!text.is_empty()).then(|| MarkName { name: text.to_owned() })
    }

    /// The name without its value, and the value. A text of a mark may look like that, too.
    fn parts(&self) -> (&str, Option<u64>) {
        let valued = self.name.rsplit_once('=');
        match valued.and_then(|(kind, value)| Some((kind, count(value).ok()?))) {
            Some((kind, value)) => (kind, Some(value)),
            None => (&self.name, None),
        }
    }

    /// The kind of marks that it names, if it is one.
    fn kind(&self) -> &str {
        self.parts().0
    }

    /// The value that a mark of this kind must have; any if `None`.
    fn value(&self) -> Option<u64> {
        self.parts().1
    }
}

impl fmt::Display for MarkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
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
