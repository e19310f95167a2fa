//! The Cacheray format: memory accesses, and the types of the memory that they access.
//!
//! [`CACHERAY`] is the format as the rest of Quipu sees it. Each module has one task:
//!
//! | file | what |
//! |---|---|
//! | [`record`] | tags, layouts, dialects, limits |
//! | [`decode`] | bytes ⇄ records |
//! | [`plausible`] | properties of real records: detecting dialects, finding records after damage |
//! | [`codec`], [`table`] | records → batches, rows; the loop around it is [`quipu_records`] |
//! | [`trace`], `survey` | opening a trace, facts that require reading all of it |
//! | [`check`], [`rules`] | the rules that a trace must follow |
//! | [`counts`] | numbers of records |
//! | [`write`](mod@write) | batches → files |
//! | [`import`] | records of other formats |
//!
//! The format itself is described in docs/formats/cacheray.md.

pub mod check;
pub mod codec;
pub mod counts;
pub mod decode;
pub mod import;
pub mod plausible;
pub mod record;
pub mod rules;
mod survey;
pub mod table;
pub mod trace;
pub mod write;

use quipu_model::convert::RecordWriter;
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::{Confidence, Format, FormatInfo, OpenOptions, Result, RuleInfo, Tool, Trace, Transform};
use quipu_source::Source;

/// The format, for the list of formats.
pub static CACHERAY: Cacheray = Cacheray;

/// The type of [`CACHERAY`].
#[derive(Debug)]
pub struct Cacheray;

/// Static description of the format.
pub static INFO: FormatInfo = FormatInfo {
    name: "cacheray",
    title: "memory accesses with the types of what they touch",
    extensions: &["trace", "cacheray"],
    beyond_lenses: &["flags of atomic and unaligned accesses"],
    doc: "docs/formats/cacheray.md",
    options: &[DIALECT],
    print_options: &[],
};

/// The option for the dialect of a trace.
pub(crate) const DIALECT: OptionSpec = OptionSpec::new(
    "dialect",
    Kind::Choice(&["auto", "le64", "be64", "ilp32"]),
    "auto",
    "Byte order and width of addresses, which the file does not record.",
)
.value("auto|le64|be64|ilp32");

static TOOLS: &[&dyn Tool] = &[&check::CHECK, &counts::CountsTool];

impl Format for Cacheray {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        trace::probe(source)
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options)?))
    }

    fn transforms(&self) -> &'static [&'static dyn Transform] {
        &[&write::Convert]
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        TOOLS
    }

    fn record_writer(&self) -> Option<&'static dyn RecordWriter> {
        Some(&import::FromOthers)
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }
}
