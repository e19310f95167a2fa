//! Places where reading a trace may begin, so that its middle is reached without reading everything before it.
//!
//! An [`Index`] has a checkpoint for every few megabytes of the stream: the number of completed calls, the offset of the
//! bytes in the packed file, the known signatures, and the open calls. It is made by one quick read of the trace ([`build`]),
//! and kept in a file ([`store`]), which is used only if the trace has not changed since. An index never changes what is
//! read, only where reading starts.
//!
//! Packings that can only be inflated from the beginning (gzip, Brotli, a single frame of Zstandard) have no index.

pub mod store;

use crate::decode::Header;
use crate::decode::skim::{Definition, Skimmer};
use crate::feed::Feed;
use crate::record::END_FRAME;
use quipu_model::Result;
use quipu_source::{Ahead, Codec, Container, Landmark, StreamOptions};

/// Initial distance between checkpoints, in bytes of the stream.
const STEP_BYTES: u64 = 2 << 20;
/// Maximum number of checkpoints; when it is reached, every other one is dropped, and the distance doubles.
const MAX_CHECKPOINTS: usize = 4096;
/// A trace whose signatures and open calls take more than this gets no further checkpoints.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The checkpoints of a trace, with totals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    pub(crate) definitions: Vec<Definition>,
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// Number of calls, complete or not.
    pub n_records: u64,
    /// Number of frames that ended.
    pub n_frames: u64,
    /// Size of the stream in bytes.
    pub stream_bytes: u64,
}

/// A place between two events, with the state needed to continue there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Offset in the stream.
    pub(crate) offset: u64,
    pub(crate) landmark: Landmark,
    /// Number of calls completed before it.
    pub(crate) n_records: u64,
    pub(crate) n_frames: u64,
    pub(crate) n_entered: u64,
    /// The largest number of a call that was over, plus one.
    pub(crate) numbers_end: u64,
    /// Number of signatures known.
    pub(crate) n_definitions: usize,
    pub(crate) open: Vec<(u64, Box<[u8]>)>,
}

/// A place to begin at, with the state of a reader.
#[derive(Debug)]
pub struct Start {
    landmark: Landmark,
    offset: u64,
    header: Header,
    pub(crate) n_records: u64,
    pub(crate) n_frames: u64,
    pub(crate) skimmer: Skimmer,
}

impl Start {
    /// A feed of the bytes from there on.
    pub(crate) fn feed(&self, container: &Container, options: &StreamOptions) -> Result<Feed> {
        Feed::from_landmark(container, options, &self.header, &self.landmark, self.offset)
    }

    /// Number of calls completed before it.
    pub fn n_records(&self) -> u64 {
        self.n_records
    }
}

/// The target of a seek: reading must begin at or before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The record with this position, counted from 0.
    Record(u64),
    /// Any call with this number or a later one.
    Number(u64),
    /// Any call of this frame, counted from 0, or a later one.
    Frame(u64),
}

impl Index {
    /// Number of checkpoints.
    pub fn n_checkpoints(&self) -> usize {
        self.checkpoints.len()
    }

    /// The last checkpoint before the target; `None` if only the beginning of the trace is.
    fn checkpoint(&self, wanted: Wanted) -> Option<&Checkpoint> {
        let lies_before = |checkpoint: &Checkpoint| match wanted {
            Wanted::Record(record) => checkpoint.n_records <= record,
            Wanted::Number(number) => checkpoint.numbers_end <= number,
            // The frame may have begun before the checkpoint, unless an earlier one continues there.
            Wanted::Frame(frame) => checkpoint.n_frames < frame,
        };
        self.checkpoints[..self.checkpoints.partition_point(lies_before)].last()
    }

    /// Number of records before the last checkpoint before the target.
    pub fn records_before(&self, wanted: Wanted) -> u64 {
        self.checkpoint(wanted).map_or(0, |checkpoint| checkpoint.n_records)
    }

    /// The last place to begin at before the target, for a trace with this header.
    pub fn start(&self, header: &Header, wanted: Wanted) -> Option<Start> {
        let Checkpoint { offset, landmark, n_records, n_frames, n_entered, n_definitions, open, .. } =
            self.checkpoint(wanted)?;
        let known = self.definitions.get(..*n_definitions)?;
        let skimmer = Skimmer::resume(header.version, known, open, *n_entered).ok()?;
        Some(Start {
            landmark: *landmark,
            offset: *offset,
            header: header.clone(),
            n_records: *n_records,
            n_frames: *n_frames,
            skimmer,
        })
    }
}

/// True if reading the container may begin in its middle.
pub fn can_have(container: &Container) -> bool {
    container.source().can_seek()
        && matches!(container.codec(), Codec::SnappyChunks | Codec::Zstd | Codec::Plain)
}

/// Reads a trace and builds its index. For a damaged trace, the index ends at the damage: after it, signatures may be
/// missing.
///
/// # Errors
/// If the file cannot be read.
pub fn build(container: &Container) -> Result<Index> {
    let options = StreamOptions {
        block_bytes: 256 << 10,
        ahead: Ahead::Thread { blocks: 4 },
        ..StreamOptions::default()
    };
    let mut index = Index::default();
    let landmarks = container.landmarks()?;
    let landmarks = match landmarks.iter().position(|landmark| landmark.is_behind_gap) {
        Some(gap) => &landmarks[..gap],
        None => landmarks,
    };
    let mut feed = Feed::new(container, &options)?.ending_at_gaps();
    if !feed.begin().unwrap_or(false) {
        return Ok(index);
    }
    let mut skimmer = Skimmer::new(feed.header()).keeping();
    let (mut step, mut due, mut numbers_end) = (STEP_BYTES, STEP_BYTES, 0);
    let mut kept_bytes = 0;
    while let Ok(Some(event)) = feed.next(&mut skimmer) {
        if let Some(call) = event {
            index.n_records += 1;
            index.n_frames += u64::from(call.flags & END_FRAME != 0);
            numbers_end = numbers_end.max(call.number + 1);
        }
        if feed.offset() < due {
            continue;
        }
        due = feed.offset() + step;
        let offset = feed.offset();
        let before = landmarks.partition_point(|landmark| landmark.at <= offset);
        let Some(landmark) =
            landmarks[..before].last().filter(|landmark| landmark.at > 0 || is_plain(container))
        else {
            continue;
        };
        let open = skimmer.open_calls(feed.at_hand());
        kept_bytes += open.iter().map(|(_, enter)| enter.len()).sum::<usize>();
        let (definitions, definition_bytes) = skimmer.definitions();
        if kept_bytes + definition_bytes > MAX_KEPT_BYTES {
            due = u64::MAX;
            continue;
        }
        index.checkpoints.push(Checkpoint {
            offset,
            landmark: place_in(container, landmark, offset),
            n_records: index.n_records,
            n_frames: index.n_frames,
            n_entered: skimmer.n_entered(),
            numbers_end,
            n_definitions: definitions.len(),
            open,
        });
        if index.checkpoints.len() == MAX_CHECKPOINTS {
            let mut i = 0;
            index.checkpoints.retain(|_| {
                i += 1;
                i % 2 == 0
            });
            step *= 2;
        }
    }
    let n_known = index.checkpoints.last().map_or(0, |checkpoint| checkpoint.n_definitions);
    index.definitions = skimmer.definitions().0.get(..n_known).unwrap_or(&[]).to_vec();
    while skimmer.take_oldest().is_some() {
        index.n_records += 1;
    }
    index.stream_bytes = feed.n_bytes();
    Ok(index)
}

fn is_plain(container: &Container) -> bool {
    container.codec() == Codec::Plain
}

/// The landmark for an offset: for bytes that are not packed, the offset itself.
fn place_in(container: &Container, landmark: &Landmark, offset: u64) -> Landmark {
    if is_plain(container) { Landmark { packed_at: offset, at: offset, ..*landmark } } else { *landmark }
}
