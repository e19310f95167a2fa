//! The writer of a producer: collects events and publishes them in chunks.

use super::encode::{self, Compute, Control, Encoded};
use super::fork::Generation;
use super::{
    CHUNK_HEAD_WORDS, CHUNK_WORDS, ChunkHead, Encoding, FLAG_CLOCKS, KIND_EVENTS, OFF, PROTOCOL, Said, Terms,
};
use crate::{Claim, Producer, Shared, life};
use std::ffi::CStr;
use std::fmt;
use std::io;

/// Maximum bytes of an event: a context with a name of 256 bytes.
const MAX_EVENT_BYTES: usize = 258;
/// Maximum total bytes of events, names, references and clocks in a chunk; each part is padded to a word.
const ROOM_BYTES: usize = (CHUNK_WORDS - CHUNK_HEAD_WORDS - 2) * 8;
/// Maximum bytes of names in a chunk of the fixed encoding.
const NAME_BYTES: usize = 4096;
/// Maximum number of references in a chunk.
const MAX_REFERENCES: usize = 512;

/// The reason why a producer cannot deliver events.
#[derive(Debug)]
pub enum Refused {
    /// The memory cannot be mapped.
    System(io::Error),
    /// The recorder has another version of the protocol.
    Version(u16),
    /// The recorder does not accept this encoding.
    Encoding(Encoding),
    /// All rings are taken, there is not enough memory for one, or the recorder has closed.
    NoRing,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::System(error) => error.fmt(f),
            Refused::Version(found) => {
                write!(f, "the recorder speaks version {found} of the protocol, this producer {PROTOCOL}")
            }
            Refused::Encoding(encoding) => write!(f, "the recorder does not take the encoding {encoding:?}"),
            Refused::NoRing => f.write_str("no ring is free, or the recorder has closed"),
        }
    }
}

impl std::error::Error for Refused {}

/// A recorder's memory, for the producers of a process.
#[derive(Debug)]
pub struct Connection {
    shared: Shared,
    asked: Terms,
}

impl Connection {
    /// Maps the memory at a path.
    ///
    /// # Errors
    /// If there is none, or its recorder has another version.
    pub fn open(path: &CStr) -> Result<Connection, Refused> {
        let shared = Shared::open(path).map_err(Refused::System)?;
        let asked = Terms::unpack(shared.note()[0]);
        if asked.version != PROTOCOL {
            return Err(Refused::Version(asked.version));
        }
        Ok(Connection { shared, asked })
    }

    /// The terms that the recorder requests.
    pub fn asked(&self) -> Terms {
        self.asked
    }

    /// Whether the recorder still listens. Events sent to one that does not count as dropped.
    pub fn is_open(&self) -> bool {
        self.shared.is_open()
    }

    /// Returns the number of a name in the shared heap; `None` if the heap has no room, or the name has more than
    /// [`MAX_NAME`](crate::MAX_NAME) bytes.
    pub fn intern(&self, name: &[u8]) -> Option<u32> {
        self.shared.heap()?.intern(name)
    }

    /// Creates a writer for the calling thread, with its own ring.
    ///
    /// # Errors
    /// If the recorder does not accept the encoding, or there is no ring.
    pub fn writer(&self, options: Options) -> Result<Writer<'_>, Refused> {
        if self.asked.encodings & options.encoding as u8 == 0 {
            return Err(Refused::Encoding(options.encoding));
        }
        let mut fields = options.can;
        for (can, asked) in fields.iter_mut().zip(self.asked.fields) {
            *can = if asked & OFF != 0 { OFF } else { *can & asked };
        }
        if options.encoding == Encoding::Fixed {
            fields[0] &= 0xe0 | OFF; // No ids.
            fields[encode::COMPUTE] &= 0xf0 | OFF;
        }
        let mut writer = Writer {
            connection: self,
            options,
            given: fields,
            fields,
            ring: None,
            generation: Generation::now(),
            thread: 0,
            chunk: vec![0; CHUNK_WORDS].into_boxed_slice(),
            n_bytes: 0,
            room: ROOM_BYTES,
            n_events: 0,
            names: Vec::with_capacity(NAME_BYTES),
            references: Vec::with_capacity(MAX_REFERENCES),
            clocks: Vec::with_capacity(if options.clocks { CHUNK_WORDS } else { 0 }),
            clock: 0,
            first_clock: 0,
            n_dropped: 0,
        };
        writer.claim(options.thread);
        if writer.ring.is_none() {
            return Err(Refused::NoRing);
        }
        Ok(writer)
    }
}

/// Properties of a producer.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Encoding of its events.
    pub encoding: Encoding,
    /// Fields that it can provide: of accesses, computations, control flow, synchronization, contexts.
    pub can: [u8; 5],
    /// The thread of its events; `None` for a number that no other producer has.
    pub thread: Option<u64>,
    /// Whether each event has a clock reading.
    pub clocks: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { encoding: Encoding::Variable, can: [0xff; 5], thread: None, clocks: false }
    }
}

/// Result of sending an event.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The event was accepted.
    Taken,
    /// There is no reader any more; the event was counted as dropped.
    Dropped,
    /// The encoding cannot represent it; it was counted as dropped.
    NoRoom,
    /// Events of its kind were not requested.
    Unasked,
}

/// Collects the events of one thread. A forked child may continue to use it: the writer then gets its own ring, and a thread
/// number that no other producer has.
#[derive(Debug)]
pub struct Writer<'s> {
    connection: &'s Connection,
    options: Options,
    /// Fields at the beginning of a ring.
    given: [u8; 5],
    /// Fields in effect now.
    fields: [u8; 5],
    /// `None` if there is no reader any more.
    ring: Option<Producer<'s>>,
    generation: Generation,
    thread: u64,
    /// The chunk: space for its head, then events.
    chunk: Box<[u64]>,
    n_bytes: usize,
    /// Remaining bytes in the chunk.
    room: usize,
    n_events: u32,
    names: Vec<u8>,
    references: Vec<u64>,
    clocks: Vec<u64>,
    clock: u64,
    first_clock: u64,
    n_dropped: u64,
}

impl Writer<'_> {
    /// The thread of the events.
    #[must_use]
    pub fn thread(&self) -> u64 {
        self.thread
    }

    /// The fields that it currently sends, by kind.
    #[must_use]
    pub fn fields(&self) -> [u8; 5] {
        self.fields
    }

    /// Number of lost events: there was no reader any more, or the encoding could not represent them.
    #[must_use]
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped
    }

    /// Sets the clock reading for the following events.
    pub fn set_clock(&mut self, clock: u64) {
        self.clock = clock;
    }

    /// Sends an access: 1 load, 2 store.
    #[inline]
    pub fn memory(&mut self, access: u8, size: u16, address: u64, id: u8) -> Put {
        let fields = self.fields[0];
        if fields & OFF != 0 {
            return Put::Unasked;
        }
        let encoded = match self.options.encoding {
            Encoding::Fixed => Some(encode::memory_fixed(fields, access, size, address)),
            Encoding::Variable => encode::memory_variable(fields, access, size, address, id),
        };
        self.put(encoded)
    }

    /// Sends a computation.
    #[inline]
    pub fn compute(&mut self, compute: &Compute<'_>) -> Put {
        let fields = self.fields[encode::COMPUTE];
        if fields & OFF != 0 {
            return Put::Unasked;
        }
        let encoded = match self.options.encoding {
            Encoding::Fixed => encode::compute_fixed(fields, compute),
            Encoding::Variable => encode::compute_variable(fields, compute),
        };
        self.put(encoded)
    }

    /// Sends a jump, branch, call or return.
    #[inline]
    pub fn control(&mut self, control: &Control) -> Put {
        let fields = self.fields[encode::CONTROL];
        if fields & OFF != 0 {
            return Put::Unasked;
        }
        let encoded = match self.options.encoding {
            Encoding::Fixed => encode::control_fixed(fields, control),
            Encoding::Variable => encode::control_variable(fields, control),
        };
        self.put(encoded)
    }

    /// Sends a call of a thread library; only a wait has a second word.
    pub fn sync(&mut self, kind: u8, data: u64, second: u64) -> Put {
        if self.fields[encode::SYNC] & OFF != 0 && kind != encode::SWAP {
            return Put::Unasked;
        }
        let encoded = match self.options.encoding {
            Encoding::Fixed => Some(encode::sync_fixed(kind, data, second)),
            Encoding::Variable => encode::sync_variable(kind, data, second),
        };
        self.put(encoded)
    }

    /// Sends the boundary of an instruction, block or thread.
    #[inline]
    pub fn context(&mut self, kind: u8, address: u64) -> Put {
        if self.fields[encode::CONTEXT] & OFF != 0 {
            return Put::Unasked;
        }
        let encoded = match self.options.encoding {
            Encoding::Fixed => encode::context_fixed(kind, address),
            Encoding::Variable => encode::context_variable(kind, address),
        };
        self.put(encoded)
    }

    /// Sends the boundary of a function, net or operator, together with its name.
    pub fn context_name(&mut self, kind: u8, name: &[u8]) -> Put {
        if self.fields[encode::CONTEXT] & OFF != 0 {
            return Put::Unasked;
        }
        if !encode::is_named(kind) {
            return self.no_room();
        }
        match self.options.encoding {
            Encoding::Variable => {
                let Some(last) = name.len().checked_sub(1).and_then(|last| u8::try_from(last).ok()) else {
                    return self.no_room();
                };
                if let Err(dropped) = self.begin(2 + name.len()) {
                    return dropped;
                }
                self.append(&[3 << 5 | kind, last]);
                self.append(name);
                self.end(2 + name.len())
            }
            Encoding::Fixed => {
                let len = name.len() + 1;
                if len > NAME_BYTES {
                    return self.no_room();
                }
                if self.names.len() + len > NAME_BYTES {
                    self.flush();
                }
                if let Err(dropped) = self.begin(encode::FIXED_BYTES + len) {
                    return dropped;
                }
                let index = self.names.len() as u32; // At most `NAME_BYTES`.
                self.names.extend_from_slice(name);
                self.names.push(0);
                let (bytes, n) = encode::name_fixed(kind, index, len as u32);
                self.append(&bytes[..n]);
                self.end(n + len)
            }
        }
    }

    /// Sends the boundary of a function, net or operator whose name has this number in the heap ([`Connection::intern`]).
    pub fn context_number(&mut self, kind: u8, number: u32) -> Put {
        if self.fields[encode::CONTEXT] & OFF != 0 {
            return Put::Unasked;
        }
        if !encode::is_named(kind) || number == 0 {
            return self.no_room();
        }
        // The heap accepts names that are empty or too long for the variable encoding.
        if self.options.encoding == Encoding::Variable {
            let len = self.connection.shared.heap().and_then(|heap| heap.name_bytes(number));
            if !len.is_some_and(|len| (1..=256).contains(&len)) {
                return self.no_room();
            }
        }
        if self.references.len() == MAX_REFERENCES {
            self.flush();
        }
        let (bytes, n) = match self.options.encoding {
            Encoding::Fixed => encode::name_fixed(kind, 0, 0),
            // The reader replaces the two zeros after the kind by the name: its length minus one, and its text.
            Encoding::Variable => {
                let mut bytes = [0; encode::FIXED_BYTES];
                bytes[0] = 3 << 5 | kind;
                (bytes, 3)
            }
        };
        if let Err(dropped) = self.begin(n + 8) {
            return dropped;
        }
        self.references.push((self.n_bytes as u64) << 32 | u64::from(number));
        self.append(&bytes[..n]);
        self.end(n + 8)
    }

    /// Changes the fields of a kind, numbered as in the variable encoding; the fixed encoding cannot represent this.
    pub fn configure(&mut self, kind: u8, fields: u8) -> Put {
        // In the order of `Terms`.
        const PLACES: [usize; 5] = [0, 1, 3, 4, 2];
        let Some(place) = PLACES.get(usize::from(kind)) else { return self.no_room() };
        if self.options.encoding == Encoding::Fixed {
            return self.no_room();
        }
        // Fields that were not requested are not sent.
        let asked = self.connection.asked.fields[*place];
        if asked & OFF != 0 {
            return Put::Unasked;
        }
        let fields = fields & asked;
        let mut bytes = [0; encode::FIXED_BYTES];
        (bytes[0], bytes[1]) = (5 << 5 | kind << 2, fields);
        let put = self.put(Some((bytes, 2)));
        if put == Put::Taken {
            self.fields[*place] = fields;
        }
        put
    }

    #[inline(always)]
    fn put(&mut self, encoded: Option<Encoded>) -> Put {
        let Some((bytes, len)) = encoded else { return self.no_room() };
        if let Err(dropped) = self.begin(len) {
            return dropped;
        }
        // Copying a constant number of bytes is faster; only `len` of them count.
        self.bytes()[..bytes.len()].copy_from_slice(&bytes);
        self.n_bytes += len;
        self.end(len)
    }

    #[cold]
    fn no_room(&mut self) -> Put {
        self.drop_some(1);
        Put::NoRoom
    }

    /// Makes sure that this process has a ring, and the chunk has room for an event.
    #[inline(always)]
    fn begin(&mut self, len: usize) -> Result<(), Put> {
        let clock_bytes = if self.options.clocks { 8 } else { 0 };
        if self.generation.is_over() || self.ring.is_none() || self.room < len + clock_bytes + MAX_EVENT_BYTES
        {
            self.begin_slowly()?;
        }
        Ok(())
    }

    #[cold]
    fn begin_slowly(&mut self) -> Result<(), Put> {
        // Detects a fork.
        self.flush();
        if self.ring.is_none() {
            self.drop_some(1);
            return Err(Put::Dropped);
        }
        Ok(())
    }

    /// The free bytes after the events of the chunk.
    #[inline(always)]
    fn bytes(&mut self) -> &mut [u8] {
        let words = &mut self.chunk[CHUNK_HEAD_WORDS..];
        // SAFETY: Words have no padding and are valid with any bytes, and the slice has as many bytes as the words.
        #[allow(unsafe_code)]
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), words.len() * 8) };
        &mut bytes[self.n_bytes..]
    }

    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.bytes()[..bytes.len()].copy_from_slice(bytes);
        self.n_bytes += bytes.len();
    }

    #[inline(always)]
    fn end(&mut self, taken: usize) -> Put {
        if self.n_events == 0 {
            self.first_clock = self.clock;
        }
        self.n_events += 1;
        self.room -= taken;
        if self.options.clocks {
            self.clocks.push(self.clock);
            self.room -= 8;
        }
        Put::Taken
    }

    /// Publishes collected events, and waits for room if the ring is full. Returns false if there is no reader any more.
    pub fn flush(&mut self) -> bool {
        if self.generation.is_over_surely() {
            self.begin_child();
            return self.ring.is_some();
        }
        if self.n_events == 0 {
            return self.ring.is_some();
        }
        let n_events = self.n_events;
        let n_words = self.seal();
        let is_taken = self.ring.as_mut().is_some_and(|ring| ring.push_group(&self.chunk[..n_words]));
        self.clear();
        if is_taken {
            self.connection.shared.wake_recorder();
        } else {
            self.drop_some(u64::from(n_events));
            self.ring = None;
        }
        is_taken
    }

    /// Assembles the chunk: its head and its parts. Returns the number of words.
    fn seal(&mut self) -> usize {
        let flags = if self.options.clocks { FLAG_CLOCKS } else { 0 };
        let head = ChunkHead {
            kind: KIND_EVENTS,
            flags,
            n_events: self.n_events,
            event_bytes: self.n_bytes as u32,           // At most the chunk.
            name_bytes: self.names.len() as u16,        // At most `NAME_BYTES`.
            n_references: self.references.len() as u16, // At most `MAX_REFERENCES`.
        };
        let n_words = head.n_words();
        self.pad();
        let (names, references) = (std::mem::take(&mut self.names), std::mem::take(&mut self.references));
        let clocks = std::mem::take(&mut self.clocks);
        self.append(&names);
        self.pad();
        for word in references.iter().chain(&clocks) {
            self.append(&word.to_ne_bytes());
        }
        (self.names, self.references, self.clocks) = (names, references, clocks);
        self.chunk[..2].copy_from_slice(&head.pack(n_words));
        self.chunk[2] = self.first_clock;
        n_words
    }

    fn pad(&mut self) {
        let n = self.n_bytes.next_multiple_of(8) - self.n_bytes;
        self.append(&[0; 8][..n]);
    }

    fn clear(&mut self) {
        (self.n_bytes, self.n_events, self.room) = (0, 0, ROOM_BYTES);
        self.names.clear();
        self.references.clear();
        self.clocks.clear();
    }

    fn drop_some(&mut self, n: u64) {
        self.n_dropped += n;
        if let Some(ring) = &self.ring {
            ring.drop_some(n);
        }
    }

    /// Discards what belongs to the parent: the events, which the parent sends, and the ring.
    fn begin_child(&mut self) {
        // Dropped without leaving it.
        self.ring = None;
        self.clear();
        self.n_dropped = 0;
        self.fields = self.given;
        self.generation = Generation::now();
        self.claim(None);
    }

    fn claim(&mut self, thread: Option<u64>) {
        let shared = &self.connection.shared;
        // Keeps numbers that producers choose themselves out of `next_id`, as long as there are numbers left.
        if let Some(thread) = thread.filter(|thread| *thread < 1 << 62) {
            shared.keep_ids_below(thread);
        }
        self.thread = thread.unwrap_or_else(|| shared.next_id() + 1);
        let encodings = self.options.encoding as u8;
        let terms = Terms { version: PROTOCOL, encodings, fields: self.given };
        let (pid, tid) = (self.generation.pid, life::thread_id());
        let claim = Claim {
            pid,
            tid,
            start: life::started(pid, tid).unwrap_or(0),
            note: Said { terms, thread: self.thread }.pack(),
            reserves: true,
        };
        self.ring = Producer::claim_for(shared, &claim);
    }

    /// Publishes collected events and leaves the ring.
    pub fn close(self) {
        drop(self);
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.generation.is_over_surely() {
            return;
        }
        self.flush();
        if let Some(ring) = self.ring.take() {
            ring.leave();
        }
    }
}
