//! The bodies of fuzz targets: properties that must hold for any bytes.
//!
//! A target is one line that calls one of these; `cargo test` also runs every seed through them. They panic if a property
//! does not hold, and return early if an input is merely too large.

use crate::reading::{Depth, Reading, ReadingOptions};
use quipu_model::trace::settled;
use quipu_model::{Format, OpenOptions, Options, Scan, Shard, Tool, Trace};
use quipu_source::{Ahead, BlockAt, Container, Source, StreamOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Maximum number of records read in each shard: a small input may inflate to a huge one.
const MAX_RECORDS: usize = 1 << 16;
/// Maximum number of shards read.
const MAX_SHARDS: usize = 16;
/// Maximum number of bytes inflated.
const MAX_BYTES: usize = 4 << 20;

/// Runs a body over every file in a folder, in the order of names, and returns the number of files. If the body panics, the
/// message names the file.
///
/// # Panics
/// If the folder or a file cannot be read, or the body panics.
pub fn each_file(folder: impl AsRef<Path>, body: impl Fn(&[u8])) -> usize {
    let folder = folder.as_ref();
    let listing = std::fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths: Vec<_> = match listing {
        Ok(entries) => entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect(),
        Err(error) => panic!("{} cannot be listed: {error}", folder.display()),
    };
    paths.sort();
    for path in &paths {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => panic!("{} cannot be read: {error}", path.display()),
        };
        // The panic hook has reported the panic; here, only the file is added.
        if catch_unwind(AssertUnwindSafe(|| body(&bytes))).is_err() {
            panic!("this input does not hold: {}", path.display());
        }
    }
    paths.len()
}

/// Treats any bytes as a file: containers find their members and inflate them, or report an error; the bytes are the same for
/// any division into blocks, on this thread or on others.
///
/// # Panics
/// If they are not.
pub fn source(bytes: &[u8]) {
    let source = Source::from_bytes("fuzz", bytes);
    let Ok(container) = source.container() else { return };
    let plain = StreamOptions { ahead: Ahead::Inline, ..StreamOptions::default() };
    // The first read finds members of an archive with wrong checksums; later reads deliver none of their bytes.
    inflate(&container, plain.clone());
    let expected = inflate(&container, plain);
    for (block_bytes, ahead, workers) in [
        (4093, Ahead::Inline, 1),
        (1 << 20, Ahead::Inline, 1),
        (64 << 10, Ahead::Thread { blocks: 1 }, 1),
        (12_000, Ahead::Thread { blocks: 4 }, 3),
    ] {
        let options = StreamOptions { block_bytes, ahead, workers };
        let how = format!("{options:?}");
        let found = inflate(&container, options);
        assert_eq!(found.members.len(), expected.members.len(), "{how}: members");
        for (i, (found, expected)) in found.members.iter().zip(&expected.members).enumerate() {
            assert!(found == expected, "{how}: member {i}: {found:.200?} instead of {expected:.200?}");
        }
    }
}

/// The output of a stream, cut off at a limit.
#[derive(Default)]
struct Inflated {
    /// Number, bytes and errors of each member.
    members: Vec<(u32, Vec<u8>, Vec<String>)>,
}

impl Inflated {
    /// The entry of the stream's current member; a new one if the stream has moved on.
    fn member(&mut self, number: u32) -> &mut (u32, Vec<u8>, Vec<String>) {
        if self.members.last().is_none_or(|(last, ..)| *last != number) {
            self.members.push((number, Vec::new(), Vec::new()));
        }
        self.members.last_mut().expect("a member was just pushed")
    }
}

fn inflate(container: &Container, options: StreamOptions) -> Inflated {
    let mut inflated = Inflated::default();
    let Ok(mut stream) = container.stream(container.all_members(), &options) else { return inflated };
    let (mut block, mut total, mut errors) = (Vec::new(), 0, 0);
    let mut next = 0;
    while total < MAX_BYTES {
        match stream.next(&mut block) {
            Ok(Some(BlockAt { member, offset, last })) => {
                assert!(block.len() <= options.block_bytes, "a block is larger than asked for");
                let (_, bytes, _) = inflated.member(member);
                assert_eq!(offset, bytes.len() as u64, "blocks join without a gap");
                bytes.extend_from_slice(&block);
                total += block.len();
                next = if last { member + 1 } else { member };
            }
            Ok(None) => return inflated,
            Err(error) => {
                inflated.member(next).2.push(error.to_string());
                errors += 1;
                assert!(errors <= container.members().len() + 1, "a member has one error at most: {error}");
            }
        }
    }
    // The place where the limit applied depends on the blocks, so the output is truncated to the same size.
    let mut left = MAX_BYTES;
    for (_, bytes, errors) in &mut inflated.members {
        bytes.truncate(left);
        left -= bytes.len();
        if left == 0 {
            errors.clear();
        }
    }
    inflated
}

/// Treats any bytes as a file of a format: it is read to its end or its fault, and the records are the same for any size of
/// batches and buffers, on this thread or with reading ahead.
///
/// # Panics
/// If they differ, or a batch breaks a promise of the model.
pub fn format(format: &dyn Format, bytes: &[u8]) {
    let source = Source::from_bytes("fuzz", bytes);
    let _ = format.probe(&source);
    let Ok(trace) = format.open(&source, &OpenOptions::default()) else { return };
    for shard in trace.shards().iter().take(MAX_SHARDS) {
        same_records(&*trace, shard);
    }
}

/// Treats any bytes as a file of a format, and runs a tool on it: the tool ends, and its report is the same for buffers of
/// any size.
///
/// # Panics
/// If the reports differ, or the tool fails where the trace can be read.
pub fn tool(format: &dyn Format, tool: &dyn Tool, bytes: &[u8]) {
    let source = Source::from_bytes("fuzz", bytes);
    let Ok(trace) = format.open(&source, &OpenOptions::default()) else { return };
    let report = |buffer_bytes| report(&*trace, tool, buffer_bytes);
    let Some(expected) = report(4 << 20) else { return };
    for buffer_bytes in [1 << 10, 64 << 10] {
        if let Some(found) = report(buffer_bytes) {
            assert_eq!(found, expected, "buffers of {buffer_bytes}");
        }
    }
}

/// A tool's report on a trace; `None` if the trace is too large or cannot be read to its end. Reads again, as every verb
/// does, if the trace reports that delivered data proved damaged.
fn report(trace: &dyn Trace, tool: &dyn Tool, buffer_bytes: usize) -> Option<String> {
    settled(trace, || false, || report_once(trace, tool, buffer_bytes).ok_or(())).ok()
}

fn report_once(trace: &dyn Trace, tool: &dyn Tool, buffer_bytes: usize) -> Option<String> {
    let columns = tool.info().needs.of(tool.info().name, trace).ok()?;
    let mut all = tool.build(&Options::default(), trace).ok()?;
    let mut left = MAX_BYTES;
    for shard in trace.shards().iter().take(MAX_SHARDS) {
        let mut pass = all.fork(shard);
        let scan = Scan { buffer_bytes, ..Scan::new(shard.id).columns(columns) };
        let mut reader = trace.scan(&scan).ok()?;
        while let Some(batch) = reader.read().ok()? {
            left = left.checked_sub(batch.raw().len() + batch.span.records as usize)?;
            pass.consume(batch).expect("a tool takes any batch");
        }
        all.merge(pass).expect("forks of one pass merge");
    }
    Some(all.finish().expect("a tool finishes").json().to_string())
}

/// Reads a shard in several ways and compares the results.
///
/// # Panics
/// If the ways differ.
pub fn same_records(trace: &dyn Trace, shard: &Shard) {
    let read = |batch_records, buffer_bytes, ahead| {
        let scan = Scan { batch_records, buffer_bytes, ahead, ..Scan::new(shard.id) };
        Reading::of(trace, &ReadingOptions { scan, max_records: MAX_RECORDS, depth: Depth::Everything })
    };
    let expected = read(1024, 4 << 20, false);
    for (batch_records, buffer_bytes, ahead) in
        [(1, 4 << 20, false), (7, 1 << 10, false), (1000, 32 << 10, true), (1 << 16, 1 << 20, true)]
    {
        let how = format!("batches of {batch_records}, buffers of {buffer_bytes}, ahead {ahead}");
        match (&expected, read(batch_records, buffer_bytes, ahead)) {
            (Ok(expected), Ok(found)) => expected.assert_same(&found, &how),
            (Err(expected), Err(found)) => assert_eq!(expected.to_string(), found.to_string(), "{how}"),
            (Ok(_), Err(error)) => panic!("{how}: the read cannot begin: {error}"),
            (Err(error), Ok(_)) => panic!("{how}: the read can begin, which else fails: {error}"),
        }
    }
}
