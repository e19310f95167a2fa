//! Numbers as text, and the columns in front of each line. PERF: printing is most of the cost of viewing.

use crate::record::IDLE_THREAD;
use quipu_model::{Paint, ThreadId};

/// The columns in front of each line: both ordinals and the thread. Keeps the last line's text.
pub(super) struct Prefix {
    record: Ordinal,
    instr: Ordinal,
    tid: u64,
    thread: [u8; THREAD_WIDTH],
    /// The part of the thread's text that does not fit into its column.
    rest: Vec<u8>,
}

impl Prefix {
    /// The state before the first line.
    pub(super) fn new() -> Prefix {
        let mut prefix = Prefix {
            record: Ordinal::new(),
            instr: Ordinal::new(),
            tid: 0,
            thread: [b' '; THREAD_WIDTH],
            rest: Vec::new(),
        };
        prefix.set_thread(0);
        prefix
    }

    /// Appends the columns of a line.
    #[inline]
    pub(super) fn print(&mut self, record: u64, instr: u64, tid: u64, paint: &Paint, out: &mut Vec<u8>) {
        push_paint(paint.dim, out);
        if self.tid != tid {
            self.set_thread(tid);
        }
        if record.max(instr) < TOO_WIDE {
            let [record, instr] = [self.record.text(record), self.instr.text(instr)];
            append(out, [b' '; 2 * ORDINAL_WIDTH + THREAD_WIDTH], |columns| {
                columns[..ORDINAL_WIDTH].copy_from_slice(&record);
                columns[ORDINAL_WIDTH..2 * ORDINAL_WIDTH].copy_from_slice(&instr);
                columns[2 * ORDINAL_WIDTH..].copy_from_slice(&self.thread);
            });
        } else {
            right(record, ORDINAL_WIDTH, out);
            right(instr, ORDINAL_WIDTH, out);
            out.extend_from_slice(&self.thread);
        }
        if !self.rest.is_empty() {
            out.extend_from_slice(&self.rest);
        }
        push_paint(paint.reset, out);
    }

    #[cold]
    fn set_thread(&mut self, tid: u64) {
        self.tid = tid;
        let text = thread_text(tid);
        // The text is at least as long as its column.
        if let Some((column, rest)) = text.split_first_chunk() {
            self.thread = *column;
            self.rest = rest.to_vec();
        }
    }
}

/// Appends bytes and lets `fill` change them. PERF: capacity is checked once for all of them.
#[inline(always)]
pub(super) fn append<const N: usize>(out: &mut Vec<u8>, bytes: [u8; N], fill: impl FnOnce(&mut [u8; N])) {
    out.extend_from_slice(&bytes);
    if let Some(appended) = out.last_chunk_mut() {
        fill(appended);
    }
}

/// Appends the code that switches a colour, which is empty for most outputs.
#[inline]
pub(super) fn push_paint(code: &str, out: &mut Vec<u8>) {
    if !code.is_empty() {
        out.extend_from_slice(code.as_bytes());
    }
}

/// Characters of most threads' texts, including the colon before and the blank after.
const THREAD_WIDTH: usize = 14;

/// The text of a thread, padded to its column.
fn thread_text(tid: u64) -> Vec<u8> {
    let name = match ThreadId::from_packed(tid) {
        // QUIRK: DynamoRIO splits the word for no thread like any other, with the workload as a signed number.
        _ if tid == IDLE_THREAD => format!("W-1.T{}", IDLE_THREAD >> 16),
        ThreadId { workload, tid } => format!("W{workload}.T{tid}"),
    };
    format!(": {name:>11} ").into_bytes()
}

/// Columns of an ordinal.
const ORDINAL_WIDTH: usize = 12;
/// The smallest ordinal that needs more digits than `ORDINAL_WIDTH`.
const TOO_WIDE: u64 = 10u64.pow(ORDINAL_WIDTH as u32);

/// The text of a number that mostly stays or increases by one. PERF: counting in text saves the divisions, and storing words
/// saves waiting for single bytes.
struct Ordinal {
    value: u64,
    high: u32,
    /// The last eight digits, the very last in the highest byte.
    low: u64,
}

impl Ordinal {
    fn new() -> Ordinal {
        let mut ordinal = Ordinal { value: 0, high: 0, low: 0 };
        ordinal.set(0);
        ordinal
    }

    /// The text of `value`, which is less than [`TOO_WIDE`].
    #[inline]
    fn text(&mut self, value: u64) -> [u8; ORDINAL_WIDTH] {
        const ONE: u64 = 1 << 56;
        if value == self.value + 1 && self.low < u64::from(b'9') * ONE {
            self.value = value;
            self.low += ONE;
        } else if value != self.value {
            self.set(value);
        }
        let mut text = [0; ORDINAL_WIDTH];
        text[..4].copy_from_slice(&self.high.to_le_bytes());
        text[4..].copy_from_slice(&self.low.to_le_bytes());
        text
    }

    fn set(&mut self, value: u64) {
        let mut digits = [b' '; 20];
        digits_of(value, &mut digits);
        let [.., h0, h1, h2, h3, l0, l1, l2, l3, l4, l5, l6, l7] = digits;
        self.value = value;
        self.high = u32::from_le_bytes([h0, h1, h2, h3]);
        self.low = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
    }
}

/// Appends a number in decimal.
#[inline]
pub(super) fn decimal(value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let at = digits_of(value, &mut digits);
    out.extend_from_slice(&digits[at..]);
}

/// Writes the digits of `value` at the end of `digits` and returns where they begin.
#[inline]
fn digits_of(mut value: u64, digits: &mut [u8; 20]) -> usize {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8; // A digit.
        value /= 10;
        if value == 0 {
            return at;
        }
    }
}

/// Appends a number in decimal, right-aligned.
#[inline]
pub(super) fn right(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b' '; 20];
    let at = digits_of(value, &mut digits).min(20 - width);
    out.extend_from_slice(&digits[at..]);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A number as 16 hex digits.
#[inline(always)]
pub(super) fn hex16(value: u64) -> [u8; 16] {
    let mut digits = [0; 16];
    digits[..8].copy_from_slice(&hex8((value >> 32) as u32));
    digits[8..].copy_from_slice(&hex8(value as u32));
    digits
}

/// Eight hex digits. PERF: all at once, each in a byte of a word.
#[inline(always)]
fn hex8(value: u32) -> [u8; 8] {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let mut nibbles = u64::from(value);
    nibbles = (nibbles | nibbles << 16) & 0x0000_ffff_0000_ffff;
    nibbles = (nibbles | nibbles << 8) & 0x00ff_00ff_00ff_00ff;
    nibbles = (nibbles | nibbles << 4) & (0x0f * EACH);
    // Digits above 9 carry into bit 4.
    let letters = (nibbles + 6 * EACH) >> 4 & EACH;
    (nibbles + u64::from(b'0') * EACH + u64::from(b'a' - b'0' - 10) * letters).to_be_bytes()
}

/// Appends a number in hex without leading zeros.
#[inline(never)] // PERF: used for few lines.
pub(super) fn hex(value: u64, out: &mut Vec<u8>) {
    let n_digits = (64 - value.leading_zeros()).div_ceil(4).max(1);
    for i in (0..n_digits).rev() {
        out.push(HEX[(value >> (4 * i)) as usize & 15]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_fill_their_columns_and_overflow_them_when_they_must() {
        assert_eq!(text(|out| right(42, 5, out)), "   42");
        assert_eq!(text(|out| right(u64::MAX, 2, out)), u64::MAX.to_string());
        assert_eq!(text(|out| hex(0, out)), "0");
        assert_eq!(text(|out| hex(0xf00d, out)), "f00d");
        assert_eq!(hex16(0x401000), *b"0000000000401000");
    }

    #[test]
    fn thread_names_are_right_aligned_in_eleven_columns() {
        let line = |tid| text(|out| Prefix::new().print(1, 0, tid, &Paint::PLAIN, out));
        assert_eq!(line(1), "           1           0:       W0.T1 ");
        assert_eq!(line(872805), "           1           0:  W0.T872805 ");
        assert_eq!(line(0xffff_ffff_ffff), "           1           0: W0.T281474976710655 ");
        assert_eq!(line(IDLE_THREAD), "           1           0: W-1.T281474976710655 ");
    }

    proptest! {
        #[test]
        fn ordinals_are_printed_as_by_the_standard_library(
            starts in proptest::collection::vec((0u32..64, any::<u64>(), 0u64..120), 0..20)
        ) {
            let mut prefix = Prefix::new();
            for (shift, start, n) in starts {
                let start = start >> shift;
                for value in start..start.saturating_add(n) {
                    let printed = text(|out| prefix.print(value, start, 7, &Paint::PLAIN, out));
                    prop_assert_eq!(printed, format!("{value:>12}{start:>12}:       W0.T7 "));
                }
            }
        }

        #[test]
        fn hex_digits_are_those_of_the_standard_library(value: u64) {
            prop_assert_eq!(text(|out| out.extend_from_slice(&hex16(value))), format!("{value:016x}"));
            prop_assert_eq!(text(|out| hex(value, out)), format!("{value:x}"));
        }
    }
}
