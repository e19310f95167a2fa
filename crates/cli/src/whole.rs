//! Files that appear under their name when they are whole, and pipes and devices, which are written to as they are.

use quipu::model::Result;
use quipu::model::fresh::{Fresh, Replace, cannot};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// A file in the making, or a pipe or device.
#[derive(Debug)]
pub(crate) struct Whole {
    file: File,
    /// What gives a file its name; `None` for a pipe or device.
    fresh: Option<Fresh>,
}

impl Whole {
    /// Begins a file that will be called `path`, whatever stands there.
    ///
    /// # Errors
    /// As for [`Fresh::file`]; `Io` if a pipe or device cannot be opened.
    pub(crate) fn create(path: &Path) -> Result<Whole> {
        let is_special = fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir());
        let (fresh, file) = if is_special {
            // Renaming would take its place.
            let opened = File::options().write(true).open(path);
            (None, opened.map_err(|cause| cannot("write", path, cause))?)
        } else {
            let (fresh, file) = Fresh::file(path, Replace::Allowed)?;
            (Some(fresh), file)
        };
        Ok(Whole { file, fresh })
    }

    /// Gives the file its name. Nothing is to be written behind that.
    ///
    /// # Errors
    /// As for [`Fresh::commit`].
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.fresh.take().map_or(Ok(()), Fresh::commit)
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a file at once.
///
/// # Errors
/// As for [`Whole::create`], and `Io` if it cannot be written.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = Whole::create(path)?;
    file.write_all(bytes).map_err(|cause| cannot("write", path, cause))?;
    file.finish()
}
