//! What the records of a firing are, by the numbers of each dialect.

use crate::describe::Dialect;

/// What one part of a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// A value of `trace()`, or of `print()` where it has a type.
    Trace,
    /// The status of `exit()`.
    Exit,
    /// An argument of `printf()`.
    Printf,
    /// The variable of an aggregation that `printa()` prints.
    Printa,
    /// An argument of what the consumer does itself: `clear()`, `trunc()`, `setopt()`, …
    Library,
    /// Bytes of `tracemem()`.
    Tracemem,
    /// How many of the bytes of the next `tracemem()` are meant.
    TracememSize,
    /// A length, then bytes (FreeBSD).
    Printm,
    /// The address that `print()` was given (Linux); its data follows.
    Print,
    /// A stack of user addresses.
    Ustack,
    /// The same with names of frames.
    Jstack,
    /// A user address, shown as its symbol.
    Usym,
    /// A user address, shown as its module.
    Umod,
    /// A user address.
    Uaddr,
    /// Arguments of a command, which is never run here.
    System,
    /// Arguments of the name of a file, which is never opened here.
    Freopen,
    /// A stack of kernel addresses.
    Stack,
    /// A kernel address, shown as its symbol.
    Sym,
    /// A kernel address, shown as its module.
    Mod,
    /// What is recorded for a speculation from here on.
    Speculate,
    /// A speculation whose records count.
    Commit,
    /// A speculation whose records are dropped.
    Discard,
    /// The value of an aggregation.
    Aggregate(Function),
    /// `stop()`, `raise()`, `breakpoint()`, `panic()`, `chill()`, packets: nothing that is printed.
    Silent,
    /// A number that the dialect does not have.
    Unknown(u16),
}

/// What an aggregation does with its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the functions")]
pub enum Function {
    Count,
    Sum,
    Min,
    Max,
    Avg,
    Stddev,
    Quantize,
    Lquantize,
    Llquantize,
}

impl Function {
    /// As scripts write it.
    pub fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Min => "min",
            Function::Max => "max",
            Function::Avg => "avg",
            Function::Stddev => "stddev",
            Function::Quantize => "quantize",
            Function::Lquantize => "lquantize",
            Function::Llquantize => "llquantize",
        }
    }

    /// True if its value is printed as a histogram.
    pub fn is_histogram(self) -> bool {
        matches!(self, Function::Quantize | Function::Lquantize | Function::Llquantize)
    }
}

/// The aggregating functions, by their numbers from 0x701 in the classic dialects.
const CLASSIC: [Function; 9] = [
    Function::Count,
    Function::Min,
    Function::Max,
    Function::Avg,
    Function::Sum,
    Function::Stddev,
    Function::Quantize,
    Function::Lquantize,
    Function::Llquantize,
];

/// The same from 0x700 in the dialect of Linux: by name.
const LINUX: [Function; 9] = [
    Function::Avg,
    Function::Count,
    Function::Llquantize,
    Function::Lquantize,
    Function::Max,
    Function::Min,
    Function::Quantize,
    Function::Stddev,
    Function::Sum,
];

impl Action {
    /// What a number means in a dialect.
    pub fn of(code: u16, dialect: Dialect) -> Action {
        let is_linux = dialect == Dialect::Linux;
        match code {
            0 => Action::None,
            1 => Action::Trace,
            2 => Action::Exit,
            3 => Action::Printf,
            4 => Action::Printa,
            5 => Action::Library,
            6 => Action::Tracemem,
            7 if is_linux => Action::Silent,
            8 if is_linux => Action::Print,
            7 => Action::TracememSize,
            8 => Action::Printm,
            0x101 => Action::Ustack,
            0x102 => Action::Jstack,
            0x103 => Action::Usym,
            0x104 => Action::Umod,
            0x105 => Action::Uaddr,
            0x201 | 0x202 | 0x501 | 0x502 | 0x503 => Action::Silent,
            0x203 => Action::System,
            0x204 => Action::Freopen,
            0x401 => Action::Stack,
            0x402 => Action::Sym,
            0x403 => Action::Mod,
            0x601 => Action::Speculate,
            0x602 => Action::Commit,
            0x603 => Action::Discard,
            _ => match aggregating(code, is_linux) {
                Some(function) => Action::Aggregate(function),
                None => Action::Unknown(code),
            },
        }
    }

    /// The number of an aggregating function in a dialect.
    pub fn code_of(function: Function, dialect: Dialect) -> u16 {
        let (base, all) = if dialect == Dialect::Linux { (0x700, LINUX) } else { (0x701, CLASSIC) };
        let position = all.iter().position(|other| *other == function).unwrap_or(0);
        base + position as u16 // There are nine.
    }
}

fn aggregating(code: u16, is_linux: bool) -> Option<Function> {
    let (base, all) = if is_linux { (0x700, &LINUX) } else { (0x701, &CLASSIC) };
    all.get(usize::from(code.checked_sub(base)?)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_their_dialect_says() {
        assert_eq!(Action::of(0x701, Dialect::Classic), Action::Aggregate(Function::Count));
        assert_eq!(Action::of(0x701, Dialect::Linux), Action::Aggregate(Function::Count));
        assert_eq!(Action::of(0x707, Dialect::Classic), Action::Aggregate(Function::Quantize));
        assert_eq!(Action::of(0x707, Dialect::Linux), Action::Aggregate(Function::Stddev));
        assert_eq!(Action::of(0x700, Dialect::Classic), Action::Unknown(0x700));
        assert_eq!(Action::of(8, Dialect::Linux), Action::Print);
        for dialect in [Dialect::Classic, Dialect::Linux] {
            for function in CLASSIC {
                assert_eq!(
                    Action::of(Action::code_of(function, dialect), dialect),
                    Action::Aggregate(function)
                );
            }
        }
    }
}
