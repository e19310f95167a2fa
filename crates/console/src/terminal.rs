//! The standard streams, protected so that texts from traces and file names cannot control a terminal.
//!
//! All verbs write through these. Files and pipes get every byte unchanged; a terminal gets line feeds, tabs and the colours of
//! [`Stream::paint`], and everything else that it would interpret is escaped, colours in texts from traces included.

use quipu::model::{Paint, harmless};
use std::cell::RefCell;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// True if the user wants texts unescaped.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// The colours for streams that escape, with a number in each sequence by which the stream knows it. A text cannot contain it,
/// since the number is drawn at random when the process first needs it and never leaves the process.
static OWN: LazyLock<Own> = LazyLock::new(Own::new);

/// The beginning of every sequence as the terminal gets it.
const LEAD: &str = "\x1b[";
/// Maximum length of a UTF-8 character.
const MAX_CHAR_BYTES: usize = 4;

/// Sets whether texts are sent to terminals unescaped.
pub fn keep_raw(is_raw: bool) {
    IS_RAW.store(is_raw, Ordering::Relaxed);
}

/// Colours that no text can contain.
struct Own {
    /// The beginning of every sequence: [`LEAD`] and the number.
    lead: String,
    paint: Paint,
}

impl Own {
    fn new() -> Own {
        // The keys of hashers are random.
        let lead = format!("{LEAD}{};", RandomState::new().hash_one(LEAD));
        // The strings live as long as the process: there are as many as there are colours.
        let own = |sequence: &'static str| -> &'static str {
            match sequence.strip_prefix(LEAD) {
                Some(rest) => Box::leak(format!("{lead}{rest}").into_boxed_str()),
                None => sequence,
            }
        };
        Own { paint: Paint::ANSI.map(own), lead }
    }
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
    /// The beginning of a character or of a colour of [`OWN`] whose end has not been written yet.
    begun: Vec<u8>,
}

impl Stream<Standard> {
    fn new(inner: Standard) -> Stream<Standard> {
        let is_terminal = inner.is_terminal();
        let escapes = is_terminal && !IS_RAW.load(Ordering::Relaxed);
        Stream { inner, is_terminal, escapes, begun: Vec::new() }
    }
}

impl<W: Write> Stream<W> {
    /// The colours for text that is written to this stream. It escapes all others if it is a terminal.
    pub fn paint(&self) -> Paint {
        if self.escapes { OWN.paint } else { Paint::ANSI }
    }

    /// Whether the stream is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// Writes text with its colours; no part of it may come from a trace or the command line.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn write_own(&mut self, text: &str) -> io::Result<()> {
        self.end()?;
        self.inner.write_all(text.as_bytes())
    }

    /// Writes the incomplete character or sequence at the end of the text.
    fn end(&mut self) -> io::Result<()> {
        if self.begun.is_empty() {
            return Ok(());
        }
        let mut out = Vec::new();
        append(&std::mem::take(&mut self.begun), &mut out);
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
        append(&all, &mut out);
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

/// Number of bytes at the end that may be the beginning of a colour or of a character.
fn n_begun(text: &[u8]) -> usize {
    let lead = OWN.lead.as_bytes();
    let tail = &text[text.len() - text.len().min(lead.len() - 1)..];
    if let Some(at) = tail.iter().rposition(|byte| *byte == 0x1b)
        && lead.starts_with(&tail[at..])
    {
        return tail.len() - at;
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

/// Appends text with escapes for everything but line feeds, tabs and the colours of [`OWN`], which lose their number.
fn append(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| *byte == 0x1b) {
        harmless::append(&rest[..at], keeps, out);
        rest = &rest[at..];
        rest = match rest.strip_prefix(OWN.lead.as_bytes()) {
            Some(behind) => {
                out.extend_from_slice(LEAD.as_bytes());
                behind
            }
            None => {
                harmless::append(&rest[..1], keeps, out);
                &rest[1..]
            }
        };
    }
    harmless::append(rest, keeps, out);
}

fn keeps(c: char) -> bool {
    c == '\n' || c == '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parts: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut stream = Stream { inner: &mut out, is_terminal: true, escapes: true, begun: Vec::new() };
        parts.iter().for_each(|part| stream.write_all(part).unwrap());
        drop(stream);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_gets_our_colours_and_no_commands() {
        let Paint { bold, fault, reset, .. } = OWN.paint;
        let text = format!("{bold}{fault}error:{reset} a\tb\n\x1b]0;x\x07\x1b[2J\x1b[8m\r");
        assert_eq!(
            shown(&[text.as_bytes(), b"\xff"]),
            "\x1b[1m\x1b[31merror:\x1b[0m a\tb\n\\x1b]0;x\\x07\\x1b[2J\\x1b[8m\\x0d\\xff"
        );
    }

    #[test]
    fn colours_that_a_text_contains_are_escaped() {
        let Paint { mark, reset, .. } = OWN.paint;
        let shown = shown(&[mark.as_bytes(), b"\x1b[3", b"1mred\x1b[0m\x1b[m\x1b[1;31m", reset.as_bytes()]);
        assert_eq!(shown, "\x1b[33m\\x1b[31mred\\x1b[0m\\x1b[m\\x1b[1;31m\x1b[0m");
    }

    #[test]
    fn each_colour_for_a_terminal_is_the_usual_one() {
        let sequences = |paint: Paint| {
            let Paint { bold, dim, code, data, mark, literal, fault, reset } = paint;
            [bold, dim, code, data, mark, literal, fault, reset].concat()
        };
        assert_eq!(shown(&[sequences(OWN.paint).as_bytes()]), sequences(Paint::ANSI));
    }

    #[test]
    fn borders_of_buffers_change_nothing() {
        let Paint { fault, reset, .. } = OWN.paint;
        let text = format!("{fault}é\u{202e}\u{9b}\x1b[2J\x1b[31m€😀{reset}\x1b[");
        let text = text.as_bytes();
        let whole = shown(&[text]);
        assert!(whole.starts_with("\x1b[31mé\\u{202e}"), "{whole}");
        for at in 0..=text.len() {
            assert_eq!(shown(&[&text[..at], &text[at..]]), whole, "split at {at}");
        }
        assert_eq!(shown(&text.chunks(1).collect::<Vec<_>>()), whole);
    }
}
