//! Nonsense: many events with a missing or unknown type close together are not part of the trace.
//!
//! A newer front end may have a few types that Quipu does not know, so a single event of an unknown type is kept. Damage
//! produces many of them: reading stops before an event of an unknown type if more than [`MAX_UNKNOWN`] of the [`WINDOW`]
//! events from it on have unknown types. This depends on the bytes alone, not on the boundaries of blocks and batches.
//!
//! SPEC: prism.md#nonsense

use crate::batch::Batch;
use crate::detail::Detail;
use crate::event::{Context, Event, context, control, sync};
use crate::fixed::{self, EVENT_BYTES};
use crate::variable::{Decoder, END, MAX_EVENT_BYTES};

/// Number of events that are judged together.
const WINDOW: usize = 64;
/// Maximum number of these that may have unknown types.
const MAX_UNKNOWN: usize = 8;
/// Enough bytes for this many events of the variable encoding.
const WINDOW_BYTES: usize = WINDOW * MAX_EVENT_BYTES;

/// The judgement on an event of an unknown type and the events after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Events of the trace.
    Trace,
    /// Bytes that are not events; the number of the next 64 events that would have unknown types.
    Nonsense(usize),
    /// This many bytes are needed to judge.
    More(usize),
}

/// Whether an event lacks a type that it should have, or has an unknown one.
///
/// PERF: this is called for every event, so it only compares numbers.
#[inline]
pub(crate) fn is_unknown(event: &Event) -> bool {
    match event {
        Event::Memory(memory) => memory.access == Some(0),
        Event::Sync(event) => event.kind == 0 || event.kind > sync::SPIN_UNLOCK,
        Event::Context(Context { kind, .. }) => *kind == 0 || *kind > context::OPERATOR_EXIT,
        Event::Control(event) => event.kind.is_some_and(|kind| kind == 0 || kind > control::RETURN),
        Event::Unknown(_) => true,
        Event::Compute(_) | Event::Config(_) => false,
    }
}

/// Whether a slot has an event of an unknown type, or one with an invalid name.
fn is_wrong(slot: &fixed::Slot, names: &[u8], detail: Detail, scratch: &mut Batch) -> bool {
    scratch.clear();
    fixed::event(slot, names, detail, scratch).map_or(true, |event| is_unknown(&event))
}

/// Judges the rest of a buffer of the fixed encoding that begins with an event of an unknown type. Returns the number of the
/// next events that have unknown types or invalid names, if there are too many.
#[cold]
pub(crate) fn in_slots(events: &[u8], names: &[u8], detail: Detail) -> Option<usize> {
    let mut scratch = Batch::default();
    let slots = events.as_chunks::<EVENT_BYTES>().0.iter().take(WINDOW);
    let unknown = slots.filter(|slot| is_wrong(slot, names, detail, &mut scratch));
    Some(unknown.count()).filter(|n| *n > MAX_UNKNOWN)
}

/// Number of slots of nonsense from the first slot: up to the first run of 64 valid events, or up to the end.
#[cold]
pub(crate) fn n_slots(events: &[u8], names: &[u8], detail: Detail) -> usize {
    let slots = events.as_chunks::<EVENT_BYTES>().0;
    let mut scratch = Batch::default();
    let mut first = 1;
    for (at, slot) in slots.iter().enumerate().skip(1) {
        if is_wrong(slot, names, detail, &mut scratch) {
            first = at + 1;
        } else if at + 1 - first >= WINDOW {
            break;
        }
    }
    first.min(slots.len())
}

/// Judges a stream of the variable encoding that begins with an event of an unknown type.
#[cold]
pub(crate) fn in_stream(bytes: &[u8], decoder: &Decoder, is_last: bool) -> Verdict {
    if bytes.len() < WINDOW_BYTES && !is_last {
        return Verdict::More(WINDOW_BYTES);
    }
    let (mut decoder, mut scratch) = (decoder.clone(), Batch::default());
    let (mut rest, mut n_unknown) = (bytes, 0);
    for _ in 0..WINDOW {
        if rest.first().is_none_or(|head| head >> 5 == END >> 5) {
            break;
        }
        let Ok((event, len)) = decoder.event(rest, &mut scratch) else { break };
        n_unknown += usize::from(is_unknown(&event));
        if let Event::Config(config) = event {
            decoder.configure(config);
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    if n_unknown > MAX_UNKNOWN { Verdict::Nonsense(n_unknown) } else { Verdict::Trace }
}

/// Thins out events of unknown types that are kept from damaged traces and written without a stream: keeps at most 8 of 64,
/// so that readers do not take them for nonsense.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sparse {
    /// For each of the events before the next one, whether its type is unknown; the last event is the lowest bit.
    before: u64,
    pub(crate) n_left_out: u64,
}

impl Sparse {
    pub(crate) fn takes(&mut self, event: &Event) -> bool {
        // Together with the next event, these are the window.
        const OTHERS: u64 = (1 << (WINDOW - 1)) - 1;
        let is_unknown = is_unknown(event);
        if is_unknown && (self.before & OTHERS).count_ones() as usize >= MAX_UNKNOWN {
            self.n_left_out += 1;
            return false;
        }
        self.before = self.before << 1 | u64::from(is_unknown);
        true
    }
}

/// The text of the finding.
pub(crate) fn sentence(n_unknown: usize) -> String {
    format!("`{n_unknown}` of the next `{WINDOW}` events are of unknown types")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Sync;

    /// If one of eight events is unknown, all are kept; if two of three are, at most eight of 64.
    #[test]
    fn no_window_of_what_is_taken_has_more_than_eight_of_unknown_types() {
        let event = |kind: u8| Event::Sync(Sync { kind, data: 7, second: None });
        let (known, unknown) = (event(sync::SWAP), event(31));
        let mut sparse = Sparse::default();
        for nth in 0..1000 {
            assert!(sparse.takes(if nth % 8 == 0 { &unknown } else { &known }), "{nth}");
        }
        let mut sparse = Sparse::default();
        let taken: Vec<bool> = (0..1000)
            .filter_map(|nth| {
                let event = if nth % 3 == 0 { &known } else { &unknown };
                sparse.takes(event).then(|| is_unknown(event))
            })
            .collect();
        let most = taken.windows(WINDOW).map(|window| window.iter().filter(|is| **is).count()).max();
        assert_eq!(most, Some(MAX_UNKNOWN));
        assert_eq!(sparse.n_left_out as usize + taken.len(), 1000);
    }
}
