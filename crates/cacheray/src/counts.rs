//! The tool `counts` for this format: numbers of records of each kind, in total and for each thread.

use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::{AccessKind, RegionEvent};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, Options, Order, Pass, Report, ReportBody, Result, Shard, ThreadId, Tool,
    ToolInfo, Trace,
};
use std::collections::BTreeMap;

/// The tool.
#[derive(Debug)]
pub struct CountsTool;

static INFO: ToolInfo = ToolInfo {
    name: "counts",
    summary: "numbers of records of each kind, in total and for each thread",
    needs: Needs {
        format: Some(crate::INFO.name),
        required: Columns::ACCESSES.or(Columns::REGIONS),
        optional: Columns::MARKS,
    },
    order: Order::Pieces,
    options: &[],
    // Reports begin with facts about the trace, and have the same numbers elsewhere.
    in_report: false,
};

impl Tool for CountsTool {
    fn result(&self) -> Shape {
        RecordCounts::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, _: &Options, _: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(CountsPass::default()))
    }
}

result! {
    /// Numbers of records of a trace with types.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RecordCounts {
        pub total: KindCounts => "The whole trace.";
        pub threads: Vec<ThreadCounts> => "Threads that have records, by their numbers.";
    }
}

result! {
    /// Numbers of records of one thread.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ThreadCounts {
        pub thread: ThreadId, flat, key => "The thread.";
        pub counts: KindCounts, flat => "Its records.";
    }
}

result! {
    /// Numbers of records by kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct KindCounts {
        pub records: u64 => "Records of all kinds.";
        pub loads: u64 => "Loads.";
        pub stores: u64 => "Stores.";
        pub bytes: u64 => "Bytes that loads and stores access, together.";
        pub marks: u64 => "Marks of the program, which are annotations of no memory.";
        pub regions_added: u64 => "Annotations that give memory a type.";
        pub regions_removed: u64 => "Annotations that end a region.";
    }
}

impl KindCounts {
    fn count(&mut self, batch: &Batch) {
        let accesses = &batch.accesses;
        let of = |kind| accesses.kind.iter().filter(|known| **known == kind).count() as u64;
        let (loads, stores) = (of(AccessKind::Read), of(AccessKind::Write));
        let of = |what| batch.regions.what.iter().filter(|known| **known == what).count() as u64;
        // A mark is a region, too, of no bytes.
        let marks = batch.marks.kind.len() as u64;
        let (added, removed) = (of(RegionEvent::Add).saturating_sub(marks), of(RegionEvent::Remove));
        self.add(&KindCounts {
            records: loads + stores + marks + added + removed,
            loads,
            stores,
            bytes: accesses.size.iter().map(|size| u64::from(*size)).sum(),
            marks,
            regions_added: added,
            regions_removed: removed,
        });
    }

    fn add(&mut self, other: &KindCounts) {
        let KindCounts { records, loads, stores, bytes, marks, regions_added, regions_removed } = other;
        self.records += records;
        self.loads += loads;
        self.stores += stores;
        self.bytes += bytes;
        self.marks += marks;
        self.regions_added += regions_added;
        self.regions_removed += regions_removed;
    }
}

/// The pass.
#[derive(Default)]
struct CountsPass {
    threads: BTreeMap<ThreadId, KindCounts>,
}

impl Pass for CountsPass {
    fn fork(&self, _: &Shard) -> CountsPass {
        CountsPass::default()
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        // A batch without records brings regions of records that are not read.
        if batch.span.records > 0 {
            self.threads.entry(batch.span.thread).or_default().count(batch);
        }
        Ok(())
    }

    fn merge(&mut self, later: CountsPass) -> Result<()> {
        for (thread, counts) in later.threads {
            self.threads.entry(thread).or_default().add(&counts);
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let mut total = KindCounts::default();
        self.threads.values().for_each(|counts| total.add(counts));
        let of = |(thread, counts)| ThreadCounts { thread, counts };
        Ok(Box::new(RecordCounts { total, threads: self.threads.into_iter().map(of).collect() }))
    }
}

/// Number of threads in a brief document.
const BRIEF_ROWS: usize = 8;

impl ReportBody for RecordCounts {
    fn document(&self, detail: Detail) -> Document {
        let n_rows = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
        let row = |name: String, counts: &KindCounts| {
            vec![
                Cell::Text(name),
                Cell::Count(counts.records),
                Cell::Count(counts.loads),
                Cell::Count(counts.stores),
                Cell::Bytes(counts.bytes),
                Cell::Count(counts.marks),
                Cell::Count(counts.regions_added),
                Cell::Count(counts.regions_removed),
            ]
        };
        let mut rows: Vec<Vec<Cell>> =
            self.threads.iter().take(n_rows).map(|of| row(of.thread.to_string(), &of.counts)).collect();
        if self.threads.len() != 1 {
            rows.push(row("total".to_owned(), &self.total));
        }
        let head =
            ["thread", "records", "loads", "stores", "accessed", "marks", "regions added", "regions removed"];
        Document::new("Counts").with(Block::Grid(Grid {
            title: String::new(),
            head: head.map(str::to_owned).into(),
            rows,
            more: self.threads.len().saturating_sub(n_rows) as u64,
        }))
    }
}
