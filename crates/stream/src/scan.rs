//! Scans bytes for frames: finds each frame, reports other bytes between them, and continues after damage.
//!
//! Only headers and trailers are checked here. A torn frame is not skipped by its length: no stored payload contains the
//! sync bytes, so the next sync bytes with a valid header are a frame.

use crate::finding::Finding;
use crate::frame::{HEADER_BYTES, Header, HeaderFault, SYNC, TRAILER_BYTES, is_trailer_of};
use crate::input::Input;
use memchr::memmem;
use std::io;

/// Number of bytes searched at a time.
const SEARCH_BYTES: usize = 1 << 20;

/// The longest possible header in bytes.
const MAX_HEADER_BYTES: usize = 64 * 8;

/// A frame with valid header and trailer; its payload has not been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameAt {
    /// Offset of the frame.
    pub offset: u64,
    /// The header of the frame.
    pub header: Header,
}

impl FrameAt {
    /// Offset of the payload.
    #[must_use]
    pub fn payload_at(&self) -> u64 {
        self.offset + self.header.len_bytes()
    }

    /// Offset of the end of the frame, where the next one may begin.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.header.frame_len()
    }
}

/// Scans an input for frames.
#[derive(Debug)]
pub struct Scanner {
    at: u64,
    /// Whether the first frame has to be searched for.
    search: bool,
    /// Frames from this offset on are left to other scanners.
    stop: u64,
    ended: bool,
    is_stream: bool,
    /// Findings so far; the reader takes them out.
    pub findings: Vec<Finding>,
    /// Bytes of room that was claimed and never written.
    pub unwritten_bytes: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner::new()
    }
}

impl Scanner {
    /// Scans from the first byte to the last.
    #[must_use]
    pub fn new() -> Scanner {
        Scanner {
            at: 0,
            search: false,
            stop: u64::MAX,
            ended: false,
            is_stream: false,
            findings: Vec::new(),
            unwritten_bytes: 0,
        }
    }

    /// Scans for frames that begin in `range`. Scanners of adjacent ranges together find the same frames as one scanner of all.
    #[must_use]
    pub fn over(range: std::ops::Range<u64>) -> Scanner {
        Scanner { at: range.start, search: range.start > 0, stop: range.end, ..Scanner::new() }
    }

    /// Returns the next frame; `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the input cannot be read.
    pub fn next(&mut self, input: &mut impl Input) -> io::Result<Option<FrameAt>> {
        if std::mem::take(&mut self.search) {
            self.is_stream = true;
            match find_header(input, self.at)? {
                Ok(found) => self.at = found,
                Err(_) => self.ended = true,
            }
        }
        while !self.ended && self.at < self.stop {
            if let Some(frame) = self.step(input)? {
                return Ok(Some(frame));
            }
        }
        if !std::mem::replace(&mut self.ended, true) || self.is_stream {
            return Ok(None);
        }
        // If the input has no frame at all, other findings are of no use.
        self.is_stream = true;
        self.unwritten_bytes = 0;
        self.findings = vec![Finding::new("no-frames")];
        Ok(None)
    }

    /// Examines the bytes at the current offset; returns the frame if there is one.
    fn step(&mut self, input: &mut impl Input) -> io::Result<Option<FrameAt>> {
        let at = self.at;
        input.forget(at);
        // A pipe is asked for no bytes beyond the frame, since they may arrive much later.
        let len = match input.get(at, HEADER_BYTES)? {
            [_, _, _, _, _, _, _, _, _, _, _, words, ..] => HEADER_BYTES.max(usize::from(*words) * 8),
            _ => HEADER_BYTES,
        };
        let bytes = input.get(at, len.min(MAX_HEADER_BYTES))?;
        if bytes.is_empty() {
            self.ended = true;
            return Ok(None);
        }
        if !bytes.starts_with(&SYNC) {
            if SYNC.starts_with(bytes) {
                self.truncated(at, None);
            } else {
                self.no_sync(input)?;
            }
            return Ok(None);
        }
        let header = match Header::read(bytes) {
            Ok(header) => header,
            Err(HeaderFault::Cut) => {
                // The length is not covered by a checksum yet, so the frame may be damaged rather than the last.
                match find_header(input, at + SYNC.len() as u64)? {
                    Ok(_) => self.lost_sync(input, "lost-sync")?,
                    Err(_) => self.truncated(at, None),
                }
                return Ok(None);
            }
            Err(HeaderFault::Damaged) => {
                self.lost_sync(input, "lost-sync")?;
                return Ok(None);
            }
            Err(HeaderFault::Version(version)) => {
                self.is_stream = true;
                let version = u64::from(version);
                self.findings.push(Finding::at("unknown-version", at).with("version", version));
                self.skip(input)?;
                return Ok(None);
            }
        };
        self.is_stream = true;
        if !header.is_within_limits() {
            self.findings.push(Finding::at("frame-too-large", at));
            self.skip(input)?;
            return Ok(None);
        }
        let frame = FrameAt { offset: at, header };
        let payload_end = frame.payload_at() + u64::from(header.stored_len);
        let rest_len = usize::try_from(frame.end() - payload_end).unwrap_or(usize::MAX);
        let rest = input.get(payload_end, rest_len)?;
        if rest.len() < rest_len {
            match find_header(input, at + SYNC.len() as u64)? {
                Ok(found) => {
                    self.findings.push(Finding::at("torn-frame", at).with("resynced_at", found));
                    self.at = found;
                }
                Err(end) => self.truncated(at, Some(frame.end().saturating_sub(end))),
            }
            return Ok(None);
        }
        let (padding, trailer) = rest[..rest_len].split_at(rest_len - TRAILER_BYTES);
        if !is_trailer_of(&header, trailer) {
            match find_header(input, at + SYNC.len() as u64)? {
                Ok(found) => {
                    self.findings.push(Finding::at("torn-frame", at).with("resynced_at", found));
                    self.at = found;
                }
                Err(_) => {
                    self.findings.push(Finding::at("torn-frame", at));
                    self.ended = true;
                }
            }
            return Ok(None);
        }
        if padding.iter().any(|byte| *byte != 0) {
            self.findings.push(Finding::at("padding-not-zero", at));
        }
        self.at = frame.end();
        Ok(Some(frame))
    }

    fn truncated(&mut self, at: u64, missing: Option<u64>) {
        let finding = Finding::at("truncated-frame", at);
        self.findings.push(match missing {
            Some(n) => finding.with("bytes_missing", n),
            None => finding,
        });
        self.ended = true;
    }

    /// Handles an offset at which a frame should begin and that has no sync bytes.
    fn no_sync(&mut self, input: &mut impl Input) -> io::Result<()> {
        let (zeros, then) = count_zeros(input, self.at)?;
        let is_room = zeros > 0 && zeros % 8 == 0 && SYNC.starts_with(&then[..then.len().min(SYNC.len())]);
        if is_room {
            self.unwritten_bytes += zeros;
            self.at += zeros;
            return Ok(());
        }
        let name = if self.at == 0 {
            "leading-garbage"
        } else if zeros >= 8 {
            "unfinished-frame"
        } else {
            "lost-sync"
        };
        self.lost_sync(input, name)
    }

    /// Searches for the next frame and reports the bytes before it.
    fn lost_sync(&mut self, input: &mut impl Input, name: &'static str) -> io::Result<()> {
        let from = self.at;
        let name = if from == 0 { "leading-garbage" } else { name };
        let (found, skipped) = match find_header(input, from + 1)? {
            Ok(found) => (Some(found), found - from),
            Err(end) => (None, end - from),
        };
        self.findings.push(if name == "leading-garbage" {
            Finding::new(name).with("bytes", skipped)
        } else {
            let finding = Finding::at(name, from).with("bytes_skipped", skipped);
            match found {
                Some(found) => finding.with("resynced_at", found),
                None => finding,
            }
        });
        match found {
            Some(found) => self.at = found,
            None => self.ended = true,
        }
        Ok(())
    }

    /// Searches for the next frame after one that has been reported.
    fn skip(&mut self, input: &mut impl Input) -> io::Result<()> {
        match find_header(input, self.at + SYNC.len() as u64)? {
            Ok(found) => self.at = found,
            Err(_) => self.ended = true,
        }
        Ok(())
    }
}

/// Number of zero bytes at `at`, and the first few bytes after them.
fn count_zeros(input: &mut impl Input, at: u64) -> io::Result<(u64, Vec<u8>)> {
    let mut n = 0;
    loop {
        input.forget(at + n);
        let bytes = input.get(at + n, SEARCH_BYTES)?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        n += zeros as u64;
        if zeros < bytes.len() || bytes.is_empty() {
            let then = input.get(at + n, SYNC.len())?;
            return Ok((n, then[..then.len().min(SYNC.len())].to_vec()));
        }
    }
}

/// The offset of the first sync bytes at or after `from` with a valid header. If there are none, the end of the input as the
/// inner error.
///
/// # Errors
/// Returns an error if the input cannot be read.
pub fn find_header(input: &mut impl Input, from: u64) -> io::Result<Result<u64, u64>> {
    let finder = memmem::Finder::new(&SYNC);
    let mut at = from;
    loop {
        input.forget(at);
        let bytes = input.get(at, SEARCH_BYTES + MAX_HEADER_BYTES)?;
        let is_last = bytes.len() < SEARCH_BYTES + MAX_HEADER_BYTES;
        let mut skip = 0;
        let mut unsure = None;
        while let Some(hit) = bytes.get(skip..).and_then(|rest| finder.find(rest)) {
            let start = skip + hit;
            if !is_last && start + MAX_HEADER_BYTES > bytes.len() {
                // The header may be incomplete in this window; the next window begins with it.
                unsure = Some(start);
                break;
            }
            if matches!(Header::read(&bytes[start..]), Ok(_) | Err(HeaderFault::Version(_))) {
                return Ok(Ok(at + start as u64));
            }
            skip = start + 1;
        }
        if is_last {
            return Ok(Err(at + bytes.len() as u64));
        }
        at += unsure.unwrap_or(bytes.len() - (SYNC.len() - 1)) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{TRAILER, kind};

    /// Input bytes, and the largest length requested at once.
    struct Asked<'a>(&'a [u8], usize);

    impl Input for Asked<'_> {
        fn get(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
            self.1 = self.1.max(len);
            Input::get(&mut self.0, at, len)
        }
    }

    #[test]
    fn a_header_that_claims_to_be_longer_than_the_file_hides_no_frame() {
        let header = Header { kind: kind::DATA, ..Header::default() }.to_bytes();
        let mut good = header.to_vec();
        good.extend(((header.len() + TRAILER_BYTES) as u32).to_le_bytes());
        good.extend(TRAILER);
        let mut bytes = header.to_vec();
        bytes[11] = 0xff;
        bytes.extend(&good);
        let mut scanner = Scanner::new();
        let frame = scanner.next(&mut &bytes[..]).unwrap().map(|frame| frame.offset);
        assert_eq!(frame, Some(header.len() as u64), "{:?}", scanner.findings);
    }

    #[test]
    fn what_a_cut_frame_promises_is_not_asked_for() {
        let header =
            Header { kind: kind::DATA, stored_len: 60 << 20, raw_len: 60 << 20, ..Header::default() };
        let header = header.to_bytes();
        let mut input = Asked(&header, 0);
        let mut scanner = Scanner::new();
        assert_eq!(scanner.next(&mut input).unwrap(), None);
        let missing = scanner.findings[0].number("bytes_missing");
        assert_eq!(missing, Some((60 << 20) + TRAILER_BYTES as u64));
        assert!(input.1 <= SEARCH_BYTES + MAX_HEADER_BYTES, "{} bytes at once", input.1);
    }
}
