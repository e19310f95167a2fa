//! `convert`: writes the same stream in another container.

use super::begin;
use crate::trace::{ApiTrace, Packing};
use crate::write::repack;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::{Error, Result};
use std::path::Path;

/// The edit.
#[derive(Debug)]
pub struct Convert;

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same stream, byte for byte, in another container",
    options: &[],
};

/// Hint at the verb that writes some threads of a trace.
const TRIM: &str = "`quipu trim --thread` writes the calls of some threads";

/// The reason why options about files, chunks and versions are not supported.
pub(super) const NO_ENTRIES: &str =
    "a stream of calls is one file, without chunks of instructions or versions to choose from";

impl Transform for Convert {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        matches!(option, "sharding" | "format-version" | "chunk-instrs").then_some(NO_ENTRIES)
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        if !job.opening.threads.is_empty() {
            return Err(Error::usage("a stream is copied as a whole").hint(TRIM));
        }
        let (trace, options) = begin(job)?;
        refuse_formless(&trace, job.output, options.packing)?;
        let written = repack(&trace, job.output, &options, progress)?;
        Ok(Transformed {
            facts: written.facts(options.packing),
            reading: written.reading,
            ..Transformed::default()
        })
    }
}

/// Refuses to write a file that would not be recognised as a trace.
fn refuse_formless(trace: &ApiTrace, output: &Path, packing: Packing) -> Result<()> {
    let is_called = |ending| output.extension().is_some_and(|extension| extension == ending);
    let how = match packing {
        Packing::Plain if !trace.says_what_it_is()? => "bare",
        Packing::Brotli if !is_called("br") && trace.is_empty()? => {
            "in Brotli, under a name that does not end in `.br`"
        }
        Packing::Gzip | Packing::Zstd if !is_called("trace") && trace.is_empty()? => {
            "packed so, under a name that does not end in `.trace`"
        }
        _ => return Ok(()),
    };
    let what = format!("there is no call in the trace: {how}, nothing would tell what the file is");
    Err(Error::usage(what).in_file(trace.container().name()).hint("`--container zstd` keeps it a trace"))
}
