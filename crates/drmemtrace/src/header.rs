//! What the first entries of a file say about the rest.

use crate::decode::{Instr, Interp, Limits, Sink};
use crate::record::{Entry, FileType, Marker, Type};
use quipu_model::Severity;

/// The header of one file, and the state of reading right behind it.
#[derive(Debug, Default)]
pub struct Header {
    /// True if the first entry is a header.
    pub is_header: bool,
    /// Version of the format.
    pub version: u64,
    /// True if the file type is given; files of version 1 have none.
    pub is_typed: bool,
    /// File-type bits; 0 if they are not given.
    pub filetype: FileType,
    /// First thread.
    pub tid: u64,
    /// Its process.
    pub pid: u64,
    /// Bytes in a cache line.
    pub line_bytes: Option<u64>,
    /// Bytes in a page.
    pub page_bytes: Option<u64>,
    /// Bytes in a vector register.
    pub vector_bytes: Option<u64>,
    /// Instructions in a chunk.
    pub chunk_instrs: u64,
    /// First clock reading.
    pub first_timestamp: Option<u64>,
    /// True if tracing windows are numbered.
    pub has_windows: bool,
    /// True if several threads appear among the first entries.
    pub is_mixed: bool,
}

/// Reads a header from the first entries of a file; as many as are at hand, some hundred are enough.
pub fn read(entries: &[Entry]) -> Header {
    let mut header = Header {
        is_header: entries.first().is_some_and(|entry| entry.kind() == Type::HEADER && entry.size.get() == 0),
        ..Header::default()
    };
    let mut interp = Interp::new();
    interp.run(entries, &Limits { instrs: 0, ..Limits::NONE }, &mut header);
    header.version = interp.version;
    header.filetype = interp.filetype;
    header.chunk_instrs = interp.chunk_instrs;
    let mut threads =
        entries.iter().filter(|entry| entry.kind() == Type::THREAD).map(|entry| entry.addr.get());
    let first = threads.next();
    header.tid = first.unwrap_or(0);
    header.pid = entries.iter().find(|entry| entry.kind() == Type::PID).map_or(0, |entry| entry.addr.get());
    header.is_mixed = threads.any(|tid| Some(tid) != first);
    header
}

impl Sink for Header {
    fn marker(&mut self, _: &Interp, kind: Marker, value: u64) {
        match kind {
            Marker::CACHE_LINE_SIZE => self.line_bytes = Some(value),
            Marker::PAGE_SIZE => self.page_bytes = Some(value),
            Marker::VECTOR_LENGTH => self.vector_bytes = Some(value),
            Marker::FILETYPE => self.is_typed = true,
            Marker::WINDOW_ID => self.has_windows = true,
            Marker::TIMESTAMP if self.first_timestamp.is_none() => self.first_timestamp = Some(value),
            _ => {}
        }
    }

    fn instr(&mut self, _: &Interp, _: Instr<'_>) {}

    fn data(&mut self, _: &Interp, _: Type, _: u64, _: u64) {}

    fn exit(&mut self, _: &Interp) {}

    fn finding(&mut self, _: &Interp, _: usize, _: &'static str, _: Severity, _: String) {}
}
