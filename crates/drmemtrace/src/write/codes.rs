//! Encodings in the current chunk, and the last known encoding of each address.
//!
//! An encoding is written when its address is first executed in a chunk, and again when its bytes changed (spec 6.3), so
//! that readers of a chunk find all the encodings they need in it. Those of the source's chunks are deduplicated here, and
//! repeated where the written chunks need them.

use crate::record::Entry;
use rustc_hash::FxHashMap;

/// Slots of the front table; a power of two: 256 KiB stay in level-2 cache.
const FRONT: usize = 1 << 14;
/// Slots of the front table when hundreds of files are written at once.
const SMALL_FRONT: usize = 1 << 8;

/// Maximum number of pieces of an encoding: the longest synthetic one has 36 bytes, in pieces of eight.
pub(super) const MAX_PIECES: usize = 5;

/// The last known encoding of one address.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Its pieces, as entries.
    pieces: [Entry; MAX_PIECES],
    n_pieces: u8,
    /// Length of its instruction in bytes; synthetic encodings have another length.
    size: u16,
    /// True if branch targets come before the encoding here, not after it.
    target_first: bool,
    /// The source's chunk that gave the encoding last.
    read_in: u32,
    /// The chunk that it was written to last; 0 for none.
    written_in: u32,
}

/// The encodings of one file.
#[derive(Debug)]
pub(super) struct Codes {
    /// Instructions that need no encoding in a chunk: the address, the chunk, and the size.
    front: Vec<(u64, u32, u16)>,
    all: FxHashMap<u64, u32>,
    known: Vec<Known>,
    /// Numbers of the current chunks, from 1.
    reading: u32,
    writing: u32,
}

/// Treatment of an encoding that the source gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// It has to be written.
    Needed,
    /// The chunk already has it.
    Repeated,
}

impl Codes {
    pub(super) fn new() -> Codes {
        Codes::with_slots(FRONT)
    }

    /// An instance for one of many files.
    pub(super) fn small() -> Codes {
        Codes::with_slots(SMALL_FRONT)
    }

    fn with_slots(n_slots: usize) -> Codes {
        Codes {
            front: vec![(0, 0, 0); n_slots],
            all: FxHashMap::default(),
            known: Vec::new(),
            reading: 1,
            writing: 1,
        }
    }

    /// Begins a chunk of the source: encodings that it repeats are not new.
    pub(super) fn next_read_chunk(&mut self) {
        self.reading = self.reading.wrapping_add(1).max(1);
    }

    /// Begins a chunk to write: it has no encodings yet.
    pub(super) fn next_written_chunk(&mut self) {
        self.writing = self.writing.wrapping_add(1).max(1);
    }

    /// The number of the chunk being written.
    pub(super) fn written_chunk(&self) -> u32 {
        self.writing
    }

    /// True if the instruction of this size at `pc` certainly needs no encoding in this chunk.
    #[inline]
    pub(super) fn is_settled(&self, pc: u64, size: u16) -> bool {
        self.front[self.slot(pc)] == (pc, self.writing, size)
    }

    /// The last known encoding of an address, and whether a branch target precedes it; `None` if it was an instruction of
    /// another size, as where kernel code and the program share addresses.
    pub(super) fn get(&self, pc: u64, size: u16) -> Option<(&[Entry], bool)> {
        let known = self.known.get(*self.all.get(&pc)? as usize).filter(|known| known.size == size)?;
        Some((&known.pieces[..usize::from(known.n_pieces)], known.target_first))
    }

    /// The pieces to write before an instruction whose encoding the source did not repeat, and whether a branch target
    /// precedes them; `None` if the chunk has them, or no encoding is known for an instruction of this size.
    pub(super) fn wanted(&mut self, pc: u64, size: u16) -> Option<(&[Entry], bool)> {
        let slot = self.slot(pc);
        let known = self.all.get(&pc).and_then(|at| self.known.get_mut(*at as usize));
        if known.as_ref().is_some_and(|known| known.size != size) {
            // An instruction of the right size may still follow and need it.
            return None;
        }
        self.front[slot] = (pc, self.writing, size);
        let known = known?;
        if known.written_in == self.writing {
            return None;
        }
        known.written_in = self.writing;
        Some((&known.pieces[..usize::from(known.n_pieces)], known.target_first))
    }

    #[inline]
    fn slot(&self, pc: u64) -> usize {
        // The low bits differ most; folding in higher ones keeps distant code from sharing slots.
        ((pc ^ (pc >> 14)) as usize) & (self.front.len() - 1)
    }

    /// Records an encoding that the source gives for an instruction that is written.
    pub(super) fn give(&mut self, pc: u64, size: u16, pieces: &[Entry], target_first: bool) -> Given {
        let is_news = self.learn(pc, size, pieces, target_first);
        let slot = self.slot(pc);
        self.front[slot] = (pc, self.writing, size);
        let Some(known) = self.all.get(&pc).and_then(|at| self.known.get_mut(*at as usize)) else {
            return Given::Needed;
        };
        if !is_news && known.written_in == self.writing {
            return Given::Repeated;
        }
        known.written_in = self.writing;
        Given::Needed
    }

    /// Records an encoding of an instruction that is not written. True unless it is only the first repetition of a known
    /// encoding in a chunk of the source.
    pub(super) fn learn(&mut self, pc: u64, size: u16, pieces: &[Entry], target_first: bool) -> bool {
        let reading = self.reading;
        let mut stored = [Entry::ZERO; MAX_PIECES];
        let n_pieces = pieces.len().min(MAX_PIECES);
        stored[..n_pieces].copy_from_slice(&pieces[..n_pieces]);
        let new = Known {
            pieces: stored,
            n_pieces: n_pieces as u8, // At most five.
            size,
            target_first,
            read_in: reading,
            written_in: 0,
        };
        let next = self.known.len() as u32; // 2^32 of them would be 2^36 bytes of entries.
        let at = *self.all.entry(pc).or_insert(next) as usize;
        let slot = self.slot(pc);
        let Some(known) = self.known.get_mut(at) else {
            self.known.push(new);
            return true;
        };
        let is_same = known.size == size && known.n_pieces == new.n_pieces && known.pieces == new.pieces;
        // Twice in one chunk with the same bytes: the code was generated anew, which readers need to know.
        let is_news = !is_same || known.read_in == reading;
        if !is_same {
            // The chunk may have had the old bytes; they must not stand for the new ones.
            self.front[slot] = (0, 0, 0);
            *known = new;
        }
        known.target_first = target_first;
        known.read_in = reading;
        is_news
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
    fn an_encoding_is_wanted_once_in_each_chunk() {
        let mut codes = Codes::new();
        assert_eq!(codes.give(0x1000, 1, &piece(0x90), false), Given::Needed);
        assert!(codes.is_settled(0x1000, 1));
        codes.next_written_chunk();
        assert!(!codes.is_settled(0x1000, 1));
        assert_eq!(codes.wanted(0x1000, 2), None, "another instruction");
        assert_eq!(codes.get(0x1000, 2), None);
        assert_eq!(codes.wanted(0x1000, 1), Some((&piece(0x90)[..], false)));
        assert_eq!(codes.wanted(0x1000, 1), None);
    }

    #[test]
    fn what_a_chunk_of_the_source_repeats_is_no_news() {
        let mut codes = Codes::new();
        codes.give(0x1000, 1, &piece(0x90), false);
        codes.next_read_chunk();
        assert_eq!(codes.give(0x1000, 1, &piece(0x90), false), Given::Repeated);
        assert_eq!(codes.give(0x1000, 1, &piece(0x90), false), Given::Needed, "made anew");
        assert_eq!(codes.give(0x1000, 1, &piece(0xc3), false), Given::Needed, "changed");
    }

    #[test]
    fn an_encoding_of_a_dropped_instruction_goes_to_the_next_kept_one() {
        let mut codes = Codes::new();
        codes.give(0x1000, 1, &piece(0x90), false);
        codes.learn(0x1000, 1, &piece(0xc3), true);
        assert!(!codes.is_settled(0x1000, 1));
        assert_eq!(codes.wanted(0x1000, 1), Some((&piece(0xc3)[..], true)));
    }
}
