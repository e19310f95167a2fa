//! Programs that are compiled with `quipu cc`, `quipu c++` and the flags of `quipu rustc-flags`, run, and looked at.
//!
//! What a program does is known from its source, and the addresses that it works on from what it prints. A compiler that is not
//! there is passed over. `QUIPU_RECORD=full` lets threads do ten million accesses each, and kills fifty programs.

// A test that cannot set its scene has failed.
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

/// The folder of the program, with the runtime built beside it.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_quipu")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--locked", "-p", "quipu-rt", "--target-dir"])
            .arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap().success());
        folder.to_owned()
    })
}

fn is_full() -> bool {
    std::env::var("QUIPU_RECORD").is_ok_and(|how| how == "full")
}

/// The compilers for C, or those for C++, that are there.
fn compilers(names: [&'static str; 2]) -> Vec<&'static str> {
    let is_there = |name: &&str| {
        let found = Command::new(name).arg("--version").stdout(Stdio::null()).status().is_ok();
        if !found {
            eprintln!("passed over: there is no {name}");
        }
        found
    };
    names.into_iter().filter(is_there).collect()
}

const C: [&str; 2] = ["gcc", "clang"];
const CXX: [&str; 2] = ["g++", "clang++"];

/// A place to compile and run in.
struct Scene {
    folder: TempDir,
    compiler: &'static str,
}

impl Scene {
    fn new(compiler: &'static str) -> Scene {
        library();
        Scene { folder: tempfile::tempdir().unwrap(), compiler }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a source and compiles it.
    fn compile(&self, source: &str, name: &str, flags: &[&str]) {
        fs::write(self.path(name), source).unwrap();
        let verb = if self.compiler.contains("++") { "c++" } else { "cc" };
        let output = Path::new(name).file_stem().unwrap();
        let mut quipu = quipu();
        quipu
            .env("QUIPU_CC", self.compiler)
            .env("QUIPU_CXX", self.compiler)
            .env("XDG_CACHE_HOME", self.path("cache"));
        quipu.current_dir(&self.folder).arg(verb).args([name, "-o"]).arg(output).args(flags);
        assert!(quipu.status().unwrap().success(), "{} {name}", self.compiler);
    }

    /// The program, as it is run.
    fn program(&self, name: &str) -> Command {
        let mut program = Command::new(self.path(name));
        program.current_dir(&self.folder).env("QUIPU_OUT", "%n.qcap");
        program
    }

    /// Runs the program and returns what it printed and recorded.
    fn run(&self, name: &str) -> Run {
        let output = self.program(name).output().unwrap();
        assert!(output.status.success(), "{}: {output:?}", self.compiler);
        let mut run = self.collect(&format!("{name}.qcap"));
        run.printed = String::from_utf8(output.stdout).unwrap();
        run
    }

    /// Makes a trace of a capture file, checks it, and reads it.
    fn collect(&self, capture: &str) -> Run {
        let output = quipu()
            .current_dir(&self.folder)
            .args(["collect", "--json", "--force", capture])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {capture}: {output:?}", self.compiler);
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let trace = self.path(summary["trace"].as_str().unwrap());
        let records = read(&fs::read(&trace).unwrap());
        assert_eq!(summary["records"], records.len());
        if !records.is_empty() {
            let checked = quipu().args(["check", "-q"]).arg(&trace).output().unwrap();
            assert!(checked.status.success(), "{}: {capture}: {checked:?}", self.compiler);
        }
        Run { summary, records, printed: String::new() }
    }

    /// Capture files that are there.
    fn captures(&self) -> Vec<String> {
        let names = fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.contains(".qcap")).collect();
        names.sort();
        names
    }
}

fn quipu() -> Command {
    let mut quipu = Command::new(env!("CARGO_BIN_EXE_quipu"));
    quipu.env("QUIPU_LIB", library()).env_remove("QUIPU_OUT");
    quipu
}

/// What a program did.
struct Run {
    summary: Value,
    records: Vec<Record>,
    printed: String,
}

/// A record of the trace, read by the layout that its format is defined by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    tag: u8,
    addr: u64,
    /// Of accesses.
    size: u64,
    thread: u64,
    /// Of annotations: bytes of an element, elements, name.
    region: (u32, u32, String),
}

fn read(mut bytes: &[u8]) -> Vec<Record> {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let short = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut records = Vec::new();
    while let Some(&tag) = bytes.first() {
        let addr = number(bytes, 1);
        let mut record = Record { tag, addr, size: 0, thread: 0, region: (0, 0, String::new()) };
        let n_bytes = match tag & 0x3f {
            0 | 1 => {
                record.size = bytes[9].into();
                record.thread = number(bytes, 10);
                18
            }
            2 => {
                record.thread = number(bytes, 9);
                let n_bytes = short(bytes, 25) as usize;
                let name = String::from_utf8(bytes[29..29 + n_bytes].to_vec()).unwrap();
                record.region = (short(bytes, 17), short(bytes, 21), name);
                29 + n_bytes
            }
            3 => {
                record.thread = number(bytes, 9);
                17
            }
            _ => panic!("tag {tag}"),
        };
        records.push(record);
        bytes = &bytes[n_bytes..];
    }
    records
}

impl Run {
    /// Numbers that the program printed.
    fn numbers(&self) -> Vec<u64> {
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
            None => word.parse().unwrap(),
        };
        self.printed.split_whitespace().map(number).collect()
    }

    /// Tag, offset and size of accesses to an object.
    fn accesses(&self, start: u64, n_bytes: u64) -> Vec<(u8, u64, u64)> {
        let inside =
            |record: &&Record| record.tag & 0x3f < 2 && (start..start + n_bytes).contains(&record.addr);
        self.records
            .iter()
            .filter(inside)
            .map(|record| (record.tag, record.addr - start, record.size))
            .collect()
    }

    /// Regions that were told: address, bytes of an element, elements, of a name.
    fn regions(&self, name: &str) -> Vec<(u64, u32, u32)> {
        let named = self.records.iter().filter(|record| record.tag == 2 && record.region.2 == name);
        named.map(|record| (record.addr, record.region.0, record.region.1)).collect()
    }
}

#[test]
fn a_loop_is_recorded_access_by_access() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        long a[1000];
        __attribute__((noinline)) long sum(const long *p, int n) { long s = 0; for (int i = 0; i < n; i++) s += p[i]; return s; }
        int main(void) {
            for (int i = 0; i < 1000; i++) a[i] = i;
            long s = sum(a, 1000);
            printf("%p %ld\n", (void *)a, s);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1"]);
        let run = scene.run("prog");
        let [start, sum] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(sum, 499_500);
        let expected = (0..1000).map(|i| (1, 8 * i, 8)).chain((0..1000).map(|i| (0, 8 * i, 8)));
        assert_eq!(run.accesses(start, 8000), expected.collect::<Vec<_>>(), "{compiler}");
        assert_eq!(run.summary["accesses"], 2000);
        assert_eq!(run.summary["calls"], 2);
        assert_eq!(run.summary["ending"], "exited");
        assert_eq!(run.summary["threads"], 1);
    }
}

#[test]
fn the_runtime_can_be_a_part_of_the_program() {
    const SOURCE: &str = "#include <stdlib.h>\nint main(void) { volatile int *p = malloc(4); *p = 3; free((void *)p); return *p & 0; }";
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        fs::write(scene.path("prog.c"), SOURCE).unwrap();
        let mut compile = quipu();
        compile.env("QUIPU_RUNTIME", "static").env("QUIPU_CC", compiler).current_dir(&scene.folder);
        assert!(compile.args(["cc", "-O1", "prog.c", "-o", "prog"]).status().unwrap().success());
        let needed = Command::new("ldd").arg(scene.path("prog")).output().unwrap();
        assert!(!String::from_utf8_lossy(&needed.stdout).contains("quipu"));
        let run = scene.run("prog");
        assert_eq!(
            (&run.summary["accesses"], &run.summary["allocations"]),
            (&2.into(), &1.into()),
            "{compiler}"
        );
    }
}

/// Threads that count in arrays of their own, with a lock and an atomic now and then.
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

/// Fails unless each thread that worked on an array of its own wrote all of it in order; returns how often each did.
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
        let mut run = scene.collect("prog.qcap");
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
            let _ = fs::remove_file(scene.path("prog.qcap"));
            let mut child = scene.program("prog").arg("1000000000").spawn().unwrap();
            // Before its first line there is nothing that it could leave.
            while !fs::read(scene.path("prog.qcap")).is_ok_and(|bytes| bytes.starts_with(b"QUIPUCAP")) {
                std::thread::sleep(Duration::from_micros(100));
            }
            std::thread::sleep(Duration::from_micros(nth * 7919 % 20_000));
            child.kill().unwrap();
            child.wait().unwrap();
            let run = scene.collect("prog.qcap");
            assert_eq!(run.summary["ending"], "stopped");
            // The first write to the array of thread 0 tells where it is, if it came that far.
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

#[test]
fn handlers_of_signals_tear_nothing() {
    const SOURCE: &str = r#"
        #include <signal.h>
        #include <stdio.h>
        #include <sys/time.h>
        static volatile long handled;
        static long cells[4096];
        static void handle(int signal) { (void)signal; handled = handled + 1; }
        int main(void) {
            struct itimerval often = {{0, 50}, {0, 50}};
            signal(SIGALRM, handle);
            setitimer(ITIMER_REAL, &often, 0);
            long n = 0;
            while (n < 2000000 || handled < 50) { cells[n & 4095] = n; n++; }
            struct itimerval never = {{0, 0}, {0, 0}};
            setitimer(ITIMER_REAL, &never, 0);
            printf("%p %p %ld %ld\n", (void *)&handled, (void *)cells, handled, n);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1"]);
        let run = scene.run("prog");
        let [handled, cells, n_handled, n] = run.numbers()[..] else { panic!("{}", run.printed) };
        let writes = run.accesses(handled, 8).into_iter().filter(|(tag, ..)| *tag == 1).count();
        assert_eq!(writes as u64, n_handled, "{compiler}");
        let expected: Vec<_> = (0..n).map(|i| (1, 8 * (i % 4096), 8)).collect();
        assert!(run.accesses(cells, 8 * 4096) == expected, "{compiler}");
        assert_eq!(run.summary["unwritten"], 0);
    }
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
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1"]);
        let run = scene.run("prog");
        let [cells, child] = run.numbers()[..] else { panic!("{}", run.printed) };
        let writes = |range: std::ops::Range<u64>| range.map(|i| (1, 4 * i, 4)).collect::<Vec<_>>();
        assert_eq!(run.accesses(cells, 400), writes(0..20), "{compiler}");
        assert_eq!(scene.captures(), ["prog.qcap".to_owned(), format!("prog.qcap.{child}")]);
        let run = scene.collect(&format!("prog.qcap.{child}"));
        assert_eq!(run.accesses(cells, 400), writes(50..90), "{compiler}");
        assert_eq!((&run.summary["pid"], &run.summary["ending"]), (&child.into(), &"exited".into()));
    }
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
fn what_happens_before_main_and_after_it_is_recorded() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        static volatile short early, late, last;
        __attribute__((constructor(101))) static void before(void) { early = 1; }
        __attribute__((destructor(101))) static void after(void) { last = 3; }
        static void at_exit(void) { late = 2; }
        int main(void) {
            atexit(at_exit);
            printf("%p %p %p\n", (void *)&early, (void *)&late, (void *)&last);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1"]);
        let run = scene.run("prog");
        for object in run.numbers() {
            assert_eq!(run.accesses(object, 2), [(1, 0, 2)], "{compiler}");
        }
    }
}

#[test]
fn atomic_operations_are_performed_and_recorded_as_the_original_does() {
    const SOURCE: &str = r#"
        #include <stdatomic.h>
        #include <stdio.h>
        static _Atomic(int) cell;
        static _Atomic(unsigned char) byte = 250;
        static unsigned __int128 wide;
        int main(void) {
            atomic_store(&cell, 5);
            int a = atomic_load_explicit(&cell, memory_order_acquire);
            int b = atomic_exchange(&cell, 7);
            int c = atomic_fetch_add(&cell, 3), d = atomic_fetch_sub(&cell, 1);
            int e = atomic_fetch_and(&cell, 13), f = atomic_fetch_or(&cell, 2), g = atomic_fetch_xor(&cell, 1);
            int expected = 10;
            int h = atomic_compare_exchange_strong(&cell, &expected, 20);
            int i = atomic_compare_exchange_strong(&cell, &expected, 30);
            atomic_fetch_add(&byte, 10);
            __atomic_fetch_add(&wide, ((unsigned __int128)1 << 64) + 2, __ATOMIC_SEQ_CST);
            unsigned __int128 was = __atomic_load_n(&wide, __ATOMIC_ACQUIRE);
            printf("%p %p %p %d %d %d %d %d %d %d %d %d %d %d %d %d %lu %lu\n", (void *)&cell, (void *)&byte, (void *)&wide,
                   a, b, c, d, e, f, g, h, i, expected, cell, byte, cell, (unsigned long)was, (unsigned long)(was >> 64));
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1", "-mcx16"]);
        let run = scene.run("prog");
        let [cell, byte, wide, results @ ..] = &run.numbers()[..] else { panic!("{}", run.printed) };
        // 5, 5, 7, 10, 9, 9 & 13 = 9, 9 | 2 = 11, 11 ^ 1 = 10; then 20, then the failure.
        assert_eq!(results, [5, 5, 7, 10, 9, 9, 11, 1, 0, 20, 20, 4, 20, 2, 1], "{compiler}");
        let (read, write) = (0x40, 0x41);
        let changes =
            [write, read, read, write, read, write, read, write, read, write, read, write, read, write];
        let compares = [read, write, read];
        let loads = [read, read];
        let tags: Vec<u8> = run.accesses(*cell, 4).into_iter().map(|(tag, ..)| tag).collect();
        assert_eq!(tags, [&changes[..], &compares, &loads].concat(), "{compiler}");
        assert_eq!(run.accesses(*byte, 1), [(read, 0, 1), (write, 0, 1), (read, 0, 1)]);
        assert_eq!(run.accesses(*wide, 16), [(read, 0, 16), (write, 0, 16), (read, 0, 16)], "{compiler}");
    }
}

#[test]
fn annotations_and_allocations_have_their_types() {
    const SOURCE: &str = r#"
        #include <quipu.h>
        #include <stdio.h>
        #include <stdlib.h>
        struct node { struct node *next; int key; };
        typedef struct { double x, y, z; } body;
        static struct node *make(int key) {
            struct node *n = malloc(sizeof *n);
            n->key = key;
            return n;
        }
        int main(void) {
            static char pool[3 * sizeof(struct node)];
            QUIPU_REGION(pool, 3, struct node);
            QUIPU_REGION_END(pool);
            __malloc_recorded(24, "struct.by.hand", pool);
            __calloc_recorded(3, 8, "i64", pool + 24);
            __free_recorded(pool);
            struct node *first = make(1), *second = make(2);
            body *bodies = calloc(10, sizeof(body));
            int *plain = malloc(40);
            bodies = realloc(bodies, 20 * sizeof(body));
            QUIPU_PAUSE();
            plain[0] = 1;
            QUIPU_RESUME();
            plain[1] = 2;
            printf("%p %p %p %p %p\n", (void *)pool, (void *)first, (void *)second, (void *)bodies, (void *)plain);
            free(first); free(second); free(bodies); free(plain);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O0"]);
        let run = scene.run("prog");
        let [pool, first, second, bodies, plain] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(run.regions("struct node"), [(pool, 16, 3)], "{compiler}");
        assert_eq!(run.regions("struct.by.hand"), [(pool, 24, 1)]);
        assert_eq!(run.regions("i64"), [(pool + 24, 8, 3)]);
        assert_eq!(run.regions("struct.node"), [(first, 16, 1), (second, 16, 1)], "{compiler}");
        let found = run.regions("body").into_iter().chain(run.regions("struct.body")).collect::<Vec<_>>();
        assert_eq!(found.len(), 2, "{compiler}");
        assert_eq!(found[1], (bodies, 24, 20));
        let removed =
            run.records.iter().filter(|record| record.tag == 3).map(|record| record.addr).collect::<Vec<_>>();
        for addr in [first, second, bodies, plain] {
            assert_eq!(removed.iter().filter(|known| **known == addr).count(), 1, "{compiler} {addr:#x}");
        }
        assert_eq!(run.accesses(plain, 40), [(1, 4, 4)], "{compiler}");
    }
}

#[test]
fn programs_in_cxx_have_objects_virtual_tables_and_exceptions() {
    const SOURCE: &str = r#"
        #include <quipu.h>
        #include <cstdio>
        #include <stdexcept>
        struct Shape { long area = 3; virtual long get() const { return area; } virtual ~Shape() {} };
        struct Square : Shape { long get() const override { return 2 * area; } };
        __attribute__((noinline)) long ask(const Shape *shape) { return shape->get(); }
        __attribute__((noinline)) void fail(int n) { if (n == 0) throw std::runtime_error("zero"); fail(n - 1); }
        int main() {
            Shape *shape = new Square;
            long n = ask(shape);
            double local[4] = {};
            { quipu::region region(local, 4); local[n - 6] = 1; }
            try { fail(3); } catch (const std::exception &) { n++; }
            std::printf("%p %p %ld\n", (void *)shape, (void *)local, n);
            delete shape;
        }"#;
    for compiler in compilers(CXX) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.cpp", &["-O1", "-std=c++17"]);
        let run = scene.run("prog");
        let [shape, local, n] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(n, 7);
        assert_eq!(run.regions("struct.Square"), [(shape, 16, 1)], "{compiler}");
        assert_eq!(run.regions("double"), [(local, 8, 4)], "{compiler}");
        // The pointer to the table is written by constructors and read by the call.
        assert!(run.accesses(shape, 8).contains(&(0, 0, 8)), "{compiler}");
        assert!(run.accesses(shape, 8).contains(&(1, 0, 8)), "{compiler}");
    }
}

#[test]
fn programs_in_rust_are_recorded_by_a_stable_compiler() {
    const SOURCE: &str = r#"
        static mut CELLS: [u64; 1000] = [0; 1000];
        #[inline(never)]
        fn sum(cells: &[u64]) -> u64 { let mut sum = 0u64; for cell in cells { sum = std::hint::black_box(sum + *cell); } sum }
        fn main() {
            let cells = unsafe { &mut *(&raw mut CELLS) };
            for (i, cell) in cells.iter_mut().enumerate() { *cell = std::hint::black_box(i as u64); }
            let sum = sum(cells);
            println!("{:p} {sum}", cells.as_ptr());
        }"#;
    let scene = Scene::new("rustc");
    fs::write(scene.path("prog.rs"), SOURCE).unwrap();
    let flags = quipu().arg("rustc-flags").output().unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.current_dir(&scene.folder).args(flags.split_whitespace()).args(["-O", "--edition=2021", "prog.rs"]);
    assert!(rustc.status().unwrap().success());
    let run = scene.run("prog");
    let [cells, sum] = run.numbers()[..] else { panic!("{}", run.printed) };
    assert_eq!(sum, 499_500);
    let expected = (0..1000).map(|i| (1, 8 * i, 8)).chain((0..1000).map(|i| (0, 8 * i, 8)));
    assert_eq!(run.accesses(cells, 8000), expected.collect::<Vec<_>>());
}

#[test]
fn libraries_that_are_loaded_later_are_recorded() {
    const PLUGIN: &str =
        "static int cells[64]; void *fill(void) { for (int i = 0; i < 64; i++) cells[i] = i; return cells; }";
    const SOURCE: &str = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(void) {
            void *library = dlopen("./plugin", RTLD_NOW);
            void *(*fill)(void) = (void *(*)(void))dlsym(library, "fill");
            printf("%p\n", fill());
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(PLUGIN, "plugin.c", &["-O1", "-shared", "-fPIC"]);
        scene.compile(SOURCE, "prog.c", &["-O1", "-ldl"]);
        let run = scene.run("prog");
        let expected: Vec<_> = (0..64).map(|i| (1, 4 * i, 4)).collect();
        assert_eq!(run.accesses(run.numbers()[0], 256), expected, "{compiler}");
    }
}

#[test]
fn ranges_and_unaligned_members_are_recorded_in_pieces() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        struct __attribute__((packed)) odd { char tag; int value; };
        struct big { char bytes[100]; };
        static struct odd odd;
        static struct big from, to;
        __attribute__((noinline)) static void copy(struct big *to, const struct big *from) { *to = *from; }
        int main(void) {
            odd.value = 3;
            copy(&to, &from);
            printf("%p %p %p\n", (void *)&odd, (void *)&from, (void *)&to);
            return 0;
        }"#;
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O1"]);
        let run = scene.run("prog");
        let [odd, from, to] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(run.accesses(odd, 5), [(0x81, 1, 4)], "{compiler}");
        // clang 14 calls the C library for copies, which is not recorded.
        if compiler == "gcc" {
            let bytes = |start| run.accesses(start, 100).into_iter().map(|(.., size)| size).sum::<u64>();
            assert_eq!((bytes(from), bytes(to)), (100, 100));
        }
    }
}

#[test]
fn make_takes_it_for_a_compiler() {
    let Ok(_) = Command::new("make").arg("--version").output() else {
        eprintln!("passed over: there is no make");
        return;
    };
    let scene = Scene::new("cc");
    fs::write(scene.path("a.c"), "int twice(int); int main(void) { return twice(3) - 6; }").unwrap();
    fs::write(scene.path("b.c"), "int cell; int twice(int n) { cell = n; return cell + n; }").unwrap();
    fs::write(
        scene.path("Makefile"),
        "CFLAGS = -O0 -MMD\nboth: a.o b.o\n\t$(CC) -o $@ $^\nonce: a.c\n\t$(CC) $(CFLAGS) a.c b.c -o $@\n",
    )
    .unwrap();
    let mut make = Command::new("make");
    make.arg("-s").arg("both").arg("once").arg(format!("CC={} cc", env!("CARGO_BIN_EXE_quipu")));
    assert!(make.current_dir(&scene.folder).env("QUIPU_LIB", library()).status().unwrap().success());
    assert!(fs::read_to_string(scene.path("b.d")).unwrap().contains("b.c"));
    for name in ["both", "once"] {
        assert_eq!(scene.run(name).summary["accesses"], 2, "{name}");
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
        assert!(said.contains("next: quipu report out.trace"), "{said}");
        assert_eq!(scene.captures(), ["out.qcap"], "{compiler}");
        let records = read(&fs::read(scene.path("out.trace")).unwrap());
        assert_eq!(records.iter().filter(|record| record.tag < 2).count(), 1, "{compiler}");
        record(&["--with", "tsan", "--follow-fork"]);
        assert_eq!(scene.captures().len(), 2, "{compiler}");
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
fn the_wrapper_has_the_exit_code_of_the_compiler_and_says_what_is_missing() {
    let scene = Scene::new("cc");
    let mut compile = quipu();
    compile.current_dir(&scene.folder).args(["cc", "nothing.c", "-o", "nothing"]).stderr(Stdio::null());
    assert_eq!(compile.status().unwrap().code(), Some(1));
    let output = quipu().env("QUIPU_CC", "no-such-compiler").args(["cc", "-c", "a.c"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no-such-compiler"));
    let output =
        quipu().args(["collect", env!("CARGO_BIN_EXE_quipu"), "-o"]).arg(scene.path("x")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("this is no capture file"));
}
