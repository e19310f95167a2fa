//! One source file, and the output that each of its entries goes to.

use super::Sharding;
use super::encodings::OfFile;
use super::output::Outputs;
use crate::kernel::Regions;
use crate::record::{Entry, Marker, Type};
use crate::seams::{Comparer, Repeats};
use crate::trace::{DrmemTrace, File};
use crate::write::frames::is_of_header;
use crate::write::known::Space;
use crate::write::{Feed, Taken, chunks};
use quipu_model::Result;
use quipu_model::damaged::{Intake, SoFar};
use quipu_model::transform::Progress;
use std::sync::Arc;

/// Number of entries that are searched for the processor after a clock reading.
const LOOK_AHEAD: usize = 8;
/// Number of entries that are copied from the reader at a time; with thousands of files, each holds this many.
const FEW: usize = 64;
/// More entries than this are not kernel code of a switch.
const MAX_HELD: usize = 1 << 16;
/// More entries than this before one instruction are not its encoding and branch target.
const MAX_GROUP: usize = 64;

/// State of kernel code of a switch that comes before the header of the thread that it switches to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// There is none.
    Nothing,
    /// It is being read.
    Switch,
    /// It has ended.
    Behind,
    /// The header is being read, up to the first processor.
    Header,
}

/// One source file.
pub(super) struct Input {
    /// `None` once it has ended.
    feed: Option<Feed>,
    /// The file, whose chunks are compared with the counts.
    file: Option<Arc<File>>,
    comparer: Comparer,
    /// Buffered entries, without those that only chunks need; those before `next` are done.
    entries: Vec<Entry>,
    next: usize,
    /// Number of entries of the reader's current part that were copied to `entries`.
    n_taken: usize,
    repeats: Repeats,
    /// True if the file begins with a later chunk than its first, so that the repeated values are nowhere else.
    wants_copies: bool,
    codes: OfFile,
    /// Encoding and branch target of the next instruction.
    group: Vec<Entry>,
    pub(super) tid: u64,
    pub(super) pid: u64,
    /// The markers of the header, in their order, up to the first clock reading of each thread.
    pub(super) header: Vec<Entry>,
    in_header: bool,
    /// True if the header is that of all threads.
    shares_header: bool,
    pub(super) cpu: Option<u64>,
    time: u64,
    pub(super) taken: Taken,
    /// Kernel regions that are open.
    regions: Regions,
    /// Kernel code that is held until the header that follows it.
    held: Vec<Entry>,
    hold: Hold,
    /// The thread of the last entry and the output that it went to.
    pub(super) last: Option<(u64, u64)>,
    /// The outputs that entries of the current chunk went to, with the number of records that they had before.
    pub(super) marks: Vec<(u64, u64)>,
    /// The current chunk.
    member: u32,
}

impl Input {
    pub(super) fn new(trace: &DrmemTrace, shard: usize) -> Result<Input> {
        let header = trace.files().get(shard).map(|file| &file.header);
        let lacks_header = trace.files().get(shard).is_some_and(|file| file.first_chunk() > 0);
        let chunk_instrs = header.filter(|_| lacks_header).map(|header| header.chunk_instrs);
        Ok(Input {
            feed: Some(Feed::among(trace, shard, trace.files().len())?),
            comparer: trace.files().get(shard).map(|file| Comparer::of(file)).unwrap_or_default(),
            file: trace.files().get(shard).cloned(),
            entries: Vec::new(),
            next: 0,
            n_taken: 0,
            repeats: Repeats::default(),
            wants_copies: lacks_header,
            codes: OfFile::new(header.map_or(0, |header| header.pid)),
            group: Vec::new(),
            tid: 0,
            pid: 0,
            // The known part of a missing header.
            header: chunk_instrs.map(|n| Entry::marker(Marker::CHUNK_INSTR_COUNT, n)).into_iter().collect(),
            in_header: !lacks_header,
            shares_header: header.is_some_and(|header| header.is_mixed),
            cpu: None,
            time: 0,
            taken: Taken::default(),
            regions: Regions::default(),
            held: Vec::new(),
            hold: Hold::Nothing,
            last: None,
            marks: Vec::new(),
            member: 0,
        })
    }

    pub(super) fn is_done(&self) -> bool {
        self.feed.is_none() && self.next >= self.entries.len()
    }

    /// Ensures that some entries are buffered, if there are any left.
    pub(super) fn fill(
        &mut self,
        outputs: &mut Outputs<'_>,
        progress: &dyn Progress,
        intake: &mut Intake,
    ) -> Result<()> {
        while self.entries.len() - self.next < LOOK_AHEAD
            && let Some(feed) = &mut self.feed
        {
            self.entries.drain(..self.next);
            self.next = 0;
            let mut n_present = feed.present().len();
            if self.n_taken >= n_present {
                self.n_taken = 0;
                let next = feed.next(progress, SoFar::default(), intake)?.map(|part| {
                    self.comparer.begin(&part);
                    (part.entries.len(), part.member)
                });
                outputs.note_damage(intake, &self.marks);
                if let Some((_, member)) = next.filter(|(_, member)| *member != self.member) {
                    self.member = member;
                    self.marks.clear();
                    // The next entry notes the position of its output.
                    self.last = None;
                }
                n_present = match next {
                    Some((n_entries, _)) => n_entries,
                    None => {
                        // Other files may continue for long: this one needs no memory any more.
                        self.feed = None;
                        return Ok(());
                    }
                };
                self.taken.read.entries += n_present as u64;
            }
            let end = n_present.min(self.n_taken + FEW);
            for entry in &feed.present()[self.n_taken..end] {
                if entry.is_marker(Marker::RECORD_ORDINAL)
                    && let Some(file) = &self.file
                {
                    self.comparer.meet(&file.seams, entry.addr.get(), self.taken.read.records);
                }
                if matches!(entry.kind(), Type::THREAD | Type::THREAD_EXIT)
                    && let Some(file) = &self.file
                {
                    file.meet_thread(entry.addr.get());
                }
                if self.wants_copies && self.repeats.is_open() && is_clock(entry) {
                    // It is not counted by readers of the source, but by readers of the output.
                    self.wants_copies = !entry.is_marker(Marker::CPU_ID);
                    self.repeats.is_copy(Marker(entry.size.get()));
                    self.entries.push(*entry);
                    continue;
                }
                if is_of_chunks(entry, &mut self.repeats, &mut self.codes) {
                    // Readers see the footer, and no copies.
                    let n_footers = u64::from(entry.is_marker(Marker::CHUNK_FOOTER));
                    self.taken.read.records += n_footers;
                    self.taken.layout_records += n_footers;
                    continue;
                }
                let (records, instrs) = chunks::weight(entry);
                self.taken.read.records += records;
                self.taken.read.instrs += instrs;
                self.entries.push(*entry);
            }
            self.n_taken = end;
        }
        Ok(())
    }

    /// Time of the next stretch: its clock reading, which for the first one comes after the header.
    pub(super) fn time(&mut self) -> u64 {
        let at_hand = self.entries.get(self.next..).unwrap_or_default();
        let later =
            self.feed.as_mut().and_then(|feed| feed.present().get(self.n_taken..)).unwrap_or_default();
        let clock = at_hand.iter().chain(later).find(|entry| entry.is_marker(Marker::TIMESTAMP));
        clock.map_or(self.time, |entry| entry.addr.get())
    }

    /// The processor in the marker after a clock reading.
    fn cpu_ahead(&self) -> Option<u64> {
        let rest = self.entries.get(self.next..).unwrap_or_default();
        let ahead = rest.iter().take(LOOK_AHEAD).find(|entry| entry.is_marker(Marker::CPU_ID));
        ahead.map(|entry| entry.addr.get())
    }

    /// Sends all entries from this clock reading up to the next one to the outputs.
    pub(super) fn run_stretch(
        &mut self,
        outputs: &mut Outputs<'_>,
        progress: &dyn Progress,
        intake: &mut Intake,
    ) -> Result<()> {
        let mut has_begun = false;
        loop {
            self.fill(outputs, progress, intake)?;
            let Some(entry) = self.entries.get(self.next).copied() else { return Ok(()) };
            if entry.is_marker(Marker::TIMESTAMP) {
                if has_begun {
                    return Ok(());
                }
                has_begun = true;
                self.time = entry.addr.get();
                self.cpu = self.cpu_ahead().or(self.cpu);
            }
            self.next += 1;
            self.take(&entry, outputs)?;
        }
    }

    /// Sends one entry to its output.
    ///
    /// If a thread's first turn on a core begins with kernel code of the switch, its header follows that. In files of
    /// another kind the header comes first, with the first clock reading, and then the kernel code.
    fn take(&mut self, entry: &Entry, outputs: &mut Outputs<'_>) -> Result<()> {
        if self.hold == Hold::Nothing {
            let is_start = entry.is_marker(Marker::CONTEXT_SWITCH_START);
            if !is_start || !outputs.is_wanted(self.tid) || !outputs.is_new(self.tid) {
                return self.send(entry, outputs);
            }
            self.hold = Hold::Switch;
        }
        match self.hold {
            Hold::Switch if entry.kind() != Type::THREAD && self.held.len() < MAX_HELD => {
                self.held.push(*entry);
                if entry.is_marker(Marker::CONTEXT_SWITCH_END) {
                    self.hold = Hold::Behind;
                }
                return Ok(());
            }
            Hold::Behind if entry.kind() == Type::HEADER => self.hold = Hold::Header,
            Hold::Header if is_of_beginning(entry) => {}
            _ => self.release(outputs)?,
        }
        self.send(entry, outputs)
    }

    /// Sends the kernel code that was held back.
    fn release(&mut self, outputs: &mut Outputs<'_>) -> Result<()> {
        self.hold = Hold::Nothing;
        let mut held = std::mem::take(&mut self.held);
        held.iter().try_for_each(|entry| self.send(entry, outputs))?;
        held.clear();
        self.held = held;
        Ok(())
    }

    /// Ends the input.
    pub(super) fn end(&mut self, outputs: &mut Outputs<'_>) -> Result<()> {
        self.release(outputs)?;
        self.send_group(outputs)
    }

    /// Frees the memory that is not needed to [end](Input::end).
    pub(super) fn rest(&mut self) {
        self.entries = Vec::new();
        self.next = 0;
        if self.held.is_empty() {
            self.codes = OfFile::new(0);
        }
    }

    /// Counts an entry that is not written.
    fn drop_entry(&mut self, entry: &Entry) {
        let (records, instrs) = chunks::weight(entry);
        self.taken.dropped_records += records;
        self.taken.dropped_instrs += instrs;
    }

    /// Ends the header: if it belongs to a thread that is not written, it is dropped.
    fn end_header(&mut self, outputs: &Outputs<'_>) {
        if std::mem::take(&mut self.in_header) && !self.shares_header && !outputs.is_wanted(self.tid) {
            let n_records = self.header.len() as u64;
            self.taken.dropped_records += n_records;
            self.taken.layout_records -= n_records;
        }
    }

    /// Sends encodings and branch targets that belong to no instruction unchanged.
    fn send_group(&mut self, outputs: &mut Outputs<'_>) -> Result<()> {
        let mut group = std::mem::take(&mut self.group);
        if !group.is_empty() && outputs.is_wanted(self.tid) {
            outputs.of(self)?.write(&group)?;
        }
        group.clear();
        self.group = group;
        Ok(())
    }

    fn send(&mut self, entry: &Entry, outputs: &mut Outputs<'_>) -> Result<()> {
        let kind = entry.kind();
        let marker = (kind == Type::MARKER).then(|| Marker(entry.size.get()));
        match (kind, marker) {
            (Type::HEADER, _) => {
                self.in_header = true;
                self.header.clear();
                return Ok(());
            }
            (Type::THREAD, _) => {
                self.tid = entry.addr.get();
                return Ok(());
            }
            (Type::PID, _) => {
                self.pid = entry.addr.get();
                return Ok(());
            }
            // Every file gets its own footer at its end.
            (Type::FOOTER, _) => return Ok(()),
            (_, Some(marker)) if is_of_header(marker) => {
                if self.in_header {
                    self.header.push(*entry);
                    self.taken.layout_records += 1;
                } else {
                    self.drop_entry(entry);
                }
                return Ok(());
            }
            (_, Some(Marker::CORE_IDLE | Marker::CORE_WAIT)) => {
                self.drop_entry(entry);
                return Ok(());
            }
            (_, Some(Marker::BRANCH_TARGET)) | (Type::ENCODING, _) => {
                if self.group.len() >= MAX_GROUP {
                    self.send_group(outputs)?;
                }
                self.group.push(*entry);
                return Ok(());
            }
            _ => self.end_header(outputs),
        }
        let regions = self.regions.pass(entry);
        let in_kernel = regions.any();
        let is_wanted = outputs.is_wanted(self.tid)
            && !(outputs.sharding == Sharding::Cores && regions.in_switch() && !is_clock(entry));
        let is_instr = kind.is_any_instr() && entry.size.get() > 0;
        let mut group = std::mem::take(&mut self.group);
        if is_instr {
            self.learn(entry, &mut group, in_kernel, outputs);
        }
        if is_wanted {
            outputs.of(self)?.push(if is_instr { &group } else { &[] }, entry)?;
        } else {
            self.drop_entry(entry);
        }
        if is_instr {
            group.clear();
        }
        self.group = group;
        Ok(())
    }

    /// Adds the encoding that readers of the output lack to an instruction, and removes one that they have.
    fn learn(&mut self, instr: &Entry, group: &mut Vec<Entry>, in_kernel: bool, outputs: &mut Outputs<'_>) {
        let (pc, size) = (instr.addr.get(), instr.size.get());
        let space = if in_kernel { Space::Kernel } else { Space::Process(self.pid) };
        let has_pieces = group.iter().any(|entry| entry.kind() == Type::ENCODING);
        if !has_pieces {
            let known = match &outputs.known {
                Some(known) => known.get(space, pc, size),
                None => self.codes.get(&outputs.encodings, pc, size),
            };
            if let Some((known, target_first)) = known
                && !outputs.has_encoding(self, pc, size, known)
            {
                let at = if target_first { group.len() } else { 0 };
                group.splice(at..at, known.iter().copied());
            }
            return;
        }
        let pieces: Vec<Entry> =
            group.iter().filter(|entry| entry.kind() == Type::ENCODING).copied().collect();
        let target_first = group.first().is_some_and(|first| first.kind() != Type::ENCODING);
        let is_changed = self.codes.learn(&mut outputs.encodings, pc, size, &pieces, target_first);
        if let Some(known) = &mut outputs.known {
            known.learn(space, pc, size, &pieces, target_first);
        }
        if !is_changed && outputs.has_encoding(self, pc, size, &pieces) {
            group.retain(|entry| entry.kind() != Type::ENCODING);
        }
    }
}

/// True for clock readings and processors.
fn is_clock(entry: &Entry) -> bool {
    entry.is_marker(Marker::TIMESTAMP) || entry.is_marker(Marker::CPU_ID)
}

/// True for entries between a header and the first processor.
fn is_of_beginning(entry: &Entry) -> bool {
    match entry.kind() {
        Type::THREAD | Type::PID => true,
        Type::MARKER => {
            let marker = Marker(entry.size.get());
            is_of_header(marker) || matches!(marker, Marker::TIMESTAMP | Marker::WINDOW_ID | Marker::CPU_ID)
        }
        _ => false,
    }
}

/// True for entries that only the chunks of the source need.
fn is_of_chunks(entry: &Entry, repeats: &mut Repeats, codes: &mut OfFile) -> bool {
    if entry.kind() != Type::MARKER {
        return false;
    }
    let marker = Marker(entry.size.get());
    if marker == Marker::RECORD_ORDINAL {
        codes.next_chunk();
    }
    repeats.is_copy(marker) || matches!(marker, Marker::RECORD_ORDINAL | Marker::CHUNK_FOOTER)
}
