"""What analyses and verbs leave."""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any, Iterator

from . import _native
from ._errors import DamageWarning
from ._html import page_html
from ._rows import Table

if TYPE_CHECKING:
    from ._trace import Trace


class Tables(dict[str, Table]):
    """Tables by their names, which attributes are, too: `tables.lines` is `tables["hot-lines.lines"]` of one result."""

    def __getattr__(self, name: str) -> Table:
        for full, table in self.items():
            if full.replace("-", "_").replace(".", "_") == name or full.rpartition(".")[2] == name:
                return table
        raise AttributeError(f"no table `{name}`; tables: {', '.join(self)}")


class Results:
    """The results of analyses that shared one read of the trace."""

    def __init__(self, native: _native.Outcome, title: str) -> None:
        self._native = native
        self._title = title
        self._json: dict[str, Any] | None = None
        self._tables: Tables | None = None
        fault = native.fault()
        if fault is not None:
            warnings.warn(fault, DamageWarning, stacklevel=4)

    @property
    def names(self) -> list[str]:
        """The names of the analyses."""
        return self._native.names

    @property
    def json(self) -> dict[str, Any]:
        """All results, as `quipu analyze --json` prints them."""
        if self._json is None:
            self._json = json.loads(self._native.json())
        return self._json

    @property
    def tables(self) -> Tables:
        """All results as tables, with the names of the keys in JSON."""
        if self._tables is None:
            self._tables = Tables((name, Table(batch, name)) for name, batch in self._native.tables())
        return self._tables

    @property
    def parts(self) -> list[dict[str, Any]]:
        """The results of intervals and cores, if they were asked for."""
        parts: list[dict[str, Any]] = self.json.get("parts", [])
        return parts

    @property
    def complete(self) -> bool:
        """Whether all of the trace was read."""
        return self._native.complete

    @property
    def flawed(self) -> bool:
        """Whether an analysis judged the trace and found errors."""
        return self._native.flawed

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What was found wrong with the trace."""
        findings: list[dict[str, Any]] = self.json["findings"]
        return findings

    def __getitem__(self, name: str) -> dict[str, Any]:
        result: dict[str, Any] = self.json["results"][name]
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __str__(self) -> str:
        return self._native.text()

    def __repr__(self) -> str:
        return f"<quipu.{type(self).__name__} of {', '.join(self.names)}>"

    def page(self) -> str:
        """A page for a browser with the charts of `quipu report --html`, complete in one text."""
        return self._native.page(self._title)

    def _repr_html_(self) -> str:
        return page_html(self.page())


class Result(Results):
    """The result of one analysis."""

    @property
    def name(self) -> str:
        """The name of the analysis."""
        return self.names[0]

    @property
    def value(self) -> dict[str, Any]:
        """What it found: the value of its name in `results`."""
        value: dict[str, Any] = self.json["results"][self.name]
        return value

    def __getitem__(self, key: str) -> Any:
        return self.value[key]

    @property
    def table(self) -> Table:
        """The first of its tables."""
        return next(iter(self.tables.values()))


class Answered(dict[str, Any]):
    """What a verb answers with `--json`, the text that it has for people, and its exit code."""

    def __init__(self, value: dict[str, Any], code: int, said: str, output: str | None = None) -> None:
        super().__init__(value)
        self.code = code
        """0, or 1 if something is wrong with the trace."""
        self.said = said
        """What it said of the trace beside its answer."""
        self.path = output
        """What it wrote."""

    def open(self, **options: Any) -> Trace:
        """Opens the trace that was written."""
        from ._trace import open as open_trace

        if self.path is None:
            raise ValueError("nothing was written")
        return open_trace(self.path, **options)

    def __fspath__(self) -> str:
        if self.path is None:
            raise TypeError("nothing was written")
        return os.fspath(self.path)
