//! Traces of other formats that a stream carries: their bytes stand in frames, the files beside them are attachments.
//!
//! Each stream of a producer with such frames is a file. What Quipu writes says in settings how the file is called and which
//! members it has ([`FILE_SETTING`]); of other streams, the file is called as the stream is.

use crate::bytes::{FRAME_READ_BYTES, HEADER_READ_BYTES, SourceInput, unreadable};
use crate::folder;
use crate::found;
use crate::look::{self, Look};
use crate::rules;
use crate::schema::EpochId;
use crate::trace;
use quipu_model::trace::Carried;
use quipu_model::{Finding, Place, Result};
use quipu_source::{CarrierDamage, Content, ContentPart, Source};
use quipu_stream::blob::{Piece, Section};
use quipu_stream::finding;
use quipu_stream::frame::{Extension, Header, MAX_RAW_BYTES, encoding, kind};
use quipu_stream::index::{extension, frame_at};
use quipu_stream::loss::LostAfter;
use quipu_stream::scan::FrameAt;
use quipu_stream::session::Session;
use quipu_stream::survey::Survey;
use quipu_stream::wire::record::{Record, Setting};
use quipu_stream::work::Worker;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// What the settings begin with that say what the file of a stream is: the stream's number follows.
pub const FILE_SETTING: &str = "quipu.file.";

/// The setting that says what is attached, as JSON: name and bytes. A record for each, so that none is lost without a word.
pub const ATTACHED_SETTING: &str = "quipu.attached";

/// The setting that says that the files stand in a folder.
pub const FOLDER_SETTING: &str = "quipu.folder";

/// Formats by the encoding of their bodies: the numbers are those of the container's page, so the names stand here, too. Of
/// lines, the first format whose values make sense is meant.
pub const FORMATS: &[(u16, &str)] = &[
    (encoding::DRMEMTRACE, "drmemtrace"),
    (encoding::RAW_WORDS, "drmemtrace-raw"),
    (encoding::CACHERAY, "cacheray"),
    (encoding::APITRACE, "apitrace"),
    (encoding::LINES, "lackey"),
    (encoding::LINES, "din"),
];

/// Formats that write streams themselves, by the encoding of bodies that they read there.
pub const OWN_WRITERS: &[(u16, &str)] = &[(encoding::PRISM, "prism"), (encoding::PRISM_VARIABLE, "prism")];

/// What the names of streams of these formats end in.
pub(crate) const OWN_EXTENSIONS: &[&str] = &["prism"];

/// What the settings begin with that say how the bytes of files read, where nothing in them shows it.
pub const READING_SETTING: &str = "quipu.reading.";

/// The name under which a file [says](quipu_source::Source::said) how it is called for itself.
pub const NAME: &str = "name";

/// The name under which files that are one trace together say which: who reads them counts what is lost of it.
pub const WHOLE: &str = "whole";

/// The name under which the number of the bodies' encoding is [said](quipu_source::Source::said).
pub const ENCODING: &str = "encoding";

/// The encoding of the bodies of a format.
pub fn encoding_of(format: &str) -> Option<u16> {
    FORMATS.iter().find(|(_, name)| *name == format).map(|(number, _)| *number)
}

/// True for formats whose files are their records and nothing else: what a stream carries of them is written back byte by byte,
/// whatever stands in it.
pub fn lies_bare(format: &str) -> bool {
    encoding_of(format).is_some_and(|number| matches!(number, encoding::CACHERAY | encoding::LINES))
}

/// True if bodies of this encoding are read as traces of a format.
pub(crate) fn is_carried(encoding: u16) -> bool {
    FORMATS.iter().chain(OWN_WRITERS).any(|(number, _)| *number == encoding)
}

/// What a file is that stands in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Name relative to the folder, or of the file.
    pub name: String,
    /// Bytes of the frames, one after the other: how many, and of how many frames.
    pub frames: Vec<(u64, u64)>,
    /// Its members, if it is an archive.
    pub parts: Vec<ContentPart>,
    /// Its first bytes once more, if it has more than one frame: what the rest needs stands there, and the first frame may be
    /// lost.
    pub head: Vec<u8>,
}

/// Bytes of a raw word of drmemtrace.
pub(crate) const WORD_BYTES: u64 = 8;

/// How many first bytes of a file stand beside its frames: the header of every format here, in whole entries of drmemtrace.
pub const HEAD_BYTES: usize = 504;

/// Bytes as hexadecimal digits.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits; none if there is anything else.
fn from_hex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).take(HEAD_BYTES).map(byte).collect();
    bytes.unwrap_or_default()
}

impl File {
    /// The value of the setting that says it.
    pub fn to_setting(&self) -> String {
        let parts: Vec<Value> =
            self.parts.iter().map(|part| json!([part.name, part.len, part.crc32])).collect();
        let mut said = json!({ "name": self.name, "frames": self.frames, "parts": parts });
        if !self.head.is_empty() {
            said["head"] = to_hex(&self.head).into();
        }
        said.to_string()
    }

    /// Reads the value of a setting.
    fn read(text: &str) -> Option<File> {
        let value: Value = serde_json::from_str(text).ok()?;
        let pair = |pair: &Value| Some((pair[0].as_u64()?, pair[1].as_u64()?));
        let part = |part: &Value| {
            let crc32 = part[2].as_u64().and_then(|crc| u32::try_from(crc).ok());
            Some(ContentPart { name: part[0].as_str()?.to_owned(), len: part[1].as_u64()?, crc32 })
        };
        Some(File {
            name: value["name"].as_str()?.to_owned(),
            frames: value["frames"].as_array()?.iter().map(pair).collect::<Option<_>>()?,
            parts: value["parts"].as_array()?.iter().map(part).collect::<Option<_>>()?,
            head: value["head"].as_str().map(from_hex).unwrap_or_default(),
        })
    }
}

/// A name that stays within its folder.
fn safe(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..") && !name.contains('\0')).then(|| parts.join("/"))
}

/// The traces of other formats in a stream, one for each producer and format; none if it has rows of its own.
///
/// # Errors
/// What the source says.
pub fn carried(source: &Source) -> Result<Vec<Carried>> {
    if source.is_folder() && folder::files_of(source)?.is_empty() {
        return Ok(Vec::new());
    }
    let look = look::at(source)?;
    // Whatever is asked of it, there is nothing.
    trace::refuse_nothing(source, &look.survey)?;
    let (look, all) = match look.members.is_empty() {
        true => traces_of(&look)?,
        false => (Arc::clone(&look), vec![of_members(&look)?]),
    };
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let findings: Arc<[Finding]> = found::findings_of(&look)?.into();
    let carried = |Trace { format, entries, is_folder, .. }| Carried {
        format,
        source: as_source(source.name(), entries, is_folder),
        findings: Arc::clone(&findings),
        is_counted: look.is_counted,
    };
    Ok(all.into_iter().map(carried).collect())
}

/// The traces of other formats that a look at a stream shows; with the look itself, which is one at all headers where an index
/// names frames that are not there.
///
/// # Errors
/// What the source says.
fn traces_of(look: &Arc<Look>) -> Result<(Arc<Look>, Vec<Trace>)> {
    let all = match look_for_traces(look)? {
        Some(all) => all,
        None => {
            let look = look.of_headers()?;
            let all = look_for_traces(&look)?.unwrap_or_default();
            return Ok((look, all));
        }
    };
    Ok((Arc::clone(look), all))
}

/// The same by this very look; `None` if an index names other frames than there are.
fn look_for_traces(look: &Arc<Look>) -> Result<Option<Vec<Trace>>> {
    let survey = &look.survey;
    let mut input = SourceInput::new(&look.container, HEADER_READ_BYTES, &look.n_read)?;
    let has_rows = survey.frames.iter().any(|frame| !frame.header.is_foreign() && !is_empty(frame))
        || !survey.open.is_empty();
    if has_rows {
        return Ok(Some(Vec::new()));
    }
    let mut streams: Streams = BTreeMap::new();
    for frame in &survey.frames {
        let header = &frame.header;
        if !is_carried(header.encoding) && !is_empty(frame) {
            // A body that no format here reads.
            return Ok(Some(Vec::new()));
        }
        streams.entry(header.producer).or_default().entry(header.stream).or_default().push(*frame);
    }
    let mut all = Vec::new();
    let producers: BTreeSet<u64> = survey.session.epochs().keys().map(|(producer, _)| *producer).collect();
    let known = Faults::of(look);
    for producer in producers {
        let described = Described::of(look, &known, producer);
        let streams = streams.remove(&producer).unwrap_or_default();
        let traces = of_producer(&described, streams, look, producer, &mut input);
        match traces.map_err(|cause| unreadable(&look.name, cause))? {
            Some(traces) => all.extend(traces),
            None => return Ok(None),
        }
    }
    Ok(Some(all))
}

/// Whether all producers of a stream with these findings have ended it; else more may come.
pub fn has_ended(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| finding.rule == rules::NO_END.name)
}

/// What is said of frames of files in a stream that are missing.
///
/// # Errors
/// What the source says.
pub(crate) fn missing_in(look: &Arc<Look>) -> Result<Vec<CarrierDamage>> {
    Ok(traces_of(look)?.1.into_iter().flat_map(|trace| trace.missing).collect())
}

/// A trace that is carried.
struct Trace {
    format: Option<String>,
    /// Its files, and whether these stand in a folder.
    entries: Entries,
    is_folder: bool,
    /// What is said of frames that are missing.
    missing: Vec<CarrierDamage>,
}

/// True if all that streams carry are bodies of formats that write streams themselves.
pub(crate) fn are_own(survey: &Survey) -> bool {
    let is_own = |frame: &FrameAt| OWN_WRITERS.iter().any(|(number, _)| *number == frame.header.encoding);
    let mut frames = survey.frames.iter().filter(|frame| !is_empty(frame)).peekable();
    survey.open.is_empty() && frames.peek().is_some() && frames.all(is_own)
}

/// True if files say which trace they are of, so that who reads them knows what is missing.
pub(crate) fn is_counted(survey: &Survey) -> bool {
    let is_whole = |setting: &Setting| setting.name.strip_prefix(READING_SETTING) == Some(WHOLE);
    let epochs = survey.session.epochs().values();
    epochs.flat_map(|epoch| epoch.metadata.entries()).any(|(_, entry)| match entry.record.as_deref() {
        Some(Record::Setting(setting)) => is_whole(setting),
        _ => false,
    })
}

/// The files of a folder of streams whose formats write streams themselves, by the names that they have there: such a format
/// knows whether they are one trace.
fn of_members(folder: &Look) -> Result<Trace> {
    let (mut format, mut files): (Option<String>, Entries) = (None, Vec::new());
    for member in &folder.members {
        let (look, traces) = traces_of(member)?;
        let mut own: Entries = Vec::new();
        for trace in traces {
            format = format.or(trace.format);
            own.extend(trace.entries);
        }
        if own.is_empty() {
            own.push((String::new(), Arc::new(Frames::lost(&look))));
        }
        for (name, content) in own {
            let name = look.file.clone().unwrap_or(name);
            let is_taken = |wanted: &str| files.iter().any(|(known, _)| known == wanted);
            let further = (2_u64..).map(|n| format!("{name}-{n}"));
            let free = std::iter::once(name.clone()).chain(further).find(|wanted| !is_taken(wanted));
            files.push((free.unwrap_or(name), content));
        }
    }
    Ok(Trace { format, entries: files, is_folder: true, missing: Vec::new() })
}

/// True for a frame of rows without a record: it says only what was lost.
pub(crate) fn is_empty(frame: &FrameAt) -> bool {
    !frame.header.is_foreign() && frame.header.records == 0
}

/// Frames by producer and stream.
type Streams = BTreeMap<u64, BTreeMap<u32, Vec<FrameAt>>>;

/// Files by their relative names.
type Entries = Vec<(String, Arc<dyn Content>)>;

/// The traces of a producer: their formats, if these are said, and their files. `None` if an index names frames that are absent.
fn of_producer(
    described: &Described,
    mut streams: BTreeMap<u32, Vec<FrameAt>>,
    look: &Arc<Look>,
    producer: u64,
    input: &mut SourceInput,
) -> io::Result<Option<Vec<Trace>>> {
    let is_ours = |_: &&u32| described.is_carrier();
    for stream in described.files.keys().chain(described.names.keys().filter(is_ours)) {
        // A file without bytes has no frame, and one whose frames are damaged may have none.
        streams.entry(*stream).or_default();
    }
    let mut traces: BTreeMap<Option<u16>, Entries> = BTreeMap::new();
    let mut missing = Vec::new();
    for (stream, frames) in streams {
        let number = frames.iter().find(|frame| !is_empty(frame)).map(|frame| frame.header.encoding);
        let Some((name, content)) = file(described, (producer, stream), frames, look, input)? else {
            return Ok(None);
        };
        missing.extend(content.reasons.values().cloned());
        traces.entry(number).or_default().push((name, Arc::new(content)));
    }
    let empty = traces.remove(&None).unwrap_or_default();
    let mut beside: Entries = empty;
    let session = &look.survey.session;
    for attachment in session.attachments().iter().filter(|blob| blob.from.0 == producer) {
        if let Some(name) = safe(&attachment.name) {
            let sections = attachment.sections();
            beside.push((name, Arc::new(Frames::of_sections(look, &attachment.name, &sections))));
        }
    }
    // What a file says that is lost is damaged at its first byte.
    for (_, said, len) in lost_of(session, producer) {
        if let Some(name) = safe(&said) {
            let section = Section { range: 0..len, frame: None };
            beside.push((name, Arc::new(Frames::of_sections(look, &said, &[section]))));
        }
    }
    let is_folder = described.is_folder;
    if traces.is_empty() && (described.is_folder || !beside.is_empty() && described.is_carrier()) {
        let format = described.format.clone();
        return Ok(Some(vec![Trace { format, entries: beside, is_folder, missing }]));
    }
    let of_number = |number: u16| {
        let said = described.format.clone().filter(|format| encoding_of(format) == Some(number));
        // Lines say by themselves whose they are.
        let first = || FORMATS.iter().chain(OWN_WRITERS).find(|(known, _)| *known == number);
        let first = || first().filter(|(known, _)| *known != encoding::LINES);
        said.or_else(|| first().map(|(_, name)| (*name).to_owned()))
    };
    let trace = |(number, mut entries): (Option<u16>, Entries)| {
        entries.extend(beside.iter().cloned());
        let format = number.and_then(of_number);
        Trace { format, entries, is_folder, missing: std::mem::take(&mut missing) }
    };
    Ok(Some(traces.into_iter().map(trace).collect()))
}

/// Attachments that are lost as a whole, as findings of the container.
pub(crate) fn lost_attachments(session: &Session) -> impl Iterator<Item = finding::Finding> {
    let lost = session.producers().iter().flat_map(|producer| lost_of(session, *producer));
    lost.map(|(_, name, _)| incomplete(&name))
}

/// The finding of an attachment that lacks bytes.
fn incomplete(name: &str) -> finding::Finding {
    finding::Finding::new("attachment-incomplete").with("attachment", name)
}

/// What a producer says that it attached and is lost as a whole: its epoch, name and bytes.
fn lost_of(session: &Session, producer: u64) -> Vec<(EpochId, String, u64)> {
    let epochs = session.epochs().range((producer, 0)..=(producer, u32::MAX));
    let said = epochs.flat_map(|(id, epoch)| {
        let entries = epoch.metadata.entries().filter_map(|(_, entry)| entry.record.as_deref());
        entries.filter_map(|record| match record {
            Record::Setting(setting) if setting.name == ATTACHED_SETTING => {
                let (name, len) = serde_json::from_str::<(String, u64)>(setting.value.as_text()?).ok()?;
                Some((*id, name, len))
            }
            _ => None,
        })
    });
    let is_lost = |(id, name, _): &(EpochId, String, u64)| {
        !session.attachments().iter().any(|attachment| attachment.from == *id && attachment.name == *name)
    };
    said.filter(is_lost).collect()
}

/// A file, or a folder of files.
fn as_source(name: &str, mut entries: Entries, is_folder: bool) -> Source {
    match entries.pop() {
        Some((file, content)) if entries.is_empty() && !is_folder => {
            Source::of_content(format!("{name}/{file}"), content)
        }
        last => {
            entries.extend(last);
            Source::of_tree(name, entries)
        }
    }
}

/// What metadata say of the files of a producer.
#[derive(Debug, Default)]
struct Described {
    files: BTreeMap<u32, File>,
    names: BTreeMap<u32, String>,
    format: Option<String>,
    is_folder: bool,
    /// How bytes read, by what is said.
    reading: BTreeMap<String, String>,
    /// What of the stream is damaged, so that bytes may be missing in its files.
    faults: Arc<[Fault]>,
    /// What is lost of a stream after its last frame, as is said.
    lost_at_end: BTreeMap<u32, LostAfter>,
}

/// What of a stream is damaged.
#[derive(Clone, Debug)]
struct Fault {
    /// Where, if that is known.
    offset: Option<u64>,
    /// The stream of a producer that lacks frames, if it is known which.
    stream: Option<u64>,
    damage: CarrierDamage,
}

/// What of a stream is damaged, and what was dropped, for all its producers: a stream may have very many.
struct Faults {
    faults: Arc<[Fault]>,
    lost: BTreeMap<(u64, u32), LostAfter>,
}

/// What is said of a file of a folder without a frame.
pub(crate) struct Nothing;

impl Nothing {
    /// The damage; none if there is a frame, or if something else is known to be wrong.
    pub(crate) fn of(look: &Look) -> Option<CarrierDamage> {
        let survey = &look.survey;
        let is_there = !survey.frames.is_empty() || !survey.session.producers().is_empty();
        let is_known = survey.session.findings.iter().any(finding::Finding::loses);
        (!is_there && !is_known).then(|| CarrierDamage {
            file: look.name.clone(),
            offset: Some(0),
            rule: rules::TRUNCATED.name,
            what: "there is no whole frame of the stream".to_owned(),
            ..CarrierDamage::default()
        })
    }
}

impl Faults {
    /// What is said first.
    fn first(&self) -> Option<CarrierDamage> {
        first_of(&self.faults)
    }

    fn of(look: &Look) -> Faults {
        let survey = &look.survey;
        let session = &survey.session;
        let lost = found::lost_after_all(survey);
        let losing = session.findings.iter().filter(|found| found.loses());
        let losing = losing.filter(|found| !found::is_said(found, session, &lost));
        // Counts that do not agree have no place: another finding says what is missing, if anything is.
        let place = |of: &finding::Finding| of.number("offset").filter(|_| of.name != "end-mismatch");
        let fault = |of: &finding::Finding| Fault {
            offset: place(of),
            stream: of.number("stream"),
            damage: rules::damage(of, &look.name),
        };
        // What an earlier copy had lost of no file that is known, any may lack.
        let of_all =
            lost.iter().filter(|lost| lost.of_copy.is_some() && (lost.stream == 0 || !lost.is_named));
        let of_all =
            of_all.map(|lost| Fault { offset: Some(lost.offset), stream: None, damage: at_end(lost, look) });
        let nothing = Nothing::of(look).map(|damage| Fault { offset: Some(0), stream: None, damage });
        let faults = losing.map(fault).chain(of_all).chain(nothing).collect();
        let own = lost.iter().filter(|lost| lost.is_named || lost.of_copy.is_none());
        Faults { faults, lost: own.map(|lost| ((lost.producer, lost.stream), *lost)).collect() }
    }
}

/// The damage of the first of some faults.
fn first_of(faults: &[Fault]) -> Option<CarrierDamage> {
    let first = faults.iter().min_by_key(|fault| fault.offset.unwrap_or(u64::MAX));
    first.map(|fault| fault.damage.clone())
}

impl Described {
    /// True if files of a format that is known here are described.
    fn is_carrier(&self) -> bool {
        !self.files.is_empty() || self.format.as_deref().is_some_and(|format| encoding_of(format).is_some())
    }

    fn of(look: &Look, known: &Faults, producer: u64) -> Described {
        let survey = &look.survey;
        let own = known.lost.range((producer, 0)..=(producer, u32::MAX));
        let mut described = Described {
            faults: Arc::clone(&known.faults),
            lost_at_end: own.map(|((_, stream), lost)| (*stream, *lost)).collect(),
            ..Described::default()
        };
        let range: (EpochId, EpochId) = ((producer, 0), (producer, u32::MAX));
        for (_, epoch) in survey.session.epochs().range(range.0..=range.1) {
            for (_, entry) in epoch.metadata.entries() {
                match entry.record.as_deref() {
                    Some(Record::Setting(setting)) if setting.name == FOLDER_SETTING => {
                        described.is_folder = true
                    }
                    Some(Record::Setting(setting)) if setting.name.starts_with(READING_SETTING) => {
                        let name = setting.name[READING_SETTING.len()..].to_owned();
                        let value = setting.value.as_text().map(str::to_owned);
                        described.reading.extend(value.map(|value| (name, value)));
                    }
                    Some(Record::Setting(setting)) => {
                        let number =
                            setting.name.strip_prefix(FILE_SETTING).and_then(|number| number.parse().ok());
                        let file = setting.value.as_text().and_then(File::read);
                        if let (Some(number), Some(file)) = (number, file) {
                            described.files.insert(number, file);
                        }
                    }
                    Some(Record::Stream(stream)) => {
                        let name = stream.original.clone().or_else(|| stream.name.clone());
                        described.names.extend(name.map(|name| (stream.number, name)));
                        described.format = described.format.take().or_else(|| stream.format.clone());
                    }
                    _ => {}
                }
            }
        }
        described
    }
}

impl Described {
    /// What is said of frames of a stream that are missing and have no reason yet: what is known to be wrong between the frames
    /// before and after them. `lengths` of bodies are known of a file that is described.
    fn say_missing(
        &self,
        (stream, number): (u32, u16),
        frames: &[Option<FrameAt>],
        lengths: Option<&[u64]>,
        look: &Look,
        reasons: &mut BTreeMap<usize, CarrierDamage>,
    ) {
        let mut after = None;
        let mut nexts: Vec<Option<u64>> = Vec::with_capacity(frames.len());
        for frame in frames.iter().rev() {
            nexts.push(after);
            after = frame.map(|frame| frame.offset).or(after);
        }
        nexts.reverse();
        // What an earlier copy had lost is why its frames are missing.
        let of_copy = self.lost_at_end.get(&stream).filter(|lost| lost.of_copy.is_some());
        let of_copy = of_copy.map(|lost| at_end(lost, look));
        let mut before: Option<FrameAt> = None;
        for (nth, (frame, next)) in frames.iter().zip(nexts).enumerate() {
            if frame.is_some() {
                before = *frame;
            }
            if frame.is_some() || reasons.contains_key(&nth) {
                continue;
            }
            let is_here = |fault: &&Fault| fault.stream.is_none_or(|own| own == u64::from(stream));
            let is_between = |fault: &&Fault| {
                let is_after = |at: u64| before.is_none_or(|before| at > before.offset);
                fault.offset.is_some_and(|at| is_after(at) && next.is_none_or(|next| at <= next))
            };
            let here = || self.faults.iter().filter(is_here);
            let placed = here().filter(is_between).min_by_key(|fault| fault.offset);
            let named = || here().find(|fault| fault.offset.is_none() && fault.stream.is_some());
            let known = placed.or_else(named).or_else(|| here().find(|fault| fault.offset.is_none()));
            let known = of_copy.clone().or_else(|| known.map(|fault| fault.damage.clone()));
            let damage = known.unwrap_or_else(|| CarrierDamage {
                file: look.name.clone(),
                rule: rules::GAP.name,
                what: format!("frame {nth} of stream {stream} is missing"),
                ..CarrierDamage::default()
            });
            let bytes = lengths.map(|lengths| lengths[nth]);
            let counted = bytes.filter(|_| number == encoding::RAW_WORDS).map(|bytes| bytes / WORD_BYTES);
            let (records, next) = (rules::records_in(number, counted), damage.next.or(next));
            reasons.insert(nth, CarrierDamage { records, bytes, next, ..damage });
        }
    }
}

/// The file of a stream, by its name; `None` if an index names frames that are not there.
fn file(
    described: &Described,
    (producer, stream): (u64, u32),
    frames: Vec<FrameAt>,
    look: &Arc<Look>,
    input: &mut SourceInput,
) -> io::Result<Option<(String, Frames)>> {
    let number = frames.iter().find(|frame| !is_empty(frame)).map(|frame| frame.header.encoding);
    let said = described.files.get(&stream);
    let name = said.map(|file| &file.name).or(described.names.get(&stream));
    let name = name.and_then(|name| safe(name)).unwrap_or_else(|| format!("stream-{stream}"));
    // A setting comes after the frames that it is about: it does not say many more than there are.
    let n_most = 4 * (frames.len() as u64 + 256);
    let counts =
        |file: &&File| file.frames.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n)) <= n_most;
    let mut reasons = BTreeMap::new();
    let mut parts = said.map(|file| file.parts.clone()).unwrap_or_default();
    let (frames, lengths, fault) = match said.filter(counts) {
        Some(file) => {
            // Reading comes to what is missing at its place; damage of other files is none of this one.
            let (mut frames, mut lengths) = in_places(frames, &file.frames);
            if let Some(lost) = described.lost_at_end.get(&stream)
                && frames.iter().all(Option::is_some)
            {
                // All of the file is there, and there was more when it was put into the stream.
                reasons.insert(frames.len(), at_end(lost, look));
                frames.push(None);
                lengths.push(1);
                if let Some(last) = parts.last_mut() {
                    *last = ContentPart { len: last.len.saturating_add(1), crc32: None, ..last.clone() };
                }
            }
            let of_stream = (stream, number.unwrap_or_default());
            described.say_missing(of_stream, &frames, Some(&lengths), look, &mut reasons);
            (frames, lengths, None)
        }
        None => {
            let (mut with_gaps, mut lengths, mut next, mut end) = (Vec::new(), Vec::new(), None, 0_u64);
            for frame in frames {
                let there = frame_at(input, frame.offset)?;
                let is_same = |there: &FrameAt| quipu_stream::survey::is_same(&there.header, &frame.header);
                let header = match there.filter(is_same) {
                    Some(there) => there.header,
                    None if look.survey.is_indexed => return Ok(None),
                    None => Header::default(),
                };
                let n_missing = header.seq.saturating_sub(next.unwrap_or(0));
                let extension = Extension::read(&extension(input, frame.offset)?);
                // Without an extension, nothing says whether frames stood before the first one.
                let is_missing =
                    next.map_or(n_missing > 0 && extension.is_some(), |next| next != frame.header.seq);
                if is_missing || header.lost > 0 {
                    let place = Place {
                        file: Some(look.name.clone()),
                        offset: Some(frame.offset),
                        ..Place::default()
                    };
                    let why = (!is_missing).then(|| dropped(&rules::lost(header.lost, stream, place)));
                    reasons.extend(why.map(|why| (with_gaps.len(), why)));
                    with_gaps.push(None);
                    // How long what is missing was, only such a header says; else a byte stands for it.
                    let place = extension.and_then(|extension| extension.bytes_before.checked_sub(end));
                    let most = n_missing.saturating_mul(u64::from(MAX_RAW_BYTES));
                    let len = place.filter(|len| is_missing && (1..=most).contains(len)).unwrap_or(1);
                    lengths.push(len);
                    end = end.saturating_add(len);
                }
                next = frame.header.seq.checked_add(1);
                with_gaps.push(Some(frame));
                let len = if is_empty(&frame) { 0 } else { header.raw_len.into() };
                lengths.push(len);
                end = end.saturating_add(len);
            }
            // Numbers that are missing show what an earlier copy had lost.
            let is_shown =
                |lost: &&LostAfter| lost.of_copy.is_some() && with_gaps.iter().any(Option::is_none);
            if let Some(lost) = described.lost_at_end.get(&stream).filter(|lost| !is_shown(lost)) {
                reasons.insert(with_gaps.len(), at_end(lost, look));
                with_gaps.push(None);
                lengths.push(1);
            }
            described.say_missing((stream, number.unwrap_or_default()), &with_gaps, None, look, &mut reasons);
            // What is missing within the file is said there; beyond its last frame more may be.
            let last =
                with_gaps.iter().rev().find_map(|frame: &Option<FrameAt>| frame.map(|frame| frame.offset));
            let is_all = with_gaps.iter().all(Option::is_some);
            // What a number shows that is missing, something else may say better.
            let beyond = described.faults.iter().filter(|fault| is_all || fault.offset > last);
            let beyond = beyond.min_by_key(|fault| (fault.stream.is_some(), fault.offset));
            (with_gaps, lengths, beyond.map(|fault| fault.damage.clone()))
        }
    };
    let mut end = 0_u64;
    let ends: Vec<u64> = lengths
        .iter()
        .map(|len| {
            end = end.saturating_add(*len);
            end
        })
        .collect();
    let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.len));
    let parts = if sum == end { parts } else { Vec::new() };
    let mut reading = described.reading.clone();
    reading.extend(described.names.get(&stream).map(|name| (NAME.to_owned(), name.clone())));
    reading.extend(number.map(|number| (ENCODING.to_owned(), number.to_string())));
    let (look, of) = (Arc::clone(look), Some((producer, stream)));
    let head = said.map(|file| file.head.clone()).unwrap_or_default();
    let (damage, kept) = (first_of(&described.faults), Mutex::default());
    Ok(Some((name, Frames { look, of, frames, reasons, ends, parts, head, reading, fault, damage, kept })))
}

/// What is lost of a stream after its last frame, as damage.
fn at_end(lost: &LostAfter, look: &Look) -> CarrierDamage {
    let place = Place { file: Some(look.name.clone()), offset: Some(lost.offset), ..Place::default() };
    dropped(&rules::lost_at_end(lost, place))
}

/// What the producer says that it dropped, as damage.
fn dropped(finding: &Finding) -> CarrierDamage {
    CarrierDamage {
        file: finding.place.file.clone().unwrap_or_default(),
        offset: finding.place.offset,
        rule: rules::LOST.name,
        what: finding.message.clone(),
        records: finding.loss.as_ref().and_then(|loss| loss.records.exactly()),
        bytes: finding.loss.as_ref().and_then(|loss| loss.bytes.exactly()),
        ..CarrierDamage::default()
    }
}

/// Frames at the places that their numbers give them in a file of such frames: some may be missing.
fn in_places(frames: Vec<FrameAt>, said: &[(u64, u64)]) -> (Vec<Option<FrameAt>>, Vec<u64>) {
    let lengths: Vec<u64> = said.iter().flat_map(|(len, n)| std::iter::repeat_n(*len, *n as usize)).collect();
    let mut places = vec![None; lengths.len()];
    for frame in frames {
        let place = usize::try_from(frame.header.seq).ok().and_then(|number| places.get_mut(number));
        if let Some(place) = place {
            *place = Some(frame);
        }
    }
    (places, lengths)
}

/// The bodies of frames one after the other.
struct Frames {
    look: Arc<Look>,
    /// The producer and the stream that they are of; of an attachment nothing.
    of: Option<(u64, u32)>,
    /// Of a file whose frames are said, some may be missing.
    frames: Vec<Option<FrameAt>>,
    /// Why frames are not there.
    reasons: BTreeMap<usize, CarrierDamage>,
    /// Where the body of each ends.
    ends: Vec<u64>,
    parts: Vec<ContentPart>,
    /// The first bytes once more.
    head: Vec<u8>,
    /// How the bytes read, by what is said.
    reading: BTreeMap<String, String>,
    /// Why more bytes should follow, if that is so.
    fault: Option<CarrierDamage>,
    /// What is known to be wrong with the stream.
    damage: Option<CarrierDamage>,
    /// What readers have unpacked last.
    kept: Mutex<Vec<Kept>>,
}

/// The body of a frame.
struct Kept {
    frame: usize,
    /// Of a piece of an attachment, its bytes; other bodies are the payload that the worker has unpacked.
    piece: Option<Vec<u8>>,
    worker: Worker,
    input: SourceInput,
}

/// How many bodies are kept for readers that come again.
const MAX_KEPT: usize = 16;

/// The bytes of an attachment that a piece of it has.
fn piece_of(payload: &[u8], range: &Range<u64>) -> Option<Vec<u8>> {
    let piece = Piece::read(payload)?;
    let place = |at: u64| usize::try_from(at.checked_sub(piece.at)?).ok();
    piece.bytes.get(place(range.start)?..place(range.end)?).map(<[u8]>::to_vec)
}

impl Frames {
    /// An attachment.
    fn of_sections(look: &Arc<Look>, name: &str, sections: &[Section]) -> Frames {
        let missing = rules::damage(&incomplete(name), &look.name);
        let missing = |section: &Section| {
            section.frame.is_none().then(|| CarrierDamage { is_beside: true, ..missing.clone() })
        };
        let reasons = sections.iter().enumerate();
        Frames {
            look: Arc::clone(look),
            of: None,
            frames: sections.iter().map(|section| section.frame).collect(),
            reasons: reasons.filter_map(|(nth, section)| Some((nth, missing(section)?))).collect(),
            ends: sections.iter().map(|section| section.range.end).collect(),
            parts: Vec::new(),
            head: Vec::new(),
            reading: BTreeMap::new(),
            fault: None,
            damage: None,
            kept: Mutex::default(),
        }
    }

    /// A file without any frame left, with what its metadata still say.
    fn lost(look: &Arc<Look>) -> Frames {
        let known = Faults::of(look);
        let mut reading = BTreeMap::new();
        for producer in look.survey.session.producers() {
            let described = Described::of(look, &known, *producer);
            reading.extend(described.names.into_values().map(|name| (NAME.to_owned(), name)));
            reading.extend(described.reading);
        }
        let damage = known.first();
        Frames { reading, fault: damage.clone(), damage, ..Frames::of_sections(look, "", &[]) }
    }

    /// What is wrong with a frame that an index names and that has another header: what a look at all headers finds there.
    #[cold]
    fn without_header(&self, frame: usize, said: &FrameAt) -> CarrierDamage {
        let begin = if frame == 0 { 0 } else { self.ends[frame - 1] };
        let len = self.ends[frame] - begin;
        let own = || {
            let (producer, stream) = self.of?;
            let look = self.look.of_headers().ok()?;
            let described = Described::of(&look, &Faults::of(&look), producer);
            let mut reasons = BTreeMap::new();
            let frames: Vec<Option<FrameAt>> =
                self.frames.iter().enumerate().map(|(nth, at)| at.filter(|_| nth != frame)).collect();
            let lengths: Vec<u64> = vec![len; self.frames.len()];
            described.say_missing(
                (stream, said.header.encoding),
                &frames,
                Some(&lengths),
                &look,
                &mut reasons,
            );
            reasons.remove(&frame)
        };
        own().unwrap_or_else(|| CarrierDamage {
            bytes: Some(len),
            ..rules::damage(&finding::Finding::at("lost-sync", said.offset), &self.look.name)
        })
    }

    /// Gives the body of a frame to `take`.
    fn with<T>(&self, frame: usize, take: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut kept = lock();
            // A reader that comes to the next frame is done with the last one.
            let before = |kept: &Kept| kept.frame.checked_add(1) == Some(frame);
            let at =
                kept.iter().position(|kept| kept.frame == frame).or_else(|| kept.iter().position(before));
            match at {
                Some(at) => Some(kept.swap_remove(at)),
                None if kept.len() >= MAX_KEPT => Some(kept.remove(0)),
                None => None,
            }
        };
        let mut kept = match found {
            Some(kept) => kept,
            None => {
                let n_read = Arc::default();
                let input = SourceInput::new(&self.look.container, FRAME_READ_BYTES, &n_read)
                    .map_err(io::Error::other)?;
                Kept { frame: usize::MAX, piece: None, worker: Worker::default(), input }
            }
        };
        if kept.frame != frame {
            kept.frame = usize::MAX;
            let Some(said) = self.frames[frame] else {
                return Err(self.reasons.get(&frame).cloned().unwrap_or_default().into_io());
            };
            let there = frame_at(&mut kept.input, said.offset)?;
            let there = there.filter(|there| quipu_stream::survey::is_same(&there.header, &said.header));
            let Some(there) = there else { return Err(self.without_header(frame, &said).into_io()) };
            let begin = if frame == 0 { 0 } else { self.ends[frame - 1] };
            let range = begin..self.ends[frame];
            // PERF: a body stays where it was unpacked. A copy of each would be memory that is new to the process each time.
            kept.piece = None;
            let is_right = match kept.worker.body(&there, &mut kept.input)? {
                Ok(payload) if there.header.kind == kind::BLOB => {
                    kept.piece = piece_of(payload, &range);
                    kept.piece.is_some()
                }
                Ok(body) => body.len() as u64 == range.end - range.start,
                Err(fault) if fault.name == "torn-frame" => {
                    return Err(self.without_header(frame, &said).into_io());
                }
                Err(fault) => {
                    return Err(rules::damage_of_body(&fault, &there.header, &self.look.name).into_io());
                }
            };
            if !is_right {
                let fault = finding::Finding::at("payload-invalid", there.offset);
                let fault = fault.with("records", there.header.records);
                return Err(rules::damage_of_body(&fault, &there.header, &self.look.name).into_io());
            }
            kept.frame = frame;
        }
        let taken = take(kept.piece.as_deref().unwrap_or_else(|| kept.worker.payload()));
        lock().push(kept);
        Ok(taken)
    }
}

impl Content for Frames {
    fn len_bytes(&self) -> u64 {
        // A byte that cannot be read stands for those that are missing. Archives say it themselves.
        let has_more = self.fault.is_some() && self.parts.is_empty();
        self.ends.last().copied().unwrap_or(0) + u64::from(has_more)
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(self.frames.iter().flatten().map(|frame| frame.header.frame_len()).sum())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let frame = self.ends.partition_point(|end| *end <= at);
        if frame >= self.frames.len() || out.is_empty() {
            return match &self.fault {
                Some(fault) if !out.is_empty() => Err(fault.clone().into_io()),
                _ => Ok(0),
            };
        }
        let begin = if frame == 0 { 0 } else { self.ends[frame - 1] };
        let mut copy = |body: &[u8]| {
            let skip = usize::try_from(at - begin).unwrap_or(usize::MAX).min(body.len());
            let n = (body.len() - skip).min(out.len());
            out[..n].copy_from_slice(&body[skip..skip + n]);
            n
        };
        match self.with(frame, &mut copy) {
            Err(fault) if frame == 0 && fault.kind() == io::ErrorKind::InvalidData => {
                let head = &self.head[..self.head.len().min(usize::try_from(self.ends[0]).unwrap_or(0))];
                match copy(head) {
                    0 => Err(fault),
                    n => Ok(n),
                }
            }
            read => read,
        }
    }

    fn next_readable(&self, at: u64) -> Option<u64> {
        let end = *self.ends.get(self.ends.partition_point(|end| *end <= at))?;
        (Some(&end) != self.ends.last()).then_some(end)
    }

    fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        let begin = |frame: usize| if frame == 0 { 0 } else { self.ends[frame - 1] };
        let frame = self.ends.partition_point(|end| *end <= at);
        let mut input = SourceInput::new(&self.look.container, HEADER_READ_BYTES, &Arc::default()).ok()?;
        let there = (*self.frames.get(frame)?).filter(|_| begin(frame) == at)?;
        extension(&mut input, there.offset).ok().filter(|said| !said.is_empty())
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.reading.get(name).map(String::as_str)
    }

    fn damage(&self) -> Option<&CarrierDamage> {
        self.damage.as_ref()
    }

    fn parts(&self) -> &[ContentPart] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_stream::write::{Options, Writer};

    #[test]
    fn what_a_producer_dropped_is_missing_at_its_place() {
        let writer = Writer::new(Vec::new(), Options::new("test"));
        let mut stream = writer.stream(1).unwrap();
        stream.foreign(encoding::LINES, 1, (0, 0), b"0 10\n").unwrap();
        stream.lose(7);
        stream.foreign(encoding::LINES, 1, (0, 0), b"1 20\n").unwrap();
        stream.lose(3);
        stream.finish().unwrap();
        writer.finish().unwrap();
        let source = Source::from_bytes("lines.quipu", writer.into_inner().unwrap());
        let carried = carried(&source).unwrap();
        let container = carried[0].source.container().unwrap();
        let options = quipu_source::StreamOptions::default();
        let mut stream = container.stream(container.all_members(), &options).unwrap();
        let (mut block, mut read) = (Vec::new(), Vec::new());
        loop {
            match stream.next(&mut block) {
                Ok(Some(at)) => read.push(format!("{} {:?}", at.offset, String::from_utf8_lossy(&block))),
                Ok(None) => break,
                Err(error) => read.push(error.what().to_owned()),
            }
        }
        let dropped = |n, when| rules::dropped(n, 1, when);
        assert_eq!(
            read,
            [
                "0 \"0 10\\n\"",
                &dropped(7, "before this frame"),
                "6 \"1 20\\n\"",
                &dropped(3, "before this frame")
            ]
        );
    }
}
