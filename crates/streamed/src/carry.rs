//! Puts traces of other formats into streams: the bytes of their files become frames, additional files become attachments.

use crate::back::say_lost;
use crate::carried::{
    ATTACHED_SETTING, FILE_SETTING, FOLDER_SETTING, File, HEAD_BYTES, WORD_BYTES, encoding_of,
};
use crate::trace;
use quipu_model::damaged::{Intake, Reading, SoFar};
use quipu_model::fresh::{Fresh, cannot, check_file, folder_beside};
use quipu_model::trace::Fact;
use quipu_model::transform::{
    Progress, Transform, TransformInfo, TransformJob, Transformed, check_level, refuse_container,
};
use quipu_model::{Error, ErrorKind, Format, Lost, OpenOptions, Result};
use quipu_source::{Codec, Container, ContentPart, Source, StreamOptions};
use quipu_stream::codec::Codec as Packing;
use quipu_stream::frame::encoding;
use quipu_stream::loss::{Loss, MANY, cause};
use quipu_stream::wire::cbor::Value;
use quipu_stream::wire::record::{Producer, Record, Setting, Stream};
use quipu_stream::write::{FRAME_BYTES_AT_REST, Options, StreamWriter, Writer};
use serde_json::json;
use std::collections::BTreeSet;
use std::hash::Hasher;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Compression level of payloads.
const LEVEL: u32 = 3;

/// Bytes of a drmemtrace entry.
const ENTRY_BYTES: u64 = 12;

/// `convert` into a stream.
#[derive(Clone)]
pub struct IntoStream {
    /// The format of the trace, or of the raw files that a trace is made from.
    pub format: &'static dyn Format,
    /// The stream that carried the trace before, if any; its metadata are kept.
    pub before: Option<Source>,
    /// Bytes of a frame body before compression.
    pub frame_bytes: usize,
}

impl IntoStream {
    /// Puts traces of this format into streams, with the frame size for files at rest.
    pub fn new(format: &'static dyn Format, before: Option<Source>) -> IntoStream {
        IntoStream { format, before, frame_bytes: FRAME_BYTES_AT_REST }
    }
}

static INFO: TransformInfo = TransformInfo {
    name: "convert",
    title: "the same trace in a stream that describes itself, with all files of its folder",
    options: &[],
};

impl Transform for IntoStream {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn reads_again(&self, _: &quipu_model::Options) -> bool {
        true
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        refuse_container(job.container)?;
        // The bytes are carried whatever they contain. Damage to records is found by the format's reader first.
        let mut seen = Intake::new(job.damaged).strict(job.strict);
        say_lost(self.format, job, &mut seen)?;
        let mut made = self.put(job, None, progress)?;
        let Reading { findings, error, doubtful_from } = seen.finish();
        if doubtful_from.is_some() {
            let first = findings.iter().find(|finding| finding.is_damage());
            let place = first.map(|finding| &finding.place).or(error.as_ref().map(|error| error.place()));
            let good = made.reading.doubtful_from.or(place.and_then(|place| place.record)).or(doubtful_from);
            made.reading = Reading { findings, error, doubtful_from: good };
        }
        Ok(made)
    }
}

impl IntoStream {
    /// Puts the files into a stream. Damage to their containers is also recorded in the stream, since the remaining bytes do
    /// not show it. `lost` is what was lost before.
    fn put(
        &self,
        job: &TransformJob<'_>,
        lost: Option<Loss>,
        progress: &dyn Progress,
    ) -> Result<Transformed> {
        let TransformJob { source, output, .. } = *job;
        let name = self.format.info().name;
        let unknown = || Error::unsupported(format!("bodies of format {name} have no number in streams"));
        let number = encoding_of(name).ok_or_else(unknown)?;
        let level = check_level(job.level, Some(1..=19), "zstd in streams")?.unwrap_or(LEVEL);
        let (bodies, others) = files_of(source, self.format, job.opening)?;
        let (fresh, file) = Fresh::file(output, job.replace.into())?;
        let failed = |cause| cannot("write", output, cause);
        let said = self.before.as_ref().map(said_by).transpose()?.unwrap_or_default();
        let level = level as i32; // At most 19.
        let options = options_for(name, level, &bodies, said.producer);
        let writer = Writer::new(BufWriter::new(file), options);
        for record in said.records {
            writer.define(record).map_err(failed)?;
        }
        if source.is_folder() {
            let setting = Setting { name: FOLDER_SETTING.to_owned(), value: Value::Bool(true) };
            writer.define(setting).map_err(failed)?;
        }
        let mut intake = Intake::new(job.damaged).strict(job.strict);
        let mut n_bytes = 0;
        for (stream, (relative, body)) in (1..).zip(&bodies) {
            let described = Stream {
                number: stream,
                name: Some(relative.clone()),
                format: Some(name.to_owned()),
                original: Some(relative.clone()),
                ..Stream::default()
            };
            writer.define(described).map_err(failed)?;
            let mut out = Body {
                stream: writer.stream(stream).map_err(failed)?,
                number,
                frame_bytes: self.frame_bytes,
                buffer: Vec::new(),
                file: File { name: relative.clone(), ..File::default() },
                output,
                n_records: 0,
                n_bytes: 0,
            };
            let container = body.container()?;
            let mut lost = None;
            if let Some(damage) = container.damage().first() {
                let error = Error::from(damage.clone());
                lost = Some(loss_by(&error, stream));
                intake.end(Err(error), SoFar::unvouched(0))?;
            }
            let written = out.write(&container, progress);
            n_bytes += out.n_bytes;
            lost = written.as_ref().err().map(|error| loss_by(error, stream)).or(lost);
            intake.end(written, SoFar::unvouched(out.n_records))?;
            out.stream.finish().map_err(failed)?;
            if let Some(lost) = lost {
                writer.loss(0, &lost).map_err(failed)?;
            }
            if out.file.frames.iter().map(|(_, n)| n).sum::<u64>() < 2 {
                out.file.head.clear();
            }
            let value = Value::Text(out.file.to_setting());
            writer.define(Setting { name: format!("{FILE_SETTING}{stream}"), value }).map_err(failed)?;
        }
        for (name, file) in &others {
            let value = Value::Text(json!([name, file.size_bytes()]).to_string());
            writer.define(Setting { name: ATTACHED_SETTING.to_owned(), value }).map_err(failed)?;
        }
        for (relative, other) in &others {
            let attached = attach(&writer, relative, other, job, progress)?;
            intake.end(attached, SoFar::unvouched(0))?;
        }
        if let Some(lost) = lost {
            writer.loss(0, &lost).map_err(failed)?;
        }
        let reading = intake.finish();
        // If nothing of a damaged file was readable, the stream would look as if the file had been empty.
        if n_bytes == 0
            && let Some(error) = reading.nothing_left()
        {
            return Err(error);
        }
        writer.finish().map_err(failed)?;
        let packed_bytes = writer.n_bytes();
        let open = || Error::new(ErrorKind::Internal, "a stream is complete that is being written");
        let mut out = writer.into_inner().ok_or_else(open)?;
        out.flush().map_err(failed)?;
        drop(out);
        fresh.commit()?;
        let facts = vec![
            Fact::new("files", "files of the trace", bodies.len()),
            Fact::new("attachments", "files beside them", others.len()),
            Fact::new("bytes", "bytes of the records", n_bytes),
            Fact::new("packed_bytes", "bytes of the stream", packed_bytes),
        ];
        Ok(Transformed { facts, reading, ..Transformed::default() })
    }
}

/// The loss record for a file that cannot be read to its end.
fn loss_by(error: &Error, stream: u32) -> Loss {
    let is_cut = error.kind() == ErrorKind::Truncated;
    Loss {
        cause: if is_cut { cause::TRUNCATED } else { cause::CRC },
        stream: Some(stream),
        records: Some(MANY),
        text: Some(error.message().to_owned()),
        ..Loss::default()
    }
}

/// The loss record for records that could not be read before; `None` if none were lost.
fn loss_of(reading: &Reading) -> Option<Loss> {
    reading.doubtful_from?;
    let sum = Lost::of(&reading.findings, reading.error.as_deref()).sum();
    let records = sum.and_then(|sum| sum.records.exactly()).unwrap_or(MANY);
    Some(Loss { cause: cause::UNDECODABLE, records: Some(records), ..Loss::default() })
}

/// Keys of facts about the file that a transform wrote, which are none about the stream that carries it.
const OF_WAY: &[&str] = &["container", "stream_bytes"];

/// A transform of a format's traces that puts its result into a stream.
pub struct AsStream {
    /// The transform of the trace.
    pub transform: &'static dyn Transform,
    /// Puts the result of the transform into a stream.
    pub into: IntoStream,
}

impl Transform for AsStream {
    fn info(&self) -> &'static TransformInfo {
        self.transform.info()
    }

    fn reads_again(&self, options: &quipu_model::Options) -> bool {
        self.transform.reads_again(options)
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        self.transform.lacks(option)
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        refuse_container(job.container)?;
        check_file(job.output, job.replace.into())?;
        let way = folder_beside(job.output)?;
        // Formats take the packing of a file from its extension.
        let made = way.path().join(if job.source.is_folder() { "trace" } else { base_name(job.source) });
        let transformed =
            self.transform.run(&TransformJob { output: &made, level: None, ..*job }, progress)?;
        let lost = loss_of(&transformed.reading);
        let mut stream = self.put(&written(way.path(), &made)?, job, lost, progress)?;
        let mut facts = transformed.facts;
        let is_of_way = |fact: &Fact| OF_WAY.contains(&&*fact.key);
        facts.retain(|fact| !is_of_way(fact) && !stream.facts.iter().any(|own| own.key == fact.key));
        facts.append(&mut stream.facts);
        Ok(Transformed { facts, ..transformed })
    }
}

impl AsStream {
    /// Puts the trace that the transform wrote to `made` into the output stream of the job.
    fn put(
        &self,
        made: &Path,
        job: &TransformJob<'_>,
        lost: Option<Loss>,
        progress: &dyn Progress,
    ) -> Result<Transformed> {
        let source = Source::open(made)?;
        // `made` already holds only the selected threads and shards.
        let opening = OpenOptions { threads: Vec::new(), shards: Vec::new(), ..job.opening.clone() };
        let job = TransformJob { source: &source, opening: &opening, container: None, ..*job };
        // The transform has reported damaged records already.
        self.into.put(&job, lost, progress)
    }
}

/// The path that a transform wrote in place of `made` in `folder`: it may have added an extension.
fn written(folder: &Path, made: &Path) -> Result<PathBuf> {
    if made.exists() {
        return Ok(made.to_owned());
    }
    let mut entries = folder.read_dir().map_err(|cause| cannot("read", folder, cause))?;
    let only = entries.find_map(|entry| entry.ok()).map(|entry| entry.path());
    only.ok_or_else(|| Error::new(ErrorKind::Internal, "nothing was written that a stream could carry"))
}

/// Metadata of a stream that do not describe its files: the producer, clocks, notes and settings.
#[derive(Default)]
struct Said {
    producer: Producer,
    records: Vec<Record>,
}

fn said_by(stream: &Source) -> Result<Said> {
    let trace = trace::open(stream, &OpenOptions::default())?;
    let mut said = Said::default();
    let entries = trace.epochs().values().flat_map(|metadata| metadata.entries());
    for record in entries.filter_map(|(_, entry)| entry.record.as_deref()) {
        match record {
            Record::Producer(producer) => said.producer = producer.clone(),
            // The descriptions of the files are written anew.
            Record::Stream(_) | Record::Other(_) => {}
            Record::Setting(setting) if setting.name.starts_with("quipu.") => {}
            other if said.records.contains(other) => {}
            other => said.records.push(other.clone()),
        }
    }
    Ok(said)
}

/// Files by their names relative to the source.
type Files = Vec<(String, Source)>;

/// Splits a source into files with records and additional files.
fn files_of(source: &Source, format: &'static dyn Format, options: &OpenOptions) -> Result<(Files, Files)> {
    if !source.is_folder() {
        return Ok((vec![(base_name(source).to_owned(), source.clone())], Vec::new()));
    }
    let mut all = Vec::new();
    walk(source, "", &mut all)?;
    let trace = match format.open(source, options) {
        Ok(trace) => trace,
        // The raw output of a tracer is not a trace yet.
        Err(error) if error.kind() == ErrorKind::Unsupported => return Ok((Vec::new(), all)),
        Err(error) => return Err(error),
    };
    let shards: BTreeSet<&str> = trace.shards().iter().map(|shard| &*shard.name).collect();
    let is_body = |(name, file): &(String, Source)| {
        let base = name.rsplit('/').next().unwrap_or(name);
        shards.contains(file.name()) || shards.contains(base) || shards.contains(&**name)
    };
    let (bodies, mut others): (Files, Files) = all.into_iter().partition(is_body);
    if bodies.is_empty() {
        let what = "no file of the folder is known to have records";
        return Err(Error::unsupported(what).in_file(source.name()));
    }
    // Files in the parent folder that belong to the trace.
    for file in format.beside(source)? {
        let name = base_name(&file);
        if !others.iter().any(|(other, _)| other.rsplit('/').next() == Some(name)) {
            others.push((name.to_owned(), file));
        }
    }
    Ok((bodies, others))
}

/// The last component of the name of a source.
fn base_name(source: &Source) -> &str {
    let name = source.name();
    name.rsplit(['/', '\\']).next().filter(|base| !base.is_empty()).unwrap_or("trace")
}

fn walk(folder: &Source, prefix: &str, all: &mut Files) -> Result<()> {
    for file in folder.files()? {
        let base = base_name(&file);
        let name = if prefix.is_empty() { base.to_owned() } else { format!("{prefix}/{base}") };
        match file.is_folder() {
            true => walk(&file, &name, all)?,
            false => all.push((name, file)),
        }
    }
    Ok(())
}

/// Options of the writer. The UUID is derived from the files, so that the same trace always gives the same stream.
fn options_for(format: &str, level: i32, bodies: &Files, producer: Producer) -> Options {
    let half = |seed: u64| {
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write_u64(seed);
        hasher.write(format.as_bytes());
        for (name, file) in bodies {
            hasher.write(name.as_bytes());
            hasher.write_u64(file.size_bytes().unwrap_or(0));
            hasher.write(&file.packed_tail(4096).unwrap_or_default());
        }
        hasher.finish().to_le_bytes()
    };
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&half(1));
    uuid[8..].copy_from_slice(&half(2));
    // A UUID of version 8, whose contents are free.
    uuid[6] = uuid[6] & 0x0F | 0x80;
    uuid[8] = uuid[8] & 0x3F | 0x80;
    let program = producer.program.or(Some("quipu".to_owned()));
    let producer = Producer { program, uuid, byte_order: Some(0), ..producer };
    Options { producer, codec: Packing::Zstd(level), ..Options::new("quipu") }
}

/// Writes one file as frames.
struct Body<'o, W: Write> {
    stream: StreamWriter<W>,
    number: u16,
    frame_bytes: usize,
    buffer: Vec<u8>,
    file: File,
    output: &'o Path,
    n_records: u64,
    n_bytes: u64,
}

impl<W: Write> Body<'_, W> {
    /// Writes all members of a file.
    fn write(&mut self, container: &Container, progress: &dyn Progress) -> Result<()> {
        let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
        let is_archive = container.codec() == Codec::Zip;
        let empty = |member: usize| {
            let member = container.members().get(member);
            ContentPart {
                name: member.map(|member| member.name.clone()).unwrap_or_default(),
                len: 0,
                crc32: member.and_then(|member| member.crc32),
            }
        };
        let mut block = Vec::new();
        let mut part: Option<(u32, ContentPart)> = None;
        let read = loop {
            let at = match stream.next(&mut block) {
                Ok(Some(at)) => at,
                Ok(None) => break Ok(()),
                Err(cause) => break Err(Error::from(cause)),
            };
            progress.go_on()?;
            if is_archive && part.as_ref().is_none_or(|(member, _)| *member != at.member) {
                self.frame(true)?;
                self.file.parts.extend(part.take().map(|(_, part)| part));
                // Members without bytes have no block.
                self.file.parts.extend((self.file.parts.len()..at.member as usize).map(&empty));
                part = Some((at.member, empty(at.member as usize)));
            }
            if let Some((_, part)) = &mut part {
                part.len += block.len() as u64;
            }
            self.n_bytes += block.len() as u64;
            let mut rest = &block[..];
            while !rest.is_empty() {
                let n = rest.len().min(self.frame_bytes - self.buffer.len());
                self.buffer.extend_from_slice(&rest[..n]);
                rest = &rest[n..];
                if self.buffer.len() == self.frame_bytes {
                    self.frame(false)?;
                }
            }
            progress.advance(0, block.len() as u64);
        };
        self.frame(true)?;
        if let Some((_, mut part)) = part {
            // The checksum does not apply to a member that was cut short.
            part.crc32 = part.crc32.filter(|_| read.is_ok());
            self.file.parts.push(part);
        }
        if is_archive && read.is_ok() {
            self.file.parts.extend((self.file.parts.len()..container.members().len()).map(&empty));
        }
        read
    }

    /// Writes the buffer as a frame: all of it, or for lines up to the last line end unless `is_last`.
    fn frame(&mut self, is_last: bool) -> Result<()> {
        let mut len = self.buffer.len();
        if self.number == encoding::LINES && !is_last {
            // A line longer than a frame is cut.
            len = self.buffer.iter().rposition(|byte| *byte == b'\n').map_or(len, |at| at + 1);
        }
        if len == 0 {
            return Ok(());
        }
        let body = &self.buffer[..len];
        let records = match self.number {
            encoding::DRMEMTRACE => len as u64 / ENTRY_BYTES,
            encoding::RAW_WORDS => len as u64 / WORD_BYTES,
            encoding::LINES => body.iter().filter(|byte| **byte == b'\n').count() as u64,
            // Records of other formats vary in size and are not counted.
            _ => 0,
        };
        let written = self.stream.foreign(self.number, records as u32, (0, 0), body); // Fewer than the bytes of a frame.
        written.map_err(|cause| cannot("write", self.output, cause))?;
        self.n_records += records;
        if self.file.frames.is_empty() {
            self.file.head = body[..len.min(HEAD_BYTES)].to_vec();
        }
        let len = len as u64;
        match self.file.frames.last_mut() {
            Some((known, n)) if *known == len => *n += 1,
            _ => self.file.frames.push((len, 1)),
        }
        self.buffer.drain(..len as usize);
        Ok(())
    }
}

/// Attaches a file byte for byte. The inner result is that of reading the file.
fn attach<W: Write>(
    writer: &Writer<W>,
    name: &str,
    file: &Source,
    job: &TransformJob<'_>,
    progress: &dyn Progress,
) -> Result<Result<()>> {
    let failed = |cause| cannot("write", job.output, cause);
    let container = file.container_as(Codec::Plain)?;
    let mut stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let mut out = writer.attaching(name, None, file.size_bytes().unwrap_or(0));
    let mut block = Vec::new();
    let read = loop {
        progress.go_on()?;
        match stream.next(&mut block) {
            Ok(Some(_)) => out.write_all(&block).map_err(failed)?,
            Ok(None) => break Ok(()),
            // Readers of the stream report the attachment as incomplete.
            Err(cause) => break Err(cause.into()),
        }
    };
    out.finish().map_err(failed)?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stream_says_of_itself_goes_along_but_for_its_files() {
        let path = "../../traces/stream/two-producers.quipu";
        let said = said_by(&Source::open(Path::new(path)).unwrap()).unwrap();
        assert!(said.producer.program.is_some());
        assert!(said.records.iter().any(|record| matches!(record, Record::Clock(_))));
        assert!(!said.records.iter().any(|record| matches!(record, Record::Producer(_) | Record::Stream(_))));
    }
}
