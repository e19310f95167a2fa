//! Turns blocks of a stream into events: joins the bytes of an event that lies across blocks.

use crate::check::rules;
use crate::decode::skim::{Skimmed, Skimmer};
use crate::decode::{Decoded, Decoder, Event, Fault, Header, Stop, header};
use crate::record::MAX_EVENT_BYTES;
use crate::salvage::RUN_BYTES;
use crate::trace::{HEADER_BYTES, Opened, assumed_header};
use quipu_model::harmless::shell_word;
use quipu_model::loss::Amount;
use quipu_model::values::{Types, Values};
use quipu_model::{Error, ErrorKind, Finding, Found, Loss, Place, Result, RuleInfo, Severity};
use quipu_records::feed;
use quipu_source::{Container, Landmark, StreamOptions};
use std::ops::Range;

/// A consumer of bytes that reads events, such as a decoder.
pub trait Machine {
    /// The result of an event.
    type Out;

    /// Reads the event at `at`; returns its result and the offset of the next. After an error the state is unchanged.
    ///
    /// # Errors
    /// If the event is incomplete or malformed.
    fn event(&mut self, input: &[u8], at: usize) -> Decoded<(Self::Out, usize)>;

    /// Does the same for events in the common form that are completely buffered; otherwise changes nothing.
    fn common(&mut self, _input: &[u8], _at: usize) -> Option<(Self::Out, usize)> {
        None
    }

    /// Tells the machine that the bytes are about to be discarded.
    ///
    /// # Errors
    /// The number of bytes, if the machine would have to keep too many of them.
    fn leave_block(&mut self, _input: &[u8]) -> Result<(), u64> {
        Ok(())
    }

    /// Number of calls entered so far, for messages.
    fn n_entered(&self) -> u64;

    /// Number of calls left so far, for machines that count them.
    fn n_left(&self) -> Option<u64> {
        None
    }

    /// Number of the call that an event left without its being open, for machines whose reading ends where calls are
    /// misnumbered.
    fn unmatched(&mut self, _out: &Self::Out) -> Option<u64> {
        None
    }

    /// Number of open calls, for machines that do not count the calls left.
    fn n_open(&self) -> Option<u64> {
        None
    }

    /// Sets the number of the next call.
    fn set_next_call(&mut self, _number: u64) {}

    /// After a gap in the stream, looks for the first run of events that begins in the first `n_looked` bytes: returns its
    /// offset and the number of the first call that it enters. The machine is then prepared for it. Machines that need all
    /// bytes of a stream return `None`.
    fn resume(&mut self, _input: &[u8], _n_looked: usize) -> Option<(usize, u64)> {
        None
    }

    /// Whether this kind of machine can continue after lost bytes.
    fn can_resume(&self) -> bool {
        false
    }

    /// Whether the events that follow show that calls are misnumbered. Does not change the state.
    fn is_misnumbered(&mut self, _input: &[u8]) -> bool {
        false
    }
}

/// A decoder with its outputs.
#[derive(Debug)]
pub struct Storing<'a> {
    /// The decoder.
    pub decoder: &'a mut Decoder,
    /// Receives calls and values.
    pub out: &'a mut Values,
    /// Receives types.
    pub types: &'a mut Types,
    /// Number of calls left before those in `out`.
    pub n_before: u64,
}

impl Machine for Storing<'_> {
    type Out = Event;

    #[inline]
    fn event(&mut self, input: &[u8], at: usize) -> Decoded<(Event, usize)> {
        self.decoder.event(input, at, self.out, self.types)
    }

    #[inline(always)]
    fn common(&mut self, input: &[u8], at: usize) -> Option<(Event, usize)> {
        self.decoder.common(input, at, self.out).map(|next| (Event::Left, next))
    }

    fn n_entered(&self) -> u64 {
        self.decoder.n_entered()
    }

    fn n_left(&self) -> Option<u64> {
        Some(self.n_before + self.out.calls.len() as u64)
    }

    fn unmatched(&mut self, out: &Event) -> Option<u64> {
        match out {
            Event::Unmatched(number) => Some(*number),
            Event::Entered | Event::Left => None,
        }
    }

    fn is_misnumbered(&mut self, input: &[u8]) -> bool {
        self.decoder.is_misnumbered(input, self.types)
    }

    fn can_resume(&self) -> bool {
        true
    }

    fn set_next_call(&mut self, number: u64) {
        self.decoder.set_next_call(number);
    }

    fn resume(&mut self, input: &[u8], n_looked: usize) -> Option<(usize, u64)> {
        self.decoder.resume_after_gap(input, n_looked, self.types)
    }
}

impl Machine for Skimmer {
    type Out = Option<Skimmed>;

    #[inline]
    fn event(&mut self, input: &[u8], at: usize) -> Decoded<(Option<Skimmed>, usize)> {
        Skimmer::event(self, input, at)
    }

    #[inline(always)]
    fn common(&mut self, input: &[u8], at: usize) -> Option<(Option<Skimmed>, usize)> {
        Skimmer::common(self, input, at).map(|(call, next)| (Some(call), next))
    }

    fn leave_block(&mut self, input: &[u8]) -> Result<(), u64> {
        Skimmer::leave_block(self, input)
    }

    fn n_entered(&self) -> u64 {
        Skimmer::n_entered(self)
    }

    fn unmatched(&mut self, _: &Option<Skimmed>) -> Option<u64> {
        self.take_unmatched()
    }

    fn is_misnumbered(&mut self, input: &[u8]) -> bool {
        Skimmer::is_misnumbered(self, input)
    }

    fn n_open(&self) -> Option<u64> {
        Some(Skimmer::n_open(self))
    }

    fn can_resume(&self) -> bool {
        true
    }

    fn set_next_call(&mut self, number: u64) {
        Skimmer::set_next_call(self, number);
    }

    fn resume(&mut self, input: &[u8], n_looked: usize) -> Option<(usize, u64)> {
        self.resume_after_gap(input, n_looked)
    }
}

/// A stream being read by a decoder or another machine.
#[derive(Debug)]
pub struct Feed {
    file: String,
    container: Container,
    bytes: feed::Feed,
    /// True once the error of the container was returned.
    has_failed: bool,
    /// True if this feed only counts the calls before known damage.
    is_counting: bool,
    /// Offset in the file where a second stream failed, which was read up to a checksum.
    failed_at: Option<u64>,
    header: Option<Header>,
    found: Found,
    /// Calls that were left before they were entered, with their places.
    unentered: Unentered,
    /// Ranges of calls that are lost because the part of the stream that enters them is.
    lost: Vec<Range<u64>>,
    /// Whether reading ends where a part of the stream is lost.
    ends_at_gaps: bool,
}

/// Calls that were left and not entered before: numbers and places, limited to `MAX_UNENTERED`.
pub(crate) type Unentered = Vec<(u64, Place)>;

/// Maximum number of unentered calls that are reported individually.
pub(crate) const MAX_UNENTERED: usize = 4096;
/// Number of bytes to buffer after an event that contradicts others, so that the following events can decide.
pub(crate) const EVIDENCE_BYTES: usize = 128 << 10;

impl Feed {
    /// A feed from the beginning of a container.
    pub fn new(container: &Container, options: &StreamOptions) -> Result<Feed> {
        Ok(Feed::of(container, feed::Feed::new(container, options)?, None))
    }

    fn of(container: &Container, bytes: feed::Feed, header: Option<Header>) -> Feed {
        Feed {
            file: container.name().to_owned(),
            container: container.clone(),
            bytes,
            has_failed: false,
            is_counting: false,
            failed_at: None,
            header,
            found: Found::default(),
            unentered: Unentered::new(),
            lost: Vec::new(),
            ends_at_gaps: false,
        }
    }

    /// A feed from the middle: from `offset` of the stream, which is at or after the landmark.
    ///
    /// # Errors
    /// If the container cannot be read there.
    pub fn from_landmark(
        container: &Container,
        options: &StreamOptions,
        header: &Header,
        landmark: &Landmark,
        offset: u64,
    ) -> Result<Feed> {
        let bytes = feed::Feed::at_place(container, landmark.packed_at, landmark.at, options)?;
        let mut feed = Feed::of(container, bytes, Some(header.clone()));
        let mut nobody = Skimmer::new(header);
        while feed.n_bytes() < offset {
            feed.bytes.use_up(usize::MAX);
            if !feed.more(1, &mut nobody)? {
                break;
            }
        }
        let n_before = offset.saturating_sub(feed.offset());
        feed.bytes.use_up(usize::try_from(n_before).unwrap_or(usize::MAX));
        Ok(feed)
    }

    /// Makes reading end where a part of the stream is lost, even with machines that can continue.
    pub(crate) fn ending_at_gaps(mut self) -> Feed {
        self.ends_at_gaps = true;
        self
    }

    /// Reads the header, unless that was done; false if the data is empty.
    ///
    /// # Errors
    /// If the header is malformed.
    pub fn begin(&mut self) -> Result<bool> {
        let mut nobody = Skimmer::new(&Header::default());
        while self.header.is_none() {
            match header(self.bytes.unused()) {
                Ok((header, end)) => {
                    self.bytes.use_up(end);
                    self.header = Some(header);
                }
                Err(Stop::More(n_bytes)) => {
                    if !self.more(n_bytes, &mut nobody)? {
                        self.end(0)?;
                        return Ok(false);
                    }
                }
                Err(Stop::Bad(mut fault)) => {
                    self.fetch(HEADER_BYTES, &mut nobody)?;
                    // A version that is certainly newer than this program is refused before it is read.
                    if let Ok(Opened { damage: Some(why), newer, .. }) = assumed_header(self.bytes.unused()) {
                        fault.kind = ErrorKind::Malformed;
                        if newer.is_none() {
                            fault.message = format!("the header of the stream is damaged ({why})");
                        }
                    }
                    let error = self.place(&fault, 0);
                    return Err(self.blame(error));
                }
            }
        }
        Ok(true)
    }

    /// Reads the next event; `None` at the end of the data. The header must have been read.
    ///
    /// # Errors
    /// If the stream or the event is damaged; no event after that can be read.
    #[inline]
    pub fn next<M: Machine>(&mut self, machine: &mut M) -> Result<Option<M::Out>> {
        match self.next_common(machine) {
            Some(out) => Ok(Some(out)),
            None => self.next_any(machine),
        }
    }

    /// Reads the next event if it is in the common form and buffered. PERF: the result stays in registers (`info`).
    #[inline(always)]
    pub fn next_common<M: Machine>(&mut self, machine: &mut M) -> Option<M::Out> {
        let (out, next) = machine.common(self.bytes.bytes(), self.bytes.at())?;
        self.bytes.go_to(next);
        Some(out)
    }

    /// Like [`Feed::next`], for use after [`Feed::next_common`] returned `None`.
    ///
    /// # Errors
    /// Those of [`Feed::next`].
    pub fn next_any<M: Machine>(&mut self, machine: &mut M) -> Result<Option<M::Out>> {
        loop {
            match machine.event(self.bytes.bytes(), self.bytes.at()) {
                Ok((out, next)) => {
                    let offset = self.offset();
                    self.bytes.go_to(next);
                    if let Some(number) = machine.unmatched(&out) {
                        self.judge_unmatched(number, offset, machine)?;
                    }
                    return Ok(Some(out));
                }
                Err(stop) => {
                    if !self.go_on(stop, machine)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Handles an event at `offset` that leaves a call which is not open.
    ///
    /// # Errors
    /// If damage merged several events into one, so that all later calls are misnumbered.
    #[cold]
    fn judge_unmatched<M: Machine>(&mut self, number: u64, offset: u64, machine: &mut M) -> Result<()> {
        if self.lost.iter().any(|lost| lost.contains(&number)) {
            return Ok(());
        }
        self.fetch(EVIDENCE_BYTES, machine)?;
        let n_entered = machine.n_entered();
        let place = Place { record: machine.n_left(), ..self.here(offset) };
        if number < n_entered {
            self.found.push(rules::LEFT_TWICE.broken(place, left_twice(number)));
        } else if machine.is_misnumbered(self.unused()) {
            let error = Error::malformed(swallowed(number, n_entered)).at(&self.here(offset));
            let error = recoverable(&self.file, error);
            return Err(self.blame(error));
        } else if self.unentered.len() < MAX_UNENTERED {
            self.unentered.push((number, place));
        }
        Ok(())
    }

    /// Gets more bytes after an incomplete event; false at the end of the data.
    #[cold]
    fn go_on<M: Machine>(&mut self, stop: Stop, machine: &mut M) -> Result<bool> {
        match stop {
            Stop::More(n_bytes) if self.more(n_bytes, machine)? => Ok(true),
            Stop::More(_) if self.pass_gap(machine)? => Ok(true),
            Stop::More(_) => self.end(machine.n_entered()).map(|()| false),
            Stop::Bad(fault) => {
                let error = self.place(&fault, machine.n_entered());
                Err(self.blame(error))
            }
        }
    }

    /// Continues with the next run of events after a part of the stream that its container has lost; false if nothing was
    /// lost, or no events follow.
    #[cold]
    fn pass_gap<M: Machine>(&mut self, machine: &mut M) -> Result<bool> {
        let stopped = self.n_bytes();
        let Some(error) = self.bytes.take_failure() else { return Ok(false) };
        let can_resume = machine.can_resume() && !self.ends_at_gaps && self.header.is_some();
        let resumed = match can_resume && error.is_damage() {
            true => {
                let before = std::mem::replace(&mut self.bytes, feed::Feed::pushed());
                let found = self.find_events(machine, stopped)?;
                if found.is_none() {
                    self.bytes = before;
                }
                found
            }
            false => None,
        };
        let Some((offset, number)) = resumed else {
            self.bytes.put_back(error);
            return Ok(false);
        };
        let n_entered = machine.n_entered();
        let n_lost_before: u64 = self.lost.iter().map(|lost| lost.end - lost.start).sum();
        let n_left = || Some(n_entered.saturating_sub(n_lost_before + machine.n_open()?));
        let place = Place { record: machine.n_left().or_else(n_left), ..self.here(stopped) };
        let resumed = Place { record: Some(number), ..self.here(offset) };
        let what = format!("{}; reading continues with call `{number}`", error.message());
        let loss = Loss {
            records: Amount::known(number.checked_sub(n_entered)),
            bytes: Amount::known(offset.checked_sub(stopped)),
            stopped: place.clone(),
            resumed: Some(resumed),
            ..Loss::default()
        };
        let finding = Finding::new(MALFORMED, Severity::Error, place, what).losing(loss);
        self.found.push(match error.of_source() {
            Some(cause) => finding.by_carrier(cause),
            None => finding,
        });
        self.lost.push(n_entered..number);
        machine.set_next_call(number);
        Ok(true)
    }

    /// Looks for events after the offset where the stream broke off: returns their offset and the number of the first call.
    fn find_events<M: Machine>(&mut self, machine: &mut M, stopped: u64) -> Result<Option<(u64, u64)>> {
        let mut bad = stopped;
        'parts: while let Some(next) = self.container.next_readable(0, bad) {
            self.bytes = feed::Feed::at_place(&self.container, next, next, &StreamOptions::default())?;
            loop {
                self.fetch(RUN_BYTES, machine)?;
                let input = self.bytes.unused();
                let is_all = input.len() < RUN_BYTES;
                let n_looked = if is_all { input.len() } else { input.len() / 2 };
                if let Some((at, number)) = machine.resume(input, n_looked) {
                    self.bytes.use_up(at);
                    return Ok(Some((self.offset(), number)));
                }
                self.bytes.use_up(n_looked);
                if is_all {
                    bad = self.n_bytes().max(next);
                    continue 'parts;
                }
            }
        }
        Ok(None)
    }

    /// The buffered bytes that are not consumed yet.
    pub(crate) fn unused(&self) -> &[u8] {
        self.bytes.unused()
    }

    /// Skips unconsumed bytes.
    pub(crate) fn give_up(&mut self, n_bytes: usize) {
        self.bytes.use_up(n_bytes);
    }

    /// Gets more bytes until `n_bytes` are unconsumed, or until the data ends.
    pub(crate) fn fetch<M: Machine>(&mut self, n_bytes: usize, machine: &mut M) -> Result<()> {
        while self.unused().len() < n_bytes {
            let missing = (n_bytes - self.unused().len()) as u64;
            if !self.more(missing, machine)? {
                break;
            }
        }
        Ok(())
    }

    /// True if the container failed, rather than an event.
    pub(crate) fn is_failed(&self) -> bool {
        self.has_failed
    }

    /// True if no bytes follow the buffered ones.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes.is_over()
    }

    /// Offset in the file where the container failed, if it did and the offset is known.
    pub(crate) fn failed_at(&self) -> Option<u64> {
        self.failed_at.or(self.bytes.failed_at())
    }

    /// Stores a failure so that the next read returns it.
    pub(crate) fn put_back(&mut self, failure: Error) {
        self.bytes.put_back(failure);
        self.has_failed = false;
    }

    /// Takes the failure of the stream; `None` if there is none.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.bytes.take_failure()
    }

    /// Inserts bytes before the buffered ones; none of the buffered ones may have been consumed.
    pub(crate) fn prepend(&mut self, bytes: &[u8]) {
        self.bytes.prepend(bytes);
    }

    /// Continues as if `header` had been read.
    pub(crate) fn assume(&mut self, header: &Header) {
        self.header = Some(header.clone());
    }

    /// Reads another header at the current position, in the middle of the stream.
    pub(crate) fn begin_again(&mut self) -> Result<bool> {
        self.header = None;
        self.begin()
    }

    /// The bytes consumed since `offset` of the stream, as far as they are still buffered.
    pub fn used_since(&self, offset: u64) -> &[u8] {
        let (base, at) = (self.bytes.base(), self.bytes.at());
        let start = usize::try_from(offset.saturating_sub(base)).unwrap_or(usize::MAX).min(at);
        &self.bytes.bytes()[start..at]
    }

    /// All buffered bytes, consumed ones included.
    pub(crate) fn at_hand(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// The header of the stream; a default before it was read.
    pub fn header(&self) -> &Header {
        static NONE: Header = Header { version: 0, semantic_version: 0, properties: Vec::new() };
        self.header.as_ref().unwrap_or(&NONE)
    }

    /// Number of bytes of the stream that are consumed.
    pub fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    /// Number of bytes of the stream that were read so far, buffered ones included.
    pub fn n_bytes(&self) -> u64 {
        self.bytes.base() + self.bytes.bytes().len() as u64
    }

    /// Takes the findings so far.
    pub fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.found).into_vec()
    }

    /// The error for open calls that together take too much memory.
    pub fn too_much_pending(&self, n_bytes: u64) -> Error {
        let limit = crate::record::MAX_PENDING_BYTES as u64;
        Error::limit("bytes in calls that were entered and not left", n_bytes, limit)
            .at(&self.here(self.offset()))
    }

    /// Gets whole blocks with at least `n_bytes` more, limited to the number of bytes already unused (but at least 1). False
    /// at the end of the data.
    fn more<M: Machine>(&mut self, n_bytes: u64, machine: &mut M) -> Result<bool> {
        if let Err(n_bytes) = machine.leave_block(self.bytes.bytes()) {
            return Err(self.too_much_pending(n_bytes));
        }
        let n_before = self.unused().len();
        if n_before > MAX_EVENT_BYTES {
            let (limit, offset) = (MAX_EVENT_BYTES as u64, self.offset());
            return Err(Error::limit("bytes in one event", n_before as u64, limit).at(&self.here(offset)));
        }
        let n_more = usize::try_from(n_bytes).unwrap_or(usize::MAX).min(n_before).max(1);
        Ok(self.bytes.more_blocks(n_before + n_more))
    }

    /// Handles the end of the data: after a cut, all that precedes it is valid.
    fn end(&mut self, n_entered: u64) -> Result<()> {
        let mut is_cut_file = false;
        if let Some(error) = self.bytes.take_failure() {
            if error.kind() != ErrorKind::Truncated {
                self.has_failed = true;
                let reached = self.here(self.n_bytes());
                let error = error.of_unsound(&self.container, reached, &|| self.count_sound());
                return Err(recoverable(&self.file, error));
            }
            is_cut_file = true;
            self.found.push(Finding::of_cut_file(&error));
        }
        for (number, place) in std::mem::take(&mut self.unentered) {
            let (rule, what) = left_unentered(number, n_entered);
            self.found.push(rule.broken(place, what));
        }
        let is_empty = self.unused().is_empty();
        let place = self.here(self.bytes.base());
        let what = match &self.header {
            None if is_empty => {
                let what = "there is nothing in the trace: it ends before its first call was stored";
                self.found.push(rules::EMPTY.broken(place, what.to_owned()));
                return Ok(());
            }
            Some(_) if is_empty => return Ok(()),
            None => "the trace ends within its header".to_owned(),
            Some(_) => format!("the trace ends within an event, after `{n_entered}` calls"),
        };
        // The finding of a truncated file already reports that its rest is lost.
        let cut = rules::CUT.broken(place.clone(), what);
        self.found.push(if is_cut_file { cut } else { cut.losing(Loss::from(place)) });
        Ok(())
    }

    /// Decides whether a malformed event is the fault of the container: a checksum after the event may show that the unpacked
    /// bytes are wrong. Reading stops at the event, so a second stream is read up to that checksum. Returns the error to
    /// report.
    #[cold]
    fn blame(&mut self, error: Error) -> Error {
        let is_checked = self.container.codec().vouches_late();
        let is_wanted = is_checked && self.container.delivers_sound_only() && !self.is_counting;
        if !is_wanted || !self.container.source().can_seek() {
            return error;
        }
        let options = StreamOptions::default();
        let Ok(mut stream) = self.container.stream(self.container.all_members(), &options) else {
            return error;
        };
        let mut block = Vec::new();
        let failure = loop {
            match stream.next(&mut block) {
                Ok(Some(_)) => {}
                Ok(None) => return error,
                Err(failure) => break failure,
            }
        };
        if self.container.good_until(0).is_none_or(|good| Some(good) >= error.place().offset) {
            return error;
        }
        self.has_failed = true;
        self.failed_at = failure.packed_offset();
        let reached = self.here(self.n_bytes());
        recoverable(
            &self.file,
            Error::from(failure).of_unsound(&self.container, reached, &|| self.count_sound()),
        )
    }

    /// Number of calls that end before the damage known in the container.
    #[cold]
    fn count_sound(&self) -> Option<u64> {
        let good_until = self.container.good_until(0).filter(|_| !self.is_counting)?;
        let mut feed = Feed::new(&self.container, &StreamOptions::default()).ok()?;
        feed.is_counting = true;
        feed.begin().ok()?;
        let mut skimmer = Skimmer::new(feed.header());
        let mut n_calls = 0;
        while feed.offset() < good_until {
            let Ok(Some(call)) = feed.next(&mut skimmer) else { break };
            n_calls += u64::from(call.is_some() && feed.offset() <= good_until);
        }
        Some(n_calls)
    }

    #[cold]
    fn place(&self, fault: &Fault, n_entered: u64) -> Error {
        let mut message = match n_entered.checked_sub(1) {
            Some(call) => format!("{}, after the entry of call `{call}`", fault.message),
            None => fault.message.clone(),
        };
        // Offsets of the fault are relative to the buffered bytes.
        let offset = self.bytes.base() + fault.at as u64;
        if let Some(chunk) = chunk_of(&self.container, offset) {
            message.push_str(&format!(", in chunk `{chunk}`"));
        }
        recoverable(&self.file, Error::new(fault.kind, message).at(&self.here(offset)))
    }

    fn here(&self, offset: u64) -> Place {
        Place { file: Some(self.file.clone()), offset: Some(offset), ..Place::default() }
    }
}

/// The rule for bytes that the container has lost; all formats share it.
const MALFORMED: &str = "source/malformed";

/// The message for a call that is left a second time.
pub(crate) fn left_twice(number: u64) -> String {
    format!("call `{number}` is left, which was left before")
}

/// The message for a call that is left after only `n_entered` calls were entered, if later events show that numbers are
/// wrong.
pub(crate) fn swallowed(number: u64, n_entered: u64) -> String {
    format!(
        "call `{number}` is left when `{n_entered}` calls were entered: the entries of others were taken for a part of a call before"
    )
}

/// The rule and message for a call that was left before it was entered, given the total number of calls.
pub(crate) fn left_unentered(number: u64, n_entered: u64) -> (&'static RuleInfo, String) {
    let (rule, what) = match number < n_entered {
        true => (&rules::LEFT_EARLY, "which is entered later"),
        false => (&rules::NEVER_ENTERED, "which is never entered"),
    };
    (rule, format!("call `{number}` is left, {what}"))
}

/// Adds a hint at `quipu recover` to the error of a damaged trace.
pub(crate) fn recoverable(file: &str, error: Error) -> Error {
    match error.kind() {
        // A number that exceeds a limit is probably damaged.
        ErrorKind::Malformed | ErrorKind::Limit if file == STANDARD_INPUT => {
            error.hint("`quipu recover` writes what can be saved of it, once it is in a file")
        }
        ErrorKind::Malformed | ErrorKind::Limit => {
            error.hint(format!("`quipu recover {} -o FILE` writes what can be saved of it", argument(file)))
        }
        _ => error,
    }
}

/// `quipu`'s name for a trace from standard input.
const STANDARD_INPUT: &str = "standard input";

/// The file name as a word for a shell that is not an option.
fn argument(file: &str) -> String {
    if file.starts_with('-') { shell_word(&format!("./{file}")) } else { shell_word(file) }
}

/// Index of the container's chunk or frame that holds an offset of the stream; `None` if there is only one.
pub(crate) fn chunk_of(container: &Container, offset: u64) -> Option<usize> {
    let landmarks = container.landmarks().ok().filter(|landmarks| landmarks.len() > 1)?;
    // After a gap offsets are unknown.
    let known = landmarks.iter().take_while(|landmark| !landmark.is_behind_gap);
    known.take_while(|landmark| landmark.at <= offset).count().checked_sub(1)
}
