//! Tables in brief and for other programs: summaries of many traces, and comma-separated values of every verb with tables.

// A test whose setup fails has failed.
use quipu_testkit::fixtures;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

fn quipu(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quipu")).current_dir(fixtures("")).args(args).output().unwrap()
}

fn out(args: &[&str]) -> String {
    String::from_utf8(quipu(args).stdout).unwrap()
}

/// Traces of several families: sound ones, and one with errors.
const TRACES: [&str; 4] =
    ["drmemtrace/small", "apitrace/tri.trace", "cacheray/threads.trace", "drmemtrace/tiny.plain"];

#[test]
fn a_summary_has_a_line_for_each_trace() {
    for verb in ["info", "check"] {
        let line = [&[verb, "--summary"][..], &TRACES].concat();
        let done = quipu(&line);
        let text = String::from_utf8(done.stdout).unwrap();
        for trace in TRACES {
            assert_eq!(text.lines().filter(|line| line.contains(trace)).count(), 1, "{verb} {trace}: {text}");
        }
        let csv = out(&[&line[..], &["--columns", "trace,format,records,threads"]].concat());
        let rows: Vec<&str> = csv.lines().collect();
        assert_eq!(rows[0], "trace,format,records,threads");
        assert_eq!(rows[1], "drmemtrace/small,drmemtrace,232,1");
        assert_eq!(rows[2], "apitrace/tri.trace,apitrace,33,1");
        assert!(rows[3].starts_with("cacheray/threads.trace,cacheray,20133,"), "{csv}");
        assert_eq!(rows.len(), 1 + TRACES.len());
        let json: Value = serde_json::from_str(&out(&[&line[..], &["--json"]].concat())).unwrap();
        assert_eq!(json[0]["trace"], "drmemtrace/small");
        assert_eq!(json[0]["errors"], if verb == "check" { 2 } else { 0 });
        let code = if verb == "check" { 1 } else { 0 };
        assert_eq!(done.status.code(), Some(code), "{verb}");
    }
}

#[test]
fn threads_are_counted_where_no_header_says_how_many_there_are() {
    // The survey of the first counts them; those of the others are met in their records.
    let traces = ["apitrace/threads-3x20.trace", "stream/dtrace-mixed_1000.quipu", "lackey/mixed.lackey"];
    let rows = |verb: &str| out(&[&[verb, "--summary", "--columns", "threads"][..], &traces].concat());
    assert_eq!(rows("info"), "threads\n3\n4\n1\n");
    assert_eq!(rows("check"), rows("info"));
    // A pipe can be read only once.
    let trace = std::fs::read(fixtures(traces[0])).unwrap();
    for verb in ["info", "check"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
        command.args([verb, "--summary", "--columns", "records,threads", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(&trace).unwrap();
        let done = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), "records,threads\n861,3\n", "{verb}");
    }
}

#[test]
fn a_trace_that_cannot_be_opened_does_not_prevent_a_summary() {
    for verb in ["info", "check"] {
        let done = quipu(&[verb, "--summary", "--json", "nowhere", "drmemtrace/small"]);
        assert_eq!(done.status.code(), Some(2), "{verb}");
        let json: Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!((&json[0]["format"], &json[1]["records"]), (&Value::Null, &232.into()), "{verb}");
        assert!(json[0]["error"].as_str().unwrap().contains("cannot open"), "{json}");
    }
    let several = quipu(&["check", "drmemtrace/small", "drmemtrace/tiny.plain"]);
    assert_eq!(several.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&several.stderr).contains("--summary"), "{several:?}");
}

#[test]
fn a_report_of_two_traces_says_what_changes() {
    let (old, new) = ("drmemtrace/small", "drmemtrace/tiny.plain");
    let done = quipu(&["report", old, new]);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let text = String::from_utf8(done.stdout).unwrap();
    for part in ["old  drmemtrace/small", "new  drmemtrace/tiny.plain", "change", "L1D misses", "L1D MPKI"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json: Value = serde_json::from_str(&out(&["report", "--json", old, new])).unwrap();
    let loads = |side: &str| json[side]["results"]["mix"]["loads"].as_f64().unwrap();
    let change = |name: &str| {
        let changes = json["changes"].as_array().unwrap();
        changes
            .iter()
            .find(|change| change["number"] == name)
            .unwrap_or_else(|| panic!("{name}: {changes:?}"))
    };
    let of_loads = change("loads");
    assert_eq!(of_loads["change"].as_f64(), Some(loads("new") - loads("old")));
    assert_eq!(of_loads["percent"].as_f64(), Some((loads("new") - loads("old")) / loads("old") * 100.0));
    assert_eq!(change("caches.L1D_misses")["old"].as_f64(), Some(2.0));
    assert_eq!(change("records")["old"].as_f64(), Some(232.0));
    let span = change("time_span");
    assert!(span["old"].is_number() && span["new"].is_number(), "{span}");
    // Two equal traces change nothing, and that is no flaw either.
    let same = out(&["report", "--columns", "number,change", old, old]);
    assert!(same.starts_with("number,change\nrecords,0\n"), "{same}");
    // A trace of another family has other numbers, too.
    let other = quipu(&["report", old, "apitrace/tri.trace"]);
    assert_eq!(other.status.code(), Some(0), "{other:?}");
    let page = quipu(&["report", "--html", "-", old, new]);
    assert_eq!(page.status.code(), Some(2), "{page:?}");
    let many = quipu(&["report", old, new, "apitrace/tri.trace"]);
    assert_eq!(many.status.code(), Some(2), "{many:?}");
    assert!(String::from_utf8_lossy(&many.stderr).contains("quipu info --summary"), "{many:?}");
    let twice = quipu(&["report", "-", "-"]);
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");
}

#[test]
fn every_verb_that_prints_a_table_prints_it_for_other_programs() {
    let trace = "drmemtrace/small";
    for (line, head) in [
        (&["check", "--csv", trace][..], "rule,severity,"),
        (&["check", "--csv=check.rules", trace], "rule,severity,count,summary"),
        (&["check", "--columns", "count,rule", trace], "count,rule"),
        (&["check", "--list", "--columns", "rule,severity"], "rule,severity"),
        (&["info", "--csv", trace], "trace,format,records,threads,errors,warnings,notes,packed_bytes,error"),
        (&["tools", "--columns", "name,required"], "name,required"),
        (&["tools", "--csv=quipu.tools.options"], "tools.name,name,value,"),
        (&["formats", "--columns", "name,title"], "name,title"),
        (
            &["report", "--csv=counts.shards", "--columns", "thread,counts.loads", trace],
            "thread,counts.loads",
        ),
        (&["report", "--no-machine", "--csv", trace], "counts"),
        (&["analyze", "histogram", "--columns", "count,addr", trace], "histogram.icache.top"),
        (&["sim", "cache", "--columns", "name,misses", "--csv=caches.levels", trace], "name,misses"),
    ] {
        let text = out(line);
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with(head), "{line:?}: {text}");
        assert!(text.lines().count() > 1, "{line:?}: {text}");
    }
    let unknown = quipu(&["sim", "cache", "--columns", "name,mises", "--csv=caches.levels", trace]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("did you mean `misses`?"), "{unknown:?}");
    let nowhere = quipu(&["analyze", "histogram", "--columns", "nothing_like_it", trace]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
}
