//! A recording: the stream that an instrumented program wrote. SPEC: stream.md#cells.

use quipu_cells::describe;
use quipu_cells::layout::process;
use quipu_model::{Error, Finding, OpenOptions, Result, Severity, Trace};
use quipu_source::Source;
use quipu_streamed::recording::{self, Recording, Thread};
use quipu_streamed::trace;
use std::path::Path;
use std::time::Duration;

pub use quipu_streamed::recording::CellReader;

/// An opened recording, with all its frames located.
#[derive(Debug)]
pub struct Capture {
    recording: Recording,
    pub(super) name: String,
    findings: Vec<Finding>,
    n_bytes: u64,
}

/// Whether this is a recording as its program wrote it, even if it was damaged later.
pub fn is_capture(path: &Path) -> bool {
    recording::is_recording_at(path) && Capture::open(path).is_ok()
}

impl Capture {
    /// Opens a recording and locates its frames.
    ///
    /// # Errors
    /// `Unsupported` if it is not a recording; those of [`quipu_streamed`] for streams.
    pub fn open(path: &Path) -> Result<Capture> {
        let source = Source::open(path)?;
        let trace = trace::open(&source, &OpenOptions::default())?;
        let Some(recording) = Recording::of(&trace)? else {
            return Err(Error::unsupported("this is no recording as a program writes it of itself")
                .in_file(source.name())
                .hint("a program that was compiled with `quipu cc` leaves one when it runs"));
        };
        // `ending` reports why a stream has no END frame.
        let is_odd = |finding: &&Finding| {
            finding.severity >= Severity::Warning && finding.rule != "stream/no-end-frame"
        };
        let findings = trace.meta().findings.iter().filter(is_odd).cloned().collect();
        let n_bytes = trace.meta().packed_bytes.unwrap_or(0);
        Ok(Capture { recording, name: source.name().to_owned(), findings, n_bytes })
    }

    /// Version of the format of its cells.
    pub fn version(&self) -> u64 {
        describe::VERSION
    }

    /// Process id of the program.
    pub fn pid(&self) -> u64 {
        self.recording.process().pid
    }

    /// Process id of the parent that forked it, if that was recorded, too.
    pub fn parent(&self) -> Option<u64> {
        self.recording.process().parent
    }

    /// Start time, in seconds since 1970.
    pub fn started(&self) -> u64 {
        self.recording.process().start_ns / 1_000_000_000
    }

    /// File name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size of the file in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// How the recording ended.
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

    /// The threads, in order of their start.
    pub fn threads(&self) -> &[Thread] {
        self.recording.threads()
    }

    /// Number of frames that are missing according to the frame numbers of threads.
    pub fn n_missing(&self) -> u64 {
        // Damaged numbers may sum to more than 64 bits.
        self.threads().iter().map(|thread| thread.missing).fold(0, u64::saturating_add)
    }

    /// Starts to read the events of a thread.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn cells(&self, thread: &Thread) -> Result<CellReader> {
        self.recording.cells(thread)
    }

    /// Duration of the recording, if the program exited normally.
    pub fn duration(&self) -> Option<Duration> {
        self.recording.process().end_ns.map(Duration::from_nanos)
    }

    /// All findings about damage, as every verb reports them; `read` contains those from reading events.
    pub fn findings(&self, read: &[Finding]) -> Vec<Finding> {
        self.findings.iter().chain(read).cloned().collect()
    }
}

/// Total number of bytes that findings report as lost.
pub fn lost_bytes(findings: &[Finding]) -> u64 {
    let bytes = findings.iter().filter_map(|finding| finding.loss.as_ref()).map(|loss| loss.bytes.least());
    bytes.fold(0, u64::saturating_add)
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program exited normally.
    Exited,
    /// The program was killed, crashed, became another program, or is still running.
    Stopped,
    /// The file reached its size limit; the program continued.
    SizeReached,
    /// The disk was full; the program continued.
    DiskFull,
}
