//! The self-describing stream: a container of trace data that carries its own descriptions.
//!
//! A file, pipe or socket is a sequence of *frames*, each with two checksums, a number in its stream, and a mark to find it by
//! after damage. Metadata records in some of them describe the rows in others, so a program that never met the writer can
//! read what it wrote, joined anywhere. `docs/formats/stream.md` describes the format byte by byte.
//!
//! ```text
//! Input ─ Scanner: frames ─ Session: order, metadata, losses, clocks ─ Decoder: rows of each schema as columns ─ Part
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`frame`], [`codec`], [`scan`], [`input`] | frames: headers, payloads, finding them, where bytes come from |
//! | [`meta`], [`schema`] | what is known in an epoch |
//! | [`batch`], [`mod@column`], [`decode`], [`cells`] | payloads into columns |
//! | [`session`], [`reader`], [`index`], [`survey`], [`work`] | a stream as a whole; opening large files; frames for several threads |
//! | [`loss`], [`clock`], [`blob`], [`aggregate`] | what else it says |
//! | [`bare`] | metadata records without frames |
//! | [`mod@write`], [`spec`], [`record`], [`datum`], [`pack`] | writing: the stream, schemas, rows of structures and of values |
//! | [`open`] | rooms in files that programs have mapped, which outlive the program |
//! | [`mod@slice`] | parts of streams as streams, flight recorders, appending |
//! | [`follow`], [`ending`] | files that grow; whether a producer has ended |
//! | [`ranges`] | sets of numbers of frames |
//! | [`json`], [`text`], [`float`], [`summary`] | records for programs and people |
//!
//! Bodies of other formats are handed out as bytes; those formats' own crates decode them.

pub mod aggregate;
pub mod bare;
pub mod batch;
pub mod blob;
pub mod cells;
pub mod clock;
pub mod codec;
pub mod column;
pub mod datum;
pub mod decode;
pub mod ending;
pub mod finding;
pub mod float;
pub mod follow;
pub mod frame;
pub mod index;
pub mod input;
pub mod json;
pub mod loss;
pub mod meta;
pub mod open;
mod order;
pub mod pack;
mod packed;
pub mod ranges;
pub mod reader;
pub mod record;
pub mod recorder;
pub mod scan;
pub mod schema;
pub mod select;
pub mod session;
pub mod slice;
mod snapshot;
pub mod spec;
pub mod summary;
pub mod survey;
pub mod text;
pub mod work;
pub mod write;

pub use quipu_wire as wire;
