//! A file that still grows: its frames as they are finished.

use crate::frame::{Header, SYNC, kind};
use crate::input::{FileInput, Input};
use crate::scan::find_header;
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

/// Reads the frames of a file that is being written, for a [`Pipe`](crate::input::Pipe): waits where the file ends, and where
/// room was claimed and its frame is not finished, which has zeros in the place of its sync. It ends when all producers have.
///
/// Buffers that a program is still writing are given out at the end, with what they have then; so places count the bytes that
/// were given out, not those of the file.
pub struct Follow {
    file: Arc<File>,
    /// What is given out next.
    next: Range<u64>,
    /// Where the next frame should begin.
    at: u64,
    /// Producers, and whether they have ended.
    producers: FxHashMap<u64, bool>,
    open: VecDeque<Range<u64>>,
    is_over: Box<dyn FnMut() -> bool + Send>,
    stuck: Option<Instant>,
    is_at_end: bool,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Follow {
    /// Follows a file until its producers have ended, or `is_over` says that nothing more will come: it is asked each time
    /// before more is waited for.
    #[must_use]
    pub fn new(file: File, is_over: impl FnMut() -> bool + Send + 'static) -> Follow {
        Follow {
            file: Arc::new(file),
            next: 0..0,
            at: 0,
            producers: FxHashMap::default(),
            open: VecDeque::new(),
            is_over: Box::new(is_over),
            stuck: None,
            is_at_end: false,
        }
    }

    /// What can be given out next; nothing at the end.
    fn look(&mut self) -> io::Result<Option<Range<u64>>> {
        loop {
            if self.is_at_end {
                return Ok(self.open.pop_front());
            }
            // It is asked before the file is looked at: what was written before it ended is there.
            let has_ended = !self.producers.is_empty() && self.producers.values().all(|has_ended| *has_ended);
            let is_over = has_ended || (self.is_over)();
            let mut input = FileInput::new(Arc::clone(&self.file))?;
            let size = input.size_bytes();
            let head = input.get(self.at, 512)?;
            let is_begun = head.starts_with(&SYNC);
            if is_begun
                && let Ok(header) = Header::read(head)
                && self.at + header.frame_len() <= size
            {
                let frame = self.at..self.at + header.frame_len();
                self.at = frame.end;
                self.stuck = None;
                if header.kind == kind::OPEN {
                    self.open.push_back(frame);
                    continue;
                }
                let has_ended = self.producers.entry(header.producer).or_default();
                if !matches!(header.kind, kind::INDEX | kind::PAD) {
                    *has_ended = header.kind == kind::END;
                }
                return Ok(Some(frame));
            }
            let rest = self.at..size;
            if is_over {
                // Who reads it says what it is.
                (self.is_at_end, self.at) = (true, size);
                if !rest.is_empty() {
                    return Ok(Some(rest));
                }
                continue;
            }
            // Other bytes than a frame are passed if later frames are whole and they do not become one.
            let since = *self.stuck.get_or_insert_with(Instant::now);
            if since.elapsed() >= PATIENCE
                && !rest.is_empty()
                && let Ok(found) = find_header(&mut input, self.at + u64::from(is_begun))?
                && found > self.at
            {
                let passed = self.at..found;
                self.at = found;
                return Ok(Some(passed));
            }
            std::thread::sleep(PAUSE);
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
        let n = crate::input::read_at(&self.file, &mut out[..n], self.next.start)?;
        self.next.start += n as u64;
        Ok(n)
    }
}
