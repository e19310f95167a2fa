//! Files of events: self-describing streams, or plain bytes.
//!
//! A frame of a stream ends between buffers of the fixed encoding, or between events of the variable one. The stream's UUID
//! depends on the events alone, so the same events always give the same file.

use crate::batch::Batch;
use crate::codec::{Encoding, EventBytes};
use crate::detail::Detail;
use crate::drive::refused;
use crate::event::{Context, Event, Place};
use crate::fixed::{self, EVENT_BYTES, Put};
use crate::here::Here;
use crate::turns::{self, Turn};
use crate::variable::Dialect;
use crate::{INFO, dump, trace, variable};
use quipu_model::fresh::{Fresh, Replace, cannot};
use quipu_model::trace::Fact;
use quipu_model::transform::{TransformJob, check_level, packing_for, refuse_container};
use quipu_model::{Error, ErrorKind, Result};
use quipu_records::write::{RecordFile, usual_pool};
use quipu_source::OutputFile;
use quipu_stream::codec::Codec as Packing;
use quipu_stream::frame::{Extension, encoding};
use quipu_stream::write::{Options, StreamWriter, Writer};
use quipu_wire::cbor::Value;
use quipu_wire::record::{Producer, Setting, Stream};
use rustc_hash::FxHasher;
use std::hash::Hasher;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Bytes of events per frame; one damaged byte loses this many.
const FRAME_BYTES: usize = 64 << 10;
/// Compression level of payloads in streams.
const LEVEL: u32 = 3;
/// Prefix of the settings needed to read the bytes of a stream, where the bytes do not show it.
const READING_SETTING: &str = "quipu.reading.";

/// The destination of a file, and its compression.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) path: &'a Path,
    pub(crate) replace: bool,
    pub(crate) container: Option<&'a str>,
    pub(crate) level: Option<u32>,
    /// Whether to write events alone, without a stream around them.
    pub(crate) is_plain: bool,
    /// Name of the stream in the file.
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// The output of a transform.
    pub(crate) fn of(job: &TransformJob<'a>, is_plain: bool) -> Target<'a> {
        let TransformJob { output, replace, container, level, .. } = *job;
        Target { path: output, replace, container, level, is_plain, name: EVENTS }
    }
}

/// Name of the stream in a file of all threads.
pub(crate) const EVENTS: &str = "events";

/// A file that is being written.
pub(crate) struct EventFile {
    out: Out,
    encoding: Encoding,
    detail: Detail,
    fixed: fixed::Encoder,
    variable: variable::Encoder,
    /// Whole buffers of the fixed encoding.
    buffers: Vec<u8>,
    /// How sizes of accesses are encoded.
    dialect: Dialect,
    /// The state before the next event; `begun`: at the beginning of the current frame; `gathered`: after the last whole
    /// buffer (fixed encoding only).
    here: Here,
    begun: Here,
    gathered: Here,
    /// Number of events in the current frame.
    n_gathered: u32,
    n_events: u64,
    /// Number of events written, including the configurations at the beginning.
    n_written: u64,
    n_bytes: u64,
    /// For a file of one thread: its turns.
    turns: Option<TurnLog>,
    /// Settings to write before the next frame.
    said: Vec<(String, String)>,
}

/// Turns of a thread.
#[derive(Default)]
struct TurnLog {
    /// Ended turns in the current frame.
    closed: Vec<Turn>,
    open: Option<OpenTurn>,
    /// For the first turn in the frame: bytes and events of the file before it, including repeated configurations.
    first: Option<(u64, u64)>,
    /// Number of frames whose turns have been written as settings.
    n_said: usize,
}

/// A turn that has not ended.
struct OpenTurn {
    ordinal: u64,
    extra: u64,
    /// Bytes and events before it in the current frame.
    begin: usize,
    n_before: u32,
}

impl TurnLog {
    /// Adds the part of the turn that is in the current frame, which has `len` bytes and `n` events.
    fn close(&mut self, len: usize, n: u32) {
        let Some(OpenTurn { ordinal, extra, begin, n_before }) = &self.open else { return };
        let n_events = u64::from(n - n_before);
        if n_events > 0 {
            let len = (len - begin) as u64;
            self.closed.push(Turn { ordinal: *ordinal, n_events, extra: *extra, len });
        }
    }

    /// The setting with the turns of a frame that ends here, if it has any. A turn that has not ended continues in the next
    /// frame.
    fn end_frame(&mut self, (len, n): (usize, u32), at: (u64, u64)) -> Option<(String, String)> {
        self.close(len, n);
        let first = self.first.take();
        if let Some(open) = &mut self.open {
            let n_events = u64::from(n - open.n_before);
            let extra = if n_events > 0 { 0 } else { open.extra };
            *open = OpenTurn { ordinal: open.ordinal + n_events, extra, begin: 0, n_before: 0 };
            self.first = Some(at);
        }
        let (first, turns) = (first?, std::mem::take(&mut self.closed));
        let number = self.n_said;
        self.n_said += usize::from(!turns.is_empty());
        (!turns.is_empty()).then(|| turns::of_frame(number, first, &turns))
    }
}

enum Out {
    Plain(Box<RecordFile>),
    /// A stream, which is created with its first frame.
    Stream {
        path: PathBuf,
        name: String,
        replace: Replace,
        level: i32,
        begun: Option<Box<Begun>>,
    },
}

struct Begun {
    fresh: Fresh,
    writer: Writer<BufWriter<OutputFile>>,
    stream: StreamWriter<BufWriter<OutputFile>>,
}

impl EventFile {
    /// Creates a file of events that have these fields at the beginning. `is_said` means that the events configure the
    /// fields themselves.
    ///
    /// # Errors
    /// `Usage` if the container or level does not exist, or a file of this name must not be replaced.
    pub(crate) fn create(
        target: Target<'_>,
        encoding: Encoding,
        detail: Detail,
        is_said: bool,
    ) -> Result<EventFile> {
        let replace = Replace::from(target.replace);
        let out = if !target.is_plain {
            refuse_container(target.container)
                .map_err(|error| error.hint("`--plain` writes events alone, in any container"))?;
            quipu_model::fresh::check_file(target.path, replace)?;
            let level = check_level(target.level, Some(1..=19), "zstd in streams")?.unwrap_or(LEVEL);
            let (path, name) = (target.path.to_owned(), target.name.to_owned());
            Out::Stream { path, name, replace, level: level as i32, begun: None } // At most 19.
        } else {
            let packing = packing_for(target.container, target.level, target.path)?;
            let file = RecordFile::create(target.path, "events.prism", &packing, replace, &usual_pool()?)?;
            Out::Plain(Box::new(file))
        };
        let variable =
            if is_said { variable::Encoder::agreed(detail) } else { variable::Encoder::stored(detail) };
        Ok(EventFile {
            out,
            encoding,
            detail,
            fixed: fixed::Encoder::new(detail),
            dialect: Dialect::Strict,
            here: Here::default(),
            begun: Here::default(),
            gathered: Here::default(),
            // The variable encoding begins with three configurations, which set the fields.
            n_gathered: match encoding {
                Encoding::Variable if !is_said => detail.events().len() as u32,
                _ => 0,
            },
            variable,
            buffers: Vec::new(),
            n_events: 0,
            n_written: 0,
            n_bytes: 0,
            turns: None,
            said: Vec::new(),
        })
    }

    /// Says in the stream that the configuration at its beginning is none of the events, so that readers pass over it and
    /// `--plain` leaves it out again. Only allowed before the first event of the variable encoding.
    pub(crate) fn say_head_is_added(&mut self) {
        self.n_gathered = 0;
        self.say(trace::HEAD, trace::ADDED.to_owned());
    }

    /// Changes the fields of all events of the fixed encoding. Only allowed before the first event.
    pub(crate) fn set_detail(&mut self, detail: Detail) {
        self.detail = detail;
        self.fixed = fixed::Encoder::new(detail);
    }

    /// Number of events so far.
    pub(crate) fn n_events(&self) -> u64 {
        self.n_events
    }

    /// Adds the event at an index of a batch.
    ///
    /// # Errors
    /// `Unsupported` if the encoding cannot represent it; `Io` if it cannot be written.
    pub(crate) fn put(&mut self, batch: &Batch, index: usize) -> Result<()> {
        let event = &batch.events[index];
        match self.encoding {
            Encoding::Fixed => {
                if self.fixed.put(event, batch).map_err(|what| refused(what, batch, index))? == Put::Full {
                    self.flush_buffer()?;
                    // An empty buffer has room for any event that the encoding can represent.
                    self.fixed.put(event, batch).map_err(|what| refused(what, batch, index))?;
                }
                self.here.pass(event);
            }
            Encoding::Variable => {
                self.variable.put(event, batch).map_err(|what| refused(what, batch, index))?;
                self.n_gathered += 1;
                self.here.pass(event);
                if self.variable.out.len() + variable::MAX_EVENT_BYTES + 1 > FRAME_BYTES {
                    self.frame()?;
                }
            }
        }
        self.n_events += 1;
        Ok(())
    }

    /// Sets how sizes of accesses are encoded in the events to be [copied](EventFile::copy).
    pub(crate) fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// Bytes of events so far; for the fixed encoding, up to the last whole buffer.
    pub(crate) fn position(&self) -> u64 {
        self.n_bytes + self.gathered_len() as u64
    }

    /// Adds the event at an index of a batch with its original bytes, which have to be in the encoding of the file.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn copy(&mut self, batch: &Batch, index: usize, bytes: &[u8]) -> Result<()> {
        let event = &batch.events[index];
        match (self.encoding, bytes.try_into()) {
            (Encoding::Fixed, Ok(slot)) => {
                let name = match event {
                    Event::Context(Context { place: Place::Name(name), .. }) => Some(batch.name(*name)),
                    _ => None,
                };
                let put = |fixed: &mut fixed::Encoder| {
                    fixed.put_slot(slot, name).map_err(|what| refused(what, batch, index))
                };
                if put(&mut self.fixed)? == Put::Full {
                    self.flush_buffer()?;
                    // An empty buffer has room for any event that fits into a buffer.
                    put(&mut self.fixed)?;
                }
                self.here.pass(event);
            }
            _ => {
                self.variable.put_bytes(event, bytes);
                self.n_gathered += 1;
                self.here.pass(event);
                if self.variable.out.len() + variable::MAX_EVENT_BYTES + 1 > FRAME_BYTES {
                    self.frame()?;
                }
            }
        }
        self.n_events += 1;
        Ok(())
    }

    /// Adds a setting about reading the bytes of the stream. It is written before the next frame.
    pub(crate) fn say(&mut self, name: &str, value: String) {
        self.said.push((format!("{READING_SETTING}{name}"), value));
    }

    /// Makes this the file of one thread. The turns in each frame are written before the frame.
    pub(crate) fn take_turns(&mut self) {
        self.turns = Some(TurnLog::default());
    }

    /// Begins a turn; `ordinal` is the position of its first event among the events of all threads. `configs` are
    /// configurations by other threads, which only this file needs; they are written before the turn.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn begin_turn(&mut self, ordinal: u64, configs: &[Event]) -> Result<()> {
        // They have to be in the same frame as the first event.
        let room = (configs.len() + 1) * variable::MAX_EVENT_BYTES;
        if !configs.is_empty() && self.variable.out.len() + room > FRAME_BYTES {
            self.frame()?;
        }
        let before = self.gathered_len();
        let at = (self.n_bytes + before as u64, self.n_written + u64::from(self.n_gathered));
        let batch = Batch { events: configs.to_vec(), ..Batch::default() };
        (0..configs.len()).try_for_each(|index| self.put(&batch, index))?;
        let (begin, n_before) = (self.gathered_len(), self.n_gathered);
        if let Some(log) = &mut self.turns {
            log.first.get_or_insert(at);
            log.open = Some(OpenTurn { ordinal, extra: (begin - before) as u64, begin, n_before });
        }
        Ok(())
    }

    /// Ends the turn.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn end_turn(&mut self) -> Result<()> {
        if self.encoding == Encoding::Fixed {
            self.flush_buffer()?;
        }
        let (end, n) = (self.gathered_len(), self.n_gathered);
        if let Some(log) = &mut self.turns {
            log.close(end, n);
            log.open = None;
        }
        Ok(())
    }

    /// Bytes in the current frame.
    fn gathered_len(&self) -> usize {
        match self.encoding {
            Encoding::Fixed => self.buffers.len(),
            Encoding::Variable => self.variable.out.len(),
        }
    }

    /// Adds a whole buffer of the fixed encoding unchanged.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn put_buffer(&mut self, buffer: &dump::Buffer<'_>) -> Result<()> {
        if !self.buffers.is_empty() && self.buffers.len() + buffer.len() > FRAME_BYTES {
            self.frame()?;
        }
        buffer.write(&mut self.buffers);
        self.here.pass_slots(buffer.events);
        self.gathered = self.here;
        let n = buffer.events.len() / EVENT_BYTES;
        self.n_gathered += n as u32; // At most the slots of a buffer.
        self.n_events += n as u64;
        Ok(())
    }

    /// Ends the current buffer of the fixed encoding.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn flush_buffer(&mut self) -> Result<()> {
        if self.fixed.events.is_empty() {
            return Ok(());
        }
        let mut buffer = Vec::new();
        self.n_gathered += (self.fixed.events.len() / EVENT_BYTES) as u32; // At most the slots of a buffer.
        dump::flush(&mut self.fixed, &mut buffer);
        self.gathered = self.here;
        self.buffers.append(&mut buffer);
        if self.buffers.len() + dump::MAX_BYTES > FRAME_BYTES { self.frame() } else { Ok(()) }
    }

    /// Writes the current frame.
    fn frame(&mut self) -> Result<()> {
        let (next, detail) = match self.encoding {
            Encoding::Fixed => (self.gathered, self.detail),
            Encoding::Variable => (self.here, self.variable.detail()),
        };
        let next = Here { detail, ..next };
        let begun = std::mem::replace(&mut self.begun, next);
        let extension =
            Extension { bytes_before: self.n_bytes, records_before: self.n_written, state: begun.to_bytes() };
        let len = self.gathered_len();
        let n = std::mem::take(&mut self.n_gathered);
        self.n_written += u64::from(n);
        self.n_bytes += len as u64;
        if let Some((name, value)) =
            self.turns.as_mut().and_then(|log| log.end_frame((len, n), (self.n_bytes, self.n_written)))
        {
            self.say(&name, value);
        }
        let bytes = match self.encoding {
            Encoding::Fixed => &mut self.buffers,
            Encoding::Variable => &mut self.variable.out,
        };
        match &mut self.out {
            Out::Plain(file) => file.append(|out| {
                out.append(bytes);
                Ok(())
            })?,
            Out::Stream { path, name, replace, level, begun } => {
                let begun = match begun {
                    Some(begun) => begun,
                    None => {
                        let how =
                            Reads { encoding: self.encoding, detail: self.detail, dialect: self.dialect };
                        let started = begin(path, name, *replace, *level, how, bytes)?;
                        begun.insert(Box::new(started))
                    }
                };
                for (name, value) in self.said.drain(..) {
                    let setting = Setting { name, value: Value::Text(value) };
                    begun.writer.define(setting).map_err(|cause| cannot("write", path, cause))?;
                }
                let number = match self.encoding {
                    Encoding::Fixed => encoding::PRISM,
                    Encoding::Variable => encoding::PRISM_VARIABLE,
                };
                let written = begun.stream.foreign_extended(number, n, &extension, bytes);
                written.map_err(|cause| cannot("write", path, cause))?;
                bytes.clear();
            }
        }
        Ok(())
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// `Io` if that fails; the file does not exist then.
    pub(crate) fn finish(mut self) -> Result<Vec<Fact>> {
        match self.encoding {
            Encoding::Fixed => self.flush_buffer()?,
            Encoding::Variable => self.variable.end(),
        }
        // A frame without events would only add a frame that can be damaged, so it is written only if the stream has no
        // frame yet.
        let is_begun = matches!(&self.out, Out::Stream { begun: Some(_), .. });
        if self.position() > self.n_bytes || !is_begun {
            self.frame()?;
        }
        debug_assert!(self.said.is_empty() || matches!(self.out, Out::Plain(_)), "settings precede a frame");
        let (n_bytes, packed_bytes) = match self.out {
            Out::Plain(file) => {
                let written = file.finish()?;
                (written.bytes, written.packed_bytes)
            }
            Out::Stream { path, begun, .. } => {
                let open = || Error::new(ErrorKind::Internal, "a stream has no frame, or is being written");
                let Begun { fresh, writer, stream } = *begun.ok_or_else(open)?;
                let failed = |cause| cannot("write", &path, cause);
                stream.finish().map_err(failed)?;
                writer.finish().map_err(failed)?;
                let packed_bytes = writer.n_bytes();
                let mut out = writer.into_inner().ok_or_else(open)?;
                out.flush().map_err(failed)?;
                drop(out);
                fresh.commit()?;
                (self.n_bytes, packed_bytes)
            }
        };
        Ok(vec![
            Fact::new("encoding", "encoding", self.encoding.name()),
            Fact::new("records", "events", self.n_written),
            Fact::new("bytes", "bytes of the events", n_bytes),
            Fact::new("packed_bytes", "bytes of the file", packed_bytes),
        ])
    }
}

/// How the events of a stream are encoded.
struct Reads {
    encoding: Encoding,
    detail: Detail,
    dialect: Dialect,
}

/// Creates a stream.
fn begin(path: &Path, name: &str, replace: Replace, level: i32, how: Reads, first: &[u8]) -> Result<Begun> {
    let (fresh, file) = Fresh::file(path, replace)?;
    let failed = |cause| cannot("write", path, cause);
    let half = |seed: u64| {
        let mut hasher = FxHasher::default();
        hasher.write_u64(seed);
        hasher.write(first);
        hasher.finish().to_le_bytes()
    };
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&half(1));
    uuid[8..].copy_from_slice(&half(2));
    // A UUID of version 8, whose contents are free.
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    let program = Some("quipu".to_owned());
    let producer = Producer { program, uuid, byte_order: Some(0), ..Producer::default() };
    let options = Options { producer, codec: Packing::Zstd(level), ..Options::new("quipu") };
    let writer = Writer::new(BufWriter::new(file), options);
    let described = Stream {
        number: 1,
        name: Some(name.to_owned()),
        format: Some(INFO.name.to_owned()),
        ..Stream::default()
    };
    writer.define(described).map_err(failed)?;
    let says = |name: &str, value: String| {
        let setting = Setting { name: format!("{READING_SETTING}{name}"), value: Value::Text(value) };
        writer.define(setting).map(drop).map_err(failed)
    };
    match how.encoding {
        Encoding::Fixed => says(crate::DETAIL.name, how.detail.to_string())?,
        Encoding::Variable if how.dialect == Dialect::Sigrind => {
            says(crate::DIALECT.name, crate::SIGRIND.to_owned())?;
        }
        Encoding::Variable => {}
    }
    let stream = writer.stream(1).map_err(failed)?;
    Ok(Begun { fresh, writer, stream })
}

/// Copies the events of a batch that `takes` selects; their bytes have to be in the encoding of the file.
///
/// # Errors
/// Returns the same errors as [`EventFile::copy`].
pub(crate) fn copy_batch(
    file: &mut EventFile,
    batch: &Batch,
    bytes: &EventBytes,
    mut takes: impl FnMut(&Event) -> bool,
) -> Result<()> {
    for (index, event) in batch.events.iter().enumerate() {
        if takes(event) {
            file.copy(batch, index, bytes.get(index))?;
        }
    }
    Ok(())
}

/// Adds the events of a batch that `takes` selects. For the fixed encoding, configuration events before all others set the
/// fields.
///
/// # Errors
/// Returns the same errors as [`EventFile::put`].
pub(crate) fn put_batch(
    file: &mut EventFile,
    batch: &Batch,
    detail: &mut Detail,
    mut takes: impl FnMut(&Event) -> bool,
) -> Result<()> {
    for (index, event) in batch.events.iter().enumerate() {
        match event {
            Event::Config(config) if file.encoding == Encoding::Fixed && file.n_events == 0 => {
                detail.configure(*config);
                file.set_detail(*detail);
            }
            _ if takes(event) => file.put(batch, index)?,
            _ => {}
        }
    }
    Ok(())
}
