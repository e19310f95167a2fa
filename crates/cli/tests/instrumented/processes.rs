//! Threads, and processes that are killed, forked, or replaced by `exec`.

use crate::instrumented::*;

/// Threads that count in arrays of their own, with occasional locks and atomics.
const THREADS: &str = r#"
    #include <pthread.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <stdlib.h>
    static long n;
    static int cells[8][1024];
    static atomic_long total;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static long locked;
    static void *work(void *which) {
        int *mine = cells[(long)which];
        for (long i = 0, end = n; i < end; i++) mine[i & 1023] = (int)i;
        atomic_fetch_add(&total, 1);
        pthread_mutex_lock(&lock);
        locked++;
        pthread_mutex_unlock(&lock);
        return 0;
    }
    int main(int argc, char **argv) {
        pthread_t threads[8];
        n = atol(argv[1]);
        for (long i = 0; i < 8; i++) pthread_create(threads + i, 0, work, (void *)i);
        for (long i = 0; i < 8; i++) pthread_join(threads[i], 0);
        printf("%p %ld %ld\n", (void *)cells, atomic_load(&total), locked);
        return 0;
    }"#;

/// Fails unless each thread with an array of its own wrote all of it in order; returns the number of writes per thread.
fn in_order(run: &Run, start: u64) -> BTreeMap<u64, u64> {
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for record in run.records.iter().filter(|record| (start..start + 8 * 4096).contains(&record.addr)) {
        let which = (record.addr - start) / 4096;
        let (known, count) = counts.entry(record.thread).or_insert((which, 0));
        assert_eq!((record.tag, record.size, which), (1, 4, *known));
        assert_eq!(record.addr - start, 4096 * which + 4 * (*count % 1024));
        *count += 1;
    }
    counts.into_values().collect()
}

#[test]
fn no_access_of_eight_threads_is_lost_or_torn() {
    let n: u64 = if is_full() { 10_000_000 } else { 150_000 };
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(THREADS, "prog.c", &["-O1", "-pthread"]);
        let output = scene.program("prog").arg(n.to_string()).output().unwrap();
        assert!(output.status.success());
        let mut run = scene.collect("prog.quipu");
        run.printed = String::from_utf8(output.stdout).unwrap();
        let [start, total, locked] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!((total, locked), (8, 8));
        let expected: BTreeMap<u64, u64> = (0..8).map(|which| (which, n)).collect();
        assert_eq!(in_order(&run, start), expected, "{compiler}");
        assert_eq!(run.summary["threads"], 9);
        assert_eq!(run.summary["atomics"], 9);
        assert_eq!(run.summary["unwritten"], 0);
    }
}

#[test]
fn a_killed_program_leaves_all_that_it_did() {
    let n_kills: u64 = if is_full() { 50 } else { 3 };
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(THREADS, "prog.c", &["-O1", "-pthread"]);
        for nth in 0..n_kills {
            let _ = fs::remove_file(scene.path("prog.quipu"));
            let mut child = scene.program("prog").arg("1000000000").spawn().unwrap();
            // Before the first frame is written, there is nothing to recover.
            while !fs::read(scene.path("prog.quipu")).is_ok_and(|bytes| bytes.starts_with(b"\xf5QPU")) {
                std::thread::sleep(Duration::from_micros(100));
            }
            std::thread::sleep(Duration::from_micros(nth * 7919 % 20_000));
            child.kill().unwrap();
            child.wait().unwrap();
            let run = scene.collect("prog.quipu");
            if run.summary.is_null() {
                continue; // It was killed before its first event.
            }
            assert_eq!(run.summary["ending"], "stopped");
            // The first write to the array of thread 0, if there is one, gives the array's address.
            let cells = |record: &&Record| record.tag == 1 && record.size == 4;
            let Some(first) = run.records.iter().find(cells) else { continue };
            let start = first.addr & !4095;
            let lowest = run.records.iter().filter(cells).map(|record| record.addr).min().unwrap_or(start);
            let mut threads: BTreeMap<u64, u64> = BTreeMap::new();
            for record in run.records.iter().filter(cells) {
                let at = threads.entry(record.thread).or_insert(record.addr);
                assert_eq!(record.addr, *at, "{compiler}, kill {nth}");
                *at =
                    if (record.addr - lowest) % 4096 == 4092 { record.addr - 4092 } else { record.addr + 4 };
            }
        }
    }
}

/// Threads that write to arrays of their own, and count their writes in a place that survives a kill.
const COUNTED: &str = r#"
    #include <fcntl.h>
    #include <pthread.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static int cells[2][1024];
    static volatile long *done;
    __attribute__((noinline, no_sanitize("thread"))) static void tell(long at, long n) { done[at] = n; }
    static void *work(void *which) {
        int *mine = cells[(long)which];
        for (long i = 0;; i++) {
            mine[i & 1023] = (int)i;
            tell((long)which, i + 1);
        }
        return 0;
    }
    int main(void) {
        pthread_t threads[2];
        int file = open("done", O_RDWR | O_CREAT | O_TRUNC, 0666);
        if (ftruncate(file, 4096)) return 1;
        done = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        tell(2, (long)cells);
        for (long i = 0; i < 2; i++) pthread_create(threads + i, 0, work, (void *)i);
        for (long i = 0; i < 2; i++) pthread_join(threads[i], 0);
        return 0;
    }"#;

#[test]
fn a_killed_program_loses_none_of_what_it_counted() {
    let n_kills: u64 = if is_full() { 100 } else { 4 };
    let mut rng = quipu_testkit::Rng::new(7);
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(COUNTED, "prog.c", &["-O1", "-pthread"]);
        for nth in 0..n_kills {
            let _ = (fs::remove_file(scene.path("prog.quipu")), fs::remove_file(scene.path("done")));
            let mut child = scene.program("prog").spawn().unwrap();
            let counted = |at: usize| {
                let bytes = fs::read(scene.path("done")).unwrap_or_default();
                let word = bytes.get(8 * at..8 * at + 8).and_then(|word| word.try_into().ok());
                word.map_or(0, u64::from_le_bytes)
            };
            while counted(0) == 0 || counted(1) == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
            std::thread::sleep(Duration::from_micros(rng.below(1000)));
            child.kill().unwrap();
            child.wait().unwrap();
            // All verbs can read it immediately.
            let check =
                quipu().current_dir(&scene.folder).args(["report", "--json", "prog.quipu"]).output().unwrap();
            assert!(check.status.code().is_some_and(|code| code < 2), "kill {nth}: {check:?}");
            let run = scene.collect("prog.quipu");
            let start = counted(2);
            for which in 0..2 {
                let array = start + 4096 * which..start + 4096 * (which + 1);
                let writes =
                    run.records.iter().filter(|record| record.tag == 1 && array.contains(&record.addr));
                let mut n = 0;
                for record in writes {
                    assert_eq!(record.addr - array.start, 4 * (n % 1024), "{compiler}, kill {nth}");
                    n += 1;
                }
                let counted = counted(which as usize);
                assert!((counted..=counted + 1).contains(&n), "{compiler}, kill {nth}: {n} of {counted}");
            }
        }
    }
}

#[test]
fn each_look_at_a_program_that_runs_finds_all_that_earlier_ones_found() {
    let n_looks = if is_full() { 200 } else { 12 };
    let scene = Scene::new(C[0]);
    // A buffer fills up about every 20 ms, so the recording stays small.
    let slowly = COUNTED
        .replace("tell((long)which, i + 1);", "tell((long)which, i + 1);\n if (i % 100 == 0) usleep(50);");
    scene.compile(&slowly, "prog.c", &["-O1", "-pthread"]);
    let _child = Killed(scene.program("prog").spawn().unwrap());
    let counted = |at: usize| {
        let bytes = fs::read(scene.path("done")).unwrap_or_default();
        let word = bytes.get(8 * at..8 * at + 8).and_then(|word| word.try_into().ok());
        word.map_or(0, u64::from_le_bytes)
    };
    while counted(0) == 0 || counted(1) == 0 {
        std::thread::sleep(Duration::from_micros(50));
    }
    let mut before = 0;
    for nth in 0..n_looks {
        // The ways to read it, in turn.
        let (args, count): (&[&str], _) = match nth % 3 {
            0 => (&["info", "--json"], "/events/write"),
            1 => (&["convert", "--to", "cacheray", "--json", "--force", "-o", "look.trace"], "/accesses"),
            _ => (&["check", "--json"], "/records"),
        };
        let output = quipu().current_dir(&scene.folder).args(args).arg("prog.quipu").output().unwrap();
        let end = counted(0) + counted(1);
        assert_eq!(output.status.code(), Some(0), "look {nth}: {output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        // The missing END is the only permitted finding.
        let is_end = |finding: &Value| finding["rule"] == "stream/no-end-frame";
        assert!(said["findings"].as_array().is_none_or(|all| all.iter().all(is_end)), "look {nth}: {said}");
        let Some(now) = said.pointer(count).and_then(Value::as_u64) else { panic!("look {nth}: {said}") };
        // Writes are nearly all of the program's events, and each reading is later than the one before.
        assert!(now + 100 >= before, "look {nth}: {now} after {before}");
        assert!(now <= end + 1000, "look {nth}: {now} of {end}");
        before = now;
    }
}

/// A program that is killed when the test ends, in any way.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

#[test]
fn a_file_that_is_no_recording_is_not_written_over() {
    let scene = Scene::new(C[0]);
    scene.compile("int cell; int main(void) { cell = 1; return 0; }", "prog.c", &["-O0"]);
    let run = |out: &str| scene.program("prog").env("QUIPU_OUT", out).output().unwrap();
    assert!(run("a.quipu").status.success());
    quipu().current_dir(&scene.folder).args(["convert", "a.quipu", "-o", "b.quipu"]).status().unwrap();
    // Streams that do not begin like recordings are not recordings either.
    fs::write(scene.path("c.quipu"), "precious").unwrap();
    fs::write(scene.path("d.quipu"), "").unwrap();
    let writer = fs::read("../../traces/stream/dtrace-mixed_1000.quipu").unwrap();
    fs::write(scene.path("e.quipu"), &writer).unwrap();
    for (name, is_kept) in
        [("prog.c", true), ("a.quipu", false), ("c.quipu", true), ("d.quipu", false), ("e.quipu", true)]
    {
        let before = fs::read(scene.path(name)).unwrap();
        let n_files = scene.captures().len();
        let output = run(name);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        assert_eq!(fs::read(scene.path(name)).unwrap() == before, is_kept, "{name}");
        assert_eq!(said.lines().count(), usize::from(is_kept), "{name}: {said}");
        let n_new = fs::read_dir(&scene.folder).unwrap().count();
        let named = |entry: &String| entry.starts_with(&format!("{name}."));
        let names =
            fs::read_dir(&scene.folder).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
        let others: Vec<String> = names.filter(named).collect();
        assert_eq!(others.len(), usize::from(is_kept), "{name}: {others:?}, {n_files}, {n_new}");
        for other in others {
            assert!(
                quipu().current_dir(&scene.folder).args(["check", "-q", &other]).status().unwrap().success()
            );
        }
    }
}

/// The buffer of a thread that is alive at the end stays open; that of an exited thread is closed.
const LEFT_OPEN: &str = r#"
    #include <pthread.h>
    #include <unistd.h>
    static volatile long cells[2][100], n_done;
    static void *work(void *nothing) {
        for (int i = 0; i < 5000; i++) cells[1][i % 100] += i;
        n_done = 1;
        for (;;) pause();
        return nothing;
    }
    int main(void) {
        pthread_t thread;
        pthread_create(&thread, 0, work, 0);
        for (int i = 0; i < 5000; i++) cells[0][i % 100] += i;
        while (!n_done) usleep(100);
        return 0;
    }"#;

#[test]
fn cells_that_were_zeroed_are_damage() {
    let scene = Scene::new(C[0]);
    scene.compile(LEFT_OPEN, "prog.c", &["-O1", "-pthread"]);
    let whole = scene.run("prog");
    assert_eq!(whole.summary["unwritten"], 0);
    let bytes = fs::read(scene.path("prog.quipu")).unwrap();
    let is_frame = |at: &usize| bytes[*at..].starts_with(b"\xf5QPU1\r\n\x1a");
    let frames: Vec<usize> = (0..bytes.len() - 8).step_by(8).filter(is_frame).collect();
    let state = |at: usize| u64::from_le_bytes(bytes[at + 96..at + 104].try_into().unwrap());
    // Open frames of cells, and those that are in use.
    let open: Vec<usize> = frames.iter().copied().filter(|at| bytes[at + 9] == 9 && *at > 0).collect();
    let in_use: Vec<usize> = open.iter().copied().filter(|at| state(*at) & 0xffff_ffff == 1).collect();
    assert_eq!((open.len(), in_use.len()), (2, 1), "the thread that exits closes its buffer");
    let closed = frames.iter().copied().find(|at| bytes[at + 9] == 2).unwrap();
    for (at, n) in [(in_use[0] + 20_032, 16_000), (closed + 120, 100)] {
        let mut damaged = bytes.clone();
        damaged[at..at + n].fill(0);
        fs::write(scene.path("zeroed.quipu"), &damaged).unwrap();
        for args in [
            &["info"][..],
            &["view"],
            &["check"],
            &["report"],
            &["convert", "--to", "cacheray", "-o", "zeroed.trace", "--keep-damaged", "--force"],
        ] {
            let output = quipu().current_dir(&scene.folder).args(args).arg("zeroed.quipu").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned()
                + &String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
            let place = format!("{:#x}", frames.iter().rfind(|frame| **frame <= at).unwrap());
            assert!(said.contains(&place), "{args:?}: no {place} in {said}");
            let number = if n == 16_000 { "1,000 records" } else { "records are lost" };
            assert!(said.contains(number), "{args:?}: {said}");
        }
    }
}

/// Threads that end and close several buffers, so that vacant ones have numbers beyond those of the shared stream.
const ENDED: &str = r#"
    #include <pthread.h>
    static volatile long cells[3][100];
    static void work_on(int nth) {
        for (int i = 0; i < 20000; i++) cells[nth][i % 100] += i;
    }
    static void *work(void *nth) {
        work_on((int)(long)nth);
        return 0;
    }
    int main(void) {
        pthread_t threads[2];
        for (long n = 0; n < 2; n++) pthread_create(&threads[n], 0, work, (void *)n);
        work_on(2);
        for (int n = 0; n < 2; n++) pthread_join(threads[n], 0);
        return 0;
    }"#;

#[test]
fn what_is_made_of_a_recording_has_all_of_it() {
    // Files of parts: one per thread, and the shared one, if it has rows.
    for (source, n_parts) in [(LEFT_OPEN, 3), (ENDED, 4)] {
        let scene = Scene::new(C[0]);
        scene.compile(source, "prog.c", &["-O1", "-pthread"]);
        scene.run("prog");
        let run = |args: &[&str]| {
            let output = quipu().current_dir(&scene.folder).args(args).output().unwrap();
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        let said = |args: &[&str]| -> Value { serde_json::from_slice(&run(args)).unwrap() };
        let n_records = |path: &str| said(&["check", "--json", path])["records"].as_u64().unwrap();
        let whole = n_records("prog.quipu");
        assert!(whole > 10_000, "{whole}");
        let info = |path: &str| -> Vec<Value> {
            let info = said(&["info", "--json", path]);
            ["ending", "counts", "threads"].map(|key| info[key].clone()).into()
        };
        let of_whole = info("prog.quipu");
        run(&["convert", "prog.quipu", "-o", "converted.quipu"]);
        let merged = said(&["merge", "--json", "prog.quipu", "-o", "merged.quipu"]);
        assert_eq!(merged["records"], whole, "{merged}");
        let split = said(&["split", "--json", "prog.quipu", "-o", "split"]);
        assert_eq!(split["records"], whole, "{split}");
        run(&["merge", "split", "-o", "again.quipu"]);
        run(&["trim", "--take", "1000000000", "prog.quipu", "-o", "trimmed.quipu"]);
        for made in ["converted.quipu", "merged.quipu", "again.quipu", "trimmed.quipu"] {
            assert_eq!(n_records(made), whole, "{made}");
        }
        for made in ["converted.quipu", "merged.quipu"] {
            assert_eq!(info(made)[0], of_whole[0], "{made}");
            assert_eq!(info(made)[1], of_whole[1], "{made}");
        }
        assert_eq!(n_records("split"), whole, "the folder");
        let parts = fs::read_dir(scene.path("split")).unwrap().map(|entry| entry.unwrap().path());
        let parts: Vec<u64> = parts.map(|part| n_records(part.to_str().unwrap())).collect();
        assert_eq!((parts.iter().sum::<u64>(), parts.len()), (whole, n_parts), "{parts:?}");
        assert!(parts.iter().all(|part| *part > 0), "{parts:?}");
    }
}

#[test]
fn nothing_follows_the_end_though_threads_still_run() {
    // Remaining events are written after all destructors, including the runtime's: that leaves time for many buffers per
    // thread.
    const SOURCE: &str = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <stdio.h>
        #include <unistd.h>
        static long cells[4096];
        static volatile int runs;
        static void *work(void *nothing) {
            for (long n = 0;; n++) { cells[n & 4095] = n; runs = 1; }
            return nothing;
        }
        static ssize_t slowly(void *nothing, const char *bytes, size_t n) {
            (void)nothing, (void)bytes;
            usleep(50000);
            return (ssize_t)n;
        }
        int main(void) {
            FILE *late = fopencookie(0, "w", (cookie_io_functions_t){.write = slowly});
            fputc('x', late);
            pthread_t thread;
            pthread_create(&thread, 0, work, 0);
            while (!runs) usleep(100);
            usleep(20000);
            return 0;
        }"#;
    for_each(["gcc", "clang"], SOURCE, "prog.c", &["-O1", "-pthread"], |scene, run| {
        let compiler = scene.compiler;
        assert!(run.records.len() > 100_000, "{compiler}: {} records", run.records.len());
        let output = quipu().args(["check", "--json"]).arg(scene.path("prog.quipu")).output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said["findings"].as_array().map(Vec::len), Some(0), "{compiler}: {said}");
        assert_eq!(output.status.code(), Some(0), "{compiler}");
    });
}

#[test]
fn a_forked_process_has_a_file_of_its_own() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <sys/wait.h>
        #include <unistd.h>
        static int cells[100];
        int main(void) {
            for (int i = 0; i < 10; i++) cells[i] = i;
            pid_t child = fork();
            int start = child ? 10 : 50, end = child ? 20 : 90;
            for (int i = start; i < end; i++) cells[i] = i;
            if (!child) _exit(0);
            int status = 0;
            waitpid(child, &status, 0);
            printf("%p %d\n", (void *)cells, (int)child);
            return status;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O1"], |scene, run| {
        let compiler = scene.compiler;
        let [cells, child] = run.numbers()[..] else { panic!("{}", run.printed) };
        let writes = |range: std::ops::Range<u64>| range.map(|i| (1, 4 * i, 4)).collect::<Vec<_>>();
        assert_eq!(run.accesses(cells, 400), writes(0..20), "{compiler}");
        assert_eq!(scene.captures(), ["prog.quipu".to_owned(), format!("prog.quipu.{child}")]);
        let run = scene.collect(&format!("prog.quipu.{child}"));
        assert_eq!(run.accesses(cells, 400), writes(50..90), "{compiler}");
        assert_eq!((&run.summary["pid"], &run.summary["ending"]), (&child.into(), &"exited".into()));
    });
}

#[test]
fn a_program_that_becomes_another_keeps_its_file() {
    const SOURCE: &str = r#"
        #include <unistd.h>
        static volatile int cell;
        int main(int argc, char **argv) {
            cell = argc;
            if (argc == 1) execl(argv[0], argv[0], "again", (char *)0);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1"]);
        assert!(scene.program("prog").status().unwrap().success());
        let captures = scene.captures();
        assert_eq!(captures.len(), 2);
        let endings = captures.iter().map(|name| scene.collect(name).summary["ending"].clone());
        assert_eq!(endings.collect::<Vec<_>>(), ["stopped", "exited"], "{compiler}");
    }
}

#[test]
fn record_runs_such_a_program_and_leaves_trace_and_capture() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(
            "#include <sys/wait.h>\n#include <unistd.h>\nvolatile int cell;\nint main(void) { int child = fork(); cell = child != 0; if (child) wait(0); return 7; }",
            "prog.c",
            &["-O1"],
        );
        let record = |more: &[&str]| {
            let mut record = quipu();
            record.current_dir(&scene.folder).args([
                "record",
                "--force",
                "--container",
                "plain",
                "-o",
                "out.trace",
            ]);
            let output = record.args(more).args(["--", "./prog"]).output().unwrap();
            assert_eq!(output.status.code(), Some(7), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        };
        let said = record(&[]);
        // The program is named if it has debug information, which a runtime of a debug build brings along.
        assert!(said.contains("next: quipu analyze types ") && said.contains(" out.trace\n"), "{said}");
        assert_eq!(scene.captures(), ["out.quipu"], "{compiler}");
        let records = read(&fs::read(scene.path("out.trace")).unwrap());
        assert_eq!(records.iter().filter(|record| record.tag < 2).count(), 1, "{compiler}");
        let said = record(&["--with", "tsan", "--follow-fork"]);
        assert_eq!(scene.captures().len(), 2, "{compiler}");
        // The recording said to contain each process does contain it.
        let places: Vec<_> = said
            .lines()
            .filter_map(|line| line.strip_suffix('`')?.rsplit_once("in `"))
            .map(|(_, at)| at)
            .collect();
        assert_eq!(places.len(), 2, "{said}");
        assert!(places.iter().all(|place| scene.path(place).is_file()), "{said}");
    }
    let refused =
        quipu().args(["record", "--with", "tsan", "--max-instrs", "5", "--", "true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let refused = quipu()
        .args(["record", "--with", "tsan", "-o"])
        .arg("/tmp/never.trace")
        .args(["--", "true"])
        .output()
        .unwrap();
    assert!(String::from_utf8(refused.stderr).unwrap().contains("the program recorded nothing"));
}

#[test]
fn a_program_that_notes_nothing_leaves_a_trace_that_says_so() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile("int main(void) { return 0; }", "prog.c", &["-O1"]);
        let run = |args: &[&str]| quipu().current_dir(&scene.folder).args(args).output().unwrap();
        let output = run(&["record", "--with", "tsan", "-o", "out.trace", "--", "./prog"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("nothing was noted: is all of the program compiled"), "{said}");
        let output = run(&["info", "out.trace"]);
        assert!(
            String::from_utf8(output.stdout).unwrap().contains("cacheray: memory accesses with the types"),
            "{compiler}"
        );
        assert_eq!(output.status.code(), Some(0), "{compiler}");
    }
}

/// A recording with a limited size ends before its program does: unrecorded events are counted, and verbs report them.
#[test]
fn what_a_recording_has_no_room_for_is_a_loss_with_its_count() {
    const STORES: &str = r#"
        #include <stdlib.h>
        static volatile char cells[1 << 20];
        int main(int argc, char **argv) {
            unsigned long at = 1;
            for (long i = 0, end = atol(argv[1]); i < end; i++) {
                at = at * 6364136223846793005ul + 1442695040888963407ul;
                cells[at >> 44] = (char)i;
            }
            return 0;
        }"#;
    let scene = Scene::new(C[0]);
    // Random addresses, which cannot be compressed.
    scene.compile(STORES, "prog.c", &["-O1"]);
    let run = |max_bytes: &str| {
        let mut program = scene.program("prog");
        let done = program.arg("300000").env("QUIPU_MAX_BYTES", max_bytes).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let told = |verb: &[&str]| {
        let output = quipu().current_dir(&scene.folder).args(verb).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    run("0");
    assert_eq!(told(&["check", "prog.quipu"]).0, Some(0));
    let whole = told(&["analyze", "schedule", "--json", "prog.quipu"]).1;
    // Room for the first buffer and little more.
    fs::remove_file(scene.path("prog.quipu")).unwrap();
    run("400000");
    for verb in ["check", "info", "view", "report", "describe"] {
        let (code, text) = told(&[verb, "prog.quipu"]);
        assert_eq!(code, Some(1), "{verb}: {text}");
        assert!(text.contains("had reached the size that it may have"), "{verb}: {text}");
        assert!(text.contains("beside those of this open frame"), "{verb}: {text}");
    }
    let (code, part) = told(&["analyze", "schedule", "--json", "prog.quipu"]);
    let answer =
        |text: &str| serde_json::Deserializer::from_str(text).into_iter::<Value>().next().unwrap().unwrap();
    let records = |answer: &Value| {
        let threads = answer["results"]["schedule"]["threads"].as_array().unwrap().iter();
        threads.map(|thread| thread["records"].as_u64().unwrap()).sum::<u64>()
    };
    let (whole, part) = (answer(&whole), answer(&part));
    let lost = &part["lost"]["records"];
    let lost = lost.as_u64().or(lost["at_least"].as_u64()).unwrap();
    // The end of the thread is an additional event, and so is that of the program.
    let missing = records(&whole) - records(&part);
    assert!(code == Some(1) && lost > 100_000 && lost.abs_diff(missing) < 16, "{lost} of {missing}");
    // A conversion contains all recorded events.
    assert_eq!(told(&["convert", "--to", "cacheray", "prog.quipu", "-o", "prog.trace"]).0, Some(1));
    assert!(scene.path("prog.trace").exists());
}
