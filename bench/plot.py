"""How pictures look: fonts, colours and lines, axes of times, legends, and how they are saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    "Jaxley GPU": {"color": "#666666", "marker": "*", "ls": "--"},
    "NEURON": {"color": "#0072B2", "marker": "s"},
    "CoreNEURON": {"color": "#56B4E9", "marker": "D"},
    "Arbor": {"color": "#009E73", "marker": "^"},
    "Arbor GPU": {"color": "#009E73", "marker": "^", "ls": "--"},
}
OTHER = {"color": "#666666", "marker": "."}
LOOK = {"svg.fonttype": "path", "svg.hashsalt": "clhines", "font.size": 10}
GRID = {"lw": 0.5, "color": "0.85"}
UNITS = {1e-9: "ns", 1e-6: "µs", 1e-3: "ms", 1.0: "s"}


@contextmanager
def picture(path: Path, font_size: float = 10) -> Iterator[Any]:
    """Give an empty figure, which is saved at the end: the same bytes each time."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context({**LOOK, "font.size": font_size}):
        figure = plt.figure(layout="constrained")
        yield figure
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=100)
        plt.close(figure)


def grid(
    figure: Any, count: int, width: tuple[float, float], height: tuple[float, float], **shared: Any
) -> list[Any]:
    """Return `count` axes, two panels in a row.

    Parameters
    ----------
    width, height : (float, float), inches
        Size of one panel, and of the margins around all panels.
    """
    columns = min(2, count)
    rows = -(-count // columns)
    figure.set_size_inches(width[0] * columns + width[1], height[0] * rows + height[1])
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for empty in axes[count:]:
        empty.set_axis_off()
    return axes[:count]


def style(name: str, styles: Mapping[str, dict[str, Any]] = STYLES) -> dict[str, Any]:
    prefixes = [k for k in styles if name.startswith(k)]
    return {"lw": 1.2, "ms": 5, "mew": 0.8, **styles.get(max(prefixes, key=len, default=""), OTHER)}


def lines(axes: Any, points: Mapping[str, Any], look: Any = style) -> dict[str, Any]:
    """Draw times over numbers of cells, both logarithmic; the lines by name."""
    drawn = {n: axes.plot(*zip(*sorted(p)), label=n, **look(n))[0] for n, p in points.items()}
    axes.set(xscale="log", yscale="log")
    axes.grid(True, which="major", **GRID)
    axes.yaxis.set_major_formatter(lambda v, _: duration(v))
    axes.minorticks_off()
    return drawn


def few_ticks(axis: Any) -> None:
    """Tick a short logarithmic axis at 1, 2 and 5; of a long one powers of ten are enough."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(NullLocator())


def duration(seconds: float) -> str:
    unit = max(u for u in (*UNITS, 0) if u <= seconds * 1.000001 or u == 0)
    return f"{seconds / unit:.0f} {UNITS[unit]}" if unit else f"{seconds:g} s"


def device_name(record: dict[str, Any]) -> str:
    return f"{record['device']} ({record['platform']}, {record['driver']})"


def legend(figure: Any, drawn: dict[str, Any]) -> None:
    """List the lines beside the panels, slowest at the largest batch first, as they end."""

    def end(line: Any) -> float:
        x, y = (np.asarray(v, float) for v in line.get_data())
        return float(y[-1] / x[-1])

    order = sorted(drawn, key=lambda name: -end(drawn[name]))
    handles = [drawn[name] for name in order]
    figure.legend(handles, order, loc="outside right center", frameon=False, handlelength=3)
