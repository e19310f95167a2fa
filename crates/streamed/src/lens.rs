//! Rows as lenses, by the roles of their fields.
//!
//! A schema with an address and a kind of access fills accesses, one with a function that begins or ends a span calls; all other
//! records are marks.

use crate::column::number;
use crate::schema::Means;
use quipu_model::lens::{CallEdge, ThreadEvent};
use quipu_model::{Batch, Columns};
use quipu_stream::batch::Rows;

/// What the records of a batch have in common so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Running {
    pub(crate) cpu: Option<u64>,
    pub(crate) clock: u64,
}

/// Appends the lens rows of a record. `at` is its place in the batch, `table` the number of its table.
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
            let accesses = &mut batch.accesses;
            accesses.at.push(at);
            accesses.addr.push(value(means.addr).unwrap_or(0));
            accesses.size.push(value(means.size).map_or(0, |size| u32::try_from(size).unwrap_or(u32::MAX)));
            accesses.kind.push(means.access_kind(value(means.kind).unwrap_or(0)));
            if columns.has(Columns::ACCESS_PC) {
                accesses.pc.push(value(means.pc).unwrap_or(0));
            }
        }
    } else if means.is_call() {
        if columns.has(Columns::CALLS) {
            let calls = &mut batch.calls;
            // A call stands at the record that follows its values.
            calls.at.push(at + 1);
            calls.function.push(value(means.function).unwrap_or(0));
            calls.edge.push(if means.enters { CallEdge::Enter } else { CallEdge::Leave });
            calls.return_to.push(0);
            calls.result.push(if means.enters { 0 } else { value(means.returned).unwrap_or(0) });
            let arguments = means.arguments.iter().map(|field| number(&rows.columns[*field], row));
            calls.args.push(arguments);
        }
    } else if columns.has(Columns::MARKS) {
        batch.marks.at.push(at);
        batch.marks.kind.push(table);
        batch.marks.value.push(value(means.value).unwrap_or(0));
    }
}

/// Appends what happens to the thread at a record.
pub(crate) fn thread(batch: &mut Batch, at: u32, what: ThreadEvent, value: u64) {
    batch.threads.at.push(at);
    batch.threads.what.push(what);
    batch.threads.value.push(value);
}
