//! Parses numbers in text, eight digits at a time.

/// A word with each byte equal to 1.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte of a word.
const HIGHS: u64 = 0x80 * ONES;

/// Number of hex digits at the front of a word, whose first byte is the lowest.
#[inline(always)]
fn n_digits(word: u64) -> u32 {
    let low = word & !HIGHS;
    // Each sum stays within its byte: the terms are below 128. Its highest bit says whether a bound was exceeded.
    let above_nine = (low ^ (0x30 * ONES)) + (0x80 - 10) * ONES;
    let letter = (low | (0x20 * ONES)) ^ (0x60 * ONES);
    let above_f = letter + (0x80 - 7) * ONES;
    let from_a = letter + (0x80 - 1) * ONES;
    let is_other = (above_nine & (above_f | !from_a) | word) & HIGHS;
    is_other.trailing_zeros() / 8
}

/// The value of the first `n` bytes of a word, all of them hex digits; 0 if `n` is 0.
#[inline(always)]
fn value(word: u64, n: u32) -> u64 {
    let nibbles = (word & (0x0f * ONES)) + ((word >> 6) & ONES) * 9;
    // Digits move to the high end; the bytes below them become leading zeros.
    let digits = if n == 0 { 0 } else { nibbles << (64 - 8 * n) };
    let pairs = (digits << 4 | digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours << 16 | fours >> 32) & 0xffff_ffff
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reads up to 16 hex digits at `at`: returns their value and their number. Digits within eight bytes of the end may be missed.
/// PERF: two words without a loop; a whole line takes 15 ns (`lackey_without_columns`).
#[inline(always)]
pub fn hex_run<const N: usize>(bytes: &[u8; N], at: usize) -> (u64, usize) {
    let (first, second) = (word(bytes, at), word(bytes, at + 8));
    let n_first = n_digits(first);
    let n_second = if n_first == 8 { n_digits(second) } else { 0 };
    let number = value(first, n_first) << (4 * n_second) | value(second, n_second);
    (number, (n_first + n_second) as usize) // At most 16.
}

/// Index of the first end of line, from `from` on; `N` if there is none. PERF: the start of the next line does not depend on
/// the numbers, so that the processor works on several lines at once.
#[inline(always)]
pub fn line_end<const N: usize>(bytes: &[u8; N], from: usize) -> usize {
    let mut at = from;
    while at < N {
        let differs = word(bytes, at) ^ (0x0a * ONES);
        // The lowest marked byte is the first zero byte; marks above it may be wrong.
        let is_end = differs.wrapping_sub(ONES) & !differs & HIGHS;
        if is_end != 0 {
            return at + (is_end.trailing_zeros() / 8) as usize; // Below 8.
        }
        at += 8;
    }
    N
}

/// The reason why a text is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoNumber {
    /// It has no digits, or other characters.
    Digits,
    /// It exceeds 64 bits.
    TooLarge,
}

/// Parses hex digits, with or without `0x`.
///
/// # Errors
/// If the text is not a number or does not fit in 64 bits.
pub fn hex(text: &[u8]) -> Result<u64, NoNumber> {
    let digits = match text {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        digits => digits,
    };
    digits_of(digits, 16)
}

/// Parses decimal digits.
///
/// # Errors
/// If the text is not a number or does not fit in 64 bits.
pub fn decimal(text: &[u8]) -> Result<u64, NoNumber> {
    digits_of(text, 10)
}

fn digits_of(digits: &[u8], base: u32) -> Result<u64, NoNumber> {
    let mut number = Some(0u64);
    for byte in digits {
        let digit = char::from(*byte).to_digit(base).ok_or(NoNumber::Digits)?;
        number = number.and_then(|n| n.checked_mul(base.into())?.checked_add(digit.into()));
    }
    if digits.is_empty() { Err(NoNumber::Digits) } else { number.ok_or(NoNumber::TooLarge) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_told_to_be_a_digit_or_not() {
        for byte in 0..=255u8 {
            let is_digit = byte.is_ascii_hexdigit();
            for at in 0..16usize {
                let mut text = *b"0123456789abCDEF";
                text[at] = byte;
                let expected = if is_digit { 16 } else { at };
                let (number, n) = hex_run(&text, 0);
                assert_eq!(n, expected, "{byte:#x} at {at}");
                assert_eq!(Ok(number), if n == 0 { Ok(0) } else { hex(&text[..n]) }, "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn lines_end_at_the_first_end() {
        for at in 0..=32usize {
            let mut text = [b'\x0b'; 32];
            text.iter_mut().skip(at).for_each(|byte| *byte = b'\n');
            assert_eq!(line_end(&text, 0), at);
            assert_eq!(line_end(&text, 8), at.max(8));
        }
    }

    #[test]
    fn numbers_are_read_whole_or_refused() {
        assert_eq!(hex(b"0x1fFe"), Ok(0x1ffe));
        assert_eq!(hex(b"ffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(hex(b"00000000000000000001"), Ok(1));
        assert_eq!(hex(b"10000000000000000"), Err(NoNumber::TooLarge));
        assert_eq!(hex(b"10000000000000000g"), Err(NoNumber::Digits));
        assert_eq!(hex(b"0x"), Err(NoNumber::Digits));
        assert_eq!(decimal(b""), Err(NoNumber::Digits));
        assert_eq!(decimal(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), Err(NoNumber::TooLarge));
    }
}
