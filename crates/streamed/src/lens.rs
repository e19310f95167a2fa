//! Converts rows to lenses, by the roles of their fields.
//!
//! A schema with an address and an access kind fills accesses; one with a function that begins or ends a span fills calls;
//! one with a region category fills regions. All other records become marks, those of synchronization by the operation that
//! they record.

use crate::column::number;
use crate::schema::{About, Means};
use quipu_model::lens::{CallEdge, MAX_ACCESS_BYTES, MAX_RANGE_BYTES, RegionEvent, ThreadEvent};
use quipu_model::{Batch, Columns};
use quipu_stream::batch::Rows;
use quipu_stream::column::Column;

/// Values carried from record to record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Running {
    pub(crate) cpu: Option<u64>,
    pub(crate) clock: u64,
}

/// The runtime splits larger ranges, so that every recording of a healthy program keeps the limit.
const _: () = assert!(quipu_cells::cell::MAX_RANGE_BYTES <= MAX_RANGE_BYTES);

/// Maximum number of bytes that an access of this schema can have.
fn most_bytes(means: &Means) -> u64 {
    if means.is_range { MAX_RANGE_BYTES } else { MAX_ACCESS_BYTES.into() }
}

/// True if some size in these rows exceeds the limit of an access. The rows may still be flushes, which have none.
// PERF: almost no rows have one. Whole columns are compared once, so reading looks at single rows only if this is true.
pub(crate) fn has_oversized(means: &Means, rows: &Rows) -> bool {
    let Some(size) = means.size.filter(|_| means.is_access()) else { return false };
    let most: u64 = match &rows.columns[size] {
        Column::U8(_) | Column::U16(_) | Column::Bool(_) => return false,
        Column::U32(sizes) => sizes.iter().fold(0_u32, |most, size| most.max(*size)).into(),
        Column::U64(sizes) => sizes.iter().fold(0_u64, |most, size| most.max(*size)),
        sizes => (0..rows.len()).map(|row| number(sizes, row)).max().unwrap_or(0),
    };
    most > most_bytes(means)
}

/// The size of an access that is too large to be true, and the limit that it exceeds.
#[cold]
pub(crate) fn oversized(means: &Means, rows: &Rows, row: usize) -> Option<(u64, u64)> {
    let value = |field: usize| number(&rows.columns[field], row);
    let (size, most) = (value(means.size?), most_bytes(means));
    let is_flush = || means.access_kind(means.kind.map_or(0, value)).is_flush();
    (means.is_access() && size > most && !is_flush()).then_some((size, most))
}

/// Appends the lens rows of a record, which is not [`oversized`]. `at` is its index in the batch, `table` the number of its
/// table.
#[inline]
pub(crate) fn record(
    batch: &mut Batch,
    columns: Columns,
    (at, table): (u32, u32),
    means: &Means,
    rows: &Rows,
    row: usize,
) {
    let value = |field: Option<usize>| field.map(|field| number(&rows.columns[field], row));
    if means.is_access() {
        if columns.has(Columns::ACCESSES) {
            let (mut addr, mut left) = (value(means.addr).unwrap_or(0), value(means.size).unwrap_or(0));
            let kind = means.access_kind(value(means.kind).unwrap_or(0));
            let pc = value(means.pc).unwrap_or(0);
            let is_split = means.is_range && !kind.is_flush();
            let most = if is_split { MAX_ACCESS_BYTES } else { u32::MAX };
            loop {
                let size = u32::try_from(left).unwrap_or(u32::MAX).min(most);
                let accesses = &mut batch.accesses;
                accesses.at.push(at);
                accesses.addr.push(addr);
                accesses.size.push(size);
                accesses.kind.push(kind);
                if columns.has(Columns::ACCESS_PC) {
                    accesses.pc.push(pc);
                }
                left -= u64::from(size);
                if left == 0 || !is_split {
                    break;
                }
                addr = addr.wrapping_add(size.into());
            }
        }
    } else if means.is_call() {
        if columns.has(Columns::CALLS) {
            let calls = &mut batch.calls;
            // In the lens of calls, `at` is the index of the record that follows.
            calls.at.push(at + 1);
            calls.function.push(value(means.function).unwrap_or(0));
            calls.edge.push(if means.enters { CallEdge::Enter } else { CallEdge::Leave });
            calls.return_to.push(0);
            calls.result.push(value(means.returned.filter(|_| !means.enters)));
            let arguments = means.arguments.iter().map(|field| number(&rows.columns[*field], row));
            calls.args.push(arguments);
        }
    } else if means.region.is_some() {
        region(batch, columns, at, means, rows, row);
    } else if columns.has(Columns::MARKS) {
        let text = means.mark.and_then(|mark| mark.text(rows, row)).unwrap_or(&[]);
        let mut mark = |kind: u32, value: u64| {
            batch.marks.at.push(at);
            batch.marks.kind.push(kind);
            batch.marks.value.push(value);
            if columns.has(Columns::MARK_TEXT) {
                batch.marks.text.push_text(text);
            }
        };
        let Some(sync) = &means.sync else { return mark(table, value(means.value).unwrap_or(0)) };
        let value = |field: usize| number(&rows.columns[field], row);
        match sync.mark(value(sync.what)) {
            Some((kind, About::Object)) => mark(kind, value(sync.object)),
            Some((kind, About::Woken)) => {
                mark(sync.mutex, value(sync.value));
                mark(kind, value(sync.object));
            }
            Some((kind, About::Made)) => mark(kind, value(sync.value)),
            Some((kind, About::Begun)) => {
                mark(kind, value(sync.value));
                mark(sync.handle, value(sync.object));
            }
            None => mark(table, value(sync.object)),
        }
    }
}

/// Appends the region change of a record, if regions are wanted.
pub(crate) fn region(batch: &mut Batch, columns: Columns, at: u32, means: &Means, rows: &Rows, row: usize) {
    let Some(known) = means.region.filter(|_| columns.has(Columns::REGIONS)) else { return };
    let value = |field: Option<usize>, missing: u64| {
        let value = field.map_or(missing, |field| number(&rows.columns[field], row));
        if known.begins { value } else { 0 }
    };
    let regions = &mut batch.regions;
    regions.at.push(at);
    regions.what.push(if known.begins { RegionEvent::Add } else { RegionEvent::Remove });
    regions.addr.push(means.addr.map_or(0, |field| number(&rows.columns[field], row)));
    regions.element_bytes.push(value(known.element_bytes, 1));
    regions.n_elements.push(value(known.elements, 1));
    let name = known.type_name.map(|field| match &rows.columns[field] {
        Column::Text(names) => names.get(row),
        _ => UNTYPED,
    });
    regions.type_name.push(if known.begins { name.unwrap_or(UNTYPED) } else { &[] });
}

/// Type name of regions without a stated type.
const UNTYPED: &[u8] = b"void*";

/// Appends a thread event at record `at`.
pub(crate) fn thread(batch: &mut Batch, at: u32, what: ThreadEvent, value: u64) {
    batch.threads.at.push(at);
    batch.threads.what.push(what);
    batch.threads.value.push(value);
}
