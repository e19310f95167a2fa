//! Cores side by side: one record of each at every step, as a scheduler has it.
//!
//! Batches of one round have the same number of records; those of earlier cores may have one more at the end of a trace.
//! What cores do to each other's caches depends on who comes first, so records are run one by one, in the order of steps and,
//! within a step, of the batches.

use super::{Ref, Simulation, note_refs, processors};
use quipu_model::lens::{AccessKind, ThreadEvent};
use quipu_model::{Batch, Error, Result};

/// One core in a round.
#[derive(Default)]
pub(super) struct Lane {
    core: usize,
    thread: usize,
    /// The address space, for TLBs.
    space: u64,
    /// The next row of its accesses.
    row: usize,
    /// What its records are, where they are counted.
    refs: Vec<Ref>,
    /// Its addresses and instructions, where they are translated.
    addrs: Vec<u64>,
    pcs: Vec<u64>,
    /// Hits and misses of its first caches so far.
    before: [(u64, u64); 2],
}

/// Calls `run` for every record of batches that ran side by side, each with its lane: the first record of each batch, then the
/// second of each, and so on.
pub(crate) fn in_step<L>(
    batches: &[&Batch],
    lanes: &mut [L],
    mut run: impl FnMut(&Batch, &mut L, u32) -> Result<()>,
) -> Result<()> {
    let steps = batches.iter().map(|batch| batch.span.records).max().unwrap_or(0);
    for at in 0..steps {
        for (batch, lane) in batches.iter().zip(&mut *lanes).filter(|(batch, _)| at < batch.span.records) {
            run(batch, lane, at)?;
        }
    }
    Ok(())
}

impl Simulation {
    /// Takes in what cores did side by side.
    ///
    /// # Errors
    /// As for [`take`](Simulation::take).
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
        let mut lanes = std::mem::take(&mut self.lanes);
        let result = self.run_lanes(batches, &mut lanes);
        self.lanes = lanes;
        result
    }

    fn run_lanes(&mut self, batches: &[Batch], lanes: &mut Vec<Lane>) -> Result<()> {
        let mut busy: Vec<&Batch> = Vec::with_capacity(batches.len());
        for batch in batches.iter().filter(|batch| batch.span.records > 0) {
            if let Some(kind) = self.settings.recording.count_kind {
                self.executed.follow(batch, kind);
            }
            let core = self.placement.core_of(batch)?;
            for (_, processor) in processors(batch) {
                self.placement.runs_on(batch, processor);
            }
            let Some(core) = core.filter(|_| !self.is_rest(batch)) else { continue };
            if lanes.len() == busy.len() {
                lanes.push(Lane::default());
            }
            self.begin(batch, core, &mut lanes[busy.len()])?;
            busy.push(batch);
        }
        let lanes = &mut lanes[..busy.len()];
        let epoch = self.epoch;
        // What is counted at the beginning of a round is counted up to its end.
        let counts = !self.extent.is_all();
        in_step(&busy, lanes, |batch, lane, at| self.run_record(batch, lane, at, counts))?;
        // What the warm-up counted is gone with its end.
        let is_same = epoch == self.epoch;
        for (lane, batch) in lanes.iter().zip(&busy) {
            let before = if is_same { lane.before } else { [(0, 0); 2] };
            self.add_hits(lane.core, lane.thread, before);
            if batch.threads.what.contains(&ThreadEvent::Stop) {
                self.placement.stopped(batch);
            }
        }
        Ok(())
    }

    fn begin(&mut self, batch: &Batch, core: usize, lane: &mut Lane) -> Result<()> {
        lane.core = core;
        lane.thread = self.thread(batch);
        if self.settings.top > 0 {
            self.sources.follow(batch, lane.thread);
        }
        // Nobody can tell at which step of a round: formats with regions have one shard.
        self.pass_regions(batch);
        lane.row = 0;
        lane.before = self.machine.first_caches(core).map(|cache| self.machine.hits_and_misses(cache));
        if self.settings.is_tlb {
            lane.space = self.space(batch)?;
        }
        if self.extent.is_all() {
            self.instrs += u64::from(batch.span.instrs);
        } else {
            note_refs(batch, &mut lane.refs);
            self.met += lane.refs.iter().filter(|of| **of != Ref::No).count() as u64;
        }
        if let Some(physical) = &mut self.physical {
            physical.translate(batch);
            let (addrs, pcs) = physical.translated();
            lane.addrs.clear();
            lane.addrs.extend_from_slice(addrs);
            lane.pcs.clear();
            lane.pcs.extend_from_slice(pcs);
        }
        Ok(())
    }

    /// Runs the record at `at` of a core.
    fn run_record(&mut self, batch: &Batch, lane: &mut Lane, at: u32, counts: bool) -> Result<()> {
        let has_access = batch.accesses.at.get(lane.row) == Some(&at);
        if !counts {
            if has_access {
                self.accesses += 1;
                self.run_row(batch, lane)?;
            }
            return Ok(());
        }
        let of = lane.refs.get(at as usize).copied().unwrap_or(Ref::No);
        if of == Ref::No {
            return Ok(());
        }
        let (_, is_simulated) = self.extent.stretch();
        if is_simulated && self.extent.is_warm() {
            self.accesses += u64::from(has_access);
            self.instrs += u64::from(of == Ref::Instr);
        }
        if has_access && is_simulated {
            self.run_row(batch, lane)?;
        } else {
            lane.row += usize::from(has_access);
        }
        if self.extent.advance(1, |share| self.machine.is_filled(share)) {
            self.end_warmup();
        }
        Ok(())
    }

    fn run_row(&mut self, batch: &Batch, lane: &mut Lane) -> Result<()> {
        let (accesses, row) = (&batch.accesses, lane.row);
        lane.row += 1;
        self.tell_accesses(batch, row..row + 1, lane.thread);
        let (kind, size) = (accesses.kind[row], accesses.size[row]);
        let (addrs, pcs) = match self.physical {
            Some(_) => (&lane.addrs[..], &lane.pcs[..]),
            None => (&accesses.addr[..], &accesses.pc[..]),
        };
        let (addr, pc) = (addrs[row], pcs.get(row).copied().unwrap_or(0));
        if self.settings.is_tlb {
            if !matches!(kind, AccessKind::Fetch | AccessKind::Read | AccessKind::Write) {
                return Ok(());
            }
            self.machine.set_space(lane.space);
        }
        self.machine.access(lane.core, kind, addr, size, pc);
        self.take_misses(batch, lane.thread)
    }
}

#[cfg(test)]
mod tests {
    use crate::caches;
    use crate::place::Placing;
    use crate::simulate::{Settings, Simulation};
    use quipu_model::lens::AccessKind;
    use quipu_model::{Args, Batch};
    use quipu_testkit::Rng;

    fn settings(args: &[(&str, &str)]) -> Settings {
        let mut all = Args::default();
        all.set("l1d-size", "1K");
        all.set("ll-size", "4K");
        args.iter().for_each(|(name, value)| all.set(*name, *value));
        Settings { placing: Placing::Shards, ..caches::settings(&all, None).unwrap() }
    }

    /// Some records of one core, most of which are accesses, few of them in the way of other cores'.
    fn batch(rng: &mut Rng, core: u32, records: u32) -> Batch {
        let mut batch = Batch::default();
        batch.span.shard = core;
        batch.span.thread = 10 + u64::from(core);
        batch.span.records = records;
        for at in 0..records {
            if rng.below(5) == 0 {
                continue;
            }
            let kind = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch][rng.below(3) as usize];
            if kind == AccessKind::Fetch {
                batch.instrs.at.push(at);
                batch.instrs.flags.push(0);
                batch.span.instrs += 1;
            }
            batch.accesses.at.push(at);
            batch.accesses.kind.push(kind);
            batch.accesses.addr.push(64 * rng.below(200));
            batch.accesses.size.push(4);
            batch.accesses.pc.push(rng.below(9));
        }
        batch
    }

    /// The record of a batch at `at`, as a batch of its own.
    fn record(batch: &Batch, at: u32) -> Batch {
        let mut one = Batch { span: batch.span, ..Batch::default() };
        (one.span.records, one.span.instrs) = (1, 0);
        for row in (0..batch.accesses.len()).filter(|row| batch.accesses.at[*row] == at) {
            one.accesses.at.push(0);
            one.accesses.kind.push(batch.accesses.kind[row]);
            one.accesses.addr.push(batch.accesses.addr[row]);
            one.accesses.size.push(batch.accesses.size[row]);
            one.accesses.pc.push(batch.accesses.pc[row]);
        }
        if batch.instrs.at.contains(&at) {
            one.instrs.at.push(0);
            one.instrs.flags.push(0);
            one.span.instrs = 1;
        }
        one
    }

    #[test]
    fn cores_side_by_side_are_their_records_one_by_one() {
        let mut rng = Rng::new(11);
        let cases: [&[(&str, &str)]; 4] = [
            &[],
            &[("coherence", "true")],
            &[("skip-refs", "100"), ("warmup-refs", "333"), ("sim-refs", "1000")],
            &[("warmup-fraction", "0.5"), ("prefetcher", "none")],
        ];
        for args in cases {
            let mut together = Simulation::new(settings(args), None).unwrap();
            let mut one_by_one = Simulation::new(settings(args), None).unwrap();
            for _ in 0..20 {
                // At the end of a trace the first cores may have one record more.
                let n = 1 + rng.below(60) as u32;
                let more = rng.below(4) as u32;
                let batches: Vec<Batch> = [1, 2, 3, 0]
                    .into_iter()
                    .enumerate()
                    .map(|(turn, core)| batch(&mut rng, core, n + u32::from((turn as u32) < more)))
                    .collect();
                together.take_in_step(&batches).unwrap();
                for at in 0..=n {
                    for batch in batches.iter().filter(|batch| at < batch.span.records) {
                        one_by_one.take(&record(batch, at)).unwrap();
                    }
                }
            }
            assert_eq!(together.report(), one_by_one.report(), "{args:?}");
        }
    }
}
