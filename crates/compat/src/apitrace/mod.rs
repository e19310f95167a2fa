//! apitrace's command line, implemented with our own tools.
//!
//! Translates its command line into a run, and results into its output. This file contains `dump`; `info` has the verb of
//! the same name, `edits` the verbs that write traces, `diff` the comparison, `options` the parser for arguments, and `help`
//! the list of verbs and options. SPEC: apitrace.md.

mod diff;
mod edits;
mod help;
mod info;
mod options;

use options::Words;
use quipu::apitrace::table::CALLS_TABLE;
use quipu::apitrace::tools::leaks::OriginalLeaks;
use quipu::apitrace::trace::{self, ApiTrace};
use quipu::engine::{Merge, PrintJob};
use quipu::model::trace::{PrintOptions, settled};
use quipu::model::{Columns, Error, Found, Given, OpenOptions, Paint, Scan, ShardId, Trace};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, OF_RECORDS, Verdict};
use quipu_console::stream;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Parsed arguments of `dump`, `info` or `leaks`.
#[derive(Debug, Default)]
struct Request {
    given: Given,
    verbose: bool,
    color: Option<String>,
    dump_frames: bool,
    files: Vec<String>,
}

/// Runs apitrace's command line with these arguments.
pub fn run(args: &[String], screen: &Screen) -> Result<Outcome> {
    let Some((verb, args)) = args.split_first() else {
        return Err(Error::usage("no verb is given").hint(help::verbs()).into());
    };
    match verb.as_str() {
        "help" | "--help" | "-h" => return help::print(args.first().map(String::as_str)),
        "version" | "--version" => return help::version(),
        verb if !help::has(verb) => return Err(help::no_verb(verb).into()),
        _ => {}
    }
    let words = Words::parse(verb, args)?;
    if words.has("help") {
        return help::print(Some(verb));
    }
    // apitrace's scripts have an option for their version.
    if words.has("version") {
        return help::version();
    }
    match verb.as_str() {
        "repack" => return edits::repack(words, screen),
        "diff" => return diff::run(words, screen),
        "trim" => return edits::trim(words, screen),
        "sed" => return edits::sed(words, screen),
        _ => {}
    }
    let request = Request::of(words)?;
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
        // Like apitrace, this skips all files after a damaged one.
        if outcome == Outcome::Flawed {
            break;
        }
    }
    Ok(outcome)
}

impl Request {
    /// Parses the arguments of `dump`, `info` or `leaks`.
    fn of(words: Words) -> Result<Request> {
        let mut request = Request { files: words.files, ..Request::default() };
        for (name, value) in words.options {
            match name.as_str() {
                "verbose" => request.verbose = true,
                "dump-frames" => request.dump_frames = true,
                "blobs" => {
                    request.given.extend([("blobs", "."), ("replace", "yes")]);
                }
                name if help::is_color(name) => {
                    let when = value.unwrap_or_else(|| "always".to_owned());
                    if !["always", "auto", "never"].contains(&when.as_str()) {
                        let what = format!("`--color` is always, auto or never, found `{when}`");
                        return Err(Error::usage(what).into());
                    }
                    request.color = Some(when);
                }
                // Our printer has the other options under the same names.
                _ => request.given.add(name, value.unwrap_or_default()),
            }
        }
        Ok(request)
    }
}

/// Opens a trace; prints apitrace's message if that fails.
fn open(file: &str, screen: &Screen) -> Option<ApiTrace> {
    let opened = quipu::source_at(Path::new(file))
        .and_then(|source| trace::open(&source, &OpenOptions::default()))
        .and_then(|trace| trace.check_version().map(|()| trace));
    match opened {
        Ok(trace) => Some(trace),
        Err(error) => {
            quipu_console::screen::eprint(&format!("error: failed to open {file}\n"));
            // apitrace's message does not contain the reason.
            if error.kind() != quipu::model::ErrorKind::Missing {
                let error = Some(Arc::new(error));
                Verdict { error, meaning: "there is no answer", ..Verdict::default() }.tell(screen);
            }
            None
        }
    }
}

fn dump(trace: &ApiTrace, request: &Request, screen: &Screen) -> Result<Outcome> {
    let mut stdout = quipu_console::terminal::stdout();
    let has_color = match request.color.as_deref() {
        Some("always") => true,
        Some("never") => false,
        _ => stdout.is_terminal(),
    };
    let paint = if has_color { stdout.paint() } else { Paint::PLAIN };
    let options =
        PrintOptions { verbose: request.verbose, given: request.given.clone(), ..PrintOptions::default() };
    let job = PrintJob::new(trace, CALLS_TABLE, &options, None)?;
    let job = PrintJob { window: trace.narrow(&options)?, paint, ..job };
    let shown = session::watched(screen, |watch| {
        let merge = Merge::new(trace, &job.scan(), watch)?;
        stream::print(job, merge, watch, quipu_console::terminal::stdout(), true)
    })?;
    stdout.write_all(&shown.end)?;
    let verdict = Verdict::new(trace, shown.found, shown.error, shown.cancelled).meaning(OF_RECORDS);
    Ok(verdict.tell(screen))
}

/// Prints the output of apitrace's script on standard error.
fn leaks(trace: &ApiTrace, screen: &Screen) -> Result<Outcome> {
    let read = || -> Result<_> {
        let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::CALL_VALUES))?;
        let (mut leaks, mut lines) = (OriginalLeaks::default(), Vec::new());
        let mut found = Found::default();
        let taken = found.read(&mut *reader, |batch| {
            leaks.consume(batch, &mut lines);
            Ok(())
        });
        Ok((leaks, lines, found, taken.err()))
    };
    let (mut leaks, mut lines, found, error) = settled(trace, || false, read)?;
    let verdict = Verdict::new(trace, found, error, false);
    verdict.say_lost(screen);
    leaks.tell("<EOF>", &mut lines);
    quipu_console::terminal::stderr().write_all(&lines)?;
    Ok(verdict.tell(screen))
}
