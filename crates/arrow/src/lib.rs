//! Tables as Arrow's record batches, and back: the one place that knows what each type of a [`Schema`] is called there.
//!
//! Every table, lens and result has a schema, and the engine gives rows that need nothing beside them. An [`Encoder`] turns
//! their columns into a `RecordBatch`: vectors and texts change hands without a copy; bits, names and signs are written anew.
//! A [`Decoder`] goes the other way. What Arrow has no word for (roles, units, how a row says that it has no value, the numbers
//! of names) stands in the metadata of fields, so that both ways together change nothing; [`schema`] lists the keys.
//!
//! A [`RowFile`](read::RowFile) reads them, from files of anybody.
//! A [`Sink`] writes batches as a file or stream of Arrow, or as Parquet with statistics of pages, deltas for addresses and
//! counters, and dictionaries for names.
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
