//! Captures read from streams that describe themselves: the bodies that `.quipu` files carry for DTrace, and their descriptions.
//!
//! SPEC: dtrace.md#captures

use crate::bytes::ByteOrder;
use crate::carry::{ALIGN, STREAM_FORMAT};
use crate::combine;
use crate::describe::{Buffer, Capture, Dialect, Event};
use crate::described::{self, Describer};
use crate::meta::{self, MAX_BUFFER_BYTES};
use crate::origin::Origin;
use crate::rules;
use crate::validate;
use crate::{dense, dense_samples, lost};
use quipu_model::finding::NEEDS_NEWER;
use quipu_model::loss::Amount;
use quipu_model::{Error, Finding, Place, Result, RuleInfo};
use quipu_source::Source;
use quipu_stream::decode::Registry;
use quipu_stream::frame::{Header, SYNC, encoding, kind};
use quipu_stream::meta::Metadata;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::scan::find_header;
use quipu_stream::wire::record::Record;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;

/// A file is never larger.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// What the first bytes of a file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// It carries bodies of DTrace.
    Ours,
    /// It carries something else, or is no stream.
    Other,
    /// There is nothing yet but descriptions.
    Nothing,
}

/// How many bytes are looked at: more only where those before said nothing.
const PROBED_BYTES: [usize; 3] = [64 << 10, 1 << 20, 256 << 20];

/// True if a source is a stream with bodies of DTrace in it, also if its first frames are damaged.
pub fn is_likely(source: &Source) -> bool {
    let known = source.learned(|source| -> Result<Recognised> {
        let mut said = Said::Other;
        for n_bytes in PROBED_BYTES {
            let head = source.head(n_bytes)?;
            let is_all = head.len() < n_bytes;
            said = looks(&head, is_all);
            if said != Said::Nothing || is_all {
                break;
            }
        }
        Ok(Recognised(said == Said::Ours))
    });
    known.is_ok_and(|known| known.0)
}

/// What was found out about a source.
struct Recognised(bool);

/// What some first bytes say, by the first frame that has no descriptions.
fn looks(head: &[u8], is_all: bool) -> Said {
    let is_begun = head.starts_with(&SYNC);
    let mut at = 0;
    let mut has_frame = false;
    while at < head.len() {
        let Some(header) = head.get(at..).and_then(|bytes| Header::read(bytes).ok()) else {
            // After damage, and where a stream was joined in the middle, the next frame is searched.
            match find_header(&mut &*head, at as u64 + 1) {
                Ok(Ok(next)) => at = usize::try_from(next).unwrap_or(usize::MAX),
                _ => break,
            }
            continue;
        };
        has_frame = true;
        if matches!(header.kind, kind::DATA | kind::AGG | kind::OPEN) {
            let is_ours = is_ours(header.encoding)
                && (!is_private(header.encoding) || is_announced(head, header.encoding));
            return if is_ours { Said::Ours } else { Said::Other };
        }
        let length = usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
        at = at.saturating_add(length.max(SYNC.len()));
    }
    match has_frame || is_begun {
        // Of a capture without records there are descriptions.
        true if is_all && describes(head) => Said::Ours,
        true => Said::Nothing,
        false => Said::Other,
    }
}

/// True if metadata describe what only DTrace has.
fn describes(head: &[u8]) -> bool {
    let mut reader = reader(head);
    let _ = reader.data_frames();
    let records = reader.session().epochs().values().flat_map(|epoch| epoch.metadata.entries());
    records.filter_map(|(_, entry)| entry.record.as_deref()).any(|record| match record {
        Record::Enabling(_) | Record::KernelAggregation(_) => true,
        Record::Setting(setting) => setting.name == described::DIALECT,
        // All that was described may be lost.
        Record::Stream(stream) => stream.format.as_deref() == Some(STREAM_FORMAT),
        Record::Producer(producer) => producer.program.as_deref() == Some(STREAM_FORMAT),
        _ => false,
    })
}

fn is_ours(body: u16) -> bool {
    let plain = [encoding::DTRACE, encoding::DTRACE_LINUX, encoding::DTRACE_AGGREGATIONS];
    plain.contains(&body) || is_private(body)
}

fn is_private(body: u16) -> bool {
    matches!(body, dense::NUMBER | dense_samples::NUMBER)
}

/// A reader that hands out the bodies of DTrace.
fn reader(bytes: &[u8]) -> StreamReader<&[u8]> {
    let mut registry = Registry::default();
    registry.hand_out(dense::NUMBER);
    registry.hand_out(dense_samples::NUMBER);
    StreamReader::new(bytes).with_registry(registry)
}

/// True if a stream announces a private encoding of these: other programs may use the number for something else.
fn is_announced(head: &[u8], body: u16) -> bool {
    let mut reader = reader(head);
    let _ = reader.data_frames();
    reader.session().epochs().values().any(|epoch| announces(&epoch.metadata, body))
}

fn announces(metadata: &Metadata, body: u16) -> bool {
    let announced = match body {
        dense_samples::NUMBER => dense_samples::announced(),
        _ => dense::announced(),
    };
    metadata.entries().any(|(_, entry)| {
        matches!(entry.record.as_deref(), Some(Record::Encoding(said)) if dense::is_same(said, &announced))
    })
}

/// Descriptions and bodies of a producer, in one of its epochs.
struct Part {
    describer: Describer,
    /// Which records were taken.
    taken: BTreeSet<u32>,
    n_known: usize,
    /// Private encodings that it announces, as far as its records were looked at.
    encodings: FxHashMap<u16, bool>,
    buffers: Bodies,
    states: Bodies,
}

impl Part {
    fn new(file: &str) -> Part {
        Part {
            describer: Describer::new(file, Dialect::Classic),
            taken: BTreeSet::new(),
            n_known: 0,
            encodings: FxHashMap::default(),
            buffers: Bodies::default(),
            states: Bodies::default(),
        }
    }

    /// Takes descriptions that are new; gives what is wrong with them.
    fn learn(&mut self, metadata: &Metadata) -> Vec<Error> {
        let n = metadata.n_entries();
        // PERF: all frames of a stream that can be read at any place share what is known; it is looked at once.
        if std::mem::replace(&mut self.n_known, n) == n {
            return Vec::new();
        }
        self.encodings.clear();
        let mut wrong = Vec::new();
        for (ordinal, entry) in metadata.entries() {
            let Some(record) = entry.record.as_deref().filter(|_| self.taken.insert(ordinal)) else {
                continue;
            };
            wrong.extend(self.describer.take(record).err());
        }
        wrong
    }

    fn announces(&mut self, metadata: &Metadata, body: u16) -> bool {
        *self.encodings.entry(body).or_insert_with(|| announces(metadata, body))
    }

    fn cpu(&self, stream: u32) -> u32 {
        self.describer.cpus.get(&stream).copied().unwrap_or(stream)
    }

    fn has_bodies(&self) -> bool {
        let capture = &self.describer.capture;
        !(self.buffers.all.is_empty() && self.states.all.is_empty() && capture.events.is_empty())
    }

    /// The capture, without its buffers' drops. Streams for which `has_lost` is true miss frames, so that places of their gaps
    /// are not known.
    fn finish(self, file: &str, has_lost: impl Fn(u32) -> bool) -> Capture {
        let Part { mut describer, buffers, states, .. } = self;
        let cpus = std::mem::take(&mut describer.cpus);
        let beside = std::mem::take(&mut describer.counts);
        let gaps = std::mem::take(&mut describer.gaps);
        let mut capture = describer.finish();
        let named = |stream: u32, bytes: Vec<u8>| {
            let cpu = cpus.get(&stream).copied().unwrap_or(stream);
            Buffer { cpu, file: file.to_owned(), bytes, ..Buffer::default() }
        };
        let mut of_streams = [buffers, states].map(|Bodies { all, positions }| {
            let all: Vec<Buffer> = all.into_iter().map(|(stream, bytes)| named(stream, bytes)).collect();
            (all, positions)
        });
        for (stream, told) in &gaps {
            let (all, positions) = &mut of_streams[0];
            if let Some(buffer) = positions.get(stream).and_then(|at| all.get_mut(*at)) {
                buffer.gaps = meta::gaps_of(told, buffer.bytes.len());
            }
        }
        let (all, positions) = &mut of_streams[0];
        for at in positions.iter().filter(|(stream, _)| has_lost(**stream)).map(|(_, at)| *at) {
            let n_bytes = all[at].bytes.len();
            all[at].gaps = std::iter::once(0..n_bytes).collect();
        }
        for (is_states, stream, errors, timestamp) in beside {
            let (all, positions) = &mut of_streams[usize::from(is_states)];
            let at = *positions.entry(stream).or_insert_with(|| {
                all.push(named(stream, Vec::new()));
                all.len() - 1
            });
            (all[at].errors, all[at].timestamp) = (errors, timestamp);
        }
        [capture.buffers, capture.states] = of_streams.map(|(all, _)| all);
        capture
    }
}

/// Reads a stream. What several producers recorded, on several machines or one after the other, becomes one capture.
///
/// # Errors
/// `Unsupported` for captures of several producers that cannot be one; `Malformed` for descriptions that are wrong.
pub fn read(file: &str, bytes: &[u8]) -> Result<Capture> {
    let unreadable = |cause| Error::malformed("the stream cannot be read").because(cause).in_file(file);
    let place = |offset: u64| Place { file: Some(file.to_owned()), offset: Some(offset), ..Place::default() };
    let mut reader = reader(bytes);
    let mut parts: Vec<((u64, u32), Part)> = Vec::new();
    let mut findings = Vec::new();
    let mut n_bytes = 0_u64;
    reader.data_frames().map_err(unreadable)?;
    // Also a capture without records has descriptions.
    for (id, epoch) in reader.session().epochs() {
        let mut part = Part::new(file);
        let of_file = || Place { file: Some(file.to_owned()), ..Place::default() };
        let wrong = part.learn(&epoch.metadata).into_iter();
        findings.extend(wrong.map(|error| rules::METADATA.broken(of_file(), error.message().to_owned())));
        parts.push((*id, part));
    }
    while let Some(frame) = reader.next_part().map_err(unreadable)? {
        let Content::Foreign(body) = frame.content else { continue };
        if !is_ours(frame.header.encoding) {
            continue;
        }
        // A few packed bytes may stand for many.
        n_bytes += body.len() as u64;
        if n_bytes > MAX_BUFFER_BYTES {
            return Err(Error::limit("bytes of all buffers", n_bytes, MAX_BUFFER_BYTES).in_file(file));
        }
        let id = (frame.header.producer, frame.header.epoch);
        let at = parts.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
            parts.push((id, Part::new(file)));
            parts.len() - 1
        });
        let part = &mut parts[at].1;
        for error in part.learn(frame.metadata) {
            findings.push(rules::METADATA.broken(place(frame.offset), error.message().to_owned()));
        }
        let lost =
            |message: String, n: u32| lost_in(&rules::ENCODING, place(frame.offset), message, Some(n.into()));
        let (stream, encoding) = (frame.header.stream, frame.header.encoding);
        if matches!(encoding, encoding::DTRACE_LINUX | dense_samples::NUMBER) {
            part.describer.capture.dialect = Dialect::Linux;
        }
        let cut = "a dense body cannot be read to its end";
        let cpu = part.cpu(stream);
        match encoding {
            encoding::DTRACE_LINUX => {
                let order = part.describer.capture.order;
                samples(&mut part.describer.capture, cpu, order, body, frame.offset);
            }
            encoding::DTRACE => part.buffers.add(stream, body),
            body if is_private(body) && !part.announces(frame.metadata, body) => {
                let message = format!("a body has the encoding {body:#x}, which is not known");
                findings.push(lost(message, frame.header.records));
            }
            dense_samples::NUMBER => {
                let unpacked = dense_samples::unpack(&part.describer.capture, body);
                if !unpacked.is_whole {
                    let n = frame.header.records.saturating_sub(unpacked.samples.len() as u32);
                    findings.push(lost(cut.to_owned(), n));
                }
                n_bytes += unpacked.samples.iter().map(|sample| sample.len() as u64).sum::<u64>();
                let offset = frame.offset;
                let sample = |bytes| Event::Sample { cpu, offset, bytes };
                part.describer.capture.events.extend(unpacked.samples.into_iter().map(sample));
            }
            dense::NUMBER => {
                let unpacked = dense::unpack(&part.describer.capture, body);
                if !unpacked.is_whole {
                    let n = frame.header.records.saturating_sub(unpacked.n_records);
                    findings.push(lost(cut.to_owned(), n));
                }
                n_bytes += unpacked.bytes.len() as u64;
                part.buffers.add(stream, &unpacked.bytes);
            }
            _ if part.describer.capture.dialect == Dialect::Linux => {
                if !linux_states(&mut part.describer.capture, cpu, body) {
                    let message = "states of aggregations cannot be read to their end".to_owned();
                    findings.push(rules::CUT.broken(place(frame.offset), message));
                }
            }
            _ => part.states.add(stream, body),
        }
    }
    let session = reader.session();
    findings.extend(session.findings.iter().map(|found| {
        let at = place(found.number("offset").unwrap_or(0));
        let message = format!("the stream that carries the buffers: {}", found.name);
        match found.name {
            // Other bodies can be read without it.
            "unknown-encoding" => lost_in(&rules::ENCODING, at, message, found.lost_records()),
            NEEDS_NEWER => lost_in(&rules::NEWER, at, message, None),
            _ if found.is_auxiliary() => rules::AUXILIARY.broken(at, message),
            _ if found.loses() => lost_in(&rules::STREAM, at, message, found.lost_records()),
            _ if found.is_harmless() => rules::ODD_STREAM.broken(at, message),
            _ => rules::STREAM.broken(at, message),
        }
    }));
    if session.duplicates() > 0 {
        let message = format!(
            "`{}` frames stand again and count once; captures of several machines are others by their names (`quipu convert \
             --host NAME`)",
            session.duplicates()
        );
        findings
            .push(rules::TWICE.broken(Place { file: Some(file.to_owned()), ..Place::default() }, message));
    }
    // Producers that recorded nothing of DTrace are none of a capture.
    if parts.len() > 1 {
        parts.retain(|(_, part)| part.describer.describes_dtrace() || part.has_bodies());
    }
    // Producers in the order of the stream: the first says what only one can say. Numbers of producers are random.
    let mut positions: FxHashMap<(u64, u32), usize> = FxHashMap::default();
    for (at, frame) in session.frames().iter().enumerate() {
        positions.entry((frame.header.producer, frame.header.epoch)).or_insert(at);
    }
    parts.sort_by_key(|(id, _)| positions.get(id).copied().unwrap_or(usize::MAX));
    let only = (parts.len() == 1).then(|| parts[0].0);
    let cpus: FxHashMap<u32, u32> = parts.iter().flat_map(|(_, part)| part.describer.cpus.clone()).collect();
    // Which streams miss frames; where that is not known, all of a producer may.
    let mut lossy: FxHashSet<(u64, u32)> = FxHashSet::default();
    let mut is_lossy = false;
    for found in session.findings.iter().filter(|found| found.loses()) {
        let offset = found.number("offset").unwrap_or(0);
        let frames = session.frames();
        let at = frames.partition_point(|frame| frame.offset < offset);
        match frames.get(at).filter(|frame| frame.offset == offset && found.name == "payload-crc") {
            Some(frame) => drop(lossy.insert((frame.header.producer, frame.header.stream))),
            None => is_lossy = true,
        }
    }
    let finish = |(id, part): ((u64, u32), Part)| {
        part.finish(file, |stream| is_lossy || lossy.contains(&(id.0, stream)))
    };
    let captures = parts.into_iter().map(finish).collect();
    let mut capture = combine::all(captures).map_err(|error| error.in_file(file))?;
    for attachment in session.attachments() {
        let Some(bytes) = attachment.bytes() else { continue };
        // Descriptions of one producer are not those of all.
        let bytes = match only == Some(attachment.from) {
            true => capture.origin.take(&attachment.name, bytes),
            false => Origin::default().take(&attachment.name, bytes),
        };
        if let Some(bytes) = bytes {
            // Folders of several machines have files of the same names; the first keeps it.
            let mut name = attachment.name.clone();
            let mut n = 1;
            while capture.beside.iter().any(|(known, of)| *known == name && *of != bytes) {
                n += 1;
                name = format!("{}.{n}", attachment.name);
            }
            if capture.beside.iter().all(|(known, _)| *known != name) {
                capture.beside.push((name, bytes));
            }
        }
    }
    let mut taker = lost::Taker::new(&capture);
    for (stream, loss) in session.losses() {
        let stream = loss.stream.unwrap_or(stream);
        taker.take(&mut capture, cpus.get(&stream).copied().unwrap_or(stream), &loss);
    }
    capture.findings.extend(findings);
    capture.index();
    validate::all(&capture).map_err(|error| error.in_file(file))?;
    Ok(capture)
}

/// What a finding of lost records says.
fn lost_in(rule: &RuleInfo, place: Place, message: String, n: Option<u64>) -> Finding {
    let loss = quipu_model::Loss { records: Amount::known(n), ..quipu_model::Loss::from(place.clone()) };
    rule.broken(place, message).losing(loss)
}

/// The bodies of each stream, one after the other.
#[derive(Debug, Default)]
struct Bodies {
    all: Vec<(u32, Vec<u8>)>,
    positions: FxHashMap<u32, usize>,
}

impl Bodies {
    /// Adds a body to those of its stream. Frames end between records, so that nothing stands between them.
    fn add(&mut self, stream: u32, body: &[u8]) {
        let position = *self.positions.entry(stream).or_insert(self.all.len());
        match self.all.get_mut(position) {
            Some((_, bytes)) => bytes.extend_from_slice(body),
            None => self.all.push((stream, body.to_vec())),
        }
    }
}

/// Samples of Linux: each a length, then the sample up to a multiple of 8.
fn samples(capture: &mut Capture, cpu: u32, order: ByteOrder, body: &[u8], offset: u64) {
    let mut at = 0;
    while let Some(length) = order.u32_at(body, at) {
        let end = (at + 4).saturating_add(length as usize);
        let Some(bytes) = body.get(at + 4..end) else { break };
        // A sample has its own length, without the zeros after it.
        let own = order.u32_at(bytes, 0).map_or(bytes.len(), |n| n as usize + 4);
        let bytes = &bytes[..own.min(bytes.len())];
        if !bytes.is_empty() {
            let offset = offset + at as u64;
            capture.events.push(Event::Sample { cpu, offset, bytes: bytes.into() });
        }
        at = end;
    }
}

/// Bytes before a state of an aggregation of Linux: its number, bytes of its key and of its value, zero.
const STATE_HEAD: usize = 16;

/// States of aggregations of Linux; false if they cannot be read to the end.
fn linux_states(capture: &mut Capture, cpu: u32, body: &[u8]) -> bool {
    let order = capture.order;
    let mut rest = body;
    while !rest.is_empty() {
        let word = |at| order.u32_at(rest, at);
        let (Some(id), Some(n_key), Some(n_data)) = (word(0), word(4), word(8)) else { return false };
        let (n_key, n_data) = (n_key as usize, n_data as usize);
        let data_at = STATE_HEAD.saturating_add(n_key).next_multiple_of(ALIGN);
        let end = data_at.saturating_add(n_data);
        let parts = rest.get(STATE_HEAD..STATE_HEAD + n_key).zip(rest.get(data_at..end));
        let Some(((key, data), aggregation)) = parts.zip(capture.aggregation(id)) else { return false };
        let described = &capture.aggregations[aggregation];
        let needed = described.value.offset as usize + described.value.size as usize;
        if (key.len(), data.len()) != (described.size as usize, needed) {
            return false;
        }
        capture.events.push(Event::State { cpu, aggregation, key: key.into(), data: data.into() });
        rest = rest.get(end.next_multiple_of(ALIGN)..).unwrap_or(&[]);
    }
    true
}
