//! The computation of an instruction: its operation, its number of operands and their width.

/// The computation of an instruction on values in registers, and on values that it also loads or stores.
///
/// Plain loads and stores, branches, and instructions that manage the processor's state compute nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The operation.
    pub operation: Operation,
    /// Whether the result is a floating-point number, or, if it is only flags, whether the operands are.
    pub is_float: bool,
    /// Bytes of the result: of the destination, including all elements of a vector, or of the first source if the result is
    /// only flags. 0 if the processor's configuration decides (scalable vectors, tiles).
    pub bytes: u16,
    /// Number of values that it takes, including constants: at least 1.
    pub arity: u8,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Something else: logic, permutations of bits, roots, cryptography.
    Other,
    /// Addition; also of addresses.
    Add,
    /// Subtraction; also comparisons and negation.
    Subtract,
    /// Multiplication, also fused with an addition.
    Multiply,
    /// Division.
    Divide,
    /// Shifts and rotations.
    Shift,
    /// Copies between registers, conversions of width, permutations of elements.
    Move,
}

impl Operation {
    /// The operation as a word, such as `add`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Other => "other",
            Operation::Add => "add",
            Operation::Subtract => "subtract",
            Operation::Multiply => "multiply",
            Operation::Divide => "divide",
            Operation::Shift => "shift",
            Operation::Move => "move",
        }
    }
}

/// Operations by patterns of mnemonics; the first match wins.
pub(crate) type Operations = [(Operation, &'static str)];

/// Returns the operation of the first pattern that matches all of `name`: `*` stands for any characters, `?` for one.
pub(crate) fn named(operations: &Operations, name: &str) -> Option<Operation> {
    let matches = |patterns: &str| patterns.split(' ').any(|pattern| glob(pattern, name));
    operations.iter().find(|(_, patterns)| matches(patterns)).map(|(operation, _)| *operation)
}

/// Whether `pattern` matches all of `name`.
pub(crate) fn glob(pattern: &str, name: &str) -> bool {
    let (mut pattern, mut name) = (pattern.as_bytes(), name.as_bytes());
    // Where to resume if a guess about the last `*` turns out wrong.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => return true,
            (Some((b'*', rest)), _) => {
                retry = Some((rest, name));
                pattern = rest;
            }
            (Some((p, pattern_rest)), Some((n, name_rest))) if p == n || *p == b'?' => {
                (pattern, name) = (pattern_rest, name_rest);
            }
            _ => match retry {
                Some((rest, [_, shorter @ ..])) => {
                    retry = Some((rest, shorter));
                    (pattern, name) = (rest, shorter);
                }
                _ => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        assert!(glob("vf*c?h", "vfmaddcph"));
        assert!(glob("*", ""));
        assert!(glob("mov?p?", "movaps"));
        assert!(!glob("mov?p?", "movap"));
        assert!(!glob("add", "addps"));
        assert!(glob("a*b*c", "aXbYbZc"));
    }
}
