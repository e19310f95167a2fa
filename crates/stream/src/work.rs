//! Frames as units of work: what several threads decode side by side once the frames and their metadata are known.
//!
//! No state but metadata goes from frame to frame, so any thread can take any frame. Each has an input and a [`Worker`] of its
//! own; the caller owns the threads and hands out the frames.

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

/// Decodes frames one after the other, keeping its memory.
#[derive(Debug, Default)]
pub struct Worker {
    unpacker: Unpacker,
    stored: Vec<u8>,
    batch: Batch,
    /// The header of the frame that is being decoded, as its decoder is to see it.
    header: Header,
    /// Where its rows stand in the stored bytes, if it is an open one, and the mark of those that are valid.
    rows: Option<Range<usize>>,
    tag: u64,
    decoder: Decoder,
    /// Decoders of encodings that are not known here.
    registry: Registry,
}

/// What of a frame could not be decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Records.
    pub outcome: Outcome,
    /// What is wrong with the frame, and with metadata between its rows.
    pub findings: Vec<Finding>,
    /// Whether the payload is damaged, or cannot be unpacked.
    pub is_damaged: bool,
}

impl Worker {
    /// A worker that decodes private encodings, too.
    #[must_use]
    pub fn with_registry(registry: Registry) -> Worker {
        Worker { registry, ..Worker::default() }
    }

    /// Decodes the rows of a frame, batch by batch. A frame whose encoding has no rows that are known here, which is a body of
    /// another format or a private one, is reported as `unknown-encoding`.
    ///
    /// # Errors
    /// If the input cannot be read.
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
        // What the frame defines itself is known in it only: other frames have been told by the first look at all.
        let mut metadata = Arc::clone(metadata);
        while self.next(&mut metadata, &mut work.findings) {
            each(&self.batch);
        }
        work.outcome = self.decoder.outcome();
        Ok(work)
    }

    /// Begins with a frame of rows; gives what is wrong with it if it cannot be decoded.
    ///
    /// # Errors
    /// If the input cannot be read.
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

    /// Begins with a buffer that was being written; gives what is wrong with it if it cannot be decoded.
    ///
    /// # Errors
    /// If the input cannot be read.
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

    /// Decodes the next rows of the frame; false if there are no more. What stands between them is added to the metadata.
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

    /// The payload that [`Worker::next`] decodes.
    #[must_use]
    pub fn current(&self) -> Body<'_> {
        current((&self.header, self.tag), self.rows.clone(), &self.stored, &self.unpacker)
    }

    /// The rows that [`Worker::next`] has decoded.
    #[must_use]
    pub fn batch(&self) -> &Batch {
        &self.batch
    }

    /// The payload of the frame, unpacked: the cells of aggregations stand there.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        match &self.rows {
            Some(rows) => self.stored.get(rows.clone()).unwrap_or_default(),
            None => self.unpacker.again(&self.header, &self.stored),
        }
    }

    /// What came of the frame so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.decoder.outcome()
    }

    /// The header of the frame; of an open one with what the head of its payload says.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The payload of a frame as it is, for bodies of other formats; what is wrong with it if it is damaged. Until another frame
    /// is begun, [`Worker::payload`] gives it again.
    ///
    /// # Errors
    /// If the input cannot be read.
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

/// Reads the stored bytes of a frame; fewer if the input ends.
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
    // The trailer is looked at with the payload: an index leads to frames without a walk that would have seen it.
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
    // PERF: what is packed is unpacked from where it lies, without a copy.
    let Some(packed) = bytes.get(..len).filter(|packed| crc32c(packed) == header.payload_crc) else {
        return Ok(Err(fault("payload-crc")));
    };
    if unpacker.unpack(header, packed).is_err() {
        return Ok(Err(fault("payload-invalid")));
    }
    Ok(Ok(unpacker.again(header, &[])))
}
