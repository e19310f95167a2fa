//! The order in which a consumer processes records: CPU by CPU, or by time.
//!
//! SPEC: dtrace.md#order-of-output

use crate::action::Action;
use crate::buffer::{Cursor, Record};
use crate::describe::{Capture, Dialect, Event, Probe};
use quipu_model::{Error, Place, Result};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A record to be printed.
#[derive(Clone, Copy, Debug)]
pub struct Firing<'c> {
    /// Number of the CPU.
    pub cpu: u32,
    /// Index of its buffer; 0 on Linux.
    pub buffer: u32,
    /// Number of the probe.
    pub probe: u32,
    /// The record itself.
    pub record: Record<'c>,
    /// Probe and enabling of the next record on the same CPU, if flow is shown and it is of the same host.
    pub next: Option<(u32, u32)>,
}

/// A step of a consumer.
#[derive(Debug)]
pub enum Step<'c> {
    /// The next CPU begins.
    Cpu,
    /// The records made before tracing ran on all CPUs are finished.
    Pass,
    /// A record to be printed.
    Firing(Firing<'c>),
    /// Index of an event that has the state of an aggregation.
    State(usize),
    /// The rest of a buffer cannot be read.
    Fault(Error),
}

/// Selection of the records of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    Begin,
    Others,
}

/// A walk over all records of a capture.
#[derive(Debug)]
pub struct Walk {
    /// Buffers in the order in which they are read, if the order is not by time.
    phases: VecDeque<(usize, Taken)>,
    current: Option<(usize, Taken)>,
    cursors: Vec<Cursor>,
    heap: Heap,
    is_temporal: bool,
    /// Whether a host shows the flow, which depends on the next record.
    looks_ahead: bool,
    samples: Option<Samples>,
}

impl Walk {
    /// A walk that begins before the first record.
    ///
    /// # Errors
    /// `Unsupported` if records are wanted by time in a dialect without times.
    pub fn new(capture: &Capture) -> Result<Walk> {
        let is_temporal = capture.settings.temporal && capture.dialect != Dialect::Linux;
        if is_temporal && capture.dialect == Dialect::ClassicV0 {
            let message = "records of dialect classic-v0 have no times, so that they have no temporal order";
            return Err(Error::unsupported(message).in_file(&*capture.name));
        }
        let cursors = capture.buffers.iter().map(Cursor::new).collect();
        let mut walk = Walk {
            phases: VecDeque::new(),
            current: None,
            cursors,
            heap: Heap::default(),
            is_temporal,
            looks_ahead: (0..=capture.hosts.len() as u32) // Hosts are counted in 32 bits.
                .any(|host| capture.settings_of(host).flowindent),
            samples: (capture.dialect == Dialect::Linux).then(|| Samples::new(capture)),
        };
        if is_temporal {
            for buffer in 0..capture.buffers.len() {
                walk.push(capture, buffer);
            }
        } else {
            walk.phases = phases(capture);
        }
        Ok(walk)
    }

    /// The next step; `None` at the end.
    pub fn next_step<'c>(&mut self, capture: &'c Capture) -> Option<Step<'c>> {
        if let Some(samples) = &mut self.samples {
            return samples.next_step(capture);
        }
        if self.is_temporal { self.by_time(capture) } else { self.by_cpu(capture) }
    }

    fn by_cpu<'c>(&mut self, capture: &'c Capture) -> Option<Step<'c>> {
        loop {
            let Some((at, taken)) = self.current else {
                let (at, taken) = self.phases.pop_front()?;
                self.cursors[at] = Cursor::new(&capture.buffers[at]);
                self.current = Some((at, taken));
                return Some(Step::Cpu);
            };
            let buffer = &capture.buffers[at];
            let record = match self.cursors[at].next_record(capture, buffer) {
                Ok(Some(record)) => record,
                Ok(None) => {
                    self.current = None;
                    continue;
                }
                // A fault is not reported in the first of two passes over a buffer.
                Err(_) if taken == Taken::Begin => continue,
                Err(error) => return Some(Step::Fault(error)),
            };
            let is_begin = || capture.probes.get(&record.enabling.probe).is_some_and(is_begin);
            let is_taken = match taken {
                Taken::All => true,
                Taken::Begin => is_begin(),
                Taken::Others => !is_begin(),
            };
            if is_taken {
                return Some(Step::Firing(self.firing(capture, at, record)));
            }
        }
    }

    fn by_time<'c>(&mut self, capture: &'c Capture) -> Option<Step<'c>> {
        let (_, at) = self.heap.pop()?;
        let buffer = &capture.buffers[at];
        let step = match self.cursors[at].next_record(capture, buffer) {
            Ok(Some(record)) => Some(Step::Firing(self.firing(capture, at, record))),
            Ok(None) => return self.by_time(capture),
            Err(error) => Some(Step::Fault(error)),
        };
        self.push(capture, at);
        step
    }

    /// Queues a buffer by the time of its next record.
    fn push(&mut self, capture: &Capture, at: usize) {
        let mut ahead = self.cursors[at];
        match ahead.next_record(capture, &capture.buffers[at]) {
            Ok(Some(record)) => self.heap.push((record.time, at)),
            Ok(None) => {}
            // Reading the record reports the fault.
            Err(_) => self.heap.push((capture.buffers[at].timestamp, at)),
        }
    }

    fn firing<'c>(&self, capture: &'c Capture, at: usize, record: Record<'c>) -> Firing<'c> {
        let buffer = &capture.buffers[at];
        let mut next = None;
        if self.looks_ahead {
            let mut ahead = self.cursors[at];
            next = ahead.next_record(capture, buffer).ok().flatten();
            next = next.filter(|next| next.enabling.host == record.enabling.host);
        }
        Firing {
            cpu: buffer.cpu,
            buffer: at as u32, // There are at most as many buffers as CPUs.
            probe: record.enabling.probe,
            record,
            next: next.map(|next| (next.enabling.probe, next.enabling.id)),
        }
    }
}

/// Whether a probe is BEGIN, which fires before all others.
fn is_begin(probe: &Probe) -> bool {
    probe.provider == "dtrace" && probe.name == "BEGIN"
}

fn phases(capture: &Capture) -> VecDeque<(usize, Taken)> {
    let position =
        |cpu: Option<u32>| capture.buffers.iter().position(|buffer| cpu.is_some_and(|cpu| buffer.cpu == cpu));
    let began = position(capture.began_on);
    let ended = position(capture.ended_on.filter(|_| capture.is_stopped));
    let mut phases = VecDeque::new();
    match began {
        Some(began) if Some(began) == ended => phases.push_back((began, Taken::Begin)),
        Some(began) => phases.push_back((began, Taken::All)),
        None => {}
    }
    let others = (0..capture.buffers.len()).filter(|at| Some(*at) != began && Some(*at) != ended);
    phases.extend(others.map(|at| (at, Taken::All)));
    if let Some(ended) = ended {
        phases.push_back((ended, if began == Some(ended) { Taken::Others } else { Taken::All }));
    }
    phases
}

/// A queue by time: a binary heap that returns equal times in the same order as the consumer's own.
#[derive(Debug, Default)]
struct Heap(Vec<(u64, usize)>);

impl Heap {
    fn push(&mut self, item: (u64, usize)) {
        self.0.push(item);
        let mut at = self.0.len() - 1;
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.0[parent].0 <= self.0[at].0 {
                break;
            }
            self.0.swap(parent, at);
            at = parent;
        }
    }

    fn pop(&mut self) -> Option<(u64, usize)> {
        let last = self.0.pop()?;
        let Some(first) = self.0.first_mut() else { return Some(last) };
        let first = std::mem::replace(first, last);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.0.len() {
                return Some(first);
            }
            let is_right = right < self.0.len() && self.0[right].0 < self.0[left].0;
            let child = if is_right { right } else { left };
            if self.0[at].0 <= self.0[child].0 {
                return Some(first);
            }
            self.0.swap(at, child);
            at = child;
        }
    }
}

/// A walk over the samples of a Linux capture.
#[derive(Debug)]
struct Samples {
    at: usize,
    /// Index after the last sample of BEGIN.
    begin_end: usize,
    in_begin: bool,
    /// Indices of samples by speculation, for those neither committed nor discarded yet.
    held: FxHashMap<u32, Vec<usize>>,
    /// Indices of committed samples that are still to be printed.
    released: VecDeque<usize>,
}

/// Size of the word with the length of the rest of a sample, in bytes.
const SIZE_WORD: usize = 4;

/// Size of the header before the data of a sample, in bytes.
const SAMPLE_HEADER: usize = 16;

/// Maximum number of samples held for a speculation.
const MAX_HELD: usize = 1 << 20;

impl Samples {
    fn new(capture: &Capture) -> Samples {
        let is_begin = |event: &Event| match event {
            Event::Sample { bytes, .. } => {
                capture.order.u32_at(bytes, 8).and_then(|id| capture.probes.get(&id)).is_some_and(is_begin)
            }
            Event::State { .. } => false,
        };
        let begin_end = capture.events.iter().rposition(is_begin).map_or(0, |at| at + 1);
        Samples {
            at: 0,
            begin_end,
            in_begin: begin_end > 0,
            held: FxHashMap::default(),
            released: VecDeque::new(),
        }
    }

    fn next_step<'c>(&mut self, capture: &'c Capture) -> Option<Step<'c>> {
        loop {
            if let Some(at) = self.released.pop_front() {
                match capture.events.get(at).map(|event| sample(capture, event)) {
                    Some(Ok(Some(firing))) => return Some(Step::Firing(firing)),
                    _ => continue,
                }
            }
            if self.in_begin && self.at == self.begin_end {
                (self.at, self.in_begin) = (0, false);
                return Some(Step::Pass);
            }
            let at = self.at;
            let event = capture.events.get(at)?;
            self.at += 1;
            let bytes = match event {
                // The first pass has processed these.
                Event::State { .. } if !self.in_begin && at < self.begin_end => continue,
                Event::State { .. } => return Some(Step::State(at)),
                Event::Sample { bytes, .. } => bytes,
            };
            let id = capture.order.u32_at(bytes, 8).unwrap_or(0);
            if capture.probes.get(&id).is_some_and(is_begin) != self.in_begin {
                continue;
            }
            match sample(capture, event) {
                Ok(Some(firing)) if self.hold(capture, at, &firing) => {}
                Ok(Some(firing)) => return Some(Step::Firing(firing)),
                Ok(None) => {}
                Err(error) => return Some(Step::Fault(error)),
            }
        }
    }

    /// Holds a sample of a speculation, and releases or drops those that the sample commits or discards. Returns true if the
    /// sample is not printed now.
    fn hold(&mut self, capture: &Capture, at: usize, firing: &Firing<'_>) -> bool {
        let bytes = firing.record.bytes;
        let speculation = capture.order.u32_at(bytes, 4).unwrap_or(0);
        if speculation != 0 {
            let held = self.held.entry(speculation).or_default();
            if held.len() < MAX_HELD {
                held.push(at);
            }
            return true;
        }
        for rec in &firing.record.enabling.recs {
            if matches!(rec.action, Action::Commit | Action::Discard) {
                let id = capture.order.number(rec.of(bytes)) as u32; // Numbers of speculations are small.
                let held = self.held.remove(&id).unwrap_or_default();
                if rec.action == Action::Commit {
                    self.released.extend(held);
                }
            }
        }
        false
    }
}

/// Decodes a sample; `None` for an event of another kind.
///
/// # Errors
/// `Malformed` for a statement without a description, `Truncated` for a sample that is shorter than its parts.
pub(crate) fn sample<'c>(capture: &'c Capture, event: &'c Event) -> Result<Option<Firing<'c>>> {
    let Event::Sample { cpu, offset, bytes } = event else { return Ok(None) };
    let place = || Place { file: Some(capture.name.clone()), offset: Some(*offset), ..Place::default() };
    // Bytes after the sample's own length do not belong to it.
    let own = capture.order.u32_at(bytes, 0).map_or(0, |n| n as usize + SIZE_WORD);
    let Some(bytes) = bytes.get(..own) else {
        let message = format!("a sample of {own} bytes is cut off after {}", bytes.len());
        return Err(Error::truncated(message).at(&place()));
    };
    let word = |at| capture.order.u32_at(bytes, at);
    let (Some(probe), Some(statement)) = (word(8), word(12)) else {
        let message = format!("a sample has {} bytes, fewer than its header of {SAMPLE_HEADER}", bytes.len());
        return Err(Error::truncated(message).at(&place()));
    };
    let Some((position, enabling)) = capture.enabling(statement) else {
        return Err(Error::malformed(format!("statement {statement} has no description")).at(&place()));
    };
    if let Some(rec) = enabling.recs.iter().find(|rec| rec.offset as usize + rec.size as usize > bytes.len())
    {
        let (start, size, n) = (rec.offset, rec.size, bytes.len());
        let message = format!("a sample has {n} bytes, its description {size} at offset {start}");
        return Err(Error::truncated(message).at(&place()));
    }
    let offset = usize::try_from(*offset).unwrap_or(usize::MAX);
    let record = Record { enabling, position, time: 0, offset, bytes };
    Ok(Some(Firing { cpu: *cpu, buffer: 0, probe, record, next: None }))
}
