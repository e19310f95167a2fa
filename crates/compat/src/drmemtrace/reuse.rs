//! Prints the results of `reuse_distance` and `reuse_time`.

use super::counts::line;
use quipu::model::ThreadId;
use quipu::passes::reuse_distance::{Bin, Distances, LineReuse};
use quipu::passes::reuse_time::Times;
use quipu::passes::{OfShard, PerShard};
use std::cmp::Reverse;

/// How many rows of a distribution are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rows {
    Few,
    All,
}

/// Rows of times that are printed by default.
const FEW_TIMES: usize = 10;

pub(super) fn write_distances(report: &PerShard<Distances>, top: u64, rows: Rows, out: &mut Vec<u8>) {
    line(out, format_args!("Reuse distance tool aggregated results:"));
    distances(&report.total, top, rows, out);
    for shard in by_accesses(&report.shards, |distances| distances.accesses) {
        head("distance", shard, out);
        distances(&shard.result, top, rows, out);
    }
}

pub(super) fn write_times(report: &PerShard<Times>, rows: Rows, out: &mut Vec<u8>) {
    line(out, format_args!("Reuse time tool aggregated results:"));
    times(&report.total, rows, out);
    for shard in by_accesses(&report.shards, |times| times.accesses) {
        head("time", shard, out);
        times(&shard.result, rows, out);
    }
}

/// Shards by descending number of accesses; ties, whose order the launcher leaves open, are in the trace's order.
fn by_accesses<T>(shards: &[OfShard<T>], accesses: impl Fn(&T) -> u64) -> Vec<&OfShard<T>> {
    let mut sorted: Vec<&OfShard<T>> = shards.iter().collect();
    sorted.sort_by_key(|shard| Reverse(accesses(&shard.result)));
    sorted
}

fn head<T>(what: &str, shard: &OfShard<T>, out: &mut Vec<u8>) {
    let (kind, number) = match shard.core {
        Some(core) => ("core", core),
        None => ("thread", shard.thread.map_or(0, ThreadId::packed)),
    };
    line(out, format_args!("\n{:=<50}", ""));
    line(out, format_args!("Reuse {what} tool results for shard {} ({kind} {number}):", shard.shard));
}

fn distances(of: &Distances, top: u64, rows: Rows, out: &mut Vec<u8>) {
    line(out, format_args!("Total accesses: {}", of.accesses));
    if of.accesses == 0 {
        return;
    }
    line(out, format_args!("Instruction accesses: {}", of.instr_accesses));
    line(out, format_args!("Data accesses: {}", of.data_accesses));
    line(out, format_args!("Unique accesses: {}", of.moves));
    line(out, format_args!("Unique cache lines accessed: {}", of.lines));
    line(out, format_args!("Distance limit: {}", of.limit));
    line(out, format_args!("Pruned addresses: {}", of.pruned));
    line(out, format_args!("Pruned address hits: {}", of.pruned_hits));
    line(out, format_args!("\nReuse distance mean: {:.2}", of.mean.unwrap_or(0.0)));
    line(out, format_args!("Reuse distance median: {}", of.median.unwrap_or(0)));
    line(out, format_args!("Reuse distance standard deviation: {:.2}", of.deviation.unwrap_or(0.0)));
    match rows {
        Rows::Few => line(out, format_args!("(Pass -reuse_distance_histogram to see all the data.)")),
        Rows::All => histogram(of, out),
    }
    line(out, format_args!("\nReuse distance threshold = {} cache lines", of.threshold));
    line(out, format_args!("Top {top} frequently referenced cache lines"));
    lines(&of.referenced, out);
    line(out, format_args!("Top {top} distant repeatedly referenced cache lines"));
    lines(&of.distant, out);
}

/// QUIRK: on both sides, shares are of all reuses.
fn histogram(of: &Distances, out: &mut Vec<u8>) {
    line(out, format_args!("Reuse distance histogram bin multiplier: {:.2}", of.bins));
    line(out, format_args!("Reuse distance histogram:"));
    let has_ranges = of.bins > 1.0;
    let (indent, title) = if has_ranges { (33, "Distance [min-max] ") } else { (22, "Distance") };
    let sides = "All References       :            Data References";
    line(out, format_args!("{:indent$}{sides}", ""));
    let columns = "       Count  Percent  Cumulative  :       Count  Percent  Cumulative";
    line(out, format_args!("{title}{columns}"));
    let share = |count: u64| count as f64 / of.reuses as f64;
    // QUIRK: shares are added up, which rounds differently from the share of the sum if that ends in a half.
    let (mut all_so_far, mut data_so_far) = (0.0, 0.0);
    for Bin { min, max, count, data } in &of.histogram {
        let (all, data_share) = (share(*count), share(*data));
        all_so_far += all;
        data_so_far += data_share;
        let range = if has_ranges { format!("{min:8} - {max:8}") } else { format!("{min:8}") };
        line(
            out,
            format_args!(
                "{range}{count:12}{:8.2}%{:8.2}%     : {data:11}{:8.2}%{:8.2}%",
                100.0 * all,
                100.0 * all_so_far,
                100.0 * data_share,
                100.0 * data_so_far
            ),
        );
    }
}

fn lines(rows: &[LineReuse], out: &mut Vec<u8>) {
    line(out, format_args!("        cache line:     #references   #distant refs"));
    for row in rows {
        // QUIRK: the launcher prints zero without the prefix of hexadecimal numbers.
        let addr = if row.addr == 0 { "0".to_owned() } else { format!("{:#x}", row.addr) };
        line(out, format_args!("{addr:>18}: {:12}, {:12}", row.references, row.distant));
    }
}

fn times(of: &Times, rows: Rows, out: &mut Vec<u8>) {
    line(out, format_args!("Total accesses: {}", of.accesses));
    line(out, format_args!("Total instructions: {}", of.instructions));
    // QUIRK: DynamoRIO divides by zero.
    let mean = of.mean.map_or_else(|| "-nan".to_owned(), |mean| format!("{mean:.2}"));
    line(out, format_args!("Mean reuse time: {mean}"));
    line(out, format_args!("Reuse time histogram:"));
    line(out, format_args!("Distance       Count  Percent  Cumulative"));
    let shown = if rows == Rows::All { usize::MAX } else { FEW_TIMES };
    let mut so_far = 0.0;
    for bin in of.exact.iter().take(shown) {
        let share = bin.count as f64 / of.reuses as f64;
        so_far += share;
        let (own, all) = (100.0 * share, 100.0 * so_far);
        line(out, format_args!("{:8}{:12}{own:8.2}%{all:11.2}%", bin.min, bin.count));
    }
    if of.exact.len() > shown {
        line(out, format_args!("... (increase verbosity to see entire histogram)"));
    }
}
