//! Traces of other formats inside streams: the bytes of their files are in frames, additional files are attachments.
//!
//! Each stream of a producer with such frames is a file. Streams that Quipu writes have settings with the file's name and
//! members ([`FILE_SETTING`]); in other streams, the file has the name of the stream.

use crate::bytes::{HEADER_READ_BYTES, SourceInput, unreadable};
use crate::described::{Described, Faults};
use crate::folder;
use crate::found;
use crate::frames::{Frames, file};
use crate::look::{self, Look};
use crate::rules;
use crate::schema::EpochId;
use crate::trace;
use quipu_model::trace::Carried;
use quipu_model::{Finding, Result};
use quipu_source::{CarrierDamage, Content, ContentPart, Source};
use quipu_stream::blob::Section;
use quipu_stream::finding;
use quipu_stream::frame::encoding;
use quipu_stream::scan::FrameAt;
use quipu_stream::session::Session;
use quipu_stream::survey::Survey;
use quipu_stream::wire::record::{Record, Setting};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Prefix of the settings that describe the file of a stream, followed by the number of the stream.
pub const FILE_SETTING: &str = "quipu.file.";

/// Name of the settings that list attachments, as JSON: name and bytes. Each attachment has one, so that a lost attachment is
/// noticed.
pub const ATTACHED_SETTING: &str = "quipu.attached";

/// Name of the setting that says that the files are in a folder.
pub const FOLDER_SETTING: &str = "quipu.folder";

/// Formats by the encoding of their bodies. The encodings are numbered on the page of the container, which does not know
/// formats, so the names are here. For lines, the first format whose values make sense applies.
pub const FORMATS: &[(u16, &str)] = &[
    (encoding::DRMEMTRACE, "drmemtrace"),
    (encoding::RAW_WORDS, "drmemtrace-raw"),
    (encoding::CACHERAY, "cacheray"),
    (encoding::APITRACE, "apitrace"),
    (encoding::LINES, "lackey"),
    (encoding::LINES, "din"),
];

/// Formats whose tracers write streams themselves, by the encoding of their bodies.
pub const OWN_WRITERS: &[(u16, &str)] = &[(encoding::PRISM, "prism"), (encoding::PRISM_VARIABLE, "prism")];

/// Extensions of streams of these formats.
pub(crate) const OWN_EXTENSIONS: &[&str] = &["prism"];

/// Prefix of the settings that say how to interpret the bytes of files, where the bytes do not.
pub const READING_SETTING: &str = "quipu.reading.";

/// Key under which a file [gives](quipu_source::Source::said) its own name.
pub const NAME: &str = "name";

/// Key under which files that form one trace together name that trace. The reader of such files counts what is lost.
pub const WHOLE: &str = "whole";

/// Key under which the encoding number of the bodies is [given](quipu_source::Source::said).
pub const ENCODING: &str = "encoding";

/// Returns the encoding of the bodies of a format.
pub fn encoding_of(format: &str) -> Option<u16> {
    FORMATS.iter().find(|(_, name)| *name == format).map(|(number, _)| *number)
}

/// True for formats whose files consist of records only: what a stream carries of them is written back byte for byte,
/// whatever the content.
pub fn lies_bare(format: &str) -> bool {
    encoding_of(format).is_some_and(|number| matches!(number, encoding::CACHERAY | encoding::LINES))
}

/// True if a format reads bodies of this encoding as a trace.
pub(crate) fn is_carried(encoding: u16) -> bool {
    FORMATS.iter().chain(OWN_WRITERS).any(|(number, _)| *number == encoding)
}

/// Description of a file inside a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Name of the file, relative to the folder if there is one.
    pub name: String,
    /// Lengths of the frame bodies in file order, run-length encoded: bytes of a body, and how many frames in a row have that
    /// length.
    pub frames: Vec<(u64, u64)>,
    /// Members, if the file is an archive.
    pub parts: Vec<ContentPart>,
    /// A copy of the first bytes if the file has more than one frame: the rest cannot be read without them, and the first
    /// frame may be lost.
    pub head: Vec<u8>,
}

/// Bytes of a raw drmemtrace word.
pub(crate) const WORD_BYTES: u64 = 8;

/// Bytes at the start of a file that its description repeats: enough for the header of every format here, and a whole number
/// of drmemtrace entries.
pub const HEAD_BYTES: usize = 504;

/// Bytes as hexadecimal digits.
fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits; returns nothing if the text contains anything else.
fn from_hex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).take(HEAD_BYTES).map(byte).collect();
    bytes.unwrap_or_default()
}

impl File {
    /// Encodes the description as the value of a setting.
    pub fn to_setting(&self) -> String {
        let parts: Vec<Value> =
            self.parts.iter().map(|part| json!([part.name, part.len, part.crc32])).collect();
        let mut said = json!({ "name": self.name, "frames": self.frames, "parts": parts });
        if !self.head.is_empty() {
            said["head"] = to_hex(&self.head).into();
        }
        said.to_string()
    }

    /// Decodes the value of a setting.
    pub(crate) fn read(text: &str) -> Option<File> {
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

/// Normalises a relative name; `None` if it would leave its folder.
pub(crate) fn safe(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split(['/', '\\']).filter(|part| !part.is_empty() && *part != ".").collect();
    (!parts.is_empty() && !parts.contains(&"..") && !name.contains('\0')).then(|| parts.join("/"))
}

/// Returns the traces of other formats in a stream, one for each producer and format; none if the stream has rows of its own.
///
/// # Errors
/// If the source cannot be read.
pub fn carried(source: &Source) -> Result<Vec<Carried>> {
    if source.is_folder() && folder::files_of(source)?.is_empty() {
        return Ok(Vec::new());
    }
    let look = look::at(source)?;
    // Fails if the source has no frame at all.
    trace::refuse_nothing(source, &look.survey)?;
    let (look, all) = match look.members.is_empty() {
        true => traces_of(&look)?,
        false => (Arc::clone(&look), vec![of_members(&look)?]),
    };
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let mut findings = found::findings_of(&look)?;
    look.name_files(&mut findings);
    let findings: Arc<[Finding]> = findings.into();
    let carried = |Trace { format, entries, is_folder, .. }| Carried {
        format,
        source: as_source(source.name(), entries, is_folder),
        findings: Arc::clone(&findings),
        is_counted: look.is_counted,
    };
    Ok(all.into_iter().map(carried).collect())
}

/// Finds the traces of other formats in a stream. Also returns the look that it used: if an index names frames that do not
/// exist, that is a look at all headers.
///
/// # Errors
/// If the source cannot be read.
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

/// Finds the traces with this look only; `None` if an index names frames that do not exist.
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
            // No format here reads this body.
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

/// Whether all producers of a stream with these findings have ended it. Otherwise more data may follow.
pub fn has_ended(findings: &[Finding]) -> bool {
    !findings.iter().any(|finding| finding.rule == rules::NO_END.name)
}

/// Damage reports for missing frames of files in a stream.
///
/// # Errors
/// If the source cannot be read.
pub(crate) fn missing_in(look: &Arc<Look>) -> Result<Vec<CarrierDamage>> {
    Ok(traces_of(look)?.1.into_iter().flat_map(|trace| trace.missing).collect())
}

/// A trace inside a stream.
struct Trace {
    format: Option<String>,
    /// The files, and whether they are in a folder.
    entries: Entries,
    is_folder: bool,
    /// Damage reports for missing frames.
    missing: Vec<CarrierDamage>,
}

/// True if the streams carry only bodies of formats that write streams themselves.
pub(crate) fn are_own(survey: &Survey) -> bool {
    let is_own = |frame: &FrameAt| OWN_WRITERS.iter().any(|(number, _)| *number == frame.header.encoding);
    let mut frames = survey.frames.iter().filter(|frame| !is_empty(frame)).peekable();
    survey.open.is_empty() && frames.peek().is_some() && frames.all(is_own)
}

/// True if the files name the trace that they belong to, so that its reader knows what is missing.
pub(crate) fn is_counted(survey: &Survey) -> bool {
    let is_whole = |setting: &Setting| setting.name.strip_prefix(READING_SETTING) == Some(WHOLE);
    let epochs = survey.session.epochs().values();
    epochs.flat_map(|epoch| epoch.metadata.entries()).any(|(_, entry)| match entry.record.as_deref() {
        Some(Record::Setting(setting)) => is_whole(setting),
        _ => false,
    })
}

/// The files of a folder of streams whose formats write streams themselves, under their names there. Such a format knows
/// whether the files form one trace.
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

/// True for a frame of rows without records, which only reports losses.
pub(crate) fn is_empty(frame: &FrameAt) -> bool {
    !frame.header.is_foreign() && frame.header.records == 0
}

/// Frames by producer and stream.
type Streams = BTreeMap<u64, BTreeMap<u32, Vec<FrameAt>>>;

/// Files by their relative names.
type Entries = Vec<(String, Arc<dyn Content>)>;

/// Finds the traces of a producer, with their files and, if stated, their formats. `None` if an index names frames that do
/// not exist.
fn of_producer(
    described: &Described,
    mut streams: BTreeMap<u32, Vec<FrameAt>>,
    look: &Arc<Look>,
    producer: u64,
    input: &mut SourceInput,
) -> io::Result<Option<Vec<Trace>>> {
    let is_ours = |_: &&u32| described.is_carrier();
    for stream in described.files.keys().chain(described.names.keys().filter(is_ours)) {
        // An empty file has no frame, and a file whose frames are damaged may have none.
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
    // A lost attachment becomes a file that is damaged from its first byte.
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
        // The format of lines is determined from the lines.
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

/// Findings for attachments that are lost completely, in the container's terms.
pub(crate) fn lost_attachments(session: &Session) -> impl Iterator<Item = finding::Finding> {
    let lost = session.producers().iter().flat_map(|producer| lost_of(session, *producer));
    lost.map(|(_, name, _)| incomplete(&name))
}

/// The finding for an attachment with missing bytes.
pub(crate) fn incomplete(name: &str) -> finding::Finding {
    finding::Finding::new("attachment-incomplete").with("attachment", name)
}

/// Attachments that a producer announced and that are lost completely: epoch, name and bytes of each.
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

/// Makes a source of one file, or of a folder of files.
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
