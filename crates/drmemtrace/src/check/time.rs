//! Clock, processors and tracing windows.

use super::checker::{Checker, on};
use super::rules::Rule;
use crate::record::{FileType, Marker};
use crate::schedule::{MAX_POINTS, Stretch};
use quipu_model::ShardKind;

/// State of the checks of clock, processors and windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Time {
    /// The latest clock reading.
    pub(super) last: u64,
    pub(super) instrs_at_clock: u64,
    /// The latest processor, once known.
    pub(super) cpu: Option<u64>,
    has_clock: bool,
    window: Option<u64>,
    /// The thread's points of the schedule.
    pub(super) points: Vec<Stretch>,
    /// True if there were more points than are kept.
    pub(super) is_too_long: bool,
}

impl Time {
    /// Starts over for another trace in the same file.
    pub(super) fn restart(&mut self) {
        let (points, is_too_long) = (std::mem::take(&mut self.points), self.is_too_long);
        *self = Time { points, is_too_long, ..Time::default() };
    }
}

impl Checker {
    pub(super) fn timestamp(&mut self, value: u64) {
        let last = self.time.last;
        if value < last {
            let is_narrow = self.policy.filetype.any(FileType::ARCH_X86_32.or(FileType::ARCH_ARM32));
            // A 32-bit clock wraps around; no thread waits for half its range.
            let wraps = is_narrow && last <= u64::from(u32::MAX) && last - value > u64::from(u32::MAX / 2);
            if !wraps {
                self.tell(Rule::TimeBackwards, || format!("clock `{value}` after `{last}`"));
            }
        }
        if self.in_kernel {
            self.tell(Rule::ClockInKernel, || "a clock reading in kernel code".to_owned());
        }
        self.time.last = value;
        self.time.has_clock = true;
        self.time.instrs_at_clock = self.instrs;
        self.attention |= on::CLOCK;
        if !self.policy.template {
            self.attention |= on::PROCESSOR;
        }
        self.stay_after_abort();
    }

    pub(super) fn cpu(&mut self, value: u64) {
        self.time.cpu = Some(value);
        self.stay_after_abort();
        if self.about.schedule && self.about.kind == ShardKind::Thread {
            let point = Stretch::new(self.tid, self.time.last, value, self.instrs);
            if self.time.points.len() >= MAX_POINTS {
                self.time.is_too_long = true;
            } else if self.time.points.last() != Some(&point) {
                self.time.points.push(point);
            }
        }
    }

    pub(super) fn window(&mut self, value: u64) {
        let last = self.time.window.replace(value);
        if last.unwrap_or(0) != value {
            self.attention |= on::WINDOW;
            self.excuse_turn();
        }
        if let Some(last) = last.filter(|last| value < *last) {
            self.tell(Rule::WindowBackwards, || format!("window `{value}` after `{last}`"));
        }
    }

    /// Reports a first instruction without a clock reading before it.
    pub(super) fn first_instr(&mut self) {
        self.attention &= !on::FIRST;
        if !self.time.has_clock && !self.policy.template {
            self.tell(Rule::ClockMissing, || {
                "no clock reading stands before the first instruction".to_owned()
            });
        }
    }

    /// True if the record being checked directly follows a clock reading and a processor, or a window and a processor.
    pub(super) fn follows_clock(&self) -> bool {
        self.follows_both(Marker::TIMESTAMP, Marker::CPU_ID)
            || self.follows_both(Marker::WINDOW_ID, Marker::CPU_ID)
    }
}
