"""Figures of simulations: the ring network, real cells, generations of variants."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bench.figures import Figure, Quote
from bench.quoted.entries import (
    MACHINES,
    README,
    SPEED,
    Row,
    field,
    micro,
    nanoseconds,
    prose,
    row,
    significant,
    upper,
)


def rings() -> Iterator[Quote]:
    """Yield the tables of the ring network."""
    here = "## Simulations"
    names = {
        "clhines, float32": "clhines (epochs), float32",
        "clhines, float64": "clhines (epochs), float64",
        "Arbor": "Arbor 0...",
        "CoreNEURON": "CoreNEURON...",
        "NEURON": "NEURON...",
    }
    cpus = {"PoCL 3.0": "ring-pocl-amd-epyc", "Intel's runtime": "ring-intel-amd-epyc"}
    soma = {"hh": "soma", "case": "HH in the soma, passive dendrites; 64..."}
    every = {"hh": "all", "case": "HH in every compartment; 64..."}
    for runtime, file in cpus.items():
        for label, name in names.items():
            for what, sizes in ((soma, (16, 256, 1024, 16384)), (every, (256, 1024))):
                where = {**what, "name": name}
                cells = [Figure(file, nanoseconds, {**where, "cells": n}) for n in sizes]
                yield row(SPEED, here, f"{runtime}: {label}", *cells)
    gpu = {
        "clhines, float64": "clhines (epochs-gpu), float64",
        "clhines, float32": "clhines (epochs-gpu), float32",
        "Arbor, GPU": "Arbor GPU...",
    }
    for title, file in {"soma": "ring-nvidia-h200", "everywhere": "ring-all-nvidia-h200"}.items():
        for label, name in gpu.items():
            cells = [Figure(file, micro, {"cells": n, "name": name}) for n in (16, 1024, 16384)]
            yield row(SPEED, here, f"{title}: {label}", *cells)
            if label != "clhines, float32":
                beside = "in the soma" if title == "soma" else title
                yield row(README, "## How fast", f"ring, channels {beside}: {SHORT[label]}", *cells)
    pieces = Figure("ring-nvidia-h200", lambda r: str(min(x["piece_steps"] for x in r["ring"])), {})
    yield prose(SPEED, here, "in pieces of {} steps and more", pieces)
    # Pieces of the pyramidal cell have 800 steps, the default of `bench cells`.
    least = Figure(pieces.file, lambda r: str(min(800, *(x["piece_steps"] for x in r["ring"]))), {})
    yield prose(README, "## How fast", "All advance {} steps and more at a time", least)
    starts = [
        Figure(
            "ring-nvidia-h200", lambda r: f"{max(start(x)[0] for x in r['ring']) * 1e3:.0f}", {}
        ),
        Figure(
            "ring-nvidia-h200", lambda r: f"{max(start(x)[1] for x in r['ring']) * 1e2:.0f}", {}
        ),
    ]
    yield prose(
        SPEED, here, "take up to {} ms, so that the start of a call is at most {} % of a", *starts
    )
    short = {"cells": 1024, "dtype": "float64", **soma}
    yield prose(
        SPEED,
        here,
        "1,024 cells take {} µs (float64, soma;",
        Figure("ring-shapes-nvidia-h200", micro, short),
    )
    xeon = "r-xeon-r-processor-2-80ghz"
    files = (f"ring-all-pocl-intel-{xeon}", f"ring-all-intel-{xeon}")
    figures = [
        Figure(f, nanoseconds, {"cells": 1024, "dtype": t})
        for t in ("float64", "float32")
        for f in files
    ]
    yield prose(SPEED, here, "takes {} ns per compartment and step there with PoCL", figures[0])
    yield prose(SPEED, here, "and {} with Intel's runtime (", figures[1])
    yield prose(SPEED, here, "in float32 {} and {}.", figures[2], figures[3])


def points() -> Iterator[Quote]:
    """Yield how point neurons compare with Brian's."""
    file = "points-pocl-intel-r-xeon-r-processor"
    each = [
        Figure(file, field("x_brian", "{:.2f}"), {"name": f"clhines {t}"})
        for t in ("float64", "float32")
    ]
    words = "is {} times as fast as Brian's C++ program in float64, and {} times in float32"
    yield prose(SPEED, "", words, *each)


def start(r: Row) -> tuple[float, float]:
    """Return the seconds of Arbor's first steps, and what part of a piece that is."""
    if not r["name"].startswith("Arbor"):
        return 0.0, 0.0
    return r["first_steps_s"], r["first_steps_s"] / (r["seconds"] * r["piece_steps"])


SHORT = {"clhines, float64": "clhines", "Arbor, GPU": "Arbor 0.12.1, GPU"}  # in README
CHANNELS = {
    "pyramidal": "l5pc",
    "pyramidal with TABLE": "l5pc-table",
    "granule": "granule",
    "Purkinje-like": "purkinje",
}
XEON = "r-xeon-r-processor-2-80ghz"


def off(r: Row) -> str:
    """Return how far voltages are from the reference's."""
    return upper(r["apart_mv"])


def cells() -> Iterator[Quote]:
    """Yield the tables of real cells."""
    here, file = "### Real cells", "cells-nvidia-h200"
    for label, cell in CHANNELS.items():
        for engine in ("epochs", "steps"):
            for dtype in ("float64", "float32"):
                if engine == "steps" and (
                    cell == "granule" or (dtype, cell != "l5pc") == ("float32", True)
                ):
                    continue
                where = {"cell": cell, "engine": engine, "dtype": dtype}
                found = [Figure(file, micro, {**where, "copies": n}) for n in (1, 100, 1000, 10000)]
                worst = Figure(file, off, {**where, "copies": 1})
                yield row(SPEED, here, f"{label}, `{engine}`, {dtype}", *found, worst)
    single = {"copies": 1, "dtype": "float32"}
    late = field("apart_ms", "{:.3f}")
    yield prose(
        SPEED,
        here,
        "spikes of the granule cell come {} ms and of the pyramidal cell, by `steps`, {} ms from",
        Figure(file, late, {**single, "cell": "granule", "engine": "epochs"}),
        Figure(file, late, {**single, "cell": "l5pc", "engine": "steps"}),
    )
    many = {"copies": 10000, "dtype": "float64", "engine": "epochs"}
    yield prose(
        SPEED,
        here,
        "take {} s to describe and plan and {} s to the end of the first step,"
        " from `.mod` files {} s",
        Figure(file, lambda r: f"{r['describe_s'] + r['plan_s']:.1f}", {**many, "cell": "l5pc"}),
        Figure(file, field("to_first_step_s"), {**many, "cell": "l5pc"}),
        Figure(file, field("to_first_step_s", "{:.0f}"), {**many, "cell": "l5pc-table"}),
    )
    yield from beside_others(here)
    for title, cell in {"pyramidal, exact rates": "l5pc", "pyramidal, TABLE": "l5pc-table"}.items():
        source = "cells-peers-nvidia-h200" if cell == "l5pc" else file
        for label, name in (
            ("clhines, float64", "clhines (epochs), float64"),
            ("Arbor, GPU", "Arbor GPU..."),
        ):
            where = {"cell": cell, "name": name}
            found = [Figure(source, micro, {**where, "copies": n}) for n in (1, 1000, 10000)]
            if cell == "l5pc" or label != "Arbor, GPU":  # which has no TABLE
                yield row(README, "## How fast", f"{title}: {SHORT[label]}", *found)


def beside_others(here: str) -> Iterator[Quote]:
    """Yield the tables of real cells beside other simulators."""
    file = "cells-peers-nvidia-h200"
    names = {
        "clhines": "clhines (epochs), float64",
        "clhines, float32": "clhines (epochs), float32",
        "Arbor, GPU": "Arbor GPU...",
        "Jaxley, GPU": "Jaxley GPU...",
        "Arbor": "Arbor 0...",
        "CoreNEURON": "CoreNEURON...",
        "NEURON": "NEURON...",
        "Jaxley": "Jaxley 0...",
    }
    columns = [("l5pc", n) for n in (1, 100, 1000, 10000)] + [("granule", n) for n in (1, 1000)]
    for label, name in names.items():
        found = [Figure(file, micro, {"cell": c, "copies": n, "name": name}) for c, n in columns]
        yield row(SPEED, here, label, *found)
    columns = [(c, n) for c in ("l5pc", "l5pc-table", "granule") for n in (1, 16, 64)]
    columns += [("purkinje", 1), ("purkinje", 16)]
    files = {"PoCL 3.0": f"cells-pocl-intel-{XEON}", "Intel's runtime": f"cells-intel-{XEON}"}
    for runtime, file in files.items():
        for label, name in names.items():
            if label.endswith("GPU") or (label, runtime) == ("Jaxley", "Intel's runtime"):
                continue
            where = (
                {"name": "clhines...", "dtype": name[-7:]} if "clhines" in name else {"name": name}
            )
            found = [Figure(file, micro, {**where, "cell": c, "copies": n}) for c, n in columns]
            yield row(SPEED, here, f"{runtime}: {label}", *found)


def variants() -> Iterator[Quote]:
    """Yield the table of generations of variants, and how far float32 differs."""
    here, file = "### Generations of variants", "variants-nvidia-h200"
    for label, name, where, count in (
        ("NEURON 9.0.2 | 2 cores", "NEURON...", "2 processes", 12),
        ("Arbor 0.12.1 | 2 cores", "Arbor...", "2 threads", 12),
        ("clhines | 2 cores", "clhines", "2 cores", 12),
        ("Arbor 0.12.1 | H200", "Arbor...", "GPU", 300),
        ("clhines | H200", "clhines", "GPU", 100),
        ("clhines | H200", "clhines", "GPU", 1000),
        ("clhines | H200", "clhines", "GPU", 10000),
    ):
        found = [
            Figure(file, shown, {"name": name, "where": where, "variants": count, "dtype": dtype})
            for dtype in ("float64", "float32")
            for shown in (per_variant, field("first_s"))
        ]
        yield row(SPEED, here, f"{label} | {count:,}", *found)
    own = {"name": "clhines", "where": "GPU"}
    double, single = ({**own, "variants": 1000, "dtype": t} for t in ("float64", "float32"))
    fewer = {**single, "variants": 100}
    yield prose(
        SPEED,
        here,
        "and `reset` take {} ms for 1,000",
        Figure(file, field("set_s", "{:.1f}", 1e3), double),
    )
    yield prose(
        SPEED,
        here,
        "peaks are within {} mV, the steady voltage at the end of a stimulus within {} mV",
        apart(file, double, "peak_voltage"),
        apart(file, double, "steady_state_voltage_stimend"),
    )
    same = Figure(file, lambda r: f"{r['apart']['same_count'] * 100:.1f}", single)
    yield prose(SPEED, here, "has as many spikes as float64 in {} % of 3,000 traces", same)
    most = [
        apart(file, fewer, n, "most")
        for n in ("mean_frequency", "AHP_depth", "peak_voltage", "steady_state_voltage_stimend")
    ]
    yield prose(
        SPEED,
        here,
        "rates within {} Hz, afterhyperpolarisations within {} mV, peaks within {} mV"
        " and steady voltages within {} mV",
        *most,
    )
    worst = [
        apart(file, single, n)
        for n in ("mean_frequency", "AHP_depth", "steady_state_voltage_stimend")
    ]
    yield prose(
        SPEED,
        here,
        "rates differ by up to {} Hz, afterhyperpolarisations by up to {} mV and"
        " steady voltages by up to {} mV",
        *worst,
    )


def per_variant(r: Row) -> str:
    """Return the milliseconds per variant of a later generation."""
    return significant((r["simulate_s"] + r["features_s"]) / r["variants"] * 1e3)


def apart(file: str, where: dict[str, object], name: str, of: str = "") -> Figure:
    """Return the bound of a difference of a feature: of all traces, or of most."""
    return Figure(
        file, lambda r: upper(r["apart"][of][name] if of else r["apart"][name]), dict(where)
    )


OWN_CELLS = "## How do I let each MPI rank describe its own cells?"


def own_cells() -> Iterator[Quote]:
    """Yield times and memory of ranks that describe their own cells."""
    file = "scale-pocl-amd-epyc"
    shown = [micro, field("speed_up", "{:.2f}"), field("exchange_share", "{:.1f}", 100)]
    kinds = {
        "1 rank": ("strong", 1),
        "2 ranks": ("strong own", 2),
        "4 ranks": ("strong own", 4),
        "2 ranks that all describe all": ("strong", 2),
    }
    for label, (kind, ranks) in kinds.items():
        where = {"kind": kind, "ranks": ranks, "cells": 4096, "dtype": "float64"}
        cells = [Figure(file, s, {**where, "delay": delay}) for delay in (5.0, 0.5) for s in shown]
        yield row(MACHINES, OWN_CELLS, label, *cells)

    def planned(name: str, cells: int, ranks: int, own: bool, scale: float = 1.0) -> Figure:
        def found(result: Row) -> str:
            wanted = {"cells": cells, "ranks": ranks, "own": own}
            some = (r for r in result["planned"] if wanted.items() <= r.items())
            return next((f"{r[name] * scale:.1f}" for r in some), "-")

        return Figure(file, found, {})

    for cells, ranks in itertools.product((100_000, 1_000_000), (1, 2, 4)):
        figures = [
            planned(name, cells, ranks, own, scale)
            for name, scale in (("host_bytes", 1e-9), ("seconds", 1.0), ("cpu_s", 1.0))
            for own in (False, True)
        ]
        label = f"{cells:,} cells, {ranks} rank{'s' * (ranks > 1)}"
        yield row(MACHINES, OWN_CELLS, label, *figures)
