//! Every share, rate and mean is correct: recomputed from the counts next to it, in JSON and on the screen.

// A test whose setup fails has failed.
use quipu_testkit::fixtures;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Traces with and without string loops, branch outcomes, fetches, several threads; and text formats.
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

/// Counts the checks, so that renamed keys cannot make the test empty.
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

/// Rates of caches and TLBs, anywhere in the value.
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

/// Shares in the analyses of instructions and accesses.
fn check_shares(results: &Value, checked: &mut Checked) {
    let each = |of: &Value, list: &str| of[list].as_array().cloned().unwrap_or_default();
    if let Some(mix) = results.get("mix") {
        let (executed, fetched) = (number(mix, "executed"), number(mix, "instructions"));
        assert_eq!(executed, fetched + number(mix, "no_fetch"));
        let parts = each(mix, "parts");
        // Text traces without encodings and branch outcomes do not record the kinds of their instructions.
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

/// A number on the screen, with commas; `None` for other words.
fn shown(word: &str) -> Option<f64> {
    word.trim_end_matches([';', ',']).replace(',', "").parse().ok()
}

/// Checks lines of the form `PART SHARE % of WHOLE fetched instructions`.
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

/// A text on a single line, with single spaces between words, because notes may be wrapped anywhere.
fn words_of(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A screen with misses per 1,000 instructions also shows the number of instructions that they are divided by.
fn check_divisor(text: &str, json: &Value, checked: &mut Checked) {
    let result = json["results"].as_object().and_then(|results| results.values().next());
    let executed = result.and_then(|result| result["executed"].as_u64());
    let Some(executed) = executed.filter(|n| *n > 0) else { return };
    let named = format!(": {}", quipu::model::number::grouped(executed));
    let said = words_of(text);
    let at =
        said.find("misses per 1,000 instructions (MPKI) are of the ").unwrap_or_else(|| panic!("{text}"));
    let (sentence, _) = said[at..].split_once(named.as_str()).unwrap_or_else(|| panic!("{named}: {text}"));
    assert!(sentence.len() < 120, "{sentence}");
    checked.n += 1;
}

#[test]
fn instructions_that_a_filter_left_are_not_called_executed() {
    let trace = fixtures("drmemtrace").join("tiny.ifiltered");
    for tool in ["mix", "opcodes", "categories", "branches", "hot"] {
        let text = words_of(&run(&["analyze", tool], &trace));
        assert!(text.contains("left by the filter"), "{tool}: {text}");
        assert!(text.contains("that a small cache had are not in it"), "{tool}: {text}");
        assert!(!text.contains("executed"), "{tool}: {text}");
        let whole = words_of(&run(&["analyze", tool], &fixtures("drmemtrace").join("tiny.plain")));
        assert!(!whole.contains("filter"), "{tool}: {whole}");
    }
    // Only its data is filtered, so its instructions are the executed ones.
    let text = words_of(&run(&["analyze", "mix"], &fixtures("drmemtrace").join("tiny.dfiltered")));
    assert!(text.contains("executed instructions"), "{text}");
    assert!(text.contains("loads left by the filter, per fetched instruction"), "{text}");
    for tool in ["reuse-distance", "reuse-time", "miss-ratio", "histogram"] {
        let text = words_of(&run(&["analyze", tool], &trace));
        assert!(text.contains("all numbers are about the rest"), "{tool}: {text}");
    }
}

/// Occurrences of `1` with a plural.
fn one_of_many(text: &str) -> Vec<String> {
    text.lines().flat_map(one_of_many_in).collect()
}

fn one_of_many_in(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_plural = |word: &str| {
        let word = word.trim_end_matches([',', '.', ';', ')']);
        let is_word = word.bytes().all(|byte| byte.is_ascii_lowercase());
        is_word && word.ends_with('s') && !word.ends_with("ss") && !["is", "was", "has", "as"].contains(&word)
    };
    let pairs = words.windows(2).filter(|pair| pair[0] == "1" && is_plural(pair[1]));
    pairs.map(|pair| pair.join(" ")).collect()
}

#[test]
fn one_thing_is_not_called_by_a_plural() {
    let folder = tempfile::tempdir().unwrap();
    let din = folder.path().join("one.din");
    std::fs::write(&din, "2 400000\n").unwrap();
    let out = folder.path().join("out");
    let out = out.to_str().unwrap();
    for verb in ["report", "info", "check"] {
        assert_eq!(one_of_many(&run(&[verb], &din)), [""; 0], "{verb}");
    }
    for verb in
        [&["sim", "cache"][..], &["sim", "cache", "--warmup-refs", "5"], &["sim", "sweep", "--level", "l1i"]]
    {
        assert_eq!(one_of_many(&run(verb, &din)), [""; 0], "{verb:?}");
    }
    let tiny = fixtures("drmemtrace").join("tiny.plain");
    for verb in ["trim", "filter"] {
        let args: &[&str] = match verb {
            "trim" => &[verb, "--take-instrs", "1", "--force", "-o", out],
            _ => &[verb, "--drop", "prefetch", "--force", "-o", out],
        };
        assert_eq!(one_of_many(&run(args, &tiny)), [""; 0], "{verb}");
    }
    for tool in
        ["mix", "branches", "working-set", "functions", "syscalls", "opcodes", "reuse-distance", "schedule"]
    {
        let text = run(&["analyze", tool, "--take", "1"], &tiny);
        assert_eq!(one_of_many(&text), [""; 0], "{tool}: {text}");
    }
}

/// Entries of drmemtrace: a thread with filtered instructions, and markers with these counts of executed ones.
fn filtered(counts: &[u64]) -> Vec<u8> {
    let mut entries = vec![(25, 0, 7), (28, 12, 7), (28, 9, 0xec0), (22, 4, 10), (24, 4, 1), (28, 10, 64)];
    entries.extend([(28, 18, 4096), (28, 2, 1000), (28, 3, 0)]);
    for (count, pc) in counts.iter().zip(0x1000..) {
        entries.extend([(28, 11, *count), (47, 1, 0x90), (10, 1, pc)]);
    }
    entries.extend([(23, 4, 10), (26, 0, 0)]);
    let bytes = |(kind, size, value): &(u16, u16, u64)| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    };
    entries.iter().flat_map(bytes).collect()
}

#[test]
fn all_tools_know_how_many_instructions_were_executed_or_none_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("filtered.trace");
    for (counts, executed) in
        [(&[0][..], None), (&[200], None), (&[0, 700, 1000], Some(1000)), (&[200, 700, 1200], Some(1000))]
    {
        std::fs::write(&path, filtered(counts)).unwrap();
        let json = |args: &[&str]| -> Value { serde_json::from_str(&run(args, &path)).unwrap() };
        let counted = json(&["analyze", "counts", "--json"])["results"]["counts"].clone();
        for of in [&counted, &counted["shards"][0]] {
            assert_eq!(of["executed_instructions"].as_u64(), executed, "{counts:?}: {of}");
        }
        let simulated = json(&["sim", "cache", "--json"])["results"]["caches"].clone();
        assert_eq!(simulated["executed"].as_u64(), executed, "{counts:?}: {simulated}");
        let shown = [run(&["analyze", "counts"], &path), run(&["report"], &path)];
        let cache = run(&["sim", "cache"], &path);
        match executed {
            Some(_) => {
                assert!(shown.iter().all(|text| words_of(text).contains("10 1,000 3")), "{shown:?}");
                assert!(cache.contains("MPKI"), "{cache}");
            }
            None => {
                assert!(shown.iter().all(|text| words_of(text).contains("10 unknown 1")), "{shown:?}");
                assert!(
                    words_of(&cache).contains("nothing says how many instructions were executed"),
                    "{cache}"
                );
                assert!(!cache.contains(" MPKI "), "{cache}");
            }
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
            check_divisor(&run(verb, &trace), &json, &mut checked);
        }
    }
    assert!(checked.n > 300, "only {} quotients were found", checked.n);
}
