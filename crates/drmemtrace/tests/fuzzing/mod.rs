//! The body of the fuzz target `rewrite`: arbitrary bytes, rewritten and edited.

// A body panics if a property does not hold.
#![allow(clippy::unwrap_used, unreachable_pub)]

use quipu_drmemtrace::edits::clock_trim::{ClockTrim, ClockUnit};
use quipu_drmemtrace::edits::filter::KernelCode;
use quipu_drmemtrace::edits::{Filter, FilterSpec, Position, Trim};
use quipu_drmemtrace::record::{Entry, FileType, Marker, N_TYPES, Type};
use quipu_drmemtrace::trace::{self, DrmemTrace};
use quipu_drmemtrace::write::{EntryEdit, Framed, NoEdit, WriteOptions, rewrite_file};
use quipu_model::OpenOptions;
use quipu_model::transform::Silent;
use quipu_source::{PackOptions, Packer, Packing, Pool, Source};
use std::io::Cursor;
use std::sync::{Arc, LazyLock};

/// Small inputs may inflate to huge ones.
const MAX_BYTES: usize = 1 << 20;

static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Pool::new(1).unwrap());

fn open(bytes: Vec<u8>) -> Option<DrmemTrace> {
    trace::open(&Source::from_bytes("fuzz", bytes), &OpenOptions::default()).ok()
}

fn rewritten<E: EntryEdit>(
    trace: &DrmemTrace,
    edit: E,
    packing: Packing,
    chunk_instrs: Option<u64>,
) -> Option<Vec<u8>> {
    let options = WriteOptions { pack: PackOptions::new(packing), chunk_instrs, ..WriteOptions::new() };
    let packer = Packer::new(Cursor::new(Vec::new()), &POOL, &options.pack);
    let (result, _) = rewrite_file(trace, 0, packer, edit, &options, &Silent).ok()?;
    Some(result.out.into_inner())
}

/// All entries except encodings, which chunks repeat, and the marker with the size of chunks.
fn content(bytes: &[u8]) -> Vec<Entry> {
    let is_content =
        |entry: &&Entry| entry.kind() != Type::ENCODING && !entry.is_marker(Marker::CHUNK_INSTR_COUNT);
    Entry::slice(bytes).0.iter().filter(is_content).copied().collect()
}

/// True if there are enough nonsensical entries that, in another arrangement, a reader could stop before them.
fn may_be_nonsense(bytes: &[u8]) -> bool {
    let is_odd = |entry: &&Entry| {
        entry.kind.get() >= N_TYPES || (entry.kind.get(), entry.size.get(), entry.addr.get()) == (0, 0, 0)
    };
    Entry::slice(bytes).0.iter().filter(is_odd).count() > 8
}

/// Rewriting the output changes nothing, chunks of any size have the same content, and the output of edits can be read.
pub fn rewrite(bytes: &[u8]) {
    let Some(trace) = open(bytes.to_vec()) else { return };
    let inflated: u64 = trace.files()[0].container.members().iter().map(|m| m.len.unwrap_or(1 << 20)).sum();
    if inflated > MAX_BYTES as u64 {
        return;
    }
    // The first pass over raw entries may doubt the file; then the second counts and rejects it, as in every verb.
    let _ = rewritten(&trace, NoEdit, Packing::Plain, None);
    let Some(plain) = rewritten(&trace, NoEdit, Packing::Plain, None) else { return };
    // More than eight of 64 entries are not part of a trace, and edits move entries.
    if may_be_nonsense(&plain) {
        return;
    }
    let Some(trace) = open(plain.clone()) else { return };
    if !trace.files()[0].header.is_header || trace.files()[0].container.members().len() != 1 {
        return;
    }
    let again = rewritten(&trace, NoEdit, Packing::Plain, None).unwrap();
    assert!(again == plain, "writing again changes what was written");
    for chunk_instrs in [1, 3] {
        let chunks = rewritten(&trace, NoEdit, Packing::Zip, Some(chunk_instrs)).unwrap();
        let back = rewritten(&open(chunks).unwrap(), NoEdit, Packing::Plain, None).unwrap();
        assert_eq!(content(&back), content(&plain), "chunks of {chunk_instrs}");
    }
    let filetype = trace.files()[0].header.filetype;
    for unit in [Position::Records, Position::Instrs, Position::Clock] {
        edited(&trace, Trim::new(unit, vec![2..5, 9..20, 1000..u64::MAX]));
    }
    let header = &trace.files()[0].header;
    for threads in [vec![], vec![header.tid], vec![1, 2, u64::MAX]] {
        let threads = Arc::new(threads.into_iter().collect());
        edited(&trace, Framed::new(Trim::new(Position::Instrs, vec![2..5, 9..20]), header, threads, true));
    }
    for spec in specs(filetype) {
        if let Ok(filter) = Filter::new(Arc::new(spec), filetype) {
            edited(&trace, filter);
        }
    }
}

fn edited<E: EntryEdit>(trace: &DrmemTrace, edit: E) {
    let Some(plain) = rewritten(trace, edit, Packing::Plain, None) else { return };
    let Some(trace) = open(plain.clone()) else { return };
    if trace.files()[0].header.is_header && trace.files()[0].container.members().len() == 1 {
        assert!(
            rewritten(&trace, NoEdit, Packing::Plain, None).unwrap() == plain,
            "an edit leaves odd entries"
        );
    }
}

fn specs(filetype: FileType) -> Vec<FilterSpec> {
    let none = FilterSpec::default;
    let trim = ClockTrim::new(ClockUnit::Instrs, 2, 9).ok();
    vec![
        FilterSpec { data_cache_bytes: Some(64), instr_cache_bytes: Some(64), ..none() },
        FilterSpec { drop_types: (0..30).collect(), stop_timestamp: Some(50), ..none() },
        FilterSpec { trim, kernel: KernelCode::Drop, original_layout: true, ..none() },
        FilterSpec { instr_only: true, drop_encodings: true, addrs: vec![0..=9], ..none() },
        FilterSpec { to_regdeps: filetype.arch().is_some(), ..none() },
    ]
}
