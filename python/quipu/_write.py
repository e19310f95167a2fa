"""Writing traces from columns."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Mapping

from . import _native, _verbs
from ._errors import UsageError
from ._result import Answered

if TYPE_CHECKING:
    from ._trace import Path


def _batches(columns: Any) -> list[_native.Batch]:
    if hasattr(columns, "__arrow_c_stream__"):
        return _native.batches_of(columns)
    if not isinstance(columns, Mapping):
        raise UsageError("columns are a mapping of names to arrays, or an object with `__arrow_c_stream__`")
    try:
        import numpy
    except ImportError as error:
        raise UsageError("columns that are no stream of Arrow need NumPy") from error
    named = [_column(str(name), values) for name, values in columns.items()]
    lengths = {name: len(numpy.asarray(columns[name])) for name in columns}
    if len(set(lengths.values())) > 1:
        raise UsageError(f"columns have different lengths: {', '.join(f'{n} `{name}`' for name, n in lengths.items())}")
    return [_native.from_columns(named)]


def _column(name: str, values: Any) -> tuple[str, str, bytes | list[str]]:
    """A column as the native half takes it."""
    import numpy

    array = numpy.asarray(values)
    if array.ndim != 1:
        raise UsageError(f"column `{name}` has {array.ndim} dimensions, wanted one")
    masked: Any = numpy.ma
    missing = masked.getmaskarray(values) if isinstance(values, masked.MaskedArray) else numpy.zeros(0, dtype=bool)
    if array.dtype.kind == "O":
        missing = numpy.array([value is None for value in array], dtype=bool)
    if missing.any():
        raise UsageError(f"column `{name}` has no value in row {int(missing.argmax())}")
    if array.dtype.kind == "U" or (array.dtype.kind == "O" and all(isinstance(value, str) for value in array)):
        return name, "text", [str(value) for value in array]
    if array.dtype.kind not in "iufb" or array.dtype.itemsize > 8 or array.dtype == numpy.float16:
        raise UsageError(
            f"column `{name}` has values of type {array.dtype}: numbers, truth values and texts are taken from NumPy, "
            "others from Arrow"
        )
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return name, f"<{array.dtype.kind}{array.dtype.itemsize}", array.tobytes()


def write(
    path: Path,
    columns: Any,
    *,
    format: str | None = None,  # noqa: A002
    table: str = "access",
    roles: Mapping[str, str] | None = None,
    per_second: int | None = None,
    force: bool = False,
    **options: Any,
) -> Answered:
    """Writes columns as a trace.

    `columns` is a mapping of names to arrays of numbers, truth values or texts, or anything with `__arrow_c_stream__` (tables of pyarrow,
    polars, DuckDB, rows of another trace). Columns called `addr`, `size`, `kind`, `pc`, `tid`, `pid`, `cpu`, `call`,
    `function`, … fill lenses; `roles` says so of others, such as `{"address": "addr"}`. `time` is the clock;
    `per_second` says how many ticks a second has. A `kind` is a name (`"read"`, `"write"`, …) or its number. A row that
    lacks a value, and a kind that there is not, are errors that name the column and the row.

    A file called `*.quipu` has all columns, in records of the kind `table`. `format` names another format that records go
    to, such as `"drmemtrace"` or `"cacheray"`; the answer's `ledger` says what it had no room for and what was made up.
    """
    batches = _batches(columns)
    pairs = sorted((roles or {}).items())
    is_stream = os.fsdecode(path).endswith(".quipu")
    if format in (None, "stream"):
        if format is None and not is_stream:
            raise UsageError("a name that ends with `.quipu`, or `format`, says what is to be written")
        rows = _native.write_stream(os.fsencode(path), table, batches, pairs, per_second, force)
        return Answered({"output": os.fsdecode(path), "records": rows}, 0, "", os.fsdecode(path))
    import tempfile

    with tempfile.TemporaryDirectory(prefix="quipu-") as folder:
        between = os.path.join(folder, "columns.quipu")
        _native.write_stream(os.fsencode(between), table, batches, pairs, per_second, False)
        return _verbs.call(
            ["convert"], [os.fsencode(between)], {"to": format, "force": force, **options}, os.fsdecode(path), False
        )
