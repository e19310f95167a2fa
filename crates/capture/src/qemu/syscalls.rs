//! System calls that matter to a trace: those that may block, return from a signal, or start another program.
//!
//! The numbers are Linux's for each architecture; the list of calls that may block is DynamoRIO's
//! (docs/formats/drmemtrace.md, *System calls*).

use crate::program::Machine;

/// System calls of one architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    blocking: &'static [u32],
    sigreturn: &'static [u32],
    exec: &'static [u32],
    fork: &'static [u32],
    clone: u32,
}

/// Flag of `clone`: start a thread instead of a process.
const CLONE_THREAD: u64 = 0x1_0000;

impl Calls {
    /// The system calls of `machine`.
    pub(crate) fn of(machine: Machine) -> Calls {
        match machine {
            Machine::X86_64 => {
                Calls { blocking: X86_64, sigreturn: &[15], exec: &[59, 322], fork: &[57, 58], clone: 56 }
            }
            Machine::I386 => Calls {
                blocking: I386,
                sigreturn: &[119, 173],
                exec: &[11, 358],
                fork: &[2, 190],
                clone: 120,
            },
            Machine::Aarch64 | Machine::Riscv64 => {
                Calls { blocking: GENERIC, sigreturn: &[139], exec: &[221, 281], fork: &[], clone: 220 }
            }
            Machine::Arm => {
                Calls { blocking: ARM, sigreturn: &[119, 173], exec: &[11, 387], fork: &[2, 190], clone: 120 }
            }
        }
    }

    /// Whether the call starts a process; `flags` is its first argument.
    pub(crate) fn is_fork(&self, number: u32, flags: u64) -> bool {
        self.fork.contains(&number) || (number == self.clone && flags & CLONE_THREAD == 0)
    }

    /// Whether the call may block the thread.
    pub(crate) fn may_block(&self, number: u32) -> bool {
        self.blocking.contains(&number)
    }

    /// Whether the call returns from a signal handler.
    pub(crate) fn is_sigreturn(&self, number: u32) -> bool {
        self.sigreturn.contains(&number)
    }

    /// Whether the call starts another program in the same process.
    pub(crate) fn is_exec(&self, number: u32) -> bool {
        self.exec.contains(&number)
    }
}

const X86_64: &[u32] = &[
    0, 1, 2, 3, 7, 16, 17, 18, 19, 20, 23, 24, 26, 34, 35, 43, 44, 45, 46, 47, 61, 64, 65, 66, 69, 70, 72,
    73, 74, 85, 181, 182, 202, 230, 232, 240, 247, 257, 270, 271, 281, 288, 295, 296, 299, 304, 307, 324,
    327, 328, 437, 441,
];

const GENERIC: &[u32] = &[
    22, 25, 29, 32, 56, 57, 63, 64, 65, 66, 67, 68, 69, 70, 72, 73, 82, 95, 98, 101, 115, 124, 180, 188, 189,
    190, 191, 193, 202, 206, 207, 211, 212, 227, 242, 243, 260, 265, 269, 283, 286, 287, 437, 441,
];

const I386: &[u32] = &[
    3, 4, 5, 6, 7, 8, 29, 54, 55, 82, 102, 114, 117, 118, 142, 143, 144, 145, 146, 158, 162, 168, 180, 181,
    188, 189, 221, 240, 256, 267, 277, 284, 295, 308, 309, 319, 333, 334, 337, 342, 345, 364, 369, 370, 371,
    372, 375, 378, 379, 393, 394, 400, 401, 407, 413, 414, 417, 418, 420, 422, 437, 441,
];

const ARM: &[u32] = &[
    3, 4, 5, 6, 8, 29, 54, 55, 114, 118, 142, 143, 144, 145, 146, 158, 162, 168, 180, 181, 221, 240, 252,
    265, 274, 280, 285, 290, 292, 296, 297, 298, 299, 300, 301, 304, 322, 335, 336, 346, 361, 362, 365, 366,
    371, 374, 389, 392, 393, 407, 413, 414, 417, 418, 420, 422, 437, 441,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_may_block_and_asking_for_the_process_does_not() {
        for (machine, read, getpid) in [
            (Machine::X86_64, 0, 39),
            (Machine::I386, 3, 20),
            (Machine::Aarch64, 63, 172),
            (Machine::Riscv64, 63, 172),
            (Machine::Arm, 3, 20),
        ] {
            let calls = Calls::of(machine);
            assert!(calls.may_block(read) && !calls.may_block(getpid), "{machine:?}");
        }
    }
}
