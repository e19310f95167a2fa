"""Opened traces."""

from __future__ import annotations

import io
import json
import os
from typing import IO, Any, Iterable, Mapping, Sequence, Union

from . import _native, _verbs
from ._analyses import Analyses
from ._errors import UsageError
from ._passes import Pass, R, run_pass
from ._progress import Bar, Progress
from ._result import Answered, Result, Results
from ._rows import Answer, Rows

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Span = Union["tuple[int, int | None]", range, None]

SQL_MEMORY = 1 << 30

_HOW = frozenset(
    ("records", "instrs", "time", "threads", "interval_instrs", "interval_us", "per_core", "jobs", "progress")
)


def _span(span: Span) -> tuple[int, int | None] | None:
    if span is None:
        return None
    if isinstance(span, range):
        return span.start, span.stop
    start, end = span
    return start or 0, end


def _texts(values: Any) -> list[str]:
    if values is None:
        return []
    if isinstance(values, (str, int)):
        return [str(values)]
    return [str(value) for value in values]


class Trace(Analyses):
    """An opened trace: what it says of itself, its rows, and every analysis that takes its format as a method.

    Analyses are methods by their names with underscores: `trace.counts()`, `trace.hot(top=20)`,
    `trace.caches(l1d_size="64K")`. `trace.tools` lists those for its format; what each has for options is in its own
    documentation: `help(trace.caches)`.
    """

    def __init__(self, native: _native.Trace, path: bytes, temporary: str | None, options: dict[str, Any]) -> None:
        self._native = native
        self._path = path
        self._temporary = temporary
        self._options = options
        self._arranging: dict[str, Any] = {}
        self._info: dict[str, Any] | None = None
        self._tools: dict[str, dict[str, Any]] | None = None

    # ---- as a resource ----

    def close(self) -> None:
        """Closes its files. What was read of it stays."""
        self._native.close()
        if self._temporary is not None:
            try:
                os.unlink(self._temporary)
            except OSError:
                pass
            self._temporary = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._native.closed

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_temporary", None) is not None:
            self.close()

    # ---- what it is ----

    @property
    def name(self) -> str:
        """What it is called: its path."""
        return self._native.name

    @property
    def format(self) -> str:
        """The name of its format."""
        return self._native.format

    @property
    def info(self) -> dict[str, Any]:
        """What it says of itself, as `quipu info --quick --json` prints it."""
        if self._info is None:
            self._info = json.loads(self._native.header())
        return self._info

    def survey(self, progress: Progress = None) -> Answered:
        """What a quick read of all of it tells besides: `quipu info --json`."""
        return self._verb("info", {}, progress)

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What was found wrong when it was opened."""
        findings: list[dict[str, Any]] = json.loads(self._native.findings())
        return findings

    def _sources(self, learn: bool) -> list[dict[str, Any]]:
        sources: list[dict[str, Any]] = json.loads(self._native.sources(learn))
        return sources

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """Its native tables with their columns, those that only reading teaches among them: they are learned here."""
        return {of["name"]: of for of in self._sources(True) if not of["is_lens"]}

    @property
    def lenses(self) -> dict[str, dict[str, Any]]:
        """Its lenses: columns that mean the same whatever the format, those that it can fill."""
        return {of["name"]: of for of in self._sources(False) if of["is_lens"]}

    @property
    def tools(self) -> dict[str, dict[str, Any]]:
        """The analyses for its format, with their options; `is_able` says whether it has what each needs without any."""
        if self._tools is None:
            self._tools = {tool["name"]: tool for tool in json.loads(self._native.tools())}
        return self._tools

    def __repr__(self) -> str:
        if self.closed:
            return f"<quipu.Trace {self.name} (closed)>"
        return f"<quipu.Trace {self.name}: {self.info['title']}>"

    def _repr_html_(self) -> str:
        from ._html import table_html

        info = self.info
        facts: list[list[Any]] = [
            ["format", f"{info['format']}: {info['title']}"],
            ["architecture", info["arch"]],
            ["files", info["files"]],
            ["bytes on disk", info["packed_bytes"]],
            ["lenses", ", ".join(self.lenses)],
        ]
        facts += [[key, str(value)] for key, value in info["facts"].items()]
        return table_html([self.name, ""], facts, len(facts))

    # ---- rows ----

    def table(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        kinds: str | Iterable[str] | None = None,
        threads: int | str | Iterable[int | str] | None = None,
        records: Span = None,
        instrs: Span = None,
        time: Span = None,
        shards: Sequence[int] = (),
        order: str = "trace",
        limit: int | None = None,
        batch_rows: int = 65536,
        jobs: int = 0,
        damaged: str = "raise",
        progress: Progress = None,
    ) -> Rows:
        """Rows of a native table or a lens.

        `where` is an expression over the columns, as `quipu view --where` takes it (docs/expressions.md). `records`,
        `instrs` and `time` are windows `(start, end)`, from 0, without the end; only what is in one is read.
        `threads` chooses threads, `shards` parts by their position in `info["shards"]`. `order` is `"trace"`,
        `"time"` for all threads by the clock, or `"any"` for rows as they are read. `jobs` is the number of threads
        that read, 0 for all cores. Rows of a damaged trace end with an exception when all that can be read has come;
        with `damaged="keep"` they just end, and `Rows.fault` says why.
        """
        if damaged not in ("raise", "keep"):
            raise UsageError(f"`damaged` is `{damaged}`, allowed: raise, keep")

        def select(of: list[str] | None, most: int | None) -> _native.Rows:
            wanted = list(columns) if columns is not None else None
            return self._native.rows(
                name,
                wanted if of is None else of,
                where,
                _texts(kinds),
                _texts(threads),
                _span(records),
                _span(instrs),
                _span(time),
                list(shards),
                order,
                limit if most is None else most if limit is None else min(most, limit),
                batch_rows,
                jobs,
                damaged == "keep",
            )

        doc = next((of["doc"] for of in self._sources(False) if name in (of["name"], of["full_name"])), "")
        return Rows(select, name, doc, progress)

    def lens(self, name: str, **selection: Any) -> Rows:
        """The same, where a native table has the name, too."""
        return self.table(f"lens.{name}", **selection)

    def __getitem__(self, name: str) -> Rows:
        return self.table(name)

    def sql(
        self,
        question: str,
        *,
        memory: int = SQL_MEMORY,
        progress: Progress = None,
        **others: Trace,
    ) -> Answer:
        """Answers a question in SQL (docs/queries.md). Further traces are named: `trace.sql("… FROM b.accesses", b=other)`.

        The engine is a feature of the module that takes minutes to build; without it, the error says how to have it.
        """
        named = [(name, other._native) for name, other in others.items()]
        with Bar(progress, "sql") as bar:
            return Answer(self._native.sql(question, named, memory, bar.call))

    # ---- analyses ----

    def run(
        self,
        *tools: str | tuple[str, Mapping[str, Any]],
        records: Span = None,
        instrs: Span = None,
        time: Span = None,
        threads: int | str | Iterable[int | str] | None = None,
        interval_instrs: int | None = None,
        interval_us: int | None = None,
        per_core: bool = False,
        jobs: int = 0,
        progress: Progress = None,
    ) -> Results:
        """Runs analyses, all in one read: names, or pairs of a name and options.

        `trace.run("counts", ("hot", {"top": 5}), interval_instrs=1_000_000)`
        """
        native = self._run(
            [(tool, {}) if isinstance(tool, str) else (tool[0], dict(tool[1])) for tool in tools],
            records,
            instrs,
            time,
            threads,
            interval_instrs,
            interval_us,
            per_core,
            jobs,
            progress,
        )
        return Results(native, self.name)

    def _run(
        self,
        tools: list[tuple[str, dict[str, Any]]],
        records: Span = None,
        instrs: Span = None,
        time: Span = None,
        threads: Any = None,
        interval_instrs: int | None = None,
        interval_us: int | None = None,
        per_core: bool = False,
        jobs: int = 0,
        progress: Progress = None,
        has_machine: bool = False,
    ) -> _native.Outcome:
        named = [(name.replace("_", "-"), _verbs.pairs_of(options)) for name, options in tools]
        with Bar(progress, ", ".join(name for name, _ in named)) as bar:
            return self._native.run(
                named,
                _span(records),
                _span(instrs),
                _span(time),
                _texts(threads),
                interval_instrs,
                interval_us,
                per_core,
                jobs,
                has_machine,
                bar.call,
            )

    def _analysis(self, name: str, options: dict[str, Any], how: dict[str, Any]) -> Result:
        return Result(self._run([(name, options)], **how), self.name)

    def analyze(self, tool: str, **options: Any) -> Result:
        """One analysis by its name; each is a method of its own as well."""
        how = {name: options.pop(name) for name in list(options) if name in _HOW}
        return self._analysis(tool, options, how)

    def report(self, progress: Progress = None, machine: bool = True, **options: Any) -> Results:
        """What `quipu report` has: the analyses whose data the trace has, in one read, then its first ten million records on a
        machine of four cores with the usual caches and TLBs, unless `machine` is false or a part of the trace is asked for."""
        able: list[tuple[str, dict[str, Any]]]
        able = [(tool["name"], {}) for tool in self.tools.values() if tool["in_report"] and tool["is_able"]]
        return Results(self._run(able, progress=progress, has_machine=machine, **options), self.name)

    def apply(self, analysis: Pass[R], *, jobs: int = 0, **selection: Any) -> R:
        """Runs an analysis of your own, a `quipu.Pass`; further arguments choose rows as for `table`."""
        return run_pass(self, analysis, jobs, **selection)

    def events(self, hooks: object, progress: Progress = None) -> int:
        """Gives all workload events to an object with hooks, such as a `quipu.Hooks`; how many there were.

        Events of Prism are taken as they are; those of other traces are made of their records.
        """
        with Bar(progress, "events") as bar:
            return self._native.events(hooks, bar.call)

    def by_core(self) -> Trace:
        """The same records arranged by the cores that threads ran on."""
        return self._arranged(False, None, {}, {"order": "cores"})

    def scheduled(self, cores: int | None = None, **options: Any) -> Trace:
        """The same threads scheduled onto cores anew; `quipu report --sched help=` lists the options."""
        sched = [f"{name}={value}" for name, value in _verbs.pairs_of(options)]
        if cores is not None:
            sched.append(f"cores={cores}")
        return self._arranged(True, cores, options, {"order": "scheduled", "sched": sched})

    def _arranged(self, scheduled: bool, cores: int | None, options: dict[str, Any], flags: dict[str, Any]) -> Trace:
        native = self._native.arranged(scheduled, _verbs.pairs_of(options), cores)
        trace = Trace(native, self._path, None, self._options)
        trace._arranging = flags
        return trace

    # ---- verbs ----

    def _verb(
        self,
        verb: str | list[str],
        options: dict[str, Any],
        progress: Progress = None,
        output: Any = None,
        judges: bool = False,
    ) -> Answered:
        words = [verb] if isinstance(verb, str) else verb
        return _verbs.call(words, [self._path], {**self._options, **options}, output, progress, judges)

    def check(self, progress: Progress = None, **options: Any) -> Answered:
        """Whether it follows the rules of its format: `findings`, counts. Options are those of `quipu check`:
        `max_per_rule`, `rule`, `skip_rule`, `no_decode`."""
        return self._verb("check", options, progress, judges=True)

    def simulate(self, machine: str = "cache", progress: Progress = None, **options: Any) -> Answered:
        """Simulates a hierarchy of caches, TLBs, or many caches at once: `"cache"`, `"tlb"`, `"sweep"`, with the options of
        `quipu sim`: `config="hierarchy.conf"`. `trace.caches(…)` gives the result as an object."""
        return self._verb(["sim", machine], {**self._arranging, **options}, progress)

    def convert(self, output: Path, to: str | None = None, progress: Progress = None, **options: Any) -> Answered:
        """Writes the trace in another container, or its records in another format. The answer has the ledger: what was kept,
        changed, dropped and made up."""
        return self._verb("convert", {"to": to, **options}, progress, output)

    def trim(self, output: Path, progress: Progress = None, **options: Any) -> Answered:
        """Writes a part of it: `skip_instrs`, `take_instrs`, `instrs="0..10k"`, `frames`, `since`, `until`, …"""
        return self._verb("trim", options, progress, output)

    def filter(self, output: Path, progress: Progress = None, **options: Any) -> Answered:
        """Writes it without some of its records."""
        return self._verb("filter", options, progress, output)

    def split(self, output: Path, progress: Progress = None, **options: Any) -> Answered:
        """Writes a file for each thread."""
        return self._verb("split", options, progress, output)

    def merge(self, output: Path, progress: Progress = None, **options: Any) -> Answered:
        """Writes one file in which all threads take turns."""
        return self._verb("merge", options, progress, output)

    def edit(self, output: Path, progress: Progress = None, **options: Any) -> Answered:
        """Writes it with some values replaced: `replace="s/GL_TRIANGLES/GL_POINTS/"`, …"""
        return self._verb("edit", options, progress, output)

    def recover(self, output: Path, progress: Progress = None, **options: Any) -> Answered:
        """Writes what can be read of a damaged trace."""
        return self._verb("recover", options, progress, output)

    def back_ends(self, output: Path, *back_ends: str, progress: Progress = None, **options: Any) -> Answered:
        """Runs back ends over its events, which write a folder: `trace.back_ends("out", "simplecount", "stgen,c=10")`."""
        return self._verb("run", {"backend": list(back_ends), **options}, progress, output)

    def diff(self, other: Trace, progress: Progress = None, **options: Any) -> Answered:
        """What differs between this trace and a newer one: a list `differences`, empty if there is none, a `summary` that counts
        them, and how reading `old` and `new` went. The exit code is 1 if they differ or if one of them is damaged."""
        paths = [self._path, other._path]
        return _verbs.call(["diff"], paths, {**self._options, **options}, None, progress, judges=True)

    def describe(self, progress: Progress = None) -> Answered:
        """What a trace that describes itself says of its records: `epochs`, each with its `records`."""
        return self._verb("describe", {}, progress)


def open(  # noqa: A001
    trace: Path | IO[bytes] | Sequence[Path],
    *,
    format: str | None = None,  # noqa: A002
    threads: int | str | Iterable[int | str] | None = None,
    strict: bool = False,
    **options: Any,
) -> Trace:
    """Opens a trace of any format: a file, a folder, or what a file object brings.

    Paths are texts, bytes or objects of `pathlib`. Of several, the first is the trace, and the others are workloads that
    are read with it. `format` names the format, whatever the bytes look like; `threads` leaves out the files of others;
    with `strict`, the first thing that is wrong ends reading. Further options are those of the format, as
    `quipu formats` lists them: `entry_bytes=8`.
    """
    temporary: str | None = None
    if isinstance(trace, (str, bytes, os.PathLike)):
        path = name = os.fsencode(trace)
    elif hasattr(trace, "read"):
        path, name, temporary = _of_file(trace)  # type: ignore[arg-type]
    else:
        path, *also = [os.fsencode(part) for part in trace]
        name = path
        if also:
            try:
                options["also"] = b":".join(also).decode()
            except UnicodeDecodeError as error:
                raise UsageError("paths of further workloads are texts of UTF-8") from error
    pairs = _verbs.pairs_of(options)
    wanted = _texts(threads)
    try:
        native = _native.open(path, name, format, pairs, wanted, strict)
    except BaseException:
        if temporary is not None:
            os.unlink(temporary)
        raise
    flags: dict[str, Any] = {
        "format": format,
        "thread": ",".join(wanted) or None,
        "strict": strict,
        "open": [f"{key}={value}" for key, value in pairs],
    }
    return Trace(native, path, temporary, flags)


def _of_file(file: IO[bytes]) -> tuple[bytes, bytes, str | None]:
    """The path of a file object's file, or of a copy of what it brings; the name; the copy, if it is one."""
    import shutil
    import tempfile

    name = getattr(file, "name", None)
    if isinstance(file, io.BufferedReader) and isinstance(name, (str, bytes)) and os.path.isfile(name):
        if file.tell() == 0:
            return os.fsencode(name), os.fsencode(name), None
    suffix = os.path.splitext(os.fsdecode(name))[1] if isinstance(name, (str, bytes)) else ""
    with tempfile.NamedTemporaryFile(prefix="quipu-", suffix=suffix, delete=False) as copy:
        try:
            shutil.copyfileobj(file, copy, 1 << 20)
        except BaseException:
            os.unlink(copy.name)
            raise
    return os.fsencode(copy.name), os.fsencode(copy.name), copy.name
