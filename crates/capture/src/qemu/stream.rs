//! What happened → entries: instructions with their accesses, outcomes of branches, clock readings, system calls.
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

/// Entries that are handed on together.
const FLUSH_ENTRIES: usize = 16 << 10;
/// Entries of a block that are put together before they are appended.
const SCRATCH: usize = 256;
/// Entries that wait for the end of a signal's handler, at most: 12 MB.
const MOST_WAITING: usize = 1 << 20;
/// A system call's largest error number.
const MAX_ERRNO: i64 = 4095;

/// What came after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another one, which begins here.
    Pc(u64),
    /// Its last instruction called the system.
    Syscall,
    /// Unknown: the thread was ended from outside.
    End,
}

/// How the last of the instructions that are written went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// It is as it stands in the block.
    Plain,
    Taken,
    Untaken,
    /// It went to this address.
    To(u64),
    /// Where it went will be known when the signal's handler returns.
    Open,
}

/// The entries of one thread.
pub(crate) struct Stream<'r> {
    target: Target<'r>,
    gate: &'r Gate,
    pub(super) out: Vec<Entry>,
    /// The accesses of the present block.
    pub(crate) accesses: Vec<Access>,
    /// The entries of the present block.
    scratch: Box<[Entry; SCRATCH]>,
    /// In which chunk each block was last written with care, by number; 0 for none.
    seen: Vec<u32>,
    /// The present chunk.
    chunk: u32,
    /// Ranges of `out` that are final.
    runs: Vec<Settled>,
    /// The encodings that were written.
    codes: FxHashMap<u64, ([u8; 16], u8)>,
    /// The string operation whose next iterations may come.
    repeats_at: Option<u64>,
    /// A clock reading that waits for its place.
    reading: Option<(u64, u64)>,
    /// The last one that was written.
    written: (u64, u64),
    has_begun: bool,
    /// The last instruction was written, and not passed over.
    pub(super) was_written: bool,
    window: Option<u64>,
    /// The last instruction that was written is a branch, of a window.
    is_behind_branch: bool,
    /// Where execution continues after a system call or a handler.
    expected: Option<Expected>,
    pub(super) events: Events,
}

/// Entries of blocks that were written in the present chunk before.
#[derive(Clone, Debug)]
struct Settled {
    /// Their places.
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
            expected: None,
            events: Events::default(),
        }
    }

    /// What system calls mean here.
    pub(crate) fn calls(&self) -> Calls {
        self.target.calls
    }

    /// True if the last instruction was written.
    pub(crate) fn was_written(&self) -> bool {
        self.was_written
    }

    /// Clock and processor were read.
    pub(crate) fn clock(&mut self, micros: u64, cpu: u64) {
        self.reading = Some((micros, cpu));
    }

    /// Execution continued elsewhere, unseen.
    pub(crate) fn lose(&mut self) {
        (self.expected, self.repeats_at) = (None, None);
    }

    /// A block is left.
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

    /// True if every access was made that the block makes.
    fn is_complete(&self, block: &Block) -> bool {
        self.accesses.last().map_or(0, |access| access.instr + 1) >= block.last_owing
    }

    /// The instruction at which execution continues within a block that was given up there: it is to write to code, perhaps
    /// its own, and the emulator translates anew. Only of what surely is reported: else the access is one that is not.
    #[cold]
    fn resumes(&self, block: &Block, pc: u64) -> Option<usize> {
        let from = self.accesses.last().map_or(0, |access| usize::from(access.instr));
        let index = block.entries.iter().position(|entry| entry.addr.get() == pc)?;
        let op = block.ops.get(index)?;
        (index >= from && index > 0 && op.writes && op.is_reported && self.is_partial(op, index))
            .then_some(index)
    }

    /// A block is left for an address where none of its instructions goes, or not to its end.
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

    /// Leaves out accesses that are none of the block's: those that the emulator made after it, as when it delivered a
    /// signal, seem to be of an instruction before the last.
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

    /// Control went to a signal's handler, from this address if it is known.
    fn interrupt(&mut self, pc: Option<u64>, open: Option<Unresolved>, signals: u64) {
        if self.was_written {
            self.events.open(&mut self.out, pc, open, signals);
        } else {
            self.events.open_unwritten();
        }
    }

    /// How many instructions of a block were surely executed to their end.
    fn n_certain(&self, block: &Block) -> usize {
        let Some(last) = self.accesses.last() else { return 0 };
        let index = usize::from(last.instr);
        let is_whole = block.ops.get(index).is_some_and(|op| !self.is_partial(op, index));
        let n = index + usize::from(is_whole);
        // Where the last one goes is not known.
        if n == block.ops.len() && !matches!(block.exit, Exit::Through | Exit::Direct(_)) { n - 1 } else { n }
    }

    /// True if an instruction did not make all accesses that it owes.
    fn is_partial(&self, op: &Op, index: usize) -> bool {
        let made = self.accesses.iter().filter(|access| usize::from(access.instr) == index);
        let made = made.fold(0, |bits, access| bits | access.direction);
        (op.reads && made & 1 == 0) || (op.writes && made & 2 == 0)
    }

    /// The instruction at which a block ended that was not executed to its end.
    fn fault(&self, block: &Block, signals: u64) -> Option<usize> {
        /// SIGILL, SIGTRAP and SIGFPE: no access has to fail for these.
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

    /// A further execution of a string operation.
    fn iterate(&mut self, block: &Block, next: Next, process: &Process) {
        if !self.accesses.is_empty() && self.was_written {
            let len = u16::from(block.ops[0].len);
            self.out.push(Entry::new(Type::INSTR_NO_FETCH, len, block.pc));
            push_data(&mut self.out, &block.ops[0], &self.accesses);
        }
        match next {
            // The last execution only finds that there is nothing to do.
            Next::Pc(pc) if pc == block.end => {}
            Next::Pc(pc) if pc == block.pc => self.repeats_at = Some(pc),
            Next::Pc(pc) => {
                let open = Unresolved::new(None, block.pc);
                self.interrupt(None, Some(open), process.signals_at(pc));
            }
            Next::Syscall | Next::End => {}
        }
    }

    /// Execution continues, with no block before.
    pub(crate) fn arrive(&mut self, pc: u64, process: &Process) {
        match self.expected.take() {
            Some(Expected::Behind(end)) if end != pc => {
                let open = Unresolved::new(None, end);
                self.interrupt(None, Some(open), process.signals_at(pc));
            }
            Some(Expected::Anywhere) => match process.signals_at(pc) {
                0 => self.events.close(&mut self.out, pc),
                // The next signal comes before the first instruction.
                signals => self.events.reopen(&mut self.out, signals),
            },
            _ => {}
        }
    }

    /// A system call ends, if nothing happens, at this address.
    pub(crate) fn expect(&mut self, end: u64) {
        self.expected = Some(Expected::Behind(end));
    }

    /// A handler returns by a system call that ends at this address.
    pub(crate) fn go_back(&mut self, end: u64) {
        if self.was_written {
            self.out.push(Entry::marker(Marker::KERNEL_XFER, end));
        }
        self.expected = Some(Expected::Anywhere);
    }

    /// A system call begins.
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

    /// A system call ends.
    pub(crate) fn result(&mut self, number: u32, result: i64) {
        self.out.push(Entry::marker(Marker::FUNC_ID, self.target.func_base + u64::from(number)));
        self.out.push(Entry::marker(Marker::FUNC_RETVAL, result.cast_unsigned()));
        if (-MAX_ERRNO..0).contains(&result) {
            self.out.push(Entry::marker(Marker::SYSCALL_FAILED, result.unsigned_abs()));
        }
    }

    /// Clock and processor, written at once.
    pub(crate) fn pair(&mut self, micros: u64, cpu: u64) {
        self.reading = None;
        // The clock may be set back; time in a trace never is.
        let time = (micros + UNIX_EPOCH_MICROS).max(self.written.0);
        self.written = (time, cpu);
        self.out.push(Entry::marker(Marker::TIMESTAMP, time));
        if let Some(window) = self.window {
            self.out.push(Entry::marker(Marker::WINDOW_ID, window));
        }
        self.out.push(Entry::marker(Marker::CPU_ID, cpu));
    }

    /// Writes the first `n` instructions of a block as far as they are wanted; gives the place of the first entry of the
    /// last one.
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
        let skip = if self.gate.has_begun() { Some(0) } else { self.gate.begins(pcs) };
        let Some(skip) = skip.filter(|skip| *skip < n) else {
            self.was_written &= n == 0;
            return Ok(from);
        };
        let (first, wanted) = self.gate.pass((n - skip) as u64);
        let is_branch = n == block.ops.len() && block.exit != Exit::Through && last != Last::Open;
        let mut start = skip;
        // A branch stands next to its successor, so that its window ends after that.
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
                        self.enter(window)?;
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

    /// The next instruction is written, and belongs to this window.
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

    /// Begins the file, with the first instruction that is written.
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

    /// Writes instructions of a block. Gives the place of the first entry of the last one.
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

    /// The instructions before `end` with their accesses, each of which is an operand. Gives how many accesses these are, and
    /// how many instructions made any that owe some.
    ///
    /// PERF: entries go one by one to a place that is always the same, and from there all at once: a copy of what lies between
    /// two accesses is a call for a few bytes.
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

    /// The same, of whatever kind the accesses are.
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

    /// The entries from `start` on need no second look.
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

    /// As the fast way, with encodings where they are due, and a marker where an access is missing.
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
        // Clock readings stand before branches, but not after others.
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

    /// The accesses of one instruction, from this place on; gives their number.
    fn data(&mut self, block: &Block, index: usize, at: usize) -> usize {
        let rest = self.accesses.get(at..).unwrap_or_default();
        let op = &block.ops[index];
        if rest.first().is_some_and(|access| usize::from(access.instr) == index) {
            return push_data(&mut self.out, op, rest);
        }
        if op.owes {
            // Prefetches and the like: the emulator does not say where.
            self.out.push(Entry::marker(Marker::SKIPPED_MEMREF, 0));
        }
        0
    }

    /// The encoding of an instruction, unless readers have it.
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

    /// Hands on what does not wait for a handler's end.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.events.is_waiting() {
            if self.out.len() < MOST_WAITING {
                return Ok(());
            }
            self.give_up();
        }
        let mut from = 0;
        for Settled { range, instrs, targets } in self.runs.drain(..) {
            let (start, end) = (range.start, range.end);
            self.target.push(self.out.get(from..start).unwrap_or_default())?;
            let entries = self.out.get(range).unwrap_or_default();
            // Where another chunk has begun meanwhile, encodings may have to be repeated.
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

    /// Writes what waits for handlers that never return as far as it is known.
    fn give_up(&mut self) {
        if self.events.give_up(&mut self.out) {
            // Encodings went with branches whose outcome is unknown.
            self.codes.clear();
            self.seen.clear();
            // What is after them moved.
            self.runs.clear();
        }
    }

    /// Ends the file; `None` if not one instruction was written.
    ///
    /// # Errors
    /// `Io` if it cannot be written.
    pub(crate) fn finish(mut self) -> Result<Option<Written>> {
        if !self.has_begun {
            return Ok(None);
        }
        self.give_up();
        self.out.push(Entry::new(Type::THREAD_EXIT, 4, self.target.tid));
        self.out.push(Entry::new(Type::FOOTER, 0, 0));
        self.flush()?;
        self.target.finish()
    }
}

/// Writes the accesses of one instruction, which stand first in `accesses`: reads before writes, pieces joined to
/// operands. Gives how many pieces there are.
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

/// Gives out the accesses of one instruction, each an operand of its own; their number.
#[inline(always)]
fn each_access(op: &Op, accesses: &[Access], put: &mut impl FnMut(Entry)) -> usize {
    let Some(first) = accesses.first() else { return 0 };
    let mut n = 0;
    let mut left = op.directions;
    for access in accesses {
        if access.instr != first.instr {
            break;
        }
        // Conditional stores are made with a read before, which the program knows nothing of; and after the instruction
        // the emulator may access memory for itself, as when it delivers a signal.
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
