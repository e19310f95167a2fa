//! With `per-thread`, the numbers of threads add up to those of the whole, and equal those of each thread read alone.

use quipu::engine::{RunOptions, Watch, plan, run};
use quipu::model::{Given, OpenOptions};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::BTreeMap;

/// The threads of the trace `thr`.
const THREADS: [u64; 4] = [5747, 5750, 5751, 5752];

/// Results of the tool for the trace `thr`, or for some of its threads.
fn analyse(tool: &str, options: &[(&str, &str)], threads: &[u64]) -> Value {
    let opening = OpenOptions {
        threads: threads.iter().map(|thread| (*thread).into()).collect(),
        ..OpenOptions::default()
    };
    let trace = quipu::open_path(&fixtures("drmemtrace/thr"), &opening).unwrap();
    let mut given = Given::default();
    options.iter().for_each(|(name, value)| given.add(*name, *value));
    let watch = Watch::new();
    let planned = plan(quipu::tool(tool, "drmemtrace").unwrap(), &given, &*trace).unwrap();
    run(&*trace, vec![planned], &RunOptions::new(&watch)).unwrap().reports[0].json()
}

/// The items of `threads` without the key `thread`, after checking that they are the threads of the trace.
fn threads(found: &Value) -> Vec<Value> {
    let mut threads = found["threads"].as_array().unwrap().clone();
    let tids = threads.iter_mut().map(|of| of.as_object_mut().unwrap().remove("thread").unwrap());
    assert_eq!(tids.map(|tid| tid.as_u64().unwrap()).collect::<Vec<_>>(), THREADS);
    threads
}

/// Sums of `numbers` over the items of all lists, by the items' `key`.
fn sums<'v>(
    lists: impl IntoIterator<Item = &'v Value>,
    key: &str,
    numbers: &[&str],
) -> BTreeMap<String, Vec<u64>> {
    let mut sums = BTreeMap::new();
    for item in lists.into_iter().flat_map(|list| list.as_array().unwrap()) {
        let sum = sums.entry(item[key].to_string()).or_insert_with(|| vec![0; numbers.len()]);
        for (sum, number) in sum.iter_mut().zip(numbers) {
            *sum += item[*number].as_u64().unwrap();
        }
    }
    sums
}

#[test]
fn what_is_hot_in_threads_adds_up_to_what_is_hot() {
    let all = [("top", "1000000"), ("per-thread", "true")];
    let mut whole = analyse("hot", &all, &[]);
    let threads = threads(&whole);
    for (list, key, numbers) in [
        ("instructions", "pc", &["count"][..]),
        ("functions", "pc", &["calls"]),
        ("lines", "addr", &["reads", "writes"]),
        ("pages", "addr", &["executed", "reads", "writes"]),
    ] {
        let of_threads = sums(threads.iter().map(|of| &of[list]), key, numbers);
        assert!(!of_threads.is_empty(), "{list}");
        assert_eq!(of_threads, sums([&whole[list]], key, numbers), "{list}");
    }
    for number in ["executed", "accesses", "calls_to_unknown"] {
        let sum: u64 = threads.iter().map(|of| of[number].as_u64().unwrap()).sum();
        assert_eq!(whole[number], sum, "{number}");
    }
    whole.as_object_mut().unwrap().remove("threads");
    assert_eq!(whole, analyse("hot", &all[..1], &[]));
}

#[test]
fn what_is_hot_in_a_thread_is_what_is_hot_in_it_alone() {
    let found = analyse("hot", &[("per-thread", "true")], &[]);
    for (tid, of) in THREADS.into_iter().zip(threads(&found)) {
        assert_eq!(of, analyse("hot", &[], &[tid]), "{tid}");
    }
}

#[test]
fn calls_of_threads_add_up_to_all_calls_and_are_those_of_the_thread_alone() {
    let mut whole = analyse("functions", &[("per-thread", "true")], &[]);
    let threads = threads(&whole);
    let numbers = ["calls", "returns"];
    let of_threads = sums(threads.iter().map(|of| &of["functions"]), "id", &numbers);
    assert!(!of_threads.is_empty());
    assert_eq!(of_threads, sums([&whole["functions"]], "id", &numbers));
    for (tid, of) in THREADS.into_iter().zip(&threads) {
        assert_eq!(of["functions"], analyse("functions", &[], &[tid])["functions"], "{tid}");
    }
    whole.as_object_mut().unwrap().remove("threads");
    assert_eq!(whole, analyse("functions", &[], &[]));
}

#[test]
fn a_schedule_lists_threads_whether_asked_to_or_not() {
    let asked = analyse("schedule", &[("per-thread", "true")], &[]);
    assert_eq!(threads(&asked).len(), THREADS.len());
    assert_eq!(asked, analyse("schedule", &[], &[]));
}
