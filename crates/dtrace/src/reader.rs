//! Reads a capture: records in the consumer's order, as batches.

use crate::action::Action;
use crate::describe::{Capture, Dialect, Rec};
use crate::messages;
use crate::rules;
use crate::table::{self, Aggregations, Probes, Records};
use crate::trace::{AGGREGATIONS, PROBES, RECORDS, edge_of};
use crate::walk::{Firing, Step, Walk};
use quipu_model::batch::Span;
use quipu_model::lens::{CallEdge, ThreadEvent};
use quipu_model::{Batch, Columns, Error, Finding, Place, Reader, Result, Scan, TableBuf, ThreadId, Window};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Maximum number of faults of a kind that are reported one by one.
const MAX_FAULTS: u64 = 100;

/// The properties of a record that rows and lenses need.
#[derive(Clone, Copy, Debug)]
struct Seen {
    cpu: u32,
    probe: u32,
    epid: u32,
    time: u64,
    offset: usize,
    size: u32,
    /// The first number in the record, if it has one.
    value: Option<u64>,
    /// Position of the record, from 0.
    ordinal: u64,
    /// Whether the record belongs to the same firing as the one before: several clauses of a probe record in turn.
    is_further_clause: bool,
}

/// The last firing on a CPU.
#[derive(Debug, Default)]
struct Last {
    probe: u32,
    time: u64,
    /// EPIDs of the clauses that have recorded it.
    epids: Vec<u32>,
}

impl Last {
    /// Takes the next record; returns whether it belongs to the same firing. A clause that has recorded it already begins a
    /// new firing.
    fn is_further_clause(&mut self, probe: u32, epid: u32) -> bool {
        let is_further = self.probe == probe && !self.epids.is_empty() && !self.epids.contains(&epid);
        if !is_further {
            self.epids.clear();
            self.probe = probe;
        }
        self.epids.push(epid);
        is_further
    }
}

/// A read of records.
#[derive(Debug)]
pub struct RecordReader {
    capture: Arc<Capture>,
    functions: Arc<FxHashMap<u32, u64>>,
    walk: Walk,
    shard: u32,
    batch: Batch,
    wanted: Vec<usize>,
    columns: Columns,
    counts_beyond: bool,
    window: Window,
    most: u64,
    batch_records: u32,
    cuts_at_clock: bool,
    n_records: u64,
    pending: Option<Seen>,
    findings: Vec<Finding>,
    n_errors: u64,
    cpu: Option<u32>,
    clock: u64,
    /// The last firing of each CPU, by its buffer, its number and its host.
    last: FxHashMap<(u32, u32, u32), Last>,
    /// Probes without a description that have been seen.
    undescribed: FxHashSet<u32>,
    n_backwards: u64,
    /// Threads that have started.
    started: FxHashSet<ThreadId>,
    is_over: bool,
    is_closed: bool,
}

impl RecordReader {
    /// Begins a read.
    ///
    /// # Errors
    /// `Unsupported` for windows of instructions, `Usage` for a table that the trace does not have.
    pub(crate) fn new(
        capture: &Arc<Capture>,
        functions: &Arc<FxHashMap<u32, u64>>,
        scan: &Scan,
    ) -> Result<RecordReader> {
        if matches!(scan.window, Window::Instrs(_)) {
            return Err(Error::unsupported("traces of format dtrace have no instructions to count"));
        }
        let table = |table: &usize| -> Result<Box<dyn TableBuf>> {
            Ok(match *table {
                RECORDS => Box::new(Records::default()),
                PROBES => Box::new(Probes::default()),
                AGGREGATIONS => Box::new(Aggregations::default()),
                _ => return Err(Error::usage("the trace has no such table")),
            })
        };
        let tables = scan.tables.iter().map(table).collect::<Result<Vec<_>>>()?;
        let is_other_piece = scan.pieces.as_ref().is_some_and(|pieces| !pieces.contains(&0));
        let is_empty = matches!(&scan.window, Window::Records(range) if range.is_empty());
        Ok(RecordReader {
            capture: Arc::clone(capture),
            functions: Arc::clone(functions),
            walk: Walk::new(capture)?,
            shard: scan.shard.0,
            batch: Batch { tables, ..Batch::default() },
            wanted: scan.tables.clone(),
            columns: scan.columns,
            counts_beyond: scan.beyond,
            window: scan.window.clone(),
            most: scan.most,
            batch_records: scan.batch_records.max(1),
            cuts_at_clock: scan.cut.clock,
            n_records: 0,
            pending: None,
            findings: Vec::new(),
            n_errors: 0,
            cpu: None,
            clock: 0,
            last: FxHashMap::default(),
            undescribed: FxHashSet::default(),
            n_backwards: 0,
            started: FxHashSet::default(),
            is_over: is_other_piece || is_empty,
            is_closed: is_other_piece,
        })
    }

    /// The next record in the window.
    fn next_seen(&mut self) -> Option<Seen> {
        if let Some(seen) = self.pending.take() {
            return Some(seen);
        }
        let capture = Arc::clone(&self.capture);
        while !self.is_over {
            match self.walk.next_step(&capture) {
                None => self.is_over = true,
                Some(Step::Firing(firing)) => {
                    let seen = self.see(&firing);
                    let is_wanted = match &self.window {
                        Window::All | Window::Instrs(_) => true,
                        Window::Records(range) => {
                            self.is_over |= seen.ordinal + 1 >= range.end;
                            range.contains(&seen.ordinal)
                        }
                        Window::Clock(range) => {
                            seen.time >= range.start && !Window::ends_at_clock(range.end, seen.time)
                        }
                    };
                    if is_wanted {
                        return Some(seen);
                    }
                }
                // Faults of buffers were found when the capture was loaded.
                Some(Step::Fault(_) | Step::Cpu | Step::Pass | Step::State(_)) => {}
            }
        }
        None
    }

    fn see(&mut self, firing: &Firing<'_>) -> Seen {
        let record = &firing.record;
        let ordinal = self.n_records;
        self.n_records += 1;
        let is_error = record.enabling.uarg == 1
            && self.capture.probes.get(&firing.probe).is_some_and(|probe| probe.name == "ERROR");
        if is_error {
            self.error(firing, ordinal);
        }
        let is_number =
            |action, size| matches!(action, Action::Trace | Action::Printf) && matches!(size, 1 | 2 | 4 | 8);
        let first = record.enabling.recs.iter().find(|rec| is_number(rec.action, rec.size));
        let epid = record.enabling.id;
        let last = self.last.entry((firing.buffer, firing.cpu, record.enabling.host)).or_default();
        let is_further_clause = last.is_further_clause(firing.probe, epid);
        let before = std::mem::replace(&mut last.time, record.time);
        if before > record.time {
            self.backwards(firing, ordinal, before);
        }
        if !self.capture.probes.contains_key(&firing.probe) {
            self.undescribed(firing, ordinal);
        }
        Seen {
            cpu: firing.cpu,
            probe: firing.probe,
            epid,
            time: record.time,
            offset: record.offset,
            size: record.bytes.len() as u32, // Records are bounded.
            value: first.map(|rec| number(&self.capture, rec, record.bytes)),
            ordinal,
            is_further_clause,
        }
    }

    #[cold]
    fn error(&mut self, firing: &Firing<'_>, ordinal: u64) {
        self.n_errors += 1;
        if self.n_errors > MAX_FAULTS {
            return;
        }
        let mut message = Vec::new();
        messages::error(&self.capture, firing, &mut message);
        let text = String::from_utf8_lossy(message.trim_ascii_end()).into_owned();
        self.findings.push(rules::FAILED.broken(self.place(firing, ordinal), text));
    }

    #[cold]
    fn backwards(&mut self, firing: &Firing<'_>, ordinal: u64, before: u64) {
        self.n_backwards += 1;
        if self.n_backwards <= MAX_FAULTS {
            let message = format!("time {} of CPU {} comes after {before}", firing.record.time, firing.cpu);
            self.findings.push(rules::TIMES.broken(self.place(firing, ordinal), message));
        }
    }

    #[cold]
    fn undescribed(&mut self, firing: &Firing<'_>, ordinal: u64) {
        let n_known = self.undescribed.len() as u64;
        if n_known > MAX_FAULTS || !self.undescribed.insert(firing.probe) {
            return;
        }
        let message = match n_known < MAX_FAULTS {
            true => format!("probe {} has no description", firing.probe),
            false => "more probes have no description".to_owned(),
        };
        self.findings.push(rules::PROBE.broken(self.place(firing, ordinal), message));
    }

    fn place(&self, firing: &Firing<'_>, ordinal: u64) -> Place {
        let buffer = self.capture.buffers.get(firing.buffer as usize);
        Place {
            file: Some(buffer.map_or_else(|| self.capture.name.clone(), |buffer| buffer.file.clone())),
            offset: buffer.map(|_| firing.record.offset as u64),
            record: Some(ordinal),
            ..Place::default()
        }
    }

    /// Fills the batch with consecutive records; false if there are none.
    fn fill(&mut self) -> bool {
        let Some(first) = self.next_seen() else { return false };
        let limit = u64::from(self.batch_records).min(self.most);
        let opens = self.cuts_at_clock && first.time != self.clock;
        // Calls nest on each CPU, so a CPU stands for a thread.
        let by_cpu = self.columns.any(Columns::CALLS | Columns::THREADS);
        let tid = if by_cpu { first.cpu.into() } else { 0 };
        self.batch.span.thread = ThreadId { tid, ..ThreadId::default() };
        let mut next = Some(first);
        let mut n = 0u32;
        while let Some(seen) = next {
            let is_next = u64::from(n) < limit
                && seen.ordinal == first.ordinal + u64::from(n)
                && !(self.cuts_at_clock && seen.time != first.time)
                && !(by_cpu && seen.cpu != first.cpu);
            if !is_next {
                self.pending = Some(seen);
                break;
            }
            self.row(&seen);
            self.lenses(&seen, n);
            (self.cpu, self.clock) = (Some(seen.cpu), seen.time);
            n += 1;
            next = if u64::from(n) < limit { self.next_seen() } else { None };
        }
        self.most -= u64::from(n);
        self.batch.span = Span {
            shard: self.shard,
            first_record: first.ordinal,
            records: n,
            cpu: self.cpu.map(u64::from),
            clock: self.clock,
            opens: opens.then_some(first.time),
            offset: first.offset as u64,
            thread: self.batch.span.thread,
            ..Span::default()
        };
        true
    }

    fn row(&mut self, seen: &Seen) {
        for (buffer, wanted) in self.batch.tables.iter_mut().zip(&self.wanted) {
            let (RECORDS, Some(rows)) = (*wanted, buffer.get_mut::<Records>()) else { continue };
            rows.record.push(seen.ordinal + 1);
            rows.cpu.push(seen.cpu);
            rows.time.push(seen.time);
            rows.epid.push(seen.epid);
            rows.probe.push(seen.probe);
            rows.size.push(seen.size);
            rows.offset.push(seen.offset as u64);
            let probe = self.capture.probes.get(&seen.probe);
            let texts = probe.map_or(["", "", "", ""], |probe| {
                [&*probe.provider, &*probe.module, &*probe.function, &*probe.name]
            });
            rows.provider.push(texts[0].as_bytes());
            rows.module.push(texts[1].as_bytes());
            rows.function.push(texts[2].as_bytes());
            rows.name.push(texts[3].as_bytes());
        }
    }

    fn lenses(&mut self, seen: &Seen, at: u32) {
        if !self.columns.any(Columns::OF_LENSES) {
            return;
        }
        let of_thread = self.batch.span.thread;
        let batch = &mut self.batch;
        let mut thread = |what, value| {
            batch.threads.at.push(at);
            batch.threads.what.push(what);
            batch.threads.value.push(value);
        };
        if self.columns.has(Columns::THREADS) {
            if self.started.insert(of_thread) {
                thread(ThreadEvent::Start, 0);
            }
            let has_time = self.capture.dialect == Dialect::Classic;
            if has_time && seen.time != self.clock && self.columns.has(Columns::THREAD_CLOCK) {
                thread(ThreadEvent::Clock, seen.time);
            }
            if self.cpu != Some(seen.cpu) && self.columns.has(Columns::THREAD_CPU) {
                thread(ThreadEvent::Cpu, seen.cpu.into());
            }
        }
        let edge = self.capture.probes.get(&seen.probe).and_then(edge_of).filter(|_| !seen.is_further_clause);
        if let (Some(enters), Some(function)) = (edge, self.functions.get(&seen.probe)) {
            if self.columns.has(Columns::CALLS) {
                let calls = &mut batch.calls;
                // A call is placed at the record after its values.
                calls.at.push(at + 1);
                calls.function.push(*function);
                calls.edge.push(if enters { CallEdge::Enter } else { CallEdge::Leave });
                calls.return_to.push(0);
                calls.result.push(seen.value.filter(|_| !enters));
                calls.args.push(std::iter::empty());
            }
        } else if self.columns.has(Columns::MARKS) {
            batch.marks.at.push(at);
            batch.marks.kind.push(seen.probe);
            batch.marks.value.push(seen.value.unwrap_or(0));
        }
    }

    /// Fills the tables whose rows are not records, after the last record.
    fn close(&mut self) {
        for (buffer, wanted) in self.batch.tables.iter_mut().zip(&self.wanted) {
            match *wanted {
                PROBES => {
                    buffer.get_mut::<Probes>().into_iter().for_each(|to| table::probes(&self.capture, to))
                }
                AGGREGATIONS => {
                    let to = buffer.get_mut::<Aggregations>();
                    to.into_iter().for_each(|to| table::aggregations(&self.capture, to));
                }
                _ => {}
            }
        }
        if self.counts_beyond {
            self.batch.beyond.push(table::n_aggregations(&self.capture));
        }
        if self.n_errors > MAX_FAULTS {
            let place = Place { file: Some(self.capture.name.clone()), ..Place::default() };
            let message = format!("{} more errors of clauses", self.n_errors - MAX_FAULTS);
            self.findings.push(rules::FAILED.broken(place, message));
        }
        if self.n_backwards > MAX_FAULTS {
            let place = Place { file: Some(self.capture.name.clone()), ..Place::default() };
            let message = format!("`{}` more times come after later ones", self.n_backwards - MAX_FAULTS);
            self.findings.push(rules::TIMES.broken(place, message));
        }
    }
}

/// A number of a record, sign-extended if it is signed.
fn number(capture: &Capture, rec: &Rec, record: &[u8]) -> u64 {
    let bytes = rec.of(record);
    match rec.signed {
        Some(true) => capture.order.signed(bytes) as u64,
        _ => capture.order.number(bytes),
    }
}

impl Reader for RecordReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        self.batch.clear();
        self.batch.span = Span { shard: self.shard, ..Span::default() };
        let has_records = self.most > 0 && self.fill();
        if !has_records {
            if std::mem::replace(&mut self.is_closed, true) {
                return Ok(None);
            }
            self.batch.span.first_record = self.n_records;
            self.close();
            let is_empty = self.findings.is_empty()
                && self.batch.beyond.is_empty()
                && self.batch.tables.iter().all(|table| table.n_rows() == 0);
            if is_empty {
                return Ok(None);
            }
        }
        self.batch.findings.append(&mut self.findings);
        Ok(Some(&mut self.batch))
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1);
    }
}
