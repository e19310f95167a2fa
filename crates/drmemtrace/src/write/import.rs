//! Converts records of other formats to entries: one file, in which threads take turns.
//!
//! Addresses and sizes are those of the source. Its instructions have no encodings, and the targets of branches are unknown;
//! a source of accesses has no instructions at all. So the file type states that instructions are missing
//! (SPEC: drmemtrace.md#file-type-bits), as it does if a tracer filtered them, and `quipu check` does not require more.

use super::{BUFFER_BYTES, ChunkRule, NoEdit, Replace, Rewriter, close};
use crate::record::{Entry, FileType, Marker, NEWEST_VERSION, Type};
use quipu_isa::Arch;
use quipu_model::convert::{
    Ledger, MadeUp, Outcome, RecordJob, RecordSink, RecordWriter, RecordWriterInfo, Said,
};
use quipu_model::fresh::Fresh;
use quipu_model::lens::{AccessKind, InstrClass, Taken, ThreadEvent, instr_flags};
use quipu_model::trace::Fact;
use quipu_model::transform::packing_for;
use quipu_model::{Batch, Columns, Meta, Result, ThreadId};
use quipu_source::{OutputFile, Packer, Pool};
use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::PathBuf;

/// Sizes of lines and pages that are written if the source has none: those of most processors.
const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

/// The format as a target.
#[derive(Debug)]
pub struct FromOthers;

/// Facts about each thread and the machine that a file must have, whether or not the source has them.
const ENDS: &str = "ends of threads";
const LINES: &str = "size of lines";
const PAGES: &str = "size of pages";

static INFO: RecordWriterInfo = RecordWriterInfo {
    required: Columns::ACCESSES,
    taken: Columns::ACCESSES
        .or(Columns::ACCESS_PC)
        .or(Columns::INSTRS)
        .or(Columns::INSTR_CLASS)
        .or(Columns::INSTR_TAKEN)
        .or(Columns::THREADS),
    made_up: &[
        MadeUp { what: ENDS, said: Said::ByRecords },
        MadeUp { what: LINES, said: Said::InHeader(|meta| meta.line_bytes.is_some()) },
        MadeUp { what: PAGES, said: Said::InHeader(|meta| meta.page_bytes.is_some()) },
    ],
    options: &[],
};

impl RecordWriter for FromOthers {
    fn info(&self) -> &'static RecordWriterInfo {
        &INFO
    }

    fn begin(&self, job: &RecordJob<'_>) -> Result<Box<dyn RecordSink>> {
        let pack = packing_for(job.container, job.level, job.output)?;
        let replace = if job.replace { Replace::Allowed } else { Replace::Never };
        let pool = Pool::new(std::thread::available_parallelism().map_or(1, usize::from))?;
        let (fresh, file) = Fresh::file(job.output, replace)?;
        let packer = Packer::new(BufWriter::with_capacity(BUFFER_BYTES, file), &pool, &pack);
        // Such files have no chunks, since each would have to name the running thread.
        let rule = ChunkRule { instrs: 0, marker: None, insert: false };
        Ok(Box::new(Entries {
            rewriter: Rewriter::new(packer, NoEdit, rule)?,
            fresh,
            path: job.output.to_owned(),
            begins: Some(Beginning::of(job.trace.meta())),
            buffer: Vec::new(),
            current: None,
            threads: BTreeMap::new(),
            pcs: BTreeMap::new(),
            n_instrs: BTreeMap::new(),
            sizes: [(LINES, job.trace.meta().line_bytes), (PAGES, job.trace.meta().page_bytes)],
        }))
    }
}

/// The header entries of a file. SPEC: drmemtrace.md#grammar-of-a-file
#[derive(Debug)]
struct Beginning {
    before_thread: [Entry; 3],
    after_thread: [Entry; 2],
}

impl Beginning {
    fn of(meta: &Meta) -> Beginning {
        let arch = match meta.arch {
            Some(Arch::X86_64) => FileType::ARCH_X86_64,
            Some(Arch::X86_32) => FileType::ARCH_X86_32,
            Some(Arch::Aarch64) => FileType::ARCH_AARCH64,
            _ => FileType(0),
        };
        Beginning {
            before_thread: [
                Entry::new(Type::HEADER, 0, NEWEST_VERSION),
                Entry::marker(Marker::VERSION, NEWEST_VERSION),
                Entry::marker(Marker::FILETYPE, arch.or(FileType::IFILTERED).0),
            ],
            after_thread: [
                Entry::marker(Marker::CACHE_LINE_SIZE, meta.line_bytes.unwrap_or(LINE_BYTES)),
                Entry::marker(Marker::PAGE_SIZE, meta.page_bytes.unwrap_or(PAGE_BYTES)),
            ],
        }
    }
}

/// Outcomes of the accesses of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    accesses: u64,
    /// Accesses that are too large for an entry.
    cut: u64,
    /// Accesses whose size is not in the source.
    sizeless: u64,
    fetches: u64,
    /// Accesses that follow the instruction that made them, then others whose instruction the source states.
    placed: u64,
    misplaced: u64,
}

struct Entries {
    rewriter: Rewriter<BufWriter<OutputFile>, NoEdit>,
    fresh: Fresh,
    path: PathBuf,
    /// The first entries, until the first thread is known.
    begins: Option<Beginning>,
    buffer: Vec<Entry>,
    current: Option<(ThreadId, u64)>,
    /// Threads with their processes, and whether they have ended.
    threads: BTreeMap<ThreadId, (u64, bool)>,
    /// The last instruction of each thread.
    pcs: BTreeMap<ThreadId, u64>,
    /// Number of instructions written of each thread.
    n_instrs: BTreeMap<ThreadId, u64>,
    /// Sizes of lines and pages in the source.
    sizes: [(&'static str, Option<u64>); 2],
}

impl Entries {
    fn switch_to(&mut self, thread: ThreadId, process: u64) {
        if self.current == Some((thread, process)) {
            return;
        }
        self.current = Some((thread, process));
        self.threads.entry(thread).or_insert((process, false));
        let begins = self.begins.take();
        self.buffer.extend(begins.iter().flat_map(|begins| begins.before_thread));
        self.buffer.extend([Entry::new(Type::THREAD, 4, thread.packed()), Entry::new(Type::PID, 4, process)]);
        self.buffer.extend(begins.iter().flat_map(|begins| begins.after_thread));
    }

    /// Ends a thread, with the number of instructions that it executed, as far as it is known.
    fn exit(&mut self, thread: ThreadId) {
        let n = self.n_instrs.get(&thread).copied().unwrap_or(0);
        self.buffer.extend([
            Entry::marker(Marker::INSTRUCTION_COUNT, n),
            Entry::new(Type::THREAD_EXIT, 4, thread.packed()),
        ]);
    }

    fn instr(&mut self, batch: &Batch, row: usize) {
        let instrs = &batch.instrs;
        let flags = instrs.flags.get(row).copied().unwrap_or(0);
        let taken = instrs.taken.get(row).copied().unwrap_or(Taken::Unknown);
        let kind = match instrs.class.get(row) {
            _ if flags & instr_flags::NO_FETCH != 0 => Type::INSTR_NO_FETCH,
            Some(InstrClass::DirectJump) => Type::INSTR_DIRECT_JUMP,
            Some(InstrClass::IndirectJump) => Type::INSTR_INDIRECT_JUMP,
            Some(InstrClass::ConditionalJump) => match taken {
                Taken::Yes => Type::INSTR_TAKEN_JUMP,
                Taken::No => Type::INSTR_UNTAKEN_JUMP,
                Taken::Unknown => Type::INSTR_CONDITIONAL_JUMP,
            },
            Some(InstrClass::DirectCall) => Type::INSTR_DIRECT_CALL,
            Some(InstrClass::IndirectCall) => Type::INSTR_INDIRECT_CALL,
            Some(InstrClass::Return) => Type::INSTR_RETURN,
            Some(InstrClass::Sysenter) => Type::INSTR_SYSENTER,
            Some(InstrClass::Other) | None => Type::INSTR,
        };
        self.buffer.push(Entry::new(kind, instrs.size[row], instrs.pc[row]));
    }

    fn access(&mut self, batch: &Batch, row: usize, last_pc: Option<u64>, counts: &mut Counts) {
        let accesses = &batch.accesses;
        let kind = match accesses.kind[row] {
            AccessKind::Read => Type::READ,
            AccessKind::Write => Type::WRITE,
            AccessKind::Prefetch => Type::PREFETCH,
            AccessKind::PrefetchInstr => Type::PREFETCH_INSTR,
            AccessKind::FlushData => Type::DATA_FLUSH,
            AccessKind::FlushInstr => Type::INSTR_FLUSH,
            AccessKind::Fetch => {
                counts.fetches += 1;
                return;
            }
        };
        counts.sizeless += u64::from(accesses.size[row] == 0);
        let size = u16::try_from(accesses.size[row].max(1)).unwrap_or_else(|_| {
            counts.cut += 1;
            u16::MAX
        });
        counts.accesses += 1;
        // An access belongs to the instruction before it.
        match accesses.pc.get(row) {
            Some(pc) if last_pc == Some(*pc) => counts.placed += 1,
            Some(0) | None if last_pc.is_none() => {}
            Some(_) => counts.misplaced += 1,
            None => {}
        }
        self.buffer.push(Entry::new(kind, size, accesses.addr[row]));
    }
}

impl RecordSink for Entries {
    fn take(&mut self, batch: &Batch, ledger: &mut Ledger) -> Result<()> {
        if batch.span.records > 0 {
            self.switch_to(batch.span.thread, batch.span.process);
        }
        let (accesses, instrs) = (&batch.accesses, &batch.instrs);
        let (mut next, mut counts) = (0, Counts::default());
        let mut last_pc = self.pcs.get(&batch.span.thread).copied();
        for row in 0..=instrs.len() {
            // Accesses of a record come after its instruction.
            let until = instrs.at.get(row).copied().unwrap_or(u32::MAX);
            while accesses.at.get(next).is_some_and(|at| *at < until) {
                self.access(batch, next, last_pc, &mut counts);
                next += 1;
            }
            if row < instrs.len() {
                self.instr(batch, row);
                last_pc = Some(instrs.pc[row]);
            }
        }
        if let Some(pc) = last_pc {
            self.pcs.insert(batch.span.thread, pc);
        }
        if !instrs.is_empty() {
            *self.n_instrs.entry(batch.span.thread).or_default() += instrs.len() as u64;
        }
        ledger.add("accesses", Outcome::Kept, counts.accesses - counts.cut - counts.sizeless);
        ledger.add("accesses of unknown size, written as of 1 byte", Outcome::Changed, counts.sizeless);
        ledger.add("accesses of 64 KiB and more, cut off there", Outcome::Changed, counts.cut);
        ledger.add("fetches", Outcome::Dropped, counts.fetches);
        ledger.add("PCs of accesses", Outcome::Kept, counts.placed);
        ledger.add(
            "PCs of accesses that their instructions do not stand before",
            Outcome::Dropped,
            counts.misplaced,
        );
        ledger.add("instructions", Outcome::Kept, instrs.len() as u64);
        for what in &batch.threads.what {
            match what {
                // A thread begins with its first record.
                ThreadEvent::Start => ledger.add("beginnings of threads", Outcome::Kept, 1),
                ThreadEvent::Stop => {
                    ledger.add(ENDS, Outcome::Kept, 1);
                    self.threads.insert(batch.span.thread, (batch.span.process, true));
                    self.exit(batch.span.thread);
                }
                _ => ledger.add("events of threads", Outcome::Dropped, 1),
            }
        }
        self.rewriter.push(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn n_written(&self) -> u64 {
        self.rewriter.n_written()
    }

    fn end(&mut self, ledger: &mut Ledger) -> Result<()> {
        if self.current.is_none() {
            self.switch_to(ThreadId::default(), 0);
        }
        let open: Vec<(ThreadId, u64)> = self
            .threads
            .iter()
            .filter(|(_, (_, ends))| !ends)
            .map(|(thread, (process, _))| (*thread, *process))
            .collect();
        ledger.add(ENDS, Outcome::MadeUp, open.len() as u64);
        // All ones is the id for a core without a thread.
        let is_wide =
            |thread: &&ThreadId| thread.is_idle() || ThreadId::from_packed(thread.packed()) != **thread;
        let n_wide = self.threads.keys().filter(is_wide).count() as u64;
        ledger.add(
            "threads of more than 48 bits, whose upper bits name a workload",
            Outcome::Changed,
            n_wide,
        );
        for (what, _) in self.sizes.iter().filter(|(_, bytes)| bytes.is_none()) {
            ledger.add(what, Outcome::MadeUp, 1);
        }
        for (thread, process) in open {
            self.switch_to(thread, process);
            self.exit(thread);
        }
        self.rewriter.push(&self.buffer)
    }

    fn commit(self: Box<Self>) -> Result<Vec<Fact>> {
        let rewritten = self.rewriter.finish(true)?;
        close(rewritten.out, &self.path)?;
        self.fresh.commit()?;
        Ok(vec![
            Fact::new("entries", "entries", rewritten.written.entries),
            Fact::new("records", "records", rewritten.written.records),
            Fact::new("threads", "threads", self.threads.len()),
            Fact::new("packed_bytes", "bytes of the file", rewritten.packed.packed_bytes),
        ])
    }
}
