//! `counts`: how many records of each sort a trace has, in all, for each thread or core, and for each window.
//!
//! What is counted is what tools see: repeated clock readings behind a chunk's seam, entries that only name an
//! instruction, and the like are left out (docs/formats/drmemtrace.md, section *Reading*). Distinct instructions are
//! counted by address; in the total, an address that several threads execute counts once. A thread's file that gives
//! encodings gives one at each address's first execution in a chunk: there, the addresses given one are counted.
//!
//! The pass reads raw entries, so that counting keeps up with inflating: see [`tally`].
//!
//! JSON: `total`, and in `shards` one object for each thread or core with `name`, `thread` or `core`, `counts`, and
//! `windows` where the trace has tracing windows. Each set of counts has the fields of [`Counts`].

mod pcs;
mod report;
mod tally;

pub use report::{Counts, CountsReport, PartReport};

use quipu_model::pass::Needs;
use quipu_model::{
    Args, Batch, Columns, DynPass, Order, Pass, Report, Result, Shard, ShardKind, Tool, ToolInfo, Trace,
};
use tally::Tally;

/// The tool, as lists name it.
pub static COUNTS: CountsTool = CountsTool;

/// The type of [`COUNTS`].
#[derive(Debug)]
pub struct CountsTool;

static COUNTS_INFO: ToolInfo = ToolInfo {
    name: "counts",
    summary: "records of each sort, in all and for each thread",
    needs: Needs { format: Some("drmemtrace"), required: Columns::RAW, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[],
    in_report: true,
};

impl Tool for CountsTool {
    fn info(&self) -> &'static ToolInfo {
        &COUNTS_INFO
    }

    fn build(&self, _: &Args, _: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(CountsPass::default()))
    }
}

/// Counts at work: what each shard seen so far amounts to, in their order.
#[derive(Default)]
pub struct CountsPass {
    shards: Vec<ShardTally>,
}

/// One shard, or the part of it that one fork saw.
struct ShardTally {
    id: u32,
    name: String,
    kind: ShardKind,
    tally: Tally,
}

impl Pass for CountsPass {
    fn fork(&self, shard: &Shard) -> CountsPass {
        let tally = Tally::new(shard.thread.unwrap_or(0), shard.kind);
        CountsPass {
            shards: vec![ShardTally { id: shard.id.0, name: shard.name.clone(), kind: shard.kind, tally }],
        }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        if let Some(shard) = self.shards.last_mut() {
            shard.tally.add(crate::record::Entry::slice(batch.raw()).0);
        }
        Ok(())
    }

    fn merge(&mut self, later: CountsPass) -> Result<()> {
        for shard in later.shards {
            match self.shards.last_mut() {
                Some(last) if last.id == shard.id => last.tally.append(shard.tally),
                _ => self.shards.push(shard),
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(report::CountsReport::new(
            self.shards.into_iter().map(|shard| (shard.id, shard.name, shard.kind, shard.tally)),
        )))
    }
}

#[cfg(test)]
mod tests;
