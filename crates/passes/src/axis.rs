//! Divides a range of unknown length into a few intervals, which are the same for every reader.
//!
//! Intervals have a width of 2^k and begin at multiples of it, counted from the axis's own zero rather than from where
//! reading began. So two readers of two parts of a trace divide it alike, and their intervals merge without loss: the finer
//! one halves its resolution until both agree. `k` is the smallest for which the range so far needs no more intervals than
//! allowed; it depends on the first and last position only.

use quipu_model::{Columns, Span};

/// Unit of the positions on an axis: progress within a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Positions {
    Instrs,
    Records,
}

impl Positions {
    /// Instructions if their fetches are among the accesses, so that accesses can be assigned to them; otherwise records.
    pub(crate) fn of(columns: Columns) -> Positions {
        if columns.has(Columns::ACCESS_FETCH) { Positions::Instrs } else { Positions::Records }
    }

    /// First and last position of a batch that has records. Accesses before its first instruction belong to the instruction
    /// before the batch.
    pub(crate) fn ends(self, span: &Span) -> (u64, u64) {
        match self {
            Positions::Instrs => {
                let first = span.first_instr.saturating_sub(1);
                (first, first.max((span.first_instr + u64::from(span.instrs)).saturating_sub(1)))
            }
            Positions::Records => {
                (span.first_record, span.first_record + u64::from(span.records.saturating_sub(1)))
            }
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Positions::Instrs => "instructions",
            Positions::Records => "records",
        }
    }
}

/// A range of positions divided into a few equal, aligned intervals: at most [`Axis::MAX`] unless another limit is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    /// Maximum number of intervals.
    max: u64,
    /// First and last position; `None` until a position is covered.
    ends: Option<(u64, u64)>,
    /// Width of an interval, as a power of two.
    shift: u32,
}

/// Converts the interval numbers of an axis to those of a changed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remap {
    /// Number of the old axis's first interval, counted from position 0.
    old_base: u64,
    /// Difference of the widths, as a power of two.
    coarser: u32,
    /// Number of the new axis's first interval.
    new_base: u64,
}

impl Remap {
    /// The new number of interval `old`.
    pub(crate) fn index(self, old: usize) -> usize {
        // Both axes have at most `MAX` intervals, and the new one covers everything that the old one covered.
        (((self.old_base + old as u64) >> self.coarser) - self.new_base) as usize
    }
}

impl Default for Axis {
    fn default() -> Axis {
        Axis::up_to(Axis::MAX as u64)
    }
}

impl Axis {
    /// The default maximum of intervals: the number of bits in a word, so that a word can hold one flag for each interval.
    pub(crate) const MAX: usize = 64;

    /// An axis of at most this many intervals, but at least one.
    pub(crate) fn up_to(max: u64) -> Axis {
        Axis { max, ends: None, shift: 0 }
    }

    /// Extends the range to `first..=last`. Returns the conversion of interval numbers if they changed.
    pub(crate) fn cover(&mut self, first: u64, last: u64) -> Option<Remap> {
        let Some((lo, hi)) = self.ends else {
            self.ends = Some((first, last));
            self.shift = self.shift_for(first, last, 0);
            return None;
        };
        if first >= lo && last <= hi {
            return None;
        }
        let old = *self;
        let (lo, hi) = (lo.min(first), hi.max(last));
        self.ends = Some((lo, hi));
        self.shift = self.shift_for(lo, hi, self.shift);
        (self.shift != old.shift || self.base() != old.base()).then(|| old.remap_to(*self))
    }

    /// The axis that covers both.
    pub(crate) fn joined(self, other: Axis) -> Axis {
        let mut joined = self;
        if let Some((first, last)) = other.ends {
            joined.cover(first, last);
        }
        joined
    }

    /// The conversion of interval numbers of this axis to those of `new`, which covers it.
    pub(crate) fn remap_to(self, new: Axis) -> Remap {
        Remap { old_base: self.base(), coarser: new.shift - self.shift, new_base: new.base() }
    }

    /// The interval that `position` falls into. The position must be covered.
    pub(crate) fn index(self, position: u64) -> usize {
        ((position >> self.shift) - self.base()) as usize // Below `MAX` for covered positions.
    }

    /// First and last position covered.
    pub(crate) fn ends(self) -> Option<(u64, u64)> {
        self.ends
    }

    /// Positions in an interval.
    pub(crate) fn width(self) -> u64 {
        1 << self.shift
    }

    /// Number of intervals.
    pub(crate) fn len(self) -> usize {
        self.ends.map_or(0, |(_, last)| self.index(last) + 1)
    }

    /// The position at which the first interval begins, at or before the first position covered.
    pub(crate) fn start(self) -> u64 {
        self.base() << self.shift
    }

    /// The position after the last one covered. The last interval may extend beyond it.
    pub(crate) fn end(self) -> u64 {
        self.ends.map_or(0, |(_, last)| last.saturating_add(1))
    }

    /// The smallest width, from `at_least` up, with which `first..=last` needs no more intervals than allowed.
    fn shift_for(self, first: u64, last: u64, at_least: u32) -> u32 {
        let mut shift = at_least;
        while (last >> shift) - (first >> shift) >= self.max {
            shift += 1;
        }
        shift
    }

    /// Number of the first interval, counted from position 0.
    fn base(self) -> u64 {
        self.ends.map_or(0, |(first, _)| first >> self.shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_where_its_positions_do_not_where_an_interval_would() {
        let mut axis = Axis::default();
        assert_eq!(axis.end(), 0);
        axis.cover(0, 156_380);
        assert_eq!((axis.width(), axis.end()), (4096, 156_381));
    }

    #[test]
    fn intervals_stay_few_whatever_the_length() {
        let mut axis = Axis::default();
        for last in [0, 63, 64, 1000, 1 << 40, u64::MAX] {
            axis.cover(0, last);
            assert!(axis.len() <= Axis::MAX, "{last}");
            assert_eq!(axis.index(last), axis.len() - 1);
        }
        assert_eq!(axis.width(), 1 << 58);
    }

    #[test]
    fn the_order_of_covering_does_not_matter() {
        let stretches = [(1000, 1001), (5, 90), (70_000, 70_000), (200, 300)];
        let forward = stretches.iter().fold(Axis::default(), |mut axis, &(first, last)| {
            axis.cover(first, last);
            axis
        });
        let backward = stretches.iter().rev().fold(Axis::default(), |mut axis, &(first, last)| {
            axis.cover(first, last);
            axis
        });
        assert_eq!(forward, backward);
        assert_eq!(forward.width(), 2048);
    }

    #[test]
    fn a_remapped_index_is_the_index_of_the_same_position() {
        let mut axis = Axis::default();
        axis.cover(1000, 1063);
        let old = axis;
        let remap = axis.cover(10, 4000).expect("both ends moved");
        for position in 1000..=1063 {
            assert_eq!(remap.index(old.index(position)), axis.index(position));
        }
    }

    #[test]
    fn a_window_far_from_zero_is_still_finely_divided() {
        let mut axis = Axis::default();
        axis.cover(1_000_000_000, 1_000_000_999);
        assert!(axis.width() <= 16);
        assert!(axis.start() <= 1_000_000_000 && axis.start() + axis.width() > 1_000_000_000);
    }
}
