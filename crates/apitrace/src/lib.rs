//! The apitrace format: graphics API calls with their values.
//!
//! [`APITRACE`] is the format as the rest of Quipu sees it. Each module has one task:
//!
//! | file | what |
//! |---|---|
//! | [`record`] | the numbers of the format and the limits of this reader |
//! | [`decode`] | bytes → calls: events, signatures, values, open calls |
//! | [`feed`] | blocks of a stream → events |
//! | [`flags`] | effects of functions, by their names |
//! | [`lens`], [`table`] | calls → columns |
//! | [`trace`], [`reader`] | opening a trace, reading batches |
//! | [`index`] | checkpoints where reading may begin, kept in a file |
//! | [`print`](mod@print), [`callset`] | calls as text, and sets of calls |
//! | [`encode`], [`pack`], [`write`](mod@write) | calls → bytes, bytes → containers, files |
//! | [`edits`] | trimming, replacing values |
//! | [`diff`] | differences between two traces |
//! | [`objects`] | which arguments name objects |
//! | [`text`] | the stream as text, and back |
//! | [`salvage`], [`recover`], [`check`] | reading past damage, and its uses |
//! | [`tools`] | analyses of calls with their values |
//! | [`survey`] | facts that require reading the whole trace: frames, sizes |
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

/// The format, for the list of formats.
pub static APITRACE: Apitrace = Apitrace;

/// The type of [`APITRACE`].
#[derive(Debug)]
pub struct Apitrace;

/// Static description of the format.
pub static INFO: FormatInfo = FormatInfo {
    name: "apitrace",
    title: "graphics API calls with their values (stream versions 0 to 6)",
    extensions: &["trace"],
    beyond_lenses: &["values of arguments that do not fit into 64 bits, stacks"],
    doc: "docs/formats/apitrace.md",
    options: &[INDEX],
    print_options: print::settings::OPTIONS,
};

/// The option for the location of the index of a large trace.
pub(crate) const INDEX: OptionSpec = OptionSpec::new(
    "index",
    Kind::Choice(&["auto", "cache", "beside", "no"]),
    "auto",
    "Index of large traces; of any, in the cache or beside the trace; or none.",
)
.value("auto|cache|beside|no");

/// A flag that may be given as `yes`, `no`, or without a value.
pub(crate) const fn truth(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, Kind::Flag, default, doc).value("yes|no").bare("yes")
}

/// The union of all sets given for an option; `None` if it is not given.
///
/// # Errors
/// `Usage` if a set is malformed.
pub(crate) fn call_set(options: &Options, spec: &OptionSpec) -> Result<Option<CallSet>> {
    let mut all: Option<CallSet> = None;
    for text in options.texts(spec) {
        all.get_or_insert_default().add(text)?;
    }
    Ok(all)
}

/// The regular expression given for an option; `None` if it is not given.
///
/// # Errors
/// `Usage` if it is malformed.
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
