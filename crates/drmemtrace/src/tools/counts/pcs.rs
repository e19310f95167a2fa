//! A set of instruction addresses: one bit for each byte of each page of code.
//!
//! Code is dense: a few hundred pages hold all code that most programs execute, so sets are small and merge a word at a
//! time. In front of the set is a table of addresses that are certainly in it: nearly every look-up ends there.

use rustc_hash::FxHashMap;

/// PERF: small pages, so that scattered addresses, as in damaged traces, take little memory.
const PAGE_BITS: u32 = 9;
const WORDS: usize = 1 << (PAGE_BITS - 6);
/// Initial and maximum number of slots of the table in front: 128 KiB stay in level-2 cache.
const MIN_FRONT: usize = 1 << 6;
const MAX_FRONT: usize = 1 << 14;
/// Factor by which the table grows once it is half full.
const GROWTH: usize = 4;

/// A set of addresses.
#[derive(Clone, Debug, Default)]
pub(crate) struct PcSet {
    pages: FxHashMap<u64, u32>,
    bits: Vec<[u64; WORDS]>,
}

/// A table of addresses that are certainly in a set. Belongs to one set at a time.
///
/// It grows with the number of addresses, because each of many short intervals has its own.
pub(crate) struct Front {
    /// A power of two of them.
    slots: Box<[u64]>,
    /// Number of addresses inserted since the table was last resized.
    n_put: usize,
}

impl PcSet {
    /// Number of addresses.
    pub(crate) fn len(&self) -> u64 {
        self.bits.iter().flatten().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Adds all addresses of another set.
    pub(crate) fn merge(&mut self, other: &PcSet) {
        for (page, index) in &other.pages {
            let mine = self.page(*page);
            for (mine, theirs) in self.bits[mine].iter_mut().zip(&other.bits[*index as usize]) {
                *mine |= theirs;
            }
        }
    }

    /// The addresses, sorted.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u64> {
        let mut all = Vec::new();
        for (page, index) in &self.pages {
            let bits = &self.bits[*index as usize];
            all.extend(
                (0..1 << PAGE_BITS)
                    .filter(|at| bits[at / 64] >> (at % 64) & 1 == 1)
                    .map(|at| (page << PAGE_BITS) + at as u64),
            );
        }
        all.sort_unstable();
        all
    }

    /// Adds an address.
    pub(crate) fn insert(&mut self, front: &mut Front, pc: u64) {
        let index = self.page(pc >> PAGE_BITS);
        self.bits[index][(pc >> 6) as usize & (WORDS - 1)] |= 1 << (pc & 63);
        front.put(pc);
    }

    /// Position of a page's bits, which are added if they are missing.
    fn page(&mut self, page: u64) -> usize {
        let next = self.bits.len();
        let index = *self.pages.entry(page).or_insert(next as u32) as usize; // Never 2^32 pages of half a kilobyte.
        if index == next {
            self.bits.push([0; WORDS]);
        }
        index
    }
}

impl PartialEq for PcSet {
    fn eq(&self, other: &PcSet) -> bool {
        let is_same = |(page, index): (&u64, &u32)| {
            other.pages.get(page).map(|other_index| &other.bits[*other_index as usize])
                == Some(&self.bits[*index as usize])
        };
        self.pages.len() == other.pages.len() && self.pages.iter().all(is_same)
    }
}

impl Eq for PcSet {}

impl Front {
    /// An empty table.
    pub(crate) fn new() -> Front {
        Front::of_size(MIN_FRONT)
    }

    fn of_size(n_slots: usize) -> Front {
        let mut front = Front { slots: vec![u64::MAX; n_slots].into(), n_put: 0 };
        front.clear();
        front
    }

    /// Adds an address that is in the set.
    fn put(&mut self, pc: u64) {
        self.n_put += 1;
        if self.n_put > self.slots.len() / 2 && self.slots.len() < MAX_FRONT {
            self.grow();
        }
        let slot = self.slot(pc);
        self.slots[slot] = pc;
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Front::of_size(self.slots.len() * GROWTH);
        let is_known = |slot: usize, pc: u64| pc != u64::MAX && self.slot(pc) == slot;
        for (slot, pc) in self.slots.iter().enumerate() {
            if is_known(slot, *pc) {
                let slot = larger.slot(*pc);
                larger.slots[slot] = *pc;
                larger.n_put += 1;
            }
        }
        *self = larger;
    }

    /// Removes all addresses, for use with another set.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(u64::MAX);
        // The one slot where the filler would be taken for an address.
        let odd = self.slot(u64::MAX);
        self.slots[odd] = 0;
    }

    /// True if `pc` is certainly in the set, or if `wanted` is 0.
    #[inline]
    pub(crate) fn has(&self, pc: u64, wanted: u64) -> bool {
        // One test for both conditions.
        (self.slots[self.slot(pc)] ^ pc) & wanted == 0
    }

    #[inline]
    fn slot(&self, pc: u64) -> usize {
        ((pc ^ (pc >> 14)) as usize) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_again_and_counted_once() {
        let (mut set, mut front) = (PcSet::default(), Front::new());
        let pcs = [0, 63, 64, 4095, 4096, u64::MAX, u64::MAX - 4095, 1 << 24, 0];
        for pc in pcs {
            set.insert(&mut front, pc);
            assert!(front.has(pc, u64::MAX));
        }
        assert!(!front.has(1, u64::MAX));
        assert!(front.has(1, 0), "an address that is not asked for");
        assert_eq!(set.len(), 8);
        assert_eq!(set.to_vec(), [0, 63, 64, 4095, 4096, 1 << 24, u64::MAX - 4095, u64::MAX]);
    }

    #[test]
    fn the_table_in_front_grows_with_its_addresses_and_forgets_none() {
        let (mut set, mut front) = (PcSet::default(), Front::new());
        assert_eq!(front.slots.len(), MIN_FRONT);
        (0..MIN_FRONT as u64 / 2).for_each(|pc| set.insert(&mut front, pc));
        assert_eq!(front.slots.len(), MIN_FRONT, "what fits takes no more memory");
        (0..MAX_FRONT as u64).for_each(|pc| set.insert(&mut front, pc));
        assert_eq!(front.slots.len(), MAX_FRONT);
        assert!((0..MAX_FRONT as u64).all(|pc| front.has(pc, u64::MAX)));
        assert!(!front.has(u64::MAX, u64::MAX) && !front.has(MAX_FRONT as u64, u64::MAX));
    }

    #[test]
    fn merging_unites() {
        let (mut a, mut b, mut front) = (PcSet::default(), PcSet::default(), Front::new());
        a.insert(&mut front, 0x1000);
        a.insert(&mut front, 0x2000);
        front.clear();
        b.insert(&mut front, 0x2000);
        b.insert(&mut front, 0x3001);
        a.merge(&b);
        assert_eq!(a.to_vec(), [0x1000, 0x2000, 0x3001]);
    }
}
