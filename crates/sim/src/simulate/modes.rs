//! Tells accesses by kernel code from those by the program: an access belongs to the last instruction at or before its record.
//!
//! PERF: batches without kernel code, which are nearly all, cost a look at the flags of their instructions.

use hashbrown::HashSet;
use quipu_model::lens::instr_flags;
use quipu_model::{Batch, ThreadId};
use rustc_hash::FxBuildHasher;
use std::ops::Range;

/// The threads that were in the kernel at the end of their last batch.
#[derive(Clone, Debug, Default)]
pub(super) struct InKernel(HashSet<ThreadId, FxBuildHasher>);

impl InKernel {
    /// Whether a batch begins in kernel code; remembers whether it ends there.
    pub(super) fn follow(&mut self, batch: &Batch) -> bool {
        let thread = batch.span.thread;
        let begins = !self.0.is_empty() && self.0.contains(&thread);
        match batch.instrs.flags.last() {
            Some(flags) if flags & instr_flags::KERNEL != 0 => _ = self.0.insert(thread),
            Some(_) if begins => _ = self.0.remove(&thread),
            _ => {}
        }
        begins
    }
}

/// Progress of the mode through a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mode {
    is_kernel: bool,
    /// Index of the next instruction.
    next: usize,
    /// Whether any code of the batch is the kernel's.
    has_kernel: bool,
}

impl Mode {
    /// The mode at the beginning of a batch.
    pub(super) fn begin(batch: &Batch, is_kernel: bool) -> Mode {
        let bits = batch.instrs.flags.iter().fold(0, |bits, flags| bits | flags);
        Mode { is_kernel, next: 0, has_kernel: is_kernel || bits & instr_flags::KERNEL != 0 }
    }

    /// The first accesses of `rows` that belong to code of one mode: the row after them, and whether it is the kernel's. Rows
    /// must come in order.
    pub(super) fn first(&mut self, batch: &Batch, rows: &Range<usize>) -> (usize, bool) {
        if !self.has_kernel {
            return (rows.end, false);
        }
        let at = batch.accesses.at.get(rows.clone()).unwrap_or(&[]);
        let Some(is_kernel) = at.first().map(|at| self.at(batch, *at)) else { return (rows.end, false) };
        let same = at.iter().take_while(|at| self.at(batch, **at) == is_kernel).count();
        (rows.start + same, is_kernel)
    }

    /// Whether the record at `at` belongs to kernel code. Records must come in order.
    fn at(&mut self, batch: &Batch, at: u32) -> bool {
        let instrs = &batch.instrs;
        while let (Some(begin), Some(flags)) = (instrs.at.get(self.next), instrs.flags.get(self.next))
            && *begin <= at
        {
            self.is_kernel = flags & instr_flags::KERNEL != 0;
            self.next += 1;
        }
        self.is_kernel
    }
}
