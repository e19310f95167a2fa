//! Decodes and encodes records, without I/O.

use crate::record::{
    ADD, Access, Add, Dialect, KIND_MASK, MAX_NAME_BYTES, READ, REMOVE, Record, Remove, WRITE,
};
use quipu_model::{Error, Result};

/// The reason why no record could be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The record is incomplete: it has at least this many bytes in total.
    More(usize),
    /// The bytes do not begin a record.
    Bad(Bad),
}

/// The reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The tag is unknown.
    Tag(u8),
    /// The name has this many bytes, more than the limit.
    Name(u32),
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bad::Tag(tag) => write!(f, "expected a record, found the unknown tag `{tag:#04x}`"),
            Bad::Name(n_bytes) => {
                write!(f, "the name of a type would have `{n_bytes}` bytes, limit `{MAX_NAME_BYTES}`")
            }
        }
    }
}

/// A dialect as a type, so that the loops over records are compiled for each.
pub(crate) trait Layout: Copy + Send {
    const DIALECT: Dialect;
    fn u32(bytes: [u8; 4]) -> u32;
    fn u64(bytes: [u8; 8]) -> u64;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Le64;
#[derive(Clone, Copy, Debug)]
pub(crate) struct Be64;
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ilp32;

macro_rules! layout {
    ($name:ident $u32:ident $u64:ident) => {
        impl Layout for $name {
            const DIALECT: Dialect = Dialect::$name;
            #[inline(always)]
            fn u32(bytes: [u8; 4]) -> u32 {
                u32::$u32(bytes)
            }
            #[inline(always)]
            fn u64(bytes: [u8; 8]) -> u64 {
                u64::$u64(bytes)
            }
        }
    };
}

layout!(Le64 from_le_bytes from_le_bytes);
layout!(Be64 from_be_bytes from_be_bytes);
layout!(Ilp32 from_le_bytes from_le_bytes);

/// Runs `$body` with `$layout` standing for the layout of a dialect.
macro_rules! with_layout {
    ($dialect:expr, $layout:ident => $body:expr) => {
        match $dialect {
            $crate::record::Dialect::Le64 => {
                type $layout = $crate::decode::Le64;
                $body
            }
            $crate::record::Dialect::Be64 => {
                type $layout = $crate::decode::Be64;
                $body
            }
            $crate::record::Dialect::Ilp32 => {
                type $layout = $crate::decode::Ilp32;
                $body
            }
        }
    };
}
pub(crate) use with_layout;

#[inline(always)]
fn u32_at<L: Layout>(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, L::u32)
}

#[inline(always)]
fn u64_at<L: Layout>(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, L::u64)
}

/// The address of the record in `bytes`, which begin with its tag.
#[inline(always)]
pub(crate) fn address<L: Layout>(bytes: &[u8]) -> u64 {
    if L::DIALECT.address_bytes() == 4 { u64::from(u32_at::<L>(bytes, 1)) } else { u64_at::<L>(bytes, 1) }
}

/// The size of the access in `bytes`.
#[inline(always)]
pub(crate) fn size<L: Layout>(bytes: &[u8]) -> u8 {
    bytes.get(1 + L::DIALECT.address_bytes()).copied().unwrap_or(0)
}

/// The thread of the access in `bytes`.
#[inline(always)]
pub(crate) fn access_thread<L: Layout>(bytes: &[u8]) -> u64 {
    u64_at::<L>(bytes, 2 + L::DIALECT.address_bytes())
}

/// Decodes the record at the front of `bytes`; also returns its length.
///
/// # Errors
/// If the record is incomplete or malformed.
pub(crate) fn record<L: Layout>(bytes: &[u8]) -> Result<(Record<'_>, usize), Stop> {
    match bytes.first() {
        Some(tag) => record_of::<L>(*tag, bytes),
        None => Err(Stop::More(1)),
    }
}

/// Decodes the record at the front of `bytes` as if its tag were `tag`.
///
/// # Errors
/// Those of [`record`].
pub(crate) fn record_of<L: Layout>(tag: u8, bytes: &[u8]) -> Result<(Record<'_>, usize), Stop> {
    let dialect = L::DIALECT;
    let thread_at = 1 + dialect.address_bytes();
    match tag & KIND_MASK {
        READ | WRITE => {
            let length = dialect.access_bytes();
            let bytes = bytes.get(..length).ok_or(Stop::More(length))?;
            let access = Access {
                tag,
                addr: address::<L>(bytes),
                size: size::<L>(bytes),
                thread: access_thread::<L>(bytes),
            };
            Ok((Record::Access(access), length))
        }
        ADD => {
            let fixed = dialect.add_bytes();
            let head = bytes.get(..fixed).ok_or(Stop::More(fixed))?;
            let n_bytes = u32_at::<L>(head, fixed - 4);
            if n_bytes as usize > MAX_NAME_BYTES {
                return Err(Stop::Bad(Bad::Name(n_bytes)));
            }
            let length = fixed + n_bytes as usize;
            let name = bytes.get(fixed..length).ok_or(Stop::More(length))?;
            let add = Add {
                tag,
                addr: address::<L>(head),
                thread: u64_at::<L>(head, thread_at),
                element_bytes: u32_at::<L>(head, fixed - 12),
                n_elements: u32_at::<L>(head, fixed - 8),
                name,
            };
            Ok((Record::Add(add), length))
        }
        REMOVE => {
            let length = dialect.remove_bytes();
            let bytes = bytes.get(..length).ok_or(Stop::More(length))?;
            let remove = Remove { tag, addr: address::<L>(bytes), thread: u64_at::<L>(bytes, thread_at) };
            Ok((Record::Remove(remove), length))
        }
        _ => Err(Stop::Bad(Bad::Tag(tag))),
    }
}

/// Decodes the record of a dialect at the front of `bytes`; also returns its length.
///
/// # Errors
/// If the record is incomplete or malformed.
pub fn decode(dialect: Dialect, bytes: &[u8]) -> Result<(Record<'_>, usize), Stop> {
    with_layout!(dialect, L => record::<L>(bytes))
}

/// Appends the bytes of a record in a dialect.
///
/// # Errors
/// `Unsupported` if the address is too wide for the dialect; `Limit` for a name longer than readers accept.
pub fn encode(dialect: Dialect, record: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
    let addr = record.addr();
    if dialect.address_bytes() == 4 && addr > u32::MAX.into() {
        return Err(Error::unsupported(format!(
            "address `{addr:#x}` does not fit into the 32 bits that dialect {} has",
            dialect.name()
        )));
    }
    if let Record::Add(add) = record
        && add.name.len() > MAX_NAME_BYTES
    {
        return Err(Error::limit(
            "bytes in the name of a type",
            add.name.len() as u64,
            MAX_NAME_BYTES as u64,
        ));
    }
    let mut put = |number: u64, n_bytes: usize| match dialect {
        Dialect::Be64 => out.extend_from_slice(&number.to_be_bytes()[8 - n_bytes..]),
        Dialect::Le64 | Dialect::Ilp32 => out.extend_from_slice(&number.to_le_bytes()[..n_bytes]),
    };
    put(record.tag().into(), 1);
    put(addr, dialect.address_bytes());
    if let Record::Access(access) = record {
        put(access.size.into(), 1);
    }
    put(record.thread(), 8);
    if let Record::Add(add) = record {
        put(add.element_bytes.into(), 4);
        put(add.n_elements.into(), 4);
        put(add.name.len() as u64, 4);
        out.extend_from_slice(add.name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::ATOMIC;

    /// The worked example of the specification.
    #[test]
    fn the_first_record_of_structs_is_as_the_specification_says() {
        let bytes = [
            0x02, 0x90, 0xd4, 0x48, 0x77, 0xc9, 0x55, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x18, 0, 0, 0, 1, 0, 0,
            0, 0x0c, 0, 0, 0, b's', b't', b'r', b'u', b'c', b't', b'.', b'B', b'a', b's', b'i', b'c',
        ];
        let add = Add {
            tag: ADD,
            addr: 0x55c9_7748_d490,
            thread: 0,
            element_bytes: 24,
            n_elements: 1,
            name: b"struct.Basic",
        };
        assert_eq!(decode(Dialect::Le64, &bytes), Ok((Record::Add(add), 41)));
        for n_bytes in 0..bytes.len() {
            assert!(matches!(decode(Dialect::Le64, &bytes[..n_bytes]), Err(Stop::More(n)) if n > n_bytes));
        }
    }

    #[test]
    fn records_of_every_dialect_come_back() {
        let records = [
            Record::Access(Access { tag: 0xc1, addr: 0x7fff_0010, size: 16, thread: u64::MAX }),
            Record::Add(Add {
                tag: ADD,
                addr: 8,
                thread: 3,
                element_bytes: u32::MAX,
                n_elements: 0,
                name: b"a\0\xff",
            }),
            Record::Remove(Remove { tag: REMOVE | ATOMIC, addr: 0, thread: 1 }),
        ];
        for dialect in Dialect::ALL {
            let mut bytes = Vec::new();
            for record in &records {
                encode(dialect, record, &mut bytes).unwrap();
            }
            let mut at = 0;
            for expected in &records {
                let (record, length) = decode(dialect, &bytes[at..]).unwrap();
                assert_eq!(record, *expected);
                at += length;
            }
            assert_eq!(at, bytes.len());
        }
    }

    #[test]
    fn what_is_no_record_is_told() {
        assert_eq!(decode(Dialect::Le64, &[7]), Err(Stop::Bad(Bad::Tag(7))));
        let mut long = vec![2; 29];
        long[25..29].copy_from_slice(&0x0001_0001u32.to_le_bytes());
        assert_eq!(decode(Dialect::Le64, &long), Err(Stop::Bad(Bad::Name(0x0001_0001))));
    }

    #[test]
    fn wide_addresses_do_not_fit_into_32_bits() {
        let record = Record::Remove(Remove { tag: REMOVE, addr: 1 << 32, thread: 0 });
        let error = encode(Dialect::Ilp32, &record, &mut Vec::new()).unwrap_err();
        assert!(error.message().contains("0x100000000"), "{error}");
    }
}
