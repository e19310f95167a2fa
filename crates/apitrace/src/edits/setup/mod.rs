//! `trim --setup`: finds the earlier calls that chosen calls depend on.
//!
//! No call is executed. A first read notes which parts of the library's state each call writes and reads (`track`, by the
//! rules as data in `rules`); a walk back from the last chosen call finds the calls that are needed (`live`). Calls that no
//! rule knows are kept, with everything that they might need; so are all Direct3D calls except draws, presents and queries.
//!
//! Dropped are draws whose pixels no chosen call depends on, ends of frames, queries, values that are overwritten before they
//! are used, and unused objects. Draws into textures that are used later are kept. If the selection begins within a frame,
//! the draws since the beginning of that frame are kept too.
//!
//! Memory grows with the live state, the number of objects, and one bit for each call near a kept one; not with the length of
//! the trace.
//!
//! Not tracked: writes of shaders into images and buffers, unless transform feedback is active; and data that the program
//! reads back and acts on.

mod args;
mod bits;
mod live;
mod parts;
mod rules;
mod state;
mod things;
mod track;

use super::trim::Chooser;
use super::{CallEdit, Step, each_call};
use crate::trace::ApiTrace;
pub use bits::Bits;
use quipu_model::transform::Progress;
use quipu_model::values::{Types, Values};
use quipu_model::{Error, Result};
use track::Tracker;

/// The calls to keep, as indexes in the order of completion.
#[derive(Debug)]
pub struct Needed {
    bits: Bits,
    /// Number of calls up to the last chosen one.
    n_calls: u32,
    /// Number of chosen calls.
    n_chosen: u64,
    at: u32,
    /// The error if no call was chosen.
    refusal: Option<Error>,
}

/// Finds the calls that the chosen calls depend on.
///
/// # Errors
/// Errors of reading; `Limit` if there are too many calls to follow.
pub fn needed(trace: &ApiTrace, mut chooser: Chooser, progress: &dyn Progress) -> Result<Needed> {
    let mut tracker = Tracker::default();
    let (mut n_calls, mut n_chosen) = (0u32, 0);
    // Findings are ignored here; the read that writes the trace reports them.
    let read = each_call(trace, progress, None, &mut |at, values, types| {
        let call = &values.calls[at];
        let step = chooser.next(call);
        if step == Step::End {
            return Ok(false);
        }
        tracker.call(call, values, types, step == Step::Keep);
        n_chosen += u64::from(step == Step::Keep);
        n_calls = n_calls
            .checked_add(1)
            .ok_or_else(|| Error::limit("calls to follow", u64::from(u32::MAX) + 1, u32::MAX.into()))?;
        Ok(true)
    });
    match read {
        Err(error) if !error.is_damage() || n_calls == u32::MAX => return Err(error),
        _ => {}
    }
    let refusal = chooser.refuse_nothing();
    Ok(Needed { bits: tracker.log.needed(), n_calls, n_chosen, at: 0, refusal })
}

impl Needed {
    /// Number of calls kept that were not chosen themselves.
    pub fn n_setup(&self) -> u64 {
        (0..self.n_calls).filter(|at| self.bits.get(*at)).count() as u64 - self.n_chosen
    }
}

impl CallEdit for Needed {
    fn step(&mut self, _: usize, _: &mut Values, _: &Types) -> Result<Step> {
        if self.at == self.n_calls {
            return Ok(Step::End);
        }
        self.at += 1;
        Ok(if self.bits.get(self.at - 1) { Step::Keep } else { Step::Drop })
    }

    fn refuse_nothing(&mut self) -> Option<Error> {
        self.refusal.take()
    }
}
