//! A custom pass: which thread stores the most bytes. It runs on all cores, and the result does not depend on their number.
//!
//! ```text
//! cargo run -p quipu --example own_pass -- traces/drmemtrace/threadsig.x64
//! ```

use quipu::engine::{Planned, RunOptions, Watch, run};
use quipu::model::ReportBody;
use quipu::model::doc::{Block, Cell, Document};
use quipu::model::lens::AccessKind;
use quipu::model::pass::Detail;
use quipu::model::result;
use quipu::model::{
    Batch, Columns, Error, Needs, OpenOptions, Order, Pass, Report, Result, Shard, ThreadId, ToolInfo, Trace,
};
use std::collections::BTreeMap;
use std::path::Path;

/// What the engine needs to know: which columns to fill, and that the pass accepts any pieces of the trace.
static INFO: ToolInfo = ToolInfo {
    name: "stores",
    summary: "bytes stored by each thread",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[],
    in_report: false,
};

result! {
    /// The result: what it is in JSON and in tables, with a sentence for each key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Stores {
        pub threads: Vec<ThreadStores> => "Each thread.";
    }
}

result! {
    /// Bytes stored by a thread.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ThreadStores {
        pub thread: ThreadId, flat => "The thread.";
        pub bytes: u64 => "Bytes that it stored.";
    }
}

/// The pass: bytes by thread.
#[derive(Default)]
struct Storing {
    bytes: BTreeMap<ThreadId, u64>,
}

impl Pass for Storing {
    // Each piece of the trace gets its own pass …
    fn fork(&self, _: &Shard) -> Storing {
        Storing::default()
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
    fn merge(&mut self, later: Storing) -> Result<()> {
        for (thread, bytes) in later.bytes {
            *self.bytes.entry(thread).or_default() += bytes;
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let threads = self.bytes.into_iter().map(|(thread, bytes)| ThreadStores { thread, bytes }).collect();
        Ok(Box::new(Stores { threads }))
    }
}

impl ReportBody for Stores {
    fn document(&self, _: Detail) -> Document {
        let facts =
            self.threads.iter().map(|of| (format!("thread {}", of.thread), vec![Cell::Bytes(of.bytes)]));
        Document::new("Bytes stored").with(Block::Facts(facts.collect()))
    }
}

/// Runs the pass over all of a trace.
pub fn stores(trace: &dyn Trace) -> Result<Stores> {
    let columns = INFO.needs.of(INFO.name, trace)?;
    let planned = Planned::new(&INFO, columns, Box::new(Storing::default()));
    let watch = Watch::new();
    let outcome = run(trace, vec![planned], &RunOptions::new(&watch))?;
    let report = outcome.reports.first().and_then(|report| report.as_any().downcast_ref::<Stores>());
    report.cloned().ok_or_else(|| Error::missing("the run left no report"))
}

fn main() -> Result<()> {
    let Some(path) = std::env::args().nth(1) else { return Err(Error::usage("usage: own_pass TRACE")) };
    let trace = quipu::open_path(Path::new(&path), &OpenOptions::default())?;
    for ThreadStores { thread, bytes } in stores(&*trace)?.threads {
        println!("thread {thread}: {bytes} bytes stored");
    }
    Ok(())
}
