//! Lines that threads take over from each other.
//!
//! A *turn* is what one thread does to a line until another thread touches it. Where a turn follows that of another thread and
//! either of them wrote, the line had to move between the cores' caches. If one of them touched a byte that the other wrote,
//! they share data, and the line moved for a reason; if not, they share only the line: *false sharing*, which another layout
//! would have spared. Turns without a write move nothing.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Lines that are watched; of more, turns are counted for all of them together only.
const MAX_LINES: usize = 1 << 20;
/// Threads that are told apart on one line.
const MAX_THREADS: usize = 16;

/// A turn: which thread, and what it has read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) thread: u32,
    pub(crate) seen: [u64; 2],
}

/// What a line had to move for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// Without a write it did not have to.
    None,
    /// Data.
    True,
    /// Only the line.
    False,
}

impl Turn {
    /// What a turn makes of the one before it.
    pub(crate) fn behind(&self, before: &Turn) -> Move {
        let all = |turn: &Turn| turn.seen[0] | turn.seen[1];
        let (wrote, had_written) = (self.seen[1], before.seen[1]);
        if wrote | had_written == 0 {
            Move::None
        } else if (had_written & all(self)) | (wrote & all(before)) == 0 {
            Move::False
        } else {
            Move::True
        }
    }
}

/// A line that moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    before: Option<Turn>,
    /// How often it moved for data, and for nothing.
    pub(crate) moves: [u64; 2],
    /// What each thread has touched in turns that moved it for nothing, since that was last told apart by field.
    pub(crate) touched: Vec<(u32, u64)>,
    /// What that was.
    pub(crate) with: Vec<SharedWith>,
    /// How often it moved for nothing, by the kind of what was touched.
    pub(crate) by_kind: Vec<KindMoves>,
    /// Moves for nothing for which every kind is known.
    n_settled: u64,
}

/// How often a line moved for nothing that has something of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindMoves {
    pub(crate) kind: u32,
    pub(crate) moves: u64,
    /// Moves of the line, of whatever kind, when that was counted last.
    until: u64,
}

/// What a thread touched on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedWith {
    pub(crate) thread: u32,
    /// Where its memory was got.
    pub(crate) origin: u32,
    /// The counter of its field.
    pub(crate) counter: u32,
    /// Which element of its region it is.
    pub(crate) element: u64,
}

/// All lines that moved, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) lines: HashMap<u64, Shared, FxBuildHasher>,
    /// Turns at lines that are not watched.
    pub(crate) n_unwatched: u64,
}

impl Sharing {
    /// A turn at a line is over. One in which nothing was touched that is still there is none, and one of the thread that had
    /// the last one continues with that.
    pub(crate) fn ended(&mut self, line: u64, turn: Turn) -> Move {
        if turn.seen == [0; 2] {
            return Move::None;
        }
        if self.lines.len() >= MAX_LINES && !self.lines.contains_key(&line) {
            self.n_unwatched += 1;
            return Move::None;
        }
        let shared = self.lines.entry(line).or_default();
        if let Some(before) = &mut shared.before
            && before.thread == turn.thread
        {
            (before.seen[0], before.seen[1]) = (before.seen[0] | turn.seen[0], before.seen[1] | turn.seen[1]);
            return Move::None;
        }
        let Some(before) = shared.before.replace(turn) else { return Move::None };
        let moved = turn.behind(&before);
        match moved {
            Move::None => {}
            Move::True => shared.moves[0] += 1,
            Move::False => {
                shared.moves[1] += 1;
                for turn in [before, turn] {
                    shared.touch(turn.thread, turn.seen[0] | turn.seen[1]);
                }
            }
        }
        moved
    }
}

/// Kinds that are told apart on one line.
const MAX_KINDS: usize = 64;

impl Shared {
    /// Counts the moves for nothing since the last time for a kind that was touched.
    pub(crate) fn count(&mut self, kind: u32) {
        let until = self.moves[1];
        let has_room = self.by_kind.len() < MAX_KINDS;
        match self.by_kind.iter_mut().find(|of| of.kind == kind) {
            Some(of) => {
                of.moves += until - of.until.max(self.n_settled);
                of.until = until;
            }
            None if has_room => {
                self.by_kind.push(KindMoves { kind, moves: until - self.n_settled, until });
            }
            None => {}
        }
    }

    /// Forgets that the last turn touched some bytes: their memory was given back, or out again.
    pub(crate) fn forget(&mut self, bytes: u64) {
        if self.touched.iter().all(|(_, touched)| *touched == 0) {
            self.n_settled = self.moves[1];
        }
        if let Some(before) = &mut self.before {
            before.seen = before.seen.map(|seen| seen & !bytes);
            if before.seen == [0; 2] {
                self.before = None;
            }
        }
    }

    fn touch(&mut self, thread: u32, bytes: u64) {
        let has_room = self.touched.len() < MAX_THREADS;
        match self.touched.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, all)) => *all |= bytes,
            None if has_room => self.touched.push((thread, bytes)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_move_for_data_or_for_nothing() {
        let turn = |thread, reads, writes| Turn { thread, seen: [reads, writes] };
        let mut sharing = Sharing::default();
        let moves = [
            (turn(0, 0, 0xff), Move::None),
            (turn(1, 0, 0xff00), Move::False),
            (turn(0, 0xff, 0), Move::False),
            (turn(1, 0xff, 0), Move::None),
            (turn(2, 0, 0x80), Move::True),
            (turn(0, 0x80, 0x7f), Move::True),
            (turn(2, 0xf00, 0), Move::False),
        ];
        for (turn, moved) in moves {
            assert_eq!(sharing.ended(7, turn), moved, "{turn:?}");
        }
        assert_eq!(sharing.lines[&7].moves, [2, 3]);
        assert_eq!(sharing.lines[&7].touched, [(0, 0xff), (1, 0xff00), (2, 0xf00)]);
    }
}
