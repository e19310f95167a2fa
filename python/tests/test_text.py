"""What people read and type: types, generated methods, examples, notebooks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbclient
import nbformat
import pytest
from conftest import ROOT

HERE = ROOT / "python"


def run(*words: str, cwd: Path = HERE) -> None:
    done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stubs_say_what_there_is() -> None:
    run("-m", "mypy.stubtest", "quipu._native", "--allowlist", "tests/stubtest.txt")


def test_the_package_and_the_examples_are_typed(tmp_path: Path) -> None:
    examples = tmp_path / "examples.py"
    examples.write_text("\n".join(blocks()))
    run("-m", "mypy", "--strict", "quipu", "generate.py")
    # Pyarrow has no types.
    run("-m", "mypy", "--strict", "--disable-error-code=import-untyped", str(examples))


def blocks() -> list[str]:
    """The examples of docs/python.md."""
    text = (ROOT / "docs" / "python.md").read_text()
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_methods_of_analyses_are_those_that_there_are() -> None:
    run("generate.py", "--check")


def test_examples_of_the_page_run(tmp_path: Path) -> None:
    # They are one session: what one makes, later ones use.
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    script = tmp_path / "session.py"
    script.write_text("\n".join(blocks()))
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"^```text\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(), re.MULTILINE | re.DOTALL)
    for text in shown:
        assert text in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["architect", "graphics", "data-layout"])
def test_notebooks_run(name: str) -> None:
    notebook = nbformat.read(HERE / "notebooks" / f"{name}.ipynb", as_version=4)
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(HERE / "notebooks")}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and all(output.output_type != "error" for output in outputs)
