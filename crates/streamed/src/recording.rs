//! Recordings of programs that record themselves: their cells by thread. SPEC: stream.md#cells.
//!
//! The rows of a stream contain the same. Cells are for callers that need them in the order in which they were written, for
//! example to convert them to another format.

use crate::reader::RowReader;
use crate::trace::{Opened, StreamTrace};
use quipu_model::{Columns, Finding, Result, Scan, ShardId};
use quipu_source::Source;
use quipu_stream::cells;
use quipu_stream::frame::{HEADER_BYTES, SYNC, encoding, kind};
use quipu_stream::wire::record::Record;
use std::path::Path;
use std::sync::Arc;

/// Bytes at the start of a recording within which the name of its encoding appears.
const PROBED_BYTES: usize = 16 << 10;

/// A thread of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its stream number: threads are numbered from 1 in order of start.
    pub number: u32,
    /// Thread id of the kernel.
    pub tid: u64,
    /// Number of frames.
    pub parts: u64,
    /// Number of missing frames, according to the frame numbers.
    pub missing: u64,
    shard: u32,
}

/// Properties of the recorded process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u64,
    /// Process id of the parent, if it was forked from a process that was also recorded.
    pub parent: Option<u64>,
    /// Wall-clock time of the start, in ns since 1970.
    pub start_ns: u64,
    /// End in ns since the start, if the process exited normally.
    pub end_ns: Option<u64>,
    /// What happened to the process after its start, as values of [`quipu_cells::layout::process`].
    pub became: [Option<u64>; 4],
}

/// A recording: a stream of one process that contains only cells.
#[derive(Debug)]
pub struct Recording {
    opened: Arc<Opened>,
    threads: Vec<Thread>,
    process: Process,
}

/// True if a source begins like a recording: with the process page, or (in a recording that was sent elsewhere, where the
/// page has become a closed frame) with metadata, and the name of the encoding soon after.
#[must_use]
pub fn is_recording(source: &Source) -> bool {
    if source.is_folder() {
        return false;
    }
    let Ok(head) = source.packed_head(PROBED_BYTES) else { return false };
    head.starts_with(&SYNC)
        && matches!(head.get(9), Some(&(kind::OPEN | kind::META)))
        && memchr::memmem::find(&head, quipu_cells::describe::ENCODING_NAME.as_bytes()).is_some()
}

/// Like [`is_recording`] for a path. False for pipes, which would lose the bytes that are read.
#[must_use]
pub fn is_recording_at(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file())
        && Source::open(path).is_ok_and(|source| is_recording(&source))
}

impl Recording {
    /// Returns a stream as a recording; `None` if it contains several processes or anything but cells.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn of(trace: &StreamTrace) -> Result<Option<Recording>> {
        let opened = trace.opened();
        let mut process = trace.process_rows()?;
        let is_named = opened.epochs.values().any(|metadata| cells::is_named(metadata));
        let is_of_one = opened.epochs.len() <= 1;
        // If the description is damaged, the process page still identifies a recording.
        if !is_of_one || !is_named && process == Process::default() {
            return Ok(None);
        }
        let mut threads = Vec::new();
        for (shard, part) in (0..).zip(&opened.parts) {
            if part.stream == 0 || part.pieces.is_empty() {
                continue;
            }
            if part.pieces.iter().any(|piece| piece.frame.header.encoding != encoding::CELLS) {
                return Ok(None);
            }
            let number_of =
                |piece: &crate::parts::Piece| piece.open.map_or(piece.frame.header.seq, |head| head.seq);
            // The first frame of each stream describes the thread and is not among the pieces.
            let last = part.pieces.iter().map(number_of).max().unwrap_or(0);
            let parts = part.pieces.len() as u64;
            let missing = last.saturating_sub(parts);
            threads.push(Thread { number: part.stream, tid: part.thread, parts, missing, shard });
        }
        threads.sort_by_key(|thread| thread.number);
        for (_, entry) in opened.epochs.values().flat_map(|metadata| metadata.entries()) {
            if let Some(Record::Producer(producer)) = entry.record.as_deref() {
                process.pid = producer.pid.unwrap_or(process.pid);
                process.start_ns = producer.start_ns.map_or(0, |ns| u64::try_from(ns).unwrap_or(0));
            }
        }
        Ok(Some(Recording { opened: Arc::clone(opened), threads, process }))
    }

    /// Its threads, by number.
    #[must_use]
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The recorded process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Begins to read the cells of a thread.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn cells(&self, thread: &Thread) -> Result<CellReader> {
        let scan = Scan { columns: Columns::NONE, ..Scan::new(ShardId(thread.shard)) };
        Ok(CellReader { rows: RowReader::new(&self.opened, &scan)? })
    }
}

/// Reads the cells of a thread, frame by frame.
#[derive(Debug)]
pub struct CellReader {
    rows: RowReader,
}

impl CellReader {
    /// Appends the cells of the next frame, and returns when the frame was begun, in ns since the recording began; `None` at
    /// the end.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn next(&mut self, to: &mut Vec<quipu_cells::cell::Cell>) -> Result<Option<u64>> {
        self.rows.next_cells(to)
    }

    /// Returns the findings since the last call.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        self.rows.take_findings()
    }
}

/// Reads the process rows in the payload of an open process page.
pub(crate) fn rows_of_page(payload: &[u8]) -> Process {
    use quipu_cells::layout::process;
    rows_of_process(payload.get(process::FIRST_ROW - HEADER_BYTES..).unwrap_or_default())
}

/// Reads process rows: one for the start, and further ones for what happened later.
pub(crate) fn rows_of_process(rows: &[u8]) -> Process {
    use quipu_cells::layout::process;
    let mut told = Process::default();
    let mut n_after = 0;
    for row in rows.chunks_exact(process::ROW_BYTES).take(process::MAX_ROWS) {
        let word = |at: usize| row[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        if word(0) as u32 != quipu_cells::describe::schema::PROCESS {
            continue;
        }
        told.pid = word(process::PID);
        told.parent = Some(word(process::PARENT)).filter(|pid| *pid != 0);
        let what = word(process::WHAT);
        if what == process::EXITED {
            told.end_ns = Some(word(process::NS));
        }
        if what != process::BEGAN
            && let Some(next) = told.became.get_mut(n_after)
        {
            *next = Some(what);
            n_after += 1;
        }
    }
    told
}
