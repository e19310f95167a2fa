//! Writes the file of statistics, and the file of threads and barriers.
//!
//! SPEC: prism.md#threads-and-statistics

use super::Stgen;
use super::thread::{Counts, Thread};
use crate::fault::Result;
use quipu_stream::float::general;
use std::fmt::Write;

/// The name of the file of threads and barriers.
const THREADS_FILE: &str = "sigil.pthread.out";
/// The name of the file of statistics.
const STATISTICS_FILE: &str = "sigil.stats.out";

/// Writes both files.
pub(super) fn write(stgen: &Stgen) -> Result<()> {
    if stgen.options.form == super::Form::Null {
        return Ok(());
    }
    let files = [(THREADS_FILE, threads(stgen)), (STATISTICS_FILE, statistics(stgen))];
    for (name, text) in files {
        stgen.options.out.put(name, text.as_bytes())?;
    }
    Ok(())
}

/// Lists the handles of threads with their numbers, and barriers with the threads that arrived.
pub(super) fn threads(stgen: &Stgen) -> String {
    let mut out = String::new();
    for (index, (creator, handle)) in stgen.creates.iter().enumerate() {
        // QUIRK: Prism's back end leaves out threads that were not created by the first thread.
        if stgen.options.has_quirks && *creator != 1 {
            continue;
        }
        if let Some(thread) = stgen.threads.get(index + 1) {
            line(&mut out, format_args!("##{handle},{}", thread.number));
        }
    }
    for (object, arrived) in &stgen.barriers {
        let mut arrived = arrived.clone();
        arrived.sort_unstable();
        let arrived: Vec<_> = arrived.iter().map(u64::to_string).collect();
        line(&mut out, format_args!("**{object},{}", arrived.join(",")));
    }
    out
}

/// Lists the counts of threads, in total, at barriers and under locks.
pub(super) fn statistics(stgen: &Stgen) -> String {
    let has_quirks = stgen.options.has_quirks;
    let mut sorted: Vec<&Thread> = stgen.threads.iter().collect();
    sorted.sort_by_key(|thread| thread.number);
    let mut out = String::new();
    let mut merged = Vec::new();
    for thread in &sorted {
        let counts = &thread.counts;
        line(&mut out, format_args!("thread : {}", thread.number));
        line(&mut out, format_args!("\tIOPS  : {}", counts.total.iops));
        line(&mut out, format_args!("\tFLOPS : {}", counts.total.flops));
        line(&mut out, format_args!("\tReads : {}", counts.reads));
        line(&mut out, format_args!("\tWrites: {}", counts.writes));
        for (object, counts) in &counts.barriers {
            line(&mut out, format_args!("\tBarrier: {object}"));
            counts_of(&mut out, "\t\t", counts);
            line(&mut out, format_args!("\t\tCommunication: {}", counts.communication));
            ratios_of(&mut out, "\t\t", counts, has_quirks);
        }
        for (object, counts) in &counts.unlocks {
            line(&mut out, format_args!("\tLock: {object}"));
            counts_of(&mut out, "\t\t", counts);
            line(&mut out, format_args!("\t\tCommunication: {}", counts.communication));
        }
        merge(&mut merged, &counts.barriers);
    }
    out.push_str("Barrier statistics for all threads:\n");
    for (object, counts) in &merged {
        if has_quirks {
            // QUIRK: Prism's back end prints the names without their values.
            out.push_str("Barrier: \n\tIOPs: \n\tFLOPs: \n\tInstrs: \n\tMemAccesses: \n\tlocks: \n");
            out.push_str("\tIOPs/Mem: \n\tFLOPs/Mem: \n\tlocks/OPs: \n");
        } else {
            line(&mut out, format_args!("Barrier: {object}"));
            counts_of(&mut out, "\t", counts);
            ratios_of(&mut out, "\t", counts, has_quirks);
        }
    }
    let instructions: u64 = sorted.iter().map(|thread| thread.counts.total.instructions).sum();
    line(&mut out, format_args!("Total instructions for all threads: {instructions}"));
    out
}

/// Adds a line. Writing to a string does not fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(out, "{text}");
}

fn counts_of(out: &mut String, indent: &str, counts: &Counts) {
    line(out, format_args!("{indent}IOPs: {}", counts.iops));
    line(out, format_args!("{indent}FLOPs: {}", counts.flops));
    line(out, format_args!("{indent}Instrs: {}", counts.instructions));
    line(out, format_args!("{indent}MemAccesses: {}", counts.accesses));
}

fn ratios_of(out: &mut String, indent: &str, counts: &Counts, has_quirks: bool) {
    let ratio = |part: u64, whole: u64| ratio(part, whole, has_quirks);
    line(out, format_args!("{indent}locks: {}", counts.locks));
    line(out, format_args!("{indent}IOPs/Mem: {}", ratio(counts.iops, counts.accesses)));
    line(out, format_args!("{indent}FLOPs/Mem: {}", ratio(counts.flops, counts.accesses)));
    line(out, format_args!("{indent}locks/OPs: {}", ratio(counts.locks, counts.iops + counts.flops)));
}

/// Merges a thread's barriers into those of earlier threads: equal ones are added up in order, others are inserted between them.
fn merge(merged: &mut Vec<(u64, Counts)>, barriers: &[(u64, Counts)]) {
    let mut cursor = 0;
    let mut unmatched: Vec<(u64, Counts)> = Vec::new();
    for (object, counts) in barriers {
        let Some(found) = merged[cursor..].iter().position(|(known, _)| known == object) else {
            unmatched.push((*object, *counts));
            continue;
        };
        let found = cursor + found;
        cursor = found + unmatched.len() + 1;
        merged[found].1.add(counts);
        merged.splice(found..found, unmatched.drain(..));
    }
    let at = if cursor == 0 { merged.len() } else { cursor };
    merged.splice(at..at, unmatched);
}

/// A single-precision quotient with six digits, like C's `%g`.
fn ratio(part: u64, whole: u64, has_quirks: bool) -> String {
    let quotient = part as f32 / whole as f32;
    if quotient.is_nan() {
        // QUIRK: the quotient of two zeros has a sign on the machines on which Prism runs.
        return if has_quirks { "-nan".to_owned() } else { "nan".to_owned() };
    }
    if quotient.is_infinite() {
        return "inf".to_owned();
    }
    general(f64::from(quotient))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_those_of_c() {
        assert_eq!(ratio(4061, 860, true), "4.72209");
        assert_eq!(ratio(1, 3_000_000, true), "3.33333e-07");
        assert_eq!(ratio(123_456_789, 1, true), "1.23457e+08");
        assert_eq!(ratio(0, 5, true), "0");
        assert_eq!(ratio(5, 0, true), "inf");
        assert_eq!((ratio(0, 0, true), ratio(0, 0, false)), ("-nan".to_owned(), "nan".to_owned()));
        assert_eq!(ratio(1, 10_000, true), "0.0001");
        assert_eq!(ratio(999_999, 1, true), "999999");
    }

    #[test]
    fn barriers_of_threads_are_merged_in_order() {
        let list = |objects: &[u64]| {
            let counts = Counts { iops: 1, ..Counts::default() };
            objects.iter().map(|object| (*object, counts)).collect::<Vec<_>>()
        };
        let mut merged = list(&[1, 2]);
        merge(&mut merged, &list(&[3, 2, 4]));
        merge(&mut merged, &list(&[9]));
        let all: Vec<_> = merged.iter().map(|(object, counts)| (*object, counts.iops)).collect();
        assert_eq!(all, [(1, 1), (3, 1), (2, 2), (4, 1), (9, 1)]);
    }
}
