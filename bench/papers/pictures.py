"""Pictures of the papers' figures: lines over the number of cells, and bars side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import plot

# Okabe and Ito's palette again, by line kind; markers distinguish lines with one colour.
LOOKS: dict[str, dict[str, Any]] = {
    "memory floor": {"color": "black", "ls": "--", "lw": 1.8, "marker": "."},
    "C, one thread": {"color": "#999999", "marker": "."},
    "C/OpenMP, cell by cell": {"color": "#0072B2", "marker": "s"},
    "old": {"color": "#0072B2", "marker": "s"},
    "fine, split": {"color": "#CC79A7", "marker": "D"},
    "fine": {"color": "#009E73", "marker": "^"},
    "flat": {"color": "#56B4E9", "marker": "o"},
    "full-interleaved": {"color": "#009E73", "marker": "^"},
    "Thomas": {"color": "#009E73", "marker": "^"},
    "block-interleaved": {"color": "#F0E442", "marker": "D", "mec": "black"},
    "block-shared": {"color": "#E69F00", "marker": "v"},
    "CR-PCR": {"color": "#CC79A7", "marker": "P"},
    "contraction": {"color": "#D55E00", "marker": "X", "ls": ":"},
    "auto": {"color": "#D55E00", "marker": "o", "lw": 2.4, "zorder": 5},
    "cuSPARSE gtsv2": {"color": "#666666", "marker": "P", "ls": ":"},
    "cuSPARSE": {"color": "#666666", "marker": "X", "ls": ":"},
    "C/OpenMP, equal": {"color": "#0072B2", "marker": "v", "ls": ":"},
    "C/OpenMP, any": {"color": "#56B4E9", "marker": "v", "ls": ":"},
    "Numba": {"color": "#999999", "marker": "^", "ls": ":"},
    "2 levels": {"color": "#56B4E9", "marker": "o"},
    "3 levels": {"color": "#E69F00", "marker": "v"},
    "4 levels": {"color": "#CC79A7", "marker": "D"},
    "padding skipped": {"color": "#0072B2", "marker": "s"},
    "padding computed": {"color": "#E69F00", "marker": "v"},
    "all of 256": {"color": "#56B4E9", "marker": "^"},
    "all of 512": {"color": "#CC79A7", "marker": "D"},
    "none": {"color": "#999999"},
    "balanced": {"color": "#0072B2"},
    "split, mean": {"color": "#E69F00"},
    "split, block": {"color": "#F0E442"},
    "packed, sorted": {"color": "#009E73"},
    "packed, best fit": {"color": "#56B4E9"},
    "levels shifted": {"color": "#CC79A7"},
    "all": {"color": "#D55E00"},
    "low": {"color": "black", "marker": "P"},
    "medium": {"color": "#E69F00", "marker": "v"},
    "high": {"color": "#56B4E9", "marker": "o"},
}

DEVICES = "of the devices"  # ends the line name for a batch that several devices share
STEPS = {"reduce": "#0072B2", "solve": "#D55E00", "substitute": "#009E73"}
SHADES = ("#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#D55E00", "#0072B2")


def look(name: str) -> dict[str, Any]:
    prefixes = [k for k in LOOKS if name.startswith(k)]
    style = {"lw": 1.4, "ms": 5, "mew": 0.7, **LOOKS.get(max(prefixes, key=len, default=""), {})}
    return style | ({"ls": "-."} if name.endswith(DEVICES) else {})


def sheet(
    result: dict[str, Any], path: Path, fill: Callable[[Any, dict[str, Any]], None], title: str
) -> None:
    """Write one figure's picture by `fill`, with a title and notes about scaling."""
    with plot.picture(path, font_size=9) as figure:
        fill(figure, result)
        head = f"{title}\n{plot.device_name(result['record'])}, {result['dtype']}"
        figure.suptitle(head, fontsize=10)
        if result["scaled"]:
            wide = int(figure.get_figwidth() * 15)
            text = "scaled: " + "; ".join(dict.fromkeys(result["scaled"]))
            figure.supxlabel(textwrap.fill(text, wide), fontsize=7, color="0.3")


def panels(figure: Any, rows: int, columns: int, **shared: Any) -> list[Any]:
    figure.set_size_inches(1.0 + 4.3 * columns, 1.4 + 3.5 * rows)
    return list(figure.subplots(rows, columns, squeeze=False, **shared).flat)


def names_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return a panel's lines; `auto` may choose different methods along one line."""
    return list(dict.fromkeys(r["name"] for r in rows))


def lines(
    axes: Any,
    rows: Sequence[dict[str, Any]],
    value: str,
    ylabel: str,
    xlabel: str = "number of cells",
    linear: bool = False,
) -> None:
    """Draw `value` over the number of cells, a line a name; logarithmic, or up from 0 `linear`."""
    for name in names_of(rows):
        points = sorted((r["cells"], r[value]) for r in rows if r["name"] == name)
        axes.plot(*zip(*points), label=name, **look(name))
    axes.set(xlabel=xlabel, ylabel=ylabel)
    counts(axes, [r["cells"] for r in rows])
    if linear:
        axes.set_ylim(0, None)
    elif "time" in ylabel:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda v, _: plot.duration(v))
        axes.yaxis.set_minor_formatter(lambda v, _: "")
    else:
        log_scale(axes)
    axes.grid(True, **plot.GRID)


def counts(axes: Any, numbers: Sequence[int]) -> None:
    places: list[int] = []
    for n in sorted(set(numbers)):
        if not places or n > 1.5 * places[-1]:
            places.append(n)
    axes.set_xscale("log")
    axes.set_xticks(places, [f"{p:,}" for p in places], rotation=30 if len(places) > 3 else 0)
    axes.minorticks_off()


def log_scale(axes: Any) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator

    low, high = axes.get_ylim()
    axes.set_yscale("log")
    axes.minorticks_off()
    is_short = low > 0 and high < 8 * low
    ticks = MaxNLocator(6) if is_short else LogLocator(base=10, subs=(1, 2, 5), numticks=12)
    axes.yaxis.set_major_locator(ticks)
    axes.yaxis.set_major_formatter(lambda v, _: short(v))


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def bars(
    axes: Any,
    rows: Sequence[dict[str, Any]],
    value: str,
    ylabel: str,
    group: str = "cells",
    names: Sequence[str] | None = None,
    log: bool = False,
) -> None:
    names = list(names or names_of(rows))
    groups = list(dict.fromkeys(r[group] for r in rows))
    width = 0.84 / len(names)
    for k, name in enumerate(names):
        value_of = {r[group]: r[value] for r in rows if r["name"] == name}
        at = [g for g, key in enumerate(groups) if key in value_of]
        shift = (k - (len(names) - 1) / 2) * width
        heights = [value_of[groups[g]] for g in at]
        drawn = axes.bar(np.array(at) + shift, heights, width, label=name, **bar_look(name))
        if len(names) * len(groups) <= 32:
            texts = [f"{h:.2g}" if h < 10 else f"{h:.0f}" for h in heights]
            axes.bar_label(drawn, texts, fontsize=6.5, padding=1)
    labels = [f"{g:,}" if isinstance(g, int) else str(g) for g in groups]
    axes.set_xticks(range(len(groups)), labels)
    axes.set_ylabel(ylabel)
    if log:
        log_scale(axes)
    axes.margins(y=0.12)
    axes.grid(True, axis="y", **plot.GRID)
    axes.set_axisbelow(True)


def bar_look(name: str) -> dict[str, Any]:
    if name == "memory floor":
        return {"color": "white", "ec": "black", "lw": 0.8, "hatch": ".."}
    style = look(name)
    hatch = "//" if style.get("ls") in (":", "-.") else None  # another bar has the same colour
    return {"color": style.get("color", "#666666"), "ec": "black", "lw": 0.4, "hatch": hatch}


def outer(axes: Sequence[Any]) -> None:
    for each in axes:
        if not each.get_subplotspec().is_first_col():
            each.set_ylabel("")


def legend(figure: Any, axes: Sequence[Any]) -> None:
    handles: dict[str, Any] = {}
    for each in axes:
        handles |= dict(zip(*each.get_legend_handles_labels()[::-1]))
    figure.legend(
        handles.values(), handles.keys(), loc="outside right upper", frameon=False, handlelength=2.6
    )
    width, height = figure.get_size_inches()
    figure.set_size_inches(max(width, 6.5) + 2.2, height)
