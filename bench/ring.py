"""The ring network in the 2018 report: random cells, and one event that travels around them.

Each cell has one synapse in the middle of its soma; a spike in cell c reaches cell c + 1 after a
delay. The cells are from `bench.cells.ring_cell` (Huber 2018, section 7, after the
Arbor repository's example). A step's work does not depend on spikes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from bench.cells import ring_cell
from clhines.core.checks import as_whole_number, check_room, shown
from clhines.core.errors import InputError
from clhines.simulator.cells.cable import Cable, discretise
from clhines.simulator.cells.sections import sections_of
from clhines.simulator.common.checks import as_seed
from clhines.simulator.network.network import Network

LEVELS, BRANCHING, COMPARTMENTS, STEMS = 5, 0.5, 11, 2  # about 300 compartments per cell
DELAY, START = 5.0, 1.0  # ms
WEIGHT, TAU, REVERSAL = 0.01, 2.0, 0.0  # µS, ms, mV
G_PAS, E_PAS = 1e-4, -65.0  # S/cm², mV
THRESHOLD, V_INIT = -20.0, -65.0  # mV
SHAPES = 64
_SHAPE_BYTES = 4096  # in the smallest cable


def ring_cables(
    num_shapes: int = SHAPES,
    levels: int = LEVELS,
    branching_probability: float = BRANCHING,
    compartments: int = COMPARTMENTS,
    seed: int = 0,
    stems: int = STEMS,
) -> list[Cable]:
    """Make different random cells, with equally many compartments in every branch.

    Parameters
    ----------
    num_shapes : int
        Number of cells; cell k does not depend on it.
    levels, branching_probability, compartments, stems
        As in `ring_cell`. A branch that continues without splitting is in the same section as the
        one before, which has the compartments of both, of equal length.
    seed : int
        The same seed gives the same cells.

    Returns
    -------
    list of Cable
        With ``Ra`` 100 Ω·cm, ``cm`` 1 µF/cm².

    Raises
    ------
    InputError
        An argument is out of range.
    """
    num_shapes, seed = as_whole_number("num_shapes", num_shapes, 1), as_seed(seed)
    check_room(_SHAPE_BYTES * num_shapes, f"{num_shapes} different cells")
    cables = []
    for k in range(num_shapes):
        rng = np.random.default_rng([seed, k])
        cell = ring_cell(
            levels, branching_probability, compartments, rng, stems=stems, name=f"ring-{k}"
        )
        sections = sections_of(cell)
        nseg = np.diff(sections.offsets) - 1
        nseg[0] = 1  # soma
        cables.append(discretise(sections, nseg=nseg))
    return cables


def ring_network(
    cables: Cable | Sequence[Cable],
    num_cells: int | None = None,
    hh: Literal["soma", "all"] = "soma",
    weight: float = WEIGHT,
    delay: float = DELAY,
) -> Network:
    """Connect cells in a ring: a spike of cell c sends an event to the soma of cell c + 1.

    Parameters
    ----------
    cables : Cable or sequence of Cable
        Repeated in turn for `num_cells` cells; from `ring_cables`, or any others.
    num_cells : int, optional
        Default: one cell for each cable.
    hh : {"soma", "all"}
        HH in the whole soma and passive dendrites (``pas``, `G_PAS` and `E_PAS`), or HH
        everywhere.
    weight : float, µS
        Of all connections, and of the event that starts the ring at `START` in cell 0.
    delay : float, ms
        Of all connections.

    Returns
    -------
    Network
        Groups in this order: ``hh``, ``pas`` (unless HH is everywhere), ``expsyn`` (one per cell;
        `TAU`, `REVERSAL`); cells spike at `THRESHOLD`.

    Raises
    ------
    InputError
        An argument is out of range, or `hh` is ``soma`` and a cell has no soma.
    """
    if not isinstance(hh, str) or hh not in ("soma", "all"):
        raise InputError(f"hh={shown(hh)}; expected 'soma' or 'all'")
    network = Network(cables, num_cells)
    for k, cable in enumerate(network.cables[: network.num_cells]):
        if hh == "soma" and not cable.sections.has_soma:
            raise InputError(
                f"hh='soma': cell {k} ({cable.name}) has no soma, no sample of type 1; expected "
                "HH everywhere (hh='all') or cells with somas"
            )
    network.insert("hh", at=hh)
    if hh == "soma":
        network.insert("pas", at="dendrites", g=G_PAS, e=E_PAS)
    synapses = network.add("expsyn", at=network.soma, tau=TAU, e=REVERSAL)
    before = (np.arange(network.num_cells) - 1) % network.num_cells
    network.connect(before, synapses, weight=weight, delay=delay)
    network.add_event(synapses, index=0, time=START, weight=weight)
    network.threshold = THRESHOLD
    return network
