//! A file for what a pipe brings, where it must be read more than once; it is gone with the last source that reads it.

use crate::temporary::Temporary;
use std::io::{self, Read};
use std::path::Path;

/// A file in the system's folder for temporary ones, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Spool(Temporary);

impl Spool {
    /// Copies all that is left of a reader.
    pub(crate) fn of(mut reader: impl Read) -> io::Result<Spool> {
        let (temporary, mut file) = Temporary::file()?;
        io::copy(&mut reader, &mut file)?;
        Ok(Spool(temporary))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}
