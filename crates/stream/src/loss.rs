//! Losses: adds up the losses that frames and loss records report, without counting any twice.

use quipu_wire::cbor::Value;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A loss record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss {
    /// Cause, see [`cause_name`].
    pub cause: u64,
    /// The stream that lost records; `None` means the stream of the frame.
    pub stream: Option<u32>,
    /// Number of records lost.
    pub records: Option<u64>,
    /// Number of bytes lost.
    pub bytes: Option<u64>,
    /// First and last time of the gap, in ticks.
    pub times: (Option<u64>, Option<u64>),
    /// Total lost so far.
    pub total: Option<u64>,
    /// Description for people.
    pub text: Option<String>,
}

impl Loss {
    /// Reads a loss map. `None` if it has no cause.
    #[must_use]
    pub fn read(map: &Value) -> Option<Loss> {
        let number = |key: u64| map.get(key).and_then(Value::as_u64);
        Some(Loss {
            cause: number(0)?,
            stream: number(1).and_then(|n| u32::try_from(n).ok()),
            records: number(2),
            bytes: number(3),
            times: (number(4), number(5)),
            total: number(6),
            text: map.get(7).and_then(Value::as_text).map(str::to_owned),
        })
    }

    /// The CBOR map of the record.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let numbers = [
            (0, Some(self.cause)),
            (1, self.stream.map(u64::from)),
            (2, self.records),
            (3, self.bytes),
            (4, self.times.0),
            (5, self.times.1),
            (6, self.total),
        ];
        let mut pairs: Vec<(Value, Value)> = numbers
            .iter()
            .filter_map(|(key, value)| Some((Value::Uint(*key), Value::Uint((*value)?))))
            .collect();
        pairs.extend(self.text.iter().map(|text| (Value::Uint(7), Value::Text(text.clone()))));
        Value::Map(pairs)
    }
}

/// The name of a cause.
#[must_use]
pub fn cause_name(cause: u64) -> Option<&'static str> {
    Some(match cause {
        1 => "principal",
        2 => "aggregation",
        3 => "dynamic",
        4 => "rinsing",
        5 => "dirty",
        6 => "speculation",
        7 => "speculation-busy",
        8 => "speculation-unavailable",
        9 => "stack-strings",
        10 => "error-probe",
        16 => "sequence-gap",
        17 => "crc",
        18 => "undecodable",
        19 => "overwritten",
        20 => "truncated",
        32 => "consumer",
        33 => "broker",
        _ => return None,
    })
}

/// A sum that reaches this value stays there, and means *at least*.
pub const MANY: u64 = u32::MAX as u64;

/// Causes written by a program that copies or repairs a stream, rather than by the producer.
pub mod cause {
    /// Sequence numbers were missing.
    pub const GAP: u64 = 16;
    /// A checksum did not match.
    pub const CRC: u64 = 17;
    /// Records could not be decoded.
    pub const UNDECODABLE: u64 = 18;
    /// A flight recorder overwrote the records.
    pub const OVERWRITTEN: u64 = 19;
    /// The stream was cut.
    pub const TRUNCATED: u64 = 20;
}

/// Whether a cause says that an earlier copy of the stream had lost the records, as found by the program that copied it.
#[must_use]
pub fn is_of_copy(cause: u64) -> bool {
    matches!(cause, cause::GAP | cause::CRC | cause::UNDECODABLE | cause::TRUNCATED)
}

/// Loss records after the last frame of their stream, which no later frame counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostAfter {
    /// The first 8 bytes of the producer's UUID.
    pub producer: u64,
    /// The stream that lost records; the stream of the loss records if they do not name one.
    pub stream: u32,
    /// False if the records do not name the stream.
    pub is_named: bool,
    /// Offset of the last of these records.
    pub offset: u64,
    /// Number of records lost; [`MANY`] if unknown.
    pub records: u64,
    /// Number of bytes lost, if known.
    pub bytes: Option<u64>,
    /// The cause, if an earlier copy had lost them; `None` if the producer dropped them.
    pub of_copy: Option<u64>,
}

/// An entry of the log of losses.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A data frame, with the number of records lost before it.
    Frame(u32),
    /// A loss record, which explains the count of the next frame of its stream: `n` lost records, and whether it names the
    /// stream.
    Record { n: u64, bytes: Option<u64>, cause: u64, is_named: bool },
}

/// Position of an entry: the offset at which its frame belongs, the offset of the frame itself, and whether the entry is
/// inside a data frame.
type Place = (u64, u64, bool);

/// Sort key of a position. A late frame sorts after the frame before which it belongs.
fn order_of((place, offset, inside): Place) -> (u64, bool, u64, bool) {
    (place, place == offset, offset, inside)
}

/// All reported losses with their positions. They are sorted at the end, because frames that arrive late may belong early.
#[derive(Debug, Default)]
pub(crate) struct LossLog {
    events: Vec<(Place, u64, u32, Event)>,
}

impl LossLog {
    /// Adds a data frame, by the offset at which it belongs and its own offset.
    pub(crate) fn frame(&mut self, (place, offset): (u64, u64), producer: u64, stream: u32, lost: u32) {
        // A frame with a count of 0 still explains the records before it.
        self.events.push(((place, offset, false), producer, stream, Event::Frame(lost)));
    }

    /// Adds a loss record. If it is `inside` a data frame, it counts after that frame.
    pub(crate) fn record(
        &mut self,
        (place, offset): (u64, u64),
        inside: bool,
        producer: u64,
        stream: u32,
        loss: &Loss,
    ) {
        let event = Event::Record {
            n: loss.records.unwrap_or_default(),
            bytes: loss.bytes,
            cause: loss.cause,
            is_named: loss.stream.is_some(),
        };
        let stream = loss.stream.unwrap_or(stream);
        self.events.push(((place, offset, inside), producer, stream, event));
    }

    /// Loss records that no frame of their stream explains, since none comes later. `last` returns the offset of the frame
    /// with the highest number of a stream.
    pub(crate) fn after_all(&self, last: impl Fn(u64, u32) -> Option<u64>) -> Vec<LostAfter> {
        let mut sums: BTreeMap<(u64, u32, Option<u64>), LostAfter> = BTreeMap::new();
        for ((place, offset, inside), producer, stream, event) in &self.events {
            let Event::Record { n, bytes, cause, is_named } = *event else { continue };
            let is_after = last(*producer, *stream).is_none_or(|at| *place > at || *inside && *offset == at);
            if !is_after || n == 0 {
                continue;
            }
            let of_copy = Some(cause).filter(|cause| is_of_copy(*cause));
            let (producer, stream) = (*producer, *stream);
            let none =
                LostAfter { producer, stream, is_named, offset: 0, records: 0, bytes: Some(0), of_copy };
            let sum = sums.entry((producer, stream, of_copy)).or_insert(none);
            sum.offset = sum.offset.max(*offset);
            sum.records = sum.records.saturating_add(n).min(MANY);
            sum.bytes = sum.bytes.zip(bytes).map(|(sum, more)| sum.saturating_add(more));
            sum.is_named |= is_named;
        }
        sums.into_values().collect()
    }

    /// Records lost by each stream with a loss, by producer and stream.
    pub(crate) fn totals(&self) -> BTreeMap<(u64, u32), u64> {
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|(place, ..)| order_of(*place));
        let mut sums: FxHashMap<(u64, u32), (u64, u64)> = FxHashMap::default();
        for (_, producer, stream, event) in events {
            let (total, pending) = sums.entry((*producer, *stream)).or_default();
            match event {
                Event::Frame(lost) => {
                    *total = total.saturating_add((*lost).into());
                    *pending = 0;
                }
                Event::Record { n, .. } => *pending = pending.saturating_add(*n),
            }
        }
        let totals =
            sums.into_iter().map(|(who, (total, pending))| (who, total.saturating_add(pending).min(MANY)));
        totals.filter(|(_, total)| *total > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_frame_repeats_is_not_counted_twice() {
        let mut log = LossLog::default();
        let loss = |records: u64| Loss { cause: 1, records: Some(records), ..Loss::default() };
        log.record((100, 100), false, 7, 0, &loss(5));
        log.frame((200, 200), 7, 0, 5);
        log.record((200, 200), true, 7, 0, &loss(3));
        log.record((300, 300), false, 7, 0, &Loss { stream: Some(1), ..loss(9) });
        assert_eq!(log.totals().into_iter().collect::<Vec<_>>(), [((7, 0), 8), ((7, 1), 9)]);
        let last = |_, stream| (stream == 0).then_some(200);
        let after: Vec<_> = log.after_all(last);
        let said: Vec<_> =
            after.iter().map(|lost| (lost.stream, lost.offset, lost.records, lost.is_named)).collect();
        assert_eq!(said, [(0, 200, 3, false), (1, 300, 9, true)]);
        // Losses of an earlier copy have their own sum.
        let cut = Loss { cause: cause::TRUNCATED, bytes: Some(28), ..loss(MANY) };
        let mut of_copy = LossLog::default();
        of_copy.record((310, 310), false, 7, 0, &cut);
        let copied = of_copy.after_all(last)[0];
        assert_eq!((copied.records, copied.bytes, copied.of_copy), (MANY, Some(28), Some(20)));
        // These frames arrived late and belong before the first one.
        log.record((100, 320), false, 7, 0, &loss(2));
        log.frame((100, 340), 7, 0, 2);
        assert_eq!(log.totals()[&(7, 0)], 10);
        assert_eq!((log.after_all(last)[0].offset, log.after_all(last)[0].records), (200, 3));
        log.frame((400, 400), 7, 0, u32::MAX);
        assert_eq!(log.totals()[&(7, 0)], MANY);
    }
}
