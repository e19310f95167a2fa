//! Records a program that was compiled with instrumentation: it runs on its own; its recording is converted afterwards.

use crate::child::Child;
use crate::library;
use crate::limits::Limits;
use crate::program::Program;
use crate::record::{Job, Next, ProcessSummary, Summary};
use crate::switch::{Switch, Turn};
use crate::tsan::control::Running;
use crate::tsan::file::{Capture, Ending};
use crate::tsan::merge::events;
use crate::tsan::runtime::{self, LIBRARY, Linked};
use crate::tsan::trace::{Output, collect};
use crate::tsan::wrap;
use quipu_cells::event::Event;
use quipu_model::fresh::{self, cannot};
use quipu_model::{Damaged, Finding, Place, RuleInfo, Severity};
use quipu_model::{Error, Result};
use quipu_source::Pool;
use quipu_symbols::places::Places;
use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time between two looks at the clock and the signals.
const NAP: Duration = Duration::from_millis(20);

/// Checks whether this front end can be used here. It needs only a program, or a library of it, that was compiled for it.
///
/// # Errors
/// None.
pub fn usable() -> Result<()> {
    Ok(())
}

/// Records a program into one file per process, and keeps the recording next to it: `NAME.quipu`.
///
/// # Errors
/// `Usage` for limits in instructions, which are not counted here; `Missing` if the program recorded nothing; those of
/// [`Program::find`] and [`collect`].
pub fn record(job: &Job) -> Result<Summary> {
    refuse(&job.limits)?;
    if job.follows_forks && Switch::new(&job.limits).is_needed() {
        return Err(Error::usage(
            "`--follow-fork`: not with options that start and stop recording by time or signals",
        )
        .hint("use `QUIPU_PAUSE()` and `QUIPU_RESUME()` of quipu.h in the program"));
    }
    let program = Program::find(&job.command)?;
    let path =
        job.output.clone().unwrap_or_else(|| format!("{}.{}.trace", program.name, std::process::id()).into());
    refuse_name(&path)?;
    // The program runs only once, so file names are checked first.
    fresh::check_file(&path, job.replace)?;
    fresh::check_file(&path.with_extension("quipu"), job.replace)?;
    let folder = Captures::new(&path)?;
    let mut command = Command::new(&program.path);
    command.args(program.args.iter().skip(1)).env("QUIPU_OUT", folder.pattern());
    command.env("QUIPU_FOLLOW_FORK", if job.follows_forks { "1" } else { "0" });
    if let Some(bytes) = job.limits.most_bytes {
        command.env("QUIPU_MAX_BYTES", bytes.to_string());
    }
    let loaded = runtime::to_load(&program)?;
    if let Some(path) = &loaded {
        runtime::load_first(&mut command, path);
    }
    if let Some((of, every)) = job.limits.windows {
        command.env("QUIPU_WINDOWS", format!("{of}/{every}"));
    }
    let switch = Switch::new(&job.limits);
    let mut was_on = switch.now() == Turn::On;
    if !was_on {
        command.env("QUIPU_PAUSED", "1");
    }
    let mut child = Child::start(command, job.prints)?;
    let pid = child.pid();
    while switch.is_needed() && child.ended().is_none() {
        let is_on = switch.now() == Turn::On;
        was_on |= is_on;
        folder.pause(!is_on)?;
        std::thread::sleep(NAP);
    }
    let status = child.wait()?;
    if !was_on {
        return Err(
            Error::missing("nothing was recorded").hint("the program ended before recording was started")
        );
    }
    let is_over = switch.now() == Turn::Over;
    let captures = folder.files(pid, job.follows_forks)?;
    let pool = Pool::new(std::thread::available_parallelism().map_or(1, usize::from))?;
    let (mut processes, mut is_limited, mut warnings) = (Vec::new(), is_over, Vec::new());
    let findings = other_build(&program.path, loaded.as_deref())?.into_iter().collect();
    for (nth, (name, capture)) in captures.iter().enumerate() {
        // The first is the program itself.
        let trace = if processes.is_empty() { path.clone() } else { with_process(&path, name) };
        let kept = trace.with_extension("quipu");
        let output = Output {
            path: &trace,
            packing: &job.pack,
            replace: job.replace,
            pool: &pool,
            damaged: Damaged::Keep,
            // A process without events gets a trace like the others.
            may_be_empty: true,
            source_map: &[],
        };
        // The recording is a trace as well, and is kept if the conversion cannot be written.
        fresh::rename(capture, &kept, job.replace)?;
        let summary = collect(&kept, &output)?;
        // A runtime that was loaded into a program without instrumentation, such as a shell, sees the program's allocations.
        let is_seen = summary.n_accesses + summary.n_atomics + summary.n_calls > 0;
        if loaded.is_some() && !is_seen {
            for made in [&trace, &kept] {
                fs::remove_file(made).map_err(|cause| cannot("remove", made, cause))?;
            }
            // It is missing if nothing was allocated.
            let _ = fs::remove_file(Places::path_beside(&trace));
            continue;
        }
        if processes.is_empty() {
            warnings = summary.warnings();
        }
        is_limited |= matches!(summary.ending, Ending::SizeReached | Ending::DiskFull);
        processes.push(ProcessSummary {
            pid: u32::try_from(summary.pid).unwrap_or(0),
            name: program.name.clone(),
            path: trace,
            threads: summary.n_threads,
            instrs: 0,
            records: summary.written.records,
            bytes: summary.written.packed_bytes,
            children_left_out: 0,
            next: match captures.get(nth + 1) {
                Some((next, _)) if next.starts_with(&format!("{}.quipu.", summary.pid)) => Next::Recorded,
                _ => Next::Nothing,
            },
        });
    }
    if processes.is_empty() {
        let error = Error::missing("the program recorded nothing");
        return Err(error.hint(match has_code(&folder.files(pid, true)?) {
            true => "processes that it started did: `--follow-fork` records them, too",
            false => "compile it, or the libraries that it loads, with `quipu cc` or `quipu c++`",
        }));
    }
    Ok(Summary {
        path,
        program: program.path,
        processes,
        findings,
        warnings,
        n_refused: 0,
        is_limited,
        status,
        machine: program.machine,
    })
}

/// Whether one of some recordings is of instrumented code: a runtime that is loaded into every process sees allocations of
/// other code, too.
fn has_code(captures: &[(String, PathBuf)]) -> bool {
    captures.iter().any(|(_, path)| {
        let Ok(capture) = Capture::open(path) else { return false };
        let mut is_seen = false;
        let read = events(&capture, &mut |_, event| {
            is_seen = matches!(event, Event::Access(_) | Event::Atomic(_) | Event::Enter { .. });
            Ok::<_, Error>(if is_seen { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        read.is_ok() && is_seen
    })
}

/// A finding if the runtime of a program is from another build: the one that was loaded before the program, or that the
/// program is linked with or needs.
fn other_build(program: &Path, loaded: Option<&Path>) -> Result<Option<Finding>> {
    let file = match (loaded, runtime::linked(program)) {
        (Some(runtime), _) => Some(runtime.to_owned()),
        // If it is not found, this does not matter: the program runs.
        (None, Some(Linked::Shared)) => library::find(LIBRARY, wrap::PACKAGE).ok(),
        (None, Some(Linked::Static)) => Some(program.to_owned()),
        (None, None) => None,
    };
    let other = file.map(|file| wrap::other_build(&file)).transpose()?.flatten();
    Ok(other.map(|build| {
        let place = Place { file: Some(program.display().to_string()), ..Place::default() };
        let what = format!(
            "it is recorded by a runtime of another build ({build}), and tables of the recording may lack something: compile it anew"
        );
        OTHER_RUNTIME.broken(place, what)
    }))
}

/// The rule that the runtime of a program has to belong to this version of Quipu.
static OTHER_RUNTIME: RuleInfo = RuleInfo {
    name: "record/other-runtime",
    group: "",
    severity: Severity::Warning,
    summary: "A program is recorded by the runtime that goes with Quipu.",
    doc: "",
    original: &[],
};

/// Refuses a trace name that would clash with the recording next to it.
fn refuse_name(path: &Path) -> Result<()> {
    match path.extension().is_some_and(|end| end == "quipu") {
        false => Ok(()),
        true => Err(Error::usage("`-o`: that is what the recording beside the trace is called").hint(
            "name the trace otherwise, such as NAME.trace; all verbs read the recording NAME.quipu, too",
        )),
    }
}

/// Refuses limits that need instruction counts.
fn refuse(limits: &Limits) -> Result<()> {
    let refused = [
        (limits.most_instrs.is_some(), "--max-instrs"),
        (limits.start_after.is_some(), "--start-after-instrs"),
        (limits.start_at.is_some(), "--start-at-function"),
        (limits.stop_at.is_some(), "--stop-at-function"),
        (!limits.only.is_empty(), "--only-module and --only-function"),
        (!limits.skip.is_empty(), "--skip-module and --skip-function"),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, option)) => {
            Err(Error::usage(format!("`{option}`: not with tsan, which sees no instructions"))
                .hint("use `quipu_pause()` of quipu.h in the program, or --with qemu"))
        }
    }
}

/// `prog.trace` with the process part of the recording's name in place of the extension.
fn with_process(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}.{}.trace", name.replace(".quipu", "")))
}

/// Folder of the recordings while the program runs; removed on drop.
struct Captures {
    folder: PathBuf,
}

impl Captures {
    fn new(path: &Path) -> Result<Captures> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let parent = parent.canonicalize().map_err(|cause| cannot("find", &parent, cause))?;
        let folder = parent.join(format!(".{name}.{}", std::process::id()));
        fs::create_dir(&folder).map_err(|cause| cannot("make", &folder, cause))?;
        Ok(Captures { folder })
    }

    /// Value of `QUIPU_OUT` for the runtime: one file per process.
    fn pattern(&self) -> OsString {
        let mut pattern = Vec::new();
        for &byte in self.folder.as_os_str().as_bytes() {
            pattern.extend(std::iter::repeat_n(byte, if byte == b'%' { 2 } else { 1 }));
        }
        pattern.extend_from_slice(b"/%p.quipu");
        OsString::from_vec(pattern)
    }

    /// Pauses or resumes all recordings so far; those of processes that have just started follow the next time.
    fn pause(&self, is_paused: bool) -> Result<()> {
        let files = fs::read_dir(&self.folder).map_err(|cause| cannot("list", &self.folder, cause))?;
        let mut running = files.flatten().filter_map(|entry| Running::at(&entry.path()));
        running.try_for_each(|running| running.set_paused(is_paused))
    }

    /// The recordings, those of the program's own process first; those of other processes only if requested.
    fn files(&self, pid: u32, with_others: bool) -> Result<Vec<(String, PathBuf)>> {
        let failed = |cause| cannot("list", &self.folder, cause);
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            files.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
        let own = format!("{pid}.quipu");
        let is_own = |name: &str| name.starts_with(&own);
        files.retain(|(name, _)| with_others || is_own(name));
        files.sort_by(|(a, _), (b, _)| (!is_own(a), a).cmp(&(!is_own(b), b)));
        Ok(files)
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
