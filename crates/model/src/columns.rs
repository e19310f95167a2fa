//! The set of lens columns that a trace can fill, or that an analysis needs.

use crate::lens::for_each_lens;
use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of lens columns, one bit each. "Needs minus has" names what is missing.
///
/// ```
/// use quipu_model::Columns;
/// let has = Columns::ACCESSES | Columns::INSTRS;
/// let needs = Columns::ACCESSES | Columns::ACCESS_PC;
/// assert_eq!(needs.minus(has).to_string(), "accesses.pc");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Columns(u64);

/// The rows of a lens: which columns they have, and their names for people.
#[derive(Debug)]
pub struct LensInfo {
    /// The columns that each row always has.
    pub rows: Columns,
    /// A noun in the plural for the rows, for people.
    pub words: &'static str,
    /// Columns that add details to the rows, each with the words for that detail.
    pub details: &'static [(Columns, &'static str)],
}

macro_rules! columns {
    ($(
        $(#[$lens:meta])*
        $field:ident: $Rows:ident $($before_next:ident)? {
            $(#[$doc:meta])* $ROWS:ident = $bit:literal $text:literal $words:literal;
            $($(#[$more:meta])* $MORE:ident = $place:literal $name:literal $($detail:literal)?;)*
        }
    )*) => {
        impl Columns {
            $(
                $(#[$doc])* pub const $ROWS: Columns = Columns(1 << $bit);
                $($(#[$more])* pub const $MORE: Columns = Columns(1 << $place);)*
            )*

            const NAMES: &'static [(Columns, &'static str)] = &[
                $((Columns::$ROWS, $text), $((Columns::$MORE, $name),)*)*
                (Columns::RAW, "raw"),
            ];

            /// The rows of each lens, in the order of the lenses.
            pub const LENSES: &'static [LensInfo] = &[$(LensInfo {
                rows: Columns::$ROWS,
                words: $words,
                details: &[$($((Columns::$MORE, $detail),)?)*],
            },)*];
        }
    };
}

for_each_lens!(columns);

impl Columns {
    /// All columns of all lenses.
    pub const OF_LENSES: Columns = {
        let (mut all, mut at) = (Columns::NONE, 0);
        while at < Columns::NAMES.len() {
            all = all.or(Columns::NAMES[at].0);
            at += 1;
        }
        all.minus(Columns::RAW)
    };

    /// The bytes of the native records.
    pub const RAW: Columns = Columns(1 << 63);

    /// No column.
    pub const NONE: Columns = Columns(0);

    /// True if this set contains every column of `other`.
    pub const fn has(self, other: Columns) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if this set contains at least one column of `other`.
    pub const fn any(self, other: Columns) -> bool {
        self.0 & other.0 != 0
    }

    /// The columns of this set that `other` lacks.
    pub const fn minus(self, other: Columns) -> Columns {
        Columns(self.0 & !other.0)
    }

    /// The columns that are in both sets.
    pub const fn and(self, other: Columns) -> Columns {
        Columns(self.0 & other.0)
    }

    /// The columns that are in either set; usable in constants.
    pub const fn or(self, other: Columns) -> Columns {
        Columns(self.0 | other.0)
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The column called `name`, such as `accesses.pc`.
    pub fn named(name: &str) -> Option<Columns> {
        Columns::NAMES.iter().find(|(_, known)| *known == name).map(|(column, _)| *column)
    }

    /// The names of the columns, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Columns::NAMES.iter().filter(move |(column, _)| self.has(*column)).map(|(_, name)| *name)
    }
}

impl BitOr for Columns {
    type Output = Columns;
    fn bitor(self, other: Columns) -> Columns {
        self.or(other)
    }
}

impl BitOrAssign for Columns {
    fn bitor_assign(&mut self, other: Columns) {
        *self = self.or(other);
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, name) in self.names().enumerate() {
            f.write_str(if i == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Columns({self})")
    }
}
