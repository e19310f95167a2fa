//! The encodings that each of many files has given so far, told apart only where the files differ.
//!
//! Files of one process mostly run the same code. The first encoding of each instruction is therefore kept once for all
//! files of a process; a file keeps one bit for each instruction that it has met, and an encoding of its own where it has
//! another one than the first.

use crate::record::Entry;
use crate::write::codes::MAX_PIECES;
use rustc_hash::FxHashMap;

/// An encoding, in the pieces that the entries come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Code {
    pieces: [Entry; MAX_PIECES],
    n_pieces: u8,
    /// A branch target stands before it, not after it.
    target_first: bool,
    /// Bytes of the instruction, which those of synthetic encodings differ from.
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
    /// By process and address: the number of the instruction.
    numbers: FxHashMap<(u64, u64), u32>,
    first: Vec<Code>,
}

/// The encodings of one file.
#[derive(Debug)]
pub(super) struct OfFile {
    process: u64,
    /// Instructions that the present chunk has given an encoding of, and those that earlier ones have.
    now: Numbers,
    before: Numbers,
    /// Where the latest encoding is not the first one of the process.
    own: FxHashMap<u32, Code>,
}

/// Numbers of instructions, 64 in a word. Instructions that are met together have numbers that lie together.
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
    /// Of a file of this process that has given none yet.
    pub(super) fn new(process: u64) -> OfFile {
        OfFile { process, now: Numbers::default(), before: Numbers::default(), own: FxHashMap::default() }
    }

    /// A chunk begins: what it repeats is no news.
    pub(super) fn next_chunk(&mut self) {
        for (at, word) in self.now.0.drain() {
            *self.before.0.entry(at).or_default() |= word;
        }
    }

    fn has(&self, number: u32) -> bool {
        self.now.has(number) || self.before.has(number)
    }

    /// The latest encoding that the file gave at `pc`, and whether a branch target stands before it; none if it was of an
    /// instruction of another size.
    pub(super) fn get<'e>(&'e self, all: &'e Encodings, pc: u64, size: u16) -> Option<(&'e [Entry], bool)> {
        let number = *all.numbers.get(&(self.process, pc))?;
        if !self.has(number) {
            return None;
        }
        let code = self.own.get(&number).or_else(|| all.first.get(number as usize))?;
        (code.size == size).then(|| (code.pieces(), code.target_first))
    }

    /// Takes in an encoding. True if it replaces an earlier one of the file: it has other bytes, or the same chunk gives it a
    /// second time, which says that the code was made anew.
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
