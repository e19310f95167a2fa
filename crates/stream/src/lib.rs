//! The self-describing stream: a container of trace data that carries its own descriptions.
//!
//! A file, pipe or socket is a sequence of *frames*, each with two checksums, a sequence number, and sync bytes by which a
//! reader finds it after damage. Metadata records in some frames describe the rows in others, so a program without knowledge
//! of the writer can read the stream, from any point on. `docs/formats/stream.md` describes the format byte by byte.
//!
//! ```text
//! Input ─ Scanner: frames ─ Session: order, metadata, losses, clocks ─ Decoder: rows of each schema as columns ─ Part
//! ```
//!
//! | module | does |
//! |---|---|
//! | [`frame`], [`codec`], [`scan`], [`input`] | frames: headers, payloads, finding frames, sources of bytes |
//! | [`meta`], [`schema`] | the metadata of an epoch |
//! | [`batch`], [`mod@column`], [`decode`], [`cells`] | payloads into columns |
//! | [`session`], [`reader`], [`index`], [`survey`], [`work`] | whole streams; opening large files; frames for several threads |
//! | [`loss`], [`clock`], [`blob`], [`aggregate`] | losses, clocks, attachments, aggregations |
//! | [`bare`] | metadata records without frames |
//! | [`mod@write`], [`spec`], [`record`], [`datum`], [`pack`] | writing: the stream, schemas, rows of structures and of values |
//! | [`open`] | open frames in files that programs have mapped, which outlive the program |
//! | [`mod@slice`] | cutting streams into streams, flight recorders, appending |
//! | [`follow`], [`ending`] | files that grow; whether a producer has ended |
//! | [`ranges`] | sets of frame numbers |
//! | [`json`], [`text`], [`float`], [`summary`] | records for programs and people |
//!
//! Bodies of other formats are returned as bytes; the crates of those formats decode them.

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
