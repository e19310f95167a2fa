//! Renders documents as one self-contained page: no network, no second file, no framework.
//!
//! Everything is drawn here, in SVG and tables, so the page reads the same without scripts; the script in `page.js` only
//! sorts tables, shows values under the pointer, and switches between light and dark. The size of a page is bounded for any
//! documents: long tables are cut, many lanes are folded, many similar blocks are left out, and each says so. A page stays
//! below two megabytes.
//!
//! Texts come from traces, so each passes through `text`. The page's own policy forbids all scripts and styles except its own
//! two, which are identified by their digests.
//!
//! `blocks` renders text, facts and tables; `plot` renders bars, series and curves; `raster` renders lanes and heat maps.

mod blocks;
mod bytes;
mod digest;
mod plot;
mod raster;
mod text;

use crate::document::title_of;
use quipu_model::doc::{Block, Document};
use std::fmt::Write as _;
use text::{escape, slug};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Maximum number of blocks shown of a document: an analysis may have one for each of thousands of threads.
const MAX_BLOCKS: usize = 24;

/// Maximum number of documents on a page, and the number of bytes after which it ends; a page says what it leaves out.
const MAX_DOCUMENTS: usize = 64;
const MAX_BYTES: usize = 1200 << 10;

/// Texts around the documents of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageFrame<'a> {
    /// The headline: the subject of the page.
    pub title: &'a str,
    /// A line below it, or empty.
    pub subtitle: &'a str,
    /// The last line: the program that made the page.
    pub footer: &'a str,
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
    out.push_str("</div>\n<button type=\"button\" id=\"theme\" hidden>Dark</button>\n</header>\n");
    contents(documents, &mut out);
    out.push_str("<main id=\"content\">\n");
    for (number, document) in documents.iter().enumerate() {
        section(number, document, &mut out);
    }
    let _ = write!(
        out,
        "</main>\n<footer>{}</footer>\n<div id=\"tip\" role=\"status\" hidden></div>\n<script>{SCRIPT}</script>\n\
         </body>\n</html>\n",
        escape(frame.footer)
    );
    out
}

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

fn section(number: usize, document: &Document, out: &mut String) {
    if document.title.is_empty() {
        out.push_str("<section class=\"lead\">\n");
    } else {
        let (slug, title) = (slug(number, &document.title), escape(&document.title));
        let _ = write!(
            out,
            "<section id=\"{slug}\" aria-labelledby=\"{slug}-h\">\n<h2 id=\"{slug}-h\">{title}</h2>\n"
        );
    }
    let mut n_shown = 0;
    let mut drawings = Vec::new();
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
        paint_block(block, out);
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
    out.push_str("</section>\n");
}

fn paint_block(block: &Block, out: &mut String) {
    match block {
        Block::Note(note) => blocks::note(note, out),
        Block::Figures(figures) => blocks::figures(figures, out),
        Block::Facts(facts) => blocks::facts(facts, out),
        Block::Grid(grid) => blocks::grid(grid, out),
        Block::Bars(bars) => plot::bars(bars, out),
        Block::Series(series) => plot::series(series, out),
        Block::Curve(curve) => plot::curve(curve, out),
        Block::Lanes(lanes) => raster::lanes(lanes, out),
        Block::HeatMap(map) => raster::heat_map(map, out),
        Block::ByteMap(map) => bytes::byte_map(map, out),
        Block::Pictures(pictures) => blocks::pictures(pictures, out),
        Block::Listing(listing) => blocks::listing(listing, out),
    }
}

#[cfg(test)]
mod tests;
