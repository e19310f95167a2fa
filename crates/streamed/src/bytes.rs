//! Random access to the bytes of a source for the stream reader, with a count of bytes; packed sources are first unpacked
//! into a temporary file.

use quipu_model::{Error, ErrorKind, Finding, Result};
use quipu_source::{Bytes, Codec, Container, Source, Stream, StreamOptions};
use quipu_stream::input::Input;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Fewest bytes per read when reading headers.
pub(crate) const HEADER_READ_BYTES: usize = 4 << 10;
/// Fewest bytes per read when reading frames.
pub(crate) const FRAME_READ_BYTES: usize = 64 << 10;

/// The bytes of an unpacked file.
#[derive(Debug)]
pub(crate) struct SourceInput {
    bytes: Bytes,
    /// Bytes that all readers of the trace have asked for.
    n_read: Arc<AtomicU64>,
}

impl SourceInput {
    pub(crate) fn new(
        container: &Container,
        request_bytes: usize,
        n_read: &Arc<AtomicU64>,
    ) -> Result<SourceInput> {
        Ok(SourceInput { bytes: container.bytes(request_bytes)?, n_read: Arc::clone(n_read) })
    }

    pub(crate) fn size(&self) -> u64 {
        self.bytes.len()
    }

    /// Frees the buffer until the next read.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink();
    }
}

impl Input for SourceInput {
    fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        self.n_read.fetch_add(len as u64, Ordering::Relaxed);
        self.bytes.get(at, len)
    }
}

/// Wraps an I/O error of reading the file `name`.
#[cold]
pub(crate) fn unreadable(name: &str, cause: io::Error) -> Error {
    Error::new(ErrorKind::Io, "cannot read it").because(cause).in_file(name)
}

/// Returns the bytes of a source with random access, and the fault that cut them short, if any.
///
/// # Errors
/// `Usage` if a pipe was read before; `Io` if the temporary file cannot be written.
pub(crate) fn seekable(source: &Source) -> Result<(Container, Option<Finding>)> {
    let container = source.container()?;
    if container.codec() == Codec::Plain {
        return Ok((source.spooled()?.container_as(Codec::Plain)?, None));
    }
    let stream = container.stream(container.all_members(), &StreamOptions::default())?;
    let fault = Arc::new(Mutex::new(None));
    let unpacked = Unpacked { stream, block: Vec::new(), at: 0, fault: Arc::clone(&fault) };
    let spooled = Source::from_reader(source.name(), unpacked).spooled()?;
    let error = fault.lock().unwrap_or_else(PoisonError::into_inner).take();
    let finding = error.map(|error: quipu_source::Error| Finding::of_end(&Error::from(error)));
    Ok((spooled.container_as(Codec::Plain)?, finding))
}

/// The bytes of all members of a container, up to the first fault.
struct Unpacked {
    stream: Stream,
    block: Vec<u8>,
    at: usize,
    fault: Arc<Mutex<Option<quipu_source::Error>>>,
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at >= self.block.len() {
            self.at = 0;
            match self.stream.next(&mut self.block) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(0),
                Err(error) => {
                    self.block.clear();
                    let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
                    fault.get_or_insert(error);
                    return Ok(0);
                }
            }
        }
        let n = out.len().min(self.block.len() - self.at);
        out[..n].copy_from_slice(&self.block[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
