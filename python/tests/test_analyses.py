"""Analyses as methods, their results as objects."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from conftest import CALLS, SMALL, TRACES, TYPED, cli_json

import quipu


def test_options_are_keyword_arguments(small: quipu.Trace) -> None:
    asked = cli_json("analyze", "histogram", "-O", "line-size=128", "-O", "top=3", "--json", SMALL)
    result = small.histogram(line_size=128, top=3)
    assert result.value == asked["results"]["histogram"]
    assert result.json == asked
    with pytest.raises(TypeError):
        small.histogram(nonsense=1)  # type: ignore[call-arg]
    with pytest.raises(quipu.UsageError):
        small.histogram(line_size="many")


def test_results_are_tables_with_the_keys_of_json(small: quipu.Trace) -> None:
    result = small.counts()
    assert result.name == "counts" and result.complete and not result.flawed
    row = result.table.to_dicts()[0]
    assert row["instructions"] == result["instructions"] if "instructions" in result.value else True
    hot = small.hot(top=5)
    for name, table in hot.tables.items():
        assert name.startswith("hot") and pyarrow.table(table).num_rows == len(table)
        assert table.doc
    with pytest.raises(AttributeError, match="tables: "):
        hot.tables.nonsense


def test_several_share_one_read_and_parts_have_results(small: quipu.Trace) -> None:
    asked = cli_json("analyze", "counts,mix", "--interval-instrs", "10k", "--json", SMALL)
    results = small.run("counts", "mix", interval_instrs=10_000)
    assert results.json == asked and len(results.parts) == len(asked["parts"]) > 1
    assert results["mix"] == asked["results"]["mix"]
    assert "trace" in results.tables["mix"].columns
    assert list(results) == ["counts", "mix"]


def test_a_part_is_a_part(small: quipu.Trace) -> None:
    asked = cli_json("analyze", "counts", "--skip", 100, "--take", 500, "--json", SMALL)
    assert small.counts(records=(100, 600)).json == asked
    with pytest.raises(quipu.UsageError, match="whole traces"):
        small.analyze("check", records=(0, 10))


def test_results_show_the_charts_of_the_report(small: quipu.Trace) -> None:
    report = small.report()
    assert {"mix", "branches"} <= set(report.names)
    page = report.page()
    assert page.startswith("<!doctype html>") and "<svg" in page
    assert report._repr_html_().startswith("<iframe") and "Instruction" in str(report)


@pytest.mark.parametrize("path", [SMALL, CALLS, TYPED], ids=lambda path: path.name)
def test_a_report_has_the_numbers_of_the_command_line(path: Path) -> None:
    asked = cli_json("report", "--json", path)
    with quipu.open(path) as trace:
        said = trace.report().json
        assert {key: value for key, value in asked.items() if key != "about"} == {
            key: value for key, value in said.items() if key != "trace"
        }
        without = trace.report(machine=False).json
        assert set(said["results"]) - set(without["results"]) == {"caches", "tlbs"} & set(said["results"])
    if path == SMALL:
        assert said["machine_records"] and {"caches", "tlbs"} <= set(said["results"])


def test_what_is_not_for_a_format_is_said(small: quipu.Trace) -> None:
    with pytest.raises(quipu.UsageError, match="not for traces of format"):
        small.frames()
    with pytest.raises(quipu.Error):
        quipu.open(CALLS).branches()
    with pytest.raises(AttributeError):
        small.nonsense  # type: ignore[attr-defined]


def test_cores_and_schedules_are_traces(small: quipu.Trace) -> None:
    asked = cli_json("analyze", "mix", "--order", "scheduled", "--sched", "cores=2", "--json", SMALL)
    scheduled = small.scheduled(cores=2)
    assert scheduled.mix().json == asked
    by_core = small.by_core()
    assert by_core.mix().value == cli_json("analyze", "mix", "--order", "cores", "--json", SMALL)["results"]["mix"]


def test_checks_and_simulators_are_those_of_the_command_line(small: quipu.Trace) -> None:
    assert small.check() == cli_json("check", "--json", SMALL)
    asked = cli_json("sim", "cache", "--l1d-size", "16K", "--json", SMALL)
    assert small.simulate("cache", l1d_size="16K") == asked
    assert small.caches(l1d_size="16K").value == asked["results"]["caches"]
    assert small.simulate("tlb", page_size="2M") == cli_json("sim", "tlb", "--page-size", "2M", "--json", SMALL)
    swept = small.simulate("sweep", level="ll", sizes="1M..4M")
    assert swept == cli_json("sim", "sweep", "--level", "ll", "--sizes", "1M..4M", "--json", SMALL)


def test_types_are_attributed() -> None:
    types = TYPED.parent / "types" / "shapes.dwarf.json"
    with quipu.open(TYPED) as trace:
        asked = cli_json("analyze", "types", "--types", types, "--json", TYPED)
        assert trace.types(types=types).value == asked["results"]["types"]


def test_a_call_that_is_interrupted_leaves_no_mark(small: quipu.Trace, tmp_path: Path) -> None:
    def stop(records: int, done: int, total: int | None) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError):
        small.counts(progress=stop)
    assert small.counts().complete
    with pytest.raises(KeyError):
        small.convert(tmp_path / "out.quipu", progress=stop)
    # It may have ended before it was stopped: then the file is whole.
    for left in tmp_path.iterdir():
        assert left.name == "out.quipu" and quipu.open(left).table("memrefs").count() == small.table("memrefs").count()


def test_progress_is_told(small: quipu.Trace) -> None:
    told: list[tuple[int, int, int | None]] = []
    small.counts(progress=lambda *now: told.append(now))
    assert told and told[-1][0] > 0


def test_an_answer_of_any_command_line() -> None:
    code, out, err = quipu.command("formats", "--json")
    assert code == 0 and "drmemtrace" in out and not err
    with pytest.raises(quipu.UsageError):
        quipu.command("nonsense")


def test_differences_are_a_list_with_its_sums() -> None:
    older, newer = (TRACES / "apitrace" / name for name in ("kinds.trace", "kinds-backtrace.trace"))
    with quipu.open(older) as old, quipu.open(newer) as new:
        same = old.diff(old)
        assert (same.code, same["differences"], same["summary"]["same"]) == (0, [], 257)
        other = old.diff(new)
    assert other.code == 1
    sums = {key: other["summary"][key] for key in ("changed", "deleted", "inserted")}
    assert sums == {"changed": 1, "deleted": 50, "inserted": 3}
    for key, n in sums.items():
        assert sum(item["op"] == key for item in other["differences"]) == n, key
    assert other["old"]["complete"] and other["new"]["complete"]


def test_a_stream_says_what_its_records_are() -> None:
    path = TRACES / "stream" / "minimal.quipu"
    with quipu.open(path) as trace, pytest.warns(quipu.DamageWarning, match="7 records are lost"):
        described = trace.describe()
    assert described == cli_json("describe", "--json", path)
    assert described["epochs"][0]["records"][0]["host"] == "hosta"
    with quipu.open(SMALL) as trace, pytest.raises(quipu.Error):
        trace.describe()
