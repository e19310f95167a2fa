//! Simulates cores side by side: one record of each core in every step, as a scheduler arranges them.
//!
//! Batches of one round have the same number of records; at the end of a trace, those of earlier cores may have one more.
//! The effects of cores on each other's caches depend on the order, so records are simulated one by one, by step and, within
//! a step, in the order of the batches.

use super::modes::Mode;
use super::{Simulation, Turn};
use crate::lane::in_step;
use crate::place::processors;
use quipu_model::lens::ThreadEvent;
use quipu_model::{Batch, Error, Result};

impl Simulation {
    /// Simulates one batch of each core, side by side.
    ///
    /// # Errors
    /// Those of [`take`](Simulation::take).
    pub fn take_in_step(&mut self, batches: &[Batch]) -> Result<()> {
        if !self.resets.is_empty() {
            return Err(Error::unsupported("statistics that begin anew do not go with cores side by side")
                .hint("leave out the points where they begin anew, or the scheduler"));
        }
        if self.extent.is_over() {
            return Ok(());
        }
        let does_something = |batch: &&Batch| {
            let counts = || !self.extent.is_all() && batch.threads.what.contains(&ThreadEvent::Stop);
            !batch.accesses.is_empty() || !batch.instrs.is_empty() || counts()
        };
        if batches.iter().filter(does_something).count() < 2 {
            return batches.iter().try_for_each(|batch| self.take(batch));
        }
        let mut turns = std::mem::take(&mut self.turns);
        let result = self.take_turns(batches, &mut turns);
        self.turns = turns;
        result
    }

    fn take_turns(&mut self, batches: &[Batch], turns: &mut Vec<Turn>) -> Result<()> {
        let mut busy: Vec<&Batch> = Vec::with_capacity(batches.len());
        // Must not happen between two turns of a round: a number given to the first could be reused for another process.
        self.make_room(batches.len());
        for batch in batches.iter().filter(|batch| batch.span.records > 0) {
            self.follow(batch);
            let mode = Mode::begin(batch, self.in_kernel.follow(batch));
            let core = self.placement.core_of(batch)?;
            for (_, processor) in processors(batch) {
                self.placement.runs_on(batch, processor);
            }
            let Some(core) = core.filter(|_| !self.is_rest(batch)) else { continue };
            if turns.len() == busy.len() {
                turns.push(Turn::default());
            }
            let turn = &mut turns[busy.len()];
            turn.mode = mode;
            // The step of a region change is unknown, but formats with regions have one shard.
            self.pass_regions(batch);
            turn.lane.begin(batch, !self.extent.is_all(), &mut self.physical);
            self.met += turn.lane.n_refs();
            self.assign(batch, core, turn)?;
            self.note_hits(turn);
            busy.push(batch);
        }
        let turns = &mut turns[..busy.len()];
        if self.machine.shares_firsts() {
            // Several cores share first caches, so each core's counts are taken after each of its records.
            in_step(&busy, turns, |batch, turn, at| self.run_part(batch, at..at + 1, turn))?;
        } else {
            in_step(&busy, turns, |batch, turn, at| self.run(batch, at..at + 1, turn))?;
            turns.iter().for_each(|turn| self.add_hits(turn));
        }
        busy.iter().for_each(|batch| self.placement.stopped(batch));
        Ok(())
    }
}
