//! A front end for recorded traces: makes events of the rows of lenses.
//!
//! An instruction becomes its boundary, its computation (if its bytes are known), its accesses, and its control flow. Calls
//! of thread libraries become synchronization if their arguments are recorded; other functions are entered and left by name.
//! Where a program is observed while it runs, its calls and their arguments come from its instructions ([`calls`]).
//!
//! SPEC: prism.md#recorded-traces

mod args;
mod calls;
pub(crate) mod cells;
mod counts;
mod meaning;
mod names;
mod stack;

pub use names::{Function as NamedCode, Functions, Module};

use crate::batch::Batch;
use crate::detail::Detail;
use crate::event::{
    Compute, Context, Control, Event, Memory, Place, Sync, access, context, control, format, sync,
};
use calls::{Calls, Tracked};
use counts::Counts;
use meaning::{Mark, marks_of, sync_of_function, sync_of_system_call};
use names::Names;
use quipu_isa::{Arch, Decoder, Operation, Syntax};
use quipu_model::convert::Ledger;
use quipu_model::lens::{AccessKind, CallEdge, InstrClass, NO_CODE, Taken, instr_flags};
use quipu_model::values::Type;
use quipu_model::{Columns, ThreadId, Trace};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Lens columns from which events are made.
pub(crate) const COLUMNS: Columns = Columns::ACCESSES
    .or(Columns::ACCESS_PC)
    .or(Columns::INSTRS)
    .or(Columns::INSTR_CLASS)
    .or(Columns::INSTR_TAKEN)
    .or(Columns::INSTR_TARGET)
    .or(Columns::INSTR_CODE)
    .or(Columns::CALLS)
    .or(Columns::MARKS)
    .or(Columns::THREADS);

/// Names of functions are truncated to this length in bytes: the variable encoding cannot represent longer ones.
const MAX_NAME_BYTES: usize = 256;
/// Maximum number of open calls per thread.
const MAX_OPEN: usize = 1 << 16;
/// Maximum number of functions without names that are remembered.
const MAX_FUNCTIONS: usize = 1 << 20;

/// The columns from which events of the wanted kinds are made, if all instructions are recorded.
pub(crate) fn columns_for(asked: Detail) -> Columns {
    let is_wanted = |fields: u8| fields & Detail::OFF == 0;
    // Rows of the other lenses are few.
    let mut columns = Columns::CALLS | Columns::MARKS | Columns::THREADS;
    if is_wanted(asked.memory) {
        columns |= Columns::ACCESSES;
    }
    if is_wanted(asked.context) || is_wanted(asked.compute) || is_wanted(asked.control) {
        columns |= Columns::INSTRS;
    }
    if is_wanted(asked.compute) || is_wanted(asked.control) {
        columns |= Columns::INSTR_CODE;
    }
    if is_wanted(asked.context) || is_wanted(asked.sync) {
        // Calls and returns.
        columns |= Columns::INSTRS | Columns::INSTR_CLASS;
    }
    if is_wanted(asked.sync) {
        // Arguments.
        columns |= Columns::INSTR_CODE | Columns::ACCESSES;
    }
    if is_wanted(asked.control) {
        columns |= Columns::INSTR_CLASS | Columns::INSTR_TAKEN | Columns::INSTR_TARGET;
    }
    columns
}

/// The fields of events that are made of these columns.
pub(crate) fn detail_of(columns: Columns, arch: Option<Arch>) -> Detail {
    let has_code = columns.has(Columns::INSTR_CODE) && arch.is_some();
    Detail {
        memory: Detail::TYPE | Detail::SIZE | Detail::ADDRESS,
        compute: match has_code {
            true => Detail::TYPE | Detail::SIZE | Detail::OPERATION | Detail::ARITY,
            false => Detail::TYPE,
        },
        control: Detail::TYPE | Detail::TAKEN | Detail::INDIRECT | Detail::TARGET,
        ..Detail::NONE
    }
}

/// The computation of a distinct instruction, and its target if the instruction contains it.
#[derive(Clone, Debug, Default)]
struct Work {
    /// PERF: kept as an event, which is copied from here as a whole; building it anew stalls on the bytes just written.
    compute: Option<Event>,
    target: Option<u64>,
    /// The reason, if the computation is unknown.
    hidden: Option<Hidden>,
}

/// The computations of distinct instructions, by their numbers, which are dense.
#[derive(Debug, Default)]
struct Works {
    /// The current index space.
    home: u32,
    here: Vec<Option<Work>>,
    elsewhere: FxHashMap<u32, Vec<Option<Work>>>,
}

impl Works {
    /// Makes an index space the current one.
    #[inline]
    fn turn_to(&mut self, home: u32) {
        if home != self.home {
            let next = self.elsewhere.remove(&home).unwrap_or_default();
            let before = std::mem::replace(&mut self.here, next);
            self.elsewhere.insert(std::mem::replace(&mut self.home, home), before);
        }
    }

    #[inline]
    fn get(&self, code: u32) -> Option<&Work> {
        self.here.get(code as usize)?.as_ref() // At least 32 bits.
    }

    fn keep(&mut self, code: u32, work: Work) {
        let at = code as usize;
        if at >= self.here.len() {
            self.here.resize(at + 1, None);
        }
        self.here[at] = Some(work);
    }
}

/// Reason why the computation of an instruction is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    /// Its bytes are not a valid instruction, or are a synthetic one without information.
    Undecodable,
    /// The decoder does not know the instruction.
    Unknown,
}

/// Function numbers from this one are system calls, for traces that record their arguments.
const SYSTEM_CALLS: u64 = 1 << 32;
/// Function numbers from this one are code addresses, except system calls; lists of functions are shorter.
const ADDRESSES: u64 = 1 << 16;

/// A call that has not returned.
#[derive(Clone, Copy, Debug)]
struct Open {
    function: u64,
    args: Args,
}

/// The first arguments of a call.
type Args = [Option<u64>; 5];

/// A function, as far as events need it.
#[derive(Clone, Debug)]
struct Function {
    name: Arc<[u8]>,
    /// The synchronization kind of a call, and whether it happens on entry.
    sync: Option<(u8, bool)>,
}

/// Makes events from batches.
pub(crate) struct Front {
    columns: Columns,
    /// The kinds of events that are wanted.
    asked: Detail,
    arch: Option<Arch>,
    decoder: Option<Decoder>,
    works: Works,
    functions: FxHashMap<(u16, u64), Function>,
    /// Number of types of each shard that have been searched for functions.
    n_types: FxHashMap<u32, usize>,
    /// Meaning of marks for threads, by kind.
    marks: FxHashMap<u32, Mark>,
    /// The kind of marks that give the creation number of a thread that begins, if the trace has such marks.
    begins: Option<u32>,
    /// Numbers of threads by their traces and creation numbers.
    numbered: FxHashMap<(u16, u64), u64>,
    /// Number of numbered threads.
    n_threads: u64,
    /// The mutex of the wait that ends next.
    mutex: Option<u64>,
    /// The creation number of the thread that begins.
    begun: Option<u64>,
    /// Creation numbers by the traces and handles of threads.
    created: FxHashMap<(u16, u64), u64>,
    threads: FxHashMap<ThreadId, u64>,
    open: FxHashMap<ThreadId, Vec<Open>>,
    /// Functions of the programs that are observed; empty for a trace.
    names: Names,
    /// Calls of the current thread, and those of the others.
    calls: Calls,
    calls_of: FxHashMap<ThreadId, Calls>,
    /// Instructions that handle arguments of synchronization.
    tracked: FxHashMap<(u32, u32), Tracked>,
    /// Handles of threads by the program and the place where the system clears their ids.
    tids: FxHashMap<(u16, u64), u64>,
    current: Option<ThreadId>,
    pc: Option<u64>,
    batch: Batch,
}

impl Front {
    /// Makes events for a trace with these columns.
    pub(crate) fn new(trace: &dyn Trace, columns: Columns) -> Front {
        let meta = trace.meta();
        let mut front = Front::of_program(meta.arch, columns, Detail::ALL);
        for function in &meta.functions {
            let name = function.names.first().cloned().unwrap_or_default();
            front.functions.insert((function.workload, function.id), function_of(name.into_bytes()));
        }
        front.marks = marks_of(trace);
        let begins = front.marks.iter().find(|(_, mark)| **mark == Mark::Begun);
        front.begins = begins.map(|(kind, _)| *kind);
        front
    }

    /// Makes events of the wanted kinds for a program that runs, from rows with these columns.
    pub(crate) fn of_program(arch: Option<Arch>, columns: Columns, asked: Detail) -> Front {
        Front {
            columns,
            asked,
            arch,
            decoder: arch.and_then(|arch| Decoder::new(arch, Syntax::Intel).ok()),
            works: Works::default(),
            functions: FxHashMap::default(),
            n_types: FxHashMap::default(),
            begins: None,
            numbered: FxHashMap::default(),
            n_threads: 0,
            mutex: None,
            marks: FxHashMap::default(),
            begun: None,
            created: FxHashMap::default(),
            threads: FxHashMap::default(),
            open: FxHashMap::default(),
            names: Names::default(),
            calls: Calls::default(),
            calls_of: FxHashMap::default(),
            tracked: FxHashMap::default(),
            tids: FxHashMap::default(),
            current: None,
            pc: None,
            batch: Batch::default(),
        }
    }

    /// Adds code to a program, whose threads have its number as their workload.
    pub(crate) fn add_module(&mut self, program: u16, module: Module) {
        self.names.add(program, module);
    }

    /// A program begins as a copy of another one.
    pub(crate) fn fork(&mut self, from: u16, to: u16) {
        self.names.fork(from, to);
    }

    /// Returns the events of a batch, and enters the outcome of its rows into the ledger.
    pub(crate) fn take(&mut self, of: &quipu_model::Batch, ledger: &mut Ledger) -> &Batch {
        self.batch.first += self.batch.events.len() as u64;
        self.batch.clear();
        self.learn(of);
        if of.span.records > 0 || of.lenses().any(|(_, rows)| rows.n_rows() > 0) {
            let begun = self.begins.filter(|_| !self.threads.contains_key(&of.span.thread));
            let row = begun.and_then(|begun| of.marks.kind.iter().position(|kind| *kind == begun));
            self.enter(of.span.thread, row.map(|row| of.marks.value[row]));
        }
        let mut counts = Counts::default();
        let signals: &[u32] = if self.names.is_empty() { &[] } else { &of.threads.at };
        // Calls are placed at the record after them. Rows of these lenses are rare, those of instructions and accesses are not.
        let mut rare: [(&[u32], Step, usize); 3] =
            [(signals, Front::thread, 0), (&of.calls.at, Front::call, 0), (&of.marks.at, Front::mark, 0)];
        let mut next = (0, 0);
        loop {
            let stop = rare.iter().filter_map(|(at, _, next)| at.get(*next)).min().copied();
            self.instructions(of, &mut next, stop, &mut counts);
            let Some(stop) = stop else { break };
            for (at, step, next) in &mut rare {
                while at.get(*next).is_some_and(|at| *at <= stop) {
                    step(self, of, *next, &mut counts);
                    *next += 1;
                }
            }
        }
        counts.started(&of.threads.what, !self.names.is_empty());
        counts.enter(ledger);
        &self.batch
    }

    /// Learns the names of functions that first appear in this batch.
    fn learn(&mut self, of: &quipu_model::Batch) {
        let n_types = self.n_types.entry(of.span.shard).or_insert(0);
        for ty in of.types.as_slice().get(*n_types..).unwrap_or(&[]) {
            if let Type::Function(function) = &**ty {
                let known = self.functions.entry((of.span.thread.workload, function.id));
                known.or_insert_with(|| match is_code(function.id) {
                    // Programs that record themselves also record their waits as marks.
                    true => Function { name: function.name.as_slice().into(), sync: None },
                    false => function_of(function.name.clone()),
                });
            }
        }
        *n_types = of.types.len();
    }

    fn put(&mut self, event: Event) {
        if self.asked.wants(&event) {
            self.batch.events.push(event);
        }
    }

    fn named(&mut self, kind: u8, name: &[u8]) {
        if self.asked.context & Detail::OFF != 0 {
            return;
        }
        let name = self.batch.add_name(&name[..name.len().min(MAX_NAME_BYTES)]);
        self.put(Event::Context(Context { kind, place: Place::Name(name) }));
    }

    /// Makes a thread the current one. Threads are numbered from 1, in order of appearance or creation; their system id is
    /// the id of a context event.
    fn enter(&mut self, thread: ThreadId, creation: Option<u64>) {
        let known = self.threads.get(&thread).copied();
        // Only threads that a recorded thread created have a number of their creation.
        let creation = creation.filter(|creation| *creation != 0);
        let number = known.unwrap_or_else(|| self.number(thread.workload, creation));
        self.threads.insert(thread, number);
        self.batch.thread = Some(number);
        if self.current == Some(thread) {
            return;
        }
        if !self.names.is_empty() {
            self.switch_calls(self.current, thread);
        }
        self.current = Some(thread);
        self.pc = None;
        self.put(Event::Sync(Sync { kind: sync::SWAP, data: number, second: None }));
        if known.is_none() && thread.tid < 1 << 56 {
            let place = Place::Address(thread.tid);
            self.put(Event::Context(Context { kind: context::THREAD, place }));
        }
    }

    /// The number of the thread with this creation number, or a new number.
    fn number(&mut self, workload: u16, creation: Option<u64>) -> u64 {
        if let Some(number) = creation.and_then(|creation| self.numbered.get(&(workload, creation))) {
            return *number;
        }
        self.n_threads += 1;
        if let Some(creation) = creation.filter(|_| self.numbered.len() < MAX_OPEN) {
            self.numbered.insert((workload, creation), self.n_threads);
        }
        self.n_threads
    }

    /// The trace of the current thread.
    fn workload(&self) -> u16 {
        self.current.map_or(0, |thread| thread.workload)
    }

    /// Shows a thread to back ends where it is created. Back ends take the k-th creation for that of thread k + 1, but
    /// threads of recordings begin in any order.
    fn show(&mut self, creation: u64) {
        let workload = self.workload();
        if self.numbered.contains_key(&(workload, creation)) || self.numbered.len() >= MAX_OPEN {
            return;
        }
        let creator = self.current.and_then(|thread| self.threads.get(&thread)).copied();
        let created = self.number(workload, Some(creation));
        for data in [Some(created), creator].into_iter().flatten() {
            self.put(Event::Sync(Sync { kind: sync::SWAP, data, second: None }));
        }
    }

    fn call(&mut self, of: &quipu_model::Batch, row: usize, counts: &mut Counts) {
        let thread = of.span.thread;
        let calls = &of.calls;
        let id = calls.function[row];
        let is_enter = calls.edge[row] == CallEdge::Enter;
        if is_code(id) && !is_enter {
            return self.leave(thread, id, counts);
        }
        let open = self.open.entry(thread).or_default();
        let args = if is_enter {
            let values = calls.args.get(row);
            let args = std::array::from_fn(|at| values.get(at).copied());
            if open.len() < MAX_OPEN {
                open.push(Open { function: id, args });
            }
            args
        } else {
            match open.iter().rposition(|open| open.function == id) {
                Some(at) => {
                    let args = open[at].args;
                    open.truncate(at);
                    args
                }
                None => [None; 5],
            }
        };
        let is_observed = !self.names.is_empty();
        let Some(Function { name, sync }) = self.function(thread, id) else {
            let result = calls.result.get(row).filter(|_| !is_enter);
            if is_observed && self.system_call(thread, id, args, result, counts) {
                return;
            }
            match sync_of_system_call(self.arch, id, args) {
                Some((kind, at_entry)) if at_entry == is_enter => {
                    // The system wakes those who wait for the end of a thread.
                    let joined = args[0].and_then(|place| self.thread_at(thread.workload, place));
                    let (kind, data, second) = match (kind, joined) {
                        (sync::WAIT, Some(handle)) => (sync::JOIN, handle, None),
                        (sync::WAIT, None) => (kind, args[0].unwrap_or(0), Some(0)),
                        _ => (kind, args[0].unwrap_or(0), None),
                    };
                    self.put(Event::Sync(Sync { kind, data, second }));
                    counts.syncs += 1;
                }
                Some(_) => {}
                None if (SYSTEM_CALLS..2 * SYSTEM_CALLS).contains(&id) => counts.system_calls += 1,
                None => counts.nameless += 1,
            }
            return;
        };
        let happens_here = sync.is_some_and(|(_, at_entry)| at_entry == is_enter);
        if let (Some((kind, _)), true) = (sync, happens_here) {
            match (args[0], kind) {
                (Some(data), sync::WAIT) => {
                    let second = Some(args[1].unwrap_or(0));
                    self.put(Event::Sync(Sync { kind, data, second }));
                    counts.syncs += 1;
                }
                (Some(data), _) => {
                    self.put(Event::Sync(Sync { kind, data, second: None }));
                    counts.syncs += 1;
                }
                (None, _) => counts.blind_syncs += 1,
            }
        }
        self.pass(if is_enter { context::ENTER } else { context::EXIT }, &name, counts);
    }

    /// Enters or leaves a function.
    fn pass(&mut self, kind: u8, name: &[u8], counts: &mut Counts) {
        counts.calls += 1;
        counts.cut_names += u64::from(name.len() > MAX_NAME_BYTES);
        self.named(kind, name);
    }

    /// The function with this number. A code address without a name gets one made of the address.
    fn function(&mut self, thread: ThreadId, id: u64) -> Option<Function> {
        let known = self.functions.get(&(thread.workload, id)).cloned();
        let known = known.filter(|function| !function.name.is_empty());
        if known.is_none() && is_code(id) {
            let function = Function { name: format!("function {id:#x}").into_bytes().into(), sync: None };
            if self.functions.len() < MAX_FUNCTIONS {
                self.functions.insert((thread.workload, id), function.clone());
            }
            return Some(function);
        }
        known
    }

    /// Leaves a function of a program that records itself. `id` is the function to which the recorder returns. If the
    /// compiler made the call of the recorder a tail call, that is the caller, so the innermost function is left. If `id` is
    /// only open further out than the caller, a jump has left the functions in between, and all of them are left.
    fn leave(&mut self, thread: ThreadId, id: u64, counts: &mut Counts) {
        let open = self.open.entry(thread).or_default();
        let depth = match open.iter().rposition(|open| open.function == id) {
            _ if open.is_empty() => {
                let name = self.function(thread, id).map(|function| function.name).unwrap_or_default();
                return self.pass(context::EXIT, &name, counts);
            }
            Some(at) if at + 2 < open.len() => at,
            _ => open.len() - 1,
        };
        while let Some(Open { function, .. }) =
            self.open.get_mut(&thread).filter(|open| open.len() > depth).and_then(Vec::pop)
        {
            let name = self.function(thread, function).map(|function| function.name).unwrap_or_default();
            self.pass(context::EXIT, &name, counts);
        }
    }

    fn mark(&mut self, of: &quipu_model::Batch, row: usize, counts: &mut Counts) {
        let mark = self.marks.get(&of.marks.kind[row]).copied();
        self.marked(mark, of.marks.value[row], counts);
    }

    /// Makes the events of a mark with this meaning and value.
    fn marked(&mut self, mark: Option<Mark>, value: u64, counts: &mut Counts) {
        match mark {
            Some(Mark::Sync(kind)) => {
                let mutex = self.mutex.take().unwrap_or(0);
                let second = (kind == sync::WAIT).then_some(mutex);
                let handle = self.created.get(&(self.workload(), value)).filter(|_| kind == sync::JOIN);
                let data = handle.copied().unwrap_or(value);
                self.put(Event::Sync(Sync { kind, data, second }));
                counts.syncs += 1;
                if kind == sync::CREATE && self.begins.is_some() {
                    self.show(value);
                }
            }
            Some(Mark::Mutex) => self.mutex = Some(value),
            Some(Mark::Begun) => self.begun = Some(value),
            Some(Mark::Handle) => {
                if let Some(number) = self.begun.take()
                    && self.created.len() < MAX_OPEN
                {
                    self.created.insert((self.workload(), value), number);
                }
            }
            None => counts.marks += 1,
        }
    }

    /// Makes the events of instructions and accesses of records before `stop`, from the given rows on. An instruction comes
    /// before the accesses of its record.
    fn instructions(
        &mut self,
        of: &quipu_model::Batch,
        (instr, access): &mut (usize, usize),
        stop: Option<u32>,
        counts: &mut Counts,
    ) {
        let stop = stop.map_or(u64::MAX, u64::from);
        let at = |rows: &[u32], row: usize| rows.get(row).map_or(u64::MAX, |at| u64::from(*at));
        loop {
            let of_instr = at(&of.instrs.at, *instr);
            let limit = of_instr.min(stop);
            while at(&of.accesses.at, *access) < limit {
                self.access(of, *access, counts);
                *access += 1;
            }
            if of_instr >= stop {
                break;
            }
            self.instr(of, *instr, counts);
            *instr += 1;
        }
    }

    #[inline]
    fn instr(&mut self, of: &quipu_model::Batch, row: usize, counts: &mut Counts) {
        let instrs = &of.instrs;
        if instrs.flags[row] & instr_flags::NO_FETCH != 0 {
            // A further iteration of a string loop.
            counts.iterations += 1;
            return;
        }
        counts.instrs += 1;
        let pc = instrs.pc[row];
        self.pc = Some(pc);
        let is_observed = !self.names.is_empty();
        if is_observed {
            self.arrive(of.span.thread.workload, pc, counts);
        }
        self.put(Event::Context(Context { kind: context::INSTRUCTION, place: Place::Address(pc) }));
        let target = match instrs.code.get(row) {
            Some(code) if *code != NO_CODE => self.compute(of, *code, counts),
            _ => {
                counts.codeless += 1;
                None
            }
        };
        let Some(class) = instrs.class.get(row) else { return };
        if is_observed {
            let key =
                instrs.code.get(row).filter(|_| self.is_tracking()).and_then(|code| self.tracked(of, *code));
            self.executed(*class, pc.wrapping_add(instrs.size[row].into()), key);
        }
        let (kind, indirect) = match class {
            InstrClass::DirectJump => (control::JUMP, false),
            InstrClass::IndirectJump => (control::JUMP, true),
            InstrClass::ConditionalJump => (control::BRANCH, false),
            InstrClass::DirectCall => (control::CALL, false),
            InstrClass::IndirectCall => (control::CALL, true),
            InstrClass::Return => (control::RETURN, true),
            InstrClass::Other | InstrClass::Sysenter => return,
        };
        let outcome = instrs.taken.get(row).copied().unwrap_or(Taken::Unknown);
        let is_branch = kind == control::BRANCH;
        counts.blind_outcomes += u64::from(is_branch && outcome == Taken::Unknown);
        let target = instrs.target.get(row).copied().filter(|target| *target != 0).or(target);
        counts.controls += 1;
        counts.blind_targets += u64::from(target.is_none());
        self.put(Event::Control(Control {
            kind: Some(kind),
            taken: if is_branch { taken(outcome) } else { Some(true) },
            indirect: Some(indirect),
            target,
        }));
    }

    /// Decodes an instruction that may handle arguments, and returns its key.
    #[cold]
    fn tracked(&mut self, of: &quipu_model::Batch, code: u32) -> Option<(u32, u32)> {
        let key = (of.codes.home(of.span.shard), code);
        if !self.tracked.contains_key(&key) {
            let code = of.codes.get(code)?;
            let decoder = self.decoder.as_mut()?;
            let instr = decoder.decode(code.pc, code.bytes()).ok()?;
            let work = decoder.work(&instr, code.pc, code.bytes());
            self.keep_tracked(key, Box::new((instr, work)));
        }
        Some(key)
    }

    fn thread(&mut self, of: &quipu_model::Batch, row: usize, counts: &mut Counts) {
        let (what, value) = (of.threads.what[row], of.threads.value[row]);
        self.thread_event(of.span.thread.workload, what, value, counts);
    }

    /// Makes the event of an instruction's computation. Returns the target in the instruction, if it has one.
    #[inline]
    fn compute(&mut self, of: &quipu_model::Batch, code: u32, counts: &mut Counts) -> Option<u64> {
        self.works.turn_to(of.codes.home(of.span.shard));
        if self.works.get(code).is_none() {
            self.find_work(of, code);
        }
        let Some(work) = self.works.get(code) else {
            counts.codeless += 1;
            return None;
        };
        if let Some(event) = &work.compute {
            counts.computes += 1;
            if self.asked.compute & Detail::OFF == 0 {
                self.batch.events.push(*event);
            }
        }
        match work.hidden {
            Some(Hidden::Undecodable) => counts.undecodable += 1,
            Some(Hidden::Unknown) => counts.unknown += 1,
            None => {}
        }
        work.target
    }

    #[cold]
    fn find_work(&mut self, of: &quipu_model::Batch, code: u32) {
        let without = |hidden| Work { hidden: Some(hidden), ..Work::default() };
        let Some(known) = of.codes.get(code) else { return };
        let work = match &mut self.decoder {
            None => without(Hidden::Unknown),
            Some(decoder) => match decoder.decode(known.pc, known.bytes()) {
                Ok(instr) => {
                    let work = decoder.work(&instr, known.pc, known.bytes());
                    let hidden = if work.is_some() { None } else { hidden(&instr) };
                    Work {
                        compute: work.map(|work| Event::Compute(computed(work))),
                        target: instr.target,
                        hidden,
                    }
                }
                Err(_) => without(Hidden::Undecodable),
            },
        };
        self.works.keep(code, work);
    }

    #[inline]
    fn access(&mut self, of: &quipu_model::Batch, row: usize, counts: &mut Counts) {
        let accesses = &of.accesses;
        let kind = match accesses.kind[row] {
            AccessKind::Read => {
                counts.loads += 1;
                access::LOAD
            }
            AccessKind::Write => {
                counts.stores += 1;
                access::STORE
            }
            AccessKind::Prefetch | AccessKind::PrefetchInstr => return counts.prefetches += 1,
            AccessKind::FlushData | AccessKind::FlushInstr => return counts.flushes += 1,
            AccessKind::Fetch => return counts.fetches += 1,
        };
        if !self.names.is_empty() {
            let is_write = kind == access::STORE;
            self.accessed(of.span.thread.workload, is_write, accesses.addr[row], counts);
        }
        // Without recorded instructions, accesses give the instructions that made them.
        if let Some(pc) = accesses.pc.get(row)
            && !self.columns.has(Columns::INSTRS)
            && self.pc != Some(*pc)
        {
            self.pc = Some(*pc);
            counts.places += 1;
            self.put(Event::Context(Context { kind: context::INSTRUCTION, place: Place::Address(*pc) }));
        }
        let size = accesses.size[row];
        counts.sizeless += u64::from(size == 0);
        counts.wide += u64::from(size > u32::from(u16::MAX));
        self.put(Event::Memory(Memory {
            access: Some(kind),
            size: Some(size.clamp(1, u16::MAX.into()) as u16), // It fits.
            address: Some(accesses.addr[row]),
            id: None,
        }));
    }
}

/// Whether the computation of an instruction is unknown: it is of an extension that the decoder does not know, or stands for
/// bytes that could not be decoded. For instructions without a known computation.
fn hidden(instr: &quipu_isa::Instr) -> Option<Hidden> {
    let has_registers = !instr.reads.is_empty() || !instr.writes.is_empty();
    if instr.reads_memory() || instr.writes_memory() {
        return None;
    }
    match instr.opcode.name() {
        "unknown" | "sve" | "sme" => Some(Hidden::Unknown),
        "undecoded" if instr.categories.is_empty() && !has_registers => Some(Hidden::Undecodable),
        _ => None,
    }
}

/// The computation of an instruction as an event.
fn computed(work: quipu_isa::Work) -> Compute {
    let operation = match work.operation {
        Operation::Other => 0,
        Operation::Add => 1,
        Operation::Subtract => 2,
        Operation::Multiply => 3,
        Operation::Divide => 4,
        Operation::Shift => 5,
        Operation::Move => 6,
    };
    Compute {
        format: Some(if work.is_float { format::FLOAT } else { format::INTEGER }),
        width: Some(work.bytes).filter(|bytes| *bytes > 0),
        operation: Some(operation),
        arguments: Some(work.arity),
        ids: None,
    }
}

/// Whether a branch is taken; `None` if the trace does not record it.
fn taken(outcome: Taken) -> Option<bool> {
    match outcome {
        Taken::Yes => Some(true),
        Taken::No => Some(false),
        Taken::Unknown => None,
    }
}

/// The function with this name.
fn function_of(name: Vec<u8>) -> Function {
    let sync = sync_of_function(&name);
    Function { name: name.into(), sync }
}

/// Whether the number of a function is a code address.
fn is_code(function: u64) -> bool {
    function >= ADDRESSES && !(SYSTEM_CALLS..2 * SYSTEM_CALLS).contains(&function)
}

/// Makes events from a row of a lens.
type Step = fn(&mut Front, &quipu_model::Batch, usize, &mut Counts);
