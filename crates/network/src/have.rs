//! The frames of a producer that a collector has: for each stream, ranges of frame numbers.

use crate::message::{Code, Fault, MAX_RANGES, RANGE_BYTES};
use quipu_stream::frame::{Header, kind};
use quipu_stream::ranges::Ranges;
use std::collections::BTreeMap;
use std::ops::Range;

/// Records that a frame contains or reports as lost: the count that a flight recorder keeps when it overwrites the frame.
#[must_use]
pub fn told(header: &Header) -> u64 {
    match header.kind {
        kind::DATA | kind::AGG => u64::from(header.records) + u64::from(header.lost),
        _ => 0,
    }
}

/// The frame numbers of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    ranges: Ranges,
    /// Records that the frames of a range contain or report as lost, by the first number of the range. Ranges without such
    /// records have no entry.
    told: BTreeMap<u64, u64>,
}

impl Numbers {
    fn insert(&mut self, range: Range<u64>, told: u64) {
        self.ranges.insert(range.clone());
        let Some(whole) = self.ranges.range_of(range.start) else { return };
        let mut sum = told;
        // Ranges that were joined share one entry.
        while let Some((&first, &told)) = self.told.range(whole.clone()).next() {
            self.told.remove(&first);
            sum = sum.saturating_add(told);
        }
        if sum > 0 {
            self.told.insert(whole.start, sum);
        }
    }
}

/// Frame numbers by stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Have {
    streams: BTreeMap<u32, Numbers>,
    n_ranges: usize,
    /// Number of streams that lack frame 0.
    n_headless: usize,
}

impl Have {
    /// Whether a frame is present.
    #[must_use]
    pub fn contains(&self, stream: u32, seq: u64) -> bool {
        self.streams.get(&stream).is_some_and(|numbers| numbers.ranges.contains(seq))
    }

    /// Records that the frames of a stream before the absent frame `seq` contain or report as lost.
    #[must_use]
    pub fn told_before(&self, stream: u32, seq: u64) -> u64 {
        let all = self.streams.get(&stream).into_iter().flat_map(|numbers| numbers.told.range(..seq));
        all.fold(0, |sum, (_, told)| sum.saturating_add(*told))
    }

    /// The highest frame number of a stream, or 0.
    #[must_use]
    pub fn last(&self, stream: u32) -> u64 {
        self.streams.get(&stream).and_then(|numbers| numbers.ranges.last()).unwrap_or(0)
    }

    /// Adds a frame, with its [`told`] count.
    ///
    /// # Errors
    /// If there would be more ranges than a message can hold.
    pub fn insert(&mut self, stream: u32, seq: u64, told: u64) -> Result<(), Fault> {
        self.insert_range(stream, seq..seq.saturating_add(1), told)
    }

    fn insert_range(&mut self, stream: u32, range: Range<u64>, told: u64) -> Result<(), Fault> {
        let numbers = self.streams.entry(stream).or_default();
        let before = numbers.ranges.n_ranges();
        let was_headless = before > 0 && !numbers.ranges.contains(0);
        numbers.insert(range, told);
        self.n_headless += usize::from(!numbers.ranges.contains(0));
        self.n_headless -= usize::from(was_headless);
        self.n_ranges = self.n_ranges - before + numbers.ranges.n_ranges();
        if self.n_ranges > MAX_RANGES {
            return Err(Fault::new(Code::Limit, "a producer of too many streams, or with too many gaps"));
        }
        Ok(())
    }

    /// Whether there are no frames.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_ranges == 0
    }

    /// Number of gaps between the frames of streams, and before them if the producer is complete from its beginning.
    /// Otherwise stream 0 is not counted: it describes the producer, and is repeated, so it may begin anew.
    #[must_use]
    pub fn n_gaps(&self) -> u64 {
        let n_between = self.n_ranges - self.streams.len();
        if self.contains(0, 0) {
            return (n_between + self.n_headless) as u64;
        }
        let of_first = self.streams.get(&0).map_or(0, |numbers| numbers.ranges.n_ranges() - 1);
        (n_between - of_first) as u64
    }

    /// Whether the producer is complete from its beginning, without gaps before the last frame of each stream.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.contains(0, 0) && self.n_headless == 0 && self.n_ranges == self.streams.len()
    }

    /// Encodes the body of a HAVE message.
    #[must_use]
    pub fn to_bytes(&self, producer: u64) -> Vec<u8> {
        let mut body = producer.to_le_bytes().to_vec();
        for (stream, numbers) in &self.streams {
            for range in numbers.ranges.iter() {
                let told = numbers.told.get(&range.start).copied().unwrap_or(0);
                for word in [u64::from(*stream), range.start, range.end, told] {
                    body.extend_from_slice(&word.to_le_bytes());
                }
            }
        }
        body
    }

    /// Decodes the body of a HAVE message: the producer, and its frames.
    ///
    /// # Errors
    /// If the body is malformed.
    pub fn read(body: &[u8]) -> Result<(u64, Have), Fault> {
        let wrong = || Fault::malformed("a list of frames that cannot be read");
        let (producer, ranges) = body.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (ranges, rest) = ranges.as_chunks::<RANGE_BYTES>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        let mut have = Have::default();
        for range in ranges {
            let (words, _) = range.as_chunks::<8>();
            let [stream, first, end, told] = [words[0], words[1], words[2], words[3]].map(u64::from_le_bytes);
            let stream = u32::try_from(stream).map_err(|_| wrong())?;
            if first >= end {
                return Err(wrong());
            }
            have.insert_range(stream, first..end, told)?;
        }
        Ok((u64::from_le_bytes(*producer), have))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_between_frames_and_before_them_if_the_beginning_is_there() {
        let mut have = Have::default();
        assert_eq!(have.n_gaps(), 0);
        for (stream, seq) in [(0, 7), (3, 5), (4, 1), (4, 2), (4, 4), (4, 9)] {
            have.insert(stream, seq, 0).unwrap();
        }
        assert_eq!(have.n_gaps(), 2);
        have.insert(4, 3, 0).unwrap();
        assert_eq!(have.n_gaps(), 1);
        // Once the beginning of the producer is present, frame numbers are expected from 0.
        have.insert(0, 0, 0).unwrap();
        assert_eq!(have.n_gaps(), 4);
        have.insert(4, 0, 0).unwrap();
        have.insert_range(4, 5..9, 0).unwrap();
        have.insert_range(3, 0..5, 0).unwrap();
        assert!(have.n_gaps() == 1 && !have.is_whole());
        have.insert_range(0, 1..7, 0).unwrap();
        assert!(have.n_gaps() == 0 && have.is_whole());
    }

    #[test]
    fn records_before_a_number_are_counted_however_ranges_join() {
        let mut have = Have::default();
        for (seq, told) in [(7, 100), (2, 5), (4, 20), (5, 0), (9, 1000), (0, 1)] {
            have.insert(3, seq, told).unwrap();
        }
        let before = |have: &Have| [1, 3, 6, 8, 10].map(|seq| have.told_before(3, seq));
        assert_eq!(before(&have), [1, 6, 26, 126, 1126]);
        let (_, read) = Have::read(&have.to_bytes(9)).unwrap();
        assert!(read == have && before(&read) == before(&have) && have.told_before(4, 10) == 0);
        // A frame that joins two ranges and adds no records.
        have.insert(3, 3, 0).unwrap();
        assert_eq!([1, 6, 8].map(|seq| have.told_before(3, seq)), [1, 26, 126]);
        assert_eq!(Have::read(&have.to_bytes(9)).unwrap(), (9, have));
    }
}
