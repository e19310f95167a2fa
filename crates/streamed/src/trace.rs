//! Recognising and opening a stream: which frames it has, which tables, which shards.
//!
//! A shard is one stream of one producer. Its pieces are frames, which can be read alone. An index says at once which
//! frames there are; without one all headers are read, never payloads.

use crate::INFO;
use crate::bytes::{FRAME_READ_BYTES, HEADER_READ_BYTES, SourceInput, unreadable};
use crate::carried::{is_carried, is_empty};
use crate::folder;
use crate::functions::Modules;
use crate::look::{self, Look};
use crate::print::RecordPrinter;
use crate::reader::RowReader;
use crate::recording::{Process, rows_of_page, rows_of_process};
use crate::rules;
use crate::schema::{EpochId, Means, RECORDS, Tables};
use quipu_model::number::counted;
use quipu_model::schema::Schema;
use quipu_model::trace::{Carries, Clock, Fact, Function, PrintOptions, Recorded, Surveyed};
use quipu_model::{
    Amount, Columns, Confidence, Error, ErrorKind, Finding, Meta, OpenOptions, Place, Printer, Reader,
    Result, Scan, Shard, ShardId, ShardKind, Trace,
};
use quipu_source::{Codec, Source};
use quipu_stream::cells;
use quipu_stream::clock::Timeline;
use quipu_stream::codec::Unpacker;
use quipu_stream::finding;
use quipu_stream::frame::{Header, HeaderFault, SYNC, encoding, kind};
use quipu_stream::index::frame_at;
use quipu_stream::input::Input;
use quipu_stream::loss::{LostAfter, MANY};
use quipu_stream::meta::Metadata;
use quipu_stream::scan::FrameAt;
use quipu_stream::session::{OpenHead, Session};
use quipu_stream::survey::Survey;
use quipu_stream::wire::record::Record;
use quipu_stream::work::Worker;
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes that are searched for a frame to recognise a stream that was joined in the middle.
const PROBED_BYTES: usize = 64 << 10;

/// How sure it is that a source is a stream.
pub fn probe(source: &Source) -> Confidence {
    if source.is_folder() {
        return folder::probe_folder(source);
    }
    // No stream lies in the blocks that apitrace writes, and their first bytes cost a whole block.
    match source.packed_head(SYNC.len()) {
        Ok(head) if Codec::of(&head) != Codec::SnappyChunks => {}
        _ => return Confidence::No,
    }
    let is_header = |head: &[u8]| matches!(Header::read(head), Ok(_) | Err(HeaderFault::Version(_)));
    match source.head(512) {
        Ok(head) if head.starts_with(&SYNC) => {
            // Eight bytes that nothing else begins with, even if what comes after them is damaged or cut.
            return if is_header(&head) { Confidence::Sure } else { Confidence::Likely };
        }
        Ok(_) => {}
        Err(_) => return Confidence::No,
    }
    let Ok(head) = source.head(PROBED_BYTES) else { return Confidence::No };
    match memchr::memmem::find_iter(&head, &SYNC).any(|at| is_header(&head[at..])) {
        true => Confidence::Likely,
        // Where damage is longer than the bytes that were searched, opening searches the rest.
        false if !head.is_empty() && is_named_so(source) => Confidence::Maybe,
        false => Confidence::No,
    }
}

/// Whether a file has the extension of streams, before that of a container if there is one.
fn is_named_so(source: &Source) -> bool {
    let name =
        source.path().and_then(Path::file_name).map(|name| name.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| name.split('.').skip(1).any(|part| INFO.extensions.contains(&part)))
}

/// One frame of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) frame: FrameAt,
    /// Of a buffer that was being written, what its head says.
    pub(crate) open: Option<OpenHead>,
}

/// What a stream of a producer is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) producer: u64,
    pub(crate) stream: u32,
    pub(crate) pieces: Vec<Piece>,
    /// Records before each piece, by what headers say.
    pub(crate) before: Vec<u64>,
    pub(crate) thread: u64,
    pub(crate) process: u64,
    pub(crate) cpu: Option<u64>,
    /// Of streams of several producers: how ticks become Unix time, so that all can be put in order.
    pub(crate) timeline: Option<Timeline>,
}

impl Part {
    /// A time of the stream as batches have it.
    #[inline]
    pub(crate) fn clock(&self, ticks: u64) -> u64 {
        match &self.timeline {
            None => ticks,
            Some(timeline) => {
                let ns = timeline.unix_ns(ticks).map(|(ns, _)| u64::try_from(ns).unwrap_or(0));
                ns.unwrap_or(ticks)
            }
        }
    }
}

impl Part {
    /// A time that none of its records comes before: headers say the smallest of each frame. Of a buffer that is being written
    /// it may not be known.
    fn begins(&self) -> Option<u64> {
        let is_known = self.pieces.iter().all(|piece| piece.open.is_none());
        let headers = self.pieces.iter().map(|piece| &piece.frame.header);
        let first =
            headers.filter(|header| header.records > 0).map(|header| self.clock(header.ts_first)).min();
        first.filter(|_| is_known)
    }
}

/// What readers share.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) look: Arc<Look>,
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) epochs: BTreeMap<EpochId, Arc<Metadata>>,
    pub(crate) tables: Tables,
    /// Files of the code that calls are of, which are read when a call is.
    pub(crate) modules: Modules,
    /// Frames with rows of aggregations.
    pub(crate) aggregations: Vec<FrameAt>,
    /// Where opening found something wrong.
    pub(crate) found_at: BTreeSet<u64>,
}

impl Opened {
    /// The bytes of the stream, for one reader.
    ///
    /// # Errors
    /// What the source says.
    pub(crate) fn input(&self) -> Result<SourceInput> {
        let request_bytes = if self.is_wide() { HEADER_READ_BYTES } else { FRAME_READ_BYTES };
        SourceInput::new(&self.look.container, request_bytes, &self.look.n_read)
    }

    /// Whether there are so many streams that each reader reads less at a time and keeps no bytes between its frames.
    pub(crate) fn is_wide(&self) -> bool {
        self.parts.len() > MAX_WIDE
    }
}

/// Streams whose readers have buffers for whole frames.
const MAX_WIDE: usize = 256;

/// An opened stream.
#[derive(Debug)]
pub struct StreamTrace {
    opened: Arc<Opened>,
    /// Frames that no reader of rows decodes: bodies of other formats, aggregations.
    bodies: Vec<FrameAt>,
    meta: Meta,
    shards: Vec<Shard>,
    columns: Columns,
}

/// Opens the stream at `source`.
///
/// # Errors
/// `Unsupported` for a folder, and if there is no frame; `Damaged` if there is only the beginning of one; what the source has to
/// say.
pub fn open(source: &Source, options: &OpenOptions) -> Result<StreamTrace> {
    INFO.opening(options)?;
    if source.is_folder() && folder::files_of(source)?.is_empty() {
        INFO.refuse_folder(source)?;
    }
    let look = look::at(source)?;
    let survey = &look.survey;
    let name = source.name().to_owned();
    refuse_nothing(source, survey)?;
    let session = &survey.session;
    let epochs: BTreeMap<EpochId, Arc<Metadata>> =
        session.epochs().iter().map(|(id, epoch)| (*id, Arc::clone(&epoch.metadata))).collect();
    let mut tables = Tables::of(&epochs);
    let is_aggregation =
        |frame: &&FrameAt| frame.header.kind == kind::AGG && frame.header.encoding == encoding::AGGREGATIONS;
    let aggregations: Vec<FrameAt> = survey.frames.iter().filter(is_aggregation).copied().collect();
    if !aggregations.is_empty() {
        tables.add_aggregations();
    }
    let mut parts = parts_of(survey, &epochs);
    let order = align(&mut parts, session, &epochs);
    let n_foreign = survey.frames.iter().filter(|frame| frame.header.is_foreign()).count();
    let mut findings = findings_of(&look)?;
    findings.extend(order.map(|(message, offset)| {
        let place = quipu_model::Place { file: Some(name.clone()), offset, ..Default::default() };
        rules::ORDER.broken(place, message)
    }));
    // Those about the end come before others that were noticed later.
    findings.sort_by_key(|finding| finding.place.offset.unwrap_or(u64::MAX));
    let meta = meta_of(session, &epochs, &parts, &tables, n_foreign);
    let (packed_bytes, n_files) = match source.is_folder() {
        true => (None, folder::files_of(source)?.len() as u64),
        false => (source.container()?.size_bytes(), 1),
    };
    // Nothing is read after a frame that must be understood and is not, whatever is written there.
    let is_ended = !session.findings.iter().any(|finding| finding.name == "no-end-frame");
    let meta = Meta {
        packed_bytes: packed_bytes.or(Some(look.size)),
        n_files,
        is_ended: Some(is_ended),
        findings,
        ..meta
    };
    if parts.is_empty() {
        // A stream without records still is a trace.
        parts.push(Part::default());
    }
    let shards = shards_of(&parts);
    let columns = columns_of(&tables);
    let bodies = survey.frames.iter().filter(is_body).copied().collect();
    let modules = Modules::default();
    let found_at = meta.findings.iter().filter_map(|finding| finding.place.offset).collect();
    let look = Arc::clone(&look);
    let opened = Opened { look, name, parts, epochs, tables, modules, aggregations, found_at };
    Ok(StreamTrace { opened: Arc::new(opened), bodies, meta, shards, columns })
}

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
    findings.extend(crate::carried::Nothing::of(look).map(|damage| rules::of_damage(&damage)));
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
fn of_all_members(
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
fn findings_of_bodies<'f>(look: &Look, bodies: impl Iterator<Item = &'f FrameAt>) -> Result<Vec<Finding>> {
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
fn is_body(frame: &&FrameAt) -> bool {
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
fn pages(look: &Look) -> impl Iterator<Item = &FrameAt> {
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
fn page_at(look: &Look, frame: &FrameAt) -> Result<Process> {
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

/// Makes sure that there is a frame.
///
/// # Errors
/// `Damaged` if there is only the beginning of one, else `Unsupported`.
pub(crate) fn refuse_nothing(source: &Source, survey: &Survey) -> Result<()> {
    if !survey.frames.is_empty() || !survey.open.is_empty() || !survey.session.producers().is_empty() {
        return Ok(());
    }
    let is_begun = !source.is_folder() && source.head(SYNC.len()).is_ok_and(|head| head.starts_with(&SYNC));
    let error = match is_begun {
        true => Error::new(ErrorKind::Damaged, "there is no whole frame of the stream")
            .at(&Place { offset: Some(0), ..Place::default() }),
        false => Error::unsupported("there is no frame of a stream"),
    };
    Err(error.in_file(source.name()))
}

/// Frames by producer and stream, in the order in which they appear.
fn parts_of(survey: &Survey, epochs: &BTreeMap<EpochId, Arc<Metadata>>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    let mut numbers = rustc_hash::FxHashMap::default();
    let closed = survey.frames.iter().map(|frame| (frame.header.stream, Piece { frame: *frame, open: None }));
    let open =
        survey.open.iter().map(|(head, frame)| (head.stream, Piece { frame: *frame, open: Some(*head) }));
    for (stream, piece) in closed.chain(open) {
        let header = &piece.frame.header;
        if header.kind == kind::AGG || header.is_foreign() {
            continue;
        }
        let producer = header.producer;
        let number = *numbers.entry((producer, stream)).or_insert_with(|| {
            parts.push(part_of(producer, stream, epochs));
            parts.len() - 1
        });
        let part = &mut parts[number];
        let before = match part.pieces.last() {
            Some(last) => {
                let records = last.open.map_or(last.frame.header.records, |head| head.records);
                part.before.last().copied().unwrap_or(0) + u64::from(records)
            }
            None => 0,
        };
        part.before.push(before);
        part.pieces.push(piece);
    }
    parts
}

fn part_of(producer: u64, stream: u32, epochs: &BTreeMap<EpochId, Arc<Metadata>>) -> Part {
    let mut part = Part { producer, stream, ..Part::default() };
    for metadata in epochs.range((producer, 0)..=(producer, u32::MAX)).map(|(_, metadata)| metadata) {
        let pid = metadata.entries().find_map(|(_, entry)| match entry.record.as_deref() {
            Some(Record::Producer(producer)) => producer.pid,
            _ => None,
        });
        part.process = pid.unwrap_or(part.process);
        if let Some(described) = metadata.stream(stream) {
            part.thread = described.tid.unwrap_or(part.thread);
            part.process = described.pid.unwrap_or(part.process);
            part.cpu = described.cpu.or(part.cpu);
        }
    }
    part
}

/// Relates the clocks of several producers; says where that leaves their order open.
fn align(
    parts: &mut [Part],
    session: &Session,
    epochs: &BTreeMap<EpochId, Arc<Metadata>>,
) -> Option<(String, Option<u64>)> {
    if parts.iter().all(|part| part.producer == parts[0].producer) {
        return None;
    }
    let correlations = session.clocks();
    let timeline = |part: &Part| {
        let range = (part.producer, 0)..=(part.producer, u32::MAX);
        let (id, metadata) = epochs.range(range).next_back()?;
        let number = metadata.stream(part.stream).and_then(|stream| stream.clock);
        let clock = metadata.clock(number.unwrap_or(1))?;
        let own = correlations.iter().filter(|at| at.from.0 == id.0 && at.clock == clock.id).copied();
        let timeline = Timeline::new(clock, own);
        let first = part.pieces.first().map_or(0, |piece| piece.frame.header.ts_first);
        timeline.unix_ns(first)?;
        Some(timeline)
    };
    let all: Option<Vec<Timeline>> = parts.iter().map(timeline).collect();
    let Some(all) = all else {
        let what = "the clocks of the producers have no common time: records are in the order of ticks";
        return Some((what.into(), None));
    };
    for (part, timeline) in parts.iter_mut().zip(all) {
        part.timeline = Some(timeline);
    }
    let (n_pairs, first) = open_pairs(parts)?;
    let pairs = counted(n_pairs, "pair");
    Some((
        format!(
            "the clocks leave it open in which order records are: {pairs} of frames of different producers overlap, the first at \
             offset {first:#x}"
        ),
        Some(first),
    ))
}

/// A frame as a span of Unix time in which its records are, as far as its clock is known.
struct Within {
    from: i128,
    to: i128,
    producer: u64,
    offset: u64,
}

/// How many pairs of frames of different producers may have records in either order, and where the first of them stands. Clocks
/// that are known exactly leave nothing open.
fn open_pairs(parts: &[Part]) -> Option<(u64, u64)> {
    let mut all: Vec<Within> = Vec::new();
    for part in parts {
        let Some(timeline) = &part.timeline else { continue };
        for piece in &part.pieces {
            let header = &piece.frame.header;
            // What is still being written says no last time.
            let (first, last) =
                piece.open.map_or((header.ts_first, header.ts_last), |head| (head.ts_first, head.ts_last));
            let (Some((from, before)), Some((to, after))) =
                (timeline.unix_ns(first), timeline.unix_ns(last.max(first)))
            else {
                continue;
            };
            if before.max(after) == 0 || piece.open.is_none() && header.records == 0 {
                continue;
            }
            let (from, to) = (from - i128::from(before), to + i128::from(after));
            all.push(Within { from, to, producer: part.producer, offset: piece.frame.offset });
        }
    }
    all.sort_by_key(|within| (within.from, within.offset));
    let mut by_producer: BTreeMap<u64, Vec<(i128, i128)>> = BTreeMap::new();
    all.iter().for_each(|of| by_producer.entry(of.producer).or_default().push((of.from, of.to)));
    let of_all = overlaps(&all.iter().map(|of| (of.from, of.to)).collect::<Vec<_>>());
    let n_pairs = by_producer.values().fold(of_all, |left, own| left.saturating_sub(overlaps(own)));
    // The two latest ends so far, of different producers.
    let mut latest: [Option<(i128, u64)>; 2] = [None; 2];
    for &Within { from, to, producer, offset } in &all {
        if latest.iter().flatten().any(|(end, of)| *of != producer && *end >= from) {
            return Some((n_pairs, offset));
        }
        match latest {
            [Some((end, of)), _] if of == producer => latest[0] = Some((end.max(to), of)),
            [Some((end, _)), second] if end >= to => {
                let known = second.filter(|(end, of)| *of != producer && *end >= to);
                latest[1] = known.or(Some((to, producer)));
            }
            [first, _] => latest = [Some((to, producer)), first],
        }
    }
    None
}

/// How many pairs of spans, which are sorted by their beginnings, have a time in common.
fn overlaps(spans: &[(i128, i128)]) -> u64 {
    let later = |(nth, (_, to)): (usize, &(i128, i128))| {
        spans.partition_point(|(from, _)| from <= to).saturating_sub(nth + 1) as u64
    };
    spans.iter().enumerate().map(later).sum()
}

fn shards_of(parts: &[Part]) -> Vec<Shard> {
    let n_producers = parts.iter().map(|part| part.producer).collect::<std::collections::BTreeSet<_>>().len();
    let shard = |(number, part): (usize, &Part)| Shard {
        id: ShardId(u32::try_from(number).unwrap_or(u32::MAX)),
        name: match n_producers {
            0 | 1 => format!("stream {}", part.stream),
            _ => format!("stream {} of {:016x}", part.stream, part.producer),
        },
        kind: ShardKind::Mixed,
        process: (part.process > 0).then_some(part.process),
        pieces: u32::try_from(part.pieces.len()).unwrap_or(u32::MAX).max(1),
        packed_bytes: Some(part.pieces.iter().map(|piece| piece.frame.header.frame_len()).sum()),
        begins: part.begins(),
        ..Shard::default()
    };
    parts.iter().enumerate().map(shard).collect()
}

fn columns_of(tables: &Tables) -> Columns {
    let mut columns = Columns::THREADS | Columns::THREAD_CLOCK;
    let mut add = |has: &dyn Fn(&Means) -> bool, more: Columns| {
        if tables.any(has) {
            columns |= more;
        }
    };
    add(&Means::is_access, Columns::ACCESSES);
    add(&|means| means.is_access() && means.pc.is_some(), Columns::ACCESS_PC);
    add(&|means| means.cpu.is_some(), Columns::THREAD_CPU);
    add(&|means| !means.is_access() && means.is_call(), Columns::CALLS);
    add(&|means| means.region.is_some(), Columns::REGIONS);
    let is_mark = |(table, means): (usize, &Arc<Means>)| {
        let is_other = means.is_access() || means.is_call() || means.region.is_some();
        table != RECORDS && !is_other
    };
    if tables.means.iter().enumerate().any(is_mark) {
        columns |= Columns::MARKS;
    }
    columns
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

fn meta_of(
    session: &Session,
    epochs: &BTreeMap<EpochId, Arc<Metadata>>,
    parts: &[Part],
    tables: &Tables,
    n_foreign: usize,
) -> Meta {
    let records = epochs.values().flat_map(|metadata| metadata.entries());
    let records: Vec<&Record> = records.filter_map(|(_, entry)| entry.record.as_deref()).collect();
    let producers = || {
        records.iter().filter_map(|record| match record {
            Record::Producer(producer) => Some(producer),
            _ => None,
        })
    };
    let programs: Vec<&str> = {
        let mut all: Vec<&str> = producers().filter_map(|producer| producer.program.as_deref()).collect();
        all.dedup();
        all
    };
    let n_records: u64 = parts
        .iter()
        .filter_map(|part| {
            let last = part.pieces.last()?;
            let own = last.open.map_or(last.frame.header.records, |head| head.records);
            Some(part.before.last()? + u64::from(own))
        })
        .sum();
    let clock = records.iter().find_map(|record| match record {
        Record::Clock(clock) if clock.ticks_per_s > 0 => Some(clock),
        _ => None,
    });
    let lost: u64 = session.lost().values().sum();
    let mut facts = vec![
        Fact::new("programs", "written by", programs.clone()),
        Fact::new("producers", "producers", session.producers().len()),
        Fact::new("streams", "streams", parts.len()),
        Fact::new("schemas", "kinds of records", tables.of_schemas().len()),
        Fact::new("records", "records", n_records),
    ];
    if let Some(clock) = clock {
        let name = clock.name.clone().or_else(|| clock.source.clone());
        facts.push(Fact::new("clock", "clock", name));
    }
    match lost {
        0 => {}
        MANY.. => facts.push(Fact::new("lost", "records lost", "an unknown number")),
        _ => facts.push(Fact::new("lost", "records lost", lost)),
    }
    if !session.attachments().is_empty() {
        let names: Vec<&str> = session.attachments().iter().map(|blob| &*blob.name).collect();
        facts.push(Fact::new("attachments", "attachments", names));
    }
    let aggregations: std::collections::BTreeSet<&str> = records
        .iter()
        .filter_map(|record| match record {
            Record::Aggregation(aggregation) => aggregation.name.as_deref(),
            _ => None,
        })
        .collect();
    if !aggregations.is_empty() {
        facts.push(Fact::new("aggregations", "aggregations", aggregations.into_iter().collect::<Vec<_>>()));
    }
    if n_foreign > 0 {
        facts.push(Fact::new("foreign_frames", "frames of other formats", n_foreign));
    }
    let has_access = tables.any(Means::is_access);
    let has_thread = tables.any(|means| means.thread.is_some()) || parts.iter().any(|part| part.thread > 0);
    Meta {
        format: INFO.name.into(),
        title: match programs.as_slice() {
            [] => "a stream that describes itself".to_owned(),
            [program] => format!("a stream of {program}"),
            _ => "streams that describe themselves".to_owned(),
        },
        clock: match parts.iter().any(|part| part.timeline.is_some()) {
            // Nanoseconds of Unix time.
            true => Some(Clock { per_second: 1_000_000_000, unix_epoch: Some(0), frames_calls: false }),
            false => clock.map(|clock| Clock {
                per_second: clock.ticks_per_s,
                unix_epoch: (clock.unix_ns == Some(0)).then_some(0),
                frames_calls: false,
            }),
        },
        page_bytes: producers().find_map(|producer| producer.page_bytes),
        n_files: 1,
        functions: functions(epochs, tables),
        facts,
        carries: vec![
            Carries::new("data-accesses", has_access, ""),
            Carries::new("threads", has_thread, ""),
            Carries::new("time", true, if clock.is_some() { "" } else { "of no known unit" }),
            Carries::new("instructions", false, ""),
        ],
        instrs: Recorded::Nothing,
        data: if has_access { Recorded::All } else { Recorded::Nothing },
        ..Meta::default()
    }
}

/// Names of functions, where calls name them by a table of the stream.
fn functions(epochs: &BTreeMap<EpochId, Arc<Metadata>>, tables: &Tables) -> Vec<Function> {
    let mut all: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut n_args: BTreeMap<u64, u64> = BTreeMap::new();
    for (epoch, metadata) in epochs {
        for schema in metadata.schemas() {
            let Some(means) = tables.find(*epoch, schema.id()).map(|table| &tables.means[table]) else {
                continue;
            };
            let Some(field) = means.function.filter(|_| means.is_call()).map(|at| &schema.fields[at]) else {
                continue;
            };
            let Some(names) = crate::column::names_of(&field.layout) else { continue };
            for (number, name) in names.iter() {
                all.entry(number).or_insert_with(|| vec![name.to_owned()]);
                n_args.insert(number, means.arguments.len() as u64);
            }
        }
    }
    let function = |(id, names)| Function {
        id,
        workload: 0,
        names,
        n_args: n_args.get(&id).copied().unwrap_or(0),
        noret: false,
    };
    all.into_iter().map(function).collect()
}

/// How many stored bytes of aggregations are read when a stream is opened.
const MAX_AGGREGATED_BYTES: u64 = 16 << 20;

/// How many stored bytes of plain rows are looked at for the remarks between them.
pub const MAX_LOOKED_BYTES: u64 = 256 << 20;

/// Remarks between records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Those that were found.
    pub all: Vec<RemarkAt>,
    /// Frames that were not looked at, since there are too many.
    pub n_unread_frames: u64,
}

/// A remark between two records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemarkAt {
    /// Who wrote it.
    pub producer: u64,
    /// The stream that it stands in.
    pub stream: u32,
    /// How many records of the stream stand before it.
    pub record: u64,
    /// Its time, in ticks of the stream's clock.
    pub time: u64,
    /// What it says.
    pub text: String,
}

impl StreamTrace {
    /// What is known of the stream beside its records; losses that only frames of data tell of are missing.
    pub fn session(&self) -> &Session {
        &self.opened.look.survey.session
    }

    /// Metadata by producer and epoch.
    pub fn epochs(&self) -> &BTreeMap<(u64, u32), Arc<Metadata>> {
        &self.opened.epochs
    }

    /// What readers share.
    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// What the page of a process says that recorded itself, if there is one.
    pub(crate) fn process_rows(&self) -> Result<Process> {
        let opened = &self.opened;
        let page = pages(&opened.look).next();
        page.map_or_else(|| Ok(Process::default()), |frame| page_at(&opened.look, frame))
    }

    /// Its streams, in the order of the shards.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.opened.parts
    }

    /// A trace as a stream.
    ///
    /// # Errors
    /// `Missing` if it is of another format.
    pub(crate) fn of(trace: &dyn Trace) -> Result<&StreamTrace> {
        let own = trace.as_any().and_then(|trace| trace.downcast_ref());
        own.ok_or_else(|| Error::missing("this is no trace of format stream"))
    }

    /// What the writer remarked between records, stream by stream, of as many frames as [`MAX_LOOKED_BYTES`] stored bytes are.
    ///
    /// # Errors
    /// What the source says.
    pub fn remarks(&self) -> Result<Remarks> {
        let opened = &self.opened;
        let mut input = opened.input()?;
        let mut worker = Worker::default();
        let mut remarks = Remarks::default();
        let mut left = MAX_LOOKED_BYTES;
        for part in &opened.parts {
            for (piece, before) in part.pieces.iter().zip(&part.before) {
                // Remarks stand in plain rows only.
                if piece.frame.header.encoding != encoding::PLAIN {
                    continue;
                }
                let n_stored = u64::from(piece.frame.header.stored_len);
                if n_stored > left {
                    remarks.n_unread_frames += 1;
                    continue;
                }
                left -= n_stored;
                let begun = match &piece.open {
                    Some(head) => worker.begin_open(&piece.frame, head, &mut input),
                    None => match frame_at(&mut input, piece.frame.offset) {
                        Ok(Some(there)) => worker.begin(&there, &mut input),
                        // What is wrong with frames, readers of rows say.
                        Ok(None) => continue,
                        Err(cause) => Err(cause),
                    },
                };
                if begun.map_err(|cause| unreadable(&opened.name, cause))?.is_err() {
                    continue;
                }
                let found = quipu_stream::decode::remarks(worker.payload());
                remarks.all.extend(found.map(|remark| RemarkAt {
                    producer: piece.frame.header.producer,
                    stream: part.stream,
                    record: before + u64::from(remark.ordinal),
                    time: remark.time,
                    text: remark.text,
                }));
            }
        }
        Ok(remarks)
    }

    /// Bytes of room that was claimed and never written.
    pub fn unwritten_bytes(&self) -> u64 {
        self.opened.look.survey.unwritten_bytes
    }

    /// How many bytes all readers of the trace have asked for so far.
    pub fn n_bytes_read(&self) -> u64 {
        self.opened.look.n_read.load(Ordering::Relaxed)
    }

    /// What is wrong with the frames that readers of rows do not come to: by a look at all headers, whether or not an index
    /// named them, and at the bodies of other formats if they are to be decoded.
    ///
    /// # Errors
    /// What the source says.
    pub fn findings_of_frames(&self, decodes: bool) -> Result<Vec<Finding>> {
        let opened = &self.opened;
        if !opened.look.members.is_empty() {
            return of_all_members(&opened.look, |member| {
                let look = member.of_headers()?;
                let mut findings = findings_of(&look)?;
                let bodies = look.survey.frames.iter().filter(is_body).filter(|_| decodes);
                let of_bodies = findings_of_bodies(&look, bodies)?;
                findings.extend(Finding::not_met(&of_bodies, &findings));
                Ok(findings)
            });
        }
        let look = opened.look.of_headers()?;
        let mut findings = self.meta.findings.clone();
        if opened.look.survey.is_indexed {
            let more = findings_of(&look)?;
            findings.extend(Finding::not_met(&more, &self.meta.findings));
        }
        for said in findings_of_bodies(&opened.look, self.bodies.iter().filter(|_| decodes))? {
            if !findings.contains(&said) {
                findings.push(said);
            }
        }
        Ok(findings)
    }
}

impl Trace for StreamTrace {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn shards(&self) -> &[Shard] {
        &self.shards
    }

    fn columns(&self) -> Columns {
        self.columns
    }

    fn tables(&self) -> Result<Vec<Arc<Schema>>> {
        Ok(self.opened.tables.schemas.clone())
    }

    fn details(&self, table: usize) -> Range<usize> {
        if table == RECORDS { self.opened.tables.of_schemas() } else { 0..0 }
    }

    fn scan(&self, scan: &Scan) -> Result<Box<dyn Reader>> {
        self.shard(scan.shard)?;
        Ok(Box::new(RowReader::new(&self.opened, scan)?))
    }

    fn printer(&self, options: &PrintOptions) -> Result<Box<dyn Printer>> {
        INFO.printing(options)?;
        Ok(Box::new(RecordPrinter))
    }

    fn mark_name(&self, kind: u32) -> Cow<'static, str> {
        match self.opened.tables.mark_name(kind) {
            Some(name) => Cow::Owned(name.to_owned()),
            None => Cow::Owned(format!("mark {kind}")),
        }
    }

    fn survey(&self, _: &dyn Fn() -> bool) -> Surveyed {
        // Headers say nothing of the rows, and an index little of the headers.
        match crate::copy::all_findings(self) {
            Ok(all) => Surveyed { findings: all, ..Surveyed::default() },
            Err(error) => Surveyed { error: Some(error), ..Surveyed::default() },
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
