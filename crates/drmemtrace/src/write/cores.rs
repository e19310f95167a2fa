//! Writes files of cores from the batches that a scheduler assigns to them. SPEC: drmemtrace.md#core-sharded-files.
//!
//! These files are an intermediate form: the chunks of the threads' files are joined, and no new ones are cut. Encodings
//! that are in another core's file, or in a part that is left out, are written where the core first needs them. Files are
//! packed in the fastest way, since [rewriting](mod@super::rewrite) reads them right away, and none is open between two of
//! its blocks.

use super::WriteOptions;
use super::appended::Appended;
use crate::codes::{CodeMap, SMALL_FRONT};
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::seams::Repeats;
use crate::trace::DrmemTrace;
use quipu_model::fresh::{Folder, cannot};
use quipu_model::{Batch, Code, CodeTable, Columns, Result, SharedCodes};
use quipu_source::{PackOptions, Packer, Packing, Source};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

/// Rows that may lie between those of two instructions: those of a bundle, which has eight.
const MAX_PASSED_ROWS: usize = 8;

/// Total size of the files' buffers, unless each would have less than [`MIN_BLOCK_BYTES`].
const SHARED_BLOCK_BYTES: usize = 16 << 20;
const MIN_BLOCK_BYTES: usize = 16 << 10;
/// Maximum size of a file's buffer.
const MAX_BLOCK_BYTES: usize = 128 << 10;
/// Bytes of an encoding in one entry.
const PIECE_BYTES: usize = 8;

/// The files of all cores, being written.
#[derive(Debug)]
pub struct CoreFiles {
    files: Vec<CoreFile>,
    /// The header of each thread's file.
    headers: FxHashMap<u64, Vec<Entry>>,
    n_taken: u64,
}

/// The file of one core.
#[derive(Debug)]
struct CoreFile {
    out: Packer<Appended>,
    /// Threads whose headers were written to the file.
    seen: FxHashSet<u64>,
    repeats: Repeats,
    last: Option<Type>,
    /// The encodings in the file, by address, in the state of a reader at its end.
    codes: CodeMap,
    table: CodeTable,
    /// The encoding of the next instruction, as far as it was read.
    encoding: Vec<u8>,
}

impl CoreFiles {
    /// The columns of batches that [`take`](CoreFiles::take) needs.
    pub const COLUMNS: Columns =
        Columns::RAW.or(Columns::THREADS).or(Columns::INSTRS).or(Columns::INSTR_CODE);

    /// Creates a file in `folder`, which it also creates, for each core that the threads of a trace are scheduled onto, and
    /// copies the files beside the threads' files. Of the options, only the number of threads is used.
    ///
    /// # Errors
    /// Errors of creating files.
    pub fn create(
        trace: &DrmemTrace,
        source: &Source,
        folder: &Path,
        n_cores: usize,
        options: &WriteOptions,
    ) -> Result<CoreFiles> {
        std::fs::create_dir_all(folder).map_err(|cause| cannot("create", folder, cause))?;
        if source.is_folder() {
            let beside = Folder::new(folder.to_owned());
            super::folder::copy_beside(source, &beside)?;
            beside.judge()?;
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
                // A core that starts idle knows no time yet.
                let unknown = [Marker::TIMESTAMP, Marker::CPU_ID].map(|kind| Entry::marker(kind, u64::MAX));
                headers.insert(IDLE_THREAD, of(IDLE_THREAD, u64::MAX, &unknown));
            }
            headers.insert(tid, of(tid, pid, &[]));
        }
        let (pool, packing) = (options.pool()?, Packing::Lz4);
        let block_bytes = (SHARED_BLOCK_BYTES / n_cores.max(1)).clamp(MIN_BLOCK_BYTES, MAX_BLOCK_BYTES);
        // Cores mostly run the same code.
        let shared = Arc::<SharedCodes>::default();
        let file = |core: usize| {
            let name = super::folder::renamed(&format!("drmemtrace.core.{core:06}.trace"), packing);
            let path = folder.join(name);
            let out = Appended::create_new(&path).map_err(|cause| cannot("write", &path, cause))?;
            Ok(CoreFile {
                out: Packer::new(out, &pool, &PackOptions::new(packing)).in_blocks_of(block_bytes),
                seen: FxHashSet::default(),
                repeats: Repeats::default(),
                last: None,
                codes: CodeMap::new(SMALL_FRONT),
                table: CodeTable::sharing(Some(Arc::clone(&shared))),
                encoding: Vec::new(),
            })
        };
        Ok(CoreFiles { files: (0..n_cores).map(file).collect::<Result<_>>()?, headers, n_taken: 0 })
    }

    /// Appends a core's next batch, with native entries and the instructions among them.
    ///
    /// # Errors
    /// Errors of writing.
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
            // The header names the thread already.
            let is_turn = |entry: &Entry| matches!(entry.kind(), Type::THREAD | Type::PID);
            rest = &rest[rest.iter().take_while(|entry| is_turn(entry)).count()..];
        }
        // Encodings and targets of an instruction that a part leaves out belong to no other.
        let n_lone = rest.iter().rev().take_while(|entry| is_of_next(entry)).count();
        let mut row = 0;
        for entry in &rest[..rest.len() - n_lone] {
            if entry.kind().is_any_instr() && entry.size.get() > 0 {
                let found = row_of(&batch.instrs.pc, row, entry.addr.get());
                let code = found.and_then(|row| batch.codes.get(*batch.instrs.code.get(row)?));
                file.encode(entry, code)?;
                row = found.map_or(row, |found| found + 1);
            }
            file.take(entry)?;
        }
        Ok(())
    }

    /// Ends all files; returns the number of entries that were taken.
    ///
    /// # Errors
    /// Errors of writing.
    pub fn finish(mut self) -> Result<u64> {
        let idle = self.headers.remove(&IDLE_THREAD).unwrap_or_default();
        for mut file in self.files {
            if file.last.is_none() {
                file.write(&idle)?;
            }
            if file.last != Some(Type::FOOTER) {
                file.write(&[Entry::new(Type::FOOTER, 0, 0)])?;
            }
            file.out.finish()?;
        }
        Ok(self.n_taken)
    }
}

/// The row of the instruction at `pc`, from the row `from` on. Each instruction has a row, and only those of bundles, which
/// are skipped here, have others: an instruction without a row nearby has none, so the batch is not searched for each.
fn row_of(pcs: &[u64], from: usize, pc: u64) -> Option<usize> {
    let mut near = pcs.get(from..)?.iter().take(MAX_PASSED_ROWS + 1);
    near.position(|other| *other == pc).map(|n| from + n)
}

/// True for entries that belong to the instruction after them.
fn is_of_next(entry: &Entry) -> bool {
    entry.kind() == Type::ENCODING || entry.is_marker(Marker::BRANCH_TARGET)
}

impl CoreFile {
    /// Ensures that readers of the file know the encoding of an instruction, before it is written: the one right before it,
    /// else the one that the trace has for it.
    fn encode(&mut self, instr: &Entry, code: Option<&Code>) -> Result<()> {
        let (pc, size) = (instr.addr.get(), instr.size.get());
        if !self.encoding.is_empty() {
            self.codes.set(pc, size, &self.encoding, &mut self.table);
            self.encoding.clear();
            return Ok(());
        }
        let Some(bytes) = code.map(Code::bytes).filter(|bytes| !bytes.is_empty()) else { return Ok(()) };
        let known = self.codes.get(pc, size, &self.table);
        if self.table.get(known).is_some_and(|known| known.bytes() == bytes) {
            return Ok(());
        }
        self.codes.set(pc, size, bytes, &mut self.table);
        for piece in bytes.chunks(PIECE_BYTES) {
            let mut whole = [0; PIECE_BYTES];
            whole[..piece.len()].copy_from_slice(piece);
            // At most eight.
            self.write(&[Entry::new(Type::ENCODING, piece.len() as u16, u64::from_le_bytes(whole))])?;
        }
        Ok(())
    }

    fn take(&mut self, entry: &Entry) -> Result<()> {
        let marker = (entry.kind() == Type::MARKER).then(|| Marker(entry.size.get()));
        if marker.is_some_and(|marker| self.repeats.is_copy(marker)) {
            return Ok(());
        }
        match (entry.kind(), marker) {
            // The end of a thread has its own footer.
            (Type::FOOTER, _) | (_, Some(Marker::CHUNK_FOOTER | Marker::RECORD_ORDINAL)) => Ok(()),
            (Type::THREAD_EXIT, _) => self.write(&[*entry, Entry::new(Type::FOOTER, 0, 0)]),
            (Type::ENCODING, _) => {
                let bytes = entry.addr.get().to_le_bytes();
                let n = usize::from(entry.size.get()).min(PIECE_BYTES);
                self.encoding.extend_from_slice(&bytes[..n]);
                self.write(std::slice::from_ref(entry))
            }
            _ => self.write(std::slice::from_ref(entry)),
        }
    }

    fn write(&mut self, entries: &[Entry]) -> Result<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        self.last = Some(last.kind());
        Ok(self.out.write(entries.as_bytes())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_an_instruction_is_searched_within_one_bundle() {
        let mut pcs = vec![1; 1000];
        pcs[500] = 7;
        for (from, found) in
            [(500, Some(500)), (492, Some(500)), (491, None), (501, None), (0, None), (2000, None)]
        {
            assert_eq!(row_of(&pcs, from, 7), found, "from {from}");
        }
    }
}
