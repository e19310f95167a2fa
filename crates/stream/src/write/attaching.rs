//! Writes attachments incrementally.

use super::{FRAME_BYTES_LIVE, Writer};
use crate::frame::kind;
use quipu_wire::cbor::Value;
use std::io::{self, Write};

/// Writes an attachment in pieces of one frame each; see [`Writer::attaching`].
#[derive(Debug)]
pub struct Attaching<W> {
    pub(super) writer: Writer<W>,
    pub(super) name: String,
    pub(super) media: Option<String>,
    pub(super) len_bytes: u64,
    /// Number of bytes written as frames.
    pub(super) at: u64,
    pub(super) piece: Vec<u8>,
}

impl<W: Write> Attaching<W> {
    /// Writes the last piece. If fewer bytes were written than announced, readers report the attachment as incomplete.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        if !self.piece.is_empty() || self.len_bytes == 0 { self.frame() } else { Ok(()) }
    }

    fn frame(&mut self) -> io::Result<()> {
        let uint = Value::Uint;
        let mut pairs = vec![
            (uint(0), Value::Text(self.name.clone())),
            (uint(2), uint(self.len_bytes)),
            (uint(3), uint(self.at)),
        ];
        pairs.extend(self.media.iter().map(|media| (uint(1), Value::Text(media.clone()))));
        let mut payload = Value::Map(pairs).to_bytes();
        self.at += self.piece.len() as u64;
        Value::Bytes(std::mem::take(&mut self.piece)).encode(&mut payload);
        self.writer.item(kind::BLOB, 0, payload)
    }
}

impl<W: Write> Write for Attaching<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(FRAME_BYTES_LIVE - self.piece.len());
        if self.at + (self.piece.len() + n) as u64 > self.len_bytes {
            let what = format!("more bytes of `{}` than were announced", self.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        self.piece.extend_from_slice(&bytes[..n]);
        if self.piece.len() == FRAME_BYTES_LIVE {
            self.frame()?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W> Drop for Attaching<W> {
    fn drop(&mut self) {
        let mut state = self.writer.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.n_attaching = state.n_attaching.saturating_sub(1);
    }
}
