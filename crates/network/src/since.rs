//! The end of a stream as a stream: what was recorded in some time before the last record, and all that describes it.

use quipu_stream::decode::Registry;
use quipu_stream::frame::{Header, kind};
use quipu_stream::input::{Chain, FileInput, Input};
use quipu_stream::meta::Metadata;
use quipu_stream::scan::{FrameAt, Scanner};
use quipu_stream::session::Session;
use quipu_stream::slice;
use std::collections::{BTreeMap, BTreeSet};
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
    let mut last: Option<PathBuf> = None;
    let mut all = Vec::new();
    while let Some(next) = crate::source::following(path, last.as_deref())? {
        all.push(next.clone());
        last = Some(next);
    }
    Ok(all)
}

/// Ticks in a second of the clock that a frame's times are readings of.
fn ticks_per_s(metadata: &Metadata, header: &Header) -> Option<u64> {
    let clock = metadata.stream(header.stream).and_then(|stream| stream.clock);
    metadata.clock(clock.unwrap_or(1)).map(|clock| clock.ticks_per_s).filter(|ticks| *ticks > 0)
}

/// Writes to `out` what the stream at `path` recorded in the time `back` before the last record of each producer.
///
/// An END is there only of producers that have ended.
///
/// # Errors
/// If a file cannot be read or written, or the stream has no clock that counts seconds.
pub fn cut(path: &Path, back: Duration, out: &Path) -> io::Result<()> {
    let inputs = files(path)?.into_iter().map(|path| FileInput::new(Arc::new(File::open(path)?)));
    let mut input = Chain::new(inputs.collect::<io::Result<Vec<_>>>()?);
    let (mut session, mut scanner, registry) = (Session::leaving_data(), Scanner::new(), Registry::default());
    let mut data: Vec<FrameAt> = Vec::new();
    let mut is_ended: BTreeMap<u64, bool> = BTreeMap::new();
    while let Some(found) = scanner.next(&mut input)? {
        session.observe(&found, &mut input, &registry)?;
        let header = &found.header;
        if matches!(header.kind, kind::DATA | kind::AGG) {
            data.push(found);
        }
        if !matches!(header.kind, kind::INDEX | kind::PAD) {
            is_ended.insert(header.producer, header.kind == kind::END);
        }
    }
    let epochs = session.epochs();
    let second_of = |header: &Header| {
        let metadata = &epochs.get(&(header.producer, header.epoch))?.metadata;
        Some(header.ts_last as f64 / ticks_per_s(metadata, header)? as f64)
    };
    let mut newest: BTreeMap<u64, f64> = BTreeMap::new();
    for frame in &data {
        if let Some(second) = second_of(&frame.header) {
            let newest = newest.entry(frame.header.producer).or_insert(second);
            *newest = newest.max(second);
        }
    }
    if newest.is_empty() && !data.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "its clock does not count seconds"));
    }
    let is_wanted = |frame: &&FrameAt| {
        let newest = newest.get(&frame.header.producer);
        // What has no time may be of that time.
        let time = second_of(&frame.header).zip(newest);
        time.is_none_or(|(second, newest)| second >= newest - back.as_secs_f64())
    };
    let first = data.iter().find(is_wanted).map_or(0, |frame| frame.offset);
    let end = input.size_bytes();
    let mut writer = BufWriter::new(File::create(out)?);
    slice::slice(&mut input, first..end, &mut writer)?;
    writer.flush()?;
    drop(writer);
    let ended: BTreeSet<u64> =
        is_ended.into_iter().filter(|(_, is_ended)| *is_ended).map(|(id, _)| id).collect();
    drop_ends(out, &ended)
}

/// Takes the ENDs away that stand at the end of a slice, but for those of these producers: the others may continue, and then
/// have another frame with that number.
fn drop_ends(path: &Path, ended: &BTreeSet<u64>) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut input = FileInput::new(Arc::new(file.try_clone()?))?;
    let mut scanner = Scanner::new();
    let mut cut = None;
    let mut kept = Vec::new();
    while let Some(found) = scanner.next(&mut input)? {
        if found.header.kind != kind::END {
            (cut, kept) = (None, Vec::new());
            continue;
        }
        cut = cut.or(Some(found.offset));
        if ended.contains(&found.header.producer) {
            let len = found.header.frame_len() as usize; // Within the limits.
            kept.extend_from_slice(input.get(found.offset, len)?.get(..len).unwrap_or_default());
        }
    }
    if let Some(cut) = cut {
        file.set_len(cut)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &kept, cut)?;
    }
    Ok(())
}
