//! Decodes cells to events, and encodes texts. SPEC: stream.md#cells.

use crate::cell::{Cell, LOW, TEXT_BYTES, access, atomic, kind};

/// An event of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An access.
    Access(Access),
    /// A function was entered.
    Enter {
        /// Return address in the caller.
        caller: u64,
        /// Address inside the function.
        pc: u64,
    },
    /// A function was left.
    Leave {
        /// Address inside the function.
        pc: u64,
    },
    /// An atomic operation.
    Atomic(Atomic),
    /// Memory was allocated.
    Alloc(Region<'a>),
    /// Memory is about to be freed.
    Release(Heap),
    /// The program gave memory a type.
    Typed(Region<'a>),
    /// The program removed the type of memory.
    Untyped(Heap),
    /// Synchronization of threads.
    Sync(Sync),
    /// A text.
    Text {
        /// Address of the object that it belongs to.
        object: u64,
        /// Kind of text: [`crate::cell::text`].
        which: u64,
        /// The bytes of the text.
        text: &'a [u8],
    },
    /// A module of the program was loaded.
    Module {
        /// Load bias: the difference to addresses in the file.
        base: u64,
        /// Bytes of memory from `base` on.
        bytes: u64,
        /// Path of its file.
        path: &'a [u8],
    },
    /// One or more cells that were claimed but not written before the program died.
    Hole,
    /// A kind of event that this version does not know.
    Unknown {
        /// Number of the kind.
        kind: u8,
    },
    /// Padding at the end of a buffer that was too small for the next event.
    Pad,
}

/// A non-atomic access, of a size that processors have or of a whole range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Address of the first byte.
    pub addr: u64,
    /// Size in bytes.
    pub size: u64,
    /// Address after the instruction.
    pub pc: u64,
    /// Bits of [`crate::cell::access`], without the size.
    pub flags: u16,
}

impl Access {
    /// True for a store.
    pub const fn is_write(&self) -> bool {
        self.flags & access::WRITE != 0
    }
}

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// Address of the first byte.
    pub addr: u64,
    /// Size in bytes.
    pub size: u64,
    /// Address after the instruction.
    pub pc: u64,
    /// Stamp that orders it among the events of the process.
    pub stamp: u64,
    /// Operation: [`crate::cell::atomic`].
    pub operation: u8,
    /// Requested memory order, in the numbering of compilers.
    pub order: u8,
    /// Whether a compare-exchange stored the new value.
    pub succeeded: bool,
    /// Address of the expected value if it was passed by pointer; otherwise 0.
    pub expected: u64,
}

impl Atomic {
    /// True if the operation stored a value.
    pub const fn is_write(&self) -> bool {
        match self.operation {
            atomic::LOAD => false,
            atomic::COMPARE | atomic::COMPARE_VAL => self.succeeded,
            _ => true,
        }
    }
}

/// A region of memory with elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// Address of the first byte.
    pub addr: u64,
    /// Return address of the call.
    pub pc: u64,
    /// Stamp that orders it among the events of the process.
    pub stamp: u64,
    /// Call: [`crate::cell::heap`].
    pub call: u64,
    /// Bytes per element.
    pub element_bytes: u64,
    /// Number of elements.
    pub n_elements: u64,
    /// Name of the type; empty if not given.
    pub name: &'a [u8],
}

/// The end of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    /// Address of the first byte.
    pub addr: u64,
    /// Return address of the call.
    pub pc: u64,
    /// Stamp that orders it among the events of the process.
    pub stamp: u64,
    /// Call: [`crate::cell::heap`].
    pub call: u64,
}

/// A synchronization operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// Address of the lock or condition, or the handle of the thread.
    pub object: u64,
    /// Return address of the call.
    pub pc: u64,
    /// Stamp that orders it among the events of the process.
    pub stamp: u64,
    /// Operation: [`crate::cell::sync`].
    pub what: u64,
    /// Further values, depending on the operation.
    pub values: [u64; 2],
}

impl Event<'_> {
    /// The stamp, if it has one. Stamps of a process are unique and in the order of the events.
    pub const fn stamp(&self) -> Option<u64> {
        match self {
            Event::Atomic(Atomic { stamp, .. })
            | Event::Alloc(Region { stamp, .. })
            | Event::Typed(Region { stamp, .. })
            | Event::Release(Heap { stamp, .. })
            | Event::Untyped(Heap { stamp, .. })
            | Event::Sync(Sync { stamp, .. }) => Some(*stamp),
            _ => None,
        }
    }
}

/// Number of cells of the event at the front of `n` cells, and whether it is complete. `cell` returns a cell by index.
///
/// An event that is cut short, by the end of the cells or by a hole, ends there.
fn length(n: usize, cell: impl Fn(usize) -> Cell) -> (usize, bool) {
    let n_cells = 1 + cell(0).n_following();
    // Continuation cells of an event that are holes were claimed but not written.
    let n_whole = (1..n_cells.min(n)).find(|at| cell(*at) == Cell::HOLE).unwrap_or(n_cells.min(n));
    (n_whole, n_whole == n_cells)
}

/// Number of events in the cells of a buffer with this tag, without padding.
#[must_use]
pub fn count(cells: &[[u64; 2]], tag: u64) -> u32 {
    let cell = |[word, side]: [u64; 2]| {
        if side & !LOW == tag { Cell { word, side: side & LOW } } else { Cell::HOLE }
    };
    let (mut at, mut n_events) = (0, 0);
    while let Some(rest @ [first, ..]) = cells.get(at..) {
        let (n_cells, is_whole) = length(rest.len(), |at| cell(rest[at]));
        // An event that is cut short counts as a hole, even if it was padding.
        n_events += u32::from(!is_whole || cell(*first).code() >> 8 != u16::from(kind::PAD));
        at += n_cells;
    }
    n_events
}

/// Decodes the event at the front of `cells`, which must not be empty. Returns the event and its number of cells.
///
/// Texts are copied to `text` and borrowed from there. An event that is cut short, by the end of the cells or by a hole,
/// becomes an [`Event::Hole`].
pub fn decode<'a>(cells: &[Cell], text: &'a mut Vec<u8>) -> (Event<'a>, usize) {
    let Some((&first, rest)) = cells.split_first() else { return (Event::Hole, 0) };
    let code = first.code();
    if code < 0x100 {
        let flags = code & !access::SIZE_LOG2;
        let size = 1 << (code & access::SIZE_LOG2);
        return (Event::Access(Access { addr: first.value(), size, pc: first.side, flags }), 1);
    }
    match length(cells.len(), |at| cells[at]) {
        (n_cells, true) => (long(first, &rest[..n_cells - 1], text), n_cells),
        (n_cells, false) => (Event::Hole, n_cells),
    }
}

/// Decodes an event other than an access from its first cell and its continuation cells.
fn long<'a>(first: Cell, following: &[Cell], text: &'a mut Vec<u8>) -> Event<'a> {
    let (kind, addr, pc) = ((first.code() >> 8) as u8, first.value(), first.side);
    match (kind, following) {
        (kind::PAD, _) => Event::Pad,
        (kind::HOLE, _) => Event::Hole,
        (kind::ENTER, []) => Event::Enter { caller: addr, pc },
        (kind::LEAVE, []) => Event::Leave { pc },
        (kind::ATOMIC, [Cell { word: stamp, side }, rest @ ..]) => {
            let [operation, size_log2, order, _, succeeded, ..] = side.to_le_bytes();
            Event::Atomic(Atomic {
                addr,
                size: 1 << (size_log2 & 7),
                pc,
                stamp: *stamp,
                operation,
                order,
                succeeded: succeeded != 0,
                expected: rest.first().map_or(0, |cell| cell.word),
            })
        }
        (kind::RANGE, [Cell { word: size, side }]) => {
            Event::Access(Access { addr: addr | side >> 16 << 48, size: *size, pc, flags: *side as u16 })
        }
        (kind::ALLOC, [Cell { word: stamp, side: call }, size]) => Event::Alloc(Region {
            addr,
            pc,
            stamp: *stamp,
            call: *call,
            element_bytes: size.word,
            n_elements: size.side,
            name: &[],
        }),
        (kind::TYPED, [Cell { word: stamp, side: n_bytes }, size, rest @ ..]) => Event::Typed(Region {
            addr,
            pc,
            stamp: *stamp,
            call: 0,
            element_bytes: size.word,
            n_elements: size.side,
            name: take_text(rest, *n_bytes, text),
        }),
        (kind::RELEASE, [Cell { word: stamp, side: call }]) => {
            Event::Release(Heap { addr, pc, stamp: *stamp, call: *call })
        }
        (kind::UNTYPED, [Cell { word: stamp, side: call }]) => {
            Event::Untyped(Heap { addr, pc, stamp: *stamp, call: *call })
        }
        (kind::SYNC, [Cell { word: stamp, side: what }, values]) => Event::Sync(Sync {
            object: addr,
            pc,
            stamp: *stamp,
            what: *what,
            values: [values.word, values.side],
        }),
        (kind::TEXT, [Cell { word: which, side: n_bytes }, rest @ ..]) => {
            Event::Text { object: addr, which: *which, text: take_text(rest, *n_bytes, text) }
        }
        (kind::MODULE, [Cell { word: bytes, side: n_bytes }, rest @ ..]) => {
            Event::Module { base: addr, bytes: *bytes, path: take_text(rest, *n_bytes, text) }
        }
        _ => Event::Unknown { kind },
    }
}

/// Assembles the text of `cells` in `text`.
fn take_text<'a>(cells: &[Cell], n_bytes: u64, text: &'a mut Vec<u8>) -> &'a [u8] {
    text.clear();
    for cell in cells {
        text.extend_from_slice(&cell.word.to_le_bytes());
        text.extend_from_slice(&cell.side.to_le_bytes()[..TEXT_BYTES - 8]);
    }
    let n_bytes = usize::try_from(n_bytes).unwrap_or(usize::MAX).min(text.len());
    &text[..n_bytes]
}

/// Encodes a continuation cell with the first [`TEXT_BYTES`] bytes of a text.
pub fn text_cell(text: &[u8]) -> Cell {
    let mut bytes = [0; 16];
    let n_bytes = text.len().min(TEXT_BYTES);
    bytes[..n_bytes].copy_from_slice(&text[..n_bytes]);
    let value = u128::from_le_bytes(bytes);
    Cell { word: value as u64, side: (value >> 64) as u64 & LOW }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: &[Cell], expected: &Event<'_>, n_cells: usize) {
        let mut text = Vec::new();
        assert_eq!(decode(cells, &mut text), (*expected, n_cells));
    }

    fn head(kind: u8, n_following: u8, value: u64, side: u64) -> Cell {
        Cell { word: u64::from(kind) << 56 | u64::from(n_following) << 48 | value, side }
    }

    #[test]
    fn an_access_is_one_cell() {
        let cell = Cell { word: 0x33 << 48 | 0x7fff_1234, side: 0x40_1000 };
        let expected = Event::Access(Access {
            addr: 0x7fff_1234,
            size: 8,
            pc: 0x40_1000,
            flags: access::WRITE | access::UNALIGNED,
        });
        check(&[cell, cell], &expected, 1);
    }

    #[test]
    fn a_name_of_any_length_stands_in_the_cells_that_follow() {
        for name in [&b""[..], b"int", b"struct.fourteen", b"fourteen bytes"] {
            let mut cells = vec![
                head(kind::TYPED, 2 + name.len().div_ceil(TEXT_BYTES) as u8, 0x1000, 0x40),
                Cell { word: 7, side: name.len() as u64 },
                Cell { word: 24, side: 3 },
            ];
            cells.extend(name.chunks(TEXT_BYTES).map(text_cell));
            let region =
                Region { addr: 0x1000, pc: 0x40, stamp: 7, call: 0, element_bytes: 24, n_elements: 3, name };
            check(&cells, &Event::Typed(region), cells.len());
        }
    }

    #[test]
    fn what_was_not_written_to_its_end_is_a_hole() {
        let cells = [head(kind::RELEASE, 1, 0x1000, 0x40)];
        check(&cells, &Event::Hole, 1);
        let cells =
            [head(kind::ALLOC, 2, 0x1000, 0x40), Cell { word: 1, side: 1 }, Cell::HOLE, Cell::default()];
        check(&cells, &Event::Hole, 2);
        check(&[Cell::HOLE], &Event::Hole, 1);
    }

    #[test]
    fn an_unknown_kind_is_passed_over_with_its_cells() {
        let cells = [head(99, 2, 0, 0), Cell::default(), Cell::default(), Cell::default()];
        check(&cells, &Event::Unknown { kind: 99 }, 3);
    }
}
