//! Merges the events of all threads into an order in which they can have happened.
//!
//! Stamps order the interactions of threads. The events of a thread between two of its stamps are placed after the first and
//! before the second. So everything a thread did before it handed an object to another comes before the other thread's use
//! of it.

use crate::tsan::file::{Capture, CellReader};
use quipu_cells::cell::Cell;
use quipu_cells::event::{Event, decode};
use quipu_model::batch::OVERSIZED;
use quipu_model::{Error, Finding, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// The thread of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Index of the thread in the file, from 0.
    pub index: usize,
    /// Thread id of the kernel.
    pub tid: u64,
}

/// Result of reading, apart from the events.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Findings about damage.
    pub findings: Vec<Finding>,
    /// Start of the last frame, in ns since the recording began.
    pub last_ns: u64,
}

impl Told {
    /// Number of frames that could not be read. Events that the program reports as not recorded do not count as damage, and
    /// the frames of impossible accesses could be read.
    pub fn n_damaged(&self) -> u64 {
        let is_of_frame = |finding: &&Finding| finding.is_damage() && finding.rule != OVERSIZED;
        self.findings.iter().filter(is_of_frame).count() as u64
    }
}

/// Passes every event, including holes, to `each` in order, until it breaks.
///
/// # Errors
/// `Io` if the file cannot be read; errors of `each`.
pub fn events<E: From<Error>>(
    capture: &Capture,
    each: &mut impl FnMut(Who, &Event<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<Told, E> {
    let mut told = Told::default();
    let mut text = Vec::new();
    let mut threads = Vec::new();
    let mut queue = BinaryHeap::new();
    for (index, described) in capture.threads().iter().enumerate() {
        let stamp = Thread::new(capture.cells(described)?).next_stamp(&mut text)?;
        // The cells are read again when the thread's turn comes, which may be much later.
        threads.push(None);
        queue.push(Reverse((stamp, index)));
    }
    while let Some(Reverse((_, index))) = queue.pop() {
        let described = &capture.threads()[index];
        let thread = match &mut threads[index] {
            Some(thread) => thread,
            none => none.insert(Thread::new(capture.cells(described)?)),
        };
        let who = Who { index, tid: described.tid };
        let mut n_stamps = 0;
        let mut is_over = false;
        loop {
            if !thread.fill()? {
                is_over = true;
                break;
            }
            let (event, n_cells) = decode(&thread.cells[thread.at..], &mut text);
            if let Some(stamp) = event.stamp() {
                n_stamps += 1;
                if n_stamps > 1 {
                    queue.push(Reverse((stamp, index)));
                    break;
                }
            }
            if each(who, &event)?.is_break() {
                told.findings.append(&mut thread.reader.take_findings());
                return Ok(told);
            }
            thread.at += n_cells;
        }
        told.findings.append(&mut thread.reader.take_findings());
        told.last_ns = told.last_ns.max(thread.last_ns);
        if is_over {
            threads[index] = None;
        }
    }
    Ok(told)
}

/// A thread with its position in its events.
struct Thread {
    reader: CellReader,
    cells: Vec<Cell>,
    at: usize,
    last_ns: u64,
}

impl Thread {
    fn new(reader: CellReader) -> Thread {
        Thread { reader, cells: Vec::new(), at: 0, last_ns: 0 }
    }

    /// Makes sure that a cell is available; returns false at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.at >= self.cells.len() {
            self.cells.clear();
            self.at = 0;
            let Some(ns) = self.reader.next(&mut self.cells)? else { return Ok(false) };
            self.last_ns = self.last_ns.max(ns);
        }
        Ok(true)
    }

    /// The first stamp; `u64::MAX` if there is none.
    fn next_stamp(&mut self, text: &mut Vec<u8>) -> Result<u64> {
        while self.fill()? {
            let (event, n_cells) = decode(&self.cells[self.at..], text);
            if let Some(stamp) = event.stamp() {
                return Ok(stamp);
            }
            self.at += n_cells;
        }
        Ok(u64::MAX)
    }
}
