//! drcachesim's configuration files: text in, a machine and settings of the run out. SPEC: drmemtrace.md#simulators.
//!
//! Words are separated by white space; braces also separate themselves. `//` begins a comment only as a word of its own. The
//! top level holds `name value` and `name { … }`; a name with braces is a cache. Errors name the line, the key, the value
//! found and the values allowed.

use crate::options::CONFIG;
use crate::spec::{CacheSpec, Inclusion, MAX_CORES, MachineSpec, Policy, Prefetch, Role, Rrip};
use quipu_model::{Error, ErrorKind, Options, Result};

/// Largest configuration in bytes that is accepted.
pub const MAX_BYTES: usize = 16 << 20;

/// A parsed configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The machine.
    pub machine: MachineSpec,
    /// Records to skip first.
    pub skip_refs: u64,
    /// Records to warm up with.
    pub warmup_refs: u64,
    /// Share of the last-level caches that has to be filled before the warm-up ends.
    pub warmup_fraction: f64,
    /// Records to simulate; `None` for all.
    pub sim_refs: Option<u64>,
    /// Whether threads run on the CPUs that the trace recorded for them.
    pub cpu_scheduling: bool,
    /// Whether addresses are translated to physical ones.
    pub use_physical: bool,
}

/// Keys at the top that are not caches.
const GLOBALS: &str = "num_cores, line_size, skip_refs, warmup_refs, warmup_fraction, sim_refs, cpu_scheduling, \
                       verbose, coherence, coherent, use_physical";
/// Keys of a cache.
const KEYS: &str =
    "type, core, size, assoc, inclusive, exclusive, parent, replace_policy, prefetcher, miss_file";

/// The configuration that the option `config` names; `None` without it.
///
/// # Errors
/// Those of [`text_of`] and [`parse`].
pub(crate) fn of(options: &Options) -> Result<Option<Config>> {
    let path = options.text(&CONFIG);
    path.map(|path| parse(&text_of(path)?, path)).transpose()
}

/// The text of a small file.
///
/// # Errors
/// `Io` with the file.
pub(crate) fn text_of(path: &str) -> Result<String> {
    std::fs::read_to_string(path)
        .map_err(|cause| Error::new(ErrorKind::Io, "cannot read the file").in_file(path).because(cause))
}

/// Parses a configuration; `name` stands for it in messages.
///
/// # Errors
/// `Usage`: `caches.conf: line 7, key assoc: found `x`, allowed: a whole number`.
pub fn parse(text: &str, name: &str) -> Result<Config> {
    if text.len() > MAX_BYTES {
        return Err(Error::usage(format!("{name}: it has {} bytes, limit {MAX_BYTES}", text.len())));
    }
    let mut config = Config {
        machine: MachineSpec { cores: 4, line_bytes: 64, coherent: false, caches: Vec::new(), seed: 0 },
        skip_refs: 0,
        warmup_refs: 0,
        warmup_fraction: 0.0,
        sim_refs: None,
        cpu_scheduling: false,
        use_physical: false,
    };
    let mut words = Words::new(text, name);
    // Line of each key: the keys at the top, and for each cache its name and then its keys.
    let mut globals: Vec<(&str, usize)> = Vec::new();
    let mut keys: Vec<Vec<(&str, usize)>> = Vec::new();
    while let Some(key) = words.next() {
        globals.push((key.text, key.line));
        match key.text {
            "{" | "}" => return Err(words.wrong(key, "name", "the name of a setting or a cache")),
            "num_cores" => {
                let value = words.number(key)?;
                config.machine.cores = usize::try_from(value.1)
                    .ok()
                    .filter(|cores| (1..=MAX_CORES).contains(cores))
                    .ok_or_else(|| words.wrong(value.0, key.text, &format!("1 to {MAX_CORES}")))?;
            }
            "line_size" => {
                let value = words.number(key)?;
                if !value.1.is_power_of_two() || value.1 < 4 {
                    return Err(words.wrong(value.0, key.text, "a power of two, 4 or more"));
                }
                config.machine.line_bytes = value.1;
            }
            "skip_refs" => config.skip_refs = words.number(key)?.1,
            "warmup_refs" => config.warmup_refs = words.number(key)?.1,
            "sim_refs" => config.sim_refs = Some(words.number(key)?.1),
            "warmup_fraction" => config.warmup_fraction = words.fraction(key)?,
            "cpu_scheduling" => config.cpu_scheduling = words.flag(key)?,
            "use_physical" => config.use_physical = words.flag(key)?,
            "coherence" | "coherent" => config.machine.coherent = words.flag(key)?,
            "verbose" => _ = words.number(key)?,
            cache => match words.value(key)? {
                brace if brace.text == "{" => {
                    let mut own = vec![("name", key.line)];
                    config.machine.caches.push(words.cache(cache, &mut own)?);
                    keys.push(own);
                }
                _ => {
                    let allowed = format!("{GLOBALS}, or a cache as NAME {{ … }}");
                    return Err(words.wrong(key, "name", &allowed));
                }
            },
        }
    }
    let at_top =
        |key: &str| globals.iter().rev().find(|(known, _)| *known == key).map_or(1, |(_, line)| *line);
    if config.warmup_refs > 0 && config.warmup_fraction > 0.0 {
        let (line, refs) = (at_top("warmup_fraction"), at_top("warmup_refs"));
        return Err(Error::usage(format!(
            "{name}: line {line}, key warmup_fraction: found `{}`, allowed: 0.0, since line {refs} has warmup_refs",
            config.warmup_fraction
        )));
    }
    if config.machine.caches.is_empty() {
        let line = words.line;
        return Err(Error::usage(format!(
            "{name}: line {line}, key name: found the end of the file, allowed: a cache as NAME {{ size 32K assoc 8 … }}"
        )));
    }
    if let Err(error) = config.machine.layout() {
        // The message names the cache and its key.
        let culprits = config.machine.caches.iter().zip(&keys);
        let own = culprits.rev().find_map(|(cache, keys)| {
            let rest = error.message().strip_prefix(&format!("cache `{}`, key ", cache.name))?;
            let key = rest.split(':').next()?;
            // If the cache does not set the key, report the line of the cache's name.
            let last = keys.iter().rev().find(|(known, _)| *known == key).or(keys.first());
            last.map(|(_, line)| *line)
        });
        let key = error.message().strip_prefix("key ").and_then(|rest| rest.split(':').next());
        let line = own.or(key.map(at_top)).unwrap_or(1);
        return Err(Error::usage(format!("{name}: line {line}, {}", error.message())));
    }
    Ok(config)
}

/// A word and its line.
#[derive(Clone, Copy, Debug)]
struct Word<'t> {
    text: &'t str,
    line: usize,
}

/// Splits a text into words and counts lines.
struct Words<'t> {
    rest: &'t str,
    line: usize,
    name: &'t str,
}

impl<'t> Words<'t> {
    fn new(text: &'t str, name: &'t str) -> Words<'t> {
        Words { rest: text, line: 1, name }
    }

    fn next(&mut self) -> Option<Word<'t>> {
        loop {
            let blank = self.rest.find(|c: char| !c.is_whitespace()).unwrap_or(self.rest.len());
            self.line += self.rest[..blank].matches('\n').count();
            self.rest = &self.rest[blank..];
            if self.rest.is_empty() {
                return None;
            }
            let end = match self.rest.as_bytes()[0] {
                b'{' | b'}' => 1,
                _ => {
                    let ends = |c: char| c.is_whitespace() || c == '{' || c == '}';
                    self.rest.find(ends).unwrap_or(self.rest.len())
                }
            };
            let (text, rest) = self.rest.split_at(end);
            self.rest = rest;
            if text != "//" {
                return Some(Word { text, line: self.line });
            }
            self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
        }
    }

    #[cold]
    fn wrong(&self, found: Word<'_>, key: &str, allowed: &str) -> Error {
        let Word { text, line } = found;
        Error::usage(format!("{}: line {line}, key {key}: found `{text}`, allowed: {allowed}", self.name))
    }

    /// The value that follows `key`.
    fn value(&mut self, key: Word<'_>) -> Result<Word<'t>> {
        self.next().ok_or_else(|| {
            let Word { text, line } = key;
            Error::usage(format!(
                "{}: line {line}, key {text}: found the end of the file, allowed: a value",
                self.name
            ))
        })
    }

    fn number(&mut self, key: Word<'_>) -> Result<(Word<'t>, u64)> {
        let value = self.value(key)?;
        match value.text.parse() {
            Ok(number) if !value.text.starts_with('+') => Ok((value, number)),
            _ => Err(self.wrong(value, key.text, "a whole number")),
        }
    }

    fn small(&mut self, key: Word<'_>) -> Result<u32> {
        let (word, number) = self.number(key)?;
        u32::try_from(number).map_err(|_| self.wrong(word, key.text, "a number below 2^32"))
    }

    fn size(&mut self, key: Word<'_>) -> Result<u64> {
        let value = self.value(key)?;
        size(value.text)
            .ok_or_else(|| self.wrong(value, key.text, "a number of bytes, with K, M or G for powers of two"))
    }

    fn flag(&mut self, key: Word<'_>) -> Result<bool> {
        let value = self.value(key)?;
        match value.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.wrong(value, key.text, "true, false")),
        }
    }

    fn fraction(&mut self, key: Word<'_>) -> Result<f64> {
        let value = self.value(key)?;
        match value.text.parse() {
            Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
            _ => Err(self.wrong(value, key.text, "a number from 0.0 to 1.0")),
        }
    }

    /// Parses the part between the braces of a cache.
    fn cache(&mut self, name: &str, keys: &mut Vec<(&'t str, usize)>) -> Result<CacheSpec> {
        let mut cache = CacheSpec::new(name, 0, 0);
        let (mut inclusive, mut exclusive) = (false, false);
        let here = self.line;
        loop {
            let key = self.next().ok_or_else(|| self.open(here, name))?;
            keys.push((key.text, key.line));
            match key.text {
                "}" => {
                    if let Some(lacks) =
                        ["size", "assoc"].iter().find(|lacks| !keys.iter().any(|(key, _)| key == *lacks))
                    {
                        let Word { line, .. } = key;
                        return Err(Error::usage(format!(
                            "{}: line {line}, cache `{name}`, key {lacks}: found nothing, allowed: a value, before the brace that closes",
                            self.name
                        )));
                    }
                    break;
                }
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
                "size" => cache.bytes = self.size(key)?,
                "assoc" => cache.ways = self.number(key)?.1,
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
        }
        cache.inclusion = match (inclusive, exclusive) {
            (true, _) => Inclusion::Inclusive,
            (_, true) => Inclusion::Exclusive,
            _ => Inclusion::Free,
        };
        Ok(cache)
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

    #[cold]
    fn open(&self, line: usize, what: &str) -> Error {
        Error::usage(format!(
            "{}: line {line}, key {what}: found the end of the file, allowed: a closing brace",
            self.name
        ))
    }
}

fn policies() -> String {
    Policy::NAMES.map(|(name, _)| name).join(", ")
}

/// Parses a size with an optional `K`, `M` or `G` (powers of two, either case). Accepts exactly what drcachesim does, so
/// that a file that works here works there.
fn size(text: &str) -> Option<u64> {
    let shift = match text.bytes().last()? {
        b'k' | b'K' => 10,
        b'm' | b'M' => 20,
        b'g' | b'G' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    if digits.starts_with('+') {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "num_cores 1\nL1I { type instruction core 0 size 4K assoc 4 parent LL }\n\
                         L1D{type data core 0 size 4K assoc 4 parent LL prefetcher nextline}\n\
                         LL { size 1M assoc 16 replace_policy { type RRIP rrpv_bits 2 rrpv_period 32 \
                         rrpv_long_per_period 2 } } // the last\n";

    fn refused(text: &str, message: &str) {
        assert_eq!(parse(text, "c").unwrap_err().message(), message);
    }

    #[test]
    fn a_configuration_says_what_the_caches_are() {
        let config = parse(SMALL, "c").unwrap();
        assert_eq!(config.machine.caches.len(), 3);
        let [l1i, l1d, ll] = &config.machine.caches[..] else { panic!("three caches") };
        assert_eq!((l1i.role, l1i.bytes, l1i.ways, l1i.core), (Role::Instruction, 4096, 4, Some(0)));
        assert_eq!((l1d.prefetch, l1d.parent.as_deref()), (Prefetch::NextLine, Some("LL")));
        assert_eq!(ll.policy, Policy::Rrip(Rrip { bits: 2, period: 32, long_per_period: 2 }));
        assert_eq!((ll.role, ll.core, ll.parent.as_deref()), (Role::Unified, None, None));
    }

    #[test]
    fn a_mistake_is_told_with_line_key_found_and_allowed() {
        refused(
            &SMALL.replace("size 1M", "size 1X"),
            "c: line 4, key size: found `1X`, allowed: a number of bytes, with K, M or G for powers of two",
        );
        refused(
            &SMALL.replace("nextline", "psychic"),
            "c: line 3, key prefetcher: found `psychic`, allowed: none, nextline, stride, stream",
        );
        refused(
            &SMALL.replace("type data", "type date"),
            "c: line 3, key type: found `date`, allowed: instruction, data, unified",
        );
        refused(
            &format!("{SMALL}coherence maybe"),
            "c: line 5, key coherence: found `maybe`, allowed: true, false",
        );
        refused(
            &SMALL.replace("assoc 16", "ways 16"),
            "c: line 4, key name: found `ways`, allowed: type, core, size, assoc, inclusive, exclusive, parent, \
             replace_policy, prefetcher, miss_file",
        );
        refused(
            &SMALL.replace("assoc 16", "assoc 3"),
            "c: line 4, cache `LL`, key assoc: found `3`, allowed: 1 or more, so that size 1048576 is a multiple of assoc \
             times the line size 64",
        );
        refused(
            &SMALL.replace("parent LL }\n", "parent L9 }\n"),
            "c: line 2, cache `L1I`, key parent: found `L9`, allowed: memory, or the name of a cache",
        );
        refused("num_cores", "c: line 1, key num_cores: found the end of the file, allowed: a value");
        refused("LL { size 4K", "c: line 1, key LL: found the end of the file, allowed: a closing brace");
    }

    #[test]
    fn circles_and_missing_caches_are_told() {
        let circle = SMALL.replace("LL { size", "LL { parent L2 size") + "L2 { size 1M assoc 16 parent LL }";
        refused(
            &circle,
            "c: line 2, cache `L1I`, key parent: found `LL`, allowed: a chain of parents that ends, after 32 at most",
        );
        refused(
            &SMALL.replace("num_cores 1", "num_cores 2"),
            "c: line 1, key num_cores: found `2`, allowed: as many as have caches of their own; core 1 has no instruction \
             cache",
        );
    }

    /// Asserts that the message names the file, this line and key, what was found and what is allowed.
    fn told(text: &str, line: usize, key: &str, found: &str) {
        let error = parse(text, "c").unwrap_err();
        let message = error.message();
        let (place, rest) = message.split_once(": found ").unwrap_or_else(|| panic!("{message}"));
        assert!(place.starts_with(&format!("c: line {line}, ")), "{message}");
        assert!(place.ends_with(&format!("key {key}")), "{message}");
        assert!(rest.starts_with(found) && rest.contains(", allowed: "), "{message}");
    }

    #[test]
    fn every_key_tells_a_wrong_value() {
        let globals = [
            "num_cores",
            "line_size",
            "skip_refs",
            "warmup_refs",
            "warmup_fraction",
            "sim_refs",
            "cpu_scheduling",
            "verbose",
            "coherence",
            "coherent",
            "use_physical",
        ];
        assert_eq!(globals.len(), GLOBALS.split(',').count());
        for key in globals {
            for bad in ["-1", "x", "0x1"] {
                told(&format!("{SMALL}\n{key}\n{bad}\n"), 7, key, &format!("`{bad}`"));
            }
            told(&format!("{SMALL}{key}"), 5, key, "the end of the file");
        }
        for key in KEYS.split(", ").filter(|key| !["parent", "miss_file"].contains(key)) {
            let with = |value: &str| format!("{SMALL}L2 {{ size 1M\n{key} {value}\n}}");
            for bad in ["-1", "x", "}"] {
                told(&with(bad), 6, key, &format!("`{bad}`"));
            }
        }
        for key in ["rrpv_bits", "rrpv_period", "rrpv_long_per_period", "type"] {
            let text = SMALL.replace("rrpv_bits 2", &format!("\n{key} x"));
            told(&text, 5, key, "`x`");
        }
        told(&format!("{SMALL}sizes 1"), 5, "name", "`sizes`");
        told(&format!("{SMALL}}}"), 5, "name", "`}`");
    }

    #[test]
    fn what_does_not_fit_together_is_told_at_its_key() {
        let with = |from: &str, to: &str| SMALL.replace(from, to);
        told(&with("LL { size", "LL { exclusive true\n inclusive true size"), 5, "inclusive", "`inclusive`");
        told(&with("size 1M assoc 16", "\nsize 1M\nassoc 3"), 6, "assoc", "`3`");
        told(&with("LL { size 1M assoc 16", "LL {\nsize 1048577\nassoc 16"), 5, "size", "`1048577`");
        let unified = "num_cores 1\nL1 { core 0 size 4K\nassoc 4 }\nL2 { size 8K assoc 4 parent L1 }";
        told(unified, 2, "core", "`0`");
        told(&with("parent LL }\n", "parent LL\ncore 7 }\n"), 3, "core", "`7`");
        told(&with("LL { size 1M", "LL { type\ndata size 1M"), 2, "parent", "`LL`");
        told(&with("rrpv_bits 2", "rrpv_bits 40"), 4, "replace_policy", "`RRIP 40 32 2`");
        told(&with("rrpv_bits 2", ""), 4, "replace_policy", "braces");
        told(&(SMALL.to_owned() + "L1I { size 4K assoc 4 }"), 5, "name", "`L1I`");
        told(&(SMALL.to_owned() + "L2 {\nsize 4K assoc 4 }"), 5, "core", "`nothing`");
        told(
            "warmup_refs 3\nwarmup_fraction 0.5\nL { core 0 size 4K assoc 4 }",
            2,
            "warmup_fraction",
            "`0.5`",
        );
        told("num_cores 1\n\n", 3, "name", "the end of the file");
        told(
            &format!(
                "{}LL {{ size 1M assoc 16 inclusive true\nreplace_policy OPT }}",
                &SMALL[..SMALL.find("LL { size").unwrap()]
            ),
            5,
            "replace_policy",
            "`OPT`",
        );
    }

    #[test]
    fn a_comment_mark_inside_a_word_is_none() {
        refused(
            &SMALL.replace("parent LL prefetcher", "parent //LL prefetcher"),
            "c: line 3, cache `L1D`, key parent: found `//LL`, allowed: memory, or the name of a cache",
        );
    }
}
