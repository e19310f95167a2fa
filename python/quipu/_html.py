"""What notebooks show."""

from __future__ import annotations

from numbers import Number
from typing import Any


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, Number):
        return f'<td style="text-align:right">{value}</td>'
    if isinstance(value, bytes):
        value = value.hex()
    return f"<td>{_escape(str(value))}</td>"


def table_html(columns: list[str], rows: list[list[Any]], total: int | None) -> str:
    """The first rows of a table."""
    head = "".join(f"<th>{_escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in rows)
    if total is None:
        more = "<p>…</p>"
    elif total > len(rows):
        more = f"<p>{total} rows</p>"
    else:
        more = ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def page_html(page: str, height: int = 480) -> str:
    """A page of its own, which neither changes the notebook nor is changed by it."""
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{_escape(page)}" '
        f'style="width:100%;height:{height}px;border:0;resize:vertical;overflow:auto"></iframe>'
    )
