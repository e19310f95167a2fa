"""Writes `quipu/_analyses.py`: a method for each analysis, with its options as keyword arguments.

`python generate.py` writes it, `python generate.py --check` says whether it is as it would be written.
"""

from __future__ import annotations

import json
import keyword
import sys
import textwrap
from pathlib import Path
from typing import Any

from quipu import _native

TYPES = {
    "flag": "bool",
    "count": "int | str",
    "bytes": "int | str",
    "power-of-two": "int | str",
    "share": "float",
    "range": "tuple[int, int] | range | str",
    "set": "str",
    "path": "str | os.PathLike[str]",
    "text": "str",
}

COMMON = ["records", "instrs", "time", "threads", "interval_instrs", "interval_us", "per_core", "jobs", "progress"]

HEAD = '''"""A method for each analysis. `python generate.py` writes this file from the descriptions of the analyses."""

from __future__ import annotations

import os
from typing import Any, Literal

from ._result import Result


class Analyses:
    """Analyses of a trace, those of all formats.

    Each takes, beside its options, what `Trace.run` takes: `records`, `instrs` and `time` for a part, `threads`,
    `interval_instrs`, `interval_us` and `per_core` for results of parts, `jobs`, `progress`. An option of such a name has an
    underscore after it.
    """

    def _analysis(self, name: str, options: dict[str, Any], how: dict[str, Any]) -> Result:
        raise NotImplementedError
'''


def python_name(name: str) -> str:
    name = name.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) or name in COMMON else name


def type_of(option: dict[str, Any]) -> str:
    if option["kind"] == "choice":
        one = f"Literal[{', '.join(json.dumps(word) for word in option['choices'])}]"
    else:
        one = TYPES[option["kind"]]
    return f"{one} | list[{one}] | None" if option["repeats"] else f"{one} | None"


def sentence(option: dict[str, Any]) -> str:
    default = option["default"]
    text = option["doc"][:1].upper() + option["doc"][1:].rstrip(".")
    return f"{text}; default {default}." if default and option["kind"] != "flag" else f"{text}."


def method(name: str, tools: list[dict[str, Any]]) -> str:
    options: dict[str, dict[str, Any]] = {}
    for tool in tools:
        for option in tool["options"]:
            options.setdefault(option["name"], option)
    formats = sorted({tool["format"] for tool in tools if tool["format"]})
    summary = tools[0]["summary"].rstrip(".").replace("\\", "\\\\")
    lines = [f"    def {python_name(name)}("]
    lines.append("        self,")
    if options:
        lines.append("        *,")
    for option in options.values():
        lines.append(f"        {python_name(option['name'])}: {type_of(option)} = None,")
    lines.append("        **how: Any,")
    lines.append("    ) -> Result:")
    doc = [f"{summary[:1].upper()}{summary[1:]}."]
    if formats and len(formats) == len(tools):
        doc += ["", f"For traces of format {', '.join(formats)}."]
    if options:
        doc.append("")
        for option in options.values():
            text = f"{python_name(option['name'])}: {sentence(option)}".replace("\\", "\\\\")
            doc += textwrap.wrap(text, 110, subsequent_indent="    ")
    if len(doc) == 1:
        lines.append(f'        """{doc[0]}"""')
    else:
        lines.append(f'        """{doc[0]}')
        lines += [f"        {line}".rstrip() for line in doc[1:]]
        lines.append('        """')
    given = ", ".join(f'"{option}": {python_name(option)}' for option in options)
    call = f'        return self._analysis("{name}", {{{given}}}, how)'
    if len(call) > 118:
        lines.append("        options: dict[str, Any] = {")
        lines += [f'            "{option}": {python_name(option)},' for option in options]
        lines.append("        }")
        call = f'        return self._analysis("{name}", options, how)'
    lines.append(call)
    return "\n".join(lines)


def text() -> str:
    by_name: dict[str, list[dict[str, Any]]] = {}
    for tool in json.loads(_native.every_tool()):
        by_name.setdefault(tool["name"], []).append(tool)
    # The verb has more to say than the analysis of its name.
    by_name.pop("check", None)
    methods = [method(name, tools) for name, tools in sorted(by_name.items())]
    return HEAD + "\n" + "\n\n".join(methods) + "\n"


def main() -> int:
    path = Path(__file__).parent / "quipu" / "_analyses.py"
    if "--check" in sys.argv:
        return int(path.read_text() != text())
    path.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
