//! A type as data: what a compiler wrote down about it.
//!
//! Offsets and sizes of members are in bits, because bit fields have them; everything else is in bytes.

use std::fmt;

/// A type in the debug information: the place of its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeId {
    pub(crate) unit: u32,
    pub(crate) offset: u32,
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The file, with the folder that the compiler was called in if that is known.
    pub file: String,
    /// The line, counted from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What a type is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SourceLanguage {
    /// C, of any year.
    C,
    /// C++, of any year.
    Cpp,
    /// Rust.
    Rust,
    /// Anything else.
    Other,
}

/// How a type is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alignment {
    /// What its address is a multiple of, in bytes.
    pub bytes: u64,
    /// True of a structure whose members lie closer together than they ask for.
    pub is_packed: bool,
    /// What was asked for; Rust's compiler says it of every structure.
    pub asked: Option<u64>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Type {
    /// Its entry.
    pub id: TypeId,
    /// What it is.
    pub kind: Kind,
    /// Its own name, with arguments of a template; `None` if it has none.
    pub name: Option<String>,
    /// Its name with namespaces, modules and types around it; of a type without a name, how it is written.
    pub path: String,
    /// Its size in bytes; `None` if it is only declared, or the size is not constant.
    pub size: Option<u64>,
    /// The alignment that was asked for, if the compiler says so.
    pub align: Option<u64>,
    /// Members of structures, classes and unions, base classes and variants among them, in the order of the source.
    pub members: Vec<Member>,
    /// Where it is declared.
    pub place: Option<Place>,
    /// True if it is only declared, and defined nowhere that is known.
    pub is_declaration: bool,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A `struct`, also of Rust, and its tuples and closures.
    Struct,
    /// A `class`.
    Class,
    /// A `union`.
    Union,
    /// A structure with one variant at a time: an enum of Rust with fields. The variants are members.
    Variants,
    /// Names for numbers.
    Enum(Vec<(String, i64)>),
    /// Elements side by side.
    Array {
        /// The type of an element.
        element: Option<TypeId>,
        /// How many there are in each dimension, the outermost first; `None` if that is not known.
        counts: Vec<Option<u64>>,
    },
    /// The address of something: a pointer, a reference, a pointer to a member.
    Pointer(Option<TypeId>),
    /// Another name of a type.
    Typedef(Option<TypeId>),
    /// A type with a word more: `const`, `volatile`, `restrict`, `_Atomic`.
    Qualified(&'static str, Option<TypeId>),
    /// A number, a character, a truth value.
    Base(Encoding),
    /// A function.
    Function,
    /// Anything else, by the number of its tag.
    Other(u16),
}

/// What the bits of a base type mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// A whole number with a sign.
    Signed,
    /// A whole number without one.
    Unsigned,
    /// A character.
    Char,
    /// A truth value.
    Bool,
    /// A number with a point.
    Float,
    /// Anything else.
    Other,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is.
    pub kind: MemberKind,
    /// Its name; anonymous structures and unions have none.
    pub name: Option<String>,
    /// Its type.
    pub ty: Option<TypeId>,
    /// How its type is written.
    pub text: String,
    /// Bits before it; `None` if only the running program knows (virtual base classes).
    pub bit_offset: Option<u64>,
    /// Its size in bits; `None` if that is not known.
    pub bit_size: Option<u64>,
    /// The alignment that was asked for in bytes, if the compiler says so.
    pub align: Option<u64>,
    /// Where it is declared.
    pub place: Option<Place>,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// Bytes of its own.
    Field,
    /// Some bits.
    BitField,
    /// A base class.
    Base,
    /// What says which variant is there.
    Discriminant,
    /// One of several variants, and the values of the discriminant that mean it; none for the one that all others mean.
    Variant(Vec<i128>),
}

impl Member {
    /// Bytes before it: before the first byte that it has a bit in.
    pub fn offset(&self) -> Option<u64> {
        self.bit_offset.map(|bits| bits / 8)
    }

    /// Bytes from its first to its last.
    pub fn size(&self) -> Option<u64> {
        let (offset, size) = (self.bit_offset?, self.bit_size?);
        Some(offset.checked_add(size)?.div_ceil(8) - offset / 8)
    }
}

/// Bits of a type that no member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Bits before it.
    pub bit_offset: u64,
    /// How many bits.
    pub bit_size: u64,
    /// True if it lies after all members: padding.
    pub is_tail: bool,
}

impl Type {
    /// True if it is made of members.
    pub fn is_record(&self) -> bool {
        matches!(self.kind, Kind::Struct | Kind::Class | Kind::Union | Kind::Variants)
    }

    /// Bits between and after its own members. What its members leave free inside themselves does not count; members of
    /// unknown size are taken for empty.
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

/// The bits below `end` that none of some ranges (start and length) has.
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
