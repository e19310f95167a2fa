//! Histogram cells of DTrace aggregations: which cell counts a value, and which values a cell covers.
//!
//! SPEC: dtrace.md#aggregating-functions

/// Number of cells of `quantize()`.
pub const QUANTIZE_CELLS: usize = 127;

/// The cell of `quantize()` for the value 0.
pub const ZERO_CELL: usize = 63;

/// The value that labels a cell of `quantize()`: the bound of its range that is nearer to zero.
pub fn quantize_value(cell: usize) -> i64 {
    match cell {
        0..ZERO_CELL => -(1i64 << (62 - cell)),
        ZERO_CELL => 0,
        _ => 1i64 << (cell - 64).min(62),
    }
}

/// The cell of `quantize()` that counts a value.
pub fn quantize_cell(value: i64) -> usize {
    match value {
        0 => ZERO_CELL,
        1.. => 64 + value.ilog2() as usize,
        _ => 62 - (value.unsigned_abs().ilog2() as usize).min(62),
    }
}

/// Parameters of `lquantize()`, which has cells of equal width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linear {
    /// The lower bound of the second cell.
    pub base: i32,
    /// Width of a cell.
    pub step: u16,
    /// Number of cells between the lowest and the highest bound.
    pub levels: u16,
}

impl Linear {
    /// Unpacks the parameters from the word in which an aggregation stores them.
    pub fn of(param: u64) -> Linear {
        // Each truncation cuts off the higher fields.
        Linear { base: param as u32 as i32, levels: (param >> 32) as u16, step: (param >> 48) as u16 }
    }

    /// Packs the parameters into one word.
    pub fn to_word(self) -> u64 {
        u64::from(self.base as u32) | u64::from(self.levels) << 32 | u64::from(self.step) << 48
    }

    /// Number of cells, including those for values below and above all bounds.
    pub fn n_cells(self) -> usize {
        usize::from(self.levels) + 2
    }

    /// The cell that counts a value.
    pub fn cell(self, value: i64) -> usize {
        let value = i64::from(value as i32); // The kernel takes the low 32 bits.
        let from_base = value - i64::from(self.base);
        if from_base < 0 {
            return 0;
        }
        let level = from_base / i64::from(self.step.max(1));
        1 + usize::try_from(level).unwrap_or(usize::MAX).min(usize::from(self.levels))
    }

    /// The lower bound of a cell; cell 1 begins at `base`.
    pub fn bound(self, cell: usize) -> i64 {
        i64::from(self.base) + (cell as i64 - 1) * i64::from(self.step) // Cells are few.
    }

    /// The value by which a cell counts when histograms are compared.
    pub fn weight(self, cell: usize) -> i64 {
        match cell {
            0 => i64::from(self.base) - 1,
            _ if cell > usize::from(self.levels) => self.bound(cell) + 1,
            _ => self.bound(cell),
        }
    }

    /// The cell whose lower bound is 0, if there is one.
    pub fn zero_cell(self) -> Option<usize> {
        (1..=usize::from(self.levels)).find(|cell| self.bound(*cell) == 0)
    }
}

/// Parameters of `llquantize()`, which has cells of equal width within each power of `factor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the manual")]
pub struct Logarithmic {
    pub factor: u16,
    pub low: u16,
    pub high: u16,
    pub steps: u16,
}

/// Parameters that make this many cells or more are not sound.
const MAX_CELLS: usize = 1 << 20;

impl Logarithmic {
    /// Unpacks the parameters. The order of the fields in the word depends on the dialect: Linux or classic.
    pub fn of(param: u64, is_linux: bool) -> Logarithmic {
        if !is_linux {
            return Logarithmic::classic(param);
        }
        let field = |shift: u32| (param >> shift) as u16; // The truncation cuts off the higher fields.
        Logarithmic { steps: field(48), high: field(32), low: field(16), factor: field(0) }
    }

    /// Unpacks the parameters in the order of the classic dialects.
    pub fn classic(param: u64) -> Logarithmic {
        let field = |shift: u32| (param >> shift) as u16; // The truncation cuts off the higher fields.
        Logarithmic { factor: field(48), low: field(32), high: field(16), steps: field(0) }
    }

    /// Packs the parameters into a word in the order of the classic dialects.
    pub fn to_word(self) -> u64 {
        u64::from(self.factor) << 48
            | u64::from(self.low) << 32
            | u64::from(self.high) << 16
            | u64::from(self.steps)
    }

    /// True if the kernel would accept these parameters.
    pub fn is_sound(self) -> bool {
        let (factor, steps) = (u64::from(self.factor), u64::from(self.steps));
        if factor < 2 || self.low >= self.high || steps < factor || !steps.is_multiple_of(factor) {
            return false;
        }
        let mut power = factor;
        while power < steps {
            power *= factor;
        }
        let orders = usize::from(self.high - self.low) + 1;
        power.is_multiple_of(steps)
            && factor.checked_pow(u32::from(self.high) + 1).is_some_and(|end| i64::try_from(end).is_ok())
            && orders.saturating_mul(usize::from(self.steps)) < MAX_CELLS
    }

    fn power(self, exponent: u16) -> i64 {
        let power = i64::from(self.factor).checked_pow(u32::from(exponent));
        power.unwrap_or(i64::MAX)
    }

    /// The lower bound of the second cell; smaller values count in the first.
    pub fn start(self) -> i64 {
        self.power(self.low)
    }

    /// The lower bounds of all cells but the first; the last one is that of the overflow cell.
    pub fn bounds(self) -> Vec<i64> {
        let mut bounds = Vec::new();
        if !self.is_sound() {
            return bounds;
        }
        for order in self.low..=self.high {
            let (this, next) = (self.power(order), self.power(order + 1));
            let step = (next / i64::from(self.steps)).max(1);
            let mut bound = this;
            while bound < next {
                bounds.push(bound);
                bound += step;
            }
        }
        bounds.push(self.power(self.high + 1));
        bounds
    }

    /// The cell that counts a value in the classic dialects.
    pub fn cell(self, value: i64) -> usize {
        self.bounds().partition_point(|bound| *bound <= value)
    }

    /// Number of cells in the classic dialects.
    pub fn n_cells(self) -> usize {
        self.bounds().len() + 1
    }

    /// Number of cells that Linux has for each order of magnitude, whether or not values exist for all of them.
    fn cells_of_order(self) -> usize {
        usize::from(self.steps - self.steps / self.factor.max(1))
    }

    /// Number of cells on Linux, including those for negative numbers.
    pub fn n_signed_cells(self) -> usize {
        if !self.is_sound() {
            return 0;
        }
        2 * (usize::from(self.high - self.low) + 1) * self.cells_of_order() + 3
    }

    /// The cell for values below the lowest bound: on Linux by magnitude, in the classic dialects including all negative
    /// ones.
    pub fn underflow_cell(self, is_linux: bool) -> usize {
        if is_linux { self.n_signed_cells() / 2 } else { 0 }
    }

    /// The cells that Linux uses for positive values: the distance of each from the underflow cell, and its lower bound.
    pub fn signed_bounds(self) -> Vec<(usize, i64)> {
        let mut all = Vec::new();
        if !self.is_sound() {
            return all;
        }
        let steps = i128::from(self.steps);
        for order in self.low..=self.high {
            let (this, next) = (self.power(order), self.power(order + 1));
            let step = (next / i64::from(self.steps)).max(1);
            let first = usize::from(order - self.low) * self.cells_of_order();
            let mut bound = this;
            while bound < next {
                let within = i128::from(bound) * steps / i128::from(next) - steps / i128::from(self.factor);
                all.push((1 + first + usize::try_from(within).unwrap_or(0), bound));
                bound += step;
            }
        }
        all
    }

    /// The value by which each cell counts when histograms are compared.
    pub fn weights(self, is_linux: bool) -> Vec<i64> {
        if !is_linux {
            let mut weights = vec![self.start() - 1];
            weights.extend(self.bounds());
            return weights;
        }
        let zero = self.underflow_cell(is_linux);
        let mut weights = vec![0; self.n_signed_cells()];
        let end = self.power(self.high.saturating_add(1));
        if let [first, .., last] = weights.as_mut_slice() {
            (*first, *last) = (-end, end);
        }
        for (distance, bound) in self.signed_bounds() {
            weights[zero + distance] = bound;
            weights[zero - distance] = -bound;
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_find_their_cells() {
        let cells = [0, 1, 2, 3, -1, -2, -3, i64::MIN, i64::MAX].map(quantize_cell);
        assert_eq!(cells, [63, 64, 65, 65, 62, 61, 61, 0, 126]);
        for cell in 0..QUANTIZE_CELLS {
            assert_eq!(quantize_cell(quantize_value(cell)), cell);
        }
        let linear = Linear { base: -20, step: 5, levels: 8 };
        assert_eq!(Linear::of(linear.to_word()), linear);
        assert_eq!([-21, -20, 19, 20, 1000].map(|value| linear.cell(value)), [0, 1, 8, 9, 9]);
        let ll = Logarithmic { factor: 10, low: 0, high: 3, steps: 10 };
        assert_eq!(Logarithmic::classic(ll.to_word()), ll);
        assert_eq!([0, 1, 9, 10, 99, 9999, 10_000].map(|value| ll.cell(value)), [0, 1, 9, 10, 18, 36, 37]);
        assert_eq!(ll.n_cells(), 38);
    }

    #[test]
    fn parameters_that_the_kernel_refuses_have_no_cells() {
        for (factor, low, high, steps) in
            [(1, 0, 3, 10), (10, 3, 3, 10), (10, 0, 3, 5), (10, 0, 3, 30), (10, 0, 60, 10)]
        {
            let ll = Logarithmic { factor, low, high, steps };
            assert!(!ll.is_sound() && ll.bounds().is_empty(), "{ll:?}");
        }
    }
}
