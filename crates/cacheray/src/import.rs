//! Converts records of other formats into typed accesses.

use crate::plausible::{is_address, is_possible};
use crate::record::{Dialect, Record};
use crate::write::{DIALECT, TraceWriter, access, facts, region};
use quipu_model::convert::{Ledger, Outcome, RecordJob, RecordSink, RecordWriter, RecordWriterInfo};
use quipu_model::fresh::Replace;
use quipu_model::lens::{AccessKind, ThreadEvent};
use quipu_model::options::{Kind, OptionSpec};
use quipu_model::trace::Fact;
use quipu_model::transform::packing_for;
use quipu_model::{Batch, Columns, Result};
use quipu_records::write::usual_pool;
use std::collections::BTreeSet;

/// The largest size that fits into a record.
const MAX_SIZE: u32 = u8::MAX as u32;
/// The largest size that Cacheray's simulator reads correctly: it treats sizes as signed.
const MAX_SIGNED_SIZE: u32 = i8::MAX as u32;
/// The largest access that compilers report; larger ones are split into accesses of this size.
const USUAL_SIZE: u32 = 16;
/// Maximum number of bytes written for one access: one more than the largest access of drmemtrace. A line of text may claim 4
/// GiB, which would become 268 million records.
const MAX_SPLIT_SIZE: u32 = 64 << 10;

/// The format as the target of a conversion.
#[derive(Debug)]
pub struct FromOthers;

static INFO: RecordWriterInfo = RecordWriterInfo {
    required: Columns::ACCESSES,
    taken: Columns::ACCESSES.or(Columns::REGIONS).or(Columns::THREADS),
    made_up: &[],
    options: &[DIALECT, WIDE],
};

/// Treatment of large accesses.
const WIDE: OptionSpec = OptionSpec::new(
    "wide",
    Kind::Choice(&["keep", "split"]),
    "keep",
    "Write accesses of 17 to 255 bytes as they are, or split into 16 bytes, the largest that Cacheray writes.",
)
.value("keep|split");

impl RecordWriter for FromOthers {
    fn info(&self) -> &'static RecordWriterInfo {
        &INFO
    }

    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>> {
        let dialect = Dialect::parse(job.options.word(&DIALECT)).unwrap_or(Dialect::Le64);
        let largest = if job.options.word(&WIDE) == "split" { USUAL_SIZE } else { MAX_SIZE };
        let packing = packing_for(job.container, job.level, job.output)?;
        let replace = if job.replace { Replace::Allowed } else { Replace::Never };
        let writer = TraceWriter::create(job.output, dialect, &packing, replace, &usual_pool()?)?;
        Ok(Box::new(Typed { writer, dialect, largest, processes: BTreeSet::new() }))
    }
}

/// Outcome of converting the accesses of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reads: u64,
    writes: u64,
    prefetches: u64,
    flushes: u64,
    fetches: u64,
    sizeless: u64,
    /// `wide` counts accesses larger than Cacheray writes, `too_wide` those larger than its simulator can read.
    wide: u64,
    too_wide: u64,
    split: u64,
    /// Accesses larger than `MAX_SPLIT_SIZE`; the rest of each is not written.
    cut: u64,
    /// Accesses at addresses that no machine has.
    impossible: u64,
}

impl Counts {
    fn enter(&self, largest: u32, ledger: &mut Ledger) {
        ledger.add("reads", Outcome::Kept, self.reads);
        ledger.add("writes", Outcome::Kept, self.writes);
        ledger.add("prefetches", Outcome::Dropped, self.prefetches);
        ledger.add("flushes", Outcome::Dropped, self.flushes);
        ledger.add("fetches", Outcome::Dropped, self.fetches);
        ledger.add("accesses of unknown size, written as of 1 byte", Outcome::Changed, self.sizeless);
        ledger.add("accesses of 17 to 127 bytes, which Cacheray never writes", Outcome::Kept, self.wide);
        ledger.add(
            "accesses of 128 to 255 bytes, whose sizes Cacheray takes for negative",
            Outcome::Kept,
            self.too_wide,
        );
        let split = format!("accesses of more than {largest} bytes, written as several of {USUAL_SIZE}");
        ledger.add(&split, Outcome::Changed, self.split);
        ledger.add("accesses of more than 64 KiB, cut off there", Outcome::Changed, self.cut);
        let impossible = "accesses to addresses that no machine has, which readers take for damage";
        ledger.add(impossible, Outcome::Dropped, self.impossible);
    }
}

struct Typed {
    writer: TraceWriter,
    dialect: Dialect,
    /// Larger accesses are split into accesses of this size.
    largest: u32,
    /// Processes of the source; records cannot store them.
    processes: BTreeSet<u64>,
}

impl Typed {
    fn access(&mut self, batch: &Batch, row: usize, counts: &mut Counts) -> Result<()> {
        let accesses = &batch.accesses;
        let (kind, addr, size) = (accesses.kind[row], accesses.addr[row], accesses.size[row]);
        let thread = batch.span.thread.packed();
        let count = match kind {
            AccessKind::Read => &mut counts.reads,
            AccessKind::Write => &mut counts.writes,
            AccessKind::Prefetch | AccessKind::PrefetchInstr => &mut counts.prefetches,
            AccessKind::FlushData | AccessKind::FlushInstr => &mut counts.flushes,
            AccessKind::Fetch => &mut counts.fetches,
        };
        if !matches!(kind, AccessKind::Read | AccessKind::Write) {
            *count += 1;
            return Ok(());
        }
        let last = addr.wrapping_add(u64::from(size.clamp(1, MAX_SPLIT_SIZE)) - 1);
        if !is_address(addr) || !is_address(last) {
            counts.impossible += 1;
            return Ok(());
        }
        let mut put = |addr: u64, size: u32| match access(kind, addr, size.min(MAX_SIZE) as u8, thread) {
            Some(record) => self.writer.record(&record), // At most 255 bytes.
            None => Ok(()),
        };
        match size {
            0 => {
                counts.sizeless += 1;
                put(addr, 1)
            }
            _ if size <= self.largest => {
                let count = match size {
                    _ if size <= USUAL_SIZE => count,
                    _ if size <= MAX_SIGNED_SIZE => &mut counts.wide,
                    _ => &mut counts.too_wide,
                };
                *count += 1;
                put(addr, size)
            }
            _ => {
                let count = if size <= MAX_SPLIT_SIZE { &mut counts.split } else { &mut counts.cut };
                *count += 1;
                let (size, mut done) = (size.min(MAX_SPLIT_SIZE), 0);
                while done < size {
                    let now = USUAL_SIZE.min(size - done);
                    put(addr.wrapping_add(done.into()), now)?;
                    done += now;
                }
                Ok(())
            }
        }
    }

    fn region(&mut self, batch: &Batch, row: usize, ledger: &mut Ledger) -> Result<()> {
        let regions = &batch.regions;
        let (element_bytes, n_elements) = (regions.element_bytes[row], regions.n_elements[row]);
        let fits = u32::try_from(element_bytes).is_ok() && u32::try_from(n_elements).is_ok();
        let name = regions.type_name.get(row);
        let addr = regions.addr[row];
        let record: Record<'_> =
            region(regions.what[row], (addr, batch.span.thread.packed()), (element_bytes, n_elements), name);
        if !is_possible(&record) {
            let what = "annotations of addresses or names that no program has, which readers take for damage";
            ledger.add(what, Outcome::Dropped, 1);
            return Ok(());
        }
        let (what, outcome) = match fits {
            true => ("annotations", Outcome::Kept),
            false => ("annotations of more than 4 GiB, or 2^32 elements, cut off there", Outcome::Changed),
        };
        ledger.add(what, outcome, 1);
        self.writer.record(&record)
    }
}

impl RecordSink for Typed {
    fn take(&mut self, batch: &Batch, ledger: &mut Ledger) -> Result<()> {
        let (accesses, regions) = (&batch.accesses, &batch.regions);
        let (mut next, mut counts) = (0, Counts::default());
        if batch.span.process != 0 {
            self.processes.insert(batch.span.process);
        }
        for row in 0..=regions.len() {
            let until = regions.at.get(row).copied().unwrap_or(u32::MAX);
            while accesses.at.get(next).is_some_and(|at| *at < until) {
                self.access(batch, next, &mut counts)?;
                next += 1;
            }
            if row < regions.len() {
                self.region(batch, row, ledger)?;
            }
        }
        counts.enter(self.largest, ledger);
        for what in &batch.threads.what {
            match what {
                // The first record of a thread implies its start.
                ThreadEvent::Start => ledger.add("beginnings of threads", Outcome::Kept, 1),
                _ => ledger.add("events of threads", Outcome::Dropped, 1),
            }
        }
        Ok(())
    }

    fn n_written(&self) -> u64 {
        self.writer.n_records()
    }

    fn end(&mut self, ledger: &mut Ledger) -> Result<()> {
        ledger.add("numbers of processes", Outcome::Dropped, self.processes.len() as u64);
        self.writer.refuse_formless()
    }

    fn commit(self: Box<Self>) -> Result<Vec<Fact>> {
        Ok(facts(self.dialect, &self.writer.finish()?))
    }
}
