//! Real traces: counts made by an independent parser, dialects, and the damage that real programs leave.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{GOOD, folder, lines, of_bytes, trace};
use quipu_cacheray::counts::{CountsTool, RecordCounts};
use quipu_cacheray::record::Dialect;
use quipu_model::trace::surveyed;
use quipu_model::{Columns, Given, Scan, ShardId, Trace, Window};
use quipu_testkit::report_of;
use serde_json::{Map, Value, json};

fn facts_of(trace: &dyn Trace) -> Map<String, Value> {
    surveyed(trace, &|| false)
        .facts
        .into_iter()
        .map(|fact| (fact.key.clone().into_owned(), fact.json()))
        .collect()
}

#[test]
fn counts_are_those_of_the_facts() {
    let facts: Map<String, Value> =
        serde_json::from_str(&std::fs::read_to_string(folder().join("facts.json")).unwrap()).unwrap();
    assert_eq!(facts.len(), 9);
    for (name, facts) in &facts {
        let trace = trace(name.strip_suffix(".trace").unwrap());
        let surveyed = facts_of(&trace);
        let facts = facts.as_object().unwrap();
        assert_eq!(trace.meta().packed_bytes.map(Value::from).as_ref(), facts.get("bytes"), "{name}");
        for (fact, key) in [
            ("records", "records"),
            ("by_tag", "by_tag"),
            ("access_sizes", "access_sizes"),
            ("bytes_accessed", "bytes_accessed"),
            ("lowest", "lowest"),
            ("highest", "highest"),
            ("distinct_64B_lines", "lines"),
        ] {
            assert_eq!(surveyed[key], facts[fact], "{name}: {fact}");
        }
        assert_eq!(surveyed["threads"], json!(facts["threads"].as_array().unwrap().len()), "{name}");
        assert_eq!(surveyed["type_names"].as_object(), facts["type_names"].as_object(), "{name}");
        assert_eq!(facts.len(), 10, "{name}: every fact is compared");
    }
}

#[test]
fn the_tool_counts_what_the_facts_say() {
    let facts: Map<String, Value> =
        serde_json::from_str(&std::fs::read_to_string(folder().join("facts.json")).unwrap()).unwrap();
    for (name, facts) in &facts {
        let trace = trace(name.strip_suffix(".trace").unwrap());
        let found: RecordCounts = report_of(&CountsTool, &Given::default(), &trace);
        let total = found.total;
        assert_eq!(facts["records"], total.records, "{name}");
        assert_eq!(facts["bytes_accessed"], total.bytes, "{name}");
        // Flags are the upper two bits of a tag.
        let of = |kind: u64| -> u64 {
            let tags = facts["by_tag"].as_object().unwrap().iter();
            let of_kind = tags.filter(|(tag, _)| u64::from_str_radix(&tag[2..], 16).unwrap() & 0x3f == kind);
            of_kind.map(|(_, n)| n.as_u64().unwrap()).sum()
        };
        let counts = [total.loads, total.stores, total.regions_added, total.regions_removed];
        assert_eq!(counts, [0, 1, 2, 3].map(of), "{name}");
        assert_eq!(found.threads.len(), facts["threads"].as_array().unwrap().len(), "{name}");
        let sum: u64 = found.threads.iter().map(|thread| thread.counts.records).sum();
        assert_eq!(sum, total.records, "{name}");
    }
}

#[test]
fn dialects_are_told_and_hold_the_same_records() {
    for name in GOOD {
        let dialect = match name {
            "derived/shapes.big-endian" => Dialect::Be64,
            "derived/shapes.ilp32" => Dialect::Ilp32,
            _ => Dialect::Le64,
        };
        assert_eq!(trace(name).codec().dialect, dialect, "{name}");
        assert_eq!(lines(&trace(name)).1, [], "{name}");
    }
    let (shapes, _) = lines(&trace("shapes"));
    assert_eq!(lines(&trace("derived/shapes.big-endian")).0, shapes);
    let narrow: Vec<String> = shapes.iter().map(|line| line.replace("0x5555", "0x")).collect();
    let blanks = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (ilp32, _) = lines(&trace("derived/shapes.ilp32"));
    assert_eq!(ilp32.iter().map(blanks).collect::<Vec<_>>(), narrow.iter().map(blanks).collect::<Vec<_>>());
}

#[test]
fn records_read_as_people_know_them() {
    let (lines, _) = lines(&trace("atomics"));
    assert!(lines.iter().any(|line| line.contains("read atomic")), "{}", lines[0]);
    assert!(lines.iter().any(|line| line.contains("write unaligned")));
    let (lines, _) = common::lines(&trace("shapes"));
    assert_eq!(
        lines[..2],
        [
            "           1       0  add                        0x555555562480     56  struct.body × 16",
            "           2       0  write                      0x5555555624b4      4",
        ]
    );
}

#[test]
fn a_cut_trace_has_all_whole_records_and_says_where_it_ends() {
    let (whole, _) = lines(&trace("grand"));
    let (cut, findings) = lines(&trace("derived/grand.cut-1000"));
    assert_eq!(cut[..], whole[..cut.len()]);
    assert_eq!(findings.len(), 1);
    assert_eq!((&*findings[0].rule, findings[0].place.offset), ("cacheray/cut", Some(988)));
}

#[test]
fn behind_an_inserted_byte_records_are_good_again() {
    let (whole, _) = lines(&trace("grand"));
    let (read, findings) = lines(&trace("derived/bad-tag"));
    let rules: Vec<_> = findings.iter().map(|finding| (&*finding.rule, finding.place.offset)).collect();
    // The damaged byte is at offset 94, within or right after the record that is lost.
    assert_eq!(rules[0].0, "cacheray/bad-tag");
    assert!(rules[0].1.is_some_and(|offset| offset <= 94), "{rules:?}");
    assert_eq!(rules[1].0, "cacheray/cut");
    let behind = |line: &String| line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let read: Vec<_> = read.iter().map(behind).collect();
    let mut rest = whole.iter().map(behind);
    for record in &read {
        assert!(rest.any(|other| other == *record), "{record:?}");
    }
    assert!(read.len() >= 8, "{}", read.len());
}

#[test]
fn of_mixed_threads_all_before_the_damage_is_read_and_the_mixing_is_told() {
    let (read, findings) = lines(&trace("mt-interleaved.cut"));
    assert_eq!((&*findings[0].rule, findings[0].place.offset), ("cacheray/mixed-threads", Some(9000)));
    assert_eq!(findings[0].place.record, Some(500));
    let bytes = common::bytes("mt-interleaved.cut");
    let (good, none) = lines(&of_bytes(&bytes[..9000]));
    assert_eq!((good.len(), none.len()), (500, 0));
    assert_eq!(read[..500], good[..]);
}

#[test]
fn an_empty_file_is_an_empty_trace() {
    let (lines, findings) = lines(&of_bytes(b""));
    assert!(lines.is_empty());
    assert_eq!(&*findings[0].rule, "cacheray/empty");
}

#[test]
fn flags_are_counted_where_no_lens_shows_them() {
    let flagged = |name: &str, beyond: bool| -> u64 {
        let trace = trace(name);
        let scan = Scan { beyond, ..Scan::new(ShardId(0)).columns(Columns::ACCESSES) };
        let mut reader = trace.scan(&scan).unwrap();
        let mut sum = 0;
        while let Some(batch) = reader.read().unwrap() {
            assert_eq!(batch.beyond.len(), usize::from(beyond && !batch.accesses.is_empty()), "{name}");
            sum += batch.beyond.iter().sum::<u64>();
        }
        sum
    };
    // The number of records with flags, as printed.
    let printed = |name: &str| {
        let (lines, _) = lines(&trace(name));
        let is_flagged = |line: &&String| line.contains("atomic") || line.contains("unaligned");
        lines.iter().filter(is_flagged).count() as u64
    };
    assert_eq!((flagged("shapes", true), flagged("atomics", false)), (0, 0));
    assert_eq!(flagged("atomics", true), printed("atomics"));
    assert!(flagged("atomics", true) > 0);
}

#[test]
fn a_window_begins_with_the_regions_of_what_is_before_it() {
    let trace = trace("grand");
    let regions = |window: Window| {
        let scan = Scan { window, ..Scan::new(ShardId(0)).columns(Columns::REGIONS | Columns::ACCESSES) };
        let mut reader = trace.scan(&scan).unwrap();
        let (mut rows, mut n_records, mut is_before) = (Vec::new(), 0, true);
        while let Some(batch) = reader.read().unwrap() {
            is_before &= batch.span.records == 0;
            assert_eq!(batch.span.records == 0, is_before, "what is before comes first");
            n_records += batch.span.records;
            let of = &batch.regions;
            rows.extend(of.addr.iter().zip(&of.what).map(|(addr, what)| (*addr, *what)));
        }
        (rows, n_records)
    };
    let (all, n) = regions(Window::All);
    for start in [0, 1, 37, u64::from(n) / 2, u64::from(n) - 1] {
        assert_eq!(regions(Window::Records(start..u64::MAX)), (all.clone(), n - start as u32), "{start}");
    }
    assert!(regions(Window::Records(0..10)).0.len() < all.len());
}
