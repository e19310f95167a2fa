//! Helpers for traces and golden files.

use quipu_apitrace::APITRACE;
use quipu_apitrace::table::CALLS_TABLE;
use quipu_model::print::Ordinals;
use quipu_model::trace::PrintOptions;
use quipu_model::{Format, OpenOptions, Paint, Scan, ShardId, Trace};
use quipu_source::{Source, StreamOptions};
use std::io::Read;
use std::path::PathBuf;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces/apitrace")
}

/// The names of all traces.
pub fn traces() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".trace").map(str::to_owned))
        .collect();
    names.sort();
    assert!(names.len() >= 17, "{names:?}");
    names
}

pub fn source(name: &str) -> Source {
    Source::open(&folder().join(format!("{name}.trace"))).unwrap()
}

pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(format!("{name}.trace"))).unwrap()
}

pub fn open(name: &str) -> Box<dyn Trace> {
    APITRACE.open(&source(name), &OpenOptions::default()).unwrap()
}

/// The stream of a trace, unpacked.
pub fn stream(name: &str) -> Vec<u8> {
    let trace = quipu_apitrace::trace::open(&source(name), &OpenOptions::default()).unwrap();
    let container = trace.container();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
    let (mut block, mut bytes) = (Vec::new(), Vec::new());
    // A fault ends the loop; one trace has no proper end.
    while let Ok(Some(_)) = stream.next(&mut block) {
        bytes.extend_from_slice(&block);
    }
    bytes
}

pub fn options(verbose: bool, settings: &[(String, String)]) -> PrintOptions {
    PrintOptions { verbose, given: settings.iter().cloned().collect(), ..PrintOptions::default() }
}

/// The printer's output for a whole trace.
pub fn dump(trace: &dyn Trace, options: &PrintOptions, paint: &Paint) -> Vec<u8> {
    let scan = Scan { tables: vec![CALLS_TABLE], ..Scan::new(ShardId(0)) };
    let mut reader = trace.scan(&scan).unwrap();
    let mut printer = trace.printer(options).unwrap();
    let mut out = Vec::new();
    printer.begin(&mut out);
    while !printer.is_done()
        && let Some(batch) = reader.read().unwrap()
    {
        let rows: Vec<u32> = (0..batch.span.records).collect();
        printer.print(batch, &rows, Ordinals::default(), paint, &mut out);
    }
    printer.end(&mut out);
    out
}

/// A golden file, unpacked.
pub fn golden(name: &str) -> Vec<u8> {
    let packed = std::fs::read(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    if !name.ends_with(".gz") {
        return packed;
    }
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The names of the cases of command lines.
pub fn commands() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder().join("golden-cli"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".cmd").map(str::to_owned))
        .collect();
    names.sort();
    names
}

pub fn command(case: &str) -> String {
    let text = golden(&format!("golden-cli/{case}.cmd"));
    String::from_utf8(text).unwrap().trim().to_owned()
}

/// The words of a command line. The goldens have no quotes: a set of calls may be several words.
pub fn words(args: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in args.split(' ') {
        let is_new = word.starts_with('-') || word.ends_with(".trace");
        match words.last_mut() {
            Some(last) if !is_new => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// The stream that a text of version 6 describes.
pub fn assembled(statements: &str) -> Vec<u8> {
    use quipu_apitrace::text::{MAGIC, assemble};
    let mut stream = Vec::new();
    let text = format!("{MAGIC}\nversion 6 semantic 6\n{statements}");
    let mut no_blobs = |_: &str| Err(quipu_model::Error::usage("there are no files"));
    let done = assemble::stream(text.as_bytes(), "text", &mut no_blobs, &mut |part| {
        stream.extend_from_slice(part);
        Ok(())
    });
    done.unwrap_or_else(|error| panic!("{error}"));
    stream
}

/// A trace written as text.
pub fn written(statements: &str) -> quipu_apitrace::trace::ApiTrace {
    let source = Source::from_bytes("written", assembled(statements));
    quipu_apitrace::trace::open(&source, &OpenOptions::default()).unwrap()
}

/// Panics with the first line that differs.
pub fn assert_same(ours: &[u8], theirs: &[u8], what: &str) {
    if ours == theirs {
        return;
    }
    let (mut ours, mut theirs) = (ours.split(|byte| *byte == b'\n'), theirs.split(|byte| *byte == b'\n'));
    for line in 1.. {
        let (one, other) = (ours.next(), theirs.next());
        if one != other {
            let text = |line: Option<&[u8]>| line.map(|line| String::from_utf8_lossy(line).into_owned());
            panic!("{what}: line {line}\n ours: {:?}\ntheirs: {:?}", text(one), text(other));
        }
    }
}

/// The calls of a trace, repeated as one stream of version 6.
pub fn repeated(name: &str, times: usize) -> Vec<u8> {
    use quipu_apitrace::encode::{self, Encoder};
    use quipu_apitrace::reader::CallReader;
    use quipu_model::{Columns, Reader};
    let trace = quipu_apitrace::trace::open(&source(name), &OpenOptions::default()).unwrap();
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    encode::header(trace.header(), &mut out);
    for _ in 0..times {
        let scan = Scan::new(ShardId(0)).columns(Columns::CALL_VALUES);
        let mut reader = CallReader::new(trace.container(), &scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            for call in &batch.values.calls {
                encoder.call(call, &batch.values, &batch.types, &mut out);
            }
        }
    }
    out
}

/// The calls of a trace with several threads, repeated, without results: each thread leaves its calls at once, or only when
/// it enters the next while others enter theirs.
pub fn interleaved(name: &str, times: usize) -> Vec<u8> {
    use quipu_apitrace::encode::{self, Encoder};
    use quipu_apitrace::reader::CallReader;
    use quipu_apitrace::record::{EVENT_LEAVE, INCOMPLETE};
    use quipu_model::values::NO_NODE;
    use quipu_model::{Columns, Reader};
    let trace = quipu_apitrace::trace::open(&source(name), &OpenOptions::default()).unwrap();
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    encode::header(trace.header(), &mut out);
    let leave = |mut number: u64, out: &mut Vec<u8>| {
        out.push(EVENT_LEAVE);
        while number > 127 {
            out.push(number as u8 | 128);
            number >>= 7;
        }
        out.extend([number as u8, 0]);
    };
    let (mut open, mut next) = (std::collections::BTreeMap::new(), 0);
    let mut rng = quipu_testkit::Rng::new(5);
    for _ in 0..times {
        let scan = Scan::new(ShardId(0)).columns(Columns::CALL_VALUES);
        let mut reader = CallReader::new(trace.container(), &scan).unwrap();
        while let Some(batch) = reader.read().unwrap() {
            for call in &batch.values.calls {
                if let Some(number) = open.insert(call.thread, next) {
                    leave(number, &mut out);
                }
                let mut call = *call;
                (call.flags, call.result) = (call.flags | INCOMPLETE, NO_NODE);
                encoder.call(&call, &batch.values, &batch.types, &mut out);
                if rng.below(3) == 0 {
                    open.remove(&call.thread);
                    leave(next, &mut out);
                }
                next += 1;
            }
        }
    }
    for number in open.into_values() {
        leave(number, &mut out);
    }
    out
}
