//! `timeline`: firings of probes over time, by CPU and by probe, and the outcomes of speculations.
//!
//! Time comes from the records. Records of Linux and of classic-v0 have none, so their order is used instead. The time is
//! divided into at most 64 steps of equal width. A record that waits for the commit of its speculation has no time yet, and
//! counts only as held. In the classic dialects, a committed record has the time of the commit; how long it waited is not
//! recorded.
//!
//! * **Needs** a capture of DTrace.
//! * **Options** `top` (probes drawn, those that fired most; default 20; JSON has all).

use crate::action::Action;
use crate::buffer::Cursor;
use crate::describe::{Capture, Dialect, Event};
use crate::trace::DtraceTrace;
use crate::walk::{Step, Walk};
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Figure, Grid, HeatBand, HeatMap, HeatRow};
use quipu_model::number::grouped;
use quipu_model::options::{Kind, OptionSpec, Options};
use quipu_model::pass::{Detail, Needs};
use quipu_model::result;
use quipu_model::result::{Fields, Shape};
use quipu_model::{Batch, Columns, DynPass, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The tool `timeline`.
#[derive(Debug)]
pub struct Timeline;

const TOP: OptionSpec = OptionSpec::new("top", Kind::Count, "20", "number of probes to draw");

static INFO: ToolInfo = ToolInfo {
    name: "timeline",
    summary: "firings of probes over time, by CPU, and the outcomes of speculations",
    needs: Needs { format: Some("dtrace"), required: Columns::NONE, optional: Columns::THREADS },
    order: Order::Shards,
    options: &[TOP],
    in_report: true,
};

/// Maximum number of steps on the axis of time.
const MAX_STEPS: u64 = 64;

/// Time in records whose speculation was not committed.
const UNCOMMITTED: u64 = u64::MAX;

impl Tool for Timeline {
    fn result(&self) -> Shape {
        Firings::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let capture = Arc::clone(DtraceTrace::of(trace)?.capture());
        Ok(Box::new(Watch { top: options.length(&TOP), capture, ranges: Vec::new() }))
    }
}

result! {
    /// Firings over time by CPU and by probe, and the speculations.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Firings {
        pub axis: String => "Unit of positions: `nanoseconds`, or `records` if they have no time.";
        pub start: u64 => "Position at which the first step begins.";
        pub end: u64 => "Last position.";
        pub step: u64 => "Width of a step, in positions.";
        pub cpus: Vec<OneCpu> => "CPUs.";
        pub probes: Vec<OneProbe> => "Probes, by number of records, most first.";
        pub speculations: Vec<OneSpeculation> => "Speculations, in order of appearance.";
    } beside {
        top: usize => "Number of probes to draw.";
    }
}

result! {
    /// Firings on a CPU.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OneCpu {
        pub cpu: u32, key => "Number of the CPU.";
        pub records: u64 => "Records.";
        pub steps: Vec<u64> => "Records of each step.";
    }
}

result! {
    /// Firings of a probe.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OneProbe {
        pub probe: u32, key => "Number of the probe.";
        pub name: String => "Provider, module, function and name, separated by colons.";
        pub records: u64 => "Records.";
        pub steps: Vec<u64> => "Records of each step.";
    }
}

result! {
    /// A speculation and how it ended.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OneSpeculation {
        pub speculation: u64 => "Number of the speculation, which may be reused; 0 if records do not say.";
        pub cpu: Option<u32> => "CPU that ended it.";
        pub records: u64 => "Records that waited for its end, if records say so.";
        pub ends: String => "`committed`, `discarded` or `open`.";
        pub position: u64 => "Position of its end, or of its last record.";
    }
}

/// Collects the ranges of records that were read.
#[derive(Clone, Debug)]
struct Watch {
    top: usize,
    capture: Arc<Capture>,
    ranges: Vec<Range<u64>>,
}

impl Pass for Watch {
    fn fork(&self, _: &Shard) -> Watch {
        Watch { ranges: Vec::new(), ..self.clone() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        let span = &batch.span;
        let range = span.first_record..span.first_record + u64::from(span.records);
        match self.ranges.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None if !range.is_empty() => self.ranges.push(range),
            None => {}
        }
        Ok(())
    }

    fn merge(&mut self, later: Watch) -> Result<()> {
        self.ranges.extend(later.ranges);
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let mut ranges = self.ranges;
        ranges.sort_by_key(|range| range.start);
        Ok(Box::new(firings(&self.capture, &ranges, self.top)?))
    }
}

/// Calls `each` with CPU, probe and position of each record in some ranges; the position is `None` if it has no time yet.
fn each_record(
    capture: &Capture,
    ranges: &[Range<u64>],
    mut each: impl FnMut(u32, u32, Option<u64>),
) -> Result<()> {
    let mut walk = Walk::new(capture)?;
    let (mut ordinal, mut ranges) = (0, ranges.iter());
    let mut range = ranges.next();
    while let Some((step, wanted)) = walk.next_step(capture).zip(range) {
        // Damage is reported when the capture is opened.
        let Step::Firing(firing) = step else { continue };
        if ordinal >= wanted.start {
            let position = match capture.dialect {
                Dialect::Classic => Some(firing.record.time).filter(|time| *time != UNCOMMITTED),
                _ => Some(ordinal),
            };
            each(firing.cpu, firing.probe, position);
        }
        ordinal += 1;
        if ordinal >= wanted.end {
            range = ranges.next();
        }
    }
    Ok(())
}

/// An axis divided into equal steps.
#[derive(Clone, Copy, Debug)]
struct Axis {
    start: u64,
    end: u64,
    step: u64,
}

impl Axis {
    fn new(ends: Option<(u64, u64)>) -> Axis {
        let (start, end) = ends.unwrap_or((0, 0));
        Axis { start, end, step: (end - start) / MAX_STEPS + 1 }
    }

    fn n_steps(&self) -> usize {
        ((self.end - self.start) / self.step + 1) as usize // At most 64 steps.
    }

    fn count(&self, steps: &mut Vec<u64>, position: u64) {
        steps.resize(self.n_steps(), 0);
        let at = position.saturating_sub(self.start) / self.step;
        if let Some(count) = usize::try_from(at).ok().and_then(|at| steps.get_mut(at)) {
            *count += 1;
        }
    }
}

/// Total number of records, and the number in each step.
type Counts = (u64, Vec<u64>);

fn firings(capture: &Capture, ranges: &[Range<u64>], top: usize) -> Result<Firings> {
    let mut ends: Option<(u64, u64)> = None;
    each_record(capture, ranges, |_, _, position| {
        if let Some(at) = position {
            let (first, last) = ends.unwrap_or((at, at));
            ends = Some((first.min(at), last.max(at)));
        }
    })?;
    let axis = Axis::new(ends);
    let mut cpus: BTreeMap<u32, Counts> = BTreeMap::new();
    let mut probes: BTreeMap<u32, Counts> = BTreeMap::new();
    each_record(capture, ranges, |cpu, probe, position| {
        for (n, steps) in [cpus.entry(cpu).or_default(), probes.entry(probe).or_default()] {
            *n += 1;
            position.into_iter().for_each(|at| axis.count(steps, at));
        }
    })?;
    let name = |probe: &u32| match capture.probes.get(probe) {
        Some(of) => format!("{}:{}:{}:{}", of.provider, of.module, of.function, of.name),
        None => probe.to_string(),
    };
    let cpu = |(cpu, (records, steps))| OneCpu { cpu, records, steps };
    let probe = |(probe, (records, steps))| OneProbe { probe, name: name(&probe), records, steps };
    let mut probes: Vec<OneProbe> = probes.into_iter().map(probe).collect();
    probes.sort_by_key(|probe| (std::cmp::Reverse(probe.records), probe.probe));
    let is_classic = capture.dialect == Dialect::Classic;
    Ok(Firings {
        axis: if is_classic { "nanoseconds" } else { "records" }.to_owned(),
        start: axis.start,
        end: axis.end,
        step: axis.step,
        cpus: cpus.into_iter().map(cpu).collect(),
        probes,
        speculations: match capture.dialect {
            Dialect::Linux => of_samples(capture),
            _ => of_buffers(capture),
        },
        top,
    })
}

/// Speculations of Linux, where each sample says to which one it belongs.
fn of_samples(capture: &Capture) -> Vec<OneSpeculation> {
    let mut all: Vec<OneSpeculation> = Vec::new();
    let mut open: BTreeMap<u32, usize> = BTreeMap::new();
    let samples = capture.events.iter().filter_map(|event| match event {
        Event::Sample { cpu, bytes, .. } => Some((*cpu, bytes)),
        Event::State { .. } => None,
    });
    for (position, (cpu, bytes)) in (0..).zip(samples) {
        let word = |at| capture.order.u32_at(bytes, at).unwrap_or(0);
        let (speculation, statement) = (word(4), word(12));
        if speculation != 0 {
            let at = *open.entry(speculation).or_insert_with(|| {
                let ends = "open".to_owned();
                let speculation = speculation.into();
                all.push(OneSpeculation { speculation, cpu: None, records: 0, ends, position });
                all.len() - 1
            });
            all[at].records += 1;
            all[at].position = position;
            continue;
        }
        let recs = capture.enabling(statement).map_or(&[][..], |(_, enabling)| &enabling.recs);
        for rec in recs {
            let Some(ends) = ends_of(rec.action) else { continue };
            let id = capture.order.number(rec.of(bytes)) as u32; // Numbers of speculations are small.
            let known = open.remove(&id).map(|at| &mut all[at]);
            let (ends, cpu) = (ends.to_owned(), Some(cpu));
            match known {
                Some(known) => (known.ends, known.cpu, known.position) = (ends, cpu, position),
                None => {
                    let speculation = id.into();
                    all.push(OneSpeculation { speculation, cpu, records: 0, ends, position });
                }
            }
        }
    }
    all
}

/// The way in which an action ends a speculation; `None` if it does not.
fn ends_of(action: Action) -> Option<&'static str> {
    match action {
        Action::Commit => Some("committed"),
        Action::Discard => Some("discarded"),
        _ => None,
    }
}

/// Speculations of the classic dialects, as far as the clauses that end them left records; waiting records have no time.
fn of_buffers(capture: &Capture) -> Vec<OneSpeculation> {
    let mut all = Vec::new();
    for buffer in &capture.buffers {
        let mut cursor = Cursor::new(buffer);
        let mut n_open = 0;
        while let Ok(Some(record)) = cursor.next_record(capture, buffer) {
            n_open += u64::from(record.time == UNCOMMITTED && capture.dialect == Dialect::Classic);
            for rec in &record.enabling.recs {
                let Some(ends) = ends_of(rec.action) else { continue };
                all.push(OneSpeculation {
                    speculation: capture.order.number(rec.of(record.bytes)),
                    cpu: Some(buffer.cpu),
                    records: 0,
                    ends: ends.to_owned(),
                    position: record.time,
                });
            }
        }
        if n_open > 0 {
            let (cpu, ends) = (Some(buffer.cpu), "open".to_owned());
            all.push(OneSpeculation { speculation: 0, cpu, records: n_open, ends, position: 0 });
        }
    }
    all.sort_by_key(|one| one.position);
    all
}

/// Maximum number of speculations that are listed.
const LISTED: usize = 50;

impl Firings {
    /// Numbers of records, and the probe that fired most.
    fn figures(&self) -> Vec<Figure> {
        let n_records: u64 = self.cpus.iter().map(|cpu| cpu.records).sum();
        let figure = |label: &str, value, note| Figure { label: label.to_owned(), value, note };
        let mut figures = vec![figure("records", Cell::Count(n_records), String::new())];
        if let Some(most) = self.probes.first() {
            let share = most.records as f64 / n_records.max(1) as f64; // A share needs no more digits.
            figures.push(figure("most frequent probe", Cell::Share(share), most.name.clone()));
        }
        figures
    }

    fn row(name: String, hue: usize, cells: &[u64]) -> HeatRow {
        HeatRow { name, hue, cells: cells.to_vec() }
    }

    /// Rows of committed and discarded speculations over time.
    fn ended(&self) -> Vec<HeatRow> {
        let axis = Axis { start: self.start, end: self.end, step: self.step.max(1) };
        let row = |ends: &str| {
            let mut cells = Vec::new();
            let ended = self.speculations.iter().filter(|one| one.ends == ends);
            ended.for_each(|one| axis.count(&mut cells, one.position));
            Firings::row(ends.to_owned(), 0, &cells)
        };
        let rows = [row("committed"), row("discarded")];
        rows.into_iter().filter(|row| row.cells.iter().any(|n| *n > 0)).collect()
    }
}

impl ReportBody for Firings {
    fn document(&self, detail: Detail) -> Document {
        let mut document = Document::new("Probes over time");
        if self.cpus.is_empty() {
            if detail == Detail::Full {
                document.blocks.push(Block::Note("The capture has no records.".into()));
            }
            return document;
        }
        document.blocks.push(Block::Figures(self.figures()));
        let shown = if detail == Detail::Brief { self.top.min(5) } else { self.top };
        let cpus = self.cpus.iter().map(|cpu| Firings::row(format!("CPU {}", cpu.cpu), 0, &cpu.steps));
        let probes = self.probes.iter().take(shown);
        let probes = probes.map(|probe| Firings::row(probe.name.clone(), 1, &probe.steps));
        let more = self.probes.len().saturating_sub(shown);
        let note =
            if more > 0 { format!("{} more are not drawn", grouped(more as u64)) } else { String::new() };
        let mut bands = vec![
            HeatBand { name: "CPUs".to_owned(), note: String::new(), rows: cpus.collect() },
            HeatBand { name: "probes".to_owned(), note, rows: probes.collect() },
        ];
        let ended = self.ended();
        if !ended.is_empty() {
            bands.push(HeatBand { name: "speculations".to_owned(), note: String::new(), rows: ended });
        }
        document.blocks.push(Block::HeatMap(HeatMap {
            title: String::new(),
            unit: "records".to_owned(),
            axis: format!("{}, {} a column", self.axis, grouped(self.step)),
            ends: (grouped(self.start), grouped(self.end)),
            hues: vec!["CPUs and speculations".to_owned(), "probes".to_owned()],
            bands,
        }));
        if !self.speculations.is_empty() && detail == Detail::Full {
            let cpu = |cpu: Option<u32>| cpu.map_or(Cell::Empty, |cpu| Cell::Text(cpu.to_string()));
            let rows = self.speculations.iter().take(LISTED).map(|one| {
                vec![
                    Cell::Text(one.speculation.to_string()),
                    Cell::Text(one.ends.clone()),
                    cpu(one.cpu),
                    Cell::Count(one.records),
                    Cell::Text(grouped(one.position)),
                ]
            });
            document.blocks.push(Block::Grid(Grid {
                title: "Speculations".to_owned(),
                head: ["speculation", "ended", "CPU", "records", "at"].map(str::to_owned).to_vec(),
                rows: rows.collect(),
                more: self.speculations.len().saturating_sub(LISTED) as u64,
            }));
        }
        document
    }
}
