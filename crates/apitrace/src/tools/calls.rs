//! `calls`: which functions are called, by which threads, in which frames, with how much raw memory.
//!
//! Counts all calls, also those that never returned and those that the tracer made up. *Draws* are calls that draw, which their
//! names tell. *Raw memory* is what textures, buffers and client arrays are uploaded from. A trace has no clock, so there
//! are no times.
//!
//! Memory grows with the number of functions, of threads, and of frames (40 bytes each).
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (rows listed of functions and of frames, default 30; JSON has all).
//! * **JSON** [`CallCounts`].

use super::{Seen, VALUES, seen};
use crate::record::{END_FRAME, FAKE, INCOMPLETE, RENDER};
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;
use quipu_model::trace::SettingInfo;
use quipu_model::{Args, Batch, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use serde_json::{Value, json};
use std::any::Any;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The tool `calls`.
#[derive(Debug)]
pub struct Calls;

static INFO: ToolInfo = ToolInfo {
    name: "calls",
    summary: "calls by function, thread and frame: counts, draws, raw memory",
    needs: VALUES,
    order: Order::Shards,
    options: &[SettingInfo {
        name: "top",
        value: "N",
        default: "30",
        doc: "how many functions and frames to list",
    }],
    in_report: true,
};

impl Tool for Calls {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, args: &Args, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let top = usize::try_from(args.number("top", 30)?).unwrap_or(usize::MAX);
        Ok(Box::new(CallCounts { top, ..CallCounts::default() }))
    }
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls.
    pub calls: u64,
    /// Those that draw.
    pub draws: u64,
    /// Those that never returned.
    pub incomplete: u64,
    /// Those that the tracer made up.
    pub fake: u64,
    /// Pieces of raw memory.
    pub blobs: u64,
    /// Bytes in them.
    pub blob_bytes: u64,
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

    fn json(&self, key: &str, name: Value) -> Value {
        json!({
            key: name,
            "calls": self.calls,
            "draws": self.draws,
            "incomplete": self.incomplete,
            "fake": self.fake,
            "blobs": self.blobs,
            "blob_bytes": self.blob_bytes,
        })
    }

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::Count(self.calls),
            Cell::Count(self.draws),
            Cell::Count(self.blobs),
            Cell::Bytes(self.blob_bytes),
        ]
    }
}

/// Calls by function, thread and frame.
///
/// JSON: `functions` (most calls first), `threads` (by number), `frames` (by number; the last may not have ended). Each has
/// `function`, `thread` or `frame`, and `calls`, `draws`, `incomplete`, `fake`, `blobs`, `blob_bytes`.
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    top: usize,
    functions: BTreeMap<String, Counts>,
    /// Counts by type, of the read at hand.
    of_type: Vec<(String, Counts)>,
    threads: BTreeMap<u64, Counts>,
    frames: Vec<Counts>,
    /// True if the last frame is open.
    is_open: bool,
}

impl CallCounts {
    /// Brings counts by type under the functions' names.
    fn settle(&mut self) {
        for (name, counts) in std::mem::take(&mut self.of_type) {
            if counts.calls > 0 {
                self.functions.entry(name).or_default().plus(&counts);
            }
        }
    }
}

impl Pass for CallCounts {
    fn fork(&self, _shard: &Shard) -> CallCounts {
        CallCounts { top: self.top, ..CallCounts::default() }
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

    fn merge(&mut self, mut later: CallCounts) -> Result<()> {
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
        Ok(Box::new(self))
    }
}

impl CallCounts {
    /// Functions, most calls first.
    fn by_calls(&self) -> Vec<(&String, &Counts)> {
        let mut functions: Vec<_> = self.functions.iter().collect();
        functions.sort_by_key(|(name, counts)| (Reverse(counts.calls), *name));
        functions
    }
}

fn grid(title: &str, head: &str, rows: Vec<Vec<Cell>>, more: usize) -> Block {
    let head = [head, "calls", "draws", "blobs", "bytes"].map(str::to_owned).into();
    Block::Grid(Grid { title: title.to_owned(), head, rows, more: more as u64 })
}

/// A name, then counts.
fn row(name: Cell, counts: &Counts) -> Vec<Cell> {
    let mut row = vec![name];
    row.extend(counts.cells());
    row
}

impl Report for CallCounts {
    fn json(&self) -> Value {
        let functions: Vec<Value> = self
            .by_calls()
            .into_iter()
            .map(|(name, counts)| counts.json("function", name.as_str().into()))
            .collect();
        let threads: Vec<Value> =
            self.threads.iter().map(|(thread, counts)| counts.json("thread", (*thread).into())).collect();
        let frames: Vec<Value> =
            self.frames.iter().enumerate().map(|(i, counts)| counts.json("frame", i.into())).collect();
        json!({ "functions": functions, "threads": threads, "frames": frames })
    }

    fn document(&self, detail: Detail) -> Document {
        let document = Document::new("Calls");
        let functions = self.by_calls();
        if functions.is_empty() && detail == Detail::Brief {
            return document;
        }
        let n_shown = if detail == Detail::Brief { 6 } else { self.top };
        let rows = functions.iter().take(n_shown);
        let rows = rows.map(|(name, counts)| row(Cell::Code((*name).clone()), counts)).collect();
        let document = document.with(grid("", "function", rows, functions.len().saturating_sub(n_shown)));
        if detail == Detail::Brief {
            return document;
        }
        let threads =
            self.threads.iter().map(|(thread, counts)| row(Cell::Text(thread.to_string()), counts)).collect();
        let document = document.with(grid("by thread", "thread", threads, 0));
        let mut frames: Vec<(usize, &Counts)> = self.frames.iter().enumerate().collect();
        frames.sort_by_key(|(frame, counts)| (Reverse(counts.calls), *frame));
        let rows = frames.iter().take(self.top);
        let rows = rows.map(|(frame, counts)| row(Cell::Text(frame.to_string()), counts)).collect();
        document.with(grid("largest frames", "frame", rows, frames.len().saturating_sub(self.top)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
