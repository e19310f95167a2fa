//! Throughput in events per second from a thread to a counting hook through shared memory, by wall time and by the processor
//! time of each side.
//!
//! `cargo bench -p quipu-prism --bench delivery`
//!
//! Two cores are rarely idle at the same time, so processor times are more meaningful than wall time: the slower side limits
//! the rate on two idle cores.

use quipu_prism::batch::At;
use quipu_prism::delivery::Receiver;
use quipu_prism::delivery::producer::{Connection, Encoding, Options, Put, SHAPE, Writer};
use quipu_prism::delivery::receiver::{Seen, Wish};
use quipu_prism::event::{Compute, Context, Memory};
use quipu_prism::{Detail, Hooks, Result};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

const N_EVENTS: u64 = 100_000_000;

#[derive(Default)]
struct Count {
    n_loads: u64,
    n_operations: u64,
    n_instructions: u64,
}

impl Hooks for Count {
    fn needs(&self) -> Detail {
        Detail::COMMUNICATION
    }

    #[inline]
    fn on_memory(&mut self, _: At, event: &Memory) -> Result<()> {
        self.n_loads += u64::from(event.is_load());
        Ok(())
    }

    #[inline]
    fn on_compute(&mut self, _: At, _: &Compute) -> Result<()> {
        self.n_operations += 1;
        Ok(())
    }

    #[inline]
    fn on_context(&mut self, _: At, _: &Context, _: &[u8]) -> Result<()> {
        self.n_instructions += 1;
        Ok(())
    }
}

/// Processor time of this thread in seconds.
fn processor_time() -> f64 {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    said.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Sends events in the mix of Prism's front end for Valgrind: two of five are computations.
fn send(writer: &mut Writer<'_>, n_events: u64) {
    use quipu_prism::delivery::producer::Compute;
    let compute = Compute { format: 1, width: 8, operation: 1, n_arguments: 2, ids: &[] };
    for n in 0..n_events / 5 {
        let address = 0x7f00_0000_0000 + 8 * n;
        let puts = [
            writer.context(1, 0x40_1000 + 4 * (n & 63)),
            writer.memory(1, 8, address, 0),
            writer.compute(&compute),
            writer.compute(&compute),
            writer.memory(2, 8, address, 0),
        ];
        if puts.iter().any(|put| *put != Put::Taken) {
            return;
        }
    }
}

fn run(encoding: Encoding, n_producers: u64) -> Option<()> {
    let mut count = Count::default();
    let mut receiver = Receiver::create_in("/dev/shm".as_ref(), SHAPE, count.needs()).ok()?;
    let connection = Connection::open(&CString::new(receiver.path().as_os_str().as_bytes()).ok()?).ok()?;
    let begun = Instant::now();
    let (receiving, sending) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..n_producers)
            .map(|_| {
                scope.spawn(|| {
                    let before = processor_time();
                    if let Ok(mut writer) = connection.writer(Options { encoding, ..Options::default() }) {
                        send(&mut writer, N_EVENTS / n_producers);
                    }
                    processor_time() - before
                })
            })
            .collect();
        let before = processor_time();
        let mut wish =
            |seen: Seen| if seen.n_producers < n_producers as usize { Wish::Wait } else { Wish::Drain };
        let outcome = receiver.run(&mut count, &mut wish);
        let receiving = processor_time() - before;
        let sending: f64 = senders.into_iter().filter_map(|sender| sender.join().ok()).sum();
        outcome.ok().map(|_| (receiving, sending))
    })?;
    let wall = begun.elapsed().as_secs_f64();
    let n_events = count.n_loads * 2 + count.n_operations + count.n_instructions;
    let rate = |seconds: f64| n_events as f64 / seconds / 1e6;
    println!(
        "{:8} {n_producers} producers  {:6.1} M/s  receiver {:6.1} M/s of its processor time, producers {:6.1} M/s of theirs",
        format!("{encoding:?}"),
        rate(wall),
        rate(receiving),
        rate(sending),
    );
    Some(())
}

fn main() {
    for encoding in [Encoding::Fixed, Encoding::Variable] {
        for n_producers in [1, 4] {
            for _ in 0..3 {
                if run(encoding, n_producers).is_none() {
                    println!("{encoding:?}: shared memory cannot be made");
                }
            }
        }
    }
}
