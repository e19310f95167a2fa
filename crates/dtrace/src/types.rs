//! Types of the values that `print()` shows, as a capture carries them.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A type, as in `meta.json`: `{"id": "genunix`42", "name": "struct my", "size": 16, "kind": "struct", "members": […]}`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Type {
    /// Id by which formats and members refer to the type.
    pub id: String,
    /// Name in C.
    pub name: String,
    /// Size in bytes.
    #[serde(default)]
    pub size: u64,
    /// Kind, with what belongs to it.
    #[serde(flatten)]
    pub kind: Kind,
}

impl Type {
    /// Ids of the types that it contains; the target of a pointer is not contained.
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

/// Kind of a type.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Kind {
    /// An integer.
    Int {
        /// Whether it is signed.
        #[serde(default)]
        signed: bool,
        /// Whether it is a character.
        #[serde(default)]
        char: bool,
    },
    /// A floating-point number.
    Float,
    /// An address.
    Pointer {
        /// Whether it points to a function.
        #[serde(default)]
        function: bool,
    },
    /// An array.
    Array {
        /// Id of the type of an element.
        of: String,
        /// Number of elements.
        count: u64,
    },
    /// A structure, whose members follow each other.
    Struct {
        /// The members.
        members: Vec<Member>,
    },
    /// A union, whose members share one place.
    Union {
        /// The members.
        members: Vec<Member>,
    },
    /// An enumeration.
    Enum {
        /// Names with their values.
        values: Vec<(String, i64)>,
    },
    /// Another name for a type.
    Typedef {
        /// Id of the type that the name stands for.
        to: String,
    },
}

/// A member of a structure or union.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Member {
    /// Its name; empty for unnamed members.
    #[serde(default)]
    pub name: String,
    /// Id of its type.
    #[serde(rename = "type")]
    pub ty: String,
    /// Offset in bits.
    pub bit: u64,
    /// Width of a bit-field in bits; `None` for other members.
    #[serde(default)]
    pub bits: Option<u32>,
}

/// The types of a capture, by id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Types(FxHashMap<String, Type>);

/// Maximum length of a chain of typedefs.
const MAX_NAMES: usize = 64;

impl Types {
    /// Collects types; of types with the same id, the last one counts.
    pub fn new(all: Vec<Type>) -> Types {
        Types(all.into_iter().map(|ty| (ty.id.clone(), ty)).collect())
    }

    /// All types, ordered by id.
    pub fn sorted(&self) -> Vec<&Type> {
        let mut all: Vec<&Type> = self.0.values().collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no types.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The type with an id.
    pub fn get(&self, id: &str) -> Option<&Type> {
        self.0.get(id)
    }

    /// Types that contain themselves, so that their values would not end.
    pub(crate) fn endless(&self) -> Vec<&Type> {
        let mut found = Vec::new();
        // For each visited type, whether all its parts are visited.
        let mut met: FxHashMap<&str, bool> = FxHashMap::default();
        for ty in self.sorted() {
            // A stack instead of recursion, since chains of types may be long.
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

    /// The type that a typedef stands for, through further typedefs; other types are returned as they are.
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
