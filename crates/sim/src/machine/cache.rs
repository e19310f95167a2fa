//! One cache of a machine: its lines, what hangs on it, and what it writes down.
//!
//! How requests go from one to another stands in the module above.

use super::stream::joins;
use super::{Counts, Miss, Purpose, Watch};
use crate::prefetch::Prefetcher;
use crate::seen::{Seen, Shadow};
use crate::sets::Store;
use crate::spec::{Inclusion, Layout, MachineSpec, Policy, Prefetch, Role};
use std::ops::RangeInclusive;

/// Why a line was taken away from a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// An inclusive parent has lost it.
    Inclusion,
    /// Another core writes it.
    Coherence,
    /// It went down to a child.
    Exclusion,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) store: Store,
    pub(super) ledger: Ledger,
    /// For each [`Purpose`], whether a hit needs nothing but to be counted.
    pub(super) quick: u8,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// Position among the caches that the snoop filter watches.
    pub(super) snoop_id: Option<usize>,
    pub(super) is_coherent: bool,
    pub(super) is_inclusive: bool,
    /// Exclusive, with children: holds only what they have lost.
    pub(super) is_victims: bool,
    pub(super) prefetcher: Prefetcher,
    /// Whether accesses to the line used last may be counted without looking, whatever the prefetcher has done.
    pub(super) joins: bool,
    /// Bits in which lines of different sets differ, if nothing that happens in one set matters to another, and a further use
    /// of the line that a set has used last changes nothing; else none.
    pub(super) set_mask: u64,
    /// Lines that went down to a child from here; kept for policies that mind.
    pub(super) served: Option<Seen>,
    pub(super) capacity: u64,
}

/// What a cache writes down.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// The cache, by position.
    pub(super) cache: u32,
    pub(super) hits: [u64; 2],
    pub(super) misses: [u64; 2],
    pub(super) rest: Counts,
    /// Whether misses go into the log.
    pub(super) logs: bool,
    pub(super) seen: Seen,
    pub(super) shadow: Option<Shadow>,
    /// Places that were empty and got a line.
    pub(super) loaded: u64,
}

impl Ledger {
    /// Looks at what a cache without sets would do; `None` if that is not wanted.
    #[inline]
    pub(super) fn shade(&mut self, line: u64) -> Option<bool> {
        self.shadow.as_mut().map(|shadow| shadow.touch(line))
    }

    pub(super) fn miss(
        &mut self,
        line: u64,
        shadow_hit: Option<bool>,
        request: Request,
        log: &mut Vec<Miss>,
    ) {
        self.misses[request.purpose.class()] += 1;
        let is_first = self.seen.add(line);
        self.rest.compulsory += u64::from(is_first);
        if let Some(shadow_hit) = shadow_hit
            && !request.purpose.is_prefetch()
        {
            let cause = if is_first { 0 } else { 1 + usize::from(shadow_hit) };
            self.rest.causes[cause] += 1;
        }
        if self.logs {
            self.log(request, log);
        }
    }

    /// Writes a miss down.
    #[inline]
    pub(super) fn log(&self, request: Request, log: &mut Vec<Miss>) {
        let Request { addr, size, pc, purpose, row } = request;
        log.push(Miss { cache: self.cache, purpose, addr, size, pc, row });
    }
}

/// A request on its way up.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) addr: u64,
    pub(super) pc: u64,
    pub(super) size: u32,
    pub(super) purpose: Purpose,
    /// The access, by its row in the chunk.
    pub(super) row: u32,
}

impl Request {
    /// What of the request is left from the beginning of a further line on.
    pub(super) fn rest_at(self, addr: u64) -> Request {
        let before = u32::try_from(addr.wrapping_sub(self.addr)).unwrap_or(u32::MAX);
        Request { addr, size: self.size.saturating_sub(before), ..self }
    }
}

/// Where the lots of a cache begin: by the core and side whose cache it is, so that it draws the same whatever else there is.
fn seed(spec: &MachineSpec, at: usize) -> u64 {
    let of = &spec.caches[at];
    let place = match (of.core, of.role) {
        (Some(core), Role::Data) => 2 * core + 1,
        (Some(core), _) => 2 * core,
        (None, _) => 2 * spec.cores + spec.caches[..at].iter().filter(|cache| cache.core.is_none()).count(),
    };
    spec.seed ^ place as u64
}

impl Cache {
    pub(super) fn new(spec: &MachineSpec, layout: &Layout, at: usize, watch: Watch) -> Cache {
        let of = &spec.caches[at];
        let (sets, children) = (layout.sets[at], layout.children[at].clone());
        let capacity = sets * of.ways;
        let is_victims = of.inclusion == Inclusion::Exclusive && !children.is_empty();
        let is_coherent = layout.coherent[at];
        // A prefetch goes to another set, and some policies count uses; so does a cache without sets, for causes.
        let is_indifferent =
            of.prefetch == Prefetch::None && !matches!(of.policy, Policy::Lfu | Policy::Rrip(_));
        let mut quick = 0b11111;
        if is_victims || watch.causes {
            quick = 0;
        }
        if is_coherent {
            quick &= !(1 << Purpose::Write as u8);
        }
        Cache {
            // `layout` has checked that both fit.
            store: Store::new(of.policy, sets as usize, of.ways as usize, seed(spec, at)),
            ledger: Ledger {
                cache: at as u32, // There are few caches.
                hits: [0; 2],
                misses: [0; 2],
                rest: Counts::default(),
                logs: watch.log && (watch.all || of.core.is_some() || layout.parent[at].is_none()),
                seen: Seen::default(),
                shadow: watch.causes.then(|| Shadow::new(capacity as usize)),
                loaded: 0,
            },
            quick,
            parent: layout.parent[at],
            snoop_id: layout.snooped.iter().position(|cache| *cache == at),
            is_coherent,
            is_inclusive: of.inclusion == Inclusion::Inclusive,
            is_victims,
            prefetcher: Prefetcher::new(of.prefetch),
            joins: joins(of, sets),
            set_mask: if is_indifferent && !watch.causes { sets - 1 } else { 0 },
            served: (is_victims && matches!(of.policy, Policy::Rrip(_))).then(Seen::default),
            capacity,
            children,
        }
    }

    /// Takes these lines out, as a flush does.
    pub(super) fn remove_all(&mut self, lines: RangeInclusive<u64>) {
        if lines.end() - lines.start() < self.capacity {
            return lines.for_each(|line| _ = self.store.remove(line));
        }
        // More lines than the cache has: look at what it holds instead.
        for line in self.store.lines().into_iter().filter(|line| lines.contains(line)) {
            self.store.remove(line);
        }
    }

    /// Forgets every line that was ever here. Counts stay.
    pub(super) fn empty(&mut self) {
        for line in self.store.lines() {
            self.store.remove(line);
        }
        self.ledger.seen = Seen::default();
        self.ledger.shadow = self.ledger.shadow.is_some().then(|| Shadow::new(self.capacity as usize));
        self.served = self.served.is_some().then(Seen::default);
    }

    /// What this cache has counted, without what its children found.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            hits: self.ledger.hits[0],
            misses: self.ledger.misses[0],
            prefetch_hits: self.ledger.hits[1],
            prefetch_misses: self.ledger.misses[1],
            ..self.ledger.rest
        }
    }

    pub(super) fn reset_counts(&mut self) {
        self.ledger.hits = [0; 2];
        self.ledger.misses = [0; 2];
        self.ledger.rest = Counts::default();
    }

    pub(super) fn take_away(&mut self, line: u64, why: Taken) {
        if self.store.remove(line) {
            match why {
                Taken::Inclusion => self.ledger.rest.parent_invalidations += 1,
                Taken::Coherence => self.ledger.rest.write_invalidations += 1,
                Taken::Exclusion => self.ledger.rest.exclusive_invalidations += 1,
            }
        }
    }
}
