//! The meaning of the parts of records, from their action numbers in each dialect.

use crate::describe::Dialect;

/// The contents of one part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// A value of `trace()`, or of `print()` if it has a type.
    Trace,
    /// The status of `exit()`.
    Exit,
    /// An argument of `printf()`.
    Printf,
    /// The variable of an aggregation that `printa()` prints.
    Printa,
    /// An argument of an action that the consumer performs: `clear()`, `trunc()`, `setopt()`, …
    Library,
    /// Bytes of `tracemem()`.
    Tracemem,
    /// The number of bytes of the next `tracemem()` to print.
    TracememSize,
    /// A length, then bytes (FreeBSD).
    Printm,
    /// The address passed to `print()` (Linux); its data follows.
    Print,
    /// A stack of user addresses.
    Ustack,
    /// A stack of user addresses with names of frames.
    Jstack,
    /// A user address, printed as its symbol.
    Usym,
    /// A user address, printed as its module.
    Umod,
    /// A user address.
    Uaddr,
    /// An argument of a command, which Quipu never runs.
    System,
    /// An argument of a file name, which Quipu never opens.
    Freopen,
    /// A stack of kernel addresses.
    Stack,
    /// A kernel address, printed as its symbol.
    Sym,
    /// A kernel address, printed as its module.
    Mod,
    /// A speculation to which the following records belong.
    Speculate,
    /// A speculation whose records are committed.
    Commit,
    /// A speculation whose records are discarded.
    Discard,
    /// The value of an aggregation.
    Aggregate(Function),
    /// `stop()`, `raise()`, `breakpoint()`, `panic()`, `chill()`, packets: prints nothing.
    Silent,
    /// An action number that the dialect does not have.
    Unknown(u16),
}

/// An aggregating function.
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
    /// The name in scripts.
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

    /// Whether its value is printed as a histogram.
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

/// The aggregating functions, by their numbers from 0x700 in the Linux dialect: in alphabetical order.
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
    /// The action with this number in a dialect.
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

    /// The action number of an aggregating function in a dialect.
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
