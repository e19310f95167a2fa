//! A first read of the trace: how often members are accessed, which are used together, and which addresses are free.

use super::live::{Change, Live};
use super::units::Members;
use hashbrown::HashMap;
use quipu_model::lens::AccessKind;
use quipu_model::{Batch, Columns, Error, Result, Scan, ThreadId, Trace};
use rustc_hash::FxBuildHasher;

/// Number of recent accesses to the type per thread; members of one element that occur in this window are used together.
pub(super) const WINDOW: usize = 32;
/// The address space is divided into this many stretches of 2^40 bytes.
const STRETCHES: u64 = 1 << 7;
const STRETCH_SHIFT: u32 = 40;

/// Results of the first read.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// Accesses to each member.
    pub(super) heat: Vec<u64>,
    /// How often two members of one element were used together: indexed by the first, then by the second.
    affinity: Vec<u64>,
    /// Regions with several elements, and with one.
    pub(super) arrays: u64,
    pub(super) singles: u64,
    used: u128,
}

/// The last accesses of a thread.
#[derive(Clone, Debug)]
struct Recent {
    last: [(u32, u64, usize); WINDOW],
    next: usize,
}

impl Default for Recent {
    fn default() -> Recent {
        Recent { last: [(u32::MAX, 0, usize::MAX); WINDOW], next: 0 }
    }
}

impl Survey {
    /// Reads the whole trace; `live` must have no regions yet.
    ///
    /// # Errors
    /// Errors of reading, and `Unsupported` for a trace that can be read only once.
    pub(super) fn of(trace: &dyn Trace, live: &Live, base: u64, members: &Members) -> Result<Survey> {
        let n = members.units.len();
        let mut survey = Survey { heat: vec![0; n], affinity: vec![0; n * n], ..Survey::default() };
        let columns = (Columns::ACCESSES | Columns::REGIONS).and(trace.columns());
        for shard in trace.shards() {
            let mut live = live.clone();
            for id in live.add_variables(base, members) {
                survey.region(&live, id);
            }
            let mut recent: HashMap<ThreadId, Recent, FxBuildHasher> = HashMap::default();
            let scan = Scan { ahead: true, ..Scan::new(shard.id).columns(columns) };
            let mut reader = trace.scan(&scan).map_err(|error| {
                error.hint("this analysis reads a trace twice: write a pipe to a file first")
            })?;
            while let Some(batch) = reader.read()? {
                let recent = recent.entry(batch.span.thread).or_default();
                survey.take(batch, &mut live, recent, members);
            }
        }
        Ok(survey)
    }

    fn region(&mut self, live: &Live, id: u32) {
        if live.old(id).n > 1 {
            self.arrays += 1;
        } else {
            self.singles += 1;
        }
    }

    fn take(&mut self, batch: &Batch, live: &mut Live, recent: &mut Recent, members: &Members) {
        let (accesses, regions) = (&batch.accesses, &batch.regions);
        let mut next = 0;
        for row in 0..=regions.len() {
            let until = regions.at.get(row).copied().unwrap_or(u32::MAX);
            while let (Some(at), Some(addr)) = (accesses.at.get(next), accesses.addr.get(next))
                && *at < until
            {
                self.used |= 1 << stretch(*addr);
                let is_data = matches!(accesses.kind.get(next), Some(AccessKind::Read | AccessKind::Write));
                if is_data && let Some(id) = live.at(*addr) {
                    self.access(live, recent, id, *addr, members);
                }
                next += 1;
            }
            if row < regions.len() {
                self.used |= 1 << stretch(regions.addr[row]);
                if let Some(Change::Added(id)) = live.event(batch, row, members) {
                    self.region(live, id);
                }
            }
        }
    }

    fn access(&mut self, live: &Live, recent: &mut Recent, id: u32, addr: u64, members: &Members) {
        let (element, within) = live.old(id).element(addr);
        let Some((unit, true)) = members.at(within) else { return };
        self.heat[unit] += 1;
        let n = members.units.len();
        let mut is_known = false;
        for (other_id, other_element, other) in &recent.last {
            if (*other_id, *other_element) == (id, element) {
                is_known |= *other == unit;
                if *other != unit {
                    self.affinity[unit * n + other] += 1;
                }
            }
        }
        if !is_known {
            recent.last[recent.next] = (id, element, unit);
            recent.next = (recent.next + 1) % WINDOW;
        }
    }

    /// How often two members of one element were used together, in either order.
    pub(super) fn together(&self, one: usize, other: usize) -> u64 {
        let n = self.heat.len();
        let of = |one: usize, other: usize| self.affinity.get(one * n + other).copied().unwrap_or(0);
        of(one, other) + of(other, one)
    }

    /// Accesses to all members.
    pub(super) fn accesses(&self) -> u64 {
        self.heat.iter().sum()
    }

    /// First address of a stretch without accesses.
    ///
    /// # Errors
    /// `Unsupported` if there is none.
    pub(super) fn fresh(&self) -> Result<u64> {
        let free = (1..STRETCHES - 1).find(|of| self.used & (1 << of) == 0);
        free.map(|of| of << STRETCH_SHIFT).ok_or_else(|| {
            Error::unsupported("the trace uses addresses all over, and leaves no room for what grows")
        })
    }
}

/// Stretch that contains an address; addresses beyond user space share the last.
fn stretch(addr: u64) -> u64 {
    (addr >> STRETCH_SHIFT).min(STRETCHES - 1)
}
