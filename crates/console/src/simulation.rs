//! Runs simulations from a command line: configuration files, page lists and miss files around `quipu::sim`.

use quipu::engine::{Outcome, Planned};
use quipu::model::fresh::{Fresh, Replace};
use quipu::model::harmless::csv_cell;
use quipu::model::number::counted;
use quipu::model::{Error, ErrorKind, Given, Options, Report, Result, ToolInfo, Trace, Window};
use quipu::sim::sweep::{Space, Swept};
use quipu::sim::{
    EVICTIONS, Eviction, MISS_FILE, Miss, MissSink, OtherModel, Pages, Setup, Simulated, Simulation,
    Translator, caches, config, fit_trace, misses, tlbs,
};
use quipu::source::{OutputFile, Reading};
use quipu_view::grouped;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Inputs of a simulation besides its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// A configuration file, as for DynamoRIO's drcachesim.
    pub config: Option<PathBuf>,
    /// Whether to use physical addresses.
    pub physical: bool,
    /// A file with a list of pages.
    pub pages: Option<PathBuf>,
    /// Whether to count a warm-up that does not end as DynamoRIO does.
    pub counts_cold: bool,
    /// Whether lists of misses and of evictions may replace existing files.
    pub replace: Replace,
    /// Whether to count misses along the trace, for a chart.
    pub over_time: bool,
}

impl Default for Surroundings {
    fn default() -> Surroundings {
        Surroundings {
            config: None,
            physical: false,
            pages: None,
            counts_cold: false,
            replace: Replace::Never,
            over_time: false,
        }
    }
}

/// Plans a cache simulation.
pub fn plan_caches(given: &Given, around: &Surroundings, trace: &dyn Trace) -> Result<Planned> {
    let config = match &around.config {
        Some(path) => Some(configuration(path)?),
        None => None,
    };
    let specs = caches::INFO.options.iter().chain([&MISS_FILE, &EVICTIONS]);
    let options = Options::parse("the simulation of caches", specs, given)?;
    let options = &if config.is_some() { options } else { fit_trace(&options, trace) };
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
    let options = &fit_trace(&Options::parse("the search for misses", specs, given)?, trace);
    let settings = misses::settings(options)?.fitted(options, trace)?;
    plan(&misses::INFO, settings, around.physical, around, trace)
}

/// Plans a TLB simulation.
pub fn plan_tlbs(given: &Given, around: &Surroundings, trace: &dyn Trace) -> Result<Planned> {
    let config = around.config.as_deref().map(configuration).transpose()?;
    let options = &tlbs::fit(&tlbs::INFO.parse(given)?, config.as_ref(), trace);
    let physical = around.physical || config.as_ref().is_some_and(|config| config.use_physical);
    plan(&tlbs::INFO, tlbs::settings(options, config)?.fitted(options, trace)?, physical, around, trace)
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
    let given = Given::from([("top", top.to_string())]);
    // Lists of misses and charts of misses have room in the same places.
    let around = Surroundings { over_time: top > 0, ..Surroundings::default() };
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
    settings.over_time = around.over_time;
    let columns = settings.columns(info.name, trace)?;
    let files = Lists::create(&settings, around.replace)?;
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

/// Reads a configuration file, as for DynamoRIO's drcachesim.
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

/// Writes each miss as a line `process,0xpc,0xaddress` to the file of its cache, and each line that leaves a cache to one file.
/// A file gets its name once it is complete.
struct Lists {
    /// For each cache, its file if it has one.
    files: Vec<Option<(PathBuf, Packed, Fresh)>>,
    evictions: Option<Evictions>,
}

/// The file of lines that leave caches.
struct Evictions {
    path: PathBuf,
    file: BufWriter<OutputFile>,
    fresh: Fresh,
    /// Name of each cache, as a cell.
    names: Vec<String>,
}

impl Evictions {
    /// Creates the file, with a head.
    fn create(path: &str, settings: &Setup, replace: Replace) -> Result<Evictions> {
        if path == "-" {
            let error = Error::usage("evictions go into a file, since standard output has the result");
            return Err(error.hint("name a file, as in --evictions evictions.csv"));
        }
        let path = PathBuf::from(path);
        let (fresh, file) = Fresh::file(&path, replace)?;
        let mut file = BufWriter::new(file);
        writeln!(file, "process,pc,cache,address,reason,written_back").map_err(|error| io(&path, &error))?;
        let cell = |name: &str| {
            let mut cell = Vec::new();
            csv_cell(name.as_bytes(), false, &mut cell);
            String::from_utf8_lossy(&cell).into_owned()
        };
        let names = settings.machine.caches.iter().map(|cache| cell(&cache.name)).collect();
        Ok(Evictions { path, file, fresh, names })
    }
}

impl Lists {
    /// Creates the files that the caches of a machine and the settings ask for; `None` if there are none.
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
        let evictions = match &settings.evictions {
            Some(path) => Some(Evictions::create(path, settings, replace)?),
            None => None,
        };
        let any = evictions.is_some() || files.iter().any(Option::is_some);
        Ok(any.then(|| Box::new(Lists { files, evictions }) as Box<dyn MissSink>))
    }
}

impl MissSink for Lists {
    fn miss(&mut self, process: u64, miss: &Miss) -> Result<()> {
        let Some(Some((path, file, _))) = self.files.get_mut(miss.cache as usize) else { return Ok(()) };
        writeln!(file, "{process},{:#x},{:#x}", miss.pc, miss.addr).map_err(|error| io(path, &error))
    }

    fn evicted(&mut self, process: u64, eviction: &Eviction) -> Result<()> {
        let Some(Evictions { path, file, names, .. }) = &mut self.evictions else { return Ok(()) };
        let Eviction { cache, addr, left, is_written_back, pc } = eviction;
        let (name, reason) = (&names[*cache as usize], left.name());
        writeln!(file, "{process},{pc:#x},{name},{addr:#x},{reason},{is_written_back}")
            .map_err(|error| io(path, &error))
    }

    fn end(&mut self) -> Result<()> {
        for (path, file, fresh) in self.files.drain(..).flatten() {
            let pack = file.finish().and_then(|mut out| out.flush());
            pack.map_err(|error| io(&path, &error))?;
            fresh.commit()?;
        }
        if let Some(Evictions { path, mut file, fresh, .. }) = self.evictions.take() {
            file.flush().map_err(|error| io(&path, &error))?;
            drop(file);
            fresh.commit()?;
        }
        Ok(())
    }
}
