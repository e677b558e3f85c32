"""Pictures of plans (who works when in the first block) and of simulations.

Needs matplotlib, and only here.
"""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from clhines import files
from clhines.errors import InputError
from clhines.files import PathLike

FORMATS = (".png", ".svg", ".pdf")
_BARRIER = "#D55E00"  # of Okabe and Ito's palette; stands out from all of cividis
_WIDE, _HIGH, _LINE = 9.0, 4.8, 0.14  # inches: picture, bars with their axes, a line of text
_COVERED = 40.0  # points of the width that all barriers together may cover
_APART = 64  # lanes above which bars touch: gaps of less than a pixel only make patterns
_LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # the same palette


@dataclass(frozen=True, eq=False)
class Bars:
    """Work of one block in the forward sweep, from the root outwards.

    Attributes
    ----------
    start, lane, length : (num_bars,) int64
        Step at which a piece of work begins, who does it, and how many steps it takes.
    edges : (num_edges,) int64
        Steps at which all lanes wait for each other.
    lanes : int
    steps : int
    what : str
        Name of a bar.
    """

    start: np.ndarray
    lane: np.ndarray
    length: np.ndarray
    edges: np.ndarray
    lanes: int
    steps: int
    what: str


def first_block(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    """Work of the first block of a launch.

    Parameters
    ----------
    spec : FineSpec, FineVectorSpec or CellSpec
    tables : dict
        Of the same `plan.Part`.

    Raises
    ------
    InputError
        Other templates are not drawn.
    """
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
    begin, found, edges = 0, [], [0]
    for level in levels:
        length = tables["branch_length"][slice(*tables["level_branches"][level : level + 2])]
        passes = -(-len(length) // spec.work_group)
        rows = np.zeros(passes * spec.work_group, np.int64)
        rows[: len(length)] = length
        ends = np.cumsum(rows.reshape(passes, -1), axis=0)
        start = (ends - rows.reshape(passes, -1)).reshape(-1)[: len(length)]
        lane = np.arange(len(length)) % spec.work_group
        found.append((start + begin, lane, length.astype(np.int64)))
        begin += int(ends[-1].max())
        edges.append(begin)
    start, lane, length = (np.concatenate(a) for a in zip(*found, strict=True))
    return Bars(start, lane, length, np.array(edges), spec.work_group, begin, "branch")


def _vector_bars(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    width, template = spec.vector_width, int(tables["block_template"][0])
    first, end = tables["template_vectors"][template : template + 2].tolist()
    rows = tables["vector_rows"][first:end][::-1].astype(np.int64)
    begin = np.repeat(np.cumsum(rows) - rows, width)
    length = tables["lane_length"].reshape(-1, width)[first:end][::-1].reshape(-1)
    lane = np.tile(np.arange(width), end - first)
    used = length > 0
    edges = np.append(np.cumsum(rows) - rows, rows.sum())
    steps = int(rows.sum())
    return Bars(
        begin[used], lane[used], length[used].astype(np.int64), edges, width, steps, "branch"
    )


def _cell_bars(spec: Any, tables: dict[str, np.ndarray]) -> Bars:
    lanes = min(len(tables["cell_size"]), spec.work_group * spec.vector_width)
    length = tables["cell_size"][:lanes].astype(np.int64)
    start, steps = np.zeros(lanes, np.int64), int(length.max())
    return Bars(start, np.arange(lanes), length, np.array([0, steps]), lanes, steps, "cell")


def picture(
    bars: Bars, title: str, numbers: dict[str, str], notes: list[str], path: PathLike | None = None
) -> Any:
    """Draw the bars over lanes and steps, coloured by length, above a strip of numbers.

    Parameters
    ----------
    numbers : dict of name -> text
    notes : list of str
        Lines below the numbers.
    path : str or path, optional
        Ends in .png, .svg or .pdf; written where it is given.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        matplotlib is missing, or `path` has another ending.
    """
    check_format(path)
    lines = [f"{name:<17}{text}" for name, text in numbers.items()]
    middle = -(-len(lines) // 2)
    notes = [line for note in notes for line in textwrap.wrap(note, 110)]
    below = _LINE * (middle + len(notes) + 1.5)
    figure = _figure(figsize=(_WIDE, _HIGH + below))
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
    axes.set(xlim=(0, bars.steps), ylim=(bars.lanes, 0), facecolor="#e8e8e8", title=title)
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
    _save(figure, path)
    return figure


def activity(
    spikes: tuple[np.ndarray, np.ndarray],
    num_cells: int,
    traces: tuple[np.ndarray, np.ndarray, list[str]],
    title: str,
    path: PathLike | None = None,
) -> Any:
    """Draw spikes as a raster above voltages over time.

    Parameters
    ----------
    spikes : (k,) float, ms, and (k,) integer
        Times and cells.
    num_cells : int
    traces : (rows,) float, ms; (rows, r) float, mV; r names
        Voltages and whose they are.
    title : str
    path : str or path, optional
        Ends in .png, .svg or .pdf; written where it is given.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        matplotlib is missing, or `path` has another ending; times and cells of other lengths.
    """
    check_format(path)
    when, cell = spikes
    if len(when) != len(cell):
        raise InputError(f"got {len(when)} spike times and {len(cell)} cells; expected as many")
    figure = _figure(figsize=(9, 6))
    raster, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    # Only as far up as cells spike: in a short run of a large ring these are few.
    top = min(num_cells, max(10, int(1.2 * (cell.max() + 1)))) if len(cell) else num_cells
    size = min(max(2000.0 / top, 1.5), 60.0)  # points², so that many cells stay apart
    raster.scatter(when, cell, s=size, marker="|" if top <= 128 else ".", color="black")
    if not len(when):
        raster.text(0.5, 0.5, "no spikes", transform=raster.transAxes, ha="center")
    raster.set(ylim=(-0.5, top - 0.5), ylabel=f"cell, of {num_cells}", title=title)
    raster.yaxis.get_major_locator().set_params(integer=True)
    t, v, names = traces
    for k, name in enumerate(names):
        below.plot(t, v[:, k], lw=1.1, color=_LINES[k % len(_LINES)], label=name)
    below.set(xlabel="time [ms]", ylabel="voltage in the soma's middle [mV]")
    if len(t) > 1:
        below.set_xlim(float(t[0]), float(t[-1]))
    if names:
        below.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    for axes in (raster, below):
        axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)
    return figure


def check_format(path: PathLike | None) -> None:
    """Refuse a path that ends in none of `FORMATS`, and one that cannot be written to."""
    if path is None:
        return
    files.check_target(path)
    name = os.fsdecode(path)
    if Path(name).suffix.lower() not in FORMATS and not files.is_special(path):
        raise InputError(f"{name} cannot be drawn; expected a name in {', '.join(FORMATS)}")


def _save(figure: Any, path: PathLike | None) -> None:
    """Write a picture whole or not at all, in the format of its ending."""
    if path is None:
        return
    suffix = Path(os.fsdecode(path)).suffix.lower()
    with files.whole(path) as file:
        figure.savefig(file, format=(suffix if suffix in FORMATS else FORMATS[0])[1:])


def check_matplotlib() -> None:
    """Say how to get matplotlib where it is missing.

    Raises
    ------
    InputError
        It is missing.
    """
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise InputError("a plot needs matplotlib: pip install 'clhines[plot]'") from error


def _figure(**options: Any) -> Any:
    check_matplotlib()
    from matplotlib.figure import Figure

    return Figure(dpi=150, layout="constrained", **options)
