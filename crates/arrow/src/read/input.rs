//! Random access to the bytes of a file for the Parquet and Arrow readers.

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::{Bytes as SourceBytes, Codec, Container, Source};
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Minimum bytes that a read requests from the system.
const REQUEST_BYTES: usize = 16 << 10;
/// Bytes that are copied at a time.
const STEP_BYTES: usize = 1 << 20;
/// Bytes that are read ahead where a header is parsed.
const HEAD_BYTES: usize = 4 << 10;

/// The bytes of an uncompressed file.
pub(super) struct Input {
    name: String,
    size: u64,
    container: Container,
    /// Cursors that no reader uses at the moment.
    free: Mutex<Vec<SourceBytes>>,
    /// Number of pages that were read for decompression.
    n_pages: AtomicU64,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input").field("name", &self.name).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Input {
    pub(super) fn new(container: &Container) -> Result<Arc<Input>> {
        let bytes = container.bytes(REQUEST_BYTES)?;
        Ok(Arc::new(Input {
            name: container.name().to_owned(),
            size: bytes.len(),
            container: container.clone(),
            free: Mutex::new(vec![bytes]),
            n_pages: AtomicU64::new(0),
        }))
    }

    pub(super) fn of_memory(bytes: &[u8]) -> Result<Arc<Input>> {
        Input::new(&Source::from_bytes("", bytes.to_vec()).container_as(Codec::Plain)?)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn n_pages(&self) -> u64 {
        self.n_pages.load(Ordering::Relaxed)
    }

    /// Reads exactly these bytes. Never allocates more than the size of the file.
    pub(super) fn read(&self, at: u64, len: usize) -> io::Result<Vec<u8>> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let lock = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free = lock().pop();
        let mut cursor = match free {
            Some(cursor) => cursor,
            None => self.container.bytes(REQUEST_BYTES).map_err(io::Error::other)?,
        };
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            let wanted = (len - out.len()).min(STEP_BYTES);
            let there = cursor.get(at + out.len() as u64, wanted)?;
            // The file may have been truncated since it was opened.
            if there.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            out.extend_from_slice(&there[..there.len().min(wanted)]);
        }
        lock().push(cursor);
        Ok(out)
    }

    /// Reads up to `most` bytes from `at` on.
    pub(super) fn read_some(&self, at: u64, most: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
        self.read(at, most.min(left)).map_err(|cause| self.unreadable(cause))
    }

    #[cold]
    pub(super) fn unreadable(&self, cause: io::Error) -> Error {
        match cause.kind() {
            io::ErrorKind::UnexpectedEof => Error::truncated("the file ends before what it says"),
            _ => Error::new(ErrorKind::Io, "cannot read it").because(cause),
        }
        .in_file(&self.name)
    }
}

/// The same input with the interface that the Parquet library asks for.
#[derive(Clone)]
pub(super) struct Chunks(pub(super) Arc<Input>);

impl Length for Chunks {
    fn len(&self) -> u64 {
        self.0.size
    }
}

impl ChunkReader for Chunks {
    type T = From;

    fn get_read(&self, start: u64) -> parquet::errors::Result<From> {
        Ok(From { input: self.0.clone(), at: start, head: Vec::new(), taken: 0 })
    }

    /// The library reads page headers with `get_read` and page bodies with `get_bytes`.
    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.0.n_pages.fetch_add(1, Ordering::Relaxed);
        let bytes = self.0.read(start, length).map_err(|cause| ParquetError::External(Box::new(cause)))?;
        Ok(bytes.into())
    }
}

/// Reader of the bytes from an offset on.
pub(super) struct From {
    input: Arc<Input>,
    at: u64,
    head: Vec<u8>,
    taken: usize,
}

impl Read for From {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.head.len() {
            let left = usize::try_from(self.input.size.saturating_sub(self.at)).unwrap_or(usize::MAX);
            self.head = self.input.read(self.at, HEAD_BYTES.min(left))?;
            self.at += self.head.len() as u64;
            self.taken = 0;
        }
        let n = out.len().min(self.head.len() - self.taken);
        out[..n].copy_from_slice(&self.head[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}
