//! The functions that a frame calls, for the frames with most calls.
//!
//! Memory is bounded: no more than twice [`MAX_FRAMES`] frames are remembered, with [`MAX_FUNCTIONS`] functions each.

use super::Seen;
use quipu_model::values::Types;
use std::cmp::Reverse;

/// Maximum number of frames whose functions are remembered.
const MAX_FRAMES: usize = 24;

/// Maximum number of functions of a frame; later ones are counted together.
const MAX_FUNCTIONS: usize = 200;

/// The functions that a frame calls, in the order of their first calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    pub(crate) functions: Vec<(String, u64)>,
    /// Calls of further functions.
    pub(crate) others: u64,
}

impl Inside {
    fn plus(&mut self, name: &str, calls: u64) {
        let has_room = self.functions.len() < MAX_FUNCTIONS;
        match self.functions.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += calls,
            None if has_room => self.functions.push((name.to_owned(), calls)),
            None => self.others += calls,
        }
    }

    fn append(&mut self, later: &Inside) {
        later.functions.iter().for_each(|(name, calls)| self.plus(name, *calls));
        self.others += later.others;
    }
}

/// The functions of the frames with most calls, and of the open frame.
#[derive(Clone, Debug, Default)]
pub(crate) struct Insides {
    /// Frames with their numbers and calls.
    frames: Vec<(u64, u64, Inside)>,
    /// A frame with no more calls than this is not among those with most.
    least: u64,
    open: Inside,
    /// Calls of the open frame by type, for the current read, within which types are valid.
    of_type: Vec<u64>,
    /// Types that have such calls, in the order of their first.
    called: Vec<u32>,
}

impl Insides {
    /// Counts a call of the open frame.
    pub(crate) fn call(&mut self, seen: &Seen<'_>) {
        let ty = seen.call.function;
        let at = ty as usize; // An index into the types of the read.
        if self.of_type.len() <= at {
            self.of_type.resize(at + 1, 0);
        }
        if self.of_type[at] == 0 {
            self.called.push(ty);
        }
        self.of_type[at] += 1;
    }

    /// Moves counts by type to names, before the read ends.
    pub(crate) fn settle(&mut self, types: &Types) {
        for ty in self.called.drain(..) {
            let calls = std::mem::take(&mut self.of_type[ty as usize]);
            // Calls of unknown functions were not counted.
            if let Some(function) = types.function(ty) {
                self.open.plus(&String::from_utf8_lossy(&function.name), calls);
            }
        }
    }

    /// Ends the open frame, which has this number and number of calls.
    pub(crate) fn end_frame(&mut self, frame: u64, calls: u64, types: &Types) {
        if calls > self.least {
            self.settle(types);
            self.frames.push((frame, calls, std::mem::take(&mut self.open)));
            if self.frames.len() >= 2 * MAX_FRAMES {
                self.prune();
            }
        } else {
            // Most frames of most traces are alike, and only the first of them need names.
            for ty in self.called.drain(..) {
                self.of_type[ty as usize] = 0;
            }
            self.open = Inside::default();
        }
    }

    /// Forgets all frames but those with most calls; of equal ones, the first remain. Frame 0 always remains, because it may
    /// have begun in the piece before, and [`merge`](Insides::merge) adds the calls that it had there.
    fn prune(&mut self) {
        self.frames.sort_by_key(|(frame, calls, _)| (Reverse(*calls), *frame));
        let others = self.frames.split_off(self.frames.len().min(MAX_FRAMES));
        if self.frames.len() == MAX_FRAMES {
            self.least = self.frames.last().map_or(0, |(_, calls, _)| *calls);
        }
        self.frames.extend(others.into_iter().find(|(frame, ..)| *frame == 0));
    }

    /// Appends the frames that came right after these `n_frames`; all reads have ended. `first` is the number of calls of the
    /// first frame that ended in `later`, together with those of the open frame; `None` if no frame ended.
    pub(crate) fn merge(&mut self, mut later: Insides, n_frames: u64, first: Option<u64>) {
        let mut whole = std::mem::take(&mut self.open);
        let ended = later.frames.iter_mut().find(|(frame, ..)| *frame == 0);
        if let Some((calls, (_, sum, inside))) = first.zip(ended) {
            whole.append(inside);
            (*sum, *inside) = (calls, whole);
        } else {
            whole.append(&later.open);
            later.open = whole;
        }
        let renumbered = later.frames.into_iter().map(|(frame, calls, of)| (frame + n_frames, calls, of));
        self.frames.extend(renumbered);
        self.prune();
        self.open = later.open;
    }

    /// The frames with most calls, in their order.
    pub(crate) fn into_frames(mut self) -> Vec<(u64, Inside)> {
        self.prune();
        self.frames.truncate(MAX_FRAMES);
        self.frames.sort_by_key(|(frame, ..)| *frame);
        self.frames.into_iter().map(|(frame, _, inside)| (frame, inside)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(name: &str, calls: u64) -> Inside {
        Inside { functions: vec![(name.to_owned(), calls)], others: 0 }
    }

    #[test]
    fn a_large_frame_in_two_pieces_is_among_those_with_most_calls() {
        let mut whole = Insides { open: inside("glBegin", 90), ..Insides::default() };
        let mut later = Insides::default();
        later.frames.push((0, 10, inside("glEnd", 10)));
        later.frames.extend((1..=2 * MAX_FRAMES as u64).map(|frame| (frame, 50, inside("glClear", 50))));
        later.prune();
        whole.merge(later, 7, Some(100));
        let frames = whole.into_frames();
        assert_eq!(frames.len(), MAX_FRAMES);
        let (number, first) = &frames[0];
        assert_eq!(
            (*number, &first.functions[..]),
            (7, &[("glBegin".to_owned(), 90), ("glEnd".to_owned(), 10)][..])
        );
    }
}
