//! A lane of the chart: the busy times of a thread or a core, from clock readings alone.
//!
//! A lane is a sequence of clock readings with the relevant facts between two of them (a *gap*). Two lanes of neighbouring
//! parts of a trace join exactly: the gap at the end of the first and the one at the start of the second become one, and
//! only then is the time across the border distributed.

use crate::axis::{Axis, Remap};

/// The kind of a lane, which determines what counts as busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneOf {
    /// A thread is busy except between two readings that frame a system call that may block.
    Thread,
    /// A core is busy for the share of records that are neither idle nor wait records.
    Core,
}

/// A call that may block is framed by readings if it follows the one before within this many records: the reading itself,
/// the processor, perhaps a window, and the call's number come in between. (SPEC: drmemtrace.md#grammar-of-a-file.)
const FRAME_RECORDS: u64 = 4;

/// A clock reading and its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    clock: u64,
    record: u64,
}

/// The relevant facts between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Gap {
    /// The record of the first call that may block.
    may_block: Option<u64>,
    /// Idle and wait records.
    idles: u64,
}

impl Gap {
    fn join(self, later: Gap) -> Gap {
        Gap { may_block: self.may_block.or(later.may_block), idles: self.idles + later.idles }
    }
}

/// Ticks of the clock by activity. Sums saturate, as a damaged clock may run back and forth without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Running, as far as can be determined; includes `unclear`.
    pub(super) busy: u64,
    /// In a call that may block, or a core without work.
    pub(super) idle: u64,
    /// Between readings with both a call that may block and other records between them.
    pub(super) unclear: u64,
}

impl Ticks {
    pub(super) fn add(&mut self, other: Ticks) {
        self.busy = self.busy.saturating_add(other.busy);
        self.idle = self.idle.saturating_add(other.idle);
        self.unclear = self.unclear.saturating_add(other.unclear);
    }
}

/// Busy ticks over time.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    of: LaneOf,
    axis: Axis,
    /// Busy ticks of each interval of `axis`.
    busy: Vec<u64>,
    ticks: Ticks,
    /// First and last reading.
    ends: Option<(Reading, Reading)>,
    /// The gap before the first reading; if there is none, everything.
    head: Gap,
    /// The gap after the last reading.
    tail: Gap,
}

impl Lane {
    /// A lane whose time is divided into at most this many steps.
    pub(super) fn new(of: LaneOf, steps: u64) -> Lane {
        Lane {
            of,
            axis: Axis::up_to(steps),
            busy: Vec::new(),
            ticks: Ticks::default(),
            ends: None,
            head: Gap::default(),
            tail: Gap::default(),
        }
    }

    /// Adds a clock reading at this record.
    pub(super) fn read_clock(&mut self, clock: u64, record: u64) {
        let reading = Reading { clock, record };
        self.cover(clock, clock);
        match self.ends {
            None => self.ends = Some((reading, reading)),
            Some((first, last)) => {
                self.close(last, self.tail, reading);
                self.ends = Some((first, reading));
            }
        }
        self.tail = Gap::default();
    }

    /// Adds a call that may block at this record.
    pub(super) fn may_block(&mut self, record: u64) {
        let gap = self.gap();
        gap.may_block = gap.may_block.or(Some(record));
    }

    /// Adds idle or wait records.
    pub(super) fn idle(&mut self, n: u64) {
        self.gap().idles += n;
    }

    fn gap(&mut self) -> &mut Gap {
        if self.ends.is_some() { &mut self.tail } else { &mut self.head }
    }

    /// Appends the lane of the part of the trace right after this one.
    pub(super) fn append(&mut self, later: Lane) {
        let Some((later_first, later_last)) = later.ends else {
            let gap = self.gap();
            *gap = gap.join(later.head);
            return;
        };
        self.lay_over(&later);
        match self.ends {
            None => {
                self.head = self.head.join(later.head);
                self.ends = Some((later_first, later_last));
            }
            Some((first, last)) => {
                self.close(last, self.tail.join(later.head), later_first);
                self.ends = Some((first, later_last));
            }
        }
        self.tail = later.tail;
    }

    /// Adds another lane's time to this one's, regardless of the gap between them.
    pub(super) fn lay_over(&mut self, other: &Lane) {
        if let Some((first, last)) = other.axis.ends() {
            self.cover(first, last);
            let remap = other.axis.remap_to(self.axis);
            add_remapped(&mut self.busy, &other.busy, remap);
        }
        self.ticks.add(other.ticks);
    }

    pub(super) fn axis(&self) -> Axis {
        self.axis
    }

    pub(super) fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// Busy ticks of each interval of `axis`, which must cover this lane's own axis.
    pub(super) fn busy_on(&self, axis: Axis) -> Vec<u64> {
        let mut busy = vec![0; axis.len()];
        if self.axis.ends().is_some() {
            add_remapped(&mut busy, &self.busy, self.axis.remap_to(axis));
        }
        busy
    }

    /// Distributes the time between two readings. A clock that runs backwards adds nothing.
    fn close(&mut self, from: Reading, gap: Gap, to: Reading) {
        let ticks = to.clock.saturating_sub(from.clock);
        let mut unclear = 0;
        let busy = match (self.of, gap.may_block) {
            (LaneOf::Core, _) => {
                let records = to.record.saturating_sub(from.record).max(1);
                let idles = gap.idles.min(records);
                let busy = u128::from(ticks) * u128::from(records - idles) / u128::from(records);
                busy as u64 // At most `ticks`.
            }
            (LaneOf::Thread, None) => ticks,
            (LaneOf::Thread, Some(call)) if call.saturating_sub(from.record) <= FRAME_RECORDS => 0,
            (LaneOf::Thread, Some(_)) => {
                unclear = ticks;
                ticks
            }
        };
        self.ticks.add(Ticks { busy, idle: ticks - busy, unclear });
        if busy > 0 {
            self.add_busy(from.clock, from.clock + busy - 1);
        }
    }

    /// Adds the ticks `first..=last`, which must be covered, to their intervals.
    fn add_busy(&mut self, first: u64, last: u64) {
        self.busy.resize(self.axis.len().max(self.busy.len()), 0);
        let (from, to) = (self.axis.index(first), self.axis.index(last));
        for interval in from..=to {
            let start = self.axis.start() + interval as u64 * self.axis.width();
            let end = start + (self.axis.width() - 1);
            let part = last.min(end) - first.max(start) + 1;
            self.busy[interval] = self.busy[interval].saturating_add(part);
        }
    }

    fn cover(&mut self, first: u64, last: u64) {
        if let Some(remap) = self.axis.cover(first, last) {
            let old = std::mem::take(&mut self.busy);
            add_remapped(&mut self.busy, &old, remap);
        }
    }
}

/// Adds the intervals of another axis.
fn add_remapped(busy: &mut Vec<u64>, other: &[u64], remap: Remap) {
    for (interval, ticks) in other.iter().enumerate().filter(|(_, ticks)| **ticks > 0) {
        let interval = remap.index(interval);
        if busy.len() <= interval {
            busy.resize(interval + 1, 0);
        }
        busy[interval] = busy[interval].saturating_add(*ticks);
    }
}
