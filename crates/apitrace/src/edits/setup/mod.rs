//! What chosen calls need of those before them: `trim --setup`.
//!
//! Nothing is run. A first read notes what each call writes and reads of the library's state (`track`, by the rules as data in
//! `rules`); a walk back from the last call that was chosen finds what is needed (`live`). What no rule knows is kept, with
//! all that it might need; so are all calls of Direct3D that do not draw, show or ask.
//!
//! Left out are draws whose pixels nothing chosen depends on, what ends a frame, questions, values that are set again before they
//! count, and objects that are not used. Draws into textures that are used later are kept, and so are the draws since the frame
//! began if the choice begins within a frame.
//!
//! Memory grows with the state that is alive, the objects that there are, and a bit for each call of those near one that is kept;
//! not with the length of the trace.
//!
//! What is not followed: what shaders write into images and buffers, unless capturing is on; what the program reads back and
//! acts on.

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

/// The calls to keep, by their positions in the order of completion.
#[derive(Debug)]
pub struct Needed {
    bits: Bits,
    /// How many calls there are up to the last that was chosen.
    n_calls: u32,
    /// How many of them were chosen.
    n_chosen: u64,
    at: u32,
}

/// Finds what the calls need that are chosen.
///
/// # Errors
/// What reading says; `Limit` if there are more calls than are followed.
pub fn needed(trace: &ApiTrace, mut chooser: Chooser, progress: &dyn Progress) -> Result<Needed> {
    let mut tracker = Tracker::default();
    let (mut n_calls, mut n_chosen) = (0u32, 0);
    // The read that writes reports what is wrong with the trace.
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
    Ok(Needed { bits: tracker.log.needed(), n_calls, n_chosen, at: 0 })
}

impl Needed {
    /// How many calls were chosen.
    pub fn n_chosen(&self) -> u64 {
        self.n_chosen
    }

    /// How many calls are kept that were not chosen themselves.
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
}
