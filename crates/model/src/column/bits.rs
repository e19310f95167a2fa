//! A bitmap with one bit for each row.

use std::ops::Range;

/// A bitmap that says for each row whether it has a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// Number of bits.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits, 64 to a word, the first in the lowest position; those past the end are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bit of a row; false past the end.
    pub fn get(&self, row: usize) -> bool {
        row < self.len && self.words.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Number of bits that are set.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Appends a bit.
    pub fn push(&mut self, bit: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(bit) << (self.len % 64);
        }
        self.len += 1;
    }

    /// Appends the same bit `times` times.
    pub fn push_all(&mut self, bit: bool, times: usize) {
        let mut left = times;
        // Single bits up to the next word boundary, then whole words.
        while left > 0 && (!self.len.is_multiple_of(64) || left < 64) {
            self.push(bit);
            left -= 1;
        }
        self.words.extend(std::iter::repeat_n(if bit { u64::MAX } else { 0 }, left / 64));
        self.len += left / 64 * 64;
        (0..left % 64).for_each(|_| self.push(bit));
    }

    /// Appends bits of another bitmap; bits past its end are false.
    pub fn extend_rows(&mut self, from: &Bits, rows: Range<usize>) {
        rows.for_each(|row| self.push(from.get(row)));
    }

    /// Keeps the first `len` bits.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.words.truncate(len.div_ceil(64));
            if let Some(word) = self.words.last_mut().filter(|_| !len.is_multiple_of(64)) {
                *word &= (1 << (len % 64)) - 1;
            }
            self.len = len;
        }
    }

    /// Removes all bits but keeps the buffer.
    pub fn clear(&mut self) {
        self.words.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_kept_across_words() {
        for n in [0, 1, 63, 64, 65, 200] {
            let mut bits = Bits::default();
            bits.push(true);
            bits.push_all(false, n);
            bits.push_all(true, n);
            assert_eq!((bits.len(), bits.count_ones()), (1 + 2 * n, 1 + n));
            assert!(bits.get(0) && !bits.get(1 + 2 * n));
            assert!((1..=n).all(|row| !bits.get(row)) && (n + 1..=2 * n).all(|row| bits.get(row)));
            let mut copy = Bits::default();
            copy.extend_rows(&bits, 0..bits.len());
            assert_eq!(copy, bits);
            copy.truncate(n);
            copy.push(true);
            assert_eq!(copy.count_ones(), 1 + usize::from(n > 0));
        }
    }
}
