//! The types that a stream has declared so far, and the meaning of bare names.
//!
//! Both directions fill the same table in the same order, so they agree on every name: if several items have the same name,
//! the name stands for the one declared first; the others are written with their numbers.

use quipu_model::values::{Kind, NamedNumbers, Type};
use rustc_hash::FxHashMap;

/// The kinds of types; each has its own ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Function,
    Struct,
    Enum,
    Flags,
    Frame,
}

/// The kind and id of a type.
pub(super) fn key_of(ty: &Type) -> (Space, u64) {
    match ty {
        Type::Function(function) => (Space::Function, function.id),
        Type::Struct(structure) => (Space::Struct, structure.id),
        Type::Enum(names) => (Space::Enum, names.id),
        Type::Flags(names) => (Space::Flags, names.id),
        Type::Frame(frame) => (Space::Frame, frame.id),
    }
}

/// A named number of an enumeration or a set of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Constant {
    /// `Enum` or `Flags`.
    pub(super) kind: Kind,
    /// Index of its type.
    pub(super) ty: u32,
    /// The number.
    pub(super) number: u64,
}

/// All types so far.
#[derive(Debug, Default)]
pub(super) struct Table {
    types: Vec<Type>,
    /// Whether the stream contains each type's signature yet; it does from the first use on.
    said: Vec<bool>,
    by_id: FxHashMap<(Space, u64), u32>,
    functions: FxHashMap<Vec<u8>, u32>,
    structs: FxHashMap<Vec<u8>, u32>,
    constants: FxHashMap<Vec<u8>, Constant>,
}

impl Table {
    /// Adds a type; returns its index. `None` if there is one of the same kind and id, which stays.
    pub(super) fn add(&mut self, ty: Type) -> Option<u32> {
        let key = key_of(&ty);
        if self.by_id.contains_key(&key) {
            return None;
        }
        let position = self.types.len() as u32; // Each took some bytes of the input.
        self.by_id.insert(key, position);
        self.name(&ty, position);
        self.types.push(ty);
        self.said.push(false);
        Some(position)
    }

    fn name(&mut self, ty: &Type, position: u32) {
        let mut constants = |names: &NamedNumbers, kind| {
            for (name, number) in &names.names {
                let constant = Constant { kind, ty: position, number: *number };
                self.constants.entry(name.clone()).or_insert(constant);
            }
        };
        match ty {
            Type::Function(function) => {
                self.functions.entry(function.name.clone()).or_insert(position);
            }
            Type::Struct(structure) => {
                self.structs.entry(structure.name.clone()).or_insert(position);
            }
            Type::Enum(names) => constants(names, Kind::Enum),
            Type::Flags(names) => constants(names, Kind::Flags),
            Type::Frame(_) => {}
        }
    }

    pub(super) fn len(&self) -> usize {
        self.types.len()
    }

    /// Removes the types from index `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        if len >= self.types.len() {
            return;
        }
        for ty in self.types.drain(len..) {
            self.by_id.remove(&key_of(&ty));
        }
        self.said.truncate(len);
        self.functions.clear();
        self.structs.clear();
        self.constants.clear();
        let types = std::mem::take(&mut self.types);
        for (position, ty) in (0..).zip(&types) {
            self.name(ty, position);
        }
        self.types = types;
    }

    pub(super) fn get(&self, position: u32) -> Option<&Type> {
        self.types.get(position as usize)
    }

    pub(super) fn by_id(&self, space: Space, id: u64) -> Option<u32> {
        self.by_id.get(&(space, id)).copied()
    }

    /// The index of the function with a bare name.
    pub(super) fn function(&self, name: &[u8]) -> Option<u32> {
        self.functions.get(name).copied()
    }

    /// The index of the structure with a bare name.
    pub(super) fn structure(&self, name: &[u8]) -> Option<u32> {
        self.structs.get(name).copied()
    }

    /// The constant with a bare name.
    pub(super) fn constant(&self, name: &[u8]) -> Option<Constant> {
        self.constants.get(name).copied()
    }

    /// Notes that the stream contains a type's signature; false if it did before.
    pub(super) fn say(&mut self, position: u32) -> bool {
        match self.said.get_mut(position as usize) {
            Some(said) => !std::mem::replace(said, true),
            None => false,
        }
    }
}
