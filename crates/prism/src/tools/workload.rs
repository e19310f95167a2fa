//! `workload`: work of threads and functions, communication between threads, and the critical path.
//!
//! Work consists of computations, loads and stores. A byte is communicated when a thread reads it that another thread wrote
//! last. The critical path is the longest chain of work in which each part had to wait for the one before it, at creations and
//! joins of threads, locks, barriers and conditions: more processors cannot make the run shorter.
//!
//! If other analyses run beside it, events are read twice: the others share lenses, which lack computations and the mutexes of
//! waits, so this tool reads the table `events` separately at the end. This costs decoding time, but no memory.
//!
//! * **Needs** workload events.
//! * **Options** `top` (functions listed, those with the most work; default 20; JSON has all).

use crate::batch::At;
use crate::event::{Compute, Context, Kind, Memory, Name, Place, Sync, context};
use crate::fault::said;
use crate::hooks::Hooks;
use crate::table;
use crate::workload::{Work, Workload};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Figure, Grid, HeatBand, HeatMap, HeatRow};
use quipu_model::options::{Kind as OptionKind, OptionSpec, Options};
use quipu_model::pass::{Detail, Needs};
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Error, Order, Pass, Reader, Report, Result, Scan, Shard, Tool, ToolInfo, Trace,
};
use std::sync::{Arc, Mutex};

/// The tool `workload`.
#[derive(Debug)]
pub struct OfWorkload;

const TOP: OptionSpec = OptionSpec::new("top", OptionKind::Count, "20", "number of functions to list");

static INFO: ToolInfo = ToolInfo {
    name: "workload",
    summary: "work of threads and functions, communication between threads, and the critical path",
    needs: Needs { format: Some("prism"), required: Columns::NONE, optional: Columns::NONE },
    order: Order::Shards,
    options: &[TOP],
    in_report: true,
};

impl Tool for OfWorkload {
    fn result(&self) -> Shape {
        WorkloadReport::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        // Lenses have no computations, so the events are read a second time, as rows.
        let reader = match trace.shards() {
            [shard] => trace.scan(&Scan { batch_records: 4096, tables: vec![0], ..Scan::new(shard.id) })?,
            _ => return Err(Error::unsupported("threads in streams of their own have no order here")),
        };
        Ok(Box::new(Working { top: options.length(&TOP), reader: Arc::new(Mutex::new(Some(reader))) }))
    }

    fn wants_whole_traces(&self) -> bool {
        true
    }

    fn reads_again(&self) -> bool {
        true
    }
}

result! {
    /// The work of threads and functions.
    #[derive(Clone, Debug, PartialEq)]
    pub struct WorkloadReport {
        pub work: u64 => "Computations, loads and stores of all threads.";
        pub critical_path: u64 => "Computations, loads and stores on the critical path.";
        pub threads: Vec<ThreadWork> => "Threads, by number.";
        pub communication: Vec<Communication> => "Bytes communicated between threads.";
        pub functions: Vec<FunctionWork> => "Functions, by work, most first.";
        pub unplaced: u64 =>
            "Accesses without address or size, or outside the shadow memory: not counted as communication.";
        pub unknown_joins: u64 => "Joins of threads whose creation is not in the trace: not counted as waits.";
    } beside {
        top: usize => "Number of functions to show.";
    }
}

result! {
    /// One thread.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ThreadWork {
        pub thread: u64, key => "Number of the thread; 0 before the first swap.";
        pub integer: u64 => "Computations on integers.";
        pub float: u64 => "Computations on floating-point numbers.";
        pub other: u64 => "Computations of unknown format.";
        pub loads: u64 => "Loads.";
        pub stores: u64 => "Stores.";
        pub bytes_loaded: u64 => "Bytes loaded.";
        pub bytes_stored: u64 => "Bytes stored.";
        pub synchronizations: u64 => "Calls of thread libraries.";
        pub on_critical_path: u64 => "Work of the thread on the critical path.";
    }
}

result! {
    /// Bytes that a thread read and another one wrote.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Communication {
        pub from: u64, key => "Thread that wrote.";
        pub to: u64, key => "Thread that read.";
        pub bytes: u64 => "Bytes read; a byte counts each time it is read.";
    }
}

result! {
    /// One function.
    #[derive(Clone, Debug, PartialEq)]
    pub struct FunctionWork {
        pub function: String, key => "Name of the function; empty for work outside all functions.";
        pub calls: u64 => "Number of entries.";
        pub integer: u64 => "Computations on integers, without those of callees.";
        pub float: u64 => "Computations on floating-point numbers.";
        pub other: u64 => "Computations of unknown format.";
        pub loads: u64 => "Loads.";
        pub stores: u64 => "Stores.";
        pub bytes_loaded: u64 => "Bytes loaded.";
        pub bytes_stored: u64 => "Bytes stored.";
    }
}

/// The pass: at the end, it passes the rows of all events to hooks.
#[derive(Clone)]
struct Working {
    top: usize,
    reader: Arc<Mutex<Option<Box<dyn Reader>>>>,
}

/// Passes a row to the hooks, if they use events of its kind.
fn give(rows: &table::Events, row: usize, workload: &mut Workload) -> crate::fault::Result<()> {
    let kind = rows.kind[row];
    let own = (kind & 0xff) as u8; // The lower byte.
    let at = At { thread: Some(rows.thread[row]), ordinal: rows.record[row], clock: None };
    let value =
        |column: &quipu_model::column::Maybe<Vec<u64>>| column.valid.get(row).then(|| column.values[row]);
    match Kind::of((kind >> 8) as u8) {
        Some(Kind::Memory) => {
            let size = rows.size.valid.get(row).then(|| rows.size.values[row]);
            let access = (own != 0).then_some(own);
            workload.on_memory(at, &Memory { access, size, address: value(&rows.addr), id: None })
        }
        Some(Kind::Compute) => {
            let format = (own != 0).then_some(own);
            workload.on_compute(at, &Compute { format, ..Compute::default() })
        }
        Some(Kind::Sync) => {
            let data = value(&rows.value).unwrap_or(0);
            workload.on_sync(at, &Sync { kind: own, data, second: value(&rows.second) })
        }
        Some(Kind::Context) if own == context::ENTER || own == context::EXIT => {
            let name = rows.name.get(row).unwrap_or_default();
            let place = Place::Name(Name { start: 0, len: name.len() as u32 }); // At most 4096 bytes.
            workload.on_context(at, &Context { kind: own, place }, name)
        }
        _ => Ok(()),
    }
}

impl Pass for Working {
    fn fork(&self, _: &Shard) -> Working {
        self.clone()
    }

    fn consume(&mut self, _: &Batch) -> Result<()> {
        Ok(())
    }

    fn merge(&mut self, _: Working) -> Result<()> {
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let mut workload = Workload::default();
        let reader = self.reader.lock().map_or(None, |mut reader| reader.take());
        if let Some(mut reader) = reader {
            // The first reader reports damage of the events.
            while let Ok(Some(batch)) = reader.read() {
                for rows in batch.tables.iter().filter_map(|table| table.get::<table::Events>()) {
                    for row in 0..rows.kind.len() {
                        give(rows, row, &mut workload).map_err(said)?;
                    }
                }
            }
        }
        Ok(Box::new(report(&workload, self.top)))
    }
}

/// Makes the result.
fn report(workload: &Workload, top: usize) -> WorkloadReport {
    let shares = workload.path().shares();
    let threads = workload.threads().iter().filter(|(_, thread)| thread.work.total() + thread.syncs > 0);
    let threads = threads.map(|(number, thread)| {
        let Work { iops, flops, other, loads, stores, bytes_loaded, bytes_stored } = thread.work;
        ThreadWork {
            thread: *number,
            integer: iops,
            float: flops,
            other,
            loads,
            stores,
            bytes_loaded,
            bytes_stored,
            synchronizations: thread.syncs,
            on_critical_path: shares.get(number).copied().unwrap_or(0),
        }
    });
    let mut functions: Vec<_> =
        workload.functions().iter().filter(|function| function.calls + function.work.total() > 0).collect();
    functions.sort_by(|a, b| b.work.total().cmp(&a.work.total()).then_with(|| a.name.cmp(&b.name)));
    let functions = functions.into_iter().map(|function| {
        let Work { iops, flops, other, loads, stores, bytes_loaded, bytes_stored } = function.work;
        FunctionWork {
            function: String::from_utf8_lossy(&function.name).into_owned(),
            calls: function.calls,
            integer: iops,
            float: flops,
            other,
            loads,
            stores,
            bytes_loaded,
            bytes_stored,
        }
    });
    let edges = workload.communication().into_iter();
    WorkloadReport {
        top,
        work: workload.threads().values().map(|thread| thread.work.total()).sum(),
        critical_path: workload.path().length(),
        threads: threads.collect(),
        communication: edges.map(|((from, to), bytes)| Communication { from, to, bytes }).collect(),
        functions: functions.collect(),
        unplaced: workload.unplaced(),
        unknown_joins: workload.path().unknown_joins(),
    }
}

/// Maximum number of threads in the matrix as a picture: those that communicate most.
const MATRIX_THREADS: usize = 64;
/// The same for the matrix as a table.
const BRIEF_THREADS: usize = 8;

fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::Empty } else { Cell::Share(part as f64 / whole as f64) } // A share needs no more digits.
}

impl WorkloadReport {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        let mut figure = |label: &str, value, note: String| {
            figures.push(Figure { label: label.to_owned(), value, note });
        };
        figure("work", Cell::Count(self.work), "computations, loads and stores".to_owned());
        if self.critical_path > 0 {
            // Precise enough for quotients.
            let (path, work) = (self.critical_path as f64, self.work as f64);
            let share = format!("{:.1} % of the work", path / work.max(1.0) * 100.0);
            figure("critical path", Cell::Count(self.critical_path), share);
            figure("at most faster with more processors", Cell::Real(work / path, 2), "times".to_owned());
        }
        let communicated: u64 = self.communication.iter().map(|edge| edge.bytes).sum();
        if communicated > 0 {
            figure("communicated", Cell::Bytes(communicated), "from thread to thread".to_owned());
        }
        let synchronizations: u64 = self.threads.iter().map(|thread| thread.synchronizations).sum();
        if synchronizations > 0 {
            figure("synchronizations", Cell::Count(synchronizations), String::new());
        }
        figures
    }

    fn threads(&self, detail: Detail) -> Grid {
        let most = if detail == Detail::Brief { 10 } else { usize::MAX };
        let head = [
            "thread",
            "integer",
            "float",
            "loads",
            "stores",
            "loaded",
            "stored",
            "synchronizations",
            "on critical path",
            "share of path",
        ];
        let row = |thread: &ThreadWork| {
            vec![
                Cell::Text(thread.thread.to_string()),
                Cell::Count(thread.integer),
                Cell::Count(thread.float),
                Cell::Count(thread.loads),
                Cell::Count(thread.stores),
                Cell::Bytes(thread.bytes_loaded),
                Cell::Bytes(thread.bytes_stored),
                Cell::Count(thread.synchronizations),
                Cell::Count(thread.on_critical_path),
                share(thread.on_critical_path, self.critical_path),
            ]
        };
        Grid {
            title: "threads".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: self.threads.iter().take(most).map(row).collect(),
            more: self.threads.len().saturating_sub(most) as u64,
        }
    }

    fn functions(&self, detail: Detail) -> Grid {
        let shown = if detail == Detail::Brief { self.top.min(5) } else { self.top };
        let head =
            ["function", "calls", "integer", "float", "loads", "stores", "loaded", "stored", "share of work"];
        let row = |function: &FunctionWork| {
            let FunctionWork { calls, integer, float, other, loads, stores, .. } = *function;
            let name = if function.function.is_empty() { "outside of functions" } else { &function.function };
            vec![
                Cell::Text(name.to_owned()),
                Cell::Count(calls),
                Cell::Count(integer),
                Cell::Count(float),
                Cell::Count(loads),
                Cell::Count(stores),
                Cell::Bytes(function.bytes_loaded),
                Cell::Bytes(function.bytes_stored),
                share(integer + float + other + loads + stores, self.work),
            ]
        };
        Grid {
            title: "functions".to_owned(),
            head: head.map(str::to_owned).to_vec(),
            rows: self.functions.iter().take(shown).map(row).collect(),
            more: self.functions.len().saturating_sub(shown) as u64,
        }
    }

    /// The threads of the matrix: those that communicate most, sorted by number.
    fn talking(&self, most: usize) -> Vec<u64> {
        let mut bytes = std::collections::BTreeMap::<u64, u64>::new();
        for edge in &self.communication {
            *bytes.entry(edge.from).or_insert(0) += edge.bytes;
            *bytes.entry(edge.to).or_insert(0) += edge.bytes;
        }
        let mut threads: Vec<(u64, u64)> = bytes.into_iter().collect();
        threads.sort_by_key(|(thread, bytes)| (std::cmp::Reverse(*bytes), *thread));
        let mut threads: Vec<u64> = threads.into_iter().take(most).map(|(thread, _)| thread).collect();
        threads.sort_unstable();
        threads
    }

    fn bytes(&self, from: u64, to: u64) -> u64 {
        let is_it = |edge: &&Communication| (edge.from, edge.to) == (from, to);
        self.communication.iter().find(is_it).map_or(0, |edge| edge.bytes)
    }

    /// The matrix as a table: a row for each writing thread, a column for each reading thread.
    fn matrix(&self) -> Grid {
        let threads = self.talking(BRIEF_THREADS);
        let head = std::iter::once("from \\ to".to_owned()).chain(threads.iter().map(u64::to_string));
        let row = |from: &u64| {
            let cells = threads.iter().map(|to| match self.bytes(*from, *to) {
                0 => Cell::Empty,
                bytes => Cell::Bytes(bytes),
            });
            std::iter::once(Cell::Text(from.to_string())).chain(cells).collect()
        };
        Grid {
            title: "bytes from thread to thread".to_owned(),
            head: head.collect(),
            rows: threads.iter().map(row).collect(),
            more: 0,
        }
    }

    /// The matrix as a picture.
    fn picture(&self) -> HeatMap {
        let threads = self.talking(MATRIX_THREADS);
        let row = |from: &u64| HeatRow {
            name: format!("from {from}"),
            hue: 0,
            cells: threads.iter().map(|to| self.bytes(*from, *to)).collect(),
        };
        let name = |thread: Option<&u64>| thread.map_or_else(String::new, |thread| format!("to {thread}"));
        HeatMap {
            title: "bytes from thread (rows) to thread (columns)".to_owned(),
            unit: "bytes".to_owned(),
            axis: "thread that read, a column each".to_owned(),
            ends: (name(threads.first()), name(threads.last())),
            hues: vec!["communication".to_owned()],
            bands: vec![HeatBand {
                name: "thread that wrote".to_owned(),
                note: String::new(),
                rows: threads.iter().map(row).collect(),
            }],
        }
    }
}

impl ReportBody for WorkloadReport {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Workload");
        if self.threads.is_empty() {
            return document;
        }
        document.blocks.push(Block::Figures(self.figures()));
        document.blocks.push(Block::Grid(self.threads(detail)));
        if !self.communication.is_empty() {
            document.blocks.push(Block::Grid(self.matrix()));
            if detail == Detail::Full {
                document.blocks.push(Block::HeatMap(self.picture()));
            }
        }
        if self.functions.iter().any(|function| !function.function.is_empty()) {
            document.blocks.push(Block::Grid(self.functions(detail)));
        }
        for (count, what) in [
            (
                self.unplaced,
                "accesses have no address or size, or go beyond the memory that is remembered: they communicate nothing",
            ),
            (
                self.unknown_joins,
                "joins are of threads whose creation is not in the trace: they wait for nothing",
            ),
        ] {
            if count > 0 {
                document.blocks.push(Block::Note(format!("{count} {what}.")));
            }
        }
        document
    }
}
