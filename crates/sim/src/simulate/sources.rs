//! Attributes misses to instructions, functions and lines of memory.
//!
//! A function is the code from a call target on. The target is the instruction after a call in the trace, so that neither
//! decoding nor symbols are needed; an interrupt right after a call makes its handler look like the target.

use hashbrown::{HashMap, HashSet};
use quipu_model::Batch;
use quipu_model::lens::{InstrClass, instr_flags};
use rustc_hash::FxBuildHasher;

/// Misses in first caches and in last caches.
pub(crate) type Pair = [u64; 2];

/// Largest distance from a call target at which an instruction still counts as the function's: 1 MiB.
const MAX_FUNCTION_BYTES: u64 = 1 << 20;

/// Misses of an access to more lines than this are counted in 8-bit fields for all lines of a page: no real instruction
/// accesses that many, and a trace that claims thousands of such accesses would otherwise take gigabytes.
const WIDE_LINES: u64 = 64;
/// Number of lines per page of 8-bit counters.
const PAGE_LINES: usize = 64;
/// Lines beyond the requested number that are buffered before they are sorted.
const MANY_LINES: usize = 1 << 12;

/// Misses by instruction and line, and the call targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) pcs: HashMap<u64, Pair, FxBuildHasher>,
    /// Misses by line number.
    lines: HashMap<u64, Pair, FxBuildHasher>,
    /// Misses of large accesses, by page; the part that exceeds 8 bits is added to `lines`.
    wide: HashMap<u64, Box<[[u8; 2]; PAGE_LINES]>, FxBuildHasher>,
    /// First and last line of the large access that missed last.
    within: (u64, u64),
    /// Addresses that were called.
    callees: HashSet<u64, FxBuildHasher>,
    /// For each thread, whether its last instruction was a call.
    after_call: Vec<bool>,
}

impl Sources {
    /// Resets the misses; call targets stay.
    pub(crate) fn reset(&mut self) {
        self.pcs.clear();
        self.lines.clear();
        self.wide.clear();
    }

    /// Counts a miss of a line, in a first or last cache, by an access to `n_lines` further lines.
    pub(crate) fn miss(&mut self, line: u64, n_lines: u64, is_last: bool) {
        if n_lines >= WIDE_LINES {
            self.within = (line, line.saturating_add(n_lines));
        }
        if line < self.within.0 || line > self.within.1 {
            self.lines.entry(line).or_default()[usize::from(is_last)] += 1;
        } else {
            self.miss_within(line, is_last);
        }
    }

    /// Counts a miss by a large access.
    #[cold]
    fn miss_within(&mut self, line: u64, is_last: bool) {
        let page =
            self.wide.entry(line / PAGE_LINES as u64).or_insert_with(|| Box::new([[0; 2]; PAGE_LINES]));
        let count = &mut page[line as usize % PAGE_LINES][usize::from(is_last)]; // Index within the page.
        *count = match count.checked_add(1) {
            Some(more) => more,
            None => {
                self.lines.entry(line).or_default()[usize::from(is_last)] += u64::from(*count) + 1;
                0
            }
        };
    }

    /// The `top` lines with most misses, and the number of other lines that missed.
    pub(crate) fn take_lines(&mut self, top: usize) -> (Vec<(u64, Pair)>, u64) {
        let mut best = Best { top, lines: Vec::new(), worst: None, n_others: 0 };
        let mut narrow = std::mem::take(&mut self.lines);
        for (number, page) in std::mem::take(&mut self.wide) {
            for (at, misses) in page.iter().enumerate() {
                let line = number * PAGE_LINES as u64 + at as u64;
                let more = narrow.remove(&line).unwrap_or_default();
                let misses = [u64::from(misses[0]) + more[0], u64::from(misses[1]) + more[1]];
                if misses != [0, 0] {
                    best.add(line, misses);
                }
            }
        }
        narrow.into_iter().for_each(|(line, misses)| best.add(line, misses));
        best.cut();
        (best.lines, best.n_others)
    }

    /// Notes the call targets in a batch of a thread.
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

    /// Misses of each function, by its address, and misses outside of all functions.
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

/// Collects the lines with most misses out of more than fit into memory.
struct Best {
    top: usize,
    lines: Vec<(u64, Pair)>,
    /// The last of the best lines so far, once there are `top` of them.
    worst: Option<(u64, Pair)>,
    n_others: u64,
}

impl Best {
    fn add(&mut self, line: u64, misses: Pair) {
        if self.worst.is_some_and(|worst| rank(worst) < rank((line, misses))) {
            self.n_others += 1;
            return;
        }
        self.lines.push((line, misses));
        if self.lines.len() >= self.top.saturating_add(MANY_LINES) {
            self.cut();
        }
    }

    /// Keeps only the best lines.
    fn cut(&mut self) {
        self.lines.sort_unstable_by_key(|of| rank(*of));
        self.n_others += self.lines.len().saturating_sub(self.top) as u64;
        self.lines.truncate(self.top);
        self.worst = self.lines.last().copied().filter(|_| self.lines.len() == self.top);
    }
}

/// Sort key: misses in last caches, then in first ones, descending; then ascending line numbers.
fn rank((line, [first, last]): (u64, Pair)) -> (u64, u64, u64) {
    (u64::MAX - last, u64::MAX - first, line)
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

    #[test]
    fn lines_of_large_accesses_count_like_any_others_and_take_no_room() {
        let mut sources = Sources::default();
        let mut all: HashMap<u64, Pair, FxBuildHasher> = HashMap::default();
        let mut miss = |line: u64, n_lines: u64, is_last: bool| {
            sources.miss(line, n_lines, is_last);
            all.entry(line).or_default()[usize::from(is_last)] += 1;
        };
        for round in 0..300u64 {
            for line in 0..1000 {
                // A prefetcher fetches every second line.
                if line % 2 == 0 {
                    miss(5000 + line + 100 * (round % 3), 999 - line, false);
                }
                miss(5000 + line + 100 * (round % 3), 999 - line, true);
            }
            miss(9500, 0, false);
            miss(77, 0, true);
        }
        assert!(sources.lines.len() < 1000 && sources.wide.len() < 30, "{:?}", sources.lines);
        let (lines, n_others) = sources.clone().take_lines(usize::MAX);
        assert_eq!((lines.into_iter().collect::<HashMap<_, _, FxBuildHasher>>(), n_others), (all.clone(), 0));
        let mut expected: Vec<(u64, Pair)> = all.into_iter().collect();
        expected.sort_unstable_by_key(|of| rank(*of));
        let n_others = expected.len() as u64 - 7;
        expected.truncate(7);
        assert_eq!(sources.take_lines(7), (expected, n_others));
    }
}
