"""Verbs of the command line in this process."""

from __future__ import annotations

import json
import os
import warnings
from typing import Any

from . import _native
from ._errors import DamageWarning
from ._progress import Bar, Progress
from ._result import Answered

PathLike = "str | bytes | os.PathLike[str] | os.PathLike[bytes]"


def text_of(value: Any) -> str:
    """A value as an option has it: ranges are pairs, several values have commas."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, range):
        return f"{value.start}..{value.stop}"
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(end, int) for end in value):
        return f"{value[0]}..{value[1]}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(text_of(item) for item in value)
    if isinstance(value, (str, bytes, os.PathLike)):
        return os.fsdecode(value)
    return str(value)


def pairs_of(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Keyword arguments as options of an analysis: `line_size=128` is `line-size`. `None` is what is not given."""
    pairs: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is None:
            continue
        values = value if isinstance(value, list) else [value]
        pairs.extend((name.rstrip("_").replace("_", "-"), text_of(item)) for item in values)
    return pairs


def flags_of(options: dict[str, Any]) -> list[bytes]:
    """Keyword arguments as flags of a verb: `True` is the flag alone, a list is given item by item."""
    flags = []
    for name, value in options.items():
        flag = f"--{name.rstrip('_').replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag.encode())
            continue
        for item in value if isinstance(value, list) else [value]:
            flags.append(f"{flag}=".encode() + os.fsencode(text_of(item)))
    return flags


def path_of(path: bytes) -> bytes:
    """A path as an argument, which is no flag."""
    return b"./" + path if path.startswith(b"-") else path


def call(
    verb: list[str],
    inputs: list[bytes],
    options: dict[str, Any],
    output: Any = None,
    progress: Progress = None,
    judges: bool = False,
) -> Answered:
    """Runs a verb, and gives its JSON. Exit code 1 is a warning, unless the verb judges and findings are its answer."""
    args = [word.encode() for word in verb] + flags_of({"json": True, **options})
    written = None
    if output is not None:
        written = os.fsdecode(output)
        args += [b"-o", os.fsencode(written)]
    args += [path_of(path) for path in inputs]
    with Bar(progress, verb[-1]) as bar:
        code, out, err = _native.answer(args, bar.call)
    said = err.decode(errors="replace").strip()
    answered = Answered(of_lines(out) if verb == ["diff"] else json.loads(out.strip() or b"{}"), code, said, written)
    if code == 1 and said and not judges:
        warnings.warn(said, DamageWarning, stacklevel=4)
    return answered


def of_lines(out: bytes) -> dict[str, Any]:
    """The lines of a comparison as one object: `differences`, `summary`, and how reading `old` and `new` went."""
    value: dict[str, Any] = {"differences": []}
    for line in out.splitlines():
        item = json.loads(line)
        if item["op"] == "summary":
            value["summary"] = item
        elif item["op"] == "reading":
            value[item["trace"]] = item
        else:
            value["differences"].append(item)
    return value


def command(*words: Any) -> tuple[int, str, str]:
    """Runs any command line in this process: its exit code, standard output and standard error.

    >>> quipu.command("formats", "--json")
    """
    code, out, err = _native.answer([os.fsencode(text_of(word)) for word in words], None)
    return code, out.decode(errors="replace"), err.decode(errors="replace")
