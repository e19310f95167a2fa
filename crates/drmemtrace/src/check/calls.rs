//! Function markers, checked against the call stack of the traced program.

use super::checker::{Checker, on};
use super::flow::Prev;
use super::rules::Rule;
use crate::record::{FileType, Marker, SYSCALL_FUNC_BASE, SYSCALL_FUNC_BASE_32, Type};

/// The call stack and the latest function marker.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls {
    /// Return addresses; 0 for a handler, which returns to no call.
    stack: Vec<u64>,
    /// The function id of the latest marker.
    function: u64,
    /// True if the latest branch was conditional.
    pub(super) last_branch_is_conditional: bool,
}

/// Calls that never return leave their addresses on the stack; at this many, the older half is dropped.
const MAX_CALLS: usize = 1 << 16;
/// The function id of the system call futex.
const FUTEX: u64 = SYSCALL_FUNC_BASE + 202;

impl Calls {
    /// Updates the call stack for an executed branch.
    pub(super) fn branch(&mut self, prev: &Prev, in_kernel: bool) {
        self.last_branch_is_conditional = matches!(prev.kind, 13 | 48 | 49);
        if in_kernel {
            return;
        }
        match Type(prev.kind) {
            Type::INSTR_DIRECT_CALL | Type::INSTR_INDIRECT_CALL => {
                self.push(prev.pc.wrapping_add(u64::from(prev.size)));
            }
            Type::INSTR_RETURN => {
                self.stack.pop();
            }
            _ => {}
        }
    }

    /// Pushes an entry for a signal handler, which the handler's return pops.
    pub(super) fn enter_handler(&mut self) {
        self.push(0);
    }

    fn push(&mut self, address: u64) {
        if self.stack.len() >= MAX_CALLS {
            self.stack.drain(..MAX_CALLS / 2);
        }
        self.stack.push(address);
    }
}

impl Checker {
    /// True if the latest function marker names a system call.
    pub(super) fn in_syscall_function(&self) -> bool {
        let is_narrow = self.policy.filetype.any(FileType::ARCH_X86_32.or(FileType::ARCH_ARM32));
        self.calls.function >= if is_narrow { SYSCALL_FUNC_BASE_32 } else { SYSCALL_FUNC_BASE }
    }

    pub(super) fn function(&mut self, kind: Marker, value: u64) {
        if kind == Marker::FUNC_ID {
            self.calls.function = value;
        } else if !self.follows_function() {
            self.tell(Rule::FunctionAlone, || {
                format!("`{}` follows no marker of a function", kind.name().unwrap_or("unknown"))
            });
        }
        // Filters may drop calls and the branches before them.
        let is_filtered = self.policy.filetype.is_ifiltered();
        if kind == Marker::FUNC_RETADDR
            && !is_filtered
            && let Some(expected) = self.calls.stack.last().copied().filter(|expected| *expected != value)
        {
            self.tell(Rule::FunctionReturn, || {
                format!("the function returns to {value:#x}, the last call to {expected:#x}")
            });
        }
        let is_placed = is_filtered
            || self.in_syscall_function()
            || self.prev.is_branch()
            || self.instrs == 0
            || self.returns_behind_branch();
        if !is_placed {
            let pc = self.prev.pc;
            self.tell(Rule::FunctionBranch, || format!("the instruction at {pc:#x} is no branch"));
        }
        self.attention |= on::FUNCTION;
    }

    fn follows_function(&self) -> bool {
        [Marker::FUNC_ID, Marker::FUNC_RETADDR, Marker::FUNC_ARG, Marker::FUNC_RETVAL]
            .into_iter()
            .any(|kind| self.follows(kind))
    }

    /// Reports markers that a `REGDEPS` trace must not contain, or not with this value.
    pub(super) fn regdeps_marker(&mut self, kind: Marker, value: u64) {
        let which = match kind {
            Marker::SYSCALL_IDX => 0,
            Marker::SYSCALL => 1,
            Marker::SYSCALL_TRACE_START => 2,
            Marker::SYSCALL_TRACE_END => 3,
            Marker::SYSCALL_FAILED => 4,
            Marker::SIGNAL_NUMBER => 5,
            Marker::UNCOMPLETED_INSTRUCTION => 6,
            Marker::CPU_ID if value != u64::MAX => {
                return self.tell(Rule::RegdepsCpu, || format!("processor `{value}` is known"));
            }
            Marker::FUNC_ID if value != FUTEX => {
                return self.tell(Rule::RegdepsFunction, || format!("function `{value}` is traced"));
            }
            _ => return,
        };
        self.tell_as(Rule::RegdepsMarker, which, || {
            format!("marker `{}` is not allowed", kind.name().unwrap_or("unknown"))
        });
    }
}
