//! Random access to the bytes of a file.

use std::io;

use crate::codec::Codec;
use crate::container::Container;
use crate::error::{Error, ErrorKind, Result};
use crate::packed::Packed;

/// Random access to the bytes of a file that is not packed.
pub struct Bytes {
    packed: Packed,
    size: u64,
}

impl Container {
    /// Opens a file that is not packed for random access. Each read requests at least `request_bytes`.
    ///
    /// # Errors
    /// `Unsupported` if the file is packed or a pipe.
    pub fn bytes(&self, request_bytes: usize) -> Result<Bytes> {
        let size = self.size_bytes().filter(|_| self.codec() == Codec::Plain && self.source().can_seek());
        let Some(size) = size else {
            let error = Error::new(ErrorKind::Unsupported, "reading cannot begin in the middle of this");
            return Err(error.in_file(self.shared_name()));
        };
        Ok(Bytes { packed: Packed::with_request(self.origin()?, request_bytes), size })
    }
}

impl Bytes {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.size
    }

    /// True if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.size == 0
    }

    /// Frees the buffer of a file; its content is read again when it is needed.
    pub fn shrink(&mut self) {
        self.packed.shrink();
    }

    /// The bytes from `at` on: at least `len` of them, fewer only at the end of the file. Callers must bound `len` by a
    /// constant.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let at = at.min(self.size);
        let left = usize::try_from(self.size - at).unwrap_or(usize::MAX);
        self.packed.seek(at)?;
        self.packed.fill(len.min(left))
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bytes").field("size", &self.size).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use crate::Source;

    #[test]
    fn bytes_are_read_at_any_place_and_in_any_order() {
        let all: Vec<u8> = (0..100_000_u32).map(|n| n as u8).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bytes");
        std::fs::write(&path, &all).unwrap();
        for source in [Source::open(&path).unwrap(), Source::from_bytes("bytes", all.clone())] {
            let mut bytes = source.container().unwrap().bytes(512).unwrap();
            assert_eq!(bytes.len(), 100_000);
            for (at, len) in [(0, 10), (99_990, 100), (500, 20_000), (0, 1), (100_000, 5), (7, 9_000)] {
                let there = bytes.get(at, len).unwrap();
                let wanted = &all[at as usize..(at as usize + len).min(all.len())];
                assert_eq!(there.get(..wanted.len()), Some(wanted), "{at}");
            }
        }
        let mut gzip = flate(&all);
        gzip.truncate(100);
        assert!(Source::from_bytes("packed", gzip).container().unwrap().bytes(1).is_err());
    }

    /// The first bytes of a gzip file.
    fn flate(_: &[u8]) -> Vec<u8> {
        [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &[1, 0, 0, 0xff, 0xff]].concat()
    }
}
