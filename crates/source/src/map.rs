//! One window of a file, mapped into memory.
//!
//! Used only for plain (uncompressed) files, where copying from a map is about a third faster than `read`
//! (docs/performance.md, "Decompression"). Compressed input is a small fraction of its output, so mapping would gain nothing
//! there. Windows are small so that the resident size of a process does not grow with its files.
//!
//! Touching a page of a map that is past the end of the file raises SIGBUS. The caller maps only files that have not been
//! written to for a while, and checks the size of the file again before each copy. This leaves a file that is truncated
//! within the microseconds of one copy, or a failing disk. `fault.rs` turns both into an error.

use std::fs::File;
use std::io;

use memmap2::{MmapOptions, MmapRaw};

use crate::fault;

/// Bytes mapped at a time; windows larger than 4 MiB brought no gain.
pub(crate) const WINDOW_BYTES: u64 = 4 << 20;

/// A mapped part of a file.
#[derive(Debug)]
pub(crate) struct Window {
    map: MmapRaw,
    at: u64,
}

impl Window {
    /// Maps the window that contains offset `at` of a file of `size` bytes; `at` must be less than `size`.
    pub(crate) fn around(file: &File, at: u64, size: u64) -> io::Result<Window> {
        let start = at - at % WINDOW_BYTES;
        let len_bytes = usize::try_from(size.saturating_sub(start).min(WINDOW_BYTES)).unwrap_or(0);
        let map = MmapOptions::new().offset(start).len(len_bytes).map_raw_read_only(file)?;
        Ok(Window { map, at: start })
    }

    /// Copies the bytes at file offset `at` to the front of `out`: as many as fit and are inside this window.
    ///
    /// # Errors
    /// If the system can no longer provide the bytes, because the file was truncated or its disk fails. This window must then
    /// not be used any more: parts of it may be zero.
    pub(crate) fn copy(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let Some(skip) = at.checked_sub(self.at).and_then(|skip| usize::try_from(skip).ok()) else {
            return Ok(0);
        };
        let len_bytes = self.map.len().saturating_sub(skip).min(out.len());
        if len_bytes == 0 {
            return Ok(0);
        }
        let guard = fault::BusGuard::over(self.map.as_ptr(), self.map.len());
        // SAFETY: `skip + len_bytes <= map.len()` and `len_bytes <= out.len()` by the lines above, the map lives as long as
        // `self`, and `out` is memory of our own, so the two cannot overlap. No reference into the map is created, so another
        // process may write to the file meanwhile: we copy whatever bytes are there.
        #[allow(unsafe_code)]
        unsafe {
            std::ptr::copy_nonoverlapping(self.map.as_ptr().add(skip), out.as_mut_ptr(), len_bytes);
        }
        guard.end()?;
        Ok(len_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_window_copies_exactly_the_bytes_of_its_part_of_the_file() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..WINDOW_BYTES + 1000).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        let size = bytes.len() as u64;

        let first = Window::around(&file, 17, size).unwrap();
        let mut out = vec![0; 100];
        assert_eq!(first.copy(17, &mut out).unwrap(), 100);
        assert_eq!(out, bytes[17..117]);
        assert_eq!(first.copy(WINDOW_BYTES - 10, &mut out).unwrap(), 10, "stops at the end of the window");
        assert_eq!(first.copy(WINDOW_BYTES, &mut out).unwrap(), 0);

        let second = Window::around(&file, WINDOW_BYTES + 1, size).unwrap();
        assert_eq!(second.copy(WINDOW_BYTES - 1, &mut out).unwrap(), 0, "before the window");
        assert_eq!(second.copy(size - 5, &mut out).unwrap(), 5, "stops at the end of the file");
        assert_eq!(out[..5], bytes[bytes.len() - 5..]);
    }

    #[test]
    fn a_file_that_is_cut_under_its_window_gives_an_error_and_no_signal() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let window = Window::around(&file, 0, 1 << 20).unwrap();
        let mut out = vec![0; 1 << 20];
        assert_eq!(window.copy(0, &mut out).unwrap(), 1 << 20);
        file.set_len(100_000).unwrap();
        assert_eq!(window.copy(0, &mut out[..100]).unwrap(), 100, "what is still there");
        let error = window.copy(0, &mut out).unwrap_err();
        assert_eq!(error.to_string(), "the file was cut while it was read, or its disk failed");
        // The next window is not affected.
        let next = Window::around(&file, 0, 100_000).unwrap();
        assert_eq!(next.copy(0, &mut out).unwrap(), 100_000);
        assert!(out[..100_000].iter().all(|byte| *byte == 7));
    }
}
