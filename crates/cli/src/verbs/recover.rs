//! `quipu recover`: what can be saved of a damaged trace.

use quipu::apitrace::recover::{RecoverOptions, Recovered, recover, stream_json};
use quipu::apitrace::trace;
use quipu::apitrace::write::packing_for;
use quipu::model::doc::{Block, Cell, Document, Grid};
use quipu::model::number::noun;
use quipu::model::{Error, FormatInfo, Loss, Severity};
use quipu_console::input::{self, Opening, Stored};
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict, finding_json, lost_json};
use serde_json::json;

/// Write what can be saved of a damaged trace
///
/// For traces of graphics calls that were cut, have chunks that cannot be read, or were written by two processes at once,
/// as when a traced program forks. Reading goes on behind damage where functions are known again and the numbers of calls agree;
/// what is lost is said. A stream that is whole in itself is copied as it is, byte for byte; one with gaps is written
/// anew, with calls numbered on.
///
/// A file with several streams gives the one with most calls, unless `--stream` says which.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    input: Stored,
    /// Write this stream of a file that has several, counted from 0
    #[arg(long, value_name = "N")]
    stream: Option<usize>,
    #[command(flatten)]
    target: Target,
}

const AFTER_HELP: &str = "\
Examples:
  quipu recover broken.trace -o saved.trace
  quipu recover --stream 0 forked.trace -o child.trace

Nothing appears under the name given before all of it is written.

Exit codes:
  0  done, and nothing was wrong with the trace
  1  done, and something is lost
  2  could not do it; nothing was written";

pub(crate) fn run(options: &Options, screen: &Screen) -> Result<Outcome> {
    let output = &options.target;
    rewrite::refuse_stdout(output)?;
    let Opening { threads, strict, .. } = &options.input.opening;
    if !threads.is_empty() {
        return Err(Error::usage("a trace is recovered as a whole")
            .hint("`quipu trim --thread` writes the calls of some threads of what was recovered")
            .into());
    }
    if *strict {
        return Err(Error::usage("`recover` reads on behind errors, which `--strict` rules out").into());
    }
    let source = input::spooled(&options.input.path)?;
    let is_known = |info: &FormatInfo| info.name == quipu::apitrace::INFO.name;
    let format = quipu::format_of(&source, &options.input.opening.options())?;
    if format.is_none()
        && let Err(error) = quipu::open(&source, &options.input.opening.options())
    {
        // It says what is there instead.
        return Err(error.into());
    }
    if !format.is_some_and(|format| is_known(format.info())) {
        return Err(Error::unsupported("only traces of graphics calls can be recovered")
            .in_file(source.name())
            .hint("other traces are read as far as they are whole; `quipu convert` writes that")
            .into());
    }
    let trace = trace::open(&source, &options.input.opening.options())?;
    let how = RecoverOptions {
        packing: packing_for(output.container.as_deref(), output.level, &output.path)?,
        level: output.level,
        replace: output.force,
        stream: options.stream,
    };
    let recovered = recover(&trace, &output.path, &how)?;
    let findings = recovered.salvaged.found.as_slice();
    let mut verdict =
        Verdict { findings: findings.to_vec(), meaning: session::OF_A_FILE, ..Verdict::default() };
    let first = verdict.findings.iter_mut().find(|finding| finding.severity == Severity::Error);
    // Damage that says nothing of a loss still keeps something from being saved.
    if let Some(first) = first.filter(|_| findings.iter().all(|finding| finding.loss.is_none())) {
        first.loss = Some(Box::new(Loss::from(first.place.clone())));
    }
    verdict.say_lost(screen);
    if output.json {
        screen.json(&json!({
            "output": output.path.display().to_string(),
            "container": how.packing.name(),
            "stream": recovered.stream,
            "copied": recovered.is_copy,
            "streams": recovered.salvaged.streams.iter().map(stream_json).collect::<Vec<_>>(),
            "lost_bytes": recovered.salvaged.lost_bytes,
            "lost_chunks": recovered.salvaged.lost_chunks,
            "stream_bytes": recovered.stream_bytes,
            "packed_bytes": recovered.packed_bytes,
            "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
            "lost": lost_json(&verdict.lost()),
        }))?;
    } else if !screen.is_quiet() {
        screen.documents([&document(&recovered, output)])?;
    }
    let told = verdict.tell(screen);
    // Whatever was found, the result is not what the program did.
    Ok(if findings.is_empty() { told } else { Outcome::Flawed })
}

fn document(recovered: &Recovered, output: &Target) -> Document {
    let Recovered { salvaged, stream, .. } = recovered;
    let fact = |label: &str, cells: Vec<Cell>| (label.to_owned(), cells);
    let mut facts = Vec::new();
    if let Some(saved) = salvaged.streams.get(*stream) {
        let how = if recovered.is_copy { "copied as they are" } else { "written anew" };
        facts.push(fact(
            "saved",
            vec![Cell::Count(saved.calls), format!("{},", noun(saved.calls, "call")).into(), how.into()],
        ));
        if saved.incomplete > 0 {
            let what = "of them: where they end is lost or was never written";
            facts.push(fact("incomplete", vec![Cell::Count(saved.incomplete), what.into()]));
        }
        if saved.lost_calls > 0 {
            facts.push(fact(
                "lost",
                vec![
                    Cell::Count(saved.lost_calls),
                    format!("{} at least", noun(saved.lost_calls, "call")).into(),
                ],
            ));
        }
        if saved.doubtful > 0 {
            facts.push(fact(
                "in doubt",
                vec![
                    Cell::Count(saved.doubtful),
                    format!("{} right before damage", noun(saved.doubtful, "call")).into(),
                ],
            ));
        }
        if saved.suspect > 0 {
            let what =
                format!("{} of damaged chunks, whose values may be wrong", noun(saved.suspect, "call"));
            facts.push(fact("in doubt", vec![Cell::Count(saved.suspect), what.into()]));
        }
        if saved.lost_signatures > 0 {
            facts.push(fact(
                "made up",
                vec![Cell::Count(saved.lost_signatures), noun(saved.lost_signatures, "signature").into()],
            ));
        }
    }
    if salvaged.lost_bytes > 0 {
        facts.push(fact("passed over", vec![Cell::Bytes(salvaged.lost_bytes)]));
    }
    if salvaged.lost_chunks > 0 {
        facts.push(fact(
            "unreadable",
            vec![Cell::Count(salvaged.lost_chunks), noun(salvaged.lost_chunks, "chunk").into()],
        ));
    }
    facts.push(fact("size", vec![Cell::Bytes(recovered.packed_bytes)]));
    let document = Document::new(output.path.display().to_string()).with(Block::Facts(facts));
    if salvaged.streams.len() < 2 {
        return document;
    }
    let rows = salvaged.streams.iter().enumerate().map(|(i, other)| {
        let (number, saved) = (Cell::Text(i.to_string()), if i == *stream { "this one" } else { "" });
        vec![number, Cell::Count(other.calls), Cell::Addr(other.offset), saved.into()]
    });
    let head = ["stream", "calls", "begins at", "saved"].map(str::to_owned).into();
    let title = "streams in the file".to_owned();
    document.with(Block::Grid(Grid { title, head, rows: rows.collect(), more: 0 }))
}
