//! Raising the version of a file: adds what later versions require, as far as the earlier one has the information (spec 5).
//!
//! | from, to | what is done | information that is missing, so that the file is refused |
//! |---|---|---|
//! | 1, 2 | | the architecture |
//! | 2, 3 | | addresses of interruptions and returns |
//! | 3, 4 | | |
//! | 4, 5 | outcomes and targets, from the next instruction; clock readings precede branches | turns of threads, kernel code |
//! | 5, 6 | | clock readings around system calls |
//! | 6, 7 | instructions interrupted at their address become markers | repeats and branches there, turns, filtered instructions |
//!
//! Nothing is invented: a file that would require it is refused, with a sentence that names the versions and the reason. A
//! branch that nothing follows, at the end or where a tracing window ends, has no outcome; it is left out, as in DynamoRIO's
//! converter.
//!
//! An instruction is held back, with the entries after it, until the next instruction or an interruption shows how it ended.

use crate::header::Header;
use crate::record::{
    Entry, FileType, Marker, NEWEST_VERSION, SYSCALL_FUNC_BASE, SYSCALL_FUNC_BASE_32, Type,
    VERSION_BRANCH_INFO, VERSION_FREQUENT_TIMESTAMPS, VERSION_KERNEL_PC,
};
use quipu_isa::{Arch, Class, Decoder, Syntax};
use quipu_model::{Error, Result};
use rustc_hash::FxHashMap;

/// The version from which on instructions that did not retire are markers.
const VERSION_RETIRED: u64 = 7;
/// The first version that states the architecture.
const VERSION_ARCH: u64 = 2;
/// Maximum number of entries between two instructions; real traces have some hundred.
const MAX_HELD: usize = 1 << 16;

/// The event that ended an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another instruction was executed at this address.
    Instr(u64),
    /// It was interrupted, or the instruction at this address was.
    Event(u64),
    /// Unknown.
    Gap,
}

/// The instruction at an address.
#[derive(Clone, Copy, Debug)]
struct Code {
    /// Its first eight bytes, or all if it is shorter, as a number.
    first: u64,
    is_syscall: bool,
    is_repeated: bool,
}

/// State of raising a file to a later version.
#[derive(Debug)]
pub(super) struct Raiser {
    from: u64,
    to: u64,
    /// Steps that require changes.
    events: bool,
    branches: bool,
    syscalls: bool,
    retired: bool,
    filetype: FileType,
    decoder: Option<Decoder>,
    /// Encodings by their instructions' addresses; filled only if a step needs them.
    codes: FxHashMap<u64, Code>,
    /// Encodings of instructions that became markers, for the next instruction at their address.
    owed: FxHashMap<u64, Vec<Entry>>,
    /// Entries that may belong to the next instruction.
    prefix: Vec<Entry>,
    /// An instruction with its prefix, and the entries since.
    held: Vec<Entry>,
    /// Position of the instruction in `held`.
    at: usize,
    tid: Option<u64>,
    window: Option<u64>,
    has_turns: bool,
    /// Number of entries read.
    pub(super) n_read: u64,
    /// Number of records, and of instructions among them, that were left out.
    pub(super) n_dropped: u64,
    pub(super) n_dropped_instrs: u64,
}

impl Raiser {
    /// Prepares to raise a file with this header to version `to`; `None` if it has that version.
    ///
    /// # Errors
    /// `Unsupported` if that is impossible.
    pub(super) fn new(header: &Header, to: u64) -> Result<Option<Raiser>> {
        let (from, filetype) = (header.version, header.filetype);
        if from == to {
            return Ok(None);
        }
        if !(VERSION_ARCH..=NEWEST_VERSION).contains(&to) || to < from {
            return Err(Error::unsupported(format!("version {from} cannot become version {to}"))
                .hint("versions are raised, to 7 at most; never lowered"));
        }
        if from < VERSION_ARCH {
            return Err(Error::unsupported(format!(
                "version {from} cannot become version {to}: it does not say for which architecture the code is"
            )));
        }
        let is_step = |version: u64| from < version && version <= to;
        let branches = is_step(VERSION_BRANCH_INFO) && !filetype.is_ifiltered();
        let (syscalls, retired) = (is_step(VERSION_FREQUENT_TIMESTAMPS), is_step(VERSION_RETIRED));
        let has_code = filetype.any(FileType::ENCODINGS) && !filetype.any(FileType::ARCH_REGDEPS);
        let arch = filetype.arch().filter(|arch| *arch != Arch::Regdeps && has_code && (syscalls || retired));
        let raiser = Raiser {
            from,
            to,
            events: is_step(VERSION_KERNEL_PC),
            branches,
            syscalls,
            retired,
            filetype,
            decoder: arch.and_then(|arch| Decoder::new(arch, Syntax::Att).ok()),
            codes: FxHashMap::default(),
            owed: FxHashMap::default(),
            prefix: Vec::new(),
            held: Vec::new(),
            at: 0,
            tid: None,
            window: None,
            has_turns: header.is_mixed || filetype.any(FileType::CORE_SHARDED),
            n_read: 0,
            n_dropped: 0,
            n_dropped_instrs: 0,
        };
        let is_numbered = filetype.any(FileType::SYSCALL_NUMBERS) && !filetype.is_ifiltered();
        if syscalls && !is_numbered && raiser.decoder.is_none() {
            return Err(
                raiser.refusal("nothing in it tells system calls, around which the clock must be read")
            );
        }
        if branches && raiser.has_turns {
            return Err(
                raiser.refusal("where threads take turns, the next instruction is not the branch's own")
            );
        }
        Ok(Some(raiser))
    }

    fn refusal(&self, reason: &str) -> Error {
        Error::unsupported(format!("version {} cannot become version {}: {reason}", self.from, self.to))
    }

    /// Takes the next entries of the file, and appends those that are settled to `out`.
    ///
    /// # Errors
    /// `Unsupported` at an entry that cannot be raised.
    pub(super) fn push(&mut self, entries: &[Entry], out: &mut Vec<Entry>) -> Result<()> {
        self.n_read += entries.len() as u64;
        for entry in entries {
            let kind = entry.kind();
            if kind == Type::ENCODING || entry.is_marker(Marker::BRANCH_TARGET) {
                self.prefix.push(*entry);
                if self.prefix.len() > MAX_HELD {
                    return Err(self.refusal("an instruction has too many encodings"));
                }
                continue;
            }
            if kind.is_any_instr() && entry.size.get() > 0 {
                self.instr(entry, out)?;
                continue;
            }
            let prefix = std::mem::take(&mut self.prefix);
            prefix.iter().for_each(|entry| self.pass(*entry, out));
            let entry = self.other(entry, out)?;
            self.pass(entry, out);
            if self.held.len() > MAX_HELD {
                return Err(self.refusal("too much stands between two instructions"));
            }
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Errors
    /// As [`Raiser::push`].
    pub(super) fn finish(&mut self, out: &mut Vec<Entry>) -> Result<()> {
        self.settle(Next::Gap, out)?;
        out.append(&mut self.prefix);
        Ok(())
    }

    /// Appends an entry to the held ones, or to the output if none are held.
    fn pass(&mut self, entry: Entry, out: &mut Vec<Entry>) {
        if self.held.is_empty() { out.push(entry) } else { self.held.push(entry) }
    }

    /// Handles an instruction: it shows how the one before ended, and is then held itself.
    fn instr(&mut self, entry: &Entry, out: &mut Vec<Entry>) -> Result<()> {
        let pc = entry.addr.get();
        self.settle(Next::Instr(pc), out)?;
        let is_given = self.prefix.iter().any(|entry| entry.kind() == Type::ENCODING);
        match self.owed.remove(&pc) {
            Some(pieces) if !is_given => self.prefix.splice(0..0, pieces).for_each(drop),
            _ => {}
        }
        if is_given {
            self.learn(entry);
        }
        let is_call =
            entry.kind() == Type::INSTR_SYSENTER || self.codes.get(&pc).is_some_and(|code| code.is_syscall);
        if self.syscalls && is_call {
            return Err(self.has_syscalls());
        }
        self.held.append(&mut self.prefix);
        self.at = self.held.len();
        self.held.push(*entry);
        Ok(())
    }

    fn has_syscalls(&self) -> Error {
        self.refusal("it has system calls, and when they began and ended was not recorded before version 6")
    }

    /// Records the encoding in the prefix.
    fn learn(&mut self, instr: &Entry) {
        let Some(decoder) = &mut self.decoder else { return };
        let mut bytes = [0; 16];
        let pieces = self.prefix.iter().filter(|entry| entry.kind() == Type::ENCODING);
        for (slot, piece) in bytes.chunks_exact_mut(8).zip(pieces) {
            slot.copy_from_slice(&piece.addr.get().to_le_bytes());
        }
        let n = usize::from(instr.size.get()).min(bytes.len());
        let decoded = decoder.decode(instr.addr.get(), &bytes[..n]).ok();
        let mut first = [0; 8];
        first[..n.min(8)].copy_from_slice(&bytes[..n.min(8)]);
        let code = Code {
            first: u64::from_le_bytes(first),
            is_syscall: decoded.is_some_and(|instr| instr.class == Class::Syscall),
            is_repeated: decoded.is_some_and(|instr| instr.repeated),
        };
        self.codes.insert(instr.addr.get(), code);
    }

    /// Converts any other entry to the new version.
    fn other(&mut self, entry: &Entry, out: &mut Vec<Entry>) -> Result<Entry> {
        let mut entry = *entry;
        let value = entry.addr.get();
        match entry.kind() {
            Type::HEADER => {
                self.settle(Next::Gap, out)?;
                self.version(&mut entry)?;
            }
            Type::THREAD_EXIT | Type::FOOTER => self.settle(Next::Gap, out)?,
            Type::THREAD if self.tid.replace(value).is_some_and(|last| last != value) => {
                self.has_turns = true;
                if self.branches {
                    let reason = "where threads take turns, the next instruction is not the branch's own";
                    return Err(self.refusal(reason));
                }
                self.settle(Next::Gap, out)?;
            }
            Type::INSTR_BUNDLE if self.branches => {
                return Err(self.refusal("several instructions share an entry"));
            }
            Type::MARKER => self.marker(&mut entry, out)?,
            _ => {}
        }
        Ok(entry)
    }

    fn marker(&mut self, entry: &mut Entry, out: &mut Vec<Entry>) -> Result<()> {
        let value = entry.addr.get();
        match Marker(entry.size.get()) {
            Marker::VERSION => self.version(entry)?,
            Marker::KERNEL_EVENT | Marker::KERNEL_XFER if self.events => {
                let reason = "its interruptions have no addresses, only places in modules that are not named";
                return Err(self.refusal(reason));
            }
            Marker::KERNEL_EVENT | Marker::HARDWARE_EVENT => {
                if self.retired && (self.has_turns || self.filetype.is_ifiltered()) {
                    return Err(self.refusal(
                        "which instruction was interrupted cannot be told where some are left out or threads take turns",
                    ));
                }
                self.settle(Next::Event(value), out)?;
            }
            Marker::KERNEL_XFER | Marker::HARDWARE_CONTEXT_RETURN => self.settle(Next::Gap, out)?,
            Marker::WINDOW_ID if self.window.replace(value).is_some_and(|last| last != value) => {
                self.settle(Next::Gap, out)?;
            }
            Marker::SYSCALL_TRACE_START | Marker::CONTEXT_SWITCH_START if self.branches => {
                return Err(self.refusal("kernel code stands between the program's instructions"));
            }
            Marker::SYSCALL if self.syscalls => return Err(self.has_syscalls()),
            Marker::FUNC_ID if self.syscalls => {
                let is_narrow = self.filetype.any(FileType::ARCH_X86_32.or(FileType::ARCH_ARM32));
                if value >= if is_narrow { SYSCALL_FUNC_BASE_32 } else { SYSCALL_FUNC_BASE } {
                    return Err(self.has_syscalls());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn version(&self, entry: &mut Entry) -> Result<()> {
        if entry.addr.get() != self.from {
            return Err(self.refusal("the file holds traces of several versions"));
        }
        entry.addr.set(self.to);
        Ok(())
    }

    /// Releases the held entries, now that it is known how the instruction ended.
    fn settle(&mut self, next: Next, out: &mut Vec<Entry>) -> Result<()> {
        let Some(instr) = self.held.get(self.at).copied() else { return Ok(()) };
        let held = std::mem::take(&mut self.held);
        let at = std::mem::take(&mut self.at);
        let (kind, pc) = (instr.kind(), instr.addr.get());
        if self.retired && next == Next::Event(pc) && self.is_undone(kind, pc)? {
            self.undo(&held, at, out);
        } else if self.branches && is_branch(kind) {
            self.branch(&held, at, next, out);
        } else {
            out.extend_from_slice(&held);
        }
        self.held = held;
        self.held.clear();
        Ok(())
    }

    /// True if the instruction of this kind at `pc`, which was interrupted right after it, did not retire.
    fn is_undone(&self, kind: Type, pc: u64) -> Result<bool> {
        let Some(code) = self.codes.get(&pc) else {
            return Err(self.refusal(
                "without machine code, an interrupted instruction cannot be told from a repeated one",
            ));
        };
        if code.is_syscall {
            // It is to be restarted after it entered the kernel.
            return Ok(false);
        }
        if code.is_repeated || kind == Type::INSTR_NO_FETCH || is_branch(kind) {
            return Err(self.refusal(&format!(
                "whether the interrupted operation at {pc:#x}, which may go on at its own address, retired is not known"
            )));
        }
        Ok(true)
    }

    /// Writes an instruction that did not retire as the marker of the new version, without its data.
    fn undo(&mut self, held: &[Entry], at: usize, out: &mut Vec<Entry>) {
        let pc = held[at].addr.get();
        let pieces: Vec<Entry> =
            held[..at].iter().filter(|entry| entry.kind() == Type::ENCODING).copied().collect();
        if !pieces.is_empty() {
            self.owed.insert(pc, pieces);
        }
        let first = self.codes.get(&pc).map_or(0, |code| code.first);
        out.push(Entry::marker(Marker::UNCOMPLETED_INSTRUCTION, first));
        let (data, rest): (Vec<Entry>, Vec<Entry>) =
            held[at + 1..].iter().partition(|entry| is_data(entry.kind()));
        out.extend(rest);
        self.n_dropped += data.len() as u64;
        self.n_dropped_instrs += 1;
    }

    /// Writes a branch with its outcome or target, after the clock readings between it and the next instruction.
    fn branch(&mut self, held: &[Entry], at: usize, next: Next, out: &mut Vec<Entry>) {
        let mut instr = held[at];
        let target = match next {
            Next::Instr(pc) | Next::Event(pc) => Some(pc),
            Next::Gap => None,
        };
        // The entries that a chunk of an archive repeats stay where they are.
        let end = held[at..].iter().position(|entry| entry.is_marker(Marker::RECORD_ORDINAL));
        let end = end.map_or(held.len(), |distance| at + distance);
        let is_clock = |entry: &&Entry| {
            [Marker::TIMESTAMP, Marker::WINDOW_ID, Marker::CPU_ID].iter().any(|kind| entry.is_marker(*kind))
        };
        out.extend(held[at + 1..end].iter().filter(is_clock));
        let is_needed = instr.kind() == Type::INSTR_CONDITIONAL_JUMP || instr.kind().is_indirect_branch();
        if target.is_none() && is_needed {
            self.n_dropped +=
                1 + held[at + 1..end].iter().filter(|entry| is_data(entry.kind())).count() as u64;
            self.n_dropped_instrs += 1;
            let pieces: Vec<Entry> =
                held[..at].iter().filter(|entry| entry.kind() == Type::ENCODING).copied().collect();
            if !pieces.is_empty() {
                self.owed.insert(instr.addr.get(), pieces);
            }
            out.extend(held[at + 1..end].iter().filter(|entry| !is_clock(entry) && !is_data(entry.kind())));
            out.extend_from_slice(&held[end..]);
            return;
        }
        out.extend_from_slice(&held[..at]);
        if let Some(target) = target {
            if instr.kind() == Type::INSTR_CONDITIONAL_JUMP {
                let behind = instr.addr.get().wrapping_add(u64::from(instr.size.get()));
                let kind = if target == behind { Type::INSTR_UNTAKEN_JUMP } else { Type::INSTR_TAKEN_JUMP };
                instr.kind.set(kind.0);
            } else if instr.kind().is_indirect_branch() {
                out.push(Entry::marker(Marker::BRANCH_TARGET, target));
            }
        }
        out.push(instr);
        out.extend(held[at + 1..end].iter().filter(|entry| !is_clock(entry)));
        out.extend_from_slice(&held[end..]);
    }
}

fn is_branch(kind: Type) -> bool {
    kind.is_indirect_branch()
        || [
            Type::INSTR_DIRECT_JUMP,
            Type::INSTR_CONDITIONAL_JUMP,
            Type::INSTR_DIRECT_CALL,
            Type::INSTR_TAKEN_JUMP,
            Type::INSTR_UNTAKEN_JUMP,
        ]
        .contains(&kind)
}

fn is_data(kind: Type) -> bool {
    kind == Type::READ || kind == Type::WRITE || kind.is_prefetch() || (18..=21).contains(&kind.0)
}
