//! `heatmap`: accesses by address and time.
//!
//! A grid of counts: rows are blocks of addresses, columns are intervals. Fetches and prefetches of instructions, reads,
//! writes and all other prefetches count, flushes do not; an access counts at its first byte.
//!
//! **Rows**: at most 256, for touched blocks only. Programs use a few areas that are far apart, so the address space is
//! divided into aligned regions of 2^g bytes, with the smallest g ≥ 20 for which at most 32 regions are touched. While g is
//! 20, the rows are divided evenly between the regions; with a larger g each region has 8. All blocks of a region have 2^k
//! bytes, with the smallest k ≥ 6 for which its rows suffice. The printed map shows neighbouring rows as a band, and omits
//! the addresses between bands.
//!
//! **Columns**: at most 128 intervals of equal width, a power of two, that begin at multiples of it. Positions are
//! instructions of the shard, counted from 0; an access belongs to the instruction before it. In a trace without instruction
//! fetches, positions are records. Shards are overlaid by position, as in `working-set`: position is the progress of each
//! thread, not time.
//!
//! Memory does not grow with the trace: a grid takes less than half a megabyte.
//!
//! * **Needs** `accesses`; uses `accesses.fetch`.
//! * **Options** none.

mod grid;

use crate::axis::Positions;
use crate::number::{bytes, grouped};
use grid::{FETCHES, Grid, READS, Row, WRITES};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Document, HeatBand, HeatMap, HeatRow};
use quipu_model::lens::AccessKind;
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::{
    Batch, Columns, DynPass, Needs, Options, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace,
};

#[cfg(test)]
mod tests;

/// The tool `heatmap`.
#[derive(Debug)]
pub struct Heatmap;

static INFO: ToolInfo = ToolInfo {
    name: "heatmap",
    summary: "accesses by address and time, as a map",
    needs: Needs { format: None, required: Columns::ACCESSES, optional: Columns::ACCESS_FETCH },
    order: Order::Pieces,
    options: &[],
    in_report: false,
};

impl Tool for Heatmap {
    fn result(&self) -> Shape {
        AddressHeat::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, _options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Heat { positions: Positions::of(trace.columns()), grid: Grid::default() }))
    }
}

result! {
    /// Accesses by address and time.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AddressHeat {
        pub axis: &'static str => "Unit of positions: instructions or records.";
        pub interval: u64 => "Width of a column, in positions.";
        pub start: u64 => "Position at which the first column begins.";
        pub columns: usize => "Number of columns.";
        pub accesses: u64 => "Accesses in all rows.";
        pub rows: Vec<AddressRow> => "Touched blocks by ascending address.";
    } beside {
        pub end: u64 => "Position after the last one. The last column may reach further.";
    }
}

result! {
    /// One block of addresses.
    #[derive(Clone, Debug, PartialEq)]
    pub struct AddressRow {
        pub addr: u64 as Hex => "First address of the block.";
        pub bytes: u64 => "Size of the block, in bytes.";
        pub fetches: u64 => "Fetches and prefetches of instructions.";
        pub reads: u64 => "Reads, and prefetches of data.";
        pub writes: u64 => "Writes.";
        pub counts: Vec<u64> => "Accesses in each column.";
    }
}

/// The kind of an access, or `u8::MAX` for one that is not counted. PERF: looked up rather than matched, since fetches and
/// data alternate in no pattern that a branch predictor learns; bench `heatmap`.
const SORTS: [u8; AccessKind::ALL.len()] = {
    let mut sorts = [u8::MAX; AccessKind::ALL.len()];
    sorts[AccessKind::Fetch as usize] = FETCHES as u8;
    sorts[AccessKind::PrefetchInstr as usize] = FETCHES as u8;
    sorts[AccessKind::Read as usize] = READS as u8;
    sorts[AccessKind::Prefetch as usize] = READS as u8;
    sorts[AccessKind::Write as usize] = WRITES as u8;
    sorts
};

/// The pass.
struct Heat {
    positions: Positions,
    grid: Grid,
}

impl Heat {
    #[inline]
    fn touch(&mut self, addr: u64, kind: AccessKind) {
        let sort = usize::from(SORTS[kind as usize]);
        if sort <= WRITES {
            self.grid.touch(addr, sort);
        }
    }
}

impl Pass for Heat {
    fn fork(&self, _shard: &Shard) -> Heat {
        Heat { positions: self.positions, grid: Grid::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let span = &batch.span;
        if span.records == 0 {
            return Ok(());
        }
        let (first, last) = self.positions.ends(span);
        self.grid.cover(first, last);
        self.grid.go_to(first);
        let accesses = &batch.accesses;
        let rows = accesses.addr.iter().zip(&accesses.kind);
        if self.grid.is_one_column(first, last) {
            for (&addr, &kind) in rows {
                self.touch(addr, kind);
            }
        } else {
            let mut next_instr = span.first_instr;
            for ((&addr, &kind), &at) in rows.zip(&accesses.at) {
                next_instr += u64::from(kind == AccessKind::Fetch);
                let position = match self.positions {
                    Positions::Instrs => next_instr.saturating_sub(1),
                    Positions::Records => span.first_record + u64::from(at),
                };
                self.grid.go_to(position.clamp(first, last));
                self.touch(addr, kind);
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: Heat) -> Result<()> {
        self.grid.merge(later.grid);
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let axis = self.grid.axis();
        let row = |row: Row| AddressRow {
            addr: row.start,
            bytes: 1 << row.block,
            fetches: row.sorts[FETCHES],
            reads: row.sorts[READS],
            writes: row.sorts[WRITES],
            counts: row.cells[..axis.len()].to_vec(),
        };
        let rows: Vec<AddressRow> = self.grid.into_rows().into_iter().map(row).collect();
        Ok(Box::new(AddressHeat {
            axis: self.positions.name(),
            interval: axis.width(),
            start: axis.start(),
            end: axis.end(),
            columns: axis.len(),
            accesses: rows.iter().map(AddressRow::accesses).sum(),
            rows,
        }))
    }
}

impl AddressRow {
    /// Accesses of all kinds.
    pub fn accesses(&self) -> u64 {
        self.fetches + self.reads + self.writes
    }

    /// The last address of the block.
    fn last(&self) -> u64 {
        self.addr | (self.bytes - 1)
    }
}

/// Rows belong to one band unless the gap between them exceeds both this many bytes and this many blocks.
const MIN_GAP_BYTES: u64 = 64 << 10;
const MIN_GAP_BLOCKS: u64 = 16;

/// Maximum number of bands in a document.
const MAX_BANDS: usize = 24;

impl ReportBody for AddressHeat {
    fn document(&self, _detail: Detail) -> Document {
        let document = Document::new("Addresses over time");
        if self.rows.is_empty() {
            return document;
        }
        document
            .with(Block::HeatMap(HeatMap {
                title: String::new(),
                unit: "accesses".to_owned(),
                axis: format!("{}, {} a column", self.axis, grouped(self.interval)),
                ends: (grouped(self.start), grouped(self.end)),
                hues: vec!["data".to_owned(), "instructions".to_owned()],
                bands: self.bands().into_iter().map(band).collect(),
            }))
            .with(Block::Note(
                "A row is a block of addresses that was touched. What lies between two bands was not, and is left out."
                    .to_owned(),
            ))
    }
}

impl AddressHeat {
    /// The rows in groups of neighbours, divided at the widest gaps.
    fn bands(&self) -> Vec<&[AddressRow]> {
        let gap = |i: usize| self.rows[i].addr - self.rows[i - 1].last() - 1;
        let is_wide = |i: &usize| {
            let block = self.rows[*i].bytes.max(self.rows[i - 1].bytes);
            gap(*i) >= MIN_GAP_BYTES.max(block.saturating_mul(MIN_GAP_BLOCKS))
        };
        let mut cuts: Vec<usize> = (1..self.rows.len()).filter(is_wide).collect();
        cuts.sort_by_key(|cut| (std::cmp::Reverse(gap(*cut)), *cut));
        cuts.truncate(MAX_BANDS - 1);
        cuts.sort_unstable();
        let starts = std::iter::once(0).chain(cuts.iter().copied());
        let ends = cuts.iter().copied().chain([self.rows.len()]);
        starts.zip(ends).map(|(start, end)| &self.rows[start..end]).collect()
    }
}

/// A band of at least one row.
fn band(rows: &[AddressRow]) -> HeatBand {
    let row = |row: &AddressRow| HeatRow {
        name: format!("{:#x}, {}", row.addr, bytes(row.bytes)),
        hue: usize::from(row.fetches > row.reads + row.writes),
        cells: row.counts.clone(),
    };
    let sizes = || rows.iter().map(|row| row.bytes);
    let (finest, coarsest) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let spanned = rows.last().map_or(0, AddressRow::last).saturating_sub(rows[0].addr).saturating_add(1);
    let note = match (rows.len(), finest == coarsest) {
        (1, _) => bytes(spanned),
        (_, true) => format!("{}, {} a row", bytes(spanned), bytes(finest)),
        (_, false) => format!("{}, {} to {} a row", bytes(spanned), bytes(finest), bytes(coarsest)),
    };
    HeatBand { name: format!("{:#x}", rows[0].addr), note, rows: rows.iter().map(row).collect() }
}
