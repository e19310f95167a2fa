//! Parts of real traces (intervals, cores, windows, threads) add up to the whole, for any number of threads.

// Helpers of tests may panic, too.
use quipu::engine::{Division, Intervals, Outcome, RunOptions, Watch, plan, run};
use quipu::model::schema::Missing;
use quipu::model::{Given, OpenOptions, Table, Trace, Window};
use quipu_testkit::fixtures;
use serde_json::Value;
use std::collections::BTreeMap;
use std::num::NonZeroU64;

const TRACES: &[&str] = &[
    "tiny.chunk1000",
    "tiny.func",
    "tiny.multiwin",
    "thr.kernel_injected",
    "as_traced",
    "threadsig.x64",
    "thr.core_sharded_kernel",
    "legacy-for-record-filter",
];

fn open(name: &str) -> Box<dyn Trace> {
    quipu::open_path(&fixtures("drmemtrace").join(name), &OpenOptions::default()).unwrap()
}

/// Runs tools; `change` adjusts the options of the run.
fn outcome(tools: &[&str], trace: &dyn Trace, change: impl FnOnce(&mut RunOptions<'_>)) -> Outcome {
    let watch = Watch::new();
    let mut options = RunOptions::new(&watch);
    change(&mut options);
    let planned = tools.iter().map(|name| {
        plan(quipu::tool(name, &trace.meta().format).unwrap(), &Given::default(), trace).unwrap()
    });
    run(trace, planned.collect(), &options).unwrap()
}

/// The counts of the tool `counts` that can be added up.
fn sums(counts: &Value) -> BTreeMap<String, u64> {
    let counts = counts["total"].as_object().unwrap().iter();
    counts
        .filter(|(name, _)| !["unique_instructions", "threads"].contains(&name.as_str()))
        .map(|(name, count)| (name.clone(), count.as_u64().unwrap()))
        .collect()
}

fn add(sum: &mut BTreeMap<String, u64>, counts: BTreeMap<String, u64>) {
    for (name, count) in counts {
        *sum.entry(name).or_default() += count;
    }
}

fn intervals(every: u64, make: fn(NonZeroU64) -> Intervals) -> Division {
    Division { intervals: NonZeroU64::new(every).map(make), per_core: false }
}

fn divisions() -> [Division; 5] {
    [
        intervals(1000, Intervals::Instrs),
        intervals(777, Intervals::Instrs),
        intervals(2500, Intervals::Clock),
        Division { intervals: None, per_core: true },
        Division { per_core: true, ..intervals(5000, Intervals::Clock) },
    ]
}

#[test]
fn counts_of_parts_add_up_to_those_of_the_whole() {
    for name in TRACES {
        let trace = open(name);
        for division in divisions() {
            let found = outcome(&["counts"], &*trace, |options| options.division = division);
            let mut sum = BTreeMap::new();
            found.parts.iter().for_each(|part| add(&mut sum, sums(&part.reports[0].json())));
            assert_eq!(sum, sums(&found.reports[0].json()), "{name}, {division:?}");
            let instrs: u64 = found.parts.iter().map(|part| part.instrs).sum();
            assert_eq!(instrs, found.instrs, "{name}, {division:?}");
        }
    }
}

#[test]
fn the_whole_is_the_same_with_parts_and_without() {
    let tools = ["counts", "mix", "working-set", "reuse-distance", "schedule"];
    for name in ["threadsig.x64", "thr.core_sharded_kernel"] {
        let trace = open(name);
        let plain = outcome(&tools, &*trace, |_| {});
        let divided = outcome(&tools, &*trace, |options| options.division = divisions()[0]);
        for (plain, divided) in plain.reports.iter().zip(&divided.reports) {
            assert_eq!(plain.json(), divided.json(), "{name}");
        }
    }
}

#[test]
fn parts_do_not_depend_on_threads_or_on_the_other_tools() {
    let trace = open("threadsig.x64");
    for division in divisions() {
        let found = |threads, tools: &[&str]| {
            let outcome = outcome(tools, &*trace, |options| {
                (options.threads, options.division) = (threads, division);
            });
            let parts = outcome.parts.iter();
            parts
                .map(|part| {
                    let interval = part.interval.map(|interval| interval.number);
                    (part.core, part.shard, interval, part.reports[0].json())
                })
                .collect::<Vec<_>>()
        };
        let expected = found(1, &["mix"]);
        assert!(expected.len() > 5);
        assert_eq!(found(3, &["mix"]), expected, "{division:?}");
        // `schedule` needs all threads as one stream.
        assert_eq!(found(2, &["mix", "schedule"]), expected, "{division:?}");
    }
}

#[test]
fn every_interval_of_instructions_but_the_last_is_full() {
    let found = outcome(&["mix"], &*open("thr"), |options| {
        options.division = intervals(1000, Intervals::Instrs);
    });
    for (part, next) in found.parts.iter().zip(found.parts.iter().skip(1)) {
        assert!(part.shard != next.shard || part.instrs == 1000);
        assert!(part.instrs > 0 && part.instrs <= 1000);
    }
}

#[test]
fn cores_are_the_processors_that_the_schedule_names() {
    let found = outcome(&["counts"], &*open("as_traced"), |options| {
        options.division = Division { intervals: None, per_core: true };
    });
    let cores: Vec<_> = found.parts.iter().map(|part| (part.core.unwrap(), part.instrs)).collect();
    // DynamoRIO's schedule file has processor 6 from instruction 0, 2 from 32999, 3 from 41648, 7 from 46241.
    assert_eq!(cores, [(2, 41648 - 32999), (3, 46241 - 41648), (6, 32999), (7, 57812 - 46241)]);
}

#[test]
fn windows_side_by_side_have_the_counts_of_the_whole() {
    for name in ["tiny.chunk1000", "tiny.func", "allasm", "small"] {
        let trace = open(name);
        let whole = sums(&outcome(&["counts"], &*trace, |_| {}).reports[0].json());
        for step in [97, 1000] {
            let mut sum = BTreeMap::new();
            for start in (0..10_000).step_by(step) {
                let window = Window::Records(start..start + step as u64);
                let found = outcome(&["counts"], &*trace, |options| options.window = window);
                add(&mut sum, sums(&found.reports[0].json()));
            }
            assert_eq!(sum, whole, "{name}, {step} records each");
        }
    }
}

#[test]
fn a_thread_can_be_chosen_in_files_that_mix_them() {
    let trace = open("thr.core_sharded_kernel");
    let whole = outcome(&["counts"], &*trace, |_| {});
    let mut sum = BTreeMap::new();
    let mut instructions = 0;
    for thread in [5747, 5750, 5751, 5752, u64::MAX] {
        let found =
            outcome(&["counts", "mix"], &*trace, |options| options.threads_wanted = vec![thread.into()]);
        let counts = found.reports[0].json();
        assert_eq!(counts["total"]["threads"], u64::from(thread != u64::MAX), "{thread}");
        instructions += found.reports[1].json()["instructions"].as_u64().unwrap();
        add(&mut sum, sums(&counts));
    }
    let whole = sums(&whole.reports[0].json());
    assert_eq!(sum, whole);
    assert_eq!(instructions, whole["instructions"]);
}

#[test]
fn rows_of_parts_begin_with_what_part_they_are_of() {
    let trace = open("threadsig.x64");
    let tools = ["mix", "hot"];
    let found = outcome(&tools, &*trace, |options| options.division = divisions()[0]);
    let tables = quipu::engine::tables("demo", &tools, &found.reports, &found.parts);
    let mix = tables.iter().find(|table| table.schema().name == "mix").unwrap();
    let names: Vec<&str> = mix.schema().fields.iter().take(6).map(|field| &*field.name).collect();
    assert_eq!(names, ["trace", "interval", "core", "thread", "workload", "instructions"]);
    assert_eq!(mix.n_rows(), 1 + found.parts.len());
    let column = |name: &str| mix.column(mix.schema().position(name).unwrap());
    let (interval, thread, instrs) = (column("interval"), column("thread"), column("instructions"));
    assert!((0..mix.n_rows()).all(|row| column("trace").bytes(row) == b"demo"));
    assert!(interval.is_missing(Missing::Bitmap, 0) && column("core").is_missing(Missing::Bitmap, 1));
    for (row, part) in (1..).zip(&found.parts) {
        let (interval, thread) = (interval.number(row), thread.number(row));
        assert_eq!((interval, thread), (part.interval.unwrap().number, part.thread.unwrap().tid));
    }
    let of_parts: u64 = (1..mix.n_rows()).map(|row| instrs.number(row)).sum();
    assert_eq!(of_parts, instrs.number(0));
    // Without parts, a table has only its own columns.
    let plain = quipu::engine::tables("demo", &tools, &found.reports, &[]);
    assert_eq!(plain[0].schema().fields[0].name, "instructions");
}
