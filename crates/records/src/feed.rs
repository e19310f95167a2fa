//! Blocks of a stream, or pushed bytes → consecutive bytes in place.

use crate::codec::Ending;
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Container, Stream, StreamOptions};

/// Fewer bytes are cheap to move again and again.
const FEW_BYTES: usize = 1 << 10;

/// Bytes on their way to records.
#[derive(Debug)]
pub struct Feed {
    from: From,
    /// The current bytes; those before `at` are used up.
    bytes: Vec<u8>,
    at: usize,
    /// Offset of `bytes[0]` in the inflated stream.
    base: u64,
    /// The next block, as far as `bytes` does not have it already, and the offset of its first byte.
    next: Vec<u8>,
    next_at: usize,
    next_base: u64,
    /// Bytes of all blocks so far.
    n_fetched: u64,
    /// Has the memory of a block while `bytes` are those that lie across two.
    spare: Vec<u8>,
    is_over: bool,
    failure: Option<Error>,
    failed_at: Option<u64>,
}

/// Where blocks come from.
#[derive(Debug)]
enum From {
    Stream(Stream),
    /// Bytes that were pushed and not yet fetched.
    Pushed {
        waiting: Vec<u8>,
        is_closed: bool,
    },
}

impl Feed {
    /// Begins to read all members of a container.
    ///
    /// # Errors
    /// What the source says.
    pub fn new(container: &Container, options: &StreamOptions) -> Result<Feed> {
        Ok(Feed::of(From::Stream(container.stream(container.all_members(), options)?), 0))
    }

    /// Begins in the middle of the only member: at a place in the file that has this offset in the stream.
    ///
    /// # Errors
    /// What the source says.
    pub fn at_place(
        container: &Container,
        packed_at: u64,
        offset: u64,
        options: &StreamOptions,
    ) -> Result<Feed> {
        Ok(Feed::of(From::Stream(container.stream_at(packed_at, options)?), offset))
    }

    /// Waits for bytes that are [pushed](Feed::push).
    pub fn pushed() -> Feed {
        Feed::of(From::Pushed { waiting: Vec::new(), is_closed: false }, 0)
    }

    fn of(from: From, offset: u64) -> Feed {
        Feed {
            from,
            bytes: Vec::new(),
            at: 0,
            base: offset,
            next: Vec::new(),
            next_at: 0,
            next_base: offset,
            n_fetched: offset,
            spare: Vec::new(),
            is_over: false,
            failure: None,
            failed_at: None,
        }
    }

    /// Adds bytes to a feed that waits for such.
    pub fn push(&mut self, bytes: &[u8]) {
        if let From::Pushed { waiting, .. } = &mut self.from {
            waiting.extend_from_slice(bytes);
        }
    }

    /// Says that no further bytes will be pushed.
    pub fn close(&mut self) {
        if let From::Pushed { is_closed, .. } = &mut self.from {
            *is_closed = true;
        }
    }

    /// Whether more bytes may be pushed, so that their lack is not the end.
    pub fn is_waiting(&self) -> bool {
        matches!(self.from, From::Pushed { is_closed: false, .. })
    }

    /// The current bytes that were not used.
    #[inline]
    pub fn unused(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// All current bytes, those that were used included.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where in [`bytes`](Feed::bytes) the unused ones begin.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Passes bytes that were used.
    #[inline]
    pub fn use_up(&mut self, n_bytes: usize) {
        self.at = self.at.saturating_add(n_bytes).min(self.bytes.len());
    }

    /// Makes the bytes from this position of [`bytes`](Feed::bytes) on the unused ones.
    #[inline(always)]
    pub fn go_to(&mut self, at: usize) {
        self.at = at.min(self.bytes.len());
    }

    /// Offset of the first unused byte in the inflated stream.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Offset of the first byte that was not fetched.
    pub fn fetched(&self) -> u64 {
        self.n_fetched
    }

    /// Offset of the first of the current bytes.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// How the data ends after the unused bytes; `None` while more may follow.
    pub fn ending(&self) -> Option<Ending> {
        if !self.is_over || self.next_at < self.next.len() {
            return None;
        }
        Some(match self.failure.as_ref().map(Error::kind) {
            None => Ending::Whole,
            Some(ErrorKind::Io | ErrorKind::Malformed) => Ending::Unread,
            Some(_) => Ending::Cut,
        })
    }

    /// Whether the stream has ended or failed, and all of it has been fetched.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What the stream failed with after the current bytes, once.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Keeps a failure for the next request.
    pub fn put_back(&mut self, failure: Error) {
        self.failure = Some(failure);
    }

    /// Where in the file the stream failed, if it did and that is known.
    pub fn failed_at(&self) -> Option<u64> {
        self.failed_at
    }

    /// Puts bytes before the current ones. None of the latter may be used up.
    pub fn prepend(&mut self, bytes: &[u8]) {
        self.bytes.splice(..0, bytes.iter().copied());
        self.base -= (bytes.len() as u64).min(self.base);
    }

    /// Gets more bytes, until `n_bytes` are unused; false if there are fewer. What lies across two blocks is joined, and the
    /// bytes after it stay where they are: for callers that know how many bytes they want.
    #[cold]
    pub fn more(&mut self, n_bytes: usize) -> bool {
        if self.unused().len() >= n_bytes {
            return true;
        }
        if self.unused().is_empty() {
            if !self.fetch() {
                return false;
            }
            std::mem::swap(&mut self.bytes, &mut self.next);
            (self.at, self.base) = (self.next_at, self.next_base);
            // PERF: blocks keep their length when they are used up, since the stream zeroes what it makes longer.
            if self.next.len() < self.spare.len() {
                std::mem::swap(&mut self.next, &mut self.spare);
            }
            self.next_at = self.next.len();
        } else if self.at > 0 {
            let rest = &self.bytes[self.at..];
            if rest.len() <= FEW_BYTES {
                self.spare.clear();
                self.spare.extend_from_slice(rest);
                std::mem::swap(&mut self.bytes, &mut self.spare);
            } else {
                self.bytes.drain(..self.at);
            }
            self.base += self.at as u64;
            self.at = 0;
        }
        while self.unused().len() < n_bytes {
            if !self.fetch() {
                return false;
            }
            let rest = &self.next[self.next_at..];
            let missing = n_bytes - self.unused().len();
            let n_taken = if n_bytes <= FEW_BYTES { missing.min(rest.len()) } else { rest.len() };
            self.bytes.extend_from_slice(&rest[..n_taken]);
            self.next_at += n_taken;
        }
        true
    }

    /// Gets whole blocks, until `n_bytes` are unused or no more are to be had; false if none came. For callers that cannot say
    /// how many bytes they want.
    pub fn more_blocks(&mut self, n_bytes: usize) -> bool {
        self.bytes.drain(..self.at);
        self.base += self.at as u64;
        self.at = 0;
        let n_before = self.bytes.len();
        while self.bytes.len() < n_bytes && self.fetch() {
            if self.bytes.is_empty() && self.next_at == 0 {
                std::mem::swap(&mut self.bytes, &mut self.next);
            } else {
                self.bytes.extend_from_slice(&self.next[self.next_at..]);
            }
            self.next_at = self.next.len();
        }
        self.bytes.len() > n_before
    }

    /// Makes sure that the next block has bytes; false if there are none.
    fn fetch(&mut self) -> bool {
        while self.next_at >= self.next.len() {
            if self.is_over {
                return false;
            }
            self.next_at = 0;
            match &mut self.from {
                From::Stream(stream) => match stream.next(&mut self.next) {
                    Ok(Some(_)) => {}
                    Ok(None) => {
                        self.next.clear();
                        self.is_over = true;
                    }
                    Err(error) => {
                        self.next.clear();
                        self.is_over = true;
                        self.failed_at = error.packed_offset();
                        self.failure = Some(error.into());
                    }
                },
                From::Pushed { waiting, is_closed } => {
                    self.next.clear();
                    std::mem::swap(&mut self.next, waiting);
                    if self.next.is_empty() {
                        self.is_over = *is_closed;
                        return false;
                    }
                }
            }
            self.next_base = self.n_fetched;
            self.n_fetched += self.next.len() as u64;
        }
        true
    }
}
