//! The destination of one thread's entries: a file with its path and its header, or events.

use super::order::{LaneId, Order};
use super::process::Process;
use super::session::{Session, Store};
use super::syscalls::Calls;
use crate::program::Machine;
use quipu_drmemtrace::record::{
    Entry, FileType, Marker, NEWEST_VERSION, SYSCALL_FUNC_BASE, SYSCALL_FUNC_BASE_32, Type,
};
use quipu_drmemtrace::write::threads::{Run, ThreadFile, Written};
use quipu_model::Result;
use std::sync::Arc;

/// Instructions per chunk of an archive, as in DynamoRIO's traces.
const CHUNK_INSTRS: u64 = 10_000_000;
/// Page size in bytes of all supported guests.
const PAGE_BYTES: u64 = 4096;
/// Cache line size in bytes. The emulator has no caches; this is the size on nearly all processors.
const LINE_BYTES: u64 = 64;

/// Takes one thread's entries.
pub(crate) struct Target<'r> {
    session: &'r Session,
    process: Arc<Process>,
    pub(crate) tid: u64,
    pub(crate) calls: Calls,
    /// Offset from the number of a system call to that of a function.
    pub(crate) func_base: u64,
    to: To<'r>,
}

enum To<'r> {
    /// Not begun.
    Nothing,
    File(Box<ThreadFile>),
    Events {
        order: &'r Order,
        lane: LaneId,
    },
}

impl<'r> Target<'r> {
    pub(crate) fn new(session: &'r Session, process: Arc<Process>, tid: u32) -> Target<'r> {
        let machine = session.machine;
        let is_narrow = matches!(machine, Machine::I386 | Machine::Arm);
        Target {
            session,
            process,
            tid: u64::from(tid),
            calls: Calls::of(machine),
            func_base: if is_narrow { SYSCALL_FUNC_BASE_32 } else { SYSCALL_FUNC_BASE },
            to: To::Nothing,
        }
    }

    /// Creates the file or begins to make events, and returns the entries before the first clock reading.
    ///
    /// # Errors
    /// `Io` if it cannot be created.
    pub(crate) fn begin(&mut self) -> Result<Vec<Entry>> {
        let session = self.session;
        self.to = match &session.store {
            Store::Files { folder, pool, pack } => {
                let path = session.file_of(folder, pack.packing, &self.process, self.tid)?;
                let n_bytes = session.gate.bytes();
                To::File(Box::new(ThreadFile::create(folder, &path, pool, pack, CHUNK_INSTRS, n_bytes)?))
            }
            Store::Events { order, columns, .. } => {
                let number = session.number(self.process.image);
                let lane = order.open(*columns, session.next_shard(), number);
                To::Events { order, lane }
            }
        };
        let arch = match session.machine {
            Machine::X86_64 => FileType::ARCH_X86_64,
            Machine::I386 => FileType::ARCH_X86_32,
            Machine::Aarch64 => FileType::ARCH_AARCH64,
            Machine::Arm => FileType::ARCH_ARM32,
            // The format has no flag for it.
            Machine::Riscv64 => FileType(0),
        };
        let holds = FileType::ENCODINGS.or(FileType::SYSCALL_NUMBERS).or(FileType::BLOCKING_SYSCALLS);
        Ok(vec![
            Entry::new(Type::HEADER, 0, NEWEST_VERSION),
            Entry::marker(Marker::VERSION, NEWEST_VERSION),
            Entry::marker(Marker::FILETYPE, arch.or(holds).0),
            Entry::new(Type::THREAD, 4, self.tid),
            Entry::new(Type::PID, 4, u64::from(self.process.image.pid)),
            Entry::marker(Marker::CACHE_LINE_SIZE, LINE_BYTES),
            Entry::marker(Marker::CHUNK_INSTR_COUNT, CHUNK_INSTRS),
            Entry::marker(Marker::PAGE_SIZE, PAGE_BYTES),
        ])
    }

    /// Whether entries become events.
    pub(crate) fn makes_events(&self) -> bool {
        matches!(self.to, To::Events { .. })
    }

    /// Appends entries.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub(crate) fn push(&mut self, entries: &[Entry]) -> Result<()> {
        match &mut self.to {
            To::Nothing => Ok(()),
            To::File(file) => file.push(entries),
            To::Events { order, lane } => order.push(*lane, entries),
        }
    }

    /// Whether the thread is so far ahead of others that it has to wait.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn is_ahead(&self) -> Result<bool> {
        match &self.to {
            To::Events { order, lane } => order.is_full(*lane),
            To::Nothing | To::File(_) => Ok(false),
        }
    }

    /// Notes that the thread waited in a system call at this time.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn rest(&self, now: u64) -> Result<()> {
        match &self.to {
            To::Events { order, lane } => order.rest(*lane, now),
            To::Nothing | To::File(_) => Ok(()),
        }
    }

    /// Appends entries that are final.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub(crate) fn push_run(&mut self, run: &Run<'_>) -> Result<()> {
        match &mut self.to {
            To::File(file) => file.push_run(run),
            To::Nothing | To::Events { .. } => self.push(run.entries),
        }
    }

    /// Number of the current chunk, from 1; 0 before the beginning. Events are one chunk.
    pub(crate) fn chunk(&self) -> u32 {
        match &self.to {
            To::Nothing => 0,
            To::File(file) => file.chunk(),
            To::Events { .. } => 1,
        }
    }

    /// Ends the file or the events; returns what was written to a file.
    ///
    /// # Errors
    /// `Io` if it cannot be written; errors of the events' destination.
    pub(crate) fn finish(self) -> Result<Option<Written>> {
        match self.to {
            To::Nothing => Ok(None),
            To::File(file) => file.finish().map(Some),
            To::Events { order, lane } => order.close(lane).map(|()| None),
        }
    }
}
