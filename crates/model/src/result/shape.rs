//! What a result has: the description that its JSON, its tables and its documentation share.

use crate::schema::{Field, Type};
use std::sync::Arc;

/// What a structure of results has.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Name of the structure.
    pub name: &'static str,
    /// What it is, as its comment says.
    pub doc: &'static str,
    /// Its fields, in order.
    pub members: Vec<Member>,
}

impl Shape {
    /// What it is, on one line.
    pub fn about(&self) -> String {
        let lines = self.doc.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.collect::<Vec<_>>().join(" ")
    }

    /// The members whose keys stand in an object of this shape, those of flat structures among them; `false` beside those
    /// that may be left out, or are only in tables.
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
}

/// A field of a structure of results.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its key, and what else is special.
    pub marks: Marks,
    /// One sentence for people.
    pub doc: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// What is special about a field.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// Key in JSON, and the column's name.
    pub key: &'static str,
    /// The keys of the structure in it stand here themselves.
    pub is_flat: bool,
    /// It is left out of JSON where it has nothing to say.
    pub is_perhaps: bool,
    /// JSON does not have it.
    pub is_only_in_tables: bool,
    /// Tables of lists below begin with it.
    pub is_key: bool,
}

impl Marks {
    /// Nothing special.
    pub const fn new(key: &'static str) -> Marks {
        Marks { key, is_flat: false, is_perhaps: false, is_only_in_tables: false, is_key: false }
    }

    /// The keys of the structure in it stand here themselves.
    pub const fn flat(self) -> Marks {
        Marks { is_flat: true, ..self }
    }

    /// It is left out of JSON where it has nothing to say.
    pub const fn perhaps(self) -> Marks {
        Marks { is_perhaps: true, ..self }
    }

    /// JSON does not have it: readers of JSON take it from other keys.
    pub const fn only_in_tables(self) -> Marks {
        Marks { is_only_in_tables: true, ..self }
    }

    /// Tables of lists below begin with it.
    pub const fn key(self) -> Marks {
        Marks { is_key: true, ..self }
    }

    /// It has a key of its own.
    pub const fn named(self, key: &'static str) -> Marks {
        Marks { key, ..self }
    }

    /// A field with these marks.
    pub fn member(self, kind: Kind, doc: &'static str) -> Member {
        Member { marks: self, doc, kind }
    }
}

/// What a value of a result is.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What it is where there is one.
    pub what: What,
    /// True if there may be none: `null` in JSON.
    pub is_nullable: bool,
}

/// What a value is where there is one.
#[derive(Clone, Debug)]
pub enum What {
    /// A cell of a row.
    Cell(Type),
    /// A structure: cells of the same row.
    Fields(fn() -> Shape),
    /// A list whose items have names: cells of the same row.
    Items(fn() -> Shape),
    /// A list of structures: a table of its own.
    Rows(fn() -> Shape),
}

impl Kind {
    /// A cell.
    pub fn cell(ty: Type) -> Kind {
        Kind { what: What::Cell(ty), is_nullable: false }
    }

    /// A structure.
    pub fn fields(shape: fn() -> Shape) -> Kind {
        Kind { what: What::Fields(shape), is_nullable: false }
    }

    /// A list whose items have names.
    pub fn items(shape: fn() -> Shape) -> Kind {
        Kind { what: What::Items(shape), is_nullable: false }
    }

    /// The same, or nothing.
    pub fn or_nothing(self) -> Kind {
        Kind { is_nullable: true, ..self }
    }

    /// As many of these as there are.
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

    /// The structure that it is, or that its items are.
    pub fn shape(&self) -> Option<Shape> {
        match self.what {
            What::Cell(_) | What::Items(_) => None,
            What::Fields(shape) | What::Rows(shape) => Some(shape()),
        }
    }
}
