//! `quipu as drmemtrace` prints the numbers that DynamoRIO's tools printed for every fixture, as stored in
//! `traces/drmemtrace/facts.json`.

use serde_json::{Map, Value};
use std::path::PathBuf;
use std::process::Command;

fn traces() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace")
}

fn printed(name: &str, tool: &str) -> String {
    let (text, code) = ended(name, tool);
    assert_eq!(code, Some(0), "{name}: {tool}");
    text
}

/// Output and exit code of a tool.
fn ended(name: &str, tool: &str) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(traces())
        .args(["as", "drmemtrace", "-indir", name, "-no_core_sharded", "-no_core_serial", "-tool", tool])
        .output()
        .unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

fn for_each_fixture(check: impl Fn(&str, &Value)) {
    let text = std::fs::read_to_string(traces().join("facts.json")).unwrap();
    let facts: Map<String, Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(facts.len(), 27, "every folder of traces has its facts");
    facts.iter().for_each(|(name, facts)| check(name, facts));
}

/// The value of the line `name: value` in the first block.
fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let block = text.split("\n=====").next().unwrap_or("");
    block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn reuse_distances_and_times() {
    for_each_fixture(|name, facts| {
        for tool in ["reuse_distance", "reuse_time"] {
            let text = printed(name, tool);
            for (what, expected) in facts[tool].as_object().unwrap() {
                assert_eq!(field(&text, what), expected.as_str(), "{name}: {tool}: {what}");
            }
        }
    });
}

#[test]
fn system_calls_and_their_failures() {
    let row = |line: &str| -> Option<[i64; 2]> {
        let (count, number) = line.split_once(" : ")?;
        Some([count.trim().parse().ok()?, number.trim().parse().ok()?])
    };
    for_each_fixture(|name, facts| {
        let text = printed(name, "syscall_mix");
        let found: Vec<[i64; 2]> = text.lines().filter_map(row).collect();
        let expected: Vec<[i64; 2]> = serde_json::from_value(facts["syscall_mix"].clone()).unwrap();
        assert_eq!(found, expected, "{name}");
    });
}

/// Caches or TLBs with numbers, as objects.
fn units(text: &str) -> Vec<Map<String, Value>> {
    let mut units: Vec<Map<String, Value>> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.trim().strip_suffix(" stats:") {
            let name = head.split(' ').next().unwrap();
            units.push([("unit".to_owned(), name.into())].into_iter().collect());
        } else if let (Some((name, value)), Some(unit)) = (line.trim().split_once(':'), units.last_mut())
            && !value.trim().is_empty()
            && line.starts_with("    ")
        {
            unit.insert(name.to_owned(), value.trim().into());
        }
    }
    units
}

#[test]
fn caches_and_tlbs_with_each_thread_on_a_core() {
    for (tool, key) in [("cache_simulator", "cache_thread_sharded"), ("TLB_simulator", "tlb_thread_sharded")]
    {
        for_each_fixture(|name, facts| {
            let Some(expected) = facts[key].as_array().filter(|units| !units.is_empty()) else { return };
            let found = units(&printed(name, tool));
            let found: Vec<Value> = found.into_iter().map(Value::from).collect();
            assert_eq!(&found, expected, "{name}: {tool}");
        });
    }
}

#[test]
fn what_the_checker_passes_and_where_it_stops() {
    const PASSED: &str = "Trace invariant checks passed";
    for_each_fixture(|name, facts| {
        let expected = match name {
            // DynamoRIO was built for x86 and rejects the trace.
            "aarch64" => PASSED,
            // DynamoRIO complains about missing stores although the trace declares that it has none.
            "tiny.instronly" => PASSED,
            _ => facts["invariant_checker"].as_str().unwrap(),
        };
        let (text, code) = ended(name, "invariant_checker");
        assert_eq!(text.trim_end().lines().last(), Some(expected), "{name}");
        let is_flawed = expected.starts_with("Trace invariant failure");
        assert_eq!(code, Some(i32::from(is_flawed)), "{name}");
    });
}
