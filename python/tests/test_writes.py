"""Edits and conversions, and traces from columns."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy
import polars
import pyarrow
import pytest
from conftest import CALLS, EVENTS, SMALL, TRACES, TYPED, cli, cli_json

import quipu


def files(place: Path) -> dict[str, bytes]:
    if place.is_file():
        return {"": place.read_bytes()}
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("verb", "path", "options", "flags"),
    [
        ("trim", SMALL, {"skip_instrs": 100, "take_instrs": 5000}, ["--skip-instrs", 100, "--take-instrs", 5000]),
        ("trim", CALLS, {"frames": "10-12"}, ["--frames", "10-12"]),
        ("merge", SMALL, {}, []),
        ("split", EVENTS, {}, []),
        ("convert", TYPED, {"container": "gzip"}, ["--container", "gzip"]),
        ("filter", SMALL, {"drop": ["read", "prefetch"]}, ["--drop", "read", "--drop", "prefetch"]),
        ("edit", CALLS, {"replace": "s/GL_LIGHTING/GL_FOG/"}, ["--replace", "s/GL_LIGHTING/GL_FOG/"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_edits_write_the_same_bytes(
    verb: str, path: Path, options: dict[str, object], flags: list[object], tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    with quipu.open(path) as trace:
        answered = getattr(trace, verb)(ours, **options)
    code, out, err = cli(verb, *flags, path, "-o", theirs)
    assert code == answered.code == 0, err
    assert files(ours) == files(theirs)
    assert answered["output"] == str(ours)
    with answered.open() as written:
        assert written.info["trace"] == str(ours)
    # Nothing is replaced unless that is said.
    with quipu.open(path) as trace, pytest.raises(quipu.UsageError):
        getattr(trace, verb)(ours, **options)


def test_what_is_left_of_a_damaged_trace_is_saved(tmp_path: Path) -> None:
    damaged = TRACES / "apitrace" / "damaged" / "xs-antspotlight-fork-corrupt.trace"
    ours, theirs = tmp_path / "ours.trace", tmp_path / "theirs.trace"
    with quipu.open(damaged) as trace, pytest.warns(quipu.DamageWarning):
        answered = trace.recover(ours)
    code, _, err = cli("recover", damaged, "-o", theirs)
    assert code == answered.code == 1, err
    assert ours.read_bytes() == theirs.read_bytes()
    with answered.open() as saved:
        assert saved.check()["findings"] == []


def test_a_conversion_has_its_ledger(tmp_path: Path) -> None:
    with quipu.open(SMALL) as trace:
        answered = trace.convert(tmp_path / "out.trace", to="cacheray")
        asked = cli_json("convert", "--to", "cacheray", "--json", SMALL, "-o", tmp_path / "other.trace")
        assert answered["ledger"] == asked["ledger"]
        assert answered.open().format == "cacheray"


def test_what_was_read_can_be_written_when_it_is_closed(tmp_path: Path) -> None:
    first, second = tmp_path / "first.trace", tmp_path / "second.trace"
    with quipu.open(TYPED) as trace:
        trace.convert(first)
    with quipu.open(first) as trace:
        trace.convert(second)
        with pytest.raises(quipu.Error):
            trace.convert(first, force=True)
    with quipu.open(second) as trace:
        trace.convert(first, force=True)
    assert quipu.open(first).table("records").to_dicts() == quipu.open(second).table("records").to_dicts()


def columns() -> dict[str, object]:
    n = 5000
    generator = numpy.random.default_rng(1)
    return {
        "time": numpy.arange(n, dtype=numpy.uint64) * 3,
        "tid": numpy.repeat(numpy.array([7, 9], dtype=numpy.uint32), n // 2),
        "pc": (0x401000 + generator.integers(0, 64, n) * 4).astype(numpy.uint64),
        "addr": (0x7F0000 + generator.integers(0, 4096, n) * 8).astype(numpy.uint64),
        "size": numpy.full(n, 8, dtype=numpy.uint32),
        "kind": generator.integers(0, 2, n).astype(numpy.uint8),
        "weight": generator.random(n),
    }


def test_columns_of_numpy_become_a_trace(tmp_path: Path) -> None:
    given = columns()
    answered = quipu.write(tmp_path / "own.quipu", given, per_second=1_000_000)
    assert answered["records"] == 5000
    with answered.open() as trace:
        rows = trace.table("access")
        for name in ("tid", "pc", "addr", "size", "weight", "time"):
            assert numpy.array_equal(rows.numpy(name), given[name]), name  # type: ignore[arg-type]
        lens = trace.lens("accesses")
        assert numpy.array_equal(lens.numpy("addr"), given["addr"])  # type: ignore[arg-type]
        assert set(numpy.unique(lens.numpy("kind"))) == {"read", "write"}
        assert trace.check()["findings"] == []
        assert trace.caches().complete


def test_tables_of_arrow_become_a_trace(tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "addr": pyarrow.array([64, 128, 192], pyarrow.uint64()),
            "size": pyarrow.array([4, 4, 8], pyarrow.uint32()),
            "kind": pyarrow.array(["write", "read", "write"]).dictionary_encode(),
            "note": pyarrow.array(["a", "bé", ""]),
            "ok": pyarrow.array([True, False, True]),
        }
    )
    with quipu.write(tmp_path / "own.quipu", table).open() as trace:
        back = trace.table("access").to_dicts()
        assert [row["note"] for row in back] == ["a", "bé", ""]
        assert [bool(row["ok"]) for row in back] == [True, False, True]
        assert list(trace.lens("accesses").numpy("kind")) == ["write", "read", "write"]


@pytest.mark.parametrize("target", ["drmemtrace", "cacheray", "prism"])
def test_columns_become_traces_of_other_formats(target: str, tmp_path: Path) -> None:
    given = columns()
    name = {"drmemtrace": "out.dir", "cacheray": "out.trace", "prism": "out.prism"}[target]
    answered = quipu.write(tmp_path / name, given, format=target)
    assert answered["ledger"]
    with quipu.open(tmp_path / name, format=target) as trace:
        assert trace.format == target
        accesses = trace.lens("accesses", where="kind = 'read' OR kind = 'write'")
        assert sorted(accesses.numpy("addr")) == sorted(given["addr"])  # type: ignore[call-overload]


def test_rows_of_a_trace_are_columns_too(tmp_path: Path) -> None:
    with quipu.open(SMALL) as trace:
        rows = trace.table("accesses", columns=["tid", "addr", "size", "kind"], where="kind = 'write'")
        with quipu.write(tmp_path / "writes.quipu", rows).open() as written:
            assert written.lens("accesses").count() == rows.count()


KINDS = ["write", "read", "write", "prefetch"]


@pytest.mark.parametrize(
    "texts",
    [
        pyarrow.array(KINDS),
        pyarrow.array(KINDS, pyarrow.large_utf8()),
        pyarrow.array(KINDS, pyarrow.string_view()),
        pyarrow.array(KINDS).dictionary_encode(),
        pyarrow.array(KINDS, pyarrow.large_utf8()).dictionary_encode(),
    ],
    ids=lambda texts: str(texts.type),
)
def test_kinds_are_names_of_any_type_of_text(texts: Any, tmp_path: Path) -> None:
    table = pyarrow.table({"addr": pyarrow.array([64, 128, 192, 0], pyarrow.uint64()), "kind": texts, "note": texts})
    with quipu.write(tmp_path / "own.quipu", table).open() as trace:
        assert list(trace.lens("accesses").numpy("kind")) == KINDS
        assert [row["note"] for row in trace.table("access").to_dicts()] == KINDS


def test_frames_of_polars_and_lists_of_texts_become_a_trace(tmp_path: Path) -> None:
    frame = polars.DataFrame(
        {"addr": [64, 128, 192, 0], "kind": KINDS, "of": pyarrow.array(KINDS).dictionary_encode(), "raw": [b"a", b"", b"c", b"d"]}
    ).with_columns(polars.col("of").cast(polars.Categorical))
    with quipu.write(tmp_path / "polars.quipu", frame).open() as trace:
        assert list(trace.lens("accesses").numpy("kind")) == KINDS
        assert [row["raw"] for row in trace.table("access").to_dicts()] == [b"a", b"", b"c", b"d"]
    given = {"addr": [64, 128, 192, 0], "kind": KINDS, "is_hot": [True, False, True, True]}
    with quipu.write(tmp_path / "lists.quipu", given).open() as trace:
        assert list(trace.lens("accesses").numpy("kind")) == KINDS
        assert [bool(row["is_hot"]) for row in trace.table("access").to_dicts()] == given["is_hot"]


def test_a_dictionary_without_names_is_no_panic(tmp_path: Path) -> None:
    none = pyarrow.array([], pyarrow.dictionary(pyarrow.int32(), pyarrow.utf8()))
    table = pyarrow.table({"addr": pyarrow.array([], pyarrow.uint64()), "kind": none})
    with quipu.write(tmp_path / "none.quipu", table).open() as trace:
        assert trace.table("records").count() == 0
    nameless = pyarrow.DictionaryArray.from_arrays(pyarrow.array([None, None], pyarrow.int32()), pyarrow.array([], pyarrow.utf8()))
    with pytest.raises(quipu.UsageError, match="`note` has no value in row 0"):
        quipu.write(tmp_path / "nameless.quipu", pyarrow.table({"a": [1, 2], "note": nameless}))
    batch = quipu._native.batches_of(pyarrow.table({"note": nameless}))[0]
    assert batch.column("note").to_list() == [None, None]
    assert quipu.Batch(batch).numpy("note").tolist() == [None, None]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"addr": numpy.ma.masked_array([1, 2, 3], mask=[False, True, False])}, "`addr` has no value in row 1"),
        ({"a": [1, None]}, "`a` has no value in row 1"),
        ({"a": [[1, 2], [3, 4]]}, "`a` has 2 dimensions"),
        ({"a": 1}, "`a` has 0 dimensions"),
        ({"a": [1], "b": [1, 2]}, "different lengths"),
        ({"a": [1 + 2j]}, "`a` has values of type complex128"),
        (pyarrow.table({"a": pyarrow.chunked_array([[1, 2], [3, None]])}), "`a` has no value in row 3"),
        (pyarrow.table({"a": ["x", None]}), "`a` has no value in row 1"),
        ({"addr": [1, 2], "kind": ["read", "wrote"]}, "`kind` has `wrote` in row 1, which is no kind of access"),
        ({"addr": [1, 2], "kind": numpy.array([1, 200], numpy.uint8)}, "`kind` has `200` in row 1"),
        ({"addr": [1, 2], "kind": [0, -1]}, "`kind` has `-1` in row 1"),
        ({"addr": [1.5]}, "`addr` wants whole numbers, found values of type Float64"),
        ({"addr": ["x"]}, "`addr` wants whole numbers, found values of type Utf8"),
        ({"a": [1], "time": [0.5]}, "`time` wants whole numbers"),
        ({"a": [1, 2], "time": [0, -5]}, "`time` has `-5` in row 1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_are_never_changed_silently(columns: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(quipu.UsageError, match=re.escape(said)):
        quipu.write(tmp_path / "out.quipu", columns)
    assert list(tmp_path.iterdir()) == []


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(quipu.UsageError, match="ends with"):
        quipu.write(tmp_path / "out.bin", {"addr": [1]})
    with pytest.raises(quipu.UsageError, match="no role"):
        quipu.write(tmp_path / "out.quipu", {"a": [1]}, roles={"a": "nonsense"})
    with pytest.raises(quipu.UsageError, match="numbers"):
        quipu.write(tmp_path / "out.quipu", {"a": [object()]})
    with pytest.raises(ValueError):
        quipu.write(tmp_path / "out.quipu", {"a": [1], "b": [1, 2]})
    assert list(tmp_path.iterdir()) == []
