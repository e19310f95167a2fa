//! The common part of formats that are inflated block by block: delivering the bytes of a block.

use super::End;
use crate::error::Error;
use crate::packed::Packed;

/// The current block.
#[derive(Default)]
pub(super) struct Block {
    /// Its inflated bytes.
    pub(super) bytes: Vec<u8>,
    /// An error that ends the data after these bytes.
    pub(super) fault: Option<Error>,
    /// Number of bytes that have been delivered.
    taken: usize,
}

impl Block {
    /// Empties the block for the next one.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }

    /// Copies the remaining bytes, or as many as fit, and returns their number.
    fn hand_out(&mut self, out: &mut [u8]) -> usize {
        let ready = &self.bytes[self.taken..];
        let n_bytes = ready.len().min(out.len());
        out[..n_bytes].copy_from_slice(&ready[..n_bytes]);
        self.taken += n_bytes;
        n_bytes
    }
}

/// A decompressor of such a format.
pub(super) trait Blocks {
    /// The current block.
    fn block(&mut self) -> &mut Block;

    /// Takes one step towards the next block when the current one is used up; false at the end of the data.
    fn advance(&mut self, packed: &mut Packed) -> Result<bool, Error>;

    /// See [`super::Inflater::inflate`].
    fn inflate(&mut self, packed: &mut Packed, out: &mut [u8]) -> (usize, End) {
        let mut n_out = 0;
        loop {
            n_out += self.block().hand_out(&mut out[n_out..]);
            if n_out == out.len() {
                return (n_out, End::More);
            }
            if let Some(error) = self.block().fault.take() {
                return (n_out, End::Fault(error));
            }
            match self.advance(packed) {
                Ok(true) => {}
                Ok(false) => return (n_out, End::Done),
                Err(error) => return (n_out, End::Fault(error)),
            }
        }
    }
}
