//! The file of one thread: its path and its header.

use super::process::Process;
use super::session::Session;
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

/// Destination of one thread's entries.
pub(crate) struct Target<'r> {
    session: &'r Session,
    process: Arc<Process>,
    pub(crate) tid: u64,
    pub(crate) calls: Calls,
    /// Offset from the number of a system call to that of a function.
    pub(crate) func_base: u64,
    file: Option<ThreadFile>,
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
            file: None,
        }
    }

    /// Creates the file and returns the entries before the first clock reading.
    ///
    /// # Errors
    /// `Io` if it cannot be created.
    pub(crate) fn begin(&mut self) -> Result<Vec<Entry>> {
        let session = self.session;
        let path = session.file_of(&self.process, self.tid)?;
        self.file = Some(ThreadFile::create(
            &session.folder,
            &path,
            &session.pool,
            &session.pack,
            CHUNK_INSTRS,
            session.gate.bytes(),
        )?);
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

    /// Appends entries.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub(crate) fn push(&mut self, entries: &[Entry]) -> Result<()> {
        match &mut self.file {
            Some(file) => file.push(entries),
            None => Ok(()),
        }
    }

    /// Appends entries that are final.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub(crate) fn push_run(&mut self, run: &Run<'_>) -> Result<()> {
        match &mut self.file {
            Some(file) => file.push_run(run),
            None => Ok(()),
        }
    }

    /// Number of the current chunk, from 1; 0 before the file is created.
    pub(crate) fn chunk(&self) -> u32 {
        self.file.as_ref().map_or(0, ThreadFile::chunk)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn finish(self) -> Result<Option<Written>> {
        self.file.map(ThreadFile::finish).transpose()
    }
}
