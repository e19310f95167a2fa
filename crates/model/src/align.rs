//! Aligning two sequences: which items are equal, which were deleted, which were inserted.
//!
//! Myers' algorithm in its linear-space form: furthest-reaching paths grow from both ends, one difference at a time, until
//! they meet; then each half is aligned by itself. If the sequences differ so much that this would take long, the search
//! stops after a limited number of differences and splits where the furthest path got, so the time is bounded by the length
//! times that limit. The result is then still correct, though perhaps not the shortest.

use std::ops::Range;

/// A run of items with the same outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// This many items are equal in both.
    Equal(u64),
    /// This many items of the old sequence are missing from the new one.
    Delete(u64),
    /// This many items of the new sequence are not in the old one.
    Insert(u64),
}

/// Approximate limit on the steps of a search; it determines how many differences are tried before settling for less than the
/// shortest result.
const MAX_STEPS: u64 = 1 << 27;
/// Lower and upper limit on the number of differences that are tried for one half.
const COST_RANGE: (u64, u64) = (64, 8192);

/// The runs that lead from `old` to `new`. Adjacent runs have different kinds, and a deletion comes before the insertion that
/// replaces it.
pub fn align<T: Eq>(old: &[T], new: &[T]) -> Vec<Run> {
    let n = (old.len() + new.len()) as u64;
    let most = (MAX_STEPS / n.max(1)).clamp(COST_RANGE.0, COST_RANGE.1);
    let mut aligner = Aligner { old, new, most: most as usize, forward: Vec::new(), backward: Vec::new() };
    let mut script = Script::default();
    // An explicit stack, because the recursion can be deep.
    let mut todo = vec![(0..old.len(), 0..new.len())];
    while let Some((mut a, mut b)) = todo.pop() {
        let n_same = common(&old[a.clone()], &new[b.clone()]);
        script.push(Run::Equal(n_same as u64));
        a.start += n_same;
        b.start += n_same;
        if a.is_empty() || b.is_empty() {
            script.push(Run::Delete(a.len() as u64));
            script.push(Run::Insert(b.len() as u64));
            continue;
        }
        let n_same = common_back(&old[a.clone()], &new[b.clone()]);
        if n_same > 0 {
            todo.push((a.end - n_same..a.end, b.end - n_same..b.end));
            a.end -= n_same;
            b.end -= n_same;
            todo.push((a, b));
            continue;
        }
        let (x, y) = aligner.middle(&a, &b);
        if (x, y) == (a.start, b.start) || (x, y) == (a.end, b.end) {
            script.push(Run::Delete(a.len() as u64));
            script.push(Run::Insert(b.len() as u64));
            continue;
        }
        todo.push((x..a.end, y..b.end));
        todo.push((a.start..x, b.start..y));
    }
    script.finish()
}

fn common<T: Eq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn common_back<T: Eq>(a: &[T], b: &[T]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

struct Aligner<'s, T> {
    old: &'s [T],
    new: &'s [T],
    most: usize,
    /// For each diagonal, the furthest position in `old` that a path reaches, from the front and from the back.
    forward: Vec<isize>,
    backward: Vec<isize>,
}

impl<T: Eq> Aligner<'_, T> {
    /// A point that a short path goes through. Both `a` and `b` must be non-empty and differ in their first and last items.
    fn middle(&mut self, a: &Range<usize>, b: &Range<usize>) -> (usize, usize) {
        let (old, new) = (&self.old[a.clone()], &self.new[b.clone()]);
        let (n, m) = (old.len().cast_signed(), new.len().cast_signed());
        let delta = n - m;
        let most = self.most.min((old.len() + new.len()).div_ceil(2) + 1).cast_signed();
        // Diagonals range from -most-1 to most+1 around the diagonal of each end.
        let width = (2 * most + 3).cast_unsigned();
        for paths in [&mut self.forward, &mut self.backward] {
            paths.clear();
            paths.resize(width, NOWHERE);
        }
        let at = |diagonal: isize| (diagonal + most + 1).cast_unsigned();
        let mut best = (0, 0, 0);
        for d in 0..most {
            // Diagonals outside the grid have no points.
            let diagonals = (-d..=d).step_by(2).filter(|k| (-m..=n).contains(k));
            for k in diagonals.clone() {
                let Some((x, y)) = step(&self.forward, at(k), d, k, n, m) else { continue };
                let n_same = common(&old[x..], &new[y..]);
                let (x, y) = (x + n_same, y + n_same);
                self.forward[at(k)] = x.cast_signed();
                if x + y > best.0 {
                    best = (x + y, x, y);
                }
                // The same diagonal seen from the back, whose paths have one difference less.
                let back = delta - k;
                if delta % 2 != 0
                    && back.abs() < d
                    && self.backward[at(back)] >= 0
                    && x.cast_signed() + self.backward[at(back)] >= n
                {
                    return (a.start + x, b.start + y);
                }
            }
            for k in diagonals {
                let Some((x, y)) = step(&self.backward, at(k), d, k, n, m) else { continue };
                let n_same = common_back(&old[..old.len() - x], &new[..new.len() - y]);
                let (x, y) = (x + n_same, y + n_same);
                self.backward[at(k)] = x.cast_signed();
                let front = delta - k;
                if delta % 2 == 0
                    && front.abs() <= d
                    && self.forward[at(front)] >= 0
                    && x.cast_signed() + self.forward[at(front)] >= n
                {
                    return (a.start + old.len() - x, b.start + new.len() - y);
                }
            }
        }
        // Too different: split at the furthest point reached.
        (a.start + best.1, b.start + best.2)
    }
}

/// Marks a diagonal that no path has reached.
const NOWHERE: isize = -1;

/// The point where a path of `d` differences begins on diagonal `k` (index `at` in `paths`): one step from the furthest path
/// of `d - 1` differences on either neighbouring diagonal.
fn step(paths: &[isize], at: usize, d: isize, k: isize, n: isize, m: isize) -> Option<(usize, usize)> {
    if d == 0 {
        return Some((0, 0));
    }
    // A deletion comes from the diagonal below, an insertion from the one above.
    let deleted = Some(paths[at - 1]).filter(|x| *x >= 0 && *x < n).map(|x| x + 1);
    let inserted = Some(paths[at + 1]).filter(|x| *x >= 0 && *x - k <= m);
    let x = deleted.max(inserted)?;
    Some((x.cast_unsigned(), (x - k).cast_unsigned()))
}

/// Collects runs, joining adjacent ones of the same kind.
#[derive(Default)]
struct Script {
    runs: Vec<Run>,
    deleted: u64,
    inserted: u64,
}

impl Script {
    fn push(&mut self, run: Run) {
        match run {
            Run::Equal(0) => {}
            Run::Delete(n) => self.deleted += n,
            Run::Insert(n) => self.inserted += n,
            Run::Equal(n) => {
                self.flush();
                match self.runs.last_mut() {
                    Some(Run::Equal(before)) => *before += n,
                    _ => self.runs.push(run),
                }
            }
        }
    }

    fn flush(&mut self) {
        for (n, run) in
            [(&mut self.deleted, Run::Delete as fn(u64) -> Run), (&mut self.inserted, Run::Insert)]
        {
            if *n > 0 {
                self.runs.push(run(std::mem::take(n)));
            }
        }
    }

    fn finish(mut self) -> Vec<Run> {
        self.flush();
        self.runs
    }
}

/// Removes differences at the end that damage alone may explain. A damaged sequence may have lost its end, so items that only
/// the other one has there prove nothing; of these, only as many stay as replace items that were read.
pub fn forget_end(runs: &mut Vec<Run>, is_old_damaged: bool, is_new_damaged: bool) {
    if !is_old_damaged && !is_new_damaged {
        return;
    }
    let (mut deleted, mut inserted) = (0, 0);
    while let Some(run) = runs.pop_if(|run| !matches!(run, Run::Equal(_))) {
        match run {
            Run::Delete(n) => deleted += n,
            Run::Insert(n) => inserted += n,
            Run::Equal(_) => {}
        }
    }
    let both = deleted.min(inserted);
    let deleted = if is_new_damaged { both } else { deleted };
    let inserted = if is_old_damaged { both } else { inserted };
    runs.extend((deleted > 0).then_some(Run::Delete(deleted)));
    runs.extend((inserted > 0).then_some(Run::Insert(inserted)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fewest deletions and insertions, computed with the slow quadratic table.
    fn fewest(old: &[u8], new: &[u8]) -> u64 {
        let mut row: Vec<u64> = (0..=new.len() as u64).collect();
        for (i, a) in old.iter().enumerate() {
            let mut diagonal = row[0];
            row[0] = i as u64 + 1;
            for (j, b) in new.iter().enumerate() {
                let straight = if a == b { diagonal } else { u64::MAX - 1 };
                diagonal = row[j + 1];
                row[j + 1] = straight.min(1 + row[j + 1]).min(1 + row[j]);
            }
        }
        row[new.len()]
    }

    /// Follows the runs from `old` to `new` and returns the number of differences.
    fn follow(old: &[u8], new: &[u8], runs: &[Run]) -> u64 {
        let (mut a, mut b, mut cost) = (0, 0, 0);
        for (i, run) in runs.iter().enumerate() {
            let kind = std::mem::discriminant(run);
            assert!(i == 0 || kind != std::mem::discriminant(&runs[i - 1]), "{runs:?}");
            match *run {
                Run::Equal(n) => {
                    let n = n as usize;
                    assert_eq!(old[a..a + n], new[b..b + n]);
                    a += n;
                    b += n;
                }
                Run::Delete(n) => {
                    a += n as usize;
                    cost += n;
                }
                Run::Insert(n) => {
                    assert!(i + 1 == runs.len() || !matches!(runs[i + 1], Run::Delete(_)), "{runs:?}");
                    b += n as usize;
                    cost += n;
                }
            }
        }
        assert_eq!((a, b), (old.len(), new.len()));
        cost
    }

    proptest! {
        #[test]
        fn runs_lead_from_old_to_new_in_the_fewest_steps(
            old in proptest::collection::vec(0u8..4, 0..40),
            new in proptest::collection::vec(0u8..4, 0..40),
        ) {
            let runs = align(&old, &new);
            prop_assert_eq!(follow(&old, &new, &runs), fewest(&old, &new), "{:?}", runs);
        }
    }

    #[test]
    fn very_different_sequences_take_bounded_time() {
        let old: Vec<u32> = (0..100_000).map(|i: u32| i.wrapping_mul(2_654_435_761) >> 22).collect();
        let new: Vec<u32> = (0..100_000).map(|i: u32| i.wrapping_mul(2_246_822_519) >> 22).collect();
        let runs = align(&old, &new);
        let (mut a, mut b) = (0, 0);
        for run in runs {
            match run {
                Run::Equal(n) => {
                    assert_eq!(old[a..a + n as usize], new[b..b + n as usize]);
                    a += n as usize;
                    b += n as usize;
                }
                Run::Delete(n) => a += n as usize,
                Run::Insert(n) => b += n as usize,
            }
        }
        assert_eq!((a, b), (old.len(), new.len()));
    }

    #[test]
    fn a_stretch_that_was_taken_out_is_found_as_one() {
        let old: Vec<u32> = (0..1000).collect();
        let new: Vec<u32> = (0..400).chain(450..1000).collect();
        assert_eq!(align(&old, &new), [Run::Equal(400), Run::Delete(50), Run::Equal(550)]);
        assert_eq!(align(&new, &old), [Run::Equal(400), Run::Insert(50), Run::Equal(550)]);
    }

    #[test]
    fn what_damage_leaves_out_at_the_end_is_no_difference() {
        let end = |is_old: bool, is_new: bool| {
            let mut runs = vec![Run::Equal(3), Run::Delete(5), Run::Insert(2)];
            forget_end(&mut runs, is_old, is_new);
            runs
        };
        assert_eq!(end(false, false), [Run::Equal(3), Run::Delete(5), Run::Insert(2)]);
        assert_eq!(end(false, true), [Run::Equal(3), Run::Delete(2), Run::Insert(2)]);
        assert_eq!(end(true, false), [Run::Equal(3), Run::Delete(5), Run::Insert(2)]);
        let mut missing = vec![Run::Equal(3), Run::Delete(5)];
        forget_end(&mut missing, false, true);
        assert_eq!(missing, [Run::Equal(3)]);
    }
}
