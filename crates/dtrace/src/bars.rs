//! Bars for counts, in ASCII and in Unicode block characters.

use crate::put;

/// Width of a bar in columns.
const WIDTH: u64 = 40;

/// The scale from counts to bars of one histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bars {
    /// The count at full width is `total / part`. If zoomed, the tallest bar has 95 % of the width.
    total: u128,
    part: u128,
    has_positive: bool,
    has_negative: bool,
    is_utf8: bool,
}

impl Bars {
    /// Computes the scale from all counts to show.
    pub(crate) fn of(counts: impl Iterator<Item = i64>, is_zoomed: bool, is_utf8: bool) -> Bars {
        let mut bars = Bars { total: 0, part: 1, has_positive: false, has_negative: false, is_utf8 };
        for count in counts {
            let size = u128::from(count.unsigned_abs());
            bars.total = if is_zoomed { bars.total.max(size) } else { bars.total + size };
            bars.has_positive |= count > 0;
            bars.has_negative |= count < 0;
        }
        if is_zoomed {
            // The tallest bar gets 95 % of the width.
            bars.total *= 100;
            bars.part = 95;
        }
        bars
    }

    /// The scale for bars of entries, for which the consumer rounds the total down.
    pub(crate) fn of_entries(counts: impl Iterator<Item = i64>, is_zoomed: bool, is_utf8: bool) -> Bars {
        let mut bars = Bars::of(counts, is_zoomed, is_utf8);
        if is_zoomed {
            bars.total /= bars.part;
            bars.part = 1;
        }
        bars
    }

    /// The columns of a bar for `size` if the full width is `width`, rounded.
    fn columns(&self, size: u64, width: u64) -> usize {
        if self.total == 0 {
            return 0;
        }
        let scaled = u128::from(size) * self.part;
        let columns = (2 * scaled * u128::from(width) + self.total) / (2 * self.total);
        columns.min(u128::from(width)) as usize // At most the width.
    }

    /// Appends a bar and `shown`, the number after it.
    pub(crate) fn put(&self, out: &mut Vec<u8>, count: i64, shown: i64) {
        let size = count.unsigned_abs();
        match (self.has_positive, self.has_negative) {
            (_, false) if self.is_utf8 => self.blocks(out, size),
            (true, false) => {
                let n = self.columns(size, WIDTH);
                out.push(b'|');
                put::fill(out, b'@', n);
                put::fill(out, b' ', WIDTH as usize - n);
            }
            (false, true) => {
                let n = self.columns(size, WIDTH);
                put::fill(out, b' ', WIDTH as usize - n);
                put::fill(out, b'@', n);
                out.push(b'|');
            }
            (true, true) => {
                let half = WIDTH / 2;
                let n = self.columns(size, half);
                let blanks = half as usize - n;
                if count <= 0 {
                    put::fill(out, b' ', blanks);
                    put::fill(out, b'@', n);
                    out.push(b'|');
                    put::fill(out, b' ', half as usize);
                } else {
                    put::fill(out, b' ', half as usize);
                    out.push(b'|');
                    put::fill(out, b'@', n);
                    put::fill(out, b' ', blanks);
                }
            }
            (false, false) => {
                out.push(b'|');
                put::fill(out, b' ', WIDTH as usize);
            }
        }
        out.push(b' ');
        put::signed_left(out, shown, 9);
    }

    /// Appends a bar with a resolution of one eighth of a column.
    fn blocks(&self, out: &mut Vec<u8>, size: u64) {
        out.push(b'|');
        let scaled = u128::from(size) * self.part * u128::from(WIDTH) * 8;
        let eighths = scaled.checked_div(self.total).unwrap_or(0).min(u128::from(WIDTH) * 8) as u32; // At most 320.
        let (full, part) = (eighths / 8, eighths % 8);
        let mut letter = [0; 4];
        for _ in 0..full {
            out.extend_from_slice('█'.encode_utf8(&mut letter).as_bytes());
        }
        if let Some(block) = (part > 0).then(|| char::from_u32(0x258f - (part - 1))).flatten() {
            out.extend_from_slice(block.encode_utf8(&mut letter).as_bytes());
        }
        let used = full + u32::from(part > 0);
        put::fill(out, b' ', WIDTH as usize - used as usize);
    }

    /// The index of a count on a scale of `n` steps, rounded.
    pub(crate) fn step(&self, count: i64, n: u64) -> usize {
        self.columns(count.unsigned_abs(), n)
    }
}

/// A count divided by the divisor of its variable.
pub(crate) fn divide(count: i64, normal: u64) -> i64 {
    i64::try_from(i128::from(count) / i128::from(normal.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_rounded_to_the_nearest_column() {
        let bars = Bars::of([1, 5, 20].into_iter(), false, false);
        let text = |count| {
            let mut out = Vec::new();
            bars.put(&mut out, count, count);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(5), format!("|{:<40} 5        ", "@".repeat(8)));
        assert_eq!(text(20), format!("|{:<40} 20       ", "@".repeat(31)));
    }
}
