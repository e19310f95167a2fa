//! Files written by back ends: each appears when it is complete.

use crate::fault::{Result, of_file};
use quipu_model::fresh::{Folder, Fresh, Replace, cannot};
use quipu_source::OutputFile;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// The destination of a back end's files.
#[derive(Clone, Debug)]
pub struct Files(Where);

#[derive(Clone, Debug)]
enum Where {
    /// A new folder, which appears when all of it is complete.
    Whole(Folder),
    /// An existing folder; each file replaces one of the same name.
    Each(PathBuf),
}

impl Files {
    /// Files in a folder that is being written.
    #[must_use]
    pub fn whole(folder: Folder) -> Files {
        Files(Where::Whole(folder))
    }

    /// Files in an existing folder, as Prism's back ends write them: each replaces one of the same name.
    #[must_use]
    pub fn each(folder: impl Into<PathBuf>) -> Files {
        Files(Where::Each(folder.into()))
    }

    /// Creates a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be created.
    pub fn create(&self, name: &str) -> Result<NewFile> {
        match &self.0 {
            Where::Whole(folder) => {
                let path = folder.join(name);
                Ok(NewFile { file: folder.create(&path).map_err(of_file)?, fresh: None, path })
            }
            Where::Each(folder) => {
                let path = folder.join(name);
                let (fresh, file) = Fresh::file(&path, Replace::Allowed).map_err(of_file)?;
                Ok(NewFile { file, fresh: Some(fresh), path })
            }
        }
    }

    /// Writes a file.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(name)?;
        let written = file.write_all(bytes);
        written.map_err(|cause| of_file(cannot("write", &file.path, cause)))?;
        file.finish()
    }
}

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: OutputFile,
    fresh: Option<Fresh>,
    path: PathBuf,
}

impl NewFile {
    /// The path at which it is written.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Gives the file its name; in a new folder, the folder gets its name later.
    ///
    /// # Errors
    /// Returns an error if that fails; the file does not exist then.
    pub fn finish(self) -> Result<()> {
        drop(self.file);
        self.fresh.map_or(Ok(()), Fresh::commit).map_err(of_file)
    }
}

impl Seek for NewFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
