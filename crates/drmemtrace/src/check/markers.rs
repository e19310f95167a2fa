//! Markers: each is passed to the group of rules that handles it.

use super::checker::{Checker, on};
use super::rules::Rule;
use crate::record::Marker;

impl Checker {
    /// Handles a marker, also a hidden one.
    pub(super) fn marker(&mut self, kind: Marker, value: u64) {
        match kind {
            Marker::CORE_IDLE => return self.idle(),
            Marker::BRANCH_TARGET => return self.branch_target(value),
            Marker::RECORD_ORDINAL => return self.record_ordinal(value),
            Marker::TIMESTAMP | Marker::CPU_ID if self.is_repeated(kind, value) => return,
            _ => {}
        }
        self.records += 1;
        let before = self.attention;
        // The end of filtering holds for all threads: it is no thread's turn.
        if before & on::THREAD != 0 && kind != Marker::FILTER_ENDPOINT {
            self.turn(kind == Marker::CONTEXT_SWITCH_START);
        }
        if before & on::PHYSICAL != 0 && kind == Marker::VIRTUAL_ADDRESS {
            self.attention &= !on::PHYSICAL;
            if (value ^ self.physical) & 0xfff != 0 {
                let physical = self.physical;
                self.tell(Rule::PhysicalOffset, || {
                    format!("physical {physical:#x} is not virtual {value:#x}")
                });
            }
        }
        if before & on::ENCODING != 0 {
            self.lone_encoding();
        }
        if self.attention & on::PHYSICAL != 0 {
            self.lone_physical();
        }
        if before & (on::FOOTER | on::SEAM | on::PROCESSOR) != 0 {
            self.attend_frame(Some(kind));
        }
        self.attention &= !on::FUNCTION;
        if kind != Marker::CHUNK_FOOTER {
            self.rseq_marker(kind, value);
            self.syscall_interval(kind);
        }
        match kind {
            Marker::TIMESTAMP => self.timestamp(value),
            Marker::CPU_ID => self.cpu(value),
            Marker::WINDOW_ID => self.window(value),
            Marker::VERSION
            | Marker::FILETYPE
            | Marker::CACHE_LINE_SIZE
            | Marker::PAGE_SIZE
            | Marker::CHUNK_INSTR_COUNT
            | Marker::VECTOR_LENGTH => self.header_marker(kind, value),
            Marker::CHUNK_FOOTER => self.chunk_footer(value),
            Marker::INSTRUCTION_COUNT => self.instr_count(value),
            Marker::FILTER_ENDPOINT => self.endpoint(),
            Marker::SYSCALL => self.syscall(value),
            Marker::MAYBE_BLOCKING_SYSCALL => self.blocking(),
            Marker::FUNC_ID | Marker::FUNC_RETADDR | Marker::FUNC_ARG | Marker::FUNC_RETVAL => {
                self.function(kind, value);
            }
            Marker::SYSCALL_TRACE_START => self.syscall_trace_start(value),
            Marker::SYSCALL_TRACE_END => self.syscall_trace_end(value),
            Marker::CONTEXT_SWITCH_START => self.switch_start(value),
            Marker::CONTEXT_SWITCH_END => self.switch_end(),
            Marker::KERNEL_EVENT | Marker::HARDWARE_EVENT => self.interruption(kind, value),
            Marker::KERNEL_XFER | Marker::HARDWARE_CONTEXT_RETURN => self.resumption(kind, value),
            Marker::SIGNAL_NUMBER => self.signal_number(),
            Marker::PHYSICAL_ADDRESS => {
                self.physical = value;
                self.attention |= on::PHYSICAL;
            }
            Marker::KERNEL_EVENT_RAW | Marker::SPLIT_VALUE | Marker::MIDBLOCK_END_PC => self.raw_marker(kind),
            // The tracer saw the access but not its address: it counts as recorded.
            Marker::SKIPPED_MEMREF => self.data.is_owed = false,
            Marker(47..=100) => {
                self.tell(Rule::UnknownMarker, || format!("marker kind `{}` is reserved", kind.0));
            }
            _ => {}
        }
        if self.policy.regdeps {
            self.regdeps_marker(kind, value);
        }
        if kind == Marker::CHUNK_FOOTER {
            // The border of a chunk may fall between any two records, which remain consecutive.
            self.last_marker.0 += 1;
            self.last_marker_but_one.0 += 1;
            return;
        }
        self.last_marker_but_one = self.last_marker;
        self.last_marker = (self.records, kind);
    }

    #[cold]
    pub(super) fn lone_physical(&mut self) {
        self.attention &= !on::PHYSICAL;
        self.tell(Rule::PhysicalAlone, || "no virtual address follows the physical one".to_owned());
    }

    /// True if the record before the one being checked, not counting footers of chunks, is a marker of this kind.
    pub(super) fn follows(&self, kind: Marker) -> bool {
        self.last_marker == (self.records - 1, kind)
    }

    /// True if the two records before the one being checked, not counting footers of chunks, are markers of these kinds.
    pub(super) fn follows_both(&self, first: Marker, second: Marker) -> bool {
        self.follows(second) && self.records >= 2 && self.last_marker_but_one == (self.records - 2, first)
    }
}
