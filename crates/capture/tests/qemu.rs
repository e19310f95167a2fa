//! Programs recorded under the emulator: compiled here, with numbers that are known from their source.
//!
//! Without `qemu-x86_64` or a compiler there is nothing to test with; then the tests say so and pass.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use quipu_capture::limits::Limits;
use quipu_capture::qemu;
use quipu_capture::record::{Job, Summary};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::{CHECK, CheckReport};
use quipu_drmemtrace::record::{Entry, Marker, Type};
use quipu_model::fresh::Replace;
use quipu_model::{Args, Columns, Format, OpenOptions, Report, Scan, Severity, ShardId};
use quipu_source::{PackOptions, Packing, Source};
use quipu_testkit::report_of;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("passed over: there is no `{program}`");
    }
    is_there
}

/// A program compiled into a folder of its own; `None` if that cannot be, or it cannot be run.
fn built(compiler: &str, emulator: &str, source: &str, flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    if !has(compiler) || !has(emulator) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let status = Command::new(compiler).arg("-o").arg(&program).arg(source).args(flags).status().unwrap();
    if !status.success() {
        eprintln!("passed over: `{compiler}` cannot make programs of this kind");
        return None;
    }
    Some((folder, program))
}

fn native(source: &str, flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    built("gcc", "qemu-x86_64", source, flags)
}

const FREESTANDING: &[&str] = &["-nostdlib", "-static"];

fn job(folder: &TempDir, command: &[&str], program: &Path) -> Job {
    let mut all: Vec<OsString> = vec![program.into()];
    all.extend(command.iter().map(OsString::from));
    Job {
        command: all,
        output: Some(folder.path().join("out")),
        replace: Replace::Allowed,
        limits: Limits::default(),
        follows_forks: false,
        pack: PackOptions { packing: Packing::Zip, level: Some(1) },
    }
}

/// The entries of each thread's file.
fn entries(path: &Path) -> Vec<Vec<Entry>> {
    let source = Source::open(path).unwrap();
    let trace = DRMEMTRACE.open(&source, &OpenOptions::default()).unwrap();
    let shards = trace.shards().len();
    (0..shards as u32)
        .map(|shard| {
            let mut reader = trace.scan(&Scan::new(ShardId(shard)).columns(Columns::RAW)).unwrap();
            let mut all = Vec::new();
            while let Some(batch) = reader.read().unwrap() {
                all.extend_from_slice(Entry::slice(batch.raw()).0);
            }
            all
        })
        .collect()
}

/// Everything that `check` finds wrong.
fn wrong(path: &Path) -> Vec<String> {
    let trace = DRMEMTRACE.open(&Source::open(path).unwrap(), &OpenOptions::default()).unwrap();
    let report: CheckReport = report_of(&CHECK, &Args::default(), &*trace);
    let findings = report.findings();
    findings.iter().filter(|finding| finding.severity == Severity::Error).map(ToString::to_string).collect()
}

fn n(entries: &[Entry], kind: Type) -> usize {
    entries.iter().filter(|entry| entry.kind() == kind).count()
}

fn n_instrs(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| entry.kind().is_instr()).count()
}

fn markers(entries: &[Entry], kind: Marker) -> Vec<u64> {
    entries.iter().filter(|entry| entry.is_marker(kind)).map(|entry| entry.addr.get()).collect()
}

fn record(job: &Job) -> Summary {
    qemu::record(job).unwrap()
}

#[test]
fn instructions_and_accesses_are_those_of_the_listing() {
    let Some((folder, program)) = native("counted.s", FREESTANDING) else { return };
    let summary = record(&job(&folder, &[], &program));
    assert_eq!(summary.status.code(), Some(0));
    let threads = entries(&summary.path);
    let [thread] = &threads[..] else { panic!("{} threads", threads.len()) };
    assert_eq!(n_instrs(thread), 5015);
    assert_eq!(summary.processes[0].instrs, 5015);
    assert_eq!(n(thread, Type::INSTR_NO_FETCH), 4);
    assert_eq!((n(thread, Type::READ), n(thread, Type::WRITE)), (1008, 1007));
    assert_eq!((n(thread, Type::INSTR_TAKEN_JUMP), n(thread, Type::INSTR_UNTAKEN_JUMP)), (999, 1));
    assert_eq!(thread.iter().filter(|entry| entry.kind() == Type::READ && entry.size.get() == 16).count(), 1);
    assert_eq!(markers(thread, Marker::SYSCALL), [231]);
    assert_eq!(markers(thread, Marker::SKIPPED_MEMREF), [0]);
    assert_eq!(markers(thread, Marker::FUNC_ARG)[0], 0);
    assert_eq!(wrong(&summary.path), [] as [&str; 0]);
}

#[test]
fn limits_are_exact_for_one_thread() {
    let Some((folder, program)) = native("counted.s", FREESTANDING) else { return };
    let whole = entries(&record(&job(&folder, &[], &program)).path).remove(0);
    let pcs = |entries: &[Entry]| -> Vec<u64> {
        entries.iter().filter(|entry| entry.kind().is_instr()).map(|entry| entry.addr.get()).collect()
    };
    let limits = Limits { start_after: Some(100), most_instrs: Some(777), ..Limits::default() };
    let part = record(&Job { limits, ..job(&folder, &[], &program) });
    assert!(part.is_limited);
    assert_eq!(pcs(&entries(&part.path)[0]), pcs(&whole)[100..877]);
    assert_eq!(wrong(&part.path), [] as [&str; 0]);

    let limits = Limits { windows: Some((10, 1000)), ..Limits::default() };
    let part = record(&Job { limits, ..job(&folder, &[], &program) });
    let sampled: Vec<u64> = pcs(&whole).chunks(1000).flat_map(|all| all.iter().take(10).copied()).collect();
    assert_eq!(pcs(&entries(&part.path)[0]), sampled);
    assert_eq!(wrong(&part.path), [] as [&str; 0]);

    let limits = Limits { start_at: Some("leaf".to_owned()), ..Limits::default() };
    let error = qemu::record(&Job { limits, ..job(&folder, &[], &program) }).unwrap_err();
    assert!(error.to_string().contains("no function `leaf`"), "a label is none: {error}");
}

#[test]
fn every_thread_writes_what_the_program_says() {
    let Some((folder, program)) = native("threads.c", &["-O1", "-pthread"]) else { return };
    let said = folder.path().join("rows");
    let limits = Limits { start_at: Some("work".to_owned()), ..Limits::default() };
    for limits in [Limits::default(), limits] {
        let summary = record(&Job { limits, ..job(&folder, &[said.to_str().unwrap()], &program) });
        assert_eq!(summary.status.code(), Some(7));
        let rows = std::fs::read_to_string(&said).unwrap();
        let rows: Vec<u64> = rows.lines().map(|row| u64::from_str_radix(row, 16).unwrap()).collect();
        let mut written: BTreeMap<u64, usize> = BTreeMap::new();
        for thread in entries(&summary.path) {
            for entry in thread.iter().filter(|entry| entry.kind() == Type::WRITE) {
                *written.entry(entry.addr.get()).or_default() += 1;
            }
        }
        for row in &rows {
            assert!((0..64).all(|i| written.get(&(row + 8 * i)) == Some(&1000)), "{row:#x}");
        }
        assert_eq!(wrong(&summary.path), [] as [&str; 0]);
    }
}

#[test]
fn signals_are_interruptions_that_return_where_they_came_from() {
    let Some((folder, program)) = native("signals.c", &["-O1"]) else { return };
    let summary = record(&job(&folder, &[], &program));
    assert_eq!(summary.status.code(), Some(0));
    let thread = entries(&summary.path).remove(0);
    let signals = markers(&thread, Marker::SIGNAL_NUMBER);
    let count = |signal| signals.iter().filter(|number| **number == signal).count();
    assert!(count(14) >= 20, "{signals:?}");
    assert_eq!((count(10), count(11), count(8)), (5, 1, 1));
    assert_eq!(markers(&thread, Marker::UNCOMPLETED_INSTRUCTION).len(), 2);
    assert!(!markers(&thread, Marker::KERNEL_EVENT).contains(&0));
    assert_eq!(wrong(&summary.path), [] as [&str; 0]);
}

#[test]
fn a_killed_program_leaves_a_trace_that_ends_where_it_was_killed() {
    let Some((folder, program)) = native("forever.c", &["-O1"]) else { return };
    for round in 0..5_u64 {
        let said = folder.path().join(format!("pid{round}"));
        let job = job(&folder, &[said.to_str().unwrap()], &program);
        let summary = std::thread::scope(|scope| {
            scope.spawn(|| {
                let pid = loop {
                    let text = std::fs::read_to_string(&said).unwrap_or_default();
                    if let Ok(pid) = text.trim().parse::<u32>() {
                        break pid;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                };
                std::thread::sleep(Duration::from_micros(300 * round * round));
                Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            });
            record(&job)
        });
        assert_eq!(summary.status.signal(), Some(9));
        assert_eq!(wrong(&summary.path), [] as [&str; 0], "round {round}");
    }
}

#[test]
fn a_fork_is_left_out_or_has_a_folder_of_its_own() {
    let Some((folder, program)) = native("forks.c", &["-O1"]) else { return };
    let alone = record(&job(&folder, &[], &program));
    assert_eq!((alone.status.code(), alone.processes.len()), (Some(3), 1));
    let both = record(&Job { follows_forks: true, ..job(&folder, &[], &program) });
    assert_eq!((both.status.code(), both.processes.len()), (Some(3), 2));
    for process in &both.processes {
        let path = both.path.join(&process.folder);
        assert_eq!(wrong(&path), [] as [&str; 0]);
        let all = entries(&path);
        assert!(all.iter().all(|thread| thread.contains(&Entry::new(Type::PID, 4, u64::from(process.pid)))));
    }
    let child = &both.processes[1];
    assert!(child.instrs > 5000 * 3, "{}", child.instrs);
}

#[test]
fn programs_of_the_system_are_recorded() {
    if !has("qemu-x86_64") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for command in [&["ls", "-d", "/"][..], &["python3", "-c", "x = sum(range(1000))"]] {
        if !has(command[0]) {
            continue;
        }
        // Starting Python takes more than a hundred million.
        let limits = Limits { most_instrs: Some(5_000_000), ..Limits::default() };
        let summary = record(&Job { limits, ..job(&folder, &command[1..], Path::new(command[0])) });
        assert_eq!(summary.status.code(), Some(0));
        assert!((100_000..=5_000_000).contains(&summary.processes[0].instrs));
        assert_eq!(wrong(&summary.path), [] as [&str; 0], "{command:?}");
    }
}

#[test]
fn programs_of_other_architectures_are_recorded() {
    if let Some((folder, program)) =
        built("aarch64-linux-gnu-gcc", "qemu-aarch64", "counted.aarch64.s", FREESTANDING)
    {
        let summary = record(&job(&folder, &[], &program));
        let thread = entries(&summary.path).remove(0);
        assert_eq!(n_instrs(&thread), 5010);
        assert_eq!((n(&thread, Type::READ), n(&thread, Type::WRITE)), (1002, 1000));
        assert_eq!(wrong(&summary.path), [] as [&str; 0]);
    }
    for (compiler, emulator, flags) in [
        ("aarch64-linux-gnu-gcc", "qemu-aarch64", &["-O1", "-static"][..]),
        ("gcc", "qemu-i386", &["-O1", "-m32", "-static"][..]),
    ] {
        if let Some((folder, program)) = built(compiler, emulator, "signals.c", flags) {
            let summary = record(&job(&folder, &[], &program));
            assert_eq!(summary.status.code(), Some(0), "{emulator}");
            assert_eq!(wrong(&summary.path), [] as [&str; 0], "{emulator}");
        }
    }
}
