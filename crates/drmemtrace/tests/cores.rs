//! Threads arranged by the cores that they ran on: every record is there once, where the schedule says.

// A test that cannot set its scene has failed.
#![allow(clippy::unwrap_used)]

use quipu_drmemtrace::DRMEMTRACE;
use quipu_drmemtrace::table::MEMREFS_TABLE;
use quipu_model::{Batch, Columns, Format, OpenOptions, Scan, ShardId, ShardKind, Trace, Window};
use quipu_source::Source;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

fn open(name: &str) -> Box<dyn Trace> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/drmemtrace").join(name);
    DRMEMTRACE.open(&Source::open(&path).unwrap(), &OpenOptions::default()).unwrap()
}

/// A number for what each record of a batch says, whatever its ordinals and whatever its code is called.
fn digests(batch: &Batch) -> Vec<u64> {
    let rows = &batch.tables[0];
    let digest = |row: usize| {
        let mut hasher = DefaultHasher::new();
        for name in ["tid", "type", "marker", "size", "addr", "pc", "target", "value", "kernel", "time"] {
            rows.column(name).unwrap().get(row).hash(&mut hasher);
        }
        let code = batch.codes.get(rows.column("code").unwrap().get(row) as u32);
        code.map(|code| code.bytes()).hash(&mut hasher);
        hasher.finish()
    };
    (0..rows.len()).map(digest).collect()
}

/// The records of a shard, and how many instructions stand among them.
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
        let ordinals = batch.tables[0].column("record").unwrap();
        for row in 0..ordinals.len() {
            assert_eq!(ordinals.get(row), span.first_record + 1 + row as u64);
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
