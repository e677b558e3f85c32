"""Currents that an extracellular potential drives into nodes.

The potential inside a node is v + phi, where phi is the potential outside. So the current from node
j into node i is ``g (v_j - v_i) + g (phi_j - phi_i)``: a cell in a field obeys the usual equations,
with an additional current ``sum of g (phi_j - phi_i)`` into each node. NEURON also solves for the
potential outside; with its default xg, xc and xraxial this is e_extracellular to within 1e-9 mV. It
reads e_extracellular in the middle of a step, as `t` in a BREAKPOINT.

If nodes have layers around them, phi is the ground behind the outermost layer and drives the
current ``g_around phi`` from there. Potentials in between are unknowns of the step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from clhines.core.checks import as_indices, as_real, as_switch
from clhines.core.errors import InputError, shown
from clhines.simulator.cells.around import Enclosing
from clhines.simulator.mechanisms import Mechanism
from clhines.solver.forest import Forest

MOST = 8000  # all waveforms' values together
_TEXT = """
NEURON {{ POINT_PROCESS {name} RANGE amp, scale{which}, i ELECTRODE_CURRENT i }}
PARAMETER {{ amp = 0 (nA) scale = 1{first} }}
ASSIGNED {{ i (nA) }}
FUNCTION_TABLE value(t (ms){which})
BREAKPOINT {{ i = scale*amp*value(t{which}) }}
"""


def driven_currents(
    parent: np.ndarray, g_axial: np.ndarray, around: Enclosing | None, potential: np.ndarray
) -> np.ndarray:
    """Return the currents into nodes that extracellular potentials drive, (k, n) float64, nA.

    `potential` is (k, n), mV; `g_axial` is the conductance from each node to its `parent`, µS.
    """
    currents, outside = np.zeros(potential.shape), potential.copy()
    if around is not None:
        layered = around.node >= 0
        outside[:, layered | ~around.inner] = 0
        last = np.flatnonzero(~around.inner & ~layered)
        currents[:, last] = around.g[last] * potential[:, last]
    below = np.flatnonzero(parent >= 0)
    above = parent[below]
    for row, phi in zip(currents, outside, strict=True):
        flow = g_axial[below] * (phi[above] - phi[below])
        row += np.bincount(below, flow, len(row)) - np.bincount(above, flow, len(row))
    return currents


def field_mechanism(
    name: str, t: ArrayLike, y: ArrayLike, continuous: bool
) -> tuple[Mechanism, int]:
    """Make a point process with the current ``scale*amp*y(t)``; return it and the waveform count.

    The waveforms, rows of `y`, are (m,) or (k, m), at times `t`, (m,) ms.
    """
    times, values = as_real("t", t, "ms"), as_real("y", y)
    rows = np.atleast_2d(values)
    if times.ndim != 1 or rows.ndim != 2 or rows.shape[1] != len(times) or not rows.size:
        raise InputError(
            f"t has shape {times.shape}, y {values.shape}; expected (m,), and (m,) or (k, m)"
        )
    if (np.diff(times) < 0).any():
        raise InputError("t goes back in time; expected ascending times")
    if not as_switch("continuous", continuous):  # 0, then each value until the next
        rows = np.repeat(np.insert(rows, 0, 0, axis=1), 2, axis=1)[:, 1:-1]
        times = np.repeat(times, 2)
    if rows.size > MOST:
        raise InputError(f"waveforms have {rows.size} values; expected at most {MOST}")
    table: tuple[np.ndarray, ...] = (times, rows[0])
    text = _TEXT.format(name=name, which="", first="")
    if len(rows) > 1:
        table = (times, np.arange(len(rows)), rows.T)
        text = _TEXT.format(name=name, which=", waveform", first=" waveform = 0")
    return Mechanism.from_nmodl(text, function_tables={"value": table}), len(rows)


def field_of(
    cells: tuple[Forest, np.ndarray, Enclosing | None],
    name: str,
    potential: ArrayLike,
    waveform: object,
    of_cell: ArrayLike | None,
    continuous: bool,
) -> tuple[Mechanism, np.ndarray, dict[str, Any]]:
    """Return the mechanism of `Network.field`, its nodes and its parameters; arguments as there.

    `cells`: forest, conductance from each node to its parent, µS, and nodes around others.
    """
    (forest, g_axial, around), values = cells, as_real("potential", potential, "mV")
    n = forest.num_nodes
    if values.ndim not in (1, 2) or values.shape[-1] != n:
        raise InputError(
            f"potential has shape {values.shape}; expected ({n},), one for each node, or (k, {n})"
        )
    if not isinstance(waveform, tuple) or len(waveform) != 2:
        raise InputError(f"waveform is {shown(waveform)}; expected a tuple of t and y")
    mechanism, count = field_mechanism(name, *waveform, continuous)
    rows = np.atleast_2d(values)
    if of_cell is not None:
        which = as_indices("of_cell", of_cell, count, "waveform")
        if len(rows) > 1 or which.shape != (forest.num_cells,):
            raise InputError(
                f"of_cell has shape {which.shape} with {len(rows)} potentials; expected "
                f"({forest.num_cells},) with one"
            )
        row = np.repeat(which, forest.sizes)[None]
    elif len(rows) != count:
        raise InputError(
            f"potential has {len(rows)} rows for {count} waveforms; expected a row for each, or "
            "of_cell"
        )
    else:
        row = np.repeat(np.arange(count)[:, None], n, axis=1)
    currents = driven_currents(forest.parent, g_axial, around, rows)
    nodes, which = np.nonzero(currents.T)
    parameters = {"amp": currents[which, nodes], "scale": np.ones(len(nodes))}
    if count > 1:
        parameters["waveform"] = row[which, nodes].astype(np.float64)
    return mechanism, nodes, parameters
