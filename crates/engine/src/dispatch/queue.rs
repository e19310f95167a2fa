//! Threads that wait for a core, the best one first.
//!
//! The shape of the heap determines which thread is last, and that one moves when threads are redistributed. The shape is
//! that of DynamoRIO, whose root has one child: the children of `n` are `2n` and `2n + 1`, counted from 0 (QUIRK: in a heap
//! counted from 0, they are usually `2n + 1` and `2n + 2`).

/// The key by which waiting threads are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    /// Higher is better.
    pub(super) priority: i32,
    /// Progress of the thread's clock; lower is better.
    pub(super) progress: u64,
    /// Order of arrival in the queue; lower is better. Unique within a queue.
    pub(super) turn: u64,
}

impl Rank {
    fn is_behind(&self, other: &Rank) -> bool {
        let key = |rank: &Rank| (std::cmp::Reverse(rank.priority), rank.progress, rank.turn);
        key(self) > key(other)
    }
}

/// A thread that waits, with its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) thread: usize,
    pub(super) rank: Rank,
}

/// A binary heap of waiting threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue(Vec<Waiting>);

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All waiting threads, in an arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.0.iter()
    }

    pub(super) fn push(&mut self, waiting: Waiting) {
        self.0.push(waiting);
        self.rise(self.0.len() - 1);
    }

    /// Removes the best thread.
    pub(super) fn pop_first(&mut self) -> Option<Waiting> {
        self.take(0)
    }

    /// Removes the last thread of the heap: not the best one, unless it is the only one.
    pub(super) fn pop_last(&mut self) -> Option<Waiting> {
        self.0.pop()
    }

    /// Removes the thread at a position, modulo the length.
    pub(super) fn pop_any(&mut self, number: u64) -> Option<Waiting> {
        let len = self.0.len() as u64;
        self.take(number.checked_rem(len)? as usize) // Below the length.
    }

    /// Removes this thread; false if it does not wait here.
    pub(super) fn remove(&mut self, thread: usize) -> bool {
        let position = self.0.iter().position(|waiting| waiting.thread == thread);
        position.is_some_and(|position| self.take(position).is_some())
    }

    fn take(&mut self, position: usize) -> Option<Waiting> {
        if position >= self.0.len() {
            return None;
        }
        let taken = self.0.swap_remove(position);
        if position < self.0.len() {
            self.sink(position);
            self.rise(position);
        }
        Some(taken)
    }

    fn rise(&mut self, mut node: usize) {
        while node > 0 && self.0[node / 2].rank.is_behind(&self.0[node].rank) {
            self.0.swap(node, node / 2);
            node /= 2;
        }
    }

    fn sink(&mut self, mut node: usize) {
        loop {
            let mut best = node;
            for child in [2 * node, 2 * node + 1] {
                if child < self.0.len() && self.0[best].rank.is_behind(&self.0[child].rank) {
                    best = child;
                }
            }
            if best == node {
                return;
            }
            self.0.swap(node, best);
            node = best;
        }
    }
}

/// A pseudo-random generator with a fixed sequence for each seed: the minimal standard generator with multiplier 48271.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    const MODULUS: u64 = (1 << 31) - 1;

    pub(super) fn new(seed: u64) -> Dice {
        Dice(match seed % Dice::MODULUS {
            0 => 1,
            seed => seed,
        })
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0 * 48_271 % Dice::MODULUS;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(thread: usize, priority: i32, progress: u64, turn: u64) -> Waiting {
        Waiting { thread, rank: Rank { priority, progress, turn } }
    }

    #[test]
    fn the_best_goes_first_by_priority_then_clock_then_turn() {
        let mut queue = Queue::default();
        for (thread, (priority, progress, turn)) in
            [(0, 9, 1), (0, 3, 5), (1, 70, 4), (0, 3, 2), (-1, 0, 0), (1, 70, 3)].into_iter().enumerate()
        {
            queue.push(waiting(thread, priority, progress, turn));
        }
        let order: Vec<usize> = std::iter::from_fn(|| queue.pop_first()).map(|first| first.thread).collect();
        assert_eq!(order, [5, 2, 3, 1, 0, 4]);
    }

    #[test]
    fn removing_any_thread_keeps_the_order_of_the_others() {
        let mut dice = Dice::new(7);
        for n in 1..40 {
            let mut queue = Queue::default();
            let mut kept = Vec::new();
            for thread in 0..n {
                let waits = waiting(thread, 0, dice.roll() % 10, thread as u64);
                queue.push(waits);
                kept.push(waits);
            }
            let gone = dice.roll() as usize % n;
            assert!(queue.remove(gone) && !queue.remove(gone));
            kept.retain(|waits| waits.thread != gone);
            kept.sort_by_key(|waits| (waits.rank.progress, waits.rank.turn));
            let order: Vec<Waiting> = std::iter::from_fn(|| queue.pop_first()).collect();
            assert_eq!(order, kept);
        }
    }

    #[test]
    fn dice_fall_as_the_minimal_standard_says() {
        // The C++ standard specifies the ten thousandth number of the generator that starts with 1.
        let mut dice = Dice::new(1);
        let last = (0..10_000).map(|_| dice.roll()).last();
        assert_eq!(last, Some(399_268_537));
    }
}
