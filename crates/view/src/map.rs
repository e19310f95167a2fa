//! Small character drawings of a distribution: heat maps, curves.

use crate::chart::{Frame, level, resample, shade};
use crate::document::INDENT;
use crate::look::Look;
use crate::value::{grouped, harmless};
use quipu_model::doc::{Curve, CurveLine, HeatMap, HeatRow};

/// Approximate maximum number of lines of a heat map; with more, neighbouring rows of a band are drawn as one.
const MAX_ROWS: usize = 40;

/// A line for each row (or a few neighbouring rows) of each band, shaded by the number of accesses; then the axis. Shades are
/// logarithmic, so that rare accesses still show.
pub(crate) fn paint_heat(map: &HeatMap, look: &Look, out: &mut String) {
    let n_rows: usize = map.bands.iter().map(|band| band.rows.len()).sum();
    let together = n_rows.div_ceil(MAX_ROWS).max(1);
    let mut lines: Vec<(&str, Vec<f64>, &str)> = Vec::new();
    for band in &map.bands {
        for (i, rows) in band.rows.chunks(together).enumerate() {
            lines.push((&rows[0].name, summed(rows), if i == 0 { &band.note } else { "" }));
        }
    }
    let names: Vec<&str> = lines.iter().map(|(name, ..)| *name).collect();
    let notes: Vec<&str> = lines.iter().map(|(.., note)| *note).collect();
    let frame = Frame::new(&names, &notes, look);
    // Several cells may be drawn as one and add up, so shades are relative to the hottest drawn cell.
    let drawings: Vec<Vec<f64>> =
        lines.iter().map(|(_, cells, _)| resample(cells, frame.width, sum)).collect();
    let hottest = drawings.iter().flatten().copied().fold(0.0, f64::max);
    for ((name, _, note), cells) in lines.iter().zip(&drawings) {
        let text: String = cells.iter().map(|cell| shade(heat(*cell, hottest), look.charset)).collect();
        frame.line(name, &text, note, look.chart(), out);
    }
    let drawn = drawings.iter().map(Vec::len).max().unwrap_or(0);
    frame.axis(&map.ends, &map.axis, drawn, look, out);
}

/// Heat of a count relative to the hottest, on a logarithmic scale from 0 (nothing) to 1.
pub(crate) fn heat(count: f64, hottest: f64) -> f64 {
    if count > 0.0 && hottest > 0.0 { (1.0 + count).ln() / (1.0 + hottest).ln() } else { 0.0 }
}

fn summed(rows: &[HeatRow]) -> Vec<f64> {
    let mut cells = vec![0.0; rows.iter().map(|row| row.cells.len()).max().unwrap_or(0)];
    for row in rows {
        for (sum, cell) in cells.iter_mut().zip(&row.cells) {
            *sum += *cell as f64; // Shown in a few shades.
        }
    }
    cells
}

fn sum(cells: &[f64]) -> f64 {
    cells.iter().sum()
}

/// A line for each curve, higher where a larger share is at or below the value; then the axis.
pub(crate) fn paint_curve(curve: &Curve, look: &Look, out: &mut String) {
    let notes: Vec<String> = curve.lines.iter().map(|line| curve_note(curve, line)).collect();
    let names: Vec<&str> = curve.lines.iter().map(|line| line.name.as_str()).collect();
    let frame = Frame::new(&names, &notes.iter().map(String::as_str).collect::<Vec<_>>(), look);
    let Scale { first, last, top } = Scale::of(curve);
    for (line, note) in curve.lines.iter().zip(&notes) {
        let octaves = |step: usize| f64::from(last - first) * step as f64 / (frame.width - 1).max(1) as f64;
        let at = |step: usize| 2f64.powf(f64::from(first) + octaves(step));
        let text: String =
            (0..frame.width).map(|step| level(share_at(line, at(step)), top, look.charset)).collect();
        frame.line(&line.name, &text, note, look.chart(), out);
    }
    if !curve.lines.is_empty() {
        let end = |octave: u32| grouped(1u64.checked_shl(octave).unwrap_or(u64::MAX));
        let ends = (end(first), end(last));
        frame.axis(&ends, &curve.axis, frame.width, look, out);
    } else {
        out.push_str(INDENT);
        out.push_str(&harmless(&curve.axis));
        out.push('\n');
    }
}

/// The scale of a curve: values from 2^`first` to 2^`last`, and shares up to `top`.
pub(crate) struct Scale {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) top: f64,
}

impl Scale {
    pub(crate) fn of(curve: &Curve) -> Scale {
        let points = || curve.lines.iter().flat_map(|line| &line.points);
        let largest = points().map(|(value, _)| *value).max().unwrap_or(0).max(2);
        let last = u64::BITS - (largest - 1).leading_zeros();
        if !curve.falls {
            return Scale { first: 0, last, top: 1.0 };
        }
        let smallest = points().map(|(value, _)| *value).min().unwrap_or(0).max(1);
        let top = points().map(|(_, share)| *share).filter(|share| *share > 0.0).fold(0.0, f64::max);
        Scale { first: smallest.ilog2().min(last - 1), last, top: if top > 0.0 { top.min(1.0) } else { 1.0 } }
    }
}

/// The share of the last point at or below `value`.
fn share_at(line: &CurveLine, value: f64) -> f64 {
    let n_below = line.points.partition_point(|(point, _)| *point as f64 <= value);
    n_below.checked_sub(1).map_or(0.0, |last| line.points[last].1)
}

/// The values where a curve reaches 50 % and 90 %; or the first and last share of one that falls.
pub(crate) fn curve_note(curve: &Curve, line: &CurveLine) -> String {
    if curve.falls {
        let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
            return String::new();
        };
        return format!("{} to {}", percent(first.1), percent(last.1));
    }
    let reaches = |share: f64| line.points.iter().find(|(_, at)| *at >= share).map(|(value, _)| *value);
    let words = [(0.5, "half"), (0.9, "90 %")];
    let words =
        words.iter().filter_map(|(share, word)| Some(format!("{word} ≤ {}", grouped(reaches(*share)?))));
    words.collect::<Vec<_>>().join(", ")
}

/// A share as text, with more digits for small ones.
pub(crate) fn percent(share: f64) -> String {
    match 100.0 * share {
        percent if percent >= 10.0 || percent == 0.0 => format!("{percent:.0} %"),
        percent if percent >= 1.0 => format!("{percent:.1} %"),
        percent if percent >= 0.1 => format!("{percent:.2} %"),
        percent => format!("{percent:.3} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::{Charset, Overflow};
    use quipu_model::Paint;
    use quipu_model::doc::HeatBand;

    const NARROW: Look =
        Look { width: 40, paint: Paint::PLAIN, charset: Charset::Unicode, overflow: Overflow::Fold };

    #[test]
    fn a_heat_map_is_darker_where_more_happened_on_a_logarithmic_scale() {
        let row = |name: &str, cells: &[u64]| HeatRow { name: name.into(), hue: 0, cells: cells.into() };
        let map = HeatMap {
            unit: "accesses".into(),
            axis: "instrs".into(),
            ends: ("0".into(), "4".into()),
            hues: vec!["data".into()],
            bands: vec![
                HeatBand { name: "a".into(), note: "low".into(), rows: vec![row("0x10", &[0, 1, 31, 1023])] },
                HeatBand { name: "b".into(), note: String::new(), rows: vec![row("0x90", &[1, 0, 0, 0])] },
            ],
            ..HeatMap::default()
        };
        let mut out = String::new();
        paint_heat(&map, &NARROW, &mut out);
        assert_eq!(
            out,
            "  0x10         ░░░░░░░▒▒▒▒▒▒▒██████  low\n  0x90  ░░░░░░░\n        0         instrs          4\n"
        );
    }

    #[test]
    fn many_rows_are_drawn_as_few() {
        let rows = (0..1000).map(|i| HeatRow { name: format!("r{i}"), hue: 0, cells: vec![1] }).collect();
        let map = HeatMap { bands: vec![HeatBand { rows, ..HeatBand::default() }], ..HeatMap::default() };
        let mut out = String::new();
        paint_heat(&map, &NARROW, &mut out);
        assert_eq!(out.lines().count(), 40);
        assert!(out.starts_with("  r0    █"), "{out}");
    }

    #[test]
    fn a_curve_rises_to_the_whole_and_says_where_its_half_is() {
        let points = vec![(0, 0.25), (3, 0.5), (1000, 1.0)];
        let curve = Curve {
            title: String::new(),
            axis: "lines".into(),
            lines: vec![CurveLine { name: "all".into(), points }],
            falls: false,
        };
        let mut out = String::new();
        paint_curve(&curve, &NARROW, &mut out);
        assert_eq!(out, "  all  ▂▂▂▄▄▄▄▄▄▄▄▄▄▄▄█  half ≤ 3, 90 % ≤ 1,000\n       1  lines   1,024\n");
    }

    #[test]
    fn a_curve_that_falls_is_drawn_up_to_its_largest_share() {
        let points = vec![(4096, 0.08), (8192, 0.04), (65_536, 0.001)];
        let curve = Curve {
            axis: "bytes".into(),
            lines: vec![CurveLine { name: "8 ways".into(), points }],
            falls: true,
            ..Curve::default()
        };
        let mut out = String::new();
        paint_curve(&curve, &NARROW, &mut out);
        assert_eq!(out, "  8 ways  ████▄▄▄▄▄▄▄▄▄▄▄▁  8.0 % to 0.10 %\n          4,096     65,536\n");
    }

    #[test]
    fn nothing_to_draw_draws_no_lines() {
        let mut out = String::new();
        paint_heat(&HeatMap::default(), &NARROW, &mut out);
        assert_eq!(out, "");
    }
}
