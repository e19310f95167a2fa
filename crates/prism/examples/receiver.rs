//! An analysis: counts the events of producers, and prints the count when all of them have ended.
//!
//! `receiver [PAUSE]` first prints the file that producers open (`QUIPU_PRISM`); it reads no event before PAUSE milliseconds
//! have passed.

use quipu_prism::batch::At;
use quipu_prism::delivery::Receiver;
use quipu_prism::delivery::receiver::{Seen, Wish};
use quipu_prism::event::Memory;
use quipu_prism::{Detail, Hooks, Result};
use std::process::ExitCode;
use std::time::Duration;

#[derive(Default)]
struct Count {
    n_accesses: u64,
}

impl Hooks for Count {
    fn needs(&self) -> Detail {
        Detail::COMMUNICATION
    }

    fn on_memory(&mut self, _: At, _: &Memory) -> Result<()> {
        self.n_accesses += 1;
        Ok(())
    }
}

fn run() -> Result<()> {
    let mut count = Count::default();
    let mut receiver = Receiver::create(count.needs())?;
    println!("{}", receiver.path().display());
    let pause = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    std::thread::sleep(Duration::from_millis(pause));
    let mut wish = |seen: Seen| if seen.n_producers == 0 { Wish::Wait } else { Wish::Drain };
    let outcome = receiver.run(&mut count, &mut wish)?;
    for producer in &outcome.producers {
        println!("{} events, {:?}", producer.n_events, producer.end);
    }
    println!("{} accesses", count.n_accesses);
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("receiver: {error}");
            ExitCode::FAILURE
        }
    }
}
