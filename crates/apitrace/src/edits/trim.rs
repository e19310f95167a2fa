//! `trim`: writes some calls of a trace as a new trace.
//!
//! SPEC: apitrace.md#trimming.

use super::{CallEdit, Step, begin, rewrite, setup};
use crate::callset::CallSet;
use crate::record::END_FRAME;
use crate::{call_set, truth};
use quipu_model::number::counted;
use quipu_model::options::{Kind, OptionSpec, Options};
use quipu_model::trace::Fact;
use quipu_model::transform::{Progress, Transform, TransformInfo, TransformJob, Transformed};
use quipu_model::values::{Call, Types, Values};
use quipu_model::{Error, Result, ThreadId};
use std::ops::Range;

/// The edit.
#[derive(Debug)]
pub struct Trim;

const PART: &str = "Range of calls";
const CALLS: OptionSpec = OptionSpec::new(
    "calls",
    Kind::Set,
    "",
    "Calls to keep: numbers, ranges, `frame`, `draw`, `fbo`, `@FILE`.",
)
.repeated()
.group(PART);
const FRAMES: OptionSpec =
    OptionSpec::new("frames", Kind::Set, "", "Frames to keep, counted from 0.").repeated().group(PART);
const SKIP: OptionSpec = OptionSpec::new("skip", Kind::Count, "0", "Skip this many calls at the start.");
const TAKE: OptionSpec = OptionSpec::new("take", Kind::Count, "", "Keep this many calls.");
const SETUP: OptionSpec =
    truth("setup", "no", "Also keep the earlier calls that these depend on.").group(PART);

static INFO: TransformInfo = TransformInfo {
    name: "trim",
    title: "some calls, frames or threads as a trace of their own",
    options: &[CALLS, FRAMES, SKIP, TAKE, SETUP],
};

/// A selection of calls.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Calls with these numbers; if `None`, `frames` decides.
    pub calls: Option<CallSet>,
    /// Calls of these frames. If both sets are `None`, all calls.
    pub frames: Option<CallSet>,
    /// Of the calls selected so far, those of these threads; all if empty.
    pub threads: Vec<ThreadId>,
    /// Of those, the calls at these positions in the order of completion.
    pub records: Range<u64>,
    /// Determines where the search for selected calls ends.
    pub until: Until,
}

/// Determines where to stop looking for calls that are selected by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Once all calls up to the last selected number were seen, however late.
    AllSeen,
    /// At the first call after the last selected number, as apitrace does: earlier calls of other threads that complete later
    /// are lost.
    FirstBehind,
}

impl Selection {
    /// Selects all calls.
    pub fn all() -> Selection {
        Selection {
            calls: None,
            frames: None,
            threads: Vec::new(),
            records: 0..u64::MAX,
            until: Until::AllSeen,
        }
    }

    /// The selection that the options and threads describe.
    fn of(options: &Options, threads: &[ThreadId]) -> Result<Selection> {
        let start = options.count(&SKIP);
        let end = options.number(&TAKE).map_or(u64::MAX, |n| start.saturating_add(n));
        Ok(Selection {
            calls: call_set(options, &CALLS)?,
            frames: call_set(options, &FRAMES)?,
            threads: threads.to_vec(),
            records: start..end,
            until: Until::AllSeen,
        })
    }

    /// True if all calls are selected.
    fn is_all(&self) -> bool {
        self.calls.is_none()
            && self.frames.is_none()
            && self.threads.is_empty()
            && self.records == (0..u64::MAX)
    }
}

/// Goes through calls in the order of completion and decides which are selected.
#[derive(Clone, Debug)]
pub struct Chooser {
    selection: Selection,
    frame: u64,
    n_seen: u64,
    /// Number of calls seen so far with numbers up to the last selected one.
    n_low: u64,
    /// Number of calls selected so far.
    n_kept: u64,
    /// Whether the selection ended before the trace did.
    is_over: bool,
}

impl Chooser {
    /// A chooser before the first call.
    pub fn new(selection: Selection) -> Chooser {
        Chooser { selection, frame: 0, n_seen: 0, n_low: 0, n_kept: 0, is_over: false }
    }

    /// Decides about the next call.
    pub fn next(&mut self, call: &Call) -> Step {
        let Selection { calls, frames, threads, records, .. } = &self.selection;
        let record = self.n_seen;
        if record >= records.end || self.is_over(call) {
            self.is_over = true;
            return Step::End;
        }
        self.n_seen += 1;
        let last = calls.as_ref().and_then(CallSet::last);
        self.n_low += u64::from(last.is_some_and(|last| call.number <= last));
        let is_chosen = match (calls, frames) {
            (None, None) => true,
            (calls, frames) => {
                calls.as_ref().is_some_and(|set| set.has(call.number, call.flags))
                    || frames.as_ref().is_some_and(|set| set.has(self.frame, call.flags))
            }
        };
        if call.flags & END_FRAME != 0 {
            self.frame += 1;
        }
        let is_wanted = is_chosen
            && record >= records.start
            && (threads.is_empty() || threads.contains(&call.thread.into()));
        self.n_kept += u64::from(is_wanted);
        if is_wanted { Step::Keep } else { Step::Drop }
    }

    /// True if neither this call nor a later one can be selected.
    fn is_over(&self, call: &Call) -> bool {
        let Selection { calls, frames, until, .. } = &self.selection;
        let calls_over = match (calls, calls.as_ref().and_then(CallSet::last)) {
            (None, _) => frames.is_some(),
            (_, None) => true,
            (_, Some(last)) => match until {
                Until::FirstBehind => call.number > last,
                Until::AllSeen => self.n_low > last,
            },
        };
        let frames_over = match (frames, frames.as_ref().and_then(CallSet::last)) {
            (None, _) => calls.is_some(),
            (_, None) => true,
            (_, Some(last)) => self.frame > last,
        };
        calls_over && frames_over
    }

    /// The error if no call was selected, with what the trace has as far as it was read. apitrace writes a trace without calls.
    pub fn refuse_nothing(&self) -> Option<Error> {
        if self.n_kept > 0 || self.selection.is_all() || self.selection.until == Until::FirstBehind {
            return None;
        }
        let error = Error::usage(
            "no call of the trace is selected by its number, frame, thread and position together",
        );
        if self.is_over {
            return Some(error);
        }
        let calls = counted(self.n_seen, "call");
        Some(error.hint(match self.frame {
            0 => format!("the trace has {calls}, and no call that ends a frame"),
            1 => format!("the trace has {calls} and one frame, number 0"),
            n => format!("the trace has {calls} and {}, numbers 0 to {}", counted(n, "frame"), n - 1),
        }))
    }
}

impl CallEdit for Chooser {
    fn step(&mut self, at: usize, values: &mut Values, _: &Types) -> Result<Step> {
        Ok(self.next(&values.calls[at]))
    }

    fn refuse_nothing(&mut self) -> Option<Error> {
        Chooser::refuse_nothing(self)
    }
}

impl Transform for Trim {
    fn info(&self) -> &'static TransformInfo {
        &INFO
    }

    fn lacks(&self, option: &str) -> Option<&'static str> {
        match option {
            "skip-instrs" | "take-instrs" | "instrs" | "since" | "until" | "per-thread" => {
                Some("calls have neither instructions nor a clock")
            }
            "chunk-instrs" => Some(super::convert::NO_ENTRIES),
            _ => None,
        }
    }

    /// With `--setup`, a separate first read finds the earlier calls that are needed.
    fn reads_again(&self, options: &Options) -> bool {
        options.flag(&SETUP)
    }

    fn run(&self, job: &TransformJob<'_>, progress: &dyn Progress) -> Result<Transformed> {
        let selection = Selection::of(job.options, &job.opening.threads)?;
        if selection.is_all() {
            return Err(
                Error::usage("no part is named").hint("say --calls, --frames, --thread, --skip or --take")
            );
        }
        let (trace, options) = begin(job)?;
        let mut chooser = Chooser::new(selection);
        if job.options.flag(&SETUP) {
            let mut needed = setup::needed(&trace, chooser, progress)?;
            let n_setup = Fact::new("setup_calls", "calls that they need", needed.n_setup());
            let done = rewrite(&trace, trace.header(), job.output, &options, &mut needed, progress)?;
            return Ok(done.edited(options.packing, vec![n_setup]));
        }
        let done = rewrite(&trace, trace.header(), job.output, &options, &mut chooser, progress)?;
        Ok(done.edited(options.packing, Vec::new()))
    }
}
