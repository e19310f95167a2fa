//! Writes a folder of traces, a file for each thread, from entries as a recorder delivers them.
//!
//! The recorder delivers the entries of one thread in order, from header to footer, with the encoding before the first
//! execution of each instruction. Chunks, the entries that they repeat, and the schedule files are made here.

use super::{BUFFER_BYTES, ChunkRule, Counts, NoEdit, Rewriter, folder};
use crate::record::Entry;
use crate::schedule::Recording;
use quipu_model::fresh::{Folder, cannot};
use quipu_model::{Finding, Result};
use quipu_source::{OutputFile, PackOptions, Packer, Pool};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use super::folder::renamed;

/// The file of one thread.
pub struct ThreadFile {
    rewriter: Rewriter<BufWriter<Counted>, NoEdit>,
    path: PathBuf,
}

/// Entries that need no further check: only instructions with their branch targets and accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<'e> {
    /// All entries of the run.
    pub entries: &'e [Entry],
    /// Number of fetched instructions among them.
    pub instrs: u64,
    /// Number of branch targets among them.
    pub targets: u64,
}

/// Summary of the file of one thread.
#[derive(Debug)]
pub struct Written {
    /// The schedule of the thread.
    pub schedule: Recording,
    /// Amounts written.
    pub counts: Counts,
    /// Bytes of the file.
    pub packed_bytes: u64,
}

impl ThreadFile {
    /// Begins a file in the output of `folder` with chunks of `chunk_instrs` instructions, which its header must state, too.
    /// The bytes that reach the file are added to `n_bytes`.
    ///
    /// # Errors
    /// `Io` if it cannot be created, or exists already.
    pub fn create(
        folder: &Folder,
        path: &Path,
        pool: &Arc<Pool>,
        pack: &PackOptions,
        chunk_instrs: u64,
        n_bytes: Arc<AtomicU64>,
    ) -> Result<ThreadFile> {
        let file = folder.create(path)?;
        let counted = Counted::new(file, n_bytes);
        let packer = Packer::new(BufWriter::with_capacity(BUFFER_BYTES, counted), pool, pack);
        let instrs = if pack.packing == quipu_source::Packing::Zip { chunk_instrs } else { 0 };
        let rule = ChunkRule { instrs, marker: None, insert: false };
        Ok(ThreadFile { rewriter: Rewriter::new(packer, NoEdit, rule)?, path: path.to_owned() })
    }

    /// Appends entries.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn push(&mut self, entries: &[Entry]) -> Result<()> {
        self.rewriter.push(entries).map_err(|error| error.in_file(self.path.display().to_string()))
    }

    /// The number of the chunk being written, from 1.
    pub fn chunk(&self) -> u32 {
        self.rewriter.chunk()
    }

    /// Appends entries that were counted already. Each instruction must have been pushed with its encoding, or by
    /// [`ThreadFile::push`], since [`ThreadFile::chunk`] changed.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn push_run(&mut self, run: &Run<'_>) -> Result<()> {
        let records = (run.entries.len() as u64).saturating_sub(run.targets);
        let in_file = |error: quipu_model::Error| error.in_file(self.path.display().to_string());
        if self.rewriter.push_run(run.entries, records, run.instrs).map_err(in_file)? {
            return Ok(());
        }
        self.push(run.entries)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub fn finish(self) -> Result<Written> {
        let rewritten = self.rewriter.finish(true)?;
        let mut out = rewritten.out;
        out.flush().map_err(|cause| cannot("write", &self.path, cause))?;
        Ok(Written {
            schedule: rewritten.schedule,
            counts: rewritten.written,
            packed_bytes: rewritten.packed.packed_bytes,
        })
    }
}

impl std::fmt::Debug for ThreadFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Writes both schedule files beside the files of threads. Returns a finding if they would be too long.
///
/// # Errors
/// `Io` if they cannot be written.
pub fn write_schedules(
    folder: &Folder,
    schedules: Vec<Recording>,
    pool: &Arc<Pool>,
) -> Result<Option<Finding>> {
    folder::write_schedules(folder, schedules, pool)
}

/// True for paths that a new recording may replace: the folder of a trace as DynamoRIO names it, and its content.
pub fn is_recorded(path: &Path) -> bool {
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    if is_link || !path.is_dir() {
        return !is_link && folder::is_part_of_a_trace(path);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_ours = matches!(name.as_str(), "trace" | "raw" | "aux")
        || (name.starts_with("drmemtrace.") && name.ends_with(".dir"));
    let all_are = || {
        std::fs::read_dir(path)
            .is_ok_and(|mut all| all.all(|entry| entry.is_ok_and(|entry| is_recorded(&entry.path()))))
    };
    is_ours && all_are()
}

/// A file that counts its bytes, for limits on the recorded amount.
#[derive(Debug)]
pub struct Counted {
    file: OutputFile,
    n_bytes: Arc<AtomicU64>,
}

impl Counted {
    /// Adds the bytes that reach the file to `n_bytes`.
    pub fn new(file: OutputFile, n_bytes: Arc<AtomicU64>) -> Counted {
        Counted { file, n_bytes }
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.n_bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}
