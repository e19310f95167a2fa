//! Events, the same for both encodings.
//!
//! Codes stay numbers, so that unknown ones can be shown and written again. A field that a stream does not carry is absent.
//!
//! SPEC: prism.md#kinds-and-codes

/// What an event is about, numbered as in the variable encoding.
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
    /// The level of detail changes.
    Config = 5,
}

impl Kind {
    /// The kind of a number.
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
    /// The following events belong to the thread that `data` names.
    pub const SWAP: u8 = 5;
    /// A mutex is locked.
    pub const LOCK: u8 = 6;
    /// A mutex is unlocked.
    pub const UNLOCK: u8 = 7;
    /// A condition is awaited; the mutex is the second word.
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
    /// A net of machine learning is entered: the first of four types with names that only the variable encoding has.
    pub const NET_ENTER: u8 = 6;
    /// An operator of machine learning is left: the last type.
    pub const OPERATOR_EXIT: u8 = 9;

    /// Whether contexts of this type have a name; the others have an address or id.
    #[must_use]
    pub fn is_named(kind: u8) -> bool {
        matches!(kind, ENTER | EXIT | NET_ENTER..=OPERATOR_EXIT)
    }
}

/// Types of control flow. Prism numbered the first two and never produced any.
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
    /// Bytes.
    pub size: Option<u16>,
    /// The first byte.
    pub address: Option<u64>,
    /// A number for the data, which computations refer to.
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
    /// Bytes of the result.
    pub width: Option<u16>,
    /// 1 add, 2 subtract, 3 multiply, 4 divide, 5 shift, 6 move.
    pub operation: Option<u8>,
    /// How many arguments there are.
    pub arguments: Option<u8>,
    /// Ids of the first arguments, as many as there are.
    pub ids: Option<[u8; 4]>,
}

/// A call of a thread library, or a switch of the current thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sync {
    /// See [`sync`](mod@sync).
    pub kind: u8,
    /// A thread's handle or number, or the address of an object.
    pub data: u64,
    /// The mutex of a condition.
    pub second: Option<u64>,
}

/// Bytes in a batch's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Name {
    /// Where the name begins.
    pub start: u32,
    /// How long it is.
    pub len: u32,
}

/// Where a program is.
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
    /// Which one.
    pub place: Place,
}

/// A jump, branch, call or return.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Control {
    /// See [`control`].
    pub kind: Option<u8>,
    /// Whether it was taken.
    pub taken: Option<bool>,
    /// Whether its target is computed.
    pub indirect: Option<bool>,
    /// Where it leads.
    pub target: Option<u64>,
}

/// A change of the level of detail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// The kind whose events change.
    pub kind: Kind,
    /// Which fields they have from here on: see [`Detail`](crate::Detail).
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
    /// An event of an unknown kind: its tag in the fixed encoding, the only one where a reader can pass over it.
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
