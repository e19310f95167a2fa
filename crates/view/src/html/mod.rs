//! Renders documents as one self-contained page: no network, no second file, no framework.
//!
//! Everything is drawn here, in SVG and tables, so the page reads the same without scripts; the script in `page.js` only
//! sorts, searches, shortens and copies tables, explains words, shows values under the pointer, zooms, and switches between
//! light and dark. The size of a page is bounded for any
//! documents: long tables are cut, many lanes are folded, many similar blocks are left out, and each says so. A page stays
//! below two megabytes.
//!
//! Texts come from traces, so each passes through `text`. The page's own policy forbids all scripts and styles except its own
//! two, which are identified by their digests.
//!
//! `blocks` renders text, facts and tables; `plot` renders bars, series and curves; `raster` renders lanes and heat maps;
//! `axis` puts round numbers on axes, and `terms` explains the words of tables.

mod axis;
mod blocks;
mod bytes;
mod digest;
mod plot;
mod raster;
mod terms;
mod text;

use crate::document::title_of;
use quipu_model::doc::{Block, Document, Folds, Picture};
use std::fmt::Write as _;
use terms::Terms;
use text::{cut, escape, slug};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Maximum number of blocks shown of a document: an analysis may have one for each of thousands of threads.
const MAX_BLOCKS: usize = 24;

/// Maximum number of documents on a page, and the number of bytes after which it ends; a page says what it leaves out.
const MAX_DOCUMENTS: usize = 64;
const MAX_BYTES: usize = 1200 << 10;

/// Maximum number of parts that open on demand, and of pictures in each.
const MAX_FOLDS: usize = 48;
const MAX_PICTURES: usize = 8;

/// Maximum length of a command line.
const MAX_COMMAND: usize = 4096;

/// Texts around the documents of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageFrame<'a> {
    /// The headline: the subject of the page.
    pub title: &'a str,
    /// A line below it, or empty.
    pub subtitle: &'a str,
    /// The last line: the program that made the page.
    pub footer: &'a str,
    /// The command line that made it, as a shell takes it, or empty.
    pub command: &'a str,
}

/// Renders the documents as a complete HTML page, a section for each, in this order. A document without a title has no
/// headline and is at the top.
///
/// ```
/// use quipu_model::doc::{Block, Document};
/// use quipu_view::{PageFrame, html_page};
///
/// let document = Document::new("Counts").with(Block::Note("a <b> is no element".into()));
/// let page = html_page(&[document], &PageFrame { title: "a.trace", ..PageFrame::default() });
/// assert!(page.starts_with("<!doctype html>"));
/// assert!(page.contains("a &lt;b&gt; is no element"));
/// ```
pub fn html_page(documents: &[Document], frame: &PageFrame<'_>) -> String {
    let documents = &documents[..documents.len().min(MAX_DOCUMENTS)];
    let mut out = String::with_capacity(256 << 10);
    let title = escape(frame.title);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src '{}'; script-src '{}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title} – Quipu</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<a class=\"skip\" href=\"#content\">Skip to the content</a>\n\
         <header class=\"top\">\n<div><p class=\"brand\">Quipu</p>\n<h1>{title}</h1>\n",
        digest::source_of(STYLE),
        digest::source_of(SCRIPT),
    );
    if !frame.subtitle.is_empty() {
        let _ = writeln!(out, "<p class=\"subtitle\">{}</p>", escape(frame.subtitle));
    }
    out.push_str(CONTROLS);
    contents(documents, &mut out);
    out.push_str("<main id=\"content\">\n");
    let blocks = documents.iter().flat_map(|document| &document.blocks);
    let pictures: Vec<&Picture> = blocks
        .filter_map(|block| match block {
            Block::Pictures(pictures) => Some(&pictures.pictures),
            _ => None,
        })
        .flatten()
        .collect();
    for (number, document) in documents.iter().enumerate() {
        section(number, document, &pictures, &mut out);
    }
    let _ = write!(out, "</main>\n<footer><p>{}</p>", escape(frame.footer));
    if !frame.command.is_empty() {
        let command = escape(&cut(frame.command, MAX_COMMAND));
        let _ = write!(out, "<p>Made with <code>{command}</code></p>");
    }
    let _ = write!(
        out,
        "</footer>\n<p id=\"said\" role=\"status\"></p>\n<div id=\"tip\" role=\"status\" hidden></div>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    );
    out
}

/// What the script shows and answers: the search, folding, light and dark.
const CONTROLS: &str = "</div>\n<div class=\"controls\"><p id=\"finder\" hidden><label for=\"search\">Search tables</label> \
    <input type=\"search\" id=\"search\" autocomplete=\"off\" spellcheck=\"false\"> \
    <output id=\"found\" for=\"search\"></output></p>\
    <button type=\"button\" id=\"fold\" hidden>Fold all</button> \
    <button type=\"button\" id=\"theme\" hidden>Dark</button></div>\n</header>\n";

/// Links to the sections that have a headline.
fn contents(documents: &[Document], out: &mut String) {
    out.push_str("<nav aria-label=\"Sections\"><ol>");
    for (number, document) in documents.iter().enumerate().filter(|(_, document)| !document.title.is_empty())
    {
        let (slug, title) = (slug(number, &document.title), escape(&document.title));
        let _ = write!(out, "<li><a href=\"#{slug}\">{title}</a></li>");
    }
    out.push_str("</ol></nav>\n");
}

fn section(number: usize, document: &Document, pictures: &[&Picture], out: &mut String) {
    if document.title.is_empty() {
        out.push_str("<section class=\"lead\">\n");
    } else {
        let (slug, title) = (slug(number, &document.title), escape(&document.title));
        let _ = write!(
            out,
            "<section id=\"{slug}\" aria-labelledby=\"{slug}-h\">\n<details class=\"fold\" open>\
             <summary><h2 id=\"{slug}-h\">{title}</h2></summary>\n"
        );
    }
    let mut n_shown = 0;
    let mut drawings = Vec::new();
    let prefix = format!("p{number}-");
    let folds = document.blocks.iter().find_map(|block| match block {
        Block::Folds(folds) => Some(folds),
        _ => None,
    });
    // The first series opens the parts that it shows.
    let mut opens = folds.map_or_else(String::new, |folds| {
        let noun = escape(&folds.noun);
        format!(" data-part=\"{prefix}\" data-parts=\"{}\" data-noun=\"{noun}\"", folds.whole)
    });
    for block in document.blocks.iter().take(MAX_BLOCKS) {
        if out.len() > MAX_BYTES {
            break;
        }
        n_shown += 1;
        let title = title_of(block);
        // The whole comes first; its parts, such as each thread, open on demand.
        let is_text = matches!(block, Block::Listing(_));
        let is_part = is_text || !title.is_empty() && drawings.contains(&std::mem::discriminant(block));
        if is_part {
            let _ = writeln!(out, "<details><summary>{}</summary>", escape(title));
        } else if !title.is_empty() {
            let _ = writeln!(out, "<h3>{}</h3>", escape(title));
        }
        let words = if title.is_empty() { document.title.as_str() } else { title };
        match block {
            Block::Series(series) => plot::series(series, &std::mem::take(&mut opens), out),
            Block::Folds(folds) => paint_folds(folds, &prefix, document, pictures, out),
            block => paint_block(block, words, Terms::new(document), out),
        }
        if is_part {
            out.push_str("</details>\n");
        }
        if matches!(
            block,
            Block::Series(_) | Block::Lanes(_) | Block::HeatMap(_) | Block::Bars(_) | Block::Curve(_)
        ) {
            drawings.push(std::mem::discriminant(block));
        }
    }
    let more = document.blocks.len() - n_shown;
    if more > 0 {
        blocks::more(more as u64, "parts", out);
    }
    out.push_str(if document.title.is_empty() { "</section>\n" } else { "</details>\n</section>\n" });
}

/// Renders parts that open on demand, each with the pictures that belong to it. Their ids begin with `prefix`.
fn paint_folds(folds: &Folds, prefix: &str, document: &Document, pictures: &[&Picture], out: &mut String) {
    let mut n_shown = 0;
    for fold in folds.folds.iter().take(MAX_FOLDS) {
        if out.len() > MAX_BYTES {
            break;
        }
        n_shown += 1;
        let note = if fold.note.is_empty() { String::new() } else { format!(": {}", fold.note) };
        let (name, note) = (escape(&cut(&fold.name, plot::MAX_WORDS)), escape(&cut(&note, plot::MAX_WORDS)));
        let _ = writeln!(
            out,
            "<details class=\"part\" id=\"{prefix}{}\"><summary>{name}<span class=\"note\">{note}</span></summary>",
            fold.at
        );
        for block in &fold.blocks {
            paint_block(block, &fold.name, Terms::new(document), out);
        }
        let within = pictures.iter().filter(|picture| picture.at.is_some_and(|at| fold.covers.contains(&at)));
        blocks::pictures(within.copied().take(MAX_PICTURES), out);
        out.push_str("</details>\n");
    }
    let more = folds.whole.saturating_sub(n_shown);
    if more > 0 {
        blocks::more(more, "without their content", out);
    }
}

/// Renders a block; `words` name it.
fn paint_block(block: &Block, words: &str, terms: Terms<'_>, out: &mut String) {
    match block {
        Block::Note(note) => blocks::note(note, out),
        Block::Figures(figures) => blocks::figures(figures, terms, out),
        Block::Facts(facts) => blocks::facts(facts, words, terms, out),
        Block::Grid(grid) => blocks::grid(grid, words, terms, out),
        Block::Bars(bars) => plot::bars(bars, out),
        Block::Series(series) => plot::series(series, "", out),
        Block::Curve(curve) => plot::curve(curve, out),
        Block::Lanes(lanes) => raster::lanes(lanes, out),
        Block::HeatMap(map) => raster::heat_map(map, out),
        Block::ByteMap(map) => bytes::byte_map(map, out),
        Block::Pictures(pictures) => blocks::pictures(pictures.pictures.iter(), out),
        Block::Listing(listing) => blocks::listing(listing, out),
        // Parts have no parts of their own.
        Block::Folds(_) => {}
    }
}

#[cfg(test)]
mod tests;
