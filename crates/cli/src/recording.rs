//! `quipu convert --to cacheray` for recordings: converts a recording of an instrumented program to a trace.

use quipu::model::Error;
use quipu::model::fresh::Replace;
use quipu::model::number::{counted, grouped};
use quipu::model::transform::packing_for;
use quipu::source::Pool;
use quipu_capture::tsan::trace::Output;
use quipu_capture::tsan::{Ending, Summary, collect};
use quipu_console::rewrite::{self, Target};
use quipu_console::screen::{Outcome, Result, Screen};
use quipu_console::session::{self, Verdict};
use serde_json::json;
use std::path::Path;

/// Parses the pairs of `--source-map`.
///
/// # Errors
/// `Usage` for a value without `=`.
pub(crate) fn source_map(pairs: &[String]) -> Result<Vec<(String, String)>> {
    let pairs = pairs.iter().map(|pair| match pair.split_once('=') {
        Some((from, to)) if !from.is_empty() => Ok((from.to_owned(), to.to_owned())),
        _ => Err(Error::usage(format!("`--source-map` is FROM=TO, found `{pair}`")).into()),
    });
    pairs.collect()
}

/// Converts a recording to a trace.
pub(crate) fn make(
    recording: &Path,
    target: &Target,
    source_map: &[(String, String)],
    screen: &Screen,
) -> Result<Outcome> {
    let path = &target.path;
    let packing = packing_for(target.container.as_deref(), target.level, path)?;
    let pool = Pool::new(std::thread::available_parallelism().map_or(1, usize::from)).map_err(Error::from)?;
    let output = Output {
        path,
        packing: &packing,
        replace: if target.force { Replace::Allowed } else { Replace::Never },
        pool: &pool,
        damaged: target.damaged,
        may_be_empty: false,
        source_map,
    };
    let summary = match collect(recording, &output) {
        Ok(summary) => summary,
        Err(error) => return Err(rewrite::undone(rewrite::of_target(error, path))),
    };
    let verdict =
        Verdict { findings: summary.findings.clone(), meaning: session::OF_A_FILE, ..Verdict::default() };
    verdict.say_lost(screen);
    rewrite::say_doubtful(path, summary.doubtful_from, screen);
    summary.warnings().iter().for_each(|warning| screen.say(format_args!("{warning}")));
    let beside = screen.beside(path);
    if target.json {
        beside.json(&as_json(&summary, &recording.display().to_string(), &path.display().to_string()))?;
    } else if !screen.is_quiet() {
        beside.text(&as_text(&summary, &path.display().to_string()))?;
    }
    Ok(verdict.tell(screen))
}

/// Names of an ending, for JSON and for people.
pub(crate) fn ending(ending: Ending) -> (&'static str, &'static str) {
    match ending {
        Ending::Exited => ("exited", "exited"),
        Ending::Stopped => {
            ("stopped", "was stopped before it exited (killed, crashed, replaced), or still runs")
        }
        Ending::SizeReached => ("size-reached", "continued when the file had the size that it may have"),
        Ending::DiskFull => ("disk-full", "continued when the disk was full"),
    }
}

fn as_json(summary: &Summary, recording: &str, path: &str) -> serde_json::Value {
    json!({
        "recording": recording,
        "trace": path,
        "program": summary.program.as_ref().map(|path| path.display().to_string()),
        "pid": summary.pid,
        "ending": ending(summary.ending).0,
        "seconds": summary.duration.as_secs_f64(),
        "threads": summary.n_threads,
        "accesses": summary.n_accesses,
        "atomics": summary.n_atomics,
        "allocations": summary.n_allocations,
        "typed_allocations": summary.n_typed,
        "allocations_of_bytes": summary.n_bytes_typed,
        "allocations_of_unknown_type": summary.unknown.iter().map(|(why, unknown)| json!({
            "why": why.text(),
            "allocations": unknown.n_allocations,
            "bytes": unknown.n_bytes,
        })).collect::<Vec<_>>(),
        "regions_without_place": summary.n_unplaced,
        "annotations": summary.n_annotations,
        "calls": summary.n_calls,
        "syncs": summary.n_syncs,
        "unwritten": summary.n_holes,
        "missing_frames": summary.n_missing,
        "unread_bytes": summary.gap_bytes,
        "doubtful_from": summary.doubtful_from,
        "findings": summary.findings,
        "records": summary.written.records,
        "bytes": summary.written.bytes,
    })
}

/// The share of allocations without a specific type, with the reasons.
fn untyped(summary: &Summary) -> String {
    let share = |n: u64| format!("{:.1} %", 100.0 * n as f64 / summary.n_allocations.max(1) as f64);
    let mut parts = Vec::new();
    if summary.n_bytes_typed > 0 {
        parts.push(format!(
            "{} ({}) of characters or bytes",
            grouped(summary.n_bytes_typed),
            share(summary.n_bytes_typed)
        ));
    }
    for (why, unknown) in &summary.unknown {
        let n = unknown.n_allocations;
        parts.push(format!("{} ({}) unknown: {}", grouped(n), share(n), why.text()));
    }
    if parts.is_empty() { String::new() } else { format!("  other allocations: {}\n", parts.join("; ")) }
}

fn as_text(summary: &Summary, path: &str) -> String {
    let program = summary.program.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
    let mut text = format!(
        "{path}: {}\n  {} (process {}, {}, {:.3} s) {}\n  {}, {}, {}, {} of locks and threads\n  {}, {} of a known type; {}\n",
        counted(summary.written.records, "record"),
        program.to_string_lossy(),
        summary.pid,
        counted(summary.n_threads, "thread"),
        summary.duration.as_secs_f64(),
        ending(summary.ending).1,
        counted(summary.n_accesses, "access"),
        counted(summary.n_atomics, "atomic operation"),
        counted(summary.n_calls, "call"),
        counted(summary.n_syncs, "event"),
        counted(summary.n_allocations, "allocation"),
        grouped(summary.n_typed),
        counted(summary.n_annotations, "annotation"),
    );
    text.push_str(&untyped(summary));
    if summary.n_holes > 0 {
        let events = counted(summary.n_holes, "event");
        text.push_str(&format!("  left out, because they were not written to their end: {events}\n"));
    }
    if summary.n_missing > 0 || summary.gap_bytes > 0 {
        text.push_str(&format!(
            "  damaged: missing are {} of threads, and {} that could not be read\n",
            counted(summary.n_missing, "frame"),
            counted(summary.gap_bytes, "byte")
        ));
    }
    // Devices and pipes cannot be read again for a report.
    if Path::new(path).is_file() {
        text.push_str(&format!("next: quipu report {path}\n"));
    }
    text
}
