//! Output files whose closing is checked like a write.
//!
//! Some file systems (network file systems, quotas) report only when a file is closed that there was no room for it, and the
//! standard library ignores the result of `close`. An [`OutputFile`] records a failed close in the [`Closings`] of its
//! output, and the code that gives the output its final name checks them first.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Records how the files of one output were closed. Clones belong to the same output.
#[derive(Clone, Debug, Default)]
pub struct Closings(Arc<State>);

#[derive(Debug, Default)]
struct State {
    n_open: AtomicUsize,
    /// The first file whose closing failed, with the error.
    failed: Mutex<Option<(PathBuf, io::Error)>>,
}

impl Closings {
    /// Number of files that are still open.
    pub fn n_open(&self) -> usize {
        self.0.n_open.load(Ordering::Acquire)
    }

    /// Takes the first file whose closing failed, with the error.
    pub fn take_failed(&self) -> Option<(PathBuf, io::Error)> {
        self.0.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn note(&self, path: PathBuf, closed: io::Result<()>) {
        if let Err(cause) = closed {
            self.0.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((path, cause));
        }
        self.0.n_open.fetch_sub(1, Ordering::Release);
    }
}

/// A file that is being written. Dropping it closes it, and records the outcome in its [`Closings`].
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    /// `None` only within `drop`.
    file: Option<File>,
    closings: Closings,
}

impl OutputFile {
    /// Creates a file, which must not exist yet.
    ///
    /// # Errors
    /// Those of [`File::create_new`].
    pub fn create_new(path: &Path, closings: &Closings) -> io::Result<OutputFile> {
        File::create_new(path).map(|file| OutputFile::new(file, path, closings))
    }

    /// Wraps a file that was opened as `path`.
    pub fn new(file: File, path: &Path, closings: &Closings) -> OutputFile {
        closings.0.n_open.fetch_add(1, Ordering::Relaxed);
        OutputFile { path: path.to_owned(), file: Some(file), closings: closings.clone() }
    }

    /// Another handle of the same open file; both must be closed.
    ///
    /// # Errors
    /// Those of [`File::try_clone`].
    pub fn try_clone(&self) -> io::Result<OutputFile> {
        File::try_clone(self).map(|file| OutputFile::new(file, &self.path, &self.closings))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.closings.note(std::mem::take(&mut self.path), close(file));
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
        // A signal interrupted the call; the file is closed all the same.
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
    fn a_failed_close_is_known_to_the_output_of_the_file_and_to_no_other() {
        let folder = std::env::temp_dir().join(format!("quipu-output-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("file");
        let (closings, others) = (Closings::default(), Closings::default());
        let output = OutputFile::create_new(&path, &closings).unwrap();
        let clone = output.try_clone().unwrap();
        assert_eq!((closings.n_open(), others.n_open()), (2, 0));
        drop((output, clone));
        assert_eq!(closings.n_open(), 0);
        assert!(closings.take_failed().is_none(), "it could be closed");
        let output = OutputFile::new(File::open(&path).unwrap(), &path, &closings);
        let full = Err(io::ErrorKind::StorageFull.into());
        output.closings.note(path.clone(), full);
        closings.0.n_open.fetch_add(1, Ordering::Relaxed);
        assert!(others.take_failed().is_none());
        assert_eq!(closings.take_failed().unwrap().0, path);
        assert!(closings.take_failed().is_none(), "it is said once");
        drop(output);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
