"""Writes the files of this folder that other programs wrote: pyarrow 22.0, polars 1.35 and DuckDB 1.4, beside this file."""

import pathlib

import duckdb
import polars
import pyarrow
import pyarrow.ipc
import pyarrow.parquet

HERE = pathlib.Path(__file__).parent
N = 400

table = pyarrow.table(
    {
        "ip": pyarrow.array([0x400000 + 4 * (i % 50) for i in range(N)], pyarrow.uint64()),
        "addr": pyarrow.array([0x7FF000000000 + 64 * (i * 7 % 300) for i in range(N)], pyarrow.uint64()),
        "size": pyarrow.array([1 << (i % 4) for i in range(N)], pyarrow.int32()),
        "rw": pyarrow.array(["R" if i % 3 else "W" for i in range(N)]).dictionary_encode(),
        "tid": pyarrow.array([100 + i // 100 for i in range(N)], pyarrow.int64()),
        "ts": pyarrow.array([10_000 + i * 3 for i in range(N)], pyarrow.timestamp("us")),
    }
)
pyarrow.parquet.write_table(table, HERE / "pyarrow.parquet", row_group_size=150)
polars.from_arrow(table).write_ipc_stream(HERE / "polars.arrows")
rows = table  # DuckDB finds it by its name.
duckdb.sql(f"copy (select * from rows) to '{HERE}/duckdb.parquet' (format parquet)")
