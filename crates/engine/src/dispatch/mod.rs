//! Threads scheduled onto cores: what a machine with a given number of cores might have made of the threads of a trace.
//!
//! [`dispatch`] makes a trace of threads one of cores. All cores are read at once, a record of each at every step
//! ([`Trace::rounds`]), so that the answer is the same each time. The rules are those of the drmemtrace launcher's
//! scheduler in its serial form, which a page of docs/formats/drmemtrace.md tells (*Scheduling threads onto cores*); what is
//! asked of a trace are instructions and the threads lens only, whatever the format.
//!
//! | file | subject |
//! |---|---|
//! | `options` | what can be chosen |
//! | `queue` | threads that wait, the best one first |
//! | `state` | the scheduler as a state machine: what each core runs next |
//! | `calls` | what system calls do to threads: block, rest, wake, hand over |
//! | `lane` | threads, each read at its own place |
//! | `clock` | what a core's clock says |
//! | `copy` | records from one batch to another |
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
use std::borrow::Cow;
use std::sync::Arc;

/// The same threads, scheduled onto cores: each shard is a core.
///
/// # Errors
/// `Usage` if the options do not hold together; `Missing` if the trace has no instructions, which is what time is
/// measured by; `Unsupported` if its shards are cores already.
pub fn dispatch(trace: Box<dyn Trace>, options: DispatchOptions) -> Result<Box<dyn Trace>> {
    Ok(Box::new(DispatchedTrace::new(trace, options)?))
}

/// The same threads, scheduled onto cores, as one sequence: a trace of one shard, which has what the cores do at each step
/// one after the other. Its rows are those of the threads' tables, with ordinals of the sequence; columns are left out.
///
/// # Errors
/// As for [`dispatch`]; `Unsupported` if rows of the format have no form for cores.
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
        // Tables stay with the threads, and native records unless they are wanted and have a form for cores.
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

    /// True if it is read as one sequence.
    fn is_sequence(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The threads at their beginnings, with these columns, and what is known of them.
    fn lanes(&self, scan: &Scan, window: &Window, has_raw: bool) -> Result<(Lanes, Dispatcher)> {
        let own = Columns::INSTRS | Columns::THREADS | Columns::THREAD_CLOCK;
        let shards = self.trace.shards();
        let columns = scan.columns.and(self.trace.columns()) | own.and(self.trace.columns());
        // Records count on cores.
        let template = Scan { columns, window: window.clone(), most: u64::MAX, codes: None, ..scan.clone() };
        let template = Scan { cut: Cut::SIZE, ..divided(&template, shards.len()) };
        let clock = self.trace.meta().clock;
        let open = |template: &Scan| -> Result<Lanes> {
            let readers =
                shards.iter().map(|shard| self.trace.scan(&Scan { shard: shard.id, ..template.clone() }));
            Ok(Lanes::new(readers.collect::<Result<_>>()?, clock))
        };
        let (lanes, known) = if has_raw {
            // Native records go to cores one by one, and the first look at a thread takes more than one.
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

/// A trace whose shards are the cores of a scheduler, or whose one shard is what all of them do.
struct DispatchedTrace {
    trace: Box<dyn Trace>,
    options: DispatchOptions,
    shards: Vec<Shard>,
    meta: Meta,
    columns: Columns,
    /// Those of the threads for a sequence; none for cores.
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

    fn n_delivered_damaged(&self) -> u64 {
        self.trace.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.trace.mark_name(kind)
    }
}
