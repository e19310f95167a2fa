//! The collector's files: one for each producer, made of whole frames, each frame once.
//!
//! The file of a producer is the only state that is kept. When its sender reconnects, the file is read to determine which
//! frames the collector has, and an unfinished frame at the end is cut off. A file that was not written by a collector for
//! this producer is left unchanged, and the producer is refused.

use crate::have::{self, Have};
use crate::message::{Code, Fault};
use quipu_stream::codec::Unpacker;
use quipu_stream::ending::Ending;
use quipu_stream::frame::{HEADER_BYTES, Header, SYNC, kind};
use quipu_stream::input::{FileInput, Input};
use quipu_stream::loss::Loss;
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::wire::{cbor, crc32c_append};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are buffered before they are written.
const BUFFER_BYTES: usize = 256 << 10;

/// Bytes of a payload that are checked at a time.
const CHECK_BYTES: usize = 256 << 10;

/// Maximum size of a payload of losses, or of an END, that is decoded.
const MAX_TOLD_BYTES: u32 = 64 << 10;

/// Maximum number of streams of a producer whose losses are kept until a frame with records accounts for them. Losses of
/// further streams are only added up.
const MAX_LOSSES: usize = 65_536;

/// Contents of a producer's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of frames.
    pub frames: u64,
    /// Number of data records.
    pub records: u64,
    /// Data records known to be lost: those that headers report, and those of loss frames after a stream's last frame with
    /// records.
    pub lost: u64,
    /// Number of gaps in the frame numbers. If a producer has ended and only its last frames are missing, that is one gap.
    pub gaps: u64,
    /// If no frame is missing: data records that the END counts and that are neither present nor known to be lost.
    pub missing: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the producer has ended: no metadata follow its END.
    pub is_ended: bool,
}

/// Losses of each stream in loss frames that no later frame with records accounts for.
#[derive(Debug, Default)]
struct Losses {
    /// By stream: number of the last such loss frame if it is in the stream itself, and number of lost records.
    after: BTreeMap<u32, (u64, u64)>,
}

impl Losses {
    /// Adds a frame; frames may come in any order. For a loss frame, `payload` contains the losses. `last` is the highest
    /// frame number of its stream.
    fn add(&mut self, header: &Header, mut payload: &[u8], last: u64, totals: &mut Totals) {
        if matches!(header.kind, kind::DATA | kind::AGG) {
            if let Some((_, n)) = self.after.get(&header.stream).filter(|(seq, _)| *seq <= header.seq) {
                totals.lost = totals.lost.saturating_sub(*n);
                self.after.remove(&header.stream);
            }
            totals.lost = totals.lost.saturating_add(header.lost.into());
        }
        if header.kind != kind::LOSS {
            return;
        }
        while let Some(item) = cbor::decode(payload).ok().filter(|item| item.len_bytes > 0) {
            payload = payload.get(item.len_bytes..).unwrap_or_default();
            let Some(loss) = Loss::read(&item.value) else { continue };
            let n = loss.records.unwrap_or(0);
            let stream = loss.stream.unwrap_or(header.stream);
            let is_own = stream == header.stream;
            if is_own && header.seq < last {
                // A later frame with records reports this loss, too.
                continue;
            }
            if self.after.len() < MAX_LOSSES || self.after.contains_key(&stream) {
                let (seq, after) = self.after.entry(stream).or_default();
                (*seq, *after) = (if is_own { header.seq } else { *seq }, after.saturating_add(n));
            }
            totals.lost = totals.lost.saturating_add(n);
        }
    }
}

/// What is known about a producer's file.
#[derive(Debug, Default)]
struct Known {
    have: Have,
    losses: Losses,
    ending: Ending,
    /// Frames before the END, and data records in them, according to the END.
    said: [u64; 2],
    unpacker: Unpacker,
    totals: Totals,
}

/// Whether the payload of a frame contains losses or totals of the producer.
fn is_told(header: &Header) -> bool {
    matches!(header.kind, kind::LOSS | kind::END) && header.stored_len <= MAX_TOLD_BYTES
}

impl Known {
    /// Adds a frame; frames may come in any order. `stored` is its stored payload if [`is_told`], otherwise empty.
    ///
    /// # Errors
    /// If there are more ranges than a message can list.
    fn add(&mut self, header: &Header, stored: &[u8]) -> Result<(), Fault> {
        self.have.insert(header.stream, header.seq, have::told(header))?;
        self.totals.frames += 1;
        if header.kind == kind::DATA {
            self.totals.records += u64::from(header.records);
        }
        self.ending.add(header);
        self.totals.is_ended = self.ending.is_ended();
        let payload = match is_told(header) {
            true => self.unpacker.unpack(header, stored).unwrap_or_default(),
            false => &[],
        };
        if header.kind == kind::END {
            let said = cbor::decode(payload).ok();
            self.said =
                [1, 2].map(|key| said.as_ref().and_then(|said| said.value.get(key)?.as_u64()).unwrap_or(0));
        }
        self.losses.add(header, payload, self.have.last(header.stream), &mut self.totals);
        // If no number is missing in between, the last frames of a stream, or all of it, may still be missing.
        let is_all = self.totals.is_ended && self.have.is_whole();
        let is_short = is_all && self.totals.frames <= self.said[0];
        self.totals.gaps = self.have.n_gaps() + u64::from(is_short);
        // A frame may have fewer records than in the end: a buffer that was sent while it was being written.
        let known = self.totals.records.saturating_add(self.totals.lost);
        self.totals.missing = if is_all && !is_short { self.said[1].saturating_sub(known) } else { 0 };
        Ok(())
    }
}

/// Reads an existing file piece by piece.
#[derive(Debug)]
struct Recovery {
    input: FileInput,
    scanner: Scanner,
    /// End of the last good frame.
    good: u64,
    /// The frame whose payload is being checked, the number of bytes checked, and their checksum.
    checked: Option<(FrameAt, u64, u32)>,
}

/// The file of a producer.
#[derive(Debug)]
pub struct ProducerFile {
    id: u64,
    path: PathBuf,
    file: Arc<File>,
    known: Known,
    /// Bytes in the file.
    written: u64,
    buffer: Vec<u8>,
    /// Offset of the frame that is being written, and whether it was already present.
    frame: Option<(u64, bool)>,
    /// The bytes of the frame that is being written, if its payload will be decoded.
    told: Option<Vec<u8>>,
    is_dirty: bool,
    /// Whether the name of the file is known to be on disk.
    is_named: bool,
    recovery: Option<Box<Recovery>>,
    /// Bytes that were cut off at the end and have not been reported.
    cut: Option<Range<u64>>,
    max_bytes: u64,
}

/// The file name for a producer.
#[must_use]
pub fn file_name(producer: u64) -> String {
    format!("{producer:016x}.quipu")
}

fn storage(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Code::Storage, format!("cannot write {}: {error}", path.display()))
}

impl ProducerFile {
    /// Opens or creates the file of a producer. Its contents are known once [`ProducerFile::recover`] returns true.
    ///
    /// # Errors
    /// If it cannot be opened, or another collector uses it.
    pub fn open(folder: &Path, id: u64, max_bytes: u64) -> Result<ProducerFile, Fault> {
        let path = folder.join(file_name(id));
        let failed = |error: io::Error| storage(&path, &error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(Fault::new(Code::Storage, format!("another collector writes {}", path.display())));
        }
        let file = Arc::new(file);
        let input = FileInput::new(Arc::clone(&file)).map_err(failed)?;
        // The name has to be on disk before anything in the file is acknowledged, even if an earlier collector created it. An
        // empty file has nothing to acknowledge yet, and a sender may begin very many of them.
        let is_named = input.size_bytes() > 0;
        if is_named {
            sync_folder(folder).map_err(failed)?;
        }
        let recovery = Recovery { input, scanner: Scanner::new(), good: 0, checked: None };
        Ok(ProducerFile {
            id,
            path,
            file,
            known: Known::default(),
            written: 0,
            buffer: Vec::new(),
            frame: None,
            told: None,
            is_dirty: false,
            is_named,
            recovery: Some(Box::new(recovery)),
            cut: None,
            max_bytes,
        })
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The frames in the file.
    #[must_use]
    pub fn have(&self) -> &Have {
        &self.known.have
    }

    /// The totals of the file.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals { bytes: self.len(), ..self.known.totals }
    }

    /// Whether some of the data may not be on disk.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.is_dirty
    }

    /// Continues reading the existing contents, by about `budget` bytes; true once they are known.
    ///
    /// # Errors
    /// If the file cannot be read or cut, has more ranges than a message can list, or was not written by a collector for this
    /// producer; in the last case it stays unchanged.
    pub fn recover(&mut self, budget: u64) -> Result<bool, Fault> {
        let Some(recovery) = &mut self.recovery else { return Ok(true) };
        let Recovery { input, scanner, good, checked } = &mut **recovery;
        let failed = |error: io::Error| storage(&self.path, &error);
        let mut n = 0;
        while n < budget {
            let Some((frame, mut done, mut crc)) = checked.take() else {
                let Some(found) = scanner.next(input).map_err(failed)? else {
                    // Bytes after the last good frame were unfinished when the collector ended, or were damaged.
                    let end = input.size_bytes();
                    if *good < end {
                        if *good == 0 && !is_begun(input, self.id).map_err(failed)? {
                            return Err(not_ours(&self.path));
                        }
                        self.file.set_len(*good).and_then(|()| self.file.sync_all()).map_err(failed)?;
                        self.cut = Some(*good..end);
                    }
                    self.written = *good;
                    self.recovery = None;
                    return Ok(true);
                };
                n += found.header.len_bytes();
                *checked = Some((found, 0, 0));
                continue;
            };
            let left = u64::from(frame.header.stored_len) - done;
            if left > 0 {
                let len = left.min(CHECK_BYTES as u64) as usize; // At most `CHECK_BYTES`.
                let bytes = input.get(frame.payload_at() + done, len).map_err(failed)?;
                let bytes = bytes.get(..len).unwrap_or(bytes);
                if bytes.is_empty() {
                    continue;
                }
                crc = crc32c_append(crc, bytes);
                done += bytes.len() as u64;
                n += bytes.len() as u64;
                *checked = Some((frame, done, crc));
                continue;
            }
            let header = &frame.header;
            if header.producer != self.id {
                return Err(not_ours(&self.path));
            }
            // A damaged frame counts as missing, so that it is sent again.
            if crc == header.payload_crc {
                *good = frame.end();
                // Open buffers have no frame number of their own. Senders send none, but a file that was copied here may
                // contain some.
                if header.kind != kind::OPEN && !self.known.have.contains(header.stream, header.seq) {
                    let len = if is_told(header) { header.stored_len as usize } else { 0 }; // 64 KiB.
                    let stored = input.get(frame.payload_at(), len).map_err(failed)?;
                    self.known.add(header, stored.get(..len).unwrap_or_default())?;
                }
            }
        }
        Ok(false)
    }

    /// Bytes at the end that [`ProducerFile::recover`] cut off, since they were not a whole frame. They are returned once.
    pub fn take_cut(&mut self) -> Option<Range<u64>> {
        self.cut.take()
    }

    fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Begins a frame.
    ///
    /// # Errors
    /// If the file would exceed its limit.
    pub fn begin_frame(&mut self, header: &Header) -> Result<(), Fault> {
        let is_there = self.known.have.contains(header.stream, header.seq);
        if !is_there && self.len() + header.frame_len() > self.max_bytes {
            let text = format!("{} would become larger than {} bytes", self.path.display(), self.max_bytes);
            return Err(Fault::new(Code::Limit, text));
        }
        self.frame = Some((self.len(), is_there));
        self.told = is_told(header).then(Vec::new);
        Ok(())
    }

    /// Adds bytes of the frame.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.frame.is_none_or(|(_, is_there)| is_there) {
            return Ok(());
        }
        self.is_dirty = true;
        self.buffer.extend_from_slice(bytes);
        if let Some(told) = &mut self.told {
            told.extend_from_slice(bytes);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Completes the frame.
    ///
    /// # Errors
    /// If the producer has more ranges than a message can list.
    pub fn end_frame(&mut self, header: &Header) -> Result<(), Fault> {
        if let Some((_, false)) = self.frame {
            let told = self.told.take().unwrap_or_default();
            let stored = told.get(HEADER_BYTES..HEADER_BYTES + header.stored_len as usize); // 32 bits.
            if let Err(fault) = self.known.add(header, stored.unwrap_or_default()) {
                self.cancel()?;
                return Err(fault);
            }
        }
        self.frame = None;
        Ok(())
    }

    /// Discards the bytes of an unfinished frame.
    ///
    /// # Errors
    /// If the file cannot be truncated.
    pub fn cancel(&mut self) -> Result<(), Fault> {
        let Some((start, false)) = self.frame.take() else { return Ok(()) };
        match start.checked_sub(self.written) {
            Some(kept) => self.buffer.truncate(usize::try_from(kept).unwrap_or(usize::MAX)),
            None => {
                self.buffer.clear();
                self.file.set_len(start).map_err(|error| storage(&self.path, &error))?;
                self.written = start;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        if !self.buffer.is_empty() {
            self.file
                .write_all_at(&self.buffer, self.written)
                .map_err(|error| storage(&self.path, &error))?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes buffered data, and returns the file, which is to be synced.
    ///
    /// # Errors
    /// If the data cannot be written.
    pub fn to_sync(&mut self) -> Result<Arc<File>, Fault> {
        self.flush()?;
        // Frees the buffer: of the producers of a connection, few are writing at a time.
        self.buffer = Vec::new();
        self.is_dirty = false;
        Ok(Arc::clone(&self.file))
    }

    /// Whether the name of the file must be synced together with its [data](ProducerFile::to_sync). Returns true once.
    #[must_use]
    pub fn take_unnamed(&mut self) -> bool {
        !std::mem::replace(&mut self.is_named, true)
    }

    /// Notes that syncing the name failed.
    pub fn doubt_name(&mut self) {
        self.is_named = false;
    }

    /// Whether the existing contents are known, so that the sender may continue.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.recovery.is_none()
    }
}

/// Whether a file without a good frame may have been begun by a collector for this producer: it contains the beginning of a
/// frame, or room that was never written.
fn is_begun(input: &mut FileInput, id: u64) -> io::Result<bool> {
    let head = input.get(0, HEADER_BYTES)?;
    let n = head.len().min(SYNC.len());
    if head[..n] == SYNC[..n] {
        return Ok(Header::read(head).map_or(true, |header| header.producer == id));
    }
    let mut at = 0;
    while at < input.size_bytes() {
        let bytes = input.get(at, CHECK_BYTES)?;
        if bytes.is_empty() || bytes.iter().any(|byte| *byte != 0) {
            return Ok(bytes.is_empty());
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}

fn not_ours(path: &Path) -> Fault {
    let text = format!("{} is no file of this producer, and stays as it is: move it away", path.display());
    Fault::new(Code::Storage, text)
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Creates the folder of a collector, and syncs its name and those of the parent folders that it created.
///
/// # Errors
/// If it cannot be created.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    fs::create_dir_all(folder)?;
    for folder in made {
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        sync_folder(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}
