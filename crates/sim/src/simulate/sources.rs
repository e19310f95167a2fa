//! Where misses come from: instructions, functions, lines of memory.
//!
//! A function is what stands behind an address that is called. Where calls go is seen where the trace goes on behind them, so
//! that no encoding and no symbol is needed; an interrupt right behind a call makes its handler look called.

use hashbrown::{HashMap, HashSet};
use quipu_model::Batch;
use quipu_model::lens::{InstrClass, instr_flags};
use rustc_hash::FxBuildHasher;

/// Misses in first and in last caches.
pub(crate) type Pair = [u64; 2];

/// How far behind the place that is called an instruction may stand and still count as the function's: 1 MiB.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;

/// What misses are counted by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) pcs: HashMap<u64, Pair, FxBuildHasher>,
    /// Lines by number.
    pub(crate) lines: HashMap<u64, Pair, FxBuildHasher>,
    /// Addresses that were called.
    callees: HashSet<u64, FxBuildHasher>,
    /// For each thread, whether its last instruction was a call.
    after_call: Vec<bool>,
}

impl Sources {
    /// Forgets the misses; what is called stays.
    pub(crate) fn reset(&mut self) {
        self.pcs.clear();
        self.lines.clear();
    }

    /// Takes in where the calls of a batch of a thread go.
    pub(crate) fn follow(&mut self, batch: &Batch, thread: usize) {
        let instrs = &batch.instrs;
        if instrs.class.is_empty() {
            return;
        }
        if self.after_call.len() <= thread {
            self.after_call.resize(thread + 1, false);
        }
        let mut is_called = self.after_call[thread];
        let rows = instrs.class.iter().zip(&instrs.pc).zip(&instrs.flags);
        for ((class, pc), flags) in rows {
            if flags & instr_flags::NO_FETCH != 0 {
                continue;
            }
            if is_called {
                self.callees.insert(*pc);
            }
            is_called = matches!(class, InstrClass::DirectCall | InstrClass::IndirectCall);
        }
        self.after_call[thread] = is_called;
    }

    /// The misses of each function, by the address that is called, and of what is in none.
    pub(crate) fn functions(&self) -> (Vec<(u64, Pair)>, Pair) {
        let mut callees: Vec<u64> = self.callees.iter().copied().collect();
        callees.sort_unstable();
        let mut of_functions: HashMap<u64, Pair, FxBuildHasher> = HashMap::default();
        let mut outside = Pair::default();
        for (pc, misses) in &self.pcs {
            let behind = callees.partition_point(|callee| callee <= pc);
            let callee = behind.checked_sub(1).map(|at| callees[at]);
            let to = match callee.filter(|callee| pc - callee < MAX_FUNCTION_BYTES) {
                Some(callee) => of_functions.entry(callee).or_default(),
                None => &mut outside,
            };
            to[0] += misses[0];
            to[1] += misses[1];
        }
        (of_functions.into_iter().collect(), outside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use InstrClass::{DirectCall, IndirectCall, Other, Return};

    fn batch(instrs: &[(u64, InstrClass)]) -> Batch {
        let mut batch = Batch::default();
        for (pc, class) in instrs {
            batch.instrs.pc.push(*pc);
            batch.instrs.class.push(*class);
            batch.instrs.flags.push(0);
        }
        batch
    }

    #[test]
    fn functions_begin_where_calls_go_even_in_the_next_batch() {
        let mut sources = Sources::default();
        sources.follow(&batch(&[(0x10, Other), (0x14, DirectCall), (0x100, Other), (0x104, Return)]), 0);
        sources.follow(&batch(&[(0x18, IndirectCall)]), 0);
        // Another thread in between changes nothing.
        sources.follow(&batch(&[(0x900, Other)]), 1);
        sources.follow(&batch(&[(0x200, Other)]), 0);
        for (pc, misses) in
            [(0x10, [1, 0]), (0x100, [2, 1]), (0x1fc, [4, 0]), (0x900, [8, 3]), (0x20_0000, [5, 5])]
        {
            sources.pcs.insert(pc, misses);
        }
        let (mut functions, outside) = sources.functions();
        functions.sort_unstable();
        assert_eq!(functions, [(0x100, [6, 1]), (0x200, [8, 3])]);
        assert_eq!(outside, [6, 5]);
        sources.reset();
        assert_eq!(sources.functions(), (Vec::new(), [0, 0]));
    }
}
