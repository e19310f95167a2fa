//! The system call that a thread is in, and its latency.

use quipu_model::lens::instr_flags;

/// The reading, perhaps a window, the processor, then the call. (SPEC: drmemtrace.md#grammar-of-a-file.)
const FRAME_RECORDS: u64 = 4;

/// An unknown clock reading.
const UNKNOWN: u64 = u64::MAX;

/// The latest clock reading and the open call of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timing {
    /// The latest clock reading and its record.
    clock: Option<(u64, u64)>,
    open: Option<Open>,
}

/// A call that the thread is in.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: u64,
    /// The reading right before it; `None` if there is none or the latency is known.
    before: Option<u64>,
}

impl Timing {
    /// The number of the call that the thread is in.
    pub(crate) fn open(&self) -> Option<u64> {
        self.open.map(|open| open.number)
    }

    /// Begins a call of the thread.
    pub(crate) fn call(&mut self, number: u64, record: u64) {
        let fresh = |(_, read): &(u64, u64)| record.saturating_sub(*read) <= FRAME_RECORDS;
        let before = self.clock.filter(fresh).map(|(clock, _)| clock);
        self.open = Some(Open { number, before });
    }

    /// Handles a clock reading: returns the number and the latency, in ticks, of the call that it ends.
    pub(crate) fn read_clock(&mut self, clock: u64, record: u64) -> Option<(u64, u64)> {
        if matches!(clock, 0 | UNKNOWN) {
            return None;
        }
        self.clock = Some((clock, record));
        let open = self.open.as_mut()?;
        // A clock that runs backwards is damaged; latencies are never negative.
        open.before.take().map(|before| (open.number, clock.saturating_sub(before)))
    }

    /// Handles executed instructions: the call has ended if one of them is outside the kernel.
    pub(crate) fn run(&mut self, flags: &[u8]) {
        if self.open.is_some() && flags.iter().any(|flags| flags & instr_flags::KERNEL == 0) {
            self.open = None;
        }
    }
}
