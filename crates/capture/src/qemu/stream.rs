//! Turns a thread's history into entries: instructions with their accesses, branch outcomes, clock readings, system calls.
//!
//! SPEC: drmemtrace.md#grammar-of-a-file, drmemtrace.md#writing.

use super::code::{Block, Exit, Op};
use super::events::{Events, Unresolved};
use super::process::Process;
use super::syscalls::Calls;
use super::target::Target;
use crate::limits::{Gate, Wanted};
use quipu_drmemtrace::record::{Entry, Marker, Type, UNIX_EPOCH_MICROS};
use quipu_drmemtrace::write::threads::{Run, Written};
use quipu_model::Result;
use quipu_ring::qemu::Access;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Number of entries after which they are passed on.
const FLUSH_ENTRIES: usize = 16 << 10;
/// Most entries of a block that are collected before they are appended.
const SCRATCH: usize = 256;
/// Most entries that wait for the end of a signal handler: 12 MB.
const MOST_WAITING: usize = 1 << 20;
/// Largest error number of a system call.
const MAX_ERRNO: i64 = 4095;

/// What follows a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another block, which starts at this address.
    Pc(u64),
    /// A system call by its last instruction.
    Syscall,
    /// Unknown: the thread was ended from outside.
    End,
}

/// Outcome of the last instruction to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// As its entry in the block says.
    Plain,
    Taken,
    Untaken,
    /// Control went to this address.
    To(u64),
    /// Becomes known when the signal handler returns.
    Open,
}

/// Builds the entries of one thread.
pub(crate) struct Stream<'r> {
    target: Target<'r>,
    gate: &'r Gate,
    pub(super) out: Vec<Entry>,
    /// Accesses of the current block.
    pub(crate) accesses: Vec<Access>,
    /// Buffer for the entries of the current block.
    scratch: Box<[Entry; SCRATCH]>,
    /// For each block, by number: the last chunk in which it was written as a whole; 0 for none.
    seen: Vec<u32>,
    /// The current chunk.
    chunk: u32,
    /// Ranges of `out` that are final.
    runs: Vec<Settled>,
    /// Encodings written so far, by address.
    codes: FxHashMap<u64, ([u8; 16], u8)>,
    /// Address of the string operation that may continue with further iterations.
    repeats_at: Option<u64>,
    /// A clock reading that has not been written yet.
    reading: Option<(u64, u64)>,
    /// The last reading that was written.
    written: (u64, u64),
    has_begun: bool,
    /// Whether the last instruction was recorded.
    pub(super) was_written: bool,
    window: Option<u64>,
    /// Whether the last recorded instruction is a branch in a window.
    is_behind_branch: bool,
    /// For each block, by number: whether its code is recorded.
    kept: FxHashMap<u32, bool>,
    /// Whether the last block was of code that is recorded.
    is_inside: bool,
    /// How often execution has left code that is recorded.
    n_gaps: u64,
    /// Where execution is expected to continue after a system call or a handler.
    expected: Option<Expected>,
    pub(super) events: Events,
}

/// Entries of blocks that the current chunk already contains.
#[derive(Clone, Debug)]
struct Settled {
    /// Their indices in `out`.
    range: Range<usize>,
    instrs: u64,
    targets: u64,
}

#[derive(Clone, Copy, Debug)]
enum Expected {
    Behind(u64),
    Anywhere,
}

impl<'r> Stream<'r> {
    pub(crate) fn new(target: Target<'r>, gate: &'r Gate) -> Stream<'r> {
        Stream {
            target,
            gate,
            out: Vec::with_capacity(2 * FLUSH_ENTRIES),
            accesses: Vec::new(),
            scratch: Box::new([Entry::new(Type::INSTR, 0, 0); SCRATCH]),
            seen: Vec::new(),
            chunk: 0,
            runs: Vec::new(),
            codes: FxHashMap::default(),
            repeats_at: None,
            reading: None,
            written: (0, u64::MAX),
            has_begun: false,
            was_written: false,
            window: None,
            is_behind_branch: false,
            kept: FxHashMap::default(),
            is_inside: false,
            n_gaps: 0,
            expected: None,
            events: Events::default(),
        }
    }

    /// The system calls of this architecture.
    pub(crate) fn calls(&self) -> Calls {
        self.target.calls
    }

    /// Whether the last instruction was recorded.
    pub(crate) fn was_written(&self) -> bool {
        self.was_written
    }

    /// Notes a reading of the clock and the processor.
    pub(crate) fn clock(&mut self, micros: u64, cpu: u64) {
        self.reading = Some((micros, cpu));
    }

    /// Whether the thread is so far ahead of others that it has to wait.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn is_ahead(&self) -> Result<bool> {
        self.target.is_ahead()
    }

    /// Notes that the thread waited in a system call at this time.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn rest(&self, now: u64) -> Result<()> {
        self.target.rest(now)
    }

    /// Notes that execution continues at an unknown place.
    pub(crate) fn lose(&mut self) {
        (self.expected, self.repeats_at) = (None, None);
    }

    /// Processes the end of a block.
    #[inline]
    pub(crate) fn leave(&mut self, block: &Block, number: u32, next: Next, process: &Process) -> Result<()> {
        if let Some(pc) = self.repeats_at.take()
            && pc == block.pc
            && block.ops.len() == 1
        {
            self.iterate(block, next, process);
            return self.flush_if_full();
        }
        let n = block.ops.len();
        let last = match (next, block.exit) {
            (Next::Pc(pc), Exit::Conditional(target)) if pc == target => Last::Taken,
            (Next::Pc(pc), Exit::Conditional(_)) if pc == block.end => Last::Untaken,
            (Next::Pc(pc), Exit::Direct(target)) if pc == target => Last::Plain,
            (Next::Pc(pc), Exit::Through | Exit::Unknown) if pc == block.end => Last::Plain,
            (Next::Pc(pc), Exit::Indirect | Exit::Unknown)
                if process.signals_at(pc) == 0
                    && (self.is_complete(block) || self.resumes(block, pc).is_none()) =>
            {
                Last::To(pc)
            }
            (Next::Syscall, _) => Last::Plain,
            _ => return self.leave_oddly(block, number, next, process),
        };
        self.emit(block, number, n, last)?;
        if block.ops.last().is_some_and(|op| op.repeats) {
            self.repeats_at = Some(block.pc_of(n - 1));
        }
        self.flush_if_full()
    }

    /// Whether the block made all of its accesses.
    fn is_complete(&self, block: &Block) -> bool {
        self.accesses.last().map_or(0, |access| access.instr + 1) >= block.last_owing
    }

    /// The instruction at which the emulator abandoned the block and continued: it is about to write to code, perhaps its
    /// own, so the emulator translates again. Only considers instructions whose accesses are reported; otherwise the missing
    /// access may be an unreported one.
    #[cold]
    fn resumes(&self, block: &Block, pc: u64) -> Option<usize> {
        let from = self.accesses.last().map_or(0, |access| usize::from(access.instr));
        let index = block.entries.iter().position(|entry| entry.addr.get() == pc)?;
        let op = block.ops.get(index)?;
        (index >= from && index > 0 && op.writes && op.is_reported && self.is_partial(op, index))
            .then_some(index)
    }

    /// Processes the end of a block that stopped early, or whose successor is none of the exit's destinations.
    #[cold]
    fn leave_oddly(&mut self, block: &Block, number: u32, next: Next, process: &Process) -> Result<()> {
        let n = block.ops.len();
        self.forget_strangers(n);
        let Next::Pc(pc) = next else {
            let n = self.n_certain(block);
            self.emit(block, number, n, Last::Plain)?;
            return self.flush_if_full();
        };
        let last_pc = block.pc_of(n - 1);
        if pc == last_pc && block.ops.last().is_some_and(|op| op.repeats) {
            self.emit(block, number, n, Last::Plain)?;
            self.repeats_at = Some(last_pc);
            return self.flush_if_full();
        }
        let signals = process.signals_at(pc);
        if signals == 0
            && let Some(n) = self.resumes(block, pc)
        {
            self.emit(block, number, n, Last::Plain)?;
            return self.flush_if_full();
        }
        if let Some(fault) = self.fault(block, signals) {
            self.emit(block, number, fault, Last::Plain)?;
            if self.was_written {
                let op = &block.ops[fault];
                let mut first = [0; 8];
                first.copy_from_slice(&op.bytes[..8]);
                let marker = Entry::marker(Marker::UNCOMPLETED_INSTRUCTION, u64::from_le_bytes(first));
                self.out.push(marker);
            }
            self.interrupt(Some(block.pc_of(fault)), None, signals);
        } else {
            let known = match block.exit {
                Exit::Through if !block.ops.last().is_some_and(|op| op.repeats) => Some(block.end),
                Exit::Direct(target) => Some(target),
                _ => None,
            };
            let is_branch = matches!(block.exit, Exit::Conditional(_) | Exit::Indirect);
            let from = self.emit(block, number, n, if is_branch { Last::Open } else { Last::Plain })?;
            let target = if let Exit::Conditional(target) = block.exit { Some(target) } else { None };
            let branch = (is_branch && self.was_written).then_some((from, target));
            let fallback = if is_branch { last_pc } else { block.end };
            match known {
                Some(pc) => self.interrupt(Some(pc), None, signals),
                None => self.interrupt(None, Some(Unresolved::new(branch, fallback)), signals),
            }
        }
        self.flush_if_full()
    }

    /// Removes accesses that do not belong to the block. The emulator makes some after the block, for example to deliver a
    /// signal; their instruction numbers go backwards.
    fn forget_strangers(&mut self, n: usize) {
        let mut latest = 0;
        let strange = self.accesses.iter().position(|access| {
            let is_strange = access.instr < latest || usize::from(access.instr) >= n;
            latest = access.instr;
            is_strange
        });
        if let Some(at) = strange {
            self.accesses.truncate(at);
        }
    }

    /// Notes a jump to a signal handler, from address `pc` if it is known.
    fn interrupt(&mut self, pc: Option<u64>, open: Option<Unresolved>, signals: u64) {
        if self.was_written {
            self.events.open(&mut self.out, pc, open, signals);
        } else {
            self.events.open_unwritten();
        }
    }

    /// Number of the block's instructions that certainly completed.
    fn n_certain(&self, block: &Block) -> usize {
        let Some(last) = self.accesses.last() else { return 0 };
        let index = usize::from(last.instr);
        let is_whole = block.ops.get(index).is_some_and(|op| !self.is_partial(op, index));
        let n = index + usize::from(is_whole);
        // The destination of the last one is unknown.
        if n == block.ops.len() && !matches!(block.exit, Exit::Through | Exit::Direct(_)) { n - 1 } else { n }
    }

    /// Whether an instruction did not make all accesses that it always makes.
    fn is_partial(&self, op: &Op, index: usize) -> bool {
        let made = self.accesses.iter().filter(|access| usize::from(access.instr) == index);
        let made = made.fold(0, |bits, access| bits | access.direction);
        (op.reads && made & 1 == 0) || (op.writes && made & 2 == 0)
    }

    /// The instruction that did not complete and so ended the block.
    fn fault(&self, block: &Block, signals: u64) -> Option<usize> {
        /// SIGILL, SIGTRAP and SIGFPE: these do not require a failed access.
        const TRAPS: u64 = 1 << 4 | 1 << 5 | 1 << 8;
        /// SIGBUS and SIGSEGV.
        const FAULTS: u64 = 1 << 7 | 1 << 11;
        let from = self.accesses.last().map_or(0, |access| usize::from(access.instr));
        let rest = || block.ops.iter().enumerate().skip(from);
        let (can_trap, can_fault) = (signals & TRAPS != 0, signals & FAULTS != 0);
        // QEMU never reports some accesses, so one of those may have faulted. An access that should have been reported and was
        // not did fault, and comes first.
        let owing = rest().filter(|(i, op)| can_fault && op.owes && self.is_partial(op, *i));
        let sure = owing.clone().find(|(_, op)| op.is_reported).map(|(i, _)| i);
        let owing = sure.or_else(|| owing.map(|(i, _)| i).next());
        let trap = rest().find(|(_, op)| can_trap && op.may_trap).map(|(i, _)| i);
        [owing, trap].into_iter().flatten().min()
    }

    /// A further iteration of a string operation.
    fn iterate(&mut self, block: &Block, next: Next, process: &Process) {
        if !self.accesses.is_empty() && self.was_written {
            let len = u16::from(block.ops[0].len);
            self.out.push(Entry::new(Type::INSTR_NO_FETCH, len, block.pc));
            push_data(&mut self.out, &block.ops[0], &self.accesses);
        }
        match next {
            // The final execution only finds that nothing is left to do.
            Next::Pc(pc) if pc == block.end => {}
            Next::Pc(pc) if pc == block.pc => self.repeats_at = Some(pc),
            Next::Pc(pc) => {
                let open = Unresolved::new(None, block.pc);
                self.interrupt(None, Some(open), process.signals_at(pc));
            }
            Next::Syscall | Next::End => {}
        }
    }

    /// Notes that execution continues at `pc`, without a block before it.
    pub(crate) fn arrive(&mut self, pc: u64, process: &Process) {
        match self.expected.take() {
            Some(Expected::Behind(end)) if end != pc => {
                let open = Unresolved::new(None, end);
                self.interrupt(None, Some(open), process.signals_at(pc));
            }
            Some(Expected::Anywhere) => match process.signals_at(pc) {
                0 => self.events.close(&mut self.out, pc),
                // Another signal is delivered before the first instruction.
                signals => self.events.reopen(&mut self.out, signals),
            },
            _ => {}
        }
    }

    /// Sets the address at which a system call will return if no signal interrupts it.
    pub(crate) fn expect(&mut self, end: u64) {
        self.expected = Some(Expected::Behind(end));
    }

    /// Notes that a handler returns with a system call that ends at this address.
    pub(crate) fn go_back(&mut self, end: u64) {
        if self.was_written {
            self.out.push(Entry::marker(Marker::KERNEL_XFER, end));
        }
        self.expected = Some(Expected::Anywhere);
    }

    /// Writes the start of a system call.
    pub(crate) fn call(&mut self, number: u32, args: &[u64]) {
        self.out.push(Entry::marker(Marker::SYSCALL, u64::from(number)));
        if self.target.calls.may_block(number) {
            self.out.push(Entry::marker(Marker::MAYBE_BLOCKING_SYSCALL, 0));
        }
        if !args.is_empty() {
            self.out.push(Entry::marker(Marker::FUNC_ID, self.target.func_base + u64::from(number)));
            self.out.extend(args.iter().map(|value| Entry::marker(Marker::FUNC_ARG, *value)));
        }
    }

    /// Writes the result of a system call.
    pub(crate) fn result(&mut self, number: u32, result: i64) {
        self.out.push(Entry::marker(Marker::FUNC_ID, self.target.func_base + u64::from(number)));
        self.out.push(Entry::marker(Marker::FUNC_RETVAL, result.cast_unsigned()));
        if (-MAX_ERRNO..0).contains(&result) {
            self.out.push(Entry::marker(Marker::SYSCALL_FAILED, result.unsigned_abs()));
        }
    }

    /// Writes clock and processor immediately.
    pub(crate) fn pair(&mut self, micros: u64, cpu: u64) {
        self.reading = None;
        // The system clock may be set back; time in a trace never decreases.
        let time = (micros + UNIX_EPOCH_MICROS).max(self.written.0);
        self.written = (time, cpu);
        self.out.push(Entry::marker(Marker::TIMESTAMP, time));
        if let Some(window) = self.window {
            self.out.push(Entry::marker(Marker::WINDOW_ID, window));
        }
        self.out.push(Entry::marker(Marker::CPU_ID, cpu));
    }

    /// Writes those of the first `n` instructions of a block that are to be recorded. Returns the index of the first entry
    /// of the last one.
    #[inline]
    fn emit(&mut self, block: &Block, number: u32, n: usize, last: Last) -> Result<usize> {
        if self.gate.is_open {
            if n == 0 {
                return Ok(self.out.len());
            }
            self.begin()?;
            self.was_written = true;
            return Ok(self.write(block, number, 0..n, last));
        }
        self.emit_gated(block, number, n, last)
    }

    #[cold]
    fn emit_gated(&mut self, block: &Block, number: u32, n: usize, last: Last) -> Result<usize> {
        let mut from = self.out.len();
        let pcs = block.entries[..n].iter().map(|entry| entry.addr.get());
        let skip = if self.keeps(block, number) { self.gate.considers(pcs) } else { None };
        let is_branch = n == block.ops.len() && block.exit != Exit::Through && last != Last::Open;
        let Some(skip) = skip.filter(|skip| *skip < n) else {
            // The successor of a branch that a function, the clock or a signal has cut off.
            let is_owed = n > 0 && std::mem::take(&mut self.is_behind_branch) && !self.gate.is_over();
            if is_owed {
                let is_last = n == 1;
                from = self.write(block, number, 0..1, if is_last { last } else { Last::Plain });
                self.is_behind_branch = is_last && is_branch;
            }
            self.was_written &= n == 0 || is_owed && n == 1;
            return Ok(from);
        };
        let (first, wanted) = self.gate.pass((n - skip) as u64);
        // Between gaps in its code, each thread has windows of its own.
        let part = self.gate.has_names().then_some(self.n_gaps);
        let wanted = match (wanted, part) {
            (Wanted::All(_), Some(part)) => Wanted::All(part),
            (wanted, _) => wanted,
        };
        let mut start = skip;
        // A branch has to be followed by its successor, so its window includes that instruction.
        let goes_on = matches!(wanted, Wanted::All(window) if self.window == Some(window));
        if std::mem::take(&mut self.is_behind_branch) && !goes_on && !self.gate.is_over() {
            if wanted == Wanted::Some {
                self.gate.window_of(first);
            }
            start += 1;
            let is_last = start == n;
            self.was_written = true;
            from = self.write(block, number, skip..start, if is_last { last } else { Last::Plain });
            self.is_behind_branch = is_last && is_branch;
            if is_last {
                return Ok(from);
            }
        }
        match wanted {
            Wanted::Nothing => self.was_written = false,
            Wanted::All(window) => {
                self.enter(window)?;
                from = self.write(block, number, start..n, last);
            }
            Wanted::Some => {
                for i in start..n {
                    self.was_written &= i > skip;
                    if let Some(window) = self.gate.window_of(first + (i - skip) as u64) {
                        self.enter(part.unwrap_or(window))?;
                        let last = if i + 1 == n { last } else { Last::Plain };
                        from = self.write(block, number, i..i + 1, last);
                    } else {
                        self.was_written = false;
                    }
                }
            }
        }
        self.is_behind_branch = self.was_written && is_branch && self.gate.has_windows();
        Ok(from)
    }

    /// Whether code of a block is recorded, and no gap.
    fn keeps(&mut self, block: &Block, number: u32) -> bool {
        if !self.gate.has_names() {
            return true;
        }
        let gate = self.gate;
        let is_kept = *self.kept.entry(number).or_insert_with(|| gate.keeps(block.pc));
        let was_inside = std::mem::replace(&mut self.is_inside, is_kept);
        self.n_gaps += u64::from(was_inside && !is_kept);
        is_kept
    }

    /// Makes `window` the current window, before its next instruction is written.
    fn enter(&mut self, window: u64) -> Result<()> {
        let window = self.gate.has_windows().then_some(window);
        let is_new = self.window != window;
        self.window = window;
        let had_begun = self.has_begun;
        self.begin()?;
        if is_new && had_begun {
            let (micros, cpu) = self.reading.unwrap_or((self.written.0 - UNIX_EPOCH_MICROS, self.written.1));
            self.pair(micros, cpu);
        }
        self.was_written = true;
        Ok(())
    }

    /// Starts the file at the first recorded instruction.
    #[inline]
    fn begin(&mut self) -> Result<()> {
        if self.has_begun { Ok(()) } else { self.begin_file() }
    }

    #[cold]
    fn begin_file(&mut self) -> Result<()> {
        self.has_begun = true;
        let (micros, cpu) = self.reading.unwrap_or((0, u64::MAX));
        let mut header = self.target.begin()?;
        self.out.append(&mut header);
        self.pair(micros, cpu);
        self.chunk = self.target.chunk();
        Ok(())
    }

    /// Writes instructions of a block. Returns the index of the first entry of the last one.
    #[inline]
    fn write(&mut self, block: &Block, number: u32, range: Range<usize>, last: Last) -> usize {
        let start = self.out.len();
        let is_whole = range == (0..block.ops.len());
        let seen_in = self.seen.get(number as usize).copied().unwrap_or(0);
        let is_seen = seen_in != 0;
        let mut is_settled = is_whole && seen_in == self.chunk && self.reading.is_none();
        let end = range.end - 1;
        let mut at = 0;
        let mut n_made = 0;
        if is_seen && is_whole {
            (at, n_made) = if !block.has_pieces && end + 2 * self.accesses.len() < SCRATCH {
                self.write_plainly(block, end)
            } else {
                self.write_in_pieces(block, end)
            };
            n_made += u32::from(block.ops[end].owes && at < self.accesses.len());
        }
        if !is_seen || !is_whole || n_made < block.n_owing {
            self.out.truncate(start);
            at = self.write_carefully(block, range.start..end);
            is_settled = false;
        }
        if is_whole && seen_in != self.chunk {
            self.mark_seen(number);
        }
        let from = self.write_last(block, end, at, last, is_seen && is_whole);
        if is_settled && last != Last::Open {
            self.settle(start, block.ops.len() as u64, u64::from(matches!(last, Last::To(_))));
        }
        from
    }

    /// Writes the instructions before `end` with their accesses, each of which is an operand. Returns the number of these
    /// accesses, and the number of owing instructions that made any.
    ///
    /// PERF: entries are written one by one to a fixed buffer and copied from there at once: copying the part between two
    /// accesses would be a call for a few bytes.
    #[inline]
    fn write_plainly(&mut self, block: &Block, end: usize) -> (usize, u32) {
        let (mut at, mut n_made, mut from, mut n) = (0, 0, 0, 0);
        let (scratch, accesses) = (&mut *self.scratch, &self.accesses[..]);
        let mut put = |entry: Entry| {
            scratch[n % SCRATCH] = entry;
            n += 1;
        };
        while let Some(access) = accesses.get(at) {
            let index = usize::from(access.instr);
            if index >= end {
                break;
            }
            block.entries[from.min(index + 1)..=index].iter().for_each(|entry| put(*entry));
            from = index + 1;
            let op = &block.ops[index];
            n_made += u32::from(op.owes);
            at += each_access(op, &accesses[at..], &mut put);
        }
        block.entries[from.min(end)..end].iter().for_each(|entry| put(*entry));
        self.out.extend_from_slice(&scratch[..n.min(SCRATCH)]);
        (at, n_made)
    }

    /// The same for accesses of any kind.
    fn write_in_pieces(&mut self, block: &Block, end: usize) -> (usize, u32) {
        let (mut at, mut n_made, mut from) = (0, 0, 0);
        while let Some(access) = self.accesses.get(at) {
            let index = usize::from(access.instr);
            if index >= end {
                break;
            }
            self.out.extend_from_slice(block.entries.get(from..=index).unwrap_or_default());
            from = index + 1;
            n_made += u32::from(block.ops[index].owes);
            at += push_data(&mut self.out, &block.ops[index], &self.accesses[at..]);
        }
        self.out.extend_from_slice(block.entries.get(from..end).unwrap_or_default());
        (at, n_made)
    }

    /// Marks the entries from `start` on as final.
    #[inline]
    fn settle(&mut self, start: usize, instrs: u64, targets: u64) {
        let end = self.out.len();
        match self.runs.last_mut() {
            Some(run) if run.range.end == start => {
                run.range.end = end;
                run.instrs += instrs;
                run.targets += targets;
            }
            _ => self.runs.push(Settled { range: start..end, instrs, targets }),
        }
    }

    /// Slow path of `write`: adds encodings where needed, and a marker where an access is missing.
    #[cold]
    fn write_carefully(&mut self, block: &Block, range: Range<usize>) -> usize {
        let mut at = self.accesses.partition_point(|access| usize::from(access.instr) < range.start);
        for index in range {
            self.encode(block, index);
            self.out.push(block.entries[index]);
            at += self.data(block, index, at);
        }
        at
    }

    fn write_last(&mut self, block: &Block, index: usize, at: usize, last: Last, is_seen: bool) -> usize {
        let is_branch = block.exit != Exit::Through && index + 1 == block.ops.len();
        // Clock readings go before branches, and after other instructions.
        let reading = if is_branch && index == 0 { None } else { self.reading.take() };
        let reading = reading.filter(|(micros, cpu)| (micros + UNIX_EPOCH_MICROS, *cpu) != self.written);
        if let (true, Some((micros, cpu))) = (is_branch, reading) {
            self.pair(micros, cpu);
        }
        let from = self.out.len();
        if !is_seen {
            self.encode(block, index);
        }
        let mut entry = block.entries[index];
        match last {
            Last::Plain => {}
            Last::Taken => entry.kind = Type::INSTR_TAKEN_JUMP.0.into(),
            Last::Untaken => entry.kind = Type::INSTR_UNTAKEN_JUMP.0.into(),
            Last::To(pc) => {
                if entry.kind() == Type::INSTR {
                    entry.kind = Type::INSTR_INDIRECT_JUMP.0.into();
                }
                self.out.push(Entry::marker(Marker::BRANCH_TARGET, pc));
            }
            Last::Open if entry.kind() == Type::INSTR_CONDITIONAL_JUMP => {
                entry.kind = Type::INSTR_UNTAKEN_JUMP.0.into();
            }
            Last::Open => self.out.push(Entry::marker(Marker::BRANCH_TARGET, 0)),
        }
        self.out.push(entry);
        self.data(block, index, at);
        if let (false, Some((micros, cpu))) = (is_branch, reading) {
            self.pair(micros, cpu);
        }
        from
    }

    /// Writes the accesses of one instruction, from index `at` on; returns their number.
    fn data(&mut self, block: &Block, index: usize, at: usize) -> usize {
        let rest = self.accesses.get(at..).unwrap_or_default();
        let op = &block.ops[index];
        if rest.first().is_some_and(|access| usize::from(access.instr) == index) {
            return push_data(&mut self.out, op, rest);
        }
        if op.owes {
            // For prefetches and the like, the emulator does not report the address.
            self.out.push(Entry::marker(Marker::SKIPPED_MEMREF, 0));
        }
        0
    }

    /// Writes the encoding of an instruction, unless it has been written before.
    fn encode(&mut self, block: &Block, index: usize) {
        let op = &block.ops[index];
        let code = (op.bytes, op.len);
        if self.codes.insert(block.pc_of(index), code) == Some(code) {
            return;
        }
        for (i, piece) in op.bytes[..usize::from(op.len)].chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            debug_assert!(i < 2);
            self.out.push(Entry::new(Type::ENCODING, piece.len() as u16, u64::from_le_bytes(bytes))); // At most 8.
        }
    }

    #[cold]
    fn mark_seen(&mut self, number: u32) {
        let at = number as usize;
        if self.seen.len() <= at {
            self.seen.resize((at + 1).next_power_of_two(), 0);
        }
        self.seen[at] = self.chunk;
    }

    #[inline]
    fn flush_if_full(&mut self) -> Result<()> {
        if self.out.len() < FLUSH_ENTRIES { Ok(()) } else { self.flush() }
    }

    /// Passes on all entries that do not wait for the end of a handler.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.events.is_waiting() {
            if self.out.len() < MOST_WAITING {
                return Ok(());
            }
            self.give_up();
        }
        if self.target.makes_events() {
            // All entries are decoded anyway.
            self.runs.clear();
        }
        let mut from = 0;
        for Settled { range, instrs, targets } in self.runs.drain(..) {
            let (start, end) = (range.start, range.end);
            self.target.push(self.out.get(from..start).unwrap_or_default())?;
            let entries = self.out.get(range).unwrap_or_default();
            // If another chunk has started, encodings may have to be repeated.
            if self.target.chunk() == self.chunk {
                self.target.push_run(&Run { entries, instrs, targets })?;
            } else {
                self.target.push(entries)?;
            }
            from = end;
        }
        self.target.push(self.out.get(from..).unwrap_or_default())?;
        self.chunk = self.target.chunk();
        self.out.clear();
        self.gate.weigh();
        Ok(())
    }

    /// Stops waiting for handlers that never return, and completes their entries as far as possible.
    fn give_up(&mut self) {
        if self.events.give_up(&mut self.out) {
            // Removing branches with unknown outcome also removed encodings.
            self.codes.clear();
            self.seen.clear();
            // Later entries have moved.
            self.runs.clear();
        }
    }

    /// Ends the file or the events; `None` if no instruction was recorded. The inner value is what was written to a file.
    ///
    /// # Errors
    /// `Io` if it cannot be written; errors of the events' destination.
    pub(crate) fn finish(mut self) -> Result<Option<Option<Written>>> {
        if !self.has_begun {
            return Ok(None);
        }
        self.give_up();
        self.out.push(Entry::new(Type::THREAD_EXIT, 4, self.target.tid));
        self.out.push(Entry::new(Type::FOOTER, 0, 0));
        self.flush()?;
        self.target.finish().map(Some)
    }
}

/// Writes the accesses of one instruction, which are first in `accesses`: reads before writes, with pieces joined to
/// operands. Returns the number of pieces.
#[inline]
fn push_data(out: &mut Vec<Entry>, op: &Op, accesses: &[Access]) -> usize {
    let Some(first) = accesses.first() else { return 0 };
    if op.operands.is_some() {
        let n = accesses.iter().take_while(|access| access.instr == first.instr).count();
        super::pieces::join(out, op, &accesses[..n]);
        return n;
    }
    each_access(op, accesses, &mut |entry| out.push(entry))
}

/// Passes the accesses of one instruction to `put`, each as an operand of its own; returns their number.
#[inline(always)]
fn each_access(op: &Op, accesses: &[Access], put: &mut impl FnMut(Entry)) -> usize {
    let Some(first) = accesses.first() else { return 0 };
    let mut n = 0;
    let mut left = op.directions;
    for access in accesses {
        if access.instr != first.instr {
            break;
        }
        // The emulator implements conditional stores with an additional read, which the program does not make. After the
        // instruction, the emulator may access memory itself, for example to deliver a signal.
        let direction = access.direction & left;
        if op.is_plain {
            left &= !direction;
        }
        if direction & 1 != 0 {
            put(Entry::new(Type::READ, access.size, access.addr));
        }
        if direction & 2 != 0 {
            put(Entry::new(Type::WRITE, access.size, access.addr));
        }
        n += 1;
    }
    n
}
