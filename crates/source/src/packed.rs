//! A cursor over the bytes of a file as they are on disk or in a pipe, for all kinds of sources.
//!
//! Decompressors look at buffered bytes, consume what they need and ask for more. A stop keeps them inside their member of an
//! archive. This file knows nothing of formats.

use std::io;
use std::sync::Arc;

use crate::descriptors::FileReader;
use crate::map::Window;
use crate::pipe::{Pipe, Reader, read_once};
use crate::tree::Content;

/// Number of bytes requested from a file at a time.
const READ_BYTES: usize = 128 << 10;
const MIN_READ_BYTES: usize = 4 << 10;

/// Plain files smaller than this are not worth mapping.
const MIN_MAPPED_BYTES: u64 = 1 << 20;

/// The source of packed bytes.
pub(crate) enum Origin {
    /// A regular file, opened as needed.
    File(FileReader),
    /// Bytes in memory; never copied.
    Memory(Arc<[u8]>),
    /// A pipe, consumed by reading: first the bytes that were peeked at, then the rest.
    Pipe { replay: Vec<u8>, reader: Reader },
    /// The first bytes of a pipe, without consuming them.
    Peek(Arc<Pipe>),
    /// Bytes that another file carries.
    Content(Arc<dyn Content>),
}

/// A cursor over packed bytes.
pub(crate) struct Packed {
    origin: Origin,
    /// Bytes that have been read but not consumed are in `buffer[start..end]`; unused for memory.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the file of the next byte to consume.
    at: u64,
    /// Offset from which on bytes are not shown.
    stop: u64,
    request_bytes: usize,
    window: Option<Window>,
    mappable: bool,
}

impl Packed {
    pub(crate) fn new(origin: Origin) -> Packed {
        Packed::with_request(origin, READ_BYTES)
    }

    /// A cursor whose buffer is small if blocks are small: thousands of streams may be open at the same time.
    pub(crate) fn for_blocks(origin: Origin, block_bytes: usize) -> Packed {
        Packed::with_request(origin, (block_bytes / 4).clamp(MIN_READ_BYTES, READ_BYTES))
    }

    /// A cursor that requests `request_bytes` at a time; a small number suits a look at the first bytes.
    pub(crate) fn with_request(origin: Origin, request_bytes: usize) -> Packed {
        Packed {
            origin,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            at: 0,
            stop: u64::MAX,
            request_bytes,
            window: None,
            mappable: true,
        }
    }

    /// Offset in the file of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Hides bytes from this offset on.
    pub(crate) fn set_stop(&mut self, stop: u64) {
        self.stop = stop;
    }

    /// Size of the file in bytes, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.origin {
            Origin::File(file) => Some(file.id().size),
            Origin::Memory(bytes) => Some(bytes.len() as u64),
            Origin::Content(content) => Some(content.len_bytes()),
            Origin::Pipe { .. } | Origin::Peek(_) => None,
        }
    }

    /// Number of bytes before the stop or the end of the file, if known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self.size() {
            Some(size) => Some(size.min(self.stop).saturating_sub(self.at)),
            None if self.stop == u64::MAX => None,
            None => Some(self.stop.saturating_sub(self.at)),
        }
    }

    /// Offset at which bytes can be read again if the next one cannot; `None` if unknown.
    pub(crate) fn next_readable(&self) -> Option<u64> {
        match &self.origin {
            Origin::Content(content) => content.next_readable(self.at),
            _ => None,
        }
    }

    /// True if the bytes end here because of the stop, not because of the end of the file.
    pub(crate) fn is_at_stop(&self) -> bool {
        self.at >= self.stop && self.size().is_none_or(|size| self.stop < size)
    }

    /// Shows the next bytes without consuming them: at least `wanted`, fewer only at the end.
    ///
    /// Callers must bound `wanted` by a constant, because the buffer grows to it.
    pub(crate) fn fill(&mut self, wanted: usize) -> io::Result<&[u8]> {
        let allowed = usize::try_from(self.stop.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if !matches!(self.origin, Origin::Memory(_)) {
            self.fill_buffer(wanted.min(allowed))?;
        }
        let shown = match &self.origin {
            Origin::Memory(bytes) => {
                usize::try_from(self.at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default()
            }
            _ => &self.buffer[self.start..self.end],
        };
        Ok(&shown[..shown.len().min(allowed)])
    }

    /// Reads until `wanted` bytes are buffered or the source ends.
    fn fill_buffer(&mut self, wanted: usize) -> io::Result<()> {
        if self.end - self.start >= wanted {
            return Ok(());
        }
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = wanted.max(self.request_bytes);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        while self.end < wanted {
            let from = self.at + self.end as u64;
            // The buffer may have grown for a longer request before.
            let got = self.origin.read_at(from, &mut self.buffer[self.end..room])?;
            if got == 0 {
                break;
            }
            self.end += got;
        }
        Ok(())
    }

    /// Consumes bytes that `fill` has shown.
    pub(crate) fn consume(&mut self, n_bytes: usize) {
        self.at += n_bytes as u64;
        if !matches!(self.origin, Origin::Memory(_)) {
            self.start = self.end.min(self.start + n_bytes);
        }
    }

    /// Frees the buffer; its bytes are read again when they are needed. Not for pipes.
    pub(crate) fn shrink(&mut self) {
        if matches!(self.origin, Origin::File(_)) {
            (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
        }
    }

    /// Copies the next bytes into `out`, as many as there are. Bypasses the buffer if possible.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let left = usize::try_from(self.stop.saturating_sub(self.at)).unwrap_or(usize::MAX);
            let room = left.min(out.len() - done);
            let out = &mut out[done..done + room];
            let in_memory = matches!(self.origin, Origin::Memory(_));
            // A small remainder is also better served from the buffer.
            let got = if in_memory || self.start < self.end || room < self.request_bytes / 4 {
                self.fill(1).map(|shown| {
                    let n = shown.len().min(room);
                    out[..n].copy_from_slice(&shown[..n]);
                    n
                })
            } else {
                self.read_past_buffer(out)
            };
            match got {
                Ok(0) => break,
                Ok(n) if in_memory || self.start < self.end => self.consume(n),
                Ok(n) => self.at += n as u64,
                // Bytes read before the error are good; the next read will run into it again.
                Err(_) if done > 0 && matches!(self.origin, Origin::Content(_)) => break,
                Err(error) => return Err(error),
            }
            done += got.unwrap_or(0);
        }
        Ok(done)
    }

    /// Reads directly from the source; copies from a map if that is allowed and faster.
    fn read_past_buffer(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let at = self.at;
        if let Origin::File(file) = &self.origin
            && file.id().settled
            && file.id().size >= MIN_MAPPED_BYTES
            && self.mappable
        {
            match copy_mapped(file, &mut self.window, at, out) {
                Ok(n) => return Ok(n),
                // Some file systems cannot map. If the file itself is the problem, the read below reports it.
                Err(_) => (self.mappable, self.window) = (false, None),
            }
        }
        self.origin.read_at(at, out)
    }

    /// Moves to another offset. A pipe can only move forward, by reading; it stops early if the pipe ends early.
    pub(crate) fn seek(&mut self, to: u64) -> io::Result<()> {
        let buffered = (self.end - self.start) as u64;
        match &self.origin {
            Origin::Memory(_) => self.at = to,
            _ if to >= self.at && to - self.at <= buffered => self.consume((to - self.at) as usize),
            Origin::File(_) | Origin::Peek(_) | Origin::Content(_) => {
                (self.start, self.end, self.at) = (0, 0, to);
            }
            Origin::Pipe { .. } if to < self.at => {
                return Err(io::Error::new(io::ErrorKind::Unsupported, "a pipe cannot go back"));
            }
            Origin::Pipe { .. } => {
                self.stop = u64::MAX;
                while self.at < to {
                    let n = self.fill(1)?.len();
                    if n == 0 {
                        break;
                    }
                    let step = (to - self.at).min(n as u64) as usize;
                    self.consume(step);
                }
            }
        }
        Ok(())
    }
}

/// Copies from the window that contains `at`; maps another window if the current one does not.
fn copy_mapped(file: &FileReader, window: &mut Option<Window>, at: u64, out: &mut [u8]) -> io::Result<usize> {
    file.with_file(|open| {
        let size_now = open.metadata()?.len().min(file.id().size);
        let room = usize::try_from(size_now.saturating_sub(at)).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..room];
        if out.is_empty() {
            // The end of the file, or a truncated file; a plain read distinguishes them.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let copied = window.as_ref().map_or(Ok(0), |window| window.copy(at, out))?;
        if copied > 0 {
            return Ok(copied);
        }
        *window = None;
        let next = Window::around(open, at, size_now)?;
        let copied = next.copy(at, out)?;
        *window = Some(next);
        Ok(copied)
    })
}

impl Origin {
    /// Reads once at `at`. Pipes are read in order only: `at` must then be the number of bytes read so far.
    fn read_at(&mut self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        match self {
            Origin::File(file) => {
                let left = file.id().size.saturating_sub(at);
                let room = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
                if room == 0 {
                    return Ok(0);
                }
                match file.read_at(at, &mut out[..room])? {
                    0 => Err(io::Error::other("the file was cut while it was read")),
                    n => Ok(n),
                }
            }
            Origin::Memory(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or_default();
                let n = rest.len().min(out.len());
                out[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
            Origin::Pipe { replay, reader } => {
                let rest = usize::try_from(at).ok().and_then(|at| replay.get(at..)).unwrap_or_default();
                if rest.is_empty() {
                    *replay = Vec::new();
                    return read_once(reader, out);
                }
                let n = rest.len().min(out.len());
                out[..n].copy_from_slice(&rest[..n]);
                Ok(n)
            }
            Origin::Peek(pipe) => pipe.peek(at, out),
            Origin::Content(content) => content.read_at(at, out),
        }
    }
}
