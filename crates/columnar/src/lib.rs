//! Files of Parquet and Arrow as traces.
//!
//! What `convert -o NAME.parquet`, `NAME.arrow` and `NAME.arrows` wrote opens as the trace that it was: native tables under their
//! names, lenses from their own files. A file of another program is one table of its columns; their names
//! say what they are for, or an option does.
//!
//! | file | what |
//! |---|---|
//! | [`files`] | recognising, opening files when they are read |
//! | [`manifest`] | what a folder says of its trace |
//! | [`roles`] | what columns of others are for |
//! | [`lens`] | rows as lenses |
//! | [`trace`] | the opened trace |
//! | [`cursor`] | rows of one file, in the order of its records |
//! | [`reader`] | rows of several files as batches |
//! | [`print`](mod@print) | rows as people read them |
//! | [`convert`] | rows as records of a stream |
//! | [`check`], [`rules`] | what must hold |
//!
//! The layout of folders is described in docs/formats/columnar.md; the files themselves are `quipu_arrow`'s.

#![warn(missing_docs)]

pub mod check;
pub mod convert;
pub mod cursor;
pub mod files;
pub mod lens;
pub mod manifest;
pub mod print;
pub mod reader;
pub mod roles;
pub mod rules;
pub mod trace;

use quipu_model::options::{Kind, OptionSpec, Repeats};
use quipu_model::{Confidence, Format, FormatInfo, OpenOptions, Result, RuleInfo, Tool, Trace, Transform};
use quipu_source::Source;

/// The format, as the list of formats names it.
pub static COLUMNAR: Columnar = Columnar;

/// The type of [`COLUMNAR`].
#[derive(Debug)]
pub struct Columnar;

/// What columns of other programs are for.
pub(crate) const ROLES: OptionSpec = OptionSpec {
    repeats: Repeats::Commas,
    value: "COLUMN=ROLE",
    ..OptionSpec::new(
        "roles",
        Kind::Text,
        "none",
        "roles of columns, if their names do not tell: ip=pc, where=address, bytes=size, rw=access-kind, who=thread, \
         proc=process, at=time, n=record",
    )
};

static OPTIONS: [OptionSpec; 1] = [ROLES];

/// What is known of the format without a trace.
pub static INFO: FormatInfo = FormatInfo {
    name: "columnar",
    title: "tables of Parquet and Arrow",
    extensions: &["parquet", "arrow", "arrows"],
    beyond_lenses: &[],
    doc: "docs/formats/columnar.md",
    options: &OPTIONS,
    print_options: &[],
};

impl Format for Columnar {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn probe(&self, source: &Source) -> Confidence {
        files::probe(source)
    }

    fn probe_far(&self, source: &Source) -> Confidence {
        files::probe_far(source)
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options)?))
    }

    fn transforms(&self) -> &'static [&'static dyn Transform] {
        &[&convert::ToStream]
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        static TOOLS: &[&dyn Tool] = &[&check::CHECK];
        TOOLS
    }

    fn rules(&self) -> &'static [RuleInfo] {
        rules::RULES
    }
}
