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

        by: Keys: expressions with commas, each perhaps `AS name`; none if not said.
        agg: Aggregations with commas: count, sum, avg, min, max, stddev, quantize, lquantize, llquantize; count() if
            not said.
        where: Only rows for which this expression is true; all if not said.
        of: The table or lens whose rows are aggregated; any if not said.
        top: How many keys to list; 0 for all; 20 if not said.
        keys_limit: How many keys there may be; 1000000 if not said.
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

        top: How many keys of each variable to list; 20 if not said.
        """
        return self._analysis("aggregations", {"top": top}, how)

    def branches(
        self,
        *,
        top: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Conditions taken or not, jumps, calls, returns, targets of computed branches.

        top: How many sites each list has; 10 if not said.
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
        """How a machine's caches serve the trace.

        cores: Cores of the machine; 4 if not said.
        line_size: Bytes in a line, a power of two; 64 if not said.
        l1i_size: Size of each first instruction cache, with K, M or G; 32K if not said.
        l1i_assoc: Its ways; 8 if not said.
        l1d_size: Size of each first data cache; 32K if not said.
        l1d_assoc: Its ways; 8 if not said.
        ll_size: Size of the shared last cache; 8M if not said.
        ll_assoc: Its ways; 16 if not said.
        policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; LRU if not said.
        prefetcher: Of first data caches: none, nextline, stride or stream; nextline if not said.
        coherence: A write takes the line away from other cores' caches.
        skip_refs: Leave out this many records first; markers never count; 0 if not said.
        warmup_refs: Warm up with this many records, then begin the statistics; 0 if not said.
        warmup_fraction: Warm up until the last caches are filled so far, 0.0 to 1.0; 0 if not said.
        sim_refs: Simulate this many records after the warm-up; all if not said.
        reset_at: Begin the statistics anew, lines stay: after this many instructions, or at each mark of a name;
            several with commas; none if not said.
        cpu_scheduling: Threads run on the processors that the trace names.
        causes: Classify misses as compulsory, capacity or conflict.
        top: How many instructions to list that miss most; 10 if not said.
        binary: The program, whose debug information says types and variables; none if not said.
        types: A file of types, as Cacheray's extractor writes it; where both are given, for what the program does not
            know; none if not said.
        base: Where the program was loaded, if not where its file says; 0 if not said.
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

        top: How many functions and frames to list; 30 if not said.
        """
        return self._analysis("calls", {"top": top}, how)

    def categories(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """How often each kind of work is executed.

        per_thread: Also give the result for each thread, in the order in which threads first appear.
        """
        return self._analysis("categories", {"per-thread": per_thread}, how)

    def counts(
        self,
        *,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Records of each sort, in all and for each thread.

        For traces of format drmemtrace.

        per_thread: Each thread's counts are always given; accepted because other tools want to be asked.
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

        top: How many frames to list; 20 if not said.
        """
        return self._analysis("frames", {"top": top}, how)

    def functions(
        self,
        *,
        tree: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Traced functions and system calls: counts, and who calls whom with what.

        tree: How many calls of each thread to list, as a tree; 100 if not said.
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
        """What is drawn with what: draws, textures, buffers, shaders, errors.

        For traces of format apitrace.

        top: How many rows to list; 20 if not said.
        pictures: How many pictures of textures to keep; 24 if not said.
        shaders: How many shader sources to keep; 24 if not said.
        """
        return self._analysis("graphics", {"top": top, "pictures": pictures, "shaders": shaders}, how)

    def heatmap(
        self,
        **how: Any,
    ) -> Result:
        """Which addresses are touched when."""
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

        line_size: Bytes in a line, a power of two; 64 if not said.
        top: How many lines to list on each side; 10 if not said.
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
        """Instructions, blocks and functions executed most, lines and pages used most.

        top: How many rows each list has; 10 if not said.
        line_size: Bytes in a line, a power of two; 64 if not said.
        page_size: Bytes in a page, a power of two; 4096 if not said.
        syntax: Of x86 disassembly: att or intel; att if not said.
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
        **how: Any,
    ) -> Result:
        """What another layout of a type would give.

        type: The type, as C, C++, Rust or LLVM writes it; alone, layouts of it are proposed; none if not said.
        binary: The program, whose debug information says types and variables; none if not said.
        types: A file of types, as Cacheray's extractor writes it; where both are given, for what the program does not
            know; none if not said.
        base: Where the program was loaded, if not where its file says; 0 if not said.
        order: Members in this order; all others follow; none if not said.
        split: Hot members apart: their names, `cold=` and names, or `hot` to find them; none if not said.
        arrays: An array for each member, or one array of structures; none if not said.
        pad: Bytes left free: `MEMBER=BYTES`, `MEMBER=line`, or `line` for lines of its own for each element; none if
            not said.
        align: What each element's address is a multiple of; 0 if not said.
        remap: A file of Cacheray's simulator that says where members lie; none if not said.
        language: The language of the new declaration; as the type if not said.
        cores: Cores of the machine; 4 if not said.
        line_size: Bytes in a line, a power of two; 64 if not said.
        l1i_size: Size of each first instruction cache, with K, M or G; 32K if not said.
        l1i_assoc: Its ways; 8 if not said.
        l1d_size: Size of each first data cache; 32K if not said.
        l1d_assoc: Its ways; 8 if not said.
        ll_size: Size of the shared last cache; 8M if not said.
        ll_assoc: Its ways; 16 if not said.
        policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; LRU if not said.
        prefetcher: Of first data caches: none, nextline, stride or stream; nextline if not said.
        coherence: A write takes the line away from other cores' caches.
        config: A configuration file of drmemtrace's simulator; it says all of the caches; none if not said.
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
        }
        return self._analysis("layout", options, how)

    def leaks(
        self,
        *,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """Objects that are made and never destroyed, by kind and context.

        For traces of format apitrace.

        top: How many objects to list; 100 if not said.
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

        line_size: Bytes in a line, a power of two; 64 if not said.
        sample: Look at this share of the lines (below 1), or at no more lines than this; none if not said.
        side: Which accesses: all, instr or data; all if not said.
        per_thread: Keep apart threads that share a file; files of one thread each are kept apart anyway.
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
        """Which loads miss the last cache at a steady distance.

        cores: Cores of the machine; 4 if not said.
        line_size: Bytes in a line, a power of two; 64 if not said.
        l1i_size: Size of each first instruction cache, with K, M or G; 32K if not said.
        l1i_assoc: Its ways; 8 if not said.
        l1d_size: Size of each first data cache; 32K if not said.
        l1d_assoc: Its ways; 8 if not said.
        ll_size: Size of the shared last cache; 8M if not said.
        ll_assoc: Its ways; 16 if not said.
        policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; LRU if not said.
        prefetcher: Of first data caches: none, nextline, stride or stream; nextline if not said.
        coherence: A write takes the line away from other cores' caches.
        skip_refs: Leave out this many records first; markers never count; 0 if not said.
        warmup_refs: Warm up with this many records, then begin the statistics; 0 if not said.
        warmup_fraction: Warm up until the last caches are filled so far, 0.0 to 1.0; 0 if not said.
        sim_refs: Simulate this many records after the warm-up; all if not said.
        cpu_scheduling: Threads run on the processors that the trace names.
        count: This many misses are always enough; 50000 if not said.
        share: This share of all misses is enough, 0.0 to 1.0; 0.005 if not said.
        confidence: Share of a load's misses that have one distance, 0.0 to 1.0; 0.75 if not said.
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
        """What the executed instructions do, in shares.

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

        line_size: Bytes in a line, a power of two; 64 if not said.
        threshold: A reference at more than this distance is a distant one; 100 if not said.
        limit: Most lines on a stack, beyond which the lowest is pruned; 0 for no limit; 0 if not said.
        bins: How much wider each bin of the histogram is than the one before; 1 gives each number its own; 2 if not
            said.
        top: How many lines each list has; 10 if not said.
        per_thread: Keep apart threads that share a file; files of one thread each are kept apart anyway.
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
        """How many accesses of data lie between two uses of a cache line.

        line_size: Bytes in a line, a power of two; 64 if not said.
        bins: How much wider each bin of the histogram is than the one before; 1 gives each number its own; 2 if not
            said.
        per_thread: Keep apart threads that share a file; files of one thread each are kept apart anyway.
        """
        return self._analysis("reuse-time", {"line-size": line_size, "bins": bins, "per-thread": per_thread}, how)

    def schedule(
        self,
        *,
        letter: int | str | None = None,
        per_thread: bool | None = None,
        **how: Any,
    ) -> Result:
        """Who runs when: threads, processors, system calls, busy time.

        letter: How many instructions, idle or wait records a letter of a core's schedule stands for; 500000 if not
            said.
        per_thread: Each thread is always listed; accepted because other tools want to be asked.
        """
        return self._analysis("schedule", {"letter": letter, "per-thread": per_thread}, how)

    def schedule_files(
        self,
        **how: Any,
    ) -> Result:
        """Schedule files beside the trace, set against it.

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
        """How caches of many sizes, ways and policies would serve the trace.

        level: Which caches are tried: l1i, l1d, l1 (one for both) or ll; l1d if not said.
        sizes: Sizes in bytes, with K, M or G; a range doubles; 4K..1M if not said.
        ways: Lines in a set; 1..16 if not said.
        policies: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM, OPT; LRU if not said.
        line_sizes: Bytes in a line, powers of two; 64 if not said.
        prefetchers: Of the caches tried: none, nextline, stride, stream; none if not said.
        bound: Compare each with Belady's policy.
        cores: Cores of the machine; 4 if not said.
        l1i_size: With `ll`: size of each first instruction cache; 32K if not said.
        l1i_assoc: Its ways; 8 if not said.
        l1d_size: With `ll`: size of each first data cache; 32K if not said.
        l1d_assoc: Its ways; 8 if not said.
        prefetcher: With `ll`: of first data caches; nextline if not said.
        warmup_instrs: Begin the statistics after this many instructions; 0 if not said.
        skip_refs: Leave out this many records first; markers never count; 0 if not said.
        warmup_refs: Warm up with this many records, then begin the statistics; 0 if not said.
        sim_refs: Simulate this many records after the warm-up; all if not said.
        cpu_scheduling: Threads run on the processors that the trace names.
        threads_: How many threads share the work; all if not said.
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
        """Which probes fired when on which CPU, and what became of speculations.

        For traces of format dtrace.

        top: How many probes to draw; 20 if not said.
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
        skip_refs: int | str | None = None,
        warmup_refs: int | str | None = None,
        sim_refs: int | str | None = None,
        reset_at: str | None = None,
        cpu_scheduling: bool | None = None,
        causes: bool | None = None,
        top: int | str | None = None,
        **how: Any,
    ) -> Result:
        """How a machine's TLBs serve the trace.

        cores: Cores of the machine; 4 if not said.
        page_size: Bytes in a page, a power of two, such as 4K, 2M or 1G; 4K if not said.
        l1i_entries: Entries of each first TLB for instructions; 32 if not said.
        l1i_assoc: Its ways; 32 if not said.
        l1d_entries: Entries of each first TLB for data; 32 if not said.
        l1d_assoc: Its ways; 32 if not said.
        l2_entries: Entries of each second TLB; 1024 if not said.
        l2_assoc: Its ways; 4 if not said.
        policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; LFU if not said.
        skip_refs: Leave out this many records first; markers never count; 0 if not said.
        warmup_refs: Warm up with this many records, then begin the statistics; 0 if not said.
        sim_refs: Simulate this many records after the warm-up; all if not said.
        reset_at: Begin the statistics anew, lines stay: after this many instructions, or at each mark of a name;
            several with commas; none if not said.
        cpu_scheduling: Threads run on the processors that the trace names.
        causes: Classify misses as compulsory, capacity or conflict.
        top: How many instructions to list that miss most; 10 if not said.
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
        **how: Any,
    ) -> Result:
        """Which types and fields accesses and misses go to.

        binary: The program, whose debug information says types and variables; none if not said.
        types: A file of types, as Cacheray's extractor writes it; where both are given, for what the program does not
            know; none if not said.
        base: Where the program was loaded, if not where its file says; 0 if not said.
        top: How many types, places and lines to list; 10 if not said.
        cores: Cores of the machine; 4 if not said.
        line_size: Bytes in a line, a power of two; 64 if not said.
        l1i_size: Size of each first instruction cache, with K, M or G; 32K if not said.
        l1i_assoc: Its ways; 8 if not said.
        l1d_size: Size of each first data cache; 32K if not said.
        l1d_assoc: Its ways; 8 if not said.
        ll_size: Size of the shared last cache; 8M if not said.
        ll_assoc: Its ways; 16 if not said.
        policy: LRU, LFU, FIFO, BIT_PLRU, TREE_PLRU, RRIP, RANDOM or OPT; LRU if not said.
        prefetcher: Of first data caches: none, nextline, stride or stream; nextline if not said.
        coherence: A write takes the line away from other cores' caches.
        cpu_scheduling: Threads run on the processors that the trace names.
        config: A configuration file of drmemtrace's simulator; it says all of the caches; none if not said.
        """
        options: dict[str, Any] = {
            "binary": binary,
            "types": types,
            "base": base,
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
        """Distinct cache lines and pages, in all and over time.

        line_size: Bytes in a line, a power of two; 64 if not said.
        page_size: Bytes in a page, a power of two; 4096 if not said.
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

        top: How many functions to list; 20 if not said.
        """
        return self._analysis("workload", {"top": top}, how)
