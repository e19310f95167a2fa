//! Every tool on scheduled cores, with every skip and limit: each result agrees with the other tools, or with threads
//! without cores, on the same part. Refused combinations have a row in `compatibility.tsv`.

use super::launch;
use std::path::PathBuf;

/// The threads, how they become cores, and a thread and a time to select by.
struct Mode {
    threads: &'static str,
    cores: &'static str,
    only: &'static str,
    clock: u64,
}

impl Mode {
    const fn of(threads: &'static str, cores: &'static str) -> Mode {
        Mode { threads, cores, only: "-only_thread 5750", clock: 13_439_646_280_084_900 }
    }

    /// Two threads that call functions.
    const fn of_calls(cores: &'static str) -> Mode {
        // With several traces, no single thread can be selected.
        let only = "-skip_instrs 100 -exit_after_instrs 900";
        Mode { threads: "-multi_indir tiny.func:func-trace", cores, only, clock: 13_228_352_797_837_904 }
    }

    /// As traced, parts are of cores.
    fn is_replay(&self) -> bool {
        self.cores.contains("cpu_schedule_file")
    }

    fn is_serial(&self) -> bool {
        self.cores.contains("-core_serial")
    }

    fn part(&self, part: &str) -> String {
        part.replace("ONLY", self.only).replace("CLOCK", &self.clock.to_string())
    }
}

const MODES: &[Mode] = &[
    Mode::of("-indir thr", "-core_serial -cores 1"),
    Mode::of("-indir thr", "-core_serial -cores 3"),
    Mode::of("-indir thr", "-core_sharded -cores 2"),
    Mode {
        threads: "-indir as_traced",
        cores: "-core_serial -cpu_schedule_file as_traced/cpu_schedule.bin.zip -cores 4",
        only: "",
        clock: 13_355_884_556_008_542,
    },
    Mode::of_calls("-core_serial -cores 2"),
    Mode::of_calls("-core_sharded -cores 2"),
];

/// Parts of threads: the selected records do not depend on cores.
const PARTS_OF_THREADS: &[&str] = &[
    "",
    "-skip_instrs 500",
    "-exit_after_instrs 700",
    "-skip_instrs 500 -exit_after_instrs 700",
    "ONLY",
    "ONLY -skip_instrs 300",
    "-skip_to_timestamp CLOCK",
];

/// Parts of the cores' records.
const PARTS_OF_CORES: &[&str] = &[
    "-skip_records 900",
    "-exit_after_records 800",
    "-skip_records 900 -exit_after_records 800",
    "-skip_instrs 500 -exit_after_records 800",
    "-exit_after_instrs 700 -exit_after_records 800",
    "-skip_instrs 300 -exit_after_instrs 400 -exit_after_records 800",
    "-skip_to_timestamp CLOCK -exit_after_records 800",
];

/// Long blocking calls would fill the cores with idle records, and no thread may be left out.
const SCHEDULER: &str = "-sched_block_scale 0.001 -sched_exit_if_fraction_inputs_left 0";

fn traces() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace")
}

/// The output, and whether the command succeeded.
fn answer(args: &str) -> (String, bool) {
    let output = launch(&traces(), args);
    let text = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(2), "{args}: {text}");
    (text, code == Some(0))
}

/// The numbers at the start of lines that end with `words`.
fn numbers(text: &str, words: &str) -> Vec<u64> {
    let of = |line: &str| line.trim().strip_suffix(words).and_then(|n| n.trim().parse().ok());
    text.lines().filter_map(of).collect()
}

fn first(text: &str, words: &str, args: &str) -> u64 {
    *numbers(text, words).first().unwrap_or_else(|| panic!("{args}: no {words} in {text}"))
}

/// Numbers of calls and returns in the summary of `func_view`, and number of calls that it prints.
fn calls(args: &str) -> Option<(u64, u64, u64)> {
    let (text, is_answer) = answer(&format!("{args} -tool func_view"));
    let (printed, summary) = text.split_once("Function view tool results:\n").filter(|_| is_answer)?;
    let sum = |words: &str| numbers(summary, words).iter().sum::<u64>();
    let printed = printed.lines().filter(|line| line.starts_with('T') && line.contains('(')).count();
    Some((sum(" calls"), sum(" returns"), printed as u64))
}

/// Checks one mode and part; returns the numbers of instructions and idle records.
fn check(mode: &Mode, part: &str) -> Option<(u64, u64)> {
    let args = format!("{} {} {SCHEDULER} {part}", mode.threads, mode.cores);
    let tools = "basic_counts:opcode_mix:histogram:reuse_distance:reuse_time:syscall_mix:schedule_stats";
    let (text, is_answer) = answer(&format!("{args} -tool {tools}"));
    if !is_answer {
        // A core is shorter than the part to skip on each.
        assert!(text.contains("which are to be skipped"), "{args}: {text}");
        return None;
    }
    let instrs = first(&text, "total (fetched) instructions", &args);
    assert_eq!(numbers(&text, "(fetched) instructions").iter().sum::<u64>(), instrs, "by core: {args}");
    let of_schedule = numbers(&text, " instructions");
    assert!(of_schedule.contains(&instrs), "schedule_stats: {args}: {text}");
    let not_fetched = first(&text, "total non-fetched instructions", &args);
    assert_eq!(first(&text, ": total executed instructions", &args), instrs + not_fetched, "{args}");
    assert!(text.contains(&format!("Total instructions: {instrs}\n")), "reuse_time: {args}");
    assert!(text.contains(&format!("Instruction accesses: {instrs}\n")), "reuse_distance: {args}");
    let of_system = text.split("syscall count : syscall_num\n").nth(1).unwrap();
    let of_system: u64 =
        of_system.lines().map_while(|line| line.split_once(" : ")?.0.trim().parse::<u64>().ok()).sum();
    assert_eq!(of_system, first(&text, "total system call number markers", &args), "syscall_mix: {args}");
    let rests = numbers(&text, "idles").first().copied().unwrap_or(0);
    let (text, is_answer) = answer(&format!("{args} -tool invariant_checker"));
    match is_answer {
        true => assert_eq!(text, "Trace invariant checks passed\n", "{args}"),
        false => assert!(text.contains("this skip or limit is of all of them together"), "{args}: {text}"),
    }
    let simulated = ["cache_simulator", "TLB_simulator", "miss_analyzer"].map(|tool| {
        let (text, is_answer) = answer(&format!("{args} -tool {tool}"));
        assert!(is_answer, "{args}: {text}");
        text
    });
    let together = answer(&format!("{args} -tool cache_simulator:TLB_simulator:miss_analyzer"));
    assert!(simulated[0].contains("Core #0 "), "{args}: {}", simulated[0]);
    assert!(simulated[2].starts_with("Cache miss analyzer results:\n"), "{args}: {}", simulated[2]);
    let separator = format!("\n{}\n", "=".repeat(75));
    assert_eq!(together, (simulated.join(&separator), true), "{args}");
    // A call is printed where it begins; if one worker simulates all cores, both read the same part.
    let (begun, _, printed) = calls(&args).unwrap_or_else(|| panic!("func_view: {args}"));
    if mode.is_serial() || !part.contains("records") {
        assert_eq!(printed, begun, "func_view: {args}");
    }
    Some((instrs, rests))
}

/// Numbers of instructions and idle records that `view` shows, and its lines for each thread, without ordinals, clocks and
/// cores.
fn viewed(args: &str) -> (u64, u64, Vec<(String, String)>) {
    let args = format!("{args} -tool view");
    let (text, is_answer) = answer(&args);
    assert!(is_answer, "{args}: {text}");
    let rows = text.lines().filter_map(|line| line.get(24..)?.strip_prefix(':')?.trim().split_once(' '));
    let mut of_threads: Vec<(String, String)> = Vec::new();
    let (mut instrs, mut rests) = (0, 0);
    for (thread, row) in rows {
        instrs += u64::from(row.starts_with("ifetch"));
        rests += u64::from(row == "<marker: core is idle>");
        if !row.contains(" idle>") && !row.contains("timestamp") && !row.contains(" on core ") {
            of_threads.push((thread.to_owned(), row.trim().to_owned()));
        }
    }
    // The sort is stable, so the lines of each thread keep their order.
    of_threads.sort_by(|a, b| a.0.cmp(&b.0));
    (instrs, rests, of_threads)
}

#[test]
fn every_tool_agrees_with_the_others_on_scheduled_cores() {
    for mode in MODES {
        let (threads, cores) = (mode.threads, mode.cores);
        for part in PARTS_OF_THREADS {
            if mode.is_replay() && !part.is_empty() {
                continue;
            }
            let part = &mode.part(part);
            let (instrs, rests) = check(mode, part).unwrap_or_else(|| panic!("{threads} {cores} {part}"));
            let (text, is_answer) = answer(&format!("{threads} {part} -tool basic_counts"));
            assert!(is_answer, "{threads} {part}: {text}");
            let of_threads = first(&text, "total (fetched) instructions", part);
            assert_eq!(of_threads, instrs, "{threads} {cores} {part}");
            let (shown, shown_rests, lines) = viewed(&format!("{threads} {cores} {SCHEDULER} {part}"));
            assert_eq!(shown, instrs, "view: {threads} {cores} {part}");
            // With `-core_sharded`, `view` prints all cores in one stream, with another notion of time.
            if mode.is_serial() {
                assert_eq!(shown_rests, rests, "view: {threads} {cores} {part}");
            }
            let (_, _, alone) = viewed(&format!("{threads} {part}"));
            assert!(lines == alone, "view of threads: {threads} {cores} {part}");
            let on_cores = calls(&format!("{threads} {cores} {SCHEDULER} {part}"));
            assert_eq!(on_cores, calls(&format!("{threads} {part}")), "{threads} {cores} {part}");
        }
    }
}

#[test]
fn parts_of_what_cores_do_add_up() {
    for mode in MODES {
        let args = format!("{} {} {SCHEDULER}", mode.threads, mode.cores);
        for part in PARTS_OF_CORES {
            let part = &mode.part(part);
            let Some((instrs, rests)) = check(mode, part) else { continue };
            if mode.is_serial() {
                let (shown, shown_rests, _) = viewed(&format!("{args} {part}"));
                assert_eq!(shown, instrs, "view: {args} {part}");
                let is_equal = mode.is_replay() || shown_rests == rests;
                assert!(is_equal, "view: {args} {part}: {shown_rests} {rests}");
            }
        }
        let of = |part: &str| check(mode, part).map_or(0, |(instrs, _)| instrs);
        assert_eq!(of("-skip_records 800") + of("-exit_after_records 800"), of(""), "{args}");
        let both = |part: &str| calls(&format!("{args} {part}")).unwrap();
        let [before, after, all] = ["-exit_after_records 800", "-skip_records 800", ""].map(both);
        assert_eq!((before.0 + after.0, before.1 + after.1), (all.0, all.1), "func_view: {args}");
    }
}
