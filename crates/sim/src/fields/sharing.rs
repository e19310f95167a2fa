//! Lines that move between threads: true and false sharing.
//!
//! A *turn* is what one thread does to a line until another thread touches it. If two successive turns come from different
//! threads and either of them wrote, the line had to move between the cores' caches. If one of them touched a byte that the
//! other wrote, they share data and the move was necessary. If not, they share only the line: *false sharing*, which another
//! layout would avoid. Turns without a write cause no move.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// Lines with details of their own; for further lines, only the number of turns is counted.
const MAX_LINES: usize = 1 << 20;
/// Threads that are distinguished on one line.
const MAX_THREADS: usize = 16;

/// A turn: the thread, and the bytes that it read and wrote, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) thread: u32,
    pub(crate) seen: [u64; 2],
}

/// Why a line moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// It did not have to: neither turn wrote.
    None,
    /// True sharing: the threads share data.
    True,
    /// False sharing: the threads share only the line.
    False,
}

impl Turn {
    /// Classifies this turn and the one before it.
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

/// Sharing statistics of one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    before: Option<Turn>,
    /// Moves by true and by false sharing.
    pub(crate) moves: [u64; 2],
    /// Bytes that each thread touched in false-sharing turns, since they were last resolved to fields.
    pub(crate) touched: Vec<(u32, u64)>,
    /// The resolved fields.
    pub(crate) with: Vec<SharedWith>,
    /// Moves by false sharing, by kind of the data touched.
    pub(crate) by_kind: Vec<KindMoves>,
    /// False-sharing moves for which all kinds have been counted.
    n_settled: u64,
}

/// Number of false-sharing moves of a line that involve a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindMoves {
    pub(crate) kind: u32,
    pub(crate) moves: u64,
    /// All false-sharing moves of the line when this was last updated.
    until: u64,
}

/// A field that a thread touched on a shared line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedWith {
    pub(crate) thread: u32,
    /// Site of its memory.
    pub(crate) origin: u32,
    /// Counter of its field.
    pub(crate) counter: u32,
    /// Index of the element in its region.
    pub(crate) element: u64,
}

/// All lines that moved, by line number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) lines: HashMap<u64, Shared, FxBuildHasher>,
    /// Turns on lines beyond [`MAX_LINES`].
    pub(crate) n_unwatched: u64,
}

impl Sharing {
    /// Ends a turn on a line. A turn without touched bytes that still exist is ignored; one by the thread that had the turn
    /// before is merged with it.
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

/// Kinds that are counted separately on one line.
const MAX_KINDS: usize = 64;

impl Shared {
    /// Counts the false-sharing moves since the last call for a kind whose bytes were touched.
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

    /// Forgets the bytes of the last turn whose memory was freed or allocated again.
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
