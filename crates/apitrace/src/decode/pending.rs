//! Open calls: those that were entered and not yet left.
//!
//! Nearly always there is at most one, and its values lie in the current batch: it has a field of its own. When a batch is
//! handed out, the values of open calls in it are copied once, and their size is counted.

use crate::record::MAX_PENDING_BYTES;
use quipu_model::values::{Arg, Call, Node, Values};
use std::collections::BTreeMap;

/// The open calls, by number.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The open call that was entered last.
    last: Option<Open>,
    others: BTreeMap<u64, Open>,
    /// Numbers of calls in `others` whose values lie in the current batch; may include calls that were left since.
    fresh: Vec<u64>,
    parked_bytes: usize,
}

#[derive(Debug)]
struct Open {
    call: Call,
    /// The call's own copy of its values; `None` while they lie in the current batch.
    parked: Option<Box<Values>>,
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none() && self.others.is_empty()
    }

    pub(super) fn enter(&mut self, call: Call) {
        if let Some(before) = self.last.replace(Open { call, parked: None }) {
            if before.parked.is_none() {
                self.fresh.push(before.call.number);
            }
            self.others.insert(before.call.number, before);
        }
    }

    fn get(&self, number: u64) -> Option<&Open> {
        match &self.last {
            Some(open) if open.call.number == number => Some(open),
            _ => self.others.get(&number),
        }
    }

    /// Returns the open call with this number, with its values in `out`, without removing it.
    pub(super) fn look(&self, number: u64, out: &mut Values) -> Option<Call> {
        let open = self.get(number)?;
        Some(match &open.parked {
            Some(values) => values.copy_call(&open.call, out),
            None => open.call,
        })
    }

    /// Removes the call with this number.
    pub(super) fn leave(&mut self, number: u64) {
        let left = match &self.last {
            Some(open) if open.call.number == number => self.last.take(),
            _ => self.others.remove(&number),
        };
        if let Some(values) = left.and_then(|open| open.parked) {
            self.parked_bytes -= n_bytes(&values).min(self.parked_bytes);
        }
    }

    /// True if a call with this number is open.
    pub(super) fn has(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    /// True if `thread` has an open call with number `since` or later.
    pub(super) fn has_thread(&self, thread: u64, since: u64) -> bool {
        self.calls().any(|call| call.thread == thread && call.number >= since)
    }

    /// All open calls, in no particular order.
    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.last.iter().chain(self.others.values()).map(|open| &open.call)
    }

    /// The number after the greatest of an open call; `None` if no call is open.
    pub(super) fn end(&self) -> Option<u64> {
        self.calls().map(|call| call.number + 1).max()
    }

    /// Removes all calls for which `is_wrong` holds; returns their number.
    pub(super) fn forget(&mut self, is_wrong: impl Fn(&Call) -> bool) -> u64 {
        let numbers: Vec<u64> = self.calls().filter(|call| is_wrong(call)).map(|call| call.number).collect();
        numbers.iter().for_each(|number| self.leave(*number));
        numbers.len() as u64
    }

    /// Of the calls numbered `sure` or later, keeps only the first of each thread and removes the others: a thread is in one
    /// call at a time. Returns the number of removed calls.
    pub(super) fn forget_inner(&mut self, sure: u64) -> u64 {
        let mut first = BTreeMap::new();
        for call in self.calls().filter(|call| call.number >= sure) {
            let number = first.entry(call.thread).or_insert(call.number);
            *number = call.number.min(*number);
        }
        self.forget(|call| call.number >= sure && first.get(&call.thread) != Some(&call.number))
    }

    /// Removes and returns the call that was entered first, with its values in `out`.
    pub(super) fn take_oldest(&mut self, out: &mut Values) -> Option<Call> {
        let open = match self.others.pop_first() {
            Some((_, open)) => open,
            None => self.last.take()?,
        };
        Some(match &open.parked {
            Some(values) => values.copy_call(&open.call, out),
            None => open.call,
        })
    }

    /// Copies the values that lie in `out`; fails with the total number of bytes if they exceed `MAX_PENDING_BYTES`.
    pub(super) fn park(&mut self, out: &Values) -> Result<(), u64> {
        let fresh = std::mem::take(&mut self.fresh);
        for number in &fresh {
            if let Some(open) = self.others.get_mut(number) {
                self.parked_bytes += open.park(out);
            }
        }
        if let Some(open) = &mut self.last {
            self.parked_bytes += open.park(out);
        }
        if self.parked_bytes > MAX_PENDING_BYTES { Err(self.parked_bytes as u64) } else { Ok(()) }
    }
}

impl Open {
    /// Copies the values unless that was done before; returns the number of bytes copied.
    fn park(&mut self, out: &Values) -> usize {
        if self.parked.is_some() {
            return 0;
        }
        let mut values = Box::<Values>::default();
        self.call = out.copy_call(&self.call, &mut values);
        let bytes = n_bytes(&values);
        self.parked = Some(values);
        bytes
    }
}

fn n_bytes(values: &Values) -> usize {
    size_of::<Open>()
        + size_of::<Values>()
        + values.args.len() * size_of::<Arg>()
        + values.nodes.len() * size_of::<Node>()
        + values.bytes.len()
        + values.frames.len() * size_of::<u32>()
}
