//! The set of lens columns that a trace can fill, or that an analysis needs.

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

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident = $bit:literal $text:literal;)*) => {
        impl Columns {
            $($(#[$doc])* pub const $name: Columns = Columns(1 << $bit);)*
            const NAMES: &'static [(Columns, &'static str)] = &[$((Columns::$name, $text)),*];
        }
    };
}

columns! {
    /// Rows of the accesses lens with `at`, `addr`, `size`, `kind`.
    ACCESSES = 0 "accesses";
    /// The instruction that made each access.
    ACCESS_PC = 1 "accesses.pc";
    /// Instruction fetches among the accesses, in program order.
    ACCESS_FETCH = 2 "accesses.fetch";
    /// Rows of the instrs lens with `at`, `pc`, `size`, `flags`.
    INSTRS = 8 "instrs";
    /// What sort of control flow each instruction is.
    INSTR_CLASS = 9 "instrs.class";
    /// Whether each branch was taken.
    INSTR_TAKEN = 10 "instrs.taken";
    /// Where each indirect branch went.
    INSTR_TARGET = 11 "instrs.target";
    /// The bytes of each instruction, as an index into the batch's code table.
    INSTR_CODE = 12 "instrs.code";
    /// Rows of the calls lens: functions and system calls entered and left, with arguments and results.
    CALLS = 16 "calls";
    /// The calls of the batch with all their values, whatever their shape.
    CALL_VALUES = 17 "calls.values";
    /// Rows of the threads lens: start, stop, clock ticks, cpus, idling.
    THREADS = 24 "threads";
    /// The time of day, among the rows of the threads lens.
    THREAD_CLOCK = 25 "threads.clock";
    /// The processor, among the rows of the threads lens.
    THREAD_CPU = 26 "threads.cpu";
    /// Rows of the marks lens: named moments with a value.
    MARKS = 32 "marks";
    /// Rows of the regions lens: memory whose type is known.
    REGIONS = 40 "regions";
    /// The native records' own bytes.
    RAW = 63 "raw";
}

impl Columns {
    /// No column.
    pub const NONE: Columns = Columns(0);

    /// True if every column of `other` is in this set.
    pub const fn has(self, other: Columns) -> bool {
        self.0 & other.0 == other.0
    }

    /// True if at least one column of `other` is in this set.
    pub const fn any(self, other: Columns) -> bool {
        self.0 & other.0 != 0
    }

    /// The columns of this set that `other` lacks.
    pub const fn minus(self, other: Columns) -> Columns {
        Columns(self.0 & !other.0)
    }

    /// The columns in both sets.
    pub const fn and(self, other: Columns) -> Columns {
        Columns(self.0 & other.0)
    }

    /// The columns in either set; usable in constants.
    pub const fn or(self, other: Columns) -> Columns {
        Columns(self.0 | other.0)
    }

    /// True if no column is in this set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
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
