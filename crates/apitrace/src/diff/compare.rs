//! Compares two calls argument by argument.

use super::keys::{Function, LEAST_ADDRESS, is_nan};
use super::rename::Renamer;
use super::{Names, Rules};
use crate::objects::Class;
use crate::record::{FAKE, INCOMPLETE};
use quipu_model::values::{Call, Kind, NO_NODE, Type, Types, Values};

/// One call with its values and types.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side<'a> {
    pub(super) call: &'a Call,
    pub(super) values: &'a Values,
    pub(super) types: &'a Types,
}

/// Differences between two calls of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Indexes of arguments that differ.
    pub args: Vec<u32>,
    /// Whether the results differ.
    pub result: bool,
    /// Whether one returned and the other did not.
    pub completion: bool,
    /// Whether one was made by the program and the other by the tracer.
    pub fake: bool,
}

impl Difference {
    /// True if nothing differs.
    pub fn is_none(&self) -> bool {
        self.args.is_empty() && !self.result && !self.completion && !self.fake
    }
}

/// Compares two calls of one function; `found` is cleared first.
pub(super) fn compare(
    old: Side<'_>,
    new: Side<'_>,
    function: &Function,
    rules: &Rules,
    renamer: &mut Renamer,
    found: &mut Difference,
) {
    found.args.clear();
    found.completion = (old.call.flags ^ new.call.flags) & INCOMPLETE != 0;
    found.fake = (old.call.flags ^ new.call.flags) & FAKE != 0;
    let mut pair = Pair { old, new, rules, renamer };
    let (mut olds, mut news) =
        (old.values.args_of(old.call).iter().peekable(), new.values.args_of(new.call).iter().peekable());
    loop {
        let index = match (olds.peek(), news.peek()) {
            (Some(a), Some(b)) => a.index.min(b.index),
            (Some(only), None) | (None, Some(only)) => only.index,
            (None, None) => break,
        };
        let class = function.roles.args.get(index as usize).copied().flatten();
        let (a, b) = (olds.next_if(|arg| arg.index == index), news.next_if(|arg| arg.index == index));
        let is_same = match (a, b) {
            (Some(a), Some(b)) => {
                let is_produced = function.roles.generates && class.is_some();
                pair.is_same(a.node, b.node, class, is_produced)
            }
            _ => false,
        };
        if !is_same {
            found.args.push(index);
        }
    }
    found.result = match (old.call.result, new.call.result) {
        (NO_NODE, NO_NODE) => false,
        (NO_NODE, _) | (_, NO_NODE) => !found.completion,
        (a, b) => !pair.is_same(a, b, function.roles.result, true),
    };
}

struct Pair<'a, 'r> {
    old: Side<'a>,
    new: Side<'a>,
    rules: &'r Rules,
    renamer: &'r mut Renamer,
}

impl Pair<'_, '_> {
    /// Whether two values are equal, including all their parts.
    fn is_same(&mut self, old: u32, new: u32, class: Option<Class>, is_produced: bool) -> bool {
        let (olds, news) = (self.old.values, self.new.values);
        let n_nodes = olds.behind(old) - old;
        if n_nodes != news.behind(new) - new {
            return false;
        }
        (0..n_nodes).all(|at| {
            let (a, b) = (olds.node(old + at), news.node(new + at));
            if a.kind != b.kind {
                return false;
            }
            match a.kind {
                Kind::Null | Kind::True | Kind::False | Kind::Pair => true,
                Kind::Text | Kind::Blob | Kind::Wide => olds.bytes_of(a) == news.bytes_of(b),
                Kind::Array => a.halves().0 == b.halves().0,
                Kind::Struct => self.same_structure(a.ty, b.ty),
                Kind::Float | Kind::Double if is_nan(a.kind, a.payload) && is_nan(b.kind, b.payload) => {
                    self.rules.nan_is_equal
                }
                Kind::Pointer if a.payload >= LEAST_ADDRESS && b.payload >= LEAST_ADDRESS => {
                    self.same_name(Class::Address, a.payload, b.payload, is_produced)
                }
                Kind::Unsigned if a.payload != 0 && b.payload != 0 => match class {
                    Some(class) => self.same_name(class, a.payload, b.payload, is_produced),
                    None => a.payload == b.payload,
                },
                _ => a.payload == b.payload,
            }
        })
    }

    fn same_name(&mut self, class: Class, old: u64, new: u64, is_produced: bool) -> bool {
        match self.rules.names {
            Names::Exact => old == new,
            Names::Ignored => true,
            Names::Renamed if is_produced => {
                self.renamer.produce(class, old, new);
                true
            }
            Names::Renamed => self.renamer.is_same(class, old, new),
        }
    }

    fn same_structure(&self, old: u32, new: u32) -> bool {
        match (self.old.types.get(old), self.new.types.get(new)) {
            (Some(Type::Struct(a)), Some(Type::Struct(b))) => a.name == b.name && a.members == b.members,
            _ => false,
        }
    }
}
