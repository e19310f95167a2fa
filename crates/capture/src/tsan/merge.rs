//! What all threads did, in an order that it can have happened in.
//!
//! Stamps count what threads do to each other. What a thread does between two of its stamps is put after the first and
//! before the next, so what one thread did before it gave something to another comes before what that does with it.

use crate::tsan::file::{Capture, CellReader};
use quipu_cells::cell::Cell;
use quipu_cells::event::{Event, decode};
use quipu_model::{Error, Finding, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

/// Who did something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Position among the threads of the file, from 0.
    pub index: usize,
    /// The kernel's number.
    pub tid: u64,
}

/// What reading found, apart from the events.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// What could not be read.
    pub findings: Vec<Finding>,
    /// When the last frame was begun, in ns since the recording began.
    pub last_ns: u64,
}

impl Told {
    /// How many frames could not be read; what a program says that it did not record is no damage.
    pub fn n_damaged(&self) -> u64 {
        self.findings.iter().filter(|finding| finding.is_damage()).count() as u64
    }
}

/// Hands every event to `each`, in order, until it has enough; holes too.
///
/// # Errors
/// `Io` if the file cannot be read; what `each` says.
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
        // Its cells are read again when it is its turn, which may be much later.
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

/// A thread on its way through what it did.
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

    /// Makes sure that there is a cell; false at the end.
    fn fill(&mut self) -> Result<bool> {
        while self.at >= self.cells.len() {
            self.cells.clear();
            self.at = 0;
            let Some(ns) = self.reader.next(&mut self.cells)? else { return Ok(false) };
            self.last_ns = self.last_ns.max(ns);
        }
        Ok(true)
    }

    /// The first stamp; that of the end of time if there is none.
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
