//! A file that is open only while bytes are appended to it, so that hundreds of files may be in the making where the system
//! lets a process have few of them open.

use quipu_source::{Closings, OutputFile};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file in the making. Each write opens and closes it, so writes should be large.
#[derive(Debug)]
pub(super) struct Appended {
    path: PathBuf,
}

impl Appended {
    /// Makes a file that must not exist yet.
    ///
    /// # Errors
    /// As [`OutputFile::create_new`].
    pub(super) fn create_new(path: &Path) -> io::Result<Appended> {
        let closings = Closings::default();
        drop(OutputFile::create_new(path, &closings)?);
        closings.take_failed().map_or(Ok(Appended { path: path.to_owned() }), |(_, cause)| Err(cause))
    }
}

impl Write for Appended {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let closings = Closings::default();
        let mut file = OutputFile::new(File::options().append(true).open(&self.path)?, &self.path, &closings);
        let n = file.write(bytes)?;
        drop(file);
        closings.take_failed().map_or(Ok(n), |(_, cause)| Err(cause))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Only archives are written with places to come back to.
impl Seek for Appended {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
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
        assert!(files[0].seek(SeekFrom::Start(0)).is_err());
    }
}
