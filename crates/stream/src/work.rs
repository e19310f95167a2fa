//! Frames as units of work: what several threads decode side by side once the frames and their metadata are known.
//!
//! No state but metadata goes from frame to frame, so any thread can take any frame. Each has an input and a [`Worker`] of its
//! own; the caller owns the threads and hands out the frames.

use crate::batch::Batch;
use crate::codec::Unpacker;
use crate::decode::{Body, Decoder, Outcome};
use crate::finding::Finding;
use crate::frame::kind;
use crate::input::Input;
use crate::meta::Metadata;
use crate::scan::FrameAt;
use quipu_wire::crc32c;
use std::io;
use std::sync::Arc;

/// Decodes frames one after the other, keeping its memory.
#[derive(Debug, Default)]
pub struct Worker {
    unpacker: Unpacker,
    stored: Vec<u8>,
    batch: Batch,
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
        let FrameAt { offset, header } = *frame;
        if !matches!(header.kind, kind::DATA | kind::AGG)
            || !header.is_known_encoding()
            || header.is_foreign()
        {
            let records = header.records;
            work.findings.push(Finding::at("unknown-encoding", offset).with("records", records));
            work.outcome.undecoded = records.into();
            return Ok(work);
        }
        let payload = match load(&mut self.unpacker, &mut self.stored, frame, input)? {
            Ok(payload) => payload,
            Err(fault) => {
                work.findings.push(fault);
                return Ok(Work { is_damaged: true, ..work });
            }
        };
        // What the frame defines itself is known in it only: other frames have been told by the first look at all.
        let mut metadata = Arc::clone(metadata);
        let mut decoder = Decoder::new();
        let body = Body { header: &frame.header, payload, is_open: false };
        while decoder.next(&body, &mut metadata, &mut self.batch, &mut work.findings) {
            each(&self.batch);
        }
        work.outcome = decoder.outcome();
        Ok(work)
    }

    /// The payload of a frame as it is, for bodies of other formats; what is wrong with it if it is damaged.
    ///
    /// # Errors
    /// If the input cannot be read.
    pub fn body(&mut self, frame: &FrameAt, input: &mut impl Input) -> io::Result<Result<&[u8], Finding>> {
        load(&mut self.unpacker, &mut self.stored, frame, input)
    }
}

fn load<'a>(
    unpacker: &'a mut Unpacker,
    stored: &'a mut Vec<u8>,
    frame: &FrameAt,
    input: &mut impl Input,
) -> io::Result<Result<&'a [u8], Finding>> {
    let len = frame.header.stored_len as usize; // Within the limits.
    let bytes = input.get(frame.payload_at(), len)?;
    stored.clear();
    stored.extend_from_slice(&bytes[..bytes.len().min(len)]);
    let fault = |name| Finding::at(name, frame.offset).with("records", frame.header.records);
    if stored.len() < len || crc32c(stored) != frame.header.payload_crc {
        return Ok(Err(fault("payload-crc")));
    }
    Ok(unpacker.unpack(&frame.header, stored).map_err(|_| fault("payload-invalid")))
}
