//! The rows of a batch by what becomes of them, for the ledger of a conversion.

use quipu_model::convert::{Ledger, Outcome};
use quipu_model::lens::ThreadEvent;

/// Counts of the rows of a batch, by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) loads: u64,
    pub(super) stores: u64,
    pub(super) prefetches: u64,
    pub(super) flushes: u64,
    pub(super) fetches: u64,
    pub(super) sizeless: u64,
    pub(super) wide: u64,
    pub(super) places: u64,
    pub(super) instrs: u64,
    pub(super) iterations: u64,
    pub(super) computes: u64,
    pub(super) codeless: u64,
    pub(super) undecodable: u64,
    pub(super) unknown: u64,
    pub(super) controls: u64,
    pub(super) blind_targets: u64,
    pub(super) blind_outcomes: u64,
    pub(super) calls: u64,
    pub(super) nameless: u64,
    pub(super) system_calls: u64,
    pub(super) cut_names: u64,
    pub(super) syncs: u64,
    pub(super) blind_syncs: u64,
    pub(super) marks: u64,
    pub(super) starts: u64,
    pub(super) thread_events: u64,
}

impl Counts {
    /// Counts events of threads. Where a program is observed, signals are followed.
    pub(super) fn started(&mut self, events: &[ThreadEvent], is_observed: bool) {
        for what in events {
            match what {
                ThreadEvent::Start => self.starts += 1,
                ThreadEvent::Interrupt | ThreadEvent::Resume if is_observed => {}
                _ => self.thread_events += 1,
            }
        }
    }

    pub(super) fn enter(&self, ledger: &mut Ledger) {
        for (what, outcome, count) in [
            ("instructions", Outcome::Kept, self.instrs),
            ("computations, by the bytes of instructions", Outcome::Kept, self.computes),
            ("of the instructions, those without encodings: no computation", Outcome::Kept, self.codeless),
            (
                "of the instructions, those whose bytes are none: no computation",
                Outcome::Kept,
                self.undecodable,
            ),
            (
                "of the instructions, those that the decoder does not know: no computation",
                Outcome::Kept,
                self.unknown,
            ),
            ("loads", Outcome::Kept, self.loads),
            ("stores", Outcome::Kept, self.stores),
            ("instructions that accesses name", Outcome::Kept, self.places),
            ("branches", Outcome::Kept, self.controls),
            ("of the branches, those whose target the trace does not say", Outcome::Kept, self.blind_targets),
            (
                "of the branches, those whose outcome the trace does not say",
                Outcome::Kept,
                self.blind_outcomes,
            ),
            ("functions entered and left", Outcome::Kept, self.calls),
            ("synchronization", Outcome::Kept, self.syncs),
            ("beginnings of threads", Outcome::Kept, self.starts),
            ("accesses of unknown size, written as of 1 byte", Outcome::Changed, self.sizeless),
            ("accesses of more than 65535 bytes, cut off there", Outcome::Changed, self.wide),
            ("names of functions longer than 256 bytes, cut off there", Outcome::Changed, self.cut_names),
            ("further iterations of string loops", Outcome::Dropped, self.iterations),
            ("prefetches", Outcome::Dropped, self.prefetches),
            ("flushes", Outcome::Dropped, self.flushes),
            ("fetches", Outcome::Dropped, self.fetches),
            ("calls of functions without a name", Outcome::Dropped, self.nameless),
            ("system calls that are no synchronization", Outcome::Dropped, self.system_calls),
            ("synchronization whose object is not recorded", Outcome::Dropped, self.blind_syncs),
            ("marks", Outcome::Dropped, self.marks),
            ("events of threads", Outcome::Dropped, self.thread_events),
        ] {
            ledger.add(what, outcome, count);
        }
    }
}
