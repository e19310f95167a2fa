//! The number of executed instructions of a trace whose filter left most of them out, from marks that count them.
//!
//! One rule for all tools: a thread executed as many instructions as its last mark counts beyond its first. Fewer than two
//! marks give no number.

/// The marks of one thread that count its executed instructions.
///
/// ```
/// use quipu_model::executed::ExecutedCount;
/// let mut count = ExecutedCount::default();
/// count.add(200);
/// assert_eq!(count.instructions(), None);
/// count.add(1200);
/// assert_eq!(count.instructions(), Some(1000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutedCount {
    /// The smallest and the largest count; `None` before the first mark.
    range: Option<(u64, u64)>,
    has_several: bool,
}

impl ExecutedCount {
    /// Adds a mark. Counts only grow, so the parts of a trace may be added in any order.
    pub fn add(&mut self, count: u64) {
        self.merge(&ExecutedCount { range: Some((count, count)), has_several: false });
    }

    /// Adds the marks of another part of the same thread.
    pub fn merge(&mut self, other: &ExecutedCount) {
        let Some((other_first, other_last)) = other.range else { return };
        self.has_several |= other.has_several || self.range.is_some();
        let (first, last) = self.range.unwrap_or((other_first, other_last));
        self.range = Some((first.min(other_first), last.max(other_last)));
    }

    /// Number of instructions that the thread executed from its first mark to its last; `None` with fewer than two marks.
    pub fn instructions(&self) -> Option<u64> {
        self.range.filter(|_| self.has_several).map(|(first, last)| last - first)
    }

    /// Number of instructions that all these threads executed; `None` without threads, and if any of them has no number.
    pub fn of_all(threads: impl Iterator<Item = Option<u64>>) -> Option<u64> {
        let mut threads = threads.peekable();
        threads.peek()?;
        threads.try_fold(0, |sum: u64, count| Some(sum.saturating_add(count?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mark_tells_nothing_and_parts_come_in_any_order() {
        let of = |counts: &[u64]| {
            let mut count = ExecutedCount::default();
            counts.iter().for_each(|n| count.add(*n));
            count
        };
        assert_eq!([of(&[]), of(&[0]), of(&[7])].map(|count| count.instructions()), [None; 3]);
        assert_eq!(of(&[0, 0]).instructions(), Some(0));
        let (early, late) = (of(&[200]), of(&[1200]));
        for (mut first, second) in [(early, late), (late, early)] {
            first.merge(&of(&[]));
            first.merge(&second);
            assert_eq!(first.instructions(), Some(1000));
        }
        assert_eq!(ExecutedCount::of_all([].into_iter()), None);
        assert_eq!(ExecutedCount::of_all([Some(1), None].into_iter()), None);
        assert_eq!(ExecutedCount::of_all([Some(1), Some(u64::MAX)].into_iter()), Some(u64::MAX));
    }
}
