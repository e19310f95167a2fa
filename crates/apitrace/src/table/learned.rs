//! A table for each function that a trace calls: `call.glVertex3f`, with the arguments as columns.
//!
//! Functions and the names of their arguments are only known when the whole stream was read; a quick read that skips values
//! finds them. So the columns are known before the first row and do not change, as a header line or another program's query
//! plan requires. A pipe, which cannot be read twice, has no such tables. Signatures with the same name share one table, with
//! the arguments of all of them.

use super::{CallRows, FRAME_COLUMN, Firsts, has, numbered};
use crate::decode::skim::Skimmer;
use crate::feed::Feed;
use crate::record::{FAKE, INCOMPLETE};
use quipu_model::column::Cells;
use quipu_model::schema::{Fidelity, Field, Role, Schema, Type as Column};
use quipu_model::values::{FunctionType, NO_NODE, Type, Types, Values};
use quipu_model::{ColumnTable, Error, Result};
use quipu_source::{Ahead, Container, StreamOptions};
use std::collections::HashMap;
use std::sync::Arc;

/// Prefix of the name of a function's table.
pub const PREFIX: &str = "call.";

/// The table of a function.
#[derive(Clone, Debug)]
pub struct FunctionTable {
    /// Its columns.
    pub schema: Arc<Schema>,
    /// The name of the function.
    pub function: Vec<u8>,
    /// The arguments that the columns hold, in their order.
    args: Vec<ArgKey>,
}

/// An argument among all that a function's signatures name: its name, and the number of earlier arguments with the same name.
type ArgKey = (Vec<u8>, usize);

/// Number of columns before those of the arguments: four that identify the call, then its flags.
const N_BEFORE: usize = FRAME_COLUMN + 3;

/// The tables of all functions of a trace, in the order of appearance; for a damaged trace, of those before the damage.
///
/// # Errors
/// `Unsupported` for a pipe; errors of opening the stream.
pub fn learn(container: &Container) -> Result<Vec<FunctionTable>> {
    if !container.source().can_seek() {
        return Err(Error::unsupported("what functions there are is known when all was read, and a pipe can be read once")
            .in_file(container.name())
            .hint("write the trace to a file first, or view the table `args`, which has the arguments of all functions"));
    }
    let options = StreamOptions {
        block_bytes: 256 << 10,
        ahead: Ahead::Thread { blocks: 4 },
        ..StreamOptions::default()
    };
    let mut feed = Feed::new(container, &options)?;
    // The reader of the rows reports damage, so it is ignored here.
    if !feed.begin().unwrap_or(false) {
        return Ok(Vec::new());
    }
    let mut skimmer = Skimmer::new(feed.header());
    while let Ok(Some(_)) = feed.next(&mut skimmer) {}
    Ok(tables(skimmer.types()))
}

fn tables(types: &Types) -> Vec<FunctionTable> {
    let mut found: Vec<(&[u8], Vec<ArgKey>)> = Vec::new();
    let mut by_name = HashMap::new();
    for ty in types.as_slice() {
        let Type::Function(function) = &**ty else { continue };
        let position = *by_name.entry(&function.name[..]).or_insert_with(|| {
            found.push((&function.name, Vec::new()));
            found.len() - 1
        });
        let known = &mut found[position].1;
        for key in keys(function) {
            if !known.contains(&key) {
                known.push(key);
            }
        }
    }
    found.into_iter().map(|(name, args)| table(name, args)).collect()
}

/// The keys of a signature's arguments.
fn keys(function: &FunctionType) -> impl Iterator<Item = ArgKey> {
    function.args.iter().enumerate().map(|(i, name)| {
        let n_before = function.args[..i].iter().filter(|other| *other == name).count();
        (name.clone(), n_before)
    })
}

fn table(function: &[u8], args: Vec<ArgKey>) -> FunctionTable {
    let name = String::from_utf8_lossy(function);
    // The columns that identify the call, and the flags, are those of the table of calls.
    let of_calls = &CallRows::table_schema().fields;
    let mut fields = of_calls[..=FRAME_COLUMN].to_vec();
    fields.extend(of_calls.iter().filter(|field| field.ty == Column::Bool).cloned());
    let result = Field::new("result", Column::Value, "result of the call").missing(NO_NODE);
    for (i, (arg, n_before)) in args.iter().enumerate() {
        let mut name = match (arg.is_empty(), n_before) {
            (true, _) => format!("arg{i}"),
            (false, 0) => String::from_utf8_lossy(arg).into_owned(),
            (false, n) => format!("{}_{}", String::from_utf8_lossy(arg), n + 1),
        };
        while name == result.name || fields.iter().any(|field| field.name == name) {
            name.push('_');
        }
        let field = Field::new(name, Column::Value, "argument; empty if it was not recorded");
        fields.push(field.missing(NO_NODE).role(Role::ARGUMENT));
    }
    fields.push(result.role(Role::RETURNED));
    let doc = format!("calls of {name} with their arguments");
    let schema = Schema::new(format!("{PREFIX}{name}"), Fidelity::Derived, doc, fields);
    FunctionTable { schema: Arc::new(schema), function: function.to_vec(), args }
}

/// Fills the table of a function.
#[derive(Debug)]
pub(super) struct Filler {
    function: Vec<u8>,
    args: Vec<ArgKey>,
    /// For each type: the columns of the arguments of a call, if it is of this function.
    places: Vec<Option<Vec<usize>>>,
}

impl Filler {
    pub(super) fn new(table: &FunctionTable) -> Filler {
        Filler { function: table.function.clone(), args: table.args.clone(), places: Vec::new() }
    }

    pub(super) fn fill(&mut self, values: &Values, types: &Types, firsts: Firsts, rows: &mut ColumnTable) {
        let more = types.as_slice().get(self.places.len()..).unwrap_or(&[]);
        let (name, args) = (&self.function, &self.args);
        self.places.extend(more.iter().map(|ty| match &**ty {
            Type::Function(function) if function.name == *name => {
                // An argument that is not among the columns appeared after damage; it is dropped.
                let place = |key: ArgKey| args.iter().position(|arg| *arg == key).unwrap_or(usize::MAX);
                Some(keys(function).map(place).collect())
            }
            _ => None,
        }));
        let mut cells: Vec<&mut Cells> = rows.columns.iter_mut().map(|column| &mut column.cells).collect();
        let Some((head, cells)) = cells.split_at_mut_checked(N_BEFORE) else { return };
        let Some((Cells::U32(results), args)) = cells.split_last_mut() else { return };
        let [
            Cells::U64(records),
            Cells::U64(numbers),
            Cells::U64(threads),
            Cells::U64(frames),
            Cells::U8(fakes),
            Cells::U8(open),
        ] = head
        else {
            return;
        };
        for (record, frame, call) in numbered(values, firsts) {
            let Some(Some(places)) = self.places.get(call.function as usize) else { continue };
            records.push(record);
            numbers.push(call.number);
            threads.push(call.thread);
            frames.push(frame);
            fakes.push(has(call, FAKE));
            open.push(has(call, INCOMPLETE));
            results.push(call.result);
            for cells in &mut *args {
                if let Cells::U32(cells) = cells {
                    cells.push(NO_NODE);
                }
            }
            for arg in values.args_of(call) {
                let place = places.get(arg.index as usize);
                if let Some(Cells::U32(cells)) = place.and_then(|place| args.get_mut(*place))
                    && let Some(cell) = cells.last_mut()
                {
                    *cell = arg.node;
                }
            }
        }
    }
}
