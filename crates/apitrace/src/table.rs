//! Calls as rows of tables, for choosing and for other programs.
//!
//! Two tables every trace has: [`CALLS`], a row for each call, and [`ARGS`], a row for each argument and result. A table for
//! each function that a trace calls, with its arguments as columns, is made in [`learned`].

pub mod form;
pub mod learned;

use crate::record::{END_FRAME, FAKE, INCOMPLETE};
use learned::{Filler, FunctionTable};
use quipu_model::table::Width;
use quipu_model::values::{Call, Kind, NO_NODE, Node, Types, Values};
use quipu_model::{Column, ColumnSchema, ColumnType, Rows, TableSchema};
use std::borrow::Cow;

/// The tables that every trace has, as [`Trace::tables`](quipu_model::Trace::tables) lists them.
pub static TABLES: &[&TableSchema] = &[&CALLS, &ARGS];

/// Position of [`CALLS`] among the tables.
pub const CALLS_TABLE: usize = 0;
/// Position of [`ARGS`] among the tables.
pub const ARGS_TABLE: usize = 1;

/// How many columns all tables begin with.
const N_HEAD: usize = 4;
/// The columns that all tables begin with: the record, then which call, whose, and of which frame.
static HEAD: [ColumnSchema; N_HEAD] = [RECORD, NUMBER, THREAD, FRAME];
const RECORD: ColumnSchema =
    column("record", Width::U64, ColumnType::Count, "position in the order of completion, from 1");
const NUMBER: ColumnSchema =
    column("call", Width::U64, ColumnType::Count, "number in the order of entering, from 0");
const THREAD: ColumnSchema = column("tid", Width::U64, ColumnType::Count, "thread");
const FRAME: ColumnSchema =
    column("frame", Width::U64, ColumnType::Count, "frame that the call belongs to, from 0");

/// One row for each call, in the order of completion. Values stand in the batch, see [`Values`].
pub static CALLS: TableSchema = TableSchema {
    name: Cow::Borrowed("calls"),
    derived: true,
    columns: Cow::Borrowed(&[
        RECORD,
        NUMBER,
        THREAD,
        FRAME,
        column("function", Width::U32, ColumnType::Function, "name of the function"),
        column("args", Width::U32, ColumnType::Count, "recorded arguments"),
        FAKE_FLAG,
        INCOMPLETE_FLAG,
    ]),
    doc: Cow::Borrowed("calls in the order of completion"),
};

const FAKE_FLAG: ColumnSchema = column("fake", Width::U8, ColumnType::Flag, "the tracer made the call up");
const INCOMPLETE_FLAG: ColumnSchema =
    column("incomplete", Width::U8, ColumnType::Flag, "the call never returned");

/// One row for each recorded argument and each result, in the order of the calls.
pub static ARGS: TableSchema = TableSchema {
    name: Cow::Borrowed("args"),
    derived: true,
    columns: Cow::Borrowed(&[
        RECORD,
        NUMBER,
        THREAD,
        FRAME,
        column("function", Width::U32, ColumnType::Function, "name of the function"),
        column("index", Width::U32, ColumnType::Position, "position of the argument; none for a result"),
        column("name", Width::U64, ColumnType::Argument, "name of the argument; none for a result"),
        column("kind", Width::U8, ColumnType::Name(KINDS), "what sort of value it is"),
        column(
            "bits",
            Width::U64,
            ColumnType::Hex,
            "numbers as a two's complement, floats by their bits; of an array with one number that number, of other values 0",
        ),
        column("value", Width::U32, ColumnType::Value, "the value, with all its parts"),
    ]),
    doc: Cow::Borrowed("arguments and results of all calls"),
};

/// The names of [`Kind`](quipu_model::values::Kind), by its numbers.
const KINDS: &[&str] = &[
    "null", "false", "true", "negative", "unsigned", "float", "double", "text", "blob", "wide", "enum",
    "flags", "array", "struct", "pointer", "pair",
];

const fn column(name: &'static str, width: Width, kind: ColumnType, doc: &'static str) -> ColumnSchema {
    ColumnSchema::new(name, width, kind, doc)
}

/// Position of the record among the columns of every table.
pub const RECORD_COLUMN: usize = 0;
/// Position of the frame among the columns of every table.
pub const FRAME_COLUMN: usize = 3;

/// The tables that a read fills.
#[derive(Debug, Default)]
pub struct Fill {
    whats: Vec<What>,
}

#[derive(Debug)]
enum What {
    Calls,
    Args,
    Function(Filler),
}

/// What the rows of a batch count from.
#[derive(Clone, Copy, Debug)]
pub struct Firsts {
    /// Records before the batch.
    pub record: u64,
    /// The frame of its first call.
    pub frame: u64,
}

impl Fill {
    /// Fills these tables, by their positions: first those of every trace, then those that were `learned`. Returns empty
    /// rows, too. What is not there is left out.
    pub fn new(tables: &[usize], learned: &[FunctionTable]) -> (Fill, Vec<Rows>) {
        let known = tables.iter().filter_map(|table| match *table {
            CALLS_TABLE => Some((What::Calls, Rows::new(&CALLS))),
            ARGS_TABLE => Some((What::Args, Rows::new(&ARGS))),
            table => {
                let table = learned.get(table - TABLES.len())?;
                Some((What::Function(Filler::new(table)), Rows::of(table.schema.clone())))
            }
        });
        let (whats, rows) = known.unzip();
        (Fill { whats }, rows)
    }

    /// Adds rows for the calls of a batch.
    pub fn fill(&mut self, values: &Values, types: &Types, firsts: Firsts, tables: &mut [Rows]) {
        for (what, rows) in self.whats.iter_mut().zip(tables) {
            match what {
                What::Calls => calls(values, firsts, rows),
                What::Args => args(values, types, firsts, rows),
                What::Function(filler) => filler.fill(values, types, firsts, rows),
            }
        }
    }
}

/// Calls with their records and frames.
fn numbered(values: &Values, firsts: Firsts) -> impl Iterator<Item = (u64, u64, &Call)> {
    let mut frame = firsts.frame;
    (firsts.record + 1..).zip(&values.calls).map(move |(record, call)| {
        let this = frame;
        frame += u64::from(call.flags & END_FRAME != 0);
        (record, this, call)
    })
}

/// Adds a row for each call. PERF: a column at a time (`view`).
fn calls(values: &Values, firsts: Firsts, rows: &mut Rows) {
    let calls = &values.calls;
    let n_args = |call: &Call| call.args.1.saturating_sub(call.args.0);
    for (i, column) in rows.columns.iter_mut().enumerate() {
        match (i, column) {
            (RECORD_COLUMN, Column::U64(records)) => {
                records.extend((firsts.record + 1..).take(calls.len()));
            }
            (1, Column::U64(numbers)) => numbers.extend(calls.iter().map(|call| call.number)),
            (2, Column::U64(threads)) => threads.extend(calls.iter().map(|call| call.thread)),
            (FRAME_COLUMN, Column::U64(frames)) => {
                frames.extend(numbered(values, firsts).map(|(_, frame, _)| frame));
            }
            (4, Column::U32(functions)) => functions.extend(calls.iter().map(|call| call.function)),
            (5, Column::U32(args)) => args.extend(calls.iter().map(n_args)),
            (6, Column::U8(fakes)) => fakes.extend(calls.iter().map(|call| has(call, FAKE))),
            (7, Column::U8(open)) => open.extend(calls.iter().map(|call| has(call, INCOMPLETE))),
            _ => {}
        }
    }
}

fn has(call: &Call, flag: u32) -> u8 {
    u8::from(call.flags & flag != 0)
}

/// A value, or the only one in an array: what a function writes to an address that it is given.
fn lone(values: &Values, at: u32) -> Node {
    let node = values.node(at);
    let is_lone = node.kind == Kind::Array && node.halves().0 == 1;
    if is_lone { values.node(at + 1) } else { node }
}

/// Adds a row for each argument and each result.
fn args(values: &Values, types: &Types, firsts: Firsts, rows: &mut Rows) {
    let [
        Column::U64(records),
        Column::U64(numbers),
        Column::U64(threads),
        Column::U64(frames),
        Column::U32(functions),
        Column::U32(indexes),
        Column::U64(names),
        Column::U8(kinds),
        Column::U64(bits),
        Column::U32(nodes),
    ] = &mut rows.columns[..]
    else {
        return;
    };
    for (record, frame, call) in numbered(values, firsts) {
        let n_named = types.function(call.function).map_or(0, |function| function.args.len());
        let args = values.args_of(call).iter().map(|arg| (arg.index, arg.node));
        let result = (call.result != NO_NODE).then_some((u32::MAX, call.result));
        for (index, at) in args.chain(result) {
            let node = values.node(at);
            let has_name = (index as usize) < n_named;
            records.push(record);
            numbers.push(call.number);
            threads.push(call.thread);
            frames.push(frame);
            functions.push(call.function);
            indexes.push(index);
            names.push(if has_name { Node::join(call.function, index) } else { u64::MAX });
            kinds.push(node.kind as u8);
            bits.push(lone(values, at).bits());
            nodes.push(at);
        }
    }
}
