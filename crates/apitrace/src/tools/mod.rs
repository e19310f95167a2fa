//! Analyses of calls with their values.
//!
//! | file | tool |
//! |---|---|
//! | [`graphics`] | uploads, shaders, draws, errors |
//! | [`frames`] | calls, draws and raw memory of each frame |
//! | [`calls`] | the same for each function and thread |
//! | [`leaks`] | objects that are never destroyed |
//!
//! This module has the shared code: access to arguments of a call by name, and lists of findings.

mod blocks;
pub mod calls;
pub mod frames;
pub mod graphics;
mod inside;
pub mod leaks;
pub(crate) mod picture;

use quipu_model::doc::{Block, Cell, Grid};
use quipu_model::values::{Call, FunctionType, Kind, NO_NODE, Node, Type, Types, Values};
use quipu_model::{Batch, Columns, Needs, Tool};

/// Every analysis of this format, in the order of a report.
pub static TOOLS: &[&dyn Tool] =
    &[&frames::Frames, &graphics::Graphics, &calls::Calls, &leaks::Leaks, &crate::check::Check];

/// Requirements of tools that examine values.
pub(crate) const VALUES: Needs =
    Needs { format: Some("apitrace"), required: Columns::CALL_VALUES, optional: Columns::NONE };

/// A table of the first `top` items, with the number of items left out.
pub(crate) fn grid<T>(
    title: &str,
    head: &[&str],
    items: impl ExactSizeIterator<Item = T>,
    top: usize,
    row: impl FnMut(T) -> Vec<Cell>,
) -> Block {
    let more = items.len().saturating_sub(top) as u64;
    let head = head.iter().map(|name| (*name).to_owned()).collect();
    Block::Grid(Grid { title: title.to_owned(), head, rows: items.take(top).map(row).collect(), more })
}

/// A call with its function, values and types.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) call: &'a Call,
    pub(crate) function: &'a FunctionType,
    pub(crate) values: &'a Values,
    pub(crate) types: &'a Types,
}

/// The calls of a batch, each with its function.
pub(crate) fn seen(batch: &Batch) -> impl Iterator<Item = Seen<'_>> {
    let (values, types) = (&batch.values, &batch.types);
    values
        .calls
        .iter()
        .filter_map(move |call| Some(Seen { call, function: types.function(call.function)?, values, types }))
}

impl<'a> Seen<'a> {
    /// The node index of the value of the argument with this name.
    pub(crate) fn arg(&self, name: &str) -> Option<u32> {
        let index = self.function.args.iter().position(|arg| arg == name.as_bytes())? as u32; // Few.
        self.nth(index)
    }

    /// The node index of the value of the argument at `index`.
    pub(crate) fn nth(&self, index: u32) -> Option<u32> {
        self.values.args_of(self.call).iter().find(|arg| arg.index == index).map(|arg| arg.node)
    }

    /// The value of an argument, if it fits into 64 bits; for an array with one element, the element.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.number_at(self.arg(name)?)
    }

    pub(crate) fn number_at(&self, index: u32) -> Option<u64> {
        let node = self.values.node(index);
        match node.kind {
            Kind::Array if node.halves().0 == 1 => self.number_at(index.checked_add(1)?),
            Kind::Text | Kind::Blob | Kind::Wide | Kind::Array | Kind::Struct | Kind::Pair => None,
            _ => Some(node.bits()),
        }
    }

    /// The same as text, with its sign; empty if there is no such argument.
    pub(crate) fn signed(&self, name: &str) -> String {
        let Some(mut index) = self.arg(name) else { return String::new() };
        // Arrays with one element stand for it, as in `number_at`.
        while self.values.node(index).kind == Kind::Array && self.values.node(index).halves().0 == 1 {
            index += 1;
        }
        let node = self.values.node(index);
        match node.kind {
            Kind::Negative => format!("-{}", node.payload),
            _ => node.bits().to_string(),
        }
    }

    /// The result, if it fits into 64 bits.
    pub(crate) fn result(&self) -> Option<u64> {
        if self.call.result == NO_NODE { None } else { self.number_at(self.call.result) }
    }

    /// The name of a value of an enumeration; its number if it has no name.
    pub(crate) fn word_at(&self, index: u32) -> String {
        let node = self.values.node(index);
        match (node.kind, self.types.get(node.ty)) {
            (Kind::Enum, Some(Type::Enum(names))) => match names.name(node.payload) {
                Some(name) => String::from_utf8_lossy(name).into_owned(),
                None => format!("{:#x}", node.payload),
            },
            _ => node.bits().to_string(),
        }
    }

    /// The same for an argument; empty if there is no such argument.
    pub(crate) fn word(&self, name: &str) -> String {
        self.arg(name).map_or_else(String::new, |index| self.word_at(index))
    }

    /// The node indexes of the elements of an array; for another value, its own index.
    pub(crate) fn parts(&self, index: u32) -> Vec<u32> {
        let node = self.values.node(index);
        if node.kind != Kind::Array {
            return vec![index];
        }
        let (mut parts, mut part) = (Vec::new(), index + 1);
        for _ in 0..node.halves().0 {
            parts.push(part);
            part = self.values.behind(part);
        }
        parts
    }

    /// The first piece of raw memory among the arguments.
    pub(crate) fn blob(&self) -> Option<&'a [u8]> {
        let nodes = self.values.args_of(self.call).iter().map(|arg| self.values.node(arg.node));
        nodes.into_iter().find(|node| node.kind == Kind::Blob).map(|node| self.values.bytes_of(node))
    }

    /// All nodes of all arguments and of the result.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        let args = self.values.args_of(self.call).iter().map(|arg| arg.node);
        let result = Some(self.call.result).filter(|node| *node != NO_NODE);
        args.chain(result).flat_map(|node| (node..self.values.behind(node)).map(|at| self.values.node(at)))
    }

    /// Number of pieces of raw memory, and their total size in bytes.
    pub(crate) fn blobs(&self) -> (u64, u64) {
        let blobs = self.nodes().filter(|node| node.kind == Kind::Blob);
        blobs.fold((0, 0), |(n, bytes), node| (n + 1, bytes + u64::from(node.halves().1)))
    }

    /// The name of the function.
    pub(crate) fn name(&self) -> &'a [u8] {
        &self.function.name
    }
}
