//! The clock of a core, which stands in place of those of its threads: the recorded times mean nothing on a core that threads
//! share.

use super::lane::Lanes;
use super::state::Dispatcher;

/// How many units of time a microsecond of the simulated clock is; options do not change it.
const UNITS_PER_MICRO: u64 = 1000;

/// A core's clock: it begins with the first reading of a thread there, and then goes by the scheduler's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CoreClock {
    base: Option<u64>,
    latest: Option<u64>,
}

impl CoreClock {
    /// The core reads its clock where one of its threads recorded `ticks`.
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
