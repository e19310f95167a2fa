//! Comparison with the output of DynamoRIO's own tools on real traces.
//!
//! `traces/drmemtrace/facts.json` and `golden/` were printed by DynamoRIO's tools; see traces/README.md.

// The helpers of a test may panic as the test may.
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::table::{ENTRIES_TABLE, MEMREFS_TABLE, to_bytes};
use quipu_drmemtrace::tools::counts::{COUNTS, Counts, CountsReport};
use quipu_drmemtrace::trace::DrmemTrace;
use quipu_model::pass::Detail;
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Columns, DynPass, Format, OpenOptions, Options, Paint, Report, Scan, ShardId, Tool, Trace, Window,
};
use quipu_source::{Source, StreamOptions};
use quipu_testkit::fixtures;
use serde_json::json;
use std::path::PathBuf;

fn traces() -> PathBuf {
    fixtures("drmemtrace")
}

fn facts() -> serde_json::Map<String, serde_json::Value> {
    let text = std::fs::read_to_string(traces().join("facts.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn open(name: &str, options: &OpenOptions) -> Box<dyn Trace> {
    let source = Source::open(&traces().join(name)).unwrap();
    DRMEMTRACE.open(&source, options).unwrap()
}

/// Runs `counts` piece by piece, as the engine does, and fails on any finding.
fn counts(trace: &dyn Trace) -> CountsReport {
    let empty = COUNTS.build(&Options::default(), trace).unwrap();
    let mut sum: Option<Box<dyn DynPass>> = None;
    for shard in trace.shards() {
        for piece in 0..shard.pieces {
            let mut pass = empty.fork(shard);
            let scan = Scan { pieces: Some(piece..piece + 1), ..Scan::new(shard.id).columns(Columns::RAW) };
            let mut reader = trace.scan(&scan).unwrap();
            while let Some(batch) = reader.read().unwrap() {
                assert_eq!(batch.findings, [], "{}", shard.name);
                pass.consume(batch).unwrap();
            }
            match &mut sum {
                Some(sum) => sum.merge(pass).unwrap(),
                None => sum = Some(pass),
            }
        }
    }
    sum.unwrap().finish().unwrap().as_any().downcast_ref::<CountsReport>().unwrap().clone()
}

/// The names that DynamoRIO prints, with our counts.
fn named(counts: &Counts) -> Vec<(&'static str, u64)> {
    vec![
        ("(fetched) instructions", counts.instructions),
        ("unique (fetched) instructions", counts.unique_instructions),
        ("userspace instructions", counts.userspace_instructions),
        ("kernel instructions", counts.kernel_instructions),
        ("non-fetched instructions", counts.no_fetch_instructions),
        (
            "non-fetched userspace instructions",
            counts.no_fetch_instructions - counts.kernel_no_fetch_instructions,
        ),
        ("non-fetched kernel instructions", counts.kernel_no_fetch_instructions),
        ("prefetches", counts.prefetches),
        ("data loads", counts.loads),
        ("data stores", counts.stores),
        ("icache flushes", counts.instr_flushes),
        ("dcache flushes", counts.data_flushes),
        ("threads", counts.threads),
        ("timestamp + cpuid markers", counts.timestamp_cpu_markers),
        ("idle markers", counts.idle_markers),
        ("wait markers", counts.wait_markers),
        ("kernel transfer markers", counts.kernel_transfer_markers),
        ("hardware transfer markers", counts.hardware_transfer_markers),
        ("function id markers", counts.function_id_markers),
        ("function return address markers", counts.function_return_address_markers),
        ("function argument markers", counts.function_argument_markers),
        ("function return value markers", counts.function_return_value_markers),
        ("physical address + virtual address marker pairs", counts.physical_address_pairs),
        ("physical address unavailable markers", counts.physical_address_unavailable_markers),
        ("system call number markers", counts.system_call_markers),
        ("blocking system call markers", counts.blocking_system_call_markers),
        ("skipped memref markers", counts.skipped_memref_markers),
        ("other markers", counts.other_markers),
        ("encodings", counts.encodings),
    ]
}

#[test]
fn counts_of_every_fixture_equal_the_originals() {
    let mut n_compared = 0;
    for (name, facts) in facts() {
        let report = counts(open(&name, &OpenOptions::default()).as_ref());
        let ours = named(&report.total);
        let theirs = facts["basic_counts_total"].as_object().unwrap();
        for (what, expected) in theirs {
            if let Some((_, count)) = ours.iter().find(|(known, _)| known == what) {
                assert_eq!(Some(*count), expected.as_u64(), "{name}: {what}");
                n_compared += 1;
            } else {
                panic!("{name}: DynamoRIO counts `{what}`, which this test does not know");
            }
        }
        for (tid, expected) in facts["per_shard"].as_object().unwrap() {
            let part = report
                .shards
                .iter()
                .find(|part| {
                    part.thread.map(|tid| tid.to_string()).as_deref() == Some(tid)
                        || part.core.map(|core| core.to_string()).as_deref() == Some(tid)
                })
                .unwrap_or_else(|| panic!("{name}: no shard {tid}"));
            let ours = named(&part.counts);
            for (what, expected) in expected.as_object().unwrap() {
                let (_, count) = ours.iter().find(|(known, _)| known == what).unwrap();
                assert_eq!(Some(*count), expected.as_u64(), "{name}: {tid}: {what}");
            }
        }
    }
    assert!(n_compared > 500, "only {n_compared} numbers were compared");
}

#[test]
fn instructions_before_filtering_are_those_that_the_markers_count() {
    let filtered = counts(open("tiny.ifiltered", &OpenOptions::default()).as_ref());
    assert_eq!((filtered.total.instructions, filtered.executed_instructions), (6, Some(5990)));
    assert_eq!(filtered.shards[0].executed_instructions, Some(5990));
    let shown = format!("{:?}", filtered.document(Detail::Full));
    assert!(shown.contains("executed instructions, before filtering") && shown.contains("5990"), "{shown}");
    let whole = counts(open("tiny.plain", &OpenOptions::default()).as_ref());
    assert_eq!((whole.executed_instructions, whole.shards[0].executed_instructions), (None, None));
    assert!(whole.json().get("executed_instructions").is_none());
}

#[test]
fn entries_and_visible_records_of_every_fixture_equal_the_facts() {
    for (name, facts) in facts() {
        let trace = open(&name, &OpenOptions::default());
        let (mut entries, mut records, mut instrs) = (0u64, 0u64, 0u64);
        for shard in trace.shards() {
            let scan = Scan { tables: vec![ENTRIES_TABLE], ..Scan::new(shard.id) };
            let mut reader = trace.scan(&scan).unwrap();
            while let Some(batch) = reader.read().unwrap() {
                entries += batch.tables[0].n_rows() as u64;
                records += u64::from(batch.span.records);
                instrs += u64::from(batch.span.instrs);
                assert_eq!(batch.findings, [], "{name}");
            }
        }
        assert_eq!(Some(entries), facts["entries"].as_u64(), "{name}: entries");
        assert_eq!(Some(records), facts["visible_records"].as_u64(), "{name}: visible records");
        assert_eq!(Some(instrs), facts["instrs"].as_u64(), "{name}: instructions");
    }
}

#[test]
fn files_of_every_fixture_are_what_the_facts_say() {
    for (name, facts) in facts() {
        let trace = open(&name, &OpenOptions::default());
        let files = trace.as_any().unwrap().downcast_ref::<DrmemTrace>().unwrap().files();
        assert_eq!(json!(files.len()), facts["files"], "{name}: files");
        assert_eq!(json!(trace.meta().packed_bytes), facts["bytes"], "{name}: bytes");
        let chunks: usize = files.iter().map(|file| file.container.members().len()).sum();
        assert_eq!(json!(chunks), facts["chunks"], "{name}: chunks");
        let mut versions: Vec<_> = files.iter().map(|file| json!(file.header.version)).collect();
        versions.dedup();
        assert_eq!(json!(versions), facts["versions"], "{name}: versions");
        let mut filetypes: Vec<_> =
            files.iter().map(|file| json!(format!("{:#x}", file.header.filetype.0))).collect();
        filetypes.dedup();
        filetypes.retain(|filetype| filetype != "0x0");
        assert_eq!(json!(filetypes), facts["filetypes"], "{name}: file types");
    }
}

#[test]
fn bytes_to_rows_to_bytes_is_the_identity_on_every_fixture() {
    for (name, _) in facts() {
        let trace = open(&name, &OpenOptions::default());
        for shard in trace.shards() {
            let container = Source::open(shard.name.as_ref()).unwrap().container().unwrap();
            let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
            let (mut block, mut expected) = (Vec::new(), Vec::new());
            while stream.next(&mut block).unwrap().is_some() {
                expected.extend_from_slice(&block);
            }
            let scan = Scan { tables: vec![ENTRIES_TABLE], ..Scan::new(shard.id) };
            let mut reader = trace.scan(&scan).unwrap();
            let mut bytes = Vec::new();
            while let Some(batch) = reader.read().unwrap() {
                bytes.extend(to_bytes(&*batch.tables[0]).unwrap());
            }
            assert!(bytes == expected, "{name}: {}", shard.name);
        }
    }
}

/// The lines that `view` prints for one shard.
fn view(trace: &dyn Trace, shard: u32, window: Window) -> String {
    let scan = Scan { tables: vec![MEMREFS_TABLE], window, ..Scan::new(ShardId(shard)) };
    let mut reader = trace.scan(&scan).unwrap();
    let mut printer = trace.printer(&PrintOptions::default()).unwrap();
    let mut out = Vec::new();
    printer.begin(&mut out);
    while let Some(batch) = reader.read().unwrap() {
        assert_eq!(batch.findings, []);
        let rows: Vec<u32> = (0..batch.tables[0].n_rows() as u32).collect();
        printer.print(batch, &rows, Ordinals::default(), &Paint::PLAIN, &mut out);
    }
    printer.end(&mut out);
    String::from_utf8(out).unwrap()
}

/// Drops text that depends on the disassembler: the text between the bytes of an instruction and the trace's own remarks.
fn without_text(view: &str) -> Vec<String> {
    view.lines()
        .map(|line| {
            let Some(at) = line.find(" byte(s) @ 0x").filter(|_| line.contains("fetch")) else {
                return line.trim_end().to_owned();
            };
            let bytes_at = at + 13 + 16 + 1;
            let bytes: String = line[bytes_at..].chars().take(20).collect();
            // Words such as `non-branch` take the place of missing bytes.
            let bytes = if bytes.starts_with(|c: char| c.is_ascii_hexdigit()) {
                bytes.trim_end()
            } else {
                &line[bytes_at..]
            };
            let remark = line.rfind(" (").filter(|at| line.ends_with(')') && is_remark(&line[*at..]));
            format!("{}{}{}", &line[..bytes_at], bytes, remark.map_or("", |at| &line[at..]))
        })
        .collect()
}

fn is_remark(text: &str) -> bool {
    [" (taken)", " (untaken)"].contains(&text) || text.starts_with(" (target 0x")
}

fn golden(name: &str) -> String {
    std::fs::read_to_string(traces().join("golden").join(name)).unwrap()
}

fn assert_same_lines(ours: &str, theirs: &str, n_lines: usize, what: &str) {
    let (ours, theirs) = (without_text(ours), without_text(theirs));
    let n = theirs.len().min(n_lines);
    assert!(n > 10, "{what}: the golden has only {n} lines");
    for i in 0..n {
        assert_eq!(ours.get(i), theirs.get(i), "{what}: line {}", i + 1);
    }
}

#[test]
fn view_of_a_legacy_file_equals_the_originals_line_for_line() {
    let trace = open("small", &OpenOptions::default());
    assert_eq!(view(trace.as_ref(), 0, Window::All), golden("view.small.txt"));
    let trace = open(
        "legacy-for-record-filter",
        &OpenOptions { threads: vec![10510.into()], ..OpenOptions::default() },
    );
    // The golden stops after 400 records.
    let ours = view(trace.as_ref(), 0, Window::Records(0..400));
    assert_same_lines(&ours, &golden("view.legacy-10510.txt"), usize::MAX, "legacy");
}

#[test]
fn view_has_the_columns_of_the_original() {
    for (name, file, n_lines) in [
        ("mock_syscall", "view.mock_syscall.txt", usize::MAX),
        ("tiny.func", "view.tiny.func.first120.txt", 120),
        ("tiny.ifiltered", "view.tiny.ifiltered.first120.txt", 120),
    ] {
        let trace = open(name, &OpenOptions::default());
        assert_same_lines(&view(trace.as_ref(), 0, Window::All), &golden(file), n_lines, name);
    }
}

#[test]
fn view_of_dependencies_equals_the_originals_line_for_line() {
    let trace = open("threadsig.regdeps", &OpenOptions::default());
    let ours = view(trace.as_ref(), 0, Window::Records(0..100));
    for (i, (ours, theirs)) in
        ours.lines().zip(golden("view.regdeps.first100.txt").lines()).take(100).enumerate()
    {
        assert_eq!(ours.trim_end(), theirs.trim_end(), "line {}", i + 1);
    }
}

#[test]
fn skipping_instructions_numbers_the_repeated_clock_as_the_original_does() {
    let trace = open("allasm", &OpenOptions::default());
    for (skip, file) in [(62, "view.allasm.skip62.txt"), (63, "view.allasm.skip63.txt")] {
        let ours = view(trace.as_ref(), 0, Window::Instrs(skip..u64::MAX));
        let theirs = golden(file);
        let n = theirs.lines().filter(|line| line.contains(": ")).count();
        assert_same_lines(&ours, &theirs, n, file);
    }
}

#[test]
fn a_window_shows_the_same_records_as_reading_from_the_start() {
    for name in ["allasm", "tiny.chunk1000", "as_traced", "tiny.gz"] {
        let trace = open(name, &OpenOptions::default());
        let all = view(trace.as_ref(), 0, Window::All);
        let lines = |text: &str| -> Vec<String> {
            text.lines()
                .filter(|line| line.len() > 26 && &line[24..26] == ": " && line.starts_with(' '))
                .map(str::to_owned)
                .collect()
        };
        let all = lines(&all);
        let record = |line: &String| line[..12].trim().parse::<u64>().ok();
        for start in [0, 1, 39, 40, 41, 100, 200] {
            let window = lines(&view(trace.as_ref(), 0, Window::Records(start..start + 50)));
            let expected: Vec<String> = all
                .iter()
                .filter(|line| record(line).is_some_and(|n| n > start && n <= start + 50))
                .cloned()
                .collect();
            assert_eq!(window, expected, "{name}: from record {start}");
        }
    }
}
