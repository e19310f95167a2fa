//! Lists the frames of a stream without decoding them: from an index if there is one, otherwise from all headers.
//!
//! Payloads of data frames are not read; the reader that decodes them reports their damage.

use crate::decode::Registry;
use crate::frame::{Header, TRAILER_BYTES, codec, is_trailer_of, kind};
use crate::index::{Directory, frame_at};
use crate::input::Input;
use crate::reader::StreamReader;
use crate::scan::FrameAt;
use crate::session::{OpenHead, Seen, Session};
use rustc_hash::FxHashMap;
use std::io;

/// Frames by producer, stream and number.
pub type Copies = FxHashMap<(u64, u32, u64), FrameAt>;

/// The frames of a stream with random access.
#[derive(Debug, Default)]
pub struct Survey {
    /// Metadata, losses, clocks, positions of attachments, and findings so far.
    pub session: Session,
    /// Frames with records or bodies; those of each stream are in the order of their numbers. Frames from an index have only
    /// the header fields that [`Entry::frame`](crate::index::Entry::frame) fills.
    pub frames: Vec<FrameAt>,
    /// Open frames, by producer, stream and number.
    pub open: Vec<(OpenHead, FrameAt)>,
    /// Further copies of frames with records or bodies, for use if the first copy proves damaged.
    pub copies: Copies,
    /// Bytes of room that was claimed and never written.
    pub unwritten_bytes: u64,
    /// Whether the frames come from an index.
    pub is_indexed: bool,
    /// Decoders of encodings that this crate does not know.
    pub(crate) registry: Registry,
}

impl Survey {
    /// Reads the indexes of an input of `size` bytes, or all headers if the indexes do not lead to the first byte or do not
    /// suffice for reading.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn of(input: &mut impl Input, size: u64, registry: &Registry) -> io::Result<Survey> {
        match Survey::by_index(input, size, registry)? {
            Some(survey) => Ok(survey),
            None => Survey::of_headers(input, registry),
        }
    }

    /// Reads all headers.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn of_headers(input: &mut impl Input, registry: &Registry) -> io::Result<Survey> {
        StreamReader::new(input).with_registry(registry.clone()).survey()
    }

    fn by_index(input: &mut impl Input, size: u64, registry: &Registry) -> io::Result<Option<Survey>> {
        let Some(directory) = Directory::read(input, size)? else { return Ok(None) };
        let session = Session::leaving_data().leaving_attachments();
        let registry = registry.clone();
        let mut survey = Survey { session, is_indexed: true, registry, ..Survey::default() };
        let mut others = directory.others.iter().copied().peekable();
        // An index may be forged: bytes that it does not list may be a frame that must be understood.
        let mut end = 0;
        for entry in &directory.entries {
            while let Some(at) = others.next_if(|at| *at < entry.offset) {
                match survey.observe(input, at, None)?.filter(|_| at == end) {
                    Some(next) => end = next,
                    None => return Ok(None),
                }
            }
            if entry.offset != end {
                return Ok(None);
            }
            end += u64::from(entry.len_bytes);
            let Some(frame) = entry.frame() else { return Ok(None) };
            let is_known = frame.header.is_known_encoding() || survey.registry.decodes(&frame.header);
            // A frame of unknown encoding may have to be understood; only its header says so.
            let is_known = is_known && frame.header.codec <= codec::ZSTD;
            if !matches!(entry.kind, kind::DATA | kind::AGG) || !is_known {
                if survey.observe(input, entry.offset, Some(&frame.header))? != Some(end) {
                    return Ok(None);
                }
            } else if survey.session.observe_indexed(&frame) {
                survey.frames.push(frame);
            } else {
                survey.copy(frame);
            }
        }
        for at in others {
            match survey.observe(input, at, None)?.filter(|_| at == end) {
                Some(next) => end = next,
                None => return Ok(None),
            }
        }
        if end != size {
            return Ok(None);
        }
        if !survey.knows_enough(input)? {
            return Ok(None);
        }
        survey.finish();
        Ok(Some(survey))
    }

    /// Takes the frame at an offset and returns its end; `None` if there is no frame, or it differs from the index entry.
    fn observe(&mut self, input: &mut impl Input, at: u64, said: Option<&Header>) -> io::Result<Option<u64>> {
        let Some(frame) = frame_at(input, at)? else { return Ok(None) };
        if said.is_some_and(|said| !is_same(said, &frame.header)) {
            return Ok(None);
        }
        match self.session.observe(&frame, input, &self.registry)? {
            Seen::Nothing => {}
            // Reading stops at a frame that must be understood, which the index cannot express.
            Seen::Stop | Seen::Data | Seen::Copy => return Ok(None),
            Seen::Open => {
                let head = input.get(frame.payload_at(), crate::session::OPEN_HEAD_BYTES)?;
                self.open.extend(OpenHead::read(head).map(|head| (head, frame)));
            }
        }
        // A torn frame does not count; reading all headers reports the loss.
        let trailer = input.get(frame.end() - TRAILER_BYTES as u64, TRAILER_BYTES)?;
        let is_whole = is_trailer_of(&frame.header, trailer.get(..TRAILER_BYTES).unwrap_or_default());
        Ok(is_whole.then(|| frame.end()))
    }

    /// Whether META frames alone have the metadata that the last frame of each producer needs. Records between rows are only
    /// found by reading all frames.
    fn knows_enough(&self, input: &mut impl Input) -> io::Result<bool> {
        let last: FxHashMap<u64, &FrameAt> =
            self.frames.iter().map(|frame| (frame.header.producer, frame)).collect();
        for frame in last.into_values() {
            let Some(there) = frame_at(input, frame.offset)? else { return Ok(false) };
            if !is_same(&frame.header, &there.header) || !self.session.knows_all_of(&there.header) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn copy(&mut self, frame: FrameAt) {
        let Header { producer, stream, seq, .. } = frame.header;
        if self.copies.len() < crate::reader::MAX_COPIES {
            self.copies.entry((producer, stream, seq)).or_insert(frame);
        }
    }

    /// Sorts the frames, removes open frames whose rows another frame has, and reports the findings that depend on all frames.
    pub(crate) fn finish(&mut self) {
        self.frames = in_order(std::mem::take(&mut self.frames), |frame| &frame.header);
        self.open.sort_by_key(|(head, frame)| (frame.header.producer, head.stream, head.seq, frame.offset));
        let Survey { session, open, .. } = self;
        open.retain(|(head, frame)| !session.is_superseded(frame, head));
        session.finish();
    }
}

/// Sorts the frames of each stream by number, within the places that the frames of this stream have. Most streams are in
/// order already.
pub(crate) fn in_order<T>(all: Vec<T>, header: impl Fn(&T) -> &Header) -> Vec<T> {
    let who = |frame: &T| (header(frame).producer, header(frame).stream);
    let mut highest: FxHashMap<(u64, u32), u64> = FxHashMap::default();
    let mut mixed: FxHashMap<(u64, u32), Vec<usize>> = FxHashMap::default();
    for frame in &all {
        let (seq, highest) = (header(frame).seq, highest.entry(who(frame)).or_default());
        if seq < *highest {
            mixed.entry(who(frame)).or_default();
        }
        *highest = seq.max(*highest);
    }
    if mixed.is_empty() {
        return all;
    }
    for (at, frame) in all.iter().enumerate() {
        if let Some(places) = mixed.get_mut(&who(frame)) {
            places.push(at);
        }
    }
    let mut slots: Vec<Option<T>> = all.into_iter().map(Some).collect();
    for places in mixed.into_values() {
        let mut frames: Vec<T> = places.iter().filter_map(|at| slots[*at].take()).collect();
        frames.sort_by_key(|frame| header(frame).seq);
        places.into_iter().zip(frames).for_each(|(at, frame)| slots[at] = Some(frame));
    }
    slots.into_iter().flatten().collect()
}

/// Whether an index entry agrees with a frame's header.
#[must_use]
pub fn is_same(said: &Header, header: &Header) -> bool {
    let of = |header: &Header| {
        let Header { kind, codec, encoding, producer, stream, records, seq, .. } = *header;
        (kind, codec, encoding, producer, stream, records, seq, header.frame_len())
    };
    of(said) == of(header)
}
