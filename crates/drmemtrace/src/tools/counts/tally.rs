//! The counting loop.
//!
//! Most entries are instructions, loads and stores. They are counted without branches in one packed register, a run at a
//! time; everything else (markers, thread changes, flushes) ends the run and takes the slow path.
//! PERF: benches/counts.rs.

use super::groups::{GROUP, common_groups};
use super::pcs::Front;
use super::sums::{Counted, Executed, Part, Sum, Sums, WindowSums};
use crate::decode::{Instr, Interp, Limits, Sink};
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use crate::seams::Comparer;
use crate::trace::File;
use quipu_model::{Batch, Severity, ShardKind};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// The counts of one shard, or of a run of its chunks.
pub(crate) struct Tally {
    /// The sums so far.
    pub(crate) counter: Counter,
    /// The state machine, which reads every entry that is not counted in bulk.
    interp: Interp,
    tid: u64,
    is_core: bool,
    /// True once several threads appeared in one stream.
    is_mixed: bool,
    /// True after an entry that only the online tracer writes and that depends on the instruction before it: from there on
    /// every entry goes through the state machine.
    is_online: bool,
    /// The last instruction before the current entries.
    last_instr: Option<Entry>,
    /// The source file, whose chunks are compared with the counts.
    file: Option<Arc<File>>,
    comparer: Comparer,
    /// True if the latest entries end with the footer of a chunk.
    is_at_seam: bool,
}

/// The sums so far, and the state for deciding about the next entry.
pub(crate) struct Counter {
    pub(crate) counted: Counted,
    /// Position in `counted.parts` of each thread, if the stream mixes threads.
    part_of: FxHashMap<u64, usize>,
    part: usize,
    /// Number of records that the state machine did not see.
    n_bulk: u64,
    /// Number of the next entries that the state machine has to read.
    n_odd: usize,
    /// True if a chunk began and no instruction came since.
    at_chunk_start: bool,
    /// Addresses that are certainly in the current set.
    front: Front,
    /// The way to recognise new addresses.
    known_by: KnownBy,
}

/// Ways to recognise the first execution of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KnownBy {
    /// No instruction was read yet.
    Unknown,
    /// The first instruction had an encoding, so each address has one at its first execution in a chunk.
    Encoding,
    /// Encodings are no indication: each address is looked up.
    Address,
}

/// The treatment of a type in the loop.
#[derive(Clone, Copy)]
struct Rule {
    /// Added to the packed counters, 12 bits for each of the first five sums; [`MARK`] for a marker that changes nothing but
    /// its own sum, [`SLOW`] for the slow path.
    add: u64,
    /// All ones if the address is that of a fetched instruction.
    fetched: u64,
    /// All ones if the entry is invisible at size 0.
    sized: u32,
}

/// A bit above all packed counters.
const SLOW: u64 = 1 << 63;
/// Another bit above all packed counters.
const MARK: u64 = 1 << 62;
const LANE_BITS: usize = 12;
/// The packed counters overflow after this many entries.
const MAX_RUN: usize = (1 << LANE_BITS) - 1;
/// Rules for types 0 to 63; those of markers of kind 0 to 63 follow.
const N_RULES: usize = 64;

const RULES: [Rule; 2 * N_RULES] = {
    let mut rules = [Rule { add: SLOW, fetched: 0, sized: 0 }; 2 * N_RULES];
    let mut kind = 0;
    while kind < 50 {
        let this = Type(kind);
        let sum = if this.is_instr() {
            Some(Sum::Instrs)
        } else if this.is_prefetch() {
            Some(Sum::Prefetches)
        } else {
            match this {
                Type::READ => Some(Sum::Loads),
                Type::WRITE => Some(Sum::Stores),
                Type::INSTR_NO_FETCH => Some(Sum::NoFetch),
                _ => None,
            }
        };
        if let Some(sum) = sum {
            rules[kind as usize] = Rule {
                add: 1 << (LANE_BITS * sum as usize),
                fetched: if this.is_instr() { u64::MAX } else { 0 },
                sized: if this.is_any_instr() { u32::MAX } else { 0 },
            };
        }
        kind += 1;
    }
    let mut kind = 0;
    while kind < N_RULES {
        if marker_sum(Marker(kind as u16)).is_some() {
            rules[N_RULES + kind].add = MARK;
        }
        kind += 1;
    }
    // Hidden, and there is one for each indirect branch.
    rules[N_RULES + Marker::BRANCH_TARGET.0 as usize].add = 0;
    rules
};

/// The sum of a marker that affects nothing else.
const fn marker_sum(kind: Marker) -> Option<Sum> {
    Some(match kind {
        Marker::TIMESTAMP | Marker::CPU_ID => Sum::Timestamps,
        Marker::CORE_IDLE => Sum::Idles,
        Marker::CORE_WAIT => Sum::Waits,
        Marker::KERNEL_EVENT | Marker::KERNEL_XFER => Sum::KernelTransfers,
        Marker::FUNC_ID => Sum::FuncIds,
        Marker::FUNC_RETADDR => Sum::FuncRetaddrs,
        Marker::FUNC_ARG => Sum::FuncArgs,
        Marker::FUNC_RETVAL => Sum::FuncRetvals,
        Marker::PHYSICAL_ADDRESS => Sum::PhysicalPairs,
        Marker::PHYSICAL_ADDRESS_NOT_AVAILABLE => Sum::PhysicalMissing,
        Marker::SYSCALL => Sum::Syscalls,
        Marker::MAYBE_BLOCKING_SYSCALL => Sum::BlockingSyscalls,
        Marker::SKIPPED_MEMREF => Sum::Skipped,
        _ => return None,
    })
}

impl Tally {
    /// Empty counts for a shard of this kind with `tid` as its first thread; a mixed shard counts each thread by itself.
    pub(crate) fn new(tid: u64, kind: ShardKind) -> Tally {
        let mut interp = Interp::new();
        interp.tid = tid;
        interp.end_header();
        let mut counter = Counter::new(tid);
        if kind != ShardKind::Thread {
            // Encodings that a thread was given on one core are not repeated on another.
            counter.known_by = KnownBy::Address;
        }
        Tally {
            counter,
            interp,
            tid,
            is_core: kind == ShardKind::Core,
            is_mixed: kind == ShardKind::Mixed,
            is_online: false,
            last_instr: None,
            file: None,
            comparer: Comparer::default(),
            is_at_seam: false,
        }
    }

    /// Compares the counts with those that the chunks of `file` state.
    pub(crate) fn comparing(self, file: Option<Arc<File>>) -> Tally {
        let comparer = file.as_deref().map(Comparer::of).unwrap_or_default();
        Tally { file, comparer, ..self }
    }

    /// Starts the entries of `batch`.
    pub(crate) fn enter(&mut self, batch: &Batch) {
        self.comparer.enter(batch.span.member, batch.span.offset);
        if batch.findings.iter().any(|finding| finding.severity == Severity::Error) {
            self.comparer.skip();
        }
    }

    /// The sums, after the last entry.
    pub(crate) fn finish(self) -> Counted {
        if let Some(file) = self.file.as_ref().filter(|_| self.is_at_seam) {
            self.comparer.end(&file.seams, self.n_records());
        }
        self.counter.counted
    }

    /// Visible records so far.
    fn n_records(&self) -> u64 {
        self.counter.n_bulk + self.interp.records
    }

    /// Adds `tid` to the threads that have records, unless it is 0 or the idle thread.
    pub(crate) fn note_thread(&mut self, tid: u64) {
        self.counter.note_thread(tid);
    }

    /// Counts entries; the result does not depend on how the stream is divided.
    pub(crate) fn add(&mut self, entries: &[Entry]) {
        if let Some(last) = entries.last() {
            self.is_at_seam = last.is_marker(Marker::CHUNK_FOOTER);
        }
        let mut rest = entries;
        while let Some(entry) = rest.first()
            && !self.is_online
        {
            // The state machine keeps an encoding until its instruction comes, and knows which clock readings are repeated.
            let n = match self.interp.is_plain() {
                true => self.counter.add_run(rest, self.interp.in_kernel()),
                false => 0,
            };
            if n > 0 {
                rest = &rest[n..];
            } else if matches!(entry.kind(), Type::INSTR_BUNDLE | Type::INSTR_MAYBE_FETCH) {
                self.go_online(&entries[..entries.len() - rest.len()]);
            } else {
                // A run with odd entries is not scanned again for each of them.
                let n_slow = std::mem::take(&mut self.counter.n_odd).clamp(1, rest.len());
                rest[..n_slow].iter().for_each(|entry| self.add_slow(entry));
                rest = &rest[n_slow..];
            }
        }
        if self.is_online {
            rest.iter().for_each(|entry| self.add_slow(entry));
        } else if let Some(last) = last_instr(entries) {
            self.last_instr = Some(*last);
        }
    }

    /// Passes the last instruction to the state machine, which sees every entry from here on.
    #[cold]
    fn go_online(&mut self, before: &[Entry]) {
        self.is_online = true;
        if let Some(last) = last_instr(before).copied().or(self.last_instr) {
            self.interp.executed(last.addr.get(), last.size.get());
        }
    }

    /// Passes an entry to the state machine.
    fn add_slow(&mut self, entry: &Entry) {
        let (kind, value) = (entry.kind(), entry.addr.get());
        // Chunks after the first do not repeat the header marker with the size of chunks.
        if kind == Type::MARKER && entry.size.get() == Marker::RECORD_ORDINAL.0 {
            self.interp.chunk_instrs = self.interp.chunk_instrs.max(1);
            if let Some(file) = &self.file {
                self.comparer.meet(&file.seams, value, self.n_records());
            }
        }
        self.interp.begin_batch();
        self.interp.run(std::slice::from_ref(entry), &Limits::NONE, &mut self.counter);
        if kind == Type::THREAD {
            self.counter.note_thread(value);
        }
        if let Some(file) = self.file.as_ref().filter(|_| matches!(kind, Type::THREAD | Type::THREAD_EXIT)) {
            file.meet_thread(value);
        }
        if !self.is_core && matches!(kind, Type::THREAD | Type::THREAD_EXIT) {
            if value != self.tid {
                // Encodings that one thread was given are not repeated for another.
                self.is_mixed = true;
                self.counter.known_by = KnownBy::Address;
            }
            if self.is_mixed {
                self.counter.select_part(value);
            }
        }
        if kind == Type::HEADER || (kind == Type::MARKER && entry.size.get() == Marker::RECORD_ORDINAL.0) {
            self.counter.at_chunk_start = true;
        }
    }
}

impl Counter {
    fn new(tid: u64) -> Counter {
        Counter {
            counted: Counted {
                parts: vec![Part::new(tid)],
                tids: FxHashSet::default(),
                filetype: FileType::default(),
                executed: Executed::default(),
            },
            part_of: FxHashMap::default(),
            n_bulk: 0,
            n_odd: 0,
            at_chunk_start: false,
            part: 0,
            front: Front::new(),
            known_by: KnownBy::Unknown,
        }
    }

    /// Counts entries up to the first that the state machine has to read; returns their number.
    fn add_run(&mut self, entries: &[Entry], is_kernel: bool) -> usize {
        let mut rest = entries;
        while !rest.is_empty() {
            if self.known_by == KnownBy::Encoding {
                rest = &rest[self.add_groups(rest, is_kernel)..];
            }
            let run = &rest[..rest.len().min(MAX_RUN)];
            let found = match self.known_by {
                // No further than the next group: nearly all groups consist of common types.
                KnownBy::Encoding => bulk::<false>(&run[..run.len().min(GROUP)], &self.front),
                _ => bulk::<true>(run, &self.front),
            };
            if found.is_odd {
                self.n_odd = found.n;
                break;
            }
            let lane = |sum: Sum| (found.packed >> (LANE_BITS * sum as usize)) & MAX_RUN as u64;
            let sums = self.counted.parts[self.part].current();
            for sum in [Sum::Instrs, Sum::NoFetch, Sum::Loads, Sum::Stores, Sum::Prefetches] {
                sums.add(sum, lane(sum));
                self.n_bulk += lane(sum);
            }
            if is_kernel {
                sums.add(Sum::KernelInstrs, lane(Sum::Instrs));
                sums.add(Sum::KernelNoFetch, lane(Sum::NoFetch));
            }
            rest = &rest[found.n..];
            let Some(entry) = rest.first() else { break };
            match rule(entry) {
                Rule { add: SLOW, .. } => break,
                Rule { add: MARK, .. } => {
                    if let Some(sum) = marker_sum(Marker(entry.size.get())) {
                        sums.add(sum, 1);
                        self.n_bulk += 1;
                    }
                    rest = &rest[1..];
                }
                // Either the run was cut, or the address is new; a known address is counted with the next run.
                Rule { fetched: 0, .. } => {}
                _ if self.known_by == KnownBy::Encoding => {}
                // It may still turn out to be invisible.
                _ if entry.size.get() == 0 => break,
                _ => {
                    self.known_by = KnownBy::Address;
                    sums.pcs.insert(&mut self.front, entry.addr.get());
                }
            }
        }
        entries.len() - rest.len()
    }

    /// Counts whole groups that only hold the most common entries; returns the number of entries.
    fn add_groups(&mut self, entries: &[Entry], is_kernel: bool) -> usize {
        let (n, [instrs, no_fetch, loads, stores]) = common_groups(entries);
        let sums = self.counted.parts[self.part].current();
        sums.add(Sum::Instrs, instrs);
        sums.add(Sum::NoFetch, no_fetch);
        sums.add(Sum::Loads, loads);
        sums.add(Sum::Stores, stores);
        self.n_bulk += instrs + no_fetch + loads + stores;
        if is_kernel {
            sums.add(Sum::KernelInstrs, instrs);
            sums.add(Sum::KernelNoFetch, no_fetch);
        }
        n
    }

    fn note_thread(&mut self, tid: u64) {
        if tid != 0 && tid != IDLE_THREAD {
            self.counted.tids.insert(tid);
        }
    }

    fn select_part(&mut self, tid: u64) {
        let parts = &mut self.counted.parts;
        if self.part_of.is_empty() {
            // Records before the first thread is named belong to that thread.
            if parts[0] == Part::new(parts[0].tid) {
                parts[0].tid = tid;
            }
            self.part_of.insert(parts[0].tid, 0);
        }
        let part = *self.part_of.entry(tid).or_insert(parts.len());
        if part == parts.len() {
            parts.push(Part::new(tid));
        }
        if part != self.part {
            self.part = part;
            self.front.clear();
        }
    }

    fn count(&mut self, sum: Sum) {
        self.counted.parts[self.part].current().add(sum, 1);
    }

    /// Begins the sums of a new window; the first number is that of the sums so far.
    fn window(&mut self, id: u64) {
        let windows = &mut self.counted.parts[self.part].windows;
        match windows.last_mut() {
            Some(last) if last.id.is_none() => last.id = Some(id),
            Some(last) if last.id == Some(id) => {}
            _ => {
                windows.push(WindowSums { id: Some(id), sums: Sums::default() });
                // Its addresses may have had their encodings in the window before.
                self.known_by = KnownBy::Address;
                self.front.clear();
            }
        }
    }
}

/// The last entry that executes an instruction.
fn last_instr(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().rfind(|entry| entry.kind().is_any_instr() && entry.size.get() != 0)
}

/// Result of [`bulk`].
struct Bulk {
    /// Number of entries that are counted.
    n: usize,
    /// Their packed counters.
    packed: u64,
    /// True if some of them were not common ones after all: nothing may be counted.
    is_odd: bool,
}

/// Adds up the rules of entries, up to the first that is not a common one or, if `CHECK`, has an address that is not in
/// `front`.
///
/// PERF: nothing is called in here, so everything stays in registers; docs/performance.md, "Tried". Unknown types and
/// instructions of size 0 are so rare that they only set a flag, and the state machine counts the run again.
#[inline]
fn bulk<const CHECK: bool>(entries: &[Entry], front: &Front) -> Bulk {
    let (mut packed, mut kinds, mut sizes) = (0, 0, 0);
    let mut n = entries.len();
    for (index, entry) in entries.iter().enumerate() {
        let kind = entry.kind.get();
        let rule = &RULES[row(entry, usize::from(kind) % N_RULES)];
        let is_new = CHECK && !front.has(entry.addr.get(), rule.fetched);
        if rule.add >= MARK || is_new {
            n = index;
            break;
        }
        packed += rule.add;
        kinds |= kind;
        // Borrows from bit 31 for size 0 only.
        sizes |= u32::from(entry.size.get()).wrapping_sub(1) & rule.sized;
    }
    Bulk { n, packed, is_odd: usize::from(kinds) >= N_RULES || sizes >> 31 != 0 }
}

#[inline]
fn rule(entry: &Entry) -> Rule {
    // The last rule of each half is slow, and so is that of every number between the known ones and it.
    RULES[row(entry, usize::from(entry.kind.get()).min(N_RULES - 1))]
}

/// The row of [`RULES`] for an entry whose type has row `kind`.
#[inline]
fn row(entry: &Entry, kind: usize) -> usize {
    let marker = N_RULES + usize::from(entry.size.get()).min(N_RULES - 1);
    if kind == Type::MARKER.0 as usize { marker } else { kind }
}

/// Counts the records of entries that are not counted in bulk.
impl Sink for Counter {
    fn instr(&mut self, cx: &Interp, instr: Instr<'_>) {
        let fetched = instr.kind != Type::INSTR_NO_FETCH;
        self.count(if fetched { Sum::Instrs } else { Sum::NoFetch });
        if cx.is_kernel {
            self.count(if fetched { Sum::KernelInstrs } else { Sum::KernelNoFetch });
        }
        if instr.encoding.is_some() {
            self.count(Sum::Encodings);
        }
        if self.known_by == KnownBy::Unknown {
            // In the middle of a chunk, or of a window of it, earlier addresses had their encodings before.
            let is_first = instr.encoding.is_some() && self.at_chunk_start;
            self.known_by = if is_first { KnownBy::Encoding } else { KnownBy::Address };
        }
        if fetched {
            let part = self.part;
            self.counted.parts[part].current().pcs.insert(&mut self.front, instr.pc);
        }
    }

    fn data(&mut self, _: &Interp, kind: Type, _: u64, _: u64) {
        self.count(match kind {
            Type::READ => Sum::Loads,
            Type::WRITE => Sum::Stores,
            Type::INSTR_FLUSH => Sum::InstrFlushes,
            Type::DATA_FLUSH => Sum::DataFlushes,
            _ => Sum::Prefetches,
        });
    }

    fn marker(&mut self, cx: &Interp, kind: Marker, value: u64) {
        match kind {
            Marker::INSTRUCTION_COUNT => self.counted.executed.add(cx.tid, value),
            Marker::WINDOW_ID => self.window(value),
            Marker::FILETYPE => self.counted.filetype = self.counted.filetype.or(FileType(value)),
            // The second half of a pair, which is counted with its first half.
            Marker::VIRTUAL_ADDRESS => return,
            _ => {}
        }
        self.count(match kind {
            Marker::HARDWARE_EVENT | Marker::HARDWARE_CONTEXT_RETURN => Sum::HardwareTransfers,
            _ => marker_sum(kind).unwrap_or(Sum::Others),
        });
    }

    fn exit(&mut self, cx: &Interp) {
        self.note_thread(cx.tid);
    }

    fn finding(&mut self, _: &Interp, _: usize, _: &'static str, _: Severity, _: String) {
        // The reader reports the damage; reporting it here would duplicate it.
    }
}
