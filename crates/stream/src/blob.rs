//! Attachments: files that travel inside a stream in pieces.
//!
//! Pieces are held in memory where the stream goes by once; of one that can be read at any place it is remembered where they
//! stand.

use crate::finding::Finding;
use crate::ranges::Ranges;
use crate::scan::FrameAt;
use quipu_wire::cbor::{self, Value};
use std::collections::BTreeMap;
use std::ops::Range;

/// A piece as it is known.
#[derive(Clone, Debug)]
enum Known {
    /// Its bytes.
    Held(Vec<u8>),
    /// The frame that it stands in, and how many bytes it has.
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
    /// Which bytes.
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
    /// Bytes that it has in all.
    pub len_bytes: u64,
    /// Pieces by their place.
    pieces: BTreeMap<u64, Known>,
    have: Ranges,
}

impl Attachment {
    /// Whether all its bytes came.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.have.first_missing_below(self.len_bytes).is_none()
    }

    /// Its bytes, if all came and are held.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.is_complete().then_some(())?;
        let mut bytes = Vec::new();
        for (at, piece) in &self.pieces {
            let Known::Held(piece) = piece else { return None };
            // Pieces may overlap; what they share is equal.
            let skip = (bytes.len() as u64).saturating_sub(*at);
            bytes.extend_from_slice(piece.get(usize::try_from(skip).ok()?..).unwrap_or_default());
        }
        Some(bytes)
    }

    /// Where its bytes stand, if they are not held; what is missing is between.
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
            // Pieces may overlap; what they share is equal.
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

    /// Pieces that have some of these bytes.
    fn touching(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Known)> {
        let before = self.pieces.range(..range.end).rev().map(|(at, piece)| (*at, piece));
        before.take_while(move |(at, piece)| at + piece.len() > range.start)
    }

    /// Whether a piece says the same as those that are held.
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

/// A piece of an attachment, as a frame has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Name of the attachment.
    pub name: String,
    /// Media type.
    pub media: Option<String>,
    /// Bytes of the whole attachment.
    pub len_bytes: u64,
    /// Where the piece begins in it.
    pub at: u64,
    /// The piece.
    pub bytes: Vec<u8>,
}

impl Piece {
    /// Reads the payload of a frame of an attachment.
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

/// All attachments.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    pub(crate) all: Vec<Attachment>,
}

impl Attachments {
    /// Frames that have bytes of the piece, too, and are not held.
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

    /// Adds a piece, or only its place if `frame` says that; a finding if it contradicts others.
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

    /// Says which are incomplete.
    pub(crate) fn finish(&self, findings: &mut Vec<Finding>) {
        for attachment in &self.all {
            if !attachment.is_complete() {
                let name = attachment.name.as_str();
                findings.push(Finding::new("attachment-incomplete").with("attachment", name));
            }
        }
    }
}

/// What is said of a piece that contradicts another.
pub(crate) fn conflict(name: &str) -> Finding {
    Finding::new("attachment-conflict").with("attachment", name)
}
