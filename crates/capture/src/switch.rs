//! Turning recording on and off from outside of the program: by time, and by a signal to the recorder.
//!
//! Front ends ask now and then; none of this looks at what the program does.

use crate::child;
use crate::limits::{Limits, UserSignal};
use std::time::{Duration, Instant};

/// What is recorded now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing, but that may change.
    Off,
    /// Everything.
    On,
    /// Nothing any more.
    Over,
}

/// Says whether it is time to record.
#[derive(Clone, Debug)]
pub(crate) struct Switch {
    began: Instant,
    start_after: Duration,
    stop_after: Option<Duration>,
    /// Number of signals before this recording; `None` if no signal matters.
    n_signals_before: Option<u64>,
}

impl Switch {
    /// The switch that limits ask for; its time begins now. From the start of the program on, the signal is this recorder's,
    /// and is not forwarded.
    pub(crate) fn new(limits: &Limits) -> Switch {
        child::keep(limits.toggled_by.map(UserSignal::number));
        Switch {
            began: Instant::now(),
            start_after: limits.start_after_time.unwrap_or_default(),
            stop_after: limits.stop_after_time,
            n_signals_before: limits.toggled_by.map(|_| child::n_kept()),
        }
    }

    /// Whether there is anything to ask.
    pub(crate) fn is_needed(&self) -> bool {
        !self.start_after.is_zero() || self.stop_after.is_some() || self.n_signals_before.is_some()
    }

    /// What is to be recorded now. The first signal turns recording on, the next one off, and so on.
    pub(crate) fn now(&self) -> Turn {
        let n_signals = self.n_signals_before.map_or(1, |before| child::n_kept().wrapping_sub(before));
        self.at(self.began.elapsed(), n_signals)
    }

    fn at(&self, elapsed: Duration, n_signals: u64) -> Turn {
        if self.stop_after.is_some_and(|after| elapsed >= after) {
            return Turn::Over;
        }
        if elapsed < self.start_after || n_signals.is_multiple_of(2) { Turn::Off } else { Turn::On }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_signals_turn_recording_on_and_off() {
        let seconds = Duration::from_secs;
        let limits = Limits {
            start_after_time: Some(seconds(2)),
            stop_after_time: Some(seconds(5)),
            ..Limits::default()
        };
        let switch = Switch::new(&limits);
        let turns = [0, 2, 4, 5, 9].map(|elapsed| switch.at(seconds(elapsed), 1));
        assert_eq!(turns, [Turn::Off, Turn::On, Turn::On, Turn::Over, Turn::Over]);
        let turns = [0, 1, 2, 3].map(|n_signals| switch.at(seconds(3), n_signals));
        assert_eq!(turns, [Turn::Off, Turn::On, Turn::Off, Turn::On]);
        assert!(switch.is_needed() && !Switch::new(&Limits::default()).is_needed());
        assert_eq!(Switch::new(&Limits::default()).now(), Turn::On);
    }
}
