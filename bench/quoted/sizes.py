"""Figures of the first page, and of the page that says from which size on clhines pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.figures import Figure, Quote, result_of, rows_of
from bench.quoted.entries import INDEX, README, SIZE, SWITCH, field, micro, prose, row
from bench.quoted.models import FILES, XEON, seconds

PIECES = "pieces-pocl-amd-epyc"
LOOPS = "pieces-loops-pocl-amd-epyc"
COPIES = f"cells-pocl-intel-{XEON}"
CHAINS = "tridiagonal-pocl-intel-r-xeon-r-processor"
MODELS = {  # of NEURON: cells and compartments, and a name
    "139653": ("1, 642", "layer 5 pyramidal cell, ModelDB 139653"),
    "229585": ("1, 1,611", "Purkinje cell, ModelDB 229585"),
    "reduced_dentate": ("60, 2,000", "reduced dentate gyrus"),
    "netpyne": ("200, 200", "NetPyNE's tutorial network"),
    "bmtk": ("10, 1,436", "BMTK's 14 cells"),
}
FIRST = (
    ("139653", "H200", "1 s"),
    ("reduced_dentate", "H200", "1 s"),
    ("netpyne", "two cores", "1 s"),
    ("bmtk", "two cores", "1 s"),
)
MORE = (
    ("139653", "two cores", "1 s"),
    ("229585", "two cores", "0.1 s"),
    ("reduced_dentate", "two cores", "0.3 s"),
)


def sizes() -> Iterator[Quote]:
    """Yield the tables of both pages, and the README's."""
    for page in (INDEX, README):
        for model, on, stop in FIRST:
            yield one_model(page, "## How fast", MODELS[model][1], model, on, stop)
    for model, on, stop in (*FIRST, *MORE):
        name = MODELS[model][1].partition(",")[0]
        yield one_model(SIZE, "## Models of NEURON", name, model, on, stop)
    first = [f"{bound(r['first_step_s'] for r in rows_of(FILES['two cores'])):.0f}"
             for bound in (min, max)]  # fmt: skip
    words = "takes {} to {} s to the end of its first step"
    yield prose(SIZE, "", words, *(text(FILES["two cores"], w) for w in first))
    for model in ("ring", "cell", "cell 1", "cell 50", "cell 500"):
        for piece in (1, 10, 100) if model in ("ring", "cell") else (100, 1000):
            where = {"model": model, "piece": float(piece)}
            cells = [Figure(PIECES, field(name, "{:.3f}", 1e3), where)
                     for name in ("ours_seconds", "neuron_seconds")]  # fmt: skip
            yield row(SIZE, "## Runs in pieces", f"{model} | {piece}", *cells)
    for loop in ("Python, one v", "Python, all v", "steprun()", "hoc", "hoc, one v"):
        for segments in (10, 1000, 10000):
            cells = [Figure(LOOPS, field(name, "{:.0f}", 1e6), {"loop": loop, "segments": segments})
                     for name in ("ours_seconds", "neuron_seconds")]  # fmt: skip
            label = f"{loop}, {segments}"
            yield row(
                SWITCH, "## How do I run a script with a loop around fadvance()?", label, *cells
            )
    small = [r["ours_seconds"] * 1e3 for r in rows_of(PIECES) if r["piece"] <= 1.0]
    words = "takes {} to {} ms for a small model"
    yield prose(
        SIZE, "", words, text(PIECES, f"{min(small):.1f}"), text(PIECES, f"{max(small):.1f}")
    )
    for copies in (1, 16, 64):
        cells = [
            Figure(COPIES, micro, {"cell": "l5pc", "copies": copies, "name": name})
            for name in ("clhines (epochs), float64", "Arbor...", "NEURON...")
        ]
        yield row(SIZE, "## Many copies and many cells", f"{copies}", *cells)
    for systems in (1, 100, 1000, 10000):
        where = {"systems": systems, "dtype": "float64"}
        ways = ("solve_tridiagonal", "Tridiagonal.solve", "factors.solve", "solve_banded", "gtsv")
        cells = [Figure(CHAINS, call(way), where) for way in ways]
        yield row(SIZE, "## Tridiagonal systems", f"{systems}", *cells)
    took = [r["first_seconds"] * 1e3 for r in result_of(CHAINS)["rows"] if r["dtype"] == "float64"]
    words = "which takes {} to {} ms here"
    yield prose(SIZE, "", words, *(text(CHAINS, f"{round(b(took), -1):.0f}") for b in (min, max)))


def one_model(page: str, after: str, name: str, model: str, on: str, stop: str) -> Quote:
    """Return the row of a model."""
    times = [Figure(FILES[on], seconds(n), {"model": model}) for n in ("clhines_s", "neuron_s")]
    return row(page, after, f"{name} | {MODELS[model][0]} | {stop} | {on}", *times)


def text(file: str, said: str) -> Figure:
    """Return a figure that is worked out of several rows."""
    return Figure(file, lambda _: said, {})


def call(way: str) -> Callable[[dict[str, Any]], str]:
    """Return what shows the microseconds of one way to solve."""
    return lambda r: f"{r['seconds'][way] * 1e6:,.0f}"
