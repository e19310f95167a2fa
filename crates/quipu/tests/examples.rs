//! The examples compile, run, and give correct results on traces of the repository.

// The examples are programs; here they are modules, whose `main` is not called.
#![allow(dead_code)]
// A test whose setup fails has failed.
#[path = "../examples/own_pass.rs"]
mod own_pass;
#[path = "../examples/page_accesses.rs"]
mod page_accesses;
#[path = "../examples/walk.rs"]
mod walk;

use quipu::model::{OpenOptions, Trace};

fn open(name: &str) -> Box<dyn Trace> {
    quipu::open_path(&quipu_testkit::fixtures("drmemtrace").join(name), &OpenOptions::default()).unwrap()
}

#[test]
fn the_pages_of_a_trace_share_out_all_its_accesses() {
    let trace = open("tiny.chunk1000");
    let mut pages = std::collections::BTreeSet::new();
    for shard in trace.shards() {
        let scan = quipu::model::Scan::new(shard.id).columns(quipu::model::Columns::ACCESSES);
        let mut reader = trace.scan(&scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            pages.extend(batch.accesses.addr.iter().map(|addr| addr & !4095));
        }
    }
    let sums = pages.iter().map(|page| page_accesses::page_accesses(&*trace, *page).unwrap());
    let (reads, writes) = sums.fold((0, 0), |(reads, writes), one| (reads + one.reads, writes + one.writes));
    assert_eq!((reads, writes), totals("tiny.chunk1000"));
    assert!(pages.len() > 1);
}

/// Loads and stores according to the format's own tool.
fn totals(name: &str) -> (u64, u64) {
    use quipu::engine::{RunOptions, Watch, plan, run};
    let trace = open(name);
    let tool = quipu::tool("counts", &trace.meta().format).unwrap();
    let planned = vec![plan(tool, &quipu::model::Given::default(), &*trace).unwrap()];
    let outcome = run(&*trace, planned, &RunOptions::new(&Watch::new())).unwrap();
    let total = outcome.reports[0].json()["total"].clone();
    (total["loads"].as_u64().unwrap(), total["stores"].as_u64().unwrap())
}

#[test]
fn every_thread_stores_something() {
    let stores = own_pass::stores(&*open("threadsig.x64")).unwrap();
    assert_eq!(stores.threads.len(), 9);
    assert!(stores.threads.iter().all(|of| of.bytes > 0));
}

#[test]
fn the_walk_meets_instructions_in_order_with_their_text() {
    let mut lines = Vec::new();
    walk::walk(&*open("allasm"), |pc, text, accesses| {
        lines.push(format!("{pc:#x} {text} {accesses:x?}"));
        lines.len() < 3
    })
    .unwrap();
    assert_eq!(
        lines,
        [
            "0x401000 and    $0xfffffffffffffff0,%rsp []",
            "0x401004 mov    $0x10,%rbx []",
            "0x40100b mov    $0x1,%rdi []",
        ]
    );
}

#[test]
fn the_walk_finds_the_data_of_instructions() {
    let mut n_accesses = 0;
    walk::walk(&*open("tiny.chunk1000"), |_, _, accesses| {
        n_accesses += accesses.len();
        true
    })
    .unwrap();
    assert!(n_accesses > 1000, "{n_accesses}");
}

#[test]
fn a_trace_that_does_not_say_its_architecture_cannot_be_walked() {
    let error = walk::walk(&*open("small"), |_, _, _| true).unwrap_err();
    assert_eq!(error.message(), "the trace does not say its architecture");
}
