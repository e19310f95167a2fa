//! Reads the chunks of one producer from a private copy: any content gives either events or an error.

use super::fault::Wrong;
use crate::batch::Batch;
use crate::detail::Detail;
use crate::fault::{Error, Fault};
use crate::hooks::Sink;
use crate::unknown::Unknown;
use crate::{fixed, variable};
use quipu_ring::prism::{CHUNK_HEAD_WORDS, ChunkHead, Encoding, FLAG_CLOCKS, KIND_EVENTS};
use quipu_ring::{BadGroup, BadName};

/// Looks up names in the shared heap.
pub(super) trait Names {
    /// Appends the name with this number to `out`.
    fn name(&mut self, number: u32, out: &mut Vec<u8>) -> Result<Result<(), BadName>, Error>;
}

/// Reason why a chunk was not delivered completely.
#[derive(Debug)]
pub(super) enum Stop {
    /// The producer violated the protocol.
    Producer(Wrong),
    /// The run has to end.
    Run(Error),
}

impl From<Wrong> for Stop {
    fn from(wrong: Wrong) -> Stop {
        Stop::Producer(wrong)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Producer(Wrong::Event(fault))
    }
}

#[derive(Debug)]
enum Decoder {
    Fixed(fixed::Decoder),
    Variable(variable::Decoder),
}

/// Reads the chunks of one producer.
#[derive(Debug)]
pub(super) struct Chunks {
    decoder: Decoder,
    /// Events with the names of the heap inserted.
    events: Vec<u8>,
    names: Vec<u8>,
    n_events: u64,
    n_unknown: u64,
}

/// The parts of a chunk.
struct Parts<'a> {
    head: ChunkHead,
    events: &'a [u8],
    names: &'a [u8],
    references: &'a [u64],
    clocks: &'a [u64],
}

impl<'a> Parts<'a> {
    fn of(words: &'a [u64]) -> Result<Parts<'a>, Wrong> {
        let [first, second, ..] = words else { return Err(length(0, words)) };
        let head = ChunkHead::unpack(*first, *second);
        if head.kind != KIND_EVENTS {
            return Err(Wrong::UnknownChunk(head.kind));
        }
        // The parts add up to the length, so none ends after it.
        if head.n_words() != words.len() {
            return Err(length(head.n_words(), words));
        }
        let (event_bytes, name_bytes) = (head.event_bytes as usize, usize::from(head.name_bytes));
        let rest = &words[CHUNK_HEAD_WORDS..];
        let (events, rest) = rest.split_at(event_bytes.div_ceil(8));
        let (names, rest) = rest.split_at(name_bytes.div_ceil(8));
        let (references, clocks) = rest.split_at(usize::from(head.n_references));
        let events = &bytemuck::cast_slice::<u64, u8>(events)[..event_bytes];
        let names = &bytemuck::cast_slice::<u64, u8>(names)[..name_bytes];
        Ok(Parts { head, events, names, references, clocks })
    }
}

fn length(announced: usize, words: &[u64]) -> Wrong {
    Wrong::ChunkLength { announced: announced as u64, found: words.len() as u64 }
}

impl Chunks {
    /// Reads a producer whose events have these fields and belong to `thread` until a swap changes that.
    pub(super) fn new(encoding: Encoding, detail: Detail, thread: u64) -> Chunks {
        let decoder = match encoding {
            Encoding::Fixed => Decoder::Fixed(fixed::Decoder::new(detail).of_thread(thread)),
            Encoding::Variable => {
                let decoder = variable::Decoder::new(detail, variable::Dialect::Strict);
                Decoder::Variable(decoder.of_thread(thread))
            }
        };
        Chunks { decoder, events: Vec::new(), names: Vec::new(), n_events: 0, n_unknown: 0 }
    }

    /// Number of events delivered so far.
    pub(super) fn n_events(&self) -> u64 {
        self.n_events
    }

    /// Number of delivered events with an undefined type.
    pub(super) fn n_unknown(&self) -> u64 {
        self.n_unknown
    }

    /// Delivers a chunk, in batches.
    pub(super) fn deliver(
        &mut self,
        words: &[u64],
        heap: &mut dyn Names,
        batch: &mut Batch,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        // The producer may have changed the length in the head since the chunk was copied.
        if words.first().is_some_and(|first| (first & 0xffff) + 1 != words.len() as u64) {
            let (n_words, n_published) = ((words[0] & 0xffff) + 1, words.len() as u64);
            return Err(Wrong::Group(BadGroup::Length { n_words, n_published }).into());
        }
        let parts = Parts::of(words)?;
        let clocks = (parts.head.flags & FLAG_CLOCKS != 0).then_some(parts.clocks);
        let n_before = self.n_events;
        if parts.references.is_empty() {
            self.decode(parts.events, parts.names, clocks, batch, sink)?;
        } else {
            let (mut events, mut names) = (std::mem::take(&mut self.events), std::mem::take(&mut self.names));
            events.clear();
            names.clear();
            let done = match self.decoder {
                Decoder::Fixed(_) => put_fixed(&parts, heap, &mut events, &mut names),
                Decoder::Variable(_) => put_variable(&parts, heap, &mut events),
            };
            let done = done.and_then(|()| self.decode(&events, &names, clocks, batch, sink));
            (self.events, self.names) = (events, names);
            done?;
        }
        let (announced, found) = (parts.head.n_events, self.n_events - n_before);
        if u64::from(announced) != found {
            return Err(Wrong::EventCount { announced, found }.into());
        }
        Ok(())
    }

    fn decode(
        &mut self,
        mut events: &[u8],
        names: &[u8],
        clocks: Option<&[u64]>,
        batch: &mut Batch,
        sink: &mut dyn Sink,
    ) -> Result<(), Stop> {
        let mut n_taken = 0;
        while !events.is_empty() {
            let used = match &mut self.decoder {
                Decoder::Fixed(decoder) => decoder.decode(events, names, batch)? * fixed::EVENT_BYTES,
                // In a buffer, an end mark means that the rest is undefined. A chunk states its length, so there is no rest.
                Decoder::Variable(decoder) => decoder.decode(events, batch)?.used,
            };
            events = &events[used..];
            let n = batch.events.len();
            if let Some(readings) = clocks.and_then(|clocks| clocks.get(n_taken..n_taken + n)) {
                batch.clocks.extend_from_slice(readings);
            }
            n_taken += n;
            if n > 0 {
                self.n_events += n as u64;
                let unknown = batch.events.iter().filter(|event| Unknown::of(event).is_some());
                self.n_unknown += unknown.count() as u64;
                sink.take(batch).map_err(Stop::Run)?;
            }
        }
        Ok(())
    }
}

/// Copies events of the fixed encoding, and appends names of the heap to their names.
fn put_fixed(
    parts: &Parts<'_>,
    heap: &mut dyn Names,
    events: &mut Vec<u8>,
    names: &mut Vec<u8>,
) -> Result<(), Stop> {
    /// The tag of context events.
    const CONTEXT: u8 = 4;
    events.extend_from_slice(parts.events);
    names.extend_from_slice(parts.names);
    for reference in parts.references {
        let (at, number) = ((reference >> 32) as u32, *reference as u32);
        let slot = events.get_mut(at as usize..).and_then(|events| events.get_mut(..fixed::EVENT_BYTES));
        let is_start = (at as usize).is_multiple_of(fixed::EVENT_BYTES);
        let Some(slot) = slot.filter(|slot| is_start && slot[0] == CONTEXT) else {
            return Err(Wrong::Reference { at }.into());
        };
        let start = names.len();
        name(heap, number, names)?;
        names.push(0);
        slot[2..6].copy_from_slice(&(start as u32).to_le_bytes()); // At most 65,535 names of 4095 bytes.
        slot[6..10].copy_from_slice(&((names.len() - start) as u32).to_le_bytes());
    }
    Ok(())
}

/// Copies events of the variable encoding, with the names of the heap inserted.
fn put_variable(parts: &Parts<'_>, heap: &mut dyn Names, events: &mut Vec<u8>) -> Result<(), Stop> {
    /// Placeholder for a name: its length minus one, and a byte.
    const STAND_IN: [u8; 2] = [0, 0];
    let mut used = 0;
    for reference in parts.references {
        let (at, number) = ((reference >> 32) as u32, *reference as u32);
        let wrong = Wrong::Reference { at };
        let context = at as usize;
        let before = parts.events.get(used..=context).ok_or(wrong.clone())?;
        if parts.events.get(context + 1..context + 3) != Some(&STAND_IN) || parts.events[context] >> 5 != 3 {
            return Err(wrong.into());
        }
        events.extend_from_slice(before);
        let len_at = events.len();
        events.push(0);
        name(heap, number, events)?;
        let len = events.len() - len_at - 1;
        events[len_at] = len.checked_sub(1).and_then(|last| u8::try_from(last).ok()).ok_or(wrong)?;
        used = context + 3;
    }
    events.extend_from_slice(&parts.events[used..]);
    Ok(())
}

fn name(heap: &mut dyn Names, number: u32, out: &mut Vec<u8>) -> Result<(), Stop> {
    let found = heap.name(number, out).map_err(Stop::Run)?;
    found.map_err(|why| Wrong::Name { number, why }.into())
}
