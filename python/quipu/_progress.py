"""How far work is: a bar of tqdm where that is installed and standard error is a terminal or a notebook."""

from __future__ import annotations

import sys
from typing import Any, Callable, Union

Progress = Union[bool, Callable[[int, int, "int | None"], None], None]
"""`True` or `False`, or what is called with records, bytes done, and bytes in all or `None`; a bar where one can be
seen if `None`."""


def _is_watched() -> bool:
    if "ipykernel" in sys.modules:
        return True
    try:
        return bool(sys.stderr.isatty())
    except (AttributeError, ValueError):
        return False


class Bar:
    """A bar, what the caller gave, or nothing."""

    def __init__(self, wanted: Progress, what: str) -> None:
        self._bar: Any = None
        self._bytes = 0
        self.call: Callable[[int, int, int | None], None] | None = None
        if callable(wanted):
            self.call = wanted
        elif wanted or (wanted is None and _is_watched()):
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
            except ImportError:
                return
            # Work that is over at once shows none.
            self._bar = tqdm(desc=what, unit="B", unit_scale=True, delay=0.5, leave=False)
            self.call = self._tell

    def _tell(self, records: int, n_bytes: int, total: int | None) -> None:
        if total is not None:
            self._bar.total = total
        self._bar.set_postfix(records=records, refresh=False)
        self._bar.update(n_bytes - self._bytes)
        self._bytes = n_bytes

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
