//! The meaning of the columns of tables, lenses and results: one description that every reader of rows uses.
//!
//! A [`Schema`] is a constant of the code, kept in a `static`, or learned from a trace; both have the same type, so readers
//! of rows cannot tell them apart. The schema alone is enough to print rows as JSON or CSV, to filter them, and to hand them
//! to a query engine; values of arbitrary shape are printed by their format ([`RowForm`](crate::print::RowForm)).
//!
//! Roles, units and flags have the same numbers as in self-describing streams.

mod names;
mod storage;

pub use names::Names;
pub use storage::Storage;

use crate::error::Result;
use crate::options::unknown_part;
use std::borrow::Cow;
use std::sync::Arc;

/// Text that is either a constant of the code or learned from a file.
pub type Text = Cow<'static, str>;

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Name, as in SQL and in `.rows` text.
    pub name: Text,
    /// One sentence for people.
    pub doc: Text,
    /// Distinguishes schemas of the same name.
    pub key: SchemaKey,
    /// Whether rows can be converted back into the same bytes.
    pub fidelity: Fidelity,
    /// The columns, in order.
    pub fields: Vec<Field>,
}

impl Schema {
    /// A schema whose columns are known without reading a trace.
    pub fn new(
        name: impl Into<Text>,
        fidelity: Fidelity,
        doc: impl Into<Text>,
        fields: Vec<Field>,
    ) -> Schema {
        Schema { name: name.into(), doc: doc.into(), key: SchemaKey::default(), fidelity, fields }
    }

    /// Position of the column called `name`.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// Position of the column `name`, as given by a user.
    ///
    /// # Errors
    /// `Usage` if there is no such column.
    pub fn column_named(&self, name: &str) -> Result<usize> {
        self.position(name).ok_or_else(|| {
            let names = self.fields.iter().map(|field| field.name.as_ref());
            unknown_part(&format!("table `{}`", self.name), "column", name, names)
        })
    }

    /// Position of the first column with this role.
    pub fn position_of(&self, role: Role) -> Option<usize> {
        self.fields.iter().position(|field| field.role == Some(role))
    }

    /// True if the rows are an interpretation, which cannot be converted back into the same bytes.
    pub fn is_derived(&self) -> bool {
        self.fidelity == Fidelity::Derived
    }
}

/// Distinguishes schemas of the same name, which two producers or two epochs of a stream may have; 0 for constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SchemaKey(pub u128);

/// Whether rows of a table are exactly the content of a file, or an interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Converting bytes to rows and back gives the same bytes.
    Exact,
    /// The rows are an interpretation of the bytes.
    Derived,
}

/// One column of a table, or one member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, as in SQL and JSON.
    pub name: Text,
    /// One sentence for people.
    pub doc: Text,
    /// Type of the values.
    pub ty: Type,
    /// Convention for rows without a value.
    pub missing: Missing,
    /// Purpose of the column, if known.
    pub role: Option<Role>,
    /// Unit of the numbers.
    pub unit: Unit,
    /// Hints for showing and storing values.
    pub flags: FieldFlags,
}

impl Field {
    /// A column in which every row has a value.
    pub fn new(name: impl Into<Text>, ty: Type, doc: impl Into<Text>) -> Field {
        Field {
            name: name.into(),
            doc: doc.into(),
            ty,
            missing: Missing::Never,
            role: None,
            unit: Unit::NONE,
            flags: FieldFlags::NONE,
        }
    }

    /// Sets a number that means "no value".
    pub fn missing(self, sentinel: impl Into<u64>) -> Field {
        Field { missing: Missing::Is(sentinel.into()), ..self }
    }

    /// Adds a bitmap of the rows that have a value.
    pub fn optional(self) -> Field {
        Field { missing: Missing::Bitmap, ..self }
    }

    /// Sets the role.
    pub fn role(self, role: Role) -> Field {
        Field { role: Some(role), ..self }
    }

    /// Sets the unit.
    pub fn unit(self, unit: Unit) -> Field {
        Field { unit, ..self }
    }

    /// Shows numbers in hexadecimal.
    pub fn hex(self) -> Field {
        Field { flags: self.flags | FieldFlags::HEX, ..self }
    }

    /// True if numbers are shown in hexadecimal.
    pub fn is_hex(&self) -> bool {
        matches!(self.ty, Type::Address) || self.flags.contains(FieldFlags::HEX)
    }
}

/// The convention by which rows have no value in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Every row has a value.
    #[default]
    Never,
    /// This number means "no value"; for columns that are filled in hot loops.
    Is(u64),
    /// [`Column::valid`](crate::column::Column::valid) says which rows have a value.
    Bitmap,
}

/// The purpose of a column, by which readers find it whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(pub u16);

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Role {
            $($(#[$doc])* pub const $name: Role = Role($number);)*

            /// The name of a known role, as in the metadata of files.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Role::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The role with this name.
            pub fn named(name: &str) -> Option<Role> {
                match name {
                    $(stringify!($name) => Some(Role::$name),)*
                    _ => None,
                }
            }
        }
    };
}

// Roles up to 18 are those of self-describing streams; those from 0x8000 are our own.
roles! {
    /// A clock reading.
    TIME = 1;
    /// A processor.
    CPU = 2;
    /// A process.
    PROCESS = 3;
    /// A thread.
    THREAD = 4;
    /// Address of an instruction.
    PC = 5;
    /// First byte of a memory access.
    ADDRESS = 6;
    /// Number of bytes of that access.
    SIZE = 7;
    /// Kind of that access.
    ACCESS_KIND = 8;
    /// Number of a call.
    CALL_NUMBER = 9;
    /// Return value of a call.
    RETURNED = 10;
    /// An argument of a call.
    ARGUMENT = 11;
    /// A function.
    FUNCTION = 12;
    /// A duration.
    DURATION = 13;
    /// Number of a system call.
    SYSCALL = 14;
    /// Bytes transferred.
    BYTES = 15;
    /// A count.
    COUNT = 16;
    /// A severity.
    SEVERITY = 17;
    /// A probe.
    PROBE = 18;
    /// Position among the records of a shard, counted from 1.
    RECORD = 0x8000;
    /// Number of instructions up to and including the record.
    INSTR = 0x8001;
}

/// The unit of the numbers in a column: `B`, `ns`, `cycles`, `Hz`, `%`, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit(pub Option<Text>);

impl Unit {
    /// No unit.
    pub const NONE: Unit = Unit(None);
    /// Bytes.
    pub const BYTES: Unit = Unit(Some(Cow::Borrowed("B")));
    /// Microseconds.
    pub const MICROSECONDS: Unit = Unit(Some(Cow::Borrowed("us")));
}

/// Hints for showing and storing the values of a column, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldFlags(pub u16);

impl FieldFlags {
    /// No hints.
    pub const NONE: FieldFlags = FieldFlags(0);
    /// Neighbouring values differ by little.
    pub const DELTA: FieldFlags = FieldFlags(1);
    /// There are few distinct values.
    pub const FEW: FieldFlags = FieldFlags(2);
    /// Numbers are shown in hexadecimal.
    pub const HEX: FieldFlags = FieldFlags(8);

    /// True if every bit of `other` is set.
    pub fn contains(self, other: FieldFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for FieldFlags {
    type Output = FieldFlags;
    fn bitor(self, other: FieldFlags) -> FieldFlags {
        FieldFlags(self.0 | other.0)
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// 0 or 1, in a byte.
    Bool,
    /// An unsigned number of 8 bits.
    U8,
    /// An unsigned number of 16 bits.
    U16,
    /// An unsigned number of 32 bits.
    U32,
    /// An unsigned number of 64 bits.
    U64,
    /// A signed number of 8 bits.
    I8,
    /// A signed number of 16 bits.
    I16,
    /// A signed number of 32 bits.
    I32,
    /// A signed number of 64 bits.
    I64,
    /// A floating-point number of 32 bits.
    F32,
    /// A floating-point number of 64 bits.
    F64,
    /// A fixed number of bytes: wide numbers, identifiers.
    Fixed(u32),
    /// An address of 64 bits.
    Address,
    /// A 64-bit reading of the clock with this number.
    Time {
        /// Number of the clock.
        clock: u32,
    },
    /// A number for which a name may exist. A number without a name is shown as a number.
    Enum(Arc<Names>),
    /// A number whose bits may have names.
    Flags(Arc<Names>),
    /// A 32-bit index into the dictionary with this number, which grows while a trace is read:
    /// [`Batch::dicts`](crate::Batch::dicts).
    Dict(u32),
    /// UTF-8 text.
    Text,
    /// Arbitrary bytes.
    Bytes,
    /// An instruction: a 32-bit index into [`Batch::codes`](crate::Batch::codes).
    Code,
    /// A function: a 32-bit index into [`Batch::types`](crate::Batch::types).
    Function,
    /// A list of values, described by this field.
    List(Arc<Field>),
    /// One value for each member.
    Struct(Arc<[Field]>),
    /// A value of arbitrary shape: the 32-bit index of its first node in the values of the batch.
    Value,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_by_role() {
        let fields = vec![
            Field::new("when", Type::Time { clock: 1 }, "").role(Role::TIME),
            Field::new("where", Type::U64, "").role(Role(0x1234)).hex(),
        ];
        let schema = Schema::new("demo".to_owned(), Fidelity::Derived, "", fields);
        assert_eq!((schema.position("where"), schema.position("who")), (Some(1), None));
        assert_eq!((schema.position_of(Role::TIME), schema.position_of(Role(0x1234))), (Some(0), Some(1)));
        assert!(schema.fields[1].is_hex() && !schema.fields[0].is_hex() && schema.is_derived());
    }
}
