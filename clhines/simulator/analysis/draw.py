"""Draw cells and simulation results, in the style of ``clhines.mplstyle``."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from clhines.core.checks import as_text, real_numbers
from clhines.core.errors import InputError
from clhines.core.files import PathLike
from clhines.core.summary import counted
from clhines.simulator.analysis.pictures import check_format, new_figure, save, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike


__all__ = ["plot_morphology", "plot_raster", "plot_result", "plot_traces", "style"]
_THIN = 1.0  # points: width of the thinnest neurite
_DRAWN = 10  # most traces in a picture
_LOW = 2.6  # inches


def __dir__() -> list[str]:
    return __all__


@style()
def plot_raster(
    result: Any, title: str = "", ax: Axes | None = None, path: PathLike | None = None
) -> Figure:
    """Draw the spikes of cells over time, one row per cell.

    Parameters
    ----------
    result : Result
        From `Simulation.run`. Events of sources that are not cells are not drawn.
    title : str
    ax : matplotlib.axes.Axes, optional
        Axes to draw into; default: a new figure.
    path : str or path, optional
        File to write, .png, .svg or .pdf.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        matplotlib is not installed, or the suffix of `path` is not supported.
    """
    with _drawing(ax, path, (9, 4)) as (figure, axes):
        _raster(axes, result)
        axes.set_title(title, loc="left")
        axes.set_xlabel("time [ms]")
    return figure


@style()
def plot_traces(
    result: Any,
    record: int | str | None = None,
    names: Sequence[str] | None = None,
    title: str = "",
    ax: Axes | None = None,
    path: PathLike | None = None,
) -> Figure:
    """Draw records over time, one line per column.

    Parameters
    ----------
    result : Result
        From `Simulation.run`.
    record : int or str, optional
        The number that `Simulation.record` returned, or the record's name. Default: all voltages
        with rows, also with ``every``; without voltages, all records with rows in the unit of the
        first. A note names the records that are left out. At most ten lines are drawn; the title
        says if there are more.
    names : sequence of str, optional
        Names of the lines; default: `Result.columns`.
    title, ax, path
        As in `plot_raster`.

    Raises
    ------
    InputError
        As in `plot_raster`; there is no such record, or the number of `names` is wrong.
    """
    with _drawing(ax, path, (9, 4)) as (figure, axes):
        left_out = _traces(axes, result, record, names, is_beside=ax is None)
        axes.set_title("; ".join(filter(None, (title, left_out))), loc="left")
    return figure


@style()
def plot_result(
    result: Any,
    record: int | str | None = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    path: PathLike | None = None,
) -> Figure:
    """Draw spikes as in `plot_raster`, and below them records as in `plot_traces`.

    The default `title` has the spike and cell counts; for other arguments see `plot_traces`.
    """
    check_format(path)
    figure = new_figure(figsize=(9, 6))
    heights = [3, 2] if _top(result) > 4 else [1, 4]
    raster, below = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    count = _raster(raster, result)
    left_out = _traces(below, result, record, names)
    counts = f"{counted(count, 'spike')} of {counted(result.num_cells, 'cell')}"
    title = counts if title is None else as_text("title", title)
    raster.set_title("; ".join(filter(None, (title, left_out))), loc="left")
    save(figure, path)
    return figure


def _top(result: Any) -> int:
    cells = result.spike_cell[result.spike_cell < result.num_cells]
    few = max(10, int(1.2 * (cells.max() + 1))) if len(cells) else result.num_cells
    return min(result.num_cells, few)


def _raster(axes: Any, result: Any) -> int:
    of_cells = result.spike_cell < result.num_cells
    when, cell, top = result.spike_time[of_cells], result.spike_cell[of_cells], _top(result)
    size = min(max(2000.0 / top, 1.5), 60.0)  # points², small enough to separate many cells
    axes.scatter(when, cell, s=size, marker="|" if top <= 128 else ".", color="black")
    if top < result.num_cells:
        _note(axes, f"cells {top} to {result.num_cells - 1}, without spikes, are not shown")
    if not len(when):
        axes.text(0.5, 0.5, "no spikes", transform=axes.transAxes, ha="center")
    axes.set(ylim=(-0.5, top - 0.5), ylabel="cell")
    axes.yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    if len(result.t) > 1:
        axes.set_xlim(float(result.t[0]), float(result.t[-1]))
    return len(when)


def _traces(
    axes: Axes,
    result: Any,
    record: int | str | None,
    names: Sequence[str] | None,
    is_beside: bool = True,
) -> str:
    """Draw records with a legend; return a note if some lines are left out, or ''."""
    lines, label, others = result.traces(record)
    default = [name for *_, names_of_record in lines for name in names_of_record]
    names = default if names is None else list(names)
    if len(names) != len(default):
        raise InputError(f"got {len(names)} names for {len(default)} lines; expected as many")
    columns = [(t, column) for t, rows, _ in lines for column in rows.T]
    for name, (t, column) in zip(names[:_DRAWN], columns, strict=False):
        axes.plot(t, column, lw=1.1, label=name, marker="." if len(t) == 1 else "")
    axes.set(xlabel="time [ms]", ylabel=label)
    axes.ticklabel_format(axis="y", useOffset=False)
    if not columns:
        text = "no record with rows" if others else "nothing recorded"
        axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center")
    if others:
        _note(axes, f"not drawn: {', '.join(others)}")
    _limit_times(axes, [result.t, *(t for t, *_ in lines)])
    if names and is_beside:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    elif names:
        axes.legend()
    return f"{_DRAWN} of {len(names)} traces" if len(names) > _DRAWN else ""


def _limit_times(axes: Axes, times: Sequence[np.ndarray]) -> None:
    ends = [end for t in times if len(t) for end in t[[0, -1]]]
    if ends and min(ends) < max(ends):
        axes.set_xlim(float(min(ends)), float(max(ends)))


def _note(axes: Axes, text: str) -> None:
    axes.set_title(textwrap.shorten(text, 100), loc="right", fontsize=8, color="0.35")


@contextmanager
def _drawing(
    ax: Axes | None, path: PathLike | None, size: tuple[float, float]
) -> Iterator[tuple[Figure, Axes]]:
    check_format(path)
    axes = new_figure(figsize=size).subplots() if ax is None else ax
    figure = _figure_of(axes)
    yield figure, axes
    save(figure, path)


def _figure_of(ax: object) -> Any:
    if not hasattr(ax, "get_figure"):
        raise InputError(f"ax is {type(ax).__name__}; expected matplotlib's Axes")
    return ax.get_figure()


@style()
def plot_morphology(
    cable: Any,
    values: ArrayLike,
    label: str = "",
    titles: Sequence[str] | None = None,
    limits: tuple[float, float] | None = None,
    ax: Axes | None = None,
    path: PathLike | None = None,
) -> Figure:
    """Draw values at the nodes of a cell as colours on its branches.

    The cell is drawn in the plane of its two largest extents, with the diameters of its sections;
    neurites thinner than a line are drawn as a line.

    Parameters
    ----------
    cable : Cable
    values : (n,) or (k, n) array
        A value per node of the cable; each row gets a panel, on a common scale. Junctions, which
        have no membrane, are not drawn. Values that are not finite are grey.
    label : str
        Label of the colour bar, with a unit.
    titles : sequence of str, optional
        Titles of the panels.
    limits : (float, float), optional
        Ends of the colour bar; default: the smallest and the largest value.
    ax : matplotlib.axes.Axes, optional
        Axes to draw into, for one row of values; default: a new figure.
    path : str or path, optional
        As in `plot_raster`.

    Raises
    ------
    InputError
        As in `plot_raster`; or the shapes do not fit.
    """
    check_format(path)
    if not hasattr(cable, "first_node"):
        raise InputError(f"cable is {type(cable).__name__}; expected a Cable from discretise()")
    rows = np.atleast_2d(real_numbers("values", values).astype(np.float64))
    if rows.ndim != 2 or not len(rows) or rows.shape[1] != cable.num_nodes:
        raise InputError(
            f"values have shape {np.shape(values)}; expected ({cable.num_nodes},) or "
            f"(k, {cable.num_nodes}), a value for each node of the cable"
        )
    titles = [""] * len(rows) if titles is None else list(titles)
    if len(titles) != len(rows):
        raise InputError(
            f"got {len(titles)} titles for {len(rows)} rows of values; expected as many"
        )
    if ax is not None and len(rows) > 1:
        raise InputError(f"ax with {len(rows)} rows of values; expected one row")
    figure = _panels(cable, rows, titles, limits, label, ax)
    save(figure, path)
    return figure


def _panels(
    cable: Any,
    rows: np.ndarray,
    titles: list[str],
    limits: tuple[float, float] | None,
    label: str,
    ax: Axes | None,
) -> Figure:
    finite = rows[np.isfinite(rows)]
    limits = limits or ((finite.min(), finite.max()) if len(finite) else (0.0, 1.0))
    node, ends, diameters = _frusta(cable)
    extent = np.ptp(ends.reshape(-1, 3), axis=0)
    plane = np.sort(np.argsort(extent, kind="stable")[1:])
    outlines = _outlines(ends[:, :, plane], diameters)
    corners = outlines.reshape(-1, 2)
    wide, high = np.maximum(np.ptp(corners, axis=0), 0.15 * extent.max()) + 0.08 * extent.max()
    columns = min(len(rows), 4)
    lines = -(-len(rows) // columns)
    side = min(4.0, 10.0 / columns)
    tall = side * min(2.0, high / wide) * lines
    is_low = tall < _LOW  # no room for a label beside the colour bar
    size = side * columns + 1.0, max(tall, 1.0 * lines) + 0.9 if is_low else tall
    if ax is None:
        figure = new_figure(figsize=size)
        panels = figure.subplots(lines, columns, squeeze=False).reshape(-1)
    else:
        figure, panels = _figure_of(ax), np.array([ax])
    (x, y) = (corners.min(axis=0) + corners.max(axis=0)) / 2
    for axes, row, title in zip(panels, rows, titles, strict=False):
        drawn = _drawn(axes, outlines, diameters.max(axis=1), row[node])
        drawn.set_clim(*limits)
        axes.set(title=title, aspect="equal")
        axes.set(xlim=(x - wide / 2, x + wide / 2), ylim=(y - high / 2, y + high / 2))
    for axes in panels:
        axes.axis("off")
    _scale_bar(panels[0], float(extent.max()))
    place = "bottom" if is_low and ax is None else "right"
    figure.colorbar(drawn, ax=list(panels), label=label, shrink=0.7, pad=0.02, location=place)
    return figure


def _frusta(cable: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut sections at 3-D points and segment ends into m frusta.

    Return each one's node, (m,), ends, (m, 2, 3), and diameters there, (m, 2), µm.
    """
    node, ends, diameters = [], [], []
    points = cable.sections.points.astype(np.float64)
    for s, count in enumerate(cable.nseg.tolist()):
        p = points[slice(*cable.sections.offsets[s : s + 2])]
        at = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(p[:, :3], axis=0), axis=1)))
        cuts = np.unique(np.concatenate((at, np.linspace(0.0, at[-1], count + 1))))
        cut_points = np.stack([np.interp(cuts, at, column) for column in p.T], axis=1)
        middle = (cuts[1:] + cuts[:-1]) / 2
        segment = np.minimum((middle / at[-1] * count).astype(np.int64), count - 1)
        node.append(cable.first_node[s] + segment)
        pairs = np.stack((cut_points[:-1], cut_points[1:]), axis=1)
        ends.append(pairs[:, :, :3])
        diameters.append(pairs[:, :, 3])
    return np.concatenate(node), np.concatenate(ends), np.concatenate(diameters)


def _outlines(ends: np.ndarray, diameters: np.ndarray) -> np.ndarray:
    along = ends[:, 1] - ends[:, 0]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    across = np.stack((-along[:, 1], along[:, 0]), axis=1) / np.where(length > 0, length, 1.0)
    half = across[:, None] * diameters[:, :, None] / 2
    left, right = ends - half, ends + half
    return np.stack((left[:, 0], left[:, 1], right[:, 1], right[:, 0]), axis=1)


def _drawn(
    axes: Axes, outlines: np.ndarray, width: np.ndarray, values: np.ndarray
) -> PolyCollection:
    """Draw frusta, thin ones first, coloured by `values`; edges close gaps between neighbours."""
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection

    colours = colormaps["cividis"].with_extremes(bad="0.7")
    order = np.argsort(width, kind="stable")
    drawn = PolyCollection(list(outlines[order]), linewidths=_THIN, edgecolors="face", cmap=colours)
    drawn.set_joinstyle("round")
    drawn.set_array(np.ma.masked_invalid(values[order]))
    axes.add_collection(drawn)
    return drawn


def _scale_bar(axes: Axes, extent: float) -> None:
    power = 10.0 ** np.floor(np.log10(extent / 3))
    length = power * max(k for k in (1, 2, 5) if k * power <= extent / 3)
    (left, right), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    x = left + 0.02 * (right - left)
    axes.plot([x, x + length], [bottom] * 2, color="black", lw=1.5, ls="-", clip_on=False)
    axes.text(x, bottom, f"{length:g} µm", va="bottom", fontsize=8)
