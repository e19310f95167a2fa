//! Reading on behind damage: what can be had of a trace that was cut, changed, or written by two processes at once.
//!
//! ```text
//! chunks ──▶ runs of bytes without a gap ──▶ events ──▶ calls
//!   a chunk that cannot be inflated:           what is no event: look for the next run of events whose
//!   go on with the next                        functions are known and whose numbers fit
//! ```
//!
//! A stream that begins in the middle of the file, as when a traced program forks, is a stream of its own. Signatures that
//! stood in a gap are made up: such functions have a number for a name and such numbers no name; structures cannot be made up, so
//! calls with them are lost as well. All that was found goes to a [`Sink`], with what it cost.

use crate::check::rules;
use crate::decode::trial::Run;
use crate::decode::{Decoder, Header};
use crate::feed::{Feed, Storing, chunk_of};
use crate::trace::plausible;
use quipu_model::values::{Types, Values};
use quipu_model::{Confidence, Error, ErrorKind, Finding, Found, Place, Result, RuleInfo, Severity};
use quipu_source::{Ahead, Codec, Container, Landmark, StreamOptions};

/// Calls are handed over when there are so many, or so many bytes of values.
const CALLS_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 1 << 20;
/// How many bytes must be at hand for a run of events to be looked for in them.
const RUN_BYTES: usize = 1 << 20;
/// How much is asked whether it is the head of a stream.
const HEAD_BYTES: usize = 4 << 10;

/// Where calls and complaints go.
pub trait Sink {
    /// Another stream begins: the first, or one that another process wrote.
    ///
    /// # Errors
    /// What the sink cannot do; it ends the reading.
    fn stream(&mut self, header: &Header, offset: u64) -> Result<()>;

    /// Calls of the stream at hand. What comes later in it has these types, too.
    ///
    /// # Errors
    /// As above.
    fn calls(&mut self, values: &Values, types: &Types) -> Result<()>;
}

/// What reading a damaged trace told.
#[derive(Clone, Debug, Default)]
pub struct Salvaged {
    /// The streams, in the order of the file.
    pub streams: Vec<StreamFacts>,
    /// What is wrong with the trace.
    pub found: Found,
    /// Bytes that were inflated and are no events.
    pub lost_bytes: u64,
    /// Chunks that cannot be inflated.
    pub lost_chunks: u64,
}

/// What is known of one of the streams in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFacts {
    /// Where it begins, in the inflated bytes of the file.
    pub offset: u64,
    /// Where its last whole event ends.
    pub end: u64,
    /// Calls that were read.
    pub calls: u64,
    /// Those that never returned, or whose return was lost.
    pub incomplete: u64,
    /// Calls that are known to be lost, because the numbers of others tell.
    pub lost_calls: u64,
    /// Signatures that were made up.
    pub lost_signatures: u64,
    /// True if nothing within it was lost: its bytes are whole up to `end`.
    pub is_whole: bool,
}

/// Reads all of a container, whatever stands in the way.
///
/// # Errors
/// If the file cannot be read, or holds nothing that can be a trace; what the sink says.
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
        values: Values::default(),
        types: Types::default(),
    };
    work.run()?;
    Ok(work.salvaged)
}

struct Work<'a> {
    container: &'a Container,
    landmarks: Vec<Landmark>,
    options: StreamOptions,
    sink: &'a mut dyn Sink,
    salvaged: Salvaged,
    at_work: Option<(Header, Decoder)>,
    values: Values,
    types: Types,
}

impl Work<'_> {
    fn run(&mut self) -> Result<()> {
        // The run at hand begins with this chunk; none if there are no such places.
        let mut next = 0;
        let mut is_first = true;
        loop {
            let landmark = self.landmarks.get(next).copied();
            let feed = match landmark {
                Some(landmark) if !is_first => {
                    let header =
                        self.at_work.as_ref().map_or_else(Header::default, |(header, _)| header.clone());
                    Feed::from_landmark(self.container, &self.options, &header, &landmark, landmark.at)?
                }
                _ if is_first => Feed::new(self.container, &self.options)?,
                _ => break,
            };
            let (end, failure) = self.run_of_bytes(feed, is_first)?;
            is_first = false;
            let behind = self.landmarks.partition_point(|landmark| landmark.at < end);
            let Some(failure) = failure else {
                // A gap may have looked like the end.
                next = behind.max(next + 1);
                let Some(again) = self.landmarks.get(next) else { break };
                let place = self.place(end);
                let what = format!(
                    "chunk `{next}` is missing: chunks end here, and go on at offset {:#x} of the file",
                    again.packed_at
                );
                self.find(&rules::BAD_CHUNK, place, what);
                self.salvaged.lost_chunks += 1;
                continue;
            };
            if failure.kind() == ErrorKind::Io {
                return Err(failure);
            }
            let is_cut = failure.kind() == ErrorKind::Truncated;
            let is_bad = self.landmarks.get(behind).is_some_and(|landmark| !landmark.is_behind_gap);
            let place = failure.place().clone();
            if is_cut && behind + 1 >= self.landmarks.len() {
                self.salvaged.found.push(Finding {
                    rule: "source/truncated",
                    severity: Severity::Warning,
                    place,
                    message: failure.message().to_owned(),
                    count: 1,
                });
                break;
            }
            let chunk = if self.landmarks.is_empty() { String::new() } else { format!("chunk `{behind}`: ") };
            let what = format!("{chunk}{}; reading goes on behind it, if it can", failure.message());
            self.find(&rules::BAD_CHUNK, place, what);
            self.salvaged.lost_chunks += 1;
            next = behind + usize::from(is_bad);
            if self.landmarks.get(next).is_none() {
                break;
            }
        }
        self.end_stream()
    }

    /// Reads bytes without a gap to their end; returns where that is, and what it ended with.
    fn run_of_bytes(&mut self, mut feed: Feed, is_first: bool) -> Result<(u64, Option<Error>)> {
        if is_first {
            match feed.begin() {
                Ok(true) => self.begin_stream(&feed, 0)?,
                Ok(false) => {
                    feed.take_findings().into_iter().for_each(|finding| self.salvaged.found.push(finding));
                    return Ok((feed.n_bytes(), feed.take_failure()));
                }
                Err(error) => {
                    let place = error.place().clone();
                    self.find(&rules::DAMAGED, place, error.message().to_owned());
                }
            }
        } else if !self.at_chunk_start(&mut feed)? {
            self.look_for_events(&mut feed)?;
        }
        loop {
            let Some((_, decoder)) = &mut self.at_work else {
                // Nothing was recognised yet: there is no use in looking for events of nothing.
                if self.find_stream(&mut feed)? {
                    continue;
                }
                let n_bytes = feed.unused().len();
                feed.give_up(n_bytes);
                self.lose_bytes(n_bytes as u64);
                feed.fetch(1, &mut Waiting)?;
                if feed.unused().is_empty() {
                    return Ok((feed.n_bytes(), feed.take_failure()));
                }
                continue;
            };
            let mut storing = Storing { decoder, out: &mut self.values, types: &mut self.types };
            match feed.next(&mut storing) {
                Ok(Some(_)) => {
                    let end = feed.offset();
                    if let Some(stream) = self.salvaged.streams.last_mut() {
                        stream.end = end;
                    }
                    if self.values.calls.len() >= CALLS_AT_ONCE || self.values.bytes.len() >= BYTES_AT_ONCE {
                        self.hand_over()?;
                    }
                }
                Ok(None) => {
                    feed.take_findings().into_iter().for_each(|finding| self.salvaged.found.push(finding));
                    return Ok((feed.n_bytes(), None));
                }
                Err(error) => {
                    // Either the bytes end in a fault, or they are no event.
                    if error.kind() == ErrorKind::Io {
                        return Err(error);
                    }
                    if feed.is_failed() {
                        let n_left = feed.unused().len() as u64;
                        self.lose_bytes(n_left);
                        return Ok((feed.n_bytes(), Some(error)));
                    }
                    if !self.find_stream(&mut feed)? {
                        let place = error.place().clone();
                        self.find(&rules::DAMAGED, place, error.message().to_owned());
                        feed.give_up(1);
                        self.lose_bytes(1);
                        self.look_for_events(&mut feed)?;
                    }
                }
            }
        }
    }

    fn lose_bytes(&mut self, n_bytes: u64) {
        self.salvaged.lost_bytes += n_bytes;
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.is_whole &= n_bytes == 0;
        }
    }

    /// Whether a stream begins where a chunk does; it becomes the one at work.
    fn at_chunk_start(&mut self, feed: &mut Feed) -> Result<bool> {
        feed.fetch(HEAD_BYTES, &mut Waiting)?;
        self.take_stream_at(feed, 0)
    }

    /// Looks for the head of a stream at the beginnings of chunks among the bytes at hand.
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

    /// Begins another stream so many bytes further on, if one seems to begin there.
    fn take_stream_at(&mut self, feed: &mut Feed, n_before: usize) -> Result<bool> {
        let head = feed.unused().get(n_before..).unwrap_or(&[]);
        let head = &head[..head.len().min(HEAD_BYTES)];
        // One byte of a newer version is what any stream may have; properties are not.
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
        let header = feed.header().clone();
        self.sink.stream(&header, offset)?;
        self.types = Types::default();
        self.at_work = Some((header.clone(), Decoder::new(&header)));
        let end = feed.offset();
        self.salvaged.streams.push(StreamFacts { offset, end, is_whole: true, ..StreamFacts::default() });
        Ok(())
    }

    /// Goes to the next run of events, behind a gap.
    fn look_for_events(&mut self, feed: &mut Feed) -> Result<()> {
        let Some((_, decoder)) = &mut self.at_work else { return Ok(()) };
        decoder.expect_gaps();
        // Values may be handed over before what comes.
        let parked = decoder.park(&self.values);
        parked.map_err(|n_bytes| feed.too_much_pending(n_bytes))?;
        self.hand_over()?;
        let before = feed.offset();
        loop {
            // A container that fails here is told of when its bytes are used up.
            feed.fetch(RUN_BYTES, &mut Waiting)?;
            let unused = feed.unused();
            let is_all = unused.len() < RUN_BYTES;
            let Some((_, decoder)) = &mut self.at_work else { return Ok(()) };
            let n_looked = if is_all { unused.len() } else { unused.len() / 2 };
            let found = decoder.find_run(unused, n_looked, &mut self.types, is_all);
            let Some((at, Run { number, .. })) = found else {
                feed.give_up(n_looked);
                if is_all {
                    self.lose_bytes(feed.offset() - before);
                    return Ok(());
                }
                continue;
            };
            let n_lost = number - decoder.n_entered();
            decoder.set_next_call(number);
            feed.give_up(at);
            self.lose_bytes(feed.offset() - before);
            if let Some(stream) = self.salvaged.streams.last_mut() {
                stream.is_whole = false;
                stream.lost_calls += n_lost;
            }
            let what = format!("reading goes on here, with call `{number}`: `{n_lost}` calls are lost");
            self.find(&rules::RESUMED, self.place(feed.offset()), what);
            return Ok(());
        }
    }

    /// Gives calls to the sink.
    fn hand_over(&mut self) -> Result<()> {
        if let Some((_, decoder)) = &mut self.at_work {
            // What open calls have in these values is kept elsewhere.
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

    /// Hands over what the stream at hand has left.
    fn end_stream(&mut self) -> Result<()> {
        self.hand_over()?;
        let Some((_, mut decoder)) = self.at_work.take() else { return Ok(()) };
        loop {
            decoder.deliver_pending(&mut self.values, CALLS_AT_ONCE);
            if self.values.calls.is_empty() {
                break;
            }
            self.hand_over()?;
        }
        let n_lost = decoder.n_lost_signatures();
        if let Some(stream) = self.salvaged.streams.last_mut() {
            stream.lost_signatures = n_lost;
        }
        if n_lost > 0 {
            let what = format!("`{n_lost}` signatures are lost: numbers stand for the names in them");
            self.find(&rules::LOST_SIGNATURE, self.place(0), what);
        }
        Ok(())
    }

    fn find(&mut self, rule: &'static RuleInfo, place: Place, message: String) {
        self.salvaged.found.push(rule.broken(place, message));
    }

    fn place(&self, offset: u64) -> Place {
        let file = Some(self.container.name().to_owned());
        Place { file, offset: Some(offset), ..Place::default() }
    }
}

/// Nobody takes events while bytes are waited for.
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

/// True if what stands behind damage in such a container can be reached at all.
pub fn can_go_on(container: &Container) -> bool {
    matches!(container.codec(), Codec::SnappyChunks | Codec::Zstd | Codec::Plain)
}
