//! Records compiled programs under the emulator and compares counts that are known from their sources.
//!
//! Without `qemu-x86_64` or a compiler, the tests print a note and pass. With `QUIPU_RECORD=full`, eight threads make ten
//! million accesses each, and fifty programs are killed.

// The helpers of a test may panic as the test may.
#![allow(clippy::unwrap_used)]

use quipu_capture::limits::{Code, Limits};
use quipu_capture::qemu;
use quipu_capture::record::{Job, Next, Prints, Summary};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::{CHECK, CheckReport};
use quipu_drmemtrace::record::{Entry, Marker, Type};
use quipu_model::fresh::Replace;
use quipu_model::{Columns, Format, Given, OpenOptions, Report, Scan, Severity, ShardId};
use quipu_source::{PackOptions, Packing, Source};
use quipu_testkit::{Rng, report_of};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Whether to run the full-size tests, regardless of their duration.
fn is_full() -> bool {
    std::env::var("QUIPU_RECORD").is_ok_and(|how| how == "full")
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("passed over: there is no `{program}`");
    }
    is_there
}

/// Compiles a program into a temporary folder; `None` if the compiler or the emulator is missing.
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
        prints: Prints::default(),
        limits: Limits::default(),
        follows_forks: false,
        pack: PackOptions { packing: Packing::Zip, level: Some(1) },
        n_bytes: Arc::default(),
    }
}

/// The entries of each thread's file.
fn entries(path: &Path) -> Vec<Vec<Entry>> {
    let mut all: Vec<Vec<Entry>> = Vec::new();
    each_part(path, |shard, part| {
        all.resize_with((shard + 1).max(all.len()), Vec::new);
        all[shard].extend_from_slice(part);
    });
    all
}

/// Calls `body` with the number of each file and parts of its entries, in order.
fn each_part(path: &Path, mut body: impl FnMut(usize, &[Entry])) {
    let source = Source::open(path).unwrap();
    let trace = DRMEMTRACE.open(&source, &OpenOptions::default()).unwrap();
    for shard in 0..trace.shards().len() {
        let scan = Scan::new(ShardId(u32::try_from(shard).unwrap())).columns(Columns::RAW);
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            body(shard, Entry::slice(batch.raw()).0);
        }
    }
}

/// All errors that `check` finds.
fn wrong(path: &Path) -> Vec<String> {
    let trace = DRMEMTRACE.open(&Source::open(path).unwrap(), &OpenOptions::default()).unwrap();
    let report: CheckReport = report_of(&CHECK, &Given::default(), &*trace);
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
fn the_files_of_all_code_are_listed_with_their_places() {
    let Some((folder, program)) = native("counted.s", FREESTANDING) else { return };
    let summary = record(&job(&folder, &[], &program));
    let trace = DRMEMTRACE.open(&Source::open(&summary.path).unwrap(), &OpenOptions::default()).unwrap();
    let modules = trace.modules();
    let [own] = &modules[..] else { panic!("{modules:?}") };
    assert_eq!(own.path, program.canonicalize().unwrap());
    let all = entries(&summary.path);
    let mut instrs = all[0].iter().filter(|entry| entry.kind().is_instr());
    assert!(instrs.all(|entry| own.addresses.contains(&entry.addr.get())), "{own:?}");
    // The loader runs first, and is listed after the program that it loads.
    let Some((folder, program)) = native("forks.c", &["-O1"]) else { return };
    let summary = record(&job(&folder, &[], &program));
    let trace = DRMEMTRACE.open(&Source::open(&summary.path).unwrap(), &OpenOptions::default()).unwrap();
    let modules = trace.modules();
    assert_eq!(modules[0].path, program.canonicalize().unwrap());
    assert!(modules.len() >= 3, "program, loader and C library: {modules:?}");
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
fn windows_of_any_size_pass_the_check() {
    let Some((folder, program)) = native("forks.c", &["-O1", "-static"]) else { return };
    for windows in [(1000, 1000), (1, 7), (3, 10), (100, 1000)] {
        let limits = Limits { windows: Some(windows), ..Limits::default() };
        let part = record(&Job { limits, ..job(&folder, &[], &program) });
        let has_calls = !markers(&entries(&part.path)[0], Marker::SYSCALL).is_empty();
        assert!(has_calls || windows.0 < windows.1, "windows without gaps hold all calls");
        assert_eq!(wrong(&part.path), [] as [&str; 0], "{windows:?}");
    }
}

#[test]
fn functions_start_and_stop_recording_each_time() {
    let Some((folder, program)) = native("phases.c", &["-O1", "-static"]) else { return };
    let stores = |limits: Limits| {
        let part = record(&Job { limits, ..job(&folder, &[], &program) });
        assert_eq!(wrong(&part.path), [] as [&str; 0]);
        let thread = entries(&part.path).remove(0);
        let of_size = |size: u16| {
            let is_it = |entry: &&Entry| entry.kind() == Type::WRITE && entry.size.get() == size;
            thread.iter().filter(is_it).count()
        };
        (of_size(2), of_size(1), markers(&thread, Marker::WINDOW_ID), part.is_limited)
    };
    let (start_at, stop_at) = (Some("begin".to_owned()), Some("end".to_owned()));
    let both = Limits { start_at, stop_at: stop_at.clone(), ..Limits::default() };
    let (inside, outside, mut windows, is_limited) = stores(both);
    windows.dedup();
    assert_eq!((inside, outside, &windows[..], is_limited), (15, 0, &[0, 1, 2][..], false));
    let (inside, outside, _, is_limited) = stores(Limits { start_at: stop_at, ..Limits::default() });
    // The end of the program follows.
    assert!((10..15).contains(&inside) && outside >= 21 && !is_limited, "{inside} {outside}");
    let (inside, _, windows, is_limited) =
        stores(Limits { stop_at: Some("end".to_owned()), ..Limits::default() });
    assert!(inside >= 5 && windows.is_empty() && is_limited, "{inside} {windows:?}");
    let late = Limits { start_after_time: Some(Duration::from_secs(3600)), ..Limits::default() };
    let error = qemu::record(&Job { limits: late, ..job(&folder, &[], &program) }).unwrap_err();
    assert_eq!(error.advice(), Some("the program ended before recording was started"));
    let short = Limits { stop_after_time: Some(Duration::ZERO), ..Limits::default() };
    let error = qemu::record(&Job { limits: short, ..job(&folder, &[], &program) }).unwrap_err();
    assert!(error.advice().unwrap().starts_with("the time to stop recording came"), "{error}");
}

#[test]
fn code_is_left_out_by_its_names() {
    let Some((folder, program)) = native("phases.c", &["-O1"]) else { return };
    let name = program.file_name().unwrap().to_str().unwrap().to_owned();
    let module = |name: &str| vec![Code::Module(name.to_owned())];
    let function = |name: &str| vec![Code::Function(name.to_owned())];
    let recorded = |limits: Limits| {
        let part = record(&Job { limits, ..job(&folder, &[], &program) });
        assert_eq!(wrong(&part.path), [] as [&str; 0]);
        let thread = entries(&part.path).remove(0);
        let of_size = |size: u16| {
            let is_it = |entry: &&Entry| entry.kind() == Type::WRITE && entry.size.get() == size;
            thread.iter().filter(is_it).count()
        };
        (of_size(2), of_size(1), n_instrs(&thread))
    };
    let whole = recorded(Limits::default());
    let own = recorded(Limits { only: module(&name), ..Limits::default() });
    // One byte is written by the program's own code for its end, which the compiler adds.
    assert_eq!((own.0, own.1), (15, 22));
    assert!(own.2 < 1000 && whole.2 > 10_000, "{own:?} {whole:?}");
    let main = recorded(Limits { only: function("main"), ..Limits::default() });
    assert_eq!((main.0, main.1), (15, 21));
    assert!(main.2 < own.2, "{main:?} {own:?}");
    let both = Limits { only: module(&name), skip: function("main"), ..Limits::default() };
    let others = recorded(both);
    // One instruction after each return to what is left out belongs to it.
    assert!(others.0 <= 3 && others.1 <= 4 && others.2 > 0, "{others:?}");
    let without = recorded(Limits { skip: module("libc"), ..Limits::default() });
    assert!(without.2 < whole.2 && without.0 >= 15, "{without:?} {whole:?}");
    let none = Limits { only: module("nowhere"), ..Limits::default() };
    let error = qemu::record(&Job { limits: none, ..job(&folder, &[], &program) }).unwrap_err();
    assert_eq!(error.advice(), Some("no loaded file is called `nowhere`"));
    let known = Limits { only: function("main"), skip: module("libc"), ..Limits::default() };
    assert!(record(&Job { limits: known, ..job(&folder, &[], &program) }).warnings.is_empty());
    let (only, skip) = ([function("main"), function("no_such")].concat(), module("libnone"));
    let misspelt = Limits { only, skip, stop_at: Some("none".to_owned()), ..Limits::default() };
    let part = record(&Job { limits: misspelt, ..job(&folder, &[], &program) });
    let names = ["has the function `no_such`", "is called `libnone`", "has the function `none`"];
    assert_eq!(part.warnings, names.map(|name| format!("no loaded file {name}")));
}

#[test]
fn all_functions_of_a_name_are_named() {
    let other = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/other_part.c");
    let Some((folder, program)) = native("parts.c", &["-O1", other.to_str().unwrap()]) else { return };
    let stores = |limits: Limits| {
        let part = record(&Job { limits, ..job(&folder, &[], &program) });
        let thread = entries(&part.path).remove(0);
        let of_size = |size: u16| {
            let is_it = |entry: &&Entry| entry.kind() == Type::WRITE && entry.size.get() == size;
            thread.iter().filter(is_it).count()
        };
        [of_size(2), of_size(1)]
    };
    let named = || vec![Code::Function("begin_part".to_owned())];
    assert_eq!(stores(Limits { only: named(), ..Limits::default() }), [5, 7]);
    let own = vec![Code::Module("program".to_owned())];
    // The instruction after each call to what is left out belongs to the code that is kept, and so does a byte that the
    // program writes at its end.
    let [shorts, bytes] = stores(Limits { only: own, skip: named(), ..Limits::default() });
    assert!(shorts <= 1 && bytes <= 2, "{shorts} {bytes}");
}

#[test]
fn no_instruction_is_lost_behind_an_access_that_the_emulator_does_not_report() {
    // prefetcht0; jmp *%rax and clflush; mov; jmp *%rax, a thousand times.
    let x86 = native("unreported.s", FREESTANDING);
    let gcc = "aarch64-linux-gnu-gcc";
    // prfm, dc zva and ld1b of SVE before a return, with a handler for faults and without; pairs and structures.
    let aarch64 = built(gcc, "qemu-aarch64", "unreported.aarch64.s", FREESTANDING);
    if let Some((folder, program)) = x86 {
        let summary = record(&job(&folder, &[], &program));
        let thread = entries(&summary.path).remove(0);
        assert_eq!(n_instrs(&thread), 11_004);
        assert_eq!(markers(&thread, Marker::SKIPPED_MEMREF).len(), 2000);
        assert!(markers(&thread, Marker::KERNEL_XFER).is_empty());
        assert_eq!(wrong(&summary.path), [] as [&str; 0]);
    }
    if let Some((folder, program)) = aarch64 {
        let summary = record(&job(&folder, &[], &program));
        assert_eq!(summary.status.code(), Some(0));
        let thread = entries(&summary.path).remove(0);
        assert_eq!(n_instrs(&thread), 24_011);
        assert!(markers(&thread, Marker::UNCOMPLETED_INSTRUCTION).is_empty());
        assert!(markers(&thread, Marker::KERNEL_XFER).is_empty());
        let sizes = |kind| -> BTreeMap<u16, usize> {
            let of_kind = thread.iter().filter(|entry| entry.kind() == kind);
            of_kind.fold(BTreeMap::new(), |mut sizes, entry| {
                *sizes.entry(entry.size.get()).or_default() += 1;
                sizes
            })
        };
        // As the listing states at each instruction.
        assert_eq!(sizes(Type::READ), BTreeMap::from([(8, 4000), (16, 1000), (32, 1000)]));
        assert_eq!(sizes(Type::WRITE), BTreeMap::from([(4, 1000), (8, 2000), (32, 1000)]));
        assert_eq!(wrong(&summary.path), [] as [&str; 0]);
    }
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
fn no_access_of_eight_threads_is_lost_or_torn() {
    const THREADS: usize = 8;
    // Writes to each of 64 elements: ten million per thread, or fewer in the normal test run.
    let n_rounds = if is_full() { 156_250 } else { 1000 };
    let counts = [format!("-DTHREADS={THREADS}"), format!("-DROUNDS={n_rounds}")];
    let flags = ["-O1", "-pthread", counts[0].as_str(), counts[1].as_str()];
    let Some((folder, program)) = native("threads.c", &flags) else { return };
    let said = folder.path().join("rows");
    let summary = record(&job(&folder, &[said.to_str().unwrap()], &program));
    assert_eq!((summary.status.code(), summary.n_refused), (Some(7), 0));
    let rows = std::fs::read_to_string(&said).unwrap();
    let rows: Vec<u64> = rows.lines().map(|row| u64::from_str_radix(row, 16).unwrap()).collect();
    let (from, to) = (rows[0], rows[0] + (THREADS * 64 * 8) as u64);
    let mut written: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    each_part(&summary.path, |shard, part| {
        let writes = part.iter().filter(|entry| entry.kind() == Type::WRITE);
        for entry in writes.filter(|entry| (from..to).contains(&entry.addr.get())) {
            assert_eq!((entry.size.get(), entry.addr.get() % 8), (8, 0), "{entry:?}");
            let all = written.entry(shard).or_insert_with(|| vec![0; THREADS * 64]);
            all[((entry.addr.get() - from) / 8) as usize] += 1;
        }
    });
    assert_eq!(written.len(), THREADS, "each row has a thread");
    let mut met = [false; THREADS];
    for counts in written.values() {
        let row = counts.iter().position(|n| *n > 0).unwrap() / 64;
        let expected = (0..THREADS * 64).map(|at| if at / 64 == row { n_rounds } else { 0 });
        assert_eq!(*counts, expected.collect::<Vec<_>>());
        met[row] = true;
    }
    assert_eq!(met, [true; THREADS]);
    if is_full() {
        let instrs: u64 = summary.processes.iter().map(|process| process.instrs).sum();
        println!("{} accesses of {THREADS} threads, {instrs} instructions", THREADS * 64 * n_rounds);
    }
    assert_eq!(wrong(&summary.path), [] as [&str; 0]);
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
    let n_rounds = if is_full() { 50 } else { 5 };
    let mut random = Rng::new(7);
    let (mut least, mut most) = (u64::MAX, 0);
    for round in 0..n_rounds {
        let said = folder.path().join(format!("pid{round}"));
        let delay = Duration::from_micros(random.below(if is_full() { 300_000 } else { 6000 }));
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
                std::thread::sleep(delay);
                Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
            });
            record(&job)
        });
        assert_eq!(summary.status.signal(), Some(9));
        assert_eq!(wrong(&summary.path), [] as [&str; 0], "round {round}");
        let instrs = summary.processes[0].instrs;
        (least, most) = (least.min(instrs), most.max(instrs));
    }
    println!("killed {n_rounds} times, after {least} to {most} instructions");
}

#[test]
fn a_fork_is_left_out_or_has_a_folder_of_its_own() {
    let Some((folder, program)) = native("forks.c", &["-O1"]) else { return };
    let alone = record(&job(&folder, &[], &program));
    assert_eq!((alone.status.code(), alone.processes.len()), (Some(3), 1));
    assert_eq!(alone.processes[0].children_left_out, 1);
    let both = record(&Job { follows_forks: true, ..job(&folder, &[], &program) });
    assert_eq!((both.status.code(), both.processes.len()), (Some(3), 2));
    for process in &both.processes {
        assert_eq!(process.children_left_out, 0);
        let path = &process.path;
        assert_eq!(wrong(path), [] as [&str; 0]);
        let all = entries(path);
        assert!(all.iter().all(|thread| thread.contains(&Entry::new(Type::PID, 4, u64::from(process.pid)))));
    }
    let child = &both.processes[1];
    assert!(child.instrs > 5000 * 3, "{}", child.instrs);
}

#[test]
fn a_child_of_several_threads_may_start_threads() {
    let Some((folder, program)) = native("forked_threads.c", &["-O1", "-pthread"]) else { return };
    for follows_forks in [false, true] {
        let summary = record(&Job { follows_forks, ..job(&folder, &[], &program) });
        assert_eq!(summary.status.code(), Some(7), "how the child ended, followed: {follows_forks}");
        // The main thread and three others; the child's only thread and twelve of its own.
        let threads: Vec<u64> = summary.processes.iter().map(|process| process.threads).collect();
        assert_eq!(threads, if follows_forks { vec![4, 13] } else { vec![4] });
        for process in &summary.processes {
            assert_eq!(wrong(&process.path), [] as [&str; 0]);
        }
    }
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
        // Starting Python takes more than a hundred million instructions.
        let limits = Limits { most_instrs: Some(5_000_000), ..Limits::default() };
        let summary = record(&Job { limits, ..job(&folder, &command[1..], Path::new(command[0])) });
        assert_eq!(summary.status.code(), Some(0));
        assert!((100_000..=5_000_000).contains(&summary.processes[0].instrs));
        assert_eq!(wrong(&summary.path), [] as [&str; 0], "{command:?}");
    }
}

#[test]
fn programs_of_other_architectures_are_as_their_listings() {
    const FLAGS: [&str; 3] = ["-nostdlib", "-static", "-fuse-ld=lld"];
    if !has("ld.lld") {
        return;
    }
    // Instructions, reads and writes, as the sources state.
    for (target, emulator, source, instrs, reads, writes) in [
        ("aarch64-linux-gnu", "qemu-aarch64", "counted.aarch64.s", 5010, 1002, 1000),
        ("riscv64-linux-gnu", "qemu-riscv64", "counted.riscv64.s", 5008, 1000, 1000),
        ("armv7-linux-gnueabi", "qemu-arm", "counted.arm.s", 5008, 1000, 1000),
        ("i386-linux-gnu", "qemu-i386", "counted.i386.s", 5010, 1006, 1006),
    ] {
        let target = format!("--target={target}");
        let flags: Vec<&str> = FLAGS.into_iter().chain([target.as_str()]).collect();
        let Some((folder, program)) = built("clang", emulator, source, &flags) else { continue };
        let summary = record(&job(&folder, &[], &program));
        assert_eq!(summary.status.code(), Some(0), "{emulator}");
        let thread = entries(&summary.path).remove(0);
        let counted = (n_instrs(&thread), n(&thread, Type::READ), n(&thread, Type::WRITE));
        assert_eq!(counted, (instrs, reads, writes), "{emulator}");
        assert_eq!(markers(&thread, Marker::SYSCALL).len(), 1, "{emulator}");
        assert_eq!(wrong(&summary.path), [] as [&str; 0], "{emulator}");
    }
}

#[test]
fn signals_of_other_architectures_return_where_they_came_from() {
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

#[test]
fn a_program_that_goes_on_as_another_one_is_recorded_as_both() {
    let (Some((folder, first)), Some((other, second))) =
        (native("execs.c", &["-O1"]), native("counted.s", FREESTANDING))
    else {
        return;
    };
    let script = other.path().join("script");
    std::fs::write(&script, format!("#!{} -x\n", second.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (next, name) in [(&second, "program"), (&script, "script")] {
        let summary = record(&job(&folder, &[next.to_str().unwrap()], &first));
        assert_eq!(summary.status.code(), Some(0));
        let [one, two] = &summary.processes[..] else { panic!("{:?}", summary.processes) };
        assert_eq!((one.next, two.next), (Next::Recorded, Next::Nothing));
        assert_eq!((one.pid, &one.path), (two.pid, &summary.path));
        assert_eq!((two.name.as_str(), two.instrs), (name, 5015));
        for process in [one, two] {
            assert_eq!(wrong(&process.path), [] as [&str; 0]);
        }
        let failed = markers(&entries(&summary.path)[0], Marker::SYSCALL_FAILED);
        assert!(failed.contains(&2), "the first try: {failed:?}");
    }
}

#[test]
fn recording_begins_at_a_function_of_a_library() {
    let Some((folder, library)) = native("library.c", &["-O1", "-shared", "-fPIC"]) else { return };
    let (library, said) = (library.to_str().unwrap(), folder.path().join("said"));
    let Some((other, program)) = native("caller.c", &["-O1", library]) else { return };
    let limits = Limits { start_at: Some("twice".to_owned()), ..Limits::default() };
    let whole = record(&Job { limits: limits.clone(), ..job(&other, &[said.to_str().unwrap()], &program) });
    assert_eq!(whole.status.code(), Some(44));
    let instrs = |summary: &Summary| -> Vec<Entry> {
        let thread = entries(&summary.path).remove(0);
        thread.into_iter().filter(|entry| entry.kind().is_instr()).collect()
    };
    let whole = instrs(&whole);
    let at = std::fs::read_to_string(&said).unwrap();
    assert_eq!(whole[0].addr.get(), u64::from_str_radix(at.trim(), 16).unwrap());
    assert_eq!(whole.iter().filter(|instr| instr.addr == whole[0].addr).count(), 2);

    // All limits at once: each counts from the start of the one before. The instruction after a branch belongs to its
    // window.
    let limits = Limits { start_after: Some(10), windows: Some((3, 10)), most_instrs: Some(80), ..limits };
    let part = record(&Job { limits, ..job(&other, &[said.to_str().unwrap()], &program) });
    let (mut expected, mut n_counted, mut is_behind_branch) = (Vec::new(), 0, false);
    for (i, instr) in whole[10..].iter().enumerate().take_while(|(i, _)| *i < 10 * 27) {
        let is_counted = i % 10 < 3 && n_counted < 80;
        if is_counted || (is_behind_branch && n_counted < 80) {
            expected.push(*instr);
            n_counted += u32::from(is_counted);
            is_behind_branch = instr.kind() != Type::INSTR;
        } else {
            is_behind_branch = false;
        }
    }
    assert_eq!(n_counted, 80);
    assert_eq!(instrs(&part), expected);
    assert_eq!(wrong(&part.path), [] as [&str; 0]);

    let limits = Limits { start_at: Some("no_such_function".to_owned()), ..Limits::default() };
    let error =
        qemu::record(&Job { limits, ..job(&other, &[said.to_str().unwrap()], &program) }).unwrap_err();
    assert!(
        error.advice().unwrap_or_default().contains("never came to the function `no_such_function`"),
        "{error}"
    );
}
