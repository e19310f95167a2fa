//! Recognises and opens streams: their frames, tables and shards.
//!
//! A shard is one stream of one producer. Its pieces are frames, which can be read independently. If there is an index, it
//! lists the frames; otherwise all headers are read, but no payloads.

use crate::INFO;
use crate::bytes::{FRAME_READ_BYTES, HEADER_READ_BYTES, SourceInput, unreadable};
use crate::folder;
use crate::found::{findings_of, findings_of_bodies, is_body, of_all_members, page_at, pages};
use crate::functions::Modules;
use crate::look::{self, Look};
use crate::parts::{Part, align, parts_of, shards_of};
use crate::print::RecordPrinter;
use crate::reader::RowReader;
use crate::recording::Process;
use crate::rules;
use crate::schema::{EpochId, Means, RECORDS, Tables};
use quipu_model::schema::Schema;
use quipu_model::trace::{Carries, Clock, Fact, Function, PrintOptions, Recorded, Surveyed};
use quipu_model::{
    Columns, Confidence, Error, ErrorKind, Finding, Meta, Module, OpenOptions, Place, Printer, Reader,
    Result, Scan, Shard, Trace,
};
use quipu_source::{Codec, Source};
use quipu_stream::frame::{Header, HeaderFault, SYNC, encoding, kind};
use quipu_stream::index::frame_at;
use quipu_stream::loss::MANY;
use quipu_stream::meta::Metadata;
use quipu_stream::scan::FrameAt;
use quipu_stream::session::Session;
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

/// Bytes that are searched for a frame, to recognise a stream that begins in the middle.
const PROBED_BYTES: usize = 64 << 10;

/// Confidence that a source is a stream.
pub fn probe(source: &Source) -> Confidence {
    if source.is_folder() {
        return folder::probe_folder(source);
    }
    // No stream is packed in apitrace's Snappy chunks, and reading their first bytes would unpack a whole chunk.
    match source.packed_head(SYNC.len()) {
        Ok(head) if Codec::of(&head) != Codec::SnappyChunks => {}
        _ => return Confidence::No,
    }
    let is_header = |head: &[u8]| matches!(Header::read(head), Ok(_) | Err(HeaderFault::Version(_)));
    match source.head(512) {
        Ok(head) if head.starts_with(&SYNC) => {
            // No other format begins with these eight bytes, so they suffice even if what follows is damaged or cut.
            return if is_header(&head) { Confidence::Sure } else { Confidence::Likely };
        }
        Ok(_) => {}
        Err(_) => return Confidence::No,
    }
    let Ok(head) = source.head(PROBED_BYTES) else { return Confidence::No };
    match memchr::memmem::find_iter(&head, &SYNC).any(|at| is_header(&head[at..])) {
        true => Confidence::Likely,
        // If the damage is longer than the searched bytes, opening searches the rest.
        false if !head.is_empty() && is_named_so(source) => Confidence::Maybe,
        false => Confidence::No,
    }
}

/// Whether a file has the extension of streams, possibly followed by that of a container.
fn is_named_so(source: &Source) -> bool {
    let name =
        source.path().and_then(Path::file_name).map(|name| name.to_string_lossy().to_ascii_lowercase());
    name.is_some_and(|name| name.split('.').skip(1).any(|part| INFO.extensions.contains(&part)))
}

/// State shared by all readers.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) look: Arc<Look>,
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) epochs: BTreeMap<EpochId, Arc<Metadata>>,
    pub(crate) tables: Tables,
    /// Program files that calls refer to, loaded on the first call.
    pub(crate) modules: Modules,
    /// Frames with rows of aggregations.
    pub(crate) aggregations: Vec<FrameAt>,
    /// Offsets of the findings from opening.
    pub(crate) found_at: BTreeSet<u64>,
}

impl Opened {
    /// Opens the bytes of the stream for one reader.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub(crate) fn input(&self) -> Result<SourceInput> {
        let request_bytes = if self.is_wide() { HEADER_READ_BYTES } else { FRAME_READ_BYTES };
        SourceInput::new(&self.look.container, request_bytes, &self.look.n_read)
    }

    /// Whether there are very many streams. Each reader then reads less at a time and keeps no buffer between frames.
    pub(crate) fn is_wide(&self) -> bool {
        self.parts.len() > MAX_WIDE
    }
}

/// Maximum number of streams whose readers keep buffers for whole frames.
const MAX_WIDE: usize = 256;

/// An opened stream.
#[derive(Debug)]
pub struct StreamTrace {
    opened: Arc<Opened>,
    /// Frames that row readers skip: bodies of other formats, and aggregations.
    bodies: Vec<FrameAt>,
    meta: Meta,
    shards: Vec<Shard>,
    columns: Columns,
}

/// Opens the stream at `source`.
///
/// # Errors
/// `Unsupported` for a folder without streams, and if there is no frame; `Damaged` if there is only the beginning of a frame;
/// otherwise if the source cannot be read.
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
    let mut worker = Worker::with_registry(crate::bodies::registry());
    let mut parts = parts_of(survey, &epochs, |frame, head| {
        let mut input = SourceInput::new(&look.container, FRAME_READ_BYTES, &look.n_read)?;
        let begun = worker.begin_open(frame, head, &mut input).map_err(|cause| unreadable(&name, cause))?;
        let mut metadata =
            epochs.get(&(frame.header.producer, frame.header.epoch)).cloned().unwrap_or_default();
        // Readers of rows report faults.
        let (mut n_records, mut faults) = (0, Vec::new());
        while begun.is_ok() && worker.next(&mut metadata, &mut faults) {
            n_records += worker.batch().order().len() as u32; // A frame has fewer bytes.
        }
        Ok(n_records)
    })?;
    let order = align(&mut parts, session, &epochs);
    let n_foreign = survey.frames.iter().filter(|frame| frame.header.is_foreign()).count();
    let mut findings = findings_of(&look)?;
    findings.extend(order.map(|(message, offset)| {
        let place = quipu_model::Place { file: Some(name.clone()), offset, ..Default::default() };
        rules::ORDER.broken(place, message)
    }));
    // Findings about the end sort before findings that were noticed later.
    findings.sort_by_key(|finding| finding.place.offset.unwrap_or(u64::MAX));
    let found_at = findings.iter().filter_map(|finding| finding.place.offset).collect();
    look.name_files(&mut findings);
    let meta = meta_of(session, &epochs, &parts, &tables, n_foreign);
    let (packed_bytes, n_files) = match source.is_folder() {
        true => (None, folder::files_of(source)?.len() as u64),
        false => (source.container()?.size_bytes(), 1),
    };
    // A frame that is too new to be skipped counts as the end of the stream.
    let is_ended = !session.findings.iter().any(|finding| finding.name == "no-end-frame");
    let meta = Meta {
        packed_bytes: packed_bytes.or(Some(look.size)),
        n_files,
        is_ended: Some(is_ended),
        findings,
        ..meta
    };
    if parts.is_empty() {
        // A stream without records is still a trace.
        parts.push(Part::default());
    }
    let shards = shards_of(&parts);
    let columns = columns_of(&tables);
    let bodies = survey.frames.iter().filter(is_body).copied().collect();
    let modules = Modules::default();
    let look = Arc::clone(&look);
    let opened = Opened { look, name, parts, epochs, tables, modules, aggregations, found_at };
    Ok(StreamTrace { opened: Arc::new(opened), bodies, meta, shards, columns })
}

/// Checks that there is a frame or at least metadata.
///
/// # Errors
/// `Damaged` if there is only the beginning of a frame, otherwise `Unsupported`.
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
    add(&|means| means.mark.is_some(), Columns::MARKS | Columns::MARK_TEXT);
    let is_mark = |(table, means): (usize, &Arc<Means>)| {
        let is_other = means.is_access() || means.is_call() || means.region.is_some();
        table != RECORDS && !is_other
    };
    if tables.means.iter().enumerate().any(is_mark) {
        columns |= Columns::MARKS;
    }
    columns
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
            Some(part.before.last()? + u64::from(last.records()))
        })
        .sum();
    let clock = records.iter().find_map(|record| match record {
        Record::Clock(clock) if clock.ticks_per_s > 0 => Some(clock),
        _ => None,
    });
    let lost: u64 = session.lost().values().sum();
    let mut facts = vec![
        Fact::new("programs", "written by", programs.clone()),
        Fact::new("producers", "producers", session.producers().len()).headline(),
        Fact::new("streams", "streams", parts.len()),
        Fact::new("schemas", "kinds of records", tables.of_schemas().len()).headline(),
        Fact::new("records", "records", n_records).headline(),
    ];
    if let Some(clock) = clock {
        let name = clock.name.clone().or_else(|| clock.source.clone());
        facts.push(Fact::new("clock", "clock", name));
    }
    match lost {
        0 => {}
        MANY.. => facts.push(Fact::new("lost", "records lost", "an unknown number")),
        _ => facts.push(Fact::new("lost", "records lost", lost).headline()),
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

/// Names of functions, if calls refer to a table of names in the stream.
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

/// Stored bytes of plain rows that are searched for remarks.
pub const MAX_LOOKED_BYTES: u64 = 256 << 20;

/// Remarks between records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// The remarks that were found.
    pub all: Vec<RemarkAt>,
    /// Number of frames that were not searched, because of [`MAX_LOOKED_BYTES`].
    pub n_unread_frames: u64,
}

/// A remark between two records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemarkAt {
    /// Id of the producer.
    pub producer: u64,
    /// Number of its stream.
    pub stream: u32,
    /// Number of records of the stream before the remark.
    pub record: u64,
    /// Time in ticks of the stream's clock.
    pub time: u64,
    /// Text of the remark.
    pub text: String,
}

impl StreamTrace {
    /// The metadata and findings of the stream. Losses that are recorded only inside data frames are missing.
    pub fn session(&self) -> &Session {
        &self.opened.look.survey.session
    }

    /// Metadata by producer and epoch.
    pub fn epochs(&self) -> &BTreeMap<(u64, u32), Arc<Metadata>> {
        &self.opened.epochs
    }

    /// State shared by all readers.
    pub(crate) fn opened(&self) -> &Arc<Opened> {
        &self.opened
    }

    /// Reads the process page of a recording; the default value if there is none.
    pub(crate) fn process_rows(&self) -> Result<Process> {
        let opened = &self.opened;
        let page = pages(&opened.look).next();
        page.map_or_else(|| Ok(Process::default()), |frame| page_at(&opened.look, frame))
    }

    /// The streams, in the order of the shards.
    pub(crate) fn parts(&self) -> &[Part] {
        &self.opened.parts
    }

    /// Downcasts a trace to a stream.
    ///
    /// # Errors
    /// `Missing` if the trace has another format.
    pub(crate) fn of(trace: &dyn Trace) -> Result<&StreamTrace> {
        let own = trace.as_any().and_then(|trace| trace.downcast_ref());
        own.ok_or_else(|| Error::missing("this is no trace of format stream"))
    }

    /// Returns the remarks between records, stream by stream, from frames of up to [`MAX_LOOKED_BYTES`] stored bytes.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub fn remarks(&self) -> Result<Remarks> {
        let opened = &self.opened;
        let mut input = opened.input()?;
        let mut worker = Worker::default();
        let mut remarks = Remarks::default();
        let mut left = MAX_LOOKED_BYTES;
        for part in &opened.parts {
            for (piece, before) in part.pieces.iter().zip(&part.before) {
                // Only plain rows contain remarks.
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
                        // Row readers report faults in frames.
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

    /// Bytes of room that was claimed but never written.
    pub fn unwritten_bytes(&self) -> u64 {
        self.opened.look.survey.unwritten_bytes
    }

    /// Bytes that all readers of the trace have asked for so far.
    pub fn n_bytes_read(&self) -> u64 {
        self.opened.look.n_read.load(Ordering::Relaxed)
    }

    /// Findings about frames that row readers skip: from all headers, whether or not an index lists them, and from the bodies
    /// of other formats if `decodes`.
    ///
    /// # Errors
    /// If the source cannot be read.
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
            let mut more = findings_of(&look)?;
            look.name_files(&mut more);
            findings.extend(Finding::not_met(&more, &self.meta.findings));
        }
        let mut of_bodies = findings_of_bodies(&opened.look, self.bodies.iter().filter(|_| decodes))?;
        opened.look.name_files(&mut of_bodies);
        for said in of_bodies {
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

    fn modules(&self) -> Vec<Module> {
        crate::functions::all(&self.opened)
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
        // Headers say nothing about rows, and an index says little about headers, so everything is read.
        match crate::copy::all_findings(self) {
            Ok(all) => Surveyed { findings: all, ..Surveyed::default() },
            Err(error) => Surveyed { error: Some(error), ..Surveyed::default() },
        }
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
