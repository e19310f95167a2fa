//! Checking a part of each shard: the records before it are read for their effect on the rest, but nothing is reported of
//! them.

use super::checker::Checker;
use crate::record::Entry;
use quipu_model::options::{Kind, OptionSpec, Options};

/// The options that select a part, besides those that all tools called `check` have.
pub(super) const OPTIONS: [OptionSpec; 5] =
    [SKIP_INSTRS, SKIP_RECORDS, FROM_CLOCK, TAKE_INSTRS, TAKE_RECORDS];

const SKIP_INSTRS: OptionSpec =
    count("skip-instrs", "0", "do not report findings in the first `N` instructions of each shard");
const SKIP_RECORDS: OptionSpec =
    count("skip-records", "0", "do not report findings in the first `N` records of each shard");
const FROM_CLOCK: OptionSpec = count("from-clock", "0", "do not report findings before this timestamp");
const TAKE_INSTRS: OptionSpec = count("take-instrs", "all", "stop after `N` instructions of each shard");
const TAKE_RECORDS: OptionSpec = count("take-records", "all", "stop after `N` records of each shard");

const fn count(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec::new(name, Kind::Count, default, doc)
}

/// The part of each shard in which violations are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    skip_instrs: u64,
    skip_records: u64,
    from_clock: u64,
    take_instrs: u64,
    take_records: u64,
}

impl Part {
    const ALL: Part = Part {
        skip_instrs: 0,
        skip_records: 0,
        from_clock: 0,
        take_instrs: u64::MAX,
        take_records: u64::MAX,
    };

    /// The part that options select; `None` for all.
    pub(super) fn of(options: &Options) -> Option<Part> {
        let part = Part {
            skip_instrs: options.count(&SKIP_INSTRS),
            skip_records: options.count(&SKIP_RECORDS),
            from_clock: options.count(&FROM_CLOCK),
            take_instrs: options.number(&TAKE_INSTRS).unwrap_or(u64::MAX),
            take_records: options.number(&TAKE_RECORDS).unwrap_or(u64::MAX),
        };
        (part != Part::ALL).then_some(part)
    }
}

/// Progress of reading a shard relative to its part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Records before the part, once it has begun.
    begun: Option<u64>,
    /// The part has ended.
    pub(super) is_over: bool,
}

impl Checker {
    /// Checks entries one by one, up to the end of the part.
    #[cold]
    pub(super) fn run_part(&mut self, entries: &[Entry], part: Part) {
        let offset = self.offset;
        for (i, entry) in entries.iter().enumerate() {
            if self.progress.is_over {
                return;
            }
            self.offset = offset + i as u64 * self.about.entry_bytes;
            self.run(std::slice::from_ref(entry));
            if self.has_begun(part) {
                let begun = *self.progress.begun.get_or_insert(self.counted().saturating_sub(1));
                self.progress.is_over = self.is_behind(part, begun);
            }
        }
    }

    /// Records that count for a part: on cores that threads are scheduled onto, only those of threads.
    fn counted(&self) -> u64 {
        if self.about.is_cut { self.records - self.idles } else { self.records }
    }

    fn has_begun(&self, part: Part) -> bool {
        let is_past = |count: u64, skip: u64| skip == 0 || count > skip;
        is_past(self.instrs, part.skip_instrs)
            && is_past(self.counted(), part.skip_records)
            && self.time.last >= part.from_clock
    }

    fn is_behind(&self, part: Part, begun: u64) -> bool {
        self.instrs > part.skip_instrs.saturating_add(part.take_instrs)
            || self.counted() > begun.saturating_add(part.take_records)
    }

    /// True if a violation at the entry being judged is to be reported.
    pub(super) fn is_in_part(&self) -> bool {
        let Some(part) = self.about.part else { return true };
        let begun = self.progress.begun.unwrap_or(self.counted().saturating_sub(1));
        self.has_begun(part) && !self.is_behind(part, begun)
    }
}
