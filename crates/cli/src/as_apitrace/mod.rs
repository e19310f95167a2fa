//! apitrace, played by our own tools.
//!
//! Translates its command line into a run, and results into its lines. This file has `dump`, [`info`] its namesake,
//! [`edits`] the verbs that write traces, [`diff`] the one that compares them, and [`help`] what there is. SPEC: apitrace.md.

mod diff;
mod edits;
mod help;
mod info;

use crate::screen::{Outcome, Result, Screen};
use crate::session::{self, OF_RECORDS, Verdict};
use crate::stream::{self, Style};
use quipu::apitrace::table::CALLS_TABLE;
use quipu::apitrace::tools::leaks::OriginalLeaks;
use quipu::apitrace::trace::{self, ApiTrace};
use quipu::engine::Merge;
use quipu::model::trace::PrintOptions;
use quipu::model::{Columns, Error, Found, OpenOptions, Paint, Scan, ShardId, Trace};
use quipu::source::Source;
use quipu_view::{Chosen, RowFilter};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// What is asked of apitrace.
#[derive(Debug, Default)]
struct Request {
    settings: Vec<(String, String)>,
    verbose: bool,
    color: Option<String>,
    dump_frames: bool,
    files: Vec<String>,
}

/// The options of `dump` that our printer has under the same name, and whether they need a value.
const PRINT_OPTIONS: &[(&str, bool)] = &[
    ("calls", true),
    ("grep", true),
    ("thread-ids", false),
    ("call-nos", false),
    ("arg-names", false),
    ("multiline", false),
];

/// Does what apitrace does with these arguments.
pub(crate) fn run(args: &[String], screen: &Screen) -> Result<Outcome> {
    let Some((verb, args)) = args.split_first() else {
        return Err(Error::usage("no verb is given").hint(help::verbs()).into());
    };
    if help::is_asked_for(verb, args) {
        return help::print(Some(verb));
    }
    // apitrace's scripts say their version.
    if ["diff", "leaks"].contains(&verb.as_str()) && args.iter().any(|arg| arg == "--version") {
        return help::version();
    }
    match verb.as_str() {
        "help" | "--help" | "-h" => return help::print(args.first().map(String::as_str)),
        "version" | "--version" => return help::version(),
        "repack" => return edits::repack(args, screen),
        "diff" => return diff::run(args, screen),
        "trim" => return edits::trim(args, screen),
        "sed" => return edits::sed(args, screen),
        _ => {}
    }
    let request = match verb.as_str() {
        "dump" | "info" | "leaks" => parse(verb, args)?,
        other => return Err(help::no_verb(other).into()),
    };
    if request.files.is_empty() {
        return Err(Error::usage("no trace is given").into());
    }
    let mut outcome = Outcome::Fine;
    for file in &request.files {
        let Some(trace) = open(file, screen) else { return Ok(Outcome::Flawed) };
        outcome = outcome.and(match verb.as_str() {
            "dump" => dump(&trace, &request, screen)?,
            "leaks" => leaks(&trace, screen)?,
            _ => info::print(file, &trace, request.dump_frames, screen)?,
        });
        // As the original does, what follows a damaged trace is left.
        if outcome == Outcome::Flawed {
            break;
        }
    }
    Ok(outcome)
}

fn parse(verb: &str, args: &[String]) -> Result<Request> {
    let mut request = Request::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(option) = arg.strip_prefix("--") else {
            match arg.as_str() {
                "-v" if verb == "dump" => request.verbose = true,
                _ if arg.starts_with('-') && arg.len() > 1 => return Err(unknown(verb, arg)),
                _ => request.files.push(arg.clone()),
            }
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (option, None),
        };
        match (verb, name, value) {
            ("dump", "verbose", None) => request.verbose = true,
            ("dump", "color" | "colour", value) => {
                let when = value.unwrap_or_else(|| "always".to_owned());
                if !["always", "auto", "never"].contains(&when.as_str()) {
                    return Err(
                        Error::usage(format!("`--color` is always, auto or never, found `{when}`")).into()
                    );
                }
                request.color = Some(when);
            }
            ("dump", "blobs", None) => {
                let settings = [("blobs", "."), ("replace", "yes")];
                request.settings.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
            }
            ("info", "dump-frames", None) => request.dump_frames = true,
            ("dump", name, value) => {
                let Some((_, needs_value)) = PRINT_OPTIONS.iter().find(|(known, _)| *known == name) else {
                    return Err(unknown(verb, arg));
                };
                let value = match value {
                    Some(value) => value,
                    None if *needs_value => {
                        let next = args.next().cloned();
                        next.ok_or_else(|| Error::usage(format!("`--{name}` needs a value")))?
                    }
                    None => String::new(),
                };
                request.settings.push((name.to_owned(), value));
            }
            _ => return Err(unknown(verb, arg)),
        }
    }
    Ok(request)
}

/// The error of an option that is not taken, with the reason if apitrace takes it.
fn unknown(verb: &str, option: &str) -> crate::screen::Stop {
    match help::refusal(verb, option) {
        Some(why) => {
            Error::unsupported(format!("apitrace {verb}: `{option}` is not available: {why}")).into()
        }
        None => Error::usage(format!("apitrace {verb} has no option `{option}`"))
            .hint(format!("`quipu as apitrace help {verb}` lists the options"))
            .into(),
    }
}

/// Opens a trace; says so, in the original's words, if that fails.
fn open(file: &str, screen: &Screen) -> Option<ApiTrace> {
    let opened = Source::open(Path::new(file))
        .map_err(Error::from)
        .and_then(|source| trace::open(&source, &OpenOptions::default()));
    match opened {
        Ok(trace) => Some(trace),
        Err(error) => {
            crate::screen::eprint(&format!("error: failed to open {file}\n"));
            // The original does not say why.
            if error.kind() != quipu::model::ErrorKind::Missing {
                let error = Some(Arc::new(error));
                Verdict { error, meaning: "there is no answer", ..Verdict::default() }.tell(screen);
            }
            None
        }
    }
}

fn dump(trace: &ApiTrace, request: &Request, screen: &Screen) -> Result<Outcome> {
    let mut stdout = crate::terminal::stdout();
    let has_color = match request.color.as_deref() {
        Some("always") => true,
        Some("never") => false,
        _ => stdout.is_terminal(),
    };
    let paint = if has_color { Paint::ANSI } else { Paint::PLAIN };
    let options = PrintOptions {
        verbose: request.verbose,
        settings: request.settings.clone(),
        ..PrintOptions::default()
    };
    let mut printer = trace.printer(&options)?;
    let chosen = Chosen::new(&RowFilter::default(), &trace.tables()?[CALLS_TABLE])?;
    let window = trace.narrow(&options)?;
    let scan = Scan { tables: vec![CALLS_TABLE], window, ahead: true, ..Scan::new(ShardId(0)) };
    let style = Style { paint, strict: false, quiet: true, limit: None, awaited: &[] };
    let shown = session::watched(screen, |watch| {
        let merge = Merge::new(trace, &scan, watch)?;
        stream::print(merge, &mut *printer, &chosen, &style, watch, crate::terminal::stdout())
    })?;
    let mut end = Vec::new();
    printer.end(&mut end);
    stdout.write_all(&end)?;
    let verdict = Verdict::new(trace, shown.found, shown.error, shown.cancelled).meaning(OF_RECORDS);
    Ok(verdict.tell(screen))
}

/// What the original's script tells, on standard error.
fn leaks(trace: &ApiTrace, screen: &Screen) -> Result<Outcome> {
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::CALL_VALUES))?;
    let (mut leaks, mut lines) = (OriginalLeaks::default(), Vec::new());
    let mut found = Found::default();
    let error = loop {
        match reader.read() {
            Ok(Some(batch)) => {
                batch.findings.drain(..).for_each(|finding| found.push(finding));
                leaks.consume(batch, &mut lines);
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    let verdict = Verdict::new(trace, found, error, false);
    verdict.say_lost(screen);
    leaks.tell("<EOF>", &mut lines);
    crate::terminal::stderr().write_all(&lines)?;
    Ok(verdict.tell(screen))
}
