//! Descriptions of types, as in TYPE records: references to other types are ids, not resolved.

use crate::cbor::Value;
use crate::record::Part;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub enum Type {
    /// An unsigned integer of 8, 16, 32, 64 or 128 bits.
    Uint(u32),
    /// A signed integer of 8, 16, 32, 64 or 128 bits.
    Sint(u32),
    /// A floating-point number of 16, 32 or 64 bits.
    Float(u32),
    /// True or false.
    Bool,
    /// A character: a byte, or a 32-bit code point.
    Char(u32),
    /// A text.
    String,
    /// A byte string of this length, or of any length.
    Bytes(Option<u32>),
    /// An integer with named values.
    Enum {
        /// Id of the integer's type.
        base: u32,
        /// Value and name of each.
        names: Vec<(i128, String)>,
    },
    /// An integer with named bits.
    Flags {
        /// Id of the integer's type.
        base: u32,
        /// Mask and name of each.
        names: Vec<(i128, String)>,
    },
    /// A structure.
    Struct {
        /// Size of the plain form in bytes.
        size: u32,
        /// The members, with their offsets.
        members: Vec<Member>,
    },
    /// A fixed number of elements.
    Array {
        /// Id of the elements' type.
        element: u32,
        /// Number of elements.
        count: u32,
    },
    /// Any number of elements of the type with this id.
    Vector(u32),
    /// A value of the type with this id, or none.
    Optional(u32),
    /// One of several types: tag and type id of each case.
    Variant(Vec<(u32, u32)>),
    /// An address of an object.
    Pointer {
        /// Width in bits.
        bits: u32,
        /// Id of the type of the object, which may be defined later.
        target: Option<u32>,
    },
    /// An address in a given address space.
    Address {
        /// Width in bits.
        bits: u32,
        /// Address space: 0 user, 1 kernel, 2 physical.
        space: u32,
    },
    /// Return addresses, innermost first, of this address space: 0 user, 1 kernel.
    Stack(u32),
    /// Ticks of the clock with this id.
    Timestamp(u32),
    /// Index into the table with this id.
    Reference(u32),
    /// An integer with named bit fields.
    BitFields {
        /// Id of the integer's type.
        base: u32,
        /// Name, shift and width of each.
        parts: Vec<(String, u32, u32)>,
    },
    /// Bytes with a meaning outside the stream, with their media type.
    Opaque(Option<String>),
    /// Another name for the type with this id.
    Alias(u32),
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the member.
    pub name: String,
    /// Id of the member's type.
    pub ty: u32,
    /// Offset in the plain form, in bytes.
    pub offset: u32,
}

impl Part for Member {
    fn read(value: Option<&Value>) -> Option<Self> {
        let map = value?;
        Some(Member {
            name: Part::read(map.get(0))?,
            ty: Part::read(map.get(1))?,
            offset: Part::read(map.get(2))?,
        })
    }
    fn write(&self) -> Option<Value> {
        Some(Value::Map(vec![
            (Value::Uint(0), self.name.write()?),
            (Value::Uint(1), self.ty.write()?),
            (Value::Uint(2), self.offset.write()?),
        ]))
    }
}

/// Reads a number of bits; `None` if it is not one of `known`.
fn bits(value: Option<&Value>, known: &[u32]) -> Option<u32> {
    let n = u32::read(value)?;
    known.contains(&n).then_some(n)
}

const INTEGERS: &[u32] = &[8, 16, 32, 64, 128];
const WORDS: &[u32] = &[8, 16, 32, 64];

impl Type {
    /// Reads a type from the values of keys 3, 4 and 5 of a record; `None` if they are not a valid type.
    #[must_use]
    pub fn read(kind: u64, four: Option<&Value>, five: Option<&Value>) -> Option<Type> {
        Some(match kind {
            1 => Type::Uint(bits(four, INTEGERS)?),
            2 => Type::Sint(bits(four, INTEGERS)?),
            3 => Type::Float(bits(four, &[16, 32, 64])?),
            4 => Type::Bool,
            5 => Type::Char(bits(four, &[8, 32])?),
            6 => Type::String,
            7 => Type::Bytes(match four {
                None => None,
                Some(_) => Some(u32::read(four).filter(|n| *n > 0)?),
            }),
            8 => Type::Enum { base: Part::read(four)?, names: Option::read(five)?.unwrap_or_default() },
            9 => Type::Flags { base: Part::read(four)?, names: Option::read(five)?.unwrap_or_default() },
            10 => Type::Struct { size: Part::read(four)?, members: Part::read(five)? },
            11 => Type::Array { element: Part::read(four)?, count: Part::read(five)? },
            12 => Type::Vector(Part::read(four)?),
            13 => Type::Optional(Part::read(four)?),
            14 => Type::Variant(Part::read(five)?),
            15 => Type::Pointer { bits: bits(four, WORDS)?, target: Part::read(five)? },
            16 => Type::Address { bits: bits(four, WORDS)?, space: Option::read(five)?.unwrap_or_default() },
            17 => Type::Stack(Option::read(five)?.unwrap_or_default()),
            18 => Type::Timestamp(Part::read(four)?),
            19 => Type::Reference(Part::read(four)?),
            20 => Type::BitFields { base: Part::read(four)?, parts: Option::read(five)?.unwrap_or_default() },
            21 => Type::Opaque(Part::read(five)?),
            22 => Type::Alias(Part::read(four)?),
            _ => return None,
        })
    }

    /// The values of keys 3, 4 and 5 of a record.
    #[must_use]
    pub fn write(&self) -> (u64, Option<Value>, Option<Value>) {
        match self {
            Type::Uint(bits) => (1, bits.write(), None),
            Type::Sint(bits) => (2, bits.write(), None),
            Type::Float(bits) => (3, bits.write(), None),
            Type::Bool => (4, None, None),
            Type::Char(bits) => (5, bits.write(), None),
            Type::String => (6, None, None),
            Type::Bytes(n) => (7, n.write(), None),
            Type::Enum { base, names } => (8, base.write(), names.write()),
            Type::Flags { base, names } => (9, base.write(), names.write()),
            Type::Struct { size, members } => (10, size.write(), members.write()),
            Type::Array { element, count } => (11, element.write(), count.write()),
            Type::Vector(element) => (12, element.write(), None),
            Type::Optional(inner) => (13, inner.write(), None),
            Type::Variant(cases) => (14, None, cases.write()),
            Type::Pointer { bits, target } => (15, bits.write(), target.write()),
            Type::Address { bits, space } => (16, bits.write(), space.write()),
            Type::Stack(space) => (17, None, space.write()),
            Type::Timestamp(clock) => (18, clock.write(), None),
            Type::Reference(table) => (19, table.write(), None),
            Type::BitFields { base, parts } => (20, base.write(), parts.write()),
            Type::Opaque(media) => (21, None, media.write()),
            Type::Alias(of) => (22, of.write(), None),
        }
    }

    /// Calls `each` with the id of every type that this one contains. Targets of pointers are not included.
    pub fn each_part(&self, mut each: impl FnMut(u32)) {
        match self {
            Type::Enum { base: id, .. }
            | Type::Flags { base: id, .. }
            | Type::BitFields { base: id, .. }
            | Type::Array { element: id, .. }
            | Type::Vector(id)
            | Type::Optional(id)
            | Type::Alias(id) => each(*id),
            Type::Struct { members, .. } => members.iter().for_each(|member| each(member.ty)),
            Type::Variant(cases) => cases.iter().for_each(|(_, id)| each(*id)),
            _ => {}
        }
    }
}
