//! Rows for other programs: selected columns and rows of a table or lens, in self-contained batches.
//!
//! Query engines, Arrow, Python and the view in a browser get rows through this module only. It avoids reading unwanted data
//! as far as the trace allows: columns of lenses that were not asked for are not decoded, a condition on the clock or on
//! positions becomes a window, so that chunks can be skipped, and files of other threads are not opened.
//!
//! Shards, and pieces of shards, are read on many threads, and each batch of rows is built on the thread that read it. In the
//! trace's order, batches that were read ahead wait for their turn, up to a limit. In the order of time, one thread merges
//! the shards as for printing.
//!
//! ```
//! use quipu_engine::{Selection, rows};
//! use quipu_model::{Predicate, Result, Table, Trace};
//! use std::sync::Arc;
//! # fn demo(trace: Arc<dyn Trace>) -> Result<()> {
//! let selection = Selection {
//!     fields: Some(vec!["addr".to_owned(), "size".to_owned()]),
//!     predicate: Predicate { kinds: vec!["write".to_owned()], ..Predicate::default() },
//!     ..Selection::new("accesses")
//! };
//! let mut stream = rows(trace, &selection)?;
//! let mut n_written = 0;
//! for batch in &mut stream {
//!     n_written += batch?.n_rows();
//! }
//! assert!(stream.error().is_none() || n_written > 0);
//! # Ok(())
//! # }
//! ```

mod collect;
mod exchange;
mod told;
mod wanted;

use crate::feed::{Losses, refuse_oversized};
use crate::merge::Merge;
use crate::relay::{Arrivals, relay};
use crate::run::n_threads;
use crate::units::Unit;
use crate::watch::{Tally, Watch};
use crate::work::catch;
use collect::Collector;
use exchange::{Exchange, Message};
use quipu_model::column::{Column, ColumnRef};
use quipu_model::print::Ordinals;
use quipu_model::schema::Schema;
use quipu_model::{Error, ErrorKind, Found, Predicate, Result, Scan, ShardId, Table, Trace, Window};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use wanted::Wanted;

pub use quipu_model::row_source::find_table;
pub use wanted::{refuse_part, row_names};

/// A request for rows.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Name of a native table, including learned ones, or of a lens. If both exist, the table is used; `lens.NAME` always
    /// means the lens.
    pub table: String,
    /// The columns to deliver, in this order; `None` for all that the trace can fill. An empty list gives rows without
    /// columns, for counting.
    pub fields: Option<Vec<String>>,
    /// Selects the rows. It may refer to columns that are not among `fields`.
    pub predicate: Predicate,
    /// The part of the trace: a window of the sequence that [`Merge`] makes, whatever `order` is.
    pub window: Window,
    /// The shards whose rows are wanted; all if empty.
    pub shards: Vec<ShardId>,
    /// The order of the rows.
    pub order: RowOrder,
    /// Maximum number of rows to deliver.
    pub limit: u64,
    /// Approximate number of rows in a batch; the last batch of a unit of work has fewer.
    pub batch_rows: u32,
    /// Number of threads that read; 0 for as many as there are cores.
    pub threads: usize,
    /// Approximate limit on the bytes of rows that wait for the consumer.
    pub buffer_bytes: usize,
    /// Whether the first fault of the trace ends the stream. Otherwise faults are recorded, and reading continues.
    pub strict: bool,
}

impl Selection {
    /// All rows and columns of a table or lens, in the trace's order, read on all cores.
    pub fn new(table: impl Into<String>) -> Selection {
        Selection {
            table: table.into(),
            fields: None,
            predicate: Predicate::default(),
            window: Window::All,
            shards: Vec::new(),
            order: RowOrder::Trace,
            limit: u64::MAX,
            batch_rows: 8192,
            threads: 0,
            buffer_bytes: 64 << 20,
            strict: false,
        }
    }
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowOrder {
    /// Shard by shard, in the trace's order. Record positions count in the shard.
    #[default]
    Trace,
    /// Merged by clock, as for printing. Record positions count along the sequence.
    Time,
    /// In the order in which they are read. Record positions count in the shard.
    Any,
}

/// Rows of a stream, which are self-contained: instructions are bytes, functions and entries of dictionaries are texts,
/// values of arbitrary shape are JSON.
#[derive(Debug)]
pub struct RowBatch {
    schema: Arc<Schema>,
    columns: Vec<Column>,
    n_rows: usize,
}

impl RowBatch {
    /// Creates a batch from columns; the list may be empty.
    pub fn new(schema: Arc<Schema>, columns: Vec<Column>, n_rows: usize) -> RowBatch {
        RowBatch { schema, columns, n_rows }
    }
}

impl Table for RowBatch {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn n_rows(&self) -> usize {
        self.n_rows
    }

    fn column(&self, position: usize) -> ColumnRef<'_> {
        self.columns[position].as_ref()
    }

    fn into_columns(self: Box<Self>) -> Vec<Column> {
        self.columns
    }
}

/// An iterator over batches of rows, of one selection or of several. [`found`](RowStream::found) and
/// [`error`](RowStream::error) report what could not be read, like the outcome of [`run`](crate::run()).
///
/// Dropping it before its end cancels reading.
pub struct RowStream {
    /// By selection.
    schemas: Vec<Arc<Schema>>,
    trace: Arc<dyn Trace>,
    watch: Arc<Watch>,
    way: Way,
    threads: Vec<JoinHandle<()>>,
    strict: bool,
    left: u64,
    losses: Losses,
    is_over: bool,
    n_damaged_before: u64,
}

/// The source of batches.
enum Way {
    /// Workers that read units.
    Units(Arc<Exchange>),
    /// A merge on another thread; its batches are turned into rows here.
    Merged { arrivals: Arrivals, collector: Box<Collector>, ready: VecDeque<Message> },
}

/// Begins to deliver rows of a trace.
///
/// # Errors
/// `Usage` for a table, column or condition that does not exist, and for a part of a table whose rows are not records;
/// `Missing` for columns that this trace does not carry; errors of reading, if tables have to be learned or a window has to
/// be resolved first.
pub fn rows(trace: Arc<dyn Trace>, selection: &Selection) -> Result<RowStream> {
    rows_of_each(trace, std::slice::from_ref(selection))
}

/// Begins to deliver rows of several tables and lenses, one for each selection, in a single read of the trace.
///
/// All selections cover the same part of the trace: window, shards, threads, buffers and limit of the first apply to all. In
/// the order of time, only a single selection can be delivered.
///
/// # Errors
/// As [`rows`]; `Usage` for no selection, and for several in the order of time.
pub fn rows_of_each(trace: Arc<dyn Trace>, selections: &[Selection]) -> Result<RowStream> {
    let Some(selection) = selections.first() else { return Err(Error::usage("no table is asked for")) };
    let watch = Arc::new(Watch::new());
    let n_damaged_before = trace.n_delivered_damaged();
    let ready = |selection| Wanted::new(&*trace, selection).map(Arc::new);
    let all = selections.iter().map(ready).collect::<Result<Vec<_>>>()?;
    let mut collectors = collectors(&*trace, &all)?;
    let template = Wanted::template_of(&all);
    let losses = Losses::default();
    let is_merged = selection.order == RowOrder::Time && trace.shards().len() > 1;
    let mut stream = RowStream {
        schemas: all.iter().map(|wanted| wanted.schema.clone()).collect(),
        watch: watch.clone(),
        way: Way::Units(Arc::new(Exchange::new(0, true, 1))),
        threads: Vec::new(),
        strict: selection.strict,
        left: selection.limit,
        losses,
        is_over: false,
        n_damaged_before,
        trace: trace.clone(),
    };
    watch.expect(trace.shards().iter().try_fold(0, |sum: u64, shard| sum.checked_add(shard.packed_bytes?)));
    if is_merged {
        let (Some(collector), 1, wanted) = (collectors.pop(), all.len(), all[0].clone()) else {
            return Err(Error::usage("only one table is read in the order of time"));
        };
        let (departures, arrivals) = relay(wanted.lens());
        let template = Merge::sharing_codes(&*trace, Scan { ahead: true, ..template });
        let mut collector = Box::new(collector);
        collector.counts_along();
        stream.way = Way::Merged { arrivals, collector, ready: VecDeque::new() };
        let thread = spawn(move || {
            let merge = wanted.merge(&*trace, &template, &watch);
            match merge {
                Ok(merge) => departures.read_all(merge),
                Err(error) => departures.fail(error),
            }
        })?;
        stream.threads.push(thread);
        return Ok(stream);
    }
    // A selection that uses positions of records rules out reading by pieces, so the units follow it.
    let strictest = all.iter().find(|wanted| wanted.has_positions()).unwrap_or(&all[0]);
    let (units, errors) = strictest.units(&*trace, &watch)?;
    for error in errors {
        stream.losses.lose(error, selection.strict)?;
    }
    let n_cores = n_threads(selection.threads);
    let largest = all.iter().map(|wanted| wanted.bytes_per_batch()).max().unwrap_or(1);
    let n_batches = selection.buffer_bytes / largest;
    let is_ordered = selection.order != RowOrder::Any;
    let exchange = Arc::new(Exchange::new(units.len(), is_ordered, n_batches.max(2)));
    // If each thread has a unit of its own, additional threads that inflate ahead would only be in the way.
    let template = Scan { ahead: units.len() < n_cores, ..template };
    let work = Arc::new(Work { trace, all, units, template, watch, exchange, next: AtomicUsize::new(0) });
    stream.way = Way::Units(work.exchange.clone());
    for at in 0..n_cores.min(work.units.len()) {
        let work = work.clone();
        match spawn(move || work.serve()) {
            Ok(thread) => stream.threads.push(thread),
            // If a further thread cannot be started, the others take longer.
            Err(error) if at == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(stream)
}

fn collectors(trace: &dyn Trace, all: &[Arc<Wanted>]) -> Result<Vec<Collector>> {
    all.iter().enumerate().map(|(nth, wanted)| Collector::new(trace, nth, wanted)).collect()
}

/// The schema of the rows of a selection, without reading any.
///
/// # Errors
/// As [`rows`].
pub fn row_schema(trace: &dyn Trace, selection: &Selection) -> Result<Arc<Schema>> {
    Ok(Wanted::new(trace, selection)?.schema)
}

/// The part of the trace, or of each of its shards, that is read for a selection.
///
/// # Errors
/// As [`rows`].
pub fn row_window(trace: &dyn Trace, selection: &Selection) -> Result<Window> {
    Ok(Wanted::new(trace, selection)?.window().clone())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("quipu-rows".into()).spawn(work);
    thread.map_err(|error| Error::new(ErrorKind::Io, format!("no thread can be started: {error}")))
}

/// State that the workers share.
struct Work {
    trace: Arc<dyn Trace>,
    /// By selection.
    all: Vec<Arc<Wanted>>,
    units: Vec<Unit>,
    template: Scan,
    watch: Arc<Watch>,
    exchange: Arc<Exchange>,
    next: AtomicUsize,
}

impl Work {
    /// The loop of each thread: reads one unit after another until none is left.
    fn serve(&self) {
        loop {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.units.get(at) else { return };
            if let Err(error) = catch(|| self.unit(at, unit)) {
                self.exchange.push(at, Message::Lost(error));
            }
            self.exchange.end(at);
        }
    }

    /// Reads one unit, to its end or until its rows are no longer wanted.
    fn unit(&self, at: usize, unit: &Unit) -> Result<()> {
        let mut collectors = collectors(&*self.trace, &self.all)?;
        let mut tally = Tally::new(&self.watch);
        let mut reader = self.trace.scan(&unit.scan(&*self.trace, &self.template))?;
        let (mut is_wanted, mut lost) = (true, None);
        let mut send = |message| self.exchange.push(at, message);
        while is_wanted && !self.watch.is_cancelled() {
            let batch = match reader.read() {
                Ok(Some(batch)) => batch,
                Ok(None) => break,
                Err(error) => {
                    lost = Some(error);
                    break;
                }
            };
            if self.all.iter().any(|wanted| wanted.lens().is_some()) {
                refuse_oversized(batch, self.trace.shards());
            }
            let records = batch.span.records;
            let mut tables = 0..;
            for (wanted, collector) in self.all.iter().zip(&mut collectors) {
                // Conditions and collectors expect the rows of their table as the first table of a batch.
                let place = if wanted.lens().is_none() { tables.next() } else { None };
                let place = place.filter(|place| *place < batch.tables.len()).unwrap_or(0);
                let is_elsewhere = place > 0;
                if is_elsewhere {
                    batch.tables.swap(0, place);
                }
                is_wanted &= collector.take(batch, Ordinals::default(), 0..records, &mut send)?;
                if is_elsewhere {
                    batch.tables.swap(0, place);
                }
            }
            if tally.batch(records) {
                tally.flush(reader.packed_bytes().unwrap_or(0).min(unit.packed_bytes));
            }
        }
        for collector in &mut collectors {
            collector.flush(&mut send);
        }
        tally.flush(unit.packed_bytes);
        lost.map_or(Ok(()), Err)
    }
}

impl RowStream {
    /// The schema of the first selection's batches.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schemas[0]
    }

    /// The schemas of the batches, by selection.
    pub fn schemas(&self) -> &[Arc<Schema>] {
        &self.schemas
    }

    /// Reports progress, and can cancel reading; batches that have been read are still delivered.
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Findings about the trace so far.
    pub fn found(&self) -> &Found {
        &self.losses.found
    }

    /// The error of the first part of the trace that could not be read to its end. Further ones are findings.
    pub fn error(&self) -> Option<&Error> {
        self.losses.error.as_ref()
    }

    /// The findings about the trace, and the first error, as [`error`](RowStream::error) returns it. Cancels reading if it is
    /// still in progress.
    pub fn into_losses(mut self) -> (Found, Option<Error>) {
        self.end(false);
        let Losses { found, error } = std::mem::take(&mut self.losses);
        (found, error)
    }

    /// True if rows proved damaged after they had been delivered, by a checksum after them. A caller that relies on every row
    /// must repeat the read, which leaves the damaged ones out: [`settled`](quipu_model::trace::settled).
    pub fn has_delivered_damaged(&self) -> bool {
        self.trace.n_delivered_damaged() != self.n_damaged_before
    }

    /// The next message of the reading side; `None` at the end.
    fn message(&mut self) -> Option<Message> {
        match &mut self.way {
            Way::Units(exchange) => exchange.pop(),
            Way::Merged { arrivals, collector, ready } => loop {
                if let Some(message) = ready.pop_front() {
                    return Some(message);
                }
                if self.watch.is_cancelled() {
                    return None;
                }
                let mut send = |message| {
                    ready.push_back(message);
                    true
                };
                match arrivals.next() {
                    Err(error) => return Some(Message::Lost(error)),
                    Ok(None) => {
                        collector.flush(&mut send);
                        return ready.pop_front();
                    }
                    Ok(Some(mut parcel)) => {
                        let records = parcel.records.clone();
                        let taken = collector.take(&mut parcel.batch, parcel.ordinals, records, &mut send);
                        self.watch.advance(parcel.batch.span.records.into(), 0);
                        arrivals.give_back(parcel);
                        if let Err(error) = taken {
                            return Some(Message::Lost(error));
                        }
                    }
                }
            },
        }
    }

    /// Processes a message; returns its rows, with the index of their selection, if it has some.
    fn take(&mut self, message: Message) -> Result<Option<(usize, RowBatch)>> {
        match message {
            Message::Found(findings) => self.losses.take_all(findings, self.strict).map(|()| None),
            Message::Lost(error) => self.losses.lose(error, self.strict).map(|()| None),
            Message::Rows(nth, mut rows) => {
                let n_rows = usize::try_from(self.left).map_or(rows.n_rows, |left| left.min(rows.n_rows));
                if n_rows < rows.n_rows {
                    rows.columns.iter_mut().for_each(|column| column.truncate(n_rows));
                    rows.n_rows = n_rows;
                }
                self.left -= n_rows as u64;
                Ok((n_rows > 0).then_some((nth, rows)))
            }
        }
    }
}

impl Iterator for RowStream {
    type Item = Result<RowBatch>;

    fn next(&mut self) -> Option<Result<RowBatch>> {
        Some(self.next_of_each()?.map(|(_, rows)| rows))
    }
}

impl RowStream {
    /// The next rows, with the index of their selection. Rows of one selection come in that selection's order.
    pub fn next_of_each(&mut self) -> Option<Result<(usize, RowBatch)>> {
        while !self.is_over && self.left > 0 {
            let Some(message) = self.message() else {
                self.end(true);
                return None;
            };
            match self.take(message) {
                Ok(None) => {}
                Ok(Some(rows)) => return Some(Ok(rows)),
                Err(error) => {
                    self.end(false);
                    return Some(Err(error));
                }
            }
        }
        self.end(false);
        None
    }

    /// Ends all threads and waits for them.
    fn end(&mut self, is_complete: bool) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        if !is_complete {
            // A merge may still be skipping to the start of a window, where it does not notice that the receiver is gone.
            self.watch.cancel();
        }
        match std::mem::replace(&mut self.way, Way::Units(Arc::new(Exchange::new(0, true, 1)))) {
            Way::Units(exchange) => exchange.stop(),
            Way::Merged { arrivals, .. } => drop(arrivals),
        }
        // Errors of a thread have already arrived as messages.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        self.end(false);
    }
}
