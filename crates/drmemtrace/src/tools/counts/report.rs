//! The result of `counts`.

use super::ShardCounts;
use super::sums::{Executed, Part, Sum, Sums};
use crate::record::FileType;
use quipu_model::ReportBody;
use quipu_model::ThreadId;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;
use quipu_model::result;
use rustc_hash::FxHashSet;

result! {
    /// Counts of visible records.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Counts {
        pub instructions: u64 => "Fetched instructions.";
        pub unique_instructions: u64 => "Distinct addresses of fetched instructions.";
        pub userspace_instructions: u64 => "Fetched instructions outside kernel regions.";
        pub kernel_instructions: u64 => "Fetched instructions inside kernel regions.";
        pub no_fetch_instructions: u64 => "Further iterations of string loops.";
        pub kernel_no_fetch_instructions: u64 => "Further iterations of string loops inside kernel regions.";
        pub prefetches: u64 => "Prefetches of any kind.";
        pub loads: u64 => "Loads.";
        pub stores: u64 => "Stores.";
        pub instr_flushes: u64 => "Flushes of instruction lines.";
        pub data_flushes: u64 => "Flushes of data lines.";
        pub threads: u64 => "Threads that have records.";
        pub timestamp_cpu_markers: u64 => "Clock readings and processor markers, together.";
        pub idle_markers: u64 => "Units of time in which a core had nothing to run.";
        pub wait_markers: u64 => "Units of time in which a core waited for another.";
        pub kernel_transfer_markers: u64 => "Signals and the like, and returns from them.";
        pub hardware_transfer_markers: u64 => "Interrupts, and returns from them.";
        pub function_id_markers: u64 => "Markers that name a traced function.";
        pub function_return_address_markers: u64 => "Return addresses of traced functions.";
        pub function_argument_markers: u64 => "Arguments of traced functions.";
        pub function_return_value_markers: u64 => "Results of traced functions.";
        pub physical_address_pairs: u64 => "Pairs of a physical and a virtual address.";
        pub physical_address_unavailable_markers: u64 => "Addresses without translation.";
        pub system_call_markers: u64 => "System calls.";
        pub blocking_system_call_markers: u64 => "System calls that may block.";
        pub skipped_memref_markers: u64 => "Accesses that the tracer could not place.";
        pub other_markers: u64 => "All other visible markers.";
        pub encodings: u64 => "Instructions whose encoding the trace gives right there.";
    }
}

impl Counts {
    fn new(sums: &Sums, threads: u64) -> Counts {
        let of = |sum: Sum| sums.sums[sum as usize];
        Counts {
            instructions: of(Sum::Instrs),
            unique_instructions: sums.pcs.len(),
            userspace_instructions: of(Sum::Instrs) - of(Sum::KernelInstrs),
            kernel_instructions: of(Sum::KernelInstrs),
            no_fetch_instructions: of(Sum::NoFetch),
            kernel_no_fetch_instructions: of(Sum::KernelNoFetch),
            prefetches: of(Sum::Prefetches),
            loads: of(Sum::Loads),
            stores: of(Sum::Stores),
            instr_flushes: of(Sum::InstrFlushes),
            data_flushes: of(Sum::DataFlushes),
            threads,
            timestamp_cpu_markers: of(Sum::Timestamps),
            idle_markers: of(Sum::Idles),
            wait_markers: of(Sum::Waits),
            kernel_transfer_markers: of(Sum::KernelTransfers),
            hardware_transfer_markers: of(Sum::HardwareTransfers),
            function_id_markers: of(Sum::FuncIds),
            function_return_address_markers: of(Sum::FuncRetaddrs),
            function_argument_markers: of(Sum::FuncArgs),
            function_return_value_markers: of(Sum::FuncRetvals),
            physical_address_pairs: of(Sum::PhysicalPairs),
            physical_address_unavailable_markers: of(Sum::PhysicalMissing),
            system_call_markers: of(Sum::Syscalls),
            blocking_system_call_markers: of(Sum::BlockingSyscalls),
            skipped_memref_markers: of(Sum::Skipped),
            other_markers: of(Sum::Others),
            encodings: of(Sum::Encodings),
        }
    }
}

result! {
    /// One thread or core.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PartReport {
        pub name: String => "Name of the file.";
        pub shard: u32, key => "Position of the shard in the trace.";
        pub thread: Option<ThreadId>, flat, key => "The thread, unless the file is a core's.";
        pub core: Option<u64>, perhaps, key =>
            "Number of the core, if the file is a core's; its position among the files if the number is not known.";
        pub executed_instructions: Option<u64>, perhaps =>
            "Instructions executed from the thread's first marker of kind 11 to its last, including those that a filter \
             left out of the trace; null with fewer than two such markers, and for cores, whose threads have separate \
             counts.";
        pub counts: Counts => "Counts of the thread or core.";
        pub windows: Vec<WindowReport>, perhaps => "Counts of each window; empty without windows.";
    }
}

impl PartReport {
    /// The number of entries in a list of windows by number: one more than the last window, whether or not the part ran in
    /// it. A part without windows has one entry for everything, and so has a part whose first window is not 0: that is a
    /// window which was split off.
    pub fn n_blocks(&self) -> u64 {
        match self.windows.first() {
            Some(WindowReport { window: 0, .. }) => {
                self.windows.iter().map(|window| window.window.saturating_add(1)).max().unwrap_or(1)
            }
            _ => 1,
        }
    }

    /// The counts of window 0, or of everything if there is only one.
    pub fn first_block(&self) -> &Counts {
        if self.n_blocks() > 1 { self.window(0).unwrap_or(&self.counts) } else { &self.counts }
    }

    /// The counts of the window with this number, if the part ran in it.
    pub fn window(&self, number: u64) -> Option<&Counts> {
        self.windows.iter().find(|window| window.window == number).map(|window| &window.counts)
    }
}

result! {
    /// One window of one thread or core.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WindowReport {
        pub window: u64, key => "Number of the window.";
        pub counts: Counts => "Counts of the window.";
    }
}

result! {
    /// The result of `counts`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CountsReport {
        pub total: Counts => "Counts of the whole trace.";
        pub executed_instructions: Option<u64>, perhaps =>
            "Instructions executed by all threads, including those that a filter left out; null unless each thread has \
             at least two markers that count them.";
        pub has_kernel: bool =>
            "Whether the trace has kernel code, or may have according to its file type.";
        pub is_whole_system: bool => "Whether the trace has interrupts, according to its file type.";
        pub shards: Vec<PartReport> => "Threads or cores, in the order of the trace.";
    } beside {
        pub is_filtered: bool =>
            "Whether instructions were filtered during tracing, according to the file type.";
        pub mixed: Vec<PartReport> =>
            "Files shared by several threads, each counted as a whole under its first thread.";
        pub tids: Vec<u64> => "Threads that have records, in no particular order.";
    }
}

impl CountsReport {
    /// Sums up the tallies of shards, given in their order.
    pub(super) fn new(shards: impl Iterator<Item = ShardCounts>) -> CountsReport {
        let mut total = Sums::default();
        let mut tids = FxHashSet::default();
        let mut filetype = FileType::default();
        let mut executed = Executed::default();
        let (mut parts, mut mixed) = (Vec::new(), Vec::new());
        for ShardCounts { id: shard, name, core, counted: tally } in shards {
            filetype = filetype.or(tally.filetype);
            let report = |part: &Part, sums: &Sums, threads: u64| PartReport {
                name: name.clone(),
                shard,
                thread: core.is_none().then(|| ThreadId::from_packed(part.tid)),
                core,
                executed_instructions: if core.is_none() { tally.executed.of(part.tid) } else { None },
                counts: Counts::new(sums, threads),
                windows: windows(part),
            };
            let n_threads = tally.tids.len() as u64;
            for part in &tally.parts {
                let sums = part_sums(part);
                total.merge(&sums);
                parts.push(report(part, &sums, if tally.parts.len() > 1 { 1 } else { n_threads }));
            }
            if let [first, others @ ..] = &tally.parts[..]
                && !others.is_empty()
            {
                let whole = joined(first, others);
                mixed.push(report(&whole, &part_sums(&whole), n_threads));
            }
            executed.merge(&tally.executed);
            tids.extend(tally.tids);
        }
        let total = Counts::new(&total, tids.len() as u64);
        CountsReport {
            is_filtered: filetype.is_ifiltered(),
            has_kernel: filetype.any(FileType::KERNEL_SYSCALLS.or(FileType::KERNEL_SYSCALL_INSTR_ONLY))
                || total.kernel_instructions > 0,
            is_whole_system: filetype.any(FileType::WHOLE_SYSTEM),
            total,
            executed_instructions: executed.of_all(&tids),
            shards: parts,
            mixed,
            tids: tids.into_iter().collect(),
        }
    }

    /// The threads or cores by decreasing count of instructions; ties are in the order of the trace.
    pub fn by_instructions(&self) -> Vec<&PartReport> {
        sorted(self.shards.iter().collect())
    }

    /// The same, but a file in which several threads take turns has one entry for all of them.
    pub fn files_by_instructions(&self) -> Vec<&PartReport> {
        sorted(self.files())
    }

    /// The files of the trace, in its order: each a thread or core, or several threads that take turns.
    pub fn files(&self) -> Vec<&PartReport> {
        let whole = |part: &PartReport| {
            let found = self.mixed.binary_search_by_key(&part.shard, |whole| whole.shard);
            found.ok().and_then(|at| self.mixed.get(at))
        };
        let mut files: Vec<&PartReport> =
            self.shards.iter().map(|part| whole(part).unwrap_or(part)).collect();
        files.dedup_by_key(|part| part.shard);
        files
    }
}

fn sorted(mut parts: Vec<&PartReport>) -> Vec<&PartReport> {
    // QUIRK: DynamoRIO sorts by the instructions of the first window.
    parts.sort_by_key(|part| std::cmp::Reverse(part.first_block().instructions));
    parts
}

/// Combines all threads of a file in which they take turns into one part, named after the first.
fn joined(first: &Part, others: &[Part]) -> Part {
    let mut whole = first.clone();
    for window in others.iter().flat_map(|part| &part.windows) {
        match whole.windows.iter_mut().find(|mine| mine.id == window.id) {
            Some(mine) => mine.sums.merge(&window.sums),
            None => whole.windows.push(window.clone()),
        }
    }
    whole.windows.sort_by_key(|window| window.id);
    whole
}

fn part_sums(part: &Part) -> Sums {
    let mut sums = Sums::default();
    for window in &part.windows {
        sums.merge(&window.sums);
    }
    sums
}

fn windows(part: &Part) -> Vec<WindowReport> {
    part.windows
        .iter()
        .filter_map(|window| {
            window.id.map(|id| WindowReport { window: id, counts: Counts::new(&window.sums, 1) })
        })
        .collect()
}

/// Number of threads shown when other results share the screen.
const BRIEF_ROWS: usize = 10;

impl ReportBody for CountsReport {
    fn document(&self, detail: Detail) -> Document {
        let n_rows = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
        let mut document = Document::new("Counts");
        let is_core = self.shards.iter().any(|part| part.core.is_some());
        let mut grid = Grid {
            head: [
                if is_core { "core" } else { "thread" },
                "instructions",
                "unique",
                "loads",
                "stores",
                "no-fetch",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..Grid::default()
        };
        grid.head.extend(["prefetches", "syscalls", "transfers", "encodings"].map(str::to_owned));
        let is_told = self.shards.iter().any(|part| part.executed_instructions.is_some());
        let is_filtered = self.is_filtered || is_told;
        // The count of a thread is known or unknown; that of a core is not shown.
        let executed_cell =
            |executed: Option<u64>| executed.map_or_else(|| Cell::Text("unknown".to_owned()), Cell::Count);
        if is_filtered {
            grid.head.insert(1, "executed".to_owned());
        }
        let row = |name: String, executed: Cell, counts: &Counts| {
            let mut cells = vec![Cell::Text(name)];
            cells.extend(is_filtered.then_some(executed));
            cells.extend(
                [
                    counts.instructions,
                    counts.unique_instructions,
                    counts.loads,
                    counts.stores,
                    counts.no_fetch_instructions,
                    counts.prefetches,
                    counts.system_call_markers,
                    counts.kernel_transfer_markers,
                    counts.encodings,
                ]
                .map(Cell::Count),
            );
            cells
        };
        for part in self.by_instructions().into_iter().take(n_rows) {
            let core = || part.core.unwrap_or_default().to_string();
            let name = part.thread.map_or_else(core, |thread| thread.to_string());
            let executed = match part.core {
                Some(_) => Cell::Empty,
                None => executed_cell(part.executed_instructions),
            };
            grid.rows.push(row(name, executed, &part.counts));
        }
        grid.more = self.shards.len().saturating_sub(n_rows) as u64;
        if self.shards.len() != 1 {
            grid.rows.push(row("total".to_owned(), executed_cell(self.executed_instructions), &self.total));
        }
        document.blocks.push(Block::Grid(grid));
        if detail == Detail::Full {
            let label = "executed instructions, before filtering".to_owned();
            let executed = is_filtered.then(|| (label, vec![executed_cell(self.executed_instructions)]));
            document.blocks.push(Block::Facts(executed.into_iter().chain(full(&self.total)).collect()));
        }
        document
    }
}

/// Every nonzero count, with its name.
fn full(counts: &Counts) -> Vec<(String, Vec<Cell>)> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(counts) else { return Vec::new() };
    fields
        .into_iter()
        .filter_map(|(name, value)| value.as_u64().map(|n| (name, n)))
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| (name.replace('_', " "), vec![Cell::Count(n)]))
        .collect()
}
