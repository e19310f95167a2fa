//! Targets for the output of instrumented programs: cells, and recordings of cells.

use crate::folder::Folder;
use quipu::cacheray::CACHERAY;
use quipu::model::fresh::Replace;
use quipu::model::{Damaged, Format, OpenOptions};
use quipu::source::{PackOptions, Packing, Pool, Source};
use quipu_capture::tsan::file::Capture;
use quipu_capture::tsan::merge::events;
use quipu_capture::tsan::show::Shower;
use quipu_capture::tsan::trace::{Output, collect};
use quipu_cells::cell::{CELL_BYTES, Cell, LOW};
use quipu_cells::event::{Event, count, decode};
use quipu_cells::layout::BUFFER_CELLS;
use quipu_cells::pack::{Table, pack, unpack};
use quipu_cells::whole;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// Maximum bytes of all accesses of a recording that is converted to a trace.
const MAX_RANGE_BYTES: u64 = 1 << 20;

static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Pool::new(1).expect("a thread can be started"));
static FOLDER: LazyLock<Folder> = LazyLock::new(Folder::new);

/// Makes a recording of these cells, shows all of its events, and converts it to a trace, which must be readable.
fn recorded(cells: &[[u64; 2]]) {
    let cells = &cells[..cells.len().min(BUFFER_CELLS)];
    let path = FOLDER.file("recording.quipu", &whole::recording(&[(1, &[cells]), (2, &[cells, cells])]));
    let capture = Capture::open(&path).expect("a recording is one");
    let mut shower = Shower::default();
    let mut range_bytes = 0_u64;
    let shown = events(&capture, &mut |who, event| {
        if let Event::Access(access) = event {
            range_bytes = range_bytes.saturating_add(access.size);
        }
        // Modules name files on this machine, which are not part of the input.
        if !matches!(event, Event::Module { .. }) {
            let _ = shower.row(who, event, |_| true);
        }
        Ok::<_, quipu::model::Error>(ControlFlow::Continue(()))
    });
    shown.expect("a file that is there can be read");
    // A trace has a record for every 16 bytes of a range, so a few bytes of input may stand for gigabytes.
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
        source_map: &[],
    };
    if collect(&path, &target).is_ok() {
        let made = Source::open(&output).expect("what was made is there");
        if made.size_bytes() != Some(0) {
            CACHERAY.open(&made, &OpenOptions::default()).expect("what was made can be read");
        }
    }
}

/// Reads any bytes as packed cells, and as cells. All cells decode to events, they survive packing and unpacking, and a
/// recording of them is readable.
///
/// # Panics
/// If any of this fails.
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
    let (mut rest, mut text, mut n_events) = (&plain[..], Vec::new(), 0);
    while !rest.is_empty() {
        let (event, n_cells) = decode(rest, &mut text);
        n_events += u32::from(event != Event::Pad);
        rest = &rest[n_cells..];
    }
    assert_eq!(count(&raw, 0), n_events, "events are counted as they are read");
    recorded(&raw);
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
