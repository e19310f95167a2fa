//! A shard has the same records however it is read: whole or in pieces, in batches and buffers of any size.

// The helpers of a test may panic as the test may.
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::record::{Entry, FileType, Marker, Type};
use quipu_model::{Columns, ErrorKind, Format, OpenOptions, Scan, ShardId, ShardKind, Trace, Window};
use quipu_source::Source;
use quipu_testkit::{fixtures, fuzz};
use zerocopy::IntoBytes;

fn open(name: &str) -> Box<dyn Trace> {
    let path = fixtures("drmemtrace").join(name);
    DRMEMTRACE.open(&Source::open(&path).unwrap(), &OpenOptions::default()).unwrap()
}

fn open_entries(entries: &[Entry], options: &OpenOptions) -> Box<dyn Trace> {
    DRMEMTRACE.open(&Source::from_bytes("entries", entries.as_bytes()), options).unwrap()
}

fn marker(kind: Marker, value: u64) -> Entry {
    Entry::new(Type::MARKER, kind.0, value)
}

/// A thread's records between a header and a footer.
fn framed(filetype: FileType, body: &[Entry]) -> Vec<Entry> {
    let mut entries = vec![
        Entry::new(Type::HEADER, 0, 7),
        marker(Marker::VERSION, 7),
        marker(Marker::FILETYPE, filetype.0),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::PID, 4, 70),
    ];
    entries.extend_from_slice(body);
    entries.extend([Entry::new(Type::THREAD_EXIT, 4, 7), Entry::new(Type::FOOTER, 0, 0)]);
    entries
}

#[test]
fn batches_and_buffers_of_any_size_give_the_same_records() {
    for name in
        ["allasm", "small", "as_traced", "tiny.chunk1000", "tiny.func", "tiny.physical", "mock_syscall"]
    {
        let trace = open(name);
        for shard in trace.shards() {
            fuzz::same_records(trace.as_ref(), shard);
        }
    }
    for name in ["thr.core_sharded_kernel", "legacy-for-record-filter", "func-trace"] {
        let trace = open(name);
        fuzz::same_records(trace.as_ref(), &trace.shards()[0]);
    }
}

#[test]
fn pieces_have_the_rows_and_ordinals_of_the_whole() {
    // Chunks of 1000 instructions are joined until a piece is worth its set-up: several pieces, several chunks each.
    let trace = open("as_traced");
    let shard = &trace.shards()[0];
    let rows = |pieces| {
        let scan = Scan { pieces, ..Scan::new(shard.id).columns(Columns::INSTRS | Columns::ACCESSES) };
        let mut reader = trace.scan(&scan).unwrap();
        let mut rows = Vec::new();
        while let Some(batch) = reader.read().unwrap() {
            assert_eq!(batch.findings, []);
            let span = batch.span;
            let instrs = batch.instrs.at.iter().zip(&batch.instrs.pc).map(|(at, pc)| (*at, *pc));
            let accesses = batch.accesses.at.iter().zip(&batch.accesses.addr).map(|(at, addr)| (*at, *addr));
            rows.extend(instrs.chain(accesses).map(|(at, value)| (span.first_record + u64::from(at), value)));
            assert!(
                span.first_instr >= span.first_record / 4,
                "an instruction ordinal of the shard, not of the piece"
            );
        }
        rows.sort_unstable();
        rows
    };
    let whole = rows(None);
    let mut pieces: Vec<_> = (0..shard.pieces).flat_map(|piece| rows(Some(piece..piece + 1))).collect();
    pieces.sort_unstable();
    assert!(shard.pieces > 1, "this test wants a trace of several pieces");
    assert!(whole == pieces, "{} rows, {} in pieces", whole.len(), pieces.len());
}

#[test]
fn calls_have_their_arguments_and_results() {
    let trace = open("tiny.func");
    let scan = Scan { batch_records: 3, ..Scan::new(ShardId(0)).columns(Columns::CALLS) };
    let mut reader = trace.scan(&scan).unwrap();
    let (mut enters, mut leaves, mut args) = (0, 0, 0);
    while let Some(batch) = reader.read().unwrap() {
        for row in 0..batch.calls.len() {
            args += batch.calls.args.get(row).len();
            match batch.calls.edge[row] {
                quipu_model::lens::CallEdge::Enter => enters += 1,
                quipu_model::lens::CallEdge::Leave => leaves += 1,
            }
        }
    }
    // DynamoRIO counts 288 markers that name a function, and the numbers of arguments and results asserted here.
    let facts = std::fs::read_to_string(fixtures("drmemtrace").join("facts.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    let of = |what: &str| facts["tiny.func"]["basic_counts_total"][what].as_u64().unwrap();
    assert_eq!(enters + leaves, of("function id markers"));
    assert_eq!(args as u64, of("function argument markers"));
    assert_eq!(leaves, of("function return value markers"));
}

#[test]
fn entries_of_a_32_bit_tracer_are_read_when_told() {
    let wide = framed(
        FileType::ARCH_X86_32,
        &[Entry::new(Type::INSTR, 2, 0x1000), Entry::new(Type::READ, 4, 0x2000)],
    );
    let narrow: Vec<u8> = wide.iter().flat_map(|entry| entry.as_bytes()[..8].to_vec()).collect();
    let options =
        OpenOptions { given: quipu_model::Given::from([("entry-bytes", "8")]), ..OpenOptions::default() };
    let trace = DRMEMTRACE.open(&Source::from_bytes("narrow", narrow), &options).unwrap();
    let mut reader =
        trace.scan(&Scan::new(ShardId(0)).columns(Columns::ACCESSES | Columns::ACCESS_PC)).unwrap();
    let (mut addrs, mut pcs) = (Vec::new(), Vec::new());
    while let Some(batch) = reader.read().unwrap() {
        assert_eq!(batch.findings, []);
        addrs.extend_from_slice(&batch.accesses.addr);
        pcs.extend_from_slice(&batch.accesses.pc);
    }
    assert_eq!((addrs, pcs), (vec![0x2000], vec![0x1000]));
    assert_eq!(trace.shards()[0].thread, Some(7.into()));
}

#[test]
fn a_clock_reading_of_all_ones_ends_nothing() {
    let clock = |value| [marker(Marker::TIMESTAMP, value), marker(Marker::CPU_ID, 0)];
    let instr = |pc| [Entry::new(Type::INSTR, 1, pc)];
    let body =
        [&clock(1000)[..], &instr(0x1000), &clock(u64::MAX), &instr(0x1001), &clock(2000), &instr(0x1002)]
            .concat();
    let trace = open_entries(&framed(FileType::ARCH_X86_64, &body), &OpenOptions::default());
    let read = |window, clock| {
        let cut = quipu_model::Cut { clock, ..quipu_model::Cut::SIZE };
        let scan = Scan { window, cut, ..Scan::new(ShardId(0)).columns(Columns::INSTRS) };
        let mut reader = trace.scan(&scan).unwrap();
        let mut pcs = Vec::new();
        while let Some(batch) = reader.read().unwrap() {
            assert_eq!(batch.findings, []);
            pcs.extend_from_slice(&batch.instrs.pc);
        }
        pcs
    };
    for clock in [false, true] {
        assert_eq!(read(Window::All, clock), [0x1000, 0x1001, 0x1002], "{clock}");
        assert_eq!(read(Window::Records(0..u64::MAX), clock), [0x1000, 0x1001, 0x1002], "{clock}");
        // A window of time without an end includes it, too; one with an end does not.
        assert_eq!(read(Window::Clock(0..u64::MAX), clock), [0x1000, 0x1001, 0x1002], "{clock}");
        assert_eq!(read(Window::Clock(1001..u64::MAX), clock), [0x1001, 0x1002], "{clock}");
        assert_eq!(read(Window::Clock(0..u64::MAX - 1), clock), [0x1000], "{clock}");
    }
}

#[test]
fn traces_that_were_concatenated_are_read_to_the_last() {
    let one = framed(FileType::ARCH_X86_64, &[Entry::new(Type::INSTR, 2, 0x1000)]);
    let trace = open_entries(&[one.clone(), one].concat(), &OpenOptions::default());
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::INSTRS)).unwrap();
    let mut n_instrs = 0;
    while let Some(batch) = reader.read().unwrap() {
        assert_eq!(batch.findings, []);
        n_instrs += batch.instrs.len();
    }
    assert_eq!(n_instrs, 2);
}

#[test]
fn threads_of_one_stream_come_in_batches_of_their_own() {
    let entries = [
        Entry::new(Type::HEADER, 0, 1),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::PID, 4, 70),
        Entry::new(Type::INSTR, 2, 0x1000),
        Entry::new(Type::THREAD, 4, 8),
        Entry::new(Type::PID, 4, 70),
        Entry::new(Type::INSTR, 2, 0x2000),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::READ, 8, 0x3000),
        Entry::new(Type::FOOTER, 0, 0),
    ];
    let trace = open_entries(&entries, &OpenOptions::default());
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::INSTRS)).unwrap();
    let mut spans = Vec::new();
    while let Some(batch) = reader.read().unwrap() {
        spans.push((batch.span.thread.tid, batch.span.process, batch.span.records));
    }
    assert_eq!(spans, [(7, 70, 1), (8, 70, 1), (7, 70, 1)]);
}

#[test]
fn unknown_types_and_kinds_are_kept_and_named() {
    let body = [Entry::new(Type::INSTR, 1, 0x1000), Entry::new(Type(77), 3, 5), marker(Marker(120), 9)];
    let trace = open_entries(&framed(FileType::ARCH_X86_64, &body), &OpenOptions::default());
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::MARKS)).unwrap();
    let (mut rules, mut kinds, mut places) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(batch) = reader.read().unwrap() {
        rules.extend(batch.findings.iter().map(|finding| finding.rule.clone()));
        places.extend(batch.findings.iter().map(|finding| finding.place.to_string()));
        kinds.extend_from_slice(&batch.marks.kind);
    }
    assert_eq!(rules, ["drmemtrace/unknown-type"]);
    assert_eq!(places, ["entries: offset 0x48, record 3, instr 1"]);
    assert!(kinds.contains(&120));
}

#[test]
fn a_raw_folder_is_refused_with_advice() {
    let path = fixtures("drmemtrace-raw").join("threadsig.aarch64");
    let error = DRMEMTRACE.open(&Source::open(&path).unwrap(), &OpenOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.advice().unwrap().contains("drraw2trace"));
}

#[test]
fn a_window_behind_the_end_of_a_cut_file_ends() {
    let mut entries = framed(FileType::ARCH_X86_64, &[Entry::new(Type::INSTR, 2, 0x1000)]);
    entries.pop();
    let trace = open_entries(&entries, &OpenOptions::default());
    for window in [Window::Instrs(5..9), Window::Records(100..200), Window::Clock(1..2)] {
        let mut reader = trace.scan(&Scan { window, ..Scan::new(ShardId(0)) }).unwrap();
        let mut rules = Vec::new();
        for _ in 0..10 {
            let Some(batch) = reader.read().unwrap() else { break };
            assert_eq!(batch.span.records, 0);
            rules.extend(batch.findings.iter().map(|finding| finding.rule.clone()));
        }
        assert_eq!(rules, ["drmemtrace/no-footer"]);
        assert!(reader.read().unwrap().is_none());
    }
}

#[test]
fn a_second_thread_far_behind_the_header_makes_a_stream_mixed() {
    let mut entries =
        vec![Entry::new(Type::HEADER, 0, 1), Entry::new(Type::THREAD, 4, 7), Entry::new(Type::PID, 4, 70)];
    entries.extend((0..5000).map(|i| Entry::new(Type::INSTR, 4, 0x1000 + 4 * i)));
    entries.extend([Entry::new(Type::THREAD, 4, 8), Entry::new(Type::PID, 4, 70)]);
    entries.extend((0..50).map(|i| Entry::new(Type::INSTR, 4, 0x1000 + 4 * i)));
    entries.push(Entry::new(Type::FOOTER, 0, 0));
    let trace = open_entries(&entries, &OpenOptions { threads: vec![8.into()], ..OpenOptions::default() });
    assert_eq!(trace.shards()[0].kind, ShardKind::Mixed);
}

#[test]
fn a_window_of_a_cores_file_has_the_threads_of_the_whole() {
    let trace = open("thr.core_sharded_kernel");
    let shard = &trace.shards()[1];
    let threads = |window: Window| {
        let mut reader = trace.scan(&Scan { window, ..Scan::new(shard.id) }).unwrap();
        let mut threads = Vec::new();
        while let Some(batch) = reader.read().unwrap() {
            threads.extend(std::iter::repeat_n(batch.span.thread, batch.span.records as usize));
        }
        threads
    };
    let whole = threads(Window::All);
    for start in [10, 1000, 20_000] {
        let part = threads(Window::Records(start..start + 500));
        assert!(part[..] == whole[start as usize..start as usize + 500], "from record {start}");
    }
}
