//! Registers as dependency tags: whole registers under small numbers, and sets of them.
//!
//! Parts of a register (`eax`, `xmm3`, `w5`) count as the whole (`rax`, `zmm3`, `x5`), because dependencies are tracked for
//! whole registers. A number has a meaning only together with an [`Arch`], and both are needed to find the name.

use std::fmt;

use crate::Arch;

/// One whole register of some architecture.
///
/// x86: the sixteen general registers in encoding order (`rax` 0 … `r15` 15), then the classes of this file.
/// AArch64: `x0` … `x30` 0–30, `sp` 31, vector registers 32–63, predicates 64–79.
/// REGDEPS: the stored id, which can only be compared for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub u8);

/// First numbers of the x86 register classes after the general registers. `rip` is in no set of registers read or written,
/// but may be the base of a memory operand.
pub(crate) const X86_RIP: u8 = 16;
pub(crate) const X86_SEG: u8 = 18;
pub(crate) const X86_MM: u8 = 24;
pub(crate) const X86_VEC: u8 = 32;
pub(crate) const X86_ST: u8 = 64;
pub(crate) const X86_K: u8 = 72;
pub(crate) const X86_CR: u8 = 80;
pub(crate) const X86_DR: u8 = 96;
pub(crate) const X86_TR: u8 = 112;
pub(crate) const X86_BND: u8 = 120;
pub(crate) const X86_TMM: u8 = 124;

pub(crate) const A64_LR: u8 = 30;
pub(crate) const A64_SP: u8 = 31;
pub(crate) const A64_VEC: u8 = 32;
pub(crate) const A64_PRED: u8 = 64;

impl Reg {
    /// The register's name on `arch`, ready to print.
    pub fn name(self, arch: Arch) -> RegName {
        RegName { reg: self, arch }
    }

    /// Whether the register is a vector register. An address that contains one names one place per element.
    pub fn is_vector(self, arch: Arch) -> bool {
        match arch {
            Arch::X86_32 | Arch::X86_64 => (X86_VEC..X86_ST).contains(&self.0),
            Arch::Aarch64 => (A64_VEC..A64_PRED).contains(&self.0),
            Arch::Arm32 | Arch::Regdeps => false,
        }
    }
}

/// A register together with its architecture, which displays as the register's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegName {
    reg: Reg,
    arch: Arch,
}

impl fmt::Display for RegName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.reg.0;
        match self.arch {
            Arch::X86_64 => x86_name(f, number, "r"),
            Arch::X86_32 => x86_name(f, number, "e"),
            Arch::Aarch64 => a64_name(f, number),
            Arch::Regdeps => match number.checked_sub(2) {
                Some(tag) => write!(f, "rv{tag}"),
                None => write!(f, "reserved{number}"),
            },
            Arch::Arm32 => write!(f, "r{number}"),
        }
    }
}

fn x86_name(f: &mut fmt::Formatter<'_>, number: u8, width: &str) -> fmt::Result {
    const GENERAL: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    const SEGMENTS: [&str; 6] = ["es", "cs", "ss", "ds", "fs", "gs"];
    match number {
        0..8 => write!(f, "{width}{}", GENERAL[usize::from(number)]),
        8..16 => write!(f, "r{number}"),
        X86_RIP => write!(f, "{width}ip"),
        X86_SEG..X86_MM => f.write_str(SEGMENTS[usize::from(number - X86_SEG)]),
        X86_MM..X86_VEC => write!(f, "mm{}", number - X86_MM),
        X86_VEC..X86_ST => write!(f, "zmm{}", number - X86_VEC),
        X86_ST..X86_K => write!(f, "st{}", number - X86_ST),
        X86_K..X86_CR => write!(f, "k{}", number - X86_K),
        X86_CR..X86_DR => write!(f, "cr{}", number - X86_CR),
        X86_DR..X86_TR => write!(f, "dr{}", number - X86_DR),
        X86_TR..X86_BND => write!(f, "tr{}", number - X86_TR),
        X86_BND..X86_TMM => write!(f, "bnd{}", number - X86_BND),
        X86_TMM..132 => write!(f, "tmm{}", number - X86_TMM),
        _ => write!(f, "reg{number}"),
    }
}

fn a64_name(f: &mut fmt::Formatter<'_>, number: u8) -> fmt::Result {
    match number {
        A64_SP => f.write_str("sp"),
        0..A64_SP => write!(f, "x{number}"),
        A64_VEC..A64_PRED => write!(f, "v{}", number - A64_VEC),
        A64_PRED..80 => write!(f, "p{}", number - A64_PRED),
        _ => write!(f, "reg{number}"),
    }
}

/// A set of registers, iterated in ascending order of their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RegSet([u64; 4]);

impl RegSet {
    /// The empty set.
    pub const EMPTY: RegSet = RegSet([0; 4]);

    /// Adds `reg`.
    pub fn insert(&mut self, reg: Reg) {
        self.0[usize::from(reg.0 >> 6)] |= 1 << (reg.0 & 63);
    }

    /// Whether `reg` is in the set.
    pub fn contains(&self, reg: Reg) -> bool {
        self.0[usize::from(reg.0 >> 6)] >> (reg.0 & 63) & 1 == 1
    }

    /// Number of registers in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no register.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// Whether the two sets share a register, as the sets of two dependent instructions do.
    pub fn intersects(&self, other: &RegSet) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// The registers in ascending order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = Reg> + use<> {
        let words = self.0;
        (0..=u8::MAX).map(Reg).filter(move |reg| RegSet(words).contains(*reg))
    }
}

impl FromIterator<Reg> for RegSet {
    fn from_iter<T: IntoIterator<Item = Reg>>(regs: T) -> RegSet {
        let mut set = RegSet::EMPTY;
        regs.into_iter().for_each(|reg| set.insert(reg));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_back_what_was_put_in_ascending() {
        let set: RegSet = [200, 3, 64, 63, 3].into_iter().map(Reg).collect();
        assert_eq!(set.iter().map(|reg| reg.0).collect::<Vec<_>>(), [3, 63, 64, 200]);
        assert_eq!(set.len(), 4);
        assert!(set.intersects(&[Reg(64)].into_iter().collect()));
        assert!(!set.intersects(&[Reg(65)].into_iter().collect()));
    }

    #[test]
    fn one_number_has_a_name_on_each_architecture() {
        let name = |arch, number| Reg(number).name(arch).to_string();
        assert_eq!(name(Arch::X86_64, 5), "rbp");
        assert_eq!(name(Arch::X86_32, 5), "ebp");
        assert_eq!(name(Arch::X86_64, X86_VEC + 17), "zmm17");
        assert_eq!(name(Arch::Aarch64, A64_SP), "sp");
        assert_eq!(name(Arch::Regdeps, 9), "rv7");
    }
}
