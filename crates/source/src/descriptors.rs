//! A file that is read in pieces without holding a descriptor of its own.
//!
//! A trace may be a folder of thousands of files, all of them being read at once. Open files are therefore
//! lent from a small pool: a reader takes its file out for one piece and puts it back; when the pool
//! is full, the file that has waited longest is closed, and its reader opens the path again when it goes on. An
//! open and a stat cost a few microseconds, a piece of 128 KiB a multiple of that to inflate.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// The most files that wait open between two pieces, for the whole process. Besides these, each running thread
/// holds at most the one that it is reading from.
pub const MAX_IDLE_DESCRIPTORS: usize = 64;

/// Files between two reads, longest waiting first. Descriptors are a resource of the process, hence a static.
static IDLE: Mutex<Vec<(u64, File)>> = Mutex::new(Vec::new());
static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

/// A regular file as it was when its container was recognised.
#[derive(Debug)]
pub(crate) struct FileId {
    path: PathBuf,
    identity: (u64, u64),
    /// Size in bytes at that time; what is appended later is not read.
    pub(crate) size: u64,
    /// True if nobody has written to the file for a while.
    pub(crate) settled: bool,
}

impl FileId {
    /// Looks at the file without opening it.
    pub(crate) fn of(path: &Path) -> Result<Arc<FileId>> {
        let meta = std::fs::metadata(path).map_err(|cause| Error::io("cannot open", cause))?;
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        Ok(Arc::new(FileId {
            path: path.to_owned(),
            identity: identity(&meta),
            size: meta.len(),
            settled: age.is_some_and(|age| age.as_secs() >= SETTLED_SECS),
        }))
    }
}

/// A file whose last write is this long ago counts as complete, and may be mapped into memory.
const SETTLED_SECS: u64 = 10;

/// Reads one file at any place, with a descriptor lent from the pool.
#[derive(Debug)]
pub(crate) struct FileReader {
    id: Arc<FileId>,
    key: u64,
}

impl FileReader {
    pub(crate) fn new(id: Arc<FileId>) -> FileReader {
        FileReader { id, key: NEXT_KEY.fetch_add(1, Ordering::Relaxed) }
    }

    pub(crate) fn id(&self) -> &FileId {
        &self.id
    }

    /// Reads once at `at`, at most `out.len()` bytes; 0 at the end of the file.
    pub(crate) fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        self.with_file(|mut file| {
            file.seek(SeekFrom::Start(at))?;
            loop {
                match file.read(out) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    other => return other,
                }
            }
        })
    }

    /// Lends the open file for one short piece of work.
    pub(crate) fn with_file<T>(&self, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        let taken = {
            let mut idle = idle();
            idle.iter().position(|(key, _)| *key == self.key).map(|at| idle.remove(at).1)
        };
        let file = match taken {
            Some(file) => file,
            None => self.reopen()?,
        };
        let answer = work(&file)?;
        let evicted = {
            let mut idle = idle();
            idle.push((self.key, file));
            (idle.len() > MAX_IDLE_DESCRIPTORS).then(|| idle.remove(0))
        };
        // Closing may be slow on some file systems: not under the lock.
        drop(evicted);
        Ok(answer)
    }

    fn reopen(&self) -> io::Result<File> {
        let file = File::open(&self.id.path)?;
        if identity(&file.metadata()?) != self.id.identity {
            return Err(io::Error::other("another file has taken its place while it was being read"));
        }
        Ok(file)
    }
}

impl Drop for FileReader {
    fn drop(&mut self) {
        let mut idle = idle();
        let closed = idle.iter().position(|(key, _)| *key == self.key).map(|at| idle.remove(at));
        drop(idle);
        drop(closed);
    }
}

fn idle() -> MutexGuard<'static, Vec<(u64, File)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Device and inode: tells whether a path still leads to the same file.
#[cfg(unix)]
fn identity(meta: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// Other systems have no stable identity in the standard library: paths are trusted there.
#[cfg(not(unix))]
fn identity(_: &Metadata) -> (u64, u64) {
    (0, 0)
}
