//! Prints the results of `func_view`: a line for each call while reading, and a summary.
//!
//! Unlike in the launcher, a line that is interrupted by another thread's call is ended first, and a function in which its
//! thread ends is reported once as not returning, without a bracket of its own.

use super::counts::line;
use quipu::model::ThreadId;
use quipu::model::lens::{CallEdge, ThreadEvent};
use quipu::model::{Batch, Meta};
use quipu::passes::functions::{CalleeKind, FunctionCounts};
use std::collections::HashMap;
use std::io::Write as _;

/// First id of system calls, which the launcher leaves out; independent of the pointer size.
const SYSCALL_BASE: u64 = 0x1_0000_0000;

/// Prints lines for calls, from batches in the order of the clock.
pub(super) struct CallLines {
    /// Name of each function, and whether it never returns, by workload and id.
    functions: HashMap<(u16, u64), (String, bool)>,
    threads: HashMap<ThreadId, Nesting>,
    /// The thread whose line has not been ended yet.
    open: Option<ThreadId>,
}

/// Call depth of a thread.
#[derive(Default)]
struct Nesting {
    depth: usize,
    /// Whether the last function entered never returns.
    after_noret: bool,
}

/// Deeper calls are not indented further.
const MAX_DEPTH: usize = 1000;

impl CallLines {
    pub(super) fn new(meta: &Meta) -> CallLines {
        let functions = meta.functions.iter().filter_map(|function| {
            let named = (function.names.first()?.clone(), function.noret);
            Some(((function.workload, function.id), named))
        });
        CallLines { functions: functions.collect(), threads: HashMap::new(), open: None }
    }

    pub(super) fn write(&mut self, batch: &Batch, out: &mut Vec<u8>) {
        (0..batch.calls.len()).for_each(|row| self.call(batch, row, out));
        self.end_thread(batch, out);
    }

    /// Prints the calls of cores that run side by side, in the order of their records.
    pub(super) fn write_round(&mut self, batches: &[Batch], out: &mut Vec<u8>) {
        let of = |(turn, batch): (usize, &Batch)| -> Vec<(u32, usize, usize)> {
            batch.calls.at.iter().enumerate().map(|(row, at)| (*at, turn, row)).collect()
        };
        let mut calls: Vec<(u32, usize, usize)> = batches.iter().enumerate().flat_map(of).collect();
        calls.sort_unstable();
        calls.into_iter().for_each(|(_, turn, row)| self.call(&batches[turn], row, out));
        batches.iter().for_each(|batch| self.end_thread(batch, out));
    }

    fn call(&mut self, batch: &Batch, row: usize, out: &mut Vec<u8>) {
        let (tid, calls) = (batch.span.thread, &batch.calls);
        if calls.function[row] < SYSCALL_BASE {
            match calls.edge[row] {
                CallEdge::Enter => {
                    let (function, from) = (calls.function[row], calls.return_to[row]);
                    self.enter(tid, function, from, calls.args.get(row), out);
                }
                CallEdge::Leave => self.leave(tid, calls.result.get(row).unwrap_or(0), out),
            }
        }
    }

    fn end_thread(&mut self, batch: &Batch, out: &mut Vec<u8>) {
        let tid = batch.span.thread;
        if self.open == Some(tid) && batch.threads.what.contains(&ThreadEvent::Stop) {
            line(out, format_args!(" <no return>"));
            self.open = None;
        }
    }

    fn enter(&mut self, tid: ThreadId, function: u64, from: u64, args: &[u64], out: &mut Vec<u8>) {
        let nesting = self.threads.entry(tid).or_default();
        if std::mem::take(&mut nesting.after_noret) {
            nesting.depth = nesting.depth.saturating_sub(1);
        }
        let depth = nesting.depth;
        nesting.depth += 1;
        let (name, noret) = match self.functions.get(&(tid.workload, function)) {
            Some((name, noret)) => (name.clone(), *noret),
            None => (format!("function {function}"), false),
        };
        nesting.after_noret = noret;
        self.end_line(out);
        let args: Vec<String> = args.iter().map(|arg| format!("{arg:#x}")).collect();
        begin(tid, depth, out);
        // Writing to memory cannot fail.
        let _ = write!(out, "{from:#x} => {name}({})", args.join(", "));
        self.open = Some(tid);
        if noret {
            self.end_line(out);
        }
    }

    fn leave(&mut self, tid: ThreadId, result: u64, out: &mut Vec<u8>) {
        let nesting = self.threads.entry(tid).or_default();
        nesting.after_noret = false;
        if nesting.depth == 0 {
            self.end_line(out);
            line(out, format_args!("WARNING: RETVAL found without prior RETADDR."));
        } else {
            nesting.depth -= 1;
        }
        let depth = nesting_depth(&self.threads, tid);
        if self.open == Some(tid) {
            line(out, format_args!(" => {result:#x}"));
        } else {
            self.end_line(out);
            begin(tid, depth, out);
            line(out, format_args!("=> {result:#x}"));
        }
        self.open = None;
    }

    /// Ends the line of a call that was interrupted.
    pub(super) fn end_line(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            line(out, format_args!(""));
        }
    }
}

fn nesting_depth(threads: &HashMap<ThreadId, Nesting>, tid: ThreadId) -> usize {
    threads.get(&tid).map_or(0, |nesting| nesting.depth)
}

/// Prints the thread, and blanks for the depth.
fn begin(tid: ThreadId, depth: usize, out: &mut Vec<u8>) {
    let _ = write!(out, "T{:<8}{:2$}", tid.packed(), "", 4 * depth.min(MAX_DEPTH));
}

/// Prints the summary.
pub(super) fn write(found: &FunctionCounts, out: &mut Vec<u8>) {
    line(out, format_args!("Function view tool results:"));
    let functions = || found.functions.iter().filter(|function| function.kind == CalleeKind::Function);
    if functions().next().is_none() {
        line(out, format_args!("No functions founds.  Did you enable function tracing?:"));
    }
    for function in functions() {
        let workload = match function.workload {
            0 => String::new(),
            workload => format!("W{workload}."),
        };
        line(out, format_args!("Function id={workload}{}: {}", function.id, function.names.join(", ")));
        line(out, format_args!("{:9} calls", function.calls));
        line(out, format_args!("{:9} returns", function.returns));
    }
}
