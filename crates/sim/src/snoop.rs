//! The snoop filter: tracks the watched caches that hold each line, and whether one has written it.
//! SPEC: drmemtrace.md#simulators.
//!
//! It only keeps state; the machine invalidates lines as the filter reports.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Cost of coherence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoherenceStats {
    /// Writes that reached the filter.
    pub writes: u64,
    /// Copies invalidated in other caches by a write.
    pub invalidations: u64,
    /// Modified lines that were written back to the next level.
    pub writebacks: u64,
}

/// State of the filter. Grows with the number of lines that the watched caches hold together.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    entries: HashMap<u64, Entry, FxBuildHasher>,
    /// Bit sets of sharers, `words` for each entry.
    sharers: Vec<u64>,
    free: Vec<u32>,
    words: usize,
    pub(crate) stats: CoherenceStats,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    is_dirty: bool,
}

impl Filter {
    /// A filter for this many caches.
    pub(crate) fn new(n_caches: usize) -> Filter {
        Filter {
            entries: HashMap::default(),
            sharers: Vec::new(),
            free: Vec::new(),
            words: n_caches.div_ceil(64).max(1),
            stats: CoherenceStats::default(),
        }
    }

    /// Notes that the watched cache `id` has filled or written the line; appends the ids of caches that lose it to `lose`.
    pub(crate) fn access(&mut self, line: u64, id: usize, is_write: bool, lose: &mut Vec<usize>) {
        let words = self.words;
        let entry = self.entries.entry(line).or_insert_with(|| {
            let at = self.free.pop().unwrap_or_else(|| {
                self.sharers.resize(self.sharers.len() + words, 0);
                (self.sharers.len() / words - 1) as u32 // Bounded by the lines of all caches.
            });
            Entry { at, is_dirty: false }
        });
        let start = entry.at as usize * words;
        let sharers = &mut self.sharers[start..start + words];
        let (word, bit) = (id / 64, 1 << (id % 64));
        if entry.is_dirty && sharers[word] & bit == 0 {
            self.stats.writebacks += 1;
            entry.is_dirty = false;
        }
        if is_write {
            self.stats.writes += 1;
            entry.is_dirty = true;
            for (i, bits) in sharers.iter_mut().enumerate() {
                let mut others = *bits & !if i == word { bit } else { 0 };
                *bits &= !others;
                while others != 0 {
                    lose.push(i * 64 + others.trailing_zeros() as usize);
                    others &= others - 1;
                    self.stats.invalidations += 1;
                }
            }
        }
        sharers[word] |= bit;
    }

    /// Notes that the watched cache `id` has evicted the line.
    pub(crate) fn evict(&mut self, line: u64, id: usize) {
        let Some(entry) = self.entries.get_mut(&line) else { return };
        if entry.is_dirty {
            self.stats.writebacks += 1;
            entry.is_dirty = false;
        }
        let start = entry.at as usize * self.words;
        let sharers = &mut self.sharers[start..start + self.words];
        sharers[id / 64] &= !(1 << (id % 64));
        if sharers.iter().all(|bits| *bits == 0) {
            self.free.push(entry.at);
            self.entries.remove(&line);
        }
    }

    /// The ids that share the line; for tests of invariants.
    #[cfg(test)]
    pub(crate) fn sharers(&self, line: u64) -> Vec<usize> {
        let Some(entry) = self.entries.get(&line) else { return Vec::new() };
        let start = entry.at as usize * self.words;
        (0..self.words * 64).filter(|id| self.sharers[start + id / 64] & (1 << (id % 64)) != 0).collect()
    }
}
