//! Parquet and Arrow files as traces.
//!
//! The output of `convert -o NAME.parquet`, `NAME.arrow` and `NAME.arrows` opens as the trace that was converted: native tables
//! under their names, lenses from their own files. A file from another program is one table; the names of its columns, or an
//! option, determine their roles.
//!
//! | module | does |
//! |---|---|
//! | [`files`] | recognises files, opens them when they are read |
//! | [`manifest`] | reads a folder's description of its trace |
//! | [`roles`] | finds the roles of columns from other programs |
//! | [`lens`] | fills lenses from rows |
//! | [`trace`] | opens folders and files as a trace |
//! | [`cursor`] | reads rows of one file in the order of their records |
//! | [`reader`] | joins rows of several files into batches |
//! | [`print`](mod@print) | prints rows for people |
//! | [`convert`] | writes rows as records of a stream |
//! | [`check`], [`rules`] | check files against the rules of the format |
//!
//! docs/formats/columnar.md describes the layout of folders; `quipu_arrow` reads the files themselves.

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

/// Option that assigns roles to columns of files from other programs.
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

/// Description of the format.
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
