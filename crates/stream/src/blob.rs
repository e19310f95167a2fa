//! Attachments: files that travel inside a stream in pieces.

use crate::finding::Finding;
use crate::ranges::Ranges;
use std::collections::BTreeMap;

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
    pieces: BTreeMap<u64, Vec<u8>>,
    have: Ranges,
}

impl Attachment {
    /// Its bytes, if all came.
    #[must_use]
    pub fn bytes(&self) -> Option<Vec<u8>> {
        self.have.first_missing_below(self.len_bytes).is_none().then_some(())?;
        let mut bytes = Vec::new();
        for (at, piece) in &self.pieces {
            // Pieces may overlap; what they share is equal.
            let skip = (bytes.len() as u64).saturating_sub(*at);
            bytes.extend_from_slice(piece.get(usize::try_from(skip).ok()?..).unwrap_or_default());
        }
        Some(bytes)
    }

    /// Whether a piece says the same as those that came before.
    fn agrees(&self, at: u64, piece: &[u8]) -> bool {
        let end = at + piece.len() as u64;
        self.pieces.range(..end).rev().take_while(|(start, other)| *start + other.len() as u64 > at).all(
            |(start, other)| {
                let (from, to) = (at.max(*start), end.min(*start + other.len() as u64));
                let cut = |of: u64, bytes: &[u8]| {
                    bytes[(from - of) as usize..(to - of) as usize].to_vec() // Inside both.
                };
                cut(at, piece) == cut(*start, other)
            },
        )
    }
}

/// A piece of an attachment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) name: &'a str,
    pub(crate) media: Option<&'a str>,
    /// Bytes of the whole attachment.
    pub(crate) len_bytes: u64,
    pub(crate) at: u64,
    pub(crate) bytes: &'a [u8],
}

/// All attachments.
#[derive(Debug, Default)]
pub(crate) struct Attachments {
    pub(crate) all: Vec<Attachment>,
}

impl Attachments {
    /// Adds a piece; a finding if it contradicts others.
    pub(crate) fn add(&mut self, from: (u64, u32), piece: &Piece<'_>, findings: &mut Vec<Finding>) {
        let Piece { name, media, len_bytes, at, bytes } = *piece;
        let known = self.all.iter().position(|known| known.from == from && known.name == name);
        let known = known.unwrap_or_else(|| {
            self.all.push(Attachment {
                from,
                name: name.to_owned(),
                media: media.map(str::to_owned),
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
                let longest = known.pieces.get(&at).map_or(0, Vec::len);
                if bytes.len() > longest {
                    known.pieces.insert(at, bytes.to_vec());
                }
            }
            _ => findings.push(Finding::new("attachment-conflict").with("attachment", name)),
        }
    }

    /// Says which are incomplete.
    pub(crate) fn finish(&self, findings: &mut Vec<Finding>) {
        for attachment in &self.all {
            if attachment.have.first_missing_below(attachment.len_bytes).is_some() {
                let name = attachment.name.as_str();
                findings.push(Finding::new("attachment-incomplete").with("attachment", name));
            }
        }
    }
}
