//! Schedules found in the entries of a trace, compared with the files that DynamoRIO's tools wrote beside it.

// A test whose setup fails has failed.
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::record::Entry;
use quipu_drmemtrace::schedule::{self, Recorder, Schedule, Stretch, first_difference};
use quipu_model::{Columns, Format, OpenOptions, Scan};
use quipu_source::Source;
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    quipu_testkit::fixtures("drmemtrace").join(name)
}

/// The schedule from the entries of the trace's files.
fn derived(name: &str) -> Schedule {
    let trace = DRMEMTRACE.open(&Source::open(&folder(name)).unwrap(), &OpenOptions::default()).unwrap();
    let files = trace.shards().iter().map(|shard| {
        let mut recorder = Recorder::default();
        let mut reader = trace.scan(&Scan::new(shard.id).columns(Columns::RAW)).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            recorder.take(Entry::slice(batch.raw()).0);
        }
        recorder.finish()
    });
    Schedule::full(files.collect())
}

fn in_file(name: &str, file: &str) -> Vec<(String, Vec<Stretch>)> {
    schedule::read(&Source::open(&folder(name).join(file)).unwrap()).unwrap()
}

fn check(name: &str) {
    let derived = derived(name).collapsed();
    let serial = in_file(name, "serial_schedule.bin.gz");
    assert_eq!(first_difference(&serial[0].1, &derived.serial, 0), None, "{name}");
    let mut cpus = in_file(name, "cpu_schedule.bin.zip");
    cpus.sort_by_key(|(cpu, _)| cpu.parse::<u64>().unwrap());
    let members: Vec<(String, Vec<Stretch>)> = derived
        .cpu_members()
        .into_iter()
        .map(|(cpu, bytes)| {
            let source = Source::from_bytes("member", bytes);
            (cpu, schedule::read(&source).unwrap().remove(0).1)
        })
        .collect();
    assert_eq!(cpus, members, "{name}");
}

#[test]
fn entries_give_the_schedules_that_the_original_wrote() {
    let mut checked = 0;
    for entry in std::fs::read_dir(folder("")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // QUIRK: for files of cores, DynamoRIO attributes the whole file to its first thread.
        if path.join("serial_schedule.bin.gz").exists() && !name.contains("core_sharded") {
            check(&name);
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
}

#[test]
fn threads_in_files_of_cores_are_told_apart() {
    let schedule = derived("thr.core_sharded_kernel");
    let threads: std::collections::BTreeSet<u64> =
        schedule.serial.iter().map(|stretch| stretch.thread.get()).collect();
    assert_eq!(threads.into_iter().collect::<Vec<_>>(), [5747, 5750, 5751, 5752]);
    for thread in [5747, 5750, 5751, 5752] {
        let starts: Vec<u64> = schedule
            .serial
            .iter()
            .filter(|stretch| stretch.thread.get() == thread)
            .map(|stretch| stretch.start_instr.get())
            .collect();
        assert!(starts.is_sorted(), "{thread}: {starts:?}");
    }
}

#[test]
fn a_difference_is_found_where_it_is() {
    let trace = [Stretch::new(1, 10, 0, 0), Stretch::new(2, 20, 0, 10_000_005)];
    assert_eq!(first_difference(&trace, &trace, 0), None);
    assert_eq!(first_difference(&trace[..1], &trace, 0).unwrap().file, None);
    let wrong = [trace[0], Stretch::new(2, 20, 0, 5)];
    assert_eq!(first_difference(&wrong, &trace, 0).unwrap().index, 1);
    // Old files count within chunks.
    assert_eq!(first_difference(&wrong, &trace, 10_000_000), None);
}
