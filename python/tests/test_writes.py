"""Edits and conversions, and traces from columns."""

from __future__ import annotations

from pathlib import Path

import numpy
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


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(quipu.UsageError, match="ends with"):
        quipu.write(tmp_path / "out.bin", {"addr": [1]})
    with pytest.raises(quipu.UsageError, match="no role"):
        quipu.write(tmp_path / "out.quipu", {"a": [1]}, roles={"a": "nonsense"})
    with pytest.raises(quipu.UsageError, match="numbers"):
        quipu.write(tmp_path / "out.quipu", {"a": ["text"]})
    with pytest.raises(ValueError):
        quipu.write(tmp_path / "out.quipu", {"a": [1], "b": [1, 2]})
    assert list(tmp_path.iterdir()) == []
