//! One cache of a machine: its lines, its place in the hierarchy, and its counts.
//!
//! The module above defines how requests pass from one cache to another.

use super::stream::joins;
use super::{Counts, Miss, Purpose, Watch};
use crate::prefetch::Prefetcher;
use crate::seen::{Seen, Shadow};
use crate::sets::Store;
use crate::spec::{Inclusion, Layout, MachineSpec, Policy, Prefetch, Role};
use std::ops::RangeInclusive;

/// Why a line was invalidated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// An inclusive parent evicted it.
    Inclusion,
    /// Another core wrote it.
    Coherence,
    /// It was handed down to a child.
    Exclusion,
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    pub(super) store: Store,
    pub(super) ledger: Ledger,
    /// Bit set of [`Purpose`]s for which a hit only has to be counted.
    pub(super) quick: u8,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// Index among the caches that the snoop filter watches.
    pub(super) snoop_id: Option<usize>,
    pub(super) is_coherent: bool,
    pub(super) is_inclusive: bool,
    /// Whether it is exclusive and has children: a victim cache, filled only with lines that they evict.
    pub(super) is_victims: bool,
    pub(super) prefetcher: Prefetcher,
    /// Whether accesses to the line used last may be counted without a look-up, regardless of prefetches in between.
    pub(super) joins: bool,
    /// Address bits that select the set, if events in one set do not affect other sets, and reusing the line that a set used
    /// last changes nothing; otherwise 0.
    pub(super) set_mask: u64,
    /// Lines that this cache handed down to a child; kept only for policies that use this.
    pub(super) served: Option<Seen>,
    pub(super) capacity: u64,
}

/// The counts of a cache.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    /// Index of the cache.
    pub(super) cache: u32,
    pub(super) hits: [u64; 2],
    pub(super) misses: [u64; 2],
    pub(super) rest: Counts,
    /// Whether misses are logged.
    pub(super) logs: bool,
    pub(super) seen: Seen,
    pub(super) shadow: Option<Shadow>,
    /// Number of times that an empty slot got a line.
    pub(super) loaded: u64,
}

impl Ledger {
    /// Updates the fully associative shadow cache; returns whether it hit, or `None` if there is none.
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

    /// Logs a miss.
    #[inline]
    pub(super) fn log(&self, request: Request, log: &mut Vec<Miss>) {
        let Request { addr, size, pc, purpose, row } = request;
        log.push(Miss { cache: self.cache, purpose, addr, size, pc, row });
    }
}

/// A request on its way to memory.
#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) addr: u64,
    pub(super) pc: u64,
    pub(super) size: u32,
    pub(super) purpose: Purpose,
    /// Row of the access in the chunk.
    pub(super) row: u32,
}

impl Request {
    /// The rest of the request, from the beginning of a further line on.
    pub(super) fn rest_at(self, addr: u64) -> Request {
        let before = u32::try_from(addr.wrapping_sub(self.addr)).unwrap_or(u32::MAX);
        Request { addr, size: self.size.saturating_sub(before), ..self }
    }
}

/// Seed of a cache's random numbers, derived from its core and side, so that they do not depend on the other caches.
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
        // Each use matters if a prefetch can go to another set, if the policy counts uses, or if a shadow cache classifies
        // misses.
        let is_indifferent =
            of.prefetch == Prefetch::None && !matches!(of.policy, Policy::Lfu | Policy::Rrip(_));
        let mut quick = 0b11111;
        if is_victims || watch.causes {
            quick = 0;
        }
        if is_coherent || watch.evictions {
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
            // No bits of the address select one of a number of sets that is no power of two.
            set_mask: if is_indifferent && !watch.causes && sets.is_power_of_two() { sets - 1 } else { 0 },
            served: (is_victims && matches!(of.policy, Policy::Rrip(_))).then(Seen::default),
            capacity,
            children,
        }
    }

    /// Removes these lines, as a flush does.
    pub(super) fn remove_all(&mut self, lines: RangeInclusive<u64>) {
        if lines.end() - lines.start() < self.capacity {
            return lines.for_each(|line| _ = self.store.remove(line));
        }
        // More lines than the cache has: look at what it holds instead.
        for line in self.store.lines().into_iter().filter(|line| lines.contains(line)) {
            self.store.remove(line);
        }
    }

    /// Removes all lines and forgets which were referenced before. Counts stay.
    pub(super) fn empty(&mut self) {
        for line in self.store.lines() {
            self.store.remove(line);
        }
        self.ledger.seen = Seen::default();
        self.ledger.shadow = self.ledger.shadow.is_some().then(|| Shadow::new(self.capacity as usize));
        self.served = self.served.is_some().then(Seen::default);
    }

    /// Counts of this cache, without hits of its children.
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

    /// Invalidates a line; returns whether it was there.
    pub(super) fn take_away(&mut self, line: u64, why: Taken) -> bool {
        let was_there = self.store.remove(line);
        if was_there {
            match why {
                Taken::Inclusion => self.ledger.rest.parent_invalidations += 1,
                Taken::Coherence => self.ledger.rest.write_invalidations += 1,
                Taken::Exclusion => self.ledger.rest.exclusive_invalidations += 1,
            }
        }
        was_there
    }
}
