//! All cores as one sequence of records: those of each step, one after the other.
//!
//! A record is appended to the sequence at its core's turn, so the sequence of one core equals that core, and with several
//! busy cores adjacent records are of different threads. Ordinals count along the sequence. An idle core has rows but no
//! records: its rows have the ordinals of the previous record.

use super::clock::CoreClock;
use super::copy::rows_of_next;
use super::lane::Lanes;
use super::rounds::Codes;
use super::state::{Dispatcher, Heads, Step};
use quipu_model::lens::ThreadEvent;
use quipu_model::trace::{CoreForm, CoreRow};
use quipu_model::{Batch, Columns, Reader, Result, Span, ThreadId};
use std::ops::Range;

/// Upper limit on the rows in a batch.
const MAX_ROWS: u32 = 1024;

/// A read of the sequence.
pub(super) struct SequenceReader {
    dispatcher: Dispatcher,
    lanes: Lanes,
    form: &'static dyn CoreForm,
    /// The clock of each core.
    clocks: Vec<CoreClock>,
    codes: Codes,
    /// Records to deliver, as a range of the sequence.
    wanted: Range<u64>,
    records: u64,
    instrs: u64,
    /// Number of rows in the batch.
    n_rows: u32,
    /// Maximum number of rows in a batch.
    most_rows: u32,
    /// The core that had the last turn.
    core: usize,
    /// A step of that core that belongs to the next batch.
    pending: Option<Step>,
    is_over: bool,
    batch: Batch,
}

impl SequenceReader {
    pub(super) fn new(
        dispatcher: Dispatcher,
        mut lanes: Lanes,
        form: &'static dyn CoreForm,
        wanted: Range<u64>,
    ) -> SequenceReader {
        SequenceReader {
            clocks: vec![CoreClock::default(); dispatcher.cores.len()],
            dispatcher,
            form,
            codes: Codes::default(),
            wanted,
            records: 0,
            instrs: 0,
            n_rows: 0,
            most_rows: MAX_ROWS,
            core: 0,
            pending: None,
            is_over: false,
            batch: Batch { tables: lanes.fresh_tables(), ..Batch::default() },
            lanes,
        }
    }

    /// The next step. QUIRK: DynamoRIO begins with the second core.
    fn next_step(&mut self) -> Step {
        self.pending.take().unwrap_or_else(|| {
            self.core = (self.core + 1) % self.clocks.len();
            self.dispatcher.step(self.core, &mut self.lanes)
        })
    }

    /// Adds a core's step to the batch; false if it belongs to the next batch.
    fn take(&mut self, step: Step) -> Result<bool> {
        match step {
            Step::Rest => self.rest(),
            Step::Run(thread) => Ok(self.run(thread)),
            Step::Over => {
                self.is_over = true;
                Ok(false)
            }
        }
    }

    fn rest(&mut self) -> Result<bool> {
        if self.n_rows > 0 && !self.batch.span.thread.is_idle() {
            return Ok(false);
        }
        // A skip of records ends with the last record that it leaves out, and not with the idle rows after it.
        if self.wanted.start > 0 && self.records <= self.wanted.start {
            return Ok(true);
        }
        if self.n_rows == 0 {
            self.batch.span = Span { thread: ThreadId::IDLE, ..self.span() };
        }
        let at = CoreRow { record: self.records, instr: self.instrs, core: self.core as u64, clock: None };
        for rows in &mut self.batch.tables {
            self.form.rest_row(&mut **rows, at)?;
        }
        self.n_rows += 1;
        Ok(true)
    }

    fn run(&mut self, thread: usize) -> bool {
        let Some(head) = self.lanes.head(thread) else { return true };
        let span = self.span();
        let Some((theirs, _)) = self.lanes.batch(thread) else { return true };
        let whose = (theirs.span.thread, theirs.span.process);
        if self.n_rows > 0 && (self.batch.span.thread, self.batch.span.process) != whose {
            return false;
        }
        let clock = match head.event {
            Some((ThreadEvent::Clock, ticks)) => {
                self.lanes.set_clock(thread, head.clock);
                Some(self.clocks[self.core].read(ticks, self.core, &self.dispatcher, &self.lanes))
            }
            _ => None,
        };
        let Some((theirs, cursor)) = self.lanes.batch(thread) else { return true };
        let n_records = theirs.span.records;
        // Rows that a skip repeats are not counted; DynamoRIO treats them as synthetic.
        let is_repeated = theirs.tables.first().is_some_and(|rows| rows.n_rows() > n_records as usize);
        let is_wanted = self.records >= self.wanted.start;
        if is_wanted && self.n_rows == 0 {
            self.batch.span = Span { thread: whose.0, process: whose.1, ..span };
        }
        self.codes.learn(thread, theirs);
        self.records += u64::from(!is_repeated);
        self.instrs += u64::from(head.is_instr);
        if is_wanted {
            let at = CoreRow { record: self.records, instr: self.instrs, core: self.core as u64, clock };
            for (rows, theirs) in self.batch.tables.iter_mut().zip(&theirs.tables) {
                let range = rows_of_next(cursor, &**theirs, n_records);
                let n = range.len();
                rows.extend_rows(&**theirs, range, &|code| self.codes.name(thread, code));
                self.form.adopt_rows(&mut **rows, n, at);
            }
            let span = &mut self.batch.span;
            span.records += u32::from(!is_repeated);
            span.instrs += u32::from(head.is_instr);
            self.n_rows += 1;
        }
        theirs.copy_records(cursor, 1, &mut Batch::default(), Columns::NONE, |code| code);
        true
    }

    /// The span of an empty batch at the current position of the sequence.
    fn span(&self) -> Span {
        Span { first_record: self.records, first_instr: self.instrs, ..Span::default() }
    }
}

impl Reader for SequenceReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        if let Some(error) = self.lanes.errors.pop_front() {
            return Err(error);
        }
        self.codes.table = std::mem::take(&mut self.batch.codes);
        self.batch.clear();
        self.batch.span = self.span();
        self.n_rows = 0;
        while !self.is_over && self.records < self.wanted.end && self.n_rows < self.most_rows {
            let step = self.next_step();
            if !self.take(step)? {
                self.pending = Some(step);
                break;
            }
        }
        self.batch.codes = std::mem::take(&mut self.codes.table);
        self.batch.findings.append(&mut self.lanes.findings);
        let is_empty = self.n_rows == 0 && self.batch.findings.is_empty();
        match self.lanes.errors.pop_front() {
            Some(error) if is_empty => Err(error),
            Some(error) => {
                self.lanes.errors.push_front(error);
                Ok(Some(&mut self.batch))
            }
            None => Ok((!is_empty).then_some(&mut self.batch)),
        }
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.most_rows = records.clamp(1, MAX_ROWS);
    }

    fn packed_bytes(&self) -> Option<u64> {
        Some(self.lanes.packed_bytes())
    }
}
