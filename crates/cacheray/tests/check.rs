//! Breaks each rule once, and checks undamaged traces.

// The helpers of a test may panic as the test may.

use crate::common;
use crate::common::{GOOD, of_bytes, trace};
use quipu_cacheray::CACHERAY;
use quipu_cacheray::decode::encode;
use quipu_cacheray::record::{ADD, Access, Add, Dialect, READ, REMOVE, Record, Remove};
use quipu_cacheray::rules::RULES;
use quipu_cacheray::trace::CacherayTrace;
use quipu_model::Format as _;
use quipu_model::Trace;
use quipu_source::Source;
use quipu_testkit::broken_rules;
use std::collections::{BTreeMap, BTreeSet};

/// The rules that a trace breaks, each with its number of violations and its first place.
fn broken(trace: &CacherayTrace) -> BTreeMap<String, (u64, Option<u64>)> {
    broken_rules(CACHERAY.tools()[0], trace)
}

fn read(addr: u64, size: u8, thread: u64) -> Record<'static> {
    Record::Access(Access { tag: READ, addr, size, thread })
}

fn add(addr: u64, element_bytes: u32, n_elements: u32) -> Record<'static> {
    Record::Add(Add { tag: ADD, addr, thread: 0, element_bytes, n_elements, name: b"struct.a" })
}

fn remove(addr: u64) -> Record<'static> {
    Record::Remove(Remove { tag: REMOVE, addr, thread: 0 })
}

fn encoded(records: &[Record<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| encode(Dialect::Le64, record, &mut bytes).unwrap());
    bytes
}

/// Sizes of an access and of an annotation made by [`add`], in bytes.
const ACCESS: u64 = 18;
const ADDED: u64 = 37;

#[test]
fn each_rule_is_found_where_it_is_broken() {
    let run: Vec<Record<'_>> = (0..20).map(|i| read(0x9000 + 8 * i, 8, 0)).collect();
    let flagged = Record::Remove(Remove { tag: REMOVE | 0x40, addr: 0, thread: 0 });
    let named =
        |name| Record::Add(Add { tag: ADD, addr: 16, thread: 0, element_bytes: 1, n_elements: 1, name });
    let with_run =
        |record: Record<'static>| -> Vec<u8> { encoded(&[&run[..], &[record], &run[..]].concat()) };
    let mut bad_tag = encoded(&run);
    bad_tag.push(7);
    bad_tag.extend(encoded(&run));
    let run_bytes = 20 * ACCESS;
    let mut mixed = encoded(&run);
    mixed.extend([1, 0x10, 0, 0, 0, 0xf7, 0x7f, 0, 0, 1, 0x20, 0, 0, 0, 0xf7, 0x7f, 0, 0, 8, 0, 0]);
    let cases: Vec<(&str, Vec<u8>, Option<u64>)> = vec![
        ("cacheray/empty", Vec::new(), Some(0)),
        ("cacheray/cut", encoded(&run)[..100].to_vec(), Some(90)),
        ("cacheray/bad-tag", bad_tag, Some(run_bytes)),
        ("cacheray/mixed-threads", mixed, Some(run_bytes)),
        ("cacheray/annotation-flags", encoded(&[&run[..], &[flagged], &run[..]].concat()), Some(run_bytes)),
        ("cacheray/odd-size", with_run(read(0x10, 3, 0)), Some(run_bytes)),
        ("cacheray/implausible-address", with_run(read(1 << 50, 8, 0)), Some(run_bytes)),
        (
            "cacheray/bad-name",
            encoded(&[&run[..], &[named(b"\xff\xfe")], &run[..]].concat()),
            Some(run_bytes),
        ),
        ("cacheray/no-elements", with_run(add(0x100, 8, 0)), Some(run_bytes)),
        ("cacheray/region-wraps", with_run(add(u64::MAX - 3, 8, 1)), Some(run_bytes)),
        ("cacheray/null-region", with_run(add(0, 8, 1)), Some(run_bytes)),
        ("cacheray/over-live", encoded(&[add(0x100, 8, 2), add(0x100, 8, 1)]), Some(ADDED)),
        ("cacheray/overlap", encoded(&[add(0x100, 8, 2), add(0x108, 8, 2)]), Some(ADDED)),
        ("cacheray/nested", encoded(&[add(0x100, 8, 4), add(0x108, 8, 1)]), Some(ADDED)),
        ("cacheray/no-add", encoded(&[read(0x10, 8, 0), remove(0x100)]), Some(ACCESS)),
        ("cacheray/never-removed", encoded(&[add(0x100, 8, 1)]), None),
        (
            "cacheray/outside-region",
            encoded(&[add(0x100, 6, 1), read(0x100, 4, 0), read(0x104, 4, 0)]),
            Some(ADDED + ACCESS),
        ),
        (
            "cacheray/after-remove",
            encoded(&[add(0x100, 8, 1), read(0x100, 8, 0), remove(0x100), read(0x104, 4, 0)]),
            Some(ADDED + ACCESS + 17),
        ),
    ];
    for (rule, bytes, offset) in &cases {
        let broken = broken(&of_bytes(bytes));
        assert_eq!(broken.get(*rule), Some(&(1, *offset)), "{rule}: {broken:?}");
    }
    let mut tested: BTreeSet<&str> = cases.iter().map(|(rule, ..)| *rule).collect();
    // This rule is broken when the trace is opened in another dialect.
    tested.insert("cacheray/dialect");
    assert_eq!(tested, RULES.iter().map(|rule| rule.name).collect());
}

#[test]
fn threads_of_64_bits_break_no_rule_wherever_they_stand() {
    // Thread ids from `pthread_self`, from a hash, and all ones.
    let threads = [0x7f12_3456_7700, 0xffff_8000_1234_5680, 0x9e37_79b9_7f4a_7c15, u64::MAX];
    for n_records in [1, 2, 5, 40] {
        for at in 0..n_records {
            for thread in threads {
                let records: Vec<_> = (0..n_records)
                    .map(|i| read(0x9000 + 8 * i, 8, if i == at { thread } else { 7 }))
                    .collect();
                let found = broken(&of_bytes(&encoded(&records)));
                assert_eq!(found, BTreeMap::new(), "{thread:#x} at {at} of {n_records}");
            }
        }
    }
    // Many new threads in turn.
    for n_threads in [2, 17, 100] {
        let records: Vec<_> =
            (0..200).map(|i| read(0x9000 + 8 * i, 8, 0x7f12_3456_0700 + ((i % n_threads) << 12))).collect();
        assert_eq!(broken(&of_bytes(&encoded(&records))), BTreeMap::new(), "{n_threads}");
    }
}

#[test]
fn one_bad_tag_costs_its_record_only() {
    for n_records in [1, 2, 3, 5, 40] {
        for thread in [0, 0x7f12_3456_7700] {
            let records: Vec<_> = (0..n_records).map(|i| read(0x9000 + 8 * i, 8, thread)).collect();
            let whole = encoded(&records);
            for at in 0..n_records {
                for tag in [4, 7, 0x3f, 0x44] {
                    let mut bytes = whole.clone();
                    bytes[(ACCESS * at) as usize] = tag;
                    let (lines, findings) = common::lines(&of_bytes(&bytes));
                    let rules: Vec<&str> = findings.iter().map(|finding| &*finding.rule).collect();
                    let expected = (n_records as usize - 1, vec!["cacheray/bad-tag"]);
                    assert_eq!(
                        (lines.len(), rules),
                        expected,
                        "tag {tag} at {at} of {n_records}, {thread:#x}"
                    );
                    assert_eq!(findings[0].place.offset, Some(ACCESS * at));
                }
            }
        }
    }
}

#[test]
fn a_bad_tag_in_any_of_the_first_records_of_a_trace_costs_that_only() {
    for name in ["threads", "atomics", "reorder-bad"] {
        let whole = common::bytes(name);
        let n_whole = common::lines(&of_bytes(&whole)).0.len();
        // The bytes of a few records, and all of them.
        for n_records in [2, 3, 4, 8, n_whole] {
            let mut ends = vec![0_usize];
            while ends.len() <= n_records.min(9) {
                let at = ends[ends.len() - 1];
                let name_bytes = || u32::from_le_bytes(whole[at + 25..at + 29].try_into().unwrap()) as usize;
                ends.push(
                    at + match whole[at] & 0x3f {
                        ADD => Dialect::Le64.add_bytes() + name_bytes(),
                        REMOVE => Dialect::Le64.remove_bytes(),
                        _ => Dialect::Le64.access_bytes(),
                    },
                );
            }
            let cut = if n_records == n_whole { whole.len() } else { ends[n_records] };
            for bad in 1..n_records.min(9) {
                let mut bytes = whole[..cut].to_vec();
                bytes[ends[bad]] = 7;
                let source = Source::from_bytes("in", bytes.as_slice());
                assert_eq!(
                    quipu_cacheray::trace::probe(&source),
                    quipu_model::Confidence::Likely,
                    "{name} {bad}"
                );
                let read = of_bytes(&bytes);
                assert_eq!(read.codec().dialect, Dialect::Le64, "{name}: record {bad} of {n_records}");
                let (lines, findings) = common::lines(&read);
                let rules: Vec<_> =
                    findings.iter().map(|finding| (finding.rule.clone(), finding.count)).collect();
                let expected = (n_records - 1, vec![("cacheray/bad-tag".into(), 1)]);
                assert_eq!((lines.len(), rules), expected, "{name}: record {bad} of {n_records}");
            }
        }
    }
}

#[test]
fn reading_in_the_wrong_dialect_is_told() {
    let source = quipu_source::Source::open(&common::path("shapes")).unwrap();
    let given = quipu_model::Given::from([("dialect", "be64")]);
    let options = quipu_model::OpenOptions { given, ..Default::default() };
    let trace = quipu_cacheray::trace::open(&source, &options).unwrap();
    assert_eq!(trace.meta().findings[0].rule, "cacheray/dialect");
}

#[test]
fn memory_that_is_used_again_is_no_use_after_free() {
    let bytes =
        encoded(&[add(0x100, 8, 1), remove(0x100), add(0x100, 8, 1), read(0x100, 8, 0), remove(0x100)]);
    assert_eq!(broken(&of_bytes(&bytes)), BTreeMap::new());
}

#[test]
fn real_traces_break_no_rule_that_makes_a_trace_wrong() {
    let errors: BTreeSet<&str> = RULES
        .iter()
        .filter(|rule| rule.severity == quipu_model::Severity::Error)
        .map(|rule| rule.name)
        .collect();
    for name in GOOD {
        let broken = broken(&trace(name));
        assert!(broken.keys().all(|rule| !errors.contains(rule.as_str())), "{name}: {broken:?}");
    }
    // The third region of this program is never freed.
    assert_eq!(broken(&trace("structs"))["cacheray/never-removed"].0, 1);
    assert!(broken(&trace("grand")).is_empty());
}
