//! The range of records that a simulation skips, warms up with, and counts. SPEC: drmemtrace.md#simulators.
//!
//! Counts are in records other than markers, except for a warm-up in instructions. drcachesim counts the records to simulate
//! from the start of the warm-up; here they are counted from its end.

use crate::lane::Ref;
use crate::place::processors;
use quipu_model::Batch;
use quipu_model::number::{counted, grouped};

/// Condition under which statistics begin.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Warmup {
    /// At once.
    #[default]
    None,
    /// After this many records.
    Refs(u64),
    /// At the instruction that follows this many instructions.
    Instrs(u64),
    /// When every last-level cache has filled this share of its lines.
    Fraction(f64),
}

/// The range of records to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Extent {
    /// Records to skip first.
    pub skip: u64,
    /// When statistics begin.
    pub warmup: Warmup,
    /// Records simulated with statistics; `None` for all.
    pub take: Option<u64>,
}

impl Extent {
    /// Whether all records are simulated with statistics, so that none has to be counted.
    pub fn is_all(&self) -> bool {
        self.skip == 0 && self.take.is_none() && self.is_warm()
    }

    /// Whether the warm-up is over or there is none.
    pub fn is_warm(&self) -> bool {
        matches!(self.warmup, Warmup::None | Warmup::Refs(0))
    }

    /// Whether no further record needs to be simulated.
    pub(crate) fn is_over(&self) -> bool {
        self.skip == 0 && self.is_warm() && self.take == Some(0)
    }

    /// Index of the first record of a batch after the skipped ones. `None` if the whole batch is skipped, or only records
    /// without meaning follow them; they are counted as skipped then.
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

    /// A sentence that says why there are no statistics after `met` records, given what is `left` of this extent; `None` if
    /// there are some.
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
                "nothing was simulated: skip-refs leaves out {}, and the trace has {}",
                counted(skip, "record"),
                grouped(met)
            ));
        }
        match (self.warmup, left.is_warm(), self.take) {
            (Warmup::Refs(refs), false, _) => {
                let there = met.saturating_sub(self.skip);
                Some(format!(
                    "the statistics did not begin: warmup-refs wants {}, and the trace has {} for it",
                    counted(refs, "record"),
                    grouped(there)
                ))
            }
            (Warmup::Instrs(wanted), false, _) => {
                let Warmup::Instrs(left) = left.warmup else { return None };
                let there = wanted - left;
                Some(format!(
                    "the statistics did not begin: warmup-instrs wants {}, and the trace has {} for it",
                    counted(wanted, "instruction"),
                    grouped(there)
                ))
            }
            (Warmup::Fraction(share), false, _) => Some(format!(
                "the statistics did not begin: warmup-fraction wants the last caches filled by {share}, and they were by {:.3}",
                filled()
            )),
            (_, _, Some(0)) => Some("nothing was simulated: sim-refs is 0".to_owned()),
            _ => is_empty.then(|| {
                format!(
                    "the statistics are empty: the warm-up ended with the last of {}",
                    counted(met, "record")
                )
            }),
        }
    }

    /// Number of the next records, given as `of`, that are treated alike.
    pub(crate) fn stretch(&self, of: &[Ref]) -> Stretch {
        // At most this many records, this many instructions.
        let (refs, instrs, is_simulated) = match (self.skip, self.warmup, self.take) {
            (1.., _, _) => (self.skip, u64::MAX, false),
            (_, Warmup::Refs(left @ 1..), _) => (left, u64::MAX, true),
            (_, Warmup::Instrs(left), _) => (u64::MAX, left, true),
            (_, Warmup::Fraction(_), _) => (1, u64::MAX, true),
            (_, _, None) => (u64::MAX, u64::MAX, true),
            (_, _, Some(0)) => (u64::MAX, u64::MAX, false),
            (_, _, Some(left)) => (left, u64::MAX, true),
        };
        let mut stretch = Stretch { is_simulated, ..Stretch::default() };
        for of in of {
            let is_instr = *of == Ref::Instr;
            if stretch.refs == refs || (is_instr && stretch.instrs == instrs) {
                stretch.is_cut = true;
                break;
            }
            stretch.records += 1;
            stretch.refs += u64::from(*of != Ref::No);
            stretch.instrs += u64::from(is_instr);
        }
        stretch
    }

    /// Advances by the records of a [`stretch`](Extent::stretch); returns whether statistics begin after them.
    pub(crate) fn advance(&mut self, done: &Stretch, is_filled: impl FnOnce(f64) -> bool) -> bool {
        let is_over = match (self.skip, &mut self.warmup, &mut self.take) {
            (1.., _, _) => {
                self.skip -= done.refs;
                false
            }
            (_, Warmup::Refs(left @ 1..), _) => {
                *left -= done.refs;
                *left == 0
            }
            // The data of the last instruction belongs to it, so the next instruction ends the warm-up.
            (_, Warmup::Instrs(left), _) => {
                *left -= done.instrs;
                done.is_cut
            }
            (_, Warmup::Fraction(share), _) => done.refs > 0 && is_filled(*share),
            (_, _, Some(left @ 1..)) => {
                *left -= done.refs;
                false
            }
            _ => false,
        };
        if is_over {
            self.warmup = Warmup::None;
        }
        is_over
    }
}

/// A run of consecutive records that are treated alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) records: u32,
    /// Those of them that are not markers, and those that are instructions; 0 where records are not counted.
    pub(crate) refs: u64,
    pub(crate) instrs: u64,
    pub(crate) is_simulated: bool,
    /// Whether the run ended before the records passed to `stretch` did.
    is_cut: bool,
}

impl Stretch {
    /// A run of this many records, where records are not counted.
    pub(crate) fn whole(records: u32) -> Stretch {
        Stretch { records, is_simulated: true, ..Stretch::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Advances by one record; returns whether it was simulated, and whether statistics begin after it.
    fn step(extent: &mut Extent, of: Ref) -> (bool, bool) {
        let stretch = extent.stretch(&[of]);
        assert_eq!(stretch.records, 1);
        (stretch.is_simulated, extent.advance(&stretch, |_| false))
    }

    #[test]
    fn stretches_follow_one_another_and_the_statistics_begin_once() {
        let mut extent = Extent { skip: 3, warmup: Warmup::Refs(2), take: Some(4) };
        let mut begins = Vec::new();
        let mut simulated = Vec::new();
        for record in 0..12 {
            let (is_simulated, is_begin) = step(&mut extent, Ref::Yes);
            if is_simulated {
                simulated.push(record);
            }
            if is_begin {
                begins.push(record);
            }
        }
        assert_eq!((simulated, begins), ((3..9).collect(), vec![4]));
    }

    #[test]
    fn a_fraction_is_looked_at_behind_each_record() {
        let mut extent = Extent { warmup: Warmup::Fraction(0.5), ..Extent::default() };
        let refs = [Ref::No, Ref::Yes, Ref::Yes];
        let one = extent.stretch(&refs);
        assert_eq!((one.records, one.refs), (2, 1));
        assert!(!extent.advance(&extent.stretch(&refs[..1]), |_| true), "a marker fills nothing");
        assert!(!extent.advance(&one, |share| share < 0.5));
        assert!(extent.advance(&one, |share| share == 0.5));
        assert_eq!((extent.stretch(&refs).records, extent.is_all()), (3, true));
    }

    #[test]
    fn a_warm_up_of_instructions_ends_ahead_of_the_next_one() {
        let mut extent = Extent { warmup: Warmup::Instrs(2), ..Extent::default() };
        let refs = [Ref::Yes, Ref::Instr, Ref::No, Ref::Instr, Ref::Yes, Ref::Yes, Ref::Instr];
        // As long as no instruction follows, more data may belong to the last one.
        let stretch = extent.stretch(&refs[..6]);
        assert_eq!((stretch.records, stretch.instrs), (6, 2));
        assert!(!extent.advance(&stretch, |_| true) && !extent.is_warm());
        let stretch = extent.stretch(&refs[6..]);
        assert_eq!(stretch.records, 0);
        assert!(extent.advance(&stretch, |_| false) && extent.is_all());
    }
}
