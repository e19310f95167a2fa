//! The self-describing stream as a format: `.quipu` files, whatever their schemas.
//!
//! [`STREAM`] is the format for the rest of Quipu; the container itself is the crate `quipu_stream`. Each file has one subject:
//!
//! | file | what |
//! |---|---|
//! | [`bodies`] | decodes bodies in other encodings: Arrow streams |
//! | `bytes` | random access to the bytes of a source |
//! | [`schema`] | converts schemas of a stream to schemas of tables; the columns that fill lenses |
//! | `look` | surveys the frames and metadata of a stream, once for all readers |
//! | `folder` | reads several stream files as one stream |
//! | `column` | converts columns of a stream to columns of tables |
//! | [`trace`] | recognises and opens streams; tables and shards |
//! | [`reader`] | frames → batches |
//! | [`recording`] | cells of programs that record themselves |
//! | `functions` | finds the functions that contain code addresses |
//! | `lens` | rows → lenses, by the roles of their fields |
//! | [`carried`] | finds traces of other formats inside streams |
//! | [`carry`] | puts traces of other formats into streams |
//! | [`back`] | restores the files of such traces |
//! | [`mod@copy`] | copies streams of rows |
//! | [`edit`] | trims, filters, splits and merges streams of rows |
//! | [`diff`] | compares the records of two streams |
//! | [`describe`] | describes metadata record by record |
//! | [`print`](mod@print) | prints records for people |
//! | [`check`], [`rules`] | the rules that a stream must follow |
//!
//! The format itself is described in docs/formats/stream.md.

mod aggregations;
pub mod back;
pub mod bodies;
mod bytes;
pub mod carried;
pub mod carry;
pub mod check;
mod column;
pub mod copy;
pub mod describe;
mod described;
pub mod diff;
pub mod edit;
mod folder;
mod found;
mod frames;
mod frozen;
mod functions;
mod lens;
mod look;
mod parts;
pub mod print;
pub mod reader;
pub mod recording;
pub mod rules;
pub mod schema;
pub mod trace;

use quipu_model::trace::{Carried, Description};
use quipu_model::transform::Comparison;
use quipu_model::{Confidence, Format, FormatInfo, OpenOptions, Result, RuleInfo, Tool, Trace, Transform};
use quipu_source::Source;

/// The format, for the list of formats.
pub static STREAM: Stream = Stream;

/// The type of [`STREAM`].
#[derive(Debug)]
pub struct Stream;

/// Properties of the format that need no trace.
pub static INFO: FormatInfo = FormatInfo {
    name: "stream",
    title: "streams that describe themselves",
    extensions: &["quipu"],
    beyond_lenses: &["aggregations", "values of records that no lens shows"],
    doc: "docs/formats/stream.md",
    options: &[],
    print_options: &[],
};

impl Format for Stream {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        trace::probe(source)
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options)?))
    }

    fn carries(&self) -> bool {
        true
    }

    fn carried(&self, source: &Source) -> Result<Vec<Carried>> {
        carried::carried(source)
    }

    fn transforms(&self) -> &'static [&'static dyn Transform] {
        &[&copy::Copy, &edit::Trim, &edit::Filter, &edit::Split, &edit::Merge]
    }

    fn comparison(&self) -> Option<&'static dyn Comparison> {
        Some(&diff::Diff)
    }

    fn describe(&self, source: &Source, options: &OpenOptions) -> Result<Description> {
        let trace = trace::open(source, options)?;
        let carried = describe::carried_json(&carried::carried(source)?)?;
        let mut json = describe::json(&trace)?;
        let text = describe::carried_lines(&carried) + &describe::lines(&json);
        json["carries"] = carried;
        Ok(Description { text, json, findings: copy::all_findings(&trace)? })
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        static TOOLS: &[&dyn Tool] = &[&check::CHECK, &aggregations::Aggregations];
        TOOLS
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }
}
