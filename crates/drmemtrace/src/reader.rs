//! Sequential read of one file: blocks of bytes in, batches out.
//!
//! The reader owns the block, the state machine and the batch. A batch never spans blocks, so its raw bytes are a
//! slice of the block and nothing is copied.

mod cut;
mod findings;
mod gaps;
mod raw;
mod walk;

use crate::decode::{Interp, Limits, MAX_ORDINAL, Stop};
use crate::lens::Fill;
use crate::record::{ENTRY_BYTES, Entry, FileType, Marker, Type, of_workload};
use crate::table::{ENTRIES_TABLE, MEMREFS_TABLE, push_entries, table};
use crate::trace::File;
use crate::{widen, window};
use cut::Intervals;
use quipu_model::lens::ThreadEvent;
use quipu_model::{
    Batch, CodeTable, Columns, Cut, Finding, Found, Loss, Reader, Result, Scan, Severity, ThreadId, Window,
};
use quipu_source::{BlockAt, Stream};
use std::ops::Range;
use std::sync::Arc;
use walk::{Walk, window_limits};

/// Entries in a block if memory is ample: 192 KiB, which stays in level-2 cache.
const BLOCK_ENTRIES: usize = 16 * 1024;
/// Entries in a block when thousands of files are read at once.
const MIN_BLOCK_ENTRIES: usize = 512;

/// The reader of one scan.
pub struct EntryReader {
    file: Arc<File>,
    shard: u32,
    piece: u32,
    stream: Stream,
    narrow: Vec<u8>,
    /// Position of the current block in the file; `None` before the first.
    block: Option<BlockAt>,
    /// Number of bytes of the block that are used up.
    used: usize,
    interp: Interp,
    fill: Fill,
    batch: Batch,
    /// Position of `entries` and `memrefs` rows in the batch.
    entries_rows: Option<usize>,
    memrefs_rows: Option<usize>,
    columns: Columns,
    /// True if blocks are handed out without decoding.
    raw_only: bool,
    /// True if entries that belong to the next record stay with it; only needed if raw bytes are requested.
    keeps_lead: bool,
    /// Number of bytes before `used` that belong to the next record.
    lead: usize,
    /// The same bytes, from the end of the previous block.
    held: Vec<u8>,
    /// Bytes after the block with a repeated clock reading and processor, while their batch is lent.
    repeated: Option<Range<usize>>,
    /// Cuts of batches at instructions.
    intervals: Option<Intervals>,
    limits: Limits,
    /// Maximum number of records from the start of the window on.
    most: u64,
    walk: Walk,
    found: Found,
    /// Number of findings that were handed out.
    n_told: usize,
    last_entry: Option<Entry>,
    /// Offset of the end of the last entry that was read in the member.
    member_end: u64,
    /// Number of bytes after the last whole entry of the block.
    n_rest: usize,
    /// Members of this read.
    members: Range<usize>,
    /// Clock readings and instructions before the batch.
    clocks_before: u64,
    instrs_before: u64,
    /// True once a batch with records was handed out.
    opened: bool,
    /// True once a thread other than the file's own was reported.
    has_stranger: bool,
    /// True if nothing more is handed out, because of a limit or the end.
    done: bool,
    /// True if the caller sets one limit after the other and reading continues after each.
    resumes: bool,
    /// True at the end of the stream.
    ended: bool,
    /// The member whose rest is skipped.
    skipped: Option<u32>,
    /// Offset of nonsense in the skipped member, until it is reported.
    nonsense: Option<u64>,
    /// True if a gap right before the first member belongs to this read.
    tells_gap_before: bool,
    /// True if part of the input is lost.
    is_broken: bool,
    /// True if the reader only counts, for another reader that found damage.
    is_counting: bool,
    /// Records and instructions up to the first gap, for a reader that only counts.
    counted_before_gap: Option<(u64, u64)>,
    /// Records and instructions before the member being read.
    member_began: (u64, u64),
    /// The member and offset at which a reader that only counts stops.
    stop_at: Option<(u32, u64)>,
    /// Position at the gap that begins at `stop_at`.
    counted_at_stop: Option<gaps::Position>,
}

impl EntryReader {
    /// Prepares a read; nothing is read yet except to find the start of a window.
    pub fn new(file: Arc<File>, scan: &Scan) -> Result<EntryReader> {
        let n_pieces = file.pieces.len() as u32; // At most one for each half megabyte.
        let pieces = scan.pieces.clone().unwrap_or(0..n_pieces);
        let members = match (file.pieces.get(pieces.start as usize), pieces.end.checked_sub(1)) {
            (Some(first), Some(last)) if last < n_pieces => first.start..file.pieces[last as usize].end,
            _ => 0..0,
        };
        let (members, limits, walk) = match &scan.window {
            Window::All => (members, Limits::NONE, Walk::Done),
            window => {
                let start = window::start(&file, window)?;
                let (limits, walk) = window_limits(window);
                (start..members.end, limits, walk)
            }
        };
        let interp = gaps::interp_at(&file, members.start);
        // Whole groups, so that nonsense is found in the same places with blocks of any size.
        let n_entries = (scan.buffer_bytes / (4 * ENTRY_BYTES)).clamp(MIN_BLOCK_ENTRIES, BLOCK_ENTRIES);
        let n_entries = n_entries / gaps::GROUP_ENTRIES * gaps::GROUP_ENTRIES;
        let stream =
            file.container.stream(members.clone(), &window::stream_options(&file, scan, n_entries))?;
        let position = |table| scan.tables.iter().position(|wanted| *wanted == table);
        let memrefs_rows = position(MEMREFS_TABLE);
        let tables = scan.tables.iter().filter_map(|number| table(*number)).collect();
        Ok(EntryReader {
            shard: scan.shard.0,
            piece: pieces.start,
            stream,
            narrow: Vec::new(),
            block: None,
            used: 0,
            interp,
            fill: Fill::new(scan.columns, memrefs_rows.is_some(), scan.buffer_bytes),
            batch: Batch { tables, codes: CodeTable::sharing(scan.codes.clone()), ..Batch::default() },
            entries_rows: position(ENTRIES_TABLE),
            memrefs_rows,
            columns: scan.columns,
            raw_only: scan.columns == Columns::RAW
                && scan.tables.is_empty()
                && scan.window == Window::All
                && scan.most == u64::MAX
                && scan.cut == Cut::SIZE
                && !gaps::has_to_count(&file),
            limits: Limits {
                // After a walk, the caller sets the limit.
                records: if walk == Walk::Done { limits.records.min(scan.most) } else { limits.records },
                at_clock: scan.cut.clock,
                batch: u64::from(scan.batch_records.max(1)),
                ..limits
            },
            keeps_lead: scan.columns.has(Columns::RAW),
            lead: 0,
            held: Vec::new(),
            repeated: None,
            intervals: scan.cut.instrs.map(|every| Intervals::new(every, limits.instrs)),
            most: scan.most,
            walk,
            found: Found::default(),
            n_told: 0,
            last_entry: None,
            member_end: 0,
            n_rest: 0,
            members,
            clocks_before: 0,
            instrs_before: 0,
            opened: false,
            has_stranger: false,
            done: false,
            resumes: false,
            ended: false,
            skipped: None,
            nonsense: None,
            tells_gap_before: scan.window == Window::All,
            is_broken: false,
            is_counting: false,
            counted_before_gap: None,
            member_began: (0, 0),
            stop_at: None,
            counted_at_stop: None,
            file,
        })
    }

    /// Walks to right before the instruction with this ordinal, counted from 0, or to the end.
    pub(crate) fn walk_to_instr(&mut self, instr: u64) -> Result<()> {
        self.most = u64::MAX;
        self.walk = Walk::To { limits: Limits { instrs: instr, ..Limits::NONE }, repeat: false };
        self.walk().map(|_| ())
    }

    /// Makes the reader count records even if only raw entries are requested.
    pub(crate) fn counting(mut self) -> EntryReader {
        self.raw_only = false;
        self
    }

    /// Sets new limits: reads on to these ordinals of records and instructions, even if an earlier limit was reached.
    pub(crate) fn limit(&mut self, records: u64, instrs: u64) {
        self.limits = Limits { records, instrs, ..self.limits };
        self.resumes = true;
        self.done = self.ended;
    }

    /// Records and instructions that the reader has passed.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.interp.records, self.interp.instrs)
    }

    /// True once the last entry was read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.ended
    }

    /// Fetches the next block; false at the end of the stream.
    fn next_block(&mut self) -> Result<bool> {
        self.tell_rest();
        self.tell_nonsense();
        loop {
            let before = self.block;
            let next = if self.file.entry_bytes == ENTRY_BYTES {
                self.stream.next(&mut self.batch.block)
            } else {
                self.stream.next(&mut self.narrow)
            };
            match next {
                Ok(Some(at)) if self.skipped == Some(at.member) => {}
                // An empty member is ignored.
                Ok(Some(_)) if self.batch.block.is_empty() && self.narrow.is_empty() => {}
                Ok(Some(mut at)) => {
                    self.used = 0;
                    if self.file.entry_bytes != ENTRY_BYTES {
                        self.batch.block.clear();
                        let rest = widen::widen(&self.narrow, &mut self.batch.block);
                        // Keeps the length odd, so that a cut entry is detected below as in any other file.
                        self.batch.block.resize(self.batch.block.len() + rest, 0);
                    }
                    self.cut_nonsense(at);
                    self.cut_where_counting_stops(at);
                    if self.file.workload > 0 {
                        name_workload(&mut self.batch.block, self.file.workload);
                    }
                    if before.is_none_or(|before| before.member != at.member) {
                        self.enter_member(before, at);
                        self.held.clear();
                        self.member_began = (self.interp.records, self.interp.instrs);
                    }
                    self.prepend_held(&mut at);
                    self.block = Some(at);
                    self.look_at_block();
                    return Ok(true);
                }
                Ok(None) => {
                    self.end_of_stream();
                    self.drop_block();
                    return Ok(false);
                }
                Err(error) => {
                    self.drop_block();
                    self.damaged(&error)?;
                }
            }
        }
    }

    /// Clears the block, which is invalid after an error or the end.
    fn drop_block(&mut self) {
        self.batch.block.clear();
        self.used = 0;
    }

    /// Checks the border between two members.
    fn enter_member(&mut self, before: Option<BlockAt>, at: BlockAt) {
        let is_template = self.interp.filetype.any(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES);
        let is_after_gap = self.file.n_missing_before(at.member) > 0;
        let ordinal = Entry::slice(&self.batch.block).0.first();
        let ordinal = ordinal.filter(|first| first.is_marker(Marker::RECORD_ORDINAL));
        let ordinal = ordinal.map(|first| first.addr.get()).filter(|ordinal| *ordinal < MAX_ORDINAL);
        if let (Some(before), Some(last)) = (before, self.last_entry)
            && !is_template
            && !is_after_gap
        {
            match ends_a_chunk(&last) {
                true => self.compare_seam(before.member, at.member, ordinal),
                false => self.lose_end_of_chunk(before.member, at.member, ordinal),
            }
        }
        if is_after_gap && (before.is_some() || self.tells_gap_before) {
            self.lose_chunks_before(at.member);
        } else if before.is_none_or(|before| at.member > before.member + 1)
            && at.member as usize != self.members.start
        {
            self.interp.resume_after_gap(self.instrs_before(at.member));
        }
        if let (None, Some(ordinal), true) = (before, ordinal, self.compares_pieces()) {
            self.file.seams.begin_at(at.member, ordinal);
        }
        self.last_entry = None;
    }

    /// Instructions before a member, where chunks have a known size.
    fn instrs_before(&self, member: u32) -> Option<u64> {
        // Raw entries are handed out without decoding.
        let chunk = if self.raw_only { self.file.header.chunk_instrs } else { self.interp.chunk_instrs };
        if chunk == 0 { None } else { self.file.chunk_number(member).checked_mul(chunk) }
    }

    /// Checks of bytes rather than records: a cut entry, the last entry of a member.
    fn look_at_block(&mut self) {
        let n_bytes = self.batch.block.len() / ENTRY_BYTES * self.file.entry_bytes;
        self.member_end = self.block.map_or(0, |block| block.offset) + n_bytes as u64;
        let (n_entries, rest) = {
            let (entries, rest) = Entry::slice(&self.batch.block);
            if let Some(last) = entries.last() {
                self.last_entry = Some(*last);
            }
            (entries.len(), rest.len())
        };
        if rest != 0 {
            self.n_rest = rest;
            self.batch.block.truncate(n_entries * ENTRY_BYTES);
        }
    }

    fn end_of_stream(&mut self) {
        self.done = true;
        self.ended = true;
        let whole = self.members.end >= self.file.container.members().len();
        // Templates in an archive are sequences of their own, without the frame of a trace.
        let is_template = self.interp.filetype.any(FileType::KERNEL_SYSCALL_TRACE_TEMPLATES)
            && self.file.container.members().len() > 1;
        let ends_well = match self.last_entry {
            Some(last) if whole => last.kind() == Type::FOOTER,
            Some(last) => ends_a_chunk(&last),
            // Nothing was read at all, or damage was already reported.
            None => self.is_broken || !self.found.is_empty() || is_template,
        };
        if is_template {
            return;
        }
        if whole && !ends_well {
            // Empty members may follow the block.
            let place = match self.block {
                Some(block) => self.place_in(block.member, self.member_end),
                None => self.place(0),
            };
            let message = "the trace ends without a footer".to_owned();
            let finding = Finding::new("drmemtrace/no-footer", Severity::Error, place.clone(), message);
            // The amount that is missing at the end is unknown.
            self.found.push(finding.losing(Loss::from(place)));
        } else if !whole && (self.last_entry.is_some() || !ends_well) {
            self.end_piece(self.block.unwrap_or(NOWHERE).member, ends_well);
        }
    }

    /// Fills the batch with the next records. False at the end.
    fn read_records(&mut self) -> Result<bool> {
        if self.walk != Walk::Done {
            if self.done || !self.walk()? {
                return Ok(self.finish_without_records());
            }
            if self.interp.batch_len() > 0 {
                self.tell_stranger(self.used);
                self.finish_batch(self.used);
                return Ok(true);
            }
        }
        loop {
            if self.done {
                return Ok(self.finish_without_records());
            }
            let is_end =
                self.used >= self.batch.block.len() && !self.interp.has_waiting() && !self.next_block()?;
            // A stream that ends inside its header has no thread to deliver its markers for; the missing footer is reported.
            let start = self.used;
            let stop = self.fill_batch(start, is_end);
            let is_over = match stop {
                Stop::Records => self.interp.records >= self.limits.records,
                Stop::Instrs => !self.begin_interval(),
                Stop::ClockLimit => true,
                Stop::End => is_end,
                Stop::Thread | Stop::Process | Stop::Clock => false,
            };
            self.done = is_over;
            let wants_hidden = self.entries_rows.is_some() || self.columns.has(Columns::RAW);
            let has_hidden = wants_hidden && self.used > start;
            if self.interp.batch_len() > 0 || has_hidden || !self.batch.calls.is_empty() {
                self.finish_batch(start);
                return Ok(true);
            }
        }
    }

    /// Runs the state machine over the rest of the block until the batch is full.
    fn fill_batch(&mut self, start: usize, is_end: bool) -> Stop {
        self.interp.begin_batch();
        self.instrs_before = self.interp.instrs;
        self.clocks_before = self.interp.n_timestamps;
        if let Some(intervals) = &mut self.intervals {
            self.limits.instrs = intervals.limit(self.interp.instrs);
        }
        // The block is moved out while the batch is being filled, because the sink holds the batch.
        let block = std::mem::take(&mut self.batch.block);
        let entries = Entry::slice(block.get(start..).unwrap_or(&[])).0;
        let mut filling = self.fill.into_batch(&mut self.batch, self.memrefs_rows);
        let (n, stop) = self.interp.run(entries, &self.limits, &mut filling);
        if matches!(stop, Stop::Thread | Stop::Clock | Stop::ClockLimit) || (is_end && stop == Stop::End) {
            // No value can follow for a call that is still open. Before a clock reading other threads may get their turn,
            // and the call comes before their records.
            filling.end_call_here(&self.interp);
        }
        drop(filling);
        if let Some(rows) = self.entries_rows {
            push_entries(&entries[..n], &mut *self.batch.tables[rows]);
        }
        self.batch.block = block;
        self.used += n * ENTRY_BYTES;
        // It is at the start of the batch, so it comes before the findings within the batch.
        self.tell_stranger(start);
        self.place_findings(start);
        stop
    }

    /// Makes the batch one that holds findings only; false if there are none.
    fn finish_without_records(&mut self) -> bool {
        let span = &mut self.batch.span;
        span.first_record = self.interp.records;
        span.first_instr = self.interp.instrs;
        (span.records, span.instrs, span.opens) = (0, 0, None);
        self.batch.raw = 0..0;
        self.hand_out_findings();
        !self.batch.findings.is_empty()
    }

    /// Sets the span of the batch.
    fn finish_batch(&mut self, start: usize) {
        let block = self.block.unwrap_or(NOWHERE);
        let interp = &self.interp;
        if interp.batch_starts_thread && self.columns.has(Columns::THREADS) && interp.batch_len() > 0 {
            let threads = &mut self.batch.threads;
            threads.at.insert(0, 0);
            threads.what.insert(0, ThreadEvent::Start);
            threads.value.insert(0, interp.batch_pid);
        }
        let span = &mut self.batch.span;
        span.shard = self.shard;
        span.piece = self.piece;
        span.first_instr = self.instrs_before;
        span.instrs = (interp.instrs - self.instrs_before) as u32; // Bounded by the batch size.
        span.opens = (self.limits.at_clock && (interp.n_timestamps > self.clocks_before || !self.opened))
            .then_some(interp.timestamp);
        self.opened |= interp.batch_len() > 0;
        span.first_record = interp.batch_start;
        span.records = interp.batch_len() as u32; // Bounded by the batch size.
        span.thread = ThreadId::from_packed(interp.batch_tid);
        span.process = interp.batch_pid;
        span.cpu = (interp.cpu != u64::MAX).then_some(interp.cpu);
        span.clock = interp.timestamp;
        span.offset = block.offset + (start / ENTRY_BYTES * self.file.entry_bytes) as u64;
        span.member = block.member;
        self.batch.raw = match &self.repeated {
            Some(repeated) => repeated.clone(),
            None if self.keeps_lead => {
                let raw = self.keep_lead(start);
                // Entries of the first record may precede the batch's own entries.
                let lead = start.saturating_sub(raw.start) / ENTRY_BYTES * self.file.entry_bytes;
                self.batch.span.offset = self.batch.span.offset.saturating_sub(lead as u64);
                raw
            }
            None => 0..0,
        };
        self.hand_out_findings();
    }
}

/// Adds the workload to the thread ids in entries.
fn name_workload(block: &mut [u8], workload: u16) {
    for bytes in block.chunks_exact_mut(ENTRY_BYTES) {
        let Some(entry) = Entry::slice(bytes).0.first() else { return };
        if matches!(entry.kind(), Type::THREAD | Type::THREAD_EXIT) {
            let tid = of_workload(workload, entry.addr.get());
            bytes[ENTRY_BYTES - size_of::<u64>()..].copy_from_slice(&tid.to_le_bytes());
        }
    }
}

/// The position before the first block.
const NOWHERE: BlockAt = BlockAt { member: 0, offset: 0, last: false };

fn ends_a_chunk(entry: &Entry) -> bool {
    entry.kind() == Type::FOOTER
        || (entry.kind() == Type::MARKER && entry.size.get() == Marker::CHUNK_FOOTER.0)
}

impl Reader for EntryReader {
    fn read(&mut self) -> Result<Option<&mut Batch>> {
        self.batch.clear();
        if let Some(repeated) = self.repeated.take() {
            self.batch.block.truncate(repeated.start);
        }
        let more = if self.raw_only { self.read_raw()? } else { self.read_records()? };
        Ok(more.then_some(&mut self.batch))
    }

    fn batch(&mut self) -> &mut Batch {
        &mut self.batch
    }

    fn limit_records(&mut self, records: u32) {
        self.limits.batch = records.max(1).into();
    }

    fn packed_bytes(&self) -> Option<u64> {
        let members = self.file.container.members();
        let (first, block) = (members.get(self.members.start)?, self.block?);
        let member = members.get(block.member as usize)?;
        let (packed_len, len) = (member.packed_len?, member.len.filter(|len| *len > 0)?);
        let within = u128::from(packed_len) * u128::from(block.offset.min(len)) / u128::from(len);
        let before = member.packed_at.saturating_sub(first.packed_at);
        Some(before.saturating_add(u64::try_from(within).unwrap_or(u64::MAX)))
    }
}
