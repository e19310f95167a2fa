//! Lanes and heat maps on a page: rows of cells, darker where more happened.
//!
//! Cells of the same shade and colour are runs in one path, so that thousands of cells take a few kilobytes. The exact values
//! are attached for the script to show.

use super::axis::axis;
use super::blocks;
use super::plot::{MAX_WORDS, open_figure};
use super::text::{cut, escape, short};
use crate::chart::resample;
use crate::map::heat;
use crate::value::grouped;
use quipu_model::doc::{HeatMap, HeatRow, Lane, Lanes};
use std::fmt::Write as _;

/// Number of shades besides blank; the style has a colour for each.
pub(super) const SHADES: usize = 8;

/// The shade of a lane that is always busy: most are, and the strongest shade would dominate the page.
const LANE_SHADES: usize = 6;

/// Number of colours for rows.
const HUES: usize = 2;

/// Up to this many lanes have a row with a name each; more are drawn closely, and beyond `MAX_LANES`, neighbours are folded.
const MAX_NAMED_LANES: usize = 40;
const MAX_LANES: usize = 120;

/// Maximum number of steps of heat maps and of crowded lanes, and of rows of heat maps.
const MAX_STEPS: usize = 160;
const MAX_ROWS: usize = 320;

/// Steps of lanes, which zooming spreads out: this many if there are few lanes, and fewer if there are more cells than this.
const MAX_LANE_STEPS: usize = 1024;
const MAX_LANE_CELLS: usize = 24_000;

/// Target height of a heat map in pixels, as far as rows of whole pixels permit.
const HEIGHT: usize = 560;

/// Pixels between two bands, and between two labels.
const BAND_GAP: usize = 5;
const LABEL_STEP: usize = 14;

/// One row of cells.
struct Row {
    label: String,
    /// Its position, in pixels from the top.
    y: usize,
    hue: usize,
    /// Shade of each cell; 0 if blank.
    shades: Vec<usize>,
    /// Values of the cells, for the script to show.
    values: String,
}

/// Lanes that show when each thread or core was busy.
pub(super) fn lanes(lanes: &Lanes, out: &mut String) {
    open_figure("lanes", &lanes.ends, "", "", out);
    let n_rows = lanes.lanes.len().clamp(1, MAX_LANES);
    let most = (MAX_LANE_CELLS / n_rows).clamp(MAX_STEPS, MAX_LANE_STEPS);
    if lanes.lanes.len() <= MAX_NAMED_LANES {
        for lane in &lanes.lanes {
            let row = lane_row(&lane.name, &binned(&lane.busy, most), 0);
            let (name, note) = (escape(&cut(&lane.name, MAX_WORDS)), escape(&cut(&lane.note, MAX_WORDS)));
            let _ = write!(out, "<div class=\"row\"><span class=\"name\">{name}</span>");
            plot(&[row], &[(0, 1)], 1, 1, "% busy", &format!("{name}: {note}"), out);
            let _ = writeln!(out, "<span class=\"note\">{note}</span></div>");
        }
    } else {
        let together = lanes.lanes.len().div_ceil(MAX_LANES);
        let height = if together == 1 && lanes.lanes.len() <= MAX_LANES / 2 { 10 } else { 5 };
        let rows: Vec<Row> =
            lanes.lanes.chunks(together).enumerate().map(|(i, some)| fold(some, most, i * height)).collect();
        let labels: Vec<(usize, String)> = rows.iter().map(|row| (row.y, row.label.clone())).collect();
        out.push_str("<div class=\"row\">");
        gutter(&labels, rows.len() * height, out);
        let words = format!("{} lanes, {together} in a row", lanes.lanes.len());
        plot(&rows, &[(0, rows.len() * height)], rows.len() * height, height, "% busy", &words, out);
        out.push_str("</div>\n");
    }
    axis(&lanes.ends, "", out);
    out.push_str("</figure>\n");
    if lanes.more > 0 {
        blocks::more(lanes.more, "not shown", out);
    }
}

/// The activity of a lane in at most this many steps.
fn binned(busy: &[f32], most: usize) -> Vec<f64> {
    let busy: Vec<f64> = busy.iter().map(|busy| f64::from(*busy)).collect();
    if busy.len() <= most { busy } else { resample(&busy, most, mean) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Folds neighbouring lanes into one with their average activity.
fn fold(lanes: &[Lane], most: usize, y: usize) -> Row {
    let all: Vec<Vec<f64>> = lanes.iter().map(|lane| binned(&lane.busy, most)).collect();
    let n_steps = all.iter().map(Vec::len).max().unwrap_or(0);
    let at = |step: usize| all.iter().filter_map(|busy| busy.get(step)).sum::<f64>() / lanes.len() as f64;
    let name = match lanes {
        [only] => only.name.clone(),
        [first, .., last] => format!("{} … {}", first.name, last.name),
        [] => String::new(),
    };
    lane_row(&name, &(0..n_steps).map(at).collect::<Vec<_>>(), y)
}

fn lane_row(name: &str, busy: &[f64], y: usize) -> Row {
    let shade = |busy: &f64| (busy.clamp(0.0, 1.0) * LANE_SHADES as f64).ceil() as usize;
    let values: Vec<String> = busy.iter().map(|busy| short((busy * 1000.0).round() / 10.0)).collect();
    Row {
        label: name.to_owned(),
        y,
        hue: 0,
        shades: busy.iter().map(shade).collect(),
        values: values.join(","),
    }
}

/// A heat map over place and time.
pub(super) fn heat_map(map: &HeatMap, out: &mut String) {
    let n_rows: usize = map.bands.iter().map(|band| band.rows.len()).sum();
    let together = n_rows.div_ceil(MAX_ROWS).max(1);
    let bands: Vec<(&str, &str, Vec<HeatRow>)> = map
        .bands
        .iter()
        .map(|band| {
            (band.name.as_str(), band.note.as_str(), band.rows.chunks(together).map(summed).collect())
        })
        .collect();
    let n_rows: usize = bands.iter().map(|(.., rows)| rows.len()).sum();
    if n_rows == 0 {
        return;
    }
    let hottest =
        bands.iter().flat_map(|(.., rows)| rows).flat_map(|row| &row.cells).max().copied().unwrap_or(0);
    let height = (HEIGHT / n_rows).clamp(2, 14);
    let (mut names, mut notes, mut drawn, mut y) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut grounds = Vec::new();
    for (i, (name, note, rows)) in bands.iter().enumerate() {
        y += if i > 0 { BAND_GAP } else { 0 };
        names.push((y, (*name).to_owned()));
        notes.push((y, (*note).to_owned()));
        grounds.push((y, rows.len() * height));
        for row in rows {
            drawn.push(heat_row(row, hottest, y));
            y += height;
        }
    }
    open_figure("heat", &map.ends, &map.axis, "", out);
    out.push_str("<div class=\"row\">");
    gutter(&names, y, out);
    let words = format!("{} over {}, hottest cell {}", map.unit, map.axis, grouped(hottest));
    plot(&drawn, &grounds, y, height, &map.unit, &escape(&words), out);
    gutter(&notes, y, out);
    out.push_str("</div>\n");
    axis(&map.ends, &map.axis, out);
    out.push_str("<ul class=\"legend\">");
    for (hue, name) in map.hues.iter().take(HUES).enumerate() {
        let shades: String = (1..=SHADES)
            .map(|shade| {
                format!(
                    "<rect class=\"h{hue}{shade}\" x=\"{}\" width=\"12\" height=\"10\"/>",
                    12 * (shade - 1)
                )
            })
            .collect();
        let _ = write!(
            out,
            "<li><svg width=\"{}\" height=\"10\" aria-hidden=\"true\">{shades}</svg> {}</li>",
            12 * SHADES,
            escape(&cut(name, MAX_WORDS))
        );
    }
    let unit = escape(&cut(&map.unit, MAX_WORDS));
    let _ = writeln!(
        out,
        "<li class=\"note\">1 to {} {unit} a cell, on a logarithmic scale</li></ul></figure>",
        grouped(hottest)
    );
}

/// Adds up neighbouring rows.
fn summed(rows: &[HeatRow]) -> HeatRow {
    let mut sum = rows[0].clone();
    for row in &rows[1..] {
        for (cell, more) in sum.cells.iter_mut().zip(&row.cells) {
            *cell = cell.saturating_add(*more);
        }
    }
    sum
}

fn heat_row(row: &HeatRow, hottest: u64, y: usize) -> Row {
    let steps = row.cells.len().clamp(1, MAX_STEPS);
    let sum = |step: usize| {
        let (start, end) = (step * row.cells.len() / steps, (step + 1) * row.cells.len() / steps);
        row.cells[start..end].iter().fold(0u64, |sum, cell| sum.saturating_add(*cell))
    };
    let cells: Vec<u64> = (0..steps).map(sum).collect();
    let shade = |cell: &u64| (heat(*cell as f64, hottest as f64) * SHADES as f64).ceil() as usize;
    let text = |cell: &u64| if *cell == 0 { String::new() } else { cell.to_string() };
    Row {
        label: row.name.clone(),
        y,
        hue: row.hue.min(HUES - 1),
        shades: cells.iter().map(|cell| shade(cell).min(SHADES)).collect(),
        values: cells.iter().map(text).collect::<Vec<_>>().join(","),
    }
}

/// The drawing, `height` high in total, with rows of `row_height`; `grounds` are the start and height of each background.
/// `words` must be escaped already.
fn plot(
    rows: &[Row],
    grounds: &[(usize, usize)],
    height: usize,
    row_height: usize,
    unit: &str,
    words: &str,
    out: &mut String,
) {
    let n_steps = rows.iter().map(|row| row.shades.len()).max().unwrap_or(0).max(1);
    let fixed = if height > 1 { format!(" height=\"{height}\"") } else { String::new() };
    let _ = write!(
        out,
        "<svg class=\"plot raster\" viewBox=\"0 0 {n_steps} {height}\"{fixed} preserveAspectRatio=\"none\" role=\"img\" \
         data-unit=\"{}\" stroke-width=\"{row_height}\"><title>{words}</title>",
        escape(&cut(unit, MAX_WORDS))
    );
    for (y, height) in grounds {
        let _ = write!(out, "<rect y=\"{y}\" width=\"{n_steps}\" height=\"{height}\"/>");
    }
    for hue in 0..HUES {
        for shade in 1..=SHADES {
            let runs = runs(rows, row_height, hue, shade);
            if !runs.is_empty() {
                let _ = write!(out, "<path class=\"h{hue}{shade}\" d=\"{runs}\"/>");
            }
        }
    }
    for row in rows {
        let label = escape(&cut(&row.label, MAX_WORDS));
        let _ = write!(
            out,
            "<g data-l=\"{label}\" data-y=\"{}\" data-h=\"{row_height}\" data-v=\"{}\"/>",
            row.y, row.values
        );
    }
    out.push_str("</svg>");
}

/// The runs of cells with one colour and shade, as horizontal strokes.
fn runs(rows: &[Row], row_height: usize, hue: usize, shade: usize) -> String {
    let mut path = String::new();
    for row in rows.iter().filter(|row| row.hue == hue) {
        let middle = short(row.y as f64 + row_height as f64 / 2.0);
        let mut step = 0;
        for run in row.shades.chunk_by(|a, b| a == b) {
            if run[0] == shade {
                let _ = write!(path, "M{step} {middle}h{}", run.len());
            }
            step += run.len();
        }
    }
    path
}

/// Labels beside a drawing, at the heights of their rows, as many as fit.
fn gutter(labels: &[(usize, String)], height: usize, out: &mut String) {
    let _ = write!(out, "<svg class=\"gutter\" height=\"{height}\" aria-hidden=\"true\">");
    let mut free_from = 0;
    for (y, label) in labels {
        if *y >= free_from && !label.is_empty() && y + LABEL_STEP <= height.max(LABEL_STEP) {
            let _ = write!(out, "<text y=\"{}\">{}</text>", y + 10, escape(&cut(label, MAX_WORDS)));
            free_from = y + LABEL_STEP;
        }
    }
    out.push_str("</svg>");
}
