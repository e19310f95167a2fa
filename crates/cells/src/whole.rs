//! Complete recordings in memory, for tests and fuzzers: like those of the runtime, but built at once.

use crate::checksum;
use crate::describe::{DESCRIPTION, META_VERSION, N_DESCRIBED, N_OF_PROCESS, Process, Writer, schema};
use crate::event::count;
use crate::layout::{
    Frame, HEADER_BYTES, MAX_PACKED_BYTES, OPEN, SYNC, TRAILER_BYTES, encoding, flag, kind, open,
    packed_head, process,
};
use crate::pack::{Table, pack};

/// UUID of these recordings.
const UUID: [u8; 16] = *b"quipu recording!";
/// Process id of these recordings.
pub const PID: u64 = 4242;

/// Producer id of these recordings in frames.
fn producer() -> u64 {
    UUID.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Appends a frame.
pub fn put_frame(out: &mut Vec<u8>, frame: Frame, payload: &[u8]) {
    let frame = Frame { len: payload.len() as u32, payload_crc: checksum::of(payload), ..frame };
    let end = out.len() + frame.bytes();
    out.extend_from_slice(&frame.header());
    out.extend_from_slice(payload);
    out.resize(end - TRAILER_BYTES, 0);
    out.extend_from_slice(&frame.trailer());
}

/// The process page of a process that began and exited, and the metadata.
#[must_use]
pub fn head() -> Vec<u8> {
    let page = Frame::page(producer());
    let mut out = vec![0; process::PAGE_BYTES];
    out[..HEADER_BYTES].copy_from_slice(&page.header());
    out[process::PAGE_BYTES - TRAILER_BYTES..].copy_from_slice(&page.trailer());
    let mut put = |at: usize, word: u64| out[at..at + 8].copy_from_slice(&word.to_le_bytes());
    put(open::STATE, OPEN);
    put(open::SEQ, process::SEQ);
    put(open::META_VERSION, META_VERSION.into());
    for (nth, (what, ns)) in [(process::BEGAN, 0), (process::EXITED, 1_000_000)].into_iter().enumerate() {
        let row = process::FIRST_ROW + nth * process::ROW_BYTES;
        put(row, (process::ROW_BYTES as u64) << 32 | u64::from(schema::PROCESS));
        put(row + process::WHAT, what);
        put(row + process::NS, ns);
        put(row + process::PID, PID);
    }
    let mut own = Writer::<256>::new();
    own.of_process(&Process { uuid: UUID, pid: PID, start_ns: 1_700_000_000_000_000_000, program: b"prog" });
    let meta = Frame { kind: kind::META, encoding: encoding::CBOR, producer: producer(), ..Frame::default() };
    let first =
        Frame { flags: flag::SNAPSHOT_START, meta_version: N_OF_PROCESS, records: N_OF_PROCESS, ..meta };
    put_frame(&mut out, first, own.bytes());
    let second =
        Frame { flags: flag::SNAPSHOT_END, meta_version: META_VERSION, records: N_DESCRIBED, seq: 1, ..meta };
    put_frame(&mut out, second, &DESCRIPTION);
    out
}

/// The payload of a closed frame with these cells.
#[must_use]
pub fn payload(cells: &[[u64; 2]]) -> Vec<u8> {
    let mut payload = packed_head(cells.len(), 0).to_vec();
    let mut tokens = vec![0; MAX_PACKED_BYTES];
    let n_bytes = pack(cells, 0, &mut Table::default(), &mut tokens).map_or(0, |packed| packed.n_bytes);
    payload.extend_from_slice(&tokens[..n_bytes]);
    payload
}

/// A recording whose threads have these kernel ids and these frames of cells, without tags.
#[must_use]
pub fn recording(threads: &[(u64, &[&[[u64; 2]]])]) -> Vec<u8> {
    let mut out = head();
    debug_assert!(out.starts_with(&SYNC));
    let (mut n_frames, mut n_records) = (2, 0);
    for ((tid, frames), number) in threads.iter().zip(1..) {
        let mut stream = Writer::<32>::new();
        stream.stream(number, PID, *tid);
        let meta = Frame {
            kind: kind::META,
            encoding: encoding::CBOR,
            producer: producer(),
            stream: number,
            meta_version: META_VERSION + number,
            records: 1,
            ..Frame::default()
        };
        put_frame(&mut out, meta, stream.bytes());
        n_frames += 1;
        for (cells, seq) in frames.iter().zip(1..) {
            let records = count(cells, 0);
            let data = Frame {
                kind: kind::DATA,
                encoding: encoding::CELLS,
                meta_version: META_VERSION,
                records,
                seq,
                times: [0, u64::MAX],
                ..meta
            };
            put_frame(&mut out, data, &payload(cells));
            (n_frames, n_records) = (n_frames + 1, n_records + u64::from(records));
        }
    }
    let mut end = Writer::<32>::new();
    end.end(n_frames, n_records);
    let frame = Frame {
        kind: kind::END,
        encoding: encoding::END,
        producer: producer(),
        meta_version: META_VERSION,
        seq: process::SEQ + 1,
        ..Frame::default()
    };
    put_frame(&mut out, frame, end.bytes());
    out
}
