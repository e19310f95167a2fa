//! Accesses per second of machines. Batches resemble those of a real program: fetches along loops with jumps, and data on a
//! stack, in hot objects, and occasionally along a large array.
//!
//! `cargo bench -p quipu-sim`

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu_model::lens::{AccessKind, Accesses};
use quipu_model::{Batch, Given, Options};
use quipu_sim::{CacheSpec, Machine, MachineSpec, Policy, Rows, Setup, Simulation, Watch, caches, tlbs};

fn main() {
    divan::main();
}

/// Few enough to stay in a near cache, as a reader's batches do.
const BATCHES: u32 = 32;
/// Number of times that the batches are run.
const ROUNDS: usize = 32;
const RECORDS: u32 = 1024;

/// Two thirds are fetches, one third data.
fn batches() -> Vec<Batch> {
    let mut random = 1u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let (mut pc, mut array) = (0x40_0000u64, 0u64);
    let mut batches = Vec::new();
    for i in 0..BATCHES {
        let mut batch = Batch::default();
        batch.span.records = RECORDS;
        batch.span.first_record = u64::from(i * RECORDS);
        batch.span.thread = 1.into();
        let rows = &mut batch.accesses;
        for at in 0..RECORDS {
            let (kind, addr, size) = if at % 3 == 2 {
                let addr = match next(16) {
                    0 => {
                        array += 8;
                        0x5000_0000 + array % (64 << 20)
                    }
                    1..=6 => 0x6000_0000 + next(2000) * 16,
                    _ => 0x7fff_0000 + next(64) * 8,
                };
                (if next(3) == 0 { AccessKind::Write } else { AccessKind::Read }, addr, 8)
            } else {
                pc = match next(12) {
                    0 => 0x40_0000 + next(24 << 10),
                    _ => pc + 4,
                };
                (AccessKind::Fetch, pc, 4)
            };
            rows.at.push(at);
            rows.kind.push(kind);
            rows.addr.push(addr);
            rows.size.push(size);
            rows.pc.push(pc);
            batch.span.instrs += u32::from(kind == AccessKind::Fetch);
        }
        batches.push(batch);
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
    let coherent = caches::INFO.parse(&Given::from([("coherence", "true")])).expect("an option");
    simulate(bencher, &caches::settings(&coherent, None).expect("defaults"));
}

#[divan::bench]
fn default_tlbs(bencher: Bencher<'_, '_>) {
    simulate(bencher, &tlbs::settings(&Options::default(), None).expect("defaults"));
}

#[divan::bench(args = Policy::NAMES.map(|(name, _)| name))]
fn one_level(bencher: Bencher<'_, '_>, policy: &str) {
    let policy = Policy::named(policy).expect("a name from the list");
    let cache = CacheSpec { core: Some(0), policy, ..CacheSpec::new("L1", 32 << 10, 8) };
    let spec = MachineSpec::new(1, 64, vec![cache]);
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
