//! Findings of `check` in the fixtures: none where DynamoRIO's checker passes, and the same where it does not.

// The helpers of a test may panic as the test may.

use crate::rewriting::{TRACES, fixtures};
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::{CHECK, CheckReport, RULES};
use quipu_model::{Format, Given, OpenOptions, Report, Severity, Trace};
use quipu_source::Source;
use quipu_testkit::{Rng, report_of};
use std::path::Path;

fn check(trace: &dyn Trace, given: &Given) -> CheckReport {
    report_of(&CHECK, given, trace)
}

fn open(path: &Path) -> Box<dyn Trace> {
    DRMEMTRACE.open(&Source::open(path).unwrap(), &OpenOptions::default()).unwrap()
}

/// The rules that a fixture breaks, without the crate's name, and how often.
fn broken(name: &str) -> Vec<(&'static str, u64)> {
    let report = check(&*open(&fixtures().join(name)), &Given::default());
    report.broken().map(|(rule, count)| (rule.short_name(), count)).collect()
}

/// Fixtures that break rules: those before version 5, and the `REGDEPS` conversion of `allasm`, which keeps markers that
/// such traces must not have.
const FLAWED: [&str; 5] =
    ["allasm.regdeps", "chase-snappy", "func-trace", "legacy-for-record-filter", "small"];

#[test]
fn what_the_original_passes_is_clean() {
    // DynamoRIO's false alarms (`tiny.instronly`, empty schedule files) are no alarms here.
    for name in TRACES.iter().filter(|name| !FLAWED.contains(name)) {
        assert_eq!(broken(name), [], "{name}");
    }
}

#[test]
fn legacy_traces_lack_what_the_original_misses_in_them() {
    // No header markers, and interruptions without an address.
    let header = [("line-size-missing", 1), ("page-size-missing", 1)];
    assert_eq!(broken("small"), header);
    assert_eq!(broken("func-trace"), header);
    let events = [("event-pc-discontinuity", 3), ("event-value", 6)];
    assert_eq!(broken("chase-snappy"), [header, events].concat());
    assert_eq!(
        broken("legacy-for-record-filter"),
        [
            ("line-size-missing", 2),
            ("page-size-missing", 2),
            ("event-pc-discontinuity", 26),
            ("event-value", 64)
        ]
    );
}

#[test]
fn conversion_to_regdeps_alone_leaves_what_published_traces_remove() {
    assert_eq!(broken("allasm.regdeps"), [("regdeps-cpu", 34), ("regdeps-marker", 17)]);
}

#[test]
fn fixtures_are_clean_without_decoding_too() {
    let mut given = Given::default();
    given.add("no-decode", "true");
    for name in ["threadsig.x64", "thr.core_sharded_kernel", "tiny.func"] {
        let report = check(&*open(&fixtures().join(name)), &given);
        assert_eq!(report.findings(), [], "{name}");
    }
}

#[test]
fn only_the_rules_asked_for_are_judged() {
    let mut given = Given::default();
    given.add("rule", "event-value");
    given.add("max-per-rule", "3");
    let report = check(&*open(&fixtures().join("legacy-for-record-filter")), &given);
    let broken: Vec<_> = report.broken().map(|(rule, count)| (rule.short_name(), count)).collect();
    assert_eq!(broken, [("event-value", 64)]);
    assert_eq!(report.violations.len(), 3);
}

#[test]
fn damage_of_any_sort_ends_in_a_bounded_report() {
    for name in ["allasm", "small", "tiny.gz", "mock_syscall", "tiny.ifiltered", "allasm.regdeps"] {
        let folder = fixtures().join(name);
        let mut files: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| !path.to_string_lossy().contains("schedule"));
        let bytes = std::fs::read(&files[0]).unwrap();
        let judge = |damaged: &[u8]| {
            let source = Source::from_bytes("damaged", damaged);
            let trace = DRMEMTRACE.open(&source, &OpenOptions::default()).ok()?;
            let report = check(&*trace, &Given::default());
            assert!(report.violations.len() <= 8 * RULES.len(), "{name}");
            Some(report.total(Severity::Error))
        };
        for length in (0..40).map(|i| bytes.len() * i / 40) {
            assert_ne!(
                judge(&bytes[..length]),
                Some(0),
                "{name}: nothing is said of the first {length} bytes"
            );
        }
        let mut rng = Rng::new(1);
        let mut noticed = 0;
        for _ in 0..300 {
            let mut changed = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            changed[at] = changed[at].wrapping_add(1 + rng.below(255) as u8);
            noticed += u64::from(judge(&changed) != Some(0));
        }
        assert!(noticed > 50, "{name}: of 300 changes {noticed} are noticed");
    }
}
