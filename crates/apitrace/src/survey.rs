//! Facts that require reading the whole stream: API, frames, functions, sizes.

use crate::decode::skim::{Bulk, Skimmed, Skimmer};
use crate::feed::Feed;
use crate::flags::Api;
use crate::record::{END_FRAME, FAKE, INCOMPLETE, RENDER};
use quipu_model::values::Types;
use quipu_model::{Finding, Place, Result};
use quipu_source::{Ahead, Container, StreamOptions};

/// Summary of the contents of a trace.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// The semantic version from the header, which says how calls are to be replayed.
    pub semantic_version: u64,
    /// The graphics API of the functions.
    pub api: Api,
    /// Size of the stream in bytes.
    pub stream_bytes: u64,
    /// Number of calls, complete or not.
    pub calls: u64,
    /// Number of calls that never returned.
    pub incomplete: u64,
    /// Number of calls that the tracer made up.
    pub fake: u64,
    /// Number of calls with a stack.
    pub with_stack: u64,
    /// Number of calls that draw.
    pub draws: u64,
    /// Amounts of raw memory, strings and signatures.
    pub bulk: Bulk,
    /// Threads, in the order of their first completed call, with their numbers of calls.
    pub threads: Vec<(u64, u64)>,
    /// Functions, in the order of appearance, with their numbers of calls.
    pub functions: Vec<(String, u64)>,
    /// The frames that ended; empty if they are only counted.
    pub frames: Vec<FrameFacts>,
    /// Number of frames that ended.
    pub n_frames: u64,
    /// Findings of the read.
    pub findings: Vec<Finding>,
}

/// One frame: the calls up to one that ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFacts {
    /// Number of the call that was completed first.
    pub first_call: u64,
    /// Number of the call that ended it.
    pub last_call: u64,
    /// Number of calls.
    pub calls: u64,
    /// Bytes of the stream since the end of the previous frame.
    pub bytes: u64,
}

/// Whether to list each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frames {
    /// Only counts them.
    Counted,
    /// Lists each, at 32 bytes a frame.
    Listed,
}

/// Reads a whole trace, or until it is cancelled.
///
/// # Errors
/// An error after which reading could not continue; the counts so far are returned with it.
pub fn survey(
    container: &Container,
    frames: Frames,
    is_cancelled: &dyn Fn() -> bool,
) -> (Survey, Result<()>) {
    let mut survey = Survey::default();
    let done = read(container, frames, is_cancelled, &mut survey);
    (survey, done)
}

fn read(
    container: &Container,
    frames: Frames,
    is_cancelled: &dyn Fn() -> bool,
    survey: &mut Survey,
) -> Result<()> {
    let options = StreamOptions {
        block_bytes: 256 << 10,
        ahead: Ahead::Thread { blocks: 4 },
        ..StreamOptions::default()
    };
    let mut feed = Feed::new(container, &options)?;
    let done = feed.begin().and_then(|has_header| {
        if !has_header {
            return Ok(());
        }
        let mut skimmer = Skimmer::new(feed.header());
        let mut tally = Tally { survey, frames, calls_of: Vec::new(), open: None, frame_at: 0, n_types: 0 };
        let done = tally.read(&mut feed, &mut skimmer, is_cancelled);
        tally.finish(&skimmer);
        done
    });
    let done = done.map_err(|error| error.at(&Place { record: Some(survey.calls), ..Place::default() }));
    survey.semantic_version = feed.header().semantic_version;
    survey.stream_bytes = feed.n_bytes();
    survey.findings = feed.take_findings();
    done
}

struct Tally<'s> {
    survey: &'s mut Survey,
    frames: Frames,
    /// Number of calls of each function, by type.
    calls_of: Vec<u64>,
    /// The frame that has not ended: its first call and its number of calls.
    open: Option<(u64, u64)>,
    /// Offset in the stream of the end of the previous frame.
    frame_at: u64,
    /// Number of types examined for the API.
    n_types: usize,
}

impl Tally<'_> {
    fn read(
        &mut self,
        feed: &mut Feed,
        skimmer: &mut Skimmer,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        while !is_cancelled() {
            // Calls in the common form add no types.
            while let Some(Some(call)) = feed.next_common(skimmer) {
                self.add(&call, feed.offset());
            }
            let Some(event) = feed.next_any(skimmer)? else { break };
            if let Some(call) = event {
                self.add(&call, feed.offset());
                if self.survey.api == Api::Unknown && self.n_types < skimmer.types().len() {
                    self.look_for_library(skimmer.types());
                }
            }
        }
        while let Some(call) = skimmer.take_oldest() {
            self.add(&call, feed.offset());
        }
        Ok(())
    }

    /// Counts a call; `offset` is the position of the feed after it.
    #[inline(always)]
    fn add(&mut self, call: &Skimmed, offset: u64) {
        self.count(call);
        let (first_call, calls) = self.open.map_or((call.number, 1), |(first, n)| (first, n + 1));
        self.open = Some((first_call, calls));
        if call.flags & END_FRAME != 0 {
            let bytes = offset - self.frame_at;
            if self.frames == Frames::Listed {
                self.survey.frames.push(FrameFacts { first_call, last_call: call.number, calls, bytes });
            }
            self.survey.n_frames += 1;
            self.frame_at = offset;
            self.open = None;
        }
    }

    #[inline(always)]
    fn count(&mut self, call: &Skimmed) {
        let survey = &mut *self.survey;
        survey.calls += 1;
        survey.incomplete += u64::from(call.flags & INCOMPLETE != 0);
        survey.fake += u64::from(call.flags & FAKE != 0);
        survey.draws += u64::from(call.flags & RENDER != 0);
        survey.with_stack += u64::from(call.has_stack);
        let function = call.function as usize;
        if self.calls_of.len() <= function {
            self.calls_of.resize(function + 1, 0);
        }
        self.calls_of[function] += 1;
        match survey.threads.last_mut() {
            Some((thread, n)) if *thread == call.thread => *n += 1,
            _ => match survey.threads.iter_mut().position(|(thread, _)| *thread == call.thread) {
                Some(i) => survey.threads[i].1 += 1,
                None => survey.threads.push((call.thread, 1)),
            },
        }
    }

    fn look_for_library(&mut self, types: &Types) {
        for index in self.n_types..types.len() {
            if let Some(function) = types.function(index as u32) {
                self.survey.api = Api::of_function(&function.name);
                if self.survey.api != Api::Unknown {
                    break;
                }
            }
        }
        self.n_types = types.len();
    }

    fn finish(&mut self, skimmer: &Skimmer) {
        let types = skimmer.types();
        self.survey.bulk = *skimmer.bulk();
        if self.survey.api == Api::Unknown {
            self.look_for_library(types);
        }
        for (index, n_calls) in (0u32..).zip(&self.calls_of) {
            if let Some(function) = types.function(index)
                && *n_calls > 0
            {
                let name = String::from_utf8_lossy(&function.name).into_owned();
                self.survey.functions.push((name, *n_calls));
            }
        }
    }
}
