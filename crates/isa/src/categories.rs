//! The kinds of work that an instruction does, as a set of DynamoRIO's published category names.
//!
//! The bit values are those of the REGDEPS header (SPEC: drmemtrace.md#regdeps-encodings), so that a set read from a
//! file and a set computed from machine code compare equal.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of categories. The empty set prints as "uncategorized".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Categories(u16);

impl Categories {
    /// No category: the instruction was not classified.
    pub const UNCATEGORIZED: Categories = Categories(0);
    /// Floating-point work.
    pub const FP: Categories = Categories(0x1);
    /// Reads memory.
    pub const LOAD: Categories = Categories(0x2);
    /// Writes memory.
    pub const STORE: Categories = Categories(0x4);
    /// May change the flow of control, system calls included.
    pub const BRANCH: Categories = Categories(0x8);
    /// Works on vector registers.
    pub const SIMD: Categories = Categories(0x10);
    /// Saves, restores or queries processor state.
    pub const STATE: Categories = Categories(0x20);
    /// Copies a value between registers.
    pub const MOVE: Categories = Categories(0x40);
    /// Changes the representation of a value.
    pub const CONVERT: Categories = Categories(0x80);
    /// Arithmetic, logic and comparison.
    pub const MATH: Categories = Categories(0x100);
    /// Classified, but in none of the other categories.
    pub const OTHER: Categories = Categories(0x200);

    /// Names by bit number, lowest first.
    const NAMES: [&'static str; 10] =
        ["fp", "load", "store", "branch", "simd", "state", "move", "convert", "math", "other"];

    /// The set with exactly these bits. Bits without a published name are kept.
    pub const fn from_bits(bits: u16) -> Categories {
        Categories(bits)
    }

    /// The bits of the set, as stored in a REGDEPS header.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether no category is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether every category of `other` is in this set.
    pub const fn contains(self, other: Categories) -> bool {
        self.0 & other.0 == other.0
    }

    /// This set and `other` together.
    #[must_use]
    pub const fn with(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// This set without the categories of `other`.
    #[must_use]
    pub const fn without(self, other: Categories) -> Categories {
        Categories(self.0 & !other.0)
    }

    /// The names of the set in ascending bit order; `uncategorized` alone for the empty set.
    /// Bits without a published name are skipped.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let none = (self.0 == 0).then_some("uncategorized");
        let some =
            (0..Self::NAMES.len()).filter(move |bit| self.0 >> bit & 1 == 1).map(|bit| Self::NAMES[bit]);
        none.into_iter().chain(some)
    }
}

impl BitOr for Categories {
    type Output = Categories;

    fn bitor(self, other: Categories) -> Categories {
        self.with(other)
    }
}

impl BitOrAssign for Categories {
    fn bitor_assign(&mut self, other: Categories) {
        *self = self.with(other);
    }
}

impl fmt::Display for Categories {
    /// Writes the names separated by single spaces.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_ascending_bit_order() {
        assert_eq!(Categories::from_bits(0x3ff).names().collect::<Vec<_>>(), Categories::NAMES);
        assert_eq!((Categories::MATH | Categories::LOAD | Categories::FP).to_string(), "fp load math");
    }

    #[test]
    fn the_empty_set_is_uncategorized() {
        assert_eq!(Categories::UNCATEGORIZED.to_string(), "uncategorized");
    }
}
