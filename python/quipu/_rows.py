"""Rows of tables and lenses, and batches of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Iterator

from . import _native
from ._errors import Error
from ._html import table_html
from ._progress import Bar, Progress

if TYPE_CHECKING:
    import numpy
    import numpy.typing

    Array = numpy.typing.NDArray[Any]


def _masked(array: Any, values: _native.Values) -> Any:
    """The same with a mask over rows that have no value."""
    import numpy

    masked: Any = numpy.ma
    return masked.MaskedArray(array, mask=numpy.frombuffer(values.nulls(), dtype=bool))


def _numpy(values: _native.Values) -> Any:
    """A column for NumPy: numbers where they are, everything else as a copy."""
    import numpy

    kind = values.kind
    if kind in ("number", "days", "bool"):
        if kind == "bool":
            array = numpy.frombuffer(values.truths(), dtype=bool)
        else:
            array = numpy.asarray(values)
        if kind == "days":
            array = array.astype("datetime64[D]")
        return _masked(array, values) if values.null_count else array
    if kind == "names":
        numbers, names = values.named()
        array = _objects(names.to_list() or [""])[numpy.clip(numpy.asarray(numbers), 0, max(len(names) - 1, 0))]
        if values.null_count:
            array[numpy.frombuffer(values.nulls(), dtype=bool)] = None
        return array
    return _objects(values.to_list())


def _objects(values: list[Any]) -> Any:
    """Objects in an array, of which lists are some."""
    import numpy

    array = numpy.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        array[at] = value
    return array


def _joined(arrays: list[Any]) -> Any:
    """Arrays one after the other, with their masks."""
    import numpy

    if len(arrays) == 1:
        return arrays[0]
    masked: Any = numpy.ma
    if any(isinstance(array, masked.MaskedArray) for array in arrays):
        return masked.concatenate(arrays)
    return numpy.concatenate(arrays)


class Batch:
    """Some rows as columns. Libraries that take Arrow's capsules take it without a copy: `pyarrow.record_batch(batch)`."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Batch) -> None:
        self._native = native

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self._native.num_rows

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def __len__(self) -> int:
        return self._native.num_rows

    def __getitem__(self, column: str) -> Any:
        return self.numpy(column)

    def numpy(self, column: str) -> Any:
        """A column as an array of NumPy.

        Numbers and moments are seen where they are, without a copy, and cannot be written; a column with rows that lack a
        value is a masked array. Names, texts, lists and decimal numbers are copied, as objects.
        """
        return _numpy(self._native.column(column))

    def to_list(self, column: str) -> list[Any]:
        """A column as a list; `None` where there is no value. Exact sums are `decimal.Decimal`, moments `datetime.datetime`,
        which has no nanoseconds: `numpy` has these."""
        return self._native.column(column).to_list()

    def to_dicts(self) -> list[dict[str, Any]]:
        """The rows, one by one."""
        names = self.columns
        columns = [self.to_list(name) for name in names]
        return [dict(zip(names, row)) for row in zip(*columns)]

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._native.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<quipu.Batch of {self.num_rows} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        return table_html(self.columns, self._shown(), self.num_rows)

    def _shown(self, rows: int = 20) -> list[list[Any]]:
        head = self._native.head(rows)
        columns = [head.column(name).to_list() for name in head.column_names]
        return [list(row) for row in zip(*columns)]


class Rows:
    """Chosen rows of a table or lens. Nothing is read before they are asked for, and each time anew.

    Libraries that take Arrow's capsules take them as they are: `pyarrow.table(rows)`, `polars.from_arrow(rows)`,
    `pandas.DataFrame.from_arrow(rows)`, `duckdb.sql("FROM rows")`.
    """

    def __init__(
        self,
        select: Callable[[list[str] | None, int | None], _native.Rows],
        name: str,
        doc: str,
        progress: Progress = None,
    ) -> None:
        self._select = select
        self._native = select(None, None)
        self._progress = progress
        self.name = name
        """The name of the table or lens."""
        self.doc = doc
        """What its rows are."""

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.column_names

    def batches(self, progress: Progress = None) -> Iterator[Batch]:
        """The rows batch by batch, read ahead on other threads. Ctrl-C ends it at once."""
        with Bar(self._progress if progress is None else progress, self.name) as bar:
            native = self._native.batches(bar.call)
            try:
                for batch in native:
                    yield Batch(batch)
            finally:
                native.close()

    def __iter__(self) -> Iterator[Batch]:
        return self.batches()

    def count(self) -> int:
        """How many rows there are: they are read for it, and no batch comes to Python."""
        with Bar(self._progress, self.name) as bar:
            return self._native.count(bar.call)

    def numpy(self, column: str) -> Any:
        """All values of a column in one array of NumPy."""
        # One without rows has the type of the column.
        return _joined([batch.numpy(column) for batch in self] or [self._empty().numpy(column)])

    def to_arrow(self) -> Any:
        """All rows as a table of pyarrow. Unlike `pyarrow.table(rows)` it can be interrupted."""
        import pyarrow  # type: ignore[import-untyped,unused-ignore]

        schema = pyarrow.schema(self)
        return pyarrow.Table.from_batches([pyarrow.record_batch(batch) for batch in self], schema)

    def to_polars(self) -> Any:
        """A lazy frame of polars: columns that a query does not name are not read, and with
        `collect(engine="streaming")` not all rows are in memory at once."""
        import polars
        from polars.io.plugins import register_io_source

        def read(
            columns: list[str] | None, predicate: Any, n_rows: int | None, batch_rows: int | None
        ) -> Iterator[Any]:
            # A frame without columns has no rows.
            columns = columns or None
            # Rows that a condition leaves out do not count.
            limit = n_rows if predicate is None else None
            part = Rows(lambda *_: self._select(columns, limit), self.name, self.doc)
            for batch in part.batches(self._progress):
                frame = polars.DataFrame(batch)
                if predicate is not None:
                    frame = frame.filter(predicate)
                yield frame if columns is None else frame.select(columns)

        return register_io_source(read, schema=polars.DataFrame(self._empty()).schema)

    def _empty(self) -> Batch:
        """A batch of these columns without rows."""
        return Batch(self._native.empty())

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows, one by one: for small tables."""
        return [row for batch in self for row in batch.to_dicts()]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What was found wrong with the trace by the last read."""
        found: list[dict[str, Any]] = json.loads(self._native.findings())
        return found

    @property
    def fault(self) -> Error | None:
        """Why the last read did not bring all rows; `None` if it did."""
        fault = self._native.fault()
        return fault if isinstance(fault, Error) else None

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<quipu.Rows of {self.name}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        for batch in self.batches(progress=False):
            return table_html(self.columns, batch._shown(), None)
        return table_html(self.columns, [], 0)


class Table(Batch):
    """A table of a result, with its name."""

    __slots__ = ("name",)

    def __init__(self, native: _native.Batch, name: str) -> None:
        super().__init__(native)
        self.name = name

    @property
    def doc(self) -> str:
        """What its rows are."""
        return self._native.metadata.get("quipu.doc", "")

    def __repr__(self) -> str:
        return f"<quipu.Table {self.name} of {self.num_rows} rows: {', '.join(self.columns)}>"


class Answer:
    """The rows that answer a question in SQL."""

    def __init__(self, batches: list[_native.Batch]) -> None:
        self._batches = [Batch(batch) for batch in batches]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._batches[0].columns if self._batches else []

    def __iter__(self) -> Iterator[Batch]:
        return iter([batch for batch in self._batches if len(batch)])

    def __len__(self) -> int:
        return sum(len(batch) for batch in self._batches)

    def to_dicts(self) -> list[dict[str, Any]]:
        """All rows, one by one."""
        return [row for batch in self for row in batch.to_dicts()]

    def numpy(self, column: str) -> Any:
        """All values of a column in one array of NumPy."""
        # One without rows has the type of the column.
        return _joined([batch.numpy(column) for batch in self] or [self._batches[0].numpy(column)])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return _native.joined([batch._native for batch in self._batches])

    def __repr__(self) -> str:
        return f"<quipu.Answer of {len(self)} rows: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        rows = [row for batch in self for row in batch._shown()][:20]
        return table_html(self.columns, rows, len(self))
