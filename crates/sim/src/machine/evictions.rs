//! Lines that leave caches, and the write-backs that follow from them.
//!
//! Caches write back: a write makes the line dirty in the first cache, a dirty line that leaves a cache is written to the
//! nearest parent that holds it, which makes it dirty there, or else to memory. A line that an exclusive cache hands down
//! takes its state with it. Without the log, no cache knows which of its lines are dirty.

use super::Machine;
use super::cache::Taken;
use hashbrown::HashSet;
use rustc_hash::FxBuildHasher;

/// Why a line left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Another line took its place.
    Replaced,
    /// An inclusive parent evicted it.
    Inclusion,
    /// Another core wrote it.
    Coherence,
    /// An exclusive cache handed it down to a child.
    Exclusion,
    /// The program flushed it.
    Flush,
}

impl Left {
    /// The reason in a word.
    pub const fn name(self) -> &'static str {
        match self {
            Left::Replaced => "replaced",
            Left::Inclusion => "inclusive-parent",
            Left::Coherence => "other-core",
            Left::Exclusion => "to-child",
            Left::Flush => "flush",
        }
    }
}

impl From<Taken> for Left {
    fn from(taken: Taken) -> Left {
        match taken {
            Taken::Inclusion => Left::Inclusion,
            Taken::Coherence => Left::Coherence,
            Taken::Exclusion => Left::Exclusion,
        }
    }
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The cache, as an index into [`MachineSpec::caches`](crate::MachineSpec::caches).
    pub cache: u32,
    /// First address of the line.
    pub addr: u64,
    /// Why it left.
    pub left: Left,
    /// Whether it was written back: it was dirty, and did not move to a child.
    pub is_written_back: bool,
    /// Address of the instruction whose access caused it; 0 if unknown.
    pub pc: u64,
}

/// The lines that left caches, and those that are dirty.
#[derive(Clone, Debug)]
pub(super) struct Log {
    list: Vec<Eviction>,
    /// Address of the instruction whose access is simulated.
    pub(super) pc: u64,
    /// The dirty lines of each cache.
    dirty: Vec<HashSet<u64, FxBuildHasher>>,
    /// A dirty line on its way from an exclusive cache to a child.
    handed: Option<u64>,
}

/// Dirty lines of a cache for which room is made at the beginning.
const ROOM: u64 = 1 << 16;

impl Log {
    /// A log for caches of these many lines.
    pub(super) fn new(capacities: impl Iterator<Item = u64>) -> Log {
        // There is room for at most 65536 lines.
        let set = |lines: u64| HashSet::with_capacity_and_hasher(lines.min(ROOM) as usize, FxBuildHasher);
        Log { list: Vec::new(), pc: 0, dirty: capacities.map(set).collect(), handed: None }
    }

    /// Forgets which lines are dirty.
    pub(super) fn empty(&mut self) {
        self.dirty.iter_mut().for_each(HashSet::clear);
        self.handed = None;
    }
}

impl Machine {
    /// Drains the lines that left caches since the last call, in order; none without [`Watch::evictions`].
    ///
    /// [`Watch::evictions`]: crate::Watch::evictions
    pub fn take_evictions(&mut self) -> impl Iterator<Item = Eviction> + '_ {
        self.evictions.iter_mut().flat_map(|log| log.list.drain(..))
    }

    /// Notes whose access is simulated.
    pub(super) fn caused_by(&mut self, pc: u64) {
        if let Some(log) = &mut self.evictions {
            log.pc = pc;
        }
    }

    /// Notes that a line was filled into a cache, or written in it.
    pub(super) fn note_dirty(&mut self, at: usize, line: u64, is_write: bool) {
        let Some(log) = &mut self.evictions else { return };
        let was_handed = log.handed == Some(line);
        if was_handed {
            log.handed = None;
        }
        // Writes are requested from all parents, but only the first cache holds what was written.
        if was_handed || (is_write && self.caches[at].children.is_empty()) {
            log.dirty[at].insert(line);
        }
    }

    /// Logs that a line left a cache. Returns whether it has to be written back, with [`write_back`](Machine::write_back).
    pub(super) fn note_left(&mut self, at: usize, line: u64, left: Left) -> bool {
        let Some(log) = &mut self.evictions else { return false };
        let is_dirty = log.dirty[at].remove(&line);
        let is_written_back = is_dirty && left != Left::Exclusion;
        if is_dirty && !is_written_back {
            log.handed = Some(line);
        }
        let addr = (line & self.line_mask) << self.shift;
        let cache = at as u32; // There are few caches.
        log.list.push(Eviction { cache, addr, left, is_written_back, pc: log.pc });
        is_written_back
    }

    /// Writes a line that left a cache to the nearest parent that holds it, or to memory.
    pub(super) fn write_back(&mut self, from: usize, line: u64) {
        let Some(log) = &mut self.evictions else { return };
        let mut at = self.caches[from].parent;
        while let Some(parent) = at {
            if self.caches[parent].store.contains(line) {
                log.dirty[parent].insert(line);
                return;
            }
            at = self.caches[parent].parent;
        }
    }

    /// Removes lines from a cache, as a flush does, and logs each.
    pub(super) fn flush_logged(&mut self, at: usize, first: u64, last: u64) {
        let mut lines = self.caches[at].store.lines();
        lines.retain(|line| (first..=last).contains(line));
        lines.sort_unstable();
        for line in lines {
            self.caches[at].store.remove(line);
            if self.note_left(at, line, Left::Flush) {
                self.write_back(at, line);
            }
        }
    }
}
