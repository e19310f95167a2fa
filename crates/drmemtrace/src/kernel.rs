//! Kernel regions that are open at an entry (spec 6.10). Delimiting markers belong to their region.

use crate::record::{Entry, Marker, Type};

/// The kernel regions that are open at an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regions {
    syscall: bool,
    switch: bool,
    interrupts: u32,
}

impl Regions {
    /// True if any region is open.
    pub(crate) fn any(self) -> bool {
        self.syscall || self.but_syscalls()
    }

    /// True if a region other than a system call's is open.
    pub(crate) fn but_syscalls(self) -> bool {
        self.switch || self.interrupts > 0
    }

    /// True in kernel code of a context switch.
    pub(crate) fn in_switch(self) -> bool {
        self.switch
    }

    /// The union of both.
    fn or(self, other: Regions) -> Regions {
        Regions {
            syscall: self.syscall || other.syscall,
            switch: self.switch || other.switch,
            interrupts: self.interrupts.max(other.interrupts),
        }
    }

    /// Advances over an entry and returns the regions that it lies in.
    pub(crate) fn pass(&mut self, entry: &Entry) -> Regions {
        if entry.kind() != Type::MARKER {
            return *self;
        }
        let before = *self;
        match Marker(entry.size.get()) {
            Marker::SYSCALL_TRACE_START => self.syscall = true,
            Marker::SYSCALL_TRACE_END => self.syscall = false,
            Marker::CONTEXT_SWITCH_START => self.switch = true,
            Marker::CONTEXT_SWITCH_END => self.switch = false,
            Marker::HARDWARE_EVENT => self.interrupts = self.interrupts.saturating_add(1),
            Marker::HARDWARE_CONTEXT_RETURN => self.interrupts = self.interrupts.saturating_sub(1),
            _ => return before,
        }
        before.or(*self)
    }
}
