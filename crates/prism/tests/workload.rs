//! Work, communication and critical paths of small runs with known results.

use quipu_prism::Hooks;
use quipu_prism::batch::At;
use quipu_prism::event::{Compute, Context, Memory, Place, Sync, access, context, format, sync};
use quipu_prism::workload::Workload;
use std::collections::BTreeMap;

/// A run described by its steps.
#[derive(Default)]
struct Run(Workload);

impl Run {
    fn at(thread: u64) -> At {
        At { thread: Some(thread), ordinal: 0, clock: None }
    }

    fn works(mut self, thread: u64, n: u64) -> Run {
        for _ in 0..n {
            let event = Compute { format: Some(format::INTEGER), ..Compute::default() };
            self.0.on_compute(Run::at(thread), &event).unwrap();
        }
        self
    }

    fn access(mut self, thread: u64, kind: u8, address: u64, size: u16) -> Run {
        let event = Memory { access: Some(kind), size: Some(size), address: Some(address), id: None };
        self.0.on_memory(Run::at(thread), &event).unwrap();
        self
    }

    fn syncs(mut self, thread: u64, kind: u8, data: u64) -> Run {
        self.0.on_sync(Run::at(thread), &Sync { kind, data, second: None }).unwrap();
        self
    }

    fn context(mut self, thread: u64, kind: u8, name: &str) -> Run {
        let event = Context { kind, place: Place::Name(Default::default()) };
        self.0.on_context(Run::at(thread), &event, name.as_bytes()).unwrap();
        self
    }

    #[track_caller]
    fn has_path(&self, length: u64, shares: &[(u64, u64)]) {
        assert_eq!(self.0.path().length(), length);
        assert_eq!(self.0.path().shares(), shares.iter().copied().collect());
        assert_eq!(shares.iter().map(|(_, share)| share).sum::<u64>(), length);
    }
}

#[test]
fn bytes_are_communicated_when_another_thread_wrote_them_last() {
    let run = Run::default()
        .access(1, access::STORE, 0x100, 8)
        .access(2, access::LOAD, 0x100, 8)
        .access(2, access::LOAD, 0xfc, 12)
        .access(1, access::LOAD, 0x100, 4)
        .access(2, access::STORE, 0x102, 2)
        .access(1, access::LOAD, 0x100, 8)
        .access(3, access::LOAD, 0x2000, 8);
    assert_eq!(run.0.communication(), BTreeMap::from([((1, 2), 16), ((2, 1), 2)]));
    let two = run.0.threads()[&2].work;
    assert_eq!((two.loads, two.stores, two.bytes_loaded, two.bytes_stored), (2, 1, 20, 2));
}

#[test]
fn functions_have_what_happens_while_they_are_innermost() {
    let run = Run::default()
        .works(1, 1)
        .context(1, context::ENTER, "main")
        .works(1, 2)
        .context(1, context::ENTER, "sum")
        .works(1, 4)
        .access(1, access::LOAD, 0, 8)
        .works(2, 7)
        .context(1, context::EXIT, "sum")
        .works(1, 8)
        .context(1, context::EXIT, "nothing")
        .context(1, context::EXIT, "main")
        .works(1, 16);
    let of = |function: &quipu_prism::workload::Function| {
        let name = String::from_utf8_lossy(&function.name).into_owned();
        (name, function.calls, function.work.iops, function.work.bytes_loaded)
    };
    let found: Vec<_> = run.0.functions().iter().map(of).collect();
    assert_eq!(found, [("".into(), 0, 24, 0), ("main".into(), 1, 10, 0), ("sum".into(), 1, 4, 8)]);
}

#[test]
fn what_follows_a_join_waits_for_the_thread() {
    let run = Run::default()
        .works(1, 10)
        .syncs(1, sync::CREATE, 7)
        .works(1, 5)
        .syncs(2, sync::SWAP, 2)
        .works(2, 20)
        .syncs(1, sync::SWAP, 1)
        .syncs(1, sync::JOIN, 7)
        .works(1, 3);
    run.has_path(33, &[(1, 13), (2, 20)]);
    // A join that nothing follows, and a join of a thread that was not created here.
    let run = run.syncs(1, sync::JOIN, 7).syncs(1, sync::JOIN, 8);
    run.has_path(33, &[(1, 13), (2, 20)]);
    assert_eq!(run.0.path().unknown_joins(), 1);
}

#[test]
fn a_thread_whose_creation_comes_later_begins_after_the_one_that_ran_before() {
    let run = Run::default().works(1, 10).works(2, 4).works(1, 1).syncs(1, sync::CREATE, 7);
    run.has_path(14, &[(1, 10), (2, 4)]);
}

#[test]
fn a_lock_waits_for_the_last_unlock() {
    let run = Run::default()
        .syncs(1, sync::CREATE, 7)
        .syncs(1, sync::LOCK, 0x40)
        .works(1, 10)
        .syncs(1, sync::UNLOCK, 0x40)
        .works(2, 4)
        .syncs(2, sync::LOCK, 0x40)
        .works(2, 6)
        .syncs(2, sync::UNLOCK, 0x40)
        .works(1, 2);
    run.has_path(16, &[(1, 10), (2, 6)]);
    // A lock of another object waits for nothing.
    let run = run.syncs(1, sync::LOCK, 0x80).works(1, 1);
    run.has_path(16, &[(1, 10), (2, 6)]);
}

#[test]
fn what_follows_a_barrier_waits_for_all_that_arrived() {
    let run = Run::default()
        .syncs(1, sync::CREATE, 7)
        .works(1, 3)
        .syncs(1, sync::BARRIER, 0x50)
        .works(2, 8)
        .syncs(2, sync::BARRIER, 0x50)
        .works(2, 1)
        .works(1, 5);
    run.has_path(13, &[(1, 5), (2, 8)]);
    // In the next round, thread 1 comes first, and waits for thread 2.
    let run =
        run.syncs(1, sync::BARRIER, 0x50).works(2, 9).syncs(2, sync::BARRIER, 0x50).works(1, 1).works(2, 2);
    run.has_path(20, &[(1, 0), (2, 20)]);
}

#[test]
fn a_wait_waits_for_the_signal() {
    let run = Run::default()
        .syncs(1, sync::CREATE, 7)
        .works(1, 6)
        .syncs(1, sync::SIGNAL, 0x60)
        .works(1, 1)
        .works(2, 2)
        .syncs(2, sync::WAIT, 0x60)
        .works(2, 3);
    run.has_path(9, &[(1, 6), (2, 3)]);
}
