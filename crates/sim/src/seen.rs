//! Which lines were referenced before, and which a fully associative cache of the same size would hold.

use crate::sets::NO_LINE;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// A set of lines: one bit per line, in words of 64 adjacent lines. Grows with the number of distinct lines.
///
/// PERF: used for each miss, so it is a plain open-addressing table; bench `types`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Pairs of a word's number, or [`NO_WORD`], and the word. The length is a power of two, and at most half of the entries
    /// are used.
    table: Vec<(u64, u64)>,
    n_used: usize,
}

/// Marks a free entry. Numbers of words are line numbers without their lowest bits, so none equals this.
const NO_WORD: u64 = u64::MAX;

impl Seen {
    /// Adds the line; returns whether it is new.
    #[inline]
    pub(crate) fn add(&mut self, line: u64) -> bool {
        let bit = 1 << (line & 63);
        let word = match self.place(line >> 6) {
            Ok(word) => word,
            Err(()) => return self.add_word(line >> 6, bit),
        };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes the line; returns whether it was present.
    pub(crate) fn remove(&mut self, line: u64) -> bool {
        let Ok(word) = self.place(line >> 6) else { return false };
        let bit = 1 << (line & 63);
        let was_there = *word & bit != 0;
        *word &= !bit;
        was_there
    }

    /// Index at which the search for a word begins.
    #[inline]
    fn begin(&self, number: u64) -> usize {
        let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
        (product >> 64) as usize ^ product as usize // Truncation is fine for a hash.
    }

    /// The word, if it is present.
    #[inline]
    fn place(&mut self, number: u64) -> Result<&mut u64, ()> {
        let begin = self.begin(number);
        let mask = self.table.len().wrapping_sub(1);
        for step in 0..self.table.len() {
            let at = begin.wrapping_add(step) & mask;
            match self.table[at].0 {
                found if found == number => return Ok(&mut self.table[at].1),
                NO_WORD => return Err(()),
                _ => {}
            }
        }
        Err(())
    }

    #[cold]
    fn add_word(&mut self, number: u64, word: u64) -> bool {
        if 2 * (self.n_used + 1) > self.table.len() {
            let n = (2 * self.table.len()).max(64);
            let old = std::mem::replace(&mut self.table, vec![(NO_WORD, 0); n]);
            for (number, word) in old.into_iter().filter(|(number, _)| *number != NO_WORD) {
                self.insert(number, word);
            }
        }
        self.n_used += 1;
        self.insert(number, word);
        true
    }

    /// Inserts a word that is not present at the first free entry.
    fn insert(&mut self, number: u64, word: u64) {
        let (begin, mask) = (self.begin(number), self.table.len().wrapping_sub(1));
        let places = (0..self.table.len()).map(|step| begin.wrapping_add(step) & mask);
        for at in places {
            if self.table[at].0 == NO_WORD {
                self.table[at] = (number, word);
                return;
            }
        }
    }
}

/// End of the list of a [`Shadow`].
const END: u32 = u32::MAX;

/// A fully associative cache with LRU. A miss of a real cache that hits here is a conflict miss.
///
/// Lines are in a doubly linked list in the order of use, with a table from lines to entries. Grows up to the capacity.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    place: HashMap<u64, u32, FxBuildHasher>,
    /// Line, and its neighbours: the next later used, the next earlier used.
    links: Vec<(u64, u32, u32)>,
    latest: u32,
    oldest: u32,
    capacity: usize,
}

impl Shadow {
    /// Creates an empty cache for this many lines, at least one.
    pub(crate) fn new(capacity: usize) -> Shadow {
        let capacity = capacity.clamp(1, END as usize);
        Shadow { place: HashMap::default(), links: Vec::new(), latest: END, oldest: END, capacity }
    }

    /// Uses the line; returns whether it was present.
    pub(crate) fn touch(&mut self, line: u64) -> bool {
        if let Some(at) = self.place.get(&line).copied() {
            if at != self.latest {
                self.unlink(at);
                self.link(at);
            }
            return true;
        }
        let at = if self.links.len() < self.capacity {
            self.links.push((NO_LINE, END, END));
            (self.links.len() - 1) as u32 // Below the capacity.
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.place.remove(&self.links[at as usize].0);
            at
        };
        self.links[at as usize].0 = line;
        self.place.insert(line, at);
        self.link(at);
        false
    }

    fn unlink(&mut self, at: u32) {
        let (_, later, earlier) = self.links[at as usize];
        match later {
            END => self.latest = earlier,
            later => self.links[later as usize].2 = earlier,
        }
        match earlier {
            END => self.oldest = later,
            earlier => self.links[earlier as usize].1 = later,
        }
    }

    fn link(&mut self, at: u32) {
        let earlier = self.latest;
        self.links[at as usize].1 = END;
        self.links[at as usize].2 = earlier;
        match earlier {
            END => self.oldest = at,
            earlier => self.links[earlier as usize].1 = at,
        }
        self.latest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_holds_the_lines_used_last() {
        let mut shadow = Shadow::new(3);
        let mut plain: Vec<u64> = Vec::new();
        let mut x = 7u64;
        for _ in 0..5000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let line = (x >> 33) % 6;
            let held = plain.iter().position(|known| *known == line);
            if let Some(at) = held {
                plain.remove(at);
            }
            plain.insert(0, line);
            plain.truncate(3);
            assert_eq!(shadow.touch(line), held.is_some());
        }
    }

    #[test]
    fn a_line_is_new_once() {
        let mut seen = Seen::default();
        assert!(seen.add(70) && seen.add(71) && !seen.add(70));
        assert!(seen.remove(70) && !seen.remove(70) && !seen.remove(9999) && seen.add(70));
    }

    #[test]
    fn lines_are_seen_as_a_set_has_them() {
        let mut seen = Seen::default();
        let mut plain = std::collections::HashSet::new();
        let mut rng = quipu_testkit::Rng::new(9);
        for _ in 0..20_000 {
            let line = match rng.below(3) {
                0 => rng.below(1000),
                1 => rng.below(1000) << 20,
                _ => u64::MAX >> 6 << 6 >> rng.below(64),
            };
            match rng.below(4) {
                0 => assert_eq!(seen.remove(line), plain.remove(&line)),
                _ => assert_eq!(seen.add(line), plain.insert(line)),
            }
        }
    }
}
