//! Every share, rate and mean is what it says it is: recomputed from the counts beside it, in JSON and on the screen.

// A test that cannot set its scene has failed.
use quipu_testkit::fixtures;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Traces with and without string loops, branch outcomes, fetches, several threads, and families of text.
fn samples() -> Vec<PathBuf> {
    let drmemtrace = [
        "tiny.func",
        "tiny.ifiltered",
        "tiny.dfiltered",
        "thr",
        "thr.kernel_injected",
        "small/drmemtrace.small.x64.trace",
    ];
    let mut all: Vec<PathBuf> = drmemtrace.iter().map(|name| fixtures("drmemtrace").join(name)).collect();
    for family in ["lackey", "din"] {
        let files = std::fs::read_dir(fixtures(family)).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|end| end == family)).collect();
        files.sort();
        all.extend(files.into_iter().next());
    }
    assert!(all.len() >= 7, "{all:?}");
    all
}

fn run(args: &[&str], trace: &PathBuf) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu")).args(args).arg(trace).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{args:?} {}: {said}", trace.display());
    String::from_utf8(output.stdout).unwrap()
}

/// Counts what was looked at, so that a change of keys does not make the test an empty one.
#[derive(Default)]
struct Checked {
    n: u64,
}

impl Checked {
    #[track_caller]
    fn same(&mut self, what: &str, said: &Value, part: f64, whole: f64) {
        self.n += 1;
        let Some(said) = said.as_f64() else {
            assert!(said.is_null() && whole == 0.0, "{what}: {said} is {part} of {whole}");
            return;
        };
        let right = if whole == 0.0 { 0.0 } else { part / whole };
        assert!((said - right).abs() <= 1e-9 * right.abs().max(1.0), "{what}: {said}, not {part} / {whole}");
    }
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or_else(|| panic!("no number `{key}` in {of}"))
}

/// Rates of caches and TLBs, wherever they stand.
fn check_rates(of: &Value, executed: Option<f64>, checked: &mut Checked) {
    match of {
        Value::Object(keys) => {
            let executed = keys.get("executed").and_then(Value::as_f64).or(executed);
            if let Some(rate) = keys.get("miss_rate") {
                let (hits, misses) = (number(of, "hits"), number(of, "misses"));
                checked.same("miss rate", rate, misses, hits + misses);
                if let (Some(mpki), Some(executed)) =
                    (keys.get("mpki").filter(|mpki| !mpki.is_null()), executed)
                {
                    checked.same("MPKI", mpki, 1000.0 * misses, executed);
                }
            }
            keys.values().for_each(|value| check_rates(value, executed, checked));
        }
        Value::Array(items) => items.iter().for_each(|item| check_rates(item, executed, checked)),
        _ => {}
    }
}

/// Shares of the analyses of instructions and accesses.
fn check_shares(results: &Value, checked: &mut Checked) {
    let each = |of: &Value, list: &str| of[list].as_array().cloned().unwrap_or_default();
    if let Some(mix) = results.get("mix") {
        let (executed, fetched) = (number(mix, "executed"), number(mix, "instructions"));
        assert_eq!(executed, fetched + number(mix, "no_fetch"));
        let parts = each(mix, "parts");
        // Text without encodings and outcomes of branches does not say what its instructions are.
        if !parts.is_empty() {
            assert_eq!(parts.iter().map(|part| number(part, "count")).sum::<f64>(), executed);
        }
        parts.iter().for_each(|part| checked.same("mix", &part["share"], number(part, "count"), executed));
        for (ratio, count) in [("loads_per_instruction", "loads"), ("stores_per_instruction", "stores")] {
            if !mix[count].is_null() {
                checked.same(ratio, &mix[ratio], number(mix, count), fetched);
            }
        }
    }
    if let Some(branches) = results.get("branches") {
        let of = &branches["conditional"];
        let known = number(of, "taken") + number(of, "not_taken");
        assert_eq!(number(of, "total"), known + number(of, "unknown"));
        checked.same("taken", &of["taken_rate"], number(of, "taken"), known);
        let kinds = ["direct_jumps", "indirect_jumps", "direct_calls", "indirect_calls", "returns"];
        let others: f64 = kinds.iter().map(|kind| number(branches, kind)).sum();
        assert_eq!(number(branches, "branches"), number(of, "total") + others);
    }
    if let Some(hot) = results.get("hot") {
        for (list, count) in [("instructions", "count"), ("blocks", "executed"), ("functions", "executed")] {
            for item in each(hot, list) {
                checked.same(list, &item["share"], number(&item, count), number(hot, "executed"));
            }
        }
        for line in each(hot, "lines") {
            let uses = number(&line, "reads") + number(&line, "writes");
            checked.same("line", &line["share"], uses, number(hot, "accesses"));
        }
    }
}

/// A number of the screen, with commas; the words around it are passed over.
fn shown(word: &str) -> Option<f64> {
    word.trim_end_matches([';', ',']).replace(',', "").parse().ok()
}

/// Lines that say `PART SHARE % of WHOLE fetched instructions`.
fn check_screen(text: &str, checked: &mut Checked) {
    let is_close = |shown: f64, right: f64| (shown - right).abs() <= 0.05 + 1e-9;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(at) = words.iter().position(|word| *word == "%") else { continue };
        let Some(share) = words.get(at.wrapping_sub(1)).and_then(|word| shown(word)) else { continue };
        if line.contains("fetched instructions") {
            let (part, whole) = (shown(words[at - 2]).unwrap(), shown(words[at + 2]).unwrap());
            assert!(is_close(share, 100.0 * part / whole), "{line}");
            checked.n += 1;
        }
    }
}

#[test]
fn every_quotient_is_that_of_the_counts_that_it_names() {
    let mut checked = Checked::default();
    for trace in samples() {
        let report: Value = serde_json::from_str(&run(&["report", "--json"], &trace)).unwrap();
        check_shares(&report["results"], &mut checked);
        check_rates(&report, None, &mut checked);
        check_screen(&run(&["report"], &trace), &mut checked);
        for verb in [&["sim", "cache"][..], &["sim", "tlb"], &["sim", "sweep", "--sizes", "4K,16K"]] {
            let json: Value = serde_json::from_str(&run(&[verb, &["--json"]].concat(), &trace)).unwrap();
            check_rates(&json, None, &mut checked);
        }
    }
    assert!(checked.n > 300, "only {} quotients were found", checked.n);
}
