//! The one error of all Quipu libraries, and the place in a trace that it points at.
//!
//! An [`Error`] means that an operation could not continue. A fault of a trace after which reading *can* continue is a
//! [`Finding`] instead. The layer that knows the offset adds it, and the layer that knows the file adds that; nothing is
//! formatted before something has gone wrong.

use crate::finding::{Finding, NEEDS_NEWER, is_called, is_of_container, source_rule};
use crate::loss::Loss;
use crate::number::grouped;
use crate::result;
use std::error::Error as StdError;
use std::fmt;

/// The result of every fallible function of the Quipu libraries.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of failure. Callers match on this; the rest is for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused (missing file, no permission, broken device).
    Io,
    /// The bytes contradict the format.
    Malformed,
    /// The bytes end too early.
    Truncated,
    /// The trace is so damaged that nothing of it can be read, or the caller wants no output from damaged traces. The
    /// findings say what is wrong.
    Damaged,
    /// The request or trace is legal, but Quipu cannot handle it.
    Unsupported,
    /// A number in the input exceeds a documented limit.
    Limit,
    /// The trace lacks something that the caller asked for.
    Missing,
    /// The caller's request is wrong.
    Usage,
    /// A bug in Quipu.
    Internal,
}

impl ErrorKind {
    /// A stable lower-case name, as JSON output uses it.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Io => "io",
            ErrorKind::Malformed => "malformed",
            ErrorKind::Truncated => "truncated",
            ErrorKind::Damaged => "damaged",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Limit => "limit",
            ErrorKind::Missing => "missing",
            ErrorKind::Usage => "usage",
            ErrorKind::Internal => "internal",
        }
    }
}

result! {
    /// A place in a trace, as exactly as it is known.
    ///
    /// Offsets count bytes of the *inflated* stream of the member (or of the file if it has no members). Ordinals
    /// count from the start of the shard, from 0: `record` is the number of records that tools see before the place, so
    /// that `view` prints the record there with a number that is larger by 1; `instr` is the number of instructions.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Place {
        pub file: Option<String> => "The file.";
        pub member: Option<String> => "The archive member inside the file.";
        pub offset: Option<u64> => "Byte offset in the inflated stream of the member.";
        pub record: Option<u64> => "Number of records before the place.";
        pub instr: Option<u64> => "Instruction ordinal.";
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wrote = false;
        if let Some(file) = &self.file {
            f.write_str(file)?;
            wrote = true;
        }
        if let Some(member) = &self.member {
            write!(f, "({member})")?;
            wrote = true;
        }
        let mut glue = if wrote { ": " } else { "" };
        if let Some(offset) = self.offset {
            write!(f, "{glue}offset {offset:#x}")?;
            glue = ", ";
        }
        if let Some(record) = self.record {
            write!(f, "{glue}record {record}")?;
            glue = ", ";
        }
        if let Some(instr) = self.instr {
            write!(f, "{glue}instr {instr}")?;
        }
        Ok(())
    }
}

impl Place {
    /// True if nothing about the place is known.
    pub fn is_empty(&self) -> bool {
        *self == Place::default()
    }

    /// Fills in what is unknown here from `outer`, a place known to the caller.
    pub fn or(mut self, outer: &Place) -> Place {
        self.file = self.file.or_else(|| outer.file.clone());
        self.member = self.member.or_else(|| outer.member.clone());
        self.offset = self.offset.or(outer.offset);
        self.record = self.record.or(outer.record);
        self.instr = self.instr.or(outer.instr);
        self
    }
}

/// The reason why an operation could not continue; one word wide.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    place: Place,
    message: String,
    hint: Option<String>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
    loss: Option<Loss>,
    findings: Vec<Finding>,
}

impl Error {
    /// Creates an error of `kind`. The message is lower case, without a full stop and without the place.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            place: Place::default(),
            message: message.into(),
            hint: None,
            cause: None,
            loss: None,
            findings: Vec::new(),
        }))
    }

    /// Creates an error of kind `Malformed`: the bytes contradict the format.
    #[cold]
    pub fn malformed(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Malformed, message)
    }

    /// Creates an error of kind `Truncated`: the bytes end too early.
    #[cold]
    pub fn truncated(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Truncated, message)
    }

    /// Creates an error of kind `Unsupported`: legal, but Quipu cannot handle it.
    #[cold]
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Creates an error of kind `Usage`: the caller's request is wrong.
    #[cold]
    pub fn usage(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Usage, message)
    }

    /// Creates an error of kind `Missing`: the trace lacks something that the caller asked for.
    #[cold]
    pub fn missing(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Missing, message)
    }

    /// Creates an error of kind `Limit`: a number from the input exceeds a documented limit. `what` is a noun in the plural.
    #[cold]
    pub fn limit(what: &str, found: u64, limit: u64) -> Error {
        let (found, limit) = (grouped(found), grouped(limit));
        Error::new(ErrorKind::Limit, format!("too many {what}: {found}, limit {limit}"))
    }

    /// Adds the place; parts of it that the error already has stay.
    #[cold]
    pub fn at(mut self, place: &Place) -> Error {
        self.0.place = std::mem::take(&mut self.0.place).or(place);
        self
    }

    /// Sets the place of an error with which a container ended reading at `reached`: that place, or an earlier one from which
    /// on no right checksum vouches for the bytes. `count` reads again and returns the number of records before the latter.
    /// Bytes from a pipe cannot be read again, so the message then says that numbers from that place on are doubtful.
    #[cold]
    pub fn of_unsound(
        mut self,
        container: &quipu_source::Container,
        reached: Place,
        count: &dyn Fn() -> Option<u64>,
    ) -> Error {
        let good = good_until(container).filter(|good| Some(*good) < reached.offset);
        let Some(good) = good.filter(|_| self.kind() == ErrorKind::Malformed) else {
            return self.at(&reached);
        };
        let can_read_again = container.source().can_seek();
        let record = match good {
            0 => Some(0),
            _ if can_read_again => count(),
            _ => None,
        };
        if !can_read_again {
            let from =
                record.map_or_else(|| format!("offset {good:#x}"), |record| format!("record {record}"));
            self.0.message = format!("{}; all numbers from {from} on are doubtful", self.0.message);
        }
        self.0.place = Place { offset: Some(good), record, ..self.0.place };
        self.at(&Place { offset: None, record: None, ..reached })
    }

    /// Adds the file, unless one is known.
    #[cold]
    pub fn in_file(self, file: impl Into<String>) -> Error {
        self.at(&Place { file: Some(file.into()), ..Place::default() })
    }

    /// Adds advice on what the person can do.
    #[cold]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.0.hint = Some(hint.into());
        self
    }

    /// Adds the error that caused this one.
    #[cold]
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.cause = Some(cause.into());
        self
    }

    /// Adds how much of the trace is lost because of it.
    #[cold]
    pub fn losing(mut self, loss: Loss) -> Error {
        self.0.loss = Some(loss);
        self
    }

    /// The part of the trace that is lost because of it, if known.
    pub fn loss(&self) -> Option<&Loss> {
        self.0.loss.as_ref()
    }

    /// The part of the trace that is lost because of it; everything after its place unless the error says otherwise.
    pub fn loss_or_rest(&self) -> Loss {
        self.loss().cloned().unwrap_or_else(|| Loss::from(self.place().clone()))
    }

    /// Adds the findings of what was read before the error, in front of those that it has.
    #[cold]
    pub fn after(mut self, mut findings: Vec<Finding>) -> Error {
        findings.append(&mut self.0.findings);
        self.0.findings = findings;
        self
    }

    /// Replaces the findings.
    #[cold]
    pub fn with_findings(mut self, findings: Vec<Finding>) -> Error {
        self.0.findings = findings;
        self
    }

    /// The findings of what was read before the error.
    pub fn findings(&self) -> &[Finding] {
        &self.0.findings
    }

    /// True if the input is damaged; false if the request or the machine is at fault.
    pub fn is_damage(&self) -> bool {
        use ErrorKind::{Damaged, Limit, Malformed, Truncated};
        matches!(self.kind(), Damaged | Limit | Malformed | Truncated)
    }

    /// True if reading stopped because only a [newer program](Finding::needs_newer) understands what follows.
    pub fn needs_newer(&self) -> bool {
        let of_carrier = self.of_source().and_then(quipu_source::Error::carrier);
        let cause = self.0.cause.as_ref().and_then(|cause| cause.downcast_ref::<Error>());
        of_carrier.is_some_and(|damage| is_called(damage.rule, NEEDS_NEWER))
            || self.findings().iter().any(Finding::needs_newer)
            || cause.is_some_and(Error::needs_newer)
    }

    /// True if the container is damaged, so that everything since its last good checksum is doubtful. Truncation is not such
    /// damage: the bytes before the cut are good.
    pub fn is_of_container(&self) -> bool {
        // In a file that carries the trace, each frame has its own checksum.
        let is_whole = |cause: &quipu_source::Error| cause.carrier().is_none();
        let cause = self.of_source().filter(|cause| is_whole(cause));
        self.is_damage() && cause.is_some_and(|cause| is_of_container(source_rule(cause.kind())))
    }

    /// True if a finding is about the same fault: the file that carries a trace and the trace's reader may both report it.
    pub fn is_same_fault(&self, finding: &Finding) -> bool {
        let place = self.place();
        let is_same_place = (&place.file, place.offset) == (&finding.place.file, finding.place.offset);
        // A reader that the fault stopped has made it a finding of its own.
        let said = finding.message.strip_prefix(Finding::STOPS).unwrap_or(&finding.message);
        is_same_place && self.message_and_cause().contains(said)
    }

    /// The error of the source of the bytes, if that is the cause.
    pub fn of_source(&self) -> Option<&quipu_source::Error> {
        self.0.cause.as_ref()?.downcast_ref()
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The place, as far as it is known.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The message, without the place.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The message, followed by the system's error if a read or write failed: for a finding, which has no cause of its own.
    pub fn message_and_cause(&self) -> String {
        match &self.0.cause {
            Some(cause) if self.0.kind == ErrorKind::Io => format!("{}: {cause}", self.0.message),
            _ => self.0.message.clone(),
        }
    }

    /// Advice on what the person can do.
    pub fn advice(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.place.is_empty() {
            write!(f, "{}: ", self.0.place)?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("place", &self.0.place)
            .field("message", &self.0.message)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.cause.as_deref().map(|cause| cause as &(dyn StdError + 'static))
    }
}

impl From<&quipu_source::Error> for Place {
    fn from(error: &quipu_source::Error) -> Place {
        Place {
            file: (!error.file().is_empty()).then(|| error.file().to_owned()),
            member: error.member().map(|(_, name)| name.to_owned()),
            offset: error.offset(),
            record: None,
            instr: None,
        }
    }
}

/// The file and offset at which the file that carries a trace is damaged.
impl From<&quipu_source::CarrierDamage> for Place {
    fn from(damage: &quipu_source::CarrierDamage) -> Place {
        Place { file: Some(damage.file.clone()), offset: damage.offset, ..Place::default() }
    }
}

impl From<quipu_source::Error> for Error {
    #[cold]
    fn from(error: quipu_source::Error) -> Error {
        use quipu_source::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::Io => ErrorKind::Io,
            Kind::Missing => ErrorKind::Missing,
            Kind::Truncated => ErrorKind::Truncated,
            Kind::Malformed => ErrorKind::Malformed,
            Kind::Unsupported => ErrorKind::Unsupported,
            Kind::Limit => ErrorKind::Limit,
            Kind::Usage => ErrorKind::Usage,
            Kind::Internal => ErrorKind::Internal,
        };
        let Some(damage) = error.carrier() else {
            return Error::new(kind, error.what()).at(&Place::from(&error)).because(error);
        };
        // Report what cannot be read in terms of the file on the disk, which carries the trace.
        let place = Place::from(damage);
        let loss = Loss::by_carrier(damage, place.clone());
        Error::new(kind, damage.what.clone()).at(&place).losing(loss).because(error)
    }
}

/// Offset of the first byte that no right checksum vouches for, counted over all members; `None` if no member is known to be
/// damaged.
fn good_until(container: &quipu_source::Container) -> Option<u64> {
    let mut before = 0u64;
    for (at, member) in (0..).zip(container.members()) {
        if let Some(good) = container.good_until(at) {
            return Some(before.saturating_add(good));
        }
        before = before.saturating_add(member.len?);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_source::{Container, PackOptions, Packer, Packing, Pool, Source, StreamOptions};
    use std::io::Cursor;

    #[test]
    fn the_text_has_place_then_message() {
        let place = Place {
            member: Some("chunk.0001".into()),
            offset: Some(0x1f40),
            record: Some(812),
            ..Place::default()
        };
        let error = Error::malformed("entry type `77` is unknown").at(&place).in_file("a.zip");
        assert_eq!(
            error.to_string(),
            "a.zip(chunk.0001): offset 0x1f40, record 812: entry type `77` is unknown"
        );
        assert_eq!(error.kind(), ErrorKind::Malformed);
    }

    #[test]
    fn the_inner_layer_wins_over_the_outer_one() {
        let error = Error::truncated("ends").in_file("inner").in_file("outer");
        assert_eq!(error.place().file.as_deref(), Some("inner"));
    }

    /// Bytes in each packed part; the contents of the parts differ.
    const PART_BYTES: usize = 1000;

    /// Two different parts, each in a member of its own, or in a file of its own if the container has no members.
    fn packed(packing: Packing) -> [Vec<u8>; 2] {
        let pool = Pool::new(1).unwrap();
        let part = |nth: u8| (0..PART_BYTES).map(|i| (i as u8).wrapping_mul(31) ^ nth).collect::<Vec<u8>>();
        let pack = |parts: &[u8]| {
            let mut packer = Packer::new(Cursor::new(Vec::new()), &pool, &PackOptions::new(packing));
            for nth in parts {
                packer.member(&nth.to_string()).unwrap();
                packer.write(&part(*nth)).unwrap();
            }
            packer.finish().unwrap().0.into_inner()
        };
        if packing == Packing::Zip { [pack(&[1, 2]), Vec::new()] } else { [pack(&[1]), pack(&[2])] }
    }

    /// Reads everything; returns the number of bytes and the error that ended reading.
    fn read(container: &Container) -> (u64, Error) {
        let mut stream = container.stream(container.all_members(), &StreamOptions::default()).unwrap();
        let (mut block, mut n_bytes) = (Vec::new(), 0);
        loop {
            match stream.next(&mut block) {
                Ok(Some(_)) => n_bytes += block.len() as u64,
                Ok(None) => panic!("nothing is damaged"),
                Err(error) => return (n_bytes, Error::from(error)),
            }
        }
    }

    fn at(offset: u64) -> Place {
        Place { offset: Some(offset), record: Some(99), ..Place::default() }
    }

    #[test]
    fn damage_in_any_member_is_placed_where_good_bytes_end() {
        let [mut zip, _] = packed(Packing::Zip);
        let second = zip.windows(4).rposition(|bytes| bytes == b"PK\x03\x04").unwrap();
        // The name has one byte, and the extra field may follow it.
        let n_extra = usize::from(zip[second + 28]);
        zip[second + 30 + 1 + n_extra + 20] ^= 0xff;
        let container = Source::from_bytes("a.zip", zip).container().unwrap();
        let untouched = Error::malformed("odd").of_unsound(&container, at(1500), &|| Some(7));
        assert_eq!((untouched.place().offset, untouched.place().record), (Some(1500), Some(99)));
        let (_, error) = read(&container);
        let good = PART_BYTES as u64 + container.good_until(1).unwrap();
        let error = error.of_unsound(&container, at(5000), &|| Some(7));
        assert_eq!((error.place().offset, error.place().record), (Some(good), Some(7)), "{error}");
        assert!(!error.message().contains("doubtful"), "{error}");
        // An error before the damage is not due to it, and neither is a truncated end.
        let before = Error::malformed("odd").of_unsound(&container, at(10), &|| Some(7));
        assert_eq!((before.place().offset, before.place().record), (Some(10), Some(99)));
        let cut = Error::truncated("ends").of_unsound(&container, at(5000), &|| Some(7));
        assert_eq!((cut.place().offset, cut.place().record), (Some(5000), Some(99)));
    }

    #[test]
    fn numbers_of_a_pipe_are_doubtful_from_the_place_where_good_bytes_end() {
        let [first, mut second] = packed(Packing::Gzip);
        let sum = second.len() - 8;
        second[sum] ^= 0xff;
        let pipe = Source::from_reader("pipe", Cursor::new([first, second].concat()));
        let container = pipe.container().unwrap();
        let (_, error) = read(&container);
        assert_eq!(container.good_until(0), Some(PART_BYTES as u64));
        let error = error.of_unsound(&container, at(5000), &|| panic!("a pipe is read once"));
        assert_eq!((error.place().offset, error.place().record), (Some(PART_BYTES as u64), None), "{error}");
        assert!(error.message().ends_with("; all numbers from offset 0x3e8 on are doubtful"), "{error}");
    }

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
