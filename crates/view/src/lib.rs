//! How rows and results look.
//!
//! [`paint`] draws a [`Document`](quipu_model::doc::Document) on a terminal or a page of plain text, [`html_page`] makes a
//! page for a browser of several, [`table_csv`] makes comma-separated values of a table. [`RowLines`] writes
//! rows of any table as JSON lines or CSV, and [`Progress`] draws one line on standard error while a long read runs.
//!
//! Nothing here knows a format or an analysis: schemas and documents say all there is to know. Nothing here reads a
//! trace or writes a file either: text goes into buffers that the caller owns and reuses.

mod bytes;
mod chart;
mod codes;
mod document;
mod grid;
mod html;
mod lines;
mod look;
mod map;
mod progress;
mod tables;
mod value;

pub use document::paint;
pub use html::{PageFrame, html_page};
pub use lines::{LineForm, RowLines};
pub use look::{Charset, Look};
pub use progress::{Progress, progress_text};
pub use tables::table_csv;
pub use value::{bytes_text, date_text, grouped, ticks_text};
