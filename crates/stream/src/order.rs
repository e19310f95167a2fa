//! The order of frames: finds missing, late and duplicate ones.
//!
//! All frames except open ones are numbered, in each stream of a producer from 0. The first frame seen of a stream sets the
//! expected number, unless the producer was seen from its very beginning: then every stream is expected to start at 0.

use crate::finding::Finding;
use crate::frame::Header;
use crate::ranges::Ranges;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum number of ranges of missing frames remembered for each stream.
const MAX_RANGES: usize = 4096;

/// Decision about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Use,
    Duplicate,
}

#[derive(Debug, Default)]
struct StreamOrder {
    next: u64,
    /// Numbers in reported gaps, and those before the first frame seen.
    missing: Ranges,
    /// Missing numbers below this one may have been forgotten.
    forgotten: u64,
    /// Frames directly after a gap, also a gap filled since: their offsets by their numbers.
    shown: BTreeMap<u64, u64>,
    /// Numbers of frames with a damaged payload.
    damaged: Ranges,
}

impl StreamOrder {
    /// Notes that numbers are missing before the frame at `offset`.
    fn miss(&mut self, numbers: Range<u64>, offset: u64) {
        if numbers.is_empty() {
            return;
        }
        self.shown.insert(numbers.end, offset);
        self.missing.insert(numbers);
        if self.missing.n_ranges() > MAX_RANGES {
            self.forgotten = self.missing.forget_lowest().map_or(self.forgotten, |range| range.end);
        }
        if self.shown.len() > MAX_RANGES {
            self.shown.pop_first();
        }
    }
}

/// A gap in the sequence numbers of a stream.
#[derive(Clone, Debug)]
struct Gap {
    producer: u64,
    stream: u32,
    expected: u64,
    got: u64,
    offset: u64,
}

/// The order of all streams.
#[derive(Debug, Default)]
pub(crate) struct Order {
    streams: FxHashMap<(u64, u32), StreamOrder>,
    /// Producers seen from frame 0 of stream 0.
    from_start: FxHashSet<u64>,
    /// Gaps; late and open frames may still fill them.
    gaps: Vec<Gap>,
    pub(crate) duplicates: u64,
    /// Producers with a missing frame.
    pub(crate) with_gaps: FxHashSet<u64>,
}

impl Order {
    /// Counts a frame.
    pub(crate) fn frame(&mut self, offset: u64, header: &Header, findings: &mut Vec<Finding>) -> Verdict {
        let Header { producer, stream, seq, .. } = *header;
        if stream == 0 && seq == 0 {
            self.from_start.insert(producer);
        }
        let from_start = self.from_start.contains(&producer);
        let order = self.streams.entry((producer, stream)).or_insert_with(|| {
            let first = if from_start { 0 } else { seq };
            let mut order = StreamOrder { next: first, ..StreamOrder::default() };
            order.miss(0..first, offset);
            order
        });
        if seq >= order.next {
            if seq > order.next {
                self.gaps.push(Gap { producer, stream, expected: order.next, got: seq, offset });
                self.with_gaps.insert(producer);
                order.miss(order.next..seq, offset);
            }
            order.next = seq.saturating_add(1);
            return Verdict::Use;
        }
        if order.missing.remove(seq) || order.damaged.remove(seq) {
            findings.push(Finding::at("late-frame", offset));
            return Verdict::Use;
        }
        self.duplicates += 1;
        Verdict::Duplicate
    }

    /// The offset at which a frame belongs: for a late frame, that of the frame which showed the gap; for others, their own.
    pub(crate) fn place(&self, offset: u64, header: &Header) -> u64 {
        let order = self.streams.get(&(header.producer, header.stream));
        let after = header.seq.checked_add(1).zip(order);
        let shown = after.and_then(|(after, order)| order.shown.range(after..).next());
        shown.map_or(offset, |(_, at)| offset.min(*at))
    }

    /// Notes that the payload of a frame was damaged, so that another copy of the frame is useful.
    pub(crate) fn damaged(&mut self, header: &Header) {
        if let Some(order) = self.streams.get_mut(&(header.producer, header.stream)) {
            order.damaged.insert(header.seq..header.seq.saturating_add(1));
            if order.damaged.n_ranges() > MAX_RANGES {
                let _ = order.damaged.forget_lowest();
            }
        }
    }

    /// Whether a closed frame with this number was seen with a damaged payload.
    pub(crate) fn is_damaged(&self, producer: u64, stream: u32, seq: u64) -> bool {
        self.streams.get(&(producer, stream)).is_some_and(|order| order.damaged.contains(seq))
    }

    /// Whether a closed frame with this number was seen, damaged or not.
    fn was_seen(&self, producer: u64, stream: u32, seq: u64) -> bool {
        self.streams
            .get(&(producer, stream))
            .is_some_and(|order| seq < order.next && !order.missing.contains(seq))
    }

    /// Whether a closed frame with this number was seen undamaged.
    pub(crate) fn has(&self, producer: u64, stream: u32, seq: u64) -> bool {
        self.was_seen(producer, stream, seq) && !self.is_damaged(producer, stream, seq)
    }

    /// Whether the producer was seen from its beginning and no frame of it is missing.
    pub(crate) fn is_whole(&self, producer: u64) -> bool {
        self.from_start.contains(&producer) && !self.with_gaps.contains(&producer)
    }

    /// Reports the gaps, except those whose numbers all arrived late or are in open frames.
    pub(crate) fn finish(&mut self, is_open: impl Fn(u64, u32, u64) -> bool, findings: &mut Vec<Finding>) {
        let (mut filled, mut unfilled) = (FxHashSet::default(), FxHashSet::default());
        for gap in self.gaps.drain(..) {
            let order = self.streams.get(&(gap.producer, gap.stream));
            let order = order.filter(|order| order.forgotten <= gap.expected);
            let numbers = gap.expected..gap.got;
            // A gap of more than a few thousand numbers is checked only as a whole.
            let is_filled = order.is_some_and(|order| !order.missing.meets(&numbers))
                || gap.got - gap.expected <= MAX_RANGES as u64
                    && numbers.clone().all(|seq| {
                        is_open(gap.producer, gap.stream, seq)
                            || order.is_some_and(|order| !order.missing.contains(seq))
                    });
            let producers = if is_filled { &mut filled } else { &mut unfilled };
            producers.insert(gap.producer);
            if !is_filled {
                findings.push(
                    Finding::new("sequence-gap")
                        .with("stream", gap.stream)
                        .with("expected", gap.expected)
                        .with("got", gap.got)
                        .with("offset", gap.offset),
                );
            }
        }
        // A producer whose gaps were all filled by open or late frames counts as whole, so that the counts of its END are
        // compared.
        self.with_gaps.retain(|producer| !filled.contains(producer) || unfilled.contains(producer));
    }
}
