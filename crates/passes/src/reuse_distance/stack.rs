//! The exact LRU stack: the number of distinct lines used since a line's last use, in O(log n).
//!
//! The most recent lines are in a short array, in the order of the stack: there a line's index is its distance. A line that
//! falls out of the array goes to a sequence of *slots*, one for each such fall; a line is marked at the slot of its latest
//! fall and nowhere else. So the distance of such a line is the length of the array plus the number of marks after its own.
//! Marks are counted by word, by block of eight words, and by a Fenwick tree over blocks. When the slots are used up, the
//! marks are compacted and renumbered, which costs a constant for each fall.
//!
//! PERF: most accesses of a real trace end in the array and touch neither the hash table nor the slots; bench
//! `reuse-distance`.

use crate::tally::Map;
use quipu_model::{Error, Result};

/// Number of lines in the array: their numbers fill one cache line.
const N_RECENT: usize = 8;
/// More lines do not fit into 32-bit slots; they would need some hundred gigabytes.
const MAX_LINES: usize = 1 << 30;

/// The side of an access, as an index.
pub(crate) const INSTR: usize = 0;
/// See [`INSTR`].
pub(crate) const DATA: usize = 1;

/// One distinct line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Its number.
    pub(crate) line: u64,
    /// Uses since it last came onto the stack.
    pub(crate) references: u64,
    /// Those of the uses with a distance above the threshold.
    pub(crate) distant: u64,
    /// The slot of its mark, if it is not in the array; [`PRUNED`] if it is not on the stack.
    slot: u32,
}

impl Line {
    /// True if the line is on the stack.
    pub(crate) fn is_kept(&self) -> bool {
        self.slot != PRUNED
    }
}

const PRUNED: u32 = u32::MAX;

/// The stack, with its statistics.
#[derive(Debug)]
pub(crate) struct Stack {
    threshold: u64,
    /// Maximum number of lines on the stack; 0 for no limit.
    limit: u64,
    recent: [u64; N_RECENT],
    /// The index of each recent line in `lines`.
    recent_lines: [u32; N_RECENT],
    n_recent: usize,
    /// Reuses of lines in the array, by distance; for [`INSTR`] and [`DATA`].
    near: [[u64; 2]; N_RECENT],
    /// The same for all larger distances so far.
    far: Vec<[u64; 2]>,
    places: Map<u64, u32>,
    lines: Vec<Line>,
    /// Indexes in `lines` whose line was dropped.
    free: Vec<u32>,
    slots: Slots,
    /// Accesses that were not a reuse.
    first: [u64; 2],
    /// Number of times that a line came onto the stack or moved on it.
    pub(crate) moves: u64,
    pub(crate) pruned: u64,
    pub(crate) pruned_hits: u64,
}

impl Stack {
    pub(crate) fn new(threshold: u64, limit: u64) -> Stack {
        Stack {
            threshold,
            limit,
            recent: [0; N_RECENT],
            recent_lines: [0; N_RECENT],
            n_recent: 0,
            near: [[0; 2]; N_RECENT],
            far: Vec::new(),
            places: Map::default(),
            lines: Vec::new(),
            free: Vec::new(),
            slots: Slots::default(),
            first: [0; 2],
            moves: 0,
            pruned: 0,
            pruned_hits: 0,
        }
    }

    /// Adds one access and returns its distance; `None` for the first use of the line.
    ///
    /// # Errors
    /// `Limit` for more distinct lines than can be numbered.
    #[inline]
    pub(crate) fn access(&mut self, line: u64, side: usize) -> Result<Option<u64>> {
        // Entries after the valid ones are stale.
        match self.recent.iter().position(|recent| *recent == line).filter(|at| *at < self.n_recent) {
            Some(at) => {
                self.near[at][side & 1] += 1;
                let place = self.recent_lines[at];
                if at > 0 {
                    self.recent.copy_within(..at, 1);
                    self.recent_lines.copy_within(..at, 1);
                    (self.recent[0], self.recent_lines[0]) = (line, place);
                    self.moves += 1;
                }
                let known = &mut self.lines[place as usize];
                known.references += 1;
                known.distant += u64::from(at as u64 > self.threshold);
                Ok(Some(at as u64))
            }
            None => self.far_access(line, side & 1),
        }
    }

    #[inline(never)]
    fn far_access(&mut self, line: u64, side: usize) -> Result<Option<u64>> {
        let mut found = None;
        let place = match self.places.get(&line) {
            Some(&place) => {
                let known = &mut self.lines[place as usize];
                if known.is_kept() {
                    let distance = self.n_recent + self.slots.n_behind(known.slot) as usize;
                    self.slots.unmark(known.slot);
                    known.references += 1;
                    known.distant += u64::from(distance as u64 > self.threshold);
                    let index = distance.saturating_sub(N_RECENT); // Marked lines are below the array.
                    if self.far.len() <= index {
                        self.far.resize(index + 1, [0; 2]);
                    }
                    self.far[index][side] += 1;
                    found = Some(distance as u64);
                } else {
                    self.pruned_hits += 1;
                    (known.references, known.distant, known.slot) = (1, 0, 0);
                }
                place
            }
            None => {
                if self.lines.len() >= MAX_LINES {
                    return Err(Error::limit(
                        "distinct lines",
                        self.lines.len() as u64 + 1,
                        MAX_LINES as u64,
                    ));
                }
                let new = Line { line, references: 1, distant: 0, slot: 0 };
                let place = match self.free.pop() {
                    Some(place) => {
                        self.lines[place as usize] = new;
                        place
                    }
                    None => {
                        self.lines.push(new);
                        self.lines.len() as u32 - 1
                    }
                };
                self.places.insert(line, place);
                place
            }
        };
        self.push(line, place);
        if found.is_none() {
            self.first[side] += 1;
            let n_kept = self.n_recent as u64 + u64::from(self.slots.n_marks);
            if self.limit > 0 && n_kept > self.limit {
                self.prune();
            }
        }
        Ok(found)
    }

    /// Puts a line on top of the stack.
    fn push(&mut self, line: u64, place: u32) {
        if self.n_recent == N_RECENT {
            if self.slots.is_full() {
                self.slots.compact(&mut self.lines);
            }
            let fallen = self.recent_lines[N_RECENT - 1];
            self.lines[fallen as usize].slot = self.slots.mark(fallen);
        } else {
            self.n_recent += 1;
        }
        self.recent.copy_within(..N_RECENT - 1, 1);
        self.recent_lines.copy_within(..N_RECENT - 1, 1);
        (self.recent[0], self.recent_lines[0]) = (line, place);
        self.moves += 1;
    }

    /// Removes the lowest line from the stack.
    fn prune(&mut self) {
        let place = self.slots.take_first().unwrap_or_else(|| {
            self.n_recent -= 1;
            self.recent_lines[self.n_recent]
        });
        self.lines[place as usize].slot = PRUNED;
        self.pruned += 1;
    }

    /// Removes a line as if it had never been used. Distances counted so far are kept.
    pub(crate) fn forget(&mut self, line: u64) {
        let Some(place) = self.places.remove(&line) else { return };
        match self.recent[..self.n_recent].iter().position(|recent| *recent == line) {
            Some(at) => {
                self.recent.copy_within(at + 1..self.n_recent, at);
                self.recent_lines.copy_within(at + 1..self.n_recent, at);
                self.n_recent -= 1;
            }
            None if self.lines[place as usize].is_kept() => {
                self.slots.unmark(self.lines[place as usize].slot)
            }
            None => {}
        }
        self.lines[place as usize].slot = PRUNED;
        self.free.push(place);
    }

    /// Number of accesses of each side.
    pub(crate) fn accesses(&self) -> [u64; 2] {
        let mut sums = self.first;
        for [instr, data] in self.near.iter().chain(&self.far) {
            sums[INSTR] += instr;
            sums[DATA] += data;
        }
        sums
    }

    /// Reuses by distance, for both sides; distances that do not occur may be included, with zeros.
    pub(crate) fn reuses(&self) -> impl Iterator<Item = (u64, [u64; 2])> {
        (0..).zip(self.near.iter().chain(&self.far).copied())
    }

    /// Every line that was ever used.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }
}

/// Slots in a word, and words in a block.
const WORD: usize = 64;
const BLOCK_WORDS: usize = 8;
const BLOCK: usize = WORD * BLOCK_WORDS;
/// Minimum number of slots.
const MIN_SLOTS: usize = 16 * BLOCK;

/// A growing sequence of slots, some of them marked.
#[derive(Debug, Default)]
struct Slots {
    /// A bit for each slot: whether it is marked.
    words: Vec<u64>,
    /// For each block, the number of marks in each of its words.
    counts: Vec<[u8; BLOCK_WORDS]>,
    /// A Fenwick tree over the marks of whole blocks, without the last one, counted from 1.
    tree: Vec<u32>,
    /// Marks in the last block.
    n_last: u32,
    /// The line that was marked at each slot.
    owners: Vec<u32>,
    n_marks: u32,
    /// All marks are at or after this slot.
    first: u32,
    capacity: usize,
}

impl Slots {
    fn is_full(&self) -> bool {
        self.owners.len() >= self.capacity
    }

    /// Marks a new slot for `owner`. There must be a free slot.
    fn mark(&mut self, owner: u32) -> u32 {
        let slot = self.owners.len();
        if slot.is_multiple_of(BLOCK) {
            self.begin_block();
        }
        self.owners.push(owner);
        self.words[slot / WORD] |= 1 << (slot % WORD);
        self.counts[slot / BLOCK][slot % BLOCK / WORD] += 1;
        self.n_last += 1;
        self.n_marks += 1;
        slot as u32 // Below the capacity, which is below 2^32.
    }

    /// Adds the last block to the tree and begins a new one.
    fn begin_block(&mut self) {
        if !self.counts.is_empty() {
            let node = self.counts.len();
            let mut sum = self.n_last;
            let mut child = node - 1;
            let end = node & (node - 1);
            while child > end {
                sum += self.tree[child - 1];
                child &= child - 1;
            }
            self.tree.push(sum);
        }
        self.n_last = 0;
        self.words.resize(self.words.len() + BLOCK_WORDS, 0);
        self.counts.push([0; BLOCK_WORDS]);
    }

    fn unmark(&mut self, slot: u32) {
        let slot = slot as usize;
        let block = slot / BLOCK;
        self.words[slot / WORD] &= !(1 << (slot % WORD));
        self.counts[block][slot % BLOCK / WORD] -= 1;
        self.n_marks -= 1;
        if block == self.tree.len() {
            self.n_last -= 1;
            return;
        }
        let mut node = block + 1;
        while let Some(sum) = self.tree.get_mut(node - 1) {
            *sum -= 1;
            node += node & node.wrapping_neg();
        }
    }

    /// Number of marks after a slot.
    fn n_behind(&self, slot: u32) -> u32 {
        let slot = slot as usize;
        let block = slot / BLOCK;
        let in_word = ((self.words[slot / WORD] >> (slot % WORD)) >> 1).count_ones();
        // The counts of the words after it, then their sum, by pairs and by a multiplication.
        let counts = u64::from_le_bytes(self.counts[block]);
        let behind = (counts >> (8 * (slot % BLOCK / WORD))) >> 8;
        const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
        let pairs = (behind & EVEN) + ((behind >> 8) & EVEN);
        let in_block = in_word + (pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48) as u32;
        if block == self.tree.len() {
            return in_block;
        }
        let mut up_to_block = 0;
        let mut node = block + 1;
        while node > 0 {
            up_to_block += self.tree[node - 1];
            node &= node - 1;
        }
        in_block + self.n_marks - up_to_block
    }

    /// Unmarks the first marked slot and returns its owner.
    fn take_first(&mut self) -> Option<u32> {
        let mut word = self.first as usize / WORD;
        while *self.words.get(word)? == 0 {
            word += 1;
        }
        let slot = word * WORD + self.words[word].trailing_zeros() as usize;
        self.first = slot as u32; // A slot's number.
        self.unmark(self.first);
        Some(self.owners[slot])
    }

    /// Moves all marks to the front, in their order, and enlarges the capacity.
    fn compact(&mut self, lines: &mut [Line]) {
        let n_marks = self.n_marks as usize;
        let capacity = (3 * n_marks).next_multiple_of(BLOCK).max(MIN_SLOTS);
        let mut packed = Slots { capacity, ..Slots::default() };
        packed.owners.reserve_exact(capacity);
        packed.words.reserve_exact(capacity / WORD);
        for (word, &marks) in self.words.iter().enumerate() {
            let mut left = marks;
            while left != 0 {
                let owner = self.owners[word * WORD + left.trailing_zeros() as usize];
                lines[owner as usize].slot = packed.mark(owner);
                left &= left - 1;
            }
        }
        *self = packed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The slow, obvious stack for comparison.
    #[derive(Default)]
    struct Plain {
        stack: Vec<u64>,
        seen: std::collections::BTreeSet<u64>,
        reuses: BTreeMap<u64, [u64; 2]>,
        lines: BTreeMap<u64, (u64, u64)>,
        pruned: u64,
        pruned_hits: u64,
    }

    impl Plain {
        fn access(&mut self, line: u64, side: usize, threshold: u64, limit: u64) {
            if let Some(distance) = self.stack.iter().position(|known| *known == line) {
                self.stack.remove(distance);
                let distance = distance as u64;
                self.reuses.entry(distance).or_default()[side] += 1;
                let (references, distant) = self.lines.get_mut(&line).unwrap();
                *references += 1;
                *distant += u64::from(distance > threshold);
            } else {
                self.pruned_hits += u64::from(!self.seen.insert(line));
                self.lines.insert(line, (1, 0));
            }
            self.stack.insert(0, line);
            if limit > 0 && self.stack.len() as u64 > limit {
                self.lines.remove(&self.stack.pop().unwrap());
                self.pruned += 1;
            }
        }
    }

    /// Lines: a few recur soon, some after long, and some are new.
    fn accesses(n: u64, seed: u64, n_lines: u64) -> impl Iterator<Item = (u64, usize)> {
        let mut random = seed;
        (0..n).map(move |i| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let (pick, value) = ((random >> 60) & 7, random >> 33);
            let line = match pick {
                0 => value % n_lines,
                1 => i / 7,
                2..4 => value % 300,
                _ => value % 12,
            };
            (line, (value & 1) as usize)
        })
    }

    fn check(n: u64, seed: u64, n_lines: u64, threshold: u64, limit: u64) {
        let mut stack = Stack::new(threshold, limit);
        let mut plain = Plain::default();
        for (line, side) in accesses(n, seed, n_lines) {
            stack.access(line, side).unwrap();
            plain.access(line, side, threshold, limit);
        }
        let reuses: BTreeMap<u64, [u64; 2]> =
            stack.reuses().filter(|(_, counts)| *counts != [0; 2]).collect();
        assert_eq!(reuses, plain.reuses);
        let kept = stack.lines().iter().filter(|line| line.is_kept());
        let lines: BTreeMap<u64, (u64, u64)> =
            kept.map(|line| (line.line, (line.references, line.distant))).collect();
        assert_eq!(lines, plain.lines);
        assert_eq!((stack.pruned, stack.pruned_hits), (plain.pruned, plain.pruned_hits));
        assert_eq!(stack.accesses().iter().sum::<u64>(), n);
        assert_eq!(stack.lines().len(), plain.seen.len());
    }

    #[test]
    fn distances_equal_those_of_a_list_that_is_searched() {
        for seed in 1..6 {
            check(20_000, seed, 4000, 100, 0);
        }
    }

    #[test]
    fn distances_stay_exact_when_slots_are_renumbered() {
        check(60_000, 3, 900, 10, 0);
    }

    #[test]
    fn a_limit_prunes_the_lowest_line() {
        for limit in [1, 2, 7, 8, 9, 100, 3000] {
            check(12_000, limit, 4000, 5, limit);
        }
    }

    #[test]
    fn the_line_that_free_places_name_counts_only_when_it_occurs() {
        let mut stack = Stack::new(100, 0);
        stack.access(5, INSTR).unwrap();
        stack.access(0, DATA).unwrap();
        stack.access(0, DATA).unwrap();
        assert_eq!(stack.lines().len(), 2);
        assert_eq!(stack.reuses().filter(|(_, counts)| *counts != [0; 2]).collect::<Vec<_>>(), [(0, [0, 1])]);
    }
}
