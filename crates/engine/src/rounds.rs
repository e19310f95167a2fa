//! A part of a read of cores side by side, given by records: of each core, or of all cores in turn.
//!
//! Idle records do not count, and neither do records that a skip of instructions repeats. An idle core has no records before
//! the part's first one and after its last, so its idle time there is left out.

use crate::run::WindowOf;
use crate::window::is_repeated;
use quipu_model::trace::{Dispatched, Rounds};
use quipu_model::{Batch, Result, Span};
use std::ops::Range;

/// Rounds restricted to a part.
pub(crate) struct PartOfRounds<'r> {
    rounds: Box<dyn Rounds + 'r>,
    wanted: Range<u64>,
    of: WindowOf,
    /// Number of records that count, by core.
    counted: Vec<u64>,
}

impl<'r> PartOfRounds<'r> {
    pub(crate) fn new(
        rounds: Box<dyn Rounds + 'r>,
        wanted: Range<u64>,
        of: WindowOf,
        n_cores: usize,
    ) -> PartOfRounds<'r> {
        PartOfRounds { rounds, wanted, of, counted: vec![0; n_cores] }
    }

    fn total(&self) -> u64 {
        self.counted.iter().sum()
    }

    fn is_over(&self) -> bool {
        match self.of {
            WindowOf::Sequence => self.total() >= self.wanted.end,
            WindowOf::EachShard => self.counted.iter().all(|counted| *counted >= self.wanted.end),
        }
    }

    /// Makes the next round end before a record crosses a border of the part. A core that is idle has no records, however
    /// long it is idle.
    fn limit_next(&mut self) {
        let left = |counted: u64| {
            // Idle records are delivered from one record after the first.
            let borders = [self.wanted.start, self.wanted.start.saturating_add(1), self.wanted.end];
            borders.into_iter().find(|border| counted < *border).map_or(u64::MAX, |border| border - counted)
        };
        match self.of {
            WindowOf::Sequence => {
                // In the step that reaches the border, some cores are before it and some after it, so this step becomes a
                // round of its own.
                let in_all = left(self.total()) - 1;
                self.rounds.limit_records(&[], in_all);
            }
            WindowOf::EachShard => {
                let of_each: Vec<u64> = self.counted.iter().map(|counted| left(*counted)).collect();
                self.rounds.limit_records(&of_each, u64::MAX);
            }
        }
    }
}

impl Rounds for PartOfRounds<'_> {
    fn read(&mut self) -> Result<Option<&mut [Batch]>> {
        if self.is_over() {
            return Ok(None);
        }
        self.limit_next();
        let mut total = self.total();
        let Some(batches) = self.rounds.read()? else { return Ok(None) };
        for batch in &mut *batches {
            let Some(counted) = self.counted.get_mut(batch.span.shard as usize) else { continue };
            let before = match self.of {
                WindowOf::Sequence => total,
                WindowOf::EachShard => *counted,
            };
            let rests = batch.span.thread.is_idle();
            let n = if rests {
                0
            } else {
                u64::from(batch.span.records).saturating_sub(is_repeated(batch).into())
            };
            *counted += n;
            total += n;
            let has_begun = before >= self.wanted.start
                && (!rests || self.wanted.start == 0 || before > self.wanted.start);
            if !has_begun || before >= self.wanted.end {
                empty(batch);
            }
        }
        Ok(Some(batches))
    }

    fn limit_records(&mut self, _of_each: &[u64], _in_all: u64) {}

    fn dispatched(&self) -> Vec<Dispatched> {
        self.rounds.dispatched()
    }

    fn packed_bytes(&self) -> u64 {
        self.rounds.packed_bytes()
    }
}

/// Removes everything from a batch except its position, its instruction table and its findings.
fn empty(batch: &mut Batch) {
    let findings = std::mem::take(&mut batch.findings);
    batch.clear();
    batch.block.clear();
    batch.raw = 0..0;
    batch.findings = findings;
    batch.span = Span { records: 0, instrs: 0, ..batch.span };
}
