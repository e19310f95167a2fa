//! Copies streams: the same frames with the same metadata, without what the file has lost.

use crate::bytes::{FRAME_READ_BYTES, SourceInput, unreadable};
use crate::found;
use crate::look::{self, Look};
use crate::rules;
use crate::trace::{self, StreamTrace};
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::fresh::{Fresh, cannot};
use quipu_model::trace::Fact;
use quipu_model::transform::{
    Progress, Transform, TransformInfo, TransformJob, Transformed, refuse_container,
};
use quipu_model::{Error, Finding, Found, Result, RuleInfo, Scan, Trace};
use quipu_stream::input::Input;
use quipu_stream::loss::{MANY, cause};
use quipu_stream::select::Everything;
use quipu_stream::slice::select_lossy;
use std::io::{BufWriter, Write};

/// `convert` of a stream with rows: copies all frames, adds a snapshot where the first frame of an epoch is missing, and adds
/// an end.
#[derive(Debug)]
pub struct Copy;

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same frames with their metadata, without what the file has lost",
    options: &[],
};

impl Transform for Copy {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn run(&self, job: &TransformJob<'_>, _: &dyn Progress) -> Result<Transformed> {
        refuse_container(job.container)?;
        if job.level.is_some() || !job.opening.threads.is_empty() {
            return Err(Error::usage("the frames of a stream are copied as they are"));
        }
        // Frames are copied unchanged, even those with wrong checksums, so the stream is read and checked first.
        let source = job.source;
        let (mut damage, notes) = apart(all_findings(&trace::open(source, job.opening)?)?);
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        intake.take(&mut damage, SoFar::default())?;
        let look = look::at(source)?;
        let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
        // A file that cannot be read is an error of its own.
        if let Err(cause) = input.get(0, 1) {
            return Err(unreadable(source.name(), cause));
        }
        let (fresh, file) = Fresh::file(job.output, job.replace.into())?;
        let failed = |cause| cannot("write", job.output, cause);
        let mut out = BufWriter::new(file);
        let known = unseen(&look);
        let copied =
            select_lossy(&mut input, 0..look.end(), &known, &mut Everything, &mut out).map_err(failed)?;
        out.flush().map_err(failed)?;
        drop(out);
        fresh.commit()?;
        let facts = vec![Fact::new("frames", "frames", copied.frames)];
        Ok(Transformed { facts, notes, reading: intake.finish(), ..Transformed::default() })
    }
}

/// Losses that no frame shows, so that a copy has to record them: damage to the packing of the stream, and everything after a
/// frame of a newer version that cannot be skipped.
pub(crate) fn unseen(look: &Look) -> Vec<quipu_stream::loss::Loss> {
    let beyond = look.stop().map(|stop| quipu_stream::loss::Loss {
        cause: cause::UNDECODABLE,
        records: Some(MANY),
        text: Some(stop.name.replace('-', " ")),
        ..Default::default()
    });
    let damage = look.unpacking.iter().filter(|finding| finding.is_damage());
    let loss = |finding: &Finding| quipu_stream::loss::Loss {
        cause: if finding.is_of_container() { cause::CRC } else { cause::TRUNCATED },
        records: Some(MANY),
        text: Some(finding.message.clone()),
        ..Default::default()
    };
    damage.map(loss).chain(beyond).collect()
}

/// Findings that do not count as damage to a copy, which keeps what they are about: losses that the producer stated, and
/// frames that only other programs read.
const KEPT: &[&RuleInfo] = &[&rules::LOST, &rules::KIND, &rules::ENCODING];

/// Splits findings into damage and notes. The notes are about what the copy keeps and states again, so that nothing is lost
/// by copying.
pub(crate) fn apart(findings: Vec<Finding>) -> (Vec<Finding>, Vec<String>) {
    let is_kept = |finding: &Finding| KEPT.iter().any(|rule| rule.name == finding.rule);
    let (kept, damage): (Vec<_>, Vec<_>) = findings.into_iter().partition(is_kept);
    let note = |finding: &Finding| format!("the output says as the stream does: {}", finding.message);
    (damage, kept.iter().map(note).collect())
}

/// Findings from headers and from reading all rows.
pub(crate) fn all_findings(trace: &StreamTrace) -> Result<Vec<Finding>> {
    let mut found = Found::default();
    for shard in trace.shards() {
        found.read(&mut *trace.scan(&Scan::new(shard.id))?, |_| Ok(()))?;
    }
    let found = found.into_vec();
    let mut all = Finding::not_met(&trace.findings_of_frames(true)?, &found);
    all.extend(found);
    found::count_once(&mut all, &trace.opened().look);
    Ok(all)
}
