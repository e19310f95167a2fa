//! The rules, each with its name, its severity and its entry in the manual.
//!
//! This table is the only source: `quipu check --list` and `--explain`, docs/checks.md and the texts of DynamoRIO's checker
//! come from it. The code of a rule is in the file of its group. A rule that DynamoRIO also has carries DynamoRIO's message,
//! and describes any difference.

use quipu_model::{RuleInfo, Severity};

macro_rules! rules {
    ($($group:literal {
        $($name:ident $text:literal $severity:ident $summary:literal $doc:literal [$($original:literal),*])*
    })*) => {
        /// One rule, by its position in [`RULES`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub(super) enum Rule {
            $($($name),*),*
        }

        /// Every rule, in the order of the manual.
        pub static RULES: &[RuleInfo] = &[
            $($(RuleInfo {
                name: $text,
                group: $group,
                severity: Severity::$severity,
                summary: $summary,
                doc: $doc,
                original: &[$($original),*],
            }),*),*
        ];

        const ALL: &[Rule] = &[$($(Rule::$name),*),*];
    };
}

impl Rule {
    /// The rule's entry in [`RULES`].
    pub(super) fn info(self) -> &'static RuleInfo {
        &RULES[self as usize]
    }

    /// The rule whose full name is `name`.
    pub(super) fn named(name: &str) -> Option<Rule> {
        ALL.iter().copied().find(|rule| rule.info().name == name)
    }
}

rules! {
    "containers and entries" {
        SourceTruncated "source/truncated" Error
            "A file or member ends where its container says it does."
            "Everything before the end is read; reading continues with the next member, if there is one." []
        SourceMalformed "source/malformed" Error
            "The bytes of a container follow its format."
            "This includes checksums: data after the last byte covered by a correct checksum is not part of the trace, and no verb counts it. Reading continues with the next member, if there is one. For a pipe, which cannot be read again, the finding gives the record from which on numbers are doubtful." []
        SourceUnsupported "source/unsupported" Error
            "The compression of a container is supported."
            "The member is left out." []
        SourceLimit "source/limit" Error
            "No number in a container exceeds the limits of this program."
            "The member is left out." []
        Unreadable "engine/unreadable" Error
            "Every file of the trace can be read to its end."
            "The first unreadable file is reported as an error; this finding names further ones." []
        Oversized "engine/oversized-access" Error
            "No access has more than 1 MiB, and no range of memory more than 16 MiB."
            "No instruction accesses more memory at once, so the number is damage. Copies and fills are ranges in streams and recordings, which `quipu cc` splits into parts of at most 16 MiB. Every verb reports such a record, which counts as lost: `view` prints it, `info` and `check` count it among the records, and no number about accesses includes its access, which analyses, simulators and conversions leave out. Flushes may be larger." []
        PartialEntry "drmemtrace/partial-entry" Error
            "A stream, or a member of an archive, consists of whole entries."
            "Bytes remain after the last whole entry of 12 bytes (8 with `--open entry-bytes=8`): the data was cut off." []
        UnknownType "drmemtrace/unknown-type" Error
            "Every entry has a known type."
            "A larger number means damage or a newer version. The entry is skipped. DynamoRIO looks up the name out of bounds, ends the run early and still reports success." []
        Nonsense "drmemtrace/nonsense" Error
            "At most 8 of 64 entries have types from 64 on, or are 12 zero bytes."
            "No tracer writes such entries, so these bytes are not trace data. Blocks of 64 entries are counted from the start of their member. Every verb stops before the first such entry and continues with the next member, if there is one. Damage is searched for at every eighth entry. Fewer unknown types are skipped one by one." []
        OddEntries "drmemtrace/odd-entries" Warning
            "Encodings and long flushes are complete, and encodings belong to their instructions."
            "Verbs that read such entries use them unchanged and warn; others ignore them. `quipu check` has a separate rule for each case: `no-encoding`, `encoding-length`, `encoding-too-long`, `flush-end`." []
        UnknownMarker "drmemtrace/unknown-marker" Warning
            "No marker has a kind in the reserved range, 47 to 100."
            "The marker was written by a newer version, or is damaged. It is kept. Kinds above 100 are free for other uses." []
        OnlineType "drmemtrace/online-type" Warning
            "Files have no entries that occur only in a tracer's pipe or in a simulator."
            "Bundles (17), instructions that may be a further iteration (30) and prefetches by hardware (27) are read, but no converter writes them." []
        RawMarker "drmemtrace/raw-marker" Error
            "Final files have no markers that belong to raw files."
            "Kinds 8, 42 and 45 are meant for the converter, which must replace them. DynamoRIO checks kind 45 only."
            ["TRACE_MARKER_TYPE_KERNEL_EVENT_RAW should not appear in the final trace"]
        FlushEnd "drmemtrace/flush-end" Error
            "The end of a long flush follows its beginning."
            "A flush of more than 65535 bytes is two entries, the first of size 0." []
        MissingChunk "drmemtrace/missing-chunk" Error
            "Chunks of an archive are numbered without gaps."
            "The number is part of the member's name. Reading continues with the chunk after the gap." []
        MissingFile "drmemtrace/missing-file" Error
            "Each thread and each core in the schedule files has a file."
            "Files of threads that were not selected may be missing. Files of cores are counted; without a schedule file, their number is unknown." []
        RepeatedFile "drmemtrace/repeated-file" Warning
            "A folder has one file for each thread."
            "Two files begin with the same thread, process and clock reading: one is a copy. Both are counted, as by DynamoRIO, which does not report it." []
        NoHeader "drmemtrace/no-header" Error
            "The first entry of a file is a header."
            "DynamoRIO refuses such a file." []
        NoFooter "drmemtrace/no-footer" Error
            "A file ends with a footer."
            "Without one, the trace was cut off, or its converter died. DynamoRIO does not report it." []
        AfterFooter "drmemtrace/after-footer" Error
            "A footer is followed only by the end of the file, or by another whole trace."
            "In files of cores, footers mark the ends of threads, so anything may follow." []
        StrayFile "drmemtrace/stray-file" Note
            "A folder of traces contains only traces and their known companion files."
            "The file is skipped. DynamoRIO takes every file for a trace and fails." []
        SeveralWindows "drmemtrace/several-windows" Note
            "A folder contains one trace."
            "The folder has separate windows, which are several traces; the first is read." []
        FunctionList "drmemtrace/function-list" Warning
            "`funclist.log` can be read."
            "Otherwise functions are shown by number." []
    }
    "headers and ends" {
        HeaderOrder "drmemtrace/header-order" Error
            "Between a header and its process entry there are only markers and the thread entry."
            "Readers queue these entries until the thread and the process are known." []
        VersionMissing "drmemtrace/version-missing" Warning
            "From version 2 on, the header is followed by a version marker."
            "Without it, tools that see only records do not know the version." []
        VersionMismatch "drmemtrace/version-mismatch" Error
            "The version marker equals the version in the header."
            "DynamoRIO does not compare them." []
        NewerVersion "drmemtrace/newer-version" Warning
            "The version is known."
            "A newer version is read by the rules of the newest known one." []
        FiletypeMissing "drmemtrace/filetype-missing" Warning
            "From version 2 on, the header has a file-type marker."
            "Without it, the architecture is unknown, as is whether the trace is filtered or lacks data." []
        HeaderChanges "drmemtrace/header-changes" Error
            "Later headers in a file repeat the values of the first."
            "Files of cores have a header for each thread. Version, file type, line size, page size and chunk size must stay the same, because a reader that starts later in the file knows only the first header."
            ["Stream interface filetype != trace marker", "Stream interface version != trace marker", "Stream interface cache line size != trace marker", "Stream interface page size != trace marker", "Stream interface chunk instr count != trace marker"]
        SeveralArchs "drmemtrace/several-archs" Error
            "The file type names at most one architecture."
            "For REGDEPS traces, see `regdeps-arch`. DynamoRIO does not check this." []
        KernelAndWholeSystem "drmemtrace/kernel-and-whole-system" Error
            "A trace of the whole system has no separate kernel code of system calls."
            "The two file-type bits, 0x40000 and 0x1000, exclude each other."
            ["Trace cannot have both whole_system and kernel_syscalls bit set"]
        VectorLength "drmemtrace/vector-length" Error
            "A vector length is a multiple of 16 from 16 to 256, on AArch64."
            "DynamoRIO goes by the architecture that it was built for, Quipu by that of the trace."
            ["Vector length marker has invalid size", "Unexpected vector length marker"]
        LineSizeMissing "drmemtrace/line-size-missing" Error
            "A thread that ends had a cache-line size in its header."
            "Traces of version 1 have none: both DynamoRIO and Quipu report each."
            ["Missing cache line marker"]
        PageSizeMissing "drmemtrace/page-size-missing" Error
            "A thread that ends had a page size in its header."
            "Traces of version 1 have none: both DynamoRIO and Quipu report each."
            ["Missing page size marker"]
        ExitMissing "drmemtrace/exit-missing" Error
            "The file of a thread ends with the thread's exit."
            "It is missing if tracing stopped early. Not checked for files of cores."
            ["Thread is missing exit"]
        AfterExit "drmemtrace/after-exit" Error
            "A thread that has ended executes nothing more."
            "An instruction or access follows the exit of its thread." []
        NoInstructions "drmemtrace/no-instructions" Error
            "An unfiltered thread executes at least one instruction."
            "Not checked for filtered instructions and template files."
            ["An unfiltered thread should have at least 1 user-space instruction"]
        NoProcess "drmemtrace/no-process" Warning
            "Records belong to a process."
            "A record precedes any process entry, so tools see process 0." []
        WrongThread "drmemtrace/wrong-thread" Error
            "The file of a thread has records of that thread only."
            "Not checked for files of cores, nor for streams of several threads of the first versions."
            ["Shard tid != memref tid"]
        SyscallNumbersBit "drmemtrace/syscall-numbers-bit" Error
            "A trace has system-call markers if and only if the file-type bit 0x400 is set."
            "Checked at the end of each thread that had system calls."
            ["System call numbers presence does not match filetype"]
        BlockingBit "drmemtrace/blocking-bit" Error
            "Markers of calls that may block require the file-type bit 0x800."
            "The bit may be set without such markers, because it is not known which calls may block."
            ["Kernel scheduling marker presence does not match filetype"]
        EndpointMissing "drmemtrace/endpoint-missing" Error
            "With the file-type bit 0x2000, there is a marker where filtering stops."
            "Checked at the end of each thread; if threads share a file, at the end of the file, because filtering stops for all of them at once. If only data is filtered, DynamoRIO's converter sets the bit without writing the marker; its checker reports this correctly."
            ["Expected to find TRACE_MARKER_TYPE_FILTER_ENDPOINT for the given file type"]
        EndpointBit "drmemtrace/endpoint-bit" Error
            "A marker where filtering stops requires the file-type bit 0x2000."
            "" ["Found TRACE_MARKER_TYPE_FILTER_ENDPOINT without the correct file type"]
        InstrCountMissing "drmemtrace/instr-count-missing" Error
            "A thread with filtered instructions has markers with their true number."
            "Checked at the end of the thread."
            ["Missing instr count markers"]
        InstrCountDecreases "drmemtrace/instr-count-decreases" Error
            "The true number of instructions never decreases."
            "" ["Instr count markers not increasing"]
    }
    "chunks" {
        ChunkCut "drmemtrace/chunk-cut" Error
            "A member of an archive ends with the footer of its chunk or of the file."
            "Otherwise it was cut off. Not checked for template files." []
        ChunkOrdinal "drmemtrace/chunk-ordinal" Error
            "The footers of chunks count up from 0."
            "" ["Chunks do not increase monotonically"]
        ChunkInstrs "drmemtrace/chunk-instrs" Error
            "Each chunk but the last has as many instructions as the header says, and the last has no more."
            "Otherwise seeking to an instruction by its number goes to the wrong place. DynamoRIO checks at each footer whether the total is a multiple, and does not check the last chunk. Not checked for template files."
            ["Chunk instruction counts are inconsistent"]
        ChunkStart "drmemtrace/chunk-start" Error
            "Each chunk but the first begins with its record ordinal and repeats the last clock reading and processor."
            "A reader that starts at the chunk needs all three. DynamoRIO does not check this." []
        RecordOrdinal "drmemtrace/record-ordinal" Error
            "The record ordinal of a chunk equals the number of records before it."
            "After seeking to the chunk, every ordinal is off by the difference. Every verb reports it, states the loss if the chunk counts more, and continues with the chunk's own ordinals. DynamoRIO does not check this." []
        ChunkEncoding "drmemtrace/chunk-encoding" Error
            "An instruction's encoding is repeated in each chunk that executes it."
            "A reader that starts at the chunk needs it. Not checked for files of cores and template files." []
    }
    "time and processors" {
        TimeBackwards "drmemtrace/time-backwards" Error
            "The clock of a thread never runs backwards."
            "In traces with windows of several threads, DynamoRIO's converter itself makes it run backwards by milliseconds. In traces of 32-bit programs the clock may wrap around."
            ["Timestamp does not increase monotonically"]
        ClockMissing "drmemtrace/clock-missing" Warning
            "The header is followed by a clock reading."
            "Not checked for template files." []
        ProcessorMissing "drmemtrace/processor-missing" Error
            "A clock reading is followed by the processor, optionally with a window marker in between."
            "Schedules are derived from these pairs. Not checked for template files." []
        ClockInKernel "drmemtrace/clock-in-kernel" Warning
            "Kernel code of a system call or switch has no clock readings inside."
            "" []
        WindowBackwards "drmemtrace/window-backwards" Error
            "The numbers of tracing windows never decrease within a file."
            "" []
    }
    "flow of control" {
        PcDiscontinuity "drmemtrace/pc-discontinuity" Error
            "An instruction directly follows the one before it, unless a branch or a marker explains the jump."
            "Also accepted: filtered instructions, further iterations, the first instruction of kernel code, a change of window, any instruction after `sysenter`, and in kernel code any instruction after `hlt` or up to two instructions after `sti`. Kernel code recorded by Intel PT has known gaps; both DynamoRIO and Quipu report them."
            ["Non-explicit control flow has no marker"]
        BranchTarget "drmemtrace/branch-target" Error
            "A branch goes to the target in its encoding, or to the recorded target."
            "A branch that was not taken falls through. Before version 5, only direct branches can be checked. Not checked for REGDEPS."
            ["Branch does not go to the correct target"]
        DuplicateSyscall "drmemtrace/duplicate-syscall" Error
            "A system call is not followed by itself."
            "If a signal arrived before the call completed, the converter must drop the first one."
            ["Duplicate syscall instrs with the same PC"]
        RseqSideExit "drmemtrace/rseq-side-exit" Error
            "A restartable sequence is not left through a side exit without a branch."
            "Detected as a gap after a store if the last branch was conditional: the converter lost the branch."
            ["PC discontinuity due to rseq side exit"]
        EventPcDiscontinuity "drmemtrace/event-pc-discontinuity" Error
            "The interrupted address follows the last instruction before the interruption."
            "It may also be that instruction itself, which is then executed again."
            ["Non-explicit control flow has no marker @ kernel_event marker", "Non-explicit control flow has no marker @ hardware_event marker"]
        EventBranchTarget "drmemtrace/event-branch-target" Error
            "If the last instruction before an interruption is a branch, the interrupted address is its target."
            "" ["Branch does not go to the correct target @ kernel_event marker", "Branch does not go to the correct target @ hardware_event marker"]
        EventRseqSideExit "drmemtrace/event-rseq-side-exit" Error
            "Right before an interruption, a restartable sequence is not left through a side exit without a branch."
            "" ["PC discontinuity due to rseq side exit @ kernel_event marker", "PC discontinuity due to rseq side exit @ hardware_event marker"]
        BranchUndecodable "drmemtrace/branch-undecodable" Error
            "The encoding of a direct branch can be decoded."
            "The target is part of the encoding."
            ["Branch target is not decodeable"]
        BranchSeparated "drmemtrace/branch-separated" Error
            "There is no clock reading between a branch and the next instruction, unless a signal intervenes."
            "Streams of threads are interleaved at clock readings, and a branch must stay with its successor. Not checked for filtered instructions, between templates, nor at the end of a core's kernel code."
            ["Branch target not immediately after branch"]
        ConditionalJump "drmemtrace/conditional-jump" Error
            "From version 5 on, the type of a conditional jump tells whether it was taken."
            "Type 13 must not occur, unless instructions are filtered."
            ["The CONDITIONAL_JUMP type is deprecated and should not appear"]
        TargetMissing "drmemtrace/target-missing" Error
            "From version 5 on, an indirect branch has its target."
            "Not checked for filtered instructions. In kernel code, the last branch of a thread may go to 0."
            ["Indirect branches must contain targets"]
        TargetStray "drmemtrace/target-stray" Error
            "A branch target belongs to an indirect branch."
            "The target precedes another instruction. DynamoRIO's reader assigns it to the next indirect branch, so its checker never reports this, although it has a message for it."
            ["Indirect target should be 0 for non-indirect-branches"]
    }
    "encodings" {
        NoEncoding "drmemtrace/no-encoding" Error
            "If the file type promises encodings, every instruction has one, at its first execution at the latest."
            "Counted once per address in a chunk. DynamoRIO aborts here. Not checked for files of cores and template files." []
        EncodingBit "drmemtrace/encoding-bit" Error
            "Encodings require the file-type bit 0x200."
            "" []
        EncodingLength "drmemtrace/encoding-length" Error
            "An encoding is as long as its instruction."
            "Not checked for REGDEPS." []
        EncodingTooLong "drmemtrace/encoding-too-long" Error
            "An encoding has at most 16 bytes, in pieces of at most 8."
            "DynamoRIO's limit is 15, so it stops at the first REGDEPS instruction of 16 bytes." []
        EncodingAlone "drmemtrace/encoding-alone" Error
            "An encoding is followed by its instruction, with at most a branch target in between."
            "" []
        Undecodable "drmemtrace/undecodable" Warning
            "An encoding is a valid instruction of the architecture."
            "It is damaged, or Quipu's decoder does not know the instruction." []
        InstrLength "drmemtrace/instr-length" Error
            "The length of an instruction equals the decoded length of its encoding."
            "" []
        InstrType "drmemtrace/instr-type" Error
            "The type of an instruction matches its encoding."
            "For example, a call is recorded as a call. Not checked for kernel code, where returns to user code are recorded in several ways." []
    }
    "data" {
        MissingReads "drmemtrace/missing-reads" Error
            "An instruction is followed by as many reads as it has operands to read."
            "Prefetches and flushes count as reads. Not checked for filtered traces, traces without data, REGDEPS, conditional operations, string operations that may repeat zero times, gathers and scatters, kernel code without data, and instructions followed by a marker `skipped_memref` for an access that could not be placed."
            ["Missing read records"]
        MissingWrites "drmemtrace/missing-writes" Error
            "An instruction is followed by as many writes as it has operands to write."
            "As `missing-reads`. DynamoRIO complains of every trace without data (file-type bit 0x4); this does not."
            ["Missing write records"]
        TooManyReads "drmemtrace/too-many-reads" Error
            "An instruction is followed by no more reads than it has operands to read."
            "DynamoRIO reports gathers, and nearly every read of a trace with filtered instructions; Quipu does not. In kernel code, `iret` and the `xsave` family may read more."
            ["Too many read records"]
        TooManyWrites "drmemtrace/too-many-writes" Error
            "An instruction is followed by no more writes than it has operands to write."
            "In kernel code, the `xsave` family may write more."
            ["Too many write records"]
        AccessSize "drmemtrace/access-size" Warning
            "An access has the size of the operand."
            "Checked if all operands of the same direction have one known size. DynamoRIO does not check this." []
        DataAlone "drmemtrace/data-alone" Error
            "An access follows an instruction."
            "Otherwise its instruction is unknown. Not checked if the file type says that instructions are missing." []
        DataBit "drmemtrace/data-bit" Error
            "A trace with the file-type bit 0x4 has no data accesses."
            "With the bit 0x8000, kernel code has none." []
        FunctionBeforeData "drmemtrace/function-before-data" Error
            "There is no function marker between an instruction and its accesses."
            "" ["Function marker misplaced between instr and memref"]
        PhysicalAlone "drmemtrace/physical-alone" Error
            "A physical address is directly followed by its virtual address."
            "" ["Physical addr marker not immediately prior to virtual marker"]
        PhysicalOffset "drmemtrace/physical-offset" Error
            "A physical and a virtual address are equal in their last twelve bits."
            "" ["Physical addr bottom 12 bits do not match virtual"]
    }
    "system calls" {
        SyscallMarkerMissing "drmemtrace/syscall-marker-missing" Error
            "If the file type promises numbers, a system call is followed by its number."
            "Reported at the next instruction."
            ["Syscall marker missing after syscall instruction"]
        SyscallMarkerMisplaced "drmemtrace/syscall-marker-misplaced" Error
            "The number of a system call follows a system call."
            "" ["Syscall marker not placed after syscall instruction"]
        SyscallClockMissing "drmemtrace/syscall-clock-missing" Error
            "From version 6 on, the number of a system call is preceded by clock and processor."
            "" ["Syscall marker not preceded by timestamp + cpuid"]
        BlockingMisplaced "drmemtrace/blocking-misplaced" Error
            "The marker of a call that may block directly follows the call's number."
            "Not checked for REGDEPS, where numbers are removed."
            ["Maybe-blocking marker not preceded by syscall marker"]
    }
    "kernel code" {
        KernelBit "drmemtrace/kernel-bit" Error
            "Kernel code of system calls requires a file-type bit."
            "The bit is one of 0x1000, 0x4000, 0x8000 and 0x40000."
            ["Found kernel syscall trace without corresponding file type"]
        SyscallTraceMissing "drmemtrace/syscall-trace-missing" Error
            "If the file type promises kernel code (0x1000), each system call has some."
            "Reported at the next instruction of the program."
            ["Missing system call trace"]
        SyscallTraceNested "drmemtrace/syscall-trace-nested" Error
            "Kernel code of a system call does not begin inside another."
            "" ["Nested kernel syscall traces are not expected"]
        SyscallTraceTwice "drmemtrace/syscall-trace-twice" Error
            "A system call has at most one trace of its kernel code."
            "Not checked for filtered instructions and template files."
            ["Found multiple syscall traces after a user-space instr"]
        SyscallTraceAlone "drmemtrace/syscall-trace-alone" Error
            "Kernel code of a system call follows the call's number, with only markers that describe the call in between."
            "Not checked for template files, nor for Intel PT, whose code may come late."
            ["System call trace found without prior syscall marker or unexpected intervening records"]
        SyscallTraceNumber "drmemtrace/syscall-trace-number" Error
            "The markers at both ends of a system call's kernel code have the number of the call."
            "" ["Mismatching syscall num in trace start and syscall marker", "Mismatching syscall num in trace end and syscall marker"]
        SyscallTraceInstr "drmemtrace/syscall-trace-instr" Error
            "The instruction before the kernel code of a system call is a system call."
            "" ["prev_instr at syscall trace start is not a syscall"]
        SyscallTraceEnd "drmemtrace/syscall-trace-end" Error
            "The end of a system call's kernel code has a matching start."
            "" ["Found kernel syscall trace end without start"]
        SyscallTraceBranch "drmemtrace/syscall-trace-branch" Error
            "Kernel code of a system call ends with an indirect branch."
            "The branch is the return to the program. Not checked for Intel PT."
            ["System call trace does not end with indirect branch"]
        SyscallTraceEvents "drmemtrace/syscall-trace-events" Error
            "Inside the kernel code of a system call, the number of interruptions equals the number of returns from them."
            "" ["Syscall trace has extra context event marker", "Syscall trace has extra kernel_xfer marker", "Syscall trace has extra hardware_context_return marker"]
        AfterSyscallTrace "drmemtrace/after-syscall-trace" Error
            "Markers that describe a system call precede its kernel code."
            "These are arguments, may-block and scheduling markers."
            ["Found unexpected func_arg or syscall marker after injected syscall trace"]
        ExitAfterZero "drmemtrace/exit-after-zero" Error
            "A return to address 0 at the end of kernel code is followed by the thread's exit."
            "" ["Expected thread exit after branch-to-zero in syscall trace"]
        SwitchTraceMissing "drmemtrace/switch-trace-missing" Error
            "In files of cores that promise kernel code, a core switches threads by kernel code of a context switch."
            "Checked only for cores that have any such code, because no bit says whether a trace with kernel code of system calls has it. DynamoRIO reports it for every such trace." ["Missing context switch trace"]
        SwitchTraceNested "drmemtrace/switch-trace-nested" Error
            "Kernel code of a context switch does not begin inside another."
            "" ["Nested kernel context switch traces are not expected"]
        SwitchType "drmemtrace/switch-type" Error
            "A context switch is between threads (1) or processes (2)."
            "" ["Invalid switch type"]
        SwitchTraceEnd "drmemtrace/switch-trace-end" Error
            "The end of a context switch's kernel code has a matching start."
            "" ["Found kernel context switch trace end without start"]
        SwitchTraceBranch "drmemtrace/switch-trace-branch" Error
            "Kernel code of a context switch ends with an indirect branch."
            "" ["Switch trace does not end with indirect branch"]
        SwitchTraceEvents "drmemtrace/switch-trace-events" Error
            "Inside the kernel code of a context switch, the number of interruptions equals the number of returns from them."
            "" ["Context switch trace has extra context event marker", "Context switch trace has extra kernel_xfer marker", "Context switch trace has extra hardware_context_return marker"]
        KernelOpen "drmemtrace/kernel-open" Error
            "Every start of kernel code has a matching end."
            "Checked at the end of each thread. DynamoRIO does not check this." []
        KernelEndTarget "drmemtrace/kernel-end-target" Error
            "The last branch of kernel code goes to the instruction that follows."
            "If a signal comes first, it goes to the interrupted address."
            ["Kernel trace-end branch marker does not match next pc", "Kernel trace-end branch marker does not match next pc @ kernel_event marker", "Kernel trace-end branch marker does not match next pc @ hardware_event marker", "Kernel trace-end branch marker does not match context-first kernel_event marker"]
        InterruptDepth "drmemtrace/interrupt-depth" Error
            "Interrupts are nested less than 30 deep."
            "If they are nested deeper, returns are probably missing."
            ["Possibly missing hardware_context_return markers."]
        InterruptBit "drmemtrace/interrupt-bit" Error
            "Interrupts require the file-type bit 0x40000."
            "" ["Hardware context marker found in non-whole-system trace"]
        TemplateMixed "drmemtrace/template-mixed" Error
            "A template file has kernel code of either system calls or context switches."
            "" ["Expected either switch or syscall traces in the template file"]
        TemplateDefault "drmemtrace/template-default" Error
            "A template file of system calls has a default for all other calls, number 0x0fffffff."
            "" ["Missing default syscall trace in template file"]
        TemplateSwitches "drmemtrace/template-switches" Error
            "A template file of context switches has one between threads and one between processes."
            "" ["Missing switch traces in template file"]
    }
    "signals and restartable sequences" {
        EventValue "drmemtrace/event-value" Error
            "An interruption says which address was interrupted, and a return where it came from."
            "Traces of version 1 have neither: both DynamoRIO and Quipu report each. In whole-system traces, a return from an interrupt has no value; DynamoRIO requires one anyway."
            ["Kernel event marker value missing"]
        ReturnMismatch "drmemtrace/return-mismatch" Error
            "A return from a signal matches a signal, and a return from an interrupt matches an interrupt."
            "" ["Mismatched signal/interrupt context return marker"]
        SignalReturn "drmemtrace/signal-return" Error
            "After a signal's handler, execution continues at the interrupted address."
            "Also accepted: `sysenter`, a direct jump (which DynamoRIO takes for the abort handler of a restartable sequence), filtered instructions, and a return whose signal came before the trace. A handler that jumps out, or that changes the return address, breaks the rule without damage."
            ["Signal handler return point incorrect"]
        InterruptReturn "drmemtrace/interrupt-return" Error
            "After an interrupt's handler, execution continues at the interrupted address."
            "" ["Interrupt handler return point incorrect", "Syscall return point incorrect in wholesys trace"]
        SignalNumber "drmemtrace/signal-number" Warning
            "The number of a signal directly follows the interruption."
            "" []
        RseqMarker "drmemtrace/rseq-marker" Error
            "The abort of a restartable sequence is directly followed by an interruption."
            "" ["Rseq marker not immediately prior to kernel marker"]
        RseqExit "drmemtrace/rseq-exit" Error
            "A restartable sequence is left by a marker, a branch or its last instruction."
            "" ["Rseq region exit requires marker, branch, or commit"]
        RseqSignal "drmemtrace/rseq-signal" Error
            "A signal inside a restartable sequence aborts it."
            "" ["Signal in rseq region should have abort marker"]
        RseqCommit "drmemtrace/rseq-commit" Error
            "The last instruction of an aborted restartable sequence was not executed."
            "An exception is an instruction that itself caused the abort."
            ["Rseq post-abort instruction not rolled back"]
    }
    "traced functions" {
        FunctionReturn "drmemtrace/function-return" Error
            "A function's return address matches the last call."
            "Programs that use `longjmp` or stack unwinding break the rule without damage."
            ["Function marker retaddr should match prior call"]
        FunctionBranch "drmemtrace/function-branch" Error
            "Markers of a function follow a branch."
            "Not checked for system calls, nor before the first instruction."
            ["Function marker should be after a branch"]
        FunctionAlone "drmemtrace/function-alone" Error
            "Return addresses, arguments and results follow the marker with their function's id."
            "" []
    }
    "REGDEPS" {
        RegdepsDecode "drmemtrace/regdeps-decode" Error
            "Every synthetic instruction can be decoded."
            "Its length is always a multiple of four. The other properties that DynamoRIO checks (mode, operation, kinds of operands, flags) always hold for these bytes."
            ["DR_ISA_REGDEPS instructions should always succeed during decoding", "DR_ISA_REGDEPS instruction has incorrect length, it's not a multiple of REGDEPS_ALIGN_BYTES = 4"]
        RegdepsArch "drmemtrace/regdeps-arch" Error
            "The file type names no real architecture."
            "" ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have otherOFFLINE_FILE_TYPE_ARCH_*"]
        RegdepsCpu "drmemtrace/regdeps-cpu" Error
            "Processors are unknown (all ones)."
            "A convention of published traces. Conversion to REGDEPS alone does not remove processors, so both DynamoRIO and Quipu report such traces."
            ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have a valid TRACE_MARKER_TYPE_CPU_ID"]
        RegdepsMarker "drmemtrace/regdeps-marker" Error
            "Markers of system calls, signals and real encodings are removed."
            "These are kinds 19, 25, 27, 28, 30, 40 and 41. A convention of published traces, as `regdeps-cpu`."
            ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_IDX markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_TRACE_START markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_TRACE_END markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_FAILED markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SIGNAL_NUMBER markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_UNCOMPLETED_INSTRUCTION markers"]
        RegdepsFunction "drmemtrace/regdeps-function" Error
            "Only calls of futex are traced."
            "A convention of published traces, as `regdeps-cpu`."
            ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_FUNC_ID markers related to functions that are not SYS_futex"]
    }
    "schedule files" {
        ScheduleFile "drmemtrace/schedule-file" Warning
            "A schedule file can be read."
            "DynamoRIO's converter leaves both files empty unless the trace is an archive; its checker reports them as wrong, Quipu treats them as absent."
            ["Failed to read serial schedule file: ", "Failed to read cpu schedule file: "]
        SerialScheduleCount "drmemtrace/serial-schedule-count" Error
            "The serial schedule has as many time slices as the trace."
            "All slices are counted, or adjacent ones of one thread as one. Not checked for files of cores."
            ["Serial schedule entry count does not match trace"]
        SerialScheduleEntry "drmemtrace/serial-schedule-entry" Error
            "Each time slice of the serial schedule occurs in the trace."
            "Before version 5, instructions are counted within their chunk. Not checked for files of cores."
            ["Serial schedule entry does not match trace"]
        CpuScheduleCount "drmemtrace/cpu-schedule-count" Error
            "The schedule of each processor has as many time slices as the trace."
            "As for `serial-schedule-count`. A processor that does not occur in the trace crashes DynamoRIO."
            ["Cpu schedule entry count does not match trace"]
        CpuScheduleEntry "drmemtrace/cpu-schedule-entry" Error
            "Each time slice of a processor's schedule occurs in the trace."
            "As for `serial-schedule-entry`."
            ["Cpu schedule entry does not match trace"]
        ScheduleTooLong "drmemtrace/schedule-too-long" Note
            "The schedule is short enough to be compared."
            "The comparison keeps 32 bytes for each processor marker, for at most four million markers." []
        ScheduleThread "drmemtrace/schedule-thread" Error
            "The schedule contains every thread of the trace."
            "Reported when threads are arranged by the cores of a schedule (`--order cores`, `convert --sharding cores`): records of threads that are not in it are left out." []
        ScheduleBackwards "drmemtrace/schedule-backwards" Error
            "The time slices of a thread, in order of time, are also in the order of its instructions."
            "Reported when threads are arranged by the cores of a schedule, as `schedule-thread`, for files of version 5 or later. No records are left out, but their cores and order may be wrong." []
        ScheduleUnreached "drmemtrace/schedule-unreached" Error
            "Each time slice of the schedule begins within its thread."
            "Reported when threads are arranged by the cores of a schedule, as `schedule-thread`, after a core is read to its end. No records are left out." []
        ScheduleSource "drmemtrace/schedule-source" Note
            "The processor of each thread is known from the trace's own processor markers."
            "Reported when threads are arranged by cores. For threads without such markers, and for more than four million markers, `cpu_schedule.bin.zip` beside the trace is used. It omits returns of a thread to a processor that no other thread used in between, so some instructions may be placed on another core. If the file cannot be read, this is an error, not a warning." []
    }
}

/// True for rules about how a file is divided into chunks.
pub(super) fn is_of_chunks(rule: &str) -> bool {
    rule.starts_with("drmemtrace/chunk-") || rule == "drmemtrace/record-ordinal"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_lower_case_words_with_hyphens() {
        let mut seen = HashSet::new();
        for rule in RULES {
            assert!(seen.insert(rule.name), "{}", rule.name);
            assert!(seen.insert(rule.short_name()), "{}", rule.name);
            assert!(
                rule.name.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == '/'),
                "{}",
                rule.name
            );
            assert!(rule.summary.ends_with('.'), "{}", rule.name);
        }
    }

    #[test]
    fn a_rule_is_found_by_its_name() {
        assert_eq!(Rule::named("drmemtrace/pc-discontinuity"), Some(Rule::PcDiscontinuity));
        assert_eq!(Rule::PcDiscontinuity.info().name, "drmemtrace/pc-discontinuity");
        assert_eq!(Rule::named("drmemtrace/none"), None);
    }
}
