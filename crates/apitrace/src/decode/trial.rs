//! Decides whether events stand at some place after a gap, and which numbers their calls have.
//!
//! The event that enters a call does not contain its number; the event that leaves it does. No call is left before it is
//! entered, so each call that is left gives a lower bound for the number of the first call entered here. The bound is exact
//! if the call was entered last, as nearly always with one thread and often with several, so the greatest of many bounds is
//! the number.
//!
//! Damaged bytes may read as events too. Anything new in such events (functions and other types, a thread) is accepted only
//! where the call is *borne out*: it is left under the number that it must have. The same holds for the first call of a run,
//! since bytes before the run may read as another call.

use super::{Decoder, nobody};
use crate::cursor::{Cursor, Stop};
use crate::decode::Decoded;
use crate::record::{EVENT_ENTER, EVENT_LEAVE, VERSION_THREADS};
use quipu_model::values::{Types, Values};
use std::cmp::Ordering;
use std::ops::Range;

/// A run of this many events is not accidental.
const RUN_EVENTS: u32 = 12;
/// At most this many events are examined for their numbers.
const MAX_EVENTS: u32 = 256;
/// At most this many if they contain something new.
const MAX_DOUBTED_EVENTS: u32 = 1024;
/// At least one in this many calls that are left must confirm the number of the first.
const LEFT_FOR_AGREED: usize = 8;

/// An event, as far as it says something about the numbers of calls.
pub(crate) enum Numbered {
    /// It enters a call.
    Entered,
    /// It leaves a call.
    Left {
        /// The number of the call.
        number: u64,
        /// One more than the greatest number of an entered call.
        n_entered: u64,
    },
    /// It is not an event.
    Nothing,
}

/// True if the first call that the events of `next` enter and leave has another number than it would get if numbers began at
/// `next_call`; also true if `next` runs into something that is not an event.
pub(crate) fn is_misnumbered(next_call: u64, next: &mut dyn FnMut() -> Decoded<Numbered>) -> bool {
    let told = (0..MAX_EVENTS).map(|_| next()).find_map(|read| match read {
        Ok(Numbered::Left { number, n_entered }) if number >= next_call => Some(number >= n_entered),
        Ok(Numbered::Entered | Numbered::Left { .. }) => None,
        Ok(Numbered::Nothing) | Err(Stop::Bad(_)) => Some(true),
        Err(Stop::More(_)) => Some(false),
    });
    told == Some(true)
}

/// Facts about a stream, for judging whether bytes after damage are events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Threads that made calls.
    pub(crate) threads: Vec<u64>,
    /// Calls with smaller numbers are known to be numbered correctly.
    pub(crate) sure: u64,
    /// The first call of the current run of events, if there was damage before it.
    pub(crate) since: Option<u64>,
}

impl Evidence {
    fn has_met(&self, thread: u64) -> bool {
        self.threads.contains(&thread)
    }
}

/// A run of events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The number of the first call that it enters.
    pub(crate) number: u64,
    /// Number of placeholder signatures that it needs.
    n_lost: u64,
    /// Offset of the end of its first event.
    end_of_first: usize,
    /// True if the first event enters a call of a new function or thread, without a signature.
    begins_anew: bool,
}

/// The number of the first call entered, as deduced from calls that are left.
#[derive(Default)]
struct Numbers {
    left: Vec<u64>,
    first: Option<u64>,
    /// Number of calls in `left` that agree on `first`.
    n_agreed: u32,
}

/// An event that contains something new.
enum Doubtful {
    /// It enters a call, counted from the first of the run.
    Enters(u64),
    /// It leaves the call with this number.
    Leaves(u64),
}

impl Decoder {
    /// From now on, requires evidence for signatures that look odd.
    pub(crate) fn be_wary(&mut self) {
        self.signatures.be_wary();
    }

    /// Of the open calls whose numbers are not certain, keeps the first of each known thread; returns the number of calls
    /// dropped. New numbers begin after the calls that are kept.
    pub(crate) fn forget_inner(&mut self, evidence: &Evidence) -> u64 {
        let sure = evidence.sure;
        let is_strange = |thread| !evidence.threads.is_empty() && !evidence.has_met(thread);
        let n_strange = self.pending.forget(|call| call.number >= sure && is_strange(call.thread));
        let n_forgotten = n_strange + self.pending.forget_inner(sure);
        self.next_call = self.pending.end().map_or(sure, |end| end.max(sure));
        n_forgotten
    }

    /// Drops open calls numbered `first` or later, because other calls have these numbers; returns how many.
    pub(crate) fn forget_from(&mut self, first: u64) -> u64 {
        self.pending.forget(|call| call.number >= first)
    }

    /// True if the call with this number is open.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.pending.has(number)
    }

    /// True if the event at `at` enters a call of a new thread, or a call within an open one of its thread: then the event
    /// must be borne out.
    #[inline]
    pub(crate) fn is_strange(&self, input: &[u8], at: usize, evidence: &Evidence) -> bool {
        let Some(since) = evidence.since else { return false };
        let thread = match self.version {
            VERSION_THREADS.. => Cursor::new(input, at + 1).uint().unwrap_or(0),
            _ => 0,
        };
        !evidence.has_met(thread) || self.pending.has_thread(thread, since)
    }

    /// True if the event at `at` must be borne out: it contains an odd-looking signature (after a gap, any signature),
    /// belongs to a new thread, or enters a call within another one of its thread. Does not change the state.
    ///
    /// # Errors
    /// If the event is incomplete or malformed.
    pub(crate) fn is_doubtful(
        &mut self,
        input: &[u8],
        at: usize,
        types: &mut Types,
        evidence: &Evidence,
    ) -> Decoded<bool> {
        let (next_call, n_types) = (self.next_call, types.len());
        let mut cursor = Cursor::new(input, at);
        let mut out = Values::default();
        let read = match cursor.byte() {
            Ok(EVENT_ENTER) => {
                self.enter(&mut cursor, &mut out, types).map(|_| self.is_strange(input, at, evidence))
            }
            Ok(_) => cursor
                .uint()
                .and_then(|number| self.details(&mut cursor, &mut nobody(number), &mut out, types))
                .map(|()| false),
            Err(stop) => Err(stop),
        };
        let teaches = self.signatures.n_doubtful_now() > 0;
        self.next_call = next_call;
        types.truncate(n_types);
        self.signatures.forget();
        read.map(|is_strange| is_strange || teaches)
    }

    /// True if the next few events from `at` on lead to damage, so that they may be a part of it. Does not change the state.
    pub(crate) fn leads_to_damage(&mut self, input: &[u8], at: usize, types: &mut Types) -> bool {
        let (next_call, n_types) = (self.next_call, types.len());
        let mut out = Values::default();
        let mut cursor = Cursor::new(input, at);
        let mut next = || match cursor.byte()? {
            EVENT_ENTER => self.enter(&mut cursor, &mut out, types).map(|_| true),
            EVENT_LEAVE => {
                let number = cursor.uint()?;
                self.details(&mut cursor, &mut nobody(number), &mut out, types).map(|()| true)
            }
            _ => Ok(false),
        };
        let leads = (0..RUN_EVENTS).map(|_| next()).find_map(|read| match read {
            Ok(true) => None,
            Ok(false) | Err(Stop::Bad(_)) => Some(true),
            Err(Stop::More(_)) => Some(false),
        });
        self.next_call = next_call;
        types.truncate(n_types);
        self.signatures.forget();
        leads == Some(true)
    }

    /// True if the first call that is entered and left in `input` has another number than it would get: then earlier events
    /// that enter calls were missed. Also true for bytes that form no event. Does not change the state.
    pub(crate) fn is_misnumbered(&mut self, input: &[u8], types: &mut Types) -> bool {
        let (next_call, n_types) = (self.next_call, types.len());
        let mut out = Values::default();
        let mut cursor = Cursor::new(input, 0);
        let told = is_misnumbered(next_call, &mut || match cursor.byte()? {
            EVENT_ENTER => self.enter(&mut cursor, &mut out, types).map(|_| Numbered::Entered),
            EVENT_LEAVE => {
                let number = cursor.uint()?;
                self.details(&mut cursor, &mut nobody(number), &mut out, types)?;
                Ok(Numbered::Left { number, n_entered: self.next_call })
            }
            _ => Ok(Numbered::Nothing),
        });
        self.next_call = next_call;
        types.truncate(n_types);
        self.signatures.forget();
        told
    }

    /// True if events from `at` on confirm the number that the next call entered would get.
    pub(crate) fn is_borne_out(
        &mut self,
        input: &[u8],
        at: usize,
        types: &mut Types,
        evidence: &Evidence,
    ) -> bool {
        let next_call = self.next_call;
        self.trial(input, at, types, evidence).is_some_and(|run| run.number == next_call)
    }

    /// Like [`Machine::resume`](crate::feed::Machine::resume): a part of the stream before this point is missing.
    pub(crate) fn resume_after_gap(
        &mut self,
        input: &[u8],
        n_looked: usize,
        types: &mut Types,
    ) -> Option<(usize, u64)> {
        self.expect_gaps();
        let evidence = Evidence { sure: self.next_call, ..Evidence::default() };
        self.find_run(input, n_looked, types, &evidence).map(|(at, run)| (at, run.number))
    }

    /// Finds the first run of events that begins in the first `n_looked` bytes. Does not change the state.
    ///
    /// Bytes in the middle of an event may read as an event that takes in those after it, with signatures unknown elsewhere.
    /// So if a run needs placeholder signatures, a run that needs fewer and begins within its first event is preferred.
    pub(crate) fn find_run(
        &mut self,
        input: &[u8],
        n_looked: usize,
        types: &mut Types,
        evidence: &Evidence,
    ) -> Option<(usize, Run)> {
        let mut first_in = |range: Range<usize>, most_lost: u64| {
            let mut starts = range.filter(|at| input.get(*at).is_some_and(|byte| *byte <= EVENT_LEAVE));
            starts.find_map(|at| {
                let run = self.trial(input, at, types, evidence)?;
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
        let (at, run) = best;
        // The end of an event whose beginning is lost may read as one of another function; it is skipped.
        Some(match run.begins_anew {
            true => (run.end_of_first, Run { number: run.number + 1, ..run }),
            false => (at, run),
        })
    }

    /// Tests for a run of events at `at`: enough consecutive events can be read, the numbers of the calls that they leave
    /// agree and are not below `sure`, and anything new is borne out. Does not change the state.
    fn trial(&mut self, input: &[u8], at: usize, types: &mut Types, evidence: &Evidence) -> Option<Run> {
        let (next_call, n_lost_before, n_types) = (self.next_call, self.signatures.n_lost(), types.len());
        let mut out = Values::default();
        let mut cursor = Cursor::new(input, at);
        let (mut n_events, mut n_enters, mut end_of_first) = (0, 0, at);
        let mut numbers = Numbers::default();
        let (mut doubtful, mut new_threads) = (Vec::new(), Vec::new());
        let (mut n_taught, mut has_news, mut begins_anew) = (0, false, false);
        let is_run = loop {
            let read = match cursor.byte() {
                Ok(EVENT_ENTER) => self.enter(&mut cursor, &mut out, types).map(|call| {
                    let is_met = evidence.has_met(call.thread) || new_threads.contains(&call.thread);
                    if !is_met {
                        new_threads.push(call.thread);
                    }
                    let is_new = !is_met || self.signatures.n_doubtful_now() > n_taught;
                    // The first call always needs confirmation: bytes before a run may seem to belong to it.
                    if n_events == 0 || is_new {
                        doubtful.push(Doubtful::Enters(n_enters));
                    }
                    n_enters += 1;
                    Some(is_new)
                }),
                Ok(EVENT_LEAVE) => cursor.uint().and_then(|number| {
                    self.details(&mut cursor, &mut nobody(number), &mut out, types)?;
                    let is_new = self.signatures.n_doubtful_now() > n_taught;
                    if n_events == 0 || is_new {
                        doubtful.push(Doubtful::Leaves(number));
                    }
                    Ok(numbers.can_leave(number, n_enters).then_some(is_new))
                }),
                Ok(_) => Ok(None),
                Err(stop) => Err(stop),
            };
            match read {
                // With enough events before it, a new signature is left to the reader that reaches it.
                Ok(Some(true)) if n_events >= RUN_EVENTS && !has_news && numbers.agree() => {
                    doubtful.pop();
                    break true;
                }
                Ok(Some(is_new)) => {
                    n_taught = self.signatures.n_doubtful_now();
                    has_news |= is_new;
                    n_events += 1;
                    if n_events == 1 {
                        end_of_first = cursor.at();
                        // If its signature is present, that is evidence enough.
                        let is_made_up = self.signatures.n_lost() > n_lost_before || n_taught == 0;
                        begins_anew = is_new && n_enters == 1 && is_made_up;
                    }
                }
                // The stream may end soon, or a long event may be incomplete, so a few events suffice.
                Err(Stop::More(_)) => break numbers.agree() || numbers.is_only(next_call),
                // If more damage follows this closely, anything new is taken for damage too.
                Ok(None) | Err(_) => break n_events >= RUN_EVENTS && !has_news && numbers.agree(),
            }
            if n_events == RUN_EVENTS && numbers.left.len() < RUN_EVENTS as usize / 4 {
                break false;
            }
            if n_events == if has_news { MAX_DOUBTED_EVENTS } else { MAX_EVENTS } {
                break numbers.agree();
            }
        };
        self.next_call = next_call;
        types.truncate(n_types);
        let n_lost = self.signatures.n_lost() - n_lost_before;
        self.signatures.forget();
        let number = numbers.first.filter(|first| is_run && *first >= evidence.sure)?;
        let bears_out = |event: &Doubtful| match *event {
            Doubtful::Enters(i) => numbers.left.contains(&(number + i)) || numbers.is_behind_all(number + i),
            Doubtful::Leaves(left) => self.is_open(left) || (number..number + n_enters).contains(&left),
        };
        doubtful.iter().all(bears_out).then_some(Run { number, n_lost, end_of_first, begins_anew })
    }
}

impl Numbers {
    /// Notes that a call is left after this many were entered; false if it was left before.
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

    /// True if more than one call gives the same number, and not by accident.
    fn agree(&self) -> bool {
        self.n_agreed > 1 && self.n_agreed as usize * LEFT_FOR_AGREED >= self.left.len()
    }

    /// True if a single call was left, and gives this number for the first.
    fn is_only(&self, number: u64) -> bool {
        self.left.len() == 1 && self.first == Some(number)
    }

    /// True if all calls that the run leaves have smaller numbers than this.
    fn is_behind_all(&self, number: u64) -> bool {
        self.left.iter().all(|left| *left < number)
    }
}
