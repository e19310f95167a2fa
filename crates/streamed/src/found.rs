//! Findings about a stream that do not need its rows: from headers, metadata and the bodies that row readers skip.

use crate::bytes::{FRAME_READ_BYTES, SourceInput, unreadable};
use crate::carried::{is_carried, is_empty};
use crate::look::Look;
use crate::recording::{Process, rows_of_page, rows_of_process};
use crate::rules;
use quipu_model::batch::OVERSIZED;
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

/// Returns the findings from headers and metadata, and from the frames that row readers skip.
///
/// # Errors
/// If the source cannot be read.
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
    // The runtime is checked only if nothing is lost: a lost description is not a missing one.
    let recorded = session.epochs().values().find(|epoch| cells::is_named(&epoch.metadata));
    let is_whole = findings.iter().all(|finding| finding.loss.is_none());
    let recorded = recorded.filter(|_| is_whole);
    findings.extend(recorded.and_then(|epoch| rules::other_recorder(&epoch.metadata, name)));
    state_losses(&mut findings, look)?;
    // Findings about the end sort before findings that were noticed later.
    findings.sort_by_key(|finding| finding.place.offset.unwrap_or(u64::MAX));
    Ok(findings)
}

/// Findings about the files of a folder, each examined separately. If the files form one trace, the reader of the trace
/// counts the losses.
pub(crate) fn of_all_members(
    folder: &Look,
    findings_of: impl Fn(&Arc<Look>) -> Result<Vec<Finding>>,
) -> Result<Vec<Finding>> {
    let mut all = Vec::new();
    for member in &folder.members {
        let mut findings = findings_of(member)?;
        member.name_files(&mut findings);
        all.append(&mut findings);
    }
    if folder.is_counted {
        all.iter_mut().for_each(|finding| finding.loss = None);
    }
    Ok(all)
}

/// Findings about bodies, except torn frames, which a look at all headers reports.
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

/// True for frames that row readers skip.
pub(crate) fn is_body(frame: &&FrameAt) -> bool {
    frame.header.is_foreign() || frame.header.kind == kind::AGG
}

/// Fills in the losses of findings that explain missing frames of files: the descriptions of the files give the lengths.
/// Other findings then do not account for lost frames.
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
    count_once(findings, look);
    Ok(())
}

/// Keeps a loss only in the finding that locates it: gaps in frame numbers and wrong frame counts are consequences of it.
pub(crate) fn count_once(findings: &mut [Finding], look: &Look) {
    let counts = [rules::GAP.name, rules::END_MISMATCH.name];
    let is_count = |finding: &Finding| counts.contains(&&*finding.rule);
    let damaged = findings.iter().filter(|finding| finding.loss.is_some() && !finding.is_stated);
    // Records that a producer dropped never had a frame that could be missing, and those with an impossible size are there.
    let is_of_frame = |finding: &Finding| ![rules::LOST.name, OVERSIZED].contains(&&*finding.rule);
    let is_placed = |finding: &&Finding| !is_count(finding) && is_of_frame(finding);
    let offset = |finding: &Finding| look.offset_of(&finding.place);
    let mut placed: Vec<u64> = damaged.filter(is_placed).filter_map(offset).collect();
    let first_gap = findings.iter().find(|finding| finding.rule == rules::GAP.name && finding.loss.is_some());
    let first_gap = first_gap.and_then(offset);
    placed.sort_unstable();
    for finding in findings.iter_mut().filter(|finding| is_count(finding)) {
        let Some(at) = look.offset_of(&finding.place) else { continue };
        let is_end = finding.rule == rules::END_MISMATCH.name;
        let is_shown = placed.first().is_some_and(|first| *first < at)
            || is_end && first_gap.is_some_and(|first| first < at);
        let says_how_much = finding.loss.as_ref().is_some_and(|loss| loss.bytes != Amount::Unknown);
        if is_shown && !says_how_much {
            finding.loss = None;
        }
    }
}

/// Findings from the process page of a recording about why it ended before its program did.
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

/// The process pages of recordings: open frames, or closed ones where a recording was sent elsewhere.
pub(crate) fn pages(look: &Look) -> impl Iterator<Item = &FrameAt> {
    let is_recording = look.survey.session.epochs().values().any(|epoch| cells::is_named(&epoch.metadata));
    let is_closed = move |frame: &&FrameAt| {
        let header = &frame.header;
        is_recording && header.stream == 0 && (header.kind, header.encoding) == (kind::DATA, encoding::PLAIN)
    };
    let open = look.survey.open.iter().filter(|(head, frame)| is_page(head, frame)).map(|(_, frame)| frame);
    open.chain(look.survey.frames.iter().filter(is_closed))
}

/// True if an open frame is the process page of a recording.
fn is_page(head: &OpenHead, frame: &FrameAt) -> bool {
    head.stream == 0 && frame.header.encoding == encoding::PLAIN
}

/// Reads a process page.
pub(crate) fn page_at(look: &Look, frame: &FrameAt) -> Result<Process> {
    let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
    let len = frame.header.stored_len as usize; // Within the limits.
    let payload = input.get(frame.payload_at(), len).map_err(|cause| unreadable(&look.name, cause))?;
    let payload = payload.get(..len).unwrap_or(payload);
    if frame.header.kind == kind::OPEN {
        return Ok(rows_of_page(payload));
    }
    let mut unpacker = Unpacker::default();
    // A damaged page says nothing here; the reader of its rows reports it.
    Ok(unpacker.unpack(&frame.header, payload).map_or_else(|_| Process::default(), rows_of_process))
}

/// Findings about aggregations, which row readers skip. Only the first [`MAX_AGGREGATED_BYTES`] are read.
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

/// Losses that are stated after the last frame of a stream, where row readers do not look.
pub(crate) fn lost_after_all(survey: &Survey) -> Vec<LostAfter> {
    let frames =
        survey.frames.iter().map(|frame| ((frame.header.producer, frame.header.stream), frame.offset));
    let last: rustc_hash::FxHashMap<(u64, u32), u64> = frames.collect();
    survey.session.lost_after_all(|producer, stream| last.get(&(producer, stream)).copied())
}

/// The losses as findings.
fn losses_at_end(lost: &[LostAfter], name: &str) -> Vec<Finding> {
    let finding = |lost: &LostAfter| {
        let place = Place { file: Some(name.to_owned()), offset: Some(lost.offset), ..Place::default() };
        rules::lost_at_end(lost, place)
    };
    lost.iter().map(finding).collect()
}

/// True if a container finding is a gap in the numbers of a stream that a loss of an earlier copy explains.
pub(crate) fn is_said(found: &finding::Finding, session: &Session, lost: &[LostAfter]) -> bool {
    let Some(at) = found.number("offset").filter(|_| found.name == "sequence-gap") else { return false };
    let frames = session.frames();
    let frame = frames.get(frames.partition_point(|frame| frame.offset < at));
    frame.is_some_and(|FrameAt { header, .. }| {
        let is_own = |lost: &&LostAfter| (lost.producer, lost.stream) == (header.producer, header.stream);
        lost.iter().filter(is_own).any(|lost| lost.of_copy.is_some() && lost.is_named)
    })
}

/// Findings about bodies of other formats, one for each encoding.
fn foreign_findings(survey: &Survey, name: &str) -> Vec<Finding> {
    let mut counts: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    let is_foreign = |frame: &&FrameAt| frame.header.is_foreign();
    let is_read = |frame: &FrameAt| match is_foreign(&frame) {
        true => is_carried(frame.header.encoding),
        false => is_empty(frame),
    };
    if survey.frames.iter().all(is_read) {
        // All bodies belong to carried traces, which are read.
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

/// Stored bytes of aggregations that are read when a stream is opened.
const MAX_AGGREGATED_BYTES: u64 = 16 << 20;
