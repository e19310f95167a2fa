//! Programs whose events back ends take while they run: the numbers are those of a recording. SPEC: prism.md#cells.

use crate::instrumented::*;
use std::io::Read;
use std::process::Output;
use std::time::Instant;

/// Longest time that anything here may take, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// One thread: loads, stores, functions that are left by jumps and tail calls, atomics, ranges, locks.
const ALONE: &str = r#"
    #include <pthread.h>
    #include <setjmp.h>
    #include <stdatomic.h>
    #include <string.h>
    struct big { char bytes[3000]; } one, other;
    static volatile int cells[1000];
    static atomic_long total;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static jmp_buf back;
    __attribute__((noinline)) static void fill(int n) { for (int i = 0; i < n; i++) cells[i % 1000] = i; }
    __attribute__((noinline)) void pass(int n) { fill(n); }
    __attribute__((noinline)) void deep(int n) { if (n == 0) longjmp(back, 1); deep(n - 1); cells[n] = n; }
    __attribute__((noinline)) void copy(void) { one = other; memset(&other, 1, sizeof other); }
    int main(int argc, char **argv) {
        (void)argv;
        pass(50000 + argc);
        if (!setjmp(back)) deep(20);
        copy();
        long old = 0;
        for (int i = 0; i < 100; i++) {
            pthread_mutex_lock(&lock);
            atomic_fetch_add(&total, 1);
            atomic_compare_exchange_strong(&total, &old, 5);
            pthread_mutex_unlock(&lock);
        }
        return 0;
    }"#;

/// Four threads that wait for each other in all ways, in an order that each of them keeps.
const THREADS: &str = r#"
    #include <pthread.h>
    #include <semaphore.h>
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_spinlock_t spin;
    static pthread_rwlock_t both = PTHREAD_RWLOCK_INITIALIZER;
    static pthread_barrier_t barrier;
    static sem_t posts;
    static long sum, cells[4][1000];
    static void *work(void *which) {
        long n = (long)which;
        for (long i = 0; i < 20000; i++) cells[n][i % 1000] += i;
        for (int i = 0; i < 50; i++) {
            pthread_mutex_lock(&lock);
            sum += n;
            pthread_mutex_unlock(&lock);
            pthread_rwlock_rdlock(&both);
            pthread_rwlock_unlock(&both);
        }
        pthread_barrier_wait(&barrier);
        pthread_spin_lock(&spin);
        sum++;
        pthread_spin_unlock(&spin);
        sem_post(&posts);
        return 0;
    }
    int main(void) {
        pthread_t threads[3];
        pthread_spin_init(&spin, 0);
        pthread_barrier_init(&barrier, 0, 4);
        sem_init(&posts, 0, 0);
        for (long i = 0; i < 3; i++) pthread_create(threads + i, 0, work, (void *)i);
        work((void *)3);
        for (int i = 0; i < 4; i++) sem_wait(&posts);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
        return sum != 304;
    }"#;

/// A `quipu run` with these back ends, which writes to `out`, of a program.
fn live(scene: &Scene, args: &[&str], out: &str, program: &[&str]) -> Command {
    fs::create_dir_all(scene.path("shm")).unwrap();
    let mut run = quipu();
    run.env("PRISM_SHM_DIR", scene.path("shm")).current_dir(&scene.folder);
    run.args(["run", "--json"]).args(args).args(["--force", "-o", out, "--"]).args(program);
    run
}

/// The answer of a run that is expected to succeed.
fn answer(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The counts of SimpleCount by name.
fn counts(scene: &Scene, out: &str) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(scene.path(out).join("simplecount.txt")).unwrap();
    let line = |line: &str| {
        let (name, count) =
            line.strip_prefix("[SimpleCount] Total ").unwrap().split_once("Events: ").unwrap();
        (name.trim().to_owned(), count.parse().unwrap())
    };
    text.lines().map(line).collect()
}

/// The counts of a recording of the same program.
fn recorded(scene: &Scene) -> BTreeMap<String, u64> {
    assert!(scene.program("prog").output().unwrap().status.success());
    let args = ["run", "-q", "--force", "--backend", "simplecount", "prog.quipu", "-o", "recorded"];
    assert!(quipu().current_dir(&scene.folder).args(args).status().unwrap().success());
    counts(scene, "recorded")
}

/// Folders of deliveries.
fn folders(scene: &Scene) -> usize {
    fs::read_dir(scene.path("shm")).unwrap().count()
}

#[test]
fn a_program_alone_has_the_counts_of_its_recording() {
    for compiler in compilers(C) {
        for flags in [&["-O0", "-pthread"][..], &["-O2", "-pthread"]] {
            let scene = Scene::new(compiler);
            scene.compile(ALONE, "prog.c", flags);
            let run = live(&scene, &["--backend", "simplecount"], "live", &["./prog"]).output().unwrap();
            let said = answer(&run);
            assert_eq!(said["front_ends"], 1, "{said}");
            assert_eq!(said["not_given"], "computations, control flow", "{said}");
            let counts = counts(&scene, "live");
            assert_eq!(counts, recorded(&scene), "{compiler} {flags:?}");
            assert!(counts["Memory"] > 50_000 && counts["Lock"] == 100 && counts["Swap"] == 1, "{counts:?}");
            assert_eq!(folders(&scene), 0);
        }
    }
}

#[test]
fn functions_and_places_are_those_of_the_recording() {
    let scene = Scene::new(C[0]);
    scene.compile(ALONE, "prog.c", &["-O1", "-pthread", "-no-pie"]);
    let run = live(&scene, &["--backend", "sigilclassic"], "live", &["./prog"]).output().unwrap();
    answer(&run);
    assert!(scene.program("prog").output().unwrap().status.success());
    let args = ["run", "-q", "--backend", "sigilclassic", "prog.quipu", "-o", "recorded"];
    assert!(quipu().current_dir(&scene.folder).args(args).status().unwrap().success());
    let of = |out: &str| fs::read_to_string(scene.path(out).join("sigilclassic.tsv")).unwrap();
    assert!(of("live").contains("\tdeep\t"), "{}", of("live"));
    assert_eq!(of("live"), of("recorded"));
}

#[test]
fn kinds_of_events_that_nothing_needs_are_not_sent() {
    let scene = Scene::new(C[0]);
    scene.compile(ALONE, "prog.c", &["-O1", "-pthread"]);
    let run = live(&scene, &["--backend", "null"], "live", &["./prog"]).output().unwrap();
    let said = answer(&run);
    assert!(said["events"].as_u64().unwrap() < 5, "{said}");
    assert!(said.get("not_given").is_none(), "{said}");
}

/// The synchronization of each thread, as SynchroTraceGen writes it.
fn synchronization(scene: &Scene, out: &str) -> Vec<Vec<String>> {
    let mut threads = Vec::new();
    for thread in 1.. {
        let file = scene.path(out).join(format!("sigil.events.out-{thread}.gz"));
        let Ok(file) = fs::File::open(file) else { break };
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        threads.push(text.lines().filter(|line| line.starts_with('^')).map(str::to_owned).collect());
    }
    threads
}

#[test]
fn threads_have_the_synchronization_of_the_recording() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        // Without it, objects have other addresses in each run.
        scene.compile(THREADS, "prog.c", &["-O1", "-pthread", "-no-pie"]);
        let expected = recorded(&scene);
        let args = ["run", "-q", "--backend", "stgen,l=textv2", "prog.quipu", "-o", "structure"];
        assert!(quipu().current_dir(&scene.folder).args(args).status().unwrap().success());
        for _ in 0..5 {
            let args = ["--backend", "simplecount", "--backend", "stgen,l=textv2"];
            let run = live(&scene, &args, "live", &["./prog"]).output().unwrap();
            assert_eq!(answer(&run)["front_ends"], 4);
            let counts = counts(&scene, "live/simplecount");
            // Swaps depend on the order of threads, and so do instructions, which are named again after each.
            for (name, count) in
                expected.iter().filter(|(name, _)| !["Swap", "Instr", "Context"].contains(&&***name))
            {
                assert_eq!(counts[name], *count, "{compiler}: {name}");
            }
            assert_eq!(counts["Context"] - counts["Instr"], expected["Context"] - expected["Instr"]);
            let structure = synchronization(&scene, "live/stgen");
            assert_eq!(structure.iter().map(Vec::len).collect::<Vec<_>>(), [209, 203, 203, 203]);
            assert_eq!(structure, synchronization(&scene, "structure"), "{compiler}");
            let threads = |out: &str| fs::read_to_string(scene.path(out).join("sigil.pthread.out")).unwrap();
            assert_eq!(threads("live/stgen"), threads("structure"), "{compiler}");
        }
    }
}

#[test]
fn a_program_that_sends_nothing_is_reported() {
    /// Ends before the runtime begins.
    const SOURCE: &str = r#"
        #include <sys/syscall.h>
        #include <unistd.h>
        static void leave(void) { syscall(SYS_exit_group, 0); }
        __attribute__((section(".preinit_array"), used)) static void (*first)(void) = leave;
        int main(void) { return 0; }"#;
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1"]);
    let run =
        live(&scene, &["--with", "tsan", "--backend", "simplecount"], "out", &["./prog"]).output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("the program sent no events"), "{run:?}");
}

/// Numbers instead of the addresses and handles of synchronization, which differ between builds, in the order of the threads. Of
/// the first thread, only what it does with other threads: the loader takes a lock of its own.
fn structure(scene: &Scene, out: &str) -> Vec<Vec<String>> {
    let mut numbers = BTreeMap::new();
    let mut shown = |line: &String| {
        let (kind, object) = line.strip_prefix("^ ").unwrap().split_once('^').unwrap();
        let next = numbers.len();
        // Spin locks are locks like others in the events of instrumented programs.
        let kind = match kind {
            "9" => "1",
            "10" => "2",
            other => other,
        };
        format!("{kind} {}", *numbers.entry(object.to_owned()).or_insert(next))
    };
    let is_of_threads = |line: &&String| ["^ 3^", "^ 4^", "^ 5^"].iter().any(|kind| line.starts_with(kind));
    let threads = synchronization(scene, out);
    let (first, others) = threads.split_first().unwrap();
    let first: Vec<String> = first.iter().filter(is_of_threads).map(&mut shown).collect();
    std::iter::once(first).chain(others.iter().map(|lines| lines.iter().map(&mut shown).collect())).collect()
}

#[test]
fn an_unmodified_program_has_the_synchronization_of_an_instrumented_one() {
    /// Locks, spin locks and barriers, in an order that each thread keeps.
    const SOURCE: &str = r#"
        #include <pthread.h>
        static pthread_mutex_t locks[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
        static pthread_spinlock_t spin;
        static pthread_barrier_t barrier;
        static long sum;
        static void *work(void *which) {
            for (int i = 0; i < 20; i++) {
                pthread_mutex_lock(&locks[i % 3 == 0]);
                sum += (long)which;
                pthread_mutex_unlock(&locks[i % 3 == 0]);
                if (i % 5 == 0) pthread_barrier_wait(&barrier);
            }
            pthread_spin_lock(&spin);
            sum++;
            pthread_spin_unlock(&spin);
            return 0;
        }
        int main(void) {
            pthread_t threads[3];
            pthread_spin_init(&spin, 0);
            pthread_barrier_init(&barrier, 0, 3);
            for (long i = 0; i < 3; i++) pthread_create(threads + i, 0, work, (void *)i);
            for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
            return 0;
        }"#;
    if !cfg!(target_arch = "x86_64") || !crate::record::can_record("qemu") {
        return;
    }
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread"]);
    let options = ["-O1", "-pthread", "prog.c", "-o", "bare"];
    assert!(Command::new("cc").current_dir(&scene.folder).args(options).status().unwrap().success());
    let of = |with: &str, program: &str| {
        let args = ["--with", with, "--backend", "stgen,l=textv2"];
        let run = live(&scene, &args, with, &[program]).output().unwrap();
        answer(&run);
        structure(&scene, with)
    };
    let (instrumented, bare) = (of("tsan", "./prog"), of("qemu", "./bare"));
    assert_eq!(instrumented.iter().map(Vec::len).collect::<Vec<_>>(), [6, 46, 46, 46]);
    assert_eq!(bare, instrumented);
}

#[test]
fn a_thread_that_takes_a_lock_reads_what_the_one_before_wrote() {
    /// Each thread adds to a number under a lock: all reads but the first are of what another thread may have written.
    const SOURCE: &str = r#"
        #include <pthread.h>
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
        static long number;
        static void *work(void *which) {
            for (int i = 0; i < 300; i++) {
                pthread_mutex_lock(&lock);
                while (number % 2 != (long)which) pthread_cond_wait(&turn, &lock);
                number++;
                pthread_cond_broadcast(&turn);
                pthread_mutex_unlock(&lock);
            }
            return 0;
        }
        int main(void) {
            pthread_t threads[2];
            for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, work, (void *)i);
            for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
            return number != 600;
        }"#;
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread", "-no-pie"]);
    let run = live(&scene, &["--backend", "stgen,c=1,l=textv2"], "live", &["./prog"]).output().unwrap();
    answer(&run);
    // The number is read in turns, so each turn reads what the other thread wrote, which is communication.
    for thread in 2..=3 {
        let file = fs::File::open(scene.path("live").join(format!("sigil.events.out-{thread}.gz"))).unwrap();
        let mut text = String::new();
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
        let n = text.lines().filter(|line| line.starts_with('#')).count();
        assert!(n >= 299, "thread {thread}: {n}");
    }
}

#[test]
fn children_and_programs_that_follow_send_as_well() {
    const SOURCE: &str = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static volatile int cells[1000];
        static void touch(int n) { for (int i = 0; i < n; i++) cells[i % 1000] = i; }
        int main(int argc, char **argv) {
            if (argc > 2) { touch(7000); return 0; }
            touch(1000);
            pid_t child = fork();
            if (child == 0) { touch(20000); _exit(0); }
            int status;
            waitpid(child, &status, 0);
            if (argc > 1) execl(argv[0], argv[0], "and", "more", (char *)0);
            if (getenv("ABORTS")) abort();
            return status;
        }"#;
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1"]);
    let simplecount = ["--backend", "simplecount"];
    let run = live(&scene, &simplecount, "live", &["./prog"]).output().unwrap();
    assert_eq!(answer(&run)["front_ends"], 2);
    assert_eq!(counts(&scene, "live")["WriteMem"], 21_000);
    let run = live(&scene, &simplecount, "live", &["./prog"]).env("QUIPU_FOLLOW_FORK", "0").output().unwrap();
    assert_eq!(answer(&run)["front_ends"], 1);
    assert_eq!(counts(&scene, "live")["WriteMem"], 1000);
    let run = live(&scene, &simplecount, "live", &["./prog", "exec"]).output().unwrap();
    assert_eq!(answer(&run)["front_ends"], 3);
    assert_eq!(counts(&scene, "live")["WriteMem"], 28_000);
    let run = live(&scene, &simplecount, "live", &["./prog"]).env("ABORTS", "1").output().unwrap();
    assert_eq!(run.status.code(), Some(128 + 6), "{run:?}");
    let said: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(said["notes"].as_array().is_none_or(Vec::is_empty), "{said}");
    assert_eq!(counts(&scene, "live")["WriteMem"], 21_000);
    // With a file of its own, a program records and sends nothing.
    let run = live(&scene, &simplecount, "live", &["./prog"]).env("QUIPU_OUT", "own.quipu").output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stdout).contains("the program sent no events"), "{run:?}");
    assert!(scene.path("own.quipu").exists());
    // As a front end that was asked for, it sends in any case, and follows children only on request.
    for (options, n) in [(&["--with", "tsan"][..], 1000), (&["--with", "tsan", "--follow-fork"], 21_000)] {
        let args = [&simplecount[..], options].concat();
        let run = live(&scene, &args, "live", &["./prog"]).env("QUIPU_OUT", "other.quipu").output().unwrap();
        answer(&run);
        assert_eq!(counts(&scene, "live")["WriteMem"], n, "{options:?}");
        assert!(!scene.path("other.quipu").exists());
    }
}

#[test]
fn threads_that_still_run_at_the_end_have_sent_what_they_did() {
    const SOURCE: &str = r#"
        #include <pthread.h>
        #include <stdatomic.h>
        #include <unistd.h>
        static volatile int cells[100];
        static atomic_int is_done;
        static void *work(void *nothing) {
            for (int i = 0; i < 3000; i++) cells[i % 100] = i;
            atomic_store(&is_done, 1);
            for (;;) pause();
            return nothing;
        }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            while (!atomic_load(&is_done)) usleep(100);
            return 0;
        }"#;
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread"]);
    let run = live(&scene, &["--backend", "simplecount"], "live", &["./prog"]).output().unwrap();
    assert_eq!(answer(&run)["front_ends"], 2);
    assert_eq!(counts(&scene, "live")["WriteMem"], recorded(&scene)["WriteMem"]);
    assert!(counts(&scene, "live")["WriteMem"] > 3000);
}

#[test]
fn a_thread_that_is_sending_when_the_program_ends_finishes_first() {
    /// One thread never stops. It is faster than its analysis, so it nearly always waits for room.
    const SOURCE: &str = r#"
        #include <pthread.h>
        #include <stdatomic.h>
        #include <unistd.h>
        static volatile int cells[1000];
        static atomic_int has_begun;
        static void *work(void *nothing) {
            for (long i = 0;; i++) {
                cells[i % 1000] = (int)i;
                if (i == 1000000) atomic_store(&has_begun, 1);
            }
            return nothing;
        }
        int main(void) {
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            while (!atomic_load(&has_begun)) usleep(1000);
            return 0;
        }"#;
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread"]);
    let run = live(&scene, &["--backend", "stgen,c=1"], "live", &["./prog"]).output().unwrap();
    assert_eq!(answer(&run)["front_ends"], 2);
}

#[test]
fn a_program_may_drop_what_the_analysis_is_too_slow_for() {
    let scene = Scene::new(C[0]);
    let source = ALONE.replace("50000", "30000000");
    scene.compile(&source, "prog.c", &["-O1", "-pthread"]);
    // With 16 accesses for each line, the analysis is slower than the program.
    let args = ["--backend", "stgen,c=1"];
    let run = live(&scene, &args, "live", &["./prog"]).env("QUIPU_PRISM_DROP", "1").output().unwrap();
    let said: Value = serde_json::from_slice(&run.stdout).unwrap();
    let notes = said["notes"].to_string();
    assert!(notes.contains("events could not be sent"), "{said}");
    assert_eq!(run.status.code(), Some(1), "{said}");
}

/// Waits for a child to end, and fails if it takes too long.
fn ended(child: &mut std::process::Child, what: &str) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("{what} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn if_one_side_is_killed_the_other_ends() {
    /// Two threads with as many accesses as said; tells its process number at the start, and its end.
    const SOURCE: &str = r#"
        #include <pthread.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <unistd.h>
        static volatile int cells[2][1000];
        static long n;
        static void *work(void *which) {
            for (long i = 0; i < n; i++) cells[(long)which][i % 1000] = (int)i;
            return 0;
        }
        static void tell(const char *name) {
            FILE *file = fopen(name, "w");
            fprintf(file, "%d", (int)getpid());
            fclose(file);
        }
        int main(int argc, char **argv) {
            pthread_t thread;
            n = atol(argv[1]);
            tell("begun.new");
            rename("begun.new", "begun");
            pthread_create(&thread, 0, work, 0);
            work((void *)1);
            pthread_join(thread, 0);
            tell(argc > 2 ? argv[2] : "ended");
            return 0;
        }"#;
    let n_kills: u64 = if is_full() { 50 } else { 12 };
    let mut rng = quipu_testkit::Rng::new(11);
    let scene = Scene::new(C[0]);
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread"]);
    for nth in 0..n_kills {
        for file in ["begun", "ended"] {
            let _ = fs::remove_file(scene.path(file));
        }
        let (kills_program, kills_run) = [(true, false), (false, true), (true, true)][nth as usize % 3];
        // A program whose analysis was killed has to end by itself.
        let n = if kills_program { "100000000000" } else { "20000000" };
        let mut run = live(&scene, &["--backend", "simplecount"], "live", &["./prog", n]);
        let mut run = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        while !scene.path("begun").exists() {
            std::thread::sleep(Duration::from_micros(200));
        }
        let program: i32 = fs::read_to_string(scene.path("begun")).unwrap().parse().unwrap();
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        if kills_run {
            run.kill().unwrap();
        }
        if kills_program {
            let killed = Command::new("kill").args(["-9", &program.to_string()]).status().unwrap();
            assert!(killed.success());
        }
        let status = ended(&mut run, "the analysis");
        if !kills_run {
            assert_eq!(status.code(), Some(128 + 9), "kill {nth}");
            let mut said = String::new();
            run.stdout.take().unwrap().read_to_string(&mut said).unwrap();
            assert!(said.contains("ended without saying so"), "kill {nth}: {said}");
            assert_eq!(folders(&scene), 0, "kill {nth}");
        }
        if !kills_program {
            let start = Instant::now();
            while !scene.path("ended").exists() {
                assert!(start.elapsed() < PATIENCE, "kill {nth}: the program does not end");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    // The next run removes what killed ones left.
    let run = live(&scene, &["--backend", "simplecount"], "live", &["./prog", "10"]).output().unwrap();
    answer(&run);
    assert_eq!(folders(&scene), 0);
}
