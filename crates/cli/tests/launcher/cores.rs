//! Files that each contain a core.

use super::{
    CHUNK_FOOTER, CPU_ID, Head, Stretch, TIMESTAMP, archive, entry, launch, marker, nops, outline, printed,
    put, put_schedule, quipu, seam, tail,
};
use std::path::Path;
use std::process::Command;

const SYSCALL: u16 = 25;
const SYSCALL_FAILED: u16 = 30;
const CORE_IDLE: u16 = 33;

fn core_file(core: u64) -> String {
    format!("drmemtrace.core.{core:06}.trace")
}

fn clock(time: u64, cpu: u64) -> Vec<Vec<u8>> {
    vec![marker(TIMESTAMP, time), marker(CPU_ID, cpu)]
}

/// Two cores with one thread each; the second begins earlier.
fn put_two_cores(folder: &Path) {
    for (cpu, tid, time) in [(0, 20, 5000), (1, 21, 4000)] {
        let head = Head { tid, clock: time, cpu, ..Head::OF_CORE }.entries();
        let parts = [head, nops(0x1000, 2), clock(time + 2000, cpu), nops(0x1002, 1), tail(tid)];
        put(folder, &core_file(cpu), &parts);
    }
}

#[test]
fn files_of_cores_are_merged_by_time() {
    let folder = tempfile::tempdir().unwrap();
    put_two_cores(folder.path());
    let text = printed(folder.path(), "-indir . -tool view");
    let rows = text.lines().skip(2).take_while(|line| *line != "View tool results:");
    let rows: Vec<String> = rows
        .map(|line| match line.split_once(": ") {
            Some((ordinals, rest)) => {
                let record = ordinals.split_whitespace().next().unwrap();
                format!("{record} {}", rest.split_whitespace().next().unwrap())
            }
            None => line[..1].to_owned(),
        })
        .collect();
    let stretch = |records: std::ops::RangeInclusive<u64>, thread: &str| {
        ["-".to_owned()].into_iter().chain(records.map(move |record| format!("{record} {thread}"))).collect()
    };
    let stretches: Vec<Vec<String>> = vec![
        stretch(1..=9, "W0.T21"),
        stretch(10..=18, "W0.T20"),
        stretch(19..=22, "W0.T21"),
        stretch(23..=26, "W0.T20"),
    ];
    assert_eq!(rows, stretches.concat(), "{text}");
}

#[test]
fn a_skip_in_a_file_of_a_core_counts_from_the_chunk_it_jumps_to() {
    let folder = tempfile::tempdir().unwrap();
    let head = Head { tid: 20, chunk_instrs: 2, clock: 4000, ..Head::OF_CORE }.entries();
    let chunks = [
        [head, nops(0x1000, 1), clock(4100, 0), nops(0x1001, 1), vec![marker(CHUNK_FOOTER, 0)]].concat(),
        [seam(12, 4100), nops(0x1002, 2), vec![marker(CHUNK_FOOTER, 1)]].concat(),
        [seam(15, 4100), nops(0x1004, 2), tail(20)].concat(),
    ];
    archive(&folder.path().join("drmemtrace.core.000000.trace.zip"), &chunks);
    let text = printed(folder.path(), "-indir . -tool view -skip_instrs 4 -exit_after_records 2");
    let records: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" W0."))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(records, ["15", "15", "16", "17"], "{text}");
}

#[test]
fn an_idle_core_is_the_word_of_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let head = Head { tid: 20, ..Head::OF_CORE }.entries();
    put(folder.path(), &core_file(0), &[head, nops(0x1000, 1), vec![marker(CORE_IDLE, 0)], tail(20)]);
    let text = printed(folder.path(), "-indir . -tool view");
    assert!(text.contains(": W-1.T281474976710655 <marker: core is idle>\n"), "{text}");
}

#[test]
fn intervals_of_cores_tell_any_number_of_threads_that_begin() {
    let folder = tempfile::tempdir().unwrap();
    put_two_cores(folder.path());
    let args = "-indir . -tool basic_counts -interval_microseconds 1000 -no_core_sharded";
    let text = printed(folder.path(), args);
    let whole = text.split("Counts per trace interval for whole trace:").nth(1).unwrap();
    let threads: Vec<String> =
        outline(whole, " interval delta threads").into_iter().filter(|line| !line.ends_with(':')).collect();
    assert_eq!(threads, ["1", "1", "0", "0"], "{text}");
}

#[test]
fn a_call_that_failed_on_another_core_is_the_latest_of_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let head = |tid, cpu| Head { tid, cpu, ..Head::OF_CORE }.entries();
    let call = |number| [nops(0x1000, 1), vec![marker(SYSCALL, number)]].concat();
    put(folder.path(), &core_file(0), &[head(20, 0), call(7), tail(20)]);
    let comes = vec![entry(22, 0, 20), entry(24, 0, 1), marker(SYSCALL_FAILED, 4)];
    put(folder.path(), &core_file(1), &[head(21, 1), call(202), comes, nops(0x1001, 1), tail(20)]);
    let text = printed(folder.path(), "-indir . -tool syscall_mix -no_core_sharded");
    assert!(text.contains("Failures for syscall 202:\n"), "{text}");
    assert!(!text.contains("syscall -1"), "{text}");
}

#[test]
fn files_of_cores_tell_how_often_a_worker_goes_on_to_another() {
    let folder = tempfile::tempdir().unwrap();
    put_two_cores(folder.path());
    let switches = |jobs: u64| -> Vec<String> {
        let text =
            printed(folder.path(), &format!("-indir . -tool schedule_stats -no_core_sharded -jobs {jobs}"));
        let lines = text.lines().filter_map(|line| line.strip_suffix(" switches input-to-input"));
        lines.map(|count| count.trim().to_owned()).collect()
    };
    assert_eq!(switches(1), ["2", "1", "1"]);
    assert_eq!(switches(2), ["0", "0", "0"]);
}

/// Calls and misses of two cores: tools that need one stream read the file with the earliest clock first.
#[test]
fn calls_and_caches_of_files_of_cores_come_by_time() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("funclist.log"), "1,1,0x10,lib!f\n").unwrap();
    for (cpu, tid, time) in [(0, 20, 5000), (1, 21, 4000)] {
        let head = Head { tid, clock: time, cpu, ..Head::OF_CORE }.entries();
        let call = |n: u64| {
            let pc = 0x10000 * tid + 0x1000 * n;
            [nops(pc, 1), vec![marker(4, 1), marker(5, 0x1234), marker(6, tid)]].concat()
        };
        put(folder.path(), &core_file(cpu), &[head, call(1), clock(time + 2000, cpu), call(2), tail(tid)]);
    }
    let text = printed(folder.path(), "-indir . -tool func_view");
    let callers: Vec<&str> =
        text.lines().filter(|line| line.starts_with('T')).filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(callers, ["T21", "T20", "T21", "T20"], "{text}");
    printed(folder.path(), "-indir . -no_core_sharded -LL_miss_file misses.gz");
    assert_eq!(
        super::misses(&folder.path().join("misses.gz")),
        ["1,0x151000,0x151000", "1,0x141000,0x141000", "1,0x152000,0x152000", "1,0x142000,0x142000"]
    );
}

/// The lines of records, without instruction bytes, split into words.
fn records(text: &str) -> Vec<String> {
    let lines = text.lines().skip(2).take_while(|line| *line != "View tool results:");
    let short = |line: &str| match line.split_once(": ") {
        Some((ordinals, rest)) => {
            let rest = rest.split(" byte(s) @ ").next().unwrap();
            format!("{ordinals} {rest}").split_whitespace().collect::<Vec<_>>().join(" ")
        }
        None => line[..1].to_owned(),
    };
    lines.map(short).collect()
}

/// Threads 10 and 11 with three instructions and one.
fn put_two_threads(folder: &Path) {
    for (tid, n) in [(10, 3), (11, 1)] {
        let head = Head { tid, clock: 1000 + tid, cpu: 7, ..Head::OF_THREAD }.entries();
        put(folder, &format!("{tid}.trace"), &[head, nops(0x1000, n), tail(tid)]);
    }
}

/// DynamoRIO lets each core execute a record in turn, from the second on, with ordinals of the single stream. An idle core
/// repeats the ordinal of the record before, without a line of dashes after it. Clocks continue from a core's first reading.
#[test]
fn view_shows_what_scheduled_cores_do_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    // One after the other on one core.
    let text = printed(folder.path(), "-indir . -tool view -core_serial -cores 1 -skip_records 6");
    let expected = [
        "-",
        "7 0 W0.T10 <marker: W0.T10 on core 0>",
        "8 1 W0.T10 ifetch 1",
        "9 2 W0.T10 ifetch 1",
        "10 3 W0.T10 ifetch 1",
        "11 3 W0.T10 <thread W0.T10 exited>",
        "-",
        "12 3 W0.T11 <marker: version 7>",
        "13 3 W0.T11 <marker: filetype 0xe40>",
        "14 3 W0.T11 <marker: cache line size 64>",
        "15 3 W0.T11 <marker: chunk instruction count 1000>",
        "16 3 W0.T11 <marker: page size 4096>",
        "17 3 W0.T11 <marker: timestamp 1010>",
        "18 3 W0.T11 <marker: W0.T11 on core 0>",
        "19 4 W0.T11 ifetch 1",
        "20 4 W0.T11 <thread W0.T11 exited>",
    ];
    assert_eq!(records(&text), expected, "{text}");
    // Side by side, until one of them has nothing left to do.
    for mode in ["-core_serial", "-core_sharded"] {
        let args = format!("-indir . -tool view {mode} -cores 2 -sched_exit_if_fraction_inputs_left 0");
        let text = printed(folder.path(), &args);
        let lines = records(&text);
        let instrs: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| line.contains(" ifetch ")).collect();
        assert_eq!(instrs.len(), 4, "{text}");
        let (first, second) = (instrs[0].split(' ').nth(2).unwrap(), instrs[1].split(' ').nth(2).unwrap());
        assert_ne!(first, second, "the cores take turns: {text}");
        assert!(
            lines.iter().any(|line| line.ends_with("W-1.T281474976710655 <marker: core is idle>")),
            "{text}"
        );
        let rest = lines.iter().position(|line| line.contains("core is idle")).unwrap();
        assert_ne!(lines[rest + 1], "-", "nothing parts a rest from what follows: {text}");
        let ordinals = lines.iter().filter(|line| !line.contains("idle") && *line != "-");
        let ordinals: Vec<u64> =
            ordinals.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        assert_eq!(ordinals, (1..=20).collect::<Vec<u64>>(), "{text}");
    }
}

/// Records count along the single stream if one worker simulates all cores, otherwise on each core; idle records do not
/// count.
#[test]
fn skips_and_limits_of_records_count_as_cores_are_played() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    let instrs = |args: &str| -> u64 {
        let args = format!("-indir . -tool basic_counts -sched_exit_if_fraction_inputs_left 0 {args}");
        let text = printed(folder.path(), &args);
        let line = text.lines().find(|line| line.ends_with(" total (fetched) instructions")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    // Seven records precede the first instruction of each thread.
    for (args, of_all, of_each) in [
        ("", 4, 4),
        ("-skip_records 8", 4, 2),
        ("-exit_after_records 14", 0, 4),
        ("-exit_after_records 15", 1, 4),
        ("-exit_after_records 8", 0, 2),
        ("-skip_records 14", 4, 0),
        ("-skip_instrs 0 -exit_after_instrs 1", 2, 2),
        ("-exit_after_instrs 2 -exit_after_records 9", 0, 3),
    ] {
        assert_eq!(instrs(&format!("-core_serial -cores 2 {args}")), of_all, "in turn: {args}");
        assert_eq!(instrs(&format!("-core_sharded -cores 2 {args}")), of_each, "each: {args}");
    }
}

/// A skip or limit has the same meaning for files of cores as for files of threads.
#[test]
fn parts_of_files_of_cores_are_those_of_files_of_threads() {
    let folders = [Head::OF_THREAD, Head::OF_CORE].map(|head| {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, tid, time) in [(0, 20, 5000), (1, 21, 4000)] {
            let head = Head { tid, chunk_instrs: 2, clock: time, cpu, ..head }.entries();
            let seam = |records: u64, time| [vec![marker(22, records)], clock(time, cpu)].concat();
            let chunks = [
                [head, nops(0x1000, 1), clock(time + 2000, cpu), nops(0x1001, 1), vec![marker(21, 0)]]
                    .concat(),
                [seam(12, time + 2000), nops(0x1002, 2), clock(time + 4000, cpu), vec![marker(21, 1)]]
                    .concat(),
                [seam(17, time + 4000), nops(0x1004, 1), tail(tid)].concat(),
            ];
            let path = folder.path().join(format!("drmemtrace.core.{cpu:06}.trace.zip"));
            archive(&path, &chunks);
        }
        folder
    });
    let mut parts = vec!["-skip_to_timestamp 6500".to_owned(), "-only_shards 1".to_owned()];
    for skip in [
        "",
        "-skip_instrs 1",
        "-skip_instrs 2",
        "-skip_instrs 3",
        "-skip_instrs 4",
        "-skip_records 4",
        "-skip_records 11",
    ] {
        for limit in ["", "-exit_after_records 1", "-exit_after_records 3", "-exit_after_records 9"] {
            parts.push(format!("{skip} {limit}"));
        }
        if !skip.contains("records") {
            parts.push(format!("{skip} -exit_after_instrs 1"));
            parts.push(format!("{skip} -exit_after_instrs 2 -exit_after_records 4"));
        }
    }
    for part in parts {
        for choice in ["", "-only_shards 0"] {
            if part.contains("only_shards") && !choice.is_empty() {
                continue;
            }
            let args = format!("-indir . -tool view {part} {choice}");
            let [threads, cores] = folders.each_ref().map(|folder| printed(folder.path(), &args));
            assert_eq!(cores.replace("0x10e40", "0xe40"), threads, "{args}");
            let n_rows = cores.lines().filter(|line| line.contains(" W0.T2")).count();
            assert!(n_rows > 0, "{args}: {cores}");
        }
    }
}

/// There is a file for each core, but only few may be open.
#[test]
fn a_thousand_traced_cores_are_filtered_with_few_open_files() {
    const N_CORES: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("in");
    std::fs::create_dir(&trace).unwrap();
    let mut parts = vec![Head { tid: 10, clock: 1000, cpu: 0, ..Head::OF_THREAD }.entries()];
    let mut stretches = Vec::new();
    for core in 0..N_CORES {
        if core > 0 {
            parts.push(clock(1000 + core, core));
        }
        parts.push(nops(0x1000 + core, 1));
        stretches.push((core, [(10, 1000 + core, core)]));
    }
    parts.push(tail(10));
    put(&trace, "a.trace", &parts);
    let processors: Vec<(u64, &[Stretch])> = stretches.iter().map(|(core, of)| (*core, &of[..])).collect();
    put_schedule(&folder.path().join("s.zip"), &processors);
    let line = "as drmemtrace -tool record_filter -core_sharded -cpu_schedule_file s.zip -indir in -outdir";
    let script = format!("ulimit -n 64; {} {line} few", env!("CARGO_BIN_EXE_quipu"));
    let output = Command::new("sh").current_dir(folder.path()).args(["-c", &script]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(quipu(folder.path(), &format!("{line} many")).status.code(), Some(0));
    let [few, many] = ["few", "many"].map(|name| crate::outputs::content(&folder.path().join(name)));
    assert_eq!(
        few.iter().filter(|(name, _)| name.to_str().unwrap().contains(".core.")).count() as u64,
        N_CORES
    );
    assert!(few == many);
}

/// The files belong to a folder of threads, so they do not describe cores made by a scheduler.
#[test]
fn schedule_files_are_not_compared_with_scheduled_cores() {
    let folder = tempfile::tempdir().unwrap();
    put_two_threads(folder.path());
    // Neither thread ran at that time.
    let wrong = [10u64, 999, 7, 0, 11, 999, 7, 0].map(u64::to_le_bytes).concat();
    std::fs::write(folder.path().join("serial_schedule.bin"), wrong).unwrap();
    let args = "-indir . -tool invariant_checker";
    let said = launch(folder.path(), args);
    let text = String::from_utf8(said.stderr).unwrap();
    assert!(text.contains("Serial schedule entry"), "{text}");
    for mode in ["-core_serial", "-core_sharded"] {
        let text = printed(folder.path(), &format!("{args} {mode} -cores 2"));
        assert!(!text.contains("chedule entry"), "{mode}: {text}");
    }
}
