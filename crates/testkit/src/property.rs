//! Properties that must hold for every tool.

use quipu_engine::{RunOptions, Watch, plan, run};
use quipu_model::pass::Detail;
use quipu_model::print::Printer;
use quipu_model::schema::Schema;
use quipu_model::trace::PrintOptions;
use quipu_model::{Columns, Given, Meta, Order, Reader, Result, Scan, Shard, Tool, Trace, Window};
use std::any::Any;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

/// Panics unless a tool's report on a trace is the same for any number of threads and any size of batches.
///
/// # Panics
/// If the reports differ, or the tool fails.
pub fn same_report_for_any_threads(trace: &dyn Trace, tool: &dyn Tool) {
    same_outcome(trace, tool, &Given::default(), &Window::All);
}

/// The same for a tool with options, and for a part of the trace.
///
/// # Panics
/// Those of [`same_report_for_any_threads`].
pub fn same_outcome(trace: &dyn Trace, tool: &dyn Tool, given: &Given, window: &Window) {
    let expected = outcome(trace, tool, given, window, 1);
    for threads in [2, 3, 8] {
        let found = outcome(trace, tool, given, window, threads);
        assert_same(&expected, &found, tool, &format!("{threads} threads"));
    }
    // A shard's first batch must reach to its first clock reading, or a merge by time cannot place it.
    let smallest = if tool.info().order == Order::Time { 128 } else { 1 };
    for batch_records in [smallest, 129, 1000, 5000] {
        let resized = Resized { trace, batch_records };
        let found = outcome(&resized, tool, given, window, 2);
        assert_same(&expected, &found, tool, &format!("batches of {batch_records}"));
    }
}

fn assert_same(expected: &str, found: &str, tool: &dyn Tool, how: &str) {
    if let Some(diff) = crate::diff::diff(expected, found) {
        let name = tool.info().name;
        panic!("tool `{name}`: the outcome differs with {how}:\n{diff}");
    }
}

/// Everything visible of an outcome, as text.
fn outcome(trace: &dyn Trace, tool: &dyn Tool, given: &Given, window: &Window, threads: usize) -> String {
    let watch = Watch::new();
    let options = RunOptions { threads, window: window.clone(), ..RunOptions::new(&watch) };
    let result = plan(tool, given, trace).and_then(|planned| run(trace, vec![planned], &options));
    let outcome = match result {
        Ok(outcome) => outcome,
        Err(error) => panic!("tool `{}` fails: {error}", tool.info().name),
    };
    let mut text = format!("{} records\n{} instrs\n{:?}\n", outcome.records, outcome.instrs, outcome.error);
    for finding in outcome.findings.as_slice() {
        let _ = writeln!(text, "{finding}");
    }
    for report in &outcome.reports {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:#}", report.json());
        let _ = writeln!(text, "{:#?}\n{:#?}", report.document(Detail::Brief), report.document(Detail::Full));
    }
    text
}

/// A trace whose batches have a different size than its readers are asked for.
struct Resized<'t> {
    trace: &'t dyn Trace,
    batch_records: u32,
}

impl Trace for Resized<'_> {
    fn meta(&self) -> &Meta {
        self.trace.meta()
    }

    fn shards(&self) -> &[Shard] {
        self.trace.shards()
    }

    fn columns(&self) -> Columns {
        self.trace.columns()
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        self.trace.tables()
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        self.trace.scan(&Scan { batch_records: self.batch_records, ..scan.clone() })
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        self.trace.printer(options)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        self.trace.as_any()
    }

    fn n_delivered_damaged(&self) -> u64 {
        self.trace.n_delivered_damaged()
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        self.trace.mark_name(kind)
    }
}
