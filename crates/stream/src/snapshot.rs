//! Frames made both by the writer of a stream and by slicing: metadata records and ends.

use crate::frame::{Header, encoding, flag, kind};
use quipu_wire::cbor::Value;

/// Approximate size of a META frame's payload, in bytes.
const META_FRAME_BYTES: usize = 512 << 10;

/// Headers and payloads of META frames with `records`; `first` is the ordinal of the first record. The frames of a snapshot
/// are flagged.
pub(crate) fn meta_frames<'a>(
    first: u32,
    records: impl Iterator<Item = &'a [u8]>,
    is_snapshot: bool,
) -> Vec<(Header, Vec<u8>)> {
    let mut frames: Vec<(Header, Vec<u8>)> = Vec::new();
    for (ordinal, bytes) in (first..).zip(records) {
        match frames.last_mut() {
            Some((header, payload)) if payload.len() < META_FRAME_BYTES => {
                payload.extend_from_slice(bytes);
                header.records += 1;
                header.meta_version = ordinal + 1; // An epoch has at most a million.
            }
            _ => {
                let header = Header {
                    kind: kind::META,
                    encoding: encoding::CBOR,
                    meta_version: ordinal + 1,
                    records: 1,
                    ..Header::default()
                };
                frames.push((header, bytes.to_vec()));
            }
        }
    }
    if is_snapshot {
        if let Some((header, _)) = frames.first_mut() {
            header.flags |= flag::SNAPSHOT_START;
        }
        if let Some((header, _)) = frames.last_mut() {
            header.flags |= flag::SNAPSHOT_END;
        }
    }
    frames
}

/// Header and payload of an END frame: whether the producer ended in order, its frame and record counts, and the distance
/// back to the last index (0: none).
pub(crate) fn end_frame(in_order: bool, n_frames: u64, n_records: u64, index_back: u64) -> (Header, Vec<u8>) {
    let values =
        [Value::Bool(in_order), Value::Uint(n_frames), Value::Uint(n_records), Value::Uint(index_back)];
    let map = Value::Map((0..).map(Value::Uint).zip(values).collect());
    (Header { kind: kind::END, encoding: encoding::END, ..Header::default() }, map.to_bytes())
}
