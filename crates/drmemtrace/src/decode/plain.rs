//! The fast path for the bulk of a trace: instructions and data of one thread, classified without branches.
//!
//! [`Interp::run`] checks each entry against everything that could be pending or change. Nearly all entries need none of
//! that, so a run of them is first sorted by kind, and then a sink fills column by column.

use super::{Interp, Limits};
use crate::record::{Entry, Marker, Type, access_kind};
use quipu_model::lens::{AccessKind, Accesses};

/// Maximum number of entries in one run, so that entries and places together stay in the level-1 cache.
const LENGTH: usize = 512;
const MASK: usize = LENGTH - 1;

/// Classes of entries on the fast path, as bits.
mod class {
    /// A load, a store or a prefetch.
    pub(super) const DATA: u8 = 1;
    /// An instruction with its fetch.
    pub(super) const FETCHED: u8 = 2;
    /// A further iteration of a string loop.
    pub(super) const NO_FETCH: u8 = 4;
    /// A marker: the fast path continues if it only gives a branch's target.
    pub(super) const MARKER: u8 = 8;
    /// Uses the branch target that was given before.
    pub(super) const INDIRECT: u8 = 16;
    /// Needs the slow path.
    pub(super) const LONG: u8 = 32;
}

/// Class and kind of access by type; the last element stands for all unknown types.
///
/// PERF: from a table of 64 the compiler would make a chain of bit tests.
const CLASSES: [(u8, AccessKind); 128] = {
    let mut classes = [(0, AccessKind::Fetch); 128];
    let mut kind = 0;
    while kind < classes.len() {
        let of = Type(kind as u16); // Below 128.
        classes[kind].0 = match of.0 {
            0..=9 | 27 | 32..=46 => class::DATA,
            29 => class::NO_FETCH,
            28 => class::MARKER,
            _ if of.is_instr() => class::FETCHED,
            _ => class::LONG,
        };
        if of.is_indirect_branch() {
            classes[kind].0 |= class::INDIRECT;
        }
        if !of.is_any_instr() {
            classes[kind].1 = access_kind(of);
        }
        kind += 1;
    }
    classes
};

/// Position of an instruction in the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Index of its entry in the run.
    pub entry: u16,
    /// Index of its record in the run.
    pub record: u16,
}

/// A run of plain entries, sorted by kind. It is kept between runs for its memory only.
#[derive(Debug)]
pub struct Stretch {
    ats: [u32; LENGTH],
    addrs: [u64; LENGTH],
    sizes: [u32; LENGTH],
    kinds: [AccessKind; LENGTH],
    pcs: [u64; LENGTH],
    n_accesses: usize,
    instrs: [Place; LENGTH],
    n_instrs: usize,
    targets: [u64; LENGTH],
    n_entries: usize,
    n_records: usize,
    n_fetched: usize,
    target: u64,
    last: Option<u16>,
}

impl Default for Stretch {
    fn default() -> Stretch {
        Stretch {
            ats: [0; LENGTH],
            addrs: [0; LENGTH],
            sizes: [0; LENGTH],
            kinds: [AccessKind::Fetch; LENGTH],
            pcs: [0; LENGTH],
            n_accesses: 0,
            instrs: [Place::default(); LENGTH],
            n_instrs: 0,
            targets: [0; LENGTH],
            n_entries: 0,
            n_records: 0,
            n_fetched: 0,
            target: 0,
            last: None,
        }
    }
}

impl Stretch {
    /// Sorts the entries at the front of `entries` that are plain and within `limits`, and returns their number; 0 if the
    /// state of `cx` does not allow the fast path for the next record.
    ///
    /// With `FETCHES`, fetched instructions are among the accesses; without `INSTRS`, no places of instructions are kept.
    pub fn sort<const FETCHES: bool, const INSTRS: bool>(
        &mut self,
        cx: &Interp,
        entries: &[Entry],
        limits: &Limits,
    ) -> usize {
        let room = (limits.records.saturating_sub(cx.records))
            .min(limits.batch.saturating_sub(cx.batch_len()))
            .min(limits.instrs.saturating_sub(cx.instrs))
            .min(LENGTH as u64) as usize; // At most `LENGTH`.
        if cx.batch_len() == 0 || cx.tid != cx.batch_tid || cx.pending_len != 0 || !cx.queue.is_empty() {
            return 0;
        }
        let in_accesses = class::DATA | if FETCHES { class::FETCHED } else { 0 };
        let (mut n_accesses, mut n_instrs, mut n_fetched) = (0, 0, 0);
        let (mut pc, mut target, mut last) = (cx.pc, cx.branch_target, None);
        let (mut n_entries, mut n_records) = (0_u16, 0_u16);
        let first = cx.batch_len() as u32; // Batches are far smaller than 2^32 records.
        for entry in &entries[..entries.len().min(room)] {
            let (class, kind) = CLASSES[usize::from(entry.kind().0).min(CLASSES.len() - 1)];
            let (addr, size) = (entry.addr.get(), entry.size.get());
            let is_instr = class & (class::FETCHED | class::NO_FETCH) != 0;
            // Without a length, an instruction only names itself for the data after it.
            if class & (class::LONG | class::MARKER) != 0 || is_instr && size == 0 {
                if class & class::MARKER == 0 || size != Marker::BRANCH_TARGET.0 {
                    break;
                }
                target = addr;
                n_entries += 1;
                continue;
            }
            pc = if is_instr { addr } else { pc };
            last = if is_instr { Some(n_entries) } else { last };
            // The masks change nothing, as no more rows are kept than entries are read, but save a bounds check each.
            let row = n_accesses & MASK;
            self.ats[row] = first + u32::from(n_records);
            self.addrs[row] = addr;
            self.sizes[row] = u32::from(size);
            self.kinds[row] = kind;
            self.pcs[row] = pc;
            n_accesses += usize::from(class & in_accesses != 0);
            let is_indirect = class & class::INDIRECT != 0;
            if INSTRS {
                self.instrs[n_instrs & MASK] = Place { entry: n_entries, record: n_records };
                self.targets[n_instrs & MASK] = if is_indirect { target } else { 0 };
                n_instrs += usize::from(is_instr);
            }
            target = if is_indirect { 0 } else { target };
            n_fetched += usize::from(class & class::FETCHED != 0);
            n_records += 1;
            n_entries += 1;
        }
        (self.n_entries, self.n_records) = (usize::from(n_entries), usize::from(n_records));
        (self.n_accesses, self.n_instrs, self.n_fetched) = (n_accesses, n_instrs, n_fetched);
        (self.target, self.last) = (target, last);
        self.n_entries
    }

    /// Appends the accesses to `rows`, with their instructions if `pcs`.
    pub fn give_accesses(&self, rows: &mut Accesses, pcs: bool) {
        rows.at.extend_from_slice(&self.ats[..self.n_accesses]);
        rows.addr.extend_from_slice(&self.addrs[..self.n_accesses]);
        rows.size.extend_from_slice(&self.sizes[..self.n_accesses]);
        rows.kind.extend_from_slice(&self.kinds[..self.n_accesses]);
        if pcs {
            rows.pc.extend_from_slice(&self.pcs[..self.n_accesses]);
        }
    }

    /// Positions of the instructions, in order, including further iterations of string loops.
    pub fn instrs(&self) -> &[Place] {
        &self.instrs[..self.n_instrs]
    }

    /// Target of each instruction, if it is an indirect branch with a recorded target, else 0.
    pub fn targets(&self) -> &[u64] {
        &self.targets[..self.n_instrs]
    }
}

impl Interp {
    /// Counts the run that was sorted last; its first entry is the first of `entries`.
    pub fn took(&mut self, stretch: &Stretch, entries: &[Entry]) {
        self.records += stretch.n_records as u64;
        self.instrs += stretch.n_fetched as u64;
        self.branch_target = stretch.target;
        if let Some(entry) = stretch.last.and_then(|last| entries.get(usize::from(last))) {
            self.pc = entry.addr.get();
            self.executed(self.pc, entry.size.get());
        }
    }
}
