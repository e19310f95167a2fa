//! Requests to the caches of one level, for trying many caches at once.
//!
//! A [`Feed`] turns accesses into requests as a machine does, and collects them in a [`Block`]: requests to first caches
//! directly, those to a last-level cache after simulating the first caches below it. Each cache under test processes the
//! whole block, on any thread. A [`Lone`] is such a cache with any policy and prefetcher; it has one instance per core if
//! cores have their own.

use super::stream::{CHUNK, OWN, PREFETCH, Pass, Rows, SIDE, Sides, Want, sort};
use super::{Cache, Counts, Machine, Watch};
use crate::sets::each;
use crate::spec::{CacheSpec, MachineSpec};
use quipu_model::Result;
use quipu_model::lens::AccessKind;
use std::ops::Range;

/// Approximate number of requests in a block.
const BLOCK: usize = 1 << 16;

/// Kind of requests that a level serves.
#[derive(Clone, Debug)]
pub(crate) enum Front {
    /// Instructions, in a first cache.
    Instr,
    /// Data, in a first cache.
    Data,
    /// Both, in a first cache.
    Both,
    /// Misses and prefetches of first caches, in one cache for all cores.
    Behind(Box<Machine>),
}

/// Turns accesses into requests.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    front: Front,
    shift: u32,
    joins: bool,
    wanted: Box<[Want]>,
    asks: Vec<Want>,
    block: Block,
}

/// Requests and other events, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    wants: Vec<Want>,
    /// For each request: the kind of access, the start of its line, and the instruction.
    kind: Vec<AccessKind>,
    addr: Vec<u64>,
    pc: Vec<u64>,
    events: Vec<Event>,
}

#[derive(Clone, Debug)]
enum Event {
    /// Requests of a core.
    Ask { core: usize, wants: Range<usize> },
    /// A core flushes the lines from `first` to `last`.
    Flush { core: usize, first: u64, last: u64 },
    /// Statistics begin.
    Begin,
}

/// An event for one cache.
pub(crate) enum Step {
    /// The line is used once, and `again` more times immediately after.
    Use { line: u64, is_prefetch: bool, again: u64 },
    /// The lines from `first` to `last` are flushed.
    Flush { first: u64, last: u64 },
    /// Statistics begin.
    Begin,
}

impl Block {
    fn clear(&mut self) {
        self.wants.clear();
        self.kind.clear();
        self.addr.clear();
        self.pc.clear();
        self.events.clear();
    }

    /// Calls `step` with the core for each event, in order.
    pub(crate) fn each(&self, mut step: impl FnMut(usize, Step)) {
        for event in &self.events {
            match event {
                Event::Ask { core, wants } => {
                    for want in &self.wants[wants.clone()] {
                        let (is_prefetch, again) = (want.is_prefetch(), u64::from(want.again));
                        step(*core, Step::Use { line: want.line, is_prefetch, again });
                    }
                }
                Event::Flush { core, first, last } => {
                    step(*core, Step::Flush { first: *first, last: *last });
                }
                Event::Begin => step(0, Step::Begin),
            }
        }
    }

    fn push(&mut self, want: Want, kind: AccessKind, pc: u64, shift: u32) {
        let row = self.wants.len() as u32 | want.row & (OWN | PREFETCH); // A block is short.
        self.wants.push(Want { row, ..want });
        self.kind.push(kind);
        self.addr.push(want.line << shift);
        self.pc.push(pc);
    }
}

impl Feed {
    /// Creates a feed for lines of `line_bytes`. With `joins`, consecutive uses of one line become one request.
    pub(crate) fn new(front: Front, line_bytes: u64, joins: bool) -> Feed {
        Feed {
            front,
            shift: line_bytes.trailing_zeros(),
            joins,
            wanted: vec![Want::NOTHING; 2 * SIDE].into(),
            asks: Vec::new(),
            block: Block::default(),
        }
    }

    /// Takes accesses of a core; calls `full` with the block whenever it is full.
    pub(crate) fn run(&mut self, core: usize, rows: Rows<'_>, full: &mut impl FnMut(&Block)) {
        let n = rows.addr.len();
        let mut at = 0;
        while at < n {
            let end = n.min(at + CHUNK);
            at += self.chunk(core, rows.part(at..end));
            if at < end {
                self.odd(core, rows.kind[at], (rows.addr[at], rows.size[at]), rows.pc(at), full);
                at += 1;
            }
            if self.block.wants.len() >= BLOCK {
                self.flush(full);
            }
        }
    }

    /// Marks the point at which statistics begin.
    pub(crate) fn begin(&mut self) {
        self.block.events.push(Event::Begin);
    }

    /// Calls `full` with the requests collected so far.
    pub(crate) fn flush(&mut self, full: &mut impl FnMut(&Block)) {
        if !self.block.events.is_empty() {
            full(&self.block);
            self.block.clear();
        }
    }

    /// Takes accesses up to the first that [`Feed::odd`] has to handle; returns their number.
    fn chunk(&mut self, core: usize, rows: Rows<'_>) -> usize {
        if let Front::Behind(machine) = &mut self.front {
            self.asks.clear();
            let taken = machine.run_asking(core, rows, &mut self.asks);
            let start = self.block.wants.len();
            for want in &self.asks {
                let (kind, pc) = (rows.kind[want.row()], rows.pc(want.row()));
                // Accesses that the first cache joined were a single miss.
                self.block.push(Want { again: 0, ..*want }, kind, pc, self.shift);
            }
            self.block.events.push(Event::Ask { core: 0, wants: start..self.block.wants.len() });
            return taken;
        }
        // The caches under test have different numbers of sets.
        let is_unified = matches!(self.front, Front::Both);
        let sides = Sides { joins: self.joins, is_unified, set_mask: 0 };
        let (taken, n_wanted) = sort((self.shift, 0), sides, rows, &mut self.wanted);
        let wanted = match self.front {
            Front::Instr => &self.wanted[..n_wanted[0]],
            _ => &self.wanted[SIDE..SIDE + n_wanted[1]],
        };
        let start = self.block.wants.len();
        for want in wanted {
            let row = want.row();
            self.block.push(*want, rows.kind[row], rows.pc(row), self.shift);
        }
        self.block.events.push(Event::Ask { core, wants: start..self.block.wants.len() });
        taken
    }

    /// Handles an access that touches more than two lines or none, or a flush.
    fn odd(
        &mut self,
        core: usize,
        kind: AccessKind,
        (addr, size): (u64, u32),
        pc: u64,
        full: &mut impl FnMut(&Block),
    ) {
        let first = addr >> self.shift;
        let last = addr.wrapping_add(u64::from(size)).wrapping_sub(1) >> self.shift;
        if matches!(kind, AccessKind::FlushData | AccessKind::FlushInstr) {
            let is_instr = kind == AccessKind::FlushInstr;
            let concerns = match &mut self.front {
                Front::Instr => is_instr,
                Front::Data => !is_instr,
                Front::Both => true,
                Front::Behind(machine) => {
                    machine.access(core, kind, addr, size, pc);
                    true
                }
            };
            if concerns && last >= first && (size > 0 || first == last) {
                let core = if matches!(self.front, Front::Behind(_)) { 0 } else { core };
                self.block.events.push(Event::Flush { core, first, last });
            }
            return;
        }
        if last < first || (size == 0 && first != last) {
            return;
        }
        // The first line is requested from `addr` on, the others from their beginnings.
        let mut line = first;
        while line <= last {
            let end = last.min(line + CHUNK as u64 / 2);
            let start = |line: u64| if line == first { addr } else { line << self.shift };
            let addrs: Vec<u64> = (line..=end).map(start).collect();
            let kinds = vec![kind; addrs.len()];
            let (sizes, pcs) = (vec![1; addrs.len()], vec![pc; addrs.len()]);
            let rows = Rows { kind: &kinds, addr: &addrs, size: &sizes, pc: &pcs, is_demand_only: false };
            self.chunk(core, rows);
            if self.block.wants.len() >= BLOCK {
                self.flush(full);
            }
            line = end + 1;
        }
    }
}

/// One cache under test; one instance per core if cores have their own.
#[derive(Clone, Debug)]
pub(crate) struct Lone {
    caches: Vec<Cache>,
    shift: u32,
    asks: Vec<Want>,
}

impl Lone {
    /// Creates this many instances of a cache. Random policies start from `seed`, which is 1 for first data caches.
    ///
    /// # Errors
    /// `Usage` if such a cache cannot exist.
    pub(crate) fn new(cache: &CacheSpec, line_bytes: u64, cores: usize, seed: u64) -> Result<Lone> {
        let caches = (0..cores).map(|core| CacheSpec {
            name: format!("{}{core}", cache.name),
            core: Some(core),
            ..cache.clone()
        });
        let spec = MachineSpec { seed, ..MachineSpec::new(cores, line_bytes, caches.collect()) };
        let layout = spec.layout()?;
        let watch = Watch::default();
        Ok(Lone {
            caches: (0..cores).map(|at| Cache::new(&spec, &layout, at, watch)).collect(),
            shift: layout.shift,
            asks: Vec::new(),
        })
    }

    /// Processes a block.
    pub(crate) fn take(&mut self, block: &Block) {
        for event in &block.events {
            match event {
                Event::Ask { core, wants } => {
                    let cache = &mut self.caches[*core];
                    let rows = Rows {
                        kind: &block.kind,
                        addr: &block.addr,
                        size: &[],
                        pc: &block.pc,
                        is_demand_only: false,
                    };
                    self.asks.clear();
                    let mut pass = Pass {
                        ledger: &mut cache.ledger,
                        prefetcher: &mut cache.prefetcher,
                        log: &mut Vec::new(),
                        rows,
                        shift: self.shift,
                        line_mask: u64::MAX >> self.shift,
                        space: 0,
                    };
                    let wants = &block.wants[wants.clone()];
                    each!(&mut cache.store, store => pass.run(store, wants, &mut self.asks));
                }
                Event::Flush { core, first, last } => self.caches[*core].remove_all(*first..=*last),
                Event::Begin => self.caches.iter_mut().for_each(Cache::reset_counts),
            }
        }
    }

    /// Sum of the counts of all instances.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for cache in &self.caches {
            let of = cache.counts();
            sum.hits += of.hits;
            sum.misses += of.misses;
            sum.prefetch_hits += of.prefetch_hits;
            sum.prefetch_misses += of.prefetch_misses;
            sum.compulsory += of.compulsory;
        }
        sum
    }
}

/// Whether requests may be joined for a cache like this.
pub(crate) fn joins(cache: &CacheSpec, line_bytes: u64) -> bool {
    super::stream::joins(cache, cache.bytes / line_bytes / cache.ways.max(1))
}
