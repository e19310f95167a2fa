//! `convert`: the same stream in another container.

use super::begin;
use crate::write::repack;
use quipu_model::Result;
use quipu_model::edit::{Edit, EditInfo, EditJob, Edited, Progress};

/// The edit.
#[derive(Debug)]
pub struct Convert;

static INFO: EditInfo = EditInfo {
    name: "convert",
    title: "the same stream, byte for byte, in another container",
    settings: &[],
};

impl Edit for Convert {
    fn info(&self) -> &'static EditInfo {
        &INFO
    }

    fn run(&self, job: &EditJob<'_>, progress: &dyn Progress) -> Result<Edited> {
        job.settings.check(crate::INFO.name, INFO.settings)?;
        let (trace, options) = begin(job)?;
        let written = repack(&trace, job.output, &options, progress)?;
        Ok(Edited { facts: written.facts(options.packing), findings: written.findings, ..Edited::default() })
    }
}
