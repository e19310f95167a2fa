//! The fast path for nearly all accesses: to one field of one element, within one line that the same thread touched last.
//!
//! Within a [`Window`], such accesses differ only in their offset. As long as they stay in it, finding the field takes one
//! look-up in a table. Any other access takes the [slow path](Fields::access).

use super::count::{Counters, Tally};
use super::space::Space;
use super::{Fields, Site};
use crate::fields::count::Kind;
use quipu_model::Batch;
use quipu_model::lens::AccessKind;
use quipu_symbols::attribute::{Held, Shape};
use quipu_symbols::regions::RegionMap;
use std::ops::Range;

/// A byte of a type: its field, and how many bytes from there on belong to that field alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    field: u16,
    room: u16,
}

/// Bytes of all types together that get cells; further types take the slow path.
const MAX_CELLS: usize = 1 << 24;
/// Index of the cell for memory without fields.
const PLAIN: u32 = 0;
/// Index of the cell for bytes that the fast path cannot attribute.
const ODD: u32 = 1;

/// The cells at [`PLAIN`] and [`ODD`], which belong to no type.
pub(super) fn first_cells() -> Vec<Cell> {
    vec![Cell { field: 0, room: u16::MAX }, Cell { field: 0, room: 0 }]
}

/// Adds the cells of a type; returns their range.
pub(super) fn add_cells(cells: &mut Vec<Cell>, shape: &Shape) -> Range<u32> {
    let start = cells.len() as u32; // At most `MAX_CELLS`.
    if cells.len() < MAX_CELLS {
        cells.extend(shape.runs().map(|(field, room)| Cell { field, room }));
    }
    start..cells.len() as u32
}

/// Counter (lower half) and site (upper half) under which an access was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told(u64);

impl Told {
    /// The access does not have a single field.
    pub(super) const NOT: Told = Told(u64::MAX);

    pub(super) fn new(counter: u32, site: u32) -> Told {
        Told(u64::from(site) << 32 | u64::from(counter))
    }

    pub(super) fn counter(self) -> u32 {
        self.0 as u32 // The lower half.
    }

    pub(super) fn site(self) -> u32 {
        (self.0 >> 32) as u32 // The upper half.
    }
}

/// A range of bytes on one page, in one element of a region or outside of all regions.
#[derive(Clone, Copy, Debug)]
struct Window {
    start: u64,
    n_bytes: u64,
    /// Number to add to a line's number to get its index.
    first_line: u64,
    /// Cell of the first byte, and mask for the offsets that select other cells.
    cell: u64,
    mask: u64,
    /// Counter and site for an access to the first field.
    told: Told,
}

/// An empty window, before the first access.
const NOWHERE: Window = Window { start: 0, n_bytes: 0, first_line: 0, cell: 0, mask: 0, told: Told(0) };

impl Window {
    /// Builds the window around an address.
    #[inline(never)]
    fn around(
        addr: u64,
        space: &mut Space,
        regions: &RegionMap<Held>,
        sites: &[Site],
        kinds: &[Kind],
    ) -> Window {
        let page = space.page(addr, regions);
        let first_line = space.first_line(page, addr);
        let spot = space.spot(page, addr, regions);
        let (start, n_bytes) = (spot.start, spot.end - spot.start);
        let Some(region) = spot.region else {
            // The cell of memory without fields, and the counter of memory outside of regions.
            return Window { start, n_bytes, first_line, ..NOWHERE };
        };
        let site = region.what.origin;
        let kind = &kinds[sites[site as usize].kind as usize];
        let told = Told::new(kind.base, site);
        let plain = Window { start, n_bytes, first_line, cell: PLAIN.into(), mask: 0, told };
        if kind.shape.is_none() {
            return plain;
        }
        // Elements may be closer together than the size of their type.
        let (element, stride) = (addr - region.offset(addr), region.what.stride);
        let element_end = if stride == 0 { spot.end } else { element.saturating_add(stride).min(spot.end) };
        let n_cells = u64::from(kind.cells.end - kind.cells.start);
        let (start, end) = (start.max(element), element_end.min(element.saturating_add(n_cells)));
        if addr >= end {
            return Window { cell: ODD.into(), ..plain };
        }
        let cell = u64::from(kind.cells.start) + (start - element);
        Window { start, n_bytes: end - start, cell, mask: u64::MAX, ..plain }
    }
}

/// Masks with the lowest N bits set; all bits from 64 on.
const BITS: [u64; 128] = {
    let mut bits = [u64::MAX; 128];
    let mut n = 0;
    while n < 64 {
        bits[n] = (1 << n) - 1;
        n += 1;
    }
    bits
};

impl Fields {
    /// Counts accesses of a thread at these rows.
    pub(super) fn accesses_of(
        &mut self,
        counters: &mut Counters,
        thread: u32,
        batch: &Batch,
        rows: Range<usize>,
    ) {
        let accesses = &batch.accesses;
        let rows = Rows {
            kind: &accesses.kind[rows.clone()],
            addr: &accesses.addr[rows.clone()],
            size: &accesses.size[rows],
        };
        let n_rows = rows.addr.len();
        if self.told.len() < n_rows {
            self.told.resize(n_rows, Told::NOT);
        }
        let mut window = NOWHERE;
        let mut at = 0;
        while at < n_rows {
            at = if self.line_shift == USUAL_SHIFT {
                self.quick::<USUAL_SHIFT>(counters, thread, rows, at, &mut window)
            } else {
                self.quick::<0>(counters, thread, rows, at, &mut window)
            };
            if at < n_rows {
                let is_write = usize::from(rows.kind[at] == AccessKind::Write);
                self.told[at] = Told::NOT;
                self.access(counters, thread, rows.addr[at], u64::from(rows.size[at]).max(1), is_write);
                at += 1;
            }
        }
    }

    /// Counts rows from `at` up to the first one that the fast path cannot handle; returns its index, or the number of rows.
    /// Lines have 2^`SHIFT` bytes; with 0, the size is read from `self`.
    ///
    /// PERF: types; the counts of the current site stay in a register.
    #[inline(never)]
    fn quick<const SHIFT: u32>(
        &mut self,
        counters: &mut Counters,
        thread: u32,
        rows: Rows<'_>,
        at: usize,
        window: &mut Window,
    ) -> usize {
        let Fields { attribution, space, sites, kinds, cells, told, .. } = self;
        let (shift, unit_shift) = if SHIFT > 0 { (SHIFT, 0) } else { (self.line_shift, self.unit_shift) };
        let regions = attribution.regions();
        let line_bytes = 1 << shift;
        let n_rows = rows.addr.len();
        let (kinds_of, addrs) = (&rows.kind[..n_rows], &rows.addr[..n_rows]);
        let (sizes, told) = (&rows.size[..n_rows], &mut told[..n_rows]);
        let counts = counters.counts_mut();
        let mut here = *window;
        // Number of accesses to the site, and in the upper half the number of writes.
        let mut tally = 0u64;
        let mut stop = n_rows;
        for row in at..n_rows {
            let (kind, addr, size) = (kinds_of[row], addrs[row], u64::from(sizes[row]).max(1));
            if !matches!(kind, AccessKind::Read | AccessKind::Write) {
                continue;
            }
            let is_write = usize::from(kind == AccessKind::Write);
            let mut offset = addr.wrapping_sub(here.start);
            if offset >= here.n_bytes {
                count_for(sites, here.told.site(), &mut tally);
                here = Window::around(addr, space, regions, sites, kinds);
                offset = addr.wrapping_sub(here.start);
            }
            let at_cell = here.cell.wrapping_add(offset & here.mask) as usize;
            let Some(Cell { field, room }) = cells.get(at_cell).copied() else {
                stop = row;
                break;
            };
            let in_line = addr & (line_bytes - 1);
            if offset.wrapping_add(size) > here.n_bytes || size > room.into() || in_line + size > line_bytes {
                stop = row;
                break;
            }
            let line = here.first_line.wrapping_add(addr >> shift) as usize;
            let told_as = Told(here.told.0 + u64::from(field));
            let (Some(line), Some(count)) =
                (space.lines.get_mut(line), counts.get_mut(told_as.counter() as usize))
            else {
                stop = row;
                break;
            };
            if line.owner != thread {
                stop = row;
                break;
            }
            let (first, n) = match unit_shift {
                0 => (in_line, size),
                _ => (
                    in_line >> unit_shift,
                    ((in_line + size - 1) >> unit_shift) - (in_line >> unit_shift) + 1,
                ),
            };
            line.seen[is_write] |= BITS[n as usize & 127] << first;
            count[is_write] += 1;
            tally += 1 + ((is_write as u64) << 32);
            told[row] = told_as;
        }
        count_for(sites, here.told.site(), &mut tally);
        *window = here;
        stop
    }
}

/// The common line size, as a power of two.
const USUAL_SHIFT: u32 = 6;

/// Accesses as columns of equal length.
#[derive(Clone, Copy)]
struct Rows<'a> {
    kind: &'a [AccessKind],
    addr: &'a [u64],
    size: &'a [u32],
}

/// Adds a tally to a site: accesses in the lower half, writes among them in the upper half.
#[inline]
fn count_for(sites: &mut [Site], site: u32, tally: &mut u64) {
    let (n, n_writes) = (*tally & u64::from(u32::MAX), *tally >> 32);
    let Tally(counts) = &mut sites[site as usize].counts;
    counts[0] += n - n_writes;
    counts[1] += n_writes;
    *tally = 0;
}
