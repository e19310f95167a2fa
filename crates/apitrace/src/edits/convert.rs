//! `convert`: the same stream in another container.

use super::begin;
use crate::trace::{ApiTrace, Packing};
use crate::write::repack;
use quipu_model::edit::{Edit, EditInfo, EditJob, Edited, Progress};
use quipu_model::{Error, Result};
use std::path::Path;

/// The edit.
#[derive(Debug)]
pub struct Convert;

static INFO: EditInfo = EditInfo {
    name: "convert",
    title: "the same stream, byte for byte, in another container",
    settings: &[],
};

/// What writes some threads of a trace.
const TRIM: &str = "`quipu trim --thread` writes the calls of some threads";

impl Edit for Convert {
    fn info(&self) -> &'static EditInfo {
        &INFO
    }

    fn run(&self, job: &EditJob<'_>, progress: &dyn Progress) -> Result<Edited> {
        job.settings.check(crate::INFO.name, INFO.settings)?;
        if !job.opening.threads.is_empty() {
            return Err(Error::usage("a stream is copied as a whole").hint(TRIM));
        }
        let (trace, options) = begin(job)?;
        refuse_formless(&trace, job.output, options.packing)?;
        let written = repack(&trace, job.output, &options, progress)?;
        Ok(Edited { facts: written.facts(options.packing), findings: written.findings, ..Edited::default() })
    }
}

/// Refuses to write what nobody would recognise as a trace again.
fn refuse_formless(trace: &ApiTrace, output: &Path, packing: Packing) -> Result<()> {
    let says_nothing = match packing {
        Packing::Plain => !trace.says_what_it_is()?,
        Packing::Brotli => trace.is_empty()? && output.extension().is_none_or(|extension| extension != "br"),
        _ => false,
    };
    if !says_nothing {
        return Ok(());
    }
    let what = format!(
        "there is no call in the trace: packed as `{}`, nothing would tell what the file is",
        packing.name()
    );
    Err(Error::usage(what).in_file(trace.container().name()).hint("`--container snappy` keeps it a trace"))
}
