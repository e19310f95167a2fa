//! Buffers in a stream that describes itself: the bodies that `.quipu` files carry for DTrace, and their descriptions.
//!
//! SPEC: dtrace.md#captures

use crate::buffer::Cursor;
use crate::bytes::ByteOrder;
use crate::dense;
use crate::describe::{Buffer, Capture, Dialect, Event, Status};
use crate::described::{self, Describer};
use crate::rules;
use crate::validate;
use quipu_model::loss::Amount;
use quipu_model::{Error, Finding, Place, Result, RuleInfo};
use quipu_stream::decode::Registry;
use quipu_stream::frame::{Header, SYNC, encoding};
use quipu_stream::loss::Loss;
use quipu_stream::meta::Metadata;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::wire::record::{self as wire, Producer, Record};
use quipu_stream::write::{Options, Writer};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::io::Write;

/// A file is never larger.
pub const MAX_FILE_BYTES: u64 = 1 << 30;

/// Records of buffers are aligned to this.
const ALIGN: usize = 8;

/// True if a file begins as a stream with bodies of DTrace in it.
pub fn is_likely(head: &[u8]) -> bool {
    let mut at = 0;
    while let Some(bytes) = head.get(at..).filter(|bytes| bytes.starts_with(&SYNC)) {
        let Ok(header) = Header::read(bytes) else { return false };
        if is_ours(header.encoding) && (header.is_foreign() || is_dense(head)) {
            return true;
        }
        let Ok(length) = usize::try_from(header.frame_len()) else { return false };
        at = at.saturating_add(length.max(SYNC.len()));
    }
    false
}

fn is_ours(body: u16) -> bool {
    matches!(body, encoding::DTRACE | encoding::DTRACE_LINUX | encoding::DTRACE_AGGREGATIONS | dense::NUMBER)
}

/// A reader that hands out the bodies of DTrace.
fn reader(bytes: &[u8]) -> StreamReader<&[u8]> {
    let mut registry = Registry::default();
    registry.hand_out(dense::NUMBER);
    StreamReader::new(bytes).with_registry(registry)
}

/// True if a stream announces dense bodies: other programs may use the number for something else.
fn is_dense(head: &[u8]) -> bool {
    let mut reader = reader(head);
    while let Ok(Some(part)) = reader.next_part() {
        if part.header.encoding == dense::NUMBER {
            return announces(part.metadata);
        }
    }
    false
}

fn announces(metadata: &Metadata) -> bool {
    metadata.entries().any(|(_, entry)| {
        matches!(entry.record.as_deref(), Some(Record::Encoding(encoding)) if dense::is_announced_by(encoding))
    })
}

/// Reads a stream with the buffers of one producer.
///
/// # Errors
/// `Unsupported` for buffers of several producers; `Malformed` for descriptions that are wrong.
pub fn read(file: &str, bytes: &[u8]) -> Result<Capture> {
    let unreadable = |cause| Error::malformed("the stream cannot be read").because(cause).in_file(file);
    let place = |offset: u64| Place { file: Some(file.to_owned()), offset: Some(offset), ..Place::default() };
    let mut reader = reader(bytes);
    let mut describer = Describer::new(file, Dialect::Classic);
    let mut epoch = None;
    let (mut taken, mut n_known) = (BTreeSet::new(), 0);
    let mut findings = Vec::new();
    let (mut buffers, mut states) = (Bodies::default(), Bodies::default());
    while let Some(part) = reader.next_part().map_err(unreadable)? {
        let Content::Foreign(body) = part.content else { continue };
        if !is_ours(part.header.encoding) {
            continue;
        }
        let this = (part.header.producer, part.header.epoch);
        if *epoch.get_or_insert(this) != this {
            let message = "the stream has buffers of several producers; take it apart first: quipu split";
            return Err(Error::unsupported(message).at(&place(part.offset)));
        }
        if part.header.encoding == encoding::DTRACE_LINUX {
            describer.capture.dialect = Dialect::Linux;
        }
        // PERF: all frames of a stream that can be read at any place share what is known; it is looked at once.
        let n = part.metadata.n_entries();
        let is_new = std::mem::replace(&mut n_known, n) != n;
        for (ordinal, entry) in part.metadata.entries().filter(|_| is_new) {
            let Some(record) = entry.record.as_deref().filter(|_| taken.insert(ordinal)) else { continue };
            if let Err(error) = describer.take(record) {
                findings.push(rules::METADATA.broken(place(part.offset), error.message().to_owned()));
            }
        }
        let stream = part.header.stream;
        match part.header.encoding {
            encoding::DTRACE_LINUX => {
                let cpu = describer.cpus.get(&stream).copied().unwrap_or(stream);
                let order = describer.capture.order;
                samples(&mut describer.capture, cpu, order, body, part.offset);
            }
            encoding::DTRACE => buffers.add(stream, body),
            dense::NUMBER if announces(part.metadata) => {
                let unpacked = dense::unpack(&describer.capture, body);
                if !unpacked.is_whole {
                    let lost = part.header.records.saturating_sub(unpacked.n_records);
                    let message = "a dense body cannot be read to its end".to_owned();
                    findings.push(lost_in(&rules::ENCODING, place(part.offset), message, lost));
                }
                buffers.add(stream, &unpacked.bytes);
            }
            dense::NUMBER => {
                let message = format!("a body has the encoding {:#x}, which is not known", dense::NUMBER);
                findings.push(lost_in(&rules::ENCODING, place(part.offset), message, part.header.records));
            }
            _ if describer.capture.dialect == Dialect::Linux => {
                let cpu = describer.cpus.get(&stream).copied().unwrap_or(stream);
                if !linux_states(&mut describer.capture, cpu, body) {
                    let message = "states of aggregations cannot be read to their end".to_owned();
                    findings.push(rules::CUT.broken(place(part.offset), message));
                }
            }
            _ => states.add(stream, body),
        }
    }
    let session = reader.session();
    let losses = session.losses();
    findings.extend(session.findings.iter().map(|found| {
        let at = place(found.number("offset").unwrap_or(0));
        let message = format!("the stream that carries the buffers: {}", found.name);
        match found.name {
            // Other bodies can be read without it.
            "unknown-encoding" => {
                let n = found.number("records").and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
                lost_in(&rules::ENCODING, at, message, n)
            }
            _ => rules::STREAM.broken(at, message),
        }
    }));
    let cpus = std::mem::take(&mut describer.cpus);
    let mut capture = describer.finish();
    let named = |(stream, bytes): (u32, Vec<u8>)| {
        let cpu = cpus.get(&stream).copied().unwrap_or(stream);
        Buffer { cpu, file: file.to_owned(), bytes, ..Buffer::default() }
    };
    capture.buffers = buffers.all.into_iter().map(named).collect();
    capture.states = states.all.into_iter().map(named).collect();
    let mut counters = Counters::new(&capture);
    for (stream, loss) in losses {
        let stream = loss.stream.unwrap_or(stream);
        counters.lose(&mut capture, cpus.get(&stream).copied().unwrap_or(stream), &loss);
    }
    capture.findings = findings;
    capture.index();
    validate::all(&capture).map_err(|error| error.in_file(file))?;
    Ok(capture)
}

/// What a finding of lost records says.
fn lost_in(rule: &RuleInfo, place: Place, message: String, n: u32) -> Finding {
    let loss = quipu_model::Loss {
        records: Amount::known(Some(n.into())),
        ..quipu_model::Loss::from(place.clone())
    };
    rule.broken(place, message).losing(loss)
}

/// The bodies of each stream, one after the other.
#[derive(Debug, Default)]
struct Bodies {
    all: Vec<(u32, Vec<u8>)>,
    positions: FxHashMap<u32, usize>,
}

impl Bodies {
    /// Adds a body to those of its stream. Offsets count in what the stream has of it.
    fn add(&mut self, stream: u32, body: &[u8]) {
        let position = *self.positions.entry(stream).or_insert(self.all.len());
        match self.all.get_mut(position) {
            Some((_, bytes)) => {
                bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
                bytes.extend_from_slice(body);
            }
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
            let line = offset + at as u64;
            capture.events.push(Event::Sample { cpu, line, bytes: bytes.into() });
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
        if key.len() < described.size as usize || data.len() < needed {
            return false;
        }
        capture.events.push(Event::State { cpu, aggregation, key: key.into(), data: data.into() });
        rest = rest.get(end.next_multiple_of(ALIGN)..).unwrap_or(&[]);
    }
    true
}

/// Where drops are counted: positions of buffers by CPU.
struct Counters {
    buffers: FxHashMap<u32, usize>,
    states: FxHashMap<u32, usize>,
}

impl Counters {
    fn new(capture: &Capture) -> Counters {
        let positions = |all: &[Buffer]| all.iter().enumerate().map(|(at, of)| (of.cpu, at)).collect();
        Counters { buffers: positions(&capture.buffers), states: positions(&capture.states) }
    }

    /// Counts a loss where it belongs.
    fn lose(&mut self, capture: &mut Capture, cpu: u32, loss: &Loss) {
        let n = loss.records.unwrap_or(0);
        let of_cpu = |all: &mut Vec<Buffer>, positions: &mut FxHashMap<u32, usize>| {
            let position = *positions.entry(cpu).or_insert(all.len());
            match all.get_mut(position) {
                Some(buffer) => buffer.drops += n,
                None => all.push(Buffer { cpu, drops: n, ..Buffer::default() }),
            }
        };
        let status = &mut capture.status;
        match loss.cause {
            1 => of_cpu(&mut capture.buffers, &mut self.buffers),
            2 => of_cpu(&mut capture.states, &mut self.states),
            3 => status.dyndrops += n,
            4 => status.dyndrops_rinsing += n,
            5 => status.dyndrops_dirty += n,
            6 => status.specdrops += n,
            7 => status.specdrops_busy += n,
            8 => status.specdrops_unavail += n,
            9 => status.stkstroverflows += n,
            10 => status.dblerrors += n,
            _ => {}
        }
    }
}

/// How the records of buffers are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoded {
    /// As they are.
    #[default]
    Plain,
    /// As differences and runs, where all of a buffer can be read; see [`dense`].
    Dense,
}

/// Writes a capture as a stream: descriptions, then the buffers as they are, or in another encoding.
///
/// # Errors
/// What writing says.
pub fn write<W: Write>(capture: &Capture, producer: Producer, encoded: Encoded, out: W) -> Result<W> {
    let failed = |cause| Error::new(quipu_model::ErrorKind::Io, "cannot write the stream").because(cause);
    let mut records = described::records(capture, producer).into_iter();
    let Some(Record::Producer(producer)) = records.next() else {
        return Err(Error::new(quipu_model::ErrorKind::Internal, "descriptions begin without a producer"));
    };
    let writer = Writer::new(out, Options { producer, ..Options::new("quipu") });
    writer.define(clock()).map_err(failed)?;
    let of_buffers = capture.buffers.iter().chain(&capture.states).map(|buffer| buffer.cpu);
    let mut numbers = BTreeSet::new();
    for cpu in of_buffers.chain(capture.events.iter().map(Event::cpu)) {
        if !numbers.insert(cpu) {
            continue;
        }
        let stream = wire::Stream {
            number: cpu,
            name: Some(format!("cpu{cpu}")),
            clock: Some(CLOCK),
            cpu: Some(cpu.into()),
            format: Some("dtrace".to_owned()),
            ..wire::Stream::default()
        };
        writer.define(stream).map_err(failed)?;
    }
    for record in records {
        writer.define(record).map_err(failed)?;
    }
    if encoded == Encoded::Dense {
        writer.define(dense::announced()).map_err(failed)?;
    }
    put_events(capture, &writer).map_err(failed)?;
    for (buffers, body) in
        [(&capture.buffers, encoding::DTRACE), (&capture.states, encoding::DTRACE_AGGREGATIONS)]
    {
        for buffer in buffers {
            let mut stream = writer.stream(buffer.cpu).map_err(failed)?;
            if buffer.drops > 0 {
                let cause = if body == encoding::DTRACE { 1 } else { 2 };
                let loss = Loss { cause, records: Some(buffer.drops), ..Loss::default() };
                writer.loss(buffer.cpu, &loss).map_err(failed)?;
            }
            if !buffer.bytes.is_empty() {
                let (records, times) = times_of(capture, buffer, body);
                let is_dense = encoded == Encoded::Dense && body == encoding::DTRACE;
                match is_dense.then(|| dense::pack(capture, buffer)).flatten() {
                    Some(packed) => stream.foreign(dense::NUMBER, records, times, &packed).map_err(failed)?,
                    None => {
                        let mut bytes = buffer.bytes.clone();
                        // The oldest record comes first.
                        bytes.rotate_left(buffer.oldest.min(buffer.bytes.len()));
                        stream.foreign(body, records, times, &bytes).map_err(failed)?;
                    }
                }
            }
            stream.finish().map_err(failed)?;
        }
    }
    for (n, cause) in counts(&capture.status) {
        writer.loss(0, &Loss { cause, records: Some(n), ..Loss::default() }).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    writer
        .into_inner()
        .ok_or_else(|| Error::new(quipu_model::ErrorKind::Internal, "the stream is still being written"))
}

/// Writes samples and states of Linux in the order of their arrival, those that follow one another on a CPU in one frame.
fn put_events<W: Write>(capture: &Capture, writer: &Writer<W>) -> std::io::Result<()> {
    let kind_of = |event: &Event| (event.cpu(), matches!(event, Event::Sample { .. }));
    for events in capture.events.chunk_by(|a, b| kind_of(a) == kind_of(b)) {
        let mut body = Vec::new();
        let Some(first) = events.first() else { continue };
        let pad = |body: &mut Vec<u8>| body.resize(body.len().next_multiple_of(ALIGN), 0);
        for event in events {
            let mut word = |n: usize| capture.order.put(&mut body, n as u64, 4);
            match event {
                Event::Sample { bytes, .. } => {
                    word(bytes.len().next_multiple_of(ALIGN));
                    let start = body.len();
                    body.extend_from_slice(bytes);
                    body.resize(start + bytes.len().next_multiple_of(ALIGN), 0);
                }
                Event::State { aggregation, key, data, .. } => {
                    word(capture.aggregations.get(*aggregation).map_or(0, |described| described.id as usize));
                    word(key.len());
                    word(data.len());
                    word(0);
                    body.extend_from_slice(key);
                    pad(&mut body);
                    body.extend_from_slice(data);
                    pad(&mut body);
                }
            }
        }
        let encoding = match first {
            Event::Sample { .. } => encoding::DTRACE_LINUX,
            Event::State { .. } => encoding::DTRACE_AGGREGATIONS,
        };
        let n = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let mut stream = writer.stream(first.cpu())?;
        stream.foreign(encoding, n, (0, 0), &body)?;
        stream.finish()?;
    }
    Ok(())
}

const CLOCK: u32 = 1;

fn clock() -> wire::Clock {
    wire::Clock {
        id: CLOCK,
        name: Some("hrtime".to_owned()),
        ticks_per_s: 1_000_000_000,
        flags: Some(1),
        ..wire::Clock::default()
    }
}

/// Drops of no CPU, with their causes.
fn counts(status: &Status) -> impl Iterator<Item = (u64, u64)> {
    let all = [
        (status.dyndrops, 3),
        (status.dyndrops_rinsing, 4),
        (status.dyndrops_dirty, 5),
        (status.specdrops, 6),
        (status.specdrops_busy, 7),
        (status.specdrops_unavail, 8),
        (status.stkstroverflows, 9),
        (status.dblerrors, 10),
    ];
    all.into_iter().filter(|(n, _)| *n > 0)
}

/// How many records a buffer has, and the times of the first and the last.
fn times_of(capture: &Capture, buffer: &Buffer, body: u16) -> (u32, (u64, u64)) {
    if body != encoding::DTRACE {
        return (0, (0, 0));
    }
    let mut cursor = Cursor::new(buffer);
    let (mut n, mut times) = (0, None);
    while let Ok(Some(record)) = cursor.next_record(capture, buffer) {
        n += 1;
        let (first, _) = times.unwrap_or((record.time, 0));
        times = Some((first, record.time));
    }
    (n, times.unwrap_or((0, 0)))
}
