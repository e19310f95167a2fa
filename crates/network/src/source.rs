//! The input of a sender: a growing file, or a folder of such files, in the order of their names.

use crate::writing::is_being_written;
use quipu_stream::ending::Ending;
use quipu_stream::follow::{Growing, Next};
use quipu_stream::frame::{Header, kind};
use quipu_stream::input::FileInput;
use quipu_stream::ranges::Ranges;
use quipu_stream::recorder::{LOST, Overwritten, overwritten};
use quipu_stream::scan::FrameAt;
use quipu_stream::slice;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause before checking again whether a program is writing a file.
const PAUSE: Duration = Duration::from_millis(500);

/// The next item of a source.
#[derive(Debug)]
pub enum Item {
    /// A frame of a file.
    Frame(FrameAt),
    /// A frame made from an open buffer.
    Closed(Header, Vec<u8>),
    /// A file was read to its end.
    FileEnd(PathBuf),
    /// Nothing available yet.
    Nothing,
    /// Nothing more will follow.
    End,
}

/// The frames of a file or folder.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    is_folder: bool,
    current: Option<(PathBuf, Growing)>,
    /// Path of the last file that was begun.
    last: Option<PathBuf>,
    /// Known files after that one.
    upcoming: VecDeque<PathBuf>,
    /// END frames, held back until the buffers of their file are sent.
    ends: Vec<FrameAt>,
    /// Items to return before more is read.
    queue: VecDeque<Item>,
    producers: FxHashMap<u64, Ending>,
    /// Numbers of the frames read so far, by producer and stream.
    seen: FxHashMap<(u64, u32), Ranges>,
    /// Bytes that do not belong to frames.
    pub other_bytes: u64,
    /// Whether to leave out buffers of producers that have not ended, even if no program is writing them.
    pub leaves_open: bool,
    /// Whether the files are a spool, which no program maps.
    pub is_spool: bool,
    /// Whether a program is writing the current file, and when that was checked.
    written: Option<(bool, Instant)>,
    /// Number of buffers left out.
    pub left_open: u64,
    /// Whether buffers were left out although no program is writing their file.
    pub is_left_alone: bool,
    /// The folder that may belong to a flight recorder.
    pub recorder: Option<PathBuf>,
    /// The records that the flight recorder reports as overwritten, and the version of the file that lists them.
    overwritten: Option<(Version, OfStreams)>,
}

/// Version of a file: inode number, and seconds and nanoseconds of its last modification.
type Version = (u64, i64, i64);

/// Overwritten records, by producer and stream.
type OfStreams = BTreeMap<(u64, u32), Overwritten>;

impl Source {
    /// Opens the file or folder at `path`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn open(path: &Path) -> io::Result<Source> {
        let is_folder = fs::metadata(path)?.is_dir();
        let mut source = Source {
            path: path.to_owned(),
            is_folder,
            current: None,
            last: None,
            upcoming: VecDeque::new(),
            ends: Vec::new(),
            queue: VecDeque::new(),
            producers: FxHashMap::default(),
            seen: FxHashMap::default(),
            other_bytes: 0,
            leaves_open: false,
            is_spool: false,
            written: None,
            left_open: 0,
            is_left_alone: false,
            recorder: is_folder.then(|| path.to_owned()),
            overwritten: None,
        };
        if !is_folder {
            source.begin(path.to_owned())?;
        }
        Ok(source)
    }

    fn begin(&mut self, path: PathBuf) -> io::Result<()> {
        let file = File::open(&path)?;
        self.last = Some(path.clone());
        self.written = None;
        self.current = Some((path, Growing::new(file)));
        Ok(())
    }

    /// Returns the next item. `is_over` means that nothing more will be written; determine it before the call.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn next(&mut self, is_over: bool) -> io::Result<Item> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                if matches!(item, Item::FileEnd(_)) {
                    // The queued frames could be read from the file until now.
                    self.current = None;
                }
                return Ok(item);
            }
            let Some((_, growing)) = &mut self.current else {
                let next = if self.has_following()? { self.upcoming.pop_front() } else { None };
                match next {
                    Some(next) => match self.begin(next) {
                        // A flight recorder removes its oldest files.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                        done => done?,
                    },
                    None if !self.is_folder || is_over || self.has_ended() => return Ok(Item::End),
                    None => return Ok(Item::Nothing),
                }
                continue;
            };
            let mut next = growing.next(|| false)?;
            // A file of a folder is finished once the next one exists, unless a program still maps it. Both are checked
            // before the rest of the file is read, so that the rest includes everything the program wrote.
            if next == Next::Nothing && (is_over || self.has_following()?) && (!self.may_grow() || is_over) {
                let Some((_, growing)) = &mut self.current else { continue };
                next = growing.next(|| true)?;
            }
            let Some((path, growing)) = &mut self.current else { continue };
            match next {
                Next::Frame(frame) => {
                    let header = &frame.header;
                    let is_end = header.kind == kind::END;
                    let seen = self.seen.entry((header.producer, header.stream)).or_default();
                    seen.insert(header.seq..header.seq.saturating_add(1));
                    let ending = self.producers.entry(header.producer).or_default();
                    ending.add(header);
                    if is_end || !ending.is_ended() {
                        // The producer continues, so earlier END frames were not its last.
                        let (before, others) = std::mem::take(&mut self.ends)
                            .into_iter()
                            .partition(|end| end.header.producer == header.producer);
                        self.ends = others;
                        let before: Vec<FrameAt> = before;
                        if !before.is_empty() {
                            self.queue.extend(before.into_iter().map(Item::Frame));
                            if is_end {
                                self.ends.push(frame);
                            } else {
                                self.queue.push_back(Item::Frame(frame));
                            }
                            continue;
                        }
                    }
                    if is_end {
                        self.ends.push(frame);
                        continue;
                    }
                    return Ok(Item::Frame(frame));
                }
                Next::Other(bytes) => {
                    if !is_room(growing.file(), &bytes)? {
                        self.other_bytes += bytes.end - bytes.start;
                    }
                }
                Next::Nothing => return Ok(Item::Nothing),
                Next::End => {
                    let mut input = FileInput::new(Arc::clone(growing.file()))?;
                    // If the file was not checked, its buffers are new, so a program is writing them.
                    let is_written = !self.is_spool && self.written.is_none_or(|(is_written, _)| is_written);
                    let closed = if (self.leaves_open || is_written) && !growing.has_ended() {
                        self.left_open += growing.open().len() as u64;
                        self.is_left_alone = !is_written;
                        Vec::new()
                    } else {
                        slice::closed(&mut input, growing.open())?
                    };
                    for (header, stored) in closed {
                        let seen = self.seen.entry((header.producer, header.stream)).or_default();
                        // Skip a buffer that was written out as a frame and not begun anew.
                        if !seen.contains(header.seq) {
                            seen.insert(header.seq..header.seq.saturating_add(1));
                            self.queue.push_back(Item::Closed(header, stored));
                        }
                    }
                    self.queue.extend(std::mem::take(&mut self.ends).into_iter().map(Item::Frame));
                    self.queue.push_back(Item::FileEnd(path.clone()));
                }
            }
        }
    }

    /// Whether there was any producer, and all of them have ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.producers.is_empty() && self.producers.values().all(Ending::is_ended)
    }

    /// Whether the current file has buffers that a program may still write out.
    fn may_grow(&mut self) -> bool {
        let Some((path, growing)) = &self.current else { return false };
        if self.is_spool || growing.open().is_empty() || growing.has_ended() {
            return false;
        }
        let known = self.written.filter(|(_, since)| since.elapsed() < PAUSE);
        let (is_written, _) = *self
            .written
            .insert(known.unwrap_or_else(|| (is_being_written(growing.file(), path), Instant::now())));
        is_written
    }

    /// Whether a folder has a file after the last one that was begun.
    fn has_following(&mut self) -> io::Result<bool> {
        if self.is_folder && self.upcoming.is_empty() {
            self.upcoming = files_after(&self.path, self.last.as_deref())?.into();
        }
        Ok(!self.upcoming.is_empty())
    }

    /// Reads the stored payload of the frame that was returned last.
    ///
    /// # Errors
    /// If it cannot be read, or the file was truncated.
    pub fn stored(&self, frame: &FrameAt, stored: &mut Vec<u8>) -> io::Result<()> {
        let Some((_, growing)) = &self.current else { return Err(io::ErrorKind::NotFound.into()) };
        // Within the limits of frames, or else refused by the caller.
        stored.resize(frame.header.stored_len as usize, 0);
        growing.file().read_exact_at(stored, frame.payload_at())
    }

    /// The records of a stream that the flight recorder currently reports as overwritten; `None` without a flight recorder,
    /// or if nothing of the stream was overwritten.
    ///
    /// # Errors
    /// If its report cannot be read.
    pub fn overwritten(&mut self, producer: u64, stream: u32) -> io::Result<Option<Overwritten>> {
        let Some(folder) = &self.recorder else { return Ok(None) };
        let path = folder.join(LOST);
        let meta = match fs::metadata(&path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            meta => meta?,
        };
        // Each new version of the report is a new file.
        let version = (meta.ino(), meta.mtime(), meta.mtime_nsec());
        let known = self.overwritten.take().filter(|(known, _)| *known == version);
        let known = match known {
            Some(known) => known,
            None => (version, overwritten(&fs::read(&path)?)),
        };
        let (_, all) = self.overwritten.insert(known);
        if all.is_empty() {
            // The report cannot be parsed: treat the first frame of each stream as the first remaining one.
            return Ok(Some(Overwritten { records: u64::MAX, last: 0 }));
        }
        Ok(all.get(&(producer, stream)).copied())
    }

    /// Whether the current file is a flight recorder's report of overwritten records.
    #[must_use]
    pub fn says_what_went(&self) -> bool {
        let path = self.current.as_ref().map(|(path, _)| path);
        self.is_folder && path.and_then(|path| path.file_name()).is_some_and(|name| name == LOST)
    }

    /// Bytes of the current file that were examined, and its size.
    #[must_use]
    pub fn progress(&self) -> Option<(u64, u64)> {
        let (_, growing) = self.current.as_ref()?;
        Some((growing.position(), growing.file().metadata().ok()?.len()))
    }
}

/// The streams of a folder whose paths sort after `last`, sorted by name.
pub(crate) fn files_after(folder: &Path, last: Option<&Path>) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_stream = path.extension().is_some_and(|extension| extension == "quipu");
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if is_stream && !is_hidden && last.is_none_or(|last| path.as_path() > last) {
            all.push(path);
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Whether bytes are room that was claimed but never written.
fn is_room(file: &File, bytes: &std::ops::Range<u64>) -> io::Result<bool> {
    if !(bytes.end - bytes.start).is_multiple_of(8) {
        return Ok(false);
    }
    let mut buffer = vec![0; 64 << 10];
    let mut at = bytes.start;
    while at < bytes.end {
        let n = usize::try_from(bytes.end - at).unwrap_or(usize::MAX).min(buffer.len());
        let n = file.read_at(&mut buffer[..n], at)?;
        if n == 0 || buffer[..n].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += n as u64;
    }
    Ok(true)
}
