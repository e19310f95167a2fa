//! `schedule-files` finds that the files beside a trace say what the trace says, and where they do not.

#![expect(clippy::unwrap_used, reason = "clippy spares test functions, not what they share")]

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::schedule::{self, Stretch};
use quipu_drmemtrace::tools::schedule_files::{SCHEDULE_FILES, ScheduleFiles};
use quipu_model::{Args, Columns, Format, OpenOptions, Report, Scan, Tool, Trace};
use quipu_source::Source;
use std::path::{Path, PathBuf};
use zerocopy::IntoBytes;

fn traces() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace")
}

fn open(path: &Path) -> Box<dyn Trace> {
    DRMEMTRACE.open(&Source::open(path).unwrap(), &OpenOptions::default()).unwrap()
}

fn compare(trace: &dyn Trace) -> ScheduleFiles {
    let mut all = SCHEDULE_FILES.build(&Args::default(), trace).unwrap();
    for shard in trace.shards() {
        let mut pass = all.fork(shard);
        let mut reader = trace.scan(&Scan::new(shard.id).columns(Columns::RAW)).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            pass.consume(batch).unwrap();
        }
        all.merge(pass).unwrap();
    }
    all.finish().unwrap().as_any().downcast_ref::<ScheduleFiles>().unwrap().clone()
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
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(traces().join("thr")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "serial_schedule.bin.gz" {
            std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let serial = Source::open(&traces().join("thr/serial_schedule.bin.gz")).unwrap();
    let mut stretches: Vec<Stretch> = schedule::read(&serial).unwrap().remove(0).1;
    let n_stretches = stretches.len() as u64;
    stretches[1].start_instr = (stretches[1].start_instr.get() + 1).into();
    std::fs::write(folder.path().join("serial_schedule.bin"), stretches.as_bytes()).unwrap();
    let report = compare(&*open(folder.path()));
    assert!(report.is_flawed());
    let member = &report.members[0];
    assert_eq!((member.stretches, member.differing, report.differing), (n_stretches, 1, 1));
    assert_eq!(report.differences[0].rule, "drmemtrace/serial-schedule-entry");
    assert_eq!(report.differences[0].place.offset, Some(32));
    // One stretch less is another form, of which nothing can be compared.
    stretches.pop();
    std::fs::write(folder.path().join("serial_schedule.bin"), stretches.as_bytes()).unwrap();
    let report = compare(&*open(folder.path()));
    assert_eq!((report.members[0].form, report.differing), (None, 1));
    assert_eq!(report.differences[0].rule, "drmemtrace/serial-schedule-count");
}
