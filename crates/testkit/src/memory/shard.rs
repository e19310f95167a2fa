//! One shard of a trace in memory: a list of items, most of them records.

use quipu_model::lens::{AccessKind, CallEdge, InstrClass, Taken, ThreadEvent, instr_flags};
use quipu_model::{Severity, Shard, ShardId, ShardKind, ThreadId};

/// One record, in the form that tools see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An executed instruction.
    Instr(Instr),
    /// A memory access by the last instruction.
    Access {
        /// Kind of the access.
        kind: AccessKind,
        /// Address of the first byte accessed.
        addr: u64,
        /// Number of bytes accessed.
        size: u32,
    },
    /// An event of the thread.
    Thread {
        /// Kind of the event.
        what: ThreadEvent,
        /// Its value.
        value: u64,
    },
    /// A named moment.
    Mark {
        /// Kind of the mark.
        kind: u32,
        /// Its value.
        value: u64,
    },
    /// A function entered (the values are its arguments) or left (the value is its result).
    Call {
        /// The function's id.
        function: u64,
        /// Entered or left.
        edge: CallEdge,
        /// Arguments or result.
        values: Vec<u64>,
    },
}

impl Record {
    /// True if the record counts as an instruction.
    pub fn is_instr(&self) -> bool {
        matches!(self, Record::Instr(instr) if instr.flags & instr_flags::NO_FETCH == 0)
    }

    /// The clock, if the record is a reading.
    pub fn clock(&self) -> Option<u64> {
        match self {
            Record::Thread { what: ThreadEvent::Clock, value } => Some(*value),
            _ => None,
        }
    }
}

/// An executed instruction; see [`Instrs`](quipu_model::lens::Instrs) for the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instr {
    /// Address.
    pub pc: u64,
    /// Length in bytes.
    pub size: u16,
    /// Bits of [`instr_flags`].
    pub flags: u8,
    /// Class of control flow.
    pub class: InstrClass,
    /// Outcome of a branch.
    pub taken: Taken,
    /// Target of an indirect branch; otherwise 0.
    pub target: u64,
    /// The encoding; empty if the trace does not have it.
    pub bytes: Vec<u8>,
}

impl Instr {
    /// An instruction that falls through, without an encoding.
    pub fn new(pc: u64, size: u16) -> Instr {
        Instr { pc, size, flags: 0, class: InstrClass::Other, taken: Taken::No, target: 0, bytes: Vec::new() }
    }
}

/// An item of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Record(Record),
    Thread { thread: ThreadId, process: u64 },
    Piece,
    Finding(Severity, String),
    Fault(String),
    Crash(String),
}

/// One shard, built item by item.
#[derive(Clone, Debug, Default)]
pub struct MemoryShard {
    name: String,
    kind: ShardKind,
    core: Option<u64>,
    packed_bytes: Option<u64>,
    begins: Option<u64>,
    pub(super) items: Vec<Item>,
}

impl MemoryShard {
    /// An empty shard of one thread.
    pub fn new(name: impl Into<String>) -> MemoryShard {
        MemoryShard { name: name.into(), ..MemoryShard::default() }
    }

    /// The records of the shard, without the items between them.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.items.iter().filter_map(|item| match item {
            Item::Record(record) => Some(record),
            _ => None,
        })
    }

    /// Sets the property that the records have in common.
    pub fn kind(mut self, kind: ShardKind) -> MemoryShard {
        self.kind = kind;
        self
    }

    /// Makes the shard that of a core with this number.
    pub fn core(mut self, number: u64) -> MemoryShard {
        (self.kind, self.core) = (ShardKind::Core, Some(number));
        self
    }

    /// Sets a clock reading that precedes all records.
    pub fn begins(mut self, clock: u64) -> MemoryShard {
        self.begins = Some(clock);
        self
    }

    /// Sets the size that the shard pretends to have on disk.
    pub fn packed_bytes(mut self, bytes: u64) -> MemoryShard {
        self.packed_bytes = Some(bytes);
        self
    }

    /// Adds a record.
    pub fn record(self, record: Record) -> MemoryShard {
        self.item(Item::Record(record))
    }

    /// Makes the following records belong to this thread.
    pub fn thread(self, thread: u64, process: u64) -> MemoryShard {
        self.thread_of(thread.into(), process)
    }

    /// The same for a thread of any workload.
    pub fn thread_of(self, thread: ThreadId, process: u64) -> MemoryShard {
        self.item(Item::Thread { thread, process })
    }

    /// Begins a new piece with the following records.
    pub fn piece(self) -> MemoryShard {
        self.item(Item::Piece)
    }

    /// Adds an instruction that falls through, without an encoding.
    pub fn instr(self, pc: u64, size: u16) -> MemoryShard {
        self.record(Record::Instr(Instr::new(pc, size)))
    }

    /// Adds an instruction that falls through, with its encoding.
    pub fn code(self, pc: u64, bytes: &[u8]) -> MemoryShard {
        let size = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        self.record(Record::Instr(Instr { bytes: bytes.to_vec(), ..Instr::new(pc, size) }))
    }

    /// Adds a load by the last instruction.
    pub fn read(self, addr: u64, size: u32) -> MemoryShard {
        self.record(Record::Access { kind: AccessKind::Read, addr, size })
    }

    /// Adds a store by the last instruction.
    pub fn write(self, addr: u64, size: u32) -> MemoryShard {
        self.record(Record::Access { kind: AccessKind::Write, addr, size })
    }

    /// Adds a clock reading.
    pub fn clock(self, ticks: u64) -> MemoryShard {
        self.record(Record::Thread { what: ThreadEvent::Clock, value: ticks })
    }

    /// Adds a mark.
    pub fn mark(self, kind: u32, value: u64) -> MemoryShard {
        self.record(Record::Mark { kind, value })
    }

    /// Makes the reader report a finding of rule `memory/finding` here.
    pub fn finding(self, severity: Severity, message: impl Into<String>) -> MemoryShard {
        self.item(Item::Finding(severity, message.into()))
    }

    /// Makes the reader fail here, as at permanent damage in a file.
    pub fn fault(self, message: impl Into<String>) -> MemoryShard {
        self.item(Item::Fault(message.into()))
    }

    /// Makes the reader panic here, like a reader with a bug.
    pub fn crash(self, message: impl Into<String>) -> MemoryShard {
        self.item(Item::Crash(message.into()))
    }

    pub(super) fn item(mut self, item: Item) -> MemoryShard {
        self.items.push(item);
        self
    }

    /// Number of pieces: one more than the number of items that begin one.
    pub(super) fn n_pieces(&self) -> u32 {
        let marks = self.items.iter().filter(|item| **item == Item::Piece).count();
        u32::try_from(marks).unwrap_or(u32::MAX).saturating_add(1)
    }

    pub(super) fn info(&self, position: usize) -> Shard {
        let first = self.items.iter().find_map(|item| match item {
            Item::Thread { thread, process } => Some((*thread, *process)),
            _ => None,
        });
        Shard {
            core: self.core,
            id: ShardId(u32::try_from(position).unwrap_or(u32::MAX)),
            name: self.name.clone(),
            kind: self.kind,
            thread: first.map(|(thread, _)| thread),
            process: first.map(|(_, process)| process),
            pieces: self.n_pieces(),
            packed_bytes: self.packed_bytes,
            begins: self.begins,
            ..Shard::default()
        }
    }
}
