//! Writes traces: re-encodes calls, or copies a stream unchanged, into a file that appears when it is complete.
//!
//! [`TraceWriter`] writes calls, [`repack`] copies a stream byte for byte into another container; both write to a
//! [`NewFile`]. SPEC: apitrace.md#writing.

use crate::check::rules;
use crate::decode::skim::Skimmer;
use crate::decode::{Decoded, Header};
use crate::encode::{self, Encoder, Incomplete};
use crate::feed::{Feed, Machine};
use crate::pack::{StreamWriter, levels};
use crate::trace::{ApiTrace, Packing};
use quipu_model::damaged::{Damaged, Intake, Reading, SoFar};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, check_level};
use quipu_model::values::{Call, Types, Values};
use quipu_model::{Error, Finding, Place, Result, Severity};
use quipu_source::{OutputFile, StreamOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Calls are passed on when their bytes are this many.
const BUFFER_BYTES: usize = 64 << 10;

/// Options of writing.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// The container.
    pub packing: Packing,
    /// Compression level; the default of the packing if `None`.
    pub level: Option<u32>,
    /// Whether an existing file may be replaced.
    pub replace: bool,
    /// Treatment of calls that never returned.
    pub incomplete: Incomplete,
    /// Whether the output of a damaged trace is kept.
    pub damaged: Damaged,
    /// Whether to stop with an error at the first damage.
    pub strict: bool,
}

impl WriteOptions {
    /// The defaults: Zstandard with a table of frames; no file is replaced, and incomplete calls stay incomplete.
    pub const USUAL: WriteOptions = WriteOptions {
        packing: Packing::SeekableZstd,
        level: None,
        replace: false,
        incomplete: Incomplete::Kept,
        damaged: Damaged::Refuse,
        strict: false,
    };

    /// The intake for findings of a read that is written to a file.
    pub(crate) fn intake(&self) -> Intake {
        Intake::new(self.damaged).strict(self.strict)
    }
}

/// The container named by the option, or else by the extension of the output; by default, Zstandard with a table of frames.
///
/// # Errors
/// `Usage` if there is no such container or level.
pub fn packing_for(container: Option<&str>, level: Option<u32>, output: &Path) -> Result<Packing> {
    let packing = match container {
        Some("zstd" | "zst" | "zstd-seekable") => Packing::SeekableZstd,
        Some("zstd-noseek") => Packing::Zstd,
        Some("snappy" | "sz") => Packing::Snappy,
        Some("gzip" | "gz" | "zlib") => Packing::Gzip,
        Some("brotli" | "br") => Packing::Brotli,
        Some("plain") => Packing::Plain,
        Some(other) => {
            let what = match quipu_source::Packing::named(other) {
                Some(_) => format!("apitrace cannot read {other}"),
                None => format!("no container is called `{other}`"),
            };
            return Err(Error::usage(what).hint(
                "containers of such traces: zstd, zstd-noseek, snappy, gzip, brotli, plain; Brotli for names that end in `.br`",
            ));
        }
        None => match output.extension().and_then(|extension| extension.to_str()) {
            Some("br") => Packing::Brotli,
            Some("gz") => Packing::Gzip,
            Some(other @ ("zip" | "lz4")) => return packing_for(Some(other), level, output),
            _ => Packing::SeekableZstd,
        },
    };
    let name = container.unwrap_or(packing.name());
    check_level(level, levels(packing).map(|(levels, _)| levels), name)?;
    Ok(packing)
}

/// Summary of a written trace.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Number of calls; 0 if a stream was copied.
    pub calls: u64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub packed_bytes: u64,
    /// Outcome of reading the source.
    pub reading: Reading,
}

impl Written {
    /// The facts to report about it.
    pub fn facts(&self, packing: Packing) -> Vec<Fact> {
        vec![
            Fact::new("container", "container", packing.name()),
            Fact::new("stream_bytes", "bytes of the stream", self.stream_bytes),
            Fact::new("packed_bytes", "bytes of the file", self.packed_bytes),
        ]
    }
}

/// A file that appears under its name when it is complete.
pub struct NewFile {
    path: PathBuf,
    fresh: Fresh,
    out: StreamWriter<BufWriter<OutputFile>>,
    stream_bytes: u64,
}

impl NewFile {
    /// Begins a file under a temporary name beside its final one.
    ///
    /// # Errors
    /// `Usage` if the file exists and may not be replaced, or is a folder; `Io` if it cannot be created.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<NewFile> {
        let (fresh, file) = Fresh::file(path, options.replace.into())?;
        let out = StreamWriter::new(BufWriter::new(file), options.packing, options.level)
            .map_err(|cause| cannot("write", path, cause))?;
        Ok(NewFile { path: path.to_owned(), fresh, out, stream_bytes: 0 })
    }

    /// Appends bytes of the stream.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream_bytes += bytes.len() as u64;
        self.out.write(bytes).map_err(|cause| cannot("write", &self.path, cause))
    }

    /// Writes the remaining bytes and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then the file does not exist.
    pub fn finish(self) -> Result<Written> {
        let NewFile { path, fresh, out, stream_bytes } = self;
        let finish = || -> io::Result<u64> {
            let mut out = out.finish()?;
            out.flush()?;
            Ok(out.get_ref().metadata()?.len())
        };
        let packed_bytes = finish().map_err(|cause| cannot("write", &path, cause))?;
        fresh.commit()?;
        Ok(Written { stream_bytes, packed_bytes, ..Written::default() })
    }
}

/// Writes calls as a stream of the newest version.
pub struct TraceWriter {
    file: NewFile,
    encoder: Encoder,
    buffer: Vec<u8>,
    calls: u64,
}

impl TraceWriter {
    /// Begins a trace with the contents of `header`.
    ///
    /// # Errors
    /// Those of [`NewFile::create`].
    pub fn create(path: &Path, header: &Header, options: &WriteOptions) -> Result<TraceWriter> {
        let file = NewFile::create(path, options)?;
        let mut buffer = Vec::new();
        encode::header(header, &mut buffer);
        Ok(TraceWriter { file, encoder: Encoder::new(options.incomplete), buffer, calls: 0 })
    }

    /// Writes a call; it gets the next number. All calls of a trace must come with the same types, which may only grow.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn call(&mut self, call: &Call, values: &Values, types: &Types) -> Result<()> {
        self.encoder.call(call, values, types, &mut self.buffer);
        self.calls += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.file.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Completes the trace and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then the file does not exist.
    pub fn finish(mut self) -> Result<Written> {
        self.file.write(&self.buffer)?;
        Ok(Written { calls: self.calls, ..self.file.finish()? })
    }
}

/// Writes the stream of `trace` to a file at `path`, byte for byte, up to its last complete event; the file appears when it
/// is complete.
///
/// # Errors
/// `Usage` if the file exists and may not be replaced; errors of reading and writing. Damage of the trace is an error unless
/// `options` allow it. In case of an error, no file appears.
pub fn repack(
    trace: &ApiTrace,
    path: &Path,
    options: &WriteOptions,
    progress: &dyn Progress,
) -> Result<Written> {
    let mut file = NewFile::create(path, options)?;
    let mut copy = EventCopy::new(trace)?;
    let read = trace.check_version().and_then(|()| {
        copy.events(&mut |bytes| {
            progress.go_on()?;
            file.write(bytes)
        })
    });
    let (mut intake, mut findings) = (options.intake(), trace.met_at_opening());
    findings.extend(copy.take_findings());
    let n_good = n_good(&findings, copy.n_left);
    intake.take_all(&mut findings, so_far(trace, n_good), read, so_far(trace, copy.n_left))?;
    let reading = intake.finish();
    if copy.n_calls == 0
        && let Some(error) = reading.nothing_left()
    {
        return Err(error);
    }
    Ok(Written { calls: copy.n_calls, reading, ..file.finish()? })
}

/// Progress of writing a trace. The calls written so far are final unless the container has checksums that come after their
/// data.
pub(crate) fn so_far(trace: &ApiTrace, n_written: u64) -> SoFar {
    match trace.container().codec().vouches_late() {
        true => SoFar::unvouched(n_written),
        false => SoFar::vouched(n_written),
    }
}

/// Number of calls left before the first damage among these findings; `n_left` if there is none.
pub(crate) fn n_good(findings: &[Finding], n_left: u64) -> u64 {
    // Findings made at the end of a read may have an earlier place than others before them.
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    // A lost header precedes all calls.
    let n_before = |finding: &Finding| {
        if finding.rule == rules::LOST_HEADER.name { Some(0) } else { finding.place.record }
    };
    errors.filter_map(n_before).min().unwrap_or(n_left)
}

/// A copy of a stream: events are read one by one, as in any read, and passed on as bytes.
#[derive(Debug)]
pub(crate) struct EventCopy {
    feed: Feed,
    n_calls: u64,
    /// Number of calls left.
    n_left: u64,
}

impl EventCopy {
    /// Begins to read a trace.
    pub(crate) fn new(trace: &ApiTrace) -> Result<EventCopy> {
        Ok(EventCopy { feed: Feed::new(trace.sound(), &StreamOptions::default())?, n_calls: 0, n_left: 0 })
    }

    /// Passes the header and all complete events to `take`, several at once.
    ///
    /// # Errors
    /// Errors of reading, after all events before the fault were passed on; errors of `take`.
    pub(crate) fn events(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let counted = |n_left| Place { record: Some(n_left), ..Place::default() };
        if !self.feed.begin().map_err(|error| error.at(&counted(0)))? {
            return Ok(());
        }
        let mut tap = Tap {
            skimmer: Skimmer::new(self.feed.header()),
            n_used: self.feed.used_since(0).len(),
            n_left: 0,
            take,
            failure: None,
        };
        let done = loop {
            match self.feed.next(&mut tap) {
                Ok(Some(())) => {}
                Ok(None) => break Ok(()),
                Err(error) => break Err(error.at(&counted(tap.n_left))),
            }
        };
        self.n_calls = tap.skimmer.n_entered();
        self.n_left = tap.n_left;
        tap.hand_over(self.feed.at_hand());
        tap.failure.map_or(done, Err)
    }

    /// Passes the bytes after these events to `take`, to the end of the data.
    ///
    /// # Errors
    /// Errors of `take`.
    pub(crate) fn rest(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut nobody = Skimmer::new(&Header::default());
        loop {
            self.feed.fetch(1, &mut nobody)?;
            let n_bytes = self.feed.unused().len();
            if n_bytes == 0 {
                return Ok(());
            }
            take(self.feed.unused())?;
            self.feed.give_up(n_bytes);
        }
    }

    /// True if the container failed, rather than an event.
    pub(crate) fn is_failed(&mut self) -> bool {
        self.feed.is_failed() || self.feed.take_failure().is_some()
    }

    /// Number of calls left so far.
    pub(crate) fn n_left(&self) -> u64 {
        self.n_left
    }

    /// Takes the findings so far.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        self.feed.take_findings()
    }
}

/// Passes on the bytes of events before they are discarded.
struct Tap<'t> {
    skimmer: Skimmer,
    /// Number of buffered bytes that are consumed but not yet passed on.
    n_used: usize,
    /// Number of calls left.
    n_left: u64,
    take: &'t mut dyn FnMut(&[u8]) -> Result<()>,
    failure: Option<Error>,
}

impl Tap<'_> {
    fn hand_over(&mut self, input: &[u8]) {
        let used = input.get(..std::mem::take(&mut self.n_used)).unwrap_or(&[]);
        if !used.is_empty() && self.failure.is_none() {
            self.failure = (self.take)(used).err();
        }
    }
}

impl Machine for Tap<'_> {
    type Out = ();

    fn event(&mut self, input: &[u8], at: usize) -> Decoded<((), usize)> {
        let (call, next) = Skimmer::event(&mut self.skimmer, input, at)?;
        self.n_left += u64::from(call.is_some());
        self.n_used = next;
        Ok(((), next))
    }

    #[inline(always)]
    fn common(&mut self, input: &[u8], at: usize) -> Option<((), usize)> {
        let (_, next) = Skimmer::common(&mut self.skimmer, input, at)?;
        self.n_left += 1;
        self.n_used = next;
        Some(((), next))
    }

    fn leave_block(&mut self, input: &[u8]) -> Result<(), u64> {
        self.hand_over(input);
        Skimmer::leave_block(&mut self.skimmer, input)
    }

    fn n_entered(&self) -> u64 {
        Skimmer::n_entered(&self.skimmer)
    }

    fn n_left(&self) -> Option<u64> {
        Some(self.n_left)
    }

    fn unmatched(&mut self, (): &()) -> Option<u64> {
        self.skimmer.take_unmatched()
    }

    fn is_misnumbered(&mut self, input: &[u8]) -> bool {
        Skimmer::is_misnumbered(&mut self.skimmer, input)
    }
}
