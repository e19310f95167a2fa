//! Trimming as DynamoRIO does it: each clock reading decides whether the following entries are kept (spec 17).

use crate::record::{Entry, Marker, Type};
use crate::write::At;
use quipu_model::{Error, Result};

/// The quantity that is compared with the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockUnit {
    /// The clock reading: kept from `first` to `last`.
    Timestamps,
    /// The instructions before it: kept from `first` to before `last`.
    Instrs,
}

/// Limits of the entries that are kept, per file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTrim {
    unit: ClockUnit,
    first: u64,
    last: u64,
}

/// State of trimming one file.
#[derive(Clone, Debug)]
pub(super) struct ClockTrimming {
    trim: ClockTrim,
    in_header: bool,
    is_outside: bool,
    window: Option<u64>,
}

impl ClockTrim {
    /// Keeps the entries between the limits.
    ///
    /// # Errors
    /// `Usage` if `first` is greater than `last`.
    pub fn new(unit: ClockUnit, first: u64, last: u64) -> Result<ClockTrim> {
        if first > last {
            return Err(Error::usage(format!("the limits of the trim leave nothing: `{first}` to `{last}`")));
        }
        Ok(ClockTrim { unit, first, last })
    }

    pub(super) fn start(self) -> ClockTrimming {
        ClockTrimming { trim: self, in_header: true, is_outside: false, window: None }
    }
}

impl ClockTrimming {
    /// True if the entry is kept. `fault` is set if the trace has several windows, which cannot be trimmed in this way.
    pub(super) fn keeps(&mut self, entry: &Entry, at: &At, fault: &mut Option<Error>) -> bool {
        let kind = entry.kind();
        if entry.is_marker(Marker::TIMESTAMP) {
            self.in_header = false;
            let ClockTrim { unit, first, last } = self.trim;
            self.is_outside = match unit {
                ClockUnit::Timestamps => entry.addr.get() < first || entry.addr.get() > last,
                ClockUnit::Instrs => at.instrs < first || at.instrs >= last,
            };
        } else if entry.is_marker(Marker::WINDOW_ID) {
            let is_first = self.window.is_none();
            if self.window.replace(entry.addr.get()).is_some_and(|window| window != entry.addr.get()) {
                fault.get_or_insert_with(|| {
                    Error::unsupported(
                        "the trace has several windows, which cannot be trimmed at clock readings",
                    )
                });
            }
            return is_first || !self.is_outside;
        }
        self.in_header || !self.is_outside || matches!(kind, Type::THREAD_EXIT | Type::FOOTER)
    }
}
