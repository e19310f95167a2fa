//! Reads past damage: salvages a trace that was cut, changed, or written by two processes at once.
//!
//! ```text
//! chunks ──▶ runs of bytes without a gap ──▶ events ──▶ calls
//!   a chunk that cannot be inflated:           not an event: look for the next run of events whose
//!   go on with the next                        functions are known and whose numbers fit
//! ```
//!
//! Damaged bytes may read as events too, so anything new after damage is accepted only if later events confirm it, and calls
//! that contradict each other are taken back (`careful`). A stream whose header is lost is treated as one of the newest
//! version.
//!
//! A stream that begins in the middle of the file, as when a traced program forks, is treated as a separate stream.
//! Signatures that were lost in a gap are replaced by placeholders: functions get a number as their name, and values have no
//! names. There are no placeholders for structures, so calls with them are lost. Calls go to a [`Sink`]; the result counts
//! what was lost.

mod careful;
mod facts;

use crate::check::rules;
use crate::decode::trial::{Evidence, Run};
use crate::decode::{Decoder, Event, Header};
use crate::feed::{
    EVIDENCE_BYTES, Feed, MAX_UNENTERED, Unentered, chunk_of, left_twice, left_unentered, swallowed,
};
use crate::trace::{self, assumed_header, plausible};
use careful::Careful;
use facts::Ended;
pub use facts::{Salvaged, Sink, StreamFacts};
use quipu_model::values::{Types, Values};
use quipu_model::{Confidence, Error, ErrorKind, Finding, Place, Result, RuleInfo};
use quipu_source::{Ahead, Codec, Container, Landmark, StreamOptions};

/// Calls are passed on when there are this many, or this many bytes of values.
const CALLS_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 1 << 20;
/// Number of bytes to buffer before searching them for a run of events.
pub(crate) const RUN_BYTES: usize = 1 << 20;
/// Number of bytes that are tested for the head of a stream.
const HEAD_BYTES: usize = 4 << 10;

/// Reads a whole container, continuing after any damage.
///
/// # Errors
/// If the file cannot be read, or contains nothing that can be a trace; errors of the sink.
pub fn salvage(container: &Container, sink: &mut dyn Sink) -> Result<Salvaged> {
    let landmarks = container.landmarks()?;
    let options = StreamOptions {
        block_bytes: 256 << 10,
        ahead: Ahead::Thread { blocks: 4 },
        ..StreamOptions::default()
    };
    let mut work = Work {
        container,
        landmarks,
        options,
        sink,
        salvaged: Salvaged::default(),
        at_work: None,
        assumed: None,
        chunk: Chunk::default(),
        evidence: Evidence::default(),
        unentered: Vec::new(),
        values: Values::default(),
        types: Types::default(),
    };
    work.run()?;
    Ok(work.salvaged)
}

/// The beginning of a run of bytes.
#[derive(Clone, Copy)]
enum Begins {
    /// The header of the first stream.
    Stream,
    /// Somewhere within a stream, or the header of another.
    BehindGap,
    /// The end of the run before.
    Joined,
}

/// The current chunk or frame; the whole stream if the container has none.
#[derive(Default)]
struct Chunk {
    /// Offset of its end in the stream.
    end: u64,
    /// Number of calls of the current stream read before it.
    n_before: u64,
    /// Whether damage was found in it.
    is_damaged: bool,
}

struct Work<'a> {
    container: &'a Container,
    landmarks: &'a [Landmark],
    options: StreamOptions,
    sink: &'a mut dyn Sink,
    salvaged: Salvaged,
    at_work: Option<(Header, Decoder)>,
    /// The header to assume, if it is lost and no event was found yet.
    assumed: Option<Header>,
    chunk: Chunk,
    evidence: Evidence,
    /// Calls of the current stream that were left before they were entered, with their places.
    unentered: Unentered,
    values: Values,
    types: Types,
}

impl Work<'_> {
    fn run(&mut self) -> Result<()> {
        // Index of the landmark where the current run begins; unused without landmarks.
        let mut next = 0;
        let mut is_first = true;
        // The bytes that the run before left of an event with which the current one begins.
        let mut rest: Option<Vec<u8>> = None;
        loop {
            let landmark = self.landmarks.get(next).copied();
            let feed = match landmark {
                Some(landmark) if !is_first => {
                    let header =
                        self.at_work.as_ref().map_or_else(Header::default, |(header, _)| header.clone());
                    let mut feed =
                        Feed::from_landmark(self.container, &self.options, &header, &landmark, landmark.at)?;
                    feed.prepend(rest.as_deref().unwrap_or(&[]));
                    feed
                }
                _ if is_first => Feed::new(self.container, &self.options)?,
                _ => break,
            };
            let how = match (is_first, rest.take()) {
                (true, _) => Begins::Stream,
                (false, Some(_)) => Begins::Joined,
                (false, None) => Begins::BehindGap,
            };
            let Ended { at: end, failure, failed_at, joint } = self.run_of_bytes(feed, how)?;
            // The next run begins after all landmarks whose bytes were read.
            let from = if is_first { 0 } else { next + 1 };
            is_first = false;
            if let Some((goes_on, bytes)) = joint {
                let chunk = goes_on.saturating_sub(1);
                let what = match &failure {
                    None => format!(
                        "the length of chunk `{chunk}` is wrong, but what is in it is whole; reading continues after it"
                    ),
                    Some(failure) => {
                        format!("chunk `{chunk}`: {}; any of it may be wrong", failure.message())
                    }
                };
                self.find(&rules::BAD_CHUNK, self.place(end), what);
                (next, rest) = (goes_on, Some(bytes));
                continue;
            }
            let Some(failure) = failure else {
                // The data may seem to end at a gap.
                let is_next = |landmark: &Landmark| landmark.is_behind_gap && landmark.at >= end;
                let Some(gap) = self.landmarks.iter().skip(from).position(is_next) else { break };
                next = from + gap;
                let place = self.place(end);
                let what = format!(
                    "chunk `{next}` is missing: chunks end here, and go on at offset {:#x} of the file",
                    self.landmarks[next].packed_at
                );
                self.find(&rules::BAD_CHUNK, place, what);
                self.salvaged.lost_chunks += 1;
                continue;
            };
            if failure.kind() == ErrorKind::Io {
                return Err(failure);
            }
            // The first landmark after the place of the fault; it does not matter how much of the failed chunk was inflated.
            let behind = match failed_at {
                Some(packed_at) => self.landmarks.partition_point(|landmark| landmark.packed_at <= packed_at),
                None => self.landmarks.partition_point(|landmark| landmark.at < end) + 1,
            };
            next = behind.max(from);
            let is_cut = failure.kind() == ErrorKind::Truncated;
            let place = Place { record: Some(self.n_calls()), ..failure.place().clone() };
            if is_cut && next >= self.landmarks.len() {
                self.salvaged.found.push(Finding::of_cut_file(&failure));
                break;
            }
            // Errors of snappy chunks already contain the number of the chunk.
            let chunk = match next.checked_sub(1) {
                Some(chunk) if !failure.message().contains("chunk `") => format!("chunk `{chunk}`: "),
                _ => String::new(),
            };
            let what = format!("{chunk}{}; reading continues after it, if it can", failure.message());
            self.find(&rules::BAD_CHUNK, place, what);
            self.salvaged.lost_chunks += 1;
            if self.landmarks.get(next).is_none() {
                break;
            }
        }
        self.end_stream()
    }

    /// Reads bytes without a gap to their end.
    fn run_of_bytes(&mut self, mut feed: Feed, begins: Begins) -> Result<Ended> {
        self.enter_chunk(feed.offset());
        match begins {
            Begins::Stream => self.begin_first(&mut feed)?,
            Begins::BehindGap if !self.at_chunk_start(&mut feed)? => self.look_for_events(&mut feed)?,
            Begins::BehindGap | Begins::Joined => {}
        }
        loop {
            if self.at_work.is_none() {
                // Without a stream at work, there is no use in looking for events.
                if self.find_stream(&mut feed)? || self.find_beginning(&mut feed)? {
                    continue;
                }
                feed.fetch(1, &mut Waiting)?;
                let n_bytes = feed.unused().len();
                feed.give_up(n_bytes);
                self.lose_bytes(n_bytes as u64);
                if n_bytes == 0 {
                    return Ok(Ended::of(&mut feed, None));
                }
                continue;
            }
            if self.evidence.since.is_some() && feed.unused().len() < EVIDENCE_BYTES && !feed.is_over() {
                feed.fetch(RUN_BYTES, &mut Waiting)?;
            }
            let Some((_, decoder)) = &mut self.at_work else { continue };
            let (out, types, evidence) = (&mut self.values, &mut self.types, &mut self.evidence);
            let begin = feed.offset();
            if begin >= self.chunk.end {
                self.enter_chunk(begin);
                continue;
            }
            match feed.next(&mut Careful { decoder, out, types, evidence }) {
                Ok(Some(event)) => {
                    let end = feed.offset();
                    if let Some(stream) = self.salvaged.streams.last_mut() {
                        stream.end = end;
                    }
                    if self.values.calls.len() >= CALLS_AT_ONCE || self.values.bytes.len() >= BYTES_AT_ONCE {
                        self.hand_over()?;
                    }
                    if let Event::Unmatched(number) = event {
                        self.judge_unmatched(&mut feed, number, begin)?;
                    }
                }
                Ok(None) => {
                    if let Some(next) = self.joint_at(feed.n_bytes()) {
                        return Ok(Ended::joined(&mut feed, next));
                    }
                    feed.take_findings().into_iter().for_each(|finding| self.salvaged.found.push(finding));
                    return Ok(Ended::of(&mut feed, None));
                }
                Err(error) => {
                    // Either the container failed, or the bytes are not an event.
                    if error.kind() == ErrorKind::Io {
                        return Err(error);
                    }
                    if feed.is_failed() {
                        if let Some(next) = self.joint_at(feed.n_bytes()) {
                            return Ok(Ended::joined(&mut feed, next));
                        }
                        self.damage_failed(&feed);
                        if let Some(next) = self.follows(&feed) {
                            return Ok(Ended { failure: Some(error), ..Ended::joined(&mut feed, next) });
                        }
                        let n_left = feed.unused().len() as u64;
                        self.lose_bytes(n_left);
                        self.take_back()?;
                        return Ok(Ended::of(&mut feed, Some(error)));
                    }
                    if !self.find_stream(&mut feed)? {
                        let place = Place { record: Some(self.n_calls()), ..error.place().clone() };
                        self.chunk.is_damaged = true;
                        self.find(&rules::DAMAGED, place, error.message().to_owned());
                        feed.give_up(1);
                        self.lose_bytes(1);
                        self.look_for_events(&mut feed)?;
                    }
                }
            }
        }
    }

    /// Index of the chunk that begins at this offset, if the chunk before it was inflated to its end although its length is
    /// wrong. Then the bytes of the stream differ from those of the file.
    fn joint_at(&mut self, offset: u64) -> Option<usize> {
        let behind = |pair: &[Landmark]| pair[0].is_mended && pair[1].at == offset && !pair[1].is_behind_gap;
        let before = self.landmarks.windows(2).position(behind)?;
        self.patch();
        Some(before + 1)
    }

    /// Index of the chunk after one that failed only after its whole contents were inflated, that is, by its checksum.
    fn follows(&mut self, feed: &Feed) -> Option<usize> {
        let failed_at = feed.failed_at()?;
        let next = self.landmarks.partition_point(|landmark| landmark.packed_at <= failed_at);
        self.landmarks.get(next).filter(|next| next.at == feed.n_bytes() && !next.is_behind_gap)?;
        self.patch();
        Some(next)
    }

    /// Marks the chunk in which the container failed as damaged.
    fn damage_failed(&mut self, feed: &Feed) {
        let next =
            feed.failed_at().map(|at| self.landmarks.partition_point(|landmark| landmark.packed_at <= at));
        // An event that lies across the border may be entirely in the chunk before.
        if let Some(failed) = next.and_then(|next| self.landmarks.get(next.checked_sub(1)?)) {
            self.enter_chunk(failed.at);
        }
        self.chunk.is_damaged = true;
    }

    /// Notes that the bytes of the current stream no longer match those of the file.
    fn patch(&mut self) {
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.is_whole = false;
        }
    }

    /// Switches to the chunk that holds an offset of the stream.
    fn enter_chunk(&mut self, offset: u64) {
        if offset < self.chunk.end {
            return;
        }
        let next = self.landmarks.partition_point(|landmark| landmark.at <= offset);
        let end = self.landmarks.get(next).map_or(u64::MAX, |landmark| landmark.at);
        let was_damaged = self.chunk.is_damaged;
        self.leave_chunk();
        if offset > self.chunk.end && !was_damaged {
            // The event before lies across the border.
            self.chunk.n_before = self.chunk.n_before.saturating_sub(1);
        }
        (self.chunk.end, self.chunk.is_damaged) = (end, false);
    }

    /// Counts the calls read from the current chunk as suspect, if it is damaged. In an unpacked stream, damage does not
    /// spread.
    fn leave_chunk(&mut self) {
        let n_waiting = self.values.calls.len() as u64;
        if let Some(stream) = self.salvaged.streams.last_mut() {
            let n_calls = stream.calls + n_waiting;
            if self.chunk.is_damaged && self.container.codec() != Codec::Plain {
                stream.suspect += n_calls - self.chunk.n_before;
            }
            self.chunk.n_before = n_calls;
        }
    }

    /// Handles an event at `offset` that leaves a call which is not open. If later events show that calls are misnumbered,
    /// damage merged several events into one, and reading continues as after any other damage.
    fn judge_unmatched(&mut self, feed: &mut Feed, number: u64, offset: u64) -> Result<()> {
        // After damage, the entries of some calls are known to be lost.
        if self.evidence.since.is_some() {
            return Ok(());
        }
        feed.fetch(EVIDENCE_BYTES, &mut Waiting)?;
        let Some((_, decoder)) = &mut self.at_work else { return Ok(()) };
        let n_entered = decoder.n_entered();
        if number < n_entered {
            self.find(&rules::LEFT_TWICE, self.place(offset), left_twice(number));
            // A copy would contain the same fault.
            self.patch();
        } else if decoder.is_misnumbered(feed.unused(), &mut self.types) {
            self.find(&rules::DAMAGED, self.place(offset), swallowed(number, n_entered));
            self.chunk.is_damaged = true;
            self.lose_bytes(feed.offset() - offset);
            if let Some(stream) = self.salvaged.streams.last_mut() {
                // The doubtful call is the one of this event.
                stream.doubtful += 1;
            }
            self.look_for_events(feed)?;
        } else if self.unentered.len() < MAX_UNENTERED {
            self.unentered.push((number, self.place(offset)));
        }
        Ok(())
    }

    /// Reports calls that were left before they were entered.
    fn tell_unentered(&mut self, n_entered: u64) {
        if !self.unentered.is_empty() {
            self.patch();
        }
        for (number, place) in std::mem::take(&mut self.unentered) {
            let (rule, what) = left_unentered(number, n_entered);
            self.find(rule, place, what);
        }
    }

    /// Reads the header of the first stream, or determines the header to assume.
    fn begin_first(&mut self, feed: &mut Feed) -> Result<()> {
        feed.fetch(HEAD_BYTES, &mut Waiting)?;
        let why = match assumed_header(feed.unused()) {
            Ok(trace::Opened { header, damage: Some(why), newer }) => {
                self.chunk.is_damaged = newer.is_none();
                self.assumed = Some(header);
                Some(why)
            }
            _ => match feed.begin() {
                Ok(true) => return self.begin_stream(feed, 0),
                // The data is empty, or there are chunks after a gap.
                Ok(false) if !self.landmarks.iter().any(|landmark| landmark.is_behind_gap) => {
                    feed.take_findings().into_iter().for_each(|finding| self.salvaged.found.push(finding));
                    return Ok(());
                }
                Ok(false) => None,
                Err(error) if feed.is_failed() => {
                    feed.put_back(error);
                    self.chunk.is_damaged = true;
                    None
                }
                // The version is newer, and nothing suggests an older one.
                Err(error) => return Err(error),
            },
        };
        let why = why.unwrap_or_else(|| "it cannot be inflated".to_owned());
        let header = self.assumed.get_or_insert_with(Header::newest);
        feed.assume(header);
        self.salvaged.found.push(trace::lost_header(self.container.name(), &why, header.version));
        Ok(())
    }

    /// Looks for the first events of a stream without a header, and begins the stream there.
    fn find_beginning(&mut self, feed: &mut Feed) -> Result<bool> {
        let Some(header) = self.assumed.clone() else { return Ok(false) };
        feed.fetch(RUN_BYTES, &mut Waiting)?;
        let mut decoder = Decoder::new(&header);
        decoder.expect_gaps();
        let input = feed.unused();
        let n_looked = if input.len() < RUN_BYTES { input.len() } else { input.len() / 2 };
        let found = decoder.find_run(input, n_looked, &mut Types::default(), &Evidence::default());
        let n_before = found.map_or(n_looked, |(at, _)| at);
        feed.give_up(n_before);
        self.salvaged.lost_bytes += n_before as u64;
        let Some((_, Run { number, .. })) = found else { return Ok(n_before > 0) };
        self.begin_stream_as(header, feed.offset())?;
        if let Some((_, decoder)) = &mut self.at_work {
            decoder.expect_gaps();
            decoder.set_next_call(number);
        }
        self.evidence = Evidence { sure: number, since: Some(number), ..Evidence::default() };
        if let Some(stream) = self.salvaged.streams.last_mut() {
            (stream.is_whole, stream.lost_calls) = (false, number);
        }
        self.tell_resumed(feed.offset(), number, number);
        Ok(true)
    }

    /// At damage: takes back calls that were entered since events became doubtful and that contradict each other.
    fn take_back(&mut self) -> Result<()> {
        // Calls that were already delivered stay.
        self.hand_over()?;
        let Some((_, decoder)) = &mut self.at_work else { return Ok(()) };
        self.salvaged.taken_back += decoder.forget_inner(&self.evidence);
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.doubtful += decoder.n_entered().saturating_sub(self.evidence.sure);
        }
        Ok(())
    }

    fn tell_resumed(&mut self, offset: u64, number: u64, n_lost: u64) {
        let what = format!("reading continues here, with call `{number}`: `{n_lost}` calls are lost");
        self.find(&rules::RESUMED, self.place(offset), what);
    }

    fn lose_bytes(&mut self, n_bytes: u64) {
        self.salvaged.lost_bytes += n_bytes;
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.is_whole &= n_bytes == 0;
        }
    }

    /// Whether a stream begins at the start of a chunk; if so, begins it.
    fn at_chunk_start(&mut self, feed: &mut Feed) -> Result<bool> {
        feed.fetch(HEAD_BYTES, &mut Waiting)?;
        self.take_stream_at(feed, 0)
    }

    /// Looks for the head of a stream at the starts of chunks among the buffered bytes.
    fn find_stream(&mut self, feed: &mut Feed) -> Result<bool> {
        feed.fetch(HEAD_BYTES, &mut Waiting)?;
        let (start, end) = (feed.offset(), feed.n_bytes());
        let first = self.landmarks.partition_point(|landmark| landmark.at < start);
        let starts: Vec<u64> =
            self.landmarks[first..].iter().map(|landmark| landmark.at).take_while(|at| *at < end).collect();
        for at in starts {
            if self.take_stream_at(feed, (at - start) as usize)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins another stream `n_before` bytes ahead, if one seems to begin there.
    fn take_stream_at(&mut self, feed: &mut Feed, n_before: usize) -> Result<bool> {
        let head = feed.unused().get(n_before..).unwrap_or(&[]);
        let head = &head[..head.len().min(HEAD_BYTES)];
        // Any stream may contain one byte that looks like the newest version, but hardly properties after it.
        if head.first() != Some(&6) || plausible(head) != Confidence::Sure {
            return Ok(false);
        }
        self.end_stream()?;
        feed.give_up(n_before);
        let offset = feed.offset();
        if !matches!(feed.begin_again(), Ok(true)) {
            return Ok(false);
        }
        if !self.salvaged.streams.is_empty() {
            let chunk = chunk_of(self.container, offset)
                .map_or(String::new(), |chunk| format!(" at chunk `{chunk}`"));
            let what = format!("another stream begins here{chunk}: two processes wrote this file");
            self.find(&rules::SECOND_STREAM, self.place(offset), what);
        }
        self.begin_stream(feed, offset)?;
        Ok(true)
    }

    fn begin_stream(&mut self, feed: &Feed, offset: u64) -> Result<()> {
        self.begin_stream_as(feed.header().clone(), offset)?;
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.end = feed.offset();
        }
        Ok(())
    }

    fn begin_stream_as(&mut self, header: Header, offset: u64) -> Result<()> {
        self.sink.stream(&header, offset)?;
        self.chunk.n_before = 0;
        (self.types, self.assumed, self.evidence) = (Types::default(), None, Evidence::default());
        let mut decoder = Decoder::new(&header);
        decoder.be_wary();
        self.at_work = Some((header, decoder));
        let end = offset;
        self.salvaged.streams.push(StreamFacts { offset, end, is_whole: true, ..StreamFacts::default() });
        Ok(())
    }

    /// Continues with the next run of events after a gap.
    fn look_for_events(&mut self, feed: &mut Feed) -> Result<()> {
        let Some((_, decoder)) = &mut self.at_work else { return Ok(()) };
        decoder.expect_gaps();
        // Values may be passed to the sink before the next event.
        let parked = decoder.park(&self.values);
        parked.map_err(|n_bytes| feed.too_much_pending(n_bytes))?;
        self.take_back()?;
        let before = feed.offset();
        loop {
            // A failure of the container is reported when the buffered bytes are used up.
            feed.fetch(RUN_BYTES, &mut Waiting)?;
            let input = feed.unused();
            let is_all = input.len() < RUN_BYTES;
            let Some((_, decoder)) = &mut self.at_work else { return Ok(()) };
            let n_looked = if is_all { input.len() } else { input.len() / 2 };
            let found = decoder.find_run(input, n_looked, &mut self.types, &self.evidence);
            let Some((at, Run { number, .. })) = found else {
                feed.give_up(n_looked);
                if is_all {
                    self.lose_bytes(feed.offset() - before);
                    return Ok(());
                }
                continue;
            };
            // Calls entered right before the damage that have these numbers were not real.
            let n_wrong = decoder.forget_from(number);
            let n_lost = number.saturating_sub(decoder.n_entered());
            decoder.set_next_call(number);
            (self.evidence.sure, self.evidence.since) = (number, Some(number));
            self.salvaged.taken_back += n_wrong;
            feed.give_up(at);
            self.lose_bytes(feed.offset() - before);
            if let Some(stream) = self.salvaged.streams.last_mut() {
                stream.is_whole = false;
                stream.lost_calls += n_lost;
                stream.doubtful = stream.doubtful.saturating_sub(n_wrong);
            }
            self.tell_resumed(feed.offset(), number, n_lost);
            return Ok(());
        }
    }

    /// Passes the collected calls to the sink.
    fn hand_over(&mut self) -> Result<()> {
        if let Some((_, decoder)) = &mut self.at_work {
            // Keeps copies of the values of open calls.
            decoder.park(&self.values).map_err(|n_bytes| {
                let limit = crate::record::MAX_PENDING_BYTES as u64;
                Error::limit("bytes in calls that were entered and not left", n_bytes, limit)
            })?;
        }
        if !self.values.calls.is_empty() {
            self.sink.calls(&self.values, &self.types)?;
            if let Some(stream) = self.salvaged.streams.last_mut() {
                stream.calls += self.values.calls.len() as u64;
                let open = |call: &&quipu_model::values::Call| call.flags & crate::record::INCOMPLETE != 0;
                stream.incomplete += self.values.calls.iter().filter(open).count() as u64;
            }
        }
        self.values.clear();
        Ok(())
    }

    /// Ends the current stream: passes on its remaining calls.
    fn end_stream(&mut self) -> Result<()> {
        self.hand_over()?;
        let Some((_, mut decoder)) = self.at_work.take() else { return Ok(()) };
        self.leave_chunk();
        loop {
            decoder.deliver_pending(&mut self.values, CALLS_AT_ONCE);
            if self.values.calls.is_empty() {
                break;
            }
            self.hand_over()?;
        }
        self.tell_unentered(decoder.n_entered());
        let n_lost = decoder.n_lost_signatures();
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.lost_signatures = n_lost;
        }
        if n_lost > 0 {
            let what = format!("`{n_lost}` signatures are lost: numbers stand for the names in them");
            self.find(&rules::LOST_SIGNATURE, self.file(), what);
        }
        let (n_doubtful, n_suspect) =
            self.salvaged.streams.last().map_or((0, 0), |stream| (stream.doubtful, stream.suspect));
        let n_taken_back = std::mem::take(&mut self.salvaged.taken_back);
        if n_doubtful + n_taken_back > 0 {
            let what = format!(
                "`{n_doubtful}` calls right before damage may have been others, or none; `{n_taken_back}` that contradict others are left out"
            );
            self.find(&rules::DOUBTFUL, self.file(), what);
        }
        if n_suspect > 0 {
            let what = format!("`{n_suspect}` calls are of damaged chunks: their values may be wrong");
            self.find(&rules::DOUBTFUL, self.file(), what);
        }
        Ok(())
    }

    fn find(&mut self, rule: &'static RuleInfo, place: Place, message: String) {
        self.salvaged.found.push(rule.broken(place, message));
    }

    /// A place in the stream, with the number of calls read before it.
    fn place(&self, offset: u64) -> Place {
        Place { offset: Some(offset), record: Some(self.n_calls()), ..self.file() }
    }

    fn file(&self) -> Place {
        Place { file: Some(self.container.name().to_owned()), ..Place::default() }
    }

    fn n_calls(&self) -> u64 {
        let handed_over: u64 = self.salvaged.streams.iter().map(|stream| stream.calls).sum();
        handed_over + self.values.calls.len() as u64
    }
}

/// A machine for waiting for bytes; it is never asked for events.
struct Waiting;

impl crate::feed::Machine for Waiting {
    type Out = ();

    fn event(&mut self, _: &[u8], _: usize) -> crate::decode::Decoded<((), usize)> {
        Err(crate::decode::Stop::More(1))
    }

    fn n_entered(&self) -> u64 {
        0
    }
}

/// True if data after damage can be reached at all in such a container.
pub fn can_go_on(container: &Container) -> bool {
    matches!(container.codec(), Codec::SnappyChunks | Codec::Zstd | Codec::Plain)
}
