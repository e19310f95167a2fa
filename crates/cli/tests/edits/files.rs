//! Threads and cores in files of their own, or several in one: nothing is dropped silently.

use super::*;

#[test]
fn threads_get_names_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let input = trace("threadsig.x64");
    for (names, what) in [
        ("872901=872902", "the trace has a thread 872902 already"),
        ("872901=7,872902=7", "another thread is given 7 already"),
        ("872901=7,872901=8", "thread 872901 has got a name already"),
        ("7=8", "the trace has no thread 7"),
    ] {
        let assert = quipu(&["filter", &input, "--rename-thread", names, "-o", &out]).assert().code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains(what), "{names}: {text}");
        assert!(!Path::new(&out).exists(), "{names}");
    }
    let swap = "872901=872902,872902=872901";
    quipu(&["filter", &input, "--rename-thread", swap, "-o", &out]).assert().code(0);
    let files = |path: &Path| names(path).iter().filter(|name| name.contains(".trace.")).count();
    assert_eq!(files(Path::new(&out)), files(Path::new(&input)));
}

#[test]
fn threads_go_to_cores_and_into_one_file_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let counts = |trace: &str| -> serde_json::Value {
        let answer = quipu(&["analyze", "counts", "--json", trace]).assert().code(0);
        let answer: serde_json::Value = serde_json::from_slice(&answer.get_output().stdout).unwrap();
        let total = &answer["results"]["counts"]["total"];
        serde_json::json!([total["instructions"], total["loads"], total["stores"]])
    };
    let expected = counts(&trace("thr"));
    quipu(&["convert", &trace("thr"), "--sharding", "cores", "-o", &path("cores")]).assert().code(0);
    assert_eq!(counts(&path("cores")), expected);
    quipu(&["split", &path("cores"), "-o", &path("threads")]).assert().code(0);
    assert_eq!(counts(&path("threads")), expected);
    quipu(&["merge", &path("threads"), "-o", &path("all.trace.gz")]).assert().code(0);
    assert_eq!(counts(&path("all.trace.gz")), expected);
    quipu(&["split", &path("all.trace.gz"), "-o", &path("again"), "--container", "zip"]).assert().code(0);
    assert_eq!(counts(&path("again")), expected);
    assert_eq!(names(&folder.path().join("again")).len(), 6);
}

#[test]
fn what_comes_in_other_files_is_not_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (cores, threads, again) = (path("cores"), path("threads"), path("again"));
    let nothing = serde_json::json!({ "records": 0, "instrs": 0 });
    for name in ["threadsig.x64", "thr", "tiny.chunk1000"] {
        let input = trace(name);
        let to_cores = told(&["convert", "--sharding", "cores", &input], &cores);
        assert_eq!(to_cores["dropped"], nothing, "{name}");
        assert_eq!(to_cores["read"]["instrs"], to_cores["written"]["instrs"], "{name}");
        assert!(to_cores["files"][0]["read"].is_null(), "a core's file comes from several");
        // Copies at the heads of chunks do not count as records.
        let same = told(&["convert", &input], &again);
        assert_eq!(same["read"]["records"], to_cores["read"]["records"], "{name}");
        let to_threads = told(&["split", &input], &threads);
        assert_eq!(to_threads["dropped"], nothing, "{name}");
        assert_eq!(to_threads["written"]["records"], same["written"]["records"], "{name}");
        let back = told(&["split", &cores], &threads);
        assert_eq!(back["dropped"]["instrs"], 0, "{name}");
        assert_eq!(back["written"]["instrs"], same["written"]["instrs"], "{name}");
    }
}

#[test]
fn records_of_the_layout_are_told_where_their_number_changes() {
    let folder = tempfile::tempdir().unwrap();
    let number = |of: &serde_json::Value| of.as_u64().unwrap();
    for (name, n_fewer) in [("threadsig.x64", 41), ("thr", 16), ("tiny.chunk1000", 6)] {
        let input = trace(name);
        for (i, line) in [
            &["merge"][..],
            &["split"],
            &["convert", "--sharding", "cores"],
            &["convert", "--container", "gzip"],
        ]
        .into_iter()
        .enumerate()
        {
            let out = folder.path().join(format!("{name}{i}")).display().to_string();
            let args = [line, &[input.as_str()]].concat();
            let answer = told(&args, &out);
            let layout = &answer["layout"];
            let kept_of = |side: &str| number(&answer[side]["records"]) - number(&layout[side]);
            assert_eq!(
                kept_of("read") - number(&answer["dropped"]["records"]),
                kept_of("written"),
                "{args:?}"
            );
            let output = quipu(&[&args[..], &["-o", &out, "--force"]].concat()).assert().code(0);
            let said = String::from_utf8_lossy(&output.get_output().stderr).into_owned();
            let is_told = said.contains("belong to the layout of files");
            assert_eq!(is_told, layout["read"] != layout["written"], "{args:?}: {said}");
            if line == ["merge"] {
                assert_eq!(number(&layout["read"]) - number(&layout["written"]), n_fewer, "{name}");
            }
        }
    }
}

#[test]
fn what_is_left_out_of_other_files_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (all, one, cores) = (path("all.gz"), path("one"), path("cores"));
    told(&["merge", &trace("thr")], &all);
    let part = told(&["split", "--thread", "5750", &all], &one);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let (read, written, dropped) = (&part["read"], &part["written"], &part["dropped"]);
    assert_eq!(number(&dropped["instrs"]), number(&read["instrs"]) - number(&written["instrs"]));
    assert!(number(&dropped["instrs"]) > 0);
    // The only header of the stream is that of the thread.
    assert_eq!(number(&dropped["records"]), number(&read["records"]) - number(&written["records"]));
    // Kernel code of context switches goes to the core that switches.
    told(&["split", &trace("thr.core_sharded_kernel")], &one);
    let moved = told(&["convert", "--sharding", "cores", &one], &cores);
    let (read, written, dropped) = (&moved["read"], &moved["written"], &moved["dropped"]);
    assert_eq!(number(&dropped["instrs"]), number(&read["instrs"]) - number(&written["instrs"]));
    assert!(number(&dropped["instrs"]) > 0);
    let left =
        quipu(&["view", "--json", "--kind", "context_switch_start,context_switch_end", &cores]).assert();
    assert!(left.code(0).get_output().stdout.is_empty());
}

#[test]
fn windows_are_numbered_in_the_order_of_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let windows = |parts: &str| -> (u64, Vec<String>) {
        let written = told(&["trim", "--instrs", parts, &trace("tiny.chunk1000")], &out);
        let shown = quipu(&["view", "--json", "--kind", "window_id", &out]).assert().code(0);
        let text = String::from_utf8_lossy(&shown.get_output().stdout).into_owned();
        let ids = text.lines().map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["value"].as_str().unwrap().to_owned()
        });
        (written["written"]["instrs"].as_u64().unwrap(), ids.collect())
    };
    let apart = windows("100..300,700..900");
    assert_eq!(apart.1, ["0x0", "0x1"]);
    assert_eq!(windows("700..900,100..300"), apart);
    assert_eq!(windows("700..800,100..200,750..900,200..300"), apart);
    assert_eq!(windows("5..10,3..7"), windows("3..10"));
    assert!(windows("5..10,3..7").1.is_empty());
}

#[test]
fn a_thread_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (all, out) = (path("all.gz"), path("out"));
    told(&["merge", &trace("thr")], &all);
    for input in [all.clone(), trace("thr"), trace("threadsig.core_sharded")] {
        for args in [&["analyze", "counts"][..], &["report"], &["view"], &["view", "--kind", "read"]] {
            let args: Vec<&str> = args.iter().copied().chain(["--thread", "1", &input]).collect();
            quipu(&args).assert().code(2);
        }
    }
    let text = |args: &[&str]| {
        let assert = quipu(args).assert().code(2);
        String::from_utf8_lossy(&assert.get_output().stderr).into_owned()
    };
    assert!(text(&["analyze", "counts", "--thread", "5750,77", &all]).contains("no thread 77"));
    // A part of a file with several threads counts the records of all of them, and may contain nothing of the selected one.
    let part = ["--skip-instrs", "100", "--take-instrs", "3", "--thread", "5750", &all];
    let hint = "parts count the records of all";
    assert!(text(&[&["view"][..], &part].concat()).contains(hint));
    assert!(text(&[&["trim", "-o", &out][..], &part].concat()).contains(hint));
    assert!(
        text(&["analyze", "counts", "--skip", "100", "--take", "50", "--thread", "5750", &all])
            .contains(hint)
    );
    quipu(&["view", "--thread", "5750", "--take", "0", &trace("thr")]).assert().code(0);
}

#[test]
fn threads_are_chosen_from_files_that_hold_several() {
    let folder = tempfile::tempdir().unwrap();
    let counts = |trace: &str| -> Vec<serde_json::Value> {
        let assert = quipu(&["analyze", "counts", "--json", trace]).assert().code(0);
        let answer: serde_json::Value = serde_json::from_slice(&assert.get_output().stdout).unwrap();
        let total = &answer["results"]["counts"]["total"];
        ["instructions", "loads", "stores", "threads"].iter().map(|key| total[key].clone()).collect()
    };
    let chosen =
        |input: &str, edits: &str, tid: u64| counts(&edited(input, edits, folder.path(), &[tid]).unwrap());
    for tid in [872805, 872901, 872906] {
        let input = trace("threadsig.x64");
        let expected = chosen(&input, "convert --thread", tid);
        assert_eq!(expected[3], 1);
        for edits in [
            "merge, convert --thread",
            "merge, filter --thread",
            "merge, split --thread",
            "convert --sharding cores, convert --thread, split",
            "convert --sharding cores, split --thread",
            "merge, trim --skip-instrs 0 --thread",
        ] {
            assert_eq!(chosen(&input, edits, tid), expected, "{tid}: {edits}");
        }
    }
    // Kernel code of a context switch belongs to the thread that it switches to.
    let input = trace("thr.core_sharded_kernel");
    assert_eq!(chosen(&input, "filter --thread", 5751), chosen(&input, "split --thread", 5751));
    let out = folder.path().join("none").display().to_string();
    quipu(&["filter", "--thread", "1", &input, "-o", &out]).assert().code(2);
    assert!(!Path::new(&out).exists());
}

#[test]
fn splitting_files_of_cores_gives_the_threads_that_were_there() {
    // Both fixtures are of the same recording, except for kernel code of context switches.
    let folder = tempfile::tempdir().unwrap();
    let out =
        edited(&trace("thr.core_sharded_kernel"), "split, filter --drop-kernel", folder.path(), &[]).unwrap();
    let other = tempfile::tempdir().unwrap();
    let expected = edited(&trace("thr.kernel_injected"), "filter --drop-kernel", other.path(), &[]).unwrap();
    let of = |folder: &str| -> Vec<(u64, Vec<String>)> {
        let mut threads = Vec::new();
        for name in names(Path::new(folder)).iter().filter(|name| name.contains(".trace.")) {
            let file = Path::new(folder).join(name).display().to_string();
            let assert = quipu(&["view", "--json", &file]).assert().code(0);
            let text = String::from_utf8_lossy(&assert.get_output().stdout).into_owned();
            let records: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let records: Vec<_> = records.into_iter().filter(|record| record["type"] != "marker").collect();
            let tid = records[0]["tid"].as_u64().unwrap();
            let shown = |record: &serde_json::Value| {
                format!("{} {} {} {}", record["type"], record["addr"], record["size"], record["encoding"])
            };
            threads.push((tid, records.iter().map(shown).collect()));
        }
        threads.sort();
        threads
    };
    assert!(of(&out) == of(&expected));
}
