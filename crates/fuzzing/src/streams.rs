//! Targets for streams: whole files, and parts that a fuzzer reaches faster on their own: CBOR, types, rows.

use quipu_stream::batch::Batch;
use quipu_stream::datum::{Datum, of_column};
use quipu_stream::decode::{Body, Decoder};
use quipu_stream::frame::{HEADER_BYTES, Header, SYNC, TRAILER, encoding, kind};
use quipu_stream::index::Directory;
use quipu_stream::input::Pipe;
use quipu_stream::json;
use quipu_stream::meta::Metadata;
use quipu_stream::pack::PackedRows;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::schema::Schema;
use quipu_stream::wire::cbor::{self, Fault};
use quipu_stream::wire::crc32c;
use quipu_testkit::fuzz;
use std::sync::Arc;

/// Corrects checksums and trailers, which a fuzzer never gets right.
pub(crate) fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut file = bytes.to_vec();
    let mut at = 0;
    while at + HEADER_BYTES <= file.len() {
        if file[at..at + 8] != SYNC {
            at += 1;
            continue;
        }
        file[at + 8] = 1;
        file[at + 11] = 12;
        let crc = crc32c(&file[at..at + 92]);
        file[at + 92..at + 96].copy_from_slice(&crc.to_le_bytes());
        let Ok(mut header) = Header::read(&file[at..]) else { break };
        let len = usize::try_from(header.frame_len()).unwrap_or(usize::MAX);
        let start = at + HEADER_BYTES;
        let stored = header.stored_len as usize;
        if at.checked_add(len).is_some_and(|end| end <= file.len()) {
            header.payload_crc = crc32c(&file[start..start + stored]);
            file[at..start].copy_from_slice(&header.to_bytes());
            let end = at + len;
            file[end - 8..end - 4].copy_from_slice(&(len as u32).to_le_bytes()); // It fits into the file.
            file[end - 4..end].copy_from_slice(&TRAILER);
            at = end;
        } else {
            at += 8;
        }
    }
    file
}

fn frames(mut bytes: &[u8], mut scanner: Scanner) -> Vec<FrameAt> {
    let mut frames = Vec::new();
    while let Some(frame) = scanner.next(&mut bytes).expect("memory can be read") {
        frames.push(frame);
    }
    frames
}

/// Reads any bytes as a stream, unchanged and with corrected checksums: records and findings must be the same however it is
/// read.
pub fn stream(bytes: &[u8]) {
    file(bytes);
    for bytes in [bytes, &repaired(bytes)] {
        fuzz::format(&quipu::streamed::STREAM, bytes);
    }
}

/// Reads any bytes as a stream, unchanged and with corrected checksums, from memory and from a pipe, and scans its frames in
/// two parts.
///
/// # Panics
/// If scanning parts of the bytes finds other frames than scanning the whole, or something cannot be shown.
fn file(bytes: &[u8]) {
    for bytes in [bytes.to_vec(), repaired(bytes)] {
        let mut reader = StreamReader::new(&bytes[..]);
        let mut n_rows = 0;
        while let Some(part) = reader.next_part().expect("memory can be read") {
            if let Content::Rows(batch) | Content::Aggregations(batch, _) = part.content {
                n_rows += batch.n_rows();
                if let Some((rows, row)) = batch.in_order().next() {
                    let _ = json::record(rows, row, part.metadata);
                }
            }
            // A few bytes of repetitions may stand for millions of rows.
            if n_rows > 1 << 18 {
                return;
            }
        }
        let mut piped = StreamReader::once(Pipe::new(&bytes[..]));
        while piped.next_part().expect("memory can be read").is_some() {}
        let _ = Directory::read(&mut &bytes[..], bytes.len() as u64).expect("memory can be read");
        // An open frame may contain bytes that look like frames.
        let whole = frames(&bytes, Scanner::new());
        if whole.iter().all(|frame| frame.header.kind != kind::OPEN && frame.header.mask == 0) {
            let middle = bytes.len() as u64 / 2;
            let mut parts = frames(&bytes, Scanner::over(0..middle));
            parts.extend(frames(&bytes, Scanner::over(middle..u64::MAX)));
            let inner = whole.iter().any(|frame| {
                let payload = &bytes[frame.payload_at() as usize..frame.end() as usize];
                payload.windows(8).any(|window| window == SYNC)
            });
            assert!(inner || parts == whole, "two parts have other frames than the whole");
        }
    }
}

/// Reads any bytes as CBOR: items are written again in canonical form, and read again with the same result.
///
/// # Panics
/// If the result differs.
pub fn cbor(bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        match cbor::decode(&bytes[at..]) {
            Ok(item) => {
                let again = item.value.to_bytes();
                let second = cbor::decode(&again).expect("what was written can be read");
                assert_eq!(second.value.to_bytes(), again, "the canonical form changes");
                if item.canonical {
                    assert_eq!(again, bytes[at..at + item.len_bytes], "what is canonical changes");
                }
                at += item.len_bytes;
            }
            Err(Fault::Refused(len)) => at += len,
            Err(Fault::Malformed) => return,
        }
    }
}

/// Reads CBOR items as metadata.
fn metadata(bytes: &[u8]) -> Metadata {
    let mut metadata = Metadata::default();
    let mut findings = Vec::new();
    let mut at = 0;
    let mut ordinal = 0;
    while at < bytes.len() {
        let item = cbor::decode(&bytes[at..]);
        at += match &item {
            Ok(item) => item.len_bytes,
            Err(Fault::Refused(len)) => *len,
            Err(Fault::Malformed) => break,
        };
        metadata.add(ordinal, item, &mut findings);
        ordinal += 1;
    }
    metadata.resolve(&mut findings);
    metadata
}

/// Reads any bytes as metadata records, adds them in order and in reverse: the same schemas must be resolvable, unless one
/// definition contradicts another.
///
/// # Panics
/// If they are not.
pub fn types(bytes: &[u8]) {
    let forward = metadata(bytes);
    let entries: Vec<_> = forward.entries().map(|(ordinal, entry)| (ordinal, entry.clone())).collect();
    let mut backward = Metadata::default();
    let mut findings = Vec::new();
    for (ordinal, entry) in entries.iter().rev().filter(|(_, entry)| !entry.bytes.is_empty()) {
        backward.add(*ordinal, cbor::decode(&entry.bytes), &mut findings);
        backward.resolve(&mut findings);
    }
    let is_clear = entries.iter().all(|(_, entry)| entry.record.is_some());
    if is_clear {
        let ids =
            |metadata: &Metadata| metadata.schemas().iter().map(|schema| schema.id()).collect::<Vec<_>>();
        assert_eq!(ids(&forward), ids(&backward), "the order of records changes the schemas");
    }
}

type Rows = Vec<(Arc<Schema>, u64, Vec<Datum>)>;

/// The rows of a payload, and whether it was whole. The number of rows is limited, to save time.
fn rows(header: &Header, payload: &[u8], metadata: &mut Arc<Metadata>) -> (Rows, bool) {
    let mut decoder = Decoder::new();
    let (mut batch, mut findings, mut all) = (Batch::new(), Vec::new(), Vec::new());
    let body = Body { header, payload, is_open: false, tag: 0 };
    while decoder.next(&body, metadata, &mut batch, &mut findings) {
        for (rows, row) in batch.in_order() {
            let values = rows.columns.iter().map(|column| of_column(column, row)).collect();
            all.push((Arc::clone(&rows.schema), rows.times[row], values));
        }
    }
    let outcome = decoder.outcome();
    (all, !outcome.is_broken && outcome.undecoded == 0)
}

/// Reads any bytes as metadata and rows: a byte for the encoding, two for the length of the metadata, two for the number of
/// records. Rows that can be read must survive packing, with and without repetitions.
///
/// # Panics
/// If they do not.
pub fn packed_rows(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_at_checked(5) else { return };
    let encodings = [encoding::PACKED, encoding::RUNS, encoding::PLAIN, encoding::JSON];
    let len = usize::from(u16::from_le_bytes([head[1], head[2]])).min(rest.len());
    let (described, payload) = rest.split_at(len);
    let mut metadata = Arc::new(metadata(described));
    let header = Header {
        kind: kind::DATA,
        encoding: encodings[usize::from(head[0]) % encodings.len()],
        records: u32::from(u16::from_le_bytes([head[3], head[4]])) & 0xFFF,
        ..Header::default()
    };
    let (first, _) = rows(&header, payload, &mut metadata);
    for with_runs in [false, true] {
        let mut packed = PackedRows::default();
        for (schema, time, values) in &first {
            packed.push(schema, *time, values.clone()).expect("what was read can be written");
        }
        let packed = packed.finish(with_runs);
        let header = Header {
            encoding: if with_runs { encoding::RUNS } else { encoding::PACKED },
            records: packed.records,
            ts_first: packed.ts_first,
            ..header
        };
        let (second, is_whole) = rows(&header, &packed.payload, &mut metadata);
        let values = |rows: &Rows| -> Vec<(u32, u64, Vec<Datum>)> {
            rows.iter().map(|(schema, time, values)| (schema.id(), *time, values.clone())).collect()
        };
        assert!(is_whole && values(&second) == values(&first), "rows change when they are packed");
    }
}
