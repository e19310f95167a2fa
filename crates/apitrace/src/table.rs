//! Calls as rows of tables, for filters and for other programs.
//!
//! Every trace has two tables: [`CallRows`], a row for each call, and [`ArgRows`], a row for each argument and result.
//! [`learned`] makes a table for each function that a trace calls, with its arguments as columns.

pub mod form;
pub mod learned;

use crate::record::{END_FRAME, FAKE, INCOMPLETE};
use learned::{Filler, FunctionTable};
use quipu_model::dicts::Dicts;
use quipu_model::schema::{Names, Role, Storage, Type};
use quipu_model::values::{Call, Kind, NO_NODE, Node, Types, Values};
use quipu_model::{ColumnTable, Schema, TableBuf, rows};
use std::sync::{Arc, LazyLock};

/// The tables that every trace has; they come before the learned ones.
pub fn tables() -> Vec<Arc<Schema>> {
    vec![CallRows::table_schema().clone(), ArgRows::table_schema().clone()]
}

/// Number of tables that every trace has.
pub const N_TABLES: usize = 2;
/// Position of [`CallRows`] among the tables.
pub const CALLS_TABLE: usize = 0;
/// Position of [`ArgRows`] among the tables.
pub const ARGS_TABLE: usize = 1;

rows! {
    /// One row for each call, in the order of completion. The batch holds the values, see [`Values`].
    pub struct CallRows: "calls" derived "calls in the order of completion" {
        record: Vec<u64>, role(Role::RECORD) => "position in the order of completion, from 1";
        call: Vec<u64>, role(Role::CALL_NUMBER) => "number in the order of entering, from 0";
        thread("tid"): Vec<u64>, role(Role::THREAD) => "thread";
        frame: Vec<u64> => "frame that the call belongs to, from 0";
        function: Vec<u32> as Type::Function, role(Role::FUNCTION) => "name of the function";
        args: Vec<u32> => "recorded arguments";
        fake: Vec<u8> as Type::Bool => "the tracer made the call up";
        incomplete: Vec<u8> as Type::Bool => "the call never returned";
    }
}

rows! {
    /// One row for each recorded argument and each result, in the order of the calls.
    pub struct ArgRows: "args" derived "arguments and results of all calls" {
        record: Vec<u64>, role(Role::RECORD) => "position in the order of completion, from 1";
        call: Vec<u64>, role(Role::CALL_NUMBER) => "number in the order of entering, from 0";
        thread("tid"): Vec<u64>, role(Role::THREAD) => "thread";
        frame: Vec<u64> => "frame that the call belongs to, from 0";
        function: Vec<u32> as Type::Function, role(Role::FUNCTION) => "name of the function";
        index: Vec<u32>, missing(u32::MAX) => "position of the argument; empty for a result";
        name: Vec<u32> as Type::Dict(ARGUMENT_NAMES), missing(u32::MAX)
            => "name of the argument; empty for a result";
        kind: Vec<u8> as Type::Enum(KINDS.clone()) => "type of the value";
        bits: Vec<u64>, hex()
            => "bits of the value: integers as two's complement, floats as stored; for an array of one number, that number; \
                otherwise 0";
        value: Vec<u32> as Type::Value, missing(NO_NODE) => "the value, including its parts";
    }
}

/// The dictionary of the names of arguments.
const ARGUMENT_NAMES: u32 = 0;

/// The names of [`Kind`], by its numbers.
static KINDS: LazyLock<Arc<Names>> = LazyLock::new(|| {
    let names = &[
        "null", "false", "true", "negative", "unsigned", "float", "double", "text", "blob", "wide", "enum",
        "flags", "array", "struct", "pointer", "pair",
    ];
    Names::dense(Storage::U8, names).shared()
});

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
    Args(ArgNames),
    Function(Filler),
}

/// For each type, the index of its first argument's name in the dictionary; `u32::MAX` if it has no named argument.
#[derive(Debug, Default)]
struct ArgNames(Vec<u32>);

impl ArgNames {
    /// Adds the names of new functions.
    fn learn(&mut self, types: &Types, dicts: &mut Dicts) {
        for index in self.0.len()..types.len() {
            let function = types.function(index as u32); // Readers stop long before 2^32 types.
            let names = function.map_or(&[][..], |function| &function.args);
            let mut indexes = names.iter().map(|name| dicts.push(ARGUMENT_NAMES, name));
            self.0.push(indexes.next().unwrap_or(u32::MAX));
            indexes.for_each(drop);
        }
    }

    /// The dictionary index of a named argument.
    fn index(&self, function: u32, argument: u32) -> u32 {
        self.0.get(function as usize).map_or(u32::MAX, |first| first + argument)
    }
}

/// Starting numbers for the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Firsts {
    /// Number of records before the batch.
    pub record: u64,
    /// The frame of its first call.
    pub frame: u64,
}

impl Fill {
    /// Prepares to fill these tables, given by index: first those of every trace, then the `learned` ones. Also returns empty
    /// rows for each. Unknown tables are left out.
    pub fn new(tables: &[usize], learned: &[FunctionTable]) -> (Fill, Vec<Box<dyn TableBuf>>) {
        let known = tables.iter().filter_map(|table| -> Option<(What, Box<dyn TableBuf>)> {
            match *table {
                CALLS_TABLE => Some((What::Calls, Box::new(CallRows::default()))),
                ARGS_TABLE => Some((What::Args(ArgNames::default()), Box::new(ArgRows::default()))),
                table => {
                    let table = learned.get(table - N_TABLES)?;
                    let rows = ColumnTable::new(table.schema.clone());
                    Some((What::Function(Filler::new(table)), Box::new(rows)))
                }
            }
        });
        let (whats, rows) = known.unzip();
        (Fill { whats }, rows)
    }

    /// Adds rows for the calls of a batch.
    pub fn fill(
        &mut self,
        values: &Values,
        types: &Types,
        firsts: Firsts,
        dicts: &mut Dicts,
        tables: &mut [Box<dyn TableBuf>],
    ) {
        for (what, rows) in self.whats.iter_mut().zip(tables) {
            match what {
                What::Calls => {
                    if let Some(rows) = rows.get_mut() {
                        calls(values, firsts, rows);
                    }
                }
                What::Args(names) => {
                    names.learn(types, dicts);
                    if let Some(rows) = rows.get_mut() {
                        args(values, types, names, firsts, rows);
                    }
                }
                What::Function(filler) => {
                    if let Some(rows) = rows.get_mut() {
                        filler.fill(values, types, firsts, rows);
                    }
                }
            }
        }
    }
}

/// Calls with their record numbers and frames.
fn numbered(values: &Values, firsts: Firsts) -> impl Iterator<Item = (u64, u64, &Call)> {
    let mut frame = firsts.frame;
    (firsts.record + 1..).zip(&values.calls).map(move |(record, call)| {
        let this = frame;
        frame += u64::from(call.flags & END_FRAME != 0);
        (record, this, call)
    })
}

/// Adds a row for each call. PERF: fills one column at a time (`view`).
fn calls(values: &Values, firsts: Firsts, rows: &mut CallRows) {
    let calls = &values.calls;
    rows.record.extend((firsts.record + 1..).take(calls.len()));
    rows.call.extend(calls.iter().map(|call| call.number));
    rows.thread.extend(calls.iter().map(|call| call.thread));
    rows.frame.extend(numbered(values, firsts).map(|(_, frame, _)| frame));
    rows.function.extend(calls.iter().map(|call| call.function));
    rows.args.extend(calls.iter().map(|call| call.args.1.saturating_sub(call.args.0)));
    rows.fake.extend(calls.iter().map(|call| has(call, FAKE)));
    rows.incomplete.extend(calls.iter().map(|call| has(call, INCOMPLETE)));
}

fn has(call: &Call, flag: u32) -> u8 {
    u8::from(call.flags & flag != 0)
}

/// The element of an array with a single element (a value written through a pointer); any other value itself.
fn lone(values: &Values, at: u32) -> Node {
    let node = values.node(at);
    let is_lone = node.kind == Kind::Array && node.halves().0 == 1;
    if is_lone { values.node(at + 1) } else { node }
}

/// Adds a row for each argument and each result.
fn args(values: &Values, types: &Types, names: &ArgNames, firsts: Firsts, rows: &mut ArgRows) {
    for (record, frame, call) in numbered(values, firsts) {
        let n_named = types.function(call.function).map_or(0, |function| function.args.len());
        let args = values.args_of(call).iter().map(|arg| (arg.index, arg.node));
        let result = (call.result != NO_NODE).then_some((u32::MAX, call.result));
        for (index, at) in args.chain(result) {
            let node = values.node(at);
            let has_name = (index as usize) < n_named;
            rows.record.push(record);
            rows.call.push(call.number);
            rows.thread.push(call.thread);
            rows.frame.push(frame);
            rows.function.push(call.function);
            rows.index.push(index);
            rows.name.push(if has_name { names.index(call.function, index) } else { u32::MAX });
            rows.kind.push(node.kind as u8);
            rows.bits.push(lone(values, at).bits());
            rows.value.push(at);
        }
    }
}
