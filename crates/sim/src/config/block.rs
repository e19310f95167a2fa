//! Blocks of a configuration: a cache or TLB in braces, and the caches that a block stands for.

use super::words::{Word, Words};
use crate::spec::{CacheSpec, Inclusion, MAX_CACHES, MAX_CORES, Policy, Prefetch, Role, Rrip};
use quipu_model::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Keys of a block.
pub(super) const KEYS: &str = "type, core, shared_by, size, assoc, inclusive, exclusive, parent, replace_policy, \
                               prefetcher, miss_file, entries, pages";
/// Those of a TLB.
const TLB_KEYS: &str = "type, core, shared_by, entries, assoc, pages, parent, replace_policy";
/// Those that a TLB does not have.
const CACHE_ONLY: [&str; 5] = ["size", "inclusive", "exclusive", "prefetcher", "miss_file"];

/// A cache or TLB as a file describes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Block {
    /// Its description. In a TLB, `bytes` is the number of entries, because the size of pages is not known yet.
    pub(super) cache: CacheSpec,
    /// Number of cores that share one of its instances; `None` if there is only one.
    pub(super) shared_by: Option<usize>,
    pub(super) is_tlb: bool,
}

impl<'t> Words<'t> {
    /// Parses the part between the braces of a cache or TLB.
    pub(super) fn block(&mut self, name: &str, keys: &mut Vec<(&'t str, usize)>) -> Result<Block> {
        let mut cache = CacheSpec::new(name, 0, 0);
        let (mut inclusive, mut exclusive) = (false, false);
        let (mut shared_by, mut is_full) = (None, None);
        let here = self.line;
        let end = loop {
            let key = self.next().ok_or_else(|| self.open(here, name))?;
            keys.push((key.text, key.line));
            match key.text {
                "}" => break key.line,
                "type" => {
                    let value = self.value(key)?;
                    cache.role = match value.text {
                        "instruction" => Role::Instruction,
                        "data" => Role::Data,
                        "unified" => Role::Unified,
                        _ => return Err(self.wrong(value, "type", "instruction, data, unified")),
                    };
                }
                "core" => cache.core = Some(self.small(key)? as usize),
                "shared_by" => {
                    let (word, cores) = self.number(key)?;
                    let cores = usize::try_from(cores).ok().filter(|cores| (1..=MAX_CORES).contains(cores));
                    let allowed = format!("1 to {MAX_CORES}");
                    shared_by = Some(cores.ok_or_else(|| self.wrong(word, key.text, &allowed))?);
                }
                "size" => cache.bytes = self.size(key)?,
                "entries" => {
                    let (word, entries) = self.number(key)?;
                    if entries == 0 {
                        return Err(self.wrong(word, key.text, "1 or more"));
                    }
                    cache.bytes = entries;
                }
                "assoc" => {
                    let value = self.value(key)?;
                    is_full = (value.text == "full").then_some(value);
                    if is_full.is_none() {
                        let ways = value.text.parse().ok().filter(|_| !value.text.starts_with('+'));
                        cache.ways = ways.ok_or_else(|| self.wrong(value, key.text, "a whole number"))?;
                    }
                }
                "pages" => cache.pages = self.pages(key)?,
                "inclusive" => inclusive = self.flag(key)?,
                "exclusive" => exclusive = self.flag(key)?,
                "parent" => {
                    let value = self.value(key)?;
                    cache.parent = (value.text != "memory").then(|| value.text.to_owned());
                }
                "replace_policy" => cache.policy = self.policy(key)?,
                "prefetcher" => {
                    let value = self.value(key)?;
                    cache.prefetch = Prefetch::named(value.text).ok_or_else(|| {
                        self.wrong(value, "prefetcher", &Prefetch::NAMES.map(|(name, _)| name).join(", "))
                    })?;
                }
                "miss_file" => cache.miss_file = Some(self.value(key)?.text.to_owned()),
                _ => return Err(self.wrong(key, "name", KEYS)),
            }
            if inclusive && exclusive {
                return Err(self.wrong(key, key.text, "one of inclusive and exclusive, not both"));
            }
        };
        let has = |wanted: &str| keys.iter().any(|(key, _)| *key == wanted);
        let is_tlb = has("entries") || has("pages");
        let needed: &[&str] = if is_tlb { &["entries", "assoc", "pages"] } else { &["size", "assoc"] };
        if let Some(lacks) = needed.iter().find(|lacks| !keys.iter().any(|(key, _)| key == *lacks)) {
            return Err(Error::usage(format!(
                "{}: line {end}, cache `{name}`, key {lacks}: found nothing, allowed: a value, before the brace that closes",
                self.name
            )));
        }
        if let Some(full) = is_full {
            if !is_tlb {
                return Err(self.wrong(full, "assoc", "a whole number"));
            }
            cache.ways = cache.bytes;
        }
        if is_tlb {
            self.check_tlb(&cache, keys)?;
        }
        cache.inclusion = match (inclusive, exclusive) {
            (true, _) => Inclusion::Inclusive,
            (_, true) => Inclusion::Exclusive,
            _ => Inclusion::Free,
        };
        Ok(Block { cache, shared_by, is_tlb })
    }

    /// Checks what is special about TLBs.
    fn check_tlb(&self, tlb: &CacheSpec, keys: &[(&'t str, usize)]) -> Result<()> {
        if let Some(&(text, line)) = keys.iter().find(|(key, _)| CACHE_ONLY.contains(key)) {
            let allowed = format!("keys of a TLB: {TLB_KEYS}");
            return Err(self.wrong(Word { text, line }, text, &allowed));
        }
        let line = keys.iter().rev().find(|(key, _)| *key == "assoc").map_or(1, |(_, line)| *line);
        if tlb.ways == 0 || !tlb.bytes.is_multiple_of(tlb.ways) {
            return Err(Error::usage(format!(
                "{}: line {line}, key assoc: found `{}`, allowed: full, or a number that divides entries, {}",
                self.name, tlb.ways, tlb.bytes
            )));
        }
        Ok(())
    }

    fn policy(&mut self, key: Word<'_>) -> Result<Policy> {
        let value = self.value(key)?;
        if value.text == "{" {
            return self.policy_in_braces(key);
        }
        Policy::named(value.text).ok_or_else(|| self.wrong(value, key.text, &policies()))
    }

    fn policy_in_braces(&mut self, start: Word<'_>) -> Result<Policy> {
        let mut policy = None;
        let (mut bits, mut period, mut longs) = (None, None, None);
        loop {
            let key = self.next().ok_or_else(|| self.open(start.line, start.text))?;
            match key.text {
                "}" => break,
                "type" => {
                    let value = self.value(key)?;
                    let named = Policy::named(value.text);
                    policy = Some(named.ok_or_else(|| self.wrong(value, key.text, &policies()))?);
                }
                "rrpv_bits" => bits = Some(self.small(key)?),
                "rrpv_period" => period = Some(self.small(key)?),
                "rrpv_long_per_period" => longs = Some(self.small(key)?),
                _ => {
                    let keys = "type, rrpv_bits, rrpv_period, rrpv_long_per_period";
                    return Err(self.wrong(key, "name", keys));
                }
            }
        }
        match (policy, bits, period, longs) {
            (Some(Policy::Rrip(_)), Some(bits), Some(period), Some(long_per_period)) => {
                Ok(Policy::Rrip(Rrip { bits, period, long_per_period }))
            }
            (Some(Policy::Rrip(default)), None, None, None) => Ok(Policy::Rrip(default)),
            (Some(other), None, None, None) => Ok(other),
            _ => {
                let Word { text, line } = start;
                Err(Error::usage(format!(
                    "{}: line {line}, key {text}: found braces without these, allowed: a type, and with type RRIP all \
                     of rrpv_bits, rrpv_period, rrpv_long_per_period",
                    self.name
                )))
            }
        }
    }
}

fn policies() -> String {
    Policy::NAMES.map(|(name, _)| name).join(", ")
}

/// Names of the blocks that are the parent of another.
pub(super) fn parents(blocks: &[Block]) -> BTreeSet<&str> {
    blocks.iter().filter_map(|block| block.cache.parent.as_deref()).collect()
}

/// The caches that blocks stand for on a machine of `cores` cores, each with the position of its block. A block with
/// `shared_by` has an instance for each group of this many cores; if no other block names it as its parent, its instances are
/// the first caches of their cores.
///
/// # Errors
/// `Usage` if the cores of an instance have different parents.
pub(super) fn instances(
    blocks: &[Block],
    parents: &BTreeSet<&str>,
    cores: usize,
) -> Result<Vec<(usize, CacheSpec)>> {
    let shared: BTreeMap<&str, usize> =
        blocks.iter().filter_map(|block| Some((block.cache.name.as_str(), block.shared_by?))).collect();
    let mut all = Vec::new();
    for (at, Block { cache, shared_by, .. }) in blocks.iter().enumerate() {
        // The parent of an instance for cores from `core` on.
        let parent = |core: usize, n_cores: usize| {
            let Some(name) = &cache.parent else { return Ok(None) };
            match shared.get(name.as_str()) {
                None => Ok(Some(name.clone())),
                Some(n) if core % n + n_cores <= *n => Ok(Some(instance(name, core / n))),
                Some(n) => Err(Error::usage(format!(
                    "cache `{}`, key parent: found `{name}`, allowed: a cache whose cores include all of its own; {n} cores \
                     share each `{name}`",
                    cache.name
                ))),
            }
        };
        let n = match (*shared_by, cache.core) {
            (Some(n), None) => n,
            (n, Some(core)) => {
                let n_cores = n.unwrap_or(1);
                all.push((at, CacheSpec { n_cores, parent: parent(core, n_cores)?, ..cache.clone() }));
                continue;
            }
            (None, None) => {
                all.push((at, CacheSpec { parent: parent(0, cores)?, ..cache.clone() }));
                continue;
            }
        };
        let is_first = !parents.contains(cache.name.as_str());
        for number in 0..cores.div_ceil(n) {
            // `layout` refuses more.
            if all.len() > MAX_CACHES {
                return Ok(all);
            }
            let start = number * n;
            let n_cores = n.min(cores - start);
            all.push((
                at,
                CacheSpec {
                    name: instance(&cache.name, number),
                    core: is_first.then_some(start),
                    n_cores,
                    parent: parent(start, n_cores)?,
                    ..cache.clone()
                },
            ));
        }
    }
    Ok(all)
}

/// Name of an instance. A hyphen keeps the `L2` of core 0 from being named `L20`.
fn instance(name: &str, number: usize) -> String {
    let hyphen = if name.ends_with(|c: char| c.is_ascii_digit()) { "-" } else { "" };
    format!("{name}{hyphen}{number}")
}
