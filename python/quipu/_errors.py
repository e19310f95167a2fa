"""What can go wrong, as exceptions that say where."""

from __future__ import annotations

import json
from typing import Any


class Error(Exception):
    """Why an operation could not continue: what, where, and what can be done about it.

    Offsets count bytes of the inflated stream of the member, or of the file if it has no members.
    """

    kind: str = "internal"

    def __init__(self, message: str, text: str | None = None) -> None:
        super().__init__(text if text is not None else message)
        self.message = message
        self.file: str | None = None
        self.member: str | None = None
        self.offset: int | None = None
        self.record: int | None = None
        self.instr: int | None = None
        self.hint: str | None = None
        self.findings: list[dict[str, Any]] = []

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text}; {self.hint}" if self.hint else text


class IoError(Error, OSError):
    """The operating system refused."""

    kind = "io"


class MalformedError(Error):
    """The bytes contradict the format."""

    kind = "malformed"


class TruncatedError(Error):
    """The bytes end too early."""

    kind = "truncated"


class DamagedError(Error):
    """The trace is damaged; `findings` says what is wrong."""

    kind = "damaged"


class UnsupportedError(Error):
    """A legal thing that Quipu cannot do."""

    kind = "unsupported"


class LimitError(Error):
    """A number in the input exceeds a documented limit."""

    kind = "limit"


class MissingError(Error, LookupError):
    """The trace lacks something that was asked for."""

    kind = "missing"


class UsageError(Error, ValueError):
    """The caller asked in a wrong way."""

    kind = "usage"


class InternalError(Error):
    """A fault of Quipu."""

    kind = "internal"


class DamageWarning(UserWarning):
    """Not all of a trace is in a result, because the trace is damaged."""


_KINDS: dict[str, type[Error]] = {
    error.kind: error
    for error in (
        IoError,
        MalformedError,
        TruncatedError,
        DamagedError,
        UnsupportedError,
        LimitError,
        MissingError,
        UsageError,
        InternalError,
    )
}


def _made(kind: str, message: str, text: str, about: dict[str, Any], findings: str) -> Error:
    """The exception that the native half raises."""
    error = _KINDS.get(kind, InternalError)(message, text)
    for key, value in about.items():
        setattr(error, key, value)
    error.findings = json.loads(findings)
    return error
