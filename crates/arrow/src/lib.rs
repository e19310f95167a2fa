//! Tables as Arrow's record batches, and back; only this crate maps the types of a [`Schema`] to Arrow's.
//!
//! Every table, lens and result has a schema, and the engine's rows refer to nothing outside of themselves. An [`Encoder`]
//! turns their columns into a `RecordBatch`: vectors and texts change owners without a copy; bits, names and signs are written
//! anew. A [`Decoder`] does the reverse. Properties that Arrow cannot express (roles, units, how a row without a value is
//! marked, the numbers of names) are stored in the metadata of fields, so that encoding and then decoding changes nothing;
//! [`schema`] lists the keys.
//!
//! A [`RowFile`](read::RowFile) reads files from any program. A [`Sink`] writes batches as a file or stream of Arrow, or as
//! Parquet with page statistics, delta encoding for addresses and counters, and dictionaries for names.
//!
//! [`Schema`]: quipu_model::Schema

#![warn(missing_docs)]

pub mod about;
mod decode;
mod encode;
mod fault;
mod names;
pub mod read;
pub mod schema;
mod write;

pub use decode::Decoder;
pub use encode::Encoder;
pub use fault::{of_arrow, of_parquet};
pub use schema::{Interop, arrow_schema, table_schema};
pub use write::{Form, Packing, Sink};
