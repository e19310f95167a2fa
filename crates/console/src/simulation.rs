//! Runs simulations from a command line: configuration files, page lists and miss files around `quipu::sim`.

use quipu::engine::{Outcome, Planned};
use quipu::model::fresh::{Fresh, Replace};
use quipu::model::number::counted;
use quipu::model::{Error, ErrorKind, Given, Options, Report, Result, ToolInfo, Trace, Window};
use quipu::sim::sweep::{Space, Swept};
use quipu::sim::{
    MISS_FILE, Miss, MissSink, OtherModel, Pages, Setup, Simulated, Simulation, Translator, caches, config,
    fit_cores, misses, tlbs,
};
use quipu::source::{OutputFile, Reading};
use quipu_view::grouped;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Inputs of a simulation besides its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// A configuration file for DynamoRIO's drcachesim.
    pub config: Option<PathBuf>,
    /// Whether to use physical addresses.
    pub physical: bool,
    /// A file with a list of pages.
    pub pages: Option<PathBuf>,
    /// Whether to count a warm-up that does not end as DynamoRIO does.
    pub counts_cold: bool,
    /// Whether miss files may replace existing files.
    pub replace: Replace,
}

impl Default for Surroundings {
    fn default() -> Surroundings {
        Surroundings {
            config: None,
            physical: false,
            pages: None,
            counts_cold: false,
            replace: Replace::Never,
        }
    }
}

/// Plans a cache simulation.
pub fn plan_caches(given: &Given, around: &Surroundings, trace: &dyn Trace) -> Result<Planned> {
    let config = match &around.config {
        Some(path) => Some(configuration(path)?),
        None => None,
    };
    let specs = caches::INFO.options.iter().chain([&MISS_FILE]);
    let options = Options::parse("the simulation of caches", specs, given)?;
    let options = &if config.is_some() { options } else { fit_cores(&options, trace) };
    let physical = around.physical || config.as_ref().is_some_and(|config| config.use_physical);
    plan(&caches::INFO, caches::settings(options, config)?.fitted(options, trace)?, physical, around, trace)
}

/// Plans the search for loads that miss at a constant stride.
pub fn plan_misses(given: &Given, around: &Surroundings, trace: &dyn Trace) -> Result<Planned> {
    if around.config.is_some() {
        return Err(Error::unsupported(
            "miss_analyzer has the usual machine only, without a configuration file",
        ));
    }
    let specs = misses::INFO.options.iter().chain(caches::INFO.options);
    let options = &fit_cores(&Options::parse("the search for misses", specs, given)?, trace);
    let settings = misses::settings(options)?.fitted(options, trace)?;
    plan(&misses::INFO, settings, around.physical, around, trace)
}

/// Plans a TLB simulation.
pub fn plan_tlbs(given: &Given, around: &Surroundings, trace: &dyn Trace) -> Result<Planned> {
    let options = &fit_cores(&tlbs::INFO.parse(given)?, trace);
    plan(&tlbs::INFO, tlbs::settings(options)?.fitted(options, trace)?, around.physical, around, trace)
}

/// Number of records that a report runs on the default machine: about a second of work, independent of the length of the
/// trace.
const MACHINE_RECORDS: u64 = 10_000_000;

/// Results of the default machine of a report, its caches and TLBs, for the beginning of a trace.
#[derive(Default)]
pub struct Served {
    /// Names of the simulations.
    pub names: Vec<&'static str>,
    /// Result of each simulation.
    pub reports: Vec<Box<dyn Report>>,
    /// Number of records simulated; `None` if the trace cannot be simulated.
    pub records: Option<u64>,
    is_all: bool,
    /// Error of the first part that could not be read to its end.
    pub error: Option<Error>,
    /// Whether a signal ended it.
    pub cancelled: bool,
}

impl Served {
    /// The title of a part of the machine's results.
    pub fn title(&self, part: &str) -> String {
        match self.records.filter(|_| !self.is_all) {
            Some(n) => format!("{part} of a default machine, for the first {} records", grouped(n)),
            None => format!("{part} of a default machine"),
        }
    }
}

/// Simulates the beginning of a trace of `n_records` on the default machine, with `top` rows in lists. `run` reads a part of
/// the trace for analyses; its inner error says why the trace cannot be simulated.
///
/// # Errors
/// Other errors of planning and of `run`.
pub fn serve<E: From<Error>>(
    top: u32,
    n_records: u64,
    trace: &dyn Trace,
    run: impl FnOnce(Vec<Planned>, Window) -> std::result::Result<Result<Outcome>, E>,
) -> std::result::Result<Result<Served>, E> {
    let (given, around) = (Given::from([("top", top.to_string())]), Surroundings::default());
    let both = plan_caches(&given, &around, trace)
        .and_then(|caches| Ok(vec![caches, plan_tlbs(&given, &around, trace)?]));
    let planned = match both {
        Ok(planned) => planned,
        Err(error) if matches!(error.kind(), ErrorKind::Missing | ErrorKind::Unsupported) => {
            return Ok(Err(error));
        }
        Err(error) => return Err(error.into()),
    };
    let names = planned.iter().map(|planned| planned.info.name).collect();
    let is_all = n_records <= MACHINE_RECORDS;
    let window = if is_all { Window::All } else { Window::Records(0..MACHINE_RECORDS) };
    let served = run(planned, window)?.map(|outcome| {
        let Outcome { reports, records, error, cancelled, .. } = outcome;
        Served { names, reports, records: Some(records), is_all, error, cancelled }
    });
    Ok(served)
}

fn plan(
    info: &'static ToolInfo,
    mut settings: Setup,
    physical: bool,
    around: &Surroundings,
    trace: &dyn Trace,
) -> Result<Planned> {
    settings.physical = translator(physical, around, trace)?;
    settings.counts_cold = around.counts_cold;
    let columns = settings.columns(info.name, trace)?;
    let files = MissFiles::create(&settings, around.replace)?;
    Ok(Planned::new(info, columns, Box::new(Simulation::new(settings, files)?)))
}

/// The translator to physical addresses, if they are requested.
pub fn translator(physical: bool, around: &Surroundings, trace: &dyn Trace) -> Result<Option<Translator>> {
    if !physical && around.pages.is_none() {
        return Ok(None);
    }
    let pages = match &around.pages {
        Some(path) => Some(Pages::parse(&text_of(path)?, &path.display().to_string())?),
        None => None,
    };
    Translator::new(trace, pages.as_ref()).map(Some)
}

/// Checks that the trace or the page list gave physical addresses, if they were requested.
///
/// # Errors
/// `Missing` if there was not a single page.
pub fn check_translation(reports: &[Box<dyn Report>]) -> Result<()> {
    let of = |report: &dyn Report| {
        let report = report.as_any();
        let of_machine = report.downcast_ref::<Simulated>().and_then(|report| report.translation);
        of_machine.or_else(|| report.downcast_ref::<Swept>()?.translation)
    };
    match reports.iter().find_map(|report| of(&**report)) {
        Some(translation) if translation.untranslated > 0 && !translation.is_told => Err(Error::missing(format!(
            "physical addresses need pages, and none was told for {}: the trace has no marks `physical_address`",
            counted(translation.accesses, "access")
        ))
        .hint("leave out `--physical` for virtual addresses, or name a list of pages: `--v2p-file FILE`")),
        _ => Ok(()),
    }
}

/// Remarks about a simulation that do not fit into its tables: why the result is incomplete, and which stages its counts
/// belong to.
pub fn remarks(report: &dyn Report) -> Vec<String> {
    let report = report.as_any();
    if let Some(of) = report.downcast_ref::<Simulated>() {
        return of.incomplete.iter().cloned().chain(of.staged()).collect();
    }
    report.downcast_ref::<Swept>().map(|of| of.incomplete.clone()).unwrap_or_default()
}

/// Plans the cache simulation of another simulator.
pub fn plan_other(model: &OtherModel, config: Option<&Path>, trace: &dyn Trace) -> Result<Planned> {
    let OtherModel { name, of, info, pass } = model;
    let Some(path) = config else {
        return Err(Error::usage(format!("`--model {name}` has no usual caches"))
            .hint(format!("--config FILE with a configuration of {of}")));
    };
    let pass = pass(&text_of(path)?).map_err(|error| error.in_file(path.display().to_string()))?;
    Ok(Planned::new(info, info.needs.of(info.name, trace)?, pass))
}

/// Number of cores in a configuration file.
pub fn cores_of(path: &Path) -> Result<usize> {
    Ok(configuration(path)?.machine.cores)
}

/// Reads a configuration file for DynamoRIO's drcachesim.
fn configuration(path: &Path) -> Result<config::Config> {
    let (text, name) = (text_of(path)?, path.display().to_string());
    config::parse(&text, &name).map_err(|error| match Space::parse(&text, &name) {
        Ok(_) => error.hint("it says what a sweep tries: `quipu sim sweep --config FILE` takes it"),
        Err(_) => error,
    })
}

/// Reads a small text file, up to just over [`config::MAX_BYTES`].
pub fn text_of(path: &Path) -> Result<String> {
    let mut text = String::new();
    let limit = config::MAX_BYTES as u64 + 1;
    Reading::keep(path);
    File::open(path)
        .and_then(|file| file.take(limit).read_to_string(&mut text))
        .map_err(|error| io(path, &error))?;
    Ok(text)
}

fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {error}", path.display()))
}

/// A gzip-compressed miss file.
type Packed = flate2::write::GzEncoder<BufWriter<OutputFile>>;

/// Writes each miss as a line `process,0xpc,0xaddress` to the file of its cache. A file gets its name once it is complete.
struct MissFiles {
    /// For each cache, its file if it has one.
    files: Vec<Option<(PathBuf, Packed, Fresh)>>,
}

impl MissFiles {
    /// Creates the miss files that the caches of a machine ask for; `None` if there are none.
    fn create(settings: &Setup, replace: Replace) -> Result<Option<Box<dyn MissSink>>> {
        let mut files = Vec::new();
        for cache in &settings.machine.caches {
            files.push(match &cache.miss_file {
                None => None,
                Some(path) => {
                    let path = PathBuf::from(path);
                    let (fresh, file) = Fresh::file(&path, replace)?;
                    let level = flate2::Compression::fast();
                    Some((path, flate2::write::GzEncoder::new(BufWriter::new(file), level), fresh))
                }
            });
        }
        let any = files.iter().any(Option::is_some);
        Ok(any.then(|| Box::new(MissFiles { files }) as Box<dyn MissSink>))
    }
}

impl MissSink for MissFiles {
    fn miss(&mut self, process: u64, miss: &Miss) -> Result<()> {
        let Some(Some((path, file, _))) = self.files.get_mut(miss.cache as usize) else { return Ok(()) };
        writeln!(file, "{process},{:#x},{:#x}", miss.pc, miss.addr).map_err(|error| io(path, &error))
    }

    fn end(&mut self) -> Result<()> {
        for (path, file, fresh) in self.files.drain(..).flatten() {
            let pack = file.finish().and_then(|mut out| out.flush());
            pack.map_err(|error| io(&path, &error))?;
            fresh.commit()?;
        }
        Ok(())
    }
}
