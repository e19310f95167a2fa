//! Fills rows of a lens from its own file, or from a table by the roles of its columns.

use crate::cursor::Chunk;
use crate::roles::access_word;
use quipu_model::column::ColumnRef;
use quipu_model::lens::{
    AccessKind, CallEdge, InstrClass, NO_CODE, RegionEvent, Taken, ThreadEvent, instr_flags,
};
use quipu_model::row_source::N_OWN;
use quipu_model::schema::{Field, Role, Type};
use quipu_model::{Batch, Code, Columns, Schema, ThreadId};
use rustc_hash::FxHashMap;

/// Finds the lens with this name.
pub(crate) fn named(name: &str) -> Option<Columns> {
    Columns::LENSES.iter().map(|lens| lens.rows).find(|rows| rows.names().next() == Some(name))
}

/// Columns of a lens. [`Filling`] refers to them by their position in this list.
fn columns(lens: Columns) -> &'static [&'static str] {
    match lens {
        Columns::ACCESSES => &["addr", "size", "kind", "pc"],
        Columns::INSTRS => &["pc", "size", "flags", "class", "taken", "target", "code"],
        Columns::CALLS => &["function", "edge", "return_to", "result", "args"],
        Columns::THREADS => &["what", "value"],
        Columns::MARKS => &["kind", "value", "text"],
        Columns::REGIONS => &["what", "addr", "element_bytes", "n_elements", "type_name"],
        _ => &[],
    }
}

/// Maps columns of a lens to columns of a file.
#[derive(Clone, Debug)]
pub(crate) struct Filling {
    pub(crate) lens: Columns,
    /// Position in the file of each of the lens's columns, in the order of [`columns`]; `None` if the file lacks it.
    at: Vec<Option<usize>>,
    /// Meaning of each number in columns of named values.
    access: Vec<Option<AccessKind>>,
    edge: Vec<Option<CallEdge>>,
    class: Vec<Option<InstrClass>>,
    taken: Vec<Option<Taken>>,
    thread: Vec<Option<ThreadEvent>>,
    region: Vec<Option<RegionEvent>>,
    /// Fields of the columns in `at`; they define which rows have no value.
    fields: Vec<Option<Field>>,
    is_by_role: bool,
}

/// Numbers of a column of named values that can have a meaning.
const N_NUMBERS: u64 = 256;

/// Returns the meaning of each number of a column: that of its name, or, if the column has no names, of its position in `all`.
fn meaning<T: Copy>(field: Option<&Field>, all: &[T], find: impl Fn(&str) -> Option<T>) -> Vec<Option<T>> {
    let Some(field) = field else { return Vec::new() };
    (0..N_NUMBERS)
        .map(|number| match &field.ty {
            Type::Enum(names) => names.get(number).and_then(&find),
            _ => all.get(number as usize).copied(),
        })
        .collect()
}

impl Filling {
    /// Maps the lens's own file; `None` if the schema is not one of this lens.
    pub(crate) fn of_lens(lens: Columns, schema: &Schema) -> Option<Filling> {
        let own = ["shard", "record", "tid", "pid"];
        let is_own = schema.fields.iter().zip(own).all(|(field, name)| field.name == name);
        if !is_own || schema.fields.len() <= N_OWN {
            return None;
        }
        let at = columns(lens).iter().map(|name| {
            schema.fields.iter().skip(N_OWN).position(|field| field.name == *name).map(|at| at + N_OWN)
        });
        let at: Vec<Option<usize>> = at.collect();
        at.first()?.as_ref()?;
        Some(Filling::new(lens, at, schema, false))
    }

    /// Maps a table to accesses by the roles of its columns; `None` without a column of addresses.
    pub(crate) fn by_role(schema: &Schema) -> Option<Filling> {
        let at =
            [Role::ADDRESS, Role::SIZE, Role::ACCESS_KIND, Role::PC].map(|role| schema.position_of(role));
        at[0]?;
        Some(Filling::new(Columns::ACCESSES, at.to_vec(), schema, true))
    }

    fn new(lens: Columns, at: Vec<Option<usize>>, schema: &Schema, is_by_role: bool) -> Filling {
        let field = |of: Columns, n: usize| {
            at.get(n).copied().flatten().filter(|_| lens == of).and_then(|at| schema.fields.get(at))
        };
        macro_rules! named {
            ($Kind:ident, $lens:expr, $n:literal) => {
                meaning(field($lens, $n), $Kind::ALL, |name| {
                    $Kind::ALL.iter().copied().find(|kind| kind.name() == name)
                })
            };
        }
        Filling {
            access: meaning(field(Columns::ACCESSES, 2), AccessKind::ALL, access_word),
            edge: named!(CallEdge, Columns::CALLS, 1),
            class: named!(InstrClass, Columns::INSTRS, 3),
            taken: named!(Taken, Columns::INSTRS, 4),
            thread: named!(ThreadEvent, Columns::THREADS, 0),
            region: named!(RegionEvent, Columns::REGIONS, 0),
            fields: at.iter().map(|at| at.and_then(|at| schema.fields.get(at)).cloned()).collect(),
            lens,
            at,
            is_by_role,
        }
    }

    /// Lens columns that the file can fill. The source trace may have been unable to fill some of them.
    pub(crate) fn fills(&self) -> Columns {
        let has = |n: usize, column: Columns| if self.at[n].is_some() { column } else { Columns::NONE };
        match self.lens {
            Columns::ACCESSES => Columns::ACCESSES | has(3, Columns::ACCESS_PC),
            Columns::INSTRS => {
                Columns::INSTRS
                    | has(3, Columns::INSTR_CLASS)
                    | has(4, Columns::INSTR_TAKEN)
                    | has(5, Columns::INSTR_TARGET)
                    | has(6, Columns::INSTR_CODE)
            }
            Columns::THREADS => Columns::THREADS | Columns::THREAD_CLOCK | Columns::THREAD_CPU,
            Columns::MARKS => Columns::MARKS | has(2, Columns::MARK_TEXT),
            other => other,
        }
    }

    /// Columns of the file that must be decoded to fill `wanted`.
    pub(crate) fn needed(&self, wanted: Columns) -> Vec<usize> {
        let is_wanted = |n: &usize| match (self.lens, n) {
            (Columns::ACCESSES, 3) => wanted.has(Columns::ACCESS_PC),
            (Columns::INSTRS, 3) => wanted.has(Columns::INSTR_CLASS),
            (Columns::INSTRS, 4) => wanted.has(Columns::INSTR_TAKEN),
            (Columns::INSTRS, 5) => wanted.has(Columns::INSTR_TARGET),
            (Columns::INSTRS, 6) => wanted.has(Columns::INSTR_CODE),
            (Columns::MARKS, 2) => wanted.has(Columns::MARK_TEXT),
            _ => true,
        };
        (0..self.at.len()).filter(is_wanted).filter_map(|n| self.at[n]).collect()
    }

    /// The file's column for the lens column of this name, if rows that do not meet a condition on it may be skipped. This
    /// needs a lens whose rows are not counted, and a column whose numbers the lens shows as they are in the file.
    pub(crate) fn passable(&self, name: &str) -> Option<usize> {
        let is_free = !self.is_by_role && matches!(self.lens, Columns::ACCESSES | Columns::MARKS);
        let n = columns(self.lens).iter().position(|known| *known == name)?;
        self.at[n].filter(|_| is_free && matches!(name, "addr" | "pc" | "value"))
    }

    /// The file's column with the values of thread events.
    pub(crate) fn values(&self) -> Option<usize> {
        self.at.get(1).copied().flatten()
    }

    /// Columns of the file that are needed to count instructions.
    pub(crate) fn counting(&self) -> Vec<usize> {
        self.at.get(2).copied().flatten().into_iter().collect()
    }

    fn column<'c>(&self, n: usize, chunk: &'c Chunk) -> Option<ColumnRef<'c>> {
        chunk.columns.get(self.at[n]?).map(|column| column.as_ref())
    }

    fn is_missing(&self, n: usize, column: ColumnRef<'_>, row: usize) -> bool {
        self.fields[n].as_ref().is_none_or(|field| column.is_missing(field.missing, row))
    }

    fn number(&self, n: usize, chunk: &Chunk, row: usize) -> u64 {
        self.column(n, chunk).map_or(0, |column| column.number(row))
    }

    /// True if the instruction of a row was fetched; only such instructions are counted.
    pub(crate) fn is_fetched(&self, chunk: &Chunk, row: usize) -> bool {
        self.number(2, chunk, row) & u64::from(instr_flags::NO_FETCH) == 0
    }

    /// The thread event of a row and its value; `None` if the event is unknown.
    pub(crate) fn event(&self, chunk: &Chunk, row: usize) -> Option<(ThreadEvent, u64)> {
        let what = self.thread.get(self.number(0, chunk, row) as usize).copied().flatten()?;
        Some((what, self.number(1, chunk, row)))
    }

    /// Appends a row to the batch. `at` is the index of its record in the batch.
    pub(crate) fn push(&self, batch: &mut Batch, at: u32, chunk: &Chunk, row: usize, to: &mut Context<'_>) {
        let number = |n: usize| self.number(n, chunk, row);
        let wanted = to.wanted;
        match self.lens {
            Columns::ACCESSES => self.push_access(batch, at, chunk, row, wanted),
            Columns::INSTRS => {
                let (pc, size) = (number(0), number(1).min(u16::MAX.into()) as u16);
                if wanted.has(Columns::ACCESSES | Columns::ACCESS_FETCH) && self.is_fetched(chunk, row) {
                    let accesses = &mut batch.accesses;
                    accesses.at.push(at);
                    accesses.addr.push(pc);
                    accesses.size.push(size.into());
                    accesses.kind.push(AccessKind::Fetch);
                    if wanted.has(Columns::ACCESS_PC) {
                        accesses.pc.push(pc);
                    }
                }
                if !wanted.has(Columns::INSTRS) {
                    return;
                }
                let code = if wanted.has(Columns::INSTR_CODE) {
                    let bytes = self.column(6, chunk).map_or(&[][..], |column| column.bytes(row));
                    to.codes.index(batch, pc, size, bytes)
                } else {
                    NO_CODE
                };
                let instrs = &mut batch.instrs;
                instrs.at.push(at);
                instrs.pc.push(pc);
                instrs.size.push(size);
                instrs.flags.push(number(2) as u8); // The column has 8 bits.
                if wanted.has(Columns::INSTR_CLASS) {
                    instrs.class.push(known(&self.class, number(3)).unwrap_or(InstrClass::Other));
                }
                if wanted.has(Columns::INSTR_TAKEN) {
                    instrs.taken.push(known(&self.taken, number(4)).unwrap_or(Taken::Unknown));
                }
                if wanted.has(Columns::INSTR_TARGET) {
                    instrs.target.push(number(5));
                }
                if wanted.has(Columns::INSTR_CODE) {
                    instrs.code.push(code);
                }
            }
            Columns::CALLS => {
                let calls = &mut batch.calls;
                calls.at.push(at);
                calls.function.push(number(0));
                calls.edge.push(known(&self.edge, number(1)).unwrap_or(CallEdge::Enter));
                calls.return_to.push(number(2));
                let result = self.column(3, chunk).filter(|column| !self.is_missing(3, *column, row));
                calls.result.push(result.map(|column| column.number(row)));
                let args = self.column(4, chunk).and_then(|column| column.items(row));
                calls.args.push(
                    args.into_iter().flat_map(|(items, rows)| rows.map(|at| items.as_ref().number(at))),
                );
            }
            Columns::THREADS => {
                let Some((what, value)) = self.event(chunk, row) else { return };
                let of_column = quipu_model::lens::Threads::OF_COLUMNS;
                if of_column.iter().any(|(column, event)| *event == what && !wanted.has(*column)) {
                    return;
                }
                batch.threads.at.push(at);
                batch.threads.what.push(what);
                batch.threads.value.push(value);
            }
            Columns::MARKS => {
                batch.marks.at.push(at);
                batch.marks.kind.push(number(0).min(u32::MAX.into()) as u32);
                batch.marks.value.push(number(1));
                if wanted.has(Columns::MARK_TEXT) {
                    batch
                        .marks
                        .text
                        .push_text(self.column(2, chunk).map_or(&[][..], |column| column.bytes(row)));
                }
            }
            Columns::REGIONS => {
                let regions = &mut batch.regions;
                regions.at.push(at);
                regions.what.push(known(&self.region, number(0)).unwrap_or(RegionEvent::Remove));
                regions.addr.push(number(1));
                regions.element_bytes.push(number(2));
                regions.n_elements.push(number(3));
                regions.type_name.push(self.column(4, chunk).map_or(&[][..], |column| column.bytes(row)));
            }
            _ => {}
        }
    }

    fn push_access(&self, batch: &mut Batch, at: u32, chunk: &Chunk, row: usize, wanted: Columns) {
        let number = |n: usize| self.number(n, chunk, row);
        let kind = match self.column(2, chunk) {
            None => Some(AccessKind::Read),
            Some(column) => match self.fields[2].as_ref().map(|field| &field.ty) {
                Some(Type::Text) => std::str::from_utf8(column.bytes(row)).ok().and_then(access_word),
                _ => known(&self.access, column.number(row)),
            },
        };
        let Some(kind) = kind else { return };
        if self.is_by_role {
            let has_address = self.column(0, chunk).is_some_and(|column| !self.is_missing(0, column, row));
            // Fetches are delivered only on request.
            if !has_address || kind == AccessKind::Fetch && !wanted.has(Columns::ACCESS_FETCH) {
                return;
            }
        }
        let size = match self.column(1, chunk) {
            Some(column) if !self.is_missing(1, column, row) => {
                column.number(row).min(u32::MAX.into()) as u32
            }
            // Without a column of sizes, an access has one byte.
            None if self.is_by_role => 1,
            _ => 0,
        };
        let accesses = &mut batch.accesses;
        accesses.at.push(at);
        accesses.addr.push(number(0));
        accesses.size.push(size);
        accesses.kind.push(kind);
        if wanted.has(Columns::ACCESS_PC) {
            accesses.pc.push(number(3));
        }
    }
}

fn known<T: Copy>(meanings: &[Option<T>], number: u64) -> Option<T> {
    meanings.get(usize::try_from(number).ok()?).copied().flatten()
}

/// Requested columns and the index of instructions, for filling rows.
pub(crate) struct Context<'a> {
    pub(crate) wanted: Columns,
    pub(crate) codes: &'a mut Codes,
}

/// Index of each distinct instruction of a read.
#[derive(Debug, Default)]
pub(crate) struct Codes(FxHashMap<Code, u32>);

/// Maximum number of distinct instructions with an index; rows of others get `NO_CODE`.
const MAX_CODES: usize = 1 << 22;

impl Codes {
    fn index(&mut self, batch: &mut Batch, pc: u64, size: u16, bytes: &[u8]) -> u32 {
        if bytes.is_empty() {
            return NO_CODE;
        }
        let code = Code::new(pc, size, bytes);
        if let Some(index) = self.0.get(&code) {
            return *index;
        }
        if self.0.len() >= MAX_CODES {
            return NO_CODE;
        }
        let index = batch.codes.push(code);
        self.0.insert(code, index);
        index
    }
}

/// Converts the number that files store for a thread.
pub(crate) fn thread(packed: u64) -> ThreadId {
    ThreadId::from_packed(packed)
}
