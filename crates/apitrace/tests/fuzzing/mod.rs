//! The body of the fuzz target `apitrace_text`: a trace written as a stream or as text reads back as the same.

// A file that includes this uses only a part of it, and it panics if a property does not hold.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use quipu_apitrace::edits::trim::{Chooser, Selection};
use quipu_apitrace::encode::{self, Encoder};
use quipu_apitrace::reader::CallReader;
use quipu_apitrace::text::{assemble, disassemble};
use quipu_apitrace::trace::{self, ApiTrace, Packing};
use quipu_apitrace::write::WriteOptions;
use quipu_model::damaged::{Damaged, Intake};
use quipu_model::transform::Silent;
use quipu_model::values::{Call, Kind, NO_NODE, Type, Types, Values};
use quipu_model::{Error, OpenOptions, Reader, Result, Scan, ShardId};
use quipu_source::{Source, StreamOptions};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of calls examined: a small input may inflate to a huge one.
const MAX_CALLS: usize = 1 << 14;
/// Maximum number of bytes examined.
const MAX_BYTES: usize = 4 << 20;

/// Everything about a call except its number, as text that distinguishes any two values.
pub fn shown(call: &Call, values: &Values, types: &Types) -> String {
    let mut out = String::new();
    let ty = |index: u32| match types.get(index) {
        Some(Type::Enum(names)) => format!("enum {} {:?}", names.id, names.names),
        Some(Type::Flags(names)) => format!("flags {} {:?}", names.id, names.names),
        other => format!("{other:?}"),
    };
    let value = |index: u32, out: &mut String| {
        for at in index..values.behind(index) {
            let node = values.node(at);
            let _ = match node.kind {
                Kind::Text | Kind::Blob | Kind::Wide => {
                    write!(out, " {:?} {:?}", node.kind, values.bytes_of(node))
                }
                _ if node.is_composite() => write!(out, " {:?} {}", node.kind, node.halves().0),
                kind => write!(out, " {kind:?} {:#x}", node.payload),
            };
            if matches!(node.kind, Kind::Enum | Kind::Flags | Kind::Struct) {
                let _ = write!(out, " <{}>", ty(node.ty));
            }
        }
    };
    let _ = write!(out, "@{} {} {:#x} {:#x}", call.thread, ty(call.function), call.flags, call.stored_flags);
    for arg in values.args_of(call) {
        let _ = write!(out, "\n  #{}", arg.index);
        value(arg.node, &mut out);
    }
    if call.result != NO_NODE {
        out.push_str("\n  =");
        value(call.result, &mut out);
    }
    if call.has_stack {
        let frames: Vec<String> = values.stack_of(call).iter().map(|frame| ty(*frame)).collect();
        let _ = write!(out, "\n  stack {frames:?}");
    }
    out
}

/// The calls of a trace, at most `MAX_CALLS`; and whether there are more, or the trace is damaged.
fn calls(trace: &ApiTrace) -> (Vec<String>, bool) {
    let mut calls = Vec::new();
    let Ok(mut reader) = CallReader::new(trace.container(), &Scan::new(ShardId(0))) else {
        return (calls, true);
    };
    loop {
        match reader.read() {
            Ok(Some(batch)) => {
                calls.extend(batch.values.calls.iter().map(|call| shown(call, &batch.values, &batch.types)));
                if calls.len() > MAX_CALLS {
                    return (calls, true);
                }
            }
            Ok(None) => return (calls, false),
            Err(_) => return (calls, true),
        }
    }
}

/// Reads any bytes as a trace and writes its calls again: they read back as the same. Incomplete calls come last in either.
pub fn write(bytes: &[u8]) {
    let Ok(trace) = trace::open(&Source::from_bytes("fuzz", bytes), &OpenOptions::default()) else { return };
    let (before, is_more) = calls(&trace);
    if is_more || before.is_empty() {
        return;
    }
    let mut stream = Vec::new();
    encode::header(trace.header(), &mut stream);
    let mut encoder = Encoder::default();
    let mut reader = CallReader::new(trace.container(), &Scan::new(ShardId(0))).unwrap();
    let mut chooser = Chooser::new(Selection::all());
    while let Some(batch) = reader.read().unwrap() {
        for call in &batch.values.calls {
            chooser.next(call);
            encoder.call(call, &batch.values, &batch.types, &mut stream);
        }
    }
    // Calls that consist only of zeros look like a block that was never written, and are read as one.
    if stream.windows(16).any(|bytes| bytes == [0; 16]) {
        return;
    }
    let again = trace::open(&Source::from_bytes("again", stream), &OpenOptions::default());
    // Without a property or a call with a usual name, a bare stream is not recognised as a trace.
    let Ok(again) = again else { return };
    assert_eq!(calls(&again).0, before);
}

/// Reads any bytes as a stream: its text gives the same stream, byte for byte. Also reads any bytes as a text: if it
/// describes a stream, the text of that stream gives the stream again.
pub fn text(bytes: &[u8]) {
    if let Ok(trace) = trace::open(&Source::from_bytes("fuzz", bytes), &OpenOptions::default()) {
        same_text(&trace);
    }
    let mut stream = Vec::new();
    let no_blobs = &mut |_: &str| Err(Error::usage("there are no files"));
    let said = assemble::stream(bytes, "fuzz", no_blobs, &mut |part| {
        stream.extend_from_slice(part);
        if stream.len() > MAX_BYTES { Err(Error::usage("too large")) } else { Ok(()) }
    });
    if said.is_ok()
        && let Ok(trace) = trace::open(&Source::from_bytes("fuzz", stream), &OpenOptions::default())
    {
        same_text(&trace);
    }
}

/// Runs both checks.
pub fn write_and_text(bytes: &[u8]) {
    write(bytes);
    text(bytes);
}

/// Checks that the text of a trace gives its stream, byte for byte.
pub fn same_text(trace: &ApiTrace) {
    let folder = Folder::new();
    let Ok((stream, is_cut)) = stream_of(trace) else { return };
    let text = folder.0.join("text");
    match disassemble::disassemble(trace, &text, false, Intake::new(Damaged::Keep), &Silent) {
        Ok(_) => {}
        Err(error) if stream.is_empty() && !is_cut => panic!("{error}"),
        // There is no text without a header, nor for a container that delivers nothing.
        Err(_) => return,
    }
    let path = folder.0.join("again");
    let options = WriteOptions { packing: Packing::Plain, ..WriteOptions::USUAL };
    if let Err(error) = assemble::assemble(&text, &path, &options, &Silent) {
        panic!("{error}\n{}", String::from_utf8_lossy(&std::fs::read(&text).unwrap()));
    }
    let again = std::fs::read(&path).unwrap();
    if again != stream {
        let at = again.iter().zip(&stream).take_while(|(a, b)| a == b).count();
        panic!("the stream differs at {at:#x}\n{}", String::from_utf8_lossy(&std::fs::read(&text).unwrap()));
    }
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 2 + usize::from(blobs(&text)));
}

/// A temporary folder, removed on drop; the fuzz target has no crate for that.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("quipu-fuzzing-{}-{number}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn blobs(text: &std::path::Path) -> bool {
    disassemble::blob_folder(text).exists()
}

/// The stream of a trace up to its first fault, and whether it is truncated.
fn stream_of(trace: &ApiTrace) -> Result<(Vec<u8>, bool)> {
    let container = trace.container();
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let (mut block, mut bytes, mut is_cut) = (Vec::new(), Vec::new(), false);
    loop {
        match stream.next(&mut block) {
            Ok(Some(_)) => bytes.extend_from_slice(&block),
            Ok(None) => return Ok((bytes, is_cut)),
            Err(error) if error.kind() == quipu_source::ErrorKind::Truncated => is_cut = true,
            Err(error) => return Err(error.into()),
        }
        if bytes.len() > MAX_BYTES {
            return Err(Error::usage("too large"));
        }
    }
}
