//! Line formats as a [`Format`].

use crate::codec::{Ending, Input};
use crate::lines::{Head, Language, LineCodec};
use crate::trace::FlatTrace;
use quipu_model::{Confidence, Format, FormatInfo, Meta, OpenOptions, Result, RuleInfo, Tool, Trace};
use quipu_source::Source;
use std::path::Path;

/// Number of bytes examined to recognise a trace: some hundred lines.
const PROBED_BYTES: usize = 16 << 10;

/// A format whose traces are lines of text, read only; each format is a constant of this type.
pub struct LineFormat {
    /// The description of its lines.
    pub language: &'static Language,
    /// Examines the beginning of a file, given its name.
    pub recognise: fn(head: Input<'_>, name: Option<&str>) -> Head,
    /// Returns the codec for a file with this beginning and these options.
    pub adapt: fn(head: &Head, options: &OpenOptions) -> Result<LineCodec>,
    /// The format's own tools, `check` among them.
    pub tools: &'static [&'static dyn Tool],
}

impl LineFormat {
    fn head(&self, source: &Source) -> Result<Head> {
        let bytes = source.head(PROBED_BYTES)?;
        let name = source.path().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let ending = (bytes.len() < PROBED_BYTES).then_some(Ending::Whole);
        Ok((self.recognise)(Input { bytes: &bytes, ending }, name.as_deref()))
    }
}

impl Format for LineFormat {
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
        // Invalid options are reported before anything else.
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
