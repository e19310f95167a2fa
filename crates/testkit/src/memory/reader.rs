//! Reads a shard in memory, item by item, keeping every promise of the model in the simplest way.

use super::print::{Records, push_row};
use super::shard::{Instr, Item, MemoryShard, Record};
use quipu_model::lens::{AccessKind, CallEdge, NO_CODE, ThreadEvent, instr_flags};
use quipu_model::{
    Batch, Code, Columns, Error, Finding, Place, Reader, Result, Scan, Span, TableBuf, ThreadId, Window,
};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Number of bytes that each item pretends to take in the file.
pub(super) const ITEM_BYTES: u64 = 16;

pub(super) struct MemoryReader {
    shard: Arc<MemoryShard>,
    scan: Scan,
    at: Position,
    /// Index of the first item after the wanted ones.
    end: usize,
    /// The clock with which the next batch opens a segment although its first record is not a clock reading.
    opens: Option<u64>,
    codes: HashMap<Code, u32>,
    batch: Batch,
    over: bool,
}

/// The position of a walk over a shard: the state before the next item.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    item: usize,
    piece: u32,
    record: u64,
    instr: u64,
    thread: ThreadId,
    process: u64,
    clock: Option<u64>,
    cpu: Option<u64>,
    pc: u64,
}

impl Position {
    fn pass(&mut self, item: &Item) {
        self.item += 1;
        match item {
            Item::Record(record) => {
                self.record += 1;
                self.instr += u64::from(record.is_instr());
                self.clock = record.clock().or(self.clock);
                if let Record::Thread { what: ThreadEvent::Cpu, value } = record {
                    self.cpu = Some(*value);
                }
                if let Record::Instr(instr) = record {
                    self.pc = instr.pc;
                }
            }
            Item::Thread { thread, process } => (self.thread, self.process) = (*thread, *process),
            Item::Piece => self.piece += 1,
            Item::Finding(..) | Item::Fault(_) | Item::Crash(_) => {}
        }
    }
}

impl MemoryReader {
    pub(super) fn new(shard: Arc<MemoryShard>, scan: &Scan) -> Result<MemoryReader> {
        let pieces = scan.pieces.clone().unwrap_or(0..u32::MAX);
        if pieces.start > 0 && scan.window != Window::All {
            return Err(Error::usage("a range of pieces excludes a window"));
        }
        if scan.tables.iter().any(|table| *table > 0) {
            return Err(Error::usage("a trace in memory has one table"));
        }
        let mut at = Position::default();
        let mut begin = None;
        let mut end = shard.items.len();
        for item in &shard.items {
            let inside = at.piece >= pieces.start;
            if begin.is_none() && inside && is_begun(&scan.window, &at, item) {
                begin = Some(at);
            }
            if at.piece >= pieces.end || is_over(&scan.window, &at, item) {
                end = at.item;
                break;
            }
            if let Some(begin) = begin
                && matches!(item, Item::Record(_))
                && at.record - begin.record >= scan.most
            {
                end = at.item;
                break;
            }
            at.pass(item);
        }
        let at = begin.unwrap_or(Position { item: end, ..at });
        // Records before the first reading belong to the segment that the reading opens.
        let opens = match at.clock {
            None => shard.items.get(at.item..).unwrap_or(&[]).iter().find_map(reading),
            Some(_) => None,
        };
        let mut batch = Batch::default();
        batch.tables.extend(scan.tables.iter().map(|_| Box::new(Records::default()) as Box<dyn TableBuf>));
        Ok(MemoryReader {
            shard,
            scan: scan.clone(),
            at,
            end,
            opens,
            codes: HashMap::new(),
            batch,
            over: false,
        })
    }

    fn fill(&mut self) -> Result<()> {
        let shard = Arc::clone(&self.shard);
        self.batch.clear();
        self.batch.span = Span::default();
        while self.at.item < self.end && u64::from(self.batch.span.records) < self.batch_records() {
            if self.take(&shard.items[self.at.item])?.is_break() {
                break;
            }
        }
        self.batch.span.clock = self.at.clock.unwrap_or(0);
        self.batch.span.cpu = self.at.cpu;
        Ok(())
    }

    fn batch_records(&self) -> u64 {
        u64::from(self.scan.batch_records.max(1))
    }

    /// Adds one item to the batch, or leaves it for the next batch.
    fn take(&mut self, item: &Item) -> Result<ControlFlow<()>> {
        let begun = self.batch.span.records > 0;
        match item {
            Item::Thread { thread, .. } if begun && *thread != self.batch.span.thread => {
                return Ok(ControlFlow::Break(()));
            }
            Item::Fault(_) | Item::Crash(_) if begun || !self.batch.findings.is_empty() => {
                return Ok(ControlFlow::Break(()));
            }
            Item::Fault(message) => return Err(Error::malformed(message.clone()).at(&self.place())),
            Item::Crash(message) => panic!("{message}"),
            Item::Finding(severity, message) => self.batch.findings.push(Finding {
                rule: "memory/finding".into(),
                severity: *severity,
                place: self.place(),
                message: message.clone(),
                count: 1,
                loss: None,
                is_stated: false,
                doubtful_from: None,
            }),
            Item::Record(record) => {
                let reading = record.clock().filter(|_| self.scan.cut.clock && self.at.clock.is_some());
                if begun && (reading.is_some() || self.begins_interval(record)) {
                    return Ok(ControlFlow::Break(()));
                }
                if !begun {
                    self.begin(reading);
                }
                self.add(record);
            }
            Item::Thread { .. } | Item::Piece => {}
        }
        self.at.pass(item);
        Ok(ControlFlow::Continue(()))
    }

    /// True if batches end right before this record, which is an instruction.
    fn begins_interval(&self, record: &Record) -> bool {
        self.scan.cut.instrs.is_some_and(|n| record.is_instr() && self.at.instr.is_multiple_of(n.get()))
    }

    fn place(&self) -> Place {
        Place {
            offset: Some(self.at.item as u64 * ITEM_BYTES),
            record: Some(self.at.record),
            instr: Some(self.at.instr),
            ..Place::default()
        }
    }

    fn begin(&mut self, reading: Option<u64>) {
        let opens = self.opens.take().filter(|_| self.scan.cut.clock);
        self.batch.span = Span {
            shard: self.scan.shard.0,
            piece: self.at.piece,
            first_record: self.at.record,
            first_instr: self.at.instr,
            thread: self.at.thread,
            process: self.at.process,
            opens: reading.or(opens),
            offset: self.at.item as u64 * ITEM_BYTES,
            ..Span::default()
        };
    }

    fn add(&mut self, record: &Record) {
        let columns = self.scan.columns;
        let at = self.batch.span.records;
        self.batch.span.records += 1;
        self.batch.span.instrs += u32::from(record.is_instr());
        let code = match record {
            Record::Instr(instr) => self.code(instr),
            _ => NO_CODE,
        };
        for rows in self.batch.tables.iter_mut().filter_map(|table| table.get_mut::<Records>()) {
            push_row(rows, record, code);
        }
        match record {
            Record::Instr(instr) => self.add_instr(at, instr, code),
            Record::Access { kind, addr, size } => self.add_access(at, *kind, *addr, *size),
            Record::Thread { what, value } => {
                let column = match what {
                    ThreadEvent::Clock => Columns::THREAD_CLOCK,
                    ThreadEvent::Cpu => Columns::THREAD_CPU,
                    _ => Columns::THREADS,
                };
                if columns.has(column) {
                    self.batch.threads.at.push(at);
                    self.batch.threads.what.push(*what);
                    self.batch.threads.value.push(*value);
                }
            }
            Record::Mark { kind, value } if columns.has(Columns::MARKS) => {
                self.batch.marks.at.push(at);
                self.batch.marks.kind.push(*kind);
                self.batch.marks.value.push(*value);
                if columns.has(Columns::MARK_TEXT) {
                    self.batch.marks.text.push_empty(1);
                }
            }
            Record::Call { function, edge, values } if columns.has(Columns::CALLS) => {
                let calls = &mut self.batch.calls;
                let leave = *edge == CallEdge::Leave;
                calls.at.push(at + 1);
                calls.function.push(*function);
                calls.edge.push(*edge);
                calls.return_to.push(0);
                calls.result.push(values.first().copied().filter(|_| leave));
                calls.args.push(values.iter().filter(|_| !leave).copied());
            }
            Record::Mark { .. } | Record::Call { .. } => {}
        }
    }

    fn add_instr(&mut self, at: u32, instr: &Instr, code: u32) {
        let columns = self.scan.columns;
        if columns.has(Columns::ACCESS_FETCH) {
            self.at.pc = instr.pc;
            if instr.flags & instr_flags::NO_FETCH == 0 {
                self.add_access(at, AccessKind::Fetch, instr.pc, u32::from(instr.size));
            }
        }
        if !columns.has(Columns::INSTRS) {
            return;
        }
        let rows = &mut self.batch.instrs;
        rows.at.push(at);
        rows.pc.push(instr.pc);
        rows.size.push(instr.size);
        rows.flags.push(instr.flags);
        if columns.has(Columns::INSTR_CLASS) {
            rows.class.push(instr.class);
        }
        if columns.has(Columns::INSTR_TAKEN) {
            rows.taken.push(instr.taken);
        }
        if columns.has(Columns::INSTR_TARGET) {
            rows.target.push(instr.target);
        }
        if columns.has(Columns::INSTR_CODE) {
            rows.code.push(code);
        }
    }

    fn add_access(&mut self, at: u32, kind: AccessKind, addr: u64, size: u32) {
        if !self.scan.columns.has(Columns::ACCESSES) {
            return;
        }
        let rows = &mut self.batch.accesses;
        rows.at.push(at);
        rows.addr.push(addr);
        rows.size.push(size);
        rows.kind.push(kind);
        if self.scan.columns.has(Columns::ACCESS_PC) {
            rows.pc.push(self.at.pc);
        }
    }

    /// The instruction's index in the code table, if the scan wants it.
    fn code(&mut self, instr: &Instr) -> u32 {
        let wanted = self.scan.columns.has(Columns::INSTR_CODE) || !self.scan.tables.is_empty();
        if !wanted || instr.bytes.is_empty() {
            return NO_CODE;
        }
        let code = Code::new(instr.pc, instr.size, &instr.bytes);
        let table = &mut self.batch.codes;
        *self.codes.entry(code).or_insert_with(|| table.push(code))
    }
}

impl Reader for MemoryReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        if self.over {
            return Ok(None);
        }
        let filled = self.fill();
        let empty = self.batch.span.records == 0 && self.batch.findings.is_empty();
        self.over = filled.is_err() || empty;
        filled?;
        Ok(if empty { None } else { Some(&mut self.batch) })
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.scan.batch_records = records;
    }

    fn packed_bytes(&self) -> Option<u64> {
        Some(self.at.item as u64 * ITEM_BYTES)
    }
}

fn reading(item: &Item) -> Option<u64> {
    match item {
        Item::Record(record) => record.clock(),
        _ => None,
    }
}

/// True if the window begins at or before this item.
fn is_begun(window: &Window, at: &Position, item: &Item) -> bool {
    match window {
        Window::All => true,
        Window::Records(wanted) => at.record >= wanted.start,
        Window::Instrs(wanted) => wanted.start == 0 || at.instr >= wanted.start && is_instr(item),
        Window::Clock(wanted) => {
            wanted.start == 0 || reading(item).or(at.clock).is_some_and(|clock| clock >= wanted.start)
        }
    }
}

/// True if the window ends right before this item.
fn is_over(window: &Window, at: &Position, item: &Item) -> bool {
    match window {
        Window::All => false,
        Window::Records(wanted) => at.record >= wanted.end,
        Window::Instrs(wanted) => wanted.end <= at.instr && (is_instr(item) || wanted.is_empty()),
        Window::Clock(wanted) => reading(item).is_some_and(|clock| Window::ends_at_clock(wanted.end, clock)),
    }
}

fn is_instr(item: &Item) -> bool {
    matches!(item, Item::Record(record) if record.is_instr())
}
