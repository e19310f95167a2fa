//! Sets of numbers as ranges, so that a gap of a billion takes as little memory as a gap of two.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, stored as disjoint ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// The end of each range by its start. Ranges neither overlap nor touch.
    map: BTreeMap<u64, u64>,
}

impl Ranges {
    /// The ranges in ascending order; none touches the next.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.map.iter().map(|(start, end)| *start..*end)
    }

    /// Adds all numbers of a range.
    pub fn insert(&mut self, range: Range<u64>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        // Merges the ranges that overlap or touch the new one.
        while let Some((&other, &other_end)) = self.map.range(..=end).next_back() {
            if other_end < start {
                break;
            }
            self.map.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.map.insert(start, end);
    }

    /// Removes a number; returns whether the set had it.
    pub fn remove(&mut self, n: u64) -> bool {
        let Some((&start, &end)) = self.map.range(..=n).next_back() else { return false };
        if n >= end {
            return false;
        }
        self.map.remove(&start);
        if start < n {
            self.map.insert(start, n);
        }
        if n + 1 < end {
            self.map.insert(n + 1, end);
        }
        true
    }

    /// Whether the set has `n`.
    #[must_use]
    pub fn contains(&self, n: u64) -> bool {
        self.map.range(..=n).next_back().is_some_and(|(_, end)| n < *end)
    }

    /// The smallest number below `end` that the set does not have.
    #[must_use]
    pub fn first_missing_below(&self, end: u64) -> Option<u64> {
        let first = self.map.get(&0).copied().unwrap_or(0);
        (first < end).then_some(first)
    }

    /// Whether the set has any number of `range`.
    #[must_use]
    pub fn meets(&self, range: &Range<u64>) -> bool {
        self.map.range(..range.end).next_back().is_some_and(|(_, end)| range.start < *end)
    }

    /// The highest number in the set.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.map.last_key_value().map(|(_, end)| end - 1)
    }

    /// The range that contains `n`.
    #[must_use]
    pub fn range_of(&self, n: u64) -> Option<Range<u64>> {
        let (start, end) = self.map.range(..=n).next_back()?;
        (n < *end).then_some(*start..*end)
    }

    /// The end of the range that contains `n`.
    #[must_use]
    pub fn end_of(&self, n: u64) -> Option<u64> {
        self.range_of(n).map(|range| range.end)
    }

    /// Number of ranges.
    #[must_use]
    pub fn n_ranges(&self) -> usize {
        self.map.len()
    }

    /// Removes the lowest range and returns it.
    pub fn forget_lowest(&mut self) -> Option<Range<u64>> {
        self.map.pop_first().map(|(start, end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_part() {
        let mut set = Ranges::default();
        set.insert(5..7);
        set.insert(0..2);
        assert_eq!(set.first_missing_below(9), Some(2));
        set.insert(2..5);
        assert_eq!(
            (set.n_ranges(), set.first_missing_below(7), set.first_missing_below(8)),
            (1, None, Some(7))
        );
        assert!(set.remove(3) && !set.remove(3) && !set.remove(7));
        assert!(set.contains(2) && set.contains(4) && !set.contains(3));
        assert!(set.meets(&(0..1)) && set.meets(&(3..5)) && !set.meets(&(3..4)) && !set.meets(&(7..9)));
        set.insert(3..4);
        assert_eq!((set.n_ranges(), set.last()), (1, Some(6)));
    }
}
