//! Parts of streams as streams: frames of a range with a snapshot in front, and rings of frames whose oldest are dropped.
//!
//! Payloads are copied as they are. Headers get a new way back to a snapshot, and only those of bodies keep extensions; an index
//! becomes padding. Numbers stay, so gaps stay honest. What of the input is damaged in a way that no frame of the copy shows is
//! written as losses before the ends, and a producer that did not end has no end in the copy either.

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

/// What is known in each epoch, by producer and number.
type Epochs = BTreeMap<(u64, u32), Metadata>;

/// Adds what a frame defines: in a META frame all records, in one of plain rows those between them.
fn learn(epochs: &mut Epochs, header: &Header, stored: &[u8], unpacker: &mut Unpacker) {
    if crc32c(stored) != header.payload_crc {
        return;
    }
    let Ok(payload) = unpacker.unpack(header, stored) else { return };
    let metadata = epochs.entry((header.producer, header.epoch)).or_default();
    // A reader of the copy finds again what is wrong with them.
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

/// Whether a frame has rows between which metadata may stand that are not known.
fn may_define(epochs: &Epochs, header: &Header) -> bool {
    (header.kind, header.encoding) == (kind::DATA, encoding::PLAIN)
        && epochs
            .get(&(header.producer, header.epoch))
            .is_none_or(|metadata| !metadata.knows(header.meta_version))
}

/// The snapshot of an epoch as frames, the last with the number `seq`. Records that are missing end it: what follows them has
/// other ordinals than a snapshot could say.
fn snapshot(metadata: &Metadata, producer: u64, epoch: u32, seq: u64) -> io::Result<(u64, Vec<u8>)> {
    // What a record becomes that was refused, so that it has its ordinal: null, which is none either.
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

/// Appends the copy of a frame: with the extension of its header, if a body is copied whole, and its way back to a snapshot.
fn copy(
    header: &Header,
    extension: &[u8],
    stored: &[u8],
    meta_back: u64,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if header.kind == kind::INDEX {
        // Its distances would lead elsewhere; left out, it would be a gap.
        let mut pad =
            Header { kind: kind::PAD, encoding: encoding::NONE, codec: 0, records: 0, meta_back, ..*header };
        return frame::write_frame(&mut pad, 0, &mut [], out);
    }
    // No reader knows extensions of other frames than bodies.
    let extension = if header.is_foreign() { extension } else { &[] };
    let words = ((frame::HEADER_BYTES + extension.len()) / 8) as u8; // At most 64.
    let header = Header { words, meta_back, ..*header };
    out.extend_from_slice(&header.to_bytes_with(extension));
    out.extend_from_slice(stored);
    frame::finish(&header, out);
    Ok(())
}

/// Copies the frames that begin in a range of bytes, with a snapshot of each of their epochs in front, as far as its numbers are
/// free, and a new end. Gives how many frames of the range there are, ends among them.
///
/// # Errors
/// If the input cannot be read, the output not be written, or a snapshot not be put into frames.
pub fn slice(input: &mut impl Input, range: Range<u64>, out: &mut impl Write) -> io::Result<u64> {
    Ok(select(input, range, &mut Everything, out)?.frames)
}

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sliced {
    /// Frames of the range that were copied or became padding, ends among them. One that came twice counts once.
    pub frames: u64,
    /// Data records that were written, those in buffers that were being written among them.
    pub records: u64,
}

/// The same with some of the frames and records only, and in an order that is chosen.
///
/// # Errors
/// As for [`slice()`]; if a frame has too many records to be taken apart.
pub fn select(
    input: &mut impl Input,
    range: Range<u64>,
    choose: &mut impl Select,
    out: &mut impl Write,
) -> io::Result<Sliced> {
    select_lossy(input, range, &[], choose, out)
}

/// The same of an input that lacks something for a reason that its bytes do not show, such as its packing: the copy says it.
///
/// # Errors
/// As for [`select()`].
pub fn select_lossy(
    input: &mut impl Input,
    range: Range<u64>,
    known: &[Loss],
    choose: &mut impl Select,
    out: &mut impl Write,
) -> io::Result<Sliced> {
    // What a reader of the input finds.
    let mut session = Session::leaving_data().leaving_attachments();
    let mut is_part = range.start > 0;
    let mut unpacker = Unpacker::default();
    let mut epochs = Epochs::new();
    let mut frames = Vec::new();
    // Frames before the range whose rows may define something, and up to which record each epoch is needed.
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
    // The last frame before the need is the likeliest, and most streams have nothing between their rows.
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
    // Before the slice's first frame of stream 0: the number before that frame's, of each producer.
    let mut begun: BTreeMap<(u64, u32), u64> = BTreeMap::new();
    let mut counts: BTreeMap<u64, (u64, u64, u64, u32, u32)> = BTreeMap::new();
    // As a reader of the copy sees them: it takes of several frames with one number the first that is whole.
    let (mut order, mut order_findings) = (Order::default(), Vec::new());
    let mut n_left_out = n_chosen - frames.len() as u64;
    let mut n_open_records = 0;
    // The next numbers of other streams than 0.
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
    // An end that frames follow becomes padding, since its number would be missing; the last is written anew.
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
        // Its rows would come twice if the buffer is there as a frame, too.
        let is_closed =
            head.is_some_and(|head| numbered.contains(&(found.header.producer, head.stream, head.seq)));
        if choose.frame(found) == Choice::Rows && (is_vacant || is_closed) {
            n_left_out += 1;
            continue;
        }
        let (header, stored) = match choose.frame(found) {
            Choice::Rows => select::rows(found, stored, epochs.get(&key), &mut unpacker, choose)?,
            // What stands between plain rows describes later ones.
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
            // It is about what the copy does not have.
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
            // Without frames of stream 0 in the slice, the number of the last one before it is free.
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
            // A reader would take the buffer for closed if a frame had its number. A vacant one keeps the number of another
            // stream.
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
        // A number that is missing before the end is missing in the copy, too.
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
            // It stands in the stream that it is about: parts of one input agree on the numbers of stream 0.
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
        // A part is as long as it was to be.
        let ending = if is_part { Some(true) } else { session.ending(producer) };
        if let Some(in_order) = ending {
            let (header, payload) = end_frame(in_order, n_frames, n_records, 0);
            put(header, payload, seq)?;
        }
    }
    Ok(Sliced { frames: frames.len() as u64 - n_left_out, records })
}

/// The loss that a frame is about, if it is a frame of that kind.
fn loss_of(header: &Header, stored: &[u8], unpacker: &mut Unpacker) -> Option<Loss> {
    if header.kind != kind::LOSS || crc32c(stored) != header.payload_crc {
        return None;
    }
    Loss::read(&cbor::decode(unpacker.unpack(header, stored).ok()?).ok()?.value)
}

/// The most losses that a copy says: of more, the last stands for the rest.
const MAX_LOSSES: usize = 1000;

/// What indexes say of the frames at these places.
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

/// How many records an index says that a frame has, if it has such that are counted.
fn records_of(entry: &Entry) -> Option<u64> {
    let header = entry.frame()?.header;
    let is_counted = matches!(header.kind, kind::DATA | kind::AGG) && !header.is_foreign();
    Some(header.records.into()).filter(|n| is_counted && *n > 0)
}

/// What a reader of the input finds missing and a reader of the copy would not, with the producers that lack it: what was
/// passed over by searching, and frames that only an end counts. Frames with wrong checksums are copied as they are.
fn missing_in(
    input: &mut impl Input,
    session: &Session,
    scanner: &Scanner,
    range: &Range<u64>,
    known: &[Loss],
) -> io::Result<Vec<(u64, Loss)>> {
    let frames = session.frames();
    let Some(first) = session.producers().first() else { return Ok(Vec::new()) };
    // What no header names is counted for who wrote the frame before it.
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
        // Of a frame of another version nothing but its length is believed.
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
        // Something else has said what is missing.
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

/// What later frames need of one that is dropped: the frame without its records, if metadata stand between its plain rows.
///
/// # Errors
/// If it cannot be packed again.
pub fn without_records(header: &Header, stored: &[u8]) -> io::Result<Option<(Header, Vec<u8>)>> {
    if (header.kind, header.encoding) != (kind::DATA, encoding::PLAIN) {
        return Ok(None);
    }
    let frame = FrameAt { offset: 0, header: *header };
    let mut unpacker = Unpacker::default();
    let (rest, stored) = select::rows(&frame, stored.to_vec(), None, &mut unpacker, &mut NoRecord)?;
    Ok((rest.kind == kind::DATA && rest.records == 0 && rest.raw_len > 0).then_some((rest, stored)))
}

/// Buffers that were being written, as the frames that they would have become: headers and stored payloads. Vacant ones have
/// none, nor do those that are damaged.
///
/// # Errors
/// If the input cannot be read, or a buffer has more records than a frame can have.
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

/// Producers, streams and numbers of the frames of some kinds.
fn numbers_of(frames: &[FrameAt], is_of: impl Fn(u8) -> bool) -> FxHashSet<(u64, u32, u64)> {
    let headers = frames.iter().map(|frame| &frame.header).filter(|header| is_of(header.kind));
    headers.map(|header| (header.producer, header.stream, header.seq)).collect()
}

/// Leaves out padding that has the number of a frame with something in it: parts of a stream have it in place of what the others
/// have, and a reader takes the first frame of each number.
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

/// A flight recorder: keeps the newest frames in memory and all metadata beside them, so old data are dropped and never what
/// describes them. It is given the bytes of a stream as a writer writes them.
#[derive(Debug)]
pub struct Ring {
    max_bytes: usize,
    pending: Gathered,
    frames: VecDeque<(Header, Vec<u8>)>,
    n_bytes: usize,
    epochs: Epochs,
    unpacker: Unpacker,
    /// The number after the last frame of stream 0 that was dropped, by producer.
    free: BTreeMap<u64, u64>,
    /// Records dropped, by producer, epoch and stream.
    dropped: BTreeMap<(u64, u32, u32), u64>,
}

impl Ring {
    /// A ring of frames that have at most this many bytes together.
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

    /// Writes what is kept as a stream: snapshots, what was overwritten as losses, frames.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn dump(&self, out: &mut impl Write) -> io::Result<()> {
        let mut all = Vec::new();
        // Where the last snapshot of each epoch begins.
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
            // Numbers that the dropped frames of stream 0 had are free for the snapshot and the losses. Where there are too few,
            // the headers of the frames that are kept say the losses alone.
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
            // The first frame that is kept of a stream says in its header, too, what was lost before it.
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

/// What a writer has given so far of frames that are not whole yet.
#[derive(Debug, Default)]
pub(crate) struct Gathered(Vec<u8>);

impl Gathered {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The first frame, once it is whole.
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

/// An epoch, and the next number of each stream: see [`continuation`].
pub type Continuation = (u32, Vec<(u32, u64)>);

/// What a writer needs to append to a stream as the same producer: the epoch after the last, and numbers above all that are
/// there. `None` if the producer is not in it.
///
/// # Errors
/// If the input cannot be read, or the last epoch has the highest number.
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
            // One number is left out, so that readers report a gap: what the crash lost is not known.
            *seq = (*seq).max(header.seq.saturating_add(2));
        }
    }
    let Some(last) = epoch else { return Ok(None) };
    let epoch = last.checked_add(1).ok_or_else(|| io::Error::other("no number is left for an epoch"))?;
    Ok(Some((epoch, next.into_iter().collect())))
}

/// The UUIDs of the producers of a stream, by the part of them that frames carry.
///
/// # Errors
/// If the input cannot be read.
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
