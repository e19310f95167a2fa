//! `functions`: how often each traced function and system call is entered and left.
//!
//! Counts the rows of the calls lens by the trace's id of the function: *calls* are entries, *returns* are leaves. Names
//! come from the trace; functions that the trace names but never calls are listed with 0. A system call that is traced with
//! its values has an id of its own, a base plus its number (base 0x1_0000_0000 where pointers have 8 bytes, else 0x1_0000);
//! it is listed as a system call with that number. A function that does not return, and one that the trace ends in,
//! has fewer returns than calls. (SPEC: docs/formats/drmemtrace.md, *Grammar of a file*.)
//!
//! * **Needs** `calls`.
//! * **Options** none.
//! * **JSON** [`FunctionCounts`].

use crate::split::to_json;
use crate::tally::Map;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::lens::CallEdge;
use quipu_model::pass::Detail;
use quipu_model::{
    Args, Batch, Columns, DynPass, Meta, Needs, Order, Pass, Report, Result, Shard, Tool, ToolInfo, Trace,
};
use serde::Serialize;
use std::any::Any;
use std::cmp::Reverse;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// The tool `functions`.
#[derive(Debug)]
pub struct Functions;

static INFO: ToolInfo = ToolInfo {
    name: "functions",
    summary: "how often each traced function and system call is entered and left",
    needs: Needs { format: None, required: Columns::CALLS, optional: Columns::NONE },
    order: Order::Pieces,
    options: &[],
    in_report: true,
};

impl Tool for Functions {
    fn info(&self) -> &'static ToolInfo {
        &INFO
    }

    fn build(&self, _args: &Args, trace: &dyn Trace) -> Result<Box<dyn DynPass>> {
        Ok(Box::new(Edges { names: Arc::new(Names::new(trace.meta())), counts: Map::default() }))
    }
}

/// Where ids of system calls begin: their number is what lies above.
const SYSCALL_BASE_64: u64 = 0x1_0000_0000;
/// The same in traces of 32-bit programs.
const SYSCALL_BASE_32: u64 = 0x1_0000;

/// How often each function was entered and left.
///
/// JSON: `functions` (list of [`FunctionCount`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionCounts {
    /// Each function, by calls, then returns (most first), then ascending id.
    pub functions: Vec<FunctionCount>,
}

/// One function or system call.
///
/// JSON: `id`, `kind` (`function` or `syscall`), `number` (of a system call, else null), `names` (several if they are
/// aliases, sorted; none if the trace does not say), `calls`, `returns`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionCount {
    /// The trace's id.
    pub id: u64,
    /// What it is.
    pub kind: CalleeKind,
    /// Number of the system call.
    pub number: Option<u64>,
    /// Its names.
    pub names: Vec<String>,
    /// How often it was entered.
    pub calls: u64,
    /// How often it was left.
    pub returns: u64,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CalleeKind {
    /// A function of the program.
    Function,
    /// A system call.
    Syscall,
}

/// What the trace says of its functions.
struct Names {
    syscall_base: u64,
    names: Map<u64, Vec<String>>,
}

impl Names {
    fn new(meta: &Meta) -> Names {
        let pointer_bytes = meta.arch.and_then(|arch| arch.pointer_bytes());
        Names {
            syscall_base: if pointer_bytes == Some(4) { SYSCALL_BASE_32 } else { SYSCALL_BASE_64 },
            names: meta.functions.iter().map(|function| (function.id, function.names.clone())).collect(),
        }
    }
}

/// The pass.
struct Edges {
    names: Arc<Names>,
    /// Calls and returns by id.
    counts: Map<u64, (u64, u64)>,
}

impl Pass for Edges {
    fn fork(&self, _shard: &Shard) -> Edges {
        Edges { names: Arc::clone(&self.names), counts: Map::default() }
    }

    fn consume(&mut self, batch: &Batch) -> Result<()> {
        for (&function, &edge) in batch.calls.function.iter().zip(&batch.calls.edge) {
            let (calls, returns) = self.counts.entry(function).or_insert((0, 0));
            match edge {
                CallEdge::Enter => *calls += 1,
                CallEdge::Leave => *returns += 1,
            }
        }
        Ok(())
    }

    fn merge(&mut self, later: Edges) -> Result<()> {
        for (id, later) in later.counts {
            let (calls, returns) = self.counts.entry(id).or_insert((0, 0));
            *calls += later.0;
            *returns += later.1;
        }
        Ok(())
    }

    fn finish(self) -> Result<Box<dyn Report>> {
        let mut counts = self.counts;
        for &id in self.names.names.keys() {
            counts.entry(id).or_insert((0, 0));
        }
        let mut functions: Vec<FunctionCount> = counts
            .into_iter()
            .map(|(id, (calls, returns))| {
                let number = id.checked_sub(self.names.syscall_base);
                FunctionCount {
                    id,
                    kind: if number.is_some() { CalleeKind::Syscall } else { CalleeKind::Function },
                    number,
                    names: self.names.names.get(&id).cloned().unwrap_or_default(),
                    calls,
                    returns,
                }
            })
            .collect();
        functions.sort_unstable_by_key(|function| {
            (Reverse(function.calls), Reverse(function.returns), function.id)
        });
        Ok(Box::new(FunctionCounts { functions }))
    }
}

impl FunctionCount {
    /// The name to show: the first of the aliases, or what is known of it.
    pub fn label(&self) -> String {
        match (self.names.first(), self.number) {
            (Some(name), _) => name.clone(),
            (None, Some(number)) => format!("system call {number}"),
            (None, None) => format!("function {}", self.id),
        }
    }
}

/// How many rows a brief document shows.
const BRIEF_ROWS: usize = 6;

impl Report for FunctionCounts {
    fn json(&self) -> serde_json::Value {
        to_json(self)
    }

    fn document(&self, detail: Detail) -> Document {
        let is_shown =
            |function: &&FunctionCount| detail == Detail::Full || function.calls + function.returns > 0;
        let shown = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
        let row = |function: &FunctionCount| {
            vec![function.label().into(), Cell::Count(function.calls), Cell::Count(function.returns)]
        };
        let rows: Vec<_> = self.functions.iter().filter(is_shown).take(shown).map(row).collect();
        if rows.is_empty() && detail == Detail::Brief {
            return Document::new("Functions");
        }
        if rows.is_empty() {
            return Document::new("Functions")
                .with(Block::Note("No traced function or system call occurs.".into()));
        }
        let more = self.functions.iter().filter(is_shown).count() - rows.len();
        Document::new("Functions").with(Block::Grid(Grid {
            title: String::new(),
            head: ["function", "calls", "returns"].map(str::to_owned).into(),
            rows,
            more: more as u64,
        }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
