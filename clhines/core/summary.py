"""Summaries of objects, as notebooks show them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

_CELL = "style='text-align:left;vertical-align:top;white-space:pre-wrap'"


def as_html(title: str, rows: Mapping[str, object]) -> str:
    cells = "".join(
        f"<tr><th {_CELL}>{escape(name)}</th><td {_CELL}>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<b>{escape(title)}</b><table>{cells}</table>"


def counted(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def range_text(value: float | np.ndarray) -> str:
    if not np.size(value):
        return "none"
    least, most = np.min(value), np.max(value)
    return f"{least:g}" if least == most else f"{least:g} to {most:g}"
