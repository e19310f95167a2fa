//! Memory by page: the region of each byte, the bytes of each line that were touched, and the thread that touched them.
//!
//! A page is created when it is first touched. It is a cache of the [`RegionMap`], reduced to 16-byte grains, so that a
//! look-up takes two loads. PERF: one search in the map takes longer than all other work for an access.

use quipu_symbols::attribute::Held;
use quipu_symbols::regions::{Region, RegionMap, Slot};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Bytes per page, as a power of two; the upper limit of the line size.
pub(crate) const PAGE_SHIFT: u32 = 12;
/// Bytes per entry, as a power of two: the alignment of common allocators.
const GRAIN_SHIFT: u32 = 4;
const GRAIN_BYTES: u64 = 1 << GRAIN_SHIFT;
const N_GRAINS: usize = 1 << (PAGE_SHIFT - GRAIN_SHIFT);
/// The common line size as a power of two, and its number of entries.
const LINE_SHIFT: u32 = 6;
const GRAINS_OF_LINE: usize = 1 << (LINE_SHIFT - GRAIN_SHIFT);
/// Pages whose index is cached; a power of two. PERF: types; with a quarter of it, too few for a heap of 8 MiB, every second
/// page was searched.
const N_NEAR: usize = 1 << 12;

/// Entry of bytes outside of all regions.
const NONE: Slot = Slot::MAX;
/// Entry of bytes that have to be looked up in the map.
const MIXED: Slot = Slot::MAX - 1;
/// Flag of an entry whose bytes belong partly to one region and partly to none. Slots are smaller.
const EDGE: Slot = 1 << 31;

/// Owner of a line that no thread touched.
pub(crate) const NOBODY: u32 = u32::MAX;

/// State of a line. Each bit stands for one byte, or for a 64th of a longer line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Bytes touched since the line was last settled, in turns before the current one.
    before: u64,
    /// Bytes that the current owner has read and written in its turn.
    pub(crate) seen: [u64; 2],
    /// The thread that touched the line last, by number.
    pub(crate) owner: u32,
    /// Whether the line has moved between threads.
    pub(crate) is_shared: bool,
}

const UNTOUCHED: Line = Line { before: 0, seen: [0; 2], owner: NOBODY, is_shared: false };

impl Line {
    /// Bytes touched since the line was last settled.
    pub(crate) fn touched(&self) -> u64 {
        self.before | self.seen[0] | self.seen[1]
    }

    /// Hands the line to another thread.
    pub(crate) fn hand_over(&mut self, to: u32) {
        (self.before, self.seen, self.owner) = (self.touched(), [0; 2], to);
    }

    /// Forgets that some bytes were touched.
    pub(crate) fn forget(&mut self, bytes: u64) {
        self.before &= !bytes;
        self.seen = self.seen.map(|seen| seen & !bytes);
    }
}

/// A range of bytes that belong to the same region, or to none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    /// The first byte, and the end (exclusive).
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Their region.
    pub(crate) region: Option<&'a Region<Held>>,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    number: u64,
    /// Whether the page never had a region.
    is_bare: bool,
}

/// The pages touched so far.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    line_shift: u32,
    pages: Vec<Page>,
    /// Entries of all pages.
    grains: Vec<Slot>,
    /// Lines of all pages.
    pub(crate) lines: Vec<Line>,
    numbers: FxHashMap<u64, u32>,
    near: Box<[(u64, u32)]>,
}

impl Space {
    /// Creates a space without pages. `line_shift` is the line size as a power of two.
    pub(crate) fn new(line_shift: u32) -> Space {
        Space {
            line_shift,
            pages: Vec::new(),
            grains: Vec::new(),
            lines: Vec::new(),
            numbers: FxHashMap::default(),
            near: vec![(u64::MAX, 0); N_NEAR].into(),
        }
    }

    /// Index of the page of an address; creates the page if needed.
    #[inline]
    pub(crate) fn page(&mut self, addr: u64, regions: &RegionMap<Held>) -> u32 {
        let number = addr >> PAGE_SHIFT;
        let (known, at) = self.near[number as usize & (N_NEAR - 1)]; // Pages are cached by their lower bits.
        if known == number { at } else { self.find(number, regions) }
    }

    /// Index of the page of an address, if the page exists.
    #[inline]
    pub(crate) fn known(&self, addr: u64) -> Option<u32> {
        let number = addr >> PAGE_SHIFT;
        let (known, at) = self.near[number as usize & (N_NEAR - 1)]; // Pages are cached by their lower bits.
        if known == number { Some(at) } else { self.numbers.get(&number).copied() }
    }

    #[cold]
    fn find(&mut self, number: u64, regions: &RegionMap<Held>) -> u32 {
        let next = self.pages.len() as u32; // 2^32 pages do not fit into memory.
        let at = *self.numbers.entry(number).or_insert(next);
        if at == next {
            let start = self.grains.len();
            self.lines.resize(self.lines.len() + self.n_lines(), UNTOUCHED);
            self.grains.resize(start + N_GRAINS, NONE);
            let is_bare = fill(&mut self.grains[start..], number << PAGE_SHIFT, 0..N_GRAINS, regions);
            self.pages.push(Page { number, is_bare });
        }
        self.near[number as usize & (N_NEAR - 1)] = (number, at);
        at
    }

    /// Number of lines per page.
    fn n_lines(&self) -> usize {
        1 << (PAGE_SHIFT - self.line_shift)
    }

    /// Number to add, modulo 2^64, to the number of a line on this page to get its index in `lines`.
    #[inline]
    pub(crate) fn first_line(&self, page: u32, addr: u64) -> u64 {
        let lines_shift = PAGE_SHIFT - self.line_shift;
        (u64::from(page) << lines_shift).wrapping_sub((addr >> PAGE_SHIFT) << lines_shift)
    }

    /// The line of an address on a page.
    #[inline]
    pub(crate) fn line(&mut self, page: u32, addr: u64) -> &mut Line {
        let at = self.first_line(page, addr).wrapping_add(addr >> self.line_shift);
        &mut self.lines[at as usize] // Within the page.
    }

    #[inline]
    fn grain(&self, page: u32, addr: u64) -> Slot {
        let at = (addr >> GRAIN_SHIFT) as usize & (N_GRAINS - 1); // Within the page.
        self.grains[page as usize * N_GRAINS + at]
    }

    /// The region that contains an address of a page.
    #[inline]
    pub(crate) fn region<'a>(
        &self,
        page: u32,
        addr: u64,
        regions: &'a RegionMap<Held>,
    ) -> Option<&'a Region<Held>> {
        match self.grain(page, addr) {
            NONE => None,
            MIXED => regions.stretches(addr, addr.saturating_add(1)).next().map(|(.., region)| region),
            slot if slot & EDGE != 0 => {
                regions.slot(slot & !EDGE).filter(|region| region.start <= addr && addr < region.end)
            }
            slot => regions.slot(slot),
        }
    }

    /// The range around an address that belongs to one region or to none, as far as the entries show it, within its page.
    #[inline]
    pub(crate) fn spot<'a>(&self, page: u32, addr: u64, regions: &'a RegionMap<Held>) -> Spot<'a> {
        let around = |shift: u32| {
            let start = addr >> shift << shift;
            (start, start.saturating_add(1 << shift))
        };
        let grain = self.grain(page, addr);
        if grain == NONE {
            let is_bare = self.pages[page as usize].is_bare;
            let (start, end) = if is_bare { around(PAGE_SHIFT) } else { self.alike(page, addr) };
            return Spot { start, end, region: None };
        }
        let (mut start, mut end) = around(GRAIN_SHIFT);
        if grain == MIXED {
            let mut region = None;
            for (from, to, _, of) in regions.stretches(start, end) {
                match () {
                    () if to <= addr => start = to,
                    () if from <= addr => (start, end, region) = (from, to, Some(of)),
                    () => end = end.min(from),
                }
            }
            return Spot { start, end, region };
        }
        let Some((region, is_whole)) = regions.whole_slot(grain & !EDGE) else {
            return Spot { start, end, region: None };
        };
        if addr < region.start {
            return Spot { start, end: region.start, region: None };
        }
        if addr >= region.end {
            return Spot { start: region.end, end, region: None };
        }
        if is_whole {
            (start, end) = around(PAGE_SHIFT);
        } else if grain & EDGE == 0 {
            (start, end) = self.alike(page, addr);
        }
        Spot { start: start.max(region.start), end: end.min(region.end), region: Some(region) }
    }

    /// The range around an address with the same entry, within a line of the common size.
    fn alike(&self, page: u32, addr: u64) -> (u64, u64) {
        let base = addr >> LINE_SHIFT << LINE_SHIFT;
        let first = page as usize * N_GRAINS + ((base >> GRAIN_SHIFT) as usize & (N_GRAINS - 1)); // Within the page.
        let grains = &self.grains[first..first + GRAINS_OF_LINE];
        let own = ((addr - base) >> GRAIN_SHIFT) as usize; // Below that.
        let before = grains[..own].iter().rev().take_while(|grain| **grain == grains[own]).count();
        let behind = grains[own..].iter().take_while(|grain| **grain == grains[own]).count();
        let start = base + (((own - before) as u64) << GRAIN_SHIFT);
        (start, start.saturating_add(((before + behind) as u64) << GRAIN_SHIFT))
    }

    /// Updates the entries between two addresses after regions changed.
    pub(crate) fn repaint(&mut self, start: u64, end: u64, regions: &RegionMap<Held>) {
        let Space { pages, grains, .. } = self;
        each_page(pages, &self.numbers, start, end, |at, page| {
            let base = page.number << PAGE_SHIFT;
            let from = (start.max(base) - base) >> GRAIN_SHIFT;
            let to = ((end - 1).min(base | ((1 << PAGE_SHIFT) - 1)) - base) >> GRAIN_SHIFT;
            let grains = &mut grains[at * N_GRAINS..(at + 1) * N_GRAINS];
            page.is_bare &= fill(grains, base, from as usize..to as usize + 1, regions); // Within a page.
        });
    }

    /// Calls `each` for every page that overlaps the range between two addresses, with its first address and its lines.
    pub(crate) fn each_page(&mut self, start: u64, end: u64, mut each: impl FnMut(u64, &mut [Line])) {
        let n_lines = self.n_lines();
        let Space { pages, lines, .. } = self;
        each_page(pages, &self.numbers, start, end, |at, page| {
            each(page.number << PAGE_SHIFT, &mut lines[at * n_lines..(at + 1) * n_lines]);
        });
    }
}

/// Calls `each` for every page that overlaps the range between two addresses, with the page's index.
fn each_page(
    pages: &mut [Page],
    numbers: &FxHashMap<u64, u32>,
    start: u64,
    end: u64,
    mut each: impl FnMut(usize, &mut Page),
) {
    if start >= end {
        return;
    }
    let (first, last) = (start >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT);
    if last - first < pages.len() as u64 {
        for number in first..=last {
            if let Some(at) = numbers.get(&number) {
                each(*at as usize, &mut pages[*at as usize]);
            }
        }
    } else {
        let between = |(_, page): &(usize, &mut Page)| (first..=last).contains(&page.number);
        pages.iter_mut().enumerate().filter(between).for_each(|(at, page)| each(at, page));
    }
}

/// Recomputes some entries of the page at `base`; returns whether none of their bytes belongs to a region.
fn fill(grains: &mut [Slot], base: u64, which: Range<usize>, regions: &RegionMap<Held>) -> bool {
    let start = base + ((which.start as u64) << GRAIN_SHIFT);
    let end = base.saturating_add((which.end as u64) << GRAIN_SHIFT);
    grains[which].fill(NONE);
    let mut is_bare = true;
    for (from, to, slot, region) in regions.stretches(start, end) {
        is_bare = false;
        let mut at = from;
        while at < to {
            let grain = ((at - base) >> GRAIN_SHIFT) as usize; // Within a page.
            let n_whole = if at & (GRAIN_BYTES - 1) == 0 { (to - at) >> GRAIN_SHIFT } else { 0 };
            if n_whole > 0 {
                grains[grain..grain + n_whole as usize].fill(slot);
                at += n_whole << GRAIN_SHIFT;
                continue;
            }
            let first = at & !(GRAIN_BYTES - 1);
            let behind = first.saturating_add(GRAIN_BYTES);
            let part_end = to.min(behind);
            let has_all_of_region = at == region.start.max(first) && part_end == region.end.min(behind);
            let is_alone = grains[grain] == NONE && has_all_of_region;
            grains[grain] = if is_alone { slot | EDGE } else { MIXED };
            at = part_end;
        }
    }
    is_bare
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
                let page = space.page(addr, &regions);
                let seen = space.region(page, addr, &regions).map(|region| region.id);
                let expected = regions.at(addr).map(|region| region.id);
                assert_eq!(seen, expected, "{addr}");
                let spot = space.spot(page, addr, &regions);
                assert!(spot.start <= addr && addr < spot.end, "{addr} {spot:?}");
                assert_eq!(spot.start >> PAGE_SHIFT, (spot.end - 1) >> PAGE_SHIFT, "{spot:?}");
                assert_eq!(spot.region.map(|region| region.id), expected, "{addr} {spot:?}");
                for other in [spot.start, spot.end - 1, spot.start + rng.below(spot.end - spot.start)] {
                    let seen = regions.at(other).map(|region| region.id);
                    assert_eq!(seen, expected, "{addr} {other}");
                }
            }
        }
    }
}
