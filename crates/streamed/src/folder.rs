//! Reads several stream files in a folder as one stream: those of several hosts, or the segments of a flight recorder.

use crate::bytes::seekable;
use crate::carried::OWN_EXTENSIONS;
use crate::look::FileAt;
use crate::trace::probe;
use quipu_model::{Confidence, Finding, Result};
use quipu_source::{Bytes, Container, Content, Source};
use quipu_stream::frame::{Header, flag};
use std::cmp::Reverse;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes per read.
const READ_BYTES: usize = 256 << 10;

/// Bytes at the start of a file that are enough to recognise it.
const HEAD_BYTES: usize = 512;

/// The files of a folder with an extension of streams.
pub(crate) fn files_of(folder: &Source) -> Result<Vec<Source>> {
    let is_stream = |file: &Source| {
        let extension = Path::new(file.name()).extension();
        let is_of = |own: &&str| extension.is_some_and(|has| has == *own);
        !file.is_folder() && crate::INFO.extensions.iter().chain(OWN_EXTENSIONS).any(is_of)
    };
    Ok(folder.files()?.into_iter().filter(is_stream).collect())
}

/// Confidence that a folder contains nothing but streams.
pub(crate) fn probe_folder(folder: &Source) -> Confidence {
    let Ok(files) = files_of(folder) else { return Confidence::No };
    let is_all = folder.files().is_ok_and(|all| all.len() == files.len());
    let (streams, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| probe(file) != Confidence::No);
    // A file of zeros was also a stream, whose bytes were never written to disk.
    let is_blank = |file: &Source| file.head(HEAD_BYTES).is_ok_and(|head| head.iter().all(|byte| *byte == 0));
    match is_all && !streams.is_empty() && others.iter().all(is_blank) {
        true => Confidence::Sure,
        false => Confidence::No,
    }
}

/// Concatenates the files of a folder. Also returns where each of them lies, and findings about their packing. The files of a
/// producer are in the order of their frame numbers, whichever segment was overwritten last.
pub(crate) fn joined(folder: &str, all: &[Source]) -> Result<(Source, Vec<FileAt>, Vec<Finding>)> {
    let mut files = Vec::new();
    let mut findings = Vec::new();
    for file in all {
        let first = file.head(HEAD_BYTES).ok().and_then(|head| Header::read(&head).ok());
        let (container, unpacking) = seekable(file)?;
        findings.extend(unpacking);
        files.push((first, (file.name().to_owned(), container)));
    }
    let producer = |first: &Option<Header>| first.as_ref().map(|first| first.producer);
    let mut producers: Vec<u64> = Vec::new();
    for known in files.iter().filter_map(|(first, _)| producer(first)) {
        if !producers.contains(&known) {
            producers.push(known);
        }
    }
    files.sort_by_key(|(first, _)| {
        let place = producer(first).and_then(|own| producers.iter().position(|known| *known == own));
        // A file that does not begin with a snapshot only states what was overwritten; it comes first.
        let order = first.as_ref().map(|first| (first.epoch, first.has(flag::SNAPSHOT_START), first.seq));
        (Reverse(place.is_some()), place, order)
    });
    let mut end = 0;
    let (mut parts, mut places) = (Vec::new(), Vec::new());
    for (_, (name, container)) in files {
        let bytes = container.bytes(READ_BYTES)?;
        let start = end;
        end += bytes.len();
        places.push(FileAt { name, range: start..end });
        parts.push(FilePart { start, end, container, bytes: Mutex::new(Some(bytes)) });
    }
    Ok((Source::of_content(folder, Arc::new(Joined { parts })), places, findings))
}

struct FilePart {
    start: u64,
    end: u64,
    container: Container,
    /// A cursor that no reader is using.
    bytes: Mutex<Option<Bytes>>,
}

/// The concatenated bytes of files.
struct Joined {
    parts: Vec<FilePart>,
}

impl Content for Joined {
    fn len_bytes(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        let Some(part) = self.parts.get(self.parts.partition_point(|part| part.end <= at)) else {
            return Ok(0);
        };
        let lock = || part.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let cursor = lock().take();
        let mut cursor = match cursor {
            Some(cursor) => cursor,
            None => part.container.bytes(READ_BYTES).map_err(io::Error::other)?,
        };
        let there = cursor.get(at - part.start, out.len())?;
        let n = there.len().min(out.len());
        out[..n].copy_from_slice(&there[..n]);
        *lock() = Some(cursor);
        Ok(n)
    }
}
