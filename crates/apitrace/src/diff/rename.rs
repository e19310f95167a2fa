//! Matches addresses and names of the old trace with those of the new one.
//!
//! Both traces are walked side by side. The first time that two names stand in the same place, they are matched; from then on
//! they must stay matched. A name that a call returns (as its result, or as a generated name) stands for a new object,
//! whatever had that name before, because addresses and names are reused.

use crate::objects::Class;
use rustc_hash::FxHashMap;

/// The pairs of matched names.
#[derive(Debug, Default)]
pub(super) struct Renamer {
    forward: FxHashMap<(Class, u64), Partner>,
    backward: FxHashMap<(Class, u64), Partner>,
}

#[derive(Clone, Copy, Debug)]
struct Partner {
    name: u64,
    /// Whether a call returned it; otherwise it is known from its use only.
    is_produced: bool,
}

impl Renamer {
    /// Notes that calls on both sides returned these names.
    pub(super) fn produce(&mut self, class: Class, old: u64, new: u64) {
        self.bind(class, old, new, true);
    }

    fn bind(&mut self, class: Class, old: u64, new: u64, is_produced: bool) {
        if let Some(before) = self.forward.insert((class, old), Partner { name: new, is_produced })
            && before.name != new
        {
            self.backward.remove(&(class, before.name));
        }
        if let Some(before) = self.backward.insert((class, new), Partner { name: old, is_produced })
            && before.name != old
        {
            self.forward.remove(&(class, before.name));
        }
    }

    /// Whether two names that are used in the same place stand for the same object.
    pub(super) fn is_same(&mut self, class: Class, old: u64, new: u64) -> bool {
        match (self.forward.get(&(class, old)), self.backward.get(&(class, new))) {
            (Some(forward), Some(backward)) if forward.name == new && backward.name == old => true,
            (Some(_), Some(_)) => false,
            (None, None) => {
                self.bind(class, old, new, false);
                true
            }
            // The program's own memory, which no call returned, may lie anywhere.
            (Some(known), None) | (None, Some(known)) if class == Class::Address && !known.is_produced => {
                self.bind(class, old, new, false);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_together() {
        let mut renamer = Renamer::default();
        assert!(renamer.is_same(Class::Texture, 1, 5));
        assert!(renamer.is_same(Class::Texture, 1, 5));
        assert!(!renamer.is_same(Class::Texture, 1, 6));
        assert!(!renamer.is_same(Class::Texture, 2, 5));
        assert!(renamer.is_same(Class::Buffer, 1, 1));
        renamer.produce(Class::Texture, 1, 7);
        assert!(renamer.is_same(Class::Texture, 1, 7));
        assert!(renamer.is_same(Class::Texture, 2, 5));
    }

    #[test]
    fn memory_of_the_program_may_move_but_handles_may_not() {
        let mut renamer = Renamer::default();
        assert!(renamer.is_same(Class::Address, 0x1000, 0x2000));
        assert!(renamer.is_same(Class::Address, 0x1000, 0x3000));
        renamer.produce(Class::Address, 0x5000, 0x6000);
        assert!(!renamer.is_same(Class::Address, 0x5000, 0x7000));
        assert!(!renamer.is_same(Class::Address, 0x1000, 0x6000));
    }
}
