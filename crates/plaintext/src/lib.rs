//! Traces of memory accesses as lines of text: what Valgrind's tool lackey prints, and what the simulator Dinero reads.
//!
//! [`LACKEY`] and [`DIN`] are the formats as the rest of Quipu sees them; both are read only. How lines are read, printed and
//! checked is [`quipu_records::lines`]; here is what tells the formats apart:
//!
//! | file | what |
//! |---|---|
//! | [`lackey`], [`din`] | the lines of each format: which there are, how they read, how a file is recognised |
//! | [`table`] | records as rows |
//! | [`rules`] | the rules that a trace must follow |
//!
//! The formats are described in docs/formats/lackey.md and docs/formats/din.md.

pub mod din;
pub mod lackey;
pub mod rules;
pub mod table;

use quipu_model::{Confidence, Format, FormatInfo, Meta, OpenOptions, Result, RuleInfo, Tool, Trace};
use quipu_records::codec::{Ending, Input};
use quipu_records::lines::{Head, Language, LineCodec};
use quipu_records::trace::FlatTrace;
use quipu_source::Source;
use std::path::Path;

/// What Valgrind's lackey prints with `--trace-mem=yes`.
pub static LACKEY: PlainText = PlainText {
    language: &lackey::LANGUAGE,
    recognise: lackey::recognise,
    adapt: lackey::adapt,
    tools: &[&lackey::CHECK],
};

/// What Dinero reads: labels and addresses.
pub static DIN: PlainText = PlainText {
    language: &din::LANGUAGE,
    recognise: din::recognise,
    adapt: din::adapt,
    tools: &[&din::CHECK],
};

/// Bytes that are looked at to recognise a trace: some hundred lines.
const PROBED_BYTES: usize = 16 << 10;

/// The type of [`LACKEY`] and [`DIN`].
pub struct PlainText {
    language: &'static Language,
    /// Looks at the beginning of a file of that name.
    recognise: fn(head: Input<'_>, name: Option<&str>) -> Head,
    /// How lines read whose beginning looks so, with these settings.
    adapt: fn(head: &Head, options: &OpenOptions) -> Result<LineCodec>,
    tools: &'static [&'static dyn Tool],
}

impl PlainText {
    fn head(&self, source: &Source) -> Result<Head> {
        let bytes = source.head(PROBED_BYTES)?;
        let name = source.path().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let ending = (bytes.len() < PROBED_BYTES).then_some(Ending::Whole);
        Ok((self.recognise)(Input { bytes: &bytes, ending }, name.as_deref()))
    }
}

impl Format for PlainText {
    fn info(&self) -> &'static FormatInfo {
        self.language.info
    }

    fn probe(&self, source: &Source) -> Confidence {
        if source.is_folder() {
            return Confidence::No;
        }
        self.head(source).map_or(Confidence::No, |head| head.confidence)
    }

    fn open(&self, source: &Source, options: &OpenOptions) -> Result<Box<dyn Trace>> {
        // Wrong options are reported before anything else.
        self.language.info.opening(options)?;
        self.language.info.refuse_folder(source)?;
        let head = self.head(source)?;
        let codec = (self.adapt)(&head, options)?;
        let process = (head.process > 0).then_some(head.process);
        let Head { facts, carries, instrs, data, .. } = head;
        let meta = Meta { facts, carries, instrs, data, ..Meta::default() };
        Ok(Box::new(FlatTrace::open(source, codec, process, meta)?))
    }

    fn tools(&self) -> &'static [&'static dyn Tool] {
        self.tools
    }

    fn rules(&self) -> &'static [RuleInfo] {
        self.language.rules.all
    }
}
