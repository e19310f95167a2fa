//! Compares `quipu as drmemtrace` with the output of DynamoRIO's launcher: whole texts, on standard error.
//!
//! The goldens are under `traces/drmemtrace/golden`; the README of that folder's samples names DynamoRIO's commit. Two
//! things are normalized first, because they depend on DynamoRIO's own decoder: disassembly, whose `att` text is unlike any
//! other's, is cut after the instruction's bytes; and the operations of `opcode_mix` are replaced by their sum, because its
//! decoder splits `mov` into forms and calls `jne` `jnz`.

mod cores;

// A test whose setup fails has failed.
use std::path::PathBuf;
use std::process::Command;

fn traces() -> PathBuf {
    quipu_testkit::fixtures("drmemtrace")
}

/// Standard error of the launcher's command line; standard output has to be empty.
fn printed(args: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(traces())
        .args(["as", "drmemtrace"])
        .args(args.split_whitespace())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    text
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(traces().join("golden").join(name)).unwrap()
}

fn check(args: &str, golden_name: &str, common_form: impl Fn(&str) -> String) {
    let (found, expected) = (common_form(&printed(args)), common_form(&golden(golden_name)));
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "{golden_name}, line {}", number + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count(), "{golden_name}");
}

fn exact(text: &str) -> String {
    text.to_owned()
}

/// Column after the bytes of an x86 instruction: a line has up to seven of them.
const BYTES_END: usize = 104;

/// Removes x86 disassembly, but keeps the trace's text after it.
fn without_disassembly(text: &str) -> String {
    let cut =
        |line: &str| match (line.get(..BYTES_END), line.contains(" byte(s) @ "), line.contains(" by PC ")) {
            (Some(columns), true, false) => {
                let outcome = ["(taken)", "(untaken)"].into_iter().find(|outcome| line.ends_with(outcome));
                let target = line.find("(target ").map(|at| &line[at..]);
                format!("{columns}{}{}", outcome.unwrap_or(""), target.unwrap_or(""))
            }
            _ => line.to_owned(),
        };
    text.lines().map(|line| cut(line) + "\n").collect()
}

/// Replaces the rows of operations by their sum.
fn without_operations(text: &str) -> String {
    let (operations, categories) = text.split_once("\n\n").unwrap();
    let (head, rows) = operations.split_at(operations.find(" : total executed instructions\n").unwrap() + 31);
    let count = |row: &str| row.split_once(" : ").unwrap().0.trim().parse::<u64>().unwrap();
    let sum: u64 = rows.lines().map(count).sum();
    format!("{head}{sum} in all\n\n{categories}")
}

#[test]
fn basic_counts_of_nine_threads() {
    check("-indir threadsig.x64 -tool basic_counts", "basic_counts.threadsig.txt", exact);
}

#[test]
fn basic_counts_of_cores_with_kernel_code() {
    let args = "-indir thr.core_sharded_kernel -tool basic_counts -no_core_sharded";
    check(args, "basic_counts.core_sharded_kernel.txt", exact);
}

#[test]
fn basic_counts_of_windows() {
    check("-indir tiny.multiwin -tool basic_counts", "basic_counts.multiwin.txt", exact);
}

#[test]
fn counts_do_not_depend_on_jobs() {
    for jobs in ["0", "1", "2", "5"] {
        let args = format!("-indir threadsig.x64 -tool basic_counts -jobs {jobs}");
        check(&args, "basic_counts.threadsig.txt", exact);
    }
}

#[test]
fn histogram_of_lines() {
    check("-indir as_traced -tool histogram", "histogram.as_traced.txt", exact);
}

#[test]
fn opcode_mix_totals_and_categories() {
    check("-indir allasm -tool opcode_mix", "opcode_mix.allasm.txt", without_operations);
}

#[test]
fn operations_have_the_names_of_the_usual_text() {
    let rows = |text: &str, name: &str| -> Vec<u64> {
        let rows = text.lines().filter_map(|line| line.split_once(" : "));
        rows.filter(|(_, of)| of.trim() == name).map(|(count, _)| count.trim().parse().unwrap()).collect()
    };
    let (ours, theirs) = (printed("-indir allasm -tool opcode_mix"), golden("opcode_mix.allasm.txt"));
    assert_eq!((rows(&ours, "jne"), rows(&ours, "jnz")), (vec![16], vec![]));
    assert_eq!((rows(&theirs, "jne"), rows(&theirs, "jnz")), (vec![], vec![16]));
    assert_eq!((rows(&ours, "mov"), rows(&theirs, "mov")), (vec![51], vec![34, 17]));
}

#[test]
fn opcode_mix_of_dependencies_has_no_operations() {
    check("-indir threadsig.regdeps -tool opcode_mix", "opcode_mix.regdeps.txt", exact);
}

#[test]
fn syscall_mix_with_failures_of_calls_that_the_trace_does_not_name() {
    check("-indir threadsig.x64 -tool syscall_mix", "syscall_mix.threadsig.txt", exact);
}

#[test]
fn syscall_mix_with_kernel_code() {
    check("-indir thr.kernel_injected -tool syscall_mix", "syscall_mix.kernel_injected.txt", exact);
}

#[test]
fn func_view_of_calls_within_calls() {
    check("-indir tiny.func -tool func_view", "func_view.tiny.txt", exact);
}

#[test]
fn func_view_can_leave_the_calls_out() {
    let summary = golden("func_view.tiny.txt");
    let summary = &summary[summary.find("Function view tool results:").unwrap()..];
    assert_eq!(printed("-indir tiny.func -tool func_view -no_show_func_trace"), summary);
}

/// Removes lines in which DynamoRIO measures its own run, and sorts lines that it prints in arbitrary order.
fn without_own_run(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_own = line.ends_with(" microseconds")
            || line.ends_with("microseconds at last instr")
            || line.contains("% cpu busy by time");
        match line.split_once(" threads: ") {
            Some((count, names)) => {
                let mut names: Vec<&str> = names.split(", ").collect();
                names.sort_unstable();
                lines.push(format!("{count} threads: {}", names.join(", ")));
            }
            None if !is_own => lines.push(line.to_owned()),
            None => {}
        }
    }
    // A head and the rows below it form one block; runs of such blocks are sorted.
    let is_row = |line: &String| line.starts_with("     ") && line.contains("..");
    let mut blocks: Vec<(String, String)> = Vec::new();
    for line in lines {
        let kind = match &line {
            _ if is_row(&line) => None,
            _ if line.starts_with("    #") => Some("call"),
            _ if line.starts_with("  Thread ") => Some("thread"),
            _ => Some(""),
        };
        match (kind, blocks.last_mut()) {
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (kind, _) => blocks.push((kind.unwrap_or("").to_owned(), format!("{line}\n"))),
        }
    }
    let runs = blocks.chunk_by_mut(|a, b| a.0 == b.0 && !a.0.is_empty());
    runs.for_each(|run| run.sort());
    blocks.into_iter().map(|(_, block)| block).collect()
}

#[test]
fn schedule_stats_of_cores_on_disk() {
    check(CORES, "schedule_stats.core_sharded.txt", without_own_run);
}

const CORES: &str = "-indir threadsig.core_sharded -tool schedule_stats -no_core_sharded";

#[test]
fn schedule_stats_lists_threads_and_calls_in_ascending_order() {
    // The threads of all cores, and the calls that did not incur a switch.
    let listed = |text: &str| -> (Vec<String>, Vec<u64>) {
        let threads = text.lines().find_map(|line| line.split_once(" threads: ")).unwrap().1;
        let calls = text.lines().skip_while(|line| !line.contains("that did not incur a switch"));
        let calls = calls.take_while(|line| !line.starts_with("Core "));
        let calls = calls.filter_map(|line| line.strip_prefix("    #")?.parse().ok());
        (threads.split(", ").map(str::to_owned).collect(), calls.collect())
    };
    let (ours, theirs) = (listed(&printed(CORES)), listed(&golden("schedule_stats.core_sharded.txt")));
    assert!(ours.0.is_sorted() && ours.1.is_sorted(), "{ours:?}");
    assert!(!theirs.0.is_sorted() && !theirs.1.is_sorted(), "{theirs:?}");
}

#[test]
fn microseconds_of_cores_are_those_of_the_clock_of_the_trace() {
    let busy = |text: &str| -> u64 {
        let line = text.lines().find_map(|line| line.strip_suffix(" cpu microseconds")).unwrap();
        line.trim().parse().unwrap()
    };
    assert_eq!(busy(&printed(CORES)), 320);
    assert_eq!(busy(&golden("schedule_stats.core_sharded.txt")), 577_027);
}

#[test]
fn view_without_encodings() {
    check("-infile small/drmemtrace.small.x64.trace -tool view", "view.small.txt", exact);
}

#[test]
fn view_of_a_legacy_trace_with_iterations_that_are_not_fetched() {
    let file = "legacy-for-record-filter/drmemtrace.threadsig.10510.0155.trace.gz";
    check(&format!("-infile {file} -tool view -exit_after_records 400"), "view.legacy-10510.txt", exact);
}

#[test]
fn view_of_templates() {
    check(
        "-infile mock_syscall/mock_syscall_sequences.x64 -tool view",
        "view.mock_syscall.txt",
        without_disassembly,
    );
}

#[test]
fn view_interleaves_threads_by_time() {
    let threads = "872805,872884,872894,872901,872902";
    let args = format!("-indir threadsig.x64 -only_threads {threads} -tool view -exit_after_records 300");
    check(&args, "view.threadsig-5threads-first300.txt", without_disassembly);
}

#[test]
fn view_of_dependencies() {
    let args = "-indir threadsig.regdeps -tool view -exit_after_records 100";
    check(args, "view.regdeps.first100.txt", exact);
}

#[test]
fn view_of_functions() {
    let args = "-indir tiny.func -tool view -exit_after_records 120";
    check(args, "view.tiny.func.first120.txt", without_disassembly);
}

#[test]
fn view_of_filtered_instructions() {
    let args = "-indir tiny.ifiltered -tool view -exit_after_records 120";
    check(args, "view.tiny.ifiltered.first120.txt", without_disassembly);
}

#[test]
fn a_skip_into_the_middle_invents_a_clock_reading() {
    let args = "-indir allasm -tool view -skip_instrs 62 -exit_after_records 10";
    check(args, "view.allasm.skip62.txt", without_disassembly);
}

#[test]
fn a_skip_past_a_clock_reading_repeats_it() {
    let args = "-indir allasm -tool view -skip_instrs 63 -exit_after_records 10";
    check(args, "view.allasm.skip63.txt", without_disassembly);
}

/// Sorts the blocks of shards by their text, because DynamoRIO leaves the order of ties open.
fn shards_in_order(text: &str) -> String {
    let separator = format!("\n{}\n", "=".repeat(50));
    let mut blocks: Vec<&str> = text.split(&separator).collect();
    blocks[1..].sort_unstable();
    blocks
        .iter()
        .map(|block| block.trim_end_matches('\n').to_owned() + "\n")
        .collect::<Vec<_>>()
        .join(&separator)
}

#[test]
fn reuse_distances_of_one_thread() {
    let args = "-infile small/drmemtrace.small.x64.trace -tool reuse_distance -reuse_distance_histogram";
    check(args, "reuse_distance.small.txt", exact);
}

#[test]
fn reuse_distances_of_four_threads_in_bins() {
    let args =
        "-indir thr -tool reuse_distance -reuse_distance_histogram -reuse_histogram_bin_multiplier 1.5";
    check(args, "reuse_distance.thr.bins.txt", shards_in_order);
}

#[test]
fn reuse_times_of_four_threads() {
    check("-indir thr -tool reuse_time", "reuse_time.thr.txt", shards_in_order);
}

#[test]
fn shards_with_as_many_accesses_come_in_the_order_of_the_trace() {
    let shards = |text: &str| -> Vec<u64> {
        let heads = text.lines().filter_map(|line| line.split_once(" tool results for shard "));
        heads.map(|(_, rest)| rest.split_once(" (").unwrap().0.parse().unwrap()).collect()
    };
    for (tool, golden_name) in
        [("reuse_distance", "reuse_distance.thr.bins.txt"), ("reuse_time", "reuse_time.thr.txt")]
    {
        let ours = printed(&format!("-indir thr -tool {tool}"));
        assert_eq!(shards(&ours), [0, 1, 2, 3], "{tool}");
        // The three with equal counts are in a different order.
        assert_eq!(shards(&golden(golden_name)), [0, 2, 3, 1], "{tool}");
    }
}

#[test]
fn shards_come_by_falling_number_of_accesses() {
    let text = printed("-indir threadsig.x64 -tool reuse_distance -no_reuse_distance_histogram");
    let counts: Vec<u64> =
        text.lines().filter_map(|line| line.strip_prefix("Total accesses: ")?.parse().ok()).collect();
    assert_eq!(counts.len(), 10);
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    assert!(text.contains("(Pass -reuse_distance_histogram to see all the data.)\n"));
}

#[test]
fn all_reuse_times_are_shown_when_asked_for() {
    let few = printed("-indir thr -only_thread 5750 -tool reuse_time");
    let all = printed("-indir thr -only_thread 5750 -tool reuse_time -verbose 1");
    let few = few.strip_suffix("... (increase verbosity to see entire histogram)\n").unwrap();
    assert!(all.starts_with(few));
    assert!(all.ends_with("%     100.00%\n"));
}

/// The instruction counts of interval blocks, and the text before them.
fn intervals(text: &str) -> (String, Vec<(String, u64)>) {
    let (_, intervals) = text.split_once("Printing ").unwrap();
    let (heads, _) = intervals.split_once("Interval #").unwrap();
    let mut blocks = Vec::new();
    for line in intervals.lines() {
        if line.starts_with("Interval #") {
            blocks.push((line.to_owned(), 0));
        } else if let Some(count) = line.strip_suffix(" interval delta (fetched) instructions") {
            blocks.last_mut().unwrap().1 = count.trim().parse().unwrap();
        }
    }
    (heads.to_owned(), blocks)
}

#[test]
fn intervals_of_instructions_are_each_threads() {
    let text = printed("-indir thr -tool basic_counts -interval_instr_count 20000");
    let (heads, blocks) = intervals(&text);
    assert_eq!(heads, "unmerged per-shard interval results:\nCounts per trace interval for TID 5747:\n");
    assert_eq!(blocks[0], ("Interval #1 ending at timestamp 13439646279989382:".to_owned(), 20000));
    assert_eq!(blocks.iter().map(|block| block.1).collect::<Vec<_>>(), [20000, 19404, 8283, 8283, 8283]);
    let (whole, _) = text.split_once("Printing ").unwrap();
    let separator = format!("\n{}\n", "=".repeat(75));
    assert_eq!(whole, printed("-indir thr -tool basic_counts") + &separator);
    assert!(!text.contains("interval delta unique"));
    // One line after each thread.
    assert_eq!(text.matches(&separator).count(), 1 + 4);
    assert!(text.ends_with(&separator));
}

/// The text that DynamoRIO's own test `interval-opcode-mix-output` expects, except for numbers of operations.
#[test]
fn intervals_of_operations_list_the_most_frequent_three() {
    let text = printed("-indir tiny.func -tool opcode_mix:reuse_time -interval_instr_count 5K");
    let (_, intervals) = text.split_once("Printing unmerged per-shard interval results:\n").unwrap();
    let mut lines = intervals.lines();
    assert_eq!(lines.next(), Some("There were 2 intervals created."));
    for end in [5120, 5952] {
        let head = lines.next().unwrap();
        assert!(head.contains(&format!(" ending at instruction {end} has ")), "{head}");
        assert!(head.ends_with(" categories."), "{head}");
        for what in ["Opcode: ", "Category="] {
            for rank in 1..=3 {
                let line = lines.next().unwrap();
                assert!(line.starts_with(&format!("   [{rank}] {what}")), "{line}");
                assert!(line.contains(" Count=") && line.contains(" PKI="), "{line}");
            }
        }
    }
    // Reuse times have no intervals.
    let separator = format!("\n{}", "=".repeat(75));
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), [separator.as_str(); 2].join("\n"));
}

#[test]
fn tools_without_intervals_leave_their_separators() {
    let text = printed("-indir tiny.func -tool syscall_mix:basic_counts -interval_microseconds 1000");
    let separator = format!("\n{}\n", "=".repeat(75));
    let (_, intervals) = text.split_once("Printing whole-trace interval results:\n").unwrap();
    assert!(
        intervals.starts_with(&(separator + "Counts per trace interval for whole trace:\n")),
        "{intervals}"
    );
}

/// The numbers of instructions at the ends of views and mixes.
fn n_shown(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.split_once(" : total "))
        .filter(|(_, what)| what.ends_with("instructions"))
        .map(|(count, _)| count.trim())
        .collect()
}

/// DynamoRIO's own tests `all-early` and `all-early-instrs`.
#[test]
fn limits_of_records_and_instructions_end_all_tools() {
    let args = "-infile allasm/drmemtrace.allasm_x86_64.trace.zip -tool view:opcode_mix -skip_instrs 10";
    assert_eq!(n_shown(&printed(&format!("{args} -exit_after_records 5"))), ["3", "3"]);
    assert_eq!(n_shown(&printed(&format!("{args} -exit_after_instrs 5"))), ["5", "5"]);
    let args = args.replace("view:opcode_mix", "basic_counts");
    let text = printed(&format!("{args} -exit_after_records 5"));
    // The first two records are those that the skip repeats, with numbers of their own.
    assert!(text.contains("\n           3 total (fetched) instructions\n"), "{text}");
    assert!(text.contains("\n           2 total timestamp + cpuid markers\n"), "{text}");
}

#[test]
fn instructions_are_skipped_and_counted_in_each_thread() {
    let text = printed("-indir thr -tool basic_counts -skip_instrs 1000 -exit_after_instrs 500");
    let counts: Vec<&str> = text
        .lines()
        .filter(|line| line.ends_with(" (fetched) instructions") && !line.contains("unique"))
        .collect();
    let of_thread = "         500 (fetched) instructions";
    assert_eq!(
        counts,
        ["        2000 total (fetched) instructions", of_thread, of_thread, of_thread, of_thread]
    );
    // A view interleaves the threads, and numbers records from the first that it shows.
    let text = printed("-indir thr -tool view -skip_instrs 1000 -exit_after_instrs 500");
    assert_eq!(n_shown(&text), ["2000"]);
    let first = text.lines().find(|line| line.contains("ifetch")).unwrap();
    assert_eq!(first.split_whitespace().nth(1), Some("1:"), "{first}");
}

#[test]
fn records_are_skipped_and_counted_in_each_thread_unless_threads_are_interleaved() {
    let counts = |jobs: &str| {
        let text = printed(&format!(
            "-indir thr -tool basic_counts -skip_records 10 -exit_after_records 300 {jobs}"
        ));
        let line = text.lines().find(|line| line.ends_with(" total threads")).unwrap();
        line.trim().split_once(' ').unwrap().0.to_owned()
    };
    assert_eq!((counts("").as_str(), counts("-jobs 0").as_str()), ("4", "1"));
}

#[test]
fn a_thread_that_is_shorter_than_the_skip_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_quipu"))
        .current_dir(traces())
        .args(["as", "drmemtrace", "-indir", "thr", "-tool", "basic_counts", "-skip_instrs", "10000"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: thread 5750 has no instruction after the first 10000"), "{text}");
}

#[test]
fn test_mode_checks_as_well() {
    let text = printed("-indir allasm -tool histogram -test_mode");
    assert!(text.ends_with("\nTrace invariant checks passed\n"), "{text}");
}

#[test]
fn intervals_of_time_are_the_whole_traces_and_end_at_multiples() {
    let (heads, blocks) =
        intervals(&printed("-indir tiny.func -tool basic_counts -interval_microseconds 1000"));
    assert_eq!(heads, "whole-trace interval results:\nCounts per trace interval for whole trace:\n");
    let ends = [13439646279486000u64, 13439646279487000, 13439646279488000];
    let expected: Vec<_> = (1..)
        .zip(ends.into_iter().zip([5941, 5, 6]))
        .map(|(i, (end, instrs))| (format!("Interval #{i} ending at timestamp {end}:"), instrs))
        .collect();
    assert_eq!(blocks, expected);
}

#[test]
fn caches_with_each_thread_on_a_core() {
    let args = "-indir threadsig.x64 -tool cache_simulator -no_core_serial";
    check(args, "cache.threadsig.thread_sharded.txt", exact);
    check("-indir threadsig.x64 -no_core_serial", "cache.threadsig.thread_sharded.txt", exact);
}

#[test]
fn coherent_caches() {
    let args = "-indir threadsig.x64 -tool cache_simulator -no_core_serial -coherence";
    check(args, "cache.threadsig.coherent.txt", exact);
}

#[test]
fn inclusive_coherent_caches_of_a_configuration() {
    let args = "-indir threadsig.x64 -tool cache_simulator -no_core_serial \
                -config_file golden/hierarchy-coherent-inclusive.conf";
    check(args, "cache.threadsig.hierarchy-coherent-inclusive.txt", exact);
}

#[test]
fn exclusive_caches_of_a_configuration() {
    let args = "-indir threadsig.x64 -tool cache_simulator -no_core_serial \
                -config_file golden/hierarchy-exclusive.conf";
    check(args, "cache.threadsig.hierarchy-exclusive.txt", exact);
}

#[test]
fn tlbs_with_each_thread_on_a_core() {
    check("-indir threadsig.x64 -tool TLB_simulator -no_core_serial", "tlb.threadsig.txt", exact);
}

/// One line per miss of the last cache in the golden that is not from a prefetcher.
#[test]
fn the_miss_file_has_each_miss_of_the_last_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("misses.gz");
    let args = format!("-indir threadsig.x64 -no_core_serial -LL_miss_file {}", path.display());
    check(&args, "cache.threadsig.thread_sharded.txt", exact);
    let mut text = String::new();
    let mut file = flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap());
    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
    let is_whole = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        let is_hex =
            |word: &&str| word.strip_prefix("0x").is_some_and(|hex| u64::from_str_radix(hex, 16).is_ok());
        words.len() == 3 && words[0].parse::<u64>().is_ok() && words[1..].iter().all(is_hex)
    };
    assert!(text.lines().all(is_whole), "{text}");
    assert_eq!(text.lines().count(), 1546);
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 1, "nothing unfinished is left");
}

#[test]
fn loads_at_a_steady_distance_are_hints_in_text_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hints.csv");
    let text = printed(&format!("-indir as_traced -tool miss_analyzer -LL_miss_file {}", path.display()));
    let (head, hints) = text.split_once('\n').unwrap();
    assert_eq!(head, "Cache miss analyzer results:");
    let as_text = |row: &str| {
        let [pc, stride, locality] = row.split(',').collect::<Vec<_>>()[..] else { panic!("{row}") };
        format!("pc={pc}, stride={stride}, locality={locality}\n")
    };
    let file = std::fs::read_to_string(&path).unwrap();
    assert_eq!(file.lines().map(as_text).collect::<String>(), hints);
    let address = |row: &str| u64::from_str_radix(&row[2..row.find(',').unwrap()], 16).unwrap();
    let addresses: Vec<u64> = file.lines().map(address).collect();
    assert!(addresses.len() > 5 && addresses.is_sorted(), "{addresses:x?}");
}

#[test]
fn results_of_several_tools_are_kept_apart() {
    let separator = format!("\n{}\n", "=".repeat(75));
    let expected =
        golden("basic_counts.multiwin.txt") + &separator + &printed("-indir tiny.multiwin -tool histogram");
    assert_eq!(printed("-indir tiny.multiwin -tool basic_counts:histogram"), expected);
}

#[test]
fn records_come_before_the_results_of_all_tools() {
    let view = printed("-indir allasm -tool view");
    let (records, end) = view.split_at(view.find("View tool results:").unwrap());
    let histogram = printed("-indir allasm -tool histogram");
    let expected = format!("{records}{histogram}\n{}\n{end}", "=".repeat(75));
    assert_eq!(printed("-indir allasm -tool histogram:view"), expected);
}

/// The same trace three times, as in DynamoRIO's own test `multi_indir`.
#[test]
fn several_traces_are_workloads_of_one() {
    let text = printed("-multi_indir thr:thr:thr -tool basic_counts");
    let total = |what: &str| {
        let line = text.lines().find(|line| line.ends_with(&format!(" total {what}"))).unwrap();
        line.trim().split_once(' ').unwrap().0.parse::<u64>().unwrap()
    };
    assert_eq!((total("(fetched) instructions"), total("threads")), (3 * 64_253, 12));
    let of_workload = |workload: u64| format!("Thread {} counts:", workload << 48 | 5747);
    assert!((0..3).all(|workload| text.contains(&of_workload(workload))), "{text}");
    let view = printed("-multi_indir tiny.gz:tiny.gz -tool view -exit_after_records 10000");
    assert!(view.contains(" W0.T5701 ") && view.contains(" W1.T5701 "));
}

#[test]
fn functions_of_several_traces_have_their_own_names() {
    let text = printed("-multi_indir func-trace:tiny.func -tool func_view");
    let summary = |of: &str| printed(of).split_once("Function view tool results:\n").unwrap().1.to_owned();
    let (first, second) =
        (summary("-indir func-trace -tool func_view"), summary("-indir tiny.func -tool func_view"));
    let text = text.split_once("Function view tool results:\n").unwrap().1;
    let mut found: Vec<&str> = text.split_inclusive("returns\n").collect();
    let second = second.replace("Function id=", "Function id=W1.");
    let mut expected: Vec<&str> =
        first.split_inclusive("returns\n").chain(second.split_inclusive("returns\n")).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// The text of each line after its numbers and thread. Around window markers, DynamoRIO loses these lines or prints them
/// twice, and also draws its separator too late, or twice.
fn details(text: &str) -> Vec<String> {
    let is_word = |word: &str| {
        word.starts_with("W0.T") || word.trim_end_matches(':').parse::<u64>().is_ok() && !word.is_empty()
    };
    let detail = |line: &str| {
        let mut rest = line.trim_start();
        while let Some((word, behind)) = rest.split_once(' ')
            && is_word(word)
        {
            rest = behind.trim_start();
        }
        // For a flush, DynamoRIO prints bytes of the preceding instruction as its address.
        match rest.split_once(" by PC ") {
            Some((flush, _)) if rest.starts_with("dflush") => flush.to_owned(),
            _ => rest.to_owned(),
        }
    };
    without_disassembly(text).lines().map(detail).filter(|detail| !detail.starts_with("----")).collect()
}

#[test]
fn view_of_windows_but_for_the_originals_defects() {
    let found = details(&printed("-indir tiny.multiwin -tool view"));
    let golden = golden("view.tiny.multiwin.excerpt.txt");
    let (start, end) = golden.split_once("[... 7560 lines left out ...]\n").unwrap();
    let (start, end) = (details(start), details(end));
    assert_eq!(found[..start.len()], start);
    assert_eq!(found[found.len() - end.len()..], end);
}
