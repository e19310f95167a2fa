//! The command line of Quipu: verbs, flags, streams, exit codes.
//!
//! A verb is one file under `verbs` with its options, its help, and a `run` that reads like a recipe. Code shared with other
//! command lines is in `quipu-console`; code shared by verbs has one file per subject here: descriptions of traces
//! (`about`), traces in brief (`summary`), two reports side by side (`compare`), results as a page for a browser (`page`),
//! names for addresses in results (`naming`), conversions (`conversion`), and recordings of instrumented programs
//! (`captured`, `recording`).
//!
//! Only results go to standard output. The exit code is 0 if all went well; 1 if the trace has a fault or was not read
//! completely; and 2 if there is no result, or only one about the part before a place that needs a newer program.

#![warn(missing_docs)]

mod about;
#[cfg(feature = "sql")]
mod ask;
mod captured;
mod compare;
mod conversion;
mod inputs;
mod layout;
mod naming;
mod page;
mod recording;
mod summary;
mod typing;
mod verbs;

pub use about::json as header;

use clap::builder::Styles;
use clap::error::{ContextKind, ContextValue};
use clap::{Args as _, CommandFactory, FromArgMatches, Parser};
use quipu::engine::Watch;
use quipu::model::{Error, harmless};
use quipu_console::screen::{ColorChoice, Outcome, Screen, Stop};
use quipu_console::{Common, session, terminal};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use verbs::{Verb, compile};

/// Reads and analyses program-execution traces.
#[derive(Debug, Parser)]
#[command(name = "quipu", version, max_term_width = 100, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

const AFTER_HELP: &str = "\
Examples:
  quipu report trace.zip          what is in this trace, on one screen
  quipu trace.zip                 the same
  quipu view --take 20 trace.dir  its first 20 records
  quipu analyze counts trace.dir  how many instructions, loads, stores, markers

Exit codes:
  0  done
  1  done, and something is wrong with the trace, or the run was interrupted
  2  could not do it, or only up to a place where a newer quipu is needed

SIGINT, SIGTERM and SIGHUP stop the work: an analysis prints its partial result and exits with 1;
a verb that writes a file does not create it and exits with 2. A second signal ends quipu at once.";

/// The definition of the command line, for man pages and completions.
pub fn command() -> clap::Command {
    definition()
}

/// The command line. `--set` is an option of the written format where a verb has one, otherwise an option of the trace's own
/// format, like `--open`.
fn definition() -> clap::Command {
    Cli::command().mut_subcommands(with_set)
}

/// The verb with `--set` as another name of `--open`, unless that is taken.
fn with_set(verb: clap::Command) -> clap::Command {
    let is_taken = verb.get_arguments().any(|arg| arg.get_long() == Some(SET));
    if is_taken {
        return verb;
    }
    verb.mut_args(|arg| if arg.get_id() == OPEN { arg.alias(SET) } else { arg })
}

/// Name of the option for written formats.
const SET: &str = "set";
/// Name of the option for the format that is read.
const OPEN: &str = "open";

/// A parsed command line.
struct Parsed {
    cli: Cli,
    /// First members of the `--json` object if there is no result; `None` without `--json`.
    answer: Option<serde_json::Map<String, serde_json::Value>>,
    /// Path of the output, if the verb names one.
    output: Option<PathBuf>,
    /// An error if an output would become part of a trace that is read.
    places: Result<(), Error>,
}

/// Parses a command line. With `keeps_inputs`, its inputs stay registered until the process ends, otherwise only while they
/// are read.
fn parse(args: Vec<OsString>, keeps_inputs: bool) -> Result<Parsed, clap::Error> {
    let args = compile::escaped(args);
    let is_harmless = are_harmless(&args);
    let own = || match is_harmless {
        true => definition(),
        // In a message that repeats these arguments, the parser's colours could not be told from theirs.
        false => definition().styles(Styles::plain()),
    };
    let (command, matches) = matched(args, &own)?;
    let places =
        if keeps_inputs { inputs::keep(&command, &matches) } else { inputs::check(&command, &matches) };
    let (has_json, has_output) = (is_set("json", &matches), writes(&command, &matches));
    let written = output_of(&command, &matches);
    let cli = Cli::from_arg_matches(&matches)?;
    // Without a result, nothing is written.
    let output = has_output.then(|| ("output".to_owned(), serde_json::Value::Null));
    let answer = (cli.verb.answers_with_an_object() && has_json).then(|| output.into_iter().collect());
    Ok(Parsed { cli, answer, output: written, places })
}

/// Matches the arguments with the definition of the command line; returns the definition, too.
fn matched(
    args: Vec<OsString>,
    own: &dyn Fn() -> clap::Command,
) -> Result<(clap::Command, clap::ArgMatches), clap::Error> {
    if let Some(matched) = matched_alone(&args) {
        return Ok(matched);
    }
    let mut command = own();
    // PERF: a copy of the command line's definition takes a third of what starting the program does.
    let error = match command.try_get_matches_from_mut(&args) {
        Ok(matches) => return Ok((command, matches)),
        Err(error) => error,
    };
    let Some(args) = with_verb(args, &error) else { return Err(error) };
    if let Some(matched) = matched_alone(&args) {
        return Ok(matched);
    }
    command = own();
    let matches = command.try_get_matches_from_mut(args)?;
    Ok((command, matches))
}

/// Matches the arguments with the definition of the one verb that they name. `None` if that fails: then the definition of
/// all verbs says why, or has the help text.
///
/// PERF: the options of all verbs, which each start defined, are more than those of one; `work.tsv` counts starts.
fn matched_alone(args: &[OsString]) -> Option<(clap::Command, clap::ArgMatches)> {
    let verb = args.iter().skip(1).find_map(|arg| Verb::defined(arg.to_str()?))?;
    let name = verb.get_name().to_owned();
    let command = Common::augment_args(clap::Command::new("quipu"));
    let mut command = command.subcommand_required(true).subcommand(with_set(verb));
    let matches = command.try_get_matches_from_mut(args).ok()?;
    // Another argument may have the name of a verb.
    (matches.subcommand_name() == Some(&*name)).then_some((command, matches))
}

/// True if terminals obey nothing in the arguments.
fn are_harmless(args: &[OsString]) -> bool {
    args.iter().all(|arg| harmless::is_harmless(arg.as_encoded_bytes()))
}

/// The arguments of `quipu report FILE` for those of `quipu FILE`: inserts the verb before the argument that clap took for an
/// unknown verb, if that names a file. No verb has a slash or a dot in its name, so an argument with one is a path or an
/// address, for which `report` has advice if there is no such file.
fn with_verb(mut args: Vec<OsString>, error: &clap::Error) -> Option<Vec<OsString>> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // The parser replaces bytes that are not UTF-8.
    let at = args.iter().skip(1).position(|arg| arg.to_string_lossy() == name.as_str())?;
    if !name.contains(['/', '.']) && !Path::new(&args[at + 1]).exists() {
        return None;
    }
    // The word is for that verb, or for none.
    if args[1..=at]
        .iter()
        .any(|arg| arg == "--" || arg.to_str().is_some_and(|name| Verb::defined(name).is_some()))
    {
        return None;
    }
    args.insert(at + 1, "report".into());
    Some(args)
}

/// Result of a command line that another program runs.
#[derive(Debug)]
pub struct Answered {
    /// The exit code.
    pub code: u8,
    /// Contents of standard output.
    pub out: Vec<u8>,
    /// Contents of standard error.
    pub err: Vec<u8>,
    /// The error, if there is no result.
    pub error: Option<Error>,
}

/// Runs a verb for a program other than the command line. Returns its output; reports progress to `watch`, which can also
/// cancel it; and leaves signals to the program. The first argument is the name of the program.
pub fn answer(args: impl IntoIterator<Item = OsString>, watch: &Arc<Watch>) -> Answered {
    let parsed = match parse(args.into_iter().collect(), false) {
        Ok(parsed) => parsed,
        Err(error) if error.use_stderr() => {
            let text = error.render().to_string();
            let said = text.trim_start_matches("error: ");
            let (message, hint) = said.split_once("\n\n").unwrap_or((said, ""));
            let error = Error::usage(message.trim()).hint(hint.trim());
            return Answered { code: 2, out: Vec::new(), err: text.into_bytes(), error: Some(error) };
        }
        Err(help) => {
            let out = help.render().to_string().into_bytes();
            return Answered { code: 0, out, err: Vec::new(), error: None };
        }
    };
    let Parsed { cli, answer, output, places } = parsed;
    let screen = screen_of(&cli.common, ColorChoice::Never);
    let run = || match places {
        Ok(()) => cli.verb.run(&cli.common, &screen),
        Err(error) => Err(Stop::Fault(error)),
    };
    let ((code, error), kept) = terminal::kept(|| match session::watched_by(watch, run) {
        Ok(Outcome::Fine) | Err(Stop::ClosedPipe) => (0, None),
        Ok(Outcome::Flawed) => (1, None),
        Ok(Outcome::NeedsNewer) => (2, None),
        Ok(Outcome::Program(code)) => (code, None),
        Err(Stop::Fault(error)) => (2, Some(error)),
        Err(Stop::Damage(error, meaning)) => {
            let screen = screen_beside(output.as_deref(), screen);
            session::tell_undone(&error, meaning, answer, &screen);
            (if error.needs_newer() { 2 } else { 1 }, Some(error))
        }
    });
    Answered { code, out: kept.out, err: kept.err, error }
}

/// Runs the program with these arguments; the first is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    let has_colours = are_harmless(&args);
    let Parsed { cli, answer, output, places } = match parse(args, true) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error, has_colours),
    };
    terminal::keep_raw(cli.common.raw_names);
    session::catch_signals();
    let screen = screen_of(&cli.common, cli.common.color);
    if let Err(error) = places {
        screen.complain(&error);
        return ExitCode::from(2);
    }
    match cli.verb.run(&cli.common, &screen) {
        Ok(outcome) => outcome.code(),
        // The reader of our output has closed the pipe.
        Err(Stop::ClosedPipe) => ExitCode::SUCCESS,
        Err(Stop::Fault(error)) => {
            screen.complain(&error);
            ExitCode::from(2)
        }
        Err(Stop::Damage(error, meaning)) => {
            let screen = screen_beside(output.as_deref(), screen);
            session::tell_undone(&error, meaning, answer, &screen)
        }
    }
}

/// The screen that the common options describe, with these colours.
fn screen_of(common: &Common, color: ColorChoice) -> Screen {
    let screen = Screen::new(color, common.quiet);
    if common.wide { screen.wide() } else { screen }
}

/// Whether the verb has a flag of this name that is set.
fn is_set(flag: &str, matches: &clap::ArgMatches) -> bool {
    let own = matches.try_get_one::<bool>(flag).ok().flatten().is_some_and(|is_set| *is_set);
    own || matches.subcommand().is_some_and(|(_, matches)| is_set(flag, matches))
}

/// The screen for messages without a result: earlier output may have gone to standard output.
fn screen_beside(output: Option<&Path>, screen: Screen) -> Screen {
    match output {
        Some(path) => screen.beside(if path == Path::new("-") { Path::new("") } else { path }),
        None => screen,
    }
}

/// Path that the verb writes to. `-` means standard output, but no output at all where the verb can do without one.
fn output_of(command: &clap::Command, matches: &clap::ArgMatches) -> Option<PathBuf> {
    let is_optional = output_option(command, matches)?.get_default_values().iter().any(|value| value == "-");
    let (_, matches) = matches.subcommand()?;
    let output = matches.try_get_one::<PathBuf>("output").ok().flatten()?;
    (!is_optional || output != Path::new("-")).then(|| output.clone())
}

/// Whether the verb names its output in its result.
fn writes(command: &clap::Command, matches: &clap::ArgMatches) -> bool {
    output_option(command, matches).is_some()
}

/// The option of the verb that names its output.
fn output_option<'c>(command: &'c clap::Command, matches: &clap::ArgMatches) -> Option<&'c clap::Arg> {
    let verb = matches.subcommand_name().and_then(|name| command.find_subcommand(name))?;
    verb.get_arguments().find(|arg| arg.get_id() == "output")
}

/// Prints what the parser of the command line returns instead of matches. Help and version are results; everything else is an
/// error. With `has_colours`, all sequences in it are the parser's own.
fn usage(error: &clap::Error, has_colours: bool) -> ExitCode {
    use std::io::Write;
    let text = error.render();
    let mut out = if error.use_stderr() { terminal::stderr() } else { terminal::stdout() };
    let done = match out.is_terminal() {
        false => error.print(),
        // The message repeats arguments, such as file names, which contain control characters.
        true if !has_colours => out.write_all(text.ansi().to_string().as_bytes()),
        true if ColorChoice::Auto.is_wanted_on(&out) => out.write_own(&text.ansi().to_string()),
        true => out.write_all(text.to_string().as_bytes()),
    };
    match done.and_then(|()| out.flush()).map_err(Stop::from) {
        // There is no other place to report that an error could not be reported.
        _ if error.use_stderr() => ExitCode::from(2),
        Err(Stop::Fault(fault)) => {
            Screen::new(ColorChoice::Auto, false).complain(&fault);
            ExitCode::from(2)
        }
        // The reader of our output may have closed the pipe.
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn each_verb_is_defined_alone_as_among_the_others() {
        let whole = command();
        for verb in whole.get_subcommands() {
            let alone = with_set(Verb::defined(verb.get_name()).unwrap());
            let ids = |verb: &clap::Command| -> Vec<String> {
                verb.get_arguments()
                    .map(|arg| format!("{} {:?}", arg.get_id(), arg.get_all_aliases()))
                    .collect()
            };
            assert_eq!(ids(&alone), ids(verb), "{}", verb.get_name());
            let help = |verb: &clap::Command| verb.clone().render_long_help().to_string();
            assert_eq!(help(&alone), help(verb));
        }
        let of = |line: &str| matched_alone(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        let (command, matches) = of("quipu -q view --take 5 --set a=b x.trace").unwrap();
        assert_eq!(matches.subcommand_name(), Some("view"));
        assert!(command.find_subcommand("check").is_none());
        // The whole definition answers these.
        for line in ["quipu", "quipu x.trace", "quipu view --help", "quipu view --tkae 5", "quipu --version"]
        {
            assert!(of(line).is_none(), "{line}");
        }
    }

    #[test]
    fn a_file_in_place_of_a_verb_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace");
        std::fs::write(&file, "").unwrap();
        let path = file.to_str().unwrap();
        for args in [&[path][..], &["-q", path, "--json"], &["-j", "4", path], &["--color", "never", path]] {
            let parsed = parse([&["quipu"], args].concat().into_iter().map(OsString::from).collect(), false);
            assert!(matches!(parsed.unwrap().cli.verb, Verb::Report(_)), "{args:?}");
        }
        let file = OsString::from_vec([path.as_bytes(), b"\xff"].concat());
        let parsed = parse(vec!["quipu".into(), file], false);
        assert!(matches!(parsed.unwrap().cli.verb, Verb::Report(_)), "a name that is not UTF-8");
        for absent in ["no/such", "mistyped.trace", "https://example.org/a.trace"] {
            let parsed = parse(["quipu", absent].map(OsString::from).to_vec(), false);
            assert!(matches!(parsed.unwrap().cli.verb, Verb::Report(_)), "{absent}");
        }
        // Names of verbs stay verbs, and other names are mistakes.
        let verb = parse(["quipu", "view", path].map(OsString::from).to_vec(), false);
        assert!(matches!(verb.unwrap().cli.verb, Verb::View(_)));
        assert!(parse(["quipu", "no-such-file"].map(OsString::from).to_vec(), false).is_err());
    }
}
