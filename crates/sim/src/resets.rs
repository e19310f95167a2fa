//! Points at which statistics are reset while lines stay: after a number of instructions, or at marks of the trace.

use crate::options::RESET_AT;
use crate::simulate::Cut;
use quipu_model::lens::instr_flags;
use quipu_model::number::counted;
use quipu_model::{Batch, Columns, Error, Options, Result, Trace, number};

/// Number of mark kinds whose names are searched.
const MAX_KINDS: u32 = 128;
/// Most stages that are kept.
const MAX_STAGES: u64 = 65_536;

/// The points at which statistics are reset.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resets {
    /// Instruction counts of the trace at which to reset, whether simulated or not; ascending.
    instrs: Vec<u64>,
    /// Kinds of marks at which to reset.
    kinds: Vec<u32>,
    /// Number of instructions before this batch, and including it.
    n_before: u64,
    n_behind: u64,
    /// Whether this batch has a mark to reset at, and whether any batch had one.
    has_mark: bool,
    met_mark: bool,
    n_stages: u64,
    /// Number of points before the statistics, which reset nothing, and of those after the end of the simulation within its
    /// last batch.
    n_before_statistics: u64,
    n_left: u64,
}

/// The statistics that a reset has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) instrs: u64,
    pub(crate) accesses: u64,
    /// Hits and misses of each cache.
    pub(crate) counts: Vec<(u64, u64)>,
}

impl Resets {
    /// The points listed in the option `reset-at`: instruction counts and names of marks, separated by commas.
    ///
    /// # Errors
    /// `Usage` for a name that the trace does not use for a mark.
    pub fn new(options: &Options, trace: &dyn Trace) -> Result<Resets> {
        let mut resets = Resets::default();
        for point in options.text(&RESET_AT).unwrap_or_default().split(',').map(str::trim) {
            if point.is_empty() || point == "none" {
                continue;
            }
            if point.starts_with(|c: char| c.is_ascii_digit()) {
                let wrong = |_| Error::usage(format!("option `reset-at` wants a number, found `{point}`"));
                resets.instrs.push(number::count(point).map_err(wrong)?);
                continue;
            }
            let kinds = (0..MAX_KINDS).filter(|kind| trace.mark_name(*kind) == point);
            let n_before = resets.kinds.len();
            resets.kinds.extend(kinds);
            if resets.kinds.len() == n_before {
                return Err(Error::usage(format!(
                    "option `reset-at` wants numbers of instructions or names of marks, found `{point}`, which this trace \
                     has no mark for"
                )));
            }
        }
        resets.instrs.sort_unstable();
        resets.instrs.dedup();
        Ok(resets)
    }

    /// Whether there are no points.
    pub fn is_empty(&self) -> bool {
        self.instrs.is_empty() && self.kinds.is_empty()
    }

    /// Sentences about points that were not reached or had no effect. With `is_over`, points after the end of the simulation
    /// are ignored. Marks may occur anywhere; an instruction count is expected within the trace.
    pub(crate) fn missed(&self, is_over: bool) -> Vec<String> {
        let mut told = Vec::new();
        let points = |n: u64| counted(n, "point");
        if self.n_before_statistics > 0 {
            let points = points(self.n_before_statistics);
            told.push(format!(
                "reset-at: {points} among the records that are left out or warm up, where no statistics are"
            ));
        }
        let n = self.n_behind;
        let late = self.instrs.iter().filter(|point| **point >= n);
        if is_over {
            let n_late = self.n_left + late.count() as u64;
            if n_late > 0 {
                told.push(format!("reset-at: {} after the last record of sim-refs", points(n_late)));
            }
            return told;
        }
        told.extend(late.map(|point| {
            format!("reset-at {point} was not reached: the trace has {} for it", counted(n, "instruction"))
        }));
        if !self.kinds.is_empty() && !self.met_mark {
            told.push("reset-at names marks, and the trace has none of them".to_owned());
        }
        told
    }

    /// Counts the points of this batch, which is skipped.
    pub(crate) fn pass_over(&mut self) {
        self.n_before_statistics += self.near().count() as u64;
    }

    /// Counts a point before the statistics, which resets nothing, if it is an instruction count.
    pub(crate) fn leave_out(&mut self, why: Cut) {
        self.n_before_statistics += u64::from(why == Cut::Instr);
    }

    /// Notes the points of this batch at which the simulation had already ended.
    pub(crate) fn end(&mut self, cuts: &[(u32, Cut)]) {
        self.n_left = cuts.iter().filter(|(_, why)| *why == Cut::Instr).count() as u64;
    }

    /// Columns that the points need, with the reason.
    pub(crate) fn needs(&self) -> impl Iterator<Item = (Columns, &'static str)> {
        let counted = (!self.is_empty()).then_some((Columns::INSTRS, "counts instructions up to a reset"));
        let named = (!self.kinds.is_empty()).then_some((Columns::MARKS, "resets its statistics at marks"));
        counted.into_iter().chain(named)
    }

    /// Advances to this batch.
    pub(crate) fn begin(&mut self, batch: &Batch) {
        self.n_before = self.n_behind;
        self.n_behind += u64::from(batch.span.instrs);
        self.has_mark =
            !self.kinds.is_empty() && batch.marks.kind.iter().any(|kind| self.kinds.contains(kind));
        self.met_mark |= self.has_mark;
    }

    /// Whether there may be a point in this batch.
    pub(crate) fn is_near(&self) -> bool {
        self.has_mark || self.near().next().is_some()
    }

    fn near(&self) -> impl Iterator<Item = u64> {
        let (before, behind) = (self.n_before, self.n_behind);
        self.instrs.iter().copied().filter(move |point| (before..behind).contains(point))
    }

    /// Adds the points of this batch; each is before a record.
    pub(crate) fn cuts(&mut self, batch: &Batch, cuts: &mut Vec<(u32, Cut)>) {
        if !self.is_near() || self.n_stages >= MAX_STAGES {
            return;
        }
        let n_before = cuts.len();
        let fetched = |flags: &u8| flags & instr_flags::NO_FETCH == 0;
        let mut instrs = batch.instrs.at.iter().zip(&batch.instrs.flags).filter(|(_, flags)| fetched(flags));
        let mut n_done = self.n_before;
        for point in self.near() {
            // At the record of the next instruction.
            if let Some((at, _)) = instrs.nth((point - n_done) as usize) {
                cuts.push((*at, Cut::Instr));
            }
            n_done = point + 1;
        }
        let marks = batch.marks.at.iter().zip(&batch.marks.kind);
        cuts.extend(marks.filter(|(_, kind)| self.kinds.contains(kind)).map(|(at, _)| (*at, Cut::Mark)));
        self.n_stages += (cuts.len() - n_before) as u64;
    }
}
