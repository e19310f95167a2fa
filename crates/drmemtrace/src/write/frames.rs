//! Frames of files in which threads take turns: the entries that name the running thread are rewritten for the output of an
//! edit.
//!
//! A file of a core holds the header of each thread where it first runs there, and its ids at each turn (spec 10); a stream
//! of several threads holds one header, and ids at each turn (spec 6.1). If an edit leaves out a thread's first turn, its
//! header moves to the first turn that is left; a thread with nothing left has neither header nor exit.

use super::edit::{At, EntryEdit};
use crate::header::Header;
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Maximum number of held markers of a thread without instructions so far; real traces have a few.
const MAX_HELD: usize = 1 << 12;

/// The threads that an edit keeps: those of a set, or all if it is empty.
pub type Threads = Arc<FxHashSet<u64>>;

/// An edit of a file that may hold several threads.
#[derive(Debug)]
pub struct Framed<E> {
    edit: E,
    /// `None` for a file of one thread, to which only the edit is applied.
    frames: Option<Frames>,
    threads: Threads,
    /// Entries that the edit puts before an entry.
    before: Vec<Entry>,
}

/// The frames in the source, and how much of them was written.
#[derive(Debug)]
struct Frames {
    is_core: bool,
    /// True if threads are only written if they have an instruction.
    needs_instrs: bool,
    tid: u64,
    /// The entries that name a thread and its process, in the form in which they are written.
    ids: FxHashMap<u64, Ids>,
    /// The header being read, of a core's thread, or of the stream.
    header: Vec<Entry>,
    in_header: bool,
    /// Headers that were read; that of a stream belongs to no thread.
    headers: FxHashMap<Option<u64>, Vec<Entry>>,
    /// Any header, for threads without one.
    any_header: Vec<Entry>,
    has_header: FxHashSet<Option<u64>>,
    /// Threads that were written.
    written: FxHashSet<u64>,
    /// The running thread in the output.
    running: Option<u64>,
    /// True if the current turn was begun in the output.
    in_turn: bool,
    /// True if something was left out since the last entry that was written.
    is_gap: bool,
    /// Entries held until the thread's first instruction.
    held: Vec<Entry>,
    is_at_exit: bool,
    /// True if the turn began with kernel code of the switch, which the header follows.
    is_header_late: bool,
    n_returned: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ids {
    thread: Entry,
    pid: Option<Entry>,
}

impl<E: EntryEdit> Framed<E> {
    /// The edit of a file with this header, applied to these threads of it. With `needs_instrs`, threads with no instruction
    /// left are omitted.
    pub fn new(edit: E, header: &Header, threads: Threads, needs_instrs: bool) -> Framed<E> {
        let is_core = header.filetype.any(FileType::CORE_SHARDED);
        let is_several =
            is_core || header.is_mixed || (!threads.is_empty() && !threads.contains(&header.tid));
        let frames = is_several.then(|| Frames::new(is_core, needs_instrs));
        Framed { edit, frames, threads, before: Vec::new() }
    }
}

impl Frames {
    fn new(is_core: bool, needs_instrs: bool) -> Frames {
        Frames {
            is_core,
            needs_instrs,
            tid: 0,
            ids: FxHashMap::default(),
            header: Vec::new(),
            in_header: false,
            headers: FxHashMap::default(),
            any_header: Vec::new(),
            has_header: FxHashSet::default(),
            written: FxHashSet::default(),
            running: None,
            in_turn: false,
            is_gap: false,
            held: Vec::new(),
            is_at_exit: false,
            is_header_late: false,
            n_returned: 0,
        }
    }

    /// Handles an entry of a frame, as changed by the edit; `raw` is the entry of the source.
    fn frame(&mut self, raw: &Entry, entry: Entry) {
        match entry.kind() {
            Type::HEADER => {
                self.header.clear();
                self.in_header = true;
                if !self.is_core {
                    // Another trace follows in the same file.
                    self.has_header.clear();
                    self.ids.clear();
                }
            }
            Type::THREAD => {
                self.tid = raw.addr.get();
                self.in_turn = false;
                self.drop_held();
                let ids = self.ids.entry(self.tid).or_insert(Ids { thread: entry, pid: None });
                ids.thread = entry;
            }
            Type::PID => {
                if let Some(ids) = self.ids.get_mut(&self.tid) {
                    ids.pid = Some(entry);
                }
            }
            _ => {}
        }
        if self.in_header {
            self.header.push(entry);
        }
    }

    fn drop_held(&mut self) {
        self.is_gap |= !self.held.is_empty();
        self.held.clear();
    }

    /// Stores the header when it is complete.
    fn end_header(&mut self) {
        self.in_header = false;
        if self.any_header.is_empty() {
            self.any_header = self.header.clone();
        }
        let owner = self.is_core.then_some(self.tid);
        if !self.has_header.contains(&owner) {
            self.headers.insert(owner, std::mem::take(&mut self.header));
        }
        self.in_turn = false;
    }

    /// Writes the entries that begin a turn of the current thread, if they are missing.
    fn begin(&mut self, first: Entry, at: &At, out: &mut Vec<Entry>) {
        if self.in_turn {
            return;
        }
        self.in_turn = true;
        let ids = self.ids.get(&self.tid).copied();
        let owner = self.is_core.then_some(self.tid);
        let is_first = self.has_header.is_empty();
        let mut header = self.headers.remove(&owner);
        if header.is_none() && is_first {
            header = Some(self.any_header.clone());
        }
        let is_back = self.running == Some(self.tid);
        self.is_header_late = header.is_some() && !is_first && first.is_marker(Marker::CONTEXT_SWITCH_START);
        if self.is_header_late {
            self.headers.extend(header.take().map(|header| (owner, header)));
        }
        if let Some(mut header) = header {
            self.has_header.insert(owner);
            for entry in &mut header {
                match (entry.kind(), ids) {
                    (Type::THREAD, Some(ids)) => entry.addr = ids.thread.addr,
                    (Type::PID, Some(Ids { pid: Some(pid), .. })) => entry.addr = pid.addr,
                    _ => {}
                }
            }
            self.count(&header);
            out.append(&mut header);
            // A header is followed by the clock.
            if !first.is_marker(Marker::TIMESTAMP) {
                out.extend(at.timestamp.map(|value| Entry::marker(Marker::TIMESTAMP, value)));
                out.extend(at.cpu.map(|value| Entry::marker(Marker::CPU_ID, value)));
            }
        } else if let Some(ids) = ids
            && (!is_back || self.is_gap)
        {
            if is_back && self.is_core {
                // Other threads ran, or the thread ran elsewhere: in the output, the core was idle meanwhile.
                out.push(Entry::marker(Marker::CORE_IDLE, 0));
            }
            let is_new = !self.written.contains(&self.tid);
            out.push(ids.thread);
            out.extend(ids.pid.filter(|_| self.is_core || is_new));
        }
        self.running = Some(self.tid);
        self.written.insert(self.tid);
        self.is_gap = false;
    }

    /// Counts records that were left out and are written after all.
    fn count(&mut self, entries: &[Entry]) {
        self.n_returned += entries.iter().map(|entry| super::chunks::weight(entry).0).sum::<u64>();
    }
}

impl<E: EntryEdit> EntryEdit for Framed<E> {
    fn judge(&mut self, entry: &mut Entry, at: &At, before: &mut Vec<Entry>) -> bool {
        let Some(frames) = &mut self.frames else { return self.edit.judge(entry, at, before) };
        let kind = entry.kind();
        let raw = *entry;
        let is_frame = matches!(kind, Type::HEADER | Type::THREAD | Type::PID)
            || (frames.in_header && kind == Type::MARKER && is_of_header(Marker(entry.size.get())));
        if is_frame {
            if self.edit.judge(entry, at, &mut self.before) {
                frames.frame(&raw, *entry);
            }
            self.before.clear();
            return false;
        }
        if frames.in_header {
            frames.end_header();
        }
        let is_idle = entry.is_marker(Marker::CORE_IDLE);
        if !self.threads.is_empty()
            && (is_idle || !self.threads.contains(&frames.tid))
            && kind != Type::FOOTER
        {
            frames.is_gap = true;
            return false;
        }
        let stays = self.edit.judge(entry, at, &mut self.before);
        if kind == Type::FOOTER {
            self.before.clear();
            return stays && std::mem::take(&mut frames.is_at_exit);
        }
        if is_idle {
            // Idle time belongs to no thread.
            before.append(&mut self.before);
            return stays && frames.running.is_some();
        }
        if kind == Type::THREAD_EXIT {
            frames.drop_held();
            // On a core, a turn with only the exit would be a thread that executed nothing.
            if !stays || (frames.is_core && !frames.in_turn) || !frames.written.contains(&frames.tid) {
                self.before.clear();
                return false;
            }
            frames.begin(*entry, at, before);
            before.append(&mut self.before);
            frames.is_at_exit = true;
            return true;
        }
        if !stays && self.before.is_empty() {
            frames.is_gap = true;
            return false;
        }
        let waits = frames.needs_instrs
            && !frames.written.contains(&frames.tid)
            && frames.tid != IDLE_THREAD
            && kind == Type::MARKER
            && frames.held.len() < MAX_HELD;
        if waits {
            frames.held.append(&mut self.before);
            if stays {
                frames.held.push(*entry);
            }
            return false;
        }
        let first = frames.held.first().or(self.before.first()).copied().unwrap_or(*entry);
        frames.begin(first, at, before);
        if frames.is_header_late && entry.is_marker(Marker::CONTEXT_SWITCH_END) {
            frames.in_turn = false;
        }
        if !frames.held.is_empty() {
            let held = std::mem::take(&mut frames.held);
            frames.count(&held);
            before.extend(held);
        }
        before.append(&mut self.before);
        frames.is_at_exit = false;
        stays
    }

    fn returned(&mut self) -> u64 {
        self.frames.as_mut().map_or(0, |frames| std::mem::take(&mut frames.n_returned))
    }

    fn recodes(&self) -> bool {
        self.edit.recodes()
    }

    fn recode(&mut self, instr: &Entry, pieces: &mut Vec<Entry>) {
        self.edit.recode(instr, pieces);
    }

    fn keeps_targets(&self) -> bool {
        self.edit.keeps_targets()
    }

    fn filetype(&self, filetype: FileType) -> FileType {
        self.edit.filetype(filetype)
    }

    fn has_original_layout(&self) -> bool {
        self.edit.has_original_layout()
    }

    fn fault(&mut self) -> Option<quipu_model::Error> {
        self.edit.fault()
    }

    fn file_name(&self, name: &str) -> String {
        self.edit.file_name(name)
    }

    fn end(&mut self, at: &At, before: &mut Vec<Entry>) {
        // A file with nothing left has no end to report.
        if self.frames.as_ref().is_none_or(|frames| frames.running.is_some()) {
            self.edit.end(at, before);
        }
    }
}

/// True for markers that describe the whole trace.
pub(super) fn is_of_header(marker: Marker) -> bool {
    matches!(
        marker,
        Marker::VERSION
            | Marker::FILETYPE
            | Marker::CACHE_LINE_SIZE
            | Marker::CHUNK_INSTR_COUNT
            | Marker::PAGE_SIZE
            | Marker::VECTOR_LENGTH
    )
}
