//! Losses of a capture: records that its kernel dropped, and parts that could not be read of the capture from which it was made.
//!
//! SPEC: dtrace.md#errors-and-drops

use crate::aggregate::Records;
use crate::buffer::Cursor;
use crate::describe::{Buffer, Capture, Event, Status};
use crate::rules;
use crate::walk;
use quipu_model::loss::Amount;
use quipu_model::{Finding, Place};
use quipu_stream::loss::{self, Loss};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Loss causes, as numbered in streams: drops of records, and of aggregations, on a CPU.
pub(crate) const OF_RECORDS: u64 = 1;
pub(crate) const OF_STATES: u64 = 2;

/// Further causes: a wrong checksum, undecodable data, data replaced by newer records, truncated data.
const CHECKSUM: u64 = 17;
const UNDECODABLE: u64 = 18;
pub(crate) const OVERWRITTEN: u64 = 19;
const TRUNCATED: u64 = 20;

/// A loss other than the kernel's drops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Lost {
    /// Cause, as numbered in streams.
    pub cause: u64,
    /// Number of records, if known.
    #[serde(default)]
    pub records: Option<u64>,
    /// Description for people.
    #[serde(default)]
    pub text: String,
}

impl Lost {
    /// Converts a finding about a capture to a loss of the capture made of it.
    fn of(finding: &Finding) -> Lost {
        let cause = match &*finding.rule {
            rule if rule == rules::CHECKSUM.name => CHECKSUM,
            rule if [rules::CUT.name, rules::SIZE.name, rules::MISSING.name].contains(&rule) => TRUNCATED,
            _ => UNDECODABLE,
        };
        let records = finding.loss.as_ref().and_then(|loss| loss.records.exactly());
        let text = match finding.place.is_empty() {
            true => finding.message.clone(),
            false => format!("{}: {}", finding.place, finding.message),
        };
        Lost { cause, records, text }
    }

    /// The loss in the form of streams and buffers.
    fn written(&self) -> Loss {
        let text = Some(self.text.clone()).filter(|text| !text.is_empty());
        Loss { cause: self.cause, records: self.records, text, ..Loss::default() }
    }

    /// The finding for this loss when the capture is read.
    pub(crate) fn finding(&self, place: Place) -> Finding {
        let cause = loss::cause_name(self.cause).map_or_else(|| self.cause.to_string(), str::to_owned);
        let message = match self.text.as_str() {
            "" => format!("a loss is declared, of cause {cause}"),
            text => format!("a loss is declared, of cause {cause}: {text}"),
        };
        let loss = quipu_model::Loss {
            records: Amount::known(self.records.filter(|n| *n < loss::MANY)),
            ..quipu_model::Loss::from(place.clone())
        };
        rules::LOST.broken(place, message).losing(loss).stated()
    }
}

/// Removes the unreadable parts of a capture, and declares them as lost: `wrong` are its findings, without drops.
pub(crate) fn declare(capture: &mut Capture, wrong: &[Finding]) {
    let mut whole = std::mem::take(capture);
    let (buffers, states) = (std::mem::take(&mut whole.buffers), std::mem::take(&mut whole.states));
    whole.buffers = buffers.into_iter().map(|buffer| readable(&whole, buffer)).collect();
    whole.states = states.into_iter().map(|buffer| readable_states(&whole, buffer)).collect();
    let events = std::mem::take(&mut whole.events);
    let is_good = |event: &Event| walk::sample(&whole, event).is_ok();
    whole.events = events.into_iter().filter(is_good).collect();
    whole.lost.extend(wrong.iter().filter(|finding| finding.is_damage()).map(Lost::of));
    *capture = whole;
}

/// A buffer up to the last readable record, the oldest first; unchanged if all of it is readable.
fn readable(capture: &Capture, buffer: Buffer) -> Buffer {
    let mut cursor = Cursor::new(&buffer);
    let mut last = None;
    loop {
        match cursor.next_record(capture, &buffer) {
            Ok(Some(record)) => last = Some((record.offset, record.offset + record.bytes.len())),
            Ok(None) => return buffer,
            Err(_) => break,
        }
    }
    let end = match last {
        None => 0,
        Some((start, end)) if start < buffer.oldest => buffer.bytes.len() - buffer.oldest + end,
        Some((_, end)) => end - buffer.oldest,
    };
    let mut turned = buffer.turned();
    turned.bytes.truncate(end);
    turned.gaps.retain(|gap| gap.end <= end);
    turned
}

/// The same for a buffer of aggregations, which never wraps.
fn readable_states(capture: &Capture, mut buffer: Buffer) -> Buffer {
    let mut records = Records::new(capture, &buffer);
    let mut end = 0;
    loop {
        match records.next_record() {
            Ok(Some(_)) => end = records.offset(),
            Ok(None) => return buffer,
            Err(_) => break,
        }
    }
    buffer.bytes.truncate(end);
    buffer
}

/// Drops that are not counted per CPU, with their causes.
fn counts(status: &mut Status) -> [(&mut u64, u64); 8] {
    [
        (&mut status.dyndrops, 3),
        (&mut status.dyndrops_rinsing, 4),
        (&mut status.dyndrops_dirty, 5),
        (&mut status.specdrops, 6),
        (&mut status.specdrops_busy, 7),
        (&mut status.specdrops_unavail, 8),
        (&mut status.stkstroverflows, 9),
        (&mut status.dblerrors, 10),
    ]
}

/// The loss of cleared records, whose number is unknown.
pub(crate) fn cleared(n_bytes: u64, text: String) -> Loss {
    Loss { cause: OVERWRITTEN, bytes: Some(n_bytes), text: Some(text), ..Loss::default() }
}

/// Losses that are not counted per CPU, in the form of streams and buffers.
pub(crate) fn of_no_cpu(capture: &Capture) -> Vec<Loss> {
    let mut status = capture.status;
    let drops = counts(&mut status).into_iter().filter(|(n, _)| **n > 0);
    let drops = drops.map(|(n, cause)| Loss { cause, records: Some(*n), ..Loss::default() });
    drops.chain(capture.lost.iter().map(Lost::written)).collect()
}

/// The drops of a buffer of records or of aggregations, if there are any.
pub(crate) fn of_cpu(buffer: &Buffer, cause: u64) -> Option<Loss> {
    let records = Some(buffer.drops).filter(|n| *n > 0)?;
    Some(Loss { cause, records: Some(records), ..Loss::default() })
}

/// Adds losses of a stream or a buffer to a capture, each to the buffer or count that it belongs to.
#[derive(Debug)]
pub(crate) struct Taker {
    /// Positions of buffers by CPU; a map, because hostile streams may name many CPUs.
    buffers: FxHashMap<u32, usize>,
    states: FxHashMap<u32, usize>,
}

impl Taker {
    pub(crate) fn new(capture: &Capture) -> Taker {
        let positions = |all: &[Buffer]| all.iter().enumerate().map(|(at, of)| (of.cpu, at)).collect();
        Taker { buffers: positions(&capture.buffers), states: positions(&capture.states) }
    }

    pub(crate) fn take(&mut self, capture: &mut Capture, cpu: u32, loss: &Loss) {
        let n = loss.records.unwrap_or(0);
        let of_cpu = |all: &mut Vec<Buffer>, positions: &mut FxHashMap<u32, usize>| {
            let position = *positions.entry(cpu).or_insert(all.len());
            match all.get_mut(position) {
                Some(buffer) => buffer.drops = buffer.drops.saturating_add(n),
                None => all.push(Buffer { cpu, drops: n, ..Buffer::default() }),
            }
        };
        match loss.cause {
            OF_RECORDS => of_cpu(&mut capture.buffers, &mut self.buffers),
            OF_STATES => of_cpu(&mut capture.states, &mut self.states),
            cause => match counts(&mut capture.status).into_iter().find(|(_, of)| *of == cause) {
                Some((count, _)) => *count = count.saturating_add(n),
                None => {
                    let text = loss.text.clone().unwrap_or_default();
                    capture.lost.push(Lost { cause, records: loss.records, text });
                }
            },
        }
    }
}
