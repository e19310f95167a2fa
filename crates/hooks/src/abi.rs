//! The table of functions between the program and a tool: `include/quipu_tool.h`, in Rust.
//!
//! Each structure begins with its size, and the table with size and version, so that either side may be older than the other.
//! The definitions of version 1 never change; later versions append to them.

use crate::detail::Detail;
use crate::event::{Compute, Config, Context, Control, Event, Kind, Memory, Name, Place, Sync};
use std::ffi::{c_char, c_void};

/// The version of this table.
pub const VERSION: u32 = 1;

/// The function that a library exports; it returns the library's table.
pub const SYMBOL: &std::ffi::CStr = c"quipu_tool_table";

/// One instance for the whole run.
pub const ONE: u32 = 0;
/// One instance for each `--tool` option that names the tool.
pub const MANY: u32 = 1;
/// One instance for each thread.
pub const PER_THREAD: u32 = 2;

/// The kind of events whose kind is unknown.
pub const UNKNOWN: u8 = 255;
/// Of synchronization: the event has a second word. Of contexts: the event has a name.
pub const SECOND: u8 = 0x80;
/// Of control flow: the branch was taken.
pub const TAKEN: u8 = 1;
/// Of control flow: the target is computed.
pub const INDIRECT: u8 = 2;

/// An event.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawEvent {
    /// See [`Kind`]; or [`UNKNOWN`].
    pub kind: u8,
    /// The type of an access, synchronization, context or control flow; the format of a computation; the kind whose fields a
    /// configuration changes; the tag of an unknown event.
    pub what: u8,
    /// The fields that are present, as bits of [`Detail`]; see [`SECOND`].
    pub fields: u8,
    /// The operation of a computation; the fields of a configuration.
    pub operation: u8,
    /// Size in bytes of an access, or of a computation's result.
    pub size: u16,
    /// Number of arguments of a computation.
    pub arguments: u8,
    /// See [`TAKEN`] and [`INDIRECT`].
    pub flags: u8,
    /// The id of an access.
    pub id: u8,
    /// Ids of a computation's arguments.
    pub ids: [u8; 4],
    /// Zero.
    pub unused: [u8; 3],
    /// An address, a target, or the object of a synchronization.
    pub data: u64,
    /// The second word of synchronization.
    pub second: u64,
    /// Offset of a name in the names of the batch.
    pub name_start: u32,
    /// Length of the name in bytes.
    pub name_length: u32,
}

/// Events of one thread, in order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawBatch {
    /// Size of this structure in bytes.
    pub size: u32,
    /// Size of an event in bytes.
    pub event_size: u32,
    /// Position of the first event in the stream, from 0.
    pub first: u64,
    /// The thread.
    pub thread: u64,
    /// 1 if the thread is known.
    pub has_thread: u32,
    /// Zero.
    pub unused: u32,
    /// Number of events.
    pub n_events: u64,
    /// The events.
    pub events: *const RawEvent,
    /// A clock reading for each event, or null.
    pub clocks: *const u64,
    /// Bytes of names.
    pub names: *const c_char,
    /// Number of bytes of names.
    pub n_name_bytes: u64,
}

/// Services of the program for a tool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawHost {
    /// Size of this structure in bytes.
    pub size: u32,
    /// The version of the table that the program supports.
    pub version: u32,
    /// The first argument for `print`.
    pub context: *mut c_void,
    /// Prints a part of the results. It may be called until the process ends.
    pub print: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    /// The folder for the tool's files; or null.
    pub folder: *const c_char,
}

/// Fields that a tool uses.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawDetail {
    /// Of accesses.
    pub memory: u8,
    /// Of computations.
    pub compute: u8,
    /// Of control flow.
    pub control: u8,
    /// Of synchronization.
    pub sync: u8,
    /// Of contexts.
    pub context: u8,
}

/// Result of a tool's functions: null for success, else a text that says why the run must end. The text lives until the next
/// call.
pub type Message = *const c_char;

/// A tool.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Size of this table in bytes.
    pub size: u32,
    /// The version of the table that the tool supports.
    pub version: u32,
    /// Its name.
    pub name: *const c_char,
    /// [`ONE`], [`MANY`] or [`PER_THREAD`].
    pub instances: u32,
    /// Zero.
    pub unused: u32,
    /// Creates an instance, given the host, the options, and a place for the instance.
    pub create: Option<unsafe extern "C" fn(*const RawHost, *const c_char, *mut *mut c_void) -> Message>,
    /// Processes a batch.
    pub take: Option<unsafe extern "C" fn(*mut c_void, *const RawBatch) -> Message>,
    /// Drops an instance.
    pub destroy: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Returns the fields that the tool uses; all if there is no such function.
    pub needs: Option<unsafe extern "C" fn(*const c_void, *mut RawDetail)>,
    /// Called before the first batch.
    pub start: Option<unsafe extern "C" fn(*mut c_void) -> Message>,
    /// Called after the last batch.
    pub finish: Option<unsafe extern "C" fn(*mut c_void) -> Message>,
    /// Called once with all instances, after each of them has finished.
    pub finish_all: Option<unsafe extern "C" fn(*const *mut c_void, usize) -> Message>,
}

// SAFETY: a table is constant, and its name a constant string.
unsafe impl std::marker::Sync for Table {}

impl From<Detail> for RawDetail {
    fn from(detail: Detail) -> RawDetail {
        let Detail { memory, compute, control, sync, context } = detail;
        RawDetail { memory, compute, control, sync, context }
    }
}

impl From<RawDetail> for Detail {
    fn from(detail: RawDetail) -> Detail {
        let RawDetail { memory, compute, control, sync, context } = detail;
        Detail { memory, compute, control, sync, context }
    }
}

/// Returns `bit` if the event has the field, else 0.
#[inline]
fn field(has: bool, bit: u8) -> u8 {
    if has { bit } else { 0 }
}

/// The value of a field that the event has and the tool asks for, else 0.
#[inline]
fn kept<T: Default>(bit: u8, value: Option<T>) -> T {
    if bit != 0 { value.unwrap_or_default() } else { T::default() }
}

impl RawEvent {
    /// Converts an event of a batch with names of this many bytes, with only the fields that a tool asks for.
    ///
    /// PERF: each event is built where it stays; to copy it, or to change it afterwards, would wait for its bytes to be stored.
    #[must_use]
    #[inline]
    pub fn of(event: &Event, asked: &Detail, n_name_bytes: u64) -> RawEvent {
        let none = RawEvent::default();
        match *event {
            Event::Memory(Memory { access, size, address, id }) => {
                let fields = field(access.is_some(), Detail::TYPE)
                    | field(size.is_some(), Detail::SIZE)
                    | field(address.is_some(), Detail::ADDRESS)
                    | field(id.is_some(), Detail::ID);
                let fields = fields & asked.memory;
                RawEvent {
                    kind: Kind::Memory as u8,
                    what: kept(fields & Detail::TYPE, access),
                    fields,
                    size: kept(fields & Detail::SIZE, size),
                    id: kept(fields & Detail::ID, id),
                    data: kept(fields & Detail::ADDRESS, address),
                    ..none
                }
            }
            Event::Compute(Compute { format, width, operation, arguments, ids }) => {
                let fields = field(format.is_some(), Detail::TYPE)
                    | field(width.is_some(), Detail::SIZE)
                    | field(operation.is_some(), Detail::OPERATION)
                    | field(arguments.is_some(), Detail::ARITY)
                    | field(ids.is_some(), Detail::IDS);
                let fields = fields & asked.compute;
                RawEvent {
                    kind: Kind::Compute as u8,
                    what: kept(fields & Detail::TYPE, format),
                    fields,
                    size: kept(fields & Detail::SIZE, width),
                    operation: kept(fields & Detail::OPERATION, operation),
                    arguments: kept(fields & Detail::ARITY, arguments),
                    ids: kept(fields & Detail::IDS, ids),
                    ..none
                }
            }
            Event::Control(Control { kind, taken, indirect, target }) => {
                let fields = field(kind.is_some(), Detail::TYPE)
                    | field(taken.is_some(), Detail::TAKEN)
                    | field(target.is_some(), Detail::TARGET)
                    | field(indirect.is_some(), Detail::INDIRECT);
                let fields = fields & asked.control;
                let is_taken = kept(fields & Detail::TAKEN, taken);
                let is_indirect = kept(fields & Detail::INDIRECT, indirect);
                RawEvent {
                    kind: Kind::Control as u8,
                    what: kept(fields & Detail::TYPE, kind),
                    fields,
                    flags: field(is_taken, TAKEN) | field(is_indirect, INDIRECT),
                    data: kept(fields & Detail::TARGET, target),
                    ..none
                }
            }
            Event::Sync(Sync { kind, data, second }) => RawEvent {
                kind: Kind::Sync as u8,
                what: kind,
                fields: field(second.is_some(), SECOND),
                data,
                second: second.unwrap_or(0),
                ..none
            },
            Event::Context(Context { kind, place }) => {
                let kind_of = Kind::Context as u8;
                match place {
                    Place::Address(data) => RawEvent { kind: kind_of, what: kind, data, ..none },
                    Place::Name(Name { start, len }) => {
                        // A tool in C would read beyond the end of the names.
                        let is_there = u64::from(start) + u64::from(len) <= n_name_bytes;
                        let (name_start, name_length) = if is_there { (start, len) } else { (0, 0) };
                        RawEvent {
                            kind: kind_of,
                            what: kind,
                            fields: SECOND,
                            name_start,
                            name_length,
                            ..none
                        }
                    }
                }
            }
            Event::Config(Config { kind, fields }) => {
                RawEvent { kind: Kind::Config as u8, what: kind as u8, operation: fields, ..none }
            }
            Event::Unknown(tag) => RawEvent { kind: UNKNOWN, what: tag, ..none },
        }
    }

    /// Converts the raw event back.
    #[must_use]
    #[inline]
    pub fn event(&self) -> Event {
        let has = |bit: u8| self.fields & bit != 0;
        match Kind::of(self.kind) {
            Some(Kind::Memory) => Event::Memory(Memory {
                access: has(Detail::TYPE).then_some(self.what),
                size: has(Detail::SIZE).then_some(self.size),
                address: has(Detail::ADDRESS).then_some(self.data),
                id: has(Detail::ID).then_some(self.id),
            }),
            Some(Kind::Compute) => Event::Compute(Compute {
                format: has(Detail::TYPE).then_some(self.what),
                width: has(Detail::SIZE).then_some(self.size),
                operation: has(Detail::OPERATION).then_some(self.operation),
                arguments: has(Detail::ARITY).then_some(self.arguments),
                ids: has(Detail::IDS).then_some(self.ids),
            }),
            Some(Kind::Control) => Event::Control(Control {
                kind: has(Detail::TYPE).then_some(self.what),
                taken: has(Detail::TAKEN).then_some(self.flags & TAKEN != 0),
                indirect: has(Detail::INDIRECT).then_some(self.flags & INDIRECT != 0),
                target: has(Detail::TARGET).then_some(self.data),
            }),
            Some(Kind::Sync) => {
                let second = has(SECOND).then_some(self.second);
                Event::Sync(Sync { kind: self.what, data: self.data, second })
            }
            Some(Kind::Context) => {
                let name = Name { start: self.name_start, len: self.name_length };
                let place = if has(SECOND) { Place::Name(name) } else { Place::Address(self.data) };
                Event::Context(Context { kind: self.what, place })
            }
            Some(Kind::Config) => match Kind::of(self.what) {
                Some(kind) => Event::Config(Config { kind, fields: self.operation }),
                None => Event::Unknown(self.what),
            },
            None => Event::Unknown(self.what),
        }
    }
}
