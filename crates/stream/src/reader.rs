//! Reads a stream from beginning to end: from files, whose headers are all scanned first, and from pipes.
//!
//! For a file, all metadata are known before the first row is decoded, so a frame can be decoded even if it comes before its
//! metadata. A pipe is read once: data frames wait for their metadata, up to a bounded number of bytes, and open frames wait
//! for the end.

use crate::batch::Batch;
use crate::codec::Unpacker;
use crate::decode::{Body, Decoder, Outcome, Registry};
use crate::frame::{self, Header, encoding, kind};
use crate::input::Input;
use crate::meta::Metadata;
use crate::scan::{FrameAt, Scanner};
use crate::session::{OPEN_HEAD_BYTES, OpenHead, Seen, Session, open_rows};
use crate::survey::{Copies, Survey, in_order};
use quipu_wire::crc32c;
use std::collections::VecDeque;
use std::io;

/// Bytes of frames that a reader of a pipe holds while they wait for metadata.
pub const MAX_HELD_BYTES: usize = 64 << 20;

/// Maximum number of duplicate frames remembered.
pub(crate) const MAX_COPIES: usize = 1 << 20;

/// A frame to decode, with its stored bytes if the input cannot be read again.
#[derive(Debug)]
struct Pending {
    frame: FrameAt,
    stored: Option<Vec<u8>>,
}

/// Contents of a part.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Rows; a frame with very many is split into batches.
    Rows(&'a Batch),
    /// Rows of aggregations, and the payload that contains them.
    Aggregations(&'a Batch, &'a [u8]),
    /// The body of another format.
    Foreign(&'a [u8]),
}

/// The next part of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Offset of the part's frame.
    pub offset: u64,
    /// Header of the part's frame. For an open frame, completed from the head of its payload.
    pub header: &'a Header,
    /// Metadata of the frame's epoch.
    pub metadata: &'a Metadata,
    /// Decoded rows, or the body.
    pub content: Content<'a>,
}

/// The frame that is being decoded.
#[derive(Debug)]
struct Current {
    frame: FrameAt,
    /// The header for the decoder: for an open frame, the one that it would have as a closed frame.
    header: Header,
    /// For an open frame: range of the rows in the stored bytes.
    rows: Option<std::ops::Range<usize>>,
    tag: u64,
    decoder: Decoder,
    is_foreign: bool,
    /// Whether a registered decoder handles the encoding.
    registered: bool,
    is_unpacked: bool,
}

/// Reads a stream.
#[derive(Debug)]
pub struct StreamReader<I> {
    input: I,
    scanner: Scanner,
    session: Session,
    registry: Registry,
    /// Whether the input can be read at any offset.
    is_seekable: bool,
    is_scanned: bool,
    queue: VecDeque<Pending>,
    held_bytes: usize,
    open: Vec<(OpenHead, Pending)>,
    /// Further copies of data frames, by producer, stream and number. Their payloads are undamaged.
    copies: Copies,
    is_open_sorted: bool,
    current: Option<Current>,
    stored: Vec<u8>,
    unpacker: Unpacker,
    /// Whether the last payload read was decompressed directly from the input, without keeping its stored bytes.
    is_unpacked: bool,
    batch: Batch,
    is_finished: bool,
}

impl<I: Input> StreamReader<I> {
    /// Reads an input with random access: all headers are scanned before the first part is returned.
    pub fn new(input: I) -> StreamReader<I> {
        StreamReader::with(input, Scanner::new(), true)
    }

    /// Reads an input that can be read only once.
    pub fn once(input: I) -> StreamReader<I> {
        StreamReader::with(input, Scanner::new(), false)
    }

    fn with(input: I, scanner: Scanner, is_seekable: bool) -> StreamReader<I> {
        StreamReader {
            input,
            scanner,
            session: if is_seekable { Session::leaving_data() } else { Session::default() },
            registry: Registry::default(),
            is_seekable,
            is_scanned: false,
            queue: VecDeque::new(),
            held_bytes: 0,
            open: Vec::new(),
            copies: Copies::default(),
            is_open_sorted: false,
            current: None,
            stored: Vec::new(),
            unpacker: Unpacker::default(),
            is_unpacked: false,
            batch: Batch::new(),
            is_finished: false,
        }
    }

    /// Registers decoders for encodings that this crate does not know.
    #[must_use]
    pub fn with_registry(mut self, registry: Registry) -> StreamReader<I> {
        self.registry = registry;
        self
    }

    /// The session: all that is known of the stream so far, and complete after the last part.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Bytes of room that was claimed and never written.
    #[must_use]
    pub fn unwritten_bytes(&self) -> u64 {
        self.scanner.unwritten_bytes
    }

    /// Scans all frames of an input with random access.
    fn scan_all(&mut self) -> io::Result<()> {
        while self.scan_one()? {}
        self.queue = in_order(std::mem::take(&mut self.queue).into(), |pending| &pending.frame.header).into();
        self.learn_from_rows()
    }

    /// Scans the headers of all frames and returns the data frames, as units of work for several threads. The threads decode
    /// them with [`Session::metadata`] and report which are damaged. Empty for an input that can be read only once.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn data_frames(&mut self) -> io::Result<Vec<FrameAt>> {
        if self.is_seekable && !std::mem::replace(&mut self.is_scanned, true) {
            self.scan_all()?;
        }
        Ok(self.queue.iter().filter(|_| self.is_seekable).map(|pending| pending.frame).collect())
    }

    /// Scans the headers of all frames and returns the result as a [`Survey`]. For inputs with random access.
    pub(crate) fn survey(mut self) -> io::Result<Survey> {
        self.session = self.session.leaving_attachments();
        let frames = self.data_frames()?;
        let mut survey = Survey {
            session: self.session,
            frames,
            open: self.open.into_iter().map(|(head, pending)| (head, pending.frame)).collect(),
            copies: self.copies,
            unwritten_bytes: self.scanner.unwritten_bytes,
            is_indexed: false,
            ..Survey::default()
        };
        survey.finish();
        survey.session.findings.append(&mut self.scanner.findings);
        Ok(survey)
    }

    /// Returns the next part; `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn next_part(&mut self) -> io::Result<Option<Part<'_>>> {
        loop {
            if self.current.is_none() && !self.begin_next()? {
                return Ok(None);
            }
            if self.decode_more() {
                break;
            }
        }
        // The part that `decode_more` has decoded.
        Ok(self.part())
    }

    fn part(&mut self) -> Option<Part<'_>> {
        let current = self.current.as_ref()?;
        let metadata = &**self.session.metadata_mut(&current.frame.header).0;
        let payload = payload(&self.unpacker, &self.stored, current);
        let content = if current.is_foreign {
            Content::Foreign(payload)
        } else if current.header.kind == kind::AGG {
            Content::Aggregations(&self.batch, payload)
        } else {
            Content::Rows(&self.batch)
        };
        Some(Part { offset: current.frame.offset, header: &current.header, metadata, content })
    }

    /// Makes the next frame with data the current one; false at the end.
    fn begin_next(&mut self) -> io::Result<bool> {
        loop {
            if self.is_seekable && !std::mem::replace(&mut self.is_scanned, true) {
                self.scan_all()?;
            }
            let is_ready = self.queue.front().is_some_and(|front| {
                self.is_scanned
                    || self.held_bytes > MAX_HELD_BYTES
                    || self.session.knows_all_of(&front.frame.header)
            });
            if is_ready && let Some(next) = self.queue.pop_front() {
                self.held_bytes -= next.stored.as_ref().map_or(0, Vec::len);
                if self.begin(next)? {
                    return Ok(true);
                }
                continue;
            }
            if !self.is_scanned {
                if !self.scan_one()? {
                    self.is_scanned = true;
                }
                continue;
            }
            if let Some((head, next)) = self.next_open() {
                if self.begin_open(head, next)? {
                    return Ok(true);
                }
                continue;
            }
            if !std::mem::replace(&mut self.is_finished, true) {
                self.session.finish();
                self.session.findings.append(&mut self.scanner.findings);
            }
            return Ok(false);
        }
    }

    /// Scans one more frame; false at the end.
    fn scan_one(&mut self) -> io::Result<bool> {
        let Some(frame) = self.scanner.next(&mut self.input)? else { return Ok(false) };
        let seen = self.session.observe(&frame, &mut self.input, &self.registry)?;
        let len = frame.header.stored_len as usize; // Within the limits.
        match seen {
            Seen::Nothing => {}
            Seen::Stop => return Ok(false),
            Seen::Data => {
                let stored = self.copy(&frame, len)?;
                self.held_bytes += stored.as_ref().map_or(0, Vec::len);
                self.queue.push_back(Pending { frame, stored });
            }
            Seen::Copy => {
                let Header { producer, stream, seq, .. } = frame.header;
                if self.is_seekable && self.copies.len() < MAX_COPIES {
                    self.copies.entry((producer, stream, seq)).or_insert(frame);
                }
            }
            Seen::Open => {
                // Only the head is read here. The rest of the frame may be large; it is read when it is decoded.
                if let Some(head) = OpenHead::read(self.input.get(frame.payload_at(), OPEN_HEAD_BYTES)?) {
                    let stored = self.copy(&frame, len)?;
                    self.open.push((head, Pending { frame, stored }));
                }
            }
        }
        Ok(true)
    }

    /// Copies the stored bytes of a frame if the input cannot be read again.
    fn copy(&mut self, frame: &FrameAt, len: usize) -> io::Result<Option<Vec<u8>>> {
        if self.is_seekable {
            return Ok(None);
        }
        let bytes = self.input.get(frame.payload_at(), len)?;
        Ok(Some(bytes[..bytes.len().min(len)].to_vec()))
    }

    /// Reads the metadata records between rows for ordinals that frames need and no META frame has. Goes from the last frame
    /// to the first, because the last frame before the need most likely has them.
    fn learn_from_rows(&mut self) -> io::Result<()> {
        for at in (0..self.queue.len()).rev() {
            let frame = self.queue[at].frame;
            let header = frame.header;
            if header.encoding == encoding::PLAIN
                && self.session.may_define(&header)
                && self.load(Pending { frame, stored: None })?
            {
                let payload = match self.is_unpacked {
                    true => self.unpacker.again(&header, &self.stored),
                    false => match self.unpacker.unpack(&header, &self.stored) {
                        Ok(payload) => payload,
                        Err(_) => continue,
                    },
                };
                let (metadata, findings) = self.session.metadata_mut(&header);
                let body = Body { header: &header, payload, is_open: false, tag: 0 };
                Decoder::new().next(&body, metadata, &mut self.batch, findings);
            }
        }
        Ok(())
    }

    /// Reads the stored bytes of a frame. False if they are damaged. The checksum of bytes copied earlier has been checked
    /// already.
    fn load(&mut self, pending: Pending) -> io::Result<bool> {
        let Pending { frame, stored } = pending;
        self.is_unpacked = false;
        match stored {
            Some(stored) => {
                self.stored = stored;
                Ok(true)
            }
            None => {
                let header = &frame.header;
                let len = header.stored_len as usize; // Within the limits.
                let bytes = self.input.get(frame.payload_at(), len)?;
                let stored = &bytes[..bytes.len().min(len)];
                let is_open = header.kind == kind::OPEN;
                let is_right = stored.len() == len && (is_open || crc32c(stored) == header.payload_crc);
                // PERF: a compressed payload is decompressed from the input's buffer, without a copy.
                self.is_unpacked = is_right
                    && !is_open
                    && header.codec != frame::codec::NONE
                    && self.unpacker.unpack(header, stored).is_ok();
                self.stored.clear();
                if !self.is_unpacked {
                    self.stored.extend_from_slice(stored);
                }
                Ok(is_right)
            }
        }
    }

    fn begin(&mut self, pending: Pending) -> io::Result<bool> {
        let mut frame = pending.frame;
        if !self.load(pending)? {
            let Header { producer, stream, seq, .. } = frame.header;
            let copy = self.copies.remove(&(producer, stream, seq));
            self.session.note_damaged(&frame, copy.as_ref());
            match copy {
                Some(copy) if self.load(Pending { frame: copy, stored: None })? => frame = copy,
                _ => return Ok(false),
            }
        }
        let header = frame.header;
        let is_handed_out = header.is_foreign() || self.registry.hands_out(header.encoding);
        let is_known = header.is_known_encoding() || is_handed_out;
        self.current = Some(Current {
            frame,
            header,
            rows: None,
            tag: 0,
            decoder: Decoder::new(),
            is_foreign: is_handed_out && self.registry.get(header.encoding).is_none(),
            registered: !is_known || self.registry.get(header.encoding).is_some(),
            is_unpacked: self.is_unpacked,
        });
        Ok(true)
    }

    /// The next open frame, in order of producer, stream and number.
    fn next_open(&mut self) -> Option<(OpenHead, Pending)> {
        if !std::mem::replace(&mut self.is_open_sorted, true) {
            self.open.sort_by_key(|(head, pending)| {
                let frame = &pending.frame;
                std::cmp::Reverse((frame.header.producer, head.stream, head.seq, frame.offset))
            });
        }
        self.open.pop()
    }

    fn begin_open(&mut self, head: OpenHead, pending: Pending) -> io::Result<bool> {
        if self.session.is_superseded(&pending.frame, &head) {
            return Ok(false);
        }
        let frame = pending.frame;
        // Rows that are still being written have no checksum.
        self.load(pending)?;
        if !head.is_still(&self.stored) {
            self.session.findings.push(crate::finding::Finding::at("buffer-reused", frame.offset));
            return Ok(false);
        }
        self.session.note_open(&frame, &head);
        let Ok((header, rows)) = open_rows(&frame, &head, &self.stored) else {
            let finding = crate::finding::Finding::at("payload-crc", frame.offset);
            self.session.findings.push(finding.with("records", head.records));
            return Ok(false);
        };
        let rows = OPEN_HEAD_BYTES..OPEN_HEAD_BYTES + rows.len();
        let decoder = Decoder::new();
        self.current = Some(Current {
            frame,
            header,
            rows: Some(rows),
            tag: head.tag,
            decoder,
            is_foreign: false,
            registered: false,
            is_unpacked: true,
        });
        Ok(true)
    }

    /// Decodes the next rows of the current frame. False if none are left; the frame's outcome has then been noted.
    fn decode_more(&mut self) -> bool {
        let Some(mut current) = self.current.take() else { return false };
        let frame = current.frame;
        if !current.decoder.is_begun() {
            self.session.report_hole(&frame, current.header.meta_version);
        }
        let records = current.header.records;
        if !current.is_unpacked && self.unpacker.unpack(&current.header, &self.stored).is_err() {
            self.session.note_outcome(&frame, records, Outcome { is_broken: true, ..Outcome::default() });
            return false;
        }
        current.is_unpacked = true;
        let payload = payload(&self.unpacker, &self.stored, &current);
        let more = if current.is_foreign {
            self.batch.clear();
            current.decoder.take_once()
        } else if current.registered {
            let metadata = self.session.metadata(&frame.header);
            let first = current.decoder.take_once();
            if first && let Some(decoder) = self.registry.get(current.header.encoding) {
                self.batch.clear();
                let (decoded, is_whole) =
                    decoder.decode(&current.header, payload, &metadata, &mut self.batch);
                let outcome = Outcome { decoded, is_broken: !is_whole, ..Outcome::default() };
                self.session.note_outcome(&frame, records, outcome);
            }
            first
        } else {
            let (metadata, findings) = self.session.metadata_mut(&frame.header);
            let (header, is_open) = (&current.header, current.rows.is_some());
            let body = Body { header, payload, is_open, tag: current.tag };
            current.decoder.next(&body, metadata, &mut self.batch, findings)
        };
        if more {
            self.session.note_side(&frame, &self.batch.side);
            self.current = Some(current);
            return true;
        }
        if !current.is_foreign && !current.registered {
            self.session.note_outcome(&frame, records, current.decoder.outcome());
        }
        false
    }
}

/// The payload of the current frame, which has been decompressed before.
fn payload<'a>(unpacker: &'a Unpacker, stored: &'a [u8], current: &Current) -> &'a [u8] {
    match &current.rows {
        Some(rows) => stored.get(rows.clone()).unwrap_or_default(),
        None => unpacker.again(&current.header, stored),
    }
}
