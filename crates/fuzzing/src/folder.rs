//! A folder for what only files can be read from.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the names of folders begin with; the number of the process follows, and that of the folder.
const PREFIX: &str = "quipu-fuzzing-";

/// A folder that is removed when it is dropped, in memory where the system has such a place.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static SWEEP: Once = Once::new();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        // A target that was killed leaves its folder, which takes memory until the system starts again.
        SWEEP.call_once(|| remove_orphans(&parent));
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files can be made");
        Folder(folder)
    }

    /// Writes a file into it and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a temporary file can be written");
        path
    }

    /// The path of a file that need not be there.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left over is removed by a later run.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of processes that have ended, where the system says which those are.
fn remove_orphans(parent: &Path) {
    let processes = Path::new("/proc");
    if !processes.join("self").exists() {
        return;
    }
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((process, _)) = owner
            && process.parse::<u32>().is_ok()
            && !processes.join(process).exists()
        {
            // Another run may remove it at the same time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_processes_that_ended_are_removed_and_no_others() {
        let parent = Folder::new();
        // Numbers of processes are below 2^22.
        let [dead, live, foreign] = [
            format!("{PREFIX}4294967295-0"),
            format!("{PREFIX}{}-9", std::process::id()),
            "kept-1-0".to_owned(),
        ]
        .map(|name| parent.path(&name));
        for folder in [&dead, &live, &foreign] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("file"), b"bytes").unwrap();
        }
        remove_orphans(&parent.0);
        assert_eq!([&dead, &live, &foreign].map(|folder| folder.exists()), [false, true, true]);
    }
}
