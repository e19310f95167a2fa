//! Calls as rows of a table, for choosing and for other programs.

use quipu_model::table::Width;
use quipu_model::values::{Call, Values};
use quipu_model::{Column, ColumnSchema, ColumnType, Rows, TableSchema};

use crate::record::{END_FRAME, FAKE, INCOMPLETE};

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

/// Position of the frame among the columns of [`CALLS`].
pub const FRAME_COLUMN: usize = 3;

/// Adds a row for each call, the first of which belongs to a frame. PERF: a column at a time (`view`).
pub fn fill(values: &Values, first_record: u64, first_frame: u64, rows: &mut Rows) {
    let calls = &values.calls;
    let n_args = |call: &Call| call.args.1.saturating_sub(call.args.0);
    let has = |call: &Call, flag: u32| u8::from(call.flags & flag != 0);
    for (i, column) in rows.columns.iter_mut().enumerate() {
        match (i, column) {
            (0, Column::U64(records)) => records.extend((first_record + 1..).take(calls.len())),
            (1, Column::U64(numbers)) => numbers.extend(calls.iter().map(|call| call.number)),
            (2, Column::U64(threads)) => threads.extend(calls.iter().map(|call| call.thread)),
            (FRAME_COLUMN, Column::U64(frames)) => {
                let mut frame = first_frame;
                frames.extend(calls.iter().map(|call| {
                    let this = frame;
                    frame += u64::from(call.flags & END_FRAME != 0);
                    this
                }));
            }
            (4, Column::U32(functions)) => functions.extend(calls.iter().map(|call| call.function)),
            (5, Column::U32(args)) => args.extend(calls.iter().map(n_args)),
            (6, Column::U8(fakes)) => fakes.extend(calls.iter().map(|call| has(call, FAKE))),
            (7, Column::U8(open)) => open.extend(calls.iter().map(|call| has(call, INCOMPLETE))),
            _ => {}
        }
    }
}
