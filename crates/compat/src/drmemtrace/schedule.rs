//! Prints the results of `schedule_stats`.
//!
//! For lines in microseconds, the launcher measures its own run; ours come from the trace's clock. Statistics of its
//! scheduler are 0 for cores that were scheduled before. With `-core_serial`, the launcher reports the last core's
//! statistics for each core; ours are each core's own. Threads, and calls in latencies, are in ascending order where the
//! launcher's order is arbitrary.

use super::counts::line;
use quipu::model::{Dispatched, ThreadId};
use quipu::passes::schedule::{Bin, CallBins, CoreSums, CoreSwitching, SwitchOut, Switching};

pub(super) fn write(found: &Switching, dispatched: &[Dispatched], verbose: u64, out: &mut Vec<u8>) {
    line(out, format_args!("Schedule stats tool results:"));
    line(out, format_args!("Total counts:"));
    line(out, format_args!("{:12} cores", found.cores.len()));
    let all = dispatched.iter().fold(Dispatched::default(), |sum, core| sum.plus(*core));
    sums(&found.total, &all, &found.cores_per_thread, out);
    for core in &found.cores {
        let told = usize::try_from(core.core).ok().and_then(|core| dispatched.get(core).copied());
        line(out, format_args!("Core #{} counts:", core.core));
        sums(&core.sums, &told.unwrap_or_default(), &[], out);
    }
    for core in &found.cores {
        line(out, format_args!("Core #{} schedule: {}", core.core, core.schedule));
    }
    for core in &found.cores {
        switch_outs(core, verbose, out);
    }
    ratio("activity", found.activity_ratio, out);
    ratio("instruction", found.instruction_ratio, out);
}

fn ratio(what: &str, ratio: Option<f64>, out: &mut Vec<u8>) {
    // The launcher divides by zero.
    let ratio = ratio.map_or_else(|| "inf".to_owned(), |ratio| format!("{ratio:.2}"));
    line(out, format_args!("Max {what} ratio between cores: {ratio}"));
}

fn name(ThreadId { workload, tid }: ThreadId) -> String {
    format!("W{workload}.T{tid}")
}

fn sums(sums: &CoreSums, told: &Dispatched, cores_per_thread: &[Bin], out: &mut Vec<u8>) {
    let threads: Vec<String> = sums.threads.iter().map(|tid| name(*tid)).collect();
    let colon = if threads.is_empty() { "" } else { ": " };
    line(out, format_args!("{:12} threads{colon}{}", threads.len(), threads.join(", ")));
    let of = |part: u64, whole: u64| match (part, whole) {
        (0, 0) => 0.0,
        (_, 0) => 1.0,
        _ => part as f64 / whole as f64,
    };
    let count = |count: u64, what: &str, out: &mut Vec<u8>| line(out, format_args!("{count:12} {what}"));
    let share = |part, whole, what: &str, out: &mut Vec<u8>| {
        line(out, format_args!("{:12.2}% {what}", 100.0 * of(part, whole)))
    };
    count(sums.instructions, "instructions", out);
    count(sums.switches, "total context switches", out);
    let per_thousand =
        if sums.instructions > 0 { 1000.0 * of(sums.switches, sums.instructions) } else { 0.0 };
    line(out, format_args!("{per_thousand:12.7} CSPKI (context switches per 1000 instructions)"));
    let per_switch = if sums.switches > 0 { of(sums.instructions, sums.switches) } else { 0.0 };
    line(out, format_args!("{per_switch:12.0} instructions per context switch"));
    count(sums.voluntary, "voluntary context switches", out);
    count(sums.direct, "direct context switches", out);
    count(0, "context switch sequence injections", out);
    count(0, "system call sequence injections", out);
    share(sums.voluntary, sums.switches, "voluntary switches", out);
    share(sums.direct, sums.switches, "direct switches", out);
    for (what, n) in by_scheduler(told) {
        count(n, what, out);
    }
    count(sums.syscalls, "system calls", out);
    count(sums.may_block, "maybe-blocking system calls", out);
    count(sums.direct_requests, "direct switch requests", out);
    count(sums.migrations, "observed migrations", out);
    count(sums.waits, "waits", out);
    count(sums.idles, "idles", out);
    share(sums.instructions, sums.instructions + sums.idles, "cpu busy by record count", out);
    count(sums.busy_ticks, "cpu microseconds", out);
    count(0, "wait microseconds", out);
    count(sums.idle_ticks, "idle microseconds", out);
    count(sums.idle_ticks_before_last_instr, "idle microseconds at last instr", out);
    let until = |idle: u64| sums.busy_ticks.saturating_add(idle);
    share(sums.busy_ticks, until(sums.idle_ticks), "cpu busy by time", out);
    let until_last = until(sums.idle_ticks_before_last_instr);
    share(sums.busy_ticks, until_last, "cpu busy by time, ignoring idle past last instr", out);
    line(out, format_args!("  Instructions per context switch histogram:"));
    bins(&sums.slice_instrs, out);
    for thread in &sums.thread_slice_instrs {
        let name = name(thread.thread);
        line(out, format_args!("  Thread {name} instructions per context switch histogram:"));
        bins(&thread.bins, out);
    }
    if !cores_per_thread.is_empty() {
        line(out, format_args!("  Cores per thread:"));
        bins(cores_per_thread, out);
    }
    line(out, format_args!("  Latencies for syscalls that incurred a switch:"));
    calls(&sums.switched_latencies, out);
    line(out, format_args!("  Latencies for syscalls that did not incur a switch:"));
    calls(&sums.other_latencies, out);
}

/// Statistics of DynamoRIO's scheduler for files of cores: each worker processes its share of the files, and each file is
/// credited with the number of times that its worker moved on to another file.
pub(super) fn taken_on(n_files: usize, n_workers: usize) -> Vec<Dispatched> {
    let n_workers = n_workers.clamp(1, n_files.max(1));
    let of_file = |file: usize| {
        let n_shared = (n_files - file % n_workers).div_ceil(n_workers);
        Dispatched { thread_to_thread: n_shared as u64 - 1, ..Dispatched::default() }
    };
    (0..n_files).map(of_file).collect()
}

/// Statistics of the scheduler.
fn by_scheduler(told: &Dispatched) -> [(&'static str, u64); 9] {
    [
        ("switches input-to-input", told.thread_to_thread),
        ("switches input-to-idle", told.thread_to_idle),
        ("switches idle-to-input", told.idle_to_thread),
        ("switches nop-ed", told.same_thread),
        ("quantum_preempts", told.preemptions),
        ("migrations", told.migrations),
        ("work steals", told.steals),
        ("rebalances", told.rebalances),
        ("output limits hit", told.limited),
    ]
}

fn bins(bins: &[Bin], out: &mut Vec<u8>) {
    for bin in bins {
        line(out, format_args!("{:12}..{:8} {:5}", bin.from, bin.to, bin.count));
    }
}

fn calls(latencies: &[CallBins], out: &mut Vec<u8>) {
    for call in latencies {
        // The launcher stores numbers of calls as signed 32-bit integers.
        line(out, format_args!("    #{}", call.number as i32));
        bins(&call.bins, out);
    }
}

fn switch_outs(core: &CoreSwitching, verbose: u64, out: &mut Vec<u8>) {
    line(out, format_args!("Core #{} switch-outs:", core.core));
    // From verbosity 1 on, all that we keep; from 2 on, the launcher keeps and prints any number.
    let shown = if verbose == 0 { 4 } else { usize::MAX };
    for (i, switch) in core.switch_outs.iter().take(shown).enumerate() {
        switch_out(i, switch, out);
    }
    if core.switch_outs.len() > shown || core.more > 0 {
        line(out, format_args!("    ... (increase -verbose to see more)"));
    }
}

fn switch_out(i: usize, switch: &SwitchOut, out: &mut Vec<u8>) {
    let ThreadId { workload, tid } = switch.thread;
    let syscall = switch.syscall.map_or(-1, |number| i64::from(number as i32));
    let latency = switch.latency.map_or_else(|| "-1".to_owned(), |latency| latency.to_string());
    let voluntary = if switch.voluntary { "vol" } else { "invol" };
    let direct = if switch.direct { "direct" } else { "" };
    let (start, instrs) = (switch.start_instr, switch.instructions);
    line(
        out,
        format_args!(
            "{i:5} W{workload}.T{tid:<6} @ {start:11} instrs={instrs:9} sys#={syscall:4} latency={latency:>7}{voluntary:>6}{direct:>7}"
        ),
    );
}
