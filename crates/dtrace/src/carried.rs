//! Buffers in a stream that describes itself: the bodies that `.quipu` files carry for DTrace, and their descriptions.
//!
//! SPEC: dtrace.md#captures

use crate::buffer::Cursor;
use crate::bytes::ByteOrder;
use crate::describe::{Buffer, Capture, Dialect, Event, Status};
use crate::described::{self, Describer};
use crate::rules;
use crate::validate;
use quipu_model::{Error, Place, Result};
use quipu_stream::frame::{Header, SYNC, encoding};
use quipu_stream::loss::Loss;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::wire::record::{self as wire, Producer, Record};
use quipu_stream::write::{Options, Writer};
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
        if is_ours(header.encoding) && header.is_foreign() {
            return true;
        }
        let Ok(length) = usize::try_from(header.frame_len()) else { return false };
        at = at.saturating_add(length.max(SYNC.len()));
    }
    false
}

fn is_ours(body: u16) -> bool {
    matches!(body, encoding::DTRACE | encoding::DTRACE_LINUX | encoding::DTRACE_AGGREGATIONS)
}

/// Reads a stream with the buffers of one producer.
///
/// # Errors
/// `Unsupported` for buffers of several producers; `Malformed` for descriptions that are wrong.
pub fn read(file: &str, bytes: &[u8]) -> Result<Capture> {
    let unreadable = |cause| Error::malformed("the stream cannot be read").because(cause).in_file(file);
    let place = |offset: u64| Place { file: Some(file.to_owned()), offset: Some(offset), ..Place::default() };
    let mut reader = StreamReader::new(bytes);
    let mut describer = Describer::new(file, Dialect::Classic);
    let mut epoch = None;
    let mut taken = BTreeSet::new();
    let mut findings = Vec::new();
    let (mut buffers, mut states) = (Vec::<(u32, Buffer)>::new(), Vec::<(u32, Buffer)>::new());
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
        for (ordinal, entry) in part.metadata.entries() {
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
            encoding::DTRACE => add(&mut buffers, stream, body),
            _ => add(&mut states, stream, body),
        }
    }
    let session = reader.session();
    let losses = session.losses();
    findings.extend(session.findings.iter().map(|found| {
        let offset = found.number("offset").unwrap_or(0);
        rules::STREAM.broken(place(offset), format!("the stream that carries the buffers: {}", found.name))
    }));
    let cpus = std::mem::take(&mut describer.cpus);
    let mut capture = describer.finish();
    let named = |(stream, buffer): (u32, Buffer)| {
        let cpu = cpus.get(&stream).copied().unwrap_or(stream);
        Buffer { cpu, file: file.to_owned(), ..buffer }
    };
    capture.buffers = buffers.into_iter().map(named).collect();
    capture.states = states.into_iter().map(named).collect();
    for (stream, loss) in losses {
        let stream = loss.stream.unwrap_or(stream);
        lose(&mut capture, cpus.get(&stream).copied().unwrap_or(stream), &loss);
    }
    capture.findings = findings;
    capture.index();
    validate::all(&capture).map_err(|error| error.in_file(file))?;
    Ok(capture)
}

/// Adds a body to the buffer of its stream. Offsets count in what the stream has of it.
fn add(all: &mut Vec<(u32, Buffer)>, stream: u32, body: &[u8]) {
    match all.iter_mut().find(|(number, _)| *number == stream) {
        Some((_, buffer)) => {
            buffer.bytes.resize(buffer.bytes.len().next_multiple_of(ALIGN), 0);
            buffer.bytes.extend_from_slice(body);
        }
        None => all.push((stream, Buffer { bytes: body.to_vec(), ..Buffer::default() })),
    }
}

/// Samples of Linux: each a length, then the sample up to a multiple of 8.
fn samples(capture: &mut Capture, cpu: u32, order: ByteOrder, body: &[u8], offset: u64) {
    let mut at = 0;
    while let Some(length) = order.u32_at(body, at) {
        let end = (at + 4).saturating_add(length as usize);
        let Some(bytes) = body.get(at + 4..end) else { break };
        if !bytes.is_empty() {
            let line = offset + at as u64;
            capture.events.push(Event::Sample { cpu, line, bytes: bytes.into() });
        }
        at = end;
    }
}

/// The counter of drops that a loss is about.
fn lose(capture: &mut Capture, cpu: u32, loss: &Loss) {
    let n = loss.records.unwrap_or(0);
    let of_cpu = |all: &mut Vec<Buffer>| match all.iter_mut().find(|buffer| buffer.cpu == cpu) {
        Some(buffer) => buffer.drops += n,
        None => all.push(Buffer { cpu, drops: n, ..Buffer::default() }),
    };
    let status = &mut capture.status;
    match loss.cause {
        1 => of_cpu(&mut capture.buffers),
        2 => of_cpu(&mut capture.states),
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

/// Writes a capture as a stream: descriptions, then the buffers as they are.
///
/// # Errors
/// `Unsupported` for dialects that have no body of their own; what writing says.
pub fn write<W: Write>(capture: &Capture, producer: Producer, out: W) -> Result<W> {
    if capture.dialect != Dialect::Classic {
        let message = format!("captures of dialect {} are not written as streams", capture.dialect.name());
        return Err(Error::unsupported(message).in_file(&*capture.name));
    }
    let failed = |cause| Error::new(quipu_model::ErrorKind::Io, "cannot write the stream").because(cause);
    let mut records = described::records(capture, producer).into_iter();
    let Some(Record::Producer(producer)) = records.next() else {
        return Err(Error::new(quipu_model::ErrorKind::Internal, "descriptions begin without a producer"));
    };
    let writer = Writer::new(out, Options { producer, ..Options::new("quipu") });
    writer.define(clock()).map_err(failed)?;
    let mut numbers = Vec::new();
    for buffer in capture.buffers.iter().chain(&capture.states) {
        if numbers.contains(&buffer.cpu) {
            continue;
        }
        numbers.push(buffer.cpu);
        let stream = wire::Stream {
            number: buffer.cpu,
            name: Some(format!("cpu{}", buffer.cpu)),
            clock: Some(CLOCK),
            cpu: Some(buffer.cpu.into()),
            format: Some("dtrace".to_owned()),
            ..wire::Stream::default()
        };
        writer.define(stream).map_err(failed)?;
    }
    for record in records {
        writer.define(record).map_err(failed)?;
    }
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
                let mut bytes = buffer.bytes.clone();
                // The oldest record comes first.
                bytes.rotate_left(buffer.oldest.min(buffer.bytes.len()));
                stream.foreign(body, records, times, &bytes).map_err(failed)?;
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
