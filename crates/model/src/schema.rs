//! What the columns of tables, lenses and results mean: one description that every reader of rows uses.
//!
//! A [`Schema`] is a constant of the code, kept in a `static`, or learned from a trace; both are the same type, so nothing
//! that reads rows can tell them apart. The schema alone is enough to print rows as JSON or CSV, to choose among them, and to
//! hand them to a query engine; values of any shape are printed by their format ([`RowForm`](crate::print::RowForm)).
//!
//! Numbers of roles, units and flags are those of self-describing streams.

mod names;
mod storage;

pub use names::Names;
pub use storage::Storage;

use crate::error::Result;
use crate::options::unknown_part;
use std::borrow::Cow;
use std::sync::Arc;

/// Text that is a constant of the code, or learned from a file.
pub type Text = Cow<'static, str>;

/// The columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Name, as in SQL and in `.rows` text.
    pub name: Text,
    /// One sentence for people.
    pub doc: Text,
    /// Tells schemas of one name apart.
    pub key: SchemaKey,
    /// Whether rows can be turned back into the same bytes.
    pub fidelity: Fidelity,
    /// The columns, in order.
    pub fields: Vec<Field>,
}

impl Schema {
    /// A schema whose columns are known without a trace.
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

    /// Position of the column that a user has called `name`.
    ///
    /// # Errors
    /// `Usage` if there is none.
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

    /// True if the rows are an interpretation: they cannot be turned back into the same bytes.
    pub fn is_derived(&self) -> bool {
        self.fidelity == Fidelity::Derived
    }
}

/// Tells schemas of one name apart, as two producers or two epochs of a stream may have them; 0 for constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SchemaKey(pub u128);

/// Whether rows of a table are what a file holds, or an interpretation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// Bytes to rows to bytes is the identity.
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
    /// What a value is.
    pub ty: Type,
    /// How a row says that it has no value.
    pub missing: Missing,
    /// What the column is for, if that is known.
    pub role: Option<Role>,
    /// What numbers count.
    pub unit: Unit,
    /// How values are best shown and stored.
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

    /// The same with a number that stands for "none".
    pub fn missing(self, sentinel: impl Into<u64>) -> Field {
        Field { missing: Missing::Is(sentinel.into()), ..self }
    }

    /// The same with a bitmap of the rows that have a value.
    pub fn optional(self) -> Field {
        Field { missing: Missing::Bitmap, ..self }
    }

    /// The same with a role.
    pub fn role(self, role: Role) -> Field {
        Field { role: Some(role), ..self }
    }

    /// The same with a unit.
    pub fn unit(self, unit: Unit) -> Field {
        Field { unit, ..self }
    }

    /// The same, with numbers shown in hexadecimal.
    pub fn hex(self) -> Field {
        Field { flags: self.flags | FieldFlags::HEX, ..self }
    }

    /// True if numbers are shown in hexadecimal.
    pub fn is_hex(&self) -> bool {
        matches!(self.ty, Type::Address) || self.flags.contains(FieldFlags::HEX)
    }
}

/// How a row says that it has no value in a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Every row has a value.
    #[default]
    Never,
    /// This number stands for "none": for columns that are filled in hot loops.
    Is(u64),
    /// [`Column::valid`](crate::column::Column::valid) says which rows have a value.
    Bitmap,
}

/// What a column is for, so that a reader finds it whatever its name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(pub u16);

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Role {
            $($(#[$doc])* pub const $name: Role = Role($number);)*

            /// The name of a role that is known, as in the metadata of files.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Role::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// The role of that name.
            pub fn named(name: &str) -> Option<Role> {
                match name {
                    $(stringify!($name) => Some(Role::$name),)*
                    _ => None,
                }
            }
        }
    };
}

// Up to 18 those of self-describing streams; from 0x8000 on our own.
roles! {
    /// A reading of a clock.
    TIME = 1;
    /// A processor.
    CPU = 2;
    /// A process.
    PROCESS = 3;
    /// A thread.
    THREAD = 4;
    /// Address of an instruction.
    PC = 5;
    /// First byte of an access to memory.
    ADDRESS = 6;
    /// Bytes of that access.
    SIZE = 7;
    /// What that access does.
    ACCESS_KIND = 8;
    /// Number of a call.
    CALL_NUMBER = 9;
    /// What a call returned.
    RETURNED = 10;
    /// An argument of a call.
    ARGUMENT = 11;
    /// A function.
    FUNCTION = 12;
    /// How long something took.
    DURATION = 13;
    /// Number of a system call.
    SYSCALL = 14;
    /// Bytes transferred.
    BYTES = 15;
    /// How many there are.
    COUNT = 16;
    /// How bad it is.
    SEVERITY = 17;
    /// A probe.
    PROBE = 18;
    /// Position among the records of a shard, counted from 1.
    RECORD = 0x8000;
    /// Instructions up to and including the record.
    INSTR = 0x8001;
}

/// What the numbers of a column count: `B`, `ns`, `cycles`, `Hz`, `%`, or nothing in particular.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit(pub Option<Text>);

impl Unit {
    /// Nothing in particular.
    pub const NONE: Unit = Unit(None);
    /// Bytes.
    pub const BYTES: Unit = Unit(Some(Cow::Borrowed("B")));
    /// Microseconds.
    pub const MICROSECONDS: Unit = Unit(Some(Cow::Borrowed("us")));
}

/// How values of a column are best shown and stored: bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldFlags(pub u16);

impl FieldFlags {
    /// Nothing is known.
    pub const NONE: FieldFlags = FieldFlags(0);
    /// Neighbours differ by little.
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

/// What a value is.
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
    /// As many bytes: wider numbers, identifiers.
    Fixed(u32),
    /// An address of 64 bits.
    Address,
    /// A reading of 64 bits of the clock with this number.
    Time {
        /// The clock.
        clock: u32,
    },
    /// A number that stands for one of some names. A number without a name is shown as a number.
    Enum(Arc<Names>),
    /// A number whose bits have names.
    Flags(Arc<Names>),
    /// An index of 32 bits into the dictionary of this number, which grows while a trace is read:
    /// [`Batch::dicts`](crate::Batch::dicts).
    Dict(u32),
    /// UTF-8.
    Text,
    /// Bytes of any sort.
    Bytes,
    /// An instruction: an index of 32 bits into [`Batch::codes`](crate::Batch::codes).
    Code,
    /// A function: an index of 32 bits into [`Batch::types`](crate::Batch::types).
    Function,
    /// As many values of one type as there are.
    List(Arc<Field>),
    /// A value of each member.
    Struct(Arc<[Field]>),
    /// A value of any shape: an index of 32 bits of its first node in the values of the batch.
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
