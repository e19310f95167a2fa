//! `frames`: how much is done in each frame.
//!
//! A frame is the calls up to and with one that ends it, such as a swap of buffers, in the order of completion. Calls behind the last
//! such call are no frame; they are told as *behind the last frame*.
//!
//! Memory grows with the number of frames (48 bytes each).
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (frames listed, those with most calls; default 20; JSON has all).
//! * **JSON** [`FrameCounts`].

use super::calls::Counts;
use super::{VALUES, seen};
use crate::record::END_FRAME;
use quipu_model::doc::{Block, Cell, Document, Figure, Grid, Series, SeriesLine};
use quipu_model::pass::Detail;
use quipu_model::trace::SettingInfo;
use quipu_model::{Args, Batch, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use serde_json::{Value, json};
use std::any::Any;
use std::cmp::Reverse;

/// The tool `frames`.
#[derive(Debug)]
pub struct Frames;

static INFO: ToolInfo = ToolInfo {
    name: "frames",
    summary: "calls, draws and raw memory of each frame",
    needs: VALUES,
    order: Order::Shards,
    options: &[SettingInfo { name: "top", value: "N", default: "20", doc: "how many frames to list" }],
    in_report: true,
};

/// How many points a line of a chart has at most.
const POINTS: usize = 160;

impl Tool for Frames {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, args: &Args, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let top = usize::try_from(args.number("top", 20)?).unwrap_or(usize::MAX);
        Ok(Box::new(FrameCounts { top, ..FrameCounts::default() }))
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneFrame {
    /// Number of the call that was over first.
    pub first_call: u64,
    /// Number of the call that was over last; if the frame has ended, it ended it.
    pub last_call: u64,
    /// Calls.
    pub calls: u64,
    /// Those that draw.
    pub draws: u64,
    /// Bytes of raw memory.
    pub blob_bytes: u64,
}

/// The frames of a trace.
///
/// JSON: `frames` (list of `frame`, `first_call`, `last_call`, `calls`, `draws`, `blob_bytes`), `behind` (the same of the
/// calls behind the last frame, without `frame`, or `null`), `calls_per_frame` (`least`, `median`, `mean`, `most`; `null`
/// without frames).
#[derive(Clone, Debug, Default)]
pub struct FrameCounts {
    top: usize,
    frames: Vec<OneFrame>,
    open: Option<OneFrame>,
}

impl OneFrame {
    fn plus(&mut self, later: &OneFrame) {
        self.last_call = later.last_call;
        self.calls += later.calls;
        self.draws += later.draws;
        self.blob_bytes += later.blob_bytes;
    }

    fn json(&self) -> serde_json::Map<String, Value> {
        let mut object = serde_json::Map::new();
        for (key, value) in [
            ("first_call", self.first_call),
            ("last_call", self.last_call),
            ("calls", self.calls),
            ("draws", self.draws),
            ("blob_bytes", self.blob_bytes),
        ] {
            object.insert(key.to_owned(), value.into());
        }
        object
    }
}

impl Pass for FrameCounts {
    fn fork(&self, _shard: &Shard) -> FrameCounts {
        FrameCounts { top: self.top, ..FrameCounts::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        for seen in seen(batch) {
            let mut counts = Counts::default();
            counts.add(&seen);
            let number = seen.call.number;
            let this = OneFrame {
                first_call: number,
                last_call: number,
                calls: 1,
                draws: counts.draws,
                blob_bytes: counts.blob_bytes,
            };
            match &mut self.open {
                Some(open) => open.plus(&this),
                None => self.open = Some(this),
            }
            if seen.call.flags & END_FRAME != 0 {
                self.frames.extend(self.open.take());
            }
        }
        Ok(())
    }

    fn merge(&mut self, mut later: FrameCounts) -> Result<()> {
        if let Some(mut open) = self.open.take() {
            match (later.frames.first_mut(), &mut later.open) {
                (Some(first), _) | (None, Some(first)) => {
                    open.plus(first);
                    *first = open;
                }
                (None, None) => later.open = Some(open),
            }
        }
        self.frames.append(&mut later.frames);
        self.open = later.open;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        Ok(Box::new(self))
    }
}

impl FrameCounts {
    /// Least, median, mean and most calls of a frame.
    fn spread(&self) -> Option<(u64, u64, f64, u64)> {
        let mut calls: Vec<u64> = self.frames.iter().map(|frame| frame.calls).collect();
        calls.sort_unstable();
        let sum: u64 = calls.iter().sum();
        let mean = sum as f64 / calls.len().max(1) as f64;
        Some((*calls.first()?, calls[calls.len() / 2], mean, *calls.last()?))
    }

    /// Means of neighbouring frames, as a line of a chart.
    fn line(&self, name: &str, unit: &str, value: impl Fn(&OneFrame) -> u64) -> SeriesLine {
        let n_points = self.frames.len().clamp(1, POINTS);
        let values = (0..n_points).map(|i| {
            let (start, end) = (i * self.frames.len() / n_points, (i + 1) * self.frames.len() / n_points);
            let part = &self.frames[start..end];
            part.iter().map(|frame| value(frame) as f64).sum::<f64>() / part.len().max(1) as f64
        });
        let most = self.frames.iter().map(&value).max().unwrap_or(0);
        SeriesLine { name: name.to_owned(), values: values.collect(), note: format!("max {most} {unit}") }
    }
}

impl Report for FrameCounts {
    fn json(&self) -> Value {
        let frames: Vec<Value> = self
            .frames
            .iter()
            .enumerate()
            .map(|(i, frame)| {
                let mut object = serde_json::Map::new();
                object.insert("frame".to_owned(), i.into());
                object.extend(frame.json());
                object.into()
            })
            .collect();
        let spread = self.spread().map(|(least, median, mean, most)| {
            json!({ "least": least, "median": median, "mean": mean, "most": most })
        });
        let behind = self.open.as_ref().map(|open| Value::from(open.json()));
        json!({ "frames": frames, "behind": behind, "calls_per_frame": spread })
    }

    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Frames");
        let Some((least, median, mean, most)) = self.spread() else {
            if detail == Detail::Full {
                document.blocks.push(Block::Note("No call ends a frame.".into()));
            }
            return document;
        };
        let figure = |label: &str, value: Cell, note: String| Figure { label: label.to_owned(), value, note };
        let sum = |value: fn(&OneFrame) -> u64| self.frames.iter().map(value).sum::<u64>();
        let n_frames = self.frames.len() as u64;
        let draws = sum(|frame| frame.draws);
        let draws_per_frame = draws as f64 / n_frames as f64;
        let bytes_per_frame = sum(|frame| frame.blob_bytes) / n_frames;
        document.blocks.push(Block::Figures(vec![
            figure("frames", Cell::Count(n_frames), String::new()),
            figure("calls per frame", Cell::Real(mean, 1), format!("{least} to {most}, median {median}")),
            figure("draws per frame", Cell::Real(draws_per_frame, 1), format!("{draws} in all")),
            figure("raw memory per frame", Cell::Bytes(bytes_per_frame), String::new()),
        ]));
        let mut lines = vec![self.line("calls", "calls", |frame| frame.calls)];
        if draws > 0 {
            lines.push(self.line("draws", "draws", |frame| frame.draws));
        }
        if sum(|frame| frame.blob_bytes) > 0 {
            lines.push(self.line("raw memory", "bytes", |frame| frame.blob_bytes));
        }
        document.blocks.push(Block::Series(Series {
            title: "per frame".to_owned(),
            axis: "frames".to_owned(),
            ends: ("0".to_owned(), (n_frames - 1).to_string()),
            lines,
        }));
        if let Some(open) = &self.open {
            let text = format!("{} calls stand behind the last frame.", open.calls);
            document.blocks.push(Block::Note(text));
        }
        if detail == Detail::Brief {
            return document;
        }
        let mut largest: Vec<(usize, &OneFrame)> = self.frames.iter().enumerate().collect();
        largest.sort_by_key(|(i, frame)| (Reverse(frame.calls), *i));
        let rows = largest.iter().take(self.top).map(|(i, frame)| {
            vec![
                Cell::Text(i.to_string()),
                Cell::Text(frame.first_call.to_string()),
                Cell::Text(frame.last_call.to_string()),
                Cell::Count(frame.calls),
                Cell::Count(frame.draws),
                Cell::Bytes(frame.blob_bytes),
            ]
        });
        document.with(Block::Grid(Grid {
            title: "largest frames".to_owned(),
            head: ["frame", "first call", "last call", "calls", "draws", "raw memory"]
                .map(str::to_owned)
                .into(),
            rows: rows.collect(),
            more: largest.len().saturating_sub(self.top) as u64,
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
