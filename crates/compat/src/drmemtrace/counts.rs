//! Prints the results of `basic_counts`.

use quipu::drmemtrace::tools::counts::{Counts, CountsReport};
use quipu::engine::Part;
use quipu::model::ThreadId;
use std::collections::HashSet;
use std::io::Write as _;

/// Kind of block, which determines the word before each name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    Total,
    Shard,
    Window,
    Interval,
}

impl Block {
    fn word(self) -> &'static str {
        match self {
            Block::Total => " total",
            Block::Shard => "",
            Block::Window => " window",
            Block::Interval => " interval delta",
        }
    }
}

/// Optional lines of a block.
#[derive(Clone, Copy, Default)]
struct Lines {
    /// Whether user-space and kernel are counted separately.
    kernel: bool,
    /// Whether interrupts are counted.
    hardware: bool,
    threads: bool,
}

impl Lines {
    /// The lines for a whole trace. QUIRK: without a file type, DynamoRIO assumes that all of its bits are set.
    fn of(report: &CountsReport, is_typed: bool) -> Lines {
        let hardware = report.is_whole_system || !is_typed;
        Lines { kernel: report.has_kernel || hardware, hardware, threads: false }
    }

    fn with_threads(self, threads: bool) -> Lines {
        Lines { threads, ..self }
    }
}

pub(super) fn write(report: &CountsReport, is_typed: bool, out: &mut Vec<u8>) {
    let lines = Lines::of(report, is_typed);
    line(out, format_args!("Basic counts tool results:"));
    line(out, format_args!("Total counts:"));
    block(&report.total, Block::Total, lines.with_threads(true), out);
    windows(report, lines, out);
    for shard in report.files_by_instructions() {
        match (shard.thread, shard.core) {
            (_, Some(core)) => line(out, format_args!("Core {core} counts:")),
            (thread, None) => {
                line(out, format_args!("Thread {} counts:", thread.map_or(0, ThreadId::packed)))
            }
        }
        // QUIRK: with windows, a shard's own block is that of window 0 (docs/formats/drmemtrace.md).
        let counts = shard.first_block();
        let has_threads = shard.core.is_some() || counts.threads > 1;
        block(counts, Block::Shard, lines.with_threads(has_threads), out);
    }
}

/// Largest number of windows for which empty ones are printed. A larger window number is damage, and must not produce that
/// many lines.
const MAX_EMPTY_WINDOWS: u64 = 1 << 16;

/// QUIRK: each window has one block for every shard that has this window, and nothing shows which block is whose.
fn windows(report: &CountsReport, lines: Lines, out: &mut Vec<u8>) {
    let files = report.files();
    let n_windows = files.iter().map(|file| file.n_blocks()).max().unwrap_or(0);
    if n_windows <= 1 {
        return;
    }
    line(out, format_args!("Total windows: {n_windows}"));
    let mut numbers: Vec<u64> = (0..n_windows.min(MAX_EMPTY_WINDOWS)).collect();
    if n_windows > MAX_EMPTY_WINDOWS {
        let known = files.iter().flat_map(|file| file.windows.iter().map(|window| window.window));
        numbers.extend(known.filter(|number| (MAX_EMPTY_WINDOWS..n_windows).contains(number)));
        numbers.sort_unstable();
        numbers.dedup();
    }
    let none = Counts::default();
    for i in numbers {
        line(out, format_args!("Window #{i}:"));
        for shard in files.iter().filter(|file| file.n_blocks() > i) {
            let counts = if i == 0 { Some(shard.first_block()) } else { shard.window(i) };
            let has_threads = shard.core.is_some();
            block(counts.unwrap_or(&none), Block::Window, lines.with_threads(has_threads), out);
        }
    }
}

/// Prints the intervals of a thread or core, or of the whole trace.
pub(super) fn write_intervals(parts: &[&Part], reports: &[&CountsReport], is_whole: bool, out: &mut Vec<u8>) {
    match parts.first() {
        Some(Part { shard: Some(shard), thread, .. }) if !is_whole => {
            let thread = thread.map_or(u64::from(*shard), ThreadId::packed);
            line(out, format_args!("Counts per trace interval for TID {thread}:"));
        }
        _ => line(out, format_args!("Counts per trace interval for whole trace:")),
    }
    let mut known = HashSet::new();
    for (part, report) in parts.iter().zip(reports) {
        if let Some(at) = part.interval {
            line(out, format_args!("Interval #{} ending at timestamp {}:", at.number, at.end));
        }
        // QUIRK: the difference of two sets, so only threads that begin in this interval.
        let begun = report.tids.iter().filter(|tid| known.insert(**tid)).count() as u64;
        let counts = Counts { threads: begun, ..report.total.clone() };
        let is_by_core = report.shards.iter().any(|shard| shard.core.is_some());
        // QUIRK: intervals never distinguish user-space and kernel.
        block(&counts, Block::Interval, Lines::default().with_threads(begun > 1 || is_by_core), out);
    }
}

fn block(counts: &Counts, kind: Block, lines: Lines, out: &mut Vec<u8>) {
    let word = kind.word();
    let mut count = |n: u64, name: &str| line(out, format_args!("{n:12}{word} {name}"));
    count(counts.instructions, "(fetched) instructions");
    if kind != Block::Interval {
        count(counts.unique_instructions, "unique (fetched) instructions");
    }
    if lines.kernel {
        count(counts.userspace_instructions, "userspace instructions");
        count(counts.kernel_instructions, "kernel instructions");
    }
    count(counts.no_fetch_instructions, "non-fetched instructions");
    if lines.kernel {
        let userspace = counts.no_fetch_instructions.saturating_sub(counts.kernel_no_fetch_instructions);
        count(userspace, "non-fetched userspace instructions");
        count(counts.kernel_no_fetch_instructions, "non-fetched kernel instructions");
    }
    count(counts.prefetches, "prefetches");
    count(counts.loads, "data loads");
    count(counts.stores, "data stores");
    count(counts.instr_flushes, "icache flushes");
    count(counts.data_flushes, "dcache flushes");
    if lines.threads {
        count(counts.threads, "threads");
    }
    count(counts.timestamp_cpu_markers, "timestamp + cpuid markers");
    count(counts.idle_markers, "idle markers");
    count(counts.wait_markers, "wait markers");
    count(counts.kernel_transfer_markers, "kernel transfer markers");
    if lines.hardware {
        count(counts.hardware_transfer_markers, "hardware transfer markers");
    }
    count(counts.function_id_markers, "function id markers");
    count(counts.function_return_address_markers, "function return address markers");
    count(counts.function_argument_markers, "function argument markers");
    count(counts.function_return_value_markers, "function return value markers");
    count(counts.physical_address_pairs, "physical address + virtual address marker pairs");
    count(counts.physical_address_unavailable_markers, "physical address unavailable markers");
    count(counts.system_call_markers, "system call number markers");
    count(counts.blocking_system_call_markers, "blocking system call markers");
    count(counts.skipped_memref_markers, "skipped memref markers");
    count(counts.other_markers, "other markers");
    count(counts.encodings, "encodings");
}

/// Writing to memory cannot fail.
pub(super) fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}
