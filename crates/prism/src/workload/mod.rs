//! Work of threads and functions, communication between threads, and the critical path of the run.
//!
//! Work is counted in computations, loads and stores. A function gets the work done while it is the innermost function of
//! its thread. A byte is communicated when a thread reads it and another one wrote it last.
//!
//! SPEC: prism.md#workload

pub mod path;

use crate::batch::At;
use crate::detail::Detail;
use crate::event::{Compute, Context, Memory, Sync, context, format, sync};
use crate::fault::Result;
use crate::hooks::Hooks;
use crate::shadow::Shadow;
use path::Path;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of functions counted separately; the work of further ones counts as outside all functions.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Maximum number of open calls per thread; work in deeper calls counts for the innermost one.
const MAX_DEPTH: usize = 1 << 16;
/// Maximum number of threads that are known as writers; bytes written by further ones have no writer.
const MAX_WRITERS: usize = u16::MAX as usize - 1;
/// Maximum number of pages of shadow memory: 1 GiB of cells. Accesses to further pages are counted as unplaced.
const MAX_PAGES: usize = 1 << 17;
/// No thread has written the byte.
const NONE: u16 = u16::MAX;

/// Counts of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Number of computations on integers.
    pub iops: u64,
    /// Number of computations on floating-point numbers.
    pub flops: u64,
    /// Number of computations of unknown format.
    pub other: u64,
    /// Number of loads.
    pub loads: u64,
    /// Number of stores.
    pub stores: u64,
    /// Number of bytes loaded.
    pub bytes_loaded: u64,
    /// Number of bytes stored.
    pub bytes_stored: u64,
}

impl Work {
    /// The total of computations, loads and stores.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iops + self.flops + self.other + self.loads + self.stores
    }

    fn compute(&mut self, event: &Compute) {
        match event.format {
            Some(format::INTEGER) => self.iops += 1,
            Some(format::FLOAT) => self.flops += 1,
            _ => self.other += 1,
        }
    }

    fn access(&mut self, event: &Memory) {
        let bytes = u64::from(event.size.unwrap_or(0));
        if event.is_store() {
            self.stores += 1;
            self.bytes_stored += bytes;
        } else if event.is_load() {
            self.loads += 1;
            self.bytes_loaded += bytes;
        }
    }
}

/// A function and its work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Function {
    /// The name; empty for work outside all functions.
    pub name: Vec<u8>,
    /// Number of calls.
    pub calls: u64,
    /// Its own work, without that of functions it calls.
    pub work: Work,
}

/// A thread and its work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Thread {
    /// The work of the thread.
    pub work: Work,
    /// Number of calls of thread libraries.
    pub syncs: u64,
    stack: Vec<usize>,
    /// Its number as a writer.
    writer: u16,
}

/// The number of the thread that wrote a byte last.
#[derive(Clone, Copy, Debug)]
struct Writer(u16);

impl Default for Writer {
    fn default() -> Writer {
        Writer(NONE)
    }
}

/// The analysis of workload.
#[derive(Debug)]
pub struct Workload {
    threads: BTreeMap<u64, Thread>,
    functions: Vec<Function>,
    index: FxHashMap<Vec<u8>, usize>,
    shadow: Shadow<Writer>,
    /// Thread numbers by writer number.
    writers: Vec<u64>,
    /// Bytes communicated, by the writer numbers of writing and reading thread.
    edges: FxHashMap<(u16, u16), u64>,
    unplaced: u64,
    path: Path,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            threads: BTreeMap::new(),
            functions: vec![Function::default()],
            index: FxHashMap::default(),
            shadow: Shadow::default(),
            writers: Vec::new(),
            edges: FxHashMap::default(),
            unplaced: 0,
            path: Path::default(),
        }
    }
}

impl Workload {
    /// The threads, by number; events before the first swap belong to thread 0.
    #[must_use]
    pub fn threads(&self) -> &BTreeMap<u64, Thread> {
        &self.threads
    }

    /// The functions in order of appearance; the first entry is for work outside all functions.
    #[must_use]
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Bytes communicated, by writing and reading thread.
    #[must_use]
    pub fn communication(&self) -> BTreeMap<(u64, u64), u64> {
        let thread = |writer: u16| self.writers[usize::from(writer)];
        self.edges.iter().map(|((from, to), bytes)| ((thread(*from), thread(*to)), *bytes)).collect()
    }

    /// Number of accesses without address or size, or outside the shadow memory.
    #[must_use]
    pub fn unplaced(&self) -> u64 {
        self.unplaced
    }

    /// The critical path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn thread(&mut self, number: u64) -> &mut Thread {
        let writers = &mut self.writers;
        self.threads.entry(number).or_insert_with(|| {
            let writer = if writers.len() < MAX_WRITERS {
                writers.push(number);
                (writers.len() - 1) as u16 // Below `MAX_WRITERS`.
            } else {
                NONE
            };
            Thread { writer, ..Thread::default() }
        })
    }

    /// Counts work for a thread and its innermost function; returns the thread's number as a writer.
    fn count(&mut self, at: At, count: impl Fn(&mut Work)) -> u16 {
        let number = at.thread.unwrap_or(0);
        let thread = self.thread(number);
        count(&mut thread.work);
        let (function, writer) = (thread.stack.last().copied().unwrap_or(0), thread.writer);
        count(&mut self.functions[function].work);
        self.path.work(number);
        writer
    }

    fn enter(&mut self, at: At, name: &[u8]) {
        let function = match self.index.get(name) {
            Some(function) => *function,
            None if self.functions.len() >= MAX_FUNCTIONS => 0,
            None => {
                self.functions.push(Function { name: name.to_vec(), ..Function::default() });
                self.index.insert(name.to_vec(), self.functions.len() - 1);
                self.functions.len() - 1
            }
        };
        self.functions[function].calls += 1;
        let stack = &mut self.thread(at.thread.unwrap_or(0)).stack;
        if stack.len() < MAX_DEPTH {
            stack.push(function);
        }
    }

    /// Ends the innermost call of a function, and all calls inside it.
    fn leave(&mut self, at: At, name: &[u8]) {
        let function = self.index.get(name).copied();
        let stack = &mut self.thread(at.thread.unwrap_or(0)).stack;
        if let Some(depth) = stack.iter().rposition(|entered| Some(*entered) == function) {
            stack.truncate(depth);
        }
    }
}

impl Hooks for Workload {
    fn needs(&self) -> Detail {
        Detail::COMMUNICATION
    }

    fn on_compute(&mut self, at: At, event: &Compute) -> Result<()> {
        self.count(at, |work| work.compute(event));
        Ok(())
    }

    fn on_memory(&mut self, at: At, event: &Memory) -> Result<()> {
        let writer = self.count(at, |work| work.access(event));
        let (Some(address), Some(size)) = (event.address, event.size) else {
            self.unplaced += 1;
            return Ok(());
        };
        if self.shadow.pages() >= MAX_PAGES {
            self.unplaced += 1;
            return Ok(());
        }
        let edges = &mut self.edges;
        if event.is_store() {
            self.shadow.visit(address, size.into(), |_, cells| cells.fill(Writer(writer)));
        } else if event.is_load() {
            self.shadow.visit(address, size.into(), |_, cells| {
                for of in cells
                    .iter()
                    .map(|cell| cell.0)
                    .filter(|of| *of != NONE && *of != writer && writer != NONE)
                {
                    *edges.entry((of, writer)).or_insert(0) += 1;
                }
            });
        }
        Ok(())
    }

    fn on_sync(&mut self, at: At, event: &Sync) -> Result<()> {
        let number = at.thread.unwrap_or(0);
        if event.kind != sync::SWAP {
            self.thread(number).syncs += 1;
        }
        self.path.sync(number, event);
        Ok(())
    }

    fn on_context(&mut self, at: At, event: &Context, name: &[u8]) -> Result<()> {
        match event.kind {
            context::ENTER => self.enter(at, name),
            context::EXIT => self.leave(at, name),
            _ => {}
        }
        Ok(())
    }
}
