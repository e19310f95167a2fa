//! `quipu sim sweep`: simulates many caches at once.

use super::sim::{Addresses, Printing};
use crate::page::PageOptions;
use quipu::engine::Planned;
use quipu::model::{OptionSpec, Window};
use quipu::sim::config;
use quipu::sim::sweep::{self, Space, Sweep};
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Input;
use quipu_console::parts::CsvOption;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Extent};
use quipu_console::simulation::{self, Surroundings, text_of};
use std::path::PathBuf;

/// Simulate caches of many sizes, ways, policies, line sizes and prefetchers at once
///
/// Simulates every valid combination in one read of the trace. Lists are separated by commas, and a range such as 16K..1M
/// doubles from its first number. Default: the L1 data caches of four cores, 4K to 1M, 1 to 16 ways, LRU.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, mut_arg("csv", |csv| csv.help(CSV_HELP)))]
pub(super) struct Options {
    #[command(flatten)]
    input: Input,
    /// Print JSON: one object, with the caches under `sweep` in `results`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvOption,
    #[command(flatten)]
    page: PageOptions,
    /// Configuration file: each line has the name of an option and its values; options override it
    #[arg(long, value_name = "SPACE", help_heading = "Search space")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: Flags<SweepFlags>,
    #[command(flatten)]
    addresses: Addresses,
}

const CSV_HELP: &str = "Print comma-separated values: one line per cache, or the rows of TABLE";

/// Flags for the options of a sweep.
struct SweepFlags;

impl Flagged for SweepFlags {
    fn specs() -> Vec<OptionSpec> {
        // The number of threads is a flag of all verbs.
        sweep::INFO.options.iter().filter(|spec| spec.name != "threads").copied().collect()
    }
}

const AFTER_HELP: &str = "\
Examples:
  quipu sim sweep trace.zip
  quipu sim sweep --level ll --sizes 1M..16M --ways 8,16 --policies LRU,RRIP --bound trace.zip
  quipu sim sweep --config space.conf --csv trace.dir > sweep.csv
  quipu sim sweep --level l1i --line-sizes 32..128 --html sweep.html trace.zip

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the warm-up did not end, or the run was interrupted
  2  could not do it";

pub(super) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    options.page.check(options.json || options.csv.is_wanted())?;
    let space = options.space()?;
    let cores = space.has_cores.then_some(space.usual.cores);
    let trace = options.input.open_onto(cores)?;
    let pages = options.addresses.v2p_file.clone().or_else(|| space.v2p_file.as_ref().map(PathBuf::from));
    let physical = options.addresses.physical || space.physical;
    let around = Surroundings { physical, pages, ..Surroundings::default() };
    let sweep = Sweep::new(space, &*trace, common.threads.map_or(0, usize::from))?;
    let sweep = match simulation::translator(around.physical, &around, &*trace)? {
        Some(physical) => sweep.with_physical(physical),
        None => sweep,
    };
    let planned = Planned::new(
        &sweep::INFO,
        sweep.columns(&*trace).map_err(|error| session::not_for_trace(error, &*trace, screen))?,
        Box::new(sweep),
    );
    let extent: Extent = options.input.extent(Window::All);
    let outcome = session::analyse(&*trace, vec![planned], &extent, common, screen)?;
    simulation::check_translation(&outcome.reports)?;
    let printing =
        Printing { input: &options.input, page: &options.page, json: options.json, csv: &options.csv };
    printing.print(sweep::INFO.name, &*trace, outcome, "points", screen)
}

impl Options {
    /// The caches to try.
    fn space(&self) -> quipu::model::Result<Space> {
        let space = match &self.config {
            Some(path) => {
                let (text, name) = (text_of(path)?, path.display().to_string());
                Space::parse(&text, &name).map_err(|error| match config::parse(&text, &name) {
                    Ok(_) => error.hint("it describes one machine: `quipu sim cache --config FILE` takes it"),
                    Err(_) => error,
                })?
            }
            None => Space::default(),
        };
        space.with_options(&sweep::INFO.parse(self.flags.given())?)
    }
}
