//! Checks of interruptions, of returns from them, and of restartable sequences.

use super::checker::{Checker, on};
use super::flow::{Arrival, Prev};
use super::rules::Rule;
use crate::record::{Marker, Type};

/// An interruption.
#[derive(Clone, Copy, Debug)]
struct Context {
    /// The interrupted address; 0 if unknown.
    pc: u64,
    /// The instruction before it, in the same context.
    before: Prev,
    is_hardware: bool,
}

impl Context {
    const UNKNOWN: Context = Context { pc: 0, before: Prev::NONE, is_hardware: false };
}

/// State of interruptions and restartable sequences.
#[derive(Clone, Debug)]
pub(super) struct Signals {
    open: Vec<Context>,
    /// The interruption that was returned from last.
    closed: Context,
    /// The last instruction of this context, if another context's came after it.
    before: Option<Prev>,
    /// Marker of the interruption or return since the last instruction.
    transfer: Option<Marker>,
    /// Record at which the interruption after a sequence's abort was read.
    aborted_at: Option<u64>,
    /// Start (0 before its first instruction) and end of the restartable sequence.
    rseq_start: u64,
    rseq_end: u64,
    /// Instruction count at the last instruction that allowed interrupts.
    sti: Option<u64>,
}

impl Default for Signals {
    fn default() -> Signals {
        Signals {
            open: Vec::new(),
            closed: Context::UNKNOWN,
            before: None,
            transfer: None,
            aborted_at: None,
            rseq_start: 0,
            rseq_end: 0,
            sti: None,
        }
    }
}

/// Handlers that are left by jumps leave contexts open; beyond this number, the oldest are dropped.
const MAX_OPEN: usize = 1024;

impl Signals {
    /// Number of open interruptions.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Handles an executed instruction, which becomes the last one of its context.
    pub(super) fn arrive(&mut self) {
        (self.before, self.transfer) = (None, None);
    }

    /// Makes the last instruction of all the last one of the context again.
    pub(super) fn go_back(&mut self) {
        self.before = None;
    }

    /// Begins a context without any instruction.
    pub(super) fn begin_context(&mut self) {
        self.before = Some(Prev::NONE);
    }

    /// True if this marker was the last transfer since the last instruction.
    pub(super) fn is_after(&self, kind: Marker) -> bool {
        self.transfer == Some(kind)
    }

    /// True if an interruption or a return came since the last instruction.
    pub(super) fn is_transferred(&self) -> bool {
        self.transfer.is_some()
    }

    /// True if `pc` was interrupted before, after the same instruction.
    pub(super) fn is_interrupted_again(&self, pc: u64, before: u64) -> bool {
        self.closed.pc == pc && self.closed.before.pc == before
    }

    /// Interrupts are allowed from here on.
    pub(super) fn allow_interrupts(&mut self, instrs: u64) {
        self.sti = Some(instrs);
    }

    /// True for the first two instructions after one that allows interrupts.
    pub(super) fn is_after_sti(&self, instrs: u64) -> bool {
        self.sti.is_some_and(|sti| (1..=2).contains(&instrs.saturating_sub(sti)))
    }
}

impl Checker {
    /// The last instruction of the current context.
    pub(super) fn before(&self) -> Prev {
        self.signals.before.unwrap_or(self.prev)
    }

    /// True if the instruction before the interruption that was returned from last is a branch, or unknown.
    pub(super) fn returns_behind_branch(&self) -> bool {
        self.signals.is_after(Marker::KERNEL_XFER)
            && (self.signals.closed.before.is_none() || self.before().is_branch())
    }

    /// Handles an interruption: control goes to a handler.
    pub(super) fn interruption(&mut self, kind: Marker, pc: u64) {
        let is_hardware = kind == Marker::HARDWARE_EVENT;
        if is_hardware {
            self.hardware_event();
        }
        let is_abort = self.follows(Marker::RSEQ_ABORT);
        if !self.in_kernel && !is_abort {
            self.calls.enter_handler();
        }
        if pc == 0 {
            self.tell(Rule::EventValue, || "the interrupted address is missing".to_owned());
        }
        if is_abort && !is_hardware {
            self.signals.aborted_at = Some(self.records);
        } else {
            let before = self.before();
            if before.is_instr() && self.signals.aborted_at != Some(self.records - 1) {
                if let Some(fault) = self.fault(&before, Arrival { pc, instr: None }) {
                    self.tell_event_fault(fault, &before, pc, is_hardware);
                }
            } else if self.kernel.end_target != 0 && !before.is_instr() {
                let target = std::mem::take(&mut self.kernel.end_target);
                if target != pc {
                    self.tell_as(Rule::KernelEndTarget, 3, || {
                        format!("kernel code ends with a branch to {target:#x}, {pc:#x} is interrupted")
                    });
                }
            }
            if self.signals.open.len() >= MAX_OPEN {
                self.signals.open.remove(0);
            }
            self.signals.open.push(Context { pc, before, is_hardware });
            self.signals.begin_context();
        }
        self.signals.transfer = Some(kind);
        self.attention |= on::TRANSFER;
    }

    /// Handles the return from a handler.
    pub(super) fn resumption(&mut self, kind: Marker, value: u64) {
        let is_hardware = kind == Marker::HARDWARE_CONTEXT_RETURN;
        if is_hardware {
            self.hardware_return();
        } else if value == 0 {
            self.tell(Rule::EventValue, || "the address after the return is missing".to_owned());
        }
        self.judge_extra_return(is_hardware);
        match self.signals.open.pop() {
            // The trace began inside the handler.
            None => {
                self.signals.closed = Context::UNKNOWN;
                self.signals.begin_context();
            }
            Some(context) => {
                self.signals.closed = context;
                if context.is_hardware != is_hardware {
                    self.tell(Rule::ReturnMismatch, || {
                        let name = |hardware| if hardware { "an interrupt" } else { "a signal" };
                        format!("a return from {} closes {}", name(is_hardware), name(context.is_hardware))
                    });
                }
                self.signals.before = Some(context.before);
            }
        }
        self.signals.transfer = Some(kind);
        self.attention |= on::TRANSFER;
    }

    /// Checks that execution continues where it was interrupted, after a handler.
    pub(super) fn judge_return(&mut self, kind: u16, pc: u64) {
        let Some(transfer) = self.signals.transfer else { return };
        let is_hardware = transfer == Marker::HARDWARE_CONTEXT_RETURN;
        if !is_hardware && transfer != Marker::KERNEL_XFER {
            return;
        }
        let closed = self.signals.closed;
        let is_fine = closed.pc == 0
            || closed.pc == pc
            || closed.before.kind == Type::INSTR_SYSENTER.0
            || kind == Type::INSTR_DIRECT_JUMP.0
            || self.policy.filetype.is_ifiltered();
        if is_fine {
            return;
        }
        let message = || format!("{pc:#x} is executed, {:#x} was interrupted", closed.pc);
        if is_hardware {
            let which = usize::from(self.follows(Marker::SYSCALL_TRACE_END));
            self.tell_as(Rule::InterruptReturn, which, message);
        } else {
            self.tell(Rule::SignalReturn, message);
        }
    }

    pub(super) fn signal_number(&mut self) {
        if !self.follows(Marker::KERNEL_EVENT) {
            self.tell(Rule::SignalNumber, || {
                "no interruption stands right before the signal's number".to_owned()
            });
        }
    }

    /// Allows a clock reading and a processor between an abort's interruption and the signal that caused it.
    pub(super) fn stay_after_abort(&mut self) {
        if self.signals.aborted_at == Some(self.records - 1) {
            self.signals.aborted_at = Some(self.records);
        }
    }

    /// Checks the markers of restartable sequences.
    pub(super) fn rseq_marker(&mut self, kind: Marker, value: u64) {
        if self.follows(Marker::RSEQ_ABORT) && kind != Marker::KERNEL_EVENT {
            self.tell(Rule::RseqMarker, || "no interruption follows the abort".to_owned());
        }
        match kind {
            Marker::RSEQ_ENTRY => {
                (self.signals.rseq_start, self.signals.rseq_end) = (0, value);
                self.attention |= on::RSEQ;
            }
            Marker::KERNEL_EVENT if self.attention & on::RSEQ != 0 && !self.prev.is_branch() => {
                self.tell(Rule::RseqSignal, || "a signal interrupts a restartable sequence".to_owned());
            }
            Marker::RSEQ_ABORT => {
                let (prev, end) = (self.prev, self.signals.rseq_end);
                let is_at_end = prev.pc.wrapping_add(u64::from(prev.size)) == end;
                if end != 0 && is_at_end && prev.pc != value {
                    self.tell(Rule::RseqCommit, || {
                        format!("the last instruction of the sequence, at {:#x}, was executed", prev.pc)
                    });
                }
                self.attention &= !on::RSEQ;
            }
            _ => {}
        }
    }

    /// Handles an instruction in, or right after, a restartable sequence.
    pub(super) fn rseq_instr(&mut self, pc: u64, size: u16) {
        let signals = &mut self.signals;
        if signals.rseq_start == 0 {
            signals.rseq_start = pc;
        }
        let (start, end) = (signals.rseq_start, signals.rseq_end);
        if pc.wrapping_add(u64::from(size)) == end {
            self.attention &= !on::RSEQ;
        } else if !(start..end).contains(&pc) {
            self.attention &= !on::RSEQ;
            if !self.prev.is_branch() {
                self.tell(Rule::RseqExit, || format!("the sequence is left for {pc:#x} without a branch"));
            }
        }
    }
}
