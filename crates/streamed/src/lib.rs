//! The self-describing stream as a format: `.quipu` files, whatever their schemas.
//!
//! [`STREAM`] is the format as the rest of Quipu sees it; the container itself is `quipu_stream`. Each file knows one thing:
//!
//! | file | what |
//! |---|---|
//! | [`bodies`] | rows in bodies of other encodings: streams of Arrow |
//! | `bytes` | bytes of a source for the container's reader |
//! | [`schema`] | schemas of a stream as schemas of tables, and which columns fill lenses |
//! | `look` | which frames a stream has, found out once |
//! | `folder` | several files of streams as one |
//! | `column` | columns of a stream as columns of tables |
//! | [`trace`] | recognising and opening a trace, its shards |
//! | [`reader`] | frames → batches |
//! | [`recording`] | cells of programs that record themselves |
//! | `functions` | which function an address of code is in |
//! | `lens` | rows → lenses, by the roles of their fields |
//! | [`carried`] | traces of other formats that a stream carries |
//! | [`carry`] | traces of other formats put into streams |
//! | [`back`] | their files written as they were |
//! | [`mod@copy`] | streams of rows written again |
//! | [`edit`] | parts of such streams, and streams in other files or another order |
//! | [`diff`] | which records of two streams differ |
//! | [`describe`] | metadata record by record |
//! | [`print`](mod@print) | records as people read them |
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
