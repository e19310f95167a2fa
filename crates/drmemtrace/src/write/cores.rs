//! Files of cores from what a scheduler gives each of them. SPEC: drmemtrace.md#core-sharded-files.
//!
//! What is written is bare, and only put together: chunks of the threads' files are taken apart, and none are cut. Encodings
//! may have stayed with another core. [Rewriting](mod@super::rewrite) the folder packs it and gives encodings back.

use super::BUFFER_BYTES;
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::trace::DrmemTrace;
use quipu_model::fresh::cannot;
use quipu_model::{Batch, Result};
use quipu_source::Source;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

/// The files of all cores, being written.
#[derive(Debug)]
pub struct CoreFiles {
    files: Vec<CoreFile>,
    /// What each thread's file says of itself.
    headers: FxHashMap<u64, Vec<Entry>>,
    n_taken: u64,
}

/// The file of one core.
#[derive(Debug)]
struct CoreFile {
    path: PathBuf,
    out: BufWriter<File>,
    /// Threads whose headers the file has.
    seen: FxHashSet<u64>,
    /// What comes repeats what stood before a chunk's end, up to the processor.
    repeats: bool,
    last: Option<Type>,
}

impl CoreFiles {
    /// Begins a file in `folder`, which it makes, for each core that the threads of a trace are scheduled onto, and copies
    /// what lies beside the threads' files.
    ///
    /// # Errors
    /// What making files says.
    pub fn create(trace: &DrmemTrace, source: &Source, folder: &Path, n_cores: usize) -> Result<CoreFiles> {
        std::fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause))?;
        if source.is_folder() {
            super::folder::copy_beside(source, folder)?;
        }
        let mut headers: FxHashMap<u64, Vec<Entry>> = FxHashMap::default();
        for file in trace.files() {
            let header = &file.header;
            let (tid, pid, is_first) = (header.tid, header.pid, headers.is_empty());
            let of = |tid, pid, clock: &[Entry]| {
                let marker = |kind, value: Option<u64>| value.map(|value| Entry::marker(kind, value));
                let filetype = header.filetype.0 | FileType::CORE_SHARDED.0;
                let mut entries = vec![
                    Entry::new(Type::HEADER, 0, header.version),
                    Entry::marker(Marker::VERSION, header.version),
                    Entry::marker(Marker::FILETYPE, filetype),
                    Entry::new(Type::THREAD, 4, tid),
                    Entry::new(Type::PID, 4, pid),
                ];
                entries.extend(marker(Marker::CACHE_LINE_SIZE, header.line_bytes));
                entries.extend(marker(
                    Marker::CHUNK_INSTR_COUNT,
                    (header.chunk_instrs > 0).then_some(header.chunk_instrs),
                ));
                entries.extend(marker(Marker::PAGE_SIZE, header.page_bytes));
                entries.extend_from_slice(clock);
                entries
            };
            if is_first {
                // A core that begins at rest knows no time yet.
                let unknown = [Marker::TIMESTAMP, Marker::CPU_ID].map(|kind| Entry::marker(kind, u64::MAX));
                headers.insert(IDLE_THREAD, of(IDLE_THREAD, u64::MAX, &unknown));
            }
            headers.insert(tid, of(tid, pid, &[]));
        }
        let file = |core: usize| {
            let path = folder.join(format!("drmemtrace.core.{core:06}.trace"));
            let out = File::create_new(&path).map_err(|cause| cannot("create", &path, cause))?;
            Ok(CoreFile {
                path,
                out: BufWriter::with_capacity(BUFFER_BYTES / 16, out),
                seen: FxHashSet::default(),
                repeats: false,
                last: None,
            })
        };
        Ok(CoreFiles { files: (0..n_cores).map(file).collect::<Result<_>>()?, headers, n_taken: 0 })
    }

    /// Takes what a core did next: a batch of native entries.
    ///
    /// # Errors
    /// What writing says.
    pub fn take(&mut self, batch: &Batch) -> Result<()> {
        let entries = Entry::slice(batch.raw()).0;
        let Some(file) = self.files.get_mut(batch.span.shard as usize) else { return Ok(()) };
        let Some(first) = entries.first() else { return Ok(()) };
        self.n_taken += entries.len() as u64;
        let tid = batch.span.thread.packed();
        let mut rest = entries;
        let wants_header = if tid == IDLE_THREAD { file.last.is_none() } else { file.seen.insert(tid) };
        if wants_header && first.kind() != Type::HEADER {
            file.write(self.headers.get(&tid).map_or(&[], Vec::as_slice))?;
            // It says whose turn it is.
            let is_turn = |entry: &Entry| matches!(entry.kind(), Type::THREAD | Type::PID);
            rest = &rest[rest.iter().take_while(|entry| is_turn(entry)).count()..];
        }
        // What stands before an instruction that a part leaves out belongs to no other.
        let n_lone = rest.iter().rev().take_while(|entry| is_of_next(entry)).count();
        rest[..rest.len() - n_lone].iter().try_for_each(|entry| file.take(entry))
    }

    /// Ends all files; returns how many entries were taken.
    ///
    /// # Errors
    /// What writing says.
    pub fn finish(mut self) -> Result<u64> {
        let idle = self.headers.remove(&IDLE_THREAD).unwrap_or_default();
        for mut file in self.files {
            if file.last.is_none() {
                file.write(&idle)?;
            }
            if file.last != Some(Type::FOOTER) {
                file.write(&[Entry::new(Type::FOOTER, 0, 0)])?;
            }
            file.out.flush().map_err(|cause| cannot("write", &file.path, cause))?;
        }
        Ok(self.n_taken)
    }
}

/// True for what belongs to the instruction after it.
fn is_of_next(entry: &Entry) -> bool {
    entry.kind() == Type::ENCODING || entry.is_marker(Marker::BRANCH_TARGET)
}

impl CoreFile {
    fn take(&mut self, entry: &Entry) -> Result<()> {
        let marker = (entry.kind() == Type::MARKER).then(|| Marker(entry.size.get()));
        match (entry.kind(), marker) {
            // The end of a thread has one of its own.
            (Type::FOOTER, _) | (_, Some(Marker::CHUNK_FOOTER)) => Ok(()),
            (_, Some(Marker::RECORD_ORDINAL)) => {
                self.repeats = true;
                Ok(())
            }
            (_, Some(Marker::TIMESTAMP)) if self.repeats => Ok(()),
            (_, Some(Marker::CPU_ID)) if std::mem::take(&mut self.repeats) => Ok(()),
            (Type::THREAD_EXIT, _) => self.write(&[*entry, Entry::new(Type::FOOTER, 0, 0)]),
            _ => self.write(std::slice::from_ref(entry)),
        }
    }

    fn write(&mut self, entries: &[Entry]) -> Result<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        self.last = Some(last.kind());
        self.out.write_all(entries.as_bytes()).map_err(|cause| cannot("write", &self.path, cause))
    }
}
