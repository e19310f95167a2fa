//! Records with an installed DynamoRIO: its tracer writes raw files, its converter turns them into traces.
//!
//! Both run unmodified. This module finds them, translates our limits into their options, and combines their output into one
//! result.

use crate::child::Child;
use crate::limits::Limits;
use crate::program::{Program, find_in_path};
use crate::record::{Job, Next, ProcessSummary, Summary};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::write::threads::is_recorded;
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::lens::instr_flags;
use quipu_model::{Columns, Error, ErrorKind, Format, OpenOptions, Result, Scan, ShardId};
use quipu_source::Source;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable with the folder of an installation or a build.
const HOME: &str = "DYNAMORIO_HOME";

/// Paths of the launcher and the converter.
struct Tools {
    drrun: PathBuf,
    converter: PathBuf,
}

impl Tools {
    /// Finds them in `home` if it is set, otherwise near the launcher in `PATH`.
    fn find() -> Result<Tools> {
        let missing = |what: &str| {
            Error::missing(format!("there is no {what} of DynamoRIO"))
                .hint(format!("unpack a release of DynamoRIO, and name its folder in {HOME}"))
        };
        let is_there = |path: &PathBuf| path.is_file();
        let named = std::env::var_os(HOME).map(|home| PathBuf::from(home).join("bin64/drrun"));
        let drrun = named.filter(is_there).or_else(|| find_in_path(OsStr::new("drrun")));
        let drrun = drrun.ok_or_else(|| missing("launcher `drrun`"))?;
        let real = drrun.canonicalize().unwrap_or_else(|_| drrun.clone());
        let home = real.parent().and_then(Path::parent).map(Path::to_owned);
        let places = home.into_iter().flat_map(|home| {
            // The folder in an installation, and in a build.
            ["tools/bin64", "clients/bin64"].map(|folder| home.join(folder).join("drraw2trace"))
        });
        let converter = places.into_iter().find(is_there).or_else(|| find_in_path(OsStr::new("drraw2trace")));
        Ok(Tools { drrun, converter: converter.ok_or_else(|| missing("converter `drraw2trace`"))? })
    }
}

/// Checks whether this front end can be used here.
///
/// # Errors
/// `Missing` without an installation of DynamoRIO.
pub fn usable() -> Result<()> {
    Tools::find().map(|_| ())
}

/// Records a program.
///
/// # Errors
/// `Missing` without an installation, or if nothing was recorded; `Usage` for limits that the tracer does not support, or a
/// place that may not be written to; `Io` for errors of the system; those of [`Program::find`].
pub fn record(job: &Job) -> Result<Summary> {
    let limits = arguments(&job.limits)?;
    let program = Program::find(&job.command)?;
    let tools = Tools::find()?;
    let path = job.output.clone().unwrap_or_else(|| {
        PathBuf::from(format!("drmemtrace.{}.{}.0000.dir", program.name, std::process::id()))
    });
    let (fresh, folder) = Fresh::folder(&path, job.replace, &is_recorded)?;
    let mut command = Command::new(&tools.drrun);
    if !job.follows_forks {
        command.arg("-no_follow_children");
    }
    command.args(["-t", "drmemtrace", "-offline", "-outdir"]).arg(&*folder).args(limits).arg("--");
    command.arg(&program.path).args(program.args.iter().skip(1));
    let mut child = Child::start(command, job.prints)?;
    let status = child.wait()?;
    let mut processes = Vec::new();
    for name in recordings(&folder)? {
        convert(&tools.converter, &folder.join(&name))?;
        processes.push(name);
    }
    if processes.is_empty() {
        return Err(Error::missing("nothing was recorded")
            .hint("DynamoRIO could not run the program; what was said above may tell why"));
    }
    if let ([only], false) = (&processes[..], job.follows_forks) {
        lift(&folder, only)?;
        processes = vec![String::new()];
    }
    let processes = processes.iter().map(|name| summary(&folder, name)).collect::<Result<Vec<_>>>()?;
    fresh.commit()?;
    let processes = processes.into_iter().map(|process| process.lies_in(&path)).collect();
    Ok(Summary {
        path,
        program: program.path,
        processes,
        findings: Vec::new(),
        warnings: Vec::new(),
        n_refused: 0,
        // The tracer does not report whether its limit was reached.
        is_limited: false,
        status,
        machine: program.machine,
    })
}

/// Translates our limits into options of the tracer.
fn arguments(limits: &Limits) -> Result<Vec<OsString>> {
    let refuse = |option: &str| {
        Err(Error::usage(format!("`{option}`: not with dynamorio, whose tracer has no such limit"))
            .hint("use --with qemu"))
    };
    if limits.most_bytes.is_some() {
        return refuse("--max-size");
    }
    let refused = [
        (limits.start_at.is_some(), "--start-at-function"),
        (limits.stop_at.is_some(), "--stop-at-function"),
        (!limits.only.is_empty(), "--only-module and --only-function"),
        (!limits.skip.is_empty(), "--skip-module and --skip-function"),
        (limits.start_after_time.is_some(), "--start-after"),
        (limits.stop_after_time.is_some(), "--stop-after"),
        (limits.toggled_by.is_some(), "--toggle-signal"),
    ];
    if let Some((_, option)) = refused.into_iter().find(|(is_asked, _)| *is_asked) {
        return refuse(option);
    }
    let mut all = Vec::new();
    let mut add = |option: &str, value: u64| all.extend([option.into(), value.to_string().into()]);
    if let Some(after) = limits.start_after {
        add("-trace_after_instrs", after);
    }
    match (limits.most_instrs, limits.windows) {
        (Some(_), Some(_)) => {
            return Err(Error::usage("`--max-instrs` with `--windows`: dynamorio has one of them at a time"));
        }
        (Some(most), None) => add("-trace_for_instrs", most),
        (None, Some((of, every))) => {
            add("-trace_for_instrs", of);
            // DynamoRIO's option counts the instructions between windows.
            add("-retrace_every_instrs", every - of);
            all.push("-no_split_windows".into());
        }
        (None, None) => {}
    }
    Ok(all)
}

/// The folders that the tracer made, one per process, sorted by name.
fn recordings(folder: &Path) -> Result<Vec<String>> {
    let failed = |cause| cannot("list", folder, cause);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        if name.starts_with("drmemtrace.") && folder.join(&name).join("raw").is_dir() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Converts raw files to a trace and removes them.
fn convert(converter: &Path, folder: &Path) -> Result<()> {
    let mut command = Command::new(converter);
    // The converter's output must not mix with the program's.
    command.arg("-indir").arg(folder).stdin(Stdio::null()).stdout(Stdio::null());
    let failed = |cause| Error::new(ErrorKind::Io, "cannot run the converter").because(cause);
    let status = command.status().map_err(failed)?;
    if !status.success() {
        return Err(Error::new(ErrorKind::Io, format!("the converter failed: {status}"))
            .in_file(folder.display().to_string()));
    }
    let raw = folder.join("raw");
    std::fs::remove_dir_all(&raw).map_err(|cause| cannot("remove", &raw, cause))
}

/// Moves the contents of the only folder one level up.
fn lift(folder: &Path, name: &str) -> Result<()> {
    let inner = folder.join(name);
    for entry in std::fs::read_dir(&inner).map_err(|cause| cannot("list", &inner, cause))? {
        let entry = entry.map_err(|cause| cannot("list", &inner, cause))?;
        std::fs::rename(entry.path(), folder.join(entry.file_name()))
            .map_err(|cause| cannot("move", &inner, cause))?;
    }
    std::fs::remove_dir(&inner).map_err(|cause| cannot("remove", &inner, cause))
}

/// Summary of the trace of one process, which is read once for this.
fn summary(folder: &Path, name: &str) -> Result<ProcessSummary> {
    let source = Source::open(&folder.join(name)).map_err(Error::from)?;
    let trace = DRMEMTRACE.open(&source, &OpenOptions::default())?;
    let threads = trace.shards().len() as u64;
    let (mut instrs, mut records) = (0, 0);
    for shard in 0..trace.shards().len() {
        let id = ShardId(shard as u32); // No folder contains 2^32 files.
        let mut reader = trace.scan(&Scan { ahead: true, ..Scan::new(id).columns(Columns::INSTRS) })?;
        while let Some(batch) = reader.read()? {
            records += u64::from(batch.span.records);
            let is_fetched = |flags: &&u8| **flags & instr_flags::NO_FETCH == 0;
            instrs += batch.instrs.flags.iter().filter(is_fetched).count() as u64;
        }
    }
    let pid = name.rsplit('.').nth(2).and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let bytes = trace.meta().packed_bytes.unwrap_or(0);
    // drmemtrace.NAME.PID.NNNN.dir
    let app = name.strip_prefix("drmemtrace.").and_then(|rest| rest.rsplitn(4, '.').nth(3));
    Ok(ProcessSummary {
        pid,
        name: app.unwrap_or(name).to_owned(),
        path: PathBuf::from(name),
        threads,
        instrs,
        records,
        bytes,
        next: Next::Nothing,
        children_left_out: 0,
    })
}
