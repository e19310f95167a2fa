//! Counts by address and time in a small grid that becomes coarser as more addresses are touched.
//!
//! Rows are aligned blocks of addresses of 2^k bytes, and only touched blocks have one. Programs use memory in a few distant
//! places (code, heap, stacks), so each place has its own `k`: the address space is divided into aligned *regions* of one
//! size, and each region has an equal part of the rows.
//!
//! Both sizes follow from the set of touched addresses, not from their order: the size of a region is the smallest with
//! which at most [`MAX_REGIONS`] regions are touched, and `k` is the smallest with which a region needs no more than its
//! part of the rows. Further accesses can only increase either. So grids of parts of a trace can be merged to exactly the
//! grid of the whole.

use crate::axis::{Axis, Remap};

/// Maximum number of columns.
pub(super) const COLUMNS: usize = 128;

/// Maximum number of rows, and of regions. Each region may have at least [`MIN_PART`] rows.
const MAX_ROWS: usize = 256;
const MAX_REGIONS: usize = 32;
const MIN_PART: usize = MAX_ROWS / MAX_REGIONS;

/// The smallest block is a cache line, the smallest region a megabyte.
const MIN_BLOCK: u32 = 6;
const MIN_REGION: u32 = 20;

/// Slots that cache the rows of the latest lines.
const SLOTS: usize = 2048;

/// Kinds of accesses: fetches, reads and writes.
pub(super) const FETCHES: usize = 0;
pub(super) const READS: usize = 1;
pub(super) const WRITES: usize = 2;

/// A block of addresses with its counts.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The first address, a multiple of the block's size.
    pub(super) start: u64,
    /// The block's size, as a power of two.
    pub(super) block: u32,
    /// Accesses of each kind.
    pub(super) sorts: [u64; 3],
    /// Accesses in each column.
    pub(super) cells: Box<[u64; COLUMNS]>,
}

impl Row {
    fn new(addr: u64, block: u32) -> Row {
        Row { start: floor(addr, block), block, sorts: [0; 3], cells: Box::new([0; COLUMNS]) }
    }

    fn add(&mut self, other: &Row) {
        self.sorts.iter_mut().zip(other.sorts).for_each(|(sum, more)| *sum += more);
        self.cells.iter_mut().zip(*other.cells).for_each(|(sum, more)| *sum += more);
    }
}

/// `addr` with its lowest `bits` cleared.
fn floor(addr: u64, bits: u32) -> u64 {
    addr.checked_shr(bits).map_or(0, |block| block << bits)
}

/// A line and its row. A free slot holds a line of another slot.
#[derive(Clone, Copy, Debug)]
struct Slot {
    line: u64,
    row: u32,
}

/// Counts by address and time.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    axis: Axis,
    /// The column of current accesses.
    now: usize,
    rows: Vec<Row>,
    /// Indexes of `rows` by ascending address.
    order: Vec<u32>,
    /// The size of a region, as a power of two.
    region: u32,
    slots: Vec<Slot>,
}

impl Default for Grid {
    fn default() -> Grid {
        let mut grid = Grid {
            axis: Axis::up_to(COLUMNS as u64),
            now: 0,
            rows: Vec::new(),
            order: Vec::new(),
            region: MIN_REGION,
            slots: vec![Slot { line: 0, row: 0 }; SLOTS],
        };
        grid.forget_slots();
        grid
    }
}

impl Grid {
    /// Extends the axis to these positions.
    pub(super) fn cover(&mut self, first: u64, last: u64) {
        if let Some(remap) = self.axis.cover(first, last) {
            remap_cells(&mut self.rows, remap);
        }
    }

    /// Sets the position of the following accesses, which must be covered.
    pub(super) fn go_to(&mut self, position: u64) {
        self.now = self.axis.index(position) & (COLUMNS - 1);
    }

    /// True if both positions are in one column.
    pub(super) fn is_one_column(&self, first: u64, last: u64) -> bool {
        self.axis.index(first) == self.axis.index(last)
    }

    pub(super) fn axis(&self) -> Axis {
        self.axis
    }

    /// Counts an access at the current position.
    #[inline]
    pub(super) fn touch(&mut self, addr: u64, sort: usize) {
        let line = addr >> MIN_BLOCK;
        let slot = self.slots[line as usize & (SLOTS - 1)]; // Only the low bits count.
        let row = if slot.line == line { slot.row } else { self.find(addr) };
        let row = &mut self.rows[row as usize];
        row.cells[self.now] += 1;
        row.sorts[sort] += 1;
    }

    /// The row of an address, which is created if it is missing, and cached.
    /// PERF: out of line, so that the slots above fit into the loop over accesses; bench `heatmap`.
    #[inline(never)]
    fn find(&mut self, addr: u64) -> u32 {
        let row = match self.known(addr) {
            Some(row) => row,
            None => {
                self.insert(addr);
                // Whatever the insertion did to other rows, this one exists now.
                self.known(addr).unwrap_or_default()
            }
        };
        let line = addr >> MIN_BLOCK;
        self.slots[line as usize & (SLOTS - 1)] = Slot { line, row };
        row
    }

    fn known(&self, addr: u64) -> Option<u32> {
        let n_before = self.order.partition_point(|&row| self.rows[row as usize].start <= addr);
        let row = *self.order.get(n_before.checked_sub(1)?)?;
        let Row { start, block, .. } = self.rows[row as usize];
        (floor(addr, block) == start).then_some(row)
    }

    fn insert(&mut self, addr: u64) {
        let region = floor(addr, self.region);
        let n_before = self.order.partition_point(|&row| self.rows[row as usize].start <= addr);
        // All rows of a region have blocks of one size, so a neighbour in the region has it.
        let neighbours = [n_before.checked_sub(1), Some(n_before)].into_iter().flatten();
        let block = neighbours
            .filter_map(|place| self.order.get(place))
            .map(|&row| &self.rows[row as usize])
            .find(|row| floor(row.start, self.region) == region)
            .map_or(MIN_BLOCK, |row| row.block);
        self.order.insert(n_before, self.rows.len() as u32); // At most a few hundred.
        self.rows.push(Row::new(addr, block));
        if !self.is_settled() {
            self.settle();
        }
    }

    /// Lengths of the runs of rows in one region.
    fn regions(&self) -> impl Iterator<Item = usize> {
        let region = |row: &u32| floor(self.rows[*row as usize].start, self.region);
        self.order.chunk_by(move |a, b| region(a) == region(b)).map(<[u32]>::len)
    }

    fn is_settled(&self) -> bool {
        let n_regions = self.regions().count();
        let part = part(n_regions, self.region);
        n_regions <= MAX_REGIONS && self.regions().all(|n_rows| n_rows <= part)
    }

    /// Enlarges regions and blocks to the required sizes.
    fn settle(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(|row| row.start);
        let n_regions =
            |bits: u32| rows.chunk_by(|a, b| floor(a.start, bits) == floor(b.start, bits)).count();
        while n_regions(self.region) > MAX_REGIONS {
            self.region += 1;
        }
        let part = part(n_regions(self.region), self.region);
        for rows in rows.chunk_by(|a, b| floor(a.start, self.region) == floor(b.start, self.region)) {
            let mut block = rows.iter().map(|row| row.block).max().unwrap_or(MIN_BLOCK);
            let n_blocks =
                |bits: u32| rows.chunk_by(|a, b| floor(a.start, bits) == floor(b.start, bits)).count();
            while n_blocks(block) > part {
                block += 1;
            }
            for rows in rows.chunk_by(|a, b| floor(a.start, block) == floor(b.start, block)) {
                let mut sum = Row::new(rows[0].start, block);
                rows.iter().for_each(|row| sum.add(row));
                self.rows.push(sum);
            }
        }
        self.order = (0..self.rows.len() as u32).collect(); // At most a few hundred.
        self.forget_slots();
    }

    fn forget_slots(&mut self) {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.line = !(i as u64); // Its low bits differ from `i`: no line of this slot.
        }
    }

    /// Adds the counts of `other`.
    pub(super) fn merge(&mut self, mut other: Grid) {
        if other.axis.ends().is_none() {
            return;
        }
        let joined = self.axis.joined(other.axis);
        remap_cells(&mut self.rows, self.axis.remap_to(joined));
        remap_cells(&mut other.rows, other.axis.remap_to(joined));
        self.axis = joined;
        self.region = self.region.max(other.region);
        self.rows.append(&mut other.rows);
        self.settle();
    }

    /// The rows by ascending address.
    pub(super) fn into_rows(self) -> Vec<Row> {
        let mut rows = self.rows;
        rows.sort_by_key(|row| row.start);
        rows
    }
}

/// Maximum number of rows of each region.
fn part(n_regions: usize, region: u32) -> usize {
    // Once regions had to grow, their number is, or was, at the maximum.
    if region == MIN_REGION { MAX_ROWS / n_regions.clamp(1, MAX_REGIONS) } else { MIN_PART }
}

fn remap_cells(rows: &mut [Row], remap: Remap) {
    for row in rows {
        let old = std::mem::replace(&mut *row.cells, [0; COLUMNS]);
        for (column, count) in old.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            row.cells[remap.index(column)] += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_testkit::Rng;

    fn grid_of(addrs: &[u64]) -> Grid {
        let mut grid = Grid::default();
        grid.cover(0, 0);
        addrs.iter().for_each(|addr| grid.touch(*addr, READS));
        grid
    }

    /// Start, block size and count of each row.
    fn shape(grid: Grid) -> Vec<(u64, u32, u64)> {
        grid.into_rows().iter().map(|row| (row.start, row.block, row.cells[0])).collect()
    }

    #[test]
    fn few_lines_have_a_row_each() {
        assert_eq!(shape(grid_of(&[0x1008, 0x1000, 0x7fff_0040])), [(0x1000, 6, 2), (0x7fff_0040, 6, 1)]);
    }

    #[test]
    fn a_large_place_leaves_small_ones_their_detail() {
        let heap = (0..1 << 20).step_by(64).map(|offset| 0x5000_0000 + offset);
        let all: Vec<u64> = heap.chain([0x40_1000, 0x40_1040, 0x7fff_0000]).collect();
        let shape = shape(grid_of(&all));
        assert_eq!(shape[..2], [(0x40_1000, 6, 1), (0x40_1040, 6, 1)]);
        assert_eq!(shape.last(), Some(&(0x7fff_0000, 6, 1)));
        // Three regions: 85 rows each, and a megabyte needs 64 of 16 KiB.
        assert_eq!(shape.len(), 3 + 64);
        assert_eq!(shape[2], (0x5000_0000, 14, 256));
    }

    #[test]
    fn rows_stay_few_whatever_is_touched_and_no_access_is_lost() {
        let mut rng = Rng::new(7);
        let mut grid = grid_of(&[]);
        for n in 1..20_000u64 {
            grid.touch(rng.next() >> (n % 64), READS);
            if n % 997 == 0 {
                assert!(grid.rows.len() <= MAX_ROWS, "{}", grid.rows.len());
                assert_eq!(grid.rows.iter().map(|row| row.cells[0]).sum::<u64>(), n);
            }
        }
        for addr in [0, u64::MAX] {
            grid.touch(addr, WRITES);
        }
        assert!(grid.rows.len() <= MAX_ROWS);
    }

    #[test]
    fn the_order_of_touching_and_merging_does_not_matter() {
        let mut rng = Rng::new(1);
        for round in 0..60u32 {
            let spread = 10 + round;
            let mut addrs: Vec<u64> =
                (0..500).map(|_| (rng.below(4) << 40) + (rng.next() >> (64 - spread.min(63)))).collect();
            let whole = shape(grid_of(&addrs));
            let mut merged = grid_of(&addrs[..13]);
            merged.merge(grid_of(&addrs[13..260]));
            merged.merge(grid_of(&addrs[260..]));
            assert_eq!(shape(merged), whole, "round {round}");
            addrs.reverse();
            let mut merged = grid_of(&addrs[400..]);
            merged.merge(grid_of(&addrs[..400]));
            assert_eq!(shape(merged), whole, "round {round}, backwards");
        }
    }
}
