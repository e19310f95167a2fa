//! Cacheray's tools, implemented with our own.
//!
//! This file contains `tracecheck`; `simulator` and `dwarf2json` are in the files of these names. SPEC: cacheray.md.

mod dwarf2json;
mod simulator;

use quipu::cacheray::record::Dialect;
use quipu::cacheray::trace::{StrictEnd, read_records, read_strictly};
use quipu::model::{Columns, Error, Found, Given, OpenOptions, Scan, ShardId, Trace as _};
use quipu::source::Container;
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::Verdict;
use std::fmt::Write as _;
use std::path::Path;

/// The available tools, for error messages.
const TOOLS: &str = "tools that are available: dwarf2json, simulator, tracecheck";

/// Help text of each tool.
const HELP: [(&str, &str); 3] = [
    ("dwarf2json", dwarf2json::HELP),
    ("simulator", simulator::HELP),
    (
        "tracecheck",
        "Usage: quipu as cacheray tracecheck FILE\n\nCounts the records of a trace by tag, up to the first unknown tag. Cacheray's program calls a\ntruncated trace correct and always exits with 0; here damage is reported, with exit code 1.\n",
    ),
];

/// Cacheray reads little-endian files with 64-bit addresses on any host.
const DIALECT: Dialect = Dialect::Le64;

/// Runs Cacheray's command line with these arguments.
pub fn run(args: &[String], screen: &Screen) -> Result<Outcome> {
    let Some((tool, args)) = args.split_first() else {
        return Err(Error::usage("no tool is given").hint(TOOLS).into());
    };
    if args.iter().any(|arg| matches!(arg.as_str(), "--help" | "-h"))
        && let Some((_, help)) = HELP.iter().find(|(name, _)| name == tool)
    {
        screen.text(help)?;
        return Ok(Outcome::Fine);
    }
    match tool.as_str() {
        "dwarf2json" => dwarf2json::run(args),
        "simulator" => simulator::run(args, screen),
        "tracecheck" => tracecheck(args, screen),
        other => {
            Err(Error::unsupported(format!("Cacheray's tool `{other}` is not available")).hint(TOOLS).into())
        }
    }
}

fn open(file: &str) -> Result<Container> {
    let source = quipu::source_at(Path::new(file))?;
    Ok(source.container().map_err(Error::from)?)
}

/// Number of records by tag.
type Counts = [u64; 256];

/// `tracecheck FILE`: counts tags up to the first unknown one. Prints the output of Cacheray's program, which always exits
/// with 0, and also reports damage.
fn tracecheck(args: &[String], screen: &Screen) -> Result<Outcome> {
    let [file] = args else {
        return Err(Error::usage("`tracecheck` wants one file").into());
    };
    let judged = judged(file);
    let (mut counts, end) = match &judged {
        // An undamaged trace gives the same counts with every reader, so it is read only once.
        Ok(Some(Judged { counts: Some(counts), .. })) => (*counts, StrictEnd::Whole),
        _ => {
            let mut counts = [0; 256];
            let end = read_strictly(&open(file)?, DIALECT, |record| {
                counts[usize::from(record.tag())] += 1;
                Ok(())
            });
            match end {
                Err(error) if error.is_damage() => return told(judged, screen),
                end => (counts, end?),
            }
        }
    };
    if let StrictEnd::Cut(tag, _) = end {
        counts[usize::from(tag)] += 1;
    }
    let is_correct = !matches!(end, StrictEnd::Bad(..));
    let mut text = if is_correct { "The file was correct\n" } else { "The type was wrong\n" }.to_owned()
        + "Access stats:\n";
    for (tag, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\t{tag}: {count}");
    }
    screen.text(&text)?;
    told(judged, screen)
}

/// Reports what is wrong with a trace, if this is known.
fn told(judged: Result<Option<Judged>>, screen: &Screen) -> Result<Outcome> {
    Ok(judged?.map_or(Outcome::Fine, |judged| judged.verdict.tell(screen)))
}

/// Result of reading a trace with the reader of all other verbs.
struct Judged {
    verdict: Verdict,
    /// Counts by tag, if reading found no fault.
    counts: Option<Counts>,
}

/// Reads a trace with the reader of all other verbs. `None` for a pipe, which can be read only once.
fn judged(file: &str) -> Result<Option<Judged>> {
    let source = quipu::source_at(Path::new(file))?;
    if !source.can_seek() {
        return Ok(None);
    }
    let given = Given::from([("dialect", DIALECT.name())]);
    let options = OpenOptions { given, ..OpenOptions::default() };
    let trace = quipu::cacheray::trace::open(&source, &options)?;
    let (mut found, mut counts, mut is_read) = (Found::default(), [0; 256], true);
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::RAW))?;
    let done = found.read(&mut *reader, |batch| {
        let n_bytes = read_records(batch.raw(), DIALECT, |record| {
            counts[usize::from(record.tag())] += 1;
            Ok(())
        })?;
        is_read &= n_bytes == batch.raw().len();
        Ok(())
    });
    let error = done.err();
    let counts = (is_read && found.is_empty() && error.is_none()).then_some(counts);
    Ok(Some(Judged { verdict: Verdict::new(&trace, found, error, false), counts }))
}
