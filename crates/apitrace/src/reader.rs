//! Reads calls sequentially: takes events and delivers batches of calls.

use crate::decode::skim::Skimmer;
use crate::decode::{Decoder, Event};
use crate::feed::{Feed, Storing};
use crate::index::Start;
use crate::lens::Lenses;
use crate::record::END_FRAME;
use crate::table::learned::FunctionTable;
use crate::table::{Fill, Firsts};
use quipu_model::batch::Span;
use quipu_model::values::Values;
use quipu_model::{Batch, Columns, Error, Reader, Result, Scan, Window};
use quipu_source::Container;

/// A batch ends when its values take this many bytes, however few calls it has.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// A sequential read of calls.
#[derive(Debug)]
pub struct CallReader {
    feed: Feed,
    decoder: Option<Decoder>,
    /// The place to begin at, before the first read.
    start: Option<Start>,
    batch: Batch,
    columns: Columns,
    batch_records: usize,
    /// The range of records to deliver.
    wanted: std::ops::Range<u64>,
    lenses: Lenses,
    fill: Fill,
    /// Number of records delivered or skipped so far.
    n_records: u64,
    /// Number of frames that have ended.
    n_frames: u64,
    /// Offset in the stream of the end of the last call.
    last_end: u64,
    /// A call of another thread than the batch before it; it begins the next batch.
    held: Option<Values>,
    /// The error that the next read returns.
    fault: Option<Error>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was read yet.
    Fresh,
    /// There may be more events.
    Reading,
    /// The data has ended; open calls remain.
    Ending,
    Over,
}

impl CallReader {
    /// Creates a reader from the beginning of the stream.
    ///
    /// # Errors
    /// `Usage` for windows in units that the format does not have.
    pub fn new(container: &Container, scan: &Scan) -> Result<CallReader> {
        CallReader::from(container, scan, None)
    }

    /// Like [`CallReader::new`], but begins at `start`, which is at or before the first wanted record.
    ///
    /// # Errors
    /// Those of [`CallReader::new`].
    pub fn from(container: &Container, scan: &Scan, start: Option<Start>) -> Result<CallReader> {
        let wanted = match &scan.window {
            Window::All => 0..u64::MAX,
            Window::Records(range) => range.clone(),
            Window::Instrs(_) => {
                return Err(Error::usage("traces of calls have no instructions to count"));
            }
            Window::Clock(_) => return Err(Error::usage("traces of format apitrace have no clock")),
        };
        let wanted = wanted.start..wanted.end.min(wanted.start.saturating_add(scan.most));
        let (fill, tables) = Fill::new(&scan.tables, &[]);
        Ok(CallReader {
            feed: match &start {
                Some(start) => start.feed(container, &scan.stream())?,
                None => Feed::new(container, &scan.stream())?,
            },
            decoder: None,
            start,
            batch: Batch { tables, ..Batch::default() },
            columns: scan.columns,
            batch_records: scan.batch_records.max(1) as usize,
            state: if wanted.is_empty() { State::Over } else { State::Fresh },
            wanted,
            lenses: Lenses::default(),
            fill,
            n_records: 0,
            n_frames: 0,
            last_end: 0,
            held: None,
            fault: None,
        })
    }

    /// Sets the tables to fill, including `learned` ones. To be called before the first read.
    pub fn filling(mut self, tables: &[usize], learned: &[FunctionTable]) -> CallReader {
        (self.fill, self.batch.tables) = Fill::new(tables, learned);
        self
    }

    /// Reads the header, and skips records before the window without decoding values.
    ///
    /// # Errors
    /// If data before the first wanted record is damaged.
    fn begin(&mut self) -> Result<()> {
        self.state = State::Over;
        if !self.feed.begin()? {
            return Ok(());
        }
        let mut skimmer = match self.start.take() {
            Some(start) => {
                (self.n_records, self.n_frames) = (start.n_records, start.n_frames);
                self.last_end = self.feed.offset();
                start.skimmer
            }
            None => Skimmer::new(self.feed.header()).keeping(),
        };
        while self.n_records < self.wanted.start {
            match self.feed.next(&mut skimmer)? {
                Some(Some(call)) => {
                    self.last_end = self.feed.offset();
                    self.n_records += 1;
                    self.n_frames += u64::from(call.flags & END_FRAME != 0);
                }
                Some(None) => {}
                None => break,
            }
        }
        // The buffered bytes stay, but offsets into them become invalid.
        let kept = skimmer.leave_block(self.feed.at_hand()).and_then(|()| Decoder::take_over(skimmer));
        let (decoder, types) = kept.map_err(|n_bytes| self.feed.too_much_pending(n_bytes))?;
        self.decoder = Some(decoder);
        self.batch.types = types;
        self.state = State::Reading;
        Ok(())
    }

    /// Collects calls of one thread until the batch is full or the data ends.
    fn collect(&mut self) {
        self.batch.clear();
        if let Some(held) = self.held.take() {
            let values = &mut self.batch.values;
            if let Some(call) = held.calls.first() {
                let call = held.copy_call(call, values);
                values.calls.push(call);
            }
        }
        while self.has_room() && self.held.is_none() {
            match self.state {
                State::Fresh => {
                    if let Err(error) = self.begin() {
                        self.fault = Some(error);
                        break;
                    }
                }
                State::Reading => {
                    let Some(decoder) = &mut self.decoder else { break };
                    let Batch { values, types, .. } = &mut self.batch;
                    let n_before = self.n_records;
                    match self.feed.next(&mut Storing { decoder, out: values, types, n_before }) {
                        Ok(Some(Event::Left)) => {
                            let at = self.feed.offset();
                            if let Some(call) = self.batch.values.calls.last_mut() {
                                call.stream_bytes = at - std::mem::replace(&mut self.last_end, at);
                            }
                            self.hold();
                        }
                        Ok(Some(_)) => {}
                        Ok(None) => self.state = State::Ending,
                        Err(error) => {
                            self.fault = Some(error);
                            break;
                        }
                    }
                }
                State::Ending => {
                    let values = &mut self.batch.values;
                    let n_calls = values.calls.len();
                    if let Some(decoder) = &mut self.decoder {
                        decoder.deliver_pending(values, n_calls + 1);
                    }
                    if values.calls.len() == n_calls {
                        self.state = State::Over;
                        break;
                    }
                    self.hold();
                }
                State::Over => break,
            }
        }
        // The caller may take the values out of the batch.
        let parked = self.decoder.as_mut().map_or(Ok(()), |decoder| decoder.park(&self.batch.values));
        if let Err(n_bytes) = parked {
            let error = self.feed.too_much_pending(n_bytes);
            self.fault.get_or_insert(error);
        }
        self.batch.findings = self.feed.take_findings();
    }

    fn has_room(&self) -> bool {
        let values = &self.batch.values;
        values.calls.len() < self.batch_records
            && values.bytes.len() + 16 * values.nodes.len() + 8 * values.args.len() < MAX_BATCH_BYTES
    }

    /// Removes the last call from the batch and holds it back, if it belongs to another thread.
    fn hold(&mut self) {
        let values = &mut self.batch.values;
        let (Some(first), Some(last)) = (values.calls.first(), values.calls.last()) else { return };
        if first.thread != last.thread {
            let mut held = Values::default();
            let call = values.copy_call(last, &mut held);
            held.calls.push(call);
            values.calls.pop();
            self.held = Some(held);
        }
    }

    /// Completes the batch with the collected calls that are wanted; false if there are none.
    fn finish(&mut self) -> bool {
        let calls = &mut self.batch.values.calls;
        let n_skipped = self.wanted.start.saturating_sub(self.n_records).min(calls.len() as u64);
        let ends_frame = |call: &quipu_model::values::Call| u64::from(call.flags & END_FRAME != 0);
        if n_skipped > 0 {
            let skipped = calls.drain(..n_skipped as usize); // At most `calls.len()`.
            self.n_frames += skipped.map(|call| ends_frame(&call)).sum::<u64>();
        }
        let first_record = self.n_records + n_skipped;
        let n_left = usize::try_from(self.wanted.end.saturating_sub(first_record)).unwrap_or(usize::MAX);
        calls.truncate(n_left);
        let n_calls = calls.len() as u64;
        self.n_records = first_record + n_calls;
        let first_frame = self.n_frames;
        self.n_frames += calls.iter().map(ends_frame).sum::<u64>();
        self.batch.span = Span {
            first_record,
            records: n_calls as u32, // At most as many as a batch may have.
            thread: calls.first().map_or(0, |call| call.thread).into(),
            offset: self.feed.offset(),
            ..Span::default()
        };
        if self.columns.any(Columns::CALLS | Columns::THREADS | Columns::MARKS) {
            self.lenses.fill(self.columns, first_frame, &mut self.batch);
        }
        let Batch { values, types, dicts, tables, .. } = &mut self.batch;
        let firsts = Firsts { record: first_record, frame: first_frame };
        self.fill.fill(values, types, firsts, dicts, tables);
        n_calls > 0 || !self.batch.findings.is_empty()
    }
}

impl Reader for CallReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        loop {
            if let Some(error) = self.fault.take() {
                self.state = State::Over;
                self.batch.clear();
                let place = quipu_model::Place { record: Some(self.n_records), ..Default::default() };
                return Err(error.at(&place));
            }
            if self.n_records >= self.wanted.end || (self.state == State::Over && self.held.is_none()) {
                self.batch.clear();
                return Ok(None);
            }
            self.collect();
            if self.finish() {
                return Ok(Some(&mut self.batch));
            }
        }
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.batch_records = records.max(1) as usize;
    }
}
