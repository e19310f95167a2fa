//! The pending computation and the statistics of a thread.

use super::log::{Access, Computation, Edge, Log};
use super::ranges::{Range, Ranges};
use crate::event::{Sync, sync};
use crate::fault::Result;

/// The computation and communication that have not been written yet.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    pub(super) iops: u64,
    pub(super) flops: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) written: Ranges,
    pub(super) read: Ranges,
    pub(super) is_active: bool,
    pub(super) edges: Vec<Edge>,
}

/// Counts over a part of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of integer operations.
    pub iops: u64,
    /// Number of floating-point operations.
    pub flops: u64,
    /// Number of instructions.
    pub instructions: u64,
    /// Number of loads and stores.
    pub accesses: u64,
    /// Number of loads of bytes that another thread wrote.
    pub communication: u64,
    /// Number of mutex locks.
    pub locks: u64,
}

impl Counts {
    /// Adds the counts of another part.
    pub fn add(&mut self, other: &Counts) {
        self.iops += other.iops;
        self.flops += other.flops;
        self.instructions += other.instructions;
        self.accesses += other.accesses;
        self.communication += other.communication;
        self.locks += other.locks;
    }

    /// The counts since an earlier moment.
    fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            iops: self.iops - earlier.iops,
            flops: self.flops - earlier.flops,
            instructions: self.instructions - earlier.instructions,
            accesses: self.accesses - earlier.accesses,
            communication: self.communication - earlier.communication,
            locks: self.locks - earlier.locks,
        }
    }
}

/// The statistics of a thread.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Counts since the start of the thread.
    pub total: Counts,
    /// Number of loads.
    pub reads: u64,
    /// Number of stores.
    pub writes: u64,
    /// For each barrier passed: the barrier, and the counts since the previous one.
    pub barriers: Vec<(u64, Counts)>,
    /// For each unlock: the mutex, and the counts since its lock.
    pub unlocks: Vec<(u64, Counts)>,
    at_barrier: Counts,
    /// Locked mutexes, with the counts at the time of locking.
    locked: Vec<(u64, Counts)>,
}

impl Statistics {
    #[inline]
    pub(super) fn operations(&mut self, iops: u64, flops: u64) {
        self.total.iops += iops;
        self.total.flops += flops;
    }

    #[inline]
    pub(super) fn instruction(&mut self) {
        self.total.instructions += 1;
    }

    #[inline]
    pub(super) fn write(&mut self) {
        self.writes += 1;
        self.total.accesses += 1;
    }

    /// Counts a load; `has_edge` if another thread wrote its bytes.
    #[inline]
    pub(super) fn read(&mut self, has_edge: bool, has_quirks: bool, is_plain: bool) {
        self.reads += 1;
        self.total.accesses += 1;
        // QUIRK: Prism's back end counts the loads without communication, and none in plain mode.
        self.total.communication += u64::from(if has_quirks { !has_edge && !is_plain } else { has_edge });
    }

    fn sync(&mut self, event: &Sync, has_quirks: bool) {
        match event.kind {
            sync::BARRIER => {
                self.barriers.push((event.data, self.total.since(&self.at_barrier)));
                self.at_barrier = self.total;
            }
            sync::LOCK => {
                self.total.locks += 1;
                // QUIRK: Prism's back end counts from the first lock of any mutex after the last unlock of any.
                if !has_quirks || self.locked.is_empty() {
                    self.locked.push((event.data, self.total));
                }
            }
            sync::UNLOCK => {
                let start = if has_quirks {
                    self.locked.pop()
                } else {
                    let found = self.locked.iter().rposition(|(object, _)| *object == event.data);
                    found.map(|index| self.locked.remove(index))
                };
                let counts = start.map_or_else(Counts::default, |(_, start)| self.total.since(&start));
                self.unlocks.push((event.data, counts));
            }
            _ => {}
        }
    }
}

/// A thread.
pub struct Thread {
    /// The number of the thread in the stream.
    pub number: u64,
    /// The number of its next event.
    pub event: u64,
    /// Its statistics.
    pub counts: Statistics,
    pub(super) pending: Pending,
    pub(super) log: Box<dyn Log + Send>,
}

impl Thread {
    pub(super) fn new(number: u64, log: Box<dyn Log + Send>) -> Thread {
        Thread { number, event: 0, counts: Statistics::default(), pending: Pending::default(), log }
    }

    /// Writes the pending computation.
    pub(super) fn flush_compute(&mut self) -> Result<()> {
        let pending = &mut self.pending;
        if !pending.is_active {
            return Ok(());
        }
        let computation = Computation {
            iops: pending.iops,
            flops: pending.flops,
            reads: pending.reads,
            writes: pending.writes,
            written: &pending.written,
            read: &pending.read,
        };
        self.log.compute(self.event, &computation)?;
        self.event += 1;
        (pending.iops, pending.flops, pending.reads, pending.writes) = (0, 0, 0, 0);
        pending.written.clear();
        pending.read.clear();
        pending.is_active = false;
        Ok(())
    }

    /// Writes the pending communication.
    #[inline]
    pub(super) fn flush_edges(&mut self) -> Result<()> {
        if self.pending.edges.is_empty() {
            return Ok(());
        }
        self.log.communicate(self.event, &self.pending.edges)?;
        self.event += 1;
        self.pending.edges.clear();
        Ok(())
    }

    /// Writes the pending computation if it has at least this many loads or stores.
    pub(super) fn flush_at(&mut self, aggregation: u64) -> Result<()> {
        if self.pending.writes >= aggregation || self.pending.reads >= aggregation {
            return self.flush_compute();
        }
        Ok(())
    }

    /// Writes the pending operations in plain mode.
    pub(super) fn flush_plain(&mut self) -> Result<()> {
        if self.pending.iops + self.pending.flops > 0 { self.plain(Access::None) } else { Ok(()) }
    }

    /// Writes an access in plain mode, with the pending operations.
    pub(super) fn plain(&mut self, access: Access) -> Result<()> {
        self.log.plain(self.event, self.pending.iops, self.pending.flops, access)?;
        self.event += 1;
        (self.pending.iops, self.pending.flops) = (0, 0);
        Ok(())
    }

    /// Writes a load of bytes that another thread wrote, in plain mode.
    pub(super) fn plain_edge(&mut self, writer: u64, event: u32, range: Range) -> Result<()> {
        self.log.plain_edge(self.event, writer, event, range)?;
        self.event += 1;
        Ok(())
    }

    pub(super) fn sync(&mut self, event: &Sync, has_quirks: bool) -> Result<()> {
        self.counts.sync(event, has_quirks);
        self.log.sync(self.event, event)?;
        self.event += 1;
        Ok(())
    }
}
