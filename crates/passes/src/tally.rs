//! Counts occurrences of many keys, fast if a few keys occur often.
//!
//! In front of the hash table is a small direct-mapped buffer that collects counts of the latest keys. Traces repeat
//! themselves, so most additions end there: one load, one compare, one store.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::hash::Hash;

/// A hash table with a hash function that suits numbers.
pub(crate) type Map<K, V> = HashMap<K, V, FxBuildHasher>;

/// A key to count.
pub(crate) trait Key: Copy + Eq + Ord + Hash + Default {
    /// Spreads keys over the buffer's slots; only the low bits are used.
    fn slot(self) -> usize;
}

impl Key for u64 {
    fn slot(self) -> usize {
        self as usize // Only the low bits are used.
    }
}

impl Key for (u64, u64) {
    fn slot(self) -> usize {
        (self.0 ^ self.1.rotate_left(5)) as usize // Only the low bits are used.
    }
}

/// Initial and maximum number of slots of the buffer. It grows with the number of keys, so small tallies stay small.
const MIN_SLOTS: usize = 32;
const MAX_SLOTS: usize = 2048;

/// Number of occurrences of each key.
#[derive(Clone, Debug)]
pub(crate) struct Tally<K> {
    /// Counts not yet in `map`. A free slot has count 0, so its key does not matter.
    slots: Vec<(K, u64)>,
    map: Map<K, u64>,
}

impl<K: Key> Default for Tally<K> {
    fn default() -> Tally<K> {
        Tally { slots: vec![(K::default(), 0); MIN_SLOTS], map: Map::default() }
    }
}

impl<K: Key> Tally<K> {
    /// Counts `key` once.
    #[inline]
    pub(crate) fn add(&mut self, key: K) {
        let mask = self.slots.len() - 1;
        let slot = &mut self.slots[key.slot() & mask];
        if slot.0 == key {
            slot.1 += 1;
        } else {
            let (old, count) = std::mem::replace(slot, (key, 1));
            if count > 0 {
                self.spill(old, count);
            }
        }
    }

    #[inline(never)]
    fn spill(&mut self, key: K, count: u64) {
        *self.map.entry(key).or_insert(0) += count;
        if self.map.len() > self.slots.len() && self.slots.len() < MAX_SLOTS {
            let n_slots = self.slots.len() * 8;
            self.settle();
            self.slots = vec![(K::default(), 0); n_slots];
        }
    }

    /// Moves all counts to the table.
    fn settle(&mut self) {
        for (key, count) in &mut self.slots {
            if *count > 0 {
                *self.map.entry(*key).or_insert(0) += *count;
                *count = 0;
            }
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, mut other: Tally<K>) {
        other.settle();
        if other.map.len() > self.map.len() {
            std::mem::swap(&mut self.map, &mut other.map);
        }
        self.map.reserve(other.map.len().saturating_sub(self.map.len()));
        for (key, count) in other.map {
            *self.map.entry(key).or_insert(0) += count;
        }
    }

    /// All counts, by key.
    pub(crate) fn into_map(mut self) -> Map<K, u64> {
        self.settle();
        self.map
    }
}

/// The `n` first of `items` by `rank`, in that order, without sorting the rest.
pub(crate) fn top_by<T, R: Ord>(mut items: Vec<T>, n: usize, rank: impl Fn(&T) -> R) -> Vec<T> {
    if n < items.len() {
        items.select_nth_unstable_by_key(n, &rank);
        items.truncate(n);
    }
    items.sort_by_key(&rank);
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    /// A cheap deterministic sequence with many repeats and many collisions.
    fn keys(n: u64, seed: u64) -> impl Iterator<Item = u64> {
        (0..n).map(move |i| {
            let mixed = (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            if mixed.is_multiple_of(3) { mixed % 7 * 4096 } else { mixed % 5000 }
        })
    }

    fn plain(keys: impl Iterator<Item = u64>) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        keys.for_each(|key| *counts.entry(key).or_insert(0) += 1);
        counts
    }

    #[test]
    fn counts_equal_those_of_a_plain_table() {
        let mut tally = Tally::default();
        keys(100_000, 1).for_each(|key| tally.add(key));
        assert_eq!(tally.into_map().into_iter().collect::<BTreeMap<_, _>>(), plain(keys(100_000, 1)));
    }

    #[test]
    fn merged_counts_equal_counts_of_the_whole() {
        let (mut left, mut right) = (Tally::default(), Tally::default());
        keys(1000, 1).for_each(|key| left.add(key));
        keys(50_000, 2).for_each(|key| right.add(key));
        left.merge(right);
        let whole = plain(keys(1000, 1).chain(keys(50_000, 2)));
        assert_eq!(left.into_map().into_iter().collect::<BTreeMap<_, _>>(), whole);
    }

    #[test]
    fn the_key_that_free_slots_name_is_counted_only_when_it_occurs() {
        let mut tally = Tally::default();
        tally.add(5u64);
        assert_eq!(tally.clone().into_map().len(), 1);
        tally.add(0);
        assert_eq!(
            tally.into_map().into_iter().collect::<BTreeMap<_, _>>(),
            BTreeMap::from([(0, 1), (5, 1)])
        );
    }

    #[test]
    fn the_most_frequent_come_first_and_ties_by_ascending_key() {
        let top = |n| {
            top_by(vec![(9, 5), (3, 5), (4, 7), (1, 1)], n, |&(key, count): &(u64, u64)| {
                (Reverse(count), key)
            })
        };
        assert_eq!(top(3), [(4, 7), (3, 5), (9, 5)]);
        assert_eq!(top(0), []);
        assert_eq!(top(99).len(), 4);
    }
}
