//! Prepares frames for transit, and replaces those that are dropped.
//!
//! A frame is sent without its distance back to a snapshot, which depends on the source file; an END is sent without its
//! distance to the index. Indexes are sent as padding. A buffer that was being written is sent as the frame that it would
//! have become.
//!
//! `docs/collect.md` describes it (section on frames).

use quipu_stream::codec::Unpacker;
use quipu_stream::frame::{self, Header, LOST_MANY, encoding, kind};
use quipu_stream::loss::{Loss, cause};
use quipu_stream::wire::cbor::{self, Value};
use quipu_stream::wire::crc32c;
use rustc_hash::FxHashMap;
use std::io;

/// Cause of a loss: the consumer is too slow.
const CONSUMER: u64 = 32;

/// Changes to a producer's frames, by which the counts in its END have to be corrected.
#[derive(Clone, Copy, Debug, Default)]
struct Changed {
    /// Frames made from open buffers, which no END counts.
    frames: u64,
    /// Records in these frames.
    records: u64,
    /// Records that were dropped.
    dropped: u64,
}

/// Prepares frames for transit.
#[derive(Default)]
pub struct Shipper {
    changed: FxHashMap<u64, Changed>,
    /// By producer and stream, dropped records that no header reports yet.
    lost: FxHashMap<(u64, u32), u64>,
    unpacker: Unpacker,
    /// Total number of dropped records, and of frames they were in.
    n_dropped: (u64, u64),
}

impl std::fmt::Debug for Shipper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shipper").field("changed", &self.changed).finish_non_exhaustive()
    }
}

/// Whether a frame contains records, and nothing that later frames need.
#[must_use]
pub fn may_be_dropped(header: &Header) -> bool {
    matches!(header.kind, kind::DATA)
}

impl Shipper {
    /// Creates a shipper that has shipped nothing yet.
    #[must_use]
    pub fn new() -> Shipper {
        Shipper::default()
    }

    /// Appends a frame in its form for transit. `stored` is its payload as stored, with a correct checksum.
    ///
    /// # Errors
    /// If the frame exceeds the limits of frames, which cannot happen for one that was read.
    pub fn ship(&mut self, header: &Header, stored: &mut [u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut header = Header { words: (frame::HEADER_BYTES / 8) as u8, meta_back: 0, ..*header }; // 12.
        match header.kind {
            kind::INDEX | kind::PAD => {
                let Header { producer, stream, epoch, meta_version, seq, .. } = header;
                let mut pad = Header { producer, stream, epoch, meta_version, seq, ..Header::default() };
                return frame::write_frame(&mut pad, 0, &mut [], out);
            }
            kind::END => {
                if let Some(mut payload) = self.end(&header, stored) {
                    header.codec = frame::codec::NONE;
                    let raw_len = payload.len() as u32; // A few bytes.
                    return frame::write_frame(&mut header, raw_len, &mut payload, out);
                }
            }
            kind::DATA | kind::AGG => {
                if let Some(lost) = self.lost.remove(&(header.producer, header.stream)) {
                    header.lost = add_lost(header.lost, lost);
                }
            }
            _ => {}
        }
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(stored);
        out.resize(out.len() + stored.len().next_multiple_of(8) - stored.len(), 0);
        out.extend_from_slice(&(header.frame_len() as u32).to_le_bytes()); // Within the limits.
        out.extend_from_slice(&frame::TRAILER);
        Ok(())
    }

    /// Appends a loss in place of a frame with records, which is dropped. The loss has the frame's number, and the next frame
    /// of the stream reports the number of lost records.
    ///
    /// # Errors
    /// As for [`Shipper::ship`].
    pub fn drop_frame(&mut self, header: &Header, out: &mut Vec<u8>) -> io::Result<()> {
        let records = u64::from(header.records);
        let (dropped_records, dropped_frames) = &mut self.n_dropped;
        (*dropped_records, *dropped_frames) = (*dropped_records + records, *dropped_frames + 1);
        self.changed.entry(header.producer).or_default().dropped += records;
        // The losses that the dropped frame reported must be reported by the next one.
        let lost = records.saturating_add(header.lost.into());
        *self.lost.entry((header.producer, header.stream)).or_default() += lost;
        let loss = Loss {
            cause: CONSUMER,
            stream: Some(header.stream),
            records: Some(lost),
            bytes: Some(header.stored_len.into()),
            times: (Some(header.ts_first), Some(header.ts_last)),
            ..Loss::default()
        };
        let mut payload = loss.to_value().to_bytes();
        let Header { producer, stream, epoch, meta_version, seq, .. } = *header;
        let mut loss = Header {
            kind: kind::LOSS,
            encoding: encoding::CBOR,
            producer,
            stream,
            epoch,
            meta_version,
            seq,
            records: 1,
            ..Header::default()
        };
        let raw_len = payload.len() as u32; // A few bytes.
        frame::write_frame(&mut loss, raw_len, &mut payload, out)
    }

    /// Drops the records of a frame that has metadata between them. `rest` is the header of the remaining frame, which still
    /// reports its own losses; `stored` is its payload.
    ///
    /// # Errors
    /// As for [`Shipper::ship`].
    pub fn drop_records(
        &mut self,
        header: &Header,
        rest: &Header,
        stored: &mut [u8],
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let records = u64::from(header.records);
        let (dropped_records, dropped_frames) = &mut self.n_dropped;
        (*dropped_records, *dropped_frames) = (*dropped_records + records, *dropped_frames + 1);
        self.changed.entry(header.producer).or_default().dropped += records;
        *self.lost.entry((header.producer, header.stream)).or_default() += records;
        self.ship(rest, stored, out)
    }

    /// Counts a frame that was made from an open buffer, which the END does not count.
    pub fn note_closed(&mut self, header: &Header) {
        let changed = self.changed.entry(header.producer).or_default();
        changed.frames += 1;
        if header.kind == kind::DATA {
            changed.records += u64::from(header.records);
        }
    }

    /// Number of dropped records, and of frames they were in.
    #[must_use]
    pub fn n_dropped(&self) -> (u64, u64) {
        self.n_dropped
    }

    /// Appends a loss of records that a flight recorder overwrote, without those that the collector has or knows to be lost:
    /// `told` returns their number in a stream up to a frame.
    ///
    /// # Errors
    /// As for [`Shipper::ship`].
    pub fn ship_overwritten(
        &mut self,
        header: &Header,
        stored: &mut [u8],
        told: impl FnOnce(&Header) -> u64,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let payload = self.unpacker.unpack(header, stored).ok();
        let loss = payload.and_then(|payload| Loss::read(&cbor::decode(payload).ok()?.value));
        let Some(mut loss) = loss.filter(|loss| loss.cause == cause::OVERWRITTEN) else {
            return self.ship(header, stored, out);
        };
        let told = told(&Header { stream: loss.stream.unwrap_or(header.stream), ..*header });
        loss.records = loss.records.map(|records| records.saturating_sub(told));
        let mut payload = loss.to_value().to_bytes();
        let mut header = Header { codec: frame::codec::NONE, meta_back: 0, ..*header };
        let raw_len = payload.len() as u32; // A few bytes.
        frame::write_frame(&mut header, raw_len, &mut payload, out)
    }

    /// The payload of an END with corrected counts; `None` if it cannot be read.
    fn end(&mut self, header: &Header, stored: &[u8]) -> Option<Vec<u8>> {
        let Changed { frames, records, dropped } =
            self.changed.get(&header.producer).copied().unwrap_or_default();
        let payload = self.unpacker.unpack(header, stored).ok()?;
        let item = cbor::decode(payload).ok().filter(|item| item.len_bytes == payload.len())?;
        let Value::Map(mut pairs) = item.value else { return None };
        for (key, value) in &mut pairs {
            let (Value::Uint(key), Value::Uint(n)) = (&*key, &mut *value) else { continue };
            *n = match key {
                1 => n.saturating_add(frames),
                2 => n.saturating_add(records).saturating_sub(dropped),
                3 => 0,
                _ => continue,
            };
        }
        Some(Value::Map(pairs).to_bytes())
    }
}

fn add_lost(said: u32, more: u64) -> u32 {
    u32::try_from(u64::from(said).saturating_add(more)).unwrap_or(LOST_MANY)
}

/// Whether the stored payload of a frame matches its header.
#[must_use]
pub fn is_whole(header: &Header, stored: &[u8]) -> bool {
    stored.len() == header.stored_len as usize && crc32c(stored) == header.payload_crc
}
