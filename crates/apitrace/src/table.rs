//! Calls as rows of a table, for choosing and for other programs.

use quipu_model::table::Width;
use quipu_model::values::{Call, Values};
use quipu_model::{Column, ColumnSchema, ColumnType, Rows, TableSchema};

use crate::record::{FAKE, INCOMPLETE};

/// The tables of a trace, as [`Trace::tables`](quipu_model::Trace::tables) lists them.
pub static TABLES: &[&TableSchema] = &[&CALLS];

/// Position of [`CALLS`] among the tables.
pub const CALLS_TABLE: usize = 0;

/// One row for each call, in the order of completion. Values stand in the batch, see [`Values`].
pub static CALLS: TableSchema = TableSchema {
    name: "calls",
    derived: true,
    columns: &[
        column("record", Width::U64, ColumnType::Count, "position in the order of completion, from 1"),
        column("call", Width::U64, ColumnType::Count, "number in the order of entering, from 0"),
        column("tid", Width::U64, ColumnType::Count, "thread"),
        column("frame", Width::U64, ColumnType::Count, "frame that the call belongs to, from 0"),
        column("function", Width::U32, ColumnType::Function, "name of the function"),
        column("args", Width::U32, ColumnType::Count, "recorded arguments"),
        column("fake", Width::U8, ColumnType::Flag, "the tracer made the call up"),
        column("incomplete", Width::U8, ColumnType::Flag, "the call never returned"),
    ],
    doc: "calls in the order of completion",
};

const fn column(name: &'static str, width: Width, kind: ColumnType, doc: &'static str) -> ColumnSchema {
    ColumnSchema { name, width, kind, doc }
}

/// Adds a row for each call. `frame_of` says which frame each belongs to.
pub fn fill(values: &Values, first_record: u64, mut frame_of: impl FnMut(&Call) -> u64, rows: &mut Rows) {
    let [records, calls, tids, frames, functions, args, fakes, incompletes] = &mut rows.columns[..] else {
        return;
    };
    let put = |column: &mut Column, value: u64| match column {
        Column::U8(values) => values.push(value as u8),   // Flags.
        Column::U32(values) => values.push(value as u32), // Indexes and lengths in 32 bits.
        Column::U64(values) => values.push(value),
        Column::U16(values) => values.push(value as u16), // There is none.
    };
    for (record, call) in (first_record + 1..).zip(&values.calls) {
        put(records, record);
        put(calls, call.number);
        put(tids, call.thread);
        put(frames, frame_of(call));
        put(functions, call.function.into());
        put(args, u64::from(call.args.1.saturating_sub(call.args.0)));
        put(fakes, u64::from(call.flags & FAKE != 0));
        put(incompletes, u64::from(call.flags & INCOMPLETE != 0));
    }
}
