//! Maps addresses to instructions: a trace gives each encoding once, and later executions refer to it.

use quipu_model::lens::NO_CODE;
use quipu_model::{Code, CodeTable};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Slots of the front table; a power of two: 256 KiB stay in level-2 cache.
pub(crate) const FRONT: usize = 1 << 14;
/// Slots of the front table when thousands of files are read at once.
pub(crate) const SMALL_FRONT: usize = 1 << 8;

/// Maps addresses to indexes of a [`CodeTable`]; the latest encoding of an address wins.
#[derive(Debug)]
pub(crate) struct CodeMap {
    /// A cache in front of `all`: address, index and length of the instruction.
    front: Vec<(u64, u32, u16)>,
    /// The latest index of each address, except those in `firsts`.
    all: FxHashMap<u64, u32>,
    /// For reads that share one code table: the indexes that this read added as the first at their address and that still
    /// hold. A bit set by index, 64 to a word, because instructions that are executed together have neighbouring indexes.
    firsts: FxHashMap<u32, u64>,
}

impl CodeMap {
    /// An empty map with `n_slots` slots in front, a power of two.
    pub(crate) fn new(n_slots: usize) -> CodeMap {
        CodeMap {
            front: vec![(u64::MAX, NO_CODE, 0); n_slots.next_power_of_two()],
            all: FxHashMap::default(),
            firsts: FxHashMap::default(),
        }
    }

    /// The index of the latest encoding at `pc`.
    #[cold]
    fn latest(&self, pc: u64, table: &CodeTable) -> Option<u32> {
        if let Some(code) = self.all.get(&pc) {
            return Some(*code);
        }
        let first = table.shared()?.first_at(pc)?;
        let word = self.firsts.get(&(first / 64))?;
        (word >> (first % 64) & 1 != 0).then_some(first)
    }

    /// The instruction of `size` bytes at `pc`, or [`NO_CODE`]. With another size it is another instruction, as where kernel
    /// code and the program share addresses.
    #[inline]
    pub(crate) fn get(&mut self, pc: u64, size: u16, table: &CodeTable) -> u32 {
        let slot = self.slot(pc);
        let (known, code, known_size) = self.front[slot];
        if known == pc && code != NO_CODE && known_size == size {
            return code;
        }
        self.get_slow(pc, size, slot, table)
    }

    // PERF: kept apart from the lookups that the front table answers.
    #[cold]
    fn get_slow(&mut self, pc: u64, size: u16, slot: usize, table: &CodeTable) -> u32 {
        let code = self.latest(pc, table).unwrap_or(NO_CODE);
        if table.get(code).is_none_or(|known| known.size != size) {
            return NO_CODE;
        }
        self.front[slot] = (pc, code, size);
        code
    }

    /// True if any instruction is known at `pc`.
    pub(crate) fn knows(&self, pc: u64, table: &CodeTable) -> bool {
        self.latest(pc, table).is_some()
    }

    /// Records that `bytes` are at `pc` from now on and returns their index, the old one if they were there before.
    // PERF: most instructions of a trace have no encoding before them.
    #[inline(never)]
    pub(crate) fn set(&mut self, pc: u64, size: u16, bytes: &[u8], table: &mut CodeTable) -> u32 {
        let new = Code::new(pc, size, bytes);
        if let Some(code) = self.latest(pc, table)
            && table.get(code) == Some(&new)
        {
            return code;
        }
        let code = match table.shared().map(Arc::clone) {
            None => {
                let code = table.push(new);
                self.all.insert(pc, code);
                code
            }
            Some(shared) => {
                let (code, is_first) = shared.learn(new);
                if is_first {
                    *self.firsts.entry(code / 64).or_default() |= 1 << (code % 64);
                    self.all.remove(&pc);
                } else {
                    self.all.insert(pc, code);
                }
                code
            }
        };
        let slot = self.slot(pc);
        self.front[slot] = (pc, code, size);
        code
    }

    #[inline]
    fn slot(&self, pc: u64) -> usize {
        // The low bits differ most; folding in higher ones keeps distant code from sharing slots.
        ((pc ^ (pc >> 14)) as usize) & (self.front.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_encoding_of_an_address_wins() {
        let (mut map, mut table) = (CodeMap::new(SMALL_FRONT), CodeTable::default());
        assert_eq!(map.get(0x1000, 1, &table), NO_CODE);
        let first = map.set(0x1000, 1, &[0x90], &mut table);
        let again = map.set(0x1000, 1, &[0x90], &mut table);
        let changed = map.set(0x1000, 1, &[0xc3], &mut table);
        assert_eq!((first, again, changed), (0, 0, 1));
        assert_eq!(map.get(0x1000, 1, &table), 1);
        assert_eq!(map.get(0x1000, 2, &table), NO_CODE, "another instruction");
    }

    #[test]
    fn reads_that_share_a_table_know_only_what_they_were_given() {
        let shared = Arc::default();
        let [mut first, mut second] = [(); 2].map(|()| CodeTable::sharing(Some(Arc::clone(&shared))));
        let [mut one, mut two] = [(); 2].map(|()| CodeMap::new(SMALL_FRONT));
        assert_eq!(one.set(0x1000, 1, &[0x90], &mut first), 0);
        assert_eq!(two.get(0x1000, 1, &second), NO_CODE, "it was not given one");
        assert!(!two.knows(0x1000, &second));
        assert_eq!(two.set(0x1000, 1, &[0xc3], &mut second), 1);
        assert_eq!(two.set(0x1000, 1, &[0x90], &mut second), 0, "the first of all is the latest again");
        assert_eq!(two.get(0x1000, 1, &second), 0);
        assert_eq!(one.set(0x1000, 1, &[0xc3], &mut first), 1);
        // Another address that maps to the slot of the first one.
        for (map, table, expected) in [(&mut one, &mut first, 1), (&mut two, &mut second, 0)] {
            map.set(0x1000 | 1 << 40, 1, &[0x90], table);
            assert_eq!(map.get(0x1000, 1, table), expected);
        }
        assert_eq!(shared.len(), 3);
    }

    #[test]
    fn addresses_that_share_a_slot_are_kept_apart() {
        let (mut map, mut table) = (CodeMap::new(SMALL_FRONT), CodeTable::default());
        let pcs: Vec<u64> = (0..3).map(|i| i << 40).collect();
        let codes: Vec<u32> = pcs.iter().map(|pc| map.set(*pc, 1, &[0x90], &mut table)).collect();
        for _ in 0..2 {
            assert_eq!(pcs.iter().map(|pc| map.get(*pc, 1, &table)).collect::<Vec<_>>(), codes);
        }
    }
}
