//! Every tool on scheduled cores, with every skip and limit: whatever is answered agrees with what other tools, or threads
//! without cores, say of the same part. What is refused has a row in `compatibility.tsv`.

use super::launch;
use std::path::PathBuf;

/// Whose cores they are, and which threads.
const MODES: &[&str] = &[
    "-indir thr -core_serial -cores 1",
    "-indir thr -core_serial -cores 3",
    "-indir thr -core_sharded -cores 2",
    "-indir as_traced -core_serial -cpu_schedule_file as_traced/cpu_schedule.bin.zip -cores 4",
];

/// Which part. Of threads: what is left does not depend on cores.
const PARTS_OF_THREADS: &[&str] = &[
    "",
    "-skip_instrs 500",
    "-exit_after_instrs 700",
    "-skip_instrs 500 -exit_after_instrs 700",
    "-only_thread 5750",
    "-only_thread 5750 -skip_instrs 300",
    "-skip_to_timestamp 13439646280084900",
];

/// Which part of what cores do.
const PARTS_OF_CORES: &[&str] = &[
    "-skip_records 900",
    "-exit_after_records 800",
    "-skip_records 900 -exit_after_records 800",
    "-skip_instrs 500 -exit_after_records 800",
];

/// Calls that block for long would fill the cores with rests, and no thread may be left out.
const SCHEDULER: &str = "-sched_block_scale 0.001 -sched_exit_if_fraction_inputs_left 0";

fn traces() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace")
}

/// What is printed, and whether it is an answer.
fn answer(args: &str) -> (String, bool) {
    let output = launch(&traces(), args);
    let text = String::from_utf8(output.stderr).unwrap();
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(2), "{args}: {text}");
    (text, code == Some(0))
}

/// The numbers of lines that end so.
fn numbers(text: &str, words: &str) -> Vec<u64> {
    let of = |line: &str| line.trim().strip_suffix(words).and_then(|n| n.trim().parse().ok());
    text.lines().filter_map(of).collect()
}

fn first(text: &str, words: &str, args: &str) -> u64 {
    *numbers(text, words).first().unwrap_or_else(|| panic!("{args}: no {words} in {text}"))
}

/// Checks one mode and part; returns how many instructions and rests there are.
fn check(mode: &str, part: &str) -> Option<(u64, u64)> {
    let args = format!("{mode} {SCHEDULER} {part}");
    let tools = "basic_counts:opcode_mix:histogram:reuse_distance:reuse_time:syscall_mix:schedule_stats";
    let (text, is_answer) = answer(&format!("{args} -tool {tools}"));
    if !is_answer {
        // A core is shorter than what is to be skipped on each, or records are to be counted along all of them after that.
        let reasons = ["which are to be skipped", "works with the tool view only"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{args}: {text}");
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
    let calls = text.split("syscall count : syscall_num\n").nth(1).unwrap();
    let calls: u64 =
        calls.lines().map_while(|line| line.split_once(" : ")?.0.trim().parse::<u64>().ok()).sum();
    assert_eq!(calls, first(&text, "total system call number markers", &args), "syscall_mix: {args}");
    let rests = numbers(&text, "idles").first().copied().unwrap_or(0);
    let (text, is_answer) = answer(&format!("{args} -tool invariant_checker"));
    match is_answer {
        true => assert_eq!(text, "Trace invariant checks passed\n", "{args}"),
        false => assert!(text.contains("this skip or limit is of all of them together"), "{args}: {text}"),
    }
    let (text, is_answer) = answer(&format!("{args} -tool cache_simulator:TLB_simulator"));
    assert!(is_answer && text.contains("Core #0 "), "{args}: {text}");
    Some((instrs, rests))
}

/// How many instructions and rests `view` shows, and all that it says of each thread, without ordinals, clocks and cores.
fn viewed(mode: &str, part: &str) -> (u64, u64, Vec<(String, String)>) {
    let args = format!("{mode} {SCHEDULER} {part} -tool view");
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
    // Stable: what stands of one thread keeps its order.
    of_threads.sort_by(|a, b| a.0.cmp(&b.0));
    (instrs, rests, of_threads)
}

#[test]
fn every_tool_agrees_with_the_others_on_scheduled_cores() {
    for mode in MODES {
        let threads = if mode.contains("thr") { "-indir thr" } else { "-indir as_traced" };
        let is_replay = mode.contains("cpu_schedule_file");
        for part in PARTS_OF_THREADS {
            // As traced, parts are of cores; and the trace has another thread.
            if is_replay && !part.is_empty() {
                continue;
            }
            let (instrs, rests) = check(mode, part).unwrap_or_else(|| panic!("{mode} {part}"));
            let (text, is_answer) = answer(&format!("{threads} {part} -tool basic_counts"));
            assert!(is_answer, "{threads} {part}: {text}");
            assert_eq!(first(&text, "total (fetched) instructions", part), instrs, "{mode} {part}");
            let (shown, shown_rests, lines) = viewed(mode, part);
            assert_eq!(shown, instrs, "view: {mode} {part}");
            // With `-core_sharded`, view has all cores in one stream, and time is another.
            if mode.contains("-core_serial") {
                assert_eq!(shown_rests, rests, "view: {mode} {part}");
            }
            let (_, _, alone) = viewed(threads, part);
            assert!(lines == alone, "view of threads: {mode} {part}");
        }
    }
}

#[test]
fn parts_of_what_cores_do_add_up() {
    for mode in MODES {
        for part in PARTS_OF_CORES {
            let Some((instrs, rests)) = check(mode, part) else { continue };
            if mode.contains("-core_serial") {
                let (shown, shown_rests, _) = viewed(mode, part);
                assert_eq!(shown, instrs, "view: {mode} {part}");
                let is_replay = mode.contains("cpu_schedule_file");
                assert!(is_replay || shown_rests == rests, "view: {mode} {part}: {shown_rests} {rests}");
            }
        }
        let of = |part: &str| check(mode, part).map_or(0, |(instrs, _)| instrs);
        assert_eq!(of("-skip_records 800") + of("-exit_after_records 800"), of(""), "{mode}");
    }
}
