//! Decodes the cells of programs that record themselves into rows. SPEC: stream.md#cells.

use crate::batch::Batch;
use crate::column::Column;
use crate::decode::{Body, Outcome};
use crate::meta::Metadata;
use quipu_cells::cell::{CELL_BYTES, Cell, LOW};
use quipu_cells::describe::{ENCODING_NAME, access_flags, schema};
use quipu_cells::event::{Access, Atomic, Event, Heap, Region, Sync, decode as event_at};
use quipu_cells::layout::{BUFFER_CELLS, CELLS_HEAD_BYTES, encoding, read_packed};
use quipu_cells::pack::{Table, unpack};

/// The outcome of reading the cells of a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// For a closed frame: whether it has as many cells as it announces. True for open frames.
    pub is_whole: bool,
    /// Number of damaged cells in an open frame: see [`DAMAGED_CELLS`].
    pub lost: u64,
}

/// A run of at least this many invalid cells before a valid one is damage. Shorter runs are not: no event takes more cells,
/// and signal handlers interrupt one event at a time.
pub const DAMAGED_CELLS: usize = 256;

/// Appends the cells of a payload to `cells`. A cell that was claimed and never written becomes a hole; a damaged run
/// becomes one hole.
pub fn read(body: &Body<'_>, cells: &mut Vec<Cell>) -> Read {
    if !body.is_open {
        let Some((n_cells, _, tokens)) = read_packed(body.payload) else { return Read::default() };
        return Read { is_whole: unpack(tokens, n_cells, &mut Table::default(), cells), lost: 0 };
    }
    let mut read = Read { is_whole: true, lost: 0 };
    let room = body.payload.get(CELLS_HEAD_BYTES..).unwrap_or_default();
    // Invalid cells since the last valid one. Those after the last valid cell are unused room, not holes.
    let mut n_holes = 0;
    for cell in room.as_chunks::<CELL_BYTES>().0.iter().take(BUFFER_CELLS) {
        let (words, _) = cell.as_chunks::<8>();
        let (word, side) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
        if side & !LOW != body.tag {
            n_holes += 1;
            continue;
        }
        if n_holes >= DAMAGED_CELLS {
            read.lost += n_holes as u64;
            n_holes = 1;
        }
        cells.extend(std::iter::repeat_n(Cell::HOLE, n_holes));
        n_holes = 0;
        cells.push(Cell { word, side: side & LOW });
    }
    read
}

/// Number of events in `cells`, without padding.
#[must_use]
pub fn count(cells: &[Cell]) -> u64 {
    let (mut rest, mut text, mut n_events) = (cells, Vec::new(), 0);
    while !rest.is_empty() {
        let (event, n_cells) = event_at(rest, &mut text);
        n_events += u64::from(event != Event::Pad);
        rest = rest.get(n_cells..).unwrap_or_default();
    }
    n_events
}

/// The largest stamp of events, or `first` if none is larger.
#[must_use]
pub fn last_time(cells: &[Cell], first: u64) -> u64 {
    let (mut rest, mut text, mut last) = (cells, Vec::new(), first);
    while !rest.is_empty() {
        let (event, n_cells) = event_at(rest, &mut text);
        last = event.stamp().map_or(last, |stamp| last.max(stamp));
        rest = rest.get(n_cells..).unwrap_or_default();
    }
    last
}

/// Time at which the buffer of a payload was begun, in ns since the recording began.
#[must_use]
pub fn begun(body: &Body<'_>) -> u64 {
    if !body.is_open {
        return read_packed(body.payload).map_or(0, |(_, ns, _)| ns);
    }
    body.payload.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

/// Whether the stream's metadata name this encoding number as cells. Any writer may use a private number for something else.
#[must_use]
pub fn is_named(metadata: &Metadata) -> bool {
    let named = metadata.encoding(encoding::CELLS.into()).and_then(|known| known.name.as_deref());
    named == Some(ENCODING_NAME)
}

/// A value of a row.
#[derive(Clone, Copy)]
enum Value<'a> {
    U64(u64),
    U8(u8),
    Bool(bool),
    Text(&'a [u8]),
}
use Value::{Bool, Text, U8, U64};

/// Decodes a payload into the tables of a batch.
pub(crate) fn decode(body: &Body<'_>, metadata: &Metadata, batch: &mut Batch) -> Outcome {
    let mut outcome = Outcome::default();
    if !is_named(metadata) {
        outcome.undecoded = body.header.records.into();
        return outcome;
    }
    let mut cells = Vec::new();
    let read = read(body, &mut cells);
    (outcome.is_broken, outcome.undecoded) = (!read.is_whole, read.lost);
    let time = body.header.ts_first;
    let mut rows = Rows { metadata, batch, outcome, ordinal: 0, time, slots: [None; N_SCHEMAS] };
    let (mut rest, mut text) = (&cells[..], Vec::new());
    while !rest.is_empty() {
        let (event, n_cells) = event_at(rest, &mut text);
        rest = rest.get(n_cells..).unwrap_or_default();
        // A signal handler may run between taking a stamp and writing its cell, and take a larger stamp.
        rows.time = event.stamp().map_or(rows.time, |stamp| rows.time.max(stamp));
        rows.event(&event);
    }
    outcome = rows.outcome;
    batch.settle();
    outcome
}

struct Rows<'a> {
    metadata: &'a Metadata,
    batch: &'a mut Batch,
    outcome: Outcome,
    ordinal: u32,
    time: u64,
    /// The table of each schema seen so far; `Some(None)` if the metadata do not describe the schema.
    slots: [Option<Option<usize>>; N_SCHEMAS],
}

/// Number of schemas of a recording.
const N_SCHEMAS: usize = (schema::UNKNOWN - schema::PROCESS + 1) as usize;

impl Rows<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match *event {
            Event::Pad => {}
            Event::Access(Access { addr, size, pc, flags }) => {
                // An access that fits in one cell, or one that takes two.
                let is_short = size <= 16 && addr <= LOW;
                let id = if is_short { schema::ACCESS } else { schema::RANGE };
                let kind = u8::from(event_is_write(flags));
                self.put(id, &[U64(pc), U64(addr), U64(size), U8(kind), U8(access_flags(flags))]);
            }
            Event::Enter { caller, pc } => self.put(schema::ENTER, &[U64(pc), U64(caller)]),
            Event::Leave { pc } => self.put(schema::LEAVE, &[U64(pc)]),
            Event::Atomic(change) => {
                let Atomic { addr, size, pc, stamp, operation, order, succeeded, expected } = change;
                let place = [U64(pc), U64(addr), U64(size), U8(u8::from(change.is_write()))];
                let how = [U8(operation), U8(order), Bool(succeeded), U64(expected), U64(stamp)];
                let [a, b, c, d] = place;
                let [e, f, g, h, i] = how;
                self.put(schema::ATOMIC, &[a, b, c, d, e, f, g, h, i]);
            }
            Event::Alloc(Region { addr, pc, stamp, call, element_bytes, n_elements, .. }) => {
                let size = [U64(element_bytes), U64(n_elements)];
                self.put(schema::ALLOC, &[U64(pc), U64(addr), size[0], size[1], U64(call), U64(stamp)]);
            }
            Event::Typed(Region { addr, pc, stamp, element_bytes, n_elements, name, .. }) => {
                let size = [U64(element_bytes), U64(n_elements)];
                self.put(schema::TYPED, &[U64(pc), U64(addr), size[0], size[1], Text(name), U64(stamp)]);
            }
            Event::Release(Heap { addr, pc, stamp, call }) => {
                self.put(schema::FREE, &[U64(pc), U64(addr), U64(call), U64(stamp)]);
            }
            Event::Untyped(Heap { addr, pc, stamp, .. }) => {
                self.put(schema::UNTYPED, &[U64(pc), U64(addr), U64(stamp)]);
            }
            Event::Sync(Sync { object, pc, stamp, what, values: [first, second] }) => {
                let values = [U64(first), U64(second)];
                self.put(schema::SYNC, &[U64(pc), U64(object), U64(what), values[0], values[1], U64(stamp)]);
            }
            Event::Text { object, which, text } => {
                self.put(schema::TEXT, &[U64(which), U64(object), Text(text)]);
            }
            Event::Module { base, bytes, path } => {
                self.put(schema::MODULE, &[U64(base), U64(bytes), Text(path)]);
            }
            Event::Hole => self.put(schema::UNWRITTEN, &[]),
            Event::Unknown { kind } => self.put(schema::UNKNOWN, &[U8(kind)]),
        }
    }

    /// Adds a row if the metadata describe the schema with the fields that recordings have; otherwise counts it as undecoded.
    fn put(&mut self, id: u32, values: &[Value<'_>]) {
        let ordinal = self.ordinal;
        self.ordinal += 1;
        let known = &mut self.slots[(id - schema::PROCESS) as usize];
        let slot = known.get_or_insert_with(|| Some(self.batch.slot(self.metadata.schema(id)?)));
        let Some(slot) = *slot else {
            self.outcome.undecoded += 1;
            return;
        };
        let rows = self.batch.rows_mut(slot);
        let fits = |(column, value): (&Column, &Value<'_>)| {
            matches!(
                (column, value),
                (Column::U64(_), U64(_))
                    | (Column::U8(_), U8(_))
                    | (Column::Bool(_), Bool(_))
                    | (Column::Text(_), Text(_))
            )
        };
        if rows.columns.len() != values.len() || !rows.columns.iter().zip(values).all(fits) {
            self.outcome.undecoded += 1;
            self.outcome.has_invalid = true;
            return;
        }
        for (column, value) in rows.columns.iter_mut().zip(values) {
            match (column, value) {
                (Column::U64(column), U64(value)) => column.push(*value),
                (Column::U8(column), U8(value)) => column.push(*value),
                (Column::Bool(column), Bool(value)) => column.push(u8::from(*value)),
                (Column::Text(column), Text(value)) => {
                    // Texts have a few thousand bytes, and those of a frame come to less than 4 GiB.
                    let _ = column.push(value);
                }
                _ => {}
            }
        }
        rows.times.push(self.time);
        rows.ordinals.push(ordinal);
        self.outcome.decoded += 1;
    }
}

const fn event_is_write(flags: u16) -> bool {
    flags & quipu_cells::cell::access::WRITE != 0
}
