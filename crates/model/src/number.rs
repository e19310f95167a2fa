//! Numbers in the forms that people type on command lines and in options of tools, and in the forms that people read. The
//! only place that knows the suffixes.

use std::ops::RangeInclusive;

/// Suffixes of counts and their factors; longer suffixes first.
const SUFFIXES: [(&str, u64); 7] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("k", 1_000),
    ("K", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// A count with commas between groups of three digits: `1,234,567`.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The noun for `n` things whose singular is `one`: the plural ends in `s`, or in `es` after `s` and `h`.
pub fn noun(n: u64, one: &str) -> String {
    let ending = match (n, one.ends_with(['s', 'h'])) {
        (1, _) => "",
        (_, true) => "es",
        (_, false) => "s",
    };
    format!("{one}{ending}")
}

/// A count with its [`noun`]: `1 record`, `1,234 accesses`.
///
/// ```
/// use quipu_model::number::counted;
/// assert_eq!(counted(1, "record"), "1 record");
/// assert_eq!(counted(1234, "access"), "1,234 accesses");
/// ```
pub fn counted(n: u64, one: &str) -> String {
    format!("{} {}", grouped(n), noun(n, one))
}

/// The reason why a text is not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotANumber {
    /// The text does not have the form of a number.
    Malformed,
    /// The number needs more than 64 bits.
    TooLarge,
}

/// Parses a count: decimal, or hex with `0x`; suffixes `k` or `K`, `M`, `G` for powers of 1000, `Ki`, `Mi`, `Gi` for powers
/// of 1024.
///
/// # Errors
/// The reason, if the text is not such a number.
///
/// ```
/// use quipu_model::number;
/// assert_eq!(number::count("4k"), Ok(4000));
/// assert_eq!(number::count("4K"), Ok(4000));
/// assert_eq!(number::count("0x10Mi"), Ok(16 << 20));
/// assert!(number::count("1.5M").is_err());
/// ```
pub fn count(text: &str) -> Result<u64, NotANumber> {
    match SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix)) {
        Some((suffix, factor)) => scaled(&text[..text.len() - suffix.len()], *factor),
        None => scaled(text, 1),
    }
}

/// Parses a size in bytes: like [`count`], but `K`, `M` and `G`, in either case, are powers of 1024, because no cache has
/// 32,000 bytes.
///
/// # Errors
/// The reason, if the text is not such a number.
///
/// ```
/// use quipu_model::number;
/// for text in ["32K", "32k", "32Ki", "0x8000", "32768"] {
///     assert_eq!(number::bytes(text), Ok(32768));
/// }
/// ```
pub fn bytes(text: &str) -> Result<u64, NotANumber> {
    let is_unit = |c: char| "kKmMgG".contains(c);
    let short = text.strip_suffix('i').filter(|short| short.ends_with(is_unit)).unwrap_or(text);
    let factor = match short.bytes().last() {
        Some(b'k' | b'K') => 1 << 10,
        Some(b'm' | b'M') => 1 << 20,
        Some(b'g' | b'G') => 1 << 30,
        _ => return scaled(short, 1),
    };
    scaled(&short[..short.len() - 1], factor)
}

/// Parses a range of counts: `A..B` excludes B; `A..` and `..B` are open at one end; `A` is a single number.
///
/// # Errors
/// A sentence that says what is wrong with the text.
///
/// ```
/// use quipu_model::number;
/// assert_eq!(number::range("0x10..0x20"), Ok(0x10..=0x1f));
/// assert_eq!(number::range("7"), Ok(7..=7));
/// assert!(number::range("5..5").is_err());
/// ```
pub fn range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let Some((first, end)) = text.split_once("..") else {
        let only = worded(text)?;
        return Ok(only..=only);
    };
    let first = if first.is_empty() { 0 } else { worded(first)? };
    let last = if end.is_empty() { u64::MAX } else { worded(end)?.checked_sub(1).ok_or("an empty range")? };
    if first > last {
        return Err(format!("the range `{text}` is empty: its end is not part of it"));
    }
    Ok(first..=last)
}

/// Parses a count like [`count`].
///
/// # Errors
/// A sentence for the person who typed the text.
pub fn worded(text: &str) -> Result<u64, String> {
    count(text).map_err(|why| match why {
        NotANumber::Malformed => format!("expected a number such as 4096, 0x1000, 4k or 4Ki, found `{text}`"),
        NotANumber::TooLarge => format!("`{text}` is larger than 64 bits hold"),
    })
}

fn scaled(digits: &str, factor: u64) -> Result<u64, NotANumber> {
    let (digits, radix) = digits.strip_prefix("0x").map_or((digits, 10), |hex| (hex, 16));
    // The standard parser accepts a sign, but a count has none.
    if digits.starts_with('+') {
        return Err(NotANumber::Malformed);
    }
    let value = u64::from_str_radix(digits, radix).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow => NotANumber::TooLarge,
        _ => NotANumber::Malformed,
    })?;
    value.checked_mul(factor).ok_or(NotANumber::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_hex_and_suffixes() {
        for (text, value) in [
            ("0", 0),
            ("42", 42),
            ("0x1000", 4096),
            ("3k", 3000),
            ("2M", 2_000_000),
            ("1G", 1_000_000_000),
            ("4Ki", 4096),
            ("0x10Mi", 16 << 20),
            ("2Gi", 2 << 30),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn units_of_sizes_are_powers_of_two() {
        for (text, value) in
            [("1M", 1 << 20), ("0x2g", 2 << 30), ("3Mi", 3 << 20), ("4ki", 4096), ("12", 12), ("0xfc", 0xfc)]
        {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", "k", "-1", "+1", "1.5M", "0x", "0x+1", "12 ", "i", "Ki", "1i", "\u{e9}"] {
            assert_eq!(count(text), Err(NotANumber::Malformed), "{text}");
            assert_eq!(bytes(text), Err(NotANumber::Malformed), "{text}");
        }
        assert_eq!(count("1m"), Err(NotANumber::Malformed));
        for text in ["18446744073709551616", "99999999999Gi"] {
            assert_eq!((count(text), bytes(text)), (Err(NotANumber::TooLarge), Err(NotANumber::TooLarge)));
        }
    }
}
