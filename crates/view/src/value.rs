//! Formats single values for people: separators, units, hex.

use crate::look::{Ink, Look};
use quipu_model::doc::Cell;
pub use quipu_model::number::grouped;
use std::fmt::Write as _;

/// A count of bytes with a binary unit and three significant digits: `4.11 MiB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1024.0; // Three digits are shown, so the rounding does not matter.
    let mut unit = 0;
    // 1023.5 would print as 1024 of this unit.
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(scaled), UNITS[unit])
}

/// A duration in ticks (`per_second` of them), in the largest unit that fits: `1.52 s`.
pub fn ticks_text(ticks: u64, per_second: u64) -> String {
    let seconds = ticks as f64 / per_second.max(1) as f64; // Three digits are shown.
    if seconds >= 3600.0 {
        let minutes = (seconds / 60.0).floor() as u64;
        format!("{} h {:02} min", grouped(minutes / 60), minutes % 60)
    } else if seconds >= 60.0 {
        let whole = seconds.floor() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else if seconds >= 1.0 || ticks == 0 {
        format!("{} s", three_digits(seconds))
    } else if seconds >= 1e-3 {
        format!("{} ms", three_digits(seconds * 1e3))
    } else if seconds >= 1e-6 {
        format!("{} µs", three_digits(seconds * 1e6))
    } else {
        format!("{} ns", three_digits(seconds * 1e9))
    }
}

/// A point in time, in seconds since the start of 1970: `2024-02-29 12:00:00 UTC`.
pub fn date_text(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years are counted from March, so that the leap day is the last of a year; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march_month = (5 * day + 2) / 153;
    let day = day - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// About three significant digits; 0 is written without a fraction.
fn three_digits(value: f64) -> String {
    if value == 0.0 {
        "0".to_owned()
    } else if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A cell as text. Texts come from traces: control characters in them are written as escapes, so that a trace cannot send
/// commands to the terminal.
pub(crate) fn cell_text(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) | Cell::Code(text) => harmless(text),
        Cell::Count(count) => grouped(*count),
        Cell::Bytes(bytes) => bytes_text(*bytes),
        Cell::Addr(addr) => format!("{addr:#x}"),
        Cell::Share(share) => format!("{:.1} %", share * 100.0),
        Cell::Real(value, digits) => format!("{value:.*}", usize::from(*digits)),
        Cell::Micros(micros) => ticks_text(*micros, 1_000_000),
    }
}

/// True for values that are right-aligned.
pub(crate) fn is_number(cell: &Cell) -> bool {
    !matches!(cell, Cell::Empty | Cell::Text(_) | Cell::Code(_))
}

/// The colour of a cell's text, if any.
pub(crate) fn cell_ink(cell: &Cell, look: &Look) -> Option<Ink> {
    matches!(cell, Cell::Code(_)).then(|| look.code())
}

/// The text with control characters escaped.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            let _ = write!(out, "\\x{:02x}", u32::from(c)); // Writing to a string cannot fail.
        } else {
            out.push(c);
        }
    }
    out
}

/// Width of a text in columns; every character counts as one.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The text cut to `width` columns or fewer, with a mark if something is missing. A number is left out as a whole, because its
/// first digits are another number.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let chars: Vec<char> = text.chars().collect();
    let mut end = width.saturating_sub(1);
    if is_in_word(&chars, end) {
        let start = (1..end).rev().find(|at| !is_in_word(&chars, *at)).unwrap_or(0);
        if chars.get(start).is_some_and(char::is_ascii_digit) {
            end = start;
        }
    }
    let short: String = chars[..end].iter().collect();
    format!("{}…", short.trim_end())
}

/// Whether characters `at - 1` and `at` belong to one word or number; a number may have points and commas between digits.
fn is_in_word(chars: &[char], at: usize) -> bool {
    let Some([before, after]) = at.checked_sub(1).and_then(|start| chars.get(start..=at)) else {
        return false;
    };
    let is_digit = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
    let is_point = |c: char| c == '.' || c == ',';
    match (before.is_ascii_alphanumeric(), after.is_ascii_alphanumeric()) {
        (true, true) => true,
        (true, false) => is_point(*after) && before.is_ascii_digit() && is_digit(at.checked_add(1)),
        (false, true) => is_point(*before) && after.is_ascii_digit() && is_digit(at.checked_sub(2)),
        (false, false) => false,
    }
}

/// Whether a text is nothing but a number, which must not be cut.
pub(crate) fn is_number_text(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_a_comma_after_every_three_digits() {
        for (count, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(count), text);
        }
    }

    #[test]
    fn bytes_have_three_digits_and_a_unit_that_fits() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.00 KiB"),
            (65536, "64.0 KiB"),
            (1_048_000, "1023 KiB"),
            (1_048_500, "1.00 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }

    #[test]
    fn times_have_the_largest_unit_that_fits() {
        for (micros, text) in [
            (0, "0 s"),
            (7, "7.00 µs"),
            (1500, "1.50 ms"),
            (2_000_000, "2.00 s"),
            (61_000_000, "1 min 01 s"),
            (7_500_000_000, "2 h 05 min"),
        ] {
            assert_eq!(ticks_text(micros, 1_000_000), text);
        }
        assert_eq!(ticks_text(3, 1_000_000_000), "3.00 ns");
    }

    #[test]
    fn dates_know_leap_years() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_208_000, "2024-02-29 12:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(date_text(seconds), text);
        }
    }

    #[test]
    fn a_trace_cannot_send_commands_to_the_terminal() {
        assert_eq!(cell_text(&Cell::Text("a\x1b[2Jb\n".into())), "a\\x1b[2Jb\\x0a");
    }

    #[test]
    fn cut_text_says_so() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("abc def", 5), "abc…");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn no_number_is_cut_in_two() {
        assert_eq!(cut("most: glBegin 1,234 times", 18), "most: glBegin…");
        assert_eq!(cut("of 0x7fff413f5bc0 and more", 10), "of…");
        assert_eq!(cut("app.1674735.1533.zip", 9), "app.…");
        assert_eq!(cut("12 or 3.25", 10), "12 or 3.25");
        assert_eq!(cut("12 or 3.25 ms", 9), "12 or…");
        // A name with digits in it is a word.
        assert_eq!(cut("glVertex3f", 9), "glVertex…");
        assert!(
            is_number_text("-1,234.5")
                && is_number_text("0x7f")
                && !is_number_text("a7")
                && !is_number_text("7 B")
        );
    }
}
