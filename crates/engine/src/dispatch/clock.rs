//! The clock of a core, which replaces those of its threads: recorded times mean nothing on a core that threads share.

use super::lane::Lanes;
use super::state::Dispatcher;

/// Units of time in a microsecond of the simulated clock. Options do not change this.
const UNITS_PER_MICRO: u64 = 1000;

/// A core's clock: it starts at the first reading of a thread there, and then advances with the scheduler's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CoreClock {
    base: Option<u64>,
    latest: Option<u64>,
}

impl CoreClock {
    /// Reads the core's clock where one of its threads recorded `ticks`.
    pub(super) fn read(&mut self, ticks: u64, core: usize, dispatcher: &Dispatcher, lanes: &Lanes) -> u64 {
        let units = dispatcher.time_at(core, 0) - 1;
        let base = *self.base.get_or_insert(ticks);
        let now = base.saturating_add(lanes.ticks(units / UNITS_PER_MICRO));
        self.latest = Some(now);
        now
    }

    /// The latest reading.
    pub(super) fn latest(&self) -> Option<u64> {
        self.latest
    }
}
