//! A file that is open only while bytes are written to it, so that hundreds of files can be written at the same time
//! although the system limits how many of them a process may have open.

use quipu_source::{Closings, OutputFile};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file being written. Each write opens and closes it, so writes should be large.
#[derive(Debug)]
pub(super) struct Appended {
    path: PathBuf,
    /// Offset of the next write.
    at: u64,
    len: u64,
}

impl Appended {
    /// Makes a file that must not exist yet.
    ///
    /// # Errors
    /// As [`OutputFile::create_new`].
    pub(super) fn create_new(path: &Path) -> io::Result<Appended> {
        let closings = Closings::default();
        drop(OutputFile::create_new(path, &closings)?);
        let new = Appended { path: path.to_owned(), at: 0, len: 0 };
        closings.take_failed().map_or(Ok(new), |(_, cause)| Err(cause))
    }
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let closings = Closings::default();
        let mut file = OutputFile::new(File::options().write(true).open(&self.path)?, &self.path, &closings);
        file.seek(SeekFrom::Start(self.at))?;
        let n = file.write(bytes)?;
        drop(file);
        if let Some((_, cause)) = closings.take_failed() {
            return Err(cause);
        }
        self.at += n as u64;
        self.len = self.len.max(self.at);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Appended {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_grow_and_none_of_them_is_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = |n: usize| folder.path().join(n.to_string());
        let mut files: Vec<Appended> = (0..3).map(|n| Appended::create_new(&path(n)).unwrap()).collect();
        for round in ["a", "bc"] {
            files.iter_mut().for_each(|file| file.write_all(round.as_bytes()).unwrap());
        }
        assert_eq!(std::fs::read_to_string(path(2)).unwrap(), "abc");
        assert!(Appended::create_new(&path(0)).is_err(), "it exists");
        files[0].seek(SeekFrom::Start(1)).unwrap();
        files[0].write_all(b"-").unwrap();
        assert_eq!(std::fs::read_to_string(path(0)).unwrap(), "a-c");
        assert_eq!(files[0].seek(SeekFrom::End(0)).unwrap(), 3);
    }
}
