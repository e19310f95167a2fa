//! What a trace has recorded of fetches, instructions and data, as far as it affects the meaning of cache statistics.
//!
//! Results leave out caches without any requests, and mention records that a filter dropped. The number of executed
//! instructions comes from the records, or from marks that count them, or is unknown. The marks are recognised by their
//! name, which formats with filtered instructions use.

use hashbrown::HashMap;
use quipu_model::executed::ExecutedCount;
use quipu_model::lens::ThreadEvent;
use quipu_model::number::grouped;
use quipu_model::result;
use quipu_model::trace::{Recorded, filtered_sentence};
use quipu_model::{Batch, Columns, ThreadId, Trace};
use rustc_hash::FxBuildHasher;

/// Number of mark kinds whose names are searched.
const MAX_KINDS: u32 = 128;

result! {
    /// Completeness of fetches, instructions and data in a trace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Recording {
        pub fetches: Recorded => "Instruction fetches: `all`, `filtered` or `nothing`.";
        pub data: Recorded => "Data accesses: `all`, `filtered` or `nothing`.";
    } beside {
        pub instrs: Recorded => "Instructions that are counted.";
        pub count_kind: Option<u32> =>
            "Kind of the marks that give the number of executed instructions of a thread, if records do not.";
    }
}

/// Counts of instructions for one result; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// Instructions in the trace.
    pub(crate) in_trace: Option<u64>,
    /// Instructions executed in the same time.
    pub(crate) executed: Option<u64>,
}

impl Recording {
    /// Determines what `trace` has recorded.
    pub fn of(trace: &dyn Trace) -> Recording {
        let meta = trace.meta();
        let of = |column: Columns| if trace.columns().has(column) { meta.instrs } else { Recorded::Nothing };
        let instrs = of(Columns::INSTRS);
        let counts = |kind: &u32| trace.mark_name(*kind) == "instruction_count";
        let is_told = instrs == Recorded::Filtered && trace.columns().has(Columns::MARKS | Columns::THREADS);
        Recording {
            fetches: of(Columns::ACCESS_FETCH),
            instrs,
            data: meta.data,
            count_kind: if is_told { (0..MAX_KINDS).find(counts) } else { None },
        }
    }

    /// Columns needed for its marks.
    pub(crate) fn columns(self) -> Columns {
        if self.count_kind.is_some() { Columns::MARKS | Columns::THREADS } else { Columns::default() }
    }

    /// Notes for people, as sentences: what the `counted` instructions of the trace mean, and what misses are divided by.
    /// `what` is the word for caches or TLBs in the notes about those that are left out; `None` omits these notes.
    pub(crate) fn notes(self, what: Option<&str>, counted: Instructions) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(lacks) = filtered_sentence(self.fetches, self.data) {
            notes.push(format!("{lacks}, so hits are missing and miss rates are too high"));
        }
        notes.extend(self.divisor(counted));
        notes.extend(self.left_out(what));
        notes
    }

    /// Explains what misses per 1,000 instructions are divided by, or why there are none.
    fn divisor(self, Instructions { in_trace, executed }: Instructions) -> Option<String> {
        let name = "misses per 1,000 instructions (MPKI)";
        match (self.instrs, executed) {
            (Recorded::Nothing, _) => {
                Some("the trace has no instructions, so no misses per 1,000 of them (MPKI)".to_owned())
            }
            (Recorded::Filtered, None) => Some(format!(
                "nothing says how many instructions were executed here; the filter left {} of them, so no {name}",
                grouped(in_trace.unwrap_or(0))
            )),
            (Recorded::Filtered, Some(0)) => Some(format!(
                "marks count no instruction that was executed here; the filter left {}, so no {name}",
                grouped(in_trace.unwrap_or(0))
            )),
            (_, None | Some(0)) => None,
            (Recorded::Filtered, Some(n)) => Some(format!(
                "{name} are of the instructions that were executed: {}, as marks count them; the filter left {}",
                grouped(n),
                grouped(in_trace.unwrap_or(0))
            )),
            (Recorded::All, Some(n)) => {
                Some(format!("{name} are of the fetched instructions that count: {}", grouped(n)))
            }
        }
    }

    fn left_out(self, what: Option<&str>) -> Vec<String> {
        let mut notes = Vec::new();
        let Some(what) = what else { return notes };
        if self.fetches == Recorded::Nothing {
            notes.push(format!("the trace has no fetches: {what} of instructions are left out"));
        }
        if self.data == Recorded::Nothing {
            notes.push(format!("the trace has no accesses to data: {what} of data are left out"));
        }
        notes
    }
}

/// Number of executed instructions, according to the marks of each thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Executed {
    threads: HashMap<ThreadId, ExecutedCount, FxBuildHasher>,
}

impl Executed {
    /// Processes the marks of a batch.
    pub(crate) fn follow(&mut self, batch: &Batch, kind: u32) {
        let stops = batch.threads.what.contains(&ThreadEvent::Stop);
        let is_told = batch.marks.kind.contains(&kind);
        if !stops && !is_told && batch.accesses.is_empty() {
            return;
        }
        let count = self.threads.entry(batch.span.thread).or_default();
        let counts = batch.marks.kind.iter().zip(&batch.marks.value).filter(|(of, _)| **of == kind);
        counts.for_each(|(_, value)| count.add(*value));
    }

    /// Instructions of all threads; `None` unless every thread has a count.
    pub(crate) fn total(&self) -> Option<u64> {
        ExecutedCount::of_all(self.threads.values().map(ExecutedCount::instructions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u32 = 11;

    fn batch(thread: u64, counts: &[u64], stops: bool) -> Batch {
        let mut batch = Batch::default();
        batch.span.thread = thread.into();
        for count in counts {
            batch.marks.kind.extend([3, KIND]);
            batch.marks.value.extend([99, *count]);
        }
        batch.threads.what.extend(stops.then_some(ThreadEvent::Stop));
        batch
    }

    #[test]
    fn what_divides_misses_is_named() {
        let notes = |instrs, in_trace, executed| {
            let recording = Recording { instrs, ..Recording::default() };
            recording.notes(None, Instructions { in_trace: Some(in_trace), executed }).join("; ")
        };
        assert_eq!(
            notes(Recorded::All, 5979, Some(5979)),
            "misses per 1,000 instructions (MPKI) are of the fetched instructions that count: 5,979"
        );
        assert_eq!(notes(Recorded::All, 0, Some(0)), "", "there are no such misses");
        let of_marks = notes(Recorded::Filtered, 53, Some(5979));
        assert!(of_marks.contains("executed: 5,979, as marks count them; the filter left 53"), "{of_marks}");
        let unknown = notes(Recorded::Filtered, 53, None);
        assert!(unknown.contains("the filter left 53 of them, so no misses per 1,000"), "{unknown}");
        let none = notes(Recorded::Filtered, 53, Some(0));
        assert!(none.contains("marks count no instruction") && none.contains("so no misses"), "{none}");
    }

    #[test]
    fn instructions_are_those_of_all_threads_from_their_first_marks_to_their_last() {
        let mut executed = Executed::default();
        assert_eq!(executed.total(), None);
        executed.follow(&batch(1, &[0], false), KIND);
        assert_eq!(executed.total(), None, "one mark tells nothing");
        executed.follow(&batch(2, &[200, 207], true), KIND);
        executed.follow(&batch(1, &[100], true), KIND);
        assert_eq!(executed.total(), Some(107));
        executed.follow(&batch(3, &[], true), KIND);
        assert_eq!(executed.total(), None, "nothing tells what this thread did");
    }
}
