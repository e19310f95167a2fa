//! Prints the results of intervals, which follow all other results.
//!
//! Of the launcher's tools, only `basic_counts` and `opcode_mix` report intervals; for all others, only separator lines are
//! printed.

use super::args::Request;
use super::counts::{self, line};
use super::{Results, SEPARATOR, Tool};
use quipu::drmemtrace::tools::counts::CountsReport;
use quipu::engine::{Division, Part};
use quipu::model::{Error, Result, Trace};
use quipu::passes::PerThread;
use quipu::passes::categories::CategorySets;
use quipu::passes::opcodes::OpcodeMix;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Operations, and sets of categories, listed for each interval.
const N_LISTED: usize = 3;

/// The intervals that the request asks for.
///
/// # Errors
/// `Unsupported` for intervals by instructions of interleaved threads, which are not counted here.
pub(super) fn division(request: &Request, trace: &dyn Trace) -> Result<Division> {
    let intervals = match (request.interval_us, request.interval_instrs) {
        (0, 0) => return Ok(Division::default()),
        (0, n) => {
            if request.is_interleaved() && trace.shards().len() > 1 {
                return Err(Error::unsupported(
                    "intervals of instructions of several threads at once are not available",
                )
                .hint("without -jobs 0 and tools that want threads interleaved, each thread has its own"));
            }
            quipu_console::parts::instr_intervals(n, trace)?
        }
        (us, _) => quipu_console::parts::time_intervals(us, trace)?,
    };
    Ok(Division { intervals: Some(intervals), per_core: false })
}

/// Prints the intervals of all tools: of the whole trace if they are by time or if threads are interleaved, otherwise of
/// each thread.
pub(super) fn write(request: &Request, results: &Results, out: &mut Vec<u8>) -> Result<()> {
    let is_whole = request.interval_us > 0 || request.is_interleaved();
    out.extend_from_slice(SEPARATOR.as_bytes());
    let kind = if is_whole { "whole-trace" } else { "unmerged per-shard" };
    line(out, format_args!("Printing {kind} interval results:"));
    for (i, tool) in request.tools.iter().enumerate() {
        // Reports of the same place are adjacent, so that each tool can pick those that it knows.
        let positions: Vec<usize> = (0..results.parts.len()).collect();
        let same_shard = |a: &usize, b: &usize| results.parts[*a].shard == results.parts[*b].shard;
        for of_shard in positions.chunk_by(same_shard) {
            let parts: Vec<&Part> = of_shard.iter().map(|at| &results.parts[*at]).collect();
            match tool {
                Tool::BasicCounts => {
                    let reports = results.of_parts::<CountsReport>("counts", &parts)?;
                    counts::write_intervals(&parts, &reports, is_whole, out);
                }
                Tool::OpcodeMix => {
                    let opcodes = results.of_parts::<PerThread<OpcodeMix>>("opcodes", &parts)?;
                    let categories = results.of_parts::<PerThread<CategorySets>>("categories", &parts)?;
                    let mixes = opcodes.iter().zip(&categories);
                    let mixes = mixes.map(|(opcodes, categories)| (&opcodes.total, &categories.total));
                    write_mixes(&parts, mixes, request.skip_instrs, out);
                }
                _ => {}
            }
            if !is_whole {
                out.extend_from_slice(SEPARATOR.as_bytes());
            }
        }
        if is_whole && i + 1 < request.tools.len() {
            out.extend_from_slice(SEPARATOR.as_bytes());
        }
    }
    Ok(())
}

/// QUIRK: an interval "has" all operations up to its end, so that those that it did not execute may be listed with a count
/// of 0. The launcher also prints numbers of operations, but they are those of its own decoder and are left out.
fn write_mixes<'r>(
    parts: &[&Part],
    mixes: impl Iterator<Item = (&'r OpcodeMix, &'r CategorySets)>,
    instrs_before: u64,
    out: &mut Vec<u8>,
) {
    line(out, format_args!("There were {} intervals created.", parts.len()));
    let (mut so_far, mut opcodes, mut sets) = (instrs_before, Seen::default(), Seen::default());
    for (part, (mix, categories)) in parts.iter().zip(mixes) {
        so_far += part.instrs;
        let number = part.interval.map_or(0, |at| at.number);
        let undecoded = (mix.undecoded > 0).then(|| ("<undecoded>".to_owned(), mix.undecoded));
        let named = mix.opcodes.iter().map(|opcode| (opcode.opcode.clone(), opcode.count));
        opcodes.next(undecoded.into_iter().chain(named));
        sets.next(categories.sets.iter().map(|set| (set.categories.to_string(), set.count)));
        let (n_opcodes, n_sets) = (opcodes.0.len(), sets.0.len());
        line(
            out,
            format_args!(
                "ID:{number} ending at instruction {so_far} has {n_opcodes} opcodes and {n_sets} categories."
            ),
        );
        let per_thousand = |count: u64| general(count as f64 * 1000.0 / part.instrs as f64);
        for (i, (name, count)) in opcodes.top().enumerate() {
            let (rank, pki) = (i + 1, per_thousand(count));
            line(out, format_args!("   [{rank}] Opcode: {name} () Count={count} PKI={pki}"));
        }
        for (i, (name, count)) in sets.top().enumerate() {
            let (rank, pki) = (i + 1, per_thousand(count));
            line(out, format_args!("   [{rank}] Category={name} Count={count} PKI={pki}"));
        }
    }
}

/// All operations or sets so far, with their counts in this interval.
#[derive(Default)]
struct Seen(BTreeMap<String, u64>);

impl Seen {
    fn next(&mut self, counts: impl Iterator<Item = (String, u64)>) {
        self.0.values_mut().for_each(|count| *count = 0);
        self.0.extend(counts);
    }

    /// The most frequent ones; ties, whose order the launcher leaves open, are sorted by name.
    fn top(&self) -> impl Iterator<Item = (&str, u64)> {
        let mut sorted: Vec<(&str, u64)> =
            self.0.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        sorted.sort_by_key(|(_, count)| Reverse(*count));
        sorted.into_iter().take(N_LISTED)
    }
}

/// Formats a number with six significant digits, as streams of C++ do by default.
fn general(value: f64) -> String {
    if !value.is_finite() {
        return "nan".to_owned();
    }
    quipu_stream::float::general(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits() {
        let numbers = [
            (0.0, "0"),
            (1.0, "1"),
            (131.4, "131.4"),
            (1000.0 / 3.0, "333.333"),
            (2.0 / 3.0, "0.666667"),
            (123_456_789.0, "1.23457e+08"),
            (999_999.7, "1e+06"),
            (0.000_123_456_7, "0.000123457"),
            (0.000_012_3, "1.23e-05"),
        ];
        for (number, expected) in numbers {
            assert_eq!(general(number), expected);
        }
    }
}
