//! Accesses per second of `types` with a hundred thousand live regions, and of Cacheray's simulator.
//!
//! A program walks over objects on its heap and touches a few fields of each. Most of the time it picks one of [`SCATTERED`]
//! objects, which are too many for the first cache, so that a sixth of all accesses miss it; occasionally it picks any
//! object. In the rows of hot objects, it mostly picks one of [`HOT`], so that a twentieth miss.
//!
//! `cargo bench -p quipu-sim --bench types`

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu_model::lens::{AccessKind, RegionEvent};
use quipu_model::{Batch, Options};
use quipu_sim::cacheray::{Configuration, Levels, Simulator, Structs};
use quipu_sim::{Setup, Simulation, TypeSource, caches};
use quipu_symbols::attribute::Types;
use quipu_symbols::types_file::{Lookup, TypesFile};

fn main() {
    divan::main();
}

const REGIONS: u64 = 100_000;
const SCATTERED: u64 = 2_000;
const HOT: u64 = 300;
/// With hot objects, one access in this many goes to any object.
const HOT_FAR: u64 = 7;
const BYTES: u64 = 80;
const START: u64 = 0x5555_5555_0000;
const RECORDS: u32 = 1024;
const BATCHES: usize = 64;
const ROUNDS: usize = 16;

const FILE: &str = r#"{"structs": [{"id": 1, "name": "struct Node", "members": [
    {"id": 2, "memberName": "next", "name": "struct Node*", "offset": 0, "size": 8},
    {"id": 2, "memberName": "prev", "name": "struct Node*", "offset": 8, "size": 8},
    {"id": 3, "memberName": "flag", "name": "char", "offset": 16, "size": 1},
    {"id": 4, "memberName": "key", "name": "long", "offset": 24, "size": 8},
    {"id": 5, "memberName": "values", "name": "int[]", "offset": 32, "size": 32}]}],
    "typedefs": [], "unions": [], "version": 4}"#;

fn file() -> TypesFile {
    TypesFile::parse(FILE.as_bytes()).expect("the file above is one")
}

/// One annotation per object.
fn regions() -> Batch {
    let mut batch = Batch::default();
    for at in 0..REGIONS {
        batch.regions.at.push(at as u32);
        batch.regions.what.push(RegionEvent::Add);
        batch.regions.addr.push(START + at * BYTES);
        batch.regions.element_bytes.push(64);
        batch.regions.n_elements.push(1);
        batch.regions.type_name.push(b"struct.Node");
    }
    batch.span.records = REGIONS as u32;
    batch
}

/// Walks over objects: one in `far` is any of them, the others are among the first `most`.
fn walks(most: u64, far: u64) -> Vec<Batch> {
    let mut random = 1u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let mut batches = Vec::new();
    for _ in 0..BATCHES {
        let mut batch = Batch::default();
        batch.span.records = RECORDS;
        let mut object = START;
        for at in 0..RECORDS {
            if at % 5 == 0 {
                object = START + BYTES * if next(far) == 0 { next(REGIONS) } else { next(most) };
            }
            let (offset, size) = match at % 5 {
                0 => (0, 8),
                1 => (24, 8),
                2 => (32 + 4 * next(8), 4),
                3 => (16, 1),
                _ => (8, 8),
            };
            let kind = if next(3) == 0 { AccessKind::Write } else { AccessKind::Read };
            batch.accesses.at.push(at);
            batch.accesses.kind.push(kind);
            batch.accesses.addr.push(object + offset);
            batch.accesses.size.push(size);
        }
        batches.push(batch);
    }
    batches
}

fn simulation(tells_types: bool) -> Simulation {
    let types = TypeSource { types: Types::of_file(&file()), ..TypeSource::default() };
    let usual = caches::settings(&Options::default(), None).expect("no option is wrong");
    let mut settings = Setup { top: 0, ..usual };
    if tells_types {
        settings = Setup { types: Some(types), tells_types: Some(10), ..settings };
    }
    let mut simulation = Simulation::new(settings, None).expect("the usual machine holds together");
    simulation.take(&regions()).expect("regions are taken");
    simulation
}

/// `types` and, for comparison, its machine alone.
#[divan::bench(args = [(true, 4), (true, 50), (false, 4), (false, 50)])]
fn types(bencher: Bencher<'_, '_>, (tells_types, far): (bool, u64)) {
    simulate(bencher, tells_types, &walks(SCATTERED, far));
}

/// The same for hot objects.
#[divan::bench(args = [true, false])]
fn types_of_hot_objects(bencher: Bencher<'_, '_>, tells_types: bool) {
    simulate(bencher, tells_types, &walks(HOT, HOT_FAR));
}

fn simulate(bencher: Bencher<'_, '_>, tells_types: bool, batches: &[Batch]) {
    let mut simulation = simulation(tells_types);
    bencher.counter(ItemsCount::new(BATCHES * ROUNDS * RECORDS as usize)).bench_local(|| {
        for batch in (0..ROUNDS).flat_map(|_| batches) {
            simulation.take(batch).expect("a plain batch is taken");
        }
    });
}

/// Regions that end and begin again.
#[divan::bench]
fn regions_change(bencher: Bencher<'_, '_>) {
    let mut simulation = simulation(true);
    let mut batch = Batch::default();
    for at in 0..RECORDS {
        let is_add = at % 2 == 1;
        batch.regions.at.push(at);
        batch.regions.what.push(if is_add { RegionEvent::Add } else { RegionEvent::Remove });
        batch.regions.addr.push(START + u64::from(at / 2) * 97 % REGIONS * BYTES);
        batch.regions.element_bytes.push(64);
        batch.regions.n_elements.push(1);
        batch.regions.type_name.push(b"struct.Node");
    }
    batch.span.records = RECORDS;
    bencher
        .counter(ItemsCount::new(RECORDS as usize))
        .bench_local(|| simulation.take(&batch).expect("a plain batch is taken"));
}

const CONFIG: &str = r#"{"caches": [
    {"name": "L1", "cache_size": 15, "block_size": 6, "write_policy": 0, "set_assoc": 8, "rep_policy": 0},
    {"name": "L2", "cache_size": 20, "block_size": 6, "write_policy": 0, "set_assoc": 16, "rep_policy": 0}]}"#;

/// Cacheray's simulator, with caches and structures.
#[divan::bench(args = [4, 50])]
fn original_model(bencher: Bencher<'_, '_>, far: u64) {
    run_original(bencher, &walks(SCATTERED, far));
}

/// The same for hot objects.
#[divan::bench]
fn original_model_of_hot_objects(bencher: Bencher<'_, '_>) {
    run_original(bencher, &walks(HOT, HOT_FAR));
}

fn run_original(bencher: Bencher<'_, '_>, batches: &[Batch]) {
    let config = Configuration::parse(CONFIG).expect("the configuration above is one");
    let levels = Levels::new(&config);
    let (structs, ..) = Structs::new(Lookup::new(&file()), None, 2);
    let mut model = Simulator::new(levels, structs);
    for at in 0..REGIONS {
        model.structs.add("struct.Node", START + at * BYTES, 1);
    }
    bencher.counter(ItemsCount::new(BATCHES * ROUNDS * RECORDS as usize)).bench_local(|| {
        for batch in (0..ROUNDS).flat_map(|_| batches) {
            let rows = batch.accesses.addr.iter().zip(&batch.accesses.size).zip(&batch.accesses.kind);
            for ((addr, size), kind) in rows {
                let is_write = *kind == AccessKind::Write;
                model.access(*addr, *size as u8, is_write, &mut |_, _| {}).expect("no access is odd");
            }
        }
    });
}
