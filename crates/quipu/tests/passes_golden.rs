//! Analyses agree with DynamoRIO's tools on real traces, where both count the same thing.
//!
//! `traces/drmemtrace/facts.json` and `traces/drmemtrace/golden/` contain the numbers of DynamoRIO's tools;
//! `traces/README.md` says how they were made.

// Helpers of tests may panic, too.
use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::{Given, OpenOptions, Report, Tool, Trace};
use quipu::passes::{
    PerThread, categories, functions, histogram, miss_ratio, mix, opcodes, schedule, working_set,
};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;

fn traces() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace")
}

fn open(name: &str) -> Box<dyn Trace> {
    quipu::open_path(&traces().join(name), &OpenOptions::default()).unwrap()
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(traces().join("golden").join(name)).unwrap()
}

/// The tool's report; `None` if the trace lacks what the tool needs.
fn report(tool: &dyn Tool, trace: &dyn Trace) -> Option<Box<dyn Report>> {
    let watch = Watch::new();
    let planned = plan(tool, &Given::default(), trace).ok()?;
    let outcome = run(trace, vec![planned], &RunOptions::new(&watch)).unwrap();
    outcome.reports.into_iter().next()
}

/// The report for the whole trace of a tool that separates threads.
fn total<T: Clone + 'static>(tool: &dyn Tool, trace: &dyn Trace) -> Option<T> {
    let report = report(tool, trace)?;
    Some(report.as_any().downcast_ref::<PerThread<T>>().expect("the tool's own report").total.clone())
}

/// Calls `check` with each trace of the folder and the numbers of DynamoRIO's tools.
fn for_each_trace(mut check: impl FnMut(&str, &dyn Trace, &Value)) {
    let facts: Value =
        serde_json::from_str(&std::fs::read_to_string(traces().join("facts.json")).unwrap()).unwrap();
    let facts = facts.as_object().unwrap();
    assert!(facts.len() >= 25);
    for (name, facts) in facts {
        check(name, &*open(name), facts);
    }
}

/// One of DynamoRIO's basic counts.
fn count(facts: &Value, name: &str) -> u64 {
    facts["basic_counts_total"][name].as_u64().unwrap()
}

#[test]
fn unique_lines_are_those_of_the_original_histogram() {
    let mut n_checked = 0;
    for_each_trace(|name, trace, facts| {
        let expected = &facts["histogram_unique_lines"];
        let expected = (expected["icache"].as_u64().unwrap(), expected["dcache"].as_u64().unwrap());
        let Some(lines) = total::<histogram::LineHistogram>(&histogram::Histogram, trace) else { return };
        assert_eq!((lines.icache.unique_lines, lines.dcache.unique_lines), expected, "{name}");
        let set = total::<working_set::Footprints>(&working_set::WorkingSet, trace).unwrap();
        assert_eq!((set.total.lines.instr, set.total.lines.data), expected, "{name}");
        n_checked += 1;
    });
    assert!(n_checked >= 24, "{n_checked}");
}

#[test]
fn the_histogram_is_the_original_one_line_by_line() {
    let lines = total::<histogram::LineHistogram>(&histogram::Histogram, &*open("as_traced")).unwrap();
    let mut text = "Cache line histogram tool results:\n".to_owned();
    let sides = [("icache", &lines.icache), ("dcache", &lines.dcache)];
    for (name, side) in sides {
        writeln!(text, "{name}: {} unique cache lines", side.unique_lines).unwrap();
    }
    for (name, side) in sides {
        writeln!(text, "{name} top 10").unwrap();
        for line in &side.top {
            writeln!(text, "{:#18x}: {}", line.addr, line.count).unwrap();
        }
    }
    assert_eq!(text, golden("histogram.as_traced.txt"));
}

/// The second part of a golden opcode mix, after the empty line: sets of categories with their counts.
fn golden_categories(name: &str) -> Vec<(u64, String)> {
    let text = golden(name);
    let rows = text.lines().skip_while(|line| !line.is_empty()).skip(2);
    rows.map(|row| {
        let (count, set) = row.split_once(" : ").unwrap();
        (count.trim().parse().unwrap(), set.trim().to_owned())
    })
    .collect()
}

#[test]
fn category_sets_are_the_original_ones() {
    for (name, golden) in
        [("allasm", "opcode_mix.allasm.txt"), ("threadsig.regdeps", "opcode_mix.regdeps.txt")]
    {
        let sets = total::<categories::CategorySets>(&categories::CategoryMix, &*open(name)).unwrap();
        let rows: Vec<(u64, String)> =
            sets.sets.iter().map(|set| (set.count, set.categories.to_string())).collect();
        assert_eq!(rows, golden_categories(golden), "{name}");
    }
}

#[test]
fn executed_instructions_are_those_fetched_and_not_fetched() {
    let mut n_checked = 0;
    for_each_trace(|name, trace, facts| {
        let fetched = count(facts, "(fetched) instructions");
        let executed = fetched + count(facts, "non-fetched instructions");
        if let Some(mix) = total::<opcodes::OpcodeMix>(&opcodes::Opcodes, trace) {
            assert_eq!(mix.executed, executed, "{name}");
            n_checked += 1;
        }
        let mix = total::<mix::InstructionMix>(&mix::Mix, trace).unwrap();
        assert_eq!((mix.instructions, mix.executed), (fetched, executed), "{name}");
        if let (Some(loads), Some(stores)) = (mix.loads, mix.stores) {
            assert_eq!((loads, stores), (count(facts, "data loads"), count(facts, "data stores")), "{name}");
        }
    });
    assert!(n_checked >= 15, "{n_checked}");
}

#[test]
fn every_instruction_of_a_trace_with_encodings_can_be_decoded() {
    for name in ["allasm", "as_traced", "threadsig.x64", "tiny.chunk1000", "thr", "aarch64"] {
        let mix = total::<opcodes::OpcodeMix>(&opcodes::Opcodes, &*open(name)).unwrap();
        assert_eq!((mix.undecoded, mix.without_encoding), (0, 0), "{name}");
    }
    let regdeps = total::<opcodes::OpcodeMix>(&opcodes::Opcodes, &*open("threadsig.regdeps")).unwrap();
    assert_eq!((regdeps.undecoded, regdeps.executed), (49493, 49493));
}

#[test]
fn threads_system_calls_and_idle_records_are_those_of_the_original_counts() {
    for_each_trace(|name, trace, facts| {
        let report = report(&schedule::Schedule, trace).unwrap();
        let schedules = report.as_any().downcast_ref::<schedule::Schedules>().unwrap();
        let sum = |count: fn(&schedule::ThreadTimes) -> u64| schedules.threads.iter().map(count).sum::<u64>();
        assert_eq!(schedules.threads.len() as u64, count(facts, "threads"), "{name}");
        assert_eq!(sum(|thread| thread.syscalls), count(facts, "system call number markers"), "{name}");
        assert_eq!(sum(|thread| thread.may_block), count(facts, "blocking system call markers"), "{name}");
        assert_eq!(sum(|thread| thread.instructions), count(facts, "(fetched) instructions"), "{name}");
        if !schedules.cores.is_empty() {
            let idles: u64 = schedules.cores.iter().map(|core| core.idles).sum();
            assert_eq!(idles, count(facts, "idle markers"), "{name}");
        }
    });
}

#[test]
fn function_counts_are_those_of_the_original_func_view() {
    let report = report(&functions::Functions, &*open("tiny.func")).unwrap();
    let counts = report.as_any().downcast_ref::<functions::FunctionCounts>().unwrap();
    let functions: Vec<_> = counts
        .functions
        .iter()
        .filter(|function| function.kind == functions::CalleeKind::Function)
        .map(|function| (function.id, function.label.clone(), function.calls, function.returns))
        .collect();
    // The end of DynamoRIO's output, `func_view.tiny.txt`.
    assert_eq!(functions, [(0, "tiny!fib".to_owned(), 109, 109), (1, "tiny!leaf_add".to_owned(), 100, 100)]);
}

/// Results of `miss-ratio`: the number of accesses, and for each size in lines the ratio and its error.
fn ratios(trace: &dyn Trace, sample: &str) -> (u64, Vec<(u64, f64, f64)>) {
    let mut given = Given::default();
    given.add("sample", sample);
    let watch = Watch::new();
    let planned = plan(&miss_ratio::MissRatio, &given, trace).unwrap();
    let found = run(trace, vec![planned], &RunOptions::new(&watch)).unwrap().reports[0].json();
    let point = |point: &Value| {
        let of = |key: &str| point[key].as_f64().unwrap_or(0.0);
        (point["size"].as_u64().unwrap() / 64, of("miss_ratio"), of("error"))
    };
    (found["accesses"].as_u64().unwrap(), found["points"].as_array().unwrap().iter().map(point).collect())
}

/// A fully associative LRU cache misses on the first access to a line, and when at least as many other lines as it has were
/// accessed in between.
#[test]
fn miss_ratios_are_those_of_the_originals_reuse_distances() {
    for (name, golden_name) in [
        ("small/drmemtrace.small.x64.trace", "reuse_distance.small.txt"),
        ("thr", "reuse_distance.thr.bins.txt"),
    ] {
        let text = golden(golden_name);
        // Rows `distance [- largest] count percent …`, up to the empty line.
        let rows = text.lines().skip_while(|line| !line.contains("Percent")).skip(1);
        let bins: Vec<(u64, u64)> = rows
            .take_while(|line| !line.is_empty())
            .map(|line| {
                let numbers: Vec<&str> = line.split_whitespace().filter(|word| *word != "-").collect();
                let count = numbers.iter().position(|word| word.ends_with('%')).unwrap() - 1;
                (numbers[0].parse().unwrap(), numbers[count].parse().unwrap())
            })
            .collect();
        let (accesses, points) = ratios(&*open(name), "none");
        let mut n_checked = 0;
        for (lines, ratio, _) in points {
            if bins.iter().any(|(from, _)| *from == lines) {
                let hits: u64 = bins.iter().filter(|(from, _)| *from < lines).map(|(_, count)| count).sum();
                assert!(
                    (ratio - (accesses - hits) as f64 / accesses as f64).abs() < 1e-12,
                    "{name}: {lines}"
                );
                n_checked += 1;
            }
        }
        assert!(n_checked >= 4, "{name}: {n_checked}");
    }
}

#[test]
fn sampled_miss_ratios_of_real_programs_are_as_near_as_they_say() {
    for name in ["threadsig.x64", "thr", "as_traced"] {
        let trace = open(name);
        let (_, exact) = ratios(&*trace, "none");
        for sample in ["0.1", "0.3", "0.7", "256"] {
            let (_, points) = ratios(&*trace, sample);
            assert!(points.len() >= 5, "{name}, {sample}");
            for (lines, ratio, error) in points {
                let (.., expected) =
                    exact.iter().rev().map(|of| (of.0, of.1)).find(|of| of.0 <= lines).unwrap();
                // The remaining difference is due to lines too few to be in a sample.
                let off = (ratio - expected).abs();
                assert!(
                    off <= 3.0 * error + 0.005,
                    "{name}, {sample}, {lines} lines: {ratio} {expected} {error}"
                );
            }
        }
    }
}
