//! The files that this process reads, so that none of them is overwritten under any name.
//!
//! A path is not enough: a file has as many names as it has links. Files are identified by device and inode. An entry lives
//! as long as the [`Reading`] that created it; every [`Source`](crate::Source) and every opened container holds one.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Device and inode.
pub(crate) type Identity = (u64, u64);

/// Number of readers of each file. Files belong to the process, so this is a static.
static READERS: Mutex<BTreeMap<Identity, usize>> = Mutex::new(BTreeMap::new());

/// Marks a file, folder or pipe as an input, as long as the value lives.
#[derive(Debug)]
pub struct Reading(Option<Identity>);

impl Reading {
    /// Marks the file with this metadata as an input. Character devices are never inputs: a process that reads a terminal or
    /// `/dev/null` may also write to it.
    pub fn of(meta: &Metadata) -> Reading {
        let identity = Some(identity(meta)).filter(|identity| *identity != NO_IDENTITY && !is_terminal(meta));
        if let Some(identity) = identity {
            *readers().entry(identity).or_default() += 1;
        }
        Reading(identity)
    }

    /// Marks the file at `path` as an input until the process ends; does nothing if there is none.
    pub fn keep(path: &Path) {
        if let Ok(meta) = std::fs::metadata(path) {
            std::mem::forget(Reading::of(&meta));
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let Some(identity) = self.0 else { return };
        let mut readers = readers();
        match readers.get_mut(&identity) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(readers.remove(&identity)),
        }
    }
}

/// True if the file with this metadata is an input of this process.
pub fn is_input(meta: &Metadata) -> bool {
    readers().contains_key(&identity(meta))
}

fn readers() -> MutexGuard<'static, BTreeMap<Identity, usize>> {
    READERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The identity of files on systems that have none.
const NO_IDENTITY: Identity = (0, 0);

#[cfg(unix)]
pub(crate) fn identity(meta: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}

/// Other systems have no stable identity in the standard library. Paths are trusted there: inputs and replaced files are not
/// recognised.
#[cfg(not(unix))]
pub(crate) fn identity(_: &Metadata) -> Identity {
    NO_IDENTITY
}

#[cfg(unix)]
fn is_terminal(meta: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    meta.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_terminal(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_an_input_as_long_as_one_reader_lives() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let meta = file.as_file().metadata().unwrap();
        assert!(!is_input(&meta));
        let first = Reading::of(&meta);
        let second = crate::Source::open(file.path()).unwrap();
        drop(first);
        assert!(is_input(&meta));
        drop(second);
        assert!(!is_input(&meta));
    }
}
