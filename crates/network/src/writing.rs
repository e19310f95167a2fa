//! Detects whether a program is still writing a file: it may write out its mapped buffers at any time.
//!
//! A buffer that is sent as a frame takes the number of the frame that the program writes later, so the buffers of a running
//! program must not be sent yet.

use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether a program on this machine has mapped the file for writing, or has locked it, as programs that record themselves
/// do. For programs of other users and in other containers, only the lock is visible.
#[must_use]
pub fn is_being_written(file: &File, path: &Path) -> bool {
    // Maps are checked first, without touching the lock, which a program that is just starting may want to take.
    is_mapped(file, path) || is_locked(file)
}

fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            // Otherwise another program could not lock the file to begin it anew.
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        // The file system does not support locks.
        Err(TryLockError::Error(_)) => false,
    }
}

/// Whether a process whose maps are readable has mapped the file.
fn is_mapped(file: &File, path: &Path) -> bool {
    let (Ok(meta), Ok(processes)) = (file.metadata(), fs::read_dir("/proc")) else { return false };
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    processes.filter_map(Result::ok).any(|process| {
        let is_process = process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let maps = is_process.then(|| File::open(process.path().join("maps")).ok()).flatten();
        let lines = maps.into_iter().flat_map(|maps| BufReader::new(maps).split(b'\n'));
        lines.map_while(Result::ok).any(|line| names(&line, &meta, name))
    })
}

/// Whether a line of `/proc/PID/maps` is a shared, writable mapping of the file: `START-END rw-s OFFSET DEVICE INODE PATH`.
fn names(line: &[u8], meta: &fs::Metadata, name: &[u8]) -> bool {
    let mut words = line.splitn(6, |byte| *byte == b' ');
    let (Some(_), Some(rights), Some(_), Some(device), Some(inode)) =
        (words.next(), words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    if rights.get(1) != Some(&b'w')
        || rights.get(3) != Some(&b's')
        || inode != meta.ino().to_string().as_bytes()
    {
        return false;
    }
    // On some file systems, the device here differs from that of the file's metadata.
    let path = words.next().unwrap_or_default().trim_ascii_start();
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    device == device_of(meta).as_bytes() || !name.is_empty() && path.ends_with(name)
}

/// The device of a file in the format of `/proc/PID/maps`.
fn device_of(meta: &fs::Metadata) -> String {
    let dev = meta.dev();
    let major = (dev >> 32 & 0xffff_f000) | (dev >> 8 & 0xfff);
    let minor = (dev >> 12 & 0xffff_ff00) | (dev & 0xff);
    format!("{major:02x}:{minor:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_file_is_written_as_long_as_it_is_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.quipu");
        let writer = OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert!(!is_being_written(&reader, &path));
        writer.lock().unwrap();
        assert!(is_being_written(&reader, &path));
        writer.unlock().unwrap();
        // The check has left no lock.
        assert!(!is_being_written(&reader, &path));
        writer.try_lock().unwrap();
    }

    #[test]
    fn maps_that_can_be_written_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.quipu");
        fs::write(&path, "x").unwrap();
        let meta = fs::metadata(&path).unwrap();
        let line = |rights: &str, device: &str, inode: u64, path: &str| {
            format!("7f00-7f01 {rights} 00000000 {device} {inode}                 {path}").into_bytes()
        };
        let device = device_of(&meta);
        let is = |line: &[u8]| names(line, &meta, b"run.quipu");
        assert!(is(&line("rw-s", &device, meta.ino(), "/elsewhere")));
        assert!(is(&line("rw-s", "00:fff", meta.ino(), "/tmp/run.quipu")));
        assert!(is(&line("rw-s", "00:fff", meta.ino(), "/tmp/run.quipu (deleted)")));
        assert!(!is(&line("r--s", &device, meta.ino(), "/tmp/run.quipu")));
        assert!(!is(&line("rw-p", &device, meta.ino(), "/tmp/run.quipu")));
        assert!(!is(&line("rw-s", "00:fff", meta.ino(), "/tmp/other.quipu")));
        assert!(!is(&line("rw-s", &device, meta.ino() + 1, "/tmp/run.quipu")));
        assert!(!is(b"") && !is(b"7f00-7f01 rw-p 00000000 00:00 0"));
    }
}
