//! Writing traces: a file that appears when it is complete, with calls written anew, or a stream copied as it is.
//!
//! [`TraceWriter`] writes calls, [`repack`] copies a stream byte for byte into another container; [`NewFile`] is where both
//! write to. SPEC: apitrace.md#writing.

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

/// Calls are handed on when their bytes are this many.
const BUFFER_BYTES: usize = 64 << 10;

/// How to write.
#[derive(Clone, Copy, Debug)]
pub struct WriteOptions {
    /// The container.
    pub packing: Packing,
    /// How hard to pack; the usual if `None`.
    pub level: Option<u32>,
    /// Whether a file of that name may be replaced.
    pub replace: bool,
    /// What becomes of calls that never returned.
    pub incomplete: Incomplete,
    /// Whether what is made of a damaged trace is kept.
    pub damaged: Damaged,
    /// Whether the first damage is an error of its own.
    pub strict: bool,
}

impl WriteOptions {
    /// The usual: Zstandard with a table of frames, nothing is replaced, and what is incomplete stays so.
    pub const USUAL: WriteOptions = WriteOptions {
        packing: Packing::SeekableZstd,
        level: None,
        replace: false,
        incomplete: Incomplete::Kept,
        damaged: Damaged::Refuse,
        strict: false,
    };

    /// What reading for an output begins with.
    pub(crate) fn intake(&self) -> Intake {
        Intake::new(self.damaged).strict(self.strict)
    }
}

/// The container that a name asks for, or else the name of the output; Zstandard with a table of frames if neither does.
///
/// # Errors
/// `Usage` if there is no such container, or no such level of it.
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

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// Calls; none are counted where a stream is copied.
    pub calls: u64,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub packed_bytes: u64,
    /// How reading the source went.
    pub reading: Reading,
}

impl Written {
    /// What to say of it.
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
    /// Begins a file beside the one that it is to be.
    ///
    /// # Errors
    /// `Usage` if there is such a file and it may not be replaced, or it is a folder; `Io` if it cannot be made.
    pub fn create(path: &Path, options: &WriteOptions) -> Result<NewFile> {
        let (fresh, file) = Fresh::file(path, options.replace.into())?;
        let out = StreamWriter::new(BufWriter::new(file), options.packing, options.level)
            .map_err(|cause| cannot("write", path, cause))?;
        Ok(NewFile { path: path.to_owned(), fresh, out, stream_bytes: 0 })
    }

    /// Adds bytes of the stream.
    ///
    /// # Errors
    /// `Io` if they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream_bytes += bytes.len() as u64;
        self.out.write(bytes).map_err(|cause| cannot("write", &self.path, cause))
    }

    /// Writes what is left and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then there is no file.
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
    /// Begins a trace that says of itself what `header` says.
    ///
    /// # Errors
    /// Those of [`NewFile::create`].
    pub fn create(path: &Path, header: &Header, options: &WriteOptions) -> Result<TraceWriter> {
        let file = NewFile::create(path, options)?;
        let mut buffer = Vec::new();
        encode::header(header, &mut buffer);
        Ok(TraceWriter { file, encoder: Encoder::new(options.incomplete), buffer, calls: 0 })
    }

    /// Writes a call; it gets the next number. All calls of a trace come with the same, growing, types.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub fn call(&mut self, call: &Call, values: &Values, types: &Types) -> Result<()> {
        self.encoder.call(call, values, types, &mut self.buffer);
        self.calls += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.file.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Ends the trace and gives the file its name.
    ///
    /// # Errors
    /// `Io` if that fails; then there is no file.
    pub fn finish(mut self) -> Result<Written> {
        self.file.write(&self.buffer)?;
        Ok(Written { calls: self.calls, ..self.file.finish()? })
    }
}

/// Writes the stream of `trace` to a file at `path`, byte for byte, up to its last whole event; it appears when it is complete.
///
/// # Errors
/// `Usage` if there is such a file and it may not be replaced; what reading and writing say, and damage of the trace unless
/// `options` keep what is made of it. Then nothing appears.
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

/// How far the output of a trace is, with the calls whose bytes are good even if the container's next checksum is wrong: all
/// where it has none, or one for each part.
pub(crate) fn so_far(trace: &ApiTrace, n_written: u64) -> SoFar {
    match trace.container().codec().vouches_late() {
        true => SoFar::unvouched(n_written),
        false => SoFar::vouched(n_written),
    }
}

/// How many calls were left before the first damage among these findings. Readers give findings after all `n_left` calls.
pub(crate) fn n_good(findings: &[Finding], n_left: u64) -> u64 {
    // What is only known to be wrong at the end may stand before what was found earlier.
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
    // A header that is lost stands before all of them.
    let n_before = |finding: &Finding| {
        if finding.rule == rules::LOST_HEADER.name { Some(0) } else { finding.place.record }
    };
    errors.filter_map(n_before).min().unwrap_or(n_left)
}

/// A stream on its way to another place: read event by event, as all reading does, and handed over as bytes.
#[derive(Debug)]
pub(crate) struct EventCopy {
    feed: Feed,
    n_calls: u64,
    /// Calls that were left.
    n_left: u64,
}

impl EventCopy {
    /// Begins to read a trace.
    pub(crate) fn new(trace: &ApiTrace) -> Result<EventCopy> {
        Ok(EventCopy { feed: Feed::new(trace.sound(), &StreamOptions::default())?, n_calls: 0, n_left: 0 })
    }

    /// Hands over the header and all events that are whole, several at once.
    ///
    /// # Errors
    /// What reading says, once all events before the fault were handed over; what `take` says.
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

    /// Hands over what stands after those, to the end of the data.
    ///
    /// # Errors
    /// What `take` says.
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

    /// True if the container, not an event, is what failed.
    pub(crate) fn is_failed(&mut self) -> bool {
        self.feed.is_failed() || self.feed.take_failure().is_some()
    }

    /// The number of calls that were left so far.
    pub(crate) fn n_left(&self) -> u64 {
        self.n_left
    }

    /// What was odd.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        self.feed.take_findings()
    }
}

/// Hands over the bytes of events when they are about to go.
struct Tap<'t> {
    skimmer: Skimmer,
    /// How many of the buffered bytes are used up and not handed over.
    n_used: usize,
    /// Calls that were left.
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
