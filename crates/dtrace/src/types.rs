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

impl Type {
    /// The types that it consists of; what pointers lead to is no part.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        let (members, one): (&[Member], Option<&String>) = match &self.kind {
            Kind::Struct { members } | Kind::Union { members } => (members, None),
            Kind::Array { of, .. } => (&[], Some(of)),
            Kind::Typedef { to } => (&[], Some(to)),
            Kind::Int { .. } | Kind::Float | Kind::Pointer { .. } | Kind::Enum { .. } => (&[], None),
        };
        members.iter().map(|member| &*member.ty).chain(one.map(String::as_str))
    }
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

    /// Types that contain themselves: values of such have no end.
    pub(crate) fn endless(&self) -> Vec<&Type> {
        let mut found = Vec::new();
        // Of types that were met, whether they are whole.
        let mut met: FxHashMap<&str, bool> = FxHashMap::default();
        for ty in self.sorted() {
            // No call within a call: chains of types may be long.
            let mut open = vec![(ty, ty.parts())];
            if met.contains_key(&*ty.id) {
                continue;
            }
            met.insert(&ty.id, false);
            while let Some((ty, parts)) = open.last_mut() {
                match parts.next().and_then(|part| self.get(part)) {
                    None if parts.size_hint().1 == Some(0) => {
                        met.insert(&ty.id, true);
                        open.pop();
                    }
                    None => {}
                    Some(part) => match met.get(&*part.id) {
                        None => {
                            met.insert(&part.id, false);
                            open.push((part, part.parts()));
                        }
                        Some(false) => found.push(part),
                        Some(true) => {}
                    },
                }
            }
        }
        found.sort_by(|a, b| a.id.cmp(&b.id));
        found.dedup_by(|a, b| a.id == b.id);
        found
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(id: &str, kind: Kind) -> Type {
        Type { id: id.to_owned(), name: id.to_owned(), size: 8, kind }
    }

    fn structure(id: &str, members: &[&str]) -> Type {
        let member = |ty: &&str| Member { name: "m".to_owned(), ty: (*ty).to_owned(), bit: 0, bits: None };
        ty(id, Kind::Struct { members: members.iter().map(member).collect() })
    }

    #[test]
    fn types_that_contain_themselves_are_found_at_any_depth() {
        let named = |id: &str, to: &str| ty(id, Kind::Typedef { to: to.to_owned() });
        let mut all = vec![
            structure("whole", &["missing", "int", "int", "pointer", "list"]),
            ty("int", Kind::Int { signed: true, char: false }),
            ty("pointer", Kind::Pointer { function: false }),
            ty("list", Kind::Array { of: "int".to_owned(), count: 3 }),
            structure("self", &["int", "missing", "self"]),
            named("a", "b"),
            named("b", "a"),
            structure("outer", &["int", "whole", "inner"]),
            ty("inner", Kind::Array { of: "outer".to_owned(), count: 1 }),
        ];
        all.extend((0..20_000).map(|n| named(&format!("t{n}"), &format!("t{}", n + 1))));
        let types = Types::new(all);
        let found: Vec<&str> = types.endless().iter().map(|ty| &*ty.id).collect();
        assert_eq!(found, ["a", "inner", "self"]);
    }
}
