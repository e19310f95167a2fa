//! `quipu sim`: simulates machines on the accesses of a trace; `sweep` simulates many at once.

use super::sweep;
use crate::naming;
use crate::page::{self, PageOptions};
use crate::typing::{TypeOptions, Typing};
use clap::builder::{PossibleValue, PossibleValuesParser};
use quipu::engine::{Planned, tables};
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::pass::Detail;
use quipu::model::{Error, Given, OptionSpec, Trace, Window};
use quipu::sim::config::{self, PRESETS, Preset};
use quipu::sim::{EVICTIONS, MACHINE, MISS_FILE, OTHER_MODELS, caches, tlbs};
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags, named};
use quipu_console::input::Input;
use quipu_console::number;
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use quipu_console::simulation::{self, Surroundings};
use serde_json::Map;
use std::path::{Path, PathBuf};

/// Simulate caches or TLBs
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Options {
    /// With `list`, and without a command: list the machines that `cache` and `tlb` take as --machine, with their sources
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    #[command(subcommand)]
    simulation: Option<Simulation>,
}

const AFTER_HELP: &str = "\
Examples:
  quipu sim cache trace.zip
  quipu sim cache --config hierarchy.conf --causes trace.dir
  quipu sim --machine list
  quipu sim cache --machine amd-zen3 --cores 4 trace.dir
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
  quipu sim cache --machine list
  quipu sim cache --machine intel-skylake --cores 2 trace.zip
  quipu sim cache --machine intel-skylake --print-machine > hierarchy.conf
  quipu sim cache --evictions evictions.csv trace.zip
  quipu sim cache --config hierarchy.conf --json trace.dir | jq .results.caches.levels
  quipu sim cache --warmup-refs 1000000 --sim-refs 10000000 --csv trace.zip > caches.csv

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the result is incomplete (warm-up not finished,
     pages without a physical address), or the run was interrupted
  2  could not do it";

const TLB_HELP: &str = "\
Examples:
  quipu sim tlb trace.zip
  quipu sim tlb --page-size 2M --l2-entries 2048 --l2-assoc 8 trace.dir
  quipu sim tlb --machine arm-neoverse-n1 --page-size 64K trace.dir
  quipu sim tlb --machine amd-zen3 --print-machine > machine.conf
  quipu sim tlb --config machine.conf trace.zip
  quipu sim tlb --json trace.zip | jq .results.tlbs.levels

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the result is incomplete (warm-up not finished,
     pages without a physical address), or the run was interrupted
  2  could not do it";

const CSV_HELP: &str =
    "Print comma-separated values: one line per cache or TLB, or the rows of TABLE, such as `caches.levels`";

/// What is simulated.
#[derive(Debug, clap::Subcommand)]
enum Simulation {
    Cache(CacheOptions),
    Tlb(TlbOptions),
    Sweep(Box<sweep::Options>),
}

/// Simulate a cache hierarchy
///
/// Default: four cores, each with a 32 KiB instruction cache and a 32 KiB data cache of eight ways and a next-line
/// prefetcher, and a shared cache of 8 MiB and sixteen ways.
#[derive(Debug, clap::Args)]
#[command(after_help = CACHE_HELP)]
struct CacheOptions {
    #[command(flatten)]
    run: RunOptions,
    /// Configuration file of drmemtrace's simulator, or of the model's; it defines all caches. `--print-machine` prints one
    #[arg(long, value_name = "FILE", help_heading = "Caches",
          conflicts_with_all = ["l1i-size", "l1i-assoc", "l1d-size", "l1d-assoc", "ll-size", "ll-assoc",
                                "line-size", "policy", "prefetcher", "coherence", "miss-file", "cores", "machine"])]
    config: Option<PathBuf>,
    /// Cache model: Quipu's, or that of Cacheray's simulator with its faults, which needs a --config of its own
    #[arg(long, value_name = "MODEL", help_heading = "Caches", value_parser = models(), default_value = OWN)]
    model: String,
    #[command(flatten)]
    flags: Flags<CacheFlags>,
    #[command(flatten)]
    typing: Typing,
}

/// Name of Quipu's own caches.
const OWN: &str = "quipu";

/// Names of all models that can be simulated.
fn models() -> PossibleValuesParser {
    let others = OTHER_MODELS.iter();
    let own = PossibleValue::new(OWN).help("Quipu's own");
    let others = others.map(|model| PossibleValue::new(model.name).help(format!("Model of {}", model.of)));
    PossibleValuesParser::new(std::iter::once(own).chain(others))
}

/// Simulate TLBs
///
/// Default: four cores, each with 32 entries for instructions and 32 for data, and a second level of 1024 entries and four
/// ways; policy LFU.
#[derive(Debug, clap::Args)]
#[command(after_help = TLB_HELP)]
struct TlbOptions {
    #[command(flatten)]
    run: RunOptions,
    /// Configuration file; it defines all TLBs, also for pages of several sizes. `--print-machine` prints one
    #[arg(long, value_name = "FILE", help_heading = "TLBs",
          conflicts_with_all = ["l1i-entries", "l1i-assoc", "l1d-entries", "l1d-assoc", "l2-entries", "l2-assoc",
                                "policy", "cores", "machine"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<TlbFlags>,
}

/// Options common to all simulations.
#[derive(Debug, clap::Args)]
#[command(mut_arg("csv", |csv| csv.help(CSV_HELP)))]
struct RunOptions {
    #[command(flatten)]
    input: Input,
    /// Print JSON: one object, with the simulation under its name in `results`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
    #[command(flatten)]
    page: PageOptions,
    /// Print the configuration file of --machine instead of simulating; a copy can be edited and given as --config
    #[arg(long, requires = "machine", help_heading = "Machine")]
    print_machine: bool,
    #[command(flatten)]
    flags: Flags<RunFlags>,
    #[command(flatten)]
    addresses: Addresses,
}

/// Which addresses caches and TLBs see.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Machine")]
pub(super) struct Addresses {
    /// Use physical addresses, as far as the trace has them
    #[arg(long)]
    pub(super) physical: bool,
    /// Use physical addresses, and look them up in this list of pages first
    #[arg(long, value_name = "FILE")]
    pub(super) v2p_file: Option<PathBuf>,
}

/// Options shared by caches and TLBs.
const COMMON: [&str; 8] =
    ["causes", "top", "cores", "cpu-scheduling", "skip-refs", "warmup-refs", "sim-refs", "reset-at"];

/// Flags for these options.
struct RunFlags;

impl Flagged for RunFlags {
    fn specs() -> Vec<OptionSpec> {
        named(caches::INFO.options, &COMMON)
    }
}

/// Flags for the other options of caches.
struct CacheFlags;

impl Flagged for CacheFlags {
    fn specs() -> Vec<OptionSpec> {
        let types = TypeOptions::specs();
        let mut specs = caches::INFO.options.to_vec();
        specs.extend([MISS_FILE, EVICTIONS]);
        specs.retain(|spec| !COMMON.contains(&spec.name) && !types.iter().any(|of| of.name == spec.name));
        specs
    }
}

/// Flags for the other options of TLBs.
struct TlbFlags;

impl Flagged for TlbFlags {
    fn specs() -> Vec<OptionSpec> {
        let specs = tlbs::INFO.options.iter();
        specs.filter(|spec| !COMMON.contains(&spec.name)).copied().collect()
    }
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    let simulation = match (&options.simulation, &options.machine) {
        (Some(simulation), None) => simulation,
        (None, Some(name)) if name == ALL_MACHINES => return list_machines(false, screen),
        (Some(_), Some(_)) => {
            return Err(Error::usage("`--machine` stands before the command")
                .hint("write it after: `quipu sim cache --machine NAME TRACE`; `quipu sim --machine list` has no command")
                .into());
        }
        (None, Some(name)) => {
            Preset::named(name)?;
            let what = format!("`--machine {name}` does not say what to simulate");
            let hint = format!("`quipu sim cache --machine {name} TRACE`, or `quipu sim tlb`");
            return Err(Error::usage(what).hint(hint).into());
        }
        (None, None) => {
            return Err(Error::usage("nothing to simulate")
                .hint("`quipu sim cache TRACE`, or `tlb` or `sweep`")
                .into());
        }
    };
    match simulation {
        Simulation::Cache(options) if options.run.is_about_machines(&options.flags) => {
            options.run.tell_machines(&options.flags, screen)
        }
        Simulation::Tlb(options) if options.run.is_about_machines(&options.flags) => {
            options.run.tell_machines(&options.flags, screen)
        }
        Simulation::Cache(options) => {
            let config = options.config.as_deref();
            match OTHER_MODELS.iter().find(|model| model.name == options.model) {
                Some(model) => {
                    let plan = |trace: &dyn Trace| simulation::plan_other(model, config, trace);
                    let cores = options.run.n_cores(None, options.flags.given())?;
                    simulate(&options.run, cores, "levels", &plan, common, screen)
                }
                None => {
                    let lists = [MISS_FILE.name, EVICTIONS.name].map(|name| options.flags.given().last(name));
                    let beside = |screen: Screen, path: &str| screen.beside(path.as_ref());
                    let screen = lists.into_iter().flatten().fold(*screen, beside);
                    let cores = options.run.n_cores(config, options.flags.given())?;
                    simulate(&options.run, cores, CACHES, &|trace| options.plan(trace), common, &screen)
                }
            }
        }
        Simulation::Tlb(options) => {
            let cores = options.run.n_cores(options.config.as_deref(), options.flags.given())?;
            simulate(&options.run, cores, CACHES, &|trace| options.plan(trace), common, screen)
        }
        Simulation::Sweep(options) => sweep::run(options, common, screen),
    }
}

/// The name that stands for the list of machines.
const ALL_MACHINES: &str = "list";

/// Prints the list of machines.
fn list_machines(json: bool, screen: &Screen) -> Result<Outcome> {
    if json {
        let machine = |preset: &Preset| {
            let (name, title, source) = (preset.name, preset.title(), preset.source());
            serde_json::json!({ "name": name, "title": title, "source": source })
        };
        screen.json(&PRESETS.iter().map(machine).collect::<Vec<_>>().into())?;
        return Ok(Outcome::Fine);
    }
    let row = |preset: &Preset| {
        vec![Cell::from(preset.name), Cell::from(preset.title()), Cell::from(preset.source())]
    };
    let grid = Grid {
        title: String::new(),
        head: ["machine", "processor", "source"].map(str::to_owned).into(),
        rows: PRESETS.iter().map(row).collect(),
        more: 0,
    };
    screen.documents([&Document::new("Machines").with(Block::Grid(grid))])?;
    Ok(Outcome::Fine)
}

/// The list that `--csv` prints for our own caches and TLBs.
const CACHES: &str = "caches";

/// Simulates one machine, which has this number of cores if anything sets it. `--csv` without a name prints the list `usual`.
fn simulate(
    run: &RunOptions,
    cores: Option<usize>,
    usual: &str,
    plan: &dyn Fn(&dyn Trace) -> quipu::model::Result<Planned>,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    run.page.check(run.json || run.csv.is_wanted())?;
    let trace = run.input.open_onto(cores)?;
    let planned = plan(&*trace).map_err(|error| session::not_for_trace(error, &*trace, screen))?;
    let name = planned.info.name;
    let extent = run.input.extent(Window::All);
    let outcome = session::analyse(&*trace, vec![planned], &extent, common, screen)?;
    simulation::check_translation(&outcome.reports)?;
    let printing = Printing { input: &run.input, page: &run.page, json: run.json, csv: &run.csv };
    printing.print(name, &*trace, outcome, usual, screen)
}

/// Destination of results.
pub(super) struct Printing<'a> {
    pub(super) input: &'a Input,
    pub(super) page: &'a PageOptions,
    pub(super) json: bool,
    pub(super) csv: &'a CsvOption,
}

impl Printing<'_> {
    /// Prints the result of the tool called `name`: as a page, as JSON, as comma-separated values of one table (the list
    /// `usual` if none is named), or as tables.
    pub(super) fn print(
        &self,
        name: &str,
        trace: &dyn Trace,
        found: quipu::engine::Outcome,
        usual: &str,
        screen: &Screen,
    ) -> Result<Outcome> {
        let verdict = Verdict::new(trace, found.findings, found.error, found.cancelled);
        verdict.say_lost(screen);
        let mut documents: Vec<_> =
            found.reports.iter().map(|report| report.document(Detail::Full)).collect();
        naming::name_code(&mut documents, trace);
        if self.page.is_wanted() {
            let mut all = vec![page::verdict(&verdict)];
            all.extend(documents.clone());
            all.retain(|document| !document.blocks.is_empty());
            page::write(self.page, self.input, trace, &all, screen)?;
        }
        let tables = || tables(&self.input.name(), &[name], &found.reports, &found.parts);
        if self.json {
            let results: Map<_, _> =
                found.reports.iter().map(|report| (name.to_owned(), report.json())).collect();
            let mut answer = Map::new();
            answer.insert("trace".into(), self.input.name().into());
            answer.insert("results".into(), results.into());
            verdict.add_to(&mut answer);
            screen.json(&answer.into())?;
        } else if let Some(text) = self.csv.text(&format!("{name}.{usual}"), tables)? {
            for sentence in found.reports.iter().flat_map(|report| simulation::remarks(&**report)) {
                screen.say(format_args!("{sentence}"));
            }
            screen.text(&text)?;
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
        let around = Surroundings { config: self.config.clone(), ..self.run.around() };
        simulation::plan_tlbs(&given, &around, trace)
    }
}

impl RunOptions {
    /// Whether the answer is about machines that can be simulated: their list, or the file of one.
    fn is_about_machines<S>(&self, flags: &Flags<S>) -> bool {
        self.print_machine || flags.given().last(MACHINE.name) == Some(ALL_MACHINES)
    }

    /// Prints the list of machines, or the file of one.
    fn tell_machines<S>(&self, flags: &Flags<S>, screen: &Screen) -> Result<Outcome> {
        match flags.given().last(MACHINE.name) {
            Some(name) if name != ALL_MACHINES => {
                screen.text(Preset::named(name)?.text)?;
                Ok(Outcome::Fine)
            }
            _ => list_machines(self.json, screen),
        }
    }

    /// Number of cores of the machine, if an option or its configuration sets it.
    fn n_cores(&self, config: Option<&Path>, given: &Given) -> quipu::model::Result<Option<usize>> {
        match (self.flags.given().last("cores"), config) {
            (Some(cores), _) => {
                let cores = number::number(cores).map_err(Error::usage)?;
                Ok(Some(usize::try_from(cores).unwrap_or(usize::MAX)))
            }
            (None, Some(config)) => simulation::cores_of(config).map(Some),
            (None, None) => match given.last(MACHINE.name) {
                Some(name) => {
                    let preset = Preset::named(name)?;
                    Ok(Some(config::parse(preset.text, preset.name)?.machine.cores))
                }
                None => Ok(None),
            },
        }
    }

    fn around(&self) -> Surroundings {
        Surroundings {
            physical: self.addresses.physical,
            pages: self.addresses.v2p_file.clone(),
            replace: self.page.force.into(),
            over_time: self.page.is_wanted(),
            ..Surroundings::default()
        }
    }
}
