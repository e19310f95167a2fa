//! `functions`: traced functions and system calls: how often each is entered and left, callers and callees, and arguments.
//!
//! *Counts*: rows of the calls lens, counted by the trace's id of the function; traces that are read together have separate
//! ids and names. *Calls* are entries, *returns* are exits. Names come from the header of the trace, or from the record that
//! defines a function; functions that the header names but that are never called are listed with 0. A system call that is
//! traced with its values has an id of its own, a base plus its number (base 0x1_0000_0000 if pointers have 8 bytes, otherwise
//! 0x1_0000); it is listed as a system call with that number. A function that does not return, or in which the trace ends, has
//! fewer returns than calls. (SPEC: drmemtrace.md#grammar-of-a-file.)
//!
//! *Tree*: the first calls of each thread of each shard, in order, with their nesting depth, arguments and result. A function
//! that according to the trace never returns adds no depth. A return belongs to the innermost open call of its function;
//! open calls nested in that one are taken as never returning. For further calls, which are only counted, any return ends the
//! innermost call. `record` is the position after the call's values, for use with `quipu view --skip`.
//!
//! `per-thread` adds the counts of each thread, for the functions that it enters or leaves; they add up to those of the whole
//! trace. (The tree is always per thread.)
//!
//! Memory grows with the number of distinct functions, and of threads times `tree`; with `per-thread`, also with the number
//! of distinct functions of each thread.
//!
//! System calls that are traced by number only, without values, are not listed as calls: only their total is counted.
//!
//! * **Needs** `calls`; uses `threads`.
//! * **Options** `tree` (calls listed of each thread, default 100; 0 for none), `per-thread`.

mod show;
mod tree;

use crate::keyed::Keyed;
use crate::split::{OfThread, PER_THREAD};
use crate::syscalls::syscall_name;
use crate::tally::Map;
use quipu_isa::Arch;
use quipu_model::ThreadId;
use quipu_model::lens::{CallEdge, ThreadEvent};
use quipu_model::options::Kind;
use quipu_model::result;
use quipu_model::result::{Fields, Hex, Shape};
use quipu_model::trace::Function;
use quipu_model::values::{Type, Types};
use quipu_model::{
    Batch, Columns, DynPass, Meta, Needs, OptionSpec, Options, Order, Pass, Report, Result, Shard, Tool,
    ToolInfo, Trace,
};
use std::cmp::Reverse;
use std::sync::Arc;
use tree::Tree;

#[cfg(test)]
mod tests;

/// The tool `functions`.
#[derive(Debug)]
pub struct Functions;

static INFO: ToolInfo = ToolInfo {
    name: "functions",
    summary: "traced functions and system calls: counts, and a tree of calls with arguments",
    needs: Needs { format: None, required: Columns::CALLS, optional: Columns::THREADS },
    order: Order::Pieces,
    options: &[TREE, PER_THREAD],
    in_report: true,
};

/// Option: number of calls to list for each thread.
const TREE: OptionSpec =
    OptionSpec::new("tree", Kind::Count, "100", "number of calls to list for each thread, as a tree");

impl Tool for Functions {
    fn result(&self) -> Shape {
        FunctionCounts::shape()
    }

    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, options: &Options, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        let names = Arc::new(Names::new(trace.meta()));
        let tree = Tree::new(Arc::clone(&names), options.count(&TREE));
        let threads = options.flag(&PER_THREAD).then(Keyed::default);
        let mut edges = Edges::new(names, tree, threads);
        edges.syscalls = trace.columns().has(Columns::THREADS).then_some(0);
        Ok(Box::new(edges))
    }
}

/// The first id of system calls: ids from here on are this base plus the number of a system call.
const SYSCALL_BASE_64: u64 = 0x1_0000_0000;
/// The same for traces of 32-bit programs.
const SYSCALL_BASE_32: u64 = 0x1_0000;

result! {
    /// How often each function was entered and left.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FunctionCounts {
        pub functions: Vec<FunctionCount> =>
            "Functions by calls, then returns (most first), then ascending id.";
        pub tree: Vec<ListedThread> => "First calls of each thread that makes any, by shard.";
        pub syscalls: Option<u64> =>
            "Number of system calls, traced with values or by number only.";
        pub threads: Vec<OfThread<ThreadCalls>>, perhaps =>
            "Threads in order of first appearance; empty without `per-thread`.";
    }
}

result! {
    /// How often one thread entered and left each function.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ThreadCalls {
        pub functions: Vec<FunctionCount> =>
            "Functions that it entered or left, by calls, then returns (most first), then ascending id.";
    }
}

result! {
    /// The first calls of one thread.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ListedThread {
        pub shard: u32, key => "Number of the shard.";
        pub thread: ThreadId, flat, key => "The thread.";
        pub calls: Vec<Listed> => "Calls, in order.";
        pub more: u64 => "Number of further calls.";
    }
}

result! {
    /// One call.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Listed {
        pub function: u64 => "The trace's id of the function.";
        pub name: String => "Name of the function, as in `functions`.";
        pub depth: u64 => "Number of open calls around it.";
        pub record: u64 => "Number of records of the shard up to the end of the call's values.";
        pub return_to: u64 as Hex => "Return address; 0 if the trace does not say.";
        pub args: Vec<u64> as Hex => "Arguments.";
        pub result: Option<u64> as Hex => "Result; null if it does not return.";
    }
}

result! {
    /// One function or system call.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FunctionCount {
        pub id: u64 => "The trace's id of the function.";
        pub workload: u16, perhaps => "Number of the trace, if several are read; left out for the first.";
        pub kind: CalleeKind => "Function or system call.";
        pub number: Option<u64> => "Number of the system call.";
        pub names: Vec<String> => "Names of the function.";
        pub calls: u64 => "Number of entries.";
        pub returns: u64 => "Number of exits.";
    } beside {
        pub label: String => "Name to show.";
    }
}

/// Kinds of callees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalleeKind {
    /// A function of the program.
    Function,
    /// A system call.
    Syscall,
}

impl CalleeKind {
    /// The name of the kind in results.
    pub fn name(self) -> &'static str {
        match self {
            CalleeKind::Function => "function",
            CalleeKind::Syscall => "syscall",
        }
    }
}

quipu_model::result_names!(CalleeKind);

/// Names and properties of the trace's functions.
struct Names {
    arch: Option<Arch>,
    syscall_base: u64,
    /// Names by workload and id.
    names: Map<(u16, u64), Vec<String>>,
    noret: Vec<(u16, u64)>,
}

impl Names {
    fn new(meta: &Meta) -> Names {
        let pointer_bytes = meta.arch.and_then(|arch| arch.pointer_bytes());
        let key = |function: &Function| (function.workload, function.id);
        Names {
            arch: meta.arch,
            noret: meta.functions.iter().filter(|function| function.noret).map(key).collect(),
            syscall_base: if pointer_bytes == Some(4) { SYSCALL_BASE_32 } else { SYSCALL_BASE_64 },
            names: meta.functions.iter().map(|function| (key(function), function.names.clone())).collect(),
        }
    }
}

impl Names {
    /// True if the function never returns.
    fn is_noret(&self, function: (u16, u64)) -> bool {
        self.noret.contains(&function)
    }

    /// The number of the system call, if the id is one. Ids of functions may be their addresses, which are farther away.
    fn syscall(&self, id: u64) -> Option<u64> {
        id.checked_sub(self.syscall_base).filter(|number| *number < SYSCALL_BASE_64)
    }

    /// The name to show: the first of the aliases, or a description by id, with the workload in front if it is not the
    /// first.
    fn label(&self, function: (u16, u64)) -> String {
        match function {
            (0, _) => self.bare_label(function),
            (workload, _) => format!("W{workload}.{}", self.bare_label(function)),
        }
    }

    /// The same without the workload.
    fn bare_label(&self, function: (u16, u64)) -> String {
        if let Some(name) = self.names.get(&function).and_then(|names| names.first()) {
            return name.clone();
        }
        let (_, id) = function;
        match self.syscall(id) {
            Some(number) => match syscall_name(self.arch, number) {
                Some(name) => format!("system call {number} ({name})"),
                None => format!("system call {number}"),
            },
            None if id >= SYSCALL_BASE_32 => format!("function {id:#x}"),
            None => format!("function {id}"),
        }
    }
}

/// Calls and returns by workload and id.
#[derive(Clone, Default)]
struct Counts(Map<(u16, u64), (u64, u64)>);

impl Counts {
    fn consume(&mut self, batch: &Batch) {
        let workload = batch.span.thread.workload;
        for (&function, &edge) in batch.calls.function.iter().zip(&batch.calls.edge) {
            let (calls, returns) = self.0.entry((workload, function)).or_insert((0, 0));
            match edge {
                CallEdge::Enter => *calls += 1,
                CallEdge::Leave => *returns += 1,
            }
        }
    }

    fn add(&mut self, later: &Counts) {
        for (&function, later) in &later.0 {
            let (calls, returns) = self.0.entry(function).or_insert((0, 0));
            *calls += later.0;
            *returns += later.1;
        }
    }

    /// Each function with its names.
    fn list(self, names: &Names, defined: &Map<u64, String>) -> Vec<FunctionCount> {
        let function = |((workload, id), (calls, returns))| {
            let number = names.syscall(id);
            let defined = defined.get(&id);
            let known = names.names.get(&(workload, id)).cloned();
            FunctionCount {
                id,
                workload,
                label: defined.cloned().unwrap_or_else(|| names.label((workload, id))),
                kind: if number.is_some() { CalleeKind::Syscall } else { CalleeKind::Function },
                number,
                names: known.or_else(|| defined.map(|name| vec![name.clone()])).unwrap_or_default(),
                calls,
                returns,
            }
        };
        let mut functions: Vec<FunctionCount> = self.0.into_iter().map(function).collect();
        functions.sort_unstable_by_key(|function| {
            (Reverse(function.calls), Reverse(function.returns), function.workload, function.id)
        });
        functions
    }
}

/// The pass.
struct Edges {
    names: Arc<Names>,
    whole: Counts,
    /// Each thread's counts; `None` unless requested. If it is `Some`, `whole` stays empty.
    threads: Option<Keyed<ThreadId, Counts>>,
    tree: Tree,
    /// Number of system calls; `None` if the trace does not record them.
    syscalls: Option<u64>,
    /// Names that are defined in the trace itself, by id.
    defined: Map<u64, String>,
    /// Number of types of the current read that were searched for such names.
    n_types: usize,
}

impl Edges {
    fn new(names: Arc<Names>, tree: Tree, threads: Option<Keyed<ThreadId, Counts>>) -> Edges {
        Edges {
            names,
            whole: Counts::default(),
            threads,
            tree,
            syscalls: None,
            defined: Map::default(),
            n_types: 0,
        }
    }

    /// Records the names of functions that this batch defines.
    fn learn(&mut self, types: &Types) {
        for ty in types.as_slice().get(self.n_types..).unwrap_or(&[]) {
            if let Type::Function(function) = &**ty {
                let name = String::from_utf8_lossy(&function.name).into_owned();
                self.defined.entry(function.id).or_insert(name);
            }
        }
        self.n_types = types.len();
    }
}

impl Pass for Edges {
    fn fork(&self, _shard: &Shard) -> Edges {
        let threads = self.threads.as_ref().map(|_| Keyed::default());
        let fork = Edges::new(Arc::clone(&self.names), self.tree.fork(), threads);
        Edges { syscalls: self.syscalls.map(|_| 0), ..fork }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        if batch.types.len() > self.n_types {
            self.learn(&batch.types);
        }
        let span = &batch.span;
        match &mut self.threads {
            None => self.whole.consume(batch),
            Some(threads) => threads.entry(span.thread, Counts::default).consume(batch),
        }
        if let Some(syscalls) = &mut self.syscalls {
            let is_call = |what: &&ThreadEvent| **what == ThreadEvent::Syscall;
            *syscalls += batch.threads.what.iter().filter(is_call).count() as u64;
        }
        self.tree.consume(&batch.calls, span.shard, span.thread, span.first_record);
        Ok(())
    }

    fn merge(&mut self, later: Edges) -> Result<()> {
        self.whole.add(&later.whole);
        if let (Some(threads), Some(later)) = (&mut self.threads, later.threads) {
            threads.merge(later, |counts, later| counts.add(&later));
        }
        self.tree.merge(later.tree);
        if let (Some(syscalls), Some(later)) = (&mut self.syscalls, later.syscalls) {
            *syscalls += later;
        }
        for (id, name) in later.defined {
            self.defined.entry(id).or_insert(name);
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let (names, defined) = (&*self.names, &self.defined);
        let mut whole = self.whole;
        let mut threads = Vec::new();
        for (thread, counts) in self.threads.map_or(Vec::new(), Keyed::into_items) {
            whole.add(&counts);
            let result = ThreadCalls { functions: counts.list(names, defined) };
            threads.push(OfThread { thread, result });
        }
        for &function in names.names.keys() {
            whole.0.entry(function).or_insert((0, 0));
        }
        let functions = whole.list(names, defined);
        let mut tree = self.tree.finish();
        for call in tree.iter_mut().flat_map(|thread| &mut thread.calls) {
            if let Some(name) = defined.get(&call.function) {
                call.name.clone_from(name);
            }
        }
        Ok(Box::new(FunctionCounts { functions, tree, syscalls: self.syscalls, threads }))
    }
}
