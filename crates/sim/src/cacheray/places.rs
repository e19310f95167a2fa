//! A page table from addresses to the only region that contains them.
//!
//! A page is built when an address in it is first looked up. It is a cache of the stretches in [`Structs`](super::Structs),
//! reduced to 16-byte grains, so that a look-up takes two loads. PERF: types/original_model; a search among the stretches
//! took a sixth of the time.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Stretches by first address: the end of each, and the regions that cover it.
pub(super) type Stretches = BTreeMap<i64, (i64, Vec<u32>)>;

/// Entry of a grain without a region.
pub(super) const NONE: u32 = u32::MAX;
/// Entry of a grain with several regions, or with bytes outside of any: look the address up in the stretches.
const MIXED: u32 = u32::MAX - 1;

/// Bytes of a page, as a power of two.
const PAGE_SHIFT: u32 = 12;
/// Bytes per entry, as a power of two: the alignment of common allocators.
const GRAIN_SHIFT: u32 = 4;
const N_GRAINS: usize = 1 << (PAGE_SHIFT - GRAIN_SHIFT);
/// Number of pages whose index is cached; a power of two.
const N_NEAR: usize = 1 << 10;
/// Most pages that are built; addresses beyond them are looked up in the stretches each time.
const MAX_PAGES: usize = 1 << 18;

#[derive(Clone, Debug)]
struct Page {
    number: i64,
    grains: [u32; N_GRAINS],
}

/// The pages built so far.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pages: Vec<Page>,
    numbers: FxHashMap<i64, u32>,
    near: Box<[(i64, u32)]>,
}

impl Default for Places {
    fn default() -> Places {
        // No page has this number.
        let near = vec![(i64::MAX, 0); N_NEAR].into();
        Places { pages: Vec::new(), numbers: FxHashMap::default(), near }
    }
}

impl Places {
    /// The only region that contains an address, or [`NONE`]; `None` if there are several.
    #[inline]
    pub(super) fn only(&mut self, addr: i64, stretches: &Stretches) -> Option<u32> {
        let number = addr >> PAGE_SHIFT;
        let near = self.near.get(number as usize & (N_NEAR - 1)).filter(|(known, _)| *known == number);
        let at = match near {
            Some((_, at)) => *at,
            None => match self.find(number, stretches) {
                Some(at) => at,
                None => return only(addr, stretches),
            },
        };
        let grain = (addr >> GRAIN_SHIFT) as usize & (N_GRAINS - 1); // Within a page.
        match self.pages.get(at as usize).map(|page| page.grains[grain]) {
            Some(MIXED) | None => only(addr, stretches),
            known => known,
        }
    }

    #[cold]
    fn find(&mut self, number: i64, stretches: &Stretches) -> Option<u32> {
        let at = match self.numbers.get(&number) {
            Some(at) => *at,
            None if self.pages.len() >= MAX_PAGES => return None,
            None => {
                let mut page = Page { number, grains: [NONE; N_GRAINS] };
                page.fill(0, N_GRAINS, stretches);
                let at = self.pages.len() as u32; // At most this many.
                self.pages.push(page);
                self.numbers.insert(number, at);
                at
            }
        };
        if let Some(near) = self.near.get_mut(number as usize & (N_NEAR - 1)) {
            *near = (number, at);
        }
        Some(at)
    }

    /// Updates the entries between two addresses after the stretches changed.
    pub(super) fn repaint(&mut self, start: i64, end: i64, stretches: &Stretches) {
        if start >= end {
            return;
        }
        let (first, last) = (start >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT);
        let paint = |page: &mut Page| {
            let grain = |at: i64| ((at >> GRAIN_SHIFT) as usize) & (N_GRAINS - 1);
            let from = if page.number == first { grain(start) } else { 0 };
            let to = if page.number == last { grain(end - 1) + 1 } else { N_GRAINS };
            page.fill(from, to, stretches);
        };
        if last.abs_diff(first) < self.pages.len() as u64 {
            for number in first..=last {
                let page = self.numbers.get(&number).and_then(|at| self.pages.get_mut(*at as usize));
                page.map(paint);
            }
        } else {
            self.pages.iter_mut().filter(|page| (first..=last).contains(&page.number)).for_each(paint);
        }
    }
}

/// Looks an address up in the stretches; see [`Places::only`].
fn only(addr: i64, stretches: &Stretches) -> Option<u32> {
    match stretches.range(..=addr).next_back() {
        Some((_, (end, over))) if addr < *end => match over[..] {
            [region] => Some(region),
            _ => None,
        },
        _ => Some(NONE),
    }
}

impl Page {
    fn fill(&mut self, from: usize, to: usize, stretches: &Stretches) {
        let base = self.number << PAGE_SHIFT;
        let start = base + ((from as i64) << GRAIN_SHIFT);
        let end = base.saturating_add((to as i64) << GRAIN_SHIFT);
        self.grains[from..to].fill(NONE);
        let before = stretches.range(..start).next_back();
        for (stretch, (stretch_end, over)) in before.into_iter().chain(stretches.range(start..end)) {
            let (stretch, stretch_end) = ((*stretch).max(start), (*stretch_end).min(end));
            if stretch >= stretch_end {
                continue;
            }
            let grain = |at: i64| ((at - base) >> GRAIN_SHIFT) as usize; // Within the page.
            let (first, behind) = (grain(stretch), grain(stretch_end - 1) + 1);
            let region = if let [region] = over[..] { region } else { MIXED };
            self.grains[first..behind].fill(region);
            let is_edge = |at: i64| at & ((1 << GRAIN_SHIFT) - 1) != 0;
            if is_edge(stretch) {
                self.grains[first] = MIXED;
            }
            if is_edge(stretch_end) {
                self.grains[behind - 1] = MIXED;
            }
        }
    }
}
