//! The command line of DTrace's consumer, for captures instead of a live kernel.
//!
//! Options about printing are taken; those that would trace something are refused by name. The text is the consumer's own, its
//! wrong values included, and so is the exit status that a script asked for.

use quipu::dtrace::{Style, trace};
use quipu::model::{Error, OpenOptions};
use quipu::source::Source;
use quipu_console::Common;
use quipu_console::screen::{Outcome, Result, Screen};
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
    let printed = quipu::dtrace::print(&Arc::new(capture), Style { has_quirks: true })?;
    terminal::stdout().write_all(&printed.out)?;
    let messages = String::from_utf8_lossy(&printed.messages);
    let faults = printed.faults.iter().map(ToString::to_string);
    let mut stderr = terminal::stderr();
    for message in messages.lines().map(str::to_owned).chain(faults) {
        writeln!(stderr, "dtrace: {message}")?;
    }
    Ok(match (printed.faults.is_empty(), printed.status) {
        (false, _) => Outcome::Flawed,
        (true, 0) => Outcome::Fine,
        // The lowest eight bits are what a system keeps of it.
        (true, status) => Outcome::Program(status as u8),
    })
}
