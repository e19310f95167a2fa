//! Which records count: some are left out, some only warm the caches, so many are simulated. SPEC: 15.4.
//!
//! All are counted in records that are no markers. The original lets the records to simulate run out during warm-up, too;
//! here so many are simulated behind it.

use crate::simulate::{Ref, processors};
use quipu_model::Batch;

/// When statistics begin.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Warmup {
    /// At once.
    #[default]
    None,
    /// Behind so many records.
    Refs(u64),
    /// When every last cache has filled this share of its places.
    Fraction(f64),
}

/// The part of the records that a simulation is about.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Extent {
    /// Records left out first.
    pub skip: u64,
    /// When statistics begin.
    pub warmup: Warmup,
    /// Records simulated with statistics; `None` for all.
    pub take: Option<u64>,
}

impl Extent {
    /// True if no record has to be counted.
    pub fn is_all(&self) -> bool {
        self.skip == 0 && self.take.is_none() && self.is_warm()
    }

    /// True if statistics have begun.
    pub fn is_warm(&self) -> bool {
        matches!(self.warmup, Warmup::None | Warmup::Refs(0))
    }

    /// True if no further record is simulated.
    pub(crate) fn is_over(&self) -> bool {
        self.skip == 0 && self.is_warm() && self.take == Some(0)
    }

    /// The first record of a batch behind those that are left out at the start. `None` if all of it is left out, or nothing behind
    /// them means anything; then they are done.
    pub(crate) fn leave_out(&mut self, batch: &Batch, refs: &[Ref]) -> Option<u32> {
        if self.skip == 0 {
            return Some(0);
        }
        let mut all = (0..).zip(refs).filter(|(_, of)| **of != Ref::No).map(|(at, _)| at);
        let mut last = None;
        let mut n = 0;
        while n < self.skip
            && let Some(at) = all.next()
        {
            (last, n) = (Some(at), n + 1);
        }
        let begin = last.map_or(0, |at: u32| at + 1);
        if n == self.skip && (all.next().is_some() || processors(batch).any(|(at, _)| at >= begin)) {
            return Some(begin);
        }
        self.skip -= n;
        None
    }

    /// Why there are no statistics behind `met` records, with what is `left` of this extent, in a sentence; `None` if there are.
    pub(crate) fn shortfall(
        self,
        left: Extent,
        met: u64,
        is_empty: bool,
        filled: impl FnOnce() -> f64,
    ) -> Option<String> {
        if left.skip > 0 {
            let skip = self.skip;
            return Some(format!(
                "nothing was simulated: skip-refs leaves out {skip} records, and there are {met}"
            ));
        }
        match (self.warmup, left.is_warm(), self.take) {
            (Warmup::Refs(refs), false, _) => {
                let there = met.saturating_sub(self.skip);
                Some(format!(
                    "the statistics did not begin: warmup-refs wants {refs} records, and there are {there}"
                ))
            }
            (Warmup::Fraction(share), false, _) => Some(format!(
                "the statistics did not begin: warmup-fraction wants the last caches filled by {share}, and they were by {:.3}",
                filled()
            )),
            (_, _, Some(0)) => Some("nothing was simulated: sim-refs is 0".to_owned()),
            _ => is_empty.then(|| {
                format!("the statistics are empty: the warm-up ended with the last of {met} records")
            }),
        }
    }

    /// How many of the next records are alike, and whether they are simulated.
    pub(crate) fn stretch(&self) -> (u64, bool) {
        match (self.skip, self.warmup, self.take) {
            (1.., _, _) => (self.skip, false),
            (_, Warmup::Refs(left @ 1..), _) => (left, true),
            (_, Warmup::Fraction(_), _) => (1, true),
            (_, _, None) => (u64::MAX, true),
            (_, _, Some(0)) => (u64::MAX, false),
            (_, _, Some(left)) => (left, true),
        }
    }

    /// So many records, at most those of the stretch, are done; true if statistics begin behind them.
    pub(crate) fn advance(&mut self, n: u64, is_filled: impl FnOnce(f64) -> bool) -> bool {
        match (self.skip, &mut self.warmup, &mut self.take) {
            (1.., _, _) => {
                self.skip -= n;
                false
            }
            (_, Warmup::Refs(left @ 1..), _) => {
                *left -= n;
                *left == 0
            }
            (_, Warmup::Fraction(share), _) => {
                let is_over = n > 0 && is_filled(*share);
                if is_over {
                    self.warmup = Warmup::None;
                }
                is_over
            }
            (_, _, Some(left @ 1..)) => {
                *left -= n;
                false
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_follow_one_another_and_the_statistics_begin_once() {
        let mut extent = Extent { skip: 3, warmup: Warmup::Refs(2), take: Some(4) };
        let mut begins = Vec::new();
        let mut simulated = Vec::new();
        for record in 0..12 {
            let (n, is_simulated) = extent.stretch();
            assert!(n > 0);
            if is_simulated {
                simulated.push(record);
            }
            if extent.advance(1, |_| false) {
                begins.push(record);
            }
        }
        assert_eq!((simulated, begins), ((3..9).collect(), vec![4]));
    }

    #[test]
    fn a_fraction_is_looked_at_behind_each_record() {
        let mut extent = Extent { warmup: Warmup::Fraction(0.5), ..Extent::default() };
        assert_eq!(extent.stretch(), (1, true));
        assert!(!extent.advance(1, |share| share < 0.5));
        assert!(extent.advance(1, |share| share == 0.5));
        assert_eq!((extent.stretch(), extent.is_all()), ((u64::MAX, true), true));
    }
}
