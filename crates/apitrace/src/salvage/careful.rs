//! A decoder that rejects dubious events: anything new after damage must be confirmed by later events.
//!
//! `decode::trial` defines how that is judged.

use crate::cursor::{Cursor, Decoded, Fault, Stop};
use crate::decode::trial::Evidence;
use crate::decode::{Decoder, Event};
use crate::feed::Machine;
use crate::record::{EVENT_ENTER, EVENT_LEAVE};
use quipu_model::ErrorKind;
use quipu_model::values::{Types, Values};

/// A decoder with its outputs, and with the facts known about the stream.
pub(super) struct Careful<'a> {
    pub(super) decoder: &'a mut Decoder,
    pub(super) out: &'a mut Values,
    pub(super) types: &'a mut Types,
    pub(super) evidence: &'a mut Evidence,
}

impl Careful<'_> {
    /// Notes a call that was left. If it was entered last, the numbers up to it are certain.
    #[inline]
    fn note(&mut self) {
        let Some(call) = self.out.calls.last() else { return };
        if call.number + 1 == self.decoder.n_entered() {
            self.evidence.sure = call.number + 1;
        }
        if !self.evidence.threads.contains(&call.thread) {
            self.evidence.threads.push(call.thread);
        }
    }

    /// Refuses an event that contradicts others, or contains something new that nothing confirms.
    fn doubt(&mut self, input: &[u8], at: usize) -> Decoded<()> {
        let bad =
            |message: String| Err(Stop::Bad(Box::new(Fault { kind: ErrorKind::Malformed, at, message })));
        let mut cursor = Cursor::new(input, at);
        match cursor.byte()? {
            EVENT_LEAVE => {
                let number = cursor.uint()?;
                let is_wrong = self.evidence.since.is_some_and(|since| number >= since);
                if is_wrong && !self.decoder.is_open(number) {
                    return bad(format!("call `{number}` is left, which was not entered"));
                }
            }
            EVENT_ENTER => {}
            _ => return Ok(()),
        }
        if !self.decoder.is_doubtful(input, at, self.types, self.evidence)? {
            return Ok(());
        }
        // Before any damage, what looks odd was recorded like that.
        let is_right = match self.evidence.since {
            Some(_) => self.decoder.is_borne_out(input, at, self.types, self.evidence),
            None => !self.decoder.leads_to_damage(input, at, self.types),
        };
        if is_right {
            return Ok(());
        }
        bad("nothing bears out that an event stands here".to_owned())
    }
}

impl Machine for Careful<'_> {
    type Out = Event;

    fn event(&mut self, input: &[u8], at: usize) -> Decoded<(Event, usize)> {
        self.doubt(input, at)?;
        let (event, next) = self.decoder.event(input, at, self.out, self.types)?;
        if event == Event::Left {
            self.note();
        }
        Ok((event, next))
    }

    #[inline(always)]
    fn common(&mut self, input: &[u8], at: usize) -> Option<(Event, usize)> {
        if self.decoder.is_strange(input, at, self.evidence) {
            return None;
        }
        let next = self.decoder.common(input, at, self.out)?;
        self.note();
        Some((Event::Left, next))
    }

    fn n_entered(&self) -> u64 {
        self.decoder.n_entered()
    }
}
