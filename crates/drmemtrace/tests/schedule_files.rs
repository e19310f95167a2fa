//! `schedule-files` detects whether the files beside a trace agree with the trace, and where they do not.

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::schedule::{self, Stretch};
use quipu_drmemtrace::tools::schedule_files::{Missing, SCHEDULE_FILES, ScheduleFiles};
use quipu_model::{Format, Given, OpenOptions, Report, Tool, Trace};
use quipu_source::Source;
use quipu_testkit::{copy_files, fixtures, report_of};
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

fn traces() -> PathBuf {
    fixtures("drmemtrace")
}

fn open(path: &Path) -> Box<dyn Trace> {
    DRMEMTRACE.open(&Source::open(path).unwrap(), &OpenOptions::default()).unwrap()
}

fn compare(trace: &dyn Trace) -> ScheduleFiles {
    report_of(&SCHEDULE_FILES, &Given::default(), trace)
}

#[test]
fn files_that_the_original_wrote_say_what_the_trace_says() {
    for (name, n_members) in [("threadsig.x64", 12), ("thr", 2), ("as_traced", 5), ("tiny.func", 2)] {
        let trace = open(&traces().join(name));
        assert!(SCHEDULE_FILES.accompanies("schedule", &*trace), "{name}");
        let report = compare(&*trace);
        assert_eq!((report.differing, report.is_flawed()), (0, false), "{name}: {:?}", report.differences);
        assert_eq!(report.members.len(), n_members, "{name}: {:?}", report.members);
        assert!(report.members.iter().all(|member| member.form.is_some()), "{name}");
    }
}

#[test]
fn a_trace_without_such_files_is_not_accompanied() {
    for name in ["tiny.gz", "thr.core_sharded_kernel"] {
        let trace = open(&traces().join(name));
        assert!(!SCHEDULE_FILES.accompanies("schedule", &*trace), "{name}");
        let report = compare(&*trace);
        assert_eq!((report.members, report.differing), (vec![], 0), "{name}");
    }
}

#[test]
fn each_stretch_that_differs_is_counted_and_the_first_are_told() {
    let folder = copied("thr");
    std::fs::remove_file(folder.path().join("serial_schedule.bin.gz")).unwrap();
    let serial = Source::open(&traces().join("thr/serial_schedule.bin.gz")).unwrap();
    let mut stretches: Vec<Stretch> = schedule::read(&serial).unwrap().remove(0).1;
    let n_stretches = stretches.len() as u64;
    stretches[1].start_instr = (stretches[1].start_instr.get() + 1).into();
    std::fs::write(folder.path().join("serial_schedule.bin"), stretches.as_bytes()).unwrap();
    let report = compare(&*open(folder.path()));
    assert!(report.is_flawed());
    let member = &report.members[0];
    assert_eq!((member.slices, member.differing, report.differing), (n_stretches, 1, 1));
    assert_eq!(&*report.differences[0].rule, "drmemtrace/serial-schedule-entry");
    assert_eq!(report.differences[0].offset, Some(32));
    // With one stretch less the form is unknown; nothing can be compared.
    stretches.pop();
    std::fs::write(folder.path().join("serial_schedule.bin"), stretches.as_bytes()).unwrap();
    let report = compare(&*open(folder.path()));
    assert_eq!((report.members[0].form, report.differing), (None, 1));
    assert_eq!(&*report.differences[0].rule, "drmemtrace/serial-schedule-count");
}

/// A copy of the files of a fixture.
fn copied(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&traces().join(name), folder.path());
    folder
}

#[test]
fn a_processor_without_member_is_nobody_elses_difference() {
    let folder = copied("as_traced");
    let path = folder.path().join("cpu_schedule.bin.zip");
    let members = schedule::read(&Source::open(&path).unwrap()).unwrap();
    let mut zip = zip::ZipWriter::new(std::fs::File::create(&path).unwrap());
    for (name, stretches) in members.iter().filter(|(name, _)| name != "7") {
        zip.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut zip, stretches.as_bytes()).unwrap();
    }
    zip.finish().unwrap();
    let report = compare(&*open(folder.path()));
    assert!(report.members.iter().all(|member| member.differing == 0), "{:?}", report.members);
    assert_eq!((report.differing, &*report.differences[0].rule), (1, "drmemtrace/cpu-schedule-count"));
}

#[test]
fn what_is_not_compared_says_why() {
    let why = |trace: &dyn Trace| {
        let report = compare(trace);
        assert_eq!(report.json()["not_compared"], serde_json::to_value(report.missing).unwrap());
        (report.missing, report.is_flawed())
    };
    assert_eq!(why(&*open(&traces().join("thr"))), (None, false));
    assert_eq!(why(&*open(&traces().join("tiny.gz"))), (Some(Missing::None), false));
    assert_eq!(why(&*open(&traces().join("thr.core_sharded_kernel"))), (Some(Missing::Cores), false));
    let thr = Source::open(&traces().join("thr")).unwrap();
    let some = OpenOptions { threads: vec![5750.into()], ..OpenOptions::default() };
    assert_eq!(why(&*DRMEMTRACE.open(&thr, &some).unwrap()), (Some(Missing::SomeThreads), false));
    let given = Given::from([("also", traces().join("thr").to_str().unwrap())]);
    let several = OpenOptions { given, ..OpenOptions::default() };
    assert_eq!(why(&*DRMEMTRACE.open(&thr, &several).unwrap()), (Some(Missing::SeveralTraces), false));

    let folder = copied("as_traced");
    let cut = |name: &str, n_bytes: usize| {
        let path = folder.path().join(name);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(path, &bytes[..n_bytes]).unwrap();
    };
    cut("serial_schedule.bin.gz", 30);
    let trace = open(folder.path());
    assert!(SCHEDULE_FILES.accompanies("schedule", &*trace));
    let report = compare(&*trace);
    assert_eq!((report.missing, report.unreadable.len(), report.is_flawed()), (None, 1, true));
    assert_eq!(report.members.len(), 4);
    cut("cpu_schedule.bin.zip", 100);
    assert_eq!(why(&*open(folder.path())), (Some(Missing::Unreadable), true));
    cut("serial_schedule.bin.gz", 0);
    cut("cpu_schedule.bin.zip", 0);
    assert_eq!(why(&*open(folder.path())), (Some(Missing::Empty), false));
}

#[test]
fn a_cut_schedule_file_is_placed_without_an_empty_member() {
    let folder = copied("thr");
    let path = folder.path().join("serial_schedule.bin.gz");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(folder.path().join("serial_schedule.bin"), [0; 40]).unwrap();
    let trace = open(folder.path());
    let findings = &trace.meta().findings;
    assert_eq!((&*findings[0].rule, findings[0].place.offset), ("drmemtrace/schedule-file", Some(32)));
    assert_eq!(findings[0].place.member, None);
}
