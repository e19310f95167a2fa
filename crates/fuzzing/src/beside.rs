//! Targets for files that accompany traces: lists of modules and functions, schedules, indexes.

use crate::folder::Folder;
use quipu::apitrace::APITRACE;
use quipu::apitrace::index::Index;
use quipu::apitrace::index::store::{self, Identity};
use quipu::drmemtrace::raw::RAW;
use quipu::drmemtrace::{funclist, schedule};
use quipu::model::{Columns, Format, OpenOptions, Scan, Window};
use quipu::source::Source;
use quipu_testkit::fuzz;
use std::sync::LazyLock;
use xxhash_rust::xxh64::xxh64;

static RAW_FOLDER: LazyLock<Folder> = LazyLock::new(Folder::new);

/// Reads any bytes as the lists of modules and functions in a raw folder, and the folder with them.
///
/// # Panics
/// If the function list reads differently on its own and in the folder.
pub fn lists(bytes: &[u8]) {
    let functions = funclist::parse(&String::from_utf8_lossy(bytes));
    if let Ok(functions) = &functions {
        assert!(functions.iter().all(|function| !function.names.is_empty()), "a function without a name");
    }
    // A thread header, and code of module 0.
    let words: Vec<u8> = [0xa000_0000_0000_0000_u64, 0x2000_0000_0000_0000, 0x2000_4000_0000_0000]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    RAW_FOLDER.file("a.raw", &words);
    RAW_FOLDER.file("modules.log", bytes);
    RAW_FOLDER.file("funclist.log", bytes);
    let folder = Source::open(&RAW_FOLDER.path("")).expect("a folder that was made is there");
    let trace = RAW.open(&folder, &OpenOptions::default()).expect("lists that are none are passed over");
    if let Ok(functions) = functions {
        assert_eq!(trace.meta().functions.len(), functions.len());
    }
    fuzz::same_records(&*trace, &trace.shards()[0]);
}

/// Reads any bytes as a schedule: it is read or refused, and does not differ from itself.
///
/// # Panics
/// If a schedule differs from itself.
pub fn schedule(bytes: &[u8]) {
    let Ok(members) = schedule::read(&Source::from_bytes("fuzz", bytes)) else { return };
    for (_, stretches) in &members {
        for chunk_instrs in [0, 1, 1000] {
            assert_eq!(schedule::first_difference(stretches, stretches, chunk_instrs), None);
        }
        if let Some((_, fewer)) = stretches.split_last() {
            let difference = schedule::first_difference(stretches, fewer, 0).expect("one is missing");
            assert_eq!((difference.index, difference.trace), (fewer.len(), None));
        }
    }
}

/// A trace with several chunks.
const TRACE: &[u8] = include_bytes!("../../../traces/apitrace/synth-v6-tinychunks.trace");

/// Bytes of the trace that are used, about a dozen chunks. More would make each input slower without finding more.
const TRACE_BYTES: usize = 8 << 10;

/// The chunks at the beginning of a trace, up to `n_bytes`.
fn beginning(trace: &[u8], n_bytes: usize) -> &[u8] {
    // The bytes "at", then chunks, each preceded by its length.
    let mut end = 2;
    while let Some(len) = trace.get(end..end + 4) {
        let next = end + 4 + u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        if next > n_bytes {
            break;
        }
        end = next;
    }
    &trace[..end]
}

/// The trace as a file, and the beginning of an index file for it.
static INDEXED: LazyLock<(Folder, std::path::PathBuf, Vec<u8>, Identity)> = LazyLock::new(|| {
    let folder = Folder::new();
    let path = folder.file("trace", beginning(TRACE, TRACE_BYTES));
    let identity =
        Identity::of(&Source::open(&path).expect("it was just written")).expect("it was just written");
    let mut head = store::to_bytes(&Index::default(), &identity);
    // Removes the counts of signatures and checkpoints, three totals, and the checksum.
    head.truncate(head.len() - 5 - 8);
    (folder, path, head, identity)
});

/// Reads any bytes as an index of a trace of graphics calls, with a correct checksum. The index is accepted or not; in either
/// case, the trace is read from every place without a panic.
///
/// # Panics
/// If an index changes when it is written and read again.
pub fn index(bytes: &[u8]) {
    let (_, path, head, identity) = &*INDEXED;
    let mut file = [head.as_slice(), bytes].concat();
    file.extend_from_slice(&xxh64(&file, 0).to_le_bytes());
    let Some(index) = store::from_bytes(&file, identity) else { return };
    let again = store::from_bytes(&store::to_bytes(&index, identity), identity);
    assert_eq!(again.as_ref(), Some(&index), "an index changes when it is written");
    let mut beside = path.clone().into_os_string();
    beside.push(".quipu-index");
    std::fs::write(&beside, &file).expect("a temporary file can be written");
    let options =
        OpenOptions { given: quipu::model::Given::from([("index", "beside")]), ..OpenOptions::default() };
    let source = Source::open(path).expect("the trace is there");
    let trace = APITRACE.open(&source, &options).expect("the trace itself is right");
    for from in [1, 7, 40, index.n_records / 2, index.n_records] {
        for shard in trace.shards() {
            let scan = Scan {
                window: Window::Records(from..from.saturating_add(100)),
                columns: trace.columns() | Columns::RAW,
                ..Scan::new(shard.id)
            };
            let Ok(mut reader) = trace.scan(&scan) else { continue };
            while let Ok(Some(_)) = reader.read() {}
        }
    }
}
