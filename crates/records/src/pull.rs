//! The loop: reads records and delivers batches.

use crate::codec::{Ending, Input, RecordCodec, Resume, Step};
use crate::feed::Feed;
use crate::fill::Fill;
use quipu_model::batch::Span;
use quipu_model::{
    Amount, Batch, Error, ErrorKind, Finding, Loss, Place, Reader, Result, RuleInfo, Scan, Severity, ShardId,
    Window,
};
use quipu_source::{CarrierDamage, Codec, Container, StreamOptions};
use std::io;

/// A sequential read of records.
#[derive(Debug)]
pub struct Records<C: RecordCodec> {
    codec: C,
    state: C::State,
    /// `None` if the bytes are pushed.
    container: Option<Container>,
    pub(crate) feed: Feed,
    fill: Fill,
    batch_records: usize,
    window: Window,
    /// Number of records that may still be delivered.
    n_left: u64,
    /// Batches end before instructions whose ordinals are multiples of this.
    cut_instrs: Option<u64>,
    /// Whether a batch is under construction.
    is_begun: bool,
    /// Number of instructions before that batch.
    first_instr: u64,
    /// Number of bytes without a record skipped since the last batch.
    n_passed: usize,
    /// Whether the batch ends, even if it is empty, so that the caller can check for signals.
    is_look: bool,
    /// Bytes that are being skipped to find where records continue.
    losing: Option<Losing>,
    /// The error that the next read returns.
    fault: Option<Error>,
    is_over: bool,
}

/// Lost bytes, which are not records.
#[derive(Debug)]
struct Losing {
    rule: &'static RuleInfo,
    what: String,
    start: u64,
    /// Their number, if the codec knows it.
    skip: Option<usize>,
    /// Number of records that they would have been.
    records: Amount,
    /// Whether at least one of them was skipped.
    is_begun: bool,
    /// The damage of the carrier there, if that is the cause.
    carrier: Option<CarrierDamage>,
}

/// Number of bytes without a record after which a batch ends, so that the caller can check for signals.
const LOOK_BYTES: usize = 1 << 20;

/// The reason why no more records were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The batch has as many as wanted.
    Full,
    /// The next record belongs to another batch.
    Cut,
    /// Pushed bytes are consumed, and more may come.
    Waiting,
    /// The data has ended.
    End,
}

impl<C: RecordCodec> Records<C> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// `Unsupported` for windows in units that the format does not have; errors of the source.
    pub fn new(codec: C, container: &Container, scan: &Scan) -> Result<Records<C>> {
        let feed = |scan: &Scan| Feed::new(container, &scan.stream());
        Records::of(codec, feed, Some(container), container.name(), scan)
    }

    pub(crate) fn of(
        codec: C,
        feed: impl FnOnce(&Scan) -> Result<Feed>,
        container: Option<&Container>,
        name: &str,
        scan: &Scan,
    ) -> Result<Records<C>> {
        let (is_empty, has_start) = match &scan.window {
            Window::All => (false, false),
            Window::Instrs(_) if !C::COUNTS_INSTRS => return Err(lacks(&codec, "instructions to count")),
            Window::Records(range) | Window::Instrs(range) => (range.is_empty(), range.start > 0),
            Window::Clock(_) => return Err(lacks(&codec, "clock")),
        };
        let state = codec.begin();
        let all = codec.tables(&state);
        let tables = scan.tables.iter().filter_map(|table| all.get(*table)).map(|rows| rows.fresh());
        let mut fill = Fill::new(scan, tables.collect(), name, C::TOLD_PER_RULE);
        fill.is_skipping = has_start;
        Ok(Records {
            feed: feed(scan)?,
            state,
            container: container.cloned(),
            fill,
            batch_records: scan.batch_records.max(1) as usize,
            window: scan.window.clone(),
            n_left: scan.most,
            cut_instrs: scan.cut.instrs.map(Into::into),
            is_begun: false,
            first_instr: 0,
            n_passed: 0,
            is_look: false,
            losing: None,
            fault: None,
            is_over: is_empty || scan.most == 0,
            codec,
        })
    }

    /// State accumulated so far.
    pub fn state(&self) -> &C::State {
        &self.state
    }

    /// Whether the read has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Skips records before the window, except for regions: those that stay live have types in the window. Ends where wanted
    /// records begin, where the batch has as many regions as fit, or as [`advance`](Records::advance) does.
    fn skip(&mut self) -> Result<Stopped> {
        loop {
            let (n_wanted, stop) = match &self.window {
                Window::Records(range) => (range.start.saturating_sub(self.fill.n_before), u64::MAX),
                Window::Instrs(range) => (u64::MAX, range.start),
                Window::All | Window::Clock(_) => (0, u64::MAX),
            };
            if n_wanted == 0 {
                self.fill.is_skipping = false;
                return Ok(Stopped::Full);
            }
            let room = self.batch_records.saturating_sub(self.fill.batch.regions.len());
            if room == 0 || self.fill.is_closed {
                return Ok(Stopped::Full);
            }
            self.fill.room = usize::try_from(n_wanted).unwrap_or(usize::MAX).min(room);
            self.fill.stop_instr = stop;
            let stopped = self.advance();
            self.fill.pass();
            match stopped? {
                Stopped::Cut if self.fill.n_instrs >= stop => {
                    self.fill.is_skipping = false;
                    return Ok(Stopped::Full);
                }
                Stopped::Cut | Stopped::Full => {}
                ended => return Ok(ended),
            }
        }
    }

    /// The ordinal of the instruction that the batch must end before.
    fn stop(&self) -> u64 {
        let end = match &self.window {
            Window::Instrs(range) => range.end,
            _ => u64::MAX,
        };
        // The instruction that begins the batch does not end it.
        let cut = self.cut_instrs.map(|each| (self.first_instr / each + 1).saturating_mul(each));
        end.min(cut.unwrap_or(u64::MAX))
    }

    /// Collects records until the batch is full or has to end; false if pushed bytes are consumed before that.
    fn collect(&mut self) -> Result<bool> {
        if !self.is_begun {
            self.is_begun = true;
            self.fill.begin();
            self.first_instr = self.fill.n_instrs;
        }
        let mut failed = None;
        if self.fill.is_skipping {
            match self.skip() {
                Ok(Stopped::Waiting) => return Ok(false),
                Ok(Stopped::End) => self.is_over = true,
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            if failed.is_some() || !self.fill.batch.regions.is_empty() {
                self.is_begun = false;
                let first_record = match &self.window {
                    Window::Records(range) => range.start,
                    _ => self.fill.n_before,
                };
                let offset = self.feed.offset();
                self.fill.batch.span = Span { first_record, offset, ..Span::default() };
                self.close_if_over(failed.is_some());
                return failed.map_or(Ok(true), Err);
            }
            self.first_instr = self.fill.n_instrs;
        }
        let n_wanted = match &self.window {
            Window::Records(range) => range.end.saturating_sub(self.fill.n_before).min(self.n_left),
            _ => self.n_left,
        };
        self.fill.room = usize::try_from(n_wanted).unwrap_or(usize::MAX).min(self.batch_records);
        self.fill.stop_instr = self.stop();
        if !self.is_over {
            match self.advance() {
                Ok(Stopped::Waiting) => return Ok(false),
                Ok(Stopped::End) => self.is_over = true,
                Ok(Stopped::Cut) => {
                    let n_instrs = self.fill.n_instrs;
                    self.is_over |= matches!(&self.window, Window::Instrs(range) if n_instrs >= range.end);
                }
                Ok(Stopped::Full) => {}
                Err(error) => failed = Some(error),
            }
        }
        self.is_begun = false;
        self.n_left -= self.fill.n as u64;
        self.fill.offset = self.feed.offset();
        self.fill.end(self.first_instr);
        let n_records = self.fill.n_before;
        self.is_over |=
            self.n_left == 0 || matches!(&self.window, Window::Records(range) if n_records >= range.end);
        self.close_if_over(failed.is_some());
        failed.map_or(Ok(true), Err)
    }

    fn close_if_over(&mut self, has_failed: bool) {
        if self.is_over || has_failed {
            self.fill.found.close();
        }
    }

    /// Adds records to the batch.
    fn advance(&mut self) -> Result<Stopped> {
        loop {
            if self.losing.is_some() {
                if !self.lose() {
                    return Ok(Stopped::Waiting);
                }
                // Records after damage begin a new batch, so that offsets can be counted from its first record.
                if self.fill.n > 0 {
                    return Ok(Stopped::Cut);
                }
            }
            self.fill.offset = self.feed.offset();
            if self.fill.room() > 0 {
                let bytes = self.feed.unused();
                let n_bytes = self.codec.run(&mut self.state, bytes, &mut self.fill);
                if n_bytes > 0 {
                    self.fill.keep_raw(&bytes[..n_bytes], true);
                    self.feed.use_up(n_bytes);
                    self.fill.offset = self.feed.offset();
                }
            }
            if self.fill.room() == 0 {
                return Ok(Stopped::Full);
            }
            if self.feed.unused().is_empty() {
                if self.feed.more(1) {
                    continue;
                }
                return if self.feed.is_waiting() { Ok(Stopped::Waiting) } else { self.end() };
            }
            if let Some(stopped) = self.step()? {
                return Ok(stopped);
            }
        }
    }

    /// Handles the next item, which is not a plain record.
    fn step(&mut self) -> Result<Option<Stopped>> {
        let bytes = self.feed.unused();
        let input = Input { bytes, ending: self.feed.ending() };
        match self.codec.record(&mut self.state, input, &mut self.fill) {
            Step::Record(n_bytes) => {
                self.fill.keep_raw(bytes.get(..n_bytes).unwrap_or(bytes), true);
                self.feed.use_up(n_bytes);
            }
            Step::Other(n_bytes) => {
                self.fill.keep_raw(bytes.get(..n_bytes).unwrap_or(bytes), false);
                self.feed.use_up(n_bytes);
            }
            Step::Bulk(n_bytes) => {
                self.fill.batch.block.clear();
                self.feed.use_up(n_bytes);
                // Callers check for signals between batches, even empty ones.
                self.n_passed += n_bytes;
                if self.n_passed >= LOOK_BYTES {
                    (self.n_passed, self.is_look) = (0, true);
                    return Ok(Some(Stopped::Full));
                }
            }
            Step::More(n_bytes) => {
                let n_bytes = n_bytes.max(bytes.len() + 1);
                let was_last = input.is_last();
                if !self.feed.more(n_bytes) {
                    if self.feed.is_waiting() {
                        return Ok(Some(Stopped::Waiting));
                    }
                    if was_last {
                        self.feed.use_up(usize::MAX);
                        return self.end().map(Some);
                    }
                }
            }
            Step::Cut => return Ok(Some(Stopped::Cut)),
            Step::Lost { rule, what, skip, records } => {
                let start = self.feed.offset();
                self.losing =
                    Some(Losing { rule, what, start, skip, records, is_begun: false, carrier: None });
            }
            Step::Rest(rule, what) => {
                debug_assert!(input.is_last(), "more bytes follow those that are said to be the rest");
                let (start, is_unread) = (self.feed.offset(), input.ending == Some(Ending::Unread));
                self.feed.use_up(usize::MAX);
                self.fill.offset = self.feed.offset();
                // Neither a failing disk in the middle of a record nor a wrong checksum means that the trace is truncated.
                if !is_unread {
                    self.fill.lose(rule, start, (Amount::Unknown, false), what, None);
                }
                return self.end().map(Some);
            }
        }
        Ok(None)
    }

    /// Skips bytes that are not records, and reports them; false if that needs bytes that were not pushed yet.
    #[cold]
    fn lose(&mut self) -> bool {
        let Some(mut losing) = self.losing.take() else { return true };
        if !losing.is_begun {
            losing.is_begun = true;
            self.feed.use_up(losing.skip.unwrap_or(1));
        }
        let mut wants = 1;
        let resumes = loop {
            if !self.feed.more(wants) && self.feed.is_waiting() {
                self.losing = Some(losing);
                return false;
            }
            let bytes = self.feed.unused();
            if bytes.is_empty() || losing.skip.is_some() {
                break !bytes.is_empty();
            }
            let input = Input { bytes, ending: self.feed.ending() };
            match self.codec.resume(&mut self.state, input) {
                Resume::Here(n_bytes) => {
                    self.feed.use_up(n_bytes);
                    break true;
                }
                Resume::More { skip, wants: n_bytes } if !input.is_last() => {
                    let n_left = bytes.len() - skip.min(bytes.len());
                    self.feed.use_up(skip);
                    wants = n_bytes.max(n_left + 1);
                }
                Resume::More { .. } | Resume::Nowhere => {
                    self.feed.use_up(usize::MAX);
                    break false;
                }
            }
        };
        self.fill.offset = self.feed.offset();
        let n_bytes = self.fill.offset - losing.start;
        let then = if resumes { "reading continues after them" } else { "nothing can be read after them" };
        let what = format!("{}; `{n_bytes}` bytes are no records, {then}", losing.what);
        self.fill.lose(losing.rule, losing.start, (losing.records, resumes), what, losing.carrier.as_ref());
        true
    }

    /// Handles the end of the data: after a cut, all that precedes it is valid.
    #[cold]
    fn end(&mut self) -> Result<Stopped> {
        self.fill.offset = self.feed.offset();
        match self.feed.take_failure() {
            None => self.codec.ended(&mut self.state, &mut self.fill),
            Some(mut error) => {
                if error.is_damage() {
                    match self.pass_unreadable() {
                        Passed::Here => return Ok(Stopped::Cut),
                        // All parts that follow are lost too.
                        Passed::End(Some(damage)) if damage.records.is_some() => {
                            error = error.losing(Loss::by_carrier(&damage, Place::from(&damage)));
                        }
                        Passed::End(_) => {}
                    }
                }
                if error.kind() == ErrorKind::Truncated {
                    self.fill.found.findings.push(Finding::of_cut_file(&error));
                    return Ok(Stopped::End);
                }
                let place = self.fill.place(self.fill.offset);
                return Err(match &self.container {
                    Some(container) => error.of_unsound(container, place, &|| self.count_sound(container)),
                    None => error.at(&place),
                });
            }
        }
        Ok(Stopped::End)
    }

    /// Continues after unreadable bytes, if readable ones follow: when the file lies in another trace, only a part may be
    /// damaged.
    #[cold]
    fn pass_unreadable(&mut self) -> Passed {
        let can_go_on =
            |container: &&Container| container.codec() == Codec::Plain && container.source().can_seek();
        let Some(container) = self.container.as_ref().filter(can_go_on) else { return Passed::End(None) };
        let Some((cause, at)) = next_readable(container, self.feed.fetched()) else {
            return Passed::End(None);
        };
        let Some(at) = at else { return Passed::End(CarrierDamage::of(&cause).cloned()) };
        let Ok(feed) = Feed::at_place(container, at, at, &StreamOptions::default()) else {
            return Passed::End(None);
        };
        let start = self.feed.offset();
        self.feed = feed;
        let said = container.said_at(at);
        let lost = said.and_then(|said| self.codec.rejoin(&mut self.state, &said, self.fill.n_records()));
        self.losing = Some(Losing {
            rule: &UNREADABLE,
            what: cause.to_string(),
            start,
            skip: lost.map(|_| 0),
            records: lost.unwrap_or(Amount::Unknown),
            is_begun: true,
            carrier: CarrierDamage::of(&cause).cloned(),
        });
        Passed::Here
    }

    /// Number of records before the damage known in the container.
    #[cold]
    fn count_sound(&self, container: &Container) -> Option<u64> {
        let mut reader = Records::new(self.codec.clone(), container, &Scan::new(ShardId(0))).ok()?;
        while let Ok(Some(_)) = reader.read() {}
        Some(reader.fill.n_before)
    }
}

/// The rule for containers, which the model crate names.
static UNREADABLE: RuleInfo = RuleInfo {
    name: "source/malformed",
    group: "",
    severity: Severity::Error,
    summary: "The bytes of a container follow its format.",
    doc: "",
    original: &[],
};

/// Outcome of skipping unreadable bytes.
enum Passed {
    /// Reading continues after them.
    Here,
    /// No readable bytes follow; the carrier's statement about all of them, if there is one.
    End(Option<CarrierDamage>),
}

/// The reason why a byte is unreadable, and the first byte after it that is readable or unreadable for another reason. Losses
/// of consecutive parts with the same reason are one loss.
fn next_readable(container: &Container, from: u64) -> Option<(io::Error, Option<u64>)> {
    let mut bytes = container.bytes(1).ok()?;
    let mut why = bytes.get(from, 1).err()?;
    let mut at = from;
    while let Some(next) = container.next_readable(0, at) {
        match bytes.get(next, 1) {
            Err(cause) if is_one(&why, &cause) => why = together(why, &cause),
            _ => return Some((why, Some(next))),
        }
        at = next;
    }
    Some((why, None))
}

/// Whether two parts of one file are unreadable for the same reason, or for unknown reasons.
fn is_one(first: &io::Error, then: &io::Error) -> bool {
    match (CarrierDamage::of(first), CarrierDamage::of(then)) {
        (Some(first), Some(then)) => (&first.file, first.rule) == (&then.file, then.rule),
        _ => true,
    }
}

/// Combines a carrier's statements about two parts.
fn together(first: io::Error, then: &io::Error) -> io::Error {
    let (Some(of_first), Some(of_then)) = (CarrierDamage::of(&first), CarrierDamage::of(then)) else {
        return first;
    };
    let sum =
        |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one.saturating_add(other));
    let both = CarrierDamage {
        records: sum(of_first.records, of_then.records),
        bytes: sum(of_first.bytes, of_then.bytes),
        next: of_then.next,
        ..of_first.clone()
    };
    both.into_io()
}

fn lacks<C: RecordCodec>(codec: &C, what: &str) -> Error {
    Error::unsupported(format!("traces of format {} have no {what}", codec.name()))
}

impl<C: RecordCodec> Reader for Records<C> {
    /// The next batch. If bytes are [pushed](crate::Push), `None` also means that more bytes are needed.
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        loop {
            if let Some(error) = self.fault.take() {
                self.is_over = true;
                self.fill.batch.clear();
                return Err(error);
            }
            if self.is_over {
                self.fill.batch.clear();
                self.fill.batch.span.records = 0;
                return Ok(None);
            }
            match self.collect() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => self.fault = Some(error),
            }
            let Fill { batch, found, .. } = &mut self.fill;
            batch.findings = std::mem::take(&mut found.findings);
            let is_beyond = batch.beyond.iter().any(|n| *n > 0);
            let is_empty = batch.span.records == 0 && batch.findings.is_empty() && batch.regions.is_empty();
            let is_look = std::mem::take(&mut self.is_look);
            if !is_empty || is_beyond || is_look {
                return Ok(Some(&mut self.fill.batch));
            }
        }
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.fill.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1) as usize;
    }
}
