//! Makes events of the cells of programs that were compiled with instrumentation, while they run.
//!
//! The events are those that the rows of a recording of the same program make: what the other half of the front end knows
//! about threads, functions and synchronization is used here, too. Functions are looked up in the files that the program has
//! loaded, while it runs.
//!
//! SPEC: prism.md#cells

use super::{COLUMNS, Counts, Front, Function, MAX_FUNCTIONS, MAX_OPEN, Mark, Open};
use crate::batch::Batch;
use crate::detail::Detail;
use crate::event::{Context, Event, Memory, Place, access, context, sync};
use quipu_cells::cell::{self, Cell, LOW};
use quipu_cells::event::{self, Event as Done};
use quipu_model::ThreadId;
use quipu_model::lens::{MAX_ACCESS_BYTES, MAX_RANGE_BYTES};
use quipu_symbols::functions::Mapped;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Maximum number of modules of a program that are remembered.
const MAX_MODULES: usize = 1 << 14;

/// Words of a cell.
pub(crate) const CELL_WORDS: usize = 2;

/// Whether this word begins a plain access, which is one cell.
#[inline]
pub(crate) fn is_access(word: u64) -> bool {
    word >> 56 == 0
}

/// Number of cells of the event that begins with this word.
pub(crate) fn n_cells(word: u64) -> usize {
    1 + Cell { word, side: 0 }.n_following()
}

/// The stamp of an event, given the first words of its first two cells, if events of its kind have one.
pub(crate) fn stamp(word: u64, second: Option<u64>) -> Option<u64> {
    use cell::kind::{ALLOC, ATOMIC, RELEASE, SYNC, TYPED, UNTYPED};
    let is_stamped = matches!((word >> 56) as u8, ATOMIC | ALLOC | RELEASE | TYPED | UNTYPED | SYNC);
    second.filter(|_| is_stamped)
}

/// The creation number of the thread that begins with these cells.
pub(crate) fn creation(words: &[u64]) -> Option<u64> {
    let [head, _, _, what, ticket, ..] = words else { return None };
    let is_start = (head >> 56) as u8 == cell::kind::SYNC && what & LOW == cell::sync::START;
    is_start.then_some(*ticket)
}

/// Makes events of the cells of all programs of a run.
pub(crate) struct FromCells {
    front: Front,
    asked: Detail,
    modules: FxHashMap<u16, Vec<Mapped>>,
    /// The start of the function at a code address, by program.
    starts: FxHashMap<(u16, u64), u64>,
    cells: Vec<Cell>,
    text: Vec<u8>,
}

impl std::fmt::Debug for FromCells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FromCells").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl FromCells {
    /// Makes events with these fields, of these kinds.
    pub(crate) fn new(asked: Detail) -> FromCells {
        let mut front = Front::of_program(None, COLUMNS, asked);
        // Threads have numbers of their creation, whose marks are not looked for in batches here.
        front.begins = Some(u32::MAX);
        FromCells {
            front,
            asked,
            modules: FxHashMap::default(),
            starts: FxHashMap::default(),
            cells: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Number of threads that have a number.
    pub(crate) fn n_threads(&self) -> u64 {
        self.front.n_threads
    }

    /// Leaves numbers of threads up to this one to others.
    pub(crate) fn keep_numbers(&mut self, n: u64) {
        self.front.n_threads = self.front.n_threads.max(n);
    }

    /// Forgets a program whose number another one gets.
    pub(crate) fn forget(&mut self, program: u16) {
        let front = &mut self.front;
        self.modules.remove(&program);
        self.starts.retain(|(of, _), _| *of != program);
        front.functions.retain(|(of, _), _| *of != program);
        front.numbered.retain(|(of, _), _| *of != program);
        front.created.retain(|(of, _), _| *of != program);
        front.threads.retain(|thread, _| thread.workload != program);
        front.open.retain(|thread, _| thread.workload != program);
    }

    /// The thread whose events are being made.
    pub(crate) fn current(&self) -> Option<ThreadId> {
        self.front.current
    }

    /// The events made since [`FromCells::clear`].
    pub(crate) fn batch(&self) -> &Batch {
        &self.front.batch
    }

    /// Removes events that were delivered.
    pub(crate) fn clear(&mut self) {
        let batch = &mut self.front.batch;
        batch.first += batch.events.len() as u64;
        batch.clear();
    }

    /// Makes the events of whole cells of a thread, which has this number of its creation if it begins here. Returns how
    /// many words belong to whole events.
    pub(crate) fn take(&mut self, thread: ThreadId, creation: Option<u64>, words: &[u64]) -> usize {
        self.front.enter(thread, creation);
        let memory = self.asked.memory;
        let has_memory = memory & Detail::OFF == 0;
        let has_context = self.asked.context & Detail::OFF == 0;
        let [has_type, has_size, has_address] =
            [Detail::TYPE, Detail::SIZE, Detail::ADDRESS].map(|field| memory & field != 0);
        let cells = words.as_chunks::<CELL_WORDS>().0;
        self.front.batch.events.reserve(2 * cells.len());
        let mut at = 0;
        while let Some(&[word, side]) = cells.get(at) {
            let code = (word >> 48) as u16; // 16 bits.
            if !is_access(word) {
                let Some(event) = cells.get(at..at + n_cells(word)) else { break };
                self.event(thread, event);
                at += event.len();
                continue;
            }
            at += 1;
            let pc = side & LOW;
            let Front { pc: last, batch, .. } = &mut self.front;
            if !has_memory {
                continue;
            }
            // PERF: the loop over accesses, without a call; see `benches/delivery`.
            if has_context && *last != Some(pc) {
                *last = Some(pc);
                let place = Place::Address(pc);
                batch.events.push(Event::Context(Context { kind: context::INSTRUCTION, place }));
            }
            let is_write = code & cell::access::WRITE != 0;
            batch.events.push(Event::Memory(Memory {
                access: has_type.then_some(if is_write { access::STORE } else { access::LOAD }),
                size: has_size.then_some(1 << (code & cell::access::SIZE_LOG2)),
                address: has_address.then_some(word & LOW),
                id: None,
            }));
        }
        CELL_WORDS * at
    }

    /// Makes the events of something else than a plain access.
    fn event(&mut self, thread: ThreadId, cells: &[[u64; CELL_WORDS]]) {
        self.cells.clear();
        self.cells.extend(cells.iter().map(|[word, side]| Cell { word: *word, side: side & LOW }));
        let mut text = std::mem::take(&mut self.text);
        let mut counts = Counts::default();
        match event::decode(&self.cells, &mut text).0 {
            Done::Access(access) => self.access(access.is_write(), access.addr, access.size, access.pc),
            Done::Atomic(atomic) => self.access(atomic.is_write(), atomic.addr, atomic.size, atomic.pc),
            Done::Enter { pc, .. } => {
                let function = self.function(thread.workload, pc);
                self.enter(thread, function, &mut counts);
            }
            Done::Leave { pc } => {
                let function = self.function(thread.workload, pc);
                self.front.leave(thread, function, &mut counts);
            }
            Done::Sync(sync) => self.sync(&sync, &mut counts),
            Done::Module { base, bytes, path } => self.module(thread.workload, base, bytes, path),
            _ => {}
        }
        self.text = text;
    }

    /// Makes the events of an access of any size.
    fn access(&mut self, is_write: bool, mut addr: u64, mut left: u64, pc: u64) {
        let memory = self.asked.memory;
        // A program that has damaged its cells could ask for any number of events.
        if memory & Detail::OFF != 0 || left > MAX_RANGE_BYTES {
            return;
        }
        if self.asked.context & Detail::OFF == 0 && self.front.pc != Some(pc) {
            self.front.pc = Some(pc);
            let place = Place::Address(pc);
            self.front.put(Event::Context(Context { kind: context::INSTRUCTION, place }));
        }
        let has = |field: u8| memory & field != 0;
        loop {
            let size = left.min(MAX_ACCESS_BYTES.into());
            self.front.put(Event::Memory(Memory {
                access: has(Detail::TYPE).then_some(if is_write { access::STORE } else { access::LOAD }),
                size: has(Detail::SIZE).then_some(size.clamp(1, u16::MAX.into()) as u16), // It fits.
                address: has(Detail::ADDRESS).then_some(addr),
                id: None,
            }));
            left -= size;
            if left == 0 {
                break;
            }
            addr = addr.wrapping_add(size);
        }
    }

    /// Enters a function, by its start.
    fn enter(&mut self, thread: ThreadId, function: u64, counts: &mut Counts) {
        let open = self.front.open.entry(thread).or_default();
        if open.len() < MAX_OPEN {
            open.push(Open { function, args: [None; 5] });
        }
        if let Some(Function { name, .. }) = self.front.function(thread, function) {
            self.front.pass(context::ENTER, &name, counts);
        }
    }

    fn sync(&mut self, done: &event::Sync, counts: &mut Counts) {
        let [value, _] = done.values;
        let mut mark = |mark, value| self.front.marked(Some(mark), value, counts);
        match done.what {
            cell::sync::START => {
                mark(Mark::Begun, value);
                mark(Mark::Handle, done.object);
            }
            cell::sync::WOKEN => {
                mark(Mark::Mutex, value);
                mark(Mark::Sync(sync::WAIT), done.object);
            }
            cell::sync::CREATE => mark(Mark::Sync(sync::CREATE), value),
            cell::sync::JOIN => mark(Mark::Sync(sync::JOIN), done.object),
            cell::sync::LOCK => mark(Mark::Sync(sync::LOCK), done.object),
            cell::sync::UNLOCK => mark(Mark::Sync(sync::UNLOCK), done.object),
            cell::sync::SIGNAL => mark(Mark::Sync(sync::SIGNAL), done.object),
            cell::sync::BROADCAST => mark(Mark::Sync(sync::BROADCAST), done.object),
            cell::sync::ARRIVE => mark(Mark::Sync(sync::BARRIER), done.object),
            _ => {}
        }
    }

    fn module(&mut self, program: u16, base: u64, bytes: u64, path: &[u8]) {
        let modules = self.modules.entry(program).or_default();
        let (addresses, path) = (base..base.saturating_add(bytes), PathBuf::from(OsStr::from_bytes(path)));
        let is_known = |known: &Mapped| *known.addresses() == addresses && known.path() == path;
        if modules.iter().any(is_known) {
            return;
        }
        // It replaces modules at its addresses, which the program has unloaded.
        let n_before = modules.len();
        modules.retain(|known| {
            let of_known = known.addresses();
            of_known.end <= addresses.start || addresses.end <= of_known.start
        });
        if modules.len() < n_before {
            let is_other = |of: u16, at: u64| of != program || !addresses.contains(&at);
            self.starts.retain(|(of, at), _| is_other(*of, *at));
            self.front.functions.retain(|(of, at), _| is_other(*of, *at));
        }
        if modules.len() < MAX_MODULES {
            modules.push(Mapped::new(addresses, path));
        }
    }

    /// The start of the function at a code address, or the address itself if no file has one there.
    fn function(&mut self, program: u16, address: u64) -> u64 {
        if let Some(start) = self.starts.get(&(program, address)) {
            return *start;
        }
        let mut modules = self.modules.get(&program).into_iter().flatten();
        let Some(module) = modules.find(|module| module.addresses().contains(&address)) else {
            // It may be that of a module that another thread is about to report.
            return address;
        };
        let found = module.function(address);
        let start = found.map_or(address, |(start, _)| start);
        if self.front.functions.len() < MAX_FUNCTIONS
            && let Some((start, name)) = found
        {
            let function = || Function { name: name.as_bytes().into(), sync: None };
            self.front.functions.entry((program, start)).or_insert_with(function);
        }
        if self.starts.len() < MAX_FUNCTIONS {
            self.starts.insert((program, address), start);
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_module_replaces_those_at_its_addresses() {
        let mut cells = FromCells::new(Detail::ALL);
        cells.module(0, 0x1000, 0x1000, b"/none/first");
        cells.module(0, 0x4000, 0x1000, b"/none/other");
        for address in [0x1810, 0x4010] {
            assert_eq!(cells.function(0, address), address);
        }
        assert_eq!(cells.starts.len(), 2);
        cells.module(0, 0x1800, 0x1000, b"/none/later");
        cells.module(1, 0x4000, 0x1000, b"/none/of-another-program");
        let paths: Vec<&Path> = cells.modules[&0].iter().map(Mapped::path).collect();
        assert_eq!(paths, [Path::new("/none/other"), Path::new("/none/later")]);
        assert_eq!(cells.starts.len(), 1, "what was found in the first module is forgotten");
    }
}
