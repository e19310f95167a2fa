//! Constants of the format: tags, layouts, dialects, and the limits of this reader.
//!
//! A record is a tag byte and fixed fields without padding; integers have the byte order, and addresses the width, of the
//! traced host. SPEC: cacheray.md#records, cacheray.md#dialects-and-byte-order.

/// Tag of a load, without flags.
pub const READ: u8 = 0x00;
/// Tag of a store, without flags.
pub const WRITE: u8 = 0x01;
/// Tag of an annotation that adds a typed region.
pub const ADD: u8 = 0x02;
/// Tag of an annotation that removes a typed region.
pub const REMOVE: u8 = 0x03;

/// Flag in the tag of an access: an atomic operation made it.
pub const ATOMIC: u8 = 0x40;
/// Flag in the tag of an access: the compiler could not prove that it is aligned.
pub const UNALIGNED: u8 = 0x80;
/// Masks the kind in a tag, without flags.
pub const KIND_MASK: u8 = 0x3f;

/// Beginning of the name of an annotation that is a mark. SPEC: cacheray.md#marks.
pub const MARK_PREFIX: &[u8] = b"mark:";

/// The text of a mark: an annotation of no elements of no bytes, whose name is the text after [`MARK_PREFIX`]. `None` for an
/// annotation of memory.
pub fn mark_text(element_bytes: u64, n_elements: u64, name: &[u8]) -> Option<&[u8]> {
    let is_nothing = element_bytes == 0 && n_elements == 0;
    name.strip_prefix(MARK_PREFIX).filter(|_| is_nothing)
}

/// Maximum length of a type's name. Real names are much shorter; lengths are checked before anything is allocated.
pub const MAX_NAME_BYTES: usize = 64 << 10;

/// Byte order of integers and width of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Little-endian, 8-byte addresses: all known traces.
    Le64,
    /// Big-endian, 8-byte addresses.
    Be64,
    /// Little-endian, 4-byte addresses, as Cacheray writes on a 32-bit host.
    Ilp32,
}

impl Dialect {
    /// All dialects, the likeliest first.
    pub const ALL: [Dialect; 3] = [Dialect::Le64, Dialect::Be64, Dialect::Ilp32];

    /// Stable name.
    pub const fn name(self) -> &'static str {
        match self {
            Dialect::Le64 => "le64",
            Dialect::Be64 => "be64",
            Dialect::Ilp32 => "ilp32",
        }
    }

    /// Description for people.
    pub const fn title(self) -> &'static str {
        match self {
            Dialect::Le64 => "little-endian, 64-bit addresses",
            Dialect::Be64 => "big-endian, 64-bit addresses",
            Dialect::Ilp32 => "little-endian, 32-bit addresses",
        }
    }

    /// The dialect with this name.
    pub fn parse(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Size of an address in bytes.
    pub const fn address_bytes(self) -> usize {
        match self {
            Dialect::Le64 | Dialect::Be64 => 8,
            Dialect::Ilp32 => 4,
        }
    }

    /// Size of an access record in bytes.
    pub const fn access_bytes(self) -> usize {
        1 + self.address_bytes() + 1 + 8
    }

    /// Size of an [`Add`] record in bytes, without its name.
    pub const fn add_bytes(self) -> usize {
        1 + self.address_bytes() + 8 + 4 + 4 + 4
    }

    /// Size of a [`Remove`] record in bytes.
    pub const fn remove_bytes(self) -> usize {
        1 + self.address_bytes() + 8
    }
}

/// One record, with its name borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// Memory is read or written.
    Access(Access),
    /// From here on, a region of memory has a known type.
    Add(Add<'a>),
    /// From here on, the region that begins there has no known type.
    Remove(Remove),
}

/// A memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The tag with its flags.
    pub tag: u8,
    /// Address of the first byte.
    pub addr: u64,
    /// Size in bytes: 1, 2, 4, 8 or 16 from Cacheray; other writers may use other sizes.
    pub size: u8,
    /// Thread id. Cacheray writes 0 for every thread.
    pub thread: u64,
}

/// An annotation that adds a typed region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Add<'a> {
    /// The tag; flags in it are a mistake, which Cacheray's own tools ignore.
    pub tag: u8,
    /// Address of the region's first byte.
    pub addr: u64,
    /// Thread id.
    pub thread: u64,
    /// Size of one element in bytes.
    pub element_bytes: u32,
    /// Number of elements.
    pub n_elements: u32,
    /// Name of the type in LLVM's notation: bytes, in practice ASCII.
    pub name: &'a [u8],
}

/// An annotation that removes a typed region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove {
    /// The tag; flags in it are a mistake, which Cacheray's own tools ignore.
    pub tag: u8,
    /// Address of the region's first byte.
    pub addr: u64,
    /// Thread id.
    pub thread: u64,
}

impl Record<'_> {
    /// The tag with its flags, the address, and the thread id.
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

    /// The thread id.
    pub fn thread(&self) -> u64 {
        self.common().2
    }
}
