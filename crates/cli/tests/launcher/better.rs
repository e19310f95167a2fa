//! Cases in which DynamoRIO's tools are wrong or leave an order open, and ours are not: small traces with the correct
//! results.

use super::{
    BRANCH_TARGET, CHUNK_FOOTER, Head, archive, clock, coded, entry, head, launch, marker, misses, nops,
    printed, put, put_schedule, quipu, seam, tail, told,
};
use std::path::Path;

/// Columns of the records that `view` prints: ordinal, instructions, thread, and the rest as one.
fn records(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains(" W0.T"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

/// The value before this name in the block after `head`.
fn count(text: &str, head: &str, name: &str) -> u64 {
    let block = text.split(head).nth(1).unwrap_or_else(|| panic!("{head}: {text}"));
    let line = block.lines().find(|line| line.trim_end().ends_with(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Complete output of a verb that finds something wrong.
fn found(folder: &Path, args: &str) -> String {
    let output = quipu(folder, args);
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{args}: {text}");
    text
}

/// The number after this label for the first cache with this name.
fn of_cache(text: &str, cache: &str, label: &str) -> u64 {
    let block = text.split(&format!("  {cache} (")).nth(1).unwrap_or_else(|| panic!("{cache}: {text}"));
    let line = block.lines().find(|line| line.trim_start().starts_with(label)).unwrap();
    line.split_whitespace().last().unwrap().parse().unwrap()
}

#[test]
fn equally_frequent_lines_are_listed_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let reads = [0x9000, 0x7000, 0x8000].map(|addr| entry(0, 8, addr)).to_vec();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), reads, tail(10)]);
    let text = printed(folder.path(), "-indir . -tool histogram -report_top 2");
    let listed: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("dcache top")).skip(1).collect();
    let listed: Vec<&str> = listed.into_iter().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(listed, ["0x7000: 1", "0x8000: 1"], "{text}");
}

#[test]
fn a_flush_has_its_own_instruction() {
    let folder = tempfile::tempdir().unwrap();
    // Flushes of 64 bytes each, and one that takes two entries.
    let flushes =
        vec![entry(20, 64, 0x7000), entry(18, 64, 0x8000), entry(20, 0, 0x7000), entry(21, 0, 0x27000)];
    let flush = coded(10, 0x1001, &[0x0f, 0xae, 0x38]);
    let parts = [head(10, 1000, None), nops(0x1000, 1), flush, flushes, nops(0x1004, 1), tail(10)];
    put(folder.path(), "a.trace", &parts);
    let text = printed(folder.path(), "-indir . -tool view");
    let flushes: Vec<String> = records(&text).into_iter().filter(|line| line.contains(" by PC ")).collect();
    let line = |n: u64, what: &str| format!("{n} 2: W0.T10 {what} by PC 0x0000000000001001");
    assert_eq!(
        flushes,
        [
            line(10, "dflush 64 byte(s) @ 0x0000000000007000"),
            line(11, "iflush 64 byte(s) @ 0x0000000000008000"),
            line(12, "dflush 131072 byte(s) @ 0x0000000000007000"),
        ],
        "{text}"
    );
}

#[test]
fn records_beside_a_change_of_window_have_lines_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [head(10, 1000, Some(0)), nops(0x1000, 1), clock(1300, Some(1)), nops(0x1001, 1), tail(10)];
    put(folder.path(), "a.trace", &parts);
    let text = printed(folder.path(), "-indir . -tool view");
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.ends_with("<marker: timestamp 1300>")).unwrap();
    assert_eq!(lines[at - 1], "-".repeat(60), "{text}");
    assert_eq!(
        records(&lines[at..at + 3].iter().map(|line| format!(" {line}\n")).collect::<String>()),
        [
            "10 1: W0.T10 <marker: timestamp 1300>",
            "11 1: W0.T10 <marker: window 1>",
            "12 1: W0.T10 <marker: W0.T10 on core 0>"
        ],
        "{text}"
    );
}

#[test]
fn a_limit_of_instructions_invents_no_exit() {
    let folder = tempfile::tempdir().unwrap();
    for (name, tid) in [("a.trace", 10), ("b.trace", 11)] {
        put(folder.path(), name, &[head(tid, 1000, None), nops(0x1000, 3), tail(tid)]);
    }
    let text = printed(folder.path(), "-indir . -tool view -exit_after_instrs 2");
    assert!(!text.contains("exited"), "{text}");
    assert_eq!(count(&text, "View tool results:\n", ": total instructions"), 4, "{text}");
    // A thread that ends within the limit is shown to end.
    let text = printed(folder.path(), "-indir . -tool view -exit_after_instrs 4");
    assert_eq!(text.matches("exited").count(), 2, "{text}");
}

#[test]
fn a_skip_brings_no_kernel_lines() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 3), tail(10)]);
    let text = printed(folder.path(), "-indir . -tool basic_counts -skip_instrs 1");
    assert_eq!(count(&text, "Total counts:\n", " total (fetched) instructions"), 2);
    for words in ["userspace", "kernel instructions", "hardware transfer"] {
        assert!(!text.contains(words), "{words}: {text}");
    }
}

/// `repe movsb` has three destinations and five sources, and uses the 16 bytes at which DynamoRIO's reader stops.
#[test]
fn dependencies_of_16_bytes_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let accesses = vec![entry(0, 1, 0x7000), entry(1, 1, 0x8000)];
    let parts = [head(10, 1000, None), coded(10, 0x1000, &[0xf3, 0xa4]), accesses, nops(0x1002, 2), tail(10)];
    put(folder.path(), "a.trace", &parts);
    printed(folder.path(), "-tool record_filter -infile a.trace -outdir out -filter_encodings2regdeps");
    let text = printed(folder.path(), "-infile out/a.trace -tool view");
    let at = text.lines().position(|line| line.contains("@ 0x0000000000001000 ")).unwrap();
    let words = |line: &str| {
        let is_word = |word: &&str| word.len() == 8 && u32::from_str_radix(word, 16).is_ok();
        line.split_whitespace().filter(is_word).count()
    };
    let found: usize = text.lines().skip(at).take(2).map(words).sum();
    assert_eq!(found, 4, "{text}");
    assert_eq!(count(&text, "View tool results:\n", ": total instructions"), 3, "{text}");
}

#[test]
fn what_is_no_violation_is_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    // vgatherqpd %ymm4,(%rax,%ymm1,8),%ymm0 reads four elements.
    let gather = coded(10, 0x1000, &[0xc4, 0xe2, 0xdd, 0x91, 0x04, 0xc8]);
    let elements = (0..4).map(|n| entry(0, 8, 0x7000 + 8 * n)).collect();
    put(folder.path(), "a.trace", &[head(10, 1000, None), gather, elements, nops(0x1006, 1), tail(10)]);
    // Empty schedule files, as left by a conversion to bare files.
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::fs::write(folder.path().join("serial_schedule.bin.gz"), gzip.finish().unwrap()).unwrap();
    archive(&folder.path().join("cpu_schedule.bin.zip"), &[]);
    let passed = "Trace invariant checks passed\n";
    assert_eq!(printed(folder.path(), "-indir . -tool invariant_checker"), passed);
    let output = quipu(folder.path(), "check .");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let samples = quipu_testkit::fixtures("drmemtrace");
    for name in ["tiny.ifiltered", "tiny.instronly"] {
        assert_eq!(printed(&samples, &format!("-indir {name} -tool invariant_checker")), passed, "{name}");
    }
}

/// DynamoRIO subtracts the warm-up's records from the number to simulate: of 99 it simulates none, of 109 ten.
#[test]
fn records_to_simulate_are_counted_from_the_end_of_the_warm_up() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 300), tail(10)]);
    for n in [99, 109] {
        let args = format!("-indir . -no_core_serial -warmup_refs 100 -sim_refs {n}");
        let text = printed(folder.path(), &args);
        let of = |label: &str| of_cache(&text, "L1I0", label);
        assert_eq!(of("Hits:") + of("Misses:"), n, "{text}");
    }
}

/// The tracer's entries for entering a function with one argument.
fn enters(arg: u64) -> Vec<Vec<u8>> {
    vec![marker(4, 1), marker(5, 0x1234), marker(6, arg)]
}

#[test]
fn a_call_of_each_thread_has_a_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("funclist.log"), "1,1,0x10,lib!f\n").unwrap();
    let returns = vec![marker(4, 1), marker(7, 9)];
    let first = [
        head(10, 1000, None),
        nops(0x1000, 1),
        enters(5),
        clock(3000, None),
        nops(0x2000, 1),
        returns,
        tail(10),
    ];
    put(folder.path(), "a.trace", &first);
    put(folder.path(), "b.trace", &[head(11, 2000, None), nops(0x1000, 1), enters(6), tail(11)]);
    let text = printed(folder.path(), "-indir . -tool func_view");
    let lines: Vec<&str> = text.lines().take_while(|line| line.starts_with('T')).collect();
    let lines: Vec<String> =
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        ["T10 0x1234 => lib!f(0x5)", "T11 0x1234 => lib!f(0x6) <no return>", "T10 => 0x9"],
        "{text}"
    );
}

/// A thread runs three instructions on one processor and two on another. DynamoRIO moves it before the third.
#[test]
fn threads_change_where_the_schedule_says() {
    let folder = tempfile::tempdir().unwrap();
    let moves = vec![marker(2, 2000), marker(3, 1)];
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 3), moves, nops(0x1003, 2), tail(10)]);
    put_schedule(
        &folder.path().join("cpu_schedule.bin.zip"),
        &[(0, &[(10, 1000, 0)]), (1, &[(10, 2000, 3)])],
    );
    let args = "-indir . -tool basic_counts -core_serial -cpu_schedule_file cpu_schedule.bin.zip -cores 2";
    let text = printed(folder.path(), args);
    let of = |core: u64| count(&text, &format!("Core {core} counts:\n"), " (fetched) instructions");
    assert_eq!((of(0), of(1)), (3, 2), "{text}");
}

/// Four sets of two ways. A flush in set 1 must not affect set 2; DynamoRIO notifies the replacement policy of another set.
#[test]
fn a_flush_leaves_other_sets_alone() {
    let folder = tempfile::tempdir().unwrap();
    let line = |set: u64, n: u64| 0x7000 + 64 * set + 256 * n;
    let read = |addr| entry(0, 8, addr);
    let data = vec![
        read(line(1, 0)),
        read(line(1, 1)),
        read(line(2, 0)),
        read(line(2, 1)),
        // The second way of set 1.
        entry(20, 64, line(1, 1)),
        // Evicts the least recently used line of set 2, which is in the first way.
        read(line(2, 2)),
        read(line(2, 1)),
    ];
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), data, tail(10)]);
    let args = "-indir . -no_core_serial -data_prefetcher none -L1D_size 512 -L1D_assoc 2";
    let text = printed(folder.path(), args);
    let of = |label: &str| of_cache(&text, "L1D0", label);
    assert_eq!((of("Hits:"), of("Misses:"), of("Flushes:")), (1, 5, 1), "{text}");
}

#[test]
fn a_miss_of_a_further_line_names_the_instruction() {
    let folder = tempfile::tempdir().unwrap();
    // Four bytes that cross a line border.
    let nop = coded(10, 0x103e, &[0x0f, 0x1f, 0x40, 0]);
    put(folder.path(), "a.trace", &[head(10, 1000, None), nop, tail(10)]);
    printed(folder.path(), "-indir . -no_core_serial -LL_miss_file misses.gz");
    assert_eq!(misses(&folder.path().join("misses.gz")), ["1,0x103e,0x103e", "1,0x103e,0x1040"]);
}

/// The copy of the first clock reading comes after two instructions; the next reading after four.
#[test]
fn a_trim_is_not_decided_at_copies_of_clock_readings() {
    let folder = tempfile::tempdir().unwrap();
    let first = Head { chunk_instrs: 2, ..Head::OF_THREAD }.entries();
    let chunks = [
        [first, nops(0x1000, 2), vec![marker(CHUNK_FOOTER, 0)]].concat(),
        [seam(10, 1000), nops(0x1002, 2), clock(2000, None), vec![marker(CHUNK_FOOTER, 1)]].concat(),
        [seam(15, 2000), nops(0x1004, 2), tail(10)].concat(),
    ];
    archive(&folder.path().join("a.trace.zip"), &chunks);
    printed(folder.path(), "-tool record_filter -infile a.trace.zip -outdir out -trim_before_instr 1");
    let text = printed(folder.path(), "-infile out/a.trace.zip -tool view");
    let shown = records(&text);
    let from = shown.iter().position(|line| line.contains("timestamp")).unwrap();
    let shown: Vec<&str> =
        shown[from..].iter().filter_map(|line| line.split_once("W0.T10 ")).map(|(_, rest)| rest).collect();
    assert_eq!(shown.len(), 6, "{text}");
    assert_eq!(shown[0], "<marker: timestamp 2000>", "{text}");
    assert!(shown[2].contains("@ 0x0000000000001004") && shown[3].contains("@ 0x0000000000001005"), "{text}");
}

/// A target at the end of a chunk belongs to the branch in the next one; also in the output of a filter.
#[test]
fn a_branch_target_crosses_the_end_of_a_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let first = Head { chunk_instrs: 2, ..Head::OF_THREAD }.entries();
    let returns = coded(16, 0x1002, &[0xc3]);
    let chunks = [
        [first, nops(0x1000, 2), vec![marker(BRANCH_TARGET, 0x1000), marker(CHUNK_FOOTER, 0)]].concat(),
        [seam(10, 1000), returns, vec![entry(0, 8, 0x7000)], nops(0x1000, 1), tail(10)].concat(),
    ];
    archive(&folder.path().join("a.trace.zip"), &chunks);
    printed(folder.path(), "-tool record_filter -infile a.trace.zip -outdir out -filter_marker_types 18");
    for path in ["a.trace.zip", "out/a.trace.zip"] {
        let text = printed(folder.path(), &format!("-infile {path} -tool view"));
        assert!(text.contains(" ret (target 0x1000)\n"), "{path}: {text}");
    }
    let mut archive =
        zip::ZipArchive::new(std::fs::File::open(folder.path().join("out/a.trace.zip")).unwrap()).unwrap();
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut archive.by_index(1).unwrap(), &mut bytes).unwrap();
    let kinds: Vec<[u16; 2]> = bytes
        .chunks(12)
        .take(6)
        .map(|entry| [[entry[0], entry[1]], [entry[2], entry[3]]].map(u16::from_le_bytes))
        .collect();
    assert_eq!(kinds, [[28, 22], [28, 2], [28, 3], [28, 29], [47, 1], [16, 1]]);
}

/// A fault that makes all numbers after a jump wrong is an error in every verb that counts that far.
#[test]
fn a_wrong_ordinal_is_an_error_wherever_it_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let first = Head { chunk_instrs: 2, ..Head::OF_THREAD }.entries();
    let chunks = [
        [first, nops(0x1000, 2), vec![marker(CHUNK_FOOTER, 0)]].concat(),
        [seam(77, 1000), nops(0x1002, 2), tail(10)].concat(),
    ];
    archive(&folder.path().join("a.trace.zip"), &chunks);
    for args in ["view", "report", "check", "analyze mix", "sim cache"] {
        let text = found(folder.path(), &format!("{args} a.trace.zip"));
        assert!(text.contains("error") && text.contains("[drmemtrace/record-ordinal]"), "{args}: {text}");
    }
    for tool in ["view", "opcode_mix", "reuse_time", "invariant_checker", "cache_simulator -no_core_serial"] {
        let text = told(folder.path(), &format!("-infile a.trace.zip -tool {tool}"), 1);
        assert_eq!(text.matches("[drmemtrace/record-ordinal]").count(), 1, "{tool}: {text}");
    }
    let output = quipu(folder.path(), "convert a.trace.zip --to cacheray -o out.trace");
    assert_eq!(output.status.code(), Some(1));
    assert!(!folder.path().join("out.trace").exists());
}

/// DynamoRIO's checker does not look for a clock reading without its processor; the error is printed next to its verdict.
#[test]
fn a_clock_reading_without_its_processor_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [head(10, 1000, None), nops(0x1000, 1), vec![marker(2, 2000)], nops(0x1001, 1), tail(10)];
    put(folder.path(), "a.trace", &parts);
    let text = found(folder.path(), "check a.trace");
    assert!(text.contains("[drmemtrace/processor-missing]"), "{text}");
    let text = told(folder.path(), "-indir . -tool invariant_checker", 1);
    assert!(text.contains("Trace invariant checks passed\n"), "{text}");
    assert!(text.contains("[drmemtrace/processor-missing]"), "{text}");
}

#[test]
fn an_empty_schedule_beside_a_filled_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 3), tail(10)]);
    put_schedule(&folder.path().join("cpu_schedule.bin.zip"), &[(0, &[(10, 1000, 0)])]);
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::fs::write(folder.path().join("serial_schedule.bin.gz"), gzip.finish().unwrap()).unwrap();
    let text = found(folder.path(), "check .");
    assert!(text.contains("serial_schedule.bin.gz"), "{text}");
    assert_eq!(launch(folder.path(), "-indir . -tool invariant_checker").status.code(), Some(1));
}
