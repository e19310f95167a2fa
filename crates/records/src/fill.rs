//! The batch under construction.

use quipu_model::batch::Span;
use quipu_model::lens::ThreadEvent;
use quipu_model::schema::Text;
use quipu_model::{
    Amount, Batch, Columns, Finding, Loss, Place, RuleInfo, Scan, Severity, TableBuf, ThreadId,
};
use quipu_source::CarrierDamage;
use rustc_hash::FxHashSet;

/// Maximum number of threads whose start is remembered; with more, a start may be reported twice.
const MAX_THREADS: usize = 1 << 20;

/// Receives a codec's rows and findings.
#[derive(Debug)]
pub struct Fill {
    /// The process of the records; 0 if the trace does not say.
    pub process: u64,
    /// The processor that runs the thread, if the trace has named it.
    pub cpu: Option<u64>,
    /// The last clock reading.
    pub clock: u64,
    pub(crate) batch: Batch,
    /// The columns of the scan.
    columns: Columns,
    counts_beyond: bool,
    /// Whether the current records precede the wanted ones: they leave no rows, except for regions.
    pub(crate) is_skipping: bool,
    /// Number of records before this batch, and in it.
    pub(crate) n_before: u64,
    pub(crate) n: usize,
    /// Maximum number of records in the batch.
    pub(crate) room: usize,
    /// Whether the codec wants the batch to end.
    pub(crate) is_closed: bool,
    pub(crate) n_instrs: u64,
    /// The ordinal of the instruction to stop before.
    pub(crate) stop_instr: u64,
    thread: Option<ThreadId>,
    /// Threads that have started.
    threads: FxHashSet<ThreadId>,
    /// Offset of the front of the input, and of the first record in the batch.
    pub(crate) offset: u64,
    pub(crate) first_offset: Option<u64>,
    pub(crate) found: Found,
}

impl Fill {
    pub(crate) fn new(scan: &Scan, tables: Vec<Box<dyn TableBuf>>, file: &str, told_per_rule: u64) -> Fill {
        Fill {
            process: 0,
            cpu: None,
            clock: 0,
            batch: Batch { tables, ..Batch::default() },
            columns: scan.columns,
            counts_beyond: scan.beyond,
            is_skipping: false,
            n_before: 0,
            n: 0,
            room: 0,
            is_closed: false,
            n_instrs: 0,
            stop_instr: u64::MAX,
            thread: None,
            threads: FxHashSet::default(),
            offset: 0,
            first_offset: None,
            found: Found { file: file.to_owned(), told_per_rule, ..Found::default() },
        }
    }

    /// Begins a batch. Raw bytes that precede its first record are kept.
    pub(crate) fn begin(&mut self) {
        self.batch.clear();
        let n_kept = self.batch.raw.end.min(self.batch.block.len());
        self.batch.block.drain(..n_kept);
        self.batch.raw = 0..0;
        (self.n, self.is_closed, self.thread, self.first_offset) = (0, false, None, None);
    }

    /// Completes a batch of records; `first_instr` instructions precede it.
    pub(crate) fn end(&mut self, first_instr: u64) {
        if self.n > 0
            && self.columns.has(Columns::THREADS)
            && self.threads.insert(self.thread.unwrap_or_default())
        {
            if self.threads.len() > MAX_THREADS {
                self.threads.clear();
            }
            self.batch.threads.at.push(0);
            self.batch.threads.what.push(ThreadEvent::Start);
            self.batch.threads.value.push(self.process);
        }
        self.batch.span = Span {
            first_record: self.n_before,
            records: self.n as u32, // At most as many as a batch may have.
            first_instr,
            instrs: (self.n_instrs - first_instr) as u32, // As above.
            thread: self.thread.unwrap_or_default(),
            process: self.process,
            cpu: self.cpu,
            clock: self.clock,
            offset: self.first_offset.unwrap_or(self.offset),
            ..Span::default()
        };
        self.n_before += self.n as u64;
    }

    /// Drops the records of the batch, which precede the wanted ones.
    pub(crate) fn pass(&mut self) {
        self.n_before += self.n as u64;
        (self.n, self.first_offset, self.batch.raw) = (0, None, 0..0);
        self.batch.block.clear();
    }

    /// Keeps the next raw bytes for callers that want them. Bytes that are not a record belong to the record after them, and
    /// go to its batch.
    #[inline]
    pub(crate) fn keep_raw(&mut self, bytes: &[u8], is_record: bool) {
        if self.columns.has(Columns::RAW) {
            self.batch.block.extend_from_slice(bytes);
            if is_record {
                self.batch.raw = 0..self.batch.block.len();
            }
        }
    }

    /// Whether these columns must be filled.
    #[inline]
    pub fn wants(&self, columns: Columns) -> bool {
        self.columns.has(columns) && (!self.is_skipping || columns == Columns::REGIONS)
    }

    /// Whether tables must be filled.
    #[inline]
    pub fn wants_tables(&self) -> bool {
        !self.is_skipping && !self.batch.tables.is_empty()
    }

    /// The rows of the batch: lenses that are [wanted](Fill::wants), and tables if [they](Fill::wants_tables) are.
    #[inline]
    pub fn rows(&mut self) -> &mut Batch {
        &mut self.batch
    }

    /// Number of further records that fit.
    #[inline]
    pub fn room(&self) -> usize {
        if self.is_closed { 0 } else { self.room.saturating_sub(self.n) }
    }

    /// Whether the batch has no records.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Index of the next record in the batch, for the column `at`.
    #[inline]
    pub fn at(&self) -> u32 {
        if self.is_skipping { 0 } else { self.n as u32 } // At most a batch.
    }

    /// Number of records before the next one.
    #[inline]
    pub fn n_records(&self) -> u64 {
        self.n_before + self.n as u64
    }

    /// Number of instructions before the next record.
    #[inline]
    pub fn n_instrs(&self) -> u64 {
        self.n_instrs
    }

    /// The ordinal, from 0, of the instruction that the batch must end before.
    #[inline]
    pub fn stop_instr(&self) -> u64 {
        self.stop_instr
    }

    /// Offset of the front of the input in the inflated stream.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Sets the thread of the next record; false if the batch has records of another thread, so that it must end.
    #[inline]
    pub fn enter(&mut self, thread: ThreadId) -> bool {
        if self.n > 0 && !self.is_skipping && self.thread != Some(thread) {
            return false;
        }
        self.thread = Some(thread);
        true
    }

    /// The thread of the batch, if it has one.
    #[inline]
    pub fn thread(&self) -> Option<ThreadId> {
        self.thread
    }

    /// Counts records that were added, and the instructions among them.
    #[inline]
    pub fn add(&mut self, n_records: usize, n_instrs: u64) {
        if self.n == 0 {
            self.first_offset = Some(self.offset);
        }
        self.n += n_records;
        self.n_instrs += n_instrs;
    }

    /// Makes the batch end after its current records.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Counts data that no lens shows, if the scan asks for it.
    #[inline]
    pub fn add_beyond(&mut self, n: impl FnOnce() -> u64) {
        if self.counts_beyond && !self.is_skipping {
            let n = n();
            match self.batch.beyond.first_mut() {
                Some(count) => *count += n,
                None => self.batch.beyond.push(n),
            }
        }
    }

    /// Reports a violation at the front of the input.
    #[cold]
    pub fn tell(&mut self, rule: &'static RuleInfo, what: String) {
        self.find(|place| rule.broken(place, what));
    }

    /// Reports a finding at the front of the input.
    #[cold]
    pub fn find(&mut self, finding: impl FnOnce(Place) -> Finding) {
        let finding = finding(self.place(self.offset));
        self.found.add(finding);
    }

    /// Reports bytes at this offset that break a rule. If the rule is an error, they count as lost.
    #[cold]
    pub fn tell_bytes(&mut self, rule: &'static RuleInfo, offset: u64, n_bytes: u64, what: String) {
        self.tell_lost(rule, offset, (n_bytes, Amount::Unknown), what);
    }

    /// The same for bytes that would have been this many `records`.
    #[cold]
    pub fn tell_lost(
        &mut self,
        rule: &'static RuleInfo,
        offset: u64,
        (n_bytes, records): (u64, Amount),
        what: String,
    ) {
        let place = self.place(offset);
        let finding = rule.broken(place.clone(), what);
        self.found.add(match rule.severity {
            Severity::Error => {
                let bytes = Amount::Exactly(n_bytes);
                finding.losing(Loss { records, bytes, ..Loss::from(place) })
            }
            _ => finding,
        });
    }

    /// Reports lost bytes that are not records: from `start` to the front of the input, where reading continues if `resumes`.
    /// `records` is the number of records lost with them.
    #[cold]
    pub(crate) fn lose(
        &mut self,
        rule: &'static RuleInfo,
        start: u64,
        (records, resumes): (Amount, bool),
        what: String,
        carrier: Option<&CarrierDamage>,
    ) {
        let stopped = self.place(start);
        let resumed = Place { record: None, ..self.place(self.offset) };
        let loss = Loss {
            records,
            bytes: Amount::Exactly(self.offset - start),
            resumed: resumes.then_some(resumed),
            ..Loss::from(stopped.clone())
        };
        let finding = rule.broken(stopped, what).losing(loss);
        self.found.add(match carrier {
            Some(damage) => finding.by(damage),
            None => finding,
        });
    }

    /// A place at this offset and the next record.
    pub(crate) fn place(&self, offset: u64) -> Place {
        Place {
            file: Some(self.found.file.clone()),
            offset: Some(offset),
            record: Some(self.n_records()),
            ..Place::default()
        }
    }
}

/// Findings: the first violations of each rule individually, the rest counted.
#[derive(Debug, Default)]
pub(crate) struct Found {
    file: String,
    told_per_rule: u64,
    pub(crate) findings: Vec<Finding>,
    /// For each rule, the number of violations, and the finding that stands for those not reported individually.
    told: Vec<(Text, u64, Option<Finding>)>,
}

impl Found {
    #[cold]
    pub(crate) fn add(&mut self, finding: Finding) {
        let at = match self.told.iter().position(|(name, ..)| *name == finding.rule) {
            Some(at) => at,
            None => {
                self.told.push((finding.rule.clone(), 0, None));
                self.told.len() - 1
            }
        };
        let (_, count, rest) = &mut self.told[at];
        *count += 1;
        match rest {
            _ if *count < self.told_per_rule => self.findings.push(finding),
            Some(rest) => {
                rest.count += 1;
                // The losses of all of them are added up.
                match (&mut rest.loss, finding.loss) {
                    (Some(sum), Some(more)) => sum.add(*more),
                    (none @ None, more) => *none = more,
                    (Some(_), None) => {}
                }
            }
            None => *rest = Some(finding),
        }
    }

    /// Reports the findings that stand for others, at the end of the read.
    pub(crate) fn close(&mut self) {
        self.findings.extend(self.told.drain(..).filter_map(|(.., rest)| rest));
    }
}
