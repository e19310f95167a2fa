//! `quipu sim`: machines that serve the accesses of a trace; `sweep` has many at once.

use super::sweep;
use crate::page::{self, PageOptions};
use crate::typing::{TypeOptions, Typing};
use clap::builder::{PossibleValue, PossibleValuesParser};
use quipu::engine::Planned;
use quipu::model::pass::Detail;
use quipu::model::{Error, OptionSpec, Report, Trace, Window};
use quipu::sim::{MISS_FILE, OTHER_MODELS, Simulated, caches, tlbs};
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags, named};
use quipu_console::input::Input;
use quipu_console::number;
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
          conflicts_with_all = ["l1i-size", "l1i-assoc", "l1d-size", "l1d-assoc", "ll-size", "ll-assoc",
                                "line-size", "policy", "prefetcher", "coherence", "miss-file", "cores"])]
    config: Option<PathBuf>,
    /// Whose caches: Quipu's, or those of Cacheray's simulator with their faults, which want a --config of its own
    #[arg(long, value_name = "MODEL", help_heading = "Caches", value_parser = models(), default_value = OWN)]
    model: String,
    #[command(flatten)]
    flags: Flags<CacheFlags>,
    #[command(flatten)]
    typing: Typing,
}

/// The name of our own caches.
const OWN: &str = "quipu";

/// The names of all whose caches can be simulated.
fn models() -> PossibleValuesParser {
    let others = OTHER_MODELS.iter();
    let own = PossibleValue::new(OWN).help("Quipu's own");
    let others = others.map(|model| PossibleValue::new(model.name).help(format!("Those of {}", model.of)));
    PossibleValuesParser::new(std::iter::once(own).chain(others))
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
    #[command(flatten)]
    flags: Flags<TlbFlags>,
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
    #[command(flatten)]
    flags: Flags<RunFlags>,
    /// Use physical addresses, as far as the trace tells them
    #[arg(long, help_heading = "Machine")]
    physical: bool,
    /// Use physical addresses, and take them from this list of pages first
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    v2p_file: Option<PathBuf>,
}

/// The options that caches and TLBs have in common.
const COMMON: [&str; 8] =
    ["causes", "top", "cores", "cpu-scheduling", "skip-refs", "warmup-refs", "sim-refs", "reset-at"];

/// What all simulations can be asked for.
struct RunFlags;

impl Flagged for RunFlags {
    fn specs() -> Vec<OptionSpec> {
        named(caches::INFO.options, &COMMON)
    }
}

/// What caches can be asked for besides.
struct CacheFlags;

impl Flagged for CacheFlags {
    fn specs() -> Vec<OptionSpec> {
        let types = TypeOptions::specs();
        let mut specs = caches::INFO.options.to_vec();
        specs.push(MISS_FILE);
        specs.retain(|spec| !COMMON.contains(&spec.name) && !types.iter().any(|of| of.name == spec.name));
        specs
    }
}

/// What TLBs can be asked for besides.
struct TlbFlags;

impl Flagged for TlbFlags {
    fn specs() -> Vec<OptionSpec> {
        let specs = tlbs::INFO.options.iter();
        specs.filter(|spec| !COMMON.contains(&spec.name)).copied().collect()
    }
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    match &options.machine {
        Machine::Cache(options) => {
            let config = options.config.as_deref();
            match OTHER_MODELS.iter().find(|model| model.name == options.model) {
                Some(model) => {
                    let plan = |trace: &dyn Trace| simulation::plan_other(model, config, trace);
                    simulate(&options.run, None, &plan, common, screen)
                }
                None => simulate(&options.run, config, &|trace| options.plan(trace), common, screen),
            }
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
        let mut given = self.run.flags.given().clone();
        given.extend(self.flags.given().iter());
        given.extend(self.typing.given().iter());
        let around = Surroundings { config: self.config.clone(), ..self.run.around() };
        simulation::plan_caches(&given, &around, trace)
    }
}

impl TlbOptions {
    fn plan(&self, trace: &dyn Trace) -> quipu::model::Result<Planned> {
        let mut given = self.run.flags.given().clone();
        given.extend(self.flags.given().iter());
        simulation::plan_tlbs(&given, &self.run.around(), trace)
    }
}

impl RunOptions {
    /// How many cores the machine has, if that is said.
    fn n_cores(&self, config: Option<&Path>) -> quipu::model::Result<Option<usize>> {
        match (self.flags.given().last("cores"), config) {
            (Some(cores), _) => {
                let cores = number::number(cores).map_err(Error::usage)?;
                Ok(Some(usize::try_from(cores).unwrap_or(usize::MAX)))
            }
            (None, Some(config)) => simulation::cores_of(config).map(Some),
            (None, None) => Ok(None),
        }
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
