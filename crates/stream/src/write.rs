//! Writes streams: one writer for the whole stream, one buffer per thread.
//!
//! A [`StreamWriter`] fills the frame of its stream without a lock. When the frame is full, it compresses it on its own
//! thread, takes the lock, gets the frame's number and writes it. Definitions take the same lock: they are rare, and precede
//! the rows that they describe.

mod attaching;
mod epochs;
mod rows;

pub use attaching::Attaching;
pub use rows::StreamWriter;

use crate::codec::{Codec, PayloadPacker};
use crate::frame::{self, Header, encoding, flag, kind, seal};
use crate::loss::Loss;
use crate::meta::Metadata;
use crate::record::Record;
use crate::scan::FrameAt;
use crate::session::index_entry;
use crate::snapshot::{end_frame, meta_frames};
use crate::spec::{SchemaSpec, Ty};
use epochs::Definitions;
use quipu_wire::cbor::{self, Value};
use quipu_wire::record::{self as records, FIRST_SCHEMA, Uuid};
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Uncompressed bytes per frame in a file, chosen so that the stored payload stays below a million bytes.
pub const FRAME_BYTES_AT_REST: usize = 960 << 10;

/// Uncompressed bytes per frame in a live stream.
pub const FRAME_BYTES_LIVE: usize = 256 << 10;

/// Maximum time that a live stream buffers records.
pub const FLUSH_AFTER_LIVE: Duration = Duration::from_millis(250);

/// Metadata payloads below this size in bytes are not compressed.
const LEAST_PACKED_BYTES: usize = 512;

/// Maximum number of frames in an index.
const INDEX_FRAMES: usize = 1024;

/// Bytes of output after which a snapshot is repeated.
const SNAPSHOT_AFTER_BYTES: u64 = 4 << 20;

/// Time after which a snapshot is repeated, if anything was written since.
const SNAPSHOT_AFTER: Duration = Duration::from_secs(5);

/// Options of a writer.
#[derive(Clone, Debug)]
pub struct Options {
    /// Description of the writing program.
    pub producer: records::Producer,
    /// Compression of payloads.
    pub codec: Codec,
    /// Uncompressed bytes per frame.
    pub frame_bytes: usize,
    /// Number of the first epoch; it has to be above those of earlier runs of this producer in the same file.
    pub epoch: u32,
    /// Whether to write indexes; streams through pipes and sockets have none.
    pub with_index: bool,
    /// Bytes of output after which a snapshot is repeated; more if snapshots are large.
    pub snapshot_bytes: u64,
    /// Next sequence number by stream, if this run continues another.
    pub next: Vec<(u32, u64)>,
    /// Maximum age of the first record of a frame, after which the frame is written even if it is not full; `None`: no
    /// limit. It is checked when records are written, and by [`StreamWriter::flush_old`].
    pub flush_after: Option<Duration>,
}

impl Options {
    /// Options for a program that writes a file.
    #[must_use]
    pub fn new(program: &str) -> Options {
        Options {
            producer: records::Producer {
                program: Some(program.to_owned()),
                uuid: random_uuid(),
                os: Some(std::env::consts::OS.to_owned()),
                arch: Some(std::env::consts::ARCH.to_owned()),
                byte_order: Some(u32::from(cfg!(target_endian = "big"))),
                address_bits: Some(usize::BITS),
                pid: Some(std::process::id().into()),
                ..records::Producer::default()
            },
            codec: Codec::Zstd(3),
            frame_bytes: FRAME_BYTES_AT_REST,
            epoch: 1,
            with_index: true,
            snapshot_bytes: SNAPSHOT_AFTER_BYTES,
            next: Vec::new(),
            flush_after: None,
        }
    }

    /// Options for a stream that is read while it is written, through a pipe or a socket.
    #[must_use]
    pub fn live(program: &str) -> Options {
        Options {
            frame_bytes: FRAME_BYTES_LIVE,
            with_index: false,
            flush_after: Some(FLUSH_AFTER_LIVE),
            ..Options::new(program)
        }
    }
}

/// A UUID of random numbers (version 4).
fn random_uuid() -> Uuid {
    use std::hash::{BuildHasher, RandomState};
    // The keys of the standard hasher are derived from the system's random numbers.
    let half = || RandomState::new().hash_one((std::process::id(), Instant::now())).to_le_bytes();
    let mut uuid = [half(), half()].concat();
    uuid[6] = uuid[6] & 0x0F | 0x40;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    uuid.try_into().unwrap_or_default()
}

#[derive(Debug)]
struct State<W> {
    out: W,
    /// Bytes written by this writer. Distances in the stream are relative, so bytes before these do not matter.
    at: u64,
    producer: u64,
    epoch: u32,
    /// The metadata records of this epoch.
    records: Vec<Vec<u8>>,
    /// Definitions of this epoch, and of earlier epochs if the writer began the current one by itself.
    definitions: Definitions,
    /// The epoch that the caller began last: rows begun in an older one are refused.
    own_epoch: u32,
    /// Number of unfinished attachments; all pieces of an attachment belong to one epoch.
    n_attaching: u32,
    n_sent: usize,
    types: Vec<(Ty, u32)>,
    next_type: u32,
    next_schema: u32,
    next_format: u32,
    schemas: Vec<(SchemaSpec, u32)>,
    seqs: FxHashMap<u32, u64>,
    n_frames: u64,
    n_records: u64,
    snapshot_at: Option<u64>,
    snapshot_bytes: u64,
    snapshot_time: Instant,
    /// Offset of the end of the newest snapshot.
    snapshot_end: u64,
    /// Bytes of output after which the snapshot is repeated.
    snapshot_after: u64,
    index: Vec<FrameAt>,
    index_at: Option<u64>,
    with_index: bool,
    /// Compression of data payloads, also used for metadata.
    codec: Codec,
    is_ended: bool,
    /// The error kind of a frame that could not be written when its buffer was dropped.
    failed: Option<io::ErrorKind>,
    /// Whether a frame was only partly written: readers could not find a frame after it by its length.
    is_torn: bool,
}

impl<W: Write> State<W> {
    /// Writes a frame with a sealed payload, and sets the header fields that depend on the whole stream.
    fn write(&mut self, header: &mut Header, stored: &[u8]) -> io::Result<()> {
        self.write_extended(header, &[], stored)
    }

    /// Like [`State::write`], with an extension of the header.
    fn write_extended(&mut self, header: &mut Header, extension: &[u8], stored: &[u8]) -> io::Result<()> {
        if self.is_ended {
            return Err(io::Error::other("the stream has ended"));
        }
        if self.is_torn {
            return Err(io::Error::other("an earlier frame could not be written"));
        }
        header.producer = self.producer;
        header.epoch = self.epoch;
        header.seq = self.seqs.get(&header.stream).copied().unwrap_or_default();
        let next =
            header.seq.checked_add(1).ok_or_else(|| io::Error::other("no number is left for a frame"))?;
        header.meta_back = match self.snapshot_at {
            Some(at) if !header.has(flag::SNAPSHOT_START) => self.at - at,
            _ => 0,
        };
        header.words = ((frame::HEADER_BYTES + extension.len()) / 8) as u8; // At most 64.
        let mut rest = Vec::new();
        frame::finish(header, &mut rest);
        self.is_torn = true;
        self.out.write_all(&header.to_bytes_with(extension))?;
        self.out.write_all(stored)?;
        self.out.write_all(&rest)?;
        self.is_torn = false;
        self.seqs.insert(header.stream, next);
        let frame = FrameAt { offset: self.at, header: *header };
        self.at = frame.end();
        self.n_frames += 1;
        if header.kind == kind::DATA {
            self.n_records += u64::from(header.records);
        }
        if header.kind != kind::INDEX && self.with_index {
            self.index.push(frame);
        }
        Ok(())
    }

    /// Writes a frame with an uncompressed payload.
    fn write_plain(&mut self, mut header: Header, mut payload: Vec<u8>) -> io::Result<()> {
        seal(&mut header, payload.len() as u32, &mut payload)?; // A few hundred kilobytes at most.
        self.write(&mut header, &payload)
    }

    /// Writes a metadata frame, compressed like data if that makes it smaller.
    fn write_metadata(&mut self, mut header: Header, mut payload: Vec<u8>) -> io::Result<()> {
        if self.codec == Codec::None || payload.len() < LEAST_PACKED_BYTES {
            return self.write_plain(header, payload);
        }
        let mut stored = Vec::new();
        // Metadata frames are rare, so the packer is not kept.
        header.codec = PayloadPacker::new(self.codec)?.pack(&payload, &mut stored)?;
        if seal(&mut header, payload.len() as u32, &mut stored).is_err() {
            header.codec = frame::codec::NONE;
            seal(&mut header, payload.len() as u32, &mut payload)?;
            stored = payload;
        }
        self.write(&mut header, &stored)
    }

    /// Writes the records from number `first` as META frames.
    fn write_records(&mut self, first: usize, is_snapshot: bool) -> io::Result<()> {
        let records = self.records[first..].iter().map(Vec::as_slice);
        // At most a million.
        for (header, payload) in meta_frames(first as u32, records, is_snapshot) {
            if header.has(flag::SNAPSHOT_START) {
                self.snapshot_at = Some(self.at);
            }
            self.write_metadata(header, payload)?;
        }
        self.n_sent = self.records.len();
        Ok(())
    }

    fn write_snapshot(&mut self) -> io::Result<()> {
        let start = self.at;
        self.write_records(0, true)?;
        self.snapshot_bytes = self.at - start;
        self.snapshot_end = self.at;
        self.snapshot_time = Instant::now();
        Ok(())
    }

    /// Whether so much has been written since the last snapshot that it should be repeated.
    fn is_far(&self) -> bool {
        let since = self.at - self.snapshot_end;
        since >= self.snapshot_after.max(100 * self.snapshot_bytes)
            || (since > 0 && self.snapshot_time.elapsed() >= SNAPSHOT_AFTER)
    }

    /// Begins a new epoch if a snapshot would be too large.
    fn renew(&mut self) {
        if self.snapshot_at.is_some() && self.n_attaching == 0 && self.definitions.is_large() {
            self.records = self.definitions.renew();
            self.epoch = self.epoch.wrapping_add(1);
            (self.n_sent, self.snapshot_at) = (0, None);
        }
    }

    /// Writes what must precede a frame of rows, including records that the rows need and this epoch does not have yet.
    fn prepare_for(&mut self, header: &Header, payload: &[u8]) -> io::Result<()> {
        if self.is_far() {
            self.renew();
        }
        for record in self.definitions.demanded(header, payload) {
            self.put(record)?;
        }
        self.prepare()
    }

    /// Writes what must precede a data frame: new records, or a snapshot if the last one is too far back.
    fn prepare(&mut self) -> io::Result<()> {
        if self.snapshot_at.is_none() || self.is_far() {
            self.write_snapshot()?;
        } else if self.n_sent < self.records.len() {
            self.write_records(self.n_sent, false)?;
        }
        if self.index.len() >= INDEX_FRAMES {
            self.write_index()?;
        }
        Ok(())
    }

    fn write_index(&mut self) -> io::Result<()> {
        let frames = std::mem::take(&mut self.index);
        let at = self.at;
        let back = self.index_at.map_or(0, |before| at - before);
        let mut payload = Vec::new();
        payload.extend_from_slice(&(frames.len() as u64).to_le_bytes());
        payload.extend_from_slice(&back.to_le_bytes());
        frames.iter().for_each(|frame| payload.extend_from_slice(&index_entry(at, frame)));
        let header = Header {
            kind: kind::INDEX,
            encoding: encoding::INDEX,
            meta_version: self.n_sent as u32, // At most a million.
            ..Header::default()
        };
        self.write_plain(header, payload)?;
        self.index_at = Some(at);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.prepare()?;
        if self.with_index && !self.index.is_empty() {
            self.write_index()?;
        }
        let back = self.index_at.map_or(0, |index| self.at - index);
        let (header, payload) = end_frame(true, self.n_frames, self.n_records, back);
        // At most a million.
        self.write_plain(Header { meta_version: self.n_sent as u32, ..header }, payload)?;
        self.is_ended = true;
        self.out.flush()
    }

    fn define(&mut self, record: records::Record) -> io::Result<u32> {
        let bytes = record.to_bytes();
        self.definitions.add(&record, &bytes);
        self.put(bytes)
    }

    /// Adds a record to the epoch; returns its ordinal.
    fn put(&mut self, record: Vec<u8>) -> io::Result<u32> {
        if self.records.len() >= crate::meta::MAX_RECORDS {
            return Err(io::Error::other("an epoch has at most a million metadata records"));
        }
        self.records.push(record);
        Ok(self.records.len() as u32 - 1) // At most a million.
    }

    fn type_id(&mut self, ty: &Ty) -> io::Result<u32> {
        if let Some((_, id)) = self.types.iter().find(|(known, _)| known == ty) {
            return Ok(*id);
        }
        let (name, described) = ty.describe(|part| self.type_id(part))?;
        let id = self.next_type;
        self.next_type += 1;
        self.define(records::TypeRecord { id, name, ty: described, native: None }.into())?;
        self.types.push((ty.clone(), id));
        Ok(id)
    }

    fn schema_id(&mut self, spec: &SchemaSpec) -> io::Result<u32> {
        if let Some((_, id)) = self.schemas.iter().find(|(known, _)| known == spec) {
            return Ok(*id);
        }
        let fields = spec.describe(|ty| self.type_id(ty))?;
        let format = match &spec.text {
            Some(text) => {
                let id = self.next_format;
                self.next_format += 1;
                const BRACES: u64 = 3;
                let format = records::Format { id, text: text.clone(), dialect: Some(BRACES) };
                self.define(format.into())?;
                Some(id)
            }
            None => None,
        };
        let id = self.next_schema;
        self.next_schema += 1;
        let schema = records::Schema {
            id,
            name: Some(spec.name.clone()),
            fields,
            fixed_bytes: Some(spec.fixed_bytes()),
            format,
            category: spec.category.clone(),
            flags: (spec.flags != 0).then_some(spec.flags),
            ..records::Schema::default()
        };
        self.define(schema.into())?;
        self.schemas.push((spec.clone(), id));
        Ok(id)
    }
}

/// Writes a stream. Clones write to the same stream.
#[derive(Debug)]
pub struct Writer<W> {
    state: Arc<Mutex<State<W>>>,
    options: Arc<Options>,
    /// The epoch of the state, for buffers that read it without the lock.
    epoch: Arc<AtomicU32>,
}

impl<W> Clone for Writer<W> {
    fn clone(&self) -> Self {
        Writer {
            state: Arc::clone(&self.state),
            options: Arc::clone(&self.options),
            epoch: Arc::clone(&self.epoch),
        }
    }
}

/// The id of a schema that a writer has defined, for records of type `R`.
#[derive(Debug)]
pub struct SchemaOf<R> {
    id: u32,
    record: PhantomData<fn(R)>,
}

impl<R> Clone for SchemaOf<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for SchemaOf<R> {}

impl<W: Write> Writer<W> {
    /// A writer to `out`. Nothing is written yet.
    pub fn new(out: W, options: Options) -> Writer<W> {
        let uuid = options.producer.uuid;
        let first = uuid.first_chunk::<8>().copied().unwrap_or_default();
        let mut state = State {
            out,
            at: 0,
            producer: u64::from_le_bytes(first),
            epoch: options.epoch,
            records: Vec::new(),
            definitions: Definitions::default(),
            own_epoch: options.epoch,
            n_attaching: 0,
            n_sent: 0,
            types: Vec::new(),
            next_type: 1,
            next_schema: FIRST_SCHEMA,
            next_format: 1,
            schemas: Vec::new(),
            seqs: options.next.iter().copied().collect(),
            n_frames: 0,
            n_records: 0,
            snapshot_at: None,
            snapshot_bytes: 0,
            snapshot_time: Instant::now(),
            snapshot_end: 0,
            snapshot_after: options.snapshot_bytes,
            index: Vec::new(),
            index_at: None,
            with_index: options.with_index,
            codec: options.codec,
            is_ended: false,
            failed: None,
            is_torn: false,
        };
        let producer = records::Record::from(options.producer.clone());
        state.records.push(producer.to_bytes());
        state.definitions.add(&producer, &state.records[0]);
        let epoch = Arc::new(AtomicU32::new(options.epoch));
        Writer { state: Arc::new(Mutex::new(state)), options: Arc::new(options), epoch }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        // A thread that panicked while it held the lock left either whole frames, or a torn one; nothing is written after a
        // torn one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a metadata record; returns its ordinal.
    ///
    /// # Errors
    /// Returns an error if the epoch is full.
    pub fn define(&self, record: impl Into<records::Record>) -> io::Result<u32> {
        self.lock().define(record.into())
    }

    /// Defines a schema with all its types, unless it is defined already. Returns its id.
    ///
    /// # Errors
    /// Returns an error if the epoch is full.
    pub fn schema(&self, spec: &SchemaSpec) -> io::Result<u32> {
        self.lock().schema_id(spec)
    }

    /// Defines the schema of record type `R`.
    ///
    /// # Errors
    /// Returns an error if the epoch is full.
    pub fn schema_of<R: Record>(&self) -> io::Result<SchemaOf<R>> {
        Ok(SchemaOf { id: self.schema(&R::spec())?, record: PhantomData })
    }

    /// All definitions since the caller last began an epoch, with types and schemas resolved.
    #[must_use]
    pub fn metadata(&self) -> Metadata {
        let mut metadata = Metadata::default();
        let mut findings = Vec::new();
        for (ordinal, record) in (0..).zip(self.lock().definitions.all()) {
            metadata.add(ordinal, cbor::decode(record), &mut findings);
        }
        metadata.resolve(&mut findings);
        metadata
    }

    /// A buffer for one stream, to be filled by one thread. Stream 0 also has the frames about the whole stream.
    ///
    /// # Errors
    /// Returns an error if the codec does not accept its level.
    pub fn stream(&self, number: u32) -> io::Result<StreamWriter<W>> {
        StreamWriter::new(self.clone(), number)
    }

    /// Writes a loss record.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn loss(&self, stream: u32, loss: &Loss) -> io::Result<()> {
        self.item(kind::LOSS, stream, loss.to_value().to_bytes())
    }

    /// Writes a correlation of a clock: `ticks` of clock number `clock` correspond to Unix time `unix_ns`.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn clock(&self, clock: u32, ticks: u64, unix_ns: i64, uncertainty_ns: u64) -> io::Result<()> {
        let uint = Value::Uint;
        let map = Value::Map(vec![
            (uint(0), uint(clock.into())),
            (uint(1), uint(ticks)),
            (uint(2), Value::int(unix_ns.into())),
            (uint(3), uint(uncertainty_ns)),
        ]);
        self.item(kind::CLOCK, 0, map.to_bytes())
    }

    /// Writes an attachment, in pieces that fit into frames.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn attach(&self, name: &str, media: Option<&str>, bytes: &[u8]) -> io::Result<()> {
        let mut attaching = self.attaching(name, media, bytes.len() as u64);
        attaching.write_all(bytes)?;
        attaching.finish()
    }

    /// Begins an attachment of `len_bytes` bytes, which the caller writes to the returned [`Attaching`].
    #[must_use]
    pub fn attaching(&self, name: &str, media: Option<&str>, len_bytes: u64) -> Attaching<W> {
        let (name, media) = (name.to_owned(), media.map(str::to_owned));
        self.lock().n_attaching += 1;
        Attaching { writer: self.clone(), name, media, len_bytes, at: 0, piece: Vec::new() }
    }

    fn item(&self, kind: u8, stream: u32, payload: Vec<u8>) -> io::Result<()> {
        let mut state = self.lock();
        state.prepare()?;
        let header = Header {
            kind,
            encoding: encoding::CBOR,
            stream,
            records: u32::from(kind != kind::BLOB),
            meta_version: state.n_sent as u32, // At most a million.
            ..Header::default()
        };
        state.write_plain(header, payload)
    }

    /// Writes a snapshot now.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn snapshot(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.renew();
        state.write_snapshot()
    }

    /// Begins a new epoch, which has no definitions except the producer. Flush the buffers of streams before: rows still
    /// buffered have ids of the old epoch and are refused. Define schemas again to get their new ids.
    pub fn new_epoch(&self) {
        let mut state = self.lock();
        state.epoch = state.epoch.wrapping_add(1);
        state.own_epoch = state.epoch;
        self.epoch.store(state.epoch, Ordering::Release);
        let producer = records::Record::from(self.options.producer.clone());
        state.records = vec![producer.to_bytes()];
        state.definitions = Definitions::default();
        state.definitions.add(&producer, &producer.to_bytes());
        state.n_sent = 0;
        state.types.clear();
        state.schemas.clear();
        state.next_type = 1;
        state.next_schema = FIRST_SCHEMA;
        state.next_format = 1;
        state.snapshot_at = None;
    }

    /// Writes the index and the END. Finish all streams before: later frames are refused.
    ///
    /// # Errors
    /// Returns an error if these cannot be written, or if an earlier frame could not be written when its buffer was dropped.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.lock();
        if let Some(kind) = state.failed.take() {
            return Err(io::Error::new(kind, "a frame could not be written"));
        }
        state.end()
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        self.lock().at
    }

    /// Returns the output, if no clone and no stream buffer is left.
    #[must_use]
    pub fn into_inner(self) -> Option<W> {
        let state = Arc::try_unwrap(self.state).ok()?;
        Some(state.into_inner().unwrap_or_else(PoisonError::into_inner).out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that takes up to a number of bytes, then fails once, then takes everything.
    #[derive(Debug)]
    struct Full(usize, Vec<u8>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.1.len() + bytes.len() > self.0 {
                self.0 = usize::MAX;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failed_write_keeps_what_was_lost_and_is_the_last() {
        let writer =
            Writer::new(Full(600, Vec::new()), Options { codec: Codec::None, ..Options::new("test") });
        let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
        writer.snapshot().unwrap();
        let mut stream = writer.stream(1).unwrap();
        stream.lose(3);
        for n in 0..20_u64 {
            stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
        }
        assert_eq!(stream.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((stream.lost, stream.records, stream.rows.len()), (23, 0, 0));
        let n_bytes = writer.lock().out.1.len();
        assert!(stream.flush().is_err() && writer.snapshot().is_err() && writer.finish().is_err());
        assert_eq!((writer.lock().out.1.len(), stream.lost), (n_bytes, 23));
        stream.is_finished = true;
    }

    #[test]
    fn rows_of_an_older_epoch_are_refused_and_counted_as_lost() {
        let writer = Writer::new(Vec::new(), Options::new("test"));
        let spec = SchemaSpec::new("tick").field("n", Ty::Uint(64));
        let id = writer.schema(&spec).unwrap();
        let mut stream = writer.stream(1).unwrap();
        stream.row(id, 1, 8, |_| {}).unwrap();
        writer.new_epoch();
        assert_eq!(stream.flush().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let id = writer.schema(&spec).unwrap();
        stream.row(id, 2, 8, |_| {}).unwrap();
        assert_eq!((stream.records, stream.lost), (1, 1));
        stream.finish().unwrap();
    }
}
