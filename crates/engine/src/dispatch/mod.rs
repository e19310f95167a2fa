//! Threads scheduled onto cores: what a machine with so many cores might have made of the threads of a trace.
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
//! | `copy` | records from one batch to another |
//! | `rounds` | batches of all cores, step by step |

mod calls;
mod copy;
mod lane;
mod options;
mod queue;
mod rounds;
mod state;

#[cfg(test)]
mod tests;

pub use options::{CoreTime, DispatchOptions, MAX_DISPATCH_CORES, Quantum};

use crate::merge::divided;
use lane::Lanes;
use quipu_model::print::Printer;
use quipu_model::trace::{Family, PrintOptions, Rounds};
use quipu_model::{
    Columns, Cut, Error, Meta, Reader, Result, Scan, Shard, ShardId, ShardKind, TableSchema, Trace, Window,
};
use rounds::CoreRounds;
use state::Dispatcher;
use std::borrow::Cow;

/// The same threads, scheduled onto cores: each shard is a core.
///
/// # Errors
/// `Usage` if the options do not hold together; `Missing` if the trace has no instructions, which is what time is
/// measured by; `Unsupported` if its shards are cores already.
pub fn dispatch(trace: Box<dyn Trace>, options: DispatchOptions) -> Result<Box<dyn Trace>> {
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
    Ok(Box::new(DispatchedTrace {
        shards: shards.collect(),
        columns: trace.columns().minus(without | Columns::CALL_VALUES),
        trace,
        options,
        meta,
    }))
}

/// A trace whose shards are the cores of a scheduler.
struct DispatchedTrace {
    trace: Box<dyn Trace>,
    options: DispatchOptions,
    shards: Vec<Shard>,
    meta: Meta,
    columns: Columns,
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

    fn tables(&self) -> &'static [&'static TableSchema] {
        &[]
    }

    fn scan(&self, _scan: &Scan) -> Result<Box<dyn Reader>> {
        Err(Error::unsupported("what a scheduler gives one core cannot be read without the others"))
    }

    fn rounds(&self, scan: &Scan) -> Result<Option<Box<dyn Rounds + '_>>> {
        if scan.window != Window::All || !scan.tables.is_empty() {
            return Err(Error::unsupported(
                "threads that are scheduled onto cores are read as a whole, without native tables",
            ));
        }
        let wanted = scan.columns.and(self.columns);
        let own = Columns::INSTRS | Columns::THREADS | Columns::THREAD_CLOCK;
        let shards = self.trace.shards();
        let template = Scan { columns: wanted | own.and(self.trace.columns()), codes: None, ..scan.clone() };
        let template = Scan { cut: Cut::SIZE, ..divided(&template, shards.len()) };
        let clock = self.trace.meta().clock;
        let open = |template: &Scan| -> Result<Lanes> {
            let readers =
                shards.iter().map(|shard| self.trace.scan(&Scan { shard: shard.id, ..template.clone() }));
            Ok(Lanes::new(readers.collect::<Result<_>>()?, clock))
        };
        let form = self.trace.core_form().filter(|_| wanted.has(Columns::RAW));
        let (lanes, known) = if form.is_some() {
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
        let dispatcher = Dispatcher::new(self.options.clone(), &known, frames_calls);
        Ok(Some(Box::new(CoreRounds::new(dispatcher, lanes, wanted, form))))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.trace.printer(options)
    }

    fn families(&self) -> &'static [Family] {
        self.trace.families()
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.trace.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.trace.mark_name(kind)
    }
}
