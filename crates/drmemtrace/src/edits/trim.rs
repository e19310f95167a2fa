//! Parts of a trace: ranges of records, instructions or clock readings.
//!
//! A part begins and ends right before an instruction outside kernel code, so that each instruction keeps its data and its
//! markers, and each system call its kernel code. A part that begins in the middle starts with the clock reading and
//! processor that were valid there. If there are several parts, a window id between the two numbers them and shows readers
//! that the flow of control is broken on purpose (spec 18.5). With several parts, none ends with a branch: it continues to
//! the next instruction that is not a branch, because a branch is followed by its successor (spec 6.2).
//!
//! In a file of a core, a part also ends where the core switches to another thread or was idle: the next records may be from
//! much later, when the thread comes back from other cores.

use crate::kernel::Regions;
use crate::record::{Entry, FileType, Marker, Type};
use crate::write::{At, EntryEdit};
use std::ops::Range;

/// Unit of the ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Visible records, from 0.
    Records,
    /// Instructions, from 0.
    Instrs,
    /// The latest clock reading.
    Clock,
}

/// The edit of one file.
#[derive(Clone, Debug)]
pub struct Trim {
    unit: Position,
    /// Ascending, without overlaps, each with the number of its window.
    parts: Vec<(Range<u64>, u64)>,
    has_windows: bool,
    /// Number of parts that have ended.
    n_behind: usize,
    /// True inside a part.
    is_inside: bool,
    /// The part being read, if its beginning was written already.
    told: Option<usize>,
    regions: Regions,
    has_begun: bool,
    window: Option<u64>,
    /// True until the first clock reading.
    in_header: bool,
    /// True if the instruction before was a branch that is kept.
    is_behind_branch: bool,
    /// True if the file is a core's.
    is_of_core: bool,
    /// True if the core was idle, or switched to another thread, since the last record.
    has_turned: bool,
    /// True if the next processor that is kept is the first, for a window that begins with the trace.
    is_first_cpu: bool,
}

impl Trim {
    /// Keeps these parts. If there are several, each is a window numbered by its place in the list, even if this file has
    /// nothing of it; parts that overlap or touch are one window, with the lowest of their numbers.
    pub fn new(unit: Position, parts: Vec<Range<u64>>) -> Trim {
        let has_windows = parts.len() > 1;
        let mut parts: Vec<(Range<u64>, u64)> = parts.into_iter().zip(0..).collect();
        parts.retain(|(part, _)| part.start < part.end);
        parts.sort_by_key(|(part, _)| part.start);
        let mut joined: Vec<(Range<u64>, u64)> = Vec::new();
        for (part, window) in parts {
            match joined.last_mut().filter(|(last, _)| part.start <= last.end) {
                Some((last, first)) => {
                    last.end = last.end.max(part.end);
                    *first = window.min(*first);
                }
                None => joined.push((part, window)),
            }
        }
        Trim {
            unit,
            parts: joined,
            has_windows,
            n_behind: 0,
            is_inside: false,
            told: None,
            regions: Regions::default(),
            has_begun: false,
            window: None,
            in_header: true,
            is_behind_branch: false,
            is_of_core: false,
            has_turned: false,
            is_first_cpu: true,
        }
    }

    fn is_wanted(&mut self, position: u64) -> bool {
        // `u64::MAX` is no end: cores that never ran have it as their clock.
        let is_past = |part: &Range<u64>| part.end <= position && part.end != u64::MAX;
        while self.parts.get(self.n_behind).is_some_and(|(part, _)| is_past(part)) {
            self.n_behind += 1;
        }
        self.parts.get(self.n_behind).is_some_and(|(part, _)| part.start <= position)
    }

    /// The number of the current window: our own if windows are numbered here, else that of the trace.
    fn window_here(&self) -> Option<u64> {
        if self.has_windows { self.parts.get(self.n_behind).map(|(_, window)| *window) } else { self.window }
    }

    /// Handles an instruction, at which a part may begin or end.
    fn at_instr(&mut self, at: &At, before: &mut Vec<Entry>) {
        self.has_turned = false;
        let position = self.position(at);
        let is_wanted = self.is_wanted(position);
        if self.has_windows && self.is_inside && self.is_behind_branch {
            // No clock reading may stand between a branch and its successor: the part continues until it ends after another
            // instruction.
            if is_wanted {
                self.told = Some(self.n_behind);
            }
            return;
        }
        self.is_inside = is_wanted;
        // Entries before the first instruction are decided together with it, and were kept if the part begins there.
        let is_new = self.is_inside && self.told != Some(self.n_behind);
        if is_new {
            self.is_first_cpu = false;
            self.told = Some(self.n_behind);
            before.extend(at.timestamp.map(|value| Entry::marker(Marker::TIMESTAMP, value)));
            before.extend(self.window_here().map(|value| Entry::marker(Marker::WINDOW_ID, value)));
            before.extend(at.cpu.map(|value| Entry::marker(Marker::CPU_ID, value)));
        }
    }

    fn position(&self, at: &At) -> u64 {
        match self.unit {
            Position::Records => at.records,
            Position::Instrs => at.instrs,
            Position::Clock => at.timestamp.unwrap_or(0),
        }
    }

    /// Handles a marker, which may end a part that is over where a core switches.
    fn at_marker(&mut self, kind: Marker, at: &At) {
        let goes_on = self.has_windows && self.is_behind_branch;
        if std::mem::take(&mut self.has_turned) && self.is_inside && !goes_on {
            let position = self.position(at);
            self.is_inside = self.is_wanted(position);
        }
        self.has_turned = self.is_of_core && matches!(kind, Marker::CORE_IDLE | Marker::CORE_WAIT);
    }

    /// Ends the header at the first clock reading: the following entries belong to the first instruction, if that is wanted.
    fn begin(&mut self, timestamp: u64) {
        self.in_header = false;
        let position = if self.unit == Position::Clock { timestamp } else { 0 };
        self.is_inside = self.is_wanted(position);
        if self.is_inside {
            self.told = Some(self.n_behind);
        }
    }
}

impl EntryEdit for Trim {
    fn judge(&mut self, entry: &mut Entry, at: &At, before: &mut Vec<Entry>) -> bool {
        let kind = entry.kind();
        let was_open = self.regions.any();
        self.regions.pass(entry);
        if kind.is_instr() || kind == Type::INSTR_BUNDLE || kind == Type::INSTR_MAYBE_FETCH {
            self.in_header = false;
            if !was_open && entry.size.get() > 0 {
                self.has_begun = true;
                self.at_instr(at, before);
            } else if !self.has_begun && entry.size.get() == 0 {
                // A filtered trace may name addresses long before its first instruction.
                self.at_instr(at, before);
            }
            self.is_behind_branch = self.is_inside && matches!(kind.0, 11..=16 | 48 | 49);
            return self.is_inside;
        }
        match kind {
            Type::THREAD => {
                self.has_turned = self.is_of_core && !self.in_header;
                return true;
            }
            Type::HEADER | Type::FOOTER | Type::PID | Type::THREAD_EXIT => return true,
            Type::MARKER => self.at_marker(Marker(entry.size.get()), at),
            _ => return self.is_inside,
        }
        match Marker(entry.size.get()) {
            Marker::FILETYPE => {
                self.is_of_core = FileType(entry.addr.get()).any(FileType::CORE_SHARDED);
                return true;
            }
            Marker::TIMESTAMP if self.in_header => self.begin(entry.addr.get()),
            Marker::WINDOW_ID => {
                self.window = Some(entry.addr.get());
                // Our own numbers replace them.
                return self.is_inside && !self.has_windows;
            }
            Marker::CPU_ID if self.is_first_cpu && self.is_inside && self.has_windows => {
                self.is_first_cpu = false;
                before.extend(self.window_here().map(|value| Entry::marker(Marker::WINDOW_ID, value)));
            }
            // The properties of a trace, and the number of instructions that a filter has seen, hold for all of it.
            Marker::VERSION
            | Marker::CACHE_LINE_SIZE
            | Marker::PAGE_SIZE
            | Marker::CHUNK_INSTR_COUNT
            | Marker::VECTOR_LENGTH
            | Marker::INSTRUCTION_COUNT => return true,
            _ => {}
        }
        self.is_inside || self.in_header
    }
}
