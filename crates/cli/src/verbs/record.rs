//! `quipu record`: records the execution of a program.

use super::collect::duration;
use quipu::model::fresh::{Replace, cannot};
use quipu::model::harmless::shell_word;
use quipu::model::number::counted;
use quipu::model::trace::Fact;
use quipu::model::transform::packing_for;
use quipu::model::{Damaged, Error, ErrorKind, Options as Settings};
use quipu::source::{PackOptions, Packing, Source, Temporary};
use quipu_capture::events::{self, How, Level};
use quipu_capture::limits::{Code, Limits, UserSignal};
use quipu_capture::record::{
    Destination, FRONT_ENDS, FrontEnd, Job, Next, PROGRAM, Prints, ProcessSummary, Summary, TRACE, front_end,
};
use quipu_capture::tsan::control::Running;
use quipu_console::input::Opening;
use quipu_console::rewrite::{self, Answer, Target};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, OF_A_FILE, Verdict};
use quipu_console::{Common, number, terminal};
use quipu_view::{bytes_text, grouped};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Record the execution of a program
///
/// The program is not modified, and may be for this machine's architecture or another one. It runs with its own standard
/// input, output and signals, and `quipu record` exits as it exits. For a script, its interpreter is recorded.
///
/// Limits count the instructions of all threads together, in the order in which they are read; with one thread, that is
/// exact. After a limit is reached, the program continues unrecorded.
///
/// With `-o -`, the trace is written to standard output when the program has ended, as a stream that any verb reads from a
/// pipe; what the program prints goes to standard error.
///
/// A program that is killed leaves a valid trace too. If a program replaces itself (`exec`), each program is recorded, the
/// later ones in folders inside that of the first.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// Recording method; `--list` shows them. Default: tsan for programs that `quipu cc` compiled, or that are linked with such
    /// libraries; otherwise the first that is usable here
    #[arg(long, value_name = "FRONT-END", default_value = "auto")]
    with: String,
    /// Output, `-` for a stream on standard output; by default a folder like `drmemtrace.ls.4711.0000.dir` in the working
    /// directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Store workload events instead, with this level of detail at most: all, communication, fixed, none, or fields such as
    /// e0:90:80; the output is a file of events. `--list` shows the events of each method
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = events::level, requires = "output")]
    events: Option<Level>,
    /// Overwrite the output if it is a trace and nothing else
    #[arg(long)]
    force: bool,
    /// Compression: zip, gzip, lz4, snappy, zstd or plain; default: by the extension of the output, otherwise zip
    #[arg(long, value_name = "CONTAINER")]
    container: Option<String>,
    /// Compression level: 1 (fast) to 9 (small) for zip and gzip, to 19 for zstd; default 1
    #[arg(long, value_name = "LEVEL", value_parser = number::level)]
    level: Option<u32>,
    /// Stop recording when the files have this many bytes; buffered data is still written, up to some hundred KiB more for
    /// each thread
    #[arg(long, value_name = "BYTES", value_parser = number::positive, help_heading = "Limits")]
    max_size: Option<u64>,
    /// Stop recording after this many instructions
    #[arg(long, value_name = "N", value_parser = number::positive, help_heading = "Limits")]
    max_instrs: Option<u64>,
    /// Start recording after this many instructions
    #[arg(long, value_name = "N", value_parser = number::number, help_heading = "Limits")]
    start_after_instrs: Option<u64>,
    /// Record the first N of every M instructions, each time as a window; for programs of `quipu cc`, of the events of each
    /// thread
    #[arg(long, value_name = "N/M", value_parser = windows, help_heading = "Limits")]
    windows: Option<(u64, u64)>,
    /// Start recording at the first call of this function of the program or of a library that it loads; requires symbols
    #[arg(long, value_name = "NAME", help_heading = "Limits")]
    start_at_function: Option<String>,
    /// Stop recording at a call of this function; with --start-at-function, recording starts again at the next call of that
    /// one, each time as a window
    #[arg(long, value_name = "NAME", help_heading = "Limits", conflicts_with = "windows")]
    stop_at_function: Option<String>,
    /// Start recording this long after the program: 500ms, 2s, 5m
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    start_after: Option<Duration>,
    /// Stop recording this long after the program started
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    stop_after: Option<Duration>,
    /// Start recording when `quipu record` itself gets this signal, USR1 or USR2, stop at the next one, and so on
    #[arg(long, value_name = "SIGNAL", value_parser = signal, help_heading = "Limits", conflicts_with = "windows")]
    toggle_signal: Option<UserSignal>,
    /// Record only code of these programs and libraries: `prog`, `libz`, `libc.so.6`, or a path. Each time that the program
    /// comes back to it begins a window
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Code", conflicts_with_all = OTHER_WINDOWS)]
    only_module: Vec<String>,
    /// Do not record code of these programs and libraries
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Code", conflicts_with_all = OTHER_WINDOWS)]
    skip_module: Vec<String>,
    /// Record only code of these functions, by their symbols, without what they call
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Code", conflicts_with_all = OTHER_WINDOWS)]
    only_function: Vec<String>,
    /// Do not record code of these functions
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "Code", conflicts_with_all = OTHER_WINDOWS)]
    skip_function: Vec<String>,
    /// Also record child processes, each into a folder of its own
    #[arg(long)]
    follow_fork: bool,
    /// Instead of starting a program, control the recording of a running one that `quipu cc` compiled; with -o NAME.quipu,
    /// write what it has recorded so far
    #[arg(long, value_name = "PID", help_heading = "Running programs", conflicts_with_all = NOT_OF_RUNNING)]
    pid: Option<u32>,
    /// Let the program with --pid record nothing until it is resumed; it notices when a buffer of some ten thousand events is
    /// full
    #[arg(long, help_heading = "Running programs", requires = "pid")]
    pause: bool,
    /// Let the program with --pid record again
    #[arg(long, help_heading = "Running programs", requires = "pid", conflicts_with = "pause")]
    resume: bool,
    /// List the recording methods, and which of them are usable here
    #[arg(long)]
    list: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present_any = ["list", "pid"]
    )]
    command: Vec<OsString>,
}

/// Options that make windows in other ways.
const OTHER_WINDOWS: [&str; 3] = ["windows", "stop_at_function", "toggle_signal"];

/// Options for programs that `record` starts.
const NOT_OF_RUNNING: [&str; 18] = [
    "command",
    "events",
    "with",
    "container",
    "level",
    "follow_fork",
    "max_size",
    "max_instrs",
    "start_after_instrs",
    "windows",
    "start_at_function",
    "stop_at_function",
    "start_after",
    "stop_after",
    "toggle_signal",
    "only_module",
    "skip_module",
    "only_function",
];

/// Most processes to report by name.
const MOST_SAID: usize = 16;

const AFTER_HELP: &str = "\
Examples:
  quipu record -- ./prog input.txt
  quipu record -o matrix.dir --max-instrs 100M -- ./matrix 512
  quipu record --windows 1M/100M -- ./server
  quipu record --start-at-function parse --stop-at-function render -- ./prog
  quipu record --start-after 2s --stop-after 5s -- ./server
  quipu record --skip-module libc,ld-linux-x86-64 -- ./prog
  quipu record --pid 4711 -o so-far.quipu
  quipu cc -O2 list.c -o list && quipu record -o list.trace -- ./list
  quipu record -o - -- ./prog | quipu report -
  quipu record --events --with valgrind -o ls.events -- ls
  quipu record --list

Exit codes:
  that of the program, or 128 plus the number of the signal that ended it;
  1  the program exited with 0, but the end of a process was not recorded, or events were lost
  2  nothing was recorded";

/// The packing that the options ask for, as `quipu convert` understands them; fast by default, because the program waits.
fn packing(options: &Options) -> Result<PackOptions> {
    let output = options.output.as_deref().unwrap_or(Path::new(""));
    let name = output.file_name().unwrap_or_default().to_string_lossy();
    let usual = || Packing::of_file_name(&name).is_none().then_some(Packing::Zip.name());
    let container = options.container.as_deref().or_else(usual);
    let pack = packing_for(container, options.level, output)?;
    Ok(PackOptions { level: pack.level.or(Some(1)), ..pack })
}

/// Code by the names of modules and of functions.
fn named(modules: &[String], functions: &[String]) -> Vec<Code> {
    let modules = modules.iter().cloned().map(Code::Module);
    modules.chain(functions.iter().cloned().map(Code::Function)).collect()
}

/// Parses the name of a signal that is free for programs to use.
fn signal(text: &str) -> Result<UserSignal, String> {
    UserSignal::named(text).ok_or_else(|| format!("expected USR1 or USR2, found `{text}`"))
}

/// Parses `N/M`, with 0 < N <= M.
fn windows(text: &str) -> Result<(u64, u64), String> {
    let expected = || format!("expected how many of how many instructions, such as 1M/100M, found `{text}`");
    let (of, every) = text.split_once('/').ok_or_else(expected)?;
    let (of, every) = (number::number(of)?, number::number(every)?);
    if of == 0 || of > every { Err(expected()) } else { Ok((of, every)) }
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    if options.list {
        screen.text(&list())?;
        return Ok(Outcome::Fine);
    }
    if let Some(pid) = options.pid {
        return control(options, pid, screen);
    }
    let front_end = front_end(&options.with, &options.command)?;
    let pack = packing(options)?;
    let limits = Limits {
        most_bytes: options.max_size,
        most_instrs: options.max_instrs,
        start_after: options.start_after_instrs,
        start_at: options.start_at_function.clone(),
        stop_at: options.stop_at_function.clone(),
        windows: options.windows,
        start_after_time: options.start_after,
        stop_after_time: options.stop_after,
        toggled_by: options.toggle_signal,
        only: named(&options.only_module, &options.only_function),
        skip: named(&options.skip_module, &options.skip_function),
    };
    if let (Some(start), Some(stop)) = (options.start_after, options.stop_after)
        && start >= stop
    {
        return Err(Error::usage("`--stop-after`: recording would stop before it starts")
            .hint("both count from the start of the program: --start-after 1s --stop-after 3s")
            .into());
    }
    if let Some(signal) = options.toggle_signal {
        let (name, pid) = (signal.name(), std::process::id());
        screen.say(format_args!("recording starts and stops at each signal: kill -{name} {pid}"));
    }
    if let (Some(detail), Some(output)) = (options.events, &options.output) {
        return store_events(options, front_end, &limits, (detail, output), screen);
    }
    let is_piped = options.output.as_deref() == Some(Path::new("-"));
    let folder = if is_piped { Some(folder_for_pipe(options.follow_fork)?) } else { None };
    let job = Job {
        command: options.command.clone(),
        output: folder.as_ref().map(|folder| folder.path().join(INNER)).or_else(|| options.output.clone()),
        replace: if options.force { Replace::Allowed } else { Replace::Never },
        prints: if is_piped { Prints::BesideTheAnswer } else { Prints::Here },
        limits,
        follows_forks: options.follow_fork,
        pack,
        n_bytes: Arc::default(),
    };
    let summary = recorded(&job, front_end, screen)?;
    let place = if is_piped { "standard output".into() } else { format!("`{}`", summary.path.display()) };
    let outcome = say(&summary, &place, front_end, screen);
    match folder {
        Some(folder) => write_stream(&summary, folder.path(), common, screen)?,
        None => say_next(&summary, front_end, screen),
    }
    Ok(match exit_code(summary.status) {
        0 => outcome,
        code => Outcome::Program(code),
    })
}

/// Pauses, resumes or copies the recording of a running program.
fn control(options: &Options, pid: u32, screen: &Screen) -> Result<Outcome> {
    let is_asked = options.pause || options.resume;
    if !is_asked && options.output.is_none() {
        let error = Error::usage("`--pid`: nothing is to be done");
        return Err(error
            .hint("say --pause, --resume, or -o NAME.quipu for what it has recorded so far")
            .into());
    }
    if options.output.as_deref() == Some(Path::new("-")) {
        return Err(Error::usage("`-o -`: not with `--pid`")
            .hint("name a file, such as so-far.quipu")
            .into());
    }
    let running = Running::of_process(pid)?;
    if is_asked {
        running.set_paused(options.pause)?;
        let now = if options.pause { "paused" } else { "resumed" };
        screen.say(format_args!("process {pid}: its recording `{}` is {now}", running.path().display()));
    }
    if let Some(output) = &options.output {
        let replace = if options.force { Replace::Allowed } else { Replace::Never };
        let n_bytes = running.snapshot(output, replace)?;
        let name = output.to_string_lossy();
        screen.say(format_args!(
            "process {pid}: `{name}` has what it recorded so far, {}",
            bytes_text(n_bytes)
        ));
        screen.say(format_args!("next: quipu view {}", shell_word(&name)));
    }
    Ok(Outcome::Fine)
}

/// Records a program; says on a terminal now and then how far that is.
pub(super) fn recorded(job: &Job, front_end: &FrontEnd, screen: &Screen) -> Result<Summary> {
    let now = |elapsed: Duration| match job.n_bytes.load(Ordering::Relaxed) {
        0 => format!("recording: {} s so far", elapsed.as_secs()),
        n_bytes => format!("recording: {} s, {} so far", elapsed.as_secs(), bytes_text(n_bytes)),
    };
    Ok(session::reported(screen, now, || (front_end.record)(job))?)
}

/// Name of a trace before it is written to standard output.
const INNER: &str = "trace";
/// Name of the stream that carries it.
const STREAM: &str = "trace.quipu";

/// A temporary folder for a recording that is to be written to standard output.
///
/// # Errors
/// `Usage` if standard output is a terminal, or if several processes are to be recorded; `Io` if the folder cannot be created.
fn folder_for_pipe(follows_forks: bool) -> Result<Temporary> {
    if terminal::stdout().is_terminal() {
        return Err(Error::usage("`-o -`: a stream is not for a terminal")
            .hint("pipe it on: quipu record -o - -- ./prog | quipu report -")
            .into());
    }
    if follows_forks {
        return Err(Error::usage("`-o -`: one stream has one process; `--follow-fork` needs a folder").into());
    }
    let path = std::env::temp_dir().join(format!("quipu-record-{}", std::process::id()));
    // A trace holds what the program did, which may be a secret.
    let made = Temporary::make(&path, |path| DirBuilder::new().mode(0o700).create(path));
    Ok(made.map_err(|cause| cannot("create", &path, cause))?.0)
}

/// Writes what was recorded to standard output: the recording of an instrumented program as it is, any other trace within a
/// stream that is made in `folder` first.
fn write_stream(summary: &Summary, folder: &Path, common: &Common, screen: &Screen) -> Result<()> {
    let stream = folder.join(STREAM);
    if !stream.exists() {
        let source = Source::open(&summary.path).map_err(Error::from)?;
        let opening = Opening::default();
        let format = quipu::recognise(&source, &opening.options())?.format;
        let target = Target {
            path: stream.clone(),
            force: false,
            container: None,
            level: None,
            json: false,
            damaged: Damaged::Keep,
        };
        let into = quipu::into_stream(format);
        rewrite::transform_into(&*into, &source, &opening, &Settings::default(), &target, common, screen)?;
    }
    let mut file = File::open(&stream).map_err(|cause| cannot("read", &stream, cause))?;
    let mut answer = Answer::new(terminal::stdout());
    let failed = |cause| Error::new(ErrorKind::Io, "cannot write to standard output").because(cause);
    let copied = io::copy(&mut file, &mut answer).map_err(failed);
    answer.judge(copied).map(|_| ())
}

/// Stores the events of a program in a file.
fn store_events(
    options: &Options,
    front_end: &FrontEnd,
    limits: &Limits,
    (detail, path): (Level, &Path),
    screen: &Screen,
) -> Result<Outcome> {
    if path == Path::new("-") {
        return Err(Error::usage("`-o -`: events are not written to standard output")
            .hint("give the name of a file, such as -o prog.events")
            .into());
    }
    let to = Destination::File { path, replace: options.force, level: options.level, detail };
    let how = How { limits, follows_forks: options.follow_fork, drops: false, prints: Prints::Here };
    let Some((done, status)) = events::observe(front_end, &options.command, how, to)? else {
        return Ok(Outcome::Fine);
    };
    screen.say(format_args!("recorded: events in `{}`", path.display()));
    for Fact { label, value, .. } in &done.facts {
        screen.say(format_args!(
            "  {label}: {}",
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        ));
    }
    screen.say(format_args!("  {}", front_end.events_missing()));
    done.notes.iter().for_each(|note| screen.say(format_args!("  {note}")));
    done.losses.iter().for_each(|loss| screen.say_error(format_args!("{loss}")));
    screen.say(format_args!(
        "next: quipu run --backend simplecount {} -o counts.dir",
        shell_word(&path.to_string_lossy())
    ));
    Ok(match exit_code(status) {
        0 if done.losses.is_empty() => Outcome::Fine,
        0 => Outcome::Flawed,
        code => Outcome::Program(code),
    })
}

/// Exit code for the program's exit status, as a shell would report it.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2);
    code as u8 // The system allows no more.
}

/// Reports what the trace at `place` contains, and which parts of the program are missing.
pub(super) fn say(summary: &Summary, place: &str, front_end: &FrontEnd, screen: &Screen) -> Outcome {
    let verdict = Verdict { findings: summary.findings.clone(), meaning: OF_A_FILE, ..Verdict::default() };
    let mut outcome = verdict.tell(screen);
    let total = |count: fn(&ProcessSummary) -> u64| summary.processes.iter().map(count).sum();
    let (instrs, threads): (u64, u64) = (total(|process| process.instrs), total(|process| process.threads));
    let bytes: u64 = total(|process| process.bytes);
    let of = if threads == 1 { "one thread".to_owned() } else { format!("{} threads", grouped(threads)) };
    let (n, what) = match instrs {
        0 => (total(|process| process.records), "records"),
        _ => (instrs, "instructions"),
    };
    screen.say(format_args!("recorded: {} {what} of {of} in {place}, {}", grouped(n), bytes_text(bytes)));
    if instrs == 0 && total(|process| process.records) == 0 && !summary.is_limited {
        screen.say(format_args!(
            "  nothing was noted: is all of the program compiled with `quipu cc` or `quipu c++` ?"
        ));
    } else {
        summary.warnings.iter().for_each(|warning| screen.say(format_args!("  {warning}")));
    }
    if summary.is_limited {
        screen.say(format_args!("  a limit was reached; what the program did then was not recorded"));
    }
    if let Some(signal) = summary.status.signal() {
        screen.say(format_args!("  the program was ended by signal {signal}; the trace ends there"));
    }
    if summary.n_refused > 0 {
        screen.say(format_args!(
            "  not recorded, because more ran at a time than can be: {}",
            counted(summary.n_refused, "thread")
        ));
    }
    let several = summary.processes.len() > 1;
    for process in summary.processes.iter().take(if several { MOST_SAID } else { 0 }) {
        screen.say(format_args!(
            "  {} (process {}{}): {} {what} in `{}`",
            process.name,
            process.pid,
            if process.next == Next::Recorded { ", which continues as the next" } else { "" },
            grouped(if instrs == 0 { process.records } else { process.instrs }),
            process.path.display()
        ));
    }
    if summary.processes.len() > MOST_SAID {
        screen.say(format_args!("  and {} more", grouped((summary.processes.len() - MOST_SAID) as u64)));
    }
    let n_left_out: u64 = total(|process| process.children_left_out);
    if n_left_out > 0 {
        let (children, were) = if n_left_out == 1 { ("child", "was") } else { ("children", "were") };
        screen.say(format_args!(
            "  {} {children} {were} not recorded; `{}` records children, too",
            grouped(n_left_out),
            front_end.for_children
        ));
    }
    for process in summary.processes.iter().filter(|process| process.next == Next::Unrecorded) {
        screen.say_error(format_args!(
            "process {} continued as another program, which was not recorded",
            process.pid
        ));
        outcome = Outcome::Flawed;
    }
    outcome
}

/// Says which command to continue with.
fn say_next(summary: &Summary, front_end: &FrontEnd, screen: &Screen) {
    // The last program of the main process is the interesting one; earlier ones only started it.
    let main = summary.processes.first().map(|process| process.pid);
    let Some(last) = summary.processes.iter().rfind(|process| Some(process.pid) == main) else { return };
    let words = summary.next_command(front_end).map(|word| match word {
        PROGRAM => shell_word(&summary.program.to_string_lossy()),
        TRACE => shell_word(&last.path.to_string_lossy()),
        word => word.to_owned(),
    });
    screen.say(format_args!("next: {}", words.collect::<Vec<_>>().join(" ")));
}

/// The front ends with their traces and events, and what is missing to use them.
pub(super) fn list() -> String {
    let mut text = String::new();
    for front_end in FRONT_ENDS {
        let state = match (front_end.usable)() {
            Ok(()) => "usable here".to_owned(),
            Err(reason) => format!("not usable here: {reason}; {}", reason.advice().unwrap_or_default()),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {}\n  {state}", front_end.name, front_end.gives);
        let events = &front_end.events;
        let _ = writeln!(text, "  events: {}; none of: {}", events.gives, events.lacks);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_a_part_of_a_whole() {
        assert_eq!(windows("1M/100M"), Ok((1_000_000, 100_000_000)));
        assert_eq!(windows("5/5"), Ok((5, 5)));
        for text in ["", "5", "0/5", "6/5", "a/5", "5/"] {
            assert!(windows(text).is_err(), "{text}");
        }
    }
}
