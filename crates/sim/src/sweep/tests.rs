//! Compares every cache of a sweep with the same cache in a machine of its own.

use super::*;
use crate::{CacheSpec, Usual};
use proptest::prelude::*;
use quipu_model::lens::AccessKind;
use quipu_testkit::{MemoryTrace, Rng};

/// Thread, kind, address, size.
type Access = (u64, AccessKind, u64, u32);

fn accesses() -> impl Strategy<Value = Vec<Access>> {
    let kind = (0..AccessKind::ALL.len() + 4).prop_map(|i| match i {
        0..7 => AccessKind::ALL[i],
        7 | 8 => AccessKind::Fetch,
        _ => AccessKind::Read,
    });
    let size = prop_oneof![6 => 1..8u32, 1 => 60..300u32, 1 => 0..1u32];
    prop::collection::vec((1..3u64, kind, 0..6000u64, size), 1..400)
}

/// Batches of one thread each, as a reader returns them, with an instruction for each fetch.
fn batches(accesses: &[Access]) -> Vec<Batch> {
    let mut first_record = 0;
    let run = |run: &[Access]| {
        let mut batch = Batch::default();
        batch.span.thread = run[0].0.into();
        batch.span.records = run.len() as u32;
        batch.span.first_record = first_record;
        first_record += run.len() as u64;
        for (at, (_, kind, addr, size)) in (0..).zip(run) {
            let rows = &mut batch.accesses;
            rows.at.push(at);
            rows.kind.push(*kind);
            rows.addr.push(*addr);
            rows.size.push(*size);
            rows.pc.push(addr >> 9);
            if *kind == AccessKind::Fetch {
                batch.span.instrs += 1;
                batch.instrs.at.push(at);
                batch.instrs.flags.push(0);
            }
        }
        batch
    };
    accesses.chunk_by(|a, b| a.0 == b.0).map(run).collect()
}

/// Counts of the caches that a point stands for, simulated one access after the other.
fn plain(space: &Space, point: &Point, batches: &[Batch]) -> Counts {
    let cores = space.usual.cores;
    let of_core = |role, name: &str, core: usize, parent: Option<&str>| CacheSpec {
        role,
        core: Some(core),
        parent: parent.map(str::to_owned),
        name: format!("{name}{core}"),
        ..point.cache()
    };
    let big = |role, core: usize| CacheSpec {
        role,
        core: Some(core),
        ..CacheSpec::new(format!("big{core}"), 1 << 12, 4)
    };
    use crate::Role::{Data, Instruction, Unified};
    let mut caches = Vec::new();
    for core in 0..cores {
        match space.level {
            Level::Instr => caches.extend([of_core(Instruction, "x", core, None), big(Data, core)]),
            Level::Data => caches.extend([big(Instruction, core), of_core(Data, "x", core, None)]),
            Level::First => caches.push(of_core(Unified, "x", core, None)),
            Level::Last => {}
        }
    }
    let spec = if space.level == Level::Last {
        let mut spec = Usual { line_bytes: point.line_size, ..space.usual.clone() }.spec();
        let last = spec.caches.last_mut().expect("a last cache");
        *last = CacheSpec { name: "LL".to_owned(), ..point.cache() };
        spec
    } else {
        MachineSpec::new(cores, point.line_size, caches)
    };
    let mut machine = Machine::new(&spec, Watch::default()).expect("a machine that holds together");
    let mut placement = Placement::new(Placing::Fewest, cores);
    let mut n_instrs = 0;
    let mut is_warm = space.warmup == 0;
    for batch in batches {
        let core = placement.core_of(batch).unwrap().expect("accesses");
        for row in 0..batch.accesses.len() {
            let rows = &batch.accesses;
            if rows.kind[row] == AccessKind::Fetch {
                if n_instrs == space.warmup && !is_warm {
                    machine.reset_counts();
                    is_warm = true;
                }
                n_instrs += 1;
            }
            machine.access(core, rows.kind[row], rows.addr[row], rows.size[row], rows.pc[row]);
        }
    }
    if !is_warm {
        return Counts::default();
    }
    let tried = spec.caches.iter().enumerate().filter(|(_, cache)| {
        if space.level == Level::Last { cache.name == "LL" } else { cache.name.starts_with('x') }
    });
    tried.fold(Counts::default(), |sum, (at, _)| {
        let of = machine.counts(at);
        Counts {
            hits: sum.hits + of.hits,
            misses: sum.misses + of.misses,
            prefetch_hits: sum.prefetch_hits + of.prefetch_hits,
            prefetch_misses: sum.prefetch_misses + of.prefetch_misses,
            compulsory: sum.compulsory + of.compulsory,
            ..sum
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn each_cache_counts_what_it_counts_alone(
        accesses in accesses(), level in 0..4usize, threads in 1..3usize, warmup in 0..30u64, is_lru: bool
    ) {
        let level = Level::NAMES[level].1;
        let lists = if is_lru {
            "policies LRU\nprefetchers none\nways 1 2 3 4 16"
        } else {
            "policies LRU LFU FIFO TREE_PLRU RRIP OPT\nprefetchers none nextline stride stream\nways 1 4 8"
        };
        let text = format!("{lists}\nsizes 128..1K 768 1536\nline-sizes 32 64\ncores 2\nl1i-size 256\nl1d-size 256\n\
                            l1i-assoc 2\nl1d-assoc 2\nwarmup-instrs {warmup}\nbound true");
        let space = Space { level, ..Space::parse(&text, "s").unwrap() };
        let batches = batches(&accesses);
        let trace = MemoryTrace::new(Vec::new());
        let mut sweep = Sweep::new(space.clone(), &trace, threads).unwrap();
        for batch in &batches {
            sweep.take(batch).unwrap();
        }
        let (points, _) = space.points().unwrap();
        let report = sweep.clone().report();
        sweep.settle();
        for (point, counts) in points.iter().zip(&report.points) {
            let expected = plain(&space, point, &batches);
            let found = sweep.counts(point);
            prop_assert_eq!(found, expected, "{:?} {:?}", point, level);
            prop_assert_eq!((counts.hits, counts.misses), (expected.hits, expected.misses));
            let bound = plain(&space, &bound_of(*point), &batches).misses;
            prop_assert_eq!(counts.bound_misses, Some(bound));
            if point.prefetch == Prefetch::None && warmup == 0 && accesses.iter().all(|of| of.1 == AccessKind::Read) {
                prop_assert!(bound <= counts.misses);
            }
        }
    }
}

#[test]
fn a_trace_without_fetches_has_no_caches_for_instructions() {
    let trace = MemoryTrace::parse("thread 1 1\nread 0x10 8\n").unwrap().with_columns(Columns::ACCESSES);
    let space = Space { level: Level::Instr, ..Space::default() };
    let error = Sweep::new(space, &trace, 1).unwrap().columns(&trace).unwrap_err();
    assert!(error.message().starts_with("tool `sweep` tries caches for instructions, which needs"));
}

/// Some records of several cores side by side; a few are neither accesses nor instructions.
fn round(rng: &mut Rng, cores: u32) -> Vec<Batch> {
    let records = 1 + rng.below(40) as u32;
    let of_core = |core| {
        let mut batch = Batch::default();
        (batch.span.shard, batch.span.thread, batch.span.records) =
            (core, (10 + u64::from(core)).into(), records);
        for at in 0..records {
            let kind = match rng.below(6) {
                0 | 1 => AccessKind::Fetch,
                2 | 3 => AccessKind::Read,
                4 => AccessKind::Write,
                _ => continue,
            };
            if kind == AccessKind::Fetch {
                batch.instrs.at.push(at);
                batch.instrs.flags.push(0);
                batch.span.instrs += 1;
            }
            let rows = &mut batch.accesses;
            rows.at.push(at);
            rows.kind.push(kind);
            rows.addr.push(64 * rng.below(60));
            rows.size.push(4);
            rows.pc.push(rng.below(9));
        }
        batch
    };
    (0..cores).map(of_core).collect()
}

/// The record of a batch at `at`, as a batch of its own.
fn record(batch: &Batch, at: u32) -> Batch {
    let mut one = Batch { span: batch.span, ..Batch::default() };
    (one.span.records, one.span.instrs) = (1, 0);
    if let Ok(row) = batch.accesses.at.binary_search(&at) {
        one.accesses.at.push(0);
        one.accesses.kind.push(batch.accesses.kind[row]);
        one.accesses.addr.push(batch.accesses.addr[row]);
        one.accesses.size.push(batch.accesses.size[row]);
        one.accesses.pc.push(batch.accesses.pc[row]);
    }
    if batch.instrs.at.contains(&at) {
        one.instrs.at.push(0);
        one.instrs.flags.push(0);
        one.span.instrs = 1;
    }
    one
}

#[test]
fn cores_side_by_side_are_their_records_one_by_one() {
    let mut rng = Rng::new(5);
    let trace = MemoryTrace::parse("shard a core\nshard b core\nshard c core\n").unwrap();
    for (_, level) in Level::NAMES {
        for warmup in [0, 100] {
            let text = format!(
                "sizes 256 512\nways 1 4\npolicies LRU RRIP\nprefetchers none nextline\nl1i-size 256\nl1i-assoc 2\n\
                 l1d-size 256\nl1d-assoc 2\nwarmup-instrs {warmup}"
            );
            let space = Space { level, ..Space::parse(&text, "s").unwrap() };
            let mut together = Sweep::new(space.clone(), &trace, 1).unwrap();
            let mut one_by_one = together.clone();
            let mut in_turns = together.clone();
            for _ in 0..20 {
                let batches = round(&mut rng, 3);
                together.take_in_step(&batches).unwrap();
                for at in 0..batches[0].span.records {
                    batches.iter().for_each(|batch| one_by_one.take(&record(batch, at)).unwrap());
                }
                batches.iter().for_each(|batch| in_turns.take(batch).unwrap());
            }
            let expected = one_by_one.report();
            assert_eq!(together.report(), expected, "{level:?} {warmup}");
            if level == Level::Last {
                assert_ne!(in_turns.report(), expected, "the test sees the order");
            }
        }
    }
}
