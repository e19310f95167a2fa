//! `calls`: calls by function, thread and frame, with the raw memory that they pass.
//!
//! Counts all calls, including those that never returned and those that the tracer made up. *Draws* are calls that draw,
//! which their names show. *Raw memory* is data that is uploaded to textures, buffers and client arrays. A trace has no
//! clock, so there are no times.
//!
//! Memory grows with the number of functions, of threads, and of frames (40 bytes each).
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (rows listed of functions and of frames, default 30; JSON has all).

use super::{Seen, VALUES, grid, seen};
use crate::record::{END_FRAME, FAKE, INCOMPLETE, RENDER};
use quipu_model::ReportBody;
use quipu_model::doc::{Cell, Document};
use quipu_model::options::{Kind, OptionSpec, Options};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, DynPass, Order, Pass, Report, Result, Shard, ThreadId, Tool, ToolInfo, Trace};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The tool `calls`.
#[derive(Debug)]
pub struct Calls;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "30", "number of functions and frames to list");

static INFO: ToolInfo = ToolInfo {
    name: "calls",
    summary: "calls by function, thread and frame: counts, draws, raw memory",
    needs: VALUES,
    order: Order::Shards,
    options: &[TOP],
    in_report: true,
};

impl Tool for Calls {
    fn result(&self) -> Shape {
        CallCounts::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Counting { top: options.length(&TOP), ..Counting::default() }))
    }
}

result! {
    /// Counts of calls and of raw memory.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counts {
        pub calls: u64 => "Calls.";
        pub draws: u64 => "Calls that draw.";
        pub incomplete: u64 => "Calls that never returned.";
        pub fake: u64 => "Calls that the tracer made up.";
        pub blobs: u64 => "Pieces of raw memory.";
        pub blob_bytes: u64 => "Bytes of raw memory.";
    }
}

impl Counts {
    /// Counts a call.
    pub(crate) fn add(&mut self, seen: &Seen<'_>) {
        let has = |flag: u32| u64::from(seen.call.flags & flag != 0);
        let (blobs, blob_bytes) = seen.blobs();
        self.plus(&Counts {
            calls: 1,
            draws: has(RENDER),
            incomplete: has(INCOMPLETE),
            fake: has(FAKE),
            blobs,
            blob_bytes,
        });
    }

    /// Adds other counts.
    pub(crate) fn plus(&mut self, other: &Counts) {
        self.calls += other.calls;
        self.draws += other.draws;
        self.incomplete += other.incomplete;
        self.fake += other.fake;
        self.blobs += other.blobs;
        self.blob_bytes += other.blob_bytes;
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Count(self.calls),
            Cell::Count(self.draws),
            Cell::Count(self.incomplete),
            Cell::Count(self.fake),
            Cell::Count(self.blobs),
            Cell::Bytes(self.blob_bytes),
        ]
    }
}

result! {
    /// Calls by function, thread and frame.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CallCounts {
        pub functions: Vec<OfFunction> => "Functions, most calls first.";
        pub threads: Vec<OfThread> => "Threads, by number.";
        pub frames: Vec<OfFrame> => "Frames, by number; the last may not have ended.";
    } beside {
        top: usize => "Number of functions and frames to show.";
    }
}

result! {
    /// Calls of a function.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OfFunction {
        pub function: String => "Name of the function.";
        pub counts: Counts, flat => "Counts for the function.";
    }
}

result! {
    /// Calls of a thread.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OfThread {
        pub thread: ThreadId, flat => "Number of the thread.";
        pub counts: Counts, flat => "Counts for the thread.";
    }
}

result! {
    /// Calls in a frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OfFrame {
        pub frame: u64 => "Number of the frame, from 0.";
        pub counts: Counts, flat => "Counts for the frame.";
    }
}

/// State of the pass.
#[derive(Clone, Debug, Default)]
struct Counting {
    top: usize,
    functions: BTreeMap<String, Counts>,
    /// Counts by type, for the current read; types are only valid within it.
    of_type: Vec<(String, Counts)>,
    threads: BTreeMap<ThreadId, Counts>,
    frames: Vec<Counts>,
    /// True if the last frame is open.
    is_open: bool,
}

impl Counting {
    /// Moves counts by type to the names of the functions.
    fn settle(&mut self) {
        for (name, counts) in std::mem::take(&mut self.of_type) {
            if counts.calls > 0 {
                self.functions.entry(name).or_default().plus(&counts);
            }
        }
    }
}

impl Pass for Counting {
    fn fork(&self, _shard: &Shard) -> Counting {
        Counting { top: self.top, ..Counting::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let mut of_thread = Counts::default();
        for seen in seen(batch) {
            let mut counts = Counts::default();
            counts.add(&seen);
            let ty = seen.call.function as usize;
            if self.of_type.len() <= ty {
                self.of_type.resize_with(ty + 1, Default::default);
            }
            let (name, sum) = &mut self.of_type[ty];
            if sum.calls == 0 {
                *name = String::from_utf8_lossy(seen.name()).into_owned();
            }
            sum.plus(&counts);
            of_thread.plus(&counts);
            if !self.is_open {
                self.frames.push(Counts::default());
            }
            if let Some(frame) = self.frames.last_mut() {
                frame.plus(&counts);
            }
            self.is_open = seen.call.flags & END_FRAME == 0;
        }
        if of_thread.calls > 0 {
            self.threads.entry(batch.span.thread).or_default().plus(&of_thread);
        }
        Ok(())
    }

    fn merge(&mut self, mut later: Counting) -> Result<()> {
        self.settle();
        later.settle();
        for (name, counts) in &later.functions {
            self.functions.entry(name.clone()).or_default().plus(counts);
        }
        for (thread, counts) in &later.threads {
            self.threads.entry(*thread).or_default().plus(counts);
        }
        let mut frames = later.frames.into_iter();
        if self.is_open
            && let (Some(open), Some(rest)) = (self.frames.last_mut(), frames.next())
        {
            open.plus(&rest);
        }
        let n_before = self.frames.len();
        self.frames.extend(frames);
        if later.functions.values().any(|counts| counts.calls > 0) || self.frames.len() > n_before {
            self.is_open = later.is_open;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Box<dyn Report>> {
        self.settle();
        let functions = self.functions.into_iter();
        let mut functions: Vec<_> =
            functions.map(|(function, counts)| OfFunction { function, counts }).collect();
        functions.sort_by_key(|of| Reverse(of.counts.calls));
        let threads = self.threads.into_iter().map(|(thread, counts)| OfThread { thread, counts }).collect();
        let frames = (0..).zip(self.frames).map(|(frame, counts)| OfFrame { frame, counts }).collect();
        Ok(Box::new(CallCounts { top: self.top, functions, threads, frames }))
    }
}

/// Heads of the columns, given the first.
fn heads(first: &str) -> [&str; 7] {
    [first, "calls", "draws", "incomplete", "fake", "blobs", "bytes"]
}

/// A row with a name and its counts.
fn row(name: Cell, counts: &Counts) -> Vec<Cell> {
    let mut row = vec![name];
    row.extend(counts.cells());
    row
}

impl ReportBody for CallCounts {
    fn document(&self, detail: Detail) -> Document {
        let document = Document::new("Calls");
        if self.functions.is_empty() && detail == Detail::Brief {
            return document;
        }
        let n_shown = if detail == Detail::Brief { 6 } else { self.top };
        let document = document.with(grid("", &heads("function"), self.functions.iter(), n_shown, |of| {
            row(Cell::Code(of.function.clone()), &of.counts)
        }));
        if detail == Detail::Brief {
            return document;
        }
        let document =
            document.with(grid("by thread", &heads("thread"), self.threads.iter(), usize::MAX, |of| {
                row(Cell::Text(of.thread.to_string()), &of.counts)
            }));
        let mut frames: Vec<&OfFrame> = self.frames.iter().collect();
        frames.sort_by_key(|of| Reverse(of.counts.calls));
        document.with(grid("largest frames", &heads("frame"), frames.into_iter(), self.top, |of| {
            row(Cell::Text(of.frame.to_string()), &of.counts)
        }))
    }
}
