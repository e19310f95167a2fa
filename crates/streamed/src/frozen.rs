//! A snapshot of a recording whose program may still be running.
//!
//! The buffers are copied first, and the size of the file is taken afterwards: whatever a buffer held before it was copied is
//! in a frame below this size. So each thread is read up to some record without gaps, and a later snapshot has at least as
//! many records.

use crate::bytes::unreadable;
use crate::recording::{is_recording, rows_of_page};
use quipu_cells::cell::{CELL_BYTES, LOW};
use quipu_cells::layout::{CELLS_HEAD_BYTES, process};
use quipu_model::Result;
use quipu_source::{Content, Source};
use quipu_stream::decode::ROW_HEAD_BYTES;
use quipu_stream::frame::{encoding, kind};
use quipu_stream::index::frame_at;
use quipu_stream::input::{FileInput, Input};
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::session::{OPEN_HEAD_BYTES, OpenHead};
use quipu_stream::survey::Survey;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of buffers after which no more are copied; the remaining buffers are read in place.
const MAX_COPIED_BYTES: usize = 256 << 20;
/// Tries to copy a buffer that its thread keeps turning over.
const MAX_TRIES: u32 = 1000;
/// Number of checks whether a frame that was being written is finished, and the pause before each further check.
const N_LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// A copy of a buffer.
struct Copied {
    /// Offset and length of the payload in the file.
    at: u64,
    len: u64,
    /// The first bytes of the payload; zeros follow.
    bytes: Vec<u8>,
}

/// The bytes of a recording, with copies in place of its buffers.
struct Held {
    file: Arc<File>,
    size: u64,
    /// Sorted by offset.
    copies: Vec<Copied>,
}

/// A snapshot of a recording.
pub(crate) struct Frozen {
    /// The source to read.
    pub(crate) source: Source,
    file: Arc<File>,
    /// Sorted offsets of the buffers that existed before the copy.
    known: Vec<u64>,
}

impl Frozen {
    /// Takes a snapshot of a recording whose program has not stated its end; `None` for all other sources.
    ///
    /// # Errors
    /// If the source cannot be read.
    pub(crate) fn of(source: &Source) -> Result<Option<Frozen>> {
        let Some(path) = source.path().filter(|_| is_recording(source)) else { return Ok(None) };
        let unreadable = |cause| unreadable(source.name(), cause);
        let file = Arc::new(File::open(path).map_err(unreadable)?);
        let Some(page) = page_of(&file).map_err(unreadable)? else { return Ok(None) };
        let page = copy(&file, &page).map_err(unreadable)?;
        // PERF: most recordings have ended. Returning here avoids a scan for their frames.
        if rows_of_page(&page.bytes).became.contains(&Some(process::EXITED)) {
            return Ok(None);
        }
        let open = buffers_of(&file).map_err(unreadable)?;
        let mut copies = vec![page];
        let mut n_bytes = 0;
        for frame in open.iter().filter(|frame| frame.header.encoding == encoding::CELLS) {
            if n_bytes > MAX_COPIED_BYTES {
                break;
            }
            let copied = copy(&file, frame).map_err(unreadable)?;
            n_bytes += copied.bytes.len();
            copies.push(copied);
        }
        let size = file.metadata().map_err(unreadable)?.len();
        let known = open.iter().map(|frame| frame.offset).collect();
        let held = Held { file: Arc::clone(&file), size, copies };
        let source = Source::of_content(source.name(), Arc::new(held));
        Ok(Some(Frozen { source, file, known }))
    }

    /// Removes buffers that did not exist at the time of the snapshot, and findings about unfinished frames that are finished
    /// by now.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn settle(&self, survey: &mut Survey) -> io::Result<()> {
        survey.open.retain(|(_, frame)| self.known.binary_search(&frame.offset).is_ok());
        let is_open_end = |name: &str| matches!(name, "unfinished-frame" | "truncated-frame" | "torn-frame");
        for _ in 0..N_LOOKS {
            let mut input = FileInput::new(Arc::clone(&self.file))?;
            let mut kept = Vec::new();
            let mut is_any = false;
            for finding in survey.session.findings.drain(..) {
                let at = finding.number("offset").filter(|_| is_open_end(finding.name));
                match at {
                    Some(at) if frame_at(&mut input, at)?.is_some() => {}
                    _ => {
                        is_any |= at.is_some();
                        kept.push(finding);
                    }
                }
            }
            survey.session.findings = kept;
            if !is_any {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

/// Returns the process page, with which a recording begins.
fn page_of(file: &Arc<File>) -> io::Result<Option<FrameAt>> {
    let first = frame_at(&mut FileInput::new(Arc::clone(file))?, 0)?;
    Ok(first.filter(|first| first.header.kind == kind::OPEN && first.header.encoding == encoding::PLAIN))
}

/// The open frames of a file, in the order of their offsets.
fn buffers_of(file: &Arc<File>) -> io::Result<Vec<FrameAt>> {
    let mut input = FileInput::new(Arc::clone(file))?;
    let mut scanner = Scanner::new();
    let mut open = Vec::new();
    while let Some(frame) = scanner.next(&mut input)? {
        if frame.header.kind == kind::OPEN {
            open.push(frame);
        }
    }
    Ok(open)
}

/// Copies a buffer while its thread fills it.
fn copy(file: &Arc<File>, frame: &FrameAt) -> io::Result<Copied> {
    let len = u64::from(frame.header.stored_len);
    let at = frame.payload_at();
    let read = |len: usize| -> io::Result<Vec<u8>> {
        let mut input = FileInput::new(Arc::clone(file))?;
        let bytes = input.get(at, len)?;
        Ok(bytes[..bytes.len().min(len)].to_vec())
    };
    for _ in 0..MAX_TRIES {
        let first = read(len as usize)?; // Within the limits.
        let Some(head) = OpenHead::read(&first).filter(|head| head.state != 0) else { break };
        let mut bytes = read(len as usize)?;
        if head.is_still(&bytes) && head.is_still(&read(OPEN_HEAD_BYTES)?) {
            let n = match frame.header.encoding {
                encoding::CELLS => keep_cells(&head, &first, &mut bytes),
                _ => keep_rows(&first, &mut bytes),
            };
            bytes.truncate(n);
            return Ok(Copied { at, len, bytes });
        }
        std::thread::yield_now();
    }
    Ok(Copied { at, len, bytes: Vec::new() })
}

/// Keeps the cells of a second read that were already valid in the first, so that none is half written. Clears the others,
/// and returns the end of the last valid cell.
fn keep_cells(head: &OpenHead, first: &[u8], bytes: &mut [u8]) -> usize {
    let start = OPEN_HEAD_BYTES + CELLS_HEAD_BYTES;
    let mut end = start.min(bytes.len());
    let (Some(first), Some(cells)) = (first.get(start..), bytes.get_mut(start..)) else { return end };
    let pairs = first.as_chunks::<CELL_BYTES>().0.iter().zip(cells.as_chunks_mut::<CELL_BYTES>().0);
    for (nth, (first, cell)) in pairs.enumerate() {
        let side = u64::from_le_bytes(first.as_chunks::<8>().0[1]);
        if side & !LOW == head.tag {
            end = start + (nth + 1) * CELL_BYTES;
        } else {
            cell.fill(0);
        }
    }
    end
}

/// Does the same for plain rows, whose schema word is stored last.
fn keep_rows(first: &[u8], bytes: &mut [u8]) -> usize {
    let len = first.len().min(bytes.len());
    let mut at = OPEN_HEAD_BYTES;
    while let Some(head) = first.get(at..at + 8).filter(|_| at + ROW_HEAD_BYTES <= len) {
        bytes[at..at + 8].copy_from_slice(head);
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if head == [0; 8] {
            at += 8;
        } else if size < ROW_HEAD_BYTES || !size.is_multiple_of(8) {
            break;
        } else {
            at += size;
        }
    }
    len
}

impl Content for Held {
    fn len_bytes(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
        let wanted = out.len().min(left);
        let n = read_at(&self.file, &mut out[..wanted], at)?;
        let out = &mut out[..n];
        let end = at + n as u64;
        let from = self.copies.partition_point(|copied| copied.at + copied.len <= at);
        for copied in self.copies[from..].iter().take_while(|copied| copied.at < end) {
            let (start, stop) = (copied.at.max(at), (copied.at + copied.len).min(end));
            let to = &mut out[(start - at) as usize..(stop - at) as usize];
            let skip = usize::try_from(start - copied.at).unwrap_or(usize::MAX);
            let bytes = copied.bytes.get(skip..).unwrap_or_default();
            let n = bytes.len().min(to.len());
            to[..n].copy_from_slice(&bytes[..n]);
            to[n..].fill(0);
        }
        Ok(n)
    }
}

#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, at)
}

#[cfg(windows)]
fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, out, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_cells::layout::{Frame, HEADER_BYTES, TRAILER_BYTES, open, tag};
    use quipu_cells::whole;
    use std::io::{Seek, SeekFrom, Write};

    /// The head of a recording whose program has not ended.
    fn running() -> Vec<u8> {
        let mut head = whole::head();
        let exited = process::FIRST_ROW + process::ROW_BYTES;
        head[exited..exited + process::ROW_BYTES].fill(0);
        head
    }

    fn buffer(n_cells: u64, seq: u64) -> Vec<u8> {
        let len = 64 + CELLS_HEAD_BYTES + 64 * CELL_BYTES;
        let producer = quipu_stream::frame::Header::read(&whole::head()).unwrap().producer;
        let frame = Frame {
            kind: kind::OPEN,
            encoding: encoding::CELLS,
            len: len as u32,
            producer,
            ..Frame::default()
        };
        let mut out = vec![0; frame.bytes()];
        out[..HEADER_BYTES].copy_from_slice(&frame.header());
        let end = out.len() - TRAILER_BYTES;
        out[end..].copy_from_slice(&frame.trailer());
        let mut put = |at: usize, word: u64| out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        put(open::STATE, 1 | 1 << 32);
        put(open::SEQ, seq);
        put(open::TAG, tag(seq));
        for nth in 0..n_cells as usize {
            let at = HEADER_BYTES + 64 + CELLS_HEAD_BYTES + nth * CELL_BYTES;
            put(at, 0x1000 + nth as u64);
            put(at + 8, 0x40 | tag(seq));
        }
        out
    }

    #[test]
    fn a_buffer_stays_as_it_was_when_it_was_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.quipu");
        let head = running();
        std::fs::write(&path, [&head[..], &buffer(5, 1)].concat()).unwrap();
        let source = Source::open(&path).unwrap();
        let frozen = Frozen::of(&source).unwrap().unwrap();
        // The buffer is turned over, and another buffer and some more bytes are appended.
        let mut file = File::options().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(head.len() as u64)).unwrap();
        file.write_all(&[buffer(9, 2), buffer(3, 3)].concat()).unwrap();
        let mut bytes = frozen.source.container().unwrap().bytes(4096).unwrap();
        let expected = [&head[..], &buffer(5, 1)].concat();
        assert_eq!(bytes.len(), expected.len() as u64);
        for at in [0, head.len(), head.len() + 100, head.len() + 200] {
            let there = bytes.get(at as u64, expected.len()).unwrap();
            assert!(there[..expected.len() - at] == expected[at..], "{at}");
        }
        // A program that has ended changes nothing more.
        std::fs::write(&path, [whole::head(), buffer(5, 1)].concat()).unwrap();
        assert!(Frozen::of(&Source::open(&path).unwrap()).unwrap().is_none());
    }

    #[test]
    fn what_was_half_written_at_the_first_read_is_left_out() {
        let (first, mut second) = (buffer(5, 1), buffer(7, 1));
        let (first, second) = (&first[HEADER_BYTES..], &mut second[HEADER_BYTES..]);
        let head = OpenHead::read(first).unwrap();
        assert_eq!(keep_cells(&head, first, second), OPEN_HEAD_BYTES + CELLS_HEAD_BYTES + 5 * CELL_BYTES);
        assert_eq!(second[..second.len() - 8], first[..first.len() - 8]);
    }
}
