//! Follows a file that is still being written: returns its frames as they are finished.

use crate::ending::Ending;
use crate::frame::{Header, SYNC, TRAILER, TRAILER_BYTES, kind};
use crate::input::{FileInput, Input};
use crate::scan::{FrameAt, find_header};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause before the file is read again.
const PAUSE: Duration = Duration::from_millis(20);

/// Time to wait for an unfinished frame when later frames are whole.
const PATIENCE: Duration = Duration::from_secs(1);

/// The next item of a growing file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A whole frame; its payload has not been checked.
    Frame(FrameAt),
    /// Bytes outside frames: damage, or an unfinished frame at the end.
    Other(Range<u64>),
    /// Nothing new yet.
    Nothing,
    /// All producers have ended, or nothing more will be written.
    End,
}

/// Reads the frames of a file that is being written, one after the other, without blocking.
///
/// If room was claimed and its frame is not finished, zeros stand in place of its sync bytes. Buffers that a program is
/// still writing are not returned as frames; [`Growing::open`] lists them.
#[derive(Debug)]
pub struct Growing {
    file: Arc<File>,
    /// Offset at which the next frame should begin.
    at: u64,
    producers: FxHashMap<u64, Ending>,
    open: Vec<FrameAt>,
    stuck: Option<Instant>,
    is_at_end: bool,
}

impl Growing {
    /// Reads the frames of `file` from its first byte.
    #[must_use]
    pub fn new(file: File) -> Growing {
        Growing {
            file: Arc::new(file),
            at: 0,
            producers: FxHashMap::default(),
            open: Vec::new(),
            stuck: None,
            is_at_end: false,
        }
    }

    /// The file that is read.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Open frames, in the part of the file read so far: buffers that a program was still writing.
    #[must_use]
    pub fn open(&self) -> &[FrameAt] {
        &self.open
    }

    /// Offset of the next frame in the file.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Whether at least one producer was seen, and every producer seen has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.producers.is_empty() && self.producers.values().all(Ending::is_ended)
    }

    /// Returns the next item. `is_over` says whether nothing more will be written; it is called before the file is read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn next(&mut self, mut is_over: impl FnMut() -> bool) -> io::Result<Next> {
        loop {
            if self.is_at_end {
                return Ok(Next::End);
            }
            // Asked before the file is read: what was written before the writer ended is then in the file.
            let is_over = self.has_ended() || is_over();
            let mut input = FileInput::new(Arc::clone(&self.file))?;
            let size = input.size_bytes();
            let head = input.get(self.at, 512)?;
            let is_begun = head.starts_with(&SYNC);
            if is_begun
                && let Ok(header) = Header::read(head)
                && self.at + header.frame_len() <= size
                && self.has_trailer(&header)?
            {
                let frame = FrameAt { offset: self.at, header };
                self.at = frame.end();
                self.stuck = None;
                if header.kind == kind::OPEN {
                    self.open.push(frame);
                    continue;
                }
                self.producers.entry(header.producer).or_default().add(&header);
                return Ok(Next::Frame(frame));
            }
            let rest = self.at..size;
            let since = *self.stuck.get_or_insert_with(Instant::now);
            // Other bytes are passed over if a later frame is whole and they have not become one within the time limit.
            if (is_over || since.elapsed() >= PATIENCE)
                && !rest.is_empty()
                && let Ok(found) = find_header(&mut input, self.at + u64::from(is_begun))?
                && found > self.at
            {
                let passed = self.at..found;
                self.at = found;
                return Ok(Next::Other(passed));
            }
            if !is_over {
                return Ok(Next::Nothing);
            }
            (self.is_at_end, self.at) = (true, size);
            if !rest.is_empty() {
                return Ok(Next::Other(rest));
            }
        }
    }

    /// Whether the frame at the current offset has its trailer; a torn frame does not.
    fn has_trailer(&self, header: &Header) -> io::Result<bool> {
        let mut trailer = [0; TRAILER_BYTES];
        let end = self.at + header.frame_len();
        let n = crate::input::read_at(&self.file, &mut trailer, end - TRAILER_BYTES as u64)?;
        let len = (header.frame_len() as u32).to_le_bytes(); // Compared as it is written.
        Ok(n == TRAILER_BYTES && trailer[..4] == len && trailer[4..] == TRAILER)
    }
}

/// Reads the frames of a file that is being written, for a [`Pipe`](crate::input::Pipe). Blocks at the end of the file, and
/// ends when all producers have ended.
///
/// Buffers that a program is still writing are returned last, with the rows that they have then. So offsets count the bytes
/// returned, not those of the file.
pub struct Follow {
    growing: Growing,
    /// Range of the file to return next.
    next: Range<u64>,
    open: Option<VecDeque<Range<u64>>>,
    is_over: Box<dyn FnMut() -> bool + Send>,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("growing", &self.growing).finish_non_exhaustive()
    }
}

impl Follow {
    /// Follows a file until its producers have ended, or `is_over` says that nothing more will be written. `is_over` is
    /// called each time before waiting for more.
    #[must_use]
    pub fn new(file: File, is_over: impl FnMut() -> bool + Send + 'static) -> Follow {
        Follow { growing: Growing::new(file), next: 0..0, open: None, is_over: Box::new(is_over) }
    }

    /// The range of the file to return next; `None` at the end.
    fn look(&mut self) -> io::Result<Option<Range<u64>>> {
        loop {
            if let Some(open) = &mut self.open {
                return Ok(open.pop_front());
            }
            match self.growing.next(&mut self.is_over)? {
                Next::Frame(frame) => return Ok(Some(frame.offset..frame.end())),
                Next::Other(bytes) => return Ok(Some(bytes)),
                Next::Nothing => std::thread::sleep(PAUSE),
                Next::End => {
                    let open = self.growing.open().iter();
                    self.open = Some(open.map(|frame| frame.offset..frame.end()).collect());
                }
            }
        }
    }
}

impl Read for Follow {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.next.is_empty() {
            let Some(next) = self.look()? else { return Ok(0) };
            self.next = next;
        }
        let left = usize::try_from(self.next.end - self.next.start).unwrap_or(usize::MAX);
        let n = out.len().min(left);
        let n = crate::input::read_at(self.growing.file(), &mut out[..n], self.next.start)?;
        self.next.start += n as u64;
        Ok(n)
    }
}
