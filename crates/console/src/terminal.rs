//! The standard streams, protected so that texts from traces and file names cannot control a terminal.
//!
//! All verbs write through these. Files and pipes get every byte unchanged; a terminal gets line feeds, tabs and colours, and
//! everything else that it would interpret is escaped.

use quipu::model::harmless;
use std::cell::RefCell;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// True if the user wants texts unescaped.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// Maximum length of an escape sequence for a colour.
const MAX_COLOR_BYTES: usize = 16;
/// Maximum length of a UTF-8 character.
const MAX_CHAR_BYTES: usize = 4;

/// Sets whether texts are sent to terminals unescaped.
pub fn keep_raw(is_raw: bool) {
    IS_RAW.store(is_raw, Ordering::Relaxed);
}

/// Captured output of a thread.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: Vec<u8>,
}

/// Captured output, to which other threads may also write.
type Shared = Arc<Mutex<Kept>>;

thread_local! {
    /// Captures the output of this thread, if set.
    static KEPT: RefCell<Option<Shared>> = const { RefCell::new(None) };
}

/// Runs work and captures what this thread writes to [`stdout`] and [`stderr`] meanwhile: for programs without a command
/// line.
pub fn kept<T>(work: impl FnOnce() -> T) -> (T, Kept) {
    let shared = Shared::default();
    let before = KEPT.replace(Some(shared.clone()));
    let done = work();
    KEPT.set(before);
    let kept = std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner));
    (done, kept)
}

/// A standard stream, or its captured output.
#[derive(Debug)]
pub struct Standard {
    is_error: bool,
    kept: Option<Shared>,
}

impl Standard {
    fn new(is_error: bool) -> Standard {
        Standard { is_error, kept: KEPT.with_borrow(Clone::clone) }
    }
}

impl Write for Standard {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let Some(kept) = &self.kept else {
            return if self.is_error { io::stderr().write(text) } else { io::stdout().write(text) };
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = if self.is_error { &mut kept.err } else { &mut kept.out };
        stream.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match (&self.kept, self.is_error) {
            (Some(_), _) => Ok(()),
            (None, true) => io::stderr().flush(),
            (None, false) => io::stdout().flush(),
        }
    }
}

impl Standard {
    fn is_terminal(&self) -> bool {
        match (&self.kept, self.is_error) {
            (Some(_), _) => false,
            (None, true) => io::stderr().is_terminal(),
            (None, false) => io::stdout().is_terminal(),
        }
    }
}

/// Standard output.
pub fn stdout() -> Stream<Standard> {
    Stream::new(Standard::new(false))
}

/// Standard error.
pub fn stderr() -> Stream<Standard> {
    Stream::new(Standard::new(true))
}

/// True if a path leads to standard output (`/dev/stdout`), and that is a pipe or a socket: its reader expects only what is
/// written to the path.
#[cfg(unix)]
pub fn is_piped_stdout(path: &Path) -> bool {
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let own = io::stdout().as_fd().try_clone_to_owned().and_then(|out| fs::File::from(out).metadata());
    let (Ok(own), Ok(other)) = (own, fs::metadata(path)) else { return false };
    let is_pipe = own.file_type().is_fifo() || own.file_type().is_socket();
    is_pipe && (own.dev(), own.ino()) == (other.dev(), other.ino())
}

/// On other systems no path leads to standard output.
#[cfg(not(unix))]
pub fn is_piped_stdout(_: &Path) -> bool {
    false
}

/// A stream that escapes control characters if it is a terminal.
#[derive(Debug)]
pub struct Stream<W: Write> {
    inner: W,
    is_terminal: bool,
    escapes: bool,
    /// Whether Quipu's own colours are let through.
    has_colours: bool,
    /// The beginning of a character or colour sequence whose end has not been written yet.
    begun: Vec<u8>,
}

impl Stream<Standard> {
    fn new(inner: Standard) -> Stream<Standard> {
        let is_terminal = inner.is_terminal();
        let escapes = is_terminal && !IS_RAW.load(Ordering::Relaxed);
        Stream { inner, is_terminal, escapes, has_colours: true, begun: Vec::new() }
    }
}

impl<W: Write> Stream<W> {
    /// Sets the stream up for text without colours of Quipu's own: colours in the text are escaped, too.
    #[must_use]
    pub fn without_colours(self) -> Stream<W> {
        self.with_colours(false)
    }

    /// Sets whether colours are let through.
    #[must_use]
    pub fn with_colours(mut self, has_colours: bool) -> Stream<W> {
        self.has_colours = has_colours;
        self
    }

    /// Whether the stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes the incomplete character or sequence at the end of the text.
    fn end(&mut self) -> io::Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        let mut out = Vec::new();
        append(&std::mem::take(&mut self.begun), self.has_colours, &mut out);
        self.inner.write_all(&out)
    }
}

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if !self.escapes {
            return self.inner.write(text);
        }
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(text);
        self.begun = all.split_off(all.len() - n_begun(&all));
        let mut out = Vec::with_capacity(all.len());
        append(&all, self.has_colours, &mut out);
        self.inner.write_all(&out)?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for Stream<W> {
    fn drop(&mut self) {
        // A failure cannot be reported anywhere.
        let _ = self.end();
    }
}

/// Number of bytes at the end that may be the beginning of a colour sequence or of a character.
fn n_begun(text: &[u8]) -> usize {
    let tail = &text[text.len() - text.len().min(MAX_COLOR_BYTES)..];
    if let Some(at) = tail.iter().rposition(|byte| *byte == 0x1b) {
        let sequence = &tail[at + 1..];
        let is_open = sequence.is_empty()
            || sequence.split_first().is_some_and(|(first, rest)| {
                *first == b'[' && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b';'))
            });
        if is_open {
            return tail.len() - at;
        }
    }
    let tail = &text[text.len() - text.len().min(MAX_CHAR_BYTES - 1)..];
    match tail.utf8_chunks().last() {
        Some(last)
            if !last.invalid().is_empty()
                && std::str::from_utf8(last.invalid()).is_err_and(|error| error.error_len().is_none()) =>
        {
            last.invalid().len()
        }
        _ => 0,
    }
}

/// Appends text with escapes for everything but line feeds, tabs and, with `has_colours`, colours.
fn append(text: &[u8], has_colours: bool, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
        harmless::append(&rest[..at], keeps, out);
        rest = &rest[at..];
        let n = if has_colours { color_bytes(rest) } else { 0 };
        if n > 0 {
            out.extend_from_slice(&rest[..n]);
        } else {
            harmless::append(&rest[..1], keeps, out);
        }
        rest = &rest[n.max(1)..];
    }
    harmless::append(rest, keeps, out);
}

fn keeps(c: char) -> bool {
    c == '\n' || c == '\t'
}

/// Length of the sequence at the start of `text` if it sets one of the colours and weights that Quipu uses; otherwise 0.
///
/// A name in a trace may also contain such a sequence and appear in green, but it cannot hide, blink, or move the cursor.
fn color_bytes(text: &[u8]) -> usize {
    let Some(codes) = text.strip_prefix(b"\x1b[") else { return 0 };
    let Some(n) = codes.iter().take(MAX_COLOR_BYTES - 3).position(|byte| *byte == b'm') else { return 0 };
    let is_ours = |code: &[u8]| {
        matches!(code, b"" | b"0" | b"1" | b"2" | b"4" | b"31" | b"32" | b"33" | b"34" | b"35" | b"36")
    };
    if codes[..n].split(|byte| *byte == b';').all(is_ours) { n + 3 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[&[u8]]) -> String {
        shown_with(parts, true)
    }

    fn shown_with(parts: &[&[u8]], has_colours: bool) -> String {
        let mut out = Vec::new();
        let mut stream =
            Stream { inner: &mut out, is_terminal: true, escapes: true, has_colours, begun: Vec::new() };
        parts.iter().for_each(|part| stream.write_all(part).unwrap());
        drop(stream);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_gets_our_colours_and_no_commands() {
        let text = b"\x1b[1m\x1b[31merror:\x1b[0m a\tb\n\x1b]0;x\x07\x1b[2J\x1b[8m\r\xff";
        assert_eq!(
            shown(&[text]),
            "\x1b[1m\x1b[31merror:\x1b[0m a\tb\n\\x1b]0;x\\x07\\x1b[2J\\x1b[8m\\x0d\\xff"
        );
    }

    #[test]
    fn colours_of_a_trace_are_escaped_where_none_is_ours() {
        assert_eq!(shown_with(&[b"\x1b[3", b"1mred\n"], false), "\\x1b[31mred\n");
    }

    #[test]
    fn borders_of_buffers_change_nothing() {
        let text = "\x1b[31mé\u{202e}\u{9b}\x1b[2J€😀\x1b[0m\x1b[".as_bytes();
        let whole = shown(&[text]);
        for at in 0..=text.len() {
            assert_eq!(shown(&[&text[..at], &text[at..]]), whole, "split at {at}");
        }
        assert_eq!(shown(&text.chunks(1).collect::<Vec<_>>()), whole);
    }
}
