//! A sweep of one cache gives the counts of the same cache in a machine, for all arrangements of threads on cores.

// Helpers of tests may panic, too.
use quipu::engine::{DispatchOptions, Quantum, RunOptions, Watch, dispatch, plan, run};
use quipu::model::{Given, OpenOptions, Trace};
use serde_json::Value;
use std::path::PathBuf;

fn open(name: &str) -> Box<dyn Trace> {
    let traces = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace");
    quipu::open_path(&traces.join(name), &OpenOptions::default()).unwrap()
}

fn scheduled(name: &str, quantum: u64) -> Box<dyn Trace> {
    let options =
        DispatchOptions { cores: 3, quantum: Quantum::Instrs(quantum), ..DispatchOptions::default() };
    dispatch(open(name), options).unwrap()
}

/// The JSON result of a tool; options as `name=value`.
fn json(tool: &str, options: &str, trace: &dyn Trace) -> Value {
    let mut given = Given::default();
    for (name, value) in options.split_whitespace().filter_map(|word| word.split_once('=')) {
        given.add(name, value);
    }
    let watch = Watch::new();
    let planned = plan(quipu::tool(tool, &trace.meta().format).unwrap(), &given, trace).unwrap();
    run(trace, vec![planned], &RunOptions::new(&watch)).unwrap().reports[0].json()
}

/// Hits and misses of accesses and of prefetches.
fn counts(of: &Value) -> [u64; 4] {
    ["hits", "misses", "prefetch_hits", "prefetch_misses"].map(|key| of[key].as_u64().unwrap())
}

#[test]
fn a_sweep_of_one_cache_is_that_cache_in_a_machine_under_every_order() {
    let orders = [
        ("threads", open("threadsig.x64")),
        ("cores that are told", open("as_traced").by_core().unwrap()),
        ("cores on disk", open("thr.core_sharded_kernel")),
        ("scheduled, long", scheduled("thr", 20_000_000)),
        ("scheduled, short", scheduled("thr", 100)),
    ];
    // The options of the sweep, those of the same machine, and the index of the swept level. LRU uses stack distances, RRIP
    // simulates caches.
    let caches = [
        ("level=l1i sizes=4K ways=2", "l1i-size=4K l1i-assoc=2", 0),
        ("level=l1d sizes=2K ways=4 policies=RRIP", "l1d-size=2K l1d-assoc=4 policy=RRIP prefetcher=none", 1),
        (
            "level=ll sizes=16K ways=2 l1d-size=1K l1d-assoc=2",
            "ll-size=16K ll-assoc=2 l1d-size=1K l1d-assoc=2",
            2,
        ),
    ];
    for (order, trace) in &orders {
        for (swept, machine, level) in caches {
            let found = json("sweep", swept, &**trace);
            let expected = json("caches", machine, &**trace);
            for key in ["accesses", "instructions"] {
                assert_eq!(found[key], expected[key], "{order}: {swept}");
            }
            let (found, expected) = (counts(&found["points"][0]), counts(&expected["levels"][level]));
            assert_eq!(found, expected, "{order}: {swept}");
            assert!(found[1] > 0, "{order}: {swept}: it has something to do");
        }
    }
}
