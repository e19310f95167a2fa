"""The module and the command line say the same of every trace of the repository."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from conftest import TRACES, cli, cli_json, samples

import quipu

ALL = samples()


def test_every_family_is_among_the_samples() -> None:
    families = {path.relative_to(TRACES).parts[0] for path in ALL}
    assert families >= {"apitrace", "cacheray", "din", "drmemtrace", "dtrace", "lackey", "prism"}
    assert len(ALL) > 60


@pytest.mark.parametrize("path", ALL, ids=lambda path: str(path.relative_to(TRACES)))
def test_the_same_numbers(path: Path) -> None:
    warnings.simplefilter("ignore", quipu.DamageWarning)
    with quipu.open(path) as trace:
        assert trace.survey() == cli_json("info", "--json", path)
        able = list(trace.report(progress=False).names)
        if able:
            asked = cli_json("analyze", ",".join(able), "--json", path)
            said = trace.run(*able, progress=False).json
            # The command line adds what the format tells beside these.
            assert {name: asked["results"][name] for name in able} == said["results"]
            rest = [key for key in asked if key != "results"]
            assert {key: asked[key] for key in rest} == {key: said[key] for key in rest}
        code, out, _ = cli("check", "--json", path)
        if code in (0, 1) and out:
            assert trace.check() == json.loads(out)
