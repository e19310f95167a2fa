//! Writes what can be saved of a damaged trace.
//!
//! A stream that is intact, except for its end or for another process's writes into the file, is copied event by event
//! without change. A stream with gaps is written again: calls are renumbered, and signatures stand where they are first
//! needed.

use crate::check::rules;
use crate::decode::Header;
use crate::encode::{self, Encoder};
use crate::reader::CallReader;
use crate::salvage::{Salvaged, Sink, StreamFacts, salvage};
use crate::trace::{ApiTrace, Packing};
use crate::write::{NewFile, WriteOptions, Written};
use quipu_model::fresh::check_file;
use quipu_model::values::{Types, Values};
use quipu_model::{Columns, Error, Finding, Found, Reader, Result, Scan, ShardId};
use quipu_source::{Container, StreamOptions};
use std::path::Path;

/// Options of a recovery.
#[derive(Clone, Copy, Debug)]
pub struct RecoverOptions {
    /// The container to write.
    pub packing: Packing,
    /// Compression level; the default of the packing if `None`.
    pub level: Option<u32>,
    /// Whether an existing file may be replaced.
    pub replace: bool,
    /// Index of the stream to write, from 0; the one with the most calls if `None`.
    pub stream: Option<usize>,
}

/// Outcome of a recovery.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The facts about the damaged trace.
    pub salvaged: Salvaged,
    /// Index of the stream that was written.
    pub stream: usize,
    /// True if the stream was copied without change.
    pub is_copy: bool,
    /// Bytes of the written stream.
    pub stream_bytes: u64,
    /// Bytes of the written file.
    pub packed_bytes: u64,
}

/// A sink that ignores the calls, for the first read, which only counts.
struct Nobody;

impl Sink for Nobody {
    fn stream(&mut self, _: &Header, _: u64) -> Result<()> {
        Ok(())
    }

    fn calls(&mut self, _: &Values, _: &Types) -> Result<()> {
        Ok(())
    }
}

/// A sink that writes the calls of one stream.
struct Rewriter<'w> {
    wanted: usize,
    n_streams: usize,
    encoder: Encoder,
    out: Vec<u8>,
    file: &'w mut NewFile,
}

impl Rewriter<'_> {
    fn flush(&mut self) -> Result<()> {
        self.file.write(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

impl Sink for Rewriter<'_> {
    fn stream(&mut self, header: &Header, _: u64) -> Result<()> {
        self.n_streams += 1;
        if self.n_streams == self.wanted + 1 {
            encode::header(header, &mut self.out);
        }
        Ok(())
    }

    fn calls(&mut self, values: &Values, types: &Types) -> Result<()> {
        if self.n_streams != self.wanted + 1 {
            return Ok(());
        }
        for call in &values.calls {
            self.encoder.call(call, values, types, &mut self.out);
        }
        self.flush()
    }
}

/// Writes what can be saved of a trace to a file at `path`, which appears when it is complete.
///
/// # Errors
/// `Usage` if the file exists and may not be replaced, or there is no such stream; `Malformed` if nothing can be saved;
/// `Unsupported` for a pipe, which can be read only once.
pub fn recover(trace: &ApiTrace, path: &Path, options: &RecoverOptions) -> Result<Recovered> {
    check_file(path, options.replace.into())?;
    let container = trace.container();
    if !container.source().can_seek() {
        return Err(Error::unsupported("a pipe cannot be recovered, since it can be read only once")
            .hint("write it to a file first"));
    }
    let mut salvaged = salvage(container, &mut Nobody)?;
    name_where_readers_stop(trace, &mut salvaged);
    let most = salvaged.streams.iter().enumerate().max_by_key(|(i, stream)| (stream.calls, usize::MAX - i));
    let Some((best, _)) = most else {
        return Err(Error::malformed("nothing of this trace can be saved").in_file(container.name()));
    };
    let wanted = options.stream.unwrap_or(best);
    let Some(stream) = salvaged.streams.get(wanted) else {
        let n_streams = salvaged.streams.len();
        return Err(Error::usage(format!("there is no stream `{wanted}`: the file has `{n_streams}`")));
    };
    let RecoverOptions { packing, level, replace, .. } = *options;
    let mut file = NewFile::create(path, &WriteOptions { packing, level, replace, ..WriteOptions::USUAL })?;
    // A copy keeps the numbers of calls; if some are lost, calls must be renumbered.
    let is_copy = stream.is_whole && stream.lost_calls == 0;
    if is_copy {
        copy(container, stream, &mut file)?;
    } else {
        let (encoder, out) = (Encoder::default(), Vec::new());
        let mut rewriter = Rewriter { wanted, n_streams: 0, encoder, out, file: &mut file };
        salvage(container, &mut rewriter)?;
        rewriter.flush()?;
    }
    let Written { stream_bytes, packed_bytes, .. } = file.finish()?;
    Ok(Recovered { salvaged, stream: wanted, is_copy, stream_bytes, packed_bytes })
}

/// Adds a finding, before those of gaps, for the place where all other readers stop. Salvage begins a gap at the first event
/// that nothing confirms; other readers continue from there until bytes are malformed. Every verb reports the latter place.
fn name_where_readers_stop(trace: &ApiTrace, salvaged: &mut Salvaged) {
    if salvaged.found.is_empty() {
        return;
    }
    let Some(error) = end_of_reading(trace).err().filter(Error::is_damage) else { return };
    let is_there = |finding: &Finding| finding.place == *error.place();
    if salvaged.found.as_slice().iter().any(is_there) {
        return;
    }
    let message = format!("reading ends here: {}", error.message());
    let mut found = Found::default();
    found.push(rules::DAMAGED.broken(error.place().clone(), message));
    std::mem::take(&mut salvaged.found).into_vec().into_iter().for_each(|finding| found.push(finding));
    salvaged.found = found;
}

/// Reads all calls; returns the error where reading stops, if any.
fn end_of_reading(trace: &ApiTrace) -> Result<()> {
    let mut reader = CallReader::new(trace.sound(), &Scan::new(ShardId(0)).columns(Columns::CALL_VALUES))?;
    while reader.read()?.is_some() {}
    Ok(())
}

/// Copies the bytes of a stream.
fn copy(container: &Container, stream: &StreamFacts, file: &mut NewFile) -> Result<()> {
    let landmarks = container.landmarks()?;
    let before = landmarks.partition_point(|landmark| landmark.at <= stream.offset);
    let first = landmarks[..before].last().filter(|_| stream.offset > 0);
    let options = StreamOptions::default();
    let (mut blocks, mut at) = match first {
        Some(landmark) => (container.stream_at(landmark.packed_at, &options)?, landmark.at),
        None => (container.stream(container.all_members(), &options)?, 0),
    };
    let mut block = Vec::new();
    while at < stream.end {
        match blocks.next(&mut block) {
            Ok(Some(_)) => {}
            // Data after the last complete event does not matter.
            Ok(None) | Err(_) => break,
        }
        let inside =
            |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX).min(block.len());
        let part = &block[inside(stream.offset)..inside(stream.end)];
        file.write(part)?;
        at += block.len() as u64;
    }
    Ok(())
}
