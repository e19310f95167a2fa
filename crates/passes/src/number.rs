//! Formats numbers for running text.

use quipu_model::doc::Cell;
pub(crate) use quipu_model::number::{counted, grouped, noun};

/// `part` as a share of `whole`; 0 if `whole` is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A cell with `part` as a share of `whole`.
pub(crate) fn share_cell(part: u64, whole: u64) -> Cell {
    Cell::Share(share(part, whole))
}

/// A duration for people, with about three digits.
pub(crate) fn duration(micros: u64) -> String {
    let (value, unit) = match micros {
        0..1_000 => return format!("{micros} µs"),
        1_000..1_000_000 => (micros as f64 / 1e3, "ms"),
        1_000_000..120_000_000 => (micros as f64 / 1e6, "s"),
        _ => (micros as f64 / 60e6, "min"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$} {unit}")
}

/// A count of bytes with a binary unit and three digits: `1.50 KiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut unit = 0;
    let mut scaled = bytes as f64; // Three digits are shown.
    while scaled >= 1023.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let is_whole = unit == 0 || scaled.fract() == 0.0;
    let digits = if is_whole || scaled >= 99.95 { 0 } else { 1 + usize::from(scaled < 9.995) };
    format!("{scaled:.digits$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_three_digits() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn bytes_have_about_three_digits() {
        for (number, text) in
            [(64, "64 B"), (4096, "4 KiB"), (1536, "1.50 KiB"), (1 << 34, "16 GiB"), (u64::MAX, "16 EiB")]
        {
            assert_eq!(bytes(number), text);
        }
        assert_eq!(bytes(12_700_000), "12.1 MiB");
    }

    #[test]
    fn durations_have_about_three_digits() {
        for (micros, text) in [(0, "0 µs"), (1_234, "1.23 ms"), (45_678, "45.7 ms"), (90_000_000, "90.0 s")]
        {
            assert_eq!(duration(micros), text);
        }
        assert_eq!(duration(7_200_000_000), "120 min");
    }
}
