//! The command line of Prism (Sigil2), for recorded traces instead of programs.
//!
//! Groups of options begin with `--frontend`, `--backend` and `--executable`; here, the last one names a trace. The files
//! are those of Prism, including its defects, and replace existing ones as in Prism.

use quipu::engine::{Watch, convert, plan_conversion};
use quipu::model::convert::RecordJob;
use quipu::model::fresh::{Replace, cannot, folder_beside, rename};
use quipu::model::transform::{Silent, TransformJob};
use quipu::model::{Columns, Damaged, Error, ErrorKind, Format, Given, OpenOptions, Options};
use quipu::prism::PRISM;
use quipu::prism::run::SIMPLECOUNT_FILE;
use quipu::source::Source;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::terminal;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Help text of the options.
const HELP: &str = "\
Usage: quipu as prism [--num-threads=N] [--sgl-time=on|off] [--frontend=NAME] --backend=NAME [OPTIONS] --executable=TRACE

Runs a back end of Prism over a recorded trace.

  --backend=simplecount    counts of events, on standard error, or on standard output if that is a terminal
  --backend=stgen          traces for SynchroTrace: -o DIR (.), -c N (100), -l text|textv2|capnp|null (text)
  --backend=sigilclassic   communication between functions: sigilclassic.tsv, which Prism does not write
  --backend=null           no output
  --executable=TRACE       trace: Prism events, or any other format
  --sgl-time=on            print the elapsed time
";

/// Parsed arguments.
#[derive(Debug, Default)]
struct Asked {
    backend: Option<String>,
    options: Vec<String>,
    output: Option<PathBuf>,
    trace: Option<String>,
    has_time: bool,
}

/// Runs Prism's command line with these arguments.
pub fn run(args: &[String], screen: &Screen) -> Result<Outcome> {
    if args.iter().any(|arg| matches!(arg.as_str(), "--help" | "-h")) {
        screen.text(HELP)?;
        return Ok(Outcome::Fine);
    }
    let asked = parse(args)?;
    let missing = |what: &str| Error::usage(format!("`{what}` is missing")).hint("quipu as prism --help");
    let backend = asked.backend.as_deref().ok_or_else(|| missing("--backend"))?;
    let path = PathBuf::from(asked.trace.as_deref().ok_or_else(|| missing("--executable"))?);
    let begun = Instant::now();
    let output = asked.output.clone().unwrap_or_else(|| PathBuf::from("."));
    if !output.is_dir() {
        let what = "the folder is not there: Prism's back ends write into one that exists";
        return Err(Error::missing(what).in_file(output.display().to_string()).into());
    }
    // Files appear in their folder once all of them are complete.
    let way = folder_beside(&output.join("prism"))?;
    let made = way.path().join("run");
    let text = std::iter::once(backend).chain(asked.options.iter().map(String::as_str));
    let outcome = drive(&path, &text.collect::<Vec<_>>().join(","), &made)?;
    for entry in std::fs::read_dir(&made).map_err(|cause| cannot("read", &made, cause))? {
        let entry = entry.map_err(|cause| cannot("read", &made, cause))?;
        if entry.file_name() == SIMPLECOUNT_FILE {
            let lines = std::fs::read(entry.path()).map_err(|cause| cannot("read", &entry.path(), cause))?;
            match std::io::stdout().is_terminal() {
                true => terminal::stdout().write_all(&lines)?,
                false => terminal::stderr().write_all(&lines)?,
            }
            continue;
        }
        let path = output.join(entry.file_name());
        rename(&entry.path(), &path, Replace::Allowed)?;
    }
    if asked.has_time {
        let seconds = begun.elapsed().as_secs_f64();
        writeln!(terminal::stderr(), "simulation time: {seconds:.3} s")?;
    }
    Ok(outcome)
}

/// Runs a back end over a trace and writes its files into a new folder.
fn drive(path: &Path, backend: &str, output: &Path) -> Result<Outcome> {
    let source = Source::open(path).map_err(Error::from)?.spooled().map_err(Error::from)?;
    let opening = OpenOptions::default();
    // Plain events have no signature.
    let found = match quipu::recognise(&source, &opening) {
        Err(error) if error.kind() == ErrorKind::Unsupported => None,
        found => Some(found?),
    };
    let mut given = Given::default();
    given.add("backend", backend);
    given.add("quirks", "true");
    let other = found.as_ref().filter(|found| found.format.info().name != PRISM.info().name);
    let reading = if other.is_none() {
        let run = PRISM.transforms().iter().find(|transform| transform.info().name == "run");
        let run = run.ok_or_else(|| Error::unsupported("there are no back ends"))?;
        let options = run.info().parse("prism", &given)?;
        let job = TransformJob {
            source: found.as_ref().map_or(&source, |found| &found.source),
            opening: &opening,
            options: &options,
            output,
            replace: false,
            container: None,
            level: None,
            damaged: Damaged::Refuse,
            strict: false,
            threads: 1,
            sequence: &quipu::model::transform::OneShard,
        };
        run.run(&job, &Silent)?.reading
    } else {
        let trace = quipu::open(&source, &opening)?;
        let runner = PRISM.runner().ok_or_else(|| Error::unsupported("there are no back ends"))?;
        let options = Options::parse("prism", runner.info().options, &given)?;
        let plan = plan_conversion(&*trace, "prism", runner, &[])?;
        let job = RecordJob {
            trace: &*trace,
            columns: Columns::NONE,
            options: &options,
            output,
            replace: false,
            container: None,
            level: None,
            damaged: Damaged::Refuse,
            strict: false,
        };
        convert(&plan, runner, &job, &[], &Watch::new())?.reading
    };
    Ok(if reading.error.is_some() { Outcome::Flawed } else { Outcome::Fine })
}

/// Current group of options.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    None,
    Frontend,
    Backend,
    Executable,
}

fn parse(args: &[String]) -> Result<Asked> {
    let mut asked = Asked::default();
    let mut group = Group::None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg.as_str(), None),
        };
        match name {
            "--frontend" | "--backend" | "--executable" => {
                let value = match value {
                    Some(value) => value.to_owned(),
                    None => {
                        args.next().cloned().ok_or_else(|| Error::usage(format!("`{name}` wants a name")))?
                    }
                };
                group = match name {
                    "--frontend" => {
                        let known = ["valgrind", "dynamorio", "perf"];
                        if !known.contains(&value.to_ascii_lowercase().as_str()) {
                            return Err(Error::usage(format!(
                                "`--frontend`: there is no front end `{value}`"
                            ))
                            .hint(format!("front ends: {}", known.join(", ")))
                            .into());
                        }
                        Group::Frontend
                    }
                    "--backend" => {
                        asked.backend = Some(value);
                        Group::Backend
                    }
                    _ => {
                        // A quoted command is split at blanks.
                        let mut words = value.split(' ').filter(|word| !word.is_empty());
                        asked.trace = words.next().map(str::to_owned);
                        if let Some(word) = words.next() {
                            return Err(argument(word).into());
                        }
                        Group::Executable
                    }
                };
            }
            "--num-threads" if group == Group::None => {
                let count = value.and_then(|value| value.parse::<u32>().ok());
                if !count.is_some_and(|count| (1..=16).contains(&count)) {
                    return Err(Error::usage("`--num-threads` wants a number from 1 to 16").into());
                }
            }
            "--sgl-time" if group == Group::None => match value {
                Some("on") => asked.has_time = true,
                Some("off") => asked.has_time = false,
                _ => return Err(Error::usage("`--sgl-time` is `on` or `off`").into()),
            },
            _ if group == Group::Backend => backend_option(arg, &mut args, &mut asked)?,
            _ if group == Group::Frontend => {
                let message = format!("`{arg}` is about watching a program: a recorded trace is run");
                return Err(Error::unsupported(message).into());
            }
            _ if group == Group::Executable => return Err(argument(arg).into()),
            _ => {
                return Err(Error::usage(format!("`{arg}`: no such option"))
                    .hint("quipu as prism --help")
                    .into());
            }
        }
    }
    Ok(asked)
}

/// The error for an argument of a program, which is not run.
fn argument(word: &str) -> Error {
    Error::usage(format!("`{word}`: a trace has no arguments"))
}

/// Parses an option of a back end, whose value is attached or is the next argument.
fn backend_option<'a>(
    arg: &str,
    args: &mut impl Iterator<Item = &'a String>,
    asked: &mut Asked,
) -> Result<()> {
    let letter = arg.strip_prefix('-').and_then(|rest| rest.chars().next());
    let is_stgen = asked.backend.as_deref().is_some_and(|name| name.eq_ignore_ascii_case("stgen"));
    let Some(letter) = letter.filter(|letter| is_stgen && matches!(letter, 'o' | 'c' | 'l')) else {
        let name = asked.backend.as_deref().unwrap_or_default();
        return Err(Error::usage(format!("`{arg}`: back end {name} has no such option")).into());
    };
    let value = match &arg[2..] {
        "" => args.next().cloned().ok_or_else(|| Error::usage(format!("`{arg}` wants a value")))?,
        value => value.to_owned(),
    };
    match letter {
        'o' => asked.output = Some(PathBuf::from(value)),
        letter => asked.options.push(format!("{letter}={value}")),
    }
    Ok(())
}
