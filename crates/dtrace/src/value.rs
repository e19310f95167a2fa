//! Values of aggregations: the cells of each function, and how values are merged and compared.
//!
//! SPEC: dtrace.md#aggregating-functions

use crate::action::Function;
use crate::bytes::ByteOrder;
use crate::describe::{Aggregation, Dialect};
use quipu_model::buckets::{self, Linear, Logarithmic};

/// The value of an aggregation for one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The aggregating function.
    pub function: Function,
    /// Parameters of `lquantize()` and `llquantize()`.
    pub param: u64,
    /// Cells, without the parameters.
    pub cells: Box<[i64]>,
}

impl Value {
    /// The value before any data: extremes for minima and maxima, otherwise zeros.
    pub fn zero(function: Function, param: u64, n_cells: usize) -> Value {
        let initial = match function {
            Function::Min => i64::MAX,
            Function::Max => i64::MIN,
            _ => 0,
        };
        Value { function, param, cells: vec![initial; n_cells].into() }
    }

    /// Reads a value from the bytes of its record.
    pub fn read(aggregation: &Aggregation, bytes: &[u8], order: ByteOrder, dialect: Dialect) -> Value {
        let mut words = bytes.chunks_exact(8).map(|word| order.number(word));
        let has_param = matches!(aggregation.function, Function::Lquantize | Function::Llquantize)
            && dialect != Dialect::Linux;
        let param = if has_param { words.next().unwrap_or(0) } else { aggregation.param };
        Value { function: aggregation.function, param, cells: words.map(|word| word as i64).collect() }
    }

    /// Merges another value of the same function. With `without_carry`, the halves of a sum of squares are added separately,
    /// as the classic consumer does.
    pub fn merge(&mut self, other: &Value, without_carry: bool) {
        if self.cells.len() != other.cells.len() || self.function != other.function {
            return;
        }
        match self.function {
            Function::Min => self.each(other, i64::min),
            Function::Max => self.each(other, i64::max),
            Function::Stddev if !without_carry && self.cells.len() == 4 => {
                let sum = self.squares().wrapping_add(other.squares());
                self.each(other, i64::wrapping_add);
                self.cells[2] = sum as i64; // The lower half.
                self.cells[3] = (sum >> 64) as i64;
            }
            _ => self.each(other, i64::wrapping_add),
        }
    }

    /// Like [`merge`](Value::merge), for a value in its record, whose last words are the cells.
    #[inline]
    pub(crate) fn merge_read(&mut self, bytes: &[u8], order: ByteOrder, without_carry: bool) {
        let n = self.cells.len() * 8;
        let Some(bytes) = bytes.len().checked_sub(n).map(|start| &bytes[start..]) else { return };
        let words = bytes.chunks_exact(8).map(|word| order.number(word) as i64);
        match self.function {
            Function::Min => {
                self.cells.iter_mut().zip(words).for_each(|(cell, more)| *cell = (*cell).min(more))
            }
            Function::Max => {
                self.cells.iter_mut().zip(words).for_each(|(cell, more)| *cell = (*cell).max(more))
            }
            Function::Stddev => {
                let other = Value { function: self.function, param: self.param, cells: words.collect() };
                self.merge(&other, without_carry);
            }
            _ => self.cells.iter_mut().zip(words).for_each(|(cell, more)| *cell = cell.wrapping_add(more)),
        }
    }

    fn each(&mut self, other: &Value, combine: fn(i64, i64) -> i64) {
        for (cell, more) in self.cells.iter_mut().zip(&other.cells) {
            *cell = combine(*cell, *more);
        }
    }

    /// Sets all cells to zero.
    pub fn clear(&mut self) {
        self.cells.fill(0);
    }

    /// Adds a value `by` times, as the kernel does.
    pub fn update(&mut self, value: i64, by: i64) {
        match self.function {
            Function::Count => self.add(0, 1),
            Function::Sum => self.add(0, value),
            Function::Min => self.cells[0] = self.cells[0].min(value),
            Function::Max => self.cells[0] = self.cells[0].max(value),
            Function::Avg => {
                self.add(0, 1);
                self.add(1, value);
            }
            Function::Stddev => {
                self.add(0, 1);
                self.add(1, value);
                let squares = self.squares().wrapping_add(u128::from(value.unsigned_abs()).pow(2));
                self.cells[2] = squares as i64; // The lower half.
                self.cells[3] = (squares >> 64) as i64;
            }
            Function::Quantize => self.add(buckets::quantize_cell(value), by),
            Function::Lquantize => self.add(Linear::of(self.param).cell(value), by),
            Function::Llquantize => {
                let position = Logarithmic::classic(self.param).cell(value);
                self.add(position, by);
            }
        }
    }

    fn add(&mut self, position: usize, by: i64) {
        if let Some(cell) = self.cells.get_mut(position) {
            *cell = cell.wrapping_add(by);
        }
    }

    /// The sum of squares that `stddev()` keeps in two cells.
    fn squares(&self) -> u128 {
        u128::from(self.cells[2] as u64) | u128::from(self.cells[3] as u64) << 64
    }

    fn cell(&self, position: usize) -> i64 {
        self.cells.get(position).copied().unwrap_or(0)
    }

    /// The number that is printed, divided by the normalization `normal`.
    pub fn number(&self, normal: u64) -> i64 {
        let normal = normal.max(1);
        match self.function {
            Function::Count => (self.cell(0) as u64 / normal) as i64,
            Function::Avg => match self.cell(0) {
                0 => 0,
                n => divide(divide(self.cell(1), normal), n as u64),
            },
            Function::Stddev => self.deviation(normal) as i64, // The root of a 128-bit number fits in 64 bits.
            _ => divide(self.cell(0), normal),
        }
    }

    /// The average as the classic consumer computes it for conversions, which is unsigned.
    pub fn unsigned_average(&self, normal: u64) -> i64 {
        match self.cell(0) as u64 {
            0 => 0,
            n => (self.cell(1) as u64 / normal.max(1) / n) as i64,
        }
    }

    fn deviation(&self, normal: u64) -> u64 {
        let n = self.cell(0) as u64;
        if n == 0 || self.cells.len() < 4 {
            return 0;
        }
        let normal = u128::from(normal);
        let of_squares = self.squares() / normal / normal / u128::from(n);
        let average = divide(divide(self.cell(1), normal as u64), n).unsigned_abs(); // The result fits, as it comes from 64 bits.
        let square = u128::from(average).pow(2);
        root(of_squares.wrapping_sub(square))
    }

    /// The sum of all cells, with wrap-around.
    pub fn sum(&self) -> i64 {
        self.cells.iter().fold(0, |sum: i64, cell| sum.wrapping_add(*cell))
    }

    /// The lower bound of each cell of a histogram.
    pub(crate) fn bounds(&self, dialect: Dialect) -> Vec<i64> {
        match self.function {
            Function::Quantize => (0..self.cells.len()).map(buckets::quantize_value).collect(),
            Function::Lquantize => {
                let linear = Linear::of(self.param);
                // The cell below the first bound gets the bound one step lower.
                (0..self.cells.len()).map(|cell| linear.bound(cell)).collect()
            }
            Function::Llquantize => Logarithmic::of(self.param, is_linux(dialect)).weights(is_linux(dialect)),
            _ => Vec::new(),
        }
    }

    /// The rank by which values of one function are ordered.
    // PERF: sorting computes each rank once; for a histogram it is made from the weights of the cells.
    pub fn rank(&self, dialect: Dialect) -> Rank {
        match self.function {
            Function::Count | Function::Sum | Function::Min | Function::Max => (self.cell(0).into(), 0),
            Function::Avg => (average_or_zero(self).into(), 0),
            Function::Stddev => (self.deviation(1).into(), 0),
            Function::Quantize => {
                let cells = self.cells.iter().enumerate();
                let weight = weighted(cells.map(|(at, cell)| (*cell, buckets::quantize_value(at))));
                (weight, self.cell(buckets::ZERO_CELL))
            }
            Function::Lquantize => {
                let linear = Linear::of(self.param);
                let weight =
                    weighted(self.cells.iter().enumerate().map(|(at, cell)| (*cell, linear.weight(at))));
                (weight, linear.zero_cell().map_or(0, |at| self.cell(at)))
            }
            Function::Llquantize => {
                let is_linux = is_linux(dialect);
                let logarithmic = Logarithmic::of(self.param, is_linux);
                let weights = logarithmic.weights(is_linux);
                let weight = weighted(self.cells.iter().zip(weights).map(|(cell, weight)| (*cell, weight)));
                (weight, self.cell(logarithmic.underflow_cell(is_linux)))
            }
        }
    }
}

/// Whether the dialect counts negative numbers in `llquantize()`.
fn is_linux(dialect: Dialect) -> bool {
    dialect == Dialect::Linux
}

/// Rank of a value: the first number decides, then the second.
pub type Rank = (i128, i64);

/// Divides a signed number by an unsigned one; a divisor of zero counts as one.
fn divide(value: i64, by: u64) -> i64 {
    i64::try_from(i128::from(value) / i128::from(by.max(1))).unwrap_or(0)
}

fn average_or_zero(value: &Value) -> i64 {
    match value.cell(0) {
        0 => 0,
        n => divide(value.cell(1), n as u64),
    }
}

/// The sum of cells multiplied by their weights.
fn weighted(cells: impl Iterator<Item = (i64, i64)>) -> i128 {
    cells.fold(0, |sum: i128, (cell, weight)| sum.saturating_add(i128::from(cell) * i128::from(weight)))
}

/// The integer square root, rounded down.
fn root(value: u128) -> u64 {
    let (mut low, mut high) = (0u128, 1u128 << 64);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if middle * middle <= value {
            low = middle;
        } else {
            high = middle;
        }
    }
    low as u64 // Below 2 to the 64th.
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_carry_from_one_half_into_the_other() {
        let mut a = Value::zero(Function::Stddev, 0, 4);
        a.cells = [1, 0, -1, 0].into();
        let mut b = a.clone();
        b.merge(&a, false);
        assert_eq!(*b.cells, [2, 0, -2, 1]);
        a.merge(&a.clone(), true);
        assert_eq!(*a.cells, [2, 0, -2, 0]);
    }

    #[test]
    fn numbers_are_computed_from_cells() {
        let mut avg = Value::zero(Function::Avg, 0, 2);
        [1, 2, -10, -8].iter().for_each(|v| avg.update(*v, 1));
        assert_eq!(avg.number(1), -3);
        assert_eq!(avg.unsigned_average(1), ((-15i64) as u64 / 4) as i64);
        let mut dev = Value::zero(Function::Stddev, 0, 4);
        [1, 100, -50].iter().for_each(|v| dev.update(*v, 1));
        assert_eq!(dev.number(1), 62);
        assert_eq!(root(u128::MAX), u64::MAX);
        assert_eq!(root(35), 5);
    }
}
