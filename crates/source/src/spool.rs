//! A file for what a pipe brings, where it must be read more than once; it is gone with the last source that reads it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file in the system's folder for temporary ones, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Spool(PathBuf);

/// So many names are tried: what others left may have the first.
const MAX_TRIES: u32 = 64;

impl Spool {
    /// Copies all that is left of a reader.
    pub(crate) fn of(mut reader: impl Read) -> io::Result<Spool> {
        let (spool, mut file) = Spool::create()?;
        io::copy(&mut reader, &mut file)?;
        Ok(spool)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn create() -> io::Result<(Spool, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("quipu-{}-{number}", std::process::id()));
            let mut options = File::options();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match options.open(&path) {
                Ok(file) => return Ok((Spool(path), file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Nobody is left to tell, and the system clears that folder.
        let _ = std::fs::remove_file(&self.0);
    }
}
