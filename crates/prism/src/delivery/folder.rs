//! The folder for shared memory: private to the user, and removed with its owner, or by the next start if the owner was killed.
//!
//! Its name has the owner's process id and start time, so that a later process with the same id does not keep it. A folder
//! that needs a name in Prism's form has the same in a file, and gets its name when it is complete.

use crate::fault::{Error, Result};
use quipu_ring::life;
use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Prefix of the names of our own folders.
const OURS: &str = "quipu-prism-";
/// The file that names the owner of a folder with a name in Prism's form.
const OWNER: &str = "quipu-owner";

/// A folder that is removed when this value is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The parent of such folders: `PRISM_SHM_DIR`, else `XDG_RUNTIME_DIR`, else `/dev/shm`.
    #[must_use]
    pub fn base() -> PathBuf {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("PRISM_SHM_DIR").or_else(|| set("XDG_RUNTIME_DIR")).unwrap_or_else(|| "/dev/shm".into())
    }

    /// Creates a folder in `base`, and removes the folders there whose owners were killed.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be made.
    pub fn create(base: &Path) -> Result<Folder> {
        let pid = std::process::id();
        let start = life::started(pid, pid).unwrap_or(0);
        for number in 0_u64.. {
            let path = base.join(format!("{OURS}{pid}-{start}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    remove_left(base, &path);
                    return Ok(Folder { path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(&path, error)),
            }
        }
        Err(Error::io(base, io::ErrorKind::AlreadyExists.into()))
    }

    /// Renames the folder to a name in Prism's form: `PREFIX-` and six random characters.
    ///
    /// # Errors
    /// Returns an error if it cannot be renamed.
    pub fn rename(&mut self, prefix: &str) -> Result<()> {
        let pid = std::process::id();
        let owner = format!("{pid} {}", life::started(pid, pid).unwrap_or(0));
        let file = self.path.join(OWNER);
        fs::write(&file, owner).map_err(|error| Error::io(&file, error))?;
        loop {
            let path = self.path.with_file_name(format!("{prefix}-{}", by_chance()));
            // A rename would replace an empty folder.
            if path.symlink_metadata().is_ok() {
                continue;
            }
            fs::rename(&self.path, &path).map_err(|error| Error::io(&path, error))?;
            self.path = path;
            return Ok(());
        }
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next start removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Six random letters and digits.
fn by_chance() -> String {
    const SET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut bits = RandomState::new().build_hasher().finish();
    (0..6)
        .map(|_| {
            let at = (bits % 36) as usize;
            bits /= 36;
            char::from(SET[at])
        })
        .collect()
}

/// Removes folders of this user whose owners no longer run. Errors are left to the next start.
fn remove_left(base: &Path, ours: &Path) {
    let (Ok(entries), Ok(ours)) = (fs::read_dir(base), ours.metadata()) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_ours = path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == ours.uid());
        if is_ours && owner(&path).is_some_and(|(pid, start)| !life::is_alive(pid, start)) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// The owner of a folder and its start time, if the folder states them.
fn owner(folder: &Path) -> Option<(u32, u64)> {
    let name = folder.file_name()?.to_str()?;
    let (pid, start) = match name.strip_prefix(OURS) {
        Some(rest) => {
            let (pid, rest) = rest.split_once('-')?;
            (pid.to_owned(), rest.split_once('-')?.0.to_owned())
        }
        None => {
            let said = fs::read_to_string(folder.join(OWNER)).ok()?;
            let (pid, start) = said.split_once(' ')?;
            (pid.to_owned(), start.to_owned())
        }
    };
    Some((pid.parse().ok()?, start.parse().ok()?))
}
