//! Replacement policies: the state that each keeps per way, and its choice of victims. SPEC: drmemtrace.md#simulators.
//!
//! Places are numbered through all sets. The lines themselves are in `sets`.

use crate::spec::{Policy, Rrip};

/// A set: its index, the number of its first place, and its number of ways.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Set {
    pub(crate) index: usize,
    pub(crate) base: usize,
    pub(crate) ways: usize,
}

/// State of a policy.
pub(crate) trait Rule {
    /// Whether [`victim`](Rule::victim) picks empty places first.
    const EMPTY_FIRST: bool = false;

    /// The line at `at` is used; `hit` is false if it was just filled.
    fn used(&mut self, set: Set, at: usize, hit: bool);
    /// The line at `at`, which was used last in its set, is used `times` more times.
    fn again(&mut self, _at: usize, _times: u64) {}
    /// Place of the line to evict from a full set.
    fn victim(&mut self, set: Set) -> usize;
    /// The place is about to get a new line.
    fn evict(&mut self, set: Set, at: usize);
    /// The line is invalidated.
    fn removed(&mut self, set: Set, at: usize);
}

/// LRU: the ways of each set in the order of use, four bits each, with the most recently used way in the lowest bits.
///
/// PERF: a word of bits is rotated with a few shifts, where an array of lines has to be moved; bench `one_level`.
#[derive(Clone, Debug)]
pub(crate) struct Recent(Box<[u64]>);

impl Recent {
    /// Largest number of ways that four bits can number.
    pub(crate) const MAX_WAYS: usize = 16;

    pub(crate) fn new(sets: usize) -> Recent {
        Recent(vec![0xfedc_ba98_7654_3210; sets].into())
    }
}

/// A one in each four bits.
const ONES: u64 = 0x1111_1111_1111_1111;

impl Recent {
    /// Position of a way in the order of a set, in bits.
    #[inline(always)]
    fn place(order: u64, way: u64) -> u32 {
        // The four bits that are zero here are those of the way; the lowest mark is exact.
        let others = order ^ (way * ONES);
        let marks = others.wrapping_sub(ONES) & !others & (ONES << 3);
        marks.trailing_zeros() & 0x3c
    }
}

impl Rule for Recent {
    // Ways never used are as old as invalidated ones: older than all others.
    const EMPTY_FIRST: bool = true;

    #[inline(always)]
    fn used(&mut self, set: Set, at: usize, _hit: bool) {
        let way = (at - set.base) as u64;
        let order = &mut self.0[set.index];
        let later = (1u64 << Recent::place(*order, way)) - 1;
        *order = (*order & !(later << 4 | 0xf)) | (*order & later) << 4 | way;
    }

    #[inline(always)]
    fn victim(&mut self, set: Set) -> usize {
        set.base + (self.0[set.index] >> (4 * (set.ways - 1)) & 0xf) as usize
    }

    fn evict(&mut self, _set: Set, _at: usize) {}

    fn removed(&mut self, set: Set, at: usize) {
        let way = (at - set.base) as u64;
        let order = &mut self.0[set.index];
        let (place, last) = (Recent::place(*order, way), 4 * (set.ways as u32 - 1)); // At most sixteen ways.
        // Ways used before it move up by one, and it becomes the oldest.
        let later = (1u64 << place) - 1;
        let moved = ((1u64 << last) - 1) & !later;
        let rest = !(later | moved | 0xf << last);
        *order = (*order & (later | rest)) | (*order >> 4 & moved) | way << last;
    }
}

/// LRU for many ways: the time of the last use of each line.
#[derive(Clone, Debug)]
pub(crate) struct Stamps {
    stamps: Box<[u64]>,
    now: u64,
}

impl Stamps {
    pub(crate) fn new(n: usize) -> Stamps {
        Stamps { stamps: vec![0; n].into(), now: 0 }
    }
}

impl Rule for Stamps {
    #[inline]
    fn used(&mut self, _set: Set, at: usize, _hit: bool) {
        self.now += 1;
        self.stamps[at] = self.now;
    }

    fn victim(&mut self, set: Set) -> usize {
        first_min(&self.stamps[set.base..set.base + set.ways]) + set.base
    }

    fn evict(&mut self, _set: Set, _at: usize) {}

    fn removed(&mut self, _set: Set, _at: usize) {}
}

/// LFU: the number of uses of each line since it was filled.
#[derive(Clone, Debug)]
pub(crate) struct Lfu(Box<[u64]>);

impl Lfu {
    pub(crate) fn new(n: usize) -> Lfu {
        Lfu(vec![0; n].into())
    }
}

impl Rule for Lfu {
    #[inline]
    fn used(&mut self, _set: Set, at: usize, _hit: bool) {
        self.0[at] += 1;
    }

    #[inline]
    fn again(&mut self, at: usize, times: u64) {
        self.0[at] += times;
    }

    fn victim(&mut self, set: Set) -> usize {
        first_min(&self.0[set.base..set.base + set.ways]) + set.base
    }

    fn evict(&mut self, _set: Set, at: usize) {
        self.0[at] = 0;
    }

    fn removed(&mut self, _set: Set, at: usize) {
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

/// FIFO: the time at which each place was last filled. Places that never were come first, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Fifo {
    stamps: Box<[u64]>,
    next: u64,
}

impl Fifo {
    pub(crate) fn new(n: usize, ways: usize) -> Fifo {
        Fifo { stamps: (0..n).map(|i| (i % ways) as u64).collect(), next: ways as u64 }
    }
}

impl Rule for Fifo {
    #[inline]
    fn used(&mut self, _set: Set, _at: usize, _hit: bool) {}

    fn victim(&mut self, set: Set) -> usize {
        first_min(&self.stamps[set.base..set.base + set.ways]) + set.base
    }

    fn evict(&mut self, _set: Set, at: usize) {
        self.stamps[at] = self.next;
        self.next += 1;
    }

    fn removed(&mut self, _set: Set, _at: usize) {}
}

/// Bit-PLRU: one bit per line.
#[derive(Clone, Debug)]
pub(crate) struct BitPlru {
    bits: Box<[bool]>,
    lots: Lots,
}

impl BitPlru {
    pub(crate) fn new(n: usize, seed: u64) -> BitPlru {
        BitPlru { bits: vec![false; n].into(), lots: Lots::new(seed) }
    }
}

impl Rule for BitPlru {
    #[inline]
    fn used(&mut self, set: Set, at: usize, _hit: bool) {
        self.bits[at] = true;
        let bits = &mut self.bits[set.base..set.base + set.ways];
        if bits.iter().all(|bit| *bit) {
            bits.fill(false);
            self.bits[at] = true;
        }
    }

    fn victim(&mut self, set: Set) -> usize {
        let bits = &self.bits[set.base..set.base + set.ways];
        let n_clear = bits.iter().filter(|bit| !**bit).count();
        // In a direct-mapped cache, the only bit is set.
        let nth = self.lots.below(n_clear.max(1));
        set.base + bits.iter().enumerate().filter(|(_, bit)| !**bit).nth(nth).map_or(0, |(way, _)| way)
    }

    fn evict(&mut self, _set: Set, at: usize) {
        self.bits[at] = false;
    }

    fn removed(&mut self, _set: Set, at: usize) {
        self.bits[at] = false;
    }
}

/// Tree-PLRU: a binary tree of bits over the ways of each set; node `n` has the children `2n` and `2n + 1`, the root is 1. A
/// set bit points at the upper half.
#[derive(Clone, Debug)]
pub(crate) struct TreePlru(Box<[bool]>);

impl TreePlru {
    pub(crate) fn new(n: usize) -> TreePlru {
        TreePlru(vec![false; n].into())
    }
}

impl Rule for TreePlru {
    #[inline]
    fn used(&mut self, set: Set, at: usize, _hit: bool) {
        let mut node = set.ways + (at - set.base);
        while node > 1 {
            let is_upper = node & 1 == 1;
            node >>= 1;
            self.0[set.base + node] = !is_upper;
        }
    }

    fn victim(&mut self, set: Set) -> usize {
        let mut node = 1;
        while node < set.ways {
            node = 2 * node + usize::from(self.0[set.base + node]);
        }
        set.base + node - set.ways
    }

    fn evict(&mut self, _set: Set, _at: usize) {}

    fn removed(&mut self, _set: Set, _at: usize) {}
}

/// RRIP: the predicted distance to the next use of each line. SPEC: drmemtrace.md#simulators.
#[derive(Clone, Debug)]
pub(crate) struct Rripped {
    values: Box<[u32]>,
    distant: u32,
    rrip: Rrip,
    /// Position in the cycle of predictions, and number of *long* predictions in the cycle so far.
    position: u32,
    longs: u32,
}

impl Rripped {
    pub(crate) fn new(rrip: Rrip, n: usize) -> Rripped {
        let distant = (1 << rrip.bits) - 1;
        Rripped { values: vec![distant; n].into(), distant, rrip, position: 0, longs: 0 }
    }

    /// The prediction for a line that is filled.
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
    fn used(&mut self, _set: Set, at: usize, hit: bool) {
        self.values[at] = if hit { 0 } else { self.next() };
    }

    #[inline]
    fn again(&mut self, at: usize, _times: u64) {
        self.values[at] = 0;
    }

    fn victim(&mut self, set: Set) -> usize {
        let values = &self.values[set.base..set.base + set.ways];
        let mut best = 0;
        for (way, value) in values.iter().enumerate() {
            if *value > values[best] {
                best = way;
            }
        }
        set.base + best
    }

    fn evict(&mut self, set: Set, at: usize) {
        let add = self.distant - self.values[at].min(self.distant);
        for value in &mut self.values[set.base..set.base + set.ways] {
            *value += add;
        }
    }

    fn removed(&mut self, _set: Set, at: usize) {
        self.values[at] = self.distant;
    }
}

/// The state of any policy but OPT, chosen at each use.
#[derive(Clone, Debug)]
pub(crate) enum Any {
    Lru(Stamps),
    Lfu(Lfu),
    Fifo(Fifo),
    BitPlru(BitPlru),
    TreePlru(TreePlru),
    Rrip(Rripped),
    Random(Random),
}

impl Any {
    /// State for a cache of `sets` sets; OPT, which needs state of another kind, is taken for LRU.
    pub(crate) fn new(policy: Policy, sets: usize, ways: usize, seed: u64) -> Any {
        let n = sets * ways;
        match policy {
            Policy::Lru | Policy::Opt => Any::Lru(Stamps::new(n)),
            Policy::Lfu => Any::Lfu(Lfu::new(n)),
            Policy::Fifo => Any::Fifo(Fifo::new(n, ways)),
            Policy::BitPlru => Any::BitPlru(BitPlru::new(n, seed)),
            Policy::TreePlru => Any::TreePlru(TreePlru::new(n)),
            Policy::Rrip(rrip) => Any::Rrip(Rripped::new(rrip, n)),
            Policy::Random => Any::Random(Random(Lots::new(seed))),
        }
    }
}

/// Expands to one expression for each policy.
macro_rules! any {
    ($any:expr, $name:ident => $body:expr) => {
        match $any {
            Any::Lru($name) => $body,
            Any::Lfu($name) => $body,
            Any::Fifo($name) => $body,
            Any::BitPlru($name) => $body,
            Any::TreePlru($name) => $body,
            Any::Rrip($name) => $body,
            Any::Random($name) => $body,
        }
    };
}

impl Rule for Any {
    fn used(&mut self, set: Set, at: usize, hit: bool) {
        any!(self, rule => rule.used(set, at, hit));
    }

    fn again(&mut self, at: usize, times: u64) {
        any!(self, rule => rule.again(at, times));
    }

    fn victim(&mut self, set: Set) -> usize {
        any!(self, rule => rule.victim(set))
    }

    fn evict(&mut self, set: Set, at: usize) {
        any!(self, rule => rule.evict(set, at));
    }

    fn removed(&mut self, set: Set, at: usize) {
        any!(self, rule => rule.removed(set, at));
    }
}

/// Random: evicts any line.
#[derive(Clone, Debug)]
pub(crate) struct Random(pub(crate) Lots);

impl Rule for Random {
    #[inline]
    fn used(&mut self, _set: Set, _at: usize, _hit: bool) {}

    fn victim(&mut self, set: Set) -> usize {
        set.base + self.0.below(set.ways)
    }

    fn evict(&mut self, _set: Set, _at: usize) {}

    fn removed(&mut self, _set: Set, _at: usize) {}
}

/// Pseudo-random numbers from a seed, so that runs are repeatable (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Lots(u64);

impl Lots {
    pub(crate) fn new(seed: u64) -> Lots {
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
