//! A machine in operation: takes accesses, counts hits and misses. SPEC: drmemtrace.md#simulators.
//!
//! One [`Machine`] simulates caches or TLBs alike: a TLB is a cache whose lines are pages, with the address space in their
//! upper bits. There is no clock and no bandwidth; an access completes before the next begins.
//!
//! There are two entry points. [`Machine::access`] takes one access and sends each of its lines up the parents as far as
//! needed; it defines the behaviour. [`Machine::run`] takes many accesses at once with the same result. If no cache can take
//! lines away from another, it uses `stream`, which sends the accesses through one cache after the other.

use crate::prefetch::MAX_WANTED;
use crate::snoop::{CoherenceStats, Filter};
use crate::spec::{Layout, MachineSpec};
use quipu_model::Result;
use quipu_model::lens::AccessKind;

mod cache;
mod evictions;
pub(crate) mod feed;
mod pages;
mod stream;

#[cfg(test)]
mod tests;

use cache::{Cache, Ledger, Request, Taken};
use evictions::Log;
pub use evictions::{Eviction, Left};
use pages::Sizes;
pub use stream::Rows;
use stream::Streams;

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// An instruction fetch.
    Fetch,
    /// A data read.
    Read,
    /// A data write.
    Write,
    /// A prefetch by the program.
    Prefetch,
    /// A prefetch by a cache.
    OwnPrefetch,
}

impl Purpose {
    /// Index into counts: prefetches are counted separately.
    const fn class(self) -> usize {
        self.is_prefetch() as usize
    }

    /// Whether this is a prefetch, by the program or by a cache.
    pub const fn is_prefetch(self) -> bool {
        matches!(self, Purpose::Prefetch | Purpose::OwnPrefetch)
    }
}

/// Counts of one cache since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Accesses that hit.
    pub hits: u64,
    /// Accesses that missed.
    pub misses: u64,
    /// Prefetches that hit.
    pub prefetch_hits: u64,
    /// Prefetches that missed.
    pub prefetch_misses: u64,
    /// Misses, including those of prefetches, of lines that never missed in this cache before. The history is kept across
    /// resets.
    pub compulsory: u64,
    /// Lines invalidated because an inclusive parent evicted them.
    pub parent_invalidations: u64,
    /// Lines invalidated by a write of another core.
    pub write_invalidations: u64,
    /// Lines that an exclusive cache handed down to a child.
    pub exclusive_invalidations: u64,
    /// Flushes that reached the cache.
    pub flushes: u64,
    /// Accesses and prefetches that hit in a cache nearer to a core.
    pub child_hits: u64,
    /// Misses by cause, if requested: compulsory, capacity (a fully associative cache would miss too), conflict (it would
    /// hit).
    pub causes: [u64; 3],
}

impl Counts {
    /// All invalidations.
    pub fn invalidations(&self) -> u64 {
        self.parent_invalidations + self.write_invalidations + self.exclusive_invalidations
    }
}

/// One miss in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// The cache, as an index into [`MachineSpec::caches`].
    pub cache: u32,
    /// Purpose of the request.
    pub purpose: Purpose,
    /// First byte requested from the line.
    pub addr: u64,
    /// Bytes requested from there on, including those in further lines; 0 for requests by a cache itself.
    pub size: u32,
    /// Address of the instruction; 0 if unknown.
    pub pc: u64,
    /// Row of the access among those of the last [`Machine::run`].
    pub row: u32,
}

/// Statistics to collect in addition to counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Whether to classify misses by cause, which costs a second cache for each cache.
    pub causes: bool,
    /// Whether to log misses of first and last caches, for [`Machine::take_misses`].
    pub log: bool,
    /// Whether to log those of the caches between, too.
    pub all: bool,
    /// Whether to log lines that leave caches, for [`Machine::take_evictions`]. Accesses are simulated one by one then.
    pub evictions: bool,
}

/// A machine in operation.
#[derive(Clone, Debug)]
pub struct Machine {
    caches: Vec<Cache>,
    /// See [`Layout::first`].
    first: Vec<[usize; 2]>,
    /// All first caches of each core, each once.
    firsts: Vec<Vec<usize>>,
    /// Whether two cores have one of them in common.
    shares_firsts: bool,
    shift: u32,
    /// Mask of the address bits in a line number; the rest is the address space.
    line_mask: u64,
    filter: Option<Filter>,
    snooped: Vec<usize>,
    lose: Vec<usize>,
    misses: Vec<Miss>,
    /// Lines that left caches, if they are logged.
    evictions: Option<Box<Log>>,
    /// The current address space, in the upper bits of every line number.
    space: u64,
    /// The sizes of pages, for TLBs with several.
    sizes: Option<Box<Sizes>>,
    /// State of [`Machine::run`] for many accesses at once; `None` if evictions of one cache affect another.
    streams: Option<Streams>,
}

impl Machine {
    /// Creates a machine with empty caches.
    ///
    /// # Errors
    /// `Usage` if the description is inconsistent.
    pub fn new(spec: &MachineSpec, watch: Watch) -> Result<Machine> {
        let layout = spec.layout()?;
        let caches: Vec<Cache> =
            (0..spec.caches.len()).map(|i| Cache::new(spec, &layout, i, watch)).collect();
        let streams = if watch.evictions { None } else { Streams::new(spec, &layout) };
        let evictions =
            watch.evictions.then(|| Box::new(Log::new(caches.iter().map(|cache| cache.capacity))));
        let Layout { shift, first, snooped, .. } = layout;
        let firsts = (0..spec.cores).map(|core| {
            let mut own: Vec<usize> =
                first.iter().skip(core).step_by(spec.cores).flatten().copied().collect();
            own.sort_unstable();
            own.dedup();
            own
        });
        Ok(Machine {
            caches,
            firsts: firsts.collect(),
            first,
            shares_firsts: spec.caches.iter().any(|cache| cache.core.is_some() && cache.n_cores > 1),
            shift,
            line_mask: u64::MAX >> shift,
            filter: (!snooped.is_empty()).then(|| Filter::new(snooped.len())),
            snooped,
            lose: Vec::new(),
            misses: Vec::new(),
            evictions,
            space: 0,
            sizes: Sizes::new(spec),
            streams,
        })
    }

    /// Number of cores.
    pub fn n_cores(&self) -> usize {
        self.firsts.len()
    }

    /// Whether cores share first caches.
    pub(crate) fn shares_firsts(&self) -> bool {
        self.shares_firsts
    }

    /// For each core, the first core that has the same first data cache; empty if none share one.
    pub(crate) fn neighbours(&self) -> Vec<usize> {
        let mut owner = vec![None; self.caches.len()];
        let owners = self.first.iter().take(self.n_cores()).enumerate();
        let cores: Vec<usize> = owners.map(|(core, [_, data])| *owner[*data].get_or_insert(core)).collect();
        let is_own = cores.iter().enumerate().all(|(core, owner)| core == *owner);
        if is_own { Vec::new() } else { cores }
    }

    /// Demand hits and misses of a core's first caches; cheap enough to call for each batch.
    pub(crate) fn first_hits_and_misses(&self, core: usize) -> (u64, u64) {
        let counts = self.firsts[core].iter().map(|cache| self.hits_and_misses(*cache));
        counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// log2 of the line size in bytes.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// The first instruction cache and the first data cache of a core.
    pub fn first_caches(&self, core: usize) -> [usize; 2] {
        self.first[core]
    }

    /// Sets the address space of all further accesses. Its number must be below [`Machine::n_spaces`].
    pub fn set_space(&mut self, space: u64) {
        self.space = space << (64 - self.shift + self.size_bits());
    }

    /// Number of address spaces that fit into the bits that line numbers leave free, at most 2^32. All ones is excluded, so
    /// that no page has the number of an empty place.
    pub fn n_spaces(&self) -> u64 {
        (1 << (self.shift - self.size_bits()).min(32)) - 1
    }

    /// Bits of a line number that hold the number of its page's size.
    fn size_bits(&self) -> u32 {
        self.sizes.as_ref().map_or(0, |sizes| sizes.bits())
    }

    /// Simulates one access of a core; flushes are included.
    #[inline]
    pub fn access(&mut self, core: usize, kind: AccessKind, addr: u64, size: u32, pc: u64) {
        if self.sizes.is_some() {
            return self.access_pages(core, kind, addr, size, pc);
        }
        let [instr, data] = self.first[core];
        match kind {
            AccessKind::Fetch => self.request(instr, addr, size, Purpose::Fetch, pc),
            AccessKind::Read => self.request(data, addr, size, Purpose::Read, pc),
            AccessKind::Write => self.request(data, addr, size, Purpose::Write, pc),
            AccessKind::Prefetch => self.request(data, addr, size, Purpose::Prefetch, pc),
            AccessKind::PrefetchInstr => self.request(instr, addr, size, Purpose::Prefetch, pc),
            AccessKind::FlushData | AccessKind::FlushInstr => {
                self.caused_by(pc);
                self.flush(if kind == AccessKind::FlushData { data } else { instr }, addr, size);
            }
        }
    }

    /// Requests `size` bytes from `addr` on from a cache, line by line.
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
        // An empty access at the start of a line touches nothing, and nothing lies after the last address.
        if last < first || (request.size == 0 && first != last) {
            return;
        }
        self.caused_by(request.pc);
        for line in first..=last {
            self.request_line(cache, line | self.space, request);
            request = request.rest_at((line + 1) << self.shift);
        }
    }

    fn request_line(&mut self, at: usize, line: u64, request: Request) {
        if let Some(sizes) = &self.sizes
            && !sizes.holds(at, line, self.shift)
        {
            if let Some(parent) = self.caches[at].parent {
                self.request_line(parent, line, request);
            }
            return;
        }
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
            if is_write {
                self.note_dirty(at, line, is_write);
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
        self.note_dirty(at, line, is_write);
        if !request.purpose.is_prefetch() && !self.caches[at].prefetcher.is_none() {
            self.prefetch(at, line, request);
        }
    }

    /// An exclusive cache hands its copy down, or passes the request on.
    fn request_from_victims(&mut self, at: usize, line: u64, request: Request) {
        let is_write = request.purpose == Purpose::Write;
        let cache = &mut self.caches[at];
        let shadow_hit = cache.ledger.shade(line);
        if cache.store.contains(line) {
            cache.ledger.hits[request.purpose.class()] += 1;
            if is_write && cache.is_coherent {
                self.write_up(at, line);
            }
            self.take_away(at, line, Taken::Exclusion);
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

    /// Propagates a write to a line that a coherent cache holds: other caches lose their copies.
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

    /// Invalidates a line in a cache and in all caches below it.
    fn invalidate(&mut self, at: usize, line: u64, why: Taken) {
        self.take_away(at, line, why);
        for i in 0..self.caches[at].children.len() {
            self.invalidate(self.caches[at].children[i], line, why);
        }
    }

    /// Invalidates a line in a cache alone.
    fn take_away(&mut self, at: usize, line: u64, why: Taken) {
        if self.caches[at].take_away(line, why) && self.note_left(at, line, why.into()) {
            self.write_back(at, line);
        }
    }

    /// Handles the eviction of a line from a cache.
    fn lost(&mut self, at: usize, victim: u64) {
        let is_written_back = self.note_left(at, victim, Left::Replaced);
        self.let_go(at, victim);
        if is_written_back {
            self.write_back(at, victim);
        }
    }

    /// Tells other caches of the eviction of a line.
    fn let_go(&mut self, at: usize, victim: u64) {
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

    /// Notifies a cache that its child `from` has evicted a line. SPEC: drmemtrace.md#simulators.
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

    /// Whether a cache, or one below it, holds the line.
    fn holds(&self, at: usize, line: u64) -> bool {
        let cache = &self.caches[at];
        cache.store.contains(line) || cache.children.iter().any(|child| self.holds(*child, line))
    }

    /// Flushes `size` bytes from `addr` on from a cache and all its parents.
    pub fn flush(&mut self, cache: usize, addr: u64, size: u32) {
        let first = addr >> self.shift;
        let last = addr.wrapping_add(u64::from(size)).wrapping_sub(1) >> self.shift;
        let is_nothing = last < first || (size == 0 && first != last);
        let mut next = Some(cache);
        while let Some(at) = next {
            let cache = &mut self.caches[at];
            cache.ledger.rest.flushes += 1;
            next = cache.parent;
            let (first, last) = (first | self.space, last | self.space);
            if !is_nothing && self.evictions.is_some() {
                self.flush_logged(at, first, last);
            } else if !is_nothing {
                cache.remove_all(first..=last);
            }
        }
    }

    /// Empties all caches and forgets the lines referenced before. Counts stay unchanged.
    pub fn empty(&mut self) {
        self.caches.iter_mut().for_each(Cache::empty);
        if let Some(log) = &mut self.evictions {
            log.empty();
        }
        if let Some(filter) = &mut self.filter {
            let stats = filter.stats;
            *filter = Filter::new(self.snooped.len());
            filter.stats = stats;
        }
    }

    /// Counts of a cache since the last reset.
    pub fn counts(&self, cache: usize) -> Counts {
        let of = &self.caches[cache];
        let child_hits = of.children.iter().map(|child| {
            let below = self.counts(*child);
            below.hits + below.prefetch_hits + below.child_hits
        });
        Counts { child_hits: child_hits.sum(), ..of.counts() }
    }

    /// Demand hits and misses of a cache; cheap enough to call for each batch.
    pub fn hits_and_misses(&self, cache: usize) -> (u64, u64) {
        (self.caches[cache].ledger.hits[0], self.caches[cache].ledger.misses[0])
    }

    /// Whether a cache takes part in coherence.
    pub fn is_coherent(&self, cache: usize) -> bool {
        self.caches[cache].is_coherent
    }

    /// Cost of coherence; `None` without coherence.
    pub fn coherence(&self) -> Option<CoherenceStats> {
        self.filter.as_ref().map(|filter| filter.stats)
    }

    /// Resets all counts; lines stay.
    pub fn reset_counts(&mut self) {
        self.caches.iter_mut().for_each(Cache::reset_counts);
        if let Some(filter) = &mut self.filter {
            filter.stats = CoherenceStats::default();
        }
        self.misses.clear();
    }

    /// Whether every last-level cache has filled this share of its lines. A line that was invalidated and filled again
    /// counts each time.
    pub fn is_filled(&self, share: f64) -> bool {
        let last = self.caches.iter().filter(|cache| cache.parent.is_none());
        last.into_iter().all(|cache| cache.ledger.loaded as f64 >= share * cache.capacity as f64)
    }

    /// Smallest share of filled lines among the last-level caches.
    pub fn filled(&self) -> f64 {
        let last = self.caches.iter().filter(|cache| cache.parent.is_none());
        let share = |cache: &Cache| cache.ledger.loaded as f64 / cache.capacity.max(1) as f64;
        last.map(share).fold(1.0, f64::min)
    }

    /// Drains the misses logged since the last call, in order.
    pub fn take_misses(&mut self) -> std::vec::Drain<'_, Miss> {
        self.misses.drain(..)
    }

    /// The lines that a cache holds, in no particular order.
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
