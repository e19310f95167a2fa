//! Damaged inputs of outputs: whether an output is kept, and from which record onwards it is doubtful.
//!
//! One rule applies to every edit and every conversion, whatever the format: an output made from a damaged trace gets no
//! name, unless the caller asks for it. An [`Intake`] between the reader and the writer applies the rule.

use crate::error::{Error, ErrorKind, Place, Result};
use crate::finding::{Finding, Found};
use std::sync::Arc;

/// Whether to keep an output whose input proves damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damaged {
    /// Write nothing: the output ends at the first damage, and the rest of the input is read only to report what is lost.
    #[default]
    Refuse,
    /// Keep the output: reading continues after the damage where the format can.
    Keep,
}

impl From<bool> for Damaged {
    /// Converts the option that keeps such outputs.
    fn from(is_kept: bool) -> Damaged {
        if is_kept { Damaged::Keep } else { Damaged::Refuse }
    }
}

/// The advice of an error that refuses to write; the program has this option.
const HOW_TO_KEEP: &str = "nothing was written; --keep-damaged keeps what can be written, and says from which record on it is doubtful";

/// Progress of an output, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoFar {
    /// Number of records in the output so far.
    pub n_written: u64,
    /// Of these, the number whose input bytes are good even if the container's next checksum is wrong.
    pub n_vouched: u64,
    /// Of these, the number before the last place where the input's own count of records matched the reader's. Damage that
    /// the input's counts reveal lies after them.
    pub n_agreed: u64,
}

impl SoFar {
    /// Progress in a container that cannot vouch for anything yet, because its only checksum is at the end.
    pub fn unvouched(n_written: u64) -> SoFar {
        SoFar { n_written, n_vouched: 0, n_agreed: 0 }
    }

    /// Progress in a container that checks each part before the reader gets it, or has no checksums at all.
    pub fn vouched(n_written: u64) -> SoFar {
        SoFar { n_written, n_vouched: n_written, n_agreed: 0 }
    }

    /// The same for an input that counts its records, where the count was last right after `n_agreed` records of the output.
    #[must_use]
    pub fn agreed(self, n_agreed: u64) -> SoFar {
        SoFar { n_agreed, ..self }
    }

    fn good(self, is_container: bool, is_before: bool) -> u64 {
        let of_checksum = if is_container { self.n_vouched } else { u64::MAX };
        let of_counts = if is_before { self.n_agreed } else { u64::MAX };
        self.n_written.min(of_checksum).min(of_counts)
    }
}

/// The state of reading for an output: the findings so far, and where the first damage is in the output.
#[derive(Debug, Default)]
pub struct Intake {
    damaged: Damaged,
    is_strict: bool,
    found: Found,
    error: Option<Error>,
    doubtful_from: Option<u64>,
    /// Whether the first damage lies somewhere before the place where it was noticed.
    is_before: bool,
}

/// The outcome of reading for an output.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Faults of the input.
    pub findings: Vec<Finding>,
    /// The error that ended reading before the end of the input, if any.
    pub error: Option<Arc<Error>>,
    /// Number of records in the output before the first damage; `None` if the input is not damaged.
    pub doubtful_from: Option<u64>,
}

impl Reading {
    /// The error for an output without records; `None` if the input is not damaged, so that an empty output is correct.
    pub fn nothing_left(&self) -> Option<Error> {
        self.doubtful_from?;
        let mut error = Error::new(ErrorKind::Damaged, "nothing of the trace can be read");
        let first = self.findings.iter().find(|finding| finding.is_damage());
        let place = first.map(|finding| &finding.place).or(self.error.as_ref().map(|cause| cause.place()));
        if let Some(place) = place {
            error = error.at(place);
        }
        if let Some(cause) = &self.error {
            error = error.losing(cause.loss_or_rest()).because(cause.clone());
        }
        Some(error.after(self.findings.clone()))
    }

    /// Combines this with the result of another look at the trace; the earlier of both damages counts.
    #[must_use]
    pub fn or_doubtful_from(mut self, other: Option<u64>) -> Reading {
        self.doubtful_from = earlier(self.doubtful_from, other);
        self
    }
}

/// The earlier of two damages, each given as the number of records before it.
pub fn earlier(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

/// The error for an output that is refused because of damage at `place`.
fn refused_at(place: &Place) -> Error {
    Error::new(ErrorKind::Damaged, "the trace is damaged here").at(place).hint(HOW_TO_KEEP)
}

impl Intake {
    /// An intake before anything is read.
    pub fn new(damaged: Damaged) -> Intake {
        Intake { damaged, ..Intake::default() }
    }

    /// With `is_strict`, the first finding of damage ends reading as an error of its own.
    #[must_use]
    pub fn strict(self, is_strict: bool) -> Intake {
        Intake { is_strict, ..self }
    }

    /// True once damage was found.
    pub fn is_damaged(&self) -> bool {
        self.doubtful_from.is_some()
    }

    /// True if the first damage lies somewhere before the place where it was noticed.
    pub fn is_damaged_before(&self) -> bool {
        self.is_before
    }

    /// Takes the findings of a batch. `so_far` is the progress of the output before that batch.
    ///
    /// # Errors
    /// `Damaged` if a finding is damage and damaged outputs are refused; in strict runs, the first finding of damage as an
    /// error.
    #[inline]
    pub fn take(&mut self, findings: &mut Vec<Finding>, so_far: SoFar) -> Result<()> {
        if findings.is_empty() { Ok(()) } else { self.take_some(findings, so_far) }
    }

    #[cold]
    fn take_some(&mut self, findings: &mut Vec<Finding>, so_far: SoFar) -> Result<()> {
        let at = findings.iter().position(Finding::is_damage);
        let damage = at.map(|at| findings[at].clone());
        let is_of_container = findings.iter().any(|finding| finding.is_damage() && finding.is_of_container());
        let is_before = findings.iter().any(|finding| finding.is_damage() && finding.doubtful_from.is_some());
        // In strict runs the damage itself becomes the error.
        let n_told = at.filter(|_| self.is_strict).unwrap_or(findings.len());
        findings.drain(..).take(n_told).for_each(|finding| self.found.push(finding));
        let Some(damage) = damage else { return Ok(()) };
        self.is_before |= is_before && !self.is_damaged();
        self.doubt(so_far.good(is_of_container, is_before));
        if self.is_strict {
            return Err(damage.to_error().after(self.take_findings()));
        }
        match self.damaged {
            Damaged::Keep => Ok(()),
            Damaged::Refuse => Err(refused_at(&damage.place).after(self.take_findings())),
        }
    }

    /// Continues reading after damage that refuses the output. `rest` returns the findings of what follows, and `None` at the
    /// end. The returned error then reports everything that is lost, as verbs do that read the whole trace. Errors of other
    /// kinds are returned unchanged.
    #[cold]
    pub fn read_on(&self, refusal: Error, mut rest: impl FnMut() -> Result<Option<Vec<Finding>>>) -> Error {
        if self.is_strict || refusal.kind() != ErrorKind::Damaged {
            return refusal;
        }
        let mut found = Found::default();
        refusal.findings().iter().for_each(|finding| found.push(finding.clone()));
        let mut end_of_container = None;
        loop {
            match rest() {
                Ok(Some(more)) => more.into_iter().for_each(|finding| found.push(finding)),
                Ok(None) => break,
                Err(end) if end.is_damage() => {
                    end_of_container = end.is_of_container().then(|| end.place().clone());
                    match found.as_slice().iter().find(|finding| end.is_same_fault(finding)).cloned() {
                        Some(known) => found.push(known.met_at_end(&end)),
                        None => found.push(Finding::of_end(&end)),
                    }
                    break;
                }
                Err(other) => return other,
            }
        }
        let mut found = found.into_vec();
        // The reader's own finding knows the record of the first damage, and how much is lost where reading ends.
        let refusal = match found.iter().find(|finding| {
            let (one, other) = (&finding.place, refusal.place());
            one.record.is_some()
                && other.record.is_none()
                && one.offset.is_some()
                && (&one.file, one.offset) == (&other.file, other.offset)
        }) {
            Some(met) => refused_at(&met.place),
            None => refusal,
        };
        // Bytes that a checksum does not vouch for are not part of the trace, so oddities in them are not findings of their
        // own.
        let of_container = found.iter().find(|finding| finding.is_of_container() && finding.is_damage());
        let of_container = of_container.map(|finding| finding.place.clone()).or(end_of_container.clone());
        let is_in = |place: &Place, other: &Place| place.file == other.file && place.member == other.member;
        match of_container.filter(|place| is_in(place, refusal.place())) {
            None => refusal.with_findings(found),
            Some(place) => {
                let is_end = |finding: &Finding| Some(&finding.place) == end_of_container.as_ref();
                found.retain(|finding| {
                    finding.is_of_container() || is_end(finding) || !is_in(&finding.place, &place)
                });
                refused_at(&place).after(found)
            }
        }
    }

    /// Takes the findings and the outcome of a read that is over. `so_far` is the progress before those findings, `at_end`
    /// that at the end of the read.
    ///
    /// # Errors
    /// As [`take`](Intake::take) and [`end`](Intake::end). An error that refuses the output reports everything that is lost.
    pub fn take_all(
        &mut self,
        findings: &mut Vec<Finding>,
        so_far: SoFar,
        read: Result<()>,
        at_end: SoFar,
    ) -> Result<()> {
        match self.take(findings, so_far) {
            Ok(()) => self.end(read, at_end),
            Err(refused) => {
                let mut end = Some(read.map(|()| None));
                Err(self.read_on(refused, || end.take().unwrap_or(Ok(None))))
            }
        }
    }

    /// Takes the outcome of reading. If damaged outputs are kept, an error about the input counts as a normal end.
    ///
    /// # Errors
    /// The error of `read`, together with the findings before it, unless it is about the input and damaged outputs are kept.
    pub fn end(&mut self, read: Result<()>, so_far: SoFar) -> Result<()> {
        let Err(error) = read else { return Ok(()) };
        if !error.is_damage() || self.is_strict {
            return Err(error.after(self.take_findings()));
        }
        self.doubt(so_far.good(error.is_of_container(), false));
        match self.damaged {
            // This error is already a refusal with advice.
            Damaged::Refuse if error.kind() == ErrorKind::Damaged => Err(error),
            Damaged::Refuse => {
                let advice = match error.advice() {
                    Some(advice) => format!("{HOW_TO_KEEP}; {advice}"),
                    None => HOW_TO_KEEP.to_owned(),
                };
                Err(error.hint(advice).after(self.take_findings()))
            }
            Damaged::Keep => {
                self.error = Some(error);
                Ok(())
            }
        }
    }

    /// A later damage counts if it reaches further back: a wrong checksum makes everything it covers doubtful, including
    /// earlier oddities there.
    fn doubt(&mut self, n_good: u64) {
        self.doubtful_from = earlier(self.doubtful_from, Some(n_good));
    }

    fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.found).into_vec()
    }

    /// Everything known about the reading once the output is written.
    pub fn finish(self) -> Reading {
        Reading {
            findings: self.found.into_vec(),
            error: self.error.map(Into::into),
            doubtful_from: self.doubtful_from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;
    use crate::loss::{Loss, Lost};

    fn finding(severity: Severity, record: u64) -> Finding {
        let place = Place { record: Some(record), ..Place::default() };
        Finding::new("demo/rule", severity, place, "odd".into())
    }

    #[test]
    fn the_first_damage_ends_an_output_that_is_not_kept() {
        let mut intake = Intake::new(Damaged::Refuse);
        intake.take(&mut vec![finding(Severity::Warning, 1)], SoFar::vouched(1)).unwrap();
        let error = intake.take(&mut vec![finding(Severity::Error, 7)], SoFar::vouched(5)).unwrap_err();
        assert_eq!((error.kind(), error.place().record), (ErrorKind::Damaged, Some(7)));
        assert_eq!(error.findings().len(), 2);
        assert!(error.advice().unwrap().contains("--keep-damaged"));
        // If the error of a batch also ends reading, nothing is reported twice.
        let advice = error.advice().unwrap().to_owned();
        let ended = intake.end(Err(error), SoFar::vouched(5)).unwrap_err();
        assert_eq!((ended.advice(), ended.findings().len()), (Some(&*advice), 2));
    }

    #[test]
    fn what_a_refused_output_loses_is_read_to_the_end() {
        let mut intake = Intake::new(Damaged::Refuse);
        let refused = intake.take(&mut vec![finding(Severity::Error, 7)], SoFar::default()).unwrap_err();
        let place = Place { record: Some(9), ..Place::default() };
        let later = finding(Severity::Error, 9).losing(Loss::from(place.clone()));
        let mut rest = vec![Ok(None), Ok(Some(vec![later])), Ok(Some(Vec::new()))];
        let error = intake.read_on(refused, || rest.pop().unwrap());
        assert_eq!((error.place().record, error.findings().len()), (Some(7), 2));
        assert_eq!(Lost::of(&[], Some(&error)).sum().unwrap().stopped, place);
        // The rest of the input may also be cut off; an interruption is not damage.
        let error = intake.read_on(error, || Err(Error::truncated("cut")));
        assert_eq!(error.findings().len(), 3);
        assert_eq!(Lost::of(&[], Some(&error)).gaps.len(), 2);
        let error = intake.read_on(error, || Err(Error::new(ErrorKind::Io, "interrupted")));
        assert_eq!(error.kind(), ErrorKind::Io);
        // In strict runs the first error is the only one.
        let strict = Intake::new(Damaged::Refuse).strict(true);
        let error = strict.read_on(Error::new(ErrorKind::Damaged, "damaged"), || unreachable!());
        assert!(error.findings().is_empty());
    }

    #[test]
    fn a_loss_that_the_trace_states_is_no_damage() {
        let stated = || finding(Severity::Error, 7).losing(Loss::default()).stated();
        let mut intake = Intake::new(Damaged::Refuse);
        intake.take(&mut vec![stated()], SoFar::unvouched(5)).unwrap();
        let reading = intake.finish();
        assert_eq!((reading.doubtful_from, reading.findings), (None, vec![stated()]));
        // Real damage next to it does count.
        let mut intake = Intake::new(Damaged::Refuse);
        assert!(intake.take(&mut vec![stated(), finding(Severity::Error, 8)], SoFar::unvouched(5)).is_err());
    }

    #[test]
    fn a_wrong_checksum_after_odd_records_is_about_these_too() {
        let checksum =
            || Finding::new("source/malformed", Severity::Error, Place::default(), "checksum".into());
        let mut intake = Intake::new(Damaged::Keep);
        intake.take(&mut vec![finding(Severity::Error, 7)], SoFar::unvouched(5)).unwrap();
        intake.take(&mut vec![checksum()], SoFar::unvouched(9)).unwrap();
        assert_eq!(intake.finish().doubtful_from, Some(0));
        let mut intake = Intake::new(Damaged::Refuse);
        let refused = intake.take(&mut vec![finding(Severity::Error, 7)], SoFar::default()).unwrap_err();
        let mut rest = vec![Ok(None), Ok(Some(vec![checksum()]))];
        let error = intake.read_on(refused, || rest.pop().unwrap());
        let rules: Vec<_> = error.findings().iter().map(|finding| &*finding.rule).collect();
        assert_eq!((error.place(), rules), (&Place::default(), vec!["source/malformed"]));
    }

    #[test]
    fn an_output_that_is_kept_is_doubtful_from_the_first_damage_on() {
        let mut intake = Intake::new(Damaged::Keep);
        intake.take(&mut vec![finding(Severity::Error, 7)], SoFar::vouched(5)).unwrap();
        intake.take(&mut vec![finding(Severity::Error, 9)], SoFar::vouched(8)).unwrap();
        intake.end(Err(Error::truncated("cut")), SoFar::vouched(11)).unwrap();
        let reading = intake.finish();
        assert_eq!((reading.findings.len(), reading.doubtful_from), (2, Some(5)));
        assert_eq!(reading.error.unwrap().message(), "cut");
    }

    #[test]
    fn nothing_of_a_damaged_trace_is_damage() {
        assert!(Reading::default().or_doubtful_from(None).nothing_left().is_none());
        let mut intake = Intake::new(Damaged::Keep);
        intake.end(Err(Error::truncated("cut").in_file("a")), SoFar::vouched(0)).unwrap();
        let error = intake.finish().nothing_left().unwrap();
        assert_eq!((error.kind(), error.place().file.as_deref()), (ErrorKind::Damaged, Some("a")));
        assert!(error.loss().is_some());
        assert!(Reading::default().or_doubtful_from(Some(0)).nothing_left().is_some());
    }

    #[test]
    fn the_first_of_two_damages_counts() {
        assert_eq!(earlier(Some(7), Some(0)), Some(0));
        assert_eq!(earlier(None, Some(3)), Some(3));
        assert_eq!(earlier(None, None), None);
    }

    #[test]
    fn a_wrong_checksum_at_the_end_makes_all_doubtful_that_it_stands_for() {
        let damage =
            || Finding::new("source/malformed", Severity::Error, Place::default(), "checksum".into());
        for (so_far, doubtful_from) in [(SoFar::unvouched(5), 0), (SoFar::vouched(5), 5)] {
            let mut intake = Intake::new(Damaged::Keep);
            intake.take(&mut vec![damage()], so_far).unwrap();
            assert_eq!(intake.finish().doubtful_from, Some(doubtful_from));
        }
    }

    #[test]
    fn damage_that_counts_reveal_lies_after_the_place_where_they_last_agreed() {
        let mut intake = Intake::new(Damaged::Keep);
        let found = finding(Severity::Error, 9).doubting(4);
        intake.take(&mut vec![found], SoFar::vouched(8).agreed(3)).unwrap();
        assert!(intake.is_damaged_before());
        assert_eq!(intake.finish().doubtful_from, Some(3));
    }

    #[test]
    fn errors_of_other_sorts_end_every_output() {
        for damaged in [Damaged::Keep, Damaged::Refuse] {
            let mut intake = Intake::new(damaged);
            let error = intake.end(Err(Error::usage("no such option")), SoFar::default()).unwrap_err();
            assert_eq!((error.kind(), error.advice()), (ErrorKind::Usage, None));
            let mut strict = Intake::new(damaged).strict(true);
            let mut found = vec![finding(Severity::Warning, 3), finding(Severity::Error, 7)];
            let error = strict.take(&mut found, SoFar::vouched(5)).unwrap_err();
            // The warning before it is not lost, and the damage is not reported twice.
            assert_eq!((error.kind(), error.findings().len()), (ErrorKind::Malformed, 1));
        }
    }
}
