//! `simulator -i TRACE -c CONFIG [-d TYPES] [-r REMAP] [-s] [-t] [--out DIR]`.
//!
//! Events go to `[TRACE].SimulationOutput.HHMMSS` and the log of the trace to `traceLog.txt`, in the working folder or in
//! DIR. Structures are printed in the order of their names.

use super::{DIALECT, open};
use quipu::cacheray::record::{KIND_MASK, Record, WRITE};
use quipu::cacheray::trace::{StrictEnd, read_strictly};
use quipu::model::fresh::{Fresh, Replace};
use quipu::model::{Error, ErrorKind};
use quipu::sim::cacheray::{Configuration, Levels, Simulator, Structs, text};
use quipu::source::{OutputFile, Reading};
use quipu::symbols::remap::Remap;
use quipu::symbols::types_file::{Lookup, TypesFile};
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session::Verdict;
use quipu_console::terminal;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Cacheray writes events in blocks of this many bytes, so a run that ends early leaves whole blocks.
const EVENT_BLOCK_BYTES: usize = 8192;

pub(super) const HELP: &str = "\
Usage: quipu as cacheray simulator -i TRACE -c CONFIG [OPTIONS]

Simulates caches as Cacheray does, faults included. Events go to [TRACE].SimulationOutput.HHMMSS,
the records as text to traceLog.txt, and tables of structures and levels to standard output.

  -i TRACE   trace, little-endian with 64-bit addresses
  -c CONFIG  cache configuration, as JSON
  -d TYPES   types of the program, from dwarf2json
  -r REMAP   new positions of structure members
  -s         print only events, to standard output instead of a file
  -t         no progress line (there is none)
  -l LIST    ignored, as by Cacheray
  --out DIR  output folder; default: the working directory
";

/// Parsed arguments of the simulator.
#[derive(Debug, Default)]
struct Request {
    trace: Option<String>,
    config: Option<String>,
    types: Option<String>,
    remap: Option<String>,
    events_to_stdout: bool,
    out: Option<PathBuf>,
}

fn parse(args: &[String]) -> Result<Request> {
    let mut request = Request::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| Error::usage(format!("`{arg}` needs a value")));
        match arg.as_str() {
            "-i" => request.trace = Some(value()?),
            "-c" => request.config = Some(value()?),
            "-d" => request.types = Some(value()?),
            "-r" => request.remap = Some(value()?),
            "--out" => request.out = Some(value()?.into()),
            "-s" => request.events_to_stdout = true,
            // There is no progress line to suppress.
            "-t" => {}
            // Cacheray accepts a list and ignores it.
            "-l" => drop(value()?),
            other => {
                return Err(Error::usage(format!("the simulator has no option `{other}`"))
                    .hint("`quipu as cacheray simulator --help` lists them")
                    .into());
            }
        }
    }
    Ok(request)
}

fn read(path: &str) -> Result<String> {
    Reading::keep(Path::new(path));
    let bytes =
        std::fs::read(path).map_err(|cause| failed(Path::new(path), "cannot read the file", cause))?;
    Ok(String::from_utf8(bytes).map_err(|_| Error::malformed("the file is no UTF-8 text").in_file(path))?)
}

fn failed(path: &Path, what: &'static str, cause: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, what).in_file(path.display().to_string()).because(cause)
}

pub(super) fn run(args: &[String], screen: &Screen) -> Result<Outcome> {
    let request = parse(args)?;
    let Some(trace) = &request.trace else {
        return Err(Error::usage("no trace is given").hint("-i TRACE").into());
    };
    let Some(config) = &request.config else {
        return Err(Error::usage("no configuration is given").hint("-c CONFIG").into());
    };
    if trace.contains(',') {
        return Err(Error::unsupported("several traces: Cacheray hangs").hint("run them one by one").into());
    }
    Reading::keep(Path::new(trace));
    let config = Configuration::parse(&read(config)?).map_err(|error| error.in_file(config.as_str()))?;
    let lookup = match &request.types {
        Some(path) => {
            let file = TypesFile::parse(read(path)?.as_bytes());
            Lookup::new(&file.map_err(|error| Error::malformed(error.to_string()).in_file(path.as_str()))?)
        }
        None => Lookup::default(),
    };
    let remap = match &request.remap {
        Some(path) => Some(
            Remap::parse(&read(path)?)
                .map_err(|error| Error::malformed(error.to_string()).in_file(path.as_str()))?,
        ),
        None => None,
    };
    let levels = Levels::new(&config);
    let (structs, remapped, n_left_out) = Structs::new(lookup, remap.as_ref(), levels.as_slice().len());
    for _ in 0..n_left_out {
        quipu_console::screen::eprint("ERROR: Remap list contained bad member\n");
    }
    // Cacheray writes colours on everything that it writes to.
    let paint = terminal::stdout().paint();
    let beginning = text::beginning(levels.as_slice(), &remapped, &paint);
    let mut run = Run::new(&request, trace)?;
    let selected = if request.events_to_stdout { "stdout selected\n" } else { "" };
    if let Err(stop) = screen.text(&format!("{selected}{beginning}")) {
        // The reader of standard output has closed it; the log is kept, although it is empty.
        run.log.finish()?;
        return Err(stop);
    }
    let mut simulator = Simulator::new(levels, structs);
    let end = read_strictly(&open(trace)?, DIALECT, |record| run.record(&mut simulator, record, screen));
    if run.stop.is_some() {
        // The reader of the events has closed the pipe; the log of the simulated part is kept.
        run.log.finish()?;
    }
    let end = end.map_err(|error| run.stop.take().unwrap_or_else(|| error.into()))?;
    match end {
        StrictEnd::Whole => {}
        StrictEnd::Cut(_, offset) => {
            quipu_console::screen::eprint("ERROR: trace file parse error\n");
            run.give_up()?;
            let error = Error::truncated("the last record is cut");
            return Ok(no_report(at(error, trace, offset, run.n_records), screen));
        }
        StrictEnd::Bad(bad, offset) => {
            run.give_up()?;
            return Ok(no_report(
                at(Error::malformed(bad.to_string()), trace, offset, run.n_records),
                screen,
            ));
        }
    }
    run.finish(screen)?;
    // With `-s`, Cacheray closes standard output after the events, so its report is lost.
    if !request.events_to_stdout {
        let report = text::report(simulator.levels.as_slice(), &simulator.structs, run.n_records, &paint);
        screen.text(&(run.found + &report))?;
    }
    Ok(Outcome::Fine)
}

/// Reports the error, and that it leaves no report.
fn no_report(error: Error, screen: &Screen) -> Outcome {
    Verdict { error: Some(Arc::new(error)), meaning: "there is no report", ..Verdict::default() }.tell(screen)
}

fn at(error: Error, file: &str, offset: u64, record: u64) -> Error {
    let place = quipu::model::Place { offset: Some(offset), record: Some(record), ..Default::default() };
    error.at(&place).in_file(file)
}

/// A file that a run creates.
struct New {
    path: PathBuf,
    /// The open file, and the guard that gives it its name; `None` once it has the name.
    file: Option<(BufWriter<OutputFile>, Fresh)>,
}

impl New {
    fn create(path: PathBuf) -> quipu::model::Result<New> {
        let (fresh, file) = Fresh::file(&path, Replace::Allowed)?;
        Ok(New { path, file: Some((BufWriter::new(file), fresh)) })
    }

    fn write(&mut self, bytes: &[u8]) -> quipu::model::Result<()> {
        let written = self.file.as_mut().map_or(Ok(()), |(file, _)| file.write_all(bytes));
        written.map_err(|cause| failed(&self.path, "cannot write", cause))
    }

    fn finish(&mut self) -> quipu::model::Result<()> {
        let Some((mut file, fresh)) = self.file.take() else { return Ok(()) };
        file.flush().map_err(|cause| failed(&self.path, "cannot write", cause))?;
        drop(file);
        fresh.commit()
    }
}

/// Output state of a run.
struct Run {
    /// File for events; `None` for standard output.
    events: Option<New>,
    log: New,
    /// Events that have not been written yet.
    pending: String,
    line: String,
    found: String,
    n_records: u64,
    /// The error after which standard output accepts no more.
    stop: Option<Stop>,
}

impl Run {
    fn new(request: &Request, trace: &str) -> Result<Run> {
        let folder = request.out.clone().unwrap_or_else(|| PathBuf::from("."));
        if request.out.is_some() {
            std::fs::create_dir_all(&folder)
                .map_err(|cause| failed(&folder, "cannot create the folder of `--out`", cause))?;
        }
        // Cacheray uses the path as it is given, and fails if it contains folders.
        let name = Path::new(trace).file_name().map_or(trace.into(), |name| name.to_string_lossy());
        let events = match request.events_to_stdout {
            true => None,
            false => Some(New::create(folder.join(format!("[{name}].SimulationOutput.{}", time_of_day())))?),
        };
        let log = New::create(folder.join("traceLog.txt"))?;
        Ok(Run {
            events,
            log,
            pending: String::new(),
            line: String::new(),
            found: String::new(),
            n_records: 0,
            stop: None,
        })
    }

    fn record(
        &mut self,
        simulator: &mut Simulator,
        record: &Record<'_>,
        screen: &Screen,
    ) -> quipu::model::Result<()> {
        self.n_records += 1;
        self.line.clear();
        match record {
            Record::Access(access) => {
                let is_write = access.tag & KIND_MASK == WRITE;
                text::logged_access(access.thread, is_write, access.addr, access.size, &mut self.line);
                let pending = &mut self.pending;
                simulator.access(access.addr, access.size, is_write, &mut |level, event| {
                    text::event(level, event, pending);
                })?;
            }
            Record::Add(add) => {
                let name = String::from_utf8_lossy(add.name);
                let (n_bytes, n_elements) = (add.element_bytes, add.n_elements);
                text::logged_add(add.thread, add.addr, n_bytes, n_elements, &name, &mut self.line);
                text::found(&name, &mut self.found);
                simulator.structs.add(&name, add.addr, n_elements);
            }
            Record::Remove(remove) => text::logged_remove(remove.thread, remove.addr, &mut self.line),
        }
        self.log.write(self.line.as_bytes())?;
        if self.pending.len() >= 8 * EVENT_BLOCK_BYTES {
            let whole = self.pending.len() / EVENT_BLOCK_BYTES * EVENT_BLOCK_BYTES;
            self.events_up_to(whole, screen)?;
        }
        Ok(())
    }

    /// Writes the first `n_bytes` of the pending events.
    fn events_up_to(&mut self, n_bytes: usize, screen: &Screen) -> quipu::model::Result<()> {
        let now: String = self.pending.drain(..n_bytes).collect();
        match &mut self.events {
            Some(events) => events.write(now.as_bytes()),
            None => screen.text(&now).map_err(|stop| {
                self.stop = Some(stop);
                Error::new(ErrorKind::Io, "cannot write to standard output")
            }),
        }
    }

    fn give_up(&mut self) -> Result<()> {
        // The log has no name yet, and does not get one.
        if let Some(events) = &mut self.events {
            let whole = self.pending.len() / EVENT_BLOCK_BYTES * EVENT_BLOCK_BYTES;
            let bytes = self.pending.as_bytes().get(..whole).unwrap_or(&[]);
            events.write(bytes)?;
            events.finish()?;
        }
        Ok(())
    }

    fn finish(&mut self, screen: &Screen) -> Result<()> {
        let told = self.events_up_to(self.pending.len(), screen);
        self.log.finish()?;
        told.map_err(|error| self.stop.take().unwrap_or_else(|| error.into()))?;
        Ok(self.events.as_mut().map_or(Ok(()), New::finish)?)
    }
}

/// Time of day in UTC, as `HHMMSS`.
fn time_of_day() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{:02}{:02}{:02}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}
