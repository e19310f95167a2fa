//! The streams of all producers: their frames, their threads, and their clocks, which determine the order.

use crate::schema::EpochId;
use quipu_model::number::counted;
use quipu_model::{Result, Shard, ShardId, ShardKind};
use quipu_stream::clock::Timeline;
use quipu_stream::frame::kind;
use quipu_stream::meta::Metadata;
use quipu_stream::scan::FrameAt;
use quipu_stream::session::{OpenHead, Session};
use quipu_stream::survey::Survey;
use quipu_stream::wire::record::Record;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One frame of a shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) frame: FrameAt,
    /// The head of an open buffer; `None` for a frame.
    pub(crate) open: Option<OpenHead>,
}

impl Piece {
    /// The sequence number in the stream.
    fn seq(&self) -> u64 {
        self.open.map_or(self.frame.header.seq, |head| head.seq)
    }

    /// Number of records, as far as a header or head states it.
    pub(crate) fn records(&self) -> u32 {
        self.open.map_or(self.frame.header.records, |head| head.records)
    }
}

/// A stream of a producer, with its frames of rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) producer: u64,
    pub(crate) stream: u32,
    pub(crate) pieces: Vec<Piece>,
    /// Number of records before each piece, according to headers.
    pub(crate) before: Vec<u64>,
    pub(crate) thread: u64,
    pub(crate) process: u64,
    pub(crate) cpu: Option<u64>,
    /// Converts ticks to Unix time, if there are several producers, so that their records can be ordered.
    pub(crate) timeline: Option<Timeline>,
}

impl Part {
    /// Converts ticks of the stream to the time in batches: ns of Unix time with a timeline, otherwise ticks.
    #[inline]
    pub(crate) fn clock(&self, ticks: u64) -> u64 {
        match &self.timeline {
            None => ticks,
            Some(timeline) => {
                let ns = timeline.unix_ns(ticks).map(|(ns, _)| u64::try_from(ns).unwrap_or(0));
                ns.unwrap_or(ticks)
            }
        }
    }
}

impl Part {
    /// A lower bound of the times of all records, from the smallest time in each header. `None` with an open buffer, whose
    /// times are not known.
    fn begins(&self) -> Option<u64> {
        let is_known = self.pieces.iter().all(|piece| piece.open.is_none());
        let headers = self.pieces.iter().map(|piece| &piece.frame.header);
        let first =
            headers.filter(|header| header.records > 0).map(|header| self.clock(header.ts_first)).min();
        first.filter(|_| is_known)
    }
}

/// Groups frames by producer and stream, in order of first appearance. `count` counts the records of an open buffer.
///
/// An open buffer is placed by its sequence number, which is not always the last one: a program leaves a buffer open if a
/// signal handler interrupted the writing of one of its records and needed a new buffer itself.
///
/// # Errors
/// Errors of `count`.
pub(crate) fn parts_of(
    survey: &Survey,
    epochs: &BTreeMap<EpochId, Arc<Metadata>>,
    mut count: impl FnMut(&FrameAt, &OpenHead) -> Result<u32>,
) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = Vec::new();
    let mut numbers = rustc_hash::FxHashMap::default();
    let closed = survey.frames.iter().map(|frame| (frame.header.stream, Piece { frame: *frame, open: None }));
    let open =
        survey.open.iter().map(|(head, frame)| (head.stream, Piece { frame: *frame, open: Some(*head) }));
    for (stream, piece) in closed.chain(open) {
        let header = &piece.frame.header;
        if header.kind == kind::AGG || header.is_foreign() {
            continue;
        }
        let producer = header.producer;
        let number = *numbers.entry((producer, stream)).or_insert_with(|| {
            parts.push(part_of(producer, stream, epochs));
            parts.len() - 1
        });
        parts[number].pieces.push(piece);
    }
    for part in &mut parts {
        if part.pieces.iter().any(|piece| piece.open.is_some()) {
            part.pieces.sort_by_key(Piece::seq);
        }
        let n_followed = part.pieces.len() - 1;
        let mut before = 0;
        for (nth, piece) in part.pieces.iter_mut().enumerate() {
            if nth < n_followed
                && let Some(head) = &mut piece.open
                && head.state != CLOSED_IN_PLACE
            {
                head.records = count(&piece.frame, head)?;
            }
            part.before.push(before);
            before += u64::from(piece.records());
        }
    }
    Ok(parts)
}

/// State of an open frame whose head states its records.
const CLOSED_IN_PLACE: u32 = 2;

fn part_of(producer: u64, stream: u32, epochs: &BTreeMap<EpochId, Arc<Metadata>>) -> Part {
    let mut part = Part { producer, stream, ..Part::default() };
    for metadata in epochs.range((producer, 0)..=(producer, u32::MAX)).map(|(_, metadata)| metadata) {
        let pid = metadata.entries().find_map(|(_, entry)| match entry.record.as_deref() {
            Some(Record::Producer(producer)) => producer.pid,
            _ => None,
        });
        part.process = pid.unwrap_or(part.process);
        if let Some(described) = metadata.stream(stream) {
            part.thread = described.tid.unwrap_or(part.thread);
            part.process = described.pid.unwrap_or(part.process);
            part.cpu = described.cpu.or(part.cpu);
        }
    }
    part
}

/// Relates the clocks of several producers. If their order stays partly open, returns a message, and the offset of the first
/// frame concerned if known.
pub(crate) fn align(
    parts: &mut [Part],
    session: &Session,
    epochs: &BTreeMap<EpochId, Arc<Metadata>>,
) -> Option<(String, Option<u64>)> {
    if parts.iter().all(|part| part.producer == parts[0].producer) {
        return None;
    }
    let correlations = session.clocks();
    let timeline = |part: &Part| {
        let range = (part.producer, 0)..=(part.producer, u32::MAX);
        let (id, metadata) = epochs.range(range).next_back()?;
        let number = metadata.stream(part.stream).and_then(|stream| stream.clock);
        let clock = metadata.clock(number.unwrap_or(1))?;
        let own = correlations.iter().filter(|at| at.from.0 == id.0 && at.clock == clock.id).copied();
        let timeline = Timeline::new(clock, own);
        let first = part.pieces.first().map_or(0, |piece| piece.frame.header.ts_first);
        timeline.unix_ns(first)?;
        Some(timeline)
    };
    let all: Option<Vec<Timeline>> = parts.iter().map(timeline).collect();
    let Some(all) = all else {
        let what = "the clocks of the producers have no common time: records are in the order of ticks";
        return Some((what.into(), None));
    };
    for (part, timeline) in parts.iter_mut().zip(all) {
        part.timeline = Some(timeline);
    }
    let (n_pairs, first) = open_pairs(parts)?;
    let pairs = counted(n_pairs, "pair");
    Some((
        format!(
            "the clocks leave it open in which order records are: {pairs} of frames of different producers overlap, the first at \
             offset {first:#x}"
        ),
        Some(first),
    ))
}

/// The interval of Unix time that contains the records of a frame, including the uncertainty of its clock.
struct Within {
    from: i128,
    to: i128,
    producer: u64,
    offset: u64,
}

/// Number of pairs of frames of different producers whose records may be in either order, and the offset of the first such
/// frame. Frames with exactly known clocks are not counted.
fn open_pairs(parts: &[Part]) -> Option<(u64, u64)> {
    let mut all: Vec<Within> = Vec::new();
    for part in parts {
        let Some(timeline) = &part.timeline else { continue };
        for piece in &part.pieces {
            let header = &piece.frame.header;
            // For an open buffer, the last time is in its head.
            let (first, last) =
                piece.open.map_or((header.ts_first, header.ts_last), |head| (head.ts_first, head.ts_last));
            let (Some((from, before)), Some((to, after))) =
                (timeline.unix_ns(first), timeline.unix_ns(last.max(first)))
            else {
                continue;
            };
            if before.max(after) == 0 || piece.open.is_none() && header.records == 0 {
                continue;
            }
            let (from, to) = (from - i128::from(before), to + i128::from(after));
            all.push(Within { from, to, producer: part.producer, offset: piece.frame.offset });
        }
    }
    all.sort_by_key(|within| (within.from, within.offset));
    let mut by_producer: BTreeMap<u64, Vec<(i128, i128)>> = BTreeMap::new();
    all.iter().for_each(|of| by_producer.entry(of.producer).or_default().push((of.from, of.to)));
    let of_all = overlaps(&all.iter().map(|of| (of.from, of.to)).collect::<Vec<_>>());
    let n_pairs = by_producer.values().fold(of_all, |left, own| left.saturating_sub(overlaps(own)));
    // The two latest ends so far, of different producers.
    let mut latest: [Option<(i128, u64)>; 2] = [None; 2];
    for &Within { from, to, producer, offset } in &all {
        if latest.iter().flatten().any(|(end, of)| *of != producer && *end >= from) {
            return Some((n_pairs, offset));
        }
        match latest {
            [Some((end, of)), _] if of == producer => latest[0] = Some((end.max(to), of)),
            [Some((end, _)), second] if end >= to => {
                let known = second.filter(|(end, of)| *of != producer && *end >= to);
                latest[1] = known.or(Some((to, producer)));
            }
            [first, _] => latest = [Some((to, producer)), first],
        }
    }
    None
}

/// Number of overlapping pairs among spans that are sorted by start.
fn overlaps(spans: &[(i128, i128)]) -> u64 {
    let later = |(nth, (_, to)): (usize, &(i128, i128))| {
        spans.partition_point(|(from, _)| from <= to).saturating_sub(nth + 1) as u64
    };
    spans.iter().enumerate().map(later).sum()
}

pub(crate) fn shards_of(parts: &[Part]) -> Vec<Shard> {
    let n_producers = parts.iter().map(|part| part.producer).collect::<std::collections::BTreeSet<_>>().len();
    let shard = |(number, part): (usize, &Part)| Shard {
        id: ShardId(u32::try_from(number).unwrap_or(u32::MAX)),
        name: match n_producers {
            0 | 1 => format!("stream {}", part.stream),
            _ => format!("stream {} of {:016x}", part.stream, part.producer),
        },
        kind: ShardKind::Mixed,
        process: (part.process > 0).then_some(part.process),
        pieces: u32::try_from(part.pieces.len()).unwrap_or(u32::MAX).max(1),
        packed_bytes: Some(part.pieces.iter().map(|piece| piece.frame.header.frame_len()).sum()),
        begins: part.begins(),
        // A key is independent of other producers: one may join later and come first.
        key: Some(u128::from(part.producer) << 32 | u128::from(part.stream)),
        ..Shard::default()
    };
    parts.iter().enumerate().map(shard).collect()
}
