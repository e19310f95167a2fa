//! Events as rows of a table.

use crate::batch::Batch;
use crate::event::{Event, Kind, Place, context, control, format, sync};
use quipu_model::column::{Lists, Maybe, Strings};
use quipu_model::schema::{Names, Role, Storage, Type, Unit};
use quipu_model::{TableBuf, rows};
use quipu_records::print::Form;
use std::io::Write as _;
use std::sync::{Arc, LazyLock};

/// The kind number of unknown fixed-encoding events in type codes.
const UNKNOWN: u16 = 7;

/// The type code of an event: its kind in the upper byte, the kind's own code in the lower.
pub(crate) fn code(kind: Kind, own: u8) -> u16 {
    u16::from(kind as u8) << 8 | u16::from(own)
}

/// The type code of an event.
pub(crate) fn code_of(event: &Event) -> u16 {
    match event {
        Event::Memory(memory) => code(Kind::Memory, memory.access.unwrap_or(0)),
        Event::Compute(compute) => code(Kind::Compute, compute.format.unwrap_or(0)),
        Event::Sync(event) => code(Kind::Sync, event.kind),
        Event::Context(context) => code(Kind::Context, context.kind),
        Event::Control(control) => code(Kind::Control, control.kind.unwrap_or(0)),
        Event::Config(config) => code(Kind::Config, config.kind as u8),
        Event::Unknown(tag) => UNKNOWN << 8 | u16::from(*tag),
    }
}

/// Names of event types by code.
pub(crate) static TYPES: &[(u16, &str)] = {
    const MEMORY: u16 = (Kind::Memory as u16) << 8;
    const COMPUTE: u16 = (Kind::Compute as u16) << 8;
    const SYNC: u16 = (Kind::Sync as u16) << 8;
    const CONTEXT: u16 = (Kind::Context as u16) << 8;
    const CONTROL: u16 = (Kind::Control as u16) << 8;
    const CONFIG: u16 = (Kind::Config as u16) << 8;
    &[
        (MEMORY, "access"),
        (MEMORY | 1, "load"),
        (MEMORY | 2, "store"),
        (COMPUTE, "compute"),
        (COMPUTE | format::INTEGER as u16, "integer"),
        (COMPUTE | format::FLOAT as u16, "float"),
        (SYNC | sync::CREATE as u16, "create"),
        (SYNC | sync::JOIN as u16, "join"),
        (SYNC | sync::BARRIER as u16, "barrier"),
        (SYNC | sync::SYNC as u16, "sync"),
        (SYNC | sync::SWAP as u16, "swap"),
        (SYNC | sync::LOCK as u16, "lock"),
        (SYNC | sync::UNLOCK as u16, "unlock"),
        (SYNC | sync::WAIT as u16, "wait"),
        (SYNC | sync::SIGNAL as u16, "signal"),
        (SYNC | sync::BROADCAST as u16, "broadcast"),
        (SYNC | sync::SPIN_LOCK as u16, "spin-lock"),
        (SYNC | sync::SPIN_UNLOCK as u16, "spin-unlock"),
        (CONTEXT | context::INSTRUCTION as u16, "instruction"),
        (CONTEXT | context::BLOCK as u16, "block"),
        (CONTEXT | context::ENTER as u16, "enter"),
        (CONTEXT | context::EXIT as u16, "exit"),
        (CONTEXT | context::THREAD as u16, "thread"),
        (CONTEXT | context::NET_ENTER as u16, "net-enter"),
        (CONTEXT | 7, "net-exit"),
        (CONTEXT | 8, "operator-enter"),
        (CONTEXT | context::OPERATOR_EXIT as u16, "operator-exit"),
        (CONTROL, "control"),
        (CONTROL | control::JUMP as u16, "jump"),
        (CONTROL | control::BRANCH as u16, "branch"),
        (CONTROL | control::CALL as u16, "call"),
        (CONTROL | control::RETURN as u16, "return"),
        (CONFIG | Kind::Memory as u16, "configure-memory"),
        (CONFIG | Kind::Compute as u16, "configure-compute"),
        (CONFIG | Kind::Sync as u16, "configure-sync"),
        (CONFIG | Kind::Context as u16, "configure-context"),
        (CONFIG | Kind::Control as u16, "configure-control"),
    ]
};

/// The name of a type; `None` if it is unknown.
pub(crate) fn type_name(code: u16) -> Option<&'static str> {
    TYPES.iter().find(|(known, _)| *known == code).map(|(_, name)| *name)
}

static TYPE_NAMES: LazyLock<Arc<Names>> = LazyLock::new(|| {
    let names = Names::new(Storage::U16, TYPES.iter().map(|(code, name)| (u64::from(*code), *name)));
    let of = |kind: Kind| -> Vec<&str> {
        TYPES.iter().filter(|(code, _)| code >> 8 == kind as u16).map(|(_, name)| *name).collect()
    };
    let groups = [
        ("memory", Kind::Memory),
        ("computation", Kind::Compute),
        ("synchronization", Kind::Sync),
        ("context", Kind::Context),
        ("control-flow", Kind::Control),
        ("configuration", Kind::Config),
    ];
    groups.into_iter().fold(names, |names, (word, kind)| names.with_group(word, &of(kind))).shared()
});

/// The codes of a type, or of a group of types, by name.
pub(crate) fn codes_named(word: &str) -> Option<Vec<u16>> {
    let group = TYPE_NAMES.groups().find(|(name, _)| *name == word).map(|(_, codes)| codes);
    let is_meant = |code: u16, name: &str| match group {
        Some(codes) => codes.contains(&u64::from(code)),
        None => name == word,
    };
    let codes = TYPES.iter().filter(|(code, name)| is_meant(*code, name)).map(|(code, _)| *code);
    let codes: Vec<u16> = codes.collect();
    (!codes.is_empty()).then_some(codes)
}

/// The names of groups of types.
pub(crate) fn names_of_types() -> Vec<String> {
    TYPE_NAMES.groups().map(|(name, _)| name.to_owned()).collect()
}

/// Names of operations of computations.
static OPERATIONS: LazyLock<Arc<Names>> = LazyLock::new(|| {
    let names = ["undefined", "add", "subtract", "multiply", "divide", "shift", "move"];
    Names::dense(Storage::U8, &names).shared()
});

rows! {
    /// One row for each event; a field that the stream does not carry is missing.
    pub struct Events: "events" derived "events in the order of the stream" {
        record: Vec<u64>, role(Role::RECORD) => "position in the stream, from 1";
        thread("tid"): Vec<u64>, role(Role::THREAD) => "thread; 0 before the first swap";
        kind("type"): Vec<u16> as Type::Enum(TYPE_NAMES.clone()) => "kind of the event";
        addr: Maybe<Vec<u64>> as Type::Address, role(Role::ADDRESS)
            => "first byte of an access, address or id of a context, target of control flow";
        size: Maybe<Vec<u16>>, role(Role::SIZE), unit(Unit::BYTES) => "bytes accessed, or bytes of a result";
        operation: Maybe<Vec<u8>> as Type::Enum(OPERATIONS.clone()) => "operation of a computation";
        arguments: Maybe<Vec<u8>> => "arguments of a computation";
        id: Maybe<Vec<u8>> => "number of the data that an access transfers";
        ids: Lists => "numbers of the arguments of a computation";
        value: Maybe<Vec<u64>>, hex() => "thread, handle or object of a synchronization; fields of a configuration";
        second: Maybe<Vec<u64>>, hex() => "mutex of a wait";
        taken: Maybe<Vec<u8>> as Type::Bool => "whether the branch was taken";
        indirect: Maybe<Vec<u8>> as Type::Bool => "whether the target is computed";
        name: Maybe<Strings> => "function, net or operator";
    }
}

/// The printed form of rows.
///
/// ```text
///       record  thread  type                          address   size
///            1       1  swap                                               0x1
///            2       1  instruction                  0x400d7c0
///            3       1  store                     0x1fff000698      8
/// ```
pub(crate) static FORMS: &[Form] = &[
    Form::new("record", "record", 12),
    Form::new("tid", "thread", 7),
    Form::new("type", "type", 18).apart(),
    Form::new("addr", "address", 18),
    Form::new("size", "size", 6),
    Form::new("name", "", 0).apart(),
];

fn put<T: Copy + Default>(column: &mut Maybe<Vec<T>>, value: Option<T>) {
    column.values.push(value.unwrap_or_default());
    column.valid.push(value.is_some());
}

/// Adds the row of an event, whose name is in the batch.
pub(crate) fn push(event: &Event, batch: &Batch, record: u64, thread: u64, rows: &mut Events) {
    let (mut addr, mut size, mut value, mut second, mut id) = (None, None, None, None, None);
    let (mut operation, mut arguments, mut taken, mut indirect) = (None, None, None, None);
    let (mut ids, mut name): (&[u8], Option<&[u8]>) = (&[], None);
    match event {
        Event::Memory(memory) => (addr, size, id) = (memory.address, memory.size, memory.id),
        Event::Compute(compute) => {
            (size, operation, arguments) = (compute.width, compute.operation, compute.arguments);
            let n = usize::from(compute.arguments.unwrap_or(0)).min(4);
            ids = compute.ids.as_ref().map_or(&[], |ids| &ids[..n]);
        }
        Event::Sync(event) => (value, second) = (Some(event.data), event.second),
        Event::Context(context) => match context.place {
            Place::Address(address) => addr = Some(address),
            Place::Name(of) => name = Some(batch.name(of)),
        },
        Event::Control(control) => {
            (addr, taken, indirect) = (control.target, control.taken, control.indirect);
        }
        Event::Config(config) => value = Some(config.fields.into()),
        Event::Unknown(_) => {}
    }
    rows.record.push(record);
    rows.thread.push(thread);
    rows.kind.push(code_of(event));
    put(&mut rows.addr, addr);
    put(&mut rows.size, size);
    put(&mut rows.operation, operation);
    put(&mut rows.arguments, arguments);
    put(&mut rows.id, id);
    rows.ids.push(ids.iter().map(|id| u64::from(*id)));
    put(&mut rows.value, value);
    put(&mut rows.second, second);
    put(&mut rows.taken, taken.map(u8::from));
    put(&mut rows.indirect, indirect.map(u8::from));
    match name {
        Some(name) => rows.name.push_text(name),
        None => rows.name.push_missing(1),
    }
}

/// Prints the cells of optional fields: a blank if the row lacks the field. All fields after the size are printed in one cell.
pub(crate) fn own_cell(table: &dyn TableBuf, row: usize, column: &str, out: &mut Vec<u8>) -> bool {
    let Some(rows) = table.get::<Events>() else { return false };
    // Writing to a vector cannot fail.
    match column {
        "type" => {
            let code = rows.kind[row];
            let _ = match type_name(code) {
                Some(name) => write!(out, "{name}"),
                None => write!(out, "unknown {}.{}", code >> 8, code & 0xff),
            };
            true
        }
        // A blank keeps the width of the cell.
        "addr" if !rows.addr.valid.get(row) => {
            out.push(b' ');
            true
        }
        "size" if !rows.size.valid.get(row) => {
            out.push(b' ');
            true
        }
        "name" => {
            rest(rows, row, out);
            true
        }
        _ => false,
    }
}

/// Prints the remaining fields of a row, separated by blanks.
fn rest(rows: &Events, row: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let mut word = |text: std::fmt::Arguments<'_>| {
        if out.len() > start {
            out.push(b' ');
        }
        let _ = out.write_fmt(text);
    };
    if rows.operation.valid.get(row) {
        let operation = u64::from(rows.operation.values[row]);
        match OPERATIONS.get(operation) {
            Some(name) => word(format_args!("{name}")),
            None => word(format_args!("operation {operation}")),
        }
    }
    if rows.arguments.valid.get(row) {
        word(format_args!("arguments={}", rows.arguments.values[row]));
    }
    if rows.id.valid.get(row) {
        word(format_args!("id={}", rows.id.values[row]));
    }
    for (at, id) in rows.ids.get(row).iter().enumerate() {
        word(format_args!("id{at}={id}"));
    }
    if rows.value.valid.get(row) {
        word(format_args!("{:#x}", rows.value.values[row]));
    }
    if rows.second.valid.get(row) {
        word(format_args!("mutex={:#x}", rows.second.values[row]));
    }
    if rows.taken.valid.get(row) {
        word(format_args!("{}", if rows.taken.values[row] == 1 { "taken" } else { "not taken" }));
    }
    if rows.indirect.valid.get(row) && rows.indirect.values[row] == 1 {
        word(format_args!("indirect"));
    }
    if let Some(name) = rows.name.get(row) {
        word(format_args!("{}", String::from_utf8_lossy(name)));
    }
}
