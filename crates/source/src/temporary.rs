//! Files and folders that must not outlive their use, even if a signal ends the process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of names to try in the folder for temporary files: an earlier process with the same number may have left some.
const MAX_TRIES: u32 = 64;

/// Everything that this process would have to remove.
static PENDING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file or folder that is removed when this value is dropped, or by [`remove_temporaries`].
#[derive(Debug)]
pub struct Temporary(Option<PathBuf>);

impl Temporary {
    /// Creates a file or folder at `path` with `make`, and marks it for removal.
    ///
    /// # Errors
    /// Those of `make`; then there is nothing to remove.
    pub fn make<T>(path: &Path, make: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Temporary, T)> {
        // Under the lock, so that a signal finds either nothing or the path to remove.
        let mut pending = pending();
        let made = make(path)?;
        pending.push(path.to_owned());
        Ok((Temporary(Some(path.to_owned())), made))
    }

    /// Creates a file that no other user may read, in the system's folder for temporary files.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn file() -> io::Result<(Temporary, File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("quipu-{}-{number}", std::process::id()));
            let mut options = File::options();
            options.read(true).write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            match Temporary::make(&path, |path| options.open(path)) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < MAX_TRIES => tries += 1,
                made => return made,
            }
        }
    }

    /// Path of the file or folder.
    pub fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new(""))
    }

    /// Lets `rename` give it another name, under which it is kept.
    ///
    /// # Errors
    /// Those of `rename`; the file or folder is then removed.
    pub fn keep(mut self, rename: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let mut pending = pending();
        rename(self.path())?;
        if let Some(path) = self.0.take() {
            pending.retain(|other| *other != path);
        }
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let Some(path) = self.0.take() else { return };
        pending().retain(|other| *other != path);
        remove(&path);
    }
}

/// Removes all temporary files and folders of this process, which must end right after: for signal handling.
pub fn remove_temporaries() {
    // The lock is never released: threads that still run must not create others.
    let pending = pending();
    // A thread may add a file to a folder while that is removed.
    for _ in 0..3 {
        pending.iter().for_each(|path| remove(path));
    }
    std::mem::forget(pending);
}

fn remove(path: &Path) {
    // No caller is left to report to.
    let _ = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => Ok(()),
    };
}

fn pending() -> MutexGuard<'static, Vec<PathBuf>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}
