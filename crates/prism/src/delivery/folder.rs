//! The folder of shared memory: private to the user, gone with its owner, or with the next one if the owner was killed.
//!
//! Its name says which process owns it and when that process started, so that another process of the same number does not
//! keep it. A folder that has to have one of Prism's names says the same in a file, and gets its name when it is complete.

use crate::fault::{Error, Result};
use quipu_ring::life;
use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How names of our own folders begin.
const OURS: &str = "quipu-prism-";
/// The file that says whose a folder with a name of Prism's is.
const OWNER: &str = "quipu-owner";

/// A folder that is removed with this value.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Where folders are: `PRISM_SHM_DIR`, else `XDG_RUNTIME_DIR`, else `/dev/shm`.
    #[must_use]
    pub fn base() -> PathBuf {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("PRISM_SHM_DIR").or_else(|| set("XDG_RUNTIME_DIR")).unwrap_or_else(|| "/dev/shm".into())
    }

    /// Makes a folder in `base`, after removing those there whose owners were killed.
    ///
    /// # Errors
    /// What the system says.
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

    /// Gives the folder a name as Prism has them: `PREFIX-XXXXXX`, with six characters by chance.
    ///
    /// # Errors
    /// What the system says.
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

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Six letters and digits.
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

/// Removes folders of this user whose owners are no more. What fails is left to the next start.
fn remove_left(base: &Path, ours: &Path) {
    let (Ok(entries), Ok(ours)) = (fs::read_dir(base), ours.metadata()) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_ours = path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == ours.uid());
        if is_ours && owner(&path).is_some_and(|(pid, start)| !life::is_alive(pid, start)) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// The owner of a folder and when it started, if it says so.
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
