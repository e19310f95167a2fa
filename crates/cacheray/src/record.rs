//! The numbers of the format: tags, layouts, dialects, and the limits of this reader.
//!
//! A record is a tag byte and fixed fields without padding; integers have the byte order, and addresses the width, of the
//! traced host. SPEC: cacheray.md#records, cacheray.md#dialects-and-byte-order.

/// Tag of a load, without flags.
pub const READ: u8 = 0x00;
/// Tag of a store, without flags.
pub const WRITE: u8 = 0x01;
/// Tag of a type annotation that begins.
pub const ADD: u8 = 0x02;
/// Tag of a type annotation that ends.
pub const REMOVE: u8 = 0x03;

/// Flag in the tag of an access: an atomic operation made it.
pub const ATOMIC: u8 = 0x40;
/// Flag in the tag of an access: the compiler could not prove that it is aligned.
pub const UNALIGNED: u8 = 0x80;
/// What is left of a tag without its flags.
pub const KIND_MASK: u8 = 0x3f;

/// The longest name of a type that is read. Real names are far below; lengths are checked before anything is allocated.
pub const MAX_NAME_BYTES: usize = 64 << 10;

/// How integers and addresses are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Little-endian, addresses of 8 bytes: all known traces.
    Le64,
    /// Big-endian, addresses of 8 bytes.
    Be64,
    /// Little-endian, addresses of 4 bytes: what Cacheray writes on a 32-bit host.
    Ilp32,
}

impl Dialect {
    /// All, the likeliest first.
    pub const ALL: [Dialect; 3] = [Dialect::Le64, Dialect::Be64, Dialect::Ilp32];

    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Le64 => "le64",
            Dialect::Be64 => "be64",
            Dialect::Ilp32 => "ilp32",
        }
    }

    /// What people are told.
    pub const fn title(self) -> &'static str {
        match self {
            Dialect::Le64 => "little-endian, 64-bit addresses",
            Dialect::Be64 => "big-endian, 64-bit addresses",
            Dialect::Ilp32 => "little-endian, 32-bit addresses",
        }
    }

    /// The dialect of that name.
    pub fn parse(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Bytes of an address.
    pub const fn address_bytes(self) -> usize {
        match self {
            Dialect::Le64 | Dialect::Be64 => 8,
            Dialect::Ilp32 => 4,
        }
    }

    /// Bytes of an access.
    pub const fn access_bytes(self) -> usize {
        1 + self.address_bytes() + 1 + 8
    }

    /// Bytes of an annotation that begins, without its name.
    pub const fn add_bytes(self) -> usize {
        1 + self.address_bytes() + 8 + 4 + 4 + 4
    }

    /// Bytes of an annotation that ends.
    pub const fn remove_bytes(self) -> usize {
        1 + self.address_bytes() + 8
    }
}

/// One record, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Memory is read or written.
    Access(Access),
    /// From here on a type is known for a region of memory.
    Add(Add<'a>),
    /// From here on no type is known for the region that begins there.
    Remove(Remove),
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The tag with its flags.
    pub tag: u8,
    /// First byte.
    pub addr: u64,
    /// Bytes: 1, 2, 4, 8 or 16, others from foreign writers only.
    pub size: u8,
    /// Thread. Cacheray writes 0 for every thread.
    pub thread: u64,
}

/// An annotation that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Add<'a> {
    /// The tag; flags in it are a mistake, which Cacheray's own tools overlook.
    pub tag: u8,
    /// First byte of the region.
    pub addr: u64,
    /// Thread.
    pub thread: u64,
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Number of elements.
    pub n_elements: u32,
    /// Name of the type, as LLVM has it: bytes, in practice ASCII.
    pub name: &'a [u8],
}

/// An annotation that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove {
    /// The tag; flags in it are a mistake, which Cacheray's own tools overlook.
    pub tag: u8,
    /// First byte of the region.
    pub addr: u64,
    /// Thread.
    pub thread: u64,
}

impl Record<'_> {
    /// The tag with its flags, the address, the thread.
    fn common(&self) -> (u8, u64, u64) {
        match self {
            Record::Access(access) => (access.tag, access.addr, access.thread),
            Record::Add(add) => (add.tag, add.addr, add.thread),
            Record::Remove(remove) => (remove.tag, remove.addr, remove.thread),
        }
    }

    /// The tag with its flags.
    pub fn tag(&self) -> u8 {
        self.common().0
    }

    /// The address.
    pub fn addr(&self) -> u64 {
        self.common().1
    }

    /// The thread.
    pub fn thread(&self) -> u64 {
        self.common().2
    }
}
