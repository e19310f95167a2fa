//! The metadata of recordings, which describe their rows. SPEC: stream.md#metadata, stream.md#cells.
//!
//! All recordings describe the same rows, so [`DESCRIPTION`] and its checksum are computed at compile time. Each process adds
//! three short records, and each thread one.

use crate::cell::{access, atomic, heap, sync, text};
use crate::checksum;
use crate::layout::{encoding, process};

/// Name of the encoding, by which recordings are recognised.
pub const ENCODING_NAME: &str = "quipu.cells";
/// Version of the encoding.
pub const VERSION: u64 = 1;

/// Ids of schemas.
#[allow(missing_docs, reason = "they are called as the tables are")]
pub mod schema {
    pub const PROCESS: u32 = 16;
    pub const ACCESS: u32 = 17;
    pub const RANGE: u32 = 18;
    pub const ENTER: u32 = 19;
    pub const LEAVE: u32 = 20;
    pub const ATOMIC: u32 = 21;
    pub const ALLOC: u32 = 22;
    pub const FREE: u32 = 23;
    pub const TYPED: u32 = 24;
    pub const UNTYPED: u32 = 25;
    pub const SYNC: u32 = 26;
    pub const TEXT: u32 = 27;
    pub const MODULE: u32 = 28;
    pub const UNWRITTEN: u32 = 29;
    pub const UNKNOWN: u32 = 30;
}

/// Categories of schemas, which say more about their rows than roles do.
pub mod category {
    /// Accesses to memory ranges of any length.
    pub const RANGE: &str = "range";
    /// Memory is given a type, or allocated.
    pub const REGION_BEGINS: &str = "region-begins";
    /// Memory loses its type, or is freed.
    pub const REGION_ENDS: &str = "region-ends";
    /// Synchronization of threads.
    pub const SYNC: &str = "sync";
}

/// Ids of types.
mod ty {
    pub(super) const U64: u64 = 1;
    pub(super) const ADDRESS: u64 = 2;
    pub(super) const TEXT: u64 = 3;
    pub(super) const U8: u64 = 4;
    pub(super) const BOOL: u64 = 5;
    pub(super) const KIND: u64 = 6;
    pub(super) const FLAGS: u64 = 7;
    pub(super) const OPERATION: u64 = 8;
    pub(super) const ORDER: u64 = 9;
    pub(super) const CALL: u64 = 10;
    pub(super) const SYNC: u64 = 11;
    pub(super) const WHICH: u64 = 12;
    pub(super) const WHAT: u64 = 13;
}

/// Roles of fields.
mod role {
    pub(super) const NONE: u64 = 0;
    pub(super) const PROCESS: u64 = 3;
    pub(super) const PC: u64 = 5;
    pub(super) const ADDRESS: u64 = 6;
    pub(super) const SIZE: u64 = 7;
    pub(super) const KIND: u64 = 8;
    pub(super) const ARGUMENT: u64 = 11;
    pub(super) const FUNCTION: u64 = 12;
    pub(super) const COUNT: u64 = 16;
}

/// A field: name, type, role. In schemas for plain rows, its offset follows from its position.
#[derive(Debug)]
struct Field(&'static str, u64, u64);

/// A schema.
#[derive(Debug)]
struct Schema {
    id: u32,
    name: &'static str,
    category: &'static str,
    /// 1: begins a span; 2: ends one.
    flags: u64,
    fields: &'static [Field],
}

const PC: Field = Field("pc", ty::ADDRESS, role::PC);
const ADDR: Field = Field("addr", ty::ADDRESS, role::ADDRESS);
const SIZE: Field = Field("size", ty::U64, role::SIZE);
const KIND: Field = Field("kind", ty::KIND, role::KIND);
const FLAGS: Field = Field("flags", ty::FLAGS, role::NONE);
const STAMP: Field = Field("stamp", ty::U64, role::NONE);
const CALL: Field = Field("call", ty::CALL, role::NONE);
const FUNCTION: Field = Field("function", ty::ADDRESS, role::FUNCTION);
const ELEMENT_BYTES: Field = Field("element_bytes", ty::U64, role::NONE);
const ELEMENTS: Field = Field("elements", ty::U64, role::COUNT);

const SCHEMAS: &[Schema] = &[
    Schema {
        id: schema::PROCESS,
        name: "process",
        category: "",
        flags: 0,
        fields: &[
            Field("what", ty::WHAT, role::NONE),
            Field("ns", ty::U64, role::NONE),
            Field("pid", ty::U64, role::PROCESS),
            Field("parent", ty::U64, role::NONE),
        ],
    },
    Schema {
        id: schema::ACCESS,
        name: "access",
        category: "",
        flags: 0,
        fields: &[PC, ADDR, SIZE, KIND, FLAGS],
    },
    Schema {
        id: schema::RANGE,
        name: "range",
        category: category::RANGE,
        flags: 0,
        fields: &[PC, ADDR, SIZE, KIND, FLAGS],
    },
    Schema {
        id: schema::ENTER,
        name: "enter",
        category: "",
        flags: 1,
        fields: &[FUNCTION, Field("caller", ty::ADDRESS, role::ARGUMENT)],
    },
    Schema { id: schema::LEAVE, name: "leave", category: "", flags: 2, fields: &[FUNCTION] },
    Schema {
        id: schema::ATOMIC,
        name: "atomic",
        category: "",
        flags: 0,
        fields: &[
            PC,
            ADDR,
            SIZE,
            KIND,
            Field("operation", ty::OPERATION, role::NONE),
            Field("order", ty::ORDER, role::NONE),
            Field("succeeded", ty::BOOL, role::NONE),
            Field("expected", ty::ADDRESS, role::NONE),
            STAMP,
        ],
    },
    Schema {
        id: schema::ALLOC,
        name: "alloc",
        category: category::REGION_BEGINS,
        flags: 0,
        fields: &[PC, ADDR, ELEMENT_BYTES, ELEMENTS, CALL, STAMP],
    },
    Schema {
        id: schema::FREE,
        name: "free",
        category: category::REGION_ENDS,
        flags: 0,
        fields: &[PC, ADDR, CALL, STAMP],
    },
    Schema {
        id: schema::TYPED,
        name: "typed",
        category: category::REGION_BEGINS,
        flags: 0,
        fields: &[PC, ADDR, ELEMENT_BYTES, ELEMENTS, Field("type", ty::TEXT, role::NONE), STAMP],
    },
    Schema {
        id: schema::UNTYPED,
        name: "untyped",
        category: category::REGION_ENDS,
        flags: 0,
        fields: &[PC, ADDR, STAMP],
    },
    Schema {
        id: schema::SYNC,
        name: "sync",
        category: category::SYNC,
        flags: 0,
        fields: &[
            PC,
            Field("object", ty::ADDRESS, role::NONE),
            Field("what", ty::SYNC, role::NONE),
            Field("value", ty::U64, role::NONE),
            Field("value2", ty::U64, role::NONE),
            STAMP,
        ],
    },
    Schema {
        id: schema::TEXT,
        name: "text",
        category: "",
        flags: 0,
        fields: &[
            Field("which", ty::WHICH, role::NONE),
            Field("object", ty::ADDRESS, role::NONE),
            Field("text", ty::TEXT, role::NONE),
        ],
    },
    Schema {
        id: schema::MODULE,
        name: "module",
        category: "",
        flags: 0,
        fields: &[
            Field("base", ty::ADDRESS, role::NONE),
            Field("bytes", ty::U64, role::NONE),
            Field("file", ty::TEXT, role::NONE),
        ],
    },
    Schema { id: schema::UNWRITTEN, name: "unwritten", category: "", flags: 0, fields: &[] },
    Schema {
        id: schema::UNKNOWN,
        name: "unknown",
        category: "",
        flags: 0,
        fields: &[Field("kind", ty::U8, role::NONE)],
    },
];

/// A table of recordings.
#[derive(Clone, Copy, Debug)]
pub struct Table(&'static Schema);

impl Table {
    /// Name of the table.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// [Category](category) of the table, if it has one.
    #[must_use]
    pub fn category(self) -> Option<&'static str> {
        Some(self.0.category).filter(|category| !category.is_empty())
    }

    /// The names of its fields.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        self.0.fields.iter().map(|field| field.0)
    }
}

/// The tables that every recording describes.
pub fn tables() -> impl Iterator<Item = Table> {
    SCHEMAS.iter().map(Table)
}

type Names = &'static [(u64, &'static str)];

const KINDS: Names = &[(0, "read"), (1, "write")];

/// Flags of accesses in rows.
pub mod access_flag {
    /// The compiler could not prove that the access is aligned.
    pub const UNALIGNED: u8 = 1;
    /// An access to a volatile object.
    pub const VOLATILE: u8 = 2;
    /// An access to a pointer to a virtual table.
    pub const VPTR: u8 = 4;
}

/// Converts the bits of an access code to the flags in rows.
#[must_use]
pub const fn access_flags(code: u16) -> u8 {
    (if code & access::UNALIGNED != 0 { access_flag::UNALIGNED } else { 0 })
        | (if code & access::VOLATILE != 0 { access_flag::VOLATILE } else { 0 })
        | (if code & access::VPTR != 0 { access_flag::VPTR } else { 0 })
}

const ACCESS_FLAGS: Names = &[
    (access_flag::UNALIGNED as u64, "unaligned"),
    (access_flag::VOLATILE as u64, "volatile"),
    (access_flag::VPTR as u64, "vtable-pointer"),
];

/// Names of atomic operations.
pub const OPERATIONS: &[(u64, &str)] = &[
    (atomic::LOAD as u64, "load"),
    (atomic::STORE as u64, "store"),
    (atomic::EXCHANGE as u64, "exchange"),
    (atomic::ADD as u64, "add"),
    (atomic::SUB as u64, "sub"),
    (atomic::AND as u64, "and"),
    (atomic::OR as u64, "or"),
    (atomic::XOR as u64, "xor"),
    (atomic::NAND as u64, "nand"),
    (atomic::COMPARE_VAL as u64, "compare"),
    (atomic::COMPARE as u64, "compare-pointer"),
];

/// Names of memory orders.
pub const ORDERS: &[(u64, &str)] =
    &[(0, "relaxed"), (1, "consume"), (2, "acquire"), (3, "release"), (4, "acq-rel"), (5, "seq-cst")];

const CALLS: Names = &[
    (heap::MALLOC, "malloc"),
    (heap::CALLOC, "calloc"),
    (heap::REALLOC, "realloc"),
    (heap::ALIGNED, "aligned"),
    (heap::NEW, "new"),
    (heap::REALLOC_FAILED, "realloc-failed"),
];

/// Names of synchronization operations.
pub const SYNCS: &[(u64, &str)] = &[
    (sync::START, "thread-start"),
    (sync::END, "thread-end"),
    (sync::CREATE, "thread-create"),
    (sync::JOIN, "thread-join"),
    (sync::LOCK, "lock"),
    (sync::UNLOCK, "unlock"),
    (sync::LOCK_FAILED, "lock-failed"),
    (sync::WAIT, "wait"),
    (sync::WOKEN, "woken"),
    (sync::SIGNAL, "signal"),
    (sync::BROADCAST, "broadcast"),
    (sync::ARRIVE, "barrier-arrive"),
    (sync::PASS, "barrier-pass"),
    (sync::POST, "post"),
    (sync::TAKE, "take"),
    (sync::RELEASE, "release"),
    (sync::ACQUIRE, "acquire"),
    (sync::FENCE, "fence"),
    (sync::SIGNAL_FENCE, "signal-fence"),
    (sync::MUTEX_CREATE, "mutex-create"),
    (sync::MUTEX_DESTROY, "mutex-destroy"),
    (sync::FIBER_CREATE, "fiber-create"),
    (sync::FIBER_DESTROY, "fiber-destroy"),
    (sync::FIBER_SWITCH, "fiber-switch"),
    (sync::FORK, "fork"),
    (sync::PAUSE, "pause"),
    (sync::RESUME, "resume"),
    (sync::CONTEXT_SAVE, "context-save"),
    (sync::CONTEXT_RESTORE, "context-restore"),
    (sync::CONTEXT_MAKE, "context-make"),
];

const TEXTS: Names = &[(text::THREAD, "thread-name"), (text::FIBER, "fiber-name"), (text::MARK, "mark")];

const PROCESSES: Names = &[
    (process::BEGAN, "began"),
    (process::EXITED, "exited"),
    (process::SIZE_REACHED, "size-reached"),
    (process::DISK_FULL, "disk-full"),
];

/// Numbers of kinds of types in metadata.
mod type_kind {
    pub(super) const UINT: u64 = 1;
    pub(super) const BOOL: u64 = 4;
    pub(super) const TEXT: u64 = 6;
    pub(super) const ENUM: u64 = 8;
    pub(super) const FLAGS: u64 = 9;
    pub(super) const ADDRESS: u64 = 16;
}

/// Writes canonical CBOR, also at compile time.
#[derive(Clone, Debug)]
pub struct Writer<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Default for Writer<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> Writer<N> {
    /// Creates an empty writer.
    #[must_use]
    pub const fn new() -> Self {
        Writer { bytes: [0; N], len: 0 }
    }

    /// The bytes written. Bytes beyond `N` are dropped; everything that this module writes fits.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len.min(N)]
    }

    const fn byte(&mut self, byte: u8) {
        if self.len < N {
            self.bytes[self.len] = byte;
        }
        self.len += 1;
    }

    const fn head(&mut self, major: u8, value: u64) {
        let n_more = match value {
            0..24 => 0,
            24..0x100 => 1,
            0x100..0x1_0000 => 2,
            0x1_0000..0x1_0000_0000 => 4,
            _ => 8,
        };
        let short = match n_more {
            0 => value as u8,
            1 => 24,
            2 => 25,
            4 => 26,
            _ => 27,
        };
        self.byte(major << 5 | short);
        let mut left = n_more;
        while left > 0 {
            left -= 1;
            self.byte((value >> (8 * left)) as u8);
        }
    }

    const fn uint(&mut self, value: u64) {
        self.head(0, value);
    }

    const fn raw(&mut self, major: u8, bytes: &[u8]) {
        self.head(major, bytes.len() as u64);
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    const fn text(&mut self, text: &str) {
        self.raw(3, text.as_bytes());
    }

    const fn array(&mut self, n: usize) {
        self.head(4, n as u64);
    }

    const fn map(&mut self, n: usize) {
        self.head(5, n as u64);
    }

    /// Writes a key and an integer value.
    const fn pair(&mut self, key: u64, value: u64) {
        self.uint(key);
        self.uint(value);
    }

    const fn number(&mut self, id: u64, kind: u64, bits: u64) {
        self.map(if bits > 0 { 4 } else { 3 });
        self.pair(0, 4);
        self.pair(1, id);
        self.pair(3, kind);
        if bits > 0 {
            self.pair(4, bits);
        }
    }

    const fn named(&mut self, id: u64, kind: u64, base: u64, names: Names) {
        self.map(5);
        self.pair(0, 4);
        self.pair(1, id);
        self.pair(3, kind);
        self.pair(4, base);
        self.uint(5);
        self.array(names.len());
        let mut at = 0;
        while at < names.len() {
            self.array(2);
            self.uint(names[at].0);
            self.text(names[at].1);
            at += 1;
        }
    }

    const fn schema(&mut self, schema: &Schema) {
        // Only rows of the process are stored as plain rows, with consecutive 8-byte fields.
        let is_plain = schema.id == schema::PROCESS;
        let has_category = !schema.category.is_empty();
        self.map(4 + has_category as usize + (schema.flags > 0) as usize);
        self.pair(0, 5);
        self.pair(1, schema.id as u64);
        self.uint(2);
        self.text(schema.name);
        self.uint(3);
        self.array(schema.fields.len());
        let mut at = 0;
        while at < schema.fields.len() {
            let Field(name, ty, role) = schema.fields[at];
            let is_delta = matches!(ty, ty::U64 | ty::ADDRESS);
            self.map(2 + is_plain as usize + (role > 0) as usize + is_delta as usize);
            self.uint(0);
            self.text(name);
            self.pair(1, ty);
            if is_plain {
                self.pair(2, 8 * at as u64);
            }
            if role > 0 {
                self.pair(3, role);
            }
            if is_delta {
                self.pair(5, 1);
            }
            at += 1;
        }
        if has_category {
            self.uint(7);
            self.text(schema.category);
        }
        if schema.flags > 0 {
            self.pair(9, schema.flags);
        }
    }
}

/// Capacity for the description, in bytes.
const ROOM: usize = 8 << 10;

const fn describe() -> Writer<ROOM> {
    let mut out = Writer::<ROOM>::new();
    out.map(5);
    out.pair(0, 13);
    out.pair(1, encoding::CELLS as u64);
    out.uint(2);
    out.text(ENCODING_NAME);
    out.pair(3, VERSION);
    out.uint(6);
    out.text("docs/formats/stream.md#cells");
    out.number(ty::U64, type_kind::UINT, 64);
    out.number(ty::ADDRESS, type_kind::ADDRESS, 64);
    out.number(ty::TEXT, type_kind::TEXT, 0);
    out.number(ty::U8, type_kind::UINT, 8);
    out.number(ty::BOOL, type_kind::BOOL, 0);
    out.named(ty::KIND, type_kind::ENUM, ty::U8, KINDS);
    out.named(ty::FLAGS, type_kind::FLAGS, ty::U8, ACCESS_FLAGS);
    out.named(ty::OPERATION, type_kind::ENUM, ty::U8, OPERATIONS);
    out.named(ty::ORDER, type_kind::ENUM, ty::U8, ORDERS);
    out.named(ty::CALL, type_kind::ENUM, ty::U64, CALLS);
    out.named(ty::SYNC, type_kind::ENUM, ty::U64, SYNCS);
    out.named(ty::WHICH, type_kind::ENUM, ty::U64, TEXTS);
    out.named(ty::WHAT, type_kind::ENUM, ty::U64, PROCESSES);
    let mut at = 0;
    while at < SCHEMAS.len() {
        out.schema(&SCHEMAS[at]);
        at += 1;
    }
    assert!(out.len <= ROOM);
    out
}

const DESCRIBED: Writer<ROOM> = describe();

const fn cut<const N: usize>(from: &Writer<ROOM>) -> [u8; N] {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = from.bytes[at];
        at += 1;
    }
    bytes
}

/// The description: encoding, types, schemas.
pub static DESCRIPTION: [u8; DESCRIBED.len] = cut(&DESCRIBED);
/// Checksum of [`DESCRIPTION`].
pub const DESCRIPTION_CRC: u32 = checksum::of_constant(&cut::<{ DESCRIBED.len }>(&DESCRIBED));
/// Number of records in [`DESCRIPTION`]: the encoding, 13 types, the schemas.
pub const N_DESCRIBED: u32 = 1 + ty::WHAT as u32 + SCHEMAS.len() as u32;
/// Number of records that [`Writer::of_process`] writes.
pub const N_OF_PROCESS: u32 = 3;
/// Number of metadata records that rows need.
pub const META_VERSION: u32 = N_OF_PROCESS + N_DESCRIBED;

/// Id of the clock of all streams, which counts stamps.
const CLOCK: u64 = 1;

/// Properties of a process for its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Process<'a> {
    /// UUID that identifies the recording.
    pub uuid: [u8; 16],
    /// Process id.
    pub pid: u64,
    /// Wall-clock time of the start, in ns since 1970.
    pub start_ns: u64,
    /// Name of the program. The first 64 bytes are used, with `?` for bytes that are not ASCII.
    pub program: &'a [u8],
}

impl<const N: usize> Writer<N> {
    /// Writes the first records: the producer, the clock, and the stream of the process; at most 256 bytes.
    pub fn of_process(&mut self, process: &Process<'_>) {
        const MAX_NAME_BYTES: usize = 64;
        self.map(8);
        self.pair(0, 1);
        self.uint(2);
        let name = &process.program[..process.program.len().min(MAX_NAME_BYTES)];
        self.head(3, name.len() as u64);
        name.iter().for_each(|byte| self.byte(if byte.is_ascii() { *byte } else { b'?' }));
        self.uint(3);
        self.raw(2, &process.uuid);
        self.uint(6);
        self.text("x86_64");
        self.pair(8, 64);
        self.pair(9, 4096);
        self.pair(11, process.pid);
        self.pair(13, process.start_ns);
        self.map(6);
        self.pair(0, 2);
        self.pair(1, CLOCK);
        self.uint(2);
        self.text("order");
        self.pair(3, 0);
        self.pair(6, 1);
        self.uint(7);
        self.text("stamps: a count of what threads did to each other");
        self.stream(0, process.pid, process.pid);
    }

    /// Writes the record for the stream of a thread; at most 32 bytes.
    pub const fn stream(&mut self, number: u32, pid: u64, tid: u64) {
        self.map(5);
        self.pair(0, 3);
        self.pair(1, number as u64);
        self.pair(3, CLOCK);
        self.pair(5, pid);
        self.pair(6, tid);
    }

    /// Writes the payload of an END after these numbers of frames and records; at most 32 bytes.
    pub const fn end(&mut self, n_frames: u64, n_records: u64) {
        const TRUE: u8 = 0xf5;
        self.map(3);
        self.uint(0);
        self.byte(TRUE);
        self.pair(1, n_frames);
        self.pair(2, n_records);
    }
}
