//! Rewrites one file's entries: joins the chunks of the source, edits the stream, and cuts it again with the chunks,
//! ordinals and encodings that the output needs.
//!
//! Everything except what only chunks need is kept bit for bit: unknown types and markers, sizes of exits, values of
//! footers, encodings that the tracer repeated, and the position of branch targets.

use super::Part;
use super::chunks::{Chunks, Counts, weight};
use super::codes::{Codes, Given, MAX_PIECES};
use super::edit::{At, EntryEdit};
use super::known::Known;
use crate::header::Header;
use crate::record::{Entry, FileType, Marker, Type};
use crate::schedule::Recording;
use crate::seams::{Comparer, Repeats};
use crate::trace::File;
use quipu_model::{Error, Result};
use quipu_source::{Packed, Packer};
use std::io::{Seek, Write};
use std::sync::Arc;

/// More entries than this before one instruction are not an encoding.
const MAX_GROUP: usize = 64;

/// The rule for cutting chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRule {
    /// Instructions in each chunk; 0 for a single chunk.
    pub instrs: u64,
    /// The value of the marker that states the size; `None` to leave it as it is.
    pub marker: Option<u64>,
    /// Whether the marker has to be inserted, because the source has none.
    pub insert: bool,
}

/// State of rewriting one file.
pub struct Rewriter<W: Write + Seek, E: EntryEdit> {
    out: Chunks<W>,
    codes: Codes,
    edit: E,
    rule: ChunkRule,
    at: At,
    /// Number of source entries so far.
    n_read: u64,
    n_dropped: u64,
    n_layout: u64,
    /// Encoding and branch target of the next instruction.
    held: Vec<Entry>,
    pieces: Vec<Entry>,
    before: Vec<Entry>,
    /// A branch target without an instruction; then one before the footer of its chunk, which belongs to the first indirect
    /// branch of the next chunk.
    loose: Option<Entry>,
    carried: Option<Entry>,
    repeats: Repeats,
    /// True if the file begins with a later chunk than its first, so that the repeated values are nowhere else.
    wants_copies: bool,
    is_headed: bool,
    /// Encodings that the file may lack.
    known: Option<Arc<Known>>,
    /// The source file, whose chunks are compared with the counts.
    source: Option<(Arc<File>, Comparer)>,
}

/// The result of rewriting a file.
#[derive(Debug)]
pub struct Rewritten<W> {
    /// The destination.
    pub out: W,
    /// Sizes of the container.
    pub packed: Packed,
    /// Amounts read.
    pub read: Counts,
    /// Amounts written.
    pub written: Counts,
    /// Records that were read and not written, apart from footers of chunks.
    pub dropped_records: u64,
    /// Number of chunk footers read.
    pub layout_records: u64,
    /// The schedule of the entries that were written (spec 11).
    pub schedule: Recording,
}

impl<W> Rewritten<W> {
    /// Separates the destination from the rest.
    pub(super) fn split(self) -> (W, Rewritten<()>) {
        let Rewritten { out, packed, read, written, dropped_records, layout_records, schedule } = self;
        (out, Rewritten { out: (), packed, read, written, dropped_records, layout_records, schedule })
    }
}

impl<W: Write + Seek, E: EntryEdit> Rewriter<W, E> {
    /// Begins a file.
    ///
    /// # Errors
    /// As [`Packer::member`].
    pub fn new(packer: Packer<W>, edit: E, rule: ChunkRule) -> Result<Rewriter<W, E>> {
        Ok(Rewriter {
            out: Chunks::new(packer, rule.instrs)?,
            codes: Codes::new(),
            edit,
            rule,
            at: At::default(),
            n_read: 0,
            n_dropped: 0,
            n_layout: 0,
            held: Vec::new(),
            pieces: Vec::new(),
            before: Vec::new(),
            loose: None,
            carried: None,
            repeats: Repeats::default(),
            wants_copies: false,
            is_headed: false,
            known: None,
            source: None,
        })
    }

    /// Gives instructions without an encoding in this file the one from another file.
    pub(super) fn knowing(mut self, known: Option<Arc<Known>>) -> Rewriter<W, E> {
        self.known = known.filter(|_| !self.edit.has_original_layout());
        self
    }

    /// Compares the counts with those that the chunks of `source` state.
    pub(super) fn comparing(self, source: &Arc<File>) -> Rewriter<W, E> {
        Rewriter { source: Some((source.clone(), Comparer::of(source))), ..self }
    }

    /// Begins a file whose first chunk is missing: writes the known part of its header, and keeps the clock reading and the
    /// processor that the next chunk repeats as ordinary markers.
    ///
    /// # Errors
    /// As [`Packer::write`].
    pub(super) fn begin_without_first_chunk(&mut self, header: &Header) -> Result<()> {
        for entry in without_first_chunk(header, self.rule.marker) {
            self.out.add(&entry)?;
        }
        (self.is_headed, self.wants_copies) = (true, true);
        Ok(())
    }

    /// Starts the next part of the source; its entries are pushed afterwards.
    pub(super) fn begin(&mut self, part: &Part<'_>) {
        if let Some((_, comparer)) = &mut self.source {
            comparer.begin(part);
        }
    }

    /// Uses less memory and a little more time, for one of many files that are written at once.
    pub(super) fn small(mut self) -> Rewriter<W, E> {
        self.codes = Codes::small();
        self
    }

    /// True if readers of the output know these pieces as the encoding at `pc`.
    pub(super) fn has_encoding(&self, pc: u64, size: u16, pieces: &[Entry]) -> bool {
        self.codes.get(pc, size).is_some_and(|(known, _)| known == pieces)
    }

    /// Begins a member of this name, for files whose members are not chunks; call it before any entry of the member.
    ///
    /// # Errors
    /// As [`Packer::member`].
    pub fn member(&mut self, name: &str) -> Result<()> {
        self.release_held()?;
        self.codes.next_read_chunk();
        self.codes.next_written_chunk();
        self.out.member(name)
    }

    /// Takes the next entries of the source.
    ///
    /// # Errors
    /// As [`Packer::write`].
    pub fn push(&mut self, entries: &[Entry]) -> Result<()> {
        self.n_read += entries.len() as u64;
        let mut next = 0;
        if !self.held.is_empty() {
            next = entries.iter().position(|entry| !is_prefix(entry)).unwrap_or(entries.len());
            self.held.extend_from_slice(&entries[..next]);
            if next == entries.len() && self.held.len() <= MAX_GROUP {
                return Ok(());
            }
            match entries.get(next) {
                Some(entry) if is_any_instr(entry) => {
                    let held = std::mem::take(&mut self.held);
                    let (kept, stays) = self.judge(entry);
                    self.instr(&held, entry, kept, stays)?;
                    self.held = held;
                    self.held.clear();
                    next += 1;
                }
                _ => self.release_held()?,
            }
        }
        self.run(&entries[next..])
    }

    /// The number of the current chunk, from 1.
    pub(super) fn chunk(&self) -> u32 {
        self.codes.written_chunk()
    }

    /// Writes entries unchanged, without checking each: only instructions with their branch targets and accesses, whose
    /// encodings the current chunk has. Returns false, and does nothing, if they have to be checked.
    ///
    /// # Errors
    /// As [`Packer::write`].
    pub(super) fn push_run(&mut self, entries: &[Entry], records: u64, instrs: u64) -> Result<bool> {
        let may = E::IS_NONE && self.held.is_empty() && !self.repeats.is_open();
        if !may || !self.out.put_run(entries, records, instrs)? {
            return Ok(false);
        }
        self.n_read += entries.len() as u64;
        self.advance(records, instrs);
        Ok(true)
    }

    /// Handles entries that do not depend on those before them. Unchanged entries are written in runs.
    fn run(&mut self, entries: &[Entry]) -> Result<()> {
        let mut from = 0;
        let mut group = None;
        for (i, entry) in entries.iter().enumerate() {
            let kind = entry.kind().0;
            if matches!(kind, 0..=9 | 32..=46) && group.is_none() {
                if E::IS_NONE {
                    self.at.records += 1;
                    self.out.count(1, 0);
                    continue;
                }
                let (kept, stays) = self.judge(entry);
                if stays && self.before.is_empty() && kept == *entry {
                    self.at.records += 1;
                    self.out.count(1, 0);
                    continue;
                }
                self.out.put(&entries[from..i])?;
                self.after_judgement(entry, &kept, stays)?;
                from = i + 1;
                continue;
            }
            if is_prefix(entry) {
                group.get_or_insert(i);
                continue;
            }
            if is_any_instr(entry) {
                let (kept, stays) = self.judge(entry);
                let is_settled = group.is_none()
                    && stays
                    && self.carried.is_none()
                    && self.codes.is_settled(entry.addr.get(), entry.size.get())
                    && !self.out.is_full()
                    && (E::IS_NONE || (self.before.is_empty() && kept == *entry));
                if is_settled {
                    let (records, instrs) = weight(entry);
                    self.advance(records, instrs);
                    self.out.count(records, instrs);
                    continue;
                }
                let start = group.take().unwrap_or(i);
                self.out.put(&entries[from..start])?;
                self.instr(&entries[start..i], entry, kept, stays)?;
                from = i + 1;
                continue;
            }
            if let Some(start) = group.take() {
                // The entries that looked like an encoding belong to no instruction.
                self.out.put(&entries[from..start])?;
                self.orphans(&entries[start..i])?;
                from = i;
            }
            if E::IS_NONE && !self.is_special(entry) {
                let (records, instrs) = weight(entry);
                self.advance(records, instrs);
                self.out.count(records, instrs);
                self.out.note(entry);
                continue;
            }
            self.out.put(&entries[from..i])?;
            self.other(entry)?;
            from = i + 1;
        }
        let end = group.unwrap_or(entries.len());
        self.out.put(&entries[from..end])?;
        self.held.extend_from_slice(&entries[end..]);
        if self.held.len() > MAX_GROUP {
            self.release_held()?;
        }
        Ok(())
    }

    #[inline]
    fn advance(&mut self, records: u64, instrs: u64) {
        self.at.records += records;
        self.at.instrs += instrs;
    }

    /// True for entries that affect the state of the writer.
    fn is_special(&self, entry: &Entry) -> bool {
        match entry.kind() {
            Type::THREAD | Type::THREAD_EXIT | Type::PID => true,
            Type::MARKER => {
                self.repeats.is_open()
                    || matches!(
                        Marker(entry.size.get()),
                        Marker::TIMESTAMP
                            | Marker::CPU_ID
                            | Marker::FILETYPE
                            | Marker::CHUNK_INSTR_COUNT
                            | Marker::CHUNK_FOOTER
                            | Marker::RECORD_ORDINAL
                    )
            }
            _ => false,
        }
    }

    /// Asks the edit: returns the new entry, and whether it is kept.
    #[inline]
    fn judge(&mut self, entry: &Entry) -> (Entry, bool) {
        let mut kept = *entry;
        let stays = E::IS_NONE || self.edit.judge(&mut kept, &self.at, &mut self.before);
        (kept, stays)
    }

    /// Writes data as the edit has changed it.
    fn after_judgement(&mut self, entry: &Entry, kept: &Entry, stays: bool) -> Result<()> {
        let (records, instrs) = weight(entry);
        self.n_dropped += if stays { 0 } else { records };
        self.advance(records, instrs);
        self.put_before()?;
        if stays { self.out.add(kept) } else { Ok(()) }
    }

    /// Handles an instruction after its encoding and branch target, if it has them.
    fn instr(&mut self, prefix: &[Entry], entry: &Entry, kept: Entry, stays: bool) -> Result<()> {
        let (records, instrs) = weight(entry);
        self.n_dropped += if stays { 0 } else { records };
        self.advance(records, instrs);
        self.put_before()?;
        if entry.size.get() == 0 || entry.kind() == Type::INSTR_BUNDLE {
            // It only names an address, or several at once: an encoding before it belongs to another one.
            self.orphans(prefix)?;
            if stays {
                self.split_if_full()?;
                self.out.add(&kept)?;
            }
            return Ok(());
        }
        let own = prefix.iter().rfind(|entry| entry.is_marker(Marker::BRANCH_TARGET)).copied();
        let carried = if entry.kind().is_indirect_branch() { self.carried.take() } else { None };
        let target = own.or(carried).filter(|_| E::IS_NONE || self.edit.keeps_targets());
        let target_first = self.edit.has_original_layout()
            || own.is_none() && carried.is_some()
            || prefix.first().is_some_and(|first| first.is_marker(Marker::BRANCH_TARGET));
        self.pieces.clear();
        self.pieces.extend(prefix.iter().filter(|entry| entry.kind() == Type::ENCODING).take(MAX_PIECES + 1));
        if let Some(known) = self.known.as_ref().filter(|_| self.pieces.is_empty() && stays)
            && self.codes.get(entry.addr.get(), entry.size.get()).is_none()
            && let Some((pieces, _)) = known.anywhere(entry.addr.get(), entry.size.get())
        {
            self.pieces.extend_from_slice(pieces);
        }
        if !E::IS_NONE && self.edit.recodes() && !self.pieces.is_empty() {
            self.edit.recode(entry, &mut self.pieces);
        }
        // Pieces beyond the size of an encoding are kept unchanged.
        let is_odd = self.pieces.len() > MAX_PIECES;
        let (pc, size) = (entry.addr.get(), entry.size.get());
        if !stays {
            if !self.pieces.is_empty() && !is_odd {
                self.codes.learn(pc, size, &self.pieces, target_first);
            }
            return Ok(());
        }
        self.split_if_full()?;
        if is_odd {
            self.out.put(prefix)?;
        } else if !self.pieces.is_empty() {
            let given = self.codes.give(pc, size, &self.pieces, target_first);
            let pieces = if given == Given::Needed { &self.pieces[..] } else { &[] };
            put_group(&mut self.out, pieces, target.as_ref(), target_first)?;
        } else if let Some((pieces, target_first)) = self.codes.wanted(pc, size) {
            put_group(&mut self.out, pieces, target.as_ref(), target_first)?;
        } else if let Some(target) = target {
            self.out.put(&[target])?;
        }
        self.out.add(&kept)
    }

    /// Handles a clock reading or a processor that a chunk repeats: the output has its own chunks.
    fn copy(&mut self, entry: &Entry, marker: Marker) -> Result<()> {
        if !self.wants_copies {
            return Ok(());
        }
        // It is not counted by readers of the source, but by readers of the output.
        match marker {
            Marker::TIMESTAMP => self.at.timestamp = Some(entry.addr.get()),
            _ => {
                self.at.cpu = Some(entry.addr.get());
                self.wants_copies = false;
            }
        }
        self.out.add(entry)
    }

    /// Handles any other entry.
    fn other(&mut self, entry: &Entry) -> Result<()> {
        let kind = entry.kind();
        let marker = (kind == Type::MARKER).then(|| Marker(entry.size.get()));
        let loose = self.loose.take();
        if let (Type::THREAD | Type::THREAD_EXIT, Some((source, _))) = (kind, &self.source) {
            source.meet_thread(entry.addr.get());
        }
        if let Some(marker) = marker
            && self.repeats.is_copy(marker)
        {
            return self.copy(entry, marker);
        }
        match marker {
            Some(Marker::CHUNK_FOOTER) => {
                self.carried = loose;
                self.at.records += 1;
                self.n_layout += 1;
                self.codes.next_read_chunk();
                // The source's cut is a good place: so the same size of chunks gives the same chunks.
                return self.split_if_full();
            }
            Some(Marker::RECORD_ORDINAL) => {
                if let Some((source, comparer)) = &mut self.source {
                    comparer.meet(&source.seams, entry.addr.get(), self.at.records);
                }
                self.codes.next_read_chunk();
                return Ok(());
            }
            _ => {}
        }
        let mut kept = *entry;
        match marker {
            Some(Marker::FILETYPE) => kept.addr.set(self.edit.filetype(FileType(entry.addr.get())).0),
            Some(Marker::CHUNK_INSTR_COUNT) => {
                kept.addr.set(self.rule.marker.unwrap_or(entry.addr.get()));
            }
            Some(Marker::TIMESTAMP) if !self.is_headed => {
                self.is_headed = true;
                if let Some(value) = self.rule.marker.filter(|_| self.rule.insert) {
                    self.out.add(&Entry::marker(Marker::CHUNK_INSTR_COUNT, value))?;
                }
            }
            _ => {}
        }
        let (records, instrs) = weight(entry);
        let stays = E::IS_NONE || self.edit.judge(&mut kept, &self.at, &mut self.before);
        self.n_dropped += if stays { 0 } else { records };
        self.advance(records, instrs);
        match (kind, marker) {
            (Type::THREAD, _) => self.at.tid = entry.addr.get(),
            (Type::PID, _) => self.at.pid = entry.addr.get(),
            (_, Some(Marker::TIMESTAMP)) => self.at.timestamp = Some(entry.addr.get()),
            (_, Some(Marker::CPU_ID)) => self.at.cpu = Some(entry.addr.get()),
            _ => {}
        }
        self.put_before()?;
        if !stays {
            return Ok(());
        }
        let may_split = matches!(kind, Type::THREAD_EXIT | Type::FOOTER) || marker == Some(Marker::TIMESTAMP);
        if may_split && self.edit.has_original_layout() {
            self.split_if_full()?;
        }
        if kind == Type::FOOTER && !E::IS_NONE {
            // The edit may add something before the last one.
            return self.out.hold(kept);
        }
        self.out.add(&kept)
    }

    fn split_if_full(&mut self) -> Result<()> {
        if self.out.is_full() {
            self.codes.next_written_chunk();
            self.out.split()?;
        }
        Ok(())
    }

    fn put_before(&mut self) -> Result<()> {
        if self.before.is_empty() {
            return Ok(());
        }
        self.n_dropped = self.n_dropped.saturating_sub(self.edit.returned());
        let before = std::mem::take(&mut self.before);
        before.iter().try_for_each(|entry| self.out.add(entry))?;
        self.before = before;
        self.before.clear();
        Ok(())
    }

    /// Handles encodings and branch targets that belong to no instruction: without an edit they are kept; with one, only a
    /// target at the end of a chunk is of use.
    fn orphans(&mut self, entries: &[Entry]) -> Result<()> {
        if E::IS_NONE {
            return self.out.put(entries);
        }
        self.loose = entries.iter().rfind(|entry| entry.is_marker(Marker::BRANCH_TARGET)).copied();
        Ok(())
    }

    fn release_held(&mut self) -> Result<()> {
        let held = std::mem::take(&mut self.held);
        self.orphans(&held)
    }

    /// Ends the file, with a footer if it has none.
    ///
    /// # Errors
    /// As [`Packer::finish`].
    pub fn finish(mut self, wants_footer: bool) -> Result<Rewritten<W>> {
        self.release_held()?;
        let mut footer = self.out.take_held();
        if wants_footer && (footer.is_some() || !self.out.is_closed()) {
            self.edit.end(&self.at, &mut self.before);
            self.put_before()?;
            footer.get_or_insert(Entry::new(Type::FOOTER, 0, 0));
        }
        footer.map_or(Ok(()), |footer| self.out.add(&footer))?;
        let read = Counts { entries: self.n_read, records: self.at.records, instrs: self.at.instrs };
        let (out, packed, written, schedule) = self.out.finish()?;
        let (dropped_records, layout_records) = (self.n_dropped, self.n_layout);
        Ok(Rewritten { out, packed, read, written, dropped_records, layout_records, schedule })
    }

    /// Records written so far.
    pub fn n_written(&self) -> u64 {
        self.out.counts.records
    }

    /// The reason why the edit cannot continue, once there is one.
    pub fn fault(&mut self) -> Option<Error> {
        self.edit.fault()
    }
}

/// The known part of the header of a file whose first chunk is missing.
fn without_first_chunk(header: &Header, chunk_instrs: Option<u64>) -> [Entry; 4] {
    [
        Entry::new(Type::HEADER, 0, header.version),
        Entry::new(Type::THREAD, 4, header.tid),
        Entry::new(Type::PID, 4, header.pid),
        Entry::marker(Marker::CHUNK_INSTR_COUNT, chunk_instrs.unwrap_or(header.chunk_instrs)),
    ]
}

fn put_group<W: Write + Seek>(
    out: &mut Chunks<W>,
    pieces: &[Entry],
    target: Option<&Entry>,
    target_first: bool,
) -> Result<()> {
    let target = target.map(std::slice::from_ref).unwrap_or_default();
    let (first, second) = if target_first { (target, pieces) } else { (pieces, target) };
    out.put(first)?;
    out.put(second)
}

/// True for entries before an instruction that belong to it.
#[inline]
fn is_prefix(entry: &Entry) -> bool {
    entry.kind() == Type::ENCODING || entry.is_marker(Marker::BRANCH_TARGET)
}

#[inline]
fn is_any_instr(entry: &Entry) -> bool {
    entry.kind().is_any_instr() || entry.kind() == Type::INSTR_BUNDLE
}
