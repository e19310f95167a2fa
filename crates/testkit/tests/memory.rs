//! The trace in memory keeps the promises of the model.

#![expect(clippy::unwrap_used, reason = "clippy spares test functions, not what they share")]

use quipu_model::lens::{AccessKind, InstrClass, NO_CODE, Taken};
use quipu_model::print::{Ordinals, Paint};
use quipu_model::trace::PrintOptions;
use quipu_model::{Cut, ErrorKind, Scan, ShardId, Trace, Window};
use quipu_testkit::{ALL_COLUMNS, MemoryTrace};

/// Ordinals of first records, counts of records, threads and openings of the batches of one read.
fn batches(text: &str, scan: &Scan) -> Vec<(u64, u32, u64, Option<u64>)> {
    let trace = MemoryTrace::parse(text).unwrap();
    let mut reader = trace.scan(scan).unwrap();
    let mut out = Vec::new();
    while let Some(batch) = reader.read().unwrap() {
        out.push((batch.span.first_record, batch.span.records, batch.span.thread.tid, batch.span.opens));
    }
    out
}

/// The values of the marks in a window.
fn marks(text: &str, window: Window) -> Vec<u64> {
    let trace = MemoryTrace::parse(text).unwrap();
    let mut reader = trace.scan(&Scan { window, ..Scan::new(ShardId(0)).columns(ALL_COLUMNS) }).unwrap();
    let mut out = Vec::new();
    while let Some(batch) = reader.read().unwrap() {
        out.extend_from_slice(&batch.marks.value);
    }
    out
}

const MARKED: &str =
    "mark 0 1\ninstr 1 1\nmark 0 2\nclock 10\nmark 0 3\ninstr 2 1\nmark 0 4\nclock 20\nmark 0 5";

#[test]
fn rows_fill_the_lenses() {
    let trace = MemoryTrace::parse(
        "thread 7 1\ninstr 0x1000 2 conditional-jump taken =7402\nread 0x2000 8\nenter 3 10 20\nleave 3 5\nmark 4 12",
    )
    .unwrap();
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(ALL_COLUMNS)).unwrap();
    let batch = reader.read().unwrap().unwrap();
    assert_eq!(batch.accesses.kind, [AccessKind::Fetch, AccessKind::Read]);
    assert_eq!(batch.accesses.pc, [0x1000, 0x1000]);
    assert_eq!((batch.instrs.class[0], batch.instrs.taken[0]), (InstrClass::ConditionalJump, Taken::Yes));
    assert_eq!(batch.codes.get(batch.instrs.code[0]).unwrap().bytes(), [0x74, 2]);
    assert_eq!((batch.calls.args.get(0), batch.calls.args.get(1)), (&[10, 20][..], &[][..]));
    assert_eq!([0, 1].map(|row| batch.calls.result.get(row)), [None, Some(5)]);
    assert_eq!((batch.marks.at[0], batch.marks.kind[0], batch.marks.value[0]), (4, 4, 12));
}

#[test]
fn columns_not_asked_for_stay_empty() {
    let trace = MemoryTrace::random(1, 1, 100);
    let mut reader = trace.scan(&Scan::new(ShardId(0))).unwrap();
    let batch = reader.read().unwrap().unwrap();
    assert!(batch.span.records > 0);
    assert!(batch.accesses.is_empty() && batch.instrs.is_empty() && batch.threads.is_empty());
    assert!(batch.marks.is_empty() && batch.calls.is_empty() && batch.tables.is_empty());
}

#[test]
fn batches_end_at_threads_and_sizes() {
    let text = "thread 1\nmark 0 0\nmark 0 0\nmark 0 0\nthread 2\nmark 0 0";
    let scan = Scan { batch_records: 2, ..Scan::new(ShardId(0)) };
    assert_eq!(batches(text, &scan), [(0, 2, 1, None), (2, 1, 1, None), (3, 1, 2, None)]);
}

#[test]
fn a_cut_at_clocks_opens_segments_and_the_first_takes_what_stands_before() {
    let scan = Scan { cut: Cut::CLOCK, ..Scan::new(ShardId(0)) };
    assert_eq!(batches(MARKED, &scan), [(0, 7, 0, Some(10)), (7, 2, 0, Some(20))]);
    let scan = Scan { cut: Cut::CLOCK, batch_records: 2, ..Scan::new(ShardId(0)) };
    let expected =
        [(0, 2, 0, Some(10)), (2, 2, 0, None), (4, 2, 0, None), (6, 1, 0, None), (7, 2, 0, Some(20))];
    assert_eq!(batches(MARKED, &scan), expected);
}

#[test]
fn a_window_that_begins_inside_a_segment_opens_none() {
    let scan = Scan { cut: Cut::CLOCK, window: Window::Records(4..99), ..Scan::new(ShardId(0)) };
    assert_eq!(batches(MARKED, &scan), [(4, 3, 0, None), (7, 2, 0, Some(20))]);
}

#[test]
fn windows_are_half_open() {
    assert_eq!(marks(MARKED, Window::All), [1, 2, 3, 4, 5]);
    assert_eq!(marks(MARKED, Window::Records(2..5)), [2, 3]);
    assert_eq!(marks(MARKED, Window::Records(5..5)), Vec::<u64>::new());
    assert_eq!(marks(MARKED, Window::Instrs(0..1)), [1, 2, 3]);
    assert_eq!(marks(MARKED, Window::Instrs(1..2)), [4, 5]);
    assert_eq!(marks(MARKED, Window::Instrs(0..0)), Vec::<u64>::new());
    assert_eq!(marks(MARKED, Window::Clock(0..10)), [1, 2]);
    assert_eq!(marks(MARKED, Window::Clock(10..20)), [3, 4]);
    assert_eq!(marks(MARKED, Window::Clock(11..99)), [5]);
}

#[test]
fn pieces_together_are_the_shard() {
    let trace = MemoryTrace::random(3, 1, 2000);
    let n_pieces = trace.shards()[0].pieces;
    assert!(n_pieces > 10);
    let read = |pieces| {
        let scan = Scan { pieces, ..Scan::new(ShardId(0)).columns(ALL_COLUMNS) };
        let mut reader = trace.scan(&scan).unwrap();
        let mut out = Vec::new();
        while let Some(batch) = reader.read().unwrap() {
            let rows = batch.accesses.at.iter().zip(&batch.accesses.pc);
            out.extend(
                rows.map(|(at, pc)| (batch.span.first_record + u64::from(*at), batch.span.thread, *pc)),
            );
        }
        out
    };
    let parts: Vec<_> = (0..n_pieces).flat_map(|piece| read(Some(piece..piece + 1))).collect();
    assert_eq!(parts, read(None));
}

#[test]
fn a_fault_comes_behind_the_records_before_it_and_ends_the_read() {
    let trace = MemoryTrace::parse("mark 0 1\nfault it broke\nmark 0 2").unwrap();
    let mut reader = trace.scan(&Scan::new(ShardId(0))).unwrap();
    assert_eq!(reader.read().unwrap().unwrap().span.records, 1);
    let error = reader.read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(error.to_string(), "offset 0x10, record 1, instr 0: it broke");
    assert!(reader.read().unwrap().is_none());
}

#[test]
fn rows_print_with_their_ordinals() {
    let trace = MemoryTrace::parse("thread 7\ninstr 0x1000 2 =9090\nread 0x2000 8\nmark 4 12").unwrap();
    let mut reader = trace.scan(&Scan { tables: vec![0], ..Scan::new(ShardId(0)) }).unwrap();
    let batch = reader.read().unwrap().unwrap();
    assert_eq!(batch.tables[0].column_named("code").unwrap().number(1), u64::from(NO_CODE));
    let mut printer = trace.printer(&PrintOptions::default()).unwrap();
    let mut out = Vec::new();
    printer.begin(&mut out);
    printer.print(batch, &[0, 2], Ordinals { records: 10, instrs: 5 }, &Paint::PLAIN, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "record instr thread\n11 6 7: instr 0x1000 2 [90, 90]\n13 6 7: mark 0xc 0\n"
    );
}

#[test]
fn mistakes_in_the_text_name_the_line() {
    for (text, message) in [
        ("mark 0 0\nmork 0 0", "line 2: `mork` is no item of a trace in memory"),
        ("instr 0x1000 70000", "line 1: `70000` is too large here"),
        ("instr 1 1 sideways", "line 1: `sideways` says nothing of an instruction"),
        ("instr 1 1 =909", "line 1: `909` is no row of bytes"),
    ] {
        assert_eq!(MemoryTrace::parse(text).err().unwrap().message(), message);
    }
}
