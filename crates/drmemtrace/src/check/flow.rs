//! The flow of control: which instructions may follow another.

use super::checker::{Checker, on};
use super::facts::{Facts, flag};
use super::rules::Rule;
use crate::record::{FileType, Marker, Type, VERSION_BRANCH_INFO};

/// The preceding instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prev {
    pub(super) pc: u64,
    /// Target of a branch: recorded if it is indirect, otherwise decoded, if [`flag::TARGET`] is set.
    pub(super) target: u64,
    pub(super) size: u16,
    pub(super) kind: u16,
    /// Bits of [`flag`].
    pub(super) flags: u16,
    /// True for kernel code.
    pub(super) kernel: bool,
}

impl Prev {
    /// No instruction.
    pub(super) const NONE: Prev = Prev { pc: 0, target: 0, size: 0, kind: u16::MAX, flags: 0, kernel: false };

    pub(super) fn is_none(&self) -> bool {
        self.kind == u16::MAX
    }

    /// True if it is a fetched instruction.
    pub(super) fn is_instr(&self) -> bool {
        Type(self.kind).is_instr()
    }

    pub(super) fn is_branch(&self) -> bool {
        matches!(self.kind, 11..=16 | 48 | 49)
    }

    pub(super) fn is_indirect(&self) -> bool {
        Type(self.kind).is_indirect_branch()
    }

    /// The recorded target of an indirect branch, else 0.
    pub(super) fn indirect_target(&self) -> u64 {
        if self.is_indirect() { self.target } else { 0 }
    }

    fn end(&self) -> u64 {
        self.pc.wrapping_add(u64::from(self.size))
    }
}

/// A place that control flow arrives at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) pc: u64,
    /// Type and flags of the instruction there; `None` for an interruption.
    pub(super) instr: Option<(u16, u16)>,
}

/// Kinds of errors in control flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Discontinuity,
    Target,
    Duplicate,
    SideExit,
    KernelEnd,
}

impl Checker {
    /// Takes a target whose indirect branch follows.
    pub(super) fn branch_target(&mut self, value: u64) {
        self.target = value;
        self.attention |= on::TARGET;
        self.attend_hidden();
    }

    /// Checks that a hidden entry or an encoding may stand here.
    fn attend_hidden(&mut self) {
        if self.attention & (on::FOOTER | on::SEAM | on::PROCESSOR) != 0 {
            self.attend_frame(None);
        }
    }

    /// As [`Checker::attend_hidden`], for an encoding.
    pub(super) fn see_encoding(&mut self) {
        self.attend_hidden();
        if !self.policy.filetype.any(FileType::ENCODINGS) && !self.headers.is_lost {
            self.tell(Rule::EncodingBit, || "the file type has no bit 0x200".to_owned());
        }
    }

    /// Handles an instruction while bits of `attention` are set. Returns the recorded target of an indirect branch.
    #[cold]
    pub(super) fn attend_instr(&mut self, kind: u16, size: u16, pc: u64, facts: &Facts, misses: bool) -> u64 {
        let attention = self.attention;
        self.attend_record();
        if attention & on::FIRST != 0 {
            self.first_instr();
        }
        if self.attention & on::EXITED != 0 {
            self.after_exit();
        }
        if attention & on::RSEQ != 0 {
            self.rseq_instr(pc, size);
        }
        if attention & on::KERNEL != 0 {
            self.settle_kernel();
        }
        if attention & on::SYSCALL != 0 {
            self.attention &= !on::SYSCALL;
            self.tell(Rule::SyscallMarkerMissing, || "no number follows the system call before".to_owned());
        }
        if attention & on::CLOCK != 0 && self.prev.is_branch() {
            self.separated();
        }
        if misses || self.kernel.end_target != 0 {
            let arrival = Arrival { pc, instr: Some((kind, facts.flags)) };
            let prev = self.prev;
            if let Some(fault) = self.fault(&prev, arrival) {
                self.tell_fault(fault, &prev, pc);
            }
        }
        if attention & on::TRANSFER != 0 {
            self.judge_return(kind, pc);
        }
        self.attention &= !(on::CLOCK | on::WINDOW | on::TRANSFER | on::FUNCTION);
        self.signals.arrive();
        if attention & on::TARGET == 0 {
            return 0;
        }
        self.attention &= !on::TARGET;
        let target = std::mem::take(&mut self.target);
        if !Type(kind).is_indirect_branch() {
            if self.policy.version >= VERSION_BRANCH_INFO {
                self.tell(Rule::TargetStray, || {
                    format!("a target of {target:#x} stands before no indirect branch")
                });
            }
            return 0;
        }
        target
    }

    fn separated(&mut self) {
        let prev = &self.prev;
        let is_excused = self.signals.is_after(Marker::KERNEL_EVENT)
            || (self.policy.core && prev.kernel && !self.in_kernel)
            || (self.policy.template && self.kernel.end_target == 0)
            || self.policy.filetype.is_ifiltered();
        if !is_excused {
            let pc = prev.pc;
            self.tell(Rule::BranchSeparated, || format!("a clock reading follows the branch at {pc:#x}"));
        }
    }

    /// Makes a branch, or another instruction that is not plain, the preceding one.
    pub(super) fn branch(&mut self, facts: &Facts, target: u64) {
        let (kind, next) = (Type(self.prev.kind), self.prev.end());
        let mut expected = Some(next);
        match kind {
            Type::INSTR_CONDITIONAL_JUMP => {
                if self.policy.version >= VERSION_BRANCH_INFO && !self.policy.filetype.is_ifiltered() {
                    self.tell(Rule::ConditionalJump, || {
                        "the outcome of a conditional jump is not told".to_owned()
                    });
                }
                self.prev.target = facts.target().unwrap_or(0);
                if facts.target().is_none() {
                    expected = None;
                }
            }
            Type::INSTR_TAKEN_JUMP | Type::INSTR_DIRECT_JUMP | Type::INSTR_DIRECT_CALL => {
                expected = facts.target();
                self.prev.target = expected.unwrap_or(0);
            }
            Type::INSTR_INDIRECT_JUMP | Type::INSTR_INDIRECT_CALL | Type::INSTR_RETURN => {
                expected = self.indirect(target);
            }
            Type::INSTR_SYSENTER => expected = None,
            Type::INSTR_MAYBE_FETCH => {
                self.tell(Rule::OnlineType, || "an instruction that may be a further iteration".to_owned());
            }
            _ => {}
        }
        if self.prev.is_branch() {
            self.calls.branch(&self.prev, self.in_kernel);
            if self.policy.regdeps {
                expected = None;
            }
        }
        self.next_pc = expected.unwrap_or(0);
        self.next_mask = if expected.is_some() { self.policy.flow_mask } else { 0 };
    }

    /// The target of an indirect branch, if it is recorded.
    fn indirect(&mut self, target: u64) -> Option<u64> {
        if self.policy.version < VERSION_BRANCH_INFO {
            return None;
        }
        self.prev.flags |= flag::TARGET;
        if target == 0 && !self.policy.filetype.is_ifiltered() {
            if self.kernel.syscall {
                self.kernel.is_exit_due = true;
                self.attention |= on::KERNEL;
            } else {
                let pc = self.prev.pc;
                self.tell(Rule::TargetMissing, || format!("the indirect branch at {pc:#x} has no target"));
            }
        }
        Some(target)
    }

    /// Restores the program's own instruction as the preceding one after the end of kernel code.
    pub(super) fn go_back_to(&mut self, prev: Prev) {
        self.prev = prev;
        let expected = match Type(prev.kind) {
            _ if prev.is_none() => None,
            Type::INSTR_SYSENTER => None,
            // `fault` decides where a branch may go.
            _ if prev.is_branch() => None,
            _ => Some(prev.end()),
        };
        self.next_pc = expected.unwrap_or(0);
        self.next_mask = if expected.is_some() { self.policy.flow_mask } else { 0 };
    }

    /// Returns the error in the flow from `from` to `arrival`, if there is one.
    pub(super) fn fault(&mut self, from: &Prev, arrival: Arrival) -> Option<Fault> {
        let Arrival { pc, instr } = arrival;
        let mut fault = None;
        let end_target = std::mem::take(&mut self.kernel.end_target);
        if end_target != 0 && end_target != pc && from.kind != Type::INSTR_SYSENTER.0 {
            fault = Some(Fault::KernelEnd);
        }
        if from.is_none() {
            return fault;
        }
        let is_direct = from.is_branch() && !from.is_indirect();
        // The encoding may have been given on another core.
        let is_promised = self.policy.codes && !self.policy.regdeps && !self.about.is_cut;
        if is_direct && is_promised && from.flags & flag::VALID == 0 {
            let at = from.pc;
            self.tell(Rule::BranchUndecodable, || format!("the branch at {at:#x} cannot be decoded"));
        }
        if self.is_accepted(from, arrival) {
            return fault;
        }
        if from.is_branch() {
            let known = match Type(from.kind) {
                Type::INSTR_UNTAKEN_JUMP if self.policy.version >= VERSION_BRANCH_INFO => Some(from.end()),
                _ => (from.flags & flag::TARGET != 0).then_some(from.target),
            };
            let is_wrong = known.is_some_and(|known| known != pc) && !self.policy.regdeps;
            return if is_wrong { Some(Fault::Target) } else { fault };
        }
        let is_syscall = |flags: u16| flags & flag::SYSCALL != 0;
        if pc == from.pc && is_syscall(from.flags) && instr.is_some_and(|(_, flags)| is_syscall(flags)) {
            Some(Fault::Duplicate)
        } else if from.flags & flag::WRITES != 0 && self.calls.last_branch_is_conditional {
            Some(Fault::SideExit)
        } else {
            Some(Fault::Discontinuity)
        }
    }

    /// True if an instruction may be followed by `arrival` for a reason other than being a taken branch.
    fn is_accepted(&self, from: &Prev, Arrival { pc, instr }: Arrival) -> bool {
        let kind = Type(from.kind);
        let falls_through =
            !from.is_branch() || matches!(kind, Type::INSTR_CONDITIONAL_JUMP | Type::INSTR_UNTAKEN_JUMP);
        let at_event = instr.is_none();
        let is_again =
            from.pc == pc && (at_event || instr.is_some_and(|(kind, _)| kind == Type::INSTR_NO_FETCH.0));
        let is_kernel_start = (self.kernel.syscall && self.follows(Marker::SYSCALL_TRACE_START))
            || (self.kernel.switch && self.follows(Marker::CONTEXT_SWITCH_START));
        let is_interrupted = self.kernel.syscall
            && (self.prev.flags & flag::HLT != 0 || self.signals.is_after_sti(self.instrs));
        self.policy.filetype.is_ifiltered()
            || (falls_through && from.end() == pc)
            || is_kernel_start
            || is_again
            || (!at_event && self.signals.is_transferred())
            || (at_event && self.signals.is_interrupted_again(pc, from.pc))
            || self.attention & on::WINDOW != 0
            || kind == Type::INSTR_SYSENTER
            || is_interrupted
    }

    fn tell_fault(&mut self, fault: Fault, from: &Prev, pc: u64) {
        let rule = match fault {
            Fault::Discontinuity => Rule::PcDiscontinuity,
            Fault::Target => Rule::BranchTarget,
            Fault::Duplicate => Rule::DuplicateSyscall,
            Fault::SideExit => Rule::RseqSideExit,
            Fault::KernelEnd => Rule::KernelEndTarget,
        };
        let (at, target) = (from.pc, from.target);
        self.tell(rule, || match fault {
            Fault::Target => format!("the branch at {at:#x} goes to {target:#x}, {pc:#x} follows"),
            Fault::KernelEnd => format!("kernel code ends with a branch elsewhere, {pc:#x} follows"),
            _ => format!("{pc:#x} follows {at:#x} without a branch or a marker"),
        });
    }

    /// Reports an error of flow at an interruption.
    pub(super) fn tell_event_fault(&mut self, fault: Fault, from: &Prev, pc: u64, is_hardware: bool) {
        let (rule, which) = match fault {
            Fault::Discontinuity | Fault::Duplicate => (Rule::EventPcDiscontinuity, 0),
            Fault::Target => (Rule::EventBranchTarget, 0),
            Fault::SideExit => (Rule::EventRseqSideExit, 0),
            Fault::KernelEnd => (Rule::KernelEndTarget, 1),
        };
        let at = from.pc;
        self.tell_as(rule, which + usize::from(is_hardware), || {
            format!("{pc:#x} is interrupted, which does not follow {at:#x}")
        });
    }
}
