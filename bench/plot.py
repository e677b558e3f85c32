"""Draw the results of `peers.py` and `bench_ring.py`: time over number of cells.

    python bench/plot.py bench/results/peers-<device>.json bench/results/ring-<device>.json

Needs matplotlib. The picture goes beside the JSON, as SVG.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito's palette, which colour-blind readers can tell apart; markers tell it once more.
STYLES: dict[str, dict[str, Any]] = {
    "memory floor": {"color": "black", "ls": "--", "lw": 2.2},
    "clhines auto": {"color": "#D55E00", "marker": "o", "lw": 3, "ms": 7, "zorder": 5},
    "clhines contraction": {"color": "#D55E00", "marker": "v"},
    "clhines fine": {"color": "#E69F00", "marker": "^"},
    "clhines block_interleaved": {"color": "#E69F00", "marker": "s"},
    "clhines interleaved": {"color": "#E69F00", "marker": "D", "ls": ":"},
    "clhines flat": {"color": "#E69F00", "marker": "x", "ls": ":"},
    "cuSPARSE gtsv2StridedBatch": {"color": "#009E73", "marker": "P"},
    "cuSPARSE gtsvInterleavedBatch": {"color": "#009E73", "marker": "X"},
    "C/OpenMP, equal trees": {"color": "#0072B2", "marker": "s"},
    "C/OpenMP, any trees": {"color": "#0072B2", "marker": "D"},
    "C, one thread": {"color": "#56B4E9", "marker": "o"},
    "Numba, one thread": {"color": "#56B4E9", "marker": "o"},
    "Numba, prange": {"color": "#56B4E9", "marker": "^"},
    "SciPy solve_banded": {"color": "#CC79A7", "marker": "s"},
    "SciPy solveh_banded": {"color": "#CC79A7", "marker": "D"},
    "SciPy splu": {"color": "#CC79A7", "marker": "v"},
    "Jaxley on CPU, vmap": {"color": "#666666", "marker": "x", "ls": ":"},
    "Jaxley on GPU, vmap": {"color": "#666666", "marker": "x", "ls": ":"},
    "Jaxley": {"color": "#666666", "marker": "*"},
    "NEURON": {"color": "#0072B2", "marker": "s"},
    "CoreNEURON": {"color": "#56B4E9", "marker": "D"},
    "Arbor": {"color": "#009E73", "marker": "^"},
}
OTHER = {"color": "#666666", "marker": "."}
LOOK = {"svg.fonttype": "path", "svg.hashsalt": "clhines", "font.size": 10}
UNITS = {1e-9: "ns", 1e-6: "µs", 1e-3: "ms", 1.0: "s"}


def pyplot() -> tuple[Any, Any]:
    """Return matplotlib and its pyplot, for pictures without a screen.

    Raises
    ------
    ImportError
        There is no matplotlib.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return mpl, plt


def style(name: str) -> dict[str, Any]:
    """Return how a line is drawn."""
    found = next((v for k, v in STYLES.items() if name.startswith(k)), OTHER)
    return {"lw": 1.2, "ms": 5, "mew": 0.8, **found}


def kinds(rows: list[dict[str, Any]]) -> list[str]:
    """Return the panels: one shape, several, all different, chains.

    Left out is a kind of which another panel has every point, as of one cell that has one shape.
    """
    order = {"1 shape": 0, "all different": 2, "chains": 3}
    names = sorted({r["kind"] for r in rows}, key=lambda k: (order.get(k, 1), k))
    points = {k: {i for i, r in enumerate(rows) if belongs(r, k)} for k in names}
    return [k for k in names if not any(points[k] < points[other] for other in names)]


def belongs(row: dict[str, Any], kind: str) -> bool:
    """Whether a row is a point of a panel: a few cells can be both 64 shapes and all different."""
    if row["kind"] == kind or "chains" in (row["kind"], kind):
        return bool(row["kind"] == kind)
    asked = {"1 shape": 1, "all different": row["cells"]}.get(kind) or int(kind.split()[0])
    return bool(row["shapes"] == min(asked, row["cells"]))


def lines(rows: list[dict[str, Any]], kind: str) -> dict[str, list[tuple[int, float]]]:
    """Return the points (cells, seconds) of each line of a panel, by name."""
    found: dict[str, list[tuple[int, float]]] = {}
    for r in rows:
        if belongs(r, kind):
            found.setdefault(line_name(r["name"]), []).append((r["cells"], r["seconds"]))
    return {name: sorted(points) for name, points in found.items()}


def line_name(name: str) -> str:
    """Return the line that a row belongs to: what `auto` took may change along the line."""
    return "clhines auto" if name.startswith("clhines auto") else name


def title(kind: str) -> str:
    """Return the title of a panel."""
    return {"chains": "Chains", "all different": "Trees, all different"}.get(
        kind, f"Trees of {kind}"
    )


def panel(axes: Any, rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Draw one panel; the lines by name."""
    drawn = {}
    for name, points in lines(rows, kind).items():
        drawn[name] = axes.plot(*zip(*points), label=name, **style(name))[0]
    axes.set(xscale="log", yscale="log", title=title(kind))
    axes.grid(True, which="major", lw=0.5, color="0.85")
    axes.xaxis.set_major_formatter(lambda v, _: f"{v:,.0f}")
    axes.yaxis.set_major_formatter(lambda v, _: duration(v))
    axes.minorticks_off()
    axes.xaxis.set_tick_params(labelbottom=True)
    return drawn


def duration(seconds: float) -> str:
    """Write a power of ten of seconds with its unit."""
    unit = max(u for u in (*UNITS, 0) if u <= seconds * 1.000001 or u == 0)
    return f"{seconds / unit:.0f} {UNITS[unit]}" if unit else f"{seconds:g} s"


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture of one result.

    Raises
    ------
    ImportError
        There is no matplotlib.
    """
    mpl, plt = pyplot()
    dtype = result["rows"][0]["dtype"]
    rows = [r for r in result["rows"] if r["dtype"] == dtype]
    names = kinds(rows)
    columns = min(2, len(names))
    height = -(-len(names) // columns)
    with mpl.rc_context(LOOK):
        figure, grid = plt.subplots(
            height,
            columns,
            figsize=(1.2 + 4.4 * columns + 2.6, 0.9 + 3.9 * height),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        drawn: dict[str, Any] = {}
        for axes, kind in zip(grid.flat, names):
            drawn |= panel(axes, rows, kind)
        for axes in grid.flat[len(names) :]:
            axes.set_axis_off()
        legend(figure, drawn)
        nodes = rows[0]["nodes"]
        figure.supxlabel(f"number of cells, of {nodes} nodes each")
        figure.supylabel(f"time of a solve, {dtype}")
        figure.suptitle(heading(result["record"], rows))
        save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a picture, the same bytes each time, and close it."""
    import matplotlib.pyplot as plt

    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=100)
    plt.close(figure)


def device_name(record: dict[str, Any]) -> str:
    """Return the device, platform and driver of a result."""
    return f"{record['device']} ({record['platform']}, {record['driver']})"


RING_OWN: dict[str, dict[str, Any]] = {  # by dtype, and by engine
    "float64": {"color": "#D55E00", "lw": 2.5},
    "float32": {"color": "#E69F00", "lw": 2.5},
    "epochs": {"marker": "o"},
    "steps": {"marker": "x", "ls": "--"},
}


def ring_style(name: str) -> dict[str, Any]:
    """Return how a line of the ring network is drawn."""
    if not name.startswith("clhines"):
        return style(name)
    found: dict[str, Any] = {"ms": 5, "zorder": 5}
    for word, how in RING_OWN.items():
        found |= how if word in name else {}
    return found


def draw_ring(result: dict[str, Any], path: Path) -> None:
    """Write the picture of a result of `bench_ring.py`.

    Raises
    ------
    ImportError
        There is no matplotlib.
    """
    mpl, plt = pyplot()
    rows = result["ring"]
    cases = list(dict.fromkeys(r["case"] for r in rows))
    width = min(2, len(cases))
    height = -(-len(cases) // width)
    with mpl.rc_context(LOOK):
        figure, grid = plt.subplots(
            height,
            width,
            figsize=(4.0 + 4.6 * width, 0.9 + 3.9 * height),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        drawn: dict[str, Any] = {}
        for axes, case in zip(grid.flat, cases):
            drawn |= ring_panel(axes, [r for r in rows if r["case"] == case])
            axes.set_title(case, fontsize=10)
        for axes in grid.flat[len(cases) :]:
            axes.set_axis_off()
        low, high = grid[0, 0].get_ylim()
        if high < 100 * low:  # else powers of ten are enough
            grid[0, 0].yaxis.set_major_locator(mpl.ticker.LogLocator(subs=(1, 2, 5)))
            grid[0, 0].yaxis.set_minor_locator(mpl.ticker.NullLocator())
        legend(figure, drawn)
        each = {r["compartments"] / r["cells"] for r in rows}
        figure.supxlabel(f"number of cells, {min(each):.0f} to {max(each):.0f} compartments each")
        figure.supylabel("time of a step of 0.025 ms")
        record = result["record"]
        others = sorted({r["where"] for r in rows if not r["name"].startswith("clhines")})
        text = f"clhines: {record['device']} ({record['platform']})"
        figure.suptitle(text + (f"; others: {', '.join(others)}" if others else ""))
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=100)
        plt.close(figure)


def ring_panel(axes: Any, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Draw one panel of the ring network; the lines by name."""
    drawn = {}
    for name in dict.fromkeys(r["name"] for r in rows):
        points = sorted((r["cells"], r["seconds"]) for r in rows if r["name"] == name)
        drawn[name] = axes.plot(*zip(*points), label=name, **ring_style(name))[0]
    cells = sorted({r["cells"] for r in rows})
    axes.set(xscale="log", yscale="log")
    axes.grid(True, which="major", lw=0.5, color="0.85")
    axes.set_xticks(cells, [f"{c:,}" for c in cells], rotation=45 if len(cells) > 4 else 0)
    axes.yaxis.set_major_formatter(lambda v, _: duration(v))
    axes.minorticks_off()
    return drawn


def heading(record: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """Say on what device it ran, and on what the other solvers did."""
    text = device_name(record)
    if any(r["clock"] == "device" for r in rows):
        text += f"; C, Numba and SciPy on the {record['host_cores']} cores of its host"
    return text


def legend(figure: Any, drawn: dict[str, Any]) -> None:
    """List the lines beside the panels, slowest at the largest batch first, as they end."""

    def end(line: Any) -> float:
        x, y = (np.asarray(v, float) for v in line.get_data())
        return float(y[-1] / x[-1])

    order = sorted(drawn, key=lambda name: -end(drawn[name]))
    handles = [drawn[name] for name in order]
    figure.legend(handles, order, loc="outside right center", frameon=False, handlelength=3)


def main() -> None:
    """Draw the pictures of the JSON files given."""
    for name in sys.argv[1:]:
        path = Path(name)
        result = json.loads(path.read_text("utf-8"))
        (draw_ring if "ring" in result else draw)(result, path.with_suffix(".svg"))


if __name__ == "__main__":
    main()
