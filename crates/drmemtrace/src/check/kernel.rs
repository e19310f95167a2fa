//! Checks of system calls, and of the kernel code of system calls, context switches and interrupts.

use super::checker::{Checker, on};
use super::facts::{Facts, flag};
use super::flow::Prev;
use super::log::Violation;
use super::rules::Rule;
use crate::record::{FileType, IDLE_THREAD, Marker, VERSION_FREQUENT_TIMESTAMPS};

/// The open kernel code, and the expectations about it.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) syscall: bool,
    pub(super) switch: bool,
    /// Nesting depth of interrupts.
    depth: u32,
    /// Number of the latest system call.
    last_syscall: Option<u64>,
    /// True if only markers that describe the call came since its own marker; then the same before the record being checked.
    follows_syscall: bool,
    followed_syscall: bool,
    /// True if kernel code of the call must follow.
    is_trace_due: bool,
    /// True if kernel code came since the program's last instruction.
    has_trace: bool,
    /// The program's instruction before the kernel code of a call.
    before_syscall: Prev,
    /// True if the preceding instruction is unknown, because it belongs to another thread or could not be read.
    is_resumed: bool,
    /// Number of interruptions that were open when the kernel code began.
    syscall_events: Option<usize>,
    switch_events: Option<usize>,
    /// Target of the last branch of kernel code; 0 once it is settled.
    pub(super) end_target: u64,
    /// True if only the thread's exit may follow.
    pub(super) is_exit_due: bool,
    has_switch: [bool; 3],
    has_syscalls: bool,
    has_default: bool,
    /// True if there was kernel code of a switch.
    has_any_switch: bool,
    /// Number of turns of the core without kernel code, as long as no switch had any; `bare_turns` has the first of them.
    n_bare_turns: u64,
    /// Violation of the latest turn, until the next instruction.
    turn: Option<Violation>,
    bare_turns: Vec<Violation>,
}

/// Maximum number of such turns that are described.
const MAX_BARE_TURNS: usize = 64;

impl Default for Kernel {
    fn default() -> Kernel {
        Kernel {
            syscall: false,
            switch: false,
            depth: 0,
            last_syscall: None,
            follows_syscall: false,
            followed_syscall: false,
            is_trace_due: false,
            has_trace: false,
            before_syscall: Prev::NONE,
            is_resumed: false,
            syscall_events: None,
            switch_events: None,
            end_target: 0,
            is_exit_due: false,
            has_switch: [false; 3],
            has_syscalls: false,
            has_default: false,
            has_any_switch: false,
            n_bare_turns: 0,
            turn: None,
            bare_turns: Vec::new(),
        }
    }
}

impl Kernel {
    /// Drops the state that the following records do not depend on.
    pub(super) fn forget(&mut self) {
        self.last_syscall = None;
        self.follows_syscall = false;
        self.is_trace_due = false;
        self.has_trace = false;
        self.end_target = 0;
        self.is_resumed = true;
    }

    /// Drops all state after a gap, including kernel code that was open before it.
    pub(super) fn lose(&mut self) {
        *self = Kernel { is_resumed: true, ..Kernel::default() };
    }
}

/// Deeper nesting of interrupts is reported.
const MAX_DEPTH: u32 = 30;
/// Number of the template for all other system calls.
const DEFAULT_SYSCALL: u64 = 0x0fff_ffff;

impl Checker {
    /// Handles an instruction with a special meaning.
    #[cold]
    pub(super) fn special(&mut self, facts: &Facts) {
        if facts.flags & flag::SYSCALL != 0 && self.policy.filetype.any(FileType::SYSCALL_NUMBERS) {
            self.attention |= on::SYSCALL;
        }
        if facts.flags & flag::STI != 0 {
            self.signals.allow_interrupts(self.instrs);
        }
    }

    /// Checks the markers between a system call's number and its kernel code.
    pub(super) fn syscall_interval(&mut self, kind: Marker) {
        self.kernel.followed_syscall = self.kernel.follows_syscall;
        match kind {
            Marker::SYSCALL_UNSCHEDULE
            | Marker::SYSCALL_SCHEDULE
            | Marker::SYSCALL_ARG_TIMEOUT
            | Marker::DIRECT_THREAD_SWITCH
            | Marker::MAYBE_BLOCKING_SYSCALL
            | Marker::FUNC_ARG => {
                // A function may be entered right after the return from a signal.
                let is_function = kind == Marker::FUNC_ARG && !self.in_syscall_function();
                if self.kernel.has_trace && !is_function && !self.policy.filetype.is_ifiltered() {
                    self.tell(Rule::AfterSyscallTrace, || {
                        format!("`{}` follows the kernel code", kind.name().unwrap_or("unknown"))
                    });
                }
            }
            // It comes before the call's arguments and before its result.
            Marker::FUNC_ID => {}
            _ => self.kernel.follows_syscall = false,
        }
    }

    pub(super) fn syscall(&mut self, number: u64) {
        self.headers.own.n_syscalls += 1;
        self.kernel.follows_syscall = true;
        self.kernel.last_syscall = Some(number);
        if self.policy.filetype.any(FileType::KERNEL_SYSCALLS) {
            self.kernel.is_trace_due = true;
            self.attention |= on::KERNEL;
        }
        let flags = self.prev.flags;
        if flags & (flag::VALID | flag::SYSCALL) == flag::VALID && self.knows_prev() {
            let pc = self.prev.pc;
            self.tell(Rule::SyscallMarkerMisplaced, || {
                format!("the instruction at {pc:#x} is no system call")
            });
        }
        self.attention &= !on::SYSCALL;
        if self.policy.version >= VERSION_FREQUENT_TIMESTAMPS && !self.follows_clock() {
            self.tell(Rule::SyscallClockMissing, || {
                format!("no clock and processor stand before system call `{number}`")
            });
        }
    }

    pub(super) fn blocking(&mut self) {
        self.headers.own.has_blocking = true;
        if !self.follows(Marker::SYSCALL) && !self.policy.regdeps {
            self.tell(Rule::BlockingMisplaced, || "no system call's number stands before".to_owned());
        }
    }

    pub(super) fn syscall_trace_start(&mut self, number: u64) {
        let filetype = self.policy.filetype;
        if !filetype.has_kernel() {
            self.tell(Rule::KernelBit, || format!("file type {:#x} has no bit for kernel code", filetype.0));
        }
        if self.kernel.syscall {
            self.tell(Rule::SyscallTraceNested, || "kernel code begins inside kernel code".to_owned());
        }
        if self.kernel.has_trace && !filetype.is_ifiltered() && !self.policy.template {
            self.tell(Rule::SyscallTraceTwice, || "the system call has kernel code before".to_owned());
        }
        self.kernel.end_target = 0;
        if !self.policy.template && !filetype.any(FileType::KERNEL_SYSCALL_INSTR_ONLY) {
            self.judge_syscall_trace_start(number);
        }
        self.kernel.before_syscall = self.prev;
        self.kernel.syscall = true;
        self.kernel.syscall_events = Some(self.signals.depth());
        self.kernel.has_syscalls = true;
        self.kernel.has_default |= number == DEFAULT_SYSCALL;
        self.set_in_kernel();
    }

    fn judge_syscall_trace_start(&mut self, number: u64) {
        if !self.kernel.followed_syscall {
            self.tell(Rule::SyscallTraceAlone, || "no system call's number stands right before".to_owned());
        }
        self.judge_number(number, 0);
        // Between a system call and its kernel code, other threads may have had their turn on the core.
        let is_resumed = self.prev.is_none() && self.kernel.is_resumed;
        // In a part of a trace, the encoding may be in the section that was cut off.
        let is_uncoded = self.about.is_cut && self.prev.flags & flag::VALID == 0;
        let is_unknown = is_resumed || is_uncoded;
        if self.policy.codes && !is_unknown && self.prev.flags & flag::SYSCALL == 0 && self.knows_prev() {
            let pc = self.prev.pc;
            self.tell(Rule::SyscallTraceInstr, || format!("the instruction at {pc:#x} is no system call"));
        }
    }

    /// True if the preceding record shows what was executed: filters leave instructions out, and `REGDEPS` encodings have no
    /// operation.
    fn knows_prev(&self) -> bool {
        !self.policy.filetype.is_ifiltered() && !self.policy.regdeps
    }

    fn judge_number(&mut self, number: u64, which: usize) {
        let last = self.kernel.last_syscall;
        if last != Some(number) {
            self.tell_as(Rule::SyscallTraceNumber, which, || match last {
                Some(last) => format!("kernel code of call `{number}`, the call is `{last}`"),
                None => format!("kernel code of call `{number}` without a call"),
            });
        }
    }

    pub(super) fn syscall_trace_end(&mut self, number: u64) {
        let filtered = self.policy.filetype.is_ifiltered();
        self.kernel.is_trace_due = false;
        if !self.kernel.syscall {
            self.tell(Rule::SyscallTraceEnd, || "kernel code ends that began nowhere".to_owned());
        }
        if !self.policy.template {
            self.judge_number(number, 1);
            self.kernel.has_trace = true;
            self.attention |= on::KERNEL;
        }
        if !self.policy.filetype.any(FileType::KERNEL_SYSCALL_INSTR_ONLY) {
            if !self.prev.is_indirect() && !filtered {
                let pc = self.prev.pc;
                self.tell(Rule::SyscallTraceBranch, || {
                    format!("the instruction at {pc:#x} is no indirect branch")
                });
            }
            self.kernel_ends();
        }
        if self.kernel.syscall {
            if self.kernel.syscall_events.take() != Some(self.signals.depth()) {
                self.tell(Rule::SyscallTraceEvents, || "an interruption is still open".to_owned());
            }
            self.kernel.syscall = false;
            let before = self.kernel.before_syscall;
            self.go_back_to(before);
            self.signals.go_back();
        }
        self.set_in_kernel();
    }

    /// Stores the target of the last branch of kernel code.
    fn kernel_ends(&mut self) {
        let is_known = !self.policy.filetype.is_ifiltered();
        self.kernel.end_target = if is_known { self.prev.indirect_target() } else { 0 };
        if self.kernel.end_target != 0 {
            self.attention |= on::KERNEL;
        }
    }

    /// Handles a switch of the core to another thread without kernel code. No bit states whether a trace with kernel code of
    /// system calls also has that of switches: it is reported as missing only if the core has any.
    #[cold]
    pub(super) fn turn_without_code(&mut self, from: u64, to: u64) {
        let message = || match from {
            IDLE_THREAD => format!("the core turns to thread `{to}` without kernel code"),
            from => format!("the core turns from thread `{from}` to `{to}` without kernel code"),
        };
        self.settle_turn();
        if !self.is_in_part() {
            return;
        }
        self.kernel.turn = Some(self.violation(Rule::SwitchTraceMissing, 0, message()));
        self.attention |= on::KERNEL;
    }

    /// Drops the pending turn: between two windows something was left out, perhaps the kernel code of a switch.
    pub(super) fn excuse_turn(&mut self) {
        self.kernel.turn = None;
    }

    /// Settles the pending turn without kernel code: it is a violation if other turns of the core have some.
    pub(super) fn settle_turn(&mut self) {
        let Some(violation) = self.kernel.turn.take() else { return };
        if self.kernel.has_any_switch {
            if self.log.count(Rule::SwitchTraceMissing, 1) {
                self.log.keep(Rule::SwitchTraceMissing, violation);
            }
            return;
        }
        self.kernel.n_bare_turns += 1;
        if self.kernel.bare_turns.len() < MAX_BARE_TURNS {
            self.kernel.bare_turns.push(violation);
        }
    }

    /// Handles kernel code of a switch: the turns before should have had it, too.
    fn judge_bare_turns(&mut self) {
        self.kernel.has_any_switch = true;
        let n_told = self.kernel.bare_turns.len() as u64;
        for violation in std::mem::take(&mut self.kernel.bare_turns) {
            if self.log.count(Rule::SwitchTraceMissing, 1) {
                self.log.keep(Rule::SwitchTraceMissing, violation);
            }
        }
        let rest = std::mem::take(&mut self.kernel.n_bare_turns) - n_told;
        self.log.count(Rule::SwitchTraceMissing, rest);
    }

    pub(super) fn switch_start(&mut self, kind: u64) {
        self.settle_turn();
        if !self.kernel.has_any_switch {
            self.judge_bare_turns();
        }
        if self.kernel.switch {
            self.tell(Rule::SwitchTraceNested, || "kernel code of a switch begins inside another".to_owned());
        }
        self.kernel.switch = true;
        self.kernel.switch_events = Some(self.signals.depth());
        match usize::try_from(kind).ok().and_then(|kind| self.kernel.has_switch.get_mut(kind)) {
            Some(has) if kind > 0 => *has = true,
            _ => self.tell(Rule::SwitchType, || format!("a switch of type `{kind}`")),
        }
        self.kernel.end_target = 0;
        self.set_in_kernel();
    }

    pub(super) fn switch_end(&mut self) {
        if !self.kernel.switch {
            self.tell(Rule::SwitchTraceEnd, || "kernel code of a switch ends that began nowhere".to_owned());
        } else if self.kernel.switch_events != Some(self.signals.depth()) {
            self.tell(Rule::SwitchTraceEvents, || "an interruption is still open".to_owned());
        }
        self.kernel.switch_events = None;
        if !self.prev.is_indirect() && !self.policy.filetype.is_ifiltered() {
            let pc = self.prev.pc;
            self.tell(Rule::SwitchTraceBranch, || {
                format!("the instruction at {pc:#x} is no indirect branch")
            });
        }
        self.kernel_ends();
        self.kernel.switch = false;
        self.set_in_kernel();
        self.signals.begin_context();
        self.attention |= on::TRANSFER;
    }

    fn set_in_kernel(&mut self) {
        self.in_kernel = self.kernel.syscall || self.kernel.switch;
        self.allow_data();
    }

    /// Settles the pending checks of kernel code at the next instruction.
    #[cold]
    pub(super) fn settle_kernel(&mut self) {
        self.settle_turn();
        if self.kernel.is_exit_due {
            self.kernel.is_exit_due = false;
            self.tell(Rule::ExitAfterZero, || "an instruction follows a branch to 0".to_owned());
        }
        if !self.kernel.syscall {
            self.kernel.before_syscall = Prev::NONE;
            self.kernel.has_trace = false;
            if std::mem::take(&mut self.kernel.is_trace_due) {
                self.tell(Rule::SyscallTraceMissing, || {
                    "the system call before has no kernel code".to_owned()
                });
            }
            self.attention &= !on::KERNEL;
        }
    }

    /// Handles the start of an interrupt.
    pub(super) fn hardware_event(&mut self) {
        self.judge_interrupt_bit();
        self.kernel.depth = self.kernel.depth.saturating_add(1);
        let depth = self.kernel.depth;
        if depth >= MAX_DEPTH {
            self.tell(Rule::InterruptDepth, || format!("interrupts are nested `{depth}` deep"));
        }
    }

    /// Handles the end of an interrupt; a trace may start inside some.
    pub(super) fn hardware_return(&mut self) {
        self.judge_interrupt_bit();
        self.kernel.depth = self.kernel.depth.saturating_sub(1);
    }

    fn judge_interrupt_bit(&mut self) {
        if !self.policy.filetype.any(FileType::WHOLE_SYSTEM) {
            self.tell(Rule::InterruptBit, || "the file type has no bit 0x40000".to_owned());
        }
    }

    /// Reports a return from an interruption that began outside the kernel code around it.
    pub(super) fn judge_extra_return(&mut self, is_hardware: bool) {
        let depth = self.signals.depth();
        let is_extra = |events: Option<usize>| events.is_some_and(|events| events >= depth);
        let which = 1 + usize::from(is_hardware);
        if is_extra(self.kernel.syscall_events) {
            self.tell_as(Rule::SyscallTraceEvents, which, || "nothing was interrupted inside".to_owned());
        }
        if is_extra(self.kernel.switch_events) {
            self.tell_as(Rule::SwitchTraceEvents, which, || "nothing was interrupted inside".to_owned());
        }
    }

    /// Checks the content of a template file.
    pub(super) fn end_templates(&mut self) {
        let n_switches = self.kernel.has_switch.iter().filter(|has| **has).count();
        let (has_switches, has_syscalls) = (n_switches > 0, self.kernel.has_syscalls);
        if has_switches == has_syscalls {
            self.tell(Rule::TemplateMixed, || match has_switches {
                true => "templates of both system calls and switches".to_owned(),
                false => "no templates".to_owned(),
            });
        }
        if !has_switches && !self.kernel.has_default {
            self.tell(Rule::TemplateDefault, || "no template for other system calls".to_owned());
        }
        if !has_syscalls && n_switches < 2 {
            self.tell(Rule::TemplateSwitches, || format!("`{n_switches}` of 2 types of switches"));
        }
    }
}
