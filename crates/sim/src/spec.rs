//! The description of a machine: caches with sizes, policies and parents.
//!
//! A [`MachineSpec`] is plain data with public fields; [`MachineSpec::layout`] checks it and resolves names. `config` parses
//! drcachesim's configuration files into one, `machine` simulates one.

use quipu_model::{Error, Result};
use std::collections::BTreeMap;

/// Most cores of a machine.
pub const MAX_CORES: usize = 4096;
/// Most caches of a machine.
pub const MAX_CACHES: usize = 16384;
/// Longest chain of parents.
pub const MAX_DEPTH: usize = 32;
/// Most lines in all caches of a machine together.
pub const MAX_LINES: u64 = 1 << 28;

/// Replacement policy: chooses the line of a set to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// The least recently used line.
    #[default]
    Lru,
    /// The line with the fewest uses since it was filled.
    Lfu,
    /// The line that was filled first.
    Fifo,
    /// Any line whose bit is clear. A use sets the bit, and once all are set clears the others.
    BitPlru,
    /// The line that a binary tree of bits points at. The number of ways must be a power of two.
    TreePlru,
    /// The first line with the most distant predicted reuse.
    Rrip(Rrip),
    /// A random line.
    Random,
    /// The line whose next use is farthest in the future: Belady's policy, a bound that no other policy beats.
    Opt,
}

impl Policy {
    /// Policies by the names used in configuration files and in output.
    pub const NAMES: [(&'static str, Policy); 8] = [
        ("LRU", Policy::Lru),
        ("LFU", Policy::Lfu),
        ("FIFO", Policy::Fifo),
        ("BIT_PLRU", Policy::BitPlru),
        ("TREE_PLRU", Policy::TreePlru),
        ("RRIP", Policy::Rrip(Rrip::DEFAULT)),
        ("RANDOM", Policy::Random),
        ("OPT", Policy::Opt),
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Lru => "LRU",
            Policy::Lfu => "LFU",
            Policy::Fifo => "FIFO",
            Policy::BitPlru => "BIT_PLRU",
            Policy::TreePlru => "TREE_PLRU",
            Policy::Rrip(_) => "RRIP",
            Policy::Random => "RANDOM",
            Policy::Opt => "OPT",
        }
    }

    /// The policy called `name`, in upper or lower case.
    pub fn named(name: &str) -> Option<Policy> {
        Policy::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, policy)| *policy)
    }
}

/// Parameters of re-reference interval prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rrip {
    /// Bits of a prediction, 1 to 16.
    pub bits: u32,
    /// Length of the cycle of predictions for filled lines.
    pub period: u32,
    /// Number of predictions in a cycle that are *long* instead of *distant*.
    pub long_per_period: u32,
}

impl Rrip {
    /// Parameters of drcachesim.
    pub const DEFAULT: Rrip = Rrip { bits: 3, period: 64, long_per_period: 1 };
}

/// Hardware prefetcher of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Prefetch {
    /// Nothing.
    #[default]
    None,
    /// On a miss, the next line.
    NextLine,
    /// On a miss of an instruction that misses at equal distances, the line at that distance.
    Stride,
    /// On a miss that continues an ascending or descending run of misses, the next four lines.
    Stream,
}

impl Prefetch {
    /// Prefetchers by name.
    pub const NAMES: [(&'static str, Prefetch); 4] = [
        ("none", Prefetch::None),
        ("nextline", Prefetch::NextLine),
        ("stride", Prefetch::Stride),
        ("stream", Prefetch::Stream),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Prefetch::NAMES.iter().find(|(_, known)| *known == self).map_or("none", |(name, _)| name)
    }

    /// The prefetcher called `name`.
    pub fn named(name: &str) -> Option<Prefetch> {
        Prefetch::NAMES.iter().find(|(known, _)| *known == name).map(|(_, prefetch)| *prefetch)
    }
}

/// Relation between the lines of a cache and those of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Inclusion {
    /// None.
    #[default]
    Free,
    /// The cache holds every line that a child holds.
    Inclusive,
    /// The cache holds no line that a child holds. Has no effect in a cache without children.
    Exclusive,
}

/// Kind of lines in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Instructions.
    Instruction,
    /// Data.
    Data,
    /// Both.
    #[default]
    Unified,
}

/// Description of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSpec {
    /// Unique name.
    pub name: String,
    /// Whether it holds instructions, data or both.
    pub role: Role,
    /// The core whose first cache this is; `None` for caches further from the cores.
    pub core: Option<usize>,
    /// Number of cores, from `core` on, that share it as their first cache, as the hardware threads of a core do.
    pub n_cores: usize,
    /// Size in bytes.
    pub bytes: u64,
    /// Lines per set.
    pub ways: u64,
    /// Name of the cache that receives its misses; `None` for memory.
    pub parent: Option<String>,
    /// Replacement policy.
    pub policy: Policy,
    /// Hardware prefetcher.
    pub prefetch: Prefetch,
    /// Relation to the lines of its children.
    pub inclusion: Inclusion,
    /// Path of a file that lists its misses.
    pub miss_file: Option<String>,
    /// Sizes of the pages that it holds, for TLBs; empty for all.
    pub pages: Vec<u64>,
}

impl CacheSpec {
    /// A cache of this name and size directly below memory, with defaults for the rest.
    pub fn new(name: impl Into<String>, bytes: u64, ways: u64) -> CacheSpec {
        CacheSpec {
            name: name.into(),
            role: Role::Unified,
            core: None,
            n_cores: 1,
            bytes,
            ways,
            parent: None,
            policy: Policy::Lru,
            prefetch: Prefetch::None,
            inclusion: Inclusion::Free,
            miss_file: None,
            pages: Vec::new(),
        }
    }

    /// Whether it holds pages of this size.
    pub fn holds(&self, page_bytes: u64) -> bool {
        self.pages.is_empty() || self.pages.contains(&page_bytes)
    }
}

/// A range of addresses whose pages have a size of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargePages {
    /// Size of each page, a power of two.
    pub bytes: u64,
    /// First address, a multiple of the size.
    pub first: u64,
    /// Last address, the last byte of a page.
    pub last: u64,
}

/// Most sizes of pages of a machine.
pub(crate) const MAX_PAGE_SIZES: usize = 8;

/// Description of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// Number of cores.
    pub cores: usize,
    /// Line size in bytes (for TLBs: page size), a power of two.
    pub line_bytes: u64,
    /// Whether a write invalidates the line in the caches of other cores.
    pub coherent: bool,
    /// The caches, in any order.
    pub caches: Vec<CacheSpec>,
    /// Ranges of addresses with pages larger than `line_bytes`, for TLBs; otherwise empty.
    pub large: Vec<LargePages>,
    /// Seed of random policies.
    pub seed: u64,
}

/// Parameters of drcachesim's default hierarchy. SPEC: drmemtrace.md#simulators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usual {
    /// Number of cores.
    pub cores: usize,
    /// Line size in bytes.
    pub line_bytes: u64,
    /// Size and ways of each first instruction cache.
    pub l1i: (u64, u64),
    /// Size and ways of each first data cache.
    pub l1d: (u64, u64),
    /// Size and ways of the shared last cache.
    pub ll: (u64, u64),
    /// Policy of all caches.
    pub policy: Policy,
    /// Prefetcher of the first data caches.
    pub data_prefetch: Prefetch,
    /// Whether the caches are coherent.
    pub coherent: bool,
    /// Path of a file that lists the last cache's misses.
    pub miss_file: Option<String>,
}

impl Default for Usual {
    fn default() -> Usual {
        Usual {
            cores: 4,
            line_bytes: 64,
            l1i: (32 << 10, 8),
            l1d: (32 << 10, 8),
            ll: (8 << 20, 16),
            policy: Policy::Lru,
            data_prefetch: Prefetch::NextLine,
            coherent: false,
            miss_file: None,
        }
    }
}

impl Usual {
    /// The description of this machine.
    pub fn spec(&self) -> MachineSpec {
        let mut caches = Vec::new();
        for core in 0..self.cores.min(MAX_CORES + 1) {
            let sides = [("L1I", self.l1i, Role::Instruction), ("L1D", self.l1d, Role::Data)];
            for (name, (bytes, ways), role) in sides {
                caches.push(CacheSpec {
                    role,
                    core: Some(core),
                    parent: Some("LL".to_owned()),
                    policy: self.policy,
                    prefetch: if role == Role::Data { self.data_prefetch } else { Prefetch::None },
                    ..CacheSpec::new(format!("{name}{core}"), bytes, ways)
                });
            }
        }
        caches.push(CacheSpec {
            policy: self.policy,
            miss_file: self.miss_file.clone(),
            ..CacheSpec::new("LL", self.ll.0, self.ll.1)
        });
        let Usual { cores, line_bytes, coherent, .. } = *self;
        MachineSpec { coherent, ..MachineSpec::new(cores, line_bytes, caches) }
    }
}

/// The resolved structure of a machine, with caches as indices: the result of [`MachineSpec::layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// log2 of the line size in bytes.
    pub shift: u32,
    /// The parent of each cache.
    pub parent: Vec<Option<usize>>,
    /// The children of each cache.
    pub children: Vec<Vec<usize>>,
    /// The first instruction cache and the first data cache of each core; with pages of several sizes, those of each core
    /// for the first size, then those for the second, and so on.
    pub first: Vec<[usize; 2]>,
    /// Number of sets of each cache.
    pub sets: Vec<u64>,
    /// The caches that the snoop filter watches, sorted by name; empty without coherence.
    pub snooped: Vec<usize>,
    /// Which caches take part in coherence: the watched ones and all caches between them and the cores.
    pub coherent: Vec<bool>,
}

impl MachineSpec {
    /// A machine of these caches without coherence, whose lines (for TLBs: pages) all have `line_bytes` bytes.
    pub fn new(cores: usize, line_bytes: u64, caches: Vec<CacheSpec>) -> MachineSpec {
        MachineSpec { cores, line_bytes, coherent: false, caches, large: Vec::new(), seed: 0 }
    }

    /// Checks the description and resolves names.
    ///
    /// # Errors
    /// `Usage` with the cache and what is wrong with it.
    pub fn layout(&self) -> Result<Layout> {
        if self.cores == 0 || self.cores > MAX_CORES {
            return Err(wrong("num_cores", self.cores as u64, &format!("1 to {MAX_CORES}")));
        }
        if !self.line_bytes.is_power_of_two() || self.line_bytes < 4 {
            return Err(wrong("line_size", self.line_bytes, "a power of two, 4 or more"));
        }
        self.check_large()?;
        if self.caches.len() > MAX_CACHES {
            return Err(wrong(
                "number of caches",
                self.caches.len() as u64,
                &format!("at most {MAX_CACHES}"),
            ));
        }
        let mut by_name = BTreeMap::new();
        for (i, cache) in self.caches.iter().enumerate() {
            if by_name.insert(cache.name.as_str(), i).is_some() {
                return Err(of(cache, "name", &cache.name, "a name that no other cache has"));
            }
        }
        let sets = self.caches.iter().map(|cache| self.sets(cache)).collect::<Result<Vec<u64>>>()?;
        let lines: u64 = self.caches.iter().zip(&sets).map(|(cache, sets)| sets * cache.ways).sum();
        if lines > MAX_LINES {
            return Err(wrong("lines in all caches", lines, &format!("at most {MAX_LINES}")));
        }
        let takes = |cache: &CacheSpec| cache.inclusion != Inclusion::Free;
        if let Some(cache) = self.caches.iter().find(|cache| cache.policy == Policy::Opt)
            && (self.coherent || self.caches.iter().any(takes))
        {
            let rule = "any other policy: OPT decides later what to lose, so it goes with neither coherence nor inclusive or \
                        exclusive caches";
            return Err(of(cache, "replace_policy", &"OPT", rule));
        }
        let parent = self.parents(&by_name)?;
        let mut children = vec![Vec::new(); self.caches.len()];
        for (i, parent) in parent.iter().enumerate() {
            if let Some(parent) = parent {
                children[*parent].push(i);
            }
        }
        for (cache, children) in self.caches.iter().zip(&children) {
            if cache.core.is_some() && !children.is_empty() {
                let core = cache.core.unwrap_or_default();
                let rule = "no core, since a first cache of a core cannot be the parent of another";
                return Err(of(cache, "core", &core, rule));
            }
            if cache.core.is_none() && children.is_empty() {
                return Err(of(cache, "core", &"nothing", "a core, or being the parent of another cache"));
            }
        }
        let first = self.firsts()?;
        let snooped = if self.coherent { self.snooped(&parent, &children) } else { Vec::new() };
        let mut coherent = vec![false; self.caches.len()];
        let mut open = snooped.clone();
        while let Some(cache) = open.pop() {
            coherent[cache] = true;
            open.extend(&children[cache]);
        }
        Ok(Layout {
            shift: self.line_bytes.trailing_zeros(),
            parent,
            children,
            first,
            sets,
            snooped,
            coherent,
        })
    }

    /// Sizes of pages: `line_bytes` first, then each of the larger ones once.
    pub fn page_sizes(&self) -> Vec<u64> {
        let mut sizes = vec![self.line_bytes];
        for LargePages { bytes, .. } in &self.large {
            if !sizes.contains(bytes) {
                sizes.push(*bytes);
            }
        }
        sizes
    }

    /// Checks the ranges of large pages.
    fn check_large(&self) -> Result<()> {
        for of in &self.large {
            if !of.bytes.is_power_of_two() || of.bytes <= self.line_bytes {
                let rule = format!("pages of a power of two of bytes, more than {}", self.line_bytes);
                return Err(wrong("large_pages", of.bytes, &rule));
            }
            let is_aligned =
                of.first.is_multiple_of(of.bytes) && of.last.wrapping_add(1).is_multiple_of(of.bytes);
            if !is_aligned || of.first > of.last {
                let rule = format!("a range from one multiple of {} to a later one", of.bytes);
                return Err(wrong("large_pages", of.first, &rule));
            }
        }
        let mut ranges: Vec<(u64, u64)> = self.large.iter().map(|of| (of.first, of.last)).collect();
        ranges.sort_unstable();
        if let Some(pair) = ranges.windows(2).find(|pair| pair[1].0 <= pair[0].1) {
            return Err(wrong("large_pages", pair[1].0, "ranges that do not overlap"));
        }
        let n_sizes = self.page_sizes().len();
        if n_sizes > MAX_PAGE_SIZES || (n_sizes > 1 && self.line_bytes < 64) {
            let rule = format!("at most {MAX_PAGE_SIZES} sizes of pages, none below 64 bytes");
            return Err(wrong("large_pages", n_sizes as u64, &rule));
        }
        Ok(())
    }

    fn sets(&self, cache: &CacheSpec) -> Result<u64> {
        let lines = cache.bytes / self.line_bytes;
        if lines == 0 {
            return Err(of(
                cache,
                "size",
                &cache.bytes,
                &format!("one line or more, {} bytes", self.line_bytes),
            ));
        }
        if cache.ways == 0 || !lines.is_multiple_of(cache.ways) {
            let rule = format!(
                "1 or more, so that size {} is a multiple of assoc times the line size {}",
                cache.bytes, self.line_bytes
            );
            return Err(of(cache, "assoc", &cache.ways, &rule));
        }
        let sets = lines / cache.ways;
        if !cache.bytes.is_multiple_of(self.line_bytes) {
            let rule = format!("a multiple of the line size {}", self.line_bytes);
            return Err(of(cache, "size", &cache.bytes, &rule));
        }
        if lines > MAX_LINES {
            return Err(of(
                cache,
                "size",
                &cache.bytes,
                &format!("at most {MAX_LINES} lines, it has {lines}"),
            ));
        }
        if cache.policy == Policy::TreePlru && !cache.ways.is_power_of_two() {
            return Err(of(cache, "assoc", &cache.ways, "a power of two, with TREE_PLRU"));
        }
        if let Policy::Rrip(Rrip { bits, period, long_per_period }) = cache.policy
            && (!(1..=16).contains(&bits) || !(1..=65536).contains(&period) || long_per_period > period)
        {
            let rule = "rrpv_bits 1 to 16, rrpv_period 1 to 65536, rrpv_long_per_period at most the period";
            let found = format!("RRIP {bits} {period} {long_per_period}");
            return Err(of(cache, "replace_policy", &found, rule));
        }
        Ok(sets)
    }

    fn parents(&self, by_name: &BTreeMap<&str, usize>) -> Result<Vec<Option<usize>>> {
        let mut parents = Vec::with_capacity(self.caches.len());
        for cache in &self.caches {
            let Some(name) = &cache.parent else {
                parents.push(None);
                continue;
            };
            let Some(parent) = by_name.get(name.as_str()) else {
                return Err(of(cache, "parent", name, "memory, or the name of a cache"));
            };
            let role = self.caches[*parent].role;
            if role != Role::Unified && role != cache.role {
                return Err(of(cache, "parent", name, "a cache that is unified or of the same type"));
            }
            parents.push(Some(*parent));
        }
        for (start, cache) in self.caches.iter().enumerate() {
            let mut at = Some(start);
            let mut depth = 0;
            while let Some(here) = at {
                depth += 1;
                if depth > MAX_DEPTH {
                    let found = cache.parent.as_deref().unwrap_or("memory");
                    let rule = format!("a chain of parents that ends, after {MAX_DEPTH} at most");
                    return Err(of(cache, "parent", &found, &rule));
                }
                at = parents[here];
            }
        }
        Ok(parents)
    }

    fn firsts(&self) -> Result<Vec<[usize; 2]>> {
        let sizes = self.page_sizes();
        let mut first = vec![[None; 2]; self.cores * sizes.len()];
        for (i, cache) in self.caches.iter().enumerate() {
            let Some(start) = cache.core else { continue };
            for core in start..start.saturating_add(cache.n_cores.max(1)) {
                if core >= self.cores {
                    return Err(of(cache, "core", &core, &format!("0 to {}", self.cores - 1)));
                }
                let held = sizes.iter().enumerate().filter(|(_, bytes)| cache.holds(**bytes));
                for (size, _) in held {
                    let sides = &mut first[size * self.cores + core];
                    if let Some(name) = claim(sides, cache.role, i) {
                        let rule = format!("a core that has no other {name} cache");
                        return Err(of(cache, "core", &core, &rule));
                    }
                }
            }
        }
        let both = |(at, sides): (usize, [Option<usize>; 2])| {
            let (core, size) = (at % self.cores, sizes[at / self.cores]);
            match sides {
                [Some(instr), Some(data)] => Ok([instr, data]),
                [None, _] => Err(self.lacks(core, "instruction", size)),
                [_, None] => Err(self.lacks(core, "data", size)),
            }
        };
        first.into_iter().enumerate().map(both).collect()
    }

    #[cold]
    fn lacks(&self, core: usize, what: &str, page_bytes: u64) -> Error {
        let is_choosy = self.caches.iter().any(|cache| !cache.pages.is_empty());
        let allowed = match is_choosy {
            false => format!("as many as have caches of their own; core {core} has no {what} cache"),
            true => format!(
                "as many as have TLBs of their own; core {core} has no {what} TLB for pages of {page_bytes} bytes"
            ),
        };
        wrong("num_cores", self.cores as u64, &allowed)
    }

    /// The children of the lowest cache that all cores share, or all last-level caches if there are several.
    /// SPEC: drmemtrace.md#simulators.
    fn snooped(&self, parent: &[Option<usize>], children: &[Vec<usize>]) -> Vec<usize> {
        let last: Vec<usize> = (0..parent.len()).filter(|cache| parent[*cache].is_none()).collect();
        let mut snooped = match last[..] {
            [only] => {
                // From memory towards the cores, as long as one cache serves all.
                let mut shared = only;
                while let [child] = children[shared][..] {
                    if self.caches[child].core.is_some() {
                        break;
                    }
                    shared = child;
                }
                if children[shared].is_empty() { vec![shared] } else { children[shared].clone() }
            }
            _ => last,
        };
        snooped.sort_by(|a, b| self.caches[*a].name.cmp(&self.caches[*b].name));
        snooped
    }
}

/// Makes the cache `at` the first cache of a core, on the sides that its role serves. Returns the name of a side that has one
/// already.
fn claim(sides: &mut [Option<usize>; 2], role: Role, at: usize) -> Option<&'static str> {
    for (side, name) in [(0, "instruction"), (1, "data")] {
        let fits = match role {
            Role::Unified => true,
            Role::Instruction => side == 0,
            Role::Data => side == 1,
        };
        if fits && sides[side].replace(at).is_some() {
            return Some(name);
        }
    }
    None
}

/// An error about an invalid cache. `config` parses the cache and the key out of the message, to add the line.
#[cold]
fn of(cache: &CacheSpec, key: &str, found: &dyn std::fmt::Display, allowed: &str) -> Error {
    Error::usage(format!("cache `{}`, key {key}: found `{found}`, allowed: {allowed}", cache.name))
}

#[cold]
fn wrong(key: &str, found: u64, allowed: &str) -> Error {
    Error::usage(format!("key {key}: found `{found}`, allowed: {allowed}"))
}
