"""Rows: through Arrow's capsules into other libraries, NumPy, windows, conditions, damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pytest
from conftest import CALLS, SMALL, TRACES, cli

import quipu


def test_libraries_take_rows_as_they_are(small: quipu.Trace) -> None:
    rows = small.table("accesses")
    n_rows = rows.count()
    taken = pyarrow.table(rows)
    frame = polars.from_arrow(rows)
    assert taken.num_rows == len(frame) == n_rows > 1000
    assert pandas.DataFrame(taken.to_pandas()).shape == (n_rows, len(rows.columns))
    found = duckdb.sql("SELECT count(*), sum(size) FROM taken").fetchone()
    assert found == (n_rows, int(rows.numpy("size").sum()))
    # All ways bring the same.
    assert taken.equals(rows.to_arrow())
    assert pyarrow.schema(rows) == taken.schema
    assert taken.schema.metadata[b"quipu.table"] == b"accesses"


def test_polars_reads_lazily(small: quipu.Trace) -> None:
    rows = small.table("accesses")
    frame = rows.to_polars()
    by_kind = frame.group_by("kind").agg(polars.len(), polars.col("size").sum()).collect(engine="streaming")
    kinds, sizes = rows.numpy("kind"), rows.numpy("size")
    for kind, count, size in by_kind.rows():
        assert (count, size) == ((kinds == kind).sum(), sizes[kinds == kind].sum())
    large = frame.filter(polars.col("size") == 8).select("addr").collect()
    assert len(large) == (sizes == 8).sum() and large.columns == ["addr"]
    assert frame.head(10).collect().equals(frame.collect().head(10))


def test_tables_and_lenses_are_listed_with_their_columns(small: quipu.Trace) -> None:
    assert {"accesses", "instrs", "threads"} <= set(small.lenses)
    for name in small.tables:
        assert small.table(name, limit=3).count() <= 3
    for name, lens in small.lenses.items():
        filled = [column["name"] for column in lens["columns"] if column["is_filled"]]
        assert small.lens(name).columns == filled


def test_rows_are_those_that_view_prints(small: quipu.Trace) -> None:
    for path, table in ((SMALL, "memrefs"), (CALLS, "calls")):
        with quipu.open(path) as trace:
            code, out, err = cli("view", "--json", "--table", table, "--take", 200, path)
            assert code == 0, err
            printed = [json.loads(line) for line in out.splitlines()]
            rows = trace.table(table, records=(0, 200), order="time").to_dicts()
            assert len(printed) == len(rows) == 200
            keys = [key for key in printed[0] if isinstance(printed[0][key], int) and key in rows[0]]
            assert keys
            for shown, row in zip(printed, rows):
                assert {key: shown[key] for key in keys} == {key: row[key] for key in keys}


def test_numbers_are_seen_where_they_are(small: quipu.Trace) -> None:
    batch = next(iter(small.table("accesses", columns=["addr", "size", "kind"])))
    addresses = batch.numpy("addr")
    assert addresses.dtype == numpy.uint64 and not addresses.flags.owndata and not addresses.flags.writeable
    # Pyarrow's import of the same batch points at the same bytes.
    arrow = pyarrow.record_batch(batch).column("addr")
    assert arrow.buffers()[1].address == addresses.__array_interface__["data"][0]
    assert arrow.to_pylist() == addresses.tolist() == batch.to_list("addr")
    assert set(batch.numpy("kind")) <= {"read", "write", "fetch", "prefetch"}
    del batch, arrow
    # The array keeps what it sees.
    assert int(addresses.sum()) == sum(addresses.tolist())


def test_windows_and_conditions_choose_rows(small: quipu.Trace) -> None:
    everything = small.table("accesses", columns=["record", "size", "kind"])
    whole = everything.to_arrow()
    writes = small.table("accesses", columns=["record"], where="kind = 'write' AND size = 8")
    kinds, sizes = whole.column("kind").to_pylist(), whole.column("size").to_pylist()
    assert writes.count() == sum(kind == "write" and size == 8 for kind, size in zip(kinds, sizes))
    assert small.table("accesses", kinds="write").count() == kinds.count("write")
    part = small.table("memrefs", records=(100, 150), order="time")
    assert part.count() == 50
    assert small.table("memrefs", records=range(100, 150), order="time").count() == 50
    instrs = small.table("instrs", instrs=(0, 1000))
    assert instrs.count() == 1000
    threads = [shard["thread"] for shard in small.info["shards"]]
    by_thread = [small.table("accesses", threads=thread).count() for thread in threads]
    assert sum(by_thread) == whole.num_rows
    with pytest.raises(quipu.UsageError):
        small.table("accesses", records=(0, 1), instrs=(0, 1))
    with pytest.raises(quipu.UsageError, match="no column"):
        small.table("accesses", columns=["nonsense"])
    with pytest.raises(quipu.UsageError, match="no table"):
        small.table("nonsense")


def test_time_chooses_rows(small: quipu.Trace) -> None:
    first = small.info["facts"]["first_timestamp"]
    before = small.table("accesses", time=(0, first)).count()
    after = small.table("accesses", time=(first, None)).count()
    assert before + after == small.table("accesses").count() and after > 0


def test_a_damaged_trace_gives_what_is_whole_and_raises(tmp_path: Path) -> None:
    cut = tmp_path / "cut.trace"
    cut.write_bytes(CALLS.read_bytes()[:100_000])
    with quipu.open(cut) as trace:
        rows = trace.table("calls")
        seen = 0
        with pytest.raises(quipu.Error):
            for batch in rows:
                seen += len(batch)
        assert seen > 0 and rows.fault is not None
        with pytest.raises(Exception, match="offset"):
            pyarrow.table(rows)
        kept = trace.table("calls", damaged="keep")
        assert kept.count() == seen and isinstance(kept.fault, quipu.Error)
        with pytest.warns(quipu.DamageWarning):
            trace.frames()


def test_every_table_of_every_family_crosses() -> None:
    for path in (SMALL, CALLS, TRACES / "cacheray" / "shapes.trace", TRACES / "lackey" / "nodes.lackey.gz"):
        with quipu.open(path) as trace:
            names = [*list(trace.tables)[:40], *(f"lens.{name}" for name in trace.lenses)]
            for name in names:
                rows = trace.table(name, limit=1000)
                table = pyarrow.table(rows)
                table.validate(full=True)
                assert table.to_pylist() == [to_python(row) for row in rows.to_dicts()], name


def to_python(row: dict[str, Any]) -> dict[str, Any]:
    return dict(row)


def test_notebooks_show_the_first_rows(small: quipu.Trace) -> None:
    rows = small.table("accesses", columns=["addr", "kind"])
    assert rows._repr_html_().count("<tr>") == 21
    batch = next(iter(rows))
    assert "<th>addr</th>" in batch._repr_html_() and "Batch" in repr(batch) and "accesses" in repr(rows)


def test_leaving_a_loop_ends_the_read(small: quipu.Trace) -> None:
    for _ in range(50):
        for _batch in small.table("accesses", batch_rows=256):
            break
