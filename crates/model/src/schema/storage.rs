//! The storage of each type of values.

use super::Type;

/// The storage of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// One byte each.
    U8,
    /// Two bytes each.
    U16,
    /// Four bytes each.
    U32,
    /// Eight bytes each.
    U64,
    /// Signed, one byte each.
    I8,
    /// Signed, two bytes each.
    I16,
    /// Signed, four bytes each.
    I32,
    /// Signed, eight bytes each.
    I64,
    /// Floating-point numbers of four bytes each.
    F32,
    /// Floating-point numbers of eight bytes each.
    F64,
    /// This many bytes each.
    Fixed(u32),
    /// Byte strings of any length.
    Strings,
    /// Lists of items.
    Nested,
    /// A column for each member.
    Members,
}

impl Storage {
    /// The number with all bits set, which means "no value" in columns of unsigned numbers that do not use it.
    pub fn all_ones(self) -> u64 {
        match self {
            Storage::U8 => u8::MAX.into(),
            Storage::U16 => u16::MAX.into(),
            Storage::U32 => u32::MAX.into(),
            _ => u64::MAX,
        }
    }
}

impl Type {
    /// The type of plain numbers with this storage; `None` if the storage is not for numbers.
    pub fn of_numbers(storage: Storage) -> Option<Type> {
        Some(match storage {
            Storage::U8 => Type::U8,
            Storage::U16 => Type::U16,
            Storage::U32 => Type::U32,
            Storage::U64 => Type::U64,
            Storage::I8 => Type::I8,
            Storage::I16 => Type::I16,
            Storage::I32 => Type::I32,
            Storage::I64 => Type::I64,
            Storage::F32 => Type::F32,
            Storage::F64 => Type::F64,
            Storage::Fixed(_) | Storage::Strings | Storage::Nested | Storage::Members => return None,
        })
    }

    /// The storage of values of this type.
    pub fn storage(&self) -> Storage {
        match self {
            Type::Bool | Type::U8 => Storage::U8,
            Type::U16 => Storage::U16,
            Type::U32 | Type::Dict(_) | Type::Code | Type::Function | Type::Value => Storage::U32,
            Type::U64 | Type::Address | Type::Time { .. } => Storage::U64,
            Type::I8 => Storage::I8,
            Type::I16 => Storage::I16,
            Type::I32 => Storage::I32,
            Type::I64 => Storage::I64,
            Type::F32 => Storage::F32,
            Type::F64 => Storage::F64,
            Type::Fixed(width) => Storage::Fixed(*width),
            Type::Enum(names) | Type::Flags(names) => names.storage(),
            Type::Text | Type::Bytes => Storage::Strings,
            Type::List(_) => Storage::Nested,
            Type::Struct(_) => Storage::Members,
        }
    }
}
