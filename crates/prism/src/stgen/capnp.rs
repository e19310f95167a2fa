//! Files of threads as packed Cap'n Proto messages.
//!
//! A message is one segment: the root with its list of events, then the lists to which events point.
//!
//! SPEC: prism.md#capn-proto-files

use super::Options;
use super::log::{Access, Computation, Edge, Log, message_code};
use super::ranges::{Range, Ranges};
use super::text::Packed;
use crate::event::{Sync, sync};
use crate::fault::Result;
use quipu_source::Pool;
use std::sync::Arc;

/// Number of events per message if computations are aggregated.
const AGGREGATED_EVENTS: usize = 100_000;
/// Number of events per message if they are not.
const PLAIN_EVENTS: usize = 500_000;
/// Words before the events: the pointer to the root, the root, and the tag of its list.
const HEAD_WORDS: usize = 3;
/// Element size code of lists of structures.
const STRUCTURES: u64 = 7;
/// Element size code of lists of words.
const WORDS: u64 = 5;

const COMPUTATION: u64 = 0;
const COMMUNICATION: u64 = 1;
const SYNC: u64 = 2;
const MARKER: u64 = 3;

/// A file of messages.
pub struct Messages {
    file: Packed,
    is_plain: bool,
    has_quirks: bool,
    /// Events, with their pointers not yet filled in.
    events: Vec<u64>,
    /// The lists to which events point.
    lists: Vec<u64>,
    /// Pointers in events: their index in `events`, the index of the target in `lists`, and the upper half.
    pointers: Vec<(usize, usize, u64)>,
}

impl Messages {
    /// Creates the file of a thread.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create(options: &Options, pool: &Arc<Pool>, thread: u64) -> Result<Messages> {
        let is_plain = options.aggregation <= 1;
        let form = if is_plain { "uncompressed" } else { "compressed" };
        let name = format!("sigil.events.out-{thread}.{form}.capn.bin.gz");
        Ok(Messages {
            file: Packed::create(&options.out, pool, &name)?,
            is_plain,
            has_quirks: options.has_quirks,
            events: Vec::new(),
            lists: Vec::new(),
            pointers: Vec::new(),
        })
    }

    /// Words of data, and of pointers, per event.
    fn shape(&self) -> (usize, usize) {
        if self.is_plain { (4, 1) } else { (2, 2) }
    }

    /// Reduces a count to 16 bits.
    fn count(&self, count: u64) -> u64 {
        // QUIRK: Prism's back end truncates counts; otherwise, they saturate, which is closer.
        if self.has_quirks { count & 0xffff } else { count.min(0xffff) }
    }

    /// Adds an event; `first` is its first word.
    fn event(&mut self, first: u64, tag: u64, rest: [u64; 2], lists: &[(usize, u64)]) -> Result<()> {
        let (data, pointers) = self.shape();
        let at = self.events.len();
        self.events.push(first);
        if self.is_plain {
            self.events.extend_from_slice(&rest);
        }
        self.events.push(tag);
        for (index, (list, upper)) in lists.iter().enumerate() {
            if *upper != 0 {
                self.pointers.push((at + data + index, *list, *upper));
            }
        }
        self.events.resize(at + data + pointers, 0);
        let limit = if self.is_plain { PLAIN_EVENTS } else { AGGREGATED_EVENTS };
        if self.events.len() >= limit * (data + pointers) { self.message() } else { Ok(()) }
    }

    /// Adds a list of ranges; the pointer is null if the list is empty.
    fn ranges(&mut self, ranges: &Ranges) -> (usize, u64) {
        let (at, count) = (self.lists.len(), ranges.iter().len() as u64);
        if count == 0 {
            return (at, 0);
        }
        self.lists.push(structure(count, 2, 0));
        for Range { start, end } in ranges.iter() {
            self.lists.extend_from_slice(&[start, end]);
        }
        (at, (count * 2) << 3 | STRUCTURES)
    }

    /// Writes the events as a message.
    fn message(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        let (data, pointers) = self.shape();
        let words = self.events.len();
        for &(at, list, upper) in &self.pointers {
            let offset = (words - at - 1 + list) as u64;
            self.events[at] = upper << 32 | offset << 2 | 1;
        }
        let count = (words / (data + pointers)) as u64;
        let len = HEAD_WORDS + words + self.lists.len();
        let mut packer = Packer::default();
        // The segment table: one segment, and its length.
        packer.word((len as u64) << 32);
        packer.word(structure(0, 0, 1));
        packer.word(((words as u64) << 3 | STRUCTURES) << 32 | 1);
        packer.word(structure(count, data as u64, pointers as u64));
        self.events.iter().chain(&self.lists).for_each(|word| packer.word(*word));
        self.file.write(&packer.finish())?;
        self.events.clear();
        self.lists.clear();
        self.pointers.clear();
        Ok(())
    }
}

/// A pointer to a structure, or the tag of a list of structures.
fn structure(offset: u64, data: u64, pointers: u64) -> u64 {
    offset << 2 | data << 32 | pointers << 48
}

impl Log for Messages {
    fn compute(&mut self, _: u64, of: &Computation<'_>) -> Result<()> {
        let counts = [of.iops, of.flops, of.writes, of.reads];
        let first = counts.iter().rev().fold(0, |word, count| word << 16 | self.count(*count));
        let written = self.ranges(of.written);
        // QUIRK: Prism's back end writes the written ranges in place of the read ones.
        let read = if self.has_quirks { self.ranges(of.written) } else { self.ranges(of.read) };
        self.event(first, COMPUTATION, [0; 2], &[written, read])
    }

    fn communicate(&mut self, _: u64, edges: &[Edge]) -> Result<()> {
        let at = self.lists.len();
        let count = edges.len() as u64;
        self.lists.push(structure(count, 1, 1));
        let first = self.lists.len();
        self.lists.resize(first + 2 * edges.len(), 0);
        for (index, edge) in edges.iter().enumerate() {
            let (list, upper) = self.ranges(&edge.ranges);
            let pointer = first + 2 * index + 1;
            self.lists[pointer - 1] = edge.writer & 0xffff | u64::from(edge.event) << 32;
            self.lists[pointer] = upper << 32 | ((list - pointer - 1) as u64) << 2 | 1;
        }
        self.event(0, COMMUNICATION, [0; 2], &[(at, (count * 2) << 3 | STRUCTURES)])
    }

    fn plain(&mut self, _: u64, iops: u64, flops: u64, access: Access) -> Result<()> {
        let (kind, range) = match access {
            Access::None => (0, [0; 2]),
            Access::Read(range) => (1, [range.start, range.end]),
            Access::Write(range) => (2, [range.start, range.end]),
        };
        self.event(kind << 32 | self.count(flops) << 16 | self.count(iops), COMPUTATION, range, &[])
    }

    fn plain_edge(&mut self, _: u64, writer: u64, written: u32, range: Range) -> Result<()> {
        self.event(writer & 0xffff | u64::from(written) << 32, COMMUNICATION, [range.start, range.end], &[])
    }

    fn sync(&mut self, _: u64, event: &Sync) -> Result<()> {
        let Some(code) = message_code(event.kind) else { return Ok(()) };
        let at = self.lists.len();
        self.lists.push(event.data);
        if event.kind == sync::WAIT {
            self.lists.push(event.second.unwrap_or(0));
        }
        let count = (self.lists.len() - at) as u64;
        self.event(u64::from(code), SYNC, [0; 2], &[(at, count << 3 | WORDS)])
    }

    fn marker(&mut self, instructions: u64) -> Result<()> {
        self.event(self.count(instructions), MARKER, [0; 2], &[])
    }

    fn finish(&mut self) -> Result<()> {
        self.message()?;
        self.file.finish()
    }
}

/// Packs words in Cap'n Proto's packed encoding: a tag marks the nonzero bytes of a word.
#[derive(Default)]
struct Packer {
    out: Vec<u8>,
    /// Position of the count of the run that the last word began.
    run: Option<(usize, Run)>,
}

/// Kind of a run of words without tags of their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Zeros,
    Dense,
}

impl Packer {
    fn word(&mut self, word: u64) {
        let bytes = word.to_le_bytes();
        let zeros = bytes.iter().filter(|byte| **byte == 0).count();
        if let Some((at, run)) = self.run {
            let continues = if run == Run::Zeros { word == 0 } else { zeros < 2 };
            if continues && self.out[at] < u8::MAX {
                self.out[at] += 1;
                if run == Run::Dense {
                    self.out.extend_from_slice(&bytes);
                }
                return;
            }
            self.run = None;
        }
        let tag = bytes.iter().enumerate().fold(0, |tag, (bit, byte)| tag | u8::from(*byte != 0) << bit);
        self.out.push(tag);
        self.out.extend(bytes.iter().filter(|byte| **byte != 0));
        let run = match tag {
            0 => Run::Zeros,
            u8::MAX => Run::Dense,
            _ => return,
        };
        self.run = Some((self.out.len(), run));
        self.out.push(0);
    }

    fn finish(self) -> Vec<u8> {
        self.out
    }
}
