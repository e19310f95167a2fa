//! Bars, series and curves on a page.
//!
//! Drawings are stretched to the available width; texts beside them are HTML and are not stretched. Rows carry the values
//! that the script shows: `data-l` a label, `data-v` one value for each step, `data-u` their unit.

use super::axis::{Ticks, axis};
use super::blocks;
use super::text::{cut, escape, short};
use crate::chart::resample;
use crate::map::{Scale, curve_note, percent};
use crate::value::grouped;
use quipu_model::doc::{Bars, Curve, CurveLine, MAX_BARS, Series, SeriesLine};
use std::fmt::Write as _;

/// Maximum number of lines in a drawing.
const MAX_LINES: usize = 12;

/// Maximum number of steps; each step of a longer series shows its largest value.
const MAX_STEPS: usize = 256;

/// Maximum number of points in a curve.
const MAX_POINTS: usize = 512;

/// Number of steps between the round numbers beside a series.
const N_STEPS: f64 = 3.0;

/// Maximum length of texts beside a drawing.
pub(super) const MAX_WORDS: usize = 120;

/// Named shares: name, bar, share, count. The longest bar fills the width.
pub(super) fn bars(bars: &Bars, out: &mut String) {
    let longest = bars.bars.iter().map(|(_, part)| *part).max().unwrap_or(0).max(1);
    out.push_str("<div class=\"bars\" role=\"list\">");
    for (name, part) in bars.bars.iter().take(MAX_BARS) {
        let width = short(*part as f64 / longest as f64 * 100.0);
        let share = *part as f64 / bars.total.max(1) as f64 * 100.0;
        let _ = writeln!(
            out,
            "<div class=\"bar\" role=\"listitem\"><span class=\"name\">{}</span>\
             <svg viewBox=\"0 0 100 1\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <rect width=\"{width}\" height=\"1\"/></svg>\
             <span class=\"share\">{share:.1} %</span><span class=\"count\">{}</span></div>",
            escape(&cut(name, MAX_WORDS)),
            grouped(*part)
        );
    }
    out.push_str("</div>\n");
    if bars.bars.len() > MAX_BARS {
        blocks::more((bars.bars.len() - MAX_BARS) as u64, "not shown", out);
    }
}

/// The opening element of every drawing over an axis, with `more` attributes.
pub(super) fn open_figure(class: &str, ends: &(String, String), axis: &str, more: &str, out: &mut String) {
    let (from, to, axis) = (escape(&ends.0), escape(&ends.1), escape(&cut(axis, MAX_WORDS)));
    let _ = writeln!(
        out,
        "<figure class=\"{class}\" data-from=\"{from}\" data-to=\"{to}\" data-axis=\"{axis}\"{more}>"
    );
}

/// Several series below each other, each on a scale of its own. `opens` are the attributes by which it opens parts.
pub(super) fn series(series: &Series, opens: &str, out: &mut String) {
    open_figure("series", &series.ends, &series.axis, opens, out);
    for line in series.lines.iter().take(MAX_LINES) {
        series_line(line, out);
    }
    axis(&series.ends, &series.axis, out);
    out.push_str("</figure>\n");
    if series.lines.len() > MAX_LINES {
        blocks::more((series.lines.len() - MAX_LINES) as u64, "series", out);
    }
}

fn series_line(line: &SeriesLine, out: &mut String) {
    let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let values = match line.values.len() {
        0..=MAX_STEPS => line.values.clone(),
        _ => resample(&line.values, MAX_STEPS, highest),
    };
    let top = highest(&values);
    let height = |value: f64| if top > 0.0 { 100.0 * (1.0 - (value / top).clamp(0.0, 1.0)) } else { 100.0 };
    let steps: String = values.iter().map(|value| format!("V{}h1", short(height(*value)))).collect();
    let (name, note) = (escape(&cut(&line.name, MAX_WORDS)), escape(&cut(&line.note, MAX_WORDS)));
    let unit = escape(&cut(&line.unit, MAX_WORDS));
    let texts: Vec<String> = values.iter().map(|value| short(*value)).collect();
    let n = values.len().max(1);
    let ticks = Ticks::between(0.0, top, N_STEPS);
    let marks = || ticks.values.iter().filter(|value| **value > 0.0);
    let rules: String = marks().map(|value| format!("M0 {}h{n}", short(height(*value)))).collect();
    let _ = writeln!(
        out,
        "<div class=\"row\"><span class=\"name\">{name}</span><div class=\"frame\">\
         <svg class=\"plot\" viewBox=\"0 0 {n} 100\" preserveAspectRatio=\"none\" role=\"img\">\
         <title>{name}: {note}</title><path class=\"fill\" d=\"M0 100{steps}V100z\"/><path class=\"grid\" d=\"{rules}\"/>\
         <path class=\"line\" d=\"M0 {start}{steps}\"/><g data-l=\"{name}\" data-u=\"{unit}\" data-v=\"{}\"/></svg>\
         <svg class=\"scale\" aria-hidden=\"true\">{}</svg></div><span class=\"note\">{note}</span></div>",
        texts.join(","),
        marks().map(|value| mark(height(*value), &ticks.text(*value))).collect::<String>(),
        start = short(height(values.first().copied().unwrap_or(0.0))),
    );
}

/// A number beside a drawing: above its rule, or below it where there is no room above.
fn mark(height: f64, text: &str) -> String {
    let below = if height < 20.0 { 11 } else { -2 };
    format!("<text x=\"3\" y=\"{}%\" dy=\"{below}\">{text}</text>", short(height))
}

/// Curves over a logarithmic axis, all on one drawing.
pub(super) fn curve(curve: &Curve, out: &mut String) {
    let scale = Scale::of(curve);
    let n_octaves = scale.last - scale.first;
    let width = f64::from(n_octaves);
    let words = escape(&cut(&curve.axis, MAX_WORDS));
    let names: Vec<&str> = curve.lines.iter().take(MAX_LINES).map(|line| line.name.as_str()).collect();
    let names = escape(&cut(&names.join(", "), MAX_WORDS));
    let shares: String = [1.0, 0.75, 0.5, 0.25, 0.0]
        .iter()
        .map(|part| format!("<span>{}</span>", percent(part * scale.top)))
        .collect();
    let _ = writeln!(
        out,
        "<figure class=\"curve\" data-axis=\"{words}\"><div class=\"row\"><div class=\"shares\">{shares}</div>\
         <svg class=\"plot\" viewBox=\"0 0 {n_octaves} 100\" preserveAspectRatio=\"none\" role=\"img\">\
         <title>{words}: {names}</title>"
    );
    let every = n_octaves.div_ceil(12).max(1);
    let ticks = (0..=n_octaves).step_by(every as usize);
    let verticals: String = ticks.clone().map(|tick| format!("M{tick} 0v100")).collect();
    let _ = write!(
        out,
        "<path class=\"grid\" d=\"M0 0h{width}M0 25h{width}M0 50h{width}M0 75h{width}{verticals}\"/>"
    );
    for (number, line) in curve.lines.iter().take(MAX_LINES).enumerate() {
        curve_line(number, line, (&scale, curve.falls), out);
    }
    out.push_str("</svg></div>\n<div class=\"row\"><span></span><svg class=\"ticks\" aria-hidden=\"true\">");
    for tick in ticks {
        let x = short(f64::from(tick) / width * 100.0);
        let anchor = match tick {
            0 => "start",
            _ if tick + every / 2 >= n_octaves => "end",
            _ => "middle",
        };
        let _ = write!(
            out,
            "<text x=\"{x}%\" y=\"12\" text-anchor=\"{anchor}\">{}</text>",
            power_text(scale.first + tick)
        );
    }
    let _ = write!(out, "</svg></div>\n<figcaption>{words}</figcaption><ul class=\"legend\">");
    for (number, line) in curve.lines.iter().take(MAX_LINES).enumerate() {
        let (name, note) = (escape(&cut(&line.name, MAX_WORDS)), curve_note(curve, line));
        let _ = write!(out, "<li class=\"k{}\">{name} <span class=\"note\">{note}</span></li>", number % 6);
    }
    out.push_str("</ul></figure>\n");
}

/// One curve: steps, each at the value where the share is reached.
fn curve_line(number: usize, line: &CurveLine, (scale, falls): (&Scale, bool), out: &mut String) {
    let width = f64::from(scale.last - scale.first);
    let x = |value: u64| ((value.max(1) as f64).log2() - f64::from(scale.first)).clamp(0.0, width);
    let y = |share: f64| short(100.0 * (1.0 - (share / scale.top).clamp(0.0, 1.0)));
    // Of points at the same spot, the last one suffices.
    let bin = |value: u64| (x(value) / width * MAX_POINTS as f64) as usize; // At most `MAX_POINTS`.
    let mut points: Vec<(u64, f64)> = Vec::new();
    for &(value, share) in &line.points {
        match points.last_mut() {
            Some(last) if bin(last.0) == bin(value) => *last = (value, share),
            _ => points.push((value, share)),
        }
    }
    // A curve of values at or below begins at 0; one that falls begins with the first known value.
    let mut path = match points.first().filter(|_| falls) {
        Some((value, share)) => format!("M{:.4} {}", x(*value), y(*share)),
        None => "M0 100".to_owned(),
    };
    for (value, share) in &points {
        let _ = write!(path, "H{:.4}V{}", x(*value), y(*share));
    }
    let _ = write!(path, "H{width}");
    let at: Vec<String> = points.iter().map(|(value, _)| format!("{:.4}", x(*value) / width)).collect();
    let texts: Vec<String> = points
        .iter()
        .map(|(value, share)| {
            let word = if falls { "at" } else { "≤" };
            format!("{} % {word} {}", short(share * 100.0), grouped(*value))
        })
        .collect();
    let _ = writeln!(
        out,
        "<path class=\"line k{}\" d=\"{path}\"/><g data-l=\"{}\" data-at=\"{}\" data-t=\"{}\"/>",
        number % 6,
        escape(&cut(&line.name, MAX_WORDS)),
        at.join(","),
        texts.join("|")
    );
}

/// 2 to the power of `exponent` as a short text.
fn power_text(exponent: u32) -> String {
    const UNITS: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    match exponent {
        0..14 => grouped(1 << exponent),
        _ => {
            let unit = UNITS.get(exponent as usize / 10 - 1).copied().unwrap_or("");
            format!("{} {unit}", 1u64 << (exponent % 10))
        }
    }
}
