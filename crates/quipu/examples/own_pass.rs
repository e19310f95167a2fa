//! A pass of one's own: which thread stores the most bytes. It runs on all cores, and the answer does not depend on how
//! many those are.
//!
//! ```text
//! cargo run -p quipu --example own_pass -- traces/drmemtrace/threadsig.x64
//! ```

use quipu::engine::{Planned, RunOptions, Watch, run};
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::lens::AccessKind;
use quipu::model::pass::Detail;
use quipu::model::{
    Batch, Columns, Error, Needs, OpenOptions, Order, Pass, Report, Result, Shard, ThreadId, ToolInfo, Trace,
};
use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;

/// What the engine must know: which columns to fill, and that any pieces of the trace will do.
static INFO: ToolInfo = ToolInfo {
    name: "stores",
    summary: "bytes stored by each thread",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[],
    in_report: false,
};

/// The pass, and its result at the same time: bytes stored by each thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stores {
    /// Bytes by thread.
    pub bytes: BTreeMap<ThreadId, u64>,
}

impl Pass for Stores {
    // Each piece of the trace gets a pass of its own …
    fn fork(&self, _: &Shard) -> Stores {
        Stores::default()
    }

    // … which is fed batches. A batch never mixes threads.
    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let accesses = &batch.accesses;
        let sizes = accesses.size.iter().zip(&accesses.kind);
        let stored = sizes.filter(|(_, kind)| **kind == AccessKind::Write).map(|(size, _)| u64::from(*size));
        *self.bytes.entry(batch.span.thread).or_default() += stored.sum::<u64>();
        Ok(())
    }

    // The passes are then merged, in the order of the trace.
    fn merge(&mut self, later: Stores) -> Result<()> {
        for (thread, bytes) in later.bytes {
            *self.bytes.entry(thread).or_default() += bytes;
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(self))
    }
}

impl Report for Stores {
    fn json(&self) -> serde_json::Value {
        self.bytes.iter().map(|(thread, bytes)| (thread.to_string(), *bytes)).collect()
    }

    fn document(&self, _: Detail) -> Document {
        let facts =
            self.bytes.iter().map(|(thread, bytes)| (format!("thread {thread}"), vec![Cell::Bytes(*bytes)]));
        Document::new("Bytes stored").with(Block::Facts(facts.collect()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Runs the pass over all of a trace.
pub fn stores(trace: &dyn Trace) -> Result<Stores> {
    let columns = INFO.needs.of(INFO.name, trace)?;
    let planned = Planned { info: &INFO, columns, pass: Box::new(Stores::default()) };
    let watch = Watch::new();
    let outcome = run(trace, vec![planned], &RunOptions::new(&watch))?;
    let report = outcome.reports.first().and_then(|report| report.as_any().downcast_ref::<Stores>());
    report.cloned().ok_or_else(|| Error::missing("the run left no report"))
}

fn main() -> Result<()> {
    let Some(path) = std::env::args().nth(1) else { return Err(Error::usage("usage: own_pass TRACE")) };
    let trace = quipu::open_path(Path::new(&path), &OpenOptions::default())?;
    for (thread, bytes) in stores(&*trace)?.bytes {
        println!("thread {thread}: {bytes} bytes stored");
    }
    Ok(())
}
