//! Where frames are read from: memory, files at any place, and pipes, which are read once and forgotten.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// How many bytes a file or pipe is read by at least.
const READ_BYTES: usize = 64 << 10;

/// How many bytes of a file are read at least after a jump: a header and the trailer before it need few.
const JUMP_BYTES: usize = 4 << 10;

/// Bytes by position.
pub trait Input {
    /// The bytes from `at` on: `len` of them or more, fewer only where the input ends.
    ///
    /// # Errors
    /// If reading fails.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]>;

    /// Says that no byte before `at` will be asked for again.
    fn forget(&mut self, _at: u64) {}
}

impl Input for &[u8] {
    fn get(&mut self, at: u64, _len: usize) -> io::Result<&[u8]> {
        Ok(usize::try_from(at).ok().and_then(|at| <[u8]>::get(self, at..)).unwrap_or_default())
    }
}

impl<I: Input + ?Sized> Input for &mut I {
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        (**self).get(at, len)
    }

    fn forget(&mut self, at: u64) {
        (**self).forget(at);
    }
}

/// A file; a window of it is held.
#[derive(Debug)]
pub struct FileInput {
    file: Arc<File>,
    size: u64,
    window: Vec<u8>,
    at: u64,
}

impl FileInput {
    /// The file as long as it is now.
    ///
    /// # Errors
    /// If its size cannot be found out.
    pub fn new(file: Arc<File>) -> io::Result<FileInput> {
        let size = file.metadata()?.len();
        Ok(FileInput { file, size, window: Vec::new(), at: 0 })
    }

    /// Bytes of the file when it was opened.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size
    }
}

#[cfg(unix)]
pub(crate) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, at)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, at)
}

impl Input for FileInput {
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let left = self.size.saturating_sub(at);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let have = at.checked_sub(self.at).and_then(|skip| usize::try_from(skip).ok());
        let inside = have.filter(|skip| skip + wanted <= self.window.len());
        let skip = match inside {
            Some(skip) => skip,
            None => {
                let end = self.at + self.window.len() as u64;
                let is_jump = at < self.at || at > end + READ_BYTES as u64;
                let least = if is_jump { JUMP_BYTES } else { READ_BYTES };
                let size = usize::try_from(left).unwrap_or(usize::MAX).min(len.max(least));
                self.window.resize(size, 0);
                self.at = at;
                let mut n = 0;
                while n < size {
                    match read_at(&self.file, &mut self.window[n..], at + n as u64) {
                        Ok(0) => break,
                        Ok(more) => n += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                self.window.truncate(n);
                0
            }
        };
        Ok(self.window.get(skip..).unwrap_or_default())
    }
}

/// What is read once, from its beginning to its end.
#[derive(Debug)]
pub struct Pipe<R> {
    source: R,
    buffer: Vec<u8>,
    at: u64,
    ended: bool,
}

impl<R: Read> Pipe<R> {
    /// Reads `source`.
    pub fn new(source: R) -> Pipe<R> {
        Pipe { source, buffer: Vec::new(), at: 0, ended: false }
    }
}

impl<R: Read> Input for Pipe<R> {
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let skip = usize::try_from(at.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = skip.saturating_add(len);
        // The buffer grows by what comes, not by what was announced.
        while !self.ended && self.buffer.len() < wanted {
            let old = self.buffer.len();
            self.buffer.resize(old + READ_BYTES, 0);
            match self.source.read(&mut self.buffer[old..]) {
                Ok(0) => {
                    self.ended = true;
                    self.buffer.truncate(old);
                }
                Ok(n) => self.buffer.truncate(old + n),
                Err(error) => {
                    self.buffer.truncate(old);
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(self.buffer.get(skip..).unwrap_or_default())
    }

    fn forget(&mut self, at: u64) {
        let n = usize::try_from(at.saturating_sub(self.at)).unwrap_or(usize::MAX).min(self.buffer.len());
        // Moving the rest to the front is paid by what is dropped.
        if n >= READ_BYTES && n >= self.buffer.len() / 2 {
            self.buffer.drain(..n);
            self.at += n as u64;
        }
    }
}
