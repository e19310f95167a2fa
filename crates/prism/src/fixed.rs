//! The fixed encoding: 18 bytes per event, with names in a separate buffer.
//!
//! Bytes that an event does not use keep values of earlier events. They are preserved where slots are copied
//! ([`crate::dump`]), and never become values: a [`Detail`] lists the fields that the front end fills.
//!
//! SPEC: prism.md#fixed-encoding

use crate::batch::{BATCH_EVENTS, Batch};
use crate::detail::Detail;
use crate::event::{Compute, Context, Control, Event, Memory, Name, Place, Sync, context, sync};
use crate::fault::{Fault, Wrong};
use crate::position::{Position, has};

/// Bytes of an event.
pub const EVENT_BYTES: usize = 18;
/// Maximum number of events in a buffer.
pub const SLOTS: usize = 4096;
/// Maximum size of the names in a buffer, in bytes.
pub const NAME_BYTES: usize = 4096;

pub(crate) const MEMORY: u8 = 1;
const COMPUTE: u8 = 2;
const CONTROL: u8 = 3;
pub(crate) const CONTEXT: u8 = 4;
pub(crate) const SYNC: u8 = 5;

/// Flag of control flow: the branch was taken.
const TAKEN: u8 = 1;
/// Flag of control flow: the target is computed.
const INDIRECT: u8 = 2;
/// Flag of control flow: it is unknown whether the branch was taken.
const NO_OUTCOME: u8 = 4;
/// Flag of control flow: the target is unknown.
const NO_TARGET: u8 = 8;

/// The bytes of one event.
pub type Slot = [u8; EVENT_BYTES];

fn u64_at(slot: &Slot, at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&slot[at..at + 8]);
    u64::from_le_bytes(bytes)
}

fn u32_at(slot: &Slot, at: usize) -> u32 {
    u32::from_le_bytes([slot[at], slot[at + 1], slot[at + 2], slot[at + 3]])
}

/// Decodes buffers of events, one after the other.
#[derive(Clone, Debug)]
pub struct Decoder {
    detail: Detail,
    position: Position,
}

impl Decoder {
    /// A decoder for a front end that fills these fields.
    #[must_use]
    pub fn new(detail: Detail) -> Decoder {
        Decoder { detail, position: Position::default() }
    }

    /// Sets the thread of events until the first swap.
    #[must_use]
    pub fn of_thread(mut self, thread: u64) -> Decoder {
        self.position.thread = Some(thread);
        self
    }

    /// Offset of the next event.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.position.offset
    }

    /// Advances the offset without reading, past the header of a buffer or past names.
    pub fn skip(&mut self, bytes: u64) {
        self.position.offset += bytes;
    }

    /// Decodes events from the beginning of `events` into the batch and returns their number. Stops early when the thread
    /// changes.
    ///
    /// # Errors
    /// Returns an error if the first event is malformed. Events before a malformed one are returned first.
    pub fn decode(&mut self, events: &[u8], names: &[u8], batch: &mut Batch) -> Result<usize, Fault> {
        self.position.begin(batch);
        let slots = events.as_chunks::<EVENT_BYTES>().0;
        let slots = &slots[..slots.len().min(BATCH_EVENTS)];
        let detail = self.detail;
        let mut at = 0;
        loop {
            // PERF: events that neither fail nor end the batch are decoded in a loop of known length.
            let rest = &slots[at..];
            let n = rest.iter().position(needs_care).unwrap_or(rest.len());
            batch.events.extend(rest[..n].iter().map(|slot| plain(slot, detail)));
            at += n;
            let Some(slot) = slots.get(at) else { break };
            let event = match event(slot, names, detail, batch) {
                Ok(event) => event,
                Err(what) if batch.events.is_empty() => {
                    return Err(Fault { offset: self.position.offset, what });
                }
                Err(_) => break,
            };
            if !self.position.enters(batch, &event) {
                break;
            }
            batch.events.push(event);
            at += 1;
        }
        self.position.pass(batch, at * EVENT_BYTES);
        if batch.events.is_empty() && !events.is_empty() {
            return Err(Fault { offset: self.position.offset, what: Wrong::Truncated });
        }
        Ok(batch.events.len())
    }

    /// Skips a malformed event.
    pub fn pass_over(&mut self) {
        self.position.offset += EVENT_BYTES as u64;
        self.position.ordinal += 1;
    }
}

/// Whether an event may be malformed or end a batch: contexts with names, and synchronization.
#[inline(always)]
fn needs_care(slot: &Slot) -> bool {
    slot[0] == SYNC || slot[0] == CONTEXT && context::is_named(slot[1])
}

/// Decodes the event in a slot. Adds its name to the batch, but not the event.
// PERF: with two callers, the compiler does not inline it by itself, and loops over batches take twice as long.
#[inline(always)]
pub(crate) fn event(slot: &Slot, names: &[u8], detail: Detail, batch: &mut Batch) -> Result<Event, Wrong> {
    if slot[0] == CONTEXT && context::is_named(slot[1]) {
        let name = name(u32_at(slot, 2), u32_at(slot, 6), names)?;
        return Ok(Event::Context(Context { kind: slot[1], place: Place::Name(batch.add_name(name)) }));
    }
    Ok(plain(slot, detail))
}

/// Decodes the event in a slot without a name.
#[inline(always)]
fn plain(slot: &Slot, detail: Detail) -> Event {
    match slot[0] {
        MEMORY => Event::Memory(Memory {
            access: has(detail.memory, Detail::TYPE).then_some(slot[11]),
            size: has(detail.memory, Detail::SIZE).then(|| u16::from_le_bytes([slot[9], slot[10]])),
            address: has(detail.memory, Detail::ADDRESS).then(|| u64_at(slot, 1)),
            id: None,
        }),
        COMPUTE => Event::Compute(Compute {
            format: has(detail.compute, Detail::TYPE).then_some(slot[1]),
            // 0 is undefined; 1 means no arguments.
            arguments: if has(detail.compute, Detail::ARITY) { slot[2].checked_sub(1) } else { None },
            operation: has(detail.compute, Detail::OPERATION).then_some(slot[3]),
            // 0 means unknown.
            width: if has(detail.compute, Detail::SIZE) && slot[4] != 0 {
                Some(slot[4].into())
            } else {
                None
            },
            ids: None,
        }),
        CONTROL => Event::Control(Control {
            kind: has(detail.control, Detail::TYPE).then_some(slot[1]),
            taken: (has(detail.control, Detail::TAKEN) && slot[2] & NO_OUTCOME == 0)
                .then_some(slot[2] & TAKEN != 0),
            indirect: has(detail.control, Detail::INDIRECT).then_some(slot[2] & INDIRECT != 0),
            target: (has(detail.control, Detail::TARGET) && slot[2] & NO_TARGET == 0)
                .then(|| u64_at(slot, 3)),
        }),
        CONTEXT => Event::Context(Context { kind: slot[1], place: Place::Address(u64_at(slot, 2)) }),
        SYNC => Event::Sync(Sync {
            kind: slot[1],
            data: u64_at(slot, 2),
            second: (slot[1] == sync::WAIT).then(|| u64_at(slot, 10)),
        }),
        tag => Event::Unknown(tag),
    }
}

/// The name at an index, without its terminating zero.
fn name(index: u32, len: u32, names: &[u8]) -> Result<&[u8], Wrong> {
    let start = index as usize; // At least 32 bits.
    let bytes = start.checked_add(len as usize).and_then(|end| names.get(start..end));
    match bytes.map(<[u8]>::split_last) {
        None => Err(Wrong::NameBeyond { index, len, used: names.len() as u32 }), // At most `NAME_BYTES`.
        Some(Some((0, name))) => Ok(name),
        Some(_) => Err(Wrong::NameOpen),
    }
}

/// Returns an error unless `condition` holds, which means that the event reads back the same.
fn fits(condition: bool, what: &'static str) -> Result<(), Wrong> {
    if condition { Ok(()) } else { Err(Wrong::NoRoom(what)) }
}

/// Checks a value against the level of detail: it must be present if the level has the field, and absent otherwise.
pub(crate) fn field<T>(
    fields: u8,
    field: u8,
    value: Option<T>,
    what: &'static str,
) -> Result<Option<T>, Wrong> {
    match (has(fields, field), value) {
        (true, None) => Err(Wrong::Missing(what)),
        (false, Some(_)) => Err(Wrong::NoRoom(what)),
        (_, value) => Ok(value),
    }
}

/// Encodes events into buffers.
#[derive(Clone, Debug)]
pub struct Encoder {
    detail: Detail,
    /// The events, [`EVENT_BYTES`] each.
    pub events: Vec<u8>,
    /// The names.
    pub names: Vec<u8>,
}

/// The result of adding an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// The event is in the buffer.
    Taken,
    /// The buffer has no room for it: write the buffer, [clear](Encoder::clear) it, and try again.
    Full,
}

impl Encoder {
    /// An encoder that fills these fields.
    #[must_use]
    pub fn new(detail: Detail) -> Encoder {
        Encoder { detail, events: Vec::new(), names: Vec::new() }
    }

    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.events.clear();
        self.names.clear();
    }

    /// Adds an event of a batch; its unused bytes are zero.
    ///
    /// # Errors
    /// Returns an error if the encoding or the level of detail cannot represent a field, or requires one that the event does
    /// not have.
    pub fn put(&mut self, event: &Event, batch: &Batch) -> Result<Put, Wrong> {
        if self.events.len() >= SLOTS * EVENT_BYTES {
            return Ok(Put::Full);
        }
        let mut slot: Slot = [0; EVENT_BYTES];
        match event {
            Event::Memory(memory) => self.memory(&mut slot, memory)?,
            Event::Compute(compute) => self.compute(&mut slot, compute)?,
            Event::Control(control) => self.control(&mut slot, control)?,
            Event::Context(context) => match context.place {
                Place::Name(name) => match self.name(batch.name(name))? {
                    Some(Name { start, len }) => {
                        fits(context::is_named(context.kind), "a name in a context of this type")?;
                        slot[2..6].copy_from_slice(&start.to_le_bytes());
                        slot[6..10].copy_from_slice(&len.to_le_bytes());
                        (slot[0], slot[1]) = (CONTEXT, context.kind);
                    }
                    None => return Ok(Put::Full),
                },
                Place::Address(address) => {
                    fits(!context::is_named(context.kind), "an address in a context of this type")?;
                    (slot[0], slot[1]) = (CONTEXT, context.kind);
                    slot[2..10].copy_from_slice(&address.to_le_bytes());
                }
            },
            Event::Sync(event) => {
                let wants = if event.kind == sync::WAIT { 1 } else { 0 };
                let second = field(wants, 1, event.second, "second word")?;
                (slot[0], slot[1]) = (SYNC, event.kind);
                slot[2..10].copy_from_slice(&event.data.to_le_bytes());
                slot[10..].copy_from_slice(&second.unwrap_or(0).to_le_bytes());
            }
            Event::Config(_) => return Err(Wrong::NoRoom("configuration events")),
            Event::Unknown(tag) => slot[0] = *tag,
        }
        self.events.extend_from_slice(&slot);
        Ok(Put::Taken)
    }

    /// Adds an event with its original bytes, unused ones included; `name` is the name of a context that has one.
    ///
    /// # Errors
    /// Returns an error if the name is longer than a buffer.
    pub(crate) fn put_slot(&mut self, slot: &Slot, name: Option<&[u8]>) -> Result<Put, Wrong> {
        if self.events.len() >= SLOTS * EVENT_BYTES {
            return Ok(Put::Full);
        }
        let mut slot = *slot;
        if let Some(name) = name {
            let Some(Name { start, len }) = self.name(name)? else { return Ok(Put::Full) };
            slot[2..6].copy_from_slice(&start.to_le_bytes());
            slot[6..10].copy_from_slice(&len.to_le_bytes());
        }
        self.events.extend_from_slice(&slot);
        Ok(Put::Taken)
    }

    fn memory(&self, slot: &mut Slot, memory: &Memory) -> Result<(), Wrong> {
        let fields = self.detail.memory;
        fits(memory.id.is_none(), "ids")?;
        slot[0] = MEMORY;
        let address = field(fields, Detail::ADDRESS, memory.address, "address")?;
        slot[1..9].copy_from_slice(&address.unwrap_or(0).to_le_bytes());
        let size = field(fields, Detail::SIZE, memory.size, "size")?;
        slot[9..11].copy_from_slice(&size.unwrap_or(0).to_le_bytes());
        slot[11] = field(fields, Detail::TYPE, memory.access, "type")?.unwrap_or(0);
        Ok(())
    }

    fn compute(&self, slot: &mut Slot, compute: &Compute) -> Result<(), Wrong> {
        let fields = self.detail.compute;
        fits(compute.ids.is_none(), "ids")?;
        slot[0] = COMPUTE;
        slot[1] = field(fields, Detail::TYPE, compute.format, "format")?.unwrap_or(0);
        slot[2] = match compute.arguments {
            Some(count) => {
                fits(has(fields, Detail::ARITY) && count < u8::MAX, "this arity")?;
                count + 1
            }
            None => 0,
        };
        slot[3] = field(fields, Detail::OPERATION, compute.operation, "operation")?.unwrap_or(0);
        slot[4] = match compute.width {
            Some(width) => {
                fits(has(fields, Detail::SIZE) && width > 0, "this width")?;
                u8::try_from(width).map_err(|_| Wrong::NoRoom("this width"))?
            }
            None => 0,
        };
        Ok(())
    }

    fn control(&self, slot: &mut Slot, control: &Control) -> Result<(), Wrong> {
        let fields = self.detail.control;
        slot[0] = CONTROL;
        slot[1] = field(fields, Detail::TYPE, control.kind, "type")?.unwrap_or(0);
        fits(control.taken.is_none() || has(fields, Detail::TAKEN), "word whether it is taken")?;
        fits(control.target.is_none() || has(fields, Detail::TARGET), "target")?;
        let is_unknown =
            |field: u8, is_there: bool, flag: u8| if has(fields, field) && !is_there { flag } else { 0 };
        let indirect = field(fields, Detail::INDIRECT, control.indirect, "word whether it is indirect")?;
        slot[2] = (u8::from(control.taken == Some(true)) * TAKEN)
            | (u8::from(indirect == Some(true)) * INDIRECT)
            | is_unknown(Detail::TAKEN, control.taken.is_some(), NO_OUTCOME)
            | is_unknown(Detail::TARGET, control.target.is_some(), NO_TARGET);
        slot[3..11].copy_from_slice(&control.target.unwrap_or(0).to_le_bytes());
        Ok(())
    }

    /// Adds a name with its terminating zero; `None` if the buffer has no room for it.
    fn name(&mut self, name: &[u8]) -> Result<Option<Name>, Wrong> {
        let len = name.len() + 1;
        fits(len <= NAME_BYTES, "a name of more than 4095 bytes")?;
        if self.names.len() + len > NAME_BYTES {
            return Ok(None);
        }
        let start = self.names.len() as u32; // At most `NAME_BYTES`.
        self.names.extend_from_slice(name);
        self.names.push(0);
        Ok(Some(Name { start, len: len as u32 }))
    }
}
