//! Small character drawings: bars, series, lanes.

use crate::document::INDENT;
use crate::grid::GAP;
use crate::look::{Charset, Ink, Look};
use crate::value::{columns, cut, grouped, harmless};
use quipu_model::doc::{Bars, Lanes, Series};

/// Maximum width of the name before a drawing where names are cut.
const MAX_NAME: usize = 28;

/// Width to which such names are cut if a line has no room for more.
const MIN_NAME: usize = 12;

/// Maximum width of the note after a drawing where notes are cut.
const MAX_NOTE: usize = 40;

/// Minimum and maximum width of a drawing.
const MIN_CHART: usize = 16;
const MAX_CHART: usize = 120;

/// Maximum length of a bar; longer ones show nothing more.
const MAX_BAR: usize = 48;

/// Named shares: name, bar, share, count. The longest bar fills the width.
pub(crate) fn paint_bars(bars: &Bars, look: &Look, out: &mut String) {
    let most = if look.cuts() { MAX_NAME } else { usize::MAX };
    let names: Vec<String> = bars.bars.iter().map(|(name, _)| cut(&harmless(name), most)).collect();
    let counts: Vec<String> = bars.bars.iter().map(|(_, part)| grouped(*part)).collect();
    let name_width = widest(&names);
    let count_width = widest(&counts);
    let share_width = "100.0 %".len();
    let around = INDENT.len() + name_width + share_width + count_width + 3 * GAP.len();
    let width = look.width.saturating_sub(around).clamp(MIN_CHART, MAX_BAR);
    let longest = bars.bars.iter().map(|(_, part)| *part).max().unwrap_or(0).max(1);
    for ((name, (_, part)), count) in names.iter().zip(&bars.bars).zip(&counts) {
        let share = *part as f64 / bars.total.max(1) as f64; // One digit after the point is shown.
        let bar = bar(*part as f64 / longest as f64, width, look.charset);
        out.push_str(INDENT);
        out.push_str(&pad(name, name_width));
        out.push_str(GAP);
        look.chart().write(&pad(&bar, width), out);
        let share = format!("{:.1} %", share * 100.0);
        out.push_str(&format!("{GAP}{share:>share_width$}{GAP}{count:>count_width$}\n"));
    }
}

/// A line for each series: name, drawing, note; then the axis.
pub(crate) fn paint_series(series: &Series, look: &Look, out: &mut String) {
    let names: Vec<&str> = series.lines.iter().map(|line| line.name.as_str()).collect();
    let notes: Vec<&str> = series.lines.iter().map(|line| line.note.as_str()).collect();
    let frame = Frame::new(&names, &notes, look);
    let mut drawn = 0;
    for line in &series.lines {
        let steps = resample(&line.values, frame.width, highest);
        drawn = drawn.max(steps.len());
        let top = highest(&steps);
        let text: String = steps.iter().map(|value| level(*value, top, look.charset)).collect();
        frame.line(&line.name, &text, &line.note, look.chart(), out);
    }
    frame.axis(&series.ends, &series.axis, drawn, look, out);
}

/// A line for each lane, shaded by its activity; then the axis.
pub(crate) fn paint_lanes(lanes: &Lanes, look: &Look, out: &mut String) {
    let names: Vec<&str> = lanes.lanes.iter().map(|lane| lane.name.as_str()).collect();
    let notes: Vec<&str> = lanes.lanes.iter().map(|lane| lane.note.as_str()).collect();
    let frame = Frame::new(&names, &notes, look);
    let mut drawn = 0;
    for lane in &lanes.lanes {
        let busy: Vec<f64> = lane.busy.iter().map(|busy| f64::from(*busy)).collect();
        let steps = resample(&busy, frame.width, mean);
        drawn = drawn.max(steps.len());
        let text: String = steps.iter().map(|busy| shade(*busy, look.charset)).collect();
        frame.line(&lane.name, &text, &lane.note, look.chart(), out);
    }
    if lanes.more > 0 {
        out.push_str(INDENT);
        look.label().write(&format!("{} more", grouped(lanes.more)), out);
        out.push('\n');
    }
    frame.axis(&lanes.ends, "", drawn, look, out);
}

/// Widths of names, drawings and notes.
pub(crate) struct Frame {
    name: usize,
    pub(crate) width: usize,
    note: usize,
}

impl Frame {
    pub(crate) fn new(names: &[&str], notes: &[&str], look: &Look) -> Frame {
        let widest = |texts: &[&str]| texts.iter().map(|text| columns(&harmless(text))).max().unwrap_or(0);
        let (mut name, mut note) = (widest(names), widest(notes));
        let gaps = INDENT.len() + 2 * GAP.len();
        if look.cuts() {
            note = note.min(MAX_NOTE);
            // Numbers are in notes, so names make room for them.
            let room = look.width.saturating_sub(gaps + MIN_CHART + note);
            name = name.min(MAX_NAME.min(room.max(MIN_NAME)));
        }
        let width = look.width.saturating_sub(gaps + name + note).clamp(MIN_CHART, MAX_CHART);
        Frame { name, width, note }
    }

    pub(crate) fn line(&self, name: &str, drawing: &str, note: &str, ink: Ink, out: &mut String) {
        out.push_str(INDENT);
        out.push_str(&pad(&cut(&harmless(name), self.name), self.name));
        out.push_str(GAP);
        if note.is_empty() {
            ink.write(drawing.trim_end(), out);
        } else {
            ink.write(drawing, out);
            out.push_str(GAP);
            out.push_str(&cut(&harmless(note), self.note));
        }
        out.push('\n');
    }

    /// Writes the first and last values under the drawing's edges, with the axis's name between them if there is room.
    pub(crate) fn axis(
        &self,
        ends: &(String, String),
        name: &str,
        drawn: usize,
        look: &Look,
        out: &mut String,
    ) {
        let (first, last, name) = (harmless(&ends.0), harmless(&ends.1), harmless(name));
        if first.is_empty() && last.is_empty() {
            return;
        }
        let room = drawn.saturating_sub(columns(&first) + columns(&last));
        let middle = if columns(&name) + 2 <= room { name } else { String::new() };
        let left = room.max(1).saturating_sub(columns(&middle)) / 2;
        let right = room.max(1).saturating_sub(columns(&middle)) - left;
        let text = format!("{first}{}{middle}{}{last}", " ".repeat(left), " ".repeat(right));
        out.push_str(INDENT);
        out.extend(std::iter::repeat_n(' ', self.name + GAP.len()));
        look.label().write(&text, out);
        out.push('\n');
    }
}

fn widest(texts: &[String]) -> usize {
    texts.iter().map(|text| columns(text)).max().unwrap_or(0)
}

fn pad(text: &str, width: usize) -> String {
    format!("{text:<width$}")
}

/// A bar of `share` of `width`, drawn in eighths of a column if the characters allow. A share above 0 is never drawn as
/// nothing.
fn bar(share: f64, width: usize, charset: Charset) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let share = share.clamp(0.0, 1.0);
    match charset {
        Charset::Unicode => {
            let eighths = (share * width as f64 * 8.0).round() as usize; // At most 8 × width.
            let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
            let mut text = "█".repeat(eighths / 8);
            if eighths % 8 > 0 {
                text.push(EIGHTHS[eighths % 8]);
            }
            text
        }
        Charset::Ascii => {
            let whole = (share * width as f64).round() as usize;
            "#".repeat(if share > 0.0 { whole.max(1) } else { 0 })
        }
    }
}

/// One step of a series: blank for 0, else one of eight (or six) heights.
pub(crate) fn level(value: f64, top: f64, charset: Charset) -> char {
    let levels: &[char] = match charset {
        Charset::Unicode => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        Charset::Ascii => &['_', '.', '-', '=', '*', '#'],
    };
    if value.is_nan() || value <= 0.0 || top <= 0.0 {
        return ' ';
    }
    let height = (value / top * levels.len() as f64).ceil() as usize;
    levels[height.clamp(1, levels.len()) - 1]
}

/// One step of a lane: blank if idle, darker if busier.
pub(crate) fn shade(busy: f64, charset: Charset) -> char {
    let shades: [char; 4] = match charset {
        Charset::Unicode => ['░', '▒', '▓', '█'],
        Charset::Ascii => ['.', ':', '+', '#'],
    };
    if busy.is_nan() || busy <= 0.0 {
        return ' ';
    }
    let depth = (busy * shades.len() as f64).ceil() as usize;
    shades[depth.clamp(1, shades.len()) - 1]
}

/// Resamples `values` to `width` steps: several values are folded into one, or one is repeated. No values give no steps.
pub(crate) fn resample(values: &[f64], width: usize, fold: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let width = if values.is_empty() { 0 } else { width };
    let step = |step: usize| {
        let start = step * values.len() / width;
        let end = ((step + 1) * values.len() / width).max(start + 1);
        values.get(start..end).map_or(0.0, &fold)
    };
    (0..width).map(step).collect()
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::Overflow;
    use quipu_model::Paint;
    use quipu_model::doc::{Lane, SeriesLine};

    const NARROW: Look =
        Look { width: 40, paint: Paint::PLAIN, charset: Charset::Unicode, overflow: Overflow::Fold };
    const ASCII: Look = Look { charset: Charset::Ascii, ..NARROW };

    fn bars() -> Bars {
        Bars {
            title: String::new(),
            total: 100,
            bars: vec![("move".into(), 50), ("math".into(), 25), ("fp".into(), 0)],
        }
    }

    #[test]
    fn the_longest_bar_fills_the_width() {
        let mut out = String::new();
        paint_bars(&bars(), &NARROW, &mut out);
        let full = "█".repeat(19);
        let half = format!("{}▌", "█".repeat(9));
        assert_eq!(
            out,
            format!(
                "  move  {full}   50.0 %  50\n  math  {half}{:9}   25.0 %  25\n  fp    {:19}    0.0 %   0\n",
                "", ""
            )
        );
    }

    #[test]
    fn ascii_bars_use_hashes() {
        let mut out = String::new();
        paint_bars(&bars(), &ASCII, &mut out);
        assert!(out.is_ascii());
        assert!(out.starts_with(&format!("  move  {}   50.0 %  50\n", "#".repeat(19))), "{out}");
    }

    #[test]
    fn a_series_shows_its_highest_values_and_its_axis() {
        let series = Series {
            title: String::new(),
            axis: "instrs".into(),
            ends: ("0".into(), "64".into()),
            lines: vec![SeriesLine {
                name: "lines".into(),
                values: (0..64).map(f64::from).collect(),
                note: "max 63".into(),
                unit: "lines".into(),
            }],
        };
        let mut out = String::new();
        paint_series(&series, &NARROW, &mut out);
        assert_eq!(out, "  lines  ▁▁▁▂▂▂▃▃▄▄▄▅▅▅▆▆▆▇▇▇███  max 63\n         0       instrs       64\n");
    }

    #[test]
    fn lanes_are_darker_where_busier() {
        let lanes = Lanes {
            title: String::new(),
            ends: ("0 s".into(), "1 s".into()),
            lanes: vec![Lane { name: "T1".into(), busy: vec![0.0, 0.2, 0.5, 0.7, 1.0], note: String::new() }],
            more: 2,
        };
        let mut out = String::new();
        paint_lanes(&lanes, &NARROW, &mut out);
        assert_eq!(
            out,
            format!(
                "  T1  {}{}{}{}{}\n  2 more\n      0 s{:26}1 s\n",
                " ".repeat(7),
                "░".repeat(6),
                "▒".repeat(7),
                "▓".repeat(6),
                "█".repeat(6),
                ""
            )
        );
    }

    #[test]
    fn nothing_to_draw_draws_nothing() {
        for look in [NARROW, ASCII] {
            let mut out = String::new();
            paint_series(&Series::default(), &look, &mut out);
            paint_lanes(&Lanes::default(), &look, &mut out);
            paint_bars(&Bars::default(), &look, &mut out);
            assert_eq!(out, "");
        }
    }
}
