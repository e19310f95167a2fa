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
//! | [`salvage`], [`recover`], [`check`] | reading on behind damage, and what it is for |
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

use quipu_model::trace::SettingInfo;
use quipu_model::{
    Comparison, Confidence, Edit, Format, FormatInfo, OpenOptions, Result, RuleInfo, Tool, Trace,
};
use quipu_source::Source;

/// The format, as the list of formats names it.
pub static APITRACE: Apitrace = Apitrace;

/// The type of [`APITRACE`].
#[derive(Debug)]
pub struct Apitrace;

/// What is known of the format without a trace at hand.
pub static INFO: FormatInfo = FormatInfo {
    name: "apitrace",
    title: "graphics API calls with their values (stream versions 0 to 6)",
    extensions: &["trace"],
    abilities: &["read", "view", "analyze", "check", "write", "edit", "compare", "recover"],
    beyond_lenses: &["values of arguments that do not fit into 64 bits, stacks"],
    doc: "docs/formats/apitrace.md",
    settings: &[setting(
        "index",
        "auto|cache|beside|no",
        "auto",
        "An index for large traces; for any, cached or beside; none.",
    )],
    print_settings: &[
        setting("thread-ids", "yes|no", "no", "Whether the thread stands before each call."),
        setting("call-nos", "yes|no", "yes", "Whether the number stands before each call."),
        setting("arg-names", "yes|no", "yes", "Whether arguments have their names."),
        setting("multiline", "yes|no", "yes", "Whether a call may take several lines, with its stack."),
        setting("grep", "REGEX", "", "Only functions whose names have this in them."),
        setting("calls", "SET", "*", "Only these calls: numbers, ranges, `frame`, `draw`, `fbo`, `@FILE`."),
        setting("frames", "SET", "*", "Only calls of these frames, counted from 0: numbers and ranges."),
        setting("blobs", "FOLDER", "", "Writes raw memory to files in this folder."),
        setting("replace", "yes|no", "no", "Whether such files may replace others."),
        setting(
            "strings",
            "dump|whole",
            "dump",
            "Escapes as apitrace writes them, or ones that lose nothing.",
        ),
    ],
};

pub(crate) const fn setting(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    doc: &'static str,
) -> SettingInfo {
    SettingInfo { name, value, default, doc }
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
    fn edits(&self) -> &'static [&'static dyn Edit] {
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
