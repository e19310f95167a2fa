//! Seams between chunks, and the check that both sides of a seam count the same records.
//!
//! Each chunk begins with the number of records before it. A reader that counts records compares the two numbers itself, and
//! reports the loss ([`crate::reader`]). Raw entries are handed out uncounted, and pieces are read independently; there the
//! consumer counts anyway, and the two sides of a seam are compared here. If they differ, the file is *doubted*: results so
//! far are discarded ([`Trace::n_delivered_damaged`](quipu_model::Trace::n_delivered_damaged)), and every later reader of
//! the file counts. So whole traces are read at full speed, and damage is found by one reader, with one place. Entries that
//! name a thread other than the file's own raise the same doubt.

use crate::record::{Marker, Type};
use crate::trace::File;
use crate::write::{Part, weight};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The seams of one file.
#[derive(Debug, Default)]
pub(crate) struct Seams {
    is_doubted: AtomicBool,
    /// Seams between pieces with one side read, by the member after the seam. At most one for each half megabyte.
    halves: Mutex<FxHashMap<u32, Half>>,
}

/// One side of a seam, with the number of records before it.
#[derive(Clone, Copy, Debug)]
enum Half {
    /// The end of the chunk before, as counted by its reader.
    End(u64),
    /// The beginning of the chunk after, as the chunk states.
    Beginning(u64),
}

impl Seams {
    /// True once the two sides of a seam differed: readers of the file have to count records.
    pub(crate) fn is_doubted(&self) -> bool {
        self.is_doubted.load(Ordering::Relaxed)
    }

    /// Makes every later reader of the file count records.
    pub(crate) fn doubt(&self) {
        self.is_doubted.store(true, Ordering::Relaxed);
    }

    /// Compares both sides of a seam.
    pub(crate) fn compare(&self, counted: u64, ordinal: u64) {
        if counted != ordinal {
            self.doubt();
        }
    }

    /// Notes the count of a reader that read the chunks before a member to their end.
    pub(crate) fn end_before(&self, member: u32, counted: u64) {
        self.meet(member, Half::End(counted));
    }

    /// Notes that reading began at a member that states this many records before it.
    pub(crate) fn begin_at(&self, member: u32, ordinal: u64) {
        self.meet(member, Half::Beginning(ordinal));
    }

    fn meet(&self, member: u32, half: Half) {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        match (halves.remove(&member), half) {
            (Some(Half::End(counted)), Half::Beginning(ordinal))
            | (Some(Half::Beginning(ordinal)), Half::End(counted)) => self.compare(counted, ordinal),
            // An earlier read of the same side has the same count.
            _ => {
                halves.insert(member, half);
            }
        }
    }
}

/// Recognises the clock reading and the processor at the start of a chunk, after the footer of the chunk before and the
/// chunk's own ordinal: copies of the latest ones, which are hidden from readers of records. One of the two is enough, as
/// for those readers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    is_open: bool,
    /// True if the header states the length of chunks, or a chunk began with its ordinal.
    has_chunks: bool,
}

impl Repeats {
    /// Takes the next marker; true if it is a copy.
    #[inline]
    pub(crate) fn is_copy(&mut self, marker: Marker) -> bool {
        match marker {
            Marker::RECORD_ORDINAL => {
                *self = Repeats { is_open: true, has_chunks: true };
                false
            }
            Marker::CHUNK_FOOTER => {
                self.is_open = self.has_chunks;
                false
            }
            // The members of an archive of templates have their own headers, with clock readings that are not copies.
            Marker::VERSION => {
                self.is_open = false;
                false
            }
            Marker::CHUNK_INSTR_COUNT => {
                self.has_chunks = true;
                false
            }
            Marker::TIMESTAMP => self.is_open,
            Marker::CPU_ID => std::mem::take(&mut self.is_open),
            _ => false,
        }
    }

    /// True between a chunk's footer, or its ordinal, and its copy of the processor.
    #[inline]
    pub(crate) fn is_open(self) -> bool {
        self.is_open
    }
}

/// Counts the records of a file for a consumer of raw entries that does not count them itself, and compares its seams.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    records: u64,
    repeats: Repeats,
    comparer: Comparer,
}

impl Counter {
    /// A counter for one read of this file.
    pub(crate) fn of(file: &File) -> Counter {
        Counter { comparer: Comparer::of(file), ..Counter::default() }
    }

    /// Counts the next entries of the file.
    pub(crate) fn take(&mut self, part: &Part<'_>, file: &File) {
        self.comparer.begin(part);
        for entry in part.entries {
            let marker = (entry.kind() == Type::MARKER).then(|| Marker(entry.size.get()));
            if marker == Some(Marker::RECORD_ORDINAL) {
                self.comparer.meet(&file.seams, entry.addr.get(), self.records);
            }
            if matches!(entry.kind(), Type::THREAD | Type::THREAD_EXIT) {
                file.meet_thread(entry.addr.get());
            }
            if !marker.is_some_and(|marker| self.repeats.is_copy(marker)) {
                self.records += weight(entry).0;
            }
        }
    }
}

/// Compares the seams that one consumer of raw entries encounters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Comparer {
    /// The latest seam: the number of records that it states before it, and the number that the consumer had counted there.
    /// `None` if unknown: before the first seam, and after damage.
    latest: Option<(u64, u64)>,
    has_begun: bool,
    /// The member of the latest entries.
    member: u32,
}

impl Comparer {
    /// A comparer for one read of this file.
    pub(crate) fn of(file: &File) -> Comparer {
        // If the first chunk that is present is not chunk 0, others are missing before it.
        Comparer { has_begun: file.first_chunk() > 0, ..Comparer::default() }
    }

    /// Starts the next entries.
    pub(crate) fn begin(&mut self, part: &Part<'_>) {
        self.enter(part.member, part.offset);
        if part.is_after_damage {
            self.skip();
        }
    }

    /// Starts entries of this member, from `offset` on. The first call begins the read.
    pub(crate) fn enter(&mut self, member: u32, offset: u64) {
        if !std::mem::replace(&mut self.has_begun, true) && member == 0 && offset == 0 {
            self.latest = Some((0, 0));
        }
        self.member = member;
    }

    /// Handles reported damage: the next seam is not compared.
    pub(crate) fn skip(&mut self) {
        self.latest = None;
        self.has_begun = true;
    }

    /// Handles a chunk's ordinal; `counted` records were counted before it.
    pub(crate) fn meet(&mut self, seams: &Seams, ordinal: u64, counted: u64) {
        match self.latest {
            Some((before, at)) => seams.compare(before.saturating_add(counted - at), ordinal),
            None => seams.begin_at(self.member, ordinal),
        }
        self.latest = Some((ordinal, counted));
    }

    /// Ends the read, after a chunk's footer.
    pub(crate) fn end(&self, seams: &Seams, counted: u64) {
        if let Some((before, at)) = self.latest {
            seams.end_before(self.member.saturating_add(1), before.saturating_add(counted - at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::counts::COUNTS;
    use crate::trace::{DrmemTrace, open};
    use crate::write::{NoEdit, WriteOptions, rewrite_file};
    use quipu_model::transform::Silent;
    use quipu_model::{Columns, OpenOptions, Options, Scan, ShardId, Tool, Trace};
    use quipu_source::{Packer, Pool, Source};
    use quipu_testkit::fixtures;
    use std::io::Cursor;

    /// The first file of a trace, rewritten with chunks of 200 instructions.
    fn in_small_chunks(trace: &DrmemTrace) -> Option<Vec<u8>> {
        let options = WriteOptions { chunk_instrs: Some(200), ..WriteOptions::new() };
        let pool = Pool::new(1).unwrap();
        let packer = Packer::new(Cursor::new(Vec::new()), &pool, &options.pack);
        let (rewritten, _) = rewrite_file(trace, 0, packer, NoEdit, &options, &Silent).ok()?;
        Some(rewritten.out.into_inner())
    }

    #[test]
    fn whole_traces_are_never_doubted() {
        let mut n_chunks = 0;
        for folder in std::fs::read_dir(fixtures("drmemtrace")).unwrap() {
            let folder = folder.unwrap().path();
            let Ok(source) = Source::open(&folder) else { continue };
            let Ok(trace) = open(&source, &OpenOptions::default()) else { continue };
            let Some(small) = in_small_chunks(&trace) else { continue };
            let source = Source::from_bytes("small.trace.zip", small);
            let trace = open(&source, &OpenOptions::default()).unwrap();
            n_chunks += trace.files()[0].container.members().len();
            in_small_chunks(&trace).unwrap();
            assert!(!trace.files()[0].seams.is_doubted(), "an edit of {}", folder.display());
            let pass = COUNTS.build(&Options::default(), &trace).unwrap();
            let mut fork = pass.fork(&trace.shards()[0]);
            let mut reader = trace.scan(&Scan::new(ShardId(0)).columns(Columns::RAW)).unwrap();
            while let Some(batch) = reader.read().unwrap() {
                fork.consume(batch).unwrap();
            }
            assert!(!trace.files()[0].seams.is_doubted(), "counts of {}", folder.display());
        }
        assert!(n_chunks > 100, "{n_chunks}");
    }

    #[test]
    fn a_seam_is_compared_once_both_of_its_sides_were_read() {
        for (end, beginning) in [(7, 7), (7, 8), (8, 7)] {
            for is_end_first in [false, true] {
                let seams = Seams::default();
                if is_end_first {
                    seams.end_before(3, end);
                }
                seams.begin_at(3, beginning);
                seams.begin_at(4, 99);
                if !is_end_first {
                    seams.end_before(3, end);
                }
                assert_eq!(seams.is_doubted(), end != beginning, "{end} {beginning}");
            }
        }
    }

    #[test]
    fn one_read_compares_what_it_counts_between_two_seams() {
        let seams = Seams::default();
        let mut comparer = Comparer::default();
        comparer.enter(0, 0);
        comparer.meet(&seams, 10, 10);
        comparer.enter(1, 0);
        comparer.meet(&seams, 25, 25);
        assert!(!seams.is_doubted());
        // Damage makes the number of records unknown.
        comparer.skip();
        comparer.meet(&seams, 70, 30);
        assert!(!seams.is_doubted());
        comparer.meet(&seams, 80, 41);
        assert!(seams.is_doubted());
    }
}
