//! Fills the columns that all formats share from calls.

use crate::record::{END_FRAME, INCOMPLETE};
use quipu_model::lens::{CallEdge, ThreadEvent};
use quipu_model::values::NO_NODE;
use quipu_model::{Batch, Columns};
use std::collections::HashSet;

/// The kind of a mark for the end of a frame; its value is the frame's number, from 0.
pub const MARK_FRAME: u32 = 0;

/// State that lenses keep from batch to batch.
#[derive(Debug, Default)]
pub struct Lenses {
    threads: HashSet<u64>,
}

impl Lenses {
    /// Fills the columns of a batch from its calls. `first_frame` is the frame of the first call.
    ///
    /// A call is one record, so it is entered and left at the same one; a call that never returned is only entered. The
    /// columns hold arguments and results that fit into 64 bits: numbers, bits of floats, addresses, and 0 for all else.
    pub fn fill(&mut self, columns: Columns, first_frame: u64, batch: &mut Batch) {
        let Batch { values, types, calls, threads, marks, .. } = batch;
        let mut frame = first_frame;
        for (at, call) in (0u32..).zip(&values.calls) {
            if columns.has(Columns::CALLS) {
                let returns = call.flags & INCOMPLETE == 0;
                let edges: &[CallEdge] =
                    if returns { &[CallEdge::Enter, CallEdge::Leave] } else { &[CallEdge::Enter] };
                for edge in edges {
                    calls.at.push(at);
                    calls.function.push(types.function(call.function).map_or(0, |function| function.id));
                    calls.edge.push(*edge);
                    calls.return_to.push(0);
                    let result = match edge {
                        CallEdge::Leave if call.result != NO_NODE => Some(values.node(call.result).bits()),
                        _ => None,
                    };
                    calls.result.push(result);
                    let args = if *edge == CallEdge::Enter { values.args_of(call) } else { &[] };
                    calls.args.push(args.iter().map(|arg| values.node(arg.node).bits()));
                }
            }
            if columns.has(Columns::THREADS) && self.threads.insert(call.thread) {
                threads.at.push(at);
                threads.what.push(ThreadEvent::Start);
                threads.value.push(0);
            }
            if call.flags & END_FRAME != 0 {
                if columns.has(Columns::MARKS) {
                    marks.at.push(at);
                    marks.kind.push(MARK_FRAME);
                    marks.value.push(frame);
                }
                frame += 1;
            }
        }
    }
}
