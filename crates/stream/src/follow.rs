//! A file that still grows: its frames as they are finished.

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

/// How long to wait before the file is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a frame that is being written is waited for, where later ones are whole.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a file that grows has next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A frame that is whole; its payload has not been looked at.
    Frame(FrameAt),
    /// Bytes that are no frame: damage, or at the end what was not finished.
    Other(Range<u64>),
    /// Nothing yet.
    Nothing,
    /// All producers have ended, or nothing more will come.
    End,
}

/// The frames of a file that is being written, one after the other, without waiting for them.
///
/// Where room was claimed and its frame is not finished, zeros stand in the place of its sync. Buffers that a program is still
/// writing are no frames yet: [`Growing::open`] lists them.
#[derive(Debug)]
pub struct Growing {
    file: Arc<File>,
    /// Where the next frame should begin.
    at: u64,
    producers: FxHashMap<u64, Ending>,
    open: Vec<FrameAt>,
    stuck: Option<Instant>,
    is_at_end: bool,
}

impl Growing {
    /// The frames of `file`, from its first byte on.
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

    /// The file.
    #[must_use]
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Buffers that were being written, as far as the file was read.
    #[must_use]
    pub fn open(&self) -> &[FrameAt] {
        &self.open
    }

    /// Bytes of the file before the next frame.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Whether some producer was met, and each that was has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.producers.is_empty() && self.producers.values().all(Ending::is_ended)
    }

    /// What comes next. `is_over` says that nothing more will be written; it is asked before the file is looked at.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next(&mut self, mut is_over: impl FnMut() -> bool) -> io::Result<Next> {
        loop {
            if self.is_at_end {
                return Ok(Next::End);
            }
            // It is asked before the file is looked at: what was written before it ended is there.
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
            // Other bytes than a frame are passed if later frames are whole and they do not become one.
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

    /// Whether the frame at the place of the next one ends as it should; one that was torn does not.
    fn has_trailer(&self, header: &Header) -> io::Result<bool> {
        let mut trailer = [0; TRAILER_BYTES];
        let end = self.at + header.frame_len();
        let n = crate::input::read_at(&self.file, &mut trailer, end - TRAILER_BYTES as u64)?;
        let len = (header.frame_len() as u32).to_le_bytes(); // Compared as it is written.
        Ok(n == TRAILER_BYTES && trailer[..4] == len && trailer[4..] == TRAILER)
    }
}

/// Reads the frames of a file that is being written, for a [`Pipe`](crate::input::Pipe): waits where the file ends, and ends
/// when all producers have.
///
/// Buffers that a program is still writing are given out at the end, with what they have then; so places count the bytes that
/// were given out, not those of the file.
pub struct Follow {
    growing: Growing,
    /// What is given out next.
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
    /// Follows a file until its producers have ended, or `is_over` says that nothing more will come: it is asked each time
    /// before more is waited for.
    #[must_use]
    pub fn new(file: File, is_over: impl FnMut() -> bool + Send + 'static) -> Follow {
        Follow { growing: Growing::new(file), next: 0..0, open: None, is_over: Box::new(is_over) }
    }

    /// What can be given out next; nothing at the end.
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
