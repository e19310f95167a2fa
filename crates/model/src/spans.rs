//! A map from numbers to values for data with long runs of the same value, such as the lines that large accesses touch.
//!
//! A run takes as much memory as a single number, so accesses of a megabyte cost no more than those of a byte. There are
//! never more runs than twice the number of changes, nor more than numbers that have a value.

use std::collections::BTreeMap;

/// Runs of numbers, each with one value. Runs do not overlap, and adjacent runs have different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spans<V> {
    /// For the first number of each run, its last number and the value.
    runs: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for Spans<V> {
    fn default() -> Spans<V> {
        Spans { runs: BTreeMap::new() }
    }
}

impl<V: Copy + PartialEq> Spans<V> {
    /// Sets each number from `first` to `last` to the value that `change` returns for its current value, if any.
    pub fn change(&mut self, first: u64, last: u64, mut change: impl FnMut(Option<V>) -> V) {
        if last < first {
            return;
        }
        self.split(first);
        if let Some(next) = last.checked_add(1) {
            self.split(next);
        }
        // The first number not visited yet; `None` after the largest possible number.
        let mut next = Some(first);
        let mut gaps = Vec::new();
        for (begin, (end, value)) in self.runs.range_mut(first..=last) {
            if let Some(next) = next.filter(|next| next < begin) {
                gaps.push((next, *begin - 1));
            }
            *value = change(Some(*value));
            next = end.checked_add(1);
        }
        if let Some(next) = next.filter(|next| *next <= last) {
            gaps.push((next, last));
        }
        for (begin, end) in gaps {
            self.runs.insert(begin, (end, change(None)));
        }
        self.join(first, last);
    }

    /// The value of a number.
    pub fn get(&self, number: u64) -> Option<V> {
        let (_, (last, value)) = self.runs.range(..=number).next_back()?;
        (*last >= number).then_some(*value)
    }

    /// The runs in ascending order: first number, last number, value.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, V)> + '_ {
        self.runs.iter().map(|(first, (last, value))| (*first, *last, *value))
    }

    /// The values of all runs.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.runs.values_mut().map(|(_, value)| value)
    }

    /// How many numbers have a value; saturates if all 2^64 have one.
    pub fn n_numbers(&self) -> u64 {
        self.iter().fold(0, |sum: u64, (first, last, _)| sum.saturating_add(length(first, last)))
    }

    /// How many numbers from `first` to `last` have a value; saturates if all 2^64 have one.
    pub fn n_within(&self, first: u64, last: u64) -> u64 {
        let before = self.runs.range(..first).next_back();
        let runs = before.into_iter().chain(self.runs.range(first..=last.max(first)));
        runs.fold(0, |sum: u64, (begin, (end, _))| {
            let (begin, end) = ((*begin).max(first), (*end).min(last));
            if begin <= end { sum.saturating_add(length(begin, end)) } else { sum }
        })
    }

    /// True if no number has a value.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.runs.clear();
    }

    /// Splits the run that contains `at`, if any, so that a run begins there.
    fn split(&mut self, at: u64) {
        if let Some((_, (last, value))) = self.runs.range_mut(..at).next_back()
            && *last >= at
        {
            let rest = (*last, *value);
            *last = at - 1;
            self.runs.insert(at, rest);
        }
    }

    /// Joins adjacent runs with the same value, from the run before `first` to that after `last`.
    fn join(&mut self, first: u64, last: u64) {
        let begin = self.runs.range(..first).next_back().map_or(first, |(begin, _)| *begin);
        let end = last.saturating_add(1);
        let mut joined: Vec<(u64, u64)> = Vec::new();
        let mut gone = Vec::new();
        let mut open: Option<(u64, u64, V)> = None;
        for (&first, &(last, value)) in self.runs.range(begin..=end) {
            match &mut open {
                Some((kept, until, of)) if until.checked_add(1) == Some(first) && *of == value => {
                    *until = last;
                    gone.push(first);
                    match joined.last_mut() {
                        Some((known, until)) if *known == *kept => *until = last,
                        _ => joined.push((*kept, last)),
                    }
                }
                _ => open = Some((first, last, value)),
            }
        }
        for first in gone {
            self.runs.remove(&first);
        }
        for (first, until) in joined {
            if let Some((last, _)) = self.runs.get_mut(&first) {
                *last = until;
            }
        }
    }
}

/// How many numbers a run has; saturates.
fn length(first: u64, last: u64) -> u64 {
    (last - first).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_the_values_that_each_number_would_have() {
        let mut spans = Spans::default();
        let mut plain = [None; 64];
        let mut x = 7u64;
        for step in 0..4000u64 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let first = (x >> 33) % 64;
            let last = (first + (x >> 40) % 9).min(63);
            let add = |old: Option<u64>| (old.unwrap_or(0) + step % 2 + 1) % 4;
            spans.change(first, last, add);
            plain[first as usize..=last as usize].iter_mut().for_each(|value| *value = Some(add(*value)));
            let found: Vec<_> = (0..64).map(|number| spans.get(number)).collect();
            assert_eq!(found, plain);
            let runs: Vec<_> = spans.iter().collect();
            let is_joined = |pair: &[(u64, u64, u64)]| pair[0].1 + 1 < pair[1].0 || pair[0].2 != pair[1].2;
            assert!(runs.windows(2).all(is_joined), "{runs:?}");
            assert_eq!(spans.n_numbers(), plain.iter().flatten().count() as u64);
            let within = plain[first as usize..=last as usize].iter().flatten().count() as u64;
            assert_eq!(spans.n_within(first, last), within);
            assert_eq!(
                spans.n_within(first / 2, 63),
                plain[first as usize / 2..].iter().flatten().count() as u64
            );
        }
    }

    #[test]
    fn the_last_of_all_numbers_is_one_as_any_other() {
        let mut spans = Spans::default();
        spans.change(u64::MAX, u64::MAX, |_| 1);
        spans.change(0, u64::MAX, |old| old.unwrap_or(0) + 1);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(0, u64::MAX - 1, 1), (u64::MAX, u64::MAX, 2)]);
        spans.change(u64::MAX, u64::MAX, |_| 1);
        assert_eq!(spans.iter().collect::<Vec<_>>(), [(0, u64::MAX, 1)]);
        assert_eq!((spans.n_numbers(), spans.n_within(5, 9)), (u64::MAX, 5));
        spans.change(9, 5, |_| 7);
        assert_eq!(spans.get(7), Some(1));
    }

    #[test]
    fn large_accesses_take_as_much_memory_as_small_ones() {
        let mut spans = Spans::default();
        for access in 0..20_000u64 {
            spans.change(access << 10, (access << 10) + 1023, |old| old.unwrap_or(0u64) + 1);
        }
        assert_eq!((spans.runs.len(), spans.n_numbers()), (1, 20_000 << 10));
    }
}
