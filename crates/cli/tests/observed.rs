//! Events of unmodified programs while they run: the same as of their recordings, with the functions and the synchronization
//! that only a running program shows.

// Helpers of a test may panic like the test itself.
use crate::record::can_record;
use assert_cmd::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn quipu(folder: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::cargo_bin("quipu").unwrap().current_dir(folder).args(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Compiles a program.
fn compiled(folder: &Path, name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&file, source).unwrap();
    let mut compiler = std::process::Command::new("cc");
    compiler.args(options).arg(&file).arg("-o").arg(&program).arg("-lpthread");
    assert!(compiler.status().unwrap().success());
    program
}

/// A program without libraries: it executes the same instructions wherever it runs.
const SUMS: &str = r#"
static volatile long cells[64];

__attribute__((noinline)) static long sum(long n) {
    long all = 0;
    for (long i = 0; i < n; i++) all += cells[i & 63] * i;
    return all;
}

void _start(void) {
    for (long i = 0; i < 64; i++) cells[i] = i;
    long all = 0;
    for (long i = 0; i < 10; i++) all += sum(1000);
    cells[0] = all;
    __asm__ volatile("syscall" : : "a"(231L), "D"(3L) : "rcx", "r11", "memory");
    for (;;) ;
}
"#;

fn sums(folder: &Path) -> PathBuf {
    let options = ["-O1", "-static", "-nostdlib", "-fno-stack-protector", "-fno-tree-vectorize"];
    compiled(folder, "sums", SUMS, &options)
}

/// The counts that the back end wrote into a folder.
fn counts(out: &Path) -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string(out.join("simplecount.txt")).unwrap();
    let line = |line: &str| {
        let (name, n) = line.strip_prefix("[SimpleCount] Total ")?.split_once("Events:")?;
        Some((name.trim().to_owned(), n.trim().parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The counts of a running program.
fn observed(folder: &Path, with: &[&str], program: &[&str]) -> (Option<i32>, BTreeMap<String, u64>, String) {
    let args =
        [&["run", "--backend", "simplecount", "--force", "-o", "live"], with, &["--"], program].concat();
    let (code, _, said) = quipu(folder, &args);
    (code, counts(&folder.join("live")), said)
}

#[test]
fn a_program_has_the_same_counts_while_it_runs_as_in_its_recording() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = sums(folder.path());
    let program = program.to_str().unwrap();
    let (code, live, said) = observed(folder.path(), &["--with", "qemu"], &[program]);
    assert_eq!(code, Some(3), "the program's own: {said}");
    let (code, _, said) = quipu(folder.path(), &["record", "-q", "-o", "trace", "--", program]);
    assert_eq!(code, Some(3), "{said}");
    let (code, _, said) =
        quipu(folder.path(), &["run", "-q", "--backend", "simplecount", "trace", "-o", "stored"]);
    assert_eq!(code, Some(0), "{said}");
    let stored = counts(&folder.path().join("stored"));
    for name in ["Instr", "Memory", "ReadMem", "WriteMem", "IOP", "FLOP", "CntlFlow", "Compute"] {
        assert_eq!(live[name], stored[name], "{name}: {live:?} {stored:?}");
    }
    assert_eq!((live["ReadMem"] / 10_000, live["WriteMem"] / 64), (1, 1), "{live:?}");

    // Valgrind sees the same accesses of the same instructions.
    if can_record("valgrind") {
        let (code, by_valgrind, said) = observed(folder.path(), &["--with", "valgrind"], &[program]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("threads, which are unknown"), "{said}");
        for name in ["Instr", "Memory", "ReadMem", "WriteMem"] {
            assert_eq!(live[name], by_valgrind[name], "{name}: {live:?} {by_valgrind:?}");
        }
        assert_eq!((by_valgrind["IOP"], by_valgrind["CntlFlow"]), (0, 0));
    }
}

#[test]
fn events_are_stored_as_they_are_counted() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = sums(folder.path());
    let program = program.to_str().unwrap();
    let (_, live, _) = observed(folder.path(), &["--with", "qemu"], &[program]);
    for (events, file) in [("--events", "all.prism"), ("--events=communication", "few.quipu")] {
        let record = ["record", events, "--with", "qemu", "-o", file, "--", program];
        let (code, _, said) = quipu(folder.path(), &record);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains("qemu gives no events of: accesses of system calls"), "{said}");
        let (code, _, said) = quipu(folder.path(), &["check", "-q", file]);
        assert_eq!(code, Some(0), "{said}");
        let (code, _, said) =
            quipu(folder.path(), &["run", "-q", "--force", "--backend", "simplecount", file, "-o", "again"]);
        assert_eq!(code, Some(0), "{said}");
        let again = counts(&folder.path().join("again"));
        for name in ["Instr", "ReadMem", "WriteMem", "IOP", "FLOP", "Context"] {
            assert_eq!(live[name], again[name], "{file}: {name}: {live:?} {again:?}");
        }
    }
    let refused = quipu(folder.path(), &["record", "--events=much", "-o", "x.prism", "--", program]);
    assert_eq!(refused.0, Some(2), "{refused:?}");
    let refused = quipu(folder.path(), &["record", "--events", "--", program]);
    assert_eq!(refused.0, Some(2), "{refused:?}");
    let refused = quipu(folder.path(), &["record", "--events", "-o", "-", "--", program]);
    assert!(refused.0 == Some(2) && refused.2.contains("give the name of a file"), "{refused:?}");
}

/// Two threads that lock, wait, and meet at a barrier; their creator joins them.
const THREADS: &str = r"
#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int n_ready;

static void *work(void *unused) {
    for (int i = 0; i < 5; i++) {
        pthread_mutex_lock(&mutex);
        n_ready++;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    }
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&barrier, 0, 2);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
";

#[test]
fn calls_of_the_thread_library_are_synchronization() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "threads", THREADS, &["-O1"]);
    let program = program.to_str().unwrap();
    let (code, live, said) = observed(folder.path(), &["--with", "qemu"], &[program]);
    assert_eq!(code, Some(0), "{said}");
    for (name, n) in [("Spawn", 2), ("Join", 2), ("Barrier", 2), ("Signal", 10), ("Wait", 0)] {
        assert_eq!(live[name], n, "{name}: {live:?} {said}");
    }
    // The loader has a lock of its own.
    assert!(live["Lock"] >= 10 && live["Lock"] == live["Unlock"], "{live:?}");
    // The back end takes the k-th creation for that of thread k + 1, and the objects of locks and barriers are the same.
    let (code, _, said) = quipu(
        folder.path(),
        &["run", "-q", "--backend", "stgen,l=textv2", "--with", "qemu", "-o", "st", "--", program],
    );
    assert_eq!(code, Some(0), "{said}");
    let said = std::fs::read_to_string(folder.path().join("st/sigil.pthread.out")).unwrap();
    let (created, barriers): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.starts_with("##"));
    assert_eq!(created.len(), 2, "{said}");
    assert!(barriers.len() == 1 && barriers[0].ends_with(",2,3"), "{said}");
    // Threads are joined by the handles with which they were created.
    let of_thread = |thread: u32| -> Vec<String> {
        let file = folder.path().join(format!("st/sigil.events.out-{thread}.gz"));
        let output = std::process::Command::new("gzip").arg("-dc").arg(file).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter_map(|line| line.strip_prefix("^ ")).map(str::to_owned).collect()
    };
    let handles = |of: &[String], kind: &str| -> Vec<String> {
        of.iter().filter_map(|line| line.strip_prefix(kind)).map(str::to_owned).collect()
    };
    let creator = of_thread(1);
    assert_eq!(handles(&creator, "3^"), handles(&creator, "4^"), "{creator:?}");
    for thread in [2, 3] {
        let all = of_thread(thread);
        let (locked, unlocked) = (handles(&all, "1^"), handles(&all, "2^"));
        assert_eq!((locked.len(), &locked), (5, &unlocked), "{all:?}");
        assert!(locked.iter().all(|object| *object == locked[0]), "{all:?}");
        assert_eq!(all.last().map(|line| line.starts_with("5^")), Some(true), "{all:?}");
    }
}

/// Two threads with as many accesses as said.
const TWO_LOOPS: &str = r"
#include <pthread.h>
#include <stdlib.h>

static volatile long cells[2][1000];
static long n;

static void *work(void *which) {
    for (long i = 0; i < n; i++) cells[(long)which][i % 1000] = i;
    return 0;
}

int main(int argc, char **argv) {
    pthread_t thread;
    n = argc > 1 ? atol(argv[1]) : 0;
    pthread_create(&thread, 0, work, 0);
    work((void *)1);
    pthread_join(thread, 0);
    return 0;
}
";

#[test]
fn if_a_program_or_its_analysis_is_killed_both_end() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "loops", TWO_LOOPS, &["-O1"]);
    let mut rng = quipu_testkit::Rng::new(7);
    let is_full = std::env::var("QUIPU_RECORD").is_ok_and(|how| how == "full");
    for nth in 0..if is_full { 50 } else { 6 } {
        let (kills_program, kills_run) = [(true, false), (false, true), (true, true)][nth % 3];
        // A program whose analysis was killed has to end by itself.
        let n = if kills_program { "100000000000" } else { "20000000" };
        let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin("quipu"));
        run.current_dir(folder.path()).args(["run", "-q", "--backend", "simplecount", "--with", "qemu"]);
        run.args(["--force", "-o", "out", "--"]).arg(&program).arg(n);
        let mut run =
            run.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300 + rng.below(500)));
        let children =
            std::process::Command::new("pgrep").args(["-P", &run.id().to_string()]).output().unwrap();
        let children = String::from_utf8(children.stdout).unwrap();
        if kills_run {
            run.kill().unwrap();
        }
        for child in children.lines().filter(|_| kills_program) {
            std::process::Command::new("kill").args(["-9", child]).status().unwrap();
        }
        let start = std::time::Instant::now();
        let patience = std::time::Duration::from_secs(60);
        let status = loop {
            if let Some(status) = run.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < patience, "kill {nth}: the analysis does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        if !kills_run && !children.is_empty() {
            assert_eq!(status.code(), Some(128 + 9), "kill {nth}: the program's own");
        }
        for child in children.lines() {
            let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            while state().split(") ").nth(1).is_some_and(|rest| !rest.starts_with('Z')) {
                assert!(start.elapsed() < patience, "kill {nth}: the program does not end");
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }
}

/// A signal handler jumps out of a wait; the locks after it are seen.
const JUMP_OUT_OF_A_WAIT: &str = r"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

static sigjmp_buf there;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void handler(int signal) { (void)signal; siglongjmp(there, 1); }

int main(void) {
    signal(SIGALRM, handler);
    if (!sigsetjmp(there, 1)) {
        pthread_mutex_lock(&mutex);
        alarm(1);
        pthread_cond_wait(&never, &mutex);
    }
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&other);
        pthread_mutex_unlock(&other);
    }
    return 0;
}
";

#[test]
fn a_jump_out_of_a_wait_hides_no_later_synchronization() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "jump", JUMP_OUT_OF_A_WAIT, &["-O1"]);
    let (code, live, said) = observed(folder.path(), &["--with", "qemu"], &[program.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    assert!(live["Lock"] >= 101 && live["Unlock"] >= 100, "{live:?}");
}

/// Calls that are left by a long jump, and by a signal handler's return.
const JUMPS: &str = r"
#include <setjmp.h>
#include <signal.h>

static jmp_buf there;
static volatile int n;

__attribute__((noinline)) void deep(void) { n++; longjmp(there, 1); }
__attribute__((noinline)) void middle(void) { deep(); n++; }
__attribute__((noinline)) void handler(int signal) { n += signal; }
__attribute__((noinline)) void last(void) { n++; }
__attribute__((noinline)) void tail(void) { n++; last(); }
__attribute__((noinline)) void outer(void) {
    if (!setjmp(there)) middle();
    raise(SIGUSR1);
    n++;
}

int main(void) {
    signal(SIGUSR1, handler);
    outer();
    tail();
    return 0;
}
";

#[test]
fn functions_are_entered_and_left_in_pairs() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = compiled(folder.path(), "jumps", JUMPS, &["-O2", "-fno-inline", "-fno-builtin"]);
    let record =
        ["record", "-q", "--events", "--with", "qemu", "-o", "x.prism", "--", program.to_str().unwrap()];
    let (code, _, said) = quipu(folder.path(), &record);
    assert_eq!(code, Some(0), "{said}");
    let (code, text, said) = quipu(folder.path(), &["view", "x.prism"]);
    assert_eq!(code, Some(0), "{said}");
    // The names of this program's functions, as they are entered and left.
    let mut passed = Vec::new();
    for line in text.lines() {
        let is_enter = line.contains("enter");
        if !is_enter && !line.contains("exit") {
            continue;
        }
        let of = |name: &&&str| line.split_whitespace().any(|word| word.trim_matches('"') == **name);
        if let Some(name) = ["outer", "middle", "deep", "handler", "tail", "last"].iter().find(of) {
            passed.push(format!("{}{name}", if is_enter { '+' } else { '-' }));
        }
    }
    let expected = [
        "+outer", "+middle", "+deep", "+handler", "-handler", "-deep", "-middle", "-outer", "+tail", "-tail",
        "+last", "-last",
    ];
    assert_eq!(passed, expected);
}

#[test]
fn children_and_later_programs_are_observed_too() {
    if !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let answer = |follow: &[&str]| -> Value {
        let run = ["run", "--json", "--backend", "null", "--with", "qemu", "-o", "out", "--force"];
        let program = ["--", "sh", "-c", "(:); echo a word; exec true"];
        let (code, out, said) = quipu(folder.path(), &[&run, follow, &program].concat());
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("a word\n"), "the program's output is not the answer: {said}");
        serde_json::from_str(&out).unwrap()
    };
    let (alone, all) = (answer(&[]), answer(&["--follow-fork"]));
    assert_eq!((&alone["processes"], &all["processes"]), (&2.into(), &3.into()), "{alone} {all}");
    assert!(all["events"].as_u64() > alone["events"].as_u64(), "{alone} {all}");
    let notes = alone["notes"].to_string();
    assert!(notes.contains("1 process; `--follow-fork` observes them"), "{notes}");
}

#[test]
fn a_slow_back_end_loses_events_only_if_it_may() {
    if !cfg!(target_arch = "x86_64") || !can_record("qemu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = sums(folder.path());
    let program = program.to_str().unwrap();
    let (_, all, _) = observed(folder.path(), &["--with", "qemu"], &[program]);
    let (code, some, said) = observed(folder.path(), &["--with", "qemu", "--drop"], &[program]);
    assert_eq!(code, Some(3), "{said}");
    // Whole blocks are lost, and all of their instructions are counted.
    let lost =
        said.lines().find_map(|line| line.strip_prefix("note: ")?.split_once(" instructions were left out"));
    let lost: u64 = lost.map_or(0, |(n, _)| n.replace(',', "").parse().unwrap());
    assert_eq!(some["Instr"] + lost, all["Instr"], "{said}");
}

#[test]
fn a_recording_of_dynamorio_becomes_events() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    crate::record::fake_dynamorio(&home);
    let run = |args: &[&str]| {
        let mut command = Command::cargo_bin("quipu").unwrap();
        command.current_dir(folder.path()).env("DYNAMORIO_HOME", &home).env("HOME_OF_FAKE", &home);
        let front = ["run", "--backend", "simplecount", "--with", "dynamorio"];
        command.args(front).args(args).args(["--", "sh", "-c", "exit 5"]).output().unwrap()
    };
    let output = run(&["-o", "out"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("dynamorio gives no events of: functions"), "{said}");
    assert_eq!(counts(&folder.path().join("out"))["Instr"], 133);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the recording is removed: {left:?}");
    assert_eq!(run(&["-o", "other", "--follow-fork"]).status.code(), Some(2));
}

#[test]
fn front_ends_that_cannot_be_used_have_one_clear_message() {
    let folder = tempfile::tempdir().unwrap();
    let say = |args: &[&str]| quipu(folder.path(), args);
    let run = |with: &str| say(&["run", "--backend", "null", "-o", "out", "--with", with, "--", "true"]);
    let (code, _, said) = run("magic");
    let expected = "error: `--with magic`: expected auto or one of qemu, tsan, dynamorio, valgrind\n";
    assert_eq!((code, said.as_str()), (Some(2), expected));
    let (code, _, said) = run("tsan");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("compile it with `quipu cc`"), "{said}");
    for (with, package) in
        [("valgrind", "apt-get install -y valgrind"), ("qemu", "apt-get install -y qemu-user")]
    {
        let mut command = Command::cargo_bin("quipu").unwrap();
        command.current_dir(folder.path()).env("PATH", folder.path());
        let args = ["run", "--backend", "null", "-o", "out", "--with", with, "--", "/bin/true"];
        let output = command.args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(package), "{said}");
    }
    assert!(!folder.path().join("out").exists());
    let (code, list, _) = say(&["run", "--list"]);
    assert_eq!(code, Some(0));
    assert!(
        list.contains("  events: instructions and accesses; none of: threads, which are unknown"),
        "{list}"
    );
    assert_eq!(say(&["run", "--with", "qemu", "x.trace"]).0, Some(2), "without a program");
}
