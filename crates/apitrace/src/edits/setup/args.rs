//! Access to the arguments of a call by name.

use super::parts::Plan;
use crate::objects::Class;
use quipu_model::values::{Call, Kind, NO_NODE, Node, Values};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// The hash of a function's name, as stored in a plan.
pub(super) fn hash_of(name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    name.to_vec().hash(&mut hasher);
    hasher.finish()
}

/// The arguments of a call, with the plan of its function.
#[derive(Clone, Copy)]
pub(super) struct CallArgs<'a> {
    pub(super) plan: &'a Plan,
    pub(super) call: &'a Call,
    pub(super) values: &'a Values,
}

impl CallArgs<'_> {
    /// The value of the argument with this name, as a number; `None` if it is missing or composite.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let index = self.plan.args.iter().position(|arg| arg == name.as_bytes())? as u32;
        let arg = self.values.args_of(self.call).iter().find(|arg| arg.index == index)?;
        let node = self.values.node(arg.node);
        (!node.is_composite()).then(|| node.bits())
    }

    pub(super) fn result(&self) -> Option<u64> {
        (self.call.result != NO_NODE).then(|| self.values.node(self.call.result).bits())
    }

    /// The objects that the call names, in the order of its arguments, then its result.
    pub(super) fn objects(&self) -> impl Iterator<Item = (Class, u64)> {
        let args = self.values.args_of(self.call).iter().filter_map(|arg| {
            let class = self.plan.roles.args.get(arg.index as usize).copied().flatten()?;
            Some((class, arg.node))
        });
        let result = self.plan.roles.result.filter(|_| self.call.result != NO_NODE);
        let result = result.map(|class| (class, self.call.result));
        let values = self.values;
        args.chain(result).flat_map(move |(class, root)| {
            (root..values.behind(root)).filter_map(move |at| {
                let node: Node = values.node(at);
                (node.kind == Kind::Unsigned).then_some((class, node.payload))
            })
        })
    }

    /// Whether the call copies pixels from what was drawn: it has arguments `x` and `y`.
    pub(super) fn is_copy(&self) -> bool {
        self.plan.args.iter().any(|arg| arg == b"x") && self.plan.args.iter().any(|arg| arg == b"y")
    }

    /// Whether the function makes contexts, judged by the names of its arguments.
    pub(super) fn is_about_contexts(&self) -> bool {
        let names: [&[u8]; 6] =
            [b"shareList", b"share_list", b"share_context", b"hShareContext", b"share", b"hdc"];
        self.plan.args.iter().any(|arg| names.contains(&arg.as_slice()))
    }
}
