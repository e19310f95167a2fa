//! A temporary file for the content of a pipe that must be read more than once; removed with the last source that reads it.

use crate::temporary::Temporary;
use std::io::{self, Read};
use std::path::Path;

/// A file in the system's folder for temporary files, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Spool(Temporary);

impl Spool {
    /// Copies the rest of a reader into a new file.
    pub(crate) fn of(mut reader: impl Read) -> io::Result<Spool> {
        let (temporary, mut file) = Temporary::file()?;
        io::copy(&mut reader, &mut file)?;
        Ok(Spool(temporary))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
