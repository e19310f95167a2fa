//! The result does not depend on how records are divided into batches.

use crate::caches;
use crate::config;
use crate::machine::Miss;
use crate::options::MISS_FILE;
use crate::place::Placing;
use crate::report::Simulated;
use crate::simulate::{MissSink, Setup, Simulation};
use crate::tlbs;
use quipu_model::lens::{AccessKind, instr_flags};
use quipu_model::pass::Detail;
use quipu_model::{Batch, Given, Options, Report, Result};
use quipu_testkit::Rng;
use std::sync::{Arc, Mutex};

fn settings(args: &[(&str, &str)]) -> Setup {
    let mut all = Given::default();
    all.add("l1d-size", "1K");
    all.add("ll-size", "4K");
    args.iter().for_each(|(name, value)| all.add(*name, *value));
    let specs = caches::INFO.options.iter().chain([&MISS_FILE]);
    let options = Options::parse("a test", specs, &all).unwrap();
    Setup { placing: Placing::Shards, ..caches::settings(&options, None).unwrap() }
}

/// Some records of one core; most are accesses, and few of these conflict with other cores.
fn batch(rng: &mut Rng, core: u32, records: u32) -> Batch {
    let mut batch = Batch::default();
    batch.span.shard = core;
    batch.span.thread = (10 + u64::from(core)).into();
    batch.span.records = records;
    for at in 0..records {
        if rng.below(5) == 0 {
            continue;
        }
        let kind = [AccessKind::Read, AccessKind::Write, AccessKind::Fetch][rng.below(3) as usize];
        if kind == AccessKind::Fetch {
            batch.instrs.at.push(at);
            batch.instrs.flags.push(if rng.below(3) == 0 { instr_flags::KERNEL } else { 0 });
            batch.span.instrs += 1;
        }
        batch.accesses.at.push(at);
        batch.accesses.kind.push(kind);
        batch.accesses.addr.push(64 * rng.below(200));
        batch.accesses.size.push(4);
        batch.accesses.pc.push(rng.below(9));
    }
    batch
}

/// The record of a batch at `at`, as a batch of its own.
fn record(batch: &Batch, at: u32) -> Batch {
    let mut one = Batch { span: batch.span, ..Batch::default() };
    (one.span.records, one.span.instrs) = (1, 0);
    for row in (0..batch.accesses.len()).filter(|row| batch.accesses.at[*row] == at) {
        one.accesses.at.push(0);
        one.accesses.kind.push(batch.accesses.kind[row]);
        one.accesses.addr.push(batch.accesses.addr[row]);
        one.accesses.size.push(batch.accesses.size[row]);
        one.accesses.pc.push(batch.accesses.pc[row]);
    }
    if let Some(row) = batch.instrs.at.iter().position(|of| *of == at) {
        one.instrs.at.push(0);
        one.instrs.flags.push(batch.instrs.flags[row]);
        one.span.instrs = 1;
    }
    one
}

/// Caches of four cores; each two share their first cache.
fn shared(coherent: bool) -> Setup {
    let text = format!(
        "num_cores 4 coherence {coherent}\nL1 {{ shared_by 2 size 1K assoc 2 prefetcher nextline parent LL }}\n\
         LL {{ size 3K assoc 4 }}"
    );
    let machine = config::parse(&text, "shared").unwrap().caches().unwrap();
    Setup { machine, ..settings(&[]) }
}

#[test]
fn cores_side_by_side_are_their_records_one_by_one() {
    let mut rng = Rng::new(11);
    let cases: [&[(&str, &str)]; 4] = [
        &[],
        &[("coherence", "true")],
        &[("skip-refs", "100"), ("warmup-refs", "333"), ("sim-refs", "1000")],
        &[("warmup-fraction", "0.5"), ("prefetcher", "none")],
    ];
    let cases = cases.into_iter().map(settings).chain([shared(false), shared(true)]);
    for setup in cases {
        let mut together = Simulation::new(setup.clone(), None).unwrap();
        let mut one_by_one = Simulation::new(setup.clone(), None).unwrap();
        for _ in 0..20 {
            // At the end of a trace, the first cores may have one more record.
            let n = 1 + rng.below(60) as u32;
            let more = rng.below(4) as u32;
            let batches: Vec<Batch> = [1, 2, 3, 0]
                .into_iter()
                .enumerate()
                .map(|(turn, core)| batch(&mut rng, core, n + u32::from((turn as u32) < more)))
                .collect();
            together.take_in_step(&batches).unwrap();
            for at in 0..=n {
                for batch in batches.iter().filter(|batch| at < batch.span.records) {
                    one_by_one.take(&record(batch, at)).unwrap();
                }
            }
        }
        // Threads are listed from their first record that is not skipped, or from its batch.
        let mut reports = [together.report(), one_by_one.report()];
        reports.iter_mut().for_each(|report| report.threads.sort_by_key(|of| of.thread));
        assert_eq!(reports[0], reports[1], "{setup:?}");
    }
}

#[test]
fn a_thread_counts_its_own_hits_in_a_cache_that_cores_share() {
    let mut rng = Rng::new(12);
    let mut simulation = Simulation::new(shared(false), None).unwrap();
    for _ in 0..20 {
        let batches: Vec<Batch> = (0..4).map(|core| batch(&mut rng, core, 50)).collect();
        simulation.take_in_step(&batches).unwrap();
    }
    let report = simulation.report();
    let first = |of: fn(&crate::CacheCounts) -> u64| report.caches[..2].iter().map(of).sum::<u64>();
    assert_eq!(report.caches.len(), 3);
    assert_eq!(report.threads.iter().map(|of| of.hits).sum::<u64>(), first(|of| of.hits));
    assert_eq!(report.threads.iter().map(|of| of.misses).sum::<u64>(), first(|of| of.misses));
    assert!(report.threads.iter().all(|of| of.hits > 0 && of.misses > 0));
}

#[test]
fn threads_are_spread_over_first_caches_before_they_share_them() {
    let setup = Setup { placing: Placing::Fewest, ..shared(false) };
    let mut simulation = Simulation::new(setup, None).unwrap();
    let mut rng = Rng::new(13);
    for thread in 0..3 {
        let mut batch = batch(&mut rng, 0, 20);
        batch.span.thread = (10 + thread).into();
        simulation.take(&batch).unwrap();
    }
    // Cores 0 and 1 share a cache, and so do 2 and 3.
    let report = simulation.report();
    assert_eq!(report.cores.iter().map(|core| core.threads).collect::<Vec<_>>(), [1, 1, 1, 0]);
    let mut alone = Simulation::new(Setup { placing: Placing::Fewest, ..shared(false) }, None).unwrap();
    for thread in 0..2 {
        let mut batch = batch(&mut rng, 0, 20);
        batch.span.thread = (10 + thread).into();
        alone.take(&batch).unwrap();
    }
    assert_eq!(alone.report().cores.iter().map(|core| core.threads).collect::<Vec<_>>(), [1, 0, 1, 0]);
}

#[test]
fn accesses_belong_to_the_kernel_if_the_last_instruction_does() {
    let mut rng = Rng::new(14);
    let mut simulation = Simulation::new(settings(&[("cores", "2"), ("prefetcher", "none")]), None).unwrap();
    // Fetches and accesses to data by the kernel.
    let mut expected = [0, 0];
    let mut is_kernel = [false; 2];
    for round in 0..60 {
        let core = round % 2;
        let batch = batch(&mut rng, core, 40);
        simulation.take(&batch).unwrap();
        let mode = &mut is_kernel[core as usize];
        for row in 0..batch.accesses.len() {
            let at = batch.accesses.at[row];
            if let Some(instr) = batch.instrs.at.iter().position(|of| *of == at) {
                *mode = batch.instrs.flags[instr] & instr_flags::KERNEL != 0;
            }
            let side = usize::from(batch.accesses.kind[row] != AccessKind::Fetch);
            expected[side] += u64::from(*mode);
        }
    }
    let report = simulation.report();
    // Each access is to one line.
    let of = |level: usize| report.levels[level].kernel.map(|kernel| kernel.hits + kernel.misses);
    assert_eq!([of(0), of(1)], expected.map(Some));
    let misses = |level: usize| report.levels[level].kernel.map_or(0, |kernel| kernel.misses);
    assert_eq!(of(2), Some(misses(0) + misses(1)));
    assert!(misses(1) > 0 && report.levels[1].misses > misses(1));
}

/// Collects misses.
struct Kept(Arc<Mutex<Vec<Miss>>>);

impl MissSink for Kept {
    fn miss(&mut self, _: u64, miss: &Miss) -> Result<()> {
        // The row depends on how many rows are simulated at once.
        self.0.lock().unwrap().push(Miss { row: 0, ..*miss });
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_miss_file_has_all_misses_whether_or_not_a_warm_up_ends_within_a_batch() {
    let misses = |extent: &[(&str, &str)]| {
        let mut args = vec![("miss-file", "misses"), ("prefetcher", "none")];
        args.extend_from_slice(extent);
        let kept = Arc::new(Mutex::new(Vec::new()));
        let mut simulation = Simulation::new(settings(&args), Some(Box::new(Kept(kept.clone())))).unwrap();
        let mut rng = Rng::new(5);
        for _ in 0..4 {
            simulation.take(&batch(&mut rng, 0, 200)).unwrap();
        }
        drop(simulation);
        Arc::into_inner(kept).unwrap().into_inner().unwrap()
    };
    let all = misses(&[]);
    assert!(all.len() > 100);
    for extent in [("warmup-refs", "300"), ("warmup-refs", "1000"), ("warmup-fraction", "0.5")] {
        assert_eq!(misses(&[extent]), all, "{extent:?}");
    }
}

/// A number of processes that one after the other read the same page twice.
fn tlbs_of(n_processes: u64, read: impl Fn(&mut Simulation, &[Batch]) -> Result<()>) -> Simulated {
    let settings = Setup { placing: Placing::Shards, ..tlbs::settings(&Options::default(), None).unwrap() };
    let mut simulation = Simulation::new(settings, None).unwrap();
    for process in 0..n_processes {
        let mut batch = Batch::default();
        (batch.span.process, batch.span.thread, batch.span.records) = (process, process.into(), 2);
        for at in 0..2 {
            batch.accesses.at.push(at);
            batch.accesses.kind.push(AccessKind::Read);
            batch.accesses.addr.push(0x7000);
            batch.accesses.size.push(8);
            batch.accesses.pc.push(0);
        }
        read(&mut simulation, &[batch]).unwrap();
    }
    simulation.report()
}

#[test]
fn any_number_of_processes_uses_tlbs_and_none_another_ones_pages() {
    for (n_processes, rollovers) in [(4095, 0), (4096, 1), (9000, 2)] {
        let alone = tlbs_of(n_processes, |simulation, batches| simulation.take(&batches[0]));
        let in_step = tlbs_of(n_processes, |simulation, batches| simulation.take_in_step(batches));
        let each_hits_once = alone.threads.iter().all(|of| (of.hits, of.misses) == (1, 1));
        assert!(each_hits_once, "{n_processes} processes");
        assert_eq!((alone.rollovers, alone.threads.len() as u64), (rollovers, n_processes));
        assert_eq!(in_step, alone);
        let screen = format!("{:?}", alone.document(Detail::Full));
        assert_eq!(screen.contains("more processes than the TLBs have numbers for"), rollovers > 0);
    }
}

#[test]
fn misses_along_the_trace_add_up_to_those_of_each_level() {
    let extents: [&[(&str, &str)]; 3] =
        [&[], &[("warmup-refs", "300")], &[("skip-refs", "90"), ("sim-refs", "500")]];
    for extent in extents {
        let mut simulation = Simulation::new(Setup { over_time: true, ..settings(extent) }, None).unwrap();
        let mut rng = Rng::new(3);
        for _ in 0..30 {
            simulation.take(&batch(&mut rng, 0, 70)).unwrap();
        }
        let report = simulation.report();
        let steps = report.over_time.as_ref().unwrap();
        assert_eq!(steps.accesses, report.accesses, "{extent:?}");
        let sums: Vec<(&str, u64)> =
            steps.levels.iter().map(|level| (level.name.as_str(), level.misses.iter().sum())).collect();
        let expected: Vec<(&str, u64)> =
            report.levels.iter().map(|level| (level.name.as_str(), level.misses)).collect();
        assert_eq!(sums, expected, "{extent:?}");
        let lines = steps.levels.iter().map(|level| level.misses.len() as u64);
        assert!(lines.into_iter().all(|n| n == steps.accesses.div_ceil(steps.step)));
        let screen = format!("{:?}", report.document(Detail::Full));
        assert!(screen.contains("misses over time"), "{screen}");
    }
}
