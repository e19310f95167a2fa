//! The touched lines, and the intervals in which they were touched: a word of flags for each distinct line.

use crate::axis::{Axis, Remap};
use crate::lines::gather;
use crate::tally::Map;
use quipu_model::Spans;

/// Slots of the filter in front of the table.
const FILTER_SLOTS: usize = 1024;

/// Distinct lines, each with the set of intervals in which it was touched: bit *i* is interval *i* of `axis`.
#[derive(Clone, Debug)]
pub(super) struct Footprint {
    axis: Axis,
    lines: Map<u64, u64>,
    /// The same for the lines of large accesses. A line may be in both until [`Footprint::settle`].
    wide: Spans<u64>,
    /// The interval of current touches.
    now: usize,
    /// Lines already marked in this interval, by their low bits. A free slot holds a line of another slot.
    marked: Vec<u64>,
}

const _: () = assert!(Axis::MAX == u64::BITS as usize, "an interval is a bit of a word");

impl Default for Footprint {
    fn default() -> Footprint {
        let mut footprint = Footprint {
            axis: Axis::default(),
            lines: Map::default(),
            wide: Spans::default(),
            now: 0,
            marked: vec![0; FILTER_SLOTS],
        };
        footprint.forget_marked();
        footprint
    }
}

impl Footprint {
    /// Extends the axis to these positions.
    pub(super) fn cover(&mut self, first: u64, last: u64) {
        if let Some(remap) = self.axis.cover(first, last) {
            self.remap(remap);
            self.forget_marked();
        }
    }

    /// Sets the interval of the following touches to that of `position`, which must be covered.
    pub(super) fn go_to(&mut self, position: u64) {
        let interval = self.axis.index(position);
        if interval != self.now {
            self.now = interval;
            self.forget_marked();
        }
    }

    /// True if both positions are in one interval.
    pub(super) fn is_one_interval(&self, first: u64, last: u64) -> bool {
        self.axis.index(first) == self.axis.index(last)
    }

    /// Marks a line as touched in the current interval.
    #[inline]
    pub(super) fn touch(&mut self, line: u64) {
        let slot = &mut self.marked[line as usize & (FILTER_SLOTS - 1)]; // Only the low bits are used.
        if *slot != line {
            *slot = line;
            self.mark(line);
        }
    }

    /// Marks the lines of a large access as touched in the current interval.
    #[cold]
    pub(super) fn touch_all(&mut self, first: u64, last: u64) {
        let now = 1 << self.now;
        self.wide.change(first, last, |intervals| intervals.unwrap_or(0) | now);
    }

    /// Leaves each line in one place only, which the results require.
    pub(super) fn settle(&mut self) {
        gather(&mut self.lines, &mut self.wide, |intervals, others| intervals | others);
        self.forget_marked();
    }

    fn remap(&mut self, remap: Remap) {
        self.lines.values_mut().chain(self.wide.values_mut()).for_each(|intervals| {
            let mut left = *intervals;
            *intervals = 0;
            while left != 0 {
                *intervals |= 1 << remap.index(left.trailing_zeros() as usize);
                left &= left - 1;
            }
        });
    }

    /// PERF: out of line, so that the filter above fits into the loop over accesses; bench `working-set`.
    #[inline(never)]
    fn mark(&mut self, line: u64) {
        *self.lines.entry(line).or_insert(0) |= 1 << self.now;
    }

    /// Adds the touches of `other`.
    pub(super) fn merge(&mut self, mut other: Footprint) {
        if other.axis.ends().is_none() {
            return;
        }
        let joined = self.axis.joined(other.axis);
        if joined != self.axis {
            self.remap(self.axis.remap_to(joined));
        }
        if joined != other.axis {
            other.remap(other.axis.remap_to(joined));
        }
        self.axis = joined;
        if other.lines.len() > self.lines.len() {
            std::mem::swap(&mut self.lines, &mut other.lines);
        }
        for (line, intervals) in other.lines {
            *self.lines.entry(line).or_insert(0) |= intervals;
        }
        for (first, last, intervals) in other.wide.iter() {
            self.wide.change(first, last, |old| old.unwrap_or(0) | intervals);
        }
        self.settle();
    }

    /// The same touches in units of `1 << coarser` lines.
    pub(super) fn coarser(&self, coarser: u32) -> Footprint {
        let mut units: Map<u64, u64> = Map::default();
        for (line, intervals) in &self.lines {
            *units.entry(line >> coarser).or_insert(0) |= intervals;
        }
        let mut wide = Spans::default();
        for (first, last, intervals) in self.wide.iter() {
            wide.change(first >> coarser, last >> coarser, |old: Option<u64>| old.unwrap_or(0) | intervals);
        }
        let mut coarse = Footprint { axis: self.axis, lines: units, wide, ..Footprint::default() };
        coarse.settle();
        coarse
    }

    /// Number of distinct lines.
    pub(super) fn len(&self) -> u64 {
        self.lines.len() as u64 + self.wide.n_numbers()
    }

    /// Number of distinct lines that both have.
    pub(super) fn n_shared(&self, other: &Footprint) -> u64 {
        let (few, many) = if self.lines.len() < other.lines.len() { (self, other) } else { (other, self) };
        let narrow = few.lines.keys().filter(|line| many.lines.contains_key(*line)).count() as u64;
        let mixed = |lines: &Map<u64, u64>, wide: &Spans<u64>| match wide.is_empty() {
            true => 0,
            false => lines.keys().filter(|line| wide.get(**line).is_some()).count() as u64,
        };
        let wide: u64 = few.wide.iter().map(|(first, last, _)| many.wide.n_within(first, last)).sum();
        narrow + mixed(&few.lines, &many.wide) + mixed(&many.lines, &few.wide) + wide
    }

    pub(super) fn axis(&self) -> Axis {
        self.axis
    }

    /// For each interval, the number of distinct lines touched in it, and the number touched up to its end.
    pub(super) fn over_time(&self) -> (Vec<u64>, Vec<u64>) {
        let mut touched = [0u64; Axis::MAX];
        let mut new = [0u64; Axis::MAX];
        let narrow = self.lines.values().map(|intervals| (*intervals, 1));
        let wide = self.wide.iter().map(|(first, last, intervals)| (intervals, last - first + 1));
        for (intervals, n_lines) in narrow.chain(wide) {
            let mut left = intervals;
            while left != 0 {
                touched[left.trailing_zeros() as usize] += n_lines;
                left &= left - 1;
            }
            // Every line in the table has been touched, so some bit is set.
            new[intervals.trailing_zeros() as usize & (Axis::MAX - 1)] += n_lines;
        }
        let n_intervals = self.axis.len();
        let so_far = new.iter().scan(0, |sum, new| {
            *sum += new;
            Some(*sum)
        });
        (touched[..n_intervals].to_vec(), so_far.take(n_intervals).collect())
    }

    fn forget_marked(&mut self) {
        for (i, slot) in self.marked.iter_mut().enumerate() {
            *slot = !(i as u64); // Its low bits differ from `i`: no line of this slot.
        }
    }
}
