//! `counts`: numbers of records of each kind, in total, for each thread or core, and for each window.
//!
//! Only records visible to tools are counted: repeated clock readings at the start of a chunk, entries that only name an
//! instruction, and the like are left out (docs/formats/drmemtrace.md, section *Reading*). Distinct instructions are
//! counted by address; in the total, an address that several threads execute counts once. If a thread's file has encodings,
//! each address has one at its first execution in a chunk: in that case, addresses with an encoding are counted.
//!
//! The pass reads raw entries, so that counting keeps up with inflating.
//!
//! If instructions were filtered during tracing, markers count those that were executed: `executed_instructions`, in total and
//! for each thread, is the difference between the last and the first marker, and is left out with fewer than two. MPKI of
//! simulators follows the same rule.

mod groups;
mod pcs;
mod report;
mod sums;
mod tally;

pub use report::{Counts, CountsReport, PartReport};

use crate::trace::{DrmemTrace, File};
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::pass::Needs;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Options, Order, Pass, Report, Result, Shard, ThreadId, Tool, ToolInfo, Trace,
};
use std::sync::Arc;
use sums::Counted;
use tally::Tally;

/// The tool, as registered in the list of tools.
pub static COUNTS: CountsTool = CountsTool;

/// The type of [`COUNTS`].
#[derive(Debug)]
pub struct CountsTool;

const PER_THREAD: OptionSpec = OptionSpec::new(
    "per-thread",
    Kind::Flag,
    "true",
    "each thread's counts are always printed; accepted for compatibility with other tools",
);

static COUNTS_INFO: ToolInfo = ToolInfo {
    name: "counts",
    summary: "numbers of records of each kind, in total and for each thread",
    needs: Needs { format: Some("drmemtrace"), required: Columns::RAW, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[PER_THREAD],
    in_report: true,
};

impl Tool for CountsTool {
    fn result(&self) -> Shape {
        CountsReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &COUNTS_INFO
    }

    fn build(&self, _: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let native = trace.as_any().and_then(|trace| trace.downcast_ref::<DrmemTrace>());
        // Chunks that are assigned to cores are not part of a file to compare.
        let files = native.map_or_else(Vec::new, |trace| trace.files().to_vec());
        Ok(Box::new(CountsPass { files: files.into(), ..CountsPass::default() }))
    }
}

/// The pass that counts records.
#[derive(Default)]
pub struct CountsPass {
    /// Counts of the shards that are done, in their order.
    done: Vec<ShardCounts>,
    /// The current shard; its tables are dropped as soon as it is done.
    at_work: Option<(ShardCounts, Tally)>,
    /// The trace's files, whose chunks state how many records there should be.
    files: Arc<[Arc<File>]>,
}

/// The counts of one shard, or of the part of it that one fork saw.
struct ShardCounts {
    id: u32,
    name: String,
    /// The number of the core, if the shard is one.
    core: Option<u64>,
    counted: Counted,
}

impl CountsPass {
    /// Ends the current shard: keeps its sums and drops the rest.
    fn settle(&mut self) {
        if let Some((shard, tally)) = self.at_work.take() {
            self.add(ShardCounts { counted: tally.finish(), ..shard });
        }
    }

    fn add(&mut self, shard: ShardCounts) {
        match self.done.last_mut() {
            Some(last) if last.id == shard.id => last.counted.append(shard.counted),
            _ => self.done.push(shard),
        }
    }
}

impl Pass for CountsPass {
    fn fork(&self, shard: &Shard) -> CountsPass {
        let file = self.files.get(shard.id.0 as usize).cloned();
        let tally = Tally::new(shard.thread.map_or(0, ThreadId::packed), shard.kind).comparing(file);
        let counts = ShardCounts {
            id: shard.id.0,
            name: shard.name.clone(),
            core: shard.core_number(),
            counted: Counted::default(),
        };
        CountsPass { done: Vec::new(), at_work: Some((counts, tally)), files: self.files.clone() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        if let Some((_, tally)) = &mut self.at_work {
            tally.enter(batch);
            // A read that begins in the middle has not seen the entry that names the thread.
            tally.note_thread(batch.span.thread.packed());
            tally.add(crate::record::Entry::slice(batch.raw()).0);
        }
        Ok(())
    }

    fn merge(&mut self, mut later: CountsPass) -> Result<()> {
        self.settle();
        later.settle();
        later.done.into_iter().for_each(|shard| self.add(shard));
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.settle();
        Ok(Box::new(report::CountsReport::new(self.done.into_iter())))
    }
}

#[cfg(test)]
mod tests;
