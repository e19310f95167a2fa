//! Keys of calls: equal calls have equal keys, whatever addresses and names of objects they contain.
//!
//! The upper 24 bits identify the function, so that calls of one function are known from the key alone; the lower bits hash
//! arguments and result. Keys only align the calls; calls with equal keys are compared afterwards.

use super::{Names, Rules, Side};
use crate::objects::{Class, Roles, roles};
use crate::record::INCOMPLETE;
use quipu_model::values::{Call, Kind, NO_NODE, Type, Types, Values};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Number of bits that distinguish arguments and results.
const VALUE_BITS: u32 = 40;
/// Addresses below this are offsets or small numbers, not pointers.
pub(super) const LEAST_ADDRESS: u64 = 1 << 16;

/// The function part of a key.
pub(super) fn function_of(key: u64) -> u64 {
    key >> VALUE_BITS
}

/// Facts about functions, by type.
#[derive(Debug, Default)]
pub(super) struct Functions {
    known: Vec<Option<Function>>,
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) roles: Roles,
    hash: u64,
    pub(super) is_ignored: bool,
}

impl Functions {
    pub(super) fn get(&mut self, index: u32, types: &Types, rules: &Rules) -> Option<&Function> {
        let position = index as usize;
        if self.known.len() <= position {
            self.known.resize_with(position + 1, || None);
        }
        if self.known[position].is_none() {
            let function = types.function(index)?;
            let mut hasher = FxHasher::default();
            function.name.hash(&mut hasher);
            let name = String::from_utf8_lossy(&function.name);
            let is_ignored = rules.ignored.contains(&&*name)
                || rules.ignore.as_ref().is_some_and(|pattern| pattern.is_match(&name));
            self.known[position] =
                Some(Function { roles: roles(function), hash: hasher.finish(), is_ignored });
        }
        self.known[position].as_ref()
    }
}

/// The key of a call; `None` if the comparison ignores the call.
pub(super) fn key(
    call: &Call,
    values: &Values,
    types: &Types,
    functions: &mut Functions,
    rules: &Rules,
    side: Side,
) -> Option<u64> {
    let function = functions.get(call.function, types, rules)?;
    if function.is_ignored {
        return None;
    }
    let mut hasher = FxHasher::default();
    let mut value = Hashed { values, types, rules, side, hasher: &mut hasher };
    for arg in values.args_of(call) {
        arg.index.hash(value.hasher);
        value.add(arg.node, function.roles.args.get(arg.index as usize).copied().flatten());
    }
    if call.result != NO_NODE {
        value.add(call.result, function.roles.result);
    }
    (call.result != NO_NODE).hash(&mut hasher);
    (call.flags & INCOMPLETE).hash(&mut hasher);
    let upper = function.hash >> VALUE_BITS << VALUE_BITS;
    Some(upper | hasher.finish() >> (64 - VALUE_BITS))
}

struct Hashed<'a> {
    values: &'a Values,
    types: &'a Types,
    rules: &'a Rules,
    side: Side,
    hasher: &'a mut FxHasher,
}

impl Hashed<'_> {
    fn add(&mut self, index: u32, class: Option<Class>) {
        for at in index..self.values.behind(index) {
            let node = self.values.node(at);
            (node.kind as u8).hash(self.hasher);
            match node.kind {
                Kind::Null | Kind::True | Kind::False | Kind::Pair => {}
                Kind::Pointer if self.rules.names != Names::Exact && node.payload >= LEAST_ADDRESS => {}
                Kind::Unsigned if self.is_renamed(class) && node.payload != 0 => {}
                Kind::Float | Kind::Double if is_nan(node.kind, node.payload) => {
                    if !self.rules.nan_is_equal {
                        self.side.hash(self.hasher);
                    }
                }
                Kind::Text | Kind::Blob | Kind::Wide => self.values.bytes_of(node).hash(self.hasher),
                Kind::Array => node.halves().0.hash(self.hasher),
                Kind::Struct => {
                    if let Some(Type::Struct(structure)) = self.types.get(node.ty) {
                        structure.name.hash(self.hasher);
                    }
                }
                _ => node.payload.hash(self.hasher),
            }
        }
    }

    fn is_renamed(&self, class: Option<Class>) -> bool {
        class.is_some() && self.rules.names != Names::Exact
    }
}

/// True if the bits are a NaN.
pub(super) fn is_nan(kind: Kind, bits: u64) -> bool {
    match kind {
        Kind::Float => f32::from_bits(bits as u32).is_nan(), // Its bits.
        Kind::Double => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}
