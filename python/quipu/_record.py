"""Recording programs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Sequence

from . import _native

if TYPE_CHECKING:
    from ._trace import Path, Trace

_HERE = os.path.dirname(os.path.abspath(__file__))


class Recorded:
    """What came of a recording."""

    def __init__(self, path: str, about: dict[str, Any]) -> None:
        self.path = path
        """Where the trace is."""
        self.exit_code: int | None = about["exit_code"]
        """How the program ended; `None` if a signal ended it."""
        self.signal: int | None = about["signal"]
        """The signal that ended it."""
        self.is_limited: bool = about["is_limited"]
        """Whether a limit ended the recording before the program ended."""
        self.processes: list[dict[str, Any]] = about["processes"]
        """Each process with its counts."""
        self.findings: list[dict[str, Any]] = about["findings"]
        """What is to be said of the trace."""

    def __repr__(self) -> str:
        return f"<quipu.Recorded {self.path}>"

    def open(self, **options: Any) -> Trace:
        """Opens the trace."""
        from ._trace import open as open_trace

        return open_trace(self.path, **options)

    def __fspath__(self) -> str:
        return self.path


def record(
    command: Sequence[str | bytes | os.PathLike[str]],
    output: Path | None = None,
    *,
    front_end: str = "auto",
    force: bool = False,
    container: str = "zip",
    level: int = 1,
    max_size: int | None = None,
    max_instrs: int | None = None,
    start_after_instrs: int | None = None,
    start_at_function: str | None = None,
    windows: tuple[int, int] | None = None,
    follow_fork: bool = False,
) -> Recorded:
    """Runs a program and records what it does, as `quipu record` does.

    `quipu.record(["./matrix", "512"], max_instrs=100_000_000).open().report()`
    """
    # The library that is loaded into programs lies in the package, if it was built with it.
    if os.path.exists(os.path.join(_HERE, "lib")):
        os.environ.setdefault("QUIPU_LIB", os.path.join(_HERE, "lib"))
    path, about = _native.record(
        [os.fsencode(word) for word in command],
        os.fsencode(output) if output is not None else None,
        front_end,
        force,
        container,
        level,
        max_size,
        max_instrs,
        start_after_instrs,
        start_at_function,
        windows,
        follow_fork,
    )
    return Recorded(os.fspath(path), json.loads(about))
