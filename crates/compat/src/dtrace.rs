//! The command line of DTrace's consumer, for captures instead of a live kernel.
//!
//! Options about printing are taken; those that would trace something are refused by name. The text is the consumer's own, its
//! wrong values included, and so is the exit status that a script asked for.

use quipu::dtrace::trace;
use quipu::model::{Error, Finding, OpenOptions, Severity};
use quipu::source::Source;
use quipu_console::Common;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::Verdict;
use quipu_console::terminal;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What is said of the options.
const HELP: &str = "\
Usage: quipu as dtrace [-q] [-F] [-x OPTION[=VALUE]]... CAPTURE

Prints a capture as DTrace's consumer prints it: records on standard output, messages on standard error.

  -q               values alone
  -F               entries and returns indented
  -x OPTION=VALUE  an option about printing: temporal, aggsortkey, aggsortrev, stackindent=N, ...

CAPTURE is a folder of buffers with meta.json, a raw.jsonl, a buffer with its descriptions, or a stream.
";

/// Text is written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// Does what the consumer does with these arguments.
pub fn run(args: &[String], common: &Common, screen: &Screen) -> Result<Outcome> {
    if args.iter().any(|arg| matches!(arg.as_str(), "--help" | "-h")) {
        screen.text(HELP)?;
        return Ok(Outcome::Fine);
    }
    let (mut options, mut capture) = (Vec::new(), None);
    if common.quiet {
        // Quipu has an option of this name too, and takes one that stands before all that it does not know.
        options.push("quiet".to_owned());
    }
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-q" => options.push("quiet".to_owned()),
            "-F" => options.push("flowindent".to_owned()),
            "-x" => {
                let option = args.next().ok_or_else(|| Error::usage("`-x` wants an option"))?;
                options.push(option.clone());
            }
            option if option.starts_with("-x") => options.push(option[2..].to_owned()),
            option if option.starts_with('-') => {
                let message = format!("`{option}` is about tracing, or not available: a capture is printed");
                return Err(Error::unsupported(message).hint("options: -q, -F, -x").into());
            }
            path if capture.is_none() => capture = Some(path),
            other => return Err(Error::usage(format!("`{other}`: one capture is printed")).into()),
        }
    }
    let path = capture.ok_or_else(|| Error::usage("no capture is given").hint("quipu as dtrace --help"))?;
    let source = Source::open(Path::new(path)).map_err(Error::from)?;
    // A file that is damaged before its format shows is reported as by every verb.
    if quipu::format_of(&source, &OpenOptions::default())?.is_none() {
        quipu::open(&source, &OpenOptions::default())?;
    }
    let mut capture = trace::load(&source, &OpenOptions::default())?;
    for option in &options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !capture.settings.set(name, value) {
            let message = format!("`-x {name}` is about tracing, or unknown: a capture is printed");
            return Err(Error::unsupported(message)
                .hint("options about printing: docs/formats/dtrace.md")
                .into());
        }
    }
    let capture = Arc::new(capture);
    let mut stdout = terminal::stdout();
    let mut put = |text: &[u8]| -> Result<()> { Ok(stdout.write_all(text)?) };
    let printed = quipu::dtrace::print_to(&capture, true.into(), PIECE_BYTES, &mut put)?;
    put(&printed.out)?;
    let messages = String::from_utf8_lossy(&printed.messages);
    // The consumer's own messages say what was dropped, and its status does not depend on that.
    let is_said = |finding: &&Finding| finding.severity == Severity::Error && finding.rule != "dtrace/drops";
    let findings: Vec<_> = capture.findings.iter().filter(is_said).cloned().collect();
    // What loading found is said once.
    let is_new = |fault: &&Error| findings.iter().all(|finding| finding.message != fault.message());
    let faults = printed.faults.iter().filter(is_new).map(ToString::to_string);
    let mut stderr = terminal::stderr();
    for message in messages.lines().map(str::to_owned).chain(faults) {
        writeln!(stderr, "dtrace: {message}")?;
    }
    let is_whole = findings.is_empty() && printed.faults.is_empty();
    if !findings.is_empty() {
        Verdict { findings, meaning: "what was printed is the rest", ..Verdict::default() }.tell(screen);
    }
    Ok(match (is_whole, printed.status) {
        (false, _) => Outcome::Flawed,
        (true, 0) => Outcome::Fine,
        // The lowest eight bits are what a system keeps of it.
        (true, status) => Outcome::Program(status as u8),
    })
}
