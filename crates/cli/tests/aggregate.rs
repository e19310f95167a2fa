//! `analyze aggregate` and `view --where`: compares results with sums over printed rows, and with other analyses.

use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Standard output of a command that has to succeed or report damage.
fn quipu(args: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_quipu")).current_dir(fixtures("")).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() < Some(2), "{args:?}: {text}");
    String::from_utf8(output.stdout).unwrap()
}

/// The result of `aggregate`.
fn aggregate(args: &[&str], trace: &str) -> Value {
    let words = ["analyze", "aggregate", "--json", "--top", "0", trace];
    let answer: Value = serde_json::from_str(&quipu(&[&words[..], args].concat())).unwrap();
    answer["results"]["aggregate"].clone()
}

/// The values of each key as strings of digits.
fn digits(found: &Value) -> BTreeMap<String, Vec<String>> {
    let all = |group: &Value| -> Vec<String> {
        let values = group["values"].as_array().unwrap().iter();
        values.map(|value| value["digits"].as_str().unwrap_or("").to_owned()).collect()
    };
    let groups = found["groups"].as_array().unwrap().iter();
    groups.map(|group| (group["key"].as_str().unwrap().to_owned(), all(group))).collect()
}

/// Rows of a table as CSV: column names, then the cells of each row.
fn csv(trace: &str, table: &str, more: &[&str]) -> (Vec<String>, Vec<Vec<String>>) {
    let text = quipu(&[&["view", "--table", table, "--csv", trace], more].concat());
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    (lines.next().unwrap(), lines.collect())
}

#[test]
fn counts_and_sums_are_those_of_the_rows() {
    for (trace, table, key, value) in [
        ("drmemtrace/threadsig.x64", "memrefs", "type", "size"),
        ("drmemtrace/threadsig.x64", "memrefs", "pc", "size"),
        ("cacheray/structs.trace", "records", "type", "size"),
        ("apitrace/tri.trace", "calls", "function", "args"),
        ("dtrace/classic/agg_scalar", "records", "probe", "size"),
        ("lackey/mixed.lackey", "records", "type", "size"),
        ("prism/prodcons.prism", "events", "tid", "record"),
    ] {
        let (head, rows) = csv(trace, table, &[]);
        let position = |name: &str| head.iter().position(|head| head == name);
        let (Some(at), Some(value_at)) = (position(key), position(value)) else {
            panic!("{trace}: {table} has {head:?}");
        };
        let mut expected: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for row in &rows {
            let (count, sum) = expected.entry(row[at].clone()).or_default();
            *count += 1;
            *sum += row[value_at].parse::<u64>().unwrap_or(0);
        }
        let agg = format!("count(), sum(coalesce({value}, 0))");
        let found = aggregate(&["--of", table, "--by", key, "--agg", &agg], trace);
        assert_eq!(found["rows"], rows.len(), "{trace}");
        let found = digits(&found);
        assert_eq!(found.len(), expected.len(), "{trace} by {key}");
        for (key, (count, sum)) in expected {
            // A row without a key has the key `NULL`.
            let key = if key.is_empty() { "NULL".to_owned() } else { key };
            assert_eq!(found.get(&key), Some(&vec![count.to_string(), sum.to_string()]), "{trace} by {key}");
        }
    }
}

#[test]
fn latencies_are_those_of_the_other_analysis() {
    let mut n_timed = 0;
    for trace in ["drmemtrace/threadsig.x64", "drmemtrace/thr", "drmemtrace/as_traced"] {
        let other: Value = serde_json::from_str(&quipu(&["analyze", "syscalls", "--json", trace])).unwrap();
        let agg = "count(), count(latency), sum(latency), min(latency), max(latency), quantize(latency)";
        let found = aggregate(&["--of", "syscalls", "--by", "number", "--agg", agg], trace);
        let by_number = digits(&found);
        let calls = other["results"]["syscalls"]["syscalls"].as_array().unwrap();
        assert_eq!(calls.len(), by_number.len(), "{trace}");
        for call in calls {
            let found = &by_number[&call["number"].to_string()];
            assert_eq!(found[0], call["calls"].to_string(), "{trace}");
            let latency = &call["latency"];
            if latency.is_null() {
                assert_eq!(found[1..5], ["0", "", "", ""], "{trace}");
                continue;
            }
            n_timed += 1;
            let expected = ["timed", "total_ticks", "min_ticks", "max_ticks", "timed"];
            let expected = expected.map(|key| latency[key].to_string());
            assert_eq!(found[1..], expected, "{trace}");
        }
    }
    assert!(n_timed > 0, "no call has a latency");
}

#[test]
fn a_condition_chooses_the_rows_that_a_reader_of_csv_would() {
    let trace = "drmemtrace/threadsig.x64";
    let (head, rows) = csv(trace, "memrefs", &[]);
    let at = |name: &str| head.iter().position(|head| head == name).unwrap();
    let (kind, size, record) = (at("type"), at("size"), at("record"));
    let number = |row: &[String], at: usize| row[at].parse::<u64>().unwrap_or(0);
    type Holds<'h> = &'h dyn Fn(&[String]) -> bool;
    let cases: [(&str, Holds<'_>); 4] = [
        ("type = 'write' AND size > 4", &|row| row[kind] == "write" && number(row, size) > 4),
        ("record BETWEEN 1000 AND 1200", &|row| (1000..=1200).contains(&number(row, record))),
        ("type IN ('read', 'write') AND record % 7 = 0 OR record = 5", &|row| {
            (row[kind] == "read" || row[kind] == "write") && number(row, record) % 7 == 0
                || number(row, record) == 5
        }),
        ("starts_with(type, 'cond')", &|row| row[kind].starts_with("cond")),
    ];
    for (condition, holds) in cases {
        let (_, found) = csv(trace, "memrefs", &["--where", condition]);
        let expected: Vec<&Vec<String>> = rows.iter().filter(|row| holds(row)).collect();
        assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{condition}");
        // Analyses number records within their shard, not within the printed sequence.
        if condition.contains("record") {
            continue;
        }
        let counted = aggregate(&["--of", "memrefs", "--where", condition], trace);
        assert_eq!(counted["rows"], expected.len(), "{condition}");
    }
}

#[test]
fn a_wrong_expression_is_shown_with_its_place() {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(fixtures(""))
        .args(["view", "--where", "sise > 4", "cacheray/structs.trace"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("    sise > 4\n    ^^^^\n"), "{text}");
    assert!(text.contains("did you mean `size`?"), "{text}");
}

#[test]
fn a_column_that_no_table_has_is_named_with_those_that_there_are() {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(fixtures(""))
        .args(["analyze", "aggregate", "--by", "frame", "--agg", "sum(duration)", "apitrace/tri.trace"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(text.contains("no table or lens of this trace has `duration`"), "{text}");
    assert!(text.contains("calls has `frame`") && text.contains("args has `frame`"), "{text}");
}

#[test]
fn recipes_of_the_page_give_answers() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/expressions.md")).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_quipu"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut n_recipes = 0;
    for line in page.lines().filter(|line| line.starts_with("quipu ")) {
        let output =
            Command::new("sh").current_dir(&root).env("PATH", &path).args(["-c", line]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout.len() > 40, "{line}: {error}");
        n_recipes += 1;
    }
    assert!(n_recipes >= 9, "{n_recipes}");
}

/// Accesses that a condition leaves out count in no analysis of accesses.
#[test]
fn a_condition_chooses_the_accesses_of_other_analyses() {
    // Each touches one line.
    let condition = "kind = 'write' AND line(addr) = line(addr + size - 1)";
    for trace in [
        "drmemtrace/tiny.gz",
        "drmemtrace/threadsig.x64",
        "cacheray/structs.trace",
        "lackey/nodes.lackey.gz",
        "din/labels.din",
        "prism/prodcons.prism",
    ] {
        let args = ["--of", "lens.accesses", "--by", "kind", "--agg", "count()", "--where", condition];
        let counted = digits(&aggregate(&args, trace));
        let expected: u64 = counted["write"][0].parse().unwrap();
        let words = ["analyze", "histogram,working-set", "--json", "--where", condition, trace];
        let answer: Value = serde_json::from_str(&quipu(&words)).unwrap();
        let histogram = &answer["results"]["histogram"];
        let touches = |cache: &str| histogram[cache]["touches"].as_u64();
        assert_eq!((touches("dcache"), touches("icache")), (Some(expected), Some(0)), "{trace}");
        assert_eq!(answer["where"], condition, "{trace}");
        let none = ["analyze", "histogram", "--json", "--where", "size > 70000", trace];
        let answer: Value = serde_json::from_str(&quipu(&none)).unwrap();
        assert_eq!(answer["results"]["histogram"]["dcache"]["touches"], 0, "{trace}");
    }
    // Positions count in each file, whatever the number of threads.
    let trace = "lackey/nodes.lackey.gz";
    let first = |more: &[&str]| {
        let words = ["analyze", "histogram", "--json", trace];
        let answer: Value = serde_json::from_str(&quipu(&[&words[..], more].concat())).unwrap();
        answer["results"].clone()
    };
    assert_eq!(first(&["--where", "record <= 1000"]), first(&["--take", "1000"]));
}

#[test]
fn a_condition_that_an_analysis_cannot_use_is_refused() {
    let trace = "drmemtrace/tiny.gz";
    for (tools, condition, words) in [
        ("schedule", "size > 4", "analysis `schedule` reads no accesses"),
        ("histogram,schedule", "size > 4", "analysis `schedule` reads no accesses"),
        ("histogram,aggregate", "size > 4", "rows of `aggregate` and accesses of other analyses"),
        ("histogram", "sise > 4", "did you mean `size`?"),
        ("histogram", "size +", "size +"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
            .current_dir(fixtures(""))
            .args(["analyze", tools, "--where", condition, trace])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{tools} {condition}: {text}");
        assert!(text.contains(words), "{tools} {condition}: {text}");
    }
}
