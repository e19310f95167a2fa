//! Files that hold a core each.

use super::{
    CHUNK_FOOTER, CPU_ID, Head, TIMESTAMP, archive, entry, marker, nops, outline, printed, put, seam, tail,
};
use std::path::Path;

const SYSCALL: u16 = 25;
const SYSCALL_FAILED: u16 = 30;
const CORE_IDLE: u16 = 33;

fn core_file(core: u64) -> String {
    format!("drmemtrace.core.{core:06}.trace")
}

fn clock(time: u64, cpu: u64) -> Vec<Vec<u8>> {
    vec![marker(TIMESTAMP, time), marker(CPU_ID, cpu)]
}

/// Two cores of a thread each; the second begins earlier.
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

/// Calls and misses of two cores: tools that want one stream read the file whose clock is behind.
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
