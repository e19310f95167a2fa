//! The loop for bytes that arrive when they like.

use crate::codec::RecordCodec;
use crate::feed::Feed;
use crate::pull::Records;
use quipu_model::{Batch, Reader, Result, Scan};

/// Records of bytes that are pushed: from a socket, say, or a program that is being traced. However the bytes are cut, the
/// batches are those of one read of all of them.
#[derive(Debug)]
pub struct Push<C: RecordCodec>(Records<C>);

impl<C: RecordCodec> Push<C> {
    /// Waits for the bytes of a trace of this name.
    ///
    /// # Errors
    /// `Unsupported` for windows of what the format does not have.
    pub fn new(codec: C, name: &str, scan: &Scan) -> Result<Push<C>> {
        Records::of(codec, |_| Ok(Feed::pushed()), None, name, scan).map(Push)
    }

    /// Takes further bytes; returns the batches that are complete now. Those that the caller leaves come with the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) -> Batches<'_, C> {
        // What is not wanted is not kept.
        if !self.0.is_over() {
            self.0.feed.push(bytes);
        }
        Batches(&mut self.0)
    }

    /// Says that there are no further bytes; returns the batches that are left.
    pub fn close(&mut self) -> Batches<'_, C> {
        self.0.feed.close();
        Batches(&mut self.0)
    }

    /// Whether no batch will come any more, whatever is pushed: the window has ended, or the trace is closed and read.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Batches of pushed bytes.
#[derive(Debug)]
pub struct Batches<'p, C: RecordCodec>(&'p mut Records<C>);

impl<C: RecordCodec> Batches<'_, C> {
    /// The next batch that is complete, or `None` if that takes more bytes.
    ///
    /// # Errors
    /// Those of the codec; there is no file that could fail.
    #[allow(clippy::should_implement_trait)] // An iterator cannot lend.
    pub fn next(&mut self) -> Result<Option<&mut Batch>> {
        self.0.read()
    }
}
