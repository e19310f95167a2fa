//! How a simulation treats the records of a trace: which count, where statistics are reset, to which thread they belong.

use quipu_engine::{RunOptions, Watch, plan, run};
use quipu_model::pass::Detail;
use quipu_model::trace::Recorded;
use quipu_model::{Columns, ErrorKind, Given, Report, Tool};
use quipu_sim::misses::{MissTool, Misses};
use quipu_sim::sweep::{SweepTool, Swept};
use quipu_sim::{Simulated, caches::Caches, tlbs::Tlbs};
use quipu_testkit::MemoryTrace;

mod sweeps;

/// Options as `name=value`, with `~` for a space.
fn args(text: &str) -> Given {
    let mut args = Given::default();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        args.add(name, value.replace('~', " "));
    }
    args
}

fn report<R: Report + Clone + 'static>(tool: &dyn Tool, options: &str, trace: &MemoryTrace) -> R {
    let watch = Watch::new();
    let planned = plan(tool, &args(options), trace).expect("the tool fits the trace");
    let outcome = run(trace, vec![planned], &RunOptions::new(&watch)).expect("a run without faults");
    outcome.reports[0].as_any().downcast_ref::<R>().expect("the tool's own report").clone()
}

fn result(tool: &dyn Tool, options: &str, trace: &MemoryTrace) -> Simulated {
    report(tool, options, trace)
}

/// Eight instructions in a loop over two lines. Each reads a new line and sometimes another one that was read before.
fn program(n: u64) -> MemoryTrace {
    let mut text = String::from("thread 1 1\n");
    for i in 0..n {
        text += &format!("instr {:#x} 16\n", 0x1000 + i % 8 * 16);
        text += &format!("read {:#x} 8\n", 0x10_0000 + i * 64);
        if i % 3 == 0 {
            text += &format!("read {:#x} 8\n", 0x10_0000 + i / 2 * 64);
        }
        if i % 50 == 49 {
            text += "mark 7 1\n";
        }
    }
    MemoryTrace::parse(&text).expect("the test's trace")
}

const SMALL: &str =
    "cores=1 l1i-size=1K l1i-assoc=2 l1d-size=1K l1d-assoc=2 ll-size=16K ll-assoc=4 prefetcher=none";

#[test]
fn stages_between_resets_add_up_to_the_whole_while_lines_stay() {
    let trace = program(400);
    let whole = result(&Caches, SMALL, &trace);
    let staged = result(&Caches, &format!("{SMALL} reset-at=100,250,100000"), &trace);
    assert_eq!(whole.stages, []);
    let instrs: Vec<u64> = staged.stages.iter().map(|stage| stage.instructions).collect();
    assert_eq!(instrs, [100, 150, 150]);
    assert_eq!(staged.stages.iter().map(|stage| stage.accesses).sum::<u64>(), whole.accesses);
    for (i, level) in whole.levels.iter().enumerate() {
        let sum = |of: fn(&quipu_sim::WarmupCounts) -> u64| {
            staged.stages.iter().map(|stage| of(&stage.levels[i])).sum::<u64>()
        };
        assert_eq!((sum(|of| of.hits), sum(|of| of.misses)), (level.hits, level.misses), "{}", level.name);
        let last = &staged.stages[2].levels[i];
        assert_eq!((last.hits, last.misses), (staged.levels[i].hits, staged.levels[i].misses));
    }
    // Both lines of code were fetched in the first stage.
    assert_eq!(staged.stages[1].levels[0].misses, 0);
    assert_eq!(staged.instructions, Some(150));
    assert_eq!(staged.threads[0].misses, staged.levels[0].misses + staged.levels[1].misses);
}

#[test]
fn people_are_told_which_stage_counts_are_of() {
    let trace = program(400);
    let last = "counts are those of the last of 3 stages, after the last point of reset-at";
    assert!(seen(&result(&Caches, &format!("{SMALL} reset-at=100,250"), &trace)).contains(last));
    assert!(!seen(&result(&Caches, SMALL, &trace)).contains("stages"));
}

#[test]
fn tlbs_are_shown_with_entries_and_pages() {
    let of = seen(&result(&Tlbs, "cores=1 page-size=2M", &program(50)));
    assert!(of.contains("[\"TLB\", \"entries\", \"page\", \"ways\", \"policy\""), "{of}");
    assert!(of.contains("[Text(\"LL0\"), Count(1024), Bytes(2097152), Count(4)"), "{of}");
    assert!(of.contains("[\"level\", \"TLBs\", \"hits\", \"misses\", \"miss rate\", \"MPKI\"]"), "{of}");
    assert!(!of.contains("cache"), "{of}");
}

#[test]
fn mistakes_name_the_option_that_was_typed() {
    let trace = program(1);
    let told = |tool: &dyn Tool, options: &str| {
        let error = plan(tool, &args(options), &trace).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Usage);
        error.message().to_owned()
    };
    assert_eq!(
        told(&Tlbs, "l2-entries=1001"),
        "option `l2-entries`: found `1001`, allowed: a multiple of `l2-assoc`, which is 4"
    );
    assert_eq!(told(&Tlbs, "l1i-assoc=0"), "option `l1i-assoc`: found `0`, allowed: 1 or more");
    assert_eq!(told(&Caches, "cores=0"), "option `cores`: found `0`, allowed: 1 to 4096");
    assert_eq!(told(&Tlbs, "cores=0"), "option `cores`: found `0`, allowed: 1 to 4096");
    assert_eq!(
        told(&Caches, "line-size=48"),
        "option `line-size`: found `48`, allowed: a power of two, 4 or more"
    );
    assert!(told(&Caches, "l1d-size=32800").starts_with("option `l1d-size`: found `32800`, allowed: "));
    assert!(told(&Caches, "ll-assoc=3").starts_with("option `ll-assoc`: found `3`, allowed: "));
}

#[test]
fn options_take_numbers_as_all_of_quipu_does() {
    let trace = program(2000);
    for (plain, other) in [
        ("skip-refs=1000", "skip-refs=1k"),
        ("warmup-refs=1024", "warmup-refs=1Ki"),
        ("reset-at=1000,1024", "reset-at=1k,0x400"),
        ("l1d-size=32768", "l1d-size=0x8000"),
        ("l1d-size=2048", "l1d-size=2Ki"),
        ("l1d-size=2K", "l1d-size=2k"),
    ] {
        assert_eq!(result(&Caches, plain, &trace), result(&Caches, other, &trace), "{other}");
    }
    let tlbs = |options: &str| result(&Tlbs, options, &trace);
    assert_eq!(tlbs("page-size=2M l2-entries=2048"), tlbs("page-size=2Mi l2-entries=2Ki"));
    let swept = |options: &str| -> Swept { report(&SweepTool, options, &trace) };
    assert_eq!(
        swept("sizes=4K..16K ways=8 skip-refs=1000"),
        swept("sizes=4Ki..0x4000 ways=0x8 skip-refs=1k")
    );
}

#[test]
fn statistics_begin_anew_at_each_mark_of_a_name() {
    let trace = program(120);
    let name = quipu_model::Trace::mark_name(&trace, 7);
    let staged = result(&Caches, &format!("{SMALL} reset-at={}", name.replace(' ', "~")), &trace);
    let instrs: Vec<u64> = staged.stages.iter().map(|stage| stage.instructions).collect();
    assert_eq!(instrs, [50, 50, 20]);
    let error = plan(&Caches, &args("reset-at=nobody"), &trace).err().expect("no such mark");
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn a_reset_in_a_warm_up_changes_nothing() {
    let trace = program(200);
    let warm = format!("{SMALL} warmup-refs=300");
    let plain = result(&Caches, &warm, &trace);
    let reset = result(&Caches, &format!("{warm} reset-at=10"), &trace);
    assert_eq!(
        reset.incomplete,
        ["reset-at: 1 point among the records that are left out or warm up, where no statistics are"]
    );
    assert_eq!(Simulated { stages: Vec::new(), incomplete: Vec::new(), ..reset }, plain);
    let told = |part: &str| result(&Caches, &format!("{SMALL} {part}"), &trace).incomplete;
    assert_eq!(
        told("skip-refs=300 reset-at=10,20,150"),
        ["reset-at: 2 points among the records that are left out or warm up, where no statistics are"]
    );
    assert_eq!(
        told("sim-refs=100 reset-at=10,100,199,5000"),
        ["reset-at: 3 points after the last record of sim-refs"]
    );
}

#[test]
fn a_run_is_the_same_in_parts_of_any_length() {
    // Skipping, warm-up and simulation begin and end in the middle of batches.
    let trace = program(300);
    let all = result(&Caches, SMALL, &trace);
    for skip in [0, 1, 77] {
        for warm in [0, 1, 100] {
            let options = format!("{SMALL} skip-refs={skip} warmup-refs={warm} sim-refs=50");
            let part = result(&Caches, &options, &trace);
            assert_eq!(part.accesses, 50, "{options}");
            assert!(part.levels[1].misses <= all.levels[1].misses);
            let warmup = part.caches.iter().filter(|cache| cache.parent.is_some());
            let before: Option<u64> = warmup.map(|cache| cache.warmup.map(|of| of.hits + of.misses)).sum();
            assert_eq!(before, (warm > 0).then_some(warm), "{options}");
        }
    }
}

/// Three threads that take turns, with 10 instructions and as many reads in each turn. Every turn begins on the next of five
/// processors and moves on twice.
fn threads_on_processors() -> MemoryTrace {
    let mut text = String::new();
    for turn in 0..30u64 {
        let thread = [1, 1, 1, 2, 1, 2, 3, 1][turn as usize % 8];
        text += &format!("thread {thread} 1\n");
        for i in 0..10 {
            if i % 4 == 0 {
                text += &format!("cpu {}\n", (turn + i / 4) % 5);
            }
            let addr = 0x9000 * thread + (turn * 10 + i) % 70 * 64;
            text += &format!("instr {:#x} 4\nread {addr:#x} 8\n", 0x1000 + i * 4);
        }
    }
    MemoryTrace::parse(&text).expect("the test's trace")
}

#[test]
fn instructions_count_whatever_processors_change_behind_the_warm_up() {
    let trace = threads_on_processors();
    for part in ["warmup-refs=7", "warmup-refs=100", "skip-refs=9", "skip-refs=33 warmup-refs=1"] {
        let left: u64 = part
            .split_once("refs=")
            .map_or(0, |(_, n)| n.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0));
        let of = result(&Caches, &format!("{SMALL} {part}"), &trace);
        // An instruction precedes its read.
        let left = left + u64::from(part.ends_with(" warmup-refs=1"));
        assert_eq!((of.instructions, of.accesses), (Some(300 - left.div_ceil(2)), 600 - left), "{part}");
    }
}

#[test]
fn nobody_is_placed_before_or_behind_the_part_that_is_simulated() {
    let trace = threads_on_processors();
    let threads = |part: &str| {
        let of = result(&Caches, &format!("cores=3 {part}"), &trace);
        (of.accesses, of.cores.iter().map(|core| core.threads).collect::<Vec<_>>())
    };
    // The first 60 records are of the first thread, the next 20 of the second; the third begins after 120.
    assert_eq!(threads("sim-refs=60"), (60, vec![1, 0, 0]));
    assert_eq!(threads("sim-refs=61"), (61, vec![1, 1, 0]));
    assert_eq!(threads("skip-refs=60 sim-refs=20"), (20, vec![1, 0, 0]));
    assert_eq!(threads("warmup-refs=60 sim-refs=60"), (60, vec![1, 1, 0]));
    assert_eq!(threads(""), (600, vec![1, 1, 1]));
    let processors = |part: &str| {
        let of = result(&Caches, &format!("cores=3 cpu-scheduling {part}"), &trace);
        of.cores.into_iter().flat_map(|core| core.processors).collect::<Vec<_>>()
    };
    // The processor changes after every eight records of a turn, so each turn has three.
    assert_eq!(processors("sim-refs=8"), [0]);
    assert_eq!(processors("skip-refs=8 sim-refs=9"), [1, 2]);
    // Once enough records are simulated, no more are read.
    let watch = Watch::new();
    let planned = plan(&Caches, &args("cores=1 sim-refs=60"), &trace).expect("the tool fits the trace");
    let outcome = run(&trace, vec![planned], &RunOptions::new(&watch)).expect("a run without faults");
    assert!(outcome.records < 200, "{} records are read of 690", outcome.records);
}

#[test]
fn records_of_traces_without_instructions_are_accesses() {
    let bare = program(400).with_columns(Columns::ACCESSES);
    let of = result(&Caches, &format!("{SMALL} skip-refs=100 warmup-refs=30 sim-refs=50"), &bare);
    assert_eq!((of.instructions, of.accesses, of.incomplete), (None, 50, Vec::new()));
    let warmup = of.caches[1].warmup.as_ref().expect("a warm-up");
    // The trace has no fetches, so the warm-up consists of reads only.
    assert_eq!(warmup.hits + warmup.misses, 30);
    let tlbs = result(&Tlbs, "cores=1 skip-refs=100 sim-refs=50", &bare);
    assert_eq!(tlbs.caches[1].hits + tlbs.caches[1].misses, 50);
    let swept: Swept = report(&SweepTool, "cores=1 sizes=1K ways=2 skip-refs=130 sim-refs=50", &bare);
    assert_eq!((swept.points[0].hits + swept.points[0].misses, swept.instructions), (50, None));
    let share = result(&Caches, &format!("{SMALL} warmup-fraction=0.1"), &bare);
    assert!(share.incomplete.is_empty() && share.accesses > 0);
}

#[test]
fn processors_of_a_trace_that_is_arranged_by_core_are_refused() {
    let trace = MemoryTrace::parse("shard a core\nthread 1 1\ncpu 3\ninstr 0x1000 4\nread 0x10 8\n");
    let trace = trace.expect("the test's trace");
    for tool in [&Caches as &dyn Tool, &Tlbs, &MissTool, &SweepTool] {
        let error = plan(tool, &args("cpu-scheduling"), &trace).err().expect("refused");
        assert_eq!(
            (error.kind(), error.message()),
            (
                ErrorKind::Unsupported,
                "`cpu-scheduling` puts threads on processors, and this trace is arranged by core: \
              each of its cores is one of the machine"
            )
        );
    }
}

#[test]
fn people_see_who_was_where_and_how_much_counts() {
    let trace = threads_on_processors();
    let of = seen(&result(&Caches, "cores=3 top=0 sim-refs=61", &trace));
    assert!(
        of.contains("\"cores, with their threads and processors\"") && of.contains("\"threads\""),
        "{of}"
    );
    assert!(of.contains("(\"accesses that count\", [Count(61)])"), "{of}");
    assert!(of.contains("(\"instructions that count\", [Count(31)])"), "{of}");
    let of = seen(&result(&Caches, "cores=3 top=0 cpu-scheduling", &trace));
    assert!(of.contains("Text(\"0, 3\")") && of.contains("Text(\"2\")"), "{of}");
    assert!(!of.contains("accesses that count"), "{of}");
    let swept: Swept = report(&SweepTool, "cores=1 sizes=512K,1M,1536K ways=2,3", &trace);
    let of = seen(&swept);
    assert!(of.contains("\"miss rate of all, from\"") && of.contains("512 KiB, 2 ways"), "{of}");
    assert!(!of.contains("highest miss rate"), "{of}");
    let swept: Swept = report(&SweepTool, "cores=1 sizes=1M level=l1i ways=2,4,16384", &trace);
    assert!(seen(&swept).contains("note: \"1 MiB, "));
}

#[test]
fn a_warm_up_by_share_ends_when_the_last_cache_is_so_full() {
    let trace = program(400);
    let half = result(&Caches, &format!("{SMALL} warmup-fraction=0.5"), &trace);
    let last = half.caches.last().expect("a last cache");
    // 256 lines; each miss of the last cache fills one.
    assert_eq!(last.warmup.map(|of| of.misses), Some(128));
}

#[test]
fn pages_of_each_size_are_those_that_a_plain_set_counts() {
    let mut text = String::from("thread 1 1\n");
    let mut x = 1u64;
    let mut addrs = Vec::new();
    for _ in 0..500 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let addr = (x >> 20) & 0x3_ffff_fff8;
        addrs.push(addr);
        text += &format!("read {addr:#x} 8\n");
    }
    let trace = MemoryTrace::parse(&text).expect("the test's trace");
    for (name, bits) in [("4K", 12), ("2M", 21), ("1G", 30)] {
        let options = format!("cores=1 page-size={name} l2-entries=4096");
        let tlbs = result(&Tlbs, &options, &trace);
        let pages: std::collections::BTreeSet<u64> = addrs.iter().map(|addr| addr >> bits).collect();
        assert_eq!(tlbs.line_size, 1 << bits);
        // The second TLB is large enough for all pages.
        assert_eq!(tlbs.caches[2].misses, pages.len() as u64, "{name}");
        assert_eq!(tlbs.caches[1].hits + tlbs.caches[1].misses, addrs.len() as u64);
    }
}

#[test]
fn what_threads_and_cores_have_adds_up() {
    let mut text = String::new();
    for thread in 1..=3u64 {
        text += &format!("shard t{thread}\nthread {thread} 1\nclock 1\n");
        for i in 0..100 {
            text += &format!("instr {:#x} 4\nread {:#x} 8\n", 0x1000 + i * 4, 0x9000 * thread + i * 16);
        }
        text += "stop 0\n";
    }
    let trace = MemoryTrace::parse(&text).expect("the test's trace");
    let of = result(&Caches, "cores=2 prefetcher=none", &trace);
    assert_eq!(of.threads.len(), 3);
    assert_eq!(of.cores.iter().map(|core| core.threads).sum::<u64>(), 3);
    let firsts = || of.caches.iter().filter(|cache| cache.parent.is_some());
    assert_eq!(of.threads.iter().map(|of| of.hits).sum::<u64>(), firsts().map(|of| of.hits).sum::<u64>());
    assert_eq!(of.threads.iter().map(|of| of.misses).sum::<u64>(), firsts().map(|of| of.misses).sum::<u64>());
    let last = of.caches.last().expect("a last cache");
    assert_eq!(of.threads.iter().map(|of| of.last_level_misses).sum::<u64>(), last.misses);
}

#[test]
fn no_policy_misses_less_than_belady() {
    let trace = program(600);
    let misses = |policy: &str| {
        let of = result(&Caches, &format!("{SMALL} policy={policy}"), &trace);
        of.levels[1].misses
    };
    let best = misses("OPT");
    for policy in ["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM"] {
        assert!(best <= misses(policy), "{policy}");
    }
    assert!(best < misses("LRU"), "the program uses lines again that LRU has lost");
}

#[test]
fn beladys_policy_is_refused_where_losses_matter_to_others() {
    let trace = program(1);
    let error = plan(&Caches, &args("policy=OPT coherence"), &trace).err().expect("refused");
    assert!(
        error.message().starts_with("option `policy`: found `OPT`, allowed: any other policy"),
        "{}",
        error.message()
    );
}

#[test]
fn accesses_alone_are_enough() {
    let whole = program(400);
    let bare = program(400).with_columns(Columns::ACCESSES);
    // A first data cache or TLB does not depend on instructions at all.
    for (tool, options) in [(&Caches as &dyn Tool, SMALL), (&Tlbs, "cores=1 l1d-entries=4 l1d-assoc=4")] {
        let (whole, bare) = (result(tool, options, &whole), result(tool, options, &bare));
        let counts = |of: &Simulated, level: usize| (of.levels[level].hits, of.levels[level].misses);
        assert!(bare.levels[0].misses > 0);
        // Instruction caches, which receive no requests, are left out, and so are counts per instruction.
        assert_eq!(counts(&bare, 0), counts(&whole, 1));
        assert_eq!((bare.levels.len(), whole.levels.len()), (2, 3));
        assert_eq!((bare.instructions, bare.levels[0].mpki), (None, None));
        assert_eq!(bare.caches.len(), whole.caches.len());
        assert!(bare.missing.is_empty() && !whole.missing.is_empty());
        assert!(!bare.missing_lines.is_empty());
    }
    let options = "cores=1 sizes=1K,2K ways=2 policies=LRU,FIFO";
    let (whole, bare): (Swept, Swept) =
        (report(&SweepTool, options, &whole), report(&SweepTool, options, &bare));
    let counts = |of: &Swept| of.points.iter().map(|of| (of.hits, of.misses)).collect::<Vec<_>>();
    assert_eq!(counts(&bare), counts(&whole));
}

/// Everything that a report shows to people, without number formats.
fn seen(report: &dyn Report) -> String {
    // Explanations of words are in all documents.
    format!("{:?}", report.document(Detail::Full).blocks)
}

#[test]
fn filtered_traces_have_no_misses_per_instruction_but_a_note() {
    let trace = program(400).with_meta(|meta| {
        meta.instrs = Recorded::Filtered;
        meta.data = Recorded::Filtered;
    });
    let filtered = result(&Caches, SMALL, &trace);
    assert_eq!((filtered.instructions, filtered.executed), (Some(400), None));
    assert!(filtered.levels.iter().all(|level| level.mpki.is_none() && level.miss_rate.is_some()));
    let seen_of = seen(&filtered);
    assert!(
        seen_of.contains("fetches and accesses to data that a small cache had are not in it"),
        "{seen_of}"
    );
    assert!(
        !seen_of.contains("\"MPKI\"") && !seen_of.contains("misses per 1,000 instructions\""),
        "{seen_of}"
    );
    let swept: Swept = report(&SweepTool, "cores=1 sizes=1K ways=2", &trace);
    assert!(swept.points.iter().all(|point| point.mpki.is_none() && point.miss_rate.is_some()));
    // A complete record of instructions is enough, even if the data is filtered.
    let trace = program(400).with_meta(|meta| meta.data = Recorded::Filtered);
    assert!(result(&Caches, SMALL, &trace).levels.iter().all(|level| level.mpki.is_some()));
}

#[test]
fn what_a_trace_has_no_data_for_is_left_out_or_refused() {
    let trace = MemoryTrace::parse("thread 1 1\ninstr 0x1000 4\ninstr 0x1004 4\n").expect("the test's trace");
    let trace = trace.with_meta(|meta| meta.data = Recorded::Nothing);
    let caches = result(&Caches, SMALL, &trace);
    assert_eq!(caches.levels.iter().map(|level| level.name.as_str()).collect::<Vec<_>>(), ["L1I", "LL"]);
    assert!(seen(&caches).contains("no accesses to data"));
    for (tool, what) in [
        (
            &MissTool as &dyn Tool,
            "tool `misses` looks at loads that miss, and this trace has no accesses to data",
        ),
        (&SweepTool, "tool `sweep` tries caches for data, and this trace has no accesses to data"),
    ] {
        let error = plan(tool, &args(""), &trace).err().expect("refused");
        assert_eq!((error.kind(), error.message()), (ErrorKind::Missing, what));
    }
    // Without data accesses, the miss rate is undefined rather than 0.
    let quiet = MemoryTrace::parse("thread 1 1\ninstr 0x1000 4\n").expect("the test's trace");
    let swept: Swept = report(&SweepTool, "cores=1 sizes=1K ways=2", &quiet);
    assert_eq!(swept.points[0].miss_rate, None);
    assert!(seen(&swept).contains("nothing came to the caches tried, l1d"));
    let caches = result(&Caches, SMALL, &quiet);
    assert_eq!((caches.levels[1].miss_rate, caches.levels[1].mpki), (None, Some(0.0)));
}

#[test]
fn statistics_that_never_begin_are_told_with_what_was_reached() {
    // 400 instructions, 400 reads, and 134 more.
    let trace = program(400);
    let told = |options: &str| {
        let report = result(&Caches, &format!("{SMALL} {options}"), &trace);
        assert!(report.is_flawed());
        assert_eq!(report.incomplete.len(), 1, "{:?}", report.incomplete);
        assert!(seen(&report).contains(&report.incomplete[0]));
        report.incomplete[0].clone()
    };
    assert_eq!(
        told("skip-refs=1000"),
        "nothing was simulated: skip-refs leaves out 1,000 records, and the trace has 934"
    );
    assert_eq!(
        told("skip-refs=34 warmup-refs=901"),
        "the statistics did not begin: warmup-refs wants 901 records, and the trace has 900 for it"
    );
    assert_eq!(
        told("warmup-refs=934"),
        "the statistics are empty: the warm-up ended with the last of 934 records"
    );
    assert_eq!(told("sim-refs=0"), "nothing was simulated: sim-refs is 0");
    assert_eq!(told("reset-at=400"), "reset-at 400 was not reached: the trace has 400 instructions for it");
    // Each of 402 lines fills one of 1,024 places.
    let huge = "ll-size=64K warmup-fraction=0.5";
    assert_eq!(
        told(huge),
        "the statistics did not begin: warmup-fraction wants the last caches filled by 0.5, and they were by 0.393"
    );
    // Counts of a warm-up that did not end are not statistics.
    let cold = result(&Caches, &format!("{SMALL} warmup-refs=5000"), &trace);
    let whole = result(&Caches, SMALL, &trace);
    assert!(cold.caches.iter().all(|cache| cache.hits + cache.misses + cache.compulsory_misses == 0));
    assert!(cold.missing.is_empty() && cold.threads.iter().all(|of| of.hits + of.misses == 0));
    let warmup = |of: &Simulated| of.caches.iter().map(|cache| cache.warmup).collect::<Vec<_>>();
    let counts =
        whole.caches.iter().map(|of| Some(quipu_sim::WarmupCounts { hits: of.hits, misses: of.misses }));
    assert_eq!(warmup(&cold), counts.collect::<Vec<_>>());
    let strides: Misses = report(&MissTool, "cores=1 warmup-refs=5000 count=1", &trace);
    assert_eq!(strides.read_misses, 0);
    let swept: Swept = report(&SweepTool, "cores=1 sizes=1K ways=2 warmup-instrs=500", &trace);
    assert_eq!(
        swept.incomplete,
        ["the statistics did not begin: warmup-instrs wants 500 instructions, and the trace has 400 for it"]
    );
}

#[test]
fn a_missing_column_is_told_with_what_it_is_for() {
    let told = |tool: &dyn Tool, options: &str, columns: Columns| {
        let trace = program(1).with_columns(columns);
        let error = plan(tool, &args(options), &trace).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Missing);
        error.message().to_owned()
    };
    let tools: [&dyn Tool; 4] = [&Caches, &Tlbs, &MissTool, &SweepTool];
    for tool in tools {
        let name = tool.info().name;
        let what = if name == "misses" { "accesses, accesses.pc" } else { "accesses" };
        assert_eq!(
            told(tool, "", Columns::MARKS),
            format!("tool `{name}` needs {what}, which this trace does not carry")
        );
    }
    assert_eq!(
        told(&MissTool, "", Columns::ACCESSES),
        "tool `misses` needs accesses.pc, which this trace does not carry"
    );
    assert_eq!(
        told(&Tlbs, "cpu-scheduling", Columns::ACCESSES.or(Columns::THREADS)),
        "tool `tlbs` puts threads on the processors of the trace, which needs threads.cpu; \
         this trace does not carry that"
    );
    assert_eq!(
        told(&SweepTool, "level=l1i", Columns::ACCESSES),
        "tool `sweep` tries caches for instructions, which needs accesses.fetch; this trace does not carry that"
    );
}

/// Reads of several loads; each `(instruction, lines to its next read)` is repeated in turn.
fn strides(first: &[(u64, u64)], rounds: usize, odd_bytes: u64) -> MemoryTrace {
    let mut text = String::from("thread 1 1\n");
    let mut addrs = std::collections::BTreeMap::new();
    for _ in 0..rounds {
        for (i, (pc, lines)) in first.iter().enumerate() {
            let addr = addrs.entry(pc).or_insert(pc << 32);
            text += &format!("instr {pc:#x} 4\nread {:#x} 8\n", *addr);
            *addr += if i + 1 == first.len() && odd_bytes > 0 { odd_bytes } else { lines * 64 };
        }
    }
    MemoryTrace::parse(&text).expect("the test's trace")
}

/// The cases of drcachesim's own test of its analyzer (cache_miss_analyzer_test), with its expectations.
#[test]
fn steady_distances_are_those_that_the_original_expects() {
    let limits = "cores=1 ll-size=1M prefetcher=none count=1000 share=0.01";
    let hints = |trace: &MemoryTrace| {
        let found: Misses = report(&MissTool, limits, trace);
        assert_eq!(found.threshold, 1000.min(found.read_misses / 100));
        found.hints.iter().map(|hint| (hint.pc, hint.stride)).collect::<Vec<_>>()
    };
    let one = |lines: [u64; 5]| lines.map(|lines| (0xaaaa, lines));
    assert_eq!(hints(&strides(&one([1, 3, 5, 7, 5]), 2000, 0)), []);
    assert_eq!(hints(&strides(&one([7; 5]), 2000, 1000)), [(0xaaaa, 7 * 64)]);
    let (a, b) = ((0xaaaa, 3), (0xbbbb, 11));
    let both = strides(&[a, a, b, a, b, b], 2000, 0);
    assert_eq!(hints(&both), [(0xaaaa, 3 * 64), (0xbbbb, 11 * 64)]);
}
