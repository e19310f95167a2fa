//! A recording: the stream that a program wrote of itself. SPEC: stream.md#cells.

use quipu_cells::describe;
use quipu_cells::layout::process;
use quipu_model::{Error, Finding, OpenOptions, Result, Severity, Trace};
use quipu_source::Source;
use quipu_streamed::recording::{self, Recording, Thread};
use quipu_streamed::trace;
use std::path::Path;
use std::time::Duration;

pub use quipu_streamed::recording::CellReader;

/// A recording, with all its frames found.
#[derive(Debug)]
pub struct Capture {
    recording: Recording,
    pub(super) name: String,
    findings: Vec<Finding>,
    n_bytes: u64,
}

/// True if this is a recording as its program wrote it, whatever became of it since.
pub fn is_capture(path: &Path) -> bool {
    recording::is_recording_at(path) && Capture::open(path).is_ok()
}

impl Capture {
    /// Opens a file and finds what is in it.
    ///
    /// # Errors
    /// `Unsupported` for anything but a recording; what [`quipu_streamed`] says of streams.
    pub fn open(path: &Path) -> Result<Capture> {
        let source = Source::open(path)?;
        let trace = trace::open(&source, &OpenOptions::default())?;
        let Some(recording) = Recording::of(&trace)? else {
            return Err(Error::unsupported("this is no recording as a program writes it of itself")
                .in_file(source.name())
                .hint("a program that was compiled with `quipu cc` leaves one when it runs"));
        };
        // `ending` says why a stream has no END.
        let is_odd = |finding: &&Finding| {
            finding.severity >= Severity::Warning && finding.rule != "stream/no-end-frame"
        };
        let findings = trace.meta().findings.iter().filter(is_odd).cloned().collect();
        let n_bytes = trace.meta().packed_bytes.unwrap_or(0);
        Ok(Capture { recording, name: source.name().to_owned(), findings, n_bytes })
    }

    /// The version of its cells.
    pub fn version(&self) -> u64 {
        describe::VERSION
    }

    /// The process.
    pub fn pid(&self) -> u64 {
        self.recording.process().pid
    }

    /// The process that it was forked from, if that was recorded, too.
    pub fn parent(&self) -> Option<u64> {
        self.recording.process().parent
    }

    /// When it began, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.recording.process().start_ns / 1_000_000_000
    }

    /// The name of the file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the file.
    pub fn size_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// How the program ended.
    pub fn ending(&self) -> Ending {
        let became = self.recording.process().became;
        let has = |what| became.contains(&Some(what));
        match () {
            () if has(process::DISK_FULL) => Ending::DiskFull,
            () if has(process::SIZE_REACHED) => Ending::SizeReached,
            () if has(process::EXITED) => Ending::Exited,
            () => Ending::Stopped,
        }
    }

    /// The threads, in order of start.
    pub fn threads(&self) -> &[Thread] {
        self.recording.threads()
    }

    /// How many frames of threads should be there, going by their numbers, and are not.
    pub fn n_missing(&self) -> u64 {
        // Damaged numbers may add up to more than there can be.
        self.threads().iter().map(|thread| thread.missing).fold(0, u64::saturating_add)
    }

    /// Begins to read what a thread did.
    ///
    /// # Errors
    /// What the file says.
    pub fn cells(&self, thread: &Thread) -> Result<CellReader> {
        self.recording.cells(thread)
    }

    /// How long the program was recorded, if it ended of its own will.
    pub fn duration(&self) -> Option<Duration> {
        self.recording.process().end_ns.map(Duration::from_nanos)
    }

    /// What could not be read, as every verb reports it; `read` is what reading the events found.
    pub fn findings(&self, read: &[Finding]) -> Vec<Finding> {
        self.findings.iter().chain(read).cloned().collect()
    }
}

/// Bytes that findings say are lost.
pub fn lost_bytes(findings: &[Finding]) -> u64 {
    let bytes = findings.iter().filter_map(|finding| finding.loss.as_ref()).map(|loss| loss.bytes.least());
    bytes.fold(0, u64::saturating_add)
}

/// How a program ended, as far as its recording tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Of its own will.
    Exited,
    /// It was killed, crashed, or became another program; or it still runs.
    Stopped,
    /// It continued, but the file had the size that it may have.
    SizeReached,
    /// It continued, but the disk was full.
    DiskFull,
}
