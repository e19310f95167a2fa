//! Faults of a trace as data: a rule with a stable name, a place and a message.
//!
//! Reading continues after a finding. [`Found`] collects them with a limit for each rule, so that a file of pure garbage
//! cannot fill the memory with complaints.

use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::loss::{Amount, Loss};
use crate::result;
use crate::schema::Text;
use crate::trace::Reader;
use serde::Serialize;
use std::fmt;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Suspicious, but every record could be read.
    Warning,
    /// Records are lost or wrong, as in a truncated or damaged file. Every verb that meets such a finding ends with exit code
    /// 1, or with 2 if a [newer program](Finding::needs_newer) could continue reading.
    Error,
}

impl Severity {
    /// A stable lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

crate::result_names!(Severity);

/// A rule that findings refer to, with its entry in the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RuleInfo {
    /// Stable name, the crate first: `drmemtrace/unknown-type`.
    #[serde(rename = "rule")]
    pub name: &'static str,
    /// The subject of the rule; rules of one subject are listed together in the manual.
    pub group: &'static str,
    /// Severity of a violation.
    pub severity: Severity,
    /// The condition that must hold, in one sentence.
    pub summary: &'static str,
    /// Background for people: why the rule exists, when it is not checked, what follows from a violation.
    pub doc: &'static str,
    /// Messages that the format's own tools print for a violation, if they check the rule.
    pub original: &'static [&'static str],
}

impl RuleInfo {
    /// Creates a finding for a violation of this rule.
    pub fn broken(&self, place: Place, message: String) -> Finding {
        Finding::new(self.name, self.severity, place, message)
    }

    /// The name without the crate.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }

    /// True if `name` is this rule's name, with or without the crate.
    pub fn is_called(&self, name: &str) -> bool {
        is_called(self.name, name)
    }
}

/// True if `name` is the name of the rule with this full name, with or without the crate.
pub(crate) fn is_called(rule: &str, name: &str) -> bool {
    rule == name || rule.rsplit('/').next() == Some(name)
}

result! {
    /// One violation of one rule, or the sum of several at the same rule.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Finding {
        pub rule: Text => "Stable name of the rule, prefixed by the format: `drmemtrace/unknown-type`.";
        pub severity: Severity => "Severity of the violation.";
        pub message: String => "Expected and actual content, in words.";
        pub count: u64 => "Number of violations that this finding stands for, at least 1.";
        pub place: Place => "Place of the violation; if several are summed, of the first.";
    } beside {
        pub loss: Option<Box<Loss>> => "Data lost because of it, if any.";
        pub is_stated: bool =>
            "Whether the trace states the loss itself and its bytes are intact, so that output made from it is sound.";
        pub doubtful_from: Option<u64> =>
            "For damage that lies somewhere before the place where it shows: the first record that is doubtful.";
    }
}

impl Finding {
    /// Creates a finding for one violation that loses nothing.
    #[cold]
    pub fn new(rule: impl Into<Text>, severity: Severity, place: Place, message: String) -> Finding {
        Finding {
            rule: rule.into(),
            severity,
            place,
            message,
            count: 1,
            loss: None,
            is_stated: false,
            doubtful_from: None,
        }
    }

    /// Marks the finding as damage that lies somewhere between the record `from` and its place.
    #[cold]
    pub fn doubting(self, from: u64) -> Finding {
        Finding { doubtful_from: Some(from), ..self }
    }

    /// Adds the loss that the violation causes.
    #[cold]
    pub fn losing(mut self, loss: Loss) -> Finding {
        self.loss = Some(Box::new(loss));
        self
    }

    /// If `error` says that the file carrying the trace is damaged, turns this into a finding about that file: with its rule,
    /// message and offset, and with the loss as far as that file reveals it. Ordinals in the trace stay, so that the place is
    /// known in both.
    #[cold]
    pub fn by_carrier(self, error: &quipu_source::Error) -> Finding {
        match error.carrier() {
            Some(damage) => self.by(damage),
            None => self,
        }
    }

    /// Turns this into a finding about the damage of the file that carries the trace; see
    /// [`by_carrier`](Finding::by_carrier).
    #[cold]
    pub fn by(mut self, damage: &quipu_source::CarrierDamage) -> Finding {
        let carried =
            |place: Place| Place { record: place.record, instr: place.instr, ..Place::from(damage) };
        self.rule = damage.rule.into();
        self.message = damage.what.clone();
        self.place = carried(self.place);
        if damage.is_beside {
            self.loss = None;
            return self;
        }
        let known = Loss::by_carrier(damage, self.place.clone());
        let loss = self.loss.map_or_else(|| known.clone(), |loss| *loss);
        let or = |one: Amount, other: Amount| if one == Amount::Unknown { other } else { one };
        let resumed = loss.resumed.map(|place| Place { offset: damage.next, ..carried(place) });
        self.loss = Some(Box::new(Loss {
            records: or(known.records, loss.records),
            // If the carrier does not know the number of bytes, the loss has none either.
            bytes: known.bytes,
            stopped: known.stopped,
            resumed,
            n_further: loss.n_further,
            instrs: loss.instrs,
        }));
        self
    }

    /// True if another finding is about the same fault: both the file that carries a trace and the trace's reader may report
    /// it.
    pub fn is_same_fault(&self, other: &Finding) -> bool {
        self.rule == other.rule
            && (self.place.offset.is_some() || self.message == other.message)
            && (&self.place.file, self.place.offset) == (&other.place.file, other.place.offset)
    }

    /// The same fault as it ended reading: the place becomes that of `end`, which knows the record that was reached.
    pub fn met_at_end(self, end: &Error) -> Finding {
        let loss = end.loss().cloned().or(self.loss.as_deref().cloned());
        let found = Finding { place: end.place().clone(), ..self };
        match loss {
            Some(loss) => found.clone().losing(Loss { stopped: found.place, ..loss }),
            None => found,
        }
    }

    /// The findings of `first` that are not among `met`, the result of another look: both may report damage of the carrying
    /// file.
    pub fn not_met(first: &[Finding], met: &[Finding]) -> Vec<Finding> {
        let is_met = |finding: &&Finding| met.iter().any(|known| known.is_same_fault(finding));
        first.iter().filter(|finding| !is_met(finding)).cloned().collect()
    }

    /// Marks the loss as one that the trace itself states.
    #[cold]
    pub fn stated(self) -> Finding {
        Finding { is_stated: true, ..self }
    }

    /// True if the finding makes output doubtful: an error about the bytes of the trace.
    pub fn is_damage(&self) -> bool {
        self.severity == Severity::Error && !self.is_stated
    }

    /// True if reading stopped there because only a newer program understands what follows. Everything before it is
    /// delivered, and every verb ends with exit code 2.
    pub fn needs_newer(&self) -> bool {
        is_called(&self.rule, NEEDS_NEWER)
    }

    /// Creates a finding for a file that ends too early. Everything before its end is good; the rest is lost, so this is an
    /// error.
    #[cold]
    pub fn of_cut_file(error: &Error) -> Finding {
        let place = error.place().clone();
        let loss = error.loss().cloned().unwrap_or_else(|| Loss::from(place.clone()));
        Finding::new(CUT, Severity::Error, place, error.message().to_owned()).losing(loss)
    }

    /// Prefix of the message of a finding that reports how reading ended.
    pub(crate) const STOPS: &str = "reading stops here: ";

    /// Creates a finding for an error that ended reading, to be reported next to another error: everything after it is lost.
    #[cold]
    pub fn of_end(error: &Error) -> Finding {
        let message = format!("{}{}", Finding::STOPS, error.message_and_cause());
        let finding = Finding::new("engine/unreadable", Severity::Error, error.place().clone(), message);
        finding.losing(error.loss_or_rest())
    }

    /// True if the container is damaged, so that everything since its last good checksum is doubtful. Truncation is not such
    /// damage: the bytes before the cut are good.
    pub fn is_of_container(&self) -> bool {
        is_of_container(&self.rule)
    }

    /// Converts the finding into an error, for callers that stop at the first.
    #[cold]
    pub fn to_error(&self) -> Error {
        let error = Error::new(ErrorKind::Malformed, format!("{} ({})", self.message, self.rule));
        let error = error.at(&self.place);
        match &self.loss {
            Some(loss) => error.losing((**loss).clone()),
            None => error,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.severity.name(), self.rule)?;
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// The short name, in every format, of the rule that only a newer program can continue reading.
pub const NEEDS_NEWER: &str = "needs-newer-program";

/// The rule that a container breaks if it ends too early.
const CUT: &str = "source/truncated";

/// True if a violation of this rule by a container makes everything since its last good checksum doubtful.
pub(crate) fn is_of_container(rule: &str) -> bool {
    rule.starts_with("source/") && rule != CUT
}

/// The rule that a container breaks if reading it fails with this kind of error.
pub fn source_rule(kind: quipu_source::ErrorKind) -> &'static str {
    match kind {
        quipu_source::ErrorKind::Truncated => CUT,
        quipu_source::ErrorKind::Unsupported => "source/unsupported",
        quipu_source::ErrorKind::Limit => "source/limit",
        _ => "source/malformed",
    }
}

/// Number of findings of one rule that are kept one by one; the rest are only counted.
pub const KEPT_PER_RULE: u64 = 8;

/// A bounded collection of findings: the first [`KEPT_PER_RULE`] of each rule, then counts.
///
/// ```
/// use quipu_model::{Found, Place, Severity};
/// let mut found = Found::default();
/// for offset in 0..100 {
///     found.add("demo/odd", Severity::Warning, || (Place { offset: Some(offset), ..Place::default() }, "odd".into()));
/// }
/// assert_eq!(found.total(), 100);
/// assert!(found.into_vec().len() <= 8);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Found {
    kept: Vec<Finding>,
    rules: Vec<(Text, u64)>,
}

impl Found {
    /// Adds one violation. `describe` is called only if the finding is kept.
    #[cold]
    pub fn add(
        &mut self,
        rule: impl Into<Text>,
        severity: Severity,
        describe: impl FnOnce() -> (Place, String),
    ) {
        let rule = rule.into();
        if self.count(&rule, 1) < KEPT_PER_RULE {
            let (place, message) = describe();
            self.kept.push(Finding::new(rule, severity, place, message));
        } else if let Some(last) = self.kept.iter_mut().rfind(|kept| kept.rule == rule) {
            last.count += 1;
        }
    }

    /// Adds a finding that another component made, with its count. A finding that names the record of a fault replaces one of
    /// the same fault that does not: the file that carries a trace is examined before the trace is read.
    pub fn push(&mut self, finding: Finding) {
        let is_met = |known: &&mut Finding| {
            known.place.record.is_none() && known.message == finding.message && known.is_same_fault(&finding)
        };
        if finding.place.record.is_some()
            && finding.place.offset.is_some()
            && let Some(known) = self.kept.iter_mut().find(is_met)
        {
            *known = Finding { count: known.count, ..finding };
            return;
        }
        if self.count(&finding.rule, finding.count) < KEPT_PER_RULE {
            self.kept.push(finding);
        } else if let Some(last) = self.kept.iter_mut().rfind(|kept| kept.rule == finding.rule) {
            last.count += finding.count;
            match (&mut last.loss, finding.loss) {
                (Some(sum), Some(loss)) => sum.add(*loss),
                (none, loss) => *none = none.take().or(loss),
            }
        }
    }

    /// Reads to the end. Moves the findings out of each batch before passing it to `take`.
    ///
    /// # Errors
    /// Errors of the reader and of `take` end the read; earlier findings stay in the collection.
    pub fn read(
        &mut self,
        reader: &mut dyn Reader,
        take: impl FnMut(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        self.read_until(reader, &|| false, take)
    }

    /// Like [`read`](Found::read), but stops early once `is_cancelled` returns true.
    ///
    /// # Errors
    /// As [`read`](Found::read).
    pub fn read_until(
        &mut self,
        reader: &mut dyn Reader,
        is_cancelled: &dyn Fn() -> bool,
        mut take: impl FnMut(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        while !is_cancelled()
            && let Some(batch) = reader.read()?
        {
            batch.findings.drain(..).for_each(|finding| self.push(finding));
            take(batch)?;
        }
        Ok(())
    }

    /// Adds `n` to the count of a rule and returns the count before that.
    fn count(&mut self, rule: &Text, n: u64) -> u64 {
        match self.rules.iter_mut().find(|(name, _)| name == rule) {
            Some((_, count)) => {
                let before = *count;
                *count += n;
                before
            }
            None => {
                self.rules.push((rule.clone(), n));
                0
            }
        }
    }

    /// True if there are no findings.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Total number of violations, including those that were not kept.
    pub fn total(&self) -> u64 {
        self.rules.iter().map(|(_, count)| count).sum()
    }

    /// The worst severity, if there are findings.
    pub fn worst(&self) -> Option<Severity> {
        self.kept.iter().map(|finding| finding.severity).max()
    }

    /// The findings kept so far, in the order of discovery.
    pub fn as_slice(&self) -> &[Finding] {
        &self.kept
    }

    /// The findings in the order of discovery. The last of each rule also stands for those that were not kept.
    pub fn into_vec(self) -> Vec<Finding> {
        self.kept
    }
}
