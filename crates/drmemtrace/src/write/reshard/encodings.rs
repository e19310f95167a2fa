//! The encodings that each of many files has given so far, stored separately only where the files differ.
//!
//! Files of one process mostly run the same code. So the first encoding of each instruction is stored once for all files of
//! a process; a file stores one bit for each instruction that it has executed, and an encoding of its own where that differs
//! from the first.

use crate::record::Entry;
use crate::write::codes::MAX_PIECES;
use rustc_hash::FxHashMap;

/// An encoding, in the pieces of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    pieces: [Entry; MAX_PIECES],
    n_pieces: u8,
    /// True if a branch target precedes it rather than following it.
    target_first: bool,
    /// Length of the instruction in bytes, which differs from that of synthetic encodings.
    size: u16,
}

impl Code {
    fn new(size: u16, pieces: &[Entry], target_first: bool) -> Code {
        let mut stored = [Entry::ZERO; MAX_PIECES];
        let n_pieces = pieces.len().min(MAX_PIECES);
        stored[..n_pieces].copy_from_slice(&pieces[..n_pieces]);
        Code { pieces: stored, n_pieces: n_pieces as u8, target_first, size } // At most five.
    }

    fn pieces(&self) -> &[Entry] {
        &self.pieces[..usize::from(self.n_pieces)]
    }
}

/// The first encoding of each instruction of each process.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    /// Number of an instruction, by process and address.
    numbers: FxHashMap<(u64, u64), u32>,
    first: Vec<Code>,
}

/// The encodings of one file.
#[derive(Debug)]
pub(super) struct OfFile {
    process: u64,
    /// Instructions with an encoding in the current chunk, then those with one in earlier chunks.
    now: Numbers,
    before: Numbers,
    /// The latest encodings that differ from the first one of the process.
    own: FxHashMap<u32, Code>,
}

/// A set of instruction numbers, 64 in a word. Instructions that are executed together have neighbouring numbers.
#[derive(Debug, Default)]
struct Numbers(FxHashMap<u32, u64>);

impl Numbers {
    fn has(&self, number: u32) -> bool {
        self.0.get(&(number / 64)).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    fn insert(&mut self, number: u32) {
        *self.0.entry(number / 64).or_default() |= 1 << (number % 64);
    }
}

impl OfFile {
    /// An instance for a file of this process, without encodings so far.
    pub(super) fn new(process: u64) -> OfFile {
        OfFile { process, now: Numbers::default(), before: Numbers::default(), own: FxHashMap::default() }
    }

    /// Begins a chunk: encodings that it repeats are not new.
    pub(super) fn next_chunk(&mut self) {
        for (at, word) in self.now.0.drain() {
            *self.before.0.entry(at).or_default() |= word;
        }
    }

    fn has(&self, number: u32) -> bool {
        self.now.has(number) || self.before.has(number)
    }

    /// The latest encoding that the file gave at `pc`, and whether a branch target precedes it; `None` if it was of an
    /// instruction of another size.
    pub(super) fn get<'e>(&'e self, all: &'e Encodings, pc: u64, size: u16) -> Option<(&'e [Entry], bool)> {
        let number = *all.numbers.get(&(self.process, pc))?;
        if !self.has(number) {
            return None;
        }
        let code = self.own.get(&number).or_else(|| all.first.get(number as usize))?;
        (code.size == size).then(|| (code.pieces(), code.target_first))
    }

    /// Records an encoding. True if it replaces an earlier one of the file: it has other bytes, or it is the second in the
    /// same chunk, which means that the code was generated anew.
    pub(super) fn learn(
        &mut self,
        all: &mut Encodings,
        pc: u64,
        size: u16,
        pieces: &[Entry],
        target_first: bool,
    ) -> bool {
        let new = Code::new(size, pieces, target_first);
        let next = all.first.len() as u32; // 2^32 of them would be 2^38 bytes.
        let number = *all.numbers.entry((self.process, pc)).or_insert(next);
        if number == next {
            all.first.push(new);
        }
        let Some(first) = all.first.get(number as usize) else { return false };
        let was_now = self.now.has(number);
        let old = (was_now || self.before.has(number)).then(|| self.own.get(&number).unwrap_or(first));
        let replaces = old.is_some_and(|old| was_now || (old.size, old.pieces()) != (size, new.pieces()));
        if *first == new {
            self.own.remove(&number);
        } else {
            self.own.insert(number, new);
        }
        self.now.insert(number);
        replaces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Type;

    fn piece(bytes: u64) -> [Entry; 1] {
        [Entry::new(Type::ENCODING, 1, bytes)]
    }

    #[test]
    fn files_of_one_process_share_encodings_and_know_only_their_own() {
        let mut all = Encodings::default();
        let (mut one, mut two, mut other) = (OfFile::new(7), OfFile::new(7), OfFile::new(8));
        assert!(!one.learn(&mut all, 0x1000, 1, &piece(0x90), false));
        assert_eq!(one.get(&all, 0x1000, 1), Some((&piece(0x90)[..], false)));
        assert_eq!(one.get(&all, 0x1000, 2), None, "an instruction of another size");
        assert_eq!(two.get(&all, 0x1000, 1), None, "this file has not given it");
        assert_eq!(other.get(&all, 0x1000, 1), None);

        assert!(!two.learn(&mut all, 0x1000, 1, &piece(0x90), false));
        assert!(!other.learn(&mut all, 0x1000, 1, &piece(0xcc), false));
        assert_eq!(all.first.len(), 2, "one of each process");
        assert_eq!(other.get(&all, 0x1000, 1), Some((&piece(0xcc)[..], false)));

        assert!(two.learn(&mut all, 0x1000, 1, &piece(0xc3), true));
        assert_eq!(two.get(&all, 0x1000, 1), Some((&piece(0xc3)[..], true)));
        assert_eq!(one.get(&all, 0x1000, 1), Some((&piece(0x90)[..], false)));
        assert!(two.learn(&mut all, 0x1000, 1, &piece(0x90), false));
        assert!(two.own.is_empty(), "it is the first one again");
    }

    #[test]
    fn a_repetition_in_another_chunk_is_no_news_and_one_in_the_same_is() {
        let mut all = Encodings::default();
        let mut file = OfFile::new(7);
        assert!(!file.learn(&mut all, 0x1000, 1, &piece(0x90), false));
        file.next_chunk();
        assert_eq!(file.get(&all, 0x1000, 1), Some((&piece(0x90)[..], false)));
        assert!(!file.learn(&mut all, 0x1000, 1, &piece(0x90), false));
        assert!(file.learn(&mut all, 0x1000, 1, &piece(0x90), false), "made anew");
        file.next_chunk();
        assert!(file.learn(&mut all, 0x1000, 1, &piece(0xc3), false), "changed");
    }
}
