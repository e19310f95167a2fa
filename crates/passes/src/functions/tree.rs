//! The first calls of each thread, in order, with their depth: a call tree as a list.
//!
//! Parts of a trace are read independently and merged later, so a part keeps its first edges unchanged, and depths are only
//! known at the end. Once enough calls are listed, further ones are only counted; their depth is still tracked, so that the
//! returns of listed calls are recognised.

use super::{Listed, ListedThread, Names};
use crate::keyed::Keyed;
use quipu_model::ThreadId;
use quipu_model::lens::CallEdge;
use quipu_model::lens::Calls;
use std::sync::Arc;

/// An entry into a function, or a return from it.
#[derive(Clone, Debug)]
struct Edge {
    function: u64,
    edge: CallEdge,
    /// Record ordinal in the shard.
    record: u64,
    return_to: u64,
    result: Option<u64>,
    args: Box<[u64]>,
}

/// The edges of one thread in one shard.
#[derive(Clone, Debug, Default)]
struct Thread {
    /// The workload whose functions it calls.
    workload: u16,
    edges: Vec<Edge>,
    /// Number of entries among them.
    listed: u64,
    /// Entries that are not listed.
    more: u64,
    /// Number of these that have not returned.
    depth: u64,
}

/// The call tree of a trace, as far as it was read.
#[derive(Clone)]
pub(super) struct Tree {
    names: Arc<Names>,
    /// Maximum number of calls to list for each thread.
    most: u64,
    /// State by shard and thread.
    threads: Keyed<(u32, ThreadId), Thread>,
}

impl Tree {
    pub(super) fn new(names: Arc<Names>, most: u64) -> Tree {
        Tree { names, most, threads: Keyed::default() }
    }

    /// An empty tree with the same options.
    pub(super) fn fork(&self) -> Tree {
        Tree::new(Arc::clone(&self.names), self.most)
    }

    /// Adds the calls of a batch that begins after record `first_record` of a shard.
    pub(super) fn consume(&mut self, calls: &Calls, shard: u32, thread: ThreadId, first_record: u64) {
        if self.most == 0 || calls.is_empty() {
            return;
        }
        let part =
            self.threads.entry((shard, thread), || Thread { workload: thread.workload, ..Thread::default() });
        for row in 0..calls.len() {
            let (function, edge) = (calls.function[row], calls.edge[row]);
            if !part.wants(edge, self.most, self.names.is_noret((thread.workload, function))) {
                continue;
            }
            part.edges.push(Edge {
                function,
                edge,
                // The row is at the record after the call's values.
                record: first_record + u64::from(calls.at[row]),
                return_to: calls.return_to[row],
                result: calls.result.get(row),
                args: calls.args.get(row).into(),
            });
        }
    }

    /// Appends the edges that were read right after these.
    pub(super) fn merge(&mut self, later: Tree) {
        let (most, names) = (self.most, Arc::clone(&self.names));
        self.threads.merge(later.threads, |thread, later| {
            for edge in later.edges {
                let is_noret = names.is_noret((thread.workload, edge.function));
                if thread.wants(edge.edge, most, is_noret) {
                    thread.edges.push(edge);
                }
            }
            thread.more += later.more;
            thread.depth += later.depth;
        });
    }

    /// Each thread's calls with their depths and results.
    pub(super) fn finish(self) -> Vec<ListedThread> {
        let names = self.names;
        let threads = self.threads.into_items().into_iter().filter(|(_, part)| !part.edges.is_empty());
        threads
            .map(|((shard, thread), part)| ListedThread {
                shard,
                thread,
                more: part.more,
                calls: listed(part.edges, thread.workload, &names),
            })
            .collect()
    }
}

impl Thread {
    /// Counts an edge, and returns whether it belongs on the list.
    fn wants(&mut self, edge: CallEdge, most: u64, is_noret: bool) -> bool {
        match edge {
            CallEdge::Enter if self.listed < most => {
                self.listed += 1;
                true
            }
            CallEdge::Enter => {
                self.more += 1;
                // A function that never returns has no record of its end.
                self.depth += u64::from(!is_noret);
                false
            }
            CallEdge::Leave if self.depth > 0 => {
                self.depth -= 1;
                false
            }
            // Returns without an entry are damage; a list of only such edges is limited, too.
            CallEdge::Leave => (self.edges.len() as u64) < most.saturating_mul(3),
        }
    }
}

/// Assigns depths to entries, and results to those that return.
fn listed(edges: Vec<Edge>, workload: u16, names: &Names) -> Vec<Listed> {
    let mut calls: Vec<Listed> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for edge in edges {
        match edge.edge {
            CallEdge::Enter => {
                let depth = open.len() as u64;
                if !names.is_noret((workload, edge.function)) {
                    open.push(calls.len());
                }
                calls.push(Listed {
                    function: edge.function,
                    name: names.label((workload, edge.function)),
                    depth,
                    record: edge.record,
                    return_to: edge.return_to,
                    args: edge.args.into(),
                    result: None,
                });
            }
            CallEdge::Leave => {
                // Calls that were entered and not left before their caller: jumps out of them, or lost returns.
                let matching = open.iter().rposition(|&call| calls[call].function == edge.function);
                if let Some(position) = matching {
                    calls[open[position]].result = edge.result;
                    open.truncate(position);
                }
            }
        }
    }
    calls
}
