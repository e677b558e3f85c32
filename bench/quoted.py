"""Which result each figure of README and docs is from, and what each result measures.

`bench.figures` compares them. A row of a table is its label and its cells; an entry of prose is
words of the page with ``{}`` for each figure. What is not in the result is ``-`` on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench.figures import Figure, Quote, unnamed

README, SPEED, NEURON = "README.md", "docs/speed.md", "docs/neuron.md"
SUPPORTED = "docs/supported.md"
PAGES = (README, SPEED, NEURON, SUPPORTED)
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
    """Return the same, shorter; the floor's own row has no multiple."""
    done = r["seconds"] if "floor" not in r else r["floor_seconds"]
    return duration(done) + ("" if "floor" in r else f" ({r['x_floor']:.1f} x)")


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


# -- entries -----------------------------------------------------------------------------------


def row(page: str, after: str, label: str, *cells: Figure | str) -> Quote:
    """Return a row of a table: a label, and its cells; those that are text are as they are."""
    words = [c if isinstance(c, str) else "{}" for c in cells]
    figures = tuple(c for c in cells if isinstance(c, Figure))
    return Quote(page, after, f"| {label} | {' | '.join(words)} |", figures)


def prose(page: str, after: str, words: str, *figures: Figure) -> Quote:
    """Return words of a page with their figures."""
    return Quote(page, after, words, figures)


def reach(case: str, dtype: str, way: str = "", shown: Shown = with_floor) -> Figure:
    """Return a figure of the cases that the project measures itself by."""
    return Figure("reach-nvidia-h200", shown, {"case": case, "dtype": dtype, "way": way})


def peer(kind: str, name: str, cells: int = 25600, shown: Shown = taken) -> Figure:
    """Return a time of a solver on the H200 and its host, float64."""
    where = {"cells": cells, "kind": kind, "dtype": "float64", "name": name}
    return Figure("peers-nvidia-h200", shown, where)


def solves_on_a_gpu() -> Iterator[Quote]:
    """Yield the tables of solves on a GPU."""
    here = "## Solves on a GPU"
    for label, case in {
        "1 cell of 512 nodes": "1 cell of 512",
        "1 cell of 1,500 nodes": "1 cell of 1,500",
        "1 chain of 1,500 nodes": "1 chain of 1,500",
        "1 cell of 1,000,000 nodes": "1 cell of 1,000,000",
        "256 cells of 512 nodes": "256 cells of 512",
        "2,560 cells of 512 nodes": "2,560 cells of 512",
        "25,600 cells of 512 nodes": "25,600 cells of 512",
        "102,400 cells of 512 nodes": "102,400 cells of 512",
        "409,600 cells of 128 nodes": "409,600 cells of 128",
        "25,600 cells of 1,500 nodes": "25,600 cells of 1,500",
        "20,000,000 nodes of 30 reconstructed cells, 117 to 19,363 nodes each": "real mix",
    }.items():
        yield row(SPEED, here, label, reach(case, "float64"), reach(case, "float32"))
    yield prose(
        SPEED, here, "25,600 cells of 512 nodes take {} µs with stored factors and {} µs in natural order",
        reach("25,600 cells of 512", "float64", "factors kept", micro),
        reach("25,600 cells of 512", "float64", "natural order", micro),
    )  # fmt: skip
    for page, under in ((README, "## How fast"), (SPEED, here)):
        for name in PEERS if page == SPEED else PEERS[:-5] + PEERS[-4:-3]:
            label = f"{name[:-3]} (contraction)" if name.endswith("...") else name
            found = [peer(kind, name, n) for kind in ("64 shapes", "chains") for n in (1, 25600)]
            found[0] = peer("1 shape", name, 1)
            yield row(page, under, label, *found)
    for label, name in (("memory floor", ""), *((f"`{m}`", m) for m in METHODS)):
        cells = [
            Figure(
                "solve-nvidia-h200",
                short_floor if name else floor_alone,
                {"cells": n, "dtype": "float64", "method": name or METHODS[0]},
            )
            for n in (1, 256, 2560, 25600)
        ]
        yield row(SPEED, here, label, *cells)


PEERS = (
    "memory floor",
    "clhines auto...",
    "cuSPARSE gtsv2StridedBatch",
    "cuSPARSE gtsvInterleavedBatch, Thomas",
    "C/OpenMP, any trees in lanes",
    "C/OpenMP, equal trees in lanes",
    "Numba, prange",
    "C, one thread",
    "SciPy splu",
    "SciPy solveh_banded",
    "SciPy solve_banded",
)
METHODS = ("contraction", "fine", "interleaved", "block_interleaved", "flat")
