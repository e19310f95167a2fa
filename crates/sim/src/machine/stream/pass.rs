//! Processes the requests to one cache: hits, misses and the requests that they cause, prefetches.

use super::super::{Ledger, Miss, Purpose, Request};
use super::{KNOWN, OWN, Rows, Want};
use crate::prefetch::{MAX_WANTED, Prefetcher};
use crate::sets::{Lines, Slot};

/// One cache while it processes a list of requests.
pub(in crate::machine) struct Pass<'a> {
    pub(in crate::machine) ledger: &'a mut Ledger,
    pub(in crate::machine) prefetcher: &'a mut Prefetcher,
    pub(in crate::machine) log: &'a mut Vec<Miss>,
    pub(in crate::machine) rows: Rows<'a>,
    pub(in crate::machine) shift: u32,
    pub(in crate::machine) line_mask: u64,
    pub(in crate::machine) space: u64,
}

impl Pass<'_> {
    /// Processes `wanted`. Appends the requests to the next cache to `asks`, each for a single use.
    pub(in crate::machine) fn run<L: Lines>(&mut self, store: &mut L, wanted: &[Want], asks: &mut Vec<Want>) {
        match (&self.ledger.shadow, &self.prefetcher) {
            (None, Prefetcher::None) => self.run_plain::<L, false>(store, wanted, asks),
            (None, Prefetcher::NextLine) => self.run_plain::<L, true>(store, wanted, asks),
            _ => self.run_asking(store, wanted, asks),
        }
    }

    /// As [`Pass::run`], if only the line of a request matters. With `NEXT`, a miss prefetches the next line.
    ///
    /// PERF: misses are counted and reported after the loop, which leaves a single look-up of the line in it; bench `types`.
    fn run_plain<L: Lines, const NEXT: bool>(
        &mut self,
        store: &mut L,
        wanted: &[Want],
        asks: &mut Vec<Want>,
    ) {
        let start = asks.len();
        let mut hits = [0, 0];
        for want in wanted {
            let again = u64::from(want.again);
            hits[0] += again;
            if let Some(slot) = store.touch(want.line) {
                store.again(slot, again);
                hits[usize::from(want.is_prefetch())] += 1;
                continue;
            }
            let slot = self.bring(store, Want { again: 0, ..*want }, asks);
            if !NEXT || want.is_prefetch() {
                if again > 0 {
                    store.again(slot, again);
                }
                continue;
            }
            let line = (want.line.wrapping_add(1) & self.line_mask) | self.space;
            if store.touch(line).is_some() {
                hits[Purpose::OwnPrefetch.class()] += 1;
            } else {
                self.bring(store, Want { line, row: (want.row & !KNOWN) | OWN, again: 0 }, asks);
            }
            // `joins` guarantees that the line is still there.
            if again > 0
                && let Some(slot) = store.touch(want.line)
            {
                store.again(slot, again - 1);
            }
        }
        self.ledger.hits[0] += hits[0];
        self.ledger.hits[1] += hits[1];
        self.tell(&mut asks[start..]);
    }

    /// Requests the line from the next cache, and fills it.
    #[inline(always)]
    fn bring<L: Lines>(&mut self, store: &mut L, want: Want, asks: &mut Vec<Want>) -> Slot {
        asks.push(want);
        let slot = store.choose(want.line);
        self.ledger.loaded += u64::from(store.fill(want.line, slot, false).is_none());
        slot
    }

    /// Counts misses, and flags those of lines that were requested before.
    fn tell(&mut self, missed: &mut [Want]) {
        let ledger = &mut *self.ledger;
        let mut n_prefetches = 0;
        for want in &mut *missed {
            n_prefetches += u64::from(want.is_prefetch());
            // If the cache before has requested it before, it has missed here before, too.
            if want.row & KNOWN == 0 {
                let is_first = ledger.seen.add(want.line);
                ledger.rest.compulsory += u64::from(is_first);
                want.row |= u32::from(!is_first) * KNOWN;
            }
        }
        ledger.misses[0] += missed.len() as u64 - n_prefetches;
        ledger.misses[1] += n_prefetches;
        if ledger.logs {
            for want in missed {
                ledger.log(want.request(&self.rows, self.shift, self.space), self.log);
            }
        }
    }

    /// As [`Pass::run`], for any cache.
    fn run_asking<L: Lines>(&mut self, store: &mut L, wanted: &[Want], asks: &mut Vec<Want>) {
        let has_shadow = self.ledger.shadow.is_some();
        let mut hits = [0, 0];
        for want in wanted {
            let again = u64::from(want.again);
            if !has_shadow && let Some(slot) = store.touch(want.line) {
                store.again(slot, again);
                hits[usize::from(want.is_prefetch())] += 1;
                hits[0] += again;
            } else {
                self.request(store, Want { row: want.row & !KNOWN, again: 0, ..*want }, again, asks);
            }
        }
        self.ledger.hits[0] += hits[0];
        self.ledger.hits[1] += hits[1];
    }

    /// One request, and further uses of its line.
    #[inline(never)]
    fn request<L: Lines>(&mut self, store: &mut L, want: Want, again: u64, asks: &mut Vec<Want>) {
        let shadow_hit = self.ledger.shade(want.line);
        self.ledger.hits[0] += again;
        if let Some(slot) = store.touch(want.line) {
            self.ledger.hits[usize::from(want.is_prefetch())] += 1;
            return store.again(slot, again);
        }
        let request = want.request(&self.rows, self.shift, self.space);
        let slot = self.fetch(store, want, shadow_hit, request, asks);
        if want.is_prefetch() || self.prefetcher.is_none() {
            if again > 0 {
                store.again(slot, again);
            }
            return;
        }
        let mut lines = [0; MAX_WANTED];
        let n = self.prefetcher.missed(want.line, request.pc, &mut lines);
        for line in &lines[..n] {
            let line = (line & self.line_mask) | self.space;
            let shadow_hit = self.ledger.shade(line);
            if store.touch(line).is_some() {
                self.ledger.hits[Purpose::OwnPrefetch.class()] += 1;
                continue;
            }
            let own = Want { line, row: want.row | OWN, ..want };
            let request =
                Request { addr: line << self.shift, size: 0, purpose: Purpose::OwnPrefetch, ..request };
            self.fetch(store, own, shadow_hit, request, asks);
        }
        if again > 0 {
            // `joins` guarantees that the line is still there.
            self.ledger.shade(want.line);
            if let Some(slot) = store.touch(want.line) {
                store.again(slot, again - 1);
            }
        }
    }

    /// Counts a miss, requests the line from the next cache, and fills it.
    fn fetch<L: Lines>(
        &mut self,
        store: &mut L,
        want: Want,
        shadow_hit: Option<bool>,
        request: Request,
        asks: &mut Vec<Want>,
    ) -> Slot {
        self.ledger.miss(want.line, shadow_hit, request, self.log);
        asks.push(want);
        let slot = store.choose(want.line);
        if store.fill(want.line, slot, false).is_none() {
            self.ledger.loaded += 1;
        }
        slot
    }
}
