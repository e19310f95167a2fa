//! Finds the position to start reading for a window: chunks before it are skipped.

use crate::record::{ENTRY_BYTES, Entry, Marker, Type};
use crate::trace::File;
use quipu_model::{Result, Scan, Window};
use quipu_source::{Ahead, StreamOptions};

/// Options for the stream of bytes of a scan.
pub(crate) fn stream_options(file: &File, scan: &Scan, n_entries: usize) -> StreamOptions {
    let block_bytes = n_entries * file.entry_bytes;
    let ahead = if scan.ahead { Ahead::Thread { blocks: 4 } } else { Ahead::Inline };
    StreamOptions { block_bytes, ahead, ..StreamOptions::default() }
}

/// The member to start at for `window`: the last one that begins at or before it.
pub(crate) fn start(file: &File, window: &Window) -> Result<usize> {
    let n = file.container.members().len();
    if !file.can_jump {
        return Ok(0);
    }
    match window {
        Window::All => Ok(0),
        Window::Instrs(range) => {
            let member = range.start / file.header.chunk_instrs;
            Ok(usize::try_from(member).unwrap_or(n).min(n - 1))
        }
        Window::Records(range) => last_not_after(file, n, Marker::RECORD_ORDINAL, range.start),
        Window::Clock(range) => last_not_after(file, n, Marker::TIMESTAMP, range.start),
    }
}

/// The last member whose first marker of `kind` is not above `value`, by bisection: these values never decrease from
/// chunk to chunk. A chunk without the marker ends the search early, which costs time, not correctness.
fn last_not_after(file: &File, n: usize, kind: Marker, value: u64) -> Result<usize> {
    let (mut low, mut high) = (0, n);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        match first_marker(file, middle, kind)? {
            Some(found) if found < value => low = middle,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The first marker of `kind` among the first entries of a member.
pub(crate) fn first_marker(file: &File, member: usize, kind: Marker) -> Result<Option<u64>> {
    let options =
        StreamOptions { block_bytes: 16 * ENTRY_BYTES, ahead: Ahead::Inline, ..StreamOptions::default() };
    let mut stream = file.container.stream(member..member + 1, &options)?;
    let mut block = Vec::new();
    // A damaged member has no marker to use; the read itself reports the damage.
    if !matches!(stream.next(&mut block), Ok(Some(_))) {
        return Ok(None);
    }
    let entries = Entry::slice(&block).0;
    Ok(entries
        .iter()
        .find(|entry| entry.kind() == Type::MARKER && entry.size.get() == kind.0)
        .map(|entry| entry.addr.get()))
}
