//! What a trace did wrong, as data: a rule with a stable name, a place and a message.
//!
//! Reading continues after a finding. [`Found`] collects them with a bound for each rule, so that a file of pure
//! garbage cannot fill the memory with complaints.

use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::loss::{Amount, Loss};
use crate::result;
use crate::schema::Text;
use crate::trace::Reader;
use serde::Serialize;
use std::fmt;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Odd, but every record could be read.
    Warning,
    /// Records are lost or wrong: a cut or damaged file. Every verb that meets it ends with exit code 1; with 2 if a
    /// [newer program](Finding::needs_newer) could read on.
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

/// A rule that findings name, with its entry in the manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RuleInfo {
    /// Stable name, the crate first: `drmemtrace/unknown-type`.
    #[serde(rename = "rule")]
    pub name: &'static str,
    /// What it is about: rules of one subject stand together in the manual.
    pub group: &'static str,
    /// How bad a violation is.
    pub severity: Severity,
    /// What must hold, in one sentence.
    pub summary: &'static str,
    /// Why, where it is not asked for, and what else a person should know.
    pub doc: &'static str,
    /// What the format's own tools print for it, if they know it.
    pub original: &'static [&'static str],
}

impl RuleInfo {
    /// A violation.
    pub fn broken(&self, place: Place, message: String) -> Finding {
        Finding::new(self.name, self.severity, place, message)
    }

    /// The name without the crate.
    pub fn short_name(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }

    /// True if a person means this rule by `name`, with or without the crate.
    pub fn is_called(&self, name: &str) -> bool {
        is_called(self.name, name)
    }
}

/// True if a person means the rule with this full name by `name`, with or without the crate.
pub(crate) fn is_called(rule: &str, name: &str) -> bool {
    rule == name || rule.rsplit('/').next() == Some(name)
}

result! {
    /// One violation of one rule, or the sum of several at the same rule.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Finding {
        pub rule: Text => "Stable name of the rule, the crate first: `drmemtrace/unknown-type`.";
        pub severity: Severity => "How bad it is.";
        pub message: String => "What was expected and what was found.";
        pub count: u64 => "How many violations this stands for (at least 1).";
        pub place: Place => "Where it is; of the first one if several are summed.";
    } beside {
        pub loss: Option<Box<Loss>> => "What of the trace is lost by it, if anything.";
        pub is_stated: bool => "The trace itself states the loss, and its bytes are whole: what is made of it is no less good.";
        pub doubtful_from: Option<u64> =>
            "For damage that lies somewhere before the place, where it shows: the record from which on records are \
             doubtful.";
    }
}

impl Finding {
    /// One violation that loses nothing.
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

    /// The same for damage that lies somewhere between the record `from` and the place.
    #[cold]
    pub fn doubting(self, from: u64) -> Finding {
        Finding { doubtful_from: Some(from), ..self }
    }

    /// The same with what is lost by it.
    #[cold]
    pub fn losing(mut self, loss: Loss) -> Finding {
        self.loss = Some(Box::new(loss));
        self
    }

    /// The same, if what carries the trace is damaged, as a finding about the carrier: its rule, its file and offset, and the
    /// loss that it knows at least. The ordinals of the trace stay, so that the place is known in both.
    #[cold]
    pub fn by_carrier(self, error: &quipu_source::Error) -> Finding {
        match error.carrier() {
            Some(damage) => self.by(damage),
            None => self,
        }
    }

    /// The same for what a carrier says of its damage.
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
            // Where the carrier does not know, a byte stands for all that is missing.
            bytes: known.bytes,
            stopped: known.stopped,
            resumed,
            instrs: loss.instrs,
        }));
        self
    }

    /// True if another finding is about the same fault: what carries a trace and who reads the trace may both meet it.
    pub fn is_same_fault(&self, other: &Finding) -> bool {
        self.rule == other.rule
            && (self.place.offset.is_some() || self.message == other.message)
            && (&self.place.file, self.place.offset) == (&other.place.file, other.place.offset)
    }

    /// The same fault as it ended reading: with the record that was reached.
    pub fn met_at_end(self, end: &Error) -> Finding {
        let loss = end.loss().cloned().or(self.loss.as_deref().cloned());
        let found = Finding { place: end.place().clone(), ..self };
        match loss {
            Some(loss) => found.clone().losing(Loss { stopped: found.place, ..loss }),
            None => found,
        }
    }

    /// Of what was found first, that which another look has not met; both may meet damage of what carries a trace.
    pub fn not_met(first: &[Finding], met: &[Finding]) -> Vec<Finding> {
        let is_met = |finding: &&Finding| met.iter().any(|known| known.is_same_fault(finding));
        first.iter().filter(|finding| !is_met(finding)).cloned().collect()
    }

    /// The same for a loss that the trace itself states.
    #[cold]
    pub fn stated(self) -> Finding {
        Finding { is_stated: true, ..self }
    }

    /// True for what makes output doubtful: an error that is about the bytes of the trace.
    pub fn is_damage(&self) -> bool {
        self.severity == Severity::Error && !self.is_stated
    }

    /// True if reading stopped there since only a newer program understands what follows. What precedes it is delivered, and
    /// every verb ends with exit code 2.
    pub fn needs_newer(&self) -> bool {
        is_called(&self.rule, NEEDS_NEWER)
    }

    /// A file that ends too soon. What stands before its end is good; what followed is lost, so this is an error.
    #[cold]
    pub fn of_cut_file(error: &Error) -> Finding {
        let place = error.place().clone();
        let loss = error.loss().cloned().unwrap_or_else(|| Loss::from(place.clone()));
        Finding::new(CUT, Severity::Error, place, error.message().to_owned()).losing(loss)
    }

    /// What stands before the message of an error that ended reading.
    pub(crate) const STOPS: &str = "reading stops here: ";

    /// An error that ended reading, beside another one: what follows it is lost.
    #[cold]
    pub fn of_end(error: &Error) -> Finding {
        let message = format!("{}{}", Finding::STOPS, error.message_and_cause());
        let finding = Finding::new("engine/unreadable", Severity::Error, error.place().clone(), message);
        finding.losing(error.loss_or_rest())
    }

    /// True if the container is damaged, so that all since its last good checksum is doubtful. A cut is no such damage: what
    /// stands before it is good.
    pub fn is_of_container(&self) -> bool {
        is_of_container(&self.rule)
    }

    /// The finding as an error, for callers that stop at the first.
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

/// The short name of the rules, whatever their format, which say that only a newer program can read on.
pub const NEEDS_NEWER: &str = "needs-newer-program";

/// The rule that a container broke which ends too soon.
const CUT: &str = "source/truncated";

/// True if a container that broke this rule makes doubtful all since its last good checksum.
pub(crate) fn is_of_container(rule: &str) -> bool {
    rule.starts_with("source/") && rule != CUT
}

/// The rule that a container broke which cannot be read on.
pub fn source_rule(kind: quipu_source::ErrorKind) -> &'static str {
    match kind {
        quipu_source::ErrorKind::Truncated => CUT,
        quipu_source::ErrorKind::Unsupported => "source/unsupported",
        quipu_source::ErrorKind::Limit => "source/limit",
        _ => "source/malformed",
    }
}

/// How many findings of one rule are kept one by one; the rest are only counted.
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
    /// Adds one violation; `describe` runs only if it is kept.
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

    /// Adds a finding made elsewhere, with its count. One that names the record of a fault takes the place of one that does
    /// not: what carries a trace is looked at before the trace is read.
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

    /// Reads to the end, and takes what was found out of each batch before `take` has it.
    ///
    /// # Errors
    /// Those of the reader and of `take`, which end it; what was found before stays.
    pub fn read(
        &mut self,
        reader: &mut dyn Reader,
        take: impl FnMut(&mut Batch) -> Result<()>,
    ) -> Result<()> {
        self.read_until(reader, &|| false, take)
    }

    /// The same, or until it is cancelled.
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

    /// Adds to the rule's count and returns how many there were before.
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

    /// True if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// How many violations there were in all.
    pub fn total(&self) -> u64 {
        self.rules.iter().map(|(_, count)| count).sum()
    }

    /// The worst severity, if anything was found.
    pub fn worst(&self) -> Option<Severity> {
        self.kept.iter().map(|finding| finding.severity).max()
    }

    /// The findings kept so far, in the order of discovery.
    pub fn as_slice(&self) -> &[Finding] {
        &self.kept
    }

    /// The findings, in the order of discovery; the last of each rule carries the count of those not kept.
    pub fn into_vec(self) -> Vec<Finding> {
        self.kept
    }
}
