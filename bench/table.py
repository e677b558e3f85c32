"""How results look as text: tables with a ruled heading, at most 100 columns wide."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

WIDTH = 100


def ruled(head: str, lines: Sequence[str], groups: Sequence[Hashable] = ()) -> str:
    """Return a table as text, its heading underlined."""
    ruled_lines = [head, "-" * len(head)]
    for k, line in enumerate(lines):
        ruled_lines += [""] if groups and k and groups[k] != groups[k - 1] else []
        ruled_lines.append(line)
    return "\n".join(ruled_lines)


def narrow(value: float, width: int, digits: int) -> str:
    """Write a number at the right of `width` columns; large ones get fewer than `digits` digits."""
    texts = [*(f"{value:.{d}f}" for d in range(digits, -1, -1)), f"{value:.1e}"]
    return next((t for t in texts if len(t) <= width), texts[-1]).rjust(width)


def wrapped(texts: Iterable[str], first: str = "", others: str = "  ") -> list[str]:
    """Return texts as lines; `first` begins a text's first line, `others` its further lines."""
    return [
        line
        for text in texts
        for line in textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others)
    ]


def missing(found: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return lines about missing rows, one entry for each name and reason."""
    where: dict[tuple[str, str], list[str]] = {}
    for name, reason, case in found:
        where.setdefault((name, reason), []).append(case)
    texts = []
    for (name, reason), cases in where.items():
        more = f" and {len(cases) - 1} more" if len(cases) > 1 else ""
        texts.append(f"missing: {name}: {reason}; {cases[0]}{more}")
    return wrapped(texts)


def about(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return where each simulator runs, and its notes."""
    texts = [f"{r['name']} runs on {r['where']}." for r in rows]
    texts += [f"{r['name']}: {note}." for r in rows for note in r.get("notes", [])]
    return list(dict.fromkeys(texts))


def verdict(good: bool) -> str:
    return "yes" if good else "NO"
