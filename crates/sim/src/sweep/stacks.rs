//! Simulates all LRU caches of some numbers of sets and all numbers of ways at once, with stack distances.
//!
//! Under LRU, each set of a cache of `w` ways holds the `w` lines used last. So a list of lines in the order of use, one per
//! set, decides for every number of ways whether an access hits: it does if the line's position in the list is below the
//! number. Counting accesses by position is enough (Mattson and others, 1970).
//!
//! One loop handles several numbers of sets, each a multiple of the one before: a line that is first in its list is also
//! first in its list with more sets, because that list is a subsequence. So the loop ends there, which for most accesses is
//! at once. Numbers of sets with different odd factors are in loops of their own.
//!
//! A flush leaves a hole: an empty place in all caches with more ways than its position. The next line that is used from
//! below it, or is new, fills it.

use crate::machine::Counts;
use crate::machine::feed::{Block, Step};
use crate::seen::Seen;
use crate::sets::{Divided, Indexing, Masked, NO_LINE};

/// Caches with the same number of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Number of sets, at least 1.
    pub(crate) sets: u64,
    /// The largest number of ways to simulate.
    pub(crate) ways: usize,
}

/// Lists of shapes whose numbers of sets have the same odd factor, with separate lists per core.
#[derive(Clone, Debug)]
pub(crate) struct Stacks {
    /// By ascending number of sets.
    shapes: Vec<Shape>,
    cores: Vec<Core>,
    /// For each shape, the number of uses at each position: demands and prefetches.
    places: Vec<Vec<[u64; 2]>>,
    /// Uses at position 0 in the lists of this shape, and so in those of all later shapes.
    firsts: Vec<[u64; 2]>,
    /// Uses of the line that was used last, which are at position 0 in all lists.
    again: u64,
    uses: [u64; 2],
    compulsory: u64,
}

#[derive(Clone, Debug)]
struct Core {
    /// The lists of each shape, one after the other.
    lists: Vec<Box<[u64]>>,
    seen: Seen,
    /// Whether there may be holes before lines.
    has_holes: bool,
}

impl Stacks {
    /// Creates empty lists for these shapes: one for each odd factor of their numbers of sets.
    pub(crate) fn of(mut shapes: Vec<Shape>, cores: usize) -> Vec<Stacks> {
        shapes.sort_by_key(|shape| (odd_factor(shape.sets), shape.sets));
        let families = shapes.chunk_by(|a, b| odd_factor(a.sets) == odd_factor(b.sets));
        families.map(|family| Stacks::new(family.to_vec(), cores)).collect()
    }

    fn new(shapes: Vec<Shape>, cores: usize) -> Stacks {
        let lists = shapes.iter().map(|shape| vec![NO_LINE; shape.sets as usize * shape.ways].into());
        let core = Core { lists: lists.collect(), seen: Seen::default(), has_holes: false };
        Stacks {
            cores: vec![core; cores],
            places: shapes.iter().map(|shape| vec![[0; 2]; shape.ways]).collect(),
            firsts: vec![[0; 2]; shapes.len()],
            again: 0,
            uses: [0; 2],
            compulsory: 0,
            shapes,
        }
    }

    /// Processes a block.
    pub(crate) fn take(&mut self, block: &Block) {
        if self.shapes.iter().all(|shape| shape.sets.is_power_of_two()) {
            self.take_by::<Masked>(block);
        } else {
            self.take_by::<Divided>(block);
        }
    }

    fn take_by<I: Indexing>(&mut self, block: &Block) {
        block.each(|core, step| match step {
            Step::Use { line, is_prefetch, again } => {
                self.again += again;
                self.use_line::<I>(core, line, usize::from(is_prefetch));
            }
            Step::Flush { first, last } => self.remove(core, first, last),
            Step::Begin => {
                self.places.iter_mut().flatten().chain(&mut self.firsts).for_each(|count| *count = [0; 2]);
                (self.again, self.uses, self.compulsory) = (0, [0; 2], 0);
            }
        });
    }

    #[inline]
    fn use_line<I: Indexing>(&mut self, core: usize, line: u64, class: usize) {
        let core = &mut self.cores[core];
        self.uses[class] += 1;
        let mut is_known = false;
        for (i, (shape, lists)) in self.shapes.iter().zip(&mut core.lists).enumerate() {
            let start = I::new(shape.sets as usize).index(line) * shape.ways; // All lists fit in memory.
            let list = &mut lists[start..start + shape.ways];
            if list[0] == line {
                self.firsts[i][class] += 1;
                return;
            }
            let place = find(list, line);
            if let Some(place) = place {
                self.places[i][place][class] += 1;
                is_known = true;
            }
            match core.has_holes.then(|| find(list, NO_LINE)).flatten() {
                // Lines before the hole move down into it, and the line's old place becomes a hole.
                Some(hole) if place.is_none_or(|place| hole < place) => {
                    list.copy_within(..hole, 1);
                    if let Some(place) = place {
                        list[place] = NO_LINE;
                    }
                }
                _ => to_front(list, place.unwrap_or(shape.ways - 1)),
            }
            list[0] = line;
        }
        if !is_known && core.seen.add(line) {
            self.compulsory += 1;
        }
    }

    fn remove(&mut self, core: usize, first: u64, last: u64) {
        let core = &mut self.cores[core];
        core.has_holes = true;
        for (shape, lists) in self.shapes.iter().zip(&mut core.lists) {
            if last - first >= lists.len() as u64 {
                let all = lists.iter_mut().filter(|line| **line != NO_LINE && (first..=last).contains(*line));
                all.for_each(|line| *line = NO_LINE);
                continue;
            }
            for line in first..=last {
                let start = (line % shape.sets) as usize * shape.ways;
                let list = &mut lists[start..start + shape.ways];
                if let Some(place) = find(list, line) {
                    list[place] = NO_LINE;
                }
            }
        }
    }

    /// Counts of a cache with this many sets and ways; `None` if no shape here has this number of sets.
    pub(crate) fn counts(&self, sets: u64, ways: usize) -> Option<Counts> {
        let at = self.shapes.iter().position(|shape| shape.sets == sets)?;
        let mut hits = [self.again, 0];
        for found in self.places[at].iter().take(ways).chain(&self.firsts[..=at]) {
            hits = [hits[0] + found[0], hits[1] + found[1]];
        }
        Some(Counts {
            hits: hits[0],
            misses: self.uses[0] + self.again - hits[0],
            prefetch_hits: hits[1],
            prefetch_misses: self.uses[1] - hits[1],
            compulsory: self.compulsory,
            ..Counts::default()
        })
    }
}

/// A number without its factors of two. Of two numbers with the same odd factor, the larger is a multiple of the smaller.
fn odd_factor(n: u64) -> u64 {
    n.checked_shr(n.trailing_zeros()).unwrap_or(0)
}

/// Position of a line. PERF: compares eight at once, for long lists; bench `sweep`.
#[inline]
fn find(list: &[u64], line: u64) -> Option<usize> {
    let mut base = 0;
    for eight in list.chunks(8) {
        if eight.iter().fold(false, |any, held| any | (*held == line)) {
            return eight.iter().position(|held| *held == line).map(|at| base + at);
        }
        base += 8;
    }
    None
}

/// Moves the entries before `place` down by one. PERF: most places are near, and a call takes longer than the loop.
#[inline]
fn to_front(list: &mut [u64], place: usize) {
    if place < 8 {
        for at in (0..place).rev() {
            list[at + 1] = list[at];
        }
    } else {
        list.copy_within(..place, 1);
    }
}
