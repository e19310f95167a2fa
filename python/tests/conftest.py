"""What the tests share: the traces of the repository, and the command line to compare with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quipu

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "traces"
SMALL = TRACES / "drmemtrace" / "threadsig.x64"
CALLS = TRACES / "apitrace" / "glxgears-300.trace"
TYPED = TRACES / "cacheray" / "shapes.trace"
LINES = TRACES / "lackey" / "nodes.lackey.gz"
EVENTS = TRACES / "prism" / "prodcons.prism"


def command_line() -> list[str]:
    """The program to compare with: the one that `QUIPU` names, or this module's command line in a process of its own."""
    named = os.environ.get("QUIPU")
    return [named] if named else [sys.executable, "-m", "quipu"]


def cli(*words: object) -> tuple[int, str, str]:
    """What the command line answers: its exit code, standard output, standard error."""
    done = subprocess.run([*command_line(), *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def cli_json(*words: object) -> Any:
    """The JSON that the command line answers."""
    code, out, err = cli(*words)
    assert code in (0, 1), err
    return json.loads(out)


def is_trace(path: Path) -> bool:
    """Whether something opens as a trace."""
    try:
        quipu.open(path).close()
    except quipu.Error:
        return False
    return True


def samples() -> list[Path]:
    """Every trace of the repository, each once: files, and folders that are one trace."""
    found: list[Path] = []
    for family in sorted(TRACES.iterdir()):
        if not family.is_dir():
            continue
        for entry in sorted(family.iterdir()):
            if entry.name.startswith("golden") or entry.suffix in (".txt", ".json", ".md"):
                continue
            if is_trace(entry):
                found.append(entry)
            elif entry.is_dir():
                found += [inner for inner in sorted(entry.iterdir()) if inner.suffix not in (".txt", ".json") and is_trace(inner)]
    return found


@pytest.fixture
def small() -> Any:
    with quipu.open(SMALL) as trace:
        yield trace
