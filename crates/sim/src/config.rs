//! Configuration files: text in, a machine and settings of the run out. They are drcachesim's, with additions.
//! SPEC: drmemtrace.md#simulators.
//!
//! Words are separated by white space; braces also separate themselves. `//` begins a comment only as a word of its own. The
//! top level holds `name value` and `name { … }`; a name with braces is a cache or, with the keys `entries` and `pages`, a
//! TLB. Errors name the line, the key, the value found and the values allowed.
//!
//! Additions to drcachesim: `shared_by N` stands for as many caches as needed, each for N cores; TLBs; `page_size`, the size
//! of pages; and `large_pages { size 2M from ADDR to ADDR }`, a range of addresses with larger ones.
//!
//! `words` splits the text, `block` parses caches and TLBs, `presets` holds the machines of real processors.

mod block;
mod presets;
mod words;

#[cfg(test)]
mod tests;

pub use presets::{PRESETS, Preset};

use crate::extent::{Extent, Warmup};
use crate::options::{CONFIG, CORES, CPU_SCHEDULING, MACHINE, SKIP_REFS, warmup};
use crate::spec::{CacheSpec, LargePages, MAX_CORES, MAX_DEPTH, MachineSpec};
use block::{Block, instances, parents};
use quipu_model::{Error, ErrorKind, Options, Result};
use std::collections::BTreeMap;
use words::{Word, Words};

/// Largest configuration in bytes that is accepted.
pub const MAX_BYTES: usize = 16 << 20;

/// A parsed configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of the file or preset.
    pub name: String,
    /// The machine with its caches; there are none if the file describes TLBs only.
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
    /// Size of pages outside of all ranges of large pages; `None` if the file does not say.
    pub page_bytes: Option<u64>,
    /// Ranges of addresses with larger pages.
    large: Vec<LargePages>,
    tlbs: Vec<Block>,
}

/// Keys at the top that are not caches.
const GLOBALS: &str = "num_cores, line_size, skip_refs, warmup_refs, warmup_fraction, sim_refs, cpu_scheduling, \
                       verbose, coherence, coherent, use_physical, page_size, large_pages";

/// Size of pages for which the TLBs of a file are checked, if it does not say and they hold such pages.
const PAGE_BYTES: u64 = 4096;

/// The configuration that the options `machine` or `config` name; `None` without either.
///
/// # Errors
/// Those of [`preset`], [`text_of`] and [`parse`].
pub(crate) fn of(options: &Options) -> Result<Option<Config>> {
    match options.text(&CONFIG) {
        Some(path) => parse(&text_of(path)?, path).map(Some),
        None => preset(options),
    }
}

/// The configuration of the processor that the option `machine` names, with as many cores as the option `cores` says;
/// `None` without `machine`.
///
/// # Errors
/// `Usage` for an unknown name, and those of [`parse`].
pub fn preset(options: &Options) -> Result<Option<Config>> {
    let Some(name) = options.text(&MACHINE) else { return Ok(None) };
    let cores = options.has(&CORES).then(|| options.length(&CORES));
    let preset = Preset::named(name)?;
    parse_for(preset.text, preset.name, cores).map(Some)
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
    parse_for(text, name, None)
}

/// Parses a configuration for a machine of `cores` cores instead of the number that it says.
///
/// # Errors
/// Those of [`parse`].
pub fn parse_for(text: &str, name: &str, cores: Option<usize>) -> Result<Config> {
    if text.len() > MAX_BYTES {
        return Err(Error::usage(format!("{name}: it has {} bytes, limit {MAX_BYTES}", text.len())));
    }
    let mut config = Config {
        name: name.to_owned(),
        machine: MachineSpec::new(4, 64, Vec::new()),
        skip_refs: 0,
        warmup_refs: 0,
        warmup_fraction: 0.0,
        sim_refs: None,
        cpu_scheduling: false,
        use_physical: false,
        page_bytes: None,
        large: Vec::new(),
        tlbs: Vec::new(),
    };
    let mut words = Words::new(text, name);
    let mut places = Places { name, globals: Vec::new() };
    let (mut caches, mut tlbs) = (Blocks::default(), Blocks::default());
    while let Some(key) = words.next() {
        places.globals.push((key.text, key.line));
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
            "page_size" => config.page_bytes = Some(words.page(key)?),
            "large_pages" => config.large.push(words.large_pages(key)?),
            block => match words.value(key)? {
                brace if brace.text == "{" => {
                    let mut keys = vec![("name", key.line)];
                    let block = words.block(block, &mut keys)?;
                    let part = if block.is_tlb { &mut tlbs } else { &mut caches };
                    part.blocks.push(block);
                    part.keys.push(keys);
                }
                _ => {
                    let allowed = format!("{GLOBALS}, or a cache as NAME {{ … }}");
                    return Err(words.wrong(key, "name", &allowed));
                }
            },
        }
    }
    config.machine.cores = cores.unwrap_or(config.machine.cores);
    if config.warmup_refs > 0 && config.warmup_fraction > 0.0 {
        let (line, refs) = (places.line("warmup_fraction"), places.line("warmup_refs"));
        return Err(Error::usage(format!(
            "{name}: line {line}, key warmup_fraction: found `{}`, allowed: 0.0, since line {refs} has warmup_refs",
            config.warmup_fraction
        )));
    }
    if caches.blocks.is_empty() && tlbs.blocks.is_empty() {
        let line = words.line;
        return Err(Error::usage(format!(
            "{name}: line {line}, key name: found the end of the file, allowed: a cache as NAME {{ size 32K assoc 8 … }}"
        )));
    }
    if !caches.blocks.is_empty() {
        let mut found = Vec::new();
        let checked = instances(&caches.blocks, &parents(&caches.blocks), config.machine.cores);
        let checked = checked.and_then(|instances| {
            found = instances;
            config.machine.caches = found.iter().map(|(_, cache)| cache.clone()).collect();
            config.machine.layout()
        });
        checked.map_err(|error| places.of(&error, &caches, &found))?;
    }
    if !tlbs.blocks.is_empty() {
        config.tlbs.clone_from(&tlbs.blocks);
        let mut found = Vec::new();
        let checked = config.tlb_instances(config.usual_page());
        let checked = checked.and_then(|(machine, instances)| {
            found = instances;
            MachineSpec { caches: found.iter().map(|(_, tlb)| tlb.clone()).collect(), ..machine }.layout()
        });
        checked.map_err(|error| places.of(&error, &tlbs, &found))?;
    }
    Ok(config)
}

impl Config {
    /// The TLBs of the machine, for pages of `page_bytes` outside of the ranges of large pages that the file names. TLBs that
    /// hold none of the pages in use are left out, and so are ranges whose pages are no larger.
    ///
    /// # Errors
    /// `Usage` if there are no TLBs, or not those that these pages need.
    pub fn tlbs(&self, page_bytes: u64) -> Result<MachineSpec> {
        if self.tlbs.is_empty() {
            return Err(Error::usage(format!("{}: it describes no TLBs", self.name)).hint(
                "a TLB is NAME { type data shared_by 1 entries 64 assoc 4 pages 4K,2M parent L2TLB }",
            ));
        }
        let in_file = |error: Error| Error::usage(format!("{}: {}", self.name, error.message()));
        let (machine, found) = self.tlb_instances(page_bytes).map_err(in_file)?;
        let machine = MachineSpec { caches: found.into_iter().map(|(_, tlb)| tlb).collect(), ..machine };
        machine.layout().map_err(in_file)?;
        Ok(machine)
    }

    /// The caches of the machine.
    ///
    /// # Errors
    /// `Usage` if there are none.
    pub fn caches(&self) -> Result<MachineSpec> {
        if self.machine.caches.is_empty() {
            return Err(Error::usage(format!("{}: it describes TLBs only, no caches", self.name))
                .hint("a cache is NAME { type data shared_by 1 size 32K assoc 8 parent LL }"));
        }
        Ok(self.machine.clone())
    }

    /// A size of pages for which to check TLBs: that of the file or, if it says none, one that a TLB holds.
    fn usual_page(&self) -> u64 {
        let holds = |block: &Block| block.cache.holds(PAGE_BYTES);
        let first = || self.tlbs.iter().flat_map(|block| &block.cache.pages).next();
        let held = if self.tlbs.iter().any(holds) { None } else { first() };
        self.page_bytes.or(held.copied()).unwrap_or(PAGE_BYTES)
    }

    /// A machine without TLBs, and its TLBs, each with the position of its block.
    fn tlb_instances(&self, page_bytes: u64) -> Result<(MachineSpec, Vec<(usize, CacheSpec)>)> {
        let machine = MachineSpec {
            large: self.large.iter().copied().filter(|of| of.bytes > page_bytes).collect(),
            ..MachineSpec::new(self.machine.cores, page_bytes, Vec::new())
        };
        let sizes = machine.page_sizes();
        if let Some(size) = sizes.iter().find(|size| !self.tlbs.iter().any(|of| of.cache.holds(**size))) {
            return Err(Error::usage(format!("no TLB holds pages of {size} bytes")));
        }
        let is_used = |block: &Block| sizes.iter().any(|size| block.cache.holds(*size));
        let by_name: BTreeMap<&str, &Block> =
            self.tlbs.iter().map(|block| (block.cache.name.as_str(), block)).collect();
        let (mut used, mut places) = (Vec::new(), Vec::new());
        for (place, block) in self.tlbs.iter().enumerate().filter(|(_, block)| is_used(block)) {
            let mut block = block.clone();
            // A parent without such pages passes all requests on to its own. `layout` refuses circles.
            for _ in 0..MAX_DEPTH {
                let parent = block.cache.parent.as_deref().and_then(|name| by_name.get(name).copied());
                let Some(unused) = parent.filter(|parent| !is_used(parent)) else { break };
                block.cache.parent.clone_from(&unused.cache.parent);
            }
            block.cache.bytes = block.cache.bytes.saturating_mul(page_bytes);
            block.cache.pages.retain(|size| sizes.contains(size));
            used.push(block);
            places.push(place);
        }
        let mut found = instances(&used, &parents(&self.tlbs), machine.cores)?;
        found.iter_mut().for_each(|(at, _)| *at = places[*at]);
        Ok((machine, found))
    }

    /// Adds the settings of the run to those that options make. Options override the file.
    ///
    /// # Errors
    /// `Usage` if two kinds of warm-up come together.
    pub(crate) fn add_to(&self, options: &Options, extent: &mut Extent) -> Result<bool> {
        if !options.has(&SKIP_REFS) {
            extent.skip = self.skip_refs;
        }
        if extent.warmup == Warmup::None {
            extent.warmup = warmup(self.warmup_refs, self.warmup_fraction)?;
        }
        extent.take = extent.take.or(self.sim_refs);
        Ok(options.flag(&CPU_SCHEDULING) || self.cpu_scheduling)
    }
}

impl Words<'_> {
    /// Parses a range of large pages: `{ size 2M from 0x200000 to 0x400000 }`, without the last address.
    fn large_pages(&mut self, start: Word<'_>) -> Result<LargePages> {
        const FORM: &str = "{ size 2M from ADDR to ADDR }";
        let brace = self.value(start)?;
        if brace.text != "{" {
            return Err(self.wrong(brace, start.text, FORM));
        }
        let (mut bytes, mut from, mut to) = (None, None, None);
        loop {
            let key = self.next().ok_or_else(|| self.open(start.line, start.text))?;
            match key.text {
                "}" => break,
                "size" => bytes = Some(self.page(key)?),
                "from" => from = Some(self.addr(key)?),
                "to" => to = Some(self.addr(key)?),
                _ => return Err(self.wrong(key, "name", "size, from, to")),
            }
        }
        let (Some(bytes), Some((word, first)), Some((end_word, end))) = (bytes, from, to) else {
            return Err(self.wrong(brace, start.text, FORM));
        };
        let is_whole = |addr: u64| addr.is_multiple_of(bytes);
        if !is_whole(first) || !is_whole(end) || first >= end {
            let word = if is_whole(first) { end_word } else { word };
            let allowed = format!("a range from one multiple of {bytes} to a later one");
            return Err(self.wrong(word, start.text, &allowed));
        }
        Ok(LargePages { bytes, first, last: end - 1 })
    }
}

/// The caches or TLBs of a file, and the line of each of their keys: the name, and then the others.
#[derive(Default)]
struct Blocks<'t> {
    blocks: Vec<Block>,
    keys: Vec<Vec<(&'t str, usize)>>,
}

/// The places to which messages refer.
struct Places<'t> {
    /// Name of the file.
    name: &'t str,
    /// Line of each key at the top.
    globals: Vec<(&'t str, usize)>,
}

impl Places<'_> {
    /// Line of a key at the top; 1 if it is missing.
    fn line(&self, key: &str) -> usize {
        self.globals.iter().rev().find(|(known, _)| *known == key).map_or(1, |(_, line)| *line)
    }

    /// The error of a machine that does not hold together, with the line of the key that it names.
    #[cold]
    fn of(&self, error: &Error, blocks: &Blocks<'_>, found: &[(usize, CacheSpec)]) -> Error {
        let message = error.message();
        let rest_after = |cache: &str| message.strip_prefix(&format!("cache `{cache}`, key "));
        // The message names an instance, or a block whose instances cannot be made.
        let instance = found.iter().rev().find_map(|(at, cache)| Some((*at, rest_after(&cache.name)?)));
        let of_block = || {
            let mut all = blocks.blocks.iter().enumerate().rev();
            all.find_map(|(at, block)| Some((at, rest_after(&block.cache.name)?)))
        };
        let own = instance.or_else(of_block).and_then(|(at, rest)| {
            let key = rest.split(':').next()?;
            let keys = blocks.keys.get(at)?;
            // If the cache does not set the key, report the line of the cache's name.
            keys.iter().rev().find(|(known, _)| *known == key).or(keys.first()).map(|(_, line)| *line)
        });
        let key = message.strip_prefix("key ").and_then(|rest| rest.split(':').next());
        let line = own.or(key.map(|key| self.line(key))).unwrap_or(1);
        Error::usage(format!("{}: line {line}, {message}", self.name))
    }
}
