//! Presentation of rows and results.
//!
//! [`paint`] draws a [`Document`](quipu_model::doc::Document) on a terminal or as plain text, [`html_page`] makes a page for
//! a browser from several, [`table_csv`] writes a table as comma-separated values. [`RowLines`] writes rows of any table as
//! JSON lines or CSV, and [`Progress`] draws one line on standard error during a long read.
//!
//! Nothing here depends on a format or an analysis: schemas and documents contain all that is needed. Nothing here reads a
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
pub use look::{Charset, Look, Overflow};
pub use progress::{Progress, progress_text};
pub use tables::table_csv;
pub use value::{bytes_text, date_text, grouped, ticks_text};
