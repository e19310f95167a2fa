//! The shape of a result: the description that its JSON, its tables and its documentation share.

use crate::doc::Term;
use crate::schema::{Field, Type};
use std::collections::VecDeque;
use std::sync::Arc;

/// The shape of a structure of results.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Name of the structure.
    pub name: &'static str,
    /// Description of the structure, taken from its doc comment.
    pub doc: &'static str,
    /// Its fields, in order.
    pub members: Vec<Member>,
}

impl Shape {
    /// The description on one line.
    pub fn about(&self) -> String {
        let lines = self.doc.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    }

    /// The members whose keys appear in an object of this shape, including those of flat structures. The flag is false for
    /// keys that may be omitted, or that appear only in tables.
    pub fn keys(&self) -> Vec<(Member, bool)> {
        let keys = |member: &Member| match member.kind.what {
            What::Fields(shape) if member.marks.is_flat => {
                let is_there = !member.kind.is_nullable;
                shape().keys().into_iter().map(|(inner, is_sure)| (inner, is_sure && is_there)).collect()
            }
            _ => vec![(member.clone(), !member.marks.is_perhaps && !member.marks.is_only_in_tables)],
        };
        self.members.iter().flat_map(keys).collect()
    }

    /// The sentences on all keys: those of this structure, then those of the structures in it.
    pub fn terms(&self) -> Vec<Term> {
        let mut terms = Vec::new();
        let mut waiting = VecDeque::from([(self.name, self.clone())]);
        while let Some((of, shape)) = waiting.pop_front() {
            for member in shape.members {
                let Marks { key, is_flat, .. } = member.marks;
                if let What::Fields(inner) | What::Items(inner) | What::Rows(inner) = member.kind.what {
                    let inner = inner();
                    waiting.push_back((if is_flat { of } else { inner.name }, inner));
                }
                // The key of a flat structure appears nowhere; those in it appear instead.
                if !is_flat {
                    terms.push(Term { of, key, doc: member.doc });
                }
            }
        }
        terms
    }
}

/// A field of a structure of results.
#[derive(Clone, Debug)]
pub struct Member {
    /// Key and other properties.
    pub marks: Marks,
    /// One sentence for people.
    pub doc: &'static str,
    /// Kind of the value.
    pub kind: Kind,
}

/// Properties of a field.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Key in JSON, and name of the column.
    pub key: &'static str,
    /// Whether the keys of the field's structure appear directly in the outer object.
    pub is_flat: bool,
    /// Whether JSON omits the field if it has nothing to say.
    pub is_perhaps: bool,
    /// Whether JSON omits the field always.
    pub is_only_in_tables: bool,
    /// Whether tables of nested lists begin with this column.
    pub is_key: bool,
}

impl Marks {
    /// A field with this key and no other marks.
    pub const fn new(key: &'static str) -> Marks {
        Marks { key, is_flat: false, is_perhaps: false, is_only_in_tables: false, is_key: false }
    }

    /// Puts the keys of the field's structure directly into the outer object.
    pub const fn flat(self) -> Marks {
        Marks { is_flat: true, ..self }
    }

    /// Omits the field from JSON if it has nothing to say.
    pub const fn perhaps(self) -> Marks {
        Marks { is_perhaps: true, ..self }
    }

    /// Omits the field from JSON, because readers can compute it from other keys.
    pub const fn only_in_tables(self) -> Marks {
        Marks { is_only_in_tables: true, ..self }
    }

    /// Makes tables of nested lists begin with this column.
    pub const fn key(self) -> Marks {
        Marks { is_key: true, ..self }
    }

    /// Sets the key.
    pub const fn named(self, key: &'static str) -> Marks {
        Marks { key, ..self }
    }

    /// Creates a field with these marks.
    pub fn member(self, kind: Kind, doc: &'static str) -> Member {
        Member { marks: self, doc, kind }
    }
}

/// The kind of a value in a result.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The kind of value, if there is one.
    pub what: What,
    /// True if the value may be missing, which is `null` in JSON.
    pub is_nullable: bool,
}

/// The kinds of values, apart from being missing.
#[derive(Clone, Debug)]
pub enum What {
    /// A cell in a row.
    Cell(Type),
    /// A structure: several cells in the same row.
    Fields(fn() -> Shape),
    /// A list whose items have fixed names: several cells in the same row.
    Items(fn() -> Shape),
    /// A list of structures: a table of its own.
    Rows(fn() -> Shape),
}

impl Kind {
    /// A cell of this type.
    pub fn cell(ty: Type) -> Kind {
        Kind { what: What::Cell(ty), is_nullable: false }
    }

    /// A structure of this shape.
    pub fn fields(shape: fn() -> Shape) -> Kind {
        Kind { what: What::Fields(shape), is_nullable: false }
    }

    /// A list of this shape, whose items have fixed names.
    pub fn items(shape: fn() -> Shape) -> Kind {
        Kind { what: What::Items(shape), is_nullable: false }
    }

    /// Allows the value to be missing.
    pub fn or_nothing(self) -> Kind {
        Kind { is_nullable: true, ..self }
    }

    /// A list of such values.
    pub fn list(self) -> Kind {
        let what = match self.what {
            What::Cell(ty) => {
                let item = Field::new("item", ty, "");
                What::Cell(Type::List(Arc::new(if self.is_nullable { item.optional() } else { item })))
            }
            What::Fields(shape) | What::Items(shape) | What::Rows(shape) => What::Rows(shape),
        };
        Kind { what, is_nullable: false }
    }

    /// The shape of the structure, or of the structures in the list; `None` for other values.
    pub fn shape(&self) -> Option<Shape> {
        match self.what {
            What::Cell(_) | What::Items(_) => None,
            What::Fields(shape) | What::Rows(shape) => Some(shape()),
        }
    }
}
