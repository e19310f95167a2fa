//! Functions as text and tables.

use super::{CalleeKind, FunctionCount, FunctionCounts, ListedThread};
use crate::number::grouped;
use quipu_model::ReportBody;
use quipu_model::doc::{Block, Cell, Document, Grid};
use quipu_model::pass::Detail;

/// Number of rows in a brief document.
const BRIEF_ROWS: usize = 6;

/// Deeper calls are not indented further.
const MAX_INDENT: u64 = 24;

impl ReportBody for FunctionCounts {
    fn document(&self, detail: Detail) -> Document {
        let whole = summary(String::new(), &self.functions, detail);
        if whole.rows.is_empty() && detail == Detail::Brief {
            return Document::new("Functions");
        }
        if whole.rows.is_empty() {
            return Document::new("Functions").with(Block::Note(self.nothing()));
        }
        let mut document = Document::new("Functions").with(Block::Grid(whole));
        for of in self.threads.iter().filter(|of| !of.result.functions.is_empty()) {
            let title = format!("thread {}", of.thread);
            document.blocks.push(Block::Grid(summary(title, &of.result.functions, detail)));
        }
        document.blocks.extend(self.untraced().filter(|_| detail == Detail::Full).map(Block::Note));
        if detail == Detail::Full {
            document.blocks.extend(self.tree.iter().map(|thread| Block::Grid(grid(thread))));
        }
        document
    }
}

impl FunctionCounts {
    /// The sentence for a trace without calls that are traced with their values.
    fn nothing(&self) -> String {
        match self.syscalls {
            None => "No call of a traced function occurs, and no system call whose arguments are traced."
                .to_owned(),
            Some(0) => "No call of a traced function occurs, and no system call.".to_owned(),
            Some(n) => format!(
                "No call of a traced function occurs. System calls occur, without their arguments: {}. `syscalls` lists them.",
                grouped(n)
            ),
        }
    }

    /// A sentence about the system calls that are missing from the list.
    fn untraced(&self) -> Option<String> {
        let traced = self.functions.iter().filter(|function| function.kind == CalleeKind::Syscall);
        let traced: u64 = traced.map(|function| function.calls).sum();
        let all = self.syscalls.filter(|all| *all > traced)?;
        let calls = grouped(all);
        let traced = match (all, traced) {
            (1, _) => "The only system call is traced without its arguments".to_owned(),
            (_, 0) => format!("None of {calls} system calls is traced with its arguments"),
            (_, 1) => format!("Of {calls} system calls, 1 is traced with its arguments"),
            (_, n) => format!("Of {calls} system calls, {} are traced with their arguments", grouped(n)),
        };
        Some(format!("{traced}; `syscalls` lists all."))
    }
}

/// Entries and returns of functions; a brief document has the first of those that occurred.
fn summary(title: String, functions: &[FunctionCount], detail: Detail) -> Grid {
    let is_shown =
        |function: &&FunctionCount| detail == Detail::Full || function.calls + function.returns > 0;
    let shown = if detail == Detail::Brief { BRIEF_ROWS } else { usize::MAX };
    let row = |function: &FunctionCount| {
        vec![Cell::Text(function.label.clone()), Cell::Count(function.calls), Cell::Count(function.returns)]
    };
    let rows: Vec<_> = functions.iter().filter(is_shown).take(shown).map(row).collect();
    let more = functions.iter().filter(is_shown).count() - rows.len();
    Grid { title, head: ["function", "calls", "returns"].map(str::to_owned).into(), rows, more: more as u64 }
}

/// The calls of a thread, indented by their depth.
fn grid(thread: &ListedThread) -> Grid {
    let rows = thread.calls.iter().map(|call| {
        let indent = "  ".repeat(call.depth.min(MAX_INDENT) as usize); // At most `MAX_INDENT`.
        let args: Vec<String> = call.args.iter().map(|arg| format!("{arg:#x}")).collect();
        vec![
            Cell::Text(call.record.to_string()),
            Cell::Code(format!("{indent}{}({})", call.name, args.join(", "))),
            call.result.map_or(Cell::Empty, |result| Cell::Code(format!("{result:#x}"))),
        ]
    });
    Grid {
        title: format!("calls of thread {}", thread.thread),
        head: ["record", "call", "result"].map(str::to_owned).into(),
        rows: rows.collect(),
        more: thread.more,
    }
}
