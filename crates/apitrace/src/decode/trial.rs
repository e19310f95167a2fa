//! Whether events stand at some place behind a gap, and which numbers their calls have.
//!
//! Entering a call does not tell its number, leaving it does. No call is left before it is entered, so each that is left is
//! a lower bound of the number of the first that was entered here. The bound is exact if it is the call entered last, as
//! nearly always with one thread and often with several, so that the greatest bound of many is the number.

use super::{Decoder, nobody};
use crate::cursor::{Cursor, Stop};
use crate::record::{EVENT_ENTER, EVENT_LEAVE};
use quipu_model::values::{Types, Values};
use std::cmp::Ordering;
use std::ops::Range;

/// So many events in a row are no accident.
const RUN_EVENTS: u32 = 12;
/// So many are looked at for their numbers.
const MAX_EVENTS: u32 = 256;

/// A run of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The number of the first call that it enters.
    pub(crate) number: u64,
    /// How many signatures had to be made up for it.
    n_lost: u64,
    /// Where its first event ends.
    end_of_first: usize,
}

/// What calls that are left tell of the number of the first that was entered.
#[derive(Default)]
struct Numbers {
    left: Vec<u64>,
    first: Option<u64>,
    /// So many of `left` say that.
    n_agreed: u32,
}

impl Decoder {
    /// Where the first run of events begins among the first `n_looked` bytes. Nothing is changed.
    ///
    /// Bytes in the middle of an event may read as one that takes in those behind it, with signatures of its own that
    /// nobody knows. So a run that needs such gives way to one within its first event that needs fewer.
    pub(crate) fn find_run(
        &mut self,
        input: &[u8],
        n_looked: usize,
        types: &mut Types,
        is_all: bool,
    ) -> Option<(usize, Run)> {
        let mut first_in = |range: Range<usize>, most_lost: u64| {
            let mut starts = range.filter(|at| input.get(*at).is_some_and(|byte| *byte <= EVENT_LEAVE));
            starts.find_map(|at| {
                let run = self.trial(input, at, types, is_all)?;
                (run.n_lost <= most_lost).then_some((at, run))
            })
        };
        let mut best = first_in(0..n_looked, u64::MAX)?;
        let end = best.1.end_of_first;
        while let Some(most_lost) = best.1.n_lost.checked_sub(1)
            && let Some(better) = first_in(best.0 + 1..end, most_lost)
        {
            best = better;
        }
        Some(best)
    }

    /// Whether a run of events stands at `at`, as far as one can tell: some in a row can be read, and the numbers of those that
    /// leave calls agree with each other and lie behind all that is known. Nothing is changed.
    fn trial(&mut self, input: &[u8], at: usize, types: &mut Types, is_all: bool) -> Option<Run> {
        let (next_call, n_lost_before, n_types) = (self.next_call, self.signatures.n_lost(), types.len());
        let mut out = Values::default();
        let mut cursor = Cursor::new(input, at);
        let (mut n_events, mut n_enters, mut end_of_first) = (0, 0, at);
        let mut numbers = Numbers::default();
        let is_run = loop {
            let read = match cursor.byte() {
                Ok(EVENT_ENTER) => self.enter(&mut cursor, &mut out, types).map(|_| {
                    n_enters += 1;
                    true
                }),
                Ok(EVENT_LEAVE) => cursor.uint().and_then(|number| {
                    self.details(&mut cursor, &mut nobody(number), &mut out, types)?;
                    Ok(numbers.can_leave(number, n_enters))
                }),
                Ok(_) => Ok(false),
                Err(stop) => Err(stop),
            };
            match read {
                Ok(true) => {
                    n_events += 1;
                    if n_events == 1 {
                        end_of_first = cursor.at();
                    }
                }
                // The last events of a stream may be few.
                Err(Stop::More(_)) if is_all => break !numbers.left.is_empty(),
                Ok(false) | Err(_) => break n_events >= RUN_EVENTS && numbers.agree(),
            }
            if n_events == RUN_EVENTS && numbers.left.len() < RUN_EVENTS as usize / 4 {
                break false;
            }
            if n_events == MAX_EVENTS {
                break numbers.agree();
            }
        };
        self.next_call = next_call;
        types.truncate(n_types);
        let n_lost = self.signatures.n_lost() - n_lost_before;
        self.signatures.forget();
        let number = numbers.first.filter(|first| is_run && *first >= next_call)?;
        Some(Run { number, n_lost, end_of_first })
    }
}

impl Numbers {
    /// Takes note of a call that is left when so many were entered; false if it was left before.
    fn can_leave(&mut self, number: u64, n_enters: u64) -> bool {
        if self.left.contains(&number) {
            return false;
        }
        self.left.push(number);
        if n_enters > 0 {
            let least = number.saturating_sub(n_enters - 1);
            match self.first.cmp(&Some(least)) {
                Ordering::Less => (self.first, self.n_agreed) = (Some(least), 1),
                Ordering::Equal => self.n_agreed += 1,
                Ordering::Greater => {}
            }
        }
        true
    }

    fn agree(&self) -> bool {
        self.n_agreed > 1
    }
}
