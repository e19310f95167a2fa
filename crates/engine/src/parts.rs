//! The same analyses repeated for each part of a trace: intervals, cores.
//!
//! The passes of a part are forks like any other, fed with the part's batches only; readers end batches where parts begin. So
//! every analysis can be divided by interval and by core without knowing of either. An analysis with memory (an LRU stack, a
//! footprint) begins each part empty.

use quipu_model::{Batch, Cut, DynPass, Error, Report, Result, Shard, ShardKind, ThreadId};
use std::collections::BTreeMap;
use std::num::NonZeroU64;

/// The division of results, in addition to those of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// By intervals.
    pub intervals: Option<Intervals>,
    /// By core: the shard, if shards are cores; otherwise the processor on which a thread runs according to the trace.
    pub per_core: bool,
}

/// The intervals of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intervals {
    /// Of this many instructions in each shard. An interval begins right before its first instruction.
    Instrs(NonZeroU64),
    /// Of this many ticks of the clock, common to all shards, beginning at multiples of the number.
    Clock(NonZeroU64),
}

impl Division {
    /// True if only results of the whole are wanted.
    pub fn is_none(&self) -> bool {
        *self == Division::default()
    }

    /// Additional places where batches must end.
    pub(crate) fn cut(&self) -> Cut {
        match self.intervals {
            _ if self.is_none() => Cut::SIZE,
            Some(Intervals::Instrs(every)) => {
                Cut { instrs: Some(every), clock: self.per_core, threads: true }
            }
            Some(Intervals::Clock(_)) | None => Cut { clock: true, instrs: None, threads: true },
        }
    }
}

/// The results of one part.
pub struct Part {
    /// The core, if parts are cores; `None` if the trace does not say which.
    pub core: Option<u64>,
    /// The shard, if parts are intervals of instructions.
    pub shard: Option<u32>,
    /// The thread of that shard, if the shard is one thread.
    pub thread: Option<ThreadId>,
    /// The interval, if parts are intervals.
    pub interval: Option<Interval>,
    /// Number of records read of this part.
    pub records: u64,
    /// Number of instructions read of this part.
    pub instrs: u64,
    /// The results, in the order of the planned tools.
    pub reports: Vec<Box<dyn Report>>,
}

/// An interval in the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Number of the interval, counted from 1 at the first interval of the trace or of the shard; empty intervals are counted
    /// but not reported.
    pub number: u64,
    /// Clock reading at which the interval ends; for intervals of instructions, the last reading in it.
    pub end: u64,
}

/// Upper limit on the number of parts: more are a mistake, and would take more memory than machines have.
const MAX_PARTS: usize = 100_000;

/// Identifies a part; ordered as in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    core: Option<u64>,
    shard: Option<u32>,
    interval: u64,
}

/// The passes of one part, and counts of what they were fed.
struct Share {
    passes: Vec<Box<dyn DynPass>>,
    thread: Option<ThreadId>,
    clock: u64,
    records: u64,
    instrs: u64,
}

/// All parts seen so far.
pub(crate) struct Parts {
    division: Division,
    shares: BTreeMap<Slot, Share>,
    /// The current interval of each shard.
    now: BTreeMap<u32, u64>,
}

impl Parts {
    pub(crate) fn new(division: Division) -> Parts {
        Parts { division, shares: BTreeMap::new(), now: BTreeMap::new() }
    }

    /// Feeds a batch to the passes of its part; `fork` creates them for a new part.
    ///
    /// # Errors
    /// An error of a pass; `Limit` for too many parts.
    pub(crate) fn feed(
        &mut self,
        batch: &Batch,
        shard: &Shard,
        fork: impl FnOnce() -> Vec<Box<dyn DynPass>>,
    ) -> Result<()> {
        let slot = self.slot(batch, shard);
        if !self.shares.contains_key(&slot) {
            // What is left out begins no part.
            if batch.span.records == 0 && batch.all_tables().all(|rows| rows.n_rows() == 0) {
                return Ok(());
            }
            self.check_room()?;
        }
        let share = self.shares.entry(slot).or_insert_with(|| Share {
            passes: fork(),
            thread: shard.thread.filter(|_| shard.kind == ShardKind::Thread),
            clock: 0,
            records: 0,
            instrs: 0,
        });
        share.clock = share.clock.max(batch.span.clock);
        share.records += u64::from(batch.span.records);
        share.instrs += u64::from(batch.span.instrs);
        share.passes.iter_mut().try_for_each(|pass| pass.consume(batch))
    }

    /// Checks that one more part is not too many.
    fn check_room(&self) -> Result<()> {
        let limit = MAX_PARTS as u64;
        match self.shares.len() < MAX_PARTS {
            true => Ok(()),
            false => Err(Error::limit("intervals", limit + 1, limit).hint("choose longer intervals")),
        }
    }

    fn slot(&mut self, batch: &Batch, shard: &Shard) -> Slot {
        let span = &batch.span;
        let core = self.division.per_core.then(|| shard.core_number().or(span.cpu));
        let mut slot = Slot { core: core.flatten(), shard: None, interval: 0 };
        match self.division.intervals {
            None => {}
            Some(Intervals::Clock(ticks)) => slot.interval = span.clock / ticks,
            Some(Intervals::Instrs(every)) => {
                // A batch without instructions belongs to the interval before it.
                let begun = span.first_instr / every;
                let now = self.now.entry(span.shard).or_insert(begun);
                if span.instrs > 0 {
                    *now = begun;
                }
                (slot.shard, slot.interval) = (Some(span.shard), *now);
            }
        }
        slot
    }

    /// Merges the parts of what was read right after this.
    pub(crate) fn merge(&mut self, later: Parts) -> Result<()> {
        for (slot, share) in later.shares {
            match self.shares.get_mut(&slot) {
                None => {
                    // The limit also holds for all shards together.
                    self.check_room()?;
                    self.shares.insert(slot, share);
                }
                Some(mine) => {
                    mine.clock = mine.clock.max(share.clock);
                    mine.records += share.records;
                    mine.instrs += share.instrs;
                    let passes = mine.passes.iter_mut().zip(share.passes);
                    passes.into_iter().try_for_each(|(pass, later)| pass.merge(later))?;
                }
            }
        }
        Ok(())
    }

    /// The results, ordered by core, shard and interval.
    pub(crate) fn finish(mut self) -> Result<Vec<Part>> {
        self.settle_before_the_first_reading()?;
        let first = self.shares.keys().map(|slot| slot.interval).min().unwrap_or(0);
        let finish = |(slot, share): (Slot, Share)| {
            let interval = self.division.intervals.map(|intervals| match intervals {
                Intervals::Instrs(_) => Interval { number: slot.interval + 1, end: share.clock },
                Intervals::Clock(ticks) => Interval {
                    number: slot.interval - first + 1,
                    end: (slot.interval + 1).saturating_mul(ticks.get()),
                },
            });
            Ok(Part {
                core: slot.core,
                shard: slot.shard,
                thread: slot.shard.and(share.thread),
                interval,
                records: share.records,
                instrs: share.instrs,
                reports: share.passes.into_iter().map(|pass| pass.finish()).collect::<Result<_>>()?,
            })
        };
        self.shares.into_iter().map(finish).collect()
    }

    /// Moves what comes before any clock reading into the first interval that has a reading.
    fn settle_before_the_first_reading(&mut self) -> Result<()> {
        if !matches!(self.division.intervals, Some(Intervals::Clock(_))) {
            return Ok(());
        }
        let unread: Vec<Slot> =
            self.shares.iter().filter(|(_, share)| share.clock == 0).map(|(slot, _)| *slot).collect();
        for slot in unread {
            let first = self
                .shares
                .keys()
                .filter(|other| other.interval > 0)
                .min_by_key(|other| (other.core != slot.core, other.interval, other.core));
            let Some(first) = first.copied() else { continue };
            let target = Slot { interval: first.interval, ..slot };
            let Some(mut share) = self.shares.remove(&slot) else { continue };
            if let Some(later) = self.shares.remove(&target) {
                share.clock = later.clock;
                share.records += later.records;
                share.instrs += later.instrs;
                let passes = share.passes.iter_mut().zip(later.passes);
                passes.into_iter().try_for_each(|(pass, later)| pass.merge(later))?;
            }
            self.shares.insert(target, share);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_shards_together_have_no_more_parts_than_one_may() {
        let of_shard = |shard: u32, n_parts: usize| {
            let mut parts = Parts::new(Division::default());
            for interval in 0..n_parts as u64 {
                let slot = Slot { core: None, shard: Some(shard), interval };
                let share = Share { passes: Vec::new(), thread: None, clock: 0, records: 0, instrs: 0 };
                parts.shares.insert(slot, share);
            }
            parts
        };
        let mut parts = of_shard(0, MAX_PARTS - 2);
        parts.merge(of_shard(1, 2)).unwrap();
        // A part that exists already does not count again.
        parts.merge(of_shard(1, 2)).unwrap();
        let error = parts.merge(of_shard(2, 1)).unwrap_err();
        assert_eq!(error.kind(), quipu_model::ErrorKind::Limit);
    }
}
