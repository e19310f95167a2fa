//! The lines that a cache holds, and the choice of the line to evict: flat arrays, with one type per policy.
//!
//! A miss takes two steps, because the parent is accessed in between and may invalidate lines: [`Store::choose`] picks the
//! place for the new line, [`Store::fill`] puts it there. SPEC: drmemtrace.md#simulators.
//!
//! Lines stay at fixed ways; the state that a policy keeps of them is in `rules`. Belady's policy needs entirely different
//! state, which is in `opt`.

use crate::opt::Opt;
use crate::rules::{Any, BitPlru, Fifo, Lfu, Lots, Random, Recent, Rripped, Rule, Set, Stamps, TreePlru};
use crate::spec::Policy;
use wide::u16x8;

#[cfg(test)]
mod tests;

/// Value of an empty place. No line has this number: lines are addresses without their lowest bits.
pub(crate) const NO_LINE: u64 = u64::MAX;

/// A place chosen for a new line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(pub(crate) usize);

/// Operations of a machine on the lines of a cache, for any policy. Loops over many requests are generic over this trait, so
/// that the policy is dispatched once for all of them.
pub(crate) trait Lines {
    /// If the line is present, marks it as used and returns its place.
    fn touch(&mut self, line: u64) -> Option<Slot>;
    /// Counts `times` further uses of the line at a place; it must be the line used last in its set.
    fn again(&mut self, slot: Slot, times: u64);
    /// Chooses the place for a line that is not present.
    fn choose(&mut self, line: u64) -> Slot;
    /// Puts the line into its place and returns the line that was there. `reused` is true if the line is known to be used
    /// again, as after a hit.
    fn fill(&mut self, line: u64, slot: Slot, reused: bool) -> Option<u64>;
}

/// The lines of one cache under any policy.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Lru(Ways<Recent>),
    /// LRU with more ways than [`Recent`] can hold.
    WideLru(Ways<Stamps>),
    Lfu(Ways<Lfu>),
    Fifo(Ways<Fifo>),
    BitPlru(Ways<BitPlru>),
    TreePlru(Ways<TreePlru>),
    Rrip(Ways<Rripped>),
    Random(Ways<Random>),
    Opt(Opt),
    /// Any policy but OPT, if the number of sets is no power of two. It chooses the policy at each use, because such caches
    /// are the last ones of big machines, which few requests reach.
    Divided(Ways<Any, Divided>),
}

/// Expands to one expression for each type of store.
macro_rules! each {
    ($store:expr, $name:ident => $body:expr) => {
        match $store {
            $crate::sets::Store::Lru($name) => $body,
            $crate::sets::Store::WideLru($name) => $body,
            $crate::sets::Store::Lfu($name) => $body,
            $crate::sets::Store::Fifo($name) => $body,
            $crate::sets::Store::BitPlru($name) => $body,
            $crate::sets::Store::TreePlru($name) => $body,
            $crate::sets::Store::Rrip($name) => $body,
            $crate::sets::Store::Random($name) => $body,
            $crate::sets::Store::Opt($name) => $body,
            $crate::sets::Store::Divided($name) => $body,
        }
    };
}
pub(crate) use each;

impl Store {
    /// Creates an empty store; `seed` initializes random policies.
    pub(crate) fn new(policy: Policy, sets: usize, ways: usize, seed: u64) -> Store {
        let n = sets * ways;
        if !sets.is_power_of_two() && policy != Policy::Opt {
            return Store::Divided(Ways::new(sets, ways, Any::new(policy, sets, ways, seed)));
        }
        match policy {
            Policy::Lru if ways <= Recent::MAX_WAYS => Store::Lru(Ways::new(sets, ways, Recent::new(sets))),
            Policy::Lru => Store::WideLru(Ways::new(sets, ways, Stamps::new(n))),
            Policy::Lfu => Store::Lfu(Ways::new(sets, ways, Lfu::new(n))),
            Policy::Fifo => Store::Fifo(Ways::new(sets, ways, Fifo::new(n, ways))),
            Policy::BitPlru => Store::BitPlru(Ways::new(sets, ways, BitPlru::new(n, seed))),
            Policy::TreePlru => Store::TreePlru(Ways::new(sets, ways, TreePlru::new(n))),
            Policy::Rrip(rrip) => Store::Rrip(Ways::new(sets, ways, Rripped::new(rrip, n))),
            Policy::Random => Store::Random(Ways::new(sets, ways, Random(Lots::new(seed)))),
            Policy::Opt => Store::Opt(Opt::new(sets, ways)),
        }
    }

    /// If the line is present, marks it as used and returns true.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        match self {
            Store::Lru(store) => store.touch(line).is_some(),
            other => other.touch_other(line),
        }
    }

    fn touch_other(&mut self, line: u64) -> bool {
        each!(self, store => store.touch(line).is_some())
    }

    /// Whether the line is present.
    pub(crate) fn contains(&self, line: u64) -> bool {
        each!(self, store => store.contains(line))
    }

    /// See [`Lines::choose`].
    pub(crate) fn choose(&mut self, line: u64) -> Slot {
        each!(self, store => store.choose(line))
    }

    /// See [`Lines::fill`].
    pub(crate) fn fill(&mut self, line: u64, slot: Slot, reused: bool) -> Option<u64> {
        each!(self, store => store.fill(line, slot, reused))
    }

    /// Removes the line; returns whether it was present.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        each!(self, store => store.remove(line))
    }

    /// All lines in the cache.
    pub(crate) fn lines(&self) -> Vec<u64> {
        each!(self, store => store.lines())
    }
}

/// Number of tags compared at once.
const LANES: usize = 8;

/// A hash of a line: lines with different tags differ, and most lines with equal tags are equal.
#[inline]
fn tag(line: u64) -> u16 {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16 // The upper bits are mixed best.
}

/// Choice of the set for a line: the remainder of its number by the number of sets.
pub(crate) trait Indexing: Copy {
    /// Lines are divided among this many sets.
    fn new(sets: usize) -> Self;
    /// Index of the line's set, below the number of sets.
    fn index(self, line: u64) -> usize;
}

/// A power of two of sets: the lowest bits of the line select the set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Masked(u64);

impl Indexing for Masked {
    fn new(sets: usize) -> Masked {
        Masked(sets as u64 - 1)
    }

    #[inline(always)]
    fn index(self, line: u64) -> usize {
        (line & self.0) as usize // Below the number of sets.
    }
}

/// Any number of sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divided(u64);

impl Indexing for Divided {
    fn new(sets: usize) -> Divided {
        Divided(sets as u64)
    }

    #[inline]
    fn index(self, line: u64) -> usize {
        (line % self.0) as usize // Below the number of sets, which is at least one.
    }
}

/// Lines at fixed ways.
#[derive(Clone, Debug)]
pub(crate) struct Ways<R, I = Masked> {
    lines: Box<[u64]>,
    /// Tag of each line, with padding at the end, so that eight tags can be read from any position.
    tags: Box<[u16]>,
    ways: usize,
    indexing: I,
    /// Number of empty places; without any, the search for one is skipped.
    n_empty: usize,
    rule: R,
}

impl<R: Rule, I: Indexing> Ways<R, I> {
    fn new(sets: usize, ways: usize, rule: R) -> Ways<R, I> {
        let n = sets * ways;
        Ways {
            lines: vec![NO_LINE; n].into(),
            tags: vec![tag(NO_LINE); n + LANES].into(),
            ways,
            indexing: I::new(sets),
            n_empty: n,
            rule,
        }
    }

    #[inline]
    fn set(&self, line: u64) -> Set {
        let index = self.indexing.index(line);
        Set { index, base: index * self.ways, ways: self.ways }
    }

    /// Position of the line. PERF: eight tags are one comparison, and usually only one line is compared; bench `one_level`.
    #[inline(always)]
    fn find(&self, base: usize, line: u64) -> Option<usize> {
        let wanted = u16x8::splat(tag(line));
        let mut way = 0;
        loop {
            let tags: &[u16; LANES] = self.tags[base + way..].first_chunk()?;
            let mut found = u16x8::new(*tags).simd_eq(wanted).to_bitmask();
            while found != 0 {
                let lane = found.trailing_zeros() as usize;
                // The remaining lanes belong to the next set.
                if way + lane >= self.ways {
                    return None;
                }
                let at = base + way + lane;
                if self.lines[at] == line {
                    return Some(at);
                }
                found &= found - 1;
            }
            way += LANES;
            if way >= self.ways {
                return None;
            }
        }
    }

    fn contains(&self, line: u64) -> bool {
        self.find(self.set(line).base, line).is_some()
    }

    fn put(&mut self, at: usize, line: u64) -> u64 {
        self.tags[at] = tag(line);
        std::mem::replace(&mut self.lines[at], line)
    }

    fn remove(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(at) = self.find(set.base, line) else { return false };
        self.put(at, NO_LINE);
        self.n_empty += 1;
        self.rule.removed(set, at);
        true
    }

    fn lines(&self) -> Vec<u64> {
        self.lines.iter().copied().filter(|line| *line != NO_LINE).collect()
    }
}

impl<R: Rule, I: Indexing> Lines for Ways<R, I> {
    #[inline(always)]
    fn touch(&mut self, line: u64) -> Option<Slot> {
        let set = self.set(line);
        let at = self.find(set.base, line)?;
        self.rule.used(set, at, true);
        Some(Slot(at))
    }

    #[inline]
    fn again(&mut self, slot: Slot, times: u64) {
        self.rule.again(slot.0, times);
    }

    #[inline]
    fn choose(&mut self, line: u64) -> Slot {
        let set = self.set(line);
        let looks = self.n_empty > 0 && !R::EMPTY_FIRST;
        let empty = if looks { self.find(set.base, NO_LINE) } else { None };
        let at = empty.unwrap_or_else(|| self.rule.victim(set));
        self.rule.evict(set, at);
        Slot(at)
    }

    #[inline]
    fn fill(&mut self, line: u64, slot: Slot, reused: bool) -> Option<u64> {
        let victim = self.put(slot.0, line);
        self.n_empty -= usize::from(victim == NO_LINE);
        self.rule.used(self.set(line), slot.0, reused);
        (victim != NO_LINE).then_some(victim)
    }
}
