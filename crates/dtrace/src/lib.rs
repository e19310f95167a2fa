//! DTrace: reads buffers with the descriptions needed to print them, on any machine.
//!
//! DTrace's kernel part writes records without their meaning, which only its library knows. A capture has both, so it can be
//! printed without that kernel or library; the text equals the consumer's byte for byte.
//!
//! | module | contents |
//! |---|---|
//! | [`describe`] | probes, enablings, aggregations, buffers: a capture |
//! | [`action`], [`options`], [`symbols`], [`types`], [`zone`], [`locale`], [`names`] | the parts of descriptions |
//! | [`meta`], [`linux`] | folders with `meta.json`; `raw.jsonl` |
//! | [`mid`], `described`, `type_records` | buffers with metadata records in them; these records |
//! | [`carried`], [`carry`] | reading captures from `.quipu` streams, and writing them |
//! | [`combine`], [`host`] | combining captures of several machines; the properties of each host |
//! | [`origin`] | the text from which descriptions were read |
//! | [`build`] | captures built step by step by a consumer |
//! | `examine` | faults of buffers, found when a capture is loaded |
//! | [`dense`], [`dense_samples`] | buffers and samples as differences and runs, encodings of streams |
//! | [`validate`] | checks of descriptions before use |
//! | [`layout`], [`raw`] | the layout of records by kernels, and their descriptions |
//! | [`buffer`], [`walk`] | records of a buffer; the order in which a consumer processes them |
//! | [`aggregate`], [`value`], [`quipu_model::buckets`] | aggregations: keys and values, merged |
//! | [`consumer`] | records → text |
//! | [`format`](mod@format), `convert`, [`float`], [`put`] | format strings and their conversions |
//! | `json`, `objects`, `say` | records as JSON; descriptions as text |
//! | `text`, `stack`, `typed` | values, stacks, values by their types |
//! | `aggtext`, `sort`, `histogram`, `bars`, `packed` | aggregations as text |
//! | `plan`, `library`, `flow`, `messages` | the actions for each part of a record |
//! | [`quirks`] | wrong output of consumers |
//! | [`trace`], [`reader`], [`table`], `print` | the format as the rest of Quipu uses it |
//! | [`export`] | captures as folders of files |
//! | [`rewrite`] | `convert`: captures as streams, buffers with their descriptions; `merge` |
//! | [`tools`] | the analyses `aggregations` and `timeline` |
//! | [`check`], [`rules`] | the rules that a capture must follow |
//!
//! docs/formats/dtrace.md describes the formats.

pub mod action;
pub mod aggregate;
mod aggtext;
mod bars;
pub mod buffer;
pub mod build;
pub mod bytes;
pub mod carried;
pub mod carry;
pub mod check;
pub mod combine;
pub mod consumer;
mod convert;
pub mod dense;
pub mod dense_samples;
pub mod describe;
mod described;
mod examine;
pub mod export;
pub mod float;
mod flow;
pub mod format;
mod histogram;
pub mod host;
mod input;
mod json;
pub mod layout;
mod library;
pub mod linux;
pub mod locale;
pub mod lost;
mod messages;
pub mod meta;
pub mod mid;
pub mod names;
mod objects;
pub mod options;
pub mod origin;
mod packed;
mod plan;
mod print;
pub mod put;
pub mod quirks;
pub mod raw;
pub mod reader;
pub mod rewrite;
pub mod rules;
mod say;
pub mod script;
mod sort;
mod stack;
pub mod symbols;
pub mod table;
mod text;
pub mod tools;
pub mod trace;
mod tree;
mod type_records;
mod typed;
pub mod types;
pub mod validate;
pub mod value;
pub mod walk;
pub mod zone;

pub use consumer::{Printed, Style, objects_to, print, print_to};
pub use describe::{Capture, Dialect};

use quipu_model::options::Kind;
use quipu_model::trace::Description;
use quipu_model::{
    Confidence, Format, FormatInfo, OpenOptions, OptionSpec, Result, RuleInfo, Tool, Trace, Transform,
};
use quipu_source::Source;

/// The format, for the list of formats.
pub static DTRACE: Dtrace = Dtrace;

/// The type of [`DTRACE`].
#[derive(Debug)]
pub struct Dtrace;

/// The option for options of the consumer.
pub(crate) const CONSUMER: OptionSpec = OptionSpec::new(
    "consumer",
    Kind::Text,
    "as captured",
    "Options of the consumer's `-x`, comma-separated: quiet, temporal, aggsortkey=1.",
)
.value("LIST")
.repeated();

/// The option to reproduce wrong values of the consumer.
pub(crate) const QUIRKS: OptionSpec =
    OptionSpec::flag("quirks", "Print what the tracing program would have printed, including wrong values.");

/// The description of the format.
pub static INFO: FormatInfo = FormatInfo {
    name: "dtrace",
    title: "what DTrace recorded: buffers with their descriptions",
    extensions: &["jsonl"],
    // The reader counts aggregations, which have no lens.
    beyond_lenses: &["aggregations", "values of records"],
    doc: "docs/formats/dtrace.md",
    options: &[CONSUMER],
    print_options: &[QUIRKS],
};

impl Format for Dtrace {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        trace::probe(source)
    }

    fn probe_far(&self, source: &Source) -> Confidence {
        trace::probe_far(source)
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options)?))
    }

    fn transforms(&self) -> &'static [&'static dyn Transform] {
        &[&rewrite::Convert, &rewrite::Merge]
    }

    fn describe(&self, source: &Source, options: &OpenOptions) -> Result<Description> {
        let capture = trace::load(source, options)?;
        let (text, json) = (say::lines(&capture), say::json(&capture));
        Ok(Description { text, json, findings: capture.findings })
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        static TOOLS: &[&dyn Tool] =
            &[&check::CHECK, &tools::aggregations::Values, &tools::timeline::Timeline];
        TOOLS
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }
}
