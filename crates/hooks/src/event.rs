//! Events, in the same form for both encodings.
//!
//! Codes remain numbers, so that unknown ones can be shown and written again. A field that a stream does not carry is `None`.
//!
//! SPEC: prism.md#kinds-and-codes

/// The kind of an event, numbered as in the variable encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A load or store.
    Memory = 0,
    /// An operation on data.
    Compute = 1,
    /// A call of a thread library, or a switch of the current thread.
    Sync = 2,
    /// The border of an instruction, block, function or thread.
    Context = 3,
    /// A jump, branch, call or return.
    Control = 4,
    /// A change of the level of detail.
    Config = 5,
}

impl Kind {
    /// The kind with this number.
    #[must_use]
    pub fn of(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::Memory,
            1 => Kind::Compute,
            2 => Kind::Sync,
            3 => Kind::Context,
            4 => Kind::Control,
            5 => Kind::Config,
            _ => return None,
        })
    }
}

/// Types of accesses.
pub mod access {
    /// A load.
    pub const LOAD: u8 = 1;
    /// A store.
    pub const STORE: u8 = 2;
}

/// Formats of computations.
pub mod format {
    /// On integers.
    pub const INTEGER: u8 = 1;
    /// On floating-point numbers.
    pub const FLOAT: u8 = 2;
}

/// Types of synchronization.
pub mod sync {
    /// A thread is created.
    pub const CREATE: u8 = 1;
    /// A thread is joined.
    pub const JOIN: u8 = 2;
    /// A thread arrives at a barrier.
    pub const BARRIER: u8 = 3;
    /// A synchronization without a type of its own.
    pub const SYNC: u8 = 4;
    /// The following events belong to the thread in `data`.
    pub const SWAP: u8 = 5;
    /// A mutex is locked.
    pub const LOCK: u8 = 6;
    /// A mutex is unlocked.
    pub const UNLOCK: u8 = 7;
    /// A condition is awaited; the second word is the mutex.
    pub const WAIT: u8 = 8;
    /// A condition is signalled.
    pub const SIGNAL: u8 = 9;
    /// A condition is signalled to all.
    pub const BROADCAST: u8 = 10;
    /// A spin lock is locked.
    pub const SPIN_LOCK: u8 = 11;
    /// A spin lock is unlocked.
    pub const SPIN_UNLOCK: u8 = 12;
}

/// Types of contexts.
pub mod context {
    /// An instruction begins.
    pub const INSTRUCTION: u8 = 1;
    /// A basic block begins.
    pub const BLOCK: u8 = 2;
    /// A function is entered.
    pub const ENTER: u8 = 3;
    /// A function is left.
    pub const EXIT: u8 = 4;
    /// A thread begins.
    pub const THREAD: u8 = 5;
    /// A net of machine learning is entered: the first of four types with names that exist only in the variable encoding.
    pub const NET_ENTER: u8 = 6;
    /// An operator of machine learning is left: the last of these types.
    pub const OPERATOR_EXIT: u8 = 9;

    /// Whether contexts of this type have a name; the others have an address or id.
    #[must_use]
    pub fn is_named(kind: u8) -> bool {
        matches!(kind, ENTER | EXIT | NET_ENTER..=OPERATOR_EXIT)
    }
}

/// Types of control flow. Prism numbered the first two and never produced any of them.
pub mod control {
    /// A jump that is always taken.
    pub const JUMP: u8 = 1;
    /// A branch that may be taken.
    pub const BRANCH: u8 = 2;
    /// A call.
    pub const CALL: u8 = 3;
    /// A return.
    pub const RETURN: u8 = 4;
}

/// A load or store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// See [`access`].
    pub access: Option<u8>,
    /// Size in bytes.
    pub size: Option<u16>,
    /// Address of the first byte.
    pub address: Option<u64>,
    /// An id of the data, to which computations refer.
    pub id: Option<u8>,
}

impl Memory {
    /// Whether this is a load.
    #[must_use]
    #[inline]
    pub fn is_load(&self) -> bool {
        self.access == Some(access::LOAD)
    }

    /// Whether this is a store.
    #[must_use]
    #[inline]
    pub fn is_store(&self) -> bool {
        self.access == Some(access::STORE)
    }
}

/// An operation on data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compute {
    /// See [`format`](mod@format).
    pub format: Option<u8>,
    /// Size of the result in bytes.
    pub width: Option<u16>,
    /// 1 add, 2 subtract, 3 multiply, 4 divide, 5 shift, 6 move.
    pub operation: Option<u8>,
    /// Number of arguments.
    pub arguments: Option<u8>,
    /// Ids of the first four arguments, as far as there are that many.
    pub ids: Option<[u8; 4]>,
}

/// A call of a thread library, or a switch of the current thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sync {
    /// See [`sync`](mod@sync).
    pub kind: u8,
    /// A thread's handle or number, or the address of an object.
    pub data: u64,
    /// The mutex, if `data` is a condition.
    pub second: Option<u64>,
}

/// The range of a name in the batch's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Name {
    /// Offset of the name.
    pub start: u32,
    /// Length of the name in bytes.
    pub len: u32,
}

/// A place in a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// An address, or the id of a thread.
    Address(u64),
    /// A name, see [`Batch::name`](crate::Batch::name).
    Name(Name),
}

/// The border of an instruction, block, function or thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context {
    /// See [`context`](mod@context).
    pub kind: u8,
    /// The place of the instruction, block or function, or the thread.
    pub place: Place,
}

/// A jump, branch, call or return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Control {
    /// See [`control`].
    pub kind: Option<u8>,
    /// Whether the branch was taken.
    pub taken: Option<bool>,
    /// Whether the target is computed.
    pub indirect: Option<bool>,
    /// The target.
    pub target: Option<u64>,
}

/// A change of the level of detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The kind whose events change.
    pub kind: Kind,
    /// The fields that its events have from here on: see [`Detail`](crate::Detail).
    pub fields: u8,
}

/// An event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A load or store.
    Memory(Memory),
    /// An operation on data.
    Compute(Compute),
    /// A call of a thread library, or a switch of the current thread.
    Sync(Sync),
    /// The border of an instruction, block, function or thread.
    Context(Context),
    /// A jump, branch, call or return.
    Control(Control),
    /// A change of the level of detail.
    Config(Config),
    /// An event of an unknown kind, with its tag. Only in the fixed encoding can a reader skip it.
    Unknown(u8),
}

impl Event {
    /// The thread that this event makes the current one.
    #[must_use]
    #[inline]
    pub fn swap(&self) -> Option<u64> {
        match self {
            Event::Sync(Sync { kind: sync::SWAP, data, .. }) => Some(*data),
            _ => None,
        }
    }
}
