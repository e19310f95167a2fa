//! System calls as rows, each with its latency: the events of threads, paired as in `syscalls`.

use crate::keyed::Keyed;
use crate::syscalls::{Timing, syscall_name};
use quipu_isa::Arch;
use quipu_model::lens::ThreadEvent;
use quipu_model::schema::{Fidelity, Missing, Role, Schema, Type};
use quipu_model::{Batch, ColumnTable, Columns, Field, Result, TableBuf, ThreadId};
use std::sync::{Arc, LazyLock};

/// Name of the rows.
pub(super) const NAME: &str = "syscalls";

/// Columns that the rows need, then columns that they use if available.
pub(super) const NEEDED: Columns = Columns::THREADS;
pub(super) const USED: Columns = Columns::THREAD_CLOCK.or(Columns::INSTRS);

/// The schema of the rows.
pub(super) fn schema() -> &'static Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
        let fields = vec![
            Field::new("shard", Type::U64, "Position of the shard in the trace, from 0."),
            Field::new("record", Type::U64, "Record ordinal, from 1.").role(Role::RECORD),
            Field::new("tid", Type::U64, "Thread, with the workload in the top 16 bits.").role(Role::THREAD),
            Field::new("pid", Type::U64, "Process; 0 if the trace does not say.").role(Role::PROCESS),
            Field::new("number", Type::U64, "Number of the system call.").role(Role::SYSCALL),
            Field::new("name", Type::Text, "Name of the system call on Linux.").optional(),
            Field::new("latency", Type::U64, "Duration of the call, in ticks of the clock.")
                .optional()
                .role(Role::DURATION),
        ];
        Schema::new(NAME, Fidelity::Derived, "System calls with their latency.", fields).into()
    });
    &SCHEMA
}

/// A call whose latency is not known yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    shard: u32,
    record: u64,
    process: u64,
    number: u64,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    timing: Timing,
    pending: Option<Pending>,
}

/// State of pairing calls, and the finished rows.
#[derive(Clone, Debug)]
pub(super) struct Calls {
    arch: Option<Arch>,
    threads: Keyed<ThreadId, Thread>,
    /// Finished calls.
    pub(super) rows: ColumnTable,
}

impl Calls {
    pub(super) fn new(arch: Option<Arch>) -> Calls {
        Calls { arch, threads: Keyed::default(), rows: ColumnTable::new(schema().clone()) }
    }

    /// An instance of the same kind without calls.
    pub(super) fn fork(&self) -> Calls {
        Calls::new(self.arch)
    }

    /// Replaces the rows by the calls that finish in this batch.
    pub(super) fn consume(&mut self, batch: &Batch) -> Result<()> {
        let Calls { arch, threads, rows: out } = self;
        out.clear();
        let span = &batch.span;
        let thread = threads.entry(span.thread, Thread::default);
        let (rows, events) = (&batch.instrs, &batch.threads);
        let mut row = 0;
        for ((&what, &value), &at) in events.what.iter().zip(&events.value).zip(&events.at) {
            let end = row + rows.at.get(row..).map_or(0, |at_of| at_of.partition_point(|instr| *instr < at));
            thread.run(rows.flags.get(row..end).unwrap_or(&[]), span.thread, *arch, out)?;
            row = end;
            let record = span.first_record + u64::from(at);
            match what {
                ThreadEvent::Clock => {
                    if let Some((_, ticks)) = thread.timing.read_clock(value, record)
                        && let Some(pending) = thread.pending.take()
                    {
                        push(pending, span.thread, *arch, Some(ticks), out)?;
                    }
                }
                ThreadEvent::Syscall => {
                    if let Some(pending) = thread.pending.take() {
                        push(pending, span.thread, *arch, None, out)?;
                    }
                    thread.timing.call(value, record);
                    let (shard, process) = (span.shard, span.process);
                    thread.pending = Some(Pending { shard, record: record + 1, process, number: value });
                }
                _ => {}
            }
        }
        thread.run(rows.flags.get(row..).unwrap_or(&[]), span.thread, *arch, out)
    }

    /// Replaces the rows by the calls that are still open at the end, without a latency.
    pub(super) fn close(&mut self) -> Result<()> {
        self.rows.clear();
        for (id, thread) in std::mem::take(&mut self.threads).into_items() {
            if let Some(pending) = thread.pending {
                push(pending, id, self.arch, None, &mut self.rows)?;
            }
        }
        Ok(())
    }
}

impl Thread {
    fn run(&mut self, flags: &[u8], id: ThreadId, arch: Option<Arch>, out: &mut ColumnTable) -> Result<()> {
        self.timing.run(flags);
        if self.timing.open().is_none()
            && let Some(pending) = self.pending.take()
        {
            push(pending, id, arch, None, out)?;
        }
        Ok(())
    }
}

fn push(
    call: Pending,
    thread: ThreadId,
    arch: Option<Arch>,
    latency: Option<u64>,
    out: &mut ColumnTable,
) -> Result<()> {
    let numbers = [call.shard.into(), call.record, thread.packed(), call.process, call.number];
    for (column, number) in out.columns.iter_mut().zip(numbers) {
        column.push(number)?;
    }
    match syscall_name(arch, call.number) {
        Some(name) => out.columns[5].push_bytes(name.as_bytes())?,
        None => out.columns[5].push_missing(Missing::Bitmap),
    }
    match latency {
        Some(latency) => out.columns[6].push(latency)?,
        None => out.columns[6].push_missing(Missing::Bitmap),
    }
    Ok(())
}
