//! Scheduling of threads onto cores: how a machine with a given number of cores might have run the threads of a trace.
//!
//! [`dispatch`] turns a trace of threads into one of cores. All cores are read at once, one record of each at every step
//! ([`Trace::rounds`]), so that the result is always the same. The rules are those of the scheduler in DynamoRIO's drmemtrace
//! launcher in its serial form, which docs/formats/drmemtrace.md describes (*Scheduling threads onto cores*). They need only
//! instructions and the threads lens, so this works for any format.
//!
//! | file | subject |
//! |---|---|
//! | `options` | the scheduler's parameters |
//! | `queue` | waiting threads, the best one first |
//! | `state` | the scheduler as a state machine: the next thread of each core |
//! | `calls` | effects of system calls on threads: block, park, wake, hand over |
//! | `lane` | the threads, each read at its own position |
//! | `clock` | the clock of a core |
//! | `copy` | copying records from one batch to another |
//! | `rounds` | batches of all cores, step by step |
//! | `sequence` | the same as one sequence of records |

mod calls;
mod clock;
mod copy;
mod lane;
mod options;
mod queue;
mod rounds;
mod sequence;
mod state;

#[cfg(test)]
mod tests;

pub use options::{CoreTime, DispatchOptions, MAX_DISPATCH_CORES, Quantum};

use crate::merge::divided;
use lane::Lanes;
use quipu_model::print::Printer;
use quipu_model::schema::Schema;
use quipu_model::trace::{PrintOptions, Rounds};
use quipu_model::{
    Columns, Cut, Error, Meta, Reader, Result, Scan, Shard, ShardId, ShardKind, Trace, Window,
};
use rounds::CoreRounds;
use sequence::SequenceReader;
use state::Dispatcher;
use std::sync::Arc;

/// Schedules the threads of a trace onto cores: each shard of the result is a core.
///
/// # Errors
/// `Usage` if the options contradict each other; `Missing` if the trace has no instructions, which measure time;
/// `Unsupported` if its shards are cores already.
pub fn dispatch(trace: Box<dyn Trace>, options: DispatchOptions) -> Result<Box<dyn Trace>> {
    Ok(Box::new(DispatchedTrace::new(trace, options)?))
}

/// Schedules the threads of a trace onto cores, as one sequence: the result has one shard, with the records of all cores at
/// each step one after the other. Its rows are those of the threads' tables, with ordinals of the sequence; it fills no lens
/// columns.
///
/// # Errors
/// As for [`dispatch`]; `Unsupported` if the format's rows have no form for cores.
pub fn dispatch_in_sequence(trace: Box<dyn Trace>, options: DispatchOptions) -> Result<Box<dyn Trace>> {
    let mut cores = DispatchedTrace::new(trace, options)?;
    if cores.trace.core_form().is_none() {
        let format = &cores.meta.format;
        return Err(Error::unsupported(format!("records of format {format} have no form for cores")));
    }
    cores.columns = Columns::NONE;
    cores.tables = cores.trace.tables()?;
    let name = cores.shards.iter().map(|core| core.name.as_str()).collect::<Vec<_>>().join(", ");
    cores.shards = vec![Shard { name, kind: ShardKind::Mixed, pieces: 1, ..Shard::default() }];
    Ok(Box::new(cores))
}

impl DispatchedTrace {
    fn new(trace: Box<dyn Trace>, options: DispatchOptions) -> Result<DispatchedTrace> {
        options.check()?;
        if trace.shards().iter().any(|shard| shard.kind == ShardKind::Core) {
            return Err(Error::unsupported("this trace is arranged by core already")
                .hint("read it as it is: threads on the cores that the trace says"));
        }
        let missing = Columns::INSTRS.minus(trace.columns());
        if !missing.is_empty() {
            return Err(Error::missing(format!(
                "scheduling threads onto cores needs {missing}, which this trace does not carry"
            )));
        }
        let mut meta = trace.meta().clone();
        meta.title.push_str(&format!(", scheduled onto {} cores", options.cores));
        meta.arranged = trace.shards().iter().map(|shard| shard.thread.unwrap_or_default()).collect();
        let shards = (0..options.cores).map(|core| Shard {
            id: ShardId(core as u32), // At most `MAX_DISPATCH_CORES`.
            name: format!("core {core}"),
            kind: ShardKind::Core,
            core: Some(core as u64),
            pieces: 1,
            ..Shard::default()
        });
        // Tables remain with the threads, and so do native records unless they are wanted and have a form for cores.
        let has_native = options.native && trace.core_form().is_some();
        let without = if has_native { Columns::NONE } else { Columns::RAW };
        Ok(DispatchedTrace {
            shards: shards.collect(),
            columns: trace.columns().minus(without | Columns::CALL_VALUES),
            tables: Vec::new(),
            trace,
            options,
            meta,
        })
    }

    /// True if the trace is read as one sequence.
    fn is_sequence(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Opens the threads at their beginnings, with these columns, and creates a scheduler that knows them.
    fn lanes(&self, scan: &Scan, window: &Window, has_raw: bool) -> Result<(Lanes, Dispatcher)> {
        let own = Columns::INSTRS | Columns::THREADS | Columns::THREAD_CLOCK;
        let shards = self.trace.shards();
        let columns = scan.columns.and(self.trace.columns()) | own.and(self.trace.columns());
        // Limits on records apply to cores, not to threads.
        let template = Scan { columns, window: window.clone(), most: u64::MAX, codes: None, ..scan.clone() };
        let template = Scan { cut: Cut::SIZE, ..divided(&template, shards.len()) };
        let clock = self.trace.meta().clock;
        let open = |template: &Scan| -> Result<Lanes> {
            let readers =
                shards.iter().map(|shard| self.trace.scan(&Scan { shard: shard.id, ..template.clone() }));
            Ok(Lanes::new(readers.collect::<Result<_>>()?, clock))
        };
        let (lanes, known) = if has_raw {
            // Native records are passed to cores one by one, but the first look at a thread needs more than one record.
            let ahead = Scan { columns: template.columns.minus(Columns::RAW), ..template.clone() };
            let known = open(&ahead)?.begin();
            let lanes = open(&Scan { batch_records: 1, ..template })?.with_raw(&known);
            (lanes, known)
        } else {
            let mut lanes = open(&template)?;
            let known = lanes.begin();
            (lanes, known)
        };
        let frames_calls = clock.is_some_and(|clock| clock.frames_calls);
        Ok((lanes, Dispatcher::new(self.options.clone(), &known, frames_calls)))
    }
}

/// A trace whose shards are the cores of a scheduler, or whose single shard is the sequence of all cores.
struct DispatchedTrace {
    trace: Box<dyn Trace>,
    options: DispatchOptions,
    shards: Vec<Shard>,
    meta: Meta,
    columns: Columns,
    /// The tables of the threads for a sequence; empty for cores.
    tables: Vec<Arc<Schema>>,
}

impl Trace for DispatchedTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(self.tables.clone())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        if !self.is_sequence() {
            return Err(Error::unsupported(
                "what a scheduler gives one core cannot be read without the others",
            ));
        }
        let form = self.trace.core_form().ok_or_else(|| Error::unsupported("rows have no form for cores"))?;
        let (window, records) = match &scan.window {
            Window::Records(range) => (Window::All, range.clone()),
            window => (window.clone(), 0..u64::MAX),
        };
        if scan.tables.iter().any(|table| *table >= self.tables.len()) {
            return Err(Error::usage("the trace has no such table"));
        }
        let end = records.end.min(records.start.saturating_add(scan.most));
        let (lanes, dispatcher) = self.lanes(scan, &window, false)?;
        Ok(Box::new(SequenceReader::new(dispatcher, lanes, form, records.start..end)))
    }

    fn rounds(&self, scan: &Scan) -> Result<Option<Box<dyn Rounds + '_>>> {
        if self.is_sequence() {
            return Ok(None);
        }
        if matches!(scan.window, Window::Records(_)) || scan.most < u64::MAX || !scan.tables.is_empty() {
            return Err(Error::unsupported(
                "threads that are scheduled onto cores are read without native tables, and without windows of records",
            ));
        }
        let wanted = scan.columns.and(self.columns);
        let form = self.trace.core_form().filter(|_| wanted.has(Columns::RAW));
        let scan = Scan { columns: wanted, ..scan.clone() };
        let (lanes, dispatcher) = self.lanes(&scan, &scan.window, form.is_some())?;
        Ok(Some(Box::new(CoreRounds::new(dispatcher, lanes, wanted, form))))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.trace.printer(options)
    }

    fn origin(&self) -> Option<&dyn Trace> {
        Some(&*self.trace)
    }
}
