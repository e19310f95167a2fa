//! Blocks of a file → records in place: keeps a record together that lies across blocks, tells records from damage, and
//! finds where to read on behind it.

use crate::decode::{Bad, Layout, Stop, record};
use crate::plausible::{
    Familiar, LAST_RECORDS, MAX_ANNOTATION_BYTES, Run, Test, after_bad_tag, is_followed, is_plausible,
    is_possible, run_of,
};
use crate::record::{MAX_NAME_BYTES, Record};
use crate::rules;
use quipu_model::{Amount, Error, ErrorKind, Finding, Loss, Place, Result, RuleInfo};
use quipu_source::{Container, Stream, StreamOptions};

/// A run of records that takes more bytes to be told is none.
const MAX_RUN_BYTES: usize = 2 * MAX_NAME_BYTES;
/// Fewer bytes are cheap to move again and again.
const FEW_BYTES: usize = 1 << 10;

/// How a trace ends for readers that stop at damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrictEnd {
    /// Behind a record.
    Whole,
    /// Within a record of this tag that begins at this offset.
    Cut(u8, u64),
    /// No record begins at this offset.
    Bad(Bad, u64),
}

/// A file on its way to records.
#[derive(Debug)]
pub(crate) struct Feed {
    container: Container,
    file: String,
    stream: Stream,
    /// The bytes at hand; those before `at` are used up.
    bytes: Vec<u8>,
    at: usize,
    /// Offset of `bytes[0]` in the inflated file.
    base: u64,
    /// The block behind, as far as `bytes` does not have it already, and the offset of its first byte.
    next: Vec<u8>,
    next_at: usize,
    next_base: u64,
    /// Bytes of all blocks so far.
    n_fetched: u64,
    /// Has the memory of a block while bytes that lie across two are at hand.
    spare: Vec<u8>,
    is_over: bool,
    failure: Option<Error>,
    familiar: Familiar,
    findings: Vec<Finding>,
    /// The last annotation whose flags were told.
    flagged_at: Option<u64>,
}

impl Feed {
    /// Begins to read.
    pub(crate) fn new(container: &Container, options: &StreamOptions) -> Result<Feed> {
        Ok(Feed {
            container: container.clone(),
            file: container.name().to_owned(),
            stream: container.stream(container.all_members(), options)?,
            bytes: Vec::new(),
            at: 0,
            base: 0,
            next: Vec::new(),
            next_at: 0,
            next_base: 0,
            n_fetched: 0,
            spare: Vec::new(),
            is_over: false,
            failure: None,
            familiar: Familiar::default(),
            findings: Vec::new(),
            flagged_at: None,
        })
    }

    /// The bytes at hand that were not used.
    #[inline]
    pub(crate) fn unused(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Goes past bytes that were used.
    #[inline]
    pub(crate) fn use_up(&mut self, n_bytes: usize) {
        self.at = (self.at + n_bytes).min(self.bytes.len());
    }

    /// Offset of the first byte that was not used.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// True if something was odd since that was taken.
    pub(crate) fn has_findings(&self) -> bool {
        !self.findings.is_empty()
    }

    /// Takes what was odd so far.
    pub(crate) fn take_findings(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// Makes sure that the unused bytes begin with a whole record that makes sense; false at the end of the data. Damage is
    /// told and passed over. `n_records` were read before.
    ///
    /// # Errors
    /// What the file fails with, once all before was used.
    pub(crate) fn ready<L: Layout>(&mut self, n_records: u64) -> Result<bool> {
        loop {
            match record::<L>(self.unused()) {
                Ok((record, length)) => {
                    let (thread, flagged) = (record.thread(), flagged_annotation(&record));
                    let makes_sense = is_possible(&without_flags(record));
                    let is_usual = is_plausible(&record);
                    // What is damage takes in the records behind it, or shifts them.
                    let is_damage = match flagged {
                        // A thread that was not met before may have any number.
                        None if makes_sense => {
                            let is_taken = self.familiar.has(thread)
                                || (is_usual && self.is_followed::<L>(length))
                                || self.is_run::<L>(is_possible, 0);
                            !is_taken
                        }
                        Some(_) if !makes_sense => true,
                        _ => !self.is_run::<L>(is_possible, length),
                    };
                    if is_damage {
                        let (rule, what) = if makes_sense && flagged.is_none() {
                            let what = format!(
                                "fields of several threads are mixed: `{thread:#x}` is no thread, and no records follow"
                            );
                            (&rules::MIXED_THREADS, what)
                        } else {
                            (&rules::BAD_TAG, "a record makes no sense, and none follow".to_owned())
                        };
                        self.damage::<L>(rule, &what, n_records);
                        continue;
                    }
                    self.familiar.add(thread);
                    // A batch that ends before a record looks at it twice.
                    if let Some(tag) = flagged
                        && self.flagged_at.replace(self.offset()) != Some(self.offset())
                    {
                        let what = format!("an annotation has flags: tag `{tag:#04x}`");
                        self.tell(&rules::ANNOTATION_FLAGS, self.offset(), n_records, what);
                    }
                    return Ok(true);
                }
                Err(Stop::More(n_bytes)) => {
                    if self.more(n_bytes) {
                        continue;
                    }
                    if self.damaged_record::<L>().is_none() && !self.holds_run::<L>() {
                        return self.end::<L>(n_bytes, n_records).map(|()| false);
                    }
                    let what = format!(
                        "a record would have `{n_bytes}` bytes, more than are left, and records follow"
                    );
                    self.damage::<L>(&rules::BAD_TAG, &what, n_records);
                }
                Err(Stop::Bad(bad)) => self.damage::<L>(&rules::BAD_TAG, &bad.to_string(), n_records),
            }
        }
    }

    /// Whether a run of records begins so many bytes from here on. Behind a record, the end of the data is as good.
    fn is_run<L: Layout>(&mut self, test: Test, n_bytes: usize) -> bool {
        let n_last = if n_bytes > 0 { 0 } else { LAST_RECORDS };
        let mut is_end = false;
        loop {
            let bytes = self.unused().get(n_bytes..).unwrap_or(&[]);
            match run_of::<L>(bytes, test, is_end.then_some(n_last), &self.familiar) {
                Run::Records => return true,
                Run::More(more) if more <= MAX_RUN_BYTES => is_end = !self.more(n_bytes + more),
                Run::None | Run::More(_) => return false,
            }
        }
    }

    /// Whether a run of records begins anywhere behind here, at the end of the data.
    fn holds_run<L: Layout>(&self) -> bool {
        let bytes = self.unused();
        (1..bytes.len()).any(|at| {
            run_of::<L>(&bytes[at..], is_plausible, Some(LAST_RECORDS), &self.familiar) == Run::Records
        })
    }

    /// Passes over bytes that are no records, up to the next run or to the end, and tells it.
    #[cold]
    fn damage<L: Layout>(&mut self, rule: &'static RuleInfo, what: &str, n_records: u64) {
        let start = self.offset();
        let reads_on = if let Some(n_bytes) = self.damaged_record::<L>() {
            self.at += n_bytes;
            self.more(1)
        } else {
            loop {
                if self.unused().len() <= 1 && !self.more(2) {
                    self.at = self.bytes.len();
                    break false;
                }
                self.at += 1;
                if self.is_run::<L>(is_plausible, 0) || self.is_last_record::<L>() {
                    break true;
                }
            }
        };
        let n_bytes = self.offset() - start;
        let then = if reads_on { "reading goes on behind them" } else { "nothing can be read behind them" };
        self.lose(rule, start, n_records, format!("{what}; `{n_bytes}` bytes are no records, {then}"));
    }

    /// Whether records, or the end of the data, follow `n_bytes` bytes after this place.
    fn is_followed<L: Layout>(&mut self, n_bytes: usize) -> bool {
        self.more(n_bytes + MAX_ANNOTATION_BYTES);
        is_followed::<L>(self.unused().get(n_bytes..).unwrap_or(&[]), &self.familiar)
    }

    /// The bytes of the record that stands here, if nothing but its tag is wrong.
    fn damaged_record<L: Layout>(&mut self) -> Option<usize> {
        self.more(MAX_ANNOTATION_BYTES);
        after_bad_tag::<L>(self.unused(), &self.familiar)
    }

    /// Whether what is left of the trace is one record of a familiar thread.
    fn is_last_record<L: Layout>(&mut self) -> bool {
        let n_left = self.unused().len();
        let is_record = |feed: &Feed| {
            record::<L>(feed.unused()).is_ok_and(|(record, length)| {
                length == n_left && is_plausible(&record) && feed.familiar.has(record.thread())
            })
        };
        is_record(self) && !self.more(n_left + 1)
    }

    fn tell(&mut self, rule: &'static RuleInfo, offset: u64, n_records: u64, message: String) {
        let place = Place { record: Some(n_records), ..self.here(offset) };
        self.findings.push(rule.broken(place, message));
    }

    /// The same of bytes that are no records, from `offset` to where reading continues, if it does.
    #[cold]
    fn lose(&mut self, rule: &'static RuleInfo, offset: u64, n_records: u64, message: String) {
        let stopped = Place { record: Some(n_records), ..self.here(offset) };
        let bytes = Amount::Exactly(self.offset() - offset);
        let resumed = (!self.unused().is_empty()).then(|| self.here(self.offset()));
        let loss = Loss { bytes, resumed, ..Loss::from(stopped.clone()) };
        self.findings.push(rule.broken(stopped, message).losing(loss));
    }

    fn here(&self, offset: u64) -> Place {
        Place { file: Some(self.file.clone()), offset: Some(offset), ..Place::default() }
    }

    /// Gets more bytes, so that there are `n_bytes` that were not used; false if there are not so many.
    #[cold]
    fn more(&mut self, n_bytes: usize) -> bool {
        if self.unused().is_empty() {
            if !self.fetch() {
                return false;
            }
            std::mem::swap(&mut self.bytes, &mut self.next);
            (self.at, self.base) = (self.next_at, self.next_base);
            // PERF: blocks keep their length when they are used up, since the stream zeroes what it makes longer.
            if self.next.len() < self.spare.len() {
                std::mem::swap(&mut self.next, &mut self.spare);
            }
            self.next_at = self.next.len();
        } else {
            let rest = self.bytes.get(self.at..).unwrap_or(&[]);
            if rest.len() <= FEW_BYTES {
                self.spare.clear();
                self.spare.extend_from_slice(rest);
                std::mem::swap(&mut self.bytes, &mut self.spare);
            } else {
                self.bytes.drain(..self.at);
            }
            self.base += self.at as u64;
            self.at = 0;
        }
        // A record across blocks is put together, and what follows it stays where it is.
        while self.bytes.len() - self.at < n_bytes {
            if !self.fetch() {
                return false;
            }
            let rest = &self.next[self.next_at..];
            let missing = n_bytes - (self.bytes.len() - self.at);
            let n_taken = if n_bytes <= FEW_BYTES { missing.min(rest.len()) } else { rest.len() };
            self.bytes.extend_from_slice(&rest[..n_taken]);
            self.next_at += n_taken;
        }
        true
    }

    /// Makes sure that there are bytes in the next block; false at the end of the data.
    fn fetch(&mut self) -> bool {
        while self.next_at >= self.next.len() {
            if self.is_over {
                return false;
            }
            self.next_at = 0;
            match self.stream.next(&mut self.next) {
                Ok(Some(_)) => {
                    self.next_base = self.n_fetched;
                    self.n_fetched += self.next.len() as u64;
                }
                Ok(None) => {
                    self.next.clear();
                    self.is_over = true;
                }
                Err(error) => {
                    self.next.clear();
                    self.is_over = true;
                    self.failure = Some(error.into());
                }
            }
        }
        true
    }

    /// Reads on to the end or to the first thing that is no record, as the original's tools do; `take` gets each record, and
    /// the tag of one that is cut or none is told.
    pub(crate) fn read_strictly<L: Layout>(
        &mut self,
        take: &mut dyn FnMut(&Record<'_>) -> Result<()>,
    ) -> Result<StrictEnd> {
        loop {
            match record::<L>(self.unused()) {
                Ok((record, length)) => {
                    take(&record)?;
                    self.use_up(length);
                }
                Err(Stop::More(n_bytes)) => {
                    if !self.more(n_bytes) {
                        if let Some(error) = self.failure.take() {
                            return Err(error.at(&self.here(self.offset())));
                        }
                        let tag = self.unused().first();
                        return Ok(tag.map_or(StrictEnd::Whole, |tag| StrictEnd::Cut(*tag, self.offset())));
                    }
                }
                Err(Stop::Bad(bad)) => return Ok(StrictEnd::Bad(bad, self.offset())),
            }
        }
    }

    /// How many records stand before the damage that is known of the container by now.
    #[cold]
    fn count_sound<L: Layout>(&self) -> Option<u64> {
        let mut feed = Feed::new(&self.container, &StreamOptions::default()).ok()?;
        let mut n_records = 0;
        while let Ok(true) = feed.ready::<L>(n_records) {
            let (_, n_bytes) = record::<L>(feed.unused()).ok()?;
            feed.use_up(n_bytes);
            n_records += 1;
        }
        Some(n_records)
    }

    /// Judges how the data ends: what is cut is good as far as it goes.
    #[cold]
    fn end<L: Layout>(&mut self, n_bytes: usize, n_records: u64) -> Result<()> {
        let n_left = self.unused().len();
        // A disk that fails in the middle of a record has not cut the trace, nor has a checksum that is wrong.
        let kind = self.failure.as_ref().map(Error::kind);
        let is_unread = matches!(kind, Some(ErrorKind::Io | ErrorKind::Malformed));
        if n_left > 0 && is_unread {
            self.at = self.bytes.len();
        } else if n_left > 0 {
            let what = format!("the last record is cut: it has `{n_left}` bytes of at least `{n_bytes}`");
            let start = self.offset();
            self.at = self.bytes.len();
            self.lose(&rules::CUT, start, n_records, what);
        } else if self.offset() == 0 && self.failure.is_none() {
            let what = "the trace is empty: the program left nothing, or died before its buffer was written";
            self.tell(&rules::EMPTY, 0, 0, what.to_owned());
        }
        match self.failure.take() {
            Some(error) if error.kind() == ErrorKind::Truncated => {
                self.findings.push(Finding::of_cut_file(&error));
                Ok(())
            }
            Some(error) => {
                let place = Place { record: Some(n_records), ..self.here(self.offset()) };
                Err(error.of_unsound(&self.container, place, &|| self.count_sound::<L>()))
            }
            None => Ok(()),
        }
    }
}

/// The tag of an annotation that has flags.
fn flagged_annotation(record: &Record<'_>) -> Option<u8> {
    let tag = record.tag();
    let is_flagged = match record {
        Record::Access(_) => false,
        Record::Add(_) | Record::Remove(_) => tag & !crate::record::KIND_MASK != 0,
    };
    is_flagged.then_some(tag)
}

fn without_flags(record: Record<'_>) -> Record<'_> {
    use crate::record::{Add, KIND_MASK, Remove};
    match record {
        Record::Access(access) => Record::Access(access),
        Record::Add(add) => Record::Add(Add { tag: add.tag & KIND_MASK, ..add }),
        Record::Remove(remove) => Record::Remove(Remove { tag: remove.tag & KIND_MASK, ..remove }),
    }
}
