//! Temporary folders, for readers that need files.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of folder names, followed by the process id and the number of the folder.
const PREFIX: &str = "quipu-fuzzing-";

/// A temporary folder that is removed on drop. It is in memory if the system has `/dev/shm`.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Creates a folder.
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static SWEEP: Once = Once::new();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        // A killed target leaves its folder, which would use memory until the next boot.
        SWEEP.call_once(|| remove_orphans(&parent));
        let folder = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for temporary files can be made");
        Folder(folder)
    }

    /// Writes a file in the folder and returns its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).expect("a temporary file can be written");
        path
    }

    /// The path of a file, which may not exist.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A later run removes what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes the folders of processes that have ended, if the system has `/proc`.
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
        // Process ids are below 2^22.
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
