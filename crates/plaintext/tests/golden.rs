//! Real traces: counts made by an independent parser, and columns of records.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{ALL, din, lackey, lines, lines_of, path, text, trace};
use quipu_model::lens::AccessKind;
use quipu_model::trace::surveyed;
use quipu_model::{Columns, Confidence, Cut, Format, Scan, ShardId, Trace, Window};
use quipu_plaintext::{DIN, LACKEY};
use quipu_source::Source;
use serde_json::{Map, Value};
use std::num::NonZeroU64;

#[test]
fn counts_are_those_of_the_facts() {
    let mut n_traces = 0;
    for folder in ["lackey", "din"] {
        let facts = std::fs::read_to_string(path(folder).join("facts.json")).unwrap();
        let facts: Map<String, Value> = serde_json::from_str(&facts).unwrap();
        for (name, facts) in &facts {
            let surveyed: Map<String, Value> = surveyed(&*trace(&format!("{folder}/{name}")), &|| false)
                .facts
                .into_iter()
                .map(|fact| (fact.key.clone().into_owned(), fact.json()))
                .collect();
            for (key, value) in facts.as_object().unwrap() {
                assert_eq!(surveyed[key], *value, "{name}: {key}");
            }
            assert_eq!(surveyed.len(), facts.as_object().unwrap().len());
            n_traces += 1;
        }
    }
    assert_eq!(n_traces, ALL.len());
}

#[test]
fn each_trace_is_recognised_by_its_own_format_and_other_text_by_none() {
    for name in ALL {
        let source = Source::from_bytes("in", text(name));
        let both = (LACKEY.probe(&source), DIN.probe(&source));
        let expected = match name {
            name if name.starts_with("lackey") => (Confidence::Sure, Confidence::No),
            // Eight lines could be anything if the name did not identify the file.
            "din/labels.din" => {
                assert_eq!(DIN.probe(&Source::open(&path(name)).unwrap()), Confidence::Likely);
                both
            }
            _ => (Confidence::No, Confidence::Likely),
        };
        assert_eq!(both, expected, "{name}");
        assert_ne!(common::format(name).probe(&Source::open(&path(name)).unwrap()), Confidence::No);
    }
    // Lines of lackey without its messages, as other tools pass them on.
    let source = Source::from_bytes("in", &b"I 0400d7d4,8\n M 0421c7f0,4\n L 04f6b868,8\n"[..]);
    assert_eq!(LACKEY.probe(&source), Confidence::Likely);
    for text in [
        &b"==12== Memcheck, a memory error detector\n==12== Command: ls\n"[..],
        b"Instructions:\n L 10,1\n",
        b"In a text, I, L and M are letters.\n",
        b"a,b\n1,2\n",
        b"",
        b"\xff\xfe\x00",
    ] {
        let source = Source::from_bytes("in", text);
        let both = (LACKEY.probe(&source), DIN.probe(&source));
        assert_eq!(both, (Confidence::No, Confidence::No), "{}", text.escape_ascii());
    }
}

#[test]
fn the_head_tells_the_command_and_the_process() {
    let trace = trace("lackey/nodes.lackey.gz");
    let fact =
        |key: &str| trace.meta().facts.iter().find(|fact| fact.key == key).map(|fact| fact.value.clone());
    assert_eq!(fact("command"), Some("./nodes".into()));
    assert_eq!(fact("valgrind"), Some("Valgrind-3.19.0".into()));
    assert_eq!(fact("process"), Some("16688".into()));
    assert_eq!(trace.shards()[0].process, Some(16688));
    assert_eq!(lines(&*trace).1, []);
}

/// Kind, address, size and PC of each access; PC and size of each instruction; kind and address of each mark.
type Rows = (Vec<(AccessKind, u64, u32, u64)>, Vec<(u64, u16)>, Vec<(u32, u64)>);

fn rows(trace: &dyn Trace, columns: Columns) -> Rows {
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(columns)).unwrap();
    let (mut accesses, mut instrs, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(batch) = reader.read().unwrap() {
        let rows = &batch.accesses;
        accesses.extend((0..rows.len()).map(|i| {
            (rows.kind[i], rows.addr[i], rows.size[i], rows.pc.get(i).copied().unwrap_or(u64::MAX))
        }));
        instrs.extend(batch.instrs.pc.iter().copied().zip(batch.instrs.size.iter().copied()));
        marks.extend(batch.marks.kind.iter().copied().zip(batch.marks.value.iter().copied()));
    }
    (accesses, instrs, marks)
}

#[test]
fn a_modification_is_a_read_and_a_write_of_the_instruction_before() {
    let trace = lackey(b" L 10,1\nI  0400,3\n M 1ffe,8\nI  0403,2\n S 20,4\n");
    let (accesses, instrs, _) = rows(&*trace, trace.columns());
    let (read, write, fetch) = (AccessKind::Read, AccessKind::Write, AccessKind::Fetch);
    assert_eq!(
        accesses,
        [
            (read, 0x10, 1, 0),
            (fetch, 0x400, 3, 0x400),
            (read, 0x1ffe, 8, 0x400),
            (write, 0x1ffe, 8, 0x400),
            (fetch, 0x403, 2, 0x403),
            (write, 0x20, 4, 0x403),
        ]
    );
    assert_eq!(instrs, [(0x400, 3), (0x403, 2)]);
    let (data, none, _) = rows(&*trace, Columns::ACCESSES);
    assert_eq!((data.len(), none.len()), (4, 0));
}

#[test]
fn labels_become_accesses_instructions_and_marks() {
    let text = text("din/labels.din");
    let (read, write, fetch) = (AccessKind::Read, AccessKind::Write, AccessKind::Fetch);
    let trace = din(&text, &[("word", "1")]);
    let (accesses, instrs, marks) = rows(&*trace, trace.columns());
    let plain: Vec<_> = accesses.iter().map(|(kind, addr, size, _)| (*kind, *addr, *size)).collect();
    let expected = [
        (fetch, 0, 1),
        (read, 0x1000, 1),
        (read, 0x70f60888, 1),
        (fetch, 0x2cb5, 1),
        (write, 0x70f60890, 1),
        (write, 0x70f6088c, 1),
        (read, 0x70f60894, 1),
    ];
    assert_eq!(plain, expected);
    assert_eq!(instrs, [(0, 1), (0x2cb5, 1)]);
    assert_eq!(marks, [(3, 0x70f60894), (4, 0)]);
    assert_eq!((trace.mark_name(3), trace.mark_name(4)), ("unknown".into(), "flush".into()));
    // By default, as in Dinero: aligned words.
    let trace = din(&text, &[]);
    let (accesses, ..) = rows(&*trace, trace.columns());
    let words: Vec<_> = accesses.iter().map(|(kind, addr, size, _)| (*kind, *addr, *size)).collect();
    assert_eq!(words, expected.map(|(kind, addr, _)| (kind, addr & !3, 4)));
    let trace = din(b"r 1001 2\nc 40 40\nv 80 40\n", &[]);
    let (accesses, _, marks) = rows(&*trace, trace.columns());
    assert_eq!(accesses, [(read, 0x1001, 2, u64::MAX)]);
    assert_eq!(marks, [(5, 0x40), (6, 0x80)]);
}

#[test]
fn records_read_as_people_know_them() {
    let (lines, _) = lines(&*trace("lackey/mixed.lackey"));
    assert_eq!(
        lines[..2],
        [
            "           1           6  instr                0x401000      8",
            "           2           7  store            0x1fff00077c      4",
        ]
    );
    let (lines, _) = common::lines(&*trace("din/labels.din"));
    assert_eq!(lines[3], "           4           4  fetch                  0x2cb5");
}

#[test]
fn the_output_of_the_program_is_passed_over_and_told() {
    let trace = trace("lackey/mixed.lackey");
    let (lines, findings) = lines(&*trace);
    assert_eq!((lines.len(), findings.len()), (192, 1));
    let place = &findings[0].place;
    // `hello` is line 119, after 5 messages and 113 records.
    let before: Vec<u8> =
        text("lackey/mixed.lackey").split_inclusive(|b| *b == b'\n').take(118).flatten().copied().collect();
    assert_eq!((&*findings[0].rule, place.offset), ("lackey/bad-line", Some(before.len() as u64)));
    assert_eq!(place.record, Some(113));
    assert_eq!(findings[0].message, "line 119 is no record, it does not begin as a record does: `hello`");
}

#[test]
fn windows_have_the_records_that_they_name() {
    let trace = trace("lackey/mixed.lackey");
    let (all, _) = lines(&*trace);
    let window = |window| lines_of(&*trace, &Scan { window, ..Scan::new(ShardId(0)) }).0;
    assert_eq!(window(Window::Records(0..0)), [""; 0]);
    assert_eq!(window(Window::Records(10..20)), all[10..20]);
    assert_eq!(window(Window::Records(190..500)), all[190..]);
    let instrs: Vec<usize> = (0..all.len()).filter(|i| all[*i].contains("instr")).collect();
    for (start, end) in [(0, 1), (3, 7), (100, 135), (134, 1000), (5, 5)] {
        let to = instrs.get(end).copied().unwrap_or(all.len());
        let expected = if start == end { &[][..] } else { &all[instrs[start]..to] };
        assert_eq!(window(Window::Instrs(start as u64..end as u64)), expected, "{start}..{end}");
    }
    let scan = Scan { most: 7, window: Window::Records(3..100), ..Scan::new(ShardId(0)) };
    assert_eq!(lines_of(&*trace, &scan).0, all[3..10]);
    assert!(trace.scan(&Scan { window: Window::Clock(0..1), ..Scan::new(ShardId(0)) }).is_err());
    // Records in a window have their PC even if its instruction is before the window.
    let scan = Scan { window: Window::Records(1..2), ..Scan::new(ShardId(0)) }.columns(trace.columns());
    let mut reader = trace.scan(&scan).unwrap();
    assert_eq!(reader.read().unwrap().unwrap().accesses.pc, [0x401000]);
}

#[test]
fn batches_end_before_the_instructions_that_are_asked_for() {
    let trace = trace("lackey/nodes.lackey.gz");
    let cut = Cut { instrs: NonZeroU64::new(1000), ..Cut::SIZE };
    let mut reader = trace.scan(&Scan { cut, ..Scan::new(ShardId(0)) }.columns(Columns::INSTRS)).unwrap();
    let mut n_instrs = 0;
    let mut boundaries = 0;
    while let Some(batch) = reader.read().unwrap() {
        assert_eq!(batch.span.first_instr, n_instrs);
        assert!(
            batch.span.instrs == 0 || n_instrs / 1000 == (n_instrs + u64::from(batch.span.instrs) - 1) / 1000
        );
        boundaries += u32::from(n_instrs % 1000 == 0 && batch.span.instrs > 0);
        n_instrs += u64::from(batch.span.instrs);
        assert_eq!(batch.instrs.len(), batch.span.instrs as usize);
    }
    assert_eq!((n_instrs, boundaries), (45_588, 46));
}
