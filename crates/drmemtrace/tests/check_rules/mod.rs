//! Every rule has a small trace that breaks it, and no other rule if possible; traces that break no rule are clean.
//!
//! Files of entries are in `cases`, in folders named after the rule (`clean-…` if none is broken), as text that [`rows`]
//! reads; cases that need an archive or a folder are made in [`folders`].

// The helpers of a test may panic as the test may.
mod folders;
mod rows;
mod trace;

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::check::{CHECK, CheckReport, RULES};
use quipu_model::{Format, Given, OpenOptions, Report};
use quipu_source::Source;
use quipu_testkit::{cases, report_of};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Rules that no trace of this file breaks, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    ("drmemtrace/schedule-thread", "arranging by cores says it; tests/cores.rs has such a schedule"),
    ("drmemtrace/schedule-backwards", "arranging by cores says it; tests/cores.rs has such a schedule"),
    ("drmemtrace/schedule-unreached", "arranging by cores says it; tests/cores.rs has such a schedule"),
    ("drmemtrace/schedule-source", "arranging by cores says it; tests/cores.rs has such schedules"),
    ("drmemtrace/odd-entries", "readers that interpret entries warn; `check` has a rule for each"),
    ("drmemtrace/missing-chunk", "the damage tests of the program take chunks out of an archive"),
    ("drmemtrace/missing-file", "the damage tests of the program remove a file of a folder"),
    ("engine/unreadable", "the engine says it of a file that the system refuses to read"),
    ("engine/oversized-access", "entries have 16 bits for sizes; traces of texts may break it"),
    (
        "drmemtrace/schedule-too-long",
        "it takes four million markers; a test beside the code has them counted",
    ),
];

fn check_source(source: &Source) -> CheckReport {
    let trace = DRMEMTRACE.open(source, &OpenOptions::default()).unwrap();
    report_of(&CHECK, &Given::default(), &*trace)
}

/// Describes the difference, unless exactly these rules are broken.
fn judge(report: &CheckReport, rule: &str, also: &[&str]) -> Option<String> {
    let full = |name: &&str| RULES.iter().find(|rule| rule.is_called(name)).unwrap().name;
    let expected: BTreeSet<&str> = also.iter().chain([&rule]).map(full).collect();
    let found: BTreeSet<&str> = report.broken().map(|(rule, _)| rule.name).collect();
    let texts: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
    (found != expected).then(|| format!("{rule}: {}", texts.join("\n    ")))
}

/// Fails with all differences at once.
fn assert_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The paths of all files of entries.
fn inputs() -> Vec<PathBuf> {
    let inputs = cases::rows(env!("CARGO_MANIFEST_DIR"));
    assert!(inputs.len() > 100, "there are {} cases", inputs.len());
    inputs
}

/// The rule that a case breaks, from the name of its folder, which has a number if there are several; `None` if it breaks
/// none.
fn rule_of(input: &Path) -> Option<&str> {
    let name = input.parent()?.file_name()?.to_str()?;
    let numbered = name.rsplit_once('-').filter(|(_, number)| number.parse::<u32>().is_ok());
    Some(numbered.map_or(name, |(rule, _)| rule)).filter(|name| !name.starts_with("clean-"))
}

#[test]
fn every_case_is_printed_and_checked_as_its_files_say() {
    for input in inputs() {
        let entries = rows::parse(&fs::read_to_string(&input).unwrap());
        let source = Source::from_bytes("case", trace::bytes(&entries));
        cases::holds_of(&DRMEMTRACE, Ok(source), &input);
    }
}

#[test]
fn every_case_breaks_the_rule_that_it_is_called_after() {
    for input in inputs() {
        let check = fs::read_to_string(input.with_file_name("check.txt")).unwrap();
        let mut broken = check.lines().filter_map(|line| line.split(' ').next());
        match rule_of(&input) {
            None => assert_eq!(check, "", "{}", input.display()),
            Some(name) => {
                let rule = RULES.iter().find(|rule| rule.is_called(name));
                let rule = rule.unwrap_or_else(|| panic!("there is no rule `{name}`")).name;
                assert!(broken.any(|found| found == rule), "{}: {check}", input.display());
            }
        }
    }
}

#[test]
fn an_archive_or_packing_that_breaks_a_rule_breaks_that_rule() {
    let wrong = folders::archives().into_iter().filter_map(|case| {
        judge(&check_source(&Source::from_bytes("case", case.bytes)), case.rule, case.also)
    });
    assert_none(wrong.collect());
}

#[test]
fn a_folder_that_breaks_a_rule_breaks_that_rule() {
    let wrong = folders::folders().into_iter().filter_map(|case| {
        let folder = tempfile::tempdir().unwrap();
        case.fill(folder.path());
        judge(&check_source(&Source::open(folder.path()).unwrap()), case.rule, case.also)
    });
    assert_none(wrong.collect());
}

#[test]
fn every_rule_has_a_trace_that_breaks_it() {
    let inputs = inputs();
    let (archives, folders) = (folders::archives(), folders::folders());
    let mut tried: Vec<&str> = inputs.iter().filter_map(|input| rule_of(input)).collect();
    tried.extend(archives.iter().map(|case| case.rule));
    tried.extend(folders.iter().map(|case| case.rule));
    tried.extend(ELSEWHERE.iter().map(|(rule, _)| rule));
    for rule in RULES {
        assert!(tried.iter().any(|name| rule.is_called(name)), "{} has no trace that breaks it", rule.name);
    }
    for name in tried {
        assert!(RULES.iter().any(|rule| rule.is_called(name)), "there is no rule `{name}`");
    }
}

#[test]
fn an_archive_and_a_folder_that_break_nothing_are_clean() {
    let report = check_source(&Source::from_bytes("archive", folders::clean()));
    assert_eq!(report.findings(), [], "an archive");
    let folder = tempfile::tempdir().unwrap();
    folders::write_clean(folder.path());
    assert_eq!(check_source(&Source::open(folder.path()).unwrap()).findings(), [], "a folder with schedules");
}

#[test]
fn an_archive_of_templates_is_judged_once_at_its_end() {
    let wrong = folders::templates().into_iter().filter_map(|(rule, bytes)| {
        let report = check_source(&Source::from_bytes("templates.zip", bytes));
        match rule {
            Some(rule) => judge(&report, rule, &[]),
            None => (!report.findings().is_empty()).then(|| format!("whole: {:?}", report.findings())),
        }
    });
    assert_none(wrong.collect());
}

#[test]
fn what_makes_ordinals_or_cores_wrong_is_an_error() {
    for name in ["record-ordinal", "processor-missing"] {
        let rule = RULES.iter().find(|rule| rule.is_called(name)).unwrap();
        assert_eq!(rule.severity, quipu_model::Severity::Error, "{name}");
    }
}

#[test]
fn a_violation_has_its_place() {
    let bytes = folders::two_chunks(
        &[trace::nop(1), trace::nop(2), trace::m(quipu_drmemtrace::record::Marker::CHUNK_FOOTER, 0)],
        &[trace::nop(3)],
    );
    let report = check_source(&Source::from_bytes("a.zip", bytes));
    let texts: Vec<String> = report.findings().iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "error drmemtrace/chunk-start: a.zip(chunk.00000001): offset 0x0, record 10, instr 2: the chunk does not \
             begin with its record ordinal, the clock and the processor"
        ]
    );
}
