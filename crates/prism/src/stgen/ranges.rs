//! Sets of addresses, as ranges in ascending order. Ranges that overlap or touch are merged.

/// Addresses from `start` to `end`, both inclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first address.
    pub start: u64,
    /// The last address.
    pub end: u64,
}

impl Range {
    /// The bytes of an access; `None` for an access of no bytes. The range ends at the last address of the address space.
    #[must_use]
    pub fn of(address: u64, bytes: u64) -> Option<Range> {
        Some(Range { start: address, end: address.saturating_add(bytes.checked_sub(1)?) })
    }

    /// The part up to an address, inclusive.
    #[must_use]
    pub fn below(self, last: u64) -> Option<Range> {
        (self.start <= last).then(|| Range { start: self.start, end: self.end.min(last) })
    }

    /// The part after an address.
    #[must_use]
    pub fn from(self, last: u64) -> Option<Range> {
        (self.end > last).then(|| Range { start: self.start.max(last + 1), end: self.end })
    }

    /// Number of addresses, saturated at `u64::MAX`.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // There is no empty range.
    pub fn len(self) -> u64 {
        (self.end - self.start).saturating_add(1)
    }
}

/// A set of addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ranges {
    ranges: Vec<Range>,
}

impl Ranges {
    /// Adds a range.
    pub fn insert(&mut self, range: Range) {
        // The first range that is not wholly before the new one with an address between them.
        let first =
            self.ranges.partition_point(|known| known.end < range.start && range.start - known.end > 1);
        let touched = self.ranges[first..]
            .iter()
            .take_while(|known| known.start <= range.end || known.start - range.end == 1)
            .count();
        if touched == 0 {
            self.ranges.insert(first, range);
            return;
        }
        let last = self.ranges[first + touched - 1];
        let known = &mut self.ranges[first];
        known.start = known.start.min(range.start);
        known.end = last.end.max(range.end);
        if touched > 1 {
            self.ranges.drain(first + 1..first + touched);
        }
    }

    /// The ranges, in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Range> + '_ {
        self.ranges.iter().copied()
    }

    /// Empties the set.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let mut ranges = Ranges::default();
        for (start, end) in
            [(10, 11), (20, 29), (14, 15), (12, 13), (u64::MAX, u64::MAX), (0, 0), (16, 25), (1, 1)]
        {
            ranges.insert(Range { start, end });
        }
        let all: Vec<_> = ranges.iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(all, [(0, 1), (10, 29), (u64::MAX, u64::MAX)]);
    }

    #[test]
    fn an_access_ends_at_the_last_address() {
        assert_eq!(Range::of(u64::MAX - 1, 8), Some(Range { start: u64::MAX - 1, end: u64::MAX }));
        assert_eq!(Range::of(5, 0), None);
    }
}
