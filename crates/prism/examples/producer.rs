//! A front end: sends accesses from several threads to a receiver in another process.
//!
//! `producer fixed|variable EVENTS THREADS`, with the receiver's file in the environment variable `QUIPU_PRISM`. The address
//! of each event is its number in its thread, so that the receiver can check that it got all of them in order. Prints the
//! number of dropped events.

use quipu_prism::delivery::producer::{Connection, ENVIRONMENT, Encoding, Options, Put, Refused};
use quipu_prism::event::access;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

fn send(connection: &Connection, encoding: Encoding, n_events: u64) -> Result<u64, Refused> {
    let mut writer = connection.writer(Options { encoding, ..Options::default() })?;
    for n in 0..n_events {
        if writer.memory(access::STORE, 8, n, 0) == Put::NoRoom {
            break;
        }
    }
    writer.flush();
    Ok(writer.n_dropped())
}

fn run() -> Result<u64, String> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, encoding, n_events, n_threads] = &arguments[..] else {
        return Err("usage: producer fixed|variable EVENTS THREADS".to_owned());
    };
    let encoding = if encoding == "fixed" { Encoding::Fixed } else { Encoding::Variable };
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    let (n_events, n_threads) = (number(n_events)?, number(n_threads)?);
    let path = std::env::var_os(ENVIRONMENT).ok_or(format!("{ENVIRONMENT} is not set"))?;
    let path = CString::new(path.into_vec()).map_err(|error| error.to_string())?;
    let connection = Connection::open(&path).map_err(|refused| refused.to_string())?;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..n_threads).map(|_| scope.spawn(|| send(&connection, encoding, n_events))).collect();
        let mut n_dropped = 0;
        for thread in threads {
            let sent = thread.join().map_err(|_| "a thread panicked".to_owned())?;
            n_dropped += sent.map_err(|refused| refused.to_string())?;
        }
        Ok(n_dropped)
    })
}

fn main() -> ExitCode {
    match run() {
        Ok(n_dropped) => {
            println!("dropped {n_dropped}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("producer: {error}");
            ExitCode::FAILURE
        }
    }
}
