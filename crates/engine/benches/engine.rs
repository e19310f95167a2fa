//! The cost of the engine itself: a trace that delivers the same batch again and again, and a pass that does almost nothing
//! with it. What remains is the overhead of each batch.

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu_engine::{Merge, RunOptions, Watch, plan, run};
use quipu_model::ReportBody;
use quipu_model::doc::Document;
use quipu_model::pass::Detail;
use quipu_model::print::Printer;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::schema::Schema;
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Batch, Columns, DynPass, Error, Given, Meta, Needs, Options, Order, Pass, Reader, Report, Result, Scan,
    Shard, ShardId, Tool, ToolInfo, Trace,
};
use std::sync::Arc;

fn main() {
    divan::main();
}

const BATCHES: u64 = 100_000;

/// One thread and one unit of 100 000 batches.
#[divan::bench]
fn run_batches(bencher: Bencher<'_, '_>) {
    let trace = Blank::new(1, BATCHES);
    bencher.counter(ItemsCount::new(BATCHES)).bench(|| run_all(&trace, &PIECES, 1));
}

/// Two threads and 1000 units of 100 batches, which pays for forking and merging a thousand times.
#[divan::bench]
fn run_small_units(bencher: Bencher<'_, '_>) {
    let trace = Blank::new(1000, BATCHES / 1000);
    bencher.counter(ItemsCount::new(BATCHES)).bench(|| run_all(&trace, &PIECES, 2));
}

/// A merge by time in which the shard changes with each batch.
#[divan::bench(args = [2, 50, 2000])]
fn merge_by_time(bencher: Bencher<'_, '_>, n_shards: u64) {
    let trace = Blank::new(n_shards, BATCHES / n_shards);
    let watch = Watch::new();
    bencher.counter(ItemsCount::new(BATCHES)).bench(|| {
        let merge = Merge::new(&trace, &Scan::new(ShardId(0)), &watch);
        let mut merge = merge.expect("the trace opens");
        let mut n_records = 0;
        while let Some(merged) = merge.read().expect("the trace is sound") {
            n_records += merged.records.len();
        }
        n_records
    });
}

fn run_all(trace: &Blank, tool: &CountTool, threads: usize) -> u64 {
    let watch = Watch::new();
    let planned = plan(tool, &Given::default(), trace).expect("the tool fits");
    let options = RunOptions { threads, ..RunOptions::new(&watch) };
    run(trace, vec![planned], &options).expect("the trace is sound").records
}

/// A trace of shards whose batches have a thousand records without rows, and a clock that ticks with each batch.
struct Blank {
    meta: Meta,
    shards: Vec<Shard>,
    batches: u64,
}

impl Blank {
    fn new(n_shards: u64, batches: u64) -> Blank {
        let id = |i| ShardId(u32::try_from(i).expect("few shards"));
        let shards = (0..n_shards).map(|i| Shard { id: id(i), pieces: 1, ..Shard::default() });
        Blank { meta: Meta::default(), shards: shards.collect(), batches }
    }
}

impl Trace for Blank {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        Columns::NONE
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(Vec::new())
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        let mut batch = Batch::default();
        batch.span.shard = scan.shard.0;
        batch.span.records = 1000;
        Ok(Box::new(BlankReader { batch, left: self.batches }))
    }

    fn printer(&self, _options: &PrintOptions) -> Result<Box<dyn Printer>> {
        Err(Error::unsupported("nothing to print"))
    }
}

struct BlankReader {
    batch: Batch,
    left: u64,
}

impl Reader for BlankReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let span = &mut self.batch.span;
        span.clock += 1;
        span.opens = Some(span.clock);
        span.first_record = (span.clock - 1) * 1000;
        Ok(Some(&mut self.batch))
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, _records: u32) {}
}

struct CountTool;

static PIECES: CountTool = CountTool;

static INFO: ToolInfo = ToolInfo {
    name: "count",
    summary: "",
    needs: Needs { format: None, required: Columns::NONE, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[],
    in_report: false,
};

impl Tool for CountTool {
    fn result(&self) -> Shape {
        CountReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, _options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Count(0)))
    }
}

struct Count(u64);

impl Pass for Count {
    fn fork(&self, _shard: &Shard) -> Count {
        Count(0)
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        self.0 += u64::from(batch.span.records);
        Ok(())
    }

    fn merge(&mut self, later: Count) -> Result<()> {
        self.0 += later.0;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(CountReport { records: self.0 }))
    }
}

result! {
    /// How many records there were.
    pub struct CountReport {
        pub records: u64 => "How many.";
    }
}

impl ReportBody for CountReport {
    fn document(&self, _detail: Detail) -> Document {
        Document::new("count")
    }
}
