//! Analyses that must read a shard from its beginning: one state for each shard, which is summed up at the shard's end.
//!
//! Such a state (an LRU stack, the time of each line's last use) cannot be merged with the state of the records after it.
//! Only its result can: each shard's own answer, and a total of all shards.

use crate::filtered::Filtered;
use crate::keyed::Keyed;
use crate::split::{Answer, PER_THREAD, noted};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::Fields;
use quipu_model::{Batch, OptionSpec, Options, Pass, Report, Result, Shard, ShardKind, ThreadId, Trace};

/// The option that separates threads that share a shard.
pub(crate) const BY_THREAD: OptionSpec =
    PER_THREAD.doc("separate threads that share a file; threads with their own files are always separate");

/// The options of an analysis, with the functions that create, feed and close its states.
pub(crate) trait Sharded: Clone + Send + 'static {
    /// The state for one shard.
    type Open: Send + 'static;
    /// The sum of all finished shards.
    type Total: Default + Send + 'static;
    type Answer: Answer + Row;

    fn open(&self) -> Self::Open;
    fn consume(&self, open: &mut Self::Open, batch: &Batch) -> Result<()>;
    /// The answer of one shard, which is also added to the total.
    fn close(&self, open: Self::Open, total: &mut Self::Total) -> Self::Answer;
    fn merge(&self, total: &mut Self::Total, later: Self::Total);
    fn answer(&self, total: Self::Total) -> Self::Answer;
}

/// The result of one shard as a row of a grid.
pub trait Row {
    /// Heads of the columns.
    fn heads() -> Vec<&'static str>;
    /// The values.
    fn row(&self) -> Vec<Cell>;
}

result! {
    /// A result for the whole trace and, if it has several, for each shard.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PerShard<T: Answer> {
        pub total: T, flat => "The whole trace.";
        pub shards: Vec<OfShard<T>>, perhaps =>
            "Shards, in the trace's order; empty if there is only one.";
    } beside {
        pub filtered: Filtered => "Parts of the trace that a filter thinned out.";
    }
}

result! {
    /// The result for one shard.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OfShard<T: Fields> {
        pub shard: u32, key => "The shard's number.";
        pub thread: Option<ThreadId>, flat, key => "The thread, if the shard is one.";
        pub core: Option<u64>, perhaps, key =>
            "Number of the core, if the shard is one; the shard's number if the trace does not have it.";
        pub result: T, flat => "Result for the shard.";
    }
}

impl<T: Answer + Row> ReportBody for PerShard<T> {
    fn document(&self, detail: Detail) -> Document {
        let mut document = noted(self.total.document(detail, self.filtered), detail, self.filtered);
        if detail == Detail::Full && !self.shards.is_empty() {
            document.blocks.push(Block::Grid(self.grid()));
        }
        document
    }
}

impl<T: Row> PerShard<T> {
    fn grid(&self) -> Grid {
        let is_core = self.shards.iter().all(|of| of.core.is_some());
        let row = |of: &OfShard<T>| {
            let number = || of.core.unwrap_or(u64::from(of.shard)).to_string();
            let mut cells = vec![Cell::Text(of.thread.map_or_else(number, |thread| thread.to_string()))];
            cells.extend(of.result.row());
            cells
        };
        let first = if is_core { "core" } else { "thread" };
        let head = std::iter::once(first).chain(T::heads());
        Grid {
            title: format!("{first}s"),
            head: head.map(str::to_owned).collect(),
            rows: self.shards.iter().map(row).collect(),
            more: 0,
        }
    }
}

/// The subject of a state: a shard, or one thread of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    shard: u32,
    thread: Option<ThreadId>,
}

impl Member {
    /// The subject of a batch's state, in a shard of this kind.
    pub(crate) fn of(batch: &Batch, kind: ShardKind, by_thread: bool) -> Member {
        let is_thread = by_thread || kind == ShardKind::Thread;
        Member { shard: batch.span.shard, thread: is_thread.then_some(batch.span.thread) }
    }
}

/// The pass of a [`Sharded`].
pub(crate) struct Shards<S: Sharded> {
    setup: S,
    by_thread: bool,
    /// The kind of this fork's shard.
    kind: ShardKind,
    core: Option<u64>,
    open: Keyed<Member, S::Open>,
    total: S::Total,
    closed: Vec<OfShard<S::Answer>>,
    filtered: Filtered,
}

impl<S: Sharded> Shards<S> {
    pub(crate) fn new(setup: S, options: &Options, trace: &dyn Trace) -> Shards<S> {
        Shards {
            setup,
            by_thread: options.flag(&BY_THREAD),
            kind: ShardKind::Thread,
            core: None,
            open: Keyed::default(),
            total: S::Total::default(),
            closed: Vec::new(),
            filtered: Filtered::of(trace.meta()),
        }
    }

    fn close(&mut self) {
        for (Member { shard, thread }, open) in std::mem::take(&mut self.open).into_items() {
            let result = self.setup.close(open, &mut self.total);
            let core = self.core.filter(|_| !self.by_thread);
            self.closed.push(OfShard { shard, thread, core, result });
        }
    }
}

impl<S: Sharded> Pass for Shards<S> {
    fn fork(&self, shard: &Shard) -> Shards<S> {
        Shards {
            setup: self.setup.clone(),
            by_thread: self.by_thread,
            kind: shard.kind,
            core: shard.core_number(),
            open: Keyed::default(),
            total: S::Total::default(),
            closed: Vec::new(),
            filtered: self.filtered,
        }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let member = Member::of(batch, self.kind, self.by_thread);
        self.setup.consume(self.open.entry(member, || self.setup.open()), batch)
    }

    fn merge(&mut self, mut later: Shards<S>) -> Result<()> {
        self.close();
        later.close();
        self.setup.merge(&mut self.total, later.total);
        self.closed.append(&mut later.closed);
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.close();
        let total = self.setup.answer(self.total);
        let shards = if self.closed.len() > 1 { self.closed } else { Vec::new() };
        Ok(Box::new(PerShard { total, shards, filtered: self.filtered }))
    }
}
