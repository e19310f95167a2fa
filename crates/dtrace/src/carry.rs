//! Writes captures into self-describing streams: descriptions, then buffers in frames that end between records, then the
//! text from which the descriptions were read.
//!
//! SPEC: dtrace.md#captures

use crate::aggregate::Records;
use crate::buffer::Cursor;
use crate::describe::{Buffer, Capture, Event};
use crate::{combine, dense, dense_samples, described, lost};
use quipu_model::{Error, ErrorKind, Result};
use quipu_stream::frame::encoding;
use quipu_stream::wire::record::{self as wire, Producer, Record};
use quipu_stream::write::{FRAME_BYTES_AT_REST, Options, StreamWriter, Writer};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::ops::Range;

/// Alignment in bytes of states of Linux aggregations, and of the lengths of samples.
pub(crate) const ALIGN: usize = 8;

/// Name of the format of streams of buffers, and of the program that made them.
pub(crate) const STREAM_FORMAT: &str = "dtrace";

/// Encoding of the records of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoded {
    /// Records are written unchanged.
    #[default]
    Plain,
    /// Records are written as differences and runs, if all of a frame can be read; see [`dense`].
    Dense,
}

/// Writes a capture as a stream: descriptions, then the buffers, in the given encoding.
///
/// # Errors
/// Returns errors of writing.
pub fn write<W: Write>(capture: &Capture, producer: Producer, encoded: Encoded, out: W) -> Result<W> {
    let failed = |cause| Error::new(ErrorKind::Io, "cannot write the stream").because(cause);
    let mut records = described::records(capture, producer).into_iter();
    let Some(Record::Producer(producer)) = records.next() else {
        return Err(Error::new(ErrorKind::Internal, "descriptions begin without a producer"));
    };
    let writer = Writer::new(out, Options { producer, ..Options::new("quipu") });
    writer.define(clock()).map_err(failed)?;
    let (of_buffers, of_states) = (numbers(&capture.buffers), numbers(&capture.states));
    let all = |numbers: &[u32], buffers: &[Buffer]| -> Vec<(u32, u32)> {
        numbers.iter().copied().zip(buffers.iter().map(|buffer| buffer.cpu)).collect()
    };
    let (buffers, states) = (all(&of_buffers, &capture.buffers), all(&of_states, &capture.states));
    let of_events = capture.events.iter().map(|event| (event.cpu(), event.cpu()));
    let mut known = BTreeSet::new();
    for (number, cpu) in buffers.into_iter().chain(states).chain(of_events) {
        if known.insert(number) {
            writer.define(stream(number, cpu)).map_err(failed)?;
        }
    }
    for record in records {
        writer.define(record).map_err(failed)?;
    }
    if encoded == Encoded::Dense {
        writer.define(dense::announced()).map_err(failed)?;
        if !capture.events.is_empty() {
            writer.define(dense_samples::announced()).map_err(failed)?;
        }
    }
    let attached = capture.origin.attachments();
    let attached: Vec<(&str, Cow<'_, [u8]>)> = attached
        .into_iter()
        .chain(capture.beside.iter().map(|(name, bytes)| (&**name, Cow::Borrowed(&**bytes))))
        .collect();
    for (name, bytes) in &attached {
        let said = serde_json::to_string(&(name, bytes.len())).unwrap_or_default();
        let value = quipu_wire::cbor::Value::Text(said);
        writer.define(wire::Setting { name: described::ATTACHED.to_owned(), value }).map_err(failed)?;
    }
    put_events(capture, &writer, encoded).map_err(failed)?;
    for (number, buffer) in of_buffers.iter().zip(&capture.buffers) {
        let cause = lost::OF_RECORDS;
        put_buffer(&writer, (*number, buffer), cause, |bytes, out| {
            for part in parts(capture, bytes) {
                put_part(capture, encoded, &part, out)?;
            }
            Ok(())
        })
        .map_err(failed)?;
    }
    for (number, buffer) in of_states.iter().zip(&capture.states) {
        let cause = lost::OF_STATES;
        put_buffer(&writer, (*number, buffer), cause, |bytes, out| {
            let parts = state_parts(capture, bytes);
            parts.into_iter().try_for_each(|part| {
                out.foreign(encoding::DTRACE_AGGREGATIONS, 0, (0, 0), &bytes.bytes[part])
            })
        })
        .map_err(failed)?;
    }
    for loss in lost::of_no_cpu(capture) {
        writer.loss(0, &loss).map_err(failed)?;
    }
    for (name, bytes) in &attached {
        writer.attach(name, None, bytes).map_err(failed)?;
    }
    writer.finish().map_err(failed)?;
    writer.into_inner().ok_or_else(|| Error::new(ErrorKind::Internal, "the stream is still being written"))
}

/// Stream numbers of buffers: the number of the CPU. Further buffers of the same CPU, from other captures, get numbers above.
pub(crate) fn numbers(buffers: &[Buffer]) -> Vec<u32> {
    let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
    let number = |buffer: &Buffer| {
        let nth = seen.entry(buffer.cpu).or_default();
        let number = buffer.cpu | *nth << combine::SHIFT;
        *nth += 1;
        // If no number is left for a buffer, it is appended to the stream of the first.
        if buffer.cpu >> combine::SHIFT == 0 && *nth <= combine::MAX_SHIFT { number } else { buffer.cpu }
    };
    buffers.iter().map(number).collect()
}

fn stream(number: u32, cpu: u32) -> wire::Stream {
    let again = if number == cpu { String::new() } else { format!(".{}", number >> combine::SHIFT) };
    wire::Stream {
        number,
        name: Some(format!("cpu{cpu}{again}")),
        clock: Some(CLOCK),
        cpu: Some(cpu.into()),
        format: Some(STREAM_FORMAT.to_owned()),
        ..wire::Stream::default()
    }
}

/// Writes the loss of a CPU, then its buffer with the oldest record first.
fn put_buffer<W: Write>(
    writer: &Writer<W>,
    (number, buffer): (u32, &Buffer),
    cause: u64,
    put: impl FnOnce(&Buffer, &mut StreamWriter<W>) -> io::Result<()>,
) -> io::Result<()> {
    let mut stream = writer.stream(number)?;
    if let Some(loss) = lost::of_cpu(buffer, cause) {
        writer.loss(number, &loss)?;
    }
    match buffer.oldest {
        0 => put(buffer, &mut stream)?,
        _ => put(&buffer.turned(), &mut stream)?,
    }
    stream.finish()
}

/// Records of a buffer that are written as one frame.
struct Part<'b> {
    bytes: &'b [u8],
    records: u32,
    times: (u64, u64),
}

/// Splits a buffer between records into parts for frames of the usual length; the unreadable rest is split anywhere.
fn parts<'b>(capture: &Capture, buffer: &'b Buffer) -> Vec<Part<'b>> {
    let mut cursor = Cursor::new(buffer);
    let mut all = Vec::new();
    let (mut start, mut end) = (0, 0);
    let (mut records, mut times) = (0, None);
    while let Ok(Some(record)) = cursor.next_record(capture, buffer) {
        let next = record.offset + record.bytes.len();
        if records > 0 && next - start > FRAME_BYTES_AT_REST {
            let bytes = &buffer.bytes[start..end];
            all.push(Part { bytes, records, times: times.unwrap_or_default() });
            (start, records, times) = (end, 0, None);
        }
        let (first, _) = times.unwrap_or((record.time, 0));
        times = Some((first, record.time));
        records += 1;
        end = next;
    }
    // Zeros after the last record are part of its frame, unless that makes the frame too long.
    let n_rest = buffer.bytes.len() - start;
    let last = if n_rest <= FRAME_BYTES_AT_REST { buffer.bytes.len() } else { end };
    if last > start {
        all.push(Part { bytes: &buffer.bytes[start..last], records, times: times.unwrap_or_default() });
    }
    let rest = buffer.bytes[last..].chunks(FRAME_BYTES_AT_REST);
    all.extend(rest.map(|bytes| Part { bytes, records: 0, times: (0, 0) }));
    all
}

/// Splits a buffer of aggregations between its records.
fn state_parts(capture: &Capture, buffer: &Buffer) -> Vec<Range<usize>> {
    let mut records = Records::new(capture, buffer);
    let mut all = Vec::new();
    let (mut start, mut end) = (0, 0);
    while let Ok(Some(_)) = records.next_record() {
        if end > start && records.offset() - start > FRAME_BYTES_AT_REST {
            all.push(start..end);
            start = end;
        }
        end = records.offset();
    }
    while start < buffer.bytes.len() {
        let n_rest = buffer.bytes.len() - start;
        let next = if n_rest <= FRAME_BYTES_AT_REST || end <= start {
            start + n_rest.min(FRAME_BYTES_AT_REST)
        } else {
            end
        };
        all.push(start..next);
        start = next;
    }
    all
}

fn put_part<W: Write>(
    capture: &Capture,
    encoded: Encoded,
    part: &Part<'_>,
    out: &mut StreamWriter<W>,
) -> io::Result<()> {
    let packed = match encoded {
        Encoded::Dense => dense::pack_part(capture, part.bytes),
        Encoded::Plain => None,
    };
    let (encoding, bytes) = match &packed {
        Some(packed) => (dense::NUMBER, &**packed),
        None => (encoding::DTRACE, part.bytes),
    };
    out.foreign(encoding, part.records, part.times, bytes)
}

/// Writes Linux samples and states in order of arrival; consecutive ones of a CPU go into one frame.
fn put_events<W: Write>(capture: &Capture, writer: &Writer<W>, encoded: Encoded) -> io::Result<()> {
    let kind_of = |event: &Event| (event.cpu(), matches!(event, Event::Sample { .. }));
    let mut body = Vec::new();
    for run in capture.events.chunk_by(|a, b| kind_of(a) == kind_of(b)) {
        let mut rest = run;
        while let Some(first) = rest.first() {
            body.clear();
            let mut n = 0;
            while let Some(event) = rest.get(n).filter(|_| body.len() < FRAME_BYTES_AT_REST) {
                let before = body.len();
                put_event(capture, event, &mut body);
                if n > 0 && body.len() > FRAME_BYTES_AT_REST {
                    body.truncate(before);
                    break;
                }
                n += 1;
            }
            let (events, after) = rest.split_at(n);
            rest = after;
            let mut stream = writer.stream(first.cpu())?;
            let n = events.len() as u32; // Fewer than bytes of a frame.
            let packed = match (first, encoded) {
                (Event::Sample { .. }, Encoded::Dense) => dense_samples::pack(capture, events),
                _ => None,
            };
            match (packed, first) {
                (Some(packed), _) => stream.foreign(dense_samples::NUMBER, n, (0, 0), &packed)?,
                (None, Event::Sample { .. }) => stream.foreign(encoding::DTRACE_LINUX, n, (0, 0), &body)?,
                (None, Event::State { .. }) => {
                    stream.foreign(encoding::DTRACE_AGGREGATIONS, n, (0, 0), &body)?;
                }
            }
            stream.finish()?;
        }
    }
    Ok(())
}

fn put_event(capture: &Capture, event: &Event, body: &mut Vec<u8>) {
    let pad = |body: &mut Vec<u8>, from: usize| {
        let n = (body.len() - from).next_multiple_of(ALIGN);
        body.resize(from + n, 0);
    };
    let start = body.len();
    let word = |body: &mut Vec<u8>, n: usize| capture.order.put(body, n as u64, 4);
    match event {
        Event::Sample { bytes, .. } => {
            word(body, bytes.len().next_multiple_of(ALIGN));
            let start = body.len();
            body.extend_from_slice(bytes);
            pad(body, start);
        }
        Event::State { aggregation, key, data, .. } => {
            word(body, capture.aggregations.get(*aggregation).map_or(0, |described| described.id as usize));
            word(body, key.len());
            word(body, data.len());
            word(body, 0);
            body.extend_from_slice(key);
            pad(body, start);
            body.extend_from_slice(data);
            pad(body, start);
        }
    }
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
