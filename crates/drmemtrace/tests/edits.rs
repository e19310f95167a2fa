//! Edits, compared with the output of DynamoRIO's `record_filter` for the same traces, and with their own specification.

// The helpers of a test may panic as the test may.
// A part of a trace is one range.
#![allow(clippy::single_range_in_vec_init)]

use crate::rewriting;
use crate::rewriting::{assert_same, entries, members, open, rewritten};
use quipu_drmemtrace::edits::clock_trim::{ClockTrim, ClockUnit};
use quipu_drmemtrace::edits::filter::KernelCode;
use quipu_drmemtrace::edits::{Filter, FilterSpec, Position, Trim};
use quipu_drmemtrace::record::{Entry, FileType, Marker, Type};
use quipu_drmemtrace::trace::DrmemTrace;
use quipu_drmemtrace::write::{NoEdit, Sharding, WriteOptions, reshard};
use quipu_model::transform::Silent;
use quipu_model::{OpenOptions, Scan, ShardId, Trace};
use quipu_source::{PackOptions, Packing, Source};
use std::collections::HashSet;
use std::sync::Arc;

fn shard_of(trace: &DrmemTrace, tid: u64) -> usize {
    trace.files().iter().position(|file| file.header.tid == tid).unwrap()
}

fn filtered(trace: &DrmemTrace, shard: usize, spec: FilterSpec) -> Source {
    let filter = Filter::new(Arc::new(spec), trace.files()[shard].header.filetype).unwrap();
    rewritten(trace, shard, filter, &WriteOptions::new())
}

/// Checks that our filter's output equals DynamoRIO's, member by member.
fn check_against(name: &str, tid: u64, spec: FilterSpec, expected: &str) {
    let (_, trace) = open(name);
    let found =
        members(&filtered(&trace, shard_of(&trace, tid), FilterSpec { original_layout: true, ..spec }));
    let (_, golden) = open(expected);
    let golden = members(golden.files()[shard_of(&golden, tid)].container.source());
    assert_eq!(found.len(), golden.len(), "{expected}: members");
    for (found, golden) in found.iter().zip(&golden) {
        assert_same(&found.1, &golden.1, &format!("{expected}, {}", golden.0));
    }
}

const ALLASM: u64 = 1_992_554;

#[test]
fn trimming_at_clock_readings_equals_the_original() {
    let trim = ClockTrim::new(ClockUnit::Timestamps, 13_352_268_558_646_120, 13_352_268_558_646_661).unwrap();
    let spec = FilterSpec { trim: Some(trim), ..FilterSpec::default() };
    check_against("allasm", ALLASM, spec, "allasm.trim_timestamp");
}

#[test]
fn trimming_by_instructions_leaves_as_many_entries_as_the_original() {
    let (_, trace) = open("allasm");
    let trim = ClockTrim::new(ClockUnit::Instrs, 31, 65).unwrap();
    let spec = FilterSpec { trim: Some(trim), original_layout: true, ..FilterSpec::default() };
    assert_eq!(entries(&filtered(&trace, 0, spec)).len(), 104);
}

/// The first entries of a file of thread 10, up to its first clock reading.
fn header(chunk_instrs: u64) -> [Entry; 8] {
    [
        Entry::new(Type::HEADER, 0, 7),
        Entry::marker(Marker::VERSION, 7),
        Entry::marker(Marker::FILETYPE, 0xe40),
        Entry::new(Type::THREAD, 4, 10),
        Entry::new(Type::PID, 4, 1),
        Entry::marker(Marker::CACHE_LINE_SIZE, 64),
        Entry::marker(Marker::CHUNK_INSTR_COUNT, chunk_instrs),
        Entry::marker(Marker::PAGE_SIZE, 4096),
    ]
}

#[test]
fn a_branch_target_at_the_end_of_a_chunk_goes_on_to_the_branch_of_the_next() {
    let marker = |kind: Marker, value| Entry::marker(kind, value);
    let code = |byte| Entry::new(Type::ENCODING, 1, byte);
    let own = [
        marker(Marker::TIMESTAMP, 1000),
        marker(Marker::CPU_ID, 0),
        code(0x90),
        Entry::new(Type::INSTR, 1, 0x1000),
        code(0x90),
        Entry::new(Type::INSTR, 1, 0x1001),
        marker(Marker::BRANCH_TARGET, 0x1000),
        marker(Marker::CHUNK_FOOTER, 0),
    ];
    let first = [&header(2)[..], &own].concat();
    let second = [
        marker(Marker::RECORD_ORDINAL, 10),
        marker(Marker::TIMESTAMP, 1000),
        marker(Marker::CPU_ID, 0),
        code(0xc3),
        Entry::new(Type::INSTR_RETURN, 1, 0x1002),
        Entry::new(Type::READ, 8, 0x7000),
        code(0x90),
        Entry::new(Type::INSTR, 1, 0x1000),
        Entry::new(Type::THREAD_EXIT, 4, 10),
        Entry::new(Type::FOOTER, 0, 0),
    ];
    let trace = rewriting::open_bytes(archive(&first, &second));
    for original_layout in [true, false] {
        let drop_markers = std::iter::once(Marker::PAGE_SIZE.0).collect();
        let spec = FilterSpec { drop_markers, original_layout, ..FilterSpec::default() };
        let filter = Filter::new(Arc::new(spec), trace.files()[0].header.filetype).unwrap();
        let options = WriteOptions { pack: PackOptions::new(Packing::Zip), ..WriteOptions::new() };
        let written = members(&rewritten(&trace, 0, filter, &options));
        let expected = [
            &[marker(Marker::RECORD_ORDINAL, 9)],
            &second[1..3],
            &[marker(Marker::BRANCH_TARGET, 0x1000)],
            &second[3..5],
        ];
        assert_same(&written[1].1[..6], &expected.concat(), "the second chunk");
        let ends = written[0].1.last().unwrap();
        assert!(ends.is_marker(Marker::CHUNK_FOOTER), "{original_layout}");
        assert!(!written[0].1.iter().any(|entry| entry.is_marker(Marker::BRANCH_TARGET)));
    }
}

/// An archive of two chunks.
fn archive(first: &[Entry], second: &[Entry]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, entries) in [("chunk.00000000", first), ("chunk.00000001", second)] {
        use std::io::Write;
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(zerocopy::IntoBytes::as_bytes(entries)).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

#[test]
fn copies_after_a_footer_are_not_written_where_the_ordinal_is_missing() {
    let marker = Entry::marker;
    let code = Entry::new(Type::ENCODING, 1, 0x90);
    let clock = [marker(Marker::TIMESTAMP, 1000), marker(Marker::CPU_ID, 0)];
    let header = header(1);
    let first =
        [&header[..], &clock, &[code, Entry::new(Type::INSTR, 1, 0x1000), marker(Marker::CHUNK_FOOTER, 0)]];
    let later = [marker(Marker::TIMESTAMP, 2000), marker(Marker::CPU_ID, 1)];
    let end = [Entry::new(Type::THREAD_EXIT, 4, 10), Entry::new(Type::FOOTER, 0, 0)];
    let second = [&clock[..], &[code, Entry::new(Type::INSTR, 1, 0x1001)], &later, &end];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drmemtrace.a.1.trace.zip");
    std::fs::write(&path, archive(&first.concat(), &second.concat())).unwrap();
    let source = Source::open(&path).unwrap();
    let trace = quipu_drmemtrace::trace::open(&source, &OpenOptions::default()).unwrap();
    let mut reader = trace.scan(&Scan::new(ShardId(0))).unwrap();
    let mut n_records = 0;
    while let Some(batch) = reader.read().unwrap() {
        n_records += u64::from(batch.span.records);
    }
    let options = WriteOptions { pack: PackOptions::new(Packing::Plain), ..WriteOptions::new() };
    let filter = Filter::new(Arc::default(), trace.files()[0].header.filetype).unwrap();
    let merged = folder.path().join("merged");
    let summary = reshard(&trace, &source, &merged, Sharding::Stream, &[], &options, &Silent).unwrap();
    assert_eq!(summary.taken.read.records, n_records);
    let written = [
        ("convert", rewritten(&trace, 0, NoEdit, &options)),
        ("filter", rewritten(&trace, 0, filter, &options)),
        ("merge", Source::open(&merged).unwrap()),
    ];
    for (verb, written) in written {
        let is_clock = |entry: &Entry| entry.is_marker(Marker::TIMESTAMP) || entry.is_marker(Marker::CPU_ID);
        let clocks: Vec<Entry> = entries(&written).into_iter().filter(is_clock).collect();
        assert_same(&clocks, &[clock, later].concat(), verb);
    }
}

#[test]
fn synthetic_encodings_equal_the_original() {
    let spec = FilterSpec { to_regdeps: true, ..FilterSpec::default() };
    check_against("allasm", ALLASM, spec, "allasm.regdeps");
}

#[test]
fn the_data_cache_equals_the_original() {
    let spec = FilterSpec { data_cache_bytes: Some(4096), ..FilterSpec::default() };
    check_against("threadsig.x64", 872_901, spec, "threadsig.dcache_filter");
}

#[test]
fn a_trace_for_the_public_equals_the_original() {
    let spec = FilterSpec {
        to_regdeps: true,
        drop_markers: [19, 25, 27, 28, 30, 40, 41].into_iter().collect(),
        keep_functions: Some([4_294_967_498].into_iter().collect()),
        marker_values: [(Marker::CPU_ID.0, u64::MAX)].into_iter().collect(),
        ..FilterSpec::default()
    };
    check_against("threadsig.x64", 872_906, spec, "threadsig.regdeps");
}

/// Entries except encodings and branch targets, whose order differs between writers.
fn bare(entries: &[Entry]) -> Vec<Entry> {
    let is_bare = |entry: &&Entry| entry.kind() != Type::ENCODING && !entry.is_marker(Marker::BRANCH_TARGET);
    entries.iter().filter(is_bare).copied().collect()
}

#[test]
fn without_its_kernel_code_a_trace_is_what_it_was_before_that_was_put_in() {
    let (_, injected) = open("thr.kernel_injected");
    let (_, before) = open("thr");
    for shard in 0..before.files().len() {
        let spec = FilterSpec { kernel: KernelCode::Drop, ..FilterSpec::default() };
        let found = entries(&filtered(&injected, shard, spec));
        let expected = entries(before.files()[shard].container.source());
        assert_same(&bare(&found), &bare(&expected), "thr");
    }
}

#[test]
fn dropping_types_says_so_in_the_file_type() {
    let (_, trace) = open("allasm");
    let drop = |types: &[u16]| {
        let spec = FilterSpec { drop_types: types.iter().copied().collect(), ..FilterSpec::default() };
        let found = entries(&filtered(&trace, 0, spec));
        let kinds: HashSet<u16> = found.iter().map(|entry| entry.kind.get()).collect();
        assert!(types.iter().all(|kind| !kinds.contains(kind)), "{types:?}");
        found.iter().find(|entry| entry.is_marker(Marker::FILETYPE)).unwrap().addr.get()
    };
    assert_eq!(drop(&[Type::READ.0]), 0xe40 | FileType::DFILTERED.0);
    assert_eq!(drop(&[Type::ENCODING.0]), 0xe40 & !FileType::ENCODINGS.0);
    assert_eq!(drop(&[Type::INSTR.0]), 0xe40 | FileType::IFILTERED.0);
}

#[test]
fn filters_end_at_a_clock_reading() {
    let (_, trace) = open("allasm");
    let all = entries(trace.files()[0].container.source());
    let stop = all.iter().filter(|entry| entry.is_marker(Marker::TIMESTAMP)).nth(10).unwrap().addr.get();
    let drop_markers = [Marker::SYSCALL.0].into_iter().collect();
    let spec = FilterSpec { drop_markers, stop_timestamp: Some(stop), ..FilterSpec::default() };
    let found = entries(&filtered(&trace, 0, spec));
    let end = found.iter().position(|entry| entry.is_marker(Marker::FILTER_ENDPOINT)).unwrap();
    assert_eq!(found[end + 1], Entry::marker(Marker::TIMESTAMP, stop));
    assert!(found[..end].iter().all(|entry| !entry.is_marker(Marker::SYSCALL)));
    assert!(found[end..].iter().any(|entry| entry.is_marker(Marker::SYSCALL)));
    assert_eq!(found.iter().find(|e| e.is_marker(Marker::FILETYPE)).unwrap().addr.get(), 0xe40 | 0x2000);
}

#[test]
fn filters_that_no_clock_reading_ends_end_with_the_thread() {
    let (_, trace) = open("allasm");
    let spec = |original_layout| FilterSpec {
        drop_markers: [Marker::SYSCALL.0].into_iter().collect(),
        stop_timestamp: Some(u64::MAX),
        original_layout,
        ..FilterSpec::default()
    };
    let found = entries(&filtered(&trace, 0, spec(false)));
    let end = found.iter().position(|entry| entry.is_marker(Marker::FILTER_ENDPOINT)).unwrap();
    let behind: Vec<Type> = found[end + 1..].iter().map(|entry| entry.kind()).collect();
    assert_eq!(behind, [Type::THREAD_EXIT, Type::FOOTER]);
    assert!(found.iter().all(|entry| !entry.is_marker(Marker::SYSCALL)));
    // DynamoRIO sets the bit nevertheless.
    let found = entries(&filtered(&trace, 0, spec(true)));
    assert!(found.iter().all(|entry| !entry.is_marker(Marker::FILTER_ENDPOINT)));
    // Where threads take turns, others continue after the end of one.
    let (_, trace) = open("threadsig.core_sharded");
    for shard in 0..trace.files().len() {
        let found = entries(&filtered(&trace, shard, spec(false)));
        let end = found.iter().position(|entry| entry.is_marker(Marker::FILTER_ENDPOINT)).unwrap();
        assert_eq!(end, found.len() - 2, "file {shard}");
        assert_eq!(found[end + 1].kind(), Type::FOOTER);
    }
}

#[test]
fn an_instruction_cache_leaves_a_trace_that_counts_what_was_executed() {
    let (_, trace) = open("tiny.chunk1000");
    let spec =
        FilterSpec { instr_cache_bytes: Some(256), data_cache_bytes: Some(256), ..FilterSpec::default() };
    let found = entries(&filtered(&trace, 0, spec));
    let counts: Vec<u64> = found
        .iter()
        .filter(|entry| entry.is_marker(Marker::INSTRUCTION_COUNT))
        .map(|entry| entry.addr.get())
        .collect();
    assert_eq!(counts.first(), Some(&0));
    assert_eq!(counts.last(), Some(&5952), "all instructions of the trace");
    assert!(counts.is_sorted());
    let first_cpu = found.iter().position(|entry| entry.is_marker(Marker::CPU_ID)).unwrap();
    assert_eq!(found[first_cpu + 1], Entry::marker(Marker::INSTRUCTION_COUNT, 0));
    assert!(
        found.iter().all(|entry| !matches!(entry.kind(), Type::INSTR_TAKEN_JUMP | Type::INSTR_UNTAKEN_JUMP))
    );
    assert!(found.iter().all(|entry| !entry.is_marker(Marker::BRANCH_TARGET)));
    assert!(found.iter().any(|entry| entry.kind().is_any_instr() && entry.size.get() == 0));
    let filetype = FileType(found.iter().find(|e| e.is_marker(Marker::FILETYPE)).unwrap().addr.get());
    assert!(filetype.is_ifiltered() && filetype.is_dfiltered());
}

#[test]
fn addresses_functions_and_names_of_threads_are_chosen() {
    let (_, trace) = open("tiny.func");
    let tid = trace.files()[0].header.tid;
    let all = entries(trace.files()[0].container.source());
    let addr = all.iter().find(|entry| entry.kind() == Type::WRITE).unwrap().addr.get();
    let spec = FilterSpec {
        addrs: vec![addr..=addr + 63],
        keep_functions: Some([0].into_iter().collect()),
        rename_threads: [(tid, 77)].into_iter().collect(),
        ..FilterSpec::default()
    };
    let found = entries(&filtered(&trace, 0, spec));
    assert!(found.iter().filter(|e| e.kind() == Type::READ || e.kind() == Type::WRITE).all(|entry| {
        entry.addr.get() <= addr + 63 && entry.addr.get() + u64::from(entry.size.get()) > addr
    }));
    assert!(found.iter().filter(|entry| entry.is_marker(Marker::FUNC_ID)).all(|entry| entry.addr.get() == 0));
    let threads = found.iter().filter(|e| matches!(e.kind(), Type::THREAD | Type::THREAD_EXIT));
    assert_eq!(threads.map(|entry| entry.addr.get()).collect::<Vec<_>>(), [77, 77]);
}

/// The instructions of a file, in order.
fn instrs(entries: &[Entry]) -> Vec<u64> {
    let is_instr = |entry: &&Entry| entry.kind().is_instr() && entry.size.get() > 0;
    entries.iter().filter(is_instr).map(|entry| entry.addr.get()).collect()
}

#[test]
fn a_part_has_exactly_its_instructions_and_their_encodings() {
    for name in ["tiny.chunk1000", "as_traced", "allasm"] {
        let (_, trace) = open(name);
        let all = instrs(&entries(trace.files()[0].container.source()));
        let n = all.len() as u64;
        for part in [0..5, 17..100, n / 3..n / 2, n - 7..u64::MAX, 0..u64::MAX] {
            let trim = Trim::new(Position::Instrs, vec![part.clone()]);
            let found = entries(&rewritten(&trace, 0, trim, &WriteOptions::new()));
            let part = part.start as usize..part.end.min(n) as usize;
            assert!(instrs(&found) == all[part.clone()], "{name}: {part:?}");
            assert_sound(&found, name);
        }
    }
}

/// Checks that readers accept a file: header, clock and processor first, each encoding before its instruction, exit and
/// footer.
fn assert_sound(entries: &[Entry], what: &str) {
    assert_eq!(entries[0].kind(), Type::HEADER, "{what}");
    let kinds: Vec<Type> = entries[entries.len() - 2..].iter().map(Entry::kind).collect();
    assert_eq!(kinds, [Type::THREAD_EXIT, Type::FOOTER], "{what}");
    let first_clock = entries.iter().position(|entry| entry.is_marker(Marker::TIMESTAMP)).unwrap();
    let first_instr = entries.iter().position(|entry| entry.kind().is_any_instr()).unwrap_or(entries.len());
    assert!(first_clock < first_instr, "{what}: a clock reading comes before the first instruction");
    let (mut known, mut pending) = (HashSet::new(), 0);
    for entry in entries {
        if entry.is_marker(Marker::RECORD_ORDINAL) {
            known.clear();
        } else if entry.kind() == Type::ENCODING {
            pending += entry.size.get();
        } else if entry.kind().is_any_instr() && entry.size.get() > 0 {
            if std::mem::take(&mut pending) > 0 {
                known.insert(entry.addr.get());
            }
            assert!(known.contains(&entry.addr.get()), "{what}: {:#x} has no encoding", entry.addr);
        }
    }
}

#[test]
fn several_parts_are_numbered_windows() {
    let (_, trace) = open("as_traced");
    let all = instrs(&entries(trace.files()[0].container.source()));
    let parts = vec![0..10, 2000..2500, 40_000..40_001];
    let trim = Trim::new(Position::Instrs, parts.clone());
    let found = entries(&rewritten(&trace, 0, trim, &WriteOptions::new()));
    let source = entries(trace.files()[0].container.source());
    let kinds: Vec<u16> = source
        .iter()
        .filter(|e| e.kind().is_instr() && e.size.get() > 0)
        .map(|entry| entry.kind.get())
        .collect();
    // No part ends with a branch: its successor has to follow.
    let whole = |part: &std::ops::Range<u64>| {
        let mut end = part.end as usize;
        while matches!(kinds[end - 1], 11..=16 | 48 | 49) {
            end += 1;
        }
        all[part.start as usize..end].to_vec()
    };
    let expected: Vec<u64> = parts.iter().flat_map(whole).collect();
    assert_eq!(instrs(&found), expected);
    let at = |entry: &Entry| entry.is_marker(Marker::WINDOW_ID);
    let windows: Vec<u64> = found.iter().filter(|entry| at(entry)).map(|entry| entry.addr.get()).collect();
    assert_eq!(windows, [0, 1, 2]);
    for (i, _) in found.iter().enumerate().filter(|(_, entry)| at(entry)) {
        assert!(found[i - 1].is_marker(Marker::TIMESTAMP) && found[i + 1].is_marker(Marker::CPU_ID));
    }
    assert_sound(&found, "windows");
}

#[test]
fn parts_by_records_and_by_time_begin_and_end_at_instructions() {
    let (_, trace) = open("as_traced");
    let all = entries(trace.files()[0].container.source());
    let clocks: Vec<u64> =
        all.iter().filter(|e| e.is_marker(Marker::TIMESTAMP)).map(|entry| entry.addr.get()).collect();
    let (since, until) = (clocks[clocks.len() / 3], clocks[clocks.len() / 2]);
    let by_clock =
        entries(&rewritten(&trace, 0, Trim::new(Position::Clock, vec![since..until]), &WriteOptions::new()));
    assert_sound(&by_clock, "time");
    assert!(!instrs(&by_clock).is_empty() && instrs(&by_clock).len() < instrs(&all).len());
    let readings = by_clock.iter().filter(|entry| entry.is_marker(Marker::TIMESTAMP));
    assert!(readings.clone().all(|entry| entry.addr.get() >= since));
    let by_record =
        entries(&rewritten(&trace, 0, Trim::new(Position::Records, vec![100..5000]), &WriteOptions::new()));
    assert_sound(&by_record, "records");
    let n_records = by_record.iter().filter(|entry| entry.kind() != Type::ENCODING).count();
    assert!((4850..5100).contains(&n_records), "{n_records}");
}

#[test]
fn a_trim_keeps_system_calls_and_their_kernel_code_whole() {
    let (_, trace) = open("thr.kernel_injected");
    let all = entries(trace.files()[0].container.source());
    let n = instrs(&all).len() as u64;
    for start in (0..n).step_by(997) {
        let trim = Trim::new(Position::Instrs, vec![start..start + 500]);
        let found = entries(&rewritten(&trace, 0, trim, &WriteOptions::new()));
        let depth = found.iter().fold(0_i32, |depth, entry| {
            let depth = depth + i32::from(entry.is_marker(Marker::SYSCALL_TRACE_START))
                - i32::from(entry.is_marker(Marker::SYSCALL_TRACE_END));
            assert!((0..=1).contains(&depth), "from {start}");
            depth
        });
        assert_eq!(depth, 0, "from {start}");
    }
}

#[test]
fn an_edit_that_leaves_out_nothing_changes_nothing() {
    for name in
        ["threadsig.x64", "tiny.ifiltered", "aarch64", "thr.core_sharded_kernel", "legacy-for-record-filter"]
    {
        let (_, trace) = open(name);
        let expected = entries(trace.files()[0].container.source());
        let packing = rewriting::packing_of(trace.files()[0].container.source());
        let options = WriteOptions { pack: PackOptions::new(packing), ..WriteOptions::new() };
        let filter = Filter::new(Arc::default(), trace.files()[0].header.filetype).unwrap();
        assert_same(&entries(&rewritten(&trace, 0, filter, &options)), &expected, name);
        let trim = Trim::new(Position::Records, vec![0..u64::MAX]);
        assert_same(&entries(&rewritten(&trace, 0, trim, &options)), &expected, name);
    }
}
