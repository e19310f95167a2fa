//! The variable encoding: 1 to 258 bytes per event, with events that change the level of detail.
//!
//! SPEC: prism.md#variable-encoding

use crate::batch::{BATCH_EVENTS, Batch};
use crate::detail::Detail;
use crate::event::{
    Compute, Config, Context, Control, Event, Kind, Memory, Place, Sync, context, control, sync,
};
use crate::fault::{Fault, Wrong};
use crate::fixed::field;
use crate::position::{Position, has};

/// The first byte of the event that ends a buffer.
pub const END: u8 = 6 << 5;
/// Maximum length of an event in bytes.
pub const MAX_EVENT_BYTES: usize = 258;
/// Number of address bytes; the highest byte is left out.
const ADDRESS_BYTES: usize = 7;
/// Maximum length of an access or a computation in bytes.
const PLAIN_BYTES: usize = 9;
/// Mask for the address bits that are stored.
const ADDRESS_MASK: u64 = (1 << 56) - 1;

/// Control flow, bit of the first byte: the branch was taken.
const TAKEN: u8 = 0b10;
/// Control flow, bit of the first byte: the target is computed.
const INDIRECT: u8 = 0b01;

/// Control flow, type: a branch for which it is unknown whether it was taken.
const BLIND_BRANCH: u8 = 5;
/// Control flow: the value for an unknown target.
const NO_TARGET: u64 = ADDRESS_MASK;

/// The dialect of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// As the encoding is described.
    #[default]
    Strict,
    /// As the front end of the branch `variable-serde` writes it: sizes of accesses are halved, and OR-ed into the type.
    ///
    /// QUIRK: the front end writes bytes / 2 where the logarithm belongs. An ambiguous size or type is absent.
    Sigrind,
}

/// The progress made by a call of [`Decoder::decode`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// Number of bytes read.
    pub used: usize,
    /// Whether the last of them ended a buffer: bytes after it are undefined.
    pub has_ended: bool,
}

/// Decodes buffers of events, one after the other.
#[derive(Clone, Debug)]
pub struct Decoder {
    detail: Detail,
    dialect: Dialect,
    position: Position,
}

impl Decoder {
    /// A decoder for a stream that begins with these fields.
    #[must_use]
    pub fn new(detail: Detail, dialect: Dialect) -> Decoder {
        Decoder { detail, dialect, position: Position::default() }
    }

    /// Sets the thread of events until the first swap.
    #[must_use]
    pub fn of_thread(mut self, thread: u64) -> Decoder {
        self.position.thread = Some(thread);
        self
    }

    /// The current level of detail.
    #[must_use]
    pub fn detail(&self) -> Detail {
        self.detail
    }

    /// Advances the offset without reading, past the bytes after the end of a buffer.
    pub fn skip(&mut self, bytes: u64) {
        self.position.offset += bytes;
    }

    /// Decodes events from the beginning of `bytes` into the batch. A batch ends before the thread changes.
    ///
    /// # Errors
    /// Returns an error if the first event is malformed. Events before a malformed one are returned first.
    pub fn decode(&mut self, bytes: &[u8], batch: &mut Batch) -> Result<Progress, Fault> {
        self.position.begin(batch);
        let (mut used, mut has_ended) = (0, false);
        batch.events.reserve(BATCH_EVENTS);
        while batch.events.len() < BATCH_EVENTS && used < bytes.len() {
            used += self.plain(&bytes[used..], batch);
            if batch.events.len() == BATCH_EVENTS || used == bytes.len() {
                break;
            }
            let rest = &bytes[used..];
            if rest[0] >> 5 == END >> 5 {
                (used, has_ended) = (used + 1, true);
                break;
            }
            let (event, len) = match self.event(rest, batch) {
                Ok(decoded) => decoded,
                Err(what) if batch.events.is_empty() => {
                    return Err(Fault { offset: self.position.offset, what });
                }
                Err(_) => break,
            };
            match event {
                Event::Sync(_) if !self.position.enters(batch, &event) => break,
                Event::Config(config) => self.detail.configure(config),
                _ => {}
            }
            batch.events.push(event);
            used += len;
        }
        self.position.pass(batch, used);
        Ok(Progress { used, has_ended })
    }

    /// Decodes accesses and computations up to another kind of event or the last few bytes; returns the number of bytes decoded.
    // PERF: these events are built directly in the batch. Through `event`, each waits on the stack for bytes that are read
    // as words.
    #[inline(always)]
    fn plain(&self, bytes: &[u8], batch: &mut Batch) -> usize {
        let mut used = 0;
        while batch.events.len() < BATCH_EVENTS
            && let Some(rest) = bytes[used..].first_chunk::<PLAIN_BYTES>()
        {
            let decoded = match Kind::of(rest[0] >> 5) {
                Some(Kind::Memory) => self.memory(rest).map(|(memory, len)| (Event::Memory(memory), len)),
                Some(Kind::Compute) => {
                    self.compute(rest).map(|(compute, len)| (Event::Compute(compute), len))
                }
                _ => break,
            };
            let Ok((event, len)) = decoded else { break };
            batch.events.push(event);
            used += len;
        }
        used
    }

    /// Changes the level of detail of the following events.
    pub(crate) fn configure(&mut self, config: Config) {
        self.detail.configure(config);
    }

    /// The event at the beginning of `bytes`, and its length. Adds its name to the batch, but not the event.
    // PERF: with two callers, the compiler does not inline it by itself, and loops over batches take twice as long.
    #[inline(always)]
    pub(crate) fn event(&self, bytes: &[u8], batch: &mut Batch) -> Result<(Event, usize), Wrong> {
        let head = bytes[0];
        match Kind::of(head >> 5) {
            Some(Kind::Memory) => self.memory(bytes).map(|(memory, len)| (Event::Memory(memory), len)),
            Some(Kind::Compute) => self.compute(bytes).map(|(compute, len)| (Event::Compute(compute), len)),
            Some(Kind::Sync) => {
                let kind = head & 0x1f;
                let data = u64::from_le_bytes(bytes_at(bytes, 1)?);
                if kind != sync::WAIT {
                    return Ok((Event::Sync(Sync { kind, data, second: None }), 9));
                }
                let second = Some(u64::from_le_bytes(bytes_at(bytes, 9)?));
                Ok((Event::Sync(Sync { kind, data, second }), 17))
            }
            Some(Kind::Context) => {
                let kind = head & 0x1f;
                if context::is_named(kind) {
                    let len = usize::from(*bytes.get(1).ok_or(Wrong::Truncated)?) + 1;
                    let name = batch.add_name(bytes.get(2..2 + len).ok_or(Wrong::Truncated)?);
                    return Ok((Event::Context(Context { kind, place: Place::Name(name) }), 2 + len));
                }
                if !matches!(kind, context::INSTRUCTION | context::BLOCK | context::THREAD) {
                    return Err(Wrong::UnknownContext(kind));
                }
                let place = Place::Address(address(bytes)?);
                Ok((Event::Context(Context { kind, place }), 1 + ADDRESS_BYTES))
            }
            Some(Kind::Control) => {
                let fields = self.detail.control;
                let has_target = has(fields, Detail::TARGET);
                let target = if has_target { Some(address(bytes)?) } else { None };
                let kind = head >> 2 & 7;
                let is_blind = kind == BLIND_BRANCH;
                let control = Control {
                    kind: has(fields, Detail::TYPE).then_some(if is_blind { control::BRANCH } else { kind }),
                    taken: (has(fields, Detail::TAKEN) && !is_blind).then_some(head & TAKEN != 0),
                    indirect: has(fields, Detail::INDIRECT).then_some(head & INDIRECT != 0),
                    target: target.filter(|target| *target != NO_TARGET),
                };
                Ok((Event::Control(control), if has_target { 1 + ADDRESS_BYTES } else { 1 }))
            }
            Some(Kind::Config) => {
                let number = head >> 2 & 7;
                let kind = Kind::of(number).ok_or(Wrong::UnknownConfig(number))?;
                let fields = *bytes.get(1).ok_or(Wrong::Truncated)?;
                Ok((Event::Config(Config { kind, fields }), 2))
            }
            None => Err(Wrong::UnknownKind(head >> 5)),
        }
    }

    #[inline(always)]
    fn memory(&self, bytes: &[u8]) -> Result<(Memory, usize), Wrong> {
        let fields = self.detail.memory;
        let (access, size) = match self.dialect {
            Dialect::Strict => (Some(bytes[0] >> 3 & 3), Some(1 << (bytes[0] & 7))),
            Dialect::Sigrind => sigrind(bytes[0]),
        };
        let mut len = 1;
        let address = if has(fields, Detail::ADDRESS) {
            len += ADDRESS_BYTES;
            Some(address(bytes)?)
        } else {
            None
        };
        let id = if has(fields, Detail::ID) {
            len += 1;
            Some(*bytes.get(len - 1).ok_or(Wrong::Truncated)?)
        } else {
            None
        };
        let access = access.filter(|_| has(fields, Detail::TYPE));
        let size = size.filter(|_| has(fields, Detail::SIZE));
        Ok((Memory { access, size, address, id }, len))
    }

    #[inline(always)]
    fn compute(&self, bytes: &[u8]) -> Result<(Compute, usize), Wrong> {
        let fields = self.detail.compute;
        let (has_operation, has_arity) = (has(fields, Detail::OPERATION), has(fields, Detail::ARITY));
        let has_ids = has_arity && has(fields, Detail::IDS);
        let second = match bytes.get(1) {
            Some(second) => *second,
            None if has_operation || has_arity => return Err(Wrong::Truncated),
            None => 0,
        };
        let count = (second & 3) + 1;
        let ids = if has_ids { Some(ids(bytes, count)?) } else { None };
        let compute = Compute {
            format: has(fields, Detail::TYPE).then_some(bytes[0] >> 3 & 3),
            width: has(fields, Detail::SIZE).then_some(1 << (bytes[0] & 7)),
            operation: has_operation.then_some(second >> 2),
            arguments: has_arity.then_some(count),
            ids,
        };
        let n_ids = if has_ids { usize::from(count) } else { 0 };
        Ok((compute, 1 + usize::from(has_operation || has_arity) + n_ids))
    }
}

/// The type and size of an access, as far as they are unambiguous.
fn sigrind(head: u8) -> (Option<u8>, Option<u16>) {
    let access = Some(head >> 3 & 3);
    match (head >> 3 & 3, head & 7) {
        // Either a 16-byte store or a 32-byte load.
        (3, 0) => (None, None),
        (_, 1) => (access, Some(2)),
        (_, 2) => (access, Some(4)),
        (_, 4) => (access, Some(8)),
        (_, 5) => (access, Some(10)),
        // Ambiguous: a load of 1 or 16 bytes, a store of 1 or 32 bytes; and odd sizes.
        _ => (access, None),
    }
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Wrong> {
    bytes.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).ok_or(Wrong::Truncated)
}

/// The ids of one to four arguments, after the first two bytes.
#[inline(always)]
fn ids(bytes: &[u8], count: u8) -> Result<[u8; 4], Wrong> {
    if let Some(word) = bytes.get(2..).and_then(<[u8]>::first_chunk) {
        // Masks bytes of the next event.
        return Ok((u32::from_le_bytes(*word) & (u32::MAX >> (32 - 8 * u32::from(count)))).to_le_bytes());
    }
    let found = bytes.get(2..2 + usize::from(count)).ok_or(Wrong::Truncated)?;
    Ok(std::array::from_fn(|at| found.get(at).copied().unwrap_or(0)))
}

/// The address after the first byte.
#[inline(always)]
fn address(bytes: &[u8]) -> Result<u64, Wrong> {
    // The first byte and the address together are one word.
    let word: &[u8; 1 + ADDRESS_BYTES] = bytes.first_chunk().ok_or(Wrong::Truncated)?;
    Ok(u64::from_le_bytes(*word) >> 8)
}

/// Encodes events.
#[derive(Clone, Debug)]
pub struct Encoder {
    detail: Detail,
    /// The encoded bytes.
    pub out: Vec<u8>,
}

impl Encoder {
    /// An encoder for a stream that begins with these fields, without writing configurations of them.
    #[must_use]
    pub fn agreed(detail: Detail) -> Encoder {
        Encoder { detail, out: Vec::new() }
    }

    /// An encoder for a stream that begins with configurations of its fields, as stored streams have to.
    #[must_use]
    pub fn stored(detail: Detail) -> Encoder {
        let mut encoder = Encoder::agreed(detail);
        for config in detail.events() {
            encoder.config(config);
        }
        encoder
    }

    /// The fields of the next event.
    pub(crate) fn detail(&self) -> Detail {
        self.detail
    }

    /// Ends a buffer.
    pub fn end(&mut self) {
        self.out.push(END);
    }

    /// Adds an event of a batch. Writes nothing on failure.
    ///
    /// # Errors
    /// Returns an error if the encoding or the level of detail cannot represent a field, or requires one that the event does
    /// not have.
    pub fn put(&mut self, event: &Event, batch: &Batch) -> Result<(), Wrong> {
        let mut bytes = [0; MAX_EVENT_BYTES];
        let len = match event {
            Event::Memory(memory) => self.memory(&mut bytes, memory)?,
            Event::Compute(compute) => self.compute(&mut bytes, compute)?,
            Event::Sync(event) => {
                let wants = if event.kind == sync::WAIT { 1 } else { 0 };
                let second = field(wants, 1, event.second, "second word")?;
                bytes[0] = (Kind::Sync as u8) << 5 | bits(event.kind, 5, "this type")?;
                bytes[1..9].copy_from_slice(&event.data.to_le_bytes());
                bytes[9..17].copy_from_slice(&second.unwrap_or(0).to_le_bytes());
                if second.is_some() { 17 } else { 9 }
            }
            Event::Context(context) => self::context(&mut bytes, context, batch)?,
            Event::Control(control) => self.control(&mut bytes, control)?,
            Event::Config(config) => {
                self.config(*config);
                return Ok(());
            }
            Event::Unknown(_) => return Err(Wrong::NoRoom("events of unknown kinds")),
        };
        self.out.extend_from_slice(&bytes[..len]);
        Ok(())
    }

    /// Adds an event with its original bytes.
    pub(crate) fn put_bytes(&mut self, event: &Event, bytes: &[u8]) {
        if let Event::Config(config) = event {
            self.detail.configure(*config);
        }
        self.out.extend_from_slice(bytes);
    }

    fn config(&mut self, config: Config) {
        self.detail.configure(config);
        self.out.extend_from_slice(&[(Kind::Config as u8) << 5 | (config.kind as u8) << 2, config.fields]);
    }

    fn memory(&self, bytes: &mut [u8], memory: &Memory) -> Result<usize, Wrong> {
        let fields = self.detail.memory;
        let access = bits(field(fields, Detail::TYPE, memory.access, "type")?.unwrap_or(0), 2, "this type")?;
        let size = power(field(fields, Detail::SIZE, memory.size, "size")?.unwrap_or(1))?;
        bytes[0] = (Kind::Memory as u8) << 5 | access << 3 | size;
        let mut len = 1;
        if let Some(address) = field(fields, Detail::ADDRESS, memory.address, "address")? {
            put_address(bytes, address)?;
            len += ADDRESS_BYTES;
        }
        if let Some(id) = field(fields, Detail::ID, memory.id, "id")? {
            bytes[len] = id;
            len += 1;
        }
        Ok(len)
    }

    fn compute(&self, bytes: &mut [u8], compute: &Compute) -> Result<usize, Wrong> {
        let fields = self.detail.compute;
        let format =
            bits(field(fields, Detail::TYPE, compute.format, "format")?.unwrap_or(0), 2, "this format")?;
        let width = power(field(fields, Detail::SIZE, compute.width, "width")?.unwrap_or(1))?;
        bytes[0] = (Kind::Compute as u8) << 5 | format << 3 | width;
        let operation = field(fields, Detail::OPERATION, compute.operation, "operation")?.unwrap_or(0);
        let arguments = field(fields, Detail::ARITY, compute.arguments, "arity")?.unwrap_or(1);
        let count = arguments.checked_sub(1).ok_or(Wrong::NoRoom("an operation without arguments"))?;
        bytes[1] = bits(operation, 6, "this operation")? << 2 | bits(count, 2, "this arity")?;
        let mut len = if has(fields, Detail::OPERATION | Detail::ARITY) { 2 } else { 1 };
        let wants = if has(fields, Detail::ARITY) { fields } else { 0 };
        if let Some(ids) = field(wants, Detail::IDS, compute.ids, "ids of arguments")? {
            let count = usize::from(arguments); // At most 4.
            if ids[count..].iter().any(|id| *id != 0) {
                return Err(Wrong::NoRoom("more ids than arguments"));
            }
            bytes[2..2 + count].copy_from_slice(&ids[..count]);
            len += count;
        }
        Ok(len)
    }

    fn control(&self, bytes: &mut [u8], control: &Control) -> Result<usize, Wrong> {
        let fields = self.detail.control;
        let kind = bits(field(fields, Detail::TYPE, control.kind, "type")?.unwrap_or(0), 3, "this type")?;
        let is_blind = has(fields, Detail::TAKEN) && control.taken.is_none();
        let kind = match (is_blind, kind) {
            (_, BLIND_BRANCH) => return Err(Wrong::NoRoom("this type")),
            (true, control::BRANCH) => BLIND_BRANCH,
            (true, _) if !has(fields, Detail::TYPE) => BLIND_BRANCH,
            (_, kind) => kind,
        };
        let wants = if kind == BLIND_BRANCH { 0 } else { fields };
        let taken = field(wants, Detail::TAKEN, control.taken, "word whether it is taken")?.unwrap_or(false);
        let indirect = field(fields, Detail::INDIRECT, control.indirect, "word whether it is indirect")?;
        bytes[0] = (Kind::Control as u8) << 5
            | kind << 2
            | (u8::from(taken) * TAKEN)
            | (u8::from(indirect.unwrap_or(false)) * INDIRECT);
        if !has(fields, Detail::TARGET) {
            return field(fields, Detail::TARGET, control.target, "target").map(|_| 1);
        }
        if control.target == Some(NO_TARGET) {
            return Err(Wrong::NoRoom("this target"));
        }
        put_address(bytes, control.target.unwrap_or(NO_TARGET))?;
        Ok(1 + ADDRESS_BYTES)
    }
}

fn context(bytes: &mut [u8], context: &Context, batch: &Batch) -> Result<usize, Wrong> {
    let kind = context.kind;
    bytes[0] = (Kind::Context as u8) << 5 | bits(kind, 5, "this type")?;
    match context.place {
        Place::Name(name) => {
            let name = batch.name(name);
            if !context::is_named(kind) {
                return Err(Wrong::NoRoom("a name in a context of this type"));
            }
            let last = name.len().checked_sub(1).ok_or(Wrong::NoRoom("an empty name"))?;
            bytes[1] = u8::try_from(last).map_err(|_| Wrong::NoRoom("a name of more than 256 bytes"))?;
            bytes[2..2 + name.len()].copy_from_slice(name);
            Ok(2 + name.len())
        }
        Place::Address(address) => {
            if !matches!(kind, context::INSTRUCTION | context::BLOCK | context::THREAD) {
                return Err(Wrong::NoRoom("an address in a context of this type"));
            }
            put_address(bytes, address)?;
            Ok(1 + ADDRESS_BYTES)
        }
    }
}

/// Writes an address after the first byte.
fn put_address(bytes: &mut [u8], address: u64) -> Result<(), Wrong> {
    if address > ADDRESS_MASK {
        return Err(Wrong::NoRoom("an address of more than 56 bits"));
    }
    bytes[1..=ADDRESS_BYTES].copy_from_slice(&address.to_le_bytes()[..ADDRESS_BYTES]);
    Ok(())
}

/// Returns `code` if it fits into `width` bits.
fn bits(code: u8, width: u32, what: &'static str) -> Result<u8, Wrong> {
    if u32::from(code) < 1 << width { Ok(code) } else { Err(Wrong::NoRoom(what)) }
}

/// The binary logarithm of a size, which has to be a power of two of at most 128 bytes.
fn power(size: u16) -> Result<u8, Wrong> {
    if size.is_power_of_two() && size <= 128 {
        Ok(size.trailing_zeros() as u8)
    } else {
        Err(Wrong::NoSize(size))
    }
}
