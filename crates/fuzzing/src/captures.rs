//! What instrumented programs leave: whole files, and the cells in them.

use crate::folder::Folder;
use quipu::cacheray::CACHERAY;
use quipu::model::fresh::Replace;
use quipu::model::{Damaged, Format, OpenOptions};
use quipu::source::{PackOptions, Packing, Pool, Source};
use quipu_cells::cell::{CELL_BYTES, Cell, LOW};
use quipu_cells::event::decode;
use quipu_cells::layout::{BUFFER_MAGIC, CHUNK_MAGIC, HEADER_BYTES, MAGIC, VERSION};
use quipu_cells::pack::{Table, pack, unpack};
use quipu_capture::tsan::file::Capture;
use quipu_capture::tsan::merge::events;
use quipu_capture::tsan::show::Shower;
use quipu_capture::tsan::trace::{Output, collect};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// No trace is made of accesses to more bytes than these.
const MAX_RANGE_BYTES: u64 = 1 << 20;

static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Pool::new(1).expect("a thread can be started"));
static FOLDER: LazyLock<Folder> = LazyLock::new(Folder::new);

/// What comes before the bytes: a header is a page of mostly zeros, which a fuzzer would only carry about.
fn whole(bytes: &[u8]) -> Vec<u8> {
    let (head, body) = bytes.split_at(bytes.len().min(120));
    let mut file = head.to_vec();
    file.resize(HEADER_BYTES as usize, 0);
    file[..8].copy_from_slice(&MAGIC.to_le_bytes());
    file[8..16].copy_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(body);
    // An extent names its place, which a fuzzer never gets right: where there is a magic number, the place is put in.
    let mut at = HEADER_BYTES as usize;
    while let Some(magic) = file.get(at..at + 8) {
        let magic = u64::from_le_bytes(magic.try_into().expect("eight bytes"));
        if (magic == BUFFER_MAGIC || magic == CHUNK_MAGIC) && file.len() >= at + 16 {
            file[at + 8..at + 16].copy_from_slice(&(at as u64).to_le_bytes());
        }
        at += 64;
    }
    file
}

/// Any bytes as a capture file (a short header, then extents, whose places are put right): every event of it is shown, and a
/// trace is made of it that can be read.
///
/// # Panics
/// If it cannot.
pub fn file(bytes: &[u8]) {
    let path = FOLDER.file("capture", &whole(bytes));
    let Ok(capture) = Capture::open(&path) else { return };
    let mut shower = Shower::default();
    let mut range_bytes = 0_u64;
    let shown = events(&capture, &mut |who, event| {
        if let quipu_cells::event::Event::Access(access) = event {
            range_bytes = range_bytes.saturating_add(access.size);
        }
        // Modules name files of this machine, which are none of the input.
        if !matches!(event, quipu_cells::event::Event::Module { .. }) {
            let _ = shower.row(who, event, |_| true);
        }
        Ok::<_, quipu::model::Error>(ControlFlow::Continue(()))
    });
    shown.expect("a file that is there can be read");
    // A trace has a record for each 16 bytes of a range, so a few bytes may stand for gigabytes.
    if range_bytes > MAX_RANGE_BYTES {
        return;
    }
    let output = FOLDER.path("made.trace");
    let packing = PackOptions::new(Packing::Plain);
    let target = Output {
        path: &output,
        packing: &packing,
        replace: Replace::Allowed,
        pool: &POOL,
        damaged: Damaged::Keep,
        may_be_empty: true,
    };
    if collect(&path, &target).is_ok() {
        let made = Source::open(&output).expect("what was made is there");
        if made.size_bytes() != Some(0) {
            CACHERAY.open(&made, &OpenOptions::default()).expect("what was made can be read");
        }
    }
}

/// Any bytes as packed cells, and as cells: those that are unpacked are events, and those that are packed come out the same.
///
/// # Panics
/// If they do not.
pub fn cells(bytes: &[u8]) {
    let mut table = Table::default();
    let mut unpacked = Vec::new();
    let _ = unpack(bytes, 1 << 12, &mut table, &mut unpacked);
    assert!(unpacked.len() <= 1 << 12, "more cells than asked for");
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let raw: Vec<[u64; 2]> =
        bytes.chunks_exact(CELL_BYTES).map(|cell| [word(&cell[..8]), word(&cell[8..]) & LOW]).collect();
    let plain: Vec<Cell> = raw.iter().map(|[word, side]| Cell { word: *word, side: *side }).collect();
    for cells in [&unpacked, &plain] {
        let mut text = Vec::new();
        let mut rest = &cells[..];
        while !rest.is_empty() {
            let (_, n_cells) = decode(rest, &mut text);
            assert!(n_cells > 0 && n_cells <= rest.len(), "an event of {n_cells} of {} cells", rest.len());
            rest = &rest[n_cells..];
        }
    }
    let mut out = vec![0; 64 + 32 * raw.len()];
    if let Some(packed) = pack(&raw, 0, &mut table, &mut out) {
        let mut back = Vec::new();
        assert!(
            unpack(&out[..packed.n_bytes], raw.len(), &mut table, &mut back),
            "what was packed is unpacked"
        );
        assert_eq!(back, plain, "cells change when they are packed");
    }
}
