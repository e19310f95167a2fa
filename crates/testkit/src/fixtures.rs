//! The traces of the repository.

use std::path::{Path, PathBuf};

/// The folder with the traces of a format; `traces/README.md` lists them.
pub fn fixtures(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(format)
}

/// Copies the files in a folder, without subfolders, into another folder.
///
/// # Panics
/// If one cannot be read or written.
pub fn copy_files(from: &Path, to: &Path) {
    let copy = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        Ok(())
    };
    if let Err(error) = copy() {
        panic!("cannot copy `{}` to `{}`: {error}", from.display(), to.display());
    }
}
