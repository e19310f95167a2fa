//! Prints the results of `invariant_checker`: a line for each violation that DynamoRIO knows, in its words.

use super::counts::line;
use quipu::drmemtrace::check::{CheckReport, Violation};
use quipu::isa::Arch;
use quipu::model::{Found, Severity, Shard, ShardKind, Trace};
use quipu_console::session::Verdict;

/// Most violations of each rule that get a line; the rest are counted.
pub(super) const MAX_LINES: u64 = 100_000;

/// Prints the result and returns whether something is wrong. If requested, it stops at the first violation like DynamoRIO.
///
/// A trace that could not be read completely has not passed, regardless of the rest.
pub(super) fn write(
    report: &CheckReport,
    (trace, is_whole): (&dyn Trace, bool),
    stops: bool,
    out: &mut Vec<u8>,
) -> bool {
    let known = || report.violations.iter().filter(|violation| !violation.original.is_empty());
    if stops && let Some(first) = known().next() {
        violation(first, trace.shards(), out);
        return true;
    }
    known().for_each(|known| violation(known, trace.shards(), out));
    // The number of violations without a line follows from the counts.
    let unlisted: u64 = report
        .broken()
        .filter(|(rule, count)| *count > MAX_LINES && !rule.original.is_empty())
        .map(|(_, count)| count - MAX_LINES)
        .sum();
    let total = known().count() as u64 + unlisted;
    match total {
        0 if is_whole => line(out, format_args!("Trace invariant checks passed")),
        0 => line(out, format_args!("No invariant errors in what could be read of the trace")),
        n => line(out, format_args!("Found {n} invariant errors")),
    }
    if trace.meta().arch == Some(Arch::Regdeps) {
        line(
            out,
            format_args!(
                "WARNING: invariant_checker is being run on an OFFLINE_FILE_TYPE_ARCH_REGDEPS trace."
            ),
        );
        line(out, format_args!("Some invariant checks have been disabled."));
    }
    total > 0
}

/// Errors that DynamoRIO's checker does not look for; they are reported as faults of the trace.
pub(super) fn unknown_errors(report: &CheckReport) -> Verdict {
    let is_unknown = |violation: &&Violation| {
        violation.original.is_empty() && violation.finding.severity == Severity::Error
    };
    let mut found = Found::default();
    report.violations.iter().filter(is_unknown).for_each(|unknown| found.push(unknown.finding.clone()));
    Verdict::of(found)
}

fn violation(violation: &Violation, shards: &[Shard], out: &mut Vec<u8>) {
    let is_core = shards.get(violation.shard as usize).is_some_and(|shard| shard.kind == ShardKind::Core);
    let who = match is_core {
        true => format!("core {}", violation.shard),
        // DynamoRIO prints thread ids as signed numbers.
        false => format!("T{}", violation.thread.cast_signed()),
    };
    let place = &violation.finding.place;
    // In schedules there is no record, so DynamoRIO prints the number of the instruction as the record's.
    let (record, instr) = match place.record {
        Some(record) => (record, place.instr.unwrap_or(0)),
        None => (place.instr.unwrap_or(0), 0),
    };
    let Violation { since_clock, clock, original, .. } = violation;
    line(
        out,
        format_args!(
            "Trace invariant failure in {who} at ref # {record} at instruction # {instr} \
             ({since_clock} instrs since timestamp {clock}): {original}"
        ),
    );
}
