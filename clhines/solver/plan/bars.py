"""Draw a plan: the work of its first block, with a bar for each branch or cell."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np

from clhines.core.errors import InputError
from clhines.core.files import PathLike
from clhines.core.pictures import check_format, new_figure, save, style

_BARRIER = "#D55E00"  # from Okabe and Ito's palette; no colour of cividis is like it
_WIDE, _HIGH, _LINE = 9.0, 4.8, 0.14  # inches: width, height of the axes, a line of text
_COVERED = 40.0  # most points of the width that all barriers together cover
_APART = 64  # most lanes with gaps between bars: gaps below a pixel only make patterns


@dataclass(frozen=True, eq=False)
class Bars:
    """The work of a block in the forward sweep, drawn as bars over lanes and steps.

    A bar is the work of one lane on one level. `start` is its first step, `lane` its lane, `length`
    its number of steps. `edges` are the steps at which levels begin and end.
    """

    start: np.ndarray
    lane: np.ndarray
    length: np.ndarray
    edges: np.ndarray
    lanes: int
    what: str


def first_block(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    """Return the bars of a launch's first block, from its spec and tables."""
    kinds = {"fine": _level_bars, "fine_vector": _vector_bars, "cell": _cell_bars}
    template = spec.template.rpartition("/")[2]
    if template not in kinds:
        raise InputError(
            f"plot() draws plans with one work-item per cell or branch; got {template!r}"
        )
    return kinds[template](spec, tables)


def _level_bars(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    template = int(tables["block_template"][0])
    levels = range(*tables["template_levels"][template : template + 2].tolist())
    begin, bars, edges = 0, [], [0]
    for level in levels:
        length = tables["branch_length"][slice(*tables["level_branches"][level : level + 2])]
        passes = -(-len(length) // spec.work_group)
        rows = np.zeros(passes * spec.work_group, np.int64)
        rows[: len(length)] = length
        ends = np.cumsum(rows.reshape(passes, -1), axis=0)
        start = (ends - rows.reshape(passes, -1)).reshape(-1)[: len(length)]
        lane = np.arange(len(length)) % spec.work_group
        bars.append((start + begin, lane, length.astype(np.int64)))
        begin += int(ends[-1].max())
        edges.append(begin)
    start, lane, length = (np.concatenate(a) for a in zip(*bars, strict=True))
    return Bars(start, lane, length, np.array(edges), spec.work_group, "branch")


def _vector_bars(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    width, template = spec.vector_width, int(tables["block_template"][0])
    first, end = tables["template_vectors"][template : template + 2].tolist()
    rows = tables["vector_rows"][first:end][::-1].astype(np.int64)
    begin = np.repeat(np.cumsum(rows) - rows, width)
    length = tables["lane_length"].reshape(-1, width)[first:end][::-1].reshape(-1)
    lane = np.tile(np.arange(width), end - first)
    used = length > 0
    edges = np.append(0, np.cumsum(rows))
    return Bars(begin[used], lane[used], length[used].astype(np.int64), edges, width, "branch")


def _cell_bars(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    lanes = min(len(tables["cell_size"]), spec.work_group * spec.vector_width)
    length = tables["cell_size"][:lanes].astype(np.int64)
    start, edges = np.zeros(lanes, np.int64), np.array([0, length.max()])
    return Bars(start, np.arange(lanes), length, edges, lanes, "cell")


@style()
def picture(
    bars: Bars, title: str, numbers: dict[str, str], notes: list[str], path: PathLike | None = None
) -> Any:
    """Draw the bars over lanes and steps, coloured by length, and below them the numbers."""
    check_format(path)
    lines = [f"{name:<17}{text}" for name, text in numbers.items()]
    middle = -(-len(lines) // 2)
    notes = [line for note in notes for line in textwrap.wrap(note, 110)]
    below = _LINE * (middle + len(notes) + 1.5)
    figure = new_figure(figsize=(_WIDE, _HIGH + below))
    from matplotlib.collections import PolyCollection

    axes, strip = figure.subplots(2, 1, height_ratios=[_HIGH, below])
    gap = 0.06 if bars.lanes <= _APART else 0
    left, top = bars.start, bars.lane + gap
    right, bottom = bars.start + bars.length, bars.lane + 1 - gap
    corners = np.stack((left, top, left, bottom, right, bottom, right, top), axis=1)
    drawn = PolyCollection(list(corners.reshape(-1, 4, 2)), cmap="cividis_r", lw=0)
    drawn.set_array(bars.length)
    drawn.set_clim(0, int(bars.length.max()))
    axes.add_collection(drawn)
    thin = min(0.8, _COVERED / len(bars.edges))
    axes.vlines(bars.edges[1:-1], 0, bars.lanes, color=_BARRIER, lw=thin)
    axes.set(xlim=(0, int(bars.edges[-1])), ylim=(bars.lanes, 0), facecolor="#e8e8e8", title=title)
    axes.set_xlabel("step of the forward sweep, from the roots outwards [nodes]")
    axes.set_ylabel("lane (work-item or lane of a vector)")
    axes.locator_params(integer=True)
    figure.colorbar(drawn, ax=axes, label=f"length of the {bars.what} [nodes]", pad=0.01)
    strip.axis("off")
    for x, text in (
        (0, "\n".join(lines[:middle])),
        (0.5, "\n".join(lines[middle:])),
        (0, "\n" * middle + "\n".join(notes)),
    ):
        shown = strip.text(x, 1, text, va="top", family="monospace", fontsize=8)
        shown.set_in_layout(False)
    save(figure, path)
    return figure
