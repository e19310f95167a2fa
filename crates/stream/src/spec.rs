//! Schemas as programs describe them, with types by value. A writer assigns ids and offsets and makes metadata records of them.

use quipu_wire::record::{Field, field_flag};
use quipu_wire::types::{Member, Type};

/// A type.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Ty {
    Uint(u32),
    Sint(u32),
    Float(u32),
    Bool,
    /// A Unicode code point.
    Char,
    Text,
    Bytes,
    /// Byte strings of this length.
    Fixed(u32),
    /// An integer type with named values.
    Enum {
        name: String,
        base: Box<Ty>,
        names: Vec<(i128, String)>,
    },
    /// An integer type with named bits.
    Flags {
        name: String,
        base: Box<Ty>,
        names: Vec<(i128, String)>,
    },
    /// Members in order, each at its alignment.
    Struct {
        name: String,
        members: Vec<(String, Ty)>,
    },
    Array(Box<Ty>, u32),
    Vector(Box<Ty>),
    Optional(Box<Ty>),
    /// A 64-bit address in the traced program.
    Address,
    Stack,
    /// Ticks of the clock with this id.
    Timestamp(u32),
    /// Index into the table with this id.
    Reference(u32),
}

impl Ty {
    /// Size of the plain form in the fixed part, and its alignment, in bytes.
    #[must_use]
    pub fn size_align(&self) -> (u32, u32) {
        match self {
            Ty::Uint(bits) | Ty::Sint(bits) => (bits / 8, (bits / 8).min(8)),
            Ty::Float(bits) => (bits / 8, bits / 8),
            Ty::Bool => (1, 1),
            Ty::Char | Ty::Reference(_) => (4, 4),
            Ty::Text | Ty::Bytes | Ty::Vector(_) | Ty::Stack => (8, 4),
            Ty::Fixed(n) => (*n, 1),
            Ty::Enum { base, .. } | Ty::Flags { base, .. } => base.size_align(),
            Ty::Struct { members, .. } => {
                let (end, align) = end_of(members.iter().map(|(_, ty)| ty));
                (end.next_multiple_of(align), align)
            }
            Ty::Array(element, n) => {
                let (size, align) = element.size_align();
                (size * n, align)
            }
            Ty::Optional(inner) => {
                let (size, align) = inner.size_align();
                ((align + size).next_multiple_of(align), align)
            }
            Ty::Address | Ty::Timestamp(_) => (8, 8),
        }
    }

    /// The name and the type as in metadata records; `id` returns the ids of the types that it refers to.
    pub(crate) fn describe<E>(
        &self,
        mut id: impl FnMut(&Ty) -> Result<u32, E>,
    ) -> Result<(Option<String>, Type), E> {
        Ok(match self {
            Ty::Uint(bits) => (None, Type::Uint(*bits)),
            Ty::Sint(bits) => (None, Type::Sint(*bits)),
            Ty::Float(bits) => (None, Type::Float(*bits)),
            Ty::Bool => (None, Type::Bool),
            Ty::Char => (None, Type::Char(32)),
            Ty::Text => (None, Type::String),
            Ty::Bytes => (None, Type::Bytes(None)),
            Ty::Fixed(n) => (None, Type::Bytes(Some(*n))),
            Ty::Enum { name, base, names } => {
                (Some(name.clone()), Type::Enum { base: id(base)?, names: names.clone() })
            }
            Ty::Flags { name, base, names } => {
                (Some(name.clone()), Type::Flags { base: id(base)?, names: names.clone() })
            }
            Ty::Struct { name, members } => {
                let mut all = Vec::new();
                let mut at = 0;
                for (member, ty) in members {
                    let (size, align) = ty.size_align();
                    let offset = u32::next_multiple_of(at, align);
                    at = offset + size;
                    all.push(Member { name: member.clone(), ty: id(ty)?, offset });
                }
                (Some(name.clone()), Type::Struct { size: self.size_align().0, members: all })
            }
            Ty::Array(element, count) => (None, Type::Array { element: id(element)?, count: *count }),
            Ty::Vector(element) => (None, Type::Vector(id(element)?)),
            Ty::Optional(inner) => (None, Type::Optional(id(inner)?)),
            Ty::Address => (None, Type::Address { bits: 64, space: 0 }),
            Ty::Stack => (None, Type::Stack(0)),
            Ty::Timestamp(clock) => (None, Type::Timestamp(*clock)),
            Ty::Reference(table) => (None, Type::Reference(*table)),
        })
    }
}

/// The end of the last of several adjacent fields, and the largest alignment.
fn end_of<'a>(types: impl Iterator<Item = &'a Ty>) -> (u32, u32) {
    types.fold((0, 1), |(end, most), ty| {
        let (size, align) = ty.size_align();
        (u32::next_multiple_of(end, align) + size, most.max(align))
    })
}

/// A field of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldSpec {
    /// Name of the field.
    pub name: String,
    /// Type of the field.
    pub ty: Ty,
    /// Offset in the body; if `None`, the next aligned offset after the previous field.
    pub offset: Option<u32>,
    /// Role, by which lenses find the field.
    pub role: Option<u32>,
    /// Unit of the values, for example `B`.
    pub unit: Option<String>,
    /// See [`field_flag`].
    pub flags: u64,
}

/// A schema.
///
/// ```
/// use quipu_stream::spec::{SchemaSpec, Ty};
/// let spec = SchemaSpec::new("access").field("addr", Ty::Address).role(6).field("size", Ty::Uint(32)).unit("B");
/// assert_eq!(spec.fixed_bytes(), 12);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchemaSpec {
    /// Name of the schema.
    pub name: String,
    /// Category for filters.
    pub category: Option<String>,
    /// Text of a record, with names of fields in braces.
    pub text: Option<String>,
    /// Flags: 1 begins a span, 2 ends one.
    pub flags: u64,
    /// Bytes of the fixed body; if `None`, the body ends with its last field.
    pub size: Option<u32>,
    /// Fields in order.
    pub fields: Vec<FieldSpec>,
}

impl SchemaSpec {
    /// A schema without fields.
    #[must_use]
    pub fn new(name: &str) -> SchemaSpec {
        SchemaSpec { name: name.to_owned(), ..SchemaSpec::default() }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, name: &str, ty: Ty) -> SchemaSpec {
        self.fields.push(FieldSpec {
            name: name.to_owned(),
            ty,
            offset: None,
            role: None,
            unit: None,
            flags: 0,
        });
        self
    }

    /// Sets the role of the last field.
    #[must_use]
    pub fn role(mut self, role: u32) -> SchemaSpec {
        if let Some(field) = self.fields.last_mut() {
            field.role = Some(role);
        }
        self
    }

    /// Sets the unit of the last field.
    #[must_use]
    pub fn unit(mut self, unit: &str) -> SchemaSpec {
        if let Some(field) = self.fields.last_mut() {
            field.unit = Some(unit.to_owned());
        }
        self
    }

    /// Makes packed rows store the last field as differences.
    #[must_use]
    pub fn delta(mut self) -> SchemaSpec {
        if let Some(field) = self.fields.last_mut() {
            field.flags |= field_flag::DELTA;
        }
        self
    }

    /// Sets the text of records, with names of fields in braces.
    #[must_use]
    pub fn text(mut self, text: &str) -> SchemaSpec {
        self.text = Some(text.to_owned());
        self
    }

    /// Bytes of the fixed part of the body.
    #[must_use]
    pub fn fixed_bytes(&self) -> u32 {
        let end = self.places().map(|(_, end)| end).max();
        self.size.or(end).unwrap_or_default()
    }

    /// Offset and end of each field.
    fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        self.fields.iter().scan(0_u32, |at, field| {
            let (size, align) = field.ty.size_align();
            let offset = field.offset.unwrap_or_else(|| at.next_multiple_of(align));
            *at = offset.saturating_add(size);
            Some((offset, *at))
        })
    }

    /// The fields as in metadata records.
    pub(crate) fn describe<E>(&self, mut id: impl FnMut(&Ty) -> Result<u32, E>) -> Result<Vec<Field>, E> {
        let mut all = Vec::new();
        for (field, (offset, _)) in self.fields.iter().zip(self.places()) {
            all.push(Field {
                name: field.name.clone(),
                ty: id(&field.ty)?,
                offset: Some(offset),
                role: field.role,
                unit: field.unit.clone(),
                flags: (field.flags != 0).then_some(field.flags),
                native: None,
            });
        }
        Ok(all)
    }
}
