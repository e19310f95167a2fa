//! Frames as units of work, for decoding in several threads once the frames and their metadata are known.
//!
//! Frames share no state except metadata, so any thread can decode any frame. Each thread has its own input and its own
//! [`Worker`]; the caller owns the threads and distributes the frames.

use crate::batch::Batch;
use crate::codec::Unpacker;
use crate::decode::{Body, Decoder, Outcome, Registry};
use crate::finding::Finding;
use crate::frame::{Header, TRAILER_BYTES, codec, is_trailer_of, kind};
use crate::input::Input;
use crate::meta::Metadata;
use crate::scan::FrameAt;
use crate::session::{OPEN_HEAD_BYTES, OpenHead, open_rows};
use quipu_wire::crc32c;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Decodes frames one after the other and reuses its memory.
#[derive(Debug, Default)]
pub struct Worker {
    unpacker: Unpacker,
    stored: Vec<u8>,
    batch: Batch,
    /// The header of the current frame for its decoder: for an open frame, the one that it would have as a closed frame.
    header: Header,
    /// For an open frame: the range of its rows in the stored bytes.
    rows: Option<Range<usize>>,
    tag: u64,
    decoder: Decoder,
    /// Decoders of encodings that this crate does not know.
    registry: Registry,
}

/// The outcome of decoding a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Counts and faults of records.
    pub outcome: Outcome,
    /// Findings about the frame, and about metadata between its rows.
    pub findings: Vec<Finding>,
    /// Whether the payload is damaged, or cannot be decompressed.
    pub is_damaged: bool,
}

impl Worker {
    /// A worker that also decodes the registered private encodings.
    #[must_use]
    pub fn with_registry(registry: Registry) -> Worker {
        Worker { registry, ..Worker::default() }
    }

    /// Decodes the rows of a frame, batch by batch. A body of another format, or a private encoding without a registered
    /// decoder, is reported as `unknown-encoding`.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn rows(
        &mut self,
        frame: &FrameAt,
        input: &mut impl Input,
        metadata: &Arc<Metadata>,
        mut each: impl FnMut(&Batch),
    ) -> io::Result<Work> {
        let mut work = Work::default();
        if let Err(fault) = self.begin(frame, input)? {
            work.is_damaged = matches!(fault.name, "payload-crc" | "payload-invalid");
            work.outcome.undecoded = if work.is_damaged { 0 } else { frame.header.records.into() };
            work.findings.push(fault);
            return Ok(work);
        }
        // Records that the frame itself defines are added to this copy only; the other frames have them from the survey.
        let mut metadata = Arc::clone(metadata);
        while self.next(&mut metadata, &mut work.findings) {
            each(&self.batch);
        }
        work.outcome = self.decoder.outcome();
        Ok(work)
    }

    /// Begins a frame of rows; the inner error is the finding if it cannot be decoded.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn begin(&mut self, frame: &FrameAt, input: &mut impl Input) -> io::Result<Result<(), Finding>> {
        let header = frame.header;
        let is_known = header.is_known_encoding() && !header.is_foreign();
        if !matches!(header.kind, kind::DATA | kind::AGG) || !(is_known || self.registry.decodes(&header)) {
            let finding = Finding::at("unknown-encoding", frame.offset);
            return Ok(Err(finding.with("records", header.records)));
        }
        (self.header, self.rows, self.decoder) = (header, None, Decoder::new());
        Ok(load(&mut self.unpacker, &mut self.stored, frame, input)?.map(drop))
    }

    /// Begins an open frame; the inner error is the finding if it cannot be decoded.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn begin_open(
        &mut self,
        frame: &FrameAt,
        head: &OpenHead,
        input: &mut impl Input,
    ) -> io::Result<Result<(), Finding>> {
        fetch(&mut self.stored, frame, input)?;
        if !head.is_still(&self.stored) {
            return Ok(Err(Finding::at("buffer-reused", frame.offset)));
        }
        let Ok((header, rows)) = open_rows(frame, head, &self.stored) else {
            return Ok(Err(Finding::at("payload-crc", frame.offset).with("records", head.records)));
        };
        let rows = OPEN_HEAD_BYTES..OPEN_HEAD_BYTES + rows.len();
        (self.header, self.rows, self.decoder) = (header, Some(rows), Decoder::new());
        self.tag = head.tag;
        Ok(Ok(()))
    }

    /// Decodes the next rows of the frame; false if none are left. Metadata records between the rows are added to `metadata`.
    pub fn next(&mut self, metadata: &mut Arc<Metadata>, findings: &mut Vec<Finding>) -> bool {
        let Worker { header, stored, rows, tag, unpacker, batch, decoder, registry } = self;
        let body = current((header, *tag), rows.clone(), stored, unpacker);
        if !header.is_known_encoding()
            && let Some(private) = registry.get(header.encoding)
        {
            batch.clear();
            let is_first = decoder.take_once();
            if is_first {
                let (decoded, is_whole) = private.decode(header, body.payload, metadata, batch);
                decoder.note(Outcome { decoded, is_broken: !is_whole, ..Outcome::default() });
            }
            return is_first;
        }
        decoder.next(&body, metadata, batch, findings)
    }

    /// The payload for [`Worker::next`].
    #[must_use]
    pub fn current(&self) -> Body<'_> {
        current((&self.header, self.tag), self.rows.clone(), &self.stored, &self.unpacker)
    }

    /// The rows that [`Worker::next`] decoded last.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The decompressed payload of the frame; it also has the cells of aggregations.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        match &self.rows {
            Some(rows) => self.stored.get(rows.clone()).unwrap_or_default(),
            None => self.unpacker.again(&self.header, &self.stored),
        }
    }

    /// Counts and faults of the frame so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.decoder.outcome()
    }

    /// The header of the frame. For an open frame, completed from the head of its payload.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the decompressed payload of a frame, for bodies of other formats; the inner error is the finding if it is
    /// damaged. Until another frame is begun, [`Worker::payload`] returns it again.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn body(&mut self, frame: &FrameAt, input: &mut impl Input) -> io::Result<Result<&[u8], Finding>> {
        (self.header, self.rows) = (frame.header, None);
        load(&mut self.unpacker, &mut self.stored, frame, input)
    }
}

fn current<'a>(
    (header, tag): (&'a Header, u64),
    rows: Option<Range<usize>>,
    stored: &'a [u8],
    unpacker: &'a Unpacker,
) -> Body<'a> {
    match rows {
        Some(rows) => Body { header, payload: stored.get(rows).unwrap_or_default(), is_open: true, tag },
        None => Body { header, payload: unpacker.again(header, stored), is_open: false, tag: 0 },
    }
}

/// Reads the stored bytes of a frame; fewer if the input ends early.
fn fetch(stored: &mut Vec<u8>, frame: &FrameAt, input: &mut impl Input) -> io::Result<()> {
    let len = frame.header.stored_len as usize; // Within the limits.
    let bytes = input.get(frame.payload_at(), len)?;
    stored.clear();
    stored.extend_from_slice(&bytes[..bytes.len().min(len)]);
    Ok(())
}

fn load<'a>(
    unpacker: &'a mut Unpacker,
    stored: &'a mut Vec<u8>,
    frame: &FrameAt,
    input: &mut impl Input,
) -> io::Result<Result<&'a [u8], Finding>> {
    let header = &frame.header;
    let fault = |name| Finding::at(name, frame.offset).with("records", header.records);
    let len = header.stored_len as usize; // Within the limits.
    // The trailer is checked here, because frames found through an index have not been scanned.
    let rest_len = (header.frame_len() - header.len_bytes()) as usize;
    let bytes = input.get(frame.payload_at(), rest_len)?;
    if bytes.get(..rest_len).is_some_and(|rest| !is_trailer_of(header, &rest[rest_len - TRAILER_BYTES..])) {
        return Ok(Err(fault("torn-frame")));
    }
    if header.codec == codec::NONE {
        stored.clear();
        stored.extend_from_slice(&bytes[..bytes.len().min(len)]);
        if stored.len() < header.stored_len as usize || crc32c(stored) != header.payload_crc {
            return Ok(Err(fault("payload-crc")));
        }
        return Ok(unpacker.unpack(header, stored).map_err(|_| fault("payload-invalid")));
    }
    // PERF: a compressed payload is decompressed from the input's buffer, without a copy.
    let Some(packed) = bytes.get(..len).filter(|packed| crc32c(packed) == header.payload_crc) else {
        return Ok(Err(fault("payload-crc")));
    };
    if unpacker.unpack(header, packed).is_err() {
        return Ok(Err(fault("payload-invalid")));
    }
    Ok(Ok(unpacker.again(header, &[])))
}
