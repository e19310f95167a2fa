//! The name of an operation, small enough to copy and to use as a key.

use std::fmt;
use std::hash::{Hash, Hasher};

/// Bytes reserved for a mnemonic. `vaeskeygenassist` has 16 letters, and the longest known have 19.
const CAPACITY: usize = 23;

/// The operation that an instruction performs, identified by its lower-case mnemonic.
///
/// On x86 the name is Intel's mnemonic, whatever the [`Syntax`](crate::Syntax); on AArch64 it is the architectural name and
/// not the alias (`subs`, not `cmp`). REGDEPS has no operations: every instruction is `undecoded`. Opcodes are ordered by
/// name, so the order is the same for every program and version.
#[derive(Clone, Copy)]
pub struct Opcode {
    len: u8,
    name: [u8; CAPACITY],
}

impl Opcode {
    /// The mnemonic, in lower case.
    pub fn name(&self) -> &str {
        let bytes = self.name.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Makes an opcode of the first word of `text`, in lower case. Names are ASCII: longer ones are truncated, and other
    /// characters are left out.
    pub(crate) fn new(text: impl fmt::Display) -> Opcode {
        let mut word = FirstWord { opcode: Opcode { len: 0, name: [0; CAPACITY] }, ended: false };
        // Writing into the fixed buffer never fails: it truncates.
        let _ = fmt::write(&mut word, format_args!("{text}"));
        word.opcode
    }
}

/// An opcode under construction.
struct FirstWord {
    opcode: Opcode,
    ended: bool,
}

impl fmt::Write for FirstWord {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes().filter(u8::is_ascii) {
            self.ended |= byte == b' ';
            if self.ended {
                break;
            }
            if let Some(slot) = self.opcode.name.get_mut(usize::from(self.opcode.len)) {
                *slot = byte.to_ascii_lowercase();
                self.opcode.len += 1;
            }
        }
        Ok(())
    }
}

impl PartialEq for Opcode {
    fn eq(&self, other: &Opcode) -> bool {
        self.name == other.name
    }
}

impl Eq for Opcode {}

impl PartialOrd for Opcode {
    fn partial_cmp(&self, other: &Opcode) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Opcode {
    fn cmp(&self, other: &Opcode) -> std::cmp::Ordering {
        self.name.cmp(&other.name)
    }
}

impl Hash for Opcode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({})", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_words_cut_at_the_capacity() {
        assert_eq!(Opcode::new("VPAddD").name(), "vpaddd");
        assert_eq!(Opcode::new("dmb ish").name(), "dmb");
        assert_eq!(Opcode::new("x".repeat(40)).name().len(), CAPACITY);
    }

    #[test]
    fn opcodes_order_by_name() {
        assert!(Opcode::new("add") < Opcode::new("addps"));
        assert!(Opcode::new("addps") < Opcode::new("mov"));
    }
}
