//! Sums without loss: the result does not depend on the order or the grouping of the summands.

/// A sum of floating-point numbers, as numbers whose bits do not overlap (Shewchuk), rounded once at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Exact {
    parts: Vec<f64>,
    /// The sum of the infinite summands and NaNs.
    special: f64,
}

impl Exact {
    pub(super) fn add(&mut self, mut number: f64) {
        if !number.is_finite() {
            self.special += number;
            return;
        }
        let mut kept = 0;
        for at in 0..self.parts.len() {
            let mut part = self.parts[at];
            if number.abs() < part.abs() {
                std::mem::swap(&mut number, &mut part);
            }
            let high = number + part;
            let low = part - (high - number);
            if low != 0.0 {
                self.parts[kept] = low;
                kept += 1;
            }
            number = high;
        }
        self.parts.truncate(kept);
        if number.is_finite() {
            self.parts.push(number);
        } else {
            self.special += number;
        }
    }

    pub(super) fn merge(&mut self, other: &Exact) {
        other.parts.iter().for_each(|part| self.add(*part));
        self.special += other.special;
    }

    /// The sum, rounded to the nearest number.
    pub(super) fn value(&self) -> f64 {
        if self.special != 0.0 || self.special.is_nan() {
            return self.special;
        }
        let mut parts = self.parts.iter().rev().copied();
        let Some(mut high) = parts.next() else { return 0.0 };
        let mut low = 0.0;
        for part in parts.by_ref() {
            let sum = high + part;
            low = part - (sum - high);
            high = sum;
            if low != 0.0 {
                break;
            }
        }
        // A remainder of exactly half a unit in the last place is rounded by the next part.
        if let Some(next) = parts.next()
            && ((low < 0.0 && next < 0.0) || (low > 0.0 && next > 0.0))
        {
            let twice = low * 2.0;
            let sum = high + twice;
            if twice == sum - high {
                return sum;
            }
        }
        high
    }
}

/// An unsigned 256-bit integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wide {
    high: u128,
    low: u128,
}

impl Wide {
    /// The product of two numbers.
    pub(super) fn product(a: u128, b: u128) -> Wide {
        let halves = |number: u128| (number >> 64, number & u128::from(u64::MAX));
        let ((a_high, a_low), (b_high, b_low)) = (halves(a), halves(b));
        let low = a_low * b_low;
        let ((one_high, one_low), (other_high, other_low)) = (halves(a_low * b_high), halves(a_high * b_low));
        // Neither sum overflows: three 64-bit numbers fit into 128 bits, and the product into 256.
        let middle = (low >> 64) + one_low + other_low;
        let high = a_high * b_high + one_high + other_high + (middle >> 64);
        Wide { high, low: (low & u128::from(u64::MAX)) | (middle << 64) }
    }

    /// Adds another number; there is room for 2^127 squares of 64-bit numbers.
    pub(super) fn add(&mut self, other: Wide) {
        let (low, carry) = self.low.overflowing_add(other.low);
        self.low = low;
        self.high = self.high.wrapping_add(other.high).wrapping_add(u128::from(carry));
    }

    /// The product with a number, modulo 2^256.
    pub(super) fn times(self, by: u64) -> Wide {
        let mut product = Wide::product(self.low, by.into());
        product.high = product.high.wrapping_add(self.high.wrapping_mul(by.into()));
        product
    }

    /// The difference from another number; 0 if that is larger.
    pub(super) fn minus(self, other: Wide) -> Wide {
        if self <= other {
            return Wide::default();
        }
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Wide { high: self.high - other.high - u128::from(borrow), low }
    }

    /// An approximation as a floating-point number.
    pub(super) fn to_f64(self) -> f64 {
        self.high as f64 * 2f64.powi(128) + self.low as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_depend_on_their_order() {
        let numbers = [1e100, 1.0, -1e100, 1e-9, 0.1, 0.2, 0.3, 1e17, -1e17];
        let sum = |numbers: &mut dyn Iterator<Item = f64>| {
            let mut sum = Exact::default();
            numbers.for_each(|number| sum.add(number));
            sum
        };
        let all = sum(&mut numbers.into_iter());
        assert_eq!(all.value(), 1.600000001);
        assert_eq!(sum(&mut numbers.into_iter().rev()).value(), all.value());
        let mut halves = sum(&mut numbers.into_iter().take(4));
        halves.merge(&sum(&mut numbers.into_iter().skip(4)));
        assert_eq!(halves.value(), all.value());
        assert_eq!(sum(&mut [f64::INFINITY, 1.0].into_iter()).value(), f64::INFINITY);
        assert_eq!(sum(&mut [0.1; 10].into_iter()).value(), 1.0);
    }

    #[test]
    fn products_have_256_bits() {
        let most = Wide::product(u128::MAX, u128::MAX);
        assert_eq!(most, Wide { high: u128::MAX - 1, low: 1 });
        assert_eq!(Wide::product(1 << 100, 1 << 100), Wide { high: 1 << 72, low: 0 });
        let mut sum = Wide { high: 0, low: u128::MAX };
        sum.add(Wide { high: 0, low: 1 });
        assert_eq!(sum, Wide { high: 1, low: 0 });
        assert_eq!(sum.minus(Wide { high: 0, low: 1 }), Wide { high: 0, low: u128::MAX });
        assert_eq!(sum.times(3), Wide { high: 3, low: 0 });
        assert_eq!(Wide { high: 1, low: 0 }.to_f64(), 2f64.powi(128));
    }
}
