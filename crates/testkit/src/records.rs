//! A property of every family of flat records: the batches are the same for any division of the bytes.

use crate::rng::Rng;
use quipu_model::{Batch, Columns, Reader as _, Scan, ShardId, Window};
use quipu_records::{Family, FlatTrace, Push, RecordCodec, Records};
use quipu_source::{Container, Source};
use std::fmt::Write as _;

/// Sizes of the pieces in which bytes are pushed; 0 for random sizes.
const PIECES: [usize; 5] = [1, 7, 100, 5000, 0];
/// Larger inputs are not pushed byte by byte.
const FEW_BYTES: usize = 20_000;

/// Reads bytes as the records of a trace, at once and in pieces of many sizes: whole, cut, and with one byte changed; all of
/// them and a window.
///
/// # Panics
/// If the results differ.
pub fn chunk_independence<C: Family>(trace: &FlatTrace<C>, bytes: &[u8], n_damaged: usize) {
    let n_records = pieces_make_no_difference(trace, bytes, &Scan::new(ShardId(0)));
    let window = Window::Records(n_records / 3..n_records / 2);
    pieces_make_no_difference(trace, bytes, &Scan { window, batch_records: 7, ..Scan::new(ShardId(0)) });
    let mut rng = Rng::new(3);
    for _ in 0..n_damaged {
        let mut damaged = bytes[..rng.below(bytes.len() as u64 + 1) as usize].to_vec();
        if !damaged.is_empty() {
            let at = rng.below(damaged.len() as u64) as usize; // Below the length.
            damaged[at] = rng.below(256) as u8;
        }
        pieces_make_no_difference(trace, &damaged, &Scan::new(ShardId(0)));
    }
}

/// Compares all sizes of pieces for one scan of everything that the trace has; returns the number of records.
fn pieces_make_no_difference<C: Family>(trace: &FlatTrace<C>, bytes: &[u8], scan: &Scan) -> u64 {
    use quipu_model::Trace as _;
    let n_tables = trace.tables().map_or(0, |tables| tables.len());
    let columns = trace.columns() | Columns::RAW;
    let scan = Scan { columns, tables: (0..n_tables).collect(), beyond: true, ..scan.clone() };
    let pulled = pulled(trace.codec(), bytes, &scan);
    for piece in PIECES.into_iter().filter(|piece| *piece == 0 || bytes.len() / piece < FEW_BYTES) {
        let pushed = pushed(trace.codec(), bytes, &scan, piece);
        assert!(
            pushed == pulled,
            "pieces of {piece} of {} bytes:\n{pushed:.3000?}\n{pulled:.3000?}",
            bytes.len()
        );
    }
    pulled.iter().map(|batch| batch.n_records).sum()
}

/// The contents of a batch as text.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    n_records: u64,
    text: String,
}

fn said(batch: &Batch) -> Said {
    let mut text = format!("{:?} {:?} {:?}\n", batch.span, batch.beyond, batch.raw());
    for table in batch.all_tables() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{table:?}");
    }
    for finding in &batch.findings {
        let _ = writeln!(text, "{finding:?}");
    }
    Said { n_records: batch.span.records.into(), text }
}

fn pulled<C: RecordCodec>(codec: &C, bytes: &[u8], scan: &Scan) -> Vec<Said> {
    let container: Container =
        Source::from_bytes("in", bytes).container().unwrap_or_else(|error| panic!("{error}"));
    let mut reader = Records::new(codec.clone(), &container, scan).unwrap_or_else(|error| panic!("{error}"));
    let mut all = Vec::new();
    while let Some(batch) = reader.read().unwrap_or_else(|error| panic!("{error}")) {
        all.push(said(batch));
    }
    all
}

fn pushed<C: RecordCodec>(codec: &C, bytes: &[u8], scan: &Scan, piece: usize) -> Vec<Said> {
    let mut push = Push::new(codec.clone(), "in", scan).unwrap_or_else(|error| panic!("{error}"));
    let mut rng = Rng::new(bytes.len() as u64);
    let (mut rest, mut all) = (bytes, Vec::new());
    while !rest.is_empty() {
        let n_bytes = if piece == 0 { rng.below(300) as usize } else { piece };
        let (now, later) = rest.split_at(n_bytes.min(rest.len()));
        let mut batches = push.feed(now);
        while let Some(batch) = batches.next().unwrap_or_else(|error| panic!("{error}")) {
            all.push(said(batch));
        }
        rest = later;
    }
    let mut batches = push.close();
    while let Some(batch) = batches.next().unwrap_or_else(|error| panic!("{error}")) {
        all.push(said(batch));
    }
    assert!(push.is_over(), "a closed trace is read to its end");
    all
}
