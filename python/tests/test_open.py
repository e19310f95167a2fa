"""Opening: paths of all kinds, file objects, several traces, closing, what goes wrong."""

from __future__ import annotations

import io
import os
import pathlib
import shutil
import tempfile

import pytest
from conftest import CALLS, LINES, SMALL, TRACES, TYPED, cli_json

import quipu


@pytest.mark.parametrize(
    "path",
    [SMALL, CALLS, TYPED, LINES, TRACES / "drmemtrace" / "allasm"],
    ids=lambda path: path.name,
)
def test_any_family_opens_and_says_what_info_says(path: pathlib.Path) -> None:
    with quipu.open(path) as trace:
        said = cli_json("info", "--quick", "--json", path)
        assert {key: value for key, value in said.items() if key not in ("error", "findings", "lost")} == trace.info
        assert trace.format == said["format"]
        assert trace.survey() == cli_json("info", "--json", path)


def test_paths_are_texts_bytes_and_objects() -> None:
    infos = [quipu.open(path).info for path in (SMALL, str(SMALL), os.fsencode(SMALL))]
    assert infos[0] == infos[1] == infos[2]


def test_file_objects_are_read_whatever_they_are() -> None:
    counted = quipu.open(LINES).histogram().value
    with open(LINES, "rb") as file:
        assert quipu.open(file).histogram().value == counted
    with io.BytesIO(LINES.read_bytes()) as memory, quipu.open(memory) as trace:
        assert trace.histogram().value == counted
        copy = trace._temporary
        assert copy is not None and os.path.exists(copy)
    assert not os.path.exists(copy)


def test_paths_need_not_be_utf8(tmp_path: pathlib.Path) -> None:
    path = os.fsencode(tmp_path) + b"/n\xf6des.lackey.gz"
    shutil.copy(LINES, path)
    for named in (path, os.fsdecode(path), pathlib.Path(os.fsdecode(path))):
        with quipu.open(named) as trace:
            assert trace.histogram().value == quipu.open(LINES).histogram().value
            assert "n\ufffddes" in trace.name and "n\ufffddes" in repr(trace) and trace._repr_html_()
            assert trace.check()["findings"] == []
            out = trace.convert(os.fsencode(tmp_path) + b"/\xe4.trace", to="cacheray")
            assert out.open().format == "cacheray"
            os.unlink(os.fsencode(tmp_path) + b"/\xe4.trace")
            assert trace.report().page()
    with quipu.write(os.fsencode(tmp_path) + b"/\xe4.quipu", {"addr": [1]}).open() as trace:
        assert trace.table("access").count() == 1
    with pytest.raises(quipu.Error):
        quipu.open(os.fsencode(tmp_path) + b"/\xe4.nothing")


def test_a_copy_that_cannot_be_opened_is_removed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(quipu.UnsupportedError):
        quipu.open(io.BytesIO(bytes(range(256)) * 16))
    with pytest.raises(quipu.UsageError):
        quipu.open(io.BytesIO(LINES.read_bytes()), nonsense=1)

    class Breaks(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        quipu.open(Breaks())
    assert list(tmp_path.iterdir()) == []


def test_several_traces_are_workloads() -> None:
    folder = TRACES / "drmemtrace" / "allasm"
    with quipu.open([folder, folder]) as trace:
        assert len(trace.info["shards"]) == 2 * len(quipu.open(folder).info["shards"])


def test_a_closed_trace_refuses_and_gives_its_files_back(tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(SMALL, copy) if SMALL.is_dir() else shutil.copy(SMALL, copy)
    trace = quipu.open(copy)
    rows = trace.table("accesses")
    n_rows = rows.count()
    trace.close()
    assert trace.closed and "closed" in repr(trace)
    with pytest.raises(RuntimeError):
        trace.table("accesses")
    # Rows that were chosen before can still be read.
    assert rows.count() == n_rows


def test_errors_have_their_kind_and_place(tmp_path: pathlib.Path) -> None:
    with pytest.raises(quipu.Error) as missing:
        quipu.open(tmp_path / "nothing")
    assert missing.value.file == str(tmp_path / "nothing")
    nonsense = tmp_path / "nonsense"
    nonsense.write_bytes(bytes(range(256)) * 16)
    with pytest.raises(quipu.UnsupportedError) as unknown:
        quipu.open(nonsense)
    assert unknown.value.file == str(nonsense) and "known formats" in (unknown.value.hint or "")
    with pytest.raises(quipu.UsageError) as usage:
        quipu.open(SMALL, nonsense=1)
    assert isinstance(usage.value, ValueError)
    cut = tmp_path / "cut.trace"
    cut.write_bytes(CALLS.read_bytes()[:100_000])
    with pytest.raises(quipu.Error) as damaged:
        quipu.open(cut).table("calls").count()
    assert damaged.value.file == str(cut) and damaged.value.offset is not None


def test_a_trace_shows_itself() -> None:
    with quipu.open(SMALL) as trace:
        assert "drmemtrace" in trace._repr_html_()
        assert "counts" in trace.tools and "hot" in dir(trace)
