"""Files of Parquet and Arrow: DuckDB, pyarrow and polars open what Quipu wrote, and Quipu opens what they wrote."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest
from conftest import CALLS, SMALL, TRACES, TYPED, cli

# Columns of all types; large names and addresses; texts and lists of any length; regions of types.
WRITTEN = [TRACES / "stream" / "all-types.quipu", SMALL, CALLS, TYPED, TRACES / "stream" / "agg-rows.quipu"]


def numbers(table: Any) -> list[str]:
    """The columns of whole numbers of a table of pyarrow."""
    return [field.name for field in table.schema if pyarrow.types.is_integer(field.type)]


def sums(table: Any) -> dict[str, int]:
    """The exact sum of each of them."""
    return {name: sum(n for n in table.column(name).to_pylist() if n is not None) for name in numbers(table)}


@pytest.mark.parametrize("reader", ["any", "spark"])
@pytest.mark.parametrize("trace", WRITTEN, ids=lambda trace: trace.name)
def test_others_open_folders_that_were_written(trace: Path, reader: str, tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet"
    code, _, err = cli("convert", "-q", "--interop", reader, trace, "-o", folder)
    assert code == 0, err
    manifest = json.loads((folder / "quipu.json").read_text())
    assert manifest["quipu"] == 1 and manifest["tables"]
    for table in manifest["tables"]:
        files = [folder / table["folder"] / file["file"] for file in table["files"]]
        files = files or [folder / table["folder"] / table["empty"]]
        read = pyarrow.concat_tables([pyarrow.parquet.read_table(file) for file in files], promote_options="permissive")
        assert read.num_rows == table["rows"] and read.column_names == table["columns"], table["name"]
        if reader == "spark":
            assert not any(pyarrow.types.is_unsigned_integer(field.type) for field in read.schema), read.schema
        exact = sums(read)
        frame = polars.concat([polars.read_parquet(file) for file in files])
        assert (len(frame), frame.columns) == (table["rows"], table["columns"]), table["name"]
        names = [str(file) for file in files]
        (count,) = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [names]).fetchone() or (None,)
        assert count == table["rows"], table["name"]
        for name, expected in exact.items():
            by_polars = sum(n for n in frame[name].to_list() if n is not None)
            query = f'SELECT sum("{name}"::HUGEINT) FROM read_parquet(?)'
            (by_duckdb,) = duckdb.execute(query, [names]).fetchone() or (None,)
            assert (by_polars, int(by_duckdb or decimal.Decimal(0))) == (expected, expected), (table["name"], name)
        for name in (field.name for field in read.schema if pyarrow.types.is_dictionary(field.type)):
            assert frame[name].cast(polars.String).to_list() == read.column(name).to_pylist(), (table["name"], name)


@pytest.mark.parametrize("trace", WRITTEN[:-1], ids=lambda trace: trace.name)
def test_others_open_files_and_streams_of_arrow(trace: Path, tmp_path: Path) -> None:
    tables: list[Any] = []
    for ending in ("arrow", "arrows"):
        path = tmp_path / f"t.{ending}"
        code, _, err = cli("convert", "-q", trace, "-o", path)
        assert code == 0, err
        opened = pyarrow.ipc.open_file(path) if ending == "arrow" else pyarrow.ipc.open_stream(path)
        tables.append(opened.read_all())
        frame = polars.read_ipc(path, memory_map=False) if ending == "arrow" else polars.read_ipc_stream(path)
        assert (len(frame), frame.columns) == (tables[-1].num_rows, tables[-1].column_names)
    assert tables[0].num_rows > 0 and tables[0].equals(tables[1])


N = 5000


def table_of_accesses() -> Any:
    """Accesses as other programs may have them, with columns that are none of our types."""
    return pyarrow.table(
        {
            "addr": pyarrow.array([2**47 + 64 * (i * 7 % 900) for i in range(N)], pyarrow.uint64()),
            "size": pyarrow.array([1 << i % 4 for i in range(N)], pyarrow.int32()),
            "rw": pyarrow.array(["read" if i % 3 else "write" for i in range(N)]).dictionary_encode(),
            "ip": pyarrow.array([0x400000 + i % 50 for i in range(N)], pyarrow.uint64()),
            "tid": pyarrow.array([7 + i // 1000 for i in range(N)], pyarrow.int64()),
            "ts": pyarrow.array([1000 + i for i in range(N)], pyarrow.timestamp("us")),
            "cost": pyarrow.array([None if i % 5 == 0 else i / 4 for i in range(N)], pyarrow.float64()),
            "note": pyarrow.array([None if i % 7 == 0 else f"n{i % 11}" for i in range(N)]),
            "day": pyarrow.array([i % 400 for i in range(N)], pyarrow.date32()),
            "stack": pyarrow.array([[i, i + 1][: i % 3] for i in range(N)], pyarrow.list_(pyarrow.uint64())),
        }
    )


def by_duckdb(rows: Any, path: Path) -> None:
    duckdb.sql(f"COPY (SELECT * FROM rows) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")


def by_pyarrow_file(rows: Any, path: Path) -> None:
    with pyarrow.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=700)


def by_pyarrow_stream(rows: Any, path: Path) -> None:
    with pyarrow.ipc.new_stream(path, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=700)


def by_pyarrow_plain(rows: Any, path: Path) -> None:
    pyarrow.parquet.write_table(
        rows, path, compression="none", use_dictionary=False, data_page_version="2.0", row_group_size=1300
    )


def packed(codec: str, **options: Any) -> Callable[[Any, Path], Any]:
    """Writes with a codec, and a checksum of each page."""
    return lambda rows, path: pyarrow.parquet.write_table(
        rows, path, compression=codec, write_page_checksum=True, row_group_size=1300, **options
    )


OTHERS: dict[str, Callable[[Any, Path], Any]] = {
    "pyarrow.parquet": lambda rows, path: pyarrow.parquet.write_table(rows, path, row_group_size=1300),
    "plain.parquet": by_pyarrow_plain,
    "gzip.parquet": packed("gzip"),
    "gzip-2.parquet": packed("gzip", data_page_version="2.0"),
    "brotli.parquet": packed("brotli"),
    "brotli-2.parquet": packed("brotli", data_page_version="2.0"),
    "lz4.parquet": packed("lz4"),
    "lz4-2.parquet": packed("lz4", data_page_version="2.0"),
    "zstd.parquet": packed("zstd"),
    "snappy.parquet": packed("snappy", use_dictionary=False),
    "pyarrow.arrow": by_pyarrow_file,
    "pyarrow.arrows": by_pyarrow_stream,
    "polars.parquet": lambda rows, path: polars.from_arrow(rows).write_parquet(path),
    "polars.arrow": lambda rows, path: polars.from_arrow(rows).write_ipc(path, compression="zstd"),
    "polars.arrows": lambda rows, path: polars.from_arrow(rows).write_ipc_stream(path),
    "duckdb.parquet": by_duckdb,
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_others_wrote_opens_with_one_table(name: str, tmp_path: Path) -> None:
    rows, path = table_of_accesses(), tmp_path / name
    OTHERS[name](rows, path)
    code, out, err = cli("view", "--json", "--table", name.split(".")[0], path)
    assert code == 0, err
    shown = [json.loads(line) for line in out.splitlines()]
    expected = rows.to_pylist()
    assert len(shown) == N
    for column in ("addr", "size", "ip", "tid", "rw", "note", "cost", "stack"):
        assert [row[column] for row in shown] == [row[column] for row in expected], column
    # Names of columns tell what they are for.
    code, out, err = cli("analyze", "working-set", "--json", path)
    assert code == 0, err
    lines = json.loads(out)["results"]["working-set"]["lines"]
    assert lines["total"] == len({row["addr"] // 64 for row in expected})
    lens = tmp_path / "lens.arrows"
    code, _, err = cli("convert", "-q", "--table", "lens.accesses", path, "-o", lens)
    assert code == 0, err
    accesses = pyarrow.ipc.open_stream(lens).read_all().to_pylist()
    assert [row["kind"] for row in accesses] == [row["rw"] for row in expected]
    assert [row["tid"] for row in accesses] == [row["tid"] for row in expected]
    assert [row["size"] for row in accesses] == [row["size"] for row in expected]
    assert [row["record"] for row in accesses] == list(range(1, N + 1))


def test_a_changed_byte_of_a_page_with_a_checksum_is_damage(tmp_path: Path) -> None:
    rows = pyarrow.table({"addr": pyarrow.array([64 * i for i in range(3000)], pyarrow.uint64())})
    path = tmp_path / "plain.parquet"
    packed("none", use_dictionary=False)(rows, path)
    data = bytearray(path.read_bytes())
    # A value in the second of three groups: without checksums it would be another value.
    at = data.index((64 * 1500).to_bytes(8, "little"))
    data[at] ^= 1
    path.write_bytes(data)
    code, out, err = cli("view", "--json", "--table", "plain", path)
    assert code == 1 and "columnar/damaged-group" in err, err
    shown = [json.loads(line)["addr"] for line in out.splitlines()]
    assert shown == [64 * i for i in [*range(1300), *range(2600, 3000)]]


def test_what_we_write_has_checksums(tmp_path: Path) -> None:
    trace = TRACES / "drmemtrace" / "tiny.chunk1000"
    folder = tmp_path / "t.parquet"
    code, _, err = cli("convert", "-q", trace, "-o", folder)
    assert code == 0, err
    files = sorted(folder.rglob("*.parquet"))
    assert files
    for file in files:
        whole = pyarrow.parquet.read_table(file, page_checksum_verification=True)
        assert whole.num_rows == pyarrow.parquet.ParquetFile(file).metadata.num_rows
    largest = max(files, key=lambda file: file.stat().st_size)
    column = pyarrow.parquet.ParquetFile(largest).metadata.row_group(0).column(0)
    data = bytearray(largest.read_bytes())
    # At the end of the column's last page: the heads of pages have no checksum.
    start = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    data[start + column.total_compressed_size - 4] ^= 1
    largest.write_bytes(data)
    with pytest.raises(OSError, match="(?i)crc|checksum"):
        pyarrow.parquet.read_table(largest, page_checksum_verification=True)
    code, out, err = cli("view", "--json", "--table", largest.parent.name, folder)
    assert code == 1 and "columnar/damaged-group" in out + err, out + err


def test_roles_may_be_given(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    rows = pyarrow.table({"where": pyarrow.array([64 * (i % 10) for i in range(100)], pyarrow.int64())})
    pyarrow.parquet.write_table(rows, path)
    code, _, err = cli("analyze", "working-set", "--json", path)
    assert code == 2 and "accesses" in err
    code, out, err = cli("analyze", "working-set", "--json", "--open", "roles=where=address", path)
    assert code == 0, err
    assert json.loads(out)["results"]["working-set"]["lines"]["total"] == 10
    code, _, err = cli("analyze", "working-set", "--open", "roles=where=adress", path)
    assert code == 2 and "roles:" in err
