//! Threads that are scheduled onto cores, or are on the cores where they were traced: refusals and differences from
//! DynamoRIO, each with a row in `compatibility.tsv`, and violations that the checker finds on cores.

use super::{
    CPU_ID, Head, TIMESTAMP, coded, entry, head, marker, nops, printed, put, put_schedule, tail, told,
};
use std::path::Path;

fn clock(time: u64, cpu: u64) -> Vec<Vec<u8>> {
    vec![marker(TIMESTAMP, time), marker(CPU_ID, cpu)]
}

/// Threads 10 and 11 with two clock readings each.
fn put_two_threads(folder: &Path) {
    for (tid, n) in [(10, 3), (11, 2)] {
        let head = Head { tid, clock: 1000 + tid, cpu: 7, ..Head::OF_THREAD }.entries();
        let parts = [head, nops(0x1000, n), clock(2000 + tid, 7), nops(0x1000 + n, 2), tail(tid)];
        put(folder, &format!("{tid}.trace"), &parts);
    }
}

const SCHEDULE: &str = "cpu_schedule.bin.zip";

/// Thread 10 runs three instructions on processor 0 and two on 1, where thread 11 ran two before; `returns` is the clock
/// reading with which it arrives there.
fn put_traced_cores(folder: &Path, returns: u64) {
    let moves = clock(returns, 1);
    put(folder, "a.trace", &[head(10, 1000, None), nops(0x1000, 3), moves, nops(0x1003, 2), tail(10)]);
    let head = Head { tid: 11, clock: 1500, cpu: 1, ..Head::OF_THREAD }.entries();
    put(folder, "b.trace", &[head, nops(0x2000, 2), tail(11)]);
    let processors: [(u64, &[_]); 2] = [(0, &[(10, 1000, 0)]), (1, &[(11, 1500, 0), (10, returns, 3)])];
    put_schedule(&folder.join(SCHEDULE), &processors);
}

/// The numbers of instructions that `basic_counts` prints: the total, then those of each core.
fn instrs(text: &str) -> Vec<u64> {
    let number = |line: &str| {
        line.strip_suffix(" (fetched) instructions")?.trim().trim_end_matches(" total").parse().ok()
    };
    text.lines().filter(|line| !line.contains("unique")).filter_map(number).collect()
}

#[test]
fn intervals_of_scheduled_cores_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    for mode in ["-core_serial", "-core_sharded -cores 2"] {
        for intervals in ["-interval_microseconds 1000", "-interval_instr_count 2"] {
            let text = told(folder.path(), &format!("-indir . -tool basic_counts {mode} {intervals}"), 2);
            assert!(text.contains("without intervals"), "{mode} {intervals}: {text}");
        }
    }
}

#[test]
fn the_checker_takes_no_records_of_all_cores_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    for part in ["-skip_records 3", "-exit_after_records 9", "-skip_instrs 1 -exit_after_records 4"] {
        let args = format!("-indir . -tool invariant_checker -cores 2 {part}");
        let text = told(folder.path(), &format!("{args} -core_serial"), 2);
        assert!(text.contains("checks each thread or core by itself"), "{part}: {text}");
        let passed = printed(folder.path(), &format!("{args} -core_sharded"));
        assert_eq!(passed, "Trace invariant checks passed\n", "{part}");
        // Threads in one stream behave the same.
        if !part.starts_with("-skip_instrs") {
            continue;
        }
        let text = told(folder.path(), &format!("-indir . -tool invariant_checker -jobs 0 {part}"), 2);
        assert!(text.contains("checks each thread or core by itself"), "{part}: {text}");
    }
    let whole = "-indir . -tool invariant_checker -core_serial -cores 2 -skip_instrs 1";
    assert_eq!(printed(folder.path(), whole), "Trace invariant checks passed\n");
}

#[test]
fn a_filter_of_files_of_threads_takes_no_skips_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    put_traced_cores(folder.path(), 2000);
    let traced = format!("-core_sharded -cpu_schedule_file {SCHEDULE}");
    for mode in ["", &traced] {
        for part in ["-skip_instrs 1", "-skip_records 1", "-exit_after_instrs 2", "-exit_after_records 9"] {
            let text =
                told(folder.path(), &format!("-indir . -outdir out -tool record_filter {mode} {part}"), 2);
            assert!(text.contains("threads that are scheduled onto cores only"), "{mode} {part}: {text}");
            assert!(!folder.path().join("out").exists());
        }
    }
}

/// DynamoRIO skips in each thread; here, the skip is on each core.
#[test]
fn parts_of_cores_as_they_were_traced_are_of_each_core() {
    let folder = tempfile::tempdir().unwrap();
    put_traced_cores(folder.path(), 2000);
    let cores = format!("-indir . -tool basic_counts -cores 2 -cpu_schedule_file {SCHEDULE}");
    for (part, expected) in [
        ("", [7, 4, 3]),
        ("-skip_instrs 1", [5, 3, 2]),
        ("-exit_after_instrs 2", [4, 2, 2]),
        ("-skip_instrs 1 -exit_after_instrs 1", [2, 1, 1]),
    ] {
        for mode in ["-core_sharded", "-core_serial"] {
            let text = printed(folder.path(), &format!("{cores} {mode} {part}"));
            assert_eq!(instrs(&text), expected, "{mode} {part}: {text}");
        }
    }
}

/// DynamoRIO delays a clock reading and loses it if another one follows; here, each has its line with its own thread.
#[test]
fn each_clock_reading_of_scheduled_cores_has_a_line() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    for cores in 1..=3 {
        let text = printed(folder.path(), &format!("-indir . -tool view -core_serial -cores {cores}"));
        for thread in ["W0.T10", "W0.T11"] {
            let of_thread = |what: &str| {
                let words = format!(" {thread} <marker: {what}");
                text.lines().filter(|line| line.contains(&words)).count()
            };
            let readings = (of_thread("timestamp "), of_thread(&format!("{thread} on core ")));
            assert_eq!(readings, (2, 2), "{cores} cores, {thread}: {text}");
        }
    }
}

const SYSCALL: u16 = 25;
const SYSCALL_FAILED: u16 = 30;

/// Thread 20 makes a call, thread 21 another, and then the first call fails.
#[test]
fn a_failure_is_of_the_thread_s_own_latest_call_on_the_core() {
    let folder = tempfile::tempdir().unwrap();
    let turn = |tid| vec![entry(22, 0, tid), entry(24, 0, 1)];
    let call = |number| [nops(0x1000, 1), vec![marker(SYSCALL, number)]].concat();
    let first = Head { tid: 20, ..Head::OF_CORE }.entries();
    let second = Head { tid: 21, ..Head::OF_CORE }.entries();
    let fails = [turn(20), vec![marker(SYSCALL_FAILED, 4)], nops(0x1001, 1)].concat();
    let ends = [vec![entry(23, 4, 20)], turn(21), tail(21)].concat();
    let parts = [first, call(7), second, call(202), fails, ends];
    put(folder.path(), "drmemtrace.core.000000.trace", &parts);
    let text = printed(folder.path(), "-indir . -tool syscall_mix -no_core_sharded");
    assert!(text.contains("Failures for syscall 7:\n"), "{text}");
    assert!(!text.contains("Failures for syscall 202:"), "{text}");
}

/// If threads form one stream, a limit of records after a skip counts along it, for any tool.
#[test]
fn a_limit_of_records_after_a_skip_counts_along_the_one_stream() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    std::fs::write(folder.path().join("funclist.log"), "1,1,0x10,lib!f\n").unwrap();
    let traced = tempfile::tempdir().unwrap();
    put_traced_cores(traced.path(), 2000);
    let replayed = format!("-core_serial -cores 2 -cpu_schedule_file {SCHEDULE}");
    for (folder, mode) in [(&folder, "-jobs 0"), (&traced, &replayed)] {
        for skip in ["-skip_instrs 1", "-skip_instrs 2", "-skip_to_timestamp 1400", "-exit_after_instrs 2"] {
            // With a schedule, such a skip determines where threads begin, and they are scheduled again.
            if mode.contains(SCHEDULE) && skip.contains("timestamp") {
                continue;
            }
            let mut last = 0;
            for limit in 1..=14 {
                let args = format!("-indir . {mode} {skip} -exit_after_records {limit} -tool");
                let text = printed(folder.path(), &format!("{args} view"));
                let shown = text.lines().filter(|line| line.contains(" ifetch ")).count() as u64;
                let counted = instrs(&printed(folder.path(), &format!("{args} basic_counts")))[0];
                assert_eq!(counted, shown, "{args}");
                let mix = printed(folder.path(), &format!("{args} opcode_mix:func_view"));
                assert!(mix.contains(&format!(" {shown} : total executed instructions\n")), "{args}: {mix}");
                assert!(shown >= last, "{args}");
                last = shown;
            }
            assert!(last > 0, "{mode} {skip}");
        }
    }
}

/// The checker's messages about cores, without the numbers that give the place.
fn violations(folder: &Path, args: &str) -> Vec<String> {
    let args = format!("-indir . -tool invariant_checker -no_abort_on_invariant_error {args}");
    let text = told(folder, &args, 1);
    let of = |line: &str| {
        let (place, rest) = line.strip_prefix("Trace invariant failure in ")?.split_once(" at ref # ")?;
        let (_, rest) = rest.split_once(" at instruction # ")?;
        let (instr, rest) = rest.split_once(' ')?;
        Some(format!("{place}, {instr}: {}", rest.rsplit_once("): ")?.1))
    };
    text.lines().filter_map(of).collect()
}

/// For any order of threads, faults of one thread are found on its core, and nothing else is.
#[test]
fn a_gap_and_a_missing_read_are_found_on_scheduled_cores() {
    let pop = coded(10, 0x1004, &[0x58]);
    for (wrong, rule) in [
        (nops(0x5000, 1), "Non-explicit control flow has no marker"),
        ([pop, nops(0x1005, 1)].concat(), "Missing read records"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 4), wrong, tail(10)]);
        put(folder.path(), "b.trace", &[head(11, 1001, None), nops(0x2000, 8), tail(11)]);
        for mode in ["-core_serial -cores 1", "-core_serial -cores 2", "-core_sharded -cores 3"] {
            for quantum in [2, 3, 100] {
                let args = format!("{mode} -sched_quantum {quantum} -sched_exit_if_fraction_inputs_left 0");
                let found = violations(folder.path(), &args);
                assert_eq!(found.len(), 1, "{args}: {found:?}");
                assert!(found[0].starts_with("core ") && found[0].ends_with(rule), "{args}: {found:?}");
            }
        }
        let found = violations(folder.path(), "-core_serial -cores 2");
        let instr = if rule.starts_with("Missing") { 6 } else { 5 };
        assert_eq!(found, [format!("core 1, {instr}: {rule}")]);
    }
}

/// Thread 10 arrives at processor 1 at a time at which it was on another one.
#[test]
fn a_schedule_in_which_time_goes_back_is_found_on_cores() {
    let rule = "Timestamp does not increase monotonically";
    let folder = tempfile::tempdir().unwrap();
    put_traced_cores(folder.path(), 900);
    let args = format!("-cores 2 -cpu_schedule_file {SCHEDULE}");
    for mode in ["-core_serial", "-core_sharded"] {
        assert_eq!(violations(folder.path(), &format!("{args} {mode}")), [format!("core 0, 3: {rule}")]);
        let args = format!("-indir . -tool invariant_checker -no_abort_on_invariant_error {args} {mode}");
        let text = told(folder.path(), &args, 1);
        assert!(text.contains("[drmemtrace/schedule-backwards]"), "{text}");
    }
    // Files of cores record it themselves.
    let folder = tempfile::tempdir().unwrap();
    let first = Head { tid: 10, ..Head::OF_CORE }.entries();
    put(folder.path(), "drmemtrace.core.000000.trace", &[first, nops(0x1000, 3), tail(10)]);
    let second = Head { tid: 11, clock: 1500, cpu: 1, ..Head::OF_CORE }.entries();
    let parts = [second, nops(0x2000, 3), clock(1200, 1), nops(0x2003, 2), tail(11)];
    put(folder.path(), "drmemtrace.core.000001.trace", &parts);
    assert_eq!(violations(folder.path(), ""), [format!("core 1, 3: {rule}")]);
}
