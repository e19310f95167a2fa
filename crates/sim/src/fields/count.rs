//! Counts by field. Each type has one counter per field, followed by [`PARTS_BEHIND`] more.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::ops::Range;

/// Counter for bytes of a type that belong to no field. This and the next two numbers are offsets after the fields'
/// counters.
pub(super) const GAP: u32 = 0;
/// Counter for bytes after a region's only element.
pub(super) const TRAILING: u32 = 1;
/// Accesses counted for more than one field: subtracted from the sum of the fields to get the type's total.
const EXTRA: u32 = 2;
/// Number of counters after those of the fields.
pub(super) const PARTS_BEHIND: u32 = 3;

/// The type of a region, or a type name that could not be resolved.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    /// The type, if it was found.
    pub(crate) shape: Option<u32>,
    /// Number of its first counter.
    pub(crate) base: u32,
    pub(crate) n_fields: u32,
    /// Its bytes in the table of cells of all kinds.
    pub(super) cells: Range<u32>,
}

impl Kind {
    /// Counters of its fields, of padding, and of bytes after the only element.
    pub(super) fn counters(&self) -> Range<u32> {
        self.base..self.base + self.n_fields + EXTRA
    }
}

/// Reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(pub(crate) [u64; 2]);

/// The counts of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    counts: Vec<[u64; 2]>,
    /// Misses by counter, then by level.
    misses: Vec<u64>,
    n_levels: usize,
}

impl Counters {
    /// Makes room for this many counters.
    pub(super) fn fit(&mut self, n_counters: u32, n_levels: usize) {
        if self.counts.len() < n_counters as usize {
            self.n_levels = n_levels;
            self.counts.resize(n_counters as usize, [0; 2]);
            self.misses.resize(n_counters as usize * n_levels, 0);
        }
    }

    #[inline]
    pub(super) fn add(&mut self, counter: u32, is_write: usize) {
        self.counts[counter as usize][is_write] += 1;
    }

    /// Notes that an access was counted `n` times too often, at the first counter after the fields of its type.
    pub(super) fn add_extra(&mut self, behind: u32, n: u64, is_write: usize) {
        self.counts[(behind + EXTRA) as usize][is_write] += n;
    }

    /// Reads and writes, by counter.
    pub(super) fn counts_mut(&mut self) -> &mut [[u64; 2]] {
        &mut self.counts
    }

    #[inline]
    pub(super) fn miss(&mut self, counter: u32, level: usize) {
        self.misses[counter as usize * self.n_levels + level] += 1;
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill([0; 2]);
        self.misses.fill(0);
    }

    /// Reads and writes of one counter.
    pub(super) fn at(&self, counter: u32) -> Tally {
        Tally(self.counts.get(counter as usize).copied().unwrap_or_default())
    }

    /// Misses of one counter, by level.
    pub(super) fn misses_at(&self, counter: u32) -> &[u64] {
        let at = counter as usize * self.n_levels;
        self.misses.get(at..at + self.n_levels).unwrap_or(&[])
    }

    /// Reads and writes of a type; each access counts once.
    pub(super) fn of_kind(&self, kind: &Kind) -> Tally {
        let mut all = self.at(kind.base + kind.n_fields + EXTRA).0.map(u64::wrapping_neg);
        for counter in kind.counters() {
            let Tally(of) = self.at(counter);
            all = [all[0].wrapping_add(of[0]), all[1].wrapping_add(of[1])];
        }
        Tally(all)
    }
}

/// Counts of one counter that are kept for all threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    /// Accesses that continue in the next line; counted for the field in which they begin.
    pub(crate) straddling: u64,
    /// Accesses to more than one field; counted at the first counter of the type.
    pub(crate) several: u64,
    /// Accesses that begin in a region and end outside of it; counted at the first counter of the type.
    pub(crate) leaving: u64,
    /// Bytes in lines in which the type was touched.
    pub(crate) fetched: u64,
    /// Those of them that were touched.
    pub(crate) used: u64,
}

/// One [`Total`] per counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals(Vec<Total>);

impl Totals {
    pub(super) fn get(&self, counter: u32) -> Total {
        self.0.get(counter as usize).copied().unwrap_or_default()
    }

    fn of(&mut self, counter: u32) -> &mut Total {
        let at = counter as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, Total::default());
        }
        &mut self.0[at]
    }

    pub(super) fn straddle(&mut self, counter: u32) {
        self.of(counter).straddling += 1;
    }

    pub(super) fn several(&mut self, base: u32) {
        self.of(base).several += 1;
    }

    pub(super) fn leave(&mut self, base: u32) {
        self.of(base).leaving += 1;
    }

    pub(super) fn settle(&mut self, counter: u32, fetched: u64, used: u64) {
        let of = self.of(counter);
        of.fetched += fetched;
        of.used += used;
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// Owner of a set of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    Counter(u32),
    Kind(u32),
    Site(u32),
    Thread(u32),
    /// The whole program.
    All,
}

/// Sets of distinct lines, as bits in words of 64 adjacent lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineSets {
    words: HashMap<(Whose, u64), u64, FxBuildHasher>,
    counts: HashMap<Whose, u64, FxBuildHasher>,
}

impl LineSets {
    pub(super) fn add(&mut self, whose: Whose, line: u64) {
        let word = self.words.entry((whose, line >> 6)).or_default();
        let bit = 1 << (line & 63);
        if *word & bit == 0 {
            *word |= bit;
            *self.counts.entry(whose).or_default() += 1;
        }
    }

    pub(super) fn count(&self, whose: Whose) -> u64 {
        self.counts.get(&whose).copied().unwrap_or(0)
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.counts.clear();
    }
}
