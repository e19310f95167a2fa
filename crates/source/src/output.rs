//! Files that are written, whose closing is judged like a write.
//!
//! Some file systems (those of a network, quotas) say only when a file is closed that there was no room for it, and the standard
//! library drops what `close` returns. An [`OutputFile`] notes a failed close for the path that it was made under;
//! whatever gives outputs their final name asks [`failed_close`] first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files that could not be closed.
static FAILED: Mutex<Vec<(PathBuf, io::Error)>> = Mutex::new(Vec::new());

/// A file that is written. Dropping it closes it; see [`failed_close`].
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// `None` only within `drop`.
    file: Option<File>,
}

impl OutputFile {
    /// Makes a file that must not exist yet.
    ///
    /// # Errors
    /// Those of [`File::create_new`].
    pub fn create_new(path: &Path) -> io::Result<OutputFile> {
        File::create_new(path).map(|file| OutputFile::new(file, path))
    }

    /// A file that was opened as `path`.
    pub fn new(file: File, path: &Path) -> OutputFile {
        OutputFile { path: path.to_owned(), file: Some(file) }
    }

    /// The same open file; each of both is closed.
    ///
    /// # Errors
    /// Those of [`File::try_clone`].
    pub fn try_clone(&self) -> io::Result<OutputFile> {
        File::try_clone(self).map(|file| OutputFile::new(file, &self.path))
    }
}

/// Takes the first failed close of the file `path`, or of a file in the folder `path`.
pub fn failed_close(path: &Path) -> Option<(PathBuf, io::Error)> {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    let at = failed.iter().position(|(file, _)| file.starts_with(path))?;
    Some(failed.swap_remove(at))
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take()
            && let Err(cause) = close(file)
        {
            let path = std::mem::take(&mut self.path);
            FAILED.lock().unwrap_or_else(PoisonError::into_inner).push((path, cause));
        }
    }
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn close(file: File) -> io::Result<()> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor was taken out of `file`, so nothing else uses or closes it.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        // A signal came; the file is closed all the same.
        error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        error => Err(error),
    }
}

#[cfg(not(unix))]
fn close(_: File) -> io::Result<()> {
    Ok(())
}

impl Deref for OutputFile {
    type Target = File;

    fn deref(&self) -> &File {
        self.file.as_ref().expect("a file is open until it is dropped")
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&**self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&**self).flush()
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&**self).seek(to)
    }
}

impl Read for OutputFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&**self).read(into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_close_is_known_by_the_file_and_by_its_folder() {
        let folder = std::env::temp_dir().join(format!("quipu-output-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        let output = OutputFile::create_new(&path).unwrap();
        drop(output.try_clone().unwrap());
        assert!(failed_close(&path).is_none());
        drop(output);
        assert!(failed_close(&folder).is_none(), "it could be closed");
        FAILED.lock().unwrap().push((path.clone(), io::ErrorKind::StorageFull.into()));
        assert!(failed_close(&folder.join("other")).is_none());
        assert_eq!(failed_close(&folder).unwrap().0, path);
        assert!(failed_close(&folder).is_none(), "it is told once");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
