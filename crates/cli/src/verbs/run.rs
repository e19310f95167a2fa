//! `quipu run`: passes events through back ends, which write files, and through user tools.

use crate::conversion::{self, Conversion};
use quipu::model::fresh::{Replace, folder_beside};
use quipu::model::transform::Transformed;
use quipu::model::{Error, OptionSpec, Trace};
use quipu::source::{PackOptions, Packing};
use quipu_capture::events::{self, Delivery, Done, How, Job};
use quipu_capture::limits::Limits;
use quipu_capture::record::{self, Destination, FrontEnd, Prints, front_end};
use quipu_console::Common;
use quipu_console::flags::{Flagged, Flags};
use quipu_console::input::Stored;
use quipu_console::rewrite::{self, Output, Target};
use quipu_console::screen::{Outcome, Result, Screen, Stop};
use quipu_console::session;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

/// Run back ends over the events of a trace
///
/// Writes a folder with the files of the back end; several back ends get one folder each inside it. Workload events are used
/// as they are. For other traces, events are made from records: instructions with what they compute, loads and stores,
/// branches, calls of thread libraries; records without a matching event are listed.
///
/// A tool of your own is a library that takes the events (docs/hooks.md). It prints its results, and needs `--output` only if it
/// writes files.
#[derive(Debug, clap::Args)]
#[command(after_help = help(), mut_arg("output", optional))]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    #[command(flatten)]
    flags: Flags<RunFlags>,
    /// Take the events of front ends that other programs run, until the last of them has ended; prints the value to set
    /// QUIPU_PRISM to in their environment, or Prism's folder
    #[arg(long, conflicts_with = "program")]
    listen: bool,
    /// Protocol of front ends: quipu; or prism, that of Prism and Sigil2, with layout=fixed, clocked, variable or sigrind,
    /// channels=N, prefix=sgl2, fields=LEVEL: then `{}` in the program's arguments is the folder
    #[arg(long, value_name = "WAY[,OPTION=VALUE]...", default_value = "quipu", value_parser = Delivery::parse)]
    delivery: Delivery,
    /// Observe an unmodified program with this front end while it runs: auto, tsan, qemu, valgrind or dynamorio; `--list`
    /// shows what each gives. Without it, the program sends its events itself
    #[arg(long, value_name = "FRONT-END", requires = "program", conflicts_with = "delivery")]
    with: Option<String>,
    /// Also observe child processes
    #[arg(long, requires = "with")]
    follow_fork: bool,
    /// Leave out events, and count them, where back ends are slower than the program, instead of making it wait
    #[arg(long, requires = "with")]
    drop: bool,
    /// List the front ends with their events, and which of them are usable here
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    output: Output,
    /// Run this program, with its arguments, and take the events that it sends
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Options of all formats whose traces can be run.
struct RunFlags;

impl Flagged for RunFlags {
    fn specs() -> Vec<OptionSpec> {
        rewrite::options_of(NAME)
    }
}

/// Name of the transform in each format.
const NAME: &str = "run";

const EXAMPLES: &str = "\
Examples:
  quipu run --backend stgen events.quipu -o traces.dir
  quipu run --backend stgen,c=10,l=textv2 trace.dir -o traces.dir
  quipu run --backend simplecount --backend sigilclassic events.quipu -o results.dir
  quipu run --tool target/release/libmine.so trace.dir
  quipu run --backend simplecount -o results.dir -- ./front-end input.txt
  quipu run --backend stgen -o traces.dir --with qemu -- ./program input.txt
";

const EXIT_CODES: &str = "
The output appears under its name only when it is complete.
With --json, standard output holds only the result; programs and tools print to standard error.

Exit codes:
  0  done
  1  a trace is damaged, and nothing was written unless --keep-damaged was given;
     or a front end lost events, and the folder has those that arrived
  2  could not do it; nothing was written
  N  a program that was run failed: its exit code, or 128 plus the number of its signal;
     the folder has the events that arrived
";

fn help() -> String {
    format!("{EXAMPLES}{}{EXIT_CODES}", events::EXAMPLE)
}

/// Tools that only print need no folder.
fn optional(output: clap::Arg) -> clap::Arg {
    let help = "Output folder; by default, tools print their results and write no files";
    output.required(false).default_value("-").hide_default_value(true).help(help)
}

pub(crate) fn run(options: &Options, common: &Common, screen: &Screen) -> Result<Outcome> {
    if options.list {
        screen.text(&super::record::list())?;
        return Ok(Outcome::Fine);
    }
    let (input, mut target, given) = (&options.input, options.output.target(), options.flags.given());
    if target.path == Path::new("-") {
        target.path = PathBuf::new();
    }
    // A caller that runs several command lines may request text output from the next one.
    events::leave_standard_output(target.json);
    let is_live = options.listen || !options.program.is_empty();
    if !is_live && options.delivery != Delivery::Quipu {
        return Err(
            Error::usage("`--delivery` is for events of programs: `--listen`, or `-- PROGRAM`").into()
        );
    }
    if is_live {
        if input.path != Path::new("-") {
            return Err(Error::usage("events come from a trace or from programs, not from both").into());
        }
        if let Some(name) = &options.with {
            return observed(options, front_end(name, &options.program)?, &target, common, screen);
        }
        return live(options, &target, screen);
    }
    let recognised = rewrite::recognise(&input.path, &input.opening)?;
    if recognised.format.transforms().iter().any(|transform| transform.info().name == NAME) {
        let made = rewrite::of_recognised(NAME, recognised, &input.opening, given, &target, common, screen);
        return rewrite::done(made);
    }
    let trace = recognised.open(&input.opening.options())?;
    of_records(&*trace, options, &target, common, screen)
}

/// Makes events of the records of a trace.
fn of_records(
    trace: &dyn Trace,
    options: &Options,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let mut all = quipu::FORMATS.iter().copied().filter_map(|format| Some((format, format.runner()?)));
    let (to, runner) = all.next().ok_or_else(|| Error::unsupported("no format has back ends"))?;
    let (opening, given) = (&options.input.opening, options.flags.given());
    let how = (target, opening, common);
    let made = conversion::run(trace, to, Some(runner), &Conversion::default(), given, how, screen);
    made.map_err(|stop| match stop {
        Stop::Fault(error) => session::not_for(error, &trace.meta().findings),
        other => other,
    })
}

/// Runs a program under a front end.
fn observed(
    options: &Options,
    front_end: &FrontEnd,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    let to =
        Destination::Backends { given: options.flags.given(), output: &target.path, replace: target.force };
    let how = How {
        limits: &Limits::default(),
        follows_forks: options.follow_fork,
        drops: options.drop,
        prints: prints(target),
    };
    match events::observe(front_end, &options.program, how, to)? {
        Some((mut done, status)) => {
            done.notes.insert(0, front_end.events_missing());
            tell(done, Some(status), target, screen)
        }
        None => recorded(options, front_end, target, common, screen),
    }
}

/// Records a program into a temporary folder, and makes events of the recording.
fn recorded(
    options: &Options,
    front_end: &FrontEnd,
    target: &Target,
    common: &Common,
    screen: &Screen,
) -> Result<Outcome> {
    for (is_asked, option) in [(options.follow_fork, "--follow-fork"), (options.drop, "--drop")] {
        if is_asked {
            let what = format!("`{option}`: not with {}, whose recording becomes events", front_end.name);
            return Err(Error::usage(what).hint("use --with qemu").into());
        }
    }
    let beside = match target.path.as_os_str().is_empty() {
        true => std::env::temp_dir().join("quipu-run"),
        false => target.path.clone(),
    };
    let folder = folder_beside(&beside)?;
    let job = record::Job {
        command: options.program.clone(),
        output: Some(folder.path().join("recording")),
        replace: Replace::Never,
        limits: Limits::default(),
        follows_forks: false,
        pack: PackOptions { packing: Packing::Zip, level: Some(1) },
        prints: prints(target),
        n_bytes: Arc::default(),
    };
    let summary = (front_end.record)(&job)?;
    screen.say(format_args!("note: {}", front_end.events_missing()));
    let trace = options.input.opening.open(&summary.path)?;
    let outcome = of_records(&*trace, options, target, common, screen)?;
    Ok(of_program(Some(summary.status), outcome))
}

/// Takes events from programs while they run.
fn live(options: &Options, target: &Target, screen: &Screen) -> Result<Outcome> {
    let job = Job {
        given: options.flags.given(),
        delivery: &options.delivery,
        output: &target.path,
        replace: target.force,
        prints: prints(target),
    };
    let (done, status) = if options.listen {
        let ready = |variable: Option<&str>, path: &Path| {
            let (path, equals) = (path.display(), if variable.is_some() { "=" } else { "" });
            // Without this line no front end can connect, so it is printed even with `--quiet`.
            quipu_console::screen::eprint(&format!("{}{equals}{path}\n", variable.unwrap_or("")));
        };
        let done = session::watched(screen, |watch| events::listen(job, ready, &|| watch.is_cancelled()));
        (done?, None)
    } else {
        let (done, status) = events::run(&options.program, job)?;
        (done, Some(status))
    };
    tell(done, status, target, screen)
}

/// Where the output of programs goes.
fn prints(target: &Target) -> Prints {
    if target.json { Prints::BesideTheAnswer } else { Prints::Here }
}

/// Reports the outcome of a run on a program.
fn tell(done: Done, status: Option<ExitStatus>, target: &Target, screen: &Screen) -> Result<Outcome> {
    let Done { facts, losses, mut notes } = done;
    let is_flawed = !losses.is_empty();
    notes.extend(losses);
    let made = Transformed { facts, notes, is_flawed, ..Transformed::default() };
    let outcome = rewrite::tell(made, &target.path, target.json, screen)?;
    Ok(of_program(status, outcome))
}

/// The outcome of a run on a program: the program's exit code if it failed, otherwise the outcome of the run.
fn of_program(status: Option<ExitStatus>, outcome: Outcome) -> Outcome {
    match status.map(super::record::exit_code) {
        Some(code) if code != 0 => Outcome::Program(code),
        _ => outcome,
    }
}
