//! The state that an event depends on: its thread, its fields, and the current instruction.
//!
//! Headers of frames have this state, so that reading can continue at any frame, however much is lost before it.
//!
//! SPEC: prism.md#files

use crate::detail::Detail;
use crate::event::{Context, Event, Place, context, sync};
use crate::fixed::{CONTEXT, EVENT_BYTES, SYNC, Slot};

/// Size in the header of a frame, in bytes.
const BYTES: usize = 24;
/// Offset of the flags.
const FLAGS: usize = 5;
/// Flag: the thread is known.
const HAS_THREAD: u8 = 1;

/// Flag: the fields stay as they were.
const KEEPS_FIELDS: u8 = 2;

/// The state before an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Here {
    pub(crate) thread: Option<u64>,
    pub(crate) detail: Detail,
    pub(crate) pc: u64,
}

impl Default for Here {
    fn default() -> Here {
        Here { thread: None, detail: Detail::NONE, pc: 0 }
    }
}

impl Here {
    /// Updates the state for an event, except for fields, which encoders keep.
    #[inline]
    pub(crate) fn pass(&mut self, event: &Event) {
        match event {
            Event::Sync(event) if event.kind == sync::SWAP => self.thread = Some(event.data),
            Event::Context(Context { kind: context::INSTRUCTION, place: Place::Address(pc) }) => {
                self.pc = *pc;
            }
            _ => {}
        }
    }

    /// Updates the state for the events of a buffer of the fixed encoding.
    pub(crate) fn pass_slots(&mut self, events: &[u8]) {
        let slots = || events.as_chunks::<EVENT_BYTES>().0.iter().rev();
        let at = |slot: &Slot| u64::from_le_bytes(slot[2..].first_chunk().copied().unwrap_or_default());
        let last = |tag: u8, kind: u8| slots().find(|slot| slot[..2] == [tag, kind]).map(at);
        self.thread = last(SYNC, sync::SWAP).or(self.thread);
        self.pc = last(CONTEXT, context::INSTRUCTION).unwrap_or(self.pc);
    }

    /// The form in the header of a frame.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let Detail { memory, compute, control, sync, context } = self.detail;
        let flags = if self.thread.is_some() { HAS_THREAD } else { 0 };
        let mut all = vec![memory, compute, control, sync, context, flags, 0, 0];
        all.extend_from_slice(&self.thread.unwrap_or(0).to_le_bytes());
        all.extend_from_slice(&self.pc.to_le_bytes());
        all
    }

    /// The form in the header of a frame whose fields stay as they were.
    pub(crate) fn to_bytes_without_fields(self) -> Vec<u8> {
        let mut all = self.to_bytes();
        all[FLAGS] |= KEEPS_FIELDS;
        all
    }

    /// Whether the bytes say that fields stay as they were.
    pub(crate) fn keeps_fields(bytes: &[u8]) -> bool {
        bytes.get(FLAGS).is_some_and(|flags| flags & KEEPS_FIELDS != 0)
    }

    /// Reads the state; `None` if there are too few bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Here> {
        let [memory, compute, control, sync, context, flags, ..] = *bytes.first_chunk::<BYTES>()?;
        let word = |at: usize| bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied();
        Some(Here {
            thread: Some(u64::from_le_bytes(word(8)?)).filter(|_| flags & HAS_THREAD != 0),
            detail: Detail { memory, compute, control, sync, context },
            pc: u64::from_le_bytes(word(16)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let detail = Detail { sync: 1, context: 7, ..Detail::ALL };
        let here = Here { thread: Some(0), detail, pc: u64::MAX };
        for here in [here, Here::default()] {
            assert_eq!(Here::read(&here.to_bytes()), Some(here));
        }
        assert_eq!(Here::read(&here.to_bytes()[1..]), None);
    }

    #[test]
    fn the_last_swap_and_instruction_of_a_buffer_hold_after_it() {
        let slot = |tag: u8, kind: u8, value: u64| {
            let mut slot = [0xee; EVENT_BYTES];
            slot[..2].copy_from_slice(&[tag, kind]);
            slot[2..10].copy_from_slice(&value.to_le_bytes());
            slot
        };
        let mut here = Here::default();
        here.pass_slots(
            &[slot(5, 5, 1), slot(5, 5, 2), slot(4, 1, 9), slot(5, 6, 3), slot(4, 3, 4)].concat(),
        );
        assert_eq!((here.thread, here.pc), (Some(2), 9));
        here.pass_slots(&slot(1, 5, 3));
        assert_eq!((here.thread, here.pc), (Some(2), 9));
    }
}
