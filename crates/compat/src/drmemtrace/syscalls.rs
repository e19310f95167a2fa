//! Prints the results of `syscall_mix`.

use super::counts::line;
use quipu::passes::syscalls::{ErrorCount, SyscallCounts};
use std::cmp::Reverse;

pub(super) fn write(found: &SyscallCounts, out: &mut Vec<u8>) {
    line(out, format_args!("Syscall mix tool results:"));
    line(out, format_args!("  syscall count : syscall_num"));
    let calls = found.syscalls.iter().map(|call| (call.calls, call.number));
    for (calls, number) in sorted(calls) {
        line(out, format_args!("{calls:15} : {number:9}"));
    }
    let recorded = found.syscalls.iter().filter_map(|call| Some((call.kernel?.recorded, call.number)));
    let recorded = sorted(recorded);
    if !recorded.is_empty() {
        line(out, format_args!(" syscall trace count :    total instr count : syscall_num"));
    }
    for (recorded, number) in recorded {
        let kernel = found.syscalls.iter().find(|call| signed(call.number) == number);
        let instrs = kernel.and_then(|call| call.kernel).map_or(0, |kernel| kernel.instructions);
        line(out, format_args!("{recorded:20} : {instrs:20} : {number:9}"));
    }
    failures(-1, &found.unknown_errors, out);
    let mut calls: Vec<_> = found.syscalls.iter().map(|call| (signed(call.number), &call.errors)).collect();
    calls.sort_by_key(|(number, _)| *number);
    for (number, errors) in calls {
        failures(number, errors, out);
    }
}

/// The launcher stores numbers of calls and errors as signed 32-bit integers.
fn signed(number: u64) -> i32 {
    number as i32
}

/// Numbers with their counts in the launcher's order: the most frequent first, then the larger number.
fn sorted(counts: impl Iterator<Item = (u64, u64)>) -> Vec<(u64, i32)> {
    let mut counts: Vec<(u64, i32)> =
        counts.filter(|(count, _)| *count > 0).map(|(count, number)| (count, signed(number))).collect();
    counts.sort_by_key(|&(count, number)| Reverse((count, number)));
    counts
}

fn failures(number: i32, errors: &[ErrorCount], out: &mut Vec<u8>) {
    if errors.is_empty() {
        return;
    }
    line(out, format_args!("Failures for syscall {number}:"));
    line(out, format_args!("  failure count : failure code"));
    for (count, error) in sorted(errors.iter().map(|error| (error.count, error.error))) {
        line(out, format_args!("{count:15} : {error:9}"));
    }
}
