//! Schedules as strings with a letter for each record: that of the thread, upper-case for instructions and lower-case for
//! others, `_` for idle. Schedules of random threads are compared with those of the slow, plain way that takes steps one by
//! one.

use super::*;
use crate::run::{WindowOf, part_of_rounds};
use quipu_model::ThreadId;
use quipu_model::lens::ThreadEvent;
use quipu_testkit::{MemoryShard, MemoryTrace, Record, Rng};

/// Thread `A`, `B`, … with number 1, 2, … and this first clock reading.
fn thread(letter: char, clock: u64) -> MemoryShard {
    let number = u64::from(letter) - u64::from('A') + 1;
    MemoryShard::new(letter.to_string()).thread(number, 1).clock(clock)
}

trait Thread {
    fn instrs(self, n: u64) -> Self;
    fn event(self, what: ThreadEvent, value: u64) -> Self;
    /// A call whose latency is `until - from`.
    fn call(self, blocks: bool, from: u64, until: u64) -> Self;
}

impl Thread for MemoryShard {
    fn instrs(self, n: u64) -> MemoryShard {
        (0..n).fold(self, |shard, i| shard.instr(0x1000 + 4 * i, 4))
    }

    fn event(self, what: ThreadEvent, value: u64) -> MemoryShard {
        self.record(Record::Thread { what, value })
    }

    fn call(self, blocks: bool, from: u64, until: u64) -> MemoryShard {
        let shard = self.clock(from).event(ThreadEvent::Syscall, 42);
        let shard = if blocks { shard.event(ThreadEvent::MayBlock, 0) } else { shard };
        shard.clock(until)
    }
}

/// Options with small numbers, so that schedules are short: a microsecond is one unit of time.
fn small(cores: usize) -> DispatchOptions {
    DispatchOptions {
        cores,
        quantum: Quantum::Instrs(3),
        units_per_us: 1.0,
        blocking_us: 10,
        call_us: 1000,
        block_scale: 1.0,
        max_block_us: 50,
        migration_us: 0,
        rebalance_us: 1_000_000,
        steal_idles: 1,
        end_share: 0.0,
        layout_seed: -1,
        ..DispatchOptions::default()
    }
}

/// The schedule of each core, and its statistics.
fn run(
    threads: Vec<MemoryShard>,
    options: DispatchOptions,
) -> (Vec<String>, Vec<quipu_model::trace::Dispatched>) {
    let n_cores = options.cores;
    let trace = dispatch(Box::new(MemoryTrace::new(threads)), options).unwrap();
    let scan = Scan::new(ShardId(0)).columns(Columns::INSTRS | Columns::THREADS);
    let mut rounds = trace.rounds(&scan).unwrap().unwrap();
    let mut cores = vec![String::new(); n_cores];
    while let Some(batches) = rounds.read().unwrap() {
        for batch in batches {
            let text = &mut cores[batch.span.shard as usize];
            assert_eq!(batch.span.first_record, text.len() as u64);
            for at in 0..batch.span.records {
                let letter = match batch.span.thread.tid {
                    u64::MAX => '_',
                    number => char::from(b'a' + (number - 1) as u8),
                };
                let is_instr = batch.instrs.at.contains(&at);
                text.push(if is_instr { letter.to_ascii_uppercase() } else { letter });
            }
        }
    }
    (cores, rounds.dispatched())
}

fn schedule(threads: Vec<MemoryShard>, options: DispatchOptions) -> Vec<String> {
    run(threads, options).0
}

#[test]
fn a_quantum_is_exactly_so_many_instructions() {
    let threads = vec![thread('A', 1).instrs(7), thread('B', 1).instrs(7)];
    let (cores, told) = run(threads, small(1));
    assert_eq!(cores, ["aAAAbBBBAAABBBAB"]);
    assert_eq!(told[0].preemptions, 4);
    assert_eq!(told[0].thread_to_thread, 5);
}

#[test]
fn a_thread_alone_runs_on() {
    let (cores, told) = run(vec![thread('A', 1).instrs(9)], small(1));
    assert_eq!(cores, ["aAAAAAAAAA"]);
    assert_eq!((told[0].thread_to_thread, told[0].same_thread), (0, 2));
}

#[test]
fn a_quantum_of_time_counts_what_other_cores_do() {
    let threads = || vec![thread('A', 1).instrs(8), thread('B', 1).instrs(8)];
    let options = || DispatchOptions { quantum: Quantum::Micros(4), ..small(1) };
    assert_eq!(schedule(threads(), options()), ["aAAAAbBBBBAAAABBBB"]);
}

#[test]
fn who_is_behind_by_the_clock_goes_first() {
    let threads = || vec![thread('A', 30).instrs(2), thread('B', 20).instrs(2), thread('C', 10).instrs(2)];
    assert_eq!(schedule(threads(), small(1)), ["cCCbBBaAA"]);
    let in_turns = DispatchOptions { by_clock: false, ..small(1) };
    assert_eq!(schedule(threads(), in_turns), ["aAAbBBcCC"]);
}

#[test]
fn a_priority_goes_before_the_clock() {
    let threads = vec![thread('A', 10).instrs(4), thread('B', 20).instrs(4), thread('C', 30).instrs(4)];
    let options = DispatchOptions { priorities: vec![(3.into(), 1), (1.into(), -1)], ..small(1) };
    assert_eq!(schedule(threads, options), ["cCCCCbBBBBaAAAA"]);
}

#[test]
fn a_call_that_blocked_keeps_its_thread_off_for_as_long() {
    // 20 microseconds in the trace are 20 units here: 17 idle records after those of the other thread.
    let threads = vec![thread('A', 1).instrs(2).call(true, 5, 25).instrs(2), thread('B', 1).instrs(3)];
    let (cores, told) = run(threads, small(1));
    assert_eq!(cores, [format!("aAAaaaabBBB{}AA", "_".repeat(17))]);
    assert_eq!((told[0].thread_to_idle, told[0].idle_to_thread), (1, 1));
}

#[test]
fn calls_block_by_their_latency_scaled_and_bounded() {
    let rests = |blocks: bool, micros: u64, options: DispatchOptions| {
        let threads = vec![thread('A', 1).instrs(2).call(blocks, 5, 5 + micros).instrs(2)];
        schedule(threads, options)[0].matches('_').count()
    };
    assert_eq!(rests(true, 9, small(1)), 0);
    assert_eq!(rests(true, 10, small(1)), 10);
    assert_eq!(rests(false, 999, small(1)), 0);
    assert_eq!(rests(false, 1000, small(1)), 50);
    assert_eq!(rests(true, 40, DispatchOptions { block_scale: 0.5, ..small(1) }), 20);
    assert_eq!(rests(true, 40, DispatchOptions { units_per_us: 3.0, ..small(1) }), 120);
}

#[test]
fn without_readings_around_calls_all_that_may_block_do() {
    let trace = |blocks| {
        let shard = thread('A', 1).instrs(2).call(blocks, 5, 6).instrs(2);
        MemoryTrace::new(vec![shard]).with_meta(|meta| {
            if let Some(clock) = &mut meta.clock {
                clock.frames_calls = false;
            }
        })
    };
    let rests = |blocks| {
        let trace = dispatch(Box::new(trace(blocks)), small(1)).unwrap();
        let mut rounds = trace.rounds(&Scan::new(ShardId(0))).unwrap().unwrap();
        let mut records = 0;
        while let Some(batches) = rounds.read().unwrap() {
            records += batches[0].span.records;
        }
        records - if blocks { 9 } else { 8 }
    };
    assert_eq!((rests(true), rests(false)), (10, 0));
}

#[test]
fn a_request_to_switch_is_met_at_once() {
    let threads = vec![
        thread('A', 1).instrs(1).event(ThreadEvent::Syscall, 1).event(ThreadEvent::SwitchTo, 3).instrs(1),
        thread('B', 1).instrs(2),
        thread('C', 1).instrs(2),
    ];
    let (cores, told) = run(threads.clone(), small(1));
    // The thread that asked is parked until its timeout expires, because no thread wakes it.
    assert!(cores[0].starts_with("aAaacCCbBB_"), "{}", cores[0]);
    assert!(cores[0].ends_with("_A"));
    assert_eq!((told[0].direct_requests, told[0].direct_switches), (1, 1));
    let deaf = DispatchOptions { direct: false, ..small(1) };
    assert_eq!(schedule(threads, deaf), ["aAaaAbBBcCC"]);
}

#[test]
fn a_request_to_switch_names_a_thread_of_its_own_workload_by_all_64_bits() {
    let wide = 0xffff_7f12_3456_7000;
    let of = |workload, tid, name: &str| {
        let thread = ThreadId { workload, tid };
        MemoryShard::new(name).thread_of(thread, 1).clock(1).event(ThreadEvent::Start, 1)
    };
    let asks = |shard: MemoryShard| {
        shard.instrs(1).event(ThreadEvent::Syscall, 1).event(ThreadEvent::SwitchTo, wide).instrs(1)
    };
    let threads =
        vec![asks(of(1, 1, "asks")), of(0, wide, "namesake").instrs(2), of(1, wide, "asked").instrs(2)];
    let trace = dispatch(Box::new(MemoryTrace::new(threads)), small(1)).unwrap();
    let mut rounds = trace.rounds(&Scan::new(ShardId(0)).columns(Columns::THREADS)).unwrap().unwrap();
    let mut ran = Vec::new();
    while let Some(batches) = rounds.read().unwrap() {
        ran.extend(batches.iter().filter(|batch| batch.span.records > 0).map(|batch| batch.span.thread));
    }
    ran.dedup();
    assert_eq!(ran[..2], [ThreadId { workload: 1, tid: 1 }, ThreadId { workload: 1, tid: wide }]);
}

#[test]
fn a_thread_at_rest_waits_for_its_timeout_or_to_be_woken() {
    let sleeper = |timeout| {
        let shard = thread('A', 1).instrs(1).event(ThreadEvent::Syscall, 1);
        let shard = if timeout > 0 { shard.event(ThreadEvent::Timeout, timeout) } else { shard };
        shard.event(ThreadEvent::Park, 0).instrs(1)
    };
    let (slept, _) = run(vec![sleeper(7)], small(1));
    assert_eq!(slept, [format!("aAaaa{}A", "_".repeat(7))]);
    let waker = || thread('B', 1).instrs(1).event(ThreadEvent::Wake, 1).instrs(4);
    let options = || DispatchOptions { waits_forever: true, ..small(1) };
    assert_eq!(schedule(vec![sleeper(0), waker()], options()), ["aAaabBbBBABB"]);
    // Woken too early, it does not park.
    let late = thread('A', 9).instrs(1).event(ThreadEvent::Syscall, 1).event(ThreadEvent::Park, 0).instrs(1);
    assert_eq!(schedule(vec![late, waker()], options()), ["bBbBBBBaAaaA"]);
}

#[test]
fn threads_that_nobody_can_wake_any_more_run_after_all() {
    let sleeper =
        thread('A', 1).instrs(1).event(ThreadEvent::Syscall, 1).event(ThreadEvent::Park, 0).instrs(1);
    let options = DispatchOptions { waits_forever: true, rebalance_us: 100, ..small(1) };
    let cores = schedule(vec![sleeper], options);
    assert!(cores[0].starts_with("aAaa_") && cores[0].ends_with("_A"), "{}", cores[0]);
    assert!(cores[0].len() < 120);
}

#[test]
fn a_core_without_work_takes_a_thread_from_another() {
    let threads = || vec![thread('A', 1).instrs(9), thread('B', 1).instrs(2), thread('C', 1).instrs(9)];
    let (cores, told) = run(threads(), small(2));
    let sums = |told: &[quipu_model::trace::Dispatched]| {
        let sum = told.iter().fold(quipu_model::trace::Dispatched::default(), |sum, core| sum.plus(*core));
        (sum.steals, sum.migrations)
    };
    assert_eq!(sums(&told), (1, 1), "{cores:?}");
    assert_eq!(cores, ["aAAAAAAAAA___", "bBBcCCCCCCCCC"]);
    let stuck = DispatchOptions { migration_us: 1000, ..small(2) };
    let (_, told) = run(threads(), stuck);
    assert_eq!(told.iter().map(|core| core.migrations).sum::<u64>(), 0);
    let never = DispatchOptions { steal_idles: 0, ..small(2) };
    let (_, told) = run(threads(), never);
    assert_eq!(told.iter().map(|core| core.steals).sum::<u64>(), 0);
}

#[test]
fn only_so_many_cores_are_busy_at_once() {
    let threads = (0..6).map(|i| thread(char::from(b'A' + i), 1).instrs(20)).collect();
    let (cores, told) = run(threads, DispatchOptions { busy_cores: 2, ..small(4) });
    let bytes: Vec<&[u8]> = cores.iter().map(|core| core.as_bytes()).collect();
    for step in 0..cores[0].len() {
        let busy = bytes.iter().filter(|core| core.get(step).is_some_and(|byte| *byte != b'_')).count();
        assert!(busy <= 2, "step {step}: {cores:?}");
    }
    assert!(told.iter().map(|core| core.limited).sum::<u64>() > 0);
}

#[test]
fn threads_of_one_core_get_equal_shares() {
    let threads = (0..5).map(|i| thread(char::from(b'A' + i), 1).instrs(300)).collect();
    let cores = schedule(threads, small(1));
    for cut in (15..1500).step_by(15) {
        let so_far: String = cores[0].chars().filter(|letter| letter.is_uppercase()).take(cut).collect();
        for letter in 'A'..='E' {
            assert_eq!(so_far.matches(letter).count(), cut / 5, "{letter} up to {cut}");
        }
    }
}

#[test]
fn the_run_ends_when_few_threads_are_left() {
    let threads = (0..4).map(|i| thread(char::from(b'A' + i), 1).instrs(3 + 10 * u64::from(i))).collect();
    let cores = schedule(threads, DispatchOptions { end_share: 0.25, ..small(4) });
    // The last of the four threads is left over.
    assert!(cores.iter().all(|core| core.len() < 30), "{cores:?}");
}

#[test]
fn clocks_go_on_with_what_a_core_does() {
    let shard = thread('A', 500).instrs(1500).clock(9999).event(ThreadEvent::Cpu, 77).instrs(1);
    let trace = dispatch(Box::new(MemoryTrace::new(vec![shard])), small(2)).unwrap();
    let columns = Columns::THREADS | Columns::THREAD_CLOCK | Columns::THREAD_CPU;
    let mut rounds = trace.rounds(&Scan::new(ShardId(0)).columns(columns)).unwrap().unwrap();
    let mut events = Vec::new();
    while let Some(batches) = rounds.read().unwrap() {
        for batch in batches.iter().filter(|batch| batch.span.thread == 1.into()) {
            let core = u64::from(batch.span.shard);
            events.extend(batch.threads.what.iter().copied().zip(batch.threads.value.iter().copied()));
            assert_eq!((core, batch.span.cpu), (0, Some(0)));
        }
    }
    let expected = [(ThreadEvent::Clock, 500), (ThreadEvent::Clock, 501), (ThreadEvent::Cpu, 0)];
    assert_eq!(events, expected);
}

/// Random threads that do everything that matters to the scheduler.
fn random_threads(rng: &mut Rng) -> Vec<MemoryShard> {
    let n_threads = 1 + rng.below(7);
    (0..n_threads)
        .map(|i| {
            let mut clock = 100 + rng.below(40);
            let mut shard = MemoryShard::new(format!("{i}")).thread(i + 1, 1).clock(clock);
            let mut unique = i << 32;
            for _ in 0..rng.below(60) {
                unique += 64;
                shard = match rng.below(16) {
                    0 => {
                        let from = clock;
                        clock += rng.below(60);
                        shard.call(rng.below(2) == 0, from, clock)
                    }
                    1 => shard
                        .event(ThreadEvent::Syscall, 3)
                        .event(ThreadEvent::SwitchTo, 1 + rng.below(n_threads)),
                    2 => shard.event(ThreadEvent::Syscall, 4).event(ThreadEvent::Park, 0),
                    3 => shard
                        .event(ThreadEvent::Syscall, 4)
                        .event(ThreadEvent::Timeout, rng.below(30))
                        .event(ThreadEvent::Park, 0),
                    4 => shard.event(ThreadEvent::Wake, 1 + rng.below(n_threads)),
                    5 => shard.event(ThreadEvent::Cpu, rng.below(9)),
                    6 => shard.mark(7, unique),
                    7 => shard
                        .event(ThreadEvent::KernelEnter, 9)
                        .instr(unique, 4)
                        .event(ThreadEvent::KernelLeave, 9),
                    8 => shard.read(unique, 8).write(unique + 8, 8),
                    9 => {
                        clock += rng.below(20);
                        shard.clock(clock)
                    }
                    _ => (0..1 + rng.below(5)).fold(shard, |shard, n| shard.instr(unique + 4 * n, 4)),
                };
            }
            shard
        })
        .collect()
}

fn random_options(rng: &mut Rng) -> DispatchOptions {
    DispatchOptions {
        cores: 1 + rng.below(5) as usize,
        time: if rng.below(2) == 0 { CoreTime::Shared } else { CoreTime::Own },
        quantum: if rng.below(3) == 0 {
            Quantum::Micros(1 + rng.below(30))
        } else {
            Quantum::Instrs(1 + rng.below(9))
        },
        units_per_us: [0.5, 1.0, 4.0][rng.below(3) as usize],
        by_clock: rng.below(2) == 0,
        blocking_us: rng.below(30),
        call_us: rng.below(80),
        block_scale: 1.0,
        max_block_us: rng.below(60),
        waits_forever: rng.below(3) == 0,
        migration_us: rng.below(20),
        rebalance_us: 1 + rng.below(90),
        steal_idles: rng.below(9),
        at_random: rng.below(5) == 0,
        direct: rng.below(4) != 0,
        end_share: 0.0,
        layout_seed: rng.below(6) as i64 - 2,
        busy_cores: if rng.below(4) == 0 { 1 + rng.below(4) as usize } else { 0 },
        priorities: if rng.below(3) == 0 { vec![(1.into(), 1), (3.into(), -2)] } else { Vec::new() },
        native: false,
    }
}

/// Formats a record as a line.
fn line(batch: &quipu_model::Batch, at: u32) -> String {
    let instrs =
        batch.instrs.at.iter().zip(&batch.instrs.pc).map(|(row, pc)| (*row, format!("instr {pc:#x}")));
    let accesses = batch.accesses.at.iter().zip(&batch.accesses.addr);
    let accesses = accesses.map(|(row, addr)| (*row, format!("access {addr:#x}")));
    let marks =
        batch.marks.at.iter().zip(&batch.marks.value).map(|(row, value)| (*row, format!("mark {value:#x}")));
    let events = batch.threads.at.iter().zip(&batch.threads.what).zip(&batch.threads.value);
    let events = events.map(|((row, what), value)| (*row, format!("{} {value}", what.name())));
    let all: Vec<String> = instrs
        .chain(accesses)
        .chain(marks)
        .chain(events)
        .filter(|(row, _)| *row == at)
        .map(|(_, text)| text)
        .collect();
    all.join(", ")
}

const EVERYTHING: Columns = Columns::INSTRS
    .or(Columns::ACCESSES)
    .or(Columns::MARKS)
    .or(Columns::THREADS)
    .or(Columns::THREAD_CLOCK)
    .or(Columns::THREAD_CPU);

/// All records of all cores, in order: core, thread, record.
type Doings = Vec<(u32, u64, String)>;

fn doings(
    trace: &MemoryTrace,
    options: &DispatchOptions,
    way: rounds::Way,
    batch_records: u32,
) -> (Doings, Vec<quipu_model::trace::Dispatched>) {
    let columns = EVERYTHING;
    let readers = trace
        .shards()
        .iter()
        .map(|shard| trace.scan(&Scan { batch_records, ..Scan::new(shard.id).columns(columns) }).unwrap());
    let mut lanes = Lanes::new(readers.collect(), trace.meta().clock);
    let known = lanes.begin();
    let mut rounds = CoreRounds::new(Dispatcher::new(options.clone(), &known, true), lanes, columns, None);
    rounds.set_way(way);
    let mut all = Vec::new();
    while let Some(batches) = rounds.read().unwrap() {
        let lens: Vec<u32> = batches.iter().map(|batch| batch.span.records).collect();
        assert!(lens.windows(2).all(|pair| pair[0] == pair[1] || pair[0] == pair[1] + 1), "{lens:?}");
        for at in 0..lens[0] {
            for batch in batches.iter().filter(|batch| at < batch.span.records) {
                all.push((batch.span.shard, batch.span.thread.tid, line(batch, at)));
            }
        }
        assert!(all.len() < 4_000_000, "this schedule does not end");
    }
    (all, rounds.dispatched())
}

#[test]
fn steps_taken_together_are_those_taken_one_by_one() {
    let mut rng = Rng::new(2026);
    for case in 0..120 {
        let trace = MemoryTrace::new(random_threads(&mut rng));
        let options = random_options(&mut rng);
        for batch_records in [3, 1024] {
            let one_by_one = doings(&trace, &options, rounds::Way::OneByOne, batch_records);
            let together = doings(&trace, &options, rounds::Way::Together, batch_records);
            let first = together.0.iter().zip(&one_by_one.0).position(|(a, b)| a != b);
            let behind = first.map(|first| (first, &together.0[first..], &one_by_one.0[first..]));
            let few = behind
                .map(|(first, a, b)| (first, a[..9.min(a.len())].to_vec(), b[..9.min(b.len())].to_vec()));
            assert_eq!(few, None, "case {case}: {options:?}");
            assert_eq!(together.0.len(), one_by_one.0.len(), "case {case}: {options:?}");
            assert_eq!(together.1, one_by_one.1, "case {case}: {options:?}");
        }
    }
}

#[test]
fn no_record_is_lost_and_none_comes_twice() {
    let mut rng = Rng::new(7);
    for case in 0..100 {
        let trace = MemoryTrace::new(random_threads(&mut rng));
        let options = random_options(&mut rng);
        let (all, _) = doings(&trace, &options, rounds::Way::Together, 16);
        for shard in trace.shards() {
            let thread = u64::from(shard.id.0) + 1;
            // Clock readings and processors are those of the core.
            let is_kept = |text: &String| !text.starts_with("clock") && !text.starts_with("cpu");
            let found: Vec<&String> = all
                .iter()
                .filter(|doing| doing.1 == thread)
                .map(|doing| &doing.2)
                .filter(|text| is_kept(text))
                .collect();
            let mut reader = trace.scan(&Scan::new(shard.id).columns(EVERYTHING)).unwrap();
            let mut expected = Vec::new();
            while let Some(batch) = reader.read().unwrap() {
                expected.extend((0..batch.span.records).map(|at| line(batch, at)).filter(is_kept));
            }
            assert_eq!(found, expected.iter().collect::<Vec<_>>(), "case {case}, thread {thread}");
        }
    }
}

#[test]
fn a_thread_that_cannot_be_read_on_ends_and_others_do_not() {
    let threads = vec![thread('A', 1).instrs(4).fault("it is broken"), thread('B', 1).instrs(4)];
    let trace = dispatch(Box::new(MemoryTrace::new(threads)), small(1)).unwrap();
    let mut rounds = trace.rounds(&Scan::new(ShardId(0))).unwrap().unwrap();
    let (mut instrs, mut errors) = (0, Vec::new());
    loop {
        match rounds.read() {
            Ok(Some(batches)) => instrs += batches[0].span.instrs,
            Ok(None) => break,
            Err(error) => errors.push(error.message().to_owned()),
        }
    }
    assert_eq!(instrs, 8);
    assert_eq!(errors, ["it is broken"]);
}

#[test]
fn what_cannot_be_scheduled_is_said_in_a_sentence() {
    let refusal = |trace: MemoryTrace, options| dispatch(Box::new(trace), options).err().unwrap().to_string();
    let bare = MemoryTrace::new(vec![thread('A', 1)]).with_columns(Columns::ACCESSES);
    assert_eq!(
        refusal(bare, small(1)),
        "scheduling threads onto cores needs instrs, which this trace does not carry"
    );
    let cores = MemoryTrace::new(vec![thread('A', 1).kind(ShardKind::Core)]);
    assert_eq!(refusal(cores, small(1)), "this trace is arranged by core already");
    let threads = || MemoryTrace::new(vec![thread('A', 1)]);
    assert_eq!(refusal(threads(), small(0)), "threads can be scheduled onto 1 to 1024 cores, found 0");
    let options = DispatchOptions { block_scale: 0.0, ..small(1) };
    assert_eq!(refusal(threads(), options), "block scale must be above 0, found `0`");
    let options = DispatchOptions { quantum: Quantum::Instrs(0), ..small(1) };
    assert_eq!(refusal(threads(), options), "a quantum of nothing never ends");
}

#[test]
fn a_schedule_has_the_names_of_its_threads_and_says_that_nothing_of_them_is_stored() {
    let threads = MemoryTrace::new(vec![thread('A', 1)]);
    let name = threads.mark_name(3).into_owned();
    let trace = dispatch(Box::new(threads), small(1)).unwrap();
    assert_eq!(trace.mark_name(3), name);
    assert!(trace.tables().unwrap().is_empty() && trace.json_printer(&Default::default()).unwrap().is_none());
    let needs = quipu_model::pass::Needs { format: None, required: Columns::RAW, optional: Columns::NONE };
    let error = needs.of("counts", &*trace).unwrap_err();
    assert_eq!(error.message(), "tool `counts` needs raw, which this trace does not carry");
    // Nor do the threads as recorded carry raw records.
    assert_eq!(error.advice(), None);
}

/// All records of a part of the cores' rounds, in order: the core and the record.
fn part(trace: &dyn Trace, window: &Window, of: WindowOf, most: u64) -> Vec<(u32, String)> {
    let template = Scan::new(ShardId(0)).columns(EVERYTHING);
    let mut rounds = part_of_rounds(trace, template, (window, of), (most, of)).unwrap().unwrap();
    let mut all = Vec::new();
    while let Some(batches) = rounds.read().unwrap() {
        let n_steps = batches.iter().map(|batch| batch.span.records).max().unwrap_or(0);
        for at in 0..n_steps {
            for batch in batches.iter().filter(|batch| at < batch.span.records) {
                let rests = if batch.span.thread.is_idle() { "rests" } else { "" };
                all.push((batch.span.shard, format!("{rests}{}", line(batch, at))));
            }
        }
    }
    all
}

/// Counts records one by one and checks that a part has exactly those of the whole that are in its range.
#[test]
fn a_part_by_records_is_what_the_whole_has_there() {
    let mut rng = Rng::new(25);
    for case in 0..60 {
        let threads = random_threads(&mut rng);
        let options = random_options(&mut rng);
        let n_cores = options.cores;
        let trace = dispatch(Box::new(MemoryTrace::new(threads)), options).unwrap();
        let whole = part(&*trace, &Window::All, WindowOf::EachShard, u64::MAX);
        let start = rng.below(40);
        let end = if rng.below(3) == 0 { u64::MAX } else { start + rng.below(60) };
        for of in [WindowOf::EachShard, WindowOf::Sequence] {
            let mut counted = vec![0; n_cores];
            let mut total = 0;
            let expected = whole.iter().filter(|(core, text)| {
                let before = match of {
                    WindowOf::EachShard => counted[*core as usize],
                    WindowOf::Sequence => total,
                };
                let rests = text.starts_with("rests");
                if !rests {
                    counted[*core as usize] += 1;
                    total += 1;
                }
                let has_begun = if rests { start == 0 || before > start } else { before >= start };
                has_begun && before < end
            });
            let expected: Vec<(u32, String)> = expected.cloned().collect();
            let found = part(&*trace, &Window::Records(start..end), of, u64::MAX);
            assert!(found == expected, "case {case}, {of:?} {start}..{end}: {found:?} {expected:?}");
            if start == 0 && end < u64::MAX {
                assert!(part(&*trace, &Window::All, of, end) == expected, "case {case}");
            }
        }
    }
}

/// However long cores are idle before and after the borders of a part, rounds are as long as without borders.
#[test]
fn a_core_that_rests_below_a_border_does_not_cut_rounds() {
    let threads = || vec![thread('A', 1).instrs(3), thread('B', 1).instrs(20_000)];
    let n_rounds = |window: Window, of| {
        let trace = dispatch(Box::new(MemoryTrace::new(threads())), small(4)).unwrap();
        let template = Scan::new(ShardId(0)).columns(Columns::INSTRS);
        let mut rounds = part_of_rounds(&*trace, template, (&window, of), (u64::MAX, of)).unwrap().unwrap();
        let mut n = 0;
        while rounds.read().unwrap().is_some() {
            n += 1;
        }
        n
    };
    for of in [WindowOf::EachShard, WindowOf::Sequence] {
        let whole = n_rounds(Window::All, of);
        let part = n_rounds(Window::Records(10..19_000), of);
        assert!(part < whole + 20, "{of:?}: {part} rounds, {whole} of the whole");
    }
}
