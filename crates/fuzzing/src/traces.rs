//! Targets that read traces of each format, analyse them, rewrite them, and convert them to other formats.

use crate::folder::Folder;
use quipu::engine::{RunOptions, Watch, convert as run_conversion, plan, plan_conversion, run};
use quipu::model::convert::RecordJob;
use quipu::model::{Columns, Damaged, Given, OpenOptions};
use quipu::sim::caches::Caches;
use quipu::source::Source;
use quipu_testkit::fuzz;

#[path = "../../apitrace/tests/fuzzing/mod.rs"]
mod graphics;
#[path = "../../drmemtrace/tests/fuzzing/mod.rs"]
mod rewriting;

/// Checks any bytes as a drmemtrace trace to its end: findings must be the same for buffers of any size.
pub fn check(bytes: &[u8]) {
    fuzz::tool(&quipu::drmemtrace::DRMEMTRACE, &quipu::drmemtrace::check::CHECK, bytes);
}

/// Rewrites and edits any bytes as a drmemtrace trace: the output must be readable, and rewriting it must give the same
/// output.
pub fn rewrite(bytes: &[u8]) {
    rewriting::rewrite(bytes);
}

/// Writes any bytes as a trace of graphics calls, as a trace and as text, and reads any bytes as such a text: the contents
/// must stay the same.
pub fn apitrace_text(bytes: &[u8]) {
    graphics::write_and_text(bytes);
}

/// Reads any bytes as workload events, in both encodings: records and findings must be the same however they are read, and
/// must survive writing.
///
/// # Panics
/// If events change by writing and reading.
pub fn prism(bytes: &[u8]) {
    use quipu::prism::variable::{Decoder, Dialect, Encoder};
    fuzz::format(&quipu::prism::PRISM, bytes);
    let detail = quipu::prism::Detail::ALL;
    let mut decoder = Decoder::new(detail, Dialect::Strict);
    let (mut batch, mut again) = (quipu::prism::Batch::default(), quipu::prism::Batch::default());
    let mut used = 0;
    while used < bytes.len() {
        let before = decoder.detail();
        let Ok(progress) = decoder.decode(&bytes[used..], &mut batch) else { break };
        let mut encoder = Encoder::agreed(before);
        let is_written = batch.events.iter().all(|event| encoder.put(event, &batch).is_ok());
        if is_written && !batch.events.is_empty() {
            let mut reader = Decoder::new(before, Dialect::Strict);
            assert!(reader.decode(&encoder.out, &mut again).is_ok(), "what was written is read");
            assert_eq!(again.events.len(), batch.events.len(), "as many events");
        }
        used += progress.used;
        if progress.has_ended {
            break;
        }
    }
}

/// Simulates caches for any bytes as a trace of any format: the run must end, with the same report for one thread and for
/// several.
///
/// # Panics
/// If the reports differ.
pub fn simulate(bytes: &[u8]) {
    let Ok(trace) = quipu::open(&Source::from_bytes("fuzz", bytes), &OpenOptions::default()) else { return };
    let report = |threads| {
        let watch = Watch::new();
        let plan = plan(&Caches, &Given::default(), &*trace).ok()?;
        let outcome = run(&*trace, vec![plan], &RunOptions { threads, ..RunOptions::new(&watch) }).ok()?;
        Some(outcome.reports[0].json().to_string())
    };
    assert_eq!(report(1), report(3), "reports by one thread and by three");
}

/// Writes any bytes as a trace of any format in each format that can be written: the output must be readable.
///
/// # Panics
/// If it is not.
pub fn convert(bytes: &[u8]) {
    let source = Source::from_bytes("fuzz", bytes);
    let Ok(trace) = quipu::open(&source, &OpenOptions::default()) else { return };
    let from = &trace.meta().format;
    let beyond = quipu::FORMATS
        .iter()
        .find(|format| format.info().name == from)
        .map_or(&[][..], |format| format.info().beyond_lenses);
    for format in quipu::FORMATS {
        let Some(writer) = format.record_writer() else { continue };
        let folder = Folder::new();
        let output = folder.path("converted");
        let job = RecordJob {
            trace: &*trace,
            columns: Columns::NONE,
            options: &quipu::model::Options::default(),
            output: &output,
            replace: false,
            container: None,
            level: None,
            damaged: Damaged::Keep,
            strict: false,
        };
        let Ok(plan) = plan_conversion(&*trace, format.info().name, writer, beyond) else { continue };
        if run_conversion(&plan, writer, &job, beyond, &Watch::new()).is_ok() {
            let written = Source::open(&output).expect("what was written is there");
            format.open(&written, &OpenOptions::default()).expect("what was written can be read");
        }
    }
}
