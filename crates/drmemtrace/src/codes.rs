//! Which instruction stands at an address: encodings are given once and carried to each later execution.

use quipu_model::lens::NO_CODE;
use quipu_model::{Code, CodeTable};
use rustc_hash::FxHashMap;

/// Slots of the front table; a power of two: 256 KiB stay in level-2 cache.
pub(crate) const FRONT: usize = 1 << 14;
/// Slots where thousands of files are read at once.
pub(crate) const SMALL_FRONT: usize = 1 << 8;

/// Maps addresses to indexes of a [`CodeTable`]; the latest encoding of an address wins.
#[derive(Debug)]
pub(crate) struct CodeMap {
    /// Address, index, and bytes of the instruction there.
    front: Vec<(u64, u32, u16)>,
    all: FxHashMap<u64, u32>,
}

impl CodeMap {
    /// An empty map with `n_slots` slots in front, a power of two.
    pub(crate) fn new(n_slots: usize) -> CodeMap {
        CodeMap {
            front: vec![(u64::MAX, NO_CODE, 0); n_slots.next_power_of_two()],
            all: FxHashMap::default(),
        }
    }

    /// The instruction of `size` bytes at `pc`, or [`NO_CODE`]: one of another size is another one, as where kernel code
    /// and the program share addresses.
    #[inline]
    pub(crate) fn get(&mut self, pc: u64, size: u16, table: &CodeTable) -> u32 {
        let slot = self.slot(pc);
        let (known, code, known_size) = self.front[slot];
        if known == pc && code != NO_CODE && known_size == size {
            return code;
        }
        self.get_slow(pc, size, slot, table)
    }

    fn get_slow(&mut self, pc: u64, size: u16, slot: usize, table: &CodeTable) -> u32 {
        let code = self.all.get(&pc).copied().unwrap_or(NO_CODE);
        if table.get(code).is_none_or(|known| known.size != size) {
            return NO_CODE;
        }
        self.front[slot] = (pc, code, size);
        code
    }

    /// True if any instruction is known at `pc`.
    pub(crate) fn knows(&self, pc: u64) -> bool {
        self.all.contains_key(&pc)
    }

    /// Notes that `bytes` stand at `pc` from now on and returns their index, the old one if they stood there before.
    pub(crate) fn set(&mut self, pc: u64, size: u16, bytes: &[u8], table: &mut CodeTable) -> u32 {
        let new = Code::new(pc, size, bytes);
        let known = self.all.get(&pc).copied();
        if let Some(code) = known
            && table.get(code) == Some(&new)
        {
            return code;
        }
        let code = table.push(new);
        self.all.insert(pc, code);
        let slot = self.slot(pc);
        self.front[slot] = (pc, code, size);
        code
    }

    #[inline]
    fn slot(&self, pc: u64) -> usize {
        // The low bits differ most; folding in higher ones keeps code far apart from sharing slots.
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
    fn addresses_that_share_a_slot_are_kept_apart() {
        let (mut map, mut table) = (CodeMap::new(SMALL_FRONT), CodeTable::default());
        let pcs: Vec<u64> = (0..3).map(|i| i << 40).collect();
        let codes: Vec<u32> = pcs.iter().map(|pc| map.set(*pc, 1, &[0x90], &mut table)).collect();
        for _ in 0..2 {
            assert_eq!(pcs.iter().map(|pc| map.get(*pc, 1, &table)).collect::<Vec<_>>(), codes);
        }
    }
}
