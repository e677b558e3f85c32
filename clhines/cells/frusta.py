"""Areas, axial resistances and centres of segments, from the frusta between 3-D points."""

from __future__ import annotations

import numpy as np

from clhines.arrays import starts
from clhines.cells.sections import Sections


def areas_and_resistances(
    sections: Sections, nseg: np.ndarray, Ra: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integrate over the frusta, cut at the ends and centres of the segments.

    Returns
    -------
    area : (num_segments,) float64, µm²
    left, right : (num_segments,) float64, MΩ
        Resistance from the beginning of a segment to its centre and from there to its end, which is
        infinite at a tip of diameter 0.
    """
    arc, diameter = sections.arc, sections.points[:, 3].astype(np.float64)
    section, cut = _cuts(sections, nseg)
    point_section = np.repeat(np.arange(sections.num_sections), np.diff(sections.offsets))
    all_section = np.concatenate([point_section, section])
    all_arc = np.concatenate([arc, cut])
    order = np.lexsort((all_arc, all_section))
    is_point = order < len(arc)
    all_section, all_arc = all_section[order], all_arc[order]

    piece = np.flatnonzero(all_section[1:] == all_section[:-1])  # from here to the next
    begin, end = all_arc[piece], all_arc[piece + 1]
    frustum = (np.cumsum(is_point) - 1)[piece]
    half = (np.cumsum(~is_point) + all_section)[piece]  # a section has a cut less than halves
    height = arc[frustum + 1] - arc[frustum]
    d0, d1 = diameter[frustum], diameter[frustum + 1]
    # Without height (points that coincide, or rounding in the sum swallowed it) it is a ring.
    solid = height > 0
    f0 = np.divide(begin - arc[frustum], height, out=np.zeros_like(height), where=solid)
    f1 = np.divide(end - arc[frustum], height, out=np.ones_like(height), where=solid)
    d0, d1 = (1 - f0) * d0 + f0 * d1, (1 - f1) * d0 + f1 * d1

    dx = end - begin
    ra = Ra[all_section[piece]] if isinstance(Ra, np.ndarray) else Ra
    num = 2 * int(nseg.sum())
    area = np.pi / 2 * (d0 + d1) * np.hypot(dx, (d1 - d0) / 2)
    with np.errstate(divide="ignore"):
        each = np.divide(0.01 * ra * 4 / np.pi * dx, d0 * d1, out=np.zeros_like(dx), where=dx > 0)
    ohmic = np.bincount(half, each, minlength=num)
    return np.bincount(half // 2, area, minlength=num // 2), ohmic[0::2], ohmic[1::2]


def _cuts(sections: Sections, nseg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Section (m,) int64 and arc (m,) float64, µm, of the centres and inner ends of segments."""
    counts = 2 * nseg - 1
    section = np.repeat(np.arange(sections.num_sections), counts)
    k = 1 + np.arange(len(section)) - starts(counts)[section]
    ds = (sections.length / nseg)[section]
    return section, (k // 2) * ds + (k % 2) * (ds / 2)


def centres(
    sections: Sections,
    nseg: np.ndarray,
    first: np.ndarray,
    junction: np.ndarray,
    num_nodes: int,
) -> np.ndarray:
    """(num_nodes, 3) float64, µm: position of each node on the axis."""
    xyz = sections.points[:, :3].astype(np.float64)
    centre = np.empty((num_nodes, 3))
    centre[0] = xyz[0]  # the root junction, if there is one
    ends = junction >= 0
    centre[junction[ends]] = xyz[sections.offsets[1:][ends] - 1]
    for s, (begin, stop) in enumerate(
        zip(sections.offsets[:-1], sections.offsets[1:], strict=True)
    ):
        x = (np.arange(nseg[s]) + 0.5) * (sections.length[s] / nseg[s])
        nodes = slice(first[s], first[s] + nseg[s])
        for axis in range(3):
            centre[nodes, axis] = np.interp(x, sections.arc[begin:stop], xyz[begin:stop, axis])
    return centre
