//! Properties of every page, whatever the documents contain.

use super::*;
use quipu_model::doc::{
    Bars, Cell, Curve, CurveLine, Figure, Fold, Folds, Grid, HeatBand, HeatMap, HeatRow, Lane, Lanes,
    Listing, Picture, Pictures, Series, SeriesLine,
};

const HOSTILE: &str =
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onload=\"alert(3)' `${4}` {{5}} &lt;";

/// A document with every kind of block, in which every text is `text`.
fn everything(text: &str) -> Document {
    let text = || text.to_owned();
    let ends = (text(), text());
    let cells = vec![Cell::Text(text()), Cell::Code(text()), Cell::Count(7), Cell::Share(0.5), Cell::Empty];
    let row = HeatRow { name: text(), hue: 1, cells: vec![0, 3] };
    Document::new(text())
        .with(Block::Note(text()))
        .with(Block::Figures(vec![Figure { label: text(), value: Cell::Text(text()), note: text() }]))
        .with(Block::Facts(vec![(text(), vec![Cell::Text(text())])]))
        .with(Block::Facts(vec![(text(), cells.clone())]))
        .with(Block::Grid(Grid { title: text(), head: vec![text(); 5], rows: vec![cells], more: 1 }))
        .with(Block::Bars(Bars { title: text(), total: 2, bars: vec![(text(), 1)] }))
        .with(Block::Series(Series {
            title: text(),
            axis: text(),
            ends: ends.clone(),
            lines: vec![SeriesLine { name: text(), values: vec![1.0, f64::NAN], note: text(), unit: text() }],
        }))
        .with(Block::Pictures(Pictures {
            title: text(),
            pictures: vec![Picture {
                name: text(),
                note: text(),
                width: 1,
                height: 1,
                png: text().into_bytes(),
                at: Some(7),
            }],
        }))
        .with(Block::Listing(Listing { title: text(), text: text() }))
        .with(Block::Folds(Folds {
            title: text(),
            noun: text(),
            whole: 2,
            folds: vec![Fold {
                at: 1,
                name: text(),
                note: text(),
                covers: 5..=9,
                blocks: vec![Block::Note(text())],
            }],
        }))
        .with(Block::Lanes(lanes(text, 2)))
        .with(Block::Lanes(lanes(text, 100)))
        .with(Block::Curve(Curve {
            title: text(),
            axis: text(),
            lines: vec![CurveLine { name: text(), points: vec![(0, 0.5), (u64::MAX, 1.0)] }],
            falls: false,
        }))
        .with(Block::HeatMap(HeatMap {
            title: text(),
            unit: text(),
            axis: text(),
            ends,
            hues: vec![text(), text()],
            bands: vec![HeatBand { name: text(), note: text(), rows: vec![row] }],
        }))
}

fn lanes(text: impl Fn() -> String, n: usize) -> Lanes {
    let lane = Lane { name: text(), busy: vec![0.0, 1.0], note: text() };
    Lanes { title: text(), ends: (text(), text()), lanes: vec![lane; n], more: 3 }
}

fn page_of(document: Document, title: &str) -> String {
    html_page(&[document], &PageFrame { title, subtitle: title, footer: title, command: title })
}

/// Names of the elements of a page, as a browser would find them: the text after each `<`. Style and script are left out.
fn elements(page: &str) -> Vec<String> {
    let page = page.replace(STYLE, "").replace(SCRIPT, "");
    page.split('<').skip(1).map(|rest| rest.split([' ', '>', '\n']).next().unwrap_or("").to_owned()).collect()
}

#[test]
fn no_text_of_a_trace_becomes_an_element_or_an_attribute() {
    let (tame, hostile) = (page_of(everything("tame"), "tame"), page_of(everything(HOSTILE), HOSTILE));
    assert_eq!(elements(&hostile), elements(&tame));
    for needle in ["<img src=x", "<script>alert", "onerror=alert(2)>", "\" onload"] {
        assert!(!hostile.contains(needle), "{needle}");
    }
    // Every quoted attribute ends where it should: both pages have the same number of quotes.
    let quotes = |page: &str| page.matches('"').count();
    assert_eq!(quotes(&hostile), quotes(&tame));
}

#[test]
fn a_page_asks_for_nothing_from_anywhere() {
    let page = page_of(everything("https://example.org/x.js"), "https://example.org/");
    // Pictures are embedded in the page.
    let page = page.replace("src=\"data:image/png;base64,", "");
    for position in
        ["src=", "@import", "url(", "<link", "<iframe", "<object", "<embed", "srcset", "fetch(", "import("]
    {
        assert!(!page.contains(position), "{position}");
    }
    let links = page.split("href=\"").skip(1);
    assert!(links.into_iter().all(|link| link.starts_with('#')));
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_policy_names_the_digests_of_what_stands_in_the_page() {
    let page = page_of(Document::new("x"), "x");
    let between = |open: &str, close: &str| page.split(open).nth(1).unwrap().split(close).next().unwrap();
    assert!(page.contains(&format!("style-src '{}'", digest::source_of(between("<style>", "</style>")))));
    assert!(page.contains(&format!("script-src '{}'", digest::source_of(between("<script>", "</script>")))));
    // That policy would block styles in attributes.
    assert!(!page.contains(" style=\""));
}

#[test]
fn a_page_stays_small_whatever_the_documents_hold() {
    let row: Vec<Cell> = (0..40).map(|i| Cell::Text(format!("{i}{}", "<&\"'>".repeat(100)))).collect();
    let grid = Grid { title: "g".into(), head: vec!["h".into(); 40], rows: vec![row; 500], more: 1 };
    let busy: Vec<f32> = (0..5000).map(|i| (i % 9) as f32 / 8.0).collect();
    let lane = Lane { name: "n".repeat(1000), busy, note: "o".repeat(1000) };
    let cells: Vec<u64> = (0..2000).map(|i| i * 77_777_777_777 % 1_000_000_007).collect();
    let band = HeatBand { rows: vec![HeatRow { cells, ..HeatRow::default() }; 3000], ..HeatBand::default() };
    let points = (0..100_000).map(|i| (i, i as f64 / 1e5)).collect();
    let line = SeriesLine {
        name: "s".into(),
        values: (0..100_000).map(f64::from).collect(),
        ..SeriesLine::default()
    };
    let document = Document::new("large")
        .with(Block::Lanes(Lanes { lanes: vec![lane; 2000], ..Lanes::default() }))
        .with(Block::HeatMap(HeatMap { bands: vec![band], ..HeatMap::default() }))
        .with(Block::Curve(Curve {
            lines: vec![CurveLine { name: "c".into(), points }; 20],
            ..Curve::default()
        }))
        .with(Block::Series(Series { lines: vec![line; 50], ..Series::default() }))
        .with(Block::Bars(Bars { bars: vec![("b".repeat(500), 1); 5000], ..Bars::default() }))
        .with(Block::Facts(vec![("f".repeat(500), vec![Cell::Count(1)]); 5000]))
        .with(Block::Note("w ".repeat(100_000)))
        .with(Block::Grid(grid));
    let page = html_page(&vec![document; 6], &PageFrame::default());
    assert!(page.len() < 2 << 20, "{} bytes", page.len());
    assert!(page.contains("more"));
}

#[test]
fn every_row_of_a_drawing_carries_its_values() {
    let page = page_of(everything("t"), "t");
    assert!(page.contains("data-v=\"1,0\""), "a series");
    assert!(page.contains("data-v=\"0,100\""), "a lane in per cent");
    assert!(page.contains("data-v=\",3\""), "a row of a heat map, nothing for 0");
    assert!(page.contains("data-t=\"50 % ≤ 0|100 % ≤ 18,446,744,073,709,551,615\""), "a curve");
}

#[test]
fn labels_of_an_axis_stay_within_its_ends() {
    let line = CurveLine { name: "c".into(), points: vec![(1, 0.5), (768, 1.0)] };
    let curve = Curve { lines: vec![line], ..Curve::default() };
    let page = page_of(Document::new("").with(Block::Curve(curve)), "x");
    assert!(page.contains("<text x=\"0%\" y=\"12\" text-anchor=\"start\">1</text>"));
    assert!(page.contains("<text x=\"100%\" y=\"12\" text-anchor=\"end\">1,024</text>"));
}

#[test]
fn a_curve_that_falls_begins_at_its_first_value_and_says_its_scale() {
    let line = CurveLine { name: "c".into(), points: vec![(4096, 0.08), (65_536, 0.001)] };
    let curve = Curve { lines: vec![line], falls: true, ..Curve::default() };
    let page = page_of(Document::new("").with(Block::Curve(curve)), "x");
    assert!(page.contains("<span>8.0 %</span><span>6.0 %</span><span>4.0 %</span><span>2.0 %</span>"));
    assert!(page.contains("<text x=\"0%\" y=\"12\" text-anchor=\"start\">4,096</text>"));
    assert!(page.contains("d=\"M0.0000 0H0.0000V0H4.0000V98.7"), "from the top down");
    assert!(page.contains("data-t=\"8 % at 4,096|0.1 % at 65,536\""));
}

#[test]
fn every_drawing_has_a_title_and_round_numbers_beside_it() {
    let page = page_of(everything("t"), "t");
    for svg in page.split("<svg").skip(1).filter(|svg| svg.contains("role=\"img\"")) {
        let svg = svg.split("</svg>").next().unwrap_or("");
        assert!(svg.split_once('>').is_some_and(|(_, inside)| inside.starts_with("<title>")), "{svg}");
    }
    let line = SeriesLine { name: "lines".into(), values: vec![0.0, 430.0], ..SeriesLine::default() };
    let series = Series {
        ends: ("0".into(), "498".into()),
        axis: "records".into(),
        lines: vec![line],
        ..Series::default()
    };
    let page = page_of(Document::new("").with(Block::Series(series)), "x");
    assert!(page.contains(" dy=\"-2\">200</text><text x=\"3\" y=\"6.98%\" dy=\"11\">400</text>"), "{page}");
    assert!(page.contains("<span>records, 0 to 498</span>"), "{page}");
}

#[test]
fn a_series_opens_the_parts_that_it_shows_and_these_have_the_pictures_from_there() {
    let page = page_of(everything("t"), "t");
    assert!(page.contains(" data-part=\"p0-\" data-parts=\"2\" data-noun=\"t\">"));
    let (_, part) = page.split_once("<details class=\"part\" id=\"p0-1\">").unwrap();
    let (part, rest) = part.split_once("</details>").unwrap();
    assert!(part.contains("<img "), "{part}");
    assert!(rest.starts_with("\n<p class=\"more\">1 more without their content</p>"), "{rest}");
}

#[test]
fn heads_are_explained_and_say_the_unit_of_what_is_copied() {
    let terms = vec![quipu_model::doc::Term { of: "T", key: "read_bytes", doc: "Bytes \"read\"." }];
    let head = vec!["read bytes".into(), "n".into()];
    let rows = vec![vec![Cell::Empty, Cell::Count(1)], vec![Cell::Bytes(2048), Cell::Count(1)]];
    let grid = Grid { head, rows, ..Grid::default() };
    let page = page_of(Document { terms, ..Document::new("x") }.with(Block::Grid(grid)), "x");
    let head = "<th scope=\"col\" class=\"n\" data-unit=\"bytes\" title=\"Bytes &quot;read&quot;.\">";
    assert!(page.contains(head), "{page}");
    assert!(page.contains("<th scope=\"col\" class=\"n\"><button type=\"button\">n<"), "{page}");
}

#[test]
fn the_command_line_stands_at_the_end() {
    let frame = PageFrame { command: "quipu report 'a <b>'", ..PageFrame::default() };
    let page = html_page(&[], &frame);
    assert!(
        page.contains("<p>Made with <code>quipu report &#39;a &lt;b&gt;&#39;</code></p></footer>"),
        "{page}"
    );
    assert!(!html_page(&[], &PageFrame::default()).contains("Made with"));
}

#[test]
fn cells_of_one_shade_are_one_run() {
    let lane = Lane { name: "T1".into(), busy: vec![0.0, 1.0, 1.0, 0.5], note: String::new() };
    let page =
        page_of(Document::new("").with(Block::Lanes(Lanes { lanes: vec![lane], ..Lanes::default() })), "x");
    assert!(
        page.contains("<path class=\"h03\" d=\"M3 0.5h1\"/><path class=\"h06\" d=\"M1 0.5h2\"/>"),
        "{page}"
    );
}

#[test]
fn a_total_is_kept_apart_from_what_sorts() {
    let row = |name: &str, n| vec![Cell::Text(name.into()), Cell::Count(n)];
    let rows = vec![row("b", 1), row("a", 2), row("total", 3)];
    let grid = Grid { title: String::new(), head: vec!["thread".into(), "n".into()], rows, more: 0 };
    let page = page_of(Document::new("").with(Block::Grid(grid)), "x");
    assert!(page.contains("<tfoot><tr><td>total</td><td class=\"n\">3</td></tr>"), "{page}");
}

#[test]
fn documents_without_content_make_a_page() {
    let page = html_page(&[], &PageFrame::default());
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    html_page(
        &[Document::new("")
            .with(Block::Grid(Grid::default()))
            .with(Block::HeatMap(HeatMap { bands: vec![HeatBand::default()], ..HeatMap::default() }))
            .with(Block::Curve(Curve::default()))
            .with(Block::Series(Series::default()))
            .with(Block::Bars(Bars::default()))
            .with(Block::Lanes(Lanes::default()))],
        &PageFrame::default(),
    );
}
