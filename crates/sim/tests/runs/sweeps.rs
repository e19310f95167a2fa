//! A sweep counts, for each cache, what a machine with that cache counts.

use super::{SMALL, args, program, report, result, seen, threads_on_processors};
use quipu_engine::plan;
use quipu_model::{Columns, ErrorKind, Options, Scan, ShardId, Trace};
use quipu_sim::caches::Caches;
use quipu_sim::sweep::{SweepTool, Swept};

#[test]
fn a_sweep_places_threads_as_a_machine_does_whatever_is_left_out() {
    let trace = threads_on_processors();
    for n in [1, 20, 59, 60, 61, 77, 140, 300] {
        for part in [format!("skip-refs={n}"), format!("skip-refs={n} sim-refs=99"), format!("sim-refs={n}")]
        {
            for on in ["", "cpu-scheduling"] {
                let caches = result(
                    &Caches,
                    &format!("cores=3 l1d-size=1K l1d-assoc=2 prefetcher=none {part} {on}"),
                    &trace,
                );
                let swept: Swept =
                    report(&SweepTool, &format!("cores=3 sizes=1K ways=2 {part} {on}"), &trace);
                let (of, expected) = (&swept.points[0], &caches.levels[1]);
                assert_eq!((of.hits, of.misses), (expected.hits, expected.misses), "{part} {on}");
                assert_eq!((swept.accesses, swept.instructions), (caches.accesses, caches.instructions));
            }
        }
    }
}

#[test]
fn a_sweep_counts_records_as_a_machine_does() {
    let trace = program(600);
    for extent in
        ["", "skip-refs=100", "warmup-refs=333", "sim-refs=77", "skip-refs=5 warmup-refs=250 sim-refs=600"]
    {
        let caches = result(&Caches, &format!("{SMALL} {extent}"), &trace);
        for (at, level, size, ways) in [(0, "l1i", "1K", 2), (1, "l1d", "1K", 2), (2, "ll", "16K", 4)] {
            for policies in ["LRU", "LRU,FIFO"] {
                let firsts = "cores=1 l1i-size=1K l1i-assoc=2 l1d-size=1K l1d-assoc=2 prefetcher=none";
                let options =
                    format!("{firsts} {extent} level={level} sizes={size} ways={ways} policies={policies}");
                let swept: Swept = report(&SweepTool, &options, &trace);
                let (of, expected) = (&swept.points[0], &caches.levels[at]);
                assert_eq!((of.hits, of.misses), (expected.hits, expected.misses), "{level} {extent}");
                assert_eq!((swept.accesses, swept.instructions), (caches.accesses, caches.instructions));
            }
        }
    }
    // A warm-up in instructions lasts up to the next instruction, so it includes the data of its last.
    let options = "cores=1 sizes=1K ways=2 policies=LRU,FIFO";
    for (instrs, refs) in [(5, 11), (6, 14), (7, 16)] {
        let [of_instrs, of_refs] =
            [format!("warmup-instrs={instrs}"), format!("warmup-refs={refs}")].map(|warmup| {
                let swept: Swept =
                    report(&SweepTool, &format!("{options} skip-refs=3 sim-refs=500 {warmup}"), &trace);
                swept
            });
        assert_eq!(of_instrs, of_refs, "{instrs}");
    }
    let error = plan(&SweepTool, &args("warmup-instrs=5 warmup-refs=1"), &trace).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::Usage);
    let swept: Swept = report(&SweepTool, "sizes=1K ways=2 skip-refs=100000", &trace);
    assert_eq!(
        swept.incomplete,
        ["nothing was simulated: skip-refs leaves out 100,000 records, and the trace has 1,400"]
    );
}

#[test]
fn policies_that_draw_lots_draw_the_same_in_a_sweep() {
    let trace = program(2000);
    for policy in ["RANDOM", "BIT_PLRU"] {
        let common = "cores=2 l1i-size=1K l1i-assoc=2 prefetcher=none";
        let options = format!("{common} l1d-size=2K l1d-assoc=4 ll-size=16K ll-assoc=4 policy={policy}");
        let caches = result(&Caches, &options, &trace);
        let misses = |level: &str, size: &str| {
            let options = format!("cores=2 level={level} sizes={size} ways=4 policies={policy}");
            let swept: Swept = report(&SweepTool, &options, &trace);
            swept.points[0].misses
        };
        assert!(caches.levels[1].misses > 100);
        assert_eq!(misses("l1d", "2K"), caches.levels[1].misses, "{policy}");
    }
    // Only the last cache is random; the first caches are not.
    let config = "num_cores 1\nL1I { type instruction core 0 size 1K assoc 2 parent LL }\n\
                  L1D { type data core 0 size 1K assoc 2 parent LL }\nLL { size 8K assoc 4 }\n";
    let mut config = quipu_sim::config::parse(config, "c").expect("a configuration");
    config.machine.caches.iter_mut().filter(|cache| cache.parent.is_none()).for_each(|last| {
        last.policy = quipu_sim::Policy::Random;
    });
    let settings = quipu_sim::caches::settings(&Options::default(), Some(config)).expect("settings");
    let mut simulation = quipu_sim::Simulation::new(settings, None).expect("a machine");
    let scan = Scan::new(ShardId(0)).columns(Columns::ACCESSES | Columns::ACCESS_FETCH);
    let mut reader = trace.scan(&scan).expect("a reader");
    while let Some(batch) = reader.read().expect("a batch") {
        simulation.take(batch).expect("taken");
    }
    let options = "cores=1 level=ll sizes=8K ways=4 policies=RANDOM l1i-size=1K l1i-assoc=2 l1d-size=1K l1d-assoc=2 \
                   prefetcher=none";
    let swept: Swept = report(&SweepTool, options, &trace);
    assert_eq!(swept.points[0].misses, simulation.report().levels[2].misses);
}

#[test]
fn caches_of_a_sweep_have_any_number_of_sets() {
    let trace = program(600);
    let firsts = "cores=1 prefetcher=none";
    // Numbers of sets with the odd factors 1, 3 and 5, in several sizes each.
    let lists = "sizes=768,1K,1280,1536,2K,2560,3K ways=1,2,4 policies=LRU,FIFO";
    let swept: Swept = report(&SweepTool, &format!("{firsts} {lists}"), &trace);
    assert_eq!((swept.points.len(), swept.impossible), (42, 0));
    for point in &swept.points {
        let (size, ways, policy) = (point.size, point.assoc, point.policy);
        let options = format!("{firsts} l1d-size={size} l1d-assoc={ways} policy={policy}");
        let alone = result(&Caches, &options, &trace);
        let expected = &alone.levels[1];
        assert_eq!((point.hits, point.misses), (expected.hits, expected.misses), "{options}");
    }
    let swept: Swept = report(&SweepTool, &format!("{firsts} sizes=960,1K ways=2"), &trace);
    assert_eq!(swept.impossible, 1, "fifteen lines in sets of two");
    assert!(
        seen(&swept).contains("1 combination left out: a size must be a multiple of line size times ways")
    );
}
