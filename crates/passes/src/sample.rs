//! Small inputs for the tests of this crate, and properties that every analysis must have.

use quipu_engine::{RunOptions, Watch, plan, run};
use quipu_isa::Arch;
use quipu_model::pass::Detail;
use quipu_model::schema::Schema;
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Batch, Code, Columns, Given, Meta, Printer, Reader, Report, Result, Scan, Shard, ShardKind, Tool, Trace,
};
use quipu_testkit::MemoryTrace;
use serde_json::Value;
use std::sync::Arc;

/// Encodings of x86-64.
pub(crate) struct X86;

impl X86 {
    pub(crate) const NOP: &[u8] = &[0x90];
    pub(crate) const RET: &[u8] = &[0xc3];
    /// Not an instruction in 64-bit code.
    pub(crate) const BAD: &[u8] = &[0x06];
}

/// A batch that executes these instructions once each, in this order, and has them in its code table.
pub(crate) fn batch_of(instrs: &[(u64, &[u8])]) -> Batch {
    let mut batch = Batch::default();
    for (pc, bytes) in instrs {
        let code = Code::new(*pc, bytes.len() as u16, bytes);
        let known = batch.codes.as_slice().iter().position(|known| *known == code);
        let index = known.map_or_else(|| batch.codes.push(code), |index| index as u32);
        batch.instrs.pc.push(*pc);
        batch.instrs.code.push(index);
    }
    batch
}

/// The x86-64 trace that a text describes (see [`MemoryTrace::parse`]).
pub(crate) fn trace(text: &str) -> MemoryTrace {
    MemoryTrace::parse(text).expect("the test's trace").with_meta(|meta| meta.arch = Some(Arch::X86_64))
}

/// Options as `name=value`, separated by spaces.
fn given(text: &str) -> Given {
    let mut given = Given::default();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        given.add(name, value);
    }
    given
}

/// The tool's report on a trace.
pub(crate) fn report_of(tool: &dyn Tool, options: &str, trace: &dyn Trace) -> Box<dyn Report> {
    let watch = Watch::new();
    let planned = plan(tool, &given(options), trace).expect("the tool fits the trace");
    let options = RunOptions { threads: 2, ..RunOptions::new(&watch) };
    run(trace, vec![planned], &options).expect("a run without faults").reports.remove(0)
}

/// The tool's report on the trace that a text describes.
pub(crate) fn report(tool: &dyn Tool, options: &str, text: &str) -> Box<dyn Report> {
    report_of(tool, options, &trace(text))
}

/// The same as JSON.
pub(crate) fn json(tool: &dyn Tool, options: &str, text: &str) -> Value {
    report(tool, options, text).json()
}

/// A trace that is read in batches of this many records, with each piece separate or all as one.
struct Divided<'t> {
    trace: &'t MemoryTrace,
    shards: Vec<Shard>,
    batch_records: u32,
}

impl Divided<'_> {
    fn new(trace: &MemoryTrace, batch_records: u32, in_pieces: bool) -> Divided<'_> {
        let mut shards = trace.shards().to_vec();
        for shard in &mut shards {
            // The engine groups small pieces, but only if it knows that they are small.
            shard.packed_bytes = None;
            if !in_pieces || shard.kind == ShardKind::Core {
                shard.pieces = 1;
            }
        }
        Divided { trace, shards, batch_records }
    }
}

impl Trace for Divided<'_> {
    fn meta(&self) -> &Meta {
        self.trace.meta()
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
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
}

/// Asserts that the tool's result for random traces does not depend on how the work is divided.
pub(crate) fn assert_division_does_not_show(tool: &dyn Tool, options: &str) {
    for seed in 0..6 {
        let trace = MemoryTrace::random(seed, 1 + seed as usize % 3, 1500)
            .with_meta(|meta| meta.arch = Some(Arch::X86_64));
        assert_division_of_does_not_show(tool, options, &trace);
    }
}

/// Asserts that the tool's result does not depend on pieces, batches, threads or the grouping of merges.
pub(crate) fn assert_division_of_does_not_show(tool: &dyn Tool, options: &str, trace: &MemoryTrace) {
    let expected = report_of(tool, options, &Divided::new(trace, u32::MAX, false));
    for (batch_records, in_pieces) in [(1024, true), (7, true), (1, true), (64, false)] {
        let divided = Divided::new(trace, batch_records, in_pieces);
        for found in [report_of(tool, options, &divided), merged_backwards(tool, options, &divided)] {
            assert_eq!(found.json(), expected.json(), "batches of {batch_records}");
            for detail in [Detail::Brief, Detail::Full] {
                assert_eq!(found.document(detail), expected.document(detail), "batches of {batch_records}");
            }
        }
    }
}

/// Asserts that the result of a tool that reads each shard as a whole does not depend on batches or threads.
pub(crate) fn assert_batches_do_not_show(tool: &dyn Tool, options: &str, trace: &MemoryTrace) {
    let expected = report_of(tool, options, &Divided::new(trace, u32::MAX, false));
    for batch_records in [1024, 64, 7, 1] {
        let found = report_of(tool, options, &Divided::new(trace, batch_records, false));
        assert_eq!(found.json(), expected.json(), "batches of {batch_records}");
        for detail in [Detail::Brief, Detail::Full] {
            assert_eq!(found.document(detail), expected.document(detail), "batches of {batch_records}");
        }
    }
}

/// Reads each piece into its own pass and merges the last two, then the result with the one before, and so on.
fn merged_backwards(tool: &dyn Tool, options: &str, trace: &dyn Trace) -> Box<dyn Report> {
    let planned = plan(tool, &given(options), trace).expect("the tool fits the trace");
    let mut passes = vec![planned.pass.fork(&trace.shards()[0])];
    for shard in trace.shards() {
        for piece in 0..shard.pieces {
            let pieces = (shard.pieces > 1).then_some(piece..piece + 1);
            let mut reader = trace
                .scan(&Scan {
                    pieces,
                    tables: planned.reads.tables.clone(),
                    ..Scan::new(shard.id).columns(planned.reads.columns)
                })
                .expect("a piece");
            let mut pass = planned.pass.fork(shard);
            while let Some(batch) = reader.read().expect("a batch") {
                pass.consume(batch).expect("a pass without faults");
            }
            passes.push(pass);
        }
    }
    let mut merged = passes.pop().expect("one at least");
    while let Some(mut earlier) = passes.pop() {
        earlier.merge(merged).expect("passes of one tool");
        merged = earlier;
    }
    merged.finish().expect("a report")
}
