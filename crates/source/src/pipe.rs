//! A source that can be read once: standard input, a named pipe, any reader.
//!
//! Looking at the first bytes must not consume them, so a pipe keeps them and delivers them again to the one stream that
//! reads it.

use std::fmt;
use std::io::{self, Read};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper limit on the bytes of a pipe that are kept for peeking; [`Pipe::peek`] sees nothing after them.
pub(crate) const MAX_PEEK_BYTES: usize = 1 << 20;

/// The reader of a pipe's bytes.
pub(crate) type Reader = Box<dyn Read + Send>;

/// A reader that remembers its first bytes.
pub(crate) struct Pipe(Mutex<State>);

struct State {
    reader: Option<Reader>,
    /// The first bytes of the pipe, kept for good: at most [`MAX_PEEK_BYTES`].
    replay: Vec<u8>,
}

impl Pipe {
    pub(crate) fn new(reader: Reader) -> Pipe {
        Pipe(Mutex::new(State { reader: Some(reader), replay: Vec::new() }))
    }

    /// Copies bytes at offset `at` without consuming them; 0 at the end of the pipe or of the bytes that are kept.
    ///
    /// Waits for the writer, unless the bytes are already known or the pipe was handed out.
    pub(crate) fn peek(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let State { reader, replay } = &mut *state;
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let end = at.saturating_add(out.len()).min(MAX_PEEK_BYTES);
        while let (Some(reader), true) = (reader.as_mut(), replay.len() < end) {
            let known = replay.len();
            replay.resize(end, 0);
            let got = read_once(reader, &mut replay[known..]);
            replay.truncate(known + got.as_ref().map_or(0, |n| *n));
            if got? == 0 {
                break;
            }
        }
        let found = replay.get(at..replay.len().min(end)).unwrap_or_default();
        out[..found.len()].copy_from_slice(found);
        Ok(found.len())
    }

    /// Hands out the bytes that have been read so far, and the reader; `None` the second time.
    pub(crate) fn take(&self) -> Option<(Vec<u8>, Reader)> {
        let mut state = self.lock();
        let reader = state.reader.take()?;
        Some((state.replay.clone(), reader))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipe")
    }
}

/// One `read`, repeated if a signal interrupted it.
pub(crate) fn read_once(reader: &mut Reader, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match reader.read(out) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A reader that claims more bytes than it had room for must not make us read past the buffer.
            Ok(n) => return Ok(n.min(out.len())),
            Err(error) => return Err(error),
        }
    }
}

/// A named pipe or socket that is opened when its first byte is requested, because opening may wait for a writer.
pub(crate) struct OpenLater(Result<Reader, std::path::PathBuf>);

impl OpenLater {
    pub(crate) fn new(path: &std::path::Path) -> OpenLater {
        OpenLater(Err(path.to_owned()))
    }
}

impl Read for OpenLater {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Err(path) = &self.0 {
            self.0 = Ok(open(path)?);
        }
        match &mut self.0 {
            Ok(reader) => reader.read(out),
            Err(_) => Ok(0),
        }
    }
}

/// Opens a named pipe or device, or connects to a socket.
fn open(path: &std::path::Path) -> io::Result<Reader> {
    #[cfg(unix)]
    if std::os::unix::fs::FileTypeExt::is_socket(&std::fs::metadata(path)?.file_type()) {
        return Ok(Box::new(std::os::unix::net::UnixStream::connect(path)?));
    }
    Ok(Box::new(crate::descriptors::open(path)?))
}
