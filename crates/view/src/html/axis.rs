//! Axes: round numbers below a drawing and beside it.
//!
//! Documents give the ends of an axis as texts, such as `0 µs` and `1.08 s`. Where both begin with numbers of one unit, or of
//! units of time, round numbers stand between them; otherwise the ends stand alone. The script does the same for the part of
//! an axis that it shows.

use super::plot::MAX_WORDS;
use super::text::{cut, escape, short};
use crate::value::grouped;
use std::fmt::Write as _;

/// Number of steps between round numbers, at most about one more.
const N_STEPS: f64 = 6.0;

/// Units of time in seconds, as durations are written.
const SECONDS: [(&str, f64); 6] =
    [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)];

/// Round numbers at equal distances.
pub(super) struct Ticks {
    pub(super) values: Vec<f64>,
    /// Digits after the point that distinguish them.
    digits: usize,
}

impl Ticks {
    /// The round numbers from `low` to `high`, about `n_steps` steps apart: multiples of 1, 2 or 5 times a power of ten.
    pub(super) fn between(low: f64, high: f64, n_steps: f64) -> Ticks {
        let rough = (high - low) / n_steps;
        if !rough.is_finite() || rough <= 0.0 || rough < high.abs() * 1e-9 {
            return Ticks { values: Vec::new(), digits: 0 };
        }
        let power = 10f64.powf(rough.log10().floor());
        let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.999);
        let step = factor.unwrap_or(10.0) * power;
        let first = (low / step - 1e-9).ceil();
        // A dozen numbers at most, because of `rough`.
        let numbers = (0..16).map(|i| (first + f64::from(i)) * step);
        let values = numbers.take_while(|value| *value <= high + step * 1e-9).collect();
        // A small number: steps are not below 1e-300.
        let digits = (-(step.log10() + 1e-9).floor()).clamp(0.0, 12.0) as usize;
        Ticks { values, digits }
    }

    /// A number of these as text.
    pub(super) fn text(&self, value: f64) -> String {
        match self.digits {
            // Axes have no negative numbers, and a number above the largest integer is drawn as that.
            0 => grouped(value.round() as u64),
            digits => format!("{value:.digits$}"),
        }
    }
}

/// The numbers at the ends of an axis, in the unit of the second.
struct Span<'a> {
    low: f64,
    high: f64,
    unit: &'a str,
}

impl Span<'_> {
    fn of(ends: &(String, String)) -> Option<Span<'_>> {
        let ((from, from_unit), (high, unit)) = (number(&ends.0)?, number(&ends.1)?);
        if from == 0.0 || from_unit == unit {
            return Some(Span { low: from, high, unit });
        }
        let seconds =
            |unit: &str| SECONDS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds);
        Some(Span { low: from * seconds(from_unit)? / seconds(unit)?, high, unit })
    }
}

/// The number at the beginning of a text, and the unit after it.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ",.".contains(c))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    // `2 min 3 s` is not a number of a unit.
    let is_unit = !unit.contains(|c: char| c.is_ascii_digit());
    Some((number.replace(',', "").parse().ok()?, unit)).filter(|_| is_unit)
}

/// The line below a drawing: round numbers, then the name of the axis and its ends.
pub(super) fn axis(ends: &(String, String), name: &str, out: &mut String) {
    let (from, to, name) = (escape(&ends.0), escape(&ends.1), escape(&cut(name, MAX_WORDS)));
    out.push_str("<div class=\"row axis\"><span></span><div>");
    match Span::of(ends).filter(|span| span.low < span.high) {
        Some(span) => {
            ruler(&span, out);
            let name = if name.is_empty() { String::new() } else { format!("{name}, ") };
            let _ = write!(out, "<div class=\"ends\"><span>{name}{from} to {to}</span></div>");
        }
        None => {
            let _ = write!(
                out,
                "<div class=\"ends\"><span>{from}</span><span>{name}</span><span>{to}</span></div>"
            );
        }
    }
    out.push_str("</div><span></span></div>\n");
}

fn ruler(span: &Span<'_>, out: &mut String) {
    let mut ticks = Ticks::between(span.low, span.high, N_STEPS);
    // Without a unit, an axis counts.
    if span.unit.is_empty() {
        ticks.digits = 0;
        ticks.values.retain(|value| (value - value.round()).abs() < 1e-9);
    }
    let unit = if span.unit.is_empty() { String::new() } else { format!(" {}", escape(span.unit)) };
    out.push_str("<svg class=\"ticks\" aria-hidden=\"true\">");
    for value in &ticks.values {
        let x = (value - span.low) / (span.high - span.low) * 100.0;
        let anchor = match x {
            ..4.0 => "start",
            96.0.. => "end",
            _ => "middle",
        };
        let (x, text) = (short(x), ticks.text(*value));
        let _ = write!(out, "<text x=\"{x}%\" y=\"12\" text-anchor=\"{anchor}\">{text}{unit}</text>");
    }
    out.push_str("</svg>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(from: &str, to: &str) -> Vec<String> {
        let mut out = String::new();
        axis(&(from.to_owned(), to.to_owned()), "time", &mut out);
        let texts = out.split("<text").skip(1).filter_map(|text| text.split(['>', '<']).nth(1));
        texts.map(str::to_owned).collect()
    }

    #[test]
    fn marks_of_an_axis_are_round_numbers_of_its_unit() {
        assert_eq!(marks("0", "498"), ["0", "100", "200", "300", "400"]);
        assert_eq!(marks("0 µs", "1.08 s"), ["0.0 s", "0.2 s", "0.4 s", "0.6 s", "0.8 s", "1.0 s"]);
        assert_eq!(marks("1,000", "7,000"), ["1,000", "2,000", "3,000", "4,000", "5,000", "6,000", "7,000"]);
        assert_eq!(marks("500 ms", "1.5 s"), ["0.6 s", "0.8 s", "1.0 s", "1.2 s", "1.4 s"]);
        assert_eq!(marks("0", "1"), ["0", "1"], "halves of what is counted are no marks");
    }

    #[test]
    fn an_axis_without_numbers_shows_its_ends() {
        for (from, to) in [("Monday", "Friday"), ("0 µs", "2 min 3 s"), ("5", "5"), ("", "")] {
            assert_eq!(marks(from, to), [""; 0], "{from} to {to}");
        }
        let mut out = String::new();
        axis(&("a".to_owned(), "b".to_owned()), "c", &mut out);
        assert!(out.contains("<span>a</span><span>c</span><span>b</span>"), "{out}");
    }
}
