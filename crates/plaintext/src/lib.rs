//! Traces of memory accesses as lines of text: what Valgrind's tool lackey prints, and what the simulator Dinero reads.
//!
//! [`LACKEY`] and [`DIN`] are the formats as the rest of Quipu sees them; both are read only. They share everything but
//! their lines:
//!
//! | file | what |
//! |---|---|
//! | [`line`](mod@line), [`number`] | what a line can be, and its numbers |
//! | [`lackey`], [`din`] | the lines of each format: which there are, how they read, how a file is recognised |
//! | `language` | what else tells the formats apart: names, columns, rules |
//! | `feed` | blocks of a file → lines in place |
//! | [`reader`], [`table`] | lines → batches, rows |
//! | [`trace`], [`survey`] | opening a trace, what only reading all of it tells |
//! | [`print`](mod@print) | records as people read them |
//! | [`check`], [`rules`] | the rules that a trace must follow |
//!
//! The formats are described in docs/formats/lackey.md and docs/formats/din.md.

pub mod check;
pub mod din;
mod feed;
pub mod lackey;
mod language;
pub mod line;
pub mod number;
pub mod print;
pub mod reader;
pub mod rules;
pub mod survey;
pub mod table;
pub mod trace;

use language::Language;
use quipu_model::{Confidence, Format, FormatInfo, OpenOptions, Result, RuleInfo, Tool, Trace};
use quipu_source::Source;

/// What Valgrind's lackey prints with `--trace-mem=yes`.
pub static LACKEY: PlainText = PlainText { language: &lackey::LANGUAGE };

/// What Dinero reads: labels and addresses.
pub static DIN: PlainText = PlainText { language: &din::LANGUAGE };

/// The type of [`LACKEY`] and [`DIN`].
#[derive(Debug)]
pub struct PlainText {
    language: &'static Language,
}

impl Format for PlainText {
    fn info(&self) -> &'static FormatInfo {
        self.language.info
    }

    fn probe(&self, source: &Source) -> Confidence {
        trace::probe(source, self.language)
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        Ok(Box::new(trace::open(source, options, self.language)?))
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        self.language.tools
    }

    fn rules(&self) -> &'static [RuleInfo] {
        self.language.rules.all
    }
}
