//! Numbers in the forms that people type on command lines and in options of tools, and in the forms that people read. The
//! only place that knows the suffixes.

use std::ops::RangeInclusive;

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

/// Parses a count: decimal, also in groups of three digits as [`grouped`] writes them, or hex with `0x`; suffixes `k` or
/// `K`, `M`, `G`, `T` for powers of 1000, `Ki`, `Mi`, `Gi`, `Ti` for powers of 1024.
///
/// # Errors
/// The reason, if the text is not such a number.
///
/// ```
/// use quipu_model::number;
/// assert_eq!(number::count("4k"), Ok(4000));
/// assert_eq!(number::count("4K"), Ok(4000));
/// assert_eq!(number::count("1,234"), Ok(1234));
/// assert_eq!(number::count("0x10Mi"), Ok(16 << 20));
/// assert!(number::count("1.5M").is_err());
/// ```
pub fn count(text: &str) -> Result<u64, NotANumber> {
    let (digits, unit) = with_unit(text);
    let factor = match unit.strip_suffix('i') {
        Some(short) if !short.is_empty() => binary_factor(short),
        _ => match unit {
            "" => Some(1),
            "k" | "K" => Some(1_000),
            // A small letter means a fraction elsewhere, such as `m` for a thousandth.
            "M" => Some(1_000_000),
            "G" => Some(1_000_000_000),
            "T" => Some(1_000_000_000_000),
            _ => None,
        },
    };
    whole(digits)?.checked_mul(factor.ok_or(NotANumber::Malformed)?).ok_or(NotANumber::TooLarge)
}

/// Parses a size in bytes: like [`count`], but `K`, `M`, `G` and `T`, in either case, are powers of 1024, because no cache has
/// 32,000 bytes; also in the forms in which sizes are printed, such as `1.50 GiB`, which is rounded to a whole byte.
///
/// # Errors
/// The reason, if the text is not such a number.
///
/// ```
/// use quipu_model::number;
/// for text in ["32K", "32k", "32Ki", "32KiB", "32.0 KiB", "0x8000", "32768", "32,768 B"] {
///     assert_eq!(number::bytes(text), Ok(32768));
/// }
/// assert_eq!(number::bytes("1.5 GiB"), Ok(3 << 29));
/// ```
pub fn bytes(text: &str) -> Result<u64, NotANumber> {
    let (digits, unit) = with_unit(text);
    let unit = unit.strip_suffix('B').unwrap_or(unit);
    let short = unit.strip_suffix('i').filter(|short| !short.is_empty()).unwrap_or(unit);
    let factor = binary_factor(short).ok_or(NotANumber::Malformed)?;
    match digits.split_once('.') {
        Some((before, after)) if factor > 1 => fraction(before, after, factor),
        _ => whole(digits)?.checked_mul(factor).ok_or(NotANumber::TooLarge),
    }
}

/// The digits of a number, and the unit that follows them, perhaps after a space. All digits of a hex number belong to it,
/// so no unit begins with such a digit.
fn with_unit(text: &str) -> (&str, &str) {
    let is_hex = text.starts_with("0x");
    let is_digit = |(at, c): &(usize, char)| match is_hex {
        true => *at < 2 || c.is_ascii_hexdigit(),
        false => c.is_ascii_digit() || [',', '.'].contains(c),
    };
    let end = text.char_indices().find(|place| !is_digit(place)).map_or(text.len(), |(at, _)| at);
    let (digits, rest) = text.split_at(end);
    let unit = rest.strip_prefix(' ').filter(|unit| unit.starts_with(|c: char| c.is_ascii_alphabetic()));
    (digits, unit.unwrap_or(rest))
}

/// The power of 1024 that a letter, in either case, stands for; 1 for no letter.
fn binary_factor(unit: &str) -> Option<u64> {
    let units = ["", "k", "m", "g", "t", "p", "e"];
    let power = units.iter().position(|known| known.eq_ignore_ascii_case(unit))?;
    Some(1_u64 << (10 * power))
}

/// A fraction of a unit of `factor` bytes, rounded to whole bytes.
fn fraction(before: &str, after: &str, factor: u64) -> Result<u64, NotANumber> {
    // More digits than a size of 64 bits has make no difference.
    const MAX_DIGITS: usize = 19;
    let is_decimal = !after.is_empty() && after.bytes().all(|digit| digit.is_ascii_digit());
    if !is_decimal {
        return Err(NotANumber::Malformed);
    }
    let after = &after[..after.len().min(MAX_DIGITS)];
    let (mut part, mut scale) = (0_u128, 1_u128);
    for digit in after.bytes() {
        part = part * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    // Below 2^60 times 10^19, which 128 bits hold.
    let part = (part * u128::from(factor) + scale / 2) / scale;
    let part = u64::try_from(part).map_err(|_| NotANumber::TooLarge)?;
    let rest = whole(before)?.checked_mul(factor).ok_or(NotANumber::TooLarge)?;
    rest.checked_add(part).ok_or(NotANumber::TooLarge)
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

/// A whole number: decimal, with or without commas between all groups of three digits, or hex. [`with_unit`] lets no sign
/// through, which the standard parser would accept.
fn whole(digits: &str) -> Result<u64, NotANumber> {
    let (digits, radix) = digits.strip_prefix("0x").map_or((digits, 10), |hex| (hex, 16));
    let mut groups = digits.split(',');
    let first = groups.next().unwrap_or_default();
    let is_grouped = digits.len() > first.len();
    if is_grouped && !((1..=3).contains(&first.len()) && groups.all(|group| group.len() == 3)) {
        return Err(NotANumber::Malformed);
    }
    u64::from_str_radix(&digits.replace(',', ""), radix).map_err(|error| match error.kind() {
        std::num::IntErrorKind::PosOverflow => NotANumber::TooLarge,
        _ => NotANumber::Malformed,
    })
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
            ("3T", 3_000_000_000_000),
            ("4 k", 4000),
            ("18446744073709551615", u64::MAX),
            ("18,446,744,073,709,551,615", u64::MAX),
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
    fn sizes_are_taken_as_they_are_printed() {
        for (text, value) in [
            ("1023 B", 1023),
            ("64.0 KiB", 64 << 10),
            ("1.50 MiB", 3 << 19),
            ("1.5M", 3 << 19),
            ("32KB", 32 << 10),
            ("0x10KiB", 16 << 10),
            ("0x10B", 0x10b),
            ("2TiB", 2 << 40),
            ("3 PiB", 3 << 50),
            ("1 EiB", 1 << 60),
            // Rounded to a byte.
            ("4.11 KiB", 4209),
            ("0.00000000000000000001K", 0),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        assert_eq!(bytes("16.0 EiB"), Err(NotANumber::TooLarge));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", "k", "-1", "+1", "1.5", "0x", "0x+1", "12 ", "12  k", "i", "Ki", "1i", "1iB", "\u{e9}",
            "1,2", "1,2345", ",123", "1234,567", "0x1,234", "1.5.1M", "1.M", "4 KiBs",
        ] {
            assert_eq!(count(text), Err(NotANumber::Malformed), "{text}");
            assert_eq!(bytes(text), Err(NotANumber::Malformed), "{text}");
        }
        for text in ["1m", "1.5M", "4KiB"] {
            assert_eq!(count(text), Err(NotANumber::Malformed), "{text}");
        }
        for text in ["18446744073709551616", "99999999999Gi"] {
            assert_eq!((count(text), bytes(text)), (Err(NotANumber::TooLarge), Err(NotANumber::TooLarge)));
        }
    }
}
