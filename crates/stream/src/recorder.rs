//! A flight recorder on disk: a folder of segments. A new segment replaces the oldest, so old data are dropped, but never
//! the metadata that describe the rest.
//!
//! Each segment is a file that begins with a snapshot, and the segments in the order of their names form the stream. The
//! loss of dropped records is recorded twice: in the header of the first remaining frame of each stream, and in
//! `lost.quipu`, which has a loss record per stream.

use crate::codec::Unpacker;
use crate::frame::{self, Header, encoding, flag, kind};
use crate::loss::{Loss, cause};
use crate::scan::Scanner;
use crate::slice::Gathered;
use quipu_wire::cbor;
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the file that records dropped data.
pub const LOST: &str = "lost.quipu";

/// Producer and stream.
type Who = (u64, u32);

/// Records of a stream that a flight recorder has overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overwritten {
    /// Number of records before the first remaining frame: those dropped, and those that their frames already reported as lost.
    pub records: u64,
    /// Sequence number of the last dropped frame with records.
    pub last: u64,
}

/// Reads the contents of `lost.quipu`: overwritten records by producer and stream. Damaged frames are skipped.
#[must_use]
pub fn overwritten(bytes: &[u8]) -> BTreeMap<(u64, u32), Overwritten> {
    let (mut all, mut input) = (BTreeMap::new(), bytes);
    let (mut scanner, mut unpacker) = (Scanner::new(), Unpacker::default());
    while let Ok(Some(found)) = scanner.next(&mut input) {
        let header = found.header;
        let start = usize::try_from(found.payload_at()).unwrap_or(usize::MAX);
        let stored = start.checked_add(header.stored_len as usize).and_then(|end| bytes.get(start..end));
        let Some(payload) = stored.and_then(|stored| unpacker.unpack(&header, stored).ok()) else { continue };
        let loss = cbor::decode(payload).ok().and_then(|item| Loss::read(&item.value));
        if let Some(loss) = loss.filter(|loss| loss.cause == cause::OVERWRITTEN) {
            let gone = Overwritten { records: loss.records.unwrap_or(0), last: header.seq };
            all.insert((header.producer, loss.stream.unwrap_or(header.stream)), gone);
        }
    }
    all
}

/// Output of a writer that keeps the last segments of its stream. The writer makes a snapshot every
/// [`Options::snapshot_bytes`](crate::write::Options::snapshot_bytes), and a segment ends at the first snapshot after it is
/// full.
#[derive(Debug)]
pub struct Segments {
    folder: PathBuf,
    n_segments: usize,
    segment_bytes: u64,
    pending: Gathered,
    current: Option<File>,
    next: u64,
    kept: VecDeque<Segment>,
    /// Number of dropped records, and header of the last dropped frame, by stream.
    gone: BTreeMap<Who, (u64, Header)>,
}

#[derive(Debug)]
struct Segment {
    path: PathBuf,
    n_bytes: u64,
    /// For each stream: offset and original header of the first frame with records, header of the last one, and the number
    /// of records, including those reported as lost.
    streams: BTreeMap<Who, (u64, Header, Header, u64)>,
}

impl Segments {
    /// Keeps at most `n_segments` segments of `segment_bytes` or slightly more in a folder. Segments of an earlier recorder
    /// stay there.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be created.
    pub fn new(folder: &Path, n_segments: usize, segment_bytes: u64) -> io::Result<Segments> {
        fs::create_dir_all(folder)?;
        // Numbers continue after those of existing segments.
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("segment-")?.strip_suffix(".quipu")?.parse::<u64>().ok()
        };
        let last = fs::read_dir(folder)?.filter_map(Result::ok).filter_map(number).max();
        Ok(Segments {
            folder: folder.to_owned(),
            n_segments: n_segments.max(1),
            segment_bytes,
            pending: Gathered::default(),
            current: None,
            next: last.map_or(0, |last| last.saturating_add(1)),
            kept: VecDeque::new(),
            gone: BTreeMap::new(),
        })
    }

    fn take(&mut self, bytes: &[u8], header: &Header) -> io::Result<()> {
        let is_full = self.kept.back().is_some_and(|segment| segment.n_bytes >= self.segment_bytes);
        if self.current.is_none() || is_full && header.has(flag::SNAPSHOT_START) {
            self.begin()?;
        }
        let (Some(file), Some(segment)) = (&mut self.current, self.kept.back_mut()) else { return Ok(()) };
        file.write_all(bytes)?;
        if matches!(header.kind, kind::DATA | kind::AGG) {
            let who = (header.producer, header.stream);
            let stream = segment.streams.entry(who).or_insert((segment.n_bytes, *header, *header, 0));
            stream.2 = *header;
            stream.3 += u64::from(header.records) + u64::from(header.lost);
        }
        segment.n_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Begins a segment, and drops the oldest ones if there are too many.
    fn begin(&mut self) -> io::Result<()> {
        let path = self.folder.join(format!("segment-{:08}.quipu", self.next));
        self.next += 1;
        self.current = Some(OpenOptions::new().write(true).create_new(true).open(&path)?);
        self.kept.push_back(Segment { path, n_bytes: 0, streams: BTreeMap::new() });
        while self.kept.len() > self.n_segments
            && let Some(old) = self.kept.pop_front()
        {
            self.drop_segment(&old)?;
        }
        Ok(())
    }

    /// Records the loss of a segment, then removes it.
    fn drop_segment(&mut self, old: &Segment) -> io::Result<()> {
        for (who, (_, _, last, told)) in &old.streams {
            let gone = self.gone.entry(*who).or_insert((0, *last));
            *gone = (gone.0.saturating_add(*told), *last);
        }
        let mut losses = self.gone.clone();
        let mut nexts = Vec::new();
        for (who, (n, _)) in &mut losses {
            let next = self.kept.iter().find_map(|segment| {
                let (at, first, ..) = segment.streams.get(who)?;
                Some((segment.path.as_path(), *at, *first))
            });
            let Some((path, at, mut first)) = next else { continue };
            // Also counts what the writer itself had lost before this frame.
            *n = n.saturating_add(first.lost.into());
            first.lost = u32::try_from(*n).unwrap_or(frame::LOST_MANY);
            nexts.push((path, at, first));
        }
        self.write_losses(&losses)?;
        for (path, at, first) in nexts {
            let mut file = OpenOptions::new().write(true).open(path)?;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&first.to_bytes())?;
        }
        fs::remove_file(&old.path)
    }

    /// Writes `lost.quipu`. Each loss frame takes the number of the last dropped frame of its stream, which is unused now.
    fn write_losses(&self, gone: &BTreeMap<Who, (u64, Header)>) -> io::Result<()> {
        let mut all = Vec::new();
        for ((producer, stream), (n, last)) in gone {
            let loss = Loss {
                cause: cause::OVERWRITTEN,
                stream: Some(*stream),
                records: Some(*n),
                ..Loss::default()
            };
            let mut payload = loss.to_value().to_bytes();
            let mut header = Header {
                kind: kind::LOSS,
                encoding: encoding::CBOR,
                producer: *producer,
                stream: *stream,
                epoch: last.epoch,
                seq: last.seq,
                records: 1,
                ..Header::default()
            };
            let raw_len = payload.len() as u32; // A few bytes.
            frame::write_frame(&mut header, raw_len, &mut payload, &mut all)?;
        }
        let new = self.folder.join(".lost.new");
        fs::write(&new, all)?;
        fs::rename(new, self.folder.join(LOST))
    }
}

impl Write for Segments {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.add(bytes);
        while let Some((header, frame)) = self.pending.next_frame() {
            self.take(&frame, &header)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.current.as_mut().map_or(Ok(()), File::flush)
    }
}
