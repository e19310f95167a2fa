//! Memory by pages: which region has a byte, and which bytes of a line were touched, by whom.
//!
//! A page is made when it is first touched. The truth about regions stands in a [`RegionMap`]; here is what of it fits 16 bytes,
//! so that a look-up takes two loads. PERF: one search in the map takes longer than all else that is done for an access.

use quipu_symbols::attribute::Held;
use quipu_symbols::regions::{Region, RegionMap, Slot};
use rustc_hash::FxHashMap;

/// Bytes of a page, as a power of two; lines are not longer.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// Bytes that have one entry, as a power of two: what allocators align to.
const GRAIN_SHIFT: u32 = 4;
const N_GRAINS: usize = 1 << (PAGE_SHIFT - GRAIN_SHIFT);
/// Pages whose position is remembered; a power of two.
const N_NEAR: usize = 1 << 10;

/// An entry of bytes that no region has.
const NONE: Slot = Slot::MAX;
/// An entry of bytes of which only the map knows.
const MIXED: Slot = Slot::MAX - 1;

/// The owner of a line that nobody touched.
pub(crate) const NOBODY: u32 = u32::MAX;

/// What happened to a line. Bits stand for its bytes, or for as many bytes as it takes for 64 bits to be enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// What was touched since it was last settled.
    pub(crate) touched: u64,
    /// What the thread that touched the line last has read and written since it took the line over.
    pub(crate) seen: [u64; 2],
    /// That thread, by number.
    pub(crate) owner: u32,
    /// Whether threads have taken it over from each other.
    pub(crate) is_shared: bool,
}

const UNTOUCHED: Line = Line { touched: 0, seen: [0; 2], owner: NOBODY, is_shared: false };

#[derive(Clone, Debug)]
pub(crate) struct Page {
    number: u64,
    grains: [Slot; N_GRAINS],
    pub(crate) lines: Box<[Line]>,
}

/// The pages that were touched.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    line_shift: u32,
    pages: Vec<Page>,
    numbers: FxHashMap<u64, u32>,
    near: Box<[(u64, u32)]>,
}

impl Space {
    /// No page yet, with lines of so many bytes as a power of two.
    pub(crate) fn new(line_shift: u32) -> Space {
        Space {
            line_shift,
            pages: Vec::new(),
            numbers: FxHashMap::default(),
            near: vec![(u64::MAX, 0); N_NEAR].into(),
        }
    }

    /// The page of an address, made if there is none.
    #[inline]
    pub(crate) fn page(&mut self, addr: u64, regions: &RegionMap<Held>) -> &mut Page {
        let number = addr >> PAGE_SHIFT;
        let (known, at) = self.near[number as usize & (N_NEAR - 1)]; // A page by its lower bits.
        let at = if known == number { at } else { self.find(number, regions) };
        &mut self.pages[at as usize]
    }

    /// The page of an address, if there is one.
    #[inline]
    pub(crate) fn known(&self, addr: u64) -> Option<&Page> {
        let number = addr >> PAGE_SHIFT;
        let (known, at) = self.near[number as usize & (N_NEAR - 1)]; // A page by its lower bits.
        let at = if known == number { at } else { *self.numbers.get(&number)? };
        self.pages.get(at as usize)
    }

    #[cold]
    fn find(&mut self, number: u64, regions: &RegionMap<Held>) -> u32 {
        let next = self.pages.len() as u32; // 2^32 pages fit no memory.
        let at = *self.numbers.entry(number).or_insert(next);
        if at == next {
            let n_lines = 1 << (PAGE_SHIFT - self.line_shift);
            let lines = vec![UNTOUCHED; n_lines].into();
            let mut page = Page { number, grains: [NONE; N_GRAINS], lines };
            page.fill(0, N_GRAINS, regions);
            self.pages.push(page);
        }
        self.near[number as usize & (N_NEAR - 1)] = (number, at);
        at
    }

    /// Takes over what has changed about regions between two addresses.
    pub(crate) fn repaint(&mut self, start: u64, end: u64, regions: &RegionMap<Held>) {
        if start >= end {
            return;
        }
        self.each_page(start, end, |page| {
            let base = page.number << PAGE_SHIFT;
            let from = (start.max(base) - base) >> GRAIN_SHIFT;
            let to = ((end - 1).min(base | ((1 << PAGE_SHIFT) - 1)) - base) >> GRAIN_SHIFT;
            page.fill(from as usize, to as usize + 1, regions); // Within a page.
        });
    }

    /// Calls `each` for the pages that lie between two addresses, in part or in whole.
    pub(crate) fn each_page(&mut self, start: u64, end: u64, mut each: impl FnMut(&mut Page)) {
        if start >= end {
            return;
        }
        let (first, last) = (start >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT);
        if last - first < self.pages.len() as u64 {
            for number in first..=last {
                if let Some(at) = self.numbers.get(&number) {
                    each(&mut self.pages[*at as usize]);
                }
            }
        } else {
            let between = |page: &&mut Page| (first..=last).contains(&page.number);
            self.pages.iter_mut().filter(between).for_each(each);
        }
    }
}

impl Page {
    /// Its first address.
    pub(crate) fn base(&self) -> u64 {
        self.number << PAGE_SHIFT
    }

    /// The region that has an address of this page.
    #[inline]
    pub(crate) fn region<'a>(&self, addr: u64, regions: &'a RegionMap<Held>) -> Option<&'a Region<Held>> {
        let slot = self.grains[(addr >> GRAIN_SHIFT) as usize & (N_GRAINS - 1)]; // Within the page.
        match slot {
            NONE => None,
            MIXED => regions.stretches(addr, addr.saturating_add(1)).next().map(|(.., region)| region),
            slot => regions.slot(slot),
        }
    }

    fn fill(&mut self, from: usize, to: usize, regions: &RegionMap<Held>) {
        let base = self.base();
        let grain = |at: u64| ((at - base) >> GRAIN_SHIFT) as usize; // Within a page.
        self.grains[from..to].fill(NONE);
        let start = base + ((from as u64) << GRAIN_SHIFT);
        let end = base.saturating_add((to as u64) << GRAIN_SHIFT);
        for (from, to, slot, _) in regions.stretches(start, end) {
            let (first, behind) = (grain(from), grain(to - 1) + 1);
            self.grains[first..behind].fill(slot);
            let is_edge = |at: u64| at & ((1 << GRAIN_SHIFT) - 1) != 0;
            if is_edge(from) {
                self.grains[first] = MIXED;
            }
            if is_edge(to) {
                self.grains[behind - 1] = MIXED;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_testkit::Rng;

    #[test]
    fn pages_say_what_the_map_says() {
        let mut rng = Rng::new(5);
        let (mut regions, mut space) = (RegionMap::default(), Space::new(6));
        let held = Held { shape: None, stride: 0, origin: 0 };
        for _ in 0..3000 {
            let start = rng.below(40_000);
            let most = if rng.below(20) == 0 { 20_000 } else { 100 };
            let n = rng.below(most);
            if rng.below(3) > 0 {
                regions.add(start, n, held);
                space.repaint(start, start + n, &regions);
            } else if let Some(region) = regions.remove(start) {
                space.repaint(region.start, region.end, &regions);
            }
            for _ in 0..20 {
                let addr = rng.below(42_000);
                let seen = space.page(addr, &regions).region(addr, &regions).map(|region| region.id);
                assert_eq!(seen, regions.at(addr).map(|region| region.id), "{addr}");
            }
        }
    }
}
