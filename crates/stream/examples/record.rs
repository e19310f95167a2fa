//! A program that writes a stream of its own records: two kinds, from two threads.
//!
//! `cargo run -p quipu-stream --example record -- FILE [ACCESSES]`, then `… --example expect -- FILE` shows what is in it.

use quipu_stream::record::Record;
use quipu_stream::wire::record::role;
use quipu_stream::write::{Options, Writer};
use std::fs::File;
use std::time::Instant;

#[derive(Clone, Copy, Record)]
enum Kind {
    Read,
    Write,
}

/// Roles are numbers, so that a lens finds the fields of any schema. This checks the three used below.
const _: () = assert!(role::ADDRESS == 6 && role::ACCESS_SIZE == 7 && role::ACCESS_KIND == 8);

#[derive(Record)]
#[quipu(name = "access", category = "memory")]
struct Access {
    #[quipu(role = 6, hex, delta)]
    addr: u64,
    #[quipu(role = 7, unit = "B")]
    size: u32,
    #[quipu(role = 8)]
    kind: Kind,
}

#[derive(Record)]
#[quipu(name = "request", text = "{method} {path}: {status}")]
struct Request<'a> {
    method: &'a str,
    path: String,
    status: u16,
    sizes: Vec<u32>,
    error: Option<String>,
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "record.quipu".to_owned());
    let n_accesses: u64 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let writer = Writer::new(File::create(&path)?, Options::new("record example"));
    let access = writer.schema_of::<Access>()?;
    let request = writer.schema_of::<Request<'_>>()?;
    let start = Instant::now();
    let now = || start.elapsed().as_nanos() as u64; // 584 years.
    std::thread::scope(|scope| {
        let mut stream = writer.stream(1)?;
        let accesses = scope.spawn(move || {
            for n in 0..n_accesses {
                let kind = if n.is_multiple_of(3) { Kind::Write } else { Kind::Read };
                stream.write(access, now(), &Access { addr: 0x1000 + 8 * n, size: 8, kind })?;
            }
            stream.finish()
        });
        let mut stream = writer.stream(2)?;
        for n in 0..10 {
            let error = (n == 3).then(|| "not found".to_owned());
            let status = if error.is_some() { 404 } else { 200 };
            let path = format!("/page/{n}");
            stream.write(
                request,
                now(),
                &Request { method: "GET", path, status, sizes: vec![n; 2], error },
            )?;
        }
        stream.finish()?;
        accesses.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread panicked")))
    })?;
    writer.finish()
}
