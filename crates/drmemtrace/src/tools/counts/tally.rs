//! The counting loop.
//!
//! Most entries are instructions, loads and stores. They are counted without branches in one packed register, a run
//! at a time; everything else (markers, thread changes, flushes) ends the run and takes the slow road.
//! PERF: benches/counts.rs.

use crate::decode::{Instr, Interp, Limits, Sink};
use crate::record::{Entry, FileType, IDLE_THREAD, Marker, Type};
use quipu_model::Severity;
use rustc_hash::FxHashSet;

/// What one window of one thread amounts to; all but the distinct addresses are plain sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// Addresses of fetched instructions.
    pub(crate) pcs: FxHashSet<u64>,
    /// The sums, by [`Sum`].
    pub(crate) sums: [u64; N_SUMS],
}

macro_rules! sums {
    ($($name:ident = $value:literal;)*) => {
        /// Position of each sum in [`Sums::sums`].
        #[allow(missing_docs)] // The names are those of the report's fields, documented there.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Sum { $($name = $value,)* }
        /// How many sums there are.
        pub(crate) const N_SUMS: usize = [$(Sum::$name),*].len();
    };
}

sums! {
    Instrs = 0;
    NoFetch = 1;
    Loads = 2;
    Stores = 3;
    Prefetches = 4;
    KernelInstrs = 5;
    KernelNoFetch = 6;
    InstrFlushes = 7;
    DataFlushes = 8;
    Timestamps = 9;
    Idles = 10;
    Waits = 11;
    KernelTransfers = 12;
    HardwareTransfers = 13;
    FuncIds = 14;
    FuncRetaddrs = 15;
    FuncArgs = 16;
    FuncRetvals = 17;
    PhysicalPairs = 18;
    PhysicalMissing = 19;
    Syscalls = 20;
    BlockingSyscalls = 21;
    Skipped = 22;
    Others = 23;
    Encodings = 24;
}

impl Sums {
    fn add(&mut self, sum: Sum, n: u64) {
        self.sums[sum as usize] += n;
    }

    /// Adds another window's counts.
    pub(crate) fn merge(&mut self, other: &Sums) {
        for (mine, theirs) in self.sums.iter_mut().zip(other.sums) {
            *mine += theirs;
        }
        self.pcs.extend(&other.pcs);
    }
}

/// One tracing window; traces without windows have one without a number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowSums {
    /// Its number, once a marker told it.
    pub(crate) id: Option<u64>,
    /// Its counts.
    pub(crate) sums: Sums,
}

/// One thread of a mixed stream, or all of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The thread; of a core's file, the first.
    pub(crate) tid: u64,
    /// Its windows, in order.
    pub(crate) windows: Vec<WindowSums>,
}

impl Part {
    fn new(tid: u64) -> Part {
        Part { tid, windows: vec![WindowSums::default()] }
    }

    fn current(&mut self) -> &mut Sums {
        if self.windows.is_empty() {
            self.windows.push(WindowSums::default());
        }
        let last = self.windows.len() - 1;
        &mut self.windows[last].sums
    }
}

/// Slots of the filter in front of the set of addresses; a power of two: 128 KiB stay in level-2 cache.
const SEEN: usize = 1 << 14;

/// The counts of one shard, or of a run of its chunks.
pub(crate) struct Tally {
    /// What is counted.
    pub(crate) counter: Counter,
    /// The state machine takes every entry that is not counted in bulk.
    interp: Interp,
    is_mixed: bool,
    /// True once an entry came that only the online tracer writes, and that depends on the instruction before it: from
    /// there on every entry goes through the state machine.
    is_online: bool,
    /// The last instruction of the entries before.
    last_instr: Option<Entry>,
}

/// The sums so far, and what deciding about the next entry takes.
pub(crate) struct Counter {
    /// Counts by thread; one part unless the stream mixes threads.
    pub(crate) parts: Vec<Part>,
    /// Threads that have records, without the idle one.
    pub(crate) tids: FxHashSet<u64>,
    /// All file-type bits that a header named.
    pub(crate) filetype: FileType,
    part: usize,
    pending_encoding: bool,
    /// An encoding came before the state machine took over; the next instruction has it.
    stray_encoding: bool,
    /// Addresses that are certainly in the current set, by slot.
    seen: Box<[u64]>,
}

/// What the loop does with a type: where it counts and how.
#[derive(Clone, Copy)]
struct Rule {
    /// Added to the packed counters: 12 bits for each of the first five sums.
    add: u64,
    flags: u8,
}

const SLOW: u8 = 1;
/// An instruction or a further iteration: invisible if its size is 0.
const SIZED: u8 = 2;
const FETCHED: u8 = 4;
const ENCODING: u8 = 8;
const LANE_BITS: usize = 12;
/// The packed counters overflow after so many entries.
const MAX_RUN: usize = (1 << LANE_BITS) - 1;

const RULES: [Rule; 64] = {
    let mut rules = [Rule { add: 0, flags: SLOW }; 64];
    let mut kind = 0;
    while kind < 50 {
        let this = Type(kind);
        rules[kind as usize] = if this.is_instr() {
            Rule { add: 1 << (LANE_BITS * Sum::Instrs as usize), flags: SIZED | FETCHED }
        } else if this.is_prefetch() {
            Rule { add: 1 << (LANE_BITS * Sum::Prefetches as usize), flags: 0 }
        } else if kind == 0 {
            Rule { add: 1 << (LANE_BITS * Sum::Loads as usize), flags: 0 }
        } else if kind == 1 {
            Rule { add: 1 << (LANE_BITS * Sum::Stores as usize), flags: 0 }
        } else if kind == 29 {
            Rule { add: 1 << (LANE_BITS * Sum::NoFetch as usize), flags: SIZED }
        } else if kind == 47 {
            Rule { add: 0, flags: ENCODING }
        } else {
            Rule { add: 0, flags: SLOW }
        };
        kind += 1;
    }
    rules
};

fn slot(pc: u64) -> usize {
    ((pc ^ (pc >> 14)) as usize) & (SEEN - 1)
}

impl Tally {
    /// Nothing counted yet in a shard whose first thread is `tid`; a mixed one counts each thread by itself.
    pub(crate) fn new(tid: u64, is_mixed: bool) -> Tally {
        let mut interp = Interp::new();
        interp.tid = tid;
        interp.end_header();
        Tally { counter: Counter::new(tid), interp, is_mixed, is_online: false, last_instr: None }
    }

    /// Counts entries; any cut of the stream gives the same counts.
    pub(crate) fn add(&mut self, entries: &[Entry]) {
        let mut rest = entries;
        while !rest.is_empty() && !self.is_online {
            let n = self.counter.add_run(&rest[..rest.len().min(MAX_RUN)], self.interp.in_kernel());
            rest = &rest[n..];
            if let Some(entry) = rest.first()
                && rule(entry).flags & SLOW != 0
            {
                if matches!(entry.kind(), Type::INSTR_BUNDLE | Type::INSTR_MAYBE_FETCH) {
                    self.go_online(&entries[..entries.len() - rest.len()]);
                    break;
                }
                self.add_slow(entry);
                rest = &rest[1..];
            }
        }
        if self.is_online {
            rest.iter().for_each(|entry| self.add_slow(entry));
        } else if let Some(last) = last_instr(entries) {
            self.last_instr = Some(*last);
        }
    }

    /// Tells the state machine which instruction came last; from here on it sees every one itself.
    #[cold]
    fn go_online(&mut self, before: &[Entry]) {
        self.is_online = true;
        if let Some(last) = last_instr(before).copied().or(self.last_instr) {
            self.interp.executed(last.addr.get(), last.size.get());
        }
        if std::mem::take(&mut self.counter.pending_encoding) {
            self.counter.stray_encoding = true;
        }
    }

    /// Lets the state machine judge an entry that needs judgement.
    fn add_slow(&mut self, entry: &Entry) {
        let (kind, value) = (entry.kind(), entry.addr.get());
        // Chunks after the first do not repeat the header that says so.
        if kind == Type::MARKER && entry.size.get() == Marker::RECORD_ORDINAL.0 {
            self.interp.chunk_instrs = self.interp.chunk_instrs.max(1);
        }
        self.interp.begin_batch();
        self.interp.run(std::slice::from_ref(entry), &Limits::NONE, &mut self.counter);
        if kind == Type::THREAD {
            self.counter.note_thread(value);
        }
        if self.is_mixed && matches!(kind, Type::THREAD | Type::THREAD_EXIT) {
            self.counter.select_part(value);
        }
    }

    /// Adds the counts of the chunks right behind these.
    pub(crate) fn append(&mut self, later: Tally) {
        self.counter.append(later.counter);
    }
}

impl Counter {
    fn new(tid: u64) -> Counter {
        let mut counter = Counter {
            parts: vec![Part::new(tid)],
            tids: FxHashSet::default(),
            filetype: FileType::default(),
            part: 0,
            pending_encoding: false,
            stray_encoding: false,
            seen: vec![0; SEEN].into_boxed_slice(),
        };
        counter.forget_seen();
        counter
    }

    /// Counts common entries up to the first that is not; returns how many.
    fn add_run(&mut self, entries: &[Entry], is_kernel: bool) -> usize {
        let mut packed = 0u64;
        let mut encodings = 0u64;
        let mut pending = u64::from(self.pending_encoding);
        let mut n = 0;
        let seen: &mut [u64; SEEN] = match self.seen.as_mut().try_into() {
            Ok(seen) => seen,
            // The table is made with this very length.
            Err(_) => return 0,
        };
        let sums = self.parts[self.part].current();
        for entry in entries {
            let rule = rule(entry);
            if rule.flags & SLOW != 0 {
                break;
            }
            n += 1;
            let (size, addr) = (entry.size.get(), entry.addr.get());
            let is_sized = rule.flags & SIZED != 0;
            let is_visible = !is_sized | (size != 0);
            packed += rule.add & u64::from(is_visible).wrapping_neg();
            let executed = u64::from(is_sized & is_visible);
            encodings += pending & executed;
            pending = (pending & !executed) | u64::from(rule.flags & ENCODING != 0);
            let slot = slot(addr);
            if (rule.flags & FETCHED != 0) & is_visible & (seen[slot] != addr) {
                seen[slot] = addr;
                sums.pcs.insert(addr);
            }
        }
        self.pending_encoding = pending != 0;
        let lane = |sum: Sum| (packed >> (LANE_BITS * sum as usize)) & MAX_RUN as u64;
        for sum in [Sum::Instrs, Sum::NoFetch, Sum::Loads, Sum::Stores, Sum::Prefetches] {
            sums.add(sum, lane(sum));
        }
        sums.add(Sum::Encodings, encodings);
        if is_kernel {
            sums.add(Sum::KernelInstrs, lane(Sum::Instrs));
            sums.add(Sum::KernelNoFetch, lane(Sum::NoFetch));
        }
        n
    }

    fn note_thread(&mut self, tid: u64) {
        if tid != 0 && tid != IDLE_THREAD {
            self.tids.insert(tid);
        }
    }

    fn select_part(&mut self, tid: u64) {
        if self.parts.len() == 1 && self.parts[0] == Part::new(self.parts[0].tid) {
            self.parts[0].tid = tid;
        }
        let part = match self.parts.iter().position(|part| part.tid == tid) {
            Some(part) => part,
            None => {
                self.parts.push(Part::new(tid));
                self.parts.len() - 1
            }
        };
        if part != self.part {
            self.part = part;
            self.forget_seen();
        }
    }

    /// Other sums know nothing of the addresses in the filter.
    fn forget_seen(&mut self) {
        self.seen.fill(u64::MAX);
        // The one slot where the filler would be taken for an address.
        self.seen[slot(u64::MAX)] = 0;
    }

    fn count(&mut self, sum: Sum) {
        self.parts[self.part].current().add(sum, 1);
    }

    /// A new window starts new sums; the first number is that of the sums so far.
    fn window(&mut self, id: u64) {
        let windows = &mut self.parts[self.part].windows;
        match windows.last_mut() {
            Some(last) if last.id.is_none() => last.id = Some(id),
            Some(last) if last.id == Some(id) => {}
            _ => {
                windows.push(WindowSums { id: Some(id), sums: Sums::default() });
                self.forget_seen();
            }
        }
    }

    fn append(&mut self, later: Counter) {
        self.tids.extend(later.tids);
        self.filetype = self.filetype.or(later.filetype);
        for part in later.parts {
            let mine = match self.parts.iter_mut().find(|mine| mine.tid == part.tid) {
                Some(mine) => mine,
                None => {
                    self.parts.push(Part { tid: part.tid, windows: Vec::new() });
                    continue_with_last(&mut self.parts)
                }
            };
            for window in part.windows {
                match mine.windows.last_mut() {
                    // A window without a number goes on with the one before.
                    Some(last) if window.id.is_none() || window.id == last.id => {
                        last.sums.merge(&window.sums)
                    }
                    _ => mine.windows.push(window),
                }
            }
        }
    }
}

/// The part just pushed.
fn continue_with_last(parts: &mut [Part]) -> &mut Part {
    let last = parts.len() - 1;
    &mut parts[last]
}

/// The last entry that executes an instruction.
fn last_instr(entries: &[Entry]) -> Option<&Entry> {
    entries.iter().rfind(|entry| entry.kind().is_any_instr() && entry.size.get() != 0)
}

#[inline]
fn rule(entry: &Entry) -> Rule {
    // The last rule is slow, as is that of every number between the known types and it.
    RULES[usize::from(entry.kind.get()).min(RULES.len() - 1)]
}

/// Counts what the state machine hands out for entries that are not counted in bulk.
impl Sink for Counter {
    fn instr(&mut self, cx: &Interp, instr: Instr<'_>) {
        let is_new = instr.encoding.is_some() | std::mem::take(&mut self.stray_encoding);
        let fetched = instr.kind != Type::INSTR_NO_FETCH;
        self.count(if fetched { Sum::Instrs } else { Sum::NoFetch });
        if cx.is_kernel {
            self.count(if fetched { Sum::KernelInstrs } else { Sum::KernelNoFetch });
        }
        if is_new {
            self.count(Sum::Encodings);
        }
        if fetched {
            let part = self.part;
            self.parts[part].current().pcs.insert(instr.pc);
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

    fn marker(&mut self, _: &Interp, kind: Marker, value: u64) {
        match kind {
            Marker::WINDOW_ID => self.window(value),
            Marker::FILETYPE => self.filetype = self.filetype.or(FileType(value)),
            // The second half of a pair that its first half counts.
            Marker::VIRTUAL_ADDRESS => return,
            _ => {}
        }
        self.count(match kind {
            Marker::TIMESTAMP | Marker::CPU_ID => Sum::Timestamps,
            Marker::CORE_IDLE => Sum::Idles,
            Marker::CORE_WAIT => Sum::Waits,
            Marker::KERNEL_EVENT | Marker::KERNEL_XFER => Sum::KernelTransfers,
            Marker::HARDWARE_EVENT | Marker::HARDWARE_CONTEXT_RETURN => Sum::HardwareTransfers,
            Marker::FUNC_ID => Sum::FuncIds,
            Marker::FUNC_RETADDR => Sum::FuncRetaddrs,
            Marker::FUNC_ARG => Sum::FuncArgs,
            Marker::FUNC_RETVAL => Sum::FuncRetvals,
            Marker::PHYSICAL_ADDRESS => Sum::PhysicalPairs,
            Marker::PHYSICAL_ADDRESS_NOT_AVAILABLE => Sum::PhysicalMissing,
            Marker::SYSCALL => Sum::Syscalls,
            Marker::MAYBE_BLOCKING_SYSCALL => Sum::BlockingSyscalls,
            Marker::SKIPPED_MEMREF => Sum::Skipped,
            _ => Sum::Others,
        });
    }

    fn exit(&mut self, cx: &Interp) {
        self.note_thread(cx.tid);
    }

    fn finding(&mut self, _: &Interp, _: usize, _: &'static str, _: Severity, _: String) {
        // The reader tells what is wrong with the bytes; counting twice would tell it twice.
    }
}
