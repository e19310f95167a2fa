//! Benchmarks of printing records, and of merging aggregations of many CPUs.

use divan::counter::ItemsCount;
use quipu_dtrace::action::{Action, Function};
use quipu_dtrace::aggregate::Aggregates;
use quipu_dtrace::bytes::ByteOrder;
use quipu_dtrace::describe::{Aggregation, Buffer, Enabling, Probe, Rec};
use quipu_dtrace::layout::{self, BufferWriter};
use quipu_dtrace::options::Settings;
use quipu_dtrace::{Capture, Dialect, Style};
use std::sync::Arc;

const RECORDS: u32 = 100_000;
const CPUS: u32 = 64;
const KEYS: u64 = 100_000;

fn main() {
    divan::main();
}

fn rec(action: Action, code: u16, size: u32, format: u16) -> Rec {
    Rec { action, code, size, offset: 0, alignment: 1, format, arg: 0, uarg: 0, signed: None }
}

/// A capture with records of `printf("%d %s\n")`.
fn printing() -> Arc<Capture> {
    let recs = vec![rec(Action::Printf, 3, 4, 1), rec(Action::Printf, 3, 32, 0)];
    let mut enabling = Enabling { id: 1, probe: 1, recs, ..Enabling::default() };
    layout::place(&mut enabling, Dialect::Classic);
    let mut writer = BufferWriter::new(Dialect::Classic, ByteOrder::Little);
    let mut name = [0; 32];
    name[..8].copy_from_slice(b"/usr/lib");
    for n in 0..RECORDS {
        let values: [&[u8]; 2] = [&n.to_le_bytes(), &name];
        writer.record(&enabling, n.into(), values).unwrap_or_else(|error| panic!("{error}"));
    }
    let probe = Probe { id: 1, provider: "syscall".into(), function: "open".into(), ..Probe::default() };
    Arc::new(Capture {
        pointer_bytes: 8,
        settings: Settings::of("quiet"),
        probes: [(1, probe)].into_iter().collect(),
        by_epid: [(1, 0)].into_iter().collect(),
        enablings: vec![enabling],
        formats: vec![Arc::from(&b"%i %s\n"[..])],
        buffers: vec![Buffer { bytes: writer.into_bytes(), ..Buffer::default() }],
        ..Capture::default()
    })
}

#[divan::bench]
fn printf(bencher: divan::Bencher<'_, '_>) {
    let capture = printing();
    bencher
        .counter(ItemsCount::new(RECORDS))
        .bench_local(|| quipu_dtrace::print(&capture, Style::default()).map(|printed| printed.out.len()));
}

/// A capture of `count()` with a number as key, on many CPUs.
fn counts() -> Capture {
    let key = Rec { offset: 16, alignment: 8, ..rec(Action::Trace, 1, 8, 0) };
    let value = Rec { offset: 24, alignment: 8, ..rec(Action::Aggregate(Function::Count), 0x701, 8, 0) };
    let buffer = |cpu| {
        let mut bytes = Vec::new();
        for key in 0..KEYS {
            bytes.extend_from_slice(&1u64.to_le_bytes());
            bytes.extend_from_slice(&1u64.to_le_bytes());
            bytes.extend_from_slice(&key.to_le_bytes());
            bytes.extend_from_slice(&1u64.to_le_bytes());
        }
        Buffer { cpu, bytes, ..Buffer::default() }
    };
    let aggregation = Aggregation {
        id: 1,
        epid: 1,
        variable: 1,
        name: None,
        size: 32,
        function: Function::Count,
        param: 0,
        keys: vec![key],
        value,
    };
    let states = (0..CPUS).map(buffer).collect();
    Capture { aggregations: vec![aggregation], states, ..Capture::default() }
}

#[divan::bench(sample_count = 5)]
fn merge(bencher: divan::Bencher<'_, '_>) {
    let capture = counts();
    bencher.counter(ItemsCount::new(u64::from(CPUS) * KEYS)).bench_local(|| {
        let mut all = Aggregates::new(false);
        for buffer in &capture.states {
            all.take(&capture, buffer).unwrap_or_else(|error| panic!("{error}"));
        }
        all.len()
    });
}
