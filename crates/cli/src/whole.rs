//! Files that appear under their name when they are whole, and not before.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file in the making. It stands beside its final name, and takes it with [`Whole::finish`]; if it does not come to that, it
/// is removed.
#[derive(Debug)]
pub(crate) struct Whole {
    file: File,
    /// Where it stands and where it will; `None` for a pipe or device, which is written to as it is.
    names: Option<[PathBuf; 2]>,
}

impl Whole {
    /// Begins a file that will be called `path`.
    pub(crate) fn create(path: &Path) -> io::Result<Whole> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            // Renaming would take its place.
            return Ok(Whole { file: File::options().write(true).open(path)?, names: None });
        }
        // What a link points to is replaced, not the link.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        let name = path.file_name().ok_or_else(|| io::Error::other("this is no name of a file"))?;
        for attempt in 0..100 {
            let mut temporary = OsString::from(".");
            temporary.push(name);
            temporary.push(format!(".{}-{attempt}.part", std::process::id()));
            let temporary = path.with_file_name(temporary);
            match File::create_new(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created.map(|file| Whole { file, names: Some([temporary, path]) }),
            }
        }
        Err(io::Error::other("too many unfinished files lie there"))
    }

    /// Gives the file its name. Nothing is to be written behind that.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some([temporary, path]) = &self.names {
            fs::rename(temporary, path)?;
        }
        self.names = None;
        Ok(())
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some([temporary, _]) = &self.names {
            // Somebody has been told already why it was not finished.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Writes a file at once.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Whole::create(path)?;
    file.write_all(bytes)?;
    file.finish()
}
