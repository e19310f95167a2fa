//! Prints the contents of a stream in the form of the samples' expectations. Exit code 2: a newer program is needed to read
//! the stream, or it cannot be read.

pub(crate) mod arrow;

use quipu_stream::input::FileInput;
use quipu_stream::json::Json;
use quipu_stream::reader::StreamReader;
use quipu_stream::summary;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// Reads the first 16 MiB: enough for any bare buffer, and enough to see that a large file is not one.
fn read_start(path: &str) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(16 << 20).read_to_end(&mut start)?;
    Ok(start)
}

/// The contents of a file, and whether reading stopped where only a newer program understands what follows.
pub(crate) fn summary_of(path: &str) -> io::Result<(Json, bool)> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        let pipe = quipu_stream::input::Pipe::new(file);
        let mut reader = StreamReader::once(pipe).with_registry(arrow::registry());
        return Ok((summary::of(&mut reader)?, reader.session().is_stopped()));
    }
    if let Some((records, _)) = quipu_stream::bare::records(&read_start(path)?) {
        let n = Json::from(records.len() as u64);
        let pairs = [("findings", Json::List(Vec::new())), ("metadata_records", n)];
        let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        return Ok((Json::Object(pairs), false));
    }
    let input = FileInput::new(Arc::new(file))?;
    let mut reader = StreamReader::new(input).with_registry(arrow::registry());
    Ok((summary::of(&mut reader)?, reader.session().is_stopped()))
}

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: expect FILE");
        return ExitCode::from(2);
    };
    match summary_of(&path) {
        Ok((Json::Object(pairs), is_stopped)) => {
            let mut out = io::stdout().lock();
            let lines: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!(" {}: {value}", Json::from(name.as_str())))
                .collect();
            let written = writeln!(out, "{{\n{}\n}}", lines.join(",\n"));
            if is_stopped {
                eprintln!("error: {path} needs a newer program");
            }
            ExitCode::from(if is_stopped || written.is_err() { 2 } else { 0 })
        }
        Ok(_) => ExitCode::from(2),
        Err(error) => {
            eprintln!("error: {path}: {error}");
            ExitCode::from(2)
        }
    }
}
