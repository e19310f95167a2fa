//! The caches of Cacheray's simulator, reproduced with its faults.
//!
//! SPEC: cacheray.md#cacherays-model.

use quipu_model::{Error, Result};
use serde::Deserialize;

/// A configuration file of Cacheray.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Configuration {
    /// The levels, nearest to the core first.
    pub caches: Vec<LevelSpec>,
}

/// One level of the hierarchy. Sizes are exponents of two.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct LevelSpec {
    /// Name of the level, for output.
    pub name: String,
    /// Capacity in bytes, as an exponent of two.
    pub cache_size: u32,
    /// Line size in bytes, as an exponent of two.
    pub block_size: u32,
    /// Parsed and ignored, as in Cacheray.
    pub write_policy: i64,
    /// Ways per set; 0 makes the cache fully associative.
    pub set_assoc: u64,
    /// 0 LRU, 1 FIFO, 2 LIFO, 3 FILO, 4 random.
    pub rep_policy: u32,
}

/// Largest `cache_size` that is accepted: an exponent of two.
const MAX_CACHE_SIZE: u32 = 40;
/// Largest number of lines in all levels together.
const MAX_LINES: u64 = 1 << 26;
/// Largest number of levels.
const MAX_LEVELS: usize = 64;

impl Configuration {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// `Usage` if the text is not a configuration, or asks for a cache that Cacheray cannot build; names line and key where
    /// they are known.
    pub fn parse(text: &str) -> Result<Configuration> {
        let config: Configuration = serde_json::from_str(text).map_err(|error| {
            Error::usage(format!("this is no configuration of Cacheray's caches: {error}"))
        })?;
        let mut n_lines = 0u64;
        for level in &config.caches {
            let wrong = |what: String| Err(Error::usage(format!("cache `{}`: {what}", level.name)));
            if level.cache_size > MAX_CACHE_SIZE {
                return wrong(format!(
                    "`cache_size` is an exponent of two of at most {MAX_CACHE_SIZE}, found `{}`",
                    level.cache_size
                ));
            }
            if level.block_size > level.cache_size {
                return wrong(format!(
                    "`block_size` is at most `cache_size`, `{}`, found `{}`",
                    level.cache_size, level.block_size
                ));
            }
            let n_blocks = 1u64 << (level.cache_size - level.block_size);
            if level.set_assoc > n_blocks {
                return wrong(format!(
                    "`set_assoc` is at most the number of lines, `{n_blocks}`, found `{}`",
                    level.set_assoc
                ));
            }
            if level.rep_policy > 4 {
                return wrong(format!("`rep_policy` is 0 to 4, found `{}`", level.rep_policy));
            }
            n_lines += n_blocks;
        }
        if config.caches.is_empty() || config.caches.len() > MAX_LEVELS {
            return Err(Error::usage(format!(
                "`caches` has 1 to {MAX_LEVELS} levels, found `{}`",
                config.caches.len()
            )));
        }
        if n_lines > MAX_LINES {
            return Err(Error::usage(format!("the caches have `{n_lines}` lines, limit `{MAX_LINES}`")));
        }
        Ok(config)
    }
}

/// Replacement policy: which line a full set evicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replacement {
    Lru,
    Fifo,
    /// Cacheray aborts as soon as a set is full.
    Lifo,
    /// Cacheray aborts at the first read.
    Filo,
    /// Cacheray never fills a line.
    Random,
}

/// An event in a cache, as Cacheray reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read found its line.
    Hit {
        /// First address of the read.
        addr: i64,
        /// Size of the read in bytes.
        size: i8,
    },
    /// A read did not find its line.
    Miss {
        /// First address of the read.
        addr: i64,
        /// Size of the read in bytes.
        size: i8,
    },
    /// A fill replaced another line.
    Evicted {
        /// Address of the evicted line; -1 if the slot was empty.
        old: i64,
        /// Address of the line that was filled.
        new: i64,
    },
}

/// State and counts of one level.
#[derive(Clone, Debug)]
pub struct Level {
    /// Name of the level.
    pub name: String,
    /// Bytes per line.
    pub block_bytes: i64,
    /// Number of lines.
    pub n_blocks: i64,
    /// Ways per set, as configured; 0 for a fully associative cache.
    pub ways: i64,
    /// Number of sets.
    pub n_sets: i64,
    replacement: Replacement,
    sets: Sets,
    /// Shift that drops the offset within a line, and mask that selects the set; `None` unless the number of sets is a power
    /// of two.
    bits: Option<(u32, u64)>,
    /// Lines read or written.
    pub accesses: u64,
    /// Lines read; not counted in a fully associative cache.
    pub reads: u64,
    /// Reads that hit.
    pub hits: u64,
    /// Reads that missed.
    pub misses: u64,
}

/// Content of an empty slot.
const EMPTY: i64 = -1;

impl Level {
    fn new(spec: &LevelSpec) -> Level {
        // Checked when the configuration was read.
        let n_blocks = 1i64 << spec.cache_size.saturating_sub(spec.block_size).min(62);
        let ways = spec.set_assoc as i64;
        let n_slots = if ways == 0 { n_blocks } else { ways };
        let n_sets = n_blocks / n_slots;
        let replacement = match spec.rep_policy {
            0 => Replacement::Lru,
            1 => Replacement::Fifo,
            2 => Replacement::Lifo,
            3 => Replacement::Filo,
            _ => Replacement::Random,
        };
        let bits = u64::try_from(n_sets).ok().filter(|n| n.is_power_of_two());
        Level {
            name: spec.name.clone(),
            block_bytes: 1 << spec.block_size.min(62),
            n_blocks,
            ways,
            n_sets,
            replacement,
            sets: Sets::new(n_sets as usize, n_slots as usize, replacement == Replacement::Lifo),
            bits: bits.map(|n| (spec.block_size.min(62), n - 1)),
            accesses: 0,
            reads: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Whether the cache is fully associative.
    pub fn is_full(&self) -> bool {
        self.ways == 0
    }

    #[inline]
    fn set_of(&self, addr: i64) -> Result<usize> {
        // PERF: types/original_model; two divisions took an eighth of the time.
        if let (Ok(addr), Some((shift, mask))) = (u64::try_from(addr), self.bits) {
            return Ok((addr >> shift & mask) as usize); // As many as there are sets.
        }
        self.set_divided(addr)
    }

    #[cold]
    fn set_divided(&self, addr: i64) -> Result<usize> {
        usize::try_from(addr / self.block_bytes % self.n_sets).map_err(|_| {
            Error::unsupported(format!("Cacheray ends at address `{addr:#x}`, which lies in no set"))
        })
    }

    /// The addresses of the lines that an access touches; the first is rounded towards zero.
    fn lines(&self, addr: i64, size: i8) -> impl Iterator<Item = i64> + use<> {
        let (block, end) = (self.block_bytes, addr.saturating_add(size.into()));
        // The line size is a power of two.
        let first = if addr >= 0 { addr & -block } else { addr / block * block };
        std::iter::successors(Some(first), move |line| line.checked_add(block))
            .take_while(move |line| *line < end)
    }

    fn insert(&mut self, set: usize, line: i64, tell: &mut impl FnMut(&str, Event)) -> Result<()> {
        match self.replacement {
            Replacement::Lru | Replacement::Fifo => {
                let old = self.sets.push(set, line);
                tell(&self.name, Event::Evicted { old, new: line });
            }
            Replacement::Lifo if self.sets.has_room(set) => {
                self.sets.push(set, line);
            }
            Replacement::Lifo => {
                return Err(Error::unsupported(format!(
                    "cache `{}` has policy LIFO, and a set is full: Cacheray ends here",
                    self.name
                )));
            }
            Replacement::Filo | Replacement::Random => {}
        }
        Ok(())
    }
}

/// The lines of all sets in one vector. Each set is a ring: its newest line stands at `head`, older ones follow in order and
/// wrap around to the slot before `head`.
#[derive(Clone, Debug)]
struct Sets {
    slots: Vec<i64>,
    heads: Vec<u32>,
    n_slots: usize,
    /// Whether sets start without slots and grow; the slots before `head` do not exist yet then.
    grows: bool,
}

impl Sets {
    fn new(n_sets: usize, n_slots: usize, grows: bool) -> Sets {
        // `n_slots` is at most `MAX_LINES`.
        let head = if grows { n_slots as u32 } else { 0 };
        Sets { slots: vec![EMPTY; n_sets * n_slots], heads: vec![head; n_sets], n_slots, grows }
    }

    /// Whether a set can still grow.
    fn has_room(&self, set: usize) -> bool {
        self.grows && self.heads.get(set).is_some_and(|head| *head > 0)
    }

    #[inline]
    fn of(&mut self, set: usize) -> Option<(&mut [i64], &mut u32)> {
        let start = set * self.n_slots;
        Some((self.slots.get_mut(start..start + self.n_slots)?, self.heads.get_mut(set)?))
    }

    /// Puts a line at the head of a set and returns the line that it replaces.
    #[inline]
    fn push(&mut self, set: usize, line: i64) -> i64 {
        let Some((slots, head)) = self.of(set) else { return EMPTY };
        let before = if *head == 0 { slots.len() as u32 } else { *head } - 1; // As for heads.
        *head = before;
        slots.get_mut(before as usize).map_or(EMPTY, |slot| std::mem::replace(slot, line))
    }

    /// Whether a set contains a line. If so and `moves` is true, the line may move to the head.
    #[inline]
    fn find(&mut self, set: usize, line: i64, moves: bool) -> bool {
        let grows = self.grows;
        let Some((slots, head)) = self.of(set) else { return false };
        let head = *head as usize;
        let (front, newer) = slots.split_at_mut(head.min(slots.len()));
        if let Some(at) = newer.iter().position(|slot| *slot == line) {
            if moves && at > 0 {
                newer.copy_within(..at, 1);
                newer[0] = line;
            }
            return true;
        }
        let Some(at) = front.iter().position(|slot| *slot == line).filter(|_| !grows) else { return false };
        if moves && let Some(last) = newer.last().copied() {
            front.copy_within(..at, 1);
            front[0] = last;
            newer.copy_within(..newer.len() - 1, 1);
            newer[0] = line;
        }
        true
    }
}

/// Hits and misses of one access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Hits in each level.
    pub hits: Vec<u64>,
    /// Misses in the last level.
    pub full_misses: u64,
}

/// State of all levels.
#[derive(Clone, Debug)]
pub struct Levels {
    levels: Vec<Level>,
}

impl Levels {
    /// Empty caches.
    pub fn new(config: &Configuration) -> Levels {
        Levels { levels: config.caches.iter().map(Level::new).collect() }
    }

    /// The levels, nearest to the core first.
    pub fn as_slice(&self) -> &[Level] {
        &self.levels
    }

    /// Simulates an access and stores its hits and misses in `served`. Calls `tell` with every event and the name of its
    /// level.
    ///
    /// # Errors
    /// `Unsupported` where Cacheray aborts.
    pub fn access(
        &mut self,
        addr: i64,
        size: i8,
        is_write: bool,
        served: &mut Served,
        tell: &mut impl FnMut(&str, Event),
    ) -> Result<()> {
        served.hits.resize(self.levels.len(), 0);
        served.hits.fill(0);
        served.full_misses = 0;
        if is_write {
            let Some(level) = self.levels.first_mut() else { return Ok(()) };
            for line in level.lines(addr, size) {
                level.accesses += 1;
                let set = level.set_of(addr)?;
                level.insert(set, line, tell)?;
            }
            return Ok(());
        }
        self.read(0, addr, size, served, tell)
    }

    fn read(
        &mut self,
        number: usize,
        addr: i64,
        size: i8,
        served: &mut Served,
        tell: &mut impl FnMut(&str, Event),
    ) -> Result<()> {
        let is_last = number + 1 == self.levels.len();
        let Some(level) = self.levels.get(number) else { return Ok(()) };
        for line in level.lines(addr, size) {
            let Some(level) = self.levels.get_mut(number) else { break };
            level.accesses += 1;
            level.reads += u64::from(!level.is_full());
            if level.replacement == Replacement::Filo {
                return Err(Error::unsupported(format!(
                    "cache `{}` has policy FILO: Cacheray ends at the first read",
                    level.name
                )));
            }
            let set = level.set_of(line)?;
            if level.sets.find(set, line, level.replacement == Replacement::Lru) {
                level.hits += 1;
                tell(&level.name, Event::Hit { addr, size });
                if let Some(hits) = served.hits.get_mut(number) {
                    *hits += 1;
                }
                continue;
            }
            level.misses += 1;
            tell(&level.name, Event::Miss { addr, size });
            served.full_misses += u64::from(is_last);
            // Uses the set of the access instead of the line's: Cacheray puts the second line of an access into the wrong
            // set.
            let set = level.set_of(addr)?;
            level.insert(set, line, tell)?;
            self.read(number + 1, line, 1, served, tell)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(caches: &str) -> Levels {
        Levels::new(&Configuration::parse(&format!("{{\"caches\":[{caches}]}}")).unwrap())
    }

    const SMALL: &str =
        r#"{"name":"L1","cache_size":8,"block_size":6,"write_policy":0,"set_assoc":2,"rep_policy":0}"#;

    fn run(levels: &mut Levels, addr: i64, size: i8, is_write: bool) -> Vec<Event> {
        let mut events = Vec::new();
        let mut served = Served::default();
        levels.access(addr, size, is_write, &mut served, &mut |_, event| events.push(event)).unwrap();
        events
    }

    #[test]
    fn writes_never_hit_and_take_a_slot_each_time() {
        let mut levels = levels(SMALL);
        for (old, _) in [(-1, 0), (-1, 0), (0x1000, 0)] {
            assert_eq!(run(&mut levels, 0x1004, 8, true), [Event::Evicted { old, new: 0x1000 }]);
        }
        assert_eq!(run(&mut levels, 0x1004, 8, false), [Event::Hit { addr: 0x1004, size: 8 }]);
        let level = &levels.as_slice()[0];
        assert_eq!((level.accesses, level.reads, level.hits, level.misses), (4, 1, 1, 0));
    }

    #[test]
    fn the_second_line_of_an_access_lands_in_the_set_of_the_first() {
        let mut levels = levels(SMALL);
        run(&mut levels, 0x103c, 8, false);
        // The line 0x1040 belongs to set 1, but was put into set 0.
        assert_eq!(run(&mut levels, 0x1040, 4, false)[0], Event::Miss { addr: 0x1040, size: 4 });
    }

    #[test]
    fn sets_do_as_rings_of_their_own_do() {
        let mut rng = quipu_testkit::Rng::new(3);
        for n_slots in [1, 2, 3, 8] {
            for (grows, moves) in [(false, true), (false, false), (true, false)] {
                let mut sets = Sets::new(2, n_slots, grows);
                let slots: Vec<i64> = if grows { Vec::new() } else { vec![EMPTY; n_slots] };
                let mut plain = vec![slots; 2];
                for _ in 0..400 {
                    let (set, line) = (rng.below(2) as usize, rng.below(12) as i64 - 1);
                    let slots = &mut plain[set];
                    if rng.below(2) == 0 {
                        let at = slots.iter().position(|slot| *slot == line);
                        assert_eq!(sets.find(set, line, moves), at.is_some());
                        if let Some(at) = at.filter(|_| moves) {
                            let slot = slots.remove(at);
                            slots.insert(0, slot);
                        }
                    } else if !grows {
                        assert_eq!(Some(sets.push(set, line)), slots.pop());
                        slots.insert(0, line);
                    } else {
                        assert_eq!(sets.has_room(set), slots.len() < n_slots);
                        if sets.has_room(set) {
                            sets.push(set, line);
                            slots.insert(0, line);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn policies_that_end_the_original_are_refused() {
        let mut lifo = levels(&SMALL.replace("\"rep_policy\":0", "\"rep_policy\":2"));
        assert_eq!(run(&mut lifo, 0, 1, true), []);
        assert_eq!(run(&mut lifo, 0, 1, true), []);
        let mut served = Served::default();
        assert!(lifo.access(0, 1, true, &mut served, &mut |_, _| {}).is_err());
        let mut filo = levels(&SMALL.replace("\"rep_policy\":0", "\"rep_policy\":3"));
        assert_eq!(run(&mut filo, 0, 1, true), []);
        assert!(filo.access(0, 1, false, &mut served, &mut |_, _| {}).is_err());
    }

    #[test]
    fn configurations_that_cannot_be_are_refused() {
        for (old, new) in [
            ("\"set_assoc\":2", "\"set_assoc\":5"),
            ("\"block_size\":6", "\"block_size\":9"),
            ("\"cache_size\":8", "\"cache_size\":77"),
            ("\"rep_policy\":0", "\"rep_policy\":5"),
            ("\"name\":\"L1\",", ""),
        ] {
            let text = format!("{{\"caches\":[{}]}}", SMALL.replace(old, new));
            assert!(Configuration::parse(&text).is_err(), "{new}");
        }
        assert!(Configuration::parse("{\"caches\":[]}").is_err());
    }
}
