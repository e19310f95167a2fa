//! Counts executions of distinct instructions, each of which is decoded once.
//!
//! A row of the instrs lens carries the index of its instruction in the read's code table. So counting is one addition to a
//! plain vector, and decoding happens when a table has grown rather than when an instruction is executed.

use crate::tally::Map;
use quipu_isa::{Arch, Categories, Decoder, Opcode, Syntax};
use quipu_model::{Batch, Code, CodeTable};

/// Executions of each instruction of each read's code table, together with data `T` about it.
#[derive(Clone, Debug)]
pub(crate) struct PerCode<T> {
    reads: Vec<Read<T>>,
    /// Index in `reads` for the previous batch.
    last: usize,
    /// Executions of instructions without an encoding in the trace.
    without: u64,
}

/// One read: one code table, append-only.
#[derive(Clone, Debug)]
struct Read<T> {
    shard: u32,
    /// The last instruction that was processed, to detect the beginning of a new read.
    newest: Option<Code>,
    /// Data about each instruction of the table, and its number of executions.
    known: Vec<T>,
    counts: Vec<u64>,
}

impl<T> Default for PerCode<T> {
    fn default() -> PerCode<T> {
        PerCode { reads: Vec::new(), last: 0, without: 0 }
    }
}

impl<T> Read<T> {
    /// True if `codes` may be this read's table, whether or not it has grown.
    fn is_of(&self, shard: u32, codes: &CodeTable) -> bool {
        self.shard == shard
            && match self.known.len().checked_sub(1) {
                None => true,
                Some(index) => codes.as_slice().get(index) == self.newest.as_ref(),
            }
    }
}

impl<T> PerCode<T> {
    /// Counts the batch's instructions, calling `look` once for each one that is new in its code table. Returns the number
    /// of rows without an encoding.
    pub(crate) fn consume(&mut self, batch: &Batch, look: impl FnMut(&Code) -> T) -> u64 {
        let (shard, codes) = (batch.span.shard, &batch.codes);
        if !self.reads.get(self.last).is_some_and(|read| read.is_of(shard, codes)) {
            self.last = self.reads.iter().position(|read| read.is_of(shard, codes)).unwrap_or_else(|| {
                self.reads.push(Read { shard, newest: None, known: Vec::new(), counts: Vec::new() });
                self.reads.len() - 1
            });
        }
        let read = &mut self.reads[self.last];
        let all = codes.as_slice();
        if all.len() > read.known.len() {
            read.known.extend(all[read.known.len()..].iter().map(look));
            read.counts.resize(all.len(), 0);
            read.newest = all.last().copied();
        }
        let counts = read.counts.as_mut_slice();
        let mut without = 0;
        for &code in &batch.instrs.code {
            match counts.get_mut(code as usize) {
                Some(count) => *count += 1,
                None => without += 1, // `NO_CODE`
            }
        }
        self.without += without;
        without
    }

    /// Calls `each` with the data about every executed instruction and its count; returns the number of executions of
    /// instructions without an encoding.
    pub(crate) fn drain(self, mut each: impl FnMut(T, u64)) -> u64 {
        for read in self.reads {
            for (known, count) in read.known.into_iter().zip(read.counts) {
                if count > 0 {
                    each(known, count);
                }
            }
        }
        self.without
    }
}

/// The properties of a decoded instruction that totals need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Kind {
    /// `None` if the bytes are not an instruction, or belong to an architecture without operations.
    pub(crate) opcode: Option<Opcode>,
    pub(crate) categories: Categories,
}

/// Executed instructions by kind.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    arch: Arch,
    open: PerCode<u32>,
    /// The kinds so far, and the number of each.
    kinds: Vec<Kind>,
    numbers: Map<Kind, u32>,
    /// Counts of passes merged into this one, by kind's number.
    counts: Vec<u64>,
    without: u64,
}

/// The result of [`Executed`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    /// Counts above 0, in no particular order.
    pub(crate) counts: Vec<(Kind, u64)>,
    /// Executions of instructions without an encoding in the trace.
    pub(crate) without: u64,
}

impl Executed {
    /// Counts instructions of `arch`; those of an architecture without a decoder all count as undecoded.
    pub(crate) fn new(arch: Arch) -> Executed {
        Executed {
            arch,
            open: PerCode::default(),
            kinds: Vec::new(),
            numbers: Map::default(),
            counts: Vec::new(),
            without: 0,
        }
    }

    pub(crate) fn consume(&mut self, batch: &Batch) {
        let (kinds, numbers) = (&mut self.kinds, &mut self.numbers);
        let mut decoder = None;
        let arch = self.arch;
        self.open.consume(batch, |code| {
            let decoder = decoder.get_or_insert_with(|| Decoder::new(arch, Syntax::default()).ok());
            number_of(kind_of(decoder.as_mut(), code), kinds, numbers)
        });
    }

    pub(crate) fn merge(&mut self, later: Executed) {
        self.without += later.without;
        let mut counts = later.counts;
        counts.resize(later.kinds.len(), 0);
        self.without += later.open.drain(|number, count| counts[number as usize] += count);
        for (kind, count) in later.kinds.into_iter().zip(counts) {
            let number = number_of(kind, &mut self.kinds, &mut self.numbers) as usize;
            if self.counts.len() <= number {
                self.counts.resize(number + 1, 0);
            }
            self.counts[number] += count;
        }
    }

    pub(crate) fn finish(self) -> Kinds {
        let mut counts = self.counts;
        counts.resize(self.kinds.len(), 0);
        let open = self.open.drain(|number, count| counts[number as usize] += count);
        let counts = self.kinds.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect();
        Kinds { counts, without: self.without + open }
    }
}

fn number_of(kind: Kind, kinds: &mut Vec<Kind>, numbers: &mut Map<Kind, u32>) -> u32 {
    *numbers.entry(kind).or_insert_with(|| {
        kinds.push(kind);
        (kinds.len() - 1) as u32 // A decoder knows a few thousand operations.
    })
}

fn kind_of(decoder: Option<&mut Decoder>, code: &Code) -> Kind {
    match decoder.map(|decoder| (decoder.arch(), decoder.decode(code.pc, code.bytes()))) {
        Some((Arch::Regdeps, Ok(instr))) => Kind { opcode: None, categories: instr.categories },
        Some((_, Ok(instr))) => Kind { opcode: Some(instr.opcode), categories: instr.categories },
        Some((_, Err(_))) | None => Kind { opcode: None, categories: Categories::UNCATEGORIZED },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{X86, batch_of};
    use std::collections::BTreeMap;

    fn counts(kinds: Kinds) -> BTreeMap<String, u64> {
        let name = |kind: Kind| kind.opcode.map_or("?".to_owned(), |opcode| opcode.to_string());
        kinds.counts.into_iter().map(|(kind, count)| (name(kind), count)).collect()
    }

    #[test]
    fn a_second_read_of_the_same_shard_has_its_own_table() {
        let mut executed = Executed::new(Arch::X86_64);
        executed.consume(&batch_of(&[(0x10, X86::RET), (0x10, X86::RET)]));
        executed.consume(&batch_of(&[(0x20, X86::NOP)]));
        executed.consume(&batch_of(&[(0x10, X86::RET)]));
        assert_eq!(counts(executed.finish()), BTreeMap::from([("ret".into(), 3), ("nop".into(), 1)]));
    }

    #[test]
    fn merging_keeps_counts_of_open_and_of_merged_reads() {
        let part = |code: &'static [u8]| {
            let mut executed = Executed::new(Arch::X86_64);
            executed.consume(&batch_of(&[(0x10, code)]));
            executed
        };
        let mut left = part(X86::RET);
        left.merge(part(X86::NOP));
        let mut right = part(X86::NOP);
        right.merge(part(X86::BAD));
        left.merge(right);
        left.consume(&batch_of(&[(0x10, X86::RET)]));
        let expected = BTreeMap::from([("ret".into(), 2), ("nop".into(), 2), ("?".into(), 1)]);
        assert_eq!(counts(left.finish()), expected);
    }

    #[test]
    fn instructions_without_encoding_are_counted_apart() {
        let mut executed = Executed::new(Arch::X86_64);
        let mut batch = batch_of(&[(0x10, X86::RET)]);
        batch.instrs.code.push(quipu_model::lens::NO_CODE);
        executed.consume(&batch);
        let kinds = executed.finish();
        assert_eq!(kinds.without, 1);
        assert_eq!(counts(kinds), BTreeMap::from([("ret".into(), 1)]));
    }
}
