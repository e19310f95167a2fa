//! `quipu sim`: machines that serve the accesses of a trace; `sweep` has many at once.

use super::sweep;
use crate::page::{self, PageOptions};
use crate::typing::Typing;
use quipu::engine::Planned;
use quipu::model::pass::Detail;
use quipu::model::{Args, Error, Report, Trace, Window};
use quipu::sim::{Simulated, tlbs};
use quipu_console::Common;
use quipu_console::input::Input;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use quipu_console::simulation::{self, Surroundings};
use serde_json::Map;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Simulate caches or TLBs
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(subcommand)]
    machine: Machine,
}

const AFTER_HELP: &str = "\
Examples:
  quipu sim cache trace.zip
  quipu sim cache --config hierarchy.conf --causes trace.dir
  quipu sim tlb --page-size 2M --json trace.dir
  quipu sim sweep --level ll --sizes 1M..16M --ways 8,16 --policies LRU,RRIP --bound trace.zip

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it";

const CACHE_HELP: &str = "\
Examples:
  quipu sim cache trace.zip
  quipu sim cache --l1d-size 48K --l1d-assoc 12 --policy RRIP --causes trace.zip
  quipu sim cache --config hierarchy.conf --json trace.dir | jq .results.caches.levels
  quipu sim cache --warmup-refs 1000000 --sim-refs 10000000 --csv trace.zip > caches.csv

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the answer is not what was asked for (a warm-up that did not end,
     pages that nobody told), or the run was interrupted
  2  could not do it";

const TLB_HELP: &str = "\
Examples:
  quipu sim tlb trace.zip
  quipu sim tlb --page-size 2M --l2-entries 2048 --l2-assoc 8 trace.dir
  quipu sim tlb --json trace.zip | jq .results.tlbs.levels

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the answer is not what was asked for (a warm-up that did not end,
     pages that nobody told), or the run was interrupted
  2  could not do it";

/// What is simulated.
#[derive(Debug, clap::Subcommand)]
enum Machine {
    Cache(CacheOptions),
    Tlb(TlbOptions),
    Sweep(Box<sweep::Options>),
}

/// Simulate a hierarchy of caches
///
/// Without options: four cores, each with 32 KiB of eight ways for instructions and as much for data, whose misses fetch
/// the next line as well, over one shared cache of 8 MiB and sixteen ways.
#[derive(Debug, clap::Args)]
#[command(after_help = CACHE_HELP)]
struct CacheOptions {
    #[command(flatten)]
    run: RunOptions,
    /// A configuration file of drmemtrace's simulator, or of the model's; it says all of the caches
    #[arg(long, value_name = "FILE", help_heading = "Caches",
          conflicts_with_all = ["l1i_size", "l1i_assoc", "l1d_size", "l1d_assoc", "ll_size", "ll_assoc",
                                "line_size", "policy", "prefetcher", "coherence", "miss_file", "cores"])]
    config: Option<PathBuf>,
    /// Whose caches: Quipu's, or those of Cacheray's simulator with their faults, which want a --config of its own
    #[arg(long, value_name = "MODEL", help_heading = "Caches", value_enum, default_value_t = Model::Quipu)]
    model: Model,
    /// Bytes in a line [default: 64]
    #[arg(long, value_name = "BYTES", help_heading = "Caches")]
    line_size: Option<String>,
    /// Size of each first instruction cache [default: 32K]
    #[arg(long, value_name = "BYTES", help_heading = "Caches")]
    l1i_size: Option<String>,
    /// Its ways [default: 8]
    #[arg(long, value_name = "N", help_heading = "Caches")]
    l1i_assoc: Option<String>,
    /// Size of each first data cache [default: 32K]
    #[arg(long, value_name = "BYTES", help_heading = "Caches")]
    l1d_size: Option<String>,
    /// Its ways [default: 8]
    #[arg(long, value_name = "N", help_heading = "Caches")]
    l1d_assoc: Option<String>,
    /// Size of the shared last cache [default: 8M]
    #[arg(long, value_name = "BYTES", help_heading = "Caches")]
    ll_size: Option<String>,
    /// Its ways [default: 16]
    #[arg(long, value_name = "N", help_heading = "Caches")]
    ll_assoc: Option<String>,
    /// LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT, the bound [default: LRU]
    #[arg(long, value_name = "NAME", help_heading = "Caches")]
    policy: Option<String>,
    /// Of first data caches: none, nextline, stride or stream [default: nextline]
    #[arg(long, value_name = "NAME", help_heading = "Caches")]
    prefetcher: Option<String>,
    /// A write takes the line away from the caches of other cores
    #[arg(long, help_heading = "Caches")]
    coherence: bool,
    /// Write each miss of the last cache into this file, packed with gzip: process, PC, address
    #[arg(long, value_name = "FILE", help_heading = "Caches")]
    miss_file: Option<String>,
    /// Warm up until the last caches are filled by this share, 0.0 to 1.0
    #[arg(long, value_name = "SHARE", help_heading = "Which part", conflicts_with = "warmup_refs")]
    warmup_fraction: Option<String>,
    #[command(flatten)]
    typing: Typing,
}

/// Whose caches are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Model {
    /// Quipu's own.
    Quipu,
    /// Those of Cacheray's simulator.
    Cacheray,
}

/// Simulate TLBs
///
/// Without options: four cores, each with 32 entries for instructions and 32 for data, and 1024 entries of four ways behind
/// them; the entry used least often gives way.
#[derive(Debug, clap::Args)]
#[command(after_help = TLB_HELP)]
struct TlbOptions {
    #[command(flatten)]
    run: RunOptions,
    // Only to say what to do instead.
    #[arg(long, hide = true)]
    config: Option<PathBuf>,
    /// Bytes in a page, such as 4K, 2M or 1G [default: 4K]
    #[arg(long, value_name = "BYTES", help_heading = "TLBs")]
    page_size: Option<String>,
    /// Entries of each first TLB for instructions [default: 32]
    #[arg(long, value_name = "N", help_heading = "TLBs")]
    l1i_entries: Option<String>,
    /// Its ways [default: 32]
    #[arg(long, value_name = "N", help_heading = "TLBs")]
    l1i_assoc: Option<String>,
    /// Entries of each first TLB for data [default: 32]
    #[arg(long, value_name = "N", help_heading = "TLBs")]
    l1d_entries: Option<String>,
    /// Its ways [default: 32]
    #[arg(long, value_name = "N", help_heading = "TLBs")]
    l1d_assoc: Option<String>,
    /// Entries of each second TLB [default: 1024]
    #[arg(long, value_name = "N", help_heading = "TLBs")]
    l2_entries: Option<String>,
    /// Its ways [default: 4]
    #[arg(long, value_name = "N", help_heading = "TLBs")]
    l2_assoc: Option<String>,
    /// LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT, the bound [default: LFU]
    #[arg(long, value_name = "NAME", help_heading = "TLBs")]
    policy: Option<String>,
}

/// What all simulations have in common.
#[derive(Debug, clap::Args)]
struct RunOptions {
    #[command(flatten)]
    input: Input,
    /// Print JSON: one object, with the simulation under its name in `results`
    #[arg(long)]
    json: bool,
    /// Print comma-separated values: a line for each cache or TLB
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    #[command(flatten)]
    page: PageOptions,
    /// Divide misses by cause: first met, too small, too few ways
    #[arg(long)]
    causes: bool,
    /// How many instructions to list that miss most [default: 10]
    #[arg(long, value_name = "N")]
    top: Option<String>,
    /// Cores of the machine [default: 4]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    cores: Option<String>,
    /// Threads run on the processors that the trace names
    #[arg(long, help_heading = "Machine")]
    cpu_scheduling: bool,
    /// Use physical addresses, as far as the trace tells them
    #[arg(long, help_heading = "Machine")]
    physical: bool,
    /// Use physical addresses, and take them from this list of pages first
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    v2p_file: Option<PathBuf>,
    /// Leave out so many records first; markers never count
    #[arg(long, value_name = "N", help_heading = "Which part")]
    skip_refs: Option<String>,
    /// Warm up with so many records, then begin the statistics
    #[arg(long, value_name = "N", help_heading = "Which part")]
    warmup_refs: Option<String>,
    /// Simulate so many records behind the warm-up
    #[arg(long, value_name = "N", help_heading = "Which part")]
    sim_refs: Option<String>,
    /// Begin the statistics anew, lines stay: behind so many instructions, or at each mark of a name; several with commas
    #[arg(long, value_name = "POINTS", help_heading = "Which part")]
    reset_at: Option<String>,
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    match &options.machine {
        Machine::Cache(options) if options.model == Model::Cacheray => {
            let plan = |trace: &dyn Trace| simulation::plan_cacheray(options.config.as_deref(), trace);
            simulate(&options.run, None, &plan, common, screen)
        }
        Machine::Cache(options) => {
            simulate(&options.run, options.config.as_deref(), &|trace| options.plan(trace), common, screen)
        }
        Machine::Tlb(TlbOptions { config: Some(_), .. }) => {
            Err(Error::usage("TLBs have no configuration file, `--config` is for caches")
                .hint("say `quipu sim cache --config FILE`, or describe TLBs by --page-size, --l1d-entries, --l2-assoc, …")
                .into())
        }
        Machine::Tlb(options) => simulate(&options.run, None, &|trace| options.plan(trace), common, screen),
        Machine::Sweep(options) => sweep::run(options, common, screen),
    }
}

/// Runs one machine, perhaps that of a configuration file.
fn simulate(
    run: &RunOptions,
    config: Option<&Path>,
    plan: &dyn Fn(&dyn Trace) -> quipu::model::Result<Planned>,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    run.page.check(run.json || run.csv)?;
    let trace = run.input.open_onto(run.n_cores(config)?)?;
    let planned = plan(&*trace)?;
    let name = planned.info.name;
    let extent = run.input.extent(Window::All);
    let outcome = session::analyse(&*trace, vec![planned], &extent, common, screen)?;
    simulation::check_translation(&outcome.reports)?;
    let printing = Printing { input: &run.input, page: &run.page, json: run.json };
    let csv: fn(&dyn Report) -> String = if name == tlbs::INFO.name { csv_of_tlbs } else { csv };
    printing.print(name, &*trace, outcome, run.csv.then_some(csv), screen)
}

/// A line for each cache, with the names that JSON has; nothing where a cause or a rate is not known.
fn csv(report: &dyn Report) -> String {
    let mut out = "name,size,assoc,policy,hits,misses,miss_rate,compulsory_misses,parent_invalidations,write_invalidations,\
                   exclusive_invalidations,flushes,prefetch_hits,prefetch_misses,child_hits,bytes_in,first_met,too_small,\
                   too_few_ways\n"
        .to_owned();
    let Some(found) = report.as_any().downcast_ref::<Simulated>() else { return out };
    for of in &found.caches {
        let came = of.hits + of.misses;
        let rate = if came > 0 { (of.misses as f64 / came as f64).to_string() } else { String::new() };
        let causes = of.causes.map(|causes| causes.map(|n| n.to_string())).unwrap_or_default();
        let head =
            format!("{},{},{},{},{},{},{rate}", of.name, of.size, of.assoc, of.policy, of.hits, of.misses);
        let counts = [
            of.compulsory_misses,
            of.parent_invalidations,
            of.write_invalidations,
            of.exclusive_invalidations,
            of.flushes,
            of.prefetch_hits,
            of.prefetch_misses,
            of.child_hits,
            of.bytes_in,
        ];
        let cells = std::iter::once(head).chain(counts.map(|n| n.to_string())).chain(causes);
        out.push_str(&cells.collect::<Vec<_>>().join(","));
        out.push('\n');
    }
    out
}

/// A line for each TLB, with entries for bytes, and without what TLBs do not do.
fn csv_of_tlbs(report: &dyn Report) -> String {
    let mut out =
        "name,entries,page_size,assoc,policy,hits,misses,miss_rate,compulsory_misses,child_hits,first_met,\
                   too_small,too_few_ways\n"
            .to_owned();
    let Some(found) = report.as_any().downcast_ref::<Simulated>() else { return out };
    let page = found.line_size;
    for of in &found.caches {
        let came = of.hits + of.misses;
        let rate = if came > 0 { (of.misses as f64 / came as f64).to_string() } else { String::new() };
        let causes = of.causes.map(|causes| causes.map(|n| n.to_string())).unwrap_or_default();
        let _ = writeln!(
            out,
            "{},{},{page},{},{},{},{},{rate},{},{},{}",
            of.name,
            of.size / page.max(1),
            of.assoc,
            of.policy,
            of.hits,
            of.misses,
            of.compulsory_misses,
            of.child_hits,
            causes.join(",")
        );
    }
    out
}

/// Where results go.
pub(super) struct Printing<'a> {
    pub(super) input: &'a Input,
    pub(super) page: &'a PageOptions,
    pub(super) json: bool,
}

impl Printing<'_> {
    /// Prints what the tool called `name` has found: as a page, as JSON, through `csv`, or as tables.
    pub(super) fn print(
        &self,
        name: &str,
        trace: &dyn Trace,
        found: quipu::engine::Outcome,
        csv: Option<fn(&dyn Report) -> String>,
        screen: &Screen,
    ) -> Result<Outcome> {
        let verdict = Verdict::new(trace, found.findings, found.error, found.cancelled);
        verdict.say_lost(screen);
        let documents: Vec<_> = found.reports.iter().map(|report| report.document(Detail::Full)).collect();
        if self.page.is_wanted() {
            let mut all = vec![page::verdict(&verdict)];
            all.extend(documents.clone());
            all.retain(|document| !document.blocks.is_empty());
            page::write(self.page, self.input, trace, &all, screen)?;
        }
        if self.json {
            let results: Map<_, _> =
                found.reports.iter().map(|report| (name.to_owned(), report.json())).collect();
            let mut answer = Map::new();
            answer.insert("trace".into(), self.input.name().into());
            answer.insert("results".into(), results.into());
            verdict.add_to(&mut answer);
            screen.json(&answer.into())?;
        } else if let Some(csv) = csv {
            for sentence in found.reports.iter().flat_map(|report| simulation::remarks(&**report)) {
                screen.say(format_args!("{sentence}"));
            }
            screen.text(&found.reports.iter().map(|report| csv(&**report)).collect::<String>())?;
        } else if !self.page.is_wanted() {
            screen.documents(&documents)?;
        }
        Ok(verdict.tell(screen).and(Outcome::of(&found.reports)))
    }
}

impl CacheOptions {
    fn plan(&self, trace: &dyn Trace) -> quipu::model::Result<Planned> {
        let mut args = self.run.args();
        let CacheOptions { line_size, l1i_size, l1i_assoc, l1d_size, l1d_assoc, .. } = self;
        let CacheOptions { ll_size, ll_assoc, policy, prefetcher, miss_file, .. } = self;
        set(&mut args, "line-size", line_size);
        set(&mut args, "l1i-size", l1i_size);
        set(&mut args, "l1i-assoc", l1i_assoc);
        set(&mut args, "l1d-size", l1d_size);
        set(&mut args, "l1d-assoc", l1d_assoc);
        set(&mut args, "ll-size", ll_size);
        set(&mut args, "ll-assoc", ll_assoc);
        set(&mut args, "policy", policy);
        set(&mut args, "prefetcher", prefetcher);
        set(&mut args, "miss-file", miss_file);
        set(&mut args, "warmup-fraction", &self.warmup_fraction);
        args.set("coherence", self.coherence.to_string());
        self.typing.given().into_iter().for_each(|(name, value)| args.set(name, value));
        let around = Surroundings { config: self.config.clone(), ..self.run.around() };
        simulation::plan_caches(&args, &around, trace)
    }
}

impl TlbOptions {
    fn plan(&self, trace: &dyn Trace) -> quipu::model::Result<Planned> {
        let mut args = self.run.args();
        let TlbOptions { page_size, l1i_entries, l1i_assoc, l1d_entries, l1d_assoc, .. } = self;
        set(&mut args, "page-size", page_size);
        set(&mut args, "l1i-entries", l1i_entries);
        set(&mut args, "l1i-assoc", l1i_assoc);
        set(&mut args, "l1d-entries", l1d_entries);
        set(&mut args, "l1d-assoc", l1d_assoc);
        set(&mut args, "l2-entries", &self.l2_entries);
        set(&mut args, "l2-assoc", &self.l2_assoc);
        set(&mut args, "policy", &self.policy);
        simulation::plan_tlbs(&args, &self.run.around(), trace)
    }
}

impl RunOptions {
    /// How many cores the machine has, if that is said.
    fn n_cores(&self, config: Option<&Path>) -> quipu::model::Result<Option<usize>> {
        match (&self.cores, config) {
            (Some(_), _) => {
                let cores = self.args().number("cores", 0)?;
                Ok(Some(usize::try_from(cores).unwrap_or(usize::MAX)))
            }
            (None, Some(config)) => simulation::cores_of(config).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn args(&self) -> Args {
        let mut args = Args::default();
        set(&mut args, "top", &self.top);
        set(&mut args, "cores", &self.cores);
        set(&mut args, "skip-refs", &self.skip_refs);
        set(&mut args, "warmup-refs", &self.warmup_refs);
        set(&mut args, "sim-refs", &self.sim_refs);
        set(&mut args, "reset-at", &self.reset_at);
        args.set("causes", self.causes.to_string());
        args.set("cpu-scheduling", self.cpu_scheduling.to_string());
        args
    }

    fn around(&self) -> Surroundings {
        Surroundings {
            physical: self.physical,
            pages: self.v2p_file.clone(),
            replace: self.page.force.into(),
            ..Surroundings::default()
        }
    }
}

fn set(args: &mut Args, name: &str, value: &Option<String>) {
    if let Some(value) = value {
        args.set(name, value.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu::model::doc::Document;
    use std::any::Any;

    /// No simulation, so that nothing stands below the heads.
    struct Nothing;

    impl Report for Nothing {
        fn json(&self) -> serde_json::Value {
            serde_json::Value::Null
        }

        fn document(&self, _detail: Detail) -> Document {
            Document::default()
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    #[test]
    fn heads_of_columns_are_names_on_one_line() {
        for head in [csv(&Nothing), csv_of_tlbs(&Nothing)] {
            let names: Vec<&str> = head.strip_suffix('\n').unwrap().split(',').collect();
            let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(names.iter().all(is_name), "{head}");
        }
    }
}
