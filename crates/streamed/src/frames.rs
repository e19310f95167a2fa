//! The frames of a stream as a file: their bodies joined, with the reason wherever bytes are missing.

use crate::bytes::{FRAME_READ_BYTES, HEADER_READ_BYTES, SourceInput};
use crate::carried::{ENCODING, File, NAME, incomplete, is_empty, safe};
use crate::described::{Described, Faults, first_of};
use crate::look::Look;
use crate::rules;
use quipu_model::{Finding, Place};
use quipu_source::{CarrierDamage, Content, ContentPart};
use quipu_stream::blob::{Piece, Section};
use quipu_stream::finding;
use quipu_stream::frame::{Extension, Header, MAX_RAW_BYTES, kind};
use quipu_stream::index::{extension, frame_at};
use quipu_stream::loss::LostAfter;
use quipu_stream::scan::FrameAt;
use quipu_stream::work::Worker;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Returns the file of a stream and its name; `None` if an index names frames that do not exist.
pub(crate) fn file(
    described: &Described,
    (producer, stream): (u64, u32),
    frames: Vec<FrameAt>,
    look: &Arc<Look>,
    input: &mut SourceInput,
) -> io::Result<Option<(String, Frames)>> {
    let number = frames.iter().find(|frame| !is_empty(frame)).map(|frame| frame.header.encoding);
    let said = described.files.get(&stream);
    let name = said.map(|file| &file.name).or(described.names.get(&stream));
    let name = name.and_then(|name| safe(name)).unwrap_or_else(|| format!("stream-{stream}"));
    // The description comes after the frames, so it cannot list many more of them than there are. This bounds memory.
    let n_most = 4 * (frames.len() as u64 + 256);
    let counts =
        |file: &&File| file.frames.iter().fold(0_u64, |sum, (_, n)| sum.saturating_add(*n)) <= n_most;
    let mut reasons = BTreeMap::new();
    let mut parts = said.map(|file| file.parts.clone()).unwrap_or_default();
    let (frames, lengths, fault) = match said.filter(counts) {
        Some(file) => {
            // Missing frames keep their places in the file, so that damage to other files does not affect this one.
            let (mut frames, mut lengths) = in_places(frames, &file.frames);
            if let Some(lost) = described.lost_at_end.get(&stream)
                && frames.iter().all(Option::is_some)
            {
                // The described file is complete, but part of its content was lost before it was put into the stream.
                reasons.insert(frames.len(), at_end(lost, look));
                frames.push(None);
                lengths.push(1);
                if let Some(last) = parts.last_mut() {
                    *last = ContentPart { len: last.len.saturating_add(1), crc32: None, ..last.clone() };
                }
            }
            let of_stream = (stream, number.unwrap_or_default());
            described.say_missing(of_stream, &frames, Some(&lengths), look, &mut reasons);
            (frames, lengths, None)
        }
        None => {
            let (mut with_gaps, mut lengths, mut next, mut end) = (Vec::new(), Vec::new(), None, 0_u64);
            for frame in frames {
                let there = frame_at(input, frame.offset)?;
                let is_same = |there: &FrameAt| quipu_stream::survey::is_same(&there.header, &frame.header);
                let header = match there.filter(is_same) {
                    Some(there) => there.header,
                    None if look.survey.is_indexed => return Ok(None),
                    None => Header::default(),
                };
                let n_missing = header.seq.saturating_sub(next.unwrap_or(0));
                let extension = Extension::read(&extension(input, frame.offset)?);
                // Without an extension, frames may or may not have preceded the first one.
                let is_missing =
                    next.map_or(n_missing > 0 && extension.is_some(), |next| next != frame.header.seq);
                if is_missing || header.lost > 0 {
                    let place = Place {
                        file: Some(look.name.clone()),
                        offset: Some(frame.offset),
                        ..Place::default()
                    };
                    let why = (!is_missing).then(|| dropped(&rules::lost(header.lost, stream, place)));
                    reasons.extend(why.map(|why| (with_gaps.len(), why)));
                    with_gaps.push(None);
                    // Only the extension of a header says how many bytes are missing; otherwise one byte stands for them.
                    let place = extension.and_then(|extension| extension.bytes_before.checked_sub(end));
                    let most = n_missing.saturating_mul(u64::from(MAX_RAW_BYTES));
                    let len = place.filter(|len| is_missing && (1..=most).contains(len)).unwrap_or(1);
                    lengths.push(len);
                    end = end.saturating_add(len);
                }
                next = frame.header.seq.checked_add(1);
                with_gaps.push(Some(frame));
                let len = if is_empty(&frame) { 0 } else { header.raw_len.into() };
                lengths.push(len);
                end = end.saturating_add(len);
            }
            // A gap in the numbers already shows what an earlier copy lost.
            let is_shown =
                |lost: &&LostAfter| lost.of_copy.is_some() && with_gaps.iter().any(Option::is_none);
            if let Some(lost) = described.lost_at_end.get(&stream).filter(|lost| !is_shown(lost)) {
                reasons.insert(with_gaps.len(), at_end(lost, look));
                with_gaps.push(None);
                lengths.push(1);
            }
            described.say_missing((stream, number.unwrap_or_default()), &with_gaps, None, look, &mut reasons);
            // Gaps within the file are reported where they are; more may be missing after its last frame.
            let last =
                with_gaps.iter().rev().find_map(|frame: &Option<FrameAt>| frame.map(|frame| frame.offset));
            let is_all = with_gaps.iter().all(Option::is_some);
            // Another fault may explain a gap better.
            let beyond = described.faults.iter().filter(|fault| is_all || fault.offset > last);
            let beyond = beyond.min_by_key(|fault| (fault.stream.is_some(), fault.offset));
            (with_gaps, lengths, beyond.map(|fault| fault.damage.clone()))
        }
    };
    let mut end = 0_u64;
    let ends: Vec<u64> = lengths
        .iter()
        .map(|len| {
            end = end.saturating_add(*len);
            end
        })
        .collect();
    let sum = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.len));
    let parts = if sum == end { parts } else { Vec::new() };
    let mut reading = described.reading.clone();
    reading.extend(described.names.get(&stream).map(|name| (NAME.to_owned(), name.clone())));
    reading.extend(number.map(|number| (ENCODING.to_owned(), number.to_string())));
    let (look, of) = (Arc::clone(look), Some((producer, stream)));
    let head = said.map(|file| file.head.clone()).unwrap_or_default();
    let damage = first_of(&described.faults).map(|damage| look.in_its_file(damage));
    let kept = Mutex::default();
    Ok(Some((name, Frames { look, of, frames, reasons, ends, parts, head, reading, fault, damage, kept })))
}

/// A loss after the last frame of a stream, as damage.
pub(crate) fn at_end(lost: &LostAfter, look: &Look) -> CarrierDamage {
    let place = Place { file: Some(look.name.clone()), offset: Some(lost.offset), ..Place::default() };
    dropped(&rules::lost_at_end(lost, place))
}

/// A finding about records that the producer dropped, as damage.
fn dropped(finding: &Finding) -> CarrierDamage {
    CarrierDamage {
        file: finding.place.file.clone().unwrap_or_default(),
        offset: finding.place.offset,
        rule: rules::LOST.name,
        what: finding.message.clone(),
        records: finding.loss.as_ref().and_then(|loss| loss.records.exactly()),
        bytes: finding.loss.as_ref().and_then(|loss| loss.bytes.exactly()),
        ..CarrierDamage::default()
    }
}

/// Places frames by their numbers in a file whose body lengths are described. Missing frames are `None`. Also returns the
/// length of each body.
fn in_places(frames: Vec<FrameAt>, said: &[(u64, u64)]) -> (Vec<Option<FrameAt>>, Vec<u64>) {
    let lengths: Vec<u64> = said.iter().flat_map(|(len, n)| std::iter::repeat_n(*len, *n as usize)).collect();
    let mut places = vec![None; lengths.len()];
    for frame in frames {
        let place = usize::try_from(frame.header.seq).ok().and_then(|number| places.get_mut(number));
        if let Some(place) = place {
            *place = Some(frame);
        }
    }
    (places, lengths)
}

/// The joined bodies of frames.
pub(crate) struct Frames {
    look: Arc<Look>,
    /// The producer and the stream; `None` for attachments.
    of: Option<(u64, u32)>,
    /// `None` for missing frames.
    frames: Vec<Option<FrameAt>>,
    /// By position in `frames`, why a frame is missing.
    pub(crate) reasons: BTreeMap<usize, CarrierDamage>,
    /// End of each body in the file.
    ends: Vec<u64>,
    parts: Vec<ContentPart>,
    /// A copy of the first bytes, if the description has one.
    head: Vec<u8>,
    /// Settings that say how to interpret the bytes.
    reading: BTreeMap<String, String>,
    /// The reason why more bytes should follow, if any are missing at the end.
    fault: Option<CarrierDamage>,
    /// The first known damage to the stream.
    damage: Option<CarrierDamage>,
    /// Bodies that readers unpacked last.
    kept: Mutex<Vec<Kept>>,
}

/// An unpacked body.
struct Kept {
    frame: usize,
    /// The bytes of a piece of an attachment. Other bodies are the payload in `worker`.
    piece: Option<Vec<u8>>,
    worker: Worker,
    input: SourceInput,
}

/// Number of unpacked bodies that are kept for later reads.
const MAX_KEPT: usize = 16;

/// The bytes of `range` of an attachment, from a piece that contains it.
fn piece_of(payload: &[u8], range: &Range<u64>) -> Option<Vec<u8>> {
    let piece = Piece::read(payload)?;
    let place = |at: u64| usize::try_from(at.checked_sub(piece.at)?).ok();
    piece.bytes.get(place(range.start)?..place(range.end)?).map(<[u8]>::to_vec)
}

impl Frames {
    /// The file of an attachment.
    pub(crate) fn of_sections(look: &Arc<Look>, name: &str, sections: &[Section]) -> Frames {
        let missing = rules::damage(&incomplete(name), &look.name);
        let missing = |section: &Section| {
            section.frame.is_none().then(|| CarrierDamage { is_beside: true, ..missing.clone() })
        };
        let reasons = sections.iter().enumerate();
        Frames {
            look: Arc::clone(look),
            of: None,
            frames: sections.iter().map(|section| section.frame).collect(),
            reasons: reasons.filter_map(|(nth, section)| Some((nth, missing(section)?))).collect(),
            ends: sections.iter().map(|section| section.range.end).collect(),
            parts: Vec::new(),
            head: Vec::new(),
            reading: BTreeMap::new(),
            fault: None,
            damage: None,
            kept: Mutex::default(),
        }
    }

    /// A file with no frames left, and what its metadata still say.
    pub(crate) fn lost(look: &Arc<Look>) -> Frames {
        let known = Faults::of(look);
        let mut reading = BTreeMap::new();
        for producer in look.survey.session.producers() {
            let described = Described::of(look, &known, *producer);
            reading.extend(described.names.into_values().map(|name| (NAME.to_owned(), name)));
            reading.extend(described.reading);
        }
        let (fault, damage) = (known.first(), known.first().map(|damage| look.in_its_file(damage)));
        Frames { reading, fault, damage, ..Frames::of_sections(look, "", &[]) }
    }

    /// The damage report for a frame whose header is not the one that the index gives: what a look at all headers finds
    /// there.
    #[cold]
    fn without_header(&self, frame: usize, said: &FrameAt) -> CarrierDamage {
        let begin = if frame == 0 { 0 } else { self.ends[frame - 1] };
        let len = self.ends[frame] - begin;
        let own = || {
            let (producer, stream) = self.of?;
            let look = self.look.of_headers().ok()?;
            let described = Described::of(&look, &Faults::of(&look), producer);
            let mut reasons = BTreeMap::new();
            let frames: Vec<Option<FrameAt>> =
                self.frames.iter().enumerate().map(|(nth, at)| at.filter(|_| nth != frame)).collect();
            let lengths: Vec<u64> = vec![len; self.frames.len()];
            described.say_missing(
                (stream, said.header.encoding),
                &frames,
                Some(&lengths),
                &look,
                &mut reasons,
            );
            reasons.remove(&frame)
        };
        own().unwrap_or_else(|| CarrierDamage {
            bytes: Some(len),
            ..rules::damage(&finding::Finding::at("lost-sync", said.offset), &self.look.name)
        })
    }

    /// The error of a read that damage makes fail. It names the file of a folder.
    #[cold]
    fn failed(&self, damage: CarrierDamage) -> io::Error {
        self.look.in_its_file(damage).into_io()
    }

    /// Passes the body of a frame to `take`.
    fn with<T>(&self, frame: usize, take: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = {
            let mut kept = lock();
            // A reader that asks for the next frame no longer needs the one before.
            let before = |kept: &Kept| kept.frame.checked_add(1) == Some(frame);
            let at =
                kept.iter().position(|kept| kept.frame == frame).or_else(|| kept.iter().position(before));
            match at {
                Some(at) => Some(kept.swap_remove(at)),
                None if kept.len() >= MAX_KEPT => Some(kept.remove(0)),
                None => None,
            }
        };
        let mut kept = match found {
            Some(kept) => kept,
            None => {
                let n_read = Arc::default();
                let input = SourceInput::new(&self.look.container, FRAME_READ_BYTES, &n_read)
                    .map_err(io::Error::other)?;
                Kept { frame: usize::MAX, piece: None, worker: Worker::default(), input }
            }
        };
        if kept.frame != frame {
            kept.frame = usize::MAX;
            let Some(said) = self.frames[frame] else {
                return Err(self.failed(self.reasons.get(&frame).cloned().unwrap_or_default()));
            };
            let there = frame_at(&mut kept.input, said.offset)?;
            let there = there.filter(|there| quipu_stream::survey::is_same(&there.header, &said.header));
            let Some(there) = there else { return Err(self.failed(self.without_header(frame, &said))) };
            let begin = if frame == 0 { 0 } else { self.ends[frame - 1] };
            let range = begin..self.ends[frame];
            // PERF: a body stays where it was unpacked. Copying each one would touch new memory every time.
            kept.piece = None;
            let is_right = match kept.worker.body(&there, &mut kept.input)? {
                Ok(payload) if there.header.kind == kind::BLOB => {
                    kept.piece = piece_of(payload, &range);
                    kept.piece.is_some()
                }
                Ok(body) => body.len() as u64 == range.end - range.start,
                Err(fault) if fault.name == "torn-frame" => {
                    return Err(self.failed(self.without_header(frame, &said)));
                }
                Err(fault) => {
                    let damage = rules::damage_of_body(&fault, &there.header, &self.look.name);
                    return Err(self.failed(damage));
                }
            };
            if !is_right {
                let fault = finding::Finding::at("payload-invalid", there.offset);
                let fault = fault.with("records", there.header.records);
                return Err(self.failed(rules::damage_of_body(&fault, &there.header, &self.look.name)));
            }
            kept.frame = frame;
        }
        let taken = take(kept.piece.as_deref().unwrap_or_else(|| kept.worker.payload()));
        lock().push(kept);
        Ok(taken)
    }
}

impl Content for Frames {
    fn len_bytes(&self) -> u64 {
        // An unreadable byte stands for missing bytes at the end. The parts of archives account for theirs.
        let has_more = self.fault.is_some() && self.parts.is_empty();
        self.ends.last().copied().unwrap_or(0) + u64::from(has_more)
    }

    fn disk_bytes(&self) -> Option<u64> {
        Some(self.frames.iter().flatten().map(|frame| frame.header.frame_len()).sum())
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let frame = self.ends.partition_point(|end| *end <= at);
        if frame >= self.frames.len() || out.is_empty() {
            return match &self.fault {
                Some(fault) if !out.is_empty() => Err(self.failed(fault.clone())),
                _ => Ok(0),
            };
        }
        let begin = if frame == 0 { 0 } else { self.ends[frame - 1] };
        let mut copy = |body: &[u8]| {
            let skip = usize::try_from(at - begin).unwrap_or(usize::MAX).min(body.len());
            let n = (body.len() - skip).min(out.len());
            out[..n].copy_from_slice(&body[skip..skip + n]);
            n
        };
        match self.with(frame, &mut copy) {
            Err(fault) if frame == 0 && fault.kind() == io::ErrorKind::InvalidData => {
                let head = &self.head[..self.head.len().min(usize::try_from(self.ends[0]).unwrap_or(0))];
                match copy(head) {
                    0 => Err(fault),
                    n => Ok(n),
                }
            }
            read => read,
        }
    }

    fn next_readable(&self, at: u64) -> Option<u64> {
        let end = *self.ends.get(self.ends.partition_point(|end| *end <= at))?;
        (Some(&end) != self.ends.last()).then_some(end)
    }

    fn said_at(&self, at: u64) -> Option<Vec<u8>> {
        let begin = |frame: usize| if frame == 0 { 0 } else { self.ends[frame - 1] };
        let frame = self.ends.partition_point(|end| *end <= at);
        let mut input = SourceInput::new(&self.look.container, HEADER_READ_BYTES, &Arc::default()).ok()?;
        let there = (*self.frames.get(frame)?).filter(|_| begin(frame) == at)?;
        extension(&mut input, there.offset).ok().filter(|said| !said.is_empty())
    }

    fn said(&self, name: &str) -> Option<&str> {
        self.reading.get(name).map(String::as_str)
    }

    fn damage(&self) -> Option<&CarrierDamage> {
        self.damage.as_ref()
    }

    fn parts(&self) -> &[ContentPart] {
        &self.parts
    }
}
