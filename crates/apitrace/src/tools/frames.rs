//! `frames`: calls, draws and raw memory of each frame.
//!
//! A frame is the calls up to and including one that ends it, such as a swap of buffers, in the order of completion. Calls
//! after the last such call do not form a frame; they are reported as *after the last frame*.
//!
//! For the frames with most calls, pages also show the functions that they call.
//!
//! Memory grows with the number of frames (56 bytes each).
//!
//! * **Needs** `call-values`.
//! * **Options** `top` (frames listed, those with most calls; default 20; JSON has all).

use super::calls::Counts;
use super::inside::{Inside, Insides};
use super::{VALUES, grid, seen};
use crate::record::END_FRAME;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Figure, Fold, Folds, Grid, Series, SeriesLine};
use quipu_model::number::{counted, grouped};
use quipu_model::options::{Kind, OptionSpec, Options};
use quipu_model::pass::Detail;
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use std::cmp::Reverse;

/// The tool `frames`.
#[derive(Debug)]
pub struct Frames;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "20", "number of frames to list");

static INFO: ToolInfo = ToolInfo {
    name: "frames",
    summary: "calls, draws and raw memory of each frame",
    needs: VALUES,
    order: Order::Shards,
    options: &[TOP],
    in_report: true,
};

/// Maximum number of points in a line of a chart.
const POINTS: usize = 160;

impl Tool for Frames {
    fn result(&self) -> Shape {
        FrameCounts::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, _trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Framing { top: options.length(&TOP), ..Framing::default() }))
    }
}

result! {
    /// Amounts of work in a frame.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InFrame {
        pub first_call: u64 => "Number of the call that completed first.";
        pub last_call: u64 => "Number of the call that completed last: the one that ended the frame, if it has ended.";
        pub calls: u64 => "Calls.";
        pub draws: u64 => "Calls that draw.";
        pub blob_bytes: u64 => "Bytes of raw memory.";
        pub stream_bytes: u64 => "Bytes of the inflated stream since the end of the frame before.";
    }
}

result! {
    /// The frames of a trace.
    #[derive(Clone, Debug, PartialEq)]
    pub struct FrameCounts {
        pub frames: Vec<OneFrame> => "Frames that have ended.";
        pub unfinished: Option<InFrame> => "Calls after the last frame.";
        pub calls_per_frame: Option<CallsPerFrame> => "Number of calls per frame; null without frames.";
    } beside {
        top: usize => "Number of frames to show.";
        insides: Vec<(u64, Inside)> => "Functions of the frames with most calls, by number of the frame.";
    }
}

result! {
    /// One frame.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OneFrame {
        pub frame: u64 => "Number of the frame, from 0.";
        pub calls: InFrame, flat => "Work in the frame.";
    }
}

result! {
    /// Number of calls in a frame, over all frames.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CallsPerFrame {
        pub least: u64 => "Calls of the smallest frame.";
        pub median: u64 => "Median number of calls.";
        pub mean: f64 => "Mean number of calls.";
        pub most: u64 => "Calls of the largest frame.";
    }
}

/// State of the pass.
#[derive(Clone, Debug, Default)]
struct Framing {
    top: usize,
    frames: Vec<InFrame>,
    open: Option<InFrame>,
    insides: Insides,
}

impl InFrame {
    fn plus(&mut self, later: &InFrame) {
        self.last_call = later.last_call;
        self.calls += later.calls;
        self.draws += later.draws;
        self.blob_bytes += later.blob_bytes;
        self.stream_bytes += later.stream_bytes;
    }
}

impl Pass for Framing {
    fn fork(&self, _shard: &Shard) -> Framing {
        Framing { top: self.top, ..Framing::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        for seen in seen(batch) {
            let mut counts = Counts::default();
            counts.add(&seen);
            let number = seen.call.number;
            let this = InFrame {
                first_call: number,
                last_call: number,
                calls: 1,
                draws: counts.draws,
                blob_bytes: counts.blob_bytes,
                stream_bytes: seen.call.stream_bytes,
            };
            match &mut self.open {
                Some(open) => open.plus(&this),
                None => self.open = Some(this),
            }
            self.insides.call(&seen);
            if seen.call.flags & END_FRAME != 0
                && let Some(ended) = self.open.take()
            {
                self.insides.end_frame(self.frames.len() as u64, ended.calls, &batch.types);
                self.frames.push(ended);
            }
        }
        self.insides.settle(&batch.types);
        Ok(())
    }

    fn merge(&mut self, mut later: Framing) -> Result<()> {
        if let Some(mut open) = self.open.take() {
            match (later.frames.first_mut(), &mut later.open) {
                (Some(first), _) | (None, Some(first)) => {
                    open.plus(first);
                    *first = open;
                }
                (None, None) => later.open = Some(open),
            }
        }
        let first = later.frames.first().map(|frame| frame.calls);
        self.insides.merge(later.insides, self.frames.len() as u64, first);
        self.frames.append(&mut later.frames);
        self.open = later.open;
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let Framing { top, frames, open, insides } = self;
        let insides = insides.into_frames();
        let calls_per_frame = spread(&frames);
        let frames = (0..).zip(frames).map(|(frame, calls)| OneFrame { frame, calls }).collect();
        Ok(Box::new(FrameCounts { top, insides, frames, unfinished: open, calls_per_frame }))
    }
}

/// Statistics of the number of calls in these frames; `None` without frames.
fn spread(frames: &[InFrame]) -> Option<CallsPerFrame> {
    let mut calls: Vec<u64> = frames.iter().map(|frame| frame.calls).collect();
    calls.sort_unstable();
    let mean = calls.iter().sum::<u64>() as f64 / calls.len().max(1) as f64;
    Some(CallsPerFrame { least: *calls.first()?, median: calls[calls.len() / 2], mean, most: *calls.last()? })
}

impl FrameCounts {
    /// A line of a chart; each point is the mean of neighbouring frames.
    fn line(&self, name: &str, unit: &str, value: impl Fn(&InFrame) -> u64) -> SeriesLine {
        let n_points = self.frames.len().clamp(1, POINTS);
        let values = (0..n_points).map(|i| {
            let (start, end) = (i * self.frames.len() / n_points, (i + 1) * self.frames.len() / n_points);
            let part = &self.frames[start..end];
            part.iter().map(|frame| value(&frame.calls) as f64).sum::<f64>() / part.len().max(1) as f64
        });
        let most = self.frames.iter().map(|frame| value(&frame.calls)).max().unwrap_or(0);
        SeriesLine {
            name: name.to_owned(),
            values: values.collect(),
            note: format!("max {most} {unit}"),
            unit: unit.to_owned(),
        }
    }
}

impl ReportBody for FrameCounts {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Frames");
        let Some(CallsPerFrame { least, median, mean, most }) = self.calls_per_frame else {
            if detail == Detail::Full {
                document.blocks.push(Block::Note("No call ends a frame.".into()));
            }
            return document;
        };
        let figure = |label: &str, value: Cell, note: String| Figure { label: label.to_owned(), value, note };
        let sum =
            |value: fn(&InFrame) -> u64| self.frames.iter().map(|frame| value(&frame.calls)).sum::<u64>();
        let n_frames = self.frames.len() as u64;
        let draws = sum(|frame| frame.draws);
        let draws_per_frame = draws as f64 / n_frames as f64;
        let bytes_per_frame = sum(|frame| frame.blob_bytes) / n_frames;
        document.blocks.push(Block::Figures(vec![
            figure("frames", Cell::Count(n_frames), String::new()),
            figure("calls per frame", Cell::Real(mean, 1), format!("{least} to {most}, median {median}")),
            figure(
                "draws per frame",
                Cell::Real(draws_per_frame, 1),
                format!("{} in these frames", grouped(draws)),
            ),
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
        if let Some(open) = &self.unfinished {
            let text = format!("After the last frame: {}.", counted(open.calls, "call"));
            document.blocks.push(Block::Note(text));
        }
        if detail == Detail::Brief {
            return document;
        }
        let mut largest: Vec<&OneFrame> = self.frames.iter().collect();
        largest.sort_by_key(|frame| Reverse(frame.calls.calls));
        let head = ["frame", "first call", "last call", "calls", "draws", "raw memory", "stream"];
        let document = document.with(grid("largest frames", &head, largest.into_iter(), self.top, |frame| {
            let calls = &frame.calls;
            vec![
                Cell::Text(frame.frame.to_string()),
                Cell::Text(calls.first_call.to_string()),
                Cell::Text(calls.last_call.to_string()),
                Cell::Count(calls.calls),
                Cell::Count(calls.draws),
                Cell::Bytes(calls.blob_bytes),
                Cell::Bytes(calls.stream_bytes),
            ]
        }));
        document.with(Block::Folds(self.folds()))
    }
}

impl FrameCounts {
    /// The frames with most calls, each with the functions that it calls.
    fn folds(&self) -> Folds {
        let fold = |(number, inside): &(u64, Inside)| {
            // Frames are in memory, so their numbers are indexes.
            let frame = self.frames.get(*number as usize)?.calls;
            let row = |(name, calls): &(String, u64)| vec![Cell::Code(name.clone()), Cell::Count(*calls)];
            let mut rows: Vec<Vec<Cell>> = inside.functions.iter().map(row).collect();
            if inside.others > 0 {
                rows.push(vec![Cell::from("further functions"), Cell::Count(inside.others)]);
            }
            let head = ["function", "calls"].map(str::to_owned).into();
            Some(Fold {
                at: *number,
                name: format!("frame {number}"),
                note: format!("{}, {}", counted(frame.calls, "call"), counted(frame.draws, "draw")),
                covers: frame.first_call..=frame.last_call,
                blocks: vec![
                    Block::Note(format!("Calls {} to {}.", frame.first_call, frame.last_call)),
                    Block::Grid(Grid { title: String::new(), head, rows, more: 0 }),
                ],
            })
        };
        Folds {
            title: "frames with their calls".to_owned(),
            noun: "frame".to_owned(),
            whole: self.frames.len() as u64,
            folds: self.insides.iter().filter_map(fold).collect(),
        }
    }
}
