//! Texts of instructions, each distinct one rendered once.

use quipu_isa::Decoder;
use quipu_model::{Code, CodeTable};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Rendered instructions. Threads of one program run the same code, so texts are shared between shards; each shard only has a
/// list of numbers.
#[derive(Debug, Default)]
pub(crate) struct CodeTexts {
    decoder: Option<Decoder>,
    known: FxHashMap<Code, u32>,
    texts: Vec<Range<usize>>,
    arena: Vec<u8>,
    shards: FxHashMap<u32, Vec<u32>>,
    scratch: String,
}

impl CodeTexts {
    /// Renders with `decoder`; without one, instructions have bytes and no text.
    pub(crate) fn new(decoder: Option<Decoder>) -> CodeTexts {
        CodeTexts { decoder, ..CodeTexts::default() }
    }

    /// Renders the instructions of a shard that are new since the last call. `render` writes an encoding and, if there is a
    /// decoder, its text in the form of the output.
    pub(crate) fn learn(
        &mut self,
        shard: u32,
        codes: &CodeTable,
        render: impl Fn(&[u8], Option<&str>, &mut Vec<u8>),
    ) {
        let ids = self.shards.entry(codes.home(shard)).or_default();
        // Readers use 32-bit indexes.
        let new = (ids.len() as u32..codes.len() as u32).filter_map(|index| codes.get(index));
        for code in new {
            let next = self.texts.len() as u32; // Never more than the readers' 32-bit indexes.
            let id = *self.known.entry(*code).or_insert(next);
            if id == next {
                let text = self.decoder.as_mut().map(|decoder| {
                    self.scratch.clear();
                    decoder.text(code.pc, code.bytes(), &mut self.scratch);
                    self.scratch.trim_end()
                });
                let start = self.arena.len();
                render(code.bytes(), text, &mut self.arena);
                self.texts.push(start..self.arena.len());
            }
            ids.push(id);
        }
    }

    /// The instructions of `shard`; to be called once for each batch.
    pub(crate) fn of(&self, shard: u32) -> ShardTexts<'_> {
        ShardTexts { all: self, ids: self.shards.get(&shard).map_or(&[], Vec::as_slice) }
    }
}

/// Rendered instructions of one shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardTexts<'a> {
    all: &'a CodeTexts,
    ids: &'a [u32],
}

impl<'a> ShardTexts<'a> {
    /// The rendered form of instruction number `index`.
    pub(crate) fn get(self, index: u32) -> Option<&'a [u8]> {
        let id = *self.ids.get(index as usize)?;
        self.all.arena.get(self.all.texts.get(id as usize)?.clone())
    }
}
