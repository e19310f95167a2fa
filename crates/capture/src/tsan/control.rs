//! Controls programs that record themselves while they run, through a word on the first page of their recordings, and looks at
//! what they have recorded so far. SPEC: stream.md#cells.

use quipu_cells::layout::{Frame, process};
use quipu_model::fresh::{Fresh, Replace, cannot};
use quipu_model::{Error, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The recording of a process, which may still be running.
#[derive(Debug)]
pub struct Running {
    file: File,
    path: PathBuf,
}

impl Running {
    /// The recording that a running process writes.
    ///
    /// # Errors
    /// `Missing` if it writes none; `Io` if its files cannot be listed, or the recording not be opened for writing.
    pub fn of_process(pid: u32) -> Result<Running> {
        let folder = PathBuf::from(format!("/proc/{pid}/fd"));
        let files = fs::read_dir(&folder).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => Error::missing(format!("there is no process {pid}")),
            _ => cannot("list", &folder, cause),
        })?;
        for entry in files.flatten() {
            let is_file = fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file());
            // Others may have finished recordings open, for reading only. The file may have been renamed since.
            if is_file && is_open_for_both(pid, &entry.file_name()) && is_recording(&entry.path()) {
                let path = fs::read_link(entry.path()).unwrap_or_else(|_| entry.path());
                let file = File::options().read(true).write(true).open(entry.path());
                return Ok(Running { file: file.map_err(|cause| cannot("write", &path, cause))?, path });
            }
        }
        Err(Error::missing(format!("process {pid} writes no recording"))
            .hint("compile it with `quipu cc` or `quipu c++`, and start it without QUIPU_OUT=off"))
    }

    /// The recording at a path; `None` if it has not begun, or is none.
    pub(crate) fn at(path: &Path) -> Option<Running> {
        if !is_recording(path) {
            return None;
        }
        let file = File::options().read(true).write(true).open(path).ok()?;
        Some(Running { file, path: path.to_owned() })
    }

    /// Path of the recording.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is paused.
    ///
    /// # Errors
    /// `Io` if the file cannot be read.
    pub fn is_paused(&self) -> Result<bool> {
        let mut word = [0; 8];
        let read = self.file.read_exact_at(&mut word, process::CONTROL as u64);
        read.map_err(|cause| cannot("read", &self.path, cause))?;
        Ok(u64::from_le_bytes(word) == process::PAUSED)
    }

    /// Pauses the recording, or resumes it. Each of the program's threads notices when it has filled its buffer, with some
    /// ten thousand events; a paused one notices at once.
    ///
    /// # Errors
    /// `Io` if the file cannot be written.
    pub fn set_paused(&self, is_paused: bool) -> Result<()> {
        if self.is_paused()? == is_paused {
            return Ok(());
        }
        let word = if is_paused { process::PAUSED } else { 0 };
        // The program has mapped the page, and sees what is written.
        let written = self.file.write_all_at(&word.to_le_bytes(), process::CONTROL as u64);
        written.map_err(|cause| cannot("write", &self.path, cause))
    }

    /// Writes what has been recorded so far as a recording of its own; returns its size in bytes.
    ///
    /// # Errors
    /// `Usage` if an existing file must stay; `Io` if a file cannot be read or written.
    pub fn snapshot(&self, to: &Path, replace: Replace) -> Result<u64> {
        let meta = self.file.metadata().map_err(|cause| cannot("read", &self.path, cause))?;
        if fs::metadata(to).is_ok_and(|known| (known.dev(), known.ino()) == (meta.dev(), meta.ino())) {
            return Err(Error::usage("the process writes this file").in_file(to.display().to_string()));
        }
        let (fresh, mut copy) = Fresh::file(to, replace)?;
        // Its own position, so that the copy begins at the start; no more than there is now, while the program continues.
        let mut from = PositionedReader { file: &self.file, at: 0 }.take(meta.len());
        let n_bytes = io::copy(&mut from, &mut copy).map_err(|cause| cannot("write", to, cause))?;
        drop(copy);
        fresh.commit()?;
        Ok(n_bytes)
    }
}

/// Reads a file from its start, wherever its own position is.
struct PositionedReader<'f> {
    file: &'f File,
    at: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(bytes, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// Whether a process has opened a file, by its number, for reading and writing, as it does with its own recording.
fn is_open_for_both(pid: u32, number: &std::ffi::OsStr) -> bool {
    let about =
        fs::read_to_string(Path::new(&format!("/proc/{pid}/fdinfo")).join(number)).unwrap_or_default();
    let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    // O_RDWR.
    flags.is_some_and(|flags| flags & 3 == 2)
}

/// Whether a file begins with the page of a recording.
fn is_recording(path: &Path) -> bool {
    let mut head = [0; 16];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut head, 0));
    read.is_ok() && head == Frame::page(0).header()[..16]
}
