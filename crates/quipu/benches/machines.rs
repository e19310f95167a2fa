//! Benchmarks of machines on the accesses of a real program: part of a thread of a trace in the repository, repeated, in
//! batches that stay in a near cache like those of a reader. `crates/sim/benches` has random access patterns.
//!
//! `cargo bench -p quipu --bench machines`

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu::model::lens::Accesses;
use quipu::model::{Batch, Columns, Given, OpenOptions, Options, Scan, Trace};
use quipu::sim::sweep::{Space, Sweep};
use quipu::sim::{CacheSpec, Machine, MachineSpec, Role, Rows, Setup, Simulation, Watch, caches, tlbs};
use std::path::Path;

fn main() {
    divan::main();
}

/// Number of batches of a thread, and number of times they are simulated.
const BATCHES: usize = 48;
const ROUNDS: usize = 32;

fn trace() -> Box<dyn Trace> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace/threadsig.x64");
    quipu::open_path(&path, &OpenOptions::default()).expect("a trace of the repository")
}

fn batches() -> Vec<Batch> {
    let trace = trace();
    // The second thread is a long one.
    let scan = Scan::new(trace.shards()[1].id)
        .columns(Columns::ACCESSES | Columns::ACCESS_FETCH | Columns::ACCESS_PC);
    let mut reader = trace.scan(&scan).expect("columns that it has");
    let mut batches = Vec::new();
    while batches.len() < BATCHES
        && let Some(batch) = reader.read().expect("a sound trace")
    {
        batches.push(Batch { span: batch.span, accesses: batch.accesses.clone(), ..Batch::default() });
    }
    batches
}

fn n_accesses(batches: &[Batch]) -> ItemsCount {
    ItemsCount::new(ROUNDS * batches.iter().map(|batch| batch.accesses.len()).sum::<usize>())
}

fn simulate(bencher: Bencher<'_, '_>, settings: &Setup) {
    let batches = batches();
    bencher.counter(n_accesses(&batches)).bench_local(|| {
        let mut simulation = Simulation::new(settings.clone(), None).expect("a machine that holds together");
        for batch in (0..ROUNDS).flat_map(|_| &batches) {
            simulation.take(batch).expect("one process");
        }
        simulation.report()
    });
}

#[divan::bench]
fn default_hierarchy(bencher: Bencher<'_, '_>) {
    simulate(bencher, &caches::settings(&Options::default(), None).expect("defaults"));
}

#[divan::bench]
fn coherent_hierarchy(bencher: Bencher<'_, '_>) {
    let mut given = Given::default();
    given.add("coherence", "true");
    simulate(
        bencher,
        &caches::settings(&caches::INFO.parse(&given).expect("options"), None).expect("defaults"),
    );
}

#[divan::bench]
fn default_tlbs(bencher: Bencher<'_, '_>) {
    simulate(bencher, &tlbs::settings(&Options::default(), None).expect("defaults"));
}

/// First-level caches only: separate ones for instructions and data, or a unified one.
#[divan::bench(args = ["split", "unified"])]
fn one_level_lru_8_ways(bencher: Bencher<'_, '_>, sort: &str) {
    let cache = |name: &str, role| CacheSpec { core: Some(0), role, ..CacheSpec::new(name, 32 << 10, 8) };
    let caches = match sort {
        "split" => vec![cache("L1I", Role::Instruction), cache("L1D", Role::Data)],
        _ => vec![cache("L1", Role::Unified)],
    };
    let spec = MachineSpec::new(1, 64, caches);
    let batches = batches();
    bencher.counter(n_accesses(&batches)).bench_local(|| {
        let mut machine = Machine::new(&spec, Watch::default()).expect("a machine that holds together");
        for batch in (0..ROUNDS).flat_map(|_| &batches) {
            let Accesses { kind, addr, size, .. } = &batch.accesses;
            machine.run(0, Rows { kind, addr, size, pc: &[], is_demand_only: false });
        }
        machine.counts(0)
    });
}

/// Data caches with LRU, on one thread: a single cache, and 64 caches with eight sizes and eight numbers of ways.
#[divan::bench(args = [1, 64])]
fn sweep(bencher: Bencher<'_, '_>, n: usize) {
    let text = match n {
        1 => "sizes 32K\nways 8",
        _ => "sizes 16K..2M\nways 1..128",
    };
    let (trace, batches) = (trace(), batches());
    let space = Space::parse(&format!("{text}\ncores 1"), "bench").expect("a space");
    assert_eq!(space.points().expect("caches").0.len(), n);
    bencher.counter(n_accesses(&batches)).bench_local(|| {
        let mut sweep = Sweep::new(space.clone(), &*trace, 1).expect("caches that can be built");
        for batch in (0..ROUNDS).flat_map(|_| &batches) {
            sweep.take(batch).expect("one thread");
        }
        sweep.report()
    });
}
