//! Views of a recording: everything that the trace made from it has no room for.

use crate::instrumented::*;

const SOURCE: &str = r#"
    #include <pthread.h>
    #include <quipu.h>
    #include <stdatomic.h>
    #include <stdio.h>
    #include <stdlib.h>
    struct node { struct node *next; int key; };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static atomic_int count;
    __attribute__((noinline)) static struct node *make(int key) {
        struct node *n = malloc(sizeof(struct node));
        n->key = key;
        return n;
    }
    static void *work(void *arg) {
        QUIPU_THREAD_NAME("worker");
        pthread_mutex_lock(&lock);
        atomic_fetch_add_explicit(&count, 1, memory_order_release);
        pthread_mutex_unlock(&lock);
        return arg;
    }
    int main(void) {
        pthread_t thread;
        struct node *n = make(7);
        QUIPU_MARK("begin");
        pthread_create(&thread, 0, work, 0);
        pthread_join(thread, 0);
        printf("%p %p %p\n", (void *)n, (void *)&lock, (void *)&count);
        free(n);
        return 0;
    }"#;

/// Runs `quipu` in the scene's folder and returns its standard output.
fn said(scene: &Scene, args: &[&str]) -> String {
    let output = quipu().current_dir(&scene.folder).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_event_is_listed_with_its_place() {
    for_each(C, SOURCE, "prog.c", &["-O0", "-pthread"], |scene, run| {
        let [node, lock, count] = run.numbers()[..] else { panic!("{}", run.printed) };
        let rows = |args: &[&str]| -> Vec<Value> {
            let text = said(scene, &[&["view", "--json", "prog.quipu"], args].concat());
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        let hex = |addr: u64| format!("{addr:#x}");
        // The line of each call is its line in the source above.
        let line_of = |text: &str| SOURCE.lines().position(|line| line.contains(text)).unwrap() + 1;
        let allocs = rows(&["--kind", "alloc", "--addr", &hex(node)]);
        let [alloc] = &allocs[..] else { panic!("{allocs:?}") };
        assert_eq!((&alloc["bytes"], &alloc["type"]), (&16.into(), &"struct.node".into()), "{alloc}");
        assert_eq!(
            (&alloc["function"], &alloc["line"]),
            (&"make".into(), &line_of("malloc(").into()),
            "{alloc}"
        );
        let caller = &alloc["callers"][0];
        assert_eq!(
            (&caller["function"], &caller["line"]),
            (&"main".into(), &line_of("make(7)").into()),
            "{alloc}"
        );
        let locks = rows(&["--kind", "lock,unlock"]);
        let kinds: Vec<&str> = locks
            .iter()
            .filter(|row| row["addr"] == hex(lock))
            .map(|row| row["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, ["lock", "unlock"]);
        assert_eq!(locks[0]["function"], "work");
        let atomics = rows(&["--kind", "atomic", "--addr", &hex(count)]);
        assert_eq!((&atomics[0]["kind"], &atomics[0]["order"]), (&"atomic-add".into(), &"release".into()));
        assert!(locks[0]["stamp"].as_u64() < atomics[0]["stamp"].as_u64());
        let texts = rows(&["--kind", "text"]);
        let texts: Vec<_> = texts.iter().map(|row| (&row["kind"], &row["text"])).collect();
        assert_eq!(texts, [(&"mark".into(), &"begin".into()), (&"thread-name".into(), &"worker".into())]);
        let calls = rows(&["--kind", "call"]);
        assert_eq!(calls.len() as u64, 2 * run.summary["calls"].as_u64().unwrap(), "{}", scene.compiler);
        // A part by numbers, then as text.
        let all = rows(&[]);
        assert_eq!(rows(&["--skip", "3", "--take", "4"]), all[3..7]);
        let text = said(scene, &["view", "--kind", "alloc", "--addr", &hex(node), "prog.quipu"]);
        let place = format!("make prog.c:{}", line_of("malloc("));
        let from = format!(" < main prog.c:{}", line_of("make(7)"));
        assert!(text.contains(&place) && text.contains(&from) && text.contains("type=struct.node"), "{text}");
    });
}

#[test]
fn what_a_capture_file_is_can_be_asked() {
    for_each(C, SOURCE, "prog.c", &["-O0", "-pthread"], |scene, run| {
        let info: Value = serde_json::from_str(&said(scene, &["info", "--json", "prog.quipu"])).unwrap();
        for field in ["pid", "ending"] {
            assert_eq!(info[field], run.summary[field], "{field}");
        }
        assert_eq!(
            info["threads"].as_array().unwrap().len() as u64,
            run.summary["threads"].as_u64().unwrap()
        );
        assert_eq!(info["threads"][1]["name"], "worker");
        assert_eq!(info["events"]["lock"], 1);
        assert_eq!(info["events"]["enter"], run.summary["calls"]);
        assert!(info["program"].as_str().unwrap().ends_with("/prog"), "{info}");
        let text = said(scene, &["info", "prog.quipu"]);
        assert!(text.contains("worker") && text.contains("thread-create"), "{text}");
    });
}

#[test]
fn every_verb_reads_a_recording() {
    let scene = Scene::new("cc");
    scene.compile(SOURCE, "prog.c", &["-O0", "-pthread"]);
    let run = scene.run("prog");
    let [node, lock, count] = run.numbers()[..] else { panic!("{}", run.printed) };
    let table = |name: &str| -> Vec<Value> {
        let text = said(&scene, &["view", "--table", name, "--json", "prog.quipu"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let n = |field: &str| run.summary[field].as_u64().unwrap();
    assert_eq!((table("access").len() + table("range").len()) as u64, n("accesses"));
    assert_eq!(table("enter").len() as u64, n("calls"));
    assert_eq!(table("alloc").len() as u64, n("allocations"));
    assert_eq!(table("atomic").len() as u64, n("atomics"));
    let has = |rows: &[Value], field: &str, addr: u64, more: &[(&str, &str)]| {
        let is_it = |row: &&Value| {
            row[field] == format!("{addr:#x}") && more.iter().all(|(name, value)| row[*name] == *value)
        };
        assert!(rows.iter().any(|row| is_it(&row)), "{field} {addr:#x} {more:?}: {rows:?}");
    };
    has(&table("alloc"), "addr", node, &[("call", "malloc")]);
    has(&table("free"), "addr", node, &[("call", "malloc")]);
    has(&table("sync"), "object", lock, &[("what", "lock")]);
    has(&table("sync"), "object", lock, &[("what", "unlock")]);
    has(&table("atomic"), "addr", count, &[("operation", "add"), ("order", "release"), ("kind", "write")]);
    let texts: Vec<Value> = table("text").iter().map(|row| row["text"].clone()).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    let whats: Vec<Value> = table("process").iter().map(|row| row["what"].clone()).collect();
    assert_eq!(whats, ["began", "exited"]);
    for args in [
        &["report", "prog.quipu"][..],
        &["check", "prog.quipu"],
        &["describe", "prog.quipu"],
        &["info", "--format", "stream", "prog.quipu"],
        &["analyze", "working-set,hot,functions,types", "prog.quipu"],
        &["view", "--csv", "prog.quipu"],
        &["trim", "--skip", "5", "--take", "20", "prog.quipu", "-o", "part.quipu"],
        &["check", "part.quipu"],
        &["convert", "prog.quipu", "-o", "again.quipu"],
        &["check", "again.quipu"],
        &["convert", "prog.quipu", "--to", "drmemtrace", "-o", "made.zip"],
        &["convert", "prog.quipu", "--to", "cacheray", "-o", "converted.trace"],
    ] {
        said(&scene, args);
    }
    let bytes = |name: &str| fs::read(scene.path(name)).unwrap();
    assert_eq!(bytes("converted.trace"), bytes("prog.trace"));
    let part = said(&scene, &["view", "--json", "--format", "stream", "part.quipu"]);
    assert_eq!(part.lines().count(), 20);
    let refused =
        quipu().current_dir(&scene.folder).args(["view", "--kind", "lok", "prog.quipu"]).output().unwrap();
    assert!(String::from_utf8(refused.stderr).unwrap().contains("unlock"));
}

/// Three rounds with 10 writes each between two marks, after 64 writes, and with one write after each.
const ROUNDS: &str = r#"
    #include <quipu.h>
    #include <stdio.h>
    static long cells[64];
    __attribute__((noinline)) static void fill(long round) {
        for (int i = 0; i < 10; i++) cells[i] = round;
    }
    __attribute__((noinline)) static void rest(long round) {
        cells[63] = round;
    }
    int main(void) {
        for (int i = 0; i < 64; i++) cells[i] = i;
        for (long round = 0; round < 3; round++) {
            QUIPU_MARK("begin");
            fill(round);
            QUIPU_MARK("end");
            rest(round);
        }
        printf("%p\n", (void *)cells);
        return 0;
    }"#;

#[test]
fn verbs_read_what_is_between_marks() {
    for_each(C, ROUNDS, "prog.c", &["-O0"], |scene, run| {
        let [cells] = run.numbers()[..] else { panic!("{}", run.printed) };
        let addr = format!("{cells:#x}..{:#x}", cells + 64 * 8);
        let writes = |trace: &str, between: &[&str]| {
            let view = ["view", "--json", "--kind", "write", "--addr", &addr, trace];
            said(scene, &[&view[..], between].concat()).lines().count()
        };
        for trace in ["prog.quipu", "prog.trace"] {
            assert_eq!(writes(trace, &[]), 64 + 3 * 11, "{trace}");
            assert_eq!(writes(trace, &["--between", "begin,end"]), 3 * 10, "{trace}");
            assert_eq!(writes(trace, &["--between", "end,begin"]), 2, "{trace}");
            assert_eq!(writes(trace, &["--between", "begin,begin"]), 2 * 11, "{trace}");
            assert_eq!(writes(trace, &["--between", ",begin"]), 64, "{trace}");
            assert_eq!(writes(trace, &["--between", "end,"]), 3 + 2 * 10, "{trace}");
            for verb in ["report", "analyze working-set", "info"] {
                let words: Vec<&str> = verb.split(' ').chain(["--between", "begin,end", trace]).collect();
                said(scene, &words);
            }
            let line = ["report", "--between", "begin,finish", trace];
            let refused = quipu().current_dir(&scene.folder).args(line).output().unwrap();
            let text = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(2), "{text}");
            assert!(text.contains("`finish`") && text.contains("begin (3), end (3)"), "{text}");
        }
        assert_eq!(writes("prog.quipu", &["--between", "fill,rest"]), 3 * 10);
        said(scene, &["trim", "--between", ",begin", "prog.quipu", "-o", "part.quipu"]);
        let shown =
            ["view", "--json", "--format", "stream", "--kind", "write", "--addr", &addr, "part.quipu"];
        let part = said(scene, &shown);
        assert_eq!(part.lines().count(), 64);
        let several = ["trim", "--between", "begin,end", "prog.quipu", "-o", "parts.quipu"];
        let refused = quipu().current_dir(&scene.folder).args(several).output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && text.contains("there are 3 parts"), "{text}");
    });
}

/// Threads that take a lock, arrive at a barrier, and wait for a condition, a known number of times each.
const LOCKS: &str = r#"
    #include <pthread.h>
    #include <stdio.h>
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    static pthread_barrier_t barrier;
    static long sum, ready;
    static void *work(void *arg) {
        for (int i = 0; i < 10; i++) {
            pthread_mutex_lock(&lock);
            sum += (long)arg;
            pthread_mutex_unlock(&lock);
        }
        pthread_barrier_wait(&barrier);
        return arg;
    }
    int main(void) {
        pthread_t threads[3];
        pthread_barrier_init(&barrier, 0, 4);
        for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, work, (void *)i);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
        pthread_mutex_lock(&lock);
        ready = 1;
        pthread_cond_signal(&condition);
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&lock);
        printf("%ld %p\n", sum, (void *)&lock);
        return 0;
    }"#;

#[test]
fn what_threads_do_to_each_other_is_synchronization_of_workload_events() {
    for_each(C, LOCKS, "prog.c", &["-O1", "-pthread"], |scene, run| {
        let [sum, lock] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(sum, 30);
        said(
            scene,
            &[
                "run",
                "-q",
                "--backend",
                "stgen,l=textv2",
                "--backend",
                "simplecount",
                "prog.quipu",
                "-o",
                "out",
            ],
        );
        let counts = fs::read_to_string(scene.path("out/simplecount/simplecount.txt")).unwrap();
        let expected = [
            ("Spawn", 3),
            ("Join", 3),
            ("Lock", 31),
            ("Unlock", 31),
            ("Barrier", 4),
            ("Signal", 1),
            ("Broadcast", 1),
        ];
        for (what, n) in expected {
            let line = format!("Total {what:<9} Events: {n}\n");
            assert!(counts.contains(&line), "{}: {what}: {counts}", scene.compiler);
        }
        // Three threads were created, and four arrived at the barrier.
        let threads = fs::read_to_string(scene.path("out/stgen/sigil.pthread.out")).unwrap();
        assert_eq!(threads.lines().filter(|line| line.starts_with("##")).count(), 3, "{threads}");
        let barrier = threads.lines().find(|line| line.starts_with("**")).unwrap();
        assert_eq!(barrier.split(',').count(), 5, "{threads}");
        said(scene, &["convert", "-q", "prog.quipu", "-o", "prog.prism"]);
        let events = said(scene, &["view", "-q", "--table", "events", "--csv", "prog.prism"]);
        let of_lock =
            events.lines().filter(|line| line.contains(&format!("{lock:#x}")) && line.contains("lock"));
        assert!(of_lock.count() >= 62, "{events}");
        // Joins are of the created threads.
        let work: Value =
            serde_json::from_str(&said(scene, &["analyze", "workload", "--json", "prog.prism"])).unwrap();
        let workload = &work["results"]["workload"];
        assert_eq!(workload["unknown_joins"], 0, "{work}");
        assert_eq!(workload["threads"].as_array().unwrap().len(), 4, "{work}");
    });
}

/// Function entries and exits in the events of a recording, in order: whether it is an entry, and the name.
fn passed(scene: &Scene, prism: &str) -> Vec<(bool, String)> {
    let text = said(scene, &["view", "-q", "--table", "events", "--csv", prism]);
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let [what, name] = ["type", "name"].map(|name| head.iter().position(|column| *column == name).unwrap());
    let of = |line: Vec<&str>| {
        let is_one = matches!(line[what], "enter" | "exit");
        is_one.then(|| (line[what] == "enter", line[name].to_owned()))
    };
    lines.filter_map(of).collect()
}

#[test]
fn functions_of_recorded_programs_have_names_in_workload_events() {
    // Compilers turn the exit hooks of `fill` and `pass` into tail calls, so that these return to the callers.
    const SOURCE: &str = "
        static int cells[64];
        __attribute__((noinline)) void fill(int n) { for (int i = 0; i < n; i++) cells[i] = i; }
        __attribute__((noinline)) void pass(int n) { fill(n); }
        __attribute__((noinline)) int sum(int n) {
            int all = 0;
            for (int i = 0; i < n; i++) all += cells[i];
            return all;
        }
        int main(int argc, char **argv) {
            (void)argv;
            pass(63 + argc);
            pass(31 + argc);
            return sum(63 + argc) == 2016 ? 0 : 1;
        }";
    // From debug information, and from the symbol table.
    for flags in [&["-O1"][..], &["-O2"], &["-O2", "-g0"]] {
        for_each(C, SOURCE, "prog.c", flags, |scene, _| {
            let about = format!("{} {flags:?}", scene.compiler);
            said(scene, &["convert", "-q", "prog.quipu", "-o", "prog.prism"]);
            let names = "+main +pass +fill -fill -pass +pass +fill -fill -pass +sum -sum -main";
            let shown =
                |(enters, name): &(bool, String)| format!("{}{name}", if *enters { '+' } else { '-' });
            let events: Vec<String> = passed(scene, "prog.prism").iter().map(shown).collect();
            assert_eq!(events.join(" "), names, "{about}");
            said(scene, &["run", "-q", "--backend", "sigilclassic", "prog.quipu", "-o", "run"]);
            let table = fs::read_to_string(scene.path("run/sigilclassic.tsv")).unwrap();
            // 256 bytes, then 128 of them again before they were read; 256 are read.
            for row in ["1\tfill\t2\t0\t0\t0\t0\t0\t0\t256\t128", "1\tfill\t1\tsum\t256\t0"] {
                assert!(table.lines().any(|line| line == row), "{about}: {row}: {table}");
            }
            let functions = said(scene, &["analyze", "functions", "--json", "prog.quipu"]);
            let functions: Value = serde_json::from_str(&functions).unwrap();
            let known = functions["results"]["functions"]["functions"].as_array().unwrap();
            for (name, calls) in [("main", 1), ("pass", 2), ("fill", 2), ("sum", 1)] {
                let found = known.iter().find(|function| function["names"][0] == name);
                assert_eq!(found.unwrap()["calls"], calls, "{about}: {name}: {functions}");
            }
            let work = said(scene, &["analyze", "workload", "--json", "prog.prism"]);
            assert!(work.contains("\"fill\"") && work.contains("\"sum\""), "{about}: {work}");
            // Without the program, each function is named by its entry address.
            fs::remove_file(scene.path("prog")).unwrap();
            said(scene, &["convert", "-q", "--force", "prog.quipu", "-o", "prog.prism"]);
            let (mut open, mut n_entered) = (Vec::new(), 0);
            for (enters, name) in passed(scene, "prog.prism") {
                assert!(name.starts_with("function 0x"), "{about}: {name}");
                match enters {
                    true => open.push(name),
                    false => assert_eq!(open.pop(), Some(name), "{about}"),
                }
                n_entered += u64::from(enters);
            }
            assert_eq!((n_entered, open.len()), (6, 0), "{about}");
        });
    }
}

#[test]
fn what_was_inlined_has_the_line_of_the_function_that_it_is_in() {
    const SOURCE: &str = r#"
        #include <cstdio>
        #include <vector>
        int main() {
            std::vector<long> numbers(321);
            std::printf("%p\n", (void *)numbers.data());
        }"#;
    for_each(CXX, SOURCE, "prog.cpp", &["-O2"], |scene, run| {
        let text = said(
            scene,
            &[
                "view",
                "--json",
                "--kind",
                "alloc",
                "--addr",
                &run.printed[..run.printed.len() - 1],
                "prog.quipu",
            ],
        );
        let alloc: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&alloc["function"], &alloc["line"]),
            (&"main".into(), &5.into()),
            "{}: {alloc}",
            scene.compiler
        );
        let inlined = alloc["inlined"]["function"].as_str().unwrap();
        assert!(inlined.contains("new_allocator<long"), "{alloc}");
    });
}

#[test]
fn a_capture_file_that_was_cut_is_told_to_be() {
    let scene = Scene::new("cc");
    scene.compile("int cell; int main(void) { cell = 1; return 0; }", "prog.c", &["-O0"]);
    scene.run("prog");
    let whole = fs::read(scene.path("prog.quipu")).unwrap();
    let collect = |n_bytes: usize| {
        fs::write(scene.path("cut.quipu"), &whole[..n_bytes]).unwrap();
        let line = ["convert", "--to", "cacheray", "--force", "cut.quipu", "-o", "cut.trace"];
        let output = quipu().current_dir(&scene.folder).args(line).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(collect(whole.len()).0, Some(0));
    for n_bytes in [5000, 100_000, whole.len() - 100] {
        let (code, said) = collect(n_bytes);
        assert_eq!(code, Some(1), "{n_bytes}: {said}");
        assert!(said.contains("--keep-damaged"), "{n_bytes}: {said}");
    }
}

#[test]
fn record_and_convert_pack_alike() {
    let scene = Scene::new("cc");
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread"]);
    let run = |args: &[&str]| quipu().current_dir(&scene.folder).args(args).output().unwrap();
    let bytes = |name: &str| fs::read(scene.path(name)).unwrap();
    for (name, packing, magic) in [
        ("a.trace", &["--container", "zstd", "--level", "15"][..], &[0x28, 0xb5, 0x2f, 0xfd][..]),
        ("b.trace", &["--container", "zip", "--level", "9"], b"PK"),
        ("c.trace.gz", &["--level", "9"], &[0x1f, 0x8b]),
        ("d.trace.zst", &["--container", "plain"], &[2]),
    ] {
        let recorded = run(&[&["record", "-o", name], packing, &["--", "./prog"]].concat());
        assert!(recorded.status.success(), "{name}: {recorded:?}");
        let kept = Path::new(name).with_extension("quipu");
        let again = format!("again-{name}");
        let from = ["convert", "--to", "cacheray", kept.to_str().unwrap(), "-o", &again];
        let converted = run(&[&from, packing].concat());
        assert!(converted.status.success(), "{name}: {converted:?}");
        assert!(bytes(name) == bytes(&again) && bytes(name).starts_with(magic), "{name}");
    }
    for packing in
        [&["--container", "plain", "--level", "3"][..], &["--container", "tar"], &["--level", "20"]]
    {
        let record = run(&[&["record", "-o", "e.trace.gz"], packing, &["--", "./prog"]].concat());
        let from = ["convert", "--to", "cacheray", "a.quipu", "-o", "e.trace.gz"];
        let convert = run(&[&from, packing].concat());
        assert_eq!((record.status.code(), convert.status.code()), (Some(2), Some(2)), "{packing:?}");
        assert_eq!(record.stderr, convert.stderr, "{packing:?}");
    }
}

#[test]
fn records_of_a_trace_of_a_recording_are_counted() {
    let scene = Scene::new("cc");
    scene.compile(SOURCE, "prog.c", &["-O1", "-pthread"]);
    let run = scene.run("prog");
    let answer: Value =
        serde_json::from_str(&said(&scene, &["analyze", "counts", "--json", "prog.trace"])).unwrap();
    let total = &answer["results"]["counts"]["total"];
    assert_eq!(total["records"], run.records.len());
    let of = |tag: u8| run.records.iter().filter(|record| record.tag & 0x3f == tag).count();
    for (tag, key) in [(0, "loads"), (1, "stores"), (3, "regions_removed")] {
        assert_eq!(total[key], of(tag), "{key}");
    }
    // A mark is an annotation of no memory.
    let [marks, added] = ["marks", "regions_added"].map(|key| total[key].as_u64().unwrap());
    assert_eq!((marks, marks + added), (1, of(2) as u64), "{total}");
}

#[test]
fn types_of_a_recorded_program_say_where_memory_was_allocated() {
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(SOURCE, "prog.c", &["-O0", "-pthread"]);
        let record = ["record", "-q", "-o", "prog.trace", "--", "./prog"];
        assert!(quipu().current_dir(&scene.folder).args(record).output().unwrap().status.success());
        let line_of = |text: &str| SOURCE.lines().position(|line| line.contains(text)).unwrap() + 1;
        let place = format!("make prog.c:{} < main prog.c:{}", line_of("malloc(sizeof"), line_of("make(7)"));
        let types = ["analyze", "types", "--binary", "prog", "prog.trace"];
        let answer: Value = serde_json::from_str(&said(&scene, &[&types[..], &["--json"]].concat())).unwrap();
        let sites = answer["results"]["types"]["sites"].as_array().unwrap();
        let site = sites.iter().find(|site| site["allocated"] == place);
        assert_eq!(site.unwrap()["type"], "node", "{compiler}: {answer}");
        assert!(said(&scene, &types).contains(&place), "{compiler}");
        // Without the file, equal annotations are one site.
        fs::remove_file(scene.path("prog.trace.places")).unwrap();
        assert!(!said(&scene, &types).contains(&place), "{compiler}");
        // A file of this name that is another stays as it is.
        fs::write(scene.path("prog.trace.places"), "mine").unwrap();
        let convert = ["convert", "-q", "--to", "cacheray", "--force", "prog.quipu", "-o", "prog.trace"];
        said(&scene, &convert);
        assert_eq!(fs::read(scene.path("prog.trace.places")).unwrap(), b"mine");
    }
}
