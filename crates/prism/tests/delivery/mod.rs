//! Delivery of events through shared memory.

mod cells;
mod lies;
mod original;
mod processes;
mod threads;

use quipu_prism::batch::Batch;
use quipu_prism::delivery::producer::{Connection, ENVIRONMENT};
use quipu_prism::delivery::receiver::{End, Receiver, Seen, Wish};
use quipu_prism::event::{Event, Place};
use quipu_prism::hooks::Sink;
use quipu_prism::{Detail, Result};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Small rings, so that producers have to wait.
const SMALL: quipu_ring::Shape = quipu_ring::Shape { n_slots: 16, ring_words: 1 << 13, heap_words: 1 << 12 };

fn connect(receiver: &Receiver) -> Connection {
    Connection::open(&CString::new(receiver.path().as_os_str().as_bytes()).unwrap()).unwrap()
}

/// An example of this crate. Cargo builds it when all tests are run, but not when a single test is named.
fn example(name: &str) -> Command {
    let exe = std::env::current_exe().unwrap();
    let built = exe.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(built.exists(), "{} is not built: cargo build -p quipu-prism --examples", built.display());
    Command::new(built)
}

/// The example that sends accesses.
fn producer(file: &Path, encoding: &str, n_events: u64, n_threads: u64) -> Command {
    let mut command = example("producer");
    command.args([encoding, &n_events.to_string(), &n_threads.to_string()]).env(ENVIRONMENT, file);
    command.stdout(Stdio::piped());
    command
}

/// Ends the run when `n` producers have come and ended.
fn when_ended(n: usize) -> impl FnMut(Seen) -> Wish {
    move |seen| if seen.n_producers < n { Wish::Wait } else { Wish::Drain }
}

/// Checks that the addresses of each thread count its events.
#[derive(Default)]
struct Order {
    next: BTreeMap<u64, u64>,
    n_batches: u64,
    /// The number of first batches that are delayed, and the delay of each.
    stall: Option<(u64, std::time::Duration)>,
}

impl Sink for Order {
    fn detail(&self) -> Detail {
        Detail::COMMUNICATION
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        let next = self.next.entry(batch.thread.unwrap()).or_default();
        assert_eq!(batch.first, *next, "the ordinal of thread {:?}", batch.thread);
        for event in &batch.events {
            let Event::Memory(memory) = event else { panic!("{event:?}") };
            assert_eq!(memory.address, Some(*next), "thread {:?}", batch.thread);
            *next += 1;
        }
        self.n_batches += 1;
        if let Some((n, time)) = self.stall
            && self.n_batches <= n
        {
            std::thread::sleep(time);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Thread, ordinal, clock, the event, and its name in place of its position.
type Kept = (Option<u64>, u64, Option<u64>, Event, Vec<u8>);

/// Keeps all events.
#[derive(Default)]
struct Keep {
    events: Vec<Kept>,
}

impl Sink for Keep {
    fn detail(&self) -> Detail {
        Detail::ALL
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        for (index, event) in batch.events.iter().enumerate() {
            let at = batch.at(index);
            let (mut event, mut name) = (*event, Vec::new());
            if let Event::Context(context) = &mut event
                && let Place::Name(found) = context.place
            {
                name = batch.name(found).to_vec();
                context.place = Place::Name(quipu_prism::event::Name::default());
            }
            self.events.push((at.thread, at.ordinal, at.clock, event, name));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Processor time of a thread in nanoseconds.
fn on_processor(task: &str) -> u64 {
    let said = std::fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap();
    said.split(' ').next().unwrap().parse().unwrap()
}

fn folders(base: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = std::fs::read_dir(base).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

fn all_left(outcome: &quipu_prism::delivery::receiver::Outcome) -> bool {
    outcome.producers.iter().all(|producer| producer.end == End::Left && producer.n_dropped == 0)
}
