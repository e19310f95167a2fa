//! The loop for bytes that arrive over time.

use crate::codec::RecordCodec;
use crate::feed::Feed;
use crate::pull::Records;
use quipu_model::{Batch, Reader, Result, Scan};

/// Records of pushed bytes, for example from a socket or from a program that is being traced. The batches do not depend on
/// how the bytes are divided.
#[derive(Debug)]
pub struct Push<C: RecordCodec>(Records<C>);

impl<C: RecordCodec> Push<C> {
    /// A reader that waits for the bytes of a trace with this name.
    ///
    /// # Errors
    /// `Unsupported` for windows in units that the format does not have.
    pub fn new(codec: C, name: &str, scan: &Scan) -> Result<Push<C>> {
        Records::of(codec, |_| Ok(Feed::pushed()), None, name, scan).map(Push)
    }

    /// Adds bytes; returns the batches that are now complete. Batches that the caller does not take come with the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Batches<'_, C> {
        // After the end of the read, bytes are dropped.
        if !self.0.is_over() {
            self.0.feed.push(bytes);
        }
        Batches(&mut self.0)
    }

    /// Declares that no more bytes will come; returns the remaining batches.
    pub fn close(&mut self) -> Batches<'_, C> {
        self.0.feed.close();
        Batches(&mut self.0)
    }

    /// Whether no more batches will come, even with more bytes: the window has ended, or the trace is closed and read.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Batches of pushed bytes.
#[derive(Debug)]
pub struct Batches<'p, C: RecordCodec>(&'p mut Records<C>);

impl<C: RecordCodec> Batches<'_, C> {
    /// The next complete batch, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// Errors of the codec; no file is involved.
    #[allow(clippy::should_implement_trait)] // An iterator cannot lend.
    pub fn next(&mut self) -> Result<Option<&mut Batch>> {
        self.0.read()
    }
}
