"""How figures look on a page, and entries for rows of tables and for prose."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from bench import record
from bench.figures import Figure, Quote

README, SPEED, NEURON = "README.md", "docs/speed.md", "docs/neuron.md"
SUPPORTED, PAPERS = "docs/supported.md", "docs/papers.md"
INDEX, SIZE, SWITCH = "docs/index.md", "docs/size.md", "docs/howto/switch.md"
SIMULATING = "docs/reference/simulating.md"
MACHINES = "docs/howto/machines.md"
Row = Mapping[str, Any]
Shown = Callable[[Row], str]

# -- how figures look --------------------------------------------------------------------------


def significant(value: float) -> str:
    """Return 3 or more digits: 1.6, 10.5, 434, 2,316."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def duration(seconds: float) -> str:
    """Return a time with its unit: 9.8 µs, 4.9 ms."""
    many = seconds >= 1e-3
    return f"{seconds * (1e3 if many else 1e6):,.1f} {'ms' if many else 'µs'}"


def micro(r: Row) -> str:
    """Return the microseconds of a row."""
    return significant(r["seconds"] * 1e6)


def taken(r: Row) -> str:
    """Return the time of a row."""
    return duration(r["seconds"])


def with_floor(r: Row) -> str:
    """Return the time of a row, and the multiple of the floor."""
    return f"{duration(r['seconds'])} ({r['x_floor']:.2f} x)"


def short_floor(r: Row) -> str:
    """Return the same with a digit less."""
    return f"{duration(r['seconds'])} ({r['x_floor']:.1f} x)"


def floor_alone(r: Row) -> str:
    """Return the floor of a row."""
    return duration(r["floor_seconds"])


def nanoseconds_per_node(r: Row) -> str:
    """Return nanoseconds per node, and the multiple of the floor."""
    each = r["seconds"] / r["cells"] / r["nodes"] * 1e9
    return f"{each:.2f} ({r['x_floor']:.1f})"


def nanoseconds(r: Row) -> str:
    """Return nanoseconds per compartment."""
    return f"{r['ns_per_compartment']:.2f}"


def field(name: str, form: str = "{:.1f}", scale: float = 1.0) -> Shown:
    """Return what shows a field of a row or of a whole result."""
    return lambda r: form.format(r[name] * scale)


def upper(value: float) -> str:
    """Return a bound above a value: its first digit, rounded up."""
    unit = 10.0 ** math.floor(math.log10(value)) if value else 1.0
    return re.sub(r"e-0", "e-", f"{math.ceil(value / unit - 1e-9) * unit:.1g}")


# -- entries -----------------------------------------------------------------------------------


def row(page: str, after: str, label: str, *cells: Figure) -> Quote:
    """Return a row of a table: a label, and its cells."""
    return Quote(page, after, f"| {label} |{' {} |' * len(cells)}", cells)


def prose(page: str, after: str, words: str, *figures: Figure) -> Quote:
    """Return words of a page with their figures."""
    return Quote(page, after, words, figures)


def said(file: str, pattern: str) -> Figure:
    """Return what a table says in words: the first group of a pattern."""

    def shown(_: Row) -> str:
        words = " ".join((record.RESULTS / f"{file}.txt").read_text("utf-8").split())
        found = re.search(pattern, words)
        return found[1] if found else "-"

    return Figure(file, shown, {})
