//! One small trace for each rule that breaks it, and a few that break none.

use crate::check_rules::trace::*;
use quipu_drmemtrace::record::{Entry, Marker, Type};

/// A trace that breaks a rule, and what else it cannot help but break.
pub(crate) struct Case {
    pub(crate) rule: &'static str,
    pub(crate) entries: Entries,
    pub(crate) also: &'static [&'static str],
}

fn case(rule: &'static str, entries: Entries) -> Case {
    Case { rule, entries, also: &[] }
}

fn with(rule: &'static str, also: &'static [&'static str], entries: Entries) -> Case {
    Case { rule, entries, also }
}

const JE: &[u8] = &[0x74, 0x0e];
const LOAD: &[u8] = &[0x48, 0x8b, 0x18];
const STORE: &[u8] = &[0x48, 0x89, 0x18];
const XRSTOR: &[u8] = &[0x0f, 0xae, 0x28];
const XSAVE: &[u8] = &[0x0f, 0xae, 0x20];

/// A system call whose kernel code has one instruction, which does no accesses.
fn kernel_code(bytes: &[u8]) -> Entries {
    let code = [
        m(Marker::SYSCALL_TRACE_START, 5),
        i(Type::INSTR, 0xf000, bytes),
        iret(0xf000 + bytes.len() as u64, 4),
        m(Marker::SYSCALL_TRACE_END, 5),
    ];
    trace(KERNEL, &[nop(1), syscall(2, 5, &code), nop(4)])
}

/// The position of the first entry that is a marker of this kind.
fn find(entries: &[Entry], kind: Marker) -> usize {
    entries
        .iter()
        .position(|entry| entry.kind() == Type::MARKER && entry.size.get() == kind.0)
        .expect("the marker is there")
}

fn without(mut entries: Entries, kind: Marker) -> Entries {
    entries.remove(find(&entries, kind));
    entries
}

/// Traces that break nothing.
pub(crate) fn clean() -> Vec<(&'static str, Entries)> {
    use Marker as M;
    vec![
        ("a few instructions", trace(X64, &[nop(1), nop(2)])),
        (
            "a load from an unknown address",
            trace(X64, &[i(Type::INSTR, 0x10, LOAD), m(M::SKIPPED_MEMREF, 0), nop(0x13)]),
        ),
        (
            "loads, stores, jumps",
            trace(
                X64,
                &[
                    i(Type::INSTR, 0x10, LOAD),
                    read(8),
                    i(Type::INSTR, 0x13, STORE),
                    write(8),
                    i(Type::INSTR_TAKEN_JUMP, 0x16, JE),
                    i(Type::INSTR_UNTAKEN_JUMP, 0x26, JE),
                    jmp(0x28, 0x100),
                    nop(0x100),
                ],
            ),
        ),
        (
            "a system call in a window",
            trace(
                CALLS,
                &[
                    sys(1),
                    m(M::TIMESTAMP, 110),
                    m(M::WINDOW_ID, 0),
                    m(M::CPU_ID, 1),
                    m(M::SYSCALL, 5),
                    nop(3),
                ],
            ),
        ),
        ("kernel code that saves and restores state in accesses of any number and size", {
            let code = [
                m(M::SYSCALL_TRACE_START, 5),
                i(Type::INSTR, 0xf000, XRSTOR),
                read(8),
                read(24),
                read(1),
                i(Type::INSTR, 0xf003, XSAVE),
                read(8),
                write(512),
                write(8),
                // A prefetch owes nothing there.
                i(Type::INSTR, 0xf006, &[0x0f, 0x18, 0x08]),
                ind(Type::INSTR_RETURN, 0xf009, &[0x48, 0xcf], 4),
                read(40),
                m(M::SYSCALL_TRACE_END, 5),
            ];
            trace(KERNEL, &[nop(1), syscall(2, 5, &code), nop(4)])
        }),
        ("a system call with kernel code", trace(KERNEL, &[nop(1), syscall(2, 5, &[kernel(5, 4)]), nop(4)])),
        (
            "a signal and its return",
            trace(
                CALLS,
                &[
                    nop(1),
                    m(M::KERNEL_EVENT, 2),
                    m(M::SIGNAL_NUMBER, 10),
                    nop(0x100),
                    syscall(0x101, 15, &[]),
                    m(M::KERNEL_XFER, 0x103),
                    nop(2),
                ],
            ),
        ),
        (
            "a function and a system call with arguments",
            trace(
                CALLS,
                &[
                    call(1, 0x40),
                    m(M::FUNC_ID, 3),
                    m(M::FUNC_RETADDR, 6),
                    m(M::FUNC_ARG, 9),
                    syscall(0x40, 1, &[m(M::FUNC_ID, 0x1_0000_0001), m(M::FUNC_ARG, 2)]),
                    nop(0x42),
                ],
            ),
        ),
        (
            "an aborted restartable sequence",
            trace(
                X64,
                &[m(M::RSEQ_ENTRY, 0x10), nop(1), m(M::RSEQ_ABORT, 2), m(M::KERNEL_EVENT, 2), nop(0x100)],
            ),
        ),
        (
            "physical addresses, between an instruction and its data",
            trace(
                X64,
                &[
                    i(Type::INSTR, 0x10, LOAD),
                    m(M::PHYSICAL_ADDRESS, 0x5008),
                    m(M::VIRTUAL_ADDRESS, 0x7008),
                    read(8),
                ],
            ),
        ),
        (
            "an interrupt",
            trace(
                WHOLE,
                &[nop(1), m(M::HARDWARE_EVENT, 2), nop(0xf000), m(M::HARDWARE_CONTEXT_RETURN, 0), nop(2)],
            ),
        ),
        ("templates of system calls", trace(TEMPLATE, &[kernel(1, 9), kernel(0x0fff_ffff, 9)])),
        ("templates of switches", trace(TEMPLATE, &[switch(1, 9), switch(2, 9)])),
        (
            "version 1",
            all(&[
                e(Type::HEADER, 0, 1),
                e(Type::THREAD, 4, TID),
                e(Type::PID, 4, 70),
                m(M::CACHE_LINE_SIZE, 64),
                m(M::PAGE_SIZE, 4096),
                at(1),
                e(Type::INSTR_CONDITIONAL_JUMP, 2, 1),
                e(Type::INSTR, 2, 9),
                end(),
            ]),
        ),
    ]
}

/// Cases of the groups "containers and entries", "headers and ends", "time and processors".
pub(crate) fn frames() -> Vec<Case> {
    use Marker as M;
    let plain = || trace(X64, &[nop(1), nop(2)]);
    let filtered = |body: &[Entries]| trace(0xc0, body);
    let mut late_version = plain();
    late_version[0] = Entry::new(Type::HEADER, 0, 6);
    vec![
        with("nonsense", &["exit-missing"], trace(X64, &vec![e(Type(77), 0, 0); 100])),
        case("unknown-type", trace(X64, &[nop(1), e(Type(77), 0, 0)])),
        case("unknown-marker", trace(X64, &[nop(1), m(M(60), 0)])),
        case("online-type", trace(0x40, &[nop_bare(1), e(Type::HARDWARE_PREFETCH, 1, 0)])),
        case("raw-marker", trace(X64, &[nop(1), m(M::KERNEL_EVENT_RAW, 1)])),
        case("flush-end", trace(0x40, &[nop_bare(1), e(Type::DATA_FLUSH_END, 0, 64)])),
        case("no-header", plain()[1..].to_vec()),
        case("no-footer", plain()[..plain().len() - 1].to_vec()),
        case("after-footer", all(&[plain(), e(Type::FOOTER, 0, 0)])),
        with("header-order", &["no-process"], {
            let mut entries = plain();
            let pid = entries.remove(4);
            let at = entries.len() - 2;
            entries.insert(at, pid);
            entries
        }),
        case("version-missing", without(plain(), M::VERSION)),
        case("version-mismatch", late_version),
        case("newer-version", versioned(8, X64, &[nop(1)])),
        case("filetype-missing", without(trace(0x40, &[nop_bare(1)]), M::FILETYPE)),
        case("header-changes", trace(X64, &[nop(1), m(M::PAGE_SIZE, 8192)])),
        case("several-archs", trace(X64 | 0x8, &[nop(1)])),
        case("kernel-and-whole-system", trace(WHOLE | 0x1000, &[nop(1)])),
        case("vector-length", trace(X64, &[m(M::VECTOR_LENGTH, 32), nop(1)])),
        case("line-size-missing", without(plain(), M::CACHE_LINE_SIZE)),
        case("page-size-missing", without(plain(), M::PAGE_SIZE)),
        case("exit-missing", all(&[bare_header(X64), at(100), nop(1), e(Type::FOOTER, 0, 0)])),
        case("after-exit", trace(X64, &[nop(1), exit(), nop(2)])),
        case("no-instructions", trace(X64, &[])),
        case("no-process", {
            let mut entries = plain();
            entries.remove(4);
            entries
        }),
        // A second thread near the header would make it a stream of several threads.
        case("wrong-thread", {
            let many: Entries = (1..80).flat_map(nop).collect();
            trace(X64, &[many, e(Type::THREAD, 4, 8), nop(80), e(Type::THREAD, 4, TID), nop(81)])
        }),
        case("syscall-numbers-bit", trace(X64, &[syscall(1, 5, &[]), nop(3)])),
        case("blocking-bit", trace(0x640, &[syscall(1, 5, &[m(M::MAYBE_BLOCKING_SYSCALL, 0)]), nop(3)])),
        case("endpoint-missing", trace(X64 | 0x2000, &[nop(1)])),
        case("endpoint-bit", trace(X64, &[nop(1), m(M::FILTER_ENDPOINT, 0)])),
        case("instr-count-missing", filtered(&[nop_bare(1)])),
        case(
            "instr-count-decreases",
            filtered(&[nop_bare(1), m(M::INSTRUCTION_COUNT, 5), m(M::INSTRUCTION_COUNT, 4)]),
        ),
        case("time-backwards", trace(X64, &[nop(1), at(99)])),
        case("clock-missing", all(&[bare_header(X64), nop(1), end()])),
        case("processor-missing", trace(X64, &[nop(1), m(M::TIMESTAMP, 110), nop(2)])),
        case(
            "clock-in-kernel",
            trace(
                KERNEL,
                &[
                    syscall(
                        1,
                        5,
                        &[
                            m(M::SYSCALL_TRACE_START, 5),
                            nop(0xf000),
                            at(115),
                            iret(0xf001, 3),
                            m(M::SYSCALL_TRACE_END, 5),
                        ],
                    ),
                    nop(3),
                ],
            ),
        ),
        case("window-backwards", trace(X64, &[nop(1), m(M::WINDOW_ID, 2), m(M::WINDOW_ID, 1)])),
    ]
}

/// An instruction without an encoding.
pub(crate) fn nop_bare(pc: u64) -> Entries {
    e(Type::INSTR, 1, pc)
}

/// Cases of the groups "flow of control", "encodings", "data".
pub(crate) fn instructions() -> Vec<Case> {
    use Marker as M;
    vec![
        case("pc-discontinuity", trace(X64, &[nop(1), nop(9)])),
        case("branch-target", trace(X64, &[i(Type::INSTR_TAKEN_JUMP, 0x10, JE), nop(0x21)])),
        case("duplicate-syscall", trace(0x240, &[sys(1), sys(1), nop(3)])),
        case(
            "rseq-side-exit",
            trace(
                X64,
                &[i(Type::INSTR_UNTAKEN_JUMP, 0x10, JE), i(Type::INSTR, 0x12, STORE), write(8), nop(0x40)],
            ),
        ),
        case("event-pc-discontinuity", trace(X64, &[nop(1), m(M::KERNEL_EVENT, 9), nop(0x100)])),
        case(
            "event-branch-target",
            trace(X64, &[i(Type::INSTR_TAKEN_JUMP, 0x10, JE), m(M::KERNEL_EVENT, 0x21), nop(0x100)]),
        ),
        case(
            "event-rseq-side-exit",
            trace(
                X64,
                &[
                    i(Type::INSTR_UNTAKEN_JUMP, 0x10, JE),
                    i(Type::INSTR, 0x12, STORE),
                    write(8),
                    m(M::KERNEL_EVENT, 0x40),
                    nop(0x100),
                ],
            ),
        ),
        // The opcode is none in 64-bit code.
        with(
            "branch-undecodable",
            &["undecodable"],
            trace(X64, &[i(Type::INSTR_DIRECT_JUMP, 1, &[0x06]), m(M::KERNEL_EVENT, 9), nop(9)]),
        ),
        case("branch-separated", trace(X64, &[jmp(1, 9), at(110), nop(9)])),
        case("conditional-jump", trace(X64, &[i(Type::INSTR_CONDITIONAL_JUMP, 0x10, JE), nop(0x12)])),
        with(
            "target-missing",
            &["branch-target"],
            trace(X64, &[i(Type::INSTR_INDIRECT_JUMP, 1, &[0xff, 0xe0]), nop(9)]),
        ),
        case("target-stray", trace(X64, &[enc(&[0x90]), m(M::BRANCH_TARGET, 5), nop_bare(1)])),
        case("no-encoding", trace(X64, &[nop_bare(1)])),
        case("encoding-bit", trace(0x40, &[nop(1)])),
        case("encoding-length", trace(X64, &[enc(&[0x90, 0x90]), nop_bare(1)])),
        with(
            "encoding-too-long",
            &["encoding-length"],
            trace(X64, &[e(Type::ENCODING, 9, 0x90), nop_bare(1)]),
        ),
        case("encoding-alone", trace(X64, &[nop(1), enc(&[0x90])])),
        case("undecodable", trace(X64, &[i(Type::INSTR, 1, &[0x06])])),
        case("instr-length", trace(X64, &[enc(&[0x90, 0x90]), e(Type::INSTR, 2, 1)])),
        case("instr-type", trace(X64, &[i(Type::INSTR, 1, &[0xff, 0xe0])])),
        case("missing-reads", trace(X64, &[i(Type::INSTR, 1, LOAD), nop(4)])),
        case("missing-writes", trace(X64, &[i(Type::INSTR, 1, STORE), nop(4)])),
        case("missing-reads", kernel_code(XRSTOR)),
        case("missing-writes", kernel_code(XSAVE)),
        case("too-many-reads", trace(X64, &[nop(1), read(8)])),
        case("too-many-writes", trace(X64, &[nop(1), write(8)])),
        case("access-size", trace(X64, &[i(Type::INSTR, 1, LOAD), read(4)])),
        case("data-alone", trace(0x40, &[read(8), nop_bare(1)])),
        case("data-bit", trace(X64 | 4, &[i(Type::INSTR, 1, LOAD), read(8)])),
        with(
            "function-before-data",
            &["function-branch"],
            trace(X64, &[i(Type::INSTR, 1, LOAD), m(M::FUNC_ID, 1), read(8)]),
        ),
        case("physical-alone", trace(X64, &[nop(1), m(M::PHYSICAL_ADDRESS, 0x1000), nop(2)])),
        case(
            "physical-offset",
            trace(X64, &[nop(1), m(M::PHYSICAL_ADDRESS, 0x1000), m(M::VIRTUAL_ADDRESS, 0x1008)]),
        ),
        case("regdeps-decode", trace(REGDEPS, &[enc(&[0x11, 1, 4, 0]), e(Type::INSTR, 4, 1)])).unknown_cpu(),
        case("regdeps-arch", trace(REGDEPS | 0x40, &[enc(&[0, 0, 0, 0]), e(Type::INSTR, 4, 1)]))
            .unknown_cpu(),
        case("regdeps-cpu", trace(REGDEPS, &[enc(&[0, 0, 0, 0]), e(Type::INSTR, 4, 1)])),
        case(
            "regdeps-marker",
            trace(REGDEPS, &[enc(&[0, 0, 0, 0]), e(Type::INSTR, 4, 1), m(M::SYSCALL_FAILED, 1)]),
        )
        .unknown_cpu(),
        case(
            "regdeps-function",
            trace(REGDEPS, &[enc(&[0, 0, 0, 0]), e(Type::INSTR, 4, 1), m(M::FUNC_ID, 0x1_0000_0001)]),
        )
        .unknown_cpu(),
    ]
}

impl Case {
    /// The same with unknown processors.
    fn unknown_cpu(mut self) -> Case {
        for entry in &mut self.entries {
            if entry.kind() == Type::MARKER && entry.size.get() == Marker::CPU_ID.0 {
                entry.addr = u64::MAX.into();
            }
        }
        self
    }
}

/// Cases of the groups "system calls", "kernel code", "signals and restartable sequences", "traced functions".
pub(crate) fn kernels() -> Vec<Case> {
    use Marker as M;
    let start = |number| m(M::SYSCALL_TRACE_START, number);
    let stop = |number| m(M::SYSCALL_TRACE_END, number);
    vec![
        case("syscall-marker-missing", trace(CALLS, &[sys(1), nop(3)])),
        case("syscall-marker-misplaced", trace(CALLS, &[nop(1), at(110), m(M::SYSCALL, 5), at(120), nop(2)])),
        case("syscall-clock-missing", trace(CALLS, &[sys(1), m(M::SYSCALL, 5), nop(3)])),
        case("blocking-misplaced", trace(CALLS, &[nop(1), m(M::MAYBE_BLOCKING_SYSCALL, 0)])),
        case("kernel-bit", trace(CALLS, &[syscall(1, 5, &[kernel(5, 3)]), nop(3)])),
        case("syscall-trace-missing", trace(KERNEL, &[syscall(1, 5, &[]), nop(3)])),
        with(
            "syscall-trace-nested",
            &["syscall-trace-alone", "syscall-trace-instr", "pc-discontinuity"],
            trace(KERNEL, &[syscall(1, 5, &[start(5), nop(0xf000), kernel(5, 3)]), nop(3)]),
        ),
        with(
            "syscall-trace-twice",
            &["syscall-trace-alone"],
            trace(KERNEL, &[syscall(1, 5, &[kernel(5, 3), kernel(5, 3)]), nop(3)]),
        ),
        case(
            "syscall-trace-alone",
            trace(KERNEL, &[syscall(1, 5, &[m(M::SYSCALL_FAILED, 1), kernel(5, 3)]), nop(3)]),
        ),
        case("syscall-trace-number", trace(KERNEL, &[syscall(1, 5, &[kernel(6, 3)]), nop(3)])),
        with(
            "syscall-trace-instr",
            &["syscall-marker-misplaced"],
            trace(KERNEL, &[nop(1), at(110), m(M::SYSCALL, 5), kernel(5, 2), nop(2)]),
        ),
        with(
            "syscall-trace-end",
            &["syscall-trace-branch"],
            trace(KERNEL, &[syscall(1, 5, &[stop(5)]), nop(3)]),
        ),
        case(
            "syscall-trace-branch",
            trace(KERNEL, &[syscall(1, 5, &[start(5), nop(0xf000), stop(5)]), nop(3)]),
        ),
        with(
            "syscall-trace-events",
            &["kernel-end-target"],
            trace(
                KERNEL,
                &[
                    syscall(
                        1,
                        5,
                        &[start(5), nop(0xf000), m(M::KERNEL_EVENT, 0xf001), iret(0xf100, 9), stop(5)],
                    ),
                    nop(3),
                ],
            ),
        ),
        case(
            "after-syscall-trace",
            trace(KERNEL, &[syscall(1, 5, &[kernel(5, 3), m(M::SYSCALL_SCHEDULE, 1)]), nop(3)]),
        ),
        case("exit-after-zero", trace(KERNEL, &[syscall(1, 5, &[kernel(5, 0)]), nop(3)])),
        case(
            "switch-trace-nested",
            trace(TEMPLATE, &[m(M::CONTEXT_SWITCH_START, 1), switch(1, 9), switch(2, 9)]),
        ),
        case("switch-type", trace(TEMPLATE, &[switch(1, 9), switch(2, 9), switch(3, 9)])),
        with(
            "switch-trace-end",
            &["switch-trace-branch"],
            trace(TEMPLATE, &[nop(1), m(M::CONTEXT_SWITCH_END, 1), switch(1, 9), switch(2, 9)]),
        ),
        case(
            "switch-trace-branch",
            trace(
                TEMPLATE,
                &[m(M::CONTEXT_SWITCH_START, 1), nop(0xf000), m(M::CONTEXT_SWITCH_END, 1), switch(2, 9)],
            ),
        ),
        case(
            "switch-trace-events",
            trace(
                TEMPLATE,
                &[
                    m(M::CONTEXT_SWITCH_START, 1),
                    nop(0xf000),
                    m(M::KERNEL_EVENT, 0xf001),
                    iret(0xf100, 9),
                    m(M::CONTEXT_SWITCH_END, 1),
                    switch(2, 9),
                ],
            ),
        ),
        with("kernel-open", &[], trace(KERNEL, &[sys(1), at(110), m(M::SYSCALL, 5), start(5), nop(0xf000)])),
        case("kernel-end-target", trace(KERNEL, &[syscall(1, 5, &[kernel(5, 9)]), nop(3)])),
        case(
            "interrupt-depth",
            trace(WHOLE, &[(0..30).flat_map(|n| all(&[nop(n + 1), m(M::HARDWARE_EVENT, n + 2)])).collect()]),
        ),
        case("interrupt-bit", trace(CALLS, &[nop(1), m(M::HARDWARE_EVENT, 2), nop(0x100)])),
        case("template-mixed", trace(TEMPLATE, &[kernel(0x0fff_ffff, 9), switch(1, 9), switch(2, 9)])),
        case("template-default", trace(TEMPLATE, &[kernel(1, 9)])),
        case("template-switches", trace(TEMPLATE, &[switch(1, 9)])),
        with(
            "event-value",
            &["event-pc-discontinuity"],
            trace(X64, &[nop(1), m(M::KERNEL_EVENT, 0), nop(9)]),
        ),
        case(
            "return-mismatch",
            trace(WHOLE, &[nop(1), m(M::HARDWARE_EVENT, 2), nop(9), m(M::KERNEL_XFER, 10), nop(2)]),
        ),
        case(
            "signal-return",
            trace(X64, &[nop(1), m(M::KERNEL_EVENT, 2), nop(9), m(M::KERNEL_XFER, 10), nop(3)]),
        ),
        case(
            "interrupt-return",
            trace(
                WHOLE,
                &[nop(1), m(M::HARDWARE_EVENT, 2), nop(9), m(M::HARDWARE_CONTEXT_RETURN, 0), nop(3)],
            ),
        ),
        case("signal-number", trace(X64, &[nop(1), m(M::SIGNAL_NUMBER, 9)])),
        case("rseq-marker", trace(X64, &[nop(1), m(M::RSEQ_ABORT, 2), m(M::FUNC_ID, 0x1_0000_0001), nop(2)])),
        with("rseq-exit", &["pc-discontinuity"], trace(X64, &[m(M::RSEQ_ENTRY, 0x10), nop(1), nop(0x20)])),
        case("rseq-signal", trace(X64, &[m(M::RSEQ_ENTRY, 0x10), nop(1), m(M::KERNEL_EVENT, 2), nop(3)])),
        case(
            "rseq-commit",
            trace(
                X64,
                &[
                    m(M::RSEQ_ENTRY, 3),
                    nop(1),
                    nop(2),
                    m(M::RSEQ_ABORT, 0x50),
                    m(M::KERNEL_EVENT, 0x50),
                    nop(0x50),
                ],
            ),
        ),
        case(
            "function-return",
            trace(X64, &[call(1, 0x40), m(M::FUNC_ID, 1), m(M::FUNC_RETADDR, 9), nop(0x40)]),
        ),
        case("function-branch", trace(X64, &[nop(1), m(M::FUNC_ID, 1), nop(2)])),
        case("function-alone", trace(X64, &[call(1, 0x40), m(M::FUNC_ARG, 9), nop(0x40)])),
    ]
}
