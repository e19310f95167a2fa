//! A machine at work: accesses go in, counts come out. SPEC: drmemtrace.md#simulators.
//!
//! One [`Machine`] runs caches or TLBs alike: a TLB is a cache whose lines are pages, with the address space in their upper
//! bits. There is no clock and no bandwidth; an access is done before the next begins.
//!
//! There are two ways in. [`Machine::access`] takes one access and leads each of its lines up the parents, as far as it has to
//! go; this is what everything means. [`Machine::run`] takes many at once and does the same; where no cache takes lines
//! away from another, `stream` runs them through one cache after the other.

use crate::prefetch::MAX_WANTED;
use crate::snoop::{CoherenceStats, Filter};
use crate::spec::{Layout, MachineSpec};
use quipu_model::Result;
use quipu_model::lens::AccessKind;

mod cache;
pub(crate) mod feed;
mod stream;

#[cfg(test)]
mod tests;

use cache::{Cache, Ledger, Request, Taken};
pub use stream::Rows;
use stream::Streams;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// An instruction is fetched.
    Fetch,
    /// Data is read.
    Read,
    /// Data is written.
    Write,
    /// The program prefetches.
    Prefetch,
    /// A cache prefetches.
    OwnPrefetch,
}

impl Purpose {
    /// Prefetches are counted apart.
    const fn class(self) -> usize {
        self.is_prefetch() as usize
    }

    /// True for prefetches of both sorts.
    pub const fn is_prefetch(self) -> bool {
        matches!(self, Purpose::Prefetch | Purpose::OwnPrefetch)
    }
}

/// What one cache has counted since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses found.
    pub hits: u64,
    /// Accesses not found.
    pub misses: u64,
    /// Prefetches found.
    pub prefetch_hits: u64,
    /// Prefetches not found.
    pub prefetch_misses: u64,
    /// Misses, also of prefetches, of lines that never missed here before (not since the last reset, but ever).
    pub compulsory: u64,
    /// Lines taken away because an inclusive parent lost them.
    pub parent_invalidations: u64,
    /// Lines taken away by another core's write.
    pub write_invalidations: u64,
    /// Lines taken away because they went down to a child.
    pub exclusive_invalidations: u64,
    /// Flushes that came by.
    pub flushes: u64,
    /// Found in a cache nearer to a core.
    pub child_hits: u64,
    /// Misses by cause, if asked for: of lines never met before; that a cache of one set would have, too; that it would not.
    pub causes: [u64; 3],
}

impl Counts {
    /// All invalidations.
    pub fn invalidations(&self) -> u64 {
        self.parent_invalidations + self.write_invalidations + self.exclusive_invalidations
    }
}

/// One miss, as the log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The cache, by position in [`MachineSpec::caches`].
    pub cache: u32,
    /// What for.
    pub purpose: Purpose,
    /// First byte wanted in the line.
    pub addr: u64,
    /// Bytes wanted from there on, those of further lines included; 0 for what a cache wants itself.
    pub size: u32,
    /// The instruction that wanted it; 0 if unknown.
    pub pc: u64,
    /// The access, by its row among those of the last [`Machine::run`].
    pub row: u32,
}

/// What to keep besides counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Whether misses are divided by cause, which costs a second cache for each.
    pub causes: bool,
    /// Whether misses of first and last caches are logged, for [`Machine::take_misses`].
    pub log: bool,
    /// Whether those of caches between are logged as well.
    pub all: bool,
}

/// A machine at work.
#[derive(Clone, Debug)]
pub struct Machine {
    caches: Vec<Cache>,
    first: Vec<[usize; 2]>,
    shift: u32,
    /// Of line numbers that count; the rest is the address space.
    line_mask: u64,
    filter: Option<Filter>,
    snooped: Vec<usize>,
    lose: Vec<usize>,
    misses: Vec<Miss>,
    /// Upper bits of every line: the address space.
    space: u64,
    /// Accesses taken in many at once; `None` where what one cache loses matters to another.
    streams: Option<Streams>,
}

impl Machine {
    /// An empty machine.
    ///
    /// # Errors
    /// `Usage` if the description does not hold together.
    pub fn new(spec: &MachineSpec, watch: Watch) -> Result<Machine> {
        let layout = spec.layout()?;
        let caches: Vec<Cache> =
            (0..spec.caches.len()).map(|i| Cache::new(spec, &layout, i, watch)).collect();
        let streams = Streams::new(spec, &layout);
        let Layout { shift, first, snooped, .. } = layout;
        Ok(Machine {
            caches,
            first,
            shift,
            line_mask: u64::MAX >> shift,
            filter: (!snooped.is_empty()).then(|| Filter::new(snooped.len())),
            snooped,
            lose: Vec::new(),
            misses: Vec::new(),
            space: 0,
            streams,
        })
    }

    /// How many cores there are.
    pub fn n_cores(&self) -> usize {
        self.first.len()
    }

    /// log2 of the bytes in a line.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The first instruction and data cache of a core.
    pub fn first_caches(&self, core: usize) -> [usize; 2] {
        self.first[core]
    }

    /// Accesses from here on are of this address space, whose number must fit the bits that line numbers leave free:
    /// [`Machine::shift`] of them, all ones excluded.
    pub fn set_space(&mut self, space: u64) {
        self.space = space << (64 - self.shift);
    }

    /// Runs one access of a core, flushes included.
    #[inline]
    pub fn access(&mut self, core: usize, kind: AccessKind, addr: u64, size: u32, pc: u64) {
        let [instr, data] = self.first[core];
        match kind {
            AccessKind::Fetch => self.request(instr, addr, size, Purpose::Fetch, pc),
            AccessKind::Read => self.request(data, addr, size, Purpose::Read, pc),
            AccessKind::Write => self.request(data, addr, size, Purpose::Write, pc),
            AccessKind::Prefetch => self.request(data, addr, size, Purpose::Prefetch, pc),
            AccessKind::PrefetchInstr => self.request(instr, addr, size, Purpose::Prefetch, pc),
            AccessKind::FlushData => self.flush(data, addr, size),
            AccessKind::FlushInstr => self.flush(instr, addr, size),
        }
    }

    /// Asks a cache for `size` bytes from `addr` on: line by line, as far as they go.
    #[inline]
    pub fn request(&mut self, cache: usize, addr: u64, size: u32, purpose: Purpose, pc: u64) {
        let first = addr >> self.shift;
        let last = addr.wrapping_add(u64::from(size)).wrapping_sub(1) >> self.shift;
        if first == last {
            let cache = &mut self.caches[cache];
            if cache.quick & (1 << purpose as u8) != 0 && cache.store.touch(first | self.space) {
                cache.ledger.hits[purpose.class()] += 1;
                return;
            }
        }
        self.request_lines(cache, first, last, Request { addr, pc, size, purpose, row: 0 });
    }

    fn request_lines(&mut self, cache: usize, first: u64, last: u64, mut request: Request) {
        // No byte at the start of a line is nothing; nor is there anything after the end of all addresses.
        if last < first || (request.size == 0 && first != last) {
            return;
        }
        for line in first..=last {
            self.request_line(cache, line | self.space, request);
            request = request.rest_at((line + 1) << self.shift);
        }
    }

    fn request_line(&mut self, at: usize, line: u64, request: Request) {
        let cache = &mut self.caches[at];
        let is_write = request.purpose == Purpose::Write;
        if cache.is_victims {
            return self.request_from_victims(at, line, request);
        }
        let shadow_hit = cache.ledger.shade(line);
        if cache.store.touch(line) {
            cache.ledger.hits[request.purpose.class()] += 1;
            if is_write && cache.is_coherent {
                self.write_up(at, line);
            }
            return;
        }
        let slot = cache.store.choose(line);
        let (parent, snoop_id) = (cache.parent, cache.snoop_id);
        cache.ledger.miss(line, shadow_hit, request, &mut self.misses);
        if let Some(parent) = parent {
            self.request_line(parent, line, request);
        }
        if let Some(id) = snoop_id {
            self.snoop(id, line, is_write);
        }
        match self.caches[at].store.fill(line, slot, false) {
            Some(victim) => self.lost(at, victim),
            None => self.caches[at].ledger.loaded += 1,
        }
        if !request.purpose.is_prefetch() && !self.caches[at].prefetcher.is_none() {
            self.prefetch(at, line, request);
        }
    }

    /// An exclusive cache hands its copy down, or lets the request pass.
    fn request_from_victims(&mut self, at: usize, line: u64, request: Request) {
        let is_write = request.purpose == Purpose::Write;
        let cache = &mut self.caches[at];
        let shadow_hit = cache.ledger.shade(line);
        if cache.store.contains(line) {
            cache.ledger.hits[request.purpose.class()] += 1;
            if is_write && cache.is_coherent {
                self.write_up(at, line);
            }
            self.caches[at].take_away(line, Taken::Exclusion);
            if let Some(served) = &mut self.caches[at].served {
                served.add(line);
            }
            return;
        }
        let (parent, snoop_id) = (cache.parent, cache.snoop_id);
        cache.ledger.miss(line, shadow_hit, request, &mut self.misses);
        if let Some(parent) = parent {
            self.request_line(parent, line, request);
        }
        if let Some(id) = snoop_id {
            self.snoop(id, line, is_write);
        }
    }

    fn prefetch(&mut self, at: usize, line: u64, request: Request) {
        let mut wanted = [0; MAX_WANTED];
        let n = self.caches[at].prefetcher.missed(line, request.pc, &mut wanted);
        for wanted in &wanted[..n] {
            let wanted = (wanted & self.line_mask) | self.space;
            let addr = wanted << self.shift;
            let own = Request { addr, size: 0, purpose: Purpose::OwnPrefetch, ..request };
            self.request_line(at, wanted, own);
        }
    }

    /// A write to a line that a coherent cache holds: others lose theirs.
    fn write_up(&mut self, mut at: usize, line: u64) {
        loop {
            if let Some(id) = self.caches[at].snoop_id {
                return self.snoop(id, line, true);
            }
            let Some(parent) = self.caches[at].parent else { return };
            for i in 0..self.caches[parent].children.len() {
                let child = self.caches[parent].children[i];
                if child != at {
                    self.invalidate(child, line, Taken::Coherence);
                }
            }
            at = parent;
        }
    }

    fn snoop(&mut self, id: usize, line: u64, is_write: bool) {
        let Some(filter) = &mut self.filter else { return };
        let mut lose = std::mem::take(&mut self.lose);
        filter.access(line, id, is_write, &mut lose);
        for id in lose.drain(..) {
            self.invalidate(self.snooped[id], line, Taken::Coherence);
        }
        self.lose = lose;
    }

    /// Takes a line away from a cache and all below it.
    fn invalidate(&mut self, at: usize, line: u64, why: Taken) {
        self.caches[at].take_away(line, why);
        for i in 0..self.caches[at].children.len() {
            self.invalidate(self.caches[at].children[i], line, why);
        }
    }

    /// A cache has lost a line to a new one.
    fn lost(&mut self, at: usize, victim: u64) {
        if self.caches[at].is_inclusive {
            for i in 0..self.caches[at].children.len() {
                self.invalidate(self.caches[at].children[i], victim, Taken::Inclusion);
            }
        }
        let cache = &self.caches[at];
        let exclusive_parent = cache.parent.filter(|parent| self.caches[*parent].is_victims);
        if !cache.is_coherent && exclusive_parent.is_none() {
            return;
        }
        if cache.children.iter().any(|child| self.holds(*child, victim)) {
            return;
        }
        match (cache.snoop_id, &mut self.filter) {
            (Some(id), Some(filter)) => {
                filter.evict(victim, id);
                if let Some(parent) = exclusive_parent {
                    self.take_victim(parent, victim, at);
                }
            }
            _ => {
                if let Some(parent) = cache.parent {
                    self.take_victim(parent, victim, at);
                }
            }
        }
    }

    /// A cache hears that its child `from` has lost a line. SPEC: drmemtrace.md#simulators.
    fn take_victim(&mut self, at: usize, line: u64, from: usize) {
        let cache = &self.caches[at];
        if cache.store.contains(line)
            || cache.children.iter().any(|child| *child != from && self.holds(*child, line))
        {
            return;
        }
        if cache.is_victims {
            let cache = &mut self.caches[at];
            let reused = cache.served.as_mut().is_some_and(|served| served.remove(line));
            cache.ledger.shade(line);
            let slot = cache.store.choose(line);
            match cache.store.fill(line, slot, reused) {
                Some(victim) => self.lost(at, victim),
                None => cache.ledger.loaded += 1,
            }
            return;
        }
        match (cache.snoop_id, &mut self.filter) {
            (Some(id), Some(filter)) => filter.evict(line, id),
            _ => {
                if let Some(parent) = cache.parent {
                    self.take_victim(parent, line, at);
                }
            }
        }
    }

    /// True if a cache or one below it holds the line.
    fn holds(&self, at: usize, line: u64) -> bool {
        let cache = &self.caches[at];
        cache.store.contains(line) || cache.children.iter().any(|child| self.holds(*child, line))
    }

    /// Flushes `size` bytes from `addr` on out of a cache and all its parents.
    pub fn flush(&mut self, cache: usize, addr: u64, size: u32) {
        let first = addr >> self.shift;
        let last = addr.wrapping_add(u64::from(size)).wrapping_sub(1) >> self.shift;
        let is_nothing = last < first || (size == 0 && first != last);
        let mut next = Some(cache);
        while let Some(at) = next {
            let cache = &mut self.caches[at];
            cache.ledger.rest.flushes += 1;
            if !is_nothing {
                cache.remove_all((first | self.space)..=(last | self.space));
            }
            next = cache.parent;
        }
    }

    /// Empties all caches, which forget what they ever met. Nothing is counted.
    pub fn empty(&mut self) {
        self.caches.iter_mut().for_each(Cache::empty);
        if let Some(filter) = &mut self.filter {
            let stats = filter.stats;
            *filter = Filter::new(self.snooped.len());
            filter.stats = stats;
        }
    }

    /// What a cache has counted since the last reset.
    pub fn counts(&self, cache: usize) -> Counts {
        let of = &self.caches[cache];
        let child_hits = of.children.iter().map(|child| {
            let below = self.counts(*child);
            below.hits + below.prefetch_hits + below.child_hits
        });
        Counts { child_hits: child_hits.sum(), ..of.counts() }
    }

    /// Demand hits and misses of a cache, cheap enough for each batch.
    pub fn hits_and_misses(&self, cache: usize) -> (u64, u64) {
        (self.caches[cache].ledger.hits[0], self.caches[cache].ledger.misses[0])
    }

    /// True if a cache takes part in coherence.
    pub fn is_coherent(&self, cache: usize) -> bool {
        self.caches[cache].is_coherent
    }

    /// What coherence cost; `None` without coherence.
    pub fn coherence(&self) -> Option<CoherenceStats> {
        self.filter.as_ref().map(|filter| filter.stats)
    }

    /// Sets all counts to zero; lines stay.
    pub fn reset_counts(&mut self) {
        self.caches.iter_mut().for_each(Cache::reset_counts);
        if let Some(filter) = &mut self.filter {
            filter.stats = CoherenceStats::default();
        }
        self.misses.clear();
    }

    /// True if every last cache has filled this share of its places (places filled again count each time that they were
    /// empty).
    pub fn is_filled(&self, share: f64) -> bool {
        let last = self.caches.iter().filter(|cache| cache.parent.is_none());
        last.into_iter().all(|cache| cache.ledger.loaded as f64 >= share * cache.capacity as f64)
    }

    /// The share of the places that are filled, in the last cache that has the smallest one.
    pub fn filled(&self) -> f64 {
        let last = self.caches.iter().filter(|cache| cache.parent.is_none());
        let share = |cache: &Cache| cache.ledger.loaded as f64 / cache.capacity.max(1) as f64;
        last.map(share).fold(1.0, f64::min)
    }

    /// The misses logged since the last call, in order.
    pub fn take_misses(&mut self) -> std::vec::Drain<'_, Miss> {
        self.misses.drain(..)
    }

    /// The lines that a cache holds, in no order.
    pub fn lines(&self, cache: usize) -> Vec<u64> {
        self.caches[cache].store.lines()
    }

    /// The caches that the filter believes to hold a line; for tests of invariants.
    #[cfg(test)]
    pub(crate) fn sharers(&self, line: u64) -> Vec<usize> {
        let ids = self.filter.as_ref().map_or(Vec::new(), |filter| filter.sharers(line));
        ids.into_iter().map(|id| self.snooped[id]).collect()
    }
}
