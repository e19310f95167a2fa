//! Turns blocks of a stream, or pushed bytes, into consecutive bytes in place.

use crate::codec::Ending;
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Container, Stream, StreamOptions};

/// Fewer bytes than this are cheap to move repeatedly.
const FEW_BYTES: usize = 1 << 10;

/// A buffer between a stream and a decoder of records.
#[derive(Debug)]
pub struct Feed {
    from: From,
    /// The current bytes; those before `at` are consumed.
    bytes: Vec<u8>,
    at: usize,
    /// Offset of `bytes[0]` in the inflated stream.
    base: u64,
    /// The next block; bytes before `next_at` are already in `bytes`. `next_base` is the offset of its first byte.
    next: Vec<u8>,
    next_at: usize,
    next_base: u64,
    /// Number of bytes in all blocks so far.
    n_fetched: u64,
    /// Holds the memory of a block while `bytes` contains the bytes across two blocks.
    spare: Vec<u8>,
    is_over: bool,
    failure: Option<Error>,
    failed_at: Option<u64>,
}

/// The origin of blocks.
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
    /// Errors of the source.
    pub fn new(container: &Container, options: &StreamOptions) -> Result<Feed> {
        Ok(Feed::of(From::Stream(container.stream(container.all_members(), options)?), 0))
    }

    /// Begins in the middle of the only member: at a place in the file, which has this offset in the stream.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn at_place(
        container: &Container,
        packed_at: u64,
        offset: u64,
        options: &StreamOptions,
    ) -> Result<Feed> {
        Ok(Feed::of(From::Stream(container.stream_at(packed_at, options)?), offset))
    }

    /// A feed for bytes that will be [pushed](Feed::push).
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

    /// Adds bytes to a feed made by [`pushed`](Feed::pushed).
    pub fn push(&mut self, bytes: &[u8]) {
        if let From::Pushed { waiting, .. } = &mut self.from {
            waiting.extend_from_slice(bytes);
        }
    }

    /// Declares that no more bytes will be pushed.
    pub fn close(&mut self) {
        if let From::Pushed { is_closed, .. } = &mut self.from {
            *is_closed = true;
        }
    }

    /// Whether more bytes may be pushed, so that a lack of bytes is not the end.
    pub fn is_waiting(&self) -> bool {
        matches!(self.from, From::Pushed { is_closed: false, .. })
    }

    /// The current bytes that are not consumed.
    #[inline]
    pub fn unused(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// All current bytes, consumed ones included.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Index in [`bytes`](Feed::bytes) of the first unconsumed byte.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Consumes bytes.
    #[inline]
    pub fn use_up(&mut self, n_bytes: usize) {
        self.at = self.at.saturating_add(n_bytes).min(self.bytes.len());
    }

    /// Consumes the bytes before this index in [`bytes`](Feed::bytes), and no others.
    #[inline(always)]
    pub fn go_to(&mut self, at: usize) {
        self.at = at.min(self.bytes.len());
    }

    /// Offset of the first unconsumed byte in the inflated stream.
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

    /// The way in which the data ends after the unconsumed bytes; `None` while more may follow.
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

    /// Takes the error of the stream after the current bytes; `None` if there is none.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Stores an error for the next call of [`take_failure`](Feed::take_failure).
    pub fn put_back(&mut self, failure: Error) {
        self.failure = Some(failure);
    }

    /// Offset in the file where the stream failed, if it did and the offset is known.
    pub fn failed_at(&self) -> Option<u64> {
        self.failed_at
    }

    /// Inserts bytes before the current ones; none of the current ones may be consumed.
    pub fn prepend(&mut self, bytes: &[u8]) {
        self.bytes.splice(..0, bytes.iter().copied());
        self.base -= (bytes.len() as u64).min(self.base);
    }

    /// Gets more bytes until `n_bytes` are unconsumed; false if there are fewer. Only the bytes across two blocks are joined;
    /// the bytes after them stay in place. For callers that know how many bytes they need.
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
            // PERF: used blocks keep their length, because the stream zeroes bytes when it makes a block longer.
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

    /// Gets whole blocks until `n_bytes` are unconsumed or the data ends; false if none came. For callers that do not know
    /// how many bytes they need.
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

    /// Makes sure that the next block has bytes; false if there are none left.
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
