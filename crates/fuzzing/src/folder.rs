//! A folder for what only files can be read from.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that is removed when it is dropped, in memory where the system has such a place.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = parent.join(format!("quipu-fuzzing-{}-{number}", std::process::id()));
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
        // What is left over takes memory until the system starts again, and no more.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
