//! Cuts the end of a stream into a stream of its own: records from a period before the last record, and all metadata.
//!
//! Frames are copied unchanged and keep their numbers, so that the frames left out can be sent later.

use crate::writing::is_being_written;
use quipu_stream::decode::Registry;
use quipu_stream::ending::Ending;
use quipu_stream::frame::{Header, encoding, kind};
use quipu_stream::input::{Chain, FileInput, Input};
use quipu_stream::meta::Metadata;
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::session::{OPEN_HEAD_BYTES, OpenHead, Session};
use quipu_stream::slice;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The files of a stream, in the order of their names.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    crate::source::files_after(path, None)
}

/// Ticks per second of the clock of a frame.
fn ticks_per_s(metadata: &Metadata, header: &Header) -> Option<u64> {
    let clock = metadata.stream(header.stream).and_then(|stream| stream.clock);
    metadata.clock(clock.unwrap_or(1)).map(|clock| clock.ticks_per_s).filter(|ticks| *ticks > 0)
}

/// Writes to `out` all frames of the stream at `path` that contain records newer than `back` before the last record of their
/// producer, and all frames without records. Buffers that a program may still be writing are left out; their number is
/// returned.
///
/// # Errors
/// If a file cannot be read or written, or the stream has no clock with known ticks per second.
pub fn cut(path: &Path, back: Duration, out: &Path) -> io::Result<u64> {
    let (mut inputs, mut written, mut end) = (Vec::new(), Vec::new(), 0);
    for path in files(path)? {
        let file = Arc::new(File::open(&path)?);
        // This must be determined before the file is read.
        let is_written = is_being_written(&file, &path);
        let input = FileInput::new(file)?;
        let start = end;
        end += input.size_bytes();
        if is_written {
            written.push(start..end);
        }
        inputs.push(input);
    }
    let mut input = Chain::new(inputs);
    let (mut session, mut scanner, registry) = (Session::leaving_data(), Scanner::new(), Registry::default());
    let mut frames: Vec<FrameAt> = Vec::new();
    let mut endings: BTreeMap<u64, Ending> = BTreeMap::new();
    while let Some(found) = scanner.next(&mut input)? {
        session.observe(&found, &mut input, &registry)?;
        endings.entry(found.header.producer).or_default().add(&found.header);
        frames.push(found);
    }
    let n_frames = frames.len();
    frames.retain(|frame| {
        let has_ended = endings.get(&frame.header.producer).is_some_and(Ending::is_ended);
        let may_be_written = frame.header.kind == kind::OPEN && !has_ended;
        !may_be_written || written.iter().all(|file| !file.contains(&frame.offset))
    });
    let left_open = (n_frames - frames.len()) as u64;
    let epochs = session.epochs();
    let metadata_of = |header: &Header| Some(&epochs.get(&(header.producer, header.epoch))?.metadata);
    let second_of =
        |header: &Header| Some(header.ts_last as f64 / ticks_per_s(metadata_of(header)?, header)? as f64);
    let has_records = |header: &Header| matches!(header.kind, kind::DATA | kind::AGG);
    let mut newest: BTreeMap<u64, f64> = BTreeMap::new();
    for header in frames.iter().map(|frame| &frame.header).filter(|header| has_records(header)) {
        if let Some(second) = second_of(header) {
            let newest = newest.entry(header.producer).or_insert(second);
            *newest = newest.max(second);
        }
    }
    if newest.is_empty() && frames.iter().any(|frame| has_records(&frame.header)) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its clock does not count seconds"));
    }
    let is_recent = |header: &Header| {
        // Frames without a known time may be recent.
        let time = second_of(header).zip(newest.get(&header.producer));
        time.is_none_or(|(second, newest)| second >= newest - back.as_secs_f64())
    };
    let first = frames.iter().find(|frame| has_records(&frame.header) && is_recent(&frame.header));
    let first = first.map_or(0, |frame| frame.offset);
    let is_wanted = |frame: &FrameAt| match frame.header.kind {
        kind::DATA | kind::AGG => is_recent(&frame.header),
        // Earlier losses are about records that are left out.
        kind::LOSS => frame.offset >= first,
        _ => true,
    };
    // Number of metadata records needed, by producer and epoch. Some may be between rows in frames that would otherwise be
    // left out.
    let mut needed: BTreeMap<(u64, u32), u32> = BTreeMap::new();
    for frame in frames.iter().filter(|frame| is_wanted(frame)) {
        let mut version = frame.header.meta_version;
        if frame.header.kind == kind::OPEN {
            let head = OpenHead::read(input.get(frame.payload_at(), OPEN_HEAD_BYTES)?);
            version = head.map_or(0, |head| head.meta_version);
        }
        let needed = needed.entry((frame.header.producer, frame.header.epoch)).or_default();
        *needed = version.max(*needed);
    }
    let may_define = |header: &Header| {
        (header.kind, header.encoding) == (kind::DATA, encoding::PLAIN)
            && needed
                .get(&(header.producer, header.epoch))
                .is_some_and(|needed| header.meta_version < *needed)
            && metadata_of(header).is_none_or(|metadata| !metadata.knows(header.meta_version))
    };
    let mut writer = BufWriter::new(File::create(out)?);
    for frame in &frames {
        let is_wanted = is_wanted(frame);
        if !is_wanted && !may_define(&frame.header) {
            continue;
        }
        let (len, payload_at) = (frame.header.frame_len() as usize, frame.header.len_bytes() as usize); // Within the limits.
        let bytes = input.get(frame.offset, len)?;
        // A flight recorder may have truncated the file meanwhile.
        let Some(bytes) = bytes.get(..len) else { continue };
        let stored = &bytes[payload_at..payload_at + frame.header.stored_len as usize]; // As above.
        if is_wanted || slice::without_records(&frame.header, stored)?.is_some() {
            writer.write_all(bytes)?;
        }
    }
    writer.flush()?;
    Ok(left_open)
}
