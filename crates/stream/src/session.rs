//! State of a stream while its frames are read: order, metadata, losses, clocks, attachments, ends.
//!
//! A session takes every frame once, in the order of the file ([`Session::observe`]). It handles all kinds except data
//! frames, which the reader decodes when it suits, with the metadata of their epoch.

use crate::blob::{self, Attachment, Attachments, Piece};
use crate::clock::Correlation;
use crate::codec::{PayloadFault, Unpacker};
use crate::decode::{Outcome, Registry};
use crate::ending::Ending;
use crate::finding::Finding;
use crate::frame::{HEADER_BYTES, Header, flag, kind};
use crate::input::Input;
use crate::loss::{Loss, LossLog, LostAfter};
use crate::meta::Metadata;
use crate::order::{Order, Verdict};
use crate::ranges::Ranges;
use crate::scan::FrameAt;
use quipu_wire::cbor::{self, Value};
use quipu_wire::{crc32c, crc32c_append};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Length of an index entry in bytes.
pub(crate) const INDEX_ENTRY_BYTES: usize = 56;

/// Bytes before the entries of an index.
pub(crate) const INDEX_HEAD_BYTES: usize = 16;

/// Length of the head of an open frame's payload, in bytes.
pub const OPEN_HEAD_BYTES: usize = 64;

/// Number of frames remembered, to compare with indexes.
const MAX_FRAMES: usize = 4 << 20;

/// The work left to the reader for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No work is left.
    Nothing,
    /// The frame has records or a body to decode.
    Data,
    /// Another copy of a frame with records or a body, useful if the first one proves damaged.
    Copy,
    /// An open frame, to be read after all others.
    Open,
    /// Reading has to stop at this frame.
    Stop,
}

/// The head of an open frame's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHead {
    /// State: 0 vacant, 1 open, 2 closed in place.
    pub state: u32,
    /// Stream.
    pub stream: u32,
    /// The sequence number of the rows as a frame.
    pub seq: u64,
    /// Number of metadata records needed to read the rows.
    pub meta_version: u32,
    /// Number of records lost before these rows.
    pub lost: u32,
    /// Smallest time, if known.
    pub ts_first: u64,
    /// Largest time, if closed.
    pub ts_last: u64,
    /// Bytes of rows, if closed.
    pub used: u32,
    /// Number of records, if closed.
    pub records: u32,
    /// Checksum over head and rows, if closed.
    pub crc: u32,
    /// Tag of valid records, for private encodings.
    pub tag: u64,
}

impl OpenHead {
    /// Whether the buffer, whose current bytes are `bytes`, still holds the rows that this head describes: a running program
    /// may have reused it since the head was read.
    #[must_use]
    pub fn is_still(&self, bytes: &[u8]) -> bool {
        OpenHead::read(bytes).is_some_and(|now| {
            now.state != 0 && (now.stream, now.seq, now.tag) == (self.stream, self.seq, self.tag)
        })
    }

    /// Reads a head; `None` if `bytes` is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<OpenHead> {
        let head: &[u8; OPEN_HEAD_BYTES] = bytes.get(..OPEN_HEAD_BYTES)?.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        Some(OpenHead {
            state: u32_at(0),
            stream: u32_at(4),
            seq: u64_at(8),
            meta_version: u32_at(16),
            lost: u32_at(20),
            ts_first: u64_at(24),
            ts_last: u64_at(32),
            used: u32_at(40),
            records: u32_at(44),
            crc: u32_at(48),
            tag: u64_at(56),
        })
    }
}

#[derive(Debug, Default)]
struct Producer {
    ending: Ending,
    /// Whether an END frame says that the producer did not end in order.
    is_out_of_order: bool,
    n_frames: u64,
    n_records: u64,
    /// For each END frame: its offset, the frame and record counts that it states, and those counted by then.
    ends: Vec<(u64, [u64; 2], [u64; 2])>,
}

/// One epoch of a producer.
#[derive(Debug, Default)]
pub struct Epoch {
    /// Metadata of the epoch.
    pub metadata: Arc<Metadata>,
    /// Missing ordinals that have been reported.
    reported: Ranges,
    /// The largest `meta_version` of a data frame.
    needed: u32,
}

/// The state of a stream.
#[derive(Debug, Default)]
pub struct Session {
    order: Order,
    producers: FxHashMap<u64, Producer>,
    /// Producers in order of appearance.
    producer_ids: Vec<u64>,
    epochs: BTreeMap<(u64, u32), Epoch>,
    log: LossLog,
    attachments: Attachments,
    /// All frames seen, in the order of the file; at most `MAX_FRAMES`.
    frames: Vec<FrameAt>,
    unpacker: Unpacker,
    undecodable: u64,
    is_stopped: bool,
    /// Clock correlations with the offset of their frame.
    clocks: Vec<(u64, Correlation)>,
    losses: Vec<(u64, u32, Loss)>,
    /// Remarks between rows, as texts.
    pub remarks: Vec<String>,
    /// Findings so far.
    pub findings: Vec<Finding>,
    /// Offsets of open frames, by producer, stream and number.
    open: BTreeMap<(u64, u32, u64), u64>,
    /// Whether the reader that decodes data frames checks their checksums.
    leaves_data: bool,
    /// Whether attachments are not held in memory; only the frames with their pieces are remembered.
    leaves_attachments: bool,
    /// A piece to compare with overlapping pieces, which are in these frames.
    compared: Option<(Piece, Vec<FrameAt>)>,
}

/// Number of records that are lost if the frame is.
fn records_of(header: &Header) -> u32 {
    if matches!(header.kind, kind::META | kind::DATA | kind::AGG) { header.records } else { 0 }
}

impl Session {
    /// A session that does not read the payloads of data frames, so that they are read only once: the reader that decodes
    /// them checks their checksums and reports damage ([`Session::note_damaged`]).
    #[must_use]
    pub fn leaving_data() -> Session {
        Session { leaves_data: true, ..Session::default() }
    }

    /// Keeps no attachments in memory, only the positions of the frames with their pieces.
    #[must_use]
    pub fn leaving_attachments(self) -> Session {
        Session { leaves_attachments: true, ..self }
    }

    /// Takes a frame whose payload can be read from `input`. The result says what is left to do.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn observe(
        &mut self,
        frame: &FrameAt,
        input: &mut impl Input,
        registry: &Registry,
    ) -> io::Result<Seen> {
        let FrameAt { offset, header } = *frame;
        let (verdict, counted) = self.count(frame);
        let len = header.stored_len as usize; // Within the limits.
        if header.kind == kind::OPEN {
            let head = input.get(frame.payload_at(), OPEN_HEAD_BYTES.min(len))?;
            return Ok(self.observe_open(frame, OpenHead::read(head)));
        }
        let is_data = matches!(header.kind, kind::DATA | kind::AGG);
        if is_data && verdict == Verdict::Use {
            let place = (self.order.place(offset, &header), offset);
            self.log.frame(place, header.producer, header.stream, header.lost);
        }
        let unknown = unknown_of(&header, registry);
        // The header is valid and says that the frame must be understood, so reading stops whether the payload is intact or not.
        if unknown.is_some() && header.has(flag::CRITICAL) {
            self.findings.push(Finding::at("needs-newer-program", offset));
            self.is_stopped = true;
            return Ok(Seen::Stop);
        }
        let is_known_data = is_data && unknown.is_none();
        if is_known_data && self.leaves_data && verdict == Verdict::Use {
            return Ok(self.need(&header));
        }
        let stored = input.get(frame.payload_at(), len)?;
        // The file may have been truncated since its frame was found.
        let stored = stored.get(..len).unwrap_or(stored);
        if stored.len() < len || crc32c(stored) != header.payload_crc {
            let records = if verdict == Verdict::Use { records_of(&header) } else { 0 };
            self.findings.push(of_kind(Finding::at("payload-crc", offset).with("records", records), &header));
            if verdict == Verdict::Use {
                self.order.damaged(&header);
            }
            return Ok(Seen::Nothing);
        }
        if verdict == Verdict::Duplicate || header.kind == kind::PAD {
            return Ok(if is_known_data { Seen::Copy } else { Seen::Nothing });
        }
        if let Some(unknown) = unknown {
            let finding = Finding::at(unknown, offset);
            self.findings.push(match unknown {
                "unknown-kind" => finding,
                _ => finding.with("records", records_of(&header)),
            });
            return Ok(Seen::Nothing);
        }
        if is_data {
            return Ok(self.need(&header));
        }
        let mut unpacker = std::mem::take(&mut self.unpacker);
        let is_right = match unpacker.unpack(&header, stored) {
            Ok(payload) => self.take(frame, payload, counted),
            Err(PayloadFault::Invalid | PayloadFault::UnknownCodec) => Err(records_of(&header)),
        };
        self.unpacker = unpacker;
        if let Err(records) = is_right {
            let finding = Finding::at("payload-invalid", offset).with("records", records);
            self.findings.push(of_kind(finding, &header));
        }
        if let Some((piece, others)) = self.compared.take() {
            self.compare_piece(frame, &piece, &others, input)?;
        }
        Ok(Seen::Nothing)
    }

    /// Takes a piece of an attachment after comparing it with the frames whose pieces overlap it.
    fn compare_piece(
        &mut self,
        frame: &FrameAt,
        piece: &Piece,
        others: &[FrameAt],
        input: &mut impl Input,
    ) -> io::Result<()> {
        for other in others {
            let len = other.header.stored_len as usize; // Within the limits.
            let stored = input.get(other.payload_at(), len)?;
            // These frames were intact when they were first read.
            let payload = self.unpacker.unpack(&other.header, stored.get(..len).unwrap_or(stored));
            let other = payload.ok().and_then(Piece::read);
            let agrees =
                |other: &Piece| blob::say_the_same((piece.at, &piece.bytes), (other.at, &other.bytes));
            if !other.as_ref().is_some_and(agrees) {
                self.findings.push(blob::conflict(&piece.name));
                return Ok(());
            }
        }
        let from = (frame.header.producer, frame.header.epoch);
        self.attachments.add(from, piece, Some(frame), &mut self.findings);
        Ok(())
    }

    /// Takes a data frame known only from an index; false if it is a duplicate.
    pub(crate) fn observe_indexed(&mut self, frame: &FrameAt) -> bool {
        self.count(frame).0 == Verdict::Use
    }

    /// Counts a frame. Returns the verdict on it, and the frame and record counts of its producer before it.
    fn count(&mut self, frame: &FrameAt) -> (Verdict, [u64; 2]) {
        let FrameAt { offset, header } = *frame;
        if self.frames.len() >= MAX_FRAMES {
            self.frames.drain(..MAX_FRAMES / 2);
        }
        self.frames.push(*frame);
        let producer = self.producers.entry(header.producer).or_insert_with(|| {
            self.producer_ids.push(header.producer);
            Producer::default()
        });
        let counted = [producer.n_frames, producer.n_records];
        let mut verdict = Verdict::Use;
        if header.kind != kind::OPEN {
            verdict = self.order.frame(offset, &header, &mut self.findings);
            if verdict == Verdict::Use {
                producer.n_frames += 1;
                if header.kind == kind::DATA {
                    producer.n_records += u64::from(header.records);
                }
            }
            producer.ending.add(&header);
        }
        (verdict, counted)
    }

    /// Notes the metadata that a data frame needs.
    fn need(&mut self, header: &Header) -> Seen {
        let epoch = self.epochs.entry((header.producer, header.epoch)).or_default();
        epoch.needed = epoch.needed.max(header.meta_version);
        Seen::Data
    }

    /// Reports a data frame with a damaged payload. `copy` is the copy used in its place, if there is one.
    pub fn note_damaged(&mut self, frame: &FrameAt, copy: Option<&FrameAt>) {
        let finding = Finding::at("payload-crc", frame.offset);
        self.findings.push(finding.with("records", records_of(&frame.header)));
        match copy {
            Some(copy) => {
                self.order.duplicates = self.order.duplicates.saturating_sub(1);
                self.findings.push(Finding::at("late-frame", copy.offset));
            }
            None => self.order.damaged(&frame.header),
        }
    }

    fn observe_open(&mut self, frame: &FrameAt, head: Option<OpenHead>) -> Seen {
        let FrameAt { offset, header } = *frame;
        if !header.is_known_encoding() {
            if header.has(flag::CRITICAL) {
                self.findings.push(Finding::at("needs-newer-program", offset));
                self.is_stopped = true;
                return Seen::Stop;
            }
            self.findings.push(Finding::at("unknown-encoding", offset).with("records", 0_u32));
            return Seen::Nothing;
        }
        let is_right = header.codec == 0 && header.mask == 0 && header.stored_len == header.raw_len;
        let Some(head) = head.filter(|head| is_right && head.state <= 2) else {
            self.findings.push(Finding::at("payload-invalid", offset).with("records", 0_u32));
            return Seen::Nothing;
        };
        if head.state == 0 {
            return Seen::Nothing;
        }
        let epoch = self.epochs.entry((header.producer, header.epoch)).or_default();
        epoch.needed = epoch.needed.max(head.meta_version);
        self.open.entry((header.producer, head.stream, head.seq)).or_insert(offset);
        Seen::Open
    }

    /// Takes the payload of a frame other than a data frame. If it is invalid, returns the number of records lost with it as
    /// the error.
    fn take(&mut self, frame: &FrameAt, payload: &[u8], counted: [u64; 2]) -> Result<(), u32> {
        let FrameAt { offset, header } = *frame;
        let from = (header.producer, header.epoch);
        match header.kind {
            kind::META => {
                let epoch = self.epochs.entry(from).or_default();
                let metadata = Arc::make_mut(&mut epoch.metadata);
                return metadata.add_frame(header.meta_version, header.records, payload, &mut self.findings);
            }
            kind::LOSS => {
                let loss = Loss::read(&only_item(payload)?).ok_or(0_u32)?;
                self.note_loss(offset, false, &header, loss);
            }
            kind::CLOCK => {
                let correlation = Correlation::read(from, &only_item(payload)?).ok_or(0_u32)?;
                self.clocks.push((offset, correlation));
            }
            kind::BLOB => {
                let piece = Piece::read(payload).ok_or(0_u32)?;
                let others = self.attachments.to_compare(from, &piece);
                if others.is_empty() {
                    let left = self.leaves_attachments.then_some(frame);
                    self.attachments.add(from, &piece, left, &mut self.findings);
                } else {
                    self.compared = Some((piece, others));
                }
            }
            kind::INDEX => self.compare_index(frame, payload)?,
            kind::END => {
                let map = only_item(payload)?;
                let number = |key: u64| map.get(key).and_then(Value::as_u64).ok_or(0_u32);
                let says = [number(1)?, number(2)?];
                if let Some(producer) = self.producers.get_mut(&header.producer) {
                    producer.is_out_of_order = map.get(0) == Some(&Value::Bool(false));
                    producer.ends.push((offset, says, counted));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares an index with the frames seen.
    fn compare_index(&mut self, frame: &FrameAt, payload: &[u8]) -> Result<(), u32> {
        let entries = payload.get(INDEX_HEAD_BYTES..).ok_or(0_u32)?;
        let count = u32::from_le_bytes(payload[..4].try_into().map_err(|_| 0_u32)?);
        if entries.len() as u64 != u64::from(count) * INDEX_ENTRY_BYTES as u64 {
            return Err(0);
        }
        for (n, entry) in entries.chunks_exact(INDEX_ENTRY_BYTES).enumerate() {
            let back = u64::from_le_bytes(entry[..8].try_into().map_err(|_| 0_u32)?);
            // Frames before the beginning of the file were cut off.
            let Some(target) = frame.offset.checked_sub(back) else { continue };
            let at = self.frames.partition_point(|known| known.offset <= target);
            let Some(known) = at.checked_sub(1).map(|at| &self.frames[at]) else { continue };
            let inside = target < known.end();
            if inside && (target != known.offset || index_entry(frame.offset, known) != *entry) {
                let finding = Finding::at("index-mismatch", frame.offset).with("entry", n as u64);
                self.findings.push(finding);
                break;
            }
        }
        Ok(())
    }

    fn note_loss(&mut self, offset: u64, inside: bool, header: &Header, loss: Loss) {
        let place = (self.order.place(offset, header), offset);
        self.log.record(place, inside, header.producer, header.stream, &loss);
        self.losses.push((offset, header.stream, loss));
    }

    /// Takes the side records of a frame.
    pub(crate) fn note_side(&mut self, frame: &FrameAt, side: &[crate::batch::Side]) {
        use crate::batch::Side;
        let from = (frame.header.producer, frame.header.epoch);
        for item in side {
            match item {
                Side::Loss(map) => {
                    if let Some(loss) = Loss::read(map) {
                        self.note_loss(frame.offset, true, &frame.header, loss);
                    }
                }
                Side::Clock(map) => {
                    self.clocks
                        .extend(Correlation::read(from, map).map(|correlation| (frame.offset, correlation)));
                }
                Side::Remark(remark) => self.remarks.push(remark.text.clone()),
            }
        }
    }

    /// The metadata of a frame's epoch.
    #[must_use]
    pub fn metadata(&self, header: &Header) -> Arc<Metadata> {
        self.epochs
            .get(&(header.producer, header.epoch))
            .map(|epoch| Arc::clone(&epoch.metadata))
            .unwrap_or_default()
    }

    /// Returns the metadata of a frame's epoch mutably, for a decoder that may add records to them.
    pub(crate) fn metadata_mut(&mut self, header: &Header) -> (&mut Arc<Metadata>, &mut Vec<Finding>) {
        let epoch = self.epochs.entry((header.producer, header.epoch)).or_default();
        (&mut epoch.metadata, &mut self.findings)
    }

    /// Whether all metadata records that a frame needs are known.
    pub(crate) fn knows_all_of(&self, header: &Header) -> bool {
        header.meta_version == 0
            || self
                .epochs
                .get(&(header.producer, header.epoch))
                .is_some_and(|epoch| epoch.metadata.first_unknown_below(header.meta_version).is_none())
    }

    /// Whether the rows of a frame may define missing metadata: the first ordinal that they would define is needed and not known.
    pub(crate) fn may_define(&self, header: &Header) -> bool {
        self.epochs.get(&(header.producer, header.epoch)).is_some_and(|epoch| {
            header.meta_version < epoch.needed && !epoch.metadata.knows(header.meta_version)
        })
    }

    /// Reports missing metadata that a frame needs, once.
    pub(crate) fn report_hole(&mut self, frame: &FrameAt, meta_version: u32) {
        let epoch = self.epochs.entry((frame.header.producer, frame.header.epoch)).or_default();
        let mut first = 0;
        let (known, reported) = (epoch.metadata.known(), &epoch.reported);
        while let Some(end) = known.end_of(first).or_else(|| reported.end_of(first)) {
            first = end;
        }
        if first < u64::from(meta_version) {
            epoch.reported.insert(0..meta_version.into());
            self.findings.push(
                Finding::new("metadata-gap")
                    .with("first_offset", frame.offset)
                    .with("have", first)
                    .with("need", meta_version),
            );
        }
    }

    /// Takes the outcome of decoding a frame.
    pub(crate) fn note_outcome(&mut self, frame: &FrameAt, records: u32, outcome: Outcome) {
        let Outcome { decoded, undecoded, has_invalid, is_broken, time_fell } = outcome;
        let missing = if frame.header.kind == kind::OPEN {
            undecoded
        } else {
            u64::from(records).saturating_sub(decoded)
        };
        self.undecodable += missing;
        if has_invalid {
            self.findings.push(Finding::at("record-invalid", frame.offset));
        }
        if is_broken {
            let left = u64::from(records).saturating_sub(decoded + undecoded);
            self.findings.push(Finding::at("payload-invalid", frame.offset).with("records", left));
        }
        if time_fell {
            self.findings.push(Finding::at("time-order", frame.offset));
        }
    }

    /// Whether another frame replaces an open one: an undamaged closed frame or an earlier open frame with the same number.
    /// The rows of the open frame are then not used.
    pub(crate) fn is_superseded(&mut self, frame: &FrameAt, head: &OpenHead) -> bool {
        let producer = frame.header.producer;
        let is = self.order.has(producer, head.stream, head.seq)
            || self.open.get(&(producer, head.stream, head.seq)).is_some_and(|first| *first != frame.offset);
        self.order.duplicates += u64::from(is);
        is
    }

    /// Counts the losses reported in the head of an open frame.
    pub(crate) fn note_open(&mut self, frame: &FrameAt, head: &OpenHead) {
        let producer = frame.header.producer;
        // The header of a closed copy with a damaged payload has reported them already.
        if !self.order.is_damaged(producer, head.stream, head.seq) {
            // Open frames can be anywhere in the file and are read last.
            self.log.frame((u64::MAX, u64::MAX), producer, head.stream, head.lost);
        }
    }

    /// Reports findings that are only certain at the end of the stream.
    pub fn finish(&mut self) {
        let Session { order, open, findings, .. } = self;
        order.finish(|producer, stream, seq| open.contains_key(&(producer, stream, seq)), findings);
        let n_omitted: u64 = self.epochs.values().map(|epoch| epoch.metadata.n_omitted()).sum();
        if n_omitted > 0 {
            self.findings.push(Finding::new("findings-omitted").with("findings", n_omitted));
        }
        if self.undecodable > 0 {
            self.findings.push(Finding::new("records-undecodable").with("records", self.undecodable));
        }
        if self.is_stopped {
            return;
        }
        for id in &self.producer_ids {
            let producer = &self.producers[id];
            if let [(offset, says, counted)] = producer.ends.as_slice()
                && self.order.is_whole(*id)
                && says != counted
                // Late frames come after the END frame.
                && *says != [producer.n_frames.saturating_sub(1), producer.n_records]
            {
                self.findings.push(Finding::at("end-mismatch", *offset));
            }
            if !producer.ending.is_ended() {
                self.findings.push(Finding::new("no-end-frame").with("producer", *id));
            }
        }
        self.attachments.finish(&mut self.findings);
    }

    /// Whether a producer ended in order; `None` if its last frame is not an END.
    #[must_use]
    pub fn ending(&self, producer: u64) -> Option<bool> {
        let known = self.producers.get(&producer).filter(|known| known.ending.is_ended())?;
        Some(!known.is_out_of_order)
    }

    /// Whether reading stopped at a frame that must be understood.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Number of duplicate frames.
    #[must_use]
    pub fn duplicates(&self) -> u64 {
        self.order.duplicates
    }

    /// Loss records with the stream of their frame, in the order of the file.
    #[must_use]
    pub fn losses(&self) -> Vec<(u32, Loss)> {
        let mut losses = self.losses.clone();
        losses.sort_by_key(|(offset, ..)| *offset);
        losses.into_iter().map(|(_, stream, loss)| (stream, loss)).collect()
    }

    /// Number of records lost, by producer and stream.
    #[must_use]
    pub fn lost(&self) -> BTreeMap<(u64, u32), u64> {
        self.log.totals()
    }

    /// Losses after the last frame of their stream, which no frame counts, by producer and stream. `last` returns the offset
    /// of the last frame of a stream.
    #[must_use]
    pub fn lost_after_all(&self, last: impl Fn(u64, u32) -> Option<u64>) -> Vec<LostAfter> {
        self.log.after_all(last)
    }

    /// Clock correlations in the order of the file.
    #[must_use]
    pub fn clocks(&self) -> Vec<Correlation> {
        let mut clocks = self.clocks.clone();
        clocks.sort_by_key(|(offset, _)| *offset);
        clocks.into_iter().map(|(_, correlation)| correlation).collect()
    }

    /// All attachments.
    #[must_use]
    pub fn attachments(&self) -> &[Attachment] {
        &self.attachments.all
    }

    /// Producers in order of appearance.
    #[must_use]
    pub fn producers(&self) -> &[u64] {
        &self.producer_ids
    }

    /// Whether a frame of this producer has been seen.
    pub(crate) fn knows(&self, producer: u64) -> bool {
        self.producers.contains_key(&producer)
    }

    /// Epochs by producer and number.
    #[must_use]
    pub fn epochs(&self) -> &BTreeMap<(u64, u32), Epoch> {
        &self.epochs
    }

    /// The frames seen, in the order of the file; if there are very many, only the newest.
    #[must_use]
    pub fn frames(&self) -> &[FrameAt] {
        &self.frames
    }
}

/// Adds the kind of a frame to a finding, unless it is a data frame.
fn of_kind(finding: Finding, header: &Header) -> Finding {
    match header.kind {
        kind::META => finding.with("frame", "metadata"),
        kind::INDEX => finding.with("frame", "index"),
        kind::END => finding.with("frame", "end"),
        kind::PAD => finding.with("frame", "padding"),
        _ => finding,
    }
}

/// The slug for the part of a frame that is not known: kind, encoding or codec.
fn unknown_of(header: &Header, registry: &Registry) -> Option<&'static str> {
    if header.kind > kind::OPEN {
        return Some("unknown-kind");
    }
    let is_registered = header.kind == kind::DATA
        && (registry.get(header.encoding).is_some() || registry.hands_out(header.encoding));
    if !(header.is_known_encoding() || is_registered) {
        return Some("unknown-encoding");
    }
    (header.codec > crate::frame::codec::ZSTD).then_some("unknown-codec")
}

/// The only CBOR item of a payload; an error if there are others.
fn only_item(payload: &[u8]) -> Result<Value, u32> {
    let item = cbor::decode(payload).map_err(|_| 0_u32)?;
    if item.len_bytes == payload.len() { Ok(item.value) } else { Err(0) }
}

/// The index entry of a frame, for an index at offset `index_at`.
pub(crate) fn index_entry(index_at: u64, frame: &FrameAt) -> [u8; INDEX_ENTRY_BYTES] {
    let header = &frame.header;
    let mut entry = [0; INDEX_ENTRY_BYTES];
    let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(index_at - frame.offset).to_le_bytes());
    put(8, &(header.frame_len() as u32).to_le_bytes()); // Within the limits.
    put(12, &[header.kind, header.codec]);
    put(14, &header.encoding.to_le_bytes());
    put(16, &header.producer.to_le_bytes());
    put(24, &header.stream.to_le_bytes());
    put(28, &header.records.to_le_bytes());
    put(32, &header.ts_first.to_le_bytes());
    put(40, &header.ts_last.to_le_bytes());
    put(48, &header.seq.to_le_bytes());
    entry
}

/// The rows of an open frame, and the header that they would have as a closed frame. `Err` if their checksum is wrong or
/// they are longer than the room.
pub(crate) fn open_rows<'a>(
    frame: &FrameAt,
    head: &OpenHead,
    payload: &'a [u8],
) -> Result<(Header, &'a [u8]), ()> {
    let room = payload.get(OPEN_HEAD_BYTES..).ok_or(())?;
    let rows = if head.state == 2 { room.get(..head.used as usize).ok_or(())? } else { room };
    if head.state == 2 && crc32c_append(crc32c(&payload[..48]), rows) != head.crc {
        return Err(());
    }
    let header = Header {
        words: (HEADER_BYTES / 8) as u8, // 12.
        stream: head.stream,
        seq: head.seq,
        meta_version: head.meta_version,
        lost: head.lost,
        ts_first: head.ts_first,
        ts_last: head.ts_last,
        records: if head.state == 2 { head.records } else { 0 },
        ..frame.header
    };
    Ok((header, rows))
}
