//! What a capture says that it lost: what its kernel dropped, and what could not be read of the capture that it was made of.
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

/// The causes of drops of records and of aggregations on a CPU, as streams number them.
pub(crate) const OF_RECORDS: u64 = 1;
pub(crate) const OF_STATES: u64 = 2;

/// Further causes: a wrong checksum, what cannot be read, what newer records replaced, what is cut off.
const CHECKSUM: u64 = 17;
const UNDECODABLE: u64 = 18;
pub(crate) const OVERWRITTEN: u64 = 19;
const TRUNCATED: u64 = 20;

/// A loss that is none of the kernel's drops.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Lost {
    /// Why, as streams number it.
    pub cause: u64,
    /// Records, where that is known.
    #[serde(default)]
    pub records: Option<u64>,
    /// In words.
    #[serde(default)]
    pub text: String,
}

impl Lost {
    /// What an error of a capture comes to, in what is made of it.
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

    /// As a stream or a buffer has it.
    fn written(&self) -> Loss {
        let text = Some(self.text.clone()).filter(|text| !text.is_empty());
        Loss { cause: self.cause, records: self.records, text, ..Loss::default() }
    }

    /// What is found where the capture is read.
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

/// Leaves in a capture what can be read of it, and declares what cannot as lost: what is wrong with it, its drops aside.
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

/// A buffer up to the last record that can be read, the oldest first; as it is if all of it can.
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

/// Drops of no CPU, with their causes.
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

/// Records that were cleared, so that their number is not known.
pub(crate) fn cleared(n_bytes: u64, text: String) -> Loss {
    Loss { cause: OVERWRITTEN, bytes: Some(n_bytes), text: Some(text), ..Loss::default() }
}

/// Losses of no CPU, as a stream or a buffer has them.
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

/// Takes losses of a stream or a buffer into a capture, each where it belongs.
#[derive(Debug)]
pub(crate) struct Taker {
    /// Positions of buffers by CPU; hostile streams name many.
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
