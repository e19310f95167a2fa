//! Sources of frames: memory, files with random access, and pipes, which are read once.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// Minimum number of bytes per read of a file or pipe.
const READ_BYTES: usize = 64 << 10;

/// Minimum number of bytes read from a file after a jump: a header and the trailer before it need few.
const JUMP_BYTES: usize = 4 << 10;

/// Bytes addressed by their position.
pub trait Input {
    /// Returns the bytes from `at`: at least `len` of them, or fewer at the end of the input.
    ///
    /// # Errors
    /// Returns an error if reading fails.
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]>;

    /// Tells the input that no byte before `at` will be requested again.
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

/// A file, with a window of it in memory.
#[derive(Debug)]
pub struct FileInput {
    file: Arc<File>,
    size: u64,
    window: Vec<u8>,
    at: u64,
}

impl FileInput {
    /// Opens the file at its current length; bytes appended later are not read.
    ///
    /// # Errors
    /// Returns an error if the size of the file cannot be determined.
    pub fn new(file: Arc<File>) -> io::Result<FileInput> {
        let size = file.metadata()?.len();
        Ok(FileInput { file, size, window: Vec::new(), at: 0 })
    }

    /// Length of the file in bytes when it was opened.
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

/// A source that is read once, from beginning to end.
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
        // The buffer grows by the bytes that arrive, not by a length that the input announces.
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
        // The rest is moved only if at least as much is dropped, so the cost is amortised.
        if n >= READ_BYTES && n >= self.buffer.len() / 2 {
            self.buffer.drain(..n);
            self.at += n as u64;
        }
    }
}

/// Several files as one stream of concatenated bytes.
#[derive(Debug)]
pub struct Chain {
    /// Files, each with its offset in the stream.
    files: Vec<(u64, FileInput)>,
    joined: Vec<u8>,
}

impl Chain {
    /// Chains files in this order.
    #[must_use]
    pub fn new(files: impl IntoIterator<Item = FileInput>) -> Chain {
        let mut at = 0;
        let files = files.into_iter().map(|file| {
            let begin = at;
            at += file.size_bytes();
            (begin, file)
        });
        Chain { files: files.collect(), joined: Vec::new() }
    }

    /// Total length of all files in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files.last().map_or(0, |(begin, file)| begin + file.size_bytes())
    }
}

impl Input for Chain {
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let mut nth = self.files.partition_point(|(begin, _)| *begin <= at).saturating_sub(1);
        let Some((begin, file)) = self.files.get(nth) else { return Ok(&[]) };
        let left = (begin + file.size_bytes()).saturating_sub(at);
        let is_last = nth + 1 == self.files.len();
        if is_last || left >= len as u64 {
            let (begin, file) = &mut self.files[nth];
            return file.get(at - *begin, len);
        }
        self.joined.clear();
        let mut from = at;
        while self.joined.len() < len
            && let Some((begin, file)) = self.files.get_mut(nth)
        {
            let wanted = len - self.joined.len();
            let bytes = file.get(from - *begin, wanted)?;
            self.joined.extend_from_slice(&bytes[..bytes.len().min(wanted)]);
            nth += 1;
            from = self.files.get(nth).map_or(from, |(begin, _)| *begin);
        }
        Ok(&self.joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = |nth: usize, bytes: &[u8]| {
            let path = folder.path().join(nth.to_string());
            std::fs::write(&path, bytes).unwrap();
            FileInput::new(Arc::new(File::open(path).unwrap())).unwrap()
        };
        let parts: [&[u8]; 5] = [b"ab", b"", b"c", b"defg", b""];
        let mut chain = Chain::new(parts.iter().enumerate().map(|(nth, bytes)| file(nth, bytes)));
        assert_eq!(chain.size_bytes(), 7);
        for at in 0..9_u64 {
            for len in 0..9 {
                let wanted = b"abcdefg".get(at as usize..).unwrap_or_default();
                let got = chain.get(at, len).unwrap();
                let least = len.min(wanted.len());
                assert!(got.len() >= least && wanted.starts_with(got), "{at} {len} {got:?}");
            }
        }
    }
}
