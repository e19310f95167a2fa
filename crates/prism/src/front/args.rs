//! Arguments of functions, from the addresses that a function accesses: recordings have no values of registers.
//!
//! At the beginning of a function, some registers hold arguments. As long as one is known to hold an argument, perhaps copied
//! from another, an access that names it as its base gives its value: the address less the distance. That needs only
//! instructions that are executed, so it holds on any path through any functions that are called. It cannot give arguments
//! to which nothing is accessed, or those that were kept in memory before.

use quipu_isa::{Arch, Instr, Operation, Work};

/// Instructions after the beginning of a function among which its arguments are looked for.
const PATIENCE: u32 = 128;
/// Number of registers whose copies are followed.
const N_REGS: usize = 32;

/// Registers that hold arguments.
#[derive(Clone, Debug)]
pub(crate) struct Tracking {
    /// The argument in each register.
    regs: [Option<u8>; N_REGS],
    left: u32,
}

/// The argument that an access gives, and the distance of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Based {
    /// Number of the argument, from 0.
    pub(crate) arg: u8,
    /// The distance of the accessed address from the argument's value.
    pub(crate) distance: i64,
}

impl Tracking {
    /// The state at the beginning of a function with two arguments; `None` if the architecture does not pass them in
    /// registers.
    pub(crate) fn begin(arch: Arch) -> Option<Tracking> {
        let passed: [usize; 2] = match arch {
            // rdi and rsi.
            Arch::X86_64 => [7, 6],
            Arch::Aarch64 => [0, 1],
            _ => return None,
        };
        let mut regs = [None; N_REGS];
        for (arg, reg) in (0..).zip(passed) {
            regs[reg] = Some(arg);
        }
        Some(Tracking { regs, left: PATIENCE })
    }

    /// Whether nothing can be learned any more.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 || self.regs.iter().all(Option::is_none)
    }

    /// Passes an instruction that is executed. Returns the argument that its access gives, if it has a single one.
    pub(crate) fn step(&mut self, instr: &Instr, work: Option<&Work>) -> Option<Based> {
        self.left = self.left.saturating_sub(1);
        let held = |reg: quipu_isa::Reg| self.regs.get(usize::from(reg.0)).copied().flatten();
        let based = match instr.mems() {
            [mem] if mem.index.is_none() && mem.segment.is_none() => {
                mem.base.and_then(held).map(|arg| Based { arg, distance: mem.disp })
            }
            _ => None,
        };
        let copied = if is_copy(instr, work) { instr.reads.iter().next().and_then(held) } else { None };
        for reg in instr.writes.iter() {
            if let Some(holds) = self.regs.get_mut(usize::from(reg.0)) {
                *holds = copied;
            }
        }
        based
    }
}

/// Whether an instruction copies one whole register into another.
fn is_copy(instr: &Instr, work: Option<&Work>) -> bool {
    let is_move = work.is_some_and(|work| work.operation == Operation::Move && work.bytes == 8);
    is_move
        && !instr.conditional
        && matches!(instr.opcode.name(), "mov")
        && instr.mems().is_empty()
        && instr.reads.len() == 1
        && instr.writes.len() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use quipu_isa::{Decoder, Syntax};

    fn based(code: &[&[u8]]) -> Vec<Option<(u8, i64)>> {
        let mut decoder = Decoder::new(Arch::X86_64, Syntax::Intel).unwrap();
        let mut tracking = Tracking::begin(Arch::X86_64).unwrap();
        let mut step = |bytes: &&[u8]| {
            let instr = decoder.decode(0x1000, bytes).unwrap();
            let work = decoder.work(&instr, 0x1000, bytes);
            tracking.step(&instr, work.as_ref()).map(|based| (based.arg, based.distance))
        };
        code.iter().map(&mut step).collect()
    }

    #[test]
    fn an_access_gives_the_argument_that_is_its_base() {
        // mov 0x10(%rdi),%eax; mov %rdi,%r8; mov $0,%edi; lock xadd %r9d,(%r8); mov (%rdi),%eax
        let given = based(&[
            &[0x8b, 0x47, 0x10],
            &[0x49, 0x89, 0xf8],
            &[0xbf, 0, 0, 0, 0],
            &[0xf0, 0x45, 0x0f, 0xc1, 0x08],
            &[0x8b, 0x07],
        ]);
        assert_eq!(given, [Some((0, 0x10)), None, None, Some((0, 0)), None]);
    }

    #[test]
    fn the_second_argument_is_followed_through_copies() {
        // mov %rsi,%r12; xor %esi,%esi; mov %r12,%rdi; mov 0x8(%rdi),%eax; mov 0x8(%rdi,%rsi,8),%eax
        let given = based(&[
            &[0x49, 0x89, 0xf4],
            &[0x31, 0xf6],
            &[0x4c, 0x89, 0xe7],
            &[0x8b, 0x47, 0x08],
            &[0x8b, 0x44, 0xf7, 0x08],
        ]);
        assert_eq!(given, [None, None, None, Some((1, 8)), None]);
    }

    #[test]
    fn half_a_copy_is_none() {
        // mov %edi,%eax; mov (%rax),%eax
        assert_eq!(based(&[&[0x89, 0xf8], &[0x8b, 0x00]]), [None, None]);
    }
}
