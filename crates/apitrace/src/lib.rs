//! The apitrace format: graphics API calls with their values.
//!
//! [`APITRACE`] is the format as the rest of Quipu sees it. Inside, each file knows one thing:
//!
//! | file | what |
//! |---|---|
//! | [`record`] | the numbers of the format and the limits of this reader |
//! | [`decode`] | bytes → calls: events, signatures, values, open calls |
//! | [`feed`] | blocks of a stream → events |
//! | [`flags`] | what functions do, by their names |
//! | [`lens`], [`table`] | calls → columns |
//! | [`trace`], [`reader`] | opening a trace, reading batches |
//! | [`index`] | where reading may begin, kept in a file |
//! | [`print`](mod@print), [`callset`] | calls as text, and which |
//! | [`encode`], [`pack`], [`write`](mod@write) | calls → bytes, bytes → containers, files |
//! | [`edits`] | trimming, replacing values |
//! | [`diff`] | what differs between two traces |
//! | [`objects`] | what arguments name |
//! | [`text`] | the stream as text, and back |
//! | [`salvage`], [`recover`], [`check`] | reading on after damage, and what it is for |
//! | [`tools`] | analyses of calls with their values |
//! | [`survey`] | what only reading all of it tells: frames, sizes |
//!
//! The format itself is described in docs/formats/apitrace.md.

pub mod callset;
pub mod check;
pub mod cursor;
pub mod decode;
pub mod diff;
pub mod edits;
pub mod encode;
pub mod feed;
pub mod flags;
pub mod index;
pub mod lens;
pub mod objects;
pub mod pack;
pub mod print;
pub mod reader;
pub mod record;
pub mod recover;
pub mod salvage;
pub mod survey;
pub mod table;
pub mod text;
pub mod tools;
pub mod trace;
pub mod write;

use callset::CallSet;
use quipu_model::options::Kind;
use quipu_model::{
    Comparison, Confidence, Error, Format, FormatInfo, OpenOptions, OptionSpec, Options, Result, RuleInfo,
    Tool, Trace, Transform,
};
use quipu_source::Source;
use regex_lite::Regex;

/// The format, as the list of formats names it.
pub static APITRACE: Apitrace = Apitrace;

/// The type of [`APITRACE`].
#[derive(Debug)]
pub struct Apitrace;

/// What is known of the format without opening a trace.
pub static INFO: FormatInfo = FormatInfo {
    name: "apitrace",
    title: "graphics API calls with their values (stream versions 0 to 6)",
    extensions: &["trace"],
    beyond_lenses: &["values of arguments that do not fit into 64 bits, stacks"],
    doc: "docs/formats/apitrace.md",
    options: &[INDEX],
    print_options: print::settings::OPTIONS,
};

/// Where an index for large traces is kept.
pub(crate) const INDEX: OptionSpec = OptionSpec::new(
    "index",
    Kind::Choice(&["auto", "cache", "beside", "no"]),
    "auto",
    "An index for large traces; for any, cached or beside; none.",
)
.value("auto|cache|beside|no");

/// An option that may be given as `yes`, `no` or alone.
pub(crate) const fn truth(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, Kind::Flag, default, doc).value("yes|no").bare("yes")
}

/// The union of all sets that an option is given; `None` if none is.
///
/// # Errors
/// `Usage` if one is not written as it should be.
pub(crate) fn call_set(options: &Options, spec: &OptionSpec) -> Result<Option<CallSet>> {
    let mut all: Option<CallSet> = None;
    for text in options.texts(spec) {
        all.get_or_insert_default().add(text)?;
    }
    Ok(all)
}

/// The regular expression that an option is given.
///
/// # Errors
/// `Usage` if it is none.
pub(crate) fn pattern(options: &Options, spec: &OptionSpec) -> Result<Option<Regex>> {
    let of = |text: &str| {
        Regex::new(text)
            .map_err(|cause| Error::usage(format!("`{text}` is no regular expression")).because(cause))
    };
    options.text(spec).map(of).transpose()
}

impl Format for Apitrace {
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
        edits::EDITS
    }

    fn comparison(&self) -> Option<&'static dyn Comparison> {
        Some(&diff::Diff)
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        tools::TOOLS
    }

    fn rules(&self) -> &'static [RuleInfo] {
        check::RULES
    }
}
