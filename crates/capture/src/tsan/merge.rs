//! What all threads did, in an order that it can have happened in.
//!
//! Stamps count what threads do to each other. What a thread does between two of its stamps is put after the first and
//! before the next, so what one thread did before it gave something to another comes before what that does with it.

use crate::tsan::file::{Capture, Part};
use quipu_cells::cell::Cell;
use quipu_cells::event::{Event, decode};
use quipu_model::{Error, Result};
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

/// Hands every event to `each`, in order, until it has enough; holes too.
///
/// Returns how many parts of threads could not be read to their end.
///
/// # Errors
/// `Io` if the file cannot be read; what `each` says.
pub fn events<E: From<Error>>(
    capture: &Capture,
    each: &mut impl FnMut(Who, &Event<'_>) -> Result<ControlFlow<()>, E>,
) -> Result<Damaged, E> {
    let mut damaged = Damaged::default();
    let mut text = Vec::new();
    let mut threads = Vec::new();
    let mut queue = BinaryHeap::new();
    for (index, (_, parts)) in capture.threads().enumerate() {
        let mut thread = Thread { parts, next: 0, cells: Vec::new(), at: 0, damaged: Damaged::default() };
        let stamp = thread.next_stamp(capture, &mut text)?;
        // Its cells are read again when it is its turn, which may be much later.
        thread = Thread { parts, next: 0, cells: Vec::new(), at: 0, damaged: Damaged::default() };
        threads.push(thread);
        queue.push(Reverse((stamp, index)));
    }
    while let Some(Reverse((_, index))) = queue.pop() {
        let thread = &mut threads[index];
        let mut n_stamps = 0;
        loop {
            if !thread.fill(capture)? {
                damaged.add(thread.damaged);
                thread.cells = Vec::new();
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
            let tid = thread.parts[thread.next - 1].tid;
            if each(Who { index, tid }, &event)?.is_break() {
                return Ok(damaged);
            }
            thread.at += n_cells;
        }
    }
    Ok(damaged)
}

/// Parts of threads that stand in the file and cannot be read to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Damaged {
    /// How many.
    pub n_parts: u64,
    /// Offset of the first in the file.
    pub first_at: Option<u64>,
}

impl Damaged {
    fn add(&mut self, other: Damaged) {
        self.n_parts += other.n_parts;
        self.first_at = self.first_at.into_iter().chain(other.first_at).min();
    }
}

/// A thread on its way through what it did.
struct Thread<'a> {
    parts: &'a [Part],
    /// The part that is read next.
    next: usize,
    cells: Vec<Cell>,
    at: usize,
    damaged: Damaged,
}

impl Thread<'_> {
    /// Makes sure that there is a cell; false at the end.
    fn fill(&mut self, capture: &Capture) -> Result<bool> {
        while self.at >= self.cells.len() {
            let Some(part) = self.parts.get(self.next) else { return Ok(false) };
            self.cells.clear();
            self.at = 0;
            self.next += 1;
            if !capture.cells(part, &mut self.cells)? {
                self.damaged.add(Damaged { n_parts: 1, first_at: Some(part.offset()) });
            }
        }
        Ok(true)
    }

    /// The first stamp; that of the end of time if there is none.
    fn next_stamp(&mut self, capture: &Capture, text: &mut Vec<u8>) -> Result<u64> {
        while self.fill(capture)? {
            let (event, n_cells) = decode(&self.cells[self.at..], text);
            if let Some(stamp) = event.stamp() {
                return Ok(stamp);
            }
            self.at += n_cells;
        }
        Ok(u64::MAX)
    }
}
