//! The lines that a cache holds, and which of them gives way: flat arrays, one type for each policy.
//!
//! A miss is two steps, because the parent is asked in between and may take lines away: [`Store::choose`] says which
//! place the new line will have, [`Store::fill`] puts it there. SPEC: 15.2, 15.3.
//!
//! LRU keeps each set in the order of use, so that a hit on the line used last costs one comparison and no write.
//! All others keep lines at fixed ways beside numbers of their own.

use crate::spec::{Policy, Rrip};

#[cfg(test)]
mod tests;

/// The value of a place without a line. No line has this number: lines are addresses without their lowest bits.
pub(crate) const NO_LINE: u64 = u64::MAX;

/// A place chosen for a new line: the line that has it (LRU), or its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot(u64);

/// The lines of one cache under any policy.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Lru(Ordered),
    Lfu(Ways<Lfu>),
    Fifo(Ways<Fifo>),
    BitPlru(Ways<BitPlru>),
    TreePlru(Ways<TreePlru>),
    Rrip(Ways<Rripped>),
    Random(Ways<Random>),
}

macro_rules! each {
    ($store:expr, $name:ident => $body:expr) => {
        match $store {
            Store::Lru($name) => $body,
            Store::Lfu($name) => $body,
            Store::Fifo($name) => $body,
            Store::BitPlru($name) => $body,
            Store::TreePlru($name) => $body,
            Store::Rrip($name) => $body,
            Store::Random($name) => $body,
        }
    };
}

impl Store {
    /// An empty store; `seed` is where lots begin.
    pub(crate) fn new(policy: Policy, sets: usize, ways: usize, seed: u64) -> Store {
        let n = sets * ways;
        match policy {
            Policy::Lru => Store::Lru(Ordered::new(sets, ways)),
            Policy::Lfu => Store::Lfu(Ways::new(sets, ways, Lfu(vec![0; n].into()))),
            Policy::Fifo => {
                let stamps = (0..n).map(|i| (i % ways) as u64).collect();
                Store::Fifo(Ways::new(sets, ways, Fifo { stamps, next: ways as u64 }))
            }
            Policy::BitPlru => {
                let rule = BitPlru { bits: vec![false; n].into(), lots: Lots::new(seed) };
                Store::BitPlru(Ways::new(sets, ways, rule))
            }
            Policy::TreePlru => Store::TreePlru(Ways::new(sets, ways, TreePlru(vec![false; n].into()))),
            Policy::Rrip(rrip) => Store::Rrip(Ways::new(sets, ways, Rripped::new(rrip, n))),
            Policy::Random => Store::Random(Ways::new(sets, ways, Random(Lots::new(seed)))),
        }
    }

    /// If the line is there: marks it as used and says true.
    #[inline]
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        match self {
            Store::Lru(store) => store.touch(line),
            other => other.touch_ways(line),
        }
    }

    fn touch_ways(&mut self, line: u64) -> bool {
        each!(self, store => store.touch(line))
    }

    /// True if the line is there.
    pub(crate) fn contains(&self, line: u64) -> bool {
        each!(self, store => store.contains(line))
    }

    /// Chooses the place for a line that is not there.
    pub(crate) fn choose(&mut self, line: u64) -> Slot {
        each!(self, store => store.choose(line))
    }

    /// Puts the line into its place and gives back the line that was there. `reused` if the line is known to be used
    /// again, as a hit is.
    pub(crate) fn fill(&mut self, line: u64, slot: Slot, reused: bool) -> Option<u64> {
        each!(self, store => store.fill(line, slot, reused))
    }

    /// Takes the line out; true if it was there.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        each!(self, store => store.remove(line))
    }

    /// Every line held.
    pub(crate) fn lines(&self) -> Vec<u64> {
        let all = each!(self, store => &store.lines);
        all.iter().copied().filter(|line| *line != NO_LINE).collect()
    }
}

/// Each set in the order of use, the line used last first, empty places last.
#[derive(Clone, Debug)]
pub(crate) struct Ordered {
    lines: Box<[u64]>,
    ways: usize,
    mask: u64,
}

impl Ordered {
    fn new(sets: usize, ways: usize) -> Ordered {
        Ordered { lines: vec![NO_LINE; sets * ways].into(), ways, mask: sets as u64 - 1 }
    }

    #[inline]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let base = (line & self.mask) as usize * self.ways;
        &mut self.lines[base..base + self.ways]
    }

    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        let set = self.set(line);
        if set[0] == line {
            return true;
        }
        match set.iter().position(|held| *held == line) {
            Some(at) => {
                set.copy_within(..at, 1);
                set[0] = line;
                true
            }
            None => false,
        }
    }

    fn contains(&self, line: u64) -> bool {
        let base = (line & self.mask) as usize * self.ways;
        self.lines[base..base + self.ways].contains(&line)
    }

    fn choose(&mut self, line: u64) -> Slot {
        Slot(self.set(line).last().copied().unwrap_or(NO_LINE))
    }

    fn fill(&mut self, line: u64, slot: Slot, _reused: bool) -> Option<u64> {
        let set = self.set(line);
        // The chosen line was the last one, and nobody has used the set since; but it may have been taken away, and
        // so may others, whose places then stay empty.
        let held = set.iter().rposition(|held| *held != NO_LINE);
        let victim = held.filter(|at| slot.0 != NO_LINE && set[*at] == slot.0);
        let end = victim.unwrap_or_else(|| held.map_or(0, |at| (at + 1).min(set.len() - 1)));
        set.copy_within(..end, 1);
        set[0] = line;
        victim.map(|_| slot.0)
    }

    fn remove(&mut self, line: u64) -> bool {
        let set = self.set(line);
        let Some(at) = set.iter().position(|held| *held == line) else { return false };
        set.copy_within(at + 1.., at);
        if let Some(last) = set.last_mut() {
            *last = NO_LINE;
        }
        true
    }
}

/// What a policy other than LRU remembers; places are numbered through all sets.
pub(crate) trait Rule {
    /// The line at `at`, in the set that begins at `base`, is used; `hit` unless it has just come.
    fn used(&mut self, base: usize, ways: usize, at: usize, hit: bool);
    /// The place in a full set that gives way.
    fn victim(&mut self, base: usize, ways: usize) -> usize;
    /// The place is about to get a new line.
    fn evict(&mut self, base: usize, ways: usize, at: usize);
    /// The line is taken away.
    fn removed(&mut self, at: usize);
}

/// Lines at fixed ways.
#[derive(Clone, Debug)]
pub(crate) struct Ways<R> {
    lines: Box<[u64]>,
    ways: usize,
    mask: u64,
    rule: R,
}

impl<R: Rule> Ways<R> {
    fn new(sets: usize, ways: usize, rule: R) -> Ways<R> {
        Ways { lines: vec![NO_LINE; sets * ways].into(), ways, mask: sets as u64 - 1, rule }
    }

    #[inline]
    fn base(&self, line: u64) -> usize {
        (line & self.mask) as usize * self.ways
    }

    #[inline]
    fn find(&self, base: usize, line: u64) -> Option<usize> {
        self.lines[base..base + self.ways].iter().position(|held| *held == line).map(|way| base + way)
    }

    #[inline]
    fn touch(&mut self, line: u64) -> bool {
        let base = self.base(line);
        let Some(at) = self.find(base, line) else { return false };
        self.rule.used(base, self.ways, at, true);
        true
    }

    fn contains(&self, line: u64) -> bool {
        self.find(self.base(line), line).is_some()
    }

    fn choose(&mut self, line: u64) -> Slot {
        let base = self.base(line);
        let at = match self.find(base, NO_LINE) {
            Some(empty) => empty,
            None => self.rule.victim(base, self.ways),
        };
        self.rule.evict(base, self.ways, at);
        Slot(at as u64)
    }

    fn fill(&mut self, line: u64, slot: Slot, reused: bool) -> Option<u64> {
        let (base, at) = (self.base(line), slot.0 as usize); // Made from a place by `choose`.
        let victim = std::mem::replace(&mut self.lines[at], line);
        self.rule.used(base, self.ways, at, reused);
        (victim != NO_LINE).then_some(victim)
    }

    fn remove(&mut self, line: u64) -> bool {
        let Some(at) = self.find(self.base(line), line) else { return false };
        self.lines[at] = NO_LINE;
        self.rule.removed(at);
        true
    }
}

/// How often each line was used since it came.
#[derive(Clone, Debug)]
pub(crate) struct Lfu(Box<[u64]>);

impl Rule for Lfu {
    #[inline]
    fn used(&mut self, _base: usize, _ways: usize, at: usize, _hit: bool) {
        self.0[at] += 1;
    }

    fn victim(&mut self, base: usize, ways: usize) -> usize {
        first_min(&self.0[base..base + ways]) + base
    }

    fn evict(&mut self, _base: usize, _ways: usize, at: usize) {
        self.0[at] = 0;
    }

    fn removed(&mut self, at: usize) {
        self.0[at] = 0;
    }
}

fn first_min(values: &[u64]) -> usize {
    let mut best = 0;
    for (i, value) in values.iter().enumerate() {
        if *value < values[best] {
            best = i;
        }
    }
    best
}

/// When each place last got a line; places that never did come first, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    stamps: Box<[u64]>,
    next: u64,
}

impl Rule for Fifo {
    #[inline]
    fn used(&mut self, _base: usize, _ways: usize, _at: usize, _hit: bool) {}

    fn victim(&mut self, base: usize, ways: usize) -> usize {
        first_min(&self.stamps[base..base + ways]) + base
    }

    fn evict(&mut self, _base: usize, _ways: usize, at: usize) {
        self.stamps[at] = self.next;
        self.next += 1;
    }

    fn removed(&mut self, _at: usize) {}
}

/// One bit for each line.
#[derive(Clone, Debug)]
pub(crate) struct BitPlru {
    bits: Box<[bool]>,
    lots: Lots,
}

impl Rule for BitPlru {
    #[inline]
    fn used(&mut self, base: usize, ways: usize, at: usize, _hit: bool) {
        self.bits[at] = true;
        let set = &mut self.bits[base..base + ways];
        if set.iter().all(|bit| *bit) {
            set.fill(false);
            self.bits[at] = true;
        }
    }

    fn victim(&mut self, base: usize, ways: usize) -> usize {
        let set = &self.bits[base..base + ways];
        let n_clear = set.iter().filter(|bit| !**bit).count();
        // A set of one way has its only bit set.
        let nth = self.lots.below(n_clear.max(1));
        base + set.iter().enumerate().filter(|(_, bit)| !**bit).nth(nth).map_or(0, |(way, _)| way)
    }

    fn evict(&mut self, _base: usize, _ways: usize, at: usize) {
        self.bits[at] = false;
    }

    fn removed(&mut self, at: usize) {
        self.bits[at] = false;
    }
}

/// A binary tree of bits over the ways of each set, node `n` with children `2n` and `2n + 1`, the root at 1. A set bit
/// points at the upper half.
#[derive(Clone, Debug)]
pub(crate) struct TreePlru(Box<[bool]>);

impl Rule for TreePlru {
    #[inline]
    fn used(&mut self, base: usize, ways: usize, at: usize, _hit: bool) {
        let mut node = ways + (at - base);
        while node > 1 {
            let is_upper = node & 1 == 1;
            node >>= 1;
            self.0[base + node] = !is_upper;
        }
    }

    fn victim(&mut self, base: usize, ways: usize) -> usize {
        let mut node = 1;
        while node < ways {
            node = 2 * node + usize::from(self.0[base + node]);
        }
        base + node - ways
    }

    fn evict(&mut self, _base: usize, _ways: usize, _at: usize) {}

    fn removed(&mut self, _at: usize) {}
}

/// Predicted distance to the next use of each line. SPEC: 15.3.
#[derive(Clone, Debug)]
pub(crate) struct Rripped {
    values: Box<[u32]>,
    distant: u32,
    rrip: Rrip,
    /// Position in the cycle of predictions, and how many of the cycle were *long* so far.
    position: u32,
    longs: u32,
}

impl Rripped {
    fn new(rrip: Rrip, n: usize) -> Rripped {
        let distant = (1 << rrip.bits) - 1;
        Rripped { values: vec![distant; n].into(), distant, rrip, position: 0, longs: 0 }
    }

    /// The prediction for a line that comes.
    fn next(&mut self) -> u32 {
        let Rrip { period, long_per_period, .. } = self.rrip;
        let due = u64::from(self.position + 1) * u64::from(long_per_period);
        let is_long = due > u64::from(self.longs) * u64::from(period);
        self.longs += u32::from(is_long);
        self.position += 1;
        if self.position == period {
            (self.position, self.longs) = (0, 0);
        }
        self.distant - u32::from(is_long)
    }
}

impl Rule for Rripped {
    #[inline]
    fn used(&mut self, _base: usize, _ways: usize, at: usize, hit: bool) {
        self.values[at] = if hit { 0 } else { self.next() };
    }

    fn victim(&mut self, base: usize, ways: usize) -> usize {
        let set = &self.values[base..base + ways];
        let mut best = 0;
        for (way, value) in set.iter().enumerate() {
            if *value > set[best] {
                best = way;
            }
        }
        base + best
    }

    fn evict(&mut self, base: usize, ways: usize, at: usize) {
        let add = self.distant - self.values[at].min(self.distant);
        for value in &mut self.values[base..base + ways] {
            *value += add;
        }
    }

    fn removed(&mut self, at: usize) {
        self.values[at] = self.distant;
    }
}

/// Any line.
#[derive(Clone, Debug)]
pub(crate) struct Random(Lots);

impl Rule for Random {
    #[inline]
    fn used(&mut self, _base: usize, _ways: usize, _at: usize, _hit: bool) {}

    fn victim(&mut self, base: usize, ways: usize) -> usize {
        base + self.0.below(ways)
    }

    fn evict(&mut self, _base: usize, _ways: usize, _at: usize) {}

    fn removed(&mut self, _at: usize) {}
}

/// Lots drawn from a seed, so that a run can be repeated (splitmix64).
#[derive(Clone, Debug)]
struct Lots(u64);

impl Lots {
    fn new(seed: u64) -> Lots {
        Lots(seed)
    }

    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        ((u128::from(x) * n as u128) >> 64) as usize // Less than `n`.
    }
}
