//! Whether events stand at some place after a gap, and which numbers their calls have.
//!
//! Entering a call does not tell its number, leaving it does. No call is left before it is entered, so each that is left is
//! a lower bound of the number of the first that was entered here. The bound is exact if it is the call entered last, as
//! nearly always with one thread and often with several, so that the greatest bound of many is the number.
//!
//! Damaged bytes may read as events as well. What such events bring that is new (functions and other types, a
//! thread) is believed only where the call is *borne out*: it is left under the number that it must have. So is the first
//! call of a run, since bytes before it may read as another.

use super::{Decoder, nobody};
use crate::cursor::{Cursor, Stop};
use crate::decode::Decoded;
use crate::record::{EVENT_ENTER, EVENT_LEAVE, VERSION_THREADS};
use quipu_model::values::{Types, Values};
use std::cmp::Ordering;
use std::ops::Range;

/// This many events in a row are no accident.
const RUN_EVENTS: u32 = 12;
/// This many are looked at for their numbers.
const MAX_EVENTS: u32 = 256;
/// This many if they bring what is new.
const MAX_DOUBTED_EVENTS: u32 = 1024;
/// One in this many calls that are left must tell the number of the first, at least.
const LEFT_FOR_AGREED: usize = 8;

/// What an event says of the numbers of calls.
pub(crate) enum Numbered {
    /// It enters a call.
    Entered,
    /// It leaves a call, when this many were entered.
    Left {
        /// The number of the call.
        number: u64,
        /// How many calls were entered.
        n_entered: u64,
    },
    /// It is no event.
    Nothing,
}

/// True if the first call that the events of `next` enter and leave has another number than it would get, if numbers begin at
/// `next_call`; or if they are no events.
pub(crate) fn is_misnumbered(next_call: u64, next: &mut dyn FnMut() -> Decoded<Numbered>) -> bool {
    let told = (0..MAX_EVENTS).map(|_| next()).find_map(|read| match read {
        Ok(Numbered::Left { number, n_entered }) if number >= next_call => Some(number >= n_entered),
        Ok(Numbered::Entered | Numbered::Left { .. }) => None,
        Ok(Numbered::Nothing) | Err(Stop::Bad(_)) => Some(true),
        Err(Stop::More(_)) => Some(false),
    });
    told == Some(true)
}

/// What is known of a stream, to judge by what bytes after damage seem to say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Threads that made calls.
    pub(crate) threads: Vec<u64>,
    /// Calls before this are known to be numbered rightly.
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
    /// How many signatures had to be made up for it.
    n_lost: u64,
    /// Where its first event ends.
    end_of_first: usize,
    /// True if that enters a call of a new function or thread, without a signature.
    begins_anew: bool,
}

/// What calls that are left tell of the number of the first that was entered.
#[derive(Default)]
struct Numbers {
    left: Vec<u64>,
    first: Option<u64>,
    /// This many of `left` say that.
    n_agreed: u32,
}

/// An event that brings something new.
enum Doubtful {
    /// It enters a call, counted from the first of the run.
    Enters(u64),
    /// It leaves the call of this number.
    Leaves(u64),
}

impl Decoder {
    /// From here on, what looks odd is asked for evidence.
    pub(crate) fn be_wary(&mut self) {
        self.signatures.be_wary();
    }

    /// Of calls that are open and not known to be numbered rightly, keeps the first of each thread that was met; returns how
    /// many others there were. Numbers begin anew after those that are kept.
    pub(crate) fn forget_inner(&mut self, evidence: &Evidence) -> u64 {
        let sure = evidence.sure;
        let is_strange = |thread| !evidence.threads.is_empty() && !evidence.has_met(thread);
        let n_strange = self.pending.forget(|call| call.number >= sure && is_strange(call.thread));
        let n_forgotten = n_strange + self.pending.forget_inner(sure);
        self.next_call = self.pending.end().map_or(sure, |end| end.max(sure));
        n_forgotten
    }

    /// Forgets calls that are open and have numbers from `first` on, which others have; returns how many.
    pub(crate) fn forget_from(&mut self, first: u64) -> u64 {
        self.pending.forget(|call| call.number >= first)
    }

    /// True if the call of this number is open.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        self.pending.has(number)
    }

    /// True if an event at `at` enters a call of a new thread, or that is within another one: then the
    /// event must be borne out.
    #[inline]
    pub(crate) fn is_strange(&self, input: &[u8], at: usize, evidence: &Evidence) -> bool {
        let Some(since) = evidence.since else { return false };
        let thread = match self.version {
            VERSION_THREADS.. => Cursor::new(input, at + 1).uint().unwrap_or(0),
            _ => 0,
        };
        !evidence.has_met(thread) || self.pending.has_thread(thread, since)
    }

    /// True if the event at `at` must be borne out: it teaches what is odd, or after a gap anything, is of a thread
    /// not met before, or enters a call within another one of its thread. Nothing is changed.
    ///
    /// # Errors
    /// If the event is cut or bad.
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

    /// True if the next few events from `at` on lead to damage, so that they may be a part of it. Nothing is changed.
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

    /// True if the first call that is entered in `input` and left there has another number than it would get: then entries
    /// of calls were swallowed before. Bytes that form no event say so too. Nothing is changed.
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

    /// True if events from `at` on bear out that the call entered next has the number that it would get.
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

    /// As [`Machine::resume`](crate::feed::Machine::resume): from here on, a part of the stream is missing.
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

    /// Where the first run of events begins among the first `n_looked` bytes. Nothing is changed.
    ///
    /// Bytes in the middle of an event may read as one that takes in those after it, with signatures of its own that
    /// are known nowhere else. So a run that needs fewer and begins within the first event of one that needs such is preferred.
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
        // The end of an event whose beginning is lost may read as one of another function, which is left as it was.
        Some(match run.begins_anew {
            true => (run.end_of_first, Run { number: run.number + 1, ..run }),
            false => (at, run),
        })
    }

    /// Whether a run of events stands at `at`, as far as one can tell: some in a row can be read, the numbers of those that
    /// leave calls agree with each other and come after all that is sure, and what is new is borne out. Nothing is changed.
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
                    // The first is always asked: bytes before a run may seem to belong to it.
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
                // A new signature is left to the reader that reaches it, if there are enough events before.
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
                        // A signature that stands there speaks for itself.
                        let is_made_up = self.signatures.n_lost() > n_lost_before || n_taught == 0;
                        begins_anew = is_new && n_enters == 1 && is_made_up;
                    }
                }
                // The last events of a stream may be few, and so may those before a long one.
                Err(Stop::More(_)) => break numbers.agree() || numbers.is_only(next_call),
                // Where more damage follows so closely, what is new is damage as well.
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
    /// Takes note of a call that is left when this many were entered; false if it was left before.
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

    /// True if more than one call tells the same number, and not by accident.
    fn agree(&self) -> bool {
        self.n_agreed > 1 && self.n_agreed as usize * LEFT_FOR_AGREED >= self.left.len()
    }

    /// True if one call alone was left, and tells that the first has this number.
    fn is_only(&self, number: u64) -> bool {
        self.left.len() == 1 && self.first == Some(number)
    }

    /// True if no call that was entered as late is left among those that were looked at.
    fn is_behind_all(&self, number: u64) -> bool {
        self.left.iter().all(|left| *left < number)
    }
}
