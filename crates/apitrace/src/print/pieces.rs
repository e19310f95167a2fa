//! Text that all calls of a function share: its name, and the text between its arguments.
//!
//! Each function's pieces are made once, at its first call, and appended for every call. PERF: this replaces about five short
//! copies for each argument by one (`view`).

use super::settings::PrintForm;
use super::text::{Ink, push_short};
use crate::record::NO_SIDE_EFFECTS;
use quipu_model::values::FunctionType;

/// Pieces up to this length are copied in one step, together with the bytes after them.
const SHORT_BYTES: usize = 32;

/// The pieces of all functions that were called so far.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// Index of each function's first entry in `ends` plus one, by type; 0 for unknown functions.
    first: Vec<u32>,
    /// Offset of the end of each piece in the text.
    ends: Vec<u32>,
    /// All pieces, then padding so that short pieces can be copied with the bytes after them.
    text: Vec<u8>,
}

/// Empty pieces, for values printed without a function.
pub(super) static NONE: Pieces = Pieces { first: Vec::new(), ends: Vec::new(), text: Vec::new() };

impl Pieces {
    /// Makes the pieces of a function: piece 0 is the text up to the first value, piece `n` the text before value `n`.
    #[inline]
    pub(super) fn learn(&mut self, ty: u32, function: &FunctionType, settings: &PrintForm, ink: &Ink) {
        if self.first.get(ty as usize).is_none_or(|first| *first == 0) {
            self.make(ty as usize, function, settings, ink);
        }
    }

    fn make(&mut self, ty: usize, function: &FunctionType, settings: &PrintForm, ink: &Ink) {
        if self.first.len() <= ty {
            self.first.resize(ty + 1, 0);
        }
        self.text.truncate(self.text.len().saturating_sub(SHORT_BYTES));
        // The names in a trace have fewer than 2^32 bytes.
        self.ends.push(self.text.len() as u32);
        self.first[ty] = self.ends.len() as u32;
        let text = &mut self.text;
        text.extend_from_slice(if function.flags & NO_SIDE_EFFECTS != 0 { ink.normal } else { ink.bold });
        text.extend_from_slice(&function.name);
        text.extend_from_slice(ink.normal);
        text.push(b'(');
        for (i, name) in function.args.iter().enumerate() {
            if i > 0 {
                self.ends.push(text.len() as u32);
                text.extend_from_slice(b", ");
            }
            if settings.arg_names {
                text.extend_from_slice(name);
                text.extend_from_slice(ink.normal);
                text.extend_from_slice(b" = ");
            }
        }
        self.ends.push(text.len() as u32);
        text.extend_from_slice(&[0; SHORT_BYTES]);
    }

    /// Appends a piece of a function that [`learn`](Pieces::learn) was called for.
    #[inline]
    pub(super) fn push(&self, ty: u32, piece: u32, out: &mut Vec<u8>) {
        let at = self.first.get(ty as usize).map_or(0, |first| *first as usize) + piece as usize;
        let (Some(start), Some(end)) = (self.ends.get(at.wrapping_sub(1)), self.ends.get(at)) else { return };
        let (start, end) = (*start as usize, *end as usize);
        match self.text.get(start..).and_then(<[u8]>::first_chunk::<SHORT_BYTES>) {
            Some(short) if end - start <= SHORT_BYTES => push_short(*short, end - start, out),
            _ => out.extend_from_slice(&self.text[start..end]),
        }
    }
}
