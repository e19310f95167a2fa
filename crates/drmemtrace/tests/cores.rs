//! Threads arranged by the cores that they ran on: every record appears once, where the schedule places it.

// A test whose setup fails has failed.
use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::record::{Entry, FileType, Marker, Type};
use quipu_drmemtrace::schedule::{self, Stretch};
use quipu_drmemtrace::table::MEMREFS_TABLE;
use quipu_drmemtrace::tools::counts::{COUNTS, Counts, CountsReport};
use quipu_model::trace::PrintOptions;
use quipu_model::{
    Batch, Columns, Format, Given, OpenOptions, Scan, Severity, ShardId, ShardKind, Trace, Window,
};
use quipu_source::Source;
use quipu_testkit::{copy_files, fixtures, report_of};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use zerocopy::IntoBytes;

fn traces() -> PathBuf {
    fixtures("drmemtrace")
}

fn open(name: &str) -> Box<dyn Trace> {
    DRMEMTRACE.open(&Source::open(&traces().join(name)).unwrap(), &OpenOptions::default()).unwrap()
}

/// A hash of each record of a batch, independent of its ordinals and the index of its code.
fn digests(batch: &Batch) -> Vec<u64> {
    let rows = &batch.tables[0];
    let digest = |row: usize| {
        let mut hasher = DefaultHasher::new();
        for name in ["tid", "type", "marker", "size", "addr", "pc", "target", "value", "kernel", "time"] {
            rows.column_named(name).unwrap().number(row).hash(&mut hasher);
        }
        let code = batch.codes.get(rows.column_named("code").unwrap().number(row) as u32);
        code.map(|code| code.bytes()).hash(&mut hasher);
        hasher.finish()
    };
    (0..rows.n_rows()).map(digest).collect()
}

/// The records of a shard, and the number of instructions among them.
fn records(trace: &dyn Trace, shard: ShardId, window: Window, batch_records: u32) -> (Vec<u64>, u64) {
    let scan = Scan { tables: vec![MEMREFS_TABLE], window, batch_records, ..Scan::new(shard) };
    let mut reader = trace.scan(&scan).unwrap();
    let (mut all, mut instrs) = (Vec::new(), 0);
    let mut expected: Option<(u64, u64)> = None;
    while let Some(batch) = reader.read().unwrap() {
        let span = batch.span;
        assert_eq!(batch.findings, []);
        assert_eq!(
            expected.unwrap_or((span.first_record, span.first_instr)),
            (span.first_record, span.first_instr)
        );
        expected =
            Some((span.first_record + u64::from(span.records), span.first_instr + u64::from(span.instrs)));
        let ordinals = batch.tables[0].column_named("record").unwrap();
        for row in 0..ordinals.len() {
            assert_eq!(ordinals.number(row), span.first_record + 1 + row as u64);
        }
        all.extend(digests(batch));
        instrs += u64::from(span.instrs);
    }
    (all, instrs)
}

fn shards(trace: &dyn Trace) -> Vec<(Vec<u64>, u64)> {
    trace.shards().iter().map(|shard| records(trace, shard.id, Window::All, 1024)).collect()
}

fn counted(shards: &[(Vec<u64>, u64)]) -> (BTreeMap<u64, u64>, u64) {
    let mut counts = BTreeMap::new();
    for digest in shards.iter().flat_map(|(digests, _)| digests) {
        *counts.entry(*digest).or_insert(0) += 1;
    }
    (counts, shards.iter().map(|(_, instrs)| instrs).sum())
}

#[test]
fn every_record_is_on_one_core() {
    for (name, cores) in
        [("threadsig.x64", 11), ("as_traced", 4), ("thr", 1), ("tiny.gz", 1), ("tiny.lz4", 1)]
    {
        let trace = open(name);
        let by_core = trace.by_core().unwrap();
        assert_eq!(by_core.shards().len(), cores, "{name}");
        assert!(by_core.shards().iter().all(|shard| shard.kind == ShardKind::Core && shard.core.is_some()));
        assert_eq!(counted(&shards(&*by_core)), counted(&shards(&*trace)), "{name}");
    }
}

#[test]
fn stretches_begin_where_the_schedule_says() {
    // The schedule of this trace: core 6 from instruction 0, 2 from 32999, 3 from 41648, 7 from 46241.
    let by_core = open("as_traced").by_core().unwrap();
    let found: Vec<(Option<u64>, u64)> = by_core
        .shards()
        .iter()
        .map(|shard| shard.core)
        .zip(shards(&*by_core).iter().map(|(_, n)| *n))
        .collect();
    assert_eq!(
        found,
        [
            (Some(2), 41_648 - 32_999),
            (Some(3), 46_241 - 41_648),
            (Some(6), 32_999),
            (Some(7), 57_812 - 46_241)
        ]
    );
}

#[test]
fn batches_of_any_size_and_windows_give_the_same_records() {
    let by_core = open("threadsig.x64").by_core().unwrap();
    for shard in by_core.shards() {
        let (all, instrs) = records(&*by_core, shard.id, Window::All, 1024);
        assert_eq!(records(&*by_core, shard.id, Window::All, 37), (all.clone(), instrs));
        let n = all.len() as u64;
        for (start, end) in [(0, 10), (5, 5), (n / 3, n / 2), (n - 3, n + 7)] {
            let window = Window::Records(start..end);
            let expected = &all[start as usize..end.clamp(start, n) as usize];
            assert_eq!(records(&*by_core, shard.id, window, 64).0, expected, "{} {start}..{end}", shard.name);
        }
        let (_, found) = records(&*by_core, shard.id, Window::Instrs(instrs / 3..instrs / 2), 64);
        assert_eq!(found, instrs / 2 - instrs / 3, "{}", shard.name);
    }
}

#[test]
fn lenses_point_into_the_core_s_own_codes() {
    let by_core = open("threadsig.x64").by_core().unwrap();
    for shard in by_core.shards() {
        let scan = Scan::new(shard.id).columns(Columns::INSTRS | Columns::INSTR_CODE);
        let mut reader = by_core.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            for (pc, code) in batch.instrs.pc.iter().zip(&batch.instrs.code) {
                assert_eq!(batch.codes.get(*code).unwrap().pc, *pc);
            }
        }
    }
}

#[test]
fn files_of_cores_cannot_be_arranged_again() {
    let error = open("thr.core_sharded_kernel").by_core().err().unwrap();
    assert_eq!(error.kind(), quipu_model::ErrorKind::Unsupported);
}

#[test]
fn windows_of_time_divide_what_a_core_ran() {
    let trace = open("threadsig.x64");
    let by_core = trace.by_core().unwrap();
    let middle = 13_360_000_000_000_000;
    for shard in by_core.shards() {
        let (mut all, instrs) = records(&*by_core, shard.id, Window::All, 1024);
        let clock = |window| records(&*by_core, shard.id, Window::Clock(window), 1024);
        let clocks = clocks(&*by_core, shard.id);
        for at in [clocks[0], clocks[clocks.len() / 2], *clocks.last().unwrap(), middle] {
            let ((mut before, early), (after, late)) = (clock(0..at), clock(at..u64::MAX));
            assert_eq!(early + late, instrs, "{} at {at}", shard.name);
            before.extend(after);
            before.sort_unstable();
            all.sort_unstable();
            assert_eq!(before, all, "{} at {at}", shard.name);
        }
    }
}

/// The distinct clock readings on a core.
fn clocks(trace: &dyn Trace, shard: ShardId) -> Vec<u64> {
    let cut = quipu_model::Cut { clock: true, ..quipu_model::Cut::SIZE };
    let mut reader = trace.scan(&Scan { cut, ..Scan::new(shard) }).unwrap();
    let mut clocks = std::collections::BTreeSet::new();
    while let Some(batch) = reader.read().unwrap() {
        clocks.insert(batch.span.clock);
    }
    clocks.into_iter().collect()
}

#[test]
fn entries_of_cores_are_those_of_threads_with_who_runs_in_front() {
    for name in ["threadsig.x64", "as_traced", "tiny.gz"] {
        let trace = open(name);
        let by_core = trace.by_core().unwrap();
        let turns = |entry: &&Entry| !matches!(entry.kind(), Type::THREAD | Type::PID);
        let entries = |trace: &dyn Trace| -> Vec<(u16, u16, u64)> {
            let mut all = Vec::new();
            for shard in trace.shards() {
                let mut reader = trace.scan(&Scan::new(shard.id).columns(Columns::RAW)).unwrap();
                while let Some(batch) = reader.read().unwrap() {
                    let kept = Entry::slice(batch.raw()).0.iter().filter(turns).map(|entry| {
                        let is_type = entry.kind() == Type::MARKER && entry.size.get() == Marker::FILETYPE.0;
                        let bits = if is_type { FileType::CORE_SHARDED.0 } else { 0 };
                        (entry.kind.get(), entry.size.get(), entry.addr.get() | bits)
                    });
                    all.extend(kept);
                }
            }
            all.sort_unstable();
            all
        };
        assert!(entries(&*trace) == entries(&*by_core), "{name}");
    }
}

/// Counts of a whole trace, except those that are summed over shards differently.
fn counts(trace: &dyn Trace) -> Counts {
    report_of::<CountsReport>(&COUNTS, &Given::default(), trace).total
}

#[test]
fn counts_by_core_add_up_to_those_by_thread() {
    for name in ["threadsig.x64", "as_traced", "thr", "tiny.gz", "tiny.func"] {
        let trace = open(name);
        assert_eq!(counts(&*trace.by_core().unwrap()), counts(&*trace), "{name}");
    }
}

#[test]
fn options_that_printing_has_not_are_refused_by_core_too() {
    let trace = open("thr");
    let options = PrintOptions { given: Given::from([("grep", "x")]), ..PrintOptions::default() };
    let refusal = |trace: &dyn Trace| trace.printer(&options).err().unwrap().to_string();
    assert_eq!(refusal(&*trace.by_core().unwrap()), refusal(&*trace));
}

#[test]
fn threads_that_the_schedule_does_not_know_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("schedule");
    std::fs::write(&path, Stretch::new(5747, 1, 0, 0).as_bytes()).unwrap();
    let given = Given::from([("cpu-schedule", path.to_str().unwrap())]);
    let options = OpenOptions { given, ..OpenOptions::default() };
    let trace = DRMEMTRACE.open(&Source::open(&traces().join("thr")).unwrap(), &options).unwrap();
    let by_core = trace.by_core().unwrap();
    let rules: Vec<&str> = by_core.meta().findings.iter().map(|finding| &*finding.rule).collect();
    assert_eq!(rules, ["drmemtrace/schedule-thread"; 3]);
}

/// Arranges the threads of a fixture by its processors' schedule after a change.
fn arranged_by(name: &str, change: impl FnOnce(&mut Vec<Stretch>)) -> Box<dyn Trace> {
    let folder = tempfile::tempdir().unwrap();
    let trace = traces().join(name);
    let members = schedule::read(&Source::open(&trace.join("cpu_schedule.bin.zip")).unwrap()).unwrap();
    let mut stretches: Vec<Stretch> = members.into_iter().flat_map(|(_, stretches)| stretches).collect();
    change(&mut stretches);
    let path = folder.path().join("schedule");
    std::fs::write(&path, stretches.as_bytes()).unwrap();
    let given = Given::from([("cpu-schedule", path.to_str().unwrap())]);
    let options = OpenOptions { given, ..OpenOptions::default() };
    DRMEMTRACE.open(&Source::open(&trace).unwrap(), &options).unwrap().by_core().unwrap()
}

fn names<'a>(rules: &'a [std::borrow::Cow<'static, str>]) -> Vec<&'a str> {
    rules.iter().map(|rule| &**rule).collect()
}

/// The rules that a read of all cores finds broken, and the number of instructions read.
fn findings_of(trace: &dyn Trace) -> (Vec<std::borrow::Cow<'static, str>>, u64) {
    let rule = |finding: &quipu_model::Finding| finding.rule.clone();
    let mut rules: Vec<_> = trace.meta().findings.iter().map(rule).collect();
    let mut instrs = 0;
    for shard in trace.shards() {
        let mut reader = trace.scan(&Scan::new(shard.id)).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            instrs += u64::from(batch.span.instrs);
            rules.extend(batch.findings.iter().map(rule));
        }
    }
    (rules, instrs)
}

#[test]
fn a_wrong_schedule_is_told_and_loses_nothing() {
    let (backwards, unreached) = ("drmemtrace/schedule-backwards", "drmemtrace/schedule-unreached");
    let found = findings_of(&*arranged_by("thr", |_| {}));
    assert_eq!((names(&found.0), found.1), (Vec::<&str>::new(), 64_253));
    // In the middle of a thread that continues from an earlier instruction.
    let found = findings_of(&*arranged_by("thr", |stretches| {
        let middle = (0..stretches.len())
            .find(|&at| {
                let thread = stretches[at].thread;
                stretches[..at].iter().any(|stretch| stretch.thread == thread)
                    && stretches[at + 1..].iter().any(|stretch| stretch.thread == thread)
            })
            .unwrap();
        stretches[middle].start_instr = (1 << 63).into();
    }));
    assert_eq!((names(&found.0), found.1), (vec![backwards, unreached], 64_253));
    // As the last stretch of its thread.
    let found = findings_of(&*arranged_by("thr", |stretches| {
        stretches.last_mut().unwrap().start_instr = (1 << 63).into();
    }));
    assert_eq!((names(&found.0), found.1), (vec![unreached], 64_253));
    // Somewhere within the thread, but before what came earlier.
    let found = findings_of(&*arranged_by("as_traced", |stretches| {
        let last = stretches.iter_mut().max_by_key(|stretch| stretch.timestamp.get()).unwrap();
        last.start_instr = 5.into();
    }));
    assert_eq!((names(&found.0), found.1), (vec![backwards], 57_812));
}

/// A copy of a fixture without its schedule files.
fn without_schedules(name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_files(&traces().join(name), folder.path());
    for schedule in ["cpu_schedule.bin.zip", "serial_schedule.bin.gz"] {
        std::fs::remove_file(folder.path().join(schedule)).unwrap();
    }
    folder
}

fn open_folder(folder: &tempfile::TempDir) -> Box<dyn Trace> {
    DRMEMTRACE.open(&Source::open(folder.path()).unwrap(), &OpenOptions::default()).unwrap()
}

#[test]
fn the_schedule_beside_the_trace_changes_nothing() {
    // The file omits the return of a thread to a processor that no other thread had in between.
    for name in ["threadsig.x64", "as_traced"] {
        let folder = without_schedules(name);
        let (with, without) = (open(name).by_core().unwrap(), open_folder(&folder).by_core().unwrap());
        let cores = |trace: &dyn Trace| trace.shards().iter().map(|shard| shard.core).collect::<Vec<_>>();
        assert_eq!(cores(&*with), cores(&*without), "{name}");
        assert_eq!(shards(&*with), shards(&*without), "{name}");
        assert_eq!(findings_of(&*with).0, [""; 0], "{name}");
    }
    let by_core = open("threadsig.x64").by_core().unwrap();
    let instrs = |cpu| {
        let shard = by_core.shards().iter().find(|shard| shard.core == Some(cpu)).unwrap();
        records(&*by_core, shard.id, Window::All, 1024).1
    };
    assert_eq!([3, 5, 7].map(instrs), [69_903, 40_305, 91_861]);
}

#[test]
fn counts_name_cores_by_their_processors() {
    let by_core = open("threadsig.x64").by_core().unwrap();
    let report = report_of::<CountsReport>(&COUNTS, &Given::default(), &*by_core);
    let found: Vec<(Option<u64>, u64)> =
        report.shards.iter().map(|part| (part.core, part.counts.instructions)).collect();
    let expected: Vec<(Option<u64>, u64)> = by_core
        .shards()
        .iter()
        .map(|shard| shard.core)
        .zip(shards(&*by_core).iter().map(|(_, n)| *n))
        .collect();
    assert_eq!(found, expected);
}

/// A trace of one thread without processor markers, beside a schedule file with these bytes.
fn without_markers(cpus: &[u8]) -> (tempfile::TempDir, Box<dyn Trace>) {
    let folder = tempfile::tempdir().unwrap();
    let trace = open("as_traced");
    let mut bytes = Vec::new();
    let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::RAW)).unwrap();
    while let Some(batch) = reader.read().unwrap() {
        for entry in Entry::slice(batch.raw()).0 {
            if entry.kind() != Type::MARKER || entry.size.get() != Marker::CPU_ID.0 {
                bytes.extend_from_slice(entry.as_bytes());
            }
        }
    }
    std::fs::write(folder.path().join("drmemtrace.simple_app.1674735.1533.trace"), bytes).unwrap();
    std::fs::write(folder.path().join("cpu_schedule.bin.zip"), cpus).unwrap();
    let trace = open_folder(&folder);
    (folder, trace)
}

#[test]
fn where_the_trace_has_no_processor_markers_the_schedule_beside_it_is_used() {
    let whole = std::fs::read(traces().join("as_traced/cpu_schedule.bin.zip")).unwrap();
    let (_folder, trace) = without_markers(&whole);
    let by_core = trace.by_core().unwrap();
    let cores: Vec<Option<u64>> = by_core.shards().iter().map(|shard| shard.core).collect();
    assert_eq!(cores, [2, 3, 6, 7].map(Some));
    let told: Vec<(&str, Severity)> =
        by_core.meta().findings.iter().map(|found| (&*found.rule, found.severity)).collect();
    assert_eq!(told, [("drmemtrace/schedule-source", Severity::Note)]);
    assert_eq!(findings_of(&*by_core).1, 57_812);
    for cpus in [&whole[..60], &[]] {
        let (_folder, trace) = without_markers(cpus);
        let error = trace.by_core().err().unwrap();
        assert_eq!(error.kind(), quipu_model::ErrorKind::Missing, "{error}");
    }
}

#[test]
fn a_broken_schedule_beside_the_trace_does_no_harm() {
    let whole = std::fs::read(traces().join("as_traced/cpu_schedule.bin.zip")).unwrap();
    let expected = shards(&*open("as_traced").by_core().unwrap());
    for n_bytes in [whole.len() - 1, whole.len() / 2, 60, 10, 0] {
        let folder = tempfile::tempdir().unwrap();
        copy_files(&traces().join("as_traced"), folder.path());
        std::fs::write(folder.path().join("cpu_schedule.bin.zip"), &whole[..n_bytes]).unwrap();
        let by_core = open_folder(&folder).by_core().unwrap();
        let findings = &by_core.meta().findings;
        let told: Vec<(&str, Severity)> =
            findings.iter().map(|found| (&*found.rule, found.severity)).collect();
        let broken = [("drmemtrace/schedule-file", Severity::Warning)];
        assert_eq!(told, broken[..usize::from(n_bytes > 0)], "{n_bytes}");
        assert_eq!(shards(&*by_core), expected, "{n_bytes}");
    }
}
