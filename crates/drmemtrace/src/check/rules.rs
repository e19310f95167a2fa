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
            "What stands before the end is read; reading continues with the next member, if there is one." []
        SourceMalformed "source/malformed" Error
            "The bytes of a container follow its format."
            "Checksums are part of it: what follows the last byte that a right checksum vouches for is not the trace, and no verb counts it. Reading continues with the next member, if there is one. Of a pipe, which cannot be read again, the finding says from which record on numbers are doubtful." []
        SourceUnsupported "source/unsupported" Error
            "A container is packed in a way that can be unpacked."
            "The member is left out." []
        SourceLimit "source/limit" Error
            "No number in a container exceeds the limits of this program."
            "The member is left out." []
        Unreadable "engine/unreadable" Error
            "Every file of the trace can be read to its end."
            "The first file that cannot is an error of its own; this names further ones." []
        Oversized "engine/oversized-access" Error
            "No access has more than 1 MiB, and no range of memory more than 16 MiB."
            "No instruction touches more memory at once, so the number is damage. Copies and fills are ranges in streams and recordings, which `quipu cc` splits into parts of at most 16 MiB. Every verb reports such a record, which counts as lost: `view` prints it, while analyses, simulators and conversions leave its access out. Flushes may be larger." []
        PartialEntry "drmemtrace/partial-entry" Error
            "A stream, or a member of an archive, has whole entries only."
            "Bytes are left over after the last whole entry of twelve bytes (eight with `--open entry-bytes=8`): something was cut." []
        UnknownType "drmemtrace/unknown-type" Error
            "Every entry has a known type."
            "A larger number is damage or a newer version. The entry is passed over. DynamoRIO looks the name up out of range, ends the run early and still succeeds." []
        Nonsense "drmemtrace/nonsense" Error
            "Entries make sense."
            "Of 64 entries, counted from the beginning of their member, more than 8 have types from 64 on or are twelve zero bytes, which no tracer writes: that is no trace. Every verb stops before the first of them and continues with the next member, if there is one. Damage is looked for at each eighth entry. Fewer unknown types are passed over one by one." []
        OddEntries "drmemtrace/odd-entries" Warning
            "Encodings are whole, and belong to their instructions; so are long flushes."
            "Verbs that read such entries take them as they are and warn; others do not look at them. `quipu check` judges each by a rule of its own: `no-encoding`, `encoding-length`, `encoding-too-long`, `flush-end`." []
        UnknownMarker "drmemtrace/unknown-marker" Warning
            "No marker has a kind of the reserved range, 47 to 100."
            "Such a marker was written by a newer version, or is damage. It is kept. Kinds above 100 are anyone's." []
        OnlineType "drmemtrace/online-type" Warning
            "Files have no entries that only a tracer's pipe or a simulator makes."
            "Bundles (17), instructions that may be a further iteration (30) and prefetches by hardware (27) are read, but no converter writes them." []
        RawMarker "drmemtrace/raw-marker" Error
            "Final files have no markers that belong to raw files."
            "Kinds 8, 42 and 45 are for the converter, which must have replaced them. DynamoRIO looks for kind 45 only."
            ["TRACE_MARKER_TYPE_KERNEL_EVENT_RAW should not appear in the final trace"]
        FlushEnd "drmemtrace/flush-end" Error
            "The end of a long flush follows its beginning."
            "A flush of more than 65535 bytes is two entries, the first of size 0." []
        MissingChunk "drmemtrace/missing-chunk" Error
            "Chunks of an archive are numbered without gaps."
            "The number stands in the name of the member. Reading continues with the chunk after the gap." []
        MissingFile "drmemtrace/missing-file" Error
            "Each thread and each core that the schedule files name has a file."
            "Files of threads that were not chosen may be missing. Files of cores are counted; where no schedule file lies beside them, nothing says how many there were." []
        RepeatedFile "drmemtrace/repeated-file" Warning
            "A folder has one file for each thread."
            "Two files begin with the same thread, process and clock reading: one is a copy. Numbers count both, as those of DynamoRIO do, which does not mention it." []
        NoHeader "drmemtrace/no-header" Error
            "The first entry of a file is a header."
            "DynamoRIO refuses such a file." []
        NoFooter "drmemtrace/no-footer" Error
            "A file ends with a footer."
            "Without one the trace was cut, or its converter died. DynamoRIO does not mention it." []
        AfterFooter "drmemtrace/after-footer" Error
            "Nothing but a further whole trace follows a footer."
            "In files of cores footers stand where threads end, so anything may follow there." []
        StrayFile "drmemtrace/stray-file" Note
            "A folder of traces holds traces and their known companions only."
            "The file is skipped. DynamoRIO takes every file for a trace and fails." []
        SeveralWindows "drmemtrace/several-windows" Note
            "A folder stands for one trace."
            "A folder of separate windows is several traces; the first is read." []
        FunctionList "drmemtrace/function-list" Warning
            "`funclist.log` can be read."
            "Functions are shown by number." []
    }
    "headers and ends" {
        HeaderOrder "drmemtrace/header-order" Error
            "Between a header and its process stand markers and the thread only."
            "Who reads the file queues what stands there until the thread and the process are known." []
        VersionMissing "drmemtrace/version-missing" Warning
            "From version 2 on, the header is followed by a version marker."
            "Tools that see records only cannot tell the version otherwise." []
        VersionMismatch "drmemtrace/version-mismatch" Error
            "The version marker says what the header says."
            "DynamoRIO does not compare them." []
        NewerVersion "drmemtrace/newer-version" Warning
            "The version is one that is known."
            "Reading continues by the rules of the newest known one." []
        FiletypeMissing "drmemtrace/filetype-missing" Warning
            "From version 2 on, the header has a file-type marker."
            "Without it the architecture is unknown, and so is what the file leaves out." []
        HeaderChanges "drmemtrace/header-changes" Error
            "What a header says is not said otherwise later in the file."
            "Files of cores repeat a header for each thread. Version, file type, line size, page size and chunk size must stay; a reader that starts elsewhere in the file knows the first only."
            ["Stream interface filetype != trace marker", "Stream interface version != trace marker", "Stream interface cache line size != trace marker", "Stream interface page size != trace marker", "Stream interface chunk instr count != trace marker"]
        SeveralArchs "drmemtrace/several-archs" Error
            "The file type names one architecture at most."
            "For REGDEPS traces `regdeps-arch` says it. DynamoRIO does not look." []
        KernelAndWholeSystem "drmemtrace/kernel-and-whole-system" Error
            "A trace of the whole system has no separate kernel code of system calls."
            "The two file-type bits, 0x40000 and 0x1000, exclude each other."
            ["Trace cannot have both whole_system and kernel_syscalls bit set"]
        VectorLength "drmemtrace/vector-length" Error
            "A vector length is a multiple of 16 from 16 to 256, on AArch64."
            "DynamoRIO decides by the machine that it was built for; this goes by the trace."
            ["Vector length marker has invalid size", "Unexpected vector length marker"]
        LineSizeMissing "drmemtrace/line-size-missing" Error
            "A thread that ends had a cache-line size in its header."
            "Traces of version 1 have none: DynamoRIO complains of each, and so does this."
            ["Missing cache line marker"]
        PageSizeMissing "drmemtrace/page-size-missing" Error
            "A thread that ends had a page size in its header."
            "Traces of version 1 have none: DynamoRIO complains of each, and so does this."
            ["Missing page size marker"]
        ExitMissing "drmemtrace/exit-missing" Error
            "The file of a thread ends with the thread's exit."
            "Tracing that stopped early leaves it out. Not for files of cores."
            ["Thread is missing exit"]
        AfterExit "drmemtrace/after-exit" Error
            "A thread that has ended executes nothing more."
            "An instruction or access follows the exit of its thread." []
        NoInstructions "drmemtrace/no-instructions" Error
            "An unfiltered thread executes at least one instruction."
            "Not for filtered instructions and template files."
            ["An unfiltered thread should have at least 1 user-space instruction"]
        NoProcess "drmemtrace/no-process" Warning
            "Records belong to a process."
            "A record stands before any process entry, so tools see process 0." []
        WrongThread "drmemtrace/wrong-thread" Error
            "The file of a thread has records of that thread only."
            "Not for files of cores, nor for streams of several threads of the first versions."
            ["Shard tid != memref tid"]
        SyscallNumbersBit "drmemtrace/syscall-numbers-bit" Error
            "System-call markers and the file-type bit 0x400 come together."
            "Judged at a thread's end, if there were any."
            ["System call numbers presence does not match filetype"]
        BlockingBit "drmemtrace/blocking-bit" Error
            "Markers of calls that may block come with the file-type bit 0x800 only."
            "The bit may stand alone: which calls may block is unknown."
            ["Kernel scheduling marker presence does not match filetype"]
        EndpointMissing "drmemtrace/endpoint-missing" Error
            "With the file-type bit 0x2000 there is a marker where filtering stops."
            "Judged at a thread's end; where threads take turns, at the end of the file, because filtering stops for all of them at once. DynamoRIO's converter sets the bit and leaves the marker out where only data is filtered; its checker rightly complains."
            ["Expected to find TRACE_MARKER_TYPE_FILTER_ENDPOINT for the given file type"]
        EndpointBit "drmemtrace/endpoint-bit" Error
            "A marker where filtering stops comes with the file-type bit 0x2000."
            "" ["Found TRACE_MARKER_TYPE_FILTER_ENDPOINT without the correct file type"]
        InstrCountMissing "drmemtrace/instr-count-missing" Error
            "A thread whose instructions are filtered has markers that tell their true number."
            "Judged at the thread's end."
            ["Missing instr count markers"]
        InstrCountDecreases "drmemtrace/instr-count-decreases" Error
            "The true number of instructions never decreases."
            "" ["Instr count markers not increasing"]
    }
    "chunks" {
        ChunkCut "drmemtrace/chunk-cut" Error
            "A member of an archive ends with the footer of its chunk or of the file."
            "Otherwise it was cut. Not for template files." []
        ChunkOrdinal "drmemtrace/chunk-ordinal" Error
            "The footers of chunks count up from 0."
            "" ["Chunks do not increase monotonically"]
        ChunkInstrs "drmemtrace/chunk-instrs" Error
            "Each chunk but the last has as many instructions as the header says, and the last has no more."
            "Otherwise a jump to an instruction by its number lands elsewhere. DynamoRIO looks whether the total is a multiple at each footer, and not at the last chunk. Not for template files."
            ["Chunk instruction counts are inconsistent"]
        ChunkStart "drmemtrace/chunk-start" Error
            "A chunk but the first begins with its record ordinal and with the last clock reading and processor once more."
            "A reader that starts there learns all three from them. DynamoRIO does not look." []
        RecordOrdinal "drmemtrace/record-ordinal" Error
            "A chunk says rightly how many records stand before it."
            "Every ordinal after a jump to the chunk is wrong by the difference. Every verb reports it, says what is lost where the chunk counts more, and continues with the chunk's own ordinals. DynamoRIO does not compare." []
        ChunkEncoding "drmemtrace/chunk-encoding" Error
            "An instruction's encoding is given again in each chunk that executes it."
            "A reader that starts at the chunk has no other. Not for files of cores and template files." []
    }
    "time and processors" {
        TimeBackwards "drmemtrace/time-backwards" Error
            "The clock of a thread never runs back."
            "In traces with windows of several threads DynamoRIO's converter itself makes it run back by milliseconds. In traces of 32-bit programs the clock may wrap."
            ["Timestamp does not increase monotonically"]
        ClockMissing "drmemtrace/clock-missing" Warning
            "The header is followed by a clock reading."
            "Not for template files." []
        ProcessorMissing "drmemtrace/processor-missing" Error
            "A clock reading is followed by the processor, perhaps with a window between."
            "Which core ran what hangs on it. Not for template files." []
        ClockInKernel "drmemtrace/clock-in-kernel" Warning
            "Kernel code of a system call or switch has no clock readings inside."
            "" []
        WindowBackwards "drmemtrace/window-backwards" Error
            "The numbers of tracing windows never decrease within a file."
            "" []
    }
    "flow of control" {
        PcDiscontinuity "drmemtrace/pc-discontinuity" Error
            "An instruction follows the one before it, unless a branch or a marker says why not."
            "Accepted are also: filtered instructions, further iterations, the first instruction of kernel code, a change of window, what follows `sysenter`, and in kernel code what follows `hlt` or at most two instructions after `sti`. Kernel code recorded by Intel PT is known for gaps; DynamoRIO complains of it, and so does this."
            ["Non-explicit control flow has no marker"]
        BranchTarget "drmemtrace/branch-target" Error
            "A branch goes where its encoding, or the recorded target, says."
            "A branch that was not taken continues after itself. Before version 5 only direct branches can be judged. Not for REGDEPS."
            ["Branch does not go to the correct target"]
        DuplicateSyscall "drmemtrace/duplicate-syscall" Error
            "A system call is not followed by itself."
            "The converter must drop the first when a signal came before the call was done."
            ["Duplicate syscall instrs with the same PC"]
        RseqSideExit "drmemtrace/rseq-side-exit" Error
            "A restartable sequence is not left by its side without a branch."
            "A gap after a store, where the last branch was conditional: the mark of a converter that lost the branch."
            ["PC discontinuity due to rseq side exit"]
        EventPcDiscontinuity "drmemtrace/event-pc-discontinuity" Error
            "The interrupted address follows the last instruction of what was interrupted."
            "The address in the marker may be that instruction itself, which is then executed again."
            ["Non-explicit control flow has no marker @ kernel_event marker", "Non-explicit control flow has no marker @ hardware_event marker"]
        EventBranchTarget "drmemtrace/event-branch-target" Error
            "If the last instruction before an interruption is a branch, the interrupted address is its target."
            "" ["Branch does not go to the correct target @ kernel_event marker", "Branch does not go to the correct target @ hardware_event marker"]
        EventRseqSideExit "drmemtrace/event-rseq-side-exit" Error
            "A restartable sequence is not left by its side without a branch, right before an interruption."
            "" ["PC discontinuity due to rseq side exit @ kernel_event marker", "PC discontinuity due to rseq side exit @ hardware_event marker"]
        BranchUndecodable "drmemtrace/branch-undecodable" Error
            "The encoding of a direct branch can be decoded."
            "Its target is in it."
            ["Branch target is not decodeable"]
        BranchSeparated "drmemtrace/branch-separated" Error
            "No clock reading stands between a branch and the instruction after it, unless a signal comes between."
            "Streams of threads are interleaved at clock readings, and a branch must stay with its successor. Not for filtered instructions, between templates, nor where kernel code of a core ends."
            ["Branch target not immediately after branch"]
        ConditionalJump "drmemtrace/conditional-jump" Error
            "From version 5 on, a conditional jump says whether it was taken."
            "Type 13 must not appear, unless instructions are filtered."
            ["The CONDITIONAL_JUMP type is deprecated and should not appear"]
        TargetMissing "drmemtrace/target-missing" Error
            "From version 5 on, an indirect branch has its target."
            "Not where instructions are filtered. In kernel code the last branch of a thread's life may go to 0."
            ["Indirect branches must contain targets"]
        TargetStray "drmemtrace/target-stray" Error
            "A branch target belongs to an indirect branch."
            "It stands before an instruction that is none. DynamoRIO's reader gives the target to the next indirect branch, so its checker never sees this, although it has a message."
            ["Indirect target should be 0 for non-indirect-branches"]
    }
    "encodings" {
        NoEncoding "drmemtrace/no-encoding" Error
            "Every instruction has an encoding, given at its first execution at the latest, if the file type promises any."
            "Counted once for each address in a chunk. DynamoRIO aborts here. Not for files of cores and template files." []
        EncodingBit "drmemtrace/encoding-bit" Error
            "Encodings come with the file-type bit 0x200."
            "" []
        EncodingLength "drmemtrace/encoding-length" Error
            "An encoding is as long as its instruction."
            "Not for REGDEPS." []
        EncodingTooLong "drmemtrace/encoding-too-long" Error
            "An encoding has at most 16 bytes, in pieces of at most 8."
            "DynamoRIO's limit is 15, which stops it at the first REGDEPS instruction of 16." []
        EncodingAlone "drmemtrace/encoding-alone" Error
            "An encoding is followed by its instruction, with a branch target between at most."
            "" []
        Undecodable "drmemtrace/undecodable" Warning
            "An encoding is an instruction of the architecture."
            "Or it is one that the decoder does not know." []
        InstrLength "drmemtrace/instr-length" Error
            "An instruction is as long as its encoding decodes to."
            "" []
        InstrType "drmemtrace/instr-type" Error
            "The type of an instruction is that of its encoding."
            "A jump is a jump, a call a call. Kernel code is left out, where returns to user code are recorded in several ways." []
    }
    "data" {
        MissingReads "drmemtrace/missing-reads" Error
            "An instruction is followed by as many reads as it has operands to read."
            "Prefetches and flushes count as reads. Left out are: filtered traces, traces without data, REGDEPS, operations on a condition, repeated string operations that may not run at all, gathers and scatters, kernel code that has no data, and instructions after which a marker `skipped_memref` accounts for an access that could not be placed."
            ["Missing read records"]
        MissingWrites "drmemtrace/missing-writes" Error
            "An instruction is followed by as many writes as it has operands to write."
            "As `missing-reads`. DynamoRIO complains of every trace without data (file-type bit 0x4); this does not."
            ["Missing write records"]
        TooManyReads "drmemtrace/too-many-reads" Error
            "An instruction is followed by no more reads than it has operands to read."
            "DynamoRIO complains of gathers, and of nearly every read of a trace with filtered instructions; this does not. In kernel code `iret` and the `xsave` family may read more."
            ["Too many read records"]
        TooManyWrites "drmemtrace/too-many-writes" Error
            "An instruction is followed by no more writes than it has operands to write."
            "In kernel code the `xsave` family may write more."
            ["Too many write records"]
        AccessSize "drmemtrace/access-size" Warning
            "An access has the size of the operand."
            "Looked at where all operands of the same direction have one known size. DynamoRIO does not look." []
        DataAlone "drmemtrace/data-alone" Error
            "An access follows an instruction."
            "It cannot be told which instruction it belongs to. Not where the file type says that instructions are missing." []
        DataBit "drmemtrace/data-bit" Error
            "A trace without data (file-type bit 0x4) has none."
            "Nor has kernel code with the bit 0x8000." []
        FunctionBeforeData "drmemtrace/function-before-data" Error
            "No function marker stands between an instruction and its accesses."
            "" ["Function marker misplaced between instr and memref"]
        PhysicalAlone "drmemtrace/physical-alone" Error
            "A physical address is followed by its virtual one at once."
            "" ["Physical addr marker not immediately prior to virtual marker"]
        PhysicalOffset "drmemtrace/physical-offset" Error
            "A physical and a virtual address are equal in their last twelve bits."
            "" ["Physical addr bottom 12 bits do not match virtual"]
    }
    "system calls" {
        SyscallMarkerMissing "drmemtrace/syscall-marker-missing" Error
            "A system call is followed by its number, if the file type promises numbers."
            "Found at the next instruction."
            ["Syscall marker missing after syscall instruction"]
        SyscallMarkerMisplaced "drmemtrace/syscall-marker-misplaced" Error
            "The number of a system call follows a system call."
            "" ["Syscall marker not placed after syscall instruction"]
        SyscallClockMissing "drmemtrace/syscall-clock-missing" Error
            "From version 6 on, clock and processor stand before the number of a system call."
            "" ["Syscall marker not preceded by timestamp + cpuid"]
        BlockingMisplaced "drmemtrace/blocking-misplaced" Error
            "The marker of a call that may block follows the call's number at once."
            "Not for REGDEPS, where numbers are removed."
            ["Maybe-blocking marker not preceded by syscall marker"]
    }
    "kernel code" {
        KernelBit "drmemtrace/kernel-bit" Error
            "Kernel code of system calls comes with a file-type bit for it."
            "One of 0x1000, 0x4000, 0x8000 and 0x40000."
            ["Found kernel syscall trace without corresponding file type"]
        SyscallTraceMissing "drmemtrace/syscall-trace-missing" Error
            "If the file type promises kernel code (0x1000), each system call has some."
            "Found at the next instruction of the program."
            ["Missing system call trace"]
        SyscallTraceNested "drmemtrace/syscall-trace-nested" Error
            "Kernel code of a system call does not begin inside another."
            "" ["Nested kernel syscall traces are not expected"]
        SyscallTraceTwice "drmemtrace/syscall-trace-twice" Error
            "A system call has its kernel code once."
            "Not for filtered instructions and template files."
            ["Found multiple syscall traces after a user-space instr"]
        SyscallTraceAlone "drmemtrace/syscall-trace-alone" Error
            "Kernel code of a system call follows the call's number, with nothing between but what describes the call."
            "Not for template files and Intel PT, whose code may come late."
            ["System call trace found without prior syscall marker or unexpected intervening records"]
        SyscallTraceNumber "drmemtrace/syscall-trace-number" Error
            "Kernel code of a system call has the number of the call, at both ends."
            "" ["Mismatching syscall num in trace start and syscall marker", "Mismatching syscall num in trace end and syscall marker"]
        SyscallTraceInstr "drmemtrace/syscall-trace-instr" Error
            "The instruction before the kernel code of a system call is a system call."
            "" ["prev_instr at syscall trace start is not a syscall"]
        SyscallTraceEnd "drmemtrace/syscall-trace-end" Error
            "Kernel code of a system call that ends has begun."
            "" ["Found kernel syscall trace end without start"]
        SyscallTraceBranch "drmemtrace/syscall-trace-branch" Error
            "Kernel code of a system call ends with an indirect branch."
            "The return to the program. Not for Intel PT."
            ["System call trace does not end with indirect branch"]
        SyscallTraceEvents "drmemtrace/syscall-trace-events" Error
            "Interruptions inside the kernel code of a system call are as many as returns from them."
            "" ["Syscall trace has extra context event marker", "Syscall trace has extra kernel_xfer marker", "Syscall trace has extra hardware_context_return marker"]
        AfterSyscallTrace "drmemtrace/after-syscall-trace" Error
            "What describes a system call stands before its kernel code."
            "Arguments, may-block and scheduling markers."
            ["Found unexpected func_arg or syscall marker after injected syscall trace"]
        ExitAfterZero "drmemtrace/exit-after-zero" Error
            "A return to address 0 at the end of kernel code is followed by the thread's exit."
            "" ["Expected thread exit after branch-to-zero in syscall trace"]
        SwitchTraceMissing "drmemtrace/switch-trace-missing" Error
            "In files of cores that promise kernel code, a core turns to another thread by kernel code of a switch."
            "Judged on cores that have such kernel code at all: no bit says whether a trace with kernel code of system calls has it. DynamoRIO misses it in each." ["Missing context switch trace"]
        SwitchTraceNested "drmemtrace/switch-trace-nested" Error
            "Kernel code of a context switch does not begin inside another."
            "" ["Nested kernel context switch traces are not expected"]
        SwitchType "drmemtrace/switch-type" Error
            "A context switch is between threads (1) or processes (2)."
            "" ["Invalid switch type"]
        SwitchTraceEnd "drmemtrace/switch-trace-end" Error
            "Kernel code of a context switch that ends has begun."
            "" ["Found kernel context switch trace end without start"]
        SwitchTraceBranch "drmemtrace/switch-trace-branch" Error
            "Kernel code of a context switch ends with an indirect branch."
            "" ["Switch trace does not end with indirect branch"]
        SwitchTraceEvents "drmemtrace/switch-trace-events" Error
            "Interruptions inside the kernel code of a context switch are as many as returns from them."
            "" ["Context switch trace has extra context event marker", "Context switch trace has extra kernel_xfer marker", "Context switch trace has extra hardware_context_return marker"]
        KernelOpen "drmemtrace/kernel-open" Error
            "Kernel code that begins also ends."
            "Judged where a thread ends. DynamoRIO does not look." []
        KernelEndTarget "drmemtrace/kernel-end-target" Error
            "The last branch of kernel code goes to the instruction that follows."
            "Or to the interrupted address, if a signal comes first."
            ["Kernel trace-end branch marker does not match next pc", "Kernel trace-end branch marker does not match next pc @ kernel_event marker", "Kernel trace-end branch marker does not match next pc @ hardware_event marker", "Kernel trace-end branch marker does not match context-first kernel_event marker"]
        InterruptDepth "drmemtrace/interrupt-depth" Error
            "Interrupts are nested less than 30 deep."
            "Returns from them are probably missing."
            ["Possibly missing hardware_context_return markers."]
        InterruptBit "drmemtrace/interrupt-bit" Error
            "Interrupts come with the file-type bit 0x40000."
            "" ["Hardware context marker found in non-whole-system trace"]
        TemplateMixed "drmemtrace/template-mixed" Error
            "A template file has kernel code either of system calls or of switches."
            "" ["Expected either switch or syscall traces in the template file"]
        TemplateDefault "drmemtrace/template-default" Error
            "Templates of system calls have one for all other calls, number 0x0fffffff."
            "" ["Missing default syscall trace in template file"]
        TemplateSwitches "drmemtrace/template-switches" Error
            "Templates of switches have one between threads and one between processes."
            "" ["Missing switch traces in template file"]
    }
    "signals and restartable sequences" {
        EventValue "drmemtrace/event-value" Error
            "An interruption says which address was interrupted, and a return where it came from."
            "Traces of version 1 do not: DynamoRIO complains of each, and so does this. A return from an interrupt of the whole system has no value; DynamoRIO asks for one all the same."
            ["Kernel event marker value missing"]
        ReturnMismatch "drmemtrace/return-mismatch" Error
            "A return from a signal belongs to a signal, one from an interrupt to an interrupt."
            "" ["Mismatched signal/interrupt context return marker"]
        SignalReturn "drmemtrace/signal-return" Error
            "After a signal's handler, execution continues at the interrupted address."
            "Accepted are also: `sysenter`, a direct jump (which DynamoRIO takes for the abort handler of a restartable sequence), filtered instructions, and a return whose signal came before the trace. A handler that is left by a jump out of it, or that changes where to go on, breaks the rule without any damage."
            ["Signal handler return point incorrect"]
        InterruptReturn "drmemtrace/interrupt-return" Error
            "After an interrupt's handler, execution continues at the interrupted address."
            "" ["Interrupt handler return point incorrect", "Syscall return point incorrect in wholesys trace"]
        SignalNumber "drmemtrace/signal-number" Warning
            "The number of a signal follows the interruption at once."
            "" []
        RseqMarker "drmemtrace/rseq-marker" Error
            "The abort of a restartable sequence is followed by an interruption at once."
            "" ["Rseq marker not immediately prior to kernel marker"]
        RseqExit "drmemtrace/rseq-exit" Error
            "A restartable sequence is left by a marker, a branch or its last instruction."
            "" ["Rseq region exit requires marker, branch, or commit"]
        RseqSignal "drmemtrace/rseq-signal" Error
            "A signal inside a restartable sequence aborts it."
            "" ["Signal in rseq region should have abort marker"]
        RseqCommit "drmemtrace/rseq-commit" Error
            "The last instruction of an aborted restartable sequence was not executed."
            "Unless it is the one that aborted it."
            ["Rseq post-abort instruction not rolled back"]
    }
    "traced functions" {
        FunctionReturn "drmemtrace/function-return" Error
            "A function's return address is that of the last call."
            "Programs that leave functions by `longjmp` or unwind them break the rule without any damage."
            ["Function marker retaddr should match prior call"]
        FunctionBranch "drmemtrace/function-branch" Error
            "Markers of a function follow a branch."
            "Not those of system calls, nor those before the first instruction."
            ["Function marker should be after a branch"]
        FunctionAlone "drmemtrace/function-alone" Error
            "Return addresses, arguments and results follow the marker that names their function."
            "" []
    }
    "REGDEPS" {
        RegdepsDecode "drmemtrace/regdeps-decode" Error
            "Every synthetic instruction can be decoded."
            "Its length is a multiple of four by construction. What DynamoRIO asks besides (mode, operation, kinds of operands, flags) cannot be otherwise in these bytes."
            ["DR_ISA_REGDEPS instructions should always succeed during decoding", "DR_ISA_REGDEPS instruction has incorrect length, it's not a multiple of REGDEPS_ALIGN_BYTES = 4"]
        RegdepsArch "drmemtrace/regdeps-arch" Error
            "The file type names no real architecture."
            "" ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have otherOFFLINE_FILE_TYPE_ARCH_*"]
        RegdepsCpu "drmemtrace/regdeps-cpu" Error
            "Processors are unknown (all ones)."
            "A convention of published traces. Converting to REGDEPS alone does not do it, so DynamoRIO complains of such traces, and so does this."
            ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have a valid TRACE_MARKER_TYPE_CPU_ID"]
        RegdepsMarker "drmemtrace/regdeps-marker" Error
            "Markers that tell of system calls, signals and real encodings are removed."
            "Kinds 19, 25, 27, 28, 30, 40 and 41. A convention of published traces, as `regdeps-cpu`."
            ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_IDX markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_TRACE_START markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_TRACE_END markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SYSCALL_FAILED markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_SIGNAL_NUMBER markers", "OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_UNCOMPLETED_INSTRUCTION markers"]
        RegdepsFunction "drmemtrace/regdeps-function" Error
            "Only calls of futex are traced."
            "A convention of published traces, as `regdeps-cpu`."
            ["OFFLINE_FILE_TYPE_ARCH_REGDEPS traces cannot have TRACE_MARKER_TYPE_FUNC_ID markers related to functions that are not SYS_futex"]
    }
    "schedule files" {
        ScheduleFile "drmemtrace/schedule-file" Warning
            "A schedule file can be read."
            "DynamoRIO's converter leaves both files empty beside everything but archives; its checker takes these for wrong, this takes them for absent."
            ["Failed to read serial schedule file: ", "Failed to read cpu schedule file: "]
        SerialScheduleCount "drmemtrace/serial-schedule-count" Error
            "The serial schedule has as many stretches as the trace."
            "In full, or with neighbours of one thread taken together. Not for files of cores."
            ["Serial schedule entry count does not match trace"]
        SerialScheduleEntry "drmemtrace/serial-schedule-entry" Error
            "Each stretch of the serial schedule is one of the trace."
            "Before version 5, instructions are counted within their chunk. Not for files of cores."
            ["Serial schedule entry does not match trace"]
        CpuScheduleCount "drmemtrace/cpu-schedule-count" Error
            "The schedule of each processor has as many stretches as the trace."
            "As `serial-schedule-count`. A processor that the trace does not know crashes DynamoRIO."
            ["Cpu schedule entry count does not match trace"]
        CpuScheduleEntry "drmemtrace/cpu-schedule-entry" Error
            "Each stretch of a processor's schedule is one of the trace."
            "As `serial-schedule-entry`."
            ["Cpu schedule entry does not match trace"]
        ScheduleTooLong "drmemtrace/schedule-too-long" Note
            "The schedule is short enough to be compared."
            "Comparing keeps 32 bytes for each processor marker, four million of them at most." []
        ScheduleThread "drmemtrace/schedule-thread" Error
            "The schedule knows every thread of the trace."
            "Told where threads are arranged by the cores of a schedule (`--order cores`, `convert --sharding cores`): records of a thread that it does not know are left out." []
        ScheduleBackwards "drmemtrace/schedule-backwards" Error
            "The stretches of a thread go on from each other as time does."
            "Told where threads are arranged by the cores of a schedule, as `schedule-thread`; in files of version 5 or later. All records are there, on cores and in an order that may be wrong." []
        ScheduleUnreached "drmemtrace/schedule-unreached" Error
            "Each stretch of the schedule begins within its thread."
            "Told where threads are arranged by the cores of a schedule, as `schedule-thread`, once a core is read to its end. All records are there." []
        ScheduleSource "drmemtrace/schedule-source" Note
            "The trace's own processor markers tell which thread ran where."
            "Told where threads are arranged by cores. Of threads without such markers, and where there are more than four million of them, `cpu_schedule.bin.zip` beside the trace tells; as it leaves out that a thread returns to a processor which no other thread had in between, some of its instructions may stand on another core. That the file cannot be read is an error there, not a warning." []
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
