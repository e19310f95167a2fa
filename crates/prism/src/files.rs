//! Files that back ends write: each appears when it is complete.

use crate::fault::{Result, of_file};
use quipu_model::fresh::{Folder, Fresh, Replace, cannot};
use quipu_source::OutputFile;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Where the files of a back end go.
#[derive(Clone, Debug)]
pub struct Files(Where);

#[derive(Clone, Debug)]
enum Where {
    /// Into a folder that appears when all of it is complete.
    Whole(Folder),
    /// Into a folder that exists; each replaces one of its name.
    Each(PathBuf),
}

impl Files {
    /// Files of a folder that is in the making.
    #[must_use]
    pub fn whole(folder: Folder) -> Files {
        Files(Where::Whole(folder))
    }

    /// Files in a folder that exists, as Prism's back ends write them: each replaces one of its name.
    #[must_use]
    pub fn each(folder: impl Into<PathBuf>) -> Files {
        Files(Where::Each(folder.into()))
    }

    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be made.
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
    /// If it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.create(name)?;
        let written = file.write_all(bytes);
        written.map_err(|cause| of_file(cannot("write", &file.path, cause)))?;
        file.finish()
    }
}

/// A file in the making.
#[derive(Debug)]
pub struct NewFile {
    file: OutputFile,
    fresh: Option<Fresh>,
    path: PathBuf,
}

impl NewFile {
    /// Where it is written.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Gives it its name, unless its folder gets one.
    ///
    /// # Errors
    /// If that fails; then there is no file.
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
