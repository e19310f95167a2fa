//! Blocks of a file → lines in place.

use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Container, Stream, StreamOptions};

/// A longer line is none.
pub(crate) const MAX_LINE_BYTES: usize = 64 << 10;

/// A file on its way to lines.
#[derive(Debug)]
pub(crate) struct Feed {
    stream: Stream,
    /// The bytes at hand; those before `at` are used up.
    bytes: Vec<u8>,
    at: usize,
    /// Offset of `bytes[0]` in the inflated file.
    base: u64,
    block: Vec<u8>,
    is_over: bool,
    /// What the file fails with behind the bytes at hand.
    failure: Option<Error>,
}

/// What stands next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line of so many bytes, its end included.
    Line(usize),
    /// A line without an end, the last one.
    Cut,
    /// The beginning of a line that is too long.
    Long,
    /// Nothing.
    End,
}

impl Feed {
    /// Begins to read.
    pub(crate) fn new(container: &Container, options: &StreamOptions) -> Result<Feed> {
        Ok(Feed {
            stream: container.stream(container.all_members(), options)?,
            bytes: Vec::new(),
            at: 0,
            base: 0,
            block: Vec::new(),
            is_over: false,
            failure: None,
        })
    }

    /// The bytes at hand that were not used.
    #[inline]
    pub(crate) fn unused(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// Goes past bytes that were used.
    #[inline]
    pub(crate) fn use_up(&mut self, n_bytes: usize) {
        self.at = (self.at + n_bytes).min(self.bytes.len());
    }

    /// Offset of the first byte that was not used.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// What the file failed with, once.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Whether the file cannot be read on behind the bytes at hand.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether that is because a disk fails or a checksum is wrong: the trace itself may go on.
    pub(crate) fn is_unread(&self) -> bool {
        let kind = self.failure.as_ref().map(Error::kind);
        matches!(kind, Some(ErrorKind::Io | ErrorKind::Malformed))
    }

    /// Looks for the end of the next line.
    pub(crate) fn next(&mut self) -> Next {
        let mut n_seen = 0;
        loop {
            let unused = self.unused();
            match memchr::memchr(b'\n', unused.get(n_seen..).unwrap_or(&[])) {
                Some(at) if n_seen + at < MAX_LINE_BYTES => return Next::Line(n_seen + at + 1),
                Some(_) => return Next::Long,
                None => n_seen = unused.len(),
            }
            if n_seen >= MAX_LINE_BYTES {
                return Next::Long;
            }
            if !self.more() {
                return if n_seen > 0 { Next::Cut } else { Next::End };
            }
        }
    }

    /// Goes past a line of any length.
    pub(crate) fn pass_line(&mut self) {
        loop {
            if let Some(at) = memchr::memchr(b'\n', self.unused()) {
                self.use_up(at + 1);
                return;
            }
            self.use_up(usize::MAX - self.at);
            if !self.more() {
                return;
            }
        }
    }

    /// Gets another block behind the bytes that were not used; false at the end of the data.
    fn more(&mut self) -> bool {
        while !self.is_over {
            match self.stream.next(&mut self.block) {
                Ok(Some(_)) if self.block.is_empty() => {}
                Ok(Some(_)) => {
                    self.bytes.drain(..self.at);
                    self.base += self.at as u64;
                    self.at = 0;
                    self.bytes.extend_from_slice(&self.block);
                    return true;
                }
                Ok(None) => self.is_over = true,
                Err(error) => {
                    self.is_over = true;
                    self.failure = Some(error.into());
                }
            }
        }
        false
    }
}
