//! The parts of a trace that could not be read: their size, and the places around them.
//!
//! A [`Loss`] is one gap. A [`Finding`] or an [`Error`] carries the gap that it caused; [`Lost`] adds up the gaps of a whole
//! run.

use crate::error::{Error, ErrorKind, Place};
use crate::finding::Finding;
use crate::number::{counted, grouped};
use serde::{Serialize, Serializer};
use std::fmt;

/// The size of a loss, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// Exactly this much.
    Exactly(u64),
    /// At least this much.
    AtLeast(u64),
    /// Unknown.
    #[default]
    Unknown,
}

/// Serializes as a number, an object with `at_least`, or `null` if the amount is unknown.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Amount::Exactly(n) => n.serialize(serializer),
            Amount::AtLeast(n) => serializer.collect_map([("at_least", n)]),
            Amount::Unknown => serializer.serialize_none(),
        }
    }
}

impl Amount {
    /// The sum of both amounts.
    pub fn plus(self, other: Amount) -> Amount {
        match (self, other) {
            (Amount::Exactly(a), Amount::Exactly(b)) => Amount::Exactly(a.saturating_add(b)),
            (Amount::Unknown, Amount::Unknown) => Amount::Unknown,
            (a, b) => match a.least().saturating_add(b.least()) {
                0 => Amount::Unknown,
                least => Amount::AtLeast(least),
            },
        }
    }

    /// The lower bound of the amount; 0 if unknown.
    pub fn least(self) -> u64 {
        match self {
            Amount::Exactly(n) | Amount::AtLeast(n) => n,
            Amount::Unknown => 0,
        }
    }

    /// The amount, if it is known exactly.
    pub fn exactly(self) -> Option<u64> {
        match self {
            Amount::Exactly(n) => Some(n),
            Amount::AtLeast(_) | Amount::Unknown => None,
        }
    }

    /// An exact amount, or `Unknown` for `None`.
    pub fn known(n: Option<u64>) -> Amount {
        n.map_or(Amount::Unknown, Amount::Exactly)
    }
}

/// One gap in a trace, between the place where reading stopped and the place where it continued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// Lost records, as tools count them.
    pub records: Amount,
    /// Lost instructions.
    pub instrs: Amount,
    /// Lost bytes of the inflated stream.
    pub bytes: Amount,
    /// The place after the last good record.
    pub stopped: Place,
    /// The place of the first record after the gap; `None` if reading did not continue.
    pub resumed: Option<Place>,
    /// Number of later gaps whose sizes were added to this one.
    #[serde(skip)]
    pub n_further: u64,
}

impl Loss {
    /// A gap of unknown size from this place to the end of the trace.
    pub fn from(stopped: Place) -> Loss {
        Loss { stopped, ..Loss::default() }
    }

    /// The gap that damage of a carrying file causes, with the numbers that this file knows.
    pub fn by_carrier(damage: &quipu_source::CarrierDamage, stopped: Place) -> Loss {
        Loss {
            records: Amount::known(damage.records),
            bytes: Amount::known(damage.bytes),
            stopped,
            ..Loss::default()
        }
    }

    /// Adds a later gap: the sum extends from the beginning of this one to the end of that one.
    pub fn add(&mut self, later: Loss) {
        self.records = self.records.plus(later.records);
        self.instrs = self.instrs.plus(later.instrs);
        self.bytes = self.bytes.plus(later.bytes);
        self.resumed = later.resumed;
        self.n_further += 1 + later.n_further;
    }
}

/// All gaps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The gaps, in the order of discovery. A gap may be the sum of several.
    pub gaps: Vec<Loss>,
}

impl Lost {
    /// Collects the gaps of the findings of a run, of its error, and of the findings in the error. An error about the trace
    /// that does not state a loss loses everything after its place.
    pub fn of(findings: &[Finding], error: Option<&Error>) -> Lost {
        let of_error = error.and_then(|error| {
            let is_of_trace = matches!(
                error.kind(),
                ErrorKind::Io | ErrorKind::Malformed | ErrorKind::Truncated | ErrorKind::Limit
            );
            (is_of_trace || error.loss().is_some()).then(|| error.loss_or_rest())
        });
        let before = error.map_or(&[][..], Error::findings);
        let of_findings =
            findings.iter().chain(before).filter_map(|finding| finding.loss.as_deref().cloned());
        let mut gaps: Vec<Loss> = of_findings.chain(of_error).collect();
        // The order of reading does not matter: within one file, gaps are sorted by offset.
        let place = |gap: &Loss| {
            let Place { file, member, offset, .. } = &gap.stopped;
            offset.filter(|_| member.is_none() && *file == gaps[0].stopped.file)
        };
        if gaps.iter().all(|gap| place(gap).is_some()) {
            gaps.sort_by_key(|gap| gap.stopped.offset);
        }
        Lost { gaps }
    }

    /// True if nothing is lost.
    pub fn is_nothing(&self) -> bool {
        self.gaps.is_empty()
    }

    /// The sum of all gaps, from the beginning of the first to the end of the last.
    pub fn sum(&self) -> Option<Loss> {
        let mut gaps = self.gaps.iter().cloned();
        let mut sum = gaps.next()?;
        gaps.for_each(|gap| sum.add(gap));
        Some(sum)
    }
}

/// Formats as `1,000 instructions (2,345 records) are lost between … and …`, a sentence without a full stop.
impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(sum) = self.sum() else { return f.write_str("nothing is lost") };
        let records = words(sum.records, "record");
        let are = |amount: Amount| if amount == Amount::Exactly(1) { "is" } else { "are" };
        match (words(sum.instrs, "instruction"), records) {
            (Some(instrs), Some(records)) => write!(f, "{instrs} ({records}) {} lost", are(sum.instrs))?,
            (Some(instrs), None) => write!(f, "{instrs} {} lost", are(sum.instrs))?,
            (None, Some(records)) => write!(f, "{records} {} lost", are(sum.records))?,
            (None, None) => match words(sum.bytes, "byte") {
                Some(bytes) => write!(f, "{bytes} {} lost, an unknown number of records", are(sum.bytes))?,
                None => f.write_str("an unknown number of records is lost")?,
            },
        }
        match 1 + sum.n_further {
            1 => {}
            n => write!(f, " in {} places, the first", grouped(n))?,
        }
        let first = &self.gaps[0];
        let is_somewhere = |place: &Place| {
            place.offset.is_some()
                || place.record.is_some()
                || place.instr.is_some()
                || place.member.is_some()
        };
        match (&first.resumed, first.stopped.is_empty()) {
            (_, true) => Ok(()),
            // For a continuation in another file, no place is known.
            (Some(resumed), false) if !is_somewhere(resumed) || *resumed == first.stopped => {
                write!(f, " at {}", first.stopped)
            }
            (Some(resumed), false) => write!(f, " between {} and {resumed}", first.stopped),
            (None, false) => write!(f, " after {}", first.stopped),
        }
    }
}

fn words(amount: Amount, one: &str) -> Option<String> {
    match amount {
        Amount::Exactly(n) => Some(counted(n, one)),
        Amount::AtLeast(n) => Some(format!("at least {}", counted(n, one))),
        Amount::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn place(record: u64) -> Place {
        Place { file: Some("a.zip".into()), record: Some(record), ..Place::default() }
    }

    fn gap(records: Amount, instrs: Amount, from: u64, to: Option<u64>) -> Loss {
        let resumed = to.map(place);
        Loss { records, instrs, stopped: place(from), resumed, ..Loss::default() }
    }

    #[test]
    fn one_gap_is_told_with_both_its_ends() {
        let gap = gap(Amount::Exactly(2345), Amount::Exactly(1000), 7, Some(2352));
        assert_eq!(
            Lost { gaps: vec![gap] }.to_string(),
            "1,000 instructions (2,345 records) are lost between a.zip: record 7 and a.zip: record 2352"
        );
    }

    #[test]
    fn several_gaps_are_added_up_as_far_as_they_are_known() {
        let known = gap(Amount::Exactly(5), Amount::Exactly(2), 1, Some(6));
        let open = gap(Amount::Unknown, Amount::Exactly(3), 9, None);
        assert_eq!(
            Lost { gaps: vec![known, open] }.to_string(),
            "5 instructions (at least 5 records) are lost in 2 places, the first between a.zip: record 1 and a.zip: record 6"
        );
    }

    #[test]
    fn an_error_that_ends_reading_loses_what_follows() {
        let error = Error::truncated("cut").at(&place(3));
        assert_eq!(
            Lost::of(&[], Some(&error)).to_string(),
            "an unknown number of records is lost after a.zip: record 3"
        );
        assert!(Lost::of(&[], Some(&Error::missing("no such thread"))).is_nothing());
    }

    #[test]
    fn losses_of_findings_that_are_only_counted_are_added_up() {
        let mut found = crate::Found::default();
        for record in 0..20 {
            let finding = Finding::new("demo/gap", Severity::Error, place(record), "gap".into());
            found.push(finding.losing(gap(Amount::Exactly(2), Amount::Unknown, record, Some(record + 2))));
        }
        let lost = Lost::of(found.as_slice(), None);
        assert!(lost.gaps.len() <= 8);
        let sum = lost.sum().unwrap();
        assert_eq!((sum.records, sum.resumed), (Amount::Exactly(40), Some(place(21))));
        assert_eq!(
            lost.to_string(),
            "40 records are lost in 20 places, the first between a.zip: record 0 and a.zip: record 2"
        );
    }
}
