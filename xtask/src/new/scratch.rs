//! A temporary copy of the repository, and how it differs from the repository after a change.
//!
//! Copied files keep their modification times, so that a build of the copy with the repository's target folder reuses
//! everything that did not change.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that have no sources or are too large to copy.
const LEFT_OUT: &[&str] = &["target", ".git", "traces", "fuzz/corpus", "fuzz/artifacts"];

/// Makes the folder `to` a copy of the repository at `root`. Files that are already equal are not written again.
pub(crate) fn copy(root: &Path, to: &Path) -> Result<()> {
    let wanted = files(root)?;
    for path in files(to)?.difference(&wanted) {
        fs::remove_file(to.join(path)).with_context(|| path.display().to_string())?;
    }
    for path in &wanted {
        let (from, into) = (root.join(path), to.join(path));
        let bytes = fs::read(&from).with_context(|| path.display().to_string())?;
        let modified = fs::metadata(&from)?.modified()?;
        let is_same =
            fs::metadata(&into).and_then(|there| there.modified()).is_ok_and(|there| there == modified);
        if is_same && fs::read(&into).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(into.parent().unwrap_or(to))?;
        fs::write(&into, bytes).with_context(|| into.display().to_string())?;
        fs::File::options().write(true).open(&into)?.set_modified(modified)?;
    }
    Ok(())
}

/// Paths of the files in the copy `to` that are new or differ.
pub(crate) fn changed(root: &Path, to: &Path) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for path in files(to)? {
        if fs::read(root.join(&path)).ok() != Some(fs::read(to.join(&path))?) {
            changed.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(changed)
}

/// All files below `root`, relative to it.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if LEFT_OUT.iter().any(|left_out| path == Path::new(left_out)) {
                continue;
            }
            match entry.file_type()? {
                kind if kind.is_dir() => folders.push(path),
                kind if kind.is_file() => drop(found.insert(path)),
                _ => {}
            }
        }
    }
    Ok(found)
}
