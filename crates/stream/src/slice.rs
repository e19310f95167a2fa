//! Cuts streams into streams: the frames of a range after a snapshot, and a ring of the newest frames.
//!
//! Payloads are copied as they are. Headers get a new distance back to a snapshot, and only headers of bodies keep
//! extensions; an index becomes padding. Sequence numbers stay, so a reader of the copy sees the gaps. Damage of the input
//! that no frame of the copy shows is written as loss records before the ends, and a producer that did not end has no END in
//! the copy either.

use crate::cells;
use crate::codec::Unpacker;
use crate::decode::{Registry, metadata_rows};
use crate::finding::Finding;
use crate::frame::{self, Header, encoding, flag, kind};
use crate::index::{Entry, extension, read_index};
use crate::input::Input;
use crate::loss::{Loss, MANY, cause, is_of_copy};
use crate::meta::Metadata;
use crate::order::{Order, Verdict};
use crate::scan::{FrameAt, Scanner};
use crate::select::{self, Choice, Everything, NoRecord, Select};
use crate::session::{OPEN_HEAD_BYTES, OpenHead, Session};
use crate::snapshot::{end_frame, meta_frames};
use quipu_wire::cbor::{self, Value};
use quipu_wire::crc32c;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::ops::Range;

/// Metadata of each epoch, by producer and number.
type Epochs = BTreeMap<(u64, u32), Metadata>;

/// Adds the metadata records of a frame: all records of a META frame, or those between the rows of a frame of plain rows.
fn learn(epochs: &mut Epochs, header: &Header, stored: &[u8], unpacker: &mut Unpacker) {
    if crc32c(stored) != header.payload_crc {
        return;
    }
    let Ok(payload) = unpacker.unpack(header, stored) else { return };
    let metadata = epochs.entry((header.producer, header.epoch)).or_default();
    // Dropped here: a reader of the copy makes the same findings.
    let mut findings = Vec::new();
    if header.kind == kind::META {
        let _ = metadata.add_frame(header.meta_version, header.records, payload, &mut findings);
        return;
    }
    for (n, record) in metadata_rows(payload).enumerate() {
        let Some(ordinal) = u32::try_from(n).ok().and_then(|n| header.meta_version.checked_add(n)) else {
            break;
        };
        metadata.add(ordinal, cbor::decode(record), &mut findings);
    }
    metadata.resolve(&mut findings);
}

/// Whether unknown metadata records may be between the rows of a frame.
fn may_define(epochs: &Epochs, header: &Header) -> bool {
    (header.kind, header.encoding) == (kind::DATA, encoding::PLAIN)
        && epochs
            .get(&(header.producer, header.epoch))
            .is_none_or(|metadata| !metadata.knows(header.meta_version))
}

/// The snapshot of an epoch as frames, numbered up to `seq`. It ends before the first missing record, because a snapshot
/// cannot give the records after that one their ordinals.
fn snapshot(metadata: &Metadata, producer: u64, epoch: u32, seq: u64) -> io::Result<(u64, Vec<u8>)> {
    // Stands for a record that could not be decoded, so that later ones keep their ordinals: CBOR null, which is not a valid
    // record either.
    const REFUSED: &[u8] = &[0xF6];
    let known = metadata.first_unknown_below(u32::MAX).unwrap_or(u32::MAX);
    let records = metadata.entries().take_while(|(ordinal, _)| *ordinal < known);
    let records = records.map(|(_, entry)| if entry.bytes.is_empty() { REFUSED } else { &*entry.bytes });
    let frames = meta_frames(0, records, true);
    let n_frames = frames.len() as u64;
    let mut out = Vec::new();
    for (left, (header, mut payload)) in (0..n_frames).rev().zip(frames) {
        let mut header = Header { producer, epoch, seq: seq.saturating_sub(left), ..header };
        let raw_len = payload.len() as u32; // Little more than the limit of a frame.
        frame::write_frame(&mut header, raw_len, &mut payload, &mut out)?;
    }
    Ok((n_frames, out))
}

/// Appends the copy of a frame, with a new distance back to a snapshot. A body copied whole keeps the extension of its header.
fn copy(
    header: &Header,
    extension: &[u8],
    stored: &[u8],
    meta_back: u64,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if header.kind == kind::INDEX {
        // An index is replaced with padding: its distances would be wrong in the copy, and without it there would be a gap.
        let mut pad =
            Header { kind: kind::PAD, encoding: encoding::NONE, codec: 0, records: 0, meta_back, ..*header };
        return frame::write_frame(&mut pad, 0, &mut [], out);
    }
    // Only bodies have extensions that readers understand.
    let extension = if header.is_foreign() { extension } else { &[] };
    let words = ((frame::HEADER_BYTES + extension.len()) / 8) as u8; // At most 64.
    let header = Header { words, meta_back, ..*header };
    out.extend_from_slice(&header.to_bytes_with(extension));
    out.extend_from_slice(stored);
    frame::finish(&header, out);
    Ok(())
}

/// Copies the frames that begin in a range of bytes, after a snapshot of each of their epochs (if a sequence number is free
/// for it), and adds new ends. Returns the number of frames in the range, ends included.
///
/// # Errors
/// Returns an error if the input cannot be read, the output cannot be written, or a snapshot cannot be put into frames.
pub fn slice(input: &mut impl Input, range: Range<u64>, out: &mut impl Write) -> io::Result<u64> {
    Ok(select(input, range, &mut Everything, out)?.frames)
}

/// Counts of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliced {
    /// Frames of the range that were copied or became padding, ends included. Duplicate frames count once.
    pub frames: u64,
    /// Data records written, including those of open frames.
    pub records: u64,
}

/// Like [`slice()`], but `choose` selects the frames and records, and their order.
///
/// # Errors
/// Returns an error as [`slice()`] does, or if a frame has too many records to select from.
pub fn select(
    input: &mut impl Input,
    range: Range<u64>,
    choose: &mut impl Select,
    out: &mut impl Write,
) -> io::Result<Sliced> {
    select_lossy(input, range, &[], choose, out)
}

/// Like [`select()`], for an input with losses that its bytes do not show, for example because its compressed file was
/// damaged. The copy reports the `known` losses.
///
/// # Errors
/// Returns the same errors as [`select()`].
pub fn select_lossy(
    input: &mut impl Input,
    range: Range<u64>,
    known: &[Loss],
    choose: &mut impl Select,
    out: &mut impl Write,
) -> io::Result<Sliced> {
    // Collects what a reader of the input would find.
    let mut session = Session::leaving_data().leaving_attachments();
    let mut is_part = range.start > 0;
    let mut unpacker = Unpacker::default();
    let mut epochs = Epochs::new();
    let mut frames = Vec::new();
    // Frames before the range whose rows may define metadata, and the number of metadata records needed of each epoch.
    let mut defining = Vec::new();
    let mut needed: BTreeMap<(u64, u32), u32> = BTreeMap::new();
    let mut before: BTreeMap<u64, u64> = BTreeMap::new();
    let mut scanner = Scanner::new();
    while let Some(found) = scanner.next(input)? {
        if found.offset >= range.end {
            is_part = true;
            break;
        }
        let header = &found.header;
        if found.offset >= range.start {
            session.observe(&found, input, &Registry::default())?;
        }
        if header.kind == kind::META {
            let stored = stored(input, &found)?;
            learn(&mut epochs, header, &stored, &mut unpacker);
        }
        if found.offset >= range.start {
            let mut version = header.meta_version;
            if header.kind == kind::OPEN {
                let head = OpenHead::read(input.get(found.payload_at(), OPEN_HEAD_BYTES)?);
                version = head.map_or(0, |head| head.meta_version);
            }
            let needed = needed.entry((header.producer, header.epoch)).or_default();
            *needed = version.max(*needed);
            frames.push(found);
            continue;
        }
        if header.stream == 0 && header.kind != kind::OPEN {
            before.insert(header.producer, header.seq);
        }
        if (header.kind, header.encoding) == (kind::DATA, encoding::PLAIN) {
            defining.push(found);
        }
    }
    session.finish();
    let missing = missing_in(input, &session, &scanner, &range, known)?;
    // The last frame before the need most likely has the definitions, and most streams have no metadata between their rows.
    for found in defining.iter().rev() {
        let header = &found.header;
        let needed = needed.get(&(header.producer, header.epoch)).copied().unwrap_or_default();
        if header.meta_version < needed && may_define(&epochs, header) {
            let stored = stored(input, found)?;
            learn(&mut epochs, header, &stored, &mut unpacker);
        }
    }
    frames.retain(|found| choose.frame(found) != Choice::Nothing);
    let n_chosen = frames.len() as u64;
    leave_out_padding_of_others(&mut frames);
    choose.order(&mut frames);
    let mut copied = Vec::new();
    let mut at = 0;
    // For each epoch: the offset in the copy of its last snapshot, or of its first frame if it has none.
    let mut begun: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    let mut counts: BTreeMap<u64, (u64, u64, u64, u32, u32)> = BTreeMap::new();
    // The order as a reader of the copy sees it: of several frames with one number, the reader takes the first undamaged one.
    let (mut order, mut order_findings) = (Order::default(), Vec::new());
    let mut n_left_out = n_chosen - frames.len() as u64;
    let mut n_open_records = 0;
    // The next sequence number of each stream other than 0.
    let mut next: FxHashMap<(u64, u32), u64> = FxHashMap::default();
    let mut first_of_all: FxHashMap<u64, u64> = FxHashMap::default();
    let is_of_all = |header: &&Header| header.stream == 0 && header.kind != kind::OPEN;
    for header in frames.iter().map(|found| &found.header).filter(is_of_all) {
        first_of_all.entry(header.producer).or_insert(header.seq);
    }
    let numbered = if frames.iter().any(|found| found.header.kind == kind::OPEN) {
        numbers_of(&frames, |of| of != kind::OPEN)
    } else {
        FxHashSet::default()
    };
    // An END that other frames follow becomes padding, since its number would be missing. The last END is written anew.
    let mut newest: FxHashMap<u64, u64> = FxHashMap::default();
    for header in frames.iter().map(|found| &found.header).filter(is_of_all).filter(|of| of.kind != kind::END)
    {
        let newest = newest.entry(header.producer).or_default();
        *newest = header.seq.max(*newest);
    }
    let mut ends: FxHashMap<u64, u64> = FxHashMap::default();
    for found in &frames {
        let producer = found.header.producer;
        let is_end = found.header.kind == kind::END;
        if is_end && newest.get(&producer).is_none_or(|newest| *newest < found.header.seq) {
            let last = ends.entry(producer).or_default();
            *last = found.header.seq.max(*last);
            continue;
        }
        let key = (found.header.producer, found.header.epoch);
        let stored = stored(input, found)?;
        let head = (found.header.kind == kind::OPEN)
            .then(|| OpenHead::read(stored.get(..OPEN_HEAD_BYTES).unwrap_or_default()))
            .flatten();
        let is_vacant = head.is_some_and(|head| head.state == 0);
        // The rows would appear twice if the buffer is also in the slice as a closed frame.
        let is_closed =
            head.is_some_and(|head| numbered.contains(&(found.header.producer, head.stream, head.seq)));
        if choose.frame(found) == Choice::Rows && (is_vacant || is_closed) {
            n_left_out += 1;
            continue;
        }
        let (header, stored) = match choose.frame(found) {
            Choice::Rows => select::rows(found, stored, epochs.get(&key), &mut unpacker, choose)?,
            // Metadata between plain rows describe later rows, so they are kept.
            Choice::Padding
                if found.header.kind == kind::DATA && found.header.encoding == encoding::PLAIN =>
            {
                select::rows(found, stored, None, &mut unpacker, &mut NoRecord)?
            }
            _ if is_end => (select::padding(&found.header), Vec::new()),
            Choice::Padding => (select::padding(&found.header), Vec::new()),
            Choice::Whole | Choice::Nothing => (found.header, stored),
        };
        let (header, stored) = match loss_of(&header, &stored, &mut unpacker) {
            // The loss may be about a stream that the copy does not have.
            Some(loss) => {
                let stream = if is_of_copy(loss.cause) { None } else { Some(header.stream) };
                match choose.loss(header.producer, loss.stream.or(stream)) {
                    true => (header, stored),
                    false => (select::padding(&header), Vec::new()),
                }
            }
            None => (header, stored),
        };
        let header = &header;
        if found.header.kind == kind::OPEN && header.kind == kind::PAD && !choose.has_stream(header.stream) {
            n_left_out += 1;
            continue;
        }
        if header.kind != kind::OPEN && !begun.contains_key(&key) {
            begun.insert(key, at);
            let first = first_of_all.get(&header.producer);
            let is_snapshot = header.has(flag::SNAPSHOT_START);
            // A snapshot takes the number before the slice's first frame of stream 0, or else that of the last such frame
            // before the slice.
            let seq = match first {
                Some(first) => first.checked_sub(1),
                None => Some(before.get(&header.producer).copied().unwrap_or_default()),
            };
            if let (Some(metadata), Some(seq), false) = (epochs.get(&key), seq, is_snapshot) {
                let (n_frames, snapshot) = snapshot(metadata, header.producer, header.epoch, seq)?;
                out.write_all(&snapshot)?;
                at += snapshot.len() as u64;
                let count = counts.entry(header.producer).or_default();
                for left in (0..n_frames).rev() {
                    let header = Header { stream: 0, seq: seq.saturating_sub(left), ..*header };
                    count.0 += u64::from(order.frame(at, &header, &mut order_findings) == Verdict::Use);
                }
                count.2 = count.2.max(seq.saturating_add(1));
            }
        }
        if header.kind != kind::OPEN {
            let verdict = order.frame(at, header, &mut order_findings);
            order_findings.clear();
            if verdict == Verdict::Duplicate {
                n_left_out += 1;
                continue;
            }
            if crc32c(&stored) != header.payload_crc {
                order.damaged(header);
            }
        }
        if header.has(flag::SNAPSHOT_START) {
            begun.insert(key, at);
        }
        let count = counts.entry(header.producer).or_default();
        if header.kind != kind::OPEN {
            count.0 += 1;
            count.1 += if header.kind == kind::DATA { u64::from(header.records) } else { 0 };
            (count.3, count.4) = (header.epoch, count.4.max(header.meta_version));
            if header.stream == 0 {
                count.2 = count.2.max(header.seq.saturating_add(1));
            } else {
                let next = next.entry((header.producer, header.stream)).or_default();
                *next = header.seq.saturating_add(1).max(*next);
            }
        } else if let Some(head) = head.filter(|head| head.state != 0) {
            // A reader would take an open frame for closed if a frame had its number. A vacant one still has the number of
            // another stream.
            let next = match head.stream {
                0 => &mut count.2,
                stream => next.entry((header.producer, stream)).or_default(),
            };
            *next = head.seq.saturating_add(1).max(*next);
            if !is_closed {
                let rows =
                    select::rows(found, stored.clone(), epochs.get(&key), &mut unpacker, &mut Everything)?;
                n_open_records += u64::from(if rows.0.kind == kind::DATA { rows.0.records } else { 0 });
            }
        }
        copied.clear();
        let extension = if header.is_foreign() { extension(input, found.offset)? } else { Vec::new() };
        copy(header, &extension, &stored, begun.get(&key).map_or(0, |snapshot| at - snapshot), &mut copied)?;
        out.write_all(&copied)?;
        at += copied.len() as u64;
    }
    let records = counts.values().map(|count| count.1).sum::<u64>() + n_open_records;
    for (producer, (mut n_frames, n_records, mut seq, epoch, meta_version)) in counts {
        // A number missing before the END is missing in the copy, too.
        seq = ends.get(&producer).map_or(seq, |end| seq.max(*end));
        let mut put = |header: Header, mut payload: Vec<u8>, seq: u64| {
            let mut header = Header { producer, epoch, seq, meta_version, ..header };
            copied.clear();
            let raw_len = payload.len() as u32; // Some hundred bytes.
            frame::write_frame(&mut header, raw_len, &mut payload, &mut copied)?;
            out.write_all(&copied)
        };
        for (_, loss) in missing.iter().filter(|(of, _)| *of == producer) {
            if !choose.loss(producer, loss.stream) {
                continue;
            }
            // The loss goes into the stream that it is about, so that copies of different parts of one input agree on the
            // numbers of stream 0.
            let stream = loss.stream.unwrap_or(0);
            let number = if stream == 0 { &mut seq } else { next.entry((producer, stream)).or_default() };
            let header = Header {
                kind: kind::LOSS,
                encoding: encoding::CBOR,
                records: 1,
                stream,
                ..Header::default()
            };
            put(header, loss.to_value().to_bytes(), *number)?;
            *number = number.saturating_add(1);
            n_frames += 1;
        }
        // A part of the input ends where it was meant to end, so it gets an END in order.
        let ending = if is_part { Some(true) } else { session.ending(producer) };
        if let Some(in_order) = ending {
            let (header, payload) = end_frame(in_order, n_frames, n_records, 0);
            put(header, payload, seq)?;
        }
    }
    Ok(Sliced { frames: frames.len() as u64 - n_left_out, records })
}

/// The loss reported by a LOSS frame; `None` for other frames.
fn loss_of(header: &Header, stored: &[u8], unpacker: &mut Unpacker) -> Option<Loss> {
    if header.kind != kind::LOSS || crc32c(stored) != header.payload_crc {
        return None;
    }
    Loss::read(&cbor::decode(unpacker.unpack(header, stored).ok()?).ok()?.value)
}

/// Maximum number of loss records in a copy; if there are more, the last one stands for the rest.
const MAX_LOSSES: usize = 1000;

/// Index entries for the frames at these offsets.
fn entries_at(
    input: &mut impl Input,
    session: &Session,
    places: &FxHashSet<u64>,
) -> io::Result<FxHashMap<u64, Entry>> {
    let mut found = FxHashMap::default();
    if places.is_empty() {
        return Ok(found);
    }
    for index in session.frames().iter().filter(|frame| frame.header.kind == kind::INDEX) {
        let Some((entries, _)) = read_index(input, index.offset)? else { continue };
        let is_here = |entry: &Entry| places.contains(&entry.offset) && session.knows(entry.producer);
        found.extend(entries.into_iter().filter(is_here).map(|entry| (entry.offset, entry)));
    }
    Ok(found)
}

/// Number of records in a frame according to an index; `None` for frames without counted records.
fn records_of(entry: &Entry) -> Option<u64> {
    let header = entry.frame()?.header;
    let is_counted = matches!(header.kind, kind::DATA | kind::AGG) && !header.is_foreign();
    Some(header.records.into()).filter(|n| is_counted && *n > 0)
}

/// Losses that a reader of the input finds and a reader of the copy would not, each with its producer: bytes skipped in the
/// search for the next frame, and frames counted only by an END. Frames with wrong checksums are copied as they are.
fn missing_in(
    input: &mut impl Input,
    session: &Session,
    scanner: &Scanner,
    range: &Range<u64>,
    known: &[Loss],
) -> io::Result<Vec<(u64, Loss)>> {
    let frames = session.frames();
    let Some(first) = session.producers().first() else { return Ok(Vec::new()) };
    // A loss that no header attributes to a producer is attributed to the producer of the previous frame.
    let near = |at: u64| {
        let before = frames.partition_point(|frame| frame.offset < at).checked_sub(1);
        before.map_or(*first, |before| frames[before].header.producer)
    };
    let gaps = || session.findings.iter().filter(|finding| finding.name == "sequence-gap");
    let mut all: Vec<(u64, Loss)> = Vec::new();
    let of_bytes = || scanner.findings.iter().filter(|finding| finding.loses());
    let entries = entries_at(input, session, &of_bytes().filter_map(|of| of.number("offset")).collect())?;
    for (nth, finding) in of_bytes().enumerate() {
        let Some(at) = finding.number("offset").filter(|at| range.contains(at)) else { continue };
        let header = input.get(at, 512)?;
        // For a frame of another version, only the length in the header is trusted.
        let header = Header::read(header).ok().filter(|header| session.knows(header.producer));
        let said = entries.get(&at);
        let (producer, stream) = match (header, said) {
            (Some(header), _) => (header.producer, Some(header.stream)),
            (None, Some(said)) => (said.producer, Some(said.stream)),
            _ if nth >= MAX_LOSSES => (near(at), None),
            _ => {
                let next = finding.number("resynced_at").unwrap_or(u64::MAX);
                let of_gap = |gap: &Finding| {
                    let at = gap.number("offset").filter(|offset| *offset >= next)?;
                    let header = &frames[frames.partition_point(|frame| frame.offset < at)..].first()?.header;
                    Some((header.producer, Some(header.stream)))
                };
                gaps().filter_map(of_gap).next().unwrap_or((near(at), None))
            }
        };
        let loss = Loss {
            cause: if finding.name == "truncated-frame" { cause::TRUNCATED } else { cause::CRC },
            stream,
            records: Some(said.and_then(records_of).unwrap_or(MANY)),
            bytes: finding.number("bytes_skipped").or(finding.number("bytes_missing")),
            text: Some(finding.name.replace('-', " ")),
            ..Loss::default()
        };
        all.push((producer, loss));
    }
    all.extend(known.iter().map(|loss| (*first, loss.clone())));
    for finding in session.findings.iter().filter(|finding| finding.name == "end-mismatch") {
        let Some(at) = finding.number("offset") else { continue };
        let end = frames.partition_point(|frame| frame.offset < at);
        let Some(producer) = frames.get(end).map(|frame| frame.header.producer) else { continue };
        // Only if no other loss of this producer has been reported.
        if all.iter().all(|(of, _)| *of != producer) {
            let text = Some("the end counts other frames or records than there are".to_owned());
            all.push((producer, Loss { cause: cause::GAP, records: Some(MANY), text, ..Loss::default() }));
        }
    }
    if all.len() > MAX_LOSSES {
        let rest = all.split_off(MAX_LOSSES);
        if let Some((_, last)) = all.last_mut() {
            let more = |sum: u64, (_, loss): &(u64, Loss)| Some(sum.saturating_add(loss.bytes?));
            let bytes = last.bytes.and_then(|bytes| rest.iter().try_fold(bytes, more));
            (last.stream, last.bytes) = (None, bytes);
        }
    }
    Ok(all)
}

/// The part of a dropped frame that later frames need: the frame without its records, if it has metadata between plain rows.
/// `None` otherwise.
///
/// # Errors
/// Returns an error if it cannot be packed again.
pub fn without_records(header: &Header, stored: &[u8]) -> io::Result<Option<(Header, Vec<u8>)>> {
    if (header.kind, header.encoding) != (kind::DATA, encoding::PLAIN) {
        return Ok(None);
    }
    let frame = FrameAt { offset: 0, header: *header };
    let mut unpacker = Unpacker::default();
    let (rest, stored) = select::rows(&frame, stored.to_vec(), None, &mut unpacker, &mut NoRecord)?;
    Ok((rest.kind == kind::DATA && rest.records == 0 && rest.raw_len > 0).then_some((rest, stored)))
}

/// Converts open frames to the closed frames that they would have become: headers and stored payloads. Vacant and damaged
/// ones are left out.
///
/// # Errors
/// Returns an error if the input cannot be read, or a buffer has more records than a frame can have.
pub fn closed(input: &mut impl Input, open: &[FrameAt]) -> io::Result<Vec<(Header, Vec<u8>)>> {
    let mut unpacker = Unpacker::default();
    let mut epochs = Epochs::new();
    let needs_metadata = |frame: &FrameAt| frame.header.encoding != encoding::PLAIN;
    if open.iter().any(needs_metadata) {
        let mut scanner = Scanner::new();
        while let Some(found) = scanner.next(input)? {
            if found.header.kind == kind::META {
                let stored = stored(input, &found)?;
                learn(&mut epochs, &found.header, &stored, &mut unpacker);
            }
        }
    }
    let mut frames = Vec::new();
    for found in open {
        let stored = stored(input, found)?;
        if OpenHead::read(stored.get(..OPEN_HEAD_BYTES).unwrap_or_default())
            .is_none_or(|head| head.state == 0)
        {
            continue;
        }
        let metadata = epochs.get(&(found.header.producer, found.header.epoch));
        if found.header.encoding == encoding::CELLS && metadata.is_some_and(cells::is_named) {
            frames.extend(select::closed_cells(found, &stored)?);
            continue;
        }
        let (header, stored) = select::rows(found, stored, metadata, &mut unpacker, &mut Everything)?;
        if header.kind != kind::OPEN {
            frames.push((header, stored));
        }
    }
    Ok(frames)
}

/// Producer, stream and number of the frames whose kind `is_of` accepts.
fn numbers_of(frames: &[FrameAt], is_of: impl Fn(u8) -> bool) -> FxHashSet<(u64, u32, u64)> {
    let headers = frames.iter().map(|frame| &frame.header).filter(|header| is_of(header.kind));
    headers.map(|header| (header.producer, header.stream, header.seq)).collect()
}

/// Removes padding with the number of another frame. Parts of one stream have padding in place of each other's frames, and a
/// reader takes the first frame with a number.
fn leave_out_padding_of_others(frames: &mut Vec<FrameAt>) {
    if frames.iter().all(|frame| frame.header.kind != kind::PAD) {
        return;
    }
    let others = numbers_of(frames, |of| !matches!(of, kind::OPEN | kind::PAD));
    frames.retain(|frame| {
        let Header { producer, stream, seq, .. } = frame.header;
        frame.header.kind != kind::PAD || !others.contains(&(producer, stream, seq))
    });
}

fn stored(input: &mut impl Input, found: &FrameAt) -> io::Result<Vec<u8>> {
    let len = found.header.stored_len as usize; // Within the limits.
    let bytes = input.get(found.payload_at(), len)?;
    let bytes = bytes.get(..len).ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    Ok(bytes.to_vec())
}

/// The stored payload of a whole frame.
fn stored_of<'a>(header: &Header, frame: &'a [u8]) -> &'a [u8] {
    let start = usize::from(header.words) * 8;
    frame.get(start..start + header.stored_len as usize).unwrap_or_default()
}

/// A flight recorder in memory: keeps the newest frames and all metadata, so old data are dropped, but never the metadata
/// that describe the rest. Its input is the bytes of a stream as a writer writes them.
#[derive(Debug)]
pub struct Ring {
    max_bytes: usize,
    pending: Gathered,
    frames: VecDeque<(Header, Vec<u8>)>,
    n_bytes: usize,
    epochs: Epochs,
    unpacker: Unpacker,
    /// The number after the last dropped frame of stream 0, by producer.
    free: BTreeMap<u64, u64>,
    /// Number of dropped records, by producer, epoch and stream.
    dropped: BTreeMap<(u64, u32, u32), u64>,
}

impl Ring {
    /// A ring that keeps frames of at most `max_bytes` bytes in total.
    #[must_use]
    pub fn new(max_bytes: usize) -> Ring {
        Ring {
            max_bytes,
            pending: Gathered::default(),
            frames: VecDeque::new(),
            n_bytes: 0,
            epochs: Epochs::new(),
            unpacker: Unpacker::default(),
            free: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    fn take(&mut self, frame: Vec<u8>, header: Header) {
        if header.kind == kind::META {
            learn(&mut self.epochs, &header, stored_of(&header, &frame), &mut self.unpacker);
        }
        self.n_bytes += frame.len();
        self.frames.push_back((header, frame));
        while self.n_bytes > self.max_bytes
            && let Some((old, bytes)) = self.frames.pop_front()
        {
            self.n_bytes -= bytes.len();
            if may_define(&self.epochs, &old) {
                learn(&mut self.epochs, &old, stored_of(&old, &bytes), &mut self.unpacker);
            }
            if old.stream == 0 && old.kind != kind::OPEN {
                self.free.insert(old.producer, old.seq.saturating_add(1));
            }
            if matches!(old.kind, kind::DATA | kind::AGG) {
                *self.dropped.entry((old.producer, old.epoch, old.stream)).or_default() +=
                    u64::from(old.records);
            }
        }
    }

    /// Writes the kept frames as a stream: snapshots, loss records for the overwritten records, frames.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written.
    pub fn dump(&self, out: &mut impl Write) -> io::Result<()> {
        let mut all = Vec::new();
        // Offset in the output of the last snapshot of each epoch.
        let mut begun: BTreeMap<(u64, u32), u64> = BTreeMap::new();
        for ((producer, number), metadata) in &self.epochs {
            let of_epoch = |header: &&Header| (header.producer, header.epoch) == (*producer, *number);
            let headers = || self.frames.iter().map(|(header, _)| header).filter(of_epoch);
            if headers().next().is_none() {
                continue;
            }
            let first = headers().find(|header| header.stream == 0).map(|header| header.seq);
            let free = first.or_else(|| self.free.get(producer).copied()).unwrap_or_default();
            let mut losses: Vec<(u32, u64)> = self
                .dropped
                .iter()
                .filter(|((p, e, _), _)| (p, e) == (producer, number))
                .map(|((_, _, stream), n)| (*stream, *n))
                .collect();
            // The numbers of dropped frames of stream 0 are free for the snapshot and the loss records. If there are too
            // few, only the headers of the kept frames report the losses.
            if free <= losses.len() as u64 {
                losses.clear();
            }
            if let Some(seq) = free.checked_sub(1 + losses.len() as u64) {
                let start = all.len() as u64;
                begun.insert((*producer, *number), start);
                all.extend_from_slice(&snapshot(metadata, *producer, *number, seq)?.1);
                for (at, (stream, n)) in losses.iter().enumerate() {
                    let loss = Loss {
                        cause: cause::OVERWRITTEN,
                        stream: Some(*stream),
                        records: Some(*n),
                        ..Loss::default()
                    };
                    let mut payload = loss.to_value().to_bytes();
                    let mut header = Header {
                        kind: kind::LOSS,
                        encoding: encoding::CBOR,
                        producer: *producer,
                        epoch: *number,
                        seq: seq + 1 + at as u64,
                        records: 1,
                        meta_back: all.len() as u64 - start,
                        ..Header::default()
                    };
                    let raw_len = payload.len() as u32; // A few bytes.
                    frame::write_frame(&mut header, raw_len, &mut payload, &mut all)?;
                }
            }
        }
        out.write_all(&all)?;
        let mut at = all.len() as u64;
        let mut dropped = self.dropped.clone();
        for (header, frame) in &self.frames {
            let key = (header.producer, header.epoch);
            if header.has(flag::SNAPSHOT_START) {
                begun.insert(key, at);
            }
            // The header of the first kept frame of a stream also reports the records lost before it.
            let is_data = matches!(header.kind, kind::DATA | kind::AGG);
            let n = if is_data { dropped.remove(&(key.0, key.1, header.stream)) } else { None };
            let lost = u64::from(header.lost).saturating_add(n.unwrap_or_default());
            let lost = u32::try_from(lost).unwrap_or(frame::LOST_MANY);
            let meta_back = begun.get(&key).map_or(0, |snapshot| at - snapshot);
            all.clear();
            let extension = frame.get(frame::HEADER_BYTES..usize::from(header.words) * 8).unwrap_or_default();
            copy(&Header { lost, ..*header }, extension, stored_of(header, frame), meta_back, &mut all)?;
            out.write_all(&all)?;
            at += all.len() as u64;
        }
        Ok(())
    }
}

/// Bytes written so far of frames that are not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Gathered(Vec<u8>);

impl Gathered {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes out the first frame, if it is complete.
    pub(crate) fn next_frame(&mut self) -> Option<(Header, Vec<u8>)> {
        let header = Header::read(&self.0).ok()?;
        let len = usize::try_from(header.frame_len()).ok().filter(|len| *len <= self.0.len())?;
        let rest = self.0.split_off(len);
        Some((header, std::mem::replace(&mut self.0, rest)))
    }
}

impl Write for Ring {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.add(bytes);
        while let Some((header, frame)) = self.pending.next_frame() {
            self.take(frame, header);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An epoch, and the next number of each stream; see [`continuation`].
pub type Continuation = (u32, Vec<(u32, u64)>);

/// The state that a writer needs to append to a stream as the same producer: the epoch after the last one, and sequence
/// numbers above all existing ones. `None` if the stream does not have the producer.
///
/// # Errors
/// Returns an error if the input cannot be read, or no epoch number is left after the last.
pub fn continuation(input: &mut impl Input, producer: u64) -> io::Result<Option<Continuation>> {
    let mut next: BTreeMap<u32, u64> = BTreeMap::new();
    let mut epoch = None;
    let mut scanner = Scanner::new();
    while let Some(found) = scanner.next(input)? {
        let header = found.header;
        if header.producer == producer {
            epoch = epoch.max(Some(header.epoch));
            if header.kind == kind::OPEN {
                continue;
            }
            let seq = next.entry(header.stream).or_default();
            // One number is skipped, so that readers report a gap: it is unknown what the crash lost.
            *seq = (*seq).max(header.seq.saturating_add(2));
        }
    }
    let Some(last) = epoch else { return Ok(None) };
    let epoch = last.checked_add(1).ok_or_else(|| io::Error::other("no number is left for an epoch"))?;
    Ok(Some((epoch, next.into_iter().collect())))
}

/// The UUIDs of the producers of a stream, by their first 8 bytes, which frames carry.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub fn producers(input: &mut impl Input) -> io::Result<BTreeMap<u64, [u8; 16]>> {
    let mut all = BTreeMap::new();
    let mut unpacker = Unpacker::default();
    let mut scanner = Scanner::new();
    while let Some(found) = scanner.next(input)? {
        if found.header.kind != kind::META || all.contains_key(&found.header.producer) {
            continue;
        }
        let stored = stored(input, &found)?;
        let Ok(payload) = unpacker.unpack(&found.header, &stored) else { continue };
        let uuid = cbor::decode(payload).ok().and_then(|item| {
            let is_producer = item.value.get(0).and_then(Value::as_u64) == Some(1);
            item.value.get(3).filter(|_| is_producer)?.as_bytes()?.try_into().ok()
        });
        all.extend(uuid.map(|uuid| (found.header.producer, uuid)));
    }
    Ok(all)
}
