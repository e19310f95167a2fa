"""Traces of program executions: rows as Arrow, analyses, checks, simulators, edits, recording.

>>> import quipu
>>> with quipu.open("traces/drmemtrace/threadsig.x64") as trace:
...     print(trace.counts())
...     hot = trace.hot(top=5).tables
...     rows = trace.table("accesses", columns=["addr", "size"], where="kind = 'write'")
"""

from __future__ import annotations

from . import _native
from ._errors import (
    DamagedError,
    DamageWarning,
    Error,
    InternalError,
    IoError,
    LimitError,
    MalformedError,
    MissingError,
    TruncatedError,
    UnsupportedError,
    UsageError,
)
from ._hooks import At, Hooks
from ._passes import Pass
from ._record import Recorded, record
from ._result import Answered, Result, Results
from ._rows import Answer, Batch, Rows, Table
from ._trace import Trace, open  # noqa: A004
from ._verbs import command
from ._write import write

__version__: str = _native.__version__
HAS_SQL: bool = _native.HAS_SQL
"""Whether the module was built with its engine for SQL."""

__all__ = [
    "HAS_SQL",
    "Answer",
    "Answered",
    "At",
    "Batch",
    "DamageWarning",
    "DamagedError",
    "Error",
    "Hooks",
    "InternalError",
    "IoError",
    "LimitError",
    "MalformedError",
    "MissingError",
    "Pass",
    "Recorded",
    "Result",
    "Results",
    "Rows",
    "Table",
    "Trace",
    "TruncatedError",
    "UnsupportedError",
    "UsageError",
    "command",
    "open",
    "record",
    "write",
]
