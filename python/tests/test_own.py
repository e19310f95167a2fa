"""Passes, hooks and recording in Python."""

from __future__ import annotations

import datetime
import decimal
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy
import pytest
from conftest import EVENTS, SMALL, TRACES, cli_json

import quipu


class Bytes(quipu.Pass[dict[str, int]]):
    """Bytes by kind."""

    columns = ["kind", "size"]

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()

    def fork(self, shard: int) -> Bytes:
        return Bytes()

    def consume(self, batch: quipu.Batch) -> None:
        kinds, sizes = batch.numpy("kind"), batch.numpy("size")
        for kind in numpy.unique(kinds.astype(str)):
            self.total[kind] += int(sizes[kinds == kind].sum())

    def merge(self, later: Bytes) -> None:
        self.total += later.total

    def finish(self) -> dict[str, int]:
        return dict(self.total)


def test_a_pass_of_ones_own_gives_the_same_on_any_number_of_threads(small: quipu.Trace) -> None:
    rows = small.table("accesses", columns=["kind", "size"]).to_dicts()
    expected: Counter[str] = Counter()
    for row in rows:
        expected[row["kind"]] += row["size"] or 0  # A prefetch may have none.
    assert len(small.info["shards"]) > 1
    for jobs in (1, 2, 8):
        assert small.apply(Bytes(), jobs=jobs) == dict(expected)
    assert small.apply(Bytes(), where="kind = 'write'") == {"write": expected["write"]}


def test_an_exception_of_a_pass_is_the_callers(small: quipu.Trace) -> None:
    class Fails(Bytes):
        def fork(self, shard: int) -> Bytes:
            return Fails()

        def consume(self, batch: quipu.Batch) -> None:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        small.apply(Fails())


class Loads(quipu.Hooks):
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.by_thread: Counter[int | None] = Counter()
        self.n_batch = 0

    def on_start(self) -> None:
        self.calls.append("start")

    def on_memory(self, at: tuple[int | None, int, int | None], what: str | None, address: int, size: int) -> None:
        self.by_thread[at[0]] += what == "load"

    def on_batch(self, where: tuple[int | None, int], stores: bytes, addresses: bytes, sizes: bytes) -> None:
        assert len(addresses) == 8 * len(stores) == 4 * len(sizes)
        self.n_batch += int((numpy.frombuffer(stores, numpy.uint8) == 0).sum())

    def on_finish(self) -> None:
        self.calls.append("finish")


@pytest.mark.parametrize("path", [EVENTS, SMALL], ids=["prism", "drmemtrace"])
def test_hooks_take_the_events_of_any_trace(path: Path, tmp_path: Path) -> None:
    with quipu.open(path) as trace:
        hooks = Loads()
        n_events = trace.events(hooks)
        assert hooks.calls == ["start", "finish"] and n_events > 0
        assert sum(hooks.by_thread.values()) == hooks.n_batch > 0
        # As many as a back end of Prism's counts.
        done = trace.back_ends(tmp_path / "out", "simplecount")
        assert done["events"] == n_events


def test_an_exception_of_hooks_ends_the_run() -> None:
    class Stops(quipu.Hooks):
        def on_memory(self, *_: object) -> None:
            raise LookupError("enough")

    with quipu.open(EVENTS) as trace, pytest.raises(LookupError, match="enough"):
        trace.events(Stops())


def library() -> str | None:
    """The folder of the library that QEMU loads."""
    beside = Path(os.environ.get("QUIPU", "")).parent
    named = os.environ.get("QUIPU_LIB")
    folders = [Path(named)] if named else [beside, beside / "deps"]
    return next((str(folder) for folder in folders if (folder / "libquipu_qemu.so").is_file()), None)


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None or library() is None, reason="no QEMU, or no library for it")
def test_programs_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = library()
    assert folder is not None
    monkeypatch.setenv("QUIPU_LIB", folder)
    recorded = quipu.record(["/bin/true"], tmp_path / "true.dir", front_end="qemu", max_instrs=50_000)
    assert recorded.exit_code == 0 and Path(recorded.path) == tmp_path / "true.dir"
    with recorded.open() as trace:
        assert trace.format == "drmemtrace"
        assert trace.counts()["total"]["instructions"] >= 1000
    failed = quipu.record(["/bin/false"], tmp_path / "false.dir", front_end="qemu", max_instrs=1000)
    assert failed.exit_code == 1 and failed.is_limited
    with pytest.raises(quipu.UsageError):
        quipu.record(["/bin/true"], tmp_path / "true.dir", front_end="qemu")


def test_an_unknown_front_end_is_refused() -> None:
    with pytest.raises(quipu.UsageError):
        quipu.record([sys.executable], front_end="nonsense")


@pytest.mark.skipif(quipu.HAS_SQL, reason="the module has its engine")
def test_a_module_without_its_engine_says_how_to_have_one(small: quipu.Trace) -> None:
    with pytest.raises(quipu.UnsupportedError, match="pip install"):
        small.sql("SELECT 1")


needs_sql = pytest.mark.skipif(not quipu.HAS_SQL, reason="the module was built without its engine for SQL")


@needs_sql
def test_sums_texts_moments_and_nothing_have_forms_in_python(small: quipu.Trace) -> None:
    answer = small.sql(
        "SELECT sum(addr) AS total, sum(size) * 100 AS hundredfold, arrow_cast('read', 'Utf8View') AS view, NULL AS none, "
        "DATE '2026-02-28' AS day, TIMESTAMP '2026-02-28T12:30:00.000001' AS moment, 1.25::DECIMAL(5, 2) AS part, "
        "arrow_cast(90, 'Duration(Second)') AS span, [1, 2] AS list, "
        "arrow_cast(TIMESTAMP '2026-02-28T12:30:00', 'Timestamp(Second, Some(\"+01:00\"))') AS zoned FROM accesses"
    )
    (row,) = answer.to_dicts()
    addresses = small.table("accesses").numpy("addr")
    moment = datetime.datetime(2026, 2, 28, 12, 30, 0, 1)
    assert row["total"] == decimal.Decimal(sum(addresses.tolist())) and isinstance(row["total"], decimal.Decimal)
    assert row["hundredfold"] == 100 * int(small.table("accesses").numpy("size").sum())
    assert (row["view"], row["none"], row["day"]) == ("read", None, datetime.date(2026, 2, 28))
    assert (row["moment"], row["part"]) == (moment, decimal.Decimal("1.25"))
    assert (row["span"], row["list"]) == (datetime.timedelta(seconds=90), [1, 2])
    assert row["zoned"].utcoffset() == datetime.timedelta(hours=1)
    assert answer.numpy("day")[0] == numpy.datetime64("2026-02-28")
    assert answer.numpy("moment")[0] == numpy.datetime64("2026-02-28T12:30:00.000001")
    assert answer.numpy("total")[0] == row["total"] and answer.numpy("none")[0] is None
    assert answer.numpy("list")[0] == [1, 2]
    shown = answer._repr_html_()
    assert str(row["total"]) in shown and "2026-02-28 12:30:00.000001" in shown and "read" in shown


@needs_sql
def test_an_answer_has_room_in_the_memory_or_is_an_error(small: quipu.Trace) -> None:
    with pytest.raises(quipu.LimitError, match="no room in 1048576 bytes") as error:
        small.sql("SELECT * FROM accesses", memory=1 << 20)
    assert error.value.hint is not None and "`memory`" in error.value.hint
    assert len(small.sql("SELECT * FROM accesses LIMIT 1000", memory=1 << 20)) == 1000
    empty = small.sql("SELECT addr FROM accesses WHERE addr = 1 AND addr = 2")
    assert empty.columns == ["addr"] and empty.numpy("addr").dtype == numpy.uint64


@needs_sql
@pytest.mark.parametrize(
    "question",
    [
        "SELECT 1" + "+1" * 400,
        "SELECT 1" + "+1" * 2000,
        "SELECT 1" + "+1" * 100_000,
        "SELECT 1 WHERE 1 = 0" + " OR 1 = 1" * 400,
        "SELECT " + "(" * 3000 + "1" + ")" * 3000,
        "SELECT " + "NOT " * 3000 + "true",
        "SELECT " + "CASE WHEN true THEN " * 3000 + "1" + " END" * 3000,
        "SELECT * FROM " + "(SELECT * FROM " * 1000 + "accesses" + ")" * 1000,
        "SELECT 1" + " UNION ALL SELECT 1" * 3000,
    ],
    ids=lambda question: question[:40],
)
def test_deep_questions_are_answered_or_refused(small: quipu.Trace, question: str) -> None:
    try:
        assert len(small.sql(question)) > 0
    except (quipu.LimitError, quipu.UsageError) as error:
        assert "line 1, column" in str(error)


@needs_sql
def test_questions_are_answered(small: quipu.Trace) -> None:
    answer = small.sql("SELECT kind, count(*) AS n FROM accesses GROUP BY kind ORDER BY kind")
    assert sum(row["n"] for row in answer.to_dicts()) == small.table("accesses").count()
    with quipu.open(TRACES / "drmemtrace" / "allasm") as other:
        joined = small.sql("SELECT count(*) AS n FROM b.accesses", b=other)
        assert joined.to_dicts()[0]["n"] == other.table("accesses").count()
    with pytest.raises(quipu.UsageError):
        small.sql("SELECT nonsense FROM accesses")
    assert cli_json  # The command line has the same engine.
