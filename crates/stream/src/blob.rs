//! Attachments: files that a stream carries in pieces.
//!
//! For a stream that is read once, pieces are held in memory. For one that can be read at any offset, only the position of
//! each piece is kept.

use crate::finding::Finding;
use crate::ranges::Ranges;
use crate::scan::FrameAt;
use quipu_wire::cbor::{self, Value};
use std::collections::BTreeMap;
use std::ops::Range;

/// A received piece.
#[derive(Clone, Debug)]
enum Known {
    /// The bytes of the piece.
    Held(Vec<u8>),
    /// The frame that has the piece, and the length of the piece in bytes.
    Left(FrameAt, u64),
}

impl Known {
    fn len(&self) -> u64 {
        match self {
            Known::Held(bytes) => bytes.len() as u64,
            Known::Left(_, len) => *len,
        }
    }
}

/// A part of an attachment, in the order of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Range of bytes in the attachment.
    pub range: Range<u64>,
    /// The frame with a piece that has them; `None` if they are missing.
    pub frame: Option<FrameAt>,
}

/// An attachment.
#[derive(Clone, Debug, Default)]
pub struct Attachment {
    /// Producer and epoch.
    pub from: (u64, u32),
    /// Name.
    pub name: String,
    /// Media type.
    pub media: Option<String>,
    /// Length of the whole attachment in bytes.
    pub len_bytes: u64,
    /// Pieces by their offset in the attachment.
    pieces: BTreeMap<u64, Known>,
    have: Ranges,
}

impl Attachment {
    /// Whether all bytes have been received.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.have.first_missing_below(self.len_bytes).is_none()
    }

    /// The bytes of the attachment, if all have been received and are held in memory.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.is_complete().then_some(())?;
        let mut bytes = Vec::new();
        for (at, piece) in &self.pieces {
            let Known::Held(piece) = piece else { return None };
            // Pieces may overlap; the bytes that they share are equal.
            let skip = (bytes.len() as u64).saturating_sub(*at);
            bytes.extend_from_slice(piece.get(usize::try_from(skip).ok()?..).unwrap_or_default());
        }
        Some(bytes)
    }

    /// The frames that have the bytes, if they are not held in memory, with a section for each missing range.
    #[must_use]
    pub fn sections(&self) -> Vec<Section> {
        let mut all = Vec::new();
        let mut end = 0;
        for (at, piece) in &self.pieces {
            let Known::Left(frame, len) = piece else { continue };
            if *at > end {
                all.push(Section { range: end..*at, frame: None });
                end = *at;
            }
            // Pieces may overlap; the bytes that they share are equal.
            if at + len > end {
                all.push(Section { range: end..at + len, frame: Some(*frame) });
                end = at + len;
            }
        }
        if end < self.len_bytes {
            all.push(Section { range: end..self.len_bytes, frame: None });
        }
        all
    }

    /// Pieces that overlap `range`, last first.
    fn touching(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Known)> {
        let before = self.pieces.range(..range.end).rev().map(|(at, piece)| (*at, piece));
        before.take_while(move |(at, piece)| at + piece.len() > range.start)
    }

    /// Whether a piece agrees with the held pieces that it overlaps.
    fn agrees(&self, at: u64, piece: &[u8]) -> bool {
        self.touching(at..at + piece.len() as u64).all(|(start, other)| match other {
            Known::Held(other) => say_the_same((at, piece), (start, other)),
            Known::Left(..) => true,
        })
    }
}

/// Whether two pieces agree in the bytes that both have.
pub(crate) fn say_the_same(one: (u64, &[u8]), other: (u64, &[u8])) -> bool {
    let end = |(at, bytes): (u64, &[u8])| at + bytes.len() as u64;
    let (from, to) = (one.0.max(other.0), end(one).min(end(other)));
    // Inside both.
    let cut = |(at, bytes): (u64, &'_ [u8])| {
        bytes.get((from - at) as usize..(to - at) as usize).map(<[u8]>::to_vec)
    };
    from >= to || cut(one) == cut(other)
}

/// A piece of an attachment, as read from a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Name of the attachment.
    pub name: String,
    /// Media type.
    pub media: Option<String>,
    /// Bytes of the whole attachment.
    pub len_bytes: u64,
    /// Offset of the piece in the attachment.
    pub at: u64,
    /// The bytes of the piece.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// Reads the payload of an attachment frame. `None` if it is malformed.
    #[must_use]
    pub fn read(payload: &[u8]) -> Option<Piece> {
        let map = cbor::decode(payload).ok()?;
        let piece = cbor::decode_within(payload.get(map.len_bytes..)?, payload.len()).ok()?;
        let bytes = piece.value.as_bytes()?.to_vec();
        let number = |key: u64| map.value.get(key).and_then(Value::as_u64);
        let text = |key: u64| map.value.get(key).and_then(Value::as_text).map(str::to_owned);
        Some(Piece { name: text(0)?, media: text(1), len_bytes: number(2)?, at: number(3)?, bytes })
    }
}

/// All attachments of a session.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    pub(crate) all: Vec<Attachment>,
}

impl Attachments {
    /// Frames with pieces that overlap `piece` and are not held in memory.
    pub(crate) fn to_compare(&self, from: (u64, u32), piece: &Piece) -> Vec<FrameAt> {
        let known = self.all.iter().find(|known| known.from == from && known.name == piece.name);
        let Some((known, end)) = known.zip(piece.at.checked_add(piece.bytes.len() as u64)) else {
            return Vec::new();
        };
        let touching = known.touching(piece.at..end);
        let frame = |(_, known): (u64, &Known)| match known {
            Known::Left(frame, _) => Some(*frame),
            Known::Held(_) => None,
        };
        touching.filter_map(frame).collect()
    }

    /// Adds a piece; only its position if `frame` is given. Reports a finding if the piece contradicts others.
    pub(crate) fn add(
        &mut self,
        from: (u64, u32),
        piece: &Piece,
        frame: Option<&FrameAt>,
        findings: &mut Vec<Finding>,
    ) {
        let Piece { name, media, len_bytes, at, bytes } = piece;
        let (len_bytes, at) = (*len_bytes, *at);
        let known = self.all.iter().position(|known| known.from == from && known.name == *name);
        let known = known.unwrap_or_else(|| {
            self.all.push(Attachment {
                from,
                name: name.clone(),
                media: media.clone(),
                len_bytes,
                ..Attachment::default()
            });
            self.all.len() - 1
        });
        let known = &mut self.all[known];
        let end = at.checked_add(bytes.len() as u64).filter(|end| *end <= len_bytes);
        match end {
            Some(end) if known.len_bytes == len_bytes && known.agrees(at, bytes) => {
                known.have.insert(at..end);
                let longest = known.pieces.get(&at).map_or(0, Known::len);
                if end - at > longest {
                    let piece = match frame {
                        Some(frame) => Known::Left(*frame, end - at),
                        None => Known::Held(bytes.to_vec()),
                    };
                    known.pieces.insert(at, piece);
                }
            }
            _ => findings.push(conflict(name)),
        }
    }

    /// Reports incomplete attachments.
    pub(crate) fn finish(&self, findings: &mut Vec<Finding>) {
        for attachment in &self.all {
            if !attachment.is_complete() {
                let name = attachment.name.as_str();
                findings.push(Finding::new("attachment-incomplete").with("attachment", name));
            }
        }
    }
}

/// The finding for a piece that contradicts another.
pub(crate) fn conflict(name: &str) -> Finding {
    Finding::new("attachment-conflict").with("attachment", name)
}
