"""A method for each analysis. `python generate.py` writes this file from the descriptions of the analyses."""

from __future__ import annotations

import os
from typing import Any, Literal

from ._result import Result


class Analyses:
    """Analyses of a trace, those of all formats.

    Each takes, beside its options, what `Trace.run` takes: `records`, `instrs` and `time` for a part, `threads`,
    `interval_instrs`, `interval_us` and `per_core` for results of parts, `jobs`, `progress`. An option of such a name has an
    underscore after it.
    """

    def _analysis(self, name: str, options: dict[str, Any], how: dict[str, Any]) -> Result:
        raise NotImplementedError

    def aggregate(
        self,
        *,
        by: str | None = None,
        agg: str | None = None,
        where: str | None = None,
        of: str | None = None,
        top: int | str | None = None,
        keys_limit: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Counts, sums and histograms of any columns, by any keys.

        by: Keys: comma-separated expressions, each optionally with `AS name`; default none.
        agg: Comma-separated aggregations: count, sum, avg, min, max, stddev, quantize, lquantize, llquantize; default
            count().
        where: Only rows for which this expression is true; default all.
        of: Table or lens whose rows are aggregated; default any.
        top: How many keys to list; 0 for all; default 20.
        keys_limit: Maximum number of keys; default 1000000.
        """
        options: dict[str, Any] = {
            "by": by,
            "agg": agg,
            "where": where,
            "of": of,
            "top": top,
            "keys-limit": keys_limit,
        }
        return self._analysis("aggregate", options, how)

    def aggregations(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """The values of aggregations, and their histograms.

        For traces of format dtrace, stream.

        top: How many keys of each variable to list; default 20.
        """
        return self._analysis("aggregations", {"top": top}, how)

    def branches(
        self,
        *,
        top: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Conditional branches taken or not, jumps, calls, returns, targets of computed branches.

        top: Number of sites in each list; default 10.
        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("branches", {"top": top, "per-thread": per_thread}, how)

    def caches(
        self,
        *,
        cores: int | str | None = None,
        line_size: int | str | None = None,
        l1i_size: int | str | None = None,
        l1i_assoc: int | str | None = None,
        l1d_size: int | str | None = None,
        l1d_assoc: int | str | None = None,
        ll_size: int | str | None = None,
        ll_assoc: int | str | None = None,
        policy: Literal["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM", "OPT"] | None = None,
        prefetcher: Literal["none", "nextline", "stride", "stream"] | None = None,
        coherence: bool | None = None,
        machine: str | None = None,
        skip_refs: int | str | None = None,
        warmup_refs: int | str | None = None,
        warmup_fraction: float | None = None,
        sim_refs: int | str | None = None,
        reset_at: str | None = None,
        cpu_scheduling: bool | None = None,
        causes: bool | None = None,
        top: int | str | None = None,
        binary: str | os.PathLike[str] | None = None,
        types: str | os.PathLike[str] | None = None,
        base: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Hits and misses of a machine's caches for the trace.

        cores: Cores of the machine; default 4.
        line_size: Bytes in a line, a power of two; default 64.
        l1i_size: Size of each L1 instruction cache, with K, M or G; default 32K.
        l1i_assoc: Its associativity; default 8.
        l1d_size: Size of each L1 data cache; default 32K.
        l1d_assoc: Its associativity; default 8.
        ll_size: Size of the shared last-level cache; default 8M.
        ll_assoc: Its associativity; default 16.
        policy: Replacement policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; default LRU.
        prefetcher: Prefetcher of L1 data caches: none, nextline, stride or stream; default nextline.
        coherence: Invalidate written lines in other cores' caches.
        machine: Machine of a real processor, such as amd-zen3; `quipu sim --machine list` lists them with their
            sources; default none.
        skip_refs: Skip this many records first; markers do not count; default 0.
        warmup_refs: Warm up with this many records, then start the statistics; default 0.
        warmup_fraction: Warm up until this share of the last-level caches is filled, 0.0 to 1.0; default 0.
        sim_refs: Simulate this many records after the warm-up; default all.
        reset_at: Reset the statistics but keep the lines: after this many instructions, or at each mark of a name;
            comma-separated; default none.
        cpu_scheduling: Run threads on the processors that the trace names.
        causes: Classify misses as compulsory, capacity or conflict.
        top: How many instructions with most misses to list; default 10.
        binary: Program whose debug information describes types and variables; default none.
        types: File of types from Cacheray's extractor; used for types that the program lacks; default none.
        base: Load address of the program, if it differs from that in its file; default 0.
        """
        options: dict[str, Any] = {
            "cores": cores,
            "line-size": line_size,
            "l1i-size": l1i_size,
            "l1i-assoc": l1i_assoc,
            "l1d-size": l1d_size,
            "l1d-assoc": l1d_assoc,
            "ll-size": ll_size,
            "ll-assoc": ll_assoc,
            "policy": policy,
            "prefetcher": prefetcher,
            "coherence": coherence,
            "machine": machine,
            "skip-refs": skip_refs,
            "warmup-refs": warmup_refs,
            "warmup-fraction": warmup_fraction,
            "sim-refs": sim_refs,
            "reset-at": reset_at,
            "cpu-scheduling": cpu_scheduling,
            "causes": causes,
            "top": top,
            "binary": binary,
            "types": types,
            "base": base,
        }
        return self._analysis("caches", options, how)

    def calls(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Calls by function, thread and frame: counts, draws, raw memory.

        For traces of format apitrace.

        top: Number of functions and frames to list; default 30.
        """
        return self._analysis("calls", {"top": top}, how)

    def categories(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """How often instructions of each category are executed.

        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("categories", {"per-thread": per_thread}, how)

    def counts(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Numbers of records of each kind, in total and for each thread.

        For traces of format cacheray, drmemtrace.

        per_thread: Each thread's counts are always printed; accepted for compatibility with other tools.
        """
        return self._analysis("counts", {"per-thread": per_thread}, how)

    def frames(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Calls, draws and raw memory of each frame.

        For traces of format apitrace.

        top: Number of frames to list; default 20.
        """
        return self._analysis("frames", {"top": top}, how)

    def functions(
        self,
        *,
        tree: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Traced functions and system calls: counts, and a tree of calls with arguments.

        tree: Number of calls to list for each thread, as a tree; default 100.
        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("functions", {"tree": tree, "per-thread": per_thread}, how)

    def graphics(
        self,
        *,
        top: int | str | None = None,
        pictures: int | str | None = None,
        shaders: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Draws, textures, buffers and shaders, and errors of graphics calls.

        For traces of format apitrace.

        top: Number of rows in each list; default 20.
        pictures: How many texture images to keep; default 24.
        shaders: Number of shader sources to keep; default 24.
        """
        return self._analysis("graphics", {"top": top, "pictures": pictures, "shaders": shaders}, how)

    def heatmap(
        self,
        **how: Any,
    ) -> Result:
        """Accesses by address and time, as a map."""
        return self._analysis("heatmap", {}, how)

    def histogram(
        self,
        *,
        line_size: int | str | None = None,
        top: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """How often each cache line is touched.

        line_size: Bytes in a line, a power of two; default 64.
        top: Number of lines to list on each side; default 10.
        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("histogram", {"line-size": line_size, "top": top, "per-thread": per_thread}, how)

    def hot(
        self,
        *,
        top: int | str | None = None,
        line_size: int | str | None = None,
        page_size: int | str | None = None,
        syntax: str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Most executed instructions, blocks and functions, most used lines and pages.

        top: How many rows each list has; default 10.
        line_size: Bytes in a line, a power of two; default 64.
        page_size: Bytes in a page, a power of two; default 4096.
        syntax: Syntax of x86 disassembly: att or intel; default att.
        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        options: dict[str, Any] = {
            "top": top,
            "line-size": line_size,
            "page-size": page_size,
            "syntax": syntax,
            "per-thread": per_thread,
        }
        return self._analysis("hot", options, how)

    def layout(
        self,
        *,
        type: str | None = None,
        binary: str | os.PathLike[str] | None = None,
        types: str | os.PathLike[str] | None = None,
        base: int | str | None = None,
        order: str | None = None,
        split: str | None = None,
        arrays: Literal["soa", "aos"] | None = None,
        pad: str | list[str] | None = None,
        align: int | str | None = None,
        remap: str | os.PathLike[str] | None = None,
        language: Literal["c", "cpp", "rust"] | None = None,
        cores: int | str | None = None,
        line_size: int | str | None = None,
        l1i_size: int | str | None = None,
        l1i_assoc: int | str | None = None,
        l1d_size: int | str | None = None,
        l1d_assoc: int | str | None = None,
        ll_size: int | str | None = None,
        ll_assoc: int | str | None = None,
        policy: Literal["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM", "OPT"] | None = None,
        prefetcher: Literal["none", "nextline", "stride", "stream"] | None = None,
        coherence: bool | None = None,
        config: str | os.PathLike[str] | None = None,
        machine: str | None = None,
        **how: Any,
    ) -> Result:
        """Misses with other layouts of a type.

        type: The type, in C, C++, Rust or LLVM syntax; without other options, layouts of it are proposed; default
            none.
        binary: Program whose debug information describes types and variables; default none.
        types: File of types from Cacheray's extractor; used for types that the program lacks; default none.
        base: Load address of the program, if it differs from that in its file; default 0.
        order: Order of members; all others follow; default none.
        split: Split off hot members: their names, `cold=` and names, or `hot` to find them; default none.
        arrays: An array for each member, or one array of structures; default none.
        pad: Padding: `MEMBER=BYTES`, `MEMBER=line`, or `line` to give each element lines of its own; default none.
        align: Alignment of each element; default 0.
        remap: Remap file of Cacheray's simulator, which places members; default none.
        language: Language of the new declaration; default as the type.
        cores: Cores of the machine; default 4.
        line_size: Bytes in a line, a power of two; default 64.
        l1i_size: Size of each L1 instruction cache, with K, M or G; default 32K.
        l1i_assoc: Its associativity; default 8.
        l1d_size: Size of each L1 data cache; default 32K.
        l1d_assoc: Its associativity; default 8.
        ll_size: Size of the shared last-level cache; default 8M.
        ll_assoc: Its associativity; default 16.
        policy: Replacement policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; default LRU.
        prefetcher: Prefetcher of L1 data caches: none, nextline, stride or stream; default nextline.
        coherence: Invalidate written lines in other cores' caches.
        config: Configuration file of drmemtrace's simulator; it defines all caches; default none.
        machine: Machine of a real processor, such as amd-zen3; `quipu sim --machine list` lists them with their
            sources; default none.
        """
        options: dict[str, Any] = {
            "type": type,
            "binary": binary,
            "types": types,
            "base": base,
            "order": order,
            "split": split,
            "arrays": arrays,
            "pad": pad,
            "align": align,
            "remap": remap,
            "language": language,
            "cores": cores,
            "line-size": line_size,
            "l1i-size": l1i_size,
            "l1i-assoc": l1i_assoc,
            "l1d-size": l1d_size,
            "l1d-assoc": l1d_assoc,
            "ll-size": ll_size,
            "ll-assoc": ll_assoc,
            "policy": policy,
            "prefetcher": prefetcher,
            "coherence": coherence,
            "config": config,
            "machine": machine,
        }
        return self._analysis("layout", options, how)

    def leaks(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Objects that are created and never destroyed, by kind and context.

        For traces of format apitrace.

        top: Number of leaked objects to list; default 100.
        """
        return self._analysis("leaks", {"top": top}, how)

    def miss_ratio(
        self,
        *,
        line_size: int | str | None = None,
        sample: str | None = None,
        side: Literal["all", "instr", "data"] | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """The share of accesses that a cache of each size would miss.

        line_size: Bytes in a line, a power of two; default 64.
        sample: Sample this share of the lines (below 1), or at most this many lines; default none.
        side: Which accesses: all, instr or data; default all.
        per_thread: Separate threads that share a file; threads with their own files are always separate.
        """
        options: dict[str, Any] = {
            "line-size": line_size,
            "sample": sample,
            "side": side,
            "per-thread": per_thread,
        }
        return self._analysis("miss-ratio", options, how)

    def misses(
        self,
        *,
        cores: int | str | None = None,
        line_size: int | str | None = None,
        l1i_size: int | str | None = None,
        l1i_assoc: int | str | None = None,
        l1d_size: int | str | None = None,
        l1d_assoc: int | str | None = None,
        ll_size: int | str | None = None,
        ll_assoc: int | str | None = None,
        policy: Literal["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM", "OPT"] | None = None,
        prefetcher: Literal["none", "nextline", "stride", "stream"] | None = None,
        coherence: bool | None = None,
        machine: str | None = None,
        skip_refs: int | str | None = None,
        warmup_refs: int | str | None = None,
        warmup_fraction: float | None = None,
        sim_refs: int | str | None = None,
        cpu_scheduling: bool | None = None,
        count: int | str | None = None,
        share: float | None = None,
        confidence: float | None = None,
        **how: Any,
    ) -> Result:
        """Loads that miss the last-level cache with a steady stride.

        cores: Cores of the machine; default 4.
        line_size: Bytes in a line, a power of two; default 64.
        l1i_size: Size of each L1 instruction cache, with K, M or G; default 32K.
        l1i_assoc: Its associativity; default 8.
        l1d_size: Size of each L1 data cache; default 32K.
        l1d_assoc: Its associativity; default 8.
        ll_size: Size of the shared last-level cache; default 8M.
        ll_assoc: Its associativity; default 16.
        policy: Replacement policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; default LRU.
        prefetcher: Prefetcher of L1 data caches: none, nextline, stride or stream; default nextline.
        coherence: Invalidate written lines in other cores' caches.
        machine: Machine of a real processor, such as amd-zen3; `quipu sim --machine list` lists them with their
            sources; default none.
        skip_refs: Skip this many records first; markers do not count; default 0.
        warmup_refs: Warm up with this many records, then start the statistics; default 0.
        warmup_fraction: Warm up until this share of the last-level caches is filled, 0.0 to 1.0; default 0.
        sim_refs: Simulate this many records after the warm-up; default all.
        cpu_scheduling: Run threads on the processors that the trace names.
        count: Report loads with at least this many misses; default 50000.
        share: Or with at least this share of all misses, 0.0 to 1.0; default 0.005.
        confidence: Minimum share of a load's misses with the same stride, 0.0 to 1.0; default 0.75.
        """
        options: dict[str, Any] = {
            "cores": cores,
            "line-size": line_size,
            "l1i-size": l1i_size,
            "l1i-assoc": l1i_assoc,
            "l1d-size": l1d_size,
            "l1d-assoc": l1d_assoc,
            "ll-size": ll_size,
            "ll-assoc": ll_assoc,
            "policy": policy,
            "prefetcher": prefetcher,
            "coherence": coherence,
            "machine": machine,
            "skip-refs": skip_refs,
            "warmup-refs": warmup_refs,
            "warmup-fraction": warmup_fraction,
            "sim-refs": sim_refs,
            "cpu-scheduling": cpu_scheduling,
            "count": count,
            "share": share,
            "confidence": confidence,
        }
        return self._analysis("misses", options, how)

    def mix(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Shares of executed instructions by category, loads and stores per instruction.

        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("mix", {"per-thread": per_thread}, how)

    def opcodes(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """How often each operation is executed.

        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("opcodes", {"per-thread": per_thread}, how)

    def reuse_distance(
        self,
        *,
        line_size: int | str | None = None,
        threshold: int | str | None = None,
        limit: int | str | None = None,
        bins: str | None = None,
        top: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """How many other cache lines are used between two uses of a line.

        line_size: Bytes in a line, a power of two; default 64.
        threshold: Distance above which a reference counts as distant; default 100.
        limit: Maximum number of lines on a stack; the lowest is pruned; 0 for no limit; default 0.
        bins: Ratio of the widths of consecutive histogram bins; 1 gives each number a bin of its own; default 2.
        top: Number of lines in each list; default 10.
        per_thread: Separate threads that share a file; threads with their own files are always separate.
        """
        options: dict[str, Any] = {
            "line-size": line_size,
            "threshold": threshold,
            "limit": limit,
            "bins": bins,
            "top": top,
            "per-thread": per_thread,
        }
        return self._analysis("reuse-distance", options, how)

    def reuse_time(
        self,
        *,
        line_size: int | str | None = None,
        bins: str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """How many data accesses lie between two uses of a cache line.

        line_size: Bytes in a line, a power of two; default 64.
        bins: Ratio of the widths of consecutive histogram bins; 1 gives each number a bin of its own; default 2.
        per_thread: Separate threads that share a file; threads with their own files are always separate.
        """
        return self._analysis("reuse-time", {"line-size": line_size, "bins": bins, "per-thread": per_thread}, how)

    def schedule(
        self,
        *,
        letter: int | str | None = None,
        steps: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """When threads and cores run: processors, system calls, busy and idle time.

        letter: How many instruction, idle or wait records each letter of a core's schedule stands for; default
            500000.
        steps: Maximum number of steps of the chart of threads or cores; default 64.
        per_thread: No effect: threads are always listed; accepted for consistency with other tools.
        """
        return self._analysis("schedule", {"letter": letter, "steps": steps, "per-thread": per_thread}, how)

    def schedule_files(
        self,
        **how: Any,
    ) -> Result:
        """Compares the schedule files beside a trace with the trace.

        For traces of format drmemtrace.
        """
        return self._analysis("schedule-files", {}, how)

    def sweep(
        self,
        *,
        level: str | None = None,
        sizes: str | None = None,
        ways: str | None = None,
        policies: str | None = None,
        line_sizes: str | None = None,
        prefetchers: str | None = None,
        bound: bool | None = None,
        cores: int | str | None = None,
        l1i_size: int | str | None = None,
        l1i_assoc: int | str | None = None,
        l1d_size: int | str | None = None,
        l1d_assoc: int | str | None = None,
        prefetcher: Literal["none", "nextline", "stride", "stream"] | None = None,
        warmup_instrs: int | str | None = None,
        skip_refs: int | str | None = None,
        warmup_refs: int | str | None = None,
        sim_refs: int | str | None = None,
        cpu_scheduling: bool | None = None,
        threads_: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Misses of caches of many sizes, ways and policies, in one read.

        level: Caches to vary: l1i, l1d, l1 (one for both) or ll; default l1d.
        sizes: Sizes in bytes, with K, M or G; a range doubles; default 4K..1M.
        ways: Associativities; default 1..16.
        policies: Replacement policies: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM, OPT; default LRU.
        line_sizes: Line sizes in bytes, powers of two; default 64.
        prefetchers: Prefetchers of these caches: none, nextline, stride, stream; default none.
        bound: Compare each with Belady's optimal policy.
        cores: Cores of the machine; default 4.
        l1i_size: With `ll`: size of each L1 instruction cache; default 32K.
        l1i_assoc: Its associativity; default 8.
        l1d_size: With `ll`: size of each L1 data cache; default 32K.
        l1d_assoc: Its associativity; default 8.
        prefetcher: With `ll`: prefetcher of L1 data caches; default nextline.
        warmup_instrs: Start the statistics after this many instructions; default 0.
        skip_refs: Skip this many records first; markers do not count; default 0.
        warmup_refs: Warm up with this many records, then start the statistics; default 0.
        sim_refs: Simulate this many records after the warm-up; default all.
        cpu_scheduling: Run threads on the processors that the trace names.
        threads_: Number of worker threads; default all.
        """
        options: dict[str, Any] = {
            "level": level,
            "sizes": sizes,
            "ways": ways,
            "policies": policies,
            "line-sizes": line_sizes,
            "prefetchers": prefetchers,
            "bound": bound,
            "cores": cores,
            "l1i-size": l1i_size,
            "l1i-assoc": l1i_assoc,
            "l1d-size": l1d_size,
            "l1d-assoc": l1d_assoc,
            "prefetcher": prefetcher,
            "warmup-instrs": warmup_instrs,
            "skip-refs": skip_refs,
            "warmup-refs": warmup_refs,
            "sim-refs": sim_refs,
            "cpu-scheduling": cpu_scheduling,
            "threads": threads_,
        }
        return self._analysis("sweep", options, how)

    def syscalls(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Which system calls are made, how they end, how long they take.

        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("syscalls", {"per-thread": per_thread}, how)

    def timeline(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Firings of probes over time, by CPU, and the outcomes of speculations.

        For traces of format dtrace.

        top: Number of probes to draw; default 20.
        """
        return self._analysis("timeline", {"top": top}, how)

    def tlbs(
        self,
        *,
        cores: int | str | None = None,
        page_size: int | str | None = None,
        l1i_entries: int | str | None = None,
        l1i_assoc: int | str | None = None,
        l1d_entries: int | str | None = None,
        l1d_assoc: int | str | None = None,
        l2_entries: int | str | None = None,
        l2_assoc: int | str | None = None,
        policy: Literal["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM", "OPT"] | None = None,
        machine: str | None = None,
        skip_refs: int | str | None = None,
        warmup_refs: int | str | None = None,
        sim_refs: int | str | None = None,
        reset_at: str | None = None,
        cpu_scheduling: bool | None = None,
        causes: bool | None = None,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Hits and misses of a machine's TLBs for the trace.

        cores: Cores of the machine; default 4.
        page_size: Page size, a power of two, such as 4K, 2M or 1G; default 4K.
        l1i_entries: Entries of each L1 instruction TLB; default 32.
        l1i_assoc: Its associativity; default 32.
        l1d_entries: Entries of each L1 data TLB; default 32.
        l1d_assoc: Its associativity; default 32.
        l2_entries: Entries of each L2 TLB; default 1024.
        l2_assoc: Its associativity; default 4.
        policy: Replacement policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; default LFU.
        machine: Machine of a real processor, such as amd-zen3; `quipu sim --machine list` lists them with their
            sources; default none.
        skip_refs: Skip this many records first; markers do not count; default 0.
        warmup_refs: Warm up with this many records, then start the statistics; default 0.
        sim_refs: Simulate this many records after the warm-up; default all.
        reset_at: Reset the statistics but keep the lines: after this many instructions, or at each mark of a name;
            comma-separated; default none.
        cpu_scheduling: Run threads on the processors that the trace names.
        causes: Classify misses as compulsory, capacity or conflict.
        top: How many instructions with most misses to list; default 10.
        """
        options: dict[str, Any] = {
            "cores": cores,
            "page-size": page_size,
            "l1i-entries": l1i_entries,
            "l1i-assoc": l1i_assoc,
            "l1d-entries": l1d_entries,
            "l1d-assoc": l1d_assoc,
            "l2-entries": l2_entries,
            "l2-assoc": l2_assoc,
            "policy": policy,
            "machine": machine,
            "skip-refs": skip_refs,
            "warmup-refs": warmup_refs,
            "sim-refs": sim_refs,
            "reset-at": reset_at,
            "cpu-scheduling": cpu_scheduling,
            "causes": causes,
            "top": top,
        }
        return self._analysis("tlbs", options, how)

    def types(
        self,
        *,
        binary: str | os.PathLike[str] | None = None,
        types: str | os.PathLike[str] | None = None,
        base: int | str | None = None,
        places: str | os.PathLike[str] | None = None,
        top: int | str | None = None,
        cores: int | str | None = None,
        line_size: int | str | None = None,
        l1i_size: int | str | None = None,
        l1i_assoc: int | str | None = None,
        l1d_size: int | str | None = None,
        l1d_assoc: int | str | None = None,
        ll_size: int | str | None = None,
        ll_assoc: int | str | None = None,
        policy: Literal["LRU", "LFU", "FIFO", "BIT_PLRU", "TREE_PLRU", "RRIP", "RANDOM", "OPT"] | None = None,
        prefetcher: Literal["none", "nextline", "stride", "stream"] | None = None,
        coherence: bool | None = None,
        cpu_scheduling: bool | None = None,
        config: str | os.PathLike[str] | None = None,
        machine: str | None = None,
        **how: Any,
    ) -> Result:
        """Accesses and misses by type and field.

        binary: Program whose debug information describes types and variables; default none.
        types: File of types from Cacheray's extractor; used for types that the program lacks; default none.
        base: Load address of the program, if it differs from that in its file; default 0.
        places: File that says where regions were allocated, as recording writes it beside a trace: `NAME.places`;
            default none.
        top: Number of types, sites and lines to list; default 10.
        cores: Cores of the machine; default 4.
        line_size: Bytes in a line, a power of two; default 64.
        l1i_size: Size of each L1 instruction cache, with K, M or G; default 32K.
        l1i_assoc: Its associativity; default 8.
        l1d_size: Size of each L1 data cache; default 32K.
        l1d_assoc: Its associativity; default 8.
        ll_size: Size of the shared last-level cache; default 8M.
        ll_assoc: Its associativity; default 16.
        policy: Replacement policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; default LRU.
        prefetcher: Prefetcher of L1 data caches: none, nextline, stride or stream; default nextline.
        coherence: Invalidate written lines in other cores' caches.
        cpu_scheduling: Run threads on the processors that the trace names.
        config: Configuration file of drmemtrace's simulator; it defines all caches; default none.
        machine: Machine of a real processor, such as amd-zen3; `quipu sim --machine list` lists them with their
            sources; default none.
        """
        options: dict[str, Any] = {
            "binary": binary,
            "types": types,
            "base": base,
            "places": places,
            "top": top,
            "cores": cores,
            "line-size": line_size,
            "l1i-size": l1i_size,
            "l1i-assoc": l1i_assoc,
            "l1d-size": l1d_size,
            "l1d-assoc": l1d_assoc,
            "ll-size": ll_size,
            "ll-assoc": ll_assoc,
            "policy": policy,
            "prefetcher": prefetcher,
            "coherence": coherence,
            "cpu-scheduling": cpu_scheduling,
            "config": config,
            "machine": machine,
        }
        return self._analysis("types", options, how)

    def working_set(
        self,
        *,
        line_size: int | str | None = None,
        page_size: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Distinct cache lines and pages, in total and over time.

        line_size: Bytes in a line, a power of two; default 64.
        page_size: Bytes in a page, a power of two; default 4096.
        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        options: dict[str, Any] = {
            "line-size": line_size,
            "page-size": page_size,
            "per-thread": per_thread,
        }
        return self._analysis("working-set", options, how)

    def workload(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Work of threads and functions, communication between threads, and the critical path.

        For traces of format prism.

        top: Number of functions to list; default 20.
        """
        return self._analysis("workload", {"top": top}, how)
