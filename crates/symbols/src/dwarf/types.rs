//! A type as data: the information that a compiler recorded about it.
//!
//! Offsets and sizes of members are in bits, because of bit fields; everything else is in bytes.

use std::fmt;

/// A type in the debug information, identified by the position of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId {
    pub(crate) unit: u32,
    pub(crate) offset: u32,
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, with the compiler's working directory if that is known.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The source language of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceLanguage {
    /// C, any version.
    C,
    /// C++, any version.
    Cpp,
    /// Rust.
    Rust,
    /// Anything else.
    Other,
}

/// The alignment of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alignment {
    /// The alignment in bytes.
    pub bytes: u64,
    /// True for a structure with members at offsets that violate their own alignment.
    pub is_packed: bool,
    /// The explicitly requested alignment; Rust's compiler records one for every structure.
    pub asked: Option<u64>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its entry.
    pub id: TypeId,
    /// The kind of the type.
    pub kind: Kind,
    /// Its own name, with template arguments; `None` if it has none.
    pub name: Option<String>,
    /// Its qualified name, with enclosing namespaces, modules and types; for a type without a name, its text.
    pub path: String,
    /// Its size in bytes; `None` if it is only declared, or the size is not constant.
    pub size: Option<u64>,
    /// The requested alignment, if the compiler records it.
    pub align: Option<u64>,
    /// Members of structures, classes and unions, including base classes and variants, in the order of the source.
    pub members: Vec<Member>,
    /// The place of its declaration.
    pub place: Option<Place>,
    /// True if it is only declared, and no definition is known.
    pub is_declaration: bool,
}

/// Kinds of types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `struct`, also of Rust, including tuples and closures.
    Struct,
    /// A `class`.
    Class,
    /// A `union`.
    Union,
    /// A structure with one variant at a time: an enum of Rust with fields. The variants are members.
    Variants,
    /// An enumeration: names with their values.
    Enum(Vec<(String, i64)>),
    /// Elements side by side.
    Array {
        /// The type of an element.
        element: Option<TypeId>,
        /// Number of elements in each dimension, the outermost first; `None` if unknown.
        counts: Vec<Option<u64>>,
    },
    /// The address of something: a pointer, a reference, a pointer to a member.
    Pointer(Option<TypeId>),
    /// Another name of a type.
    Typedef(Option<TypeId>),
    /// A type with a qualifier: `const`, `volatile`, `restrict`, `_Atomic`.
    Qualified(&'static str, Option<TypeId>),
    /// A number, a character, a truth value.
    Base(Encoding),
    /// A function.
    Function,
    /// Any other kind, by the number of its tag.
    Other(u16),
}

/// The interpretation of a base type's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A signed integer.
    Signed,
    /// An unsigned integer.
    Unsigned,
    /// A character.
    Char,
    /// A Boolean.
    Bool,
    /// A floating-point number.
    Float,
    /// Anything else.
    Other,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The kind of the member.
    pub kind: MemberKind,
    /// Its name; anonymous structures and unions have none.
    pub name: Option<String>,
    /// Its type.
    pub ty: Option<TypeId>,
    /// The text of its type.
    pub text: String,
    /// Offset in bits; `None` if it is only known at run time (virtual base classes).
    pub bit_offset: Option<u64>,
    /// Its size in bits; `None` if unknown.
    pub bit_size: Option<u64>,
    /// The requested alignment in bytes, if the compiler records it.
    pub align: Option<u64>,
    /// The place of its declaration.
    pub place: Option<Place>,
}

/// Kinds of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// An ordinary member.
    Field,
    /// A bit field.
    BitField,
    /// A base class.
    Base,
    /// The discriminant, which selects the variant.
    Discriminant,
    /// One of several variants, with the values of the discriminant that select it; empty for the default variant.
    Variant(Vec<i128>),
}

impl Member {
    /// Offset in bytes of the first byte that contains one of its bits.
    pub fn offset(&self) -> Option<u64> {
        self.bit_offset.map(|bits| bits / 8)
    }

    /// Number of bytes from its first to its last.
    pub fn size(&self) -> Option<u64> {
        let (offset, size) = (self.bit_offset?, self.bit_size?);
        Some(offset.checked_add(size)?.div_ceil(8) - offset / 8)
    }
}

/// Bits of a type that belong to no member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Offset in bits.
    pub bit_offset: u64,
    /// Number of bits.
    pub bit_size: u64,
    /// True if it is after all members: padding.
    pub is_tail: bool,
}

impl Type {
    /// True for a type with members.
    pub fn is_record(&self) -> bool {
        matches!(self.kind, Kind::Struct | Kind::Class | Kind::Union | Kind::Variants)
    }

    /// Bits between and after its own members. Unused bits inside its members are not included; members of unknown size are
    /// treated as empty.
    pub fn holes(&self) -> Vec<Hole> {
        let Some(end) = self.size.and_then(|size| size.checked_mul(8)).filter(|_| self.is_record()) else {
            return Vec::new();
        };
        gaps(
            self.members.iter().filter_map(|member| Some((member.bit_offset?, member.bit_size.unwrap_or(0)))),
            end,
        )
    }
}

/// The bits below `end` that none of the ranges (start and length) covers.
pub(crate) fn gaps(taken: impl Iterator<Item = (u64, u64)>, end: u64) -> Vec<Hole> {
    let mut taken: Vec<(u64, u64)> = taken.filter(|(_, size)| *size > 0).collect();
    taken.sort_unstable();
    let mut holes = Vec::new();
    let mut at = 0;
    for (start, size) in taken {
        let start = start.min(end);
        if start > at {
            holes.push(Hole { bit_offset: at, bit_size: start - at, is_tail: false });
        }
        at = at.max(start.saturating_add(size).min(end));
    }
    if at < end {
        holes.push(Hole { bit_offset: at, bit_size: end - at, is_tail: true });
    }
    holes
}
