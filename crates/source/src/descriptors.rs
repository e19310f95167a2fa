//! A file that is read in pieces without holding a descriptor of its own.
//!
//! A trace may be a folder of thousands of files that are all read at the same time. So open files are lent from a small
//! pool: a reader takes its file out for one piece and puts it back. When the pool is full, the file that has waited longest
//! is closed, and its reader reopens the path when it continues. An open and a stat cost a few microseconds; inflating a
//! piece of 128 KiB costs a multiple of that.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::reading::{Identity, Reading, identity};

/// Upper limit on the files that stay open between two pieces, for the whole process. In addition, each running thread holds
/// at most the file that it is reading. If the system grants the process few descriptors, the limit is a quarter of those,
/// and less after opening a file has failed for lack of descriptors.
pub const MAX_IDLE_DESCRIPTORS: usize = 64;

/// Files between two reads, longest waiting first. Descriptors are a resource of the process, so this is a static.
static IDLE: Mutex<Vec<(u64, File)>> = Mutex::new(Vec::new());
/// Current limit on waiting files; 0 before the first file waits.
static MOST_IDLE: AtomicUsize = AtomicUsize::new(0);
static NEXT_KEY: AtomicU64 = AtomicU64::new(0);

/// Identity of a regular file at the time when its container was recognised.
#[derive(Debug)]
pub(crate) struct FileId {
    path: PathBuf,
    identity: Identity,
    _reading: Reading,
    /// Size in bytes at that time; bytes appended later are not read.
    pub(crate) size: u64,
    /// Whether the file has not been written to for a while.
    pub(crate) settled: bool,
}

impl FileId {
    /// Identifies the file without opening it.
    pub(crate) fn of(path: &Path) -> Result<Arc<FileId>> {
        let meta = std::fs::metadata(path).map_err(|cause| Error::io("cannot open", cause))?;
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        Ok(Arc::new(FileId {
            path: path.to_owned(),
            identity: identity(&meta),
            _reading: Reading::of(&meta),
            size: meta.len(),
            settled: age.is_some_and(|age| age.as_secs() >= SETTLED_SECS),
        }))
    }
}

/// Seconds since its last write after which a file counts as complete and may be mapped into memory.
const SETTLED_SECS: u64 = 10;

/// Reads a file at any offset, with a descriptor lent from the pool.
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

    /// Reads once at offset `at`, at most `out.len()` bytes; 0 at the end of the file.
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

    /// Lends the open file for a short operation.
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
            (idle.len() > most_idle()).then(|| idle.remove(0))
        };
        // Closing may be slow on some file systems, so it is not done under the lock.
        drop(evicted);
        Ok(answer)
    }

    fn reopen(&self) -> io::Result<File> {
        let file = open(&self.id.path)?;
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

/// Opens a file for reading. If the process has no descriptor left, closes waiting files first.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    loop {
        match File::open(path) {
            Err(error) if is_exhausted(&error) && give_up_half() => {}
            other => return other,
        }
    }
}

/// True if the process or the system has reached its limit on open files.
fn is_exhausted(error: &io::Error) -> bool {
    /// `ENFILE` and `EMFILE`, which have the same numbers on all Unix systems.
    const CODES: [i32; 2] = [23, 24];
    cfg!(unix) && error.raw_os_error().is_some_and(|code| CODES.contains(&code))
}

/// Closes half of the waiting files, and lowers the limit to the number of the remaining ones. False if none waits.
fn give_up_half() -> bool {
    let closed: Vec<_> = {
        let mut idle = idle();
        let n = idle.len().div_ceil(2);
        MOST_IDLE.store((idle.len() - n).max(1), Ordering::Relaxed);
        idle.drain(..n).collect()
    };
    !closed.is_empty()
}

/// The current limit on waiting files, which is never 0.
fn most_idle() -> usize {
    match MOST_IDLE.load(Ordering::Relaxed) {
        0 => {
            let most = granted().map_or(MAX_IDLE_DESCRIPTORS, |n| (n / 4).clamp(1, MAX_IDLE_DESCRIPTORS));
            MOST_IDLE.store(most, Ordering::Relaxed);
            most
        }
        most => most,
    }
}

/// Number of descriptors that the process may have, if the system states it.
fn granted() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn idle() -> MutexGuard<'static, Vec<(u64, File)>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
