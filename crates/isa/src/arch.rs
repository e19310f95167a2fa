//! Instruction sets, and the assembler syntax in which x86 instructions are printed.
//!
//! An architecture is a property of the trace, never of the host: every decoder works everywhere.

use std::fmt;
use std::str::FromStr;

/// An instruction set that a trace may be recorded on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Arch {
    /// 32-bit x86 (IA-32).
    X86_32,
    /// 64-bit x86.
    X86_64,
    /// 64-bit Arm (A64).
    Aarch64,
    /// 32-bit Arm (A32 and T32). Traces name it; no decoder exists.
    Arm32,
    /// The synthetic instruction set of drmemtrace's public traces: dependencies without semantics.
    Regdeps,
}

/// Every architecture with its published name and its further accepted spellings.
const NAMES: [(Arch, &str, &[&str]); 5] = [
    (Arch::X86_32, "x86-32", &["x86_32", "x86", "i386", "i686", "ia32"]),
    (Arch::X86_64, "x86-64", &["x86_64", "amd64", "x64"]),
    (Arch::Aarch64, "aarch64", &["arm64", "a64"]),
    (Arch::Arm32, "arm32", &["arm", "armv7"]),
    (Arch::Regdeps, "regdeps", &[]),
];

impl Arch {
    /// Every architecture, in declaration order.
    pub const ALL: [Arch; 5] = [Arch::X86_32, Arch::X86_64, Arch::Aarch64, Arch::Arm32, Arch::Regdeps];

    /// The name that [`Display`](fmt::Display) prints and [`FromStr`] accepts, such as `x86-64`.
    pub fn name(self) -> &'static str {
        match self {
            Arch::X86_32 => "x86-32",
            Arch::X86_64 => "x86-64",
            Arch::Aarch64 => "aarch64",
            Arch::Arm32 => "arm32",
            Arch::Regdeps => "regdeps",
        }
    }

    /// Bytes in a pointer, for architectures that have pointers.
    pub fn pointer_bytes(self) -> Option<u8> {
        match self {
            Arch::X86_32 | Arch::Arm32 => Some(4),
            Arch::X86_64 | Arch::Aarch64 => Some(8),
            Arch::Regdeps => None,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error: the text does not name an architecture known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownArch;

impl fmt::Display for UnknownArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown architecture, expected x86-32, x86-64, aarch64, arm32 or regdeps")
    }
}

impl std::error::Error for UnknownArch {}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Arch, UnknownArch> {
        NAMES
            .iter()
            .find(|(_, name, others)| {
                name.eq_ignore_ascii_case(text) || others.iter().any(|o| o.eq_ignore_ascii_case(text))
            })
            .map(|&(arch, ..)| arch)
            .ok_or(UnknownArch)
    }
}

/// Assembler syntax of x86. The other architectures have one syntax and ignore this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// AT&T, as GNU objdump prints it: sources first, `%` before registers.
    #[default]
    Att,
    /// Intel, as `objdump -M intel` prints it: destination first.
    Intel,
}

impl FromStr for Syntax {
    type Err = UnknownSyntax;

    fn from_str(text: &str) -> Result<Syntax, UnknownSyntax> {
        if text.eq_ignore_ascii_case("att") {
            Ok(Syntax::Att)
        } else if text.eq_ignore_ascii_case("intel") {
            Ok(Syntax::Intel)
        } else {
            Err(UnknownSyntax)
        }
    }
}

/// Error: the text does not name an assembler syntax known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSyntax;

impl fmt::Display for UnknownSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown assembler syntax, expected att or intel")
    }
}

impl std::error::Error for UnknownSyntax {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_every_spelling_parses_to_its_architecture() {
        for (arch, name, others) in NAMES {
            assert_eq!(arch.name(), name);
            assert_eq!(name.parse(), Ok(arch));
            for other in others {
                assert_eq!(other.to_uppercase().parse(), Ok(arch));
            }
        }
        assert_eq!("vax".parse::<Arch>(), Err(UnknownArch));
    }
}
