//! Types of values that `print()` shows, as the capture carries them.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A type, as `meta.json` has it: `{"id": "genunix`42", "name": "struct my", "size": 16, "kind": "struct", "members": […]}`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Type {
    /// What formats and members call it.
    pub id: String,
    /// As C writes it.
    pub name: String,
    /// Bytes.
    #[serde(default)]
    pub size: u64,
    /// What it is.
    #[serde(flatten)]
    pub kind: Kind,
}

/// What a type is.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    /// A number.
    Int {
        /// True if it is negative where its highest bit is set.
        #[serde(default)]
        signed: bool,
        /// True for characters.
        #[serde(default)]
        char: bool,
    },
    /// A floating-point number.
    Float,
    /// An address.
    Pointer {
        /// True if it is that of a function.
        #[serde(default)]
        function: bool,
    },
    /// Elements.
    Array {
        /// The type of each.
        of: String,
        /// How many.
        count: u64,
    },
    /// Members one after the other.
    Struct {
        /// The members.
        members: Vec<Member>,
    },
    /// Members at one place.
    Union {
        /// The members.
        members: Vec<Member>,
    },
    /// Named numbers.
    Enum {
        /// The names.
        values: Vec<(String, i64)>,
    },
    /// Another name.
    Typedef {
        /// For this type.
        to: String,
    },
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Member {
    /// Its name; empty for members without one.
    #[serde(default)]
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: String,
    /// Where it begins, in bits.
    pub bit: u64,
    /// Bits of a bit-field.
    #[serde(default)]
    pub bits: Option<u32>,
}

/// The types of a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types(FxHashMap<String, Type>);

/// Names of names end after this many.
const MAX_NAMES: usize = 64;

impl Types {
    /// Types by their names.
    pub fn new(all: Vec<Type>) -> Types {
        Types(all.into_iter().map(|ty| (ty.id.clone(), ty)).collect())
    }

    /// All of them, by their names.
    pub fn sorted(&self) -> Vec<&Type> {
        let mut all: Vec<&Type> = self.0.values().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True without types.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A type.
    pub fn get(&self, id: &str) -> Option<&Type> {
        self.0.get(id)
    }

    /// The type that further names of a type mean.
    pub(crate) fn resolved<'t>(&'t self, ty: &'t Type) -> &'t Type {
        let mut ty = ty;
        for _ in 0..MAX_NAMES {
            match &ty.kind {
                Kind::Typedef { to } => match self.get(to) {
                    Some(next) => ty = next,
                    None => return ty,
                },
                _ => return ty,
            }
        }
        ty
    }
}
