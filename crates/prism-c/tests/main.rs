//! Builds the C example with the compiler of this machine, runs it, and checks what a receiver gets.

#![allow(clippy::unwrap_used)]

use quipu_prism::batch::At;
use quipu_prism::delivery::Receiver;
use quipu_prism::delivery::producer::{ENVIRONMENT, SHAPE};
use quipu_prism::delivery::receiver::{End, Outcome, Seen, Wish};
use quipu_prism::event::{Compute, Context, Control, Kind, Memory, Sync};
use quipu_prism::{Detail, Hooks, Result};
use quipu_testkit::CLibrary;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

// The library is linked by the example; this keeps it a dependency of the test.
use quipu_prism_c as _;

const LIBRARY: CLibrary = CLibrary { root: env!("CARGO_MANIFEST_DIR"), name: "quipu_prism_c" };

/// The events of each thread as text; accesses and computations as counts.
struct Said {
    events: BTreeMap<u64, Vec<String>>,
    needs: Detail,
}

impl Said {
    fn say(&mut self, at: At, what: String) -> Result<()> {
        let said = self.events.entry(at.thread.unwrap()).or_default();
        assert_eq!(said.len() as u64, at.ordinal);
        said.push(what);
        Ok(())
    }
}

impl Hooks for Said {
    fn needs(&self) -> Detail {
        self.needs
    }

    fn on_memory(&mut self, at: At, event: &Memory) -> Result<()> {
        let kind = if event.is_load() { "load" } else { "store" };
        self.say(at, format!("{kind} {} at {:#x}", event.size.unwrap(), event.address.unwrap()))
    }

    fn on_compute(&mut self, at: At, event: &Compute) -> Result<()> {
        assert_eq!(event.width, None, "was not asked for");
        self.say(at, format!("operation {} of {}", event.operation.unwrap(), event.arguments.unwrap()))
    }

    fn on_sync(&mut self, at: At, event: &Sync) -> Result<()> {
        self.say(at, format!("sync {} {}", event.kind, event.data))
    }

    fn on_context(&mut self, at: At, event: &Context, name: &[u8]) -> Result<()> {
        self.say(at, format!("context {} {}", event.kind, String::from_utf8_lossy(name)))
    }

    fn on_control_flow(&mut self, at: At, event: &Control) -> Result<()> {
        let outcome = event.taken.map_or("taken or not", |taken| if taken { "taken" } else { "not taken" });
        let target = event.target.map_or("somewhere".to_owned(), |target| format!("{target:#x}"));
        self.say(at, format!("control {} {outcome} to {target}", event.kind.unwrap()))
    }
}

const NEEDS: Detail = Detail { compute: 0xb0, ..Detail::ALL };

/// Runs the example with an analysis that has these needs; returns the events, the process id, and the receiver's outcome.
fn run(needs: Detail) -> (Said, u32, Outcome) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    LIBRARY.build("examples/workload.c", &program);
    let mut said = Said { events: BTreeMap::new(), needs };
    let mut receiver = Receiver::create_in(folder.path(), SHAPE, said.needs()).unwrap();
    let mut command = Command::new(program);
    let mut child = command.env(ENVIRONMENT, receiver.path()).stdout(Stdio::piped()).spawn().unwrap();
    let parent = child.id();
    let mut wish = |_: Seen| if child.try_wait().unwrap().is_some() { Wish::Drain } else { Wish::Wait };
    let outcome = receiver.run(&mut said, &mut wish).unwrap();
    let output = child.wait_with_output().unwrap();
    // The child gets its own ring with its first event.
    let whose = if needs.memory & Detail::OFF == 0 { "own" } else { "parent" };
    // Events that the encoding cannot represent: a type, and the outcome of a call if calls are wanted.
    let n_dropped = if needs.control & Detail::OFF == 0 { 2 } else { 1 };
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("child: thread of its {whose}\ndropped {n_dropped}\n")
    );
    assert!(output.status.success());
    assert!(outcome.producers.iter().all(|producer| producer.end == End::Left), "{outcome:?}");
    (said, parent, outcome)
}

#[test]
fn what_a_c_program_is_not_asked_for_it_does_not_send() {
    let (said, ..) = run(NEEDS.without(Kind::Context));
    let control = ["control 2 taken to 0x401000", "control 2 taken or not to somewhere"];
    assert_eq!(said.events[&1], [&["sync 1 2"][..], &control, &["sync 2 2"]].concat());
    assert_eq!(said.events[&2].len(), 200_000);
    let (said, ..) = run(NEEDS.without(Kind::Control).without(Kind::Memory));
    assert_eq!(
        said.events[&1],
        ["context 3 main", "sync 1 2", "context 3 wanted", "sync 2 2", "context 4 main"]
    );
    assert_eq!(said.events[&2].len(), 100_002);
    assert!(!said.events.contains_key(&3), "the child had accesses only");
}

#[test]
fn a_program_in_c_sends_events_of_threads_and_of_a_child() {
    let (said, parent, outcome) = run(NEEDS);
    let said = said.events;

    assert_eq!(said.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        said[&1],
        [
            "context 3 main",
            "sync 1 2",
            "control 2 taken to 0x401000",
            "control 2 taken or not to somewhere",
            "context 3 wanted",
            "sync 2 2",
            "context 4 main"
        ]
    );
    let sum = &said[&2];
    assert_eq!(sum.len(), 200_002);
    assert_eq!((&sum[0][..], &sum[200_001][..]), ("context 3 sum", "context 4 sum"));
    assert!((0..100_000_usize).all(|n| sum[1 + 2 * n] == format!("load 8 at {:#x}", 0x10000 + 8 * n)));
    assert!((0..100_000_usize).all(|n| sum[2 + 2 * n] == "operation 1 of 2"));
    assert_eq!(said[&3], ["store 4 at 0x2000", "store 4 at 0x2004", "store 4 at 0x2008"]);

    let of_child: Vec<_> = outcome.producers.iter().filter(|producer| producer.process != parent).collect();
    assert_eq!(of_child.len(), 1);
    let numbers: std::collections::BTreeSet<_> =
        outcome.producers.iter().map(|producer| producer.thread).collect();
    assert_eq!((outcome.producers.len(), numbers.len()), (3, 3), "each has a ring of its own");
}
