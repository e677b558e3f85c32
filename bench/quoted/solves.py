"""Figures of solves: on GPUs, on CPUs, on several devices, from NumPy; planning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.figures import Figure, Quote
from bench.quoted.entries import (
    README,
    SPEED,
    Row,
    duration,
    field,
    floor_alone,
    micro,
    nanoseconds_per_node,
    prose,
    row,
    short_floor,
    taken,
    with_floor,
)


def solves_on_gpu() -> Iterator[Quote]:
    """Yield the tables of solves on a GPU."""
    here, file = "## Solves on a GPU", "reach-nvidia-h200"
    ways = {
        "the same with stored factors": "factors kept",
        "the same in natural order": "natural order",
    }
    cases = {
        **{f"{c} nodes": c for c in CASES},
        **dict.fromkeys(ways, "25,600 cells of 512"),
        "20,000,000 nodes of reconstructed cells, 117 to 19,363 nodes each": "real mix",
    }
    for label, case in cases.items():
        where = {"case": case, "way": ways.get(label, "")}
        found = [Figure(file, with_floor, {**where, "dtype": t}) for t in ("float64", "float32")]
        yield row(SPEED, here, label, *found)
    met = Figure(file, lambda r: str(sum(x["x_floor"] <= x["aim"] for x in aimed(r))), {})
    all_aims = Figure(file, lambda r: str(len(aimed(r))), {})
    yield prose(SPEED, here, "which stand there too, {} of {} are reached", met, all_aims)
    for page, under, names in ((README, "## How fast", PEERS[:6]), (SPEED, here, PEERS)):
        for label, name in names:
            cells = [
                Figure(
                    "peers-nvidia-h200",
                    taken,
                    {"cells": n, "kind": k, "dtype": "float64", "name": name},
                )
                for n, k in ((1, "1 shape"), (25600, "64 shapes"), (1, "chains"), (25600, "chains"))
            ]
            yield row(page, under, label, *cells)
        command = Figure("peers-nvidia-h200", lambda r: r["record"]["command"], {})
        yield Quote(page, under, "Made by `{}`", (command,))
    yield from by_method(here, "*floor of this run*", "solve-nvidia-h200", METHODS)


CALLS = ("solve", "solve out", "factor", "f.solve", "f.solve out")


def calls_from_numpy() -> Iterator[Quote]:
    """Yield the tables of calls with NumPy arrays on a kept solver."""
    here = "## From NumPy, and planning"
    for device, file in (("H200", "calls-nvidia-h200"), ("two cores", "calls-pocl-amd-epyc")):

        def call(name: str, file: str = file, **where: object) -> Figure:
            def shown(r: Row) -> str:
                return f"{duration(r['seconds'][name])} ({r['times_aim'][name]:.2f} x)"

            return Figure(file, shown, where)

        for kind, cells in ((k, c) for k in ("trees", "chains") for c in (1, 256, 2560)):
            where = {"kind": kind, "cells": cells, "dtype": "float64"}
            found = [call(name, **where) for name in CALLS]
            yield row(SPEED, here, f"{device}, {kind} | {cells:,}", *found)
        for cells in (1, 256, 2560):
            where = {"kind": "chains", "cells": cells, "dtype": "float64"}
            peers = [
                Figure(
                    file,
                    lambda r, n=n: duration(r["seconds"][n]) if n in r["seconds"] else "-",
                    where,
                )  # type: ignore[misc]
                for n in ("solve out", "solve_banded", "ptsv")
            ]
            yield row(SPEED, here, f"{device} | {cells:,}", *peers)
        yield prose(
            SPEED,
            here,
            f"of the {{}} on {'an H200' if device == 'H200' else 'two cores'} {{}} are reached",
            Figure(file, lambda r: str(len(within(r))), {}),
            Figure(file, lambda r: str(sum(within(r))), {}),
        )


def within(result: Row) -> list[bool]:
    """Whether each aim of calls is reached."""
    return [r["times_aim"][name] <= 1 for r in result["rows"] for name in CALLS]


def aimed(result: Row) -> list[Row]:
    """Return the rows that have an aim."""
    return [r for r in result["rows"] if r["aim"]]


def by_method(here: str, floor: str, file: str, methods: Sequence[str]) -> Iterator[Quote]:
    """Yield a table of methods over numbers of cells, float64."""
    for label, method in ((floor, ""), *((f"`{m}`", m) for m in methods)):
        shown = short_floor if method else floor_alone
        where = {"dtype": "float64", "method": method or methods[0]}
        cells = [Figure(file, shown, {**where, "cells": n}) for n in (1, 256, 2560, 25600)]
        yield row(SPEED, here, label, *cells)


CASES = (
    "1 cell of 512",
    "1 cell of 1,500",
    "1 chain of 1,500",
    "1 cell of 1,000,000",
    "256 cells of 512",
    "2,560 cells of 512",
    "25,600 cells of 512",
    "102,400 cells of 512",
    "409,600 cells of 128",
    "25,600 cells of 1,500",
)
PEERS = (
    ("memory floor", "memory floor"),
    ("clhines auto (contraction)", "clhines auto..."),
    ("cuSPARSE gtsv2StridedBatch", "cuSPARSE gtsv2StridedBatch"),
    ("cuSPARSE gtsvInterleavedBatch, Thomas", "cuSPARSE gtsvInterleavedBatch..."),
    ("C/OpenMP, equal trees in lanes", "C/OpenMP, equal..."),
    ("C, one thread", "C, one thread"),
    ("C/OpenMP, any trees in lanes", "C/OpenMP, any..."),
    ("Numba, prange", "Numba, prange"),
    ("SciPy splu", "SciPy splu"),
    ("SciPy solveh_banded", "SciPy solveh_banded"),
    ("SciPy solve_banded", "SciPy solve_banded"),
)  # label, and name in the result; the first six are in README, too
METHODS = ("contraction", "fine", "interleaved", "block_interleaved", "flat")


def solves_on_cpus() -> Iterator[Quote]:
    """Yield the tables of solves on CPUs, and what a call from NumPy takes."""
    here = "## Solves on CPUs"
    files = {"pocl": "peers-pocl-amd-epyc", "intel": "peers-intel-amd-epyc"}
    columns = [(files[f], t) for f in files for t in ("float64", "float32")]
    names = {"clhines auto (fine)": "clhines auto...", **dict(PEERS[4:10])}
    kinds = {
        "all different trees": "all different",
        "trees of one shape": "1 shape",
        "chains": "chains",
    }
    for kind, what in kinds.items():
        for label, name in names.items():
            if (label, kind) in (("C/OpenMP, equal trees in lanes", "all different trees"),):
                continue
            if label.startswith("SciPy") and (kind != "chains" or label == "SciPy splu"):
                continue
            where = {"cells": 25600, "kind": what, "name": name}
            cells = [Figure(f, nanoseconds_per_node, {**where, "dtype": t}) for f, t in columns]
            yield row(SPEED, here, f"{kind}: {label}", *cells)
    solved = {"cells": 25600, "dtype": "float64", "method": "fine"}
    one = {"cells": 1, "kind": "1 shape", "dtype": "float64"}
    yield prose(
        SPEED,
        here,
        "the time of a launch, {} µs with PoCL; plain C takes {}.",
        Figure(files["pocl"], micro, {**one, "name": "clhines auto..."}),
        Figure(files["pocl"], micro, {**one, "name": "C, one thread"}),
    )
    order = ("fine", "block_interleaved", "flat", "interleaved", "contraction")
    yield from by_method(here, "*floor*", "solve-pocl-amd-epyc", order)
    mix = {"systems": "cells", "dtype": "float64"}
    tenths = field("seconds", "{:.1f}", 1e3)
    yield prose(
        SPEED,
        here,
        "takes {} µs with `contraction` in float64, but {} µs in float32, and"
        " {} ms with `fine` and {} ms with `interleaved` in float64",
        Figure("methods-nvidia-h200", micro, {**mix, "method": "contraction"}),
        Figure("methods-nvidia-h200", micro, {**mix, "method": "contraction", "dtype": "float32"}),
        Figure("methods-nvidia-h200", tenths, {**mix, "method": "fine"}),
        Figure("methods-nvidia-h200", tenths, {**mix, "method": "interleaved"}),
    )
    here = "## From NumPy, and planning"
    both = ["solve-pocl-amd-epyc", "solve-intel-amd-epyc"]
    call, alone = field("numpy_seconds", "{:.0f}", 1e3), field("seconds", "{:.0f}", 1e3)
    yield prose(
        SPEED,
        here,
        "take {} ms with PoCL and {} ms with Intel's runtime on two cores, float64,"
        " of which the solve is {} and {} ms",
        *(Figure(f, shown, solved) for shown in (call, alone) for f in both),
    )
    large = {**solved, "method": "contraction"}
    yield prose(
        SPEED,
        here,
        "On an H200 it is {} ms for a solve of {} µs",
        Figure("solve-nvidia-h200", call, large),
        Figure("solve-nvidia-h200", micro, large),
    )
    for case in ("64 shapes", "all different", "one cell"):
        wanted = [("fine", {}), ("contraction", {}), ("dhs", {"k": 4})]
        cells = [
            Figure(
                "plan-options",
                field("plan_seconds", "{:.2f}"),
                {"case": case, "method": m, "options": o, "nodes": n},
            )
            for m, o in wanted
            for n in [10_000_000 if case == "one cell" else 9_999_872]
        ]
        yield row(SPEED, here, case, *cells)


def several_devices() -> Iterator[Quote]:
    """Yield the table of two GPUs."""
    here, file = "## Several devices", "devices-nvidia-h200"
    ways = {
        "one solve after another, values on the devices, without waiting": "stream_seconds",
        "the same, waiting for each solve": "single_seconds",
        "from NumPy to NumPy": "numpy_seconds",
    }

    def gain(name: str, cells: int) -> Figure:
        def shown(result: Row) -> str:
            one, two = (
                next(r for r in result["rows"] if r["devices"] == k and r["cells"] == cells)[name]
                for k in (1, 2)
            )
            return f"{one / two:.2f} x"

        return Figure(file, shown, {})

    for label, name in ways.items():
        for cells in (102_400, 409_600):
            where = {"cells": cells}
            found = [
                Figure(file, lambda r, n=name: duration(r[n]), {**where, "devices": k})  # type: ignore[misc]
                for k in (1, 2)
            ]
            yield row(SPEED, here, f"{label} | {cells:,}", *found, gain(name, cells))
    slices = [
        Figure(file, lambda r, n=n, f=f, k=k: f.format(r["slices"][0][n] * k), {})  # type: ignore[misc]
        for n, f, k in (
            ("gb_per_s", "{:.0f}", 1),
            ("values_bytes", "{:.1f}", 1e-9),
            ("seconds", "{:.0f}", 1e3),
            ("ratio", "{:.2f}", 1),
        )
    ]
    yield prose(
        SPEED,
        here,
        "about {} GB/s. In slices, with a third of its {} GB allowed, the larger batch"
        " takes {} ms, {} times its copies alone",
        *slices,
    )
    call = field("numpy_seconds", "{:.1f}", 1e3)
    yield prose(
        SPEED,
        here,
        "from NumPy both take {} ms where the H200 alone takes {} (",
        *(Figure("devices-unequal-nvidia-h200", call, {"devices": k}) for k in (2, 1)),
    )
