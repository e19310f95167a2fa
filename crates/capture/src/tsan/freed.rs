//! Memory that was freed, and what it became: stacks of threads.
//!
//! The C library returns large blocks to the system, which then maps the stacks of new threads there. A Cacheray trace has
//! the end of each block, so accesses to these stacks would be uses of freed memory, if the stacks were not written, too.

use quipu_symbols::regions::RegionMap;
use rustc_hash::FxHashMap;

/// Memory that was freed and not allocated since, with the stacks that are there.
#[derive(Debug, Default)]
pub(crate) struct Freed {
    freed: RegionMap<()>,
    /// Lowest address and size in bytes of stacks where memory was freed before, by the index of their threads.
    stacks: FxHashMap<usize, (u64, u64)>,
}

impl Freed {
    /// Memory was allocated.
    pub(crate) fn allocated(&mut self, addr: u64, n_bytes: u64) {
        self.freed.clear(addr, n_bytes);
    }

    /// Memory was freed.
    pub(crate) fn released(&mut self, addr: u64, n_bytes: u64) {
        if n_bytes > 0 {
            // Where there are too many regions, the newest are unknown.
            let _ = self.freed.add(addr, n_bytes, ());
        }
    }

    /// A thread begins whose stack has the memory from `lowest` to `end`. True if memory was freed there.
    pub(crate) fn begin_stack(&mut self, thread: usize, lowest: u64, end: u64) -> bool {
        let is_there = self.freed.stretches(lowest, end).next().is_some();
        if is_there {
            self.freed.clear(lowest, end - lowest);
            self.stacks.insert(thread, (lowest, end - lowest));
        }
        is_there
    }

    /// A thread ends. The lowest address of its stack, if memory had been freed there.
    pub(crate) fn end_stack(&mut self, thread: usize) -> Option<u64> {
        let (lowest, n_bytes) = self.stacks.remove(&thread)?;
        self.released(lowest, n_bytes);
        Some(lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_known_where_memory_was_freed() {
        let mut freed = Freed::default();
        freed.released(0x10_000, 0x8000);
        freed.released(0x40_000, 0);
        assert!(!freed.begin_stack(1, 0x40_000, 0x50_000), "nothing was freed there");
        assert_eq!(freed.end_stack(1), None);
        assert!(freed.begin_stack(2, 0x14_000, 0x24_000));
        assert!(!freed.begin_stack(3, 0x10_000, 0x18_000), "it is a stack now");
        assert_eq!((freed.end_stack(2), freed.end_stack(2)), (Some(0x14_000), None));
        assert!(freed.begin_stack(4, 0x14_000, 0x24_000), "the next thread gets the same memory");
        assert_eq!(freed.end_stack(4), Some(0x14_000));
        freed.allocated(0x20_000, 0x100);
        assert!(!freed.begin_stack(5, 0x14_000, 0x24_000), "it was allocated since");
        assert!(!freed.begin_stack(6, 0x24_000, 0x24_000), "an unknown stack");
    }
}
