//! The header: the properties of a file that its first entries state.

use crate::decode::{Instr, Interp, Limits, Sink};
use crate::record::{Entry, FileType, Marker, NEWEST_VERSION, Type};
use quipu_model::{Finding, Place, Severity};

/// The header of one file.
#[derive(Debug, Default)]
pub struct Header {
    /// True if the first entry is a header of a version that a trace may have.
    pub is_header: bool,
    /// Version that the first entry states, if it is a header of any version.
    pub stated: Option<u64>,
    /// Version of the format: that of the version marker, else the stated one.
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

/// The largest version that is taken for a real one: with one version a year, it will not be reached for a long time.
const MAX_VERSION: u64 = 255;

/// True if a trace may have this version, now or later; other numbers are damage.
pub(crate) fn is_possible_version(version: u64) -> bool {
    (1..=MAX_VERSION).contains(&version)
}

/// Reads a header from the first entries of a file, as many as are available; some hundred are enough.
pub fn read(entries: &[Entry]) -> Header {
    let is_header = |entry: &&Entry| entry.kind() == Type::HEADER && entry.size.get() == 0;
    let stated = entries.first().filter(is_header).map(|entry| entry.addr.get());
    let mut header =
        Header { is_header: stated.is_some_and(is_possible_version), stated, ..Header::default() };
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

impl Header {
    /// Violations in the header, as findings of the file `name`. Every verb reports them, as they come from opening the
    /// file.
    pub(crate) fn findings(&self, name: &str) -> Vec<Finding> {
        let place = || Place { file: Some(name.to_owned()), offset: Some(0), ..Place::default() };
        let known = match is_possible_version(self.version) {
            true => format!("its version marker says version `{}`", self.version),
            false => "its version is unknown".to_owned(),
        };
        let mut findings = Vec::new();
        match self.stated {
            None => {
                let what = format!("the first entry is no header: {known}");
                findings.push(Finding::new("drmemtrace/no-header", Severity::Error, place(), what));
            }
            Some(stated) if !is_possible_version(stated) => {
                let what =
                    format!("the first entry is no header, as no trace has version `{stated}`: {known}");
                findings.push(Finding::new("drmemtrace/no-header", Severity::Error, place(), what));
            }
            Some(stated) if stated != self.version => {
                let what = format!("the marker says version `{}`, the header `{stated}`", self.version);
                findings.push(Finding::new("drmemtrace/version-mismatch", Severity::Error, place(), what));
            }
            Some(_) => {}
        }
        if is_possible_version(self.version) && self.version > NEWEST_VERSION {
            let what = newer_version(self.version);
            findings.push(Finding::new("drmemtrace/newer-version", Severity::Warning, place(), what));
        }
        findings
    }
}

/// The message for a version that this program does not know yet.
pub(crate) fn newer_version(version: u64) -> String {
    format!("version `{version}` is newer than the newest known, `{NEWEST_VERSION}`; reading on by its rules")
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
