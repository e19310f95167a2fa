//! The caches that a sweep tries: lists of sizes, ways and so on, from options or from a file, and their combinations.
//!
//! A file has a key and its values on each line, with spaces or commas between values; `#` or `//` starts a comment. The
//! keys are the names of the options. Errors name the line, the key, the value found and the values allowed.

use crate::config::MAX_BYTES;
use crate::extent::{Extent, Warmup};
use crate::spec::{CacheSpec, MAX_CORES, MAX_LINES, Policy, Prefetch, Usual};
use quipu_model::{Error, Options, Result, number};
use std::fmt;

/// Caches that can be built, for messages.
pub(super) const RULE: &str =
    "a size must be a multiple of line size times ways, and TREE_PLRU wants a power of two of ways";

/// Most caches that a sweep tries.
pub const MAX_POINTS: usize = 65_536;

/// The level at which caches are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// The first instruction cache of each core.
    Instr,
    /// The first data cache of each core.
    #[default]
    Data,
    /// One first cache for both in each core.
    First,
    /// The last cache, shared by all cores, below first caches that stay the same.
    Last,
}

impl Level {
    /// Levels by name.
    pub const NAMES: [(&'static str, Level); 4] =
        [("l1i", Level::Instr), ("l1d", Level::Data), ("l1", Level::First), ("ll", Level::Last)];

    /// The name.
    pub fn name(self) -> &'static str {
        Level::NAMES.iter().find(|(_, level)| *level == self).map_or("", |(name, _)| name)
    }
}

/// The caches to try, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// Level of the caches.
    pub level: Level,
    /// Sizes in bytes.
    pub sizes: Vec<u64>,
    /// Numbers of ways.
    pub ways: Vec<u64>,
    /// Replacement policies.
    pub policies: Vec<Policy>,
    /// Line sizes in bytes.
    pub line_sizes: Vec<u64>,
    /// Whether line sizes were set. If not, they are the one that the trace has recorded, if any.
    pub has_line_sizes: bool,
    /// Prefetchers.
    pub prefetchers: Vec<Prefetch>,
    /// Whether to compare each cache with Belady's policy.
    pub bound: bool,
    /// The rest of the machine: its cores and, if the last cache is tried, its first caches.
    pub usual: Usual,
    /// Whether the number of cores was set. If not, a trace that is arranged by core determines it.
    pub has_cores: bool,
    /// Number of instructions before the statistics begin.
    pub warmup: u64,
    /// The range of records that counts.
    pub extent: Extent,
    /// Whether threads run on the processors recorded in the trace.
    pub cpu_scheduling: bool,
    /// Whether to use physical addresses. This and the list of pages are left to the caller: see
    /// [`with_physical`](super::Sweep::with_physical).
    pub physical: bool,
    /// Path of a list of pages.
    pub v2p_file: Option<String>,
}

impl Default for Space {
    fn default() -> Space {
        Space {
            level: Level::Data,
            sizes: (12..=20).map(|bits| 1 << bits).collect(),
            ways: vec![1, 2, 4, 8, 16],
            policies: vec![Policy::Lru],
            line_sizes: vec![64],
            has_line_sizes: false,
            prefetchers: vec![Prefetch::None],
            bound: false,
            usual: Usual::default(),
            has_cores: false,
            warmup: 0,
            extent: Extent::default(),
            cpu_scheduling: false,
            physical: false,
            v2p_file: None,
        }
    }
}

/// All keys, with the values that each allows.
pub const KEYS: [(&str, &str); 20] = [
    ("level", "l1i, l1d, l1, ll"),
    ("sizes", SIZES),
    ("ways", "whole numbers, 1 or more"),
    ("policies", "replacement policies: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM, OPT"),
    ("line-sizes", "powers of two, 4 or more, or a range such as 32..128"),
    ("prefetchers", "none, nextline, stride, stream"),
    ("bound", "true, false"),
    ("cores", "1 to 4096"),
    ("l1i-size", SIZE),
    ("l1i-assoc", "a whole number, 1 or more"),
    ("l1d-size", SIZE),
    ("l1d-assoc", "a whole number, 1 or more"),
    ("prefetcher", "none, nextline, stride, stream"),
    ("warmup-instrs", "a whole number"),
    ("skip-refs", "a whole number"),
    ("warmup-refs", "a whole number"),
    ("sim-refs", "a whole number"),
    ("cpu-scheduling", "true, false"),
    ("physical", "true, false"),
    ("v2p-file", "the path of a list of pages, without spaces and commas"),
];

const SIZE: &str = "a number of bytes, with K, M or G for powers of two";
const SIZES: &str = "numbers of bytes, with K, M or G for powers of two, or a range such as 16K..1M";

/// Origin of a value, for messages.
#[derive(Clone, Copy)]
enum Where<'a> {
    Option,
    Line { name: &'a str, line: usize },
}

impl fmt::Display for Where<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Where::Option => f.write_str("option"),
            Where::Line { name, line } => write!(f, "{name}: line {line}, key"),
        }
    }
}

#[cold]
fn wrong(place: Where<'_>, key: &str, found: &str) -> Error {
    let allowed = KEYS.iter().find(|(known, _)| *known == key).map_or("", |(_, allowed)| allowed);
    Error::usage(format!("{place} {key}: found `{found}`, allowed: {allowed}"))
}

impl Space {
    /// Parses a file; `name` stands for it in messages.
    ///
    /// # Errors
    /// `Usage`: `space.conf: line 3, key ways: found `x`, allowed: whole numbers, 1 or more`.
    pub fn parse(text: &str, name: &str) -> Result<Space> {
        if text.len() > MAX_BYTES {
            return Err(Error::usage(format!("{name}: it has {} bytes, limit {MAX_BYTES}", text.len())));
        }
        let mut space = Space::default();
        let mut lines: Vec<(&str, usize)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().split("//").next().unwrap_or_default();
            let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
            let Some(key) = words.next() else { continue };
            let place = Where::Line { name, line: number + 1 };
            if !KEYS.iter().any(|(known, _)| *known == key) {
                let keys = KEYS.map(|(key, _)| key).join(", ");
                let line = number + 1;
                return Err(Error::usage(format!(
                    "{name}: line {line}, key: found `{key}`, allowed: {keys}"
                )));
            }
            if let Some((_, before)) = lines.iter().find(|(known, _)| *known == key) {
                return Err(Error::usage(format!(
                    "{place} {key}: found `{key}` again, allowed: once, and line {before} has it"
                )));
            }
            lines.push((key, number + 1));
            space.set(key, &words.collect::<Vec<_>>(), place)?;
        }
        Ok(space)
    }

    /// Overrides values with those of options.
    ///
    /// # Errors
    /// `Usage` for an invalid value.
    pub fn with_options(self, options: &Options) -> Result<Space> {
        self.with(options.iter())
    }

    /// Overrides values with texts that have not been checked yet.
    fn with<'t>(mut self, texts: impl Iterator<Item = (&'static str, &'t str)>) -> Result<Space> {
        for (key, text) in texts.filter(|(key, _)| KEYS.iter().any(|(known, _)| known == key)) {
            let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
            self.set(key, &words, Where::Option)?;
        }
        Ok(self)
    }

    fn set(&mut self, key: &str, words: &[&str], place: Where<'_>) -> Result<()> {
        let Some(first) = words.first() else { return Err(wrong(place, key, "")) };
        match key {
            "sizes" => self.sizes = many(key, words, place, bytes, |size| *size > 0)?,
            "ways" => self.ways = many(key, words, place, whole, |ways| *ways > 0)?,
            "line-sizes" => {
                self.line_sizes =
                    many(key, words, place, bytes, |size| size.is_power_of_two() && *size >= 4)?;
                self.has_line_sizes = true;
            }
            "policies" => self.policies = names(key, words, place, Policy::named)?,
            "prefetchers" => self.prefetchers = names(key, words, place, Prefetch::named)?,
            _ => {
                // All others have one value.
                if let Some(second) = words.get(1) {
                    return Err(wrong(place, key, second));
                }
                let no = || wrong(place, key, first);
                let positive = || whole(first).filter(|number| *number > 0).ok_or_else(no);
                let size = || bytes(first).filter(|size| *size > 0).ok_or_else(no);
                let flag = || first.parse::<bool>().map_err(|_| no());
                match key {
                    "level" => {
                        let named = Level::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(first));
                        self.level = named.map(|(_, level)| *level).ok_or_else(no)?;
                    }
                    "bound" => self.bound = flag()?,
                    "cores" => {
                        let cores = usize::try_from(positive()?).map_err(|_| no())?;
                        self.usual.cores = Some(cores).filter(|cores| *cores <= MAX_CORES).ok_or_else(no)?;
                        self.has_cores = true;
                    }
                    "l1i-size" => self.usual.l1i.0 = size()?,
                    "l1i-assoc" => self.usual.l1i.1 = positive()?,
                    "l1d-size" => self.usual.l1d.0 = size()?,
                    "l1d-assoc" => self.usual.l1d.1 = positive()?,
                    "prefetcher" => self.usual.data_prefetch = Prefetch::named(first).ok_or_else(no)?,
                    "warmup-instrs" => self.warmup = whole(first).ok_or_else(no)?,
                    "skip-refs" => self.extent.skip = whole(first).ok_or_else(no)?,
                    "warmup-refs" => {
                        let refs = whole(first).ok_or_else(no)?;
                        self.extent.warmup = if refs > 0 { Warmup::Refs(refs) } else { Warmup::None };
                    }
                    "sim-refs" => self.extent.take = Some(whole(first).ok_or_else(no)?),
                    "physical" => self.physical = flag()?,
                    "v2p-file" => self.v2p_file = Some((*first).to_owned()),
                    _ => self.cpu_scheduling = flag()?,
                }
            }
        }
        Ok(())
    }

    /// The range of records that counts, with the warm-up in instructions or in records.
    ///
    /// # Errors
    /// `Usage` if both warm-ups are set.
    pub(crate) fn counted(&self) -> Result<Extent> {
        match (self.warmup, self.extent.warmup) {
            (0, _) => Ok(self.extent),
            (instrs, Warmup::None) => Ok(Extent { warmup: Warmup::Instrs(instrs), ..self.extent }),
            _ => Err(Error::usage("`warmup-instrs` and `warmup-refs` exclude each other")),
        }
    }

    /// Number of instances of each cache: one per core, or one for the last cache.
    pub(crate) fn copies(&self) -> usize {
        if self.level == Level::Last { 1 } else { self.usual.cores }
    }

    /// Seed of random policies in the caches that are tried: the same as in [`Usual`]'s machine.
    pub(crate) fn seed(&self) -> u64 {
        match self.level {
            Level::Instr | Level::First => 0,
            Level::Data => 1,
            Level::Last => 2 * self.usual.cores as u64,
        }
    }

    /// All combinations of the lists, and the number of those that cannot be built, because the size is not a multiple of
    /// line size times ways, or with `TREE_PLRU` the number of ways not a power of two.
    ///
    /// # Errors
    /// `Usage` if there are none or too many, or if caches are too large.
    pub fn points(&self) -> Result<(Vec<Point>, u64)> {
        let lists = [
            self.sizes.len(),
            self.ways.len(),
            self.policies.len(),
            self.line_sizes.len(),
            self.prefetchers.len(),
        ];
        let n = lists.iter().try_fold(1usize, |n, list| n.checked_mul(*list)).unwrap_or(usize::MAX);
        if n > MAX_POINTS {
            return Err(Error::limit("caches in a sweep", n as u64, MAX_POINTS as u64));
        }
        let mut points = Vec::new();
        let mut n_impossible = 0;
        for &line_size in &self.line_sizes {
            for &policy in &self.policies {
                for &prefetch in &self.prefetchers {
                    for &ways in &self.ways {
                        for &size in &self.sizes {
                            let point = Point { size, ways, policy, line_size, prefetch };
                            if point.is_possible() { points.push(point) } else { n_impossible += 1 }
                        }
                    }
                }
            }
        }
        if points.is_empty() {
            return Err(Error::usage(format!("no cache of the sweep can be built: {RULE}")));
        }
        let lines = points.iter().map(|point| point.size / point.line_size);
        let lines = lines.fold(0u64, u64::saturating_add).saturating_mul(self.copies() as u64);
        if lines > MAX_LINES {
            return Err(Error::limit("lines in all caches of a sweep", lines, MAX_LINES));
        }
        Ok((points, n_impossible))
    }
}

/// One cache to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Size in bytes.
    pub size: u64,
    /// Lines per set.
    pub ways: u64,
    /// Replacement policy.
    pub policy: Policy,
    /// Line size in bytes.
    pub line_size: u64,
    /// Hardware prefetcher.
    pub prefetch: Prefetch,
}

impl Point {
    /// Number of sets.
    pub fn sets(&self) -> u64 {
        self.size / self.line_size / self.ways
    }

    fn is_possible(&self) -> bool {
        self.size > 0
            && self.size.is_multiple_of(self.line_size.saturating_mul(self.ways))
            && (self.policy != Policy::TreePlru || self.ways.is_power_of_two())
    }

    /// The description of this cache alone.
    pub(crate) fn cache(&self) -> CacheSpec {
        CacheSpec {
            policy: self.policy,
            prefetch: self.prefetch,
            ..CacheSpec::new("cache", self.size, self.ways)
        }
    }
}

fn whole(text: &str) -> Option<u64> {
    number::count(text).ok()
}

fn bytes(text: &str) -> Option<u64> {
    number::bytes(text).ok()
}

/// Parses numbers and ranges; a range consists of its first number and the doubles of it. The result is sorted and has no
/// duplicates.
fn many(
    key: &str,
    words: &[&str],
    place: Where<'_>,
    parse: impl Fn(&str) -> Option<u64>,
    is_allowed: impl Fn(&u64) -> bool,
) -> Result<Vec<u64>> {
    let mut all = Vec::new();
    for word in words {
        let one = |text: &str| parse(text).filter(&is_allowed).ok_or_else(|| wrong(place, key, word));
        match word.split_once("..") {
            None => all.push(one(word)?),
            Some((first, last)) => {
                let (first, last) = (one(first)?, one(last)?);
                if first > last {
                    return Err(wrong(place, key, word));
                }
                all.extend(
                    std::iter::successors(Some(first), |at| at.checked_mul(2)).take_while(|at| *at <= last),
                );
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Parses names and drops duplicates.
fn names<T: PartialEq>(
    key: &str,
    words: &[&str],
    place: Where<'_>,
    named: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    for word in words {
        let one = named(word).ok_or_else(|| wrong(place, key, word))?;
        if !all.contains(&one) {
            all.push(one);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_is_tried() {
        let text = "# caches of the next machine\nlevel ll\nsizes 1M..4M, 3M // and one odd\nways 8 16\nbound true\n";
        let space = Space::parse(text, "s").unwrap();
        assert_eq!(space.level, Level::Last);
        assert_eq!(space.sizes, [1 << 20, 2 << 20, 3 << 20, 4 << 20]);
        assert_eq!((&space.ways[..], space.bound), (&[8, 16][..], true));
        let (points, n_impossible) = space.points().unwrap();
        assert_eq!((points.len(), n_impossible), (8, 0), "any number of sets");
        let (points, _) = space.with([("ways", "12")].into_iter()).unwrap().points().unwrap();
        assert_eq!(
            points.iter().map(|point| (point.size, point.sets())).collect::<Vec<_>>(),
            [(3 << 20, 4096)]
        );
        let space = Space::parse("sizes 36K 48K\nways 12\npolicies LRU TREE_PLRU", "s").unwrap();
        let (points, n_impossible) = space.points().unwrap();
        assert_eq!(points.iter().map(Point::sets).collect::<Vec<_>>(), [48, 64]);
        assert_eq!(n_impossible, 2, "a tree has a power of two of ways");
    }

    #[test]
    fn a_mistake_in_any_key_is_told_with_line_key_found_and_allowed() {
        for (key, allowed) in KEYS {
            // Any word is a path.
            let n_bad = if key == "v2p-file" { 1 } else { 4 };
            for bad in ["", "-1", "psychic", "0x"].into_iter().take(n_bad) {
                let text = format!("# first\n\n{key} {bad}\n");
                let error = Space::parse(&text, "s").unwrap_err();
                assert_eq!(
                    error.message(),
                    format!("s: line 3, key {key}: found `{bad}`, allowed: {allowed}")
                );
                let error = Space::default().with([(key, bad)].into_iter()).unwrap_err();
                assert_eq!(error.message(), format!("option {key}: found `{bad}`, allowed: {allowed}"));
            }
        }
        let error = Space::parse("sizes 1K\nsize 1K\n", "s").unwrap_err();
        assert!(error.message().starts_with("s: line 2, key: found `size`, allowed: level, sizes, ways"));
        let error = Space::parse("ways 1\n\nways 2\n", "s").unwrap_err();
        assert_eq!(
            error.message(),
            "s: line 3, key ways: found `ways` again, allowed: once, and line 1 has it"
        );
        let error = Space::parse("sizes 8K..4K", "s").unwrap_err();
        assert!(error.message().starts_with("s: line 1, key sizes: found `8K..4K`, allowed: numbers"));
        assert!(Space::parse("cores 5000", "s").is_err() && Space::parse("level l1 ll", "s").is_err());
    }

    #[test]
    fn spaces_without_caches_or_with_too_many_are_refused() {
        let of = |text: &str| Space::parse(text, "s").unwrap().points().unwrap_err();
        assert!(of("sizes 96\nways 3").message().starts_with("no cache of the sweep can be built"));
        assert_eq!(of("sizes 16G..64G").kind(), quipu_model::ErrorKind::Limit);
    }
}
