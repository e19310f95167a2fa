//! What is wrong with a stream, as far as a look at its headers, its descriptions and the bodies that no reader of rows comes to
//! tells.

use crate::bytes::{FRAME_READ_BYTES, SourceInput, unreadable};
use crate::carried::{is_carried, is_empty};
use crate::look::Look;
use crate::recording::{Process, rows_of_page, rows_of_process};
use crate::rules;
use quipu_model::number::counted;
use quipu_model::{Amount, Finding, Place, Result};
use quipu_stream::cells;
use quipu_stream::codec::Unpacker;
use quipu_stream::finding;
use quipu_stream::frame::{encoding, kind};
use quipu_stream::index::frame_at;
use quipu_stream::input::Input;
use quipu_stream::loss::LostAfter;
use quipu_stream::scan::FrameAt;
use quipu_stream::session::{OpenHead, Session};
use quipu_stream::survey::Survey;
use quipu_stream::work::Worker;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is wrong with a stream, as far as a look at it tells.
///
/// # Errors
/// What the source says.
pub(crate) fn findings_of(look: &Arc<Look>) -> Result<Vec<Finding>> {
    if !look.members.is_empty() {
        return of_all_members(look, findings_of);
    }
    let Look { survey, name, .. } = &**look;
    let session = &survey.session;
    let mut findings: Vec<Finding> = look.unpacking.clone();
    let lost = lost_after_all(survey);
    findings.extend(session.findings.iter().map(|found| {
        let said = rules::finding(found, name, None);
        if is_said(found, session, &lost) { Finding { loss: None, ..said } } else { said }
    }));
    findings.extend(crate::carried::lost_attachments(session).map(|lost| rules::finding(&lost, name, None)));
    findings.extend(losses_at_end(&lost, name));
    findings.extend(foreign_findings(survey, name));
    findings.extend(damaged_aggregations(look)?);
    findings.extend(endings(look)?);
    findings.extend(crate::described::Nothing::of(look).map(|damage| rules::of_damage(&damage)));
    if let Some(first) = survey.copies.values().map(|frame| frame.offset).min() {
        let place = Place { file: Some(name.clone()), offset: Some(first), ..Place::default() };
        let n = counted(survey.copies.len() as u64, "frame");
        findings.push(rules::TWICE.broken(place, format!("of {n} a second copy stands in the stream")));
    }
    // Where something is lost, that may be descriptions.
    let recorded = session.epochs().values().find(|epoch| cells::is_named(&epoch.metadata));
    let is_whole = findings.iter().all(|finding| finding.loss.is_none());
    let recorded = recorded.filter(|_| is_whole);
    findings.extend(recorded.and_then(|epoch| rules::other_recorder(&epoch.metadata, name)));
    state_losses(&mut findings, look)?;
    // Those about the end come before others that were noticed later.
    findings.sort_by_key(|finding| finding.place.offset.unwrap_or(u64::MAX));
    Ok(findings)
}

/// What is wrong with the files of a folder, each by itself. Who reads files that are one trace says what is lost of it.
pub(crate) fn of_all_members(
    folder: &Look,
    findings_of: impl Fn(&Arc<Look>) -> Result<Vec<Finding>>,
) -> Result<Vec<Finding>> {
    let mut all = Vec::new();
    for member in &folder.members {
        all.extend(findings_of(member)?);
    }
    if folder.is_counted {
        all.iter_mut().for_each(|finding| finding.loss = None);
    }
    Ok(all)
}

/// What is wrong with bodies, but for torn frames: a look at all headers says of these that they are.
pub(crate) fn findings_of_bodies<'f>(
    look: &Look,
    bodies: impl Iterator<Item = &'f FrameAt>,
) -> Result<Vec<Finding>> {
    let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
    let (mut worker, mut findings) = (Worker::default(), Vec::new());
    let unreadable = |cause| unreadable(&look.name, cause);
    for frame in bodies {
        let Some(there) = frame_at(&mut input, frame.offset).map_err(unreadable)? else { continue };
        if there.header.lost > 0 {
            let place =
                Place { file: Some(look.name.clone()), offset: Some(frame.offset), ..Place::default() };
            findings.push(rules::lost(there.header.lost, there.header.stream, place));
        }
        if let Err(fault) = worker.body(&there, &mut input).map_err(unreadable)?
            && fault.name != "torn-frame"
        {
            findings.push(match there.header.is_foreign() {
                true => rules::of_damage(&rules::damage_of_body(&fault, &there.header, &look.name)),
                false => rules::finding(&fault, &look.name, None),
            });
        }
    }
    Ok(findings)
}

/// True for frames that readers of rows do not come to.
pub(crate) fn is_body(frame: &&FrameAt) -> bool {
    frame.header.is_foreign() || frame.header.kind == kind::AGG
}

/// Gives findings the losses that they are about, where frames of files are missing: how long those were is described. Other
/// findings are then no reason for a loss of frames.
fn state_losses(findings: &mut [Finding], look: &Arc<Look>) -> Result<()> {
    let mut missing: Vec<(&'static str, Finding)> = Vec::new();
    for damage in crate::carried::missing_in(look)? {
        let said = rules::of_damage(&damage);
        match missing.iter_mut().find(|(_, known)| known.is_same_fault(&said)) {
            Some((_, known)) => {
                if let (Some(sum), Some(more)) = (&mut known.loss, said.loss) {
                    sum.add(*more);
                }
            }
            None => missing.push((damage.rule, said)),
        }
    }
    for finding in findings.iter_mut() {
        if let Some((_, known)) = missing.iter().find(|(_, known)| known.is_same_fault(finding)) {
            finding.loss.clone_from(&known.loss);
        }
    }
    count_once(findings);
    Ok(())
}

/// Leaves a loss to the finding that says where it is: numbers and counts of frames show it once more.
pub(crate) fn count_once(findings: &mut [Finding]) {
    let counts = [rules::GAP.name, rules::END_MISMATCH.name];
    let is_count = |finding: &Finding| counts.contains(&&*finding.rule);
    let damaged = findings.iter().filter(|finding| finding.loss.is_some() && !finding.is_stated);
    // What a producer dropped itself has no frame that could be missing.
    let is_placed = |finding: &&Finding| !is_count(finding) && finding.rule != rules::LOST.name;
    let mut placed: Vec<u64> = damaged.filter(is_placed).filter_map(|finding| finding.place.offset).collect();
    let first_gap = findings.iter().find(|finding| finding.rule == rules::GAP.name && finding.loss.is_some());
    let first_gap = first_gap.and_then(|gap| gap.place.offset);
    placed.sort_unstable();
    for finding in findings.iter_mut().filter(|finding| is_count(finding)) {
        let Some(at) = finding.place.offset else { continue };
        let is_end = finding.rule == rules::END_MISMATCH.name;
        let is_shown = placed.first().is_some_and(|first| *first < at)
            || is_end && first_gap.is_some_and(|first| first < at);
        let says_how_much = finding.loss.as_ref().is_some_and(|loss| loss.bytes != Amount::Unknown);
        if is_shown && !says_how_much {
            finding.loss = None;
        }
    }
}

/// What the page of a recording says of why it ended before its program.
fn endings(look: &Look) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for frame in pages(look) {
        let counted = look.survey.open.iter().any(|(head, _)| head.lost > 0)
            || frame.header.kind != kind::OPEN
                && look.survey.frames.iter().any(|frame| frame.header.lost > 0);
        let place = Place { file: Some(look.name.clone()), offset: Some(frame.offset), ..Place::default() };
        let became = page_at(look, frame)?.became.into_iter().flatten();
        findings.extend(became.filter_map(|what| rules::ended_early(what, place.clone(), counted)));
    }
    Ok(findings)
}

/// The pages of processes that recorded themselves: open frames, or what became of them where they were sent elsewhere.
pub(crate) fn pages(look: &Look) -> impl Iterator<Item = &FrameAt> {
    let is_recording = look.survey.session.epochs().values().any(|epoch| cells::is_named(&epoch.metadata));
    let is_closed = move |frame: &&FrameAt| {
        let header = &frame.header;
        is_recording && header.stream == 0 && (header.kind, header.encoding) == (kind::DATA, encoding::PLAIN)
    };
    let open = look.survey.open.iter().filter(|(head, frame)| is_page(head, frame)).map(|(_, frame)| frame);
    open.chain(look.survey.frames.iter().filter(is_closed))
}

/// Whether an open frame is the page of a process that recorded itself.
fn is_page(head: &OpenHead, frame: &FrameAt) -> bool {
    head.stream == 0 && frame.header.encoding == encoding::PLAIN
}

/// What such a page says.
pub(crate) fn page_at(look: &Look, frame: &FrameAt) -> Result<Process> {
    let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
    let len = frame.header.stored_len as usize; // Within the limits.
    let payload = input.get(frame.payload_at(), len).map_err(|cause| unreadable(&look.name, cause))?;
    let payload = payload.get(..len).unwrap_or(payload);
    if frame.header.kind == kind::OPEN {
        return Ok(rows_of_page(payload));
    }
    let mut unpacker = Unpacker::default();
    // What is damaged says nothing, and is reported by who reads its rows.
    Ok(unpacker.unpack(&frame.header, payload).map_or_else(|_| Process::default(), rows_of_process))
}

/// What is wrong with aggregations, which readers of rows do not come to: the first of them are read.
fn damaged_aggregations(look: &Look) -> Result<Vec<Finding>> {
    let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
    let mut worker = Worker::default();
    let (mut findings, mut left) = (Vec::new(), MAX_AGGREGATED_BYTES);
    let is_one = |frame: &&FrameAt| frame.header.kind == kind::AGG && !frame.header.is_foreign();
    for frame in look.survey.frames.iter().filter(is_one) {
        let Some(rest) = left.checked_sub(frame.header.stored_len.into()) else { break };
        left = rest;
        let unreadable = |cause| unreadable(&look.name, cause);
        let Some(there) = frame_at(&mut input, frame.offset).map_err(unreadable)? else { continue };
        if let Err(fault) = worker.body(&there, &mut input).map_err(unreadable)? {
            findings.push(rules::finding(&fault, &look.name, None));
        }
    }
    Ok(findings)
}

/// What is said of losses after the last frame of a stream: no reader of rows comes to it.
pub(crate) fn lost_after_all(survey: &Survey) -> Vec<LostAfter> {
    let frames =
        survey.frames.iter().map(|frame| ((frame.header.producer, frame.header.stream), frame.offset));
    let last: rustc_hash::FxHashMap<(u64, u32), u64> = frames.collect();
    survey.session.lost_after_all(|producer, stream| last.get(&(producer, stream)).copied())
}

/// The same as findings.
fn losses_at_end(lost: &[LostAfter], name: &str) -> Vec<Finding> {
    let finding = |lost: &LostAfter| {
        let place = Place { file: Some(name.to_owned()), offset: Some(lost.offset), ..Place::default() };
        rules::lost_at_end(lost, place)
    };
    lost.iter().map(finding).collect()
}

/// Whether a finding of the container is a gap in the numbers of a stream that shows once more what an earlier copy had lost.
pub(crate) fn is_said(found: &finding::Finding, session: &Session, lost: &[LostAfter]) -> bool {
    let Some(at) = found.number("offset").filter(|_| found.name == "sequence-gap") else { return false };
    let frames = session.frames();
    let frame = frames.get(frames.partition_point(|frame| frame.offset < at));
    frame.is_some_and(|FrameAt { header, .. }| {
        let is_own = |lost: &&LostAfter| (lost.producer, lost.stream) == (header.producer, header.stream);
        lost.iter().filter(is_own).any(|lost| lost.of_copy.is_some() && lost.is_named)
    })
}

/// Bodies that the formats of their own would read, once for each encoding.
fn foreign_findings(survey: &Survey, name: &str) -> Vec<Finding> {
    let mut counts: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    let is_foreign = |frame: &&FrameAt| frame.header.is_foreign();
    let is_read = |frame: &FrameAt| match is_foreign(&frame) {
        true => is_carried(frame.header.encoding),
        false => is_empty(frame),
    };
    if survey.frames.iter().all(is_read) {
        // They are traces of their own, which are read.
        return Vec::new();
    }
    for frame in survey.frames.iter().filter(is_foreign) {
        let count = counts.entry(frame.header.encoding).or_insert((0, frame.offset));
        count.0 += 1;
    }
    let finding = |(encoding, (n, offset)): (u16, (u64, u64))| {
        let place =
            quipu_model::Place { file: Some(name.to_owned()), offset: Some(offset), ..Default::default() };
        let what = crate::describe::encoding_name(encoding);
        rules::FOREIGN.broken(place, format!("bodies of another format ({what}) are not read, in {n} frames"))
    };
    counts.into_iter().map(finding).collect()
}

/// How many stored bytes of aggregations are read when a stream is opened.
const MAX_AGGREGATED_BYTES: u64 = 16 << 20;
