//! Files and folders that appear under their name when they are complete, and not before.
//!
//! What is written goes to a hidden name beside the final one, on the same file system, and is renamed at the end. If it
//! does not come to that (an error, an interrupt, a panic) the hidden one is removed.

use crate::error::{Error, ErrorKind, Result};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// So many hidden names are tried.
const MAX_ATTEMPTS: u32 = 100;

/// Whether what stands under the final name may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It is an error if there is something.
    Never,
    /// A file is replaced by a file, a folder that holds nothing but a trace by a folder. A symbolic link stays, and what
    /// it leads to is replaced.
    Allowed,
}

impl From<bool> for Replace {
    /// What an option says that lets things be replaced.
    fn from(is_allowed: bool) -> Replace {
        if is_allowed { Replace::Allowed } else { Replace::Never }
    }
}

/// Makes sure that a file may be called `path`, for work that takes long before anything is written.
///
/// # Errors
/// As for [`Fresh::file`].
pub fn check_file(path: &Path, replace: Replace) -> Result<()> {
    check_place(path, replace, None)?;
    behind_link(path).map(drop)
}

/// A file or folder in the making.
#[derive(Debug)]
pub struct Fresh {
    temporary: PathBuf,
    path: PathBuf,
    is_folder: bool,
    is_done: bool,
}

impl Fresh {
    /// Begins a file that will be called `path`.
    ///
    /// # Errors
    /// `Usage` if there is something that must stay, or no name; `Io` if it cannot be made.
    pub fn file(path: &Path, replace: Replace) -> Result<(Fresh, File)> {
        Fresh::begin(path, replace, None, &|temporary| File::create_new(temporary))
    }

    /// Begins a folder that will be called `path`; files go into the folder returned. A folder in its place may be replaced
    /// if all that it holds is what `may_go` says is part of a trace.
    ///
    /// # Errors
    /// As for [`Fresh::file`].
    pub fn folder(path: &Path, replace: Replace, may_go: &dyn Fn(&Path) -> bool) -> Result<(Fresh, PathBuf)> {
        let (fresh, ()) = Fresh::begin(path, replace, Some(may_go), &|temporary| fs::create_dir(temporary))?;
        let folder = fresh.temporary.clone();
        Ok((fresh, folder))
    }

    /// Makes a file or folder under a hidden name that nothing else has.
    fn begin<T>(
        path: &Path,
        replace: Replace,
        may_go: Option<&dyn Fn(&Path) -> bool>,
        make: &dyn Fn(&Path) -> io::Result<T>,
    ) -> Result<(Fresh, T)> {
        let name = path
            .file_name()
            .ok_or_else(|| Error::usage(format!("`{}` is no name for something to write", path.display())))?;
        check_place(path, replace, may_go)?;
        let target = behind_link(path)?;
        let path = target.as_deref().unwrap_or(path);
        let name = path.file_name().unwrap_or(name);
        let mut attempt = 0;
        loop {
            let mut temporary = std::ffi::OsString::from(".");
            temporary.push(name);
            temporary.push(format!(".{}-{attempt}.part", std::process::id()));
            let temporary = path.with_file_name(temporary);
            match make(&temporary) {
                // Another of this process, or what a killed one left.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists && attempt < MAX_ATTEMPTS => {
                    attempt += 1
                }
                Err(cause) => return Err(cannot("create", path, cause)),
                Ok(made) => {
                    let (path, is_folder) = (path.to_owned(), may_go.is_some());
                    return Ok((Fresh { temporary, path, is_folder, is_done: false }, made));
                }
            }
        }
    }

    /// Gives it its name.
    ///
    /// # Errors
    /// `Io` if that fails; then it is removed.
    pub fn commit(mut self) -> Result<()> {
        let failed = |cause| cannot("write", &self.path, cause);
        if self.is_folder && self.path.symlink_metadata().is_ok() {
            // A folder cannot be renamed over another: the old one steps aside, and comes back if that fails.
            let mut aside = self.temporary.clone().into_os_string();
            aside.push(".old");
            fs::rename(&self.path, &aside).map_err(failed)?;
            if let Err(cause) = fs::rename(&self.temporary, &self.path) {
                let _ = fs::rename(&aside, &self.path);
                return Err(failed(cause));
            }
            self.is_done = true;
            return fs::remove_dir_all(&aside).map_err(|cause| cannot("remove", Path::new(&aside), cause));
        }
        fs::rename(&self.temporary, &self.path).map_err(failed)?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_done {
            // There is nobody left to tell.
            let _ = if self.is_folder {
                fs::remove_dir_all(&self.temporary)
            } else {
                fs::remove_file(&self.temporary)
            };
        }
    }
}

/// What a symbolic link leads to; nothing if there is no link.
fn behind_link(path: &Path) -> Result<Option<PathBuf>> {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
        return Ok(None);
    }
    fs::canonicalize(path).map(Some).map_err(|cause| {
        cannot("follow", path, cause)
            .hint("the name is that of a link; name another, or remove it".to_owned())
    })
}

/// Refuses to write over what must stay.
fn check_place(path: &Path, replace: Replace, may_go: Option<&dyn Fn(&Path) -> bool>) -> Result<()> {
    let is_folder = may_go.is_some();
    let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
    let refuse = |what: &str, hint: &str| {
        Err(Error::usage(what).in_file(path.display().to_string()).hint(hint.to_owned()))
    };
    if replace == Replace::Never {
        return refuse(
            "there is something of that name already",
            "name another, or say --force to replace it",
        );
    }
    // Of a link, what it leads to counts; where that is nothing, following it says so.
    let is_dir = if meta.is_symlink() {
        fs::metadata(path).map_or(is_folder, |meta| meta.is_dir())
    } else {
        meta.is_dir()
    };
    if is_dir != is_folder {
        return refuse(
            if is_folder { "a folder cannot replace a file" } else { "a file cannot replace a folder" },
            "name another, or remove it",
        );
    }
    if let Some(may_go) = may_go
        && path.exists()
    {
        let entries = fs::read_dir(path).map_err(|cause| cannot("list", path, cause))?;
        for entry in entries {
            let entry = entry.map_err(|cause| cannot("list", path, cause))?;
            if !may_go(&entry.path()) {
                return refuse(
                    &format!("the folder holds more than a trace: `{}`", entry.file_name().display()),
                    "name another, or remove it",
                );
            }
        }
    }
    Ok(())
}

/// The error of a file that cannot be written, listed, …
#[cold]
pub fn cannot(what: &str, path: &Path, cause: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} it")).in_file(path.display().to_string()).because(cause)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn two_files_in_the_making_under_one_name_leave_each_other_alone() {
        let folder = std::env::temp_dir().join(format!("quipu-fresh-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("out");
        let (first, mut file) = Fresh::file(&path, Replace::Allowed).unwrap();
        let (second, mut other) = Fresh::file(&path, Replace::Allowed).unwrap();
        file.write_all(b"first").unwrap();
        other.write_all(b"second").unwrap();
        drop(second);
        assert!(!path.exists());
        first.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }
}
