//! Threads scheduled onto cores, and cores as they were traced: the expectations of DynamoRIO's own tests, and agreement
//! between our tools.

use super::{check, exact, golden, printed, without_disassembly};

/// Counts of the rows with these names in a block; `head` is the line before the block.
fn rows_of<'t>(text: &'t str, head: &str, names: &[&str]) -> Vec<&'t str> {
    let block = text.lines().skip_while(|line| *line != head).skip(1);
    let block = block.take_while(|line| !line.starts_with("Core #"));
    let words = block.filter_map(|line| {
        let (count, name) = line.trim().split_once(' ')?;
        names.contains(&name).then_some(count)
    });
    words.collect()
}

const DECISIONS: &[&str] = &[
    "total context switches",
    "voluntary context switches",
    "switches input-to-input",
    "switches input-to-idle",
    "switches idle-to-input",
    "switches nop-ed",
    "quantum_preempts",
    "migrations",
    "work steals",
    "rebalances",
];

/// Expectations of DynamoRIO's scheduler test (schedule_stats_nopreempt.templatex) for this trace.
#[test]
fn threads_are_scheduled_onto_cores_as_the_original_does_it() {
    let args = "-indir threadsig.x64 -sched_block_scale 0.01 -sched_quantum 10000000";
    let text = printed(&format!("{args} -tool schedule_stats -core_sharded"));
    let expected = ["21", "21", "5", "16", "13", "0", "0", "0", "1", "1"];
    assert_eq!(rows_of(&text, "Total counts:", DECISIONS), expected);
    let lengths = ["15", "6"];
    let histogram = text.lines().skip_while(|line| *line != "  Instructions per context switch histogram:");
    let found: Vec<&str> =
        histogram.skip(1).take(2).filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(found, lengths);
}

/// The same from core_serial.templatex, where DynamoRIO counts the decisions of the core that ran last four times: 8, 20 and
/// 20 instead of 2, 5 and 5.
#[test]
fn threads_are_scheduled_in_lock_step_as_the_original_does_it() {
    let text = printed("-indir threadsig.x64 -sched_block_scale 0.01 -tool schedule_stats -core_serial");
    let head = ["total context switches", "voluntary context switches"];
    assert_eq!(rows_of(&text, "Total counts:", &head), ["21", "21"]);
    let last = ["2", "5", "5", "0", "0", "0", "0", "0"];
    assert_eq!(rows_of(&text, "Core #2 counts:", &DECISIONS[2..]), last);
    // That core does run last: the others end idle.
    let ends_busy = |core: usize| {
        let head = format!("Core #{core} schedule: ");
        !text.lines().find_map(|line| line.strip_prefix(&head)).unwrap().ends_with('_')
    };
    assert_eq!([0, 1, 2, 3].map(ends_busy), [false, false, true, false]);
}

/// The same threads in the same stretches as on the cores that DynamoRIO's record_filter wrote.
#[test]
fn a_schedule_has_the_stretches_of_the_one_that_the_original_wrote() {
    let stretches = |args: &str| -> Vec<(String, String, String)> {
        let text = printed(&format!("{args} -tool schedule_stats"));
        let mut core = String::new();
        let mut found = Vec::new();
        for line in text.lines() {
            if line.ends_with(" switch-outs:") {
                core = line.to_owned();
            } else if let Some((thread, rest)) = line.split_once(" @ ")
                && let Some((_, rest)) = rest.split_once("instrs=")
            {
                let thread = thread.split_whitespace().last().unwrap().to_owned();
                found.push((core.clone(), thread, rest.split_whitespace().next().unwrap().to_owned()));
            }
        }
        found
    };
    let ours = stretches("-indir thr -core_sharded -cores 2");
    assert_eq!(ours.len(), 6);
    assert_eq!(ours, stretches("-indir thr.core_sharded_kernel -no_core_sharded"));
}

/// The assignment of threads to cores does not change their accesses.
#[test]
fn simulators_see_every_access_of_scheduled_threads() {
    let sums = |text: &str, head: &str| -> u64 {
        let mut is_in = false;
        let mut sum = 0;
        for line in text.lines() {
            if line.ends_with(" stats:") || line.starts_with("Core #") {
                is_in = line.trim_start().starts_with(head);
            }
            let counts = ["    Hits:", "    Misses:"].iter().find_map(|label| line.strip_prefix(label));
            if let Some(count) = counts.filter(|_| is_in) {
                sum += count.trim().parse::<u64>().unwrap();
            }
        }
        sum
    };
    let by_thread = golden("tlb.threadsig.txt");
    for args in
        ["", "-core_serial -cores 3", "-sched_quantum 1000 -sched_block_scale 0.001", "-core_serial -cores 1"]
    {
        let text = printed(&format!("-indir threadsig.x64 -tool TLB_simulator {args}"));
        assert!(text.contains("Core #0 (traced CPU(s): #0)"), "{args}: {text}");
        for head in ["L1I", "L1D"] {
            assert_eq!(sums(&text, head), sums(&by_thread, head), "{args}: {head}");
        }
    }
}

/// DynamoRIO's output for a thread-sharded trace replayed as traced: the same totals by core.
#[test]
fn schedule_stats_of_threads_replayed_as_they_were_traced() {
    let args =
        "-indir threadsig.x64 -core_sharded -cpu_schedule_file threadsig.x64/cpu_schedule.bin.zip -cores 11";
    let text = printed(&format!("{args} -tool schedule_stats"));
    for line in ["          11 cores", "      650576 instructions", "         480 system calls"] {
        assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}");
    }
    assert!(text.contains("\nCore #11 schedule: "));
}

/// Number of thread switches between instructions that `view` prints, number of instructions, and the clock readings.
fn turns(args: &str) -> (usize, usize, Vec<u64>) {
    let text = printed(&format!("-indir threadsig.x64 {args} -tool view -exit_after_records 20000"));
    let of_instrs = text.lines().filter(|line| line.contains(" ifetch "));
    let threads: Vec<&str> = of_instrs.filter_map(|line| line.split_whitespace().nth(2)).collect();
    let clock = text.lines().filter_map(|line| line.split_once("<marker: timestamp ")?.1.strip_suffix('>'));
    let n_turns = threads.windows(2).filter(|pair| pair[0] != pair[1]).count();
    (n_turns, threads.len(), clock.map(|time| time.parse().unwrap()).collect())
}

/// DynamoRIO would step the cores in turn here, too, as it does for threads scheduled onto cores.
#[test]
fn cores_as_they_were_traced_come_by_the_recorded_clock() {
    let (n_turns, n_instrs, clock) = turns(&format!("-core_serial {AS_TRACED} -cores 11"));
    assert!(clock.len() > 10 && clock.is_sorted(), "{clock:?}");
    assert!(n_turns * 500 < n_instrs, "{n_turns} of {n_instrs}");
    let (n_turns, n_instrs, _) = turns("-core_serial -cores 4");
    assert!(n_turns * 2 > n_instrs, "{n_turns} of {n_instrs}");
}

/// DynamoRIO maps traced processors to cores in their order; #6 is not among them.
#[test]
fn a_core_replayed_as_traced_has_one_processor() {
    let args =
        "-indir threadsig.x64 -core_serial -cpu_schedule_file threadsig.x64/cpu_schedule.bin.zip -cores 11";
    let text = printed(args);
    let cores: Vec<&str> = text.lines().filter(|line| line.starts_with("Core #")).collect();
    let processors = [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11];
    let expected: Vec<String> =
        processors.iter().enumerate().map(|(i, cpu)| format!("Core #{i} (traced CPU(s): #{cpu})")).collect();
    assert_eq!(cores, expected);
}

/// Expectations of DynamoRIO's own test (skip_to_timestamp.templatex) for this trace: seven of nine threads have ended.
#[test]
fn a_schedule_file_decides_where_threads_begin_after_a_skip_to_a_time() {
    let args = "-indir threadsig.x64 -cpu_schedule_file threadsig.x64/cpu_schedule.bin.zip \
                -skip_to_timestamp 13386385969691560";
    let text = printed(&format!("{args} -tool basic_counts"));
    assert!(text.contains("       21363 total (fetched) instructions\n"), "{text}");
    assert!(text.contains("           2 total threads\n"), "{text}");
    let threads: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("Thread "))
        .filter(|line| {
            line.starts_with("Thread ")
                || line.ends_with("  21301 (fetched) instructions")
                || line.ends_with("62 (fetched) instructions")
        })
        .collect();
    let expected = [
        "Thread 872805 counts:",
        "       21301 (fetched) instructions",
        "Thread 872905 counts:",
        "          62 (fetched) instructions",
    ];
    assert_eq!(threads, expected);
    // The rest can be scheduled onto cores.
    let text = printed(&format!("{args} -tool schedule_stats -core_serial"));
    assert!(text.contains("       21363 instructions\n"), "{text}");
}

/// DynamoRIO's scheduler uses the position of each thread's file, and names the nine threads `A` to `I`.
#[test]
fn letters_of_a_schedule_are_by_the_position_of_the_file() {
    for args in ["-core_serial", "-core_sharded -cpu_schedule_file threadsig.x64/cpu_schedule.bin.zip"] {
        let text = printed(&format!("-indir threadsig.x64 {args} -tool schedule_stats"));
        let schedules = text.lines().filter_map(|line| line.split_once(" schedule: "));
        let letters: std::collections::BTreeSet<char> =
            schedules.flat_map(|(_, letters)| letters.chars()).filter(char::is_ascii_uppercase).collect();
        assert_eq!(letters.into_iter().collect::<String>(), "ABCDEFGHI", "{args}: {text}");
    }
}

const AS_TRACED: &str = "-cpu_schedule_file threadsig.x64/cpu_schedule.bin.zip";

#[test]
fn letters_of_scheduled_threads_are_those_of_their_files() {
    let text = printed("-indir threadsig.x64 -sched_block_scale 0.01 -tool schedule_stats -core_serial");
    let letters: std::collections::BTreeSet<char> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Core #")?.split_once(" schedule: "))
        .flat_map(|(_, schedule)| schedule.chars().filter(char::is_ascii_uppercase))
        .collect();
    assert_eq!(letters, ('A'..='I').collect());
}

#[test]
fn basic_counts_of_scheduled_threads_are_those_of_the_threads_and_their_cores_rest() {
    let of_threads = printed("-indir threadsig.x64 -tool basic_counts");
    for mode in ["-core_sharded", "-core_serial -cores 3"] {
        let args = format!("-indir threadsig.x64 -sched_block_scale 0.01 {mode}");
        let text = printed(&format!("{args} -tool basic_counts"));
        let total = |text: &str| -> Vec<String> {
            let block = text.lines().skip_while(|line| *line != "Total counts:").skip(1);
            let is_own = |line: &&str| !line.ends_with(" idle markers");
            block.take_while(|line| line.contains(" total ")).filter(is_own).map(str::to_owned).collect()
        };
        assert_eq!(total(&text), total(&of_threads), "{mode}");
        let numbers = |text: &str, words: &str| -> Vec<u64> {
            let lines = text.lines().filter_map(|line| line.trim().strip_suffix(words)?.trim().parse().ok());
            lines.collect()
        };
        let instrs = numbers(&text, "(fetched) instructions");
        let schedule = printed(&format!("{args} -tool schedule_stats"));
        let by_schedule = numbers(&schedule, "instructions");
        assert_eq!(instrs.iter().sum::<u64>(), 650_576, "{text}");
        let mut sorted = by_schedule[1..].to_vec();
        sorted.sort_by_key(|instrs| std::cmp::Reverse(*instrs));
        assert_eq!(instrs, sorted, "{mode}");
        assert_eq!(numbers(&text, "total idle markers"), numbers(&schedule, "idles")[..1], "{mode}");
    }
}

/// Like record_filter_as_traced.templatex, and the same joined with another tool.
#[test]
fn a_filter_by_core_writes_the_cores_of_the_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("cores").display().to_string();
    let args = format!("{AS_TRACED} -core_sharded -cores 11 -indir threadsig.x64 -outdir {out}");
    let text = printed(&format!("-tool record_filter:schedule_stats {args}"));
    assert!(text.starts_with("Output "), "{text}");
    let (_, joined) = text.split_once("=\nSchedule stats tool results:\n").unwrap();
    let written = printed(&format!("-indir {out} -tool schedule_stats -no_core_sharded"));
    for text in [joined, &written] {
        for line in ["          11 cores", "      650576 instructions", "         480 system calls"] {
            assert_eq!(text.lines().filter(|found| *found == line).count(), 1, "{line}: {text}");
        }
    }
    let kept = printed(&format!("-tool record_filter -filter_trace_types 0,1 {args}"));
    assert!(kept.starts_with("Output "), "{kept}");
    let counts = printed(&format!("-indir {out} -tool basic_counts"));
    assert!(counts.contains("           0 total data loads\n"), "{counts}");
}

/// Cores have chunks made of pieces of many files, and instructions whose encodings are in another core's file.
#[test]
fn scheduled_threads_break_no_rule() {
    for args in [
        "-indir threadsig.x64 -core_serial",
        "-indir thr -core_sharded -cores 3 -sched_quantum 1000",
        "-indir thr.kernel_injected -core_serial -cores 2",
        "-indir allasm -core_serial -cores 1",
        "-indir allasm -core_sharded -cores 2",
    ] {
        let text = printed(&format!("{args} -tool invariant_checker"));
        assert_eq!(text, "Trace invariant checks passed\n", "{args}");
    }
}

/// A traced core starts in the middle of threads, and headers and encodings may be in other cores' files.
#[test]
fn cores_as_they_were_traced_break_no_rule() {
    for args in [
        "-indir threadsig.x64 -cpu_schedule_file threadsig.x64/cpu_schedule.bin.zip -cores 11",
        "-indir as_traced -cpu_schedule_file as_traced/cpu_schedule.bin.zip -cores 4",
        "-indir thr.kernel_injected -cpu_schedule_file thr.kernel_injected/cpu_schedule.bin.zip -cores 1",
    ] {
        for mode in ["-core_serial", "-core_sharded"] {
            let text = printed(&format!("{args} {mode} -tool invariant_checker"));
            assert_eq!(text, "Trace invariant checks passed\n", "{args} {mode}");
        }
    }
}

#[test]
fn what_a_schedule_cuts_off_is_no_error() {
    for mode in ["", "-core_serial", "-core_sharded -cores 2"] {
        let args = format!("-indir threadsig.x64 {AS_TRACED} -skip_to_timestamp 13386385969691560 {mode}");
        let text = printed(&format!("{args} -tool invariant_checker"));
        assert_eq!(text, "Trace invariant checks passed\n", "{mode}");
    }
}

/// The threads of a part are checked wherever the part begins, and records that it cuts off cause no errors.
#[test]
fn parts_of_scheduled_threads_break_no_rule() {
    for trace in ["threadsig.x64", "thr.kernel_injected"] {
        for skip in [1, 2, 7, 33, 55, 2000, 3000, 5000] {
            for mode in
                ["-core_sharded -cores 2", "-core_serial -cores 1", "-core_serial -exit_after_instrs 77"]
            {
                let args = format!("-indir {trace} {mode} -skip_instrs {skip} -sched_block_scale 0.001");
                let text = printed(&format!("{args} -tool invariant_checker"));
                assert_eq!(text, "Trace invariant checks passed\n", "{args}");
            }
        }
    }
}

/// With a single core, one thread runs at a time, so the view equals DynamoRIO's view of the thread, except for the core and
/// its clock.
#[test]
fn view_of_one_scheduled_core_is_that_of_its_thread() {
    let on_any_core = |text: &str| -> String {
        let anonymous = |line: &str| match (line.find("timestamp "), line.find(" on core ")) {
            (Some(at), _) | (_, Some(at)) => line[..at].to_owned() + "\n",
            _ => line.to_owned() + "\n",
        };
        without_disassembly(text).lines().map(anonymous).collect()
    };
    for mode in ["-core_serial", "-core_sharded"] {
        let args = format!("-indir tiny.func -tool view {mode} -cores 1 -exit_after_records 120");
        check(&args, "view.tiny.func.first120.txt", on_any_core);
    }
}

/// Like record_filter_bycore_multi.templatex: the requested number of cores, with all records of the threads.
#[test]
fn a_filter_by_core_writes_what_the_scheduler_gives_each_core() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("cores").display().to_string();
    let scheduler = "-sched_block_scale 0.001 -sched_exit_if_fraction_inputs_left 0";
    for (parts, n_cores) in [
        ("", 3),
        ("", 4),
        ("-skip_instrs 500", 2),
        ("-exit_after_instrs 700", 2),
        ("-skip_instrs 500 -exit_after_instrs 700", 1),
        ("-skip_records 900", 2),
        ("-exit_after_records 800", 2),
    ] {
        let args = format!("-indir thr -core_sharded -cores {n_cores} {scheduler} {parts}");
        let text = printed(&format!("-tool record_filter:schedule_stats {args} -outdir {out}"));
        let (filtered, joined) = text.split_once("=\nSchedule stats tool results:\n").unwrap();
        assert!(filtered.starts_with("Output ") && filtered.contains(" entries from "), "{args}: {text}");
        let written = printed(&format!("-indir {out} -tool schedule_stats -no_core_sharded"));
        let instrs = |text: &str| -> Vec<u64> {
            let of = |line: &str| line.strip_suffix(" instructions")?.trim().parse().ok();
            text.lines().filter_map(of).collect()
        };
        assert_eq!(instrs(&written), instrs(joined), "{args}");
        let rests =
            |text: &str| text.lines().filter(|line| line.ends_with(" idles")).map(str::to_owned).collect();
        let (of_files, of_cores): (Vec<String>, Vec<String>) = (rests(&written), rests(joined));
        assert_eq!(of_files, of_cores, "{args}");
        let text = printed(&format!("-indir {out} -tool invariant_checker"));
        assert_eq!(text, "Trace invariant checks passed\n", "{args}");
        // Encodings are carried over from skipped parts, and from other cores.
        let mix = printed(&format!("{args} -tool opcode_mix"));
        assert_eq!(printed(&format!("-indir {out} -tool opcode_mix -no_core_sharded")), mix, "{args}");
    }
    let args = format!("-indir thr -core_sharded -cores 2 {scheduler} -outdir {out}");
    printed(&format!("-tool record_filter -filter_trace_types 0,1 {args}"));
    let counts = printed(&format!("-indir {out} -tool basic_counts"));
    assert!(counts.contains("           0 total data loads\n"), "{counts}");
    assert!(counts.contains("       64253 total (fetched) instructions\n"), "{counts}");
}

#[test]
fn calls_of_scheduled_threads_are_printed_as_cores_come_to_them() {
    check("-indir tiny.func -tool func_view -core_serial", "func_view.tiny.txt", exact);
}
