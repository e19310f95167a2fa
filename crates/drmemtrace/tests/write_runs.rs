//! Runs that a recorder declares to need no check are written as if they had been checked: same bytes, counts and schedule.

// The helpers of a test may panic as the test may.
use proptest::prelude::*;
use quipu_drmemtrace::record::{Entry, Marker, NEWEST_VERSION, Type};
use quipu_drmemtrace::write::Counts;
use quipu_drmemtrace::write::threads::{Run, ThreadFile, write_schedules};
use quipu_model::fresh::Folder;
use quipu_source::{PackOptions, Packing, Pool};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The next step of a program.
#[derive(Clone, Debug)]
enum Step {
    /// Executes block 0 to 5, with this many accesses after each instruction, and with or without a branch target at the
    /// end.
    Block { number: u8, n_accesses: u8, has_target: bool },
    /// Reads the clock.
    Clock(u64),
    /// Flushes the collected entries.
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0_u8..6, 0_u8..3, any::<bool>())
            .prop_map(|(number, n_accesses, has_target)| Step::Block { number, n_accesses, has_target }),
        1 => (1_u64..1000).prop_map(Step::Clock),
        2 => Just(Step::Flush),
    ]
}

/// Blocks of 1 to 6 instructions. The last two lie at the same address, with other bytes: code that was changed.
fn instrs(number: u8) -> Vec<(u64, u64)> {
    let at = 0x1000 * u64::from(number.min(4));
    (0..u64::from(number) + 1).map(|i| (at + 4 * i, (u64::from(number) << 32) + i)).collect()
}

/// The entries of a step, with encodings if requested.
fn entries(step: &Step, with_codes: bool) -> Vec<Entry> {
    let mut all = Vec::new();
    match *step {
        Step::Block { number, n_accesses, has_target } => {
            let instrs = instrs(number);
            for (i, (pc, code)) in instrs.iter().enumerate() {
                if with_codes {
                    all.push(Entry::new(Type::ENCODING, 4, *code));
                }
                let is_jump = has_target && i + 1 == instrs.len();
                all.extend(is_jump.then(|| Entry::marker(Marker::BRANCH_TARGET, 0x1000)));
                all.push(Entry::new(if is_jump { Type::INSTR_INDIRECT_JUMP } else { Type::INSTR }, 4, *pc));
                all.extend((0..n_accesses).map(|n| Entry::new(Type::READ, 8, 0x9000 + u64::from(n))));
            }
        }
        Step::Clock(time) => {
            all.extend([Entry::marker(Marker::TIMESTAMP, time), Entry::marker(Marker::CPU_ID, time % 3)]);
        }
        Step::Flush => {}
    }
    all
}

/// Writes the entries of the steps, and returns the file's bytes, its counts, and those of the schedule.
fn written(
    folder: &Path,
    steps: &[Step],
    chunk_instrs: u64,
    packing: Packing,
    by_runs: bool,
) -> (Vec<u8>, Counts, Vec<u8>) {
    let pool = Pool::new(1).unwrap();
    let path = folder.join(if by_runs { "runs" } else { "plain" });
    let pack = PackOptions { packing, level: Some(1) };
    let output = Folder::new(folder.to_owned());
    let mut file = ThreadFile::create(&output, &path, &pool, &pack, chunk_instrs, Arc::default()).unwrap();
    file.push(&[
        Entry::new(Type::HEADER, 0, NEWEST_VERSION),
        Entry::marker(Marker::VERSION, NEWEST_VERSION),
        Entry::new(Type::THREAD, 4, 7),
        Entry::new(Type::PID, 4, 7),
    ])
    .unwrap();
    // The chunk in which each block was last pushed with checks.
    let mut seen: BTreeMap<u8, u32> = BTreeMap::new();
    let mut chunk = file.chunk();
    let mut gathered: Vec<(Vec<Entry>, bool)> = Vec::new();
    for step in steps.iter().chain([&Step::Flush]) {
        if let Step::Flush = step {
            for (entries, is_settled) in gathered.drain(..) {
                if by_runs && is_settled && file.chunk() == chunk {
                    let n = |is_meant: fn(&Entry) -> bool| {
                        entries.iter().filter(|entry| is_meant(entry)).count() as u64
                    };
                    let (instrs, targets) =
                        (n(|entry| entry.kind().is_instr()), n(|entry| entry.kind() == Type::MARKER));
                    file.push_run(&Run { entries: &entries, instrs, targets }).unwrap();
                } else {
                    file.push(&entries).unwrap();
                }
            }
            chunk = file.chunk();
            continue;
        }
        let mut is_settled = false;
        let mut with_codes = false;
        if let Step::Block { number, .. } = step {
            with_codes = !seen.contains_key(number);
            is_settled = seen.insert(*number, chunk) == Some(chunk);
            if *number >= 4 {
                // The other block's bytes are overwritten, so it must be translated again.
                seen.remove(&(9 - number));
            }
        }
        gathered.push((entries(step, with_codes), is_settled));
    }
    let written = file.finish().unwrap();
    let schedules = folder.join(if by_runs { "schedule of runs" } else { "schedule" });
    std::fs::create_dir(&schedules).unwrap();
    write_schedules(&output.within(&schedules), vec![written.schedule], &pool).unwrap();
    output.judge().unwrap();
    let mut files: Vec<_> = std::fs::read_dir(&schedules).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let schedule = files.iter().flat_map(|file| std::fs::read(file).unwrap()).collect();
    (std::fs::read(&path).unwrap(), written.counts, schedule)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn runs_are_written_as_if_they_had_been_looked_at(
        steps in proptest::collection::vec(step(), 0..300),
        chunk_instrs in 1_u64..120,
        is_zip in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let packing = if is_zip { Packing::Zip } else { Packing::Plain };
        let plain = written(folder.path(), &steps, chunk_instrs, packing, false);
        let runs = written(folder.path(), &steps, chunk_instrs, packing, true);
        prop_assert_eq!(plain.1, runs.1);
        prop_assert!(plain.0 == runs.0, "the files differ");
        prop_assert!(plain.2 == runs.2, "the schedules differ");
    }
}
