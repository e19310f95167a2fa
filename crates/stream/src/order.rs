//! The order of frames: which are missing, which came late, which came twice.
//!
//! All frames but open ones count, each producer and stream from 0. The first frame that is seen of a stream sets the count,
//! unless the producer was seen from its very beginning: then every stream is expected from 0.

use crate::finding::Finding;
use crate::frame::Header;
use crate::ranges::Ranges;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many ranges of missing frames are remembered for each stream.
const MAX_RANGES: usize = 4096;

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Use,
    Duplicate,
}

#[derive(Debug, Default)]
struct StreamOrder {
    next: u64,
    /// Numbers in gaps that were reported, and those before the first frame that was seen.
    missing: Ranges,
    /// Numbers below this one may be missing and were forgotten.
    forgotten: u64,
    /// Numbers of frames before which some are missing, or were, and where they stand.
    shown: BTreeMap<u64, u64>,
    /// Numbers of frames whose payload was damaged.
    damaged: Ranges,
}

impl StreamOrder {
    /// Notes that numbers are missing before a frame.
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

/// A gap in the numbers of a stream.
#[derive(Clone, Debug)]
struct Gap {
    producer: u64,
    stream: u32,
    expected: u64,
    got: u64,
    offset: u64,
}

/// The counts of all streams.
#[derive(Debug, Default)]
pub(crate) struct Order {
    streams: FxHashMap<(u64, u32), StreamOrder>,
    /// Producers that were seen from stream 0, number 0.
    from_start: FxHashSet<u64>,
    /// Gaps, which open frames may still fill.
    gaps: Vec<Gap>,
    pub(crate) duplicates: u64,
    /// Producers that miss a frame.
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

    /// Where a frame belongs: one that came late before the frame that showed that it was missing, others where they stand.
    pub(crate) fn place(&self, offset: u64, header: &Header) -> u64 {
        let order = self.streams.get(&(header.producer, header.stream));
        let after = header.seq.checked_add(1).zip(order);
        let shown = after.and_then(|(after, order)| order.shown.range(after..).next());
        shown.map_or(offset, |(_, at)| offset.min(*at))
    }

    /// Notes that the payload of a frame was damaged, so that another copy of it would be of use.
    pub(crate) fn damaged(&mut self, header: &Header) {
        if let Some(order) = self.streams.get_mut(&(header.producer, header.stream)) {
            order.damaged.insert(header.seq..header.seq.saturating_add(1));
            if order.damaged.n_ranges() > MAX_RANGES {
                let _ = order.damaged.forget_lowest();
            }
        }
    }

    /// Whether a closed frame with this number was seen whose payload was damaged.
    pub(crate) fn is_damaged(&self, producer: u64, stream: u32, seq: u64) -> bool {
        self.streams.get(&(producer, stream)).is_some_and(|order| order.damaged.contains(seq))
    }

    /// Whether a closed frame with this number was seen, be it damaged.
    fn was_seen(&self, producer: u64, stream: u32, seq: u64) -> bool {
        self.streams
            .get(&(producer, stream))
            .is_some_and(|order| seq < order.next && !order.missing.contains(seq))
    }

    /// Whether a closed frame with this number was seen that is not damaged.
    pub(crate) fn has(&self, producer: u64, stream: u32, seq: u64) -> bool {
        self.was_seen(producer, stream, seq) && !self.is_damaged(producer, stream, seq)
    }

    /// Whether the producer was seen from its beginning and no frame of it is missing.
    pub(crate) fn is_whole(&self, producer: u64) -> bool {
        self.from_start.contains(&producer) && !self.with_gaps.contains(&producer)
    }

    /// Reports the gaps. A gap whose numbers all came late, or stand in open frames, is none.
    pub(crate) fn finish(&mut self, is_open: impl Fn(u64, u32, u64) -> bool, findings: &mut Vec<Finding>) {
        let (mut filled, mut unfilled) = (FxHashSet::default(), FxHashSet::default());
        for gap in self.gaps.drain(..) {
            let order = self.streams.get(&(gap.producer, gap.stream));
            let order = order.filter(|order| order.forgotten <= gap.expected);
            let numbers = gap.expected..gap.got;
            // A gap of more than a few thousand numbers is looked into as a whole only.
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
        // What an end counts is compared with what came, also of a producer whose other frames are open.
        self.with_gaps.retain(|producer| !filled.contains(producer) || unfilled.contains(producer));
    }
}
