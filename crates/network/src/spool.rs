//! A folder that stores data from a pipe until it is sent: files of some megabytes, removed once they are acknowledged.
//!
//! A program that writes into the pipe never waits for the network: data are written to disk at once. A full spool drops
//! frames with records, but keeps metadata; each dropped frame is replaced by a loss.

use crate::ship::{Shipper, is_whole, may_be_dropped};
use memchr::memmem;
use quipu_stream::frame::{Header, HeaderFault, SYNC, TRAILER, TRAILER_BYTES, kind};
use quipu_stream::slice;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Size at which a new file is begun; smaller in small spools.
const SEGMENT_BYTES: u64 = 32 << 20;

/// The lock file: two senders with the same spool would remove each other's files.
const LOCK: &str = ".lock";

/// Locks a folder for one sender.
fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join(LOCK);
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let what = "another sender uses this spool; each one needs a folder of its own";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            // The file system does not support locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The previous owner may have removed the file meanwhile, so that this lock protects nothing.
        let is_there = fs::metadata(&path).is_ok_and(|there| {
            file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
        });
        if is_there {
            return Ok(file);
        }
    }
}

/// A folder of frames in their form for transit.
#[derive(Debug)]
pub struct Spool {
    folder: PathBuf,
    /// Locked while the spool is in use; removed with it.
    lock: File,
    current: Option<(File, u64)>,
    next: u64,
    max_bytes: u64,
    /// Total bytes of all files.
    n_bytes: u64,
    /// Bytes of an incomplete frame.
    pending: Vec<u8>,
    /// Number of bytes of `pending` that were consumed.
    taken: usize,
    shipper: Shipper,
    out: Vec<u8>,
    /// Bytes that do not belong to frames.
    pub other_bytes: u64,
}

impl Spool {
    /// Opens the spool in a folder, which is created. What an earlier sender left there is sent first.
    ///
    /// # Errors
    /// If the folder cannot be created or read, or another sender uses it.
    pub fn new(folder: &Path, max_bytes: u64) -> io::Result<Spool> {
        fs::create_dir_all(folder)?;
        let lock = lock(folder)?;
        let (mut next, mut n_bytes) = (0, 0);
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().into_string().unwrap_or_default();
            let number = name.strip_prefix("spool-").and_then(|name| name.strip_suffix(".quipu"));
            if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
                next = next.max(number.saturating_add(1));
                n_bytes += entry.metadata()?.len();
            }
        }
        Ok(Spool {
            folder: folder.to_owned(),
            lock,
            current: None,
            next,
            max_bytes,
            n_bytes,
            pending: Vec::new(),
            taken: 0,
            shipper: Shipper::new(),
            out: Vec::new(),
            other_bytes: 0,
        })
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Number of dropped records, and of frames they were in.
    #[must_use]
    pub fn n_dropped(&self) -> (u64, u64) {
        self.shipper.n_dropped()
    }

    /// Stores data from the pipe.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        while self.step()? {}
        // Moving the rest to the front costs no more than consuming the bytes before it.
        if self.taken > self.pending.len() / 2 {
            self.pending.drain(..self.taken);
            self.taken = 0;
        }
        Ok(())
    }

    /// Ends the input: the pipe was closed.
    pub fn finish(&mut self) {
        self.other_bytes += (self.pending.len() - self.taken) as u64;
        self.pending.clear();
        self.taken = 0;
    }

    /// Stores the next frame; false if it is incomplete.
    fn step(&mut self) -> io::Result<bool> {
        let bytes = &self.pending[self.taken..];
        if bytes.len() < SYNC.len() {
            return Ok(false);
        }
        if !bytes.starts_with(&SYNC) {
            return Ok(self.skip(0));
        }
        let header = match Header::read(bytes) {
            Ok(header) if header.is_within_limits() => header,
            Err(HeaderFault::Cut) => return Ok(false),
            Ok(_) | Err(_) => return Ok(self.skip(1)),
        };
        let len = header.frame_len() as usize; // Within the limits.
        let Some(frame) = bytes.get(..len) else { return Ok(false) };
        let (payload_at, payload_end) = (usize::from(header.words) * 8, header.stored_len as usize);
        let stored = &frame[payload_at..payload_at + payload_end];
        let trailer = &frame[len - TRAILER_BYTES..];
        let ends_well = trailer[..4] == (header.frame_len() as u32).to_le_bytes() && trailer[4..] == TRAILER;
        if !ends_well {
            return Ok(self.skip(1));
        }
        if header.kind != kind::OPEN && !is_whole(&header, stored) {
            self.other_bytes += len as u64;
            self.taken += len;
            return Ok(true);
        }
        self.out.clear();
        let is_full = self.n_bytes + len as u64 > self.max_bytes;
        if header.kind == kind::OPEN {
            // The reader of the file makes a frame of it.
            self.out.extend_from_slice(frame);
        } else if is_full && may_be_dropped(&header) {
            match slice::without_records(&header, stored)? {
                Some((rest, mut stored)) => {
                    self.shipper.drop_records(&header, &rest, &mut stored, &mut self.out)?
                }
                None => self.shipper.drop_frame(&header, &mut self.out)?,
            }
        } else {
            let mut stored = stored.to_vec();
            self.shipper.ship(&header, &mut stored, &mut self.out)?;
        }
        self.taken += len;
        self.write()?;
        Ok(true)
    }

    /// Skips bytes that do not belong to frames, at least `least` of them; false if more input is needed.
    fn skip(&mut self, least: usize) -> bool {
        let bytes = &self.pending[self.taken..];
        let found = memmem::find(&bytes[least..], &SYNC).map(|at| at + least);
        let n = found.unwrap_or(bytes.len() - (SYNC.len() - 1));
        self.other_bytes += n as u64;
        self.taken += n;
        found.is_some()
    }

    fn write(&mut self) -> io::Result<()> {
        let most = SEGMENT_BYTES.min(self.max_bytes / 8);
        if self.current.as_ref().is_none_or(|(_, n_bytes)| *n_bytes >= most) {
            let path = self.folder.join(format!("spool-{:012}.quipu", self.next));
            self.next += 1;
            self.current = Some((OpenOptions::new().write(true).create_new(true).open(path)?, 0));
        }
        if let Some((file, n_bytes)) = &mut self.current {
            file.write_all(&self.out)?;
            *n_bytes += self.out.len() as u64;
            self.n_bytes += self.out.len() as u64;
        }
        Ok(())
    }

    /// Removes a file whose frames are all acknowledged.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&mut self, path: &Path) -> io::Result<()> {
        let len = fs::metadata(path)?.len();
        fs::remove_file(path)?;
        self.n_bytes = self.n_bytes.saturating_sub(len);
        Ok(())
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // Removed while still locked. If that fails, the next sender uses the existing file.
        let _ = fs::remove_file(self.folder.join(LOCK));
        let _ = self.lock.unlock();
    }
}
