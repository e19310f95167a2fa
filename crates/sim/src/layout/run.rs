//! The second read: simulates the accesses in the current and in other layouts, each on a machine of its own.

use super::levels::Levels;
use super::live::{Change, Live};
use super::moved::{Moved, New};
use super::report::{LayoutReport, Row};
use super::tool::Plan;
use crate::machine::{Machine, Rows, Watch};
use crate::place::Placement;
use quipu_model::lens::{AccessKind, ThreadEvent};
use quipu_model::{Batch, Error, ErrorKind, Pass, Report, Result, Shard};
use std::ops::Range;
use std::sync::Arc;

/// A layout and its machine.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) machine: Machine,
    /// `None` for the current layout.
    pub(super) moved: Option<Moved>,
    /// Live regions of the type, by id.
    news: Vec<New>,
    /// Misses by member, then by level; the last entry is for bytes of no member.
    pub(super) misses: Vec<u64>,
}

/// The pass.
#[derive(Clone, Debug)]
pub(super) struct LayoutPass {
    plan: Arc<Plan>,
    live: Live,
    placement: Placement,
    sides: Vec<Side>,
    /// Reads and writes by member; the last entry is for bytes of no member.
    accesses: Vec<[u64; 2]>,
    /// Data accesses outside of the type.
    n_others: u64,
    pieces: Vec<(u64, u32)>,
    is_used: bool,
}

impl LayoutPass {
    /// Starts with empty caches and with the program's variables.
    ///
    /// # Errors
    /// `Usage` if the description of the machine is inconsistent.
    pub(super) fn new(plan: Arc<Plan>) -> Result<LayoutPass> {
        let n_counters = plan.members.units.len() + 1;
        let watch = Watch { log: true, all: true, ..Watch::default() };
        let side = |moved: Option<Moved>| -> Result<Side> {
            Ok(Side {
                machine: Machine::new(&plan.machine, watch)?,
                moved,
                news: Vec::new(),
                misses: vec![0; n_counters * plan.levels.len()],
            })
        };
        let mut sides = vec![side(None)?];
        for arrangement in &plan.layouts {
            sides.push(side(Some(Moved::new(arrangement.clone(), plan.fresh)))?);
        }
        let neighbours = sides[0].machine.neighbours();
        let mut pass = LayoutPass {
            live: plan.live.clone(),
            placement: Placement::new(plan.placing, plan.machine.cores).with_neighbours(neighbours),
            sides,
            accesses: vec![[0; 2]; n_counters],
            n_others: 0,
            pieces: Vec::new(),
            is_used: false,
            plan,
        };
        for id in pass.live.add_variables(pass.plan.base, &pass.plan.members) {
            pass.change(Change::Added(id));
        }
        Ok(pass)
    }

    fn change(&mut self, change: Change) {
        let members = &self.plan.members;
        for side in &mut self.sides {
            let Some(moved) = &mut side.moved else { continue };
            match change {
                Change::Added(id) => {
                    let new = moved.add(self.live.old(id), members);
                    let at = id as usize; // Below the limit of regions.
                    if side.news.len() <= at {
                        side.news.resize(at + 1, New::default());
                    }
                    side.news[at] = new;
                }
                Change::Removed(id) => moved.remove(std::mem::take(&mut side.news[id as usize])),
            }
        }
    }

    /// Simulates rows that do not touch the type, identically in all layouts.
    fn run_others(&mut self, batch: &Batch, rows: Range<usize>, core: usize) {
        if rows.is_empty() {
            return;
        }
        let accesses = &batch.accesses;
        let rows = Rows {
            kind: &accesses.kind[rows.clone()],
            addr: &accesses.addr[rows.clone()],
            size: &accesses.size[rows.clone()],
            pc: accesses.pc.get(rows).unwrap_or(&[]),
            is_demand_only: false,
        };
        for side in &mut self.sides {
            side.machine.run(core, rows);
            side.machine.take_misses();
        }
    }

    /// Simulates an access to the type.
    fn run_one(&mut self, batch: &Batch, row: usize, id: u32, core: usize) {
        let accesses = &batch.accesses;
        let (kind, addr, size) = (accesses.kind[row], accesses.addr[row], accesses.size[row]);
        let pc = accesses.pc.get(row).copied().unwrap_or(0);
        let (plan, old) = (&self.plan, self.live.old(id));
        let (_, within) = old.element(addr);
        let counter = match plan.members.at(within) {
            Some((unit, true)) => unit,
            _ => plan.members.units.len(),
        };
        match kind {
            AccessKind::Read => self.accesses[counter][0] += 1,
            AccessKind::Write => self.accesses[counter][1] += 1,
            _ => {}
        }
        let n_levels = plan.levels.len();
        for side in &mut self.sides {
            let machine = &mut side.machine;
            match &mut side.moved {
                None => machine.access(core, kind, addr, size, pc),
                Some(moved) => {
                    let new = &side.news[id as usize];
                    moved.pieces((&old, new), addr, size, &plan.members, &mut self.pieces);
                    for (addr, size) in &self.pieces {
                        machine.access(core, kind, *addr, *size, pc);
                    }
                }
            }
            for miss in machine.take_misses() {
                if let Some(level) = plan.levels.level(miss.cache).filter(|_| !miss.purpose.is_prefetch()) {
                    side.misses[counter * n_levels + level] += 1;
                }
            }
        }
    }

    fn run(&mut self, batch: &Batch, core: usize) {
        let accesses = &batch.accesses;
        let (mut next, mut pending) = (0, 0);
        for row in 0..=batch.regions.len() {
            let until = batch.regions.at.get(row).copied().unwrap_or(u32::MAX);
            while accesses.at.get(next).is_some_and(|at| *at < until) {
                let is_fetch = matches!(accesses.kind[next], AccessKind::Fetch | AccessKind::PrefetchInstr);
                if let Some(id) = (!is_fetch).then(|| self.live.at(accesses.addr[next])).flatten() {
                    self.run_others(batch, pending..next, core);
                    self.run_one(batch, next, id, core);
                    pending = next + 1;
                } else {
                    self.n_others +=
                        u64::from(matches!(accesses.kind[next], AccessKind::Read | AccessKind::Write));
                }
                next += 1;
            }
            if row < batch.regions.len() {
                let plan = Arc::clone(&self.plan);
                if let Some(change) = self.live.event(batch, row, &plan.members) {
                    self.change(change);
                }
            }
        }
        self.run_others(batch, pending..next, core);
    }
}

impl Pass for LayoutPass {
    fn fork(&self, _: &Shard) -> LayoutPass {
        self.clone()
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.is_used |= batch.span.records > 0;
        // Changes of regions count even if no thread runs.
        let core = self.placement.core_of(batch)?.unwrap_or(0);
        self.run(batch, core);
        if batch.threads.what.contains(&ThreadEvent::Stop) {
            self.placement.stopped(batch);
        }
        Ok(())
    }

    fn merge(&mut self, later: LayoutPass) -> Result<()> {
        if self.is_used && later.is_used {
            return Err(Error::new(ErrorKind::Internal, "caches cannot be put together from parts"));
        }
        if later.is_used {
            *self = later;
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let Levels { names, .. } = &self.plan.levels;
        let rows = self.sides.iter().map(|side| Row::of(side, &self.plan)).collect();
        let report = LayoutReport::new(&self.plan, names.clone(), rows, &self.accesses, self.n_others);
        Ok(Box::new(report))
    }
}
