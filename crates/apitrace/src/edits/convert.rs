//! `convert`: the same stream in another container.

use super::begin;
use crate::write::repack;
use quipu_model::edit::{Edit, EditInfo, EditJob, Edited, Progress};
use quipu_model::{Error, Result};

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
        let written = repack(&trace, job.output, &options, progress)?;
        Ok(Edited { facts: written.facts(options.packing), findings: written.findings, ..Edited::default() })
    }
}
