//! Selects the frames that a slice copies, their order, and the records kept of partly selected frames.

use crate::batch::Batch;
use crate::cells;
use crate::codec::{Codec, PayloadPacker, Unpacker};
use crate::datum;
use crate::decode::{Body, Decoder, ROW_HEAD_BYTES};
use crate::frame::{self, Header, encoding, flag, kind};
use crate::meta::Metadata;
use crate::pack::PackedRows;
use crate::scan::FrameAt;
use crate::session::{OPEN_HEAD_BYTES, OpenHead, open_rows};
use quipu_cells::cell::Cell;
use quipu_cells::event::count;
use quipu_cells::layout;
use quipu_cells::pack::{Table, most_bytes, pack};
use quipu_wire::crc32c;
use quipu_wire::record::FIRST_SCHEMA;
use std::io;
use std::sync::Arc;

/// How a slice treats a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Copy the frame as it is.
    Whole,
    /// Select its records one by one. If none is kept, padding takes the frame's sequence number.
    Rows,
    /// Replace the frame with padding.
    Padding,
    /// Leave the frame out. If other frames of its stream are copied, its sequence number is missing.
    Nothing,
}

/// The properties of a record by which it is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Id of the record's schema.
    pub schema: u32,
    /// Time in ticks of the stream's clock.
    pub time: u64,
    /// Position among the records of the frame.
    pub ordinal: u32,
}

/// Selects what a slice copies.
pub trait Select {
    /// How to treat a frame. Called more than once for each.
    fn frame(&mut self, frame: &FrameAt) -> Choice {
        let _ = frame;
        Choice::Whole
    }

    /// Whether to keep a record.
    fn row(&mut self, frame: &FrameAt, row: &Row) -> bool {
        let _ = (frame, row);
        true
    }

    /// Whether the copy reports a loss of this producer, in this stream or, for `None`, in an unknown one.
    fn loss(&mut self, producer: u64, stream: Option<u32>) -> bool {
        let _ = (producer, stream);
        true
    }

    /// Whether the copy has frames of this stream. If not, an open frame of it is left out. Otherwise, an open frame without
    /// selected records becomes a frame without records, which keeps its number.
    fn has_stream(&self, stream: u32) -> bool {
        let _ = stream;
        true
    }

    /// Reorders the frames; those of each producer have to keep their relative order. By default, open frames come last,
    /// since the frames made of them have the newest numbers.
    fn order(&mut self, frames: &mut Vec<FrameAt>) {
        frames.sort_by_key(|frame| frame.header.kind == kind::OPEN);
    }
}

/// Copies everything.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl Select for Everything {
    fn order(&mut self, _: &mut Vec<FrameAt>) {}
}

/// A rewritten frame: its header, and its payload as stored.
pub(crate) type Rewritten = (Header, Vec<u8>);

/// The header of a padding frame that takes the place of a frame.
pub(crate) fn padding(header: &Header) -> Header {
    let Header { producer, stream, epoch, meta_version, seq, .. } = *header;
    Header { kind: kind::PAD, words: 12, producer, stream, epoch, meta_version, seq, ..Header::default() }
}

/// The frame with only the records that `choose` keeps. Damaged frames stay as they are.
pub(crate) fn rows(
    frame: &FrameAt,
    stored: Vec<u8>,
    metadata: Option<&Metadata>,
    unpacker: &mut Unpacker,
    choose: &mut impl Select,
) -> io::Result<Rewritten> {
    let header = &frame.header;
    if header.kind == kind::OPEN {
        return match header.encoding {
            encoding::CELLS => open_cells(frame, stored, metadata, choose),
            _ => open(frame, stored, choose),
        };
    }
    if header.kind != kind::DATA || header.is_foreign() || crc32c(&stored) != header.payload_crc {
        return Ok((*header, stored));
    }
    let Ok(payload) = unpacker.unpack(header, &stored) else { return Ok((*header, stored)) };
    let kept = match (header.encoding, metadata) {
        (encoding::PLAIN, _) => plain(frame, payload, choose),
        (encoding::PACKED | encoding::RUNS | encoding::JSON | encoding::CELLS, Some(metadata)) => {
            let body = Body { header, payload, is_open: false, tag: 0 };
            packed(frame, body, metadata, choose)?.filter(|(_, is_whole)| !is_whole).map(|(kept, _)| kept)
        }
        _ => None,
    };
    let Some(kept) = kept else { return Ok((*header, stored)) };
    seal(header, kept)
}

/// The records kept of a frame, as a payload.
struct Kept {
    payload: Vec<u8>,
    encoding: u16,
    records: u32,
    /// Smallest and largest time.
    times: Option<(u64, u64)>,
    /// Whether the payload has side records.
    has_more: bool,
}

/// Selects plain rows without decoding them; `None` if all are kept, or the payload breaks off.
fn plain(frame: &FrameAt, payload: &[u8], choose: &mut impl Select) -> Option<Kept> {
    let mut kept =
        Kept { payload: Vec::new(), encoding: encoding::PLAIN, records: 0, times: None, has_more: false };
    let (mut at, mut ordinal, mut is_other) = (0, 0, false);
    while at < payload.len() {
        let head = payload.get(at..at + ROW_HEAD_BYTES)?;
        let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let (schema, size, time) = (word(0) as u32, (word(0) >> 32) as usize, word(8));
        if size < ROW_HEAD_BYTES || size % 8 != 0 {
            return None;
        }
        let row = payload.get(at..at + size)?;
        at += size;
        if schema >= FIRST_SCHEMA {
            let is_kept = choose.row(frame, &Row { schema, time, ordinal });
            ordinal += 1;
            if !is_kept {
                is_other = true;
                continue;
            }
            kept.records += 1;
            let (first, last) = kept.times.unwrap_or((time, time));
            kept.times = Some((first.min(time), last.max(time)));
        } else if schema != crate::decode::reserved::PADDING {
            kept.has_more = true;
        }
        kept.payload.extend_from_slice(row);
    }
    is_other.then_some(kept)
}

/// Selects decoded rows, and returns whether all are kept; `None` if not all can be decoded.
fn packed(
    frame: &FrameAt,
    body: Body<'_>,
    metadata: &Metadata,
    choose: &mut impl Select,
) -> io::Result<Option<(Kept, bool)>> {
    let header = body.header;
    // A few bytes may stand for very many records, which would all be held in memory.
    const MAX_RECORDS: u32 = 1 << 20;
    if header.records > MAX_RECORDS {
        let what = format!("the frame at offset {:#x} has too many records to be taken apart", frame.offset);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let (mut decoder, mut batch, mut findings) = (Decoder::new(), Batch::new(), Vec::new());
    let mut metadata = Arc::new(metadata.clone());
    let mut rows = PackedRows::default();
    let mut is_other = false;
    while decoder.next(&body, &mut metadata, &mut batch, &mut findings) {
        for (table, row) in batch.in_order() {
            let (time, ordinal) = (table.times[row], table.ordinals[row]);
            if !choose.row(frame, &Row { schema: table.schema.id(), time, ordinal }) {
                is_other = true;
                continue;
            }
            let values = table.columns.iter().map(|column| datum::of_column(column, row)).collect();
            let wrong = || io::Error::other("a row that cannot be written as it was read");
            rows.push(&table.schema, time, values).ok_or_else(wrong)?;
        }
    }
    if decoder.outcome().is_broken {
        return Ok(None);
    }
    let with_runs = header.encoding == encoding::RUNS;
    let written = rows.finish(with_runs);
    let times = (written.records > 0).then_some((written.ts_first, written.ts_last));
    let encoding = if with_runs { encoding::RUNS } else { encoding::PACKED };
    let kept = Kept { payload: written.payload, encoding, records: written.records, times, has_more: false };
    Ok(Some((kept, !is_other)))
}

/// Converts the cells of an open frame to a frame of rows: the buffer itself is useful only to the program that fills it.
fn open_cells(
    frame: &FrameAt,
    stored: Vec<u8>,
    metadata: Option<&Metadata>,
    choose: &mut impl Select,
) -> io::Result<Rewritten> {
    let head = OpenHead::read(stored.get(..OPEN_HEAD_BYTES).unwrap_or_default());
    let Some((head, Ok((header, payload)))) = head.map(|head| (head, open_rows(frame, &head, &stored)))
    else {
        return Ok((frame.header, stored));
    };
    let body = Body { header: &header, payload, is_open: true, tag: head.tag };
    // The stream of the rows is in the head of the buffer.
    let closed = FrameAt { offset: frame.offset, header };
    let kept = match metadata {
        Some(metadata) => packed(&closed, body, metadata, choose)?,
        None => None,
    };
    let Some((kept, _)) = kept else { return Ok((frame.header, stored)) };
    seal(&Header { kind: kind::DATA, ..header }, kept)
}

/// The cells of an open frame as the closed frame that the program would have made of them; `None` if it is damaged.
pub(crate) fn closed_cells(frame: &FrameAt, stored: &[u8]) -> io::Result<Option<Rewritten>> {
    // Any tag will do.
    const TAG: u64 = layout::tag(0);
    let head = OpenHead::read(stored.get(..OPEN_HEAD_BYTES).unwrap_or_default());
    let Some((head, Ok((header, payload)))) = head.map(|head| (head, open_rows(frame, &head, stored))) else {
        return Ok(None);
    };
    let body = Body { header: &header, payload, is_open: true, tag: head.tag };
    let mut all = Vec::new();
    let read = cells::read(&body, &mut all);
    let tagged: Vec<[u64; 2]> = all
        .iter()
        .map(|cell| if *cell == Cell::HOLE { [0, 0] } else { [cell.word, cell.side | TAG] })
        .collect();
    let records = count(&tagged, TAG);
    let lost = u32::try_from(read.lost).unwrap_or(frame::LOST_MANY);
    let mut header = Header {
        kind: kind::DATA,
        codec: frame::codec::NONE,
        records,
        lost: header.lost.saturating_add(lost),
        ts_last: cells::last_time(&all, header.ts_first),
        ..header
    };
    if records == 0 && header.lost == 0 {
        return Ok(Some((padding(&header), Vec::new())));
    }
    let mut packed = layout::packed_head(tagged.len(), cells::begun(&body)).to_vec();
    packed.resize(layout::PACKED_HEAD_BYTES + most_bytes(tagged.len()), 0);
    let tokens = &mut packed[layout::PACKED_HEAD_BYTES..];
    let n_bytes = pack(&tagged, TAG, &mut Table::default(), tokens).map_or(0, |packed| packed.n_bytes);
    packed.truncate(layout::PACKED_HEAD_BYTES + n_bytes);
    let raw_len = packed.len() as u32; // At most `MAX_PACKED_BYTES` and the head.
    frame::seal(&mut header, raw_len, &mut packed)?;
    Ok(Some((header, packed)))
}

/// The rows of an open frame, as the closed frame that they would have become.
fn open(frame: &FrameAt, stored: Vec<u8>, choose: &mut impl Select) -> io::Result<Rewritten> {
    let head = OpenHead::read(stored.get(..OPEN_HEAD_BYTES).unwrap_or_default());
    let Some(Ok((header, rows))) = head.map(|head| open_rows(frame, &head, &stored)) else {
        return Ok((frame.header, stored));
    };
    // Zeros are room that was claimed and not written; an incomplete row at the end was not finished.
    let mut whole = Vec::new();
    let mut n = 0;
    let mut at = 0;
    while let Some(word) = rows.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
    {
        let (schema, size) = (word as u32, (word >> 32) as usize);
        if word == 0 {
            at += 8;
            continue;
        }
        let Some(row) = rows.get(at..at + size).filter(|_| size >= ROW_HEAD_BYTES && size % 8 == 0) else {
            break;
        };
        n += u32::from(schema >= FIRST_SCHEMA);
        whole.extend_from_slice(row);
        at += size;
    }
    let header = Header { kind: kind::DATA, encoding: encoding::PLAIN, records: n, codec: 0, ..header };
    let closed = FrameAt { offset: frame.offset, header };
    let times = |kept: &Kept| kept.times;
    let kept = plain(&closed, &whole, choose).unwrap_or_else(|| {
        let all = plain(&closed, &whole, &mut NoRecord);
        let times =
            all.as_ref().and_then(times).or(Some((header.ts_first, header.ts_last.max(header.ts_first))));
        Kept { payload: whole, encoding: encoding::PLAIN, records: n, times, has_more: true }
    });
    seal(&header, kept)
}

/// Keeps no records, only side records.
pub(crate) struct NoRecord;

impl Select for NoRecord {
    fn row(&mut self, _: &FrameAt, _: &Row) -> bool {
        false
    }
}

/// Packs the kept records with the codec of the frame.
fn seal(header: &Header, kept: Kept) -> io::Result<Rewritten> {
    if kept.records == 0 && !kept.has_more && header.lost == 0 {
        return Ok((padding(header), Vec::new()));
    }
    const LEVEL: i32 = 3;
    let codec = match header.codec {
        frame::codec::ZSTD => Codec::Zstd(LEVEL),
        frame::codec::LZ4 => Codec::Lz4,
        _ => Codec::None,
    };
    let (ts_first, ts_last) = kept.times.unwrap_or_default();
    let Kept { payload, encoding, records, .. } = kept;
    let mut header = Header { encoding, records, ts_first, ts_last, ..*header };
    header.flags &= !(flag::SNAPSHOT_START | flag::SNAPSHOT_END);
    let raw_len = u32::try_from(payload.len()).map_err(|_| io::Error::other("a frame that is too long"))?;
    let mut stored = Vec::new();
    header.codec = PayloadPacker::new(codec)?.pack(&payload, &mut stored)?;
    if frame::seal(&mut header, raw_len, &mut stored).is_err() {
        header.codec = frame::codec::NONE;
        stored = payload;
        frame::seal(&mut header, raw_len, &mut stored)?;
    }
    Ok((header, stored))
}
